"""Private choices: one candidate (or k of them) by exact integer scores."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from . import source
from .amounts import Spend

if TYPE_CHECKING:
    from .assignment import Tables


@dataclass(frozen=True)
class Choosing:
    """A calibrated choice of `k` among scored candidates; `rate` is the factor of the score in the exponent."""

    name: str
    rate: Fraction
    k: int
    span: int
    cost: Fraction
    claim: str

    @property
    def flip(self) -> bool:
        return self.name == "permute-and-flip"


def calibrate_choice(span: int, linf: int, spend: Spend, k: int = 1) -> Choosing:
    """`span` bounds max minus min of the change of the scores between neighbours, `linf` the largest change.

    Pure ε: permute-and-flip, which is never worse than the exponential mechanism when the span is twice the largest
    change, else the exponential mechanism on the span. ρ: the exponential mechanism at its bounded-range cost.
    """
    each = spend.amount / k
    if spend.currency == "epsilon":
        if span >= 2 * linf:
            return Choosing("permute-and-flip", each / (2 * linf), k, span, spend.amount, "permute-and-flip")
        return Choosing("exponential mechanism", each / span, k, span, spend.amount, "exponential-bounded-range")
    # ρ = (rate·span)²/8; the square root is rounded down so that the charge covers it.
    rate = Fraction(math.isqrt(int(8 * each * 10**40)), 10**20 * span)
    return Choosing("exponential mechanism", rate, k, span, k * (rate * span) ** 2 / 8, "exponential-bounded-range")


def choose(scores: Sequence[int], how: Choosing) -> list[int]:
    """The positions of the chosen candidates, best first (peeling: each pick leaves the list)."""
    left, picked = list(range(len(scores))), []
    for _ in range(min(how.k, len(scores))):
        position = source.current.pick([int(scores[i]) for i in left], how.rate, how.flip)
        picked.append(left.pop(position))
    return picked


def choose_combination(
    tables: Tables, how: Choosing, per_cluster: int = 1, candidates: Sequence[Sequence[int]] | None = None
) -> list[tuple[int, ...]]:
    """Attributes for every cluster, all by one draw over all combinations."""
    return source.current.combine(tables, how.rate, per_cluster, candidates)
