"""Adapters: each equals a direct call of the package it stands for, on the same rows."""

import importlib.util
import itertools
import math
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.inspection import permutation_importance
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import DecisionTreeRegressor

import pellucid as pel
from pellucid.errors import PlanError
from pellucid.explainers.blocks import adapters

INPUTS = ["age", "sex", "bmi"]
has_shap = pytest.mark.skipif(importlib.util.find_spec("shap") is None, reason="needs shap")
has_interpret = pytest.mark.skipif(importlib.util.find_spec("interpret") is None, reason="needs interpret")


@pytest.fixture(scope="module")
def rows():
    """A block as a plot hands it over: whole numbers, words, numbers, and a target."""
    rng = np.random.default_rng(3)
    age, sex, bmi = rng.integers(20, 60, 80), rng.choice(np.array(["F", "M"], dtype=object), 80), rng.uniform(18, 40, 80)
    ill = (age / 60 + (sex == "M") * 0.3 + rng.normal(0, 0.2, 80) > 1).astype(int)
    return pd.DataFrame({"age": age, "sex": sex, "bmi": bmi, "ill": ill})


def risk(frame):
    """Exactly known Shapley values: two features that multiply, one on its own."""
    return frame["age"] / 100 * (frame["sex"] == "M") + frame["bmi"] / 50


def fitted(kind, rows):
    words = ColumnTransformer([("words", OneHotEncoder(), ["sex"])], remainder="passthrough")
    return make_pipeline(words, kind).fit(rows[INPUTS], rows["ill"])


@pytest.fixture(scope="module")
def classifier(rows):
    return fitted(RandomForestClassifier(20, random_state=0), rows)


@pytest.mark.parametrize("x", [[25, 40, 55], [25.5, 40.0], range(20, 60, 10)])
def test_partial_dependence_of_a_whole_number(rows, classifier, x):
    found = adapters.partial_dependence(classifier, "age", x)(rows)
    wanted = [classifier.predict_proba(rows[INPUTS].assign(age=float(v)))[:, 1].mean() for v in x]
    np.testing.assert_allclose(found, wanted)


def test_partial_dependence_of_words_of_a_score_and_of_a_regression(rows, classifier):
    found = adapters.partial_dependence(classifier, "sex", ["M", "F"])(rows)
    np.testing.assert_allclose(found, [classifier.predict_proba(rows[INPUTS].assign(sex=v))[:, 1].mean() for v in "MF"])

    line = LogisticRegression(max_iter=1000).fit(rows[["bmi", "age"]], rows["ill"])
    found = adapters.partial_dependence(line, "bmi", [20.0, 30.0], response="decision_function")(rows)
    wanted = [line.decision_function(rows[["bmi", "age"]].assign(bmi=v)).mean() for v in (20.0, 30.0)]
    np.testing.assert_allclose(found, wanted)

    plain = LinearRegression().fit(rows[["age", "bmi"]].to_numpy(), rows["ill"])  # fitted without names: the user says them
    found = adapters.partial_dependence(plain, "age", [30], features=["age", "bmi"])(rows)
    np.testing.assert_allclose(found, [30 * plain.coef_[0] + rows["bmi"].mean() * plain.coef_[1] + plain.intercept_])


def test_partial_dependence_of_many_classes_is_refused(rows):
    many = RandomForestClassifier(2).fit(rows[["bmi"]], np.arange(len(rows)) % 3)
    with pytest.raises(PlanError, match="3 classes"):
        adapters.partial_dependence(many, "bmi", [20])


def test_permutation_importance(rows, classifier):
    found = adapters.permutation_importance(classifier, "ill", scoring="roc_auc", n_repeats=3, seed=7)(rows)
    wanted = permutation_importance(classifier, rows[INPUTS], rows["ill"], scoring="roc_auc", n_repeats=3, random_state=7)
    assert list(found.index) == INPUTS
    np.testing.assert_allclose(found, wanted["importances_mean"])
    plain = RandomForestRegressor(5, random_state=0).fit(rows[["bmi", "age"]].to_numpy(), rows["ill"])
    found = adapters.permutation_importance(plain, "ill", features=["bmi", "age"])(rows)
    wanted = permutation_importance(plain, rows[["bmi", "age"]].to_numpy(), rows["ill"], n_repeats=5, random_state=0)
    np.testing.assert_allclose(found, wanted["importances_mean"])


def shapley(record, background):
    """By the definition: all orders of the features, all background records."""
    names, value = list(background), np.zeros(background.shape[1])
    for order in itertools.permutations(range(len(names))):
        mixed, before = background.copy(), risk(background).mean()
        for j in order:
            mixed[names[j]] = record[names[j]]
            value[j] += risk(mixed).mean() - before
            before = risk(mixed).mean()
    return value / math.factorial(len(names))


