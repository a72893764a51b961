"""Models that are read: they answer as the model does, or are asked."""

import gc
import weakref

import numpy as np
import pandas as pd
import pytest
from people import make_people
from sklearn.compose import make_column_transformer
from sklearn.ensemble import (
    BaggingClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
)
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler
from sklearn.tree import DecisionTreeRegressor
from walking import NUMBERS as BEYOND_SINGLE
from walking import hostile, numbers

import pellucid as pel
from pellucid.public.fitted import compiled
from pellucid.public.fitted import read as reading
from pellucid.public.fitted.read import Read, read
from pellucid.public.rows import Rows

pytestmark = pytest.mark.skipif(not compiled.is_compiled(), reason="compiled loops need Numba")
# Trees of scikit-learn take no numbers that are infinite in single precision.
NUMBERS = pel.Schema({**dict(BEYOND_SINGLE.items()), "b": pel.Number(0, 1e38, missing=float("nan"))})


def ready(estimator, schema=NUMBERS, **given):
    if not hasattr(estimator, "predict_proba"):
        given.setdefault("output", (-100, 100))
    return pel.Model(estimator, trained_on="other data", features=list(schema), **given).ready(schema)


CLASSIFIERS = [
    RandomForestClassifier(9, max_depth=5, random_state=0),
    BaggingClassifier(n_estimators=5, max_features=3, random_state=0),
    GradientBoostingClassifier(n_estimators=6, random_state=0),
    HistGradientBoostingClassifier(max_iter=6, categorical_features=[4], random_state=0),
]
REGRESSORS = [
    DecisionTreeRegressor(max_depth=4),
    ExtraTreesRegressor(5, max_depth=6, random_state=0),
    GradientBoostingRegressor(n_estimators=9, random_state=0),
    HistGradientBoostingRegressor(max_iter=7, loss="poisson", random_state=0),
    make_pipeline(StandardScaler(), HistGradientBoostingRegressor(max_iter=7, random_state=0)),
]


def fitted(estimator, classes=0):
    table, score = numbers()
    if type(estimator) in (BaggingClassifier, GradientBoostingClassifier, GradientBoostingRegressor):
        table = np.nan_to_num(table, nan=-7.0, posinf=1e38)
    if classes:
        score = np.digitize(score, np.quantile(score, np.linspace(0, 1, classes + 1)[1:-1]))
    return estimator.fit(table, np.abs(score) if getattr(estimator, "loss", "") == "poisson" else score)


@pytest.mark.parametrize("estimator", REGRESSORS, ids=lambda e: type(e).__name__)
def test_what_is_read_answers_as_the_model_does(estimator):
    check(ready(fitted(estimator), no_gaps(estimator), input="array"))


@pytest.mark.parametrize("classes, positive", [(2, 0), (2, 1), (3, 0), (3, 2)])
@pytest.mark.parametrize("estimator", CLASSIFIERS, ids=lambda e: type(e).__name__)
def test_every_class_is_answered_for(estimator, classes, positive):
    check(ready(fitted(estimator, classes), no_gaps(estimator), positive=positive, input="array"))


def test_half_the_log_odds():
    check(
        ready(fitted(GradientBoostingClassifier(n_estimators=4, loss="exponential"), 2), no_gaps(CLASSIFIERS[2]), input="array")
    )


def no_gaps(estimator):
    if type(estimator) not in (BaggingClassifier, GradientBoostingClassifier, GradientBoostingRegressor):
        return NUMBERS
    # Some models take no missing values.
    return pel.Schema({**dict(NUMBERS.items()), "b": pel.Number(0, 1e38), "d": pel.Number(-7, 1)})


def check(made):
    found = read(made)
    assert isinstance(found, Read), found
    positions = hostile(made.schema, made.features, found.trees, size=400)
    columns = {name: np.ascontiguousarray(positions[:, j]) for j, name in enumerate(made.features)}
    ours, theirs = found.answers(found.atoms(columns)), made.raw(made.inputs(columns))
    assert np.allclose(ours, theirs, rtol=1e-12, atol=1e-12 * max(1.0, np.abs(theirs).max()))


