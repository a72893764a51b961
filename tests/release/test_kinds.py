"""Sessions whose account counts either way: which kind a release is, what is left, what certificates say."""

import numpy as np
import pytest
from people import make_people

import pellucid as pel
from pellucid.ledger import SCALE, budget_units
from pellucid.mechanisms import epsilon_of_rho, rho_at_order

SCHEMA = pel.Schema({"age": pel.Number(17, 90, integer=True), "sex": pel.Category(["F", "M"]), "bmi": pel.Number(10, 60)})
EITHER = pel.Budget(1.0, 1e-6, accounting="either")
SEX = pel.Distribution("sex")
AGES = pel.Distribution("age", bins=10)


def session(budget=EITHER, **more):
    return pel.Session(make_people(400), SCHEMA, budget=budget, **more)


def square(preview):
    return float(np.mean(np.square(preview.error)))


@pytest.mark.parametrize("explainer", [SEX, AGES, pel.Distribution("age", bins=74)])
@pytest.mark.parametrize("cost", [{"epsilon": 0.3}, {"epsilon": 1.0}, {"share": 1}, {"share": 0.1}, {"share": 0.01}])
def test_a_release_is_never_worse_than_in_a_pure_or_a_zcdp_account(explainer, cost):
    made, pure, zcdp = (session(b).preview(explainer, **cost) for b in (EITHER, PURE, ZCDP))
    assert square(made) == pytest.approx(min(square(pure), square(zcdp)), rel=1e-9)
    assert made.affordable and made.spend in (pure.spend, zcdp.spend)


def test_large_shares_are_pure_and_small_ones_zcdp():
    opened = session()
    assert opened.preview(SEX, share=0.5).spend.currency == "epsilon"
    assert opened.preview(SEX, share=0.01).spend.currency == "rho"
    assert opened.preview(SEX, share=0.5, kind="zcdp").spend.currency == "rho"
    assert opened.preview(SEX, rho=0.001).spend.currency == "rho"
    with pytest.raises(pel.PlanError, match="kind='pure'"):
        opened.preview(SEX, rho=0.001, kind="pure")
    with pytest.raises(pel.PlanError, match="'pure' or 'zcdp'"):
        opened.preview(SEX, epsilon=0.1, kind="both")
    with pytest.raises(pel.PlanError, match="counts pure"):
        session(pel.Budget(1.0)).preview(SEX, epsilon=0.1, kind="zcdp")
    assert session(pel.Budget(1.0)).preview(SEX, epsilon=0.1, kind="pure").spend.currency == "epsilon"


@pytest.mark.parametrize("k, kind", [(4, "epsilon"), (30, "rho")])
def test_equal_shares_fill_the_account(k, kind):
    opened = session()
    for i in range(k):
        made = opened.release(pel.Distribution("age", bins=i + 2), share=f"{1 / k:.12f}")
        assert (made.certificate.rho is None) == (kind == "epsilon")
    assert float(opened.remaining) < 1e-3 and opened.ledger.verify().ok
    with pytest.raises(pel.BudgetExceeded):
        opened.release(SEX, epsilon=0.1)


def test_kinds_can_be_mixed_and_everything_says_what_is_left():
    opened = session()
    assert str(opened.whole) == "ε = 1 at δ = 1e-06, pure or zCDP" and float(opened.spent) == 0
    shown = str(opened.preview(SEX, epsilon=0.25))
    assert "it leaves pure ε = 0.75 or ρ = 0.014" in shown and "ends" not in shown
    first = opened.release(SEX, epsilon=0.25)
    assert first.certificate.rho is None and first.certificate.delta == 0 and opened.spent.epsilon == 0.25
    assert "pure ε = 0.25 of 1, and ρ = 0.0101" in first.certificate.text and "within ε = 1, δ = 1e-06" in first.certificate.text
    assert "it ends pure releases" in str(opened.preview(AGES, rho=0.005))
    second = opened.release(AGES, rho=0.005)
    assert second.certificate.rho == 0.005 and second.certificate.epsilon == epsilon_of_rho(0.005, 1e-6)
    assert "pure" not in str(opened.remaining) and 0.25 + second.certificate.epsilon < 1
    assert 0.5 < float(opened.spent) < 1 and opened.spent.delta == 1e-6
    rest = opened.release(pel.Distribution("bmi", bins=5), epsilon=float(opened.remaining))
    assert rest.certificate.rho is not None and float(opened.spent) <= 1
    # All three together are within what the account promises, counted after the fact too.
    total = pel.total([made.certificate for made in (first, second, rest)])
    assert total.epsilon <= 1 + 1e-9 and total.delta == 1e-6


