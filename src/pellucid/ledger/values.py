"""Amounts as exact integers, and the small frozen values a ledger is made of."""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

from ..errors import LedgerError
from ..mechanisms import RESOLUTION, rho_of_pure
from ..public.texts import storable

SCALE = RESOLUTION
"""Stored integers per unit of ε or ρ."""

CURRENCIES = ("epsilon", "rho", "either")

# The widest integer that SQLite and PostgreSQL both store exactly.
LARGEST = 2**63 - 1


def charge_units(amount: Fraction) -> int:
    """What a charge costs in stored integers, rounded up: an account never pays less than was promised.

    >>> charge_units(Fraction(1, 3))
    333333333334
    """
    return math.ceil(Fraction(amount) * SCALE)


def budget_units(amount: Fraction) -> int:
    """What a budget is worth in stored integers, rounded down: an account never holds more than was granted.

    >>> budget_units(Fraction(1, 3))
    333333333333
    """
    return math.floor(Fraction(amount) * SCALE)


def from_units(units: int) -> Fraction:
    """The exact ε or ρ of a stored integer.

    >>> from_units(SCALE // 4)
    Fraction(1, 4)
    """
    return Fraction(units, SCALE)


def within(budget: int, spent: int, pure_budget: int | None, pure_spent: int | None) -> bool:
    """Whether an account that stands like this may go on: in an account that counts either way, one of the two is enough.

    Claim: either-account
    """
    return spent <= budget or (pure_budget is not None and pure_spent is not None and pure_spent <= pure_budget)


@dataclass(frozen=True)
class Account:
    """One named private object as it stands now. Amounts are stored integers (`from_units`).

    An account that counts either way has two budgets. `spent` of `budget` is the ρ side, where a pure release costs what it costs
    at the account's Rényi order; `pure_spent` of `pure_budget` is the pure side, as long as every release was pure. It can pay
    while one of the two suffices.
    """

    name: str
    """What the private object is called."""
    currency: str
    """What is counted: "epsilon" (pure ε), "rho" (zCDP) or "either"."""
    delta: str
    """The δ at which ρ is turned into ε, as decimal text; "0" in an ε account."""
    relation: str
    """How neighbouring tables differ."""
    unit: str
    """Whom the guarantee protects."""
    budget: int
    """All that may ever be spent, raises included."""
    spent: int
    """All charges so far, released for or not; of disjoint parts of the table, the largest."""
    bounded: bool
    """False once something not private happened to this object: its total is no longer bounded by what was spent."""
    changed: int = 0
    """The number of the entry that declared its present table; 0 if it is the one it was opened for."""
    pure_budget: int | None = None
    """All that pure releases may cost; None unless the account counts either way."""
    pure_spent: int | None = None
    """The ε of all releases so far; None once one was not pure."""
    order: Fraction | None = None
    """The Rényi order of the ρ side; None unless the account counts either way."""
    parted: bool = False
    """Whether parts of the table were charged: what was spent is then what the record has paid that paid most."""

    def seen_from(self, spent: int, pure_spent: int | None) -> Account:
        """The account as it is for the records of a part, which have paid so much. What is used up is so for everybody."""
        over = self.spent > self.budget
        pure_over = self.pure_spent is None or (self.pure_budget is not None and self.pure_spent > self.pure_budget)
        return replace(self, spent=self.spent if over else spent, pure_spent=self.pure_spent if pure_over else pure_spent)

    @property
    def remaining(self) -> int:
        """What is left; of an account that counts either way, on the ρ side."""
        return max(0, self.budget - self.spent) if self.currency == "either" else self.budget - self.spent

    @property
    def pure_remaining(self) -> int:
        """The ε that is left while every release is pure."""
        if self.currency == "epsilon":
            return self.remaining
        return 0 if self.pure_budget is None or self.pure_spent is None else max(0, self.pure_budget - self.pure_spent)

    def charge(self, units: int, currency: str | None = None) -> tuple[int, int | None]:
        """What a release of so many units of ε or ρ is charged: on the account's (or the ρ) side, and on the pure side."""
        if not units:
            return 0, None
        if self.currency != "either":
            if currency not in (None, self.currency):
                raise LedgerError(f"account {self.name!r} counts {self.currency}, and {currency} was to be charged.")
            return units, None
        if currency not in ("epsilon", "rho"):
            raise LedgerError(f"account {self.name!r} counts either way: say currency='epsilon' or 'rho' of a charge.")
        if currency == "rho":
            return units, None
        assert self.order is not None
        return charge_units(Fraction(rho_of_pure(from_units(units), self.order))), units

    def after(self, units: int, currency: str | None = None) -> Account:
        """The account after a charge, whether or not it can pay it."""
        amount, pure = self.charge(units, currency)
        return replace(self, spent=self.spent + amount, pure_spent=pure_after(self.pure_spent, amount, pure))

    def paying(self, due: Due) -> Account:
        """The account after a charge that is asked for, whether or not it can pay it."""
        return self.after(due.units, due.currency)

    def can_pay(self, units: int, currency: str | None = None) -> bool:
        return self.after(units, currency).is_within

    @property
    def is_within(self) -> bool:
        return within(self.budget, self.spent, self.pure_budget, self.pure_spent)

    def most(self, currency: str) -> int:
        """The largest charge of this kind that it can pay."""
        if currency == self.currency or currency == "rho":
            return self.remaining
        low, high = self.pure_remaining, self.pure_budget or 0
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self.can_pay(middle, currency) else (low, middle - 1)
        return low


