"""How many cells are not as declared, exactly: for the owner of a table alone, never part of a release."""

from __future__ import annotations

import contextlib
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import DataError, SchemaError
from ..public.schema import FINE, MISSING, OUTSIDE, UNREADABLE, Category, Feature, Number, Schema, Unit, did_you_mean
from .decode import cells_of, conditions
from .units import People

WARNING = "NOT PRIVATE: exact numbers and cells of the table, for its owner alone. Do not publish them or pass them on."
MOST_CAUSES = 10
"""Causes that are listed for each column."""
MOST_TEXTS = 100_000
"""Different texts of a column that are counted at once: beyond that the rarest are forgotten."""

DECIMAL_COMMA = re.compile(r"\s*[-+]?\d+(\.\d{3})*,\d+\s*")
THOUSANDS = re.compile(r"\s*[-+]?\d{1,3}(,\d{3})+(\.\d*)?\s*")


@dataclass(frozen=True)
class Cause:
    """A text or number that many cells hold and that is not as declared."""

    condition: str
    """What is wrong with it: unreadable, not declared or out of range."""
    text: str
    """What the cells say."""
    cells: int
    """How many of them."""


@dataclass(frozen=True)
class ColumnCheck:
    """The cells of one column that are not as declared. Exact numbers, not private."""

    name: str
    """The column."""
    cells: int
    """All of them."""
    conditions: dict[str, int]
    """How many are missing, unreadable or out of range; of a category, missing or not declared."""
    causes: tuple[Cause, ...]
    """What they hold most often, at most ten."""
    hints: tuple[str, ...]
    """What may be behind it."""

    def __str__(self) -> str:
        found = {what: count for what, count in self.conditions.items() if count}
        counted = ", ".join(f"{count:,} {what} ({count / max(self.cells, 1):.1%})" for what, count in found.items())
        lines = [f"{self.name}: {counted or 'all cells are as declared'}"]
        lines += [f"    {cause.cells:,} × {_short(cause.text)!r} ({cause.condition})" for cause in self.causes]
        return "\n".join([*lines, *(f"    hint: {hint}" for hint in self.hints)])


@dataclass(frozen=True)
class IdCheck:
    """Whose the rows are, by the id column of the unit. Exact numbers, not private."""

    column: str
    """The id column."""
    max_rows: int
    """How many rows of a person count, as declared."""
    people: int
    """Different ids."""
    without: int
    """Rows without an id, which are left out."""
    above: int
    """People with more than `max_rows` rows."""
    left_out: int
    """Rows of theirs that are left out for it."""

    @classmethod
    def of(cls, people: People, unit: Unit) -> IdCheck:
        """The check of a table whose people were found when it was opened."""
        assert unit.column is not None
        return cls(unit.column, unit.max_rows, people.count, people.without, people.above, people.left_out)

    def __str__(self) -> str:
        allowed = f"{self.max_rows} row{'s' if self.max_rows > 1 else ''}"
        told = f"{self.above:,} with more than {allowed}, {self.left_out:,} rows left out for it" if self.above else ""
        nobody = f"{self.without:,} rows without an id, left out" if self.without else ""
        return f"{self.column}: {'; '.join(filter(None, (f'{self.people:,} people', told, nobody)))}"


@dataclass(frozen=True, repr=False)
class DataCheck:
    """What is not as the schema declares, column by column: exact numbers, not private, for the owner of the table alone."""

    rows: int
    """Rows of the table."""
    columns: tuple[ColumnCheck, ...]
    """The declared columns, in order."""
    ids: IdCheck | None = None
    """The id column, where the unit has one."""

    def __getitem__(self, name: str) -> ColumnCheck:
        found = {column.name: column for column in self.columns}
        if name not in found:
            raise SchemaError(f"{name!r} is not declared in the schema{did_you_mean(name, found)}.")
        return found[name]

    def __str__(self) -> str:
        parts = [*([] if self.ids is None else [self.ids]), *self.columns]
        return "\n".join([WARNING, f"{self.rows:,} rows", *(f"  {line}" for part in parts for line in str(part).splitlines())])

    __repr__ = __str__

    def to_frame(self) -> pd.DataFrame:
        """A row for each column and condition, with the exact number of cells. Not private."""
        found = [(c.name, what, count, count / max(c.cells, 1)) for c in self.columns for what, count in c.conditions.items()]
        return pd.DataFrame(found, columns=["feature", "condition", "cells", "share"])

    def to_dict(self) -> dict[str, Any]:
        """As plain data, which says of itself that it is not private."""
        columns = [
            {
                "column": c.name,
                "cells": c.cells,
                **c.conditions,
                "causes": [vars(cause) for cause in c.causes],
                "hints": list(c.hints),
            }
            for c in self.columns
        ]
        return {"warning": WARNING, "rows": self.rows, "ids": self.ids and vars(self.ids), "columns": columns}

    def __reduce__(self) -> Any:
        raise TypeError("a check holds exact numbers and cells of a table and is not saved")


def checked(batches: Iterable[Mapping[str, pa.Array]], schema: Schema) -> DataCheck:
    """The check of a table, a batch at a time."""
    counts = None
    with contextlib.suppress(Exception), np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
        counts = Counts.of(batches, schema)
    if counts is None:
        raise DataError("the table could not be read to its end; check that the file is complete.")
    return counts.check(schema)


