"""The mean loss as it is and with each group of features shuffled, by one draw of noise: importances are their differences."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ...mechanisms import NoiseLaw
from ...public.rows import Rows
from ...query import Joint, Pairs, Sum
from ...query.bounds import Box
from ...release.answer import Answer
from ...release.plan import Public
from .results import Importance
from .shuffling import Measured, Shuffling, Strangers

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
    """Per record and donor: the losses when each group of features comes from the donor."""

    measured: Measured
    groups: tuple[tuple[str, ...], ...]

    def __call__(self, rows: Rows, donors: Rows) -> np.ndarray:
        return self.measured.shuffled(rows, donors, self.groups)


@dataclass(frozen=True)
class MeanLosses(Shuffling):
    """Releases the permuted losses over pairs beside the base loss over records."""

    @staticmethod
    def pairing(public: Public, repeats: int) -> Pairs:
        return Pairs(repeats)

    @staticmethod
    def stretch(plenty: float) -> float:
        return max(1.0, math.sqrt(plenty / 850))

    @property
    def strangers(self) -> Strangers:
        return Strangers(self.measured)

    def query(self, cap: float) -> Joint:
        # The losses of a record without a target are NaN: nothing in a box that is centred.
        permuted, base = Box(len(self.groups), 0.0, cap), Box(1, 0.0, cap, count=self.count, weight=BASE_WEIGHT)
        own: BaseLoss | CountedLoss = BaseLoss(self.measured)
        if self.target:
            own, base = CountedLoss(self.measured), self.public.counted_box(1, 0.0, cap, weight=BASE_WEIGHT)
        shuffled, columns = ShuffledLosses(self.measured, self.groups), self.columns
        return Joint(
            [
                Sum(shuffled, permuted, over=self.over, columns=columns, conditions=self.target),
                Sum(own, base, columns=columns, conditions=self.target),
            ]
        )

    def importance(self, answer: Answer, cap: float) -> Importance:
        base = answer.part(1).mean()
        permuted = cap / 2 * (1 + answer.part(0).numbers / max(base.count, 1.0))
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
            uncounted=self.uncounted(answer.part(1)),
        )

    def error(self, noise: NoiseLaw, cap: float, rows: int) -> tuple[float, float]:
        law = noise.times(cap / 2 / rows)
        own, base = law.pairs(10_000).T
        return float(np.quantile(np.abs(own - base / BASE_WEIGHT), 0.95)), law.gap(0.95)
