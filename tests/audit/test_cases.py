"""The catalogue of audited releases: none is left out, each is moved as far as its noise allows, and that can be measured."""

import time

import pytest

from pellucid import explainers
from pellucid.audit.cases import KNOWN, SHARP, Case, ReplayCase, StreamCase, cases
from pellucid.audit.run import Report, audit
from pellucid.audit.seams import Seam
from pellucid.audit.search import moved
from pellucid.errors import LoadError
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
    known = [case for case in CASES.values() if case.pair is not None and type(case) not in (ReplayCase, Seam)]
    assert all(case.floor in (SHARP, KNOWN) for case in known)


@pytest.mark.parametrize("name", SINGLE)
def test_the_worst_neighbours_attain_what_noise_is_scaled_to(name):
    case, parts = CASES[name], []
    # A private choice may fall otherwise now and then, and with it what later stages ask.
    while len(parts) < 5 and max(parts, default=0) < case.attains:
        found = moved(case.explainer, case.world, case.pair)
        assert not found.broken
        parts.append(round(found.whole, 3))
    assert parts[-1] >= case.attains


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
    """True claims are not called broken by chance, and what is measured lies many standard errors above the floor."""
    case = CASES[name]
    row = case.play(runs=runs, confidence=0.99999)
    assert row.verdict == "holds" and row.runs == runs
    assert case.floor * row.claimed <= row.measured <= row.claimed


def test_a_fast_audit_of_the_whole_catalogue_breaks_nothing_and_leaves_nothing_out():
    """Few releases of each, but all of them, as the command does; a true claim is called broken once in 10,000 times."""
    start = time.process_time()
    report = audit(workers=1, runs=60, risk=1e-4)
    assert report.holds, report
    listed = report.to_list()
    assert [row["name"] for row in listed] == [*CASES, *(finding.name for finding in report.findings)] and not report.skipped
    assert all({"name", "claimed", "measured", "confidence", "verdict"} <= set(row) for row in listed)
    assert all(0 <= row.measured <= row.claimed and row.runs for row in report.rows)
    assert all(row.floor == CASES[row.name].floor for row in report.rows)
    assert time.process_time() - start < 90


def test_an_audit_that_was_stopped_goes_on_from_its_notes(tmp_path):
    notes, asked = tmp_path / "rows.jsonl", ["statistic, replace", "statistic, sum", "low bits"]
    measured: list[str] = []
    first = audit(asked, runs=60, workers=1, notes=notes, told=lambda name, done, of: measured.append(name))
    assert len(measured) == 3
    lines = notes.read_text().splitlines(keepends=True)
    # It was killed while the last line was written.
    notes.write_text("".join(lines[:-1]) + lines[-1][:30])
    again = audit(asked, runs=60, workers=1, notes=notes, told=lambda name, done, of: measured.append(name))
    assert measured[3:] == [first.findings[0].name] and again.rows == first.rows
    assert audit(asked, runs=60, workers=1, notes=notes).to_list() == again.to_list() and len(notes.read_text().splitlines()) == 3
    audit(asked[:1], runs=60, workers=1, notes=notes, told=lambda name, done, of: measured.append(name))
    assert len(measured) == 5, "a table of other releases has another confidence"
    notes.write_text("nonsense\n")
    with pytest.raises(LoadError, match="not what an audit writes"):
        audit(asked, runs=60, workers=1, notes=notes)


def test_a_missed_floor_is_a_remark_and_breaks_nothing():
    row = CASES["statistic, replace"].play(runs=60, confidence=0.99999)
    assert row.verdict == "holds" and row.part < row.floor and "below the 0.8 of the claim" in row.remark
    report = Report((row,))
    assert report.holds and report.remarks == (row.name,) and "1 of the rows measure less than" in str(report)
    assert "below its floor" in report.markdown and row.to_dict()["remark"] == row.remark


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

    assert CASES[name].play(runs=10, confidence=0.99999).verdict == "holds"
    monkeypatch.setattr(Moments, "added", halved)
    monkeypatch.setattr(Moments, "slope_norm", lambda *given: slope(*given) // 2)
    assert CASES[name].play(runs=10).verdict.startswith("broken")


def test_an_account_that_is_charged_too_little_is_caught(monkeypatch):
    case, price = CASES["stream, one account per record"], IndividualFilter._price
    row = case.play(runs=10, confidence=0.99999)
    assert row.verdict == "holds" and 0.99 < row.moved <= 1
    monkeypatch.setattr(IndividualFilter, "_price", lambda self, *given: price(self, *given) // 2)
    assert case.play(runs=10).verdict.startswith("broken")
