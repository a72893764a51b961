"""Walks of records down trees whose leaves are whole numbers: exact sums, the same in any order and in any company.

A record, as atoms, is walked down its own path of a tree. Where some of its features may have other values as well (the points of
a grid, the value of a donor), those that would part from it at a node are followed from there by themselves, all that stay
together at once. So all points of all grids cost little more than one walk.
"""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from .settled import Settled

SMALL = 1 << 20
"""Walks below which a compiled loop is not worth loading."""
FOR_THREADS = 1 << 19
"""Walks from which on several threads are."""
MOST_THREADS = 16


@dataclass(frozen=True, eq=False)
class Walkable:
    """Settled trees of one group, leaves in whole units; plain arrays, for compiled loops."""

    root: np.ndarray
    feature: np.ndarray
    """−1 of a leaf."""
    cut: np.ndarray
    """The last cell that goes left."""
    child: np.ndarray
    """To the left; the one to the right is the next."""
    value: np.ndarray
    cells: np.ndarray
    """Per feature: atoms from this one on are points."""
    first: np.ndarray
    """Where the points of a node begin in `points`."""
    points: np.ndarray
    """Which points go left."""
    depth: int

    @property
    def arrays(self) -> tuple[Any, ...]:
        """For compiled loops."""
        mixed = len(self.points) > 1
        return self.root, self.feature, self.cut, self.child, self.value, self.cells, mixed, self.first, self.points

    def goes_right(self, atoms: np.ndarray, node: np.ndarray) -> np.ndarray:
        """Whether atoms go right at inner nodes; arrays of one shape."""
        point = atoms - self.cells[self.feature[node]]
        return np.where(point >= 0, ~self.points[np.where(point >= 0, self.first[node] + point, 0)], atoms > self.cut[node])


def walkable(made: Settled, of: np.ndarray, unit: float) -> Walkable:
    """The trees in `of`, their leaves rounded to multiples of `unit`."""
    first, tables, at = np.zeros(len(made.leaf), dtype=np.int64), [np.zeros(1, dtype=bool)], 1
    for j, table in enumerate(made.points):
        if table.size:
            distinct, which = np.unique(table, axis=0, return_inverse=True)
            nodes = np.flatnonzero(made.feature == j)
            first[nodes] = at + which.ravel()[made.row[nodes]] * table.shape[1]
            tables.append(distinct.ravel())
            at += distinct.size
    # Level by level, the two children of a node one after the other.
    levels, here = [made.root[of]], made.root[of]
    while len(here := here[~made.leaf[here]]):
        here = np.stack([made.left[here], made.right[here]], axis=1).ravel()
        levels.append(here)
    order = np.concatenate(levels)
    place = np.zeros(len(made.leaf), dtype=np.int64)
    place[order] = np.arange(len(order))
    leaf = made.leaf[order]
    return Walkable(
        root=place[made.root[of]].astype(np.int32),
        feature=np.where(leaf, -1, made.feature[order]).astype(np.int32),
        cut=made.cut[order].astype(np.int32),
        child=np.where(leaf, 0, place[made.left[order]]).astype(np.int32),
        value=np.where(leaf, np.rint(np.where(leaf, made.value[order], 0.0) / unit), 0.0).astype(np.int64),
        cells=np.array(made.cells, dtype=np.int32),
        first=first[order],
        points=np.concatenate(tables),
        depth=len(levels),
    )


def sums(trees: Walkable, atoms: np.ndarray) -> np.ndarray:
    """Per record the sum of its leaves."""
    walks = _compiled() if len(atoms) * len(trees.root) >= SMALL else None
    if walks is not None:
        out = np.zeros(len(atoms), dtype=np.int64)
        _in_threads(lambda part: walks.sums(trees.arrays, atoms[part], out[part]), len(atoms), len(trees.root))
        return out
    return _sums_by_levels(trees, atoms)


