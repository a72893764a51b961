"""Who owns which row, and what secret labels decide: rows that stay, pairs, couples and blocks.

Content plays no part in any of it: labels come from `mechanisms.secret_labels`, one for each row or unit, in the order of rows.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import DataError
from ..mechanisms import secret_labels
from ..public.schema import Relation
from .decode import is_text


@dataclass(frozen=True, eq=False)
class People:
    """Who owns which row, where an id column is declared."""

    person: np.ndarray
    """For every row the number of its person; -1 without an id."""
    parts: np.ndarray
    """For every row how many rows its person keeps; 0 for a row that is dropped."""

    @property
    def count(self) -> int:
        return int(self.person.max(initial=-1)) + 1


def people_of(ids: Iterable[pa.Array | pa.ChunkedArray], max_rows: int) -> People:
    """The people of an id column, of whom each keeps at most so many rows. Claim: person-average

    Ids are compared exactly, in the type they have: whole numbers as numbers, text byte by byte ("1", "01" and " 1" are three
    people). An empty cell, and text that is empty or nothing but ASCII white space, is no id.
    """
    person = None
    with contextlib.suppress(Exception):
        person = _numbered(ids)
    if person is None:
        raise DataError("the id column could not be read; check that the file is complete and its ids are of one type.")
    return People(person, _kept_rows(person, max_rows))


def _numbered(ids: Iterable[pa.Array | pa.ChunkedArray]) -> np.ndarray:
    """For every row the number of its person, in the order of rows; -1 without an id."""
    chunks = itertools.chain.from_iterable(piece.chunks if isinstance(piece, pa.ChunkedArray) else [piece] for piece in ids)
    exact = [_exact(chunk) for chunk in chunks if len(chunk)]
    if not exact:
        return np.empty(0, dtype=np.int64)
    # The chunks of the result share one dictionary, in the order in which its values are met.
    encoded = pa.chunked_array(exact).dictionary_encode().chunks
    codes = np.concatenate([pc.fill_null(chunk.indices, -1).to_numpy(zero_copy_only=False) for chunk in encoded])
    blank = _blank(encoded[0].dictionary)
    if not blank.any():
        return codes.astype(np.int64)
    # The last entry is for rows without an id, whose code is -1.
    number = np.append(np.where(blank, -1, np.cumsum(~blank) - 1), -1)
    return number[codes]


def _exact(ids: pa.Array) -> pa.Array:
    """The ids in a type whose values Arrow tells apart exactly."""
    kind = ids.type
    if pa.types.is_dictionary(kind):
        return pc.take(_exact(ids.dictionary), ids.indices)
    if pa.types.is_null(kind):
        return pa.nulls(len(ids), pa.large_binary())
    if is_text(kind):
        # As bytes: for Arrow a single cell that is not UTF-8 is reason to refuse the column.
        return ids.cast(pa.large_binary())
    if pa.types.is_decimal(kind) and kind.bit_width < 128:
        return ids.cast(pa.decimal128(kind.precision, kind.scale))
    if pa.types.is_floating(kind):
        raise TypeError("floating-point numbers cannot tell long ids apart")
    return ids


def _blank(ids: pa.Array) -> np.ndarray:
    """Which of these ids name nobody."""
    if not pa.types.is_large_binary(ids.type):
        return np.zeros(len(ids), dtype=bool)
    trimmed = pc.ascii_trim_whitespace(ids.view(pa.large_string()))
    return pc.equal(pc.binary_length(trimmed), 0).to_numpy(zero_copy_only=False)


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


def pairing(rows: int, people: People | None) -> tuple[np.ndarray, np.ndarray]:
    """Receivers and donors: the donor is the next one in the cyclic order of secret labels. Claim: pairs

    Independent labels make this right under both relations: an insertion touches its own term and one receiver.
    """
    if people is None:
        order = np.argsort(secret_labels(rows), kind="stable")
        return order, np.roll(order, -1)
    kept = np.flatnonzero(people.parts > 0)
    by_person = kept[np.argsort(people.person[kept], kind="stable")]
    owners, begin, count = np.unique(people.person[by_person], return_index=True, return_counts=True)
    order = np.argsort(secret_labels(len(owners)), kind="stable")
    donor = np.empty(len(owners), dtype=np.int64)
    donor[order] = np.roll(order, -1)
    which = np.repeat(np.arange(len(owners)), count)
    rank = np.arange(len(by_person)) - begin[which]
    given = donor[which]
    return by_person, by_person[begin[given] + rank % count[given]]


def matching(rows: int, people: People | None, relation: Relation) -> tuple[np.ndarray, np.ndarray]:
    """First and second of every couple, by the order of secret labels. Claim: couples"""
    if relation != "replace" or people is not None:
        raise AssertionError("couples are of records whose number is public")
    order = np.argsort(secret_labels(rows), kind="stable")
    return order[: rows // 2], order[rows // 2 : 2 * (rows // 2)]


def division(rows: int, people: People | None, blocks: int, relation: Relation) -> Iterator[np.ndarray]:
    """The rows of every block. Claim: blocks"""
    person = np.arange(rows) if people is None else people.person
    labels = _block_labels(rows if people is None else people.count, blocks, relation)
    block = labels[np.maximum(person, 0)] if len(labels) else np.zeros(rows, dtype=np.int64)
    if people is not None:
        block = np.where(people.parts > 0, block, -1)
    order = np.argsort(block, kind="stable")
    cuts = np.searchsorted(block[order], np.arange(blocks + 1))
    return (order[start:stop] for start, stop in itertools.pairwise(cuts))


def _block_labels(units: int, blocks: int, relation: Relation) -> np.ndarray:
    """Which block each unit falls in.

    A balanced shuffle needs the number of units to be public; under add-remove every unit draws its block by itself.
    """
    labels = secret_labels(units)
    if relation == "replace":
        rank = np.empty(units, dtype=np.int64)
        rank[np.argsort(labels, kind="stable")] = np.arange(units)
        return rank * blocks // max(units, 1)
    return (labels % np.uint64(blocks)).astype(np.int64)
