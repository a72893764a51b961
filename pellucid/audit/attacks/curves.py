"""Membership from partial dependence curves: where features interact, every person bends every curve in their own way."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

import pellucid as pel

from .base import columns, session, units
from .membership import Membership, Told

FEATURES, POINTS = 12, 5


@dataclass(frozen=True)
class Curves(Membership):
    """A small network with interactions; all of its partial dependence curves."""

    name: ClassVar[str] = "curves"
    title: ClassVar[str] = "Was this person in the table? From partial dependence curves"
    released: ClassVar[str] = f"{FEATURES} curves of {POINTS} points, 30 people"

    @cached_property
    def _network(self) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng(7)
        return rng.normal(0, 3, (FEATURES, 60)), rng.normal(0, 0.25, 60)

    def answer(self, rows: np.ndarray) -> np.ndarray:
        """The model: a probability."""
        first, second = self._network
        return 1 / (1 + np.exp(-np.tanh((rows - 0.5) @ first) @ second))

    def draw(self, rng: np.random.Generator, size: int) -> np.ndarray:
        return rng.random((size, FEATURES))

    def parts(self, rows: np.ndarray) -> np.ndarray:
        first, second = self._network
        inner = (rows - 0.5) @ first
        found = []
        for j in range(FEATURES):
            for value in np.linspace(0, 1, POINTS):
                moved = inner + (value - rows[:, j])[:, None] * first[j]
                found.append(1 / (1 + np.exp(-np.tanh(moved) @ second)))
        return np.stack(found, axis=1)

    def ours(self, rows: np.ndarray, epsilon: float) -> Told:
        names = [f"x{j}" for j in range(FEATURES)]
        model = pel.Model(lambda d: self.answer(d[names].to_numpy(float)), output=(0, 1), features=names, trained_on="other data")
        asked = pel.PartialDependence(model, names, points=POINTS, method="values")
        made = session(columns(rows), units(FEATURES), epsilon).release(asked, epsilon=epsilon)
        curves = [made.curves[name] for name in names]  # type: ignore[attr-defined]
        noise = curves[0].law.std / 2 / len(rows)
        return Told(np.concatenate([curve.y for curve in curves]), noise**2)
