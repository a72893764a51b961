"""What an owner's own process sees of rows in Spark: records for streams, and exact counts of cells. Never part of a release."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ...public.schema import Schema
from .. import kernel
from ..check import Counts
from .ordered import InBuckets
from .shuffle import Held, Layout, Packets, packet
from .tasks import Numbering, Read, cells, of_size

FEWER_TEXTS = 10_000
"""Different texts of a column that a task tells of."""


@dataclass(frozen=True, repr=False)
class Show:
    """Decoded rows whose numbers are in a range, in packets."""

    schema: Schema
    layout: Layout
    numbering: Numbering
    batch_rows: int

    def packets(self, batches: Iterator[pa.RecordBatch], read: Read) -> Iterator[Packets]:
        for table in of_size(batches, self.batch_rows):
            numbers = read.note(self.numbering.of(table))
            decoded = kernel.decoded(self.schema, cells(table, self.layout.columns), conditions=self.layout.conditions)
            held = Held(numbers, np.zeros((len(numbers), 2), np.uint64), dict(decoded.columns), decoded.conditions)
            yield [packet(0, self.layout.pack(held, np.arange(len(numbers))))]


@dataclass(frozen=True, repr=False)
class Count:
    """Cells that are not as declared, as packets."""

    schema: Schema
    numbering: Numbering
    batch_rows: int

    def packets(self, batches: Iterator[pa.RecordBatch], read: Read) -> Iterator[Packets]:
        def tables() -> Iterator[dict[str, pa.ChunkedArray]]:
            for table in of_size(batches, self.batch_rows):
                read.note(self.numbering.of(table))
                yield cells(table, list(self.schema))

        yield [packet(0, written(Counts.of(tables(), self.schema)))]


def written(counts: Counts) -> bytes:
    counts.forget(FEWER_TEXTS)
    found = {name: column.tolist() for name, column in counts.found.items()}
    texts = {name: [[*key, times] for key, times in said.items()] for name, said in counts.texts.items()}
    return json.dumps([counts.rows, found, texts]).encode()


def read_counts(content: bytes) -> Counts:
    rows, found, texts = json.loads(content)
    said = {name: Counter({(wrong, text): times for wrong, text, times in listed}) for name, listed in texts.items()}
    return Counts(rows, {name: np.array(column, dtype=np.int64) for name, column in found.items()}, said)


def parts_of_rows(work: InBuckets, bucket: int, own: Held, guests: Held, read: Read) -> Packets:
    """The numbers of the rows that stay, and how many rows their people keep."""
    read.note(own.numbers)
    held, parts = work.staying(own)
    assert parts is not None
    return [packet(0, held.numbers.astype("<i8").tobytes() + parts.astype("<i8").tobytes())]


def parts_from(contents: list[bytes], rows: int, most: int) -> np.ndarray:
    """For every row how many rows its person keeps; 0 for a row that goes."""
    parts = np.zeros(rows, dtype=np.min_scalar_type(most))
    for content in contents:
        numbers, kept = np.frombuffer(content, "<i8").reshape(2, -1)
        parts[numbers] = kept
    return parts
