"""Noise in bulk: the digits of its probabilities, its coins in all cases, its laws, and floats that decide nothing."""

import math
import random
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pellucid.mechanisms import bulk, source

RATES = [Fraction(3, 10), Fraction(1), Fraction(5, 2), Fraction(1, 40)]


def seeded(seed):
    return random.Random(seed).randbytes


def p_value(sample, weights, start=0):
    """Of a chi-squared test against a law on start, start + 1, ..."""
    law = np.array(weights) / np.sum(weights)
    counts = np.bincount(np.clip(np.array(sample, dtype=np.int64) - start, 0, len(law) - 1), minlength=len(law))
    keep = law * len(sample) > 8
    statistic = ((counts - law * len(sample))[keep] ** 2 / (law * len(sample))[keep]).sum()
    return stats.chi2.sf(statistic, keep.sum() - 1)


def decimal_exp(x):
    return (-Decimal(x.numerator) / Decimal(x.denominator)).exp()


@given(st.fractions(0, 2000), st.integers(1, 200))
def test_bounds_of_exp_hold_and_are_near(x, bits):
    with localcontext() as context:
        context.prec = 120
        low, high = bulk.exp_bounds(x, bits)
        assert low <= decimal_exp(x) * 2**bits <= high and high - low <= 3


@given(st.fractions(Fraction(1, 10**6), 300), st.integers(1, 200))
def test_digits_are_those_of_the_probability(x, bits):
    with localcontext() as context:
        context.prec = 260
        one = decimal_exp(x)
        assert bulk.Chance.exp(x).digits(bits) == math.floor(one * 2**bits)
        assert bulk.Chance.odds(x).digits(bits) == math.floor(one / (1 + one) * 2**bits)


def test_bytes_are_the_digits_also_for_threads_that_look_at_once():
    whole = bulk.Chance.exp(Fraction(1, 3)).digits(8 * 64).to_bytes(64, "big")
    for _ in range(20):
        chance = bulk.Chance.exp(Fraction(1, 3))
        with ThreadPoolExecutor(8) as pool:
            assert bytes(pool.map(chance.byte, range(64))) == whole


def test_a_coin_in_all_cases_of_two_bytes():
    """Heads for all numbers of sixteen digits below the probability, tails above; where they agree the next digits decide."""
    chance = bulk.Chance.odds(Fraction(2, 7))
    first = chance.digits(16)
    for byte in range(256):
        rest = iter(range(256))
        served = {256: bytes([byte] * 256)}

        def bits(count, served=served, rest=rest):
            # All 256 coins begin with the same byte; those that go on get every second byte, and then the smallest.
            return served.pop(count, None) or bytes(next(rest, 0) for _ in range(count))

        heads = bulk.coins(chance, 256, bits)
        for second in range(256):
            drawn = byte << 8 | second
            expected = byte < first >> 8 if byte != first >> 8 else drawn <= first
            assert heads[second] == expected


@pytest.mark.parametrize("rate", RATES)
def test_digits_of_a_geometric_number_are_independent_coins(rate):
    """The product of the chances of digits is the law, to the last of sixty digits."""
    digits, beyond = bulk._digits_of(rate)
    places, one = len(digits), 1 << 60
    chances = [chance.digits(60) / one for chance in digits]
    above = beyond.digits(60) / one
    for k in range(min(4 << places, 400)):
        high, law = k >> places, 1 - math.exp(-rate)
        found = above**high * (1 - above)
        for place, chance in enumerate(chances):
            found *= chance if k >> place & 1 else 1 - chance
        assert found == pytest.approx(law * math.exp(-k * rate), rel=1e-12)


@pytest.mark.parametrize("rate", RATES)
def test_geometric_numbers_have_their_law(rate):
    law = np.exp(-float(rate) * np.arange(2000))
    assert p_value(bulk.geometric(rate, 40_000, seeded(1)), law) > 1e-4
    assert p_value(bulk.geometric(rate * Fraction(13, 10), 40_000, seeded(1)), law) < 1e-6


@pytest.mark.parametrize("scale", [Fraction(3, 5), Fraction(17, 10), Fraction(12)])
def test_noise_has_its_law_on_a_coarse_lattice(scale):
    """Claims: discrete-laplace, discrete-gaussian. Where a continuous formula would be visibly wrong; ±30 % is noticed."""
    z = np.arange(-200, 201)
    for draw, law in (
        (bulk.laplace, np.exp(-np.abs(z) / float(scale))),
        (bulk.gaussian, np.exp(-(z**2) / (2 * float(scale) ** 2))),
    ):
        assert p_value(draw(scale, 40_000, seeded(2)), law, -200) > 1e-4
        for wrong in (Fraction(7, 10), Fraction(13, 10)):
            assert p_value(draw(scale * wrong, 40_000, seeded(2)), law, -200) < 1e-6


