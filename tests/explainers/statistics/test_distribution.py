"""Histograms, with the noise switched off, equal NumPy's; wrong requests cost nothing."""

import numpy as np
import pytest

import pellucid as pel

BUDGET = pel.Budget(epsilon=100.0)


def release(data, schema, explainer, relation="replace", budget=BUDGET, **options):
    return pel.Session(data, schema, budget=budget, neighbors=relation, **options).release(explainer, share=1)


@pytest.mark.parametrize("relation", ["replace", "add-remove"])
def test_distribution_equals_numpy(silent, people, schema, relation):
    counts = release(people, schema, pel.Distribution("age", bins=[17, 30, 60, 90]), relation)
    np.testing.assert_allclose(counts.counts, np.histogram(people["age"], [17, 30, 60, 90])[0])
    counts = release(people, schema, pel.Distribution("children"), relation)
    np.testing.assert_allclose(counts.counts, np.bincount(people["children"], minlength=7))
    counts = release(people, schema, pel.Distribution("lab", bins=5), relation)
    assert counts.x[-1] == "missing"
    assert counts.counts[-1] == pytest.approx(people["lab"].isna().sum())
    assert counts.counts.sum() == pytest.approx(len(people)) and counts.shares.sum() == pytest.approx(1)


@pytest.mark.parametrize(
    ("explainer", "words"),
    [
        (lambda: pel.Distribution("agee"), "did you mean 'age'"),
        (lambda: pel.Distribution("age", bins=[3, 2]), "increase"),
        (lambda: pel.Distribution("age", bins=True), "whole number"),
        (lambda: pel.Distribution("age", bins=0.5), "whole number"),
        (lambda: pel.Distribution("age", bins=[0, "x"]), "whole number"),
        (lambda: pel.Distribution(3), "column name"),
    ],
)
def test_wrong_requests_are_refused_before_anything_is_charged(explainer, words, people, schema):
    session = pel.Session(people, schema, budget=BUDGET)
    with pytest.raises(pel.PellucidError, match=words):
        session.release(explainer(), epsilon=1.0)
    assert session.spent == 0


def test_tables_have_a_row_per_cell(seeded, people, schema):
    made = release(people, schema, pel.Distribution(["children", "lab"], bins=4))
    frame = made.to_frame()
    assert list(frame) == ["feature", "x", "value", "lower", "upper", "uncounted", "uncounted lower", "uncounted upper"]
    assert frame["feature"].tolist() == ["children"] * 4 + ["lab"] * 5 and frame["x"].iloc[-1] == "missing"
    np.testing.assert_array_equal(frame["value"], [*made["children"].counts, *made["lab"].counts])
    np.testing.assert_allclose(frame["upper"] - frame["value"], made["lab"].law.half_width(0.95))


def test_the_plan_knows_cells_and_noise(people, schema):
    plan = pel.Session(people, schema, budget=BUDGET).plan(pel.Distribution(["sex", "school"]), epsilon=1.0)
    assert [bins.cells for bins in plan.details.values()] == [2, 4]
    # One replaced record moves no count by more than one; over six cells, and one of each column for records that are left out,
    # the noise of the largest change is the smaller one.
    noise = plan["counts"].noise
    assert (noise.kind, noise.size) == ("k-norm", 8) and noise.scale == pytest.approx(1.0)
