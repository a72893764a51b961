"""Paid and not lost: whatever goes wrong after a charge, whoever paid has the release, and whoever asks again has it for free."""

import json
import os
import signal
import sqlite3
from contextlib import closing, contextmanager
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
from store_conformance import in_child, needs_fork

import pellucid as pel
from pellucid.release.explanation import Explanation
from pellucid.release.stream import Channel

SEX = pel.Distribution("sex")
RECORD = {"age": 40, "children": 3, "bmi": 25.0, "lab": 1.0, "sex": "F", "school": "primary", "smoker": False}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "study.db"


@pytest.fixture
def session(people, schema, path):
    ledger = pel.Ledger(path, busy_seconds=0.3, create=True)
    return pel.Session(people, schema, pel.Budget(epsilon=1.0), name="ward", ledger=ledger, create=True)


def locked_after_reading(session, path, how="BEGIN EXCLUSIVE"):
    """Somebody locks the ledger between the charge and the commit; call the result to end it."""
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    original = session._engine.totals

    def totals(query):
        found = original(query)
        other.execute(how)
        return found

    session._engine.totals = totals

    def end():
        session._engine.totals = original
        other.execute("ROLLBACK")
        other.close()

    return end


@pytest.mark.parametrize("how", ["BEGIN IMMEDIATE", "BEGIN EXCLUSIVE"])
def test_a_ledger_locked_at_commit_does_not_lose_the_release(session, path, how):
    unlock = locked_after_reading(session, path, how)
    found = session.release(SEX, epsilon=0.25)
    assert abs(found.counts.sum() - 3000) < 200 and found.certificate.total["epsilon"] == 0.25
    unlock()
    assert session.ledger.waiting() == 1 and session.spent == 0.25
    again = session.release(SEX, epsilon=0.25)
    assert again.to_json() == found.to_json() and session.spent == 0.25, "asking again is free"
    session.release(pel.Distribution("school"), epsilon=0.25)
    assert [entry.kind for entry in session.history()] == ["open", "reserve", "commit", "reserve", "commit"]
    assert session.ledger.waiting() == 0 and session.ledger.verify().ok
    assert session.release(SEX, epsilon=0.25).content() == found.content() and session.spent == 0.5


def test_it_waits_for_the_next_process_too(session, people, schema, path):
    unlock = locked_after_reading(session, path)
    found = session.release(SEX, epsilon=0.25)
    unlock()
    session.ledger.close()
    again = pel.Session(people, schema, pel.Budget(epsilon=1.0), name="ward", ledger=path)
    assert [entry.kind for entry in again.history()] == ["open", "reserve", "commit"], "committed when it was opened"
    assert again.release(SEX, epsilon=0.25).to_json() == found.to_json() and again.spent == 0.25
    assert not list(path.parent.glob("*.pending"))


@needs_fork
def test_it_survives_a_kill(session, people, schema, path):
    def act():
        locked_after_reading(session, path)
        session.release(SEX, epsilon=0.25)
        os.kill(os.getpid(), signal.SIGKILL)

    os.waitpid(in_child(act), 0)
    again = pel.Session(people, schema, pel.Budget(epsilon=1.0), name="ward", ledger=path)
    assert [entry.kind for entry in again.history()] == ["open", "reserve", "commit"] and again.ledger.verify().ok
    again.release(SEX, epsilon=0.25)
    assert again.spent == 0.25


def test_without_room_for_a_file_it_waits_in_memory(session, path):
    (path.parent / "study.db.pending").write_text("no folder")
    unlock = locked_after_reading(session, path)
    found = session.release(SEX, epsilon=0.25)
    unlock()
    assert session.release(SEX, epsilon=0.25).to_json() == found.to_json() and session.spent == 0.25
    session.release(pel.Distribution("school"), epsilon=0.25)
    assert session.ledger.waiting() == 0 and session.ledger.verify().ok


@pytest.mark.parametrize("accounting", ["worst case", "individual"])
def test_a_stream_does_not_lose_its_answer(people, schema, model, path, monkeypatch, accounting):
    ledger = pel.Ledger(path, busy_seconds=0.3, create=True)
    budget = pel.Budget(epsilon=2.0, delta=1e-6)
    session = pel.Session(people, schema, budget, "add-remove", "ward", ledger, expected_rows=3000, create=True)
    explainer = pel.LocalLinear(model, questions=3, accounting=accounting)
    keep = Channel.keep
    with session.open(explainer, epsilon=1.0) as local, closing(sqlite3.connect(path, isolation_level=None)) as other:

        def locked(*asked):
            other.execute("BEGIN EXCLUSIVE")
            found = keep(*asked)
            other.execute("ROLLBACK")
            assert session.ledger.waiting() == 1
            return found

        monkeypatch.setattr(Channel, "keep", locked)
        assert local.explain(RECORD).source == "data"
        spent = session.spent
        assert local.explain(RECORD).source == "reused" and session.spent == spent and session.ledger.waiting() == 0
        assert session.ledger.verify().ok


