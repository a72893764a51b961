"""Compiled loops and their NumPy versions give the same integers, whatever they are given."""

import math
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pellucid.explainers.local.bound import Moments
from pellucid.query import compiled
from pellucid.query.bound import UNITS
from pellucid.query.bounds import Ball, Box, Cells, CountedBox, Gram

loops = pytest.importorskip("pellucid.query.loops")

ENDS = [(0.0, 1.0), (-0.3, 0.7), (17.0, 90.0), (-1e-270, 1e-270), (-1e299, 1e298)]
SPECIAL = [math.nan, math.inf, -math.inf, 0.0, -0.0, 5e-324, -2.3e-308, 1e308, -1e308, 1.7976931348623157e308]


def near(ends, bits):
    """Numbers on the clip, next to it, on the grid and half-way between two of its points."""
    lo, hi = ends
    centre, unit = (lo + hi) / 2, (hi - lo) / 2 / 2**bits
    points = [lo, hi, math.nextafter(lo, -math.inf), math.nextafter(hi, math.inf), math.nextafter(hi, lo), centre]
    return points + [centre + unit * steps for steps in (0.5, -0.5, 1.5, 2.5, 7, 1e6 + 0.5, 2**bits - 0.5, 2**bits + 0.5)]


def numbers(ends, bits):
    lo, hi = ends
    return st.one_of(st.sampled_from(SPECIAL + near(ends, bits)), st.floats(), st.floats(lo, hi))


def tables(ends, columns, bits=30):
    return st.lists(st.lists(numbers(ends, bits), min_size=columns, max_size=columns), min_size=1, max_size=12).map(np.array)


def both(bound, contributions, parts, monkeypatch):
    """The totals by NumPy and by the compiled loops."""
    found = []
    with np.errstate(all="ignore"):
        for loaded in (None, loops):
            monkeypatch.setattr(compiled, "loops", lambda work, loaded=loaded: loaded)
            found.append(bound.totals(contributions, parts))
    assert all(type(v) is int for totals in found for v in totals) and len(found[1]) == bound.size
    return found


def parts_for(rows, data):
    """None, or how many rows the person of each row has; 0 for a row that was dropped."""
    some = st.sampled_from([0, 1, 1, 2, 3, 7, 1000, 2**31, 2**40])
    return data.draw(st.none() | st.lists(some, min_size=rows, max_size=rows).map(np.array))


@pytest.fixture
def patch():
    with pytest.MonkeyPatch.context() as found:
        yield found


@pytest.mark.parametrize("ends", ENDS)
@given(data=st.data())
def test_boxes(ends, data):
    with pytest.MonkeyPatch.context() as patch:
        values = data.draw(tables(ends, 3))
        parts = parts_for(len(values), data)
        plain, quick = both(Box(3, *ends, data.draw(st.booleans()), data.draw(st.integers(1, 3))), values, parts, patch)
        assert plain == quick


@pytest.mark.parametrize("ends", ENDS)
@given(data=st.data())
def test_counted_boxes(ends, data):
    with pytest.MonkeyPatch.context() as patch:
        values = data.draw(tables(ends, 3))
        shares = st.sampled_from([0.0, 0.5, 1.0, 1.0, 2.0**-31, 1 / 3, -1.0, 7.0, math.nan, math.inf, -math.inf, 5e-324])
        share = np.array(data.draw(st.lists(shares, min_size=len(values), max_size=len(values))))
        bound = CountedBox(3, *ends, data.draw(st.booleans()), 2, left_out=data.draw(st.booleans()))
        plain, quick = both(bound, (share, values), parts_for(len(values), data), patch)
        assert plain == quick


BY_CELL = [
    Cells(4),
    Cells(4, value=0.25, count_weight=0),
    Cells(4, value=2.0),
    Cells(4, value=1e-3, count_weight=0.3),
    Cells(3, 1.0, 4),
]


