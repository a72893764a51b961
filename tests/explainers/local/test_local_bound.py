"""The set of local explanations: enforced in integers, never exceeded by neighbours, and reached."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pellucid as pel
from pellucid import PellucidError
from pellucid.explainers.local.bound import Moments
from pellucid.explainers.local.encoder import Encoder, GradientRows, LocalRows
from pellucid.explainers.local.readings import ShortestGradient, ShortestSum
from pellucid.explainers.local.weights import Gaussian, Stable
from pellucid.query.bounds import Ball, Gram

WIDE = Moments(3, joint=1.0, slope=2.0, label=1.2)
GRID = 2.0**-12
"""What is lost by rounding rows to the grid."""


def of_weight(weight, d, w=1.0):
    limits = weight.limits(math.sqrt(d), w)
    return Moments(d, limits.joint, limits.slope, limits.label)


SETS = [WIDE, of_weight(Stable(), 3), of_weight(Gaussian(0.25), 3), of_weight(Gaussian(), 3, 0.3), Moments(3, 0.01, 0.005, 5.0)]


def row(*values):
    return np.array([values], dtype=float)


def weighted(change, bound):
    """Squared length of a change of the totals, as Gaussian noise sees it: entries off the diagonal stand for two."""
    return sum((c / f) ** 2 for c, f in zip(change, bound.relative))


def difference(one, other):
    return [a - b for a, b in zip(one, other)]


def halve_slope(patch):
    original = Moments.slope_norm
    patch.setattr(Moments, "slope_norm", lambda self, relation, scale: original(self, relation, scale) // 2)


def halve_start(patch):
    original = ShortestGradient.largest
    patch.setattr(ShortestGradient, "largest", lambda *args: original(*args) // 2)


def test_local_moments_is_attained():
    """Added: a row with √(p(p+q)) at its limit. Replaced: opposite rows with the same large label, or two orthogonal rows."""
    p = 0.8
    one = WIDE.totals(row(math.sqrt(p), 0, 0, math.sqrt(1 / p - p)))
    assert (1 - GRID) * WIDE.added().l2_squared <= weighted(one, WIDE) <= WIDE.added().l2_squared
    tau = WIDE.label**2
    least = (math.sqrt(tau**2 + 4) - tau) / 2
    there, back = (WIDE.totals(row(sign * math.sqrt(least), 0, 0, 1.2)) for sign in (1, -1))
    moved = weighted(difference(there, back), WIDE)
    assert (1 - 4 * GRID) * WIDE.replaced().l2_squared <= moved <= WIDE.replaced().l2_squared
    small = Moments(2, joint=1.0, slope=2.0, label=0.01)
    first, second = small.totals(row(1, 0, 0)), small.totals(row(0, 1, 0))
    moved = weighted(difference(first, second), small)
    assert (1 - 4 * GRID) * small.replaced().l2_squared <= moved <= small.replaced().l2_squared
    flat = Moments(1, joint=1.0, slope=2.0, label=3.0)
    largest = math.cos(math.atan(1.0))
    one = flat.totals(row(math.sqrt(largest), math.sqrt(1 / largest - largest)))
    assert (1 - GRID) * flat.added().l1 <= sum(map(abs, one)) <= flat.added().l1


def integer_slope(bound, totals, phi, scale):
    matrix, vector = bound.matrix(np.array(totals, dtype=object))
    return matrix @ np.array(phi, dtype=object) - scale * vector


def length(vector):
    return math.isqrt(sum(int(v) ** 2 for v in vector))


def test_local_gradient_is_attained():
    """A row along φ with the opposite label. Replaced: two small rows with large labels come near twice that."""
    bound, scale = Moments(3, joint=1.0, slope=1.1, label=1.2), 1 << 10
    a = (math.sqrt(1.2**2 + 4 * 1.1) - 1.2) / 2
    there = bound.totals(row(a, 0, 0, -1.2))
    moved = length(integer_slope(bound, there, [scale, 0, 0], scale))
    assert (1 - GRID) * bound.slope_norm("add-remove", scale) <= moved <= bound.slope_norm("add-remove", scale)
    large = Moments(3, joint=1.0, slope=1.0, label=12.0)
    a = (math.sqrt(12.0**2 + 4) - 12.0) / 2
    one, other = (large.totals(row(a, 0, 0, t)) for t in (-12.0, 12.0))
    moved = length(integer_slope(large, difference(one, other), [0, 0, scale], scale))
    assert 0.98 * large.slope_norm("replace", scale) <= moved <= large.slope_norm("replace", scale)


def test_local_start_is_attained():
    """Two starts on opposite sides of the optimum: one record makes one slope longer and the other shorter."""
    bound, bits = Moments(2, joint=1.0, slope=1.0, label=20.0), 10
    scale = 1 << bits
    base = [200 * v for v in bound.totals(row(1, 0, 0))]
    a = (math.sqrt(20.0**2 + 4) - 20.0) / 2
    more = [x + y for x, y in zip(base, bound.totals(row(a, 0, -20.0)))]
    score = ShortestGradient(bound, ((scale, 0), (-scale, 0)), bits, 1.0)
    changes = [after - before for before, after in zip(score.of(base), score.of(more))]
    allowed = score.largest("add-remove", bound.added().linf)
    assert max(map(abs, changes)) <= allowed and 0.98 * 2 * allowed <= max(changes) - min(changes) <= 2 * allowed


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
@pytest.mark.parametrize("rows", [1, 3])
def test_local_start_is_attained_by_sums_side_by_side(relation, rows):
    """Two starts with opposite slopes: the rows of one unit along them make one slope longer and the other shorter."""
    bound = Ball(2, 1.0)
    score, away = ShortestSum(bound, 1.0), 100 * bound.LIMIT
    one = (2 if relation == "replace" else 1) * rows * bound.LIMIT
    before, after = score.of([away, 0, -away, 0]), score.of([away + one, 0, -away + one, 0])
    changes = [b - a for a, b in zip(before, after)]

    def within():
        units = rows * bound.added().linf
        return max(map(abs, changes)) <= score.largest(relation, units) and max(changes) - min(changes) <= score.span(
            relation, units
        )

    assert within() and max(map(abs, changes)) >= 0.999 * score.largest(relation, rows * bound.added().linf)
    with pytest.MonkeyPatch.context() as patch:
        original = ShortestSum.largest
        patch.setattr(ShortestSum, "largest", lambda *given: original(*given) // 2)
        assert not within()


numbers = st.one_of(
    st.floats(-3, 3), st.sampled_from([0.0, 1e-9, -1e-9, 1e3, -1e3, 1e300, -1e300, math.nan, math.inf, -math.inf, 0.5, 1.0])
)
rows_ = st.lists(numbers, min_size=4, max_size=4)


@given(st.sampled_from(SETS), rows_, rows_, rows_)
def test_neighbours_never_move_further(bound, one, other, direction):
    """Any two rows, whatever a map returned: totals and slopes stay within the claimed norms."""
    first, second = bound.totals(row(*one)), bound.totals(row(*other))
    assert weighted(first, bound) <= bound.added().l2_squared
    assert sum(map(abs, first)) <= bound.added().l1 and max(map(abs, first)) <= bound.added().linf
    change = difference(first, second)
    assert weighted(change, bound) <= bound.replaced().l2_squared
    assert sum(map(abs, change)) <= bound.replaced().l1 and max(map(abs, change)) <= bound.replaced().linf
    scale = 1 << 8
    phi = np.clip(np.nan_to_num(np.array(direction[:3])), -1e3, 1e3)
    phi = np.trunc(np.clip(phi / max(np.linalg.norm(phi), 1e-12), -1, 1) * (scale - 1)).astype(int).tolist()
    assert length(integer_slope(bound, first, phi, scale)) <= bound.slope_norm("add-remove", scale)
    assert length(integer_slope(bound, change, phi, scale)) <= bound.slope_norm("replace", scale)


@given(st.sampled_from(SETS), st.lists(rows_, min_size=1, max_size=5))
def test_a_person_with_several_rows_stays_inside(bound, rows):
    k = len(rows)
    together = bound.totals(np.array(rows, dtype=float), np.full(k, k))
    assert weighted(together, bound) <= bound.added().l2_squared
    assert length(integer_slope(bound, together, [1 << 8, 0, 0], 1 << 8)) <= bound.slope_norm("add-remove", 1 << 8)
    assert bound.totals(np.array(rows, dtype=float), np.zeros(k, dtype=int)) == [0] * bound.size


@given(st.sampled_from(SETS), st.lists(rows_, min_size=2, max_size=8), st.integers(1, 7))
def test_totals_do_not_depend_on_batches(bound, rows, cut):
    whole = np.array(rows, dtype=float)
    apart = [bound.totals(piece) for piece in (whole[:cut], whole[cut:]) if len(piece)]
    assert bound.totals(whole) == [sum(values) for values in zip(*apart)]


@given(st.sampled_from(SETS), rows_)
def test_every_row_is_inside_in_exact_integers(bound, one):
    z = [int(v) for v in bound.integers(row(*one))[0]]
    p, q = sum(v * v for v in z[:-1]), z[-1] ** 2
    assert p * (p + q) <= bound.joint_limit**2 and q <= bound.label_limit
    assert p <= bound.slope_limit and p * q <= (bound.slope_limit - p) ** 2
    assert int(bound.squared_lengths(np.array([z]))[0]) == p * (p + q)


def test_rows_of_a_certified_weight_are_not_clipped():
    """What the weight's limits allow passes as it is, up to the grid: clipping would bias answers."""
    rng = np.random.default_rng(0)
    for weight in (Stable(), Gaussian(0.5)):
        bound = of_weight(weight, 3)
        u, f = rng.uniform(-1, 1, (2000, 3)), rng.choice([-1.0, 1.0], 2000)
        root = np.sqrt(weight.at(np.linalg.norm(u, axis=1)))
        given_ = np.column_stack([u * root[:, None], root * f])
        assert np.abs(bound.integers(given_) * math.sqrt(bound.unit) - given_).max() <= 3 * math.sqrt(bound.unit)


