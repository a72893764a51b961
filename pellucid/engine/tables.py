"""Tables of people, as Arrow batches: in memory or in Parquet files.

Libraries quote cells in their errors, so none of their messages leave this file. Only the *type* of a column can be refused;
what cells mean is settled in `decode`, and no cell raises there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from ..errors import DataError, ReleaseFailed
from ..public.schema import Feature
from .decode import is_text
from .shield import CHANGED

T = TypeVar("T")


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
        if not (_is_numeric(kind) or is_text(kind) or pa.types.is_null(kind)):
            raise DataError(f"column {name!r} holds {kind}; convert it to numbers or text before opening the session.")


def _is_numeric(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind) or pa.types.is_decimal(kind)
