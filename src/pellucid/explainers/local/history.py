"""What was answered before: explanations near a new record are reused, and the others are places to start from.

Everything in here was released or belongs to the person who asks. The paper's rule is kept: only an answer that was computed from
data may be handed on to another record, so that distances do not add up along a chain of handed-on answers. So only those are
kept. Its theorem 4.2 promises a loss of at most 8δ + O(δ²) at distance δ for equation (5), and O(δ²) for the change of the loss
of a fixed explanation. The second is wrong, since the loss has a slope in the record asked about; the first holds with 2K·δ,
where K is `Weight.drift`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...errors import PlanError


@dataclass(frozen=True)
class Answered:
    """One answer that was computed from data and paid for: the record in coordinates, the explanation, how good it is.

    `number` is that of its entry in the ledger; `level` the model's output at the record, where labels are counted from it.
    """

    asked: tuple[float, ...]
    phi: tuple[float, ...]
    number: int = 0
    std: tuple[float, ...] | None = None
    excess: float | None = None
    gain: float | None = None
    level: float | None = None
    pull: tuple[float, ...] | None = None
    gain_error: float | None = None


def paper_distance(steps: int = 300) -> float:
    """The distance within which Algorithm 3 hands answers on: log T/√T.

    >>> round(paper_distance(300), 3)
    0.329
    """
    return math.log(steps) / math.sqrt(steps)


class History:
    """Answers in order, with quick look-ups by distance."""

    def __init__(self, length: int, answered: Sequence[Answered] = ()):
        self.length = length
        self.answered: list[Answered] = []
        self._asked = np.empty((64, length))
        for one in answered:
            self.add(one)

    def __len__(self) -> int:
        return len(self.answered)

    def add(self, one: Answered) -> None:
        """Keep an answer."""
        if len(one.asked) != self.length or len(one.phi) != self.length:
            raise PlanError(f"an answer has {self.length} coordinates in this stream.")
        if len(self) == len(self._asked):
            self._asked = np.concatenate([self._asked, np.empty_like(self._asked)])
        self._asked[len(self)] = one.asked
        self.answered.append(one)

    def _distances(self, asked: Sequence[float]) -> np.ndarray:
        return np.linalg.norm(self._asked[: len(self)] - np.asarray(asked, dtype=float), axis=1)

    def nearest(self, asked: Sequence[float], within: float) -> tuple[Answered, float] | None:
        """The nearest answer and its distance, if it is near enough to be handed on."""
        if not len(self):
            return None
        away = self._distances(asked)
        place = int(np.argmin(away))
        return (self.answered[place], float(away[place])) if away[place] <= within else None

    def near(self, asked: Sequence[float], most: int) -> list[Answered]:
        """The nearest answers, nearest first."""
        if not len(self):
            return []
        return [self.answered[int(i)] for i in np.argsort(self._distances(asked), kind="stable")[:most]]
