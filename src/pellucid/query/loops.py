"""Bounds as compiled loops: each number is rounded, clipped and added up in one go. Needs Numba; `compiled` decides when.

Every loop gives the integers of the NumPy version beside it, to the last unit, whatever it is given: only operations whose result
IEEE 754 fixes are used, in the same order. Sums are of whole numbers. They are kept as floats where at most BLOCK numbers of
at most 2^30 are added, which is exact, because processors add several of these at once.

All loops are in this file: Numba looks at the file of a loop, not at those of the functions in it, to see whether what it has
compiled before is still the same.
"""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np

BLOCK = 1 << 20
"""Rows whose sum of numbers up to 2^30 stays below 2^53 as a float."""

compiled = numba.njit(cache=True, nogil=True)


@compiled
def on_grid(number: Any, limit: Any) -> Any:
    """The nearest whole number inside ±limit, as a float; 0 for what is no number."""
    whole = np.rint(number)
    whole = limit if whole > limit else whole
    whole = -limit if whole < -limit else whole
    return whole if whole == whole else 0.0


@compiled
def box(values: Any, centre: float, unit: float, limit: float) -> Any:
    """Column by column, the sum of the nearest grid points, each inside ±limit."""
    rows, columns = values.shape
    total, some = np.zeros(columns, np.int64), np.zeros(columns)
    for start in range(0, rows, BLOCK):
        some[:] = 0.0
        for i in range(start, min(rows, start + BLOCK)):
            for j in range(columns):
                some[j] += on_grid((values[i, j] - centre) / unit, limit)
        for j in range(columns):
            total[j] += np.int64(some[j])
    return total


@compiled
def shared_box(values: Any, centre: float, unit: float, limit: float, share: Any, parts: Any, most: Any) -> Any:
    """As `box`, with a factor, a number of parts and a largest size for every row."""
    rows, columns = values.shape
    total, some = np.zeros(columns, np.int64), np.zeros(columns)
    for start in range(0, rows, BLOCK):
        some[:] = 0.0
        for i in range(start, min(rows, start + BLOCK)):
            factor, k, own = share[i], np.float64(parts[i]), np.float64(most[i])
            for j in range(columns):
                whole = on_grid((values[i, j] - centre) * factor / unit, limit)
                # Toward zero. Exact: the quotient of numbers below 2^31 is too far from the next whole one to be rounded to it.
                whole = np.trunc(whole / k) if k > 1.0 else whole
                whole = own if whole > own else whole
                some[j] += -own if whole < -own else whole
        for j in range(columns):
            total[j] += np.int64(some[j])
    return total


@compiled
def divided(number: Any, k: Any) -> Any:
    """number // k, without the slow division where there is nothing to divide."""
    return number if k == 1 else number // k


@compiled
def cells(cell: Any, weight: Any, value: Any, parts: Any, most: Any, count: int, units: int, counts: int, unit: float) -> Any:
    """(values, counts) by cell. `weight` or `value` without rows stands for none: whole weights, or no values."""
    rows, places = cell.shape
    weighed, valued, limit = len(weight) == rows, len(value) == rows, np.float64(units)
    values, counted = np.zeros(count, np.int64), np.zeros(count, np.int64)
    for i in range(rows):
        k, shares, sizes = parts[i], most[i], most[i]
        for j in range(places):
            at = cell[i, j]
            if at < 0 or at >= count:
                continue
            given = 0
            if counts > 0:
                whole = np.int64(on_grid((weight[i, j] if weighed else 1.0) / (1.0 / units), limit))
                given = min(divided(max(whole, 0), k), shares)
                shares -= given
                given = given if counts == units else given * counts // units
                counted[at] += given
            if valued:
                whole = np.int64(on_grid(value[i, j] / unit, limit))
                size = min(divided(abs(whole), k), sizes)
                sizes -= size
                if counts > 0:
                    size = min(size, given if counts == units else given * units // counts)
                values[at] += size if whole > 0 else -size
    return values, counted


@compiled
def into_ball(values: Any, unit: float, limit: float, squares: Any) -> Any:
    """Rows on the grid, inside ±limit and shrunk until their squared length is at most `squares`; whole numbers as floats."""
    rows, columns = values.shape
    out = np.empty((rows, columns))
    for i in range(rows):
        squared = np.int64(0)
        for j in range(columns):
            out[i, j] = on_grid(values[i, j] / unit, limit)
            squared += np.int64(out[i, j]) * np.int64(out[i, j])
        shrink = 1.0
        while squared > squares[i]:
            factor = math.sqrt(np.float64(squares[i]) / np.float64(squared)) * shrink
            squared = np.int64(0)
            for j in range(columns):
                out[i, j] = np.trunc(out[i, j] * factor)
                squared += np.int64(out[i, j]) * np.int64(out[i, j])
            shrink *= 1 - 2.0**-20
    return out


@compiled
def into_moments(values: Any, unit: float, limit: float, parts: Any, joint: int, slope: int, label: int) -> Any:
    """Rows of moments on the grid, shrunk into a part of their set (`explainers/local/bound.py`); whole numbers as floats."""
    rows, columns = values.shape
    out = np.zeros((rows, columns))
    for i in range(rows):
        if parts[i] <= 0:
            continue
        root = math.sqrt(np.float64(parts[i]))
        for j in range(columns):
            out[i, j] = on_grid(values[i, j] / root / unit, limit)
        own_joint, own_slope, own_label, shrink = joint // parts[i], slope // parts[i], label // parts[i], 1.0
        while True:
            p, q = np.int64(0), np.int64(out[i, columns - 1]) ** 2
            for j in range(columns - 1):
                p += np.int64(out[i, j]) * np.int64(out[i, j])
            # Nothing is multiplied before it is known to be small.
            narrow = p <= own_joint and p <= own_slope and q <= own_label
            if narrow and p * (p + q) <= own_joint * own_joint and p * q <= (own_slope - p) * (own_slope - p):
                break
            fp, fq = np.float64(p), np.float64(q)
            squared = min(
                np.float64(own_joint) / max(math.sqrt(fp * (fp + fq)), 1.0),
                np.float64(own_slope) / max(fp + math.sqrt(fp * fq), 1.0),
                np.float64(own_label) / max(fq, 1.0),
                1.0,
            )
            factor = math.sqrt(squared) * shrink
            for j in range(columns):
                out[i, j] = np.trunc(out[i, j] * factor)
            shrink *= 1 - 2.0**-20
    return out
