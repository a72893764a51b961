"""Accounts that count either way: what they pay for, what they refuse, and that the chain shows both sums."""

import os
import sqlite3
from contextlib import closing, suppress
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from store_conformance import needs_fork
from test_ledger import in_child, rehash, tamper

import pellucid as pel
from pellucid.errors import AccountMismatch, BudgetExceeded, LedgerCorrupt, LedgerError
from pellucid.ledger import SCALE, Ledger, budget_units, charge_units
from pellucid.ledger.accounting import Budget
from pellucid.mechanisms import epsilon_at_order, order_of, rho_at_order, rho_of_epsilon_delta, rho_of_pure

BUDGET = Budget(1.0, 1e-6, accounting="either")
PEOPLE = {"relation": "replace", "unit": "person"}
RHO = BUDGET.terms["budget"]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "study.db"


def opened(ledger, budget=BUDGET, name="a"):
    return ledger.open_account(name, **budget.terms, **PEOPLE)


def pay(ledger, epsilon=None, rho=None, name="a", key=""):
    amount, currency = (rho, "rho") if epsilon is None else (Fraction(str(epsilon)), "epsilon")
    return ledger.reserve(name, charge_units(Fraction(amount)), key=key, request="{}", currency=currency)


@pytest.mark.parametrize("epsilon, delta", [(1, 1e-6), (0.1, 1e-6), (8, 1e-5), (1000, 1e-6), (0.01, 1e-10), (1, 0.3)])
def test_the_zcdp_side_holds_what_a_zcdp_account_holds(epsilon, delta):
    order = order_of(epsilon, delta)
    held, whole = rho_at_order(epsilon, delta, order), rho_of_epsilon_delta(epsilon, delta)
    assert whole * (1 - Fraction(1, 10**11)) - Fraction(1, 10**12) <= held <= whole
    assert epsilon_at_order(held, delta, order) == pytest.approx(epsilon, rel=1e-6)


@given(st.floats(1e-9, 50), st.floats(1.001, 3000))
def test_a_pure_release_costs_no_more_than_either_simple_rule(epsilon, order):
    cost = rho_of_pure(epsilon, order)
    assert 0 < cost <= min(epsilon**2 / 2, epsilon / order) * (1 + 1e-11)


def test_it_is_a_pure_account_for_pure_releases():
    with Ledger(None) as ledger:
        opened(ledger)
        for _ in range(10):
            pay(ledger, epsilon=0.1)
        standing = ledger.account("a")
        assert standing.pure_spent == SCALE and standing.pure_remaining == 0 and standing.spent > standing.budget
        with pytest.raises(BudgetExceeded, match="left 0, missing"):
            pay(ledger, epsilon="0.000000001")
        with pytest.raises(BudgetExceeded):
            pay(ledger, rho=Fraction(1, 10**9))
        assert ledger.verify().ok


