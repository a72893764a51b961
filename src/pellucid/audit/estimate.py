"""From scores of two sides to a lower bound of ε that holds with a stated confidence.

An event is chosen on a part of the scores. On the others it is counted how often it happens on either side, p and q, and every ε
is refuted for which counts like these are too unlikely whatever q is, given p ≤ e^ε q + δ. Both counts are judged at once: two
intervals, one for each rate, would both have to be wide.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

CUTS = 200
"""Thresholds that are looked at; one of them is taken."""
CHOOSE = 0.25
"""The part of the scores on which an event is chosen."""
REACH = 8.5
"""Counts further than so many standard deviations from their mean have no weight."""
RATES = 33
"""Rates of the event on the other side that are tried for the one under which the counts are likeliest."""
CLOSER = 9
"""Rates that are tried around the best of those."""
OUTSIDE = 0.02
"""The part of the risk that is kept for the rate lying outside of those."""
REST = 0.2
"""The part of the risk that is kept for all ways to look but the one that sees most."""
BELOW = 0.16, 0.08, 0.04, 0.02, 0.01
"""By how much smaller ones are that are looked at again, largest first."""
CLOSE = 5e-4
"""How precisely the bound is found."""


@dataclass(frozen=True)
class Event:
    """An event that is likelier on one side: scores from a threshold on, or up to it."""

    threshold: float
    upward: bool
    """Whether it is the scores from the threshold on, and likelier on the second side; else those up to it, and on the first."""

    def hits(self, first: np.ndarray, second: np.ndarray) -> tuple[int, int, int, int]:
        """How often it happened where it is likelier, of how many, and how often on the other side, of how many."""
        if self.upward:
            return int((second >= self.threshold).sum()), len(second), int((first >= self.threshold).sum()), len(first)
        return int((first <= self.threshold).sum()), len(first), int((second <= self.threshold).sum()), len(second)


@dataclass(frozen=True)
class Look:
    """Scores of two sides, an event that was chosen on a part of them, and the others, on which it can be counted."""

    event: Event
    promise: float
    """About the bound that the event will give."""
    first: np.ndarray
    second: np.ndarray

    @classmethod
    def at(cls, first: np.ndarray, second: np.ndarray, confidence: float, delta: float = 0.0, part: float = CHOOSE) -> Look:
        (choose, count), (choose_too, count_too) = ((s[: int(len(s) * part)], s[int(len(s) * part) :]) for s in (first, second))
        event, promise = promising(choose, choose_too, confidence, delta, len(count))
        return cls(event, promise, count, count_too)

    def bound(self, confidence: float, delta: float = 0.0, claimed: float = math.inf) -> float:
        """The ε that there must be at least; above a claim only where the claim itself is refuted."""
        counted = self.event.hits(self.first, self.second)
        found = refuted(counted, confidence, delta)
        return found if found <= claimed or chance(counted, claimed, 1 - confidence, delta) <= 1 - confidence else claimed


@dataclass(frozen=True)
class Scores:
    """What left the door on either side, seen in one way."""

    first: np.ndarray
    second: np.ndarray
    look: Callable[[np.ndarray, np.ndarray, float, float], Look] = Look.at

    def __len__(self) -> int:
        return len(self.first)

    def bound(self, confidence: float, delta: float, claimed: float) -> float:
        return self.look(self.first, self.second, confidence, delta).bound(confidence, delta, claimed)


def largest(seen: Sequence[Scores], confidence: float, delta: float, claimed: float = math.inf) -> float:
    """The largest bound of several ways to look, each with a part of the risk that is settled in advance.

    All of them are counted. Were one taken for what its first scores promise, the luckiest would be, which is a way that saw few
    of them: about once in twenty times.
    """
    # The most to the way that sees most; it is the first one of those that see as much.
    most = max(range(len(seen)), key=lambda i: len(seen[i]))
    rest = REST / max(len(seen) - 1, 1)
    parts = [1 - rest * (len(seen) - 1) if i == most else rest for i in range(len(seen))]
    return max(way.bound(1 - part * (1 - confidence), delta, claimed) for way, part in zip(seen, parts))


def lower_bound(first: np.ndarray, second: np.ndarray, confidence: float, delta: float = 0.0) -> float:
    """The ε that (ε, δ)-differential privacy must have at least, given independent scores of the two sides.

    The event is chosen on a part of the scores, and counted on the others: with probability `confidence` the bound is true.

    >>> rng = np.random.default_rng(0)
    >>> found = lower_bound(rng.laplace(0, 1, 20_000), rng.laplace(1, 1, 20_000), 0.99)
    >>> 0.85 < found < 1.0
    True
    """
    return Look.at(first, second, confidence, delta).bound(confidence, delta)


def promising(first: np.ndarray, second: np.ndarray, confidence: float, delta: float, count: int) -> tuple[Event, float]:
    """The event that would give the largest bound if it happened as often in `count` scores of either side, and about that
    bound: less what it is too good by, having been chosen."""
    first, second = np.sort(first), np.sort(second)
    pooled = np.sort(np.concatenate([first, second]))
    if not len(pooled):
        return Event(0.0, True), 0.0
    cuts = np.unique(pooled[np.linspace(0, len(pooled) - 1, CUTS).astype(int)])
    from_on = [len(side) - np.searchsorted(side, cuts, side="left") for side in (second, first)]
    up_to = [np.searchsorted(side, cuts, side="right") for side in (first, second)]
    hits, false_hits = (np.concatenate(counts) for counts in zip(from_on, up_to))
    p, q = (hits + 0.5) / (len(second) + 1), (false_hits + 0.5) / (len(first) + 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        spread = np.sqrt(p * (1 - p) / (p - delta) ** 2 + (1 - q) / q)
        bounds = np.log((p - delta) / q) - spread * (_sigmas(1 - confidence) / math.sqrt(count) + 1 / math.sqrt(len(first) + 1))
    bounds = np.where((p > delta) & np.isfinite(bounds), bounds, -np.inf)
    best = int(bounds.argmax())
    return Event(float(cuts[best % len(cuts)]), best < len(cuts)), max(float(bounds[best]), 0.0)


def _sigmas(risk: float) -> float:
    from scipy.special import ndtri

    return float(-ndtri(risk))


def refuted(counted: tuple[int, int, int, int], confidence: float, delta: float) -> float:
    """All ε below this one are refuted by counts of hits, of how many, and of false hits, of how many.

    With probability `confidence` no true one is.
    """
    hits, of, false_hits, false_of = counted
    if not hits or not false_of:
        return 0.0
    # The rates themselves are refuted by no test, so the bound is below their ratio.
    rate, false_rate = hits / of - delta, max(false_hits, 0.5) / false_of
    if rate <= 0:
        return 0.0
    low, high = 0.0, max(math.log(rate / false_rate), 0.0)
    likely = float(bound_of(counted, confidence, delta))
    if 0 < likely < high and chance(counted, likely, 1 - confidence, delta) <= 1 - confidence:
        low = likely
    elif likely < high and chance(counted, 0.0, 1 - confidence, delta) > 1 - confidence:
        return 0.0
    while high - low > CLOSE:
        middle = (low + high) / 2
        low, high = (middle, high) if chance(counted, middle, 1 - confidence, delta) <= 1 - confidence else (low, middle)
    # Counts are whole numbers, so that now and then an ε just below is not refuted where a larger one is.
    for further, part in itertools.pairwise(BELOW):
        if chance(counted, low * (1 - part), 1 - confidence, delta) > 1 - confidence:
            return low * (1 - further)
    return low


def chance(counted: tuple[int, int, int, int], epsilon: float, risk: float, delta: float) -> float:
    """How likely counts are that speak as much against (ε, δ) as these, at most: an exact test, whatever the rates are.

    Counts are ordered by how many of their own standard deviations the hits are above e^ε times the false ones, and δ. The
    chance is the largest one over rates q of false hits within an interval that misses q with a small part of the risk, which
    is added (Berger and Boos, 1994); at a given q it grows with the rate of hits, whose largest value is e^ε q + δ.
    """
    from scipy.special import bdtrc

    hits, of, false_hits, false_of = counted
    times = math.exp(epsilon)

    def variance(false: Any) -> Any:
        rate = (false + 1) / (false_of + 2)
        return times**2 * rate * (1 - rate) / false_of

    above = hits / of - times * false_hits / false_of - delta
    if above <= 0:
        return 1.0
    rate = hits / of
    square = above**2 / (rate * (1 - rate) / of + variance(false_hits))
    spare = OUTSIDE * risk
    low, high = float(at_least(false_hits, false_of, spare / 2)), float(at_most(false_hits, false_of, spare / 2))

    def likely(q: float) -> float:
        p = min(times * q + delta, 1.0)
        width = REACH * math.sqrt(false_of * q * (1 - q)) + REACH**2
        false = np.arange(max(0, math.floor(false_of * q - width)), min(false_of, math.ceil(false_of * q + width)) + 1)
        # The smallest rate of hits that is as many standard deviations above: the larger root of a quadratic.
        middle = times * false / false_of + delta
        a, half, c = 1 + square / of, middle + square / of / 2, middle**2 - square * variance(false)
        enough = np.ceil(of * (half + np.sqrt(np.maximum(half**2 - a * c, 0.0))) / a - 1e-7)
        return float(_weights(false, false_of, q) @ bdtrc(np.clip(enough - 1, -1, of), of, p))

    rates = np.linspace(low, high, RATES)
    found = [likely(q) for q in rates]
    best = int(np.argmax(found))
    near = np.linspace(rates[max(best - 1, 0)], rates[min(best + 1, RATES - 1)], CLOSER)
    worst = max(max(found), *(likely(q) for q in near))
    return worst + spare


def _weights(hits: np.ndarray, of: int, rate: float) -> np.ndarray:
    """How likely counts are."""
    from scipy.special import gammaln, xlog1py, xlogy

    ways = gammaln(of + 1) - gammaln(hits + 1) - gammaln(of - hits + 1)
    found: np.ndarray = np.exp(ways + xlogy(hits, rate) + xlog1py(of - hits, -rate))
    return found


def bound_of(counted: tuple[Any, int, Any, int], confidence: float, delta: float) -> np.ndarray:
    """ln((lower end of the rate of hits - δ) / upper end of the rate of false ones), at least 0; of one count or of many.

    A coarser bound than `refuted`: two intervals, each with half of the risk.
    """
    hits, of, false_hits, false_of = counted
    each = (1 - confidence) / 2
    low, high = at_least(hits, of, each), at_most(false_hits, false_of, each)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(low > delta, np.maximum(np.log((low - delta) / high), 0.0), 0.0)


def at_least(hits: Any, of: int, risk: float) -> np.ndarray:
    """The lower end of a rate, wrong with at most this risk (Clopper and Pearson)."""
    from scipy.special import betaincinv

    hits = np.asarray(hits, dtype=float)
    return np.where(hits > 0, betaincinv(np.maximum(hits, 1), of - hits + 1, risk), 0.0)


def at_most(hits: Any, of: int, risk: float) -> np.ndarray:
    """The upper end of a rate, wrong with at most this risk."""
    from scipy.special import betaincinv

    hits = np.asarray(hits, dtype=float)
    return np.where(hits < of, betaincinv(hits + 1, np.maximum(of - hits, 1), 1 - risk), 1.0)
