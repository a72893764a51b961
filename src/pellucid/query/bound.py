"""What a bound is: a set of integer vectors that contributions are clipped into, and its norms."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from ..mechanisms import Norms

BITS = 30
"""Grid units per radius, as a power of two: 2^31 rows of 2^30 units stay inside 64 bits."""


UNITS = 1 << BITS

CACHED = 1 << 14
"""Values that are rounded and clipped at once. As many of 2^30 units add up to less than 2^53."""

Parts = np.ndarray | None


class Bound(ABC):
    """A set of integer vectors that every contribution is clipped into."""

    claim: str
    enforced: bool = True
    """Whether contributions are clipped into the set, or lie in it by a theorem."""
    relative: tuple[float, ...] = ()
    """Noise scales of the coordinates relative to each other; empty when they are equal."""
    one: int = UNITS
    """Grid units that `Answer.numbers` counts as one: the radius of the set, or one record."""
    grid: int | None = UNITS
    """Units that the largest size of what is rounded is divided into (a value, or the row that products are made of); None where
    contributions are whole numbers. docs/threat-model.md has the table."""
    of_blocks: bool = False
    """Whether only blocks contribute: a person with several rows has no part of such a contribution."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Number of released coordinates."""

    @property
    def width(self) -> int:
        """Numbers in one contribution: what a batch of them holds in memory."""
        return self.size

    @abstractmethod
    def totals(self, contributions: Any, parts: Parts = None) -> list[int]:
        """The exact sum over a batch of contributions, each clipped into the set."""

    @abstractmethod
    def added(self) -> Norms:
        """The largest contribution."""

    @abstractmethod
    def replaced(self) -> Norms:
        """The largest difference between two contributions."""

    @property
    @abstractmethod
    def text(self) -> str:
        """The set in words, for the certificate."""

    @property
    @abstractmethod
    def scale_text(self) -> str:
        """What 2^30 grid units are worth in the user's units, for the certificate."""


class MeasuredBound(Bound):
    """A bound that also tells the length of what each single record brings: what individual accounting needs."""

    @abstractmethod
    def integers(self, values: Any, parts: Parts = None) -> np.ndarray:
        """Contributions as integer rows inside the set."""

    @abstractmethod
    def squared_lengths(self, rows: np.ndarray) -> np.ndarray:
        """The squared L2 length of what each integer row adds to the totals."""

    @abstractmethod
    def total_of(self, rows: np.ndarray) -> list[int]:
        """The exact totals of integer rows that are inside the set."""


def to_grid(values: np.ndarray, unit: float) -> np.ndarray:
    """Nearest grid point, saturated far outside every set so that infinities and NaN become integers."""
    with np.errstate(over="ignore"):
        scaled = np.nan_to_num(np.asarray(values, dtype=float) / unit, nan=0.0, posinf=2.0**62, neginf=-(2.0**62))
    return np.rint(np.clip(scaled, -(2.0**62), 2.0**62)).astype(np.int64)


def clipped_sums(values: np.ndarray, centre: float, unit: float, limit: int) -> list[int]:
    """Column by column, the exact sum of the nearest grid points, each clipped to ±limit.

    The same as rounding to integers, clipping and adding those, a few times as fast: whole numbers below 2^53 are exact as
    floats and need not be converted, and a few thousand at a time stay in the processor's cache.
    """
    total = np.zeros(values.shape[1], dtype=np.int64)
    rows = max(1, CACHED // values.shape[1])
    for start in range(0, len(values), rows):
        with np.errstate(over="ignore"):
            grid = values[start : start + rows] - centre
            grid /= unit
        grid = np.clip(np.rint(grid, out=grid), -limit, limit, out=grid)
        sums = grid.sum(axis=0)
        if np.isnan(sums).any():
            sums = np.nan_to_num(grid, nan=0.0).sum(axis=0)
        total += sums.astype(np.int64)
    return [int(v) for v in total]


def part_of(limit: int, parts: Parts) -> np.ndarray | int:
    """The share of a limit that one of k rows may use; a row with k = 0 was dropped and may use nothing."""
    if parts is None:
        return limit
    return np.where(parts > 0, limit // np.maximum(parts, 1), 0)


def column_sums(rows: np.ndarray) -> list[int]:
    return [int(v) for v in rows.sum(axis=0)]


def ceil_sqrt(value: int) -> int:
    root = math.isqrt(value)
    return root + (root * root < value)


def shrink_into_ball(z: np.ndarray, limit: np.ndarray | int) -> np.ndarray:
    """Integer rows scaled toward zero until their exact squared length is at most the limit."""
    limit = np.broadcast_to(limit, len(z))
    z = z.copy()
    shrink = 1.0
    while True:
        squared = (z * z).sum(axis=1)
        outside = squared > limit
        if not outside.any():
            return z
        factor = np.sqrt(limit[outside] / squared[outside]) * shrink
        z[outside] = np.trunc(z[outside] * factor[:, None]).astype(np.int64)
        shrink *= 1 - 2.0**-20
