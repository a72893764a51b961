"""What accumulated effects will be like: guessed from the model and public records, before anything is released.

How people fill the intervals decides about the errors and is not public. For numbers intervals are made so that they hold about
equally many; between categories, and between whole numbers of which there are few, steps are where they are. So previews take
people for somewhat uneven, as columns usually are, and say what may be in bad cases.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...mechanisms import NoiseLaw
from ...public.model import Model
from ...release.plan import Public
from . import accumulate
from .accumulate import DRAWS, Intervals
from .variation import MARGIN, public_curves

if TYPE_CHECKING:
    from .accumulated_effects import Along

SPREAD = 2.0
"""How far a category's mean step is taken to be from that of public records, in standard deviations of theirs."""
COMPARED = 256
"""The most categories whose steps are compared with those of public records."""
AWAY = 0.35
"""How far it is to be expected, as a part of that: bars allow for more."""
CUT = 0.5
"""What a clip is expected to cut off, in all, for each that the noise of the curve is worth."""
FURTHER = 2.0
"""Steps are taken to reach so many clips, at least."""


class Guess(NamedTuple):
    """What a preview takes people for."""

    uneven: float
    """The k-th most frequent value has k to the power of minus this as many people as the first."""
    clip: float
    """The clip, as a part of the largest step that people's are taken to have."""


CATEGORIES, FEW_VALUES, MANY_VALUES = Guess(1.25, 1.0), Guess(0.75, 0.8), Guess(0.0, 0.5)


@dataclass(frozen=True, eq=False)
class Foreseen:
    """Of each border along one feature."""

    bars: np.ndarray
    """Half-widths of 95 % error bars."""
    typical: np.ndarray
    """Root mean square errors."""
    at_most: np.ndarray
    """Half-widths in bad cases."""


def foreseen(public: Public, model: Model, along: Along, unit: NoiseLaw, count_law: NoiseLaw) -> Foreseen:
    """Errors along one feature, where a step that is clipped to one has noise of this law in its sum."""
    guess = CATEGORIES if along.categorical else FEW_VALUES if along.step_by_step else MANY_VALUES
    k = along.likely_intervals
    clip, effects = likely_steps(public, model, along, k, guess.clip)
    mass = likely_masses(k, public.planning_rows, guess.uneven, count_law.scale)
    one = Border.of(public, model, along, unit.times(clip), count_law, mass, effects)
    worth = k**0.5 if along.categorical else accumulate.noise_of_curve(mass, one.weights, one.asked)
    cut = CUT * one.law.std * worth if clip < model.range else 0.0
    noise, away, moved = one.noise(0.95), one.away(), cut * np.abs(one.reach @ (mass / mass.sum()))
    typical = np.sqrt((noise / 1.96) ** 2 + (AWAY * away) ** 2 + moved**2)
    bars = np.hypot(noise, 1.96 * away)
    if cut:
        bars = np.maximum(bars, one.beside(cut, FURTHER, 0.95))
    thin = likely_masses(k, public.planning_rows, None if along.categorical else guess.uneven, count_law.scale)
    worst = Border.of(public, model, along, unit.times(model.range), count_law, thin, effects)
    return Foreseen(bars, typical, np.maximum(bars, np.hypot(worst.noise(0.95), 1.96 * worst.away())))


@dataclass(frozen=True, eq=False)
class Border:
    """The errors of borders for people that were guessed."""

    law: NoiseLaw
    """The noise of a sum of steps."""
    mass: np.ndarray
    """People of the intervals, as far as their own steps are kept."""
    weights: np.ndarray
    asked: np.ndarray
    effects: np.ndarray
    count_std: float
    spread: np.ndarray
    """How far mean steps may be from those of public records, where these stand in for them."""

    @classmethod
    def of(
        cls, public: Public, model: Model, along: Along, law: NoiseLaw, count_law: NoiseLaw, mass: np.ndarray, effects: np.ndarray
    ) -> Border:
        k = len(mass)
        weights = np.full(k + 1, 1 / (k + 1))
        asked = combinations(public, mass, weights)
        like, spread = public_steps(public, model, along, accumulate.neighbour_intervals(np.ones(k + 1), 1.0))
        keep = np.ones(k)
        if like is not None and spread is not None:
            keep = accumulate.kept_part(like, spread, mass, asked, law.std, count_law.std)
        count_std = count_law.std * max(1.0, (len(along.grid) / k) ** 0.5)
        return cls(law, mass / keep, weights, asked, effects, count_std, np.zeros(k) if spread is None else (1 - keep) * spread)

    @property
    def reach(self) -> np.ndarray:
        """What turns sums of steps into the curve."""
        return accumulate.curve_of_sums(self.mass, self.weights)

    def noise(self, level: float) -> np.ndarray:
        """Half-widths from the noise of sums and counts."""
        return np.quantile(np.abs(self._drawn()[0]), level, axis=0)

    def away(self) -> np.ndarray:
        """How far the curve may be from that of people where public records stand in for them."""
        return np.sqrt(((accumulate.curve_of_sums(np.ones(len(self.mass)), self.weights) * self.spread) ** 2).sum(axis=1))

    def beside(self, cut: float, per_count: float, level: float) -> np.ndarray:
        """Half-widths with what was cut off, which is counted with noise and taken to lie where it does most harm."""
        drawn, extra = self._drawn()
        moves = np.maximum(cut + extra * per_count, 0.0)[:, None] * np.abs(self.reach).max(axis=1)
        return np.maximum(np.quantile(drawn + moves, level, axis=0), np.quantile(moves - drawn, level, axis=0))

    def _drawn(self) -> tuple[np.ndarray, np.ndarray]:
        """Copies of the error of the curve, and of the noise of one sum more."""
        k = len(self.mass)
        drawn = NoiseLaw(self.law.kind, self.law.scale, max(self.law.size, k + 1)).draws(DRAWS, seed=1)
        counts = NoiseLaw("gaussian", self.count_std, k).draws(DRAWS, seed=2)
        sums = drawn[:, :k] @ np.linalg.inv(self.asked).T - self.effects * counts
        return sums @ self.reach.T, drawn[:, k]


