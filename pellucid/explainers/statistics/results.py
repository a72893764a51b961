"""Counts over cells, and means or sums of formulas."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from ...mechanisms import NoiseLaw
from ...release.answer import Mean
from ...release.explanation import Explanation, frame
from ..common.plots import estimates as draw_estimates
from .plots import counts as draw_counts


@dataclass(frozen=True, eq=False, kw_only=True)
class Counts(Explanation):
    """A histogram: `.x` and `.counts`, and `.edges` where bins are intervals."""

    kind: ClassVar[str] = "counts"
    feature: str
    """What is counted."""
    x: tuple[Any, ...]
    """Middles of bins, integers or categories; "missing" for the cell of missing values."""
    counts: np.ndarray
    """The noisy count of each cell."""
    law: NoiseLaw
    """The noise of the counts."""
    edges: tuple[float, ...] = ()
    """Where bins begin and end; empty where every value has a cell."""
    categorical: bool = False
    """Whether the cells are categories."""

    @property
    def shares(self) -> np.ndarray:
        """The histogram as shares of one: negative counts cut at zero."""
        positive = np.maximum(self.counts, 0)
        whole = positive.sum()
        return positive / whole if whole > 0 else np.full(len(positive), 1 / len(positive))

    def interval(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        half = self.law.half_width(level)
        return self.counts - half, self.counts + half

    def to_frame(self) -> pd.DataFrame:
        return frame(self.feature, self.counts, *self.interval(), x=self.x, **self._beside())

    def plot(self, ax: Any = None) -> Any:
        return draw_counts(self, ax)


@dataclass(frozen=True, eq=False, kw_only=True)
class Estimates(Explanation):
    """Means or sums of some quantities: `.features` (what they are) and `.values`."""

    kind: ClassVar[str] = "estimates"
    features: tuple[str, ...]
    """The quantities, as formulas."""
    values: np.ndarray
    """The released mean or sum of each."""
    aggregate: str
    """Which of the two it is: "mean" or "sum"."""
    standard: np.ndarray
    """The same with every range moved to [-1, 1]."""
    radius: np.ndarray
    """Half of each certified range."""
    law: NoiseLaw
    """The noise of the underlying sums, in units of half the range."""
    count: float
    """Over how many records it is: their public number, or a noisy count; 1 for a sum over all records."""
    noisy_count: bool
    """Whether the count is noisy."""

    def interval(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        half = self._half_widths(level)
        return self.values - half, self.values + half

    def _half_widths(self, level: float) -> np.ndarray:
        if self.aggregate == "mean" or not self.noisy_count:
            return self.radius * Mean(self.standard, self.law, self.count, self.noisy_count, -1.0, 1.0).half_widths(level)
        self.law.half_width(level)  # refuses a level that is no probability
        # A sum holds the middle of its range once for every counted record, whose number is noisy.
        middle = (self.values - self.radius * self.standard) / self.count if self.count else np.zeros(len(self.values))
        noise = self.law.pairs(10_000)
        return np.asarray(np.quantile(np.abs(self.radius * noise[:, :1] + middle * noise[:, 1:]), level, axis=0))

    def to_frame(self) -> pd.DataFrame:
        return frame(self.features, self.values, *self.interval(), aggregate=self.aggregate, **self._beside())

    def plot(self, ax: Any = None) -> Any:
        return draw_estimates(self, ax)
