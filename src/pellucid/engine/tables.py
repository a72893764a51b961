"""Tables of people, as Arrow batches: in memory or in Parquet files.

Libraries quote cells in their errors, so none of their messages leave this file. Only the *type* of a column can be refused;
what cells mean is settled in `decode`, and no cell raises there.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from ..errors import DataError, ReleaseFailed
from ..public.schema import Date, Datetime, Feature
from .csv_files import DELIMITED, CsvTable
from .decode import is_text
from .decode_dates import is_temporal
from .files import State, attempt, check_state, let_pass, state_of
from .shield import CHANGED

UNREADABLE = "the data file cannot be read as Parquet; check the path and that it was written completely."
PARQUET = (".parquet", ".pq")
NOT_PARQUET = (
    "only Parquet (.parquet) and CSV files (.csv, .tsv) are read, and the data file is none; convert it first, for "
    "example pandas.read_excel('people.xlsx').to_parquet('people.parquet'), or give a session the DataFrame itself."
)


class Table(Protocol):
    """Where rows come from. The order of rows is fixed and means nothing."""

    @property
    def rows(self) -> int: ...

    @property
    def types(self) -> Mapping[str, pa.DataType]: ...

    def batches(
        self, columns: Sequence[str], size: int, start: int = 0, stop: int | None = None
    ) -> Iterator[Mapping[str, pa.Array]]:
        """The rows from `start` to `stop`, all by default, at most `size` at a time."""

    @property
    def borders(self) -> Sequence[int]:
        """Numbers of rows at which reading can start without reading others."""

    def check_unchanged(self) -> None:
        """Refuse, with ReleaseFailed, a table that is not the one that was opened: who owns which row was settled then."""

    def kept(self) -> Table:
        """The same table, such that nobody else can write to it unnoticed."""


class MemoryTable:
    """An Arrow table in memory. `ids` is the column that says whose a row is."""

    def __init__(self, table: pa.Table, ids: str | None = None):
        self.table, self.ids = table, ids
        self.rows = table.num_rows
        self.types = {field.name: field.type for field in table.schema}

    def batches(
        self, columns: Sequence[str], size: int, start: int = 0, stop: int | None = None
    ) -> Iterator[Mapping[str, pa.Array]]:
        chosen, stop = self.table.select(list(columns)), self.rows if stop is None else stop
        for first in range(start, stop, size):
            piece = chosen.slice(first, min(size, stop - first))
            yield {name: piece.column(name) for name in columns}

    @property
    def borders(self) -> Sequence[int]:
        return ()

    def check_unchanged(self) -> None:
        """Arrow tables do not change, and the buffers of one that is `kept` are its own."""

    def kept(self) -> MemoryTable:
        """A copy. Arrow shares the memory of NumPy, pandas and polars, where whoever has the array can write.

        Texts are kept as dictionaries: every pass over them then reads each of them once, and not once a row.
        """
        table = self.table
        for place, field in enumerate(table.schema):
            if field.name != self.ids and (pa.types.is_string(field.type) or pa.types.is_large_string(field.type)):
                # More than two gigabytes of different texts have no dictionary, and stay as they are.
                encoded = attempt(table.column(place).dictionary_encode)
                table = table if encoded is None else table.set_column(place, field.name, encoded)
        # Measured first and then written in place: a buffer that grows would need twice the memory for a moment.
        measured = pa.MockOutputStream()
        _write(table, measured)
        buffer = pa.allocate_buffer(measured.size())
        _write(table, pa.FixedSizeBufferWriter(buffer))
        return MemoryTable(pa.ipc.open_stream(buffer).read_all(), self.ids)

    def shared(self, file: int) -> MemoryTable:
        """The same table in a file without a name, which other processes map too."""
        with open(file, "wb", closefd=False) as sink:
            _write(self.table, pa.PythonFile(sink))
        return mapped(file, self.ids)


def mapped(file: int, ids: str | None) -> MemoryTable:
    """A table that is in a file, as shared memory."""
    return MemoryTable(pa.ipc.open_stream(pa.py_buffer(mmap.mmap(file, 0, prot=mmap.PROT_READ))).read_all(), ids)


def _write(table: pa.Table, sink: pa.NativeFile) -> None:
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)


class ParquetTable:
    """One Parquet file, or a folder of them, read a batch at a time.

    What is read are the files that were opened first, in the same state: this is checked on the open file, before the first and
    after the last of its rows. Footers are those of the opening. Texts are read as the dictionaries that files keep them as, but
    for those of `ids`, the column that says whose a row is.
    """

    def __init__(self, paths: Sequence[Path], ids: str | None = None):
        # Wherever this process goes meanwhile.
        self.paths = [path.absolute() for path in paths]
        states = attempt(self._look)
        if states is not None:
            let_pass(states)
        footers = attempt(lambda: [pq.read_metadata(path) for path in self.paths])
        if states is None or footers is None:
            raise DataError(UNREADABLE if all(path.suffix in PARQUET for path in self.paths) else NOT_PARQUET)
        schemas = [{field.name: field.type for field in footer.schema.to_arrow_schema()} for footer in footers]
        if any(schema != schemas[0] for schema in schemas):
            raise DataError("the Parquet files of the folder differ in their columns; write them with one schema.")
        self._states, self._footers = states, footers
        self.rows, self.types = sum(footer.num_rows for footer in footers), schemas[0]
        self._texts = [name for name, kind in self.types.items() if is_text(kind) and name != ids]

    def _look(self) -> list[State]:
        return [state_of(os.stat(path)) for path in self.paths]

    def check_unchanged(self) -> None:
        if attempt(self._look) != self._states:
            raise ReleaseFailed(CHANGED)

    def kept(self) -> ParquetTable:
        return self

    @property
    def borders(self) -> Sequence[int]:
        return [start for *_, groups in self._files() for start, _ in groups]

    def _files(self) -> Iterator[tuple[Path, State, pq.FileMetaData, list[tuple[int, int]]]]:
        """Every file, with the first row and the one after the last of each row group."""
        start = 0
        for path, state, footer in zip(self.paths, self._states, self._footers):
            groups = []
            for group in range(footer.num_row_groups):
                groups.append((start, start + footer.row_group(group).num_rows))
                start = groups[-1][1]
            yield path, state, footer, groups

    def batches(
        self, columns: Sequence[str], size: int, start: int = 0, stop: int | None = None
    ) -> Iterator[Mapping[str, pa.Array]]:
        broken, stop = False, self.rows if stop is None else stop
        try:
            for path, state, footer, groups in self._files():
                some = [i for i, (first, last) in enumerate(groups) if first < stop and start < last]
                if not some:
                    continue
                with pa.OSFile(str(path)) as file:
                    check_state(file, state)
                    texts = [name for name in self._texts if name in columns]
                    reader = pq.ParquetFile(file, metadata=footer, pre_buffer=False, buffer_size=1 << 20, read_dictionary=texts)
                    read = reader.iter_batches(size, row_groups=some, columns=list(columns), use_threads=False)
                    for batch in _of_size(_between(read, groups[some[0]][0], start, stop), size):
                        yield {name: batch.column(name) for name in columns}
                    check_state(file, state)
        except Exception:
            broken = True
        if broken:
            # Most likely because somebody has written to it meanwhile.
            self.check_unchanged()
            raise DataError(UNREADABLE)


def _between(batches: Iterable[pa.RecordBatch], first: int, start: int, stop: int) -> Iterator[pa.RecordBatch]:
    """Of batches that begin with row `first`, the rows from `start` to `stop`."""
    for batch in batches:
        low, high = max(start - first, 0), min(stop - first, batch.num_rows)
        if low < high:
            yield batch if (low, high) == (0, batch.num_rows) else batch.slice(low, high - low)
        first += batch.num_rows
        if first >= stop:
            return


def _of_size(batches: Iterable[pa.RecordBatch], size: int) -> Iterator[pa.RecordBatch | pa.Table]:
    """The same rows, so many at a time: with dictionaries a batch of Arrow's ends where one of them does."""
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        if not waiting and batch.num_rows == size:
            yield batch
            continue
        waiting.append(batch)
        rows += batch.num_rows
        if rows >= size:
            joined = pa.Table.from_batches(waiting)
            yield joined.slice(0, size)
            waiting, rows = joined.slice(size).to_batches(), rows - size
    if rows:
        yield pa.Table.from_batches(waiting)


