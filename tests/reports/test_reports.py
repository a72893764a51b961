"""Reports: planned from public things, never dearer than asked, resumed for free, with one certificate that adds up."""

import re
from fractions import Fraction
from html.parser import HTMLParser

import numpy as np
import pytest

import pellucid as pel
from pellucid.engine import LocalEngine
from pellucid.release.combined import combined

SCHEMA = pel.Schema({"age": pel.Number(0, 99, integer=True), "dose": pel.Number(0, 1), "sex": pel.Category(["F", "M"])})
SOMEBODY = {"age": 50, "dose": 0.5, "sex": "F"}


def risk(d):
    return d["age"] / 200 + d["dose"] / 4 + 0.2 * (d["sex"] == "M")


def people(count, seed=0):
    rng = np.random.default_rng(seed)
    return {"age": rng.integers(0, 100, count), "dose": rng.random(count), "sex": rng.choice(["F", "M"], count)}


def opened(count=5_000, budget=None, **more):
    return pel.Session(people(count), SCHEMA, budget=budget or pel.Budget(1.0), **more)


@pytest.fixture
def model():
    return pel.Model(risk, output=(0, 1), features=["age", "dose", "sex"], trained_on="other data", name="risk")


def charges(session):
    return [entry for entry in session.history() if entry.kind == "reserve"]


def test_a_plan_reads_nothing_and_pays_nothing(model, monkeypatch):
    session, read = opened(), []
    monkeypatch.setattr(LocalEngine, "totals", lambda *_, **__: read.append(1))
    plan = session.report(model, epsilon=1.0).plan
    assert not read and not charges(session) and "Nothing is paid yet" in str(plan)
    assert sum(step.spend.amount for step in plan) <= 1
    assert {"importance", "curve along age", "distribution of age"} <= {step.name for step in plan}


@pytest.mark.parametrize(
    "budget", [pel.Budget(1.0), pel.Budget(1.0, 1e-6, accounting="zcdp"), pel.Budget(1.0, 1e-6, accounting="either")], ids=str
)
def test_the_whole_costs_no_more_than_was_asked(model, budget):
    session = opened(budget=budget)
    made = session.report(model, epsilon=0.5).release()
    assert made.certificate.epsilon <= 0.5 + 1e-9 and session.spent.epsilon <= 0.5 + 1e-9
    assert made.certificate.epsilon == pytest.approx(session.spent.epsilon, rel=1e-6)
    assert session.ledger.verify().ok


def test_the_plan_depends_on_nothing_in_the_table(model):
    one, other = (
        pel.Session(people(5_000, seed), SCHEMA, budget=pel.Budget(1.0)).report(model, epsilon=1.0).plan for seed in (0, 1)
    )
    assert str(one) == str(other)


def test_prices_do_not_tell_which_record_was_asked_about(model):
    plans = [opened().report(model, epsilon=1.0, record=r).plan for r in (SOMEBODY, {"age": 99, "dose": 1.0, "sex": "M"})]
    assert str(plans[0]) == str(plans[1]) and "one decision" in str(plans[0])


def test_a_report_that_was_stopped_goes_on_and_what_was_released_is_free(model, tmp_path, monkeypatch):
    ledger = tmp_path / "study.db"
    session = opened(name="ward-7", ledger=ledger, create=True)
    draft, lists = session.report(model, epsilon=1.0), []
    whole = type(draft)._released

    def stopped(self, steps, *asked):
        lists.append(len(steps))
        if len(lists) == 2:
            raise KeyboardInterrupt
        return whole(self, steps, *asked)

    monkeypatch.setattr(type(draft), "_released", stopped)
    with pytest.raises(KeyboardInterrupt):
        draft.release()
    before = len(charges(session))
    assert before == lists[0] and float(session.spent) < 1
    monkeypatch.setattr(type(draft), "_released", whole)
    again = opened(name="ward-7", ledger=ledger)
    made = again.report(model, epsilon=1.0).release()
    assert float(again.spent) == pytest.approx(1.0) and made.certificate.epsilon == pytest.approx(1.0)
    third = opened(name="ward-7", ledger=ledger)
    same = third.report(model, epsilon=1.0).release()
    assert len(charges(third)) == before + len(made) - lists[0], "a third run is free"
    assert [one.to_frame().to_csv() for one in same] == [one.to_frame().to_csv() for one in made]


