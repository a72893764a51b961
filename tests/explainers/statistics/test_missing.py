"""Cells that are missing, unreadable or not a declared value are nobody's value, unless the schema says what stands for them."""

import re

import numpy as np
import pytest

import pellucid as pel
from pellucid.release.request import request_of

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


RELATIONS = ["replace", "add-remove"]
TABLE = {"kg": [80.0, None, 60.0, "70,5", 250.0, "?"] * 100, "cm": [180.0, 170.0, None, 160.0, 200.0, 150.0] * 100}
KG_AND_CM = {"kg": pel.Number(30, 200), "cm": pel.Number(100, 220)}
KNOWN = np.array([[80.0, 180.0], [200.0, 200.0]])  # of every six; 250 kg are moved to the bound


@pytest.mark.parametrize("neighbors", RELATIONS)
def test_without_noise_statistics_are_those_of_complete_records(silent, neighbors):
    session = opened(TABLE, neighbors, **KG_AND_CM)
    mean = session.release(pel.Statistic(["kg", "kg*cm"]), epsilon=1.0)
    np.testing.assert_allclose(mean.values, [KNOWN[:, 0].mean(), KNOWN.prod(axis=1).mean()], rtol=1e-6)
    total = session.release(pel.Statistic(["kg", "kg*cm"], "sum"), epsilon=1.0)
    np.testing.assert_allclose(total.values, [100 * KNOWN[:, 0].sum(), 100 * KNOWN.prod(axis=1).sum()], rtol=1e-6)
    assert mean.count == pytest.approx(200) and mean.uncounted.count == pytest.approx(400) == total.uncounted.count
    assert mean.uncounted.share == pytest.approx(4 / 6) and mean.uncounted.columns == ("kg", "cm")
    shares = session.release(pel.AttributeShares("kg + 2*cm"), epsilon=1.0)
    assert shares.x == ("cm", "kg")
    np.testing.assert_allclose(shares.counts, [200 * 4 / 5, 200 / 5], rtol=1e-6)
    assert shares.uncounted.count == pytest.approx(400)


@pytest.mark.parametrize("neighbors", RELATIONS)
def test_without_noise_histograms_are_those_of_the_values_there_are(silent, neighbors):
    data = {"sex": ["F", "M", None, "m", "M", ""], "age": [20, 30, None, 200, -5, "old"]}
    session = opened(data, neighbors, sex=pel.Category(["F", "M"]), age=pel.Number(0, 99, integer=True))
    made = session.release(pel.Distribution(["sex", "age"], bins=2), epsilon=1.0)
    np.testing.assert_allclose(made["sex"].counts, [1, 2])
    np.testing.assert_allclose(made["age"].counts, [3, 1])  # out of range counts as the nearest bound
    assert [made[name].uncounted.count for name in ("sex", "age")] == pytest.approx([3, 2])
    assert [made[name].uncounted.of for name in ("sex", "age")] == pytest.approx([6, 6])
    assert len(made.notes) == 2 and made["sex"].x == ("F", "M")


@pytest.mark.parametrize("neighbors", RELATIONS)
def test_rows_of_a_person_weigh_the_same_whether_or_not_others_are_left_out(silent, neighbors):
    """Of a person with four rows, three of them without a value, a quarter counts."""
    data = {"id": [1, 1, 1, 1, 2], "x": [1.0, None, None, None, 0.0]}
    unit, schema = pel.Unit("id", max_rows=4), pel.Schema({"x": pel.Number(0, 1)})
    session = pel.Session(data, schema, pel.Budget(epsilon=2.0), neighbors, unit=unit, expected_rows=2)
    mean = session.release(pel.Statistic("x"), epsilon=1.0)
    assert mean.count == pytest.approx(1.25) and mean.values[0] == pytest.approx(0.25 / 1.25)
    assert mean.uncounted.count == pytest.approx(0.75)


@pytest.mark.parametrize("neighbors", RELATIONS)
@pytest.mark.parametrize("delta", [0.0, pytest.param(1e-6, marks=pytest.mark.slow)])
@pytest.mark.parametrize("aggregate", ["mean", "sum"])
def test_error_bars_hold_when_records_are_left_out(neighbors, delta, aggregate):
    """Three quarters are left out; both the values and the share of records left out are inside their bars as often as said."""
    exact = {"mean": 150.0, "sum": 150.0 * 500}[aggregate]
    inside, shares = [], []
    for _ in range(150):
        session = pel.Session(
            {"x": [150.0] * 500 + ["?"] * 1500}, pel.Schema({"x": pel.Number(100, 200)}),
            pel.Budget(epsilon=1.0, delta=delta), neighbors, expected_rows=2000,
        )  # fmt: skip
        made = session.release(pel.Statistic("x", aggregate), share=1)
        lower, upper = made.interval(0.9)
        inside.append(lower[0] <= exact <= upper[0])
        low, high = made.uncounted.interval(0.9)
        shares.append(low <= (1500 if np.isnan(made.uncounted.of) else 0.75) <= high)
    assert 0.8 <= np.mean(inside) <= 0.99 and 0.8 <= np.mean(shares) <= 0.99


