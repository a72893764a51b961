"""Assignments: the coins of the draw, its law against enumeration, and what a draw costs."""

import itertools
import math
import random
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import stats

from pellucid.mechanisms import AssignmentScores, Spend, choices, root_below
from pellucid.mechanisms.assignment import draw_assignment, prices
from pellucid.mechanisms.assignment.coins import coin, exp_enclosure
from pellucid.mechanisms.assignment.draw import acceptance, rejection, sampler
from pellucid.mechanisms.assignment.regions import PriceSampler, refund
from pellucid.mechanisms.assignment.sets import SetSampler

UNIT = 2**24
RATE = Fraction(1, UNIT)


def make(unary, penalty):
    """Integer scores from scores in nats at RATE."""
    upper = np.triu(np.asarray(penalty, dtype=float), 1)
    whole = upper + upper.transpose(0, 2, 1)
    units = [[[int(UNIT * v) for v in row] for row in m] for m in whole]
    return AssignmentScores([[int(UNIT * v) for v in row] for row in unary], units)


SHAPES = [(3, 20), (4, 10), (5, 6), (2, 47), (6, 4), (8, 3), (5, 1), (1, 40), (12, 2), (3, 15)]
SPREAD = [0.5, 2, 1, 3, 1, 1, 1, 2, 0.7, 4]
STRENGTH = [0.3, 8, 12, 5, 3, 2, 1, 0, 1.5, 30]


def instance(seed):
    """Ties, penalties from none to overwhelming, a dominating item, fewer items than places, one of either."""
    rng, kind = np.random.default_rng(seed), seed % 10
    places, items = SHAPES[kind]
    unary = rng.normal(0, SPREAD[kind], (places, items))
    if kind in (1, 4):
        unary = np.round(unary)
    if kind in (2, 9):
        unary[:, 0] += 6
    return make(unary, rng.random((items, places, places)) * STRENGTH[kind] * (3 if seed >= 10 else 1))


def law(scores, rate=RATE, picks=1, candidates=None):
    rows = candidates or [range(scores.items)] * scores.places
    assignments = list(itertools.product(*(itertools.combinations(sorted(set(row)), picks) for row in rows)))
    logs = np.array([float(rate * scores.of(c)) for c in assignments])
    weights = np.exp(logs - logs.max())
    return {c: i for i, c in enumerate(assignments)}, weights / weights.sum()


def fit(index, chances, draws):
    """p of the χ² test, cells with few expected draws joined."""
    seen = np.bincount([index[tuple(d)] for d in draws], minlength=len(chances)).astype(float)
    order = np.argsort(-chances)
    expected, observed = len(draws) * chances[order], seen[order]
    cell = np.floor(np.cumsum(expected) / 8).astype(int)
    e, o = np.bincount(cell, expected), np.bincount(cell, observed)
    e, o = e[e > 0], o[e > 0]
    if len(e) > 1 and e[-1] < 5:
        e, o = np.append(e[:-2], e[-2:].sum()), np.append(o[:-2], o[-2:].sum())
    return 1.0 if len(e) < 2 else float(stats.chi2.sf(((e - o) ** 2 / e).sum(), len(e) - 1))


def below(seed):
    return random.Random(seed).randrange


@pytest.mark.parametrize("seed", range(20))
def test_the_draw_has_the_law(seed):
    scores, uniform = instance(seed), below(seed)
    index, chances = law(scores)
    made = sampler(scores, RATE)
    assert fit(index, chances, [made.draw(uniform) for _ in range(1000)]) > 0.001
    assert isinstance(made, SetSampler)
    assert acceptance(made, 20, uniform) == 1
    assert made.attempts == 1020  # nothing refused, whatever the penalties


@pytest.mark.parametrize("seed", range(20))
def test_prices_and_regions_have_the_law(seed):
    """The sampler for many places on cases that can be enumerated; so few shots that it cuts all the time."""
    scores, uniform = instance(seed), below(100 + seed)
    index, chances = law(scores)
    made = PriceSampler(scores, RATE, shots=[200, 3, 20][seed % 3])
    assert fit(index, chances, [made.draw(uniform) for _ in range(1000)]) > 0.001


@pytest.mark.parametrize("kind", [SetSampler, PriceSampler])
@pytest.mark.parametrize("picks, places, items", [(2, 3, 6), (2, 4, 4), (3, 2, 5), (2, 2, 2)])
def test_several_items_per_place(kind, picks, places, items):
    rng, uniform = np.random.default_rng(picks), below(picks)
    scores = make(rng.normal(0, 1, (places, items)), rng.random((items, places, places)) * 4)
    index, chances = law(scores, picks=picks)
    made = kind(scores, RATE, picks)
    if kind is PriceSampler:
        made.shots = 5
    assert fit(index, chances, [made.draw(uniform) for _ in range(1000)]) > 0.001


