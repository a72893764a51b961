"""The suite that stores inherit lets an honest store pass and finds a broken one."""

import os
import shutil
from contextlib import contextmanager

import pytest
from plain_store import PlainReadingTurn, PlainStore, PlainWritingTurn
from store_conformance import CopiedStoreConformance, DurableStoreConformance, StoreConformance, needs_fork

from pellucid.errors import LedgerError
from pellucid.ledger.spool import MemorySpool
from pellucid.ledger.sqlite import SqliteStore
from pellucid.ledger.tables import SqlReadingTurn, SqlWritingTurn


class TestPlainStore(StoreConformance):
    @pytest.fixture
    def make_store(self):
        return lambda name="one", busy_seconds=5.0: PlainStore()


class WithoutLock(PlainStore):
    @contextmanager
    def _turn(self, kind):
        turn = kind(list(self._entries), dict(self._texts))
        yield turn
        self._entries, self._texts = turn._entries, turn._texts


class LosesItsLastEntry(PlainStore):
    @contextmanager
    def writing(self):
        with super().writing() as turn:
            yield turn
            turn._entries.pop()


class KeepsHalfATurn(PlainStore):
    @contextmanager
    def writing(self):
        with super().writing():
            yield PlainWritingTurn(self._entries, self._texts)


class ShowsHalfATurn(PlainStore):
    @contextmanager
    def reading(self):
        yield PlainReadingTurn(list(self._entries), self._texts)

    @contextmanager
    def writing(self):
        with super().writing() as turn:
            self._entries, self._texts = turn._entries, turn._texts
            yield turn


class Overwrites(PlainStore):
    @contextmanager
    def writing(self):
        with super().writing() as turn:
            turn.append = lambda entry, text=None: turn._entries.insert(entry.seq - 1, entry)
            yield turn


class ThreadsBackwards(PlainStore):
    @contextmanager
    def reading(self):
        with super().reading() as turn:
            ordered = turn.thread
            turn.thread = lambda *asked, **after: ordered(*asked, **after)[::-1]
            yield turn


class IgnoresCase(PlainStore):
    @contextmanager
    def reading(self):
        with super().reading() as turn:
            turn.entries = lambda account=None: (
                entry for entry in turn._entries if account is None or entry.account.lower() == account.lower()
            )
            yield turn


class CopiedByAFork(PlainStore):
    def reading(self):
        self._pid = os.getpid()
        return super().reading()

    def writing(self):
        self._pid = os.getpid()
        return super().writing()


class ForgetsItIsClosed(PlainStore):
    def close(self):
        pass


class BackendError(Exception):
    pass


class LeaksItsOwnErrors(PlainStore):
    @contextmanager
    def _turn(self, kind):
        if self._closed:
            raise BackendError("closed")
        with super()._turn(kind) as turn:
            yield turn


class LocksTooLate(SqliteStore):
    @contextmanager
    def writing(self):
        with self._transaction("BEGIN") as connection:
            yield SqlWritingTurn(connection)


class OneTurnBehind(SqliteStore):
    """Keeps each turn's entries in memory until the next one begins, or until it is closed."""

    def __init__(self, *place, **options):
        self._late = []
        super().__init__(*place, **options)

    @contextmanager
    def writing(self):
        self._catch_up()
        with super().writing() as turn:
            turn.append = lambda *entry: self._late.append(entry)
            yield turn

    def _catch_up(self):
        with super().writing() as turn:
            while self._late:
                turn.append(*self._late.pop(0))

    def close(self):
        self._catch_up()
        super().close()


class KeepsItsNewestBesideTheFile(SqliteStore):
    """As the version before did."""

    journal = "WAL"

    def _convert(self, connection):
        pass


class ForgetsWhatWaits(SqliteStore):
    spool = MemorySpool()


class ReadsWhatMoves(SqliteStore):
    @contextmanager
    def reading(self):
        with self._transaction("PRAGMA user_version") as connection:
            yield SqlReadingTurn(connection)


class MixesDeclarations(PlainStore):
    @contextmanager
    def reading(self):
        with super().reading() as turn:
            turn.declarations = lambda account: [entry for entry in turn._entries if entry.kind == "table"]
            yield turn


