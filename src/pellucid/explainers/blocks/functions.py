"""What a function that is asked of blocks may answer, and how many blocks to ask.

`function(rows)` gets a DataFrame with the declared columns and values. For a plot it answers with heights at the public x,
with a pair (places, heights), or with a mapping from places to heights; for a ranking with one score per item, a mapping
from items to scores, or a list of items, the first one best.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ...query.functions import sent_whole

sent_whole(__name__)

SMALLEST_BLOCK = 30
"""Records a block should have: the wrapper does not know the function, and many need a few to work with."""


def _along(places: Any, x: Any) -> np.ndarray:
    """Places as numbers; days and times, which are text, in seconds."""
    # Not from `public.dates`: this module is sent whole to processes that do not load the package.
    return np.asarray(places, dtype="datetime64[s]" if any(isinstance(v, str) for v in x) else float).astype(float)


@dataclass(frozen=True)
class OnGrid:
    """Turns the answer to a plot into heights at the public places. Runs beside the function, in the block's own process.

    A place the block says nothing about takes the mean of the heights it does give: a category nobody in the block has.
    """

    x: tuple[Any, ...]
    categorical: bool

    def __call__(self, answer: Any) -> np.ndarray:
        if isinstance(answer, Mapping | pd.Series):
            answer = (list(answer.keys()), list(answer.values()) if isinstance(answer, Mapping) else answer.to_numpy())
        if isinstance(answer, tuple) and len(answer) == 2 and np.ndim(answer[0]) == 1:
            heights = self._from_points(*answer)
        else:
            heights = np.asarray(answer, dtype=float).ravel()
            if len(heights) != len(self.x):
                raise ValueError(
                    f"{len(heights)} heights were given for {len(self.x)} places; give one for each, or (places, heights)"
                )
        known = heights[np.isfinite(heights)]
        if not len(known):
            raise ValueError("no height is a number")
        return np.where(np.isfinite(heights), heights, known.mean())

    def _from_points(self, places: Any, heights: Any) -> np.ndarray:
        heights = np.asarray(heights, dtype=float).ravel()
        if len(places) != len(heights):
            raise ValueError(f"{len(places)} places and {len(heights)} heights were given")
        if self.categorical:
            found = {getattr(place, "item", lambda place=place: place)(): height for place, height in zip(places, heights)}
            return np.array([found.get(place, math.nan) for place in self.x])
        # Points at the same place are averaged, so that a scatter of points becomes a line.
        at, owner = np.unique(_along(places, self.x), return_inverse=True)
        usable = np.isfinite(heights)
        counts = np.bincount(owner[usable], minlength=len(at))
        means = np.bincount(owner[usable], heights[usable], len(at)) / np.maximum(counts, 1)
        kept = (counts > 0) & np.isfinite(at)
        if not kept.any():
            raise ValueError("no place has a height")
        return np.interp(_along(self.x, self.x), at[kept], means[kept])


@dataclass(frozen=True)
class OnItems:
    """Turns the answer to a ranking into one score per item, larger is better."""

    items: tuple[str, ...]

    def __call__(self, answer: Any) -> np.ndarray:
        if isinstance(answer, Mapping | pd.Series):
            given = dict(answer)
            missing = [item for item in self.items if item not in given]
            if missing:
                raise ValueError(f"no score was given for {missing[0]!r}")
            answer = [given[item] for item in self.items]
        listed = list(answer)
        if listed and all(isinstance(entry, str) for entry in listed):
            unknown = [entry for entry in listed if entry not in self.items]
            if unknown:
                raise ValueError(f"the ranking names {unknown[0]!r}, which is no item")
            if len(set(listed)) < len(listed):
                raise ValueError("the ranking names an item twice")
            # What is not named shares the last place.
            return np.array([len(listed) - listed.index(item) if item in listed else 0 for item in self.items], dtype=float)
        scores = np.asarray(answer, dtype=float).ravel()
        if len(scores) != len(self.items):
            raise ValueError(f"{len(scores)} scores were given for {len(self.items)} items")
        if np.isnan(scores).any():
            raise ValueError("a score is not a number")
        return scores


@dataclass(frozen=True)
class MeanBy:
    """A small plot to try things with: the mean of one column in every category of another."""

    by: str
    name: str

    def __call__(self, rows: Any) -> Any:
        return rows.groupby(self.by)[self.name].mean()


@dataclass(frozen=True)
class Means:
    """A small ranking to try things with: columns by their means."""

    names: tuple[str, ...]

    def __call__(self, rows: Any) -> Any:
        return rows[list(self.names)].mean().fillna(0.0)


def blocks_for_plot(rows: int, epsilon: float) -> int:
    """How many blocks to ask for a plot, from public numbers alone.

    More blocks mean less noise, smaller blocks mean answers that are less like the answer on everybody. Noise falls with
    blocks·ε, the error of small blocks grows with blocks/rows, so the two balance at a multiple of √(rows/ε), however many
    places the plot has. The multiple suits functions that fit something; for plain means more blocks are better.
    """
    return _within_reason(5 * math.sqrt(rows / epsilon), rows)


def blocks_for_votes(rows: int, items: int, epsilon: float) -> int:
    """How many blocks to ask for a ranking: several times the noise of a vote, somewhat more of them where ε is large."""
    noise = (items - 1) * math.sqrt((items + 1) * (items + 2) / 3)
    return _within_reason(5 * noise * epsilon**-0.75, rows)


def _within_reason(wanted: float, rows: int) -> int:
    return max(1, min(rows // SMALLEST_BLOCK, max(10, math.floor(min(wanted, 1e9)))))
