"""Public grids: where a curve is evaluated and how values fall into cells, from the declared domain alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from .fingerprint import fingerprinted_as
from .schema import Category, Date, Datetime, Feature, Number

WIDE = 1000
"""Integer columns with more values than this get a coarser public grid."""
FEW = 128
"""Edges that a value is compared with one after another; among more it is searched."""


def every_value(feature: Feature, most: int) -> np.ndarray | None:
    """All values of the feature in inner form, when there are at most `most` of them."""
    if feature.levels is None or feature.levels > most:
        return None
    start = feature.lo if isinstance(feature, Number) else 0.0
    return start + np.arange(feature.levels, dtype=float)


def log_spaced(feature: Number) -> bool:
    """Whether gaps grow along the column: where it says so, and by default where it has more than a thousand whole numbers."""
    return feature.scale == "log" or (feature.scale is None and (feature.levels or 0) > WIDE)


def spaced(feature: Number, count: int) -> np.ndarray:
    """`count` values from bound to bound, evenly spaced on the scale of the column.

    A scale that is declared "log" goes by factors from a positive lower bound on. Otherwise gaps grow with the distance from the
    lower bound, because such domains (money, days) are declared generously and are populated near their lower end.
    """
    if not log_spaced(feature):
        return np.linspace(feature.lo, feature.hi, count)
    if feature.scale == "log" and feature.lo > 0:
        steps = np.geomspace(feature.lo, feature.hi, count)
    else:
        # Real numbers have no smallest step, so a thousandth of the range stands for one.
        step = 1.0 if feature.integer else (feature.hi - feature.lo) / WIDE
        steps = feature.lo + step * np.expm1(np.linspace(0, math.log1p((feature.hi - feature.lo) / step), count))
    steps[[0, -1]] = feature.lo, feature.hi
    return np.clip(steps, feature.lo, feature.hi)


def spread_points(feature: Number, count: int) -> np.ndarray:
    """`count` values from bound to bound on the scale of the column; on an integer column whole and distinct."""
    found = spaced(feature, count)
    return np.unique(np.rint(found)) if feature.integer else found


def curve_points(feature: Feature, rows: int, epsilon: float) -> np.ndarray:
    """Where to evaluate a partial dependence, from the declared domain, the public number of rows and ε alone.

    The noise variance of m points is about (m/(rows·ε))². A curve with steps has a squared bias of about 1/m², which
    balances at the square root of rows·ε; a smooth one has 1/m⁴, which balances at the cube root.
    """
    if isinstance(feature, Category):
        return np.arange(feature.levels, dtype=float)
    if not feature.integer:
        return spread_points(feature, int(min(65, max(5, round(0.6 * (rows * epsilon) ** (1 / 3))))))
    # On a wide column gaps grow with the distance from the lower bound, so twice the points give the same resolution there.
    wide = 2 if log_spaced(feature) else 1
    most = wide * int(min(129, max(8, math.floor(math.sqrt(rows * epsilon)))))
    whole = every_value(feature, most)
    return spread_points(feature, most) if whole is None else whole


def nested_grids(feature: Number) -> tuple[np.ndarray, ...]:
    """Grids to choose among, from coarse to fine; each is part of the last one.

    4, 8, …, 128 gaps; twice as many on a wide column, whose gaps grow with the distance from the lower bound. A column with fewer
    whole numbers ends with all of them.
    """
    most = 256 if feature.integer and log_spaced(feature) else 128
    finest = every_value(feature, most + 1)
    finest = spread_points(feature, most + 1) if finest is None else finest
    found: list[np.ndarray] = []
    gaps = 4
    while gaps < len(finest) - 1:
        found.append(finest[np.unique(np.rint(np.linspace(0, len(finest) - 1, gaps + 1)).astype(int))])
        gaps *= 2
    return (*found, finest)


def edge_candidates(feature: Feature) -> np.ndarray:
    """The public values that borders of intervals may take: every category, every integer up to a thousand, else a fixed grid."""
    if isinstance(feature, Category):
        return np.arange(feature.levels, dtype=float)
    whole = every_value(feature, WIDE)
    if whole is not None:
        return whole
    return spread_points(feature, 257 if feature.integer else 65)


def nearest(grid: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Position of the nearest grid value; -1 for NaN."""
    found = np.searchsorted((grid[:-1] + grid[1:]) / 2, np.where(np.isnan(values), grid[0], values), side="right")
    return np.where(np.isnan(values), -1, found)


