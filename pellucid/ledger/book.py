"""The ledger itself: one transaction per charge, one chain per file, any number of processes."""

from __future__ import annotations

import json
import os
import secrets
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from fractions import Fraction
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row, select
from sqlalchemy.exc import DBAPIError

from ..errors import AccountMismatch, BudgetExceeded, LedgerCorrupt, LedgerError, LedgerUnavailable
from .recount import Recount
from .store import (
    COVER,
    ENDS,
    ENTRIES,
    FIRST,
    FORMAT,
    HEAD,
    INSERT,
    KNOWN_HASH,
    NAMES,
    ORPHANS,
    PAID,
    RELEASED,
    RELEASES,
    TABLES,
    THREAD,
    VERSION,
    WITH_TEXT,
    Sqlite,
    entry_hash,
    sha256,
    to_entry,
)
from .values import Account, Entry, Reservation, VerifyResult, checked_terms, checked_text, checked_units, from_units, show, today


class Ledger:
    """Accounts and their chained entries in one SQLite file, or in memory when `path` is None.

    `durable` tells the two apart: an in-memory ledger forgets what was spent when the process ends, and belongs to that
    process alone. A file may be opened by any number of processes and threads, and a `Ledger` may be carried through a fork.
    `busy_seconds` is how long to wait for the others. A file that does not exist, or is empty, becomes a new ledger.
    """

    def __init__(self, path: str | os.PathLike[str] | None, busy_seconds: float = 30.0):
        if path is not None and os.fspath(path) in ("", ":memory:"):
            raise LedgerError(f"ledger path {os.fspath(path)!r} is no file; give a file, or None for a ledger in memory.")
        self.path = None if path is None else os.path.abspath(os.fspath(path))
        self.durable = self.path is not None
        self._store = Sqlite(self.path, float(busy_seconds))
        self._lock = threading.RLock()
        self._connection: Connection | None = None
        self._start: str | None = None
        self._file: tuple[int, int] | None = None
        self._pid = os.getpid()
        self._closed = False
        with _roll:
            _living.add(self)
        with self._lock:
            self._connected()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file. An in-memory ledger is forgotten."""
        with self._lock:
            self._closed = True
            if self._pid == os.getpid():
                self._disconnect()

    def open_account(self, name: str, *, currency: str, budget: int, delta: str, relation: str, unit: str) -> Account:
        """Create the account, or reopen it on the terms it was created with.

        Reopening with the budget the account was created with, or with the one it was raised to since, gives the account at
        its current budget; any other difference is an AccountMismatch.
        """
        checked_text("the account's name", name, required=True)
        asked = checked_terms(currency, budget, delta, relation, unit)
        with self._turn(writing=False) as connection:
            known = connection.execute(FIRST, {"name": name}).first() is not None
        with self._turn(writing=not known) as connection:
            first = connection.execute(FIRST, {"name": name}).first()
            if first is None:
                request, (head, _) = json.dumps(asked, sort_keys=True), self._ends(connection, name)
                self._append(
                    connection, head, account=name, kind="open", amount=asked["budget"], request=request,
                    budget=asked["budget"], spent=0, bounded=1,
                )  # fmt: skip
                return self._standing(connection, name)
            account = self._standing(connection, name)
        _check_terms(account, first.amount, asked)
        return account

    def account(self, name: str) -> Account:
        """The account as it stands now."""
        with self._turn(writing=False) as connection:
            return self._standing(connection, name)

    def accounts(self) -> list[Account]:
        """Every account, oldest first."""
        with self._turn(writing=False) as connection:
            return [self._standing(connection, name) for name in connection.execute(NAMES).scalars().all()]

    def replay(self, account: str, key: str) -> str | None:
        """The released text of the newest committed request with this key, or None. Free: it was released before.

        An empty key is never replayed.
        """
        if not key:
            return None
        with self._turn(writing=False) as connection:
            found = connection.execute(RELEASED, {"name": account, "key": key}).first()
        if found is None:
            return None
        if found.text is None or sha256(found.text) != found.released:
            raise self._damaged(found.seq, "its released text was changed or removed")
        return found.text

    def thread(self, account: str, key: str, after: int = 0) -> list[tuple[Entry, str | None]]:
        """The entries of an account with this key that came after entry `after`, oldest first, with the text of each commit."""
        with self._turn(writing=False) as connection:
            rows = connection.execute(THREAD, {"name": account, "key": key, "after": after}).all()
        for row in rows:
            self._check(row)
            if row.kind == "commit" and (row.text is None or sha256(row.text) != row.released):
                raise self._damaged(row.seq, "its released text was changed or removed")
        return [(to_entry(row), row.text) for row in rows]

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
        with self._turn(writing=True) as connection:
            head, latest = self._open_ends(connection, account)
            if not amount and (not key or connection.execute(COVER, {"name": account, "key": key}).first() is None):
                raise LedgerError("nothing was paid for this key yet. Reserve an amount for it first.")
            left = latest.budget - latest.spent
            if amount > left:
                currency = self._standing(connection, account).currency
                raise BudgetExceeded(account, currency, float(from_units(amount)), float(from_units(left)))
            entry = self._append(
                connection, head, account=account, kind="reserve", amount=amount, **texts,
                budget=latest.budget, spent=latest.spent + amount, bounded=latest.bounded,
            )  # fmt: skip
        return Reservation(entry.seq, entry.account, entry.amount, entry.hash)

    def commit(self, reservation: Reservation, released: str) -> Entry:
        """Store what was released for a reservation, once."""
        checked_text("the released text", released)
        with self._turn(writing=True) as connection:
            related = connection.execute(PAID, {"number": reservation.seq}).all()
            paid = next((row for row in related if row.hash == reservation.hash), None)
            if paid is None or paid.kind != "reserve":
                raise LedgerError(
                    f"reservation {reservation.seq} of account {reservation.account!r} is not in this ledger. "
                    "Commit to the ledger that made the reservation."
                )
            if len(related) > 1:
                raise LedgerError(
                    f"reservation {reservation.seq} of account {reservation.account!r} was committed before. "
                    "Reserve again for another release."
                )
            head, latest = self._open_ends(connection, paid.account)
            entry = self._append(
                connection, head, account=paid.account, kind="commit", refers_to=paid.seq, key=paid.key, by=paid.by,
                purpose=paid.purpose, released=sha256(released),
                budget=latest.budget, spent=latest.spent, bounded=latest.bounded,
            )  # fmt: skip
            connection.execute(RELEASES.insert(), {"seq": entry.seq, "text": released})
        return entry

    def not_private(self, account: str, why: str) -> Entry:
        """Record that something without a guarantee happened to this private object: its total is not bounded any more."""
        checked_text("why", why, required=True)
        with self._turn(writing=True) as connection:
            head, latest = self._open_ends(connection, account)
            return self._append(
                connection, head, account=account, kind="not private", purpose=why,
                budget=latest.budget, spent=latest.spent, bounded=0,
            )  # fmt: skip

    def raise_budget(self, account: str, budget: int, *, by: str, purpose: str) -> Account:
        """Grant the account a larger budget, on record. A budget is never lowered and what was spent is never reset."""
        budget = checked_units("budget", budget)
        checked_text("by", by, required=True)
        checked_text("purpose", purpose, required=True)
        with self._turn(writing=True) as connection:
            head, latest = self._open_ends(connection, account)
            if budget <= latest.budget:
                raise LedgerError(
                    f"the budget of account {account!r} is {show(latest.budget)} and can only be raised, not set to "
                    f"{show(budget)}. Give the new total, above {show(latest.budget)}."
                )
            self._append(
                connection, head, account=account, kind="raise", amount=budget - latest.budget, by=by, purpose=purpose,
                budget=budget, spent=latest.spent, bounded=latest.bounded,
            )  # fmt: skip
            return self._standing(connection, account)

    def history(self, account: str | None = None) -> list[Entry]:
        """The entries of one account, or of all, oldest first."""
        asked = select(ENTRIES).order_by(ENTRIES.c.seq)
        with self._turn(writing=False) as connection:
            if account is not None:
                self._open_ends(connection, account)
                asked = asked.where(ENTRIES.c.account == account)
            return [to_entry(row) for row in connection.execute(asked)]

    def contains(self, hash: str) -> bool:
        """Whether the entry with this hash, as carried by a certificate, is in this ledger."""
        with self._turn(writing=False) as connection:
            return connection.execute(KNOWN_HASH, {"hash": hash}).first() is not None

    def verify(self) -> VerifyResult:
        """Recount the whole ledger from its first entry, trusting no stored total.

        Finds an edited, removed, moved or added entry, a changed release, totals that do not add up and an account that paid
        more than its budget. It cannot find that the newest entries were cut off: compare `head`, or ask `contains` for the
        hashes that certificates carry.
        """
        count = Recount(self._start or "")
        try:
            with self._turn(writing=False) as connection:
                for row in connection.execute(WITH_TEXT):
                    fault = count.fault(row)
                    if fault:
                        return VerifyResult(False, count.entries, count.entries + 1, fault, count.head)
                orphan = connection.execute(ORPHANS).scalar()
                if orphan is not None:
                    return VerifyResult(False, count.entries, orphan, f"released text {orphan} belongs to no entry", count.head)
                damage = self._store.damage(connection)
        except LedgerCorrupt as error:
            return VerifyResult(False, count.entries, count.entries + 1, str(error), count.head)
        if damage:
            return VerifyResult(False, count.entries, None, damage, count.head)
        return VerifyResult(True, count.entries, None, f"{count.entries} entries verify", count.head)

    def _append(self, connection: Connection, head: Row[Any] | None, **values: Any) -> Entry:
        row = {
            "seq": 1 if head is None else head.seq + 1, "amount": 0, "refers_to": None, "by": "", "purpose": "", "request": "",
            "key": "", "released": "", **values, "day": today(), "previous": self._start if head is None else head.hash,
        }  # fmt: skip
        row["hash"] = entry_hash(row)
        connection.execute(INSERT, row)
        return Entry(**{**row, "bounded": bool(row["bounded"])})

    def _ends(self, connection: Connection, name: str) -> tuple[Row[Any] | None, Row[Any] | None]:
        """The newest entry of all and the newest of one account, which holds its standing; checked, as charges rest on them."""
        rows = connection.execute(ENDS, {"name": name}).all()
        for row in rows:
            self._check(row)
        latest = next((row for row in rows if row.account == name), None)
        return (rows[-1] if rows else None), latest

    def _open_ends(self, connection: Connection, name: str) -> tuple[Row[Any] | None, Row[Any]]:
        head, latest = self._ends(connection, name)
        if latest is None:
            known = ", ".join(repr(other) for other in connection.execute(NAMES).scalars()) or "none yet"
            raise LedgerError(f"account {name!r} is not in this ledger. Known accounts: {known}. Open it with its budget first.")
        return head, latest

    def _check(self, row: Row[Any]) -> None:
        if entry_hash(row._mapping) != row.hash:
            raise self._damaged(row.seq, "its hash does not match what is stored")

    def _standing(self, connection: Connection, name: str) -> Account:
        _, latest = self._open_ends(connection, name)
        first = connection.execute(FIRST, {"name": name}).one()
        self._check(first)
        terms = json.loads(first.request)
        return Account(
            name, terms["currency"], terms["delta"], terms["relation"], terms["unit"],
            latest.budget, latest.spent, bool(latest.bounded),
        )  # fmt: skip

    def _damaged(self, seq: int, why: str) -> LedgerCorrupt:
        return LedgerCorrupt(
            f"entry {seq} of ledger {self.path!r} was altered: {why}. Run `pellucid ledger verify`, and restore the file from a "
            "backup; nothing was written."
        )

    @contextmanager
    def _turn(self, *, writing: bool) -> Iterator[Connection]:
        """One transaction: all of it is on disk when the block ends, or none of it."""
        with self._lock:
            connection = self._connected()
            if connection.in_transaction():
                raise LedgerUnavailable("the ledger was called from inside its own transaction; try again after it returns.")
            try:
                self._patiently(lambda: self._store.begin(connection, writing))
                yield connection
                connection.commit()
            except DBAPIError as error:
                self._abandon(connection)
                if self.durable:
                    # After a failed write SQLite's state is unknown; a new connection starts from what is on disk.
                    self._disconnect()
                raise self._store.explain(error) from None
            except BaseException:
                self._abandon(connection)
                raise

    def _abandon(self, connection: Connection) -> None:
        with suppress(DBAPIError):
            connection.rollback()

    def _patiently(self, act: Callable[[], None]) -> None:
        """SQLite gives up at once on some locks (switching to WAL, recovery after a crash) without its own waiting."""
        deadline = time.monotonic() + self._store.busy_seconds
        while True:
            try:
                return act()
            except DBAPIError as error:
                if not self._store.is_locked(error) or time.monotonic() >= deadline:
                    raise
                time.sleep(0.005 + 0.01 * secrets.randbelow(1000) / 1000)

    def _connected(self) -> Connection:
        if self._closed:
            raise LedgerError("this ledger was closed. Open it again.")
        if self._connection is None:
            self._connection = self._connect()
            self._pid = os.getpid()
            self._file = self._file_identity()
        elif self._pid != os.getpid():
            # A copy of the accounts in a forked process could spend the budget a second time.
            raise LedgerUnavailable("an in-memory ledger belongs to the process that made it. Give it a file to share it.")
        elif self._file != self._file_identity():
            # SQLite would go on writing to the file that was removed, and the charges would be lost.
            raise LedgerUnavailable(
                f"ledger {self.path!r} was removed or replaced while it was open. Put the file back and open it again; "
                "nothing was written."
            )
        return self._connection

    def _file_identity(self) -> tuple[int, int] | None:
        if self.path is None:
            return None
        try:
            found = os.stat(self.path)
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def _connect(self) -> Connection:
        self._check_place()
        connection: Connection | None = None
        try:
            connection = self._store.engine().connect()
            opened = connection
            self._patiently(lambda: self._prepare(opened))
            return connection
        except BaseException as error:
            if connection is not None:
                with suppress(DBAPIError):
                    connection.close()
            if isinstance(error, DBAPIError):
                raise self._store.explain(error) from None
            raise

    def _check_place(self) -> None:
        if self.path is None:
            return
        parent = os.path.dirname(self.path)
        if not os.path.isdir(parent):
            raise LedgerUnavailable(f"there is no directory {parent!r} for the ledger. Create it, or give another path.")
        if self._start is not None and not os.path.exists(self.path):
            raise LedgerUnavailable(f"ledger {self.path!r} was removed. Put the file back; nothing was written.")

    def _prepare(self, connection: Connection) -> None:
        """Make a new ledger of an empty file; refuse a file of another kind before anything in it is changed."""
        try:
            fresh = self._recognise(connection)
            connection.rollback()
            self._store.make_durable(connection)
            connection.rollback()
            if fresh:
                self._store.begin(connection, writing=True)
                # Another process may have made the ledger since.
                if self._recognise(connection):
                    TABLES.create_all(connection, checkfirst=False)
                    connection.execute(FORMAT.insert(), {"version": VERSION, "chain": secrets.token_hex(16)})
                connection.commit()
                self._recognise(connection)
        finally:
            self._abandon(connection)

    def _recognise(self, connection: Connection) -> bool:
        """Whether the file is empty. A ledger sets where its chain starts; anything else is refused."""
        names = set(sa.inspect(connection).get_table_names())
        if not names:
            return True
        if not names >= set(TABLES.tables):
            raise LedgerCorrupt(f"{self.path!r} is a database but not a Pellucid ledger. Give the path of another file.")
        found = connection.execute(select(FORMAT)).all()
        if len(found) != 1 or found[0].version != VERSION:
            version = found[0].version if len(found) == 1 else "none"
            raise LedgerCorrupt(
                f"ledger {self.path!r} has format {version}; this Pellucid reads format {VERSION}. "
                "Open it with the Pellucid that wrote it."
            )
        # The random name keeps two ledgers with equal entries from having equal hashes.
        start = sha256(f"pellucid ledger {found[0].version} {found[0].chain}")
        if self._start not in (None, start):
            raise LedgerUnavailable(f"{self.path!r} is another ledger than the one opened before. Put the first one back.")
        self._start = start
        connection.execute(HEAD).first()
        return False

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(DBAPIError):
                connection.close()


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


_living: weakref.WeakSet[Ledger] = weakref.WeakSet()
_forking: list[Ledger] = []
_roll = threading.RLock()


def _before_fork() -> None:
    # SQLite counts its file locks per process, in memory that a fork copies. A child of a process with an open connection
    # believes it holds locks it does not hold, even on a connection of its own: when the parent then closes, the log that the
    # child writes to is deleted and its charges are lost. So no file is open while a process forks.
    _roll.acquire()
    for ledger in list(_living):
        ledger._lock.acquire()
        _forking.append(ledger)
        if ledger.durable:
            ledger._disconnect()


def _after_fork() -> None:
    while _forking:
        _forking.pop()._lock.release()
    _roll.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