def test_it_costs_less_than_a_gram_matrix():
    """The last diagonal entry is not released and the label's part is weighed by what it brings: less noise on A and on b."""
    for d, weight in ((5, Stable()), (14, Stable()), (14, Gaussian())):
        bound = of_weight(weight, d)
        r = np.linspace(0, math.sqrt(d), 10_001)
        gram = Gram(d + 1, math.sqrt(float((weight.at(r) * (r * r + 1)).max())))
        ours = math.sqrt(bound.added().l2_squared) * bound.unit
        theirs = math.sqrt(gram.added().l2_squared) * gram.unit
        assert ours < 0.55 * theirs and ours < theirs * math.sqrt(0.5)


def test_limits_must_be_positive():
    for wrong in ((0, 1, 1, 1), (2000, 1, 1, 1), (2, 0, 1, 1), (2, 1, -1, 1), (2, 1, 1, math.nan)):
        with pytest.raises(PellucidError):
            Moments(*wrong)


@pytest.mark.parametrize("features", [1, 3, 40])
def test_what_a_record_brings_is_the_same_to_the_last_bit_in_every_batch(features):
    rng = np.random.default_rng(3)
    schema = pel.Schema({f"x{i}": pel.Number(0, 1) for i in range(features)})
    model = pel.Model(lambda d: d["x0"] / 3, output=(0, 1), trained_on="other data")
    x, f = rng.random((500, features)), rng.uniform(-1, 1, 500)
    rows = LocalRows(Encoder(model, schema), tuple(rng.random(features)), Gaussian(0.7), 0.3)
    for made in (rows, GradientRows(rows, tuple(rng.normal(size=features)))):
        whole = made.of(x, f)
        for size in (1, 2, 3, 7, 100, 333):
            pieces = [made.of(x[i : i + size], f[i : i + size]) for i in range(0, 500, size)]
            assert np.array_equal(np.concatenate(pieces), whole), size


def test_rows_whose_slope_is_too_long_are_shrunk():
    """Inside the joint limit and the label limit, and outside that of slopes: p + √(pq) = 1.4 against 1.1."""
    bound = Moments(3, 1.0, 1.1, 1.2)
    row = np.array([[np.sqrt(0.7), 0.0, 0.0, np.sqrt(0.7)]])
    (z,) = bound.integers(row)
    p, q = int((z[:-1] ** 2).sum()), int(z[-1]) ** 2
    assert p * q <= (bound.slope_limit - p) ** 2 and p <= bound.slope_limit
    assert p + np.sqrt(p * q) >= 0.99 * bound.slope_limit
