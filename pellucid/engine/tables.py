"""Tables of people, as Arrow batches: in memory or in Parquet files, decoded column by column into declared domains.

Libraries quote cells in their errors, so none of their messages leave this file. Cells never raise: what does not
parse, is missing, unknown or out of range takes its declared value. Only the *type* of a column can be refused.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ..errors import DataError, ReleaseFailed
from ..public.schema import Category, Feature, Number
from ..query import compiled as fast

T = TypeVar("T")
CHANGED = "the data file was changed or removed while the session was open; open a new session on it."


class Table(Protocol):
    """Where rows come from. The order of rows is fixed and means nothing."""

    @property
    def rows(self) -> int: ...

    @property
    def types(self) -> Mapping[str, pa.DataType]: ...

    def batches(self, columns: Sequence[str], size: int) -> Iterator[Mapping[str, pa.Array]]: ...

    def check_unchanged(self) -> None:
        """Refuse a table that is not the one the session was opened on: who owns which row was settled then."""


class MemoryTable:
    """An Arrow table in memory."""

    def __init__(self, table: pa.Table):
        self.table = table
        self.rows = table.num_rows
        self.types = {field.name: field.type for field in table.schema}

    def batches(self, columns: Sequence[str], size: int) -> Iterator[Mapping[str, pa.Array]]:
        chosen = self.table.select(list(columns))
        for start in range(0, self.rows, size):
            piece = chosen.slice(start, size)
            yield {name: piece.column(name) for name in columns}

    def check_unchanged(self) -> None:
        """Arrow tables do not change; where it matters the session keeps a copy of buffers that others could write to."""

    def kept(self) -> MemoryTable:
        """A table whose buffers are its own."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self.table.schema) as writer:
            writer.write_table(self.table)
        return MemoryTable(pa.ipc.open_stream(sink.getvalue()).read_all())


class ParquetTable:
    """One Parquet file, or a folder of them, read a batch at a time."""

    def __init__(self, paths: Sequence[Path]):
        self.paths = list(paths)
        files = _attempt(lambda: [pq.ParquetFile(path) for path in self.paths])
        if files is None:
            raise DataError("the data file cannot be read as Parquet; check the path and that it was written completely.")
        self.rows = sum(file.metadata.num_rows for file in files)
        self.types = {field.name: field.type for field in files[0].schema_arrow}
        for file in files:
            if {field.name: field.type for field in file.schema_arrow} != self.types:
                raise DataError("the Parquet files of the folder differ in their columns; write them with one schema.")
            file.close()
        self._state = self._look()

    def _look(self) -> list[tuple[int, ...]]:
        stats = [os.stat(path) for path in self.paths]
        return [(s.st_dev, s.st_ino, s.st_size, s.st_mtime_ns) for s in stats]

    def check_unchanged(self) -> None:
        if _attempt(self._look) != self._state:
            raise ReleaseFailed(CHANGED)

    def batches(self, columns: Sequence[str], size: int) -> Iterator[Mapping[str, pa.Array]]:
        for path in self.paths:
            with pq.ParquetFile(path, pre_buffer=False, buffer_size=1 << 20) as file:
                for batch in file.iter_batches(size, columns=list(columns), use_threads=False):
                    yield {name: batch.column(name) for name in columns}


def _attempt(action: Callable[[], T]) -> T | None:
    """What the action gives, or None. Errors are raised by callers afterwards, so that none has a library's message behind it."""
    try:
        return action()
    except Exception:
        return None


def open_table(data: Any, columns: Sequence[str] | None = None, keep: bool = False) -> Table:
    """Anything with an Arrow stream (pandas, polars, pyarrow), a dict of arrays, or a Parquet path.

    Only `columns` are looked at where they are given. `keep` copies buffers that the caller could still write to.
    """
    if isinstance(data, str | os.PathLike):
        return _open_parquet(Path(data))
    if isinstance(data, pd.DataFrame):
        table = _from_columns([(str(name), data.iloc[:, i]) for i, name in enumerate(data.columns)], columns)
    elif isinstance(data, Mapping):
        table = _from_columns([(str(name), column) for name, column in data.items()], columns)
    elif isinstance(data, pa.Table) or hasattr(data, "__arrow_c_stream__"):
        arrow = data if isinstance(data, pa.Table) else _attempt(lambda: pa.table(data))
        if arrow is None:
            raise DataError("the table could not be read as an Arrow stream; try a pandas or polars DataFrame.")
        if len(set(arrow.column_names)) < len(arrow.column_names):
            raise DataError("the table has two columns of the same name; rename one of them.")
        table = MemoryTable(arrow if columns is None else arrow.select([c for c in columns if c in arrow.column_names]))
        if not table.types:
            table.rows = arrow.num_rows
    else:
        raise DataError(
            f"data of type {type(data).__name__} is not supported; give a pandas, polars or pyarrow table, a dict of arrays, "
            "or the path of a Parquet file."
        )
    return table.kept() if keep else table


