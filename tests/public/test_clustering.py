"""Clusterings: labels are declared, belong to single records, and fail row by row in silence."""

import dataclasses
import pickle
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.cluster import DBSCAN, AgglomerativeClustering, Birch, KMeans, MiniBatchKMeans
from sklearn.compose import make_column_transformer
from sklearn.mixture import GaussianMixture
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

import pellucid as pel
from pellucid.public.clustering import Clustering
from pellucid.public.rows import Rows

SCHEMA = pel.Schema({"age": pel.Number(0, 100, integer=True), "bmi": pel.Number(10, 60), "sex": pel.Category(["F", "M"])})


def columns(size=50, seed=3):
    return SCHEMA.sample(size, seed)


def frame(size=600):
    data = columns(size, seed=5)
    return pd.DataFrame({"age": data["age"], "bmi": data["bmi"], "sex": np.array(["F", "M"])[data["sex"].astype(int)]})


def clustering(function, clusters=range(2), **options):
    return Clustering(function, clusters, **({"features": ["age", "bmi"], "trained_on": "other data"} | options))


def old(d):
    return (d["age"] >= 50).astype(int)


def by_name(d):
    return np.where(d["age"] >= 50, "old", "young")


@pytest.mark.parametrize(
    "estimator",
    [
        KMeans(4, n_init=2, random_state=0),
        MiniBatchKMeans(4, n_init=2, random_state=0),
        GaussianMixture(4, random_state=0),
        Birch(n_clusters=4, threshold=2.0),
        make_pipeline(StandardScaler(), KMeans(4, n_init=2, random_state=0)),
    ],
    ids=lambda e: type(e).__name__,
)
@pytest.mark.parametrize("as_array", [False, True])
def test_fitted_estimators_give_their_own_labels(estimator, as_array):
    people = frame()[["age", "bmi"]]
    fitted = estimator.fit(people.to_numpy() if as_array else people)
    ready = clustering(fitted, range(4), trained_on="this data").ready(SCHEMA)
    assert ready.input == ("array" if as_array else "frame")
    data = columns(200)
    given = pd.DataFrame({"age": data["age"], "bmi": data["bmi"]})
    labels = ready.labels(data)
    assert labels.dtype == np.int64
    np.testing.assert_array_equal(labels, fitted.predict(given.to_numpy() if as_array else given))


def test_ordinary_k_means_is_never_refused():
    """Nor when a public record, the middle of the range, lies exactly between two centres."""
    rng = np.random.default_rng(0)
    for seed in range(6):
        size = int(rng.integers(2, 12))
        people = np.c_[rng.uniform(0, 100, 300), rng.uniform(10, 60, 300)]
        clustering(KMeans(size, n_init=1, random_state=seed).fit(people), range(size)).ready(SCHEMA)
    even = KMeans(2, n_init=1).fit(np.array([[25.0], [75.0]] * 10))
    labels = clustering(even, features=["age"]).ready(SCHEMA).labels({"age": np.array([10.0, 90.0])})
    np.testing.assert_array_equal(labels, even.predict([[10.0], [90.0]]))


def test_a_classifier_over_text_columns_is_a_clustering():
    people = frame()
    names = np.where(people["sex"] == "F", "first", np.where(people["age"] > 40, "second", "third"))
    encode = make_column_transformer((OneHotEncoder(), ["sex"]), remainder="passthrough")
    tree = make_pipeline(encode, DecisionTreeClassifier(random_state=0)).fit(people, names)
    groups = Clustering(tree, ["third", "first", "second"], trained_on="this data")
    assert groups.features == ("age", "bmi", "sex")
    data = columns()
    expected = np.where(data["sex"] == 0, 1, np.where(data["age"] > 40, 2, 0))
    assert np.mean(groups.ready(SCHEMA).labels(data) == expected) > 0.9


