"""Public grids: where a curve is evaluated and how values fall into cells, from the declared domain alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from .schema import Category, Feature, Number


def every_value(feature: Feature, most: int) -> np.ndarray | None:
    """All values of the feature in inner form, when there are at most `most` of them."""
    if feature.levels is None or feature.levels > most:
        return None
    start = feature.lo if isinstance(feature, Number) else 0.0
    return start + np.arange(feature.levels, dtype=float)


def spread_points(feature: Number, count: int) -> np.ndarray:
    """`count` evenly spaced values from bound to bound; on an integer column whole and distinct."""
    points = np.linspace(feature.lo, feature.hi, count)
    return np.unique(np.rint(points)) if feature.integer else points


def curve_points(feature: Feature, rows: int, epsilon: float) -> np.ndarray:
    """Where to evaluate a partial dependence, from the declared domain, the public number of rows and ε alone."""
    if isinstance(feature, Category):
        return np.arange(feature.levels, dtype=float)
    whole = every_value(feature, 64)
    if whole is not None:
        return whole
    return spread_points(feature, points_that_pay(rows, epsilon))


def points_that_pay(rows: int, epsilon: float) -> int:
    """Grid points for a wide feature: more resolution is worth its noise when rows × ε is large."""
    return int(min(101, max(11, round(1.2 * math.sqrt(rows * epsilon)))))


@dataclass(frozen=True)
class Bins:
    """Cells of a histogram over one feature. A value missing as NaN has a cell of its own, the last one."""

    feature: Feature
    edges: tuple[float, ...] = ()

    @property
    def has_missing(self) -> bool:
        return isinstance(self.feature, Number) and math.isnan(float(self.feature.missing or 0.0))

    @property
    def cells(self) -> int:
        own = len(self.edges) - 1 if self.edges else int(self.feature.levels or 0)
        return own + self.has_missing

    @property
    def labels(self) -> tuple[Any, ...]:
        if self.edges:
            named: tuple[Any, ...] = tuple((a + b) / 2 for a, b in zip(self.edges[:-1], self.edges[1:]))
        elif isinstance(self.feature, Category):
            named = self.feature.values
        else:
            named = tuple(int(self.feature.lo) + i for i in range(int(self.feature.levels or 0)))
        return (*named, "missing") if self.has_missing else named

    def index(self, values: np.ndarray) -> np.ndarray:
        """The cell of each value; intervals are closed on the left, the last one on both sides."""
        nothing = np.isnan(values)
        safe = np.where(nothing, 0.0, values)
        if self.edges:
            found = np.clip(np.searchsorted(np.asarray(self.edges), safe, side="right") - 1, 0, len(self.edges) - 2)
        elif isinstance(self.feature, Category):
            found = safe.astype(np.int64)
        else:
            found = (safe - self.feature.lo).astype(np.int64)
        return np.where(nothing, self.cells - 1 if self.has_missing else -1, found)
