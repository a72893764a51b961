"""A Spark DataFrame as a table: its files, and the number of every row.

A row is known by its file and its place in there (`_metadata.row_index`), which do not depend on how Spark splits files, nor on
how often a task is tried. Numbers are those that rows have when the files are read one after another, in the order of their
names: the same as those of the local engine. What has no such places (a join, a view, a cached table), or not all rows of its
files (a filter), is refused: written once to Parquet, it has them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote, urlparse

import numpy as np
import pyarrow as pa

from ...errors import DataError, ReleaseFailed
from ...mechanisms import source as randomness
from ...public.schema import Schema
from ..files import TICK
from ..shield import CHANGED
from ..tables import check_types
from .jobs import collected, quiet
from .settings import compare_versions, refuse_settings
from .tasks import FILE, ROW, Numbering, marks

NO_PLACES = (
    "Spark cannot say of the rows of this DataFrame which file they are in and where, as after a join, of a view or of a cached "
    "table; and without that a task that is tried again could count other rows. Write it once, where only you can read it, and "
    "open that: df.write.parquet('place'), then spark.read.parquet('place')."
)
NOT_WHOLE = (
    "the DataFrame does not have each row of its files exactly once, as after a filter, a sample or an explode. Write it once, "
    "where only you can read it, and open that: df.write.parquet('place'), then spark.read.parquet('place')."
)
UNREADABLE = "Spark could not read the table; check that its files are there, are complete, and that executors may read them."
PIECE = 1 << 22
"""Rows whose marks are added up at once."""


@dataclass(frozen=True)
class Declared:
    """What is known of a table before a row is read: types by name."""

    types: Mapping[str, pa.DataType]
    rows: int = 0


class Source:
    """A DataFrame whose rows have numbers; the files are those that were there at the opening, in the same state."""

    def __init__(self, frame: Any, schema: Schema, ids: str | None):
        self.frame, self.spark, self.schema = frame, frame.sparkSession, schema
        names = [*schema, *([ids] if ids else [])]
        self.types = _types(frame, names)
        check_types(Declared(self.types), schema, ids)  # type: ignore[arg-type]
        refuse_settings(self.spark)
        compare_versions(self.spark)
        files = self._files()
        self._paths = sorted((path for path, *_ in files), key=_in_order)
        self._counts = {path: rows for path, _, rows in files}
        self._states = self._look()
        _let_pass()
        self.numbering = _numbering(self._paths, files)
        self.rows = int(self.numbering.counts.sum())
        self._expected = _marks_of_all(self.rows, self.numbering.key)

    def _files(self) -> list[tuple[str, int, int]]:
        """The files with their number in Spark and how many rows each has; refused unless every row is there once."""
        from pyspark.sql import functions as F

        with quiet():
            try:
                places = self.frame.select(
                    F.col("_metadata.file_path").alias("path"), F.col("_metadata.row_index").cast("decimal(20,0)").alias("row")
                )
                counted = places.groupBy("path").agg(
                    F.count("*").alias("rows"), F.max("row").alias("last"), F.sum("row").alias("sum"),
                    F.xxhash64("path").alias("file"),
                )  # fmt: skip
            except Exception:
                counted = None
        if counted is None:
            raise DataError(NO_PLACES)
        found = collected(counted, "opening the table")
        if found is None:
            raise DataError(UNREADABLE)
        for file in found:
            if file["last"] != file["rows"] - 1 or 2 * int(file["sum"]) != file["rows"] * (file["rows"] - 1):
                raise DataError(NOT_WHOLE)
        if len({file["file"] for file in found}) < len(found):
            raise DataError("two files of the table have names that Spark cannot tell apart; rename one of them.")
        return [(file["path"], file["file"], file["rows"]) for file in found]

    def selected(self, names: Sequence[str], files: Sequence[str] | None = None, span: tuple[int, int] | None = None) -> Any:
        """These columns, and where each row stands; of all files or some, and there of all rows or a range of places."""
        from pyspark.sql import functions as F

        frame = self.frame
        if files is not None:
            frame = frame.where(F.col("_metadata.file_path").isin(list(files)))
        if span is not None:
            frame = frame.where((F.col("_metadata.row_index") >= span[0]) & (F.col("_metadata.row_index") < span[1]))

        places = F.xxhash64("_metadata.file_path").alias(FILE), F.col("_metadata.row_index").alias(ROW)
        return frame.select(*(F.col(_quoted(name)) for name in names), *places)

    def windows(self, most: int) -> Iterator[tuple[list[str], tuple[int, int] | None]]:
        """All rows in order, about so many at a time: some files, or a range of one."""
        waiting: list[str] = []
        rows = 0
        for path in self._paths:
            count = self._counts[path]
            if waiting and rows + count > most:
                yield waiting, None
                waiting, rows = [], 0
            if count > most:
                yield from (([path], (start, min(start + most, count))) for start in range(0, count, most))
            else:
                waiting, rows = [*waiting, path], rows + count
        if waiting:
            yield waiting, None

    def check_unchanged(self) -> None:
        """Refuse files that are not in the state they were opened in."""
        if self._look() != self._states:
            raise ReleaseFailed(CHANGED)

    def check_rows(self, rows: int, ids: int, times: int = 1) -> None:
        """Refuse what a pass has read, unless it is every row exactly once, or so many times."""
        if rows != times * self.rows or (ids - times * self._expected) % (1 << 64):
            raise ReleaseFailed(CHANGED)

    def _look(self) -> list[tuple[Any, ...]] | None:
        """The state of all files, as the operating system tells it, or else as Spark's file system does."""
        try:
            stats = [os.stat(unquote(urlparse(path).path)) for path in self._paths if path.startswith("file:")]
        except OSError:
            return None
        if len(stats) == len(self._paths):
            return [(s.st_dev, s.st_ino, s.st_size, s.st_mtime_ns, s.st_ctime_ns) for s in stats]
        return self._listed()

    def _listed(self) -> list[tuple[Any, ...]] | None:
        """Listed anew: a DataFrame remembers how its files were when it was made."""
        with quiet():
            try:
                escaped = ["".join(f"\\{c}" if c in "{}[]*?\\" else c for c in unquote(path)) for path in self._paths]
                files = self.spark.read.format("binaryFile").load(escaped)
            except Exception:
                return None
        found = collected(files.select("path", "modificationTime", "length"), "looking at files")
        return None if found is None else sorted((file["path"], file["length"], str(file["modificationTime"])) for file in found)