def notes(kinds: set[bool], error: float, at_most: float) -> tuple[str, ...]:
    """What a preview of categories (True), of numbers (False) or of both rests on."""
    filled = " and ".join(
        ["about equally filled intervals"] * (False in kinds)
        + ["categories of which the second has two fifths of the people of the first, the third a quarter and so on"]
        * (True in kinds)
    )
    told = [f"assumes {filled}, and steps and a clip like those of public records"]
    if True in kinds:
        told.append(
            "how people fill categories is not public: of ten columns about eight err between a third of what is expected and "
            "three times that"
        )
    if at_most > 1.05 * error:
        told.append(
            f"in bad cases about ±{at_most:.2g}: if people's steps are as large as the model's range allows, as those "
            "of a model that has learnt its records by heart are, or if few people are behind a step; that is no limit: of four "
            "numeric columns about one has longer bars in more than one release of twenty"
        )
    return tuple(told)


def largest_step(public: Public, model: Model, along: Along, intervals: Intervals) -> float:
    """A step that people's are taken not to exceed: somewhat larger than any of public records, and at most the range."""
    if public.strict or len(intervals) > COMPARED:
        return model.range
    curves = public_curves(model, public.schema, along.name, along.grid[intervals.edges])
    return model.range * min(1.0, MARGIN * max(float(np.abs(np.diff(curves, axis=1)).max()), 0.01))


def public_steps(
    public: Public, model: Model, along: Along, intervals: Intervals
) -> tuple[np.ndarray, np.ndarray] | tuple[None, None]:
    """(mean steps of public records from category to category, how far those of people may be from them)."""
    if public.strict or not along.categorical or len(intervals) > COMPARED:
        return None, None
    steps = model.range * np.diff(public_curves(model, public.schema, along.name, along.grid[intervals.edges]), axis=1)
    each = steps.std(axis=0)
    return steps.mean(axis=0), np.maximum(SPREAD * np.maximum(each, each.mean() / 4), model.range / 200)


def likely_steps(public: Public, model: Model, along: Along, intervals: int, part: float) -> tuple[float, np.ndarray]:
    """(a clip, mean steps): those of public records over evenly spaced borders, the clip a part of the largest."""
    if public.strict:
        return model.range * (1.0 if along.categorical else min(1.0, 4 / intervals)), np.zeros(intervals)
    borders = along.grid[np.rint(np.linspace(0, len(along.grid) - 1, intervals + 1)).astype(int)]
    steps = np.diff(public_curves(model, public.schema, along.name, borders), axis=1)
    most = min(1.0, MARGIN * max(float(np.abs(steps).max()), 0.01))
    # Clips of categories reach up to the range, and people's steps are often larger than those of public records.
    return model.range * part * (most**0.5 if along.categorical else most), model.range * steps.mean(axis=0)


def likely_masses(intervals: int, rows: float, uneven: float | None, noise: float) -> np.ndarray:
    """People of the intervals, in no order that anybody knows; None: each has a third of the people of the one before."""
    order = np.arange(1.0, intervals + 2)
    mass = 3.0**-order if uneven is None else order**-uneven
    mixed = np.argsort(order * 0.618034 % 1)
    return np.maximum((rows * mass / mass.sum())[mixed][:intervals], max(noise, 1.0))


def combinations(public: Public, mass: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Under Gaussian noise a factorisation of the accumulation is the better question; under Laplace it is not."""
    return accumulate.factorisation(mass, weights) if public.spend.currency == "rho" else np.eye(len(mass))
