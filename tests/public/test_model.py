"""Models: hostile ones are refused on public records or defaulted row by row; friendly ones are called as they expect."""

import dataclasses
import gc
import sys
import weakref

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import pellucid as pel

SCHEMA = pel.Schema({"age": pel.Number(0, 100, integer=True), "bmi": pel.Number(10, 60), "sex": pel.Category(["F", "M"])})


def columns(size=50):
    return SCHEMA.sample(size, seed=3)


def model(function, **options):
    return pel.Model(function, output=(0, 1), features=["age", "bmi"], trained_on="other data", **options)


@pytest.mark.parametrize(
    "function",
    [
        lambda d: d["age"].rank() / len(d),
        lambda d: d["age"] / (d["age"].max() + 1),
        lambda d: np.full(len(d), 1 / len(d)),
        lambda d: np.arange(len(d)) / len(d),
        lambda d: (d["age"] - d["age"].mean()) / 100,
    ],
)
def test_a_model_that_looks_at_its_batch_is_refused(function):
    with pytest.raises(pel.ModelError, match="function of one row"):
        model(function).ready(SCHEMA)


def test_a_model_with_state_is_refused():
    calls = []

    def counting(d):
        calls.append(1)
        return np.full(len(d), len(calls) / 1000)

    with pytest.raises(pel.ModelError, match="asked twice"):
        model(counting).ready(SCHEMA)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda d: 1 / 0, "ZeroDivisionError"),
        (lambda d: sys.exit(3), "SystemExit"),
        (lambda d: np.full(len(d), np.nan), "NaN"),
        (lambda d: np.zeros((len(d), 2)), "one number per row"),
        (lambda d: 0.5, "one number per row"),
        (lambda d: d["nope"], "KeyError"),
    ],
)
def test_a_model_that_fails_on_public_records_is_refused(function, words):
    with pytest.raises(pel.ModelError, match=words):
        model(function).ready(SCHEMA)


def test_what_a_model_prints_is_discarded(capfd):
    def loud(d):
        print("row", d.iloc[0].tolist())
        print("row", file=sys.stderr)
        import os

        os.write(1, b"raw bytes")
        import warnings

        warnings.warn("row", stacklevel=1)
        return d["age"] / 100

    ready = model(loud).ready(SCHEMA)
    ready.predict(ready.inputs(columns()))
    out, err = capfd.readouterr()
    assert (out, err) == ("", "")


def test_a_row_that_fails_takes_the_default_alone():
    """Fails only on one value that public records do not contain, so that the trial cannot see it."""

    def picky(d):
        bmi = d["bmi"].to_numpy()
        if (bmi == 33.25).any():
            raise RuntimeError(f"cannot handle {d.iloc[0].to_dict()}")
        return bmi / 100

    ready = model(picky).ready(SCHEMA)
    data = columns(101)
    data["bmi"][17] = 33.25
    answers = ready.predict(ready.inputs(data))
    expected = data["bmi"] / 100
    expected[17] = 0.5
    np.testing.assert_array_equal(answers, expected)


def test_nan_and_infinite_answers_stay_inside_the_range():
    def wild(d):
        bmi = d["bmi"].to_numpy().copy()
        return np.where(bmi == 33.25, np.nan, np.where(bmi == 33.5, np.inf, np.where(bmi == 33.75, -1e300, bmi / 100)))

    ready = model(wild).ready(SCHEMA)
    data = columns(3)
    data["bmi"][:] = [33.25, 33.5, 33.75]
    np.testing.assert_array_equal(ready.predict(ready.inputs(data)), [0.5, 1.0, 0.0])


def test_a_model_cannot_change_the_rows_it_is_given():
    def mutating(d):
        answer = d["age"].to_numpy() / 100
        d["age"] = 0
        return answer

    ready = model(mutating).ready(SCHEMA)
    data = columns()
    before = data["age"].copy()
    inputs = ready.inputs(data)
    ready.predict(ready.with_column(inputs, "bmi", np.full(50, 20.0)))
    np.testing.assert_array_equal(ready.predict(ready.with_column(inputs, "bmi", np.full(50, 30.0))), before / 100)
    np.testing.assert_array_equal(data["age"], before)


def fit_frame(size=400):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"age": rng.integers(0, 101, size), "bmi": rng.uniform(10, 60, size), "sex": rng.choice(["F", "M"], size)}
    )
    return frame, (frame["age"] + 20 * (frame["sex"] == "M") > 60).map({True: "ill", False: "well"})


def test_pipelines_get_frames_with_declared_values():
    frame, target = fit_frame()
    from sklearn.compose import make_column_transformer

    encode = make_column_transformer((OneHotEncoder(), ["sex"]), remainder="passthrough")
    pipeline = make_pipeline(encode, LogisticRegression(max_iter=500)).fit(frame, target)
    wrapped = pel.Model(pipeline, positive="ill", trained_on="this data")
    assert wrapped.features == ("age", "bmi", "sex") and wrapped.output == (0.0, 1.0)
    ready = wrapped.ready(SCHEMA)
    data = columns()
    as_frame = pd.DataFrame({"age": data["age"], "bmi": data["bmi"], "sex": np.array(["F", "M"])[data["sex"].astype(int)]})
    ill = list(pipeline.classes_).index("ill")
    np.testing.assert_allclose(ready.predict(ready.inputs(data)), pipeline.predict_proba(as_frame)[:, ill])


