"""Rows to where they are needed: by ranges of secret labels, or by blocks.

A task of the first stage decodes its rows, and sends them in packets: one binary cell for all rows of a batch that go to the same
bucket, so that Spark moves few large cells in place of many small ones. A task of the second has whole buckets. Labels and keys
travel inside packets and payloads, never in expressions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ...mechanisms.labels import Labels
from ...public.schema import Schema
from .. import kernel, orders
from ..ids import labels_of_ids
from .tasks import DONE, FIELDS, Numbering, Read, cells, ended, loaded, of_size, packed, signed

PACKETS = "bucket int, guest boolean, status int, rows long, ids long, content binary"
"""Where a packet goes, whether its rows are guests there, and what stands for rows that go nowhere."""
PACKET = pa.schema(
    [
        ("bucket", pa.int32()),
        ("guest", pa.bool_()),
        ("status", pa.int32()),
        ("rows", pa.int64()),
        ("ids", pa.int64()),
        ("content", pa.binary()),
    ]
)
NOWHERE = -1
"""The bucket of what a task has to say besides rows: how it ended, and how many rows it left out."""


@dataclass(frozen=True, repr=False)
class Layout:
    """What a packet holds of every row: its number, its unit's label, decoded cells and their conditions."""

    columns: tuple[str, ...]
    conditions: tuple[str, ...]

    @property
    def width(self) -> int:
        return 24 + 8 * len(self.columns) + len(self.conditions)

    def pack(self, held: Held, index: np.ndarray) -> bytes:
        """Some rows as bytes, column after column."""
        arrays = [held.numbers, held.labels, *held.columns.values(), *held.conditions.values()]
        return b"".join(np.ascontiguousarray(array[index]).tobytes() for array in arrays)

    def unpack(self, packets: Sequence[bytes]) -> Held:
        """All rows of some packets, in the fixed order of the table."""
        parts = [self._unpacked(memoryview(packet)) for packet in packets]
        numbers = np.concatenate([np.empty(0, np.int64), *(part[0] for part in parts)])
        order = np.argsort(numbers, kind="stable")

        def joined(place: int, empty: np.ndarray) -> np.ndarray:
            return np.concatenate([empty, *(part[place] for part in parts)])[order]

        labels, after = joined(1, np.empty((0, 2), np.uint64)), 2 + len(self.columns)
        columns = {name: joined(2 + j, np.empty(0)) for j, name in enumerate(self.columns)}
        conditions = {name: joined(after + j, np.empty(0, np.uint8)) for j, name in enumerate(self.conditions)}
        return Held(numbers[order], labels, columns, conditions)

    def _unpacked(self, packet: memoryview) -> list[np.ndarray]:
        rows, found, start = len(packet) // self.width, [], 0
        kinds = [("<i8", 1), ("<u8", 2), *[("<f8", 1)] * len(self.columns), *[("u1", 1)] * len(self.conditions)]
        for kind, width in kinds:
            array = np.frombuffer(packet, kind, rows * width, start)
            found.append(array.reshape(-1, 2) if width == 2 else array)
            start += array.nbytes
        return found


@dataclass(frozen=True, eq=False, repr=False)
class Held:
    """Decoded rows with their numbers and the labels of their units."""

    numbers: np.ndarray
    labels: np.ndarray
    columns: dict[str, np.ndarray]
    conditions: dict[str, np.ndarray]

    def take(self, index: np.ndarray) -> Held:
        columns = {name: column[index] for name, column in self.columns.items()}
        conditions = {name: found[index] for name, found in self.conditions.items()}
        return Held(self.numbers[index], self.labels[index], columns, conditions)

    def then(self, others: Held) -> Held:
        """These rows, and others behind them."""
        columns = {name: np.concatenate([column, others.columns[name]]) for name, column in self.columns.items()}
        conditions = {name: np.concatenate([c, others.conditions[name]]) for name, c in self.conditions.items()}
        numbers, labels = np.concatenate([self.numbers, others.numbers]), np.concatenate([self.labels, others.labels])
        return Held(numbers, labels, columns, conditions)


@dataclass(frozen=True, repr=False)
class Order:
    """One secret order, cut into buckets: who is first in each, and which bucket comes before."""

    labels: Labels
    buckets: int
    firsts: np.ndarray
    """The smallest label of every bucket; not looked at where there is only one."""
    before: np.ndarray
    """The bucket that has the first unit of this one as a guest; NOWHERE where there is none."""

    def routes(self, labels: np.ndarray, first_key: int) -> Iterator[tuple[int, bool, np.ndarray]]:
        """Which rows go to which bucket, and which of them are guests there."""
        bucket = orders.bucket_of(labels, self.buckets)
        yield from ((key, False, index) for key, index in grouped(bucket, first_key))
        if self.buckets > 1:
            guests = np.flatnonzero((labels == self.firsts[bucket]).all(axis=1) & (self.before[bucket] >= 0))
            yield from ((key, True, guests[index]) for key, index in grouped(self.before[bucket[guests]], first_key))


@dataclass(frozen=True, repr=False)
class ByBlock:
    """Where every unit draws its block by itself: blocks that are together in a task."""

    labels: Labels
    blocks: int
    buckets: int

    def routes(self, labels: np.ndarray, first_key: int) -> Iterator[tuple[int, bool, np.ndarray]]:
        bucket = orders.bucket_of_block(labels, self.blocks, self.buckets)
        yield from ((key, False, index) for key, index in grouped(bucket, first_key))