def pure_after(spent: int | None, amount: int, pure: int | None) -> int | None:
    """The ε of all releases after a charge: one that was paid for before changes nothing, one that is not pure ends the sum."""
    return spent if not amount else None if spent is None or pure is None else spent + pure


@dataclass(frozen=True)
class Entry:
    """One line of the ledger. `budget`, `spent` and `bounded` are the account's standing after it.

    `kind` is "open" (amount: the budget), "reserve" (the charge), "commit" (`refers_to` the reserve it completes), "raise"
    (what was added to the budget), "not private" (`purpose` says what happened), "table" (`request` says what is public about
    the private table, where the account did not know) or "changed" (the same, of another table; `purpose` says why).
    """

    seq: int
    """Its number in the ledger, from 1 without gaps."""
    account: str
    """The account it is about."""
    kind: str
    """What happened: see above."""
    amount: int
    """What was granted or charged, in stored integers."""
    refers_to: int | None
    """The number of the charge that a commit completes."""
    by: str
    """Who asked."""
    purpose: str
    """What for."""
    day: str
    """The day it was written (UTC), as YYYY-MM-DD."""
    request: str
    """What was asked, as text; the terms of the account if `kind` is "open"; the table if it is "table" or "changed"."""
    key: str
    """What identical requests have in common."""
    budget: int
    """The account's budget after this entry."""
    spent: int
    """What the account has spent after this entry."""
    bounded: bool
    """Whether the account's total is still bounded after this entry."""
    released: str
    """SHA-256 of the released text; empty unless `kind` is "commit"."""
    previous: str
    """The hash of the entry before it; of the first entry, the start of the chain."""
    hash: str
    """SHA-256 of all the other fields; of those below if one of them is set."""
    pure: int | None = None
    """In an account that counts either way: the ε that was granted or charged. None if the charge is not pure."""
    pure_budget: int | None = None
    """In such an account, what pure releases may cost after this entry."""
    pure_spent: int | None = None
    """In such an account, what all releases cost after this entry, if all were pure."""
    scope: str | None = None
    """Of a charge: the part of the table that it is for, as stored text; None for the whole table."""

    def charged(self, currency: str) -> int:
        """What a stream or release that counts in this currency was charged."""
        return self.pure if currency == "epsilon" and self.pure is not None else self.amount

    @property
    def standing(self) -> dict[str, Any]:
        """The account's standing after this entry, as the next one begins with it."""
        return {name: getattr(self, name) for name in ("budget", "spent", "bounded", "pure_budget", "pure_spent")}


