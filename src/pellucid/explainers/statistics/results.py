"""Counts over cells, and means or sums of formulas."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from ...errors import PlanError
from ...mechanisms import NoiseLaw
from ...public.figure import plain
from ...public.spread import Spread
from ...release.answer import Mean
from ...release.explanation import Explanation, frame
from ...release.uncounted import percent
from ..common import sentences
from ..common.plots import estimates as draw_estimates
from ..common.projection import project_counts
from . import plots


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

    @property
    def spread(self) -> Spread:
        """How people are spread over the cells, for explanations that lean on made-up people like them."""
        total = max(float(self.counts.sum()), 1.0)
        shares = project_counts(self.counts, total) / total
        return Spread(self.feature, self.x, self.edges, tuple(float(share) for share in shares))

    def interval(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        half = self.law.half_width(level)
        return self.counts - half, self.counts + half

    def to_frame(self) -> pd.DataFrame:
        return frame(self.feature, self.counts, *self.interval(), x=self.x, **self._beside())

    @property
    def headline(self) -> str:
        return plots.spread(self)

    def plot(self, ax: Any = None) -> Any:
        return plots.counts(self, ax)


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

    @property
    def headline(self) -> str:
        if len(self.values) > 1:
            return f"{sentences.capital(self.aggregate)}s of {len(self.values)} formulas"
        half = float(self._half_widths(0.95)[0])
        within = f"{sentences.about(float(self.values[0]), half)} (±{plain(half, 2)})"
        return f"The {self.aggregate} of {self.naming.name(self.features[0])} is about {within}"

    def plot(self, ax: Any = None) -> Any:
        return draw_estimates(self, ax, xlabel=self.aggregate, sentence=self.headline)


@dataclass(frozen=True, eq=False, kw_only=True)
class CompletenessResult(Explanation):
    """How much of each column is not as declared: `.features`, `.conditions` and `.shares`, one for each of both; `.text`."""

    kind: ClassVar[str] = "completeness"
    features: tuple[str, ...]
    """The column that each share is about."""
    conditions: tuple[str, ...]
    """What its cells are: "missing", "unreadable" and "out of range" of numbers, "missing" and "not declared" of categories."""
    shares: np.ndarray
    """The noisy share of such cells."""
    law: NoiseLaw
    """The noise of the underlying sums, in units of half a record."""
    count: float
    """Over how many records: their public number, or a noisy count."""
    noisy_count: bool
    """Whether the count is noisy."""

    def share(self, feature: str, condition: str) -> float:
        """The noisy share of cells of a column that are in a condition."""
        both = list(zip(self.features, self.conditions))
        if (feature, condition) not in both:
            known = dict.fromkeys(self.features if feature not in self.features else self.conditions)
            raise PlanError(f"no share of {feature!r} is {condition!r}; there are {', '.join(map(repr, known))}.")
        return float(self.shares[both.index((feature, condition))])

    def interval(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """(lower, upper), inside [0, 1]."""
        half = self._half_widths(level)
        return np.clip(self.shares - half, 0.0, 1.0), np.clip(self.shares + half, 0.0, 1.0)

    def _half_widths(self, level: float) -> np.ndarray:
        return Mean(self.shares, self.law, self.count, self.noisy_count, 0.0, 1.0).half_widths(level)

    @property
    def sentences(self) -> tuple[str, ...]:
        """One for each column: what stands out of the noise, the largest share first."""
        return tuple(self._sentence(name) for name in dict.fromkeys(self.features))

    @property
    def text(self) -> str:
        """One line per column."""
        return "\n".join(self.sentences)

    def _sentence(self, feature: str) -> str:
        half = self._half_widths(0.95)
        own = [i for i, name in enumerate(self.features) if name == feature]
        seen = sorted((i for i in own if self.shares[i] > half[i]), key=lambda i: -self.shares[i])
        if not seen:
            most = percent(max(half[i] + max(self.shares[i], 0.0) for i in own), float(half[own[0]]))[0]
            named = _listed(self.conditions[i] for i in own)
            return f"`{feature}`: nothing above the noise (each of {named} is less than about {most})."
        said: list[str] = []
        for i in seen:
            about, within = percent(min(float(self.shares[i]), 1.0), float(half[i]))
            said.append(f"{about} {'of it ' if said else f'of `{feature}` '}was {self.conditions[i]}, ±{within}")
        return f"About {'; '.join(said)}."

    def to_frame(self) -> pd.DataFrame:
        """One line per column and condition, which is in `x`."""
        return frame(self.features, self.shares, *self.interval(), x=self.conditions)

    @property
    def headline(self) -> str:
        lower, _ = sentences.together(self, len(self.shares))
        most = int(np.argmax(lower))
        if lower[most] <= 0:
            return "No column has cells that are not as declared, above the noise"
        share = percent(min(float(self.shares[most]), 1.0), float(self._half_widths(0.95)[most]))[0]
        return f"About {share} of {self.naming.name(self.features[most])} is {self.conditions[most]}"

    def plot(self, ax: Any = None) -> Any:
        return plots.completeness(self, ax)


def _listed(names: Iterable[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
