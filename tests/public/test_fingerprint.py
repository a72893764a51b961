"""Fingerprints: the same bytes as in the version before, wherever a class of ours has moved to."""

import functools
import importlib
import pickle
import pkgutil

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeRegressor

import pellucid as pel
from pellucid.explainers.clusters.centres import NearestCentre, Space
from pellucid.explainers.clusters.cluster_histograms import HalfSplit
from pellucid.public import fingerprint as fingerprints

SCHEMA = pel.Schema(
    {
        # What the version before took for missing cells unless something else was said.
        "age": pel.Number(0, 100, integer=True, missing=50),
        "bmi": pel.Number(10, 60, missing=35),
        "sex": pel.Category(["F", "M"], missing="F"),
        "town": pel.Category(["a", "b", "c"], ordered=True, missing="a"),
    }
)
SPACE = Space(tuple(SCHEMA), tuple(SCHEMA.values()))
CENTRES = np.array([[0.25, 0.5, 0.0, 1.0, 0.0, 0.0], [0.75, 0.125, 1.0, 0.0, 0.5, 0.5]])
NEAREST = NearestCentre(SPACE, CENTRES)

same_pickles = pytest.mark.skipif(pickle.DEFAULT_PROTOCOL != 4, reason="recorded with pickles of protocol 4")


@same_pickles
@pytest.mark.parametrize(
    ("predictor", "features", "expected"),
    [
        (NEAREST, list(SCHEMA), "d439824cf5fb72358d3a282179a740e6764a6b37c67a03377da5b591ce42ef63"),
        (HalfSplit("age", 50.0), ["age"], "0534f1d50f1cfbd108c11dd2db29da0a13d4405be444034ad6abd6de1f9f04d6"),
    ],
)
def test_clusterings_made_of_our_classes_are_those_of_the_version_before(predictor, features, expected):
    groups = pel.Clustering(predictor, clusters=range(2), features=features, trained_on="other data")
    assert groups.ready(SCHEMA).fingerprint == expected


@same_pickles
def test_models_made_of_our_classes_are_those_of_the_version_before():
    halves = pel.Model(HalfSplit("age", 50.0), output=(0, 1), features=["age"], trained_on="other data")
    expected = "d4e986f402f08cb27bb0a1982e2754c2520896e609d08f0d7c6f05224cee85d5"
    assert halves.ready(SCHEMA).fingerprint == expected


@pytest.fixture
def as_now(monkeypatch):
    """Classes under the names that pickles give them."""
    now = {place: place for place in fingerprints._registered}
    monkeypatch.setattr(fingerprints, "_registered", now)


OURS = [
    SPACE,
    [NEAREST, SPACE, NEAREST, Space],
    SCHEMA,
    (SCHEMA["age"], SCHEMA["sex"], pel.Boolean(), pel.Unit("id", 3), "Number", "pellucid.schema"),
    pel.Model(LinearRegression().fit([[1.0], [2.0]], [1.0, 2.0]), (0, 5), ["bmi"], "other data"),
    pel.Clustering(HalfSplit("age", 50.0), range(2), ["age"], pel.PrivateTraining(1.0)),
    functools.partial(pel.Number, 0),
    {"large": [NearestCentre(SPACE, np.random.default_rng(0).random((20_000, 6))), b"x" * 70_000, "y" * 70_000]},
]


@pytest.mark.parametrize("value", OURS, ids=lambda v: type(v).__name__)
def test_only_names_differ_from_a_plain_pickle(as_now, value):
    """Our pickler, told the names of today, writes what the one in C writes."""
    assert fingerprints._bytes_of(value) == pickle.dumps(value)


@pytest.mark.parametrize("value", OURS, ids=lambda v: type(v).__name__)
def test_registered_names_stand_for_the_places_of_today(value):
    content = fingerprints._bytes_of(value)
    assert b"pellucid.public" not in content and b"pellucid.explainers.clusters" not in content
    assert b"pellucid." in content


def test_what_has_nothing_of_ours_is_a_plain_pickle():
    fitted = LinearRegression().fit([[1.0], [2.0]], [1.0, 2.0])
    fitted.comment_ = "explained by pellucid. once"
    for value in (fitted, {"a": [1, "pellucid"]}, np.arange(3)):
        assert fingerprints._bytes_of(value) == pickle.dumps(value)


def test_no_two_classes_share_a_name():
    for module in pkgutil.walk_packages(pel.__path__, "pellucid."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    assert len(set(fingerprints._registered.values())) == len(fingerprints._registered)


def test_gaps_between_fields_tell_no_trees_apart():
    """Nodes of scikit-learn's trees have gaps that hold whatever was in memory: a loaded tree is the one that was saved."""
    inputs = np.random.default_rng(0).random((200, 3))
    tree = DecisionTreeRegressor(max_depth=4).fit(inputs, inputs.sum(axis=1))
    expected = fingerprints.fingerprint(tree, np.zeros(1))
    bare, state = pickle.loads(pickle.dumps(tree)), tree.tree_.__getstate__()
    raw = state["nodes"].view(np.uint8).reshape(len(state["nodes"]), -1)
    raw[:, 57:] = 7
    bare.tree_.__setstate__(state)
    assert fingerprints.fingerprint(bare, np.zeros(1)) == expected
    raw[:, 24] ^= 1  # the last bit of a threshold
    bare.tree_.__setstate__(state)
    assert fingerprints.fingerprint(bare, np.zeros(1)) != expected


def test_arrays_without_gaps_have_the_bytes_of_a_plain_pickle():
    records = np.zeros((3, 2), dtype=[("a", "i4"), ("b", "f8")])
    records["a"] = 5
    aligned = np.zeros(3, dtype=np.dtype([("a", "u1"), ("b", "f8")], align=True))
    for value in (records, aligned, records[:0], records.T, np.asfortranarray(np.eye(3)), [records, records], np.array(["x"])):
        assert fingerprints._bytes_of(value) == pickle.dumps(value)
