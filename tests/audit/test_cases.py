"""The catalogue of audited releases: none is left out, each is moved as far as its noise allows, and that can be measured."""

import pytest

from pellucid import explainers
from pellucid.audit.cases import KNOWN, SHARP, Case, ReplayCase, StreamCase, cases
from pellucid.audit.search import moved
from pellucid.explainers.local.bound import Moments
from pellucid.mechanisms import Norms
from pellucid.release.session import Session
from pellucid.sensitivity import IndividualFilter

CASES = {case.name: case for case in cases()}
SINGLE = [name for name, case in CASES.items() if type(case) is Case and case.pair is not None and case.floor]


def test_every_explainer_is_audited():
    released = {name for name in explainers.__all__ if name != "Explainer"}
    assert {type(case.explainer).__name__ for case in CASES.values()} == released
    assert len(CASES) == len(cases())


def test_both_relations_and_currencies_are_audited():
    worlds = [case.world for case in CASES.values()]
    assert {(world.relation, world.currency) for world in worlds} == {
        (relation, currency) for relation in ("replace", "add-remove") for currency in ("epsilon", "rho")
    }
    assert sum(world.unit.column is not None for world in worlds) >= 2
    assert any(feature.excludes for world in worlds for feature in world.schema.values())
    assert {case.explainer.method for case in CASES.values() if isinstance(case, StreamCase)} == {
        "one-shot",
        "descent",
        "adaptive",
    }
    assert any(case.explainer.accounting == "individual" for case in CASES.values() if isinstance(case, StreamCase))


def test_what_is_not_known_is_said():
    assert all(case.why for case in CASES.values())
    assert all(case.floor in (SHARP, KNOWN) for case in CASES.values() if case.pair is not None and type(case) is not ReplayCase)


@pytest.mark.parametrize("name", SINGLE)
def test_the_worst_neighbours_attain_what_noise_is_scaled_to(name):
    case = CASES[name]
    found = moved(case.explainer, case.world, case.pair)
    assert not found.broken and round(found.whole, 3) >= 0.95


@pytest.mark.parametrize(
    ("name", "runs"),
    [
        ("partial dependence, replace", 20_000),
        pytest.param("distribution, people with several rows", 20_000, marks=pytest.mark.slow),
        pytest.param("Shapley ranking, replace", 20_000, marks=pytest.mark.slow),
        pytest.param("permutation importance, ranking, replace", 20_000, marks=pytest.mark.slow),
        pytest.param("private plot, replace", 20_000, marks=pytest.mark.slow),
        pytest.param("stream, one-shot", 12_000, marks=pytest.mark.slow),
    ],
)
def test_most_of_a_claim_is_measured(name, runs):
    case = CASES[name]
    row = case.play(runs=runs, confidence=0.99)
    assert row.verdict == "holds" and row.runs == runs
    assert case.floor * row.claimed <= row.measured <= row.claimed


def test_a_replay_says_nothing_new(monkeypatch):
    case = CASES["replay, statistic"]
    row = case.play(runs=3)
    assert (row.measured, row.verdict) == (0.0, "holds")
    monkeypatch.setattr(Session, "_stored", lambda *_: None)
    assert case.play(runs=3).verdict.startswith("broken")


@pytest.mark.parametrize("name", ["stream, one-shot, zCDP", "stream, descent"])
def test_a_stream_with_half_its_noise_is_caught(name, monkeypatch):
    half = {"l1": 2, "l2_squared": 4, "linf": 2}
    added, slope = Moments.added, Moments.slope_norm

    def halved(self):
        return Norms(**{key: getattr(added(self), key) // part for key, part in half.items()})

    assert CASES[name].play(runs=10).verdict == "holds"
    monkeypatch.setattr(Moments, "added", halved)
    monkeypatch.setattr(Moments, "slope_norm", lambda *given: slope(*given) // 2)
    assert CASES[name].play(runs=10).verdict.startswith("broken")


def test_an_account_that_is_charged_too_little_is_caught(monkeypatch):
    case, price = CASES["stream, one account per record"], IndividualFilter._price
    row = case.play(runs=10)
    assert row.verdict == "holds" and 0.99 < row.moved <= 1
    monkeypatch.setattr(IndividualFilter, "_price", lambda self, *given: price(self, *given) // 2)
    assert case.play(runs=10).verdict.startswith("broken")
