"""Private choices by exact integer scores: one candidate, k of them, or items for every place at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from . import source
from .amounts import Spend, root_below
from .assignment import Assignment, AssignmentScores, Candidates


@dataclass(frozen=True)
class Choosing:
    """A calibrated choice among scored candidates."""

    name: str
    """The mechanism, for the certificate."""
    rate: Fraction
    """The factor of the score in the exponent."""
    k: int
    """How many candidates are chosen."""
    span: int
    """What neighbours were taken to change at most: the largest minus the smallest change of a score."""
    cost: Fraction
    """What it costs, in the currency it was calibrated for."""
    claim: str
    """The claim the cost rests on."""

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


def calibrate_assignment(span: int, spend: Spend) -> Choosing:
    """The rate at which one assignment costs at most the spend; `span` bounds max minus min of the change of the scores."""
    if spend.currency == "epsilon":
        rate, cost = spend.amount / span, spend.amount
    else:
        rate = root_below(8 * spend.amount / span**2)
        cost = (rate * span) ** 2 / 8
    return Choosing("exponential mechanism", rate, 1, span, cost, "combination-exponential")


def choose(scores: Sequence[int], how: Choosing) -> list[int]:
    """The positions of the chosen candidates, best first (peeling: each pick leaves the list)."""
    left, picked = list(range(len(scores))), []
    for _ in range(min(how.k, len(scores))):
        position = source.current.pick([int(scores[i]) for i in left], how.rate, how.flip)
        picked.append(left.pop(position))
    return picked


def choose_assignment(scores: AssignmentScores, how: Choosing, picks: int = 1, candidates: Candidates = None) -> Assignment:
    """`picks` items for every place, all by one draw over all assignments."""
    return source.current.assign(scores, how.rate, picks, candidates)
