"""Fingerprinting a background: was this record among those that one decision was compared with?

The Shapley values of a decision hold, feature by feature, the mean of the background. One explanation is as many means as the
model has features.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

import pellucid as pel

from . import published
from .base import columns, session, units
from .membership import Membership, Told
from .scorecard import FEATURES, WEIGHTS, answer, model, record


@dataclass(frozen=True)
class Background(Membership):
    """The Shapley values of one decision of a scorecard, against a private background."""

    name: ClassVar[str] = "background"
    title: ClassVar[str] = "Was this record in the background of a decision? From its Shapley values"
    released: ClassVar[str] = f"{FEATURES} Shapley values of one decision, background of 30"

    @cached_property
    def asked(self) -> np.ndarray:
        """The record whose decision is explained."""
        return np.random.default_rng([self.seed, 5]).random(FEATURES)

    def draw(self, rng: np.random.Generator, size: int) -> np.ndarray:
        return rng.random((size, FEATURES))

    def parts(self, rows: np.ndarray) -> np.ndarray:
        return WEIGHTS * (self.asked - rows)

    def published(self, rows: np.ndarray, epsilon: float, rng: np.random.Generator) -> Mapping[str, Told]:
        return published.values(answer, self.asked, rows, epsilon, rng)

    def ours(self, rows: np.ndarray, epsilon: float) -> Told:
        asked = pel.ShapValues(model(), record(self.asked), permutations=2)
        made = session(columns(rows), units(FEATURES), epsilon).release(asked, epsilon=epsilon)
        return Told(made.values, made.law.std**2)  # type: ignore[attr-defined]
