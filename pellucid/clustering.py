"""Clusterings as functions on records: declared labels, the trial on public records, and centres released privately.

A clustering is a black box like a model, with labels in place of numbers, and the same rules hold: it is tried on public
records before anything is charged, it is called quietly, and a record on which it fails, or to which it gives a label that
was not declared, belongs to no cluster, alone and in silence. A *column* of labels computed from private data is not a
function on records: one person more could move the label of everybody else.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd
from joblib import parallel_config

from . import plots
from .errors import ModelError, PlanError, SchemaError
from .explanation import Explanation
from .mechanisms import NoiseLaw
from .model import (
    PROBES,
    BlackBox,
    Input,
    PrivateTraining,
    ReadyModel,
    _fingerprint,
    _forms,
    _NotOnePerRow,
    _Refused,
    _trials,
)
from .quiet import quiet
from .schema import Category, Columns, Feature, Number, Schema, did_you_mean

if TYPE_CHECKING:
    from .rows import Rows

MOST_CLUSTERS = 10_000


@dataclass(frozen=True, eq=False)
class Clustering(BlackBox):
    """A fitted estimator with predict(), or a plain callable on a DataFrame, that puts every record into a declared cluster.

    `clusters` are the labels it may give, as `range(5)` or a list of names. `trained_on` is required: "other data", "this
    data" or `PrivateTraining(eps, delta)`. `features` and `input` are as for a `Model`. Explainers see clusters by their
    position in the declared order.

    >>> ages = Clustering(lambda d: d["age"] // 50, clusters=range(2), features=["age"], trained_on="other data")
    >>> ages.ready(Schema({"age": Number(0, 99)})).labels({"age": np.array([30.0, 70.0])})
    array([0, 1])
    """

    clusters: tuple[Any, ...] = ()

    def __init__(
        self,
        predictor: Any,
        clusters: Sequence[Any] | None = None,
        features: Sequence[str] | None = None,
        trained_on: str | PrivateTraining | None = None,
        input: Input | None = None,
        name: str = "",
    ):
        _check_predictor(predictor)
        self._settle(predictor, features, trained_on, input, name, clusters=_declared_labels(clusters))

    @property
    def declared(self) -> list[Any]:
        return [repr(label) for label in self.clusters]

    @property
    def bound_text(self) -> str:
        """What is enforced about its answers, for the certificate."""
        return f"one of {len(self.clusters)} declared clusters; a record with any other label belongs to none"

    def _tried(self, schema: Schema) -> ReadyClustering:
        return _try_on_public_records(self, schema)


def _check_predictor(predictor: Any) -> None:
    if isinstance(predictor, type):
        raise ModelError(f"{predictor.__name__} is a class; give a fitted instance of it, or a callable.")
    if hasattr(predictor, "predict") or callable(predictor):
        return
    kind = type(predictor).__name__
    if hasattr(predictor, "labels_") or hasattr(predictor, "fit_predict"):
        raise ModelError(
            f"{kind} has labels for the records it was fitted on but no predict() for others, so it is no function on records. "
            "Fit a classifier to its labels and give that, or use a clustering with predict(), such as pel.PrivateKMeans."
        )
    if isinstance(predictor, str):
        raise ModelError(
            f"{predictor!r} is no clustering. If the clusters are the values of a column that says something about one record "
            f'alone, such as a region, give lambda d: d["{predictor}"].'
        )
    if hasattr(predictor, "__len__") or hasattr(predictor, "__array__"):
        raise ModelError(
            f"a column of labels ({kind}) is no function on records: labels computed from the data change for everybody when one "
            "person joins. Give the fitted estimator with predict(), or a callable that finds a record's label from the record."
        )
    raise ModelError(f"{kind} is neither an estimator with predict() nor a callable.")


def _declared_labels(clusters: Any) -> tuple[Any, ...]:
    if isinstance(clusters, str) or not isinstance(clusters, Sequence | np.ndarray | range):
        raise ModelError(f"clusters={clusters!r}: declare the labels in order, for example clusters=range(5) or ['low', 'high'].")
    if not 1 <= len(clusters) <= MOST_CLUSTERS:
        raise ModelError(f"clusters: {len(clusters)} labels are declared; give 1 to {MOST_CLUSTERS:,}.")
    listed = tuple(c.item() if isinstance(c, np.generic) else c for c in clusters)
    if not all(isinstance(c, str | int | float) and c == c for c in listed):
        raise ModelError("clusters: labels must be text or numbers, and NaN is not a label.")
    if len(set(listed)) < len(listed):
        raise ModelError("clusters: a label is declared twice (1, 1.0 and True count as equal).")
    return listed


class ReadyClustering(ReadyModel):
    """A clustering that passed its trial on public records, bound to a schema."""

    def __init__(self, clustering: Clustering, schema: Schema, features: tuple[str, ...], input: str):
        self.clustering, self.schema, self.features, self.input = clustering, schema, features, input
        predictor = clustering.predictor
        self._call: Callable[[Any], Any] = predictor.predict if hasattr(predictor, "predict") else predictor
        self._place = {label: float(i) for i, label in enumerate(clustering.clusters)}
        self._codes = _whole_labels(clustering.clusters)
        self.fingerprint = ""

    def labels(self, rows: Rows | Columns) -> np.ndarray:
        """The position of each record's cluster in the declared order; -1 for a record that belongs to none."""
        return self.predict(self.inputs(rows if isinstance(rows, dict) else rows.columns))

    def predict(self, inputs: Any) -> np.ndarray:
        """Positions of clusters for the predictor's own inputs, -1 for a record that belongs to none."""
        with quiet():
            positions = self._answers(inputs)
        return np.where(np.isnan(positions), -1.0, positions).astype(np.int64)

    def raw(self, inputs: Any) -> np.ndarray:
        """Positions as floats, NaN for a label that was not declared."""
        return self.positions(self.named(inputs))

    def positions(self, labels: Sequence[Any] | np.ndarray) -> np.ndarray:
        if isinstance(labels, np.ndarray):
            if labels.dtype.kind in "iu" and self._codes is not None:
                low, table = self._codes
                place = labels.astype(np.int64) - low
                inside = (place >= 0) & (place < len(table))
                return np.where(inside, table[np.where(inside, place, 0)], math.nan)
            labels = labels.tolist()
        # One label at a time: converting a whole batch to one type would let a single label change how the others are read.
        return np.array([self._place.get(label, math.nan) for label in labels], dtype=float)

    def named(self, inputs: Any) -> Sequence[Any] | np.ndarray:
        """The predictor's own labels, one per row; whole numbers stay an array."""
        # A shallow copy: a predictor that writes into its input writes into its own.
        given = inputs.copy(deep=False) if isinstance(inputs, pd.DataFrame) else inputs.copy()
        with parallel_config(backend="sequential"):
            answers = self._call(given)
        if getattr(answers, "ndim", 1) == 2 and answers.shape[1] == 1:
            answers = np.asarray(answers)[:, 0]
        if isinstance(answers, str) or getattr(answers, "ndim", 1) != 1 or not hasattr(answers, "__len__"):
            raise _NotOnePerRow
        if isinstance(answers, pd.Series) and isinstance(answers.dtype, np.dtype):
            answers = answers.to_numpy()
        if isinstance(answers, np.ndarray) and answers.dtype.kind in "iu" and len(answers) == len(inputs):
            return answers
        listed = answers.tolist() if hasattr(answers, "tolist") else list(answers)
        if len(listed) != len(inputs):
            raise _NotOnePerRow
        return listed


def _whole_labels(clusters: tuple[Any, ...]) -> tuple[int, np.ndarray] | None:
    """(smallest label, position by distance from it) where all labels are whole numbers close together, for speed."""
    if not all(type(label) is int for label in clusters) or max(clusters) - min(clusters) > 1 << 16:
        return None
    table = np.full(max(clusters) - min(clusters) + 1, math.nan)
    for i, label in enumerate(clusters):
        table[label - min(clusters)] = i
    return min(clusters), table


def _try_on_public_records(clustering: Clustering, schema: Schema) -> ReadyClustering:
    features = clustering.features or tuple(schema)
    for name in features:
        if name not in schema:
            raise SchemaError(f"the clustering uses {name!r}, which the schema does not declare{did_you_mean(name, schema)}.")
    columns = {name: column for name, column in schema.sample(PROBES).items() if name in features}
    failures: list[str] = []
    for form in _forms(clustering, schema, features):
        ready = ReadyClustering(clustering, schema, features, form)
        try:
            answers = _fingerprint(clustering, _tried(ready, columns))
        except _Refused as refusal:
            failures.append(str(refusal))
            continue
        ready.fingerprint = hashlib.sha256(f"{answers} {clustering.clusters!r}".encode()).hexdigest()
        return ready
    raise ModelError(
        f"the clustering {clustering.name!r} was refused on public records drawn from the schema: {failures[0]} "
        "Nothing was charged."
    )


def _tried(ready: ReadyClustering, columns: Columns) -> np.ndarray:
    """Positions of the labels, once they have been shown to belong to single rows. Only public records are involved."""
    inputs = ready.inputs(columns)
    with quiet():
        try:
            labels = ready.named(inputs)
            positions = ready.positions(labels)
        except _NotOnePerRow:
            raise _Refused("it must return one label per row.") from None
        except (Exception, SystemExit) as error:
            raise _Refused(f"it raised {type(error).__name__} ({str(error)[:200]}); check features= and input=.") from None
        if np.isnan(positions).any():
            undeclared = labels[int(np.argmax(np.isnan(positions)))]
            raise _Refused(
                f"it gave the label {str(undeclared)[:80]!r} ({type(undeclared).__name__}), which clusters= does not declare; "
                "declare every label it can give."
            )
        try:
            trials = _trials(ready, inputs, len(inputs))
        except (Exception, SystemExit) as error:
            raise _Refused(
                f"it raised {type(error).__name__} on a smaller batch of the same records; "
                "a clustering must be a function of one row."
            ) from None
    for what, again in trials:
        if not np.array_equal(again, positions):
            raise _Refused(
                f"its label for a record changed {what}; a clustering must be a function of one row (no fitting, ranks, batch "
                "statistics or state)."
            )
    return positions


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


@dataclass(frozen=True, eq=False)
class NearestCentre:
    """A predictor: the cluster of a record is the centre it is nearest to."""

    space: Space
    centres: np.ndarray

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
    """Cluster centres: `.centres` (clusters × coordinates, in the user's units), noisy `.counts`, and their `.clustering`.

    `coordinates` names the columns of `centres`: a number by its feature, a category of two values by the share of the second,
    any other by the share of each value. `sums` and `counts` are the released totals of the last iteration, `spread` and
    `count_spread` their noise in units of `law`; a cluster that counted less than `floor` kept the place it was looked for at.
    """

    kind: ClassVar[str] = "centres"
    features: tuple[str, ...]
    declared: tuple[dict[str, Any], ...]
    coordinates: tuple[str, ...]
    centres: np.ndarray
    counts: np.ndarray
    sums: np.ndarray
    spread: np.ndarray
    count_spread: float
    origin: np.ndarray
    floor: float
    law: NoiseLaw

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
        if not 0 < level < 1:
            raise PlanError(f"level={level!r}: give a probability between 0 and 1, for example 0.95.")
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
        lower, upper = self.interval()
        clusters, columns = self.centres.shape
        return pd.DataFrame(
            {
                "cluster": np.repeat(np.arange(clusters), columns),
                "count": np.repeat(self.counts, columns),
                "coordinate": list(self.coordinates) * clusters,
                "centre": self.centres.ravel(),
                "lower": lower.ravel(),
                "upper": upper.ravel(),
            }
        )

    def plot(self, ax: Any = None) -> Any:
        """Two coordinates as a map of the centres, sized by their counts; more as one line per cluster over the coordinates."""
        ax = plots._axes(ax)
        lower, upper = self.interval()
        below, above = self.centres - lower, upper - self.centres
        people = np.maximum(self.counts, 0)
        if len(self.coordinates) <= 2:
            x, y = self.centres[:, 0], self.centres[:, -1] if len(self.coordinates) == 2 else people
            error = [below[:, 1], above[:, 1]] if len(self.coordinates) == 2 else None
            ax.errorbar(x, y, xerr=[below[:, 0], above[:, 0]], yerr=error, fmt="none", ecolor=plots.BAND, capsize=2)
            ax.scatter(x, y, s=20 + 400 * people / max(people.max(), 1.0), color=plots.INK, alpha=0.7)
            for c, place in enumerate(zip(x, y)):
                ax.annotate(str(c), place, color="white", ha="center", va="center", fontsize=8)
            return plots._finish(ax, self, self.coordinates[1] if error else "count", xlabel=self.coordinates[0])
        lowest, width = self.space.scales()
        places = plots._categories(ax, self.coordinates)
        for c, count in enumerate(people):
            error = [below[c] / width, above[c] / width]
            thick = 1 + 3 * count / max(people.max(), 1.0)
            shift = 0.3 * ((c + 0.5) / len(people) - 0.5)
            ax.errorbar(
                places + shift,
                (self.centres[c] - lowest) / width,
                yerr=error,
                marker="o",
                capsize=2,
                linewidth=thick,
                label=str(c),
            )
        if len(people) <= 12:
            ax.legend(title="cluster", fontsize=8)
        return plots._finish(ax, self, "share of the declared range", xlabel="")
