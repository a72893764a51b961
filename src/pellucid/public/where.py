"""Public conditions on declared columns: which part of a table is meant.

Whether a record is in a part follows from its decoded cells alone, the same in every engine and session. A cell that says nothing
is in no part of its column; a number outside its bounds is where the nearest bound is.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import PlanError, SchemaError
from .columns import some
from .records import plain
from .rows import Rows
from .schema import Category, Feature, Number, Schema, did_you_mean


@dataclass(frozen=True)
class Values:
    """Some values of a category."""

    positions: tuple[int, ...]
    """In the declared order, each once."""
    values: tuple[Any, ...]
    """The same as they are declared."""
    of: int
    """How many the column declares."""

    def holds(self, column: np.ndarray) -> np.ndarray:
        return np.isin(column, self.positions)

    def both(self, other: Values) -> Values | None:
        kept = [pair for pair in zip(self.positions, self.values) if pair[0] in other.positions]
        return Values(tuple(p for p, _ in kept), tuple(v for _, v in kept), self.of) if kept else None

    @property
    def stored(self) -> dict[str, Any]:
        return {"in": list(self.values)}

    @property
    def share(self) -> float:
        """Of the declared values."""
        return len(self.positions) / self.of

    def words(self, name: str) -> str:
        said = [str(value) for value in self.values]
        return f"{name} is {said[0] if len(said) == 1 else ', '.join(said[:-1]) + ' or ' + said[-1]}"


@dataclass(frozen=True)
class Range:
    """Numbers from `lo` up to, and not with, `hi`; without `hi`, to the end of the declared range and with it."""

    lo: float | None
    hi: float | None
    feature: Number

    def holds(self, column: np.ndarray) -> np.ndarray:
        # A NaN is on neither side.
        low = column >= (self.feature.lo if self.lo is None else self.lo)
        return low & ((column <= self.feature.hi) if self.hi is None else (column < self.hi))

    def both(self, other: Range) -> Range | None:
        lows, highs = ([v for v in pair if v is not None] for pair in ((self.lo, other.lo), (self.hi, other.hi)))
        lo, hi = max(lows, default=None), min(highs, default=None)
        return None if lo is not None and hi is not None and lo >= hi else Range(lo, hi, self.feature)

    @property
    def stored(self) -> dict[str, Any]:
        return {"from": self.lo, "to": self.hi}

    @property
    def share(self) -> float:
        """Of the declared range."""
        first, last = self.feature.lo if self.lo is None else self.lo, self.feature.hi if self.hi is None else self.hi
        more = 1 if self.feature.integer and self.hi is None else 0
        return min(1.0, (last - first + more) / (self.feature.hi - self.feature.lo + (1 if self.feature.integer else 0)))

    def words(self, name: str) -> str:
        lo, hi = (None if v is None else self._word(v) for v in (self.lo, self.hi))
        if lo is None and hi is None:
            return f"{name} has a value"
        if lo is None:
            return f"{name} below {hi}"
        return f"{name} from {lo} on" if hi is None else f"{name} from {lo} to below {hi}"

    def _word(self, number: float) -> str:
        said = self.feature.value_at(number)
        return said if isinstance(said, str) else f"{number:.12g}"


Condition = Values | Range


@dataclass(frozen=True)
class Where:
    """A condition on some columns, which all hold.

    >>> schema = Schema({"age": Number(17, 90, integer=True), "sex": Category(["F", "M"])})
    >>> Where.of(schema, {"age": (18, 40), "sex": "F"}).text
    'age from 18 to below 40 and sex is F'
    """

    conditions: tuple[tuple[str, Condition], ...]
    """By the names of columns, in the order of names."""

    @classmethod
    def of(cls, schema: Schema, conditions: Mapping[str, Any]) -> Where:
        """From what a user says: a value or a list of values of a category, a pair of numbers of a number."""
        if not isinstance(conditions, Mapping) or not conditions:
            raise PlanError("where() needs at least one condition, for example where(region='north') or where(age=(18, 40)).")
        for name in conditions:
            if name not in schema:
                raise PlanError(f"where: {name!r} is not declared in the schema{did_you_mean(name, schema)}.")
        return cls(tuple((name, _condition(name, schema[name], conditions[name])) for name in sorted(conditions)))

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.conditions)

    def holds(self, rows: Rows) -> np.ndarray:
        """Which of these records are in the part; their conditions must have been read too."""
        found = np.ones(len(rows), dtype=bool)
        for name, condition in self.conditions:
            found &= condition.holds(rows[name]) & ~self._says_nothing(rows, name)
        return found

    @staticmethod
    def _says_nothing(rows: Rows, name: str) -> np.ndarray:
        feature = rows.schema[name]
        # A number that stands for missing ones counts as itself, as a category does that is declared for them.
        if isinstance(feature, Number) and feature.stands_in and not feature.fills_nan:
            return np.zeros(len(rows), dtype=bool)
        return rows.absent(name)

    def both(self, other: Where) -> Where:
        """What both say."""
        found: dict[str, Condition] = dict(self.conditions)
        for name, condition in other.conditions:
            joined = condition if name not in found else found[name].both(condition)  # type: ignore[arg-type]
            if joined is None:
                raise PlanError(
                    f"where: nobody can be in both, {found[name].words(name)} and {condition.words(name)}; the part is empty."
                )
            found[name] = joined
        return Where(tuple(sorted(found.items())))

    @property
    def share(self) -> float:
        """Of the declared values: the guess of a part's size where nobody has a better one."""
        return math.prod(condition.share for _, condition in self.conditions)

    @property
    def text(self) -> str:
        """In words."""
        return " and ".join(condition.words(name) for name, condition in self.conditions)

    @property
    def stored(self) -> dict[str, Any]:
        """As plain data. Whatever means the same is the same."""
        return {"said": self.text, "where": {name: condition.stored for name, condition in self.conditions}}

    @property
    def scope(self) -> str:
        """As a ledger stores it."""
        return json.dumps(self.stored, sort_keys=True, ensure_ascii=False)


