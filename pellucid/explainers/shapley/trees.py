"""Exact Shapley vectors of a sum of trees against single background records.

Walk down a tree with both records at once. Where they agree there is nothing to decide. Where they part at a feature that is
not decided yet, the walk takes both ways: the feature comes from the record asked about (one more of u) or from the background
record (one more of v). A leaf with value w that is reached in this way is a game on its u + v decided features alone; it gives
w·(u−1)!·v!/(u+v)! to each of the u and takes w·u!·(v−1)!/(u+v)! from each of the v. These amounts are added up on the way
back, so that a feature is paid once per parting and not once per leaf. Encoded columns of one feature are decided together.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from .fitted_models import Fitted

STATES = 1 << 20
"""Positions of a walk that the loop-free version holds at once."""

MOST_DECIDED = 62
"""Different features on one path, at most: the loop-free version keeps the decisions in the bits of a number."""


def _joined(parts: Sequence[np.ndarray], kind: Any) -> np.ndarray:
    """One plain array: an array of another class could do anything with what it is compared with."""
    return np.concatenate([np.asarray(part) for part in parts]).astype(kind)


@dataclass(frozen=True, eq=False)
class Forest:
    """All trees in one numbering of nodes. `feature` is the position of a node's feature among those of the game."""

    root: np.ndarray
    column: np.ndarray
    threshold: np.ndarray
    left: np.ndarray
    right: np.ndarray
    nan_left: np.ndarray
    leaf: np.ndarray
    value: np.ndarray
    feature: np.ndarray
    # For nodes that compare with a set of codes: a row of `codes`, whose last entry is for values that are no code; else −1.
    # Rows are as long as the longest set needs; codes beyond a shorter one go where missing values go.
    chosen: np.ndarray
    codes: np.ndarray

    @classmethod
    def of(cls, made: Fitted) -> Forest:
        trees = made.trees
        sizes = [len(tree.column) for tree in trees]
        first = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int32)
        leaf = _joined([tree.leaf for tree in trees], bool)
        column = _joined([tree.column for tree in trees], np.int32)
        feature_of = np.array([c.feature for c in made.encoding.columns], dtype=np.int32)
        chosen = np.full(len(leaf), -1, dtype=np.int32)
        sets = [(start + n, pair, tree.nan_left[n]) for tree, start in zip(trees, first) for n, pair in tree.sets.items()]
        codes = np.zeros((max(1, len(sets)), 1 + max((len(left) for _, (left, _), _ in sets), default=0)), dtype=bool)
        for row, (node, (left, known), nan_left) in enumerate(sets):
            chosen[node] = row
            codes[row] = nan_left
            codes[row, : len(left)] = np.where(known | left, left, nan_left)
        return cls(
            root=first,
            column=column,
            threshold=_joined([tree.threshold for tree in trees], float),
            left=_joined([tree.left + at for tree, at in zip(trees, first)], np.int32),
            right=_joined([tree.right + at for tree, at in zip(trees, first)], np.int32),
            nan_left=_joined([tree.nan_left for tree in trees], bool),
            leaf=leaf,
            value=_joined([tree.value for tree in trees], float),
            feature=np.where(leaf, -1, feature_of[column]),
            chosen=chosen,
            codes=codes,
        )

    def goes_left(self, values: np.ndarray, node: np.ndarray) -> np.ndarray:
        """Whether encoded values go left at nodes; shapes are broadcast."""
        missing = np.isnan(values)
        goes = np.where(missing, self.nan_left[node], values <= self.threshold[node])
        chosen = self.chosen[node]
        if (chosen >= 0).any():
            none = self.codes.shape[1] - 1
            code = np.where((values >= 0) & (values < none), values, none).astype(np.intp)
            goes = np.where(chosen >= 0, self.codes[np.maximum(chosen, 0), code], goes)
        return goes

    def answers(self, encoded: np.ndarray) -> np.ndarray:
        """The sum of the trees at encoded records."""
        node = np.tile(self.root, (len(encoded), 1))
        while not (ends := self.leaf[node]).all():
            values = np.take_along_axis(encoded, np.where(ends, 0, self.column[node]), axis=1)
            node = np.where(ends, node, np.where(self.goes_left(values, node), self.left[node], self.right[node]))
        return self.value[node].sum(axis=1)

    @functools.cached_property
    def slot(self) -> np.ndarray:
        """For every inner node: how many other features come before its feature on the way from the root."""
        found = np.full(len(self.leaf), -1, dtype=np.int64)
        stack: list[tuple[int, tuple[int, ...]]] = [(int(root), ()) for root in self.root]
        while stack:
            node, path = stack.pop()
            if self.leaf[node]:
                continue
            j = int(self.feature[node])
            path = path if j in path else (*path, j)
            found[node] = path.index(j)
            stack += [(int(self.left[node]), path), (int(self.right[node]), path)]
        return found

    @property
    def decided(self) -> int:
        """The largest number of different features on one path."""
        return int(self.slot.max(initial=-1)) + 1


def shares(most: int) -> tuple[np.ndarray, np.ndarray]:
    """What a leaf of value 1 gives to each of its u features, and takes from each of its v, as tables over (u, v)."""
    gives, takes = np.zeros((most + 1, most + 1)), np.zeros((most + 1, most + 1))
    for u in range(most + 1):
        for v in range(most + 1):
            ways = math.comb(u + v, u)
            gives[u, v] = 1 / (u * ways) if u else 0.0
            takes[u, v] = 1 / (v * ways) if v else 0.0
    return gives, takes