def _types(frame: Any, names: Sequence[str]) -> dict[str, pa.DataType]:
    from pyspark.sql.pandas.types import to_arrow_type

    listed = frame.columns
    if any(listed.count(name) > 1 for name in names):
        raise DataError("the table has two columns of the same name; rename one of them.")
    found = {}
    for field in frame.schema.fields:
        if field.name in names:
            try:
                found[field.name] = to_arrow_type(field.dataType)
            except Exception:
                raise DataError(
                    f"column {field.name!r} holds {field.dataType.simpleString()}; convert it to numbers or text before opening "
                    "the session."
                ) from None
    return found


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _in_order(path: str) -> tuple[str, ...]:
    """As the local engine sorts paths: folder by folder."""
    return PurePosixPath(unquote(urlparse(path).path)).parts


def _let_pass() -> None:
    """Whatever happens to the files from now on has a later time than what happened last."""
    time.sleep(TICK / 1e9)


def _numbering(paths: Sequence[str], files: Sequence[tuple[str, int, int]]) -> Numbering:
    known = {path: (file, rows) for path, file, rows in files}
    numbers = np.array([known[path][0] for path in paths], dtype=np.int64)
    counts = np.array([known[path][1] for path in paths], dtype=np.int64)
    offsets = np.concatenate([[0], np.cumsum(counts)[:-1]]).astype(np.int64) if len(paths) else counts
    order = np.argsort(numbers)
    key = int.from_bytes(randomness.SystemSource().bits(8), "little")
    return Numbering(numbers[order], offsets[order], counts[order], key)


def _marks_of_all(rows: int, key: int) -> int:
    return sum(marks(np.arange(start, min(start + PIECE, rows)), key) for start in range(0, rows, PIECE)) % (1 << 64)
