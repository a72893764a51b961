"""What is settled about a Shapley release is settled once, in its plan: explainers keep nothing, and nothing is asked twice."""

import gc
import pickle
import weakref
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from checks import noise, public_for
from sources import Seeded

import pellucid as pel
from pellucid.explainers.shapley import base
from pellucid.explainers.shapley import scores as shapley_scores
from pellucid.explainers.shapley.results import (
    ShapDependenceResult,
    ShapImportanceResult,
    ShapRankingResult,
    ShapValuesResult,
)
from pellucid.query import Sum, scores, sensitivities

NAMES = ["a", "b", "c", "e"]
SCHEMA = pel.Schema({name: pel.Number(0, 1) for name in NAMES})
RECORD = {"a": 0.9, "b": 0.25, "c": 0.75, "e": 0.5}
PUBLIC = [RECORD, dict.fromkeys(NAMES, 0.5)]
MODEL = pel.Model(
    lambda d: 0.5 * d["a"] * d["b"] + 0.3 * np.maximum(d["c"], d["a"]) + 0.1 * d["e"],
    output=(0, 1),
    features=NAMES,
    trained_on="other data",
)
TALL = pel.Model(lambda d: d["a"] * d["b"], output=(0, 90), features=NAMES, trained_on="other data")
WIDE = pel.Schema({f"x{i}": pel.Number(0, 1) for i in range(60)})
WIDE_MODEL = pel.Model(lambda d: d["x0"], output=(0, 90), features=list(WIDE), trained_on="other data")


def table(schema=SCHEMA, rows=100):
    return pd.DataFrame(np.random.default_rng(0).random((rows, len(schema))), columns=list(schema))


def session(relation="replace", schema=SCHEMA, delta=0.0, **options):
    budget = pel.Budget(epsilon=10.0, delta=delta)
    return pel.Session(table(schema), schema, budget=budget, neighbors=relation, **options)


class Interrupted(Seeded):
    """Noise during whose draws something else happens."""

    def __init__(self, meanwhile):
        super().__init__(0)
        self.meanwhile = meanwhile

    def pick(self, scores, rate, flip):
        self.meanwhile()
        return super().pick(scores, rate, flip)


def guesses(assumptions):
    return [text for text in assumptions if "at least 400 records" in text]


@pytest.mark.parametrize("how", ["picks", None])
def test_who_plans_meanwhile_changes_no_certificate(how):
    """One explainer, two sessions: the guess that the first certificate rests on is no matter of the second, and vice versa."""
    explainer = pel.ShapRanking(MODEL, RECORD, k=1, how=how)
    secret, open_ = session("add-remove", expected_rows=400), session("replace")
    happened = []

    def elsewhere(other):
        def meanwhile():
            other.preview(explainer, epsilon=1.0)
            happened.append(guesses(other.plan(explainer, epsilon=1.0).assumptions))

        return meanwhile

    with noise(Interrupted(elsewhere(open_))):
        guessed = session("add-remove", expected_rows=400).release(explainer, epsilon=1.0)
    with noise(Interrupted(elsewhere(secret))):
        known = session("replace").release(explainer, epsilon=1.0)
    assert guessed.how == known.how == "picks" and happened[0] == [] and len(happened[-1]) == 1
    assert len(guesses(guessed.certificate.assumptions)) == 1 and guessed.guessed
    assert guesses(known.certificate.assumptions) == [] and not known.guessed


def test_a_drawing_is_that_of_its_plan():
    """Whichever plan came last: here picks resolve more under pure ε, and noisy values under zCDP."""
    explainer = pel.ShapRanking(MODEL, RECORD, k=1, magnitudes=True)
    pure, zcdp = (explainer.plan(public_for(SCHEMA, "replace", currency, 100)) for currency in ("epsilon", "rho"))
    assert pure.details.way == "picks" and tuple(pure.shares) == ("ranking", "magnitudes")
    assert zcdp.details.way == "values" and tuple(zcdp.shares) == ("ranking",)
    for plan in (pure, zcdp, pure):
        assert set(explainer.flow(plan).stages) == {*plan.shares, "explanation"}
    assert "magnitudes" in explainer.flow().stages


class Counts:
    """How often a query was built and calibrated meanwhile."""

    def __init__(self, monkeypatch):
        self.built = self.noise = self.choices = 0
        made, calibrate, calibrate_choice = Sum.__post_init__, sensitivities.calibrate, scores.calibrate_choice

        def build(query):
            self.built += 1
            made(query)

        def noisy(*arguments):
            self.noise += 1
            return calibrate(*arguments)

        def choice(*arguments):
            self.choices += 1
            return calibrate_choice(*arguments)

        monkeypatch.setattr(Sum, "__post_init__", build)
        monkeypatch.setattr(sensitivities, "calibrate", noisy)
        for module in (scores, shapley_scores):
            monkeypatch.setattr(module, "calibrate_choice", choice)

    @property
    def all(self):
        return self.built, self.noise, self.choices


