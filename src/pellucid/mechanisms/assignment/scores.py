"""What assignments are scored by: two tables of integers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Assignment = list[tuple[int, ...]]
"""The items of every place, in increasing order."""

Candidates = Sequence[Sequence[int]] | None
"""The items that every place may have; None for all of them."""


@dataclass(frozen=True)
class AssignmentScores:
    """What each item is worth in each place, and what two places lose by having the same item.

    >>> AssignmentScores([[5, 2], [4, 3]], [[[0, 3], [3, 0]], [[0, 0], [0, 0]]]).of([(0,), (0,)])
    6
    """

    unary: list[list[int]]
    """unary[p][i]: the worth of item i in place p."""
    penalty: list[list[list[int]]]
    """penalty[i][p][q] >= 0: the loss when the places p and q both have item i; symmetric, zero on the diagonal."""

    @property
    def places(self) -> int:
        return len(self.unary)

    @property
    def items(self) -> int:
        return len(self.unary[0])

    def of(self, assignment: Sequence[int | tuple[int, ...]]) -> int:
        """The score of one assignment: an item, or a tuple of items, per place."""
        total, users = 0, dict[int, list[int]]()
        for p, picked in enumerate(assignment):
            for i in (picked,) if isinstance(picked, int) else picked:
                total += self.unary[p][i]
                row = self.penalty[i][p]
                earlier = users.setdefault(i, [])
                total -= sum(row[q] for q in earlier)
                earlier.append(p)
        return total

    def allowed(self, candidates: Candidates) -> list[list[int]]:
        """The items that every place may have, in increasing order."""
        if candidates is None:
            return [list(range(self.items)) for _ in range(self.places)]
        return [sorted(set(row)) for row in candidates]
