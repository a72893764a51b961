"""Results along one feature that only accumulated effects have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...mechanisms import NoiseLaw
from ..common.results import AnyCurve
from . import accumulate


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
