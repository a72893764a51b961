"""Shapley vectors of any bounded game lie in the enforced set, reach its borders, and nothing leaves it."""

from fractions import Fraction

import numpy as np
import pytest
from games import adversarial_games, by_orders, coefficients, extreme_game, longest, named_directions
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import linprog

from pellucid.errors import PlanError
from pellucid.explainers.shapley import bound as bound_module
from pellucid.explainers.shapley.bound import ShapleyVectors
from pellucid.explainers.shapley.radii import Radii, shapley_radii
from pellucid.explainers.shapley.scores import ShapleyScore
from pellucid.mechanisms import Spend
from pellucid.query.bound import UNITS

FEATURES = [1, 2, 3, 4, 5, 6]
LO, HI = -0.4, 2.1


def measure(vector):
    size = np.sort(np.abs(vector))[::-1]
    return Radii(size[0], size.sum(), np.linalg.norm(vector), np.ptp(vector), size[:2].sum())


def vectors_of(games, d):
    return (HI - LO) * np.array(games) @ coefficients(d)


def bound_for(d, share=0.5, ranked=True, **options):
    return ShapleyVectors(d, LO, HI, LO + share * (HI - LO), ranked=ranked, **options)


def norms(change):
    change = [int(v) for v in change]
    return sum(map(abs, change)), sum(v * v for v in change), max(map(abs, change))


def test_the_table_of_coefficients_is_the_definition():
    rng = np.random.default_rng(0)
    for d in FEATURES:
        game = rng.random(2**d)
        assert np.allclose(game @ coefficients(d), by_orders(game, d))


@pytest.mark.parametrize("d", FEATURES)
def test_no_game_leaves_the_radii(d):
    radii = shapley_radii(d)
    directions = named_directions(d).values()
    for game in [*adversarial_games(d), *(extreme_game(d, s * u) for u in directions for s in (1, -1))]:
        for prediction in (0.0, 0.3, 1.0):
            game[-1] = prediction
            found = measure(game @ coefficients(d) - (2 * prediction - 1) / (2 * d))
            assert all(getattr(found, name) <= value + 1e-12 for name, value in vars(radii).items())


@pytest.mark.parametrize("d", [2, 3, 4])
def test_linear_programs_find_the_same_constants(d):
    """The largest difference of two games that share the full coalition, as a linear program over both of them."""
    table = coefficients(d)

    def furthest(direction):
        goal = table @ direction
        shared = np.zeros((1, 2 ** (d + 1)))
        shared[0, 2**d - 1], shared[0, -1] = 1, -1
        return -linprog(-np.concatenate([goal, -goal]), A_eq=shared, b_eq=[0], bounds=(0, 1)).fun

    u, radii = named_directions(d), shapley_radii(d)
    assert furthest(u["one feature"]) == pytest.approx(2 * radii.linf) == pytest.approx(2 - 1 / d)
    assert furthest(u["difference"]) == pytest.approx(2 * radii.spread) == pytest.approx(2)
    assert max(furthest(u["difference"]), furthest(u["sum of two"])) == pytest.approx(2 * radii.pair)
    assert max(furthest(u[f"{m} pluses"]) for m in range(d + 1)) == pytest.approx(2 * radii.l1)


def test_l1_constants():
    """The exact values for one replaced record."""
    for d, value in {2: 2.0, 3: 3.0, 5: 4.2, 10: 6.41, 20: 9.63, 50: 16.07, 100: 23.36}.items():
        assert round(2 * shapley_radii(d).l1, 2) == value
    assert all(2 * shapley_radii(d).l2 < 3.2 and 2 * shapley_radii(d).pair < 3 for d in range(1, 600, 7))


@pytest.mark.parametrize("d", [2, 3, 5, 8])
def test_shapley_radii_is_attained(d):
    """The furthest games in a coordinate, a difference, a sum of two and a sign pattern reach every size; none is clipped.

    The Euclidean bound is reached for two features; the longest vectors known have 0.85 of it (eight features)."""
    found = []
    for direction in named_directions(d).values():
        for sign in (1, -1):
            bound = bound_for(d, 0.8)
            vector = vectors_of([extreme_game(d, sign * direction, 0.8)], d)
            inside = bound.integers(vector)
            assert np.abs(bound.unit * (inside + bound.offset) - vector).max() <= bound.unit
            found.append(measure(bound.unit * inside[0] / (HI - LO)))
    radii = shapley_radii(d)
    for name in ("linf", "l1", "spread", "pair"):
        assert max(getattr(one, name) for one in found) == pytest.approx(getattr(radii, name), rel=1e-6)
    far = longest(d)
    kept = bound_for(d).integers((HI - LO) * far[None])[0] * bound_for(d).unit / (HI - LO)
    assert np.linalg.norm(kept) >= (0.999 if d == 2 else 0.85) * radii.l2