def _open_parquet(path: Path) -> ParquetTable:
    if path.is_dir():
        files = sorted(path.glob("**/*.parquet"))
        if not files:
            raise DataError(f"the folder {str(path)!r} holds no .parquet file.")
        return ParquetTable(files)
    if not path.exists():
        raise DataError(f"the data file {str(path)!r} does not exist.")
    return ParquetTable([path])


def _from_columns(columns: Sequence[tuple[str, Any]], wanted: Sequence[str] | None) -> MemoryTable:
    if not columns:
        raise DataError("the table has no columns.")
    chosen = [(name, column) for name, column in columns if wanted is None or name in wanted]
    if len({name for name, _ in chosen}) < len(chosen):
        raise DataError("the table has two columns of the same name; rename one of them.")
    arrays = {name: _to_arrow(column) for name, column in chosen}
    if len({len(array) for array in arrays.values()}) > 1:
        raise DataError("the columns of the table differ in length; every column needs one cell per row.")
    return MemoryTable(pa.table(arrays))


def _to_arrow(column: Any) -> pa.Array:
    if isinstance(column, pa.Array | pa.ChunkedArray):
        return column
    if isinstance(column, np.ndarray) and column.ndim != 1:
        raise DataError("a column of the table has more than one dimension; give one-dimensional columns.")
    kind = getattr(column, "dtype", None)
    array = None
    if isinstance(kind, pd.CategoricalDtype):
        codes = pd.Categorical(column).codes.astype(np.int64)
        levels = pa.array([_text(level) or "" for level in kind.categories], pa.string())
        array = pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes < 0), levels)
    elif kind is not None and not pd.api.types.is_object_dtype(kind):
        array = _attempt(lambda: pa.array(column, from_pandas=True))
    if array is None:
        # Python objects have no type of their own, and guessing one from all cells would let a single cell decide how
        # every other one is read. So each cell becomes text by itself.
        array = _attempt(lambda: pa.array([_text(cell) for cell in column], pa.string()))
    if array is None:
        raise DataError("a column of the table is not a sequence of cells; give one-dimensional columns.")
    return array


def _text(cell: Any) -> str | None:
    if isinstance(cell, str):
        return cell.encode("utf-8", "replace").decode()
    if cell is None or cell is pd.NA or cell is pd.NaT:
        return None
    if isinstance(cell, float | np.floating):
        return None if np.isnan(cell) else repr(float(cell))
    try:
        return str(cell.item() if isinstance(cell, np.generic) else cell).encode("utf-8", "replace").decode()
    except Exception:
        return ""


def check_types(table: Table, features: Mapping[str, Feature], unit_column: str | None) -> None:
    """Refuse a missing column or a column type that cannot hold the declared feature; looks at no cell."""
    wanted = list(features) + ([unit_column] if unit_column else [])
    missing = [name for name in wanted if name not in table.types]
    if missing:
        raise DataError(
            f"the table has no column {', '.join(repr(name) for name in missing)}, which the schema or the unit declares; "
            "add it to the table or take it out of the schema."
        )
    for name in wanted:
        kind = table.types[name]
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        if not (_is_numeric(kind) or _is_text(kind) or pa.types.is_null(kind)):
            raise DataError(f"column {name!r} holds {kind}; convert it to numbers or text before opening the session.")


def _is_numeric(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind) or pa.types.is_decimal(kind)


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def decode(feature: Feature, column: pa.Array | pa.ChunkedArray) -> np.ndarray:
    """A column in inner form: numbers inside their bounds, or positions of declared categories."""
    # Chunk by chunk: merging dictionaries can overflow their index type, depending on what the cells hold.
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    decoded = [_decode_chunk(feature, chunk) for chunk in chunks]
    return decoded[0] if len(decoded) == 1 else np.concatenate([*decoded, np.empty(0)])


