"""The engine for a table in memory or in Parquet files, read by this process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from ..public.asking import DEFAULT
from ..public.rows import Rows
from ..public.schema import Relation, Schema, Unit
from ..query import Blocks, Joint, Pairs, Records, Sum, parts_of
from .check import DataCheck, IdCheck, checked
from .kernel import BATCH_ROWS, Contributions, batch_size, decoded, over_blocks, over_pairs, over_records, total
from .progress import track
from .sandbox import Outcomes
from .shield import shielded
from .tables import Table, check_types, open_table
from .units import People, division, matching, pairing, people_of


class LocalEngine:
    """A table opened under a schema, a neighbour relation and a unit.

    Sums over records stream a batch at a time; for pairs, couples and blocks the columns of the query are held in memory.
    """

    def __init__(self, data: Any, schema: Schema, relation: Relation, unit: Unit, batch_rows: int = BATCH_ROWS):
        table = open_table(data, [*schema, *([unit.column] if unit.column else [])], unit.column)
        check_types(table, schema, unit.column)
        self.table: Table = table.kept()
        self.schema, self.relation, self.unit, self.batch_rows = schema, relation, unit, batch_rows
        self.outcomes: Outcomes | None = None
        self.asking = DEFAULT
        self.people: People | None = None
        if unit.column:
            ids = (batch[unit.column] for batch in self.table.batches([unit.column], 1 << 20))
            self.people = people_of(ids, unit.max_rows)

    @property
    def units(self) -> int:
        return self.rows if self.people is None else self.people.count

    @property
    def rows(self) -> int:
        return self.table.rows

    def check_unchanged(self) -> None:
        self.table.check_unchanged()

    def totals(self, query: Sum | Joint) -> list[int]:
        return shielded(lambda: [value for found in self._totals(parts_of(query)) for value in found])

    def batches(self, columns: Sequence[str], conditions: Sequence[str] = ()) -> Iterator[Rows]:
        return self._shown(columns, self.batch_rows, conditions)

    def check(self) -> DataCheck:
        self.check_unchanged()
        batches, count = self.table.batches(list(self.schema), self.batch_rows), -(-self.rows // self.batch_rows)
        found = checked(track(batches, count, "checking cells"), self.schema)
        return found if self.people is None else replace(found, ids=IdCheck.of(self.people.person, self.unit))

    def _totals(self, parts: Sequence[Sum]) -> list[list[int]]:
        """Sums over records share one pass; each of the others reads the table for itself."""
        together = [part for part in parts if isinstance(part.over, Records)]
        found = iter(self._of_records(together) if together else ())
        return [next(found) if isinstance(part.over, Records) else total(part, self._contributions(part)) for part in parts]

    def _of_records(self, parts: Sequence[Sum]) -> list[list[int]]:
        sizes = [batch_size(self.batch_rows, part.bound.width) for part in parts]
        columns = tuple(dict.fromkeys(name for part in parts for name in part.columns))
        conditions = tuple(dict.fromkeys(name for part in parts for name in part.conditions))
        return over_records(parts, self._shown(columns, max(sizes), conditions), sizes)

    def _contributions(self, part: Sum) -> Contributions:
        over, size = part.over, batch_size(self.batch_rows, part.bound.width)
        assert not isinstance(over, Records)
        # Pairs and blocks need rows in another order.
        batches = self._read(part.columns, self.batch_rows, part.conditions)
        whole = Rows.joined(batches, self.schema, self._names(part.columns), part.conditions)
        if isinstance(over, Blocks):
            # A block is one contribution, whoever owns its rows.
            rows = Rows(self.schema, whole.columns, asking=self.asking)
            blocks = (rows.take(index) for index in division(len(rows), self.people, over.count, self.relation))
            return over_blocks(part, blocks, over.count, self._note)
        if isinstance(over, Pairs):
            return over_pairs(part, over.repeats, whole, lambda: pairing(len(whole), self.people), size)
        return over_pairs(part, over.repeats, whole, lambda: matching(len(whole), self.people, self.relation), size)

    def _names(self, columns: Sequence[str]) -> list[str]:
        # Without a column nothing would say how many rows there are.
        return list(columns) or [next(iter(self.schema))]

    def _read(self, columns: Sequence[str], size: int, conditions: Sequence[str] = ()) -> Iterator[Rows]:
        names, start = self._names(columns), 0
        self.check_unchanged()
        for cells in self.table.batches(names, size):
            stop = start + len(cells[names[0]])
            parts = None if self.people is None else self.people.parts[start:stop]
            yield decoded(self.schema, cells, parts, self.asking, conditions)
            start = stop
        # Rows of another table have been given the parts of this one's.
        self.check_unchanged()

    def _shown(self, columns: Sequence[str], size: int, conditions: Sequence[str] = ()) -> Iterator[Rows]:
        return track(self._read(columns, size, conditions), -(-self.rows // size), "reading records")

    def _note(self, outcomes: Outcomes) -> None:
        self.outcomes = outcomes

    def __repr__(self) -> str:
        return "LocalEngine()"

    def __reduce__(self) -> Any:
        raise TypeError("an engine holds records and is not saved")
