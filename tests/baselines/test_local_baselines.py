"""The published local explanations: as printed, and wrong where it is said."""

import math

import numpy as np
import pytest

from pellucid.baselines import local
from pellucid.explainers.local.methods import smallest_in_ball
from pellucid.explainers.local.weights import Stable


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    x = rng.random((4000, 4))
    return x, np.tanh((x - 0.5) @ np.array([2.0, -1.0, 0.5, 0.0]))


def test_moments_are_those_of_the_loss(data):
    """The gradient by differences of equation (1)."""
    x, f = data
    z, phi = x[3], np.array([0.1, 0.2, -0.3, 0.4])

    def loss(v):
        u = x - z
        return float(np.mean(local.equation_5(np.linalg.norm(u, axis=1)) * (u @ v - f) ** 2))

    a, b = local.moments(z, x, f)
    by_difference = [(loss(phi + 1e-6 * e) - loss(phi - 1e-6 * e)) / 2e-6 for e in np.eye(4)]
    assert 2 * (a @ phi - b) == pytest.approx(by_difference, abs=1e-7)
    r = np.linspace(0, 5, 1000)
    assert local.equation_5(r) == pytest.approx(Stable().at(r))


@pytest.mark.parametrize(("steps", "epsilon"), [(10, 0.01), (300, 0.1), (300, 1.0)])
def test_the_published_noise_is_far_too_large(steps, epsilon):
    """Against T steps of zCDP with the same (ε, δ)."""
    from pellucid.mechanisms import rho_of_epsilon_delta

    needed = math.sqrt(steps / (2 * float(rho_of_epsilon_delta(epsilon, 1e-6)))) / 1000
    assert 10 < local.published_sigma(1000, steps, epsilon, 1e-6) / needed < 25


def test_descent_without_noise_reaches_the_optimum(data):
    x, f = data
    a, b = local.moments(x[0], x, f)
    best = smallest_in_ball(a, b, 1.0)[0]
    found = local.dpgd_explain(np.zeros(4), 0.0, 4000, a, b, lambda t: 2.0, np.random.default_rng(0))
    assert found == pytest.approx(best, abs=1e-3)
    noisy = local.algorithm_1(x[0], x, f, 0.1, 1e-6, np.random.default_rng(0))
    assert np.linalg.norm(noisy) <= 1 + 1e-9 and np.linalg.norm(noisy - best) > 0.1


def test_algorithm_2_leaks(data):
    """β, σ and T′ differ between neighbours with probability one: they are functions of the data."""
    x, f = data
    history, outcomes = [np.zeros(4)], []
    for rows in (slice(None), slice(1, None)):
        a, b = local.moments(x[0], x[rows], f[rows])
        outcomes.append(local.algorithm_2(a, b, history, 4000, 1.0, 1e-4, 300, np.random.default_rng(0)))
    assert outcomes[0].beta != outcomes[1].beta and outcomes[0].sigma != outcomes[1].sigma
    assert outcomes[0].steps <= 300


def test_a_good_start_takes_fewer_steps(data):
    x, f = data
    a, b = local.moments(x[0], x, f)
    best = smallest_in_ball(a, b, 1.0)[0]
    rng = np.random.default_rng(0)
    for enhanced in (False, True):
        near = local.algorithm_2(a, b, [best], 4000, 1.0, 1e-4, 300, rng, enhanced)
        far = local.algorithm_2(a, b, [-best], 4000, 1.0, 1e-4, 300, rng, enhanced)
        assert near.steps < far.steps <= 300 and near.sigma <= far.sigma
    assert local.algorithm_2(a, b, [], 4000, 1.0, 1e-4, 300, rng).steps == 300


def test_algorithm_3_reuses_and_stops(data):
    x, f = data
    stream = local.Algorithm3(x, f, 1.0, 1e-5, 0.2, 1e-8, np.random.default_rng(1), steps=50)
    assert stream.explain(x[0]) is not None and stream.flags == [True]
    spent = stream.epsilon_spent
    assert np.array_equal(stream.explain(x[0] + 1e-3), stream.explained[0]) and stream.flags == [True, False]
    assert stream.epsilon_spent == spent
    answers = [stream.explain(np.full(4, 0.5) + 10.0 * k) for k in range(1, 400)]
    assert answers[0] is not None and answers[-1] is None and stream.epsilon_spent > 1.0


def test_strong_composition_is_better_than_adding_up():
    assert local.strong_composition([0.01] * 1000, 1e-6) < 10 * 0.5
    assert local.strong_composition([0.1], 1e-6) > 0


def test_algorithm_4_fits_the_printed_labels():
    slope = np.array([0.3, -0.2])
    asked = np.random.default_rng(0).random((200, 2))
    assert local.algorithm_4(np.zeros(2), asked, np.tile(slope, (200, 1))) == pytest.approx(slope, abs=1e-6)
