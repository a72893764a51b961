"""Pairs, couples and blocks of tables that do not fit into memory: rows go through files, bucket by bucket of labels.

The functions in the middle say what is written for a row and what a bucket is turned into; they are those of every engine that
has such files. What this process alone does is at the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Protocol

import numpy as np

from ..mechanisms.labels import Labels
from ..public.rows import Rows
from ..public.schema import Relation
from ..query import Pairs
from . import spill
from .kernel import Work
from .orders import bucket_of, bucket_of_block, count_units, division, matching, pairing
from .spill import LABEL, NUMBER, PARTS, Arrays, Fields, Shuffle

COLUMN, CONDITION = "column ", "condition "
"""Before the names of fields that hold the decoded cells of a column, or their conditions."""


def fields_of(work: Work, people: bool) -> Fields:
    """What is written for a row."""
    named = {LABEL: ("<u8", 2), NUMBER: ("<i8", 1), **({PARTS: ("<i8", 1)} if people else {})}
    columns = {COLUMN + name: ("<f8", 1) for name in work.columns}
    return {**named, **columns, **{CONDITION + name: ("|u1", 1) for name in work.conditions}}


def arrays_of(rows: Rows, labels: np.ndarray, start: int) -> Arrays:
    """The rows of a batch, of which those stay that count."""
    found = {LABEL: labels, NUMBER: np.arange(start, start + len(rows))}
    found |= {COLUMN + name: column for name, column in rows.columns.items()}
    found |= {CONDITION + name: condition for name, condition in rows.conditions.items()}
    if rows.parts is None:
        return found
    stay = rows.parts > 0
    return {name: array[stay] for name, array in {**found, PARTS: rows.parts}.items()}


def rows_of(work: Work, arrays: Arrays, index: np.ndarray) -> Rows:
    """Some of the rows that were written."""
    columns = {name: arrays[COLUMN + name][index] for name in work.columns}
    conditions = {name: arrays[CONDITION + name][index] for name in work.conditions}
    return Rows(work.schema, columns, arrays[PARTS][index] if PARTS in arrays else None, work.asking, conditions)


def pairs_of(work: Work, shuffle: Shuffle, files: Sequence[int], chosen: Sequence[int], size: int) -> Iterator[tuple[Rows, Rows]]:
    """The pairs or couples of which the first is in one of these buckets, some at a time."""
    one_way, first = isinstance(work.sums[0].over, Pairs), np.r_[0, np.cumsum(shuffle.sizes)]
    for bucket, arrays, guests in shuffle.followed(files, chosen, cyclic=one_way):
        labels = arrays[LABEL]
        own, other = pairing(labels, guests) if one_way else matching(labels, int(first[bucket]), guests)
        for start in range(0, len(own), size):
            yield tuple(rows_of(work, arrays, some[start : start + size]) for some in (own, other))  # type: ignore[misc]


def blocks_of(work: Work, shuffle: Shuffle, files: Sequence[int], count: int, relation: Relation, units: int) -> Iterator[Rows]:
    """All blocks, one after another, the rows of each in the order of the table."""
    waiting: list[tuple[np.ndarray, Arrays]] = []
    done = rank = 0
    for bucket in shuffle.occupied:
        arrays = shuffle.read(files, bucket)
        block = division(arrays[LABEL], count, relation, rank, units)
        rank += count_units(arrays[LABEL]) if relation == "replace" else 0
        waiting.append((block, arrays))
        # The last block of a bucket may go on in the next one.
        yield from _complete(work, waiting, done, last := int(block.max()))
        done = last
        waiting = [_rest(block, arrays, last) for block, arrays in waiting]
    yield from _complete(work, waiting, done, count)


def _complete(work: Work, waiting: Sequence[tuple[np.ndarray, Arrays]], first: int, stop: int) -> Iterator[Rows]:
    names = [NUMBER, *(COLUMN + name for name in work.columns)]
    block = np.concatenate([np.empty(0, dtype=np.intp), *(found for found, _ in waiting)])
    arrays = {name: np.concatenate([np.empty(0), *(some[name] for _, some in waiting)]) for name in names}
    order = np.lexsort((arrays[NUMBER], block))
    for start, end in pairwise(np.searchsorted(block[order], np.arange(first, stop + 1))):
        index = order[start:end]
        # A block is one contribution, whoever owns its rows.
        yield Rows(work.schema, {name: arrays[COLUMN + name][index] for name in work.columns}, asking=work.asking)


def _rest(block: np.ndarray, arrays: Arrays, first: int) -> tuple[np.ndarray, Arrays]:
    stay = block >= first
    return block[stay], {name: array[stay] for name, array in arrays.items()}


class Reader(Protocol):
    """What this needs of an engine."""

    relation: Relation
    held: int

    @property
    def rows(self) -> int: ...

    @property
    def units(self) -> int: ...

    def read(self, work: Work, size: int) -> Iterator[Rows]: ...

    def labels(self, labels: Labels, size: int) -> Iterator[np.ndarray]: ...


LARGE = 1 << 18
"""Rows that are written at once."""


def buckets_for(rows: int, work: Work, held: int) -> int:
    """As many as fit into memory together with the one that follows, and what sorting takes."""
    return max(1, -(-8 * rows * (len(work.columns) + 8) // held))


def labelled(batches: Iterable[Rows], labels: Iterator[np.ndarray]) -> Iterator[tuple[Rows, np.ndarray]]:
    """Batches of rows with their labels. Those of rows end where a file does, those of labels need not."""
    waiting = np.empty((0, 2), dtype=np.uint64)
    for rows in batches:
        while len(waiting) < len(rows):
            waiting = np.concatenate([waiting, next(labels)])
        yield rows, waiting[: len(rows)]
        waiting = waiting[len(rows) :]
    if len(waiting) or next(labels, None) is not None:
        raise AssertionError("there are more labels than rows")


def _shuffle(engine: Reader, work: Work, labels: Labels, file: int, blocks: int = 0) -> Shuffle:
    """Write all rows, in one pass."""
    buckets, start, chunks = buckets_for(engine.rows, work, engine.held), 0, []
    fields: Fields = {}
    for rows, found in labelled(engine.read(work, LARGE), engine.labels(labels, LARGE)):
        arrays = arrays_of(rows, found, start)
        fields = fields or fields_of(work, rows.parts is not None)
        place = bucket_of_block(arrays[LABEL], blocks, buckets) if blocks else bucket_of(arrays[LABEL], buckets)
        chunks.append(spill.write(file, 0, start, place, buckets, arrays, fields))
        start += len(rows)
    return Shuffle(fields, buckets, chunks)


def pairs(engine: Reader, work: Work, orders: Iterable[Labels], size: int) -> Iterator[tuple[Rows, Rows]]:
    """The pairs or couples of every order."""
    for labels in orders:
        with spill.new_file() as file:
            shuffle = _shuffle(engine, work, labels, file.fileno())
            yield from pairs_of(work, shuffle, [file.fileno()], shuffle.occupied, size)


def blocks(engine: Reader, work: Work, count: int, labels: Labels) -> Iterator[Rows]:
    """All blocks."""
    with spill.new_file() as file:
        drawn = count if engine.relation != "replace" else 0
        shuffle = _shuffle(engine, work, labels, file.fileno(), drawn)
        yield from blocks_of(work, shuffle, [file.fileno()], count, engine.relation, engine.units)
