"""The engine for a table in memory or in Parquet files, read by this process."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..public.asking import DEFAULT
from ..public.rows import Rows
from ..public.schema import Relation, Schema, Unit
from ..query import Blocks, Joint, Pairs, Records, Sum, parts_of
from .check import DataCheck, IdCheck, checked
from .kept import Kept
from .kernel import BATCH_ROWS, Contributions, batch_size, decoded, over_blocks, over_pairs, over_records, total
from .progress import track
from .sandbox import Outcomes
from .shield import shielded
from .tables import Table, check_types, open_table
from .units import People, division, matching, pairing, people_of

WHOLE, PAIR = 6, 4
"""What is kept of all rows, and of all pairs, for every number that they hold: themselves, as a model sees them, its answers."""


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

    def totals(self, query: Sum | Joint, kept: Kept | None = None) -> list[int]:
        kept = Kept(room=0) if kept is None else kept
        return shielded(lambda: [value for found in self._totals(parts_of(query), kept) for value in found])

    def batches(self, columns: Sequence[str], conditions: Sequence[str] = ()) -> Iterator[Rows]:
        return self._shown(columns, self.batch_rows, conditions)

    def check(self) -> DataCheck:
        self.check_unchanged()
        batches, count = self.table.batches(list(self.schema), self.batch_rows), -(-self.rows // self.batch_rows)
        found = checked(track(batches, count, "checking cells"), self.schema)
        return found if self.people is None else replace(found, ids=IdCheck.of(self.people.person, self.unit))

    def _totals(self, parts: Sequence[Sum], kept: Kept) -> list[list[int]]:
        """Sums over records share one pass; each of the others reads the table for itself, unless it is kept."""
        together = [part for part in parts if isinstance(part.over, Records)]
        found = iter(self._of_records(together, kept) if together else ())
        return [next(found) if isinstance(p.over, Records) else total(p, self._contributions(p, kept)) for p in parts]

    def _of_records(self, parts: Sequence[Sum], kept: Kept) -> list[list[int]]:
        sizes = [batch_size(self.batch_rows, part.bound.width) for part in parts]
        columns = tuple(dict.fromkeys(name for part in parts for name in part.columns))
        conditions = tuple(dict.fromkeys(name for part in parts for name in part.conditions))
        size = max(sizes)
        if not kept.holds(self._key(columns, conditions), WHOLE * self._numbers(columns)):
            return over_records(parts, self._shown(columns, size, conditions), sizes)
        whole = self._whole(columns, conditions, kept)
        pieces = (whole.piece(start, start + size) for start in range(0, len(whole), size))
        return over_records(parts, track(pieces, -(-len(whole) // size), "reading records"), sizes)

    def _contributions(self, part: Sum, kept: Kept) -> Contributions:
        over, size = part.over, batch_size(self.batch_rows, part.bound.width)
        assert not isinstance(over, Records)
        # Pairs and blocks need rows in another order.
        whole = self._whole(part.columns, part.conditions, kept)
        if isinstance(over, Blocks):
            # A block is one contribution, whoever owns its rows.
            rows = Rows(self.schema, whole.columns, asking=self.asking)
            blocks = (rows.take(index) for index in division(len(rows), self.people, over.count, self.relation))
            return over_blocks(part, blocks, over.count, self._note)
        return over_pairs(part, over.repeats, self._pairs(part, whole, size, kept), over.repeats * -(-len(whole) // size))

    def _pairs(self, part: Sum, whole: Rows, size: int, kept: Kept) -> Iterator[tuple[Rows, Rows]]:
        """The pairs or couples of every draw, some at a time; those of the first are the same for all stages. Claim: pairs"""
        kind, key = type(part.over), self._key(part.columns, part.conditions)

        def draw() -> tuple[np.ndarray, np.ndarray]:
            one_way = kind is Pairs
            return pairing(len(whole), self.people) if one_way else matching(len(whole), self.people, self.relation)

        def taken(own: np.ndarray, other: np.ndarray) -> tuple[Rows, Rows]:
            return whole.take(own), whole.take(other)

        for turn in range(part.over.repeats if len(whole) else 0):  # type: ignore[union-attr]
            # Not by room, of which a secret number of rows would take more or less; and a thousand draws would not fit.
            own, other = draw() if turn else kept.always((kind,), draw)
            for start in range(0, len(own), size):
                some = own[start : start + size], other[start : start + size]
                numbers = PAIR * len(some[0]) * len(whole.columns)
                make = functools.partial(taken, *some)
                yield make() if turn else kept.once((kind, start, size, key), numbers, make)

    def _whole(self, columns: Sequence[str], conditions: Sequence[str], kept: Kept) -> Rows:
        """All rows, of which a release that keeps them knows more and more."""
        key, numbers = self._key(columns, conditions), WHOLE * self._numbers(columns)

        def read() -> Rows:
            batches = self._read(columns, self.batch_rows, conditions)
            whole = Rows.joined(batches, self.schema, self._names(columns), conditions)
            whole.kept = kept.holds(key, numbers)
            return whole

        self.check_unchanged()
        return kept.once(key, numbers, read)

    @staticmethod
    def _key(columns: Sequence[str], conditions: Sequence[str]) -> tuple[frozenset[str], frozenset[str]]:
        return frozenset(columns), frozenset(conditions)

    def _numbers(self, columns: Sequence[str]) -> int:
        return self.rows * len(self._names(columns))

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
