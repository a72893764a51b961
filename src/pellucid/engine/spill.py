"""Rows by bucket, in files without a name: for tables whose pairs, couples, blocks and people do not fit into memory.

Whoever writes puts the rows of a batch in the order of their buckets and appends them, field after field: a chunk. Whoever reads
gathers one bucket from all chunks. Files are unlinked before anything is written to them, so nothing is left of them when the
processes that hold them are gone, however they end.
"""

from __future__ import annotations

import functools
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np

from .orders import first_unit

Arrays = dict[str, np.ndarray]
Fields = Mapping[str, tuple[str, int]]
"""The type of every field, and how many numbers it has for a row."""

LABEL, PARTS, NUMBER = "label", "parts", "number"
"""Fields beside columns, whose names have a prefix."""


def new_file() -> BinaryIO:
    """A file without a name, where temporary files are kept (TMPDIR), readable by this user alone."""
    file: BinaryIO = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115
    return file


@dataclass(frozen=True, eq=False)
class Chunk:
    """Rows of a batch in the order of their buckets."""

    start: int
    """Number of the first row of the batch: chunks are read in this order."""
    file: int
    """Which of the files it is in."""
    offset: int
    cuts: np.ndarray
    """Where each bucket begins, and where the last one ends, in rows."""


def write(to: int, file: int, start: int, bucket: np.ndarray, buckets: int, arrays: Arrays, fields: Fields) -> Chunk:
    """Append the rows of a batch to the file with the descriptor `to`, which all others call number `file`."""
    order = np.argsort(bucket, kind="stable")
    offset = os.lseek(to, 0, os.SEEK_END)
    for name, (kind, _) in fields.items():
        rest = memoryview(np.ascontiguousarray(arrays[name][order], dtype=kind).reshape(-1).view(np.uint8))  # type: ignore[arg-type]
        while rest:
            rest = rest[os.write(to, rest) :]
    return Chunk(start, file, offset, np.searchsorted(bucket[order], np.arange(buckets + 1)))


@dataclass(frozen=True, eq=False)
class Shuffle:
    """What was written, and where: holds no row."""

    fields: Fields
    buckets: int
    chunks: Sequence[Chunk]

    @functools.cached_property
    def sizes(self) -> np.ndarray:
        """Rows of every bucket."""
        none = np.zeros(self.buckets, dtype=np.int64)
        return np.sum([np.diff(chunk.cuts) for chunk in self.chunks], axis=0) if self.chunks else none

    @functools.cached_property
    def occupied(self) -> list[int]:
        """Buckets that have rows, in order."""
        return np.flatnonzero(self.sizes).tolist()

    @functools.cached_property
    def _in_order(self) -> list[Chunk]:
        return sorted(self.chunks, key=lambda chunk: chunk.start)

    def read(self, files: Sequence[int], bucket: int, names: Iterable[str] | None = None) -> Arrays:
        """The rows of a bucket, in the fixed order of the table."""
        wanted, rows = set(self.fields if names is None else names), int(self.sizes[bucket])
        found: Arrays = {}
        for name, (kind, width) in self.fields.items():
            if name in wanted:
                found[name] = np.empty((rows, width) if width > 1 else rows, dtype=kind)
        places = {name: memoryview(array.reshape(-1).view(np.uint8)) for name, array in found.items()}  # type: ignore[arg-type]
        done = 0
        for chunk in self._in_order:
            at, first, last = chunk.offset, int(chunk.cuts[bucket]), int(chunk.cuts[bucket + 1])
            for name, (kind, width) in self.fields.items():
                size = np.dtype(kind).itemsize * width
                if name in places and last > first:
                    _fill(files[chunk.file], places[name][done * size : (done + last - first) * size], at + first * size)
                at += int(chunk.cuts[-1]) * size
            done += last - first
        return found

    def followed(self, files: Sequence[int], chosen: Sequence[int], cyclic: bool) -> Iterator[tuple[int, Arrays, int]]:
        """(bucket, its rows and behind them those of the unit that follows, how many these guests are).

        `chosen` are occupied buckets in order. The last of all is followed by the first where the order is cyclic.
        """
        occupied = self.occupied
        ahead: tuple[int, Arrays] | None = None
        for bucket in chosen:
            own = ahead[1] if ahead is not None and ahead[0] == bucket else self.read(files, bucket)
            place = occupied.index(bucket) + 1
            ahead = None
            if len(occupied) == 1 or (place == len(occupied) and not cyclic):
                yield bucket, own, 0
                continue
            after = occupied[place % len(occupied)]
            ahead = after, self.read(files, after)
            guests = first_unit(ahead[1][LABEL])
            yield bucket, {name: np.concatenate([own[name], ahead[1][name][guests]]) for name in own}, len(guests)


def _fill(file: int, place: memoryview, offset: int) -> None:
    while place:
        read = os.preadv(file, [place], offset)
        if not read:
            raise OSError("a temporary file is shorter than what was written to it")
        place, offset = place[read:], offset + read
