"""Energies of noisy surfaces without the noise's own share, and what the noise does to their ratios.

A table S of mean predictions over the values of two features splits into a constant, one effect of each feature and a
remainder. Under weights that are a product the parts are orthogonal, so their energies (weighted mean squares) add up:
H² is the energy of the remainder over that of everything but the constant. Noise has energy too, known in advance from its
public law, and is taken off both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...mechanisms import NoiseLaw
from ...release.explanation import checked_level


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


def along(draws: np.ndarray, table: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """The component of each draw along the direction of a table."""
    length = np.sqrt(energy(table, first, second))
    if length <= 0:
        return np.zeros(len(draws))
    return np.einsum("a,nab,ab,b->n", first, draws, table / length, second)


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
        tail, seen = (1 - checked_level(level)) / 2, squares[:, None]
        lower, _ = self._edge(lambda h: (self.squares(h) >= seen).mean(axis=1) < tail)
        _, upper = self._edge(lambda h: (self.squares(h) <= seen).mean(axis=1) >= tail)
        # An energy within the noise of zero has no parts that could be told apart.
        blurred = self.base <= 3 * self.other.std(axis=1)
        return np.where(blurred, 0.0, lower), np.where(blurred, 1.0, upper)

    def _edge(self, below: Callable[[np.ndarray], np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """The h in [0, 1] up to which `below` holds, by halving: it lies between the two."""
        low, high = np.zeros(len(self.base)), np.ones(len(self.base))
        for _ in range(24):
            middle = (low + high) / 2
            yes = below(middle)
            low, high = np.where(yes, middle, low), np.where(yes, high, middle)
        return low, high
