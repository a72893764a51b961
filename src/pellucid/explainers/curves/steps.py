"""What a record brings to accumulated effects: its place on the grid, and its steps across the intervals it belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...public.fitted.read import Picked
from ...public.grids import nearest
from ...public.model import Model
from ...public.rows import Changes, Rows
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

    beside: tuple[Steps, ...] = field(default=(), kw_only=True)
    """Those of all features that are asked about together, this one among them."""

    def differences(self, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
        """(intervals, differences) of every record; -1 where there is none. Rows that stay are asked about once."""
        if not rows.kept:
            return self._alone(rows)
        if not self.beside or not rows.computes(self.model):
            return rows.once((self.name, self.intervals), lambda: self._alone(rows))
        found = rows.once(self.beside, lambda: together(rows, self.beside))
        return found[[one.name for one in self.beside].index(self.name)]

    def _alone(self, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
        place, share = self.intervals.places()
        at = nearest(self.grid, rows[self.name])
        cell = np.where(at[:, None] < 0, -1, place[at])
        steps = np.zeros(cell.shape)
        who, j = np.nonzero(cell >= 0)
        if len(who):
            interval = cell[who, j]
            ends = [{self.name: Picked(self.grid, end[interval])} for end in (self.intervals.upper, self.intervals.lower)]
            upper, lower = rows.take(who).predict_each(self.model, ends)
            steps[who, j] = share[at[who], j] * (upper - lower)
        return cell, steps


def together(rows: Rows, all_steps: Sequence[Steps]) -> list[tuple[np.ndarray, np.ndarray]]:
    """The intervals and differences of several features, from one question about all of them."""
    asked: list[Changes] = []
    found = []
    for one in all_steps:
        (place, share), (lower, upper) = one.intervals.places(), (one.intervals.lower, one.intervals.upper)
        at = nearest(one.grid, rows[one.name])
        cell, here = np.where(at[:, None] < 0, -1, place[at]), np.maximum(at, 0)
        # Where the second interval of a value begins is where its first one ends, so three ends are enough.
        two = place[place[:, 1] >= 0]
        joined = bool((upper[two[:, 0]] == lower[two[:, 1]]).all())
        ends = [(lower, 0), (upper, 0), (upper, 1)] if joined else [(lower, 0), (upper, 0), (lower, 1), (upper, 1)]
        first = len(asked)
        # A record that has no such end stays where it is.
        asked += [{one.name: Picked(one.grid, np.where(cell[:, k] >= 0, end[cell[:, k]], here))} for end, k in ends]
        found.append((cell, share[here], slice(first, len(asked))))
    answers, made = rows.predict_table(all_steps[0].model, asked), []
    for cell, share, columns in found:
        ends_of = answers[:, columns]
        step = np.stack([ends_of[:, 1] - ends_of[:, 0], ends_of[:, -1] - ends_of[:, -2]], axis=1)
        made.append((cell, np.where(cell >= 0, share * step, 0.0)))
    return made


@dataclass(frozen=True, eq=False)
class StepSize(Steps):
    """Per record: which candidate clip would just not touch it."""

    clips: np.ndarray
    """Candidates, rising; whatever no candidate spares is counted with the last."""

    def __call__(self, rows: Rows) -> tuple[np.ndarray, np.ndarray, None]:
        _, steps = self.differences(rows)
        cell = np.searchsorted(self.clips, np.abs(steps).sum(axis=1), side="left")
        return np.minimum(cell, len(self.clips) - 1)[:, None], np.ones((len(rows), 1)), None


@dataclass(frozen=True, eq=False)
class ClippedSteps(Steps):
    """Per record: its differences, scaled down together when they exceed the clip; with `hidden`, also what was cut off.

    What was cut off is a part of `hidden`, at most one, and has the room that cutting leaves: in an L1 ball the part of the clip
    that is kept and the part of `hidden` that is cut off add up to at most one. It has the cell after the last interval.
    """

    clip: float
    hidden: float = 0.0
    """The most that may be cut off a record's steps, more than the clip; nothing is counted where it is 0."""

    def __call__(self, rows: Rows) -> Any:
        cell, steps = self.differences(rows)
        size = np.abs(steps).sum(axis=1)
        kept, off = self.cut(size)
        steps = steps * np.where(size > self.clip, kept * self.clip / np.maximum(size, 1e-300), 1.0)[:, None]
        if self.hidden:
            cell = np.hstack([cell, np.full((len(cell), 1), len(self.intervals))])
            steps = np.hstack([steps, self.clip * off[:, None]])
        return cell, np.zeros(cell.shape), steps

    def cut(self, size: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(what a record of more than a clip keeps, as a part of the clip; what was cut off, as a part of `hidden`)."""
        if not self.hidden:
            return np.ones(len(size)), np.zeros(len(size))
        off = np.clip((size - self.clip) / (self.hidden - self.clip), 0.0, 1.0)
        return 1 - off, off


@dataclass(frozen=True, eq=False)
class CombinedSteps(ClippedSteps):
    """Per record: combinations of its clipped differences, as a factorisation of the accumulation asks for them.

    Their length and what was cut off are the sides of a right angle: the squares of the two parts add up to at most one.
    """

    asked: np.ndarray = field(default_factory=lambda: np.eye(1))

    def __call__(self, rows: Rows) -> np.ndarray:
        cell, _, steps = super().__call__(rows)
        combined = np.zeros((len(rows), len(self.asked)))
        for j in range(cell.shape[1] - bool(self.hidden)):
            combined += self.asked.T[cell[:, j]] * np.where(cell[:, j] >= 0, steps[:, j], 0.0)[:, None]
        return np.hstack([combined, steps[:, -1:]]) if self.hidden else combined

    def cut(self, size: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if not self.hidden:
            return super().cut(size)
        size, ratio = np.clip(size, self.clip, self.hidden) / self.hidden, self.clip / self.hidden
        # The larger root of kept² + (size - ratio·kept)² = 1, in parts of `hidden`.
        whole = 1 + ratio**2
        kept = (size * ratio + np.sqrt(np.maximum((size * ratio) ** 2 - whole * (size**2 - 1), 0.0))) / whole
        off = np.clip(size - ratio * kept, 0.0, 1.0)
        return np.sqrt(1 - off**2), off
