"""How a price is divided: adds up, is never worse than an even division, and is the textbook one where there is one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pellucid.reports.split import Errors, divided, in_parts, tried


def falling(scale, power=1.0, total=1.0):
    prices = tried(total)
    return Errors(prices, scale / prices**power)


def test_the_best_division_of_errors_that_fall_with_the_price_goes_by_square_roots():
    found = divided([falling(0.01), falling(0.04), falling(0.16)], 1.0)
    assert found / found.sum() == pytest.approx(np.array([1, 2, 4]) / 7, rel=0.03)


@given(st.lists(st.floats(1e-4, 1.0), min_size=1, max_size=9), st.floats(0.3, 1.0), st.floats(0.05, 20.0))
def test_no_division_is_worse_than_an_even_one(scales, power, total):
    errors = [falling(scale, power, total) for scale in scales]
    found = divided(errors, total)
    assert found.sum() == pytest.approx(total) and (found > 0).all()
    mine = sum(float(one.at(price)) for one, price in zip(errors, found))
    even = sum(float(one.at(total / len(errors))) for one in errors)
    assert mine <= even * 1.02


def test_what_cannot_be_had_below_a_price_gets_at_least_that():
    prices = tried(1.0)
    dear = Errors(prices, np.where(prices < 0.3, np.inf, 0.1))
    assert divided([dear, falling(0.01)], 1.0)[0] >= 0.29


@given(st.lists(st.floats(1e-6, 1.0), min_size=1, max_size=40))
def test_parts_of_a_thousand_never_add_up_to_more(prices):
    shares = in_parts(np.array(prices))
    assert sum(shares) == 1 and min(shares) > 0
