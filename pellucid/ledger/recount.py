"""Recounting a ledger from its first entry, trusting no stored total."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Row

from .store import entry_hash, sha256


class Recount:
    """Follows the chain and adds up every account again."""

    def __init__(self, start: str):
        self.head, self.entries = start, 0
        self.standing: dict[str, tuple[int, int, int]] = {}
        self.waiting: dict[int, tuple[str, str]] = {}
        self.paid: set[tuple[str, str]] = set()

    def fault(self, row: Row[Any]) -> str | None:
        """What is wrong with the next entry, if anything."""
        found = self._chain_fault(row) or self._release_fault(row) or self._account_fault(row)
        if found is None:
            self.head, self.entries = row.hash, self.entries + 1
        return found

    def _chain_fault(self, row: Row[Any]) -> str | None:
        if row.seq != self.entries + 1:
            return f"entry {self.entries + 1} is missing"
        if row.previous != self.head:
            return f"entry {row.seq} does not follow the entry before it: one was removed, moved or edited"
        if entry_hash(row._mapping) != row.hash:
            return f"entry {row.seq} was edited: its hash does not match what is stored"
        return None

    def _release_fault(self, row: Row[Any]) -> str | None:
        if row.kind == "commit" and (row.text is None or sha256(row.text) != row.released):
            return f"the released text of entry {row.seq} was changed or removed"
        if row.kind != "commit" and (row.text is not None or row.released):
            return f"entry {row.seq} holds a released text and is not a commit"
        return None

    def _account_fault(self, row: Row[Any]) -> str | None:
        if not all(type(number) is int for number in (row.amount, row.budget, row.spent, row.bounded)):
            return f"entry {row.seq} holds an amount that is not a whole number"
        if (row.kind == "open") == (row.account in self.standing):
            return f"entry {row.seq} opens an account twice, or uses one that was never opened"
        prepaid = row.kind == "reserve" and (row.account, row.key) in self.paid and row.key
        if row.amount < 0 or (not prepaid and (row.amount > 0) != (row.kind in ("open", "reserve", "raise"))):
            return f"entry {row.seq} holds an amount that its kind does not allow"
        budget, spent, bounded = self.standing.get(row.account, (0, 0, 1))
        match row.kind:
            case "open" | "raise":
                budget += row.amount
            case "reserve":
                spent += row.amount
                self.waiting[row.seq] = (row.account, row.key)
                self.paid.add((row.account, row.key))
            case "commit":
                if self.waiting.pop(row.refers_to, None) != (row.account, row.key):
                    return f"entry {row.seq} commits a reservation that does not exist or was committed before"
            case "not private":
                bounded = 0
            case _:
                return f"entry {row.seq} is of an unknown kind"
        if (row.budget, row.spent, row.bounded) != (budget, spent, bounded):
            return f"the totals of entry {row.seq} do not add up from the entries before it"
        if spent > budget:
            return f"entry {row.seq} spends more than the budget of its account"
        self.standing[row.account] = (budget, spent, bounded)
        return None
