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
from ...public.figure import plain
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

    def lengths(self) -> np.ndarray:
        """What a step of one along each coordinate counts in a distance: two different values of a category are 1 apart."""
        return np.concatenate([np.full(w, 1.0 if w == 1 else 0.5**0.5) for w in self.widths])

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
        """(lower, upper), shaped as `.centres`: each holds, with probability `level`, the mean of the people who were nearest to
        the centre before it moved for the last time. A cluster lost in the noise has the whole range.

        The mean μ of exact totals has S − μ·N = 0: all values of μ are inside for which the noisy totals miss that by no more
        than the noise does (Fieller's interval). Coordinates are measured from `origin`.
        """
        level = checked_level(level)
        tails = [law.half_width(level) / law.std for law in (self.law, NoiseLaw("gaussian", 1.0, 1)) if law.std > 0]
        factor = max(tails)
        sums, people = self.sums, self.counts[:, None]
        of_sums, of_counts = (factor * self.law.std * self.spread) ** 2, (factor * self.law.std * self.count_spread) ** 2
        a = people**2 - of_counts
        root = np.sqrt(np.maximum((sums * people) ** 2 - a * (sums**2 - of_sums), 0.0))
        known = (a > 0) & (self.counts >= self.floor)[:, None]
        low, high = (self.origin + (sums * people + side * root) / np.where(a > 0, a, 1.0) for side in (-1, 1))
        ends = np.where(known, low, 0.0), np.where(known, high, 1.0)
        lowest, width = self.space.scales()
        lower, upper = (lowest + width * np.clip(end, 0.0, 1.0) for end in ends)
        return np.minimum(lower, self.centres), np.maximum(upper, self.centres)

    @property
    def verdict(self) -> str:
        """What can be told of the centres and what cannot, from the released numbers."""
        half = self.count_spread * self.law.half_width(0.95)
        lost = [c for c, people in enumerate(self.counts) if people < max(half, self.floor)]
        there = f"{len(self.counts) - len(lost)} of {len(self.counts)}"
        said = f"{there} clusters stand out of the noise of their counts (±{half:,.0f} people)"
        if lost:
            few = ", ".join(f"{c} (about {max(self.counts[c], 0.0):,.0f} people)" for c in lost[:6])
            said += f"; not told from empty ones: {few}{f' and {len(lost) - 6} more' if len(lost) > 6 else ''}"
        return f"{said}. {self._apart()}"

    @property
    def headline(self) -> str:
        """Which cluster has the most people, where that is sure."""
        half = self.count_spread * self.law.half_width(1 - 0.05 / len(self.counts))
        order = np.argsort(-self.counts)
        if len(order) > 1 and self.counts[order[0]] - self.counts[order[1]] > 2 * half:
            about = plain(float(self.counts[order[0]]), 2)
            return f"Of {len(order)} clusters, {order[0]} has the most people: about {about}"
        return f"{len(order)} clusters; which of them has the most people is not sure"

    def _apart(self) -> str:
        """Whether the clusters are better than one, as far as noise lets one see: by squared distances between their means."""
        people, lengths = np.maximum(self.counts, 0.0), self.space.lengths()
        found = self.counts >= self.floor
        if found.sum() < 2:
            return "Nothing says that these centres are better than one cluster of everybody."
        weight = np.where(found, people, 0.0)
        means = self.sums / np.maximum(people, 1.0)[:, None]
        middle = weight @ means / weight.sum()
        noise = self.law.std**2 * (self.spread**2 + (self.count_spread * means) ** 2) @ lengths**2 / np.maximum(people, 1.0) ** 2
        between, by_noise = float(weight @ ((means - middle) ** 2 @ lengths**2)), float(weight @ noise)
        if between < 2 * by_noise:
            return "Their means lie hardly further apart than noise alone would put them: take them for one cluster."
        return f"Noise makes up about {100 * by_noise / between:.2g} % of the squared distances between their means."

    @property
    def notes(self) -> tuple[str, ...]:
        return (*super().notes, self.verdict)

    def to_frame(self) -> pd.DataFrame:
        """One line per cluster and coordinate."""
        clusters, columns = self.centres.shape
        lower, upper = (end.ravel() for end in self.interval())
        cluster, count = np.repeat(np.arange(clusters), columns), np.repeat(self.counts, columns)
        return frame(self.coordinates * clusters, self.centres.ravel(), lower, upper, cluster=cluster, count=count)

    def plot(self, ax: Any = None) -> Any:
        """Two coordinates as a map of the centres, sized by their counts; more as one line per cluster over the coordinates."""
        return plots.centres(self, ax)
