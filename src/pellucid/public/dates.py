"""Days and times as columns: numbers inside, days or seconds since 1970, and dates for people and models."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from ..errors import SchemaError
from .columns import EXCLUDE, Number, words
from .fingerprint import fingerprinted_as
from .frozen import settle

DAY = 86_400


@fingerprinted_as("pellucid.schema", "Moments")
@dataclass(frozen=True, repr=False)
class _Moments(Number):
    """What days and times have in common. Claims nothing of its own: a whole number between bounds, as any other."""

    seconds: ClassVar[int]
    """Seconds in one step of the inner form."""
    kind: ClassVar[str]
    """What files call it."""

    format: str = field(default="", kw_only=True)

    def __init__(
        self,
        lo: Any,
        hi: Any,
        missing: Any = None,
        format: str = "",
        source: str = "",
        label: str = "",
        unit: str = "",
    ):
        if not isinstance(format, str):
            raise SchemaError(f"format={format!r}: give a pattern such as '%d.%m.%Y', or leave it out for ISO 8601.")
        settle(self, lo=self._inner("lo", lo), hi=self._inner("hi", hi), integer=True, source=source, label=label, unit=unit)
        settle(self, missing=self._policy(missing), scale="linear", format=format)
        try:
            self.__post_init__()
        except SchemaError as error:
            if self.lo < self.hi:
                raise
            raise SchemaError(f"{self.name}({lo!r}, {hi!r}): the first one must be before the last; swap them.") from error

    @property
    def name(self) -> str:
        return type(self).__name__

    def __repr__(self) -> str:
        return f"{self.name}({self.value_at(self.lo)!r}, {self.value_at(self.hi)!r})"

    def _inner(self, name: str, value: Any) -> float:
        """Steps since 1970 of what the user calls a date."""
        try:
            moment = _moment(value)
        except (TypeError, ValueError, OverflowError):
            example = "'2024-12-31'" if self.seconds == DAY else "'2024-12-31T23:59:59'"
            raise SchemaError(f"{name}={value!r} is no date; give one as text, for example {example}, or a datetime.") from None
        return float((moment - dt.datetime(1970, 1, 1)) // dt.timedelta(seconds=self.seconds))

    def _policy(self, missing: Any) -> Any:
        if missing is None or missing == EXCLUDE or (isinstance(missing, float) and math.isnan(missing)) or missing == "nan":
            return math.nan if missing == "nan" else missing
        return self._inner("missing", missing)

    def position(self, value: Any) -> float:
        """The inner form of a date given by the user."""
        number = self._inner("value", value)
        if not self.lo <= number <= self.hi:
            raise SchemaError(f"{value!r} lies outside {self.value_at(self.lo)} to {self.value_at(self.hi)}.")
        return number

    def value_at(self, position: float) -> Any:
        """The date at a position, as text in ISO 8601."""
        if not math.isfinite(position):
            return float(position)
        moment = dt.datetime(1970, 1, 1) + dt.timedelta(seconds=int(position) * self.seconds)
        return moment.date().isoformat() if self.seconds == DAY else moment.isoformat()

    def values_at(self, positions: np.ndarray) -> np.ndarray:
        """A column of dates, as pandas has them; what is missing as NaN is NaT. Its type follows the declaration."""
        nothing = np.isnan(positions)
        moments = (np.where(nothing, 0, positions).astype(np.int64) * self.seconds).astype("datetime64[s]")
        return np.where(nothing, np.datetime64("NaT", "s"), moments)

    def policy(self, left_out: bool) -> str:
        ends = f"a value outside {self.value_at(self.lo)} to {self.value_at(self.hi)} counts as the nearest bound"
        if left_out or self.fills_nan:
            return f"{super().policy(left_out).split(';')[0]}; {ends}"
        default = ", the middle of the range: no value is declared" if self.excludes else ""
        return f"a missing or unreadable cell counts as {self.value_at(self.fill)}{default}; {ends}"

    def to_dict(self) -> dict[str, Any]:
        missing = EXCLUDE if self.excludes else "nan" if self.fills_nan else self.value_at(self.fill)
        entry: dict[str, Any] = {self.kind: [self.value_at(self.lo), self.value_at(self.hi)], "missing": missing}
        for name in ("format", "source"):
            if getattr(self, name):
                entry[name] = getattr(self, name)
        return entry | words(self)


@fingerprinted_as("pellucid.schema", "Date")
@dataclass(frozen=True, init=False, repr=False)
class Date(_Moments):
    """A column of days with a declared first and last one; days outside count as the nearest.

    `lo` and `hi` are the first and the last day, as text ("2024-12-31") or as dates. Cells may be dates, timestamps (of which the
    day counts), text, or numbers, which are days since 1970-01-01. `format` is how text is written, for example "%d.%m.%Y"; left
    out, it is ISO 8601. Functions of a DataFrame are given dates as pandas has them; models that take arrays are given days since
    1970-01-01, and so are formulas.

    >>> born = Date("1900-01-01", "2026-12-31", source="civil register")
    >>> born.position("1970-01-11"), born.value_at(10)
    (10.0, '1970-01-11')
    """

    seconds: ClassVar[int] = DAY
    kind: ClassVar[str] = "date"


@fingerprinted_as("pellucid.schema", "Datetime")
@dataclass(frozen=True, init=False, repr=False)
class Datetime(_Moments):
    """A column of times to the second with a declared first and last one; times outside count as the nearest.

    As `Date`, with seconds since 1970-01-01 00:00. Times that say their time zone are taken to UTC; others are taken as they are,
    so that all of a column should mean the same zone.

    >>> Datetime("2024-01-01", "2024-12-31T23:59:59").value_at(1.72e9)
    '2024-07-03T09:46:40'
    """

    seconds: ClassVar[int] = 1
    kind: ClassVar[str] = "datetime"


def _moment(value: Any) -> dt.datetime:
    """A date in the user's words, in UTC where it says its zone; ValueError or TypeError for what is none."""
    if isinstance(value, np.datetime64):
        value = value.astype("datetime64[us]").item()
    if isinstance(value, str):
        value = dt.datetime.fromisoformat(value.strip())
    if hasattr(value, "to_pydatetime"):
        value = value.to_pydatetime()
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        value = dt.datetime(value.year, value.month, value.day)
    if not isinstance(value, dt.datetime) or value != value:
        raise TypeError("not a date")
    return value.astimezone(dt.UTC).replace(tzinfo=None) if value.tzinfo else value


