"""Exact Shapley vectors read off fitted models: linear terms, and sums of trees."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..model import Model
from ..rows import Rows
from ..schema import Schema
from .coalitions import RecordAsked, positions
from .fitted import Fitted, fitted
from .trees import vectors


def _encoded(model: Model, record: RecordAsked, rows: Rows) -> tuple[Fitted, np.ndarray, np.ndarray]:
    """The parts of the model, the encoded record asked about, and the encoded background."""
    made = fitted(model.ready(rows.schema))
    asked = np.array([[value for _, value in record]])
    background = positions(rows, [name for name, _ in record])
    return made, np.asarray(made.encoding(asked), dtype=float), np.asarray(made.encoding(background), dtype=float)


def used_features(model: Model, record: RecordAsked, schema: Schema) -> tuple[str, ...]:
    """The features with a part in the answers; the others have Shapley values of exactly 0, whatever the records."""
    used = fitted(model.ready(schema)).used()
    names = tuple(name for name, _ in record)
    return tuple(name for name, part in zip(names, used) if part) or names


@dataclass(frozen=True)
class LinearTerms:
    """Of a linear model: weight · (value asked about − background value), added over the encoded columns of a feature."""

    model: Model
    record: RecordAsked
    features: tuple[str, ...]

    def __call__(self, rows: Rows) -> np.ndarray:
        made, asked, background = _encoded(self.model, self.record, rows)
        names = [name for name, _ in self.record]
        of = np.array(
            [self.features.index(names[c.feature]) if names[c.feature] in self.features else -1 for c in made.encoding.columns]
        )
        belongs = of[:, None] == np.arange(len(self.features))
        return (asked - background) @ (belongs * made.weights[:, None])  # type: ignore[index]


@dataclass(frozen=True)
class TreeWalks:
    """Of a sum of trees: both records walked down every tree at once."""

    model: Model
    record: RecordAsked
    features: tuple[str, ...]

    def __call__(self, rows: Rows) -> np.ndarray:
        made, asked, background = _encoded(self.model, self.record, rows)
        names = [name for name, _ in self.record]
        found = vectors(made.forest, asked[0], background, len(names))
        return found[:, [names.index(name) for name in self.features]]
