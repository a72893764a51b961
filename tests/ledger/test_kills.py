"""Whole releases killed at random moments, by several processes on one file: nothing lost, nothing uncharged, in copies too.

The run of 10,000 releases is `benchmarks/kill_release.py`; this is the same with some hundred.
"""

import os
import shutil
from collections import Counter

import kill_release
import pytest
from store_conformance import needs_fork

import pellucid as pel


@needs_fork
def test_killed_releases_leave_no_trace_but_their_charge(tmp_path):
    path = tmp_path / "ledger.db"
    kill_release.opened(tmp_path / "warm.db").release(pel.Distribution("sex"), epsilon=0.01)
    found = kill_release.kill(path, releases=150, processes=3, longest=1.0, pause=0.3)
    assert kill_release.judge(path, found) == []
    assert found.kills >= 3 and any(said.endswith(": whole") for said in found.copies) and len(found.told) >= 150


@needs_fork
def test_a_lost_charge_and_a_lost_release_would_be_noticed(tmp_path):
    path = tmp_path / "ledger.db"
    session = kill_release.opened(path)
    told = session.release(pel.Distribution("sex"), epsilon=0.01)
    seen = kill_release.Found(kills=1, told={told.certificate.entry: "0" * 64})
    assert kill_release.judge(path, seen) == ["1 releases lost"]
    seen = kill_release.Found(kills=1, told={"0" * 64: session.history()[-1].released})
    assert kill_release.judge(path, seen) == ["1 releases without a charge"]


def test_a_copy_that_lost_its_end_would_be_noticed(tmp_path, monkeypatch):
    path = tmp_path / "ledger.db"
    session = kill_release.opened(path)
    session.release(pel.Distribution("sex"), epsilon=0.01)
    old = shutil.copy(path, tmp_path / "old.db")
    session.release(pel.Distribution("sex"), epsilon=0.01, fresh=True)
    session.ledger.close()
    assert kill_release.check_copy(path, tmp_path / "copy.db").endswith(": whole")
    monkeypatch.setattr(kill_release, "copy", lambda source, target: shutil.copy(old, target) and "badly")
    said = kill_release.check_copy(path, tmp_path / "copy.db")
    assert said == "badly: verifies with 3 of 5 entries" and kill_release.Found(copies=Counter([said])).wrong == [said]
    assert not os.path.exists(tmp_path / "copy.db")


@pytest.mark.parametrize("how", [0.1, 0.9])
def test_both_ways_of_copying_are_exact(tmp_path, monkeypatch, how):
    path = tmp_path / "ledger.db"
    kill_release.opened(path).ledger.close()
    monkeypatch.setattr(kill_release.random, "random", lambda: how)
    kill_release.copy(path, tmp_path / "copy.db")
    assert (tmp_path / "copy.db").read_bytes() == path.read_bytes()


@needs_fork
def test_sessions_of_several_processes_race_for_one_budget(tmp_path):
    """Twenty releases can be paid, and twenty are obtained, whoever obtains them."""
    path = tmp_path / "ledger.db"

    def session():
        return pel.Session(kill_release.DATA, kill_release.SCHEMA, pel.Budget(0.2), name="people", ledger=path, create=True)

    session()
    reading, writing = os.pipe()

    def race():
        mine = session()
        for _ in range(20):
            try:
                mine.release(pel.Distribution("sex"), epsilon=0.01, fresh=True)
            except pel.BudgetExceeded:
                return
            os.write(writing, b"x")

    children = [kill_release.in_child(race) for _ in range(4)]
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 4
    os.close(writing)
    with os.fdopen(reading, "rb") as obtained:
        assert obtained.read() == b"x" * 20
    assert session().remaining == 0 and session().ledger.verify().entries == 41
