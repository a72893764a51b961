"""What comes back through the door: noisy totals with the law of their noise. Nothing in here is secret."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import PlanError
from ..mechanisms import NoiseLaw
from ..query.bound import Bound
from ..query.bounds import Box, Cells, CountedBox
from ..query.image import Image
from .explanation import checked_level
from .uncounted import Uncounted


@dataclass(frozen=True)
class Mean:
    """Noisy means of bounded values."""

    values: np.ndarray
    law: NoiseLaw
    """The noise of the underlying sums in units of half the range."""
    count: float
    """Over how many records: their public number, or a noisy count."""
    noisy_count: bool
    lo: float
    hi: float

    def half_widths(self, level: float) -> np.ndarray:
        """Error bars of each mean. With a noisy count the error of the ratio is drawn from the public law of the noise."""
        level, radius, centre = checked_level(level), (self.hi - self.lo) / 2, (self.hi + self.lo) / 2
        if not self.noisy_count:
            return np.full(len(self.values), radius * self.law.half_width(level) / self.count)
        if self.count < 1:
            return np.full(len(self.values), self.hi - self.lo)
        noise = self.law.pairs(10_000)
        errors = (radius * noise[:, :1] - (self.values - centre) * noise[:, 1:]) / self.count
        return np.asarray(np.quantile(np.abs(errors), level, axis=0))

    def covariance(self) -> np.ndarray:
        """Of the noise of the means."""
        radius, apart = (self.hi - self.lo) / 2, self.values - (self.hi + self.lo) / 2
        moved = radius**2 * np.eye(len(self.values)) + (np.outer(apart, apart) if self.noisy_count else 0.0)
        return np.asarray((self.law.std / self.count) ** 2 * moved)


@dataclass(frozen=True)
class Answer:
    """Noisy totals of one stage, with the law of their noise."""

    integers: tuple[int, ...]
    """The released integers, on the grid of their bound."""
    released: tuple[Bound | Image, ...]
    """What they are totals or images of, part by part."""
    law: NoiseLaw
    """The law of the noise, in grid units."""
    rows: int | None
    """The public number of records; None where it is secret."""

    def part(self, i: int) -> Answer:
        """The answer to one sum of a joint query; its noise is one part of the joint draw."""
        start = sum(b.size for b in self.released[:i])
        return Answer(self.integers[start : start + self.released[i].size], (self.released[i],), self.law, self.rows)

    @property
    def bound(self) -> Bound | Image:
        if len(self.released) != 1:
            raise PlanError("a joint answer has several parts; take one with part(i).")
        return self.released[0]

    @property
    def numbers(self) -> np.ndarray:
        """The totals without the grid: one record counts one, the radius of a set is one."""
        return np.array(self.integers, dtype=float) / self.released[0].one

    @property
    def noise(self) -> NoiseLaw:
        """The law of the noise of `numbers`."""
        return self.law.times(1 / self.released[0].one)

    def mean(self) -> Mean:
        """Means of the values of a Box: over the public number of rows, or over the noisy count."""
        box = self.bound
        assert isinstance(box, Box)
        totals = np.array(self.integers[: box.length], dtype=float) / box.weight
        count = float(self.rows) if not box.count else self.integers[box.length] / box.one / box.weight  # type: ignore[arg-type]
        # A count at or below the noise says nothing about the mean; the middle of the range does not pretend to.
        values = box.centre + box.unit * totals / count if count >= 1 else np.full(box.length, box.centre)
        return Mean(values, self.law.times(1 / box.one / box.weight), count, box.count, box.lo, box.hi)

    def uncounted(self, columns: Sequence[str], what: str) -> Uncounted:
        """What is known of the records that a CountedBox left out: their count, or all but those that count."""
        box = self.bound
        assert isinstance(box, CountedBox)
        law, counts = self.law.times(1 / box.one / box.weight), [v / box.one / box.weight for v in self.integers[box.length :]]
        if box.left_out:
            of, noisy = (sum(counts), 1) if box.count else (math.nan, 0)
            return Uncounted(tuple(columns), what, counts[-1], of, law, noisy)
        assert self.rows is not None
        return Uncounted(tuple(columns), what, self.rows - counts[0], float(self.rows), law, 0)

    def outside(self, columns: Sequence[str], what: str, whole: bool = True) -> Uncounted:
        """What is known of the records that a histogram left out, from its last cell.

        Without a public number of records all cells together tell it, where every record is in one of them (`whole`).
        """
        numbers, law = self.numbers, self.noise
        if self.rows is not None:
            return Uncounted(tuple(columns), what, float(numbers[-1]), float(self.rows), law, 0)
        of, noisy = (float(numbers.sum()), len(numbers) - 1) if whole else (math.nan, 0)
        return Uncounted(tuple(columns), what, float(numbers[-1]), of, law, noisy)

    def cells(self) -> tuple[np.ndarray | None, np.ndarray | None]:
        """(sums of values, counts) per cell, in the user's units."""
        bound = self.bound
        assert isinstance(bound, Cells)
        numbers = np.array(self.integers, dtype=float)
        sums = numbers[: bound.cells] * bound.unit if bound.value is not None else None
        counts = numbers[-bound.cells :] / bound.counts if bound.counts else None
        return sums, counts
