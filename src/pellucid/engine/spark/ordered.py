"""What is done with a bucket: sums over people, pairs, couples and blocks. Runs on executors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from ...mechanisms.labels import Labels
from ...public.rows import Rows
from ...public.schema import Relation
from ...query import Pairs
from ...query.functions import BlockFunction
from .. import kernel, orders
from ..ids import labels_of_ids
from ..sandbox import Outcomes
from .shuffle import Held, Layout, Packets, grouped, packet
from .tasks import Numbering, Read, of_size


@dataclass(frozen=True, repr=False)
class People:
    """Which rows of a person stay, where units are people."""

    rows: Labels
    """Those of rows, under the key of the opening."""
    max_rows: int

    def kept(self, held: Held) -> tuple[Held, np.ndarray]:
        """The rows that stay of some people, all of whose rows are here, and how many each person keeps."""
        parts, _ = orders.kept_rows(held.labels, self.rows.of_row_numbers(held.numbers), self.max_rows)
        stay = np.flatnonzero(parts)
        return held.take(stay), parts[stay]


@dataclass(frozen=True, repr=False)
class InBuckets:
    """Sums over what is in buckets, with all that is needed to add them up."""

    work: kernel.Work
    relation: Relation
    people: People | None
    buckets: int = 1
    """Buckets of one order."""
    first_ranks: tuple[tuple[int, ...], ...] = ()
    """How many units come before each bucket, by order."""
    units: int = 0

    def staying(self, held: Held) -> tuple[Held, np.ndarray | None]:
        return (held, None) if self.people is None else self.people.kept(held)

    def rows(self, held: Held, parts: np.ndarray | None) -> Rows:
        return Rows(self.work.schema, held.columns, parts, self.work.asking, held.conditions)


def over_people(work: InBuckets, bucket: int, own: Held, guests: Held, read: Read) -> list[int]:
    """Sums over records, each with its person's part."""
    read.note(own.numbers)
    rows, size = work.rows(*work.staying(own)), max(work.work.sizes)
    pieces = (rows.take(slice(start, start + size)) for start in range(0, len(rows), size))
    return [value for found in work.work.of_records(pieces) for value in found]


def over_pairs(work: InBuckets, bucket: int, own: Held, guests: Held, read: Read) -> list[int]:
    """Sums over the pairs or couples of one bucket of one order."""
    read.note(own.numbers)
    (own, parts), (guests, more) = work.staying(own), work.staying(guests)
    held = own.then(guests)
    both = None if parts is None or more is None else np.concatenate([parts, more])
    rows, order, place = work.rows(held, both), *divmod(bucket, work.buckets)
    (part,), (size,) = work.work.sums, work.work.sizes
    if isinstance(part.over, Pairs):
        first, second = orders.pairing(held.labels, len(guests.numbers))
    else:
        first, second = orders.matching(held.labels, work.first_ranks[order][place], len(guests.numbers))
    pairs = ((rows.take(first[i : i + size]), rows.take(second[i : i + size])) for i in range(0, len(first), size))
    return work.work.of_pairs(pairs)[0]


@dataclass(frozen=True, repr=False)
class Dividing:
    """Rows on their way from a bucket of labels to the one of their block."""

    work: InBuckets
    layout: Layout
    blocks: int
    tasks: int
    """Buckets of blocks."""


