"""How a ledger lies in a relational database: its tables, and turns as queries. Nothing here is particular to SQLite."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column, Connection, Integer, Row, Table, Text, bindparam, select

from .store import ReadingTurn, WritingTurn
from .values import Entry

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
    Column("pure", NUMBER),
    Column("pure_budget", NUMBER),
    Column("pure_spent", NUMBER),
    Column("scope", Text),
)
RELEASES = Table(
    "releases",
    TABLES,
    Column("seq", NUMBER, primary_key=True, autoincrement=False),
    Column("text", Text, nullable=False),
)
# What a charge waits for is the pages it makes the disk sync, and each index is one more: so hashes, which are looked up by
# auditors only, have none, and the others leave out the entries they are not about. The literal is for SQLite, which does
# not use such an index when the value is a parameter.
IS_COMMIT = ENTRIES.c.kind == sa.literal_column("'commit'")
COMMITS: dict[str, Any] = {"sqlite_where": IS_COMMIT, "postgresql_where": IS_COMMIT}
IS_RESERVE = ENTRIES.c.kind == sa.literal_column("'reserve'")
RESERVES: dict[str, Any] = {"sqlite_where": IS_RESERVE, "postgresql_where": IS_RESERVE}
REFERS = ENTRIES.c.refers_to.is_not(None)
IS_DECLARATION = ENTRIES.c.kind.in_([sa.literal_column("'table'"), sa.literal_column("'changed'")])
sa.Index("entries_of_account", ENTRIES.c.account, ENTRIES.c.seq)
sa.Index("commits_by_key", ENTRIES.c.account, ENTRIES.c.key, ENTRIES.c.seq, **COMMITS)
RESERVES_INDEX = sa.Index("reserves_by_key", ENTRIES.c.account, ENTRIES.c.key, ENTRIES.c.seq, **RESERVES)
sa.Index("one_commit_each", ENTRIES.c.refers_to, unique=True, sqlite_where=REFERS, postgresql_where=REFERS)
# By kind too: between two indexes that begin alike SQLite takes the one that happens to have been made last.
DECLARED: dict[str, Any] = {"sqlite_where": IS_DECLARATION, "postgresql_where": IS_DECLARATION}
DECLARATIONS_INDEX = sa.Index("declarations_by_kind", ENTRIES.c.account, ENTRIES.c.kind, ENTRIES.c.seq, **DECLARED)
HAS_SCOPE = ENTRIES.c.scope.is_not(None)
SCOPED: dict[str, Any] = {"sqlite_where": HAS_SCOPE, "postgresql_where": HAS_SCOPE}
SCOPES_INDEX = sa.Index("charges_for_parts", ENTRIES.c.account, ENTRIES.c.scope, ENTRIES.c.seq, **SCOPED)
LATER_INDEXES = (RESERVES_INDEX, DECLARATIONS_INDEX, SCOPES_INDEX)
"""What ledgers of before do not have."""

INSERT = ENTRIES.insert()
INSERT_TEXT = RELEASES.insert()
ALL = select(ENTRIES).order_by(ENTRIES.c.seq)
OF_ACCOUNT = ALL.where(ENTRIES.c.account == bindparam("name"))
FIRST = OF_ACCOUNT.limit(1)
# Not in order: SQLite would rather read the whole account in order than sort a few entries.
DECLARATIONS = select(ENTRIES).where(ENTRIES.c.account == bindparam("name"), IS_DECLARATION)
OF_PARTS = select(ENTRIES).where(ENTRIES.c.account == bindparam("name"), HAS_SCOPE, ENTRIES.c.seq > bindparam("after"))
ENDS = ALL.where(
    ENTRIES.c.seq.in_(
        [
            select(sa.func.max(ENTRIES.c.seq)).scalar_subquery(),
            select(sa.func.max(ENTRIES.c.seq)).where(ENTRIES.c.account == bindparam("name")).scalar_subquery(),
        ]
    )
)
CHARGE = select(ENTRIES).where((ENTRIES.c.seq == bindparam("number")) | (ENTRIES.c.refers_to == bindparam("number")))
NAMES = select(ENTRIES.c.account).where(ENTRIES.c.kind == "open").order_by(ENTRIES.c.seq)
KNOWN_HASH = select(ENTRIES.c.seq).where(ENTRIES.c.hash == bindparam("hash"))
BEGIN_SO = select(sa.func.count()).where(sa.func.substr(ENTRIES.c.hash, 1, bindparam("digits")) == bindparam("start"))
PAID = (
    select(ENTRIES.c.seq)
    .where(ENTRIES.c.account == bindparam("name"), ENTRIES.c.key == bindparam("key"), IS_RESERVE)
    .where(ENTRIES.c.amount > 0)
    .limit(1)
)
WITH_TEXT = select(ENTRIES, RELEASES.c.text).outerjoin_from(ENTRIES, RELEASES, RELEASES.c.seq == ENTRIES.c.seq)
EVERYTHING = WITH_TEXT.order_by(ENTRIES.c.seq)
OF_KEY = WITH_TEXT.where(ENTRIES.c.account == bindparam("name"), ENTRIES.c.key == bindparam("key"))
# Only charges and commits have a key. One after the other, so that each is found in the index that is about it.
AFTER = OF_KEY.where(ENTRIES.c.seq > bindparam("after"))
THREAD = sa.union_all(AFTER.where(IS_RESERVE), AFTER.where(IS_COMMIT)).order_by(sa.literal_column("1"))
UNKEYED = AFTER.order_by(ENTRIES.c.seq)
RELEASED = OF_KEY.where(IS_COMMIT).order_by(ENTRIES.c.seq.desc()).limit(1)
STRAY_TEXT = (
    select(RELEASES.c.seq)
    .outerjoin_from(RELEASES, ENTRIES, RELEASES.c.seq == ENTRIES.c.seq)
    .where(ENTRIES.c.seq.is_(None))
    .limit(1)
)

FIELDS = tuple(field.name for field in fields(Entry))


class SqlReadingTurn(ReadingTurn):
    """Queries in a transaction that the store began and will end."""

    def __init__(self, connection: Connection):
        self._connection = connection

    def ends(self, account: str) -> tuple[Entry | None, Entry | None]:
        found = [to_entry(row) for row in self._connection.execute(ENDS, {"name": account})]
        return (found[-1] if found else None), next((entry for entry in found if entry.account == account), None)

    def first(self, account: str) -> Entry | None:
        row = self._connection.execute(FIRST, {"name": account}).first()
        return None if row is None else to_entry(row)

    def names(self) -> list[str]:
        return list(self._connection.execute(NAMES).scalars())

    def entries(self, account: str | None = None) -> Iterator[Entry]:
        rows = self._connection.execute(ALL) if account is None else self._connection.execute(OF_ACCOUNT, {"name": account})
        return map(to_entry, rows)

    def everything(self) -> Iterator[tuple[Entry, str | None]]:
        return ((to_entry(row), row[-1]) for row in self._connection.execute(EVERYTHING))

    def thread(self, account: str, key: str, after: int = 0) -> list[tuple[Entry, str | None]]:
        rows = self._connection.execute(THREAD if key else UNKEYED, {"name": account, "key": key, "after": after})
        return [(to_entry(row), row[-1]) for row in rows]

    def newest_release(self, account: str, key: str) -> tuple[Entry, str | None] | None:
        row = self._connection.execute(RELEASED, {"name": account, "key": key}).first()
        return None if row is None else (to_entry(row), row.text)

    def declarations(self, account: str) -> list[Entry]:
        found = map(to_entry, self._connection.execute(DECLARATIONS, {"name": account}))
        return sorted(found, key=lambda entry: entry.seq)

    def of_parts(self, account: str, after: int = 0) -> list[Entry]:
        found = map(to_entry, self._connection.execute(OF_PARTS, {"name": account, "after": after}))
        return sorted(found, key=lambda entry: entry.seq)

    def has_parts(self, account: str) -> bool:
        return self._connection.execute(OF_PARTS.limit(1), {"name": account, "after": 0}).first() is not None

    def charge(self, seq: int) -> tuple[Entry | None, Entry | None]:
        found = [to_entry(row) for row in self._connection.execute(CHARGE, {"number": seq})]
        paid = next((entry for entry in found if entry.seq == seq), None)
        return paid, next((entry for entry in found if entry.refers_to == seq), None)

    def has_paid(self, account: str, key: str) -> bool:
        return self._connection.execute(PAID, {"name": account, "key": key}).first() is not None

    def contains(self, hash: str) -> bool:
        return self._connection.execute(KNOWN_HASH, {"hash": hash}).first() is not None

    def beginning(self, start: str) -> int:
        return int(self._connection.execute(BEGIN_SO, {"start": start, "digits": len(start)}).scalar_one())

    def stray_text(self) -> int | None:
        return self._connection.execute(STRAY_TEXT).scalar()


class SqlWritingTurn(SqlReadingTurn, WritingTurn):
    """The same, and insertions; that only the next entry can be inserted is for the database to see to."""

    newest: int | None = None
    """The number of the entry that was appended last in this turn."""

    def append(self, entry: Entry, text: str | None = None) -> None:
        self._connection.execute(INSERT, {**vars(entry), "bounded": int(entry.bounded)})
        if text is not None:
            self._connection.execute(INSERT_TEXT, {"seq": entry.seq, "text": text})
        self.newest = entry.seq


def to_entry(row: Row[Any]) -> Entry:
    # Past the constructor, which sets the fields of a frozen value one by one: a ledger is read a hundred thousand at a time.
    entry = object.__new__(Entry)
    values = vars(entry)
    values.update(zip(FIELDS, row))
    # A flag that is neither 0 nor 1 is handed on as it is: a bool of it would hide from the hash that it was edited.
    if type(values["bounded"]) is int and values["bounded"] in (0, 1):
        values["bounded"] = bool(values["bounded"])
    return entry
