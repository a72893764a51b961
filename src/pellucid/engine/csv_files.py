"""CSV files as tables: one line a record, every cell as text, a batch at a time.

A parser of CSV lets one cell decide about others: a quote that is not closed swallows the lines behind it, a comma too many stops
it, and types are guessed from all cells. Here every line is parsed by itself; one that does not have a cell for each column is a
record without values. What cells mean is settled by the schema, in `decode`.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from ..errors import DataError, ReleaseFailed
from .files import attempt, check_state, let_pass, state_of
from .shield import CHANGED

DELIMITED = (".csv", ".tsv")
UNREADABLE = "the data file cannot be read as CSV; check the path, and that its first line names the columns."


EVERY = 1 << 16
"""Records after which a place in the file is remembered, so that reading can start there."""


class CsvTable:
    """One CSV file, read a batch at a time. The first line names the columns; it also tells "," from ";" and a tabulator."""

    def __init__(self, path: Path):
        # Wherever this process goes meanwhile.
        self.path = path.absolute()
        if not self.path.is_file():
            raise DataError(f"the data file {str(path)!r} does not exist.")
        state = attempt(self._look)
        if state is not None:
            let_pass([state])
        names = attempt(self._header)
        if state is None or not names or not all(names):
            raise DataError(UNREADABLE)
        if len(set(names)) < len(names):
            raise DataError("the table has two columns of the same name; rename one of them.")
        self._state, self._names = state, names
        self.types: Mapping[str, pa.DataType] = dict.fromkeys(names, pa.string())
        places = attempt(self._count)
        if places is None:
            raise DataError(UNREADABLE)
        self.rows, self._places = places

    def _count(self) -> tuple[int, list[int]]:
        """How many records there are, and where in the file every so many of them begin."""
        rows, places = 0, []
        for place, _ in self._lines():
            if rows % EVERY == 0:
                places.append(place)
            rows += 1
        return rows, places

    @property
    def borders(self) -> Sequence[int]:
        return range(0, self.rows, EVERY)

    def _look(self) -> tuple[int, ...]:
        return state_of(os.stat(self.path))

    def _header(self) -> list[str]:
        with self.path.open("rb") as file:
            line = file.readline().decode("utf-8-sig").rstrip("\r\n")
        counts = {mark: line.count(mark) for mark in (",", ";", "\t")}
        self._mark = max(counts, key=lambda mark: counts[mark])
        return [name.strip() for name in next(csv.reader([line], delimiter=self._mark))]

    def _lines(self, start: int = 0, most: int = -1) -> Iterator[tuple[int, bytes]]:
        """Where the line of a record begins, and what it says, from a border on, so many of them. An empty one is a record only
        where there is one column, and a record is one empty cell."""
        alone = len(self._names) == 1
        with self.path.open("rb") as file:
            check_state(file, self._state)
            place = file.seek(self._places[start // EVERY]) if start else len(file.readline())
            for line in file if most else ():
                here, place = place, place + len(line)
                line = line.rstrip(b"\r\n")
                if line or alone:
                    yield here, line
                    most -= 1
                    if most == 0:
                        break
            check_state(file, self._state)

    def check_unchanged(self) -> None:
        if attempt(self._look) != self._state:
            raise ReleaseFailed(CHANGED)

    def kept(self) -> CsvTable:
        return self

    def batches(
        self, columns: Sequence[str], size: int, start: int = 0, stop: int | None = None
    ) -> Iterator[Mapping[str, pa.Array]]:
        places = [self._names.index(name) for name in columns]
        border, stop = start // EVERY * EVERY, self.rows if stop is None else stop
        if start >= stop:
            return
        broken = False
        try:
            lines = (line for _, line in islice(self._lines(border, stop - border), start - border, None))
            while some := list(islice(lines, size)):
                records = [self._cells(line) for line in some]
                cells = ([record[place] or None for record in records] for place in places)
                yield {name: pa.array(column, pa.string()) for name, column in zip(columns, cells)}
        except Exception:
            broken = True
        if broken:
            # Most likely because somebody has written to it meanwhile.
            self.check_unchanged()
            raise DataError(UNREADABLE)

    def _cells(self, line: bytes) -> Sequence[Any]:
        """The cells of one line, by that line alone."""
        text = line.decode("utf-8", "replace")
        cells: list[str] | None = text.split(self._mark)
        if '"' in text:
            cells = attempt(lambda: next(csv.reader([text], delimiter=self._mark, strict=True)))
        return cells if cells is not None and len(cells) == len(self._names) else [None] * len(self._names)
