"""Trees of few leaves as masks: which leaves each value of each feature leaves open.

A leaf is one bit of 64. A record reaches the one leaf that all its features leave open, so a tree is a few table look-ups joined
by "and", without a branch. Where one feature has other values, the leaves that all others leave open are known at once, for every
feature of the tree: from those before it and from those after it. Reference: C. Lucchese et al., QuickScorer: a fast algorithm to
rank documents with additive ensembles of regression trees, SIGIR 2015.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from .walks import Walkable

LEAVES = 64
MOST = 1 << 23
"""Masks of all trees together: 64 megabytes."""


@dataclass(frozen=True, eq=False)
class Masks:
    """Trees of at most 64 leaves each; a *slot* is a feature that a tree compares."""

    first: np.ndarray
    """Where the slots of a tree begin."""
    feature: np.ndarray
    """Of a slot."""
    at: np.ndarray
    """Where the masks of a slot begin in `table`, one for every atom of its feature."""
    table: np.ndarray
    leaves: np.ndarray
    """Per tree all its leaves."""
    value: np.ndarray
    """Per tree the values of its leaves, at the places that the loops compute from their bits."""

    @property
    def arrays(self) -> tuple[Any, ...]:
        """For compiled loops."""
        return self.first, self.feature, self.at, self.table, self.leaves, self.value

    def runs(self, grids: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """(start, run, mask, point): the points of each feature's grid, and per slot the runs of them with one mask each."""
        start = np.concatenate([[0], np.cumsum([len(grid) for grid in grids])]).astype(np.int64)
        begins = []
        for j, grid in enumerate(grids):
            slots = np.flatnonzero(self.feature == j) if len(grid) else np.empty(0, dtype=np.int64)
            found = self.table[self.at[slots][:, None] + grid]
            new = np.ones(found.shape, dtype=bool)
            new[:, 1:] = found[:, 1:] != found[:, :-1]
            which, point = np.nonzero(new)
            begins.append((slots[which], found[which, point], start[j] + point))
        slot, mask, point = (np.concatenate(part) for part in zip(*begins))
        # Slot after slot; of each in the order of its points.
        order = np.argsort(slot, kind="stable")
        return start, np.searchsorted(slot[order], np.arange(len(self.feature) + 1)), mask[order], point[order]


def masks_of(trees: Walkable) -> Masks | None:
    """The same trees as masks; None where they have too many leaves, or features too many values."""
    inner = trees.feature >= 0
    if np.bincount(trees.tree[~inner], minlength=1).max() > LEAVES:
        return None
    slots = np.unique(np.stack([trees.tree[inner], trees.feature[inner]], axis=1), axis=0)
    sizes = trees.atoms[slots[:, 1]]
    if sizes.sum() > MOST:
        return None
    from . import mask_loops

    made = Masks(
        first=np.searchsorted(slots[:, 0], np.arange(len(trees.root) + 1)),
        feature=slots[:, 1].astype(np.int64),
        at=(np.cumsum(sizes) - sizes).astype(np.int64),
        table=np.full(int(sizes.sum()), mask_loops.ALL),
        leaves=np.zeros(len(trees.root), dtype=np.uint64),
        value=np.zeros((len(trees.root), LEAVES), dtype=np.int64),
    )
    mask_loops.fill(trees.arrays, trees.atoms, made.arrays)
    return made
