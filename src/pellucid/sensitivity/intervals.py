"""Interval arithmetic with outward rounding, on whole arrays of boxes at once.

An interval is a pair (lo, hi) of float arrays that encloses every real value the operation can take. Sums, products,
quotients and square roots are rounded correctly by IEEE arithmetic, so one step outward encloses them; other functions are
evaluated at their ends by Arb (python-flint), whose balls are certified. What is undefined somewhere in an interval has the
whole line as its value, so it can never pass for a small number. Claim: interval-enclosure
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flint
import numpy as np

Interval = tuple[np.ndarray, np.ndarray]


def _down(values: np.ndarray) -> np.ndarray:
    return np.nextafter(values, -np.inf)


def _up(values: np.ndarray) -> np.ndarray:
    return np.nextafter(values, np.inf)


def outward(lo: np.ndarray, hi: np.ndarray) -> Interval:
    """One float outward on both sides; NaN, which stands for "undefined somewhere", becomes the whole line."""
    lo, hi = _down(lo), _up(hi)
    undefined = np.isnan(lo) | np.isnan(hi)
    if undefined.any():
        lo, hi = np.where(undefined, -np.inf, lo), np.where(undefined, np.inf, hi)
    return lo, hi


def constant(value: flint.arb) -> tuple[float, float]:
    """The floats around an Arb ball."""
    return _float_below(value), _float_above(value)


def _float_below(value: Any) -> float:
    return float(np.nextafter(float(value.lower()), -np.inf))


def _float_above(value: Any) -> float:
    return float(np.nextafter(float(value.upper()), np.inf))


def add(a: Interval, b: Interval) -> Interval:
    low, high = a[0] + b[0], a[1] + b[1]
    lo, hi = outward(low, high)
    # A float sum that is zero is exactly zero, and must not slip below it: a root may be taken next.
    return np.where(low == 0, low, lo), np.where(high == 0, high, hi)


def negative(a: Interval) -> Interval:
    return -a[1], -a[0]


def _times(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    # Ends are limits of finite numbers, so zero times an infinite end is zero.
    product = a * b
    return np.where(np.isnan(product), 0.0, product)


def multiply(a: Interval, b: Interval) -> Interval:
    p, q, r, s = _times(a[0], b[0]), _times(a[0], b[1]), _times(a[1], b[0]), _times(a[1], b[1])
    lo, hi = outward(np.minimum(np.minimum(p, q), np.minimum(r, s)), np.maximum(np.maximum(p, q), np.maximum(r, s)))
    same = ((a[0] >= 0) & (b[0] >= 0)) | ((a[1] <= 0) & (b[1] <= 0))
    opposite = ((a[0] >= 0) & (b[1] <= 0)) | ((a[1] <= 0) & (b[0] >= 0))
    return np.where(same, np.maximum(lo, 0.0), lo), np.where(opposite, np.minimum(hi, 0.0), hi)


def reciprocal(a: Interval) -> Interval:
    with np.errstate(divide="ignore"):
        lo, hi = 1.0 / a[1], 1.0 / a[0]
    # An end at zero is approached from inside; zero strictly inside makes the quotient undefined.
    lo, hi = np.where(a[1] == 0, -np.inf, lo), np.where(a[0] == 0, np.inf, hi)
    inside = ((a[0] < 0) & (a[1] > 0)) | ((a[0] == 0) & (a[1] == 0))
    lo, hi = outward(np.where(inside, np.nan, lo), hi)
    return np.where((a[0] >= 0) & ~inside, np.maximum(lo, 0.0), lo), np.where((a[1] <= 0) & ~inside, np.minimum(hi, 0.0), hi)


def absolute(a: Interval) -> Interval:
    straddles = (a[0] < 0) & (a[1] > 0)
    small = np.where(straddles, 0.0, np.minimum(np.abs(a[0]), np.abs(a[1])))
    return small, np.maximum(np.abs(a[0]), np.abs(a[1]))


def power(a: Interval, n: int) -> Interval:
    """a to a whole power, tight also around zero (a·a would forget that both factors are the same)."""
    if n % 2 == 0:
        lo, hi = absolute(a)
        return _magnitude_power(lo, n, _down), _magnitude_power(hi, n, _up)
    lo = np.where(a[0] < 0, -_magnitude_power(-a[0], n, _up), _magnitude_power(a[0], n, _down))
    hi = np.where(a[1] < 0, -_magnitude_power(-a[1], n, _down), _magnitude_power(a[1], n, _up))
    return lo, hi


def _magnitude_power(base: np.ndarray, n: int, rounded: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    base = np.maximum(base, 0.0)
    result, square = None, base
    while n:
        if n & 1:
            result = square if result is None else np.maximum(rounded(_times(result, square)), 0.0)
        n >>= 1
        if n:
            square = np.maximum(rounded(_times(square, square)), 0.0)
    assert result is not None
    return result


def square_root(a: Interval) -> Interval:
    with np.errstate(invalid="ignore"):
        lo, hi = outward(np.sqrt(a[0]), np.sqrt(a[1]))
    return np.where(np.isinf(lo), lo, np.maximum(lo, 0.0)), hi


def maximum(a: Interval, b: Interval) -> Interval:
    return np.maximum(a[0], b[0]), np.maximum(a[1], b[1])


def minimum(a: Interval, b: Interval) -> Interval:
    return np.minimum(a[0], b[0]), np.minimum(a[1], b[1])


def sign(a: Interval) -> Interval:
    """The hull of the signs: the whole of [-1, 1] where zero is inside, as the slopes of an absolute value need."""
    return np.where(a[0] > 0, 1.0, -1.0), np.where(a[1] < 0, -1.0, 1.0)


def step(a: Interval) -> Interval:
    """The hull of 0 for negative and 1 for positive numbers."""
    return np.where(a[0] > 0, 1.0, 0.0), np.where(a[1] < 0, 0.0, 1.0)


def _at_ends(function: Callable[[Any], Any], low_ends: np.ndarray, high_ends: np.ndarray) -> Interval:
    arb = flint.arb
    lo = [float(function(arb(v)).lower()) for v in low_ends.tolist()]
    hi = [float(function(arb(v)).upper()) for v in high_ends.tolist()]
    return outward(np.array(lo, dtype=float), np.array(hi, dtype=float))


def increasing(function: Callable[[Any], Any], a: Interval, least: float, most: float) -> Interval:
    """A function that increases on the interval, from its values at the ends; it lies between `least` and `most` anywhere."""
    shape = a[0].shape
    lo, hi = _at_ends(function, a[0].ravel(), a[1].ravel())
    # Infinite ends have no ball of their own; the limits stand in.
    lo = np.where(np.isinf(a[0].ravel()), least, lo)
    hi = np.where(np.isinf(a[1].ravel()), most, hi)
    return np.clip(lo, least, most).reshape(shape), np.clip(hi, least, most).reshape(shape)


def exp(a: Interval) -> Interval:
    return increasing(flint.arb.exp, a, 0.0, np.inf)


def log(a: Interval) -> Interval:
    """The logarithm; an end at zero is a limit, a negative end makes it undefined."""
    positive = np.maximum(a[0], np.finfo(float).smallest_subnormal), np.maximum(a[1], np.finfo(float).smallest_subnormal)
    lo, hi = increasing(flint.arb.log, positive, -np.inf, np.inf)
    lo = np.where(a[0] == 0, -np.inf, lo)
    undefined = (a[0] < 0) | (a[1] <= 0)
    return np.where(undefined, -np.inf, lo), np.where(undefined, np.inf, hi)


def times_its_log(a: Interval) -> Interval:
    """x·log x, which is 0 at 0 although its logarithm has no bound there."""
    least = np.finfo(float).smallest_subnormal
    ends = [_at_ends(lambda v: v * v.log(), e, e) for e in (np.maximum(a[0], least).ravel(), np.maximum(a[1], least).ravel())]
    lo = np.minimum(ends[0][0], ends[1][0]).reshape(a[0].shape)
    hi = np.maximum(ends[0][1], ends[1][1]).reshape(a[0].shape)
    # Convex with its minimum -1/e at 1/e; the values near 0 round to 0 from below.
    lo = np.where((a[0] <= 0.36787944117144234) & (a[1] >= 0.3678794411714423), -0.36787944117144239, lo)
    hi = np.where(a[0] <= 0, np.maximum(hi, 0.0), hi)
    return np.where(a[0] < 0, -np.inf, lo), np.where((a[0] < 0) | np.isinf(a[1]), np.inf, hi)


def tanh(a: Interval) -> Interval:
    return increasing(flint.arb.tanh, a, -1.0, 1.0)


def arctan(a: Interval) -> Interval:
    return increasing(flint.arb.atan, a, -1.5707963267948968, 1.5707963267948968)


def erf(a: Interval) -> Interval:
    return increasing(flint.arb.erf, a, -1.0, 1.0)


def sinh(a: Interval) -> Interval:
    return increasing(flint.arb.sinh, a, -np.inf, np.inf)


def cosh(a: Interval) -> Interval:
    return increasing(flint.arb.cosh, absolute(a), 1.0, np.inf)


def cos(a: Interval) -> Interval:
    return _wave(flint.arb.cos, a, 0.0)


def sin(a: Interval) -> Interval:
    return _wave(flint.arb.sin, a, 0.25)


def _wave(function: Callable[[Any], Any], a: Interval, top: float) -> Interval:
    """Sine or cosine: its extremes where a crest (at `top` turns) or a trough is inside, else its values at the ends."""
    shape, low, high = a[0].shape, a[0].ravel(), a[1].ravel()
    wide = ~((high - low) < 7.0)
    low, high = np.where(wide, 0.0, low), np.where(wide, 0.0, high)
    lo1, hi1 = _at_ends(function, low, low)
    lo2, hi2 = _at_ends(function, high, high)
    turns = low / (2 * np.pi), high / (2 * np.pi)
    # Float error of the number of turns, many times over: a crest too many only widens the interval.
    slack = 1e-14 * (1 + np.maximum(np.abs(turns[0]), np.abs(turns[1])))

    def inside(phase: float) -> np.ndarray:
        return np.floor(turns[1] - phase + slack) >= np.ceil(turns[0] - phase - slack)

    lo = np.where(wide | inside(top + 0.5), -1.0, np.maximum(np.minimum(lo1, lo2), -1.0))
    hi = np.where(wide | inside(top), 1.0, np.minimum(np.maximum(hi1, hi2), 1.0))
    return lo.reshape(shape), hi.reshape(shape)
