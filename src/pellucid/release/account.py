"""An account that a session has open: its ledger, its name and its budget, in the words of the user."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from ..errors import PlanError
from ..ledger import Account, Entry, Ledger, Reservation, charge_units, from_units
from ..ledger import either as both
from ..ledger.accounting import CURRENCY, LEAST, Amount, Budget, Kind
from ..ledger.declared import Declared
from ..ledger.values import Due
from ..mechanisms import RESOLUTION, Currency, Spend, epsilon_at_order, is_private, rho_of_pure
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
    order: Fraction | None = None
    """The Rényi order that the account was opened with, if it counts either way."""
    _zcdp: dict[str, int] = field(default_factory=dict, compare=False, repr=False)
    """How much was spent when all charges were known to be zCDP."""
    scope: str | None = None
    """The part of the table that is charged, as stored text; None for the whole table."""
    careful: bool = False
    """Whether a budget that did not say how it counts opened it: it pays for all that a zCDP account would, and speaks of ρ."""

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
        """Reopen the account on the terms it was created with, for the table it was created for; create it if that is wanted.

        A budget that does not say how it counts is counted as the account is; a new account with a δ counts either way.
        """
        careful = budget.accounting is None and budget.delta > 0 and ledger.currency(name) in (None, "either")
        if careful:
            budget = replace(budget, accounting="either")
        opened = ledger.open_account(
            name,
            **budget.terms,
            relation=relation,
            unit=unit.text,
            create=create or not ledger.durable,
            table=Declared.of(schema.declared["features"], people),
            changed=changed,
        )
        # Whoever opens it says the same of what was spent: another session that knew no pure release, and this one.
        counts_either = opened.order is not None
        known = {} if counts_either and opened.spent and ledger.has_pure_charges(opened.name) else {"spent": opened.spent}
        return cls(ledger, opened.name, budget, opened.changed, opened.order, known, careful=careful)

    def charging(self, scope: str | None) -> OpenAccount:
        """The same account, of which the records of a part are charged."""
        return replace(self, scope=scope, _zcdp={})

    def reserve(self, spend: Spend, *, key: str, request: str, by: str, purpose: str) -> Reservation:
        """Charge the account, if it still stands for the table that this session holds."""
        return self.reserve_all([(spend, key, request)], by=by, purpose=purpose)[0]

    def reserve_all(self, asked: Sequence[tuple[Spend, str, str]], *, by: str, purpose: str) -> list[Reservation]:
        """Charge the account for several requests at once, or for none; each is a price, a key and a text."""
        dues = [Due(charge_units(spend.amount), key, request, spend.currency, self.scope) for spend, key, request in asked]
        paid = self.ledger.reserve_all(self.name, dues, by=by, purpose=purpose, changed=self.changed)
        for due, made in zip(dues, paid):
            if due.currency == "rho" and made.spent - due.units == self._zcdp.get("spent"):
                self._zcdp["spent"] = made.spent
        return paid

    def prepaid(self, *, key: str, request: str, by: str, purpose: str) -> Reservation:
        """Put a question on record that was paid for before."""
        return self.ledger.prepaid(self.name, key=key, request=request, by=by, purpose=purpose, changed=self.changed)

    @property
    def standing(self) -> Account:
        """The account as the ledger has it now; for a part of the table, as it stands for the records there."""
        return self.ledger.account(self.name, self.scope)

    @property
    def spent(self) -> Amount:
        stands = self.standing
        if self.counts_either and stands.pure_spent is None and stands.spent != self._zcdp.get("spent"):
            charges = [entry for entry in self.ledger.history(self.name) if entry.kind == "reserve"]
            if all(entry.pure is None for entry in charges) and not stands.parted:
                self._zcdp["spent"] = sum(entry.amount for entry in charges)
        return self._either_spent(stands) if self.counts_either else self.amount(stands.spent)

    @property
    def remaining(self) -> Amount:
        return self.left_of(self.standing)

    def left_after(self, stands: Account, paid: Sequence[Reservation]) -> Amount:
        """What was left when this was paid, of an account that stood like this before: nothing is read for it."""
        if paid and paid[-1].here is not None:
            stands = paid[-1].here
        elif paid:
            names = ("budget", "spent", "pure_spent", "pure_budget")
            stands = replace(stands, **{name: getattr(paid[-1], name) for name in names})
        return self.left_of(stands)

    def left_of(self, stands: Account) -> Amount:
        """What is left of an account that stands like this."""
        return both.left(stands, self.careful) if self.counts_either else self.amount(stands.remaining)

    @property
    def whole(self) -> Amount:
        stands = self.standing
        return both.whole(stands, self.careful) if self.counts_either else self.amount(stands.budget)

    @property
    def counts_either(self) -> bool:
        """Whether pure and zCDP releases are both paid for."""
        return self.budget.counts == "either"

    def amount(self, units: int, currency: Currency | None = None) -> Amount:
        """A stored integer in the words of the user."""
        return Amount.of(self.budget, from_units(units), currency)

    def prices(self, epsilon: Any = None, rho: Any = None, share: Any = None, kind: Kind | None = None) -> list[Spend]:
        """What a request may cost, exactly one of the first three given: several, where the account counts either way."""
        if kind not in (None, "pure", "zcdp"):
            raise PlanError(f"kind={kind!r}: use 'pure' or 'zcdp', or leave it out for the one that errs less.")
        stands = self.standing
        if not self.counts_either:
            return [self.budget.price(epsilon, rho, share, from_units(stands.budget), kind)]
        made, refused = [], None
        kinds: tuple[Kind, ...] = (kind,) if kind else ("zcdp",) if rho is not None else ("pure", "zcdp")
        if self.careful:
            # What is wrong with a request is said as in a zCDP account.
            kinds = kinds[::-1]
        for each in kinds:
            whole = stands.pure_budget if each == "pure" else stands.budget
            assert whole is not None
            try:
                made.append(self.budget.price(epsilon, rho, share, from_units(whole), each))
            except PlanError as error:
                refused = refused or error
        if refused is not None and not made:
            raise refused
        return made

    def offers(self, epsilon: Any = None, rho: Any = None, share: Any = None, kind: Kind | None = None) -> list[Spend]:
        """What something that takes several releases may cost: a price, or without one all that is left.

        Where the account counts either way, the kinds that may be taken unasked.
        """
        stands = self.standing
        if epsilon is None and rho is None and share is None:
            whole = [Spend(currency, from_units(stands.most(currency))) for currency in self._currencies(kind)]
            left = [spend for spend in whole if charge_units(spend.amount) >= LEAST]
            if not left:
                raise PlanError("nothing is left of this account; raise its budget, or ask about another table.")
            return left
        made = self.prices(epsilon, rho, share, kind)
        if len(made) < 2:
            return made
        one, other = made
        suited = [a for a, b in ((one, other), (other, one)) if self.suits(stands, a, b, share is not None) and self.can_pay(a)]
        return suited or made

    def _currencies(self, kind: Kind | None) -> list[Currency]:
        if not self.counts_either:
            return [self.budget.currency]  # type: ignore[list-item]
        return [CURRENCY[kind]] if kind else list(CURRENCY.values())

    def together(self, spends: Sequence[Spend]) -> Amount:
        """What several charges come to, in one sum; where the account counts either way and they do both, on the ρ side."""
        sums = {kind: sum((one.amount for one in spends if one.currency == kind), Fraction(0)) for kind in CURRENCY.values()}
        each = [Amount.of(self.budget, amount, kind) for kind, amount in sums.items() if amount]
        if len(each) < 2:
            return each[0] if each else self.amount(0)
        assert self.order is not None
        rho = Fraction(sum(rho_of_pure(one.amount, self.order) if one.currency == "epsilon" else one.amount for one in spends))
        epsilon = epsilon_at_order(rho, self.budget.delta, self.order)
        return Amount.meaning(float(rho), "either", epsilon, self.budget.delta, float(rho), " and ".join(map(str, each)))

    def can_pay(self, spend: Spend) -> bool:
        return self.standing.can_pay(charge_units(spend.amount), spend.currency)

    def left(self, currency: str) -> int:
        """The largest charge in this currency that the account can pay, in stored integers."""
        return self.standing.most(currency)

    def afterwards(self, spend: Spend) -> str:
        """What a release would leave, in words, where the account counts either way."""
        return both.afterwards(self.standing, charge_units(spend.amount), spend.currency) if self.counts_either else ""

    def suits(self, stands: Account, spend: Spend, other: Spend, share: bool) -> bool:
        """Whether a release may be of this kind unasked, where the other kind is offered too (`either.suits`)."""
        return not self.careful or both.suits(stands, spend, other, share)

    def guarantee(self, spend: Spend) -> tuple[float, float, float | None]:
        """(ε, δ, ρ) that an amount stands for."""
        return self.budget.guarantee(spend)

    def total(self, paid: Reservation | None = None) -> dict[str, Any]:
        """What the account has spent, in the words of a certificate: now, or when this was paid.

        Once a release is paid for nothing may fail that need not, and reading the ledger may.
        """
        stands: Account | Reservation = paid or self.standing
        if not self.counts_either:
            return total_of(stands, self.budget)
        # What was paid for tells how the account stood; its terms are those that it was opened with.
        return either_total_of(stands, self.budget.delta, self._either_spent(stands))

    def _either_spent(self, stands: Account | Reservation) -> Amount:
        assert self.order is not None
        # With parts, a pure charge may lie below the largest sum; then only the account's order is good for all of them.
        parted = (stands.here is not None and stands.here.parted) if isinstance(stands, Reservation) else stands.parted
        only = not parted and stands.spent == self._zcdp.get("spent")
        return both.spent(stands, self.order, self.budget.delta, self.careful, only)

    def noise_is_private(self) -> bool:
        """Whether noise comes from the operating system; if not, the ledger remembers it before anything is released."""
        if not is_private():
            self.ledger.not_private(self.name, "noise came from a test source")
        return is_private()

    @property
    def ledger_name(self) -> str:
        return os.path.basename(str(self.ledger.path)) if self.ledger.durable else IN_MEMORY


def total_of(stands: Account | Reservation | Entry, budget: Budget) -> dict[str, Any]:
    """What an account that counts one way had spent when it stood like this, in the words of a certificate."""
    spent, whole = Amount.of(budget, from_units(stands.spent)), Amount.of(budget, from_units(stands.budget))
    said = {"epsilon": spent.epsilon, "delta": spent.delta, "rho": spent.rho}
    return {**said, "budget_epsilon": whole.epsilon, "bounded": bool(stands.bounded)}


def either_total_of(stands: Account | Reservation | Entry, delta: float, spent: Amount) -> dict[str, Any]:
    """The same of an account that counts either way."""
    said = {"epsilon": spent.epsilon, "delta": delta, "rho": spent.rho, "accounting": "either"}
    sides = {"pure": stands.pure_spent, "pure_budget": stands.pure_budget, "rho": stands.spent, "rho_budget": stands.budget}
    amounts = {name: None if units is None else float(from_units(units)) for name, units in sides.items()}
    return {**said, "sides": amounts, "budget_epsilon": amounts["pure_budget"], "bounded": bool(stands.bounded)}


def totals_since(ledger: Ledger, paid: Entry) -> Iterator[dict[str, Any]]:
    """What certificates of a release may say of its account: how it stood when this was paid, or at any time since."""
    account = ledger.account(paid.account)
    delta, order = float(account.delta), account.order
    for entry in ledger.history(paid.account):
        if entry.seq < paid.seq:
            continue
        if order is None:
            yield total_of(entry, Budget(1.0, delta, "zcdp" if delta else "pure"))
        else:
            # Whether all of it was zCDP is known to some sessions and not to others.
            yield from (either_total_of(entry, delta, both.spent(entry, order, delta, only=only)) for only in (False, True))


def part_of(spend: Spend, share: Fraction) -> Spend:
    """A part of a price, in whole units and rounded down: all parts together cost no more than the whole."""
    units = math.floor(spend.amount * share * RESOLUTION)
    if units < LEAST:
        raise PlanError(f"{float(share):.3g} of {spend.text} is too small to pay for anything; ask for less, or pay more.")
    return Spend(spend.currency, Fraction(units, RESOLUTION))
