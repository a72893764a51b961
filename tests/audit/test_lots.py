"""Lots of an audit: the same beside two tables that are told apart, and never those of a release that somebody else makes."""

import threading

import pytest

import pellucid as pel
from pellucid.audit import Neighbours, World, play
from pellucid.audit.neighbours import coupled
from pellucid.audit.transcript import Kept
from pellucid.mechanisms import labels as secret

FRESH = secret.fresh
SCHEMA = pel.Schema({"a": pel.Number(0, 1), "y": pel.Number(0, 1)})


def labels(count):
    return secret.fresh().of_rows(0, count).tolist()


def first(d):
    return d["a"]


MODEL = pel.Model(first, output=(0, 1), features=["a"], trained_on="other data")
IMPORTANCE = pel.PermutationImportance(MODEL, "y", features=["a"], loss="absolute", cap=1.0, repeats=1)
MIXED = ({"a": 0.0, "y": 0.0},) * 60 + ({"a": 1.0, "y": 1.0},) * 60
"""Whose importance depends on who is paired with whom by many times what one of them can change."""


def test_two_audits_at_once_leave_no_public_lots_behind():
    """Whichever leaves first: a thread that has audited must draw secret lots for what it releases later."""
    inside, other_inside, left, done = (threading.Event() for _ in range(4))
    drawn = []

    def leaves_first():
        with coupled():
            inside.set()
            other_inside.wait(10)
        left.set()
        done.wait(10)
        drawn.extend(labels(4))

    def leaves_last():
        inside.wait(10)
        with coupled():
            other_inside.set()
            left.wait(10)
        done.set()

    threads = [threading.Thread(target=run) for run in (leaves_first, leaves_last)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert secret.fresh is FRESH
    with coupled():
        assert drawn != labels(4)


def test_lots_are_public_inside_alone_and_secret_after_an_error():
    elsewhere = []
    with pytest.raises(KeyboardInterrupt), coupled(3):
        once = labels(5)
        thread = threading.Thread(target=lambda: elsewhere.extend(labels(5)))
        thread.start()
        thread.join()
        with coupled(3):
            assert labels(70_000)[:5] == once
        raise KeyboardInterrupt
    assert secret.fresh is FRESH
    assert elsewhere != once and labels(5) != once


def test_lots_alone_tell_no_two_tables_apart():
    """Each side with lots of its own was called broken: what lots do to either was taken for what a person does."""
    pair = Neighbours(MIXED, MIXED, "the same table twice")
    query = World(SCHEMA).plan(IMPORTANCE, len(MIXED)).stages[0].query
    one, other = Kept.beside(*pair.engines(SCHEMA, "replace", pel.Unit()))
    assert one.all(query) == other.all(query) and len({tuple(totals) for totals in one.all(query)}) > 1
    assert play(IMPORTANCE, World(SCHEMA), runs=3000, confidence=0.9999, pair=pair).measured == 0


@pytest.mark.parametrize("neighbors", ["replace", "add-remove"])
def test_an_audit_never_meets_the_table_of_its_session(neighbors, monkeypatch):
    session = pel.Session({"a": [0.5], "y": [0.5]}, SCHEMA, pel.Budget(epsilon=1.0), neighbors=neighbors)
    with monkeypatch.context() as patch:
        for read in ("totals", "batches", "check"):
            patch.setattr(session._engine, read, None)
        assert session.audit(pel.Statistic("a"), epsilon=1.0, runs=20).verdict == "holds"
    assert session.spent == 0 and session.release(pel.Statistic("a"), epsilon=1.0).certificate.audited
