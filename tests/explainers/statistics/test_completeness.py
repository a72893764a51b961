"""Shares of cells that are missing, unreadable, not declared or out of range: exact without noise, honest bars with it."""

import math

import numpy as np
import pytest

import pellucid as pel
from pellucid.query import Joint, Sum
from pellucid.query.bound import UNITS
from pellucid.query.bounds import Box, Cells

DATA = {
    "salary": [50_000.0, None, None, "27,3", 300_000.0, "", "nan", -1.0] * 500,
    "sex": ["F", "M", "m", None, "M", "F", "", "F"] * 500,
    "done": [True, None, False, True, True, True, True, True] * 500,
}
SCHEMA = pel.Schema({"salary": pel.Number(0, 200_000), "sex": pel.Category(["F", "M"]), "done": pel.Boolean(missing=False)})
EXACT = {
    ("salary", "missing"): 4 / 8,
    ("salary", "unreadable"): 1 / 8,
    ("salary", "out of range"): 2 / 8,
    ("sex", "missing"): 1 / 8,
    ("sex", "not declared"): 2 / 8,
    ("done", "missing"): 1 / 8,
    ("done", "not declared"): 0.0,
}


def released(explainer=None, neighbors="replace", delta=0.0, epsilon=1.0, **options):
    session = pel.Session(DATA, SCHEMA, pel.Budget(epsilon=epsilon, delta=delta), neighbors, expected_rows=4000, **options)
    return session.release(explainer or pel.Completeness(), share=1)


@pytest.mark.parametrize("neighbors", ["replace", "add-remove"])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_without_noise_shares_are_exact_whatever_the_policy(silent, neighbors, delta):
    made = released(neighbors=neighbors, delta=delta)
    assert {(f, c): pytest.approx(made.share(f, c), abs=1e-6) for f, c in EXACT} == EXACT
    assert list(zip(made.features, made.conditions)) == list(EXACT)
    one = released(pel.Completeness("sex"), neighbors, delta)
    np.testing.assert_allclose(one.shares, [1 / 8, 2 / 8], atol=1e-6)


@pytest.mark.parametrize("neighbors", ["replace", "add-remove"])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_error_bars_hold(neighbors, delta):
    exact = np.array(list(EXACT.values()))
    inside = []
    for _ in range(60):
        made = released(neighbors=neighbors, delta=delta, epsilon=0.3)
        half = made._half_widths(0.9)
        inside.append(np.abs(made.shares - exact) <= half)
        lower, upper = made.interval(0.9)
        assert (lower >= 0).all() and (lower <= upper).all() and (upper <= 1).all()
    assert 0.85 <= np.mean(inside) <= 0.95


def test_the_person_is_the_unit(silent):
    data = {"id": [1, 1, 2, 3], "x": [None, 5.0, 5.0, None]}
    session = pel.Session(data, pel.Schema({"x": pel.Number(0, 9)}), pel.Budget(epsilon=1.0), unit=pel.Unit("id", max_rows=2))
    assert session.release(pel.Completeness(), epsilon=1.0).share("x", "missing") == pytest.approx(1.5 / 3)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_no_other_bound_has_less_noise(delta):
    """Under replace histograms move less than a box in every norm; under add-remove a centred box is better than they."""
    sizes = [len(SCHEMA[name].conditions) for name in SCHEMA]
    as_cells = [Sum(len, Cells(size)) for size in sizes]
    as_box = Sum(len, Box(sum(sizes), 0.0, 1.0))
    for neighbors in ("replace", "add-remove"):
        budget = pel.Budget(epsilon=1.0, delta=delta, accounting="zcdp" if delta else "pure")
        session = pel.Session(DATA, SCHEMA, budget, neighbors, expected_rows=4000)
        plan = session.plan(pel.Completeness(), share=1)
        own = session.preview(pel.Completeness(), share=1).largest_error
        if neighbors == "replace":
            other = plan.public.mechanism(as_box).law.times(0.5 / UNITS).half_width(0.95) / 4000
            assert own == pytest.approx(other) if not delta else own < 0.95 * other
        elif not delta:
            counted = plan.public.mechanism(Joint([*as_cells, Sum(len, Cells(1))])).law.times(1 / UNITS)
            assert own * math.sqrt(2) < counted.half_width(0.95) / 4000


def test_sentences(seeded):
    made = released(epsilon=20.0)
    assert made.sentences[0].startswith("About 50") and "% of `salary` was missing, ±" in made.sentences[0]
    assert made.sentences[0].index("missing") < made.sentences[0].index("out of range") < made.sentences[0].index("unreadable")
    assert made.text == "\n".join(made.sentences) and len(made.sentences) == 3
    clean = pel.Session({"x": [1.0] * 4000}, pel.Schema({"x": pel.Number(0, 9)}), pel.Budget(epsilon=1.0))
    said = clean.release(pel.Completeness(), epsilon=0.05).text
    assert said.startswith("`x`: nothing above the noise (each of missing, unreadable and out of range is less than about ")


def test_nothing_a_cell_says_is_released():
    text = released().to_json()
    assert "27,3" not in text and "300000" not in text and "300_000" not in text


def test_wrong_requests():
    with pytest.raises(pel.SchemaError, match="did you mean 'salary'"):
        released(pel.Completeness("salry"))
    with pytest.raises(pel.PlanError, match="named twice"):
        pel.Completeness(["sex", "sex"])
    made = released(pel.Completeness(["sex"]))
    with pytest.raises(pel.PlanError, match="there are 'sex'"):
        made.share("age", "missing")
    with pytest.raises(pel.PlanError, match="there are 'missing', 'not declared'"):
        made.share("sex", "unreadable")


def test_the_table_and_the_picture():
    made = released()
    frame = made.to_frame()
    assert list(frame) == ["feature", "x", "value", "lower", "upper"] and len(frame) == 7
    ax = made.plot()
    assert [label.get_text() for label in ax.get_yticklabels()] == ["salary", "sex", "done"]
    assert "cells are counted by what is wrong with them" in made.certificate.cells["sex"]
