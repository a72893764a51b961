"""Noise at the right scale, and tests that notice when it is not; exact samplers against their own formulas."""

import math
import random
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from dp_accounting import pld
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sources import Scaled

from pellucid.errors import PlanError
from pellucid.mechanisms import (
    NoiseLaw,
    Norms,
    Spend,
    add_noise,
    calibrate,
    calibrate_choice,
    choose,
    delta_of_rho,
    epsilon_of_rho,
    exact,
    rho_of_epsilon_delta,
    source,
    to_replace,
)
from pellucid.mechanisms import samplers as exact_samplers

UNITS = 1 << 30


def draws(mechanism, count):
    return np.array([add_noise([0] * mechanism.size, mechanism) for _ in range(count)], dtype=float)


def box(m):
    """Norms of m values replaced in [-1, 1]."""
    return Norms(2 * m * UNITS, 4 * m * UNITS**2, 2 * UNITS)


def fits(mechanism, sample):
    """Kolmogorov-Smirnov distance of |noise| from its public law, at one part in ten thousand."""
    grid = np.sort(np.abs(sample[:, 0]))
    levels = np.linspace(0.02, 0.98, 49)
    expected = np.array([mechanism.law.half_width(level) for level in levels])
    shares = np.searchsorted(grid, expected) / len(grid)
    return float(np.max(np.abs(shares - levels))) < stats.kstwo.ppf(0.9999, len(grid))


CASES = [
    (box(1), 1, Spend("epsilon", Fraction(1, 2))),
    (box(20), 20, Spend("epsilon", Fraction(1, 2))),
    (Norms(2 * UNITS, 2 * UNITS**2, UNITS), 20, Spend("epsilon", Fraction(1, 2))),
    (box(20), 20, Spend("rho", Fraction(1, 50))),
]


@pytest.mark.parametrize("case", range(len(CASES)))
def test_noise_has_the_law_it_claims(case):
    mechanism = calibrate(*CASES[case])
    assert fits(mechanism, draws(mechanism, 3000))


@pytest.mark.parametrize("factor", [0.7, 1.3])
@pytest.mark.parametrize("case", range(len(CASES)))
def test_noise_off_by_thirty_percent_is_noticed(case, factor, monkeypatch):
    monkeypatch.setattr(source, "current", Scaled(case, factor))
    mechanism = calibrate(*CASES[case])
    assert not fits(mechanism, draws(mechanism, 3000))


def test_the_better_mechanism_is_chosen():
    spend = Spend("epsilon", Fraction(1))
    assert calibrate(box(20), 20, spend).kind == "k-norm"
    assert calibrate(Norms(2 * UNITS, 2 * UNITS**2, UNITS), 20, spend).kind == "laplace"
    assert calibrate(box(20), 20, Spend("rho", Fraction(1))).kind == "gaussian"


@given(st.integers(1, 10**6), st.fractions(Fraction(1, 10**4), 50), st.sampled_from(["epsilon", "rho"]), st.integers(1, 40))
def test_calibration_never_costs_more_than_it_may(sensitivity, amount, currency, size):
    norms = Norms(sensitivity * size, sensitivity**2 * size, sensitivity)
    mechanism = calibrate(norms, size, Spend(currency, amount))
    assert mechanism.cost <= amount
    assert mechanism.cost > amount * Fraction(999, 1000)
    choice = calibrate_choice(2 * sensitivity, sensitivity, Spend(currency, amount), 3)
    assert choice.cost <= amount and choice.cost > amount * Fraction(99, 100)


def lattice_law(size, ratio, reach):
    """The exact law of max|z| for the K-norm distribution, by counting lattice points."""
    shells = [1.0] + [((2 * k + 1) ** size - (2 * k - 1) ** size) * math.exp(-ratio * k) for k in range(1, reach)]
    return np.array(shells) / sum(shells)


@pytest.mark.parametrize(("size", "ratio"), [(1, Fraction(1, 2)), (2, Fraction(1, 3)), (3, Fraction(9, 10)), (5, Fraction(1, 4))])
def test_k_norm_matches_the_counted_law(size, ratio):
    """Claim: k-norm-lattice. A coarse lattice on purpose: there a continuous formula would be visibly wrong."""
    below = random.Random(7).randrange
    radii = [max(abs(v) for v in exact_samplers.cube(ratio, size, below)) for _ in range(6000)]
    law = lattice_law(size, float(ratio), 400)
    cut = np.searchsorted(np.cumsum(law), 0.995)
    counts = np.bincount(np.minimum(radii, cut), minlength=cut + 1)
    expected = np.append(law[:cut], law[cut:].sum()) * len(radii)
    keep = expected > 5
    statistic = ((counts - expected) ** 2 / np.maximum(expected, 1e-9))[keep].sum()
    assert stats.chi2.sf(statistic, keep.sum() - 1) > 1e-4


