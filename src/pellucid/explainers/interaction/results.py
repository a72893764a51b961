"""Released interactions between features, with error bars for ratios of noisy energies."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from ...mechanisms import NoiseLaw
from ...public.figure import mark, palette, plain
from ...release.explanation import Explanation, checked_level, frame
from ..common import plots, sentences
from ..common.canvas import axes, brief, finish, name_rows, numbers
from ..common.rankings import some
from .energies import (
    Simulated,
    along,
    centred,
    debiased,
    energy,
    least_variance,
    mean_noise,
    noise_energies,
    remainder,
    shift_of_remainder,
)

DRAWS = 2000


@dataclass(frozen=True, eq=False, kw_only=True)
class Interactions(Explanation):
    """Strength of interactions: `.features`, `.values` (H in [0, 1]) and `.ranking` (the most interacting first)."""

    features: tuple[str, ...]
    """What interacts."""
    values: np.ndarray
    """H of each feature."""
    squares: np.ndarray
    """H² as estimated, without the noise's own share and not clipped: an estimate of nothing is as often below zero as above."""
    aggregate: ClassVar[str] = "H"

    @property
    def ranking(self) -> tuple[str, ...]:
        return tuple(self.features[i] for i in np.argsort(-self.squares, kind="stable"))

    def to_frame(self) -> pd.DataFrame:
        return frame(self.features, self.values, *self.interval(), squared=self.squares)

    def plot(self, ax: Any = None) -> Any:
        """Points with error bars, the most interacting on top."""
        ax = plots.estimates(self, ax, xlabel=self.xlabel, sentence=self.headline, ordered=True)
        ax.set_xlim(0, 1)
        return ax

    @property
    @abstractmethod
    def xlabel(self) -> str:
        """What the values are, in words."""