@pytest.mark.parametrize("bound", BY_CELL, ids=repr)
@given(data=st.data())
def test_cells(bound, data):
    with pytest.MonkeyPatch.context() as patch:
        radius = bound.value or 1.0
        values = data.draw(tables((-radius, radius), 2))
        kind = data.draw(st.sampled_from([np.int64, np.int8, np.uint64, float]))
        places = st.integers(0, 6) if kind is np.uint64 else st.integers(-2, 6)
        cell = np.array([[data.draw(places) for _ in range(2)] for _ in values], dtype=kind)
        weights = st.sampled_from([0.0, 0.25, 0.5, 1.0, 1.0, 1 / 3, -0.5, 3.0, 2.0**-31, math.nan, math.inf, -math.inf])
        weight = data.draw(st.none() | st.just(np.array([[data.draw(weights) for _ in range(2)] for _ in values])))
        plain, quick = both(bound, (cell, weight, values), parts_for(len(values), data), patch)
        assert plain == quick


@given(data=st.data())
def test_balls(data):
    with pytest.MonkeyPatch.context() as patch:
        radius = data.draw(st.sampled_from([1.0, 3.0, 1e-200, 1e200]))
        values = data.draw(tables((-radius, radius), 4, bits=26))
        parts = parts_for(len(values), data)
        for bound in (Ball(4, radius), Gram(4, radius)):
            plain, quick = both(bound, values, parts, patch)
            assert plain == quick, bound


@given(data=st.data())
def test_moments(data):
    with pytest.MonkeyPatch.context() as patch:
        limits = data.draw(st.sampled_from([(1.0, 1.0, 1.0), (0.1, 1.0, 2.0), (3.0, 0.5, 0.25), (1e-9, 1e-3, 1.0)]))
        bound = Moments(3, *limits)
        values = data.draw(tables((-max(limits), max(limits)), 4, bits=15))
        plain, quick = both(bound, values, parts_for(len(values), data), patch)
        assert plain == quick


def test_many_rows_of_every_bound(patch):
    """More than a block of floats, and shapes that are shrunk for real."""
    rng = np.random.default_rng(3)
    values = rng.normal(0.3, 1, (20_000, 5))
    parts = rng.integers(0, 4, len(values))
    cell = rng.integers(-1, 4, values.shape)
    for bound, made in [
        (Box(5, 0, 1, True), values),
        (Box(5, 0, 1, True), np.asfortranarray(values)),
        (Box(5, 0, 1, True), np.broadcast_to(values[:1], values.shape)),
        (CountedBox(5, 0, 1, left_out=True), (rng.choice([0.0, 0.5, 1.0], len(values)), values)),
        (Cells(3, value=1.0), (cell, np.abs(values), values)),
        (Ball(5, 1.0), values),
        (Gram(5, 1.0), values),
        (Moments(4, 1.0, 1.0, 1.0), values),
    ]:
        for given_parts in (None, parts):
            plain, quick = both(bound, made, given_parts, patch)
            assert plain == quick, bound


def test_sums_of_floats_never_reach_what_floats_cannot_hold():
    assert loops.BLOCK * UNITS < 2**53
    box = Box(1, 0.0, 1.0)
    rows = loops.BLOCK + 17
    assert loops.box(np.ones((rows, 1)), box.centre, box.unit, float(UNITS)).tolist() == [rows * UNITS]


def test_a_loop_that_forgets_to_clip_is_told_from_numpy(patch):
    """What the other tests compare: without clipping, a number outside makes the difference."""
    patch.setattr(loops, "on_grid", lambda number, limit: float(np.rint(number)))
    forgetful = loops.box.py_func(np.array([[2.0]]), 0.5, 0.5 / UNITS, float(UNITS)).tolist()
    assert forgetful != Box(1, 0, 1).totals(np.array([[2.0]])) == [UNITS]


def test_numba_is_loaded_when_that_pays(patch):
    """Not for a few numbers; results are the same either way."""
    patch.setattr(compiled, "_bounded", 0)
    patch.delitem(sys.modules, "numba")
    assert compiled.loops(1000) is None
    assert compiled.loops(compiled.LOADING) is loops
    patch.setitem(sys.modules, "numba", object())
    assert compiled.loops(1) is loops


def test_without_numba_there_are_no_loops(patch):
    patch.setattr(compiled.importlib, "import_module", lambda *_: (_ for _ in ()).throw(ImportError()))
    assert compiled._loaded.__wrapped__() is None
