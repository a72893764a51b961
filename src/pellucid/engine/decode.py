"""Cells into declared domains: numbers inside their bounds, or positions of declared categories.

Cells never raise: what does not parse, is missing, unknown or out of range takes the value that stands for it. Beside that,
`conditions` says of every cell whether it was as declared, for queries that leave such records out. What a cell becomes, and
what is said of it, depends on that cell and its declaration alone.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from ..public.schema import FINE, MISSING, OUTSIDE, UNREADABLE, Category, Date, Datetime, Feature, Number
from ..query import compiled as fast
from .decode_dates import from_texts, is_temporal, steps


def is_text(kind: pa.DataType) -> bool:
    """Whether cells of this type are text."""
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def decode(feature: Feature, column: pa.Array | pa.ChunkedArray) -> np.ndarray:
    """A column in inner form: numbers inside their bounds, or positions of declared categories."""
    return _read(_decode_plain, feature, column)


def conditions(feature: Feature, column: pa.Array | pa.ChunkedArray) -> np.ndarray:
    """The condition of every cell: FINE, MISSING, UNREADABLE or OUTSIDE."""
    return _read(_conditions_plain, feature, column).astype(np.uint8, copy=False)


EMPTY = frozenset({"", "nan"})
"""Texts of a cell that says nothing."""

Reader = Callable[[Feature, pa.Array], np.ndarray]
"""From the cells of a chunk to one number each."""

_NARROW: dict[pa.DataType, Any] = {pa.int8(): np.uint8, pa.uint8(): np.uint8, pa.int16(): np.uint16, pa.uint16(): np.uint16}


def _read(reader: Reader, feature: Feature, column: pa.Array | pa.ChunkedArray) -> np.ndarray:
    # Chunk by chunk: merging dictionaries can overflow their index type, depending on what the cells hold.
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    read = [_read_chunk(reader, feature, chunk) for chunk in chunks]
    return read[0] if len(read) == 1 else np.concatenate([*read, np.empty(0)])


def _read_chunk(reader: Reader, feature: Feature, chunk: pa.Array) -> np.ndarray:
    if chunk.type in _NARROW and len(chunk) >= 4096:
        # All the values such a column can hold are read once; cells are then looked up.
        table = _narrow_table(reader, feature, chunk.type)
        # The buffer as it is: what lies under an empty cell is some number, and overwritten below.
        values = np.frombuffer(chunk.buffers()[1], _NARROW[chunk.type])[chunk.offset : chunk.offset + len(chunk)]
        found = fast.look_up(table, values)
        assert found is not None
        if chunk.null_count:
            np.putmask(found, chunk.is_null().to_numpy(zero_copy_only=False), table[-1])
        return found
    return reader(feature, chunk)


@functools.lru_cache(maxsize=1024)
def _narrow_table(reader: Reader, feature: Feature, kind: pa.DataType) -> np.ndarray:
    """What every value of a narrow integer type is read as, by its bits; the last entry is for an empty cell."""
    bits = _NARROW[kind]
    every = np.arange(np.iinfo(bits).max + 1, dtype=bits).view(kind.to_pandas_dtype())
    return np.append(reader(feature, pa.array(every)), reader(feature, pa.nulls(1, kind)))


def _decode_plain(feature: Feature, chunk: pa.Array) -> np.ndarray:
    if isinstance(feature, Number):
        return _decode_number(feature, chunk)
    return _decode_category(feature, chunk, feature.fill, feature.fill_unknown)


def _conditions_plain(feature: Feature, chunk: pa.Array) -> np.ndarray:
    if isinstance(feature, Number):
        return _number_conditions(feature, chunk)
    # Positions are not negative, so that these two tell what was looked up in vain.
    positions = _decode_category(feature, chunk, -MISSING, -UNREADABLE)
    return np.maximum(-positions, FINE)


def _number_conditions(feature: Number, column: pa.Array) -> np.ndarray:
    if is_text(column.type):
        column = column.dictionary_encode()
    if pa.types.is_dictionary(column.type):
        return _by_level(column, lambda levels: _level_conditions(feature, levels), MISSING)
    return _found_conditions(feature, _numbers(feature, column))


def _level_conditions(feature: Number, levels: pa.Array) -> np.ndarray:
    found = _found_conditions(feature, _numbers(feature, levels))
    if is_text(levels.type):
        nothing = EMPTY | ({"nat"} if isinstance(feature, Date | Datetime) else set())
        empty = np.array([cell is None or cell.strip().lower() in nothing for cell in cells_of(levels)], dtype=bool)
        found[(found == MISSING) & ~empty] = UNREADABLE
    return found


def _found_conditions(feature: Number, values: np.ndarray) -> np.ndarray:
    outside = (values < feature.lo) | (values > feature.hi)
    found = outside.view(np.uint8) * np.uint8(OUTSIDE)
    np.copyto(found, MISSING, where=np.isnan(values))
    return found


def _decode_number(feature: Number, column: pa.Array) -> np.ndarray:
    values = _numbers(feature, column)
    inside = np.clip(values, feature.lo, feature.hi)
    if feature.integer:
        inside = np.rint(inside)
    return np.where(np.isnan(values), feature.fill, inside)


def _numbers(feature: Number, column: pa.Array) -> np.ndarray:
    """Cells as numbers, NaN where there is none; days and times as their column counts them."""
    if not isinstance(feature, Date | Datetime):
        return _as_floats(column)
    if pa.types.is_dictionary(column.type):
        return _by_level(column, lambda levels: _numbers(feature, levels), np.nan)
    if is_temporal(column.type):
        return steps(feature, column)
    return from_texts(feature, cells_of(column)) if is_text(column.type) else _as_floats(column)


def _as_floats(column: pa.Array) -> np.ndarray:
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _by_level(column, _as_floats, np.nan)
    if pa.types.is_null(kind):
        return np.full(len(column), np.nan)
    if is_text(kind):
        cells = pd.Series(cells_of(column), dtype=object).replace({"True": 1.0, "False": 0.0})
        return np.asarray(pd.to_numeric(cells, errors="coerce"), dtype=float)
    return np.asarray(column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False), dtype=float)


def cells_of(column: pa.Array) -> list[Any]:
    """The cells as Python values. Bytes that are not UTF-8 are replaced: Arrow would raise for the whole column."""
    if not is_text(column.type):
        return column.to_pylist()
    raw = column.cast(pa.large_binary() if not pa.types.is_string_view(column.type) else pa.binary_view()).to_pylist()
    return [None if cell is None else cell.decode("utf-8", "replace") for cell in raw]


def _decode_category(feature: Category, column: pa.Array, missing: int, unknown: int) -> np.ndarray:
    """The position of every cell: `missing` for an empty one, `unknown` for a value that is not declared."""
    if pa.types.is_integer(column.type) and not pa.types.is_uint64(column.type):
        codes = _code_table(feature, unknown)
        if codes is not None:
            return _decode_codes(column, *codes, missing, unknown)
    if pa.types.is_decimal(column.type) and column.type.bit_width < 128:
        column = column.cast(pa.decimal128(column.type.precision, column.type.scale))
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    positions = _positions(feature)

    def found(levels: pa.Array) -> np.ndarray:
        return np.array([_lookup(positions, cell, missing, unknown) for cell in cells_of(levels)], dtype=float)

    return _by_level(encoded, found, missing)


def _by_level(column: pa.DictionaryArray, read: Callable[[pa.Array], np.ndarray], empty: float) -> np.ndarray:
    """What is read of every cell, once for every value in the dictionary, and `empty` for a cell that has none."""
    levels, codes = column.dictionary, column.indices
    if codes.null_count or pa.types.is_uint64(codes.type):
        codes = pc.fill_null(codes.cast(pa.int64()), -1)
    places = codes.to_numpy(zero_copy_only=False)
    if len(levels) > len(places):
        # A few cells of a long dictionary: only the values that occur are read.
        used, places = np.unique(places, return_inverse=True)
        absent = int(len(used) > 0 and used[0] < 0)
        levels, places = levels.take(pa.array(used[absent:])), places - absent
    # A cell without a value has -1, and the first entry of the table.
    table = np.concatenate([[empty], np.asarray(read(levels), dtype=float)])
    result = fast.look_up(table, places, -1)
    assert result is not None
    return result


@functools.lru_cache(maxsize=4096)
def _code_table(feature: Category, unknown: int) -> tuple[int, np.ndarray] | None:
    """(smallest, position by distance from it) for whole numbers in the declared span; any other whole number is unknown."""
    numbers = []
    for value in feature.values:
        try:
            numbers.append(float(value))
        except (TypeError, ValueError):
            continue
    finite = [v for v in numbers if abs(v) < 2.0**31]
    if not finite or len(finite) < len(numbers) or max(finite) - min(finite) > 1 << 16:
        return None
    low, high = int(np.floor(min(finite))), int(np.ceil(max(finite)))
    positions = _positions(feature)
    return low, np.array([_lookup(positions, v, unknown, unknown) for v in range(low, high + 1)], dtype=float)


def _decode_codes(column: pa.Array, low: int, table: np.ndarray, missing: int, unknown: int) -> np.ndarray:
    """Whole numbers by a table instead of a dictionary; the same positions."""
    empty = column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None
    values = (column if empty is None else pc.fill_null(column, 0)).to_numpy(zero_copy_only=False)
    found = fast.look_up(table, values, low)
    if found is None:
        place = values.astype(np.int64) - low
        inside = (place >= 0) & (place < len(table))
        found = np.where(inside, table[np.where(inside, place, 0)], unknown)
    return found if empty is None else np.where(empty, missing, found)


def _positions(feature: Category) -> dict[Any, int]:
    positions: dict[Any, int] = {value: i for i, value in enumerate(feature.values)}
    for i, value in enumerate(feature.values):
        positions.setdefault(str(value), i)
    return positions


def _lookup(positions: Mapping[Any, int], cell: Any, missing: int, unknown: int) -> int:
    if cell is None or (isinstance(cell, float) and np.isnan(cell)):
        return missing
    found = positions.get(cell)
    if found is None:
        # Numbers arrive as 1, 1.0, True or as their text, depending on where the table lives; they mean the same value.
        try:
            number = float(cell)
        except (TypeError, ValueError):
            return unknown
        found = positions.get(number)
        if found is None and np.isfinite(number) and number == int(number):
            found = positions.get(str(int(number)))
    return unknown if found is None else found