@pytest.mark.parametrize("kind", [SetSampler, PriceSampler])
@pytest.mark.parametrize("picks", [1, 2])
def test_candidates(kind, picks):
    rng, uniform = np.random.default_rng(9), below(9)
    scores = make(rng.normal(0, 1, (4, 7)), rng.random((7, 4, 4)) * 3)
    candidates = [(0, 1, 2), (5, 1), (2, 3, 4, 6), (1, 0, 6)]
    index, chances = law(scores, picks=picks, candidates=candidates)
    made = kind(scores, RATE, picks, candidates)
    assert fit(index, chances, [made.draw(uniform) for _ in range(1000)]) > 0.001


@pytest.mark.parametrize("picks", [1, 2])
def test_the_simple_sampler_has_the_same_law(picks):
    rng, uniform = np.random.default_rng(2), below(2)
    scores = make(rng.normal(0, 1, (3, 5)), rng.random((5, 3, 3)))
    index, chances = law(scores, picks=picks)
    assert fit(index, chances, [rejection(scores, RATE, uniform, picks) for _ in range(500)]) > 0.001


def test_a_draw_from_scratch_each_time():
    scores, uniform = instance(14), below(14)
    index, chances = law(scores)
    assert fit(index, chances, [draw_assignment(scores, RATE, uniform) for _ in range(400)]) > 0.001


@pytest.mark.parametrize("kind", [SetSampler, PriceSampler])
def test_a_wrong_rate_is_noticed(kind):
    scores, uniform = instance(4), below(4)
    index, chances = law(scores)
    made = kind(scores, RATE * Fraction(13, 10))
    assert fit(index, chances, [made.draw(uniform) for _ in range(3000)]) < 0.001


def test_rate_zero_is_uniform():
    scores, uniform = instance(5), below(5)
    index, chances = law(scores, Fraction(0))
    for kind in (SetSampler, PriceSampler):
        made = kind(scores, Fraction(0))
        assert fit(index, chances, [made.draw(uniform) for _ in range(2000)]) > 0.001


def test_bad_prices_only_cost_time(monkeypatch):
    rng, uniform, honest = np.random.default_rng(5), below(5), prices._Search._fit
    monkeypatch.setattr(prices._Search, "_fit", lambda self, y: honest(self, y + rng.normal(0, 0.7, y.shape)))
    monkeypatch.setattr(prices, "GOOD_ENOUGH", 0.0)
    scores = instance(14)
    index, chances = law(scores)
    made = PriceSampler(scores, RATE, shots=5)
    assert fit(index, chances, [made.draw(uniform) for _ in range(1000)]) > 0.001


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf, 1e308], ids=str)
@pytest.mark.parametrize("where", ["prices", "shares", "both"])
def test_prices_that_are_no_numbers_only_cost_time(number, where, monkeypatch):
    """Floats steer: whatever comes out of them, the draw ends, and has the law."""
    rng, uniform, honest = np.random.default_rng(5), below(5), prices._Search._fit

    def broken(self, y):
        found, some = honest(self, y), rng.random(y.shape) < 0.5
        if where != "shares":
            ends = np.cumsum([len(row) for row in found.members.values()])
            found.values = dict(zip(found.members, np.split(np.where(some, number, y), ends[:-1])))
        if where != "prices":
            found.shares = np.where(rng.random(found.shares.shape) < 0.5, number, found.shares)
        found.bound = -1e300
        return found

    monkeypatch.setattr(prices._Search, "_fit", broken)
    monkeypatch.setattr(prices, "GOOD_ENOUGH", 0.0)
    scores = instance(14)
    index, chances = law(scores)
    made = PriceSampler(scores, RATE, shots=5)
    assert fit(index, chances, [made.draw(uniform) for _ in range(400)]) > 0.001


def test_a_search_that_leaves_the_numbers_keeps_what_it_had():
    def falls_off(y):
        return (float(y @ y), 2 * y) if float(np.abs(y).max()) > 0.9 else (math.nan, np.full(y.shape, math.nan))

    start = np.array([1.0, -1.0])
    assert np.array_equal(prices._minimum(falls_off, start), start)


