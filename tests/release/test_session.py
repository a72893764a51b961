"""The session: pays first, refuses in time, replays for free, and certifies what really happened."""

import dataclasses
import html
import json
import os
import subprocess
import sys
import tomllib
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from people import make_people, risk
from sources import Seeded, Silent

import pellucid as pel
from pellucid.mechanisms import source
from pellucid.query import bounds
from pellucid.release.plan import Stage


@pytest.fixture
def session(people, schema, tmp_path):
    return pel.Session(people, schema, budget=pel.Budget(epsilon=1.0), name="ward-7", ledger=tmp_path / "study.db", create=True)


def test_ten_tenths_fill_a_budget_of_one(session):
    for i in range(10):
        session.release(pel.Distribution("sex"), epsilon=0.1, purpose=f"release {i}", fresh=True)
    assert session.remaining == 0 and session.spent == 1
    with pytest.raises(pel.BudgetExceeded, match=r"asked epsilon = 0.01, left 0, missing 0.01") as caught:
        session.release(pel.Distribution("sex"), epsilon=0.01)
    assert (caught.value.asked, caught.value.left, caught.value.missing) == (0.01, 0.0, 0.01)


@pytest.mark.parametrize("broken", ["missing", "without its library"])
def test_without_opendp_no_session_opens(broken, tmp_path):
    """OpenDP draws the noise, after the charge: whether it can is known before there is an account to charge."""
    code = f"""
import sys
if {broken == "missing"}:
    sys.modules["opendp"] = None
import pellucid as pel
schema = pel.Schema({{"age": pel.Number(0, 99)}})
try:
    pel.Session({{"age": [30, 40]}}, schema, budget=pel.Budget(epsilon=1.0), name="ward-7", ledger="study.db")
except pel.MissingExtra as error:
    print(error)
"""
    library = {} if broken == "missing" else {"OPENDP_LIB_DIR": str(tmp_path)}
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, env=os.environ | library, timeout=120
    )
    project = tomllib.loads((Path(pel.__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = next(package for package in project["dependencies"] if package.startswith("opendp"))
    assert f"pip install --force-reinstall '{needed}'" in ran.stdout and "Nothing was charged" in ran.stdout, ran.stderr
    assert not list(tmp_path.iterdir())


def test_to_open_a_session_draws_nothing_from_the_source_of_tests(people, schema, monkeypatch):
    seeded = Seeded(3)
    monkeypatch.setattr(source, "current", seeded)
    pel.Session(people, schema, budget=pel.Budget(epsilon=1.0))
    assert seeded.rng.bit_generator.state == Seeded(3).rng.bit_generator.state


def test_a_refused_request_reads_no_row(session, monkeypatch):
    monkeypatch.setattr(session._engine, "totals", lambda query: pytest.fail("rows were read"))
    with pytest.raises(pel.BudgetExceeded):
        session.release(pel.Distribution("sex"), epsilon=1.5)
    assert session.spent == 0


def test_the_charge_is_durable_before_rows_are_read(session, tmp_path, monkeypatch):
    original = session._engine.totals

    def totals(query):
        assert pel.Ledger(tmp_path / "study.db").account("ward-7").spent > 0
        return original(query)

    monkeypatch.setattr(session._engine, "totals", totals)
    session.release(pel.Distribution("sex"), epsilon=0.1)


def test_a_run_that_fails_stays_paid_and_says_nothing(session, monkeypatch):
    def broken(columns, size):
        raise ValueError("cell 'Mrs Robinson' is odd")
        yield

    monkeypatch.setattr(session._engine.table, "batches", broken)
    with pytest.raises(pel.ReleaseFailed) as caught:
        session.release(pel.Distribution("sex"), epsilon=0.1)
    assert "Robinson" not in str(caught.value) and caught.value.__context__ is None
    assert session.spent == pytest.approx(0.1)


def test_identical_requests_are_replayed_free(session, people, schema, tmp_path, model):
    first = session.release(pel.PartialDependence(model, "age"), epsilon=0.2)
    again = session.release(pel.PartialDependence(model, "age"), epsilon=0.2)
    assert again.to_json() == first.to_json() and session.spent == pytest.approx(0.2)
    reopened = pel.Session(people, schema, budget=pel.Budget(epsilon=1.0), name="ward-7", ledger=tmp_path / "study.db")
    same_model = pel.Model(risk, output=(0, 1), features=list(schema), trained_on="other data")
    assert reopened.release(pel.PartialDependence(same_model, "age"), epsilon=0.2).to_json() == first.to_json()
    assert reopened.spent == pytest.approx(0.2)


def test_another_request_is_not_a_replay(session, schema, model):
    session.release(pel.PartialDependence(model, "age"), epsilon=0.1)
    other = pel.Model(lambda d: risk(d) * 0.9, output=(0, 1), features=list(schema), trained_on="other data")
    narrower = pel.Model(risk, output=(0, 0.5), features=list(schema), trained_on="other data")
    for explainer in (
        pel.PartialDependence(other, "age"),
        pel.PartialDependence(narrower, "age"),
        pel.PartialDependence(model, "age", points=5),
        pel.PartialDependence(model, "bmi"),
    ):
        before = session.spent
        session.release(explainer, epsilon=0.1)
        assert session.spent == pytest.approx(before + 0.1)
    before = session.spent
    session.release(pel.PartialDependence(model, "age"), epsilon=0.1, fresh=True)
    assert session.spent == pytest.approx(before + 0.1)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"budget": pel.Budget(epsilon=2.0)}, "budget"),
        ({"neighbors": "add-remove"}, "relation|neighb"),
        ({"unit": pel.Unit(max_rows=5)}, "unit"),
        ({"budget": pel.Budget(epsilon=1.0, delta=1e-6)}, "currency|epsilon|rho"),
    ],
)
def test_reopening_with_other_terms_is_refused(session, people, schema, tmp_path, options, words):
    with pytest.raises(pel.AccountMismatch, match=words):
        pel.Session(
            people, schema, **({"budget": pel.Budget(epsilon=1.0), "name": "ward-7", "ledger": tmp_path / "study.db"} | options)
        )


