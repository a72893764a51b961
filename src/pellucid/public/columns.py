"""Columns and what is declared of each: bounds or values, and what becomes of a cell that is not as declared."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np

from ..errors import SchemaError
from .fingerprint import fingerprinted_as
from .frozen import settle
from .texts import storable

EXCLUDE = "exclude"
"""The policy of a column whose records are left out of what is counted of it where their cell says nothing."""

FOR_PEOPLE = ("label", "unit")
"""Words of a declaration that only pictures and tables use: they change no number, so they are no part of requests."""

Scale = Literal["linear", "log"]

FINE, MISSING, UNREADABLE, OUTSIDE = range(4)
"""Conditions of a cell: as declared; empty; a text that is no number, or a value that is not declared; a number out of bounds."""


SHOWN = 12
"""Values that an error lists, of a column that declares many."""


def some(values: Sequence[Any]) -> str:
    """Declared values for an error, the first ones of many.

    >>> some(["F", "M"]), some(range(500))[-21:]
    ("['F', 'M']", ', 11, … (500 in all)]')
    """
    if len(values) <= SHOWN:
        return repr(list(values))
    return f"[{', '.join(repr(v) for v in values[:SHOWN])}, … ({len(values):,} in all)]"


def _finite(name: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise SchemaError(f"{name}={value!r} is not a number; give a finite number.") from None
    if not math.isfinite(number):
        raise SchemaError(f"{name}={value!r} is not finite; give the bound the documentation states.")
    return number


@fingerprinted_as("pellucid.schema", "Number")
@dataclass(frozen=True)
class Number:
    """A numeric column with public bounds; values outside are moved to the nearest bound.

    >>> Number(17, 90, integer=True, source="form 12").missing
    'exclude'
    """

    lo: float
    """The smallest value."""
    hi: float
    """The largest value."""
    integer: bool = False
    """Whether all values are whole numbers."""
    missing: float | str | None = None
    """What becomes of a cell that is missing or unreadable. "exclude", the default: its record is not counted in statistics,
    histograms and losses of the column. A number: it counts as that. `float("nan")`: a NaN for models, and a cell of its own in
    histograms. Models need a value; where none is declared they are given the middle of the range."""
    source: str = ""
    """Where the bounds come from; printed on every certificate that used them."""
    label: str = field(default="", repr=False)
    """What people call the column ("chronic conditions"), for pictures and tables; by default its name."""
    unit: str = field(default="", repr=False)
    """What it is measured in ("€ a year"), for pictures and tables."""
    scale: Scale | None = field(default=None, repr=False)
    """How public grids are spaced: "linear", or "log" where values of very different size matter (incomes, doses): evenly by
    factors where the lower bound is positive, else by the distance from it. By default linear, and "log" for whole numbers in a
    range of more than a thousand."""

    def __post_init__(self) -> None:
        check_words(self.label, self.unit)
        if self.scale is not None and self.scale not in get_args(Scale):
            raise SchemaError(f"scale={self.scale!r}: use 'linear' or 'log'.")
        lo, hi = _finite("lo", self.lo), _finite("hi", self.hi)
        if lo >= hi:
            raise SchemaError(f"Number({self.lo!r}, {self.hi!r}): the lower bound must be below the upper bound; swap them.")
        if not 1e-280 < hi - lo < 1e300 or (self.integer and not -(2.0**63) <= lo < hi < 2.0**63):
            raise SchemaError(
                f"Number({self.lo!r}, {self.hi!r}): too wide or too narrow a range to compute with; change its unit."
            )
        if self.integer and (lo != int(lo) or hi != int(hi)):
            raise SchemaError(
                f"Number({self.lo!r}, {self.hi!r}, integer=True): the bounds of an integer column must be integers."
            )
        settle(self, lo=lo, hi=hi, missing=_number_policy(self.missing, lo, hi))

    @property
    def excludes(self) -> bool:
        """Whether a record whose cell says nothing is left out of what is counted of this column."""
        return self.missing == EXCLUDE

    @property
    def stands_in(self) -> bool:
        """Whether a value, or NaN, is declared that stands for a missing one."""
        return not self.excludes

    @property
    def fill(self) -> float:
        """What a missing or unreadable cell is to whoever needs a value: the declared one, or the middle of the range."""
        if not self.excludes:
            return float(self.missing)  # type: ignore[arg-type]
        middle = (self.lo + self.hi) / 2
        return float(math.ceil(middle)) if self.integer else middle

    @property
    def fills_nan(self) -> bool:
        """Whether a missing cell stays a NaN: models are asked with it, histograms have a cell for it."""
        return math.isnan(self.fill)

    @property
    def conditions(self) -> tuple[str, ...]:
        """What a cell can be but fine, in the order of MISSING, UNREADABLE, OUTSIDE."""
        return "missing", "unreadable", "out of range"

    def absent(self, condition: np.ndarray) -> np.ndarray:
        """Which cells say nothing, by their condition: one out of range says that the nearest bound is right."""
        absent: np.ndarray = (condition == MISSING) | (condition == UNREADABLE)
        return absent

    def policy(self, left_out: bool) -> str:
        """What becomes of cells that are not as declared, for the certificate; `left_out` where they are not counted."""
        if left_out:
            what = "a record whose cell is missing or unreadable is not counted"
        elif self.fills_nan:
            what = "a missing or unreadable cell is a NaN for models and a cell of its own in histograms"
        else:
            default = ", the middle of the range: no value is declared" if self.excludes else ""
            what = f"a missing or unreadable cell counts as {self.fill:.12g}{default}"
        return f"{what}; a value outside [{self.lo:g}, {self.hi:g}] counts as the nearest bound"

    @property
    def levels(self) -> int | None:
        """How many values the column can take, or None for real numbers."""
        return int(self.hi - self.lo) + 1 if self.integer else None

    def sample(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Public records: uniform over the domain, with both bounds and the missing value among them."""
        drawn = rng.uniform(self.lo, self.hi, size)
        if self.integer:
            drawn = np.round(drawn)
        special = rng.choice(np.array([self.lo, self.hi, self.fill], dtype=float), size)
        return np.where(rng.random(size) < 0.15, special, drawn)

    def __getstate__(self) -> dict[str, Any]:
        return _state(self)

    def value_at(self, position: float) -> Any:
        """The value at a position, in the user's form."""
        return int(position) if self.integer and math.isfinite(position) else float(position)

    def values_at(self, positions: np.ndarray) -> np.ndarray:
        """A column in the user's form. Its type follows the declaration: one missing cell must not change everybody's column."""
        return positions.astype(np.int64) if self.integer and not self.fills_nan else positions

    def position(self, value: Any) -> float:
        """The inner form of a value given by the user."""
        number = _finite("value", value)
        if not self.lo <= number <= self.hi:
            raise SchemaError(f"{value!r} lies outside the declared bounds [{self.lo:g}, {self.hi:g}].")
        return number

    def to_dict(self) -> dict[str, Any]:
        whole = (lambda v: int(v)) if self.integer else (lambda v: v)
        missing = EXCLUDE if self.excludes else "nan" if self.fills_nan else whole(self.fill)
        entry: dict[str, Any] = {"number": [whole(self.lo), whole(self.hi)], "missing": missing}
        if self.integer:
            entry["integer"] = True
        if self.scale:
            entry["scale"] = self.scale
        if self.source:
            entry["source"] = self.source
        return entry | words(self)


