"""Exact totals over a table: the only code that sees rows.

Totals are Python integers, so they do not depend on the order of rows, the size of batches or where the table lives.
"""

from __future__ import annotations

import contextlib
import itertools
import warnings
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa

from ..errors import DataError, ReleaseFailed
from ..explainers.blocks.functions import BlockFunction
from ..mechanisms import secret_labels
from ..public.rows import Rows
from ..public.schema import Relation, Schema, Unit
from ..query import Blocks, Couples, Joint, Pairs, Records, Sum, parts_of
from .progress import track
from .sandbox import Outcomes
from .tables import CHANGED, Table, check_types, decode, open_table

T = TypeVar("T")
BATCH_ROWS = 1 << 16
BATCH_VALUES = 1 << 22
"""Rows and contributed values held at once; together they bound memory whatever the size of the table."""


STOPPED = (
    "the release stopped while rows were read; the charge stays spent and nothing was released. "
    "The reason is not shown because it may depend on the data; check that the file is complete."
)


def shielded(work: Callable[[], T]) -> T:
    """Do what touches exact totals. Whatever goes wrong inside says nothing about why: the reason may be data."""
    interrupted, message = False, STOPPED
    try:
        # NumPy warns about cells it met, and a warning would be seen.
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return work()
    except KeyboardInterrupt:
        interrupted = True
    except ReleaseFailed as failure:
        # User code could raise one too, with a row in its message: only words known to be ours pass.
        message = CHANGED if str(failure) == CHANGED else STOPPED
    except BaseException:
        pass
    # Raised outside the handlers, so that not even the context or the frames of the error hold what went wrong.
    if interrupted:
        raise KeyboardInterrupt
    raise ReleaseFailed(message)


