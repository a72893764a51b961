"""The suite itself: every claimed supremum is attained at its point, and 120,000 random points never beat it."""

import mpmath
import numpy as np
import pytest
import sympy
from suite import SUITE


def test_thirty_functions_of_which_at_least_ten_have_five_to_eight_variables():
    assert len(SUITE) == 30
    assert sum(5 <= len(known.box) <= 8 for known in SUITE) >= 10
    assert len({known.name for known in SUITE}) == 30


@pytest.mark.parametrize("known", SUITE, ids=lambda known: known.name)
def test_the_supremum_is_attained_at_its_point(known):
    expression = sympy.sympify(known.formula, rational=True)
    assert {str(s) for s in expression.free_symbols} == set(known.box)
    point = {name: sympy.sympify(text, rational=True) for name, text in known.at.items()}
    for name, (lo, hi) in known.box.items():
        assert lo <= point[name] <= hi
    with mpmath.workdps(40):
        value = mpmath.mpf(sympy.N(expression.subs(point), 40))
        assert abs(value - known.truth) <= mpmath.mpf(10) ** -24 * abs(known.truth)


@pytest.mark.parametrize("known", SUITE, ids=lambda known: known.name)
def test_no_random_point_is_larger(known):
    names = list(known.box)
    evaluate = sympy.lambdify(names, sympy.sympify(known.formula, rational=True), "numpy")
    rng = np.random.default_rng(5)
    points = [rng.uniform(lo, hi, 100_000) for lo, hi in known.box.values()]
    corners = [rng.choice([lo, hi], 20_000) for lo, hi in known.box.values()]
    with np.errstate(all="ignore"):
        best = max(np.max(evaluate(*points)), np.max(evaluate(*corners)))
    assert best <= float(known.truth) * (1 + 1e-12 * np.sign(float(known.truth)))
