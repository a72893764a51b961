"""Cells into days or seconds since 1970: dates and timestamps as Arrow has them, text as it is declared, numbers as they are.

Cells never raise: what is no date is NaN, by that cell and its declaration alone.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from ..public.dates import DAY, Date, Datetime

TICKS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
"""Ticks of a timestamp in a second."""
START = dt.datetime(1970, 1, 1)
SECOND = dt.timedelta(seconds=1)


def is_temporal(kind: pa.DataType) -> bool:
    """Whether cells of this type are days or times of a calendar."""
    return pa.types.is_date(kind) or pa.types.is_timestamp(kind)


def steps(feature: Date | Datetime, column: pa.Array) -> np.ndarray:
    """Cells of a calendar type, in steps of the feature since 1970; NaN where there is none."""
    kind = column.type
    if pa.types.is_date32(kind):
        ticks, whole, a_day = 1, column.cast(pa.int32()), True
    else:
        ticks, whole, a_day = TICKS[getattr(kind, "unit", "ms")], column.cast(pa.int64()), False
    empty = column.is_null().to_numpy(zero_copy_only=False)
    numbers = whole.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    if a_day:
        found = numbers * (DAY // feature.seconds)
    else:
        # Whole numbers, rounded down: a float of nanoseconds would round a time just before midnight to the next day.
        found = numbers // (ticks * feature.seconds)
    return np.where(empty, np.nan, found.astype(float))


def from_texts(feature: Date | Datetime, cells: list[Any]) -> np.ndarray:
    """Cells of text, in steps of the feature since 1970; NaN for what is no date."""
    read = _reader(feature.format)
    return np.array([_step(read, feature.seconds, cell) for cell in cells], dtype=float)


def _reader(pattern: str) -> Callable[[str], dt.datetime]:
    return (lambda cell: dt.datetime.strptime(cell, pattern)) if pattern else dt.datetime.fromisoformat


def _step(read: Callable[[str], dt.datetime], seconds: int, cell: Any) -> float:
    try:
        moment = read(cell.strip())
        if moment.tzinfo is not None:
            moment = moment.astimezone(dt.UTC).replace(tzinfo=None)
        return float((moment - START) // SECOND // seconds)
    except Exception:
        return float("nan")