_NARROW: dict[pa.DataType, Any] = {pa.int8(): np.uint8, pa.uint8(): np.uint8, pa.int16(): np.uint16, pa.uint16(): np.uint16}


def _decode_chunk(feature: Feature, chunk: pa.Array) -> np.ndarray:
    if chunk.type in _NARROW and len(chunk) >= 4096:
        # All the values such a column can hold are decoded once; cells are then looked up.
        table = _narrow_table(feature, chunk.type)
        # The buffer as it is: what lies under an empty cell is some number, and overwritten below.
        values = np.frombuffer(chunk.buffers()[1], _NARROW[chunk.type])[chunk.offset : chunk.offset + len(chunk)]
        found = fast.look_up(table, values)
        assert found is not None
        if chunk.null_count:
            np.putmask(found, chunk.is_null().to_numpy(zero_copy_only=False), table[-1])
        return found
    return _decode_plain(feature, chunk)


@functools.lru_cache(maxsize=1024)
def _narrow_table(feature: Feature, kind: pa.DataType) -> np.ndarray:
    """What every value of a narrow integer type decodes to, by its bits; the last entry is for an empty cell."""
    bits = _NARROW[kind]
    every = np.arange(np.iinfo(bits).max + 1, dtype=bits).view(kind.to_pandas_dtype())
    return np.append(_decode_plain(feature, pa.array(every)), _decode_plain(feature, pa.nulls(1, kind)))


def _decode_plain(feature: Feature, chunk: pa.Array) -> np.ndarray:
    return _decode_number(feature, chunk) if isinstance(feature, Number) else _decode_category(feature, chunk)


def _decode_number(feature: Number, column: pa.Array) -> np.ndarray:
    values = _as_floats(column)
    values = np.where(np.isnan(values), np.nan, np.clip(values, feature.lo, feature.hi))
    if feature.integer:
        values = np.rint(values)
    return np.where(np.isnan(values), float(feature.missing), values)  # type: ignore[arg-type]


def _as_floats(column: pa.Array) -> np.ndarray:
    kind = column.type
    if pa.types.is_dictionary(kind):
        if not len(column.dictionary):
            return np.full(len(column), np.nan)
        levels = _as_floats(column.dictionary)
        codes = pc.fill_null(column.indices.cast(pa.int64()), -1).to_numpy(zero_copy_only=False)
        return np.where(codes >= 0, levels[codes], np.nan)
    if pa.types.is_null(kind):
        return np.full(len(column), np.nan)
    if _is_text(kind):
        cells = pd.Series(_cells(column), dtype=object).replace({"True": 1.0, "False": 0.0})
        return np.asarray(pd.to_numeric(cells, errors="coerce"), dtype=float)
    return np.asarray(column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False), dtype=float)


def _cells(column: pa.Array) -> list[Any]:
    """The cells as Python values. Bytes that are not UTF-8 are replaced: Arrow would raise for the whole column."""
    if not _is_text(column.type):
        return column.to_pylist()
    raw = column.cast(pa.large_binary() if not pa.types.is_string_view(column.type) else pa.binary_view()).to_pylist()
    return [None if cell is None else cell.decode("utf-8", "replace") for cell in raw]


def _decode_category(feature: Category, column: pa.Array) -> np.ndarray:
    if pa.types.is_integer(column.type) and not pa.types.is_uint64(column.type):
        codes = _code_table(feature)
        if codes is not None:
            return _decode_codes(feature, column, *codes)
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    positions = _positions(feature)
    missing, unknown = feature.position(feature.missing), feature.position(feature.unknown)
    levels = np.array(
        [_lookup(positions, cell, missing, unknown) for cell in _cells(encoded.dictionary)] + [missing], dtype=float
    )
    # A null cell has no index; -1 points at the entry appended for it.
    return levels[pc.fill_null(encoded.indices.cast(pa.int64()), -1).to_numpy(zero_copy_only=False)]


@functools.lru_cache(maxsize=4096)
def _code_table(feature: Category) -> tuple[int, np.ndarray] | None:
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
    missing, unknown = feature.position(feature.missing), feature.position(feature.unknown)
    return low, np.array([_lookup(positions, v, missing, unknown) for v in range(low, high + 1)], dtype=float)


def _decode_codes(feature: Category, column: pa.Array, low: int, table: np.ndarray) -> np.ndarray:
    """Whole numbers by a table instead of a dictionary; the same positions."""
    missing, unknown = feature.position(feature.missing), feature.position(feature.unknown)
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