@pytest.mark.parametrize("encoder", [OneHotEncoder(handle_unknown="ignore"), OrdinalEncoder()], ids=["one-hot", "ordinal"])
def test_steps_before_trees_are_settled_too(schema, encoder):
    people = make_people(800)
    text, others = ["sex", "school"], ["age", "children", "bmi"]
    columns = make_column_transformer((encoder, text), (StandardScaler(), others), remainder="drop")
    chosen = pel.Schema({name: schema[name] for name in text + others})
    score = people["age"] / 90 + (people["sex"] == "M") * (people["school"] == "none")
    pipeline = make_pipeline(columns, RandomForestClassifier(20, max_depth=8, random_state=0))
    check(ready(pipeline.fit(people[list(chosen)], score > 0.6), chosen))


class Whitener(StandardScaler):
    """A step of somebody's own."""


@pytest.mark.parametrize(
    "estimator, why",
    [
        (LinearRegression(), "no sum of trees"),
        (make_pipeline(Whitener(), DecisionTreeRegressor(max_depth=2)), "of type Whitener"),
    ],
    ids=["linear", "step"],
)
def test_what_cannot_be_read_is_asked_and_says_why(estimator, why):
    found = read(ready(fitted_plain(estimator), no_gaps(CLASSIFIERS[2]), input="array"))
    assert isinstance(found, str) and why in found


def fitted_plain(estimator):
    table, score = numbers()
    return estimator.fit(np.nan_to_num(table, nan=-7.0, posinf=1e38), score)


def test_leaves_far_larger_than_the_range_are_not_read():
    tree = DecisionTreeRegressor(max_depth=1).fit([[0.0], [1.0]], [0.0, 1e30])
    found = read(ready(tree, pel.Schema({"x": pel.Number(0, 1)}), output=(0, 1)))
    assert isinstance(found, str) and "so large" in found


def test_trees_that_answer_otherwise_are_asked(monkeypatch):
    """A reading that goes wrong anywhere is noticed on public records."""
    settle = reading.settle

    def wrong(encoding, trees):
        made = settle(encoding, trees)
        made.cut[np.flatnonzero(~made.leaf)[0]] -= 1
        return made

    estimator = fitted(RandomForestClassifier(3, max_depth=3, random_state=0), 2)
    assert isinstance(read(ready(estimator, input="array")), Read)
    monkeypatch.setattr(reading, "settle", wrong)
    assert "do not follow" in read(ready(estimator, input="array"))


def test_without_compiled_loops_trees_are_asked(monkeypatch):
    monkeypatch.setattr(reading, "is_compiled", lambda: False)
    assert "pip install numba" in read(ready(fitted(DecisionTreeRegressor(max_depth=2)), input="array"))


def test_a_model_that_is_fitted_again_is_read_again():
    schema = pel.Schema({"x": pel.Number(0, 1)})
    data = pd.DataFrame({"x": np.linspace(0, 1, 3000)})
    tree = DecisionTreeRegressor(max_depth=1).fit([[0.0], [1.0]], [0.0, 1.0])
    model = pel.Model(tree, output=(0, 1), features=["x"], trained_on="other data")
    session = pel.Session(data, schema, budget=pel.Budget(epsilon=100.0))
    explainer = pel.PartialDependence(model, "x", points=5, method="values")
    before = session.release(explainer, epsilon=50.0)
    tree.fit([[0.0], [1.0]], [1.0, 0.0])
    after = session.release(explainer, epsilon=50.0)
    assert before.y[0] < 0.1 < 0.9 < after.y[0] and session.remaining < 1e-6


def test_what_a_batch_keeps_of_a_model_is_not_taken_for_another_ones():
    schema, again = (pel.Schema(dict(NUMBERS.items())) for _ in range(2))
    model = pel.Model(fitted(DecisionTreeRegressor(max_depth=4)), output=(-9, 9), features=list(schema), trained_on="other data")
    rows = Rows(schema, schema.sample(50))
    rows.predict(model)
    kept = weakref.ref(read(model.ready(schema)))
    model.ready(again)
    gc.collect()
    # Were it gone, the next one could have its address, and would be walked with atoms that are not its own.
    assert kept() is not None
