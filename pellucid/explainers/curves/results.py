"""The result of accumulated effects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...mechanisms import NoiseLaw
from ..common.results import AnyCurve
from . import accumulate


@dataclass(frozen=True, eq=False, kw_only=True)
class EffectCurve(AnyCurve):
    """Accumulated effects along one feature: `.x` (borders of the intervals), `.y` (centred) and `.effects` of the intervals."""

    kind: ClassVar[str] = "effect curve"
    counts: np.ndarray
    """The noisy number of records behind each interval."""
    sums: np.ndarray
    """The noisy sum of their steps across it."""
    weights: np.ndarray
    """Of the borders, in the mean that centres the curve."""
    factorised: bool
    """Whether combinations of the sums were asked for, which spread the noise."""
    clip: float
    """The most that one record adds to the sums, chosen privately: larger steps were scaled down to it."""
    most: float
    """The range of the model, which no mean effect exceeds."""
    floor: float
    """The least number of records that an interval is taken to have."""
    sum_law: NoiseLaw
    """The noise of the released sums, or of their combinations."""
    count_law: NoiseLaw
    """The noise of the histogram."""
    grid: np.ndarray
    """The public values that borders may take, in inner form."""
    cells: np.ndarray
    """The released histogram on the grid, cleaned; missing values, where they may be, have the last cell."""
    fixed_total: bool
    """Whether the number of records is public."""
    place: np.ndarray
    """Per grid value, the intervals it belongs to; -1 stands for none."""
    share: np.ndarray
    """Per grid value, its shares in them."""
    ylabel: str = "accumulated effect"
    """What the curve shows, for pictures."""

    @property
    def effects(self) -> np.ndarray:
        """The noisy mean effect of each interval."""
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
