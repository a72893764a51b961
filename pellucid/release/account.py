"""An account that a session has open: its ledger, its name and its budget, in the words of the user."""

from __future__ import annotations

import os
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from ..ledger import Account, Ledger, budget_units, charge_units, from_units
from ..ledger.accounting import Amount, Budget
from ..mechanisms import Spend, is_private
from ..public.schema import Relation, Unit


@dataclass(frozen=True)
class OpenAccount:
    """One named private object in a ledger."""

    ledger: Ledger
    name: str
    budget: Budget

    @classmethod
    def open(cls, ledger: Ledger, name: str, budget: Budget, relation: Relation, unit: Unit) -> OpenAccount:
        """Create the account, or reopen it on the terms it was created with."""
        ledger.open_account(
            name,
            currency=budget.currency,
            budget=budget_units(budget.amount),
            delta=repr(budget.delta) if budget.delta else "0",
            relation=relation,
            unit=unit.text,
        )
        return cls(ledger, name, budget)

    @property
    def standing(self) -> Account:
        """The account as the ledger has it now."""
        return self.ledger.account(self.name)

    @property
    def spent(self) -> Amount:
        return self.amount(self.standing.spent)

    @property
    def remaining(self) -> Amount:
        return self.amount(self.standing.remaining)

    @property
    def whole(self) -> Amount:
        return self.amount(self.standing.budget)

    def amount(self, units: int) -> Amount:
        """A stored integer in the words of the user."""
        return Amount.of(self.budget, from_units(units))

    def price(self, epsilon: Any, rho: Any, share: Any) -> Spend:
        """What a request costs: exactly one of the three is given."""
        return self.budget.price(epsilon, rho, share, whole=from_units(self.standing.budget))

    def can_pay(self, amount: Fraction) -> bool:
        return charge_units(amount) <= self.standing.remaining

    def guarantee(self, spend: Spend) -> tuple[float, float, float | None]:
        """(ε, δ, ρ) that an amount stands for."""
        return self.budget.guarantee(spend)

    def total(self) -> dict[str, Any]:
        """What the account has spent, in the words of a certificate."""
        account = self.standing
        epsilon, delta, rho = self.guarantee(Spend(self.budget.currency, from_units(account.spent)))
        whole, _, _ = self.guarantee(Spend(self.budget.currency, from_units(account.budget)))
        return {"epsilon": epsilon, "delta": delta, "rho": rho, "budget_epsilon": whole, "bounded": account.bounded}

    def noise_is_private(self) -> bool:
        """Whether noise comes from the operating system; if not, the ledger remembers it before anything is released."""
        if not is_private():
            self.ledger.not_private(self.name, "noise came from a test source")
        return is_private()

    @property
    def ledger_name(self) -> str:
        return os.path.basename(str(self.ledger.path)) if self.ledger.durable else "in memory"
