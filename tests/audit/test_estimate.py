"""Bounds of ε from counts and scores: true as often as they say, wherever that can be computed, and sharp."""

import math

import numpy as np
import pytest
from scipy.stats import binom

from pellucid.audit.estimate import Event, Look, Scores, bound_of, chance, largest, lower_bound, refuted
from pellucid.audit.game import Looks, measure
from pellucid.audit.learned import learned


@pytest.mark.parametrize(
    ("epsilon", "delta", "rates"),
    [(1.0, 0.0, (0.01, 0.1, 0.3)), (0.0, 0.05, (0.02, 0.4)), (2.0, 0.05, (0.005, 0.05, 0.12)), (0.5, 0.2, (0.1, 0.45))],
)
@pytest.mark.parametrize("risk", [0.1, 0.01])
def test_no_true_epsilon_is_refuted_more_often_than_the_risk(epsilon, delta, rates, risk):
    """Over all counts that there can be, each with its probability: no chance is left to the test."""
    of = 30
    counts = np.arange(of + 1)
    refutes = np.array([[chance((x, of, y, of), epsilon, risk, delta) <= risk for y in counts] for x in counts])
    for q in rates:
        p = min(math.exp(epsilon) * q + delta, 1.0)
        assert binom.pmf(counts, of, p) @ refutes @ binom.pmf(counts, of, q) <= risk


def test_a_bound_is_above_a_true_claim_no_more_often_than_the_risk():
    """Of whole numbers a larger ε is now and then refuted where a smaller one is not; then the bound is the smaller one."""
    of, epsilon, delta, risk = 25, 0.3, 0.2, 0.1
    assert chance((14, of, 3, of), epsilon, risk, delta) > risk
    assert refuted((14, of, 3, of), 1 - risk, delta) <= epsilon
    look = Look(Event(0.5, True), 0.0, np.repeat([0.0, 1.0], [22, 3]), np.repeat([0.0, 1.0], [11, 14]))
    assert look.bound(1 - risk, delta, epsilon) <= epsilon


def test_all_smaller_epsilons_are_refuted_too():
    """The bound is the end of an interval: what lies below it was refuted, and what lies above was not."""
    for counted in [(60, 100, 20, 100), (300, 1000, 40, 1000), (90, 100, 0, 100)]:
        found = refuted(counted, 0.95, 0.05)
        below, above = np.linspace(0, found, 12), np.linspace(found + 1e-3, found + 1, 12)
        assert found > 0 and all(chance(counted, e, 0.05, 0.05) <= 0.05 for e in below)
        assert all(chance(counted, e, 0.05, 0.05) > 0.05 for e in above)


def test_it_is_sharper_than_two_intervals():
    for counted in [(1600, 3000, 640, 3000), (850, 3000, 75, 3000), (500, 1000, 50, 1000)]:
        assert bound_of(counted, 0.999, 0.0) < refuted(counted, 0.999, 0.0) < math.log(counted[0] / counted[2])


@pytest.mark.parametrize("counted", [(0, 100, 0, 100), (3, 100, 3, 100), (0, 100, 100, 100), (5, 100, 0, 100), (0, 0, 0, 0)])
def test_counts_that_say_nothing_bound_nothing(counted):
    assert refuted(counted, 0.99, 0.05) == 0


def _misses(first, second, epsilon, delta, confidence, trials, score=None):
    found = 0
    for _ in range(trials):
        sides = first(), second()
        look = Look.at(*sides, confidence, delta) if score is None else score(*sides, confidence, delta)
        # The bound takes longer, and is above a claim only where the claim is refuted.
        counted, risk = look.event.hits(look.first, look.second), 1 - confidence
        found += chance(counted, epsilon, risk, delta) <= risk and look.bound(confidence, delta, epsilon) > epsilon
    return found


def test_coverage_on_noise_whose_epsilon_is_known():
    """An event that is chosen and counted on the same scores would be above ε far more often."""
    rng, trials, confidence = np.random.default_rng(3), 150, 0.9
    most = binom.ppf(1 - 1e-4, trials, 1 - confidence)
    assert _misses(lambda: rng.laplace(0, 1, 300), lambda: rng.laplace(1, 1, 300), 1.0, 0.0, confidence, trials) <= most
    # The ε of Gaussian noise with a shift of one standard deviation, at δ = 0.05.
    gaussian = 1.5685
    assert _misses(lambda: rng.normal(0, 1, 400), lambda: rng.normal(1, 1, 400), gaussian, 0.05, confidence, trials) <= most
    outputs = [lambda shift=shift: rng.laplace(0, 1, (300, 2)) + shift for shift in (0, [1.0, 0.0])]
    assert _misses(*outputs, 1.0, 0.0, confidence, 60, learned) <= binom.ppf(1 - 1e-4, 60, 1 - confidence)


def test_a_way_that_saw_little_does_not_push_out_one_that_saw_much():
    """Once in fifteen times a thousand releases promise more than twenty thousand do, and keep little of it."""
    rng = np.random.default_rng(6)  # the third would be .76 by what is promised
    for _ in range(4):
        whole = [rng.laplace(shift, 1, (1000, 2)) for shift in (0, [1.0, 0.0])]
        told = [_ratio(side[:, 0]) for side in whole]
        seen = Looks(
            (np.column_stack([told[0], whole[0]]), np.column_stack([told[1], whole[1]])),
            (_ratio(rng.laplace(0, 1, 20_000)), _ratio(rng.laplace(1, 1, 20_000))),
        )
        assert 0.85 < measure(seen, 0.99999, 0.0, 1.0)[0] <= 1


def _ratio(numbers):
    return np.round(np.abs(numbers) - np.abs(numbers - 1), 9)


def test_ways_to_look_share_the_risk():
    """Four ways to look at noise that says nothing: they are wrong no more often together than one is alone."""
    rng, trials, confidence = np.random.default_rng(6), 150, 0.9
    sides = [[Scores(rng.normal(size=200), rng.normal(size=200)) for _ in range(4)] for _ in range(trials)]
    wrong = sum(largest(seen, confidence, 0.0) > 0 for seen in sides)
    assert wrong <= binom.ppf(1 - 1e-4, trials, 1 - confidence)


def test_most_of_a_gaussian_is_measured_at_a_delta():
    rng = np.random.default_rng(0)
    assert 1.35 < lower_bound(rng.normal(0, 1, 30_000), rng.normal(1, 1, 30_000), 0.999, 0.05) < 1.5685
