"""How large a Shapley vector of one reference record can be, for any model with a bounded output.

Fix the record asked about, with prediction f(x), and let the output range be [lo, hi] of width R. Every other coalition may
take any value in the range, so a vector is its centre (f(x) − (lo + hi)/2)/d plus a point of R·Z, where Z is one zonotope that
depends on the number of features d alone. Z is symmetric: one record replaced moves a vector by at most twice what is said here.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Radii:
    """Sizes of a centred vector, in units of the output range."""

    linf: float
    """The largest absolute coordinate."""
    l1: float
    """The sum of the absolute coordinates."""
    l2: float
    """The Euclidean length."""
    spread: float
    """The largest coordinate minus the smallest."""
    pair: float
    """The sum of the two largest absolute coordinates."""

    def of_few(self, k: int) -> Radii:
        """Sizes of any k of the coordinates, from those of all of them. Claim: shapley-radii"""
        # The two largest add up to at most `pair`: the squares of k are largest with one at the border, or with all equal.
        second = max(min(self.pair - self.linf, self.linf), 0.0)
        squares = max(self.linf**2 + (k - 1) * second**2, k * min(self.pair / 2, self.linf) ** 2)
        l2 = min(self.l2, math.sqrt(squares))
        l1 = self.linf if k == 1 else min(self.l1, k * self.pair / 2, math.sqrt(k) * l2)
        return Radii(self.linf, l1, l2, self.spread if k > 1 else 0.0, self.pair if k > 1 else self.linf)


@functools.lru_cache(maxsize=256)
def shapley_radii(features: int) -> Radii:
    """The sizes of Z: all exact but `l2`, which is an upper bound. Claim: shapley-radii

    >>> found = shapley_radii(5)
    >>> [round(2 * v, 2) for v in (found.linf, found.l1, found.spread, found.pair)]
    [1.8, 4.2, 2.0, 2.4]
    """
    d = features
    if d == 1:
        return Radii(0.5, 0.5, 0.5, 0.0, 0.5)
    return Radii(linf=1 - 1 / (2 * d), l1=_l1(d), l2=_l2(d), spread=1.0, pair=max(1.0, _pair(d)))


@functools.lru_cache(maxsize=256)
def whole_radii(features: int) -> Radii:
    """Sizes of Shapley vectors themselves, not centred: neither end of the game is known. Claim: shapley-radii

    >>> whole_radii(7).linf
    1.0
    """
    d = features
    if d == 1:
        return Radii(1.0, 1.0, 1.0, 0.0, 1.0)
    return Radii(linf=1.0, l1=_l1(d, 2), l2=_l2(d, 2), spread=1.0, pair=max(1.0, _pair(d) + 1 / d))


def _l2(d: int, ends: int = 1) -> float:
    """`ends` is how many of the empty and the full coalition may take any value."""
    sizes = np.arange(1, d)
    across = 0.5 * math.sqrt(d / (d - 1)) * float((1 / np.sqrt(sizes * (d - sizes))).sum())
    return math.sqrt(ends**2 / (4 * d) + across**2)


def _pair(d: int) -> float:
    return 1 - 1 / d + ((d - 1) ** 2 // 2) / (d * (d - 1))


def _l1(d: int, ends: int = 1) -> float:
    """The largest over sign patterns with m pluses; only m at or above d/2 need be tried."""
    sizes = np.arange(1, d)
    best = 0.0
    for m in range((d + 1) // 2, d + 1):
        away = _mean_deviation(d, m, sizes)
        best = max(best, ends * (2 * m - d) / (2 * d) + float((d / (sizes * (d - sizes)) * away).sum()))
    return best


def _mean_deviation(d: int, m: int, draws: np.ndarray) -> np.ndarray:
    """E|T − E T| for T the number of marked items among `draws` out of d items of which m are marked.

    The sum telescopes: with k = ⌊E T⌋ + 1 it is (2/d)·k·(d − m − draws + k)·P(T = k).
    """
    from scipy.special import gammaln  # loaded where a Shapley bound is planned, not with the package

    k = draws * m // d + 1
    possible = (k <= m) & (k <= draws) & (draws - k <= d - m)
    at = np.where(possible, k, np.maximum(0, draws - (d - m)))

    def log_choose(n: np.ndarray | int, r: np.ndarray) -> np.ndarray:
        return gammaln(np.asarray(n) + 1.0) - gammaln(r + 1.0) - gammaln(np.asarray(n) - r + 1.0)

    chance = np.exp(log_choose(m, at) + log_choose(d - m, draws - at) - log_choose(d, draws))
    return np.where(possible, 2 / d * k * (d - m - draws + k) * chance, 0.0)