def test_models_that_need_pandas_categories_get_them():
    wrapped = pel.Model(lambda d: d["sex"].cat.codes.to_numpy() * 0.5, (0, 1), ["age", "sex"], "other data")
    ready = wrapped.ready(SCHEMA)
    assert ready.input == "category frame"
    data = columns()
    np.testing.assert_array_equal(ready.predict(ready.inputs(data)), data["sex"] * 0.5)


def test_models_fitted_on_pandas_categories_answer_as_they_would():
    frame, target = fit_frame()
    frame["sex"] = frame["sex"].astype("category")
    fitted = HistGradientBoostingClassifier(categorical_features="from_dtype", max_iter=5).fit(frame, target)
    ready = pel.Model(fitted, trained_on="this data", positive="ill").ready(SCHEMA)
    data = columns()
    as_frame = pd.DataFrame(
        {"age": data["age"], "bmi": data["bmi"], "sex": pd.Categorical.from_codes(data["sex"].astype(int), ["F", "M"])}
    )
    np.testing.assert_allclose(
        ready.predict(ready.inputs(data)), fitted.predict_proba(as_frame)[:, list(fitted.classes_).index("ill")]
    )


def test_arrays_and_codes():
    frame, target = fit_frame()
    fitted = RandomForestClassifier(5, random_state=0).fit(frame[["age", "bmi"]].to_numpy(), target)
    ready = pel.Model(fitted, features=["age", "bmi"], trained_on="this data").ready(SCHEMA)
    assert ready.input == "array"
    assert pel.Model(lambda a: a[:, 2], (0, 1), ["age", "bmi", "sex"], "other data", input="codes").ready(SCHEMA).input == "codes"
    with pytest.raises(pel.ModelError, match="text values"):
        pel.Model(lambda a: a[:, 2], (0, 1), ["age", "bmi", "sex"], "other data", input="array").ready(SCHEMA)


def test_regressors_need_a_declared_range():
    fitted = LinearRegression().fit([[1.0], [2.0]], [1.0, 2.0])
    with pytest.raises(pel.ModelError, match="declare the range"):
        pel.Model(fitted, features=["bmi"], trained_on="other data")
    assert pel.Model(fitted, output=(0, 5), features=["bmi"], trained_on="other data").ready(SCHEMA).input == "array"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"output": (1, 0)}, "lower end"),
        ({"output": (0, float("inf"))}, "finite"),
        ({"trained_on": None}, "trained_on"),
        ({"trained_on": "elsewhere"}, "trained_on"),
        ({"input": "matrix"}, "input"),
        ({"features": "age"}, "list"),
        ({"positive": 1}, "classifiers"),
    ],
)
def test_wrong_declarations_say_the_fix(options, words):
    with pytest.raises(pel.ModelError, match=words):
        pel.Model(lambda d: d["age"], **({"output": (0, 1), "features": ["age"], "trained_on": "other data"} | options))


def test_an_undeclared_feature_names_the_nearest():
    with pytest.raises(pel.SchemaError, match="did you mean 'age'"):
        pel.Model(lambda d: d["agee"], (0, 1), ["agee"], "other data").ready(SCHEMA)


def test_several_classes_need_a_choice():
    fitted = RandomForestClassifier(3, random_state=0).fit([[0.0], [1.0], [2.0]] * 5, [0, 1, 2] * 5)
    with pytest.raises(pel.ModelError, match="3 classes"):
        pel.Model(fitted, features=["bmi"], trained_on="other data")
    assert pel.Model(fitted, features=["bmi"], trained_on="other data", positive=2).positive == 2


def counting(calls):
    def scored(d):
        calls.append(len(d))
        return d["age"] / 100

    return model(scored)


def test_a_model_is_tried_once_for_a_schema_object():
    calls = []
    asked = counting(calls)
    first = asked.ready(SCHEMA)
    once = len(calls)
    assert asked.ready(SCHEMA) is first and len(calls) == once
    other = pel.Schema(dict(SCHEMA))
    assert asked.ready(other).schema is other and len(calls) == 2 * once
    assert counting(calls).ready(other) is not asked.ready(other)


def test_a_trial_hides_nothing_in_the_model_and_keeps_nothing_alive():
    asked = counting([])
    ready = asked.ready(SCHEMA)
    assert vars(asked).keys() == {field.name for field in dataclasses.fields(pel.Model)}
    predictor, gone = weakref.ref(asked.predictor), weakref.ref(asked)
    np.testing.assert_array_equal(ready.predict(ready.inputs(columns())), columns()["age"] / 100)
    del asked, ready
    gc.collect()
    assert gone() is None and predictor() is None


def test_a_tried_model_outlives_the_one_it_was_made_from():
    ready = counting([]).ready(SCHEMA)
    gc.collect()
    assert ready.model.output == (0, 1) and len(ready.predict(ready.inputs(columns()))) == 50


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda d: d["age"] / 100 if len(d) > 2 else 1 / 0, "ZeroDivisionError on another batch"),
        (lambda d: d["age"] / 100 if len(d) > 2 else 0.5, "one number per row"),
    ],
)
def test_a_model_that_fails_on_a_smaller_batch_is_refused(function, words):
    with pytest.raises(pel.ModelError, match=words):
        model(function).ready(SCHEMA)


def test_fingerprints_tell_models_apart():
    a, b = (model(lambda d, k=k: d["age"] / k).ready(SCHEMA).fingerprint for k in (100, 101))
    assert a != b