def test_an_interrupt_during_the_commit_keeps_the_release(session, monkeypatch):
    original = session.ledger._store.writing

    @contextmanager
    def interrupted():
        with original() as turn:
            if turn.charge(2)[0] is not None:
                raise KeyboardInterrupt
            yield turn

    monkeypatch.setattr(session.ledger._store, "writing", interrupted)
    with pytest.raises(KeyboardInterrupt):
        session.release(SEX, epsilon=0.25)
    monkeypatch.undo()
    assert session.spent == 0.25
    session.release(SEX, epsilon=0.25)
    assert session.spent == 0.25


def test_an_interrupt_while_rows_are_read_stays_charged(session, monkeypatch):
    def interrupted(query):
        raise KeyboardInterrupt

    monkeypatch.setattr(session._engine, "totals", interrupted)
    with pytest.raises(KeyboardInterrupt):
        session.release(SEX, epsilon=0.25)
    monkeypatch.undo()
    assert session.spent == 0.25 and [entry.kind for entry in session.history()] == ["open", "reserve"]
    session.release(SEX, epsilon=0.25)
    assert session.spent == 0.5, "nothing was released, so there is nothing to replay"


def test_what_belongs_to_another_ledger_is_left_alone(session, path):
    unlock = locked_after_reading(session, path)
    session.release(SEX, epsilon=0.25)
    unlock()
    session.ledger.close()
    for file in (path, path.parent / "study.db-journal"):
        file.unlink(missing_ok=True)
    with pel.Ledger(path, create=True) as other:
        other.open_account("ward", currency="epsilon", budget=10**12, delta="0", relation="replace", unit="one row")
        other.reserve("ward", 1, key="k", request="{}")
        assert len(other.history()) == 2 and other.waiting() == 0 and other.verify().ok
    assert len(list(path.parent.glob("study.db.pending/*.json"))) == 1


HALF = "\ud800"


@pytest.mark.parametrize("word", ["by", "purpose"])
def test_half_a_character_is_refused_before_it_is_paid_for(session, word):
    with pytest.raises(pel.PellucidError, match="cannot be stored"):
        session.release(SEX, epsilon=0.25, **{word: HALF})
    assert session.spent == 0


def test_half_a_character_in_a_setting_or_a_model_is_refused_before_it_is_paid_for(session, schema):
    def risk(d):
        return d["age"] / 100

    named = pel.Model(risk, output=(0, 1), features=["age"], trained_on="other data", name=f"risk {HALF}")
    for explainer in (
        pel.PrivateRanking(lambda d: [1, 2], ["a", HALF], blocks=4),
        pel.PrivatePlot(lambda d: [1.0], [HALF], output=(0, 1), blocks=4),
        pel.PartialDependence(named, "age"),
        pel.ClusterHistograms(pel.Clustering(lambda d: d["sex"], ["F", HALF], trained_on="other data")),
    ):
        with pytest.raises(pel.PellucidError):
            session.release(explainer, epsilon=0.25)
    with pytest.raises(pel.PellucidError):
        session.open(pel.LocalLinear(named), epsilon=0.25)
    assert session.spent == 0


@dataclass(frozen=True, eq=False, kw_only=True)
class Odd(Explanation):
    """A result of somebody's own."""

    what: object

    def interval(self, level=0.95):
        return np.zeros(1), np.zeros(1)

    def to_frame(self):
        return pd.DataFrame()

    def plot(self, ax=None):
        return ax


def own(result):
    class Own(pel.Distribution):
        def run(self, ask):
            super().run(ask)
            return result

    return Own("sex")


@pytest.mark.parametrize(
    "what", [{1, 2}, object(), float("nan"), HALF, "x" * 10**6], ids=["set", "object", "nan", "half", "long"]
)
def test_a_result_that_is_hard_to_store_is_returned(session, what):
    found = session.release(own(Odd(what=what)), epsilon=0.25)
    assert found.what is what and found.certificate.entry and session.spent == 0.25
    assert session.ledger.verify().ok


def test_half_a_character_in_a_result_is_stored_and_read_back(session):
    class Half(Odd):
        kind = "half a character"

    found = session.release(own(Half(what=HALF)), epsilon=0.25)
    assert pel.from_json(found.to_json()).what == HALF
    assert [entry.kind for entry in session.history()][-1] == "commit"


def test_a_run_that_returns_no_explanation_says_so(session):
    with pytest.raises(pel.PlanError, match=r"returned a NoneType.*charge stays spent"):
        session.release(own(None), epsilon=0.25)


def test_a_preview_says_what_is_free(session):
    session.release(SEX, epsilon=1.0)
    seen = session.preview(SEX, epsilon=1.0)
    assert seen.free and seen.affordable and "free" in str(seen) and "cannot pay" not in str(seen) and seen.to_dict()["free"]
    other = session.preview(pel.Distribution("school"), epsilon=1.0)
    assert not other.free and not other.affordable and "cannot pay" in str(other)


def test_every_explanation_of_ours_is_stored_whatever_its_numbers(session):
    with closing(sqlite3.connect(session.ledger.path)) as raw:
        assert raw.execute("PRAGMA user_version").fetchone() == (1,)
    found = session.release(SEX, epsilon=0.25)
    assert json.loads(session.ledger.replay("ward", session.history()[1].key)) == json.loads(found.to_json())