@pytest.mark.parametrize(("size", "ratio"), [(1, Fraction(1, 2)), (2, Fraction(1, 3)), (3, Fraction(9, 10)), (5, Fraction(1, 4))])
def test_points_of_the_cube_have_their_law(size, ratio):
    """Claim: k-norm-lattice. By counting lattice points on shells; inside a shell the first coordinate is even."""
    bits = seeded(3)
    points = [bulk.cube(ratio, size, bits) for _ in range(6000)]
    shells = [1.0] + [((2 * k + 1) ** size - (2 * k - 1) ** size) * math.exp(-ratio * k) for k in range(1, 400)]
    assert p_value([max(map(abs, point)) for point in points], shells) > 1e-4
    assert p_value([max(map(abs, point)) for point in points], np.array(shells) * np.exp(-0.1 * np.arange(400))) < 1e-4
    assert abs(np.mean([point[0] > 0 for point in points]) - np.mean([point[0] < 0 for point in points])) < 0.05


@pytest.mark.parametrize("scale", [Fraction(3), Fraction(2**33 + 1, 3)])
def test_floats_decide_nothing(scale, monkeypatch):
    """From the same random bytes come the same numbers where every coin is decided by whole numbers."""
    with_floats = bulk.gaussian(scale, 300, seeded(4)), bulk.cube(1 / scale, 6, seeded(4))
    monkeypatch.setattr(bulk, "MARGIN", 1e30)
    assert (bulk.gaussian(scale, 300, seeded(4)), bulk.cube(1 / scale, 6, seeded(4))) == with_floats


def test_a_number_near_its_probability_is_decided_by_whole_numbers(monkeypatch):
    """Sixty-four digits that agree with the probability, or are next to it."""
    chance, asked = bulk.Chance.exp(Fraction(1, 3)), []
    digits = chance.digits(64)

    def exactly(i):
        asked.append(i)
        return chance

    for shift, expected in ((-1, True), (1, False)):
        word = (digits + shift).to_bytes(8, "little")
        assert bulk.own_coins(np.array([math.exp(-1 / 3)]), exactly, lambda _, word=word: word)[0] == expected
    for more, expected in ((b"\0" * 8, True), (b"\xff" * 8, False)):
        words = [digits.to_bytes(8, "little"), more]
        assert bulk.own_coins(np.array([math.exp(-1 / 3)]), exactly, lambda _, words=words: words.pop(0))[0] == expected
    assert len(asked) == 4


@pytest.mark.parametrize("exponent", [40, 52, 70, 100])
def test_large_scales(exponent):
    """Beyond 64 bits too, where nothing may wrap around."""
    scale = Fraction(2) ** exponent / 3
    for draw, law in ((bulk.laplace, stats.laplace), (bulk.gaussian, stats.norm)):
        sample = np.array([float(z / scale) for z in map(Fraction, draw(scale, 2000, seeded(5)))])
        assert stats.kstest(sample, law.cdf).pvalue > 1e-4
        assert stats.kstest(1.3 * sample, law.cdf).pvalue < 1e-3


@pytest.mark.parametrize("below", [1, 2, 3, 1000, 2**63 - 5, 2**64, 2**64 + 1, 3 * 2**100])
def test_uniform_numbers(below):
    found = bulk.uniform(below, 3000, seeded(6))
    assert len(found) == 3000 and all(type(value) is int and 0 <= value < below for value in found)
    parts = np.bincount([value * 10 // below for value in found], minlength=10)
    if below >= 1000:
        assert stats.chisquare(parts).pvalue > 1e-4
    else:
        assert set(found) == set(range(below))


def test_numbers_of_many_rounds_do_not_wrap(monkeypatch):
    """What lies above the lower digits can be large; then it is held without a limit."""
    monkeypatch.setattr(bulk, "ROUNDS", 2)
    monkeypatch.setattr(bulk, "_digits_of", lambda rate: ([], bulk.Chance.exp(Fraction(1, 20))))
    found = bulk.geometric(Fraction(1, 20), 2000, seeded(7))
    assert found.dtype == object and p_value(found, np.exp(-np.arange(2000) / 20)) > 1e-4


def test_the_source_draws_in_bulk_from_the_operating_system(monkeypatch):
    system, served = source.SystemSource(), []

    def bits(count):
        served.append(count)
        return random.Random(len(served)).randbytes(count)

    monkeypatch.setattr(source.secrets, "token_bytes", bits)
    for draw in (lambda n: system.laplace(5.0, n), lambda n: system.gaussian(5.0, n), lambda n: system.cube(Fraction(1, 5), n)):
        served.clear()
        assert len(draw(source.MANY)) == source.MANY and served
        served.clear()
        assert len(draw(source.MANY - 1)) == source.MANY - 1 and not served
