"""What makes two requests the same one: everything that decides what is released and what its certificate says."""

import dataclasses
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import recording
from before_functions import larger_means, mean_age_by_sex, score

import pellucid as pel
from pellucid.explainers.common.results import Several
from pellucid.ledger.accounting import Budget
from pellucid.mechanisms import Spend
from pellucid.public.schema import Unit
from pellucid.public.spread import Spread
from pellucid.release.plan import Public
from pellucid.release.request import request_of

SCHEMA = recording.schema()
RECORD = {"age": 40, "bmi": 25.0, "sex": "M"}
OTHERS = ["age", "bmi"]


def older(rows):
    return rows["age"] / 128


def labels(rows):
    return (rows["age"] > 50).astype(int)


def another_labelling(rows):
    return (rows["age"] > 60).astype(int)


MODEL = recording.model()
OLDER = pel.Model(older, output=(0, 1), features=["age", "bmi"], trained_on="other data")
GROUPS = pel.Clustering(labels, clusters=range(2), features=["age"], trained_on="other data")
OTHER_GROUPS = pel.Clustering(another_labelling, clusters=range(2), features=["age"], trained_on="other data")
TWO = {"two": ["age", "bmi"]}
SHAPLEY = {"groups": TWO, "method": "kernel", "permutations": 4, "samples": 100, "seed": 1, "certified": (0.0, 1.0)}

