"""A ledger that grows: what every charge asks is found by an index, and what is quick is the same as what was slow."""

import json
import sqlite3
from contextlib import closing
from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pellucid.ledger import Entry, Ledger
from pellucid.ledger import tables as of
from pellucid.ledger.chain import HASHED, LATER, entry_hash, sha256

TERMS = {"currency": "epsilon", "delta": "0", "relation": "replace", "unit": "person"}

ASKED = {
    "ends": (of.ENDS, {"name": "a"}, {"entries_of_account"}),
    "first": (of.FIRST, {"name": "a"}, {"entries_of_account"}),
    "declarations": (of.DECLARATIONS, {"name": "a"}, {"declarations_by_kind"}),
    "charge": (of.CHARGE, {"number": 2}, {"one_commit_each"}),
    "newest release": (of.RELEASED, {"name": "a", "key": "k"}, {"commits_by_key"}),
    "paid": (of.PAID, {"name": "a", "key": "k"}, {"reserves_by_key"}),
    "thread": (of.THREAD, {"name": "a", "key": "k", "after": 0}, {"reserves_by_key", "commits_by_key"}),
}


def filled(path, pairs=5):
    with Ledger(path, create=True) as ledger:
        ledger.open_account("a", budget=10**9, **TERMS)
        for i in range(pairs):
            ledger.commit(ledger.reserve("a", 1, key=f"k{i % 2}", request="{}"), str(i))


def plan(ledger, query, values):
    with ledger._store.reading() as turn:
        made = query.compile(turn._connection)
        bound = {**made.params, **values}
        given = tuple(bound[name] for name in made.positiontup)
        return [row[-1] for row in turn._connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {made}", given)]


def rebuilt(path, order):
    """The same ledger with its indexes made in another order: which of two that fit SQLite takes depends on it."""
    with closing(sqlite3.connect(path)) as raw:
        made = dict(raw.execute("SELECT name, sql FROM sqlite_master WHERE type = 'index'"))
        for name in order(sorted(made)):
            raw.execute(f"DROP INDEX {name}")
            raw.execute(made[name])
        raw.commit()


@pytest.mark.parametrize("order", [sorted, lambda names: names[::-1], lambda names: names[2:] + names[:2]])
@pytest.mark.parametrize("what", ASKED)
def test_no_charge_reads_the_whole_ledger(tmp_path, what, order):
    query, values, indexes = ASKED[what]
    filled(tmp_path / "ledger.db")
    rebuilt(tmp_path / "ledger.db", order)
    with Ledger(tmp_path / "ledger.db") as ledger:
        lines = plan(ledger, query, values)
    assert not [line for line in lines if "SCAN" in line], lines
    assert {name for name in indexes if any(f"INDEX {name} " in line for line in lines)} == indexes, lines


def of_before(path):
    """A ledger as the version before made it: other indexes."""
    with closing(sqlite3.connect(path)) as raw:
        raw.execute("DROP INDEX reserves_by_key")
        raw.execute("DROP INDEX declarations_by_kind")
        raw.execute("CREATE INDEX declarations ON entries (account, seq) WHERE kind IN ('table', 'changed')")
        raw.commit()


def names(path):
    with closing(sqlite3.connect(path)) as raw:
        return {name for (name,) in raw.execute("SELECT name FROM sqlite_master WHERE type = 'index'")}


def test_a_ledger_of_before_gets_its_indexes(tmp_path):
    path = tmp_path / "ledger.db"
    filled(path)
    of_before(path)
    with Ledger(path) as ledger:
        assert names(path) >= {"reserves_by_key", "declarations_by_kind", "declarations"}
        assert ledger.verify().ok and len(ledger.thread("a", "k0")) == 6
        ledger.commit(ledger.reserve("a", 1, key="k0", request="{}"), "new")
        assert ledger.replay("a", "k0") == "new" and ledger.verify().ok


def test_one_that_cannot_be_written_now_works_without(tmp_path):
    path = tmp_path / "ledger.db"
    filled(path)
    of_before(path)
    with closing(sqlite3.connect(path)) as other:
        other.execute("BEGIN IMMEDIATE")
        with Ledger(path, busy_seconds=0.1) as ledger:
            assert "reserves_by_key" not in names(path)
            assert ledger.replay("a", "k1") == "3" and len(ledger.thread("a", "k0")) == 6 and ledger.account("a").spent == 5
            assert ledger.verify().ok


def test_a_thread_is_the_entries_with_its_key_in_order(tmp_path):
    filled(tmp_path / "ledger.db", 9)
    with Ledger(tmp_path / "ledger.db") as ledger:
        ledger.reserve("a", 1, key="k1", request="{}")
        every = ledger.history("a")
        for key in ("k0", "k1", "never"):
            for after in (0, 6, 100):
                wanted = [entry for entry in every if entry.key == key and entry.seq > after]
                assert [entry for entry, _ in ledger.thread("a", key, after)] == wanted


ANY = st.one_of(st.text(), st.integers(), st.none(), st.booleans(), st.floats(), st.binary())


@given(st.lists(ANY, min_size=len(fields(Entry)), max_size=len(fields(Entry))), st.booleans())
def test_hashes_are_those_of_the_json_of_all_values(values, either):
    """As it was computed first: whatever the values are, also where somebody has changed their types."""
    entry = Entry(*values)
    if not either:
        entry = replace(entry, pure=None, pure_budget=None, pure_spent=None)
    later = LATER if any(getattr(entry, name) is not None for name in LATER) else ()
    later += () if entry.scope is None else ("scope",)
    plain = [int(v) if isinstance(v, bool) else v for v in (getattr(entry, name) for name in HASHED + later)]
    assert entry_hash(entry) == sha256(json.dumps(plain, separators=(",", ":"), default=repr))


def test_entries_are_known_by_the_beginning_of_their_hash(tmp_path):
    filled(tmp_path / "ledger.db")
    with Ledger(tmp_path / "ledger.db") as ledger:
        hash = ledger.history()[3].hash
        assert ledger.contains(hash[:16]) and ledger.contains(hash[:20].upper()) and not ledger.contains("0" * 16)
