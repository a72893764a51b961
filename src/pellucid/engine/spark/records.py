"""Sums over records, a partition at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from ...public.rows import Rows
from ..kernel import Work
from .tasks import Numbering, Read, cells, of_size


@dataclass(frozen=True, repr=False)
class OfRecords:
    """Sums over records whose rows have numbers."""

    work: Work
    numbering: Numbering


def over_records(given: OfRecords, batches: Iterator[pa.RecordBatch], read: Read) -> list[int]:
    """The totals of one partition."""
    work = given.work

    def shown() -> Iterator[Rows]:
        for table in of_size(batches, max(work.sizes)):
            read.note(given.numbering.of(table))
            yield work.decoded(cells(table, work.columns))

    return [value for found in work.of_records(shown()) for value in found]