@dataclass(frozen=True)
class Due:
    """A charge that is asked for."""

    units: int
    """How much, in stored integers; 0 for what an earlier charge with the same key has paid for."""
    key: str
    """What identical requests have in common."""
    request: str
    """What is asked, as text."""
    currency: str | None = None
    """What `units` counts, where the account counts either way."""
    scope: str | None = None
    """The part of the table that it is for, as stored text; None for the whole table."""


@dataclass(frozen=True)
class Reservation:
    """A charge that is on disk and waits for its release."""

    seq: int
    """The number of its entry."""
    account: str
    """The account that was charged."""
    amount: int
    """The charge, in stored integers."""
    hash: str
    """The hash of its entry, which certificates carry."""
    budget: int = 0
    """The account's budget when it was charged."""
    spent: int = 0
    """What the account had spent then, this charge included."""
    bounded: bool = True
    """Whether the account's total was bounded then."""
    pure_spent: int | None = None
    """The ε of all releases then, in an account that counts either way, if all were pure."""
    pure_budget: int | None = None
    """What pure releases may cost in all, in such an account."""
    here: Account | None = None
    """How the account stood then for whoever was charged: for the records of a part, where the charge is for one."""


@dataclass(frozen=True)
class VerifyResult:
    """What a recount of the whole ledger found."""

    ok: bool
    """Whether nothing was found wrong."""
    entries: int
    """How many entries are good, from the first on."""
    first_bad: int | None
    """The number of the first bad entry; None if there is none, or if the damage is not in an entry."""
    message: str
    """The finding in words."""
    head: str
    """The hash of the last good entry."""


def today() -> str:
    return datetime.now(UTC).date().isoformat()


def checked_text(what: str, value: str, *, required: bool = False) -> str:
    if not isinstance(value, str):
        raise LedgerError(f"{what} must be text, not {type(value).__name__}.")
    if required and not value.strip():
        raise LedgerError(f"{what} must not be empty: the ledger records it for whoever reads the account later.")
    if "\0" in value or not storable(value):
        raise LedgerError(f"{what} holds characters that cannot be stored; give plain Unicode text without NUL characters.")
    return value


def checked_units(what: str, value: int) -> int:
    try:
        units = operator.index(value)
    except TypeError:
        raise LedgerError(f"{what} must be a whole number of units, not {type(value).__name__}; use charge_units().") from None
    if isinstance(value, bool) or not 0 < units <= LARGEST:
        raise LedgerError(f"{what} must be above 0 and at most {LARGEST // SCALE} in ε or ρ.")
    return units


def show(units: int) -> str:
    return f"{float(from_units(units)):.12g}"


def checked_terms(
    currency: str, budget: int, delta: str, relation: str, unit: str, pure: int | None = None, order: Fraction | None = None
) -> dict[str, Any]:
    if currency not in CURRENCIES:
        raise LedgerError(f"currency {currency!r} is not known; use one of {', '.join(CURRENCIES)}.")
    try:
        value = Fraction(checked_text("delta", delta))
    except (ValueError, ZeroDivisionError):
        raise LedgerError(f"delta {delta!r} is not a number; give decimal text such as '1e-6'.") from None
    if (currency == "either") != (pure is not None and order is not None):
        raise LedgerError("an account that counts either way, and no other, has a pure budget and a Rényi order: give both.")
    if currency == "either" and not (value > 0 and order is not None and order > 1):
        raise LedgerError("an account that counts either way needs a delta above 0 and a Rényi order above 1.")
    if not 0 <= value < 1 or (currency == "epsilon" and value != 0):
        raise LedgerError(f"delta {delta!r} does not fit a {currency} account; a pure ε account has delta '0', others below 1.")
    checked_text("relation", relation, required=True)
    return {
        "currency": currency,
        "budget": checked_units("budget", budget),
        "delta": delta,
        "relation": relation,
        "unit": checked_text("unit", unit),
        **({} if pure is None else {"pure": checked_units("the pure budget", pure), "order": str(order)}),
    }
