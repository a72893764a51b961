"""Interactions between features: energies of noisy surfaces without the noise's own share, and honest error bars.

A table S of mean predictions over the values of two features splits into a constant, one effect of each feature and a
remainder. Under weights that are a product the parts are orthogonal, so their energies (weighted mean squares) add up:
H² is the energy of the remainder over that of everything but the constant. Noise has energy too, known in advance from its
public law, and is taken off both.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from ...errors import PlanError
from ...mechanisms import NoiseLaw
from ...release.explanation import Explanation
from ..common import plots

DRAWS = 2000


def remainder(table: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """What is left of a table (or of many, one after the other) after its weighted row and column means are taken off."""
    table = table - np.tensordot(table, second, axes=1)[..., None]
    return table - np.einsum("a,...ab->...b", first, table)[..., None, :]


def centred(table: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    return table - np.einsum("a,...ab,b->...", first, table, second)[..., None, None]


def energy(table: np.ndarray, first: np.ndarray, second: np.ndarray) -> Any:
    return np.einsum("a,...ab,b->...", first, table**2, second)


def noise_energies(first: np.ndarray, second: np.ndarray) -> tuple[float, float]:
    """The energies that noise of variance one has in the remainder and in the centred table."""
    a, b = float(first @ first), float(second @ second)
    return (1 - a) * (1 - b), 1 - a * b


def debiased(table: np.ndarray, first: np.ndarray, second: np.ndarray, variance: float) -> tuple[float, float, float]:
    """(energy of the remainder, energy of the centred table, least believable value of the latter), noise taken off."""
    of_remainder, of_all = noise_energies(first, second)
    rest = float(energy(remainder(table, first, second), first, second)) - variance * of_remainder
    whole = float(energy(centred(table, first, second), first, second)) - variance * of_all
    # Below the energy of the noise itself nothing can be told: dividing by less would only make the noise louder.
    return rest, whole, max(variance * of_all, 1e-300)


@dataclass(frozen=True, eq=False)
class Simulated:
    """How the noise of the public law would move H², for each feature (rows) and draw (columns).

    With a true remainder of length t the released one has energy t² + t·cross + own, and the energy it is divided by is
    base + other, plus the former where the remainder is a part of it (`inside`).
    """

    cross: np.ndarray
    own: np.ndarray
    base: np.ndarray
    other: np.ndarray
    least: np.ndarray
    inside: bool

    def squares(self, h: np.ndarray) -> np.ndarray:
        """Draws of the released H² when the true H is h."""
        odds = h**2 / np.maximum(1 - h**2, 1e-12) if self.inside else h**2
        t = np.sqrt(self.base * odds)[:, None]
        rest = t**2 + t * self.cross
        whole = self.base[:, None] + self.other + (rest if self.inside else 0.0)
        return (rest + self.own) / np.maximum(whole, self.least[:, None])

    def interval(self, squares: np.ndarray, level: float) -> tuple[np.ndarray, np.ndarray]:
        """All h under which the released H² is neither among the smallest nor the largest (1 − level)/2 of draws."""
        if not 0 < level < 1:
            raise PlanError(f"level={level!r}: give a probability between 0 and 1, for example 0.95.")
        tail, seen = (1 - level) / 2, squares[:, None]
        lower = self._edge(lambda h: (self.squares(h) >= seen).mean(axis=1) < tail)
        upper = self._edge(lambda h: (self.squares(h) <= seen).mean(axis=1) >= tail)
        # An energy within the noise of zero has no parts that could be told apart.
        blurred = self.base <= 3 * self.other.std(axis=1)
        return np.where(blurred, 0.0, lower), np.where(blurred, 1.0, upper)

    def _edge(self, below: Any) -> np.ndarray:
        """The h in [0, 1] up to which `below` holds, by halving."""
        low, high = np.zeros(len(self.base)), np.ones(len(self.base))
        for _ in range(24):
            middle = (low + high) / 2
            yes = below(middle)
            low, high = np.where(yes, middle, low), np.where(yes, high, middle)
        return high


@dataclass(frozen=True, eq=False, kw_only=True)
class Interactions(Explanation):
    """Strength of interactions: `.features`, `.values` (H in [0, 1]) and `.ranking` (the most interacting first).

    `squares` are the H² behind the values as estimated, without the noise's own share and not clipped: an estimate of nothing
    is as often below zero as above.
    """

    features: tuple[str, ...]
    values: np.ndarray
    squares: np.ndarray
    aggregate: ClassVar[str] = "H"

    @property
    def ranking(self) -> tuple[str, ...]:
        return tuple(self.features[i] for i in np.argsort(-self.squares, kind="stable"))

    @abstractmethod
    def simulated(self) -> Simulated:
        """What the noise does to the released H²."""

    def interval(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """(lower, upper) of each H without noise, on the same rounded values and weights."""
        lower, upper = self.simulated().interval(self.squares, level)
        return np.minimum(lower, self.values), np.maximum(upper, self.values)

    def to_frame(self) -> pd.DataFrame:
        lower, upper = self.interval()
        return pd.DataFrame(
            {"feature": list(self.features), "H": self.values, "lower": lower, "upper": upper, "squared": self.squares}
        )

    def plot(self, ax: Any = None) -> Any:
        ax = plots.estimates(self, ax)
        ax.set_xlim(0, 1)
        ax.set_xlabel(self.xlabel)
        return ax

    @property
    @abstractmethod
    def xlabel(self) -> str:
        """What the values are, in words."""


@dataclass(frozen=True, eq=False, kw_only=True)
class PairInteractions(Interactions):
    """H of one feature with each other one.

    `surface` holds the released mean predictions, other feature after other feature, on the rounded values `grids`; `weights`
    the released shares of these values, those of `feature` first. `surfaces[name]` is one table.
    """

    kind: ClassVar[str] = "pair interactions"
    feature: str
    grids: dict[str, tuple[Any, ...]]
    weights: np.ndarray
    surface: np.ndarray
    law: NoiseLaw

    @property
    def xlabel(self) -> str:
        return f"H of {self.feature} with"

    @property
    def shares(self) -> dict[str, np.ndarray]:
        """The released weights of the rounded values, by feature."""
        ends = np.cumsum([len(grid) for grid in self.grids.values()])[:-1]
        return dict(zip(self.grids, np.split(self.weights, ends)))

    def _tables(self, flat: np.ndarray) -> dict[str, np.ndarray]:
        rows, tables, start = len(self.grids[self.feature]), {}, 0
        for name in self.features:
            size = rows * len(self.grids[name])
            tables[name] = flat[..., start : start + size].reshape(*flat.shape[:-1], rows, -1)
            start += size
        return tables

    @property
    def surfaces(self) -> dict[str, np.ndarray]:
        """The released table of mean predictions for each other feature: values of `feature` down, of the other across."""
        return self._tables(self.surface)

    def simulated(self) -> Simulated:
        shares, noise = self.shares, self._tables(self.law.draws(DRAWS))
        first, variance = shares[self.feature], self.law.std**2
        parts = []
        for name, table in self.surfaces.items():
            second = shares[name]
            rest, whole, least = debiased(table, first, second, variance)
            of_remainder, of_all = noise_energies(first, second)
            draws, left, all_of_it = noise[name], remainder(table, first, second), centred(table, first, second)
            base = max(whole - rest, least)
            along = _along(draws, left, first, second)
            cost = energy(remainder(draws, first, second), first, second) - variance * of_remainder
            other = energy(centred(draws, first, second), first, second) - variance * of_all
            main = 2 * np.sqrt(base) * _along(draws, all_of_it - left, first, second)
            parts.append((2 * along, cost, base, other + main, least))
        columns = [np.array(column) for column in zip(*parts)]
        return Simulated(columns[0], columns[1], columns[2], columns[3], columns[4], inside=True)


def _along(draws: np.ndarray, table: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """The component of each draw along the direction of a table."""
    length = np.sqrt(energy(table, first, second))
    if length <= 0:
        return np.zeros(len(draws))
    return np.einsum("a,nab,ab,b->n", first, draws, table / length, second)


@dataclass(frozen=True, eq=False, kw_only=True)
class OverallInteractions(Interactions):
    """H of each feature with all others together.

    `curves` are the released mean predictions on the rounded values `grids`, feature after feature, then the plain mean and,
    for each feature, the mean size of what it does to a record, counted from the lower end of the range; `weights` are the
    released shares of the values. `means` are the mean squared remainders in units of `caps`², the largest one a record may
    have (larger ones were cut, which the intervals do not include), and last the mean squared deviation of the predictions
    in units of `most`².
    """

    kind: ClassVar[str] = "overall interactions"
    grids: dict[str, tuple[Any, ...]]
    weights: np.ndarray
    curves: np.ndarray
    curve_law: NoiseLaw
    curve_count: float
    means: np.ndarray
    mean_law: NoiseLaw
    mean_count: float
    noisy_count: bool
    output: tuple[float, float]
    caps: np.ndarray
    most: float

    @property
    def xlabel(self) -> str:
        return "H with all other features"

    def parts(self) -> list[slice]:
        """Where the curve of each feature is."""
        ends = np.cumsum([0] + [len(grid) for grid in self.grids.values()])
        return [slice(a, b) for a, b in zip(ends[:-1], ends[1:])]

    def simulated(self) -> Simulated:
        lo, hi = self.output
        noise = mean_noise(
            self.curves - (lo + hi) / 2, self.curve_law.draws(DRAWS), (hi - lo) / 2, self.curve_count, self.noisy_count
        )
        final = mean_noise(self.means - 0.5, self.mean_law.draws(DRAWS, seed=1), 0.5, self.mean_count, self.noisy_count)
        cross, own = [], []
        for i, part in enumerate(self.parts()):
            weights, moved = self.weights[part], shift_of_remainder(noise[:, part], self.weights[part])
            # How remainders lean along the feature is not released. Leaning wholly on its commonest value is the worst case.
            common = int(np.argmax(weights))
            cross.append(2 * np.sqrt(weights[common]) * noise[:, part][:, common])
            spread = moved**2 @ weights
            own.append(spread - spread.mean() + self.caps[i] ** 2 * final[:, i])
        count = len(self.features)
        base = np.full(count, max(self.means[-1] * self.most**2, 0.0))
        other = np.broadcast_to(self.most**2 * final[:, count], (count, DRAWS))
        least = np.full(count, least_variance(self.mean_law, self.mean_count, self.most))
        return Simulated(np.array(cross), np.array(own), np.maximum(base, least), other, least, inside=False)


def mean_noise(values: np.ndarray, draws: np.ndarray, radius: float, count: float, noisy_count: bool) -> np.ndarray:
    """Draws of the noise of means, from draws of the noise of their sums; the last coordinate is the count where it is noisy."""
    sums = radius * draws[:, : len(values)]
    if noisy_count:
        sums = sums - values * draws[:, -1:]
    return sums / max(count, 1.0)


def shift_of_remainder(curve: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """What errors in a curve do to the remainders of the records at each of its values."""
    return (curve @ weights)[..., None] - curve


def shift_energy(curve: np.ndarray, weights: np.ndarray, law: NoiseLaw, radius: float, noisy_count: bool) -> float:
    """The expected energy of that shift; `law` is the noise of means in units of the radius."""
    expected = radius**2 * (1 - float(weights @ weights))
    if noisy_count:
        # The count's error scales the whole curve.
        expected += float(shift_of_remainder(curve, weights) ** 2 @ weights)
    return expected * law.std**2


def least_variance(law: NoiseLaw, count: float, most: float) -> float:
    """Below the noise in it nothing can be told from a variance."""
    return max(most**2 * 0.5 * law.std / max(count, 1.0), 1e-300)
