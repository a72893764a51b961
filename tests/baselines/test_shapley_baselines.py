"""The published Kernel SHAP mechanisms: that they are what the paper prints, and where what it claims for them fails."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.stats import chi2, chisquare, norm
from sklearn.ensemble import GradientBoostingRegressor, RandomForestRegressor
from sklearn.neural_network import MLPRegressor

from pellucid.baselines import shapley
from pellucid.baselines.shapley import (
    above_threshold,
    above_threshold_as_published,
    analytic_sigma,
    bootstrap_scale,
    certified_sensitivity,
    classical_sigma,
    exponential_top,
    gaussian_delta,
    gaussian_values,
    heuristic_sensitivity,
    largest_output,
    lipschitz_sensitivity,
    mean_background_values,
    regression,
    smooth_beta,
    smooth_sigma,
    sparse_support,
    values_at_means,
)
from pellucid.explainers.shapley.radii import shapley_radii

DELTA = 1e-5


def stump(rows):
    return (rows[:, 0] > 0).astype(float)


def wavy(rows):
    return np.tanh(rows[:, 0] * rows[:, 1]) + 0.5 * rows[:, 2] * (rows[:, 3] > 0) + 0.1 * rows[:, 4]


def by_orders(f, x, mean):
    d, total = len(x), np.zeros(len(x))
    for order in itertools.permutations(range(d)):
        now = mean.copy()
        for j in order:
            before = f(now[None])[0]
            now[j] = x[j]
            total[j] += f(now[None])[0] - before
    return total / math.factorial(d)


def crossing(n, d=2):
    """Neighbours whose means lie on both sides of 0 in the first feature, all records within [−1, 1]."""
    first = np.zeros((n, d))
    first[:, 0] = np.where(np.arange(n) % 2, 1.0, -1.0)
    second = first.copy()
    second[0, 0] = 1.0
    return first, second


# What is published, computed as published.


def test_exact_values_are_means_over_orders():
    rng = np.random.default_rng(0)
    x, background = rng.normal(size=5), rng.normal(size=(7, 5))
    np.testing.assert_allclose(mean_background_values(wavy, x, background), by_orders(wavy, x, background.mean(axis=0)))


@pytest.mark.parametrize("weighted", [True, False])
def test_regression_recovers_the_terms_of_a_linear_model(weighted, monkeypatch):
    """Lemma 5; and in pieces."""
    monkeypatch.setattr(shapley, "ROWS", 1000)
    rng = np.random.default_rng(1)
    w, x, means = rng.normal(size=20), rng.normal(size=20), rng.normal(size=(6, 20))
    design = regression(20, 400, rng, weighted=weighted)
    np.testing.assert_allclose(values_at_means(lambda rows: rows @ w + 3, x, means, design), w * (x - means), atol=1e-9)


def test_coalitions_are_drawn_by_the_kernel():
    d = 6
    sizes = regression(d, 20000, np.random.default_rng(2)).masks.sum(axis=1)
    chance = np.array([1 / (s * (d - s)) for s in range(1, d)])
    seen = np.bincount(sizes, minlength=d)[1:d]
    assert seen.sum() == 20000
    assert chisquare(seen, 20000 * chance / chance.sum()).pvalue > 1e-3
    assert chisquare(seen, np.full(d - 1, 20000 / (d - 1))).pvalue < 1e-6


def test_operator_solves_the_weighted_least_squares():
    d, rng = 5, np.random.default_rng(3)
    design = regression(d, 60, rng)
    response = rng.normal(size=60)
    sizes = design.masks.sum(axis=1)
    root = np.sqrt([(d - 1) / (math.comb(d, int(s)) * s * (d - s)) for s in sizes])
    expected = np.linalg.lstsq(design.masks * root[:, None], response * root, rcond=None)[0]
    np.testing.assert_allclose(design.operator @ response, expected, atol=1e-9)


@pytest.mark.parametrize(
    "model",
    [
        RandomForestRegressor(20, max_depth=4, random_state=0),
        GradientBoostingRegressor(n_estimators=20, random_state=0),
        MLPRegressor(hidden_layer_sizes=(16,), activation="tanh", max_iter=50, random_state=0),
    ],
    ids=["forest", "boosting", "network"],
)
@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
def test_largest_output_and_the_certified_sensitivity_hold(model):
    rng = np.random.default_rng(4)
    table = rng.normal(size=(300, 5))
    model.fit(table, wavy(table) + 2)
    most = np.abs(model.predict(rng.normal(size=(2000, 5)) * 5)).max()
    assert most <= largest_output(model) <= 5 * most
    design = regression(5, 60, rng)
    moved = values_at_means(model.predict, table[0], rng.normal(size=(200, 5)) * 5, design)
    largest = max(np.linalg.norm(moved - row, axis=1).max() for row in moved)
    assert 0 < largest <= certified_sensitivity(design, largest_output(model))


def test_other_networks_have_no_lemma():
    model = MLPRegressor(hidden_layer_sizes=(4, 4), activation="tanh", max_iter=5, random_state=0)
    rng = np.random.default_rng(5)
    with pytest.warns(UserWarning):
        model.fit(rng.normal(size=(50, 2)), rng.normal(size=50))
    with pytest.raises(ValueError, match="Lemma 34"):
        largest_output(model)


def test_noise_has_its_scale():
    draws = gaussian_values(np.zeros(20000), 2.0, np.random.default_rng(6))
    assert draws.std() == pytest.approx(2, rel=0.03)


def test_exponential_top_has_the_published_law():
    values, rng, draws = np.array([0.5, -1.0, 0.2]), np.random.default_rng(7), 4000
    law = np.exp(2.0 * np.abs(values) / (2 * 0.7))
    seen = np.bincount([exponential_top(values, 1, 0.7, 2.0, rng)[0] for _ in range(draws)], minlength=3)
    assert chisquare(seen, draws * law / law.sum()).pvalue > 1e-3
    wrong = law**2
    assert chisquare(seen, draws * wrong / wrong.sum()).pvalue < 1e-6
    assert sorted(exponential_top(values, 3, 0.7, 2.0, rng)) == [0, 1, 2]


# The mean background.


def test_a_stump_moves_by_one_whatever_the_number_of_records():
    """The 1/n sensitivity of appendix E fails by any factor; the average over records keeps its own bound."""
    x = np.array([1.0, 0.3])
    for n in (101, 1001):
        one, other = crossing(n)
        moved = mean_background_values(stump, x, one) - mean_background_values(stump, x, other)
        np.testing.assert_allclose(moved, [1, 0])
        design = regression(2, 50, np.random.default_rng(n), weighted=False)
        assert heuristic_sensitivity(design, 1.0, 1.0, n) < 5 / n
        by_design = mean_background_values(stump, x, one, design) - mean_background_values(stump, x, other, design)
        assert np.linalg.norm(by_design) == pytest.approx(1)
        assert np.linalg.norm(by_design) <= certified_sensitivity(design, 1.0)
        averaged = values_at_means(stump, x, one).mean(axis=0) - values_at_means(stump, x, other).mean(axis=0)
        assert np.abs(averaged).max() <= 2 * shapley_radii(2).linf / n


def test_the_heuristic_is_the_one_of_table_19():
    """M / F_max is one number for three models, as 2·B·√K·‖R‖/n with B = 3, K = 400, n = 100 is."""
    shares = np.array([1.90 / 17.03, 0.954 / 8.54, 3.13 / 28.03])
    np.testing.assert_allclose(shares, shares[0], rtol=2e-3)
    design = regression(20, 400, np.random.default_rng(8))
    assert heuristic_sensitivity(design, 8.54, 3.0, 100) == pytest.approx(8.54 * 0.06 * 20 * design.norm)


def test_the_lipschitz_form_misses_a_factor_two():
    """One coordinate of the centred response moves by 2·L·(change of the mean); the argument for equation 2 has it once."""
    x = np.array([2.0, 0.0])

    def ridge(rows):
        # slope 1: falls with the second feature while the first is low, rises when it is x's
        return np.where(rows[:, 0] < 1, -1.0, 1.0) * rows[:, 1]

    means = np.array([[0.0, 0.0], [0.0, 0.06]])
    mixed = np.where([True, False], x, means)
    centred = ridge(mixed) - ridge(means)
    assert centred[1] - centred[0] == pytest.approx(2 * 0.06)
    design = regression(2, 50, np.random.default_rng(9), weighted=False)
    assert lipschitz_sensitivity(design, 1.0, 3.0, 100) / design.stretch == pytest.approx(0.06)


@pytest.mark.parametrize("weighted", [True, False])
def test_published_values_are_neither_efficient_nor_shapley_values(weighted):
    """Theorem 33, with so many coalitions that sampling is not the reason."""
    x, mean = np.ones(5), np.zeros((1, 5))
    found = [
        values_at_means(lambda r: r.prod(axis=1), x, mean, regression(5, 100_000, np.random.default_rng(seed), weighted))[0]
        for seed in (0, 1)
    ]
    np.testing.assert_allclose(found[0], found[1], atol=0.01)
    exact = mean_background_values(lambda r: r.prod(axis=1), x, mean)
    np.testing.assert_allclose(exact, 0.2)
    assert np.abs(found[0] - exact).max() > 0.1
    assert abs(found[0].sum() - 1) > 0.5


# Gaussian noise.


def test_the_classical_formula_fails_at_large_epsilon():
    assert gaussian_delta(1 / classical_sigma(1.0, 1.0, DELTA), 1.0) < DELTA
    assert gaussian_delta(1 / classical_sigma(1.0, 9.0, DELTA), 9.0) > DELTA
    assert gaussian_delta(1 / classical_sigma(1.0, 10.0, DELTA), 10.0) > 2 * DELTA
    assert gaussian_delta(1 / classical_sigma(1.0, 20.0, DELTA), 20.0) > 100 * DELTA


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0, 30.0])
def test_the_analytic_scale_is_exact(epsilon):
    sigma = analytic_sigma(3.0, epsilon, DELTA)
    assert gaussian_delta(3 / sigma, epsilon) == pytest.approx(DELTA, rel=1e-4)
    # by integration, not by the formula
    z = np.linspace(-40, 40, 800_001) * sigma
    excess = np.maximum(norm.pdf(z, 3, sigma) - np.exp(epsilon) * norm.pdf(z, 0, sigma), 0)
    assert np.trapezoid(excess, z) == pytest.approx(DELTA, rel=1e-3)


# Smooth sensitivity.


def spheres_delta(d, epsilon, wide, narrow, shift):
    """δ between N(0, wide²·I) and N(shift, narrow²·I), by integration along the shift; a chi-square for what is across it."""
    bend = 1 / (2 * narrow**2) - 1 / (2 * wide**2)

    def tail(mean, scale):
        u = np.linspace(mean - 10 * scale, mean + 10 * scale, 20001)
        least = (epsilon + d * math.log(wide / narrow) + u**2 / (2 * wide**2) - (u - shift) ** 2 / (2 * narrow**2)) / bend
        return np.trapezoid(norm.pdf(u, mean, scale) * chi2.sf(np.maximum(least, 0) / scale**2, d - 1), u)

    return tail(0.0, wide) - math.exp(epsilon) * tail(shift, narrow)


def test_spheres_delta_by_simulation():
    rng, d, wide, shift, epsilon = np.random.default_rng(10), 20, 1.5, 0.4, 1.0
    z = wide * rng.standard_normal((200_000, d))
    own = -(z**2).sum(axis=1) / (2 * wide**2) - d * math.log(wide)
    z[:, 0] -= shift
    gain = own + (z**2).sum(axis=1) / 2
    terms = np.maximum(1 - np.exp(epsilon - gain), 0)
    assert spheres_delta(d, epsilon, wide, 1.0, shift) == pytest.approx(terms.mean(), abs=5 * terms.std() / 447)


def test_smooth_sensitivity_with_the_published_constants_is_not_private():
    """S = 1 and S = e^β on two neighbours at distance 1: a β-smooth bound on the local sensitivity. δ is 200 times too large."""
    d, epsilon = 20, 1.0
    beta, sigma = epsilon / (2 * math.log(1 / DELTA)), classical_sigma(1.0, epsilon, DELTA)
    assert spheres_delta(d, epsilon, sigma * math.exp(beta), sigma, 1.0) == pytest.approx(2.04e-3, rel=0.01)
    beta, sigma = smooth_beta(d, epsilon, DELTA), smooth_sigma(1.0, epsilon, DELTA)
    assert spheres_delta(d, epsilon, sigma * math.exp(beta), sigma, 1.0) < DELTA


def test_bootstrap_scale_is_algorithm_1():
    rng = np.random.default_rng(11)
    x, background, design = rng.normal(size=5), rng.normal(size=(6, 5)), regression(5, 60, rng)
    found = bootstrap_scale(wavy, x, background, design, 2.0, rng, largest_change=3.0, delta=DELTA, draws=300)
    base = mean_background_values(wavy, x, background, design)
    every = []
    for r, fresh in itertools.product(range(6), repeat=2):
        other = background.copy()
        other[r] = background[fresh]
        every.append(np.linalg.norm(mean_background_values(wavy, x, other, design) - base))
    # 300 draws of 6 swaps each try every pair.
    assert found.observed == pytest.approx(max(every))
    known = 7 * 3.0 * math.log(200) / (3 * 299)
    assert known < found.envelope - found.observed < known + max(every) * math.sqrt(2 * math.log(200) / 300)
    assert found.sigma == pytest.approx(found.envelope * math.sqrt(2 * math.log(1.25 / DELTA)) / 2.0)
    assert found.beta == pytest.approx(2.0 / (2 * math.log(1 / DELTA)))


def test_the_bootstrap_does_not_see_a_person_unlike_the_others():
    """Nor is its scale smooth: it jumps between the two neighbours by far more than e^β."""
    rng = np.random.default_rng(12)
    alike = np.tile([-0.02, 0.5], (100, 1))
    other = alike.copy()
    other[0] = [3.0, 0.5]
    x, design = np.array([1.0, 0.5]), regression(2, 50, rng, weighted=False)
    bound = certified_sensitivity(design, 1.0) / 2
    blind, seeing = (
        bootstrap_scale(stump, x, data, design, 1.0, rng, largest_change=bound, draws=4000) for data in (alike, other)
    )
    moved = np.linalg.norm(mean_background_values(stump, x, alike, design) - mean_background_values(stump, x, other, design))
    assert blind.observed < 1e-12 and moved == pytest.approx(1)
    assert blind.envelope < 0.02 * moved
    assert seeing.envelope > 50 * math.exp(blind.beta) * blind.envelope
    assert gaussian_delta(moved / blind.sigma, 1.0) > 0.9


@pytest.mark.parametrize(
    "certified, released, local", [(293.92, 6.07, 0.047), (1024.04, 17.68, 0.071)], ids=["forest", "boosting"]
)
def test_table_7_was_run_with_half_of_the_certified_range(certified, released, local):
    factor = math.sqrt(2 * math.log(1.25 / DELTA))
    envelope, term = released / factor, 7 * certified / factor * math.log(200) / (3 * 399)
    assert term > envelope
    assert local < envelope - term / 2 < 10 * local


# Above threshold.


def halting(sizes, scan, at_threshold, at_values):
    """The law of the scan: which feature, or None last, by integration over the noise of the threshold."""
    top = np.sort(sizes)[-2]
    z = np.linspace(-40, 40, 32_001) * at_threshold
    weight = np.exp(-np.abs(z) / at_threshold) / (2 * at_threshold) * (z[1] - z[0])
    law = []
    for i in scan:
        gap = (top + z - sizes[i]) / at_values
        below = np.where(gap < 0, np.exp(np.minimum(gap, 0)) / 2, 1 - np.exp(-np.maximum(gap, 0)) / 2)
        law.append((weight * (1 - below)).sum())
        weight = weight * below
    return np.array([*law, weight.sum()])


def loss(one, other, at_threshold, at_values):
    a, b = (halting(np.abs(v), range(len(v)), at_threshold, at_values) for v in (one, other))
    return np.abs(np.log(a) - np.log(b)).max()


@pytest.mark.parametrize("mechanism, at_threshold", [(above_threshold_as_published, 2.0), (above_threshold, 4.0)])
def test_the_scan_has_the_law_it_is_judged_by(mechanism, at_threshold):
    values, epsilon, sensitivity, draws = np.array([0.2, -0.9, 0.6]), 3.0, 0.5, 6000
    rng = np.random.default_rng(13)
    options = {"order": range(3)} if mechanism is above_threshold_as_published else {}
    seen = [mechanism(values, sensitivity, epsilon, rng, **options) for _ in range(draws)]
    counted = [seen.count(i) for i in (0, 1, 2, None)]
    law = halting(np.abs(values), range(3), at_threshold * sensitivity / epsilon, 4 * sensitivity / epsilon)
    assert law.sum() == pytest.approx(1, abs=1e-3)
    assert chisquare(counted, draws * law / law.sum()).pvalue > 1e-3
    wrong = halting(np.abs(values), range(3), 8 / at_threshold * sensitivity / epsilon, 4 * sensitivity / epsilon)
    assert chisquare(counted, draws * wrong / wrong.sum()).pvalue < 1e-3


def threshold_moves(d, sensitivity):
    """Neighbours: the others come up, the two largest, and so the threshold, come down."""
    one = np.full(d, 10.0 - 2 * sensitivity)
    other = np.full(d, 10.0 - sensitivity)
    one[-2:], other[-2:] = 10.0, 10.0 - sensitivity
    return one, other


def test_a_private_threshold_needs_twice_the_noise():
    epsilon, sensitivity = 1.0, 1.0
    assert loss(*threshold_moves(20, sensitivity), 2.0, 4.0) > 1.05 * epsilon
    assert loss(*threshold_moves(600, sensitivity), 2.0, 4.0) == pytest.approx(1.5 * epsilon, rel=0.01)
    for d in (20, 600):
        assert loss(*threshold_moves(d, sensitivity), 4.0, 4.0) <= epsilon * (1 + 1e-3)
    rng = np.random.default_rng(14)
    for _ in range(20):
        one = 10 + rng.normal(size=8) * 2
        assert loss(one, one + rng.choice([-1.0, 1.0], size=8), 4.0, 4.0) <= epsilon * (1 + 1e-3)


def test_a_scan_by_size_tells_the_order_for_nothing():
    """At ε = 1e-6 a private choice among 20 is right once in 20; this one half of the time, as in Table 14."""
    values, rng, draws = np.linspace(1, 0.05, 20), np.random.default_rng(15), 2000
    right = np.mean([above_threshold_as_published(values, 1.0, 1e-6, rng) == 0 for _ in range(draws)])
    assert right == pytest.approx(0.5, abs=0.05)
    seen = np.mean([above_threshold_as_published(values[::-1], 1.0, 1e-6, rng) == 0 for _ in range(draws)])
    assert seen < 0.05
    fixed = np.mean([above_threshold(values[::-1], 1.0, 1e-6, rng) == 19 for _ in range(draws)])
    assert fixed < 0.05


def test_the_exact_support_is_not_private():
    """However much noise: one output has probability 1 on one side and 0 on the other."""
    rng = np.random.default_rng(16)
    one, other = (mean_background_values(stump, np.array([1.0, 0.3]), data) for data in crossing(101))
    for _ in range(50):
        assert set(sparse_support(one, 0.5, 1e6, rng)) == {0}
        assert set(sparse_support(other, 0.5, 1e6, rng)) == set()
