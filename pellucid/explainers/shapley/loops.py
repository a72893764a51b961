"""Walks of two records at once as compiled loops. Imported only where Numba is installed."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from ...public.fitted.loops import ROOM, goes_right


@numba.njit(cache=True, nogil=True)
def vectors(trees: Any, asked_right: Any, atoms: Any, gives: Any, takes: Any, out: Any) -> None:
    """Per background record and feature the sum of what the leaves give and take."""
    root, feature, cut, child, value, cells, mixed, first, points = trees
    most = gives.shape[0]
    at, us, vs = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most, np.int64)
    second, z_way = np.empty(most, np.bool_), np.empty(most, np.int64)
    give_x, take_x = np.empty(most, np.int64), np.empty(most, np.int64)
    decided = np.zeros(out.shape[1], np.int8)
    block = max(16, ROOM // (2 * atoms.shape[1]))
    for begin in range(0, len(atoms), block):
        end = min(begin + block, len(atoms))
        for t in range(len(root)):
            for i in range(begin, end):
                depth, node, u, v = 0, np.int64(root[t]), 0, 0
                while True:
                    j = feature[node]
                    while j >= 0:
                        right = goes_right(atoms[i, j], node, j, cut, cells, mixed, first, points)
                        x_right = asked_right[node]
                        if right == x_right:
                            node = child[node] + right
                        elif decided[j] == 0:
                            at[depth], us[depth], vs[depth], second[depth], z_way[depth] = j, u, v, False, child[node] + right
                            depth += 1
                            decided[j] = 1
                            u += 1
                            node = child[node] + x_right
                        elif decided[j] == 1:
                            node = child[node] + x_right
                        else:
                            node = child[node] + right
                        j = feature[node]
                    w = float(value[node])
                    give, take = np.int64(np.rint(w * gives[u, v])), np.int64(np.rint(w * takes[u, v]))
                    while depth:
                        top = depth - 1
                        j = at[top]
                        if not second[top]:
                            out[i, j] += give
                            give_x[top], take_x[top], second[top] = give, take, True
                            decided[j] = 2
                            u, v, node = us[top], vs[top] + 1, z_way[top]
                            break
                        out[i, j] -= take
                        give += give_x[top]
                        take += take_x[top]
                        decided[j] = 0
                        depth -= 1
                    else:
                        break


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