def _number_policy(missing: Any, lo: float, hi: float) -> float | str:
    if missing is None or (isinstance(missing, str) and missing == EXCLUDE):
        return EXCLUDE
    try:
        value = float(missing)
    except (TypeError, ValueError):
        raise SchemaError(f"missing={missing!r}: give a number, float('nan'), or 'exclude' to leave such records out.") from None
    if not math.isnan(value) and not lo <= value <= hi:
        raise SchemaError(f"missing={value!r} lies outside [{lo:g}, {hi:g}]; choose a value inside, float('nan') or 'exclude'.")
    return value


@fingerprinted_as("pellucid.schema", "Category")
@dataclass(frozen=True)
class Category:
    """A column with declared values.

    >>> Category(["F", "M"], missing="M").position("M")
    1
    """

    values: tuple[Any, ...]
    """What the column may say: text, numbers or booleans."""
    ordered: bool = False
    """Whether the order of the values means something (education levels), which accumulated effects use."""
    missing: Any = None
    """What becomes of an empty cell. "exclude", the default: its record is not counted in histograms and losses of the column.
    One of the declared values, which may be one for this purpose ("unknown"): it counts as that. Models need a value; where none
    is declared they are given the first one."""
    unknown: Any = None
    """What becomes of a value that is not declared: by default the same as of an empty cell."""
    source: str = ""
    """Where the values come from; printed on every certificate that used them."""
    label: str = field(default="", repr=False)
    """What people call the column, for pictures and tables; by default its name."""
    unit: str = field(default="", repr=False)
    """What it is measured in, for pictures and tables."""

    def __init__(
        self,
        values: Sequence[Any],
        ordered: bool = False,
        missing: Any = None,
        unknown: Any = None,
        source: str = "",
        label: str = "",
        unit: str = "",
    ):
        check_words(label, unit)
        if isinstance(values, str) or not isinstance(values, Sequence | np.ndarray | range):
            raise SchemaError(f"Category({values!r}): give the declared values as a list, for example Category(['no', 'yes']).")
        listed = tuple(v.item() if isinstance(v, np.generic) else v for v in values)
        if not listed:
            raise SchemaError("Category([]): declare at least one value.")
        if not all(isinstance(v, Hashable) for v in listed):
            raise SchemaError("Category: values must be text, numbers or booleans, not lists or the like.")
        if len(set(listed)) < len(listed):
            raise SchemaError(f"Category({some(listed)}): a value is declared twice (1, 1.0 and True count as equal).")
        if any(v is None or (isinstance(v, float) and not math.isfinite(v)) for v in listed):
            raise SchemaError("Category: None and NaN are not values; say with missing= what an empty cell becomes.")
        if not all(isinstance(v, str | int | float | bool) for v in listed):
            raise SchemaError("Category: values must be text, numbers or booleans.")
        if missing is None and EXCLUDE in listed:
            raise SchemaError(
                f"Category: {EXCLUDE!r} is a declared value here; say with missing= which one an empty cell becomes."
            )
        missing = EXCLUDE if missing is None else missing
        unknown = missing if unknown is None else unknown
        for name, value in (("missing", missing), ("unknown", unknown)):
            if value not in listed and not (isinstance(value, str) and value == EXCLUDE):
                raise SchemaError(
                    f"{name}={value!r} is not one of the declared values {some(listed)}; add it, choose one of them, or say "
                    f"{EXCLUDE!r} to leave such records out."
                )
        settle(self, values=listed, ordered=bool(ordered), missing=missing, unknown=unknown, source=source)
        settle(self, label=label, unit=unit)

    @property
    def excludes(self) -> bool:
        """Whether a record whose cell says nothing is left out of what is counted of this column."""
        return self._leaves_out(self.missing) or self._leaves_out(self.unknown)

    def _leaves_out(self, policy: Any) -> bool:
        return policy not in self.values

    @property
    def stands_in(self) -> bool:
        """Whether a value is declared that stands for a missing one."""
        return not self._leaves_out(self.missing)

    @property
    def fill(self) -> int:
        """What an empty cell is to whoever needs a value, as a position: the declared one, or the first."""
        return 0 if self._leaves_out(self.missing) else self.position(self.missing)

    @property
    def fill_unknown(self) -> int:
        """What a value that is not declared is to whoever needs one."""
        return 0 if self._leaves_out(self.unknown) else self.position(self.unknown)

    @property
    def fills_nan(self) -> bool:
        return False

    @property
    def conditions(self) -> tuple[str, ...]:
        """What a cell can be but fine, in the order of MISSING and UNREADABLE."""
        return "missing", "not declared"

    def absent(self, condition: np.ndarray) -> np.ndarray:
        """Which cells say nothing, by their condition and the policy for it."""
        policies = ((MISSING, self.missing), (UNREADABLE, self.unknown))
        return np.isin(condition, [what for what, policy in policies if self._leaves_out(policy)])

    def policy(self, left_out: bool) -> str:
        """What becomes of cells that are not as declared, for the certificate; `left_out` where they are not counted."""
        said = []
        for what, policy, fill in (
            ("an empty cell", self.missing, self.fill),
            ("a value that is not declared", self.unknown, self.fill_unknown),
        ):
            open_ = self._leaves_out(policy)
            default = ", the first value: no other is declared" if open_ else ""
            said.append(
                f"a record with {what} is not counted"
                if open_ and left_out
                else f"{what} counts as {self.value_at(fill)!r}{default}"
            )
        return "; ".join(said)

    @property
    def levels(self) -> int:
        return len(self.values)

    @property
    def numeric(self) -> bool:
        """Whether the values themselves are numbers a model can take as they are."""
        return not any(isinstance(v, str) for v in self.values)

    def sample(self, rng: np.random.Generator, size: int) -> np.ndarray:
        return rng.integers(0, len(self.values), size).astype(float)

    def __getstate__(self) -> dict[str, Any]:
        return _state(self)

    def value_at(self, position: float) -> Any:
        """The value at a position, in the user's form."""
        return self.values[int(position)]

    def values_at(self, positions: np.ndarray) -> np.ndarray:
        """A column in the user's form: the declared values."""
        return np.array(self.values, dtype=None if self.numeric else object)[positions.astype(np.intp)]

    def position(self, value: Any) -> int:
        try:
            return self.values.index(value)
        except (ArithmeticError, ValueError):
            raise SchemaError(f"{value!r} is not one of the declared values {some(self.values)}.") from None

    def to_dict(self) -> dict[str, Any]:
        entry: dict[str, Any] = {"category": list(self.values), "missing": self.missing, "unknown": self.unknown}
        if self.ordered:
            entry["ordered"] = True
        if self.source:
            entry["source"] = self.source
        return entry | words(self)


def Boolean(missing: bool | str | None = None, source: str = "", label: str = "") -> Category:
    """A yes/no column: a category of the values False and True.

    `missing` is what an empty cell becomes; left out, its record is not counted.
    `source` says where the declaration comes from; printed on every certificate that used it.
    `label` is what people call the column, for pictures and tables.

    >>> Boolean().values
    (False, True)
    """
    return Category([False, True], missing=missing, source=source, label=label)


def check_words(label: Any, unit: Any) -> None:
    for name, word in (("label", label), ("unit", unit)):
        if not isinstance(word, str) or not storable(word) or any(ord(c) < 32 for c in word):
            raise SchemaError(f"{name}={word!r}: give one line of text, for example label='yearly income' or unit='€ a year'.")


def words(feature: Number | Category) -> dict[str, str]:
    """What the declaration says for people, where it says something."""
    return {name: word for name in FOR_PEOPLE if (word := getattr(feature, name))}


def _state(feature: Number | Category) -> dict[str, Any]:
    """What is pickled. Fields that came later only where they say something: columns without have the bytes they always had."""
    return {name: value for name, value in vars(feature).items() if value or name not in (*FOR_PEOPLE, "scale")}


Feature = Number | Category
