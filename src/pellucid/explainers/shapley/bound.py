"""The set that per-record Shapley vectors are clipped into, in integers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import PlanError
from ...mechanisms import Norms
from ...query.bound import UNITS, Bound, Parts, column_sums, to_grid
from ...query.reviewed import reviewed
from .radii import Radii, shapley_radii, whole_radii

MOST_FEATURES = 1024


@dataclass(frozen=True)
class _Limits:
    """The integer set: what every centred vector obeys."""

    linf: int
    l1: int
    l2_squared: int
    spread: int
    pair: int


@reviewed
@dataclass(frozen=True)
class ShapleyVectors(Bound):
    """One Shapley vector per background record, all about the same record.

    Vectors are rounded to a grid, centred, and shrunk in integers into a box, a Euclidean ball and an L1 ball. The limits are
    those of exact Shapley vectors of any model with output in [lo, hi], so exact vectors are only rounded, and estimates are
    moved only where they cannot be right. The guarantee does not depend on it: it is computed from the integer set.
    Claim: shapley-set
    """

    length: int
    """Features, or as many of them as are asked for."""
    lo: float
    """The lower end of the model's output range."""
    hi: float
    """Its upper end."""
    prediction: float
    """That for the record asked about: it decides the centre."""
    count: bool = False
    """Whether one more coordinate counts the records."""
    ranked: bool = False
    """For private rankings: also limits on the spread of the coordinates, and on the sum of their two largest sizes."""
    radii: Radii | None = None
    """Sizes in the place of those of exact vectors, for estimators with sizes of their own."""
    shares: tuple[float, ...] = ()
    """What each coordinate gets of the prediction, where they do not share it equally."""
    positive: bool = False
    """Whether the coordinates are sizes of Shapley values: then nothing is centred, and negative numbers become 0."""
    claim = "shapley-set"

    LIMIT = 1 << 26
    """Units of the largest coordinate: squares of 2^26 add up over 2^10 coordinates inside 64 bits."""
    one = grid = LIMIT

    def __post_init__(self) -> None:
        if not 1 <= self.length <= MOST_FEATURES or not self.lo < self.hi or not self.lo <= self.prediction <= self.hi:
            raise PlanError(
                f"ShapleyVectors(length={self.length}, lo={self.lo!r}, hi={self.hi!r}): needs 1 to {MOST_FEATURES} features, "
                "lo < hi, and a prediction inside; name fewer features in the model."
            )
        if self.shares and len(self.shares) != self.length:
            raise PlanError(f"ShapleyVectors: {len(self.shares)} shares for {self.length} features; give one per feature.")

    @property
    def size(self) -> int:
        return self.length + self.count

    @property
    def sizes(self) -> Radii:
        """The sizes of the set in units of the output range, before they are put on the grid."""
        return self.radii or (whole_radii if self.positive else shapley_radii)(self.length)

    @property
    def unit(self) -> float:
        # One unit of the largest coordinate is kept for rounding, so that a vector on the border stays where it is.
        return self.sizes.linf * (self.hi - self.lo) / (self.LIMIT - 1)

    @property
    def radius(self) -> float:
        """What one in `Answer.numbers` is worth in the user's units: the largest coordinate."""
        return self.unit * self.one

    @property
    def offset(self) -> np.ndarray:
        """The centre in grid units, whole numbers: what a total lacks per record."""
        if self.positive:
            return np.zeros(self.length, dtype=np.int64)
        shares = np.array(self.shares) if self.shares else np.full(self.length, 1 / self.length)
        return np.rint(shares * ((self.prediction - self.lo) - (self.hi - self.lo) / 2) / self.unit).astype(np.int64)

    @property
    def limits(self) -> _Limits:
        scale = (self.LIMIT - 1) / self.sizes.linf
        # Rounding moves a coordinate by less than one unit. The box alone gives the second of each pair of numbers.
        l1, l2, spread, pair = (math.ceil(scale * v) for v in (self.sizes.l1, self.sizes.l2, self.sizes.spread, self.sizes.pair))
        return _Limits(
            linf=self.LIMIT,
            l1=min(l1 + self.length, self.length * self.LIMIT),
            l2_squared=min((l2 + math.isqrt(self.length) + 1) ** 2, self.length * self.LIMIT**2),
            spread=min(spread + 2, 2 * self.LIMIT) if self.ranked else 2 * self.LIMIT,
            pair=min(pair + 2, 2 * self.LIMIT) if self.ranked else 2 * self.LIMIT,
        )

    def integers(self, values: np.ndarray, parts: Parts = None) -> np.ndarray:
        values = np.asarray(values, dtype=float)
        if values.ndim != 2 or values.shape[1] != self.length:
            raise AssertionError("a map must give one Shapley vector per record")
        z = np.clip(to_grid(values, self.unit) - self.offset, 0 if self.positive else -self.LIMIT, self.LIMIT)
        k = np.ones(len(z), dtype=np.int64) if parts is None else np.maximum(parts, 1)
        if parts is not None:
            z = np.where(parts[:, None] > 0, np.sign(z) * (np.abs(z) // k[:, None]), 0)
        z = _shrink(z, self.limits, k)
        if not self.count:
            return z
        kept = np.ones(len(z), dtype=bool) if parts is None else parts > 0
        return np.hstack([z, np.where(kept, self.LIMIT // k, 0)[:, None]])

    def totals(self, contributions: Any, parts: Parts = None) -> list[int]:
        return column_sums(self.integers(contributions, parts))

    def added(self) -> Norms:
        limits, counted = self.limits, self.LIMIT * self.count
        return Norms(limits.l1 + counted, limits.l2_squared + counted**2, limits.linf)

    def replaced(self) -> Norms:
        limits, counted = self.limits, self.LIMIT * self.count
        if self.positive:
            # The difference of two numbers that are not negative is no larger than one of them, its square than both squares.
            return Norms(2 * limits.l1 + counted, 2 * limits.l2_squared + counted**2, limits.linf)
        # The set is symmetric; the count of a person lies between nothing and LIMIT.
        return Norms(2 * limits.l1 + counted, 4 * limits.l2_squared + counted**2, 2 * limits.linf)

    def mean(self, totals: Sequence[float], records: float | None = None) -> np.ndarray:
        """The mean vector in the user's units, from (noisy) totals: over `records`, or over the noisy count."""
        numbers = np.array(totals, dtype=float)
        count = numbers[-1] / self.LIMIT if self.count else records
        if count is None:
            raise PlanError("ShapleyVectors.mean: say over how many records, or plan the sum with count=True.")
        # A count at or below the noise says nothing about the mean; the centre does not pretend to.
        inner = numbers[: self.length] / count if count >= 1 else 0.0
        return self.unit * (self.offset + inner)

    @property
    def text(self) -> str:
        r = self.sizes
        what, where = ("sizes of Shapley values", "") if self.positive else ("Shapley vectors", "around their centre ")
        return (
            f"{what} of {self.length} features of a model with range [{self.lo:g}, {self.hi:g}], shrunk {where}"
            f"into sizes (in ranges) L∞ {r.linf:.4g}, L1 {r.l1:.4g}, L2 {r.l2:.4g}"
            + (f", spread {r.spread:.4g}, two largest {r.pair:.4g}" if self.ranked else "")
            + (", and a count of records" if self.count else "")
        )

    @property
    def scale_text(self) -> str:
        beside = f" and {UNITS // self.LIMIT} in the count" if self.count else ""
        return f"{self.unit * UNITS:g} in a sum of Shapley values{beside}"


def _shrink(z: np.ndarray, limits: _Limits, k: np.ndarray) -> np.ndarray:
    """Integer rows moved toward zero until they obey a k-th of every limit, exactly.

    Only the extreme coordinates give way to the limits on spread and pair; L1 and L2 scale a whole row.
    """
    l1, spread, pair = (limit // k for limit in (limits.l1, limits.spread, limits.pair))
    # A k-th of the L2 norm is a k²-th of its square; rounded down, so that k rows together stay inside.
    kinds, which = np.unique(k, return_inverse=True)
    squares = np.array([limits.l2_squared // int(v) ** 2 for v in kinds], dtype=np.int64)[which]
    z, left, shrink = z.copy(), np.arange(len(z)), 1.0
    while len(left):
        rows = _capped(_narrowed(z[left], spread[left]), pair[left])
        measured, squared = np.abs(rows).sum(axis=1), (rows * rows).sum(axis=1)
        factor = np.minimum(l1[left] / np.maximum(measured, 1), np.sqrt(squares[left] / np.maximum(squared, 1)))
        outside = (measured > l1[left]) | (squared > squares[left])
        rows[outside] = np.trunc(rows[outside] * (np.minimum(factor, 1.0) * shrink)[outside, None]).astype(np.int64)
        z[left] = rows
        shrink *= 1 - 2.0**-20
        # A row that was scaled is looked at again; the others obey every limit as they are.
        left = left[outside]
    return z


def _narrowed(z: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """Rows clipped to an interval around zero, or to the end nearest to it, so that largest minus smallest fits."""
    high, low = z.max(axis=1), z.min(axis=1)
    width = np.maximum(high - low, 1)
    top = np.where(low >= 0, low + spread, np.where(high <= 0, high, spread * high // width))
    wide = (high - low > spread)[:, None]
    return np.where(wide, np.clip(z, (top - spread)[:, None], top[:, None]), z)


def _capped(z: np.ndarray, pair: np.ndarray) -> np.ndarray:
    """Rows with the sizes of coordinates capped, so that the two largest add up to what is allowed."""
    size = np.abs(z)
    if z.shape[1] == 1:
        return np.clip(z, -pair[:, None], pair[:, None])
    second, first = np.partition(size, -2, axis=1)[:, -2:].T
    cap = np.where(first + second <= pair, first, np.where(2 * second <= pair, pair - second, pair // 2))
    return np.clip(z, -cap[:, None], cap[:, None])