def open_table(data: Any, columns: Sequence[str] | None = None, ids: str | None = None) -> Table:
    """Anything with an Arrow stream (pandas, polars, pyarrow), a dict of arrays, an array, or the path of a Parquet or CSV file.

    Only `columns` are looked at where they are given; `ids` is the one that says whose a row is.
    """
    if hasattr(data, "check_unchanged") and hasattr(data, "borders"):
        # Open already: the rows of a part.
        opened: Table = data
        return opened
    if isinstance(data, str | os.PathLike):
        path = Path(data)
        return CsvTable(path) if path.suffix in DELIMITED else _open_parquet(path, ids)
    if isinstance(data, np.ndarray):
        return _from_columns(_columns_of(data, columns), columns, ids)
    if hasattr(data, "tocsr") and hasattr(data, "nnz"):
        raise DataError(
            "sparse matrices are not supported: a cell that is left out could be a zero or a missing value. Give the declared "
            "columns as a table, for example pandas.DataFrame(matrix[:, chosen].toarray(), columns=names)."
        )
    if isinstance(data, pd.DataFrame):
        return _from_columns([(str(name), data.iloc[:, i]) for i, name in enumerate(data.columns)], columns, ids)
    if isinstance(data, Mapping):
        return _from_columns([(str(name), column) for name, column in data.items()], columns, ids)
    if not isinstance(data, pa.Table) and not hasattr(data, "__arrow_c_stream__"):
        raise DataError(
            f"data of type {type(data).__name__} is not supported; give a pandas, polars or pyarrow table, a dict of arrays, "
            "a NumPy array, or the path of a Parquet or CSV file."
        )
    arrow = data if isinstance(data, pa.Table) else attempt(lambda: pa.table(data))
    if arrow is None:
        raise DataError("the table could not be read as an Arrow stream; try a pandas or polars DataFrame.")
    if len(set(arrow.column_names)) < len(arrow.column_names):
        raise DataError("the table has two columns of the same name; rename one of them.")
    return MemoryTable(arrow if columns is None else arrow.select([c for c in columns if c in arrow.column_names]), ids)


