"""What was answered before: explanations near a new record are reused, and the others are places to start from.

Everything in here was released or belongs to the person who asks. The paper's rule is kept: only an answer that was computed from
data may be handed on to another record, so that distances do not add up along a chain of handed-on answers. Its theorem 4.2
promises a loss of at most 8δ + O(δ²) at distance δ for equation (5), and O(δ²) for the change of the loss of a fixed
explanation. The second is wrong, since the loss has a slope in the record asked about; the first holds with 2K·δ, where K is
`Weight.drift`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ..errors import PlanError


@dataclass(frozen=True)
class Answered:
    """One answered question: the record in coordinates, the explanation, and where it came from.

    `kind` is "data" (computed from data and paid for), "reused" (handed on from `leans_on`) or "history" (fitted to others).
    `cost` is what was charged, `price` what the question could have cost at most: with one account per record its noise follows
    from that.
    """

    asked: tuple[float, ...]
    phi: tuple[float, ...]
    kind: str
    cost: str = "0"
    std: tuple[float, ...] | None = None
    excess: float | None = None
    leans_on: tuple[int, ...] = ()
    price: str = "0"
    distance: float | None = None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Answered:
        lists = {name: tuple(content[name]) for name in ("asked", "phi", "leans_on")}
        std = None if content["std"] is None else tuple(content["std"])
        return cls(**{**content, **lists, "std": std})


def paper_distance(steps: int = 300) -> float:
    """The distance within which Algorithm 3 hands answers on: log T/√T.

    >>> round(paper_distance(300), 3)
    0.329
    """
    return math.log(steps) / math.sqrt(steps)


class History:
    """Answered questions in order, with quick look-ups by distance."""

    def __init__(self, length: int, answered: Sequence[Answered] = ()):
        self.length = length
        self.answered: list[Answered] = []
        self._asked = np.empty((64, length))
        for one in answered:
            self.add(one)

    def __len__(self) -> int:
        return len(self.answered)

    def add(self, one: Answered) -> int:
        """Keep an answer; its number is what later answers lean on."""
        if len(one.asked) != self.length or len(one.phi) != self.length:
            raise PlanError(f"an answer has {self.length} coordinates in this stream.")
        if len(self) == len(self._asked):
            self._asked = np.concatenate([self._asked, np.empty_like(self._asked)])
        self._asked[len(self)] = one.asked
        self.answered.append(one)
        return len(self) - 1

    def distances(self, asked: Sequence[float]) -> np.ndarray:
        return np.linalg.norm(self._asked[: len(self)] - np.asarray(asked, dtype=float), axis=1)

    def _from_data(self) -> np.ndarray:
        return np.array([one.kind == "data" for one in self.answered], dtype=bool)

    def nearest(self, asked: Sequence[float], within: float) -> tuple[int, float] | None:
        """(number, distance) of the nearest answer that came from data, if it is near enough to be handed on."""
        if not len(self):
            return None
        away = np.where(self._from_data(), self.distances(asked), math.inf)
        place = int(np.argmin(away))
        return (place, float(away[place])) if away[place] <= within else None

    def starts(self, asked: Sequence[float], most: int = 16) -> list[int]:
        """Numbers of the nearest answers that came from data: places to start a descent from."""
        if not len(self):
            return []
        own = np.flatnonzero(self._from_data())
        return [int(i) for i in own[np.argsort(self.distances(asked)[own], kind="stable")][:most]]

    def fitted(self) -> tuple[np.ndarray, np.ndarray]:
        """(records, explanations) of the answers that came from data, for `non_interactive`."""
        own = [one for one in self.answered if one.kind == "data"]
        return np.array([one.asked for one in own]), np.array([one.phi for one in own])

    def to_list(self) -> list[dict[str, Any]]:
        return [one.to_dict() for one in self.answered]

    @classmethod
    def from_list(cls, length: int, content: Sequence[dict[str, Any]]) -> History:
        return cls(length, [Answered.from_dict(one) for one in content])
