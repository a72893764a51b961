"""What is counted to explain clusters: all attributes by cluster, then the chosen ones, in their clusters and over everybody.

Of an attribute that leaves records out, these are counted in a cell of their own, after the others: so all attributes agree on
how many records a cluster has, as the theorems of the scores ask for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...public.clustering import Clustering
from ...public.grids import Bins
from ...public.rows import Rows
from ...public.schema import Schema
from ...query import Joint, Sum
from ...query.bound import Bound
from ...query.bounds import Cells, CrossCells
from ...release.answer import Answer

Attribute = tuple[str, Bins]
"""A column and its public cells."""


def all_cells(bins: Bins) -> int:
    """The cells of an attribute, with the one for records without a value."""
    return bins.cells + bins.feature.excludes


def cell_of(attribute: Attribute, rows: Rows) -> np.ndarray:
    """The cell of every record."""
    name, bins = attribute
    found = bins.index(rows[name])
    return np.where(rows.absent(name), bins.cells, found) if bins.feature.excludes else found


@dataclass(frozen=True)
class ByCluster:
    """Per record: its cluster, and its cell of every attribute."""

    groups: Clustering
    bins: tuple[Attribute, ...]

    def __call__(self, rows: Rows) -> tuple[np.ndarray, list[np.ndarray]]:
        return self.groups.ready(rows.schema, rows.asking).labels(rows), [cell_of(attribute, rows) for attribute in self.bins]


@dataclass(frozen=True)
class InOwnCluster:
    """Per record: its cell in the histogram of the attribute that was chosen for its cluster."""

    groups: Clustering
    bins: tuple[Attribute, ...]
    starts: tuple[int, ...]

    def __call__(self, rows: Rows) -> tuple[np.ndarray, None, None]:
        label = self.groups.ready(rows.schema, rows.asking).labels(rows)
        # One more entry for records of no cluster, whose label is -1.
        start = np.array([*self.starts, -1])[label]
        cell = np.full(len(label), -1)
        for name, bins in dict(self.bins).items():
            mine = np.array([*(own == name for own, _ in self.bins), False])[label]
            found = cell_of((name, bins), rows)
            np.copyto(cell, found + start, where=mine & (found >= 0))
        return cell[:, None], None, None


@dataclass(frozen=True)
class Everybody:
    """Per record: its cell of every chosen attribute, whatever its cluster."""

    bins: tuple[Attribute, ...]

    def __call__(self, rows: Rows) -> tuple[np.ndarray, list[np.ndarray]]:
        return np.zeros(len(rows), dtype=np.intp), [cell_of(attribute, rows) for attribute in self.bins]


@dataclass(frozen=True)
class Layout:
    """The public cells of every attribute, and the sums over them. Attributes are chosen by their positions here."""

    groups: Clustering
    schema: Schema
    attributes: tuple[Attribute, ...]

    @property
    def bound(self) -> CrossCells:
        """One record is in one cluster and has one value of every attribute."""
        return CrossCells(len(self.groups.clusters), tuple(all_cells(bins) for _, bins in self.attributes))

    def counts(self) -> Sum:
        """Cluster × value counts of every attribute: what is chosen from."""
        return self._sum(ByCluster(self.groups, self.attributes), self.bound, self.attributes, clusters=True)

    def inside(self, chosen: Sequence[Sequence[int]]) -> Joint:
        """Histograms of each cluster's own attributes: a sum for their first ones, the clusters side by side, then the next."""
        sums = []
        for slot in self._slots(chosen):
            starts = np.cumsum([0, *(all_cells(bins) for _, bins in slot)]).tolist()
            map_ = InOwnCluster(self.groups, slot, tuple(starts[:-1]))
            sums.append(self._sum(map_, Cells(starts[-1]), slot, clusters=True))
        return Joint(sums)

    def histograms_inside(self, chosen: Sequence[Sequence[int]], answer: Answer) -> list[tuple[np.ndarray, ...]]:
        """The answer to `inside`, divided: the histograms of each cluster, in the order of its attributes."""
        slots = [_divided(answer.part(j), slot) for j, slot in enumerate(self._slots(chosen))]
        return list(zip(*slots))

    def whole(self, used: Sequence[int]) -> Sum:
        """Histograms of some attributes over everybody."""
        some = tuple(self.attributes[a] for a in used)
        return self._sum(Everybody(some), CrossCells(1, tuple(all_cells(bins) for _, bins in some)), some)

    def histograms_whole(self, used: Sequence[int], answer: Answer) -> dict[int, np.ndarray]:
        """The answer to `whole`, divided: the histogram of each attribute."""
        return dict(zip(used, _divided(answer, [self.attributes[a] for a in used])))

    def _slots(self, chosen: Sequence[Sequence[int]]) -> list[tuple[Attribute, ...]]:
        """The first attributes of all clusters, then the second ones, and so on."""
        return [tuple(self.attributes[a] for a in slot) for slot in zip(*chosen)]

    def _sum(self, map_: Callable[..., Any], bound: Bound, attributes: Sequence[Attribute], clusters: bool = False) -> Sum:
        """A sum that reads these attributes, and what the clustering is given."""
        used = {name for name, _ in attributes} | set((self.groups.features or tuple(self.schema)) if clusters else ())
        left_out = {name for name, bins in attributes if bins.feature.excludes}
        columns = tuple(name for name in self.schema if name in used)
        return Sum(map_, bound, columns=columns, conditions=tuple(name for name in columns if name in left_out))


def _divided(answer: Answer, attributes: Sequence[Attribute]) -> list[np.ndarray]:
    """Histograms that lie side by side, one by one, each with the cell of records without a value at its end."""
    return np.split(answer.numbers, np.cumsum([all_cells(bins) for _, bins in attributes])[:-1])
