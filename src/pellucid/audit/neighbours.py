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
from ..mechanisms import labels as secret
from ..mechanisms.labels import KEY_BYTES, Labels
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
        kind: Any = object
        if name not in schema:
            # Ids that are whole numbers stay such: as objects they would be read as text.
            kind = np.int64 if column and all(isinstance(v, int) for v in column) else object
        elif column and not isinstance(schema[name], Category) and all(isinstance(v, int | float) for v in column):
            kind = float
        found[name] = np.array(column, dtype=kind)
    return found


def lowest(schema: Schema) -> Record:
    return {name: f.values[0] if isinstance(f, Category) else f.lo for name, f in schema.items()}


def highest(schema: Schema) -> Record:
    return {name: f.values[-1] if isinstance(f, Category) else f.hi for name, f in schema.items()}


def between(schema: Schema) -> Record:
    """A record inside its columns, at a place that is nobody's default."""
    found: dict[str, Any] = {}
    for name, feature in schema.items():
        if isinstance(feature, Category):
            found[name] = feature.values[len(feature.values) // 2]
        else:
            inside = feature.lo + 0.625 * (feature.hi - feature.lo)
            found[name] = float(round(inside)) if feature.integer else inside
    return found


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
    yield "just above", {name: f.hi + 1 if not isinstance(f, Category) else f.values[-1] for name, f in schema.items()}
    yield "just below", {name: f.lo - 1 if not isinstance(f, Category) else f.values[0] for name, f in schema.items()}
    yield "far above", {name: 1e308 if not isinstance(f, Category) else "\N{WHITE STAR}" for name, f in schema.items()}
    yield "far below", {name: -1e308 if not isinstance(f, Category) else "" for name, f in schema.items()}
    yield "no number", {name: float("nan") if not isinstance(f, Category) else "nan" for name, f in schema.items()}
    for name, feature in schema.items():
        yield f"nothing in {name}", {**low, name: None}
        yield f"a new value of {name}", {**low, name: "a new one" if isinstance(feature, Category) else "abc"}


def candidates(
    schema: Schema,
    relation: Relation,
    unit: Unit,
    rng: np.random.Generator,
    count: int,
    fewest: int = 1,
    most: int = 8,
    failing: Sequence[Record] = (),
    question: int | None = None,
) -> Iterator[Neighbours]:
    """Named neighbours first, then random ones.

    `failing` are records on which a model fails; `question` is how many rows models are asked about at once.
    """
    low, high = lowest(schema), highest(schema)
    for base in ([low], [high], [low, high], [low] * 3, [high] * 3, [low, low, high, high, high]):
        if len(base) >= fewest:
            yield changed(base, low, high, relation, unit, "corner to corner")
            yield changed(base, high, low, relation, unit, "corner to corner, the other way")
    if fewest <= 1:
        yield changed([], low, high, relation, unit, "an empty table, or nobody else")
    for record, other in ((low, high), (high, low)):
        yield changed([record] * max(fewest, 6), other, record, relation, unit, "one more of the same")
    for name, record in [*odd(schema), *(("a row on which the model fails", record) for record in failing)]:
        yield changed([low] * max(fewest, 5), high, record, relation, unit, name)
        yield changed([high] * max(fewest, 5), low, record, relation, unit, name)
    if unit.column:
        yield from _odd_ids([low] * max(fewest, 3), low, high, relation, unit)
    if question is not None:
        for rows in (question - 1, question) if relation == "add-remove" else (question,):
            yield changed([low] * rows, low, high, relation, unit, f"{rows} others, where a question has {question} rows")
    for _ in range(count):
        size = int(rng.integers(fewest, most + 1))
        kinds = [corner(schema, rng) for _ in range(1 + int(rng.integers(3)))]
        base = [kinds[int(rng.integers(len(kinds)))] for _ in range(size)]
        yield changed(base, corner(schema, rng), corner(schema, rng), relation, unit, "random corners")


def _odd_ids(base: Sequence[Record], before: Record, after: Record, relation: Relation, unit: Unit) -> Iterator[Neighbours]:
    """Rows of nobody beside one who changes, and people whose ids floats cannot tell apart."""
    assert unit.column is not None
    for blank in (None, " "):
        nobody = tuple({**record, unit.column: blank} for record in (before, after, after))
        pair = changed(base, before, after, relation, unit, "rows without an id")
        yield Neighbours((*nobody, *pair.first), (*nobody, *pair.second), pair.name)
    if relation == "add-remove":
        others = tuple(_owned(record, i, unit) for i, record in enumerate(base))
        yield Neighbours(others, (*others, {**after, unit.column: None}), "a row without an id more")
    pair = changed(base, before, after, relation, unit, "ids that floats cannot tell apart")
    sides = pair.first, pair.second
    numbered = [tuple({**row, unit.column: LONG_ID + _who(row[unit.column])} for row in side) for side in sides]
    yield Neighbours(numbered[0], numbered[1], pair.name)


LONG_ID = 10**18
"""Floats of this size are 128 apart."""
MOST_ROWS = 50
"""Rows of the one who changes, at most."""


def changed(base: Sequence[Record], before: Record, after: Record, relation: Relation, unit: Unit, name: str) -> Neighbours:
    """The last unit is another one, with as many rows as it may have; or under add-remove there is one more."""
    others = [_owned(record, i, unit) for i, record in enumerate(base)]
    many = min(unit.max_rows, MOST_ROWS)
    old, new = ([_owned(record, len(base), unit)] * many for record in (before, after))
    return Neighbours((*others, *(old if relation == "replace" else [])), (*others, *new), name)


def _owned(record: Record, who: int, unit: Unit) -> Record:
    return {**record, unit.column: f"p{who}"} if unit.column else record


def _who(owner: str) -> int:
    return int(owner[1:])


def varied(pair: Neighbours, schema: Schema, relation: Relation, rng: np.random.Generator) -> Neighbours:
    """A pair with one thing changed: a step of a guided search.

    One cell of the unit that changes, or of a record that both tables share, gets another value or a value near its own; now and
    then a shared record is left out, or is there twice.
    """
    first, second = list(pair.first), list(pair.second)
    alike = next((i for i, (one, other) in enumerate(zip(first, second)) if one != other), min(len(first), len(second)))
    common = min(alike, len(first) - 1) if relation == "replace" else alike
    names = list(schema)
    name, where = names[int(rng.integers(len(names)))], int(rng.integers(common)) if common else 0
    step = rng.random()
    if common > 1 and step < 0.05:
        del first[where], second[where]
    elif common and step < 0.1:
        first.insert(where, first[where])
        second.insert(where, second[where])
    elif common and step < 0.3:
        first[where] = second[where] = {**first[where], name: _near(first[where][name], name, schema, rng)}
    else:
        side = first if relation == "replace" and rng.random() < 0.5 else second
        value = _near(side[common][name], name, schema, rng)
        side[common:] = [{**row, name: value} for row in side[common:]]
    return Neighbours(tuple(first), tuple(second), pair.name.removesuffix(VARIED) + VARIED)


VARIED = ", varied"


def _near(value: Any, name: str, schema: Schema, rng: np.random.Generator) -> Any:
    """Another value of a column, half of the time one near by."""
    feature = schema[name]
    if isinstance(feature, Category) or not isinstance(value, int | float) or not np.isfinite(value) or rng.random() < 0.4:
        return corner(schema, rng, inner=0.4)[name]
    width = (feature.hi - feature.lo) * 10 ** -rng.uniform(0.5, 2)
    moved = float(np.clip(value + rng.normal() * width, feature.lo, feature.hi))
    return float(round(moved)) if feature.integer else moved


class _Public(threading.local):
    """What a thread draws its lots from while it compares totals; nothing elsewhere, where lots are secret."""

    turns: Iterator[int] | None = None
    lot = 0


_PUBLIC, _ENTRY = _Public(), threading.Lock()
_inside, _secret = 0, secret.fresh


@contextlib.contextmanager
def coupled(lot: int = 0) -> Iterator[None]:
    """Lots from public keys: what is common to two tables is paired alike, as the proofs couple them. For totals without noise.

    In this thread alone: whoever releases in another one goes on drawing secret lots. The last thread to leave puts everything
    back, whatever order they leave in.
    """
    global _inside, _secret
    outer = _PUBLIC.turns, _PUBLIC.lot
    with _ENTRY:
        if not _inside:
            _secret, secret.fresh = secret.fresh, _fresh
        _inside += 1
    _PUBLIC.turns, _PUBLIC.lot = itertools.count(), lot
    try:
        yield
    finally:
        _PUBLIC.turns, _PUBLIC.lot = outer
        with _ENTRY:
            _inside -= 1
            if not _inside:
                secret.fresh = _secret


def _fresh() -> Labels:
    if _PUBLIC.turns is None:
        return _secret()
    return Labels(np.random.default_rng([_PUBLIC.lot, next(_PUBLIC.turns)]).bytes(KEY_BYTES))
