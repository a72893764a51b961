"""The kinds of results the explainers share: a curve over one feature, counts over cells, and several of either."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from ...mechanisms import NoiseLaw
from ...release.answer import Mean
from ...release.explanation import Explanation, frame
from . import plots


@dataclass(frozen=True, eq=False, kw_only=True)
class AnyCurve(Explanation):
    """A curve along one feature."""

    feature: str
    x: tuple[Any, ...]
    y: np.ndarray
    categorical: bool = False
    smoothed: bool = False
    ylabel: str = ""

    def to_frame(self) -> pd.DataFrame:
        return frame(self.feature, self.y, *self.interval(), x=self.x)

    def plot(self, ax: Any = None) -> Any:
        return plots.curve(self, ax)


@dataclass(frozen=True, eq=False, kw_only=True)
class Curve(AnyCurve):
    """Mean model output along one feature: `.x` (values of the feature) and `.y`."""

    kind: ClassVar[str] = "curve"
    law: NoiseLaw
    count: float
    noisy_count: bool
    output: tuple[float, float]
    ylabel: str = "mean prediction"

    def interval(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """(lower, upper): each point's value without noise lies inside with probability `level` (smoothing off)."""
        lo, hi = self.output
        half = Mean(self.y, self.law, self.count, self.noisy_count, lo, hi).half_widths(level)
        return self.y - half, self.y + half


@dataclass(frozen=True, eq=False, kw_only=True)
class Several(Explanation):
    """Results of one joint release over several features: `.curves[name]`."""

    kind: ClassVar[str] = "several"
    curves: dict[str, Explanation]

    @property
    def features(self) -> tuple[str, ...]:
        return tuple(self.curves)

    def __getitem__(self, name: str) -> Explanation:
        return self.curves[name]

    def interval(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """(lower, upper), the features one after the other."""
        both = [curve.interval(level) for curve in self.curves.values()]
        return np.concatenate([b[0] for b in both]), np.concatenate([b[1] for b in both])

    def to_frame(self) -> pd.DataFrame:
        return pd.concat([curve.to_frame() for curve in self.curves.values()], ignore_index=True)

    def plot(self, ax: Any = None) -> Any:
        """One panel per feature; `ax` may be a sequence of axes. Returns the axes as an array."""
        return plots.several(self, ax)
