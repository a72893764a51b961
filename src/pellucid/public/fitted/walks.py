"""Walks of records down trees whose leaves are whole numbers: exact sums, the same in any order and in any company.

A record, as atoms, is walked down its own path of a tree. Where some of its features may have other values as well (the points of
a grid, the value of a donor), those that would part from it at a node are followed from there by themselves, all that stay
together at once. So all points of all grids cost little more than one walk.
"""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from .compiled import SMALL, compiled
from .masks import Masks, masks_of
from .settled import Settled

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
    tree: np.ndarray
    """Of a node."""
    atoms: np.ndarray
    """Per feature: how many there are."""

    @functools.cached_property
    def masks(self) -> Masks | None:
        """The same as masks, where trees are small; for compiled loops."""
        return masks_of(self)

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
    number = np.zeros(len(made.root), dtype=np.int64)
    number[of] = np.arange(len(of))
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
        tree=number[made.tree[order]],
        atoms=np.array([cells + len(domain.points) for cells, domain in zip(made.cells, made.domains)], dtype=np.int64),
    )


def sums(trees: Walkable, atoms: np.ndarray) -> np.ndarray:
    """Per record the sum of its leaves."""
    if (walks := compiled(len(atoms) * len(trees.root))) is None:
        return _sums_by_levels(trees, atoms)
    out = np.zeros(len(atoms), dtype=np.int64)
    if (masks := trees.masks) is not None:
        _in_threads(lambda part: walks.by_masks.sums(masks.arrays, atoms[part], out[part]), len(atoms), len(trees.root))
    else:
        _in_threads(lambda part: walks.sums(trees.arrays, atoms[part], out[part]), len(atoms), len(trees.root))
    return out


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
    if (walks := compiled(len(atoms) * len(trees.root) * grids.size)) is None:
        return _along_one_by_one(trees, atoms, grids)
    given = dict(zip(grids.features, grids.atoms))
    # Feature after feature, the points of each from the first cell to the last.
    orders = [np.argsort(given[j], kind="stable") if j in given else np.empty(0, np.int64) for j in range(atoms.shape[1])]
    sorted_atoms = [given[j][order] if j in given else np.empty(0, np.int32) for j, order in enumerate(orders)]
    start = np.concatenate([[0], np.cumsum([len(order) for order in orders])]).astype(np.int64)
    columns = np.empty(grids.size, dtype=np.int64)
    offset = 0
    for j in grids.features:
        columns[offset + orders[j]] = np.arange(start[j], start[j + 1])
        offset += len(orders[j])
    out, each = np.empty((len(atoms), grids.size), dtype=np.int64), len(trees.root) * len(grids.features)
    if (masks := trees.masks) is not None:
        runs = masks.runs(sorted_atoms)
        _in_threads(lambda part: walks.by_masks.along(masks.arrays, *runs, atoms[part], out[part]), len(atoms), each)
    else:
        out[:] = 0
        arguments = start, *_boundaries(trees, sorted_atoms, start)
        _in_threads(lambda part: walks.along(trees.arrays, trees.depth, atoms[part], *arguments, out[part]), len(atoms), each)
    return out if np.array_equal(columns, np.arange(grids.size)) else out[:, columns]


def _boundaries(trees: Walkable, grids: list[np.ndarray], start: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(points, whether those of a feature are cells, per node the first that goes right)."""
    by_cuts, boundary = np.zeros(len(grids), dtype=bool), np.zeros(len(trees.feature), dtype=np.int64)
    for j, points in enumerate(grids):
        # Cells in a row are parted by one comparison, points by a look at each.
        by_cuts[j] = bool((points < trees.cells[j]).all())
        nodes = np.flatnonzero(trees.feature == j)
        boundary[nodes] = start[j] + np.searchsorted(points, trees.cut[nodes], side="right")
    return np.concatenate(grids), by_cuts, boundary


def _along_one_by_one(trees: Walkable, atoms: np.ndarray, grids: Grids) -> np.ndarray:
    columns = []
    for j, points in zip(grids.features, grids.atoms):
        for point in points:
            changed = atoms.copy()
            changed[:, j] = point
            columns.append(_sums_by_levels(trees, changed))
    return np.stack(columns, axis=1) if columns else np.empty((len(atoms), 0), dtype=np.int64)


def changed(trees: Walkable, atoms: np.ndarray, given: np.ndarray, columns: Sequence[Mapping[int, int]]) -> np.ndarray:
    """Per record and column the sum of its leaves when some features have other atoms.

    A column says which features, and where in `given` the atoms of each are; several columns may change the same one.
    """
    if (walks := compiled(len(atoms) * len(trees.root) * len(columns))) is None:
        return _changed_one_by_one(trees, atoms, given, columns)
    out, each = np.zeros((len(atoms), len(columns)), dtype=np.int64), len(trees.root) * len(columns)
    place = np.full((len(columns), atoms.shape[1]), -1, dtype=np.int64)
    for c, column in enumerate(columns):
        for j, q in column.items():
            place[c, j] = q
    if (masks := trees.masks) is not None:
        # Those that change one feature alone, by that feature; then those that change several.
        rank = [next(iter(column)) if len(column) == 1 else atoms.shape[1] + (not column) for column in columns]
        order = np.argsort(np.array(rank, dtype=np.int64), kind="stable")
        begins = np.searchsorted(np.sort(rank), np.arange(atoms.shape[1] + 2))
        walk: Any = functools.partial(walks.by_masks.changed, masks.arrays, place, begins, order)
    else:
        features, members = np.nonzero(place.T >= 0)
        begins = np.searchsorted(features, np.arange(atoms.shape[1] + 1))
        walk = functools.partial(walks.changed, trees.arrays, place, begins, members)
    _in_threads(lambda part: walk(atoms[part], given[part], out[part]), len(atoms), each)
    return out


def _changed_one_by_one(
    trees: Walkable, atoms: np.ndarray, given: np.ndarray, columns: Sequence[Mapping[int, int]]
) -> np.ndarray:
    found = []
    for column in columns:
        copied = atoms.copy()
        for j, q in column.items():
            copied[:, j] = given[:, q]
        found.append(_sums_by_levels(trees, copied))
    return np.stack(found, axis=1) if found else np.empty((len(atoms), 0), dtype=np.int64)


def _in_threads(walk: Callable[[slice], None], records: int, each: int) -> None:
    """Some records in every thread: compiled loops run side by side, and sums of whole numbers do not depend on their order."""
    threads = min(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1, MOST_THREADS)
    if threads == 1 or records * each < FOR_THREADS:
        return walk(slice(0, records))
    # Several pieces for each thread, as some records take longer than others.
    edges = np.linspace(0, records, 4 * threads + 1).astype(int)
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(walk, map(slice, edges[:-1].tolist(), edges[1:].tolist())))


def unit_for(largest: float, trees: int) -> float:
    """A power of two in which sums of so many leaves, `largest` at most in all, are whole numbers of at most 61 bits."""
    return math.ldexp(1.0, math.frexp(max(largest, 1e-300))[1] - 60)
