"""The engine for a table in memory or in Parquet files, read by this process."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..mechanisms import labels as secret
from ..mechanisms.labels import Labels
from ..public.asking import DEFAULT
from ..public.rows import Rows
from ..public.schema import Relation, Schema, Unit
from ..query import Blocks, Couples, Joint, Pairs, Records, Sum, parts_of
from . import shuffled
from .check import DataCheck, IdCheck, checked
from .ids import labels_of_ids
from .kept import Kept
from .kernel import BATCH_ROWS, Contributions, Work, decoded, over_blocks, over_pairs, over_records, total
from .orders import Pairing, division, matching, pairing
from .progress import track
from .sandbox import Outcomes
from .shield import shielded
from .tables import Table, check_types, open_table
from .units import HELD, People, people_of

WHOLE, PAIR = 6, 4
"""What is kept of all rows, and of all pairs, for every number that they hold: themselves, as a model sees them, its answers."""
ORDER = 6
"""Numbers that an order takes for a row: its label, its place, its partner, and what it takes to sort them."""


class LocalEngine:
    """A table opened under a schema, a neighbour relation and a unit.

    Sums over records stream a batch at a time. For pairs, couples and blocks the columns of the query are held in memory, up to
    `held` numbers; a larger table goes through temporary files without names (`spill`).
    """

    name = "one process"
    """For certificates."""

    def __init__(self, data: Any, schema: Schema, relation: Relation, unit: Unit, batch_rows: int = BATCH_ROWS, held: int = HELD):
        table = open_table(data, [*schema, *([unit.column] if unit.column else [])], unit.column)
        check_types(table, schema, unit.column)
        self.table: Table = table.kept()
        self.schema, self.relation, self.unit, self.batch_rows, self.held = schema, relation, unit, batch_rows, held
        self.outcomes: Outcomes | None = None
        self.asking = DEFAULT
        self.people: People | None = None
        if unit.column:
            ids = (batch[unit.column] for batch in self.table.batches([unit.column], 1 << 18))
            self.people = people_of(ids, self.rows, unit.max_rows, held)

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
        return found if self.people is None else replace(found, ids=IdCheck.of(self.people, self.unit))

    def _work(self, *parts: Sum) -> Work:
        return Work(self.schema, parts, self.asking, self.batch_rows)

    def _totals(self, parts: Sequence[Sum], kept: Kept) -> list[list[int]]:
        """Sums over records share one pass; each of the others reads the table for itself, unless it is kept."""
        together = [part for part in parts if isinstance(part.over, Records)]
        found = iter(self._of_records(together, kept) if together else ())
        return [next(found) if isinstance(p.over, Records) else self._of_order(p, kept) for p in parts]

    def _of_order(self, part: Sum, kept: Kept) -> list[int]:
        """The total of a sum over pairs, couples or blocks."""
        return total(part, self._contributions(part, kept))

    def _of_records(self, parts: Sequence[Sum], kept: Kept) -> list[list[int]]:
        work = self._work(*parts)
        size = max(work.sizes)
        if not kept.holds(self._key(work), WHOLE * self._numbers(work)):
            return work.of_records(self._shown(work.columns, size, work.conditions))
        whole = self._whole(work, kept)
        pieces = (whole.piece(start, start + size) for start in range(0, len(whole), size))
        return over_records(parts, track(pieces, -(-len(whole) // size), "reading records"), work.sizes)

    def _contributions(self, part: Sum, kept: Kept) -> Contributions:
        """Of pairs, couples or blocks, which need rows in another order."""
        over, work = part.over, self._work(part)
        if isinstance(over, Couples) and (self.relation != "replace" or self.people is not None):
            raise AssertionError("couples are of records whose number is public")
        held = self._numbers(work) + ORDER * self.rows <= self.held
        if isinstance(over, Blocks):
            labels = secret.fresh()
            blocks = self._blocks(work, over.count, labels, kept) if held else shuffled.blocks(self, work, over.count, labels)
            return over_blocks(part, blocks, over.count, self._note)
        assert isinstance(over, Pairs | Couples)
        size = work.sizes[0]
        pairs = self._pairs(work, over, size, kept) if held else shuffled.pairs(self, work, self._orders(over, kept), size)
        return over_pairs(part, track(pairs, over.repeats * -(-self.rows // size), "reading pairs"))

    def _orders(self, over: Pairs | Couples, kept: Kept) -> Iterator[Labels]:
        """The secret order of every repeat; the first is the same for all stages of a release. Claim: pairs"""
        for turn in range(over.repeats if self.rows else 0):
            # Not by room, of which a secret number of rows would take more or less; and a thousand draws would not fit.
            yield secret.fresh() if turn else kept.always((type(over),), secret.fresh)

    def _pairs(self, work: Work, over: Pairs | Couples, size: int, kept: Kept) -> Iterator[tuple[Rows, Rows]]:
        """The pairs or couples of every draw, some at a time."""
        whole, kind, key = self._whole(work, kept), type(over), self._key(work)

        def taken(own: np.ndarray, other: np.ndarray) -> tuple[Rows, Rows]:
            return whole.take(own), whole.take(other)

        for turn, labels in enumerate(self._orders(over, kept)):
            order = functools.partial(self._order, over, labels)
            own, other = order() if turn else kept.once((kind, "order"), 2 * len(whole), order)
            for start in range(0, len(own), size):
                some = own[start : start + size], other[start : start + size]
                numbers = PAIR * len(some[0]) * len(whole.columns)
                make = functools.partial(taken, *some)
                yield make() if turn else kept.once((kind, start, size, key), numbers, make)

    def _order(self, over: Pairs | Couples, labels: Labels) -> Pairing:
        """Who is paired with whom, by the numbers of rows."""
        stay, found = self._labelled(labels)
        own, other = pairing(found) if isinstance(over, Pairs) else matching(found)
        return (own, other) if stay is None else (stay[own], stay[other])

    def _labelled(self, labels: Labels) -> tuple[np.ndarray | None, np.ndarray]:
        """The numbers of the rows that stay, None if all do, and the labels of their units."""
        if self.people is None:
            return None, labels.of_rows(0, self.rows)
        stay = np.flatnonzero(self.people.parts)
        return stay, np.concatenate([np.empty((0, 2), dtype=np.uint64), *self.labels(labels, self.batch_rows)])[stay]

    def labels(self, labels: Labels, size: int) -> Iterator[np.ndarray]:
        """The labels of the units of all rows, so many at a time; zero for a row of nobody."""
        if self.unit.column:
            for batch in self.table.batches([self.unit.column], size):
                yield labels_of_ids(labels, batch[self.unit.column])[0]
        else:
            for start in range(0, self.rows, size):
                yield labels.of_rows(start, min(start + size, self.rows))

    def _blocks(self, work: Work, count: int, labels: Labels, kept: Kept) -> Iterator[Rows]:
        # A block is one contribution, whoever owns its rows.
        whole = Rows(self.schema, self._whole(work, kept).columns, asking=self.asking)
        stay, found = self._labelled(labels)
        block = division(found, count, self.relation, 0, self.units)
        order = np.argsort(block, kind="stable")
        cuts = np.searchsorted(block[order], np.arange(count + 1))
        rows = order if stay is None else stay[order]
        return (whole.take(rows[start:stop]) for start, stop in zip(cuts[:-1], cuts[1:]))

    def _whole(self, work: Work, kept: Kept) -> Rows:
        """All rows, of which a release that keeps them knows more and more."""
        key, numbers = self._key(work), WHOLE * self._numbers(work)

        def read() -> Rows:
            batches = self._read(work.columns, self.batch_rows, work.conditions)
            whole = Rows.joined(batches, self.schema, work.columns, work.conditions)
            whole.kept = kept.holds(key, numbers)
            return whole

        self.check_unchanged()
        return kept.once(key, numbers, read)

    @staticmethod
    def _key(work: Work) -> tuple[frozenset[str], frozenset[str]]:
        return frozenset(work.columns), frozenset(work.conditions)

    def _numbers(self, work: Work) -> int:
        return self.rows * len(work.columns)

    def _read(self, columns: Sequence[str], size: int, conditions: Sequence[str] = ()) -> Iterator[Rows]:
        # Without a column nothing would say how many rows there are.
        names, start = list(columns) or [next(iter(self.schema))], 0
        self.check_unchanged()
        for cells in self.table.batches(names, size):
            stop = start + len(cells[names[0]])
            parts = None if self.people is None else self.people.parts_of(start, stop)
            yield decoded(self.schema, cells, parts, self.asking, conditions)
            start = stop
        # Rows of another table have been given the parts of this one's.
        self.check_unchanged()

    def read(self, work: Work, size: int) -> Iterator[Rows]:
        """What this work reads of all rows, in order; for the other modules of this room."""
        return self._read(work.columns, size, work.conditions)

    def _shown(self, columns: Sequence[str], size: int, conditions: Sequence[str] = ()) -> Iterator[Rows]:
        return track(self._read(columns, size, conditions), -(-self.rows // size), "reading records")

    def _note(self, outcomes: Outcomes) -> None:
        self.outcomes = outcomes

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def __reduce__(self) -> Any:
        raise TypeError("an engine holds records and is not saved")
