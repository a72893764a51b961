"""One person's loss, and the filter: exact divergences of adaptive runs, and sabotage that is noticed."""

import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pellucid as pel
from pellucid.sensitivity import IndividualFilter, IndividualLoss, individual, individual_loss


def gaussian_renyi(means, other, sigma, alpha):
    """Rényi divergence of N(means, σ²) from N(other, σ²) by integration on a fine grid."""
    x = np.linspace(-40 * sigma, 40 * sigma, 400_001)
    log_p = -((x - means) ** 2) / (2 * sigma**2)
    log_q = -((x - other) ** 2) / (2 * sigma**2)
    integrand = np.exp(alpha * log_p + (1 - alpha) * log_q) / (sigma * math.sqrt(2 * math.pi))
    return math.log(np.trapezoid(integrand, x)) / (alpha - 1)


def test_individual_loss_is_attained():
    """The loss of a contribution is the Rényi divergence between the noise with and without it."""
    for value, sigma, alpha in ((1.0, 2.0, 2.0), (0.5, 1.0, 7.5), (3.0, 4.0, 1.5)):
        exact = gaussian_renyi(value, 0.0, sigma, alpha)
        assert exact <= individual_loss(value, sigma).renyi(alpha) * (1 + 1e-9)
        assert individual_loss(value, sigma).renyi(alpha) == pytest.approx(exact, rel=1e-6)


def test_losses_of_vectors_add_up():
    assert individual_loss([3.0, 4.0], 10.0).rho == 0.125
    total = individual_loss(3.0, 10.0) + individual_loss(4.0, 10.0)
    assert total.rho == pytest.approx(0.125)
    assert IndividualLoss(0.0).epsilon(1e-6) == 0 and IndividualLoss(0.0).delta(1.0) == 0
    assert total.delta(total.epsilon(1e-6)) <= 1e-6 * (1 + 1e-6)


@pytest.mark.parametrize(
    "bad", [lambda: individual_loss(1.0, 0.0), lambda: individual_loss(1.0, math.inf), lambda: IndividualLoss(1.0).renyi(1)]
)
def test_bad_arguments(bad):
    with pytest.raises(pel.PlanError):
        bad()


def exact_price(square, scale):
    return Fraction(int(square)) / (2 * Fraction(scale) ** 2)


@given(
    st.lists(st.tuples(st.lists(st.integers(0, 2**60), min_size=4, max_size=4), st.integers(1, 2**31)), max_size=20),
    st.integers(1, 50),
)
def test_nobody_ever_loses_more_than_the_limit(questions, tenth):
    rho = Fraction(tenth, 10)
    guard = IndividualFilter(rho, people=4)
    spent = [Fraction(0)] * 4
    for squares, scale in questions:
        admitted = guard.admit(np.array(squares, dtype=np.int64), scale)
        for i in range(4):
            price = exact_price(squares[i], scale)
            if admitted[i]:
                spent[i] += price
            else:
                # Left out only when it would not fit, but for the rounding of the account.
                assert spent[i] + price > rho * (1 - Fraction(1, 2**40))
    assert all(s <= rho for s in spent)


@given(st.lists(st.tuples(st.integers(0, 3000), st.booleans(), st.integers(0, 1)), min_size=1, max_size=12), st.booleans())
def test_copies_that_count_too_much_do_no_harm(questions, both):
    """Two copies answer in turn and count all questions, one of them some of these twice: nobody loses more than the limit.

    Each question is (contribution, whether the first copy counts it twice, which copy answers it).
    """
    rho, scale = Fraction(1), 2000
    copies = [IndividualFilter(rho, 1, for_good=True) for _ in range(2)]
    lost = Fraction(0)
    for length, twice, who in questions:
        admitted = [bool(copy.admit(np.array([length**2]), scale)[0]) for copy in copies]
        lost += exact_price(length**2, scale) if admitted[who] else 0
        for copy in copies if both else copies[:1]:
            if twice:
                copy.admit(np.array([length**2]), scale)
    assert lost <= rho


def test_copies_that_skip_would_do_harm():
    """Why they stop for good: a copy that skips a dear question has room for another that the first copy cannot have known."""
    exact, wary = IndividualFilter(Fraction(1), 1), IndividualFilter(Fraction(1), 1)
    price = {name: np.array([round(part * 2 * 2000**2)]) for name, part in (("a", 0.3), ("b", 0.69), ("c", 0.35))}
    for _ in range(2):
        wary.admit(price["a"], 2000)
    exact.admit(price["a"], 2000)
    lost = 0.3 + 0.69 * exact.admit(price["b"], 2000)[0]
    wary.admit(price["b"], 2000)
    lost += 0.35 * wary.admit(price["c"], 2000)[0]
    assert lost > 1.3
    stopped = IndividualFilter(Fraction(1), 1, for_good=True)
    for name in ("a", "a", "b"):
        stopped.admit(price[name], 2000)
    assert not stopped.admit(price["c"], 2000)[0] and stopped.admit(np.array([0]), 2000)[0]


