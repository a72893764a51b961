"""Centres released privately: the space they live in, and the clustering they make."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from ...errors import PlanError
from ...mechanisms import NoiseLaw
from ...public.black_box import PrivateTraining
from ...public.clustering import Clustering
from ...public.fingerprint import fingerprinted_as
from ...public.schema import Category, Feature, Number, Schema
from ...release.explanation import Explanation, checked_level, frame
from . import plots


@fingerprinted_as("pellucid.clustering", "Space")
@dataclass(frozen=True)
class Space:
    """Declared features as one space for distances, in which the range of every feature has length one.

    A number has one coordinate, its place in the declared range; so has a category of two values. A category of more values
    has one per value, the share of the records that have it, scaled so that two records with different values are 1 apart.
    A number that is missing sits in the middle of its range.

    >>> space = Space(("age", "blood"), (Number(0, 50), Category(["A", "B", "O"])))
    >>> space.coordinates
    ('age', 'blood = A', 'blood = B', 'blood = O')
    """

    names: tuple[str, ...]
    features: tuple[Feature, ...]

    @property
    def widths(self) -> tuple[int, ...]:
        """How many coordinates each feature has."""
        return tuple(1 if isinstance(f, Number) or f.levels == 2 else f.levels for f in self.features)

    @property
    def starts(self) -> tuple[int, ...]:
        """The first coordinate of each feature."""
        return tuple(int(v) for v in np.cumsum((0, *self.widths[:-1])))

    @property
    def coordinates(self) -> tuple[str, ...]:
        """The coordinates by name."""
        named: list[str] = []
        for name, feature in zip(self.names, self.features):
            if isinstance(feature, Number):
                named.append(name)
            else:
                named += [f"{name} = {v}" for v in (feature.values[1:] if feature.levels == 2 else feature.values)]
        return tuple(named)

    def scales(self) -> tuple[np.ndarray, np.ndarray]:
        """(lowest value, width of the range) of every coordinate, in the user's units."""
        both = [
            (f.lo, f.hi - f.lo) if isinstance(f, Number) else (0.0, 1.0)
            for f, w in zip(self.features, self.widths)
            for _ in range(w)
        ]
        return np.array([b[0] for b in both]), np.array([b[1] for b in both])

    def records(self, columns: Mapping[str, np.ndarray]) -> np.ndarray:
        """One row per record and one column per feature: numbers as places in [0, 1], categories as positions."""
        table = np.empty((len(columns[self.names[0]]), len(self.names)))
        for j, (name, feature) in enumerate(zip(self.names, self.features)):
            column = columns[name]
            if isinstance(feature, Number):
                column = np.where(np.isnan(column), 0.5, (column - feature.lo) / (feature.hi - feature.lo))
            table[:, j] = column
        return table

    def points(self, records: np.ndarray) -> np.ndarray:
        """Records as points, with a coordinate for every value of a category of more than two."""
        blocks = [
            records[:, j : j + 1] if width == 1 else (records[:, j : j + 1] == np.arange(width)).astype(float)
            for j, width in enumerate(self.widths)
        ]
        return np.hstack(blocks)

    def distances(self, records: np.ndarray, centres: np.ndarray) -> np.ndarray:
        """Squared distances of records from centres. One feature after the other, so that a row never depends on its batch."""
        squared = np.zeros((len(records), len(centres)))
        for j, (start, width) in enumerate(zip(self.starts, self.widths)):
            if width == 1:
                squared += (records[:, j, None] - centres[None, :, start]) ** 2
            else:
                shares = centres[:, start : start + width]
                by_value = ((1 + (shares**2).sum(axis=1))[:, None] - 2 * shares) / 2
                squared += by_value.T[records[:, j].astype(np.intp)]
        return squared

    def nearest(self, records: np.ndarray, centres: np.ndarray) -> np.ndarray:
        """The position of the nearest centre; the first of several at the same distance."""
        return np.argmin(self.distances(records, centres), axis=1)


