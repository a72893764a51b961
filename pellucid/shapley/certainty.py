"""How sure a private ranking is, from public numbers alone: which gaps come out in the right order, and how often.

The statements are about features ranked 1 to k with gaps of at least g: each is ahead of the next by g, and the k-th is ahead of
all the others by g. What is said for equal gaps of g holds for larger ones, since every chance below grows with every gap.
"""

from __future__ import annotations

import functools
import math

import numpy as np

from ..mechanisms import NoiseLaw


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


@functools.lru_cache(maxsize=256)
def _needed(kind: str, size: int, features: int, k: int, signed: bool) -> np.ndarray:
    """Per draw of noise (of scale one): the gap from which sorting noisy values gives the right k, in order. Sorted."""
    draws = max(1_000, min(20_000, 4_000_000 // features))
    noise = NoiseLaw(kind, 1.0, size).some(features, draws)  # type: ignore[arg-type]
    k = min(k, features - 1)
    if k < 1:
        return np.zeros(draws)
    # Sizes: noise may carry a small value across zero, so what is behind may seem larger by the size of its noise.
    behind = noise if signed else np.abs(noise)
    gaps = behind[:, 1:k] - noise[:, : k - 1]
    last = behind[:, k:].max(axis=1) - noise[:, k - 1]
    return np.sort(np.maximum(gaps.max(axis=1, initial=-np.inf), last))


def values_right(gap: float, law: NoiseLaw, features: int, k: int, signed: bool) -> float:
    """The chance (at least) that sorting noisy values gives the right k in order, if all gaps are at least `gap`."""
    needed = _needed(law.kind, law.size, features, k, signed)
    return float(np.searchsorted(needed, gap / law.scale if law.scale else math.inf) / len(needed))


def values_gap(law: NoiseLaw, features: int, k: int, signed: bool, level: float = 0.95) -> float:
    """The gap from which sorting noisy values gives the right k in order with probability `level`."""
    return max(0.0, law.scale * float(np.quantile(_needed(law.kind, law.size, features, k, signed), level)))
