"""Mixtures along orders of the features, of trees with few leaves, as compiled loops. Imported only where Numba is installed.

The leaves of a tree, from left to right, are the bits of a word. A value that goes right at a node rules out the leaves to its
left, and the lowest bit that no feature rules out is the leaf that is reached. So a value of a feature is a mask for each tree.
Along an order, the first features have the masks of the record asked about, the rest those of the other record: two chains of
masks, which are computed for many trees at once.
"""

from __future__ import annotations

import math
from typing import Any

import llvmlite.ir
import numba
import numpy as np
from numba.extending import intrinsic

from ...public.fitted.loops import goes_right
from ...public.fitted.walks import Walkable, _in_threads

LEAVES = 64
"""Of a tree, at most."""
TOGETHER = 128
"""Trees whose masks are held at once."""
ENOUGH = 64
"""Orders of records for each of these trees, from which on masks pay."""


def _lowest_bit(typing: Any, word: Any) -> Any:
    """The place of the lowest bit of a word that is not 0."""

    def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        return builder.cttz(given[0], llvmlite.ir.Constant(llvmlite.ir.IntType(1), 1))

    return numba.types.int64(numba.types.int64), code


_lowest: Any = intrinsic(_lowest_bit)


def tree_of(trees: Walkable) -> np.ndarray:
    """Which tree each node is of."""
    # Kept beside the trees: they are walked batch by batch.
    kept = vars(trees).get("_tree_of")
    if kept is None:
        kept, here, tree = np.zeros(len(trees.feature), dtype=np.int64), trees.root, np.arange(len(trees.root))
        while len(here):
            kept[here] = tree
            inner = trees.feature[here] >= 0
            left, tree = trees.child[here[inner]], tree[inner]
            here, tree = np.concatenate([left, left + 1]), np.concatenate([tree, tree])
        vars(trees)["_tree_of"] = kept
    return kept


def prefixes_by_masks(
    trees: Walkable, asked: np.ndarray, atoms: np.ndarray, group: np.ndarray, ranks: np.ndarray
) -> np.ndarray | None:
    """As `trees.prefixes`; None of trees that have too many leaves, and of so few records that masks would not pay."""
    most = int(np.bincount(tree_of(trees)[trees.feature < 0]).max())
    # As many trees at once as come out even.
    count = len(trees.root)
    step = math.ceil(count / math.ceil(count / TOGETHER))
    if most > LEAVES or len(atoms) * ranks.shape[1] < ENOUGH * step:
        return None
    out, by = np.zeros((len(atoms), ranks.shape[1], len(asked) + 1), dtype=np.int64), np.argsort(group, kind="stable")
    points = np.maximum(np.maximum(atoms.max(axis=0, initial=0), asked) + 1 - trees.cells, 0)
    ranks = np.ascontiguousarray(ranks)

    def walk(part: slice) -> None:
        _along(table, leaves, asked_at[0], at, by[part], group, ranks, out)

    for first in range(0, count, step):
        roots = trees.root[first : first + step]
        nodes = np.flatnonzero(tree_of(trees) // step == first // step)
        lines, ends = _lines(trees, nodes, points)
        table, leaves = np.full((len(lines), len(roots)), -1), np.zeros((len(roots), LEAVES), dtype=np.int64)
        _fill(trees.arrays, trees.depth, roots, lines, ends, table, leaves)
        at, asked_at = (_line_of(trees, nodes, ends, part) for part in (atoms, asked[None]))
        _in_threads(walk, len(atoms), len(roots))
    return out


def _cuts(trees: Walkable, nodes: np.ndarray, j: int) -> np.ndarray:
    return np.unique(trees.cut[nodes[trees.feature[nodes] == j]])


def _lines(trees: Walkable, nodes: np.ndarray, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Atoms that masks are made of: one between any two cuts of these nodes, and all points; and where those of features end."""
    lines = []
    for j, cells in enumerate(trees.cells):
        between = np.append(0, _cuts(trees, nodes, j) + 1)
        lines.append(np.append(np.clip(between, 0, max(cells - 1, 0)), cells + np.arange(points[j])))
    return np.concatenate(lines).astype(np.int32), np.cumsum([len(line) for line in lines])


def _line_of(trees: Walkable, nodes: np.ndarray, ends: np.ndarray, atoms: np.ndarray) -> np.ndarray:
    """For atoms of records: which line is theirs."""
    found = np.empty(atoms.shape, dtype=np.int32)
    for j, cells in enumerate(trees.cells):
        cuts, first = _cuts(trees, nodes, j), ends[j - 1] if j else 0
        cell = first + np.searchsorted(cuts, np.arange(cells), side="left")
        point = first + len(cuts) + 1 + np.arange(atoms[:, j].max(initial=0) + 1 - cells)
        found[:, j] = np.append(cell, point)[atoms[:, j]]
    return found


@numba.njit(cache=True, nogil=True)
def _fill(trees: Any, depth: Any, roots: Any, lines: Any, ends: Any, table: Any, leaves: Any) -> None:
    """The masks of lines, a column a tree, and the leaves of each tree from left to right."""
    _, feature, cut, child, value, cells, mixed, first, points = trees
    stack, begun = np.empty(depth + 1, np.int64), np.empty(depth + 1, np.int64)
    for s in range(len(roots)):
        top, count = 0, 0
        stack[0], begun[0] = roots[s], -1
        while top >= 0:
            node = stack[top]
            j = feature[node]
            if j < 0:
                leaves[s, count] = value[node]
                count += 1
                top -= 1
            elif begun[top] < 0:
                begun[top] = count
                top += 1
                stack[top], begun[top] = child[node], -1
            else:
                # To the left all is counted; what comes instead of this node is on its right.
                left = np.int64(0)
                for c in range(begun[top], count):
                    left |= np.int64(1) << c
                for a in range(ends[j - 1] if j else 0, ends[j]):
                    if goes_right(lines[a], node, j, cut, cells, mixed, first, points):
                        table[a, s] &= ~left
                stack[top], begun[top] = child[node] + 1, -1


@numba.njit(cache=True, nogil=True)
def _along(table: Any, leaves: Any, asked: Any, at: Any, by: Any, group: Any, ranks: Any, out: Any) -> None:
    (features, wide), orders = (at.shape[1], table.shape[1]), ranks.shape[1]
    order = np.empty((orders, features), np.int64)
    # Masks of so many first features of the record asked about, and of the features after them of another one.
    before, after = np.full((orders, features + 1, wide), -1), np.empty(wide, np.int64)
    own = 0
    for q in range(len(by)):
        i = by[q]
        if q == 0 or group[i] != group[by[q - 1]]:
            for k in range(orders):
                for j in range(features):
                    order[k, ranks[group[i], k, j]] = j
                for p in range(features):
                    mask, known, more = table[asked[order[k, p]]], before[k, p], before[k, p + 1]
                    for s in range(wide):
                        more[s] = known[s] & mask[s]
            own = 0
            for s in range(wide):
                own += leaves[s, _lowest(before[0, features, s])]
        for k in range(orders):
            out[i, k, features] += own
            after[:] = -1
            for p in range(features - 1, -1, -1):
                mask, ours, total = table[at[i, order[k, p]]], before[k, p], 0
                for s in range(wide):
                    after[s] &= mask[s]
                for s in range(wide):
                    total += leaves[s, _lowest(ours[s] & after[s])]
                out[i, k, p] += total
