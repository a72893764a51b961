"""Bounds hold in exact integers for random, adversarial and hostile contributions; the stated norms are attained."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pellucid.errors import PlanError
from pellucid.explainers.blocks.ballots import Ballots
from pellucid.mechanisms import Norms
from pellucid.query import bounds
from pellucid.query.bound import UNITS
from pellucid.query.bounds import Ball, Box, Cells, CountedBox, CrossCells, Gram

WILD = st.one_of(
    st.floats(-3, 3), st.sampled_from([0.0, 1.0, -1.0, 0.5, 1e300, -1e300, float("inf"), float("-inf"), float("nan"), 1e-12])
)


def norms_of(difference, weights=None):
    squares = [d * d for d in difference]
    if weights is not None:
        squares = [s / (w * w) for s, w in zip(squares, weights)]
    return sum(abs(d) for d in difference), sum(squares), max((abs(d) for d in difference), default=0)


def within(difference, claimed: Norms, weights=None):
    l1, l2, linf = norms_of(difference, weights)
    return l1 <= claimed.l1 and l2 <= claimed.l2_squared * (1 + 1e-12) and linf <= claimed.linf


def total(bound, contributions, parts=None):
    return bound.totals(contributions, parts)


def check(bound, one, other, parts=None):
    """Added: a contribution against nothing. Replaced: two contributions against each other."""
    a, b = total(bound, one, parts), total(bound, other, parts)
    weights = bound.relative or None
    assert within(a, bound.added(), weights) and within(b, bound.added(), weights)
    assert within([x - y for x, y in zip(a, b)], bound.replaced(), weights)


@given(st.lists(WILD, min_size=3, max_size=3), st.lists(WILD, min_size=3, max_size=3), st.booleans())
def test_box(one, other, count):
    """Claim: box-sum"""
    check(Box(3, -0.3, 0.7, count), np.array([one]), np.array([other]))


@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6), st.floats(0, 1))
def test_box_rounding_never_leaves_the_integer_set(lo, width, place):
    """Truncating on a box without 0 would exceed the range; rounding after centring does not."""
    box = Box(1, lo, lo + width)
    assert abs(total(box, np.array([[lo + place * width]]))[0]) <= UNITS


COUNTED = [CountedBox(3, -0.3, 0.7, count=c, left_out=o) for c, o in ((True, False), (True, True), (False, True))]


@pytest.mark.parametrize("bound", COUNTED, ids=repr)
@given(st.lists(WILD, min_size=4, max_size=4), st.lists(WILD, min_size=4, max_size=4))
def test_counted_box(bound, one, other):
    """Claim: counted-sum. Shares above one, negative ones and those that are no number included."""
    check(bound, (np.array(one[:1]), np.array([one[1:]])), (np.array(other[:1]), np.array([other[1:]])))


@given(st.floats(-0.3, 0.7))
def test_a_record_that_counts_is_the_same_integers_in_a_box(value):
    counted, box = CountedBox(1, -0.3, 0.7, count=True), Box(1, -0.3, 0.7, count=True)
    for parts in (None, np.array([3])):
        assert counted.totals((np.array([True]), np.array([[value]])), parts) == box.totals(np.array([[value]]), parts)


def test_a_record_left_out_brings_nothing_but_its_count():
    counted = CountedBox(2, 0, 1, count=True, left_out=True)
    values = np.array([[1.0, 0.0], [np.nan, 7.0], [0.25, 0.25]])
    totals = counted.totals((np.array([True, False, True]), values))
    assert totals == [UNITS - UNITS // 2, -UNITS - UNITS // 2, 2 * UNITS, UNITS]
    dropped = counted.totals((np.array([True, False]), values[:2]), np.array([0, 0]))
    assert dropped == [0, 0, 0, 0], "a row that is dropped is nobody's"


@given(
    st.lists(
        st.one_of(
            st.floats(allow_nan=True, allow_infinity=True),
            st.floats(-2, 3),
            st.sampled_from([0.0, 1.0, 0.5, math.nextafter(1.0, 2), 0.25 + 2.0**-32, 1e308, -1e308]),
        ),
        min_size=1,
        max_size=60,
    ),
    st.integers(1, 7),
    st.booleans(),
    st.integers(1, 3),
    st.sampled_from([(0.0, 1.0), (-1e-270, 1e-270), (-1e299, 1e298), (17.0, 90.0)]),
)
def test_quick_totals_are_those_of_integer_rows(values, length, count, weight, ends):
    """To the last unit, also for infinities, NaN and values half-way between two grid points."""
    box = Box(length, *ends, count, weight)
    with np.errstate(over="ignore"):
        rows = np.resize(np.array(values), (len(values), length)) * (ends[1] if ends[1] > 2 else 1.0)
    assert box.totals(rows) == [weight * int(v) for v in box.integers(rows).sum(axis=0)]


def test_quick_totals_of_many_rows():
    """More rows than are taken at once, and more columns than that."""
    rng = np.random.default_rng(0)
    for shape in ((70_000, 3), (2, 40_000), (1, 1), (0, 4)):
        values = rng.normal(0.5, 1, shape)
        box = Box(shape[1], 0.0, 1.0)
        assert box.totals(values) == [int(v) for v in box.integers(values).sum(axis=0)]


def test_box_norms_are_attained():
    box = Box(4, 0.3001, 0.7)
    top, bottom = total(box, np.full((1, 4), 0.7)), total(box, np.full((1, 4), 0.3001))
    assert norms_of([a - b for a, b in zip(top, bottom)]) == (box.replaced().l1, box.replaced().l2_squared, box.replaced().linf)
    assert norms_of(top) == (box.added().l1, box.added().l2_squared, box.added().linf)


CELL_ROWS = st.lists(st.tuples(st.integers(-2, 5), WILD, WILD), min_size=2, max_size=2)


def cells_row(places):
    cell, weight, value = (np.array([[p[i] for p in places]], dtype=float) for i in range(3))
    return cell.astype(int), weight, value


@pytest.mark.parametrize(
    "bound", [Cells(4), Cells(4, value=0.25, count_weight=0), Cells(4, value=2.0), Cells(4, value=0.1, count_weight=0.3)]
)
@given(one=CELL_ROWS, other=CELL_ROWS)
def test_cells(bound, one, other):
    """Claim: cell-sum. Divided records, weights above one, negative weights and places outside the table included."""
    check(bound, cells_row(one), cells_row(other))


def test_cell_norms_are_attained():
    """Counts come free in L2: a value flips within one cell, or moves with its count to another; both cost 2τ."""
    both = Cells(3, value=0.5)
    a = total(both, cells_row([(0, 1.0, 0.5), (0, 0.0, 0.0)]))
    flipped = total(both, cells_row([(0, 1.0, -0.5), (0, 0.0, 0.0)]))
    moved = total(both, cells_row([(1, 1.0, 0.5), (0, 0.0, 0.0)]))
    same_cell, two_cells = ([x - y for x, y in zip(a, b)] for b in (flipped, moved))
    assert norms_of(same_cell)[1] == norms_of(two_cells)[1] == both.replaced().l2_squared == 4 * UNITS**2
    assert norms_of(two_cells)[0] == both.replaced().l1 == 4 * UNITS
    histogram = Cells(3)
    moved = [x - y for x, y in zip(total(histogram, cells_row([(0, 1, 0)])), total(histogram, cells_row([(2, 1, 0)])))]
    assert norms_of(moved) == (2 * UNITS, 2 * UNITS**2, UNITS) == tuple(vars(histogram.replaced()).values())


@given(st.lists(st.lists(WILD, min_size=3, max_size=3), min_size=2, max_size=2))
def test_ball_and_gram(rows):
    """Claims: ball-sum, gram-sum"""
    one, other = np.array([rows[0]]), np.array([rows[1]])
    check(Ball(3, 1.5), one, other)
    check(Gram(3, 1.5), one, other)


def test_ball_and_gram_norms_are_attained():
    ball = Ball(2, 3.0)
    a, b = total(ball, np.array([[3.0, 0.0]])), total(ball, np.array([[-3.0, 0.0]]))
    assert norms_of([x - y for x, y in zip(a, b)])[1] == ball.replaced().l2_squared
    gram = Gram(2, 3.0)
    a, b = total(gram, np.array([[3.0, 0.0]])), total(gram, np.array([[0.0, 3.0]]))
    assert norms_of([x - y for x, y in zip(a, b)], gram.relative)[1] == pytest.approx(gram.replaced().l2_squared)
    diagonal = total(gram, np.array([[3 / math.sqrt(2), 3 / math.sqrt(2)]]))
    assert norms_of(diagonal, gram.relative)[1] == pytest.approx(gram.added().l2_squared, rel=1e-4)


def test_a_gram_release_equals_the_matrix_product():
    rows = np.random.default_rng(0).normal(size=(500, 4)) * 0.3
    gram = Gram(4, 2.0)
    released = np.array(total(gram, rows), dtype=float) * gram.unit
    np.testing.assert_allclose(released, (rows.T @ rows)[np.triu_indices(4)], atol=500 * 2 * 2.0 * 2.0 / gram.LIMIT)


@pytest.mark.parametrize("bound", COUNTED, ids=repr)
@given(st.integers(1, 7), st.lists(st.lists(WILD, min_size=4, max_size=4), min_size=7, max_size=7))
def test_a_person_of_whom_some_rows_are_left_out_counts_as_one(bound, k, rows):
    """Claims: counted-sum, person-average. Values of a person are at most as far from the centre as what counts of the person."""
    rows, parts = np.array(rows[:k]), np.full(k, k)
    totals = bound.totals((rows[:, 0], rows[:, 1:]), parts)
    assert within(totals, bound.added())
    if bound.count:
        assert all(abs(v) <= totals[3] for v in totals[:3]) and 0 <= totals[3] <= UNITS
    if bound.count and bound.left_out:
        assert totals[3] + totals[4] == k * (UNITS // k)


@pytest.mark.parametrize("bound", [Box(2, -1, 1, True), Cells(4, value=0.5), Cells(4), Ball(2, 1.0), Gram(2, 1.0)])
@given(
    st.integers(1, 7),
    st.lists(st.tuples(WILD, WILD), min_size=7, max_size=7),
    st.lists(st.integers(-1, 4), min_size=7, max_size=7),
)
def test_a_person_with_k_rows_counts_as_one(bound, k, values, places):
    """Claim: person-average. The rows of one person together stay inside the set of a single record."""
    parts = np.full(k, k)
    values = np.array(values[:k], dtype=float)
    if isinstance(bound, Cells):
        contributions = (np.array(places[:k])[:, None], np.abs(values[:, :1]), values[:, 1:])
    else:
        contributions = values
    assert within(total(bound, contributions, parts), bound.added(), bound.relative or None)


def test_averaging_is_the_mean_of_the_rows():
    box = Box(1, 0, 1)
    averaged = total(box, np.array([[0.2], [0.4], [0.9]]), np.array([3, 3, 3]))
    assert box.centre + averaged[0] * box.unit == pytest.approx(0.5, abs=1e-8)
    assert total(box, np.array([[0.2], [0.9]]), np.array([1, 0])) == total(box, np.array([[0.2]]))


@given(st.integers(1, 50), st.integers(0, 49), st.integers(0, 2**31))
def test_totals_are_additive(rows, cut, seed):
    """Sums do not depend on how rows are batched."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(rows, 2))
    cut = min(cut, rows)
    for bound in (Box(2, -1, 1), Ball(2, 1.0), Gram(2, 1.0)):
        pieces = [total(bound, values[:cut]), total(bound, values[cut:])]
        assert total(bound, values) == [a + b for a, b in zip(*pieces)]


