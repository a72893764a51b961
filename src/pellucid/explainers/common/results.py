"""Results that families of explainers share: a curve along one feature, and several results of one release."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from ...mechanisms import NoiseLaw
from ...release.answer import Mean
from ...release.explanation import Explanation, frame
from . import plots, sentences
from .displays import partial_dependence_display


@dataclass(frozen=True, eq=False, kw_only=True)
class AnyCurve(Explanation):
    """A curve along one feature."""

    feature: str
    """What it runs along."""
    x: tuple[Any, ...]
    """Values of the feature."""
    y: np.ndarray
    """The released curve at them."""
    categorical: bool = False
    """Whether the values are categories."""
    smoothed: bool = False
    """Whether neighbours were averaged, which the error bars do not describe."""
    ylabel: str = ""
    """What the curve shows, for pictures."""

    def to_frame(self) -> pd.DataFrame:
        return frame(self.feature, self.y, *self.interval(), x=self.x)

    def plot(self, ax: Any = None, histogram: Any = None) -> Any:
        """A line with its error band, or rows of points for categories; returns the axes. `histogram` takes the released
        `Distribution` of the same feature, which is drawn below the curve."""
        return plots.curve(self, ax, histogram)

    def to_sklearn(self) -> Any:
        """A `PartialDependenceDisplay` of scikit-learn: the released curve, without deciles, which would be read from data.
        Error bars have no place in it; `plot` draws them."""
        return partial_dependence_display(self.x, self.y, self.naming.axis(self.feature), self.categorical)

    @property
    def height(self) -> str:
        """What the curve shows, with the name of the output where the model was given one."""
        return self.ylabel.replace("prediction", f"predicted {self.naming.output}") if self.naming.output else self.ylabel

    @property
    def headline(self) -> str:
        return sentences.curve(self, self.height)

    def _under(self) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """(left ends, right ends, counts) of a histogram that was released with the curve; None where there is none."""
        return None

    @property
    def leans(self) -> float:
        """How far public records moved the curve from what was released, at most; 0 where they did not, or it was smoothed."""
        return 0.0

    @property
    def notes(self) -> tuple[str, ...]:
        said = []
        if self.smoothed:
            said.append(f"{self.feature}: the curve was smoothed, which its error bars do not cover.")
        elif self.leans:
            said.append(
                f"{self.feature}: the curve leans on public records, which moved it by up to {self.leans:.2g}; its error bars "
                "are around the curve as it was released (`as_released()`)."
            )
        return (*super().notes, *said)

    def _below(self) -> tuple[str, ...]:
        """What its picture has to say beside the curve."""
        return ("leans on public records; error bars are around the curve as released",) if self.leans else ()


def around(centre: np.ndarray, half: np.ndarray, shown: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Error bars around what was released, as long as it takes to hold what is shown, too."""
    return np.minimum(centre - half, shown), np.maximum(centre + half, shown)


def moved(curve: AnyCurve, released: AnyCurve) -> float:
    """How far the curve was moved from what was released, at most, beyond rounding; 0 where smoothing moved it, too."""
    most = 0.0 if curve.smoothed else float(np.max(np.abs(curve.y - released.y), initial=0.0))
    return most if most > 1e-9 * float(np.max(np.abs(released.y), initial=0.0)) else 0.0


@dataclass(frozen=True, eq=False, kw_only=True)
class Curve(AnyCurve):
    """Means along one feature, most often of a model's output: `.x` (values of the feature) and `.y`."""

    kind: ClassVar[str] = "curve"
    law: NoiseLaw
    """The noise of the underlying sums, in units of half the range."""
    count: float
    """Over how many records: their public number, or a noisy count."""
    noisy_count: bool
    """Whether the count is noisy."""
    output: tuple[float, float]
    """The range that single values were clipped to."""
    means: np.ndarray | None = None
    """The curve as it was released, where `.y` leans on public records; None where `.y` is what was released."""
    ylabel: str = "mean prediction"
    """What the curve shows, for pictures."""

    def content(self) -> dict[str, Any]:
        found = super().content()
        if self.means is None:
            del found["means"]  # as it was before curves leaned on anything
        return found

    def as_released(self) -> Curve:
        """The same curve before it leaned on public records and before smoothing: noisier, and right on average."""
        return self if self.means is None else replace(self, y=self.means, means=None, smoothed=False)

    @property
    def leans(self) -> float:
        return moved(self, self.as_released())

    def interval(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """(lower, upper): each point's value without noise lies inside with probability `level` (smoothing off)."""
        lo, hi = self.output
        centre = self.y if self.means is None or self.smoothed else self.means
        half = Mean(centre, self.law, self.count, self.noisy_count, lo, hi).half_widths(level)
        return around(centre, half, self.y)


@dataclass(frozen=True, eq=False, kw_only=True)
class Several(Explanation):
    """Results of one joint release over several features: `.curves[name]`."""

    kind: ClassVar[str] = "several"
    curves: dict[str, Explanation]
    """The result of each feature, by name."""

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
