"""Results that order things: importances of features, and votes on items. With tiers that say how sure the order is."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from . import plots
from .explanation import Explanation
from .mechanisms import NoiseLaw


@dataclass(frozen=True, eq=False, kw_only=True)
class Ordered(Explanation):
    """Named numbers whose order matters."""

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """What is ordered."""

    @property
    @abstractmethod
    def scores(self) -> np.ndarray:
        """The released numbers, larger first in the order."""

    @abstractmethod
    def certain_gap(self, level: float = 0.95) -> float:
        """Whatever is further apart than this is in the right order, all pairs at once, with probability `level`."""

    @property
    def order(self) -> list[int]:
        """Positions of the names, the largest first."""
        return [int(i) for i in np.argsort(-self.scores, kind="stable")]

    @property
    def ranking(self) -> tuple[str, ...]:
        """The names, the largest first."""
        return tuple(self.names[i] for i in self.order)

    def tiers(self, level: float = 0.95) -> list[tuple[str, ...]]:
        """The ranking cut where the noise cannot have swapped anything: with probability `level` every name of a tier
        belongs before every name of the next. Inside a tier the order may be due to noise."""
        gap, found = self.certain_gap(level), []
        for before, i in zip([None, *self.order], self.order):
            if before is None or self.scores[before] - self.scores[i] > gap:
                found.append([self.names[i]])
            else:
                found[-1].append(self.names[i])
        return [tuple(tier) for tier in found]

    def _tier_of(self, level: float = 0.95) -> dict[str, int]:
        return {name: number for number, tier in enumerate(self.tiers(level), 1) for name in tier}

    def to_frame(self) -> pd.DataFrame:
        """The names in order, with their tiers and error bars."""
        lower, upper = self.interval()
        tier = self._tier_of()
        rows = [(self.names[i], self.scores[i], lower[i], upper[i], tier[self.names[i]]) for i in self.order]
        return pd.DataFrame(rows, columns=["name", "value", "lower", "upper", "tier"])

    def plot(self, ax: Any = None) -> Any:
        return plots.ranked(self, ax)


@dataclass(frozen=True, eq=False, kw_only=True)
class OrderedFeatures(Ordered):
    """Features in the order of one number each."""

    features: tuple[str, ...]
    values: np.ndarray

    @property
    def names(self) -> tuple[str, ...]:
        return self.features

    @property
    def scores(self) -> np.ndarray:
        return self.values


@dataclass(frozen=True, eq=False, kw_only=True)
class Importance(OrderedFeatures):
    """How much worse the model gets when a feature is shuffled: `.features`, `.values`, `.ranking`, `.tiers()`.

    `permuted` are the mean losses with each feature shuffled and `base` the mean loss as it is; `values` their differences.
    A release for the ranking alone has neither. Losses above `cap` counted as `cap`, and below `low` as `low`.
    """

    kind: ClassVar[str] = "importance"
    permuted: np.ndarray | None
    base: float | None
    loss: str
    low: float
    cap: float
    law: NoiseLaw
    weight: int
    count: float
    noisy_count: bool

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


@dataclass(frozen=True, eq=False, kw_only=True)
class Votes(Ordered):
    """An order found by voting of blocks: `.ranking`, `.votes` (mean Borda points of each item, 0 for last), `.tiers()`."""

    kind: ClassVar[str] = "votes"
    items: tuple[str, ...]
    votes: np.ndarray
    blocks: int
    law: NoiseLaw
    ylabel: str = "mean points of a block"

    @property
    def names(self) -> tuple[str, ...]:
        return self.items

    @property
    def scores(self) -> np.ndarray:
        return self.votes

    def certain_gap(self, level: float = 0.95) -> float:
        return self.law.spread(len(self.items), level)

    def interval(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """(lower, upper): the mean points of the same blocks without noise lie inside with probability `level`."""
        half = self.law.half_width(level)
        return self.votes - half, self.votes + half
