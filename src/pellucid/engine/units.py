"""Who owns which row, where an id column is declared: settled once, when a table is opened.

Content plays no part in which rows stay: labels come from `mechanisms.labels`, under a key of the opening.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ..errors import DataError
from ..mechanisms import labels as secret
from ..mechanisms.labels import Labels
from . import spill
from .ids import labels_of_ids
from .orders import bucket_of, kept_rows

HELD = 1 << 26
"""Numbers that are held at once at most, where a table is larger than memory: half a gigabyte."""
PER_ROW = 16
"""Numbers that finding people takes for a row."""


@dataclass(frozen=True, eq=False)
class People:
    """Whose the rows are, by the id column."""

    parts: np.ndarray
    """For every row how many rows its person keeps; 0 for a row that is dropped."""
    count: int
    """People."""
    without: int
    """Rows without an id."""
    above: int
    """People with more rows than count."""
    left_out: int
    """Rows of theirs that are left out for it."""

    def parts_of(self, start: int, stop: int) -> np.ndarray:
        """The parts of some rows, wide enough to compute with."""
        return self.parts[start:stop].astype(np.int64)


def people_of(ids: Iterable[pa.Array | pa.ChunkedArray], rows: int, max_rows: int, held: int = HELD) -> People:
    """The people of an id column of so many rows, of whom each keeps at most so many rows. Claim: person-average"""
    found = None
    with contextlib.suppress(Exception):
        found = _people_of(ids, rows, max_rows, secret.fresh(), max(1, -(-rows * PER_ROW // held)))
    if found is None:
        raise DataError("the id column could not be read; check that the file is complete and its ids are of one type.")
    return found


Owners = tuple[np.ndarray, np.ndarray]
"""Labels of the owners of some rows, and the numbers of these rows."""


def _people_of(ids: Iterable[pa.Array | pa.ChunkedArray], rows: int, max_rows: int, labels: Labels, buckets: int) -> People:
    parts = np.zeros(rows, dtype=np.min_scalar_type(max_rows))
    people = named = above = left_out = 0
    for owners, numbers in _in_buckets(_owners(ids, labels), buckets):
        parts[numbers], sizes = kept_rows(owners, labels.of_row_numbers(numbers), max_rows)
        surplus = sizes[sizes > max_rows] - max_rows
        people, named = people + len(sizes), named + len(numbers)
        above, left_out = above + len(surplus), left_out + int(surplus.sum())
    return People(parts, people, rows - named, above, left_out)


def _owners(ids: Iterable[pa.Array | pa.ChunkedArray], labels: Labels) -> Iterator[Owners]:
    start = 0
    for some in ids:
        owners, named = labels_of_ids(labels, some)
        yield owners[named], start + np.flatnonzero(named)
        start += len(some)


def _in_buckets(owners: Iterable[Owners], buckets: int) -> Iterator[Owners]:
    """The same rows, all of a person together: in one piece, or in pieces that went through a file."""
    if buckets == 1:
        every = [(np.empty((0, 2), dtype=np.uint64), np.empty(0, dtype=np.int64)), *owners]
        yield np.concatenate([some for some, _ in every]), np.concatenate([numbers for _, numbers in every])
        return
    fields = {spill.LABEL: ("<u8", 2), spill.NUMBER: ("<i8", 1)}
    with spill.new_file() as file:
        chunks: list[spill.Chunk] = []
        for some, numbers in owners:
            arrays = {spill.LABEL: some, spill.NUMBER: numbers}
            chunks.append(spill.write(file.fileno(), 0, len(chunks), bucket_of(some, buckets), buckets, arrays, fields))
        shuffle = spill.Shuffle(fields, buckets, chunks)
        for bucket in shuffle.occupied:
            arrays = shuffle.read([file.fileno()], bucket)
            yield arrays[spill.LABEL], arrays[spill.NUMBER]
