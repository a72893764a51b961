"""One release with many canaries: a bound that is true of noise whose ε is known, and that catches too little of it."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

from pellucid.audit.cases import OneRunCase, cases
from pellucid.audit.one_run import bound_from_guesses, chance_of, right_guesses
from pellucid.mechanisms import noise

CASES = {case.name: case for case in cases() if isinstance(case, OneRunCase)}


def _guessed(rng, canaries, draw):
    """Right guesses and how many, from a noisy histogram with a cell for each canary."""
    coins = rng.random(canaries) < 0.5
    return right_guesses(coins - 0.5 + draw(canaries), coins)


def test_the_bound_is_rarely_above_a_known_epsilon():
    rng, trials = np.random.default_rng(0), 400
    found = [bound_from_guesses(*_guessed(rng, 200, lambda m: rng.laplace(0, 1, m)), 200, 0.9) for _ in range(trials)]
    assert np.sum(np.array(found) > 1) <= binom.ppf(1 - 1e-4, trials, 0.1)


def test_the_bound_is_rarely_above_where_there_is_a_delta():
    """Randomised response that tells the truth with probability δ: (ε, δ)-private, and no less."""
    rng, trials, epsilon, delta, canaries = np.random.default_rng(1), 400, 1.0, 0.001, 200
    above = 0
    for _ in range(trials):
        coins = rng.random(canaries) < 0.5
        told = rng.random(canaries) < delta
        flipped = rng.random(canaries) < 1 / (1 + math.exp(epsilon))
        scores = np.where(coins ^ (flipped & ~told), 1.0, -1.0) * np.where(told, 9.0, rng.random(canaries))
        above += bound_from_guesses(*right_guesses(scores, coins), canaries, 0.9, delta) > epsilon
    assert above <= binom.ppf(1 - 1e-4, trials, 0.1)


def test_it_tells_nothing_where_guesses_are_those_of_a_coin():
    assert bound_from_guesses(50, 100, 200, 0.95) == 0 and bound_from_guesses(0, 0, 10, 0.95) == 0
    assert bound_from_guesses(90, 100, 200, 0.95, delta=0.05) < bound_from_guesses(90, 100, 200, 0.95)


def test_randomised_response_attains_the_theorem():
    for epsilon in (0.5, 1.0, 3.0):
        rate = 1 / (1 + math.exp(-epsilon))
        for right in (40, 60, 90):
            assert chance_of(right, 100, 100, epsilon) == pytest.approx(binom.sf(right - 1, 100, rate))


@pytest.mark.parametrize(("less", "canaries"), [(2, 800), (4, 200)])
def test_noise_halved_or_quartered_is_caught_given_enough_canaries(less, canaries):
    rng = np.random.default_rng(2)
    found = [
        bound_from_guesses(*_guessed(rng, canaries, lambda m: rng.laplace(0, 1 / less, m)), canaries, 0.99) for _ in range(20)
    ]
    assert np.mean(np.array(found) > 1) > 0.9


@pytest.mark.parametrize("name", CASES)
def test_one_release_of_each_explainer_holds_and_is_measured(name):
    case = CASES[name]
    row = case.play(confidence=0.99999)
    assert row.verdict == "holds" and row.moved <= 1 + 1e-9
    assert (row.runs, row.floor) == (case.canaries.releases, case.floor)
    # Coins and noise are secret: less confidence, so that what is measured lies five standard errors above the floor.
    row = case.play(confidence=0.9)
    assert row.measured >= case.floor * row.claimed and row.remark == ""


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.floor])
def test_releases_with_half_their_noise_are_caught(name, monkeypatch):
    whole = noise._laplace

    def halved(norms, size, epsilon):
        made = whole(norms, size, epsilon)
        return noise.Mechanism(**{**vars(made), "scale": made.scale / 2, "cost": Fraction(made.cost)})

    monkeypatch.setattr(noise, "_laplace", halved)
    row = CASES[name].play(confidence=0.99)
    assert row.verdict.startswith("broken: ε is at least")
