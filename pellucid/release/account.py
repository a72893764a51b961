"""An account that a session has open: its ledger, its name and its budget, in the words of the user."""

from __future__ import annotations

import os
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from ..ledger import Account, Ledger, Reservation, budget_units, charge_units, from_units
from ..ledger.accounting import Amount, Budget
from ..ledger.declared import Declared
from ..mechanisms import Spend, is_private
from ..public.schema import Relation, Schema, Unit
from .certificate import IN_MEMORY


@dataclass(frozen=True)
class OpenAccount:
    """One named private object in a ledger."""

    ledger: Ledger
    name: str
    budget: Budget
    changed: int
    """The number of the ledger's entry that declared the table this session holds; 0 for the first one."""

    @classmethod
    def open(
        cls,
        ledger: Ledger,
        name: str,
        budget: Budget,
        relation: Relation,
        unit: Unit,
        *,
        schema: Schema,
        people: int | None,
        create: bool,
        changed: str,
    ) -> OpenAccount:
        """Reopen the account on the terms it was created with, for the table it was created for; create it if that is wanted."""
        opened = ledger.open_account(
            name,
            currency=budget.currency,
            budget=budget_units(budget.amount),
            delta=repr(budget.delta) if budget.delta else "0",
            relation=relation,
            unit=unit.text,
            create=create or not ledger.durable,
            table=Declared.of(schema.to_dict()["features"], people),
            changed=changed,
        )
        return cls(ledger, opened.name, budget, opened.changed)

    def reserve(self, units: int, *, key: str, request: str, by: str, purpose: str) -> Reservation:
        """Charge the account, if it still stands for the table that this session holds."""
        return self.ledger.reserve(self.name, units, key=key, request=request, by=by, purpose=purpose, changed=self.changed)

    def prepaid(self, *, key: str, request: str, by: str, purpose: str) -> Reservation:
        """Put a question on record that was paid for before."""
        return self.ledger.prepaid(self.name, key=key, request=request, by=by, purpose=purpose, changed=self.changed)

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

    def total(self, paid: Reservation | None = None) -> dict[str, Any]:
        """What the account has spent, in the words of a certificate: now, or when this was paid.

        Once a release is paid for nothing may fail that need not, and reading the ledger may.
        """
        account: Account | Reservation = paid or self.standing
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
        return os.path.basename(str(self.ledger.path)) if self.ledger.durable else IN_MEMORY
