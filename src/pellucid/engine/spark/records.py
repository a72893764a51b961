"""Sums over records, a partition at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from ...public.asking import Asking
from ...public.rows import Rows
from ...public.schema import Schema
from ...query import Sum
from .. import kernel
from .tasks import Numbering, Read, cells, of_size


@dataclass(frozen=True, repr=False)
class OfRecords:
    """Sums over records, with all that is needed to add up a batch of them."""

    schema: Schema
    sums: tuple[Sum, ...]
    sizes: tuple[int, ...]
    columns: tuple[str, ...]
    asking: Asking
    numbering: Numbering


def over_records(work: OfRecords, batches: Iterator[pa.RecordBatch], read: Read) -> list[int]:
    """The totals of one partition."""
    conditions = tuple(dict.fromkeys(name for part in work.sums for name in part.conditions))
    names = work.columns or (next(iter(work.schema)),)

    def shown() -> Iterator[Rows]:
        for table in of_size(batches, max(work.sizes)):
            read.note(work.numbering.of(table))
            yield kernel.decoded(work.schema, cells(table, names), None, work.asking, conditions)

    return [value for found in kernel.over_records(work.sums, shown(), work.sizes) for value in found]
