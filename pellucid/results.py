"""The kinds of results the explainers share: a curve over one feature, counts over cells, and several of either."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from . import accumulate, plots
from .explanation import Explanation
from .mean import Mean
from .mechanisms import NoiseLaw


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
        lower, upper = self.interval()
        name = "x" if self.feature in ("", "y", "lower", "upper") else self.feature
        return pd.DataFrame({name: list(self.x), "y": self.y, "lower": lower, "upper": upper})

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
class EffectCurve(AnyCurve):
    """Accumulated effects along one feature: `.x`, `.y` (centred) and the noisy `.counts` of the intervals between the x's.

    `effects` are the noisy mean effects of the intervals, `clip` the bound on what one record adds to them, itself chosen
    privately: larger steps were scaled down to it. `cells` is the released histogram on the public `grid`, and `place` and
    `share` say how the values of the grid were divided over the intervals.
    """

    kind: ClassVar[str] = "effect curve"
    counts: np.ndarray
    sums: np.ndarray
    weights: np.ndarray
    factorised: bool
    clip: float
    most: float
    floor: float
    sum_law: NoiseLaw
    count_law: NoiseLaw
    grid: np.ndarray
    cells: np.ndarray
    fixed_total: bool
    place: np.ndarray
    share: np.ndarray
    ylabel: str = "accumulated effect"

    @property
    def effects(self) -> np.ndarray:
        """Mean effect of each interval."""
        return accumulate.mean_effects(self.sums, self.counts, self.most)

    def interval(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """(lower, upper): covers the curve of the same intervals and the same clip without noise, about `level` of the time."""
        borders = np.arange(len(self.y)) if self.categorical else np.array(self.x, dtype=float)
        half = accumulate.ErrorModel(
            sums=self.sums,
            mass=self.counts,
            most=self.most,
            floor=self.floor,
            weights=self.weights,
            asked=accumulate.factorisation(self.counts, self.weights) if self.factorised else np.eye(len(self.sums)),
            sum_law=self.sum_law,
            count_law=self.count_law,
            cells=self.cells,
            fixed_total=self.fixed_total,
            place=self.place,
            share=self.share,
            on_grid=np.interp(self.grid, borders, self.y, left=0.0, right=0.0),
        ).half_widths(level)
        return self.y - half, self.y + half


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
        return plots.counts(self, ax)


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
        frames = []
        for name, curve in self.curves.items():
            frame = curve.to_frame().rename(columns={name: "x"})
            frame.insert(0, "feature", name)
            frames.append(frame)
        return pd.concat(frames, ignore_index=True)

    def plot(self, ax: Any = None) -> Any:
        """One panel per feature; `ax` may be a sequence of axes. Returns the axes as an array."""
        return plots.several(self, ax)