def _sums_by_levels(trees: Walkable, atoms: np.ndarray) -> np.ndarray:
    """All records one level down at a time."""
    out, step = np.zeros(len(atoms), dtype=np.int64), max(1, SMALL // max(1, len(trees.root)))
    for start in range(0, len(atoms), step):
        some = atoms[start : start + step]
        record = np.repeat(np.arange(len(some)), len(trees.root))
        node = np.tile(trees.root, len(some))
        while len(node):
            inner = trees.feature[node] >= 0
            np.add.at(out, start + record[~inner], trees.value[node[~inner]])
            node, record = node[inner], record[inner]
            right = trees.goes_right(some[record, trees.feature[node]], node)
            node = trees.child[node] + right
    return out


@dataclass(frozen=True, eq=False)
class Grids:
    """Values that features are set to, one feature at a time; as atoms, feature after feature."""

    features: tuple[int, ...]
    atoms: tuple[np.ndarray, ...]

    @property
    def size(self) -> int:
        return sum(len(atoms) for atoms in self.atoms)


def along(trees: Walkable, atoms: np.ndarray, grids: Grids) -> np.ndarray:
    """Per record and grid point the sum of its leaves when the feature of the grid is set to that point."""
    walks = _compiled() if len(atoms) * len(trees.root) * grids.size >= SMALL else None
    if walks is None:
        return _along_one_by_one(trees, atoms, grids)
    sizes = np.zeros(atoms.shape[1] + 1, dtype=np.int64)
    sizes[1 + np.array(grids.features, dtype=int)] = [len(points) for points in grids.atoms]
    start = np.cumsum(sizes, dtype=np.int64)
    points, columns = np.zeros(grids.size, dtype=np.int32), np.zeros(grids.size, dtype=np.int64)
    by_cuts, boundary, offset = np.zeros(atoms.shape[1], dtype=bool), np.zeros(len(trees.feature), dtype=np.int64), 0
    for j, given in zip(grids.features, grids.atoms):
        order = np.argsort(given, kind="stable")
        points[start[j] : start[j + 1]] = given[order]
        columns[offset + order] = start[j] + np.arange(len(order))
        offset += len(order)
        # Cells in a row are parted by one comparison, points by a look at each.
        by_cuts[j] = bool((given < trees.cells[j]).all())
        nodes = np.flatnonzero(trees.feature == j)
        boundary[nodes] = start[j] + np.searchsorted(given[order], trees.cut[nodes], side="right")
    out = np.zeros((len(atoms), grids.size), dtype=np.int64)
    _in_threads(
        lambda part: walks.along(trees.arrays, trees.depth, atoms[part], start, points, by_cuts, boundary, out[part]),
        len(atoms),
        len(trees.root) * len(grids.features),
    )
    return out if np.array_equal(columns, np.arange(grids.size)) else out[:, columns]


def _along_one_by_one(trees: Walkable, atoms: np.ndarray, grids: Grids) -> np.ndarray:
    columns = []
    for j, points in zip(grids.features, grids.atoms):
        for point in points:
            changed = atoms.copy()
            changed[:, j] = point
            columns.append(_sums_by_levels(trees, changed))
    return np.stack(columns, axis=1) if columns else np.empty((len(atoms), 0), dtype=np.int64)


def exchanged(trees: Walkable, atoms: np.ndarray, donors: np.ndarray, groups: Sequence[Sequence[int]]) -> np.ndarray:
    """Per record and group of features the sum of its leaves when the features of the group come from its donor.

    No feature is in two groups.
    """
    walks = _compiled() if len(atoms) * len(trees.root) * len(groups) >= SMALL else None
    if walks is None:
        columns = []
        for group in groups:
            changed = atoms.copy()
            changed[:, list(group)] = donors[:, list(group)]
            columns.append(_sums_by_levels(trees, changed))
        return np.stack(columns, axis=1) if columns else np.empty((len(atoms), 0), dtype=np.int64)
    member = np.full(atoms.shape[1], len(groups), dtype=np.int64)
    for g, group in enumerate(groups):
        member[list(group)] = g
    out = np.zeros((len(atoms), len(groups)), dtype=np.int64)
    _in_threads(
        lambda part: walks.exchanged(trees.arrays, atoms[part], donors[part], member, out[part]),
        len(atoms),
        len(trees.root) * len(groups),
    )
    return out


def _in_threads(walk: Callable[[slice], None], records: int, each: int) -> None:
    """Some records in every thread: compiled loops run side by side, and sums of whole numbers do not depend on their order."""
    threads = min(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1, MOST_THREADS)
    if threads == 1 or records * each < FOR_THREADS:
        return walk(slice(0, records))
    # Several pieces for each thread, as some records take longer than others.
    edges = np.linspace(0, records, 4 * threads + 1).astype(int)
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(walk, map(slice, edges[:-1].tolist(), edges[1:].tolist())))


def is_compiled() -> bool:
    """Whether walks run as compiled loops."""
    return _compiled() is not None


@functools.cache
def _compiled() -> ModuleType | None:
    """The walks as compiled loops, or None where Numba is not installed."""
    try:
        from . import loops
    except Exception:  # also Numba that does not load: a release must not fail for want of speed
        return None
    return loops


def unit_for(largest: float, trees: int) -> float:
    """A power of two in which sums of so many leaves, `largest` at most in all, are whole numbers of at most 61 bits."""
    return math.ldexp(1.0, math.frexp(max(largest, 1e-300))[1] - 60)