class WaitsForATurn(PlainStore):
    @property
    def spool(self):
        with self.reading():
            return MemorySpool()


class OtherStartEachTime(SqliteStore):
    def __init__(self, *place, **options):
        super().__init__(*place, **options)
        self.start = f"{id(self):064d}"


BROKEN = [
    (WithoutLock, "test_threads_take_turns"),
    (WithoutLock, "test_a_turn_inside_a_turn_is_refused"),
    (LosesItsLastEntry, "test_the_ends_are_the_newest_of_all_and_of_the_account"),
    (LosesItsLastEntry, "test_a_ledger_runs_on_it"),
    (KeepsHalfATurn, "test_a_failed_turn_leaves_nothing"),
    (ShowsHalfATurn, "test_a_reader_sees_whole_turns"),
    (Overwrites, "test_a_store_only_grows_by_the_next_entry"),
    (ThreadsBackwards, "test_a_thread_is_in_order_and_begins_after_a_number"),
    (ForgetsItIsClosed, "test_a_closed_store_says_so"),
    (LeaksItsOwnErrors, "test_a_closed_store_says_so"),
    (MixesDeclarations, "test_declarations_are_those_of_the_account_oldest_first"),
    (WaitsForATurn, "test_a_text_can_wait_while_the_store_is_taken"),
]


def fails(check, *asked):
    """Whether a check of the suite finds something: it fails, or the store refuses what every store must do."""
    try:
        check(*asked)
    except (AssertionError, pytest.fail.Exception, LedgerError, BackendError):
        return True
    return False


@pytest.mark.parametrize("broken, check", BROKEN, ids=lambda value: getattr(value, "__name__", value))
def test_a_broken_store_is_found(broken, check):
    test = getattr(StoreConformance(), check)
    assert not fails(test, lambda name="one", busy_seconds=5.0: PlainStore())
    assert fails(test, lambda name="one", busy_seconds=5.0: broken())


def test_a_store_that_ignores_case_is_found():
    assert fails(StoreConformance().test_names_and_keys_are_equal_when_their_characters_are, lambda *_: IgnoresCase(), "WARD")


@needs_fork
def test_a_store_that_a_fork_copies_is_found():
    assert fails(StoreConformance().test_a_forked_process_shares_the_store_or_is_refused, CopiedByAFork)


@needs_fork
@pytest.mark.parametrize(
    "broken, check",
    [
        (LocksTooLate, "test_processes_take_turns"),
        (OneTurnBehind, "test_a_turn_that_has_ended_survives_a_kill"),
        (OneTurnBehind, "test_another_opening_sees_a_turn_as_soon_as_it_has_ended"),
        (ReadsWhatMoves, "test_a_reading_turn_sees_one_moment"),
        (ForgetsWhatWaits, "test_what_waits_survives_a_kill_and_is_seen_by_another_opening"),
        (OtherStartEachTime, "test_what_was_written_is_there_when_it_is_opened_again"),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_a_broken_durable_store_is_found(tmp_path, broken, check):
    test = getattr(DurableStoreConformance(), check)
    for kind in (SqliteStore, broken):
        folder = tmp_path / kind.__name__
        folder.mkdir()

        def make(name="one", busy_seconds=5.0, kind=kind, at=folder):
            return kind(at / f"{name}.db", busy_seconds, create=True)

        found = fails(test, make)
        assert found == (kind is broken)


def test_a_store_whose_copies_lose_entries_is_found(tmp_path):
    for kind in (SqliteStore, KeepsItsNewestBesideTheFile):
        folder = tmp_path / kind.__name__
        folder.mkdir()

        def make(name="one", busy_seconds=5.0, kind=kind, at=folder):
            return kind(at / f"{name}.db", busy_seconds, create=True)

        def copy(name, copy, at=folder):
            shutil.copyfile(at / f"{name}.db", at / f"{copy}.db")

        found = fails(CopiedStoreConformance().test_a_copy_of_an_open_store_has_every_entry, make, copy)
        assert found == (kind is KeepsItsNewestBesideTheFile)