@fingerprinted_as("pellucid.clustering", "NearestCentre")
@dataclass(frozen=True, eq=False)
class NearestCentre:
    """A predictor: the cluster of a record is the centre it is nearest to."""

    space: Space
    centres: np.ndarray

    @property
    def computed_here(self) -> bool:
        """Whether nothing but this file computes the labels: then the clustering was read, and not only asked."""
        plain = type(self.space) is Space and all(type(feature) in (Number, Category) for feature in self.space.features)
        return plain and type(self.centres) is np.ndarray and vars(self).keys() == {"space", "centres"}

    def __call__(self, frame: Any) -> np.ndarray:
        columns = {}
        for name, feature in zip(self.space.names, self.space.features):
            if isinstance(feature, Category):
                # By value: another schema may declare the same values in another order.
                place = {value: i for i, value in enumerate(feature.values)}
                columns[name] = np.array([place[value] for value in frame[name].tolist()], dtype=float)
            else:
                columns[name] = frame[name].to_numpy(dtype=float)
        return self.space.nearest(self.space.records(columns), self.centres)


@dataclass(frozen=True, eq=False, kw_only=True)
class Centres(Explanation):
    """Cluster centres: `.centres` (clusters × coordinates, in the user's units), noisy `.counts`, and their `.clustering`."""

    kind: ClassVar[str] = "centres"
    features: tuple[str, ...]
    """The features the centres are in."""
    declared: tuple[dict[str, Any], ...]
    """What the schema declares about them."""
    coordinates: tuple[str, ...]
    """The columns of `centres`: a number by its feature, a category of two values by the share of the second, any other by the
    share of each value."""
    centres: np.ndarray
    """Clusters × coordinates, in the user's units."""
    counts: np.ndarray
    """The noisy number of people nearest to each centre in the last iteration."""
    sums: np.ndarray
    """The noisy sums of their coordinates, as places in the declared ranges, measured from `origin`."""
    spread: np.ndarray
    """The noise of the sums, coordinate by coordinate, in units of `law`."""
    count_spread: float
    """The noise of the counts, in units of `law`."""
    origin: np.ndarray
    """From where each coordinate is measured in the sums."""
    floor: float
    """A cluster that counted less than this kept the place it was looked for at."""
    law: NoiseLaw
    """The noise of one released number, before its spread."""

    @property
    def space(self) -> Space:
        """The declared features the centres live in."""
        schema = Schema.from_dict({"features": dict(zip(self.features, self.declared))})
        return Space(self.features, tuple(schema.values()))

    @property
    def clustering(self) -> Clustering:
        """The clustering that puts a record to its nearest centre, trained with the privacy this release was certified with."""
        if self.certificate is None:
            raise PlanError("these centres have no certificate, so nothing is known about how they were found; release them.")
        given = self.certificate
        private = PrivateTraining(given.epsilon, given.delta, given.relation, given.conditions) if given.private else "this data"
        lowest, width = self.space.scales()
        return Clustering(
            NearestCentre(self.space, (self.centres - lowest) / width),
            clusters=range(len(self.centres)),
            features=self.features,
            trained_on=private,
            input="frame",
            name="nearest centre",
        )

    def interval(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """(lower, upper), shaped as `.centres`: each holds, about `level` of the time, the mean of the people who were nearest to
        the centre in the last iteration. A cluster lost in the noise has the whole range."""
        level = checked_level(level)
        lower, upper = np.zeros(self.centres.shape), np.ones(self.centres.shape)
        noise = self.law.pairs(10_000)
        for c in np.flatnonzero(self.counts >= self.floor):
            # What the totals may have been before the noise; a mean of less than one person says nothing.
            people = np.maximum(self.counts[c] - self.count_spread * noise[:, 1:], 1.0)
            means = self.origin + (self.sums[c] - self.spread * noise[:, :1]) / people
            lower[c], upper[c] = np.clip(np.quantile(means, [(1 - level) / 2, (1 + level) / 2], axis=0), 0.0, 1.0)
        lowest, width = self.space.scales()
        return np.minimum(lowest + width * lower, self.centres), np.maximum(lowest + width * upper, self.centres)

    def to_frame(self) -> pd.DataFrame:
        """One line per cluster and coordinate."""
        clusters, columns = self.centres.shape
        lower, upper = (end.ravel() for end in self.interval())
        cluster, count = np.repeat(np.arange(clusters), columns), np.repeat(self.counts, columns)
        return frame(self.coordinates * clusters, self.centres.ravel(), lower, upper, cluster=cluster, count=count)

    def plot(self, ax: Any = None) -> Any:
        """Two coordinates as a map of the centres, sized by their counts; more as one line per cluster over the coordinates."""
        return plots.centres(self, ax)
