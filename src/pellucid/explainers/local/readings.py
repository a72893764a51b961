"""What descents read of the sums behind the door: gradients at a point, and which of some starts has a short one.

With A and b the totals of `Moments`, half the gradient of the loss at φ is Aφ − b. On a grid of 2^bits units in the ball it is a
whole-number image of the totals, so one pass over the records serves any number of steps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import PlanError
from ...mechanisms import Choosing, Norms, Spend, calibrate_choice, choose
from ...public.schema import Relation
from ...query.bound import UNITS, Bound, ceil_sqrt
from ...query.bounds import Ball
from ...query.image import Image
from ...query.reviewed import reviewed
from ...query.scores import Score
from .bound import Moments


@reviewed
@dataclass(frozen=True)
class GradientAt(Image):
    """Σ (s·sᵀ·φ − 2^bits·t·s) at an integer φ no longer than 2^bits. Claim: local-gradient"""

    bound: Moments
    phi: tuple[int, ...]
    bits: int
    worth: float
    """What one unit of it is worth in the gradient of the loss."""
    claim = "local-gradient"

    def __post_init__(self) -> None:
        _check_point(self.bound, self.phi, self.bits)

    @property
    def size(self) -> int:
        return self.bound.length

    def fits(self, bound: Bound) -> bool:
        return bound == self.bound

    def of(self, totals: Sequence[int]) -> list[int]:
        matrix, vector = self.bound.matrix(np.array(totals, dtype=object))
        return [int(v) for v in matrix @ np.array(self.phi, dtype=object) - (1 << self.bits) * vector]

    def added(self) -> Norms:
        return self._norms("add-remove")

    def replaced(self) -> Norms:
        return self._norms("replace")

    def _norms(self, relation: Relation) -> Norms:
        norm = self.bound.slope_norm(relation, 1 << self.bits)
        return Norms(norm * (math.isqrt(self.size) + 1), norm * norm, norm)

    @property
    def scale_text(self) -> str:
        return f"{self.worth * UNITS:g} in a slope"


def _check_point(bound: Moments, phi: tuple[int, ...], bits: int) -> None:
    """The premise of local-gradient: a whole-number point no longer than 2^bits."""
    whole = len(phi) == bound.length and all(type(v) is int for v in phi) and 0 <= bits <= 24
    if not whole or sum(v * v for v in phi) > 1 << (2 * bits):
        raise PlanError(
            f"a gradient is read at a point of {bound.length} whole numbers, no longer than 2^{bits}, with 0 to 24 bits."
        )


class _Shortest(Score):
    """Candidates by the length of the gradient at each, shortest first. Claim: local-start"""

    claim = "local-start"

    def of(self, totals: Sequence[int]) -> list[int]:
        """One integer per candidate: minus the length of its exact gradient, rounded down to a whole number of units."""
        return [-math.isqrt(sum(v * v for v in gradient)) for gradient in self._gradients(totals)]

    def _gradients(self, totals: Sequence[int]) -> list[list[int]]:
        raise NotImplementedError

    def largest(self, relation: Relation, units: int) -> int:
        """Bound on the largest change of a score: as far as a gradient moves, and one unit more for rounding."""
        raise NotImplementedError

    def span(self, relation: Relation, units: int) -> int:
        return 2 * self.largest(relation, units)

    def calibrate(self, relation: Relation, units: int, spend: Spend, k: int) -> Choosing:
        return calibrate_choice(self.span(relation, units), self.largest(relation, units), spend, k)

    def pick(self, totals: Sequence[int], how: Choosing) -> list[Any]:
        return choose(self.of(totals), how)

    def _said(self, how: Choosing, worth: float) -> tuple[str, str]:
        return f"{how.span * worth:.6g} in the length of a slope", f"exponent {float(how.rate) / worth:.6g} per length of a slope"


@reviewed
@dataclass(frozen=True)
class ShortestGradient(_Shortest):
    """The candidates as points on one grid, by held totals."""

    bound: Moments
    points: tuple[tuple[int, ...], ...]
    bits: int
    worth: float
    """What one unit of a gradient is worth."""

    def __post_init__(self) -> None:
        for phi in self.points:
            _check_point(self.bound, phi, self.bits)

    def fits(self, bound: Bound) -> bool:
        return bound == self.bound

    def _gradients(self, totals: Sequence[int]) -> list[list[int]]:
        return [GradientAt(self.bound, phi, self.bits, self.worth).of(totals) for phi in self.points]

    def largest(self, relation: Relation, units: int) -> int:
        rows = units // self.bound.added().linf
        return (self.bound.slope_norm(relation, 1 << self.bits) + 1) * rows

    def charged(self, how: Choosing, bound: Bound, touched: str) -> tuple[str, str]:
        return self._said(how, self.worth)


@reviewed
@dataclass(frozen=True)
class ShortestSum(_Shortest):
    """The candidates as sums side by side, each the gradient at one of them."""

    side_by_side = True
    bound: Ball
    worth: float
    """What one unit of a gradient is worth."""

    def fits(self, bound: Bound) -> bool:
        return bound == self.bound

    def _gradients(self, totals: Sequence[int]) -> list[list[int]]:
        size = self.bound.size
        return [list(totals[i : i + size]) for i in range(0, len(totals), size)]

    def largest(self, relation: Relation, units: int) -> int:
        one = self.bound.added() if relation == "add-remove" else self.bound.replaced()
        rows = units // self.bound.added().linf
        return ceil_sqrt(one.times(rows).l2_squared) + 1

    def charged(self, how: Choosing, bound: Bound, touched: str) -> tuple[str, str]:
        return self._said(how, self.worth)
