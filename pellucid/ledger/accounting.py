"""Budgets and amounts in the words of the user."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from ..errors import PlanError
from ..mechanisms import RESOLUTION, Currency, Spend, epsilon_of_rho, exact, rho_of_epsilon_delta
from ..public.frozen import settle

TINIEST_DELTA = Fraction(1, 10**300)
"""Below it a float holds only some of its digits, and a ρ could imply a larger δ than was declared."""


@dataclass(frozen=True)
class Budget:
    """How much may ever be learned about anyone in one private object.

    With delta=0 the account counts pure ε. With delta > 0 it counts zCDP ρ, the largest ρ that implies (ε, δ).

    >>> Budget(epsilon=2.0).currency, Budget(epsilon=2.0, delta=1e-6).currency
    ('epsilon', 'rho')
    """

    epsilon: float
    """The largest ε that all releases together may reach."""
    delta: float = 0.0
    """The probability with which the bound on ε may fail, 0 for a bound that always holds."""

    def __post_init__(self) -> None:
        epsilon, delta = exact("epsilon", self.epsilon), exact("delta", self.delta)
        if not 0 < epsilon <= 1000:
            raise PlanError(
                f"Budget(epsilon={self.epsilon!r}): epsilon must be positive (and at most 1000; 1 is a common choice)."
            )
        if not 0 <= delta < 1:
            raise PlanError(f"Budget(delta={self.delta!r}): delta must be at least 0 and below 1, for example 1e-6.")
        if 0 < delta < TINIEST_DELTA:
            raise PlanError(f"Budget(delta={self.delta!r}): floats end here; use 0 for pure ε, or for example 1e-6.")
        settle(self, epsilon=float(self.epsilon), delta=float(self.delta))

    @property
    def currency(self) -> Currency:
        return "rho" if self.delta > 0 else "epsilon"

    @property
    def amount(self) -> Fraction:
        if self.currency == "epsilon":
            return exact("epsilon", self.epsilon)
        return rho_of_epsilon_delta(exact("epsilon", self.epsilon), exact("delta", self.delta))

    def price(self, epsilon: Any = None, rho: Any = None, share: Any = None, whole: Fraction | None = None) -> Spend:
        """What a request costs in this account: exactly one of epsilon, rho, share (of `whole`, or of this budget)."""
        given = [name for name, value in (("epsilon", epsilon), ("rho", rho), ("share", share)) if value is not None]
        if len(given) != 1:
            got = " and ".join(given) or "none of them"
            raise PlanError(f"say what the release may cost with exactly one of epsilon=, rho= or share=; got {got}.")
        name, value = given[0], exact(given[0], {"epsilon": epsilon, "rho": rho, "share": share}[given[0]])
        if value > 10**6:
            raise PlanError(f"{name} is far too large; an ε above 10 is hardly private at all.")
        if value <= 0:
            raise PlanError(f"{name}={float(value):g}: a release costs something; give a positive number.")
        if name == "share" and value > 1:
            raise PlanError(f"share={float(value):g}: at most 1, the whole account.")
        if name == "rho" and self.currency == "epsilon":
            raise PlanError("rho= needs a zCDP account; open the session with a budget that has delta > 0, or use epsilon=.")
        if name == "share":
            amount = value * (self.amount if whole is None else whole)
        elif name == "epsilon" and self.currency == "rho":
            amount = rho_of_epsilon_delta(value, exact("delta", self.delta))
        else:
            amount = value
        # The ledger counts in units of 1e-12. Rounding the price down, and calibrating to the rounded price, lets three thirds
        # fill an account; rounding charges up afterwards would not.
        units = math.floor(amount * RESOLUTION)
        if units < 1000:
            raise PlanError(f"{name}={float(value):g} is too small to pay for anything; an ε below 1e-3 is rarely useful.")
        return Spend(self.currency, Fraction(units, RESOLUTION))

    def guarantee(self, spend: Spend) -> tuple[float, float, float | None]:
        """(ε, δ, ρ) that an amount stands for."""
        if spend.currency == "epsilon":
            return float(spend.amount), 0.0, None
        return epsilon_of_rho(spend.amount, self.delta), self.delta, float(spend.amount)


class Amount(float):
    """An amount of budget: a float in the currency of the account, with its meaning attached."""

    currency: Currency
    """What the float counts: ε or ρ."""
    epsilon: float
    """The ε that this amount stands for, at `delta`."""
    delta: float
    """The δ of the account's budget; 0 in an ε account."""
    rho: float | None
    """The amount in zCDP; None in an ε account."""

    @classmethod
    def of(cls, budget: Budget, amount: Fraction) -> Amount:
        made = cls(float(amount))
        made.currency = budget.currency
        made.epsilon, made.delta, made.rho = budget.guarantee(Spend(budget.currency, amount))
        return made

    def __repr__(self) -> str:
        if self.rho is None:
            return f"ε = {self.epsilon:.6g}"
        return f"ρ = {self.rho:.6g} (ε = {self.epsilon:.4g} at δ = {self.delta:g})"

    __str__ = __repr__
