"""The smallest store, a list and a dictionary: what the protocol asks, and that nothing in a ledger needs SQL."""

import os
import secrets
import threading
from contextlib import contextmanager

from pellucid.errors import LedgerError, LedgerUnavailable
from pellucid.ledger.chain import start_of
from pellucid.ledger.store import LedgerStore, ReadingTurn, WritingTurn


class PlainReadingTurn(ReadingTurn):
    def __init__(self, entries, texts):
        self._entries, self._texts = entries, texts

    def ends(self, account):
        return (self._entries[-1] if self._entries else None), next(reversed(list(self.entries(account))), None)

    def first(self, account):
        return next(self.entries(account), None)

    def names(self):
        return [entry.account for entry in self._entries if entry.kind == "open"]

    def entries(self, account=None):
        return (entry for entry in self._entries if account is None or entry.account == account)

    def everything(self):
        return ((entry, self._texts.get(entry.seq)) for entry in self._entries)

    def thread(self, account, key, after=0):
        return [(e, text) for e, text in self.everything() if (e.account, e.key) == (account, key) and e.seq > after]

    def newest_release(self, account, key):
        return next((pair for pair in reversed(self.thread(account, key)) if pair[0].kind == "commit"), None)

    def charge(self, seq):
        paid = next((entry for entry in self._entries if entry.seq == seq), None)
        return paid, next((entry for entry in self._entries if entry.refers_to == seq), None)

    def has_paid(self, account, key):
        return any(entry.kind == "reserve" and entry.amount > 0 for entry, _ in self.thread(account, key))

    def contains(self, hash):
        return any(entry.hash == hash for entry in self._entries)

    def stray_text(self):
        return next((seq for seq in self._texts if seq > len(self._entries)), None)


class PlainWritingTurn(PlainReadingTurn, WritingTurn):
    def append(self, entry, text=None):
        committed = entry.refers_to is not None and self.charge(entry.refers_to)[1] is not None
        if entry.seq != len(self._entries) + 1 or committed:
            raise LedgerError(f"entry {entry.seq} is not the next one, or completes what was completed before.")
        self._entries.append(entry)
        if text is not None:
            self._texts[entry.seq] = text


class PlainStore(LedgerStore):
    """Each turn works on copies; a writing turn that ends well puts its copies in their place."""

    place, durable = None, False

    def __init__(self):
        self.start = start_of(secrets.token_hex(16))
        self._lock, self._busy, self._closed, self._pid = threading.RLock(), False, False, os.getpid()
        self._entries, self._texts = [], {}

    def reading(self):
        return self._turn(PlainReadingTurn)

    def writing(self):
        return self._turn(PlainWritingTurn)

    @contextmanager
    def _turn(self, kind):
        with self._lock:
            if self._closed:
                raise LedgerError("this ledger was closed.")
            if self._busy or self._pid != os.getpid():
                raise LedgerUnavailable("the ledger was called from inside a turn, or from another process.")
            self._busy = True
            try:
                turn = kind(list(self._entries), dict(self._texts))
                yield turn
                self._entries, self._texts = turn._entries, turn._texts
            finally:
                self._busy = False

    def damage(self):
        return None

    def close(self):
        self._closed = True
