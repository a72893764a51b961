"""Membership from partial dependence curves: where features interact, every person bends every curve in their own way."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

import pellucid as pel

from ...public.rows import Rows
from ...query import Sum
from ...release.plan import Plan
from .base import columns, session, units
from .membership import Membership, Told, View

FEATURES, POINTS = 12, 5
NAMES = [f"x{j}" for j in range(FEATURES)]
WAYS = {"ours, by default": "auto", "ours, by differences": "variation"}


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

    @cached_property
    def _model(self) -> pel.Model:
        return pel.Model(lambda d: self.answer(d[NAMES].to_numpy(float)), output=(0, 1), features=NAMES, trained_on="other data")

    @cached_property
    def _views(self) -> dict[tuple[str, float], View]:
        return {}

    def ours(self, rows: np.ndarray, epsilon: float) -> Told:
        asked = pel.PartialDependence(self._model, NAMES, points=POINTS, method="values")
        made = session(columns(rows), units(FEATURES), epsilon).release(asked, epsilon=epsilon)
        curves = [made.curves[name] for name in NAMES]  # type: ignore[attr-defined]
        noise = curves[0].law.std / 2 / len(rows)
        return Told(np.concatenate([curve.y for curve in curves]), noise**2)

    def also_ours(self, rows: np.ndarray, epsilon: float) -> Mapping[str, Told]:
        """As curves are released where nobody says how, and by level and differences, with as many points as pay."""
        return {name: self._planned(name, method, rows, epsilon) for name, method in WAYS.items()}

    def _planned(self, name: str, method: str, rows: np.ndarray, epsilon: float) -> Told:
        asked = pel.PartialDependence(self._model, NAMES, method=method)
        people = session(columns(rows), units(FEATURES), epsilon)
        plan = people.plan(asked, epsilon=epsilon)
        made = people.release(asked, epsilon=epsilon)
        if (name, epsilon) not in self._views:
            # The plan is public: it says what a person adds, and so do shadow people.
            parts = functools.partial(_contributions, plan)
            self._views[name, epsilon] = View(parts, self.shadow_of(parts))
        numbers, variances = [], []
        for one in (*plan.details.by("values"), *plan.details.by("variation")):
            curve = made.curves[one.name]  # type: ignore[attr-defined]
            by_values = isinstance(curve, pel.Curve)
            numbers.append(curve.y if by_values else curve.numbers / len(rows))
            variances.append(np.full(len(numbers[-1]), (curve.law.std / len(rows) / (2 if by_values else 1)) ** 2))
        return Told(np.concatenate(numbers), np.concatenate(variances), self._views[name, epsilon])


def _contributions(plan: Plan, rows: np.ndarray) -> np.ndarray:
    """What each person adds to the released numbers: answers along the grids, then levels and differences."""
    schema, found = units(FEATURES), []
    for stage in plan.stages:
        assert isinstance(stage.query, Sum), "with a look at the records later questions would depend on its answer"
        adds = getattr(stage.query.map, "contributions", stage.query.map)
        found.append(adds(Rows(schema, columns(rows))))
    return np.hstack(found)