@pytest.mark.parametrize(
    "answer",
    [
        by_name,
        lambda d: list(by_name(d)),
        lambda d: pd.Series(by_name(d), dtype="category"),
        lambda d: pd.DataFrame({"label": by_name(d)}),
        lambda d: np.array(by_name(d), dtype=object)[:, None],
    ],
)
def test_labels_may_be_names_in_any_container(answer):
    data = columns()
    expected = np.where(data["age"] >= 50, 0, 1)
    np.testing.assert_array_equal(clustering(answer, ["old", "young"]).ready(SCHEMA).labels(data), expected)


def test_booleans_and_floats_are_the_numbers_they_equal():
    data = columns()
    expected = (data["age"] >= 50).astype(int)
    for answer in (lambda d: d["age"] >= 50, lambda d: (d["age"] >= 50) * 1.0):
        np.testing.assert_array_equal(clustering(answer).ready(SCHEMA).labels(data), expected)


def test_rows_can_be_given_and_other_values_tried():
    data = columns()
    rows = Rows(SCHEMA, data)
    groups = clustering(old)
    np.testing.assert_array_equal(groups.ready(SCHEMA).labels(rows), data["age"] >= 50)
    np.testing.assert_array_equal(rows.predict(groups, {"age": 70.0}), np.ones(50))


@pytest.mark.parametrize(
    "labels",
    [np.zeros(5, dtype=int), pd.Series(["a", "b"]), [0, 1, 0], (1, 2), pd.Categorical(["x", "y"])],
    ids=lambda v: type(v).__name__,
)
def test_a_column_of_labels_is_refused(labels):
    with pytest.raises(pel.ModelError, match="no function on records"):
        clustering(labels)


@pytest.mark.parametrize("estimator", [DBSCAN(), AgglomerativeClustering(2), make_pipeline(StandardScaler(), DBSCAN())])
def test_estimators_without_predict_are_refused(estimator):
    with pytest.raises(pel.ModelError, match=r"no predict\(\) for others"):
        clustering(estimator.fit(frame()[["age", "bmi"]]))


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda d: (d["age"] > d["age"].mean()).astype(int), "function of one row"),
        (lambda d: (d["age"].rank() > 3).astype(int), "function of one row"),
        (lambda d: KMeans(2, n_init=1, random_state=0).fit_predict(d), "function of one row"),
        (lambda d: np.arange(len(d)) % 2, "function of one row"),
        (lambda d: 1 / 0, "ZeroDivisionError"),
        (lambda d: sys.exit(3), "SystemExit"),
        (lambda d: d["nope"], "KeyError"),
        (lambda d: 0, "one label per row"),
        (lambda d: "old", "one label per row"),
        (lambda d: [0], "one label per row"),
        (lambda d: np.zeros((len(d), 2)), "one label per row"),
        (lambda d: (d["age"] // 30).astype(int), r"the label '[23]' \(int.*clusters= does not declare"),
        (lambda d: old(d).astype(str), r"the label '[01]' \(str\)"),
        (lambda d: np.where(d["age"] > 50, np.nan, 0), "the label 'nan'"),
        (lambda d: [[0]] * len(d), "TypeError"),
        (KMeans(2), "NotFittedError"),
    ],
)
def test_what_fails_on_public_records_is_refused(function, words):
    with pytest.raises(pel.ModelError, match=words):
        clustering(function).ready(SCHEMA)


def test_a_clustering_with_state_is_refused():
    calls = []

    def counting(d):
        calls.append(1)
        return np.full(len(d), len(calls) % 2)

    with pytest.raises(pel.ModelError, match="function of one row"):
        clustering(counting).ready(SCHEMA)


