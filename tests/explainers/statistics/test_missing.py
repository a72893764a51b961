"""Cells that are missing, unreadable or not a declared value are nobody's value, unless the schema says what stands for them."""

import re

import numpy as np
import pytest

import pellucid as pel

SALARIES = {"salary": [50_000.0] * 2000 + [None] * 6000}


def opened(data, neighbors="replace", **columns):
    return pel.Session(data, pel.Schema(columns), budget=pel.Budget(epsilon=8.0), neighbors=neighbors, expected_rows=8000)


@pytest.mark.parametrize("neighbors", ["replace", "add-remove"])
def test_the_mean_is_that_of_the_salaries_there_are(neighbors):
    session = opened(SALARIES, neighbors, salary=pel.Number(0, 200_000))
    mean = session.release(pel.Statistic("salary"), epsilon=1.0)
    lower, upper = mean.interval(0.999)
    assert lower[0] < 50_000 < upper[0] and upper[0] - lower[0] < 5_000
    assert mean.uncounted.share == pytest.approx(0.75, abs=0.01)
    assert re.fullmatch(
        r"About 7\d\.\d % of `salary` was missing or unreadable \(±0\.\d %\) and is not counted\.", mean.uncounted.sentence
    )


def test_decimal_commas_are_no_constant():
    session = opened({"bmi": ["27,3", "31,0"] * 500 + ["20.5"] * 1000}, bmi=pel.Number(10, 60))
    mean = session.release(pel.Statistic("bmi"), epsilon=2.0)
    assert abs(mean.values[0] - 20.5) < 0.5 and mean.uncounted.share == pytest.approx(0.5, abs=0.02)


def test_a_misspelt_category_is_not_the_first_one():
    session = opened({"sex": ["m"] * 900 + ["F"] * 100}, sex=pel.Category(["F", "M"]))
    counts = session.release(pel.Distribution("sex"), epsilon=2.0)
    assert np.abs(counts.counts - [100, 0]).max() < 20
    assert counts.uncounted.count == pytest.approx(900, abs=20)
    assert "% of `sex` was missing or not a declared value" in counts.uncounted.sentence


def test_what_is_declared_is_counted_as_before(silent):
    session = opened(SALARIES, salary=pel.Number(0, 200_000, missing=100_000))
    mean = session.release(pel.Statistic("salary"), epsilon=1.0)
    assert mean.values[0] == pytest.approx(87_500) and mean.uncounted is None
