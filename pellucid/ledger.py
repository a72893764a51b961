"""The ledger: what each private object may spend, what was spent, by whom and why, and what was released for it.

An *account* is one named private object with a budget in one currency: "epsilon" (pure ε) or "rho" (zCDP). A release is paid
for in three steps: `reserve` writes the charge to disk, the caller runs, `commit` stores the released text. A charge is on
disk before `reserve` returns, so a crash can lose a release but never a charge, and nothing is ever refunded. All processes
that open one file take turns, so no two of them can spend the same budget. An identical request is answered from `replay`,
free, because what was released once is public.

Nothing is edited or removed. Entries form one chain per file: each holds the hash of the one before it, and its own hash
covers everything stored with it. `verify` recounts the whole file. A chain cannot show from the inside that its *last*
entries were cut off, that it was replaced by an older copy, or that somebody rewrote it from some point on; certificates
carry the hash of their charge, so an auditor who holds one asks `contains(hash)`.

Amounts are integers, `SCALE` to one unit of ε or ρ: charges are rounded up, budgets down, and sums are exact. The day of an
entry is kept, not the moment, because the moment would tell how long a run over private data took.

Copy a ledger in use with SQLite's own backup. Until it is closed its newest entries are in the `-wal` file beside it, and
reading the file in a process that has it open makes SQLite lose its locks.

>>> ledger = Ledger(None)
>>> account = ledger.open_account("ward-7", currency="epsilon", budget=2 * SCALE, delta="0", relation="replace", unit="patient")
>>> paid = ledger.reserve("ward-7", charge_units(Fraction(1, 2)), key="k1", request="{}", by="Ada", purpose="ward report")
>>> entry = ledger.commit(paid, '{"y": [1, 2]}')
>>> ledger.replay("ward-7", "k1")
'{"y": [1, 2]}'
>>> from_units(ledger.account("ward-7").remaining)
Fraction(3, 2)
>>> ledger.verify().ok, ledger.contains(paid.hash), ledger.durable
(True, True, False)
"""

from __future__ import annotations

import hashlib
import json
import math
import operator
import os
import secrets
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column, Connection, Integer, Row, Table, Text, bindparam, select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from pellucid.errors import AccountMismatch, BudgetExceeded, LedgerCorrupt, LedgerError, LedgerUnavailable

SCALE = 10**12
"""Stored integers per unit of ε or ρ."""

CURRENCIES = ("epsilon", "rho")
VERSION = 1

# The widest integer that SQLite and PostgreSQL both store exactly.
_LARGEST = 2**63 - 1


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
    currency: str
    delta: str
    relation: str
    unit: str
    budget: int
    spent: int
    bounded: bool
    """False once something not private happened to this object: its total is no longer bounded by what was spent."""

    @property
    def remaining(self) -> int:
        return self.budget - self.spent


@dataclass(frozen=True)
class Entry:
    """One line of the ledger. `budget`, `spent` and `bounded` are the account's standing after it.

    `kind` is "open" (amount: the budget), "reserve" (the charge), "commit" (`refers_to` the reserve it completes), "raise"
    (what was added to the budget) or "not private" (`purpose` says what happened).
    """

    seq: int
    account: str
    kind: str
    amount: int
    refers_to: int | None
    by: str
    purpose: str
    day: str
    request: str
    key: str
    budget: int
    spent: int
    bounded: bool
    released: str
    """SHA-256 of the released text; empty unless `kind` is "commit"."""
    previous: str
    hash: str


@dataclass(frozen=True)
class Reservation:
    """A charge that is on disk and waits for its release."""

    seq: int
    account: str
    amount: int
    hash: str


@dataclass(frozen=True)
class VerifyResult:
    """What a recount of the whole ledger found. `head` is the hash of the last good entry."""

    ok: bool
    entries: int
    first_bad: int | None
    message: str
    head: str


_tables = sa.MetaData()
# SQLite makes a column its row number only when the type is spelt INTEGER; other databases need the wide type.
_Number = sa.BigInteger().with_variant(Integer(), "sqlite")

