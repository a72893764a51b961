"""Intervals enclose: every operation, random and awkward ends, against 60-digit arithmetic."""

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pellucid.sensitivity import intervals as iv

mpmath.mp.dps = 60

ENDS = st.floats(-1e6, 1e6) | st.sampled_from([0.0, -0.0, 1.0, -1.0, 5e-324, -5e-324, 1e-160, 709.0, 1e300, -1e300, np.pi])
UNARY = {
    "exp": (iv.exp, mpmath.exp),
    "log": (iv.log, mpmath.log),
    "tanh": (iv.tanh, mpmath.tanh),
    "arctan": (iv.arctan, mpmath.atan),
    "erf": (iv.erf, mpmath.erf),
    "sin": (iv.sin, mpmath.sin),
    "cos": (iv.cos, mpmath.cos),
    "sinh": (iv.sinh, mpmath.sinh),
    "cosh": (iv.cosh, mpmath.cosh),
    "square_root": (iv.square_root, mpmath.sqrt),
    "absolute": (iv.absolute, abs),
    "times_its_log": (iv.times_its_log, lambda v: v * mpmath.log(v)),
    "reciprocal": (iv.reciprocal, lambda v: 1 / v),
    "square": (lambda a: iv.power(a, 2), lambda v: v**2),
    "cube": (lambda a: iv.power(a, 3), lambda v: v**3),
    "seventh": (lambda a: iv.power(a, 7), lambda v: v**7),
    "eighth": (lambda a: iv.power(a, 8), lambda v: v**8),
}
BINARY = {
    "add": (iv.add, lambda a, b: a + b),
    "multiply": (iv.multiply, lambda a, b: a * b),
    "maximum": (iv.maximum, max),
    "minimum": (iv.minimum, min),
}


def pair(a, b):
    return np.array([min(a, b)]), np.array([max(a, b)])


def inside(a, share):
    """A float in the interval."""
    lo, hi = float(a[0][0]), float(a[1][0])
    return float(min(max(lo + share * (hi - lo), lo), hi)) if np.isfinite(hi - lo) else (lo if share < 0.5 else hi)


def check_encloses(function, exact, arguments, points):
    with np.errstate(all="ignore"):
        lo, hi = function(*arguments)
    assert not np.isnan(lo).any() and not np.isnan(hi).any()
    try:
        value = exact(*(mpmath.mpf(p) for p in points))
    except (ZeroDivisionError, ValueError):
        return
    if isinstance(value, mpmath.mpc) or not mpmath.isfinite(value):
        return
    assert mpmath.mpf(float(lo[0])) <= value <= mpmath.mpf(float(hi[0]))


@pytest.mark.parametrize("name", UNARY)
def test_interval_functions_enclose(name):
    function, exact = UNARY[name]

    @given(ENDS, ENDS, st.sampled_from([0.0, 1.0]) | st.floats(0, 1))
    def run(a, b, share):
        box = pair(a, b)
        check_encloses(function, exact, [box], [inside(box, share)])

    run()


@pytest.mark.parametrize("name", BINARY)
def test_interval_operations_enclose(name):
    function, exact = BINARY[name]

    @given(ENDS, ENDS, ENDS, ENDS, st.sampled_from([0.0, 1.0]) | st.floats(0, 1), st.sampled_from([0.0, 1.0]) | st.floats(0, 1))
    def run(a, b, c, d, s, t):
        x, y = pair(a, b), pair(c, d)
        check_encloses(function, exact, [x, y], [inside(x, s), inside(y, t)])

    run()


def test_interval_enclosure_is_attained():
    """1/3 and exp(1) are no floats: an enclosure must have both of its neighbours, and no more than a few floats beyond."""
    third, e = iv.reciprocal(pair(3.0, 3.0)), iv.exp(pair(1.0, 1.0))
    for (lo, hi), exact in ((third, mpmath.mpf(1) / 3), (e, mpmath.e)):
        assert mpmath.mpf(float(lo[0])) < exact < mpmath.mpf(float(hi[0]))
        assert hi[0] - lo[0] <= 8 * np.spacing(hi[0])


@pytest.mark.parametrize("function", [iv.log, iv.square_root])
def test_what_is_undefined_somewhere_is_the_whole_line(function):
    lo, hi = function(pair(-1.0, 2.0))
    assert lo[0] == -np.inf and hi[0] == np.inf


def test_division_by_an_interval_around_zero_is_the_whole_line():
    lo, hi = iv.reciprocal(pair(-1.0, 2.0))
    assert lo[0] == -np.inf and hi[0] == np.inf
    assert iv.reciprocal(pair(0.0, 2.0))[1][0] == np.inf and iv.reciprocal(pair(0.0, 2.0))[0][0] >= 0


def test_a_square_is_never_negative_and_not_a_product():
    lo, hi = iv.power(pair(-1.0, 2.0), 2)
    assert lo[0] == 0 and 4 <= hi[0] < 4.0000001
    assert iv.multiply(pair(-1.0, 2.0), pair(-1.0, 2.0))[0][0] <= -2


def test_waves_know_their_crests():
    assert iv.sin(pair(0.0, 3.0))[1][0] == 1.0 and iv.cos(pair(3.0, 3.3))[0][0] == -1.0
    lo, hi = iv.sin(pair(0.1, 0.2))
    assert 0.0998 < lo[0] <= hi[0] < 0.1987
    assert (iv.sin(pair(-1e300, 1e300))[0][0], iv.sin(pair(-1e300, 1e300))[1][0]) == (-1.0, 1.0)


def test_many_boxes_at_once_are_the_boxes_one_by_one():
    rng = np.random.default_rng(2)
    lo, hi = np.sort(rng.normal(size=(2, 50)), axis=0)
    for name, (function, _) in UNARY.items():
        with np.errstate(all="ignore"):
            together = function((lo, hi))
            single = [function((lo[i : i + 1], hi[i : i + 1])) for i in range(50)]
        np.testing.assert_array_equal(together[0], np.concatenate([s[0] for s in single]), err_msg=name)
        np.testing.assert_array_equal(together[1], np.concatenate([s[1] for s in single]), err_msg=name)
