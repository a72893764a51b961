"""Losses of a prediction against the truth, each with a declared range that every value is inside of."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from ...errors import PlanError

LossName = Literal["squared", "absolute", "log", "0-1"]

SURE = 1e-3
"""Probabilities are kept this far from 0 and 1 in the log loss: one wrong certainty would cost infinitely much."""


@dataclass(frozen=True)
class Loss:
    """A loss on answers and truths that both lie in [lo, hi].

    >>> Loss("squared", 0, 10).top
    100.0
    """

    name: LossName
    lo: float
    hi: float

    def __post_init__(self) -> None:
        if self.name not in get_args(LossName):
            raise PlanError(f"loss={self.name!r}: use 'squared', 'absolute', 'log' or '0-1'.")
        # A cap may lie far below the top, and has to be a usable range too.
        if not 1e-200 < self.top < 1e290:
            raise PlanError(f"a model with output [{self.lo:g}, {self.hi:g}] has no {self.name} loss that floats can hold.")
        if self.name == "log" and not (self.lo >= 0 and self.hi <= 1):
            raise PlanError(
                f"loss='log' needs a model whose output is a probability; its declared output is [{self.lo:g}, {self.hi:g}]."
            )

    @property
    def top(self) -> float:
        """The largest value; the smallest is 0."""
        width = float(self.hi) - float(self.lo)
        if self.name == "squared":
            return width * width
        return {"absolute": width, "log": -math.log(SURE), "0-1": 1.0}[self.name]

    def __call__(self, truth: np.ndarray, answer: np.ndarray) -> np.ndarray:
        """One loss per record; NaN for a record without a truth, which counts for nothing."""
        if self.name == "squared":
            found = (truth - answer) ** 2
        elif self.name == "absolute":
            found = np.abs(truth - answer)
        elif self.name == "log":
            sure = np.clip(answer, SURE, 1 - SURE)
            found = -truth * np.log(sure) - (1 - truth) * np.log1p(-sure)
        else:
            middle = (self.lo + self.hi) / 2
            found = ((truth > middle) != (answer > middle)).astype(float)
        return np.where(np.isnan(truth), np.nan, np.clip(found, 0.0, self.top))