def test_the_other_kind_is_used_when_one_is_spent():
    opened = session()
    opened.release(SEX, epsilon=1.0, kind="zcdp")
    with pytest.raises(pel.BudgetExceeded):
        opened.release(AGES, epsilon=0.1)
    opened = session()
    opened.release(AGES, rho=0.01)
    made = opened.preview(SEX, epsilon=0.3)
    assert made.spend.currency == "rho" and made.affordable
    opened = session()
    opened.release(SEX, epsilon=0.9)
    assert opened.preview(AGES, epsilon=0.1).spend.currency == "epsilon" and opened.remaining.epsilon == pytest.approx(0.1)


def test_an_identical_request_is_free_whatever_its_kind_would_be_now():
    opened = session()
    first = opened.release(SEX, epsilon=0.3)
    opened.release(AGES, rho=0.002)
    spent = opened.spent
    assert opened.preview(SEX, epsilon=0.3).free and opened.charge_for(SEX, epsilon=0.3) == 0
    again = opened.release(SEX, epsilon=0.3)
    assert opened.spent == spent and again.certificate.entry == first.certificate.entry
    fresh = opened.release(SEX, epsilon=0.3, fresh=True)
    assert fresh.certificate.rho is not None and opened.spent > spent


def test_a_price_for_an_error_is_that_of_the_better_kind():
    opened = session()
    price = opened.cost_for(SEX, error=20)
    assert price == pytest.approx(session(pel.Budget(1.0)).cost_for(SEX, error=20), rel=1e-6)
    assert opened.preview(SEX, epsilon=price).largest_error <= 20


def test_the_number_of_records_need_not_be_guessed_to_choose():
    opened = session(neighbors="add-remove")
    made = opened.release(
        pel.PartialDependence(pel.Model(flat, output=(0, 1), features=["age"], trained_on="other data"), "age", points=5), share=1
    )
    assert made.certificate.rho is None


def flat(d):
    return d["age"] / 100


def test_a_stream_keeps_its_kind(tmp_path):
    model = pel.Model(flat, output=(0, 1), features=["age"], trained_on="other data")
    asked = pel.LocalLinear(model, questions=4)
    opened = session(neighbors="add-remove", expected_rows=400, name="a", ledger=tmp_path / "l.db", create=True)
    with opened.open(asked, share=0.4) as stream:
        stream.explain({"age": 40})
        kind, spent = stream.spent.currency, stream.spent
        assert spent > 0
    opened.release(SEX, rho=0.002)
    with opened.open(asked, share=0.4) as stream:
        assert stream.spent == spent and stream.spent.currency == kind and stream.answered == 1
        if kind == "rho":
            stream.explain({"age": 80})
            assert stream.spent > spent
    assert opened.ledger.verify().ok


def test_one_account_per_record_is_charged_at_once():
    model = pel.Model(flat, output=(0, 1), features=["age"], trained_on="other data")
    opened = session(neighbors="add-remove", expected_rows=400)
    asked = pel.LocalLinear(model, questions=4, accounting="individual")
    with opened.open(asked, share=0.4) as stream:
        stream.explain({"age": 40})
        left = opened.remaining
        stream.explain({"age": 80})
        assert opened.remaining == left
    assert opened.ledger.verify().ok


