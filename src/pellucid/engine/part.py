"""A part of a table as a table of its own, for the engines of one machine: the rows for which a public condition holds.

Which rows these are is found when they are first read, after the charge. How many there are is secret and never shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np
import pyarrow as pa

from ..errors import PlanError
from ..public.asking import DEFAULT, Asking
from ..public.rows import Rows
from ..public.where import Where
from ..query import Joint, Sum
from .check import DataCheck
from .kept import Kept
from .kernel import decoded
from .local import LocalEngine
from .processes import ProcessEngine
from .protocol import Engine
from .sandbox import Outcomes
from .shield import shielded
from .tables import MemoryTable, Table


class PartTable:
    """Some rows of a table of files, by their numbers."""

    def __init__(self, table: Table, numbers: np.ndarray):
        self.table, self.numbers = table, numbers
        self.rows, self.types = len(numbers), table.types

    def batches(
        self, columns: Sequence[str], size: int, start: int = 0, stop: int | None = None
    ) -> Iterator[Mapping[str, pa.Array]]:
        chosen = self.numbers[start:stop]
        if not len(chosen):
            return
        first, done = int(chosen[0]), 0
        for cells in self.table.batches(columns, size, first, int(chosen[-1]) + 1):
            end = first + len(cells[columns[0]])
            some = chosen[done : np.searchsorted(chosen, end)]
            if len(some):
                index = pa.array(some - first)
                yield {name: cells[name].take(index) for name in columns}
            first, done = end, done + len(some)

    @property
    def borders(self) -> Sequence[int]:
        return [int(place) for place in np.unique(np.searchsorted(self.numbers, list(self.table.borders)))]

    def check_unchanged(self) -> None:
        self.table.check_unchanged()

    def kept(self) -> PartTable:
        return self


class PartEngine:
    """The records of a part, read by an engine like that of the whole table. Under it a neighbour is a record more or less."""

    def __init__(self, whole: Engine, where: Where):
        if not isinstance(whole, LocalEngine):
            raise PlanError(
                "where(): parts of tables in Spark are not read yet. Open the same files without Spark, as a session on the "
                "same account, and take the part there."
            )
        self._whole, self._where, self.name = whole, where, whole.name
        self.asking: Asking = DEFAULT

    @cached_property
    def _inner(self) -> LocalEngine:
        whole, numbers = self._whole, self._numbers()
        table = whole.table
        part: Table = PartTable(table, numbers)
        if isinstance(table, MemoryTable):
            part = MemoryTable(table.table.take(pa.array(numbers)), table.ids)
        if isinstance(whole, ProcessEngine):
            make: Any = partial(ProcessEngine, workers=whole.workers)
        else:
            make = LocalEngine
        made: LocalEngine = make(part, whole.schema, "add-remove", whole.unit, whole.batch_rows, whole.held)
        return made

    def _numbers(self) -> np.ndarray:
        """The numbers of its rows, in order."""
        whole, columns, start = self._whole, self._where.columns, 0
        found = [np.empty(0, dtype=np.int64)]
        whole.check_unchanged()
        for cells in whole.table.batches(columns, whole.batch_rows):
            rows = decoded(whole.schema, {name: cells[name] for name in columns}, conditions=columns)
            found.append(start + np.flatnonzero(self._where.holds(rows)))
            start += len(rows)
        # Rows of another table would have been given the numbers of this one's.
        whole.check_unchanged()
        return np.concatenate(found)

    @property
    def _ready(self) -> LocalEngine:
        inner = self._inner
        inner.asking = self.asking
        return inner

    @property
    def units(self) -> int:
        return self._ready.units

    @property
    def rows(self) -> int:
        return self._ready.rows

    @property
    def outcomes(self) -> Outcomes | None:
        return self._inner.outcomes if "_inner" in vars(self) else None

    def totals(self, query: Sum | Joint, kept: Kept | None = None) -> list[int]:
        return shielded(lambda: self._ready.totals(query, kept))

    def batches(self, columns: Sequence[str], conditions: Sequence[str] = ()) -> Iterator[Rows]:
        return self._ready.batches(columns, conditions)

    def check(self) -> DataCheck:
        return self._ready.check()

    def check_unchanged(self) -> None:
        self._whole.check_unchanged()

    def __repr__(self) -> str:
        return "PartEngine()"

    def __reduce__(self) -> Any:
        raise TypeError("an engine stands next to records and is not saved")
