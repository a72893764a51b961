"""Clusterings: black boxes that put every record into one of the declared clusters.

A record on which a clustering fails, or to which it gives a label that was not declared, belongs to no cluster, alone and in
silence. A *column* of labels computed from private data is not a function on records: one person more could move the label of
everybody else.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from ..errors import ModelError
from .asking import AS_THEY_ARE, Asking
from .black_box import BlackBox, Input, PrivateTraining
from .fingerprint import fingerprinted_as
from .frozen import settle
from .ready import Ready, Refusals, Refused, asked
from .row_wise import tried
from .rows import Rows
from .schema import Columns, Schema

MOST_CLUSTERS = 10_000
ONE_PER_ROW = "it must return one label per row."


@fingerprinted_as("pellucid.clustering", "Clustering")
@dataclass(frozen=True, eq=False)
class Clustering(BlackBox):
    """A fitted estimator with predict(), or a plain callable on a DataFrame, that puts every record into a declared cluster.

    Explainers see clusters by their position in the declared order.

    >>> import pellucid as pel
    >>> ages = pel.Clustering(lambda d: d["age"] // 50, clusters=range(2), features=["age"], trained_on="other data")
    >>> ages.ready(pel.Schema({"age": pel.Number(0, 99)})).labels({"age": np.array([30.0, 70.0])})
    array([0, 1])
    """

    kind: ClassVar[str] = "clustering"

    clusters: tuple[Any, ...] = ()
    """The labels it may give, in order, as `range(5)` or a list of names."""

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
        labels = _declared_labels(clusters)
        super().__init__(predictor, features, trained_on, input, name)
        settle(self, clusters=labels)

    @property
    def declared(self) -> list[Any]:
        return [repr(label) for label in self.clusters]

    @property
    def bound_text(self) -> str:
        return f"one of {len(self.clusters)} declared clusters; a record with any other label belongs to none"

    def ready(self, schema: Schema, asking: Asking | None = None) -> ReadyClustering:
        found: ReadyClustering = tried(self, schema, asking)
        return found

    def in_form(self, schema: Schema, features: tuple[str, ...], input: str) -> ReadyClustering:
        return ReadyClustering(self, schema, features, input)

    def fingerprint_with(self, answers: np.ndarray) -> str:
        return hashlib.sha256(f"{super().fingerprint_with(answers)} {self.clusters!r}".encode()).hexdigest()


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


class ReadyClustering(Ready):
    """A clustering that passed its trial on public records, bound to a schema."""

    refusals = Refusals(
        batch="it raised {error} on another batch of the same records; a clustering must be a function of one row.",
        changed="its label for a record changed {what}; a clustering must be a function of one row (no fitting, ranks, batch "
        "statistics or state).",
    )

    def __init__(self, clustering: Clustering, schema: Schema, features: tuple[str, ...], input: str):
        predictor = clustering.predictor
        super().__init__(asked(predictor), schema, features, input)
        self.clustering = clustering
        self._place = {label: float(i) for i, label in enumerate(clustering.clusters)}
        self._codes = _whole_labels(clustering.clusters)

    def labels(self, rows: Rows | Columns) -> np.ndarray:
        """The position of each record's cluster in the declared order; -1 for a record that belongs to none."""
        if isinstance(rows, dict):
            return self.predict(self.inputs(rows), AS_THEY_ARE)
        return self.predict(self.inputs(rows.columns), rows.asking)

    def declared(self, answers: np.ndarray) -> np.ndarray:
        """Positions of clusters, -1 for a record that belongs to none."""
        return np.where(np.isnan(answers), -1.0, answers).astype(np.int64)

    def raw(self, inputs: Any) -> np.ndarray:
        """Positions as floats, NaN for a label that was not declared."""
        return self.positions(self.named(inputs))

    def accepted(self, inputs: Any) -> np.ndarray:
        labels = self.named(inputs)
        positions = self.positions(labels)
        if np.isnan(positions).any():
            undeclared = labels[int(np.argmax(np.isnan(positions)))]
            raise Refused(
                f"it gave the label {str(undeclared)[:80]!r} ({type(undeclared).__name__}), which clusters= does not declare; "
                "declare every label it can give."
            )
        return positions

    def apart(self, answers: np.ndarray, again: np.ndarray) -> np.ndarray:
        return np.array(answers != again)

    def positions(self, labels: Sequence[Any] | np.ndarray) -> np.ndarray:
        """Labels as positions in the declared order, NaN for one that was not declared."""
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
        answers = self.called(inputs)
        if getattr(answers, "ndim", 1) == 2 and answers.shape[1] == 1:
            answers = np.asarray(answers)[:, 0]
        if isinstance(answers, str) or getattr(answers, "ndim", 1) != 1 or not hasattr(answers, "__len__"):
            raise Refused(ONE_PER_ROW)
        if isinstance(answers, pd.Series) and isinstance(answers.dtype, np.dtype):
            answers = answers.to_numpy()
        if isinstance(answers, np.ndarray) and answers.dtype.kind in "iu" and len(answers) == len(inputs):
            return answers
        listed = answers.tolist() if hasattr(answers, "tolist") else list(answers)
        if len(listed) != len(inputs):
            raise Refused(ONE_PER_ROW)
        return listed


def _whole_labels(clusters: tuple[Any, ...]) -> tuple[int, np.ndarray] | None:
    """(smallest label, position by distance from it) where all labels are whole numbers close together, for speed."""
    if not all(type(label) is int for label in clusters) or max(clusters) - min(clusters) > 1 << 16:
        return None
    table = np.full(max(clusters) - min(clusters) + 1, math.nan)
    for i, label in enumerate(clusters):
        table[label - min(clusters)] = i
    return min(clusters), table