@pytest.mark.parametrize("d", [1, 2, 5, 7])
def test_shapley_set_is_attained(d):
    """Opposite games of one record: what is added and what is replaced reach L1 and L∞, and nearly L2; the count too."""
    bound = bound_for(d)
    ends = []
    for direction in named_directions(d).values():
        first, second = (np.array(bound.totals(vectors_of([extreme_game(d, s * direction)], d))) for s in (1, -1))
        ends += [(norms(first), norms(first - second))]
    far = np.array(bound.totals((HI - LO) * longest(d)[None]))
    ends += [(norms(far), norms(2 * far))]
    for place, claimed in enumerate((bound.added(), bound.replaced())):
        l1, squared, linf = (max(column) for column in zip(*(end[place] for end in ends)))
        assert 1 - 1e-6 <= l1 / claimed.l1 <= 1 and 1 - 1e-6 <= linf / claimed.linf <= 1
        assert (0.999 if d < 3 else 0.72) <= squared / claimed.l2_squared <= 1
    counted = bound_for(d, count=True)
    assert norms(counted.totals(np.zeros((1, d)))[-1:]) == (bound.LIMIT, bound.LIMIT**2, bound.LIMIT)
    assert counted.added().l1 - bound.added().l1 == bound.LIMIT == counted.replaced().l1 - bound.replaced().l1


WILD = st.one_of(st.floats(-9, 9), st.sampled_from([np.nan, np.inf, -np.inf, 1e300, -1e300, 0.0, 5e-324]))


@pytest.mark.parametrize("d", [1, 2, 3, 7, 40])
@given(st.data())
def test_whatever_comes_stays_inside(d, data):
    values = data.draw(arrays(float, (6, d), elements=WILD))
    k = data.draw(st.sampled_from([None, 1, 2, 3, 1000]))
    share, ranked, count = data.draw(st.sampled_from([0.0, 0.37, 1.0])), data.draw(st.booleans()), data.draw(st.booleans())
    bound = bound_for(d, share, ranked, count=count)
    limits = bound.limits
    parts = None if k is None else np.full(6, k)
    made = bound.integers(values, parts)
    whole = made if k is None else made[: min(k, 6)].sum(axis=0, keepdims=True)
    for row in whole[:, :d]:
        size = np.sort(np.abs(row))[::-1]
        assert size[0] <= limits.linf and size.sum() <= limits.l1 and np.ptp(row) <= limits.spread
        assert sum(int(v) ** 2 for v in row) <= limits.l2_squared and size[:2].sum() <= limits.pair
    if bound.count:
        assert (whole[:, d] <= bound.LIMIT).all()


@pytest.mark.parametrize("form", ["ranked", "positive", "count"])
@pytest.mark.parametrize("d", [3, 20, 200])
@pytest.mark.parametrize("k", [2, 4])
def test_several_rows_of_a_person_count_as_one(form, d, k):
    """k rows far outside, all in the same direction, add up to what one contribution may have: to nearly all of it, no more."""
    bound = bound_for(d, 0.5, form == "ranked", count=form == "count", positive=form == "positive")
    limits, reached = bound.limits, np.zeros(5)
    unit = np.eye(d)
    for push in [*(np.sign(u) for u in named_directions(min(d, 8)).values()), np.ones(d), unit[0], unit[0] - unit[1]]:
        wide = 1e3 * np.pad(push, (0, d - len(push)))
        total = bound.integers(np.repeat(wide[None], k, axis=0), parts=np.full(k, k)).sum(axis=0)
        l1, squared, linf = norms(total)
        most = bound.added()
        assert l1 <= most.l1 and squared <= most.l2_squared and linf <= most.linf
        row = total[:d]
        pair = int(np.sort(np.abs(row))[-2:].sum())
        assert np.ptp(row) <= limits.spread and pair <= limits.pair
        inner = norms(row)
        reached = np.maximum(reached, [inner[0] / limits.l1, inner[1] / limits.l2_squared, linf / limits.linf, 0, 0])
        reached[3:] = np.maximum(reached[3:], [np.ptp(row) / limits.spread, pair / limits.pair])
        if form == "count":
            assert total[d] <= bound.LIMIT and total[d] >= 0.999 * bound.LIMIT
    # Without a ranking the box alone limits pairs, and sizes have half the spread.
    assert reached[2] > 0.999 and reached[1] > 0.85 and reached[0] > 0.5 and (form != "ranked" or reached[3:].min() > 0.999)


