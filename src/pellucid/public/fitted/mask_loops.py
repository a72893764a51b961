"""The walks of `masks` as compiled loops. Imported only where Numba is installed.

A block of records is taken through one tree at a time, feature after feature, so that what is looked up stays in the processor's
caches and several records are computed at once. Indices are unsigned: Numba looks whether a signed one is negative.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

BLOCK, GRID_BLOCK = 256, 128
"""Records that are taken through a tree together, and along grids."""
ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
HASH = np.uint64(0x03F79D71B4CB0A89)
"""A de Bruijn sequence: the first six bits of a product of it with a power of two are another number for each of the 64."""
SHIFT = np.uint64(58)

compiled = numba.njit(cache=True, nogil=True)


@compiled
def fill(trees: Any, sizes: Any, masks: Any) -> None:
    """The masks of `Masks`, from walkable trees whose leaves are few."""
    root, node_feature, cut, child, node_value, cells, mixed, first_point, points = trees
    first, feature, at, table, leaves, value = masks
    below = np.zeros(len(node_feature), np.uint64)
    for t in range(len(root)):
        # Children come after their parents: leaves are numbered on the way down, and gathered on the way back.
        nodes = np.zeros(2 * 64, np.int64)
        count, seen, bit = 1, 0, np.uint64(1)
        nodes[0] = root[t]
        while seen < count:
            node = nodes[seen]
            if node_feature[node] < 0:
                below[node] = bit
                value[t, (bit * HASH) >> SHIFT] = node_value[node]
                leaves[t] |= bit
                bit <<= np.uint64(1)
            else:
                nodes[count], nodes[count + 1] = child[node], child[node] + 1
                count += 2
            seen += 1
        for k in range(count - 1, -1, -1):
            node = nodes[k]
            j = node_feature[node]
            if j < 0:
                continue
            left, right = below[child[node]], below[child[node] + 1]
            below[node] = left | right
            for s in range(first[t], first[t + 1]):
                if feature[s] == j:
                    for atom in range(sizes[j]):
                        if mixed and atom >= cells[j]:
                            goes_right = not points[first_point[node] + atom - cells[j]]
                        else:
                            goes_right = atom > cut[node]
                        table[at[s] + atom] &= ~(left if goes_right else right)


@compiled
def sums(masks: Any, atoms: Any, out: Any) -> None:
    first, feature, at, table, leaves, value = masks
    features = atoms.shape[1]
    own, left = np.zeros((features, BLOCK), np.uint32), np.empty(BLOCK, np.uint64)
    for begin in range(0, len(atoms), BLOCK):
        size = min(BLOCK, len(atoms) - begin)
        for i in range(size):
            for j in range(features):
                own[j, i] = atoms[begin + i, j]
        for t in range(len(first) - 1):
            left[:] = leaves[t]
            for s in range(first[t], first[t + 1]):
                here, mask = own[feature[s]], table[at[s] :]
                for i in range(BLOCK):
                    left[i] &= mask[here[i]]
            leaf = value[t]
            for i in range(size):
                out[begin + i] += leaf[(left[i] * HASH) >> SHIFT]


@compiled
def along(masks: Any, start: Any, run: Any, run_mask: Any, run_point: Any, atoms: Any, out: Any) -> None:
    """`run`: per slot the runs of its feature's grid with one mask each; a run begins at a point and ends before the next."""
    first, feature, at, table, leaves, value = masks
    features, points = atoms.shape[1], out.shape[1]
    own, most = np.zeros((features, GRID_BLOCK), np.uint32), 1
    for t in range(len(first) - 1):
        most = max(most, first[t + 1] - first[t] + 1)
    before, others, after = (
        np.empty(GRID_BLOCK, np.uint64),
        np.empty(GRID_BLOCK, np.uint64),
        np.empty((most, GRID_BLOCK), np.uint64),
    )
    reached, last, whole = np.empty(GRID_BLOCK, np.int64), np.empty(GRID_BLOCK, np.int64), np.empty(GRID_BLOCK, np.int64)
    steps = np.zeros((points, GRID_BLOCK), np.int64)
    for begin in range(0, len(atoms), GRID_BLOCK):
        size = min(GRID_BLOCK, len(atoms) - begin)
        for i in range(size):
            for j in range(features):
                own[j, i] = atoms[begin + i, j]
        steps[:] = 0
        whole[:] = 0
        for t in range(len(first) - 1):
            low, high, leaf = first[t], first[t + 1], value[t]
            # The leaves that the features from a slot on leave open, from the last slot to the first.
            left = after[high - low]
            left[:] = leaves[t]
            for s in range(high - 1, low - 1, -1):
                here, mask, rest = own[feature[s]], table[at[s] :], after[s - low]
                for i in range(GRID_BLOCK):
                    rest[i] = left[i] & mask[here[i]]
                left = rest
            for i in range(GRID_BLOCK):
                reached[i] = leaf[(left[i] * HASH) >> SHIFT]
                whole[i] += reached[i]
            before[:] = ALL
            for s in range(low, high):
                here, mask, rest = own[feature[s]], table[at[s] :], after[s - low + 1]
                if run[s] < run[s + 1]:
                    for i in range(GRID_BLOCK):
                        others[i] = before[i] & rest[i]
                        last[i] = reached[i]
                    for r in range(run[s], run[s + 1]):
                        only, step = run_mask[r], steps[run_point[r]]
                        for i in range(GRID_BLOCK):
                            found = leaf[((others[i] & only) * HASH) >> SHIFT]
                            step[i] += found - last[i]
                            last[i] = found
                for i in range(GRID_BLOCK):
                    before[i] &= mask[here[i]]
        for j in range(features):
            for i in range(GRID_BLOCK):
                last[i] = whole[i]
            for p in range(start[j], start[j + 1]):
                step = steps[p]
                for i in range(GRID_BLOCK):
                    last[i] += step[i]
                    step[i] = last[i]
        for i in range(size):
            for p in range(points):
                out[begin + i, p] = steps[p, i]