@pytest.mark.parametrize(
    ("cost", "words"),
    [
        ({}, "exactly one"),
        ({"epsilon": 0.1, "share": 0.1}, "exactly one"),
        ({"epsilon": 0}, "positive"),
        ({"epsilon": -1}, "positive"),
        ({"epsilon": float("nan")}, "finite"),
        ({"epsilon": "much"}, "not a number"),
        ({"share": 1.5}, "at most 1"),
        ({"rho": 0.1}, "zCDP account"),
    ],
)
def test_wrong_prices_say_the_fix(session, cost, words):
    with pytest.raises(pel.PlanError, match=words):
        session.release(pel.Distribution("sex"), **cost)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: pel.Budget(epsilon=0), "positive"),
        (lambda: pel.Budget(epsilon=-2), "positive"),
        (lambda: pel.Budget(epsilon=1, delta=1), "below 1"),
        (lambda: pel.Budget(epsilon=1, delta=5e-324), "floats end"),
        (lambda: pel.Budget(epsilon=1, delta=-0.1), "below 1|at least 0"),
        (lambda: pel.Budget(epsilon=float("inf")), "finite"),
        (lambda: pel.Session({"a": [1]}, pel.Schema({"a": pel.Number(0, 1)}), budget=1.0), "pel.Budget"),
        (lambda: pel.Session({"a": [1]}, {"a": pel.Number(0, 1)}, budget=pel.Budget(1.0)), "pel.Schema"),
        (lambda: pel.Session({"a": [1]}, pel.Schema({"a": pel.Number(0, 1)}), budget=pel.Budget(1.0), ledger="x.db"), "name="),
        (
            lambda: pel.Session({"a": [1]}, pel.Schema({"a": pel.Number(0, 1)}), budget=pel.Budget(1.0), neighbors="swap"),
            "add-remove",
        ),
        (lambda: pel.Session({"a": [1]}, pel.Schema({"a": pel.Number(0, 1)}), budget=pel.Budget(1.0), unit="id"), "pel.Unit"),
        (
            lambda: pel.Session({"a": [1]}, pel.Schema({"a": pel.Number(0, 1)}), budget=pel.Budget(1.0), expected_rows=0),
            "at least 1",
        ),
        (lambda: pel.Session({"a": []}, pel.Schema({"a": pel.Number(0, 1)}), budget=pel.Budget(1.0)), "empty"),
    ],
)
def test_wrong_sessions_say_the_fix(make, words):
    with pytest.raises(pel.PellucidError, match=words):
        make()


