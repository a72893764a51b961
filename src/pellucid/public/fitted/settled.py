"""Trees on declared values: every comparison is settled once, with the arithmetic of the model itself, on public values.

What a comparison makes of a feature is known by finitely many *atoms*: the stretches of its interval between neighbouring cuts,
and separate points (categories, a value for missing cells), numbered one after another. No comparison tells two values of one
atom apart. So a record is as many small whole numbers as it has features, and where it goes in a tree follows from those alone:
no step of a pipeline and no code of a library is called for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .compiled import compiled, plain
from .encoding import Domain, Encoding, as_single, highest_below
from .trees import Tree

BEYOND_SINGLE = 2.0**128
"""The power of two after the largest number of single precision."""


@dataclass(frozen=True, eq=False)
class Settled:
    """The nodes of all trees in one numbering, and which atoms go left at each."""

    domains: tuple[Domain, ...]
    cuts: tuple[np.ndarray, ...]
    """Per feature with an interval: the last values of its cells, rising; what lies above them is one more cell."""
    root: np.ndarray
    left: np.ndarray
    right: np.ndarray
    leaf: np.ndarray
    value: np.ndarray
    tree: np.ndarray
    feature: np.ndarray
    """Of an inner node; −1 of a leaf."""
    cut: np.ndarray
    """The last cell that goes left at a node; −1 where none does."""
    points: tuple[np.ndarray, ...]
    """Per feature: which of its points go left, a row for each of its nodes."""
    row: np.ndarray
    """The row of a node there."""

    @property
    def cells(self) -> list[int]:
        """How many cells each feature has: points come after them."""
        return [len(cuts) + 1 if domain.interval else 0 for domain, cuts in zip(self.domains, self.cuts)]

    def atoms(self, j: int, values: np.ndarray) -> np.ndarray:
        """The atoms of declared values of one feature."""
        domain = self.domains[j]
        if not domain.interval:
            return _places(domain.points, values)
        found = _below(self.cuts[j], values)
        for i, point in enumerate(domain.points):
            found[np.isnan(values) if np.isnan(point) else values == point] = len(self.cuts[j]) + 1 + i
        return found


def _below(cuts: np.ndarray, values: np.ndarray) -> np.ndarray:
    """How many cuts lie below each value."""
    loops = compiled(0)
    if loops is None:
        return np.searchsorted(cuts, values, side="left").astype(np.int32)
    found = np.empty(len(values), dtype=np.int32)
    loops.cells(plain(cuts), plain(values), found)
    return found


def _joined(parts: Sequence[np.ndarray], kind: type) -> np.ndarray:
    """One plain array: an array of another class could do anything with what it is compared with."""
    return np.concatenate([np.asarray(part) for part in parts]).astype(kind)


def _places(points: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Where values are among separate points: whole numbers in a row, and perhaps one more, which may be NaN."""
    found = np.asarray(values - points[0])
    last = len(points) - 1
    if np.isnan(points[last]) or (last and points[last] != points[0] + last):
        found = np.where(np.isnan(values) if np.isnan(points[last]) else values == points[last], last, found)
    # Compiled loops do not look whether a point is one of the feature's.
    inside: np.ndarray = np.clip(np.nan_to_num(found), 0, last)
    return inside.astype(np.int32)


def settle(encoding: Encoding, trees: Sequence[Tree]) -> Settled:
    """For every node: its feature, the last cell that goes left, and the points that go left."""
    sizes = [len(tree.column) for tree in trees]
    first = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(int)
    column = _joined([tree.column for tree in trees], int)
    limit = _joined([tree.threshold for tree in trees], float)
    nan_left = _joined([tree.nan_left for tree in trees], bool)
    leaf = _joined([tree.leaf for tree in trees], bool)
    sets = {int(at) + node: pair for tree, at in zip(trees, first) for node, pair in tree.sets.items()}
    feature_of = np.array([c.feature for c in encoding.columns])
    feature = np.where(leaf, -1, feature_of[np.where(leaf, 0, column)])
    change = _changes(encoding, column, limit, ~leaf)
    cut, row = np.full(len(column), -1), np.zeros(len(column), dtype=int)
    start = np.repeat(first, sizes)
    cuts, points = [], []
    for j, domain in enumerate(encoding.domains):
        nodes = np.flatnonzero(feature == j)
        here = np.unique(change[nodes]) if domain.interval else np.empty(0)
        # A cut at the upper end parts nothing from anything.
        cuts.append(here[np.isfinite(here) & (here < domain.hi)])
        if domain.interval:
            cut[nodes] = np.where(np.isfinite(change[nodes]), np.searchsorted(cuts[j], change[nodes]), -1)
        row[nodes] = np.arange(len(nodes))
        points.append(_points_left(encoding, j, nodes, column, limit, nan_left, sets))
    return Settled(
        domains=encoding.domains,
        cuts=tuple(cuts),
        root=first,
        left=_joined([tree.left for tree in trees], int) + start,
        right=_joined([tree.right for tree in trees], int) + start,
        leaf=leaf,
        value=_joined([tree.value for tree in trees], float),
        tree=np.repeat(np.arange(len(trees)), sizes),
        feature=feature,
        cut=cut,
        points=tuple(points),
        row=row,
    )