CHANGED = [
    (pel.AccumulatedEffects(MODEL, "age"), {"model": OLDER, "feature": ["age"], "intervals": 5}),
    (pel.AccumulatedEffects(MODEL, OTHERS), {"feature": ["bmi", "age"]}),
    (pel.AttributeShares("age*bmi"), {"formula": "age + bmi"}),
    (
        pel.ClusterHistograms(GROUPS),
        {
            "groups": OTHER_GROUPS,
            "per_cluster": 2,
            "weights": {"interest": 1.0},
            "attributes": OTHERS,
            "method": "two-stage",
            "candidates": 2,
            "bins": 4,
            "split": {"choice": 0.2, "inside": 0.4, "whole": 0.4},
        },
    ),
    (pel.ClusterHistograms(GROUPS, bins={"age": 4}), {"bins": {"age": (17.0, 40.0, 90.0)}}),
    (pel.Completeness("age"), {"feature": ["bmi", "age"]}),
    (pel.Distribution("age"), {"feature": ["age"], "bins": 4}),
    (pel.Distribution(OTHERS), {"feature": ["bmi", "age"], "bins": (0.0, 50.0, 100.0)}),
    (pel.FeatureInteraction(MODEL), {"model": OLDER, "feature": "age", "points": 2, "ranking": True, "groups": TWO}),
    (
        pel.LocalLinear(MODEL),
        {
            "model": OLDER,
            "record": RECORD,
            "method": "descent",
            "weight": "gaussian",
            "bandwidth": 2.0,
            "questions": 5,
            "within": 0.2,
            "steps": 100,
            "radius": 2.0,
            "centred": True,
            "accounting": "individual",
            "shape": (1, 9),
            "label": "somebody",
            "groups": TWO,
        },
    ),
    (pel.LocalLinear(MODEL, RECORD), {"record": {**RECORD, "age": 41}, "weight": "exp(-r)"}),
    (pel.PartialDependence(MODEL, "age"), {"model": OLDER, "feature": ("age",), "points": 5, "smooth": 3, "method": "variation"}),
    (pel.PartialDependence(MODEL, "age"), {"people": (Spread("sex", ("F", "M"), (), (0.25, 0.75)),)}),
    (
        pel.PartialDependence(MODEL, "age", people=(Spread("sex", ("F", "M"), (), (0.25, 0.75)),)),
        {"people": (Spread("sex", ("F", "M"), (), (0.5, 0.5)),)},
    ),
    (pel.PartialDependence(MODEL, "age", points=[20, 30]), {"points": [20, 31]}),
    (
        pel.PermutationImportance(MODEL, "smoker"),
        {
            "model": OLDER,
            "loss": "absolute",
            "features": OTHERS,
            "positive": True,
            "ranking": True,
            "repeats": 3,
            "cap": "range",
            "groups": TWO,
        },
    ),
    (pel.PermutationImportance(OLDER, "smoker", features=OTHERS), {"target": "children", "features": [tuple(OTHERS)]}),
    (pel.PrivateKMeans(2, OTHERS), {"k": 3, "features": ["bmi", "age"], "iterations": 3, "start": "grid", "seed": 1}),
    (
        pel.PrivatePlot(mean_age_by_sex, "sex", output=(17, 90)),
        {
            "function": larger_means,
            "x": ["F", "M"],
            "output": (0, 90),
            "blocks": 4,
            "default": 20.0,
            "uses": [OLDER],
            "limits": pel.Limits(seconds=5),
            "label": "sex",
            "ylabel": "age",
        },
    ),
    (pel.PrivatePlot(mean_age_by_sex, "sex", output=(17, 90), limits=pel.Limits()), {"limits": pel.Limits(memory=2**30)}),
    (
        pel.PrivateRanking(larger_means, ["age", "bmi", "lab"]),
        {
            "function": mean_age_by_sex,
            "items": ["bmi", "age", "lab"],
            "blocks": 4,
            "uses": [OLDER],
            "limits": pel.Limits(seconds=5),
        },
    ),
    (
        pel.ShapDependence(MODEL, "age", public_background=[RECORD]),
        {"model": OLDER, "feature": "bmi", "points": 4, "cap": 0.5, "public_background": [{**RECORD, "age": 41}], **SHAPLEY},
    ),
    (
        pel.ShapImportance(MODEL, public_background=[RECORD]),
        {"model": OLDER, "cap": "range", "public_background": [RECORD, RECORD], **SHAPLEY},
    ),
    (
        pel.ShapRanking(MODEL, RECORD),
        {
            "model": OLDER,
            "record": {**RECORD, "age": 41},
            "label": "somebody",
            "k": 2,
            "by": "signed",
            "magnitudes": True,
            "split": 0.25,
            "how": "values",
            **SHAPLEY,
        },
    ),
    (pel.ShapRanking(MODEL, public_background=[RECORD]), {"public_background": [{**RECORD, "age": 41}]}),
    (
        pel.ShapValues(MODEL, RECORD),
        {"model": OLDER, "record": {**RECORD, "bmi": 25.5}, "label": "somebody", "efficient": True, **SHAPLEY},
    ),
    (pel.ShapValues(MODEL, public_background=[RECORD]), {"public_background": [{**RECORD, "age": 41}]}),
    (pel.Statistic("age*bmi"), {"formula": "[age, bmi]", "aggregate": "sum"}),
]
"""An explainer, and another value for each of its public fields."""

SAME = [
    (pel.FeatureInteraction(MODEL), {"anyway": True}),
    (pel.PrivateKMeans(2, OTHERS), {"anyway": True}),
    # Blocks are the same ones and answered by themselves, however many are asked at a time.
    (pel.PrivatePlot(mean_age_by_sex, "sex", output=(17, 90)), {"limits": pel.Limits(workers=1)}),
    (pel.PrivateRanking(larger_means, ["age", "bmi", "lab"]), {"limits": pel.Limits(workers=1)}),
    # Kept as a plain whole number, and as a tuple of names.
    (pel.PartialDependence(MODEL, "age", points=5), {"points": np.int64(5)}),
    (pel.Distribution(OTHERS), {"feature": tuple(OTHERS)}),
]
"""Settings that are written in another way, or that cannot change what is released nor what is said of it."""


def public(schema=SCHEMA, **changed):
    return dataclasses.replace(Public(schema, "replace", Unit(), Spend("epsilon", Budget(epsilon=1.0).amount), 240), **changed)


def key(explainer, **changed):
    return request_of(explainer, public(**changed)).key


