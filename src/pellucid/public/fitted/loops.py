"""The walks of `walks` as compiled loops. Imported only where Numba is installed.

Unsigned numbers are avoided: beside signed ones they make floats.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from . import mask_loops as by_masks

__all__ = ["along", "by_masks", "cells", "changed", "clipped", "distinct", "spread", "sums"]

ROOM = 1 << 15
"""Numbers of a block of records that are kept beside a tree in the processor's caches."""
SEARCHES = 1 << 10
"""Values that are looked for together."""


@numba.njit(inline="always")
def goes_right(atom: Any, node: Any, j: Any, cut: Any, cells: Any, mixed: Any, first: Any, points: Any) -> Any:
    if mixed and atom >= cells[j]:
        return not points[first[node] + atom - cells[j]]
    return atom > cut[node]


@numba.njit(cache=True, nogil=True)
def cells(cuts: Any, values: Any, out: Any) -> None:
    """How many cuts lie below each value; all below NaN. Many searches take their steps together."""
    low = np.zeros(SEARCHES, np.uint32)
    for begin in range(0, len(values), SEARCHES):
        some = values[begin : begin + SEARCHES]
        low[:] = 0
        rest: Any = len(cuts)
        while rest > 0:
            half = np.uint32((rest + 1) // 2)
            middle = cuts[half - 1 :]
            for i in range(len(some)):
                low[i] += np.uint32(0) if middle[low[i]] >= some[i] else half
            rest -= half
        for i in range(len(some)):
            out[begin + i] = low[i]


@numba.njit(cache=True, nogil=True)
def clipped(raw: Any, unit: float, base: float, low: float, high: float, out: Any) -> None:
    """raw · unit + base inside [low, high]."""
    for i in range(raw.shape[0]):
        for p in range(raw.shape[1]):
            number: Any = np.float64(raw[i, p]) * unit + base
            number = low if number < low else number
            out[i, p] = high if number > high else number


@numba.njit(cache=True, nogil=True)
def distinct(raw: Any, unit: float, base: float, out: Any) -> int:
    """raw · unit + base of each number that is another one than that on its left; how many there are."""
    count = 0
    for i in range(raw.shape[0]):
        last = ~raw[i, 0]
        for p in range(raw.shape[1]):
            # What is not counted is written over.
            out[count] = np.float64(raw[i, p]) * unit + base
            count += raw[i, p] != last
            last = raw[i, p]
    return count


@numba.njit(cache=True, nogil=True)
def spread(raw: Any, found: Any, low: float, high: float, out: Any) -> None:
    """What was made of `distinct` numbers, inside [low, high], for all of them."""
    at = -1
    for i in range(raw.shape[0]):
        last = ~raw[i, 0]
        for p in range(raw.shape[1]):
            at += raw[i, p] != last
            last = raw[i, p]
            number = found[at]
            number = low if number < low else number
            out[i, p] = high if number > high else number


@numba.njit(cache=True, nogil=True)
def sums(trees: Any, atoms: Any, out: Any) -> None:
    root, feature, cut, child, value, cells, mixed, first, points = trees
    block = max(16, ROOM // (atoms.shape[1] + 2))
    for begin in range(0, len(atoms), block):
        end = min(begin + block, len(atoms))
        for t in range(len(root)):
            for i in range(begin, end):
                node = root[t]
                j = feature[node]
                while j >= 0:
                    if goes_right(atoms[i, j], node, j, cut, cells, mixed, first, points):
                        node = child[node] + 1
                    else:
                        node = child[node]
                    j = feature[node]
                out[i] += value[node]


@numba.njit(cache=True, nogil=True)
def along(trees: Any, depth: Any, atoms: Any, start: Any, grid: Any, by_cuts: Any, boundary: Any, out: Any) -> None:
    root, feature, cut, child, value, cells, mixed, first, points = trees
    features, size = atoms.shape[1], out.shape[1]
    # The points of a grid that still go with the record are order[low:high]; those of a grid of cells never change their order.
    order = np.arange(size)
    low, high = np.zeros(features, np.int64), np.zeros(features, np.int64)
    met, seen = np.zeros(features, np.int64), np.zeros(features, np.bool_)
    at, begins, ends = np.zeros(depth + 2, np.int64), np.zeros(depth + 2, np.int64), np.zeros(depth + 2, np.int64)
    block = max(16, ROOM // (size + 1))
    # Sums change at few points of a grid: steps are kept, and added up in the end.
    steps, whole = np.zeros((block, size + 1), np.int64), np.zeros(block, np.int64)
    for begin in range(0, len(atoms), block):
        end = min(begin + block, len(atoms))
        steps[:] = 0
        whole[:] = 0
        for t in range(len(root)):
            for i in range(begin, end):
                b = i - begin
                node, count = root[t], 0
                j = feature[node]
                while j >= 0:
                    right = goes_right(atoms[i, j], node, j, cut, cells, mixed, first, points)
                    if start[j] < start[j + 1]:
                        if not seen[j]:
                            seen[j], low[j], high[j] = True, start[j], start[j + 1]
                            met[count] = j
                            count += 1
                        # Those that part from the record here: order[a:e].
                        a, e = low[j], high[j]
                        if by_cuts[j]:
                            middle = min(max(boundary[node], a), e)
                            if right:
                                e = middle
                                low[j] = middle
                            else:
                                a = middle
                                high[j] = middle
                        else:
                            p, a = a, e
                            while p < a:
                                if goes_right(grid[order[p]], node, j, cut, cells, mixed, first, points) == right:
                                    p += 1
                                else:
                                    a -= 1
                                    order[p], order[a] = order[a], order[p]
                            high[j] = a
                        if a < e:
                            top = 0
                            at[0], begins[0], ends[0] = child[node] if right else child[node] + 1, a, e
                            while top >= 0:
                                apart, f, g = at[top], begins[top], ends[top]
                                top -= 1
                                k = feature[apart]
                                while k >= 0:
                                    if k != j:
                                        if goes_right(atoms[i, k], apart, k, cut, cells, mixed, first, points):
                                            apart = child[apart] + 1
                                        else:
                                            apart = child[apart]
                                    else:
                                        if by_cuts[j]:
                                            m = min(max(boundary[apart], f), g)
                                        else:
                                            m, p = g, f
                                            while p < m:
                                                if goes_right(grid[order[p]], apart, j, cut, cells, mixed, first, points):
                                                    m -= 1
                                                    order[p], order[m] = order[m], order[p]
                                                else:
                                                    p += 1
                                        # Those before m go left.
                                        if m == f:
                                            apart = child[apart] + 1
                                        else:
                                            if m < g:
                                                top += 1
                                                at[top], begins[top], ends[top] = child[apart] + 1, m, g
                                                g = m
                                            apart = child[apart]
                                    k = feature[apart]
                                w = value[apart]
                                if by_cuts[j]:
                                    steps[b, f] += w
                                    steps[b, g] -= w
                                else:
                                    for p in range(f, g):
                                        out[i, order[p]] += w
                    node = child[node] + 1 if right else child[node]
                    j = feature[node]
                v = value[node]
                whole[b] += v
                for c in range(count):
                    j = met[c]
                    seen[j] = False
                    # What parted from the record is not where it is.
                    if by_cuts[j]:
                        steps[b, start[j]] -= v
                        steps[b, low[j]] += v
                        steps[b, high[j]] -= v
                        steps[b, start[j + 1]] += v
                    else:
                        for p in range(high[j], start[j + 1]):
                            out[i, order[p]] -= v
        for i in range(begin, end):
            running = whole[i - begin]
            for p in range(size):
                running += steps[i - begin, p]
                out[i, p] += running


@numba.njit(cache=True, nogil=True)
def changed(trees: Any, place: Any, begins: Any, members: Any, atoms: Any, given: Any, out: Any) -> None:
    """`members`: the columns that change a feature, feature after feature; those of each from `begins` on."""
    root, feature, cut, child, value, cells, mixed, first, points = trees
    columns = out.shape[1]
    met, parted = np.zeros(columns, np.int64), np.zeros(columns, np.bool_)
    block = max(16, ROOM // (atoms.shape[1] + given.shape[1] + columns))
    whole = np.zeros(block, np.int64)
    for begin in range(0, len(atoms), block):
        end = min(begin + block, len(atoms))
        whole[:] = 0
        for t in range(len(root)):
            for i in range(begin, end):
                node, count = root[t], 0
                j = feature[node]
                while j >= 0:
                    right = goes_right(atoms[i, j], node, j, cut, cells, mixed, first, points)
                    for m in range(begins[j], begins[j + 1]):
                        c = members[m]
                        if parted[c]:
                            continue
                        if goes_right(given[i, place[c, j]], node, j, cut, cells, mixed, first, points) != right:
                            parted[c] = True
                            met[count] = c
                            count += 1
                            apart = child[node] if right else child[node] + 1
                            k = feature[apart]
                            while k >= 0:
                                atom = atoms[i, k] if place[c, k] < 0 else given[i, place[c, k]]
                                if goes_right(atom, apart, k, cut, cells, mixed, first, points):
                                    apart = child[apart] + 1
                                else:
                                    apart = child[apart]
                                k = feature[apart]
                            out[i, c] += value[apart]
                    node = child[node] + 1 if right else child[node]
                    j = feature[node]
                whole[i - begin] += value[node]
                for c in range(count):
                    parted[met[c]] = False
                    out[i, met[c]] -= value[node]
        for i in range(begin, end):
            for c in range(columns):
                out[i, c] += whole[i - begin]
