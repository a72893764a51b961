"""The SQLite store: one file, any number of processes; or memory."""

from __future__ import annotations

import functools
import os
import secrets
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy import Connection, Table, select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from ..errors import LedgerCorrupt, LedgerError, LedgerUnavailable
from .chain import LATER, SCOPE, VERSION, start_of
from .spool import FileSpool, MemorySpool, Spool
from .store import LedgerStore
from .tables import ENTRIES, FORMAT, LATER_INDEXES, RELEASES, TABLES, SqlReadingTurn, SqlWritingTurn

T = TypeVar("T")
LOCKED = ("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_PROTOCOL")
NO_PLACE = ("SQLITE_CANTOPEN", "SQLITE_READONLY", "SQLITE_PERM", "SQLITE_AUTH")
NO_ROOM = ("SQLITE_FULL", "SQLITE_IOERR", "SQLITE_NOMEM")


class SqliteStore(LedgerStore):
    """Entries in one SQLite file, or in memory when `path` is None.

    A file may be opened by any number of processes and threads, and an open store may be carried through a fork; what is in
    memory belongs to one process. `busy_seconds` is how long to wait for the others. A file that does not exist, or is empty,
    becomes a new ledger with `create`, and is refused without.

    A turn's pages are in the file itself when the turn has ended, and page one counts the entries; so a copy of the file alone
    has them all, or counts more or fewer than it has. Ledgers that kept their newest entries in a log beside them (0.1.0) are
    converted when they are opened.
    """

    journal = "TRUNCATE"
    """How a turn is undone when it is cut short. Unlike that of DELETE, its end is synced to disk."""

    def __init__(self, path: str | os.PathLike[str] | None, busy_seconds: float = 30.0, create: bool = False):
        if path is not None and os.fspath(path) in ("", ":memory:"):
            raise LedgerError(f"ledger path {os.fspath(path)!r} is no file; give a file, or None for a ledger in memory.")
        self.place = None if path is None else os.path.abspath(os.fspath(path))
        self.durable = self.place is not None
        self.start = ""
        self._busy_seconds, self._create = float(busy_seconds), create or path is None
        self._lock = threading.RLock()
        self._connection: Connection | None = None
        self._file: tuple[int, int] | None = None
        self._pid = os.getpid()
        self._closed = False
        with _roll:
            _living.add(self)
        with self._lock:
            self._connected()

    @functools.cached_property
    def spool(self) -> Spool:
        return MemorySpool() if self.place is None else FileSpool(f"{self.place}.pending")

    @contextmanager
    def reading(self) -> Iterator[SqlReadingTurn]:
        with self._transaction("BEGIN") as connection:
            yield SqlReadingTurn(connection)

    @contextmanager
    def writing(self) -> Iterator[SqlWritingTurn]:
        # A plain BEGIN takes the lock at the first insertion, when two processes may have read the same balance.
        with self._transaction("BEGIN IMMEDIATE") as connection:
            turn = SqlWritingTurn(connection)
            yield turn
            if turn.newest is not None:
                _count(connection, turn.newest)

    def damage(self) -> str | None:
        with self._transaction("BEGIN") as connection:
            self._check_count(connection)
            found = connection.exec_driver_sql("PRAGMA integrity_check(1)").scalar()
        if found == "ok":
            return None
        return (
            "the database file is damaged, or an incomplete copy that was made during a turn (PRAGMA integrity_check tells more)"
        )

    def copy_to(self, target: str) -> None:
        if os.path.exists(target):
            raise LedgerUnavailable(f"{target!r} is there already; give the path of a new file.")
        folder = os.path.dirname(os.path.abspath(target))
        if not os.path.isdir(folder) or not os.access(folder, os.W_OK):
            raise LedgerUnavailable(f"no copy can be written to {target!r}: its folder does not exist, or cannot be written.")
        with self._lock:
            connection = self._connected()
            try:
                self._patiently(lambda: connection.exec_driver_sql("VACUUM INTO ?", (os.path.abspath(target),)))
            except DBAPIError as error:
                raise self._explain(error) from None
            finally:
                _abandon(connection)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            if self._pid == os.getpid():
                self._disconnect()

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[Connection]:
        """All of it is on disk when the block ends, or none of it."""
        with self._lock:
            connection = self._connected()
            if connection.in_transaction():
                raise LedgerUnavailable("the ledger was called from inside its own transaction; try again after it returns.")
            try:
                self._patiently(lambda: _begin(connection, begin))
                yield connection
                self._patiently(lambda: _run(connection, "COMMIT"))
                _abandon(connection)
            except DBAPIError as error:
                _abandon(connection)
                if self.durable:
                    # After a failed write SQLite's state is unknown; a new connection starts from what is on disk.
                    self._disconnect()
                raise self._explain(error) from None
            except BaseException:
                _abandon(connection)
                raise

    def _patiently(self, act: Callable[[], T], longest: float = 0.002, at_most: float = 0.02) -> T:
        """Try again until nobody else has the file.

        SQLite's own waiting sleeps for so long between two looks that a reader beside busy writers waits for seconds, and it
        gives up at once on some locks (leaving the log of 0.1.0, recovery after a crash).
        """
        deadline = time.monotonic() + self._busy_seconds
        while True:
            try:
                return act()
            except DBAPIError as error:
                left = deadline - time.monotonic()
                if not _code(error).startswith(LOCKED) or left <= 0:
                    raise
                # By chance and longer each time, so that several do not keep meeting.
                time.sleep(min(left, longest * (1 + secrets.randbelow(1000)) / 1000))
                longest = min(at_most, 1.5 * longest)

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
                f"ledger {self.place!r} was removed or replaced while it was open. Put the file back and open it again; "
                "nothing was written."
            )
        return self._connection

    def _file_identity(self) -> tuple[int, int] | None:
        if self.place is None:
            return None
        try:
            found = os.stat(self.place)
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def _connect(self) -> Connection:
        self._check_place()
        try:
            return self._patiently(self._try_to_connect, at_most=0.5)
        except DBAPIError as error:
            raise self._explain(error) from None

    def _try_to_connect(self) -> Connection:
        connection = self._engine().connect()
        try:
            self._prepare(connection)
            return connection
        except BaseException:
            # Closed before the next try: two that wait for each other to let go of the old log would wait for ever.
            with suppress(DBAPIError):
                connection.close()
            raise

    def _engine(self) -> sa.Engine:
        # isolation_level None: the driver would begin transactions of its own, and only plain ones.
        return sa.create_engine(
            sa.URL.create("sqlite", database=self.place or ":memory:"),
            poolclass=NullPool,
            hide_parameters=True,
            connect_args={"isolation_level": None, "timeout": 0, "check_same_thread": False},
        )

    def _check_place(self) -> None:
        if self.place is None:
            return
        parent = os.path.dirname(self.place)
        if not os.path.isdir(parent):
            raise LedgerUnavailable(f"there is no directory {parent!r} for the ledger. Create it, or give another path.")
        if os.path.exists(self.place):
            return
        if self.start:
            raise LedgerUnavailable(f"ledger {self.place!r} was removed. Put the file back; nothing was written.")
        if not self._create:
            raise self._missing(f"there is no ledger {self.place!r}")

    def _missing(self, found: str) -> LedgerUnavailable:
        name = os.path.basename(str(self.place))
        return LedgerUnavailable(
            f"{found}. If there was one, put it back: a new one knows nothing of what was spent. To start one on purpose, give "
            f"create=True, in Session(..., ledger={name!r}, create=True) or Ledger({name!r}, create=True), or use "
            f"`pellucid ledger create {name} ACCOUNT --epsilon BUDGET`."
        )

    def _prepare(self, connection: Connection) -> None:
        """Make a new ledger of an empty file; refuse a file of another kind before anything in it is changed."""
        try:
            self._patiently(lambda: _begin(connection, "BEGIN"))
            fresh = self._recognise(connection)
            if fresh and (self.start or not self._create):
                raise self._missing(f"{self.place!r} is empty and no ledger")
            logged = _pragma(connection, "journal_mode") == "wal"
            if not fresh:
                self._check_count(connection, at_least=logged)
            connection.rollback()
            if not fresh and _lacking(connection):
                self._widen(connection)
            if logged and not fresh:
                self._convert(connection)
            if not fresh:
                self._index(connection)
            self._patiently(lambda: self._make_durable(connection))
            connection.rollback()
            if fresh:
                self._make_ledger(connection)
        finally:
            _abandon(connection)

    def _make_ledger(self, connection: Connection) -> None:
        self._patiently(lambda: _begin(connection, "BEGIN IMMEDIATE"))
        # Another process may have made the ledger since.
        if self._recognise(connection):
            TABLES.create_all(connection, checkfirst=False)
            connection.execute(FORMAT.insert(), {"version": VERSION, "chain": secrets.token_hex(16)})
            self._recognise(connection)
        self._patiently(lambda: _run(connection, "COMMIT"))

    def _widen(self, connection: Connection) -> None:
        """A ledger from before some columns of entries: they get them, and nothing in them."""
        self._patiently(lambda: _begin(connection, "BEGIN IMMEDIATE"))
        # Another process may have done it since.
        for name in _lacking(connection):
            _run(connection, f"ALTER TABLE {ENTRIES.name} ADD COLUMN {name} {'TEXT' if name == SCOPE else 'INTEGER'}")
        self._patiently(lambda: _run(connection, "COMMIT"))
        _abandon(connection)

    def _index(self, connection: Connection) -> None:
        """A ledger of before gets the indexes that it lacks, if it can be written now: it works without."""
        if not _unindexed(connection):
            return
        try:
            _begin(connection, "BEGIN IMMEDIATE")
            # Another process may have done it since.
            for index in _unindexed(connection):
                index.create(connection)
            _run(connection, "COMMIT")
        except DBAPIError as error:
            if not _code(error).startswith(LOCKED + NO_PLACE + NO_ROOM):
                raise
        finally:
            _abandon(connection)

    def _convert(self, connection: Connection) -> None:
        """A ledger of 0.1.0: from its log into the file, counted. Killed in between, it is such a ledger still."""
        _run(connection, "BEGIN IMMEDIATE")
        self._count_again(connection)
        _run(connection, f"PRAGMA journal_mode={self.journal}")
        connection.rollback()
        _run(connection, "BEGIN IMMEDIATE")
        self._count_again(connection)

    def _count_again(self, connection: Connection) -> None:
        _count(connection, _newest(connection))
        connection.commit()

    def _check_count(self, connection: Connection, at_least: bool = False) -> None:
        """A copy that was made during a turn, or lost its end, has not as many entries as it counts.

        Programs of 0.1.0 do not count; so a ledger with a log may have more.
        """
        counted, found = _pragma(connection, "user_version"), _newest(connection)
        if found < counted or (found > counted and not at_least):
            raise LedgerCorrupt(
                f"ledger {self.place!r} is incomplete: it counts {counted} entries and has {found}. It was copied while an entry "
                "was written, or its end was cut off. Copy it again (`pellucid ledger copy` is never incomplete), or restore it "
                "from a backup; nothing was written."
            )

    def _recognise(self, connection: Connection) -> bool:
        """Whether the file is empty. A ledger sets where its chain starts; anything else is refused."""
        names = set(sa.inspect(connection).get_table_names())
        if not names:
            return True
        if not names >= set(TABLES.tables):
            raise LedgerCorrupt(f"{self.place!r} is a database but not a Pellucid ledger. Give the path of another file.")
        found = connection.execute(select(FORMAT)).all()
        if len(found) != 1 or found[0].version != VERSION:
            version = found[0].version if len(found) == 1 else "none"
            raise LedgerCorrupt(
                f"ledger {self.place!r} has format {version}; this Pellucid reads format {VERSION}. "
                "Open it with the Pellucid that wrote it."
            )
        start = start_of(found[0].chain)
        if self.start not in ("", start):
            raise LedgerUnavailable(f"{self.place!r} is another ledger than the one opened before. Put the first one back.")
        self.start = start
        # A missing column shows now, not at the first charge.
        connection.execute(select(*(column for column in ENTRIES.c if column.name not in (*LATER, SCOPE))).limit(1)).first()
        return False

    def _make_durable(self, connection: Connection) -> None:
        mode = _pragma(connection, f"journal_mode={self.journal}")
        # FULL syncs at every commit (NORMAL loses charges on power failure); macOS needs fullfsync for a real one.
        for setting in ("synchronous=FULL", "fullfsync=ON"):
            _run(connection, f"PRAGMA {setting}")
        if self.durable and mode != self.journal.lower():
            raise LedgerUnavailable(
                f"ledger {self.place!r} cannot be written safely where it is (journal mode {mode!r}). "
                "Put the ledger on a local disk; nothing was written."
            )

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(DBAPIError):
                connection.close()

    def _explain(self, error: DBAPIError) -> LedgerError:
        code, place = _code(error), f"ledger {self.place!r}" if self.durable else "the in-memory ledger"
        if code.startswith(LOCKED):
            return LedgerUnavailable(
                f"{place} stayed locked by another program for {self._busy_seconds:g} s. Let that program finish or end it, "
                "or open the ledger with a larger busy_seconds; nothing was written."
            )
        if code.startswith(NO_PLACE):
            return LedgerUnavailable(
                f"{place} cannot be written ({code}). Give a file (not a directory) that this user may write, in a directory "
                "where it may create files; nothing was written."
            )
        if code.startswith(NO_ROOM):
            return LedgerUnavailable(f"{place} could not be stored ({code}). Free disk space or repair the disk, then try again.")
        return LedgerCorrupt(
            f"{place} is damaged, an incomplete copy, or not a Pellucid ledger ({code or 'unreadable text'}). Restore it from a "
            "backup, or give the path of another file; do not start an empty ledger for the same people."
        )


