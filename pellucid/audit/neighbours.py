"""Tables that differ by one unit, for audits: a few public records, and one that is exchanged, added or odd."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..engine import LocalEngine
from ..engine import units as engine_units
from ..public.schema import Category, Relation, Schema, Unit

Record = Mapping[str, Any]


@dataclass(frozen=True)
class Neighbours:
    """Two tables of records that differ by one unit."""

    first: tuple[Record, ...]
    second: tuple[Record, ...]
    name: str = ""
    """What is different."""

    def tables(self, schema: Schema, unit: Unit) -> tuple[dict[str, list[Any]], dict[str, list[Any]]]:
        """Both as columns."""
        names = [*schema, *([unit.column] if unit.column else [])]
        first, second = ({name: [record.get(name) for record in side] for name in names} for side in (self.first, self.second))
        return first, second

    def engines(self, schema: Schema, relation: Relation, unit: Unit) -> tuple[LocalEngine, LocalEngine]:
        first, second = (LocalEngine(_typed(table, schema), schema, relation, unit) for table in self.tables(schema, unit))
        return first, second


def _typed(table: dict[str, list[Any]], schema: Schema) -> dict[str, Any]:
    """Columns of numbers where all cells are, which are read faster; columns that hold nothing still are columns."""
    found: dict[str, Any] = {}
    for name, column in table.items():
        numbers = name in schema and not isinstance(schema[name], Category) and all(isinstance(v, int | float) for v in column)
        found[name] = np.array(column, dtype=float if numbers and column else object)
    return found


def lowest(schema: Schema) -> Record:
    return {name: f.values[0] if isinstance(f, Category) else f.lo for name, f in schema.items()}


def highest(schema: Schema) -> Record:
    return {name: f.values[-1] if isinstance(f, Category) else f.hi for name, f in schema.items()}


def corner(schema: Schema, rng: np.random.Generator, inner: float = 0.25) -> Record:
    """A record at the ends of its columns, now and then at a public place between them."""
    found: dict[str, Any] = {}
    for name, feature in schema.items():
        if isinstance(feature, Category):
            found[name] = feature.values[int(rng.integers(len(feature.values)))]
            continue
        at = rng.random() if rng.random() < inner else float(rng.integers(2))
        value = feature.lo + at * (feature.hi - feature.lo)
        found[name] = float(round(value)) if feature.integer else value
    return found


def odd(schema: Schema) -> Iterator[tuple[str, Record]]:
    """Records whose cells are not as declared."""
    low = lowest(schema)
    yield "nothing in any cell", dict.fromkeys(schema)
    yield "far above", {name: 1e308 if not isinstance(f, Category) else "\N{WHITE STAR}" for name, f in schema.items()}
    yield "far below", {name: -1e308 if not isinstance(f, Category) else "" for name, f in schema.items()}
    yield "no number", {name: float("nan") if not isinstance(f, Category) else "nan" for name, f in schema.items()}
    for name, feature in schema.items():
        yield f"nothing in {name}", {**low, name: None}
        yield f"a new value of {name}", {**low, name: "a new one" if isinstance(feature, Category) else "abc"}


def candidates(
    schema: Schema, relation: Relation, unit: Unit, rng: np.random.Generator, count: int, fewest: int = 1, most: int = 8
) -> Iterator[Neighbours]:
    """Named neighbours first, then random ones."""
    low, high = lowest(schema), highest(schema)
    for base in ([low], [high], [low, high], [low] * 3, [high] * 3, [low, low, high, high, high]):
        if len(base) >= fewest:
            yield changed(base, low, high, relation, unit, "corner to corner")
            yield changed(base, high, low, relation, unit, "corner to corner, the other way")
    for name, record in odd(schema):
        yield changed([low] * max(fewest, 3), high, record, relation, unit, name)
        yield changed([high] * max(fewest, 3), low, record, relation, unit, name)
    for _ in range(count):
        size = int(rng.integers(fewest, most + 1))
        kinds = [corner(schema, rng) for _ in range(1 + int(rng.integers(3)))]
        base = [kinds[int(rng.integers(len(kinds)))] for _ in range(size)]
        yield changed(base, corner(schema, rng), corner(schema, rng), relation, unit, "random corners")


def changed(base: Sequence[Record], before: Record, after: Record, relation: Relation, unit: Unit, name: str) -> Neighbours:
    """The last unit is another one, or under add-remove there is one more."""
    others = [_owned(record, i, unit) for i, record in enumerate(base)]
    rows = [_owned(after, len(base), unit)] * (unit.rows_per_unit if unit.column else 1)
    if relation == "add-remove":
        return Neighbours(tuple(others), (*others, *rows), name)
    return Neighbours((*others, _owned(before, len(base), unit)), (*others, *rows), name)


def _owned(record: Record, who: int, unit: Unit) -> Record:
    return {**record, unit.column: f"p{who}"} if unit.column else record


def varied(pair: Neighbours, schema: Schema, relation: Relation, rng: np.random.Generator) -> Neighbours:
    """One cell of a pair changed, alike in all rows that were alike: a step of a guided search."""
    names = list(schema)
    name, record = names[int(rng.integers(len(names)))], corner(schema, rng, inner=0.4)
    common = min(len(pair.first), len(pair.second)) - (relation == "replace")
    where = int(rng.integers(common + 1)) if common else 0
    first, second = list(pair.first), list(pair.second)
    if where < common:
        first[where] = second[where] = {**first[where], name: record[name]}
    elif relation == "replace" and rng.random() < 0.5:
        first[common:] = [{**row, name: record[name]} for row in first[common:]]
    else:
        second[common:] = [{**row, name: record[name]} for row in second[common:]]
    return Neighbours(tuple(first), tuple(second), pair.name)


@contextlib.contextmanager
def coupled() -> Iterator[None]:
    """Lots by position: what is common to two tables is paired alike, as the proofs couple them. For totals without noise.

    In this thread alone: whoever releases in another one goes on drawing secret lots.
    """
    turns, thread, secret = itertools.count(), threading.get_ident(), engine_units.secret_labels  # type: ignore[attr-defined]

    def labels(count: int) -> np.ndarray:
        if threading.get_ident() != thread:
            return secret(count)
        return np.random.default_rng(next(turns)).permutation(1 << 16)[:count].astype(np.uint64)

    engine_units.secret_labels = labels  # type: ignore[attr-defined]
    try:
        yield
    finally:
        engine_units.secret_labels = secret  # type: ignore[attr-defined]
