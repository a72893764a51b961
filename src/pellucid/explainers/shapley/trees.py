"""Exact Shapley vectors of a sum of trees against single background records.

Walk down a tree with both records at once. Where they agree there is nothing to decide. Where they part at a feature that is
not decided yet, the walk takes both ways: the feature comes from the record asked about (one more of u) or from the background
record (one more of v). A leaf with value w that is reached in this way is a game on its u + v decided features alone; it gives
w·(u−1)!·v!/(u+v)! to each of the u and takes w·u!·(v−1)!/(u+v)! from each of the v. These amounts are rounded to whole numbers,
each once, and added up on the way back, so that a feature is paid once per parting and not once per leaf.

A group of features is one player: what is decided at a node is from which record the whole group comes.

Sums of whole numbers are the same in any order: a vector has the same bits in any company, in compiled loops and without them.
Claim: integer-shapley
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from types import ModuleType

import numpy as np

from ...public.fitted.walks import Walkable, _in_threads, sums

STATES = 1 << 20
"""Positions of a walk that the loop-free version holds at once."""

MOST_DECIDED = 62
"""Different features on one path, at most: the loop-free version keeps the decisions in the bits of a number."""

BITS = 10
"""Comparisons of a part of a tree whose outcomes are tabled together, at most."""

DEEPEST = 14
"""Different features on one path, at most, where outcomes are tabled."""

NARROW = 16
"""Features up to which tables hold all of them, and not those of a tree."""

LINES = 1 << 25
"""Numbers in the tables of a tree of usual size, at most."""

FLAGS = 1 << 27
"""Comparisons of records asked about that are held at once."""

SMALL = 1 << 14
"""Walks below which a compiled loop is not worth loading."""


def slots(trees: Walkable, players: Sequence[int] | None = None) -> np.ndarray:
    """For every inner node: how many other players come before that of its feature on the way from the root."""
    # Kept beside the trees: they are walked batch by batch.
    kept = vars(trees).setdefault("_slots", {})
    of = None if players is None else tuple(players)
    if of not in kept:
        kept[of] = _slots(trees, of)
    return kept[of]


def _slots(trees: Walkable, players: Sequence[int] | None) -> np.ndarray:
    found = np.full(len(trees.feature), -1, dtype=np.int64)
    stack: list[tuple[int, tuple[int, ...]]] = [(int(root), ()) for root in trees.root]
    while stack:
        node, path = stack.pop()
        feature = int(trees.feature[node])
        if feature >= 0:
            j = feature if players is None else players[feature]
            path = path if j in path else (*path, j)
            found[node] = path.index(j)
            left = int(trees.child[node])
            stack += [(left, path), (left + 1, path)]
    return found


def most_decided(trees: Walkable) -> int:
    """The largest number of different features on one path."""
    return int(slots(trees).max(initial=-1)) + 1


def shares(most: int) -> tuple[np.ndarray, np.ndarray]:
    """What a leaf of value 1 gives to each of its u features, and takes from each of its v, as tables over (u, v)."""
    gives, takes = np.zeros((most + 1, most + 1)), np.zeros((most + 1, most + 1))
    for u in range(most + 1):
        for v in range(most + 1):
            ways = math.comb(u + v, u)
            gives[u, v] = 1 / (u * ways) if u else 0.0
            takes[u, v] = 1 / (v * ways) if v else 0.0
    return gives, takes


def spare_bits(asked: int) -> int:
    """By how many bits amounts are coarser than leaves, so that sums over so many records asked about are of 64 bits.

    Leaves are of at most 60 bits in all trees together; neither what a feature is given by walks nor what it is taken is more.
    """
    return max(0, (asked - 1).bit_length() - 1)


def rounding(trees: Walkable, asked: int) -> float:
    """How far from an exact sum over so many records asked about a number of `vectors` can be, in units of the leaves.

    Claim: integer-shapley
    """
    leaves, most = int((trees.feature < 0).sum()), float(np.abs(trees.value).max(initial=0))
    return asked * (leaves * 2.0 ** spare_bits(asked) / 2 + 2.0**-50 * len(trees.root) * most)


def vectors(trees: Walkable, asked: np.ndarray, atoms: np.ndarray, players: Sequence[int] | None = None) -> np.ndarray:
    """Per background record its Shapley vector, added up over all records asked about, all given as atoms.

    `players` tells which player every feature belongs to; without it each is one. In whole multiples of 2^`spare_bits` units of
    the leaves.
    """
    slot = slots(trees, players)
    most, features = int(slot.max(initial=-1)) + 1, atoms.shape[1]
    player = np.arange(features) if players is None else np.array(players, dtype=np.int64)
    gives, takes = (np.ldexp(table, -spare_bits(len(asked))) for table in shares(most))
    loops = compiled() if len(asked) * len(atoms) * len(trees.root) >= SMALL else None
    columns = np.ascontiguousarray(atoms.T)
    if loops is not None and players is None and most <= DEEPEST and _pay(trees, most, len(asked), len(atoms), features):
        wide = (features + 3) // 4 * 4 if features <= NARROW else features
        sums = np.zeros((len(atoms), wide), dtype=np.int64)
        step = max(1, FLAGS // len(trees.feature))
        for start in range(0, len(asked), step):
            right = np.array([goes_right(trees, record) for record in asked[start : start + step]])
            loops.tabled(trees.arrays, trees.depth, right, columns, gives, takes, BITS, sums)
        return sums[:, :features]
    out = np.zeros((len(atoms), int(player.max(initial=-1)) + 1), dtype=np.int64)
    if loops is None:
        for record in asked:
            _by_levels(trees, slot, player, goes_right(trees, record), atoms, gives, takes, out)
        return out
    rights = [goes_right(trees, record) for record in asked]

    def walk(part: slice) -> None:
        own = np.ascontiguousarray(columns[:, part])
        for right in rights:
            loops.vectors(trees.arrays, trees.depth, player, right, own, gives, takes, out[part])

    _in_threads(walk, len(atoms), len(asked) * len(trees.root))
    return out


def prefixes(trees: Walkable, asked: np.ndarray, atoms: np.ndarray, group: np.ndarray, ranks: np.ndarray) -> np.ndarray:
    """Sums of leaves of mixtures of the record asked about with background records, along orders of the features.

    `ranks` are (group, order, feature), the place of each feature in each order; `group` tells which orders a record gets.
    Answers are (record, order, number of features that come from the record asked about: the first so many).
    """
    features = len(asked)
    if (loops := compiled()) is None:
        rank, first = ranks[group][..., None], np.arange(features + 1)
        mixed = np.where(rank < first, asked[:, None], atoms[:, None, :, None])
        return sums(trees, np.moveaxis(mixed, 2, 3).reshape(-1, features)).reshape(*mixed.shape[:2], features + 1)
    if (found := loops.prefixes_by_masks(trees, asked, atoms, group, ranks)) is not None:
        return found
    out = np.zeros((len(atoms), ranks.shape[1], features + 2), dtype=np.int64)
    atoms, ranks, right = np.ascontiguousarray(atoms), np.ascontiguousarray(ranks), goes_right(trees, asked)
    _in_threads(
        lambda part: loops.prefixes(trees.arrays, right, atoms[part], group[part], ranks, out[part]), len(atoms), len(trees.root)
    )
    return out[:, :, :-1]


def _pay(trees: Walkable, most: int, asked: int, records: int, features: int) -> bool:
    """Whether tables of outcomes are quicker than walks: with several records asked about, or many; and fit into memory.

    Both give the same whole numbers.
    """
    leaves = int((trees.feature < 0).sum()) / len(trees.root)
    fit = leaves * min(features, leaves) * 2 ** max(BITS, most) <= LINES
    # Tables take as long for one record asked about as for many, in which time so many can be walked.
    return fit and asked >= 2 + leaves / 80 and records * asked >= 64 * leaves


def goes_right(trees: Walkable, record: np.ndarray) -> np.ndarray:
    """Where one record goes at every inner node."""
    nodes = np.flatnonzero(trees.feature >= 0)
    found = np.zeros(len(trees.feature), dtype=bool)
    found[nodes] = trees.goes_right(record[trees.feature[nodes]], nodes)
    return found


def _by_levels(
    trees: Walkable,
    slot: np.ndarray,
    player: np.ndarray,
    asked_right: np.ndarray,
    atoms: np.ndarray,
    gives: np.ndarray,
    takes: np.ndarray,
    out: np.ndarray,
) -> None:
    """All records one level down at a time, tree by tree; then the amounts of the leaves one level up at a time."""
    step = max(1, STATES // max(1, int((trees.feature < 0).sum()) // len(trees.root)))
    for root in trees.root:
        for start in range(0, len(atoms), step):
            piece = slice(start, start + step)
            _one_tree(trees, slot, player, int(root), asked_right, atoms[piece], gives, takes, out[piece])


def _one_tree(
    trees: Walkable,
    slot: np.ndarray,
    player: np.ndarray,
    root: int,
    asked_right: np.ndarray,
    atoms: np.ndarray,
    gives: np.ndarray,
    takes: np.ndarray,
    out: np.ndarray,
) -> None:
    n = len(atoms)
    row, node = np.arange(n), np.full(n, root)
    ours, theirs = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    levels = []
    while len(node):
        inner = np.flatnonzero(trees.feature[node] >= 0)
        here, bit = node[inner], np.int64(1) << slot[node[inner]]
        z_right = trees.goes_right(atoms[row[inner], trees.feature[here]], here)
        x_right = asked_right[here]
        by_x, by_z = ours[inner] & bit != 0, theirs[inner] & bit != 0
        parting = (z_right != x_right) & ~by_x & ~by_z
        x_way, z_way = trees.child[here] + x_right, trees.child[here] + z_right
        levels.append((row, node, ours, theirs, inner, parting))
        # First the way of the record asked about (or the common way), then the other way of those that part.
        node = np.concatenate([np.where(by_z, z_way, x_way), z_way[parting]])
        ours = np.concatenate([np.where(parting, ours[inner] | bit, ours[inner]), ours[inner][parting]])
        theirs = np.concatenate([theirs[inner], (theirs[inner] | bit)[parting]])
        row = np.concatenate([row[inner], row[inner][parting]])
    give = take = np.empty(0, dtype=np.int64)
    for row, node, ours, theirs, inner, parting in reversed(levels):
        u, v = np.bitwise_count(ours).astype(np.intp), np.bitwise_count(theirs).astype(np.intp)
        value = trees.value[node].astype(float)
        above_give, above_take = (np.rint(value * table[u, v]).astype(np.int64) for table in (gives, takes))
        both = np.flatnonzero(parting)
        np.add.at(out, (row[inner][both], player[trees.feature[node[inner][both]]]), give[both] - take[len(inner) :])
        above_give[inner], above_take[inner] = give[: len(inner)], take[: len(inner)]
        above_give[inner[both]] += give[len(inner) :]
        above_take[inner[both]] += take[len(inner) :]
        give, take = above_give, above_take


@functools.cache
def compiled() -> ModuleType | None:
    """The same walk as compiled loops, or None where Numba is not installed."""
    try:
        from . import loops
    except Exception:  # also Numba that does not load: a release must not fail for want of speed
        return None
    return loops
