"""Which sampler draws, the draw, and the slow simple one that it is compared with."""

from __future__ import annotations

import itertools
from fractions import Fraction

from ..samplers import Below, exponential
from .coins import coin
from .regions import PriceSampler
from .scores import Assignment, AssignmentScores, Candidates
from .sets import MOST_PLACES, SetSampler

WORK = 30_000_000
"""Steps of the sum over sets that are still worth a certain acceptance (about a third of a second)."""


def draw_assignment(
    scores: AssignmentScores, rate: Fraction, below: Below, picks: int = 1, candidates: Candidates = None
) -> Assignment:
    """`picks` different items for every place (out of its candidates) with probability ∝ exp(rate·score)."""
    return sampler(scores, rate, picks, candidates).draw(below)


def sampler(scores: AssignmentScores, rate: Fraction, picks: int = 1, candidates: Candidates = None) -> SetSampler | PriceSampler:
    """What `draw_assignment` uses, chosen by public numbers only; it can draw again from the same scores."""
    steps = (2 * picks + 1) ** scores.places * scores.items
    kind = SetSampler if steps <= WORK and scores.places <= MOST_PLACES else PriceSampler
    return kind(scores, rate, picks, candidates)


def acceptance(made: SetSampler | PriceSampler, draws: int, below: Below) -> Fraction:
    """The share of accepted proposals in so many further draws: about the data, so for benchmarks only."""
    start = made.attempts
    for _ in range(draws):
        made.draw(below)
    return Fraction(draws, made.attempts - start)


def rejection(
    scores: AssignmentScores, rate: Fraction, below: Below, picks: int = 1, candidates: Candidates = None
) -> Assignment:
    """The reference: every place by itself, the penalty as one coin. Exact, simple; slow where many want the same."""
    allowed = scores.allowed(candidates)
    while True:
        out = []
        for p, row in enumerate(allowed):
            sets = list(itertools.combinations(row, picks))
            out.append(sets[exponential([sum(scores.unary[p][i] for i in s) for s in sets], rate, below)])
        alone = sum(scores.unary[p][i] for p, s in enumerate(out) for i in s)
        if coin((alone - scores.of(out)) * rate.numerator, rate.denominator, 1, 1, below):
            return out