ASKED = {
    "values": (lambda: pel.ShapValues(MODEL, RECORD), (1, 1, 0)),
    "values of one's own": (lambda: pel.ShapValues(MODEL, public_background=PUBLIC), (1, 1, 0)),
    "values and base": (lambda: pel.ShapValues(MODEL, RECORD, efficient=True), (2, 2, 0)),
    "ranking by picks": (lambda: pel.ShapRanking(MODEL, RECORD, k=2, how="picks"), (1, 0, 1)),
    "ranking by values": (lambda: pel.ShapRanking(MODEL, RECORD, k=2, how="values"), (1, 1, 0)),
    "ranking by values, with magnitudes": (lambda: pel.ShapRanking(MODEL, RECORD, k=2, how="values", magnitudes=True), (1, 1, 0)),
    "picks and magnitudes": (lambda: pel.ShapRanking(MODEL, RECORD, k=2, how="picks", magnitudes=True), (2, 1, 1)),
    # Both ways are worked out to be compared, each once; the better one is asked as it is.
    "ranking by the better way": (lambda: pel.ShapRanking(MODEL, RECORD, k=1), (2, 1, 1)),
    "ranking by the better way, values": (lambda: pel.ShapRanking(MODEL, RECORD, k=4, by="signed"), (2, 1, 1)),
    # One more question stands for the magnitudes in the comparison; which ones are asked for is known after the picks.
    "better way, with magnitudes": (lambda: pel.ShapRanking(MODEL, RECORD, k=1, magnitudes=True), (4, 3, 1)),
    "curve": (lambda: pel.ShapDependence(MODEL, "a", public_background=PUBLIC, cap="range"), (1, 1, 0)),
    "curve and what a cap hides": (lambda: pel.ShapDependence(MODEL, "a", public_background=PUBLIC, cap=0.5), (2, 2, 0)),
    "curve of a probability": (lambda: pel.ShapDependence(MODEL, "a", public_background=PUBLIC), (1, 1, 0)),
    # Two sets hold sizes with a cap on each; both are worked out, and the one with less noise is asked as it is.
    "sizes": (lambda: pel.ShapImportance(MODEL, public_background=PUBLIC, cap="range"), (2, 2, 0)),
    "sizes and what a cap hides": (lambda: pel.ShapImportance(MODEL, public_background=PUBLIC, cap=0.5), (3, 3, 0)),
}


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("relation", ["replace", "add-remove"])
def test_queries_are_built_and_calibrated_once(asked, relation, monkeypatch):
    make, expected = ASKED[asked]
    opened, explainer = session(relation, expected_rows=100), make()
    counts = Counts(monkeypatch)
    found = opened.release(explainer, epsilon=1.0)
    assert counts.all == expected and found.certificate.status == "proved for row-wise models"


@pytest.mark.parametrize(("schema", "model", "norm"), [(SCHEMA, TALL, "L∞"), (WIDE, WIDE_MODEL, "L1")])
def test_sizes_with_a_private_cap_are_asked_once(schema, model, norm, monkeypatch):
    """Four sums decide which length is capped, one or two at its top how many people may lie above, and as many what noise there
    is; two choices, one to find out how sharp it is. Then cap, sizes and what the cap hides."""
    explainer = pel.ShapImportance(model, public_background=[dict.fromkeys(schema, 0.5)], permutations=2)
    opened = pel.Session(table(schema, 3000), schema, budget=pel.Budget(epsilon=10.0))
    counts = Counts(monkeypatch)
    plan = opened.plan(explainer, epsilon=1.0)
    sets = 2 if norm == "L∞" else 1
    assert plan.details.norm == norm and counts.all == (4 + 2 * sets + 2, 4 + 2 * sets, 2)
    assert set(plan.shares) == {"cap", "sizes", "beyond"}


def test_previews_compute_what_the_plan_left_out(monkeypatch):
    """Of a plan that compared both ways everything is taken; only advice asks about a first place of its own."""
    explainer = pel.ShapRanking(MODEL, RECORD, k=2)
    plan = session().plan(explainer, epsilon=1.0)
    counts = Counts(monkeypatch)
    explainer.expected(plan)
    assert counts.all == (1, 0, 1)


