"""What is measured when features are shuffled among people: a base of two ways of asking, and the choice of a private cap."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from ...mechanisms import NoiseLaw
from ...public.model import Model
from ...public.rows import Rows
from ...query import Couples, Joint, Pairs, Sum
from ...query.bounds import Box, Cells
from ...release.answer import Answer
from ...release.plan import Public
from ...release.uncounted import Uncounted, absent_words
from ..common.caps import Look, PrivateCap, candidates, is_probability, private_cap
from .losses import Loss
from .results import Importance

CAPS = candidates(40)
"""Candidate caps, as parts of the largest loss: down to a millionth of a declared range, squared."""
RARE = candidates(3)
"""Those for probabilities."""


@dataclass(frozen=True)
class Truth:
    """What a record's target says, in the range of the model's output; NaN of a record that is left out."""

    target: str
    category: int | None
    lo: float
    hi: float
    leaves_out: bool = False
    """Whether a record whose target says nothing is left out."""

    def __call__(self, rows: Rows) -> np.ndarray:
        cells = rows[self.target]
        said = np.clip(cells, self.lo, self.hi) if self.category is None else np.where(cells == self.category, self.hi, self.lo)
        return np.where(rows.absent(self.target), np.nan, said) if self.leaves_out else said


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
        answers = rows.predict_with(self.model, donors, groups)
        return np.stack([self.loss(truth, answer) for answer in answers.T], axis=1)


def mean_of_two(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Element by element; where one of the two is NaN, the other."""
    return np.where(np.isnan(one), other, np.where(np.isnan(other), one, (one + other) / 2))


@dataclass(frozen=True)
class Looks:
    """Where it is looked for what clipping hides of increases: on the upper and on the lower side."""

    up: Look | None
    down: Look | None

    @property
    def sides(self) -> int:
        return (self.up is not None) + (self.down is not None)

    def excess(self, hidden: np.ndarray, low: float, high: float) -> np.ndarray:
        """Per pair the largest hidden increase of any feature, and the largest hidden decrease, each filling [low, high]."""
        found = []
        for look, size in ((self.up, hidden), (self.down, -hidden)):
            if look is not None:
                found.append(low + (high - low) * np.clip(size.max(axis=1) / look.reach, 0.0, 1.0))
        return np.stack(found, axis=1) if found else np.empty((len(hidden), 0))

    def told(self, means: np.ndarray, low: float, high: float) -> tuple[np.ndarray, np.ndarray]:
        """(what is hidden upward and downward at most, what a unit of noise in a mean is worth there), from mean excesses."""
        hidden, worth, rest = np.zeros(2), np.zeros(2), list(means)
        for side, look in enumerate((self.up, self.down)):
            if look is not None:
                worth[side] = look.factor * look.reach / (high - low)
                hidden[side] = worth[side] * (rest.pop(0) - low)
        return hidden, worth


NOWHERE = Looks(None, None)