@pytest.mark.parametrize("accounting", [None, "zcdp"])
def test_accounts_with_a_delta_convert_epsilon_and_add_rho(people, schema, accounting):
    session = pel.Session(people, schema, budget=pel.Budget(epsilon=2.0, delta=1e-6, accounting=accounting))
    first = session.release(pel.Distribution("sex"), epsilon=1.0).certificate
    second = session.release(pel.Distribution("school"), epsilon=1.0).certificate
    assert first.epsilon == pytest.approx(1.0, rel=1e-6) and first.delta == 1e-6
    together = pel.total([first, second])
    assert together.rho == pytest.approx(first.rho + second.rho)
    assert 1.0 < together.epsilon < 1.6, "ρ adds, ε does not"
    assert float(session.spent) == pytest.approx(together.rho)
    assert session.spent.epsilon == pytest.approx(together.epsilon, rel=1e-6)
    session.release(pel.Distribution("age"), rho=float(session.remaining))
    assert session.remaining == pytest.approx(0, abs=1e-9)


def test_share_is_of_the_whole_account(session, tmp_path):
    session.release(pel.Distribution("sex"), share=0.25)
    session.release(pel.Distribution("school"), share=0.25)
    assert session.spent == pytest.approx(0.5)
    pel.Ledger(tmp_path / "study.db").raise_budget("ward-7", 2 * 10**12, by="board", purpose="second year")
    session.release(pel.Distribution("smoker"), share=0.25)
    assert session.spent == pytest.approx(1.0) and session.whole == 2.0


def test_preview_and_cost_touch_nothing(session, model, monkeypatch):
    monkeypatch.setattr(session._engine, "totals", lambda query: pytest.fail("rows were read"))
    preview = session.preview(pel.PartialDependence(model, "age", points=10), epsilon=0.1)
    assert len(preview.error) == 10 and preview.largest_error > 0 and preview.affordable
    assert "10 outputs" in str(preview) and json.dumps(preview.to_dict())
    cost = session.cost_for(pel.PartialDependence(model, "age", points=10), error=0.02)
    reached = session.preview(pel.PartialDependence(model, "age", points=10), epsilon=float(cost))
    assert 0.0199 < reached.largest_error <= 0.02
    assert session.spent == 0
    assert not session.preview(pel.Distribution("age"), epsilon=50).affordable
    with pytest.raises(pel.PlanError, match="positive number"):
        session.cost_for(pel.Distribution("age"), error=0)


def test_a_preview_in_a_notebook_is_the_one_that_is_printed(session, model):
    preview = session.preview(pel.PartialDependence(model, "age"), epsilon=0.5)
    shown = preview._repr_html_()
    assert all(html.escape(line.strip()) in shown for line in str(preview).splitlines()) and 'class="pellucid"' in shown


def test_previewed_errors_are_the_errors(people, schema, model):
    """The preview's half-width is the released band, to the digit."""
    session = pel.Session(people, schema, budget=pel.Budget(epsilon=1.0))
    preview = session.preview(pel.PartialDependence(model, "age", points=10), epsilon=0.5)
    lower, upper = session.release(pel.PartialDependence(model, "age", points=10), epsilon=0.5).interval()
    np.testing.assert_allclose((upper - lower) / 2, preview.error)


def test_add_remove_previews_need_a_guess(people, schema, model):
    session = pel.Session(people, schema, budget=pel.Budget(epsilon=1.0), neighbors="add-remove")
    with pytest.raises(pel.PlanError, match="expected_rows"):
        session.preview(pel.PartialDependence(model, "age"), epsilon=0.5)
    session.release(pel.PartialDependence(model, "age"), epsilon=0.5)


def test_add_remove_never_shows_the_number_of_records(schema, model, monkeypatch):
    """Grids, noise and requests are the same whatever the number of records."""
    monkeypatch.setattr(source, "current", Silent())
    seen = set()
    for size in (40, 4000):
        session = pel.Session(
            make_people(size), schema, budget=pel.Budget(epsilon=1.0), neighbors="add-remove", expected_rows=500
        )
        result = session.release(pel.PartialDependence(model, "bmi"), epsilon=0.5)
        seen.add((result.x, result.law, session.history()[-1].request, json.dumps(result.certificate.charges)))
    assert len(seen) == 1


