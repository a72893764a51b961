"""What runs on executors, next to rows. Nothing but packed integers and one word about how it ended leaves a task.

A task never raises: Spark writes errors of tasks, with what they say, into logs and into the driver's exception. What goes wrong
beside rows becomes the one word STOPPED, which says nothing about why.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ...public.fitted import walks
from ...public.silence import silenced
from ..sandbox.processes import THREADS
from .payload import unpickled
from .settings import versions

DONE, STOPPED, INTERRUPTED, CHANGED, OTHER_VERSIONS = range(5)
"""How a task ended."""

ANSWER = "status int, rows long, ids long, answer binary"
"""How it ended, how many rows it read, the sum of marks of their numbers, and packed integers."""
FIELDS = pa.schema([("status", pa.int32()), ("rows", pa.int64()), ("ids", pa.int64()), ("answer", pa.binary())])

FILE, ROW = "_pellucid_file", "_pellucid_row"
"""Columns beside those of the table: the file that a row is in, as a number, and its place in there."""

WIDTH = 24
"""Bytes of a packed integer; a total that does not fit stops the release."""


def packed(numbers: Iterable[int]) -> bytes:
    """Integers as bytes."""
    return b"".join(int(number).to_bytes(WIDTH, "little", signed=True) for number in numbers)


def unpacked(content: bytes) -> list[int]:
    """Integers from bytes."""
    return [int.from_bytes(content[i : i + WIDTH], "little", signed=True) for i in range(0, len(content), WIDTH)]


def marks(rows: np.ndarray, key: int) -> int:
    """The sum of a mark of every row's number, modulo 2^64: two sets of rows have the same one by an accident of 2^-64.

    The key is of the opening and secret, so that nobody can make rows that fit. The mixing is that of SplitMix64.
    """
    mixed = rows.astype(np.uint64) + np.uint64(key)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return int((mixed ^ (mixed >> np.uint64(31))).sum(dtype=np.uint64))


class Changed(Exception):
    """Rows that were not there when the table was opened."""


@dataclass(frozen=True, repr=False)
class Numbering:
    """The number of every row: files in their order, and rows as they stand in there."""

    files: np.ndarray
    """The files as numbers, sorted."""
    offsets: np.ndarray
    """The number of the first row of each."""
    counts: np.ndarray
    """How many rows each has."""
    key: int
    """Of the marks."""

    def of(self, batch: pa.RecordBatch) -> np.ndarray:
        """The numbers of the rows of a batch."""
        file, row = (batch.column(name).to_numpy(zero_copy_only=False) for name in (FILE, ROW))
        if not len(file):
            return np.empty(0, dtype=np.int64)
        if not len(self.files):
            raise Changed
        # Nearly always all rows of a batch are of one file.
        place = np.searchsorted(self.files, file[0] if (file == file[0]).all() else file)
        place = np.minimum(place, len(self.files) - 1)
        if (self.files[place] != file).any() or (row >= self.counts[place]).any() or (row < 0).any():
            raise Changed
        return self.offsets[place] + row


class Read:
    """What a task has read so far: how many rows, and the sum of their marks."""

    def __init__(self, key: int):
        self.key, self.rows, self.ids = key, 0, 0

    def note(self, numbers: np.ndarray) -> np.ndarray:
        self.rows += len(numbers)
        self.ids = (self.ids + marks(numbers, self.key)) % (1 << 64)
        return numbers


Body = Callable[[Any, Iterator[pa.RecordBatch], Read], Iterable[int]]
"""What a task does with the rows of its partition: its work, the batches, and where to note what was read."""


@dataclass(frozen=True, repr=False)
class Task:
    """One function over the rows of a partition, that answers with integers."""

    body: Body
    work: bytes
    """What it works with, pickled: once for all of its tasks, and loaded once by a process."""
    key: int
    """Of the marks of rows."""
    versions: str
    """The driver's."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        read = Read(self.key)
        status, found = ended(lambda: packed(self.body(loaded(self.work), batches, read)), self.versions)
        yield pa.RecordBatch.from_pylist(
            [{"status": status, "rows": read.rows, "ids": signed(read.ids), "answer": found or b""}], FIELDS
        )


def signed(value: int) -> int:
    """A number below 2^64 as Spark's long."""
    return value - (1 << 64) if value >= 1 << 63 else value


def ended(work: Callable[[], Any], here: str) -> tuple[int, Any]:
    """How a piece of work next to rows ended, and what it gave. Nothing of an error, a warning or a print gets out."""
    if versions_here() != here:
        return OTHER_VERSIONS, versions_here().encode()
    status, found = STOPPED, None
    try:
        with silenced(), np.errstate(all="ignore"), single_threads():
            status, found = DONE, work()
    except KeyboardInterrupt:
        status = INTERRUPTED
    except Changed:
        status = CHANGED
    except BaseException:
        status = STOPPED
    return status, found if status == DONE else None


versions_here = functools.cache(versions)


@contextlib.contextmanager
def single_threads() -> Iterator[None]:
    """One thread for whatever computes inside: a machine has as many tasks as it has cores."""
    with _libraries().limit(limits=1):
        yield


@functools.cache
def _libraries() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


_loaded: dict[bytes, Any] = {}


def loaded(work: bytes) -> Any:
    """What was pickled, the same object for all tasks of a query that this process runs."""
    if work not in _loaded:
        # For libraries that a model brings with it.
        os.environ.update(dict.fromkeys(THREADS, "1"))
        walks.MOST_THREADS = 1
        made = unpickled(work)
        _libraries.cache_clear()
        # Of one query at a time: models can be large.
        _loaded.clear()
        _loaded[work] = made
    return _loaded[work]


def of_size(batches: Iterable[pa.RecordBatch], size: int) -> Iterator[pa.Table]:
    """The same rows, so many at a time: Spark's batches are small, and a model is asked about many rows at once."""
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        while rows >= size:
            whole = pa.Table.from_batches(waiting)
            yield whole.slice(0, size)
            waiting, rows = whole.slice(size).to_batches(), rows - size
    if rows:
        yield pa.Table.from_batches(waiting)


def cells(table: pa.Table, names: Sequence[str]) -> dict[str, pa.ChunkedArray]:
    return {name: table.column(name) for name in names}
