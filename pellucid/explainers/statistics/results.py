"""Counts over cells, and means or sums of formulas."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from ...mechanisms import NoiseLaw
from ...release.answer import Mean
from ...release.explanation import Explanation
from ..common import plots
from . import plots as own


@dataclass(frozen=True, eq=False, kw_only=True)
class Counts(Explanation):
    """A histogram: `.x` (bin middles, integers or categories), `.counts`, and `.edges` where bins are intervals."""

    kind: ClassVar[str] = "counts"
    feature: str
    x: tuple[Any, ...]
    counts: np.ndarray
    law: NoiseLaw
    edges: tuple[float, ...] = ()
    categorical: bool = False

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
        lower, upper = self.interval()
        return pd.DataFrame({self.feature: list(self.x), "count": self.counts, "lower": lower, "upper": upper})

    def plot(self, ax: Any = None) -> Any:
        return own.counts(self, ax)


@dataclass(frozen=True, eq=False, kw_only=True)
class Estimates(Explanation):
    """Means or sums of some quantities: `.features` (what they are) and `.values`.

    `standard` are the released numbers with every range moved to [-1, 1], `radius` half the certified ranges.
    """

    kind: ClassVar[str] = "estimates"
    features: tuple[str, ...]
    values: np.ndarray
    aggregate: str
    standard: np.ndarray
    radius: np.ndarray
    law: NoiseLaw
    count: float
    noisy_count: bool

    def interval(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        half = self.radius * Mean(self.standard, self.law, self.count, self.noisy_count, -1.0, 1.0).half_widths(level)
        return self.values - half, self.values + half

    def to_frame(self) -> pd.DataFrame:
        lower, upper = self.interval()
        return pd.DataFrame({self.aggregate: list(self.features), "value": self.values, "lower": lower, "upper": upper})

    def plot(self, ax: Any = None) -> Any:
        return plots.estimates(self, ax)
