"""How a price is divided among explanations, so that each is as useful as the price allows: evenly useful, not evenly split."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

LEAST = 0.004
"""The smallest part of a price that is tried."""
TRIED = 9
"""Prices at which errors are looked up; between them, and below, they follow straight lines in logarithms."""
FINE = 400
"""Prices that are compared for each explanation."""
PARTS = 1000
"""Shares are whole parts of it: a second run finds the same ones, whatever floats do in their last digits."""


def tried(total: float) -> np.ndarray:
    """The prices at which errors are looked up."""
    return np.geomspace(LEAST * total, total, TRIED)


@dataclass(frozen=True, eq=False)
class Errors:
    """The relative error of one explanation by its price. Where it cannot be had for a price, it is infinite."""

    prices: np.ndarray
    relative: np.ndarray

    def at(self, price: np.ndarray | float) -> np.ndarray:
        known = np.isfinite(self.relative)
        if not known.any():
            return np.full(np.shape(price), np.inf)
        prices, relative = self.prices[known], np.minimum.accumulate(np.maximum(self.relative[known], 1e-12))
        found = np.exp(np.interp(np.log(price), np.log(prices), np.log(relative)))
        return np.where(np.asarray(price) < prices[0] * (1 - 1e-9), np.inf, found)


def divided(errors: Sequence[Errors], total: float) -> np.ndarray:
    """Prices that add up to the total, with the least sum of relative errors.

    At the best division a little more money would help all of them alike: each takes the price at which its error and so many
    errors a unit of money are least, and that rate is looked for at which all of them spend the total.
    """
    prices = np.geomspace(LEAST * total, total, FINE)
    table = np.stack([one.at(prices) for one in errors])
    least = np.array([prices[np.isfinite(row)][0] if np.isfinite(row).any() else np.inf for row in table])
    if least.sum() > total:
        return np.full(len(errors), total / len(errors))

    def at_rate(rate: float) -> np.ndarray:
        return prices[np.argmin(table + rate * prices, axis=1)]

    low, high = 1e-9 / total, 1e9 / total
    for _ in range(80):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if at_rate(middle).sum() > total else (low, middle)
    found = at_rate(high)
    found = found if found.sum() <= total else least
    return found * total / found.sum()


def in_parts(prices: np.ndarray) -> list[Fraction]:
    """Prices as shares in whole parts of a thousand, none above its price but those that get what rounding leaves."""
    exact = prices / prices.sum() * PARTS
    whole = np.maximum(np.floor(exact + 1e-6), 1).astype(int)
    # What is left goes to those that lost most by rounding; what is too much comes from the largest.
    for i in np.argsort(whole - exact, kind="stable")[: max(PARTS - whole.sum(), 0)]:
        whole[i] += 1
    while whole.sum() > PARTS:
        whole[np.argmax(whole)] -= 1
    return [Fraction(int(part), PARTS) for part in whole]