def test_an_account_that_cannot_pay_for_all_of_it_is_not_charged_at_all(model):
    session = opened()
    session.release(pel.Distribution("age"), epsilon=0.5)
    with pytest.raises(pel.BudgetExceeded, match="asked epsilon = 1"):
        session.report(model, epsilon=1.0).release()
    assert len(charges(session)) == 1
    assert session.report(model).plan.spend.amount == Fraction(1, 2), "without a price it is all that is left"


def test_what_is_hopeless_is_left_out_with_what_would_do(model):
    plan = opened(300).report(model, epsilon=0.3).plan
    assert plan.left_out and all(step.relative <= 0.5 for step in plan)
    assert any(re.search(r"left out; ±.* about [\d,]+ people or ε = ", str(one)) for one in plan.left_out)
    with pytest.raises(pel.PlanError, match="nothing of this report could be read"):
        opened(10).report(model, epsilon=0.01)


def test_the_certificate_is_the_sum_of_its_parts_by_hand(model):
    made = opened().report(pel.Report(model).only("importance", "curves"), epsilon=1.0).release()
    parts = [one.certificate for one in made]
    whole = made.certificate
    assert whole.epsilon == pytest.approx(sum(part.epsilon for part in parts)) and whole.delta == 0
    assert len(whole.charges) == sum(len(part.charges) for part in parts)
    assert sum(charge["amount"] for charge in whole.charges) == pytest.approx(whole.epsilon)
    assert {a for part in parts for a in part.assumptions} == set(whole.assumptions)
    assert pel.total([whole]).epsilon == whole.epsilon and whole.status == pel.total(parts).status
    assert pel.Certificate.from_dict(whole.to_dict()) == whole
    twice = combined({"a": parts[0], "the same again": parts[0]})
    assert twice.epsilon == parts[0].epsilon and len(twice.charges) == len(parts[0].charges)


def test_only_and_without(model):
    assert pel.Report(model).only("curves", "importance").wanted == ("importance", "curves")
    assert "interactions" not in pel.Report(model).without("interactions").wanted
    with pytest.raises(pel.PlanError, match="did you mean 'curves'"):
        pel.Report(model).only("curvs")
    with pytest.raises(pel.PlanError, match="has its settings already"):
        opened().report(pel.Report(model), epsilon=1, most=3)


class Tags(HTMLParser):
    VOID = {"meta", "img", "br"}

    def __init__(self):
        super().__init__()
        self.open, self.seen = [], []

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))
        self.open += [] if tag in self.VOID else [tag]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_says_what_was_found_first_and_asks_for_nothing_outside(model, tmp_path):
    made = opened(20_000, pel.Budget(4.0)).report(model, epsilon=4.0, record=SOMEBODY, clusters=2, questions=[SOMEBODY]).release()
    assert {"one decision", "clusters", "what tells clusters apart"} <= set(made.names)
    made.save(tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    tags = Tags()
    tags.feed(text)
    assert not tags.open and "script" not in {tag for tag, _ in tags.seen}
    sources = [attrs[name] for _, attrs in tags.seen for name in ("src", "href") if name in attrs]
    assert all(source.startswith("data:") for source in sources) and "url(" not in text
    assert all(attrs.get("alt") for tag, attrs in tags.seen if tag == "img")
    found, pictures, officer, details = (text.index(f"<h2>{title}") for title in
        ("What was found", "Pictures", "For the privacy officer", "Technical details"))  # fmt: skip
    assert found < pictures < officer < details and text.count("Certificate of the whole report") == 1
    with pytest.raises(pel.PlanError, match="or of a folder"):
        made.save(tmp_path / "report.png")


def test_curves_of_a_report_lean_on_its_distributions_and_a_plan_says_how_long_it_takes(model, monkeypatch):
    draft = opened().report(model, epsilon=1.0)
    made = draft.release()
    curves = [step.candidate.explainer for step in made.steps if step.part == "curves"]
    released = {one.feature for name, one in made.items() if name.startswith("distribution")}
    assert curves and all({spread.feature for spread in curve.people} == released for curve in curves)
    assert 0 < draft.plan.seconds < 60
    monkeypatch.setattr("pellucid.reports.planner.LONG", 0.0)
    assert draft.plan.takes.startswith("The release takes about ")