@pytest.mark.parametrize(
    ("places", "items", "bits"),
    [*itertools.product([5], [3, 6], [0, 1, 10, 40, 60, 70]), *itertools.product([14], [4], [0, 1, 10, 30])],
)
@pytest.mark.filterwarnings("error")
def test_scores_of_every_size_are_drawn_from(places, items, bits):
    """From scores that no float tells apart to those beyond all counts of people: a draw ends, without a word."""
    size = 2**bits if bits else 0
    rng, uniform = np.random.default_rng(places), below(places)
    unary = [[int(rng.integers(-3, 4)) * size for _ in range(items)] for _ in range(places)]
    table = [[[0 if p == q else size * ((p + q + i) % 3) for q in range(places)] for p in range(places)] for i in range(items)]
    scores = AssignmentScores(unary, table)
    found = draw_assignment(scores, RATE, uniform) if places <= 5 else PriceSampler(scores, RATE).draw(uniform)
    assert len(found) == places and all(len(row) == 1 and 0 <= row[0] < items for row in found)
    if bits >= 40:
        assert scores.of(found) == max(scores.of(one) for one in itertools.product(range(items), repeat=places))


def test_huge_scores():
    """Thousands of nats between assignments: exponents do not overflow, and the near ties at the top are drawn fairly."""
    unary = [[9000.0, 0.0, -1e6], [9000.5, 0.0, -1e6], [8000.0, 7999.0, 0.0]]
    scores, uniform = make(unary, np.full((3, 3, 3), 9001.0)), below(1)
    index, chances = law(scores)
    for kind in (SetSampler, PriceSampler):
        made = kind(scores, RATE)
        assert fit(index, chances, [made.draw(uniform) for _ in range(400)]) > 0.001


def test_many_places_agree_with_the_simple_sampler():
    """20 places cannot be enumerated: the mean score and the use of an item agree between the samplers."""
    rng, uniform = np.random.default_rng(3), below(3)
    scores = make(rng.normal(0, 1, (20, 12)), rng.random((12, 20, 20)) * 0.1)
    made = sampler(scores, RATE)
    assert isinstance(made, PriceSampler)
    ours, theirs = [made.draw(uniform) for _ in range(300)], [rejection(scores, RATE, uniform) for _ in range(60)]
    for measure in (lambda c: scores.of(c) / UNIT, lambda c: sum(s == (0,) for s in c)):
        a, b = [measure(c) for c in ours], [measure(c) for c in theirs]
        assert stats.ttest_ind(a, b, equal_var=False).pvalue > 0.001


def test_the_sampler_depends_on_public_numbers_only():
    rng = np.random.default_rng(0)
    for places, items, kind in ((5, 4, SetSampler), (14, 2, PriceSampler)):
        for strength in (0.0, 50.0):
            scores = make(rng.normal(0, 1, (places, items)) * strength, rng.random((items, places, places)))
            assert type(sampler(scores, RATE)) is kind


def test_refund_is_the_best_subset():
    rng = random.Random(2)
    for size in (10, 2**70):
        for _ in range(40):
            k = rng.randrange(1, 7)
            table = [[0] * k for _ in range(k)]
            for c, d in itertools.combinations(range(k), 2):
                table[c][d] = table[d][c] = rng.randrange(size)
            prices, forced = [rng.randrange(-size, size) for _ in range(k)], rng.randrange(1 << k)
            best = max(
                sum(y for i, y in enumerate(prices) if s >> i & 1)
                - sum(table[c][d] for c, d in itertools.combinations(range(k), 2) if s >> c & s >> d & 1)
                for s in range(1 << k)
                if s & forced == forced
            )
            assert 0 <= refund(prices, table, range(k), forced) - best <= size >> 45


def test_enclosures_hold_against_200_digits():
    rng = random.Random(1)
    with mpmath.workdps(200):
        for _ in range(1500):
            top = rng.randrange(-(10 ** rng.randrange(1, 14)), 10 ** rng.randrange(1, 14))
            bottom, bits = rng.randrange(1, 10 ** rng.randrange(1, 12)), rng.choice([60, 88, 152, 400])
            low, high, shift = exp_enclosure(top, bottom, bits)
            value = mpmath.exp(-mpmath.mpf(top) / bottom) * mpmath.mpf(2) ** (bits + shift)
            assert 2**bits <= low <= value <= high < low + 4 * bits + 80


def test_the_sums_are_upper_bounds_and_close():
    """The whole sum of the set sampler against the sum over all assignments with 60 digits."""
    with mpmath.workdps(60):
        for seed in (1, 4, 11, 15, 18):
            scores = instance(seed)
            made = SetSampler(scores, RATE)
            exact = mpmath.mpf(0)
            for c in itertools.product(range(scores.items), repeat=scores.places):
                gap = RATE * (scores.of(c) - sum(made.best))
                exact += mpmath.exp(mpmath.mpf(gap.numerator) / gap.denominator)
            size, exponent = made._sums[-1]
            ratio = mpmath.mpf(float(size[-1])) * mpmath.mpf(2) ** int(exponent[-1]) / exact
            assert 1 <= ratio < 1 + 1e-6


