"""Clusterings as functions on records: declared labels, the trial on public records, and centres released privately.

A clustering is a black box like a model, with labels in place of numbers, and the same rules hold: it is tried on public
records before anything is charged, it is called quietly, and a record on which it fails, or to which it gives a label that
was not declared, belongs to no cluster, alone and in silence. A *column* of labels computed from private data is not a
function on records: one person more could move the label of everybody else.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from joblib import parallel_config

from ..errors import ModelError, SchemaError
from .model import PROBES, BlackBox, Input, PrivateTraining, ReadyModel, _fingerprint, _forms, _NotOnePerRow, _Refused, _trials
from .schema import Columns, Schema, did_you_mean
from .silence import quiet

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
