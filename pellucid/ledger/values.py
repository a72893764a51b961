"""Amounts as exact integers, and the small frozen values a ledger is made of."""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

from ..errors import LedgerError
from ..mechanisms import RESOLUTION
from ..public.texts import storable

SCALE = RESOLUTION
"""Stored integers per unit of ε or ρ."""

CURRENCIES = ("epsilon", "rho")

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


@dataclass(frozen=True)
class Account:
    """One named private object as it stands now. Amounts are stored integers (`from_units`)."""

    name: str
    """What the private object is called."""
    currency: str
    """What is counted: "epsilon" (pure ε) or "rho" (zCDP)."""
    delta: str
    """The δ at which ρ is turned into ε, as decimal text; "0" in an ε account."""
    relation: str
    """How neighbouring tables differ."""
    unit: str
    """Whom the guarantee protects."""
    budget: int
    """All that may ever be spent, raises included."""
    spent: int
    """All charges so far, released for or not."""
    bounded: bool
    """False once something not private happened to this object: its total is no longer bounded by what was spent."""
    changed: int = 0
    """The number of the entry that declared its present table; 0 if it is the one it was opened for."""

    @property
    def remaining(self) -> int:
        return self.budget - self.spent


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
    """SHA-256 of all the fields above."""


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


def checked_terms(currency: str, budget: int, delta: str, relation: str, unit: str) -> dict[str, Any]:
    if currency not in CURRENCIES:
        raise LedgerError(f"currency {currency!r} is not known; use one of {', '.join(CURRENCIES)}.")
    try:
        value = Fraction(checked_text("delta", delta))
    except (ValueError, ZeroDivisionError):
        raise LedgerError(f"delta {delta!r} is not a number; give decimal text such as '1e-6'.") from None
    if not 0 <= value < 1 or (currency == "epsilon" and value != 0):
        raise LedgerError(f"delta {delta!r} does not fit a {currency} account; a pure ε account has delta '0', others below 1.")
    checked_text("relation", relation, required=True)
    return {
        "currency": currency,
        "budget": checked_units("budget", budget),
        "delta": delta,
        "relation": relation,
        "unit": checked_text("unit", unit),
    }
