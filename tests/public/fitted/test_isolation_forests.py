"""Isolation forests: scores are read, leaf by leaf, and labels are asked for."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingClassifier, IsolationForest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from walking import NUMBERS as BEYOND_SINGLE
from walking import check_walked, hostile, leaves, numbers, read

import pellucid as pel
from pellucid.errors import ModelError
from pellucid.public.fitted import compiled
from pellucid.public.fitted.read import Read
from pellucid.public.fitted.read import read as read_here
from pellucid.sensitivity import output_range

pytestmark = pytest.mark.skipif(not compiled.is_compiled(), reason="compiled loops need Numba")
# scikit-learn takes no numbers that are infinite in single precision.
NUMBERS = pel.Schema({**dict(BEYOND_SINGLE.items()), "b": pel.Number(0, 1e38, missing=float("nan"))})
METHODS = ["score_samples", "decision_function"]


def forest(**given):
    return IsolationForest(**{"n_estimators": 12, "random_state": 0, **given})


def table():
    return np.nan_to_num(numbers()[0], nan=np.nan, posinf=1e38)


FORESTS = {
    "usual": forest(),
    "some columns": forest(max_features=3),
    "share of outliers": forest(contamination=0.1),
    "few records": forest(max_samples=2),
    "three records": forest(max_samples=3, bootstrap=True),
    "all records": forest(max_samples=1.0),
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", FORESTS)
def test_leaf_by_leaf(name, method):
    estimator = FORESTS[name].fit(table())
    ready, made = read(estimator, NUMBERS, method=method, output=(-1, 1), input="array")
    positions = hostile(NUMBERS, list(NUMBERS), made)
    records = ready.inputs({name: np.ascontiguousarray(positions[:, j]) for j, name in enumerate(NUMBERS)})
    reached = leaves(made, made.encoding(positions))
    for t, (member, columns) in enumerate(zip(estimator.estimators_, estimator.estimators_features_)):
        assert np.array_equal(reached[:, t], member.tree_.apply(records[:, columns].astype(np.float32)))
    check_walked(ready, made, positions, reached)
    columns = {name: np.ascontiguousarray(positions[:, j]) for j, name in enumerate(NUMBERS)}
    found = read_here(ready)
    assert np.allclose(found.answers(found.atoms(columns)), getattr(estimator, method)(records), rtol=1e-12, atol=1e-14)


def test_behind_a_step():
    pipeline = make_pipeline(StandardScaler(), forest()).fit(table())
    ready, made = read(pipeline, NUMBERS, method="score_samples", output=(-1, 0), input="array")
    positions = hostile(NUMBERS, list(NUMBERS), made)
    check_walked(ready, made, positions, leaves(made, made.encoding(positions)))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("contamination", ["auto", 0.2])
def test_certified_ranges(method, contamination):
    estimator = forest(n_estimators=4, max_samples=16, contamination=contamination).fit(table())
    found = output_range(estimator, NUMBERS, method=method, input="array", features=list(NUMBERS), seconds=20.0)
    assert found.exact
    columns = NUMBERS.sample(4000, 3)
    answers = getattr(estimator, method)(np.column_stack([NUMBERS[name].values_at(columns[name]) for name in NUMBERS]))
    assert found.lo <= answers.min() and answers.max() <= found.hi
    shown = np.array([[row[name] for name in NUMBERS] for row in (found.lowest, found.highest)], dtype=float)
    assert np.allclose(getattr(estimator, method)(shown), [found.lo, found.hi], rtol=0, atol=1e-12)


def test_releases_are_plainly_proved():
    rng = np.random.default_rng(0)
    data = pd.DataFrame({"x": rng.uniform(0, 1, 3000), "y": rng.uniform(0, 1, 3000)})
    schema = pel.Schema({"x": pel.Number(0, 1), "y": pel.Number(0, 1)})
    estimator = forest(n_estimators=30).fit(rng.normal(0.5, 0.1, (500, 2)))
    model = pel.Model(
        estimator, method="score_samples", output=(-1, 0), features=["x", "y"], input="array", trained_on="other data"
    )
    session = pel.Session(data, schema, budget=pel.Budget(epsilon=400.0))
    record, public = {"x": 0.5, "y": 0.9}, data.iloc[:2]
    for explainer in (
        pel.PartialDependence(model, "x", points=9),
        pel.AccumulatedEffects(model, "x"),
        pel.ShapValues(model, record),
        pel.ShapValues(model, record, method="permutations", permutations=2),
        pel.ShapImportance(model, public_background=public),
        pel.LocalLinear(model, record),
    ):
        certificate = session.release(explainer, epsilon=50.0).certificate
        assert certificate.status == "proved", (explainer, certificate.status)
        assert "read and computed by Pellucid from its 30 trees" in certificate.bounds["output of IsolationForest.score_samples"]
    curve = session.release(pel.PartialDependence(model, "x", points=9, method="values"), epsilon=50.0)
    mean = [estimator.score_samples(data.assign(x=x).to_numpy()).mean() for x in curve.x]
    assert np.abs(curve.y - mean).max() < 0.02


def test_labels_are_asked_for_and_the_certificate_says_what_to_do():
    estimator = forest().fit(table())
    ready = pel.Model(estimator, output=(-1, 1), features=list(NUMBERS), input="array", trained_on="other data").ready(NUMBERS)
    assert 'method="score_samples"' in read_here(ready)
    with pytest.raises(ModelError, match="the labels"):
        output_range(estimator, NUMBERS, input="array", features=list(NUMBERS))


def test_another_method_of_other_trees_is_asked():
    rng = np.random.default_rng(0)
    x = rng.random((200, 1))
    boosted = GradientBoostingClassifier(n_estimators=3).fit(x, x[:, 0] > 0.5)
    schema = pel.Schema({"x": pel.Number(0, 1)})
    model = pel.Model(boosted, method="decision_function", output=(-9, 9), features=["x"], input="array", trained_on="other data")
    assert "decision_function() of a GradientBoostingClassifier" in read_here(model.ready(schema))
    assert np.allclose(model.ready(schema).raw(x), boosted.decision_function(x)) and model.positive is None
    with pytest.raises(ModelError):
        output_range(model, schema)
    assert not isinstance(read_here(model.ready(schema)), Read)


def test_methods_that_are_not_there():
    estimator = forest().fit(table())
    with pytest.raises(ModelError, match="'score_samples' or 'decision_function'"):
        pel.Model(estimator, method="predict", output=(-1, 1), trained_on="other data")
    with pytest.raises(pel.ModelError, match=r"answers with labels.*method='score_samples'.*output=\(-1, 0\)"):
        pel.Model(estimator, trained_on="other data")
    with pytest.raises(ModelError, match="if StandardScaler has it"):
        scaler = StandardScaler()
        scaler.predict = lambda inputs: inputs
        pel.Model(scaler, method="score_samples", output=(-1, 1), trained_on="other data")
    with pytest.raises(ModelError, match="positive="):
        pel.Model(estimator, method="score_samples", output=(-1, 0), positive=1, trained_on="other data")


def test_methods_tell_requests_apart():
    estimator = forest().fit(table())
    plain = pel.Model(estimator, output=(-1, 1), trained_on="other data")
    scored = pel.Model(estimator, output=(-1, 1), method="score_samples", trained_on="other data")
    assert plain.declared == [-1.0, 1.0] and scored.declared == [-1.0, 1.0, "score_samples"]