def grouped(keys: np.ndarray, first: int = 0) -> Iterator[tuple[int, np.ndarray]]:
    """Every key, so many further, with the places that have it."""
    order = np.argsort(keys, kind="stable")
    begin = np.flatnonzero(np.diff(keys[order], prepend=-1)) if len(keys) else np.empty(0, np.intp)
    for start, stop in zip(begin, [*begin[1:], len(keys)]):
        yield int(keys[order[start]]) + first, order[start:stop]


@dataclass(frozen=True, repr=False)
class Scatter:
    """The work of the first stage."""

    schema: Schema
    layout: Layout
    numbering: Numbering
    ids: str | None
    """The id column, where units are people."""
    ways: tuple[Order | ByBlock, ...]
    """The orders that rows are sent by; they share nothing, and their buckets follow each other."""
    batch_rows: int

    def packets(self, batches: Iterator[pa.RecordBatch], read: Read) -> Iterator[Packets]:
        """The packets of each batch."""
        for table in of_size(batches, self.batch_rows):
            numbers = self.numbering.of(table)
            decoded = kernel.decoded(self.schema, cells(table, self.layout.columns), conditions=self.layout.conditions)
            made: Packets = []
            first = 0
            for way in self.ways:
                labelled, named = self._labelled(table, numbers, way.labels)
                held = Held(numbers, labelled, dict(decoded.columns), decoded.conditions)
                # Rows that name nobody are read, in every order, and go nowhere.
                read.note(numbers[~named])
                here = np.flatnonzero(named)
                for bucket, guest, index in way.routes(labelled[here], first):
                    made.append(packet(bucket, self.layout.pack(held, here[index]), guest))
                first += way.buckets
            yield made

    def _labelled(self, table: pa.Table, numbers: np.ndarray, labels: Labels) -> tuple[np.ndarray, np.ndarray]:
        if self.ids is None:
            return labels.of_row_numbers(numbers), np.ones(len(numbers), dtype=bool)
        return labels_of_ids(labels, table.column(self.ids))


Packets = list[dict[str, Any]]


@dataclass(frozen=True, repr=False)
class Scattering:
    """The first stage as Spark calls it."""

    work: bytes
    key: int
    versions: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        read, rounds = Read(self.key), Rounds(lambda: loaded(self.work).packets(batches, read))
        status, packets = ended(rounds.following, self.versions)
        while status == DONE and packets is not None:
            yield pa.RecordBatch.from_pylist(packets, PACKET)
            status, packets = ended(rounds.following, self.versions)
        yield pa.RecordBatch.from_pylist([told(status, read)], PACKET)


class Rounds:
    """What an iterator gives, one piece a call: each is made in silence, and nothing is in silence in between."""

    def __init__(self, begin: Callable[[], Iterator[Any]]):
        self._begin, self._iterator = begin, None  # type: tuple[Callable[[], Iterator[Any]], Iterator[Any] | None]

    def following(self) -> Any:
        """The next piece, or None at the end."""
        if self._iterator is None:
            self._iterator = self._begin()
        return next(self._iterator, None)


def packet(bucket: int, content: bytes, guest: bool = False) -> dict[str, Any]:
    return {"bucket": bucket, "guest": guest, "status": DONE, "rows": 0, "ids": 0, "content": content}


def told(status: int, read: Read) -> dict[str, Any]:
    """What a task says besides rows."""
    return {**packet(NOWHERE, b""), "status": status, "rows": read.rows, "ids": signed(read.ids)}


Body = Callable[[Any, int, Held, Held, Read], Any]
"""What is done with a bucket: the work, its number, its own rows, its guests, and where to note what was read."""


@dataclass(frozen=True, repr=False)
class Gathering:
    """The second stage as Spark calls it: all packets of one bucket, and the integers that become of them."""

    body: Body
    work: bytes
    layout: Layout
    key: int
    versions: str

    def __call__(self, packets: pa.Table) -> pa.Table:
        read, bucket = Read(self.key), packets.column("bucket")[0].as_py()
        status, found = ended(lambda: self._made(bucket, packets, read), self.versions)
        return self._sent(*_in_all(status, packets, read), found)

    def _made(self, bucket: int, packets: pa.Table, read: Read) -> Any:
        if bucket == NOWHERE:
            return ()
        guest, contents = packets.column("guest").to_numpy(), packets.column("content").to_pylist()
        own = self.layout.unpack([content for content, is_guest in zip(contents, guest) if not is_guest])
        guests = self.layout.unpack([content for content, is_guest in zip(contents, guest) if is_guest])
        return self.finished(self.body(loaded(self.work), bucket, own, guests, read))

    @staticmethod
    def finished(made: Any) -> Any:
        return packed(made)

    def _sent(self, status: int, rows: int, ids: int, found: Any) -> pa.Table:
        return pa.Table.from_pylist([{"status": status, "rows": rows, "ids": ids, "answer": found or b""}], FIELDS)


class Resending(Gathering):
    """A second stage whose rows go on, in packets, to a third."""

    @staticmethod
    def finished(made: Any) -> Any:
        return list(made)

    def _sent(self, status: int, rows: int, ids: int, found: Any) -> pa.Table:
        last = {**packet(NOWHERE, b""), "status": status, "rows": rows, "ids": ids}
        return pa.Table.from_pylist([*(found or ()), last], PACKET)


def _in_all(status: int, packets: pa.Table, read: Read) -> tuple[int, int, int]:
    """How a bucket and what was sent to it ended, and what was read in all."""
    rows, ids = sum(packets.column("rows").to_pylist()), sum(packets.column("ids").to_pylist())
    worst = max([status, *packets.column("status").to_pylist()])
    return worst, rows + read.rows, signed((ids + read.ids) % (1 << 64))
