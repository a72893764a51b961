"""What one person loses, and a filter that stops counting people before they lose too much.

Under Gaussian noise of variance σ² on a sum, a person who contributes the vector v loses ‖v‖²/2σ² of zCDP (Rényi: α times
that at order α), whatever everybody else contributes. Adding that up per person instead of for the worst conceivable person lets
many more questions be answered, as long as each person is left out of a question that would take them over the limit. The
running totals and the set of people still counted depend on the data: they never leave the process.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from ..errors import PlanError
from ..mechanisms.amounts import delta_of_rho, epsilon_of_rho


@dataclass(frozen=True)
class IndividualLoss:
    """The loss of one person from Gaussian releases, under add-remove; `rho` is in zCDP."""

    rho: float

    def renyi(self, alpha: float) -> float:
        """Rényi divergence of order α, which is α·ρ."""
        if not alpha > 1:
            raise PlanError(f"alpha={alpha!r}: Rényi orders are above 1.")
        return alpha * self.rho

    def epsilon(self, delta: float) -> float:
        """The ε of this person at δ."""
        return float(epsilon_of_rho(Fraction(self.rho), delta)) if self.rho else 0.0

    def delta(self, epsilon: float) -> float:
        """The δ of this person at ε."""
        return float(delta_of_rho(self.rho, epsilon)) if self.rho else 0.0

    def __add__(self, other: IndividualLoss) -> IndividualLoss:
        return IndividualLoss(self.rho + other.rho)


def individual_loss(contribution: float | Sequence[float] | np.ndarray, sigma: float) -> IndividualLoss:
    """The loss of a person who contributes this number or vector to a sum with noise of standard deviation σ.

    Claim: individual-loss

    >>> individual_loss([3.0, 4.0], sigma=10.0).rho
    0.125
    """
    if not (math.isfinite(sigma) and sigma > 0):
        raise PlanError(f"sigma={sigma!r}: give the positive standard deviation of the noise.")
    values = np.ravel(np.asarray(contribution, dtype=float)).tolist()
    if not all(math.isfinite(v) for v in values):
        raise PlanError("a contribution must be made of finite numbers.")
    exact = sum((Fraction(v) ** 2 for v in values), Fraction(0)) / (2 * Fraction(sigma) ** 2)
    return IndividualLoss(_rounded_up(exact))


def _rounded_up(value: Fraction) -> float:
    """A float not below a fraction, the nearest one or the next."""
    try:
        nearest = float(value)
    except OverflowError:
        return math.inf
    return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)


class IndividualFilter:
    """One ρ account per person: a person is left out of every question they can no longer afford. Claim: individual-filter

    `admit` is given the squared length of everybody's contribution (whole grid units) and the scale of the noise in the same
    units, both fixed before the noise is drawn; it returns who may contribute and charges them. The scales must not depend on
    data, other than through answers already released. Valid for add-remove only. Nothing of its state may be shown.

    With `for_good`, a person who cannot afford a question is left out of all later ones too. Then a copy of the filter that
    counts too much leaves people out earlier and never later, so that several copies of one filter may answer in turn.
    """

    UNITS = 1 << 50
    """The account of one person in whole units, so that charges add up without rounding."""

    __slots__ = ("_budget", "_for_good", "_spent")

    def __init__(self, rho: Fraction | float, people: int, for_good: bool = False):
        budget = Fraction(rho)
        if budget <= 0 or people < 0:
            raise PlanError(f"IndividualFilter(rho={rho!r}, people={people!r}): needs a positive ρ.")
        self._budget = budget
        self._for_good = for_good
        self._spent = np.zeros(people, dtype=np.int64)

    @property
    def rho(self) -> Fraction:
        """The guarantee of everybody: no person loses more than this."""
        return self._budget

    def admit(self, squared_lengths: Any, scale: Fraction | float) -> np.ndarray:
        """Who may contribute to a question with this scale of noise; they are charged for it."""
        if not 0 < scale < math.inf:
            raise PlanError(f"scale={scale!r}: the scale of the noise must be positive and finite.")
        squares = _floats_above(squared_lengths)
        if squares.shape != self._spent.shape:
            raise PlanError("admit() needs one squared length per person.")
        price = self._price(squares, Fraction(scale))
        admitted = price <= self.UNITS - self._spent
        self._spent += np.where(admitted, price, 0)
        if self._for_good:
            self._spent[~admitted] = self.UNITS
        return admitted

    def _price(self, squares: np.ndarray, scale: Fraction) -> np.ndarray:
        """Units per person, rounded up: ‖v‖²/2σ² as a part of the account."""
        factor = _rounded_up(self.UNITS / (2 * scale * scale * self._budget))
        with np.errstate(all="ignore"):
            price = np.ceil(np.nextafter(squares * factor, math.inf))
        # A length that is no number, negative or too large for the account is never admitted; nothing costs nothing.
        affordable = (squares >= 0) & (price <= self.UNITS)
        return np.where(squares == 0, 0, np.where(affordable, price, self.UNITS + 1)).astype(np.int64)

    def __repr__(self) -> str:
        return f"IndividualFilter(rho={float(self._budget):g})"

    def __reduce__(self) -> Any:
        raise TypeError("an IndividualFilter holds secrets and is not saved; it is computed again from released answers")


def _floats_above(lengths: Any) -> np.ndarray:
    """Floats not below the given numbers; what is no number, or beyond all floats, is infinite."""
    given = np.asarray(lengths)
    if given.dtype.kind == "f":
        return given.astype(float)
    if given.dtype.kind in "iub":
        return np.where(given == 0, 0.0, np.nextafter(given.astype(float), math.inf))
    whole = [_rounded_up(Fraction(v)) if isinstance(v, int | Fraction) else math.inf for v in given.ravel()]
    return np.array(whole, dtype=float).reshape(given.shape)
