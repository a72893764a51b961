"""What a ledger asks of the place that keeps its entries.

A `LedgerStore` keeps entries and released texts, in order and for good. It knows nothing of budgets: what may be written is
decided in `Ledger`. All access happens in *turns*. A reading turn sees the store as it was at one moment. A writing turn has the
store to itself, among all threads and processes, from the moment it begins: what it reads stays true until it ends. When its
block ends, everything it appended is kept; when the block raises, nothing is.

Errors leave a store as LedgerUnavailable (locked, full, out of reach), LedgerCorrupt (damaged, or no ledger) or another
LedgerError, in words and without the backend's own error behind them, which may quote what was to be stored.

A copy of the place, made at any moment by a program that knows nothing of it, has all entries whose turns had ended when the
copying began, or is refused as LedgerCorrupt, in words that say "incomplete".

A new store has to pass `tests/ledger/store_conformance.py`, and nothing else.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager

from ..errors import LedgerError
from .spool import MemorySpool, Spool
from .values import Entry


class ReadingTurn(ABC):
    """The store at one moment, for reading. Iterators are used up before the turn ends.

    Names and keys are equal when their characters are. Entries are handed out as they are stored: if somebody changed the type
    of a value, that value too, so that a recount finds it.
    """

    @abstractmethod
    def ends(self, account: str) -> tuple[Entry | None, Entry | None]:
        """The newest entry of all, and the newest of this account."""

    @abstractmethod
    def first(self, account: str) -> Entry | None:
        """The oldest entry of this account, which opened it."""

    @abstractmethod
    def names(self) -> list[str]:
        """The accounts, oldest first."""

    @abstractmethod
    def entries(self, account: str | None = None) -> Iterator[Entry]:
        """The entries of one account, or all, oldest first."""

    @abstractmethod
    def everything(self) -> Iterator[tuple[Entry, str | None]]:
        """All entries, oldest first, each with the text stored for it."""

    @abstractmethod
    def thread(self, account: str, key: str, after: int = 0) -> list[tuple[Entry, str | None]]:
        """The entries of this account with this key and a number above `after`, oldest first, each with its text."""

    @abstractmethod
    def newest_release(self, account: str, key: str) -> tuple[Entry, str | None] | None:
        """The newest commit of this account with this key, with its text."""

    def declarations(self, account: str) -> list[Entry]:
        """The entries of this account of kind "table" or "changed", oldest first: few, and asked for with every charge."""
        return [entry for entry in self.entries(account) if entry.kind in ("table", "changed")]

    def of_parts(self, account: str, after: int = 0) -> list[Entry]:
        """The charges of this account for parts of its table, with a number above `after`, oldest first: asked for with every
        charge."""
        return [entry for entry in self.entries(account) if entry.scope is not None and entry.seq > after]

    def has_parts(self, account: str) -> bool:
        """Whether this account was ever charged for a part of its table."""
        return bool(self.of_parts(account))

    @abstractmethod
    def charge(self, seq: int) -> tuple[Entry | None, Entry | None]:
        """Entry number `seq`, and the commit that refers to it."""

    @abstractmethod
    def has_paid(self, account: str, key: str) -> bool:
        """Whether this account was ever charged more than nothing for this key."""

    @abstractmethod
    def contains(self, hash: str) -> bool:
        """Whether an entry has this hash."""

    def beginning(self, start: str) -> int:
        """How many entries have a hash that begins like this."""
        return sum(entry.hash.startswith(start) for entry in self.entries())

    @abstractmethod
    def stray_text(self) -> int | None:
        """The number of a text that is stored for no entry, if there is one."""


class WritingTurn(ReadingTurn):
    """A turn that has the store to itself and may append."""

    @abstractmethod
    def append(self, entry: Entry, text: str | None = None) -> None:
        """Add an entry, and the text released for it.

        A LedgerError if its number is not the next one, or if it refers to an entry that another one refers to already.
        """


class LedgerStore(ABC):
    """A place that keeps one chain of entries. It may be used by several threads; each waits for its turn."""

    place: str | None
    """Where it is, in words that may stand in an error or on a certificate (no password); None in memory."""
    durable: bool
    """Whether entries outlive the process. They are then safe, even if the power fails, when a writing turn has ended."""
    start: str
    """What the first entry follows: `chain.start_of` a random name that is stored when the ledger is made, and never changes."""

    @functools.cached_property
    def spool(self) -> Spool:
        """Where released texts wait when no turn can be had: as durable as the store is, and never locked."""
        return MemorySpool()

    @abstractmethod
    def reading(self) -> AbstractContextManager[ReadingTurn]:
        """A turn that reads."""

    @abstractmethod
    def writing(self) -> AbstractContextManager[WritingTurn]:
        """A turn that reads and appends: exclusive from its beginning, kept as a whole or not at all.

        A turn inside a turn of the same thread is refused as LedgerUnavailable.
        """

    @abstractmethod
    def damage(self) -> str | None:
        """What is wrong with the store apart from its entries, in words; None if nothing is."""

    def copy_to(self, target: str) -> None:
        """Make a copy as of one moment, in a new file; it is never incomplete. Whoever writes waits meanwhile."""
        raise LedgerError("a ledger of this kind is copied with the tools of its database.")

    @abstractmethod
    def close(self) -> None:
        """Let go of the place. Further turns are refused as LedgerError. Closing again does nothing.

        In a process that was forked from one with an open store, turns go to the same place or are refused as
        LedgerUnavailable: a copy could spend the budget a second time.
        """