@pytest.mark.parametrize("neighbors", RELATIONS)
def test_the_count_of_records_left_out_is_free(neighbors):
    """The noise of a mean is that of a column in which nobody can be left out."""
    sessions = [opened(SALARIES, neighbors, salary=pel.Number(0, 200_000, missing=policy)) for policy in ("exclude", 0)]
    laws = [session.plan(pel.Statistic("salary"), epsilon=1.0)["statistic"].noise for session in sessions]
    if neighbors == "replace":
        assert laws[0].scale == laws[1].scale and (laws[0].size, laws[1].size) == (2, 1)
    else:
        assert laws[0].scale <= laws[1].scale and (laws[0].size, laws[1].size) == (3, 2)


def test_nan_is_no_value_of_a_formula(silent):
    """A column declared with NaN has a cell for it in histograms; a mean can only leave it out."""
    session = opened(SALARIES, salary=pel.Number(0, 200_000, missing=float("nan")))
    mean = session.release(pel.Statistic("salary"), epsilon=1.0)
    assert mean.values[0] == pytest.approx(50_000) and mean.uncounted.share == pytest.approx(0.75)
    counts = session.release(pel.Distribution("salary", bins=2), epsilon=1.0)
    assert counts.x[-1] == "missing" and counts.counts[-1] == pytest.approx(6000) and counts.uncounted is None


def test_a_category_of_its_own(silent):
    sex = pel.Category(["F", "M", "unknown"], missing="unknown")
    counts = opened({"sex": ["F", "m", None, "M"]}, sex=sex).release(pel.Distribution("sex"), epsilon=1.0)
    np.testing.assert_allclose(counts.counts, [1, 1, 2])
    assert counts.uncounted is None
    mixed = pel.Category(["F", "M"], missing="F", unknown="exclude")
    counts = opened({"sex": ["F", "m", None, "M"]}, sex=mixed).release(pel.Distribution("sex"), epsilon=1.0)
    np.testing.assert_allclose(counts.counts, [2, 1])
    assert counts.uncounted.count == pytest.approx(1)


@pytest.mark.parametrize("neighbors", RELATIONS)
def test_what_is_left_out_is_said_everywhere(neighbors, tmp_path):
    made = opened(SALARIES, neighbors, salary=pel.Number(0, 200_000)).release(pel.Statistic("salary", "sum"), epsilon=1.0)
    made.save(tmp_path / "made.json")
    again = pel.load(tmp_path / "made.json")
    assert again.uncounted == made.uncounted or np.isnan(made.uncounted.of)
    assert again.notes == made.notes == (made.uncounted.sentence,) and made.notes[0] in made._repr_html_()
    printed = str(made).splitlines()
    assert printed[0].split()[:3] == ["feature", "value", "lower"] and printed[-2:] == [made.notes[0], "ε = 1, δ = 0; proved"]
    frame = made.to_frame()
    low, high = frame["uncounted lower"][0], frame["uncounted upper"][0]
    assert low <= frame["uncounted"][0] <= high and made.uncounted.interval() == (low, high)
    texts = [text.get_text() for text in made.plot().texts]
    assert texts == [made.uncounted.note] and "not counted: salary missing or unreadable" in texts[0]
    assert made.certificate.cells == {
        "salary": "a record whose cell is missing or unreadable is not counted; a value outside [0, 200000] counts as the "
        "nearest bound"
    }
    assert "cells that are not as declared" in made.certificate.text and "not counted" in made.certificate.html


def test_few_records_left_out_are_told_as_at_most():
    made = opened({"salary": [50_000.0] * 8000}, salary=pel.Number(0, 200_000)).release(pel.Statistic("salary"), epsilon=0.2)
    uncounted = pel.Uncounted(("salary",), "missing", -3.0, 8000.0, made.uncounted.law, 0)
    assert uncounted.sentence.startswith("At most about 0.") and uncounted.share == 0 and uncounted.interval()[0] == 0


@pytest.mark.parametrize("neighbors", RELATIONS)
def test_models_are_given_a_value_and_the_certificate_says_which(neighbors):
    seen = []

    def model(d):
        seen.append(d["salary"].isna().any() or (d["sex"] == "?").any())
        return d["salary"] / 200_000

    columns = {"salary": pel.Number(0, 200_000), "sex": pel.Category(["F", "M"])}
    session = opened({**SALARIES, "sex": ["M", "?"] * 4000}, neighbors, **columns)
    wrapped = pel.Model(model, output=(0, 1), features=["salary", "sex"], trained_on="other data")
    made = session.release(pel.PartialDependence(wrapped, "sex"), epsilon=1.0)
    assert not any(seen) and made.uncounted is None
    assert "counts as 100000, the middle of the range: no value is declared" in made.certificate.cells["salary"]
    assert "not declared counts as 'F', the first value: no other is declared" in made.certificate.cells["sex"]


def test_a_release_that_counts_is_not_taken_for_one_that_leaves_out():
    """An earlier version counted NaN as the middle of a formula's range: its release is not handed on for one that does not."""
    session = opened(SALARIES, salary=pel.Number(0, 200_000, missing=float("nan")))
    statistic, histogram = pel.Statistic("salary"), pel.Distribution("salary")
    texts = [request_of(e, session.plan(e, epsilon=1.0).public).text for e in (statistic, histogram)]
    assert '"left out": ["salary"]' in texts[0] and "left out" not in texts[1]