def each(listed):
    return [
        pytest.param(explainer, name, value, id=f"{type(explainer).__name__} {name} {i}")
        for i, (explainer, changes) in enumerate(listed)
        for name, value in changes.items()
    ]


def test_every_public_field_is_tried():
    tried = {}
    for explainer, changes in (*CHANGED, *SAME):
        tried.setdefault(type(explainer), set()).update(changes)
    for name in (n for n in pel.explainers.__all__ if n != "Explainer"):
        kind = getattr(pel, name)
        assert {f.name for f in dataclasses.fields(kind)} <= tried[kind], name


@pytest.mark.parametrize(("explainer", "name", "value"), each(CHANGED))
def test_another_setting_is_another_request(explainer, name, value):
    assert key(explainer) != key(dataclasses.replace(explainer, **{name: value}))


@pytest.mark.parametrize(("explainer", "name", "value"), each(SAME))
def test_a_setting_that_changes_nothing_is_no_other_request(explainer, name, value):
    assert key(explainer) == key(dataclasses.replace(explainer, **{name: value}))


class Twice:
    """A classifier of constant answers, so that nothing but its declarations tells two of them apart."""

    classes_ = np.array(["no", "yes"])

    def predict(self, rows):
        return np.full(len(rows), "yes")

    def predict_proba(self, rows):
        return np.full((len(rows), 2), 0.5)


BOX = {"features": ["age", "bmi"], "trained_on": "other data", "output": (0, 1), "input": "array", "name": "one"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("features", ["bmi", "age"]),
        ("features", ["age"]),
        ("trained_on", "this data"),
        ("trained_on", pel.PrivateTraining(1.0)),
        ("output", (0, 2)),
        ("input", "frame"),
        ("name", "another"),
        ("positive", "no"),
    ],
)
@pytest.mark.parametrize(
    "explained",
    [
        lambda m: pel.PartialDependence(m, "age"),
        lambda m: pel.LocalLinear(m, RECORD),
        lambda m: pel.PrivatePlot(mean_age_by_sex, "sex", output=(17, 90), uses=[m]),
    ],
)
def test_another_declaration_of_a_model_is_another_request(explained, name, value):
    assert key(explained(pel.Model(Twice(), **BOX))) != key(explained(pel.Model(Twice(), **{**BOX, name: value})))


@pytest.mark.parametrize(
    ("name", "value"), [("clusters", [0, 1, 2]), ("clusters", [1, 0]), ("features", ["age", "bmi"]), ("name", "another")]
)
def test_another_declaration_of_a_clustering_is_another_request(name, value):
    box = {"clusters": [0, 1], "features": ["age"], "trained_on": "other data", "name": "one"}
    assert key(pel.ClusterHistograms(pel.Clustering(labels, **box))) != key(
        pel.ClusterHistograms(pel.Clustering(labels, **{**box, name: value}))
    )


def test_a_declared_form_of_input_is_that_which_was_found():
    one, other = ({**BOX, "input": given} for given in (None, "frame"))
    assert key(pel.PartialDependence(pel.Model(older, **one), "age")) == key(
        pel.PartialDependence(pel.Model(older, **other), "age")
    )


def test_price_guess_and_schema_are_part_of_a_request():
    explainer = pel.Distribution("age")
    wider = pel.Schema({**dict(SCHEMA.items()), "age": pel.Number(17, 91, integer=True)})
    for other in (
        {"spend": Spend("epsilon", Budget(epsilon=2.0).amount)},
        {"spend": Spend("rho", Budget(epsilon=1.0).amount)},
        {"expected_rows": 10},
        {"schema": wider},
    ):
        assert key(explainer) != key(explainer, **other)


def session(**settings):
    return pel.Session(recording.table(), SCHEMA, budget=pel.Budget(epsilon=10.0), **settings)


