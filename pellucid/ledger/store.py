"""How a ledger lies in a database: tables, queries, triggers, hashes, and all that is particular to SQLite."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column, Connection, Integer, Row, Table, Text, bindparam, select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from ..errors import LedgerCorrupt, LedgerError, LedgerUnavailable
from .values import Entry

VERSION = 1

TABLES = sa.MetaData()
# SQLite makes a column its row number only when the type is spelt INTEGER; other databases need the wide type.
NUMBER = sa.BigInteger().with_variant(Integer(), "sqlite")

FORMAT = Table(
    "pellucid_ledger",
    TABLES,
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("chain", Text, nullable=False),
)
ENTRIES = Table(
    "entries",
    TABLES,
    Column("seq", NUMBER, primary_key=True, autoincrement=False),
    Column("account", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("amount", NUMBER, nullable=False),
    Column("refers_to", NUMBER),
    Column("by", Text, nullable=False),
    Column("purpose", Text, nullable=False),
    Column("day", Text, nullable=False),
    Column("request", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("budget", NUMBER, nullable=False),
    Column("spent", NUMBER, nullable=False),
    Column("bounded", Integer, nullable=False),
    Column("released", Text, nullable=False),
    Column("previous", Text, nullable=False),
    Column("hash", Text, nullable=False),
)
RELEASES = Table(
    "releases",
    TABLES,
    Column("seq", NUMBER, primary_key=True, autoincrement=False),
    Column("text", Text, nullable=False),
)
# What a charge waits for is the pages it makes the disk sync, and each index is one more: so hashes, which are looked up by
# auditors only, have none, and two indexes leave out the entries they are not about. The literal is for SQLite, which does
# not use such an index when the value is a parameter.
IS_COMMIT = ENTRIES.c.kind == sa.literal_column("'commit'")
COMMITS: dict[str, Any] = {"sqlite_where": IS_COMMIT, "postgresql_where": IS_COMMIT}
REFERS = ENTRIES.c.refers_to.is_not(None)
sa.Index("entries_of_account", ENTRIES.c.account, ENTRIES.c.seq)
sa.Index("commits_by_key", ENTRIES.c.account, ENTRIES.c.key, ENTRIES.c.seq, **COMMITS)
sa.Index("one_commit_each", ENTRIES.c.refers_to, unique=True, sqlite_where=REFERS, postgresql_where=REFERS)

HASHED = tuple(column.name for column in ENTRIES.columns if column.name != "hash")
INSERT = ENTRIES.insert()
HEAD = select(ENTRIES).order_by(ENTRIES.c.seq.desc()).limit(1)
ENDS = (
    select(ENTRIES)
    .where(
        ENTRIES.c.seq.in_(
            [
                select(sa.func.max(ENTRIES.c.seq)).scalar_subquery(),
                select(sa.func.max(ENTRIES.c.seq)).where(ENTRIES.c.account == bindparam("name")).scalar_subquery(),
            ]
        )
    )
    .order_by(ENTRIES.c.seq)
)
FIRST = select(ENTRIES).where(ENTRIES.c.account == bindparam("name")).order_by(ENTRIES.c.seq).limit(1)
PAID = select(ENTRIES).where((ENTRIES.c.seq == bindparam("number")) | (ENTRIES.c.refers_to == bindparam("number")))
NAMES = select(ENTRIES.c.account).where(ENTRIES.c.kind == "open").order_by(ENTRIES.c.seq)
KNOWN_HASH = select(ENTRIES.c.seq).where(ENTRIES.c.hash == bindparam("hash"))
RELEASED = (
    select(ENTRIES.c.seq, ENTRIES.c.released, RELEASES.c.text)
    .outerjoin_from(ENTRIES, RELEASES, RELEASES.c.seq == ENTRIES.c.seq)
    .where(ENTRIES.c.account == bindparam("name"), ENTRIES.c.key == bindparam("key"), IS_COMMIT)
    .order_by(ENTRIES.c.seq.desc())
    .limit(1)
)
COVER = (
    select(ENTRIES.c.seq)
    .where(ENTRIES.c.account == bindparam("name"), ENTRIES.c.key == bindparam("key"), ENTRIES.c.kind == "reserve")
    .where(ENTRIES.c.amount > 0)
    .limit(1)
)
THREAD = (
    select(ENTRIES, RELEASES.c.text)
    .outerjoin_from(ENTRIES, RELEASES, RELEASES.c.seq == ENTRIES.c.seq)
    .where(ENTRIES.c.account == bindparam("name"), ENTRIES.c.seq > bindparam("after"), ENTRIES.c.key == bindparam("key"))
    .order_by(ENTRIES.c.seq)
)
WITH_TEXT = (
    select(ENTRIES, RELEASES.c.text).outerjoin_from(ENTRIES, RELEASES, RELEASES.c.seq == ENTRIES.c.seq).order_by(ENTRIES.c.seq)
)
ORPHANS = (
    select(RELEASES.c.seq)
    .outerjoin_from(RELEASES, ENTRIES, RELEASES.c.seq == ENTRIES.c.seq)
    .where(ENTRIES.c.seq.is_(None))
    .limit(1)
)


class Sqlite:
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


_only_grows(FORMAT, "EXISTS (SELECT 1 FROM pellucid_ledger)")
_only_grows(RELEASES, "EXISTS (SELECT 1 FROM releases WHERE seq = NEW.seq)")
_only_grows(
    ENTRIES,
    "NEW.seq <> (SELECT coalesce(max(seq), 0) + 1 FROM entries) "
    "OR EXISTS (SELECT 1 FROM entries WHERE refers_to = NEW.refers_to)",
)


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def entry_hash(values: Any) -> str:
    # JSON keeps neighbouring fields apart, so that no text can be moved from one column to the next; `default` is for
    # columns whose type was tampered with, which must give another hash and not an exception.
    return sha256(json.dumps([values[name] for name in HASHED], separators=(",", ":"), default=repr))


def to_entry(row: Row[Any]) -> Entry:
    values = {name: row._mapping[name] for name in (*HASHED, "hash")}
    return Entry(**{**values, "bounded": bool(values["bounded"])})
