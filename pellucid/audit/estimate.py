"""From scores of two sides to a lower bound of ε that holds with a stated confidence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

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
    return float(bound_of(event.hits(count_first, count_second), confidence, delta))


def halves(scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return scores[: len(scores) // 2], scores[len(scores) // 2 :]


def best_event(first: np.ndarray, second: np.ndarray, confidence: float, delta: float) -> Event:
    """The event that would give the largest bound here."""
    return promising(first, second, confidence, delta)[0]


def promising(first: np.ndarray, second: np.ndarray, confidence: float, delta: float) -> tuple[Event, float]:
    """The event that would give the largest bound here, and that bound: it is too good to be true, having been chosen."""
    first, second = np.sort(first), np.sort(second)
    pooled = np.sort(np.concatenate([first, second]))
    cuts = np.unique(pooled[np.linspace(0, len(pooled) - 1, CUTS).astype(int)])
    from_on = [len(side) - np.searchsorted(side, cuts, side="left") for side in (second, first)]
    up_to = [np.searchsorted(side, cuts, side="right") for side in (first, second)]
    bounds = np.concatenate(
        [
            bound_of((from_on[0], len(second), from_on[1], len(first)), confidence, delta),
            bound_of((up_to[0], len(first), up_to[1], len(second)), confidence, delta),
        ]
    )
    best = int(bounds.argmax())
    return Event(float(cuts[best % len(cuts)]), best < len(cuts)), float(bounds[best])


def bound_of(counted: tuple[Any, int, Any, int], confidence: float, delta: float) -> np.ndarray:
    """ln((lower end of the rate of hits - δ) / upper end of the rate of false ones), at least 0; of one count or of many."""
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