@pytest.mark.parametrize(
    "make", [pel.Distribution, lambda f: pel.PartialDependence(MODEL, f), lambda f: pel.AccumulatedEffects(MODEL, f)]
)
@pytest.mark.parametrize("asked", [("age", ["age"]), (["age"], "age")])
def test_one_and_a_list_of_one_are_two_releases(make, asked):
    opened = session()
    first, second = (opened.release(make(feature), epsilon=1.0) for feature in asked)
    assert [isinstance(found, Several) for found in (first, second)] == [not isinstance(feature, str) for feature in asked]
    assert float(opened.spent) == 2.0


def test_a_model_with_other_features_is_not_answered_from_another_one():
    opened = session()
    wide, narrow = (pel.Model(older, output=(0, 1), features=f, trained_on="other data") for f in (["age", "bmi"], ["age"]))
    assert opened.release(pel.ShapValues(wide, RECORD), epsilon=1.0).features == ("age", "bmi")
    assert opened.release(pel.ShapValues(narrow, RECORD), epsilon=1.0).features == ("age",)
    assert float(opened.spent) == 2.0


def test_what_was_asked_is_still_answered_from_the_ledger(tmp_path):
    explainer = pel.PartialDependence(MODEL, ["age", "sex"])
    opened = session(name="ward", ledger=tmp_path / "ward.db", create=True)
    first = opened.release(explainer, epsilon=1.0)
    again = session(name="ward", ledger=tmp_path / "ward.db").release(
        pel.PartialDependence(recording.model(), ["age", "sex"]), epsilon=1.0
    )
    assert again.content() == first.content() and float(opened.spent) == 1.0


@pytest.fixture
def old(tmp_path):
    """The ledger of the version before, whose requests left out some of what was asked."""
    return recording.session_on(shutil.copy(Path(recording.__file__).parent / "ledger.db", tmp_path / "ledger.db"), "ward-ε")


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="fingerprints of functions hold bytecode, here that of Python 3.11")
class TestALedgerOfTheVersionBefore:
    def test_it_answers_what_it_was_asked(self, old):
        assert float(old.charge_for(pel.Distribution("age"), share=0.01)) == 0
        assert float(old.charge_for(pel.FeatureInteraction(recording.model(), points=2), share=0.01)) == 0

    @pytest.mark.parametrize("make", [pel.Distribution, lambda f: pel.PartialDependence(recording.model(), f)])
    def test_it_does_not_answer_a_list_with_one_of_its_entries(self, old, make):
        spent = float(old.spent)
        assert float(old.charge_for(make(["age"]), share=0.01)) > 0
        assert isinstance(old.release(make(["age"]), share=0.01), Several) and float(old.spent) == pytest.approx(spent + 1.0)

    def test_it_does_not_answer_a_model_with_other_features(self, old):
        wider = pel.Model(score, output=(0, 1), features=list(SCHEMA), trained_on="other data")
        found = old.release(pel.FeatureInteraction(wider, points=2, anyway=True), share=0.01)
        assert "smoker" in found.features

    def test_a_stream_about_other_features_is_another_stream(self, old):
        opened = recording.session_on(old.ledger.path, "ward-ρ")
        wider = pel.Model(score, output=(0, 1), features=list(SCHEMA), trained_on="other data")
        asked = [recording.model(), wider]
        same, other = (opened.open(pel.LocalLinear(m, **recording.STREAM_SETTINGS), share=0.05, name="counter") for m in asked)
        assert same.explain(recording.RECORDS[0], pay=False).source == "reused"
        with pytest.raises(pel.PlanError, match="nothing was answered yet"):
            other.explain(recording.RECORDS[0], pay=False)

    def test_what_was_paid_again_takes_the_place_of_the_old_answer(self, old):
        before = old.release(pel.Distribution("age"), share=0.01)
        fresh = old.release(pel.Distribution("age"), share=0.01, fresh=True)
        assert not np.array_equal(before.counts, fresh.counts)
        assert np.array_equal(old.release(pel.Distribution("age"), share=0.01).counts, fresh.counts)