def is_dated(values: Sequence[Any]) -> bool:
    """Whether values of a numeric feature are days or times, which are text in ISO 8601."""
    return any(isinstance(v, str) and v != "missing" for v in values)


def drawn(values: Sequence[Any]) -> np.ndarray:
    """Values of a numeric feature as pictures take them: numbers, or dates."""
    return np.array(values, dtype="datetime64[s]") if is_dated(values) else np.asarray(values, dtype=float)


def like(number: float, values: Sequence[Any]) -> str:
    """A number between the values of a feature, in their words.

    >>> like(2.5, [1, 2, 3]), like(10.5, ["1970-01-01"])
    ('2.5', '1970-01-11')
    """
    if not is_dated(values):
        return f"{float(number):g}"
    timed = any("T" in str(v) for v in values)
    moment = dt.datetime(1970, 1, 1) + dt.timedelta(seconds=math.floor(number) * (1 if timed else DAY))
    return moment.isoformat() if timed else moment.date().isoformat()


def along(values: Any, x: Sequence[Any] | None = None) -> np.ndarray:
    """Values of a numeric feature as numbers: those of days and times are text in ISO 8601, counted from 1970.

    `x` are values whose kind they share, where they may be written otherwise.

    >>> along([3, 4.5]).tolist(), along(["1970-01-11"]).tolist(), along(["1970-01-01T00:01:00"]).tolist()
    ([3.0, 4.5], [10.0], [60.0])
    """
    x = values if x is None else x
    if not is_dated(x):
        return np.asarray(values, dtype=float)
    moments = np.asarray(values, dtype="datetime64[s]").astype(np.int64)
    return moments / (1.0 if any("T" in str(v) for v in x) else float(DAY))
