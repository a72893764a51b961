"""The engine for a Spark DataFrame: rows stay on executors, and packed integers come back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...errors import ReleaseFailed
from ...public.asking import DEFAULT
from ...public.schema import Relation, Schema, Unit
from ...query import Joint, Records, Sum, parts_of
from ..kept import Kept
from ..kernel import BATCH_ROWS, batch_size
from ..sandbox import Outcomes
from ..shield import CHANGED, STOPPED, shielded
from . import tasks
from .jobs import collected
from .payload import pickled
from .records import OfRecords, over_records
from .settings import refuse_settings, versions
from .source import Source


class SparkEngine:
    """A Spark DataFrame, classic or Connect, opened under a schema, a neighbour relation and a unit."""

    def __init__(self, data: Any, schema: Schema, relation: Relation, unit: Unit, batch_rows: int = BATCH_ROWS):
        self.schema, self.relation, self.unit, self.batch_rows = schema, relation, unit, batch_rows
        self.source = Source(data, schema, unit.column)
        self.outcomes: Outcomes | None = None
        self.asking = DEFAULT
        self.units = self.rows

    @property
    def rows(self) -> int:
        return self.source.rows

    def check_unchanged(self) -> None:
        refuse_settings(self.source.spark)
        self.source.check_unchanged()

    def totals(self, query: Sum | Joint, kept: Kept | None = None) -> list[int]:
        return shielded(lambda: [value for found in self._totals(parts_of(query)) for value in found])

    def _totals(self, parts: Sequence[Sum]) -> list[list[int]]:
        """Sums over records share one pass; each of the others is a job of its own."""
        self.check_unchanged()
        together = [part for part in parts if isinstance(part.over, Records)]
        found = iter(self._of_records(together) if together else ())
        totals = [next(found) for p in parts if isinstance(p.over, Records)]
        # Rows of another table may have been given the numbers of this one's.
        self.source.check_unchanged()
        return totals

    def _of_records(self, parts: Sequence[Sum]) -> list[list[int]]:
        columns = tuple(dict.fromkeys(name for part in parts for name in part.columns))
        sizes = [batch_size(self.batch_rows, part.bound.width) for part in parts]
        work = OfRecords(self.schema, tuple(parts), tuple(sizes), columns, self.asking, self.source.numbering)
        return _split(self._run(over_records, work, columns), parts)

    def _run(self, body: tasks.Body, work: Any, columns: Sequence[str]) -> list[int]:
        """The sums of what all partitions answer; every row was read exactly once, or there is no answer."""
        task = tasks.Task(body, pickled(work), self.source.numbering.key, versions())
        answers = collected(self.source.selected(columns).mapInArrow(task, tasks.ANSWER), "reading records")
        self._check(answers)
        assert answers is not None
        self.source.check_rows(sum(a["rows"] for a in answers), sum(a["ids"] for a in answers))
        return [sum(values) for values in zip(*(tasks.unpacked(bytes(a["answer"])) for a in answers))]

    def _check(self, answers: list[Any] | None) -> None:
        if answers is None:
            raise ReleaseFailed(STOPPED)
        ended = {answer["status"] for answer in answers}
        if tasks.INTERRUPTED in ended:
            raise KeyboardInterrupt
        if tasks.CHANGED in ended:
            raise ReleaseFailed(CHANGED)
        if ended - {tasks.DONE}:
            raise ReleaseFailed(STOPPED)

    def __repr__(self) -> str:
        return "SparkEngine()"

    def __reduce__(self) -> Any:
        raise TypeError("an engine stands next to records and is not saved")


def _split(totals: list[int], parts: Sequence[Sum]) -> list[list[int]]:
    found = iter(totals or [0] * sum(part.size for part in parts))
    return [[next(found) for _ in range(part.size)] for part in parts]