_format = Table(
    "pellucid_ledger",
    _tables,
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("chain", Text, nullable=False),
)
_entries = Table(
    "entries",
    _tables,
    Column("seq", _Number, primary_key=True, autoincrement=False),
    Column("account", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("amount", _Number, nullable=False),
    Column("refers_to", _Number),
    Column("by", Text, nullable=False),
    Column("purpose", Text, nullable=False),
    Column("day", Text, nullable=False),
    Column("request", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("budget", _Number, nullable=False),
    Column("spent", _Number, nullable=False),
    Column("bounded", Integer, nullable=False),
    Column("released", Text, nullable=False),
    Column("previous", Text, nullable=False),
    Column("hash", Text, nullable=False),
)
_releases = Table(
    "releases",
    _tables,
    Column("seq", _Number, primary_key=True, autoincrement=False),
    Column("text", Text, nullable=False),
)
# What a charge waits for is the pages it makes the disk sync, and each index is one more: so hashes, which are looked up by
# auditors only, have none, and two indexes leave out the entries they are not about. The literal is for SQLite, which does
# not use such an index when the value is a parameter.
_IS_COMMIT = _entries.c.kind == sa.literal_column("'commit'")
_COMMITS: dict[str, Any] = {"sqlite_where": _IS_COMMIT, "postgresql_where": _IS_COMMIT}
_REFERS = _entries.c.refers_to.is_not(None)
sa.Index("entries_of_account", _entries.c.account, _entries.c.seq)
sa.Index("commits_by_key", _entries.c.account, _entries.c.key, _entries.c.seq, **_COMMITS)
sa.Index("one_commit_each", _entries.c.refers_to, unique=True, sqlite_where=_REFERS, postgresql_where=_REFERS)

_HASHED = tuple(column.name for column in _entries.columns if column.name != "hash")
_INSERT = _entries.insert()
_HEAD = select(_entries).order_by(_entries.c.seq.desc()).limit(1)
_ENDS = (
    select(_entries)
    .where(
        _entries.c.seq.in_(
            [
                select(sa.func.max(_entries.c.seq)).scalar_subquery(),
                select(sa.func.max(_entries.c.seq)).where(_entries.c.account == bindparam("name")).scalar_subquery(),
            ]
        )
    )
    .order_by(_entries.c.seq)
)
_FIRST = select(_entries).where(_entries.c.account == bindparam("name")).order_by(_entries.c.seq).limit(1)
_PAID = select(_entries).where((_entries.c.seq == bindparam("number")) | (_entries.c.refers_to == bindparam("number")))
_NAMES = select(_entries.c.account).where(_entries.c.kind == "open").order_by(_entries.c.seq)
_KNOWN_HASH = select(_entries.c.seq).where(_entries.c.hash == bindparam("hash"))
_RELEASED = (
    select(_entries.c.seq, _entries.c.released, _releases.c.text)
    .outerjoin_from(_entries, _releases, _releases.c.seq == _entries.c.seq)
    .where(_entries.c.account == bindparam("name"), _entries.c.key == bindparam("key"), _IS_COMMIT)
    .order_by(_entries.c.seq.desc())
    .limit(1)
)
_WITH_TEXT = (
    select(_entries, _releases.c.text)
    .outerjoin_from(_entries, _releases, _releases.c.seq == _entries.c.seq)
    .order_by(_entries.c.seq)
)
_ORPHANS = (
    select(_releases.c.seq)
    .outerjoin_from(_releases, _entries, _releases.c.seq == _entries.c.seq)
    .where(_entries.c.seq.is_(None))
    .limit(1)
)


class _Sqlite:
    """Everything the ledger needs that is particular to SQLite; another database brings its own class of this shape."""

    LOCKED = ("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_PROTOCOL")
    NO_PLACE = ("SQLITE_CANTOPEN", "SQLITE_READONLY", "SQLITE_PERM", "SQLITE_AUTH")
    NO_ROOM = ("SQLITE_FULL", "SQLITE_IOERR", "SQLITE_NOMEM")

    def __init__(self, path: str | None, busy_seconds: float):
        self.path, self.busy_seconds = path, busy_seconds

    def engine(self) -> sa.Engine:
        # isolation_level None: the driver's own implicit BEGIN is a deferred one, which lets two processes read the same balance.
        return sa.create_engine(
            sa.URL.create("sqlite", database=self.path or ":memory:"),
            poolclass=NullPool,
            hide_parameters=True,
            connect_args={"isolation_level": None, "timeout": self.busy_seconds, "check_same_thread": False},
        )

    def make_durable(self, connection: Connection) -> None:
        mode = connection.exec_driver_sql("PRAGMA journal_mode=WAL").scalar()
        # FULL syncs the log at every commit (NORMAL loses charges on power failure); macOS needs fullfsync for a real one.
        for setting in ("synchronous=FULL", "fullfsync=ON", "checkpoint_fullfsync=ON"):
            connection.exec_driver_sql(f"PRAGMA {setting}")
        if self.path is not None and mode != "wal":
            raise LedgerUnavailable(
                f"the place of ledger {self.path!r} does not support SQLite's write-ahead log (journal mode {mode!r}). "
                "Put the ledger on a local disk; nothing was written."
            )

    def begin(self, connection: Connection, writing: bool) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")

    def damage(self, connection: Connection) -> str | None:
        found = connection.exec_driver_sql("PRAGMA integrity_check(1)").scalar()
        return None if found == "ok" else "the database file is damaged (PRAGMA integrity_check tells more)"

    def is_locked(self, error: DBAPIError) -> bool:
        return _code(error).startswith(self.LOCKED)

    def explain(self, error: DBAPIError) -> LedgerError:
        code, place = _code(error), f"ledger {self.path!r}" if self.path is not None else "the in-memory ledger"
        if code.startswith(self.LOCKED):
            return LedgerUnavailable(
                f"{place} stayed locked by another program for {self.busy_seconds:g} s. Let that program finish or end it, "
                "or open the ledger with a larger busy_seconds; nothing was written."
            )
        if code.startswith(self.NO_PLACE):
            return LedgerUnavailable(
                f"{place} cannot be written ({code}). Give a file (not a directory) that this user may write, in a directory "
                "where it may create files; nothing was written."
            )
        if code.startswith(self.NO_ROOM):
            return LedgerUnavailable(f"{place} could not be stored ({code}). Free disk space or repair the disk, then try again.")
        return LedgerCorrupt(
            f"{place} is damaged, or is not a Pellucid ledger ({code or 'unreadable text'}). Restore it from a backup, or give "
            "the path of another file; do not start an empty ledger for the same people."
        )


def _code(error: DBAPIError) -> str:
    return getattr(error.orig, "sqlite_errorname", None) or ""


def _only_grows(table: Table, clash: str) -> None:
    """Refuse edits below this library too. An INSERT OR REPLACE removes rows without a DELETE, hence the third trigger."""
    rules = {
        "update": "BEFORE UPDATE",
        "delete": "BEFORE DELETE",
        "replace": "BEFORE INSERT",
    }
    for name, moment in rules.items():
        when = f"WHEN {clash} " if name == "replace" else ""
        text = (
            f"CREATE TRIGGER {table.name}_no_{name} {moment} ON {table.name} {when}"
            "BEGIN SELECT RAISE(ABORT, 'a ledger only grows'); END"
        )
        sa.event.listen(table, "after_create", sa.DDL(text).execute_if(dialect="sqlite"))


_only_grows(_format, "EXISTS (SELECT 1 FROM pellucid_ledger)")
_only_grows(_releases, "EXISTS (SELECT 1 FROM releases WHERE seq = NEW.seq)")
_only_grows(
    _entries,
    "NEW.seq <> (SELECT coalesce(max(seq), 0) + 1 FROM entries) "
    "OR EXISTS (SELECT 1 FROM entries WHERE refers_to = NEW.refers_to)",
)


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _entry_hash(values: Any) -> str:
    # JSON keeps neighbouring fields apart, so that no text can be moved from one column to the next; `default` is for
    # columns whose type was tampered with, which must give another hash and not an exception.
    return _sha256(json.dumps([values[name] for name in _HASHED], separators=(",", ":"), default=repr))


def _entry(row: Row[Any]) -> Entry:
    values = {name: row._mapping[name] for name in (*_HASHED, "hash")}
    return Entry(**{**values, "bounded": bool(values["bounded"])})


def _today() -> str:
    return datetime.now(UTC).date().isoformat()


def _text(what: str, value: str, *, required: bool = False) -> str:
    if not isinstance(value, str):
        raise LedgerError(f"{what} must be text, not {type(value).__name__}.")
    if required and not value.strip():
        raise LedgerError(f"{what} must not be empty: the ledger records it for whoever reads the account later.")
    if "\0" in value or any("\ud800" <= c <= "\udfff" for c in value if not c.isascii()):
        raise LedgerError(f"{what} holds characters that cannot be stored; give plain Unicode text without NUL characters.")
    return value


def _units(what: str, value: int) -> int:
    try:
        units = operator.index(value)
    except TypeError:
        raise LedgerError(f"{what} must be a whole number of units, not {type(value).__name__}; use charge_units().") from None
    if isinstance(value, bool) or not 0 < units <= _LARGEST:
        raise LedgerError(f"{what} must be above 0 and at most {_LARGEST // SCALE} in ε or ρ.")
    return units


def _show(units: int) -> str:
    return f"{float(from_units(units)):.12g}"


def _terms(currency: str, budget: int, delta: str, relation: str, unit: str) -> dict[str, Any]:
    if currency not in CURRENCIES:
        raise LedgerError(f"currency {currency!r} is not known; use one of {', '.join(CURRENCIES)}.")
    try:
        value = Fraction(_text("delta", delta))
    except (ValueError, ZeroDivisionError):
        raise LedgerError(f"delta {delta!r} is not a number; give decimal text such as '1e-6'.") from None
    if not 0 <= value < 1 or (currency == "epsilon" and value != 0):
        raise LedgerError(f"delta {delta!r} does not fit a {currency} account; a pure ε account has delta '0', others below 1.")
    _text("relation", relation, required=True)
    return {
        "currency": currency,
        "budget": _units("budget", budget),
        "delta": delta,
        "relation": relation,
        "unit": _text("unit", unit),
    }


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
        self._store = _Sqlite(self.path, float(busy_seconds))
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
        _text("the account's name", name, required=True)
        asked = _terms(currency, budget, delta, relation, unit)
        with self._turn(writing=False) as connection:
            known = connection.execute(_FIRST, {"name": name}).first() is not None
        with self._turn(writing=not known) as connection:
            first = connection.execute(_FIRST, {"name": name}).first()
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
            return [self._standing(connection, name) for name in connection.execute(_NAMES).scalars().all()]

    def replay(self, account: str, key: str) -> str | None:
        """The released text of the newest committed request with this key, or None. Free: it was released before.

        An empty key is never replayed.
        """
        if not key:
            return None
        with self._turn(writing=False) as connection:
            found = connection.execute(_RELEASED, {"name": account, "key": key}).first()
        if found is None:
            return None
        if found.text is None or _sha256(found.text) != found.released:
            raise self._damaged(found.seq, "its released text was changed or removed")
        return found.text

    def reserve(self, account: str, amount: int, *, key: str, request: str, by: str = "", purpose: str = "") -> Reservation:
        """Charge the account. When this returns the charge is on disk and stays spent, whatever happens next.

        BudgetExceeded is raised with nothing written. Call this before any data is read.
        """
        amount = _units("the charge", amount)
        texts = {"key": _text("key", key), "request": _text("request", request), "by": _text("by", by)}
        texts["purpose"] = _text("purpose", purpose)
        with self._turn(writing=True) as connection:
            head, latest = self._open_ends(connection, account)
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
        _text("the released text", released)
        with self._turn(writing=True) as connection:
            related = connection.execute(_PAID, {"number": reservation.seq}).all()
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
                purpose=paid.purpose, released=_sha256(released),
                budget=latest.budget, spent=latest.spent, bounded=latest.bounded,
            )  # fmt: skip
            connection.execute(_releases.insert(), {"seq": entry.seq, "text": released})
        return entry

    def not_private(self, account: str, why: str) -> Entry:
        """Record that something without a guarantee happened to this private object: its total is not bounded any more."""
        _text("why", why, required=True)
        with self._turn(writing=True) as connection:
            head, latest = self._open_ends(connection, account)
            return self._append(
                connection, head, account=account, kind="not private", purpose=why,
                budget=latest.budget, spent=latest.spent, bounded=0,
            )  # fmt: skip

    def raise_budget(self, account: str, budget: int, *, by: str, purpose: str) -> Account:
        """Grant the account a larger budget, on record. A budget is never lowered and what was spent is never reset."""
        budget = _units("budget", budget)
        _text("by", by, required=True)
        _text("purpose", purpose, required=True)
        with self._turn(writing=True) as connection:
            head, latest = self._open_ends(connection, account)
            if budget <= latest.budget:
                raise LedgerError(
                    f"the budget of account {account!r} is {_show(latest.budget)} and can only be raised, not set to "
                    f"{_show(budget)}. Give the new total, above {_show(latest.budget)}."
                )
            self._append(
                connection, head, account=account, kind="raise", amount=budget - latest.budget, by=by, purpose=purpose,
                budget=budget, spent=latest.spent, bounded=latest.bounded,
            )  # fmt: skip
            return self._standing(connection, account)

    def history(self, account: str | None = None) -> list[Entry]:
        """The entries of one account, or of all, oldest first."""
        asked = select(_entries).order_by(_entries.c.seq)
        with self._turn(writing=False) as connection:
            if account is not None:
                self._open_ends(connection, account)
                asked = asked.where(_entries.c.account == account)
            return [_entry(row) for row in connection.execute(asked)]

    def contains(self, hash: str) -> bool:
        """Whether the entry with this hash, as carried by a certificate, is in this ledger."""
        with self._turn(writing=False) as connection:
            return connection.execute(_KNOWN_HASH, {"hash": hash}).first() is not None

    def verify(self) -> VerifyResult:
        """Recount the whole ledger from its first entry, trusting no stored total.

        Finds an edited, removed, moved or added entry, a changed release, totals that do not add up and an account that paid
        more than its budget. It cannot find that the newest entries were cut off: compare `head`, or ask `contains` for the
        hashes that certificates carry.
        """
        count = _Recount(self._start or "")
        try:
            with self._turn(writing=False) as connection:
                for row in connection.execute(_WITH_TEXT):
                    fault = count.fault(row)
                    if fault:
                        return VerifyResult(False, count.entries, count.entries + 1, fault, count.head)
                orphan = connection.execute(_ORPHANS).scalar()
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
            "key": "", "released": "", **values, "day": _today(), "previous": self._start if head is None else head.hash,
        }  # fmt: skip
        row["hash"] = _entry_hash(row)
        connection.execute(_INSERT, row)
        return Entry(**{**row, "bounded": bool(row["bounded"])})

    def _ends(self, connection: Connection, name: str) -> tuple[Row[Any] | None, Row[Any] | None]:
        """The newest entry of all and the newest of one account, which holds its standing; checked, as charges rest on them."""
        rows = connection.execute(_ENDS, {"name": name}).all()
        for row in rows:
            self._check(row)
        latest = next((row for row in rows if row.account == name), None)
        return (rows[-1] if rows else None), latest

    def _open_ends(self, connection: Connection, name: str) -> tuple[Row[Any] | None, Row[Any]]:
        head, latest = self._ends(connection, name)
        if latest is None:
            known = ", ".join(repr(other) for other in connection.execute(_NAMES).scalars()) or "none yet"
            raise LedgerError(f"account {name!r} is not in this ledger. Known accounts: {known}. Open it with its budget first.")
        return head, latest

    def _check(self, row: Row[Any]) -> None:
        if _entry_hash(row._mapping) != row.hash:
            raise self._damaged(row.seq, "its hash does not match what is stored")

    def _standing(self, connection: Connection, name: str) -> Account:
        _, latest = self._open_ends(connection, name)
        first = connection.execute(_FIRST, {"name": name}).one()
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
                    _tables.create_all(connection, checkfirst=False)
                    connection.execute(_format.insert(), {"version": VERSION, "chain": secrets.token_hex(16)})
                connection.commit()
                self._recognise(connection)
        finally:
            self._abandon(connection)

    def _recognise(self, connection: Connection) -> bool:
        """Whether the file is empty. A ledger sets where its chain starts; anything else is refused."""
        names = set(sa.inspect(connection).get_table_names())
        if not names:
            return True
        if not names >= set(_tables.tables):
            raise LedgerCorrupt(f"{self.path!r} is a database but not a Pellucid ledger. Give the path of another file.")
        found = connection.execute(select(_format)).all()
        if len(found) != 1 or found[0].version != VERSION:
            version = found[0].version if len(found) == 1 else "none"
            raise LedgerCorrupt(
                f"ledger {self.path!r} has format {version}; this Pellucid reads format {VERSION}. "
                "Open it with the Pellucid that wrote it."
            )
        # The random name keeps two ledgers with equal entries from having equal hashes.
        start = _sha256(f"pellucid ledger {found[0].version} {found[0].chain}")
        if self._start not in (None, start):
            raise LedgerUnavailable(f"{self.path!r} is another ledger than the one opened before. Put the first one back.")
        self._start = start
        connection.execute(_HEAD).first()
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
            show = _show if term == "budget" else repr
            wrong.append(f"{term} is {show(allowed[0])} in the ledger and {show(asked[term])} was asked")
    if wrong:
        raise AccountMismatch(
            f"account {account.name!r} exists on other terms: {'; '.join(wrong)}. Reopen it as it is stored; a larger budget is "
            "granted with raise_budget (`pellucid ledger raise`), and another private object needs another name."
        )