def test_a_person_has_one_vector():
    """k rows of one person together stay inside, and lose at most a little to rounding; dropped rows bring nothing."""
    d, bound = 4, bound_for(4, 0.2, count=True)
    vector = vectors_of([extreme_game(d, named_directions(d)["3 pluses"], 0.2)], d)
    one = np.array(bound.totals(vector))
    for k in (2, 3, 7):
        shared = np.array(bound.totals(np.repeat(vector, k, axis=0), np.full(k, k)))
        assert np.abs(shared - one).max() <= 1e-5 * bound.LIMIT
    assert bound.totals(vector, np.zeros(1, dtype=int)) == [0] * 5


def test_only_extreme_coordinates_give_way_to_a_ranking():
    """A vector that spreads too far loses at its ends; what lies between them stays. Without a ranking nothing is lost."""
    values = np.array([[1.9, -1.1, 0.3, 0.0, -0.2], [1.7, 1.7, 0.3, 0.0, 0.1]])
    bound = bound_for(5)
    kept = bound.unit * (bound.integers(values) + bound.offset)
    assert np.allclose(kept[:, 2:], values[:, 2:], atol=1e-6) and np.abs(kept - values)[:, :2].max(axis=1).min() > 0.1
    assert np.ptp(kept[0]) == pytest.approx(HI - LO, rel=1e-6)
    free = bound_for(5, ranked=False)
    assert np.allclose(free.unit * (free.integers(values) + free.offset), values, atol=1e-6)


def test_totals_are_additive_and_do_not_overflow():
    bound = bound_for(3, 0.9)
    values = np.random.default_rng(0).uniform(-2, 2, (50, 3))
    assert bound.totals(values) == [a + b for a, b in zip(bound.totals(values[:17]), bound.totals(values[17:]))]
    assert bound.LIMIT * 2**31 < 2**63


@pytest.mark.parametrize("share", [0.0, 0.41, 1.0])
def test_means_come_back(share):
    d, games = 4, np.random.default_rng(1).random((30, 16))
    games[:, -1] = share
    vectors = vectors_of(games, d)
    for bound in (bound_for(d, share), bound_for(d, share, count=True)):
        assert np.allclose(bound.mean(bound.totals(vectors), 30), vectors.mean(axis=0), atol=1e-7)
    assert np.allclose(bound.mean([5e7] * 4 + [0.0]), bound.unit * bound.offset)
    with pytest.raises(PlanError, match="how many records"):
        bound_for(d).mean([0] * 4)


def test_sizes_of_one_s_own():
    """Smaller sizes clip more and cost less; shares move the centre of each coordinate."""
    small = bound_for(3, 0.5, radii=Radii(0.1, 0.2, 0.15, 0.12, 0.16))
    assert small.unit < bound_for(3).unit and small.limits.l1 == pytest.approx(2 * small.LIMIT, rel=1e-6)
    moved = bound_for(3, 1.0, shares=(0.5, 0.5, 0.0))
    assert np.allclose(moved.offset * moved.unit, [0.625, 0.625, 0], atol=1e-7)
    for wrong in ({"length": 0}, {"length": 2000}, {"prediction": 9.0}, {"shares": (1.0,)}):
        with pytest.raises(PlanError):
            ShapleyVectors(**{"length": 3, "lo": LO, "hi": HI, "prediction": 1.0} | wrong)


