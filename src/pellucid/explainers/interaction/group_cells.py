"""Public cells of a group of features: what its features say together, as the values of one category without an order."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import PlanError
from ...public.grids import every_value, nearest, spread_points
from ...public.rows import Rows
from ...public.schema import Category, Feature, Schema

MOST_CELLS = 256
"""Cells of a group, at most."""
FEW_CELLS = 16
"""Cells of a group up to which none of them stands for another: near numbers are not near in a list of combinations."""


@dataclass(frozen=True, eq=False)
class GroupCells:
    """Cells of a group: all combinations of its features' cells; of many features with two values each, such as one-hot columns,
    which of them is the first one that is set, or none."""

    name: str
    members: tuple[str, ...]
    points: tuple[np.ndarray, ...]
    """For every feature, the values that its cells stand for, in inner form; the last is NaN where a missing value is one."""
    flags: bool = False
    """Whether cells say which feature is set, and not what all of them are."""

    @classmethod
    def of(cls, name: str, members: tuple[str, ...], schema: Schema) -> GroupCells:
        fine = [_points(schema[m], 24) for m in members]
        if _cells(fine) > FEW_CELLS and all(len(points) == 2 and not np.isnan(points).any() for points in fine):
            return cls(name, members, tuple(fine), flags=True)
        for points in range(24, 1, -1):
            coarse = tuple(_points(schema[m], points) for m in members)
            if _cells(coarse) <= FEW_CELLS:
                return cls(name, members, coarse)
        if _cells(coarse) <= MOST_CELLS:
            return cls(name, members, coarse)
        raise PlanError(
            f"the group {name!r} has at least {_cells(coarse):,} combinations of values; interactions are counted for at most "
            f"{MOST_CELLS}: give groups= with smaller ones, or ask for ShapImportance or PermutationImportance of the group."
        )

    @property
    def size(self) -> int:
        return len(self.members) + 1 if self.flags else _cells(self.points)

    @property
    def few(self) -> bool:
        """Whether every cell is a value of its own, however few values features are rounded to."""
        return not self.flags and self.size <= FEW_CELLS

    def index(self, rows: Rows) -> np.ndarray:
        """The cell of every record."""
        each = [_cell(points, rows[name]) for name, points in zip(self.members, self.points)]
        if self.flags:
            first = np.argmax(np.stack([*each, np.ones(len(each[0]), dtype=np.intp)], axis=1), axis=1)
            return first.astype(np.intp)
        return np.ravel_multi_index(each, tuple(len(points) for points in self.points)).astype(np.intp)

    def columns(self, cells: np.ndarray) -> dict[str, np.ndarray]:
        """The values that some cells stand for, feature by feature."""
        if self.flags:
            return {m: points[(cells == i).astype(np.intp)] for i, (m, points) in enumerate(zip(self.members, self.points))}
        each = np.unravel_index(cells.astype(np.intp), tuple(len(points) for points in self.points))
        return {m: points[at] for m, points, at in zip(self.members, self.points, each)}

    def changes(self, cell: float) -> dict[str, float]:
        return {name: float(values[0]) for name, values in self.columns(np.array([int(cell)])).items()}

    def label(self, cell: float, schema: Schema) -> str:
        """What a cell is called."""
        if self.flags:
            return self.members[int(cell)] if cell < len(self.members) else "none"
        said = self.changes(cell)
        return ", ".join(f"{m} = {'missing' if math.isnan(v) else schema[m].value_at(v)}" for m, v in said.items())


def _cells(points: Any) -> int:
    return math.prod(len(each) for each in points)


def _points(feature: Feature, most: int) -> np.ndarray:
    """The middles of a feature's public cells, at most so many of a number."""
    if isinstance(feature, Category):
        points = np.arange(feature.levels, dtype=float)
    else:
        whole = every_value(feature, most)
        points = spread_points(feature, most) if whole is None else whole
    return np.append(points, np.nan) if feature.fills_nan else points


def _cell(points: np.ndarray, column: np.ndarray) -> np.ndarray:
    inside = points[~np.isnan(points)]
    cell = nearest(inside, column)
    # A missing value has the cell after the last, where there is one.
    return np.where(cell < 0, len(points) - 1, cell)