@fingerprinted_as("pellucid.grids", "Bins")
@dataclass(frozen=True)
class Bins:
    """Cells of a histogram over one feature. A value missing as NaN has a cell of its own, the last one."""

    feature: Feature
    """What is counted."""
    edges: tuple[float, ...] = ()
    """Where intervals begin and end; none where every value has a cell of its own."""

    @property
    def has_missing(self) -> bool:
        return self.feature.fills_nan

    @property
    def dated(self) -> bool:
        """Whether it is about days or times, whose labels are text."""
        return isinstance(self.feature, Date | Datetime)

    @property
    def cells(self) -> int:
        own = len(self.edges) - 1 if self.edges else int(self.feature.levels or 0)
        return own + self.has_missing

    @property
    def labels(self) -> tuple[Any, ...]:
        if self.edges:
            middles = ((a + b) / 2 for a, b in zip(self.edges[:-1], self.edges[1:]))
            named: tuple[Any, ...] = tuple(self.feature.value_at(m) if self.dated else m for m in middles)
        elif isinstance(self.feature, Category):
            named = self.feature.values
        else:
            lowest = int(self.feature.lo)
            named = tuple(self.feature.value_at(lowest + i) for i in range(int(self.feature.levels or 0)))
        return (*named, "missing") if self.has_missing else named

    def index(self, values: np.ndarray) -> np.ndarray:
        """The cell of each value; intervals are closed on the left, the last one on both sides."""
        if isinstance(self.feature, Category) and not self.edges:
            return values.astype(np.intp)  # positions of declared values: decoding leaves no others
        nothing, lo = np.isnan(values), self.feature.lo  # type: ignore[union-attr]
        if not nothing.any():
            return self._of_numbers(values)
        return np.where(nothing, self.cells - 1 if self.has_missing else -1, self._of_numbers(np.where(nothing, lo, values)))

    def _search(self, safe: np.ndarray) -> np.ndarray:
        inner = np.asarray(self.edges[1:-1])
        if len(inner) > FEW:
            return np.searchsorted(inner, safe, side="right")
        # Comparing with every edge takes a tenth of the time of a search, which cannot guess what comes next.
        found, above = np.zeros(safe.shape, dtype=np.uint8), np.empty(safe.shape, dtype=bool)
        for edge in inner:
            found += np.greater_equal(safe, edge, out=above).view(np.uint8)
        return found.astype(np.intp)

    @cached_property
    def _of_levels(self) -> np.ndarray:
        return self._search(self.feature.lo + np.arange(int(self.feature.levels or 0)))  # type: ignore[union-attr]

    def _of_numbers(self, safe: np.ndarray) -> np.ndarray:
        if self.edges and isinstance(self.feature, Number) and self.feature.integer and (self.feature.levels or WIDE + 1) <= WIDE:
            # Few whole numbers: where each of them falls is looked up instead of searched.
            return self._of_levels[np.clip((safe - self.feature.lo).astype(np.intp), 0, len(self._of_levels) - 1)]
        if self.edges:
            return self._search(safe)
        return (safe - self.feature.lo).astype(np.int64)  # type: ignore[union-attr]


def histogram_bins(feature: Feature, bins: int | tuple[float, ...] | None, most: int, usual: int) -> Bins:
    """Public cells: declared categories, all integers when there are at most `most`, else `bins` (or `usual`) equal intervals,
    which grow along a column whose scale is declared "log"."""
    if isinstance(feature, Category):
        return Bins(feature)
    if isinstance(bins, tuple):
        return Bins(feature, bins)
    if bins is None and every_value(feature, most) is not None:
        return Bins(feature)
    count = usual if bins is None else bins
    if feature.scale == "log":
        between = spread_points(feature, count + 1)
        # Between whole numbers, so that none lies on an edge.
        edges = [feature.lo - 0.5, *(between[1:-1] - 0.5), feature.hi + 0.5] if feature.integer else list(between)
        return Bins(feature, tuple(float(e) for e in edges))
    if feature.integer:
        # Whole integers per bin, the last bin taking what is left over.
        width = max(1, -(-int(feature.levels or 1) // count))
        edges = [*np.arange(feature.lo - 0.5, feature.hi, width), feature.hi + 0.5]
        return Bins(feature, tuple(float(e) for e in edges))
    return Bins(feature, tuple(np.linspace(feature.lo, feature.hi, count + 1).tolist()))