def test_k_norm_is_private_on_the_lattice():
    """Claim: k-norm-lattice. The log ratio of probabilities of shifted points is at most ε, and reaches it."""
    sensitivity, epsilon = 3, 0.7
    reach = 60
    law = lambda z: math.exp(-epsilon / sensitivity * max(abs(v) for v in z))  # noqa: E731
    points = [(a, b) for a in range(-reach, reach) for b in range(-reach, reach)]
    worst = max(
        abs(math.log(law(z) / law((z[0] + dx, z[1] + dy))))
        for z in points[::7]
        for dx in (-sensitivity, 0, sensitivity)
        for dy in (-sensitivity, 0, sensitivity)
    )
    assert worst == pytest.approx(epsilon)


def test_coin_and_geometric():
    below = random.Random(3).randrange
    for top, bottom in [(0, 1), (1, 3), (1, 1), (5, 2)]:
        share = np.mean([exact_samplers.coin_exp(top, bottom, below) for _ in range(20000)])
        assert abs(share - math.exp(-top / bottom)) < 0.02
    sample = [exact_samplers.geometric(2, 5, below) for _ in range(20000)]
    assert abs(np.mean(sample) - 1 / (math.exp(0.4) - 1)) < 0.06


@pytest.mark.parametrize("flip", [False, True])
def test_choices_match_their_laws(flip):
    """Claims: exponential-bounded-range, permute-and-flip; the laws are enumerated."""
    scores, rate = [0, 3, 5, 4], Fraction(1, 2)
    below = random.Random(11).randrange
    sample = exact_samplers.permute_and_flip if flip else exact_samplers.exponential
    counts = np.bincount([sample(scores, rate, below) for _ in range(20000)], minlength=4)
    weights = np.exp(0.5 * (np.array(scores) - 5.0))
    expected = permute_and_flip_law(weights) if flip else weights / weights.sum()
    assert stats.chisquare(counts, expected * 20000).pvalue > 1e-4


def permute_and_flip_law(weights):
    def probability(left):
        law = np.zeros(len(weights))
        for i in left:
            law[i] += weights[i] / len(left)
            if weights[i] < 1:
                law += (1 - weights[i]) / len(left) * probability(tuple(j for j in left if j != i))
        return law

    return probability(tuple(range(len(weights))))


def test_permute_and_flip_is_private():
    """Claim: permute-and-flip. Enumerated over all neighbouring scores within ±Δ, the loss stays below ε and comes close."""
    epsilon, worst = 1.0, 0.0
    rate = epsilon / 2
    for base in [(0, 0, 0), (0, 1, 2), (0, 2, 2), (3, 0, 1)]:
        for shift in np.ndindex(3, 3, 3):
            moved = np.array(base) + np.array(shift) - 1
            a, b = (permute_and_flip_law(np.exp(rate * (np.array(s) - np.max(s)))) for s in (np.array(base), moved))
            worst = max(worst, float(np.max(np.abs(np.log(a / b)))))
    assert 0.6 * epsilon < worst <= epsilon + 1e-12


@given(st.lists(st.integers(-5, 5), min_size=2, max_size=6), st.data())
def test_the_exponential_mechanism_pays_the_span(scores, data):
    """Claim: exponential-bounded-range. The loss is at most rate × span of the change."""
    moved = [s + data.draw(st.integers(-2, 2)) for s in scores]
    change = np.array(moved) - np.array(scores)
    rate = 0.3
    a, b = (np.exp(rate * np.array(s)) / np.exp(rate * np.array(s)).sum() for s in (scores, moved))
    assert np.max(np.abs(np.log(a / b))) <= rate * (change.max() - change.min()) + 1e-9


def test_choose_peels():
    how = calibrate_choice(2, 1, Spend("epsilon", Fraction(10**6)), 3)
    assert choose([5, 9, 1, 7], how) == [1, 3, 0]


@given(st.floats(1e-3, 20), st.sampled_from([1e-9, 1e-6, 1e-3]))
def test_conversions_are_on_the_safe_side(epsilon, delta):
    """Claim: zcdp-conversion. Round trips never gain, and the Gaussian with that ρ really is (ε, δ)-DP."""
    rho = rho_of_epsilon_delta(epsilon, delta)
    assert delta_of_rho(float(rho), epsilon) <= delta * (1 + 1e-9)
    if rho > 0:
        assert epsilon_of_rho(rho, delta) <= epsilon * (1 + 1e-6)
        mu = math.sqrt(2 * float(rho))
        exact_delta = stats.norm.cdf(-epsilon / mu + mu / 2) - math.exp(epsilon) * stats.norm.cdf(-epsilon / mu - mu / 2)
        assert exact_delta <= delta