def test_certificates_say_what_is_and_is_not_protected(people, schema, tmp_path):
    budget = pel.Budget(epsilon=4.0)
    unit = pel.Unit(max_rows=5)
    session = pel.Session(people, schema, budget=budget, name="ward", ledger=tmp_path / "l.db", unit=unit, create=True)
    trained_here = pel.Model(risk, output=(0, 1), features=list(schema), trained_on="this data", name="risk score")
    certificate = session.release(pel.PartialDependence(trained_here, "age"), epsilon=1, by="Ada", purpose="board").certificate
    assert certificate.status == "conditional" and len(certificate.conditions) == 2
    text = certificate.text
    for words in (
        "CONDITIONAL",
        "no person has more than 5 rows",
        "treated as public",
        "form 12",
        "Ada",
        "board",
        "K-norm",
        "box-sum",
    ):
        assert words in text
    private = pel.Model(risk, output=(0, 1), features=list(schema), trained_on=pel.PrivateTraining(1.0, 1e-6))
    certificate = session.release(pel.PartialDependence(private, "age"), epsilon=1).certificate
    assert "with (1, 1e-06)-differential privacy" in certificate.text
    assert certificate.total["epsilon"] == pytest.approx(2.0)
    ledger = pel.Ledger(tmp_path / "l.db")
    assert ledger.contains(certificate) and ledger.contains(certificate.entry) and ledger.contains(certificate.entry[:16])


def test_a_unit_without_ids_pays_for_its_rows(people, schema):
    """Group privacy: five rows a person is five times the noise."""
    laws = [
        pel.Session(people, schema, budget=pel.Budget(epsilon=1.0), unit=unit)
        .release(pel.Distribution("sex"), epsilon=1.0)
        .law.scale
        for unit in (None, pel.Unit(max_rows=5))
    ]
    assert laws[1] == pytest.approx(5 * laws[0])


def test_a_unit_with_ids_does_not(schema):
    people = make_people(600).assign(id=np.repeat(np.arange(200), 3))
    session = pel.Session(people, schema, budget=pel.Budget(epsilon=1.0), unit=pel.Unit("id", max_rows=2))
    result = session.release(pel.Distribution("sex"), epsilon=1.0)
    assert result.certificate.status == "proved" and "id" in result.certificate.unit
    assert abs(result.counts.sum() - 200) < 60


def test_three_thirds_fill_an_account(people, schema):
    for budget in (pel.Budget(epsilon=1.0), pel.Budget(epsilon=1.0, delta=1e-6)):
        session = pel.Session(people, schema, budget=budget)
        for name in ("sex", "school", "smoker"):
            session.release(pel.Distribution(name), share=1 / 3)
        assert session.remaining < 1e-11
        halves = pel.Session(people, schema, budget=budget)
        halves.release(pel.Distribution("sex"), share=0.5)
        halves.release(pel.Distribution("school"), share=0.5)


@pytest.mark.parametrize("cost", [{"epsilon": 1e-12}, {"epsilon": "1e-400"}, {"epsilon": 1e300}, {"share": 1e-15}])
def test_prices_beyond_reason_are_refused_before_paying(session, cost):
    with pytest.raises(pel.PlanError):
        session.release(pel.Distribution("sex"), **cost)
    assert session.spent == 0


def test_foreign_explainers_are_not_certified_as_proved(session):
    class Mine(pel.Distribution):
        pass

    ours = session.release(pel.Distribution("sex"), epsilon=0.1)
    theirs = session.release(Mine("sex"), epsilon=0.1)
    assert theirs.certificate.status == "conditional" and "Mine" in theirs.certificate.conditions[0]
    assert theirs.to_json() != ours.to_json() and session.spent == pytest.approx(0.2), "another class is another request"


