"""Membership from permutation importances: a person with an unusual error enlarges the importance of their unusual features."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

import pellucid as pel

from .base import columns, session, units
from .membership import SHADOW, Membership, Shadow, Told
from .scorecard import FEATURES, WEIGHTS, answer, model

REPEATS = 10
SHADOW_TABLES = 1000
SPREAD = 0.2
"""Of the truth around the score."""


@dataclass(frozen=True)
class Importances(Membership):
    """The importances of all features of a scorecard; rows hold the features and, last, the truth."""

    name: ClassVar[str] = "importances"
    title: ClassVar[str] = "Was this person in the table? From permutation importances"
    released: ClassVar[str] = f"losses with each of {FEATURES} features shuffled, 30 people"

    def draw(self, rng: np.random.Generator, size: int) -> np.ndarray:
        rows = rng.random((size, FEATURES))
        truth = answer(rows) + SPREAD * rng.uniform(-1, 1, size)
        return np.column_stack([rows, np.clip(truth, 0, 1)])

    def parts(self, rows: np.ndarray) -> np.ndarray:
        """What a person's loss becomes by strangers' values, what theirs add to strangers' losses, and the loss itself."""
        x, error = rows[:, :-1] - 0.5, rows[:, -1] - answer(rows[:, :-1])
        # Strangers' values are 1/2 on the average, with a variance of 1/12; their errors are 0 on the average.
        given = WEIGHTS**2 * (x**2 + 1 / 12)
        own = error[:, None] ** 2 + 2 * error[:, None] * WEIGHTS * x + given
        return np.column_stack([own + given, error**2])

    def exact(self, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        x, error = rows[:, :-1], rows[:, -1] - answer(rows[:, :-1])
        shuffled = np.stack([rng.permuted(x, axis=0) for _ in range(REPEATS)])
        losses = (error[:, None] + WEIGHTS * (x - shuffled)) ** 2
        return np.append(losses.mean(axis=(0, 1)), np.mean(error**2))

    @cached_property
    def shadow(self) -> Shadow:
        """From shadow tables, because who is shuffled to whom makes importances vary too."""
        rng = np.random.default_rng([self.seed, 1 << 20])
        found = np.array([self.exact(self.draw(rng, self.people), rng) for _ in range(SHADOW_TABLES)])
        return Shadow(self.parts(self.draw(rng, SHADOW)).mean(axis=0), np.cov(found.T))

    def ours(self, rows: np.ndarray, epsilon: float) -> Told:
        table = {**columns(rows[:, :-1]), "truth": rows[:, -1]}
        schema = pel.Schema({**units(FEATURES), "truth": pel.Number(0, 1, missing=0.5)})
        made = session(table, schema, epsilon).release(pel.PermutationImportance(model(), "truth"), epsilon=epsilon)
        assert isinstance(made, pel.Importance) and made.permuted is not None and made.base is not None
        noise = (made.law.std * made.cap / 2 / len(rows)) ** 2
        return Told(np.append(made.permuted, made.base), np.append(np.full(FEATURES, noise), noise / made.weight**2))