@pytest.mark.parametrize(
    "explainer",
    [
        pel.ShapValues(MODEL, RECORD, efficient=True),
        pel.ShapRanking(MODEL, RECORD, k=2, magnitudes=True),
        pel.ShapImportance(MODEL, public_background=PUBLIC),
        pel.ShapDependence(MODEL, "a", public_background=PUBLIC),
    ],
    ids=lambda e: type(e).__name__,
)
def test_explainers_keep_nothing(explainer):
    before, bytes_before = dict(vars(explainer)), len(pickle.dumps({**vars(explainer), "model": None}))
    account = session()
    account.preview(explainer, epsilon=1.0)
    account.cost_for(explainer, error=0.5)
    account.release(explainer, epsilon=1.0)
    assert vars(explainer) == before and len(pickle.dumps({**vars(explainer), "model": None})) == bytes_before


def test_an_estimator_is_chosen_once_and_goes_with_its_explainer(monkeypatch):
    """Fifty plans of a price ask the model once about the record; nothing about a record outlives the explainer."""
    asked = []
    own = base.estimator_for

    def counting(*arguments, **options):
        asked.append(1)
        return own(*arguments, **options)

    monkeypatch.setattr(base, "estimator_for", counting)
    explainer = pel.ShapValues(MODEL, RECORD)
    account = session()
    account.cost_for(explainer, error=0.02)
    account.release(explainer, epsilon=1.0)
    assert len(asked) == 1
    another = pel.Schema({**SCHEMA, "a": pel.Number(0, 2)})
    assert explainer.chosen(another) is not explainer.chosen(SCHEMA) and len(asked) == 3
    gone, where = weakref.ref(explainer.chosen(SCHEMA)), id(explainer)
    assert where in base._estimators
    del explainer
    gc.collect()
    assert where not in base._estimators and gone() is None


@pytest.mark.parametrize("currency", ["epsilon", "rho"])
def test_picks_flip_under_pure_epsilon(currency):
    """What results by values say of picks is what picks would have been."""
    public = public_for(SCHEMA, "replace", currency, 100, Fraction(1))
    for by in ("size", "signed"):
        picking = pel.ShapRanking(MODEL, RECORD, k=2, how="picks", by=by).plan(public)["ranking"]
        assert picking.how.flip is (currency == "epsilon")


def test_results_have_the_columns_of_all_results():
    account = session()
    found = {
        ShapValuesResult: account.release(pel.ShapValues(MODEL, RECORD), epsilon=1.0),
        ShapRankingResult: account.release(pel.ShapRanking(MODEL, RECORD, k=3, how="values"), epsilon=1.0),
        ShapImportanceResult: account.release(pel.ShapImportance(MODEL, public_background=PUBLIC), epsilon=1.0),
        ShapDependenceResult: account.release(pel.ShapDependence(MODEL, "a", public_background=PUBLIC), epsilon=1.0),
    }
    more = {
        ShapValuesResult: ["tier"],
        ShapRankingResult: ["place", "tier"],
        ShapImportanceResult: ["tier"],
        ShapDependenceResult: ["count"],
    }
    for kind, result in found.items():
        frame, (lower, upper) = result.to_frame(), result.interval()
        place = ["x"] if kind is ShapDependenceResult else []
        assert type(result) is kind and list(frame) == ["feature", *place, "value", "lower", "upper", *more[kind]]
        assert sorted(frame["lower"]) == sorted(lower) and sorted(frame["upper"]) == sorted(upper)
        assert ((frame["lower"] <= frame["value"]) & (frame["value"] <= frame["upper"])).all()
    values = found[ShapValuesResult]
    assert tuple(values.to_frame()["feature"]) == values.ranking
    named = account.release(pel.ShapRanking(MODEL, RECORD, k=3, how="picks"), epsilon=1.0).to_frame()
    assert list(named) == ["feature", "value", "lower", "upper", "place", "tier"] and list(named["place"]) == [1, 2, 3]
    assert named[["value", "lower", "upper"]].isna().all(axis=None) and set(named["tier"]) == {1}


def test_names_and_positions_of_before():
    """Third arguments by position are taken with a warning, and requests are stored under the names they had."""
    with pytest.warns(DeprecationWarning, match="k= by keyword"):
        assert pel.ShapRanking(MODEL, RECORD, 3) == pel.ShapRanking(MODEL, RECORD, k=3)
    with pytest.warns(DeprecationWarning, match="points= by keyword"):
        assert pel.ShapDependence(MODEL, "a", 4, public_background=PUBLIC).points == 4
    for explainer in (pel.ShapValues, pel.ShapRanking, pel.ShapImportance, pel.ShapDependence):
        module = explainer.__module__.rsplit(".", 1)[1]
        assert explainer.stored_name() == f"pellucid.explainers.{module}.{explainer.__name__}"