class Engine:
    """A table opened under a schema, a neighbour relation and a unit."""

    def __init__(self, data: Any, schema: Schema, relation: Relation, unit: Unit, batch_rows: int = BATCH_ROWS):
        self.table: Table = open_table(data, [*schema, *([unit.column] if unit.column else [])], keep=unit.column is not None)
        self.schema, self.relation, self.unit, self.batch_rows = schema, relation, unit, batch_rows
        check_types(self.table, schema, unit.column)
        self.outcomes: Outcomes | None = None
        self.person: np.ndarray | None = None
        self.parts: np.ndarray | None = None
        if unit.column:
            self.person, self.parts = _people(self.table, unit)

    @property
    def units(self) -> int:
        """Number of records, or of people where a unit column is declared. Public under replace, secret under add-remove."""
        if self.person is None:
            return self.table.rows
        return int(self.person.max(initial=-1)) + 1

    def totals(self, query: Sum | Joint) -> list[int]:
        """The exact integer totals of a query. Whatever goes wrong inside says nothing about why: the reason may be data."""
        self.table.check_unchanged()
        return shielded(lambda: [value for part in parts_of(query) for value in self._sum(part)])

    def _sum(self, part: Sum) -> list[int]:
        total = [0] * part.size
        for contributions, parts in self._contributions(part):
            total = [a + b for a, b in zip(total, part.bound.totals(contributions, parts))]
        return total

    def _contributions(self, part: Sum) -> Iterator[tuple[Any, np.ndarray | None]]:
        if isinstance(part.over, Records):
            size = max(1024, min(self.batch_rows, BATCH_VALUES // part.bound.width))
            size = min(size, self.batch_rows)
            batches = track(self._rows(part.columns, size), -(-self.table.rows // size), "reading records")
            return ((part.map(rows), rows.parts) for rows in batches if len(rows))
        whole = self._whole(part.columns)
        return self._blocks(part, part.over, whole) if isinstance(part.over, Blocks) else self._pairs(part, part.over, whole)

    def _rows(self, columns: tuple[str, ...], size: int) -> Iterator[Rows]:
        names = list(columns) or [next(iter(self.schema))]
        start = 0
        for batch in self.table.batches(names, size):
            count = len(batch[names[0]])
            parts = None if self.parts is None else self.parts[start : start + count]
            start += count
            yield Rows(self.schema, {name: decode(self.schema[name], batch[name]) for name in names}, parts)

    def _whole(self, columns: tuple[str, ...]) -> Rows:
        # Pairing and blocks need rows in another order: the declared columns of the query are held in memory.
        batches = list(self._rows(columns, self.batch_rows))
        names = list(columns) or [next(iter(self.schema))]
        merged = {name: np.concatenate([b.columns[name] for b in batches]) if batches else np.empty(0) for name in names}
        return Rows(self.schema, merged, self.parts)

    def _pairs(self, part: Sum, over: Pairs | Couples, whole: Rows) -> Iterator[tuple[Any, np.ndarray | None]]:
        size = max(1024, min(self.batch_rows, BATCH_VALUES // part.bound.width))
        starts = [start for _ in range(over.repeats) for start in range(0, len(whole), size)]
        receivers = donors = np.empty(0, dtype=np.int64)
        for start in track(starts, len(starts), "reading pairs"):
            if not start:
                if isinstance(over, Pairs):
                    receivers, donors = _pairing(len(whole), self.person, self.parts)
                else:
                    receivers, donors = self._matching(len(whole))
            own = whole.take(receivers[start : start + size])
            if len(own):
                # Every repeat may use its part of the set, as every row of a person may.
                share = own.parts if over.repeats == 1 else over.repeats * (1 if own.parts is None else own.parts)
                yield part.map(own, whole.take(donors[start : start + size])), _per_row(share, len(own))

    def _blocks(self, part: Sum, over: Blocks, whole: Rows) -> Iterator[tuple[Any, np.ndarray | None]]:
        person = np.arange(len(whole)) if self.person is None else self.person
        kept = np.ones(len(whole), dtype=bool) if self.parts is None else self.parts > 0
        labels = _block_labels(self.units, over.count, self.relation)
        block = np.where(kept, labels[np.maximum(person, 0)] if len(labels) else 0, -1)
        order = np.argsort(block, kind="stable")
        cuts = np.searchsorted(block[order], np.arange(over.count + 1))
        blocks = (self._block(whole, order[start:stop]) for start, stop in itertools.pairwise(cuts))
        if isinstance(part.map, BlockFunction):
            answers = part.map.over(blocks, over.count, self._note)
        else:
            answers = (part.map(rows) for rows in track(blocks, over.count, "reading blocks"))
        for _, answer in zip(range(over.count), answers, strict=True):
            yield np.asarray(answer, dtype=float)[None, :], None

    def _matching(self, rows: int) -> tuple[np.ndarray, np.ndarray]:
        """First and second of every couple, by the order of secret labels. Claim: couples"""
        if self.relation != "replace" or self.person is not None:
            raise AssertionError("couples are of records whose number is public")
        order = np.argsort(secret_labels(rows), kind="stable")
        return order[: rows // 2], order[rows // 2 : 2 * (rows // 2)]

    def _block(self, whole: Rows, index: np.ndarray) -> Rows:
        rows = whole.take(index)
        rows.parts = None
        return rows

    def _note(self, outcomes: Outcomes) -> None:
        self.outcomes = outcomes


def _per_row(share: Any, rows: int) -> np.ndarray | None:
    return None if share is None else np.broadcast_to(np.asarray(share), rows)


def _people(table: Table, unit: Unit) -> tuple[np.ndarray, np.ndarray]:
    """Per row: which person it belongs to (-1: none), and how many rows that person keeps (0: this row is dropped)."""
    codes = None
    with contextlib.suppress(Exception):
        codes = _person_codes(table, str(unit.column))
    if codes is None:
        raise DataError("the id column could not be read; check that the file is complete and its ids are of one type.")
    return codes, _kept_rows(codes, unit.max_rows)


def _person_codes(table: Table, column: str) -> np.ndarray:
    flat: list[pa.Array] = []
    for batch in table.batches([column], 1 << 20):
        piece = batch[column]
        chunks = piece.chunks if isinstance(piece, pa.ChunkedArray) else [piece]
        flat += [chunk.dictionary_decode() if pa.types.is_dictionary(chunk.type) else chunk for chunk in chunks]
    if not flat:
        return np.empty(0, dtype=np.int64)
    codes = pd.factorize(pa.chunked_array(flat).to_pandas())[0]  # nulls and NaN are no ids: -1
    return codes.astype(np.int64)


def _kept_rows(person: np.ndarray, max_rows: int) -> np.ndarray:
    """Each row draws a secret label and the `max_rows` smallest of a person stay: content plays no part."""
    order = np.lexsort((secret_labels(len(person)), person))
    in_order = person[order]
    first = np.r_[True, in_order[1:] != in_order[:-1]] if len(person) else np.empty(0, dtype=bool)
    begin = np.maximum.accumulate(np.where(first, np.arange(len(person)), 0))
    rank = np.empty(len(person), dtype=np.int64)
    rank[order] = np.arange(len(person)) - begin
    count = np.bincount(person[person >= 0], minlength=1)
    return np.where((person >= 0) & (rank < max_rows), np.minimum(count[np.maximum(person, 0)], max_rows), 0)


def _pairing(rows: int, person: np.ndarray | None, parts: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Receivers and donors: the donor is the next one in the cyclic order of secret labels. Claim: pairs

    Independent labels make this right under both relations: an insertion touches its own term and one receiver.
    """
    if person is None or parts is None:
        order = np.argsort(secret_labels(rows), kind="stable")
        return order, np.roll(order, -1)
    kept = np.flatnonzero(parts > 0)
    by_person = kept[np.argsort(person[kept], kind="stable")]
    owners, begin, count = np.unique(person[by_person], return_index=True, return_counts=True)
    order = np.argsort(secret_labels(len(owners)), kind="stable")
    donor = np.empty(len(owners), dtype=np.int64)
    donor[order] = np.roll(order, -1)
    which = np.repeat(np.arange(len(owners)), count)
    rank = np.arange(len(by_person)) - begin[which]
    given = donor[which]
    return by_person, by_person[begin[given] + rank % count[given]]


def _block_labels(units: int, blocks: int, relation: Relation) -> np.ndarray:
    """Which block each unit falls in. Claim: blocks

    A balanced shuffle needs the number of units to be public; under add-remove every unit draws its block by itself.
    """
    labels = secret_labels(units)
    if relation == "replace":
        rank = np.empty(units, dtype=np.int64)
        rank[np.argsort(labels, kind="stable")] = np.arange(units)
        return rank * blocks // max(units, 1)
    return (labels % np.uint64(blocks)).astype(np.int64)
