"""Importances with their order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ...mechanisms import NoiseLaw
from ...release.explanation import checked_level
from ..common import sentences
from ..common.displays import importance_bunch
from ..common.rankings import OrderedFeatures

DRAWS = 4_000


@dataclass(frozen=True, eq=False, kw_only=True)
class Importance(OrderedFeatures):
    """How much worse the model gets when a feature is shuffled: `.features`, `.values`, `.ranking`, `.tiers()`.

    A release for the ranking alone has neither `.permuted` nor `.base`.
    """

    kind: ClassVar[str] = "importance"
    newer: ClassVar[tuple[str, ...]] = ("hidden", "hidden_worth", "chance")
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
    hidden: np.ndarray | None = None
    """How much of any mean increase clipping hid at most, upward and downward, with noise; None in results of before."""
    hidden_worth: np.ndarray | None = None
    """What one unit in a mean is worth in them."""
    chance: np.ndarray | None = None
    """Standard errors of the values by the shuffles that were drawn; None in results of before."""

    def to_sklearn(self) -> Any:
        """As scikit-learn returns it: `.importances_mean` and, from the error bars, `.importances_std`."""
        return importance_bunch(self.values, *self.interval())

    @property
    def headline(self) -> str:
        none = "No feature's importance stands out of the noise"
        return sentences.leading(self, "the model leans most on {}", "the model leans most on {}", none)

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
        if self.hidden is None or self.hidden_worth is None:
            return self.law.spread(len(self.features), level) * self._half
        level, d = checked_level(level), len(self.features)
        if d < 2:
            return 0.0
        noise = self._half * self.law.some(d + 2, DRAWS)
        apart = np.ptp(noise[:, :d] + self._by_chance(DRAWS), axis=1)
        # What is hidden of one may be hidden upward, of the other downward.
        unseen = self.hidden.sum() - noise[:, d:] @ self.hidden_worth
        return float(max(np.quantile(apart, level), np.quantile(apart + unseen, level)))

    def interval(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """(lower, upper): each importance lies inside with probability `level`, without noise, over all shuffles and without
        the cap. What the cap hides was measured up to twice the cap; beyond, as much again is granted."""
        level, draws = checked_level(level), 10_000
        own, other, counted, *beyond = self.law.some(5, draws).T / np.array([1, self.weight, self.weight, 1, 1])[:, None]
        errors = self._half * (own - other if self.base is not None else own)[:, None]
        if self.noisy_count:
            about = self.values - (0.0 if self.base is not None else (self.low + self.cap) / 2)
            errors = errors - about[None, :] * counted[:, None] / max(self.count, 1.0)
        errors = errors + self._by_chance(draws)
        ends = []
        for side, signed in enumerate((-errors, errors)):
            width = np.quantile(signed, (1 + level) / 2, axis=0)
            if self.hidden is not None and self.hidden_worth is not None and self.hidden_worth[side] > 0:
                unseen = self.hidden[side] - self._half * self.hidden_worth[side] * beyond[side][:, None]
                width = np.maximum(width, np.quantile(signed + unseen, (1 + level) / 2, axis=0))
            ends.append(width)
        return self.values - ends[1], self.values + ends[0]

    def _by_chance(self, draws: int) -> np.ndarray:
        """Copies of what the shuffles did to the values."""
        if self.chance is None:
            return np.zeros((draws, len(self.values)))
        return np.random.default_rng(1).normal(size=(draws, len(self.values))) * self.chance
