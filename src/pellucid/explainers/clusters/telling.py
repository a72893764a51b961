"""What noisy histograms can tell of a cluster: shares with their error, and values that tell it from elsewhere for certain.

A share is a noisy count over a noisy total. The share p of k of m values satisfies N_S − p·N = 0, so what the noise did to
Y_S − p·Y is Σ_S e − p·Σ e, of variance σ²(k − 2kp + mp²): the values of p for which Y_S − p·Y lies within q standard deviations
are an interval between the roots of a quadratic (Fieller's). With q for one set of values this is an error bar; with q for the
largest deviation over all sets that could have been named it holds for the one that was, however it was chosen.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ...mechanisms import NoiseLaw
from ...release.explanation import checked_level

MOST_NAMED = 3
"""Values without an order that a sentence names at most."""
MOST_BLOCKS = 64
"""Stretches of ordered values start and end at so many places at most: the fewer there are, the less noise is allowed for."""
DRAWS = 4000


@dataclass(frozen=True)
class Noisy:
    """Noisy counts of the values of an attribute, with the laws of the noise whose difference or sum they carry."""

    counts: np.ndarray
    laws: tuple[NoiseLaw, ...]

    @property
    def std(self) -> float:
        return math.sqrt(sum(law.std**2 for law in self.laws))

    @property
    def total(self) -> float:
        return float(self.counts.sum())

    def total_half_width(self, level: float = 0.95) -> float:
        """The noise of the total."""
        return _factor(self.laws, checked_level(level)) * self.std * math.sqrt(len(self.counts))

    def each(self, level: float) -> tuple[np.ndarray, np.ndarray]:
        """(lower, upper) of the share of every value, each with probability `level`."""
        return self.shares(self.counts, np.ones(len(self.counts)), _factor(self.laws, checked_level(level)))

    def shares(self, counted: np.ndarray, values: np.ndarray, factor: float) -> tuple[np.ndarray, np.ndarray]:
        """(lower, upper) of the share that so many values have together, from their noisy count; `factor` is q above."""
        allowed, total = (factor * self.std) ** 2, self.total
        a = total**2 - allowed * len(self.counts)
        if total <= 0 or a <= 0:  # the total may be nobody
            return np.zeros(len(counted)), np.ones(len(counted))
        b, c = counted * total - allowed * values, counted**2 - allowed * values
        root = np.sqrt(np.maximum(b**2 - a * c, 0.0))
        return np.clip((b - root) / a, 0.0, 1.0), np.clip((b + root) / a, 0.0, 1.0)


@dataclass(frozen=True)
class Finding:
    """The values that tell a cluster from elsewhere best. All ranges together hold with the probability asked for, although the
    noise had a part in which values are named."""

    values: np.ndarray
    """Positions of the values."""
    inside: tuple[float, float, float]
    """The share of the cluster that has one of them: estimate, lower, upper."""
    elsewhere: tuple[float, float, float]
    """The share of everybody else."""

    @property
    def told(self) -> bool:
        """Whether the noise cannot be all there is to the difference."""
        return self.inside[1] > self.elsewhere[2]


def best_finding(inside: Noisy, elsewhere: Noisy, gain: np.ndarray, ordered: bool, level: float = 0.95) -> Finding:
    """The stretch of values, or the few values, with the largest difference that is certain; `gain` are estimated differences."""
    cells, each = len(gain), (1 + checked_level(level)) / 2
    sets = _stretches(cells) if ordered else _leading(gain)
    member = np.array([np.isin(np.arange(cells), chosen) for chosen in sets], dtype=float)
    size = member.sum(axis=1)
    ranges = [
        noisy.shares(member @ noisy.counts, size, _simultaneous(noisy.laws, cells, ordered, each))
        for noisy in (inside, elsewhere)
    ]
    (low, high), (rest_low, rest_high) = ranges
    # Where nothing is certain, what looks largest.
    sure, seen = low - rest_high, member @ gain
    best = int(np.argmax(np.where(sure > 0, sure + 1, -1 if (sure > 0).any() else seen)))
    counted = [_estimate(noisy, member[best]) for noisy in (inside, elsewhere)]
    return Finding(
        np.flatnonzero(member[best]),
        (float(np.clip(counted[0], low[best], high[best])), float(low[best]), float(high[best])),
        (float(np.clip(counted[1], rest_low[best], rest_high[best])), float(rest_low[best]), float(rest_high[best])),
    )


def told_from(cluster: float, rest: float, cells: int, laws: tuple[NoiseLaw, NoiseLaw], level: float = 0.95) -> float:
    """The difference of two shares around a half that sentences begin to tell, between so many people and so many elsewhere."""
    each, needed = (1 + level) / 2, 0.0
    for people, own in ((cluster, laws[:1]), (rest, laws)):
        std = math.sqrt(sum(law.std**2 for law in own))
        half = _simultaneous(own, cells, False, each) * std * math.sqrt(cells) / 2
        needed += half / max(people, 1.0)
    return needed


def _estimate(noisy: Noisy, member: np.ndarray) -> float:
    return float(member @ noisy.counts) / noisy.total if noisy.total > 0 else 0.5


def _stretches(cells: int) -> list[np.ndarray]:
    """Runs of neighbouring values, but not all of them."""
    runs = [np.arange(a, b) for a, b in itertools.combinations(_ends(cells), 2) if b - a < cells]
    return runs or [np.arange(cells)]


def _ends(cells: int) -> np.ndarray:
    """Where stretches start and end."""
    return np.unique(np.linspace(0, cells, min(cells, MOST_BLOCKS) + 1).astype(int))


def _leading(gain: np.ndarray) -> list[np.ndarray]:
    """The values with the largest gains, one to three, as long as each adds at least a fifth of what the first one does."""
    order = np.argsort(-gain, kind="stable")[: min(MOST_NAMED, max(len(gain) - 1, 1))]
    enough = [i for i in order if gain[i] > 0 and gain[i] >= gain[order[0]] / 5]
    return [order[: j + 1] for j in range(max(len(enough), 1))]


def _factor(laws: tuple[NoiseLaw, ...], level: float) -> float:
    """Standard deviations that hold the noise of a weighted sum of counts: the heaviest tails are those of a single count."""
    tails = [law.half_width(level) / law.std for law in laws if law.std > 0]
    return max([NoiseLaw("gaussian", 1.0, 1).half_width(level), *tails])


@functools.lru_cache(maxsize=512)
def _simultaneous(laws: tuple[NoiseLaw, ...], cells: int, ordered: bool, level: float) -> float:
    """Standard deviations that hold the noise of the shares of all sets of values that a sentence may name, at once."""
    std = math.sqrt(sum(law.std**2 for law in laws))
    if std == 0:
        return 0.0
    draws = DRAWS if cells <= 1000 else 1000
    noise = np.sum([law.some(cells, draws, seed) for seed, law in enumerate(laws)], axis=0) / std
    whole = noise.sum(axis=1)
    worst = np.zeros(draws)
    for k, sums in _stretch_sums(noise) if ordered else _extreme_sums(noise):
        for p in (0.0, 0.25, 0.5, 0.75, 1.0):
            spread = math.sqrt(k - 2 * k * p + cells * p * p)
            if spread > 0:
                np.maximum(worst, np.abs(sums - p * whole[:, None]).max(axis=1) / spread, out=worst)
    return float(np.quantile(worst, level))


def _stretch_sums(noise: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """By length, the noise of all stretches of values."""
    cells = noise.shape[1]
    ends = _ends(cells)
    before = np.concatenate([np.zeros((len(noise), 1)), np.cumsum(noise, axis=1)], axis=1)[:, ends]
    first, last = np.triu_indices(len(ends), 1)
    length = ends[last] - ends[first]
    for k in np.unique(length):
        if k < cells or cells == 1:
            some = length == k
            yield int(k), before[:, last[some]] - before[:, first[some]]


def _extreme_sums(noise: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """By number, the smallest and the largest noise of so many values together."""
    cells, ranked = noise.shape[1], np.sort(noise, axis=1)
    for k in range(1, min(MOST_NAMED, max(cells - 1, 1)) + 1):
        yield k, np.stack([ranked[:, :k].sum(axis=1), ranked[:, -k:].sum(axis=1)], axis=1)