@dataclass(frozen=True)
class Strangers:
    """Per record and donor: which candidate cap is just reached when *all* features come from the donor.

    That is what losses are like when the model knows nothing, and it costs one prediction a record. With `increase` it is
    about how much the loss grows, with `both` about the mean over the two of a couple.
    """

    measured: Measured
    parts: tuple[float, ...] = tuple(CAPS)
    """The candidates, as parts of the largest loss."""
    increase: bool = False
    both: bool = False

    def __call__(self, rows: Rows, others: Rows) -> tuple[np.ndarray, None, None]:
        one, other = rows.predict(self.measured.model), others.predict(self.measured.model)
        found = self._of(rows, one, other)
        if self.both:
            found = mean_of_two(found, self._of(others, other, one))
        cell = np.searchsorted(np.array(self.parts) * self.measured.loss.top, found, side="left")
        # Whoever is left out reaches no cap.
        return np.where(np.isnan(found), -1, np.minimum(cell, len(self.parts) - 1))[:, None], None, None

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
    public: Public
    """What planning saw."""
    given: bool = False
    """Whether somebody gave the cap: then nobody knows what lies beyond, and it is looked as far as losses go."""
    names: tuple[str, ...] = ()
    """What the groups are called; without names, by their features."""

    @property
    def target(self) -> tuple[str, ...]:
        """The target, where a record without one is left out; else nothing."""
        truth = self.measured.truth
        return (truth.target,) if truth.leaves_out else ()

    @property
    def count(self) -> bool:
        """Whether the number of records that count is secret, so that it is released beside the losses."""
        return self.public.count_needed or bool(self.target)

    def uncounted(self, answer: Answer) -> Uncounted | None:
        """How many records had no target."""
        return answer.uncounted(self.target, absent_words(self.target, self.public.schema)) if self.target else None

    @staticmethod
    @abstractmethod
    def pairing(public: Public, repeats: int) -> Pairs | Couples:
        """Who gives to whom."""

    @property
    def many(self) -> float:
        """How many pairs or couples there are, as far as that is public."""
        return self.public.rows_or_default / (2 if isinstance(self.over, Couples) else 1)

    @property
    def plenty(self) -> float:
        """Records times ε for each released number."""
        return self.public.rows_or_default * self.public.epsilon_like / (len(self.groups) + 1.5)

    @property
    @abstractmethod
    def outside(self) -> float:
        """How many pairs or couples a private cap should leave above it."""

    @property
    def stretch(self) -> float:
        """What the quantile is multiplied by. Any rule would be private."""
        return 1.0

    @abstractmethod
    def strangers(self, parts: np.ndarray) -> Strangers:
        """The losses whose quantile is the cap."""

    @property
    def private_cap(self) -> PrivateCap | None:
        """The private choice of a cap, where it cannot collapse."""

        def cells(parts: np.ndarray) -> Sum:
            over, bound = type(self.over)(), Cells(len(parts))
            return Sum(self.strangers(parts), bound, over=over, columns=self.columns, conditions=self.target)

        return private_cap(self.public, cells, CAPS if self.wide else RARE, self.outside, self.many)

    @property
    def wide(self) -> bool:
        """Whether the declared range may be far wider than answers are: that of a probability is not."""
        loss = self.measured.loss
        return not is_probability((loss.lo, loss.hi))

    @abstractmethod
    def looks(self, cap: float) -> Looks:
        """Where it is looked for what a cap hides."""

    def reach(self, cap: float, times: float) -> float:
        """How far beyond a limit it is looked: as far as losses go, or so many caps."""
        return self.measured.loss.top if self.given else times * cap

    @abstractmethod
    def moves(self, cap: float) -> Sum:
        """Squares of capped increases, in units of the square of the cap: what shuffles can do to the mean."""

    def chance(self, answer: Answer | None, cap: float, count: float) -> np.ndarray:
        """Standard errors of the mean increases by the shuffles that were drawn.

        From released mean squares, each with what its noise may hide; without any, the largest possible.
        """
        shuffled, size = max(count, 1.0) * self.over.repeats, len(self.groups)
        if answer is None:
            return np.full(size, self.widest_chance(cap) / np.sqrt(shuffled))
        squares = (1 + answer.numbers[:size] / max(count, 1.0)) / 2
        least = answer.noise.half_width(0.9) / 2 / max(count, 1.0)
        return cap * np.sqrt(np.clip(squares + least, 0.0, 1.0) / shuffled)

    def widest_chance(self, cap: float) -> float:
        """The largest standard deviation of one capped increase."""
        low, high = self.span(cap)
        return (high - low) / 2

    @abstractmethod
    def span(self, cap: float) -> tuple[float, float]:
        """The smallest and the largest capped increase."""

    @property
    def chance_matters(self) -> bool:
        """Whether shuffles could do more than a third of what noise does, so that it pays to ask what they did."""
        noise = self.public.mechanism(self.query(1.0)).law.std / Box(1, 0.0, 1.0).one * self.noise_unit(1.0) / self.many
        return self.widest_chance(1.0) / np.sqrt(self.many * self.over.repeats) > noise / 3

    @abstractmethod
    def noise_unit(self, cap: float) -> float:
        """What one unit of noise in a sum is worth in a sum of increases."""

    @abstractmethod
    def query(self, cap: float) -> Joint:
        """What is released under a cap."""

    @abstractmethod
    def importance(self, answer: Answer, cap: float, moved: Answer | None = None) -> Importance:
        """The answer to it, as importances; `moved` tells what shuffles do."""

    @abstractmethod
    def error(self, noise: NoiseLaw, cap: float, rows: int) -> tuple[float, float]:
        """(half-width of a 95 % error bar, gap between importances that are told apart with 95 %) under a cap."""

    @property
    def features(self) -> tuple[str, ...]:
        """The groups by name."""
        return self.names or tuple(" + ".join(group) for group in self.groups)
