"""What is counted to explain clusters: all attributes by cluster, then the chosen ones, in their clusters and over everybody."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from ...public.clustering import Clustering
from ...public.grids import Bins
from ...public.rows import Rows
from ...public.schema import Schema
from ...query import Joint, Sum
from ...query.bounds import Cells, CrossCells
from ...release.answer import Answer

Attribute = tuple[str, Bins]
"""A column and its public cells."""


@dataclass(frozen=True)
class ByCluster:
    """Per record: its cluster, and its cell of every attribute."""

    groups: Clustering
    bins: tuple[Attribute, ...]

    def __call__(self, rows: Rows) -> tuple[np.ndarray, list[np.ndarray]]:
        return self.groups.ready(rows.schema).labels(rows), [bins.index(rows[name]) for name, bins in self.bins]


@dataclass(frozen=True)
class InOwnCluster:
    """Per record: its cell in the histogram of the attribute that was chosen for its cluster."""

    groups: Clustering
    bins: tuple[Attribute, ...]
    starts: tuple[int, ...]

    def __call__(self, rows: Rows) -> tuple[np.ndarray, None, None]:
        label = self.groups.ready(rows.schema).labels(rows)
        # One more entry for records of no cluster, whose label is -1.
        start = np.array([*self.starts, -1])[label]
        cell = np.full(len(label), -1)
        for name, bins in dict(self.bins).items():
            mine = np.array([*(own == name for own, _ in self.bins), False])[label]
            found = bins.index(rows[name])
            np.copyto(cell, found + start, where=mine & (found >= 0))
        return cell[:, None], None, None


@dataclass(frozen=True)
class Everybody:
    """Per record: its cell of every chosen attribute, whatever its cluster."""

    bins: tuple[Attribute, ...]

    def __call__(self, rows: Rows) -> tuple[np.ndarray, list[np.ndarray]]:
        return np.zeros(len(rows), dtype=np.intp), [bins.index(rows[name]) for name, bins in self.bins]


@dataclass(frozen=True)
class Layout:
    """The public cells of every attribute, and the sums over them. Attributes are chosen by their positions here."""

    groups: Clustering
    schema: Schema
    attributes: tuple[Attribute, ...]

    @property
    def bound(self) -> CrossCells:
        """One record is in one cluster and has one value of every attribute."""
        return CrossCells(len(self.groups.clusters), tuple(bins.cells for _, bins in self.attributes))

    def counts(self) -> Sum:
        """Cluster × value counts of every attribute: what is chosen from."""
        return Sum(ByCluster(self.groups, self.attributes), self.bound, columns=self._columns(self.attributes, clusters=True))

    def inside(self, chosen: Sequence[Sequence[int]]) -> Joint:
        """Histograms of each cluster's own attributes: a sum for their first ones, the clusters side by side, then the next."""
        sums = []
        for slot in self._slots(chosen):
            starts = np.cumsum([0, *(bins.cells for _, bins in slot)]).tolist()
            map_ = InOwnCluster(self.groups, slot, tuple(starts[:-1]))
            sums.append(Sum(map_, Cells(starts[-1]), columns=self._columns(slot, clusters=True)))
        return Joint(sums)

    def histograms_inside(self, chosen: Sequence[Sequence[int]], answer: Answer) -> list[tuple[np.ndarray, ...]]:
        """The answer to `inside`, divided: the histograms of each cluster, in the order of its attributes."""
        slots = [_divided(answer.part(j), slot) for j, slot in enumerate(self._slots(chosen))]
        return list(zip(*slots))

    def whole(self, used: Sequence[int]) -> Sum:
        """Histograms of some attributes over everybody."""
        some = tuple(self.attributes[a] for a in used)
        return Sum(Everybody(some), CrossCells(1, tuple(bins.cells for _, bins in some)), columns=self._columns(some))

    def histograms_whole(self, used: Sequence[int], answer: Answer) -> dict[int, np.ndarray]:
        """The answer to `whole`, divided: the histogram of each attribute."""
        return dict(zip(used, _divided(answer, [self.attributes[a] for a in used])))

    def _slots(self, chosen: Sequence[Sequence[int]]) -> list[tuple[Attribute, ...]]:
        """The first attributes of all clusters, then the second ones, and so on."""
        return [tuple(self.attributes[a] for a in slot) for slot in zip(*chosen)]

    def _columns(self, attributes: Iterable[Attribute], clusters: bool = False) -> tuple[str, ...]:
        used = {name for name, _ in attributes} | set((self.groups.features or tuple(self.schema)) if clusters else ())
        return tuple(name for name in self.schema if name in used)


def _divided(answer: Answer, attributes: Sequence[Attribute]) -> list[np.ndarray]:
    """Histograms that lie side by side, one by one."""
    return np.split(answer.numbers, np.cumsum([bins.cells for _, bins in attributes])[:-1])
