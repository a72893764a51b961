"""Features rounded to a few of their values each, by released counts of public cells."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...public.grids import every_value, nearest, spread_points
from ...public.rows import Rows
from ...public.schema import Category, Feature, Schema
from ...query import Sum
from ...query.bounds import CrossCells
from ...release.answer import Answer
from ..common.projection import project_counts
from .group_cells import GroupCells

Part = Feature | GroupCells
"""What interacts: a feature, or a group of them."""

FINE = 24
"""Public cells of a number, from which the values it is rounded to are taken."""


def public_points(feature: Part) -> np.ndarray:
    """The middles of a feature's public cells, in inner form: categories, few integers, or evenly spaced numbers; those of a
    group are numbers of its cells."""
    if isinstance(feature, GroupCells):
        return np.arange(feature.size, dtype=float)
    if isinstance(feature, Category):
        return np.arange(feature.levels, dtype=float)
    whole = every_value(feature, FINE)
    return spread_points(feature, FINE) if whole is None else whole


def has_missing(feature: Part) -> bool:
    return not isinstance(feature, GroupCells) and feature.fills_nan


def rounded_size(feature: Part, points: int) -> int:
    """How many values a feature is rounded to; a missing value is one more."""
    if isinstance(feature, GroupCells) and feature.few:
        return feature.size
    return min(points, len(public_points(feature))) + has_missing(feature)


@dataclass(frozen=True, eq=False)
class Rounding:
    """A feature rounded to a few of its values: the value that stands for each public cell, and how common it is."""

    name: str
    points: np.ndarray
    group: np.ndarray
    values: np.ndarray
    weights: np.ndarray
    cells: GroupCells | None = None
    """Of a group of features: what its cells stand for."""

    @classmethod
    def of(cls, name: str, feature: Part, counts: np.ndarray, points: int) -> Rounding:
        """From released counts of the public cells; how many values there are does not depend on them."""
        places = public_points(feature)
        inside = counts[: len(places)]
        grouped = feature if isinstance(feature, GroupCells) else None
        unordered = grouped is not None or (isinstance(feature, Category) and not feature.ordered)
        group = (_common if unordered else _ranges)(
            inside, len(places) if grouped is not None and grouped.few else min(points, len(places))
        )
        values = [places[_middle(np.where(group == i, inside, 0.0), group == i, unordered)] for i in range(group.max() + 1)]
        if has_missing(feature):
            group, values = np.append(group, len(values)), [*values, math.nan]
        weights = np.bincount(group, counts)
        whole = weights.sum()
        weights = weights / whole if whole > 0 else np.full(len(weights), 1 / len(weights))
        return cls(name, places, group, np.array(values), weights, grouped)

    def index(self, rows: Rows) -> np.ndarray:
        """Which of the values stands for each record."""
        return self.group[cells_of(rows, self.name, self.points if self.cells is None else self.cells)]

    def changes(self, value: float) -> dict[str, float]:
        """What a record is with one of the values, column by column."""
        return {self.name: value} if self.cells is None else self.cells.changes(value)

    def columns(self, cells: np.ndarray) -> dict[str, np.ndarray]:
        """Records in these public cells."""
        if self.cells is not None:
            return self.cells.columns(cells)
        return {self.name: np.append(self.points, np.nan)[cells]}

    def labels(self, schema: Schema) -> tuple[Any, ...]:
        if self.cells is not None:
            return tuple(self.cells.label(v, schema) for v in self.values)
        feature = schema[self.name]
        return tuple("missing" if math.isnan(v) else feature.value_at(v) for v in self.values)


def cells_of(rows: Rows, name: str, where: np.ndarray | GroupCells) -> np.ndarray:
    """The public cell of each record, of a feature or a group."""
    return where.index(rows) if isinstance(where, GroupCells) else fine_cell(where, rows[name])


def fine_cell(points: np.ndarray, column: np.ndarray) -> np.ndarray:
    """The public cell of each value; a missing one has the cell after the last."""
    cell = nearest(points, column)
    return np.where(cell < 0, len(points), cell)


def _ranges(counts: np.ndarray, groups: int) -> np.ndarray:
    """Cells in consecutive groups: the largest group is halved until there are enough, so a value that many share is alone."""
    parts = [(0, len(counts))]
    while len(parts) < groups:
        a, b = max((p for p in parts if p[1] - p[0] > 1), key=lambda p: (counts[p[0] : p[1]].sum(), p[1] - p[0]))
        upto = np.cumsum(counts[a:b])
        cut = a + 1 + int(np.argmin(np.abs(upto[:-1] - upto[-1] / 2)))
        at = parts.index((a, b))
        parts[at : at + 1] = [(a, cut), (cut, b)]
    return np.repeat(np.arange(groups), [b - a for a, b in parts])


def _common(counts: np.ndarray, groups: int) -> np.ndarray:
    """The commonest categories each head a group; rarer ones join the smallest group, the commonest of them first."""
    order = np.argsort(-counts, kind="stable")
    heads = np.sort(order[:groups])
    group, size = np.zeros(len(counts), dtype=np.intp), counts[heads].astype(float)
    group[heads] = np.arange(groups)
    for cell in order[groups:]:
        group[cell] = smallest = int(np.argmin(size))
        size[smallest] += counts[cell]
    return group


def _middle(counts: np.ndarray, member: np.ndarray, unordered: bool) -> int:
    """The cell that stands for its group: the commonest category, or the median."""
    cells = np.flatnonzero(member)
    if unordered:
        return int(cells[np.argmax(counts[cells])])
    upto = np.cumsum(counts[cells])
    return int(cells[np.searchsorted(upto, upto[-1] / 2)] if upto[-1] > 0 else cells[(len(cells) - 1) // 2])


@dataclass(frozen=True, eq=False)
class InCells:
    """Per record: the public cell of every feature."""

    places: tuple[tuple[str, np.ndarray | GroupCells], ...]

    def __call__(self, rows: Rows) -> tuple[np.ndarray, list[np.ndarray]]:
        return np.zeros(len(rows), dtype=np.int64), [cells_of(rows, name, where) for name, where in self.places]


def cell_counts(parts: Mapping[str, Part], columns: tuple[str, ...]) -> Sum:
    """How many records are in each public cell of every feature or group; `columns` are what is read."""
    places = tuple((name, part if isinstance(part, GroupCells) else public_points(part)) for name, part in parts.items())
    sizes = tuple(len(public_points(part)) + has_missing(part) for part in parts.values())
    return Sum(InCells(places), CrossCells(1, sizes), columns=columns)


def noisy_counts(answer: Answer) -> tuple[list[np.ndarray], float]:
    """Counts of every feature as released, and the number of records: public, or by the same answer."""
    bound = answer.bound
    assert isinstance(bound, CrossCells)
    noisy = np.split(answer.numbers, np.cumsum(bound.sizes)[:-1])
    total = float(answer.rows) if answer.rows is not None else max(float(np.mean([part.sum() for part in noisy])), 1.0)
    return noisy, total


def cleaned(answer: Answer) -> tuple[list[np.ndarray], float]:
    """Non-negative counts of every feature, all with the same total, and that total."""
    noisy, total = noisy_counts(answer)
    return [project_counts(part, total) for part in noisy], max(total, 1.0)
