"""One draw of attributes for every cluster at once from the exponential mechanism over all combinations: exactly.

The law is P ∝ exp(rate·u), where a combination gives cluster c the set S_c of attributes and has the integer score
u = Σ_c Σ_{a in S_c} unary[c][a] - Σ_{c<d} Σ_{a in S_c and S_d} penalty[a][c][d].
There are |A|^C combinations, so no sampler enumerates them. Each proposes a combination with a probability that is an exact
fraction and accepts it with probability exp(rate·u)·(a fraction), tossed exactly by comparing random bits with ever tighter
integer enclosures. An attempt returns a combination with probability exp(rate·u)/K, where K is the same for all of them; so the
accepted one has the law, whatever rule picks the next proposal. Floats steer: they decide how soon, not with what probability.

- `SetSampler`, few clusters: adds up exp(rate·u) over all combinations, attribute by attribute, over the sets of clusters already
  served; the sums are certified upper bounds, so nearly every proposal is accepted, whatever the scores.
- `PriceSampler`, more clusters: *prices* charge a cluster in advance for sharing an attribute, which turns the score into a sum
  over clusters that is never below it. Where proposals keep being refused, the most likely region is cut in two.

Which one runs depends on the numbers of clusters, attributes and picks only. The time may depend on the data.
Claim: combination-exponential
"""

from __future__ import annotations

import bisect
import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from .amounts import Spend
from .assignment_prices import Fit, Guide
from .choices import Choosing
from .samplers import Below, exponential

Combination = list[tuple[int, ...]]


@dataclass(frozen=True)
class Tables:
    """unary[c][a], and penalty[a][c][d] >= 0 (symmetric, zero diagonal) for clusters c and d that share attribute a."""

    unary: list[list[int]]
    penalty: list[list[list[int]]]

    @property
    def clusters(self) -> int:
        return len(self.unary)

    @property
    def attributes(self) -> int:
        return len(self.unary[0])

    def of(self, combination: Sequence[int | tuple[int, ...]]) -> int:
        """The score of one combination: an attribute, or a tuple of attributes, per cluster."""
        total, users = 0, dict[int, list[int]]()
        for c, picked in enumerate(combination):
            for a in (picked,) if isinstance(picked, int) else picked:
                total += self.unary[c][a]
                row = self.penalty[a][c]
                earlier = users.setdefault(a, [])
                total -= sum(row[d] for d in earlier)
                earlier.append(c)
        return total