@pytest.mark.parametrize(
    "make",
    [
        lambda: Box(0, 0, 1),
        lambda: Box(1, 1, 1),
        lambda: Cells(0),
        lambda: Cells(2, value=0.0),
        lambda: Cells(2, None, 0),
        lambda: Ball(0, 1),
        lambda: Ball(1, 0),
        lambda: Gram(1, -1),
    ],
)
def test_empty_sets_are_refused(make):
    with pytest.raises(PlanError):
        make()


def test_cross_cells_count_records_once_per_attribute():
    """Against a loop, with rows that have no group or a value outside; persons' rows share one contribution."""
    rng = np.random.default_rng(0)
    bound = CrossCells(3, (4, 2))
    group, values = rng.integers(-1, 4, 500), [rng.integers(-1, 5, 500), rng.integers(0, 2, 500)]
    for parts in (None, rng.integers(0, 4, 500)):
        wanted = [np.zeros((3, 4), dtype=object), np.zeros((3, 2), dtype=object)]
        for i in range(500):
            weight = UNITS if parts is None else (UNITS // int(parts[i]) if parts[i] else 0)
            if 0 <= group[i] < 3 and 0 <= values[0][i] < 4:
                for table, value in zip(wanted, values):
                    table[group[i], value[i]] += weight
        totals = bound.totals((group, values), parts)
        assert totals == [int(v) for table in wanted for v in table.ravel()]
        first, second = np.array(totals[:12], dtype=object).reshape(3, 4), np.array(totals[12:], dtype=object).reshape(3, 2)
        assert (first.sum(axis=1) == second.sum(axis=1)).all()
    with pytest.raises(PlanError):
        CrossCells(0, (2,))
    with pytest.raises(PlanError):
        CrossCells(2, ())


def test_cross_cells_compiled_and_plain_agree(monkeypatch):
    pytest.importorskip("numba")
    rng = np.random.default_rng(3)
    bound = CrossCells(4, (3, 5))
    for lowest in (0, -1):  # with and without records that lie outside
        group, values = rng.integers(lowest, 4, 9000), [rng.integers(0, 3, 9000), rng.integers(lowest, 5, 9000)]
        compiled = bound.totals((group, values))
        with monkeypatch.context() as patch:
            patch.setattr(bounds.fast, "counter", lambda: None)
            assert bound.totals((group, values)) == compiled


def test_borda_constants_by_enumeration():
    """Claim: borda-ballots. Every pair of orders of up to 8 items; one of them may be the identity."""
    for items in range(2, 9):
        bound = Ballots(items)
        orders = np.array(list(itertools.permutations(range(items))))
        change = orders - np.arange(items)
        norms = bound.replaced()
        assert np.abs(change).sum(axis=1).max() * UNITS == norms.l1 == items**2 // 2 * UNITS
        assert int((change**2).sum(axis=1).max()) * UNITS**2 == norms.l2_squared
        assert np.abs(change).max() * UNITS == norms.linf
        if items <= 6:
            points = np.array([bound.totals([order]) for order in orders], dtype=object)
            assert {tuple(p) for p in points} == {
                tuple((2 * order - items + 1) * (UNITS // 2)) for order in orders.astype(object)
            }


@given(
    st.integers(2, 7).flatmap(
        lambda m: st.lists(
            st.lists(st.sampled_from([0.0, 1.0, 2.5, -1e308, math.inf, -math.inf, math.nan]), min_size=m, max_size=m),
            min_size=2,
            max_size=2,
        )
    )
)
def test_ballots_whatever_the_scores(votes):
    """Claim: borda-ballots. Ties, infinities and NaN stay within the bounds, and points add up to zero."""
    bound = Ballots(len(votes[0]))
    one, other = (np.array(bound.totals([vote]), dtype=object) for vote in votes)
    assert one.sum() == other.sum() == 0
    norms = bound.replaced()
    assert abs(one - other).sum() <= norms.l1 and ((one - other) ** 2).sum() <= norms.l2_squared
    assert abs(one - other).max() <= norms.linf
    assert bound.totals(votes) == [a + b for a, b in zip(one, other)]
    if any(math.isnan(score) for score in votes[0]):
        assert not one.any()


def test_ties_share_their_points():
    assert [v / UNITS for v in Ballots(4).totals([[3.0, 1.0, 1.0, 0.0]])] == [1.5, 0.0, 0.0, -1.5]
    assert [v / UNITS for v in Ballots(4).totals([[2.0, 2.0, 2.0, 0.0]])] == [0.5, 0.5, 0.5, -1.5]


def test_a_weight_enlarges_totals_and_norms_alike():
    plain, heavy = Box(2, 0, 1, count=True), Box(2, 0, 1, count=True, weight=3)
    values = [[0.0, 1.0], [0.25, 2.0]]
    assert heavy.totals(values) == [3 * v for v in plain.totals(values)]
    for one, three in ((plain.added(), heavy.added()), (plain.replaced(), heavy.replaced())):
        assert three == one.times(3)
    with pytest.raises(PlanError, match="weight"):
        Box(1, 0, 1, weight=0)
