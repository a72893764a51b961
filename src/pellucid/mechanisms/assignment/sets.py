"""Few places: the sum over all assignments, by sets of places served."""

from __future__ import annotations

import functools
from fractions import Fraction

import numpy as np

from ..samplers import Below
from .coins import coin, exp_enclosure
from .scores import Assignment, AssignmentScores, Candidates

MOST_PLACES = 13
INFLATE = 1 + 2.0**-28
GRAIN = 2.0**44
NOTHING = -(1 << 55)
FAR = 1000
POWERS = np.ldexp(1.0, np.arange(-FAR, 1))


class SetSampler:
    """sums[j][S] >= Σ exp(rate·u) over the ways in which the items 0..j give the places what state S says.

    An assignment is drawn from the last item to the first. Sums are floats with exponents of their own, computed with
    additions and products only and inflated by more than these can lose: proof in combination-exponential.
    """

    def __init__(self, scores: AssignmentScores, rate: Fraction, picks: int = 1, candidates: Candidates = None) -> None:
        if scores.places > MOST_PLACES:
            raise ValueError(f"{scores.places} places; this sampler is for at most {MOST_PLACES}.")
        self.scores, self.rate, self.picks, self.attempts = scores, rate, picks, 0
        self.allowed = scores.allowed(candidates)
        self.best = [max(scores.unary[p][i] for i in row) for p, row in enumerate(self.allowed)]
        self._known: dict[int, tuple[float, int]] = {}
        self._before, self._taken, self._starts, self._sizes = _steps(scores.places, picks)
        states = len(self._starts)
        sums = np.zeros(states), np.full(states, NOTHING)
        sums[0][0], sums[1][0] = 1.0, 0
        self._sums, self._gains = [sums], []
        for i in range(scores.items):
            self._gains.append(self._gain(i))
            self._sums.append(self._add(self._sums[-1], self._gains[-1]))

    def draw(self, below: Below) -> Assignment:
        while True:
            self.attempts += 1
            assignment, chosen, whole = self._propose(below)
            size, exponent = (float(self._sums[-1][0][-1]), int(self._sums[-1][1][-1]))
            top, bottom = size.as_integer_ratio()
            gap = self.picks * sum(self.best) - self.scores.of(assignment)
            nats = gap * self.rate.numerator, self.rate.denominator
            if coin(*nats, whole * bottom, chosen * top, below, power=-exponent):
                return assignment

    def _propose(self, below: Below) -> tuple[Assignment, int, int]:
        """An assignment and its probability as two integers."""
        out: list[list[int]] = [[] for _ in self.allowed]
        state, chosen, whole = len(self._starts) - 1, 1, 1
        for i in reversed(range(self.scores.items)):
            if not state:
                break
            step = slice(int(self._starts[state]), int(self._starts[state] + self._sizes[state]))
            before, taken = self._before[step], self._taken[step]
            terms, _ = self._terms(
                self._sums[i], self._gains[i], before, taken, np.zeros(1, dtype=np.intp), np.array([len(taken)])
            )
            ends = np.cumsum(np.where(terms > 0, (terms * GRAIN).astype(np.int64) + 1, 0))
            at = int(np.searchsorted(ends, below(int(ends[-1])), side="right"))
            chosen *= int(ends[at]) - (int(ends[at - 1]) if at else 0)
            whole *= int(ends[-1])
            state = int(before[at])
            for p in range(len(out)):
                if taken[at] >> p & 1:
                    out[p].insert(0, i)
        return [tuple(row) for row in out], chosen, whole

    def _add(self, sums: tuple[np.ndarray, np.ndarray], gain: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        terms, top = self._terms(sums, gain, self._before, self._taken, self._starts, self._sizes)
        return _normal(np.add.reduceat(terms, self._starts) * INFLATE, top)

    @staticmethod
    def _terms(
        sums: tuple[np.ndarray, np.ndarray],
        gain: tuple[np.ndarray, np.ndarray],
        before: np.ndarray,
        taken: np.ndarray,
        starts: np.ndarray,
        sizes: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray]:
        """sum before x gain, relative to 2^(largest exponent into the same state); tiny ones are enlarged to 2^-FAR."""
        exponents = sums[1][before] + gain[1][taken]
        top = np.maximum.reduceat(exponents, starts)
        exponents -= np.repeat(top, sizes)
        np.maximum(exponents, -FAR, out=exponents)
        terms = sums[0][before] * gain[0][taken]
        terms *= POWERS[exponents + FAR]
        return terms, top

    def _gain(self, i: int) -> tuple[np.ndarray, np.ndarray]:
        """exp(rate·(unary above each place's best - penalty)) of every set of places that has item i, from above."""
        size, exponent = np.ones(1), np.zeros(1, dtype=np.int64)
        for p, row in enumerate(self.allowed):
            if i not in row:
                size, exponent = np.append(size, np.zeros_like(size)), np.append(exponent, np.full_like(exponent, NOTHING))
                continue
            m, e = self._factor(self.best[p] - self.scores.unary[p][i])
            with_size, with_exponent = np.full(1, m), np.full(1, e, dtype=np.int64)
            for q in range(p):
                m, e = self._factor(self.scores.penalty[i][p][q])
                with_size, with_exponent = np.append(with_size, with_size * m), np.append(with_exponent, with_exponent + e)
            both = _normal(size * with_size, exponent + with_exponent)
            size, exponent = np.append(size, both[0]), np.append(exponent, both[1])
        return size * (1 + 2.0**-40), exponent

    def _factor(self, gap: int) -> tuple[float, int]:
        """m·2^e >= exp(-rate·gap), m a float of 52 bits between 1/2 and 1, above by less than 2^-48 of it."""
        if gap not in self._known:
            _, high, shift = exp_enclosure(gap * self.rate.numerator, self.rate.denominator, 64)
            spare = high.bit_length() - 52
            self._known[gap] = ((high >> spare) + 1) / 2.0**52, spare - 12 - shift
        return self._known[gap]


@functools.lru_cache(maxsize=4)
def _steps(places: int, picks: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Every (state before, set of places that take an item), sorted by the state after; their starts and sizes.

    A state says how many items each place has: digit p in base picks + 1.
    """
    digits = [(r, t) for r in range(picks + 1) for t in (0, 1) if t <= r]
    after = before = taken = np.zeros(1, dtype=np.int32)
    for p in range(places):
        unit = (picks + 1) ** p
        now, old, use = (np.array(v, dtype=np.int32) for v in zip(*((r * unit, (r - t) * unit, t << p) for r, t in digits)))
        after, before, taken = ((x[:, None] + y).ravel() for x, y in ((after, now), (before, old), (taken, use)))
    order = np.argsort(after, kind="stable")
    sizes = np.bincount(after, minlength=(picks + 1) ** places)
    return before[order], taken[order], np.concatenate([[0], np.cumsum(sizes)[:-1]]), sizes


def _normal(size: np.ndarray, exponent: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    size, shift = np.frexp(size)
    return size, np.where(size > 0, exponent + shift, NOTHING)