def root_below(square: Fraction) -> Fraction:
    """A fraction just below the square root, to some twenty digits."""
    digits = 10 ** (20 + len(str(square.denominator // max(square.numerator, 1))))
    return Fraction(math.isqrt(int(square * digits * digits)), digits)


def calibrate_combination(span: int, spend: Spend) -> Choosing:
    """The rate at which one draw costs at most the spend; `span` bounds max minus min of the change of the scores."""
    if spend.currency == "epsilon":
        rate, cost = spend.amount / span, spend.amount
    else:
        rate = root_below(8 * spend.amount / span**2)
        cost = (rate * span) ** 2 / 8
    return Choosing("exponential mechanism", rate, 1, span, cost, "combination-exponential")


def draw_combination(
    tables: Tables,
    rate: Fraction,
    below: Below,
    per_cluster: int = 1,
    candidates: Sequence[Sequence[int]] | None = None,
) -> Combination:
    """`per_cluster` different attributes for every cluster (out of its candidates) with probability ∝ exp(rate·score)."""
    return sampler(tables, rate, per_cluster, candidates).draw(below)


WORK = 30_000_000
"""Steps of the sum over sets that are still worth a certain acceptance (about a third of a second)."""


def sampler(
    tables: Tables, rate: Fraction, per_cluster: int = 1, candidates: Sequence[Sequence[int]] | None = None
) -> SetSampler | PriceSampler:
    """What `draw_combination` uses, chosen by public numbers only; it can draw again from the same scores."""
    steps = (2 * per_cluster + 1) ** tables.clusters * tables.attributes
    kind = SetSampler if steps <= WORK and tables.clusters <= MOST_CLUSTERS else PriceSampler
    return kind(tables, rate, per_cluster, candidates)


def acceptance(made: SetSampler | PriceSampler, draws: int, below: Below) -> Fraction:
    """The share of accepted proposals in so many further draws: about the data, so for benchmarks only."""
    start = made.attempts
    for _ in range(draws):
        made.draw(below)
    return Fraction(draws, made.attempts - start)


def _allowed(tables: Tables, candidates: Sequence[Sequence[int]] | None) -> list[list[int]]:
    if candidates is None:
        return [list(range(tables.attributes)) for _ in range(tables.clusters)]
    return [sorted(set(row)) for row in candidates]


def rejection(
    tables: Tables,
    rate: Fraction,
    below: Below,
    per_cluster: int = 1,
    candidates: Sequence[Sequence[int]] | None = None,
) -> Combination:
    """The reference: every cluster by itself, the penalty as one coin. Exact, simple; slow where many want the same."""
    allowed = _allowed(tables, candidates)
    while True:
        out = []
        for c, row in enumerate(allowed):
            sets = list(itertools.combinations(row, per_cluster))
            out.append(sets[exponential([sum(tables.unary[c][a] for a in s) for s in sets], rate, below)])
        alone = sum(tables.unary[c][a] for c, s in enumerate(out) for a in s)
        if coin((alone - tables.of(out)) * rate.numerator, rate.denominator, 1, 1, below):
            return out


# Coins whose probability is exp(-x) times a fraction.

GUARD_BITS = 24


@functools.lru_cache(maxsize=64)
def _log2_below(bits: int) -> int:
    """An integer at most 2^bits·ln 2 and within 3 of it, by ln 2 = Σ 1/(k·2^k)."""
    guard = bits + 32
    return (sum((1 << (guard - k)) // k for k in range(1, guard + 1)) >> 32) - 1


def exp_enclosure(top: int, bottom: int, bits: int) -> tuple[int, int, int]:
    """(low, high, shift) with low <= exp(-top/bottom)·2^(bits + shift) <= high, high - low < 4·bits + 80.

    low >= 2^bits; any sign; |top/bottom| < 2^100. exp(-x) = 2^-shift·exp(r) with r = shift·ln 2 - x between 0 and 2·ln 2.
    """
    shift = 1 - ((-top << 128) // (bottom * _log2_below(128)))
    wide = bits + abs(shift).bit_length() + 8
    x, one = (top << wide) // bottom, _log2_below(wide)  # x <= 2^wide·top/bottom < x + 1, one <= 2^wide·ln 2 <= one + 3
    least, most = (shift * one, shift * (one + 3)) if shift >= 0 else (shift * (one + 3), shift * one)
    spare = wide - bits
    low_r, high_r = max((least - x - 1) >> spare, 0), -((x - most) >> spare)
    low = _exp_floor(low_r, bits)
    # Every term loses less than 4 to its floors, and there are fewer than bits + 16; moving r by g moves exp(r) by less than 5g.
    return low, low + 5 * (high_r - low_r) + 4 * bits + 64, shift


def _exp_floor(r: int, bits: int) -> int:
    """The series of exp(r/2^bits)·2^bits, every term rounded down."""
    term = total = 1 << bits
    k = 1
    while term:
        term = (term * r >> bits) // k
        total += term
        k += 1
    return total


def coin(top: int, bottom: int, numerator: int, denominator: int, below: Below) -> bool:
    """True with probability exp(-top/bottom)·numerator/denominator, which must be at most 1: bits of a uniform number are
    drawn until they decide against an enclosure of the probability."""
    bits, uniform = 0, 0
    while True:
        bits += 64
        uniform = (uniform << 64) | below(1 << 64)
        low, high, shift = exp_enclosure(top, bottom, bits + GUARD_BITS)
        shift += GUARD_BITS  # probability·2^bits lies between low and high, times numerator / (denominator·2^shift)
        up, down = numerator << max(-shift, 0), denominator << max(shift, 0)
        if uniform >= -(-high * up // down):
            return False
        floor = low * up // down
        if floor > 1 << bits:
            raise ArithmeticError("a probability above 1 in the draw of a combination; please report this.")
        if uniform < floor:
            return True


# Few clusters: the sum over all combinations, by sets of clusters served.

MOST_CLUSTERS = 13
INFLATE = 1 + 2.0**-28
GRAIN = 2.0**44
NOTHING = -(1 << 55)
FAR = 1000
POWERS = np.ldexp(1.0, np.arange(-FAR, 1))


@functools.lru_cache(maxsize=4)
def _steps(clusters: int, picks: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Every (state before, set of clusters that take an attribute), sorted by the state after; their starts and sizes.

    A state says how many attributes each cluster has: digit c in base picks + 1.
    """
    digits = [(r, t) for r in range(picks + 1) for t in (0, 1) if t <= r]
    after = before = taken = np.zeros(1, dtype=np.int32)
    for c in range(clusters):
        place = (picks + 1) ** c
        now, old, use = (np.array(v, dtype=np.int32) for v in zip(*((r * place, (r - t) * place, t << c) for r, t in digits)))
        after, before, taken = ((x[:, None] + y).ravel() for x, y in ((after, now), (before, old), (taken, use)))
    order = np.argsort(after, kind="stable")
    sizes = np.bincount(after, minlength=(picks + 1) ** clusters)
    return before[order], taken[order], np.concatenate([[0], np.cumsum(sizes)[:-1]]), sizes


class SetSampler:
    """sums[j][S] >= Σ exp(rate·u) over the ways in which the attributes 0..j give the clusters what state S says.

    A combination is drawn from the last attribute to the first. Sums are floats with exponents of their own, computed
    with additions and products only and inflated by more than these can lose: proof in combination-exponential.
    """

    def __init__(
        self, tables: Tables, rate: Fraction, per_cluster: int = 1, candidates: Sequence[Sequence[int]] | None = None
    ) -> None:
        if tables.clusters > MOST_CLUSTERS:
            raise ValueError(f"{tables.clusters} clusters; this sampler is for at most {MOST_CLUSTERS}.")
        self.tables, self.rate, self.picks, self.attempts = tables, rate, per_cluster, 0
        self.allowed = _allowed(tables, candidates)
        self.best = [max(tables.unary[c][a] for a in row) for c, row in enumerate(self.allowed)]
        self._known: dict[int, tuple[float, int]] = {}
        self._before, self._taken, self._starts, self._sizes = _steps(tables.clusters, per_cluster)
        states = len(self._starts)
        sums = np.zeros(states), np.full(states, NOTHING)
        sums[0][0], sums[1][0] = 1.0, 0
        self._sums, self._gains = [sums], []
        for a in range(tables.attributes):
            self._gains.append(self._gain(a))
            self._sums.append(self._add(self._sums[-1], self._gains[-1]))

    def draw(self, below: Below) -> Combination:
        while True:
            self.attempts += 1
            combination, chosen, whole = self._propose(below)
            size, exponent = (float(self._sums[-1][0][-1]), int(self._sums[-1][1][-1]))
            top, bottom = size.as_integer_ratio()
            gap = self.picks * sum(self.best) - self.tables.of(combination)
            up, down = (whole * bottom) << max(-exponent, 0), (chosen * top) << max(exponent, 0)
            if coin(gap * self.rate.numerator, self.rate.denominator, up, down, below):
                return combination

    def _propose(self, below: Below) -> tuple[Combination, int, int]:
        """A combination and its probability as two integers."""
        out: list[list[int]] = [[] for _ in self.allowed]
        state, chosen, whole = len(self._starts) - 1, 1, 1
        for a in reversed(range(self.tables.attributes)):
            if not state:
                break
            place = slice(int(self._starts[state]), int(self._starts[state] + self._sizes[state]))
            before, taken = self._before[place], self._taken[place]
            terms, _ = self._terms(
                self._sums[a], self._gains[a], before, taken, np.zeros(1, dtype=np.intp), np.array([len(taken)])
            )
            ends = np.cumsum(np.where(terms > 0, (terms * GRAIN).astype(np.int64) + 1, 0))
            i = int(np.searchsorted(ends, below(int(ends[-1])), side="right"))
            chosen *= int(ends[i]) - (int(ends[i - 1]) if i else 0)
            whole *= int(ends[-1])
            state = int(before[i])
            for c in range(len(out)):
                if taken[i] >> c & 1:
                    out[c].insert(0, a)
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

    def _gain(self, a: int) -> tuple[np.ndarray, np.ndarray]:
        """exp(rate·(unary above each cluster's best - penalty)) of every set of clusters that uses attribute a, from above."""
        size, exponent = np.ones(1), np.zeros(1, dtype=np.int64)
        for c, row in enumerate(self.allowed):
            if a not in row:
                size, exponent = np.append(size, np.zeros_like(size)), np.append(exponent, np.full_like(exponent, NOTHING))
                continue
            m, e = self._factor(self.best[c] - self.tables.unary[c][a])
            with_size, with_exponent = np.full(1, m), np.full(1, e, dtype=np.int64)
            for d in range(c):
                m, e = self._factor(self.tables.penalty[a][c][d])
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


def _normal(size: np.ndarray, exponent: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    size, shift = np.frexp(size)
    return size, np.where(size > 0, exponent + shift, NOTHING)


# Many clusters: prices for sharing, and regions.

WEIGHT_BITS = 52
MASS_BITS = 128


@dataclass
class Region:
    """Combinations in which cluster c uses all of must[c] and `need` more out of may[c], under exp(rate·level)·Π weights/2^52."""

    must: list[tuple[int, ...]]
    may: list[list[int]]
    fit: Fit
    level: int = 0
    weights: list[list[int]] = field(default_factory=list)
    ends: list[list[list[int]]] = field(default_factory=list)
    mass: int = 0

    def propose(self, below: Below) -> tuple[Combination, int, int]:
        """A combination and its probability as two integers: each cluster by itself, sets by their product of weights."""
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
        self,
        tables: Tables,
        rate: Fraction,
        per_cluster: int = 1,
        candidates: Sequence[Sequence[int]] | None = None,
        shots: int = 500,
    ) -> None:
        self.tables, self.rate, self.picks, self.shots = tables, rate, per_cluster, shots
        self.attempts = self.cuts = 0
        self._weights: dict[int, int] = {}
        self._guide = Guide(tables, rate)
        whole = self._region([() for _ in range(tables.clusters)], _allowed(tables, candidates), None)
        assert whole is not None
        self.regions = [whole]
        self._weigh()

    def draw(self, below: Below) -> Combination:
        while True:
            for _ in range(self.shots):
                self.attempts += 1
                region = self.regions[bisect.bisect_right(self._ends, below(self._ends[-1]))]
                combination, chosen, whole = region.propose(below)
                gap = (self._level - self.tables.of(combination)) * self.rate.numerator
                if coin(gap, self.rate.denominator, whole << MASS_BITS, region.mass * chosen, below):
                    return combination
            self._cut()

    def _region(self, must: list[tuple[int, ...]], may: list[list[int]], parent: Fit | None) -> Region | None:
        """The envelope with the prices the guide proposes; nothing if a cluster cannot be served."""
        must, may = list(must), list(may)
        for c, row in enumerate(may):
            need = self.picks - len(must[c])
            if len(row) < need:
                return None
            if need in (0, len(row)):
                must[c], may[c] = (*must[c], *(row if need else ())), []
        region = Region(must, may, self._guide.fit(must, may, self.picks, parent))
        prices: list[dict[int, int]] = [{} for _ in may]
        priced: dict[int, set[int]] = {}
        for a, members, values in region.fit.prices(self.rate):
            priced[a] = set(members)
            for c, y in zip(members, values):
                prices[c][a] = y
            forced = sum(1 << i for i, c in enumerate(members) if a in must[c])
            region.level += refund(values, self.tables.penalty[a], members, forced)
        region.level -= self._certain(must, priced)
        for c, row in enumerate(may):
            unary, need = self.tables.unary[c], self.picks - len(must[c])
            region.level += sum(unary[a] - prices[c].get(a, 0) for a in must[c])
            values = [unary[a] - prices[c].get(a, 0) for a in row]
            best = max(values, default=0)
            region.level += need * best
            region.weights.append([self._weight(best - value) for value in values])
            region.ends.append(_ends(region.weights[-1], need))
        return region

    def _certain(self, must: list[tuple[int, ...]], priced: dict[int, set[int]]) -> int:
        """Penalties that every combination of a region pays and no price stands for: a region of one combination is then exact,
        so that cutting always ends."""
        total = 0
        for a in {a for row in must for a in row}:
            users, known = [c for c, row in enumerate(must) if a in row], priced.get(a, set())
            for c, d in itertools.combinations(users, 2):
                if c not in known or d not in known:
                    total += self.tables.penalty[a][c][d]
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
        """Cut the region that is proposed most: a cluster uses an attribute, or it does not."""
        index = max((i for i, r in enumerate(self.regions) if any(r.may)), key=lambda i: self.regions[i].mass, default=None)
        where = self._guide.where_to_cut(self.regions[index]) if index is not None else None
        if index is None or where is None:
            return
        region = self.regions[index]
        self.cuts += 1
        c, a = where
        rest = [b for b in region.may[c] if b != a]
        halves = []
        for extra in ((a,), ()):
            must, may = list(region.must), list(region.may)
            must[c], may[c] = (*must[c], *extra), rest
            halves.append(self._region(must, may, region.fit))
        self.regions[index : index + 1] = [half for half in halves if half is not None]
        self._weigh()


def refund(prices: Sequence[int], table: list[list[int]], members: Sequence[int], forced: int = 0) -> int:
    """At least max over subsets (that contain the bits of `forced`) of the sum of prices minus the penalty inside."""
    size = sum(abs(y) for y in prices) + sum(table[c][d] for c in members for d in members)
    spare = max(size.bit_length() - 60, 0)  # in coarser units everything fits 64 bits; prices are rounded up, penalties down
    worth = np.zeros(1, dtype=np.int64)
    for i, (c, y) in enumerate(zip(members, prices)):
        step = np.full(1, -(-y >> spare), dtype=np.int64)
        for d in members[:i]:
            step = np.append(step, step - (table[c][d] >> spare))
        worth = np.append(worth, worth + step)
    if forced:
        worth = worth[np.arange(len(worth)) & forced == forced]
    return int(worth.max()) << spare
