"""The chain of entries: how each is hashed, what the next one holds, and a recount of all of them."""

from __future__ import annotations

import hashlib
import json
from dataclasses import fields, replace
from json.encoder import encode_basestring_ascii
from operator import attrgetter
from typing import Any

from ..errors import LedgerError
from .scopes import Tally
from .values import Entry, today, within

VERSION = 1
"""The version of what is stored and hashed. A ledger of another version is not read."""

LATER = ("pure", "pure_budget", "pure_spent")
"""Fields that the first ledgers did not have: hashed where one of them is set."""
SCOPE = "scope"
"""A field that came after those: hashed behind them where it is set."""
HASHED = tuple(field.name for field in fields(Entry) if field.name not in ("hash", *LATER, SCOPE))


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def start_of(name: str) -> str:
    """What the first entry follows. The random name keeps two ledgers with equal entries from having equal hashes."""
    return sha256(f"pellucid ledger {VERSION} {name}")


_hashed, _later = attrgetter(*HASHED), attrgetter(*LATER)


def entry_hash(entry: Entry) -> str:
    # JSON keeps neighbouring fields apart, so that no text can be moved from one field to the next.
    values, later = _hashed(entry), _later(entry)
    if any(value is not None for value in later):
        values += later
    if entry.scope is not None:
        # The number of values tells which of the later ones are there.
        values += (entry.scope,)
    return sha256(f"[{','.join(map(_json, values))}]")


def _json(value: Any) -> str:
    """One value of a list as JSON has it. To encode whole lists takes longer, and is most of the work of verifying them."""
    kind = type(value)
    if kind is str:
        return encode_basestring_ascii(value)
    if kind is int:
        return repr(value)
    if value is None:
        return "null"
    # True and False are hashed as 1 and 0. Any other type was tampered with, and must give another hash and not an exception.
    return repr(int(value)) if kind is bool else json.dumps(value, default=repr)


def next_entry(start: str, head: Entry | None, **values: Any) -> Entry:
    """The entry that follows `head`, the newest one; fields that are not given are empty."""
    seq, previous = (1, start) if head is None else (head.seq + 1, head.hash)
    empty = {"amount": 0, "refers_to": None, "by": "", "purpose": "", "request": "", "key": "", "released": ""}
    entry = Entry(**{**empty, **values, "seq": seq, "day": today(), "previous": previous, "hash": ""})
    return replace(entry, hash=entry_hash(entry))


class Recount:
    """Follows the chain and adds up every account again, trusting no stored total."""

    def __init__(self, start: str):
        self.head, self.entries = start, 0
        self.standing: dict[str, tuple[int, Tally, bool, int | None]] = {}
        self.waiting: dict[int | None, tuple[str, str]] = {}
        self.paid: set[tuple[str, str]] = set()

    def fault(self, entry: Entry, text: str | None) -> str | None:
        """What is wrong with the next entry or its released text, if anything."""
        found = self._chain_fault(entry) or self._release_fault(entry, text) or self._account_fault(entry)
        if found is None:
            self.head, self.entries = entry.hash, self.entries + 1
        return found

    def _chain_fault(self, entry: Entry) -> str | None:
        if entry.seq != self.entries + 1:
            return f"entry {self.entries + 1} is missing"
        if entry.previous != self.head:
            return f"entry {entry.seq} does not follow the entry before it: one was removed, moved or edited"
        if entry_hash(entry) != entry.hash:
            return f"entry {entry.seq} was edited: its hash does not match what is stored"
        return None

    def _release_fault(self, entry: Entry, text: str | None) -> str | None:
        if entry.kind == "commit" and (not isinstance(text, str) or sha256(text) != entry.released):
            return f"the released text of entry {entry.seq} was changed or removed"
        if entry.kind != "commit" and (text is not None or entry.released):
            return f"entry {entry.seq} holds a released text and is not a commit"
        return None

    def _account_fault(self, entry: Entry) -> str | None:
        numbers = entry.amount, entry.budget, entry.spent, entry.bounded, *(n for n in _later(entry) if n is not None)
        if not all(map(_is_whole, numbers)):
            return f"entry {entry.seq} holds an amount that is not a whole number"
        if (entry.kind == "open") == (entry.account in self.standing):
            return f"entry {entry.seq} opens an account twice, or uses one that was never opened"
        prepaid = entry.kind == "reserve" and (entry.account, entry.key) in self.paid and entry.key
        if entry.amount < 0 or (not prepaid and (entry.amount > 0) != (entry.kind in ("open", "reserve", "raise"))):
            return f"entry {entry.seq} holds an amount that its kind does not allow"
        if entry.pure is not None and (entry.pure <= 0 or entry.kind not in ("open", "reserve", "raise")):
            return f"entry {entry.seq} holds a pure amount that its kind does not allow"
        if entry.scope is not None and (entry.kind != "reserve" or not isinstance(entry.scope, str)):
            return f"entry {entry.seq} names a part of the table, and its kind has none"
        budget, tally, bounded, pure_budget = self.standing.get(entry.account, (0, Tally(), True, None))
        if entry.kind == "open" and entry.pure is not None:
            pure_budget, tally = 0, Tally(0, 0)
        if entry.pure is not None and pure_budget is None:
            return f"entry {entry.seq} holds a pure amount, and its account does not count either way"
        match entry.kind:
            case "open" | "raise":
                budget += entry.amount
                if (pure_budget is None) != (entry.pure is None):
                    return f"entry {entry.seq} grants a budget on one side only"
                pure_budget = None if pure_budget is None else pure_budget + (entry.pure or 0)
            case "reserve":
                tally = tally.charged(entry.scope, entry.amount, entry.pure)
                self.waiting[entry.seq] = (entry.account, entry.key)
                self.paid.add((entry.account, entry.key))
            case "commit":
                if self.waiting.pop(entry.refers_to, None) != (entry.account, entry.key):
                    return f"entry {entry.seq} commits a reservation that does not exist or was committed before"
            case "not private":
                bounded = False
            case "table":
                pass
            case "changed":
                tally = tally.settled()
            case _:
                return f"entry {entry.seq} is of an unknown kind"
        try:
            spent, pure_spent = tally.spent()
        except LedgerError:
            return f"entry {entry.seq} names a part of the table that cannot be read"
        stands = budget, spent, bounded, pure_budget, pure_spent
        if (entry.budget, entry.spent, entry.bounded, entry.pure_budget, entry.pure_spent) != stands:
            return f"the totals of entry {entry.seq} do not add up from the entries before it"
        if not within(budget, spent, pure_budget, pure_spent):
            return f"entry {entry.seq} spends more than the budget of its account"
        self.standing[entry.account] = budget, tally, bounded, pure_budget
        return None


def _is_whole(number: Any) -> bool:
    return isinstance(number, int)