def _run(connection: Connection, statement: str) -> None:
    connection.exec_driver_sql(statement)


def _begin(connection: Connection, statement: str) -> None:
    """Begin a transaction, and see the file as it is now: a plain BEGIN alone does not look at it yet."""
    try:
        _run(connection, statement)
        if statement == "BEGIN":
            _pragma(connection, "user_version")
    except DBAPIError:
        _abandon(connection)
        raise


def _pragma(connection: Connection, name: str) -> Any:
    return connection.exec_driver_sql(f"PRAGMA {name}").scalar()


def _lacking(connection: Connection) -> list[str]:
    """Columns that were added later, and are not there yet."""
    found = {row.name for row in connection.exec_driver_sql(f"PRAGMA table_info({ENTRIES.name})")}
    return [name for name in (*LATER, SCOPE) if name not in found]


def _unindexed(connection: Connection) -> list[sa.Index]:
    """Indexes that were added later, and are not there yet."""
    found = {row.name for row in connection.exec_driver_sql("SELECT name FROM sqlite_master WHERE type = 'index'")}
    return [index for index in LATER_INDEXES if index.name not in found]


def _newest(connection: Connection) -> int:
    return int(connection.execute(select(sa.func.coalesce(sa.func.max(ENTRIES.c.seq), 0))).scalar_one())


