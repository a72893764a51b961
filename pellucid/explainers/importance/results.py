"""Importances with their order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...mechanisms import NoiseLaw
from ..common.rankings import OrderedFeatures


@dataclass(frozen=True, eq=False, kw_only=True)
class Importance(OrderedFeatures):
    """How much worse the model gets when a feature is shuffled: `.features`, `.values`, `.ranking`, `.tiers()`.

    A release for the ranking alone has neither `.permuted` nor `.base`.
    """

    kind: ClassVar[str] = "importance"
    permuted: np.ndarray | None
    """Mean losses with each feature shuffled; `values` are their differences to `base`."""
    base: float | None
    """The mean loss as it is."""
    loss: str
    """Which loss: "squared", "absolute", "log" or "0-1"."""
    low: float
    """Losses, or their increases, below it counted as it."""
    cap: float
    """Those above it counted as it."""
    law: NoiseLaw
    """The noise of the sums in units of half of [low, cap]."""
    weight: int
    """How many times more exact the base loss is than the others."""
    count: float
    """Over how many records, or couples of them: a public number, or a noisy count."""
    noisy_count: bool
    """Whether it is noisy."""

    @property
    def ylabel(self) -> str:
        return f"increase of the {self.loss} loss"

    @property
    def _half(self) -> float:
        """What one unit of the noise is worth in a mean."""
        return (self.cap - self.low) / 2 / max(self.count, 1.0)

    @property
    def ratios(self) -> np.ndarray:
        """Permuted over base loss, computed after the release: a base loss within its own noise gives no ratio (NaN)."""
        noise = self.law.half_width(0.95) * self._half / self.weight
        if self.permuted is None or self.base is None or self.base <= noise:
            return np.full(len(self.values), np.nan)
        return self.permuted / self.base

    def certain_gap(self, level: float = 0.95) -> float:
        # The base loss and the count are the same for all features: neither can swap two of them.
        return self.law.spread(len(self.features), level) * self._half

    def interval(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """(lower, upper): each value without noise, with the same pairs and cap, lies inside with probability `level`."""
        self.law.half_width(level)  # refuses a level that is no probability
        own, other, counted = self.law.some(3, 10_000).T / np.array([[1], [self.weight], [self.weight]])
        errors = self._half * (own - other if self.base is not None else own)[:, None]
        if self.noisy_count:
            about = self.values - (0.0 if self.base is not None else (self.low + self.cap) / 2)
            errors = errors - about[None, :] * counted[:, None] / max(self.count, 1.0)
        width = np.broadcast_to(np.quantile(np.abs(errors), level, axis=0), len(self.values))
        return self.values - width, self.values + width
