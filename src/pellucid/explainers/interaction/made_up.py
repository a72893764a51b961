"""Records made up from released counts: as common as counted, and as dependent as counts of pairs show above their noise.

Everything here is post-processing: no rows are in scope, and nothing here is secret. Where noise hides what a count says,
something else stands in: of one feature that all values are equally common, of two that they are independent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ...public.schema import Columns
from ..common.projection import project_counts
from .rounding import Rounding

SEED = 7
"""Of the draws, which are public: the same counts make up the same records."""

Tables = Mapping[tuple[int, int], np.ndarray]
"""Of two features, by number, the smaller first: how common pairs of their groups are."""


def shown_counts(noisy: np.ndarray, std: float, total: float) -> np.ndarray:
    """Counts of the cells of one feature, nearer to equal ones the more of the difference may be noise."""
    equal = np.full(len(noisy), total / len(noisy))
    return project_counts(equal + _above(noisy - equal, std**2 * len(noisy)), total)


def shown_table(noisy: np.ndarray, first: np.ndarray, second: np.ndarray, std: float, total: float) -> np.ndarray:
    """How common pairs of groups are, of features whose groups have the given shares: nearer to independent ones the more of the
    difference may be noise."""
    independent = np.outer(first, second)
    apart = noisy - total * independent
    # The shares themselves are better known than this table tells.
    apart = apart - apart.mean(axis=1, keepdims=True)
    apart = apart - apart.mean(axis=0, keepdims=True)
    shown = _above(apart, std**2 * (len(first) - 1) * (len(second) - 1))
    return project_counts((total * independent + shown).ravel(), total).reshape(apart.shape) / total


def _above(apart: np.ndarray, noise: float) -> np.ndarray:
    """A difference scaled down by the part of its energy that noise is expected to have, as by James and Stein."""
    energy = float((apart**2).sum())
    return apart * max(1 - noise / energy, 0.0) if energy > 0 else apart


def links(tables: Tables, size: int) -> list[tuple[int, int]]:
    """The strongest dependences that make a tree, as (known, next) from its root on, without features that depend on no other.

    Reference: C. K. Chow, C. N. Liu, Approximating discrete probability distributions with dependence trees, 1968.
    """
    strength = {pair: dependence(table) for pair, table in tables.items()}
    found: list[tuple[int, int]] = []
    left = set(range(size))
    while left:
        inside = {min(left)}
        left -= inside
        # Grown from one feature as far as there is any dependence, then from the next one that is left.
        while reach := [(i, j) for i in sorted(inside) for j in sorted(left) if strength.get((min(i, j), max(i, j)), 0.0) > 1e-9]:
            best = max(reach, key=lambda pair: strength[min(pair), max(pair)])
            found.append(best)
            inside.add(best[1])
            left.remove(best[1])
    return found


def dependence(table: np.ndarray) -> float:
    """Mutual information."""
    independent = np.outer(table.sum(axis=1), table.sum(axis=0))
    some = table > 0
    return float((table[some] * np.log(table[some] / independent[some])).sum())


def made_up(features: Sequence[Rounding], counts: Sequence[np.ndarray], tables: Tables, size: int) -> Columns:
    """So many records: groups along the tree of dependences, then a cell of each group by its counts."""
    rng = np.random.default_rng(SEED)
    known_by = {after: before for before, after in links(tables, len(features))}
    groups: dict[int, np.ndarray] = {}
    order = [*(i for i in range(len(features)) if i not in known_by), *known_by]
    for i in order:
        feature, before = features[i], known_by.get(i)
        if before is None:
            groups[i] = _draws(feature.weights, size, rng)
            continue
        table = tables[before, i] if before < i else tables[i, before].T
        groups[i] = _drawn_by(groups[before], table, feature.weights, rng)
    columns: Columns = {}
    for i, feature in enumerate(features):
        cells = np.arange(len(counts[i]))
        inside = np.where(feature.group == np.arange(feature.group.max() + 1)[:, None], counts[i], 0.0)
        alone = (feature.group == np.arange(len(inside))[:, None]).astype(float)
        # A group that nobody is in is drawn by all of its cells.
        inside = np.where(inside.sum(axis=1, keepdims=True) > 0, inside, alone)
        columns |= feature.columns(cells[_drawn_by(groups[i], inside, feature.weights, rng)])
    return columns


def _drawn_by(given: np.ndarray, table: np.ndarray, otherwise: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """For each record one column of the row of the table that is given."""
    found = np.empty(len(given), dtype=np.intp)
    for row, chances in enumerate(table):
        mine = np.flatnonzero(given == row)
        found[mine] = _draws(chances if chances.sum() > 0 else otherwise, len(mine), rng)
    return found


def _draws(chances: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
    """So many places by their chances, in random order: each as often as it should be, up to one."""
    ends = np.cumsum(chances)
    at = ends[-1] * (np.arange(size) + rng.random()) / max(size, 1)
    return rng.permutation(np.minimum(np.searchsorted(ends, at, side="right"), np.flatnonzero(chances)[-1]))