def _count(connection: Connection, entries: int) -> None:
    # On page one, which every turn writes anyway, and first in the file.
    _run(connection, f"PRAGMA user_version={entries}")


def _abandon(connection: Connection) -> None:
    with suppress(DBAPIError):
        connection.rollback()


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
        sa.event.listen(table, "after_create", sa.DDL(text).execute_if(dialect="sqlite"))  # type: ignore[no-untyped-call]


_only_grows(FORMAT, "EXISTS (SELECT 1 FROM pellucid_ledger)")
_only_grows(RELEASES, "EXISTS (SELECT 1 FROM releases WHERE seq = NEW.seq)")
_only_grows(
    ENTRIES,
    "NEW.seq <> (SELECT coalesce(max(seq), 0) + 1 FROM entries) "
    "OR EXISTS (SELECT 1 FROM entries WHERE refers_to = NEW.refers_to)",
)


_living: weakref.WeakSet[SqliteStore] = weakref.WeakSet()
_forking: list[SqliteStore] = []
_roll = threading.RLock()


def _before_fork() -> None:
    # SQLite counts its file locks per process, in memory that a fork copies. A child of a process with an open connection
    # believes it holds locks it does not hold, even on a connection of its own, and two could write at once. So no file is open
    # while a process forks.
    _roll.acquire()
    for store in list(_living):
        store._lock.acquire()
        _forking.append(store)
        if store.durable:
            store._disconnect()


def _after_fork() -> None:
    while _forking:
        _forking.pop()._lock.release()
    _roll.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
