"""A copy of the file alone, made by a program that knows nothing of SQLite, has every entry or is recognised as incomplete."""

import itertools
import os
import random
import shutil
import signal
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from store_conformance import TERMS, ended_well, in_child, needs_fork

from pellucid.errors import LedgerCorrupt, LedgerUnavailable
from pellucid.ledger import Ledger
from pellucid.ledger.sqlite import SqliteStore
from pellucid.ledger.tables import SqlWritingTurn

PAGE = 4096
BEFORE = Path(__file__).parents[1] / "before" / "ledger.db"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "study.db"


def opened(path, budget=10**9):
    ledger = Ledger(path, create=True)
    ledger.open_account("shared", budget=budget, **TERMS)
    return ledger


def pay(ledger, text="{}", key="k"):
    return ledger.commit(ledger.reserve("shared", 1, key=key, request="{}"), text)


def held(path):
    """How many entries a copy has, if it verifies; None if it says that it is incomplete."""
    try:
        with Ledger(path, busy_seconds=1) as ledger:
            found = ledger.verify()
    except LedgerCorrupt as refused:
        assert "incomplete" in str(refused)
        return None
    return found.entries if found.ok else None


def test_a_copy_of_an_open_ledger_has_every_entry(path, tmp_path):
    ledger = opened(path)
    for i in range(20):
        entry = pay(ledger, key=str(i))
        copy = shutil.copy(path, tmp_path / f"copy {i}.db")
        assert held(copy) == entry.seq
        with Ledger(copy) as again:
            assert again.account("shared") == ledger.account("shared") and again.contains(entry.hash)


def pages(path):
    content = path.read_bytes()
    return [content[i : i + PAGE] for i in range(0, len(content), PAGE)]


def check_mixture(tmp_path, states, entries, choice):
    """`choice` says from which state each page is; a page that this state does not have yet ends the copy or is empty."""
    mixture = tmp_path / "mixture.db"
    for leftover in tmp_path.glob("mixture.db*"):
        leftover.unlink()
    mixture.write_bytes(b"".join(states[at][i] if i < len(states[at]) else b"\0" * PAGE for i, at in enumerate(choice)))
    found = held(mixture)
    assert found is None or found >= entries[0]
    return found


def test_a_copy_that_mixes_two_moments_page_by_page(path, tmp_path):
    """Every mixture of the pages before and after a turn: whole, or incomplete."""
    ledger = opened(path)
    for i in range(30):
        pay(ledger, "x" * 500, str(i))
    seen = []
    for act in (lambda: ledger.reserve("shared", 1, key="a", request="{}"), lambda: pay(ledger, "y" * 9000, "b")):
        before, count = pages(path), ledger.verify().entries
        act()
        after = pages(path)
        differ = [i for i in range(len(after)) if i >= len(before) or before[i] != after[i]]
        for taken in itertools.product((0, 1), repeat=min(len(differ), 8)):
            choice = [1 if i >= len(before) else 0 for i in range(len(after))]
            for i, at in zip(differ, taken):
                choice[i] = at
            seen.append(check_mixture(tmp_path, (before, after), [count], choice))
    assert None in seen and sum(found is not None for found in seen) >= 2


def test_a_copy_that_mixes_many_moments(path, tmp_path):
    """As a slow copier sees it: each page from some moment after the copying began."""
    ledger, rng = opened(path), random.Random(5)
    states, entries = [], []
    for i in range(60):
        entries.append(pay(ledger, "z" * rng.randrange(3000), str(i)).seq)
        states.append(pages(path))
    for _ in range(300):
        first = rng.randrange(len(states) - 1)
        later = states[first : first + rng.choice((2, 3, 10, 60))]
        choice = [rng.randrange(len(later)) for _ in range(len(later[-1]))]
        check_mixture(tmp_path, later, entries[first:], choice)


def test_a_copier_beside_writers(path, tmp_path):
    ledger, done = opened(path), threading.Event()

    def write():
        with Ledger(path) as writer:
            while not done.is_set():
                pay(writer, "w" * 2000)

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        for i in range(15):
            before = ledger.account("shared").spent
            # By another process: one that has the file open loses its locks when it reads it.
            copy = tmp_path / f"copy {i}.db"
            assert ended_well(in_child(lambda copy=copy: shutil.copyfile(path, copy)))
            if held(copy) is not None:
                with Ledger(copy) as again:
                    assert again.account("shared").spent >= before
        done.set()
        writing.result()
    assert ledger.verify().ok


def test_the_ledgers_own_copy_is_whole_whoever_writes(path, tmp_path):
    ledger, done = opened(path), threading.Event()

    def write():
        with Ledger(path) as writer:
            while not done.is_set():
                pay(writer, "w" * 2000)

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        for i in range(10):
            before = ledger.account("shared").spent
            ledger.copy_to(tmp_path / f"copy {i}.db")
            assert held(tmp_path / f"copy {i}.db") is not None
            with Ledger(tmp_path / f"copy {i}.db") as again:
                assert again.account("shared").spent >= before
        done.set()
        writing.result()
    with pytest.raises(LedgerUnavailable, match="there already"):
        ledger.copy_to(tmp_path / "copy 0.db")
    with pytest.raises(LedgerUnavailable, match="cannot be written"):
        ledger.copy_to(tmp_path / "no" / "where.db")
    pay(ledger)


