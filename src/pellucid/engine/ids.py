"""Ids of people as secret labels: equal ids have equal labels, other ids others, and what names nobody has none.

Ids are compared exactly, in the type they have: whole numbers as numbers, text byte by byte ("1", "01" and " 1" are three
people). An empty cell, and text that is empty or nothing but ASCII white space, is no id.
"""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..mechanisms.labels import Labels
from .decode import is_text

Labelled = tuple[np.ndarray, np.ndarray]
"""Labels, and which cells have one; the label of any other is zero."""


def labels_of_ids(labels: Labels, ids: pa.Array | pa.ChunkedArray) -> Labelled:
    """The label of every cell of an id column under a key; the same one however the column is cut and encoded."""
    chunks = ids.chunks if isinstance(ids, pa.ChunkedArray) else [ids]
    found = [_of_chunk(labels, chunk) for chunk in chunks if len(chunk)]
    if len(found) == 1:
        return found[0]
    return np.concatenate([NOBODY[0], *(f[0] for f in found)]), np.concatenate([NOBODY[1], *(f[1] for f in found)])


NOBODY: Labelled = np.empty((0, 2), dtype=np.uint64), np.empty(0, dtype=bool)


def _of_chunk(labels: Labels, ids: pa.Array) -> Labelled:
    kind = ids.type
    if pa.types.is_dictionary(kind):
        return _of_dictionary(labels, ids)
    if pa.types.is_floating(kind):
        raise TypeError("floating-point numbers cannot tell long ids apart")
    if pa.types.is_null(kind):
        return np.zeros((len(ids), 2), dtype=np.uint64), np.zeros(len(ids), dtype=bool)
    if pa.types.is_boolean(kind):
        ids, kind = ids.cast(pa.uint8()), pa.uint8()
    if pa.types.is_integer(kind):
        named = ids.is_valid().to_numpy(zero_copy_only=False)
        numbers = (pc.fill_null(ids, 0) if ids.null_count else ids).to_numpy(zero_copy_only=False)
        return _masked(labels.of_numbers(numbers), named)
    # Distinct values only: hashing is slow beside looking up.
    return _of_dictionary(labels, exact(ids).dictionary_encode())


def _of_dictionary(labels: Labels, ids: pa.DictionaryArray) -> Labelled:
    places = pc.fill_null(ids.indices.cast(pa.int64()), -1).to_numpy(zero_copy_only=False)
    used, inverse = np.unique(places, return_inverse=True)
    nobody = len(used) > 0 and used[0] < 0
    levels = exact(ids.dictionary).take(pa.array(used[1:] if nobody else used))
    plain = pa.types.is_integer(levels.type) or pa.types.is_boolean(levels.type)
    found, named = _of_chunk(labels, levels) if plain else _of_levels(labels, levels)
    if nobody:
        found, named = np.concatenate([np.zeros((1, 2), dtype=np.uint64), found]), np.r_[False, named]
    return found[inverse], named[inverse]


def _of_levels(labels: Labels, levels: pa.Array) -> Labelled:
    """Values that are met once each."""
    named = levels.is_valid().to_numpy(zero_copy_only=False) & ~blank(levels)
    if pa.types.is_null(levels.type):
        return np.zeros((len(levels), 2), dtype=np.uint64), named
    if pa.types.is_decimal(levels.type):
        return _masked(_of_decimals(labels, levels.to_pylist()), named)
    return _masked(labels.of_bytes(cell or b"" for cell in levels.to_pylist()), named)


def _of_decimals(labels: Labels, cells: list[Decimal | None]) -> np.ndarray:
    """Whole numbers as such, so that 7 is the same person wherever it is read; all others as text, which is exact."""
    found = labels.of_bytes(b"decimal " + str(cell).encode() for cell in cells).copy()
    whole = [i for i, cell in enumerate(cells) if cell is not None and -(1 << 63) <= cell < 1 << 64 and cell == int(cell)]
    for below in (True, False):
        chosen = [i for i in whole if (cells[i] < 0) == below]  # type: ignore[operator]
        numbers = [int(cells[i]) for i in chosen]  # type: ignore[arg-type]
        found[chosen] = labels.of_numbers(np.array(numbers, dtype=np.int64 if below else np.uint64))
    return found


def _masked(found: np.ndarray, named: np.ndarray) -> Labelled:
    return (found if named.all() else np.where(named[:, None], found, np.uint64(0))), named


def exact(ids: pa.Array) -> pa.Array:
    """The ids in a type whose values Arrow tells apart exactly."""
    kind = ids.type
    if is_text(kind) or pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind) or pa.types.is_binary_view(kind):
        # As bytes: for Arrow a single cell that is not UTF-8 is reason to refuse the column.
        return ids.cast(pa.large_binary())
    if pa.types.is_decimal(kind) and kind.bit_width < 128:
        return ids.cast(pa.decimal128(kind.precision, kind.scale))
    if pa.types.is_floating(kind):
        raise TypeError("floating-point numbers cannot tell long ids apart")
    return ids


def blank(ids: pa.Array) -> np.ndarray:
    """Which of these ids name nobody."""
    if not pa.types.is_large_binary(ids.type):
        return np.zeros(len(ids), dtype=bool)
    trimmed = pc.ascii_trim_whitespace(ids.view(pa.large_string()))
    return pc.fill_null(pc.equal(pc.binary_length(trimmed), 0), True).to_numpy(zero_copy_only=False)
