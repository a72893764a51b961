"""A batch of records as a map sees it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from .asking import DEFAULT, Asking
from .fitted.read import Read, read
from .model import Model, ReadyModel
from .schema import Columns, Schema

Changes = Mapping[str, float | np.ndarray]
"""Columns to be set, to one (inner) value or to one for every record."""

Point = tuple[str, float]
"""A column, and the (inner) value that it is set to for all records."""

NONE = np.empty(0, dtype=np.uint8)
"""No conditions of no cells."""


def weighted(table: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """`table @ weights`, every row by itself: the last bits of a matrix product depend on how many rows there are."""
    if weights.ndim > 1:
        return np.column_stack([weighted(table, column) for column in weights.T])
    found: np.ndarray = (np.ascontiguousarray(table) * weights).sum(axis=1)
    return found


class Rows:
    """A batch of decoded records, as a map sees it: columns in inner form, and models to ask about them.

    Every cell of a column is a declared value, whatever it said. `conditions` tells how it was, of the columns whose conditions
    the query asked for; no model is given them.
    """

    def __init__(
        self,
        schema: Schema,
        columns: Columns,
        parts: np.ndarray | None = None,
        asking: Asking = DEFAULT,
        conditions: Mapping[str, np.ndarray] | None = None,
    ):
        self.schema, self.columns, self.parts, self.asking = schema, columns, parts, asking
        self.conditions = dict(conditions or {})
        # By the models themselves, which are thereby kept: the number of one that is gone may be another's.
        self._inputs: dict[Model, Any] = {}
        self._atoms: dict[Read, np.ndarray] = {}
        self._of: tuple[Rows, np.ndarray | slice] | None = None
        self._ahead: dict[Model, tuple[dict[Point, int], np.ndarray]] = {}

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __getitem__(self, name: str) -> np.ndarray:
        return self.columns[name]

    def absent(self, name: str) -> np.ndarray:
        """Which records have no value in a column, by its policy; the query must have asked for its conditions."""
        return self.schema[name].absent(self.conditions[name])

    def predict(self, model: Model, changes: Changes | None = None) -> np.ndarray:
        """The model's answer for every record, with some columns set to other (inner) values."""
        return self.predict_table(model, [changes or {}])[:, 0]

    def predict_each(self, model: Model, each: Iterable[Changes]) -> list[np.ndarray]:
        """As `predict`, for several changes one after another."""
        return list(self.predict_table(model, each).T)

    def predict_table(self, model: Model, each: Iterable[Changes]) -> np.ndarray:
        """As `predict`, for several changes, a column for each; much quicker than one after another.

        A model that is read is computed for all of them at once. Any other is asked in questions of one shape, which a few
        records do not fill alone.
        """
        if model in self._ahead:
            each = list(each)
            places, known = self._ahead[model]
            found = np.array([places.get(_point(changes), -1) for changes in each], dtype=int)
            if len(found) and (found >= 0).all():
                start, stop = found[0], found[0] + len(found)
                # Neighbours are most of what is asked for, and quicker to copy than to gather.
                return known[:, start:stop].copy() if (found == np.arange(start, stop)).all() else known[:, found]
        ready = model.ready(self.schema, self.asking)
        made = read(ready) if isinstance(ready, ReadyModel) else None
        if isinstance(made, Read):
            return ready.declared(made.table(self.atoms(made), [self._of_model(ready, changes) for changes in each]))
        answers = ready.predict_each((self._changed(model, changes) for changes in each), self.asking)
        return np.stack(answers, axis=1) if answers else np.empty((len(self), 0))

    def ask_ahead(self, model: Model, points: Iterable[Point]) -> None:
        """Ask at once what maps will ask for one after another: a model that is read walks its trees once for all of them."""
        places = {point: place for place, point in enumerate(dict.fromkeys(points))}
        self._ahead[model] = places, self.predict_table(model, [{name: value} for name, value in places])

    def atoms(self, made: Read) -> np.ndarray:
        """The records as a model that is read sees them."""
        if made not in self._atoms:
            # Rows that were taken from others are seen as they are there: those are settled once, however often some are taken.
            self._atoms[made] = made.atoms(self.columns) if self._of is None else self._of[0].atoms(made)[self._of[1]]
        return self._atoms[made]

    @staticmethod
    def _of_model(ready: Any, changes: Changes) -> Changes:
        return {name: value for name, value in changes.items() if name in ready.features}

    def _changed(self, model: Model, changes: Changes) -> Any:
        ready, inputs = model.ready(self.schema), self._inputs.get(model)
        if inputs is None:
            inputs = self._inputs[model] = ready.inputs(self.columns)
        for name, value in changes.items():
            if name in ready.features:
                inputs = ready.with_column(inputs, name, np.broadcast_to(np.asarray(value, dtype=float), len(self)))
        return inputs

    def frame(self) -> pd.DataFrame:
        """The records as a user knows them: declared columns in declared order, with declared values."""
        return pd.DataFrame(
            {name: self.schema[name].values_at(self.columns[name]) for name in self.schema if name in self.columns}, copy=False
        )

    @classmethod
    def joined(cls, batches: Iterable[Rows], schema: Schema, columns: Sequence[str], conditions: Sequence[str] = ()) -> Rows:
        """All batches as one, with these columns and conditions, also where there is none."""
        listed = list(batches)
        parts = [batch.parts for batch in listed if batch.parts is not None]
        merged = {name: np.concatenate([np.empty(0), *(batch[name] for batch in listed)]) for name in columns}
        found = {name: np.concatenate([NONE, *(batch.conditions[name] for batch in listed)]) for name in conditions}
        asking = listed[0].asking if listed else DEFAULT
        return cls(schema, merged, np.concatenate(parts) if parts else None, asking, found)

    def take(self, index: np.ndarray | slice) -> Rows:
        parts = None if self.parts is None else self.parts[index]
        conditions = {name: found[index] for name, found in self.conditions.items()}
        columns = {name: column[index] for name, column in self.columns.items()}
        made = Rows(self.schema, columns, parts, self.asking, conditions)
        made._of = self, index
        return made


def _point(changes: Changes) -> Any:
    """The point that these changes are, if they are one."""
    if len(changes) != 1:
        return None
    ((name, value),) = changes.items()
    return (name, float(value)) if np.ndim(value) == 0 else None