def _columns_of(array: np.ndarray, names: Sequence[str] | None) -> list[tuple[str, Any]]:
    """The columns of an array: by the names of its fields, or else in the order of the schema."""
    if array.dtype.names:
        return [(name, array[name]) for name in array.dtype.names]
    wide = array.shape[1] if array.ndim == 2 else 1
    if names is None or array.ndim not in (1, 2) or wide != len(names):
        said = "" if names is None else f", which are {len(names)}: {', '.join(names[:8])}{', …' if len(names) > 8 else ''}"
        raise DataError(
            f"an array has no names, so its columns must be those of the schema, in that order{said}; it has the shape "
            f"{'×'.join(map(str, array.shape[1:])) or 'of one column'} beside its rows. Give it so, or as a DataFrame with names."
        )
    return list(zip(names, array.T if array.ndim == 2 else [array]))


def _open_parquet(path: Path, ids: str | None) -> ParquetTable:
    if path.is_dir():
        files = sorted(found for found in path.glob("**/*.parquet") if found.is_file() and not _hidden(found.relative_to(path)))
        if not files:
            raise DataError(f"the folder {str(path)!r} holds no .parquet file; names that begin with '.' or '_' are left out.")
        return ParquetTable(files, ids)
    if not path.exists():
        raise DataError(f"the data file {str(path)!r} does not exist.")
    return ParquetTable([path], ids)


