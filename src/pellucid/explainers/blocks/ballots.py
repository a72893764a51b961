"""Votes on items, as contributions: orders, whose points have limits whatever the scores were."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import PlanError
from ...mechanisms import Norms
from ...query.bound import UNITS, Bound, Parts, column_sums
from ...query.reviewed import reviewed


@reviewed
@dataclass(frozen=True)
class Ballots(Bound):
    """A vote over `items`: scores are turned into Borda points, ties averaged, the middle counting zero.

    The best of M items gets (M − 1)/2 points, the last −(M − 1)/2. Whatever the scores are, the points form an average of
    orders, so nothing needs to be clipped; a vote with a score that is not a number says nothing and ties all items.
    Claim: borda-ballots
    """

    items: int
    claim = "borda-ballots"
    of_blocks = True
    grid = None

    def __post_init__(self) -> None:
        if not 2 <= self.items <= 1000:
            raise PlanError(f"Ballots(items={self.items}): needs 2 to 1000 items to rank.")

    @property
    def size(self) -> int:
        return self.items

    def totals(self, contributions: Any, parts: Parts = None) -> list[int]:
        """`contributions`: one row of scores per vote, larger is better."""
        scores = np.asarray(contributions, dtype=float)
        if scores.ndim != 2 or scores.shape[1] != self.items or parts is not None:
            raise AssertionError("a map must give one row of scores per vote, and a vote cannot be divided")
        scores = np.where(np.isnan(scores).any(axis=1, keepdims=True), 0.0, scores)
        total = [0] * self.items
        # A few votes at a time: every score is compared with every other.
        step = max(1, (1 << 22) // self.items**2)
        for start in range(0, len(scores), step):
            piece = scores[start : start + step]
            above = (piece[:, :, None] > piece[:, None, :]).sum(axis=2)
            below = (piece[:, :, None] < piece[:, None, :]).sum(axis=2)
            # Twice the centred points of an average over all ways to break the ties, which is a whole number.
            points = (above - below).astype(np.int64) * (UNITS // 2)
            total = [a + b for a, b in zip(total, column_sums(points))]
        return total

    def added(self) -> Norms:
        m = self.items
        return Norms(m * m // 2 * (UNITS // 2), m * (m * m - 1) // 3 * (UNITS // 2) ** 2, (m - 1) * (UNITS // 2))

    def replaced(self) -> Norms:
        m = self.items
        return Norms(m * m // 2 * UNITS, m * (m * m - 1) // 3 * UNITS**2, (m - 1) * UNITS)

    @property
    def text(self) -> str:
        return f"Borda points of an order of {self.items} items"

    @property
    def scale_text(self) -> str:
        return "1 point in a sum of votes"
