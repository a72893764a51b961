"""Shapley vectors of small trees from tables of outcomes, as compiled loops. Imported only where Numba is installed."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from ...public.fitted.loops import ROOM, goes_right
from .trees import NARROW


@numba.njit
def _and_where(key: Any, column: Any, last: Any, if_left: Any, if_right: Any) -> None:
    # All of one type: else this is not done for several records at once.
    for i in range(len(column)):
        key[i] &= if_right if column[i] > last else if_left


@numba.njit
def _add_lines(table: Any, keys: Any, i: Any, wide: Any, line: Any) -> None:
    for c in range(0, len(keys), 8):
        a, b, d, e = table[keys[c, i] :], table[keys[c + 1, i] :], table[keys[c + 2, i] :], table[keys[c + 3, i] :]
        g, h, k, m = table[keys[c + 4, i] :], table[keys[c + 5, i] :], table[keys[c + 6, i] :], table[keys[c + 7, i] :]
        for f in range(wide):
            line[f] += a[f] + b[f] + d[f] + e[f] + g[f] + h[f] + k[f] + m[f]


@numba.njit(cache=True, nogil=True)
def tabled(trees: Any, depth: Any, asked_right: Any, columns: Any, gives: Any, takes: Any, bits: Any, out: Any) -> None:
    """As `vectors`, added up over all records asked about, and quicker for small trees.

    A tree is cut into parts: subtrees with so few comparisons, those of the path to it included, that all outcomes of them have a
    number of few bits. What the leaves of a part give and take is tabled once for every outcome. A background record then needs
    its outcome in every part, which is computed for many records at once, and the sum of as many lines of tables. A path that
    tests more features is a part of its own. Of few features `out` has a
    multiple of four columns, for lines to be added as they are.
    """
    root, feature, cut, child, value, cells, mixed, first, points = trees
    features, n = columns.shape
    nodes, asked, narrow = len(feature), len(asked_right), features <= NARROW
    parent, size = np.full(nodes, -1), np.zeros(nodes, np.int64)
    # Children come after their parents.
    for node in range(nodes - 1, -1, -1):
        if feature[node] >= 0:
            size[node] = 1 + size[child[node]] + size[child[node] + 1]
            parent[child[node]] = node
            parent[child[node] + 1] = node
    most = gives.shape[0]
    ones = np.zeros(1 << most, np.int64)
    for p in range(1, len(ones)):
        ones[p] = ones[p >> 1] + (p & 1)
    place, slot, bit_of = np.full(features, -1), np.full(features, -1), np.zeros(nodes, np.int64)
    stack, inside = np.empty(nodes + 1, np.int64), np.empty(nodes + 1, np.int64)
    on_path, need, want = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most, np.int64)
    has = np.empty(asked, np.int64)
    for t in range(len(root)):
        # The features of the tree, and its parts: where they begin, how many features the way there tests, their place.
        some, cols = 0, np.empty(features, np.int64)
        parts, starts = np.empty(size[root[t]] + 8, np.int64), np.zeros(size[root[t]] + 8, np.int64)
        count, total, top = 0, 0, 1
        stack[0] = root[t]
        while top:
            top -= 1
            node = stack[top]
            tested, up = 0, node
            while parent[up] >= 0:
                up = parent[up]
                if slot[feature[up]] < 0:
                    slot[feature[up]] = 0
                    tested += 1
            up = node
            while parent[up] >= 0:
                up = parent[up]
                slot[feature[up]] = -1
            if feature[node] < 0 or tested + size[node] <= bits:
                parts[count], starts[count] = node, total
                total += 1 << (tested + size[node])
                count += 1
            else:
                stack[top], stack[top + 1] = child[node], child[node] + 1
                top += 2
        stack[0], top = root[t], 1
        while top:
            top -= 1
            node = stack[top]
            j = feature[node]
            if j >= 0:
                if place[j] < 0:
                    place[j], cols[some] = some, j
                    some += 1
                stack[top], stack[top + 1] = child[node], child[node] + 1
                top += 2
        if narrow:
            for j in range(features):
                place[j], cols[j] = j, j
            some = features
        wide = (some + 3) // 4 * 4
        table = np.zeros((total + 1) * wide, np.int64)
        block = max(64, min(n, ROOM // (2 * count + 4)))
        rounds = (count + 7) // 8 * 8
        # The outcomes of every part, whose comparisons clear bits; parts that only fill up have an empty line.
        begun, ops, room = np.zeros(count, np.int32), np.zeros(count, np.int64), depth + bits
        clears, of_node = np.zeros((count, room), np.int32), np.zeros((count, room), np.int64)
        on_right = np.zeros((count, room), np.bool_)
        for c in range(count):
            here, tested, up = parts[c], 0, parts[c]
            while parent[up] >= 0:
                last, up = up, parent[up]
                j = feature[up]
                if slot[j] < 0:
                    slot[j] = tested
                    tested += 1
                clears[c, ops[c]], of_node[c, ops[c]], on_right[c, ops[c]] = 1 << slot[j], up, last == child[up]
                ops[c] += 1
            number, top = tested, 1
            inside[0] = here
            while top:
                top -= 1
                node = inside[top]
                if feature[node] >= 0:
                    bit_of[node] = 1 << number
                    clears[c, ops[c]], of_node[c, ops[c]], on_right[c, ops[c]] = 1 << number, node, True
                    ops[c] += 1
                    number += 1
                    inside[top], inside[top + 1] = child[node], child[node] + 1
                    top += 2
            outcomes = 1 << number
            begun[c] = outcomes - 1
            inside[0], top = here, 1
            while top:
                top -= 1
                node = inside[top]
                if feature[node] >= 0:
                    inside[top], inside[top + 1] = child[node], child[node] + 1
                    top += 2
                    continue
                # A leaf: which bits of an outcome say that a record agrees with all that its path asks of a feature.
                k, up, within = 0, node, node != here
                has[:] = 0
                while parent[up] >= 0:
                    last, up = up, parent[up]
                    j, right, f = feature[up], last != child[up], 0
                    while f < k and on_path[f] != j:
                        f += 1
                    if f == k:
                        on_path[f], need[f], want[f] = j, 0, 0
                        k += 1
                    mask = bit_of[up] if within else 1 << slot[j]
                    need[f] |= mask
                    if not (within and right):
                        want[f] |= mask
                    # Bits of what the records asked about fail at.
                    for b in range(asked):
                        if asked_right[b, up] != right:
                            has[b] |= 1 << f
                    within = within and up != here
                lines = np.zeros((1 << k, k), np.int64)
                filled = np.zeros(1 << k, np.bool_)
                w, everything = float(value[node]), (1 << k) - 1
                for b in range(asked):
                    fails = has[b]
                    passes = everything & ~fails
                    v, sub = ones[fails], passes
                    while True:
                        # The background record agrees at `sub` and at all that the other one fails at.
                        u = ones[passes & ~sub]
                        give, take = np.int64(np.rint(w * gives[u, v])), np.int64(np.rint(w * takes[u, v]))
                        line = fails | sub
                        filled[line] = True
                        for f in range(k):
                            if fails >> f & 1:
                                lines[line, f] -= take
                            elif not sub >> f & 1:
                                lines[line, f] += give
                        if sub == 0:
                            break
                        sub = (sub - 1) & passes
                for outcome in range(outcomes):
                    line = 0
                    for f in range(k):
                        if outcome & need[f] == want[f]:
                            line |= 1 << f
                    if filled[line]:
                        at = (starts[c] + outcome) * wide
                        for f in range(k):
                            table[at + place[on_path[f]]] += lines[line, f]
            up = here
            while parent[up] >= 0:
                up = parent[up]
                slot[feature[up]] = -1
        keys, local = np.zeros((rounds, block), np.int32), np.zeros(wide, np.int64)
        for begin in range(0, n, block):
            end = min(begin + block, n)
            for c in range(count):
                key = keys[c]
                key[: end - begin] = begun[c]
                for o in range(ops[c]):
                    node, right, kept = of_node[c, o], on_right[c, o], np.int32(~clears[c, o])
                    j = feature[node]
                    column, last = columns[j, begin:end], cut[node]
                    if mixed and first[node] > 0:
                        for i in range(end - begin):
                            if goes_right(column[i], node, j, cut, cells, mixed, first, points) == right:
                                key[i] &= kept
                    elif right:
                        _and_where(key, column, last, np.int32(-1), kept)
                    else:
                        _and_where(key, column, last, kept, np.int32(-1))
                for i in range(end - begin):
                    key[i] = (key[i] + starts[c]) * wide
            for c in range(count, rounds):
                keys[c] = total * wide
            for i in range(end - begin):
                if narrow:
                    _add_lines(table, keys, i, wide, out[begin + i])
                else:
                    local[:] = 0
                    _add_lines(table, keys, i, wide, local)
                    for f in range(some):
                        out[begin + i, cols[f]] += local[f]
        for f in range(some):
            place[cols[f]] = -1