def _condition(name: str, feature: Feature, said: Any) -> Condition:
    try:
        return _values(feature, said) if isinstance(feature, Category) else _range(feature, said)
    except SchemaError as error:
        raise PlanError(f"where: {name!r}: {error}") from None


def _values(feature: Category, said: Any) -> Values:
    listed = list(said) if isinstance(said, Iterable) and not isinstance(said, str) else [said]
    if not listed:
        raise SchemaError("an empty list is an empty part; name at least one of its values.")
    if len({_read_as(value) for value in feature.values}) < len(feature.values):
        raise SchemaError(
            f"two of its values {some(feature.values)} differ only in being a number, a truth value or a text. Which of them a "
            "cell is depends on how the table is stored, so that one record could be in two parts that nobody shares; "
            "declare one of them."
        )
    positions = tuple(sorted({feature.position(plain(value)) for value in listed}))
    return Values(positions, tuple(feature.values[p] for p in positions), len(feature.values))


def _read_as(value: Any) -> Any:
    """What values have in common that are the same cell in a typed table and in one of texts: 1, True, "1" and "1.0"."""
    text = str(value).strip().casefold()
    try:
        return float({"true": "1", "false": "0"}.get(text, text))
    except ValueError:
        return str(value)


def _range(feature: Number, said: Any) -> Range:
    if isinstance(said, range):
        if said.step != 1:
            raise SchemaError("give the range without a step: its numbers would lie apart.")
        said = (said.start, said.stop)
    if not isinstance(said, tuple | list):
        if not feature.integer:
            raise SchemaError("give a pair of numbers, from the first up to and not with the second; None leaves an end open.")
        whole = _inner(feature, said)
        if whole is None or whole != int(whole):
            raise SchemaError("the column is declared integer; give a whole number, or a pair of numbers.")
        said = (said, whole + 1) if type(feature) is Number else (said, feature.value_at(whole + 1))
    if len(said) != 2:
        raise SchemaError("give a pair: the first number and the one that ends it; None leaves an end open.")
    lo, hi = (_inner(feature, v) for v in said)
    # A whole number is at least 17.5 exactly if it is at least 18: the same part has one form.
    if feature.integer:
        lo, hi = (None if v is None else float(math.ceil(v)) for v in (lo, hi))
    if lo is not None and hi is not None and lo >= hi:
        raise SchemaError("the first number must be below the second, which is not part of it.")
    first, last = (feature.value_at(v) for v in (feature.lo, feature.hi))
    if (lo is not None and lo > feature.hi) or (hi is not None and hi <= feature.lo):
        raise SchemaError(f"nothing of it lies between {first} and {last}, as is declared; the part is empty.")
    # Beyond the declared range there is nobody: those are at its ends. Of real numbers the end of the range belongs to the part
    # that ends there, as in histograms; whole numbers need no such rule.
    open_end = hi is None or hi > feature.hi or (hi == feature.hi and not feature.integer)
    # Adding 0.0 makes a zero of minus zero.
    return Range(None if lo is None or lo <= feature.lo else lo + 0.0, None if open_end or hi is None else hi + 0.0, feature)


def _inner(feature: Number, value: Any) -> float | None:
    """A number or date of the user's as a float; None for an open end. Not only inside the declared range."""
    if value is None:
        return None
    value = plain(value)
    if type(feature) is not Number:
        return float(feature._inner("value", value))  # type: ignore[attr-defined]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise SchemaError(f"{value!r} is not a number; give a pair of numbers, None for an open end.")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise SchemaError(f"{value!r} is not finite; None leaves an end open.")
    return number
