"""The results of partial dependence by differences, and of accumulated effects."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from ...mechanisms import NoiseLaw
from ...public.dates import along, is_dated, like
from ...public.figure import value_text
from ..common.results import AnyCurve, around, moved
from . import accumulate
from .variation import Released

BEFORE = 0.3
"""`EffectCurve.counted` of results that do not say, in pure accounts; twice as much in others."""

LIKE_PUBLIC = "where few people are behind a step, it is partly that of public records"
"""Said beside curves of which that is so."""


@dataclass(frozen=True, eq=False, kw_only=True)
class DependenceCurve(AnyCurve):
    """A partial dependence that was released as a level and differences: `.x` (values of the feature) and `.y`."""

    kind: ClassVar[str] = "dependence curve"
    numbers: np.ndarray
    """What was released: levels, differences or combinations of them, and how much was cut off."""
    law: NoiseLaw
    """The noise of each of these numbers."""
    level_weight: float
    """The part of a contribution that the level may use."""
    difference_weight: float
    """The part that the differences may use."""
    variation: float
    """V: how far a single record's curve may go up and down in all. One that went further was drawn toward its middle."""
    output: tuple[float, float]
    """The declared range of the model."""
    rows: float | None
    """The public number of records; None where it was counted with noise."""
    factorised: bool
    """Whether combinations of the differences were asked for, which spread the noise."""
    ylabel: str = "mean prediction"
    """What the curve shows, for pictures."""

    @property
    def released(self) -> Released:
        """The released numbers with what is public about them."""
        weights = (self.level_weight, self.difference_weight)
        return Released(self.numbers, self.law, *weights, self.variation, self.output, self.rows, self.factorised)

    @property
    def count(self) -> float:
        """Over how many records: their public number, or a noisy count."""
        return self.released.count

    @property
    def cut_off(self) -> float:
        """How many whole curves were cut off by V, in all, with noise: near zero where V was large enough."""
        return self.released.cut_off

    def interval(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """(lower, upper): each point's value without noise *and without cutting* lies inside with probability at least `level`
        (smoothing off)."""
        centre = self.y if self.smoothed else self.released.curve()
        return around(centre, self.released.half_widths(level), self.y)

    def as_released(self) -> DependenceCurve:
        """The same curve before it leaned on public records and before smoothing: noisier, and right on average."""
        return replace(self, y=self.released.curve(), smoothed=False)

    @property
    def leans(self) -> float:
        return moved(self, self.as_released())


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
    cut_off: float | None = None
    """What the clip took off the steps of all records together, as released, with noise; None where it was not counted."""
    hidden: float | None = None
    """The most that it may take off the steps of one record."""
    counted: float | None = None
    """What a record of which all that may be was cut off brought to the count of that, in clips; None before 0.2.0."""
    like_public: np.ndarray | None = None
    """Mean effects of public records, which stand in for those of few people; None where nothing does."""
    keep: np.ndarray | None = None
    """How much of each mean effect is its own, the rest is that of public records."""
    spread: np.ndarray | None = None
    """How far from those of public records mean effects are taken to be."""
    ylabel: str = "accumulated effect"
    """What the curve shows, for pictures."""

    def content(self) -> dict[str, Any]:
        found = super().content()
        if self.cut_off is None:
            del found["cut_off"], found["hidden"], found["counted"]  # as it was before this was counted
        if self.keep is None:
            del found["like_public"], found["keep"], found["spread"]
        return found

    @property
    def covers(self) -> str:
        """Which part of the declared range the curve runs over, where it is not all of it; else empty."""
        if self.categorical:
            return ""
        first, last = along((self.x[0], self.x[-1]))
        if first <= self.grid[0] and last >= self.grid[-1]:
            return ""
        words = (lambda number: like(number, self.x)) if is_dated(self.x) else value_text
        ends, declared = map(value_text, (self.x[0], self.x[-1])), map(words, self.grid[[0, -1]].tolist())
        return f"from {' to '.join(ends)} of {' to '.join(declared)}: how many people are beyond is not told from noise"

    @property
    def notes(self) -> tuple[str, ...]:
        few = [f"{self.feature}: {LIKE_PUBLIC}."] if self._stands_in else []
        return (*super().notes, *([f"{self.feature}: the curve runs {self.covers}."] if self.covers else []), *few)

    @property
    def _stands_in(self) -> bool:
        """Whether public records stand in for few people anywhere."""
        return self.keep is not None and bool(np.min(self.keep, initial=1.0) < 0.995)

    def _below(self) -> tuple[str, ...]:
        return (*([f"runs {self.covers}"] if self.covers else []), *([LIKE_PUBLIC] if self._stands_in else []))

    def _under(self) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """The histogram that was released to place the intervals."""
        if self.categorical or len(self.grid) < 2:
            return None
        middles = (self.grid[:-1] + self.grid[1:]) / 2
        ends = np.concatenate([self.grid[:1], middles, self.grid[-1:]])
        return ends[:-1], ends[1:], self.cells[: len(self.grid)]

    def plot(self, ax: Any = None, histogram: Any = None) -> Any:
        ax = super().plot(ax, histogram)
        if self.covers:
            ax.set_xlim(float(self.grid[0]), float(self.grid[-1]))
        return ax

    @property
    def effects(self) -> np.ndarray:
        """The noisy mean effect of each interval; where few people are behind it, partly that of public records."""
        own = accumulate.mean_effects(self.sums, self.counts, self.most)
        return own if self.keep is None else self.keep * own + (1 - self.keep) * self.like_public

    def interval(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """(lower, upper): covers the accumulated effects over these intervals, without noise and without a clip, about `level` of
        the time.

        What the clip took off was counted, and is taken to lie where it moves each border most. The count has noise, which the
        bars allow for, and takes no record's steps for more than `.hidden`: 1.4 times the largest of public records, or twice the
        clip. Results of a version that did not count it are about the curve of the same clip. Where few people are behind a step
        between categories, it is taken to be about as far from that of public records as their own steps are from each other.
        """
        borders = np.arange(len(self.y)) if self.categorical else along(self.x)
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
            cut_off=self.cut_off or 0.0,
            per_count=(self.hidden or 0.0) / (self.clip * (self.counted or BEFORE * (1 + self.factorised))),
            hidden=self.hidden or 0.0,
            keep=1.0 if self.keep is None else self.keep,
            spread=0.0 if self.spread is None else self.spread,
        ).half_widths(level)
        return self.y - half, self.y + half
