"""Scores for private choices. They are computed on exact totals, so each one lives here, with its theorem, and nowhere else."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from ..errors import PlanError
from ..mechanisms import Choosing, Spend, calibrate_choice, choose
from ..public.schema import Relation
from .bound import Bound
from .bounds import Cells
from .reviewed import reviewed


class Score(ABC):
    """What a private choice needs of a score: which totals it is about, how it is calibrated, and the draw itself."""

    claim: str
    over_pairs: bool = False
    """Whether its theorem covers pairs and couples too: then the span is per contribution, and a unit may touch two of them."""
    side_by_side: bool = False
    """Whether its theorem covers several sums side by side, all of which one unit touches."""

    @abstractmethod
    def fits(self, bound: Bound) -> bool:
        """Whether the totals are of the kind the score's theorem is about."""

    @abstractmethod
    def calibrate(self, relation: Relation, units: int, spend: Spend, k: int) -> Choosing:
        """How sharp the choice may be for a spend; `units` is the weight one unit has in the totals."""

    @abstractmethod
    def pick(self, totals: Sequence[int], how: Choosing) -> list[Any]:
        """Score the exact totals and choose."""

    def charged(self, how: Choosing, bound: Bound, touched: str) -> tuple[str, str]:
        """The span of the score and the sharpness of the choice in words, for the certificate."""
        one = bound.added().linf
        return f"{how.span / one:.6g} records in the score ({touched})", f"exponent {float(how.rate * one):.6g} per record"


@reviewed
@dataclass(frozen=True)
class QuantileScore(Score):
    """Candidate j is "the upper end of cell j"; its score is minus the distance of the share below it from q.

    Works on a histogram of the values over public cells. Claim: quantile-span
    """

    q: Fraction
    claim = "quantile-span"
    over_pairs = True

    def __post_init__(self) -> None:
        if not 0 < self.q < 1:
            raise PlanError(f"quantile q={float(self.q)!r}: give a number between 0 and 1.")

    def fits(self, bound: Bound) -> bool:
        return isinstance(bound, Cells) and bound.value is None

    def calibrate(self, relation: Relation, units: int, spend: Spend, k: int) -> Choosing:
        return calibrate_choice(self.span(relation, units), self.largest(relation, units), spend, k)

    def pick(self, totals: Sequence[int], how: Choosing) -> list[Any]:
        return choose(self.of(totals), how)

    def of(self, totals: Sequence[int]) -> list[int]:
        """One integer per candidate; larger is better."""
        whole = sum(totals)
        return [-abs(self.q.denominator * below - self.q.numerator * whole) for below in itertools.accumulate(totals)]

    def span(self, relation: Relation, units: int) -> int:
        """Bound on (largest minus smallest change of the scores) between neighbours."""
        return 2 * self.largest(relation, units)

    def largest(self, relation: Relation, units: int) -> int:
        """Bound on the largest change of a score between neighbours."""
        p, r = self.q.numerator, self.q.denominator
        return units * (r if relation == "replace" else max(p, r - p))
