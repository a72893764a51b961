"""Scores for private choices. They are computed on exact totals, so each one lives here, with its theorem, and nowhere else."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from .errors import PlanError
from .schema import Relation


class Score(ABC):
    """Integer scores of candidates from exact totals, with bounds on how neighbours can change them."""

    claim: str

    @abstractmethod
    def of(self, totals: Sequence[int]) -> list[int]:
        """One integer per candidate; larger is better."""

    @abstractmethod
    def span(self, relation: Relation, units: int) -> int:
        """Bound on (largest minus smallest change of the scores) between neighbours; `units` is one record's weight."""

    @abstractmethod
    def largest(self, relation: Relation, units: int) -> int:
        """Bound on the largest change of a score between neighbours."""


@dataclass(frozen=True)
class QuantileScore(Score):
    """Candidate j is "the upper end of cell j"; its score is minus the distance of the share below it from q.

    Works on a histogram of the values over public cells. Claim: quantile-span
    """

    q: Fraction
    claim = "quantile-span"

    def __post_init__(self) -> None:
        if not 0 < self.q < 1:
            raise PlanError(f"quantile q={float(self.q)!r}: give a number between 0 and 1.")

    def of(self, totals: Sequence[int]) -> list[int]:
        whole = sum(totals)
        return [-abs(self.q.denominator * below - self.q.numerator * whole) for below in itertools.accumulate(totals)]

    def span(self, relation: Relation, units: int) -> int:
        return 2 * self.largest(relation, units)

    def largest(self, relation: Relation, units: int) -> int:
        p, r = self.q.numerator, self.q.denominator
        return units * (r if relation == "replace" else max(p, r - p))


REVIEWED: tuple[type[Score], ...] = (QuantileScore,)
"""The scores a choice may use: each has its theorem in proofs/ and a test that attains it."""
