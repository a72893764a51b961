"""Private caps: a quantile of sizes among public candidates, asked for only where it cannot collapse, and what a cap hides."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from ...query import Choice, Sum
from ...query.scores import QuantileScore
from ...release.plan import WHOLE, Public, Stage

SHARES = (Fraction(1, 20), Fraction(1, 10), Fraction(1, 5))
"""Of the spend, for the choice of a cap: the smallest that leaves few outside because of it."""
COLLAPSE = 0.02
"""The chance, at most, that a cap far below everybody is chosen."""
FEWEST = 6
"""Candidates that a choice is worth paying for: down to a sixth of the largest size."""
LOW = 0.5
"""The part of the contributions that may lie below all candidates: a loss that does not grow has no size."""
BLUR = 4.0
"""Ranks that a choice is uncertain by, over its exponent per rank: closer to the top, empty candidates would be chosen often."""
TAIL = 2.0
"""What lies beyond the reach of a look counts as much as what lies inside it, as in a tail that falls with the square."""
WHOLE_LOOK = 7.0
"""Up to so many times a limit it is looked as far as sizes can go; further the noise of looking would outweigh what is found."""


def candidates(octaves: int) -> np.ndarray:
    """Parts of the largest size, rising: two to an octave."""
    return 2.0 ** (-np.arange(2 * octaves, -1, -1) / 2)


def is_probability(output: Sequence[float]) -> bool:
    """Whether a declared output is that of a probability: its range is then as wide as the answers, and a rare class lies at its
    far end, which no quantile of all people sees."""
    lo, hi = output
    return lo >= 0 and hi <= 1


@dataclass(frozen=True)
class PrivateCap:
    """A choice that was settled: the stage, and the parts of the largest size that it chooses among."""

    stage: Stage
    parts: np.ndarray

    def chosen(self, position: int) -> float:
        """The cap as a part of the largest size."""
        return float(self.parts[position])


def private_cap(
    public: Public, cells: Callable[[np.ndarray], Sum], parts: Sequence[float] | np.ndarray, outside: float, many: float
) -> PrivateCap | None:
    """A private quantile with about `outside` of `many` contributions above it, among the upper ones of the candidates.

    `cells` gives the histogram over candidates. How many of these there are follows from what is public: each that lies far
    below everybody has a small chance to be chosen, and all of them together shall have at most `COLLAPSE`. None where that
    leaves too few: the share is better spent on what is released.
    """

    def stage(kept: np.ndarray, beyond: float, share: Fraction) -> Stage:
        return public.stage("cap", Choice(cells(kept), QuantileScore(_quantile(beyond, many))), share)

    parts = np.asarray(parts)
    whole = _blur(stage(parts, outside, WHOLE))
    for share in SHARES:
        blur = whole / (float(share) if public.spend.currency == "epsilon" else math.sqrt(share))
        beyond = max(outside, blur)
        inside = (float(_quantile(beyond, many)) - LOW) * many
        count = int(min(len(parts), COLLAPSE * math.exp(min(BLUR * inside / blur, 50.0))))
        if count >= FEWEST and (blur <= max(outside, many / 20) or share == SHARES[-1]):
            return PrivateCap(stage(parts[-count:], beyond, share), parts[-count:])
    return None


def _quantile(beyond: float, many: float) -> Fraction:
    return Fraction(1 - min(max(beyond / many, 1e-4), 1 / 3)).limit_denominator(10_000)


def _blur(cap: Stage) -> float:
    """How many contributions the choice is uncertain by."""
    choice, how = cap.query, cap.how
    assert isinstance(choice, Choice) and isinstance(choice.score, QuantileScore) and how is not None
    per_rank = float(how.rate) * choice.score.q.denominator * choice.bound.added().linf  # type: ignore[union-attr]
    return BLUR / per_rank


@dataclass(frozen=True)
class Look:
    """How far beyond a limit is looked for what clipping hides: the mean excess up to `reach`, times `factor`, bounds it.

    Where the reach ends at the largest possible size nothing is beyond it; else as much again is granted (`TAIL`).
    """

    reach: float
    factor: float

    @classmethod
    def beyond(cls, limit: float, largest: float, reach: float) -> Look | None:
        """A look beyond a limit; None where nothing can be."""
        left = largest - limit
        if left <= 1e-9 * largest:
            return None
        return cls(left, 1.0) if left <= max(reach, WHOLE_LOOK * limit) else cls(reach, TAIL)
