"""How long a release takes is measured on public records: no row of the table is read for it, and nothing is charged."""

import time

import pytest
from people import make_people

import pellucid as pel
from pellucid.release import preview

SLOW = 2e-4


def slow(table):
    time.sleep(SLOW * len(table))
    return table["age"] / 100


@pytest.fixture
def session(schema):
    return pel.Session(make_people(3_000), schema, budget=pel.Budget(1.0))


def test_a_preview_says_how_long_it_takes(session, schema):
    model = pel.Model(slow, output=(0, 1), features=["age"], trained_on="other data")
    found = session.preview(pel.PartialDependence(model, "age", points=5, method="values"), epsilon=0.5)
    least = 3_000 * 5 * SLOW
    assert least / 2 < found.seconds < 10 * least and "takes about" in str(found)
    assert not [entry for entry in session.history() if entry.kind == "reserve"]


def test_nothing_is_said_of_what_is_quick_or_cannot_be_told(session, monkeypatch):
    found = session.preview(pel.Distribution("age"), epsilon=0.5)
    monkeypatch.setattr(preview, "LONG", 1e9)
    assert found.seconds >= 0 and "takes" not in str(found)
    model = pel.Model(lambda d: d["age"] / 100, output=(0, 1), features=["age"], trained_on="other data")
    assert session.preview(pel.LocalLinear(model), epsilon=0.5).seconds is None