@dataclass
class Counts:
    """What was counted of some rows; those of several pieces of a table add up."""

    rows: int
    found: dict[str, np.ndarray]
    """How many cells of each column are in each condition."""
    texts: dict[str, Counter[tuple[int, str]]]
    """What those say that are neither fine nor missing."""

    @classmethod
    def none(cls, schema: Schema) -> Counts:
        return cls(0, {name: np.zeros(4, dtype=np.int64) for name in schema}, {name: Counter() for name in schema})

    @classmethod
    def of(cls, batches: Iterable[Mapping[str, pa.Array]], schema: Schema) -> Counts:
        counts = cls.none(schema)
        for batch in batches:
            counts.rows += len(batch[next(iter(schema))])
            for name, feature in schema.items():
                for chunk in _chunks(batch[name]):
                    condition = conditions(feature, chunk)
                    counts.found[name] += np.bincount(condition, minlength=4)
                    counts.texts[name].update(_texts(chunk, condition))
            counts.forget()
        return counts

    def add(self, other: Counts) -> None:
        self.rows += other.rows
        for name in self.found:
            self.found[name] += other.found[name]
            self.texts[name].update(other.texts[name])
        self.forget()

    def forget(self, most: int = MOST_TEXTS) -> None:
        for name, said in self.texts.items():
            if len(said) > 2 * most:
                self.texts[name] = Counter(dict(said.most_common(most)))

    def check(self, schema: Schema) -> DataCheck:
        columns = (_column(name, schema[name], self.rows, self.found[name], self.texts[name]) for name in schema)
        return DataCheck(self.rows, tuple(columns))


def _chunks(column: pa.Array | pa.ChunkedArray) -> Iterator[pa.Array]:
    for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
        yield chunk.dictionary_decode() if pa.types.is_dictionary(chunk.type) else chunk


def _countable(chunk: pa.Array) -> pa.Array:
    """In a type whose values Arrow counts."""
    return chunk.cast(pa.large_string()) if pa.types.is_string_view(chunk.type) else chunk


def _texts(chunk: pa.Array, condition: np.ndarray) -> dict[tuple[int, str], int]:
    """What the cells of a chunk that are neither fine nor missing say, and how often."""
    said: dict[tuple[int, str], int] = {}
    for wrong in (UNREADABLE, OUTSIDE):
        if (condition == wrong).any():
            counted = pc.value_counts(_countable(chunk).filter(pa.array(condition == wrong)))
            values, counts = (counted.field(part) for part in ("values", "counts"))
            said |= {(wrong, str(v)): n for v, n in zip(cells_of(values), counts.to_pylist())}
    return said


def _column(name: str, feature: Feature, cells: int, found: np.ndarray, texts: Counter[tuple[int, str]]) -> ColumnCheck:
    named = dict(zip((MISSING, UNREADABLE, OUTSIDE), feature.conditions))
    causes = [Cause(named[wrong], text, count) for (wrong, text), count in texts.most_common(MOST_CAUSES)]
    hints = list(_number_hints(texts, found) if isinstance(feature, Number) else _category_hints(feature, texts))
    if cells and not found[FINE]:
        hints.append("no cell is as declared: is it the right column, and read as what it is?")
    return ColumnCheck(name, cells, {what: int(found[wrong]) for wrong, what in named.items()}, tuple(causes), tuple(hints))


def _number_hints(texts: Counter[tuple[int, str]], found: np.ndarray) -> Iterator[str]:
    unreadable = {text: count for (wrong, text), count in texts.items() if wrong == UNREADABLE}
    thousands = [text for text in unreadable if THOUSANDS.fullmatch(text)]
    decimals = [text for text in unreadable if DECIMAL_COMMA.fullmatch(text) and not THOUSANDS.fullmatch(text)]
    for what, fix, some in (
        ("decimal commas", "write them with a point before opening the session (pandas reads them with decimal=',')", decimals),
        ("commas between thousands", "take the commas out before opening the session (thousands=',')", thousands),
    ):
        if some:
            count, most = sum(unreadable[text] for text in some), max(some, key=lambda text: unreadable[text])
            yield f"{count:,} cells such as {_short(most)!r} are numbers with {what}: {fix}"
    outside = Counter({text: count for (wrong, text), count in texts.items() if wrong == OUTSIDE})
    for text, count in outside.most_common(1):
        if count >= 10 and 2 * count >= found[OUTSIDE]:
            yield f"{count:,} of the cells out of range say {_short(text)!r}: is it a code for a missing value?"


def _category_hints(feature: Category, texts: Counter[tuple[int, str]]) -> Iterator[str]:
    alike = {str(value).strip().casefold(): value for value in feature.values}
    near = {text: count for (_, text), count in texts.items() if text.strip().casefold() in alike}
    if near:
        most = max(near, key=lambda text: near[text])
        meant = alike[most.strip().casefold()]
        yield (
            f"{sum(near.values()):,} cells differ from a declared value in capitals or spaces alone, such as {_short(most)!r} "
            f"from {meant!r}"
        )


def _short(text: str) -> str:
    return text if len(text) <= 40 else text[:39] + "…"