def test_a_row_that_fails_or_is_given_another_label_belongs_to_no_cluster_alone():
    """Values that public records do not contain, so that the trial cannot see them."""

    def picky(d):
        bmi = d["bmi"].to_numpy()
        if (bmi == 33.25).any():
            raise RuntimeError(f"cannot handle {d.iloc[0].to_dict()}")
        labels = (bmi > 30).astype(object)
        labels[bmi == 33.5] = 7
        labels[bmi == 33.75] = None
        labels[bmi == 34.25] = "other"
        if (bmi == 34.5).any():
            labels[bmi == 34.5] = [["unhashable"]]
        return labels

    ready = clustering(picky).ready(SCHEMA)
    data = columns(101)
    odd = [17, 40, 41, 60, 99]
    data["bmi"][odd] = [33.25, 33.5, 33.75, 34.25, 34.5]
    expected = (data["bmi"] > 30).astype(int)
    expected[odd] = -1
    np.testing.assert_array_equal(ready.labels(data), expected)
    assert len(ready.labels({name: column[:0] for name, column in data.items()})) == 0


def test_what_it_prints_is_discarded_and_what_it_writes_is_its_own(capfd):
    def loud(d):
        print("row", d.iloc[0].tolist())
        print("row", file=sys.stderr)
        labels = old(d)
        d["age"] = 0
        return labels

    data = columns()
    before = data["age"].copy()
    ready = clustering(loud).ready(SCHEMA)
    for _ in range(2):
        np.testing.assert_array_equal(ready.labels(data), before >= 50)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"trained_on": None}, "trained_on"),
        ({"trained_on": "elsewhere"}, "trained_on"),
        ({"input": "matrix"}, "input"),
        ({"features": "age"}, "list"),
        ({"clusters": 5}, r"range\(5\)"),
        ({"clusters": "ab"}, "in order"),
        ({"clusters": {1, 2}}, "in order"),
        ({"clusters": None}, "in order"),
        ({"clusters": []}, "give 1 to"),
        ({"clusters": [1, True]}, "twice"),
        ({"clusters": [0, None]}, "text or numbers"),
        ({"clusters": [0, float("nan")]}, "NaN"),
        ({"predictor": KMeans}, "fitted instance"),
        ({"predictor": "sex"}, "lambda d"),
        ({"predictor": object()}, "neither"),
    ],
)
def test_wrong_declarations_say_the_fix(options, words):
    with pytest.raises(pel.ModelError, match=words):
        Clustering(**({"predictor": old, "clusters": range(2), "features": ["age"], "trained_on": "other data"} | options))


def test_an_undeclared_feature_names_the_nearest():
    with pytest.raises(pel.SchemaError, match="did you mean 'age'"):
        clustering(old, features=["agee"]).ready(SCHEMA)


def test_fingerprints_tell_clusterings_apart():
    same, again = (clustering(old).ready(SCHEMA).fingerprint for _ in range(2))
    assert same == again
    renamed = clustering(by_name, ["old", "young"]).ready(SCHEMA).fingerprint
    swapped = clustering(by_name, ["young", "old"]).ready(SCHEMA).fingerprint
    assert len({same, renamed, swapped, clustering(old, range(3)).ready(SCHEMA).fingerprint}) == 4


def test_it_pickles_without_its_trial():
    groups = clustering(old)
    groups.ready(SCHEMA)
    again = pickle.loads(pickle.dumps(groups))
    assert "_ready" not in vars(again)
    assert vars(again).keys() == {field.name for field in dataclasses.fields(Clustering)}
    np.testing.assert_array_equal(again.ready(SCHEMA).labels(columns()), groups.ready(SCHEMA).labels(columns()))


@pytest.mark.parametrize(
    ("trained_on", "status"),
    [
        ("other data", "proved for row-wise models"),
        ("this data", "conditional"),
        (pel.PrivateTraining(1.0), "proved for row-wise models"),
    ],
)
def test_a_session_takes_it_where_it_takes_a_model(trained_on, status):
    """Requests, conditions, what is protected and where bounds come from are written from it as from a model."""
    session = pel.Session(frame(), SCHEMA, budget=pel.Budget(epsilon=1.0))
    certificate = session.release(pel.ClusterHistograms(clustering(old, trained_on=trained_on)), epsilon=0.5).certificate
    assert certificate.status == status and "training data of old" in certificate.protects
    assert any("old is a function of one row" in text for text in certificate.assumptions)
    assert "output of old" in certificate.bounds and certificate.text and session.history()