def _hidden(path: Path) -> bool:
    """Whether it is left over or half written: programs that write folders of files mark what is not data so."""
    return any(part.startswith((".", "_")) for part in path.parts)


def _from_columns(columns: Sequence[tuple[str, Any]], wanted: Sequence[str] | None, ids: str | None) -> MemoryTable:
    if not columns:
        raise DataError("the table has no columns.")
    chosen = [(name, column) for name, column in columns if wanted is None or name in wanted]
    if len({name for name, _ in chosen}) < len(chosen):
        raise DataError("the table has two columns of the same name; rename one of them.")
    arrays = {name: _to_arrow(column, name == ids) for name, column in chosen}
    if len({len(array) for array in arrays.values()}) > 1:
        raise DataError("the columns of the table differ in length; every column needs one cell per row.")
    return MemoryTable(pa.table(arrays), ids)


def _to_arrow(column: Any, ids: bool = False) -> pa.Array:
    if isinstance(column, pa.Array | pa.ChunkedArray):
        return column
    if isinstance(column, np.ndarray) and column.ndim != 1:
        raise DataError("a column of the table has more than one dimension; give one-dimensional columns.")
    kind = getattr(column, "dtype", None)
    array = None
    if isinstance(kind, pd.CategoricalDtype):
        codes = pd.Categorical(column).codes.astype(np.int64)
        floats = ids and pd.api.types.is_float_dtype(kind.categories.dtype)
        levels = pa.array(kind.categories) if floats else _texts(kind.categories, ids)
        array = pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes < 0), levels)
    elif kind is not None and not pd.api.types.is_object_dtype(kind):
        array = attempt(lambda: pa.array(column, from_pandas=True))
    if array is None:
        # Python objects have no type of their own, and guessing one from all cells would let a single cell decide how
        # every other one is read. So each cell becomes text by itself.
        array = attempt(lambda: _texts(column, ids))
    if array is None:
        raise DataError("a column of the table is not a sequence of cells; give one-dimensional columns.")
    return array


def _texts(cells: Iterable[Any], ids: bool) -> pa.Array:
    """Every cell as text."""
    if not ids:
        return pa.array([_text(cell) for cell in cells], pa.string())
    # A view: what is not text in the sense of Unicode still tells people apart.
    return pa.array([_id_text(cell) for cell in cells], pa.large_binary()).view(pa.large_string())


def _id_text(cell: Any) -> bytes | None:
    """An id without a type. A whole number is the same one as a float; floats that could have been another number are no ids."""
    if isinstance(cell, float | np.floating):
        return str(int(cell)).encode() if cell.is_integer() and abs(int(cell)) < 1 << 53 else None
    text = cell if isinstance(cell, str) else _text(cell)
    return None if text is None else text.encode("utf-8", "surrogatepass")


def _text(cell: Any) -> str | None:
    if isinstance(cell, str):
        return cell.encode("utf-8", "replace").decode()
    if cell is None or cell is pd.NA or cell is pd.NaT:
        return None
    if isinstance(cell, float | np.floating):
        return None if np.isnan(cell) else repr(float(cell))
    if isinstance(cell, np.datetime64):
        return None if np.isnat(cell) else str(cell)
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
        if name == unit_column and pa.types.is_floating(kind):
            raise DataError(
                f"the id column {name!r} holds {kind}, and floating-point numbers cannot tell long ids apart; read it as whole "
                "numbers or text (in pandas with dtype 'Int64' or 'str') before opening the session."
            )
        if is_temporal(kind) and name in features:
            if not isinstance(features[name], Date | Datetime):
                raise DataError(
                    f"column {name!r} holds {kind}; declare it as pel.Date or pel.Datetime, or convert it to numbers."
                )
        elif not (_is_numeric(kind) or is_text(kind) or pa.types.is_null(kind)):
            raise DataError(f"column {name!r} holds {kind}; convert it to numbers or text before opening the session.")


def _is_numeric(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind) or pa.types.is_decimal(kind)