def divide(dividing: Dividing, bucket: int, own: Held, guests: Held, read: Read) -> Packets:
    """The rows that stay, each with its block in the place of its label."""
    work = dividing.work
    read.note(own.numbers)
    held, _ = work.staying(own)
    block = orders.division(held.labels, dividing.blocks, work.relation, work.first_ranks[0][bucket], work.units)
    sent = replace(held, labels=np.stack([block, block], axis=1).astype(np.uint64))
    return [packet(key, dividing.layout.pack(sent, index)) for key, index in grouped(block * dividing.tasks // dividing.blocks)]


def over_blocks(dividing: Dividing, bucket: int, own: Held, guests: Held, read: Read) -> list[int]:
    """The sum over the blocks of one bucket, and what became of a user's function on them."""
    work, blocks = dividing.work, range(*_blocks_of(bucket, dividing.blocks, dividing.tasks))
    if work.relation == "replace":
        # The stage before has noted them, and left out those that go.
        held, block = own, own.labels[:, 0].astype(np.intp)
    else:
        read.note(own.numbers)
        held, _ = work.staying(own)
        block = orders.drawn_block(held.labels, dividing.blocks)
    places = dict(grouped(block))
    nobody = np.empty(0, dtype=np.intp)
    rows = Rows(work.work.schema, held.columns, asking=work.work.asking)
    outcomes = [Outcomes()]
    (part,) = work.work.sums
    if isinstance(part.map, BlockFunction):
        # As many at once as there are tasks on this machine, and no more.
        part = replace(part, map=replace(part.map, limits=replace(part.map.limits, workers=1)))
    each = (rows.take(np.sort(places.get(b, nobody))) for b in blocks)
    found = kernel.total(part, kernel.over_blocks(part, each, len(blocks), outcomes.append))
    last = outcomes[-1]
    return [*found, last.blocks, last.answered, last.failed, last.slow, last.memory]


def _blocks_of(bucket: int, blocks: int, tasks: int) -> tuple[int, int]:
    """The first block of a bucket, and of the next: those b with b * tasks // blocks == bucket."""
    return -(-bucket * blocks // tasks), -(-(bucket + 1) * blocks // tasks)


@dataclass(frozen=True, repr=False)
class Looking:
    """A first look at orders: how many rows a bucket has, and its smallest label."""

    labels: tuple[Labels, ...]
    buckets: int
    ids: str | None
    numbering: Numbering


LARGEST = (1 << 64) - 1


def look(looking: Looking, batches: Iterator[pa.RecordBatch], read: Read) -> list[int]:
    """For every order and bucket of it: rows, and the smallest label in two halves."""
    counts = np.zeros((len(looking.labels), looking.buckets), dtype=np.int64)
    least = np.full((len(looking.labels), looking.buckets, 2), LARGEST, dtype=np.uint64)
    for table in of_size(batches, kernel.BATCH_ROWS):
        numbers = read.note(looking.numbering.of(table))
        for k, labels in enumerate(looking.labels):
            found = labels.of_row_numbers(numbers)
            if looking.ids is not None:
                found, named = labels_of_ids(labels, table.column(looking.ids))
                found = found[named]
            for bucket, index in grouped(orders.bucket_of(found, looking.buckets)):
                counts[k, bucket] += len(index)
                candidates = np.concatenate([found[index], least[k, bucket][None]])
                least[k, bucket] = candidates[orders.first_unit(candidates)[0]]
    flat = np.concatenate([counts[:, :, None].astype(object), least.astype(object)], axis=2)
    return [int(value) for value in flat.ravel()]


def count_people(work: InBuckets, bucket: int, own: Held, guests: Held, read: Read) -> list[int]:
    """How many people a bucket has, at its place; for the owner how many have too many rows, how many those are, and all rows."""
    read.note(own.numbers)
    assert work.people is not None
    _, rows = orders.kept_rows(own.labels, work.people.rows.of_row_numbers(own.numbers), work.people.max_rows)
    surplus = rows[rows > work.people.max_rows] - work.people.max_rows
    counts = [0] * work.buckets
    counts[bucket] = len(rows)
    return [*counts, len(surplus), int(surplus.sum()), len(own.numbers)]


def merged(answers: Sequence[Sequence[int]], orders_: int, buckets: int) -> tuple[np.ndarray, list[list[tuple[int, int]]]]:
    """What all tasks saw of orders: counts, and the smallest labels."""
    counts = np.zeros((orders_, buckets), dtype=np.int64)
    least = [[(LARGEST, LARGEST)] * buckets for _ in range(orders_)]
    for answer in answers:
        seen = iter(answer)
        for k in range(orders_):
            for bucket in range(buckets):
                counts[k, bucket] += next(seen)
                least[k][bucket] = min(least[k][bucket], (next(seen), next(seen)))
    return counts, least