def test_results_without_a_guarantee_are_not_replayed(session, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(source, "current", Silent())
        assert session.release(pel.Distribution("sex"), epsilon=0.1).certificate.status == "not private"
    again = session.release(pel.Distribution("sex"), epsilon=0.1)
    assert again.certificate.status == "proved" and not again.certificate.total["bounded"]


def test_a_replay_shows_the_account_as_it_is_now(session):
    first = session.release(pel.Distribution("sex"), epsilon=0.1)
    session.release(pel.Distribution("school"), epsilon=0.3)
    again = session.release(pel.Distribution("sex"), epsilon=0.1)
    assert again.certificate.entry == first.certificate.entry and again.certificate.total["epsilon"] == pytest.approx(0.4)
    np.testing.assert_array_equal(again.counts, first.counts)


def test_a_model_cannot_speak_through_an_interrupt(people, schema):
    odd = people.assign(bmi=people["bmi"].where(people.index != 100, 12.3456789))

    class Loud(BaseException):
        pass

    for kind in (KeyboardInterrupt, Loud):

        def shouting(d, kind=kind):
            if (d["bmi"] == 12.3456789).any():
                raise kind(f"row {d['bmi'].tolist()}")
            return d["bmi"] / 60

        model = pel.Model(shouting, output=(0, 1), features=["age", "bmi"], trained_on="other data")
        session = pel.Session(odd, schema, budget=pel.Budget(1.0))
        try:
            session.release(pel.PartialDependence(model, "age"), epsilon=1.0)
        except KeyboardInterrupt as stop:
            assert stop.args == () and stop.__context__ is None and kind is KeyboardInterrupt


def test_totals_over_accounts_and_relations(people, schema):
    def certificate(name, relation, epsilon, delta=0.0):
        session = pel.Session(people, schema, budget=pel.Budget(epsilon=9.0, delta=delta), neighbors=relation, name=name)
        return session.release(pel.Distribution("sex"), epsilon=epsilon).certificate

    a, b = certificate("a", "replace", 1.0), certificate("b", "replace", 2.0)
    assert pel.total([a, b]).epsilon == pytest.approx(3.0)
    assert pel.total([a, b], same_people=False).epsilon == pytest.approx(2.0)
    assert pel.total([a, a]).epsilon == pytest.approx(1.0), "the same release counts once"
    # Answers that one charge has paid for share its entry; one without a guarantee spoils them all, in whatever order.
    spoilt = replace(a, status="not private")
    assert pel.total([a, spoilt]).status == pel.total([spoilt, a]).status == "not private"
    mixed = pel.total([a, certificate("c", "add-remove", 0.5)])
    assert mixed.relation == "replace" and mixed.epsilon == pytest.approx(2.0), "add-remove ε doubles under replacement"
    both = pel.total([a, certificate("d", "replace", 1.0, 1e-6)])
    assert both.epsilon <= 2.0 and both.delta == 1e-6
    with pytest.raises(pel.PlanError, match="non-empty"):
        pel.total([])
    apart = pel.total([a, certificate("e", "replace", 0.9, 1e-3)], same_people=False)
    assert (apart.epsilon, apart.delta, apart.rho) == (pytest.approx(1.0), 1e-3, None), "the largest ε and the largest δ"


def test_totals_say_when_units_differ(people, schema):
    certificates = [
        pel.Session(people, schema, budget=pel.Budget(1.0), unit=unit).release(pel.Distribution("sex"), epsilon=0.5).certificate
        for unit in (None, pel.Unit("age", max_rows=3))
    ]
    together = pel.total(certificates)
    assert together.status == "conditional" and len(together.units) == 2 and "units differ" in str(together)


def test_saved_explanations_are_checked(tmp_path, session):
    path = tmp_path / "e.json"
    session.release(pel.Distribution("sex"), epsilon=0.1).save(path)
    body = json.loads(path.read_text())
    path.write_text(json.dumps(body | {"format": 99}))
    with pytest.raises(pel.PlanError, match="upgrade"):
        pel.load(path)
    path.write_text("{}")
    with pytest.raises(pel.PlanError, match="not a saved explanation"):
        pel.load(path)
    with pytest.raises(pel.PlanError, match="cannot be read"):
        pel.load(tmp_path / "nothing.json")
    with pytest.raises(pel.PlanError, match=r"savefig\('e.png'\)"):
        session.release(pel.Distribution("sex"), epsilon=0.1).save("e.png")


def test_a_session_shows_what_was_declared(session):
    assert repr(session).startswith(f"Session({session.name!r}, Budget(epsilon=") and repr(session).endswith("unit: one row)")


def test_history_tells_who_and_why(session):
    session.release(pel.Distribution("sex"), epsilon=0.1, by="Ada", purpose="annual report")
    kinds = [entry.kind for entry in session.history()]
    assert kinds == ["open", "reserve", "commit"]
    reserve = session.history()[1]
    assert (reserve.by, reserve.purpose) == ("Ada", "annual report") and len(reserve.day) == 10


def test_stages_are_used_once_and_must_be_planned(session, schema):
    class Greedy(pel.Distribution):
        def run(self, ask):
            ask.total("counts")
            return ask.total("counts")

    class Unplanned(pel.Distribution):
        def run(self, ask):
            return ask.total("more")

    class Lopsided(pel.Distribution):
        def plan(self, public):
            return dataclasses.replace(super().plan(public), stages=(Stage("counts", Fraction(2)),))

    for explainer, words in (
        (Greedy("sex"), "used already"),
        (Unplanned("sex"), "not planned"),
        (Lopsided("sex"), "add up to one"),
    ):
        with pytest.raises(pel.PlanError, match=words):
            session.release(explainer, epsilon=0.1, fresh=True)


def test_locked_and_missing_ledgers(people, schema, tmp_path):
    with pytest.raises(pel.LedgerUnavailable):
        pel.Session(people, schema, budget=pel.Budget(1.0), name="w", ledger=tmp_path / "no" / "where" / "l.db")
    (tmp_path / "junk.db").write_bytes(b"this is not a database, it is a note" * 100)
    with pytest.raises(pel.LedgerCorrupt):
        pel.Session(people, schema, budget=pel.Budget(1.0), name="w", ledger=tmp_path / "junk.db")


def test_tables_of_every_library(schema, people):
    import polars

    for data in (polars.from_pandas(people), people.to_dict("list"), pd.DataFrame(people)):
        session = pel.Session(data, schema, budget=pel.Budget(epsilon=1.0))
        assert abs(session.release(pel.Distribution("smoker"), epsilon=1.0).counts.sum() - 3000) < 60


def test_everything_public_is_exported():
    import pellucid

    named = {
        name
        for name in vars(pellucid)
        if not name.startswith("_") and getattr(vars(pellucid)[name], "__module__", "").startswith("pellucid")
    }
    assert named <= set(pellucid.__all__) and all(hasattr(pellucid, name) for name in pellucid.__all__)


def test_words_of_user_code_do_not_pass_as_ours(schema, people):
    """A map that raises our own kind of error, with a row in its message, is as silent as any other."""
    from pellucid.engine import LocalEngine
    from pellucid.public.schema import Unit
    from pellucid.query import Sum

    def tells(rows):
        raise pel.ReleaseFailed(f"age {rows['age'][0]}")

    engine = LocalEngine(people, schema, "replace", Unit())
    with pytest.raises(pel.ReleaseFailed) as caught:
        engine.totals(Sum(tells, bounds.Box(1, 0, 1), columns=("age",)))
    assert "age" not in str(caught.value) and caught.value.__context__ is None


def test_a_class_is_no_request(tmp_path):
    session = pel.Session({"age": [30] * 100}, pel.Schema({"age": pel.Number(0, 99)}), budget=pel.Budget(epsilon=1.0))
    with pytest.raises(pel.PlanError, match=r"write pel\.Completeness\(\)"):
        session.release(pel.Completeness, epsilon=0.5)


def test_the_budget_of_a_ledger_in_memory_is_raised_by_nobody(tmp_path):
    data, schema = {"age": [30] * 100}, pel.Schema({"age": pel.Number(0, 99)})
    for place in (None, tmp_path / "ledger.db"):
        session = pel.Session(data, schema, budget=pel.Budget(epsilon=1.0), name="ward", ledger=place, create=True)
        with pytest.raises(pel.BudgetExceeded, match="Ask for at most 1") as refused:
            session.release(pel.Distribution("age"), epsilon=2.0)
        assert ("pellucid ledger raise" in str(refused.value)) == (place is not None)
