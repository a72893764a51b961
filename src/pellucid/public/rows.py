"""A batch of records as a map sees it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from operator import itemgetter
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from .asking import DEFAULT, Asking
from .fitted.read import Picked, Read, read
from .model import Model, ReadyModel
from .schema import Columns, Schema

T = TypeVar("T")

Changes = Mapping[str, float | np.ndarray | Picked]
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
        self._known: dict[Hashable, Any] = {}
        self._of: tuple[Rows, np.ndarray | slice] | None = None
        self._ahead: dict[Model, tuple[dict[Point, int], np.ndarray]] = {}
        self.kept = False
        """Whether further questions of the same release see these very rows."""

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __getitem__(self, name: str) -> np.ndarray:
        return self.columns[name]

    def absent(self, name: str) -> np.ndarray:
        """Which records have no value in a column, by its policy; the query must have asked for its conditions."""
        return self.schema[name].absent(self.conditions[name])

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """What was made of these rows before, or what is made of them now."""
        if key not in self._known:
            self._known[key] = make()
        found: T = self._known[key]
        return found

    def predict(self, model: Model, changes: Changes | None = None) -> np.ndarray:
        """The model's answer for every record, with some columns set to other (inner) values."""
        if changes or self._read(model) is None:
            return self.predict_table(model, [changes or {}])[:, 0]
        # Rows that were taken from others are answered as they are there.
        of, known = self._of, ("answers", model)
        if of is not None:
            return self.once(known, lambda: of[0].predict(model)[of[1]])
        return self.once(known, lambda: self.predict_table(model, [{}])[:, 0])

    def predict_with(self, model: Model, donors: Rows, groups: Sequence[Sequence[str]]) -> np.ndarray:
        """The model's answers when each group of columns comes from other rows, a column for each group."""
        made = self._read(model)
        if made is None:
            return self.predict_table(model, [{name: donors[name] for name in group} for group in groups])

        def answers() -> np.ndarray:
            used = [[name for name in group if name in made.ready.features] for group in groups]
            return made.with_donors(self.atoms(made), donors.atoms(made), used)

        return self.once((model, donors, tuple(map(tuple, groups))), answers)

    def computes(self, model: Model) -> bool:
        """Whether the model is read: then all that is asked of it at once is little more than one question."""
        return self._read(model) is not None

    def _read(self, model: Model) -> Read | None:
        """The model, if it is computed here."""
        ready = model.ready(self.schema, self.asking)
        made = read(ready) if isinstance(ready, ReadyModel) else None
        return made if isinstance(made, Read) else None

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
        ready, made = model.ready(self.schema, self.asking), self._read(model)
        if made is not None:
            return made.table(self.atoms(made), [self._of_model(ready, changes) for changes in each])
        answers = ready.predict_each((self._changed(model, changes) for changes in each), self.asking)
        return np.stack(answers, axis=1) if answers else np.empty((len(self), 0))

    def predict_along(self, model: Model, grids: Sequence[tuple[str, Sequence[float] | np.ndarray]]) -> np.ndarray:
        """As `predict_table`, with each of these columns set to each of its values, column after column."""
        made, names = self._read(model), [name for name, _ in grids]
        if model in self._ahead or made is None or len(set(names) & set(made.ready.features)) < len(names):
            return self.predict_table(model, [{name: value} for name, values in grids for value in values])
        return made.along(self.atoms(made), names, [np.asarray(values, dtype=float) for _, values in grids])

    @contextmanager
    def asking_ahead(self, points: Mapping[Model, Iterable[Point]]) -> Iterator[None]:
        """Ask at once what maps will ask for one after another: a model that is read walks its trees once for all of them."""
        try:
            for model, wanted in points.items():
                places = {point: place for place, point in enumerate(dict.fromkeys(wanted))}
                grids = [(name, [value for _, value in some]) for name, some in groupby(places, key=itemgetter(0))]
                self._ahead[model] = places, self.predict_along(model, grids)
            yield
        finally:
            self._ahead.clear()

    def atoms(self, made: Read) -> np.ndarray:
        """The records as a model that is read sees them."""
        of = self._of
        if of is None:
            return self.once(made, lambda: made.atoms(self.columns))
        # Rows that were taken from others are seen as they are there: those are settled once, however often some are taken.
        return self.once(made, lambda: of[0].atoms(made)[of[1]])

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
        made._of, made.kept = (self, index), self.kept
        return made

    def piece(self, start: int, stop: int) -> Rows:
        """Some rows in a row, the same object every time."""
        if start <= 0 and stop >= len(self):
            return self
        return self.once(("piece", start, stop), lambda: self.take(slice(start, stop)))


def _point(changes: Changes) -> Any:
    """The point that these changes are, if they are one."""
    if len(changes) != 1:
        return None
    ((name, value),) = changes.items()
    return (name, float(value)) if isinstance(value, int | float | np.number) else None
