"""Membership from Shapley importance: the mean sizes of everybody's Shapley values are means of what each person has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

import pellucid as pel

from .base import columns, session, units
from .membership import Membership, Told
from .scorecard import FEATURES, NAMES, WEIGHTS, model

MIDDLE = dict.fromkeys(NAMES, 0.5)


@dataclass(frozen=True)
class Sizes(Membership):
    """The mean |Shapley value| of all features of a scorecard, against a public background."""

    name: ClassVar[str] = "shapley-importance"
    title: ClassVar[str] = "Was this person in the table? From Shapley importances"
    released: ClassVar[str] = f"mean |Shapley value| of {FEATURES} features, 30 people"

    def draw(self, rng: np.random.Generator, size: int) -> np.ndarray:
        return rng.random((size, FEATURES))

    def parts(self, rows: np.ndarray) -> np.ndarray:
        return np.abs(WEIGHTS * (rows - 0.5))

    def ours(self, rows: np.ndarray, epsilon: float) -> Told:
        asked = pel.ShapImportance(model(), public_background=[MIDDLE], permutations=2)
        made = session(columns(rows), units(FEATURES), epsilon).release(asked, epsilon=epsilon)
        noise = made.law.std * made.radius / len(rows)  # type: ignore[attr-defined]
        return Told(made.values, noise**2)  # type: ignore[attr-defined]
