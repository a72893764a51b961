"""Budgets and amounts in the words of the user."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from ..errors import PlanError
from ..mechanisms import RESOLUTION, Currency, Spend, epsilon_of_rho, exact, order_of, rho_at_order, rho_of_epsilon_delta
from ..public.frozen import settle
from .values import budget_units

TINIEST_DELTA = Fraction(1, 10**300)
"""Below it a float holds only some of its digits, and a ρ could imply a larger δ than was declared."""


Accounting = Literal["pure", "zcdp", "either"]
Kind = Literal["pure", "zcdp"]

LEAST = 1000
"""The smallest price, in stored integers."""

CURRENCY: dict[str, Currency] = {"pure": "epsilon", "zcdp": "rho"}
"""What releases of a kind, and accounts that count one kind only, are charged in."""


@dataclass(frozen=True)
class Budget:
    """How much may ever be learned about anyone in one private object.

    With delta=0 the account counts pure ε. With delta > 0 it counts zCDP ρ, the largest ρ that implies (ε, δ), and a new one
    takes pure releases too, where they err less and nothing is lost by it. accounting="either" takes the kind that errs less in
    any case, accounting="zcdp" no pure ones. Accounts that exist count as they did.

    >>> Budget(epsilon=2.0).currency, Budget(epsilon=2.0, delta=1e-6).currency
    ('epsilon', 'rho')
    >>> Budget(epsilon=2.0, delta=1e-6, accounting="either").currency
    'either'
    """

    epsilon: float
    """The largest ε that all releases together may reach."""
    delta: float = 0.0
    """The probability with which the bound on ε may fail, 0 for a bound that always holds."""
    accounting: Accounting | None = None
    """How releases are counted: "pure", "zcdp" or "either". Without it, "pure" for delta=0; else as the account does, and in a
    new one either way, in favour of zCDP wherever the price is an ε."""

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
        possible = ("zcdp", "either") if delta else ("pure",)
        if self.accounting not in (None, "pure", "zcdp", "either"):
            raise PlanError(f"Budget(accounting={self.accounting!r}): use 'pure', 'zcdp' or 'either', or leave it out.")
        if self.accounting not in (None, *possible):
            fix = "leave delta out" if delta else "give delta above 0, for example 1e-6"
            raise PlanError(f"Budget(delta={self.delta!r}, accounting={self.accounting!r}) do not go together; {fix}.")
        settle(self, epsilon=float(self.epsilon), delta=float(self.delta))

    @property
    def counts(self) -> Accounting:
        """How releases are counted."""
        return self.accounting or ("zcdp" if self.delta > 0 else "pure")

    @property
    def currency(self) -> Literal["epsilon", "rho", "either"]:
        """What the account counts."""
        return "either" if self.counts == "either" else CURRENCY[self.counts]

    @property
    def amount(self) -> Fraction:
        """All of it: in ε, or in ρ where zCDP is counted, also where either is."""
        epsilon, delta = exact("epsilon", self.epsilon), exact("delta", self.delta)
        if self.order is not None:
            return rho_at_order(epsilon, delta, self.order)
        return epsilon if self.currency == "epsilon" else rho_of_epsilon_delta(epsilon, delta)

    @property
    def order(self) -> Fraction | None:
        """The Rényi order at which an account that counts either way adds up what is not pure; None for others."""
        return order_of(exact("epsilon", self.epsilon), exact("delta", self.delta)) if self.counts == "either" else None

    @property
    def terms(self) -> dict[str, Any]:
        """The budget as a ledger opens an account with it."""
        said = {"currency": self.currency, "budget": budget_units(self.amount), "delta": repr(self.delta) if self.delta else "0"}
        if self.counts != "either":
            return said
        return {**said, "pure": budget_units(exact("epsilon", self.epsilon)), "order": self.order}

    def price(
        self,
        epsilon: Any = None,
        rho: Any = None,
        share: Any = None,
        whole: Fraction | None = None,
        kind: Kind | None = None,
    ) -> Spend:
        """What a request costs in this account: exactly one of epsilon, rho, share (of `whole`, or of this budget).

        `kind` says as which kind of release, where the account counts either way; `whole` is then all there is of that kind.
        """
        counts = kind or self.counts
        if counts == "either":
            raise PlanError("an account that counts either way has a price for each kind: give kind='pure' or kind='zcdp'.")
        if self.counts not in (counts, "either"):
            raise PlanError(
                f"kind={kind!r}: the account counts {self.counts}; leave kind= out, or use a budget that counts either."
            )
        currency = CURRENCY[counts]
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
        if name == "rho" and currency == "epsilon":
            if self.counts == "either":
                raise PlanError("rho= is the price of a zCDP release; give epsilon= or share= with kind='pure'.")
            raise PlanError("rho= needs a zCDP account; open the session with a budget that has delta > 0, or use epsilon=.")
        if whole is None:
            whole = exact("epsilon", self.epsilon) if currency == "epsilon" else self.amount
        if name == "share":
            amount = value * whole
        elif name == "epsilon" and currency == "rho":
            amount = rho_of_epsilon_delta(value, exact("delta", self.delta))
            if self.counts == "either" and value <= exact("epsilon", self.epsilon):
                # At one order the whole account may be worth 1e-12 less than at the best one.
                amount = min(amount, whole)
        elif name == "rho" and self.counts == "either" and value <= rho_of_epsilon_delta(self.epsilon, self.delta):
            amount = min(value, whole)
        else:
            amount = value
        # The ledger counts in units of 1e-12. Rounding the price down, and calibrating to the rounded price, lets three thirds
        # fill an account; rounding charges up afterwards would not.
        units = math.floor(amount * RESOLUTION)
        if units < LEAST:
            raise PlanError(f"{name}={float(value):g} is too small to pay for anything; an ε below 1e-3 is rarely useful.")
        return Spend(currency, Fraction(units, RESOLUTION))

    def guarantee(self, spend: Spend) -> tuple[float, float, float | None]:
        """(ε, δ, ρ) that an amount stands for."""
        if spend.currency == "epsilon":
            return float(spend.amount), 0.0, None
        return epsilon_of_rho(spend.amount, self.delta), self.delta, float(spend.amount)


class Amount(float):
    """An amount of budget: a float in the currency of the account, with its meaning attached.

    In an account that counts either way the float is an ε: what `epsilon=` can still be, or what was spent.
    """

    currency: str
    """What the float counts: ε or ρ, or in an account that counts either way whichever of them."""
    epsilon: float
    """The ε that this amount stands for, at `delta`."""
    delta: float
    """The δ of the account's budget; 0 in an ε account."""
    rho: float | None
    """The amount in zCDP; None in an ε account."""

    @classmethod
    def of(cls, budget: Budget, amount: Fraction, currency: Currency | None = None) -> Amount:
        spend = Spend(currency or ("epsilon" if budget.currency == "epsilon" else "rho"), amount)
        return cls.meaning(float(amount), spend.currency, *budget.guarantee(spend))

    @classmethod
    def meaning(cls, value: float, currency: str, epsilon: float, delta: float, rho: float | None, text: str = "") -> Amount:
        """A float that stands for all this."""
        made = cls(value)
        made.currency, made.epsilon, made.delta, made.rho, made._text = currency, epsilon, delta, rho, text
        return made

    _text = ""

    def __repr__(self) -> str:
        if self._text:
            return self._text
        if self.rho is None:
            return f"ε = {self.epsilon:.6g}"
        return f"ρ = {self.rho:.6g} (ε = {self.epsilon:.4g} at δ = {self.delta:g})"

    __str__ = __repr__