@pytest.mark.parametrize(
    "top, bottom, numerator, denominator", [(1, 3, 1, 1), (5, 1, 100, 1), (-1, 2, 1, 2), (0, 1, 1, 3), (0, 1, 1, 1)]
)
def test_coin(top, bottom, numerator, denominator):
    chance, tosses, uniform = math.exp(-top / bottom) * numerator / denominator, 8000, below(7)
    heads = sum(coin(top, bottom, numerator, denominator, uniform) for _ in range(tosses))
    assert abs(heads - tosses * chance) <= 4.5 * math.sqrt(tosses * chance * (1 - chance))


@pytest.mark.parametrize("nats", [10**3, 10**12, 2**99])
def test_coins_of_vanishing_probability_take_no_memory(nats):
    """exp(−10¹²) has a thousand billion zeros: it is not written down to find that a coin shows tails."""
    assert not coin(nats, 1, 1, 1, below(0))
    # A factor 2^power as large brings it back to the size of a coin.
    power = math.floor(Fraction(nats) / Fraction(math.log(2))) if nats < 10**6 else None
    if power is not None:
        tossed = [coin(nats, 1, 1, 1, below(seed), power=power) for seed in range(400)]
        assert abs(np.mean(tossed) - 2.0 ** (power - nats / math.log(2))) < 0.1


def test_an_undecided_coin_of_vanishing_probability_draws_on():
    uniform = iter([0, 0, 5])
    assert not coin(10**6, 1, 1, 1, lambda _: next(uniform)) and next(uniform, None) is None


def test_coins_use_more_bits_when_the_first_do_not_decide():
    """The first 64 bits equal those of the probability; only the next ones decide."""
    with mpmath.workdps(60):
        digits = int(mpmath.floor(mpmath.exp(-mpmath.mpf(1) / 3) * 2**128))
    for last, heads in ((0, True), (2**64 - 1, False)):
        words = iter([digits >> 64, last])
        assert coin(1, 3, 1, 1, lambda _: next(words)) is heads  # noqa: B023
        assert next(words, None) is None


def test_a_probability_above_one_is_an_error():
    with pytest.raises(ArithmeticError, match="above 1"):
        coin(0, 1, 3, 2, lambda _: 0)


def test_root_below():
    for square in (Fraction(2), Fraction(1, 10**60), Fraction(7, 3 * 2**90), Fraction(10**30)):
        root = root_below(square)
        assert root**2 <= square < (root * (1 + Fraction(1, 10**18))) ** 2


def loss(scores, other, rate):
    """Largest log-ratio, and the Rényi divergence of order 2, between the laws of two tables of scores, enumerated."""
    p, q = law(scores, rate)[1], law(other, rate)[1]
    return float(np.abs(np.log(p / q)).max()), float(np.log((p * p / q).sum()))


def test_combination_exponential_is_attained():
    """An assignment of small probability rises by the whole span: the loss is ε to 1 %. Two even ones tilt: it is ρ to 1 %.

    The scores are shared by a penalty, so both places take part. The draw itself is compared with the law at the rate a
    spend of ε buys.
    """
    span, amount = 2**30, Fraction(1, 2)
    rate = choices.calibrate_assignment(span, Spend("epsilon", amount)).rate
    low = -20 * span
    rare = AssignmentScores([[0, low], [0, low]], [[[0, 0], [0, 0]]] * 2)
    risen = AssignmentScores([[0, low], [0, low + span]], [[[0, 0], [0, 0]]] * 2)
    most, _ = loss(rare, risen, rate)
    assert 0.99 * amount <= most <= amount
    rho = Fraction(1, 5000)
    rate_rho = choices.calibrate_assignment(span, Spend("rho", rho)).rate
    even = AssignmentScores([[0, 0]], [[[0]], [[0]]])
    tilted = AssignmentScores([[span // 2, -span // 2]], [[[0]], [[0]]])
    _, renyi = loss(even, tilted, rate_rho)
    assert 0.99 * 2 * rho <= renyi <= 2 * rho * (1 + 1e-9)
    pair = AssignmentScores([[0, span], [0, 2 * span]], [[[0, 0], [0, 0]], [[0, span], [span, 0]]])
    index, chances = law(pair, Fraction(amount, span))
    made, uniform = sampler(pair, rate), below(11)
    assert fit(index, chances, [made.draw(uniform) for _ in range(6000)]) > 0.001


def halve_combination_rate(patch):
    """The draw is calibrated as if neighbours moved the scores by half of what they can: the rate is doubled."""
    honest = choices.calibrate_assignment
    patch.setattr(choices, "calibrate_assignment", lambda span, spend: honest(Fraction(span, 2), spend))


def test_half_the_span_is_refuted_for_the_draw():
    with pytest.MonkeyPatch.context() as patch:
        halve_combination_rate(patch)
        with pytest.raises(AssertionError):
            test_combination_exponential_is_attained()
