"""From scores of two sides to a lower bound of ε that holds with a stated confidence."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

CUTS = 200
"""Thresholds that are looked at; one of them is taken."""


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


def lower_bound(first: np.ndarray, second: np.ndarray, confidence: float, delta: float = 0.0) -> float:
    """The ε that (ε, δ)-differential privacy must have at least, given independent scores of the two sides.

    The event is chosen on one half of the scores, and counted on the other: with probability `confidence` the bound is true.

    >>> rng = np.random.default_rng(0)
    >>> found = lower_bound(rng.laplace(0, 1, 20_000), rng.laplace(1, 1, 20_000), 0.99)
    >>> 0.85 < found < 1.0
    True
    """
    (choose_first, count_first), (choose_second, count_second) = (halves(scores) for scores in (first, second))
    event = best_event(choose_first, choose_second, confidence, delta)
    return bound_of(event.hits(count_first, count_second), confidence, delta)


def halves(scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return scores[: len(scores) // 2], scores[len(scores) // 2 :]


def best_event(first: np.ndarray, second: np.ndarray, confidence: float, delta: float) -> Event:
    """The event that would give the largest bound here."""
    pooled = np.sort(np.concatenate([first, second]))
    cuts = np.unique(pooled[np.linspace(0, len(pooled) - 1, CUTS).astype(int)])
    events = [Event(float(cut), upward) for cut in cuts for upward in (True, False)]
    return max(events, key=lambda event: bound_of(event.hits(first, second), confidence, delta))


def bound_of(counted: tuple[int, int, int, int], confidence: float, delta: float) -> float:
    """ln((lower end of the rate of hits - δ) / upper end of the rate of false ones), at least 0."""
    hits, of, false_hits, false_of = counted
    each = (1 - confidence) / 2
    low, high = at_least(hits, of, each), at_most(false_hits, false_of, each)
    return max(0.0, math.log((low - delta) / high)) if low > delta else 0.0


def at_least(hits: int, of: int, risk: float) -> float:
    """The lower end of a rate, wrong with at most this risk (Clopper and Pearson)."""
    from scipy.special import betaincinv

    return float(betaincinv(hits, of - hits + 1, risk)) if hits else 0.0


def at_most(hits: int, of: int, risk: float) -> float:
    """The upper end of a rate, wrong with at most this risk."""
    from scipy.special import betaincinv

    return float(betaincinv(hits + 1, of - hits, 1 - risk)) if hits < of else 1.0
