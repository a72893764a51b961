"""What is measured when features are shuffled among people: a base of two ways of asking, and the choice of a private cap."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from ...mechanisms import NoiseLaw
from ...public.model import Model
from ...public.rows import Rows
from ...query import Choice, Couples, Joint, Pairs, Sum
from ...query.bounds import Cells
from ...query.scores import QuantileScore
from ...release.answer import Answer
from ...release.plan import Public
from .losses import Loss
from .results import Importance

CAPS = 2.0 ** (-np.arange(160, -1, -1) / 4)
"""Candidate caps, as parts of the largest loss: down to a millionth of a declared range, squared."""


@dataclass(frozen=True)
class Truth:
    """What a record's target says, in the range of the model's output."""

    target: str
    category: int | None
    lo: float
    hi: float

    def __call__(self, rows: Rows) -> np.ndarray:
        cells = rows[self.target]
        if self.category is not None:
            return np.where(cells == self.category, self.hi, self.lo)
        return np.clip(cells, self.lo, self.hi)


@dataclass(frozen=True)
class Measured:
    """Losses of a model against the truth."""

    model: Model
    truth: Truth
    loss: Loss

    def base(self, rows: Rows) -> np.ndarray:
        """The loss of every record as it is."""
        return self.loss(self.truth(rows), rows.predict(self.model))

    def shuffled(self, rows: Rows, donors: Rows, groups: tuple[tuple[str, ...], ...]) -> np.ndarray:
        """The losses of every record when each group of features comes from its donor."""
        truth = self.truth(rows)
        answers = rows.predict_each(self.model, [{name: donors[name] for name in group} for group in groups])
        return np.stack([self.loss(truth, answer) for answer in answers], axis=1)


@dataclass(frozen=True)
class Strangers:
    """Per record and donor: which candidate cap is just reached when *all* features come from the donor.

    That is what losses are like when the model knows nothing, and it costs one prediction a record. With `increase` it is
    about how much the loss grows, with `both` about the mean over the two of a couple.
    """

    measured: Measured
    increase: bool = False
    both: bool = False

    def __call__(self, rows: Rows, others: Rows) -> tuple[np.ndarray, None, None]:
        one, other = rows.predict(self.measured.model), others.predict(self.measured.model)
        found = self._of(rows, one, other)
        if self.both:
            found = (found + self._of(others, other, one)) / 2
        cell = np.searchsorted(CAPS * self.measured.loss.top, found, side="left")
        return np.minimum(cell, len(CAPS) - 1)[:, None], None, None

    def _of(self, rows: Rows, own: np.ndarray, given: np.ndarray) -> np.ndarray:
        truth, loss = self.measured.truth(rows), self.measured.loss
        return loss(truth, given) - loss(truth, own) if self.increase else loss(truth, given)


@dataclass(frozen=True)
class Shuffling(ABC):
    """One way of asking what shuffling does to the loss, settled from public things only."""

    measured: Measured
    groups: tuple[tuple[str, ...], ...]
    """What is shuffled together, group after group."""
    over: Pairs | Couples
    """Who gives to whom, and how many times over."""
    columns: tuple[str, ...]
    """What is read."""
    count: bool
    """Whether the number of records is secret, so that it is released beside the losses."""

    @staticmethod
    @abstractmethod
    def pairing(public: Public, repeats: int) -> Pairs | Couples:
        """Who gives to whom."""

    @staticmethod
    @abstractmethod
    def stretch(plenty: float) -> float:
        """What the quantile is multiplied by: with many records and a large spend noise is small, and a low cap would be bias.

        `plenty` is the number of records times ε for each released number. The rules were found by trying several tables; any
        would be private.
        """

    @property
    @abstractmethod
    def strangers(self) -> Strangers:
        """The losses whose quantile is the cap."""

    @property
    def cap_choice(self) -> Choice:
        """The private choice of a cap."""
        over = Sum(self.strangers, Cells(len(CAPS)), over=type(self.over)(), columns=self.columns)
        return Choice(over, QuantileScore(Fraction(9, 10)))

    @abstractmethod
    def query(self, cap: float) -> Joint:
        """What is released under a cap."""

    @abstractmethod
    def importance(self, answer: Answer, cap: float) -> Importance:
        """The answer to it, as importances."""

    @abstractmethod
    def error(self, noise: NoiseLaw, cap: float, rows: int) -> tuple[float, float]:
        """(half-width of a 95 % error bar, gap between importances that are told apart with 95 %) under a cap."""

    @property
    def features(self) -> tuple[str, ...]:
        """The groups by name."""
        return tuple(" + ".join(group) for group in self.groups)