def vectors(forest: Forest, asked: np.ndarray, background: np.ndarray, features: int) -> np.ndarray:
    """One Shapley vector per encoded background record."""
    nodes = np.arange(len(forest.leaf))
    asked_left = forest.goes_left(asked[forest.column], nodes)
    gives, takes = shares(forest.decided)
    walk = walker() or _walk_by_levels
    out = np.zeros((len(background), features))
    walk(forest, asked_left, np.ascontiguousarray(background), gives, takes, out)
    return out


def _walk_by_levels(
    forest: Forest, asked_left: np.ndarray, background: np.ndarray, gives: np.ndarray, takes: np.ndarray, out: np.ndarray
) -> None:
    """All records one level down at a time, tree by tree; then the amounts of the leaves one level up at a time."""
    edges = np.append(forest.root, len(forest.leaf))
    for root, end in zip(edges[:-1], edges[1:]):
        step = max(1, STATES // max(1, int(forest.leaf[root:end].sum())))
        for start in range(0, len(background), step):
            piece = slice(start, start + step)
            _one_tree(forest, int(root), asked_left, background[piece], gives, takes, out[piece])


def _one_tree(
    forest: Forest,
    root: int,
    asked_left: np.ndarray,
    background: np.ndarray,
    gives: np.ndarray,
    takes: np.ndarray,
    out: np.ndarray,
) -> None:
    n, d = out.shape
    row, node = np.arange(n), np.full(n, root)
    ours, theirs = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    levels = []
    while len(node):
        inner = np.flatnonzero(~forest.leaf[node])
        here, bit = node[inner], np.int64(1) << forest.slot[node[inner]]
        z_left = forest.goes_left(background[row[inner], forest.column[here]], here)
        x_left = asked_left[here]
        by_x, by_z = ours[inner] & bit != 0, theirs[inner] & bit != 0
        parting = (z_left != x_left) & ~by_x & ~by_z
        x_way = np.where(x_left, forest.left[here], forest.right[here])
        z_way = np.where(z_left, forest.left[here], forest.right[here])
        levels.append((row, node, ours, theirs, inner, parting))
        # First the way of the record asked about (or the common way), then the other way of those that part.
        node = np.concatenate([np.where(by_z, z_way, x_way), z_way[parting]])
        ours = np.concatenate([np.where(parting, ours[inner] | bit, ours[inner]), ours[inner][parting]])
        theirs = np.concatenate([theirs[inner], (theirs[inner] | bit)[parting]])
        row = np.concatenate([row[inner], row[inner][parting]])
    give = take = np.empty(0)
    for row, node, ours, theirs, inner, parting in reversed(levels):
        u, v = np.bitwise_count(ours).astype(np.intp), np.bitwise_count(theirs).astype(np.intp)
        value = np.where(forest.leaf[node], forest.value[node], 0.0)
        above_give, above_take = value * gives[u, v], value * takes[u, v]
        both = np.flatnonzero(parting)
        place = row[inner][both] * d + forest.feature[node[inner][both]]
        amounts = give[both] - take[len(inner) :]
        out += np.bincount(place, amounts, n * d).reshape(n, d)
        above_give[inner], above_take[inner] = give[: len(inner)], take[: len(inner)]
        above_give[inner[both]] += give[len(inner) :]
        above_take[inner[both]] += take[len(inner) :]
        give, take = above_give, above_take


@functools.cache
def walker() -> Callable[..., None] | None:
    """The same walk as a compiled loop, or None where Numba is not installed."""
    try:
        import numba
    except ImportError:
        return None

    @numba.njit(cache=True, nogil=True)
    def loop(
        root: Any, column: Any, threshold: Any, left: Any, right: Any, nan_left: Any, leaf: Any, value: Any, feature: Any,
        chosen: Any, codes: Any, asked_left: Any, background: Any, gives: Any, takes: Any, out: Any,
    ) -> None:  # fmt: skip
        most = gives.shape[0]
        at, us, vs = np.empty(most, np.int32), np.empty(most, np.int32), np.empty(most, np.int32)
        second, z_way = np.empty(most, np.bool_), np.empty(most, np.int32)
        give_x, take_x = np.empty(most), np.empty(most)
        decided = np.zeros(out.shape[1], np.int8)
        none = codes.shape[1] - 1
        for t in range(len(root)):
            for i in range(len(background)):
                depth, node, u, v = 0, root[t], 0, 0
                while True:
                    while not leaf[node]:
                        z = background[i, column[node]]
                        if chosen[node] >= 0:
                            goes = codes[chosen[node], int(z) if 0 <= z < none else none]
                        elif z <= threshold[node]:
                            goes = True
                        else:
                            goes = nan_left[node] if z != z else False
                        if goes == asked_left[node]:
                            node = left[node] if goes else right[node]
                            continue
                        j = feature[node]
                        x_next, z_next = (right[node], left[node]) if goes else (left[node], right[node])
                        if decided[j] == 1:
                            node = x_next
                        elif decided[j] == 2:
                            node = z_next
                        else:
                            at[depth], us[depth], vs[depth], second[depth], z_way[depth] = j, u, v, False, z_next
                            depth += 1
                            decided[j] = 1
                            u += 1
                            node = x_next
                    give, take = value[node] * gives[u, v], value[node] * takes[u, v]
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

    def walk(
        forest: Forest, asked_left: np.ndarray, background: np.ndarray, gives: np.ndarray, takes: np.ndarray, out: np.ndarray
    ) -> None:
        loop(
            forest.root, forest.column, forest.threshold, forest.left, forest.right, forest.nan_left, forest.leaf, forest.value,
            forest.feature, forest.chosen, forest.codes, asked_left, background, gives, takes, out,
        )  # fmt: skip

    return walk