def test_a_raised_account_goes_on_at_its_order(tmp_path):
    path = tmp_path / "l.db"
    opened = session(name="a", ledger=path, create=True)
    opened.release(SEX, epsilon=0.9)
    order = opened.ledger.account("a").order
    opened.ledger.raise_budget("a", budget_units(rho_at_order(2, 1e-6, order)), pure=2 * SCALE, by="Bo", purpose="more")
    again = session(pel.Budget(2.0, 1e-6, accounting="either"), name="a", ledger=path)
    made = again.release(AGES, epsilon=1.1)
    assert made.certificate.total["epsilon"] == pytest.approx(2.0) and made.certificate.total["budget_epsilon"] == 2.0
    assert float(again.remaining) == 0


def test_a_budget_that_does_not_say_is_counted_as_the_account_is(tmp_path):
    path, unsaid = tmp_path / "l.db", pel.Budget(1.0, 1e-6)
    zcdp = pel.Budget(1.0, 1e-6, accounting="zcdp")
    session(name="a", ledger=path, create=True).release(SEX, epsilon=0.4)
    again = session(unsaid, name="a", ledger=path)
    assert again.budget == EITHER and again.spent.epsilon == 0.4
    session(unsaid, name="b", ledger=path, create=True)
    first = session(zcdp, name="c", ledger=path, create=True)
    made = first.release(SEX, share=0.5)
    old = session(unsaid, name="c", ledger=path)
    assert old.budget.currency == "rho" and old.spent == first.spent and old.preview(SEX, share=0.5).free
    assert old.release(SEX, share=1 / 2).certificate.entry == made.certificate.entry
    assert old.release(AGES, share=0.5).certificate.rho == made.certificate.rho, "an account of zCDP stays one"
    for name, budget in (("a", zcdp), ("b", zcdp), ("c", EITHER)):
        with pytest.raises(pel.AccountMismatch, match="currency"):
            session(budget, name=name, ledger=path)


UNSAID, ZCDP, PURE = pel.Budget(1.0, 1e-6), pel.Budget(1.0, 1e-6, accounting="zcdp"), pel.Budget(1.0)


def paid(opened, costs):
    """How many of these releases are paid for, one after another, and the squares of their expected errors."""
    found = []
    for i, cost in enumerate(costs):
        explainer = pel.Distribution("age", bins=i % 30 + 2)
        try:
            expected = square(opened.preview(explainer, **cost))
            opened.release(explainer, **cost, fresh=True)
        except pel.BudgetExceeded:
            break
        found.append(expected)
    return found


@pytest.mark.parametrize("seed", range(6))
def test_whatever_a_zcdp_account_pays_for_by_epsilon_a_new_account_does_and_no_worse(seed):
    rng = np.random.default_rng(seed)
    costs = [{"epsilon": float(e)} for e in rng.choice([0.05, 0.1, 0.25, 0.4], 25)] + [{"epsilon": 0.9}]
    if seed % 2:
        # The very last part may be pure: nothing is left for others.
        opened = session(ZCDP)
        costs = costs[: len(paid(opened, costs))]
        costs.append({"epsilon": opened.remaining.epsilon})
    before, now = paid(session(ZCDP), costs), paid(session(UNSAID), costs)
    assert len(now) >= len(before) and all(a <= b * (1 + 1e-6) for a, b in zip(now, before))


@pytest.mark.parametrize("seed", range(6))
def test_shares_that_add_up_to_one_are_all_paid_for(seed):
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.full(rng.integers(2, 14), 0.6)) * 0.999 + 0.001 / 14
    costs = [{"share": float(s)} for s in shares * (1 - 1e-9) / shares.sum()]
    pure = paid(session(PURE), costs)
    assert len(paid(session(UNSAID), costs)) == len(pure) == len(costs)