@has_shap
@pytest.mark.parametrize("words", [object, "category"])
def test_shap_values_are_those_of_the_definition(rows, words):
    public = rows[INPUTS].tail(5).reset_index(drop=True).astype({"sex": words})
    block = rows.head(30).astype({"sex": words})
    found = adapters.shap_dependence(risk, "age", [20, 40, 60], public).shap_values(block)
    # One order there and back is exact where at most two features act together.
    np.testing.assert_allclose(found, [shapley(r, public) for _, r in block[INPUTS].iterrows()], atol=1e-9)


@has_shap
def test_shap_dependence_averages_near_each_value(rows):
    public = rows[INPUTS].tail(5)
    numbers = adapters.shap_dependence(risk, "age", [60, 20, 40], public)
    places, heights = numbers(rows)
    effects, age = numbers.shap_values(rows)[:, 0], rows["age"].to_numpy()
    cells = [age <= 30, (age > 30) & (age <= 50), age > 50]
    np.testing.assert_allclose(places, [age[cell].mean() for cell in cells])
    np.testing.assert_allclose(heights, [effects[cell].mean() for cell in cells])

    words = adapters.shap_dependence(risk, "sex", ["M", "other", "F"], public)
    effects = words.shap_values(rows)[:, 1]
    assert dict(words(rows)) == pytest.approx({v: effects[rows["sex"] == v].mean() for v in "FM"})


@has_shap
def test_shap_dependence_takes_estimators(rows, classifier):
    public, few = rows[INPUTS].tail(3), rows.head(15)
    by_function = adapters.shap_dependence(lambda d: classifier.predict_proba(d[INPUTS])[:, 1], "age", [30, 50], public)
    np.testing.assert_allclose(adapters.shap_dependence(classifier, "age", [30, 50], public)(few), by_function(few), atol=1e-12)
    with pytest.raises(PlanError, match="no column 'weight'"):
        adapters.shap_dependence(classifier, "weight", [1, 2], public)


def test_local_surrogate(rows):
    record = {"age": 40, "sex": "M", "bmi": 30.0}
    found = adapters.local_surrogate(risk, record, INPUTS, width=0.5, scale={"age": 10.0})(rows)
    same = (rows["sex"] == "M").to_numpy(dtype=float)
    steps = np.column_stack([(rows["age"] - 40) / 10, same, (rows["bmi"] - 30) / rows["bmi"].std(ddof=0)])
    distance = steps[:, 0] ** 2 + (1 - same) + steps[:, 2] ** 2
    wanted = Ridge(alpha=1.0).fit(steps, risk(rows), sample_weight=np.exp(-distance / (0.25 * 3))).coef_
    assert list(found.index) == INPUTS
    np.testing.assert_allclose(found, wanted)
    sizes = adapters.local_surrogate(lambda d: -risk(d), record, INPUTS, width=0.5, scale={"age": 10.0}, signed=False)(rows)
    np.testing.assert_allclose(sizes, np.abs(wanted))


def test_local_surrogate_finds_a_line(rows):
    record, scale = {"age": 40, "bmi": 30.0}, {"age": 1.0, "bmi": 1.0}
    line = adapters.local_surrogate(lambda d: 2e4 * d["age"] - 3e4 * d["bmi"], record, ["bmi", "age"], width=100.0, scale=scale)
    np.testing.assert_allclose(line(rows), [-3e4, 2e4], rtol=0.01)  # the penalty is small beside 80 rows


@pytest.mark.parametrize("wrong", [{"record": {"age": 40}}, {"width": 0.0}])
def test_local_surrogate_says_what_is_missing(wrong):
    with pytest.raises(PlanError, match="width > 0 and a value"):
        adapters.local_surrogate(**{"model": risk, "record": {"age": 40, "bmi": 30}, "features": ["age", "bmi"], **wrong})


def test_tree_surrogate(rows):
    block = rows.assign(school=np.tile(np.array(["a", "b", "c", "d"], dtype=object), 20))

    def fee(frame):
        return risk(frame) + frame["school"].map({"a": 0.0, "b": 0.9, "c": 1.7, "d": 3.1}).to_numpy(dtype=float)

    found = adapters.tree_surrogate(fee, ["bmi", "school", "age"], max_depth=3)(block)
    table = np.column_stack([block["bmi"], *(block["school"] == v for v in "abcd"), block["age"]]).astype(float)
    tree = DecisionTreeRegressor(max_depth=3, random_state=0).fit(table, fee(block)).feature_importances_
    assert list(found.index) == ["bmi", "school", "age"] and (tree[1:5] > 0).sum() > 1
    np.testing.assert_allclose(found, [tree[0], tree[1:5].sum(), tree[5]])
    assert found.sum() == pytest.approx(1)


def test_what_cannot_answer_is_refused(model):
    with pytest.raises(PlanError, match=r"its \.predictor"):
        adapters.tree_surrogate(model, ["age"])
    assert adapters.tree_surrogate(model.predictor, ["age"]).model is model.predictor