def test_it_is_a_zcdp_account_for_zcdp_releases():
    with Ledger(None) as ledger:
        opened(ledger)
        for _ in range(40):
            pay(ledger, rho=Fraction(RHO // 40, SCALE))
        standing = ledger.account("a")
        assert standing.remaining < 40 and standing.pure_spent is None and standing.pure_remaining == 0
        with pytest.raises(BudgetExceeded, match="rho"):
            pay(ledger, rho=Fraction(1, 10**9))
        assert ledger.verify().ok


def test_a_pure_release_leaves_most_of_the_rest_to_zcdp():
    """Counted as ε²/2 a quarter of ε would be more than the whole zCDP side."""
    with Ledger(None) as ledger:
        opened(ledger)
        pay(ledger, epsilon=0.25)
        left = ledger.account("a").remaining
        assert left > 0.5 * RHO and SCALE // 32 > RHO
        pay(ledger, rho=Fraction(left, SCALE))
        assert ledger.account("a").remaining == 0 and ledger.verify().ok
        with pytest.raises(BudgetExceeded):
            pay(ledger, epsilon=0.01)


def test_the_other_kind_is_offered_in_the_refusal():
    with Ledger(None) as ledger:
        opened(ledger)
        pay(ledger, epsilon=0.5)
        with pytest.raises(BudgetExceeded, match=r"asked epsilon = 0.9, left 0.5.*zCDP release of at most ρ = 0\.00") as refused:
            pay(ledger, epsilon=0.9)
        assert refused.value.left == 0.5
        with pytest.raises(BudgetExceeded, match=r"asked rho.*pure release of at most ε = 0\.5"):
            pay(ledger, rho=Fraction(1, 10))


def test_a_charge_says_its_kind_and_a_question_that_was_paid_for_has_none():
    with Ledger(None) as ledger:
        opened(ledger)
        with pytest.raises(LedgerError, match="counts either way"):
            ledger.reserve("a", 5, key="k", request="{}")
        pay(ledger, epsilon=0.25, key="k")
        standing = ledger.account("a")
        ledger.prepaid("a", key="k", request="{}")
        assert ledger.account("a") == standing
        ledger.open_account("b", currency="epsilon", budget=5, delta="0", **PEOPLE)
        with pytest.raises(LedgerError, match="counts epsilon"):
            ledger.reserve("b", 1, key="", request="{}", currency="rho")


CHARGES = st.lists(
    st.tuples(st.sampled_from(["epsilon", "rho"]), st.integers(1, 400), st.booleans()),
    max_size=25,
)


@settings(max_examples=60, deadline=None)
@given(CHARGES)
def test_no_sequence_of_charges_passes_both_sides(charges):
    """Against a plain count of our own, in which a pure release costs its Rényi divergence at the account's order."""
    alpha = BUDGET.order
    with Ledger(None) as ledger:
        opened(ledger)
        pure, rho, all_pure = 0, 0, True
        for currency, size, commit in charges:
            units = size * SCALE // 1000 if currency == "epsilon" else size * RHO // 1000
            beside = charge_units(Fraction(rho_of_pure(Fraction(units, SCALE), alpha))) if currency == "epsilon" else units
            still = all_pure and currency == "epsilon"
            fits = (still and pure + units <= SCALE) or rho + beside <= RHO
            try:
                paid = ledger.reserve("a", units, key="", request="{}", currency=currency)
            except BudgetExceeded:
                assert not fits
                continue
            assert fits
            rho, all_pure = rho + beside, still
            pure += units if currency == "epsilon" else 0
            if commit:
                ledger.commit(paid, "{}")
        standing = ledger.account("a")
        assert (standing.spent, standing.pure_spent) == (rho, pure if all_pure else None)
        assert standing.is_within and ledger.verify().ok


@given(st.integers(0, 900), st.integers(0, 900))
@settings(max_examples=30, deadline=None)
def test_the_most_it_can_pay_is_the_most(pure, rho):
    with Ledger(None) as ledger:
        opened(ledger)
        for amount, currency in ((pure * SCALE // 1000, "epsilon"), (rho * RHO // 1000, "rho")):
            if amount and ledger.account("a").can_pay(amount, currency):
                ledger.reserve("a", amount, key="", request="{}", currency=currency)
        standing = ledger.account("a")
        for currency in ("epsilon", "rho"):
            most = standing.most(currency)
            assert (not most or standing.can_pay(most, currency)) and not standing.can_pay(most + 1, currency)


@needs_fork
def test_processes_racing_with_both_kinds_never_pass_both_sides(path):
    with Ledger(path, create=True) as ledger:
        opened(ledger)

    def grab(number):
        with Ledger(path) as own:
            for turn in range(60):
                kind = {"epsilon": 0.03} if (turn + number) % 5 else {"rho": Fraction(RHO // 50, SCALE)}
                with suppress(BudgetExceeded):
                    pay(own, **kind)

    children = [in_child(lambda number=number: grab(number)) for number in range(4)]
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 4
    with Ledger(path) as ledger:
        standing = ledger.account("a")
        assert standing.is_within and ledger.verify().ok
        paid = [entry for entry in ledger.history("a") if entry.kind == "reserve"]
        assert standing.spent == sum(entry.amount for entry in paid) <= RHO
        assert any(entry.pure for entry in paid) and standing.pure_spent is None
        assert not standing.can_pay(RHO // 50, "rho")


def test_it_is_reopened_on_its_terms_only(path):
    with Ledger(path, create=True) as ledger:
        opened(ledger)
    with Ledger(path) as ledger:
        assert opened(ledger).order == BUDGET.order
        for other in (
            Budget(1.0, 1e-6),
            Budget(1.0),
            Budget(2.0, 1e-6, accounting="either"),
            Budget(1.0, 1e-7, accounting="either"),
        ):
            with pytest.raises(AccountMismatch):
                opened(ledger, other)
        assert ledger.currency("A") == "either" and ledger.currency("b") is None


def test_both_sides_are_raised_together_at_the_same_order(path):
    with Ledger(path, create=True) as ledger:
        first = opened(ledger)
        pay(ledger, epsilon=0.9)
        more = budget_units(rho_at_order(2, 1e-6, first.order))
        with pytest.raises(LedgerError, match="raised together"):
            ledger.raise_budget("a", more, by="Bo", purpose="more")
        with pytest.raises(LedgerError, match="pure budget"):
            ledger.raise_budget("a", more, pure=SCALE, by="Bo", purpose="more")
        raised = ledger.raise_budget("a", more, pure=2 * SCALE, by="Bo", purpose="more")
        assert raised.pure_budget == 2 * SCALE and raised.budget == more and raised.order == first.order
        pay(ledger, epsilon=1.1)
        with pytest.raises(BudgetExceeded):
            pay(ledger, epsilon=0.01)
        assert ledger.verify().ok
    with Ledger(path) as ledger:
        # With the first budget and with the raised one.
        assert opened(ledger) == opened(ledger, Budget(2.0, 1e-6, accounting="either"))


def filled(path):
    with Ledger(path, create=True) as ledger:
        opened(ledger)
        for _ in range(4):
            pay(ledger, epsilon=0.2)
        pay(ledger, epsilon=0.1)
    return path


@pytest.mark.parametrize("column", ["pure", "pure_budget", "pure_spent"])
@pytest.mark.parametrize("value", ["77", "NULL", "0.5"])
def test_an_edited_side_is_found(path, column, value):
    tamper(filled(path), f"UPDATE entries SET {column} = {value} WHERE seq = 4")
    with Ledger(path) as ledger:
        found = ledger.verify()
    assert not found.ok and found.first_bad == 4


@pytest.mark.parametrize(
    "statement, bad",
    [
        ("UPDATE entries SET pure_spent = 0 WHERE seq = 6", 6),
        ("UPDATE entries SET pure_budget = 5000000000000", 1),
        ("UPDATE entries SET pure = 1 WHERE seq = 3", 3),
        ("UPDATE entries SET pure = NULL WHERE seq = 3", 3),
        ("UPDATE entries SET pure = -200000000000 WHERE seq = 3", 3),
        ("UPDATE entries SET amount = 1, spent = 1 WHERE seq = 2", 3),
        ("UPDATE entries SET pure = NULL, pure_budget = NULL, pure_spent = NULL", 5),
    ],
)
def test_a_forged_side_still_has_to_add_up(path, statement, bad):
    tamper(filled(path), statement)
    rehash(path)
    with Ledger(path) as ledger:
        found = ledger.verify()
    assert not found.ok and found.first_bad == bad


def test_an_account_of_one_kind_has_no_pure_side(path):
    with Ledger(path, create=True) as ledger:
        ledger.open_account("b", currency="rho", budget=50, delta="1e-6", **PEOPLE)
        ledger.reserve("b", 50, key="", request="{}")
    tamper(path, "UPDATE entries SET pure_budget = 50, pure_spent = 0")
    rehash(path)
    with Ledger(path) as ledger:
        assert not ledger.verify().ok


def test_a_ledger_without_these_columns_is_read_and_goes_on(path):
    with Ledger(path, create=True) as ledger:
        ledger.open_account("b", currency="epsilon", budget=50, delta="0", **PEOPLE)
        ledger.reserve("b", 20, key="", request="{}")
        before = ledger.history()
    with closing(sqlite3.connect(path)) as raw:
        for name in ("pure", "pure_budget", "pure_spent"):
            raw.execute(f"ALTER TABLE entries DROP COLUMN {name}")
        raw.commit()
    with Ledger(path) as ledger:
        assert ledger.history() == before and ledger.verify().ok
        opened(ledger)
        pay(ledger, epsilon=0.5)
        ledger.reserve("b", 30, key="", request="{}")
        assert ledger.verify().ok
    with Ledger(path) as ledger:
        assert ledger.account("a").pure_spent == SCALE // 2


@pytest.mark.parametrize(
    "terms", [{"pure": None}, {"order": None}, {"order": Fraction(1)}, {"delta": "0"}, {"currency": "rho"}, {"pure": 0}]
)
def test_terms_that_do_not_fit_are_refused(terms):
    with Ledger(None) as ledger, pytest.raises(LedgerError):
        ledger.open_account("a", **{**BUDGET.terms, **PEOPLE, **terms})


@pytest.mark.parametrize("budget", [{"delta": 1e-6, "accounting": "pure"}, {"accounting": "either"}, {"accounting": "zcdp"},
                                    {"delta": 1e-6, "accounting": "both"}])  # fmt: skip
def test_budgets_that_do_not_fit_are_refused(budget):
    with pytest.raises(pel.PlanError, match="accounting"):
        Budget(1.0, **budget)


def test_damage_is_found_before_a_charge(path):
    tamper(filled(path), "UPDATE entries SET pure_spent = 0 WHERE seq = 6")
    with Ledger(path) as ledger, pytest.raises(LedgerCorrupt, match="entry 6"):
        pay(ledger, epsilon=0.01)
