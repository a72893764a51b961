"""Many places: prices for sharing, and regions of assignments that are cut where proposals keep being refused."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from ..samplers import Below
from .coins import coin, exp_enclosure
from .prices import Fit, Guide
from .scores import Assignment, AssignmentScores, Candidates

WEIGHT_BITS = 52
MASS_BITS = 128


@dataclass
class Region:
    """Assignments in which place p has all of must[p] and `need` more out of may[p], under exp(rate·level)·Π weights/2^52."""

    must: list[tuple[int, ...]]
    may: list[list[int]]
    fit: Fit
    level: int = 0
    weights: list[list[int]] = field(default_factory=list)
    ends: list[list[list[int]]] = field(default_factory=list)
    mass: int = 0

    def propose(self, below: Below) -> tuple[Assignment, int, int]:
        """An assignment and its probability as two integers: each place by itself, sets by their product of weights."""
        out, chosen, whole = [], 1, 1
        for must, may, weights, ends in zip(self.must, self.may, self.weights, self.ends):
            picked, start = list(must), 0
            if ends:
                whole *= ends[-1][-1]
            for row in reversed(ends):
                at = bisect.bisect_right(row, row[start] + below(row[-1] - row[start])) - 1
                picked.append(may[at])
                chosen *= weights[at]
                start = at + 1
            out.append(tuple(sorted(picked)))
        return out, chosen, whole


def _ends(weights: list[int], need: int) -> list[list[int]]:
    """For r = 1..need: running sums, over the first of r picks, of its weight times what the r - 1 later ones can add."""
    out: list[list[int]] = []
    later = [1] * (len(weights) + 1)
    for _ in range(need):
        row = [0, *itertools.accumulate(w * rest for w, rest in zip(weights, later[1:]))]
        out.append(row)
        later = [row[-1] - before for before in row]
    return out


class PriceSampler:
    """Exact draws under prices; the envelope found for one draw is kept for the next ones of the same object."""

    def __init__(
        self, scores: AssignmentScores, rate: Fraction, picks: int = 1, candidates: Candidates = None, shots: int = 500
    ) -> None:
        self.scores, self.rate, self.picks, self.shots = scores, rate, picks, shots
        self.attempts = self.cuts = 0
        self._weights: dict[int, int] = {}
        self._guide = Guide(scores, rate)
        whole = self._region([() for _ in range(scores.places)], scores.allowed(candidates), None)
        assert whole is not None
        self.regions = [whole]
        self._weigh()

    def draw(self, below: Below) -> Assignment:
        while True:
            for _ in range(self.shots):
                self.attempts += 1
                region = self.regions[bisect.bisect_right(self._ends, below(self._ends[-1]))]
                assignment, chosen, whole = region.propose(below)
                gap = (self._level - self.scores.of(assignment)) * self.rate.numerator
                if coin(gap, self.rate.denominator, whole << MASS_BITS, region.mass * chosen, below):
                    return assignment
            self._cut()

    def _region(self, must: list[tuple[int, ...]], may: list[list[int]], parent: Fit | None) -> Region | None:
        """The envelope with the prices the guide proposes; nothing if a place cannot be served."""
        must, may = list(must), list(may)
        for p, row in enumerate(may):
            need = self.picks - len(must[p])
            if len(row) < need:
                return None
            if need in (0, len(row)):
                must[p], may[p] = (*must[p], *(row if need else ())), []
        region = Region(must, may, self._guide.fit(must, may, self.picks, parent))
        prices: list[dict[int, int]] = [{} for _ in may]
        priced: dict[int, set[int]] = {}
        for i, members, values in region.fit.prices(self.rate):
            priced[i] = set(members)
            for p, y in zip(members, values):
                prices[p][i] = y
            forced = sum(1 << k for k, p in enumerate(members) if i in must[p])
            region.level += refund(values, self.scores.penalty[i], members, forced)
        region.level -= self._certain(must, priced)
        for p, row in enumerate(may):
            unary, need = self.scores.unary[p], self.picks - len(must[p])
            region.level += sum(unary[i] - prices[p].get(i, 0) for i in must[p])
            values = [unary[i] - prices[p].get(i, 0) for i in row]
            best = max(values, default=0)
            region.level += need * best
            region.weights.append([self._weight(best - value) for value in values])
            region.ends.append(_ends(region.weights[-1], need))
        return region

    def _certain(self, must: list[tuple[int, ...]], priced: dict[int, set[int]]) -> int:
        """Penalties that every assignment of a region pays and no price stands for: a region of one assignment is then exact,
        so that cutting always ends."""
        total = 0
        for i in {i for row in must for i in row}:
            users, known = [p for p, row in enumerate(must) if i in row], priced.get(i, set())
            for p, q in itertools.combinations(users, 2):
                if p not in known or q not in known:
                    total += self.scores.penalty[i][p][q]
        return total

    def _weight(self, gap: int) -> int:
        """At least 2^52·exp(-rate·gap), and at least 1."""
        if gap not in self._weights:
            _, high, shift = exp_enclosure(gap * self.rate.numerator, self.rate.denominator, WEIGHT_BITS + 12)
            self._weights[gap] = (high >> (shift + 12)) + 1
        return self._weights[gap]

    def _weigh(self) -> None:
        """The masses of the regions, from above, relative to the highest level."""
        self._level = max(region.level for region in self.regions)
        for region in self.regions:
            gap = (self._level - region.level) * self.rate.numerator
            _, high, shift = exp_enclosure(gap, self.rate.denominator, MASS_BITS)
            for ends in region.ends:
                high = -(-high * (ends[-1][-1] if ends else 1) >> (WEIGHT_BITS * len(ends)))
            region.mass = (high >> shift) + 1
        self._ends = list(itertools.accumulate(region.mass for region in self.regions))

    def _cut(self) -> None:
        """Cut the region that is proposed most: a place has an item, or it does not."""
        index = max((k for k, r in enumerate(self.regions) if any(r.may)), key=lambda k: self.regions[k].mass, default=None)
        where = self._guide.where_to_cut(self.regions[index].may, self.regions[index].fit) if index is not None else None
        if index is None or where is None:
            return
        region = self.regions[index]
        self.cuts += 1
        p, i = where
        rest = [other for other in region.may[p] if other != i]
        halves = []
        for extra in ((i,), ()):
            must, may = list(region.must), list(region.may)
            must[p], may[p] = (*must[p], *extra), rest
            halves.append(self._region(must, may, region.fit))
        self.regions[index : index + 1] = [half for half in halves if half is not None]
        self._weigh()


def refund(prices: Sequence[int], table: list[list[int]], members: Sequence[int], forced: int = 0) -> int:
    """At least max over subsets (that contain the bits of `forced`) of the sum of prices minus the penalty inside."""
    size = sum(abs(y) for y in prices) + sum(table[p][q] for p in members for q in members)
    spare = max(size.bit_length() - 60, 0)  # in coarser units everything fits 64 bits; prices are rounded up, penalties down
    worth = np.zeros(1, dtype=np.int64)
    for k, (p, y) in enumerate(zip(members, prices)):
        step = np.full(1, -(-y >> spare), dtype=np.int64)
        for q in members[:k]:
            step = np.append(step, step - (table[p][q] >> spare))
        worth = np.append(worth, worth + step)
    if forced:
        worth = worth[np.arange(len(worth)) & forced == forced]
    return int(worth.max()) << spare
