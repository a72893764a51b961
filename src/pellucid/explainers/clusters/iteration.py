"""One iteration of private k-means: what is asked for given centres, and the means that the noisy totals give."""

from __future__ import annotations

import weakref
from dataclasses import dataclass

import numpy as np

from ...mechanisms import NoiseLaw
from ...public.rows import Rows
from ...query import Joint, Sum
from ...query.bounds import Cells
from ...release.answer import Answer
from ...release.plan import Public
from .centres import Space

HALF = 0.5
"""The middle of a coordinate: values are measured from it, so that a person adds at most half a range to a sum."""


@dataclass(frozen=True, eq=False)
class InCluster:
    """Per record: the nearest centre, and beside it the value of one feature, its category, or nothing."""

    space: Space
    centres: np.ndarray
    feature: int | None

    def __call__(self, rows: Rows) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        records, nearest = _placed(rows, self.space, self.centres)
        cell = nearest[:, None]
        whole = np.ones(cell.shape)
        if self.feature is None:
            return cell, whole, None
        own = records[:, self.feature, None]
        width = self.space.widths[self.feature]
        return (cell, whole, own - HALF) if width == 1 else (cell * width + own.astype(np.intp), whole, None)


_PLACED: weakref.WeakKeyDictionary[Rows, tuple[Space, np.ndarray, np.ndarray, np.ndarray]] = weakref.WeakKeyDictionary()
"""Of a batch that the features of an iteration share, as long as there is that batch: its records and their nearest centres."""


def _placed(rows: Rows, space: Space, centres: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The records of a batch in coordinates, and the nearest centre of each."""
    known = _PLACED.get(rows)
    if known is None or known[0] is not space or known[1] is not centres:
        records = space.records(rows.columns)
        known = _PLACED[rows] = (space, centres, records, space.nearest(records, centres))
    return known[2], known[3]


@dataclass(frozen=True)
class Totals:
    """Noisy sums per cluster and coordinate, noisy counts, and what the noise of each is worth in units of the law."""

    sums: np.ndarray
    counts: np.ndarray
    spread: np.ndarray
    count_spread: float
    origin: np.ndarray
    law: NoiseLaw

    @property
    def floor(self) -> float:
        """A cluster that counted less than one standard deviation of the noise may well be empty."""
        return max(1.0, self.count_spread * self.law.std)

    def means(self, before: np.ndarray) -> np.ndarray:
        """The new centres; a cluster that may be empty stays where it was."""
        found = self.counts >= self.floor
        people = np.where(found, self.counts, 1.0)[:, None]
        return np.where(found[:, None], np.clip(self.origin + self.sums / people, 0.0, 1.0), before)

    def shrunk(self, before: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """The new centres, each only as far from where it was as the noise of its mean lets one believe.

        The squared step from the old place to the noisy mean is the true one plus the variance of the noise, so the mean gets the
        part of it that is not noise (James and Stein's rule), and nothing moves by noise alone. Where most people are in clusters
        that may be empty, one of these takes the mean of everybody: whatever the others do then, one cluster is not better.
        """
        found = self.counts >= self.floor
        centres = np.where(found[:, None], self._towards(before, self.sums, self.counts, 1, lengths), before)
        if self.counts[found].sum() <= self.counts.sum() / 2 or not found.any():
            lost, sums, people = int(np.argmin(found)), self.sums.sum(axis=0)[None], self.counts.sum(keepdims=True)
            if people[0] >= self.floor * len(found) ** 0.5:
                centres[lost] = self._towards(before[lost][None], sums, people, len(found), lengths)[0]
        return centres

    def _towards(self, before: np.ndarray, sums: np.ndarray, counts: np.ndarray, parts: int, lengths: np.ndarray) -> np.ndarray:
        """From centres towards the means of sums that hold so many parts of noise each."""
        people = np.maximum(counts, 1.0)[:, None]
        mean = sums / people
        variance = parts * self.law.std**2 * (self.spread**2 + (self.count_spread * mean) ** 2) / people**2
        step = self.origin + mean - before
        noise, squared = variance @ lengths**2, step**2 @ lengths**2
        believed = np.clip(1 - noise / np.where(squared > 0, squared, 1.0), 0.0, 1.0)
        return np.clip(before + believed[:, None] * step, 0.0, 1.0)


@dataclass(frozen=True)
class Iteration:
    """One draw: sums of each feature per cluster, and the counts beside the first sum of values."""

    space: Space
    k: int
    count_weight: float
    """How much a count weighs beside a sum of values."""

    @property
    def parts(self) -> tuple[tuple[int | None, Cells], ...]:
        """The features one after the other, each with the set that it is summed in; last the counts, if no feature has them."""
        parts: list[tuple[int | None, Cells]] = []
        weight = self.count_weight
        for j, width in enumerate(self.space.widths):
            if width == 1:
                parts.append((j, Cells(self.k, value=HALF, count_weight=weight)))
                weight = 0.0
            else:
                parts.append((j, Cells(self.k * width)))
        return (*parts, (None, Cells(self.k, count_weight=weight))) if weight else tuple(parts)

    def query(self, centres: np.ndarray) -> Joint:
        names = self.space.names
        return Joint([Sum(InCluster(self.space, centres, j), bound, columns=names) for j, bound in self.parts])

    def totals(self, answer: Answer) -> Totals:
        sums, spread, origin = [], [], []
        counts, count_spread = np.empty(0), 0.0
        for i, (feature, bound) in enumerate(self.parts):
            values, counted = answer.part(i).cells()
            if values is not None:
                sums.append(values[:, None])
                spread.append(np.array([HALF]))
                origin.append(np.array([HALF]))
            if counted is not None and (values is not None or feature is None):
                counts, count_spread = counted, bound.one / bound.counts
            elif counted is not None and feature is not None:
                width = self.space.widths[feature]
                sums.append(counted.reshape(self.k, width))
                spread.append(np.ones(width))
                origin.append(np.zeros(width))
        spreads, origins = np.concatenate(spread), np.concatenate(origin)
        return Totals(np.hstack(sums), counts, spreads, count_spread, origins, answer.noise)


def count_weight(public: Public, features: int) -> float:
    """How much the counts weigh beside the sums, for the smallest error of a centre.

    With F features and weight w the squared error of a coordinate, its centre uniform in the range, is proportional to
    (sensitivity)²·(1/4 + 1/(12w²)). The sensitivity is F + w in L1; in L2, squared, F + w² when a person is added and
    4F − 2 + 2w² when one is replaced, where w = 1 is free. Each has its minimum in closed form.
    """
    if public.spend.currency == "epsilon":
        best = (features / 3) ** (1 / 3)
    elif public.relation == "add-remove":
        best = (features / 3) ** (1 / 4)
    else:
        best = max(1.0, (2 * features - 1) / 3) ** (1 / 4)
    return min(best, 4.0)
