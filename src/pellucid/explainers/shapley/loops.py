"""Walks of two records at once as compiled loops. Imported only where Numba is installed."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from ...public.fitted.loops import ROOM, goes_right
from .masks import prefixes_by_masks
from .outcomes import tabled

__all__ = ["prefixes", "prefixes_by_masks", "tabled", "vectors"]

BLOCK = 1 << 17
"""Numbers per block of records that are walked down a tree together."""
FEWEST, MANY = 256, 1 << 13
"""Records of a block, at least and at most."""

NODE, STAGE, BEGIN, END, FREE, LAST, LEVEL = range(7)
"""What is kept about a node on the way: its list of records and the one of those that part, what of it is done."""
FRESH, LEFT, RIGHT, X_WAY, Z_WAY = range(5)


@numba.njit(inline="always")
def _amounts(w: Any, v: Any, gives: Any, takes: Any, give: Any, take: Any) -> None:
    """What a leaf gives and takes, by the number of features that are taken from the record asked about."""
    for u in range(len(gives) - v):
        give[u], take[u] = np.int64(np.rint(w * gives[u, v])), np.int64(np.rint(w * takes[u, v]))


@numba.njit(inline="always")
def _push(stack: Any, top: Any, node: Any, begin: Any, end: Any, free: Any, level: Any) -> None:
    stack[top, NODE], stack[top, STAGE], stack[top, LEVEL] = node, FRESH, level
    stack[top, BEGIN], stack[top, END], stack[top, FREE] = begin, end, free


@numba.njit(cache=True, nogil=True)
def vectors(trees: Any, depth: Any, player: Any, asked_right: Any, columns: Any, gives: Any, takes: Any, out: Any) -> None:
    """Per background record and player the sum of what the leaves give and take; `player` tells whose each feature is.

    A tree is walked once for a block of records. All that come to a node are a list, and have the same features decided by
    themselves (`theirs`). Where the record asked about goes, the whole list goes, and those that part count one feature more of
    `ours`; the other way, those that part go alone, as a new list. Amounts of leaves come back by record, in a line for every
    number of new lists on the way. Lists are made without a branch for each record, which processors would have to guess.
    """
    root, feature, cut, child, value, cells, mixed, first, points = trees
    players, n = out.shape[1], columns.shape[1]
    most, block = len(gives), max(1, min(n, max(FEWEST, min(MANY, BLOCK // players))))
    # Unsigned, as indices that can be negative are looked at once more.
    rows = np.empty(block * (depth + 2), np.uint32)
    ours, parted = np.zeros(block, np.uint8), np.zeros((players, block), np.bool_)
    theirs, above = np.zeros(players, np.bool_), np.zeros(players, np.int64)
    give, take = np.zeros((depth + 1, block), np.int64), np.zeros((depth + 1, block), np.int64)
    total, stack = np.zeros((players, block), np.int64), np.empty((depth + 1, 7), np.int64)
    # By the number of ours; of a fork of leaves, in the second half for records that part there.
    gives_x, takes_x, gives_z, takes_z = np.zeros((4, most), np.int64)
    fork_gives, fork_takes, fork_pays = np.zeros((3, 2 * most), np.int64)
    for start in range(0, n, block):
        m = min(block, n - start)
        total[:] = 0
        for i in range(m):
            rows[i] = i
        for t in range(len(root)):
            top, v = 0, 0
            _push(stack, 0, root[t], 0, m, m, 0)
            while top >= 0:
                node, stage, level = stack[top, NODE], stack[top, STAGE], stack[top, LEVEL]
                begin, end, free = stack[top, BEGIN], stack[top, END], stack[top, FREE]
                here, j, give_x, take_x = rows[begin:end], feature[node], give[level], take[level]
                if j < 0:
                    _amounts(float(value[node]), v, gives, takes, gives_x, takes_x)
                    for i in here:
                        give_x[i], take_x[i] = gives_x[ours[i]], takes_x[ours[i]]
                    top -= 1
                    continue
                p = player[j]
                column, apart, x_right = columns[j, start : start + m], parted[p], asked_right[node]
                x_way, z_way = child[node] + x_right, child[node] + 1 - x_right
                if stage == FRESH and theirs[p]:
                    # Each where it goes by itself: those to the left first.
                    left, right = begin, free
                    for i in here:
                        goes = goes_right(column[i], node, j, cut, cells, mixed, first, points)
                        rows[left], rows[right] = i, i
                        left += 1 - goes
                        right += goes
                    rows[left:end] = rows[free:right]
                    stack[top, STAGE], stack[top, LAST] = LEFT, left
                    if begin < left:
                        top += 1
                        _push(stack, top, child[node], begin, left, free, level)
                elif stage == LEFT:
                    stack[top, STAGE] = RIGHT
                    left = stack[top, LAST]
                    if left < end:
                        top += 1
                        _push(stack, top, child[node] + 1, left, end, free, level)
                elif stage == RIGHT:
                    top -= 1
                elif stage == FRESH and feature[x_way] < 0 and feature[z_way] < 0:
                    _amounts(float(value[x_way]), v, gives, takes, gives_x, takes_x)
                    _amounts(float(value[z_way]), v + 1, gives, takes, gives_z, takes_z)
                    fork_gives[:most], fork_takes[:most] = gives_x, takes_x
                    for u in range(most - v - 1):
                        fork_gives[most + u] = gives_x[u + 1] + gives_z[u]
                        fork_takes[most + u] = takes_x[u + 1] + takes_z[u]
                        fork_pays[most + u] = gives_x[u + 1] - takes_z[u]
                    line = total[p]
                    for i in here:
                        goes = goes_right(column[i], node, j, cut, cells, mixed, first, points)
                        key = ours[i] + (most if (goes != x_right) & (not apart[i]) else 0)
                        give_x[i], take_x[i] = fork_gives[key], fork_takes[key]
                        line[i] += fork_pays[key]
                    top -= 1
                elif stage == FRESH:
                    last = free
                    if above[p]:
                        for i in here:
                            rows[last] = i
                            goes = goes_right(column[i], node, j, cut, cells, mixed, first, points)
                            last += (goes != x_right) & (not apart[i])
                    else:
                        for i in here:
                            rows[last] = i
                            last += goes_right(column[i], node, j, cut, cells, mixed, first, points) != x_right
                    for i in rows[free:last]:
                        ours[i] += 1
                        apart[i] = True
                    above[p] += 1
                    stack[top, STAGE], stack[top, LAST] = X_WAY, last
                    top += 1
                    _push(stack, top, x_way, begin, end, last, level)
                elif stage == X_WAY:
                    last = stack[top, LAST]
                    for i in rows[free:last]:
                        ours[i] -= 1
                        apart[i] = False
                    above[p] -= 1
                    if free < last:
                        theirs[p] = True
                        v += 1
                        stack[top, STAGE] = Z_WAY
                        top += 1
                        _push(stack, top, z_way, free, last, last, level + 1)
                    else:
                        top -= 1
                else:
                    theirs[p] = False
                    v -= 1
                    line, give_z, take_z = total[p], give[level + 1], take[level + 1]
                    for i in rows[free : stack[top, LAST]]:
                        line[i] += give_x[i] - take_z[i]
                        give_x[i] += give_z[i]
                        take_x[i] += take_z[i]
                    top -= 1
        for i in range(m):
            for p in range(players):
                out[start + i, p] += total[p, i]


@numba.njit(cache=True, nogil=True)
def prefixes(trees: Any, asked_right: Any, atoms: Any, group: Any, ranks: Any, out: Any) -> None:
    """Per background record, order and number of features taken from the record asked about, so many of the order's first:
    the sum of leaves. `out` has one place more in its last axis, for the ends of stretches."""
    root, feature, cut, child, value, cells, mixed, first, points = trees
    orders, features = ranks.shape[1], ranks.shape[2]
    most = features + 1
    at, second, z_way = np.empty(most, np.int64), np.empty(most, np.bool_), np.empty(most, np.int64)
    # Per parting on the way: the stretch of every order, from `low` on and before `high`.
    low, high = np.zeros((most, orders), np.int64), np.zeros((most, orders), np.int64)
    decided = np.zeros(features, np.int8)
    high[0] = features + 1
    block = max(16, ROOM // (orders * (features + 2)))
    for begin in range(0, len(atoms), block):
        end = min(begin + block, len(atoms))
        for t in range(len(root)):
            for i in range(begin, end):
                own = ranks[group[i]]
                depth, node = 0, np.int64(root[t])
                while True:
                    j = feature[node]
                    while j >= 0:
                        right = goes_right(atoms[i, j], node, j, cut, cells, mixed, first, points)
                        x_right = asked_right[node]
                        if right == x_right:
                            node = child[node] + right
                        elif decided[j] == 0:
                            at[depth], second[depth], z_way[depth] = j, False, child[node] + right
                            for k in range(orders):
                                low[depth + 1, k] = max(low[depth, k], own[k, j] + 1)
                                high[depth + 1, k] = high[depth, k]
                            depth += 1
                            decided[j] = 1
                            node = child[node] + x_right
                        elif decided[j] == 1:
                            node = child[node] + x_right
                        else:
                            node = child[node] + right
                        j = feature[node]
                    w = value[node]
                    for k in range(orders):
                        a = low[depth, k]
                        out[i, k, a] += w
                        out[i, k, max(a, high[depth, k])] -= w
                    while depth:
                        top = depth - 1
                        j = at[top]
                        if not second[top]:
                            second[top] = True
                            decided[j] = 2
                            for k in range(orders):
                                low[depth, k] = low[top, k]
                                high[depth, k] = min(high[top, k], own[k, j] + 1)
                            node = z_way[top]
                            break
                        decided[j] = 0
                        depth -= 1
                    else:
                        break
        for i in range(begin, end):
            for k in range(orders):
                for p in range(1, features + 1):
                    out[i, k, p] += out[i, k, p - 1]