@pytest.mark.parametrize("k", [1, 2, 4, 8, 20])
def test_equal_shares_of_a_new_account_are_no_worse_than_in_either_other(k):
    costs = [{"share": f"{1 / k:.12f}"}] * k
    pure, zcdp, unsaid = (paid(session(budget), costs) for budget in (PURE, ZCDP, UNSAID))
    assert len(unsaid) == k and np.mean(unsaid) <= min(np.mean(pure), np.mean(zcdp)) * (1 + 1e-9)


def test_a_new_account_speaks_of_rho_as_a_zcdp_account_does():
    new, zcdp = session(UNSAID), session(ZCDP)
    assert float(new.whole) == float(new.remaining) == pytest.approx(float(zcdp.whole), rel=1e-9) and float(new.spent) == 0
    assert new.whole.epsilon == 1.0 and new.cost_for(SEX, error=50) == pytest.approx(zcdp.cost_for(SEX, error=50), rel=1e-9)
    assert new.preview(SEX, rho=zcdp.whole).affordable, "all that a zCDP account holds"
    shown = new.preview(SEX, epsilon=0.5)
    assert shown.spend.currency == "rho" and "kind='pure' the error would be 2.3 times smaller" in str(shown)
    assert (
        "kind=" not in str(new.preview(SEX, epsilon=1.0)) and new.preview(SEX, epsilon=0.5, kind="pure").spend.currency != "rho"
    )
    new.release(SEX, epsilon=0.5)
    new.release(AGES, rho=float(new.remaining))
    assert float(new.remaining) == 0 and new.remaining.epsilon == 0


def test_streams_of_a_new_account_are_zcdp():
    model = pel.Model(flat, output=(0, 1), features=["age"], trained_on="other data")
    for settings in ({}, {"accounting": "individual"}):
        opened = session(UNSAID, neighbors="add-remove", expected_rows=400)
        with opened.open(pel.LocalLinear(model, questions=2, **settings), share=0.5) as stream:
            stream.explain({"age": 40})
            assert stream.spent.currency == "rho" and stream.spent > 0
        assert float(opened.remaining) < float(opened.whole) and opened.ledger.verify().ok


def test_an_outlook_finds_the_course_that_errs_least():
    opened = session()
    few = opened.outlook([(SEX, {"share": 0.5}), (AGES, {"share": 0.5})])
    assert few.affordable and {c.currency for c in few.charges} == {"epsilon"}
    bins = [pel.Distribution("age", bins=b) for b in range(2, 32)]
    many = opened.outlook([(SEX, {"share": 0.4}), *((d, {"share": 0.02}) for d in bins)])
    assert many.kind == "zcdp" and many.affordable
    too_much = opened.outlook([(d, {"share": 0.3}) for d in bins[:4]])
    assert too_much.payable == 3 and not too_much.affordable
    assert float(opened.spent) == 0
    plain = session(pel.Budget(1.0)).outlook([(SEX, {"epsilon": 0.7}), (AGES, {"epsilon": 0.7})])
    assert plain.payable == 1 and plain.kind is None
    with pytest.raises(pel.PlanError, match="at least one"):
        opened.outlook([])


@pytest.mark.parametrize("accounting", [None, "either"])
def test_sessions_that_open_an_account_later_say_the_same_of_what_was_spent(tmp_path, accounting):
    def opened():
        budget = pel.Budget(epsilon=2.0, delta=1e-6, accounting=accounting)
        return pel.Session(
            {"x": [0, 1] * 50}, pel.Schema({"x": pel.Number(0, 1)}), budget, name="ward", ledger=tmp_path / "l.db", create=True
        )

    first = opened().release(pel.Distribution("x", bins=2), epsilon=0.1, **({"kind": "zcdp"} if accounting else {}))
    again = opened()
    assert (
        again.release(pel.Distribution("x", bins=2), epsilon=0.1, **({"kind": "zcdp"} if accounting else {})).to_json()
        == first.to_json()
    )
    assert first.certificate.total["epsilon"] == pytest.approx(0.1, rel=1e-6)
