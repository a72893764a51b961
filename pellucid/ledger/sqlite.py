"""The SQLite store: one file, any number of processes; or memory."""

from __future__ import annotations

import os
import secrets
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import sqlalchemy as sa
from sqlalchemy import Connection, Table, select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from ..errors import LedgerCorrupt, LedgerError, LedgerUnavailable
from .chain import VERSION, start_of
from .store import LedgerStore
from .tables import ENTRIES, FORMAT, RELEASES, TABLES, SqlReadingTurn, SqlWritingTurn

LOCKED = ("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_PROTOCOL")
NO_PLACE = ("SQLITE_CANTOPEN", "SQLITE_READONLY", "SQLITE_PERM", "SQLITE_AUTH")
NO_ROOM = ("SQLITE_FULL", "SQLITE_IOERR", "SQLITE_NOMEM")


class SqliteStore(LedgerStore):
    """Entries in one SQLite file, or in memory when `path` is None.

    A file may be opened by any number of processes and threads, and an open store may be carried through a fork; what is in
    memory belongs to one process. `busy_seconds` is how long to wait for the others. A file that does not exist, or is empty,
    becomes a new ledger.
    """

    def __init__(self, path: str | os.PathLike[str] | None, busy_seconds: float = 30.0):
        if path is not None and os.fspath(path) in ("", ":memory:"):
            raise LedgerError(f"ledger path {os.fspath(path)!r} is no file; give a file, or None for a ledger in memory.")
        self.place = None if path is None else os.path.abspath(os.fspath(path))
        self.durable = self.place is not None
        self.start = ""
        self._busy_seconds = float(busy_seconds)
        self._lock = threading.RLock()
        self._connection: Connection | None = None
        self._file: tuple[int, int] | None = None
        self._pid = os.getpid()
        self._closed = False
        with _roll:
            _living.add(self)
        with self._lock:
            self._connected()

    @contextmanager
    def reading(self) -> Iterator[SqlReadingTurn]:
        with self._transaction("BEGIN") as connection:
            yield SqlReadingTurn(connection)

    @contextmanager
    def writing(self) -> Iterator[SqlWritingTurn]:
        # A plain BEGIN takes the lock at the first insertion, when two processes may have read the same balance.
        with self._transaction("BEGIN IMMEDIATE") as connection:
            yield SqlWritingTurn(connection)

    def damage(self) -> str | None:
        with self._transaction("BEGIN") as connection:
            found = connection.exec_driver_sql("PRAGMA integrity_check(1)").scalar()
        return None if found == "ok" else "the database file is damaged (PRAGMA integrity_check tells more)"

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
                self._patiently(lambda: _run(connection, begin))
                yield connection
                connection.commit()
            except DBAPIError as error:
                _abandon(connection)
                if self.durable:
                    # After a failed write SQLite's state is unknown; a new connection starts from what is on disk.
                    self._disconnect()
                raise self._explain(error) from None
            except BaseException:
                _abandon(connection)
                raise

    def _patiently(self, act: Callable[[], None]) -> None:
        """SQLite gives up at once on some locks (switching to WAL, recovery after a crash) without its own waiting."""
        deadline = time.monotonic() + self._busy_seconds
        while True:
            try:
                return act()
            except DBAPIError as error:
                if not _code(error).startswith(LOCKED) or time.monotonic() >= deadline:
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
        connection: Connection | None = None
        try:
            connection = self._engine().connect()
            opened = connection
            self._patiently(lambda: self._prepare(opened))
            return connection
        except BaseException as error:
            if connection is not None:
                with suppress(DBAPIError):
                    connection.close()
            if isinstance(error, DBAPIError):
                raise self._explain(error) from None
            raise

    def _engine(self) -> sa.Engine:
        # isolation_level None: the driver would begin transactions of its own, and only plain ones.
        return sa.create_engine(
            sa.URL.create("sqlite", database=self.place or ":memory:"),
            poolclass=NullPool,
            hide_parameters=True,
            connect_args={"isolation_level": None, "timeout": self._busy_seconds, "check_same_thread": False},
        )

    def _check_place(self) -> None:
        if self.place is None:
            return
        parent = os.path.dirname(self.place)
        if not os.path.isdir(parent):
            raise LedgerUnavailable(f"there is no directory {parent!r} for the ledger. Create it, or give another path.")
        if self.start and not os.path.exists(self.place):
            raise LedgerUnavailable(f"ledger {self.place!r} was removed. Put the file back; nothing was written.")

    def _prepare(self, connection: Connection) -> None:
        """Make a new ledger of an empty file; refuse a file of another kind before anything in it is changed."""
        try:
            fresh = self._recognise(connection)
            connection.rollback()
            self._make_durable(connection)
            connection.rollback()
            if fresh:
                _run(connection, "BEGIN IMMEDIATE")
                # Another process may have made the ledger since.
                if self._recognise(connection):
                    TABLES.create_all(connection, checkfirst=False)
                    connection.execute(FORMAT.insert(), {"version": VERSION, "chain": secrets.token_hex(16)})
                connection.commit()
                self._recognise(connection)
        finally:
            _abandon(connection)

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
        connection.execute(select(ENTRIES).limit(1)).first()
        return False

    def _make_durable(self, connection: Connection) -> None:
        mode = connection.exec_driver_sql("PRAGMA journal_mode=WAL").scalar()
        # FULL syncs the log at every commit (NORMAL loses charges on power failure); macOS needs fullfsync for a real one.
        for setting in ("synchronous=FULL", "fullfsync=ON", "checkpoint_fullfsync=ON"):
            _run(connection, f"PRAGMA {setting}")
        if self.durable and mode != "wal":
            raise LedgerUnavailable(
                f"the place of ledger {self.place!r} does not support SQLite's write-ahead log (journal mode {mode!r}). "
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
            f"{place} is damaged, or is not a Pellucid ledger ({code or 'unreadable text'}). Restore it from a backup, or give "
            "the path of another file; do not start an empty ledger for the same people."
        )


def _run(connection: Connection, statement: str) -> None:
    connection.exec_driver_sql(statement)


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
    # believes it holds locks it does not hold, even on a connection of its own: when the parent then closes, the log that the
    # child writes to is deleted and its charges are lost. So no file is open while a process forks.
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