@has_interpret
@pytest.mark.parametrize("feature, x", [("bmi", [20.0, 30.0, 39.0]), ("sex", ["M", "F"])])
@pytest.mark.parametrize("classify", [False, True])
def test_ebm_shape(rows, feature, x, classify):
    from interpret.glassbox import ExplainableBoostingClassifier, ExplainableBoostingRegressor

    kind = ExplainableBoostingClassifier if classify else ExplainableBoostingRegressor
    machine = kind(interactions=0, outer_bags=1, max_rounds=50, n_jobs=1, random_state=0).fit(rows[INPUTS], rows["ill"])
    found = adapters.ebm_shape(feature, x, "ill", INPUTS, classify=classify, max_rounds=50)(rows)
    # The model is a sum of shapes: its answers move by the shape alone when the feature moves.
    asked = pd.concat([rows[INPUTS].iloc[[7]]] * len(x), ignore_index=True).assign(**{feature: x})
    answers = machine.decision_function(asked) if classify else machine.predict(asked)
    np.testing.assert_allclose(found - found[0], answers - answers[0], atol=1e-9)


@pytest.mark.skipif(importlib.util.find_spec("interpret") is not None, reason="interpret is installed")
def test_a_missing_package_is_said_while_planning():
    with pytest.raises(PlanError, match=r"pip install .pellucid\[interpret\]"):
        adapters.ebm_shape("bmi", [20, 30], "ill")


def test_every_adapter_pickles_and_answers_alike(rows, classifier):
    public = rows[INPUTS].tail(3)
    made = [
        adapters.partial_dependence(classifier, "age", np.array([30, 50])),
        adapters.permutation_importance(classifier, "ill"),
        adapters.local_surrogate(risk, {"age": 40, "sex": "M", "bmi": 30.0}, INPUTS),
        adapters.tree_surrogate(risk, INPUTS),
        adapters.h_statistic(risk, INPUTS, "age"),
    ]
    if importlib.util.find_spec("shap"):
        made.append(adapters.shap_dependence(risk, "sex", ["M", "F"], public))
    if importlib.util.find_spec("interpret"):
        made.append(adapters.ebm_shape("bmi", [20.0, 30.0], "ill", INPUTS, max_rounds=5))
    else:
        assert {type(f).__name__ for f in made} | {"ebm_shape", "shap_dependence"} == set(adapters.__all__)
    before = rows.copy()
    for function in made:
        again = pickle.loads(pickle.dumps(function))
        np.testing.assert_array_equal(np.asarray(function(rows)), np.asarray(again(rows)))
        pd.testing.assert_frame_equal(rows, before)


def test_a_private_plot_without_noise_is_the_plot_of_everybody(rows, classifier, silent):
    """Blocks of one size, each in a process of its own: the mean of their partial dependences is that of all records."""
    schema = pel.Schema(
        {
            "age": pel.Number(20, 60, integer=True),
            "sex": pel.Category(["F", "M"]),
            "bmi": pel.Number(18, 40),
            "ill": pel.Number(0, 1, integer=True),
        }
    )
    function = adapters.partial_dependence(classifier, "age", [25, 40, 55])
    session = pel.Session(rows, schema, budget=pel.Budget(epsilon=1.0))
    plot = session.release(pel.PrivatePlot(function, function.x, output=(0, 1), blocks=4), epsilon=1.0)
    np.testing.assert_allclose(plot.y, function(rows), atol=1e-8)


def test_the_same_request_pickles_alike(classifier):
    made = [adapters.partial_dependence(classifier, "age", x) for x in ([30, 50], np.array([30, 50]), range(30, 51, 20))]
    assert len({pickle.dumps((f.feature, f.x)) for f in made}) == 1


def test_h_statistic_is_friedmans():
    """Against loops over records: products of two features, a third one that only adds."""
    rng = np.random.default_rng(3)
    rows = pd.DataFrame(rng.random((12, 3)), columns=["a", "b", "c"])

    def model(d):
        return d["a"] * d["b"] + d["c"]

    def dependence(names):
        means = []
        for i in range(len(rows)):
            changed = rows.copy()
            for name in names:
                changed[name] = rows[name].iloc[i]
            means.append(model(changed).mean())
        return np.array(means) - np.mean(means)

    own = {name: dependence([name]) for name in "abc"}
    expected = {}
    for name in "bc":
        both = dependence(["a", name])
        expected[name] = np.sqrt(((both - own["a"] - own[name]) ** 2).sum() / (both**2).sum())
    found = adapters.h_statistic(model, ["a", "b", "c"], feature="a")(rows)
    assert found.to_dict() == pytest.approx(expected) and found["c"] == pytest.approx(0, abs=1e-7) and found["b"] > 0.05
    whole = model(rows) - model(rows).mean()
    rest = (whole - own["a"] - dependence(["b", "c"])).to_numpy()
    overall = adapters.h_statistic(model, ["a", "b", "c"])(rows)
    assert overall["a"] == pytest.approx(np.sqrt((rest**2).sum() / (whole**2).sum())) and overall["c"] == pytest.approx(
        0, abs=1e-7
    )
    assert adapters.h_statistic(lambda d: np.zeros(len(d)), ["a", "b"])(rows).tolist() == [0, 0]
    assert len(adapters.h_statistic(model, ["a", "b", "c"], most=5).dependence(rows.head(5), ["a"])) == 5
