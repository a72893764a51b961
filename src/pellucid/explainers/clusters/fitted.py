"""A grid whose cells are fitted to released histograms of each feature: where centres start.

Cells of equal size waste themselves on ranges that nobody is in: of a skewed feature all people sit in the first one. So each
feature gets a noisy histogram of its own first; from these, which are public then, every feature is cut where that reduces
squared distances most, into as many parts as it deserves within a public number of cells. All in here but the maps over records
sees public and released numbers only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...public.rows import Rows
from ...public.schema import Number
from ...query import Sum
from ...query.bounds import CrossCells
from ...release.answer import Answer
from .centres import Space

MOST_PARTS = 10
"""Parts a feature is cut into at most."""
EQUAL = 120
"""Intervals of a number that no histogram was released of: divisible by most numbers of parts."""
CLEAR = 2.0
"""A half of a stretch of values is empty if it counted fewer standard deviations of its noise than this."""


@dataclass(frozen=True)
class Parts:
    """One way to cut a feature: the part of each of its intervals or values, and where the people of a part are."""

    of: np.ndarray
    middles: np.ndarray
    """Parts × coordinates of the feature."""
    loss: float
    """The mean squared distance from the middles, as far as the histogram tells."""

    def __len__(self) -> int:
        return len(self.middles)


@dataclass(frozen=True)
class Marginals:
    """Equal intervals of every number and the values of every category: what is counted first."""

    space: Space
    intervals: int

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(self.intervals if isinstance(f, Number) else f.levels for f in self.space.features)

    def query(self) -> Sum:
        return Sum(self, CrossCells(1, self.sizes), columns=self.space.names)

    def __call__(self, rows: Rows) -> tuple[np.ndarray, list[np.ndarray]]:
        return np.zeros(len(rows), dtype=np.intp), self.places(rows)

    def places(self, rows: Rows) -> list[np.ndarray]:
        """Per feature, the interval or value of every record."""
        table = self.space.records(rows.columns)
        for j, feature in enumerate(self.space.features):
            if isinstance(feature, Number):
                table[:, j] = np.minimum(table[:, j] * self.intervals, self.intervals - 1)
        return list(table.T.astype(np.intp))

    def shares(self, answer: Answer) -> list[np.ndarray]:
        """Histograms of the features from their noisy counts."""
        counts = np.split(answer.numbers, np.cumsum(self.sizes)[:-1])
        return [
            cleared(c, answer.noise.std) if isinstance(f, Number) else _values(c, answer.noise.std)
            for c, f in zip(counts, self.space.features)
        ]

    def equal(self) -> list[np.ndarray]:
        """What is known where nothing was released."""
        return [np.full(size, 1 / size) for size in self.sizes]


@dataclass(frozen=True)
class FittedGrid:
    """Cells over the whole space: every combination of the parts of the features."""

    marginals: Marginals
    parts: tuple[Parts, ...]

    @classmethod
    def of(cls, marginals: Marginals, shares: Sequence[np.ndarray], cells: int, known: bool) -> FittedGrid:
        """At most so many cells; part after part goes to the feature in which it reduces distances most."""
        ways = [
            cuts_of(share, marginals.intervals) if isinstance(f, Number) else groups_of(share, w, known)
            for share, f, w in zip(shares, marginals.space.features, marginals.space.widths)
        ]
        taken = [0] * len(ways)
        while True:
            size = math.prod(len(way[t]) for way, t in zip(ways, taken))
            gains = [
                ((way[t].loss - more.loss) / math.log(len(more) / len(way[t])), -j, -next_)
                for j, (way, t) in enumerate(zip(ways, taken))
                for next_, more in enumerate(way[t + 1 : t + 3], t + 1)
                if size // len(way[t]) * len(more) <= cells and way[t].loss > more.loss
            ]
            if not gains:
                return cls(marginals, tuple(way[t] for way, t in zip(ways, taken)))
            _, j, next_ = max(gains)
            taken[-j] = -next_

    @property
    def bins(self) -> tuple[int, ...]:
        return tuple(map(len, self.parts))

    @property
    def cells(self) -> int:
        return math.prod(self.bins)

    def __call__(self, rows: Rows) -> tuple[np.ndarray, np.ndarray, None]:
        """Per record: its cell."""
        places = tuple(parts.of[place] for parts, place in zip(self.parts, self.marginals.places(rows)))
        cell = np.ravel_multi_index(places, self.bins)[:, None]
        return cell, np.ones(cell.shape), None

    def points(self) -> np.ndarray:
        """Where the people of each cell are looked for."""
        places = np.unravel_index(np.arange(self.cells), self.bins)
        return np.hstack([parts.middles[place] for parts, place in zip(self.parts, places)])


def cleared(counts: np.ndarray, std: float) -> np.ndarray:
    """Shares of intervals from noisy counts.

    A stretch is halved as long as one half stands out of the noise, and a half that does not, beside one that does, is taken for
    empty: a little noise far from everybody would weigh most in squared distances.
    """
    shares = np.zeros(len(counts))
    waiting = [(0, len(counts), 1.0)]
    while waiting:
        first, last, mass = waiting.pop()
        middle = (first + last) // 2
        halves = ((first, middle), (middle, last))
        seen = [max(counts[a:b].sum(), 0.0) * (counts[a:b].sum() > CLEAR * std * math.sqrt(max(b - a, 1))) for a, b in halves]
        if last - first == 1 or not sum(seen):
            shares[first:last] = mass / (last - first)
        else:
            waiting += [(a, b, mass * part / sum(seen)) for (a, b), part in zip(halves, seen) if part]
    return shares


def _values(counts: np.ndarray, std: float) -> np.ndarray:
    kept = np.where(counts > std, counts, 0.0)
    return kept / kept.sum() if kept.sum() > 0 else np.full(len(counts), 1 / len(counts))


def cuts_of(share: np.ndarray, intervals: int) -> list[Parts]:
    """The best cuts of a number into 1, 2, … parts, by dynamic programming over its intervals."""
    middle = (np.arange(intervals) + 0.5) / intervals
    mass, first, second = (np.concatenate([[0.0], np.cumsum(share * middle**power)]) for power in (0, 1, 2))
    a, b = np.ogrid[: intervals + 1, : intervals + 1]
    inside = np.maximum(mass[b] - mass[a], 0.0)
    around = (second[b] - second[a]) - (first[b] - first[a]) ** 2 / np.where(inside > 0, inside, 1.0)
    loss = np.where(b > a, np.maximum(around, 0.0), np.inf)
    best, back, ways = loss[0], [], []
    for count in range(1, min(MOST_PARTS, intervals) + 1):
        if count > 1:
            through = best[:, None] + loss
            back.append(np.argmin(through, axis=0))
            best = np.min(through, axis=0)
        ends = [intervals]
        for step in reversed(back):
            ends.append(int(step[ends[-1]]))
        edges = [0, *ends[::-1]] if count > 1 else [0, intervals]
        of = np.repeat(np.arange(count), np.diff(edges))
        ways.append(Parts(of, _means(share, middle[:, None], of, count), float(best[intervals])))
    return ways


def groups_of(share: np.ndarray, width: int, known: bool) -> list[Parts]:
    """Categories: the most frequent values each alone and all others together; all alone or together where nothing is known."""
    levels = len(share)
    points = np.arange(levels)[:, None].astype(float) if width == 1 else np.eye(levels)
    order, ways = np.argsort(-share, kind="stable"), []
    counts = range(1, min(MOST_PARTS, levels) + 1) if known else sorted({1, levels} if levels <= MOST_PARTS else {1})
    for count in counts:
        of = np.full(levels, count - 1)
        of[order[: count - 1]] = np.arange(count - 1)
        middles = _means(share, points, of, count)
        away = ((points - middles[of]) ** 2).sum(axis=1) / (1 if width == 1 else 2)
        ways.append(Parts(of, middles, float(share @ away)))
    return ways


def _means(share: np.ndarray, points: np.ndarray, of: np.ndarray, count: int) -> np.ndarray:
    """The mean of each part; of one that nobody is in, its middle."""
    mass = np.bincount(of, share, count)
    weight = np.where((mass > 0)[of], share, 1.0)
    sums = np.stack([np.bincount(of, weight * column, count) for column in points.T], axis=1)
    return sums / np.bincount(of, weight, count)[:, None]


def threshold(scale: float, cells: int, people: float, stray: float) -> float:
    """The count from which on a cell is taken for inhabited: empty ones that pass it hold about a part `stray` of everybody."""
    least = scale
    while cells / 2 * math.exp(-least / scale) * (least + scale) > stray * people and least < 12 * scale:
        least += 0.1 * scale
    return least