@pytest.mark.parametrize("d", [2, 3, 4, 6])
@pytest.mark.parametrize("relation", ["replace", "add-remove"])
def test_shapley_span_is_attained(d, relation):
    """Signed: the furthest games in a difference. Absolute: totals of opposite signs, moved by the furthest games in a sum of
    two or a difference, so that one score rises while the other falls."""
    bound, u = bound_for(d), named_directions(d)
    for absolute in (False, True):
        score, reached = ShapleyScore(bound, 100, absolute), 0
        for direction in (u["difference"], u["sum of two"]):
            after, before = (np.array(bound.totals(vectors_of([extreme_game(d, s * direction)], d))) for s in (1, -1))
            before = before if relation == "replace" else 0 * before
            for signs in ((1, 1), (1, -1)):
                # Others have made the first totals large, of either sign.
                rest = np.zeros(d, dtype=int)
                rest[:2] = np.array(signs) * 50 * bound.LIMIT
                change = np.array(score.of(rest + after)) - np.array(score.of(rest + before))
                reached = max(reached, np.ptp(change))
        claimed = score.span(relation, bound.added().linf)
        assert 1 - 1e-6 <= reached / claimed <= 1


@pytest.mark.parametrize("absolute", [True, False])
def test_no_neighbour_exceeds_the_span(absolute):
    rng = np.random.default_rng(0)
    for d in FEATURES:
        bound = bound_for(d, 0.7)
        score = ShapleyScore(bound, 20, absolute)
        games = np.array(list(adversarial_games(d)))
        games[:, -1] = 0.7
        made = bound.integers(vectors_of(games, d))
        for _ in range(100):
            rest = made[rng.integers(len(made), size=19)].sum(axis=0)
            first, second = made[rng.integers(len(made), size=2)]
            scores = [np.array(score.of(rest + v)) for v in (first, second, 0 * first)]
            assert np.ptp(scores[0] - scores[1]) <= score.span("replace", bound.LIMIT)
            assert np.ptp(scores[0] - scores[2]) <= score.span("add-remove", bound.LIMIT)
            # Several rows of one person without ids move a score as many times as far.
            assert score.span("replace", 3 * bound.LIMIT) >= 3 * np.ptp(scores[0] - scores[1])


def test_choices_are_calibrated_to_the_span(seeded):
    bound = bound_for(5, 0.6)
    signed, size = ShapleyScore(bound, absolute=False), ShapleyScore(bound, 1000)
    ranges = {False: 2.0, True: 2.4}
    for score in (signed, size):
        how = score.calibrate("replace", bound.LIMIT, Spend("epsilon", Fraction(1)), 1)
        # One unit of ε against the span, in units of the output range.
        assert how.flip and float(how.rate) * (HI - LO) / bound.unit == pytest.approx(1 / ranges[score.absolute], rel=1e-6)
        rho = score.calibrate("replace", bound.LIMIT, Spend("rho", Fraction(1, 10)), 2)
        assert rho.cost <= Fraction(1, 10) and float(rho.cost) == pytest.approx(0.1)
    totals = [int(1000 * v / bound.unit) - 1000 * int(c) for v, c in zip([0.1, -0.9, 0.5, 0.0, 0.3], bound.offset)]
    sharp = Spend("epsilon", Fraction(1000))
    assert size.pick(totals, size.calibrate("replace", bound.LIMIT, sharp, 3)) == [1, 2, 4]
    assert signed.pick(totals, signed.calibrate("add-remove", bound.LIMIT, sharp, 2)) == [2, 4]
    assert size.fits(bound_for(5, 0.6)) and not size.fits(bound_for(5, 0.5)) and not size.fits(bound_for(4, 0.6))
    for wrong in ((bound,), (bound_for(5, count=True), 10), (bound_for(5, ranked=False), 10)):
        with pytest.raises(PlanError):
            ShapleyScore(*wrong)
    with pytest.raises(PlanError, match="1 to 5"):
        size.calibrate("replace", bound.LIMIT, sharp, 6)


def test_half_the_radii_would_be_refuted(monkeypatch):
    halved = lambda d: Radii(*(v / 2 for v in vars(shapley_radii(d)).values()))  # noqa: E731
    monkeypatch.setattr(bound_module, "shapley_radii", halved)
    with pytest.raises(AssertionError):
        test_shapley_radii_is_attained(3)


def test_words():
    bound = bound_for(4, count=True)
    assert "4 features" in bound.text and "count" in bound.text and bound.enforced
    assert f"{bound.unit * UNITS:g}" in bound.scale_text
