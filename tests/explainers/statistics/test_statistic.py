"""Statistics of formulas: their ranges are searched for once, by what is public; tables of what was released."""

import dataclasses

import numpy as np
import pytest

import pellucid as pel
from pellucid.explainers.statistics import formulas

FORMULA = "a**2 + exp(2*b - a)"


def schema(top=3.0):
    return pel.Schema({"a": pel.Number(1, 2), "b": pel.Number(0.5, top)})


def session(declared, **options):
    people = {"a": np.linspace(1, 2, 500), "b": np.linspace(0.5, 3, 500)}
    return pel.Session(people, declared, budget=pel.Budget(epsilon=100.0), **options)


@pytest.fixture
def searches():
    """How many searches there have been since."""
    formulas._searched.cache_clear()
    yield lambda: formulas._searched.cache_info().misses
    formulas._searched.cache_clear()


def test_a_range_is_searched_once_for_a_price_a_preview_and_a_release(searches):
    account, explainer = session(schema()), pel.Statistic(FORMULA)
    price = account.cost_for(explainer, error=1.0)
    assert account.preview(explainer, epsilon=price).largest_error <= 1.0
    account.release(explainer, epsilon=price)
    account.release(pel.Statistic(FORMULA, "sum"), epsilon=1.0)
    assert searches() == 1


def test_other_ranges_and_other_formulas_are_searched_again(searches):
    wide, narrow = (session(schema(top)).plan(pel.Statistic(FORMULA), epsilon=1.0).details for top in (3.0, 2.0))
    assert searches() == 2 and narrow.radius[0] < wide.radius[0] / 2
    named = pel.Schema({"E": pel.Number(0, 1), "a": pel.Number(1, 2)})
    made = [
        pel.Session({"E": [0.5], "a": [1.5]}, named, budget=pel.Budget(epsilon=1.0)).plan(pel.Statistic(f), epsilon=1.0).details
        for f in ("a*E", "a*exp(1) + 0*E")
    ]
    assert searches() == 4 and made[0].radius != made[1].radius


def test_a_source_or_the_relation_do_not_change_a_range(searches):
    named = pel.Schema({"a": pel.Number(1, 2, source="form 12"), "b": pel.Number(0.5, 3)})
    account = session(named, neighbors="add-remove", expected_rows=500)
    moved, symmetric = (account.plan(pel.Statistic(FORMULA, kind), epsilon=1.0).details for kind in ("mean", "sum"))
    assert session(schema()).plan(pel.Statistic(FORMULA), epsilon=1.0).details == moved and searches() == 1
    assert symmetric.centre == (0.0,) and symmetric.radius[0] == pytest.approx(moved.centre[0] + moved.radius[0])


@pytest.mark.parametrize("explainer", [pel.Statistic(FORMULA), pel.AttributeShares(FORMULA)], ids=lambda e: type(e).__name__)
def test_nothing_is_kept_in_the_explainer(explainer):
    account = session(schema())
    account.preview(explainer, epsilon=1.0)
    account.release(explainer, epsilon=1.0)
    assert set(vars(explainer)) == {field.name for field in dataclasses.fields(explainer)}


def test_tables_have_a_row_per_output(seeded):
    made = session(schema()).release(pel.Statistic([FORMULA, "a*b"], "sum"), epsilon=1.0)
    frame = made.to_frame()
    uncounted = ["uncounted", "uncounted lower", "uncounted upper"]
    assert list(frame) == ["feature", "value", "lower", "upper", "aggregate", *uncounted]
    assert frame["feature"].tolist() == list(made.features) and set(frame["aggregate"]) == {"sum"}
    np.testing.assert_array_equal(frame["value"], made.values)
    shares = session(schema()).release(pel.AttributeShares(FORMULA), epsilon=1.0).to_frame()
    assert list(shares) == ["feature", "x", "value", "lower", "upper", *uncounted] and shares["x"].tolist() == ["a", "b"]


@pytest.mark.parametrize("formula", ["education-num", "age + education-num"])
def test_a_column_that_a_formula_would_calculate_is_to_be_renamed(formula):
    schema = pel.Schema({"education-num": pel.Number(0, 20), "age": pel.Number(0, 99)})
    session = pel.Session({name: [1.0] * 100 for name in schema}, schema, budget=pel.Budget(epsilon=1.0))
    with pytest.raises(pel.SchemaError, match=r"cannot name 'education-num'.*to 'education_num'"):
        session.preview(pel.Statistic(formula), epsilon=0.1)
    with pytest.raises(pel.PlanError, match="plain words: rename"):
        pel.Statistic("hours per week")


def test_one_output_is_compared_with_no_other_and_its_level_is_checked():
    session = pel.Session({"age": [30.0] * 100}, pel.Schema({"age": pel.Number(0, 99)}), budget=pel.Budget(epsilon=1.0))
    said = str(session.preview(pel.Statistic("age"), epsilon=0.5))
    assert "one output, within ±" in said and "told apart" not in said
    assert "2 outputs, each within ±" in (two := str(session.preview(pel.Statistic(["age", "2*age"]), epsilon=0.5)))
    assert "told apart" in two
    for aggregate in ("mean", "sum"):
        result = session.release(pel.Statistic("age", aggregate=aggregate), epsilon=0.5)
        with pytest.raises(pel.PlanError, match="level=90: give a probability"):
            result.interval(90)