def test_conversion_is_tight_and_halving_the_noise_breaks_it():
    """Claim: zcdp-conversion. An independent accountant confirms the Gaussian at that ρ, and refutes half its noise."""
    rho = float(rho_of_epsilon_delta(1.0, 1e-6))
    sigma = 1 / math.sqrt(2 * rho)
    honest = pld.privacy_loss_distribution.from_gaussian_mechanism(sigma, pessimistic_estimate=True)
    halved = pld.privacy_loss_distribution.from_gaussian_mechanism(sigma / 2, pessimistic_estimate=False)
    assert honest.get_epsilon_for_delta(1e-6) <= 1.0 < halved.get_epsilon_for_delta(1e-6)
    assert rho > 0.9 * 0.0244


def test_relations_convert_one_way():
    """Claim: relation-conversion"""
    assert to_replace(0.5, 1e-6, 0.1) == {"epsilon": 1.0, "delta": pytest.approx((1 + math.exp(0.5)) * 1e-6), "rho": 0.4}


def test_laws():
    for law in (NoiseLaw("laplace", 2.0, 5), NoiseLaw("gaussian", 2.0, 5), NoiseLaw("k-norm", 2.0, 5)):
        sample = law.draws(200_000)
        assert sample.std() == pytest.approx(law.std, rel=0.02)
        assert np.mean(np.abs(sample[:, 0]) <= law.half_width(0.9)) == pytest.approx(0.9, abs=0.004)
        assert np.mean(sample[:, 0] - sample[:, 1] <= law.gap(0.95)) == pytest.approx(0.95, abs=0.004)
        assert NoiseLaw.from_dict(law.to_dict()) == law
    with pytest.raises(PlanError, match="between 0 and 1"):
        NoiseLaw("laplace", 1.0, 1).half_width(1.5)


def test_exact_reads_what_the_user_wrote():
    assert exact("epsilon", 0.1) == Fraction(1, 10) and sum([exact("e", 0.1)] * 10) == 1
    for bad in (float("nan"), float("inf"), "abc", None):
        with pytest.raises(PlanError):
            exact("epsilon", bad)


@pytest.mark.parametrize("exponent", [40, 62, 70])
@pytest.mark.parametrize("currency", ["epsilon", "rho"])
def test_noise_beyond_64_bits_does_not_saturate(exponent, currency):
    """Claims: discrete-laplace, discrete-gaussian. Clamped noise would show the total; ours has no end."""
    norms = Norms(2**30, 2**60, 2**30)
    amount = Fraction(2**30, 2**exponent) if currency == "epsilon" else Fraction(2**60, 2 * 2 ** (2 * exponent))
    mechanism = calibrate(Norms(norms.l1, norms.l2_squared, 2**80), 4, Spend(currency, amount))
    assert mechanism.kind in ("laplace", "gaussian") and float(mechanism.scale) == pytest.approx(2.0**exponent)
    sample = draws(mechanism, 750).ravel()
    assert np.std(sample) == pytest.approx(mechanism.law.std, rel=0.1)
    assert len(set(sample)) == len(sample)
    assert exponent < 70 or np.max(np.abs(sample)) > 2.0**63


def test_exact_samplers_match_their_laws_on_a_coarse_lattice():
    """Claims: discrete-laplace, discrete-gaussian; small scales, where a continuous formula would be visibly wrong."""
    below, reach = random.Random(5).randrange, np.arange(-60, 61)
    for sample, weights in (
        (exact_samplers.laplace, np.exp(-np.abs(reach) / 1.5)),
        (exact_samplers.gaussian, np.exp(-(reach**2) / (2 * 1.5**2))),
    ):
        counts = np.bincount([sample(Fraction(3, 2), below) + 60 for _ in range(20000)], minlength=121)
        expected = weights / weights.sum() * 20000
        keep = expected > 5
        statistic = ((counts - expected)[keep] ** 2 / expected[keep]).sum()
        assert stats.chi2.sf(statistic, keep.sum() - 1) > 1e-4


def test_gaussian_noise_with_relative_scales():
    """Off-diagonal entries of a Gram matrix stand for two equal ones: their noise is √2 smaller, at the same ρ."""
    from pellucid.query import Sum, relative_scales
    from pellucid.query.bounds import Gram

    gram = Sum(lambda rows: None, Gram(3, 1.0))
    scales = relative_scales(gram)
    mechanism = calibrate(gram.bound.added(), gram.size, Spend("rho", Fraction(1, 8)), scales)
    assert mechanism.cost <= Fraction(1, 8)
    spread = draws(mechanism, 3000).std(axis=0) / float(mechanism.scale)
    np.testing.assert_allclose(spread, scales, rtol=0.08)
    assert sorted({round(s, 3) for s in scales}) == [0.707, 1.0]


def test_opendp_is_loaded_by_the_first_draw_and_is_the_source():
    said = """
import sys
from fractions import Fraction
from pellucid.mechanisms import Norms, Spend, add_noise, calibrate, is_private
how = calibrate(Norms(1, 1, 1), 1, Spend("epsilon", Fraction(1)))
print(how.kind, is_private(), "opendp" in sys.modules)
add_noise([0], how)
print("opendp" in sys.modules)
"""
    ran = subprocess.run([sys.executable, "-c", said], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["laplace", "True", "False", "True"]