def _points_left(
    encoding: Encoding,
    j: int,
    nodes: np.ndarray,
    column: np.ndarray,
    limit: np.ndarray,
    nan_left: np.ndarray,
    sets: dict[int, tuple[np.ndarray, np.ndarray]],
) -> np.ndarray:
    place = np.full(len(encoding.columns), -1)
    place[encoding.of[j]] = np.arange(len(encoding.of[j]))
    values = np.array(np.asarray(encoding.table(j)), dtype=float)[:, place[column[nodes]]].T
    goes = np.where(np.isnan(values), nan_left[nodes, None], values <= limit[nodes, None])
    for i in np.flatnonzero([n in sets for n in nodes.tolist()]).tolist():
        goes[i] = _in_set(values[i], bool(nan_left[nodes[i]]), *sets[int(nodes[i])])
    # Steps may have given anything; what walks use is plain.
    return np.array(np.asarray(goes), dtype=bool)


def _in_set(values: np.ndarray, nan_left: bool, left: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Where codes go at a node that holds a set of codes; unknown ones go where missing values go."""
    stray = ~((values >= 0) & (values < len(left)))
    codes = np.where(stray, 0, values).astype(int)
    stray |= ~known[codes] & ~left[codes]
    return np.where(stray, nan_left, left[codes])


def _changes(encoding: Encoding, column: np.ndarray, limit: np.ndarray, inner: np.ndarray) -> np.ndarray:
    """Per node of a feature with an interval: the largest value that goes left, −inf where none does; NaN elsewhere."""
    found = np.full(len(column), np.nan)
    intervals = np.array([encoding.domains[c.feature].interval for c in encoding.columns])
    nodes = np.flatnonzero(inner & intervals[np.where(inner, column, 0)])
    if not len(nodes):
        return found
    asked, back = np.unique(np.stack([column[nodes].astype(float), limit[nodes]], axis=1), axis=0, return_inverse=True)
    pairs = [(int(c), float(t)) for c, t in asked]
    found[nodes] = np.array(_by_formula(encoding, pairs) or highest_below(encoding, pairs))[back.ravel()]
    return found


def _by_formula(encoding: Encoding, asked: Sequence[tuple[int, float]]) -> list[float] | None:
    """As `highest_below`, where columns are the declared numbers themselves, or these in single precision."""
    if not encoding.computed_here:
        return None
    domains = [encoding.domains[encoding.columns[c].feature] for c, _ in asked]
    low, high = np.array([d.lo for d in domains]), np.array([d.hi for d in domains])
    most = np.array([t for _, t in asked])
    if encoding.finished_by is as_single:
        most = _last_rounded_to(most)
    most = np.where([d.integer for d in domains], np.floor(most), most)
    return list(np.where(most < low, -np.inf, np.minimum(most, high)))


def _last_rounded_to(limit: np.ndarray) -> np.ndarray:
    """The largest double that is at most a limit once it is in single precision."""
    with np.errstate(over="ignore"):
        single = limit.astype(np.float32)
        single = np.where(single.astype(float) > limit, np.nextafter(single, np.float32(-np.inf)), single)
        # Doubles up to half-way to the next single one are rounded down to this one, and half-way itself where it is even. What
        # comes after the last finite one is rounded as if it were the next power of two.
        ends = np.stack([single, np.nextafter(single, np.float32(np.inf))]).astype(float)
        half = np.clip(ends, -BEYOND_SINGLE, BEYOND_SINGLE).mean(axis=0)
        found = np.where(half.astype(np.float32) == single, half, np.nextafter(half, -np.inf))
    return np.asarray(np.where(single == np.inf, np.inf, found))