class _Recount:
    """Follows the chain and adds up every account again."""

    def __init__(self, start: str):
        self.head, self.entries = start, 0
        self.standing: dict[str, tuple[int, int, int]] = {}
        self.waiting: dict[int, tuple[str, str]] = {}

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
        if _entry_hash(row._mapping) != row.hash:
            return f"entry {row.seq} was edited: its hash does not match what is stored"
        return None

    def _release_fault(self, row: Row[Any]) -> str | None:
        if row.kind == "commit" and (row.text is None or _sha256(row.text) != row.released):
            return f"the released text of entry {row.seq} was changed or removed"
        if row.kind != "commit" and (row.text is not None or row.released):
            return f"entry {row.seq} holds a released text and is not a commit"
        return None

    def _account_fault(self, row: Row[Any]) -> str | None:
        if not all(type(number) is int for number in (row.amount, row.budget, row.spent, row.bounded)):
            return f"entry {row.seq} holds an amount that is not a whole number"
        if (row.kind == "open") == (row.account in self.standing):
            return f"entry {row.seq} opens an account twice, or uses one that was never opened"
        if (row.amount > 0) != (row.kind in ("open", "reserve", "raise")) or row.amount < 0:
            return f"entry {row.seq} holds an amount that its kind does not allow"
        budget, spent, bounded = self.standing.get(row.account, (0, 0, 1))
        match row.kind:
            case "open" | "raise":
                budget += row.amount
            case "reserve":
                spent += row.amount
                self.waiting[row.seq] = (row.account, row.key)
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
