"""What a record brings to accumulated effects: its place on the grid, and its steps across the intervals it belongs to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...public.grids import nearest
from ...public.model import Model
from ...public.rows import Rows
from .accumulate import Intervals

CLIPS = 2.0 ** (-np.arange(32, -1, -1) / 4)
"""Candidate clips, as parts of the model's range."""


@dataclass(frozen=True, eq=False)
class OnGrid:
    """Per record: the nearest public grid value; a missing value has the cell after the last."""

    name: str
    grid: np.ndarray

    def __call__(self, rows: Rows) -> tuple[np.ndarray, np.ndarray, None]:
        cell = nearest(self.grid, rows[self.name])
        cell = np.where(cell < 0, len(self.grid), cell)
        return cell[:, None], np.ones((len(cell), 1)), None


@dataclass(frozen=True, eq=False)
class Steps:
    """Per record: its parts of the differences in prediction across the intervals its value belongs to."""

    model: Model
    name: str
    grid: np.ndarray
    intervals: Intervals

    def differences(self, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
        place, share = self.intervals.places()
        at = nearest(self.grid, rows[self.name])
        cell = np.where(at[:, None] < 0, -1, place[at])
        steps = np.zeros(cell.shape)
        who, j = np.nonzero(cell >= 0)
        if len(who):
            interval = cell[who, j]
            ends = [{self.name: self.grid[end[interval]]} for end in (self.intervals.upper, self.intervals.lower)]
            upper, lower = rows.take(who).predict_each(self.model, ends)
            steps[who, j] = share[at[who], j] * (upper - lower)
        return cell, steps


@dataclass(frozen=True, eq=False)
class StepSize(Steps):
    """Per record: which candidate clip would just not touch it."""

    def __call__(self, rows: Rows) -> tuple[np.ndarray, np.ndarray, None]:
        _, steps = self.differences(rows)
        cell = np.searchsorted(CLIPS * self.model.range, np.abs(steps).sum(axis=1), side="left")
        return np.minimum(cell, len(CLIPS) - 1)[:, None], np.ones((len(rows), 1)), None


@dataclass(frozen=True, eq=False)
class ClippedSteps(Steps):
    """Per record: its differences, scaled down together when they exceed the clip."""

    clip: float

    def __call__(self, rows: Rows) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        cell, steps = self.differences(rows)
        size = np.abs(steps).sum(axis=1)
        factor = np.minimum(1.0, self.clip / np.maximum(size, 1e-300))
        return cell, np.zeros(cell.shape), steps * factor[:, None]


@dataclass(frozen=True, eq=False)
class CombinedSteps(ClippedSteps):
    """Per record: combinations of its clipped differences, as a factorisation of the accumulation asks for them."""

    asked: np.ndarray

    def __call__(self, rows: Rows) -> np.ndarray:  # type: ignore[override]
        cell, _, steps = super().__call__(rows)
        combined = np.zeros((len(rows), len(self.asked)))
        for j in range(cell.shape[1]):
            combined += self.asked.T[cell[:, j]] * np.where(cell[:, j] >= 0, steps[:, j], 0.0)[:, None]
        return combined
