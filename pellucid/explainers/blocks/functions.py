"""Any function of records, asked of blocks: what a user's function may answer, and how many blocks to ask.

`function(rows)` gets a DataFrame with the declared columns and values. For a plot it answers with heights at the public x,
with a pair (places, heights), or with a mapping from places to heights; for a ranking with one score per item, a mapping
from items to scores, or a list of items, the first one best.
"""

from __future__ import annotations

import hashlib
import math
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pandas as pd

from ...engine.sandbox import Isolated, Limits, Outcomes
from ...errors import ModelError, PlanError
from ...public.fingerprint import code_bytes
from ...public.rows import Rows
from ...public.schema import Schema

SMALLEST_BLOCK = 30
"""Records a block should have: the wrapper does not know the function, and many need a few to work with."""

TRIALS = 3


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
        at, owner = np.unique(np.asarray(places, dtype=float), return_inverse=True)
        usable = np.isfinite(heights)
        counts = np.bincount(owner[usable], minlength=len(at))
        means = np.bincount(owner[usable], heights[usable], len(at)) / np.maximum(counts, 1)
        kept = (counts > 0) & np.isfinite(at)
        if not kept.any():
            raise ValueError("no place has a height")
        return np.interp(np.asarray(self.x, dtype=float), at[kept], means[kept])


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


@dataclass(frozen=True, eq=False)
class BlockFunction:
    """A user's function as the map of a sum over blocks. A block without an answer counts as the default."""

    function: Callable[[pd.DataFrame], Any]
    adapt: OnGrid | OnItems
    default: tuple[float, ...]
    limits: Limits

    def isolated(self) -> Isolated:
        return Isolated(self.function, len(self.default), self.limits, self.adapt)

    def __call__(self, rows: Rows) -> np.ndarray:
        return next(self.over([rows], 1, lambda _: None))

    def over(self, blocks: Iterable[Rows], total: int, note: Callable[[Outcomes], None]) -> Iterator[np.ndarray]:
        """One answer per block, in order. What became of the blocks is noted for the owner, and for nobody else."""
        work, default = self.isolated(), np.array(self.default)
        for answer in work.over((rows.frame() for rows in blocks), total):
            yield np.where(np.isnan(answer), default, answer)
        note(work.outcomes)

    def try_on_public_records(self, schema: Schema, columns: tuple[str, ...], size: int) -> None:
        """Refuse a function that fails on records drawn from the schema, before anything is charged."""
        frames = []
        for seed in range(TRIALS):
            drawn = schema.sample(size, seed)
            frames.append(Rows(schema, {name: drawn[name] for name in columns}).frame())
        reasons = self.isolated().trial(frames)
        if all(reasons):
            raise ModelError(
                f"the function {name_of(self.function)} was refused on public records drawn from the schema: {reasons[0]} "
                "Nothing was charged."
            )


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


def name_of(function: Any) -> str:
    """What to call a function on a certificate."""
    try:
        return str(getattr(function, "__name__", None) or type(function).__name__)
    except Exception:
        return type(function).__name__


def digest_of(function: Any) -> str:
    """Tells two functions apart when a request is replayed: by what is sent, and by the code behind what is sent by name."""
    try:
        content = cloudpickle.dumps(function) + _source_of(function)
    except Exception:
        raise PlanError(
            f"the function {name_of(function)} cannot be sent to another process; create what cannot be copied (open files, "
            "connections, locks) inside the function."
        ) from None
    return hashlib.sha256(content).hexdigest()


def _source_of(function: Any) -> bytes:
    """A function of a module is sent by its name alone, which may mean something else after the module was edited."""
    owner = function if isinstance(function, types.FunctionType) else type(function)
    called = function if isinstance(function, types.FunctionType) else vars(owner).get("__call__")
    code = getattr(called, "__code__", None)
    path = getattr(sys.modules.get(getattr(owner, "__module__", None) or ""), "__file__", None)
    source = Path(path).read_bytes() if path and Path(path).is_file() else b""
    return (code_bytes(code) if code else b"") + source


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
