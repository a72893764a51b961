"""Partial dependence, with the noise switched off, equals scikit-learn; wrong requests cost nothing."""

import numpy as np
import pytest
from people import make_people, risk
from sklearn.ensemble import RandomForestClassifier
from sklearn.inspection import partial_dependence
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import pellucid as pel

BUDGET = pel.Budget(epsilon=100.0)


def release(data, schema, explainer, relation="replace", budget=BUDGET, **options):
    return pel.Session(data, schema, budget=budget, neighbors=relation, **options).release(explainer, share=1)


def fitted_pipeline(people, schema):
    from sklearn.compose import make_column_transformer

    frame, target = people.drop(columns="lab"), risk(people) > 0.5
    encode = make_column_transformer((OneHotEncoder(categories=[["F", "M"], list(schema["school"].values)]), ["sex", "school"]),
                                     remainder="passthrough")  # fmt: skip
    return frame, make_pipeline(encode, LogisticRegression(max_iter=2000)).fit(frame, target)


@pytest.mark.parametrize("relation", ["replace", "add-remove"])
def test_partial_dependence_equals_scikit_learn(silent, people, schema, relation):
    frame, pipeline = fitted_pipeline(people, schema)
    model = pel.Model(pipeline, trained_on="this data")
    floats = frame.astype({"age": float, "children": float})
    for name, values in (
        ("age", [20, 40, 60, 80]),
        ("bmi", [15.0, 33.3]),
        ("sex", ["F", "M"]),
        ("school", list(schema["school"].values)),
    ):
        ours = release(people, schema, pel.PartialDependence(model, name, points=values), relation)
        theirs = partial_dependence(pipeline, floats, [name], method="brute", kind="average", custom_values={name: values})
        np.testing.assert_allclose(ours.as_released().y, theirs["average"][0], atol=2e-9)
        assert ours.x == tuple(values)


def test_partial_dependence_of_a_forest(silent, people, schema):
    numeric = people[["age", "children", "bmi"]]
    forest = RandomForestClassifier(10, max_depth=6, random_state=0).fit(numeric.to_numpy(float), risk(people) > 0.5)
    model = pel.Model(forest, features=["age", "children", "bmi"], trained_on="this data")
    ours = release(people, schema, pel.PartialDependence(model, "children"))
    theirs = partial_dependence(
        forest, numeric.to_numpy(float), [1], method="brute", kind="average", custom_values={1: np.arange(7.0)}
    )
    np.testing.assert_allclose(ours.as_released().y, theirs["average"][0], atol=2e-9)


def test_several_curves_are_one_release(silent, people, schema, model):
    together = release(people, schema, pel.PartialDependence(model, ["children", "sex"]))
    for name in ("children", "sex"):
        alone = release(people, schema, pel.PartialDependence(model, name))
        np.testing.assert_allclose(together.curves[name].as_released().y, alone.as_released().y, atol=1e-8)
    values = release(people, schema, pel.PartialDependence(model, ["children", "sex"], method="values"))
    assert len(values.certificate.charges) == 1


def test_smoothing_is_off_by_default_and_says_so_when_on(seeded, people, schema, model):
    plain = release(people, schema, pel.PartialDependence(model, "age"), budget=pel.Budget(epsilon=0.05))
    smooth = release(people, schema, pel.PartialDependence(model, "age", smooth=2), budget=pel.Budget(epsilon=0.05))
    assert not plain.smoothed and smooth.smoothed
    assert np.abs(np.diff(smooth.y)).mean() < np.abs(np.diff(plain.y)).mean()


@pytest.mark.parametrize(
    ("explainer", "words"),
    [
        (lambda m: pel.PartialDependence(m, "agee"), "does not use 'agee'"),
        (lambda m: pel.PartialDependence(m, []), "column name"),
        (lambda m: pel.PartialDependence(m, 3), "column name"),
        (lambda m: pel.PartialDependence(m, ["age", "age"]), "named twice"),
        (lambda m: pel.PartialDependence(m, "age", points=1), "whole number"),
        (lambda m: pel.PartialDependence(m, "age", points=0.5), "whole number"),
        (lambda m: pel.PartialDependence(m, "age", points="10"), "whole number, or a list"),
        (lambda m: pel.PartialDependence(m, "age", points=[]), "at least one value"),
        (lambda m: pel.PartialDependence(m, ["age", "bmi"], points=[1, 2]), "single feature"),
        (lambda m: pel.PartialDependence(m, "sex", points=["F", "Q"]), "not one of the declared"),
        (lambda m: pel.PartialDependence(m, "age", points=[5]), "outside the declared bounds"),
    ],
)
def test_wrong_requests_are_refused_before_anything_is_charged(explainer, words, people, schema, model):
    session = pel.Session(people, schema, budget=BUDGET)
    with pytest.raises(pel.PellucidError, match=words):
        session.release(explainer(model), epsilon=1.0)
    assert session.spent == 0


def test_a_missing_cell_does_not_change_the_type_of_a_column():
    seen = set()

    def typed(d):
        seen.add(str(d["a"].dtype))
        return np.zeros(len(d))

    declared = pel.Schema({"a": pel.Number(0, 9, integer=True, missing=float("nan"))})
    model = pel.Model(typed, output=(0, 1), features=["a"], trained_on="other data")
    for cells in ([1, 2, 3], [1, None, 3]):
        release({"a": cells}, declared, pel.PartialDependence(model, "a"))
    assert seen == {"float64"}


def test_points_of_numpy_are_the_same_request(schema, model):
    account = pel.Session(make_people(60), schema, budget=BUDGET, neighbors="replace")
    first = account.release(pel.PartialDependence(model, "age", points=[20, 40]), epsilon=1.0)
    assert account.release(pel.PartialDependence(model, "age", points=np.array([20, 40])), epsilon=1.0).x == first.x == (20, 40)
    assert float(account.spent) == 1.0


def test_a_picture_of_several_curves_says_what_it_cost(people, schema, model):
    made = pel.Session(people, schema, budget=pel.Budget(1.0)).release(
        pel.PartialDependence(model, ["age", "sex"], points=4), epsilon=0.5
    )
    titles = [ax.get_title(loc="right") for ax in made.plot()]
    assert titles == ["", "ε = 0.5 · proved for row-wise models"]
