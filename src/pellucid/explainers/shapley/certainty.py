"""How sure a private ranking is, from public numbers alone: which gaps come out in the right order, and how often.

The statements are about features ranked 1 to k with gaps of at least g: each is ahead of the next by g, and the k-th is ahead of
all the others by g. What is said for equal gaps of g holds for larger ones, since every chance below grows with every gap.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np

from ...mechanisms import NoiseLaw


def level_of_shown(level: float, shown: int, among: int) -> float:
    """The level that bars of the largest of noisy values need, so that among those shown a part of `level` holds on average.

    Noise helps to choose what is shown, and what is shown has more of it than the rest. With a part of shown/among of the risk
    (Benjamini and Yekutieli 2005, false coverage rate) the bars of the chosen ones hold as often as those of all would.
    """
    return 1 - (1 - level) * min(1.0, shown / max(among, 1))


def picks_right(gap: float, rate: float, features: int, k: int, flip: bool) -> float:
    """The chance that k private picks are the right ones in the right order, if all gaps are at least `gap`.

    `rate` is the exponent of a pick per unit of value. The exponential mechanism takes the best with probability
    1/Σexp(−rate·lead); permute-and-flip with ∫∏(1 − u·exp(−rate·lead))du over u from 0 to 1. Both are exact for equal gaps, and
    at least 1 − k·(features − 1)·exp(−rate·gap).

    >>> round(picks_right(0.0, 1.0, 4, 1, False), 3), round(picks_right(math.log(30), 1.0, 2, 1, False), 3)
    (0.25, 0.968)
    """
    sure = 1.0
    for place in range(min(k, features - 1)):
        leads = np.append(np.arange(1.0, k - place), np.array([k - place] if features > k else []))
        many = np.append(np.ones(max(k - place - 1, 0)), np.array([features - k] if features > k else []))
        weight = np.exp(-np.minimum(rate * gap * leads, 700.0))
        if flip:
            nodes, share = _nodes()
            sure *= float(share @ np.exp(np.log1p(-nodes[:, None] * weight) @ many))
        else:
            sure *= float(1 / (1 + weight @ many))
    return sure


@functools.cache
def _nodes() -> tuple[np.ndarray, np.ndarray]:
    at, share = np.polynomial.legendre.leggauss(400)
    return (at + 1) / 2, share / 2


@functools.lru_cache(maxsize=256)
def picks_gap(features: int, k: int, flip: bool, level: float = 0.95) -> float:
    """The gap, times the rate of a pick, from which k picks are all right with probability `level`."""
    low, high = 0.0, math.log(k * features / (1 - level)) + 1
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if picks_right(middle, 1.0, features, k, flip) < level else (low, middle)
    return high


@dataclass(frozen=True)
class NoisyCount:
    """Means over a noisy count: `radius` is what one record counts for, `centre` how far from 0 a centre can lie at most.

    With noise e in a total and c in the count C of n records, a mean v comes out as v·n/C + e + centre·c/radius, e and c over C:
    all means shrink or grow alike, and only centres that differ, or are turned by a sign, move against each other.
    """

    radius: float
    centre: float

    def apart(self, noise: np.ndarray) -> np.ndarray:
        """How far the noise of the count can move two values, or two sizes, against each other."""
        return 2 * min(self.centre / self.radius, 1.0) * np.abs(noise)


@functools.lru_cache(maxsize=256)
def _needed(kind: str, size: int, features: int, k: int, signed: bool, idle: int) -> tuple[np.ndarray, np.ndarray]:
    """Per draw of noise (of scale one): the gap from which sorting noisy values gives the right k, in order, and the noise of
    one more coordinate, that of a count. Of the features, `idle` have no noise: their values are known to be 0."""
    draws = max(1_000, min(20_000, 4_000_000 // features))
    active = features - idle
    drawn = NoiseLaw(kind, 1.0, size).some(active + 1, draws)  # type: ignore[arg-type]
    noise, counted = drawn[:, :active], drawn[:, active]
    k = min(k, features - 1)
    if k < 1:
        return np.zeros(draws), np.zeros(draws)
    # Sizes: noise may carry a small value across zero, so what is behind may seem larger by the size of its noise.
    behind = noise if signed else np.abs(noise)
    needed = np.full(draws, -np.inf)
    # An idle feature may take any one of the first places, so that one place fewer is left for the others.
    for places in {k, k - 1} if signed and idle else {k}:
        places = min(places, active - 1)
        if places >= 1:
            gaps = (behind[:, 1:places] - noise[:, : places - 1]).max(axis=1, initial=-np.inf)
            needed = np.maximum(needed, np.maximum(gaps, behind[:, places:].max(axis=1) - noise[:, places - 1]))
    if signed and idle:
        needed = np.maximum(needed, np.abs(noise).max(axis=1))
    return needed, counted


def _gaps(law: NoiseLaw, features: int, k: int, signed: bool, idle: int, counted: NoisyCount | None) -> np.ndarray:
    """Per draw of noise: the gap from which the order is right."""
    if not signed:
        # By size, features that are known to be 0 come last whatever the noise.
        features, idle = features - idle, 0
    needed, count = (law.scale * part for part in _needed(law.kind, law.size, features, k, signed, idle))
    if counted is None:
        return needed
    grown = np.abs(count) / counted.radius
    # A gap shrinks with all values where the count comes out too large: by its own part, and by two radii at most.
    with np.errstate(divide="ignore", invalid="ignore"):
        own = np.where(grown < 1, (needed + counted.apart(count)) / (1 - grown), np.inf)
    return np.minimum(own, needed + 2 * np.abs(count))


def values_right(
    gap: float, law: NoiseLaw, features: int, k: int, signed: bool, idle: int = 0, counted: NoisyCount | None = None
) -> float:
    """The chance (at least) that sorting noisy values gives the right k in order, if all gaps are at least `gap`.

    `idle` of the features are exactly 0 and known to be; `counted` tells of a noisy count that means were taken over.
    """
    return float(np.mean(_gaps(law, features, k, signed, idle, counted) < gap)) if law.scale else 1.0


def values_gap(
    law: NoiseLaw,
    features: int,
    k: int,
    signed: bool,
    level: float = 0.95,
    idle: int = 0,
    counted: NoisyCount | None = None,
) -> float:
    """The gap from which sorting noisy values gives the right k in order with probability `level`."""
    return max(0.0, float(np.quantile(_gaps(law, features, k, signed, idle, counted), level)))
