"""The ledger itself: what may be charged, and what is put on record. Where entries are kept is up to its store."""

from __future__ import annotations

import json
import os
from fractions import Fraction
from typing import Any

from ..errors import AccountMismatch, BudgetExceeded, LedgerCorrupt, LedgerError
from .chain import Recount, entry_hash, next_entry, sha256
from .store import LedgerStore, ReadingTurn, WritingTurn
from .values import Account, Entry, Reservation, VerifyResult, checked_terms, checked_text, checked_units, from_units, show


class Ledger:
    """Accounts and their chained entries in one SQLite file, in memory when `path` is None, or in a store of another kind.

    `durable` tells whether charges outlive the process: an in-memory ledger forgets what was spent when the process ends, and
    belongs to that process alone. A file may be opened by any number of processes and threads, and a `Ledger` may be carried
    through a fork. `busy_seconds` is how long to wait for the others. A file that does not exist, or is empty, becomes a new
    ledger. A `LedgerStore` is used as it was opened, and is closed with the ledger.
    """

    def __init__(self, path: str | os.PathLike[str] | LedgerStore | None, busy_seconds: float = 30.0):
        if not isinstance(path, LedgerStore):
            # Imported here because SQLAlchemy is slow to load, and much of Pellucid (saved explanations, plots) needs no ledger.
            from .sqlite import SqliteStore

            path = SqliteStore(path, busy_seconds)
        self._store: LedgerStore = path
        self.path, self.durable = path.place, path.durable

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file. An in-memory ledger is forgotten."""
        self._store.close()

    def open_account(self, name: str, *, currency: str, budget: int, delta: str, relation: str, unit: str) -> Account:
        """Create the account, or reopen it on the terms it was created with.

        Reopening with the budget the account was created with, or with the one it was raised to since, gives the account at
        its current budget; any other difference is an AccountMismatch.
        """
        checked_text("the account's name", name, required=True)
        asked = checked_terms(currency, budget, delta, relation, unit)
        with self._store.reading() as turn:
            known = turn.first(name) is not None
        if not known:
            self._create(name, asked)
        with self._store.reading() as turn:
            account, first = self._standing(turn, name)
        _check_terms(account, first.amount, asked)
        return account

    def _create(self, name: str, terms: dict[str, Any]) -> None:
        with self._store.writing() as turn:
            # Another process may have opened the account since.
            if turn.first(name) is None:
                head, _ = self._ends(turn, name)
                self._append(
                    turn, head, account=name, kind="open", amount=terms["budget"], request=json.dumps(terms, sort_keys=True),
                    budget=terms["budget"], spent=0, bounded=True,
                )  # fmt: skip

    def account(self, name: str) -> Account:
        """The account as it stands now."""
        with self._store.reading() as turn:
            return self._standing(turn, name)[0]

    def accounts(self) -> list[Account]:
        """Every account, oldest first."""
        with self._store.reading() as turn:
            return [self._standing(turn, name)[0] for name in turn.names()]

    def replay(self, account: str, key: str) -> str | None:
        """The released text of the newest committed request with this key, or None. Free: it was released before.

        An empty key is never replayed.
        """
        if not key:
            return None
        with self._store.reading() as turn:
            found = turn.newest_release(account, key)
        return None if found is None else self._checked_release(*found)

    def thread(self, account: str, key: str, after: int = 0) -> list[tuple[Entry, str | None]]:
        """The entries of an account with this key that came after entry `after`, oldest first, with the text of each commit."""
        with self._store.reading() as turn:
            found = turn.thread(account, key, after)
        for entry, text in found:
            self._check(entry)
            if entry.kind == "commit":
                self._checked_release(entry, text)
        return found

    def reserve(self, account: str, amount: int, *, key: str, request: str, by: str = "", purpose: str = "") -> Reservation:
        """Charge the account. When this returns the charge is on disk and stays spent, whatever happens next.

        BudgetExceeded is raised with nothing written. Call this before any data is read.
        """
        return self._reserve(account, checked_units("the charge", amount), key, request, by, purpose)

    def prepaid(self, account: str, *, key: str, request: str, by: str = "", purpose: str = "") -> Reservation:
        """Put a question on record that an earlier charge with the same key has paid for; it costs nothing more."""
        return self._reserve(account, 0, key, request, by, purpose)

    def _reserve(self, account: str, amount: int, key: str, request: str, by: str, purpose: str) -> Reservation:
        texts = {"key": checked_text("key", key), "request": checked_text("request", request), "by": checked_text("by", by)}
        texts["purpose"] = checked_text("purpose", purpose)
        with self._store.writing() as turn:
            head, latest = self._open_ends(turn, account)
            if not amount and not (key and turn.has_paid(account, key)):
                raise LedgerError("nothing was paid for this key yet. Reserve an amount for it first.")
            left = latest.budget - latest.spent
            if amount > left:
                currency = self._standing(turn, account)[0].currency
                raise BudgetExceeded(account, currency, float(from_units(amount)), float(from_units(left)))
            entry = self._append(
                turn, head, account=account, kind="reserve", amount=amount, **texts,
                budget=latest.budget, spent=latest.spent + amount, bounded=latest.bounded,
            )  # fmt: skip
        return Reservation(entry.seq, entry.account, entry.amount, entry.hash)

    def commit(self, reservation: Reservation, released: str) -> Entry:
        """Store what was released for a reservation, once."""
        checked_text("the released text", released)
        with self._store.writing() as turn:
            paid, done = turn.charge(reservation.seq)
            if paid is None or paid.hash != reservation.hash or paid.kind != "reserve":
                raise LedgerError(
                    f"reservation {reservation.seq} of account {reservation.account!r} is not in this ledger. "
                    "Commit to the ledger that made the reservation."
                )
            if done is not None:
                raise LedgerError(
                    f"reservation {reservation.seq} of account {reservation.account!r} was committed before. "
                    "Reserve again for another release."
                )
            head, latest = self._open_ends(turn, paid.account)
            return self._append(
                turn, head, released, account=paid.account, kind="commit", refers_to=paid.seq, key=paid.key, by=paid.by,
                purpose=paid.purpose, released=sha256(released),
                budget=latest.budget, spent=latest.spent, bounded=latest.bounded,
            )  # fmt: skip

    def not_private(self, account: str, why: str) -> Entry:
        """Record that something without a guarantee happened to this private object: its total is not bounded any more."""
        checked_text("why", why, required=True)
        with self._store.writing() as turn:
            head, latest = self._open_ends(turn, account)
            return self._append(
                turn, head, account=account, kind="not private", purpose=why,
                budget=latest.budget, spent=latest.spent, bounded=False,
            )  # fmt: skip

    def raise_budget(self, account: str, budget: int, *, by: str, purpose: str) -> Account:
        """Grant the account a larger budget, on record. A budget is never lowered and what was spent is never reset."""
        budget = checked_units("budget", budget)
        checked_text("by", by, required=True)
        checked_text("purpose", purpose, required=True)
        with self._store.writing() as turn:
            head, latest = self._open_ends(turn, account)
            if budget <= latest.budget:
                raise LedgerError(
                    f"the budget of account {account!r} is {show(latest.budget)} and can only be raised, not set to "
                    f"{show(budget)}. Give the new total, above {show(latest.budget)}."
                )
            self._append(
                turn, head, account=account, kind="raise", amount=budget - latest.budget, by=by, purpose=purpose,
                budget=budget, spent=latest.spent, bounded=latest.bounded,
            )  # fmt: skip
            return self._standing(turn, account)[0]

    def history(self, account: str | None = None) -> list[Entry]:
        """The entries of one account, or of all, oldest first."""
        with self._store.reading() as turn:
            if account is not None:
                self._open_ends(turn, account)
            return list(turn.entries(account))

    def contains(self, hash: str) -> bool:
        """Whether the entry with this hash, as carried by a certificate, is in this ledger."""
        with self._store.reading() as turn:
            return turn.contains(hash)

    def verify(self) -> VerifyResult:
        """Recount the whole ledger from its first entry, trusting no stored total.

        Finds an edited, removed, moved or added entry, a changed release, totals that do not add up and an account that paid
        more than its budget. It cannot find that the newest entries were cut off: compare `head`, or ask `contains` for the
        hashes that certificates carry.
        """
        count = Recount(self._store.start)
        try:
            with self._store.reading() as turn:
                for entry, text in turn.everything():
                    fault = count.fault(entry, text)
                    if fault:
                        return VerifyResult(False, count.entries, count.entries + 1, fault, count.head)
                stray = turn.stray_text()
                if stray is not None:
                    return VerifyResult(False, count.entries, stray, f"released text {stray} belongs to no entry", count.head)
            damage = self._store.damage()
        except LedgerCorrupt as error:
            return VerifyResult(False, count.entries, count.entries + 1, str(error), count.head)
        if damage:
            return VerifyResult(False, count.entries, None, damage, count.head)
        return VerifyResult(True, count.entries, None, f"{count.entries} entries verify", count.head)

    def _append(self, turn: WritingTurn, head: Entry | None, text: str | None = None, **values: Any) -> Entry:
        entry = next_entry(self._store.start, head, **values)
        turn.append(entry, text)
        return entry

    def _ends(self, turn: ReadingTurn, name: str) -> tuple[Entry | None, Entry | None]:
        """The newest entry of all and the newest of one account, which holds its standing; checked, as charges rest on them."""
        head, latest = turn.ends(name)
        if latest is not None:
            self._check(latest)
        if head is not None and head is not latest:
            self._check(head)
        return head, latest

    def _open_ends(self, turn: ReadingTurn, name: str) -> tuple[Entry | None, Entry]:
        head, latest = self._ends(turn, name)
        if latest is None:
            known = ", ".join(repr(other) for other in turn.names()) or "none yet"
            raise LedgerError(f"account {name!r} is not in this ledger. Known accounts: {known}. Open it with its budget first.")
        return head, latest

    def _standing(self, turn: ReadingTurn, name: str) -> tuple[Account, Entry]:
        """The account now, and the entry that opened it."""
        _, latest = self._open_ends(turn, name)
        first = turn.first(name)
        if first is None:
            raise self._damaged(latest.seq, "the entry that opened its account is missing")
        self._check(first)
        terms = json.loads(first.request)
        account = Account(
            name, terms["currency"], terms["delta"], terms["relation"], terms["unit"],
            latest.budget, latest.spent, bool(latest.bounded),
        )  # fmt: skip
        return account, first

    def _check(self, entry: Entry) -> None:
        if entry_hash(entry) != entry.hash:
            raise self._damaged(entry.seq, "its hash does not match what is stored")

    def _checked_release(self, entry: Entry, text: str | None) -> str:
        if not isinstance(text, str) or sha256(text) != entry.released:
            raise self._damaged(entry.seq, "its released text was changed or removed")
        return text

    def _damaged(self, seq: int, why: str) -> LedgerCorrupt:
        return LedgerCorrupt(
            f"entry {seq} of ledger {self.path!r} was altered: {why}. Run `pellucid ledger verify`, and restore the file from a "
            "backup; nothing was written."
        )


def _check_terms(account: Account, first_budget: int, asked: dict[str, Any]) -> None:
    stored: dict[str, tuple[Any, ...]] = {
        "currency": (account.currency,),
        "delta": (account.delta,),
        "relation": (account.relation,),
        "unit": (account.unit,),
        "budget": tuple(dict.fromkeys((account.budget, first_budget))),
    }
    wrong = []
    for term, allowed in stored.items():
        same = Fraction(asked[term]) == Fraction(allowed[0]) if term == "delta" else asked[term] in allowed
        if not same:
            words = show if term == "budget" else repr
            wrong.append(f"{term} is {words(allowed[0])} in the ledger and {words(asked[term])} was asked")
    if wrong:
        raise AccountMismatch(
            f"account {account.name!r} exists on other terms: {'; '.join(wrong)}. Reopen it as it is stored; a larger budget is "
            "granted with raise_budget (`pellucid ledger raise`), and another private object needs another name."
        )