def adaptive_divergence(guard, contributions, scales, alpha):
    """Rényi divergence of a two-question run in which the second question depends on the first answer's sign.

    The person contributes `contributions[0]` to the first question and `contributions[1][sign]` to the second. For a fixed
    first answer the inner divergence is that of one Gaussian; the outer integral is done on a grid.
    """
    sigma1 = float(scales[0])
    first = contributions[0] if guard.admit(np.array([contributions[0] ** 2]), scales[0])[0] else 0
    x = np.linspace(-60 * sigma1, 60 * sigma1, 200_001)
    after = {}
    for sign in (-1, 1):
        copy = IndividualFilter(guard.rho, 1)
        copy._spent[:] = guard._spent
        second = contributions[1][sign] if copy.admit(np.array([contributions[1][sign] ** 2]), scales[1])[0] else 0
        after[sign] = (alpha - 1) * alpha * second**2 / (2 * float(scales[1]) ** 2)
    log_p, log_q = -((x - first) ** 2) / (2 * sigma1**2), -(x**2) / (2 * sigma1**2)
    log_inner = np.where(x < 0, after[-1], after[1])
    integrand = np.exp(alpha * log_p + (1 - alpha) * log_q + log_inner) / (sigma1 * math.sqrt(2 * math.pi))
    return math.log(np.trapezoid(integrand, x)) / (alpha - 1)


RHO = Fraction(1, 2)


def test_individual_filter_is_attained():
    """A person who spends exactly the limit loses exactly α·B, one who would spend more is left out, and no run loses more."""
    for contributions in (
        (1000, {-1: 1000, 1: 0}),
        (1000, {-1: 1000, 1: 1000}),
        (1200, {-1: 1000, 1: 500}),
        (3000, {-1: 900, 1: 900}),
    ):
        for alpha in (1.5, 4.0, 16.0):
            exact = adaptive_divergence(IndividualFilter(RHO, 1), contributions, (Fraction(1414), Fraction(1415)), alpha)
            assert exact <= alpha * float(RHO) * (1 + 1e-9)
    tight = adaptive_divergence(IndividualFilter(RHO, 1), (1000, {-1: 998, 1: 998}), (Fraction(1414), Fraction(1415)), 4.0)
    assert tight >= 0.99 * 4.0 * float(RHO)


def test_charging_after_the_fact_is_noticed(monkeypatch):
    """A filter that admits first and looks at the account afterwards breaks the bound."""

    def admit_then_charge(self, squares, scale):
        admitted = self._spent < self.UNITS
        self._spent += np.where(admitted, np.minimum(self._price(np.asarray(squares), Fraction(scale)), self.UNITS), 0)
        return admitted

    monkeypatch.setattr(IndividualFilter, "admit", admit_then_charge)
    with pytest.raises(AssertionError):
        test_individual_filter_is_attained()


def test_nothing_of_the_state_is_shown():
    guard = IndividualFilter(1.0, people=3)
    guard.admit(np.array([5, 6, 7]), 10)
    assert repr(guard) == "IndividualFilter(rho=1)" and guard.rho == 1
    assert not hasattr(guard, "__dict__")
    with pytest.raises(TypeError, match="secrets"):
        pickle.dumps(guard)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_lengths_that_are_no_numbers_are_left_out(bad):
    guard = IndividualFilter(1.0, people=2)
    assert guard.admit(np.array([bad, 1.0]), 10).tolist() == [False, True]


def test_lengths_that_overflowed_or_are_huge_are_left_out(recwarn):
    """A wrapped square is negative and must not be a credit; nothing raises or warns, whatever the lengths are."""
    guard = IndividualFilter(1.0, people=1)
    for bad in (np.array([-5]), np.array([-1e300]), np.array([10**400], dtype=object), np.array([None], dtype=object)):
        assert not guard.admit(bad, 1.0)[0]
    assert not guard.admit(np.array([1]), 1e-200)[0] and guard.admit(np.array([1]), 1e200)[0]
    assert not guard.admit(np.array([3]), 1.0)[0] and guard.admit(np.array([1]), 1.0)[0]
    assert not recwarn.list


def test_losses_are_rounded_up():
    rng = np.random.default_rng(0)
    for value, sigma in zip(rng.normal(size=500).tolist(), rng.uniform(0.1, 9, 500).tolist()):
        assert Fraction(individual_loss(value, sigma).rho) >= Fraction(value) ** 2 / (2 * Fraction(sigma) ** 2)
    assert individual_loss(1.0, 1e-200).rho == math.inf and individual_loss(1.0, 1e200).rho > 0
    with pytest.raises(pel.PlanError):
        individual_loss(math.nan, 1.0)


def test_refusals():
    for rho, people in ((0, 1), (-1, 1), (1, -1)):
        with pytest.raises(pel.PlanError):
            IndividualFilter(rho, people)
    guard = IndividualFilter(1.0, people=2)
    with pytest.raises(pel.PlanError):
        guard.admit(np.array([1]), 10)
    with pytest.raises(pel.PlanError):
        guard.admit(np.array([1, 1]), 0)


def test_people_at_zero_pay_nothing():
    guard = IndividualFilter(1e-9, people=1)
    for _ in range(100):
        assert guard.admit(np.array([0]), 1)[0]
    assert individual.IndividualFilter is IndividualFilter
