"""The mean loss as it is and with each group of features shuffled, by one draw of noise: importances are their differences."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...mechanisms import NoiseLaw
from ...public.rows import Rows
from ...query import Joint, Pairs, Sum
from ...query.bound import UNITS
from ...query.bounds import Box
from ...release.answer import Answer
from ...release.plan import Public
from ..common.caps import Look
from .results import Importance
from .shuffling import Looks, Measured, Shuffling, Strangers

PLENTY = 200
"""Records times ε for each released number, from which a private cap lies near the largest losses."""
BASE_WEIGHT = 2
"""One person is in one base loss but in two permuted ones, so the base may be twice as exact at the same noise."""


@dataclass(frozen=True)
class BaseLoss:
    """Per record: the loss of the model as it is."""

    measured: Measured

    def __call__(self, rows: Rows) -> np.ndarray:
        return self.measured.base(rows)[:, None]


@dataclass(frozen=True)
class CountedLoss:
    """Per record: whether it has a target, and the loss of the model as it is."""

    measured: Measured

    def __call__(self, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
        losses = self.measured.base(rows)
        return ~np.isnan(losses), losses[:, None]


@dataclass(frozen=True)
class ShuffledLosses:
    """Per record and donor: the losses when each group of features comes from the donor, beside what the cap hides."""

    measured: Measured
    groups: tuple[tuple[str, ...], ...]
    cap: float
    looks: Looks

    def __call__(self, rows: Rows, donors: Rows) -> np.ndarray:
        losses = self.measured.shuffled(rows, donors, self.groups)
        if not self.looks.sides:
            return losses
        own = self.measured.base(rows)[:, None]
        hidden = np.maximum(losses - self.cap, 0.0) - np.maximum(own - self.cap, 0.0)
        return np.hstack([losses, self.looks.excess(hidden, 0.0, self.cap)])


@dataclass(frozen=True)
class Moved:
    """Per record and donor: the squares of capped increases of the loss, in units of the square of the cap."""

    measured: Measured
    groups: tuple[tuple[str, ...], ...]
    cap: float

    def __call__(self, rows: Rows, donors: Rows) -> np.ndarray:
        shuffled, own = self.measured.shuffled(rows, donors, self.groups), self.measured.base(rows)[:, None]
        return ((np.minimum(shuffled, self.cap) - np.minimum(own, self.cap)) / self.cap) ** 2


@dataclass(frozen=True)
class MeanLosses(Shuffling):
    """Releases the permuted losses over pairs beside the base loss over records."""

    @staticmethod
    def pairing(public: Public, repeats: int) -> Pairs:
        return Pairs(repeats)

    @property
    def outside(self) -> float:
        # As many as the noise of a sum is worth: their excess is then a bias of about the same size.
        return self.public.mechanism(self.query(self.measured.loss.top / 2)).law.std / UNITS

    def strangers(self, parts: np.ndarray) -> Strangers:
        return Strangers(self.measured, tuple(parts))

    def looks(self, cap: float) -> Looks:
        # With few records many are above a cap, and much of what it hides is far above.
        look = Look.beyond(cap, self.measured.loss.top, self.reach(cap, 1 if self.plenty > PLENTY else 3))
        return Looks(look, look)

    def span(self, cap: float) -> tuple[float, float]:
        return -cap, cap

    def widest_chance(self, cap: float) -> float:
        # Given a record, only its shuffled loss is left to chance, which lies between nothing and the cap.
        return cap / 2

    def noise_unit(self, cap: float) -> float:
        return cap / 2

    def moves(self, cap: float) -> Sum:
        # The squares of a record without a target are NaN: nothing in a box that is centred.
        box = Box(len(self.groups), 0.0, 1.0)
        return Sum(Moved(self.measured, self.groups, cap), box, over=Pairs(), columns=self.columns, conditions=self.target)

    def query(self, cap: float) -> Joint:
        # The losses of a record without a target are NaN: nothing in a box that is centred.
        looks = self.looks(cap)
        permuted = Box(len(self.groups) + looks.sides, 0.0, cap)
        base = Box(1, 0.0, cap, count=self.count, weight=BASE_WEIGHT)
        own: BaseLoss | CountedLoss = BaseLoss(self.measured)
        if self.target:
            own, base = CountedLoss(self.measured), self.public.counted_box(1, 0.0, cap, weight=BASE_WEIGHT)
        shuffled, columns = ShuffledLosses(self.measured, self.groups, cap, looks), self.columns
        return Joint(
            [
                Sum(shuffled, permuted, over=self.over, columns=columns, conditions=self.target),
                Sum(own, base, columns=columns, conditions=self.target),
            ]
        )

    def importance(self, answer: Answer, cap: float, moved: Answer | None = None) -> Importance:
        base, size = answer.part(1).mean(), len(self.groups)
        found = cap / 2 * (1 + answer.part(0).numbers / max(base.count, 1.0))
        permuted, (hidden, worth) = found[:size], self.looks(cap).told(found[size:], 0.0, cap)
        return Importance(
            features=self.features,
            values=permuted - base.values[0],
            permuted=permuted,
            base=float(base.values[0]),
            loss=self.measured.loss.name,
            low=0.0,
            cap=cap,
            law=answer.noise,
            weight=BASE_WEIGHT,
            count=base.count,
            noisy_count=base.noisy_count,
            hidden=hidden,
            hidden_worth=worth,
            chance=self.chance(moved, cap, base.count),
            uncounted=self.uncounted(answer.part(1)),
        )

    def error(self, noise: NoiseLaw, cap: float, rows: int) -> tuple[float, float]:
        law = noise.times(cap / 2 / rows)
        own, base = law.pairs(10_000).T
        return float(np.quantile(np.abs(own - base / BASE_WEIGHT), 0.95)), law.gap(0.95)
