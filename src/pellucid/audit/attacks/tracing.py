"""Tracing: a person's many attributes against the released shares of each (Homer et al. 2008, Dwork et al. 2015).

Whoever is in the table has pulled every share a little towards their own attributes. A pull of one part in n is nothing in one
share and a signature in hundreds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

import pellucid as pel

from .base import EXACT, Against, Attack, auc, columns, printed, session
from .membership import STRANGERS

PEOPLE, ATTRIBUTES = 50, 100


@dataclass(frozen=True)
class Tracing(Attack):
    """Yes-or-no attributes with known shares in the population; the shares in a table of few people."""

    name: ClassVar[str] = "tracing"
    title: ClassVar[str] = "Was this person in the table? From the shares of many attributes"
    released: ClassVar[str] = f"histograms of {ATTRIBUTES} yes-or-no attributes, {PEOPLE} people"

    @cached_property
    def usual(self) -> np.ndarray:
        """The share of each attribute in the population."""
        return np.random.default_rng(self.seed).uniform(0.2, 0.8, ATTRIBUTES)

    def trial(self, rng: np.random.Generator) -> Mapping[Against, float]:
        inside, outside = (rng.random((size, ATTRIBUTES)) < self.usual for size in (PEOPLE, STRANGERS * PEOPLE))
        shares = {EXACT: printed(inside.mean(axis=0))}
        for epsilon in self.epsilons:
            shares[Against("ours", epsilon)] = self.ours(inside, epsilon)
        return {against: auc(self.scores(inside, told), self.scores(outside, told)) for against, told in shares.items()}

    def scores(self, people: np.ndarray, shares: np.ndarray) -> np.ndarray:
        """The inner product of a person and the release, both counted from the population."""
        return (people - self.usual) @ (shares - self.usual)

    def ours(self, table: np.ndarray, epsilon: float) -> np.ndarray:
        names = [f"x{j}" for j in range(ATTRIBUTES)]
        schema = pel.Schema({name: pel.Boolean(missing=False) for name in names})
        made = session(columns(table), schema, epsilon).release(pel.Distribution(names), epsilon=epsilon)
        counts = np.array([made.curves[name].counts for name in names])  # type: ignore[attr-defined]
        # Both counts are noisy and their sum is known: half their difference is the better estimate.
        return 0.5 + (counts[:, 1] - counts[:, 0]) / (2 * len(table))
