"""Votes of blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...mechanisms import NoiseLaw
from ..common import sentences
from ..common.rankings import Ordered


@dataclass(frozen=True, eq=False, kw_only=True)
class Votes(Ordered):
    """An order found by voting of blocks: `.ranking`, `.votes` (mean Borda points of each item, 0 for last), `.tiers()`."""

    kind: ClassVar[str] = "votes"
    items: tuple[str, ...]
    """What was ranked, in the order it was declared."""
    votes: np.ndarray
    """Mean Borda points of each item over the blocks: 0 for last, the number of items less one for first."""
    blocks: int
    """How many blocks voted."""
    law: NoiseLaw
    """The noise of the mean points."""
    ylabel: str = "mean points of a block"
    """What they are called in the picture."""

    @property
    def headline(self) -> str:
        return sentences.leading(self, "{} comes first", "{} come first", "No order among them is sure")

    @property
    def names(self) -> tuple[str, ...]:
        return self.items

    @property
    def scores(self) -> np.ndarray:
        return self.votes

    def certain_gap(self, level: float = 0.95) -> float:
        return self.law.spread(len(self.items), level)

    def interval(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """(lower, upper): the mean points of the same blocks without noise lie inside with probability `level`."""
        half = self.law.half_width(level)
        return self.votes - half, self.votes + half