@pytest.mark.parametrize("kept", ["page one", "the rest"])
def test_a_file_without_its_journal_is_recognised(path, tmp_path, kept):
    """Killed while the pages were being written, and then moved without the journal that would undo it."""
    ledger = opened(path)
    pay(ledger)
    before = pages(path)
    pay(ledger)
    after = pages(path)
    torn = [after[0], *before[1:]] if kept == "page one" else [before[0], *after[1:]]
    (tmp_path / "torn.db").write_bytes(b"".join(torn))
    with pytest.raises(LedgerCorrupt, match="incomplete: it counts"):
        Ledger(tmp_path / "torn.db")


def test_a_cut_end_is_incomplete(path):
    with opened(path) as ledger:
        pay(ledger)
    with closing(sqlite3.connect(path)) as raw:
        raw.execute("DROP TRIGGER entries_no_delete")
        raw.execute("DELETE FROM entries WHERE seq = 3")
        raw.commit()
    with pytest.raises(LedgerCorrupt, match="incomplete: it counts 3 entries and has 2"):
        Ledger(path)


def test_an_open_ledger_notices_that_an_older_copy_was_put_in_its_place(path, tmp_path):
    ledger = opened(path)
    pay(ledger)
    old = path.read_bytes()
    pay(ledger)
    assert ended_well(in_child(lambda: path.write_bytes(old)))
    with pytest.raises(LedgerCorrupt, match="older copy"):
        ledger.reserve("shared", 1, key="", request="{}")


def test_a_lost_entry_of_an_index_does_not_hide_a_charge(path):
    """What the newest entry of an account is, is looked up in an index: a torn one must not show an older balance."""
    with opened(path) as ledger:
        pay(ledger)
    with closing(sqlite3.connect(path)) as raw:
        (page,) = raw.execute("SELECT rootpage FROM sqlite_master WHERE name = 'entries_of_account'").fetchone()
    stale = pages(path)[page - 1]
    with Ledger(path) as ledger:
        ledger.reserve("shared", 1, key="", request="{}")
    with path.open("r+b") as file:
        file.seek((page - 1) * PAGE)
        file.write(stale)
    with Ledger(path) as ledger:
        with pytest.raises(LedgerCorrupt, match="not found among the entries"):
            ledger.reserve("shared", 1, key="", request="{}")
        assert not ledger.verify().ok


class OfTheVersionBefore(SqliteStore):
    """Its newest entries are in a log beside the file, and it does not count."""

    journal = "WAL"

    @contextmanager
    def writing(self):
        with self._transaction("BEGIN IMMEDIATE") as connection:
            yield SqlWritingTurn(connection)

    def _check_count(self, connection, at_least=False):
        pass

    def _convert(self, connection):
        pass


def left_by_the_version_before(path, entries=6):
    """A ledger whose writer was killed: nothing of the last entries is in the file."""
    shutil.copy(BEFORE, path)

    def act():
        ledger = Ledger(OfTheVersionBefore(path))
        for i in range(entries):
            ledger.reserve("ward-ε", 1, key=f"late {i}", request="{}")
        os.kill(os.getpid(), signal.SIGKILL)

    os.waitpid(in_child(act), 0)
    assert Path(f"{path}-wal").stat().st_size > 0


@needs_fork
def test_a_ledger_of_the_version_before_is_converted_with_its_log(path, tmp_path):
    left_by_the_version_before(path)
    with closing(sqlite3.connect(path)) as raw:
        (entries,) = raw.execute("SELECT count(*) FROM entries").fetchone()
        spent = raw.execute("SELECT spent FROM entries WHERE account = 'ward-ε' ORDER BY seq DESC").fetchone()[0]
        (before,) = raw.execute("SELECT count(*) FROM entries WHERE key NOT LIKE 'late %'").fetchone()
        assert entries == before + 6
    left_by_the_version_before(path)
    with Ledger(path) as ledger:
        assert ledger.verify().ok and ledger.verify().entries == entries and ledger.account("ward-ε").spent == spent
        assert not Path(f"{path}-wal").exists()
        ledger.reserve("ward-ε", 1, key="", request="{}")
        copy = shutil.copy(path, tmp_path / "copy.db")
    assert held(copy) == entries + 1


@needs_fork
def test_processes_that_convert_one_ledger_together(path):
    left_by_the_version_before(path)

    def act():
        with Ledger(path) as ledger:
            ledger.reserve("ward-ε", 1, key="", request="{}")

    assert ended_well(*[in_child(act) for _ in range(6)])
    with Ledger(path) as ledger:
        assert ledger.verify().ok


def test_a_program_of_the_version_before_that_has_it_open_is_waited_for(path):
    shutil.copy(BEFORE, path)
    old = OfTheVersionBefore(path)
    with old.reading():
        pass
    with pytest.raises(LedgerUnavailable, match="locked"):
        Ledger(path, busy_seconds=0.3)
    old.close()
    with Ledger(path, busy_seconds=0.3) as ledger:
        assert ledger.verify().ok


def test_what_the_version_before_adds_later_is_counted_again(path):
    shutil.copy(BEFORE, path)
    with Ledger(path) as ledger:
        entries = ledger.verify().entries
    with Ledger(OfTheVersionBefore(path)) as ledger:
        ledger.reserve("ward-ε", 1, key="", request="{}")
    with Ledger(path) as ledger:
        assert ledger.verify().ok and ledger.verify().entries == entries + 1


def test_a_copy_into_a_folder_that_is_not_there_names_the_copy(path, tmp_path):
    target = tmp_path / "nodir" / "x.db"
    with Ledger(path, create=True) as ledger, pytest.raises(LedgerUnavailable, match="its folder does not exist") as refused:
        ledger.copy_to(target)
    assert str(target) in str(refused.value) and str(path) not in str(refused.value)
