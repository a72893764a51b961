"""The mean increase of the loss when each group of features is exchanged: all that an order needs, and far more certain."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ...mechanisms import NoiseLaw
from ...public.rows import Rows
from ...query import Couples, Joint, Pairs, Sum
from ...query.bounds import Box, CountedBox
from ...release.answer import Answer
from ...release.plan import Public
from ..common.caps import Look
from .results import Importance
from .shuffling import NOWHERE, Looks, Measured, Shuffling, Strangers, mean_of_two

FALL = 0.25
"""An increase of the loss is clipped at the cap, a decrease at this part of it: shuffling rarely helps anybody much."""


@dataclass(frozen=True)
class Increases:
    """Per record and donor, or with `both` per couple: how much the loss grows when each group of features is exchanged."""

    measured: Measured
    groups: tuple[tuple[str, ...], ...]
    both: bool
    cap: float
    looks: Looks = NOWHERE
    squared: bool = False
    """Instead: the squares of capped increases, in units of the square of the cap."""

    def __call__(self, rows: Rows, others: Rows) -> np.ndarray:
        found = self._of(rows, others)
        if self.both:
            found = mean_of_two(found, self._of(others, rows))
        low = -FALL * self.cap
        clipped = np.clip(found, low, self.cap)
        if self.squared:
            return (clipped / self.cap) ** 2
        return np.hstack([found, self.looks.excess(found - clipped, low, self.cap)]) if self.looks.sides else found

    def _of(self, rows: Rows, donors: Rows) -> np.ndarray:
        return self.measured.shuffled(rows, donors, self.groups) - self.measured.base(rows)[:, None]


@dataclass(frozen=True)
class CountedIncreases(Increases):
    """The same beside how much of the record, or of the couple, counts: of a couple one may have no target."""

    def __call__(self, rows: Rows, others: Rows) -> tuple[np.ndarray, np.ndarray]:  # type: ignore[override]
        who = (rows, others) if self.both else (rows,)
        known = [~np.isnan(self.measured.truth(some)) for some in who]
        return np.mean(known, axis=0), super().__call__(rows, others)


@dataclass(frozen=True)
class MeanIncreases(Shuffling):
    """Releases the increases, over couples where that is allowed."""

    @staticmethod
    def pairing(public: Public, repeats: int) -> Pairs | Couples:
        """Couples where one person is in one of them; else a cyclic order, which is right for both relations and for people."""
        return Pairs(repeats) if public.count_needed or public.unit.column is not None else Couples(repeats)

    @property
    def outside(self) -> float:
        # Small importances have to be told apart too, for which little noise is worth some bias of the large ones.
        return 0.1 * self.many

    @property
    def stretch(self) -> float:
        return float(self.plenty ** (1 / 3) / 13)

    @property
    def _couples(self) -> bool:
        return isinstance(self.over, Couples)

    def strangers(self, parts: np.ndarray) -> Strangers:
        return Strangers(self.measured, tuple(parts), increase=True, both=self._couples)

    def looks(self, cap: float) -> Looks:
        top = self.measured.loss.top
        # Caps are low here, so it is looked further than one cap beyond them.
        return Looks(Look.beyond(cap, top, self.reach(cap, 3)), Look.beyond(FALL * cap, top, self.reach(cap, 1)))

    def span(self, cap: float) -> tuple[float, float]:
        return -FALL * cap, cap

    def noise_unit(self, cap: float) -> float:
        return (1 + FALL) * cap / 2

    def moves(self, cap: float) -> Sum:
        squares = (CountedIncreases if self.target else Increases)(self.measured, self.groups, self._couples, cap, squared=True)
        box = CountedBox(len(self.groups), 0.0, 1.0) if self.target else Box(len(self.groups), 0.0, 1.0)
        return Sum(squares, box, over=type(self.over)(), columns=self.columns, conditions=self.target)

    def query(self, cap: float) -> Joint:
        looks, low, kind = self.looks(cap), -FALL * cap, CountedIncreases if self.target else Increases
        size = len(self.groups) + looks.sides
        box = self.public.counted_box(size, low, cap) if self.target else Box(size, low, cap, count=self.count)
        grown = kind(self.measured, self.groups, self._couples, cap, looks)
        return Joint([Sum(grown, box, over=self.over, columns=self.columns, conditions=self.target)])

    def importance(self, answer: Answer, cap: float, moved: Answer | None = None) -> Importance:
        # A couple contributes once, so the mean is over half as many.
        rows = answer.rows // 2 if self._couples and answer.rows else answer.rows
        part, size, low = replace(answer.part(0), rows=rows), len(self.groups), -FALL * cap
        mean, uncounted = part.mean(), self.uncounted(part)
        hidden, worth = self.looks(cap).told(mean.values[size:], low, cap)
        return Importance(
            features=self.features,
            values=mean.values[:size],
            permuted=None,
            base=None,
            loss=self.measured.loss.name,
            low=low,
            cap=cap,
            law=answer.noise,
            weight=1,
            count=mean.count,
            noisy_count=mean.noisy_count,
            hidden=hidden,
            hidden_worth=worth,
            chance=self.chance(moved, cap, mean.count),
            uncounted=uncounted.times(2) if uncounted and self._couples else uncounted,
        )

    def error(self, noise: NoiseLaw, cap: float, rows: int) -> tuple[float, float]:
        law = noise.times((1 + FALL) * cap / 2 / max(rows // 2 if self._couples else rows, 1))
        width = law.half_width(0.95)
        if self.count:
            own, counted = law.pairs(10_000).T
            # The noise of the count acts on how far an importance is from the middle of the clip; most are near zero.
            width = float(np.quantile(np.abs(own + counted * (1 - FALL) / (1 + FALL)), 0.95))
        return width, law.gap(0.95)