@compiled
def changed(masks: Any, place: Any, begins: Any, order: Any, atoms: Any, given: Any, out: Any) -> None:
    """`place`: where a column finds a feature's atoms in `given`, or −1. `order`: the columns that change one feature alone,
    those of each from `begins` on, then those that change several, then those that change none."""
    first, feature, at, table, leaves, value = masks
    features, gifts, columns = atoms.shape[1], given.shape[1], out.shape[1]
    own, gift, most = np.zeros((features, BLOCK), np.uint32), np.zeros((gifts, BLOCK), np.uint32), 1
    for t in range(len(first) - 1):
        most = max(most, first[t + 1] - first[t] + 1)
    before, others, after = np.empty(BLOCK, np.uint64), np.empty(BLOCK, np.uint64), np.empty((most, BLOCK), np.uint64)
    reached, whole, more = np.empty(BLOCK, np.int64), np.empty(BLOCK, np.int64), np.zeros((columns, BLOCK), np.int64)
    for begin in range(0, len(atoms), BLOCK):
        size = min(BLOCK, len(atoms) - begin)
        for i in range(size):
            for j in range(features):
                own[j, i] = atoms[begin + i, j]
            for q in range(gifts):
                gift[q, i] = given[begin + i, q]
        more[:] = 0
        whole[:] = 0
        for t in range(len(first) - 1):
            low, high, leaf = first[t], first[t + 1], value[t]
            left = after[high - low]
            left[:] = leaves[t]
            for s in range(high - 1, low - 1, -1):
                here, mask, rest = own[feature[s]], table[at[s] :], after[s - low]
                for i in range(BLOCK):
                    rest[i] = left[i] & mask[here[i]]
                left = rest
            for i in range(BLOCK):
                reached[i] = leaf[(left[i] * HASH) >> SHIFT]
                whole[i] += reached[i]
            before[:] = ALL
            for s in range(low, high):
                j = feature[s]
                here, mask, rest = own[j], table[at[s] :], after[s - low + 1]
                if begins[j] < begins[j + 1]:
                    for i in range(BLOCK):
                        others[i] = before[i] & rest[i]
                    for m in range(begins[j], begins[j + 1]):
                        there, step = gift[place[order[m], j]], more[order[m]]
                        for i in range(BLOCK):
                            step[i] += leaf[((others[i] & mask[there[i]]) * HASH) >> SHIFT] - reached[i]
                for i in range(BLOCK):
                    before[i] &= mask[here[i]]
            # Several features at once: the masks of all, each by itself.
            for m in range(begins[features], begins[features + 1]):
                c = order[m]
                before[:] = leaves[t]
                for s in range(low, high):
                    j = feature[s]
                    here, mask = own[j] if place[c, j] < 0 else gift[place[c, j]], table[at[s] :]
                    for i in range(BLOCK):
                        before[i] &= mask[here[i]]
                step = more[c]
                for i in range(BLOCK):
                    step[i] += leaf[(before[i] * HASH) >> SHIFT] - reached[i]
        for i in range(size):
            for c in range(columns):
                out[begin + i, c] = whole[i] + more[c, i]
