"""The engine for a Spark DataFrame: rows stay on executors, and packed integers come back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...mechanisms.labels import Labels, fresh
from ...public.asking import DEFAULT
from ...public.rows import Rows
from ...public.schema import Relation, Schema, Unit
from ...query import Blocks, Couples, Joint, Pairs, Records, Sum, parts_of
from ..check import Counts, DataCheck, IdCheck
from ..kept import Kept
from ..kernel import BATCH_ROWS, Work
from ..sandbox import Outcomes
from ..shield import shielded
from . import ordered
from .passes import Passes
from .records import OfRecords, over_records
from .settings import refuse_settings
from .shown import Count, Show, parts_from, parts_of_rows, read_counts
from .shuffle import NOWHERE, ByBlock, Layout, Order
from .source import Source

BUCKET_ROWS = 1 << 19
"""Rows of a bucket, which one task holds in memory."""
WINDOW = 1 << 22
"""Rows that are brought here at once, where all are."""
BLOCK_TASKS = 16
"""Tasks that a function of blocks is run by."""


class SparkEngine:
    """A Spark DataFrame, classic or Connect, opened under a schema, a neighbour relation and a unit.

    Sums over records read the table once. Where units are people, and for pairs, couples and blocks, rows go by their secret
    labels to buckets that one task can hold.
    """

    name = "Apache Spark"
    """For certificates."""

    def __init__(
        self,
        data: Any,
        schema: Schema,
        relation: Relation,
        unit: Unit,
        batch_rows: int = BATCH_ROWS,
        bucket_rows: int = BUCKET_ROWS,
    ):
        self.schema, self.relation, self.unit, self.batch_rows = schema, relation, unit, batch_rows
        self.source = Source(data, schema, unit.column)
        self.passes = Passes(self.source)
        self.buckets = -(-self.rows // bucket_rows) or 1
        self.outcomes: Outcomes | None = None
        self.asking = DEFAULT
        self._people: ordered.People | None = None
        self._kept_parts: np.ndarray | None = None
        self.units = self.rows
        if unit.column:
            self._opening = fresh()
            self._people = ordered.People(self._opening, unit.max_rows)
            people, told = self._count_people(self._opening)
            self.units = sum(people)
            self._ids = (self.units, *told)

    @property
    def rows(self) -> int:
        return self.source.rows

    def check_unchanged(self) -> None:
        refuse_settings(self.source.spark)
        self.source.check_unchanged()

    def totals(self, query: Sum | Joint, kept: Kept | None = None) -> list[int]:
        kept = Kept(room=0) if kept is None else kept
        return shielded(lambda: [value for found in self._totals(parts_of(query), kept) for value in found])

    def batches(self, columns: Sequence[str], conditions: Sequence[str] = ()) -> Iterator[Rows]:
        """All records, brought here: for streams, which hold what was made of them."""
        layout = Layout(tuple(columns) or (next(iter(self.schema)),), tuple(conditions))
        show = Show(self.schema, layout, self.source.numbering, self.batch_rows)
        self.source.check_unchanged()
        parts, seen, rows, marks = self._parts(), 0, 0, 0
        for files, span in self.source.windows(WINDOW):
            contents, read, ids = self.passes.shown(show, layout.columns, files, span)
            rows, marks, held = rows + read, marks + ids, layout.unpack(contents)
            for start in range(0, len(held.numbers), self.batch_rows):
                some = held.take(np.arange(start, min(start + self.batch_rows, len(held.numbers))))
                own = None if parts is None else parts[seen : seen + len(some.numbers)].astype(np.int64)
                seen += len(some.numbers)
                yield Rows(self.schema, some.columns, own, self.asking, some.conditions)
        self.source.check_rows(rows, marks)
        self.source.check_unchanged()

    def _parts(self) -> np.ndarray | None:
        """For every row how many rows its person keeps; a byte a row, for whoever has all rows brought here."""
        if self._people is None or self.unit.column is None:
            return None
        if self._kept_parts is None:
            order = self._order(self._opening)
            contents = self.passes.regrouped(parts_of_rows, self._work([]), self.unit.column, order, self.batch_rows)
            self._kept_parts = parts_from(contents, self.rows, self.unit.max_rows)
        return self._kept_parts

    def check(self) -> DataCheck:
        self.check_unchanged()
        counts = Counts.none(self.schema)
        contents, rows, marks = self.passes.shown(Count(self.schema, self.source.numbering, self.batch_rows), list(self.schema))
        self.source.check_rows(rows, marks)
        for content in contents:
            counts.add(read_counts(content))
        found = counts.check(self.schema)
        if self.unit.column is None:
            return found
        # Rows that name nobody are those that no person has.
        people, above, left_out, named = self._ids
        ids = IdCheck(self.unit.column, self.unit.max_rows, people, self.rows - named, above, left_out)
        return replace(found, ids=ids)

    def _totals(self, parts: Sequence[Sum], kept: Kept) -> list[list[int]]:
        """Sums over records share one pass; each of the others has jobs of its own."""
        self.check_unchanged()
        self.passes.asking = self.asking
        together = [part for part in parts if isinstance(part.over, Records)]
        found = iter(self._of_records(together) if together else ())
        totals = [next(found) if isinstance(p.over, Records) else self._of_others(p, kept) for p in parts]
        # Rows of another table may have been given the numbers of this one's.
        self.source.check_unchanged()
        return totals

    def _of_records(self, parts: Sequence[Sum]) -> list[list[int]]:
        given = self._work(parts)
        if self._people is None:
            answers = self.passes.over(over_records, OfRecords(given.work, self.source.numbering), given.work.columns)
        else:
            answers = self._shuffled(ordered.over_people, given, [self._order(self._opening)])
        return _split(_added(answers), parts)

    def _of_others(self, part: Sum, kept: Kept) -> list[int]:
        if isinstance(part.over, Blocks):
            return self._of_blocks(part)
        if isinstance(part.over, Couples) and (self.relation != "replace" or self._people is not None):
            raise AssertionError("couples are of records whose number is public")
        assert isinstance(part.over, Pairs | Couples)
        repeats = part.over.repeats if self.rows else 0
        # Those of the first order are the same for all stages of a release. Claim: pairs
        labels = [fresh() if turn else kept.always((type(part.over),), fresh) for turn in range(repeats)]
        cut, counts = self._cut(labels, cyclic=isinstance(part.over, Pairs))
        ranks = tuple(tuple(np.cumsum([0, *found[:-1]]).tolist()) for found in counts)
        work = replace(self._work([part]), first_ranks=ranks)
        return _added(self._shuffled(ordered.over_pairs, work, cut)) or [0] * part.size

    def _of_blocks(self, part: Sum) -> list[int]:
        assert isinstance(part.over, Blocks)
        labels, blocks = fresh(), part.over.count
        given = self._work([part])
        dividing = ordered.Dividing(given, _layout(given.work), blocks, min(BLOCK_TASKS, blocks))
        if self.relation == "replace":
            counts = self._units_of_buckets(labels)
            work = replace(dividing.work, first_ranks=(tuple(np.cumsum([0, *counts[:-1]]).tolist()),), units=self.units)
            dividing = replace(dividing, work=work)
            answers = self.passes.divided(dividing, given.work.columns, self.unit.column, self._order(labels), self.batch_rows)
        else:
            way = ByBlock(labels, blocks, dividing.tasks)
            answers = self.passes.shuffled(
                ordered.over_blocks, dividing, dividing.layout, given.work.columns, self.unit.column, [way],
                self.batch_rows, dividing.tasks,
            )  # fmt: skip
        *found, blocks, answered, failed, slow, memory = _added(answers)
        self.outcomes = Outcomes(blocks, answered, failed, slow, memory) if blocks else self.outcomes
        return found

    def _shuffled(self, body: Any, given: ordered.InBuckets, ways: Sequence[Order]) -> list[list[int]]:
        columns = given.work.columns
        return self.passes.shuffled(body, given, _layout(given.work), columns, self.unit.column, ways, self.batch_rows)

    def _work(self, parts: Sequence[Sum]) -> ordered.InBuckets:
        work = Work(self.schema, tuple(parts), self.asking, self.batch_rows)
        return ordered.InBuckets(work, self.relation, self._people, self.buckets)

    def _order(self, labels: Labels) -> Order:
        """An order whose buckets have no guests."""
        return Order(labels, self.buckets, np.zeros((self.buckets, 2), np.uint64), np.full(self.buckets, NOWHERE))

    def _cut(self, labels: Sequence[Labels], cyclic: bool) -> tuple[list[Order], list[list[int]]]:
        """Orders with the guests of their buckets, and how many rows are in each. Claim: pairs where cyclic, couples where not"""
        if self.buckets == 1 or not labels:
            return [self._order(one) for one in labels], [[self.rows]] * len(labels)
        looking = ordered.Looking(tuple(labels), self.buckets, self.unit.column, self.source.numbering)
        seen = self.passes.over(ordered.look, looking, [self.unit.column] if self.unit.column else [])
        counts, least = ordered.merged(seen, len(labels), self.buckets)
        before = [_before(count, cyclic) for count in counts]
        cut = [Order(one, self.buckets, np.array(least[k], np.uint64), before[k]) for k, one in enumerate(labels)]
        return cut, counts.tolist()

    def _units_of_buckets(self, labels: Labels) -> list[int]:
        if self.buckets == 1:
            return [self.units]
        return self._cut([labels], cyclic=False)[1][0] if self._people is None else self._count_people(labels)[0]

    def _count_people(self, labels: Labels) -> tuple[list[int], list[int]]:
        """How many people each bucket has; and for the owner how many have too many rows, how many those are, and all rows."""
        work, layout, way = self._work([]), Layout((), ()), self._order(labels)
        answers = _added(self.passes.shuffled(ordered.count_people, work, layout, (), self.unit.column, [way], self.batch_rows))
        return (answers[:-3], answers[-3:]) if answers else ([0] * self.buckets, [0, 0, 0])

    def __repr__(self) -> str:
        return "SparkEngine()"

    def __reduce__(self) -> Any:
        raise TypeError("an engine stands next to records and is not saved")


def _layout(work: Work) -> Layout:
    return Layout(work.columns, work.conditions)


def _added(answers: Sequence[Sequence[int]]) -> list[int]:
    return [sum(values) for values in zip(*(answer for answer in answers if answer), strict=True)]


def _split(totals: list[int], parts: Sequence[Sum]) -> list[list[int]]:
    found = iter(totals or [0] * sum(part.size for part in parts))
    return [[next(found) for _ in range(part.size)] for part in parts]


def _before(counts: np.ndarray, cyclic: bool = True) -> np.ndarray:
    """For every bucket the one before it that is not empty; NOWHERE where it is the only one.

    Nor has the first bucket one where the order is not cyclic: the last of an odd number would get a partner that has one.
    """
    before, filled = np.full(len(counts), NOWHERE), np.flatnonzero(counts)
    if len(filled) > 1:
        before[filled] = np.roll(filled, 1)
        before[filled[0]] = filled[-1] if cyclic else NOWHERE
    return before