@dataclass(frozen=True, eq=False, kw_only=True)
class MeasuredInteractions(Interactions):
    """Interactions with error bars."""

    @abstractmethod
    def simulated(self) -> Simulated:
        """What the noise does to the released H²."""

    def interval(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """(lower, upper) of each H without noise, on the same rounded values and weights."""
        lower, upper = self.simulated().interval(self.squares, level)
        return np.minimum(lower, self.values), np.maximum(upper, self.values)

    @property
    def headline(self) -> str:
        lower, _ = sentences.together(self, len(self.features))
        sure = [self.naming.name(self.features[i]) for i in np.argsort(-self.squares, kind="stable") if lower[i] > 0]
        return self._said(sure)

    @abstractmethod
    def _said(self, sure: list[str]) -> str:
        """A sentence about the features whose H is above zero for sure, the strongest first."""

    @property
    def verdict(self) -> str:
        """Which of them can be told from no interaction at all, in one sentence."""
        lower, _ = self.interval()
        unclear = [name for name, low in zip(self.features, lower) if low <= 0]
        if len(unclear) == len(self.features):
            return "no H can be told from zero: mostly noise."
        return f"{some(unclear)} cannot be told from zero." if unclear else "every H can be told from zero (95 % each)."

    @property
    def notes(self) -> tuple[str, ...]:
        return (*super().notes, self.verdict)


@dataclass(frozen=True, eq=False, kw_only=True)
class PairInteractions(MeasuredInteractions):
    """H of one feature with each other one; `.surfaces[name]` is the table of mean predictions behind one of them."""

    kind: ClassVar[str] = "pair interactions"
    feature: str
    """The feature asked about."""
    grids: dict[str, tuple[Any, ...]]
    """The values that features were rounded to, those of `feature` first."""
    weights: np.ndarray
    """The released shares of these values, in the same order."""
    surface: np.ndarray
    """The released mean predictions at all pairs of values, other feature after other feature."""
    law: NoiseLaw
    """Their noise."""

    @property
    def xlabel(self) -> str:
        return f"H of {self.naming.name(self.feature)} with"

    def _said(self, sure: list[str]) -> str:
        name = brief(self.naming.name(self.feature))
        return (
            sentences.begun(f"{name} interacts with {sentences.some(sure)}", self, self.feature)
            if sure
            else f"No interaction of {name} is sure"
        )

    @property
    def shares(self) -> dict[str, np.ndarray]:
        """The released weights of the rounded values, by feature."""
        ends = np.cumsum([len(grid) for grid in self.grids.values()])[:-1]
        return dict(zip(self.grids, np.split(self.weights, ends)))

    def _tables(self, flat: np.ndarray) -> dict[str, np.ndarray]:
        rows, tables, start = len(self.grids[self.feature]), {}, 0
        for name in self.features:
            size = rows * len(self.grids[name])
            tables[name] = flat[..., start : start + size].reshape(*flat.shape[:-1], rows, -1)
            start += size
        return tables

    @property
    def surfaces(self) -> dict[str, np.ndarray]:
        """The released table of mean predictions for each other feature: values of `feature` down, of the other across."""
        return self._tables(self.surface)

    def simulated(self) -> Simulated:
        shares, noise = self.shares, self._tables(self.law.draws(DRAWS))
        first, variance = shares[self.feature], self.law.std**2
        parts = []
        for name, table in self.surfaces.items():
            second = shares[name]
            rest, whole, least = debiased(table, first, second, variance)
            of_remainder, of_all = noise_energies(first, second)
            draws, left, all_of_it = noise[name], remainder(table, first, second), centred(table, first, second)
            base = max(whole - rest, least)
            cross = 2 * along(draws, left, first, second)
            own = energy(remainder(draws, first, second), first, second) - variance * of_remainder
            other = energy(centred(draws, first, second), first, second) - variance * of_all
            main = 2 * np.sqrt(base) * along(draws, all_of_it - left, first, second)
            parts.append((cross, own, base, other + main, least))
        columns = [np.array(column) for column in zip(*parts)]
        return Simulated(columns[0], columns[1], columns[2], columns[3], columns[4], inside=True)


@dataclass(frozen=True, eq=False, kw_only=True)
class OverallInteractions(MeasuredInteractions):
    """H of each feature with all others together."""

    kind: ClassVar[str] = "overall interactions"
    grids: dict[str, tuple[Any, ...]]
    """The values that features were rounded to."""
    weights: np.ndarray
    """The released shares of these values, feature after feature."""
    curves: np.ndarray
    """The released mean predictions at these values, then the plain mean prediction and, for each feature, the mean size of
    what it does to a record, counted from the lower end of the range."""
    curve_law: NoiseLaw
    """The noise of the sums behind the curves, in units of half the range."""
    curve_count: float
    """Over how many records the curves are means: their public number, or a noisy count."""
    means: np.ndarray
    """Mean squared remainders of the features in units of `caps`², and last the mean squared deviation of the predictions in
    units of `most`²."""
    mean_law: NoiseLaw
    """The noise of the sums behind them, in units of one half."""
    mean_count: float
    """Over how many records they are means."""
    noisy_count: bool
    """Whether the counts are noisy."""
    output: tuple[float, float]
    """The declared range of the model."""
    caps: np.ndarray
    """The largest remainder that a record may have; larger ones were cut, which the intervals do not include."""
    most: float
    """The largest deviation from the mean prediction that the range allows."""

    @property
    def xlabel(self) -> str:
        return "H with all other features"

    def _said(self, sure: list[str]) -> str:
        if not sure:
            return "No interaction between features is sure"
        return f"With other features interact {sentences.some(sure)}"

    def parts(self) -> list[slice]:
        """Where the curve of each feature is."""
        ends = np.cumsum([0] + [len(grid) for grid in self.grids.values()])
        return [slice(a, b) for a, b in zip(ends[:-1], ends[1:])]

    def simulated(self) -> Simulated:
        lo, hi = self.output
        noise = mean_noise(
            self.curves - (lo + hi) / 2, self.curve_law.draws(DRAWS), (hi - lo) / 2, self.curve_count, self.noisy_count
        )
        final = mean_noise(self.means - 0.5, self.mean_law.draws(DRAWS, seed=1), 0.5, self.mean_count, self.noisy_count)
        cross, own = [], []
        for i, part in enumerate(self.parts()):
            weights, moved = self.weights[part], shift_of_remainder(noise[:, part], self.weights[part])
            # How remainders lean along the feature is not released. Leaning wholly on its commonest value is the worst case.
            common = int(np.argmax(weights))
            cross.append(2 * np.sqrt(weights[common]) * noise[:, part][:, common])
            spread = moved**2 @ weights
            own.append(spread - spread.mean() + self.caps[i] ** 2 * final[:, i])
        count = len(self.features)
        base = np.full(count, max(self.means[-1] * self.most**2, 0.0))
        other = np.broadcast_to(self.most**2 * final[:, count], (count, DRAWS))
        least = np.full(count, least_variance(self.mean_law, self.mean_count, self.most))
        return Simulated(np.array(cross), np.array(own), np.maximum(base, least), other, least, inside=False)


@dataclass(frozen=True, eq=False, kw_only=True)
class RankedInteractions(Interactions):
    """The order of interactions, by H of records that were made up from released counts. There are no error bars."""

    kind: ClassVar[str] = "ranked interactions"
    feature: str | None
    """The feature asked about; None for each feature with all others."""
    linked: tuple[tuple[str, str], ...]
    """Pairs of features whose dependence is in the made-up records; all others depend on each other through these, or not."""

    @property
    def xlabel(self) -> str:
        with_what = self.naming.name(self.feature) if self.feature else "all other features"
        return f"H with {with_what}, of made-up records"

    def interval(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """All that H can be: how far made-up records are from people is not released, so nothing narrower is claimed."""
        checked_level(level)
        return np.zeros(len(self.values)), np.ones(len(self.values))

    @property
    def notes(self) -> tuple[str, ...]:
        said = "the order is that of records made up from noisy counts; how sure it is was not released"
        return (*super().notes, f"{said}: for H with error bars leave ranking= out.")

    def to_frame(self) -> pd.DataFrame:
        """The most interacting first."""
        made = super().to_frame()
        return made.iloc[np.argsort(-self.squares, kind="stable")].reset_index(drop=True)

    def plot(self, ax: Any = None) -> Any:
        """Points without error bars, the most interacting on top; pale, because how sure they are was not released."""
        names, order = [self.naming.name(name) for name in self.ranking], np.argsort(-self.squares, kind="stable")
        ax = axes(ax, names)
        rows, steps = name_rows(ax, names)
        colours = palette(ax)
        ax.plot(self.values[order], rows, "o", color=colours.ink, alpha=colours.pale)
        for name, row, step, value in zip(names, rows, steps, self.values[order]):
            mark(ax, None, (row - step / 2, row + step / 2), f"{name}: {plain(value)}, of made-up records")
        numbers(ax, x=True)
        finish(ax, self, self.headline, xlabel=self.xlabel, errors="no error bars", grid="x")
        ax.set_xlim(0, 1)
        return ax

    @property
    def headline(self) -> str:
        return f"Among made-up records, {self.naming.name(self.ranking[0])} comes first; how sure that is was not released"
