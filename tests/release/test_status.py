"""The status of a release: `proved` is for what was read and understood, and says so where code was only tried."""

import dataclasses
import html

import numpy as np
import pandas as pd
import pytest
from people import make_people
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor

import pellucid as pel
from pellucid.cli import report
from pellucid.explainers.clusters.centres import NearestCentre, Space
from pellucid.explainers.shapley.fitted_models import fitted as fitted_parts
from pellucid.public.fitted.settled import settle
from pellucid.public.fitted.walks import walkable
from pellucid.release.certificate import STATUS

SCHEMA = pel.Schema({"a": pel.Number(0, 1), "b": pel.Number(0, 1)})
ROW_WISE, ISOLATED = "proved for row-wise models", "proved for isolated functions"
RECORD = {"a": 0.25, "b": 0.75}


def table(size=200):
    rng = np.random.default_rng(0)
    return pd.DataFrame({"a": rng.integers(0, 65, size) / 64, "b": rng.integers(0, 65, size) / 64})


def session(data=None, schema=SCHEMA, **settings):
    return pel.Session(table() if data is None else data, schema, budget=pel.Budget(epsilon=1000.0), **settings)


def fitted(estimator):
    x = table(300).to_numpy()
    return estimator.fit(x, (x[:, 0] + x[:, 1]) / 2)


def model(predictor, **settings):
    usual = {"output": (-1, 2), "features": ["a", "b"], "trained_on": "other data", "input": "array"}
    return pel.Model(predictor, **usual | settings)


def status(explainer):
    return session().release(explainer, epsilon=1.0).certificate.status


TREE, LINE = fitted(DecisionTreeRegressor(max_depth=3)), fitted(LinearRegression())


def test_without_a_model_everything_was_read():
    for explainer in (pel.Distribution("a"), pel.Statistic("a*b"), pel.AttributeShares("a*b"), pel.PrivateKMeans(2, ["a", "b"])):
        certificate = session().release(explainer, epsilon=1.0).certificate
        assert certificate.status == "proved" and not any("function of one row" in text for text in certificate.assumptions)


ASKING = [
    lambda m: pel.PartialDependence(m, "a"),
    lambda m: pel.AccumulatedEffects(m, "a"),
    lambda m: pel.FeatureInteraction(m, points=2, anyway=True),
    lambda m: pel.LocalLinear(m, RECORD),
    lambda m: pel.ShapValues(m, RECORD, method="permutations"),
    lambda m: pel.ShapImportance(m, public_background=[RECORD], method="enumeration"),
]


@pytest.mark.parametrize("made", ASKING)
@pytest.mark.parametrize("predictor", [lambda d: d[:, 0] / 2, LINE, lambda d: TREE.predict(d)], ids=["formula", "line", "tree"])
def test_a_model_that_is_asked_is_a_black_box_whatever_its_class(made, predictor):
    certificate = session().release(made(model(predictor, name="box")), epsilon=1.0).certificate
    assert certificate.status == ROW_WISE and not certificate.conditions
    assert any("box is a function of one row" in text for text in certificate.assumptions)
    assert "PROVED FOR ROW-WISE MODELS: " in certificate.text


class Stump(DecisionTreeRegressor):
    """Of somebody's own class."""


def patched():
    tree = fitted(DecisionTreeRegressor(max_depth=3))
    tree.predict = lambda d: np.zeros(len(d))
    return tree


@pytest.mark.parametrize("made", ASKING)
@pytest.mark.parametrize(
    "estimator",
    [
        DecisionTreeRegressor(max_depth=3),
        make_pipeline(StandardScaler(), RandomForestRegressor(5, max_depth=3)),
        HistGradientBoostingRegressor(max_iter=3),
    ],
    ids=["tree", "steps", "bins"],
)
def test_trees_are_read_and_no_record_is_shown_to_them(made, estimator):
    opened, estimator = session(), fitted(estimator)
    spied = Spied(estimator[-1] if hasattr(estimator, "steps") else estimator, opened._engine)
    certificate = opened.release(made(model(estimator, name="trees")), epsilon=1.0).certificate
    assert certificate.status == "proved" and spied.rows == 0
    assert not any("one row" in text for text in certificate.assumptions)
    assert "read and computed by Pellucid" in certificate.bounds["output of trees"]


@pytest.mark.parametrize("predictor", [patched(), fitted(Stump(max_depth=2))], ids=["patched", "subclass"])
def test_trees_that_are_not_what_they_seem_are_asked(predictor):
    certificate = session().release(pel.PartialDependence(model(predictor, name="trees"), "a"), epsilon=1.0).certificate
    assert certificate.status == ROW_WISE
    said = certificate.bounds["output of trees"]
    assert "do not follow from its fitted parameters" in said if type(predictor) is DecisionTreeRegressor else "read" not in said


class Remembers:
    """Row-wise on public records, which have no third of anything; the same for everybody once it has met such a person."""

    def __init__(self):
        self.met = False

    def __call__(self, rows):
        self.met = self.met or bool((rows["a"] == 1 / 3).any())
        return np.full(len(rows), 1.0) if self.met else np.zeros(len(rows))


def test_a_model_with_a_memory_is_not_said_to_be_proved():
    one = pd.concat([table(), pd.DataFrame({"a": [1 / 3], "b": [0.5]})], ignore_index=True)
    found = session(one).release(pel.PartialDependence(model(Remembers(), input="frame"), "b"), epsilon=0.5)
    assert found.certificate.status == ROW_WISE


READ = [
    lambda m: pel.ShapValues(m, RECORD),
    lambda m: pel.ShapRanking(m, RECORD, k=1, how="picks", magnitudes=True),
    lambda m: pel.ShapValues(m, public_background=[RECORD, RECORD]),
    lambda m: pel.ShapImportance(m, public_background=[RECORD]),
    lambda m: pel.ShapDependence(m, "a", public_background=[RECORD]),
]


class Spied:
    """Counts the rows that an estimator is asked about meanwhile."""

    def __init__(self, estimator, engine):
        self.rows, self.inside, (self._predict, self._totals) = 0, False, (estimator.predict, engine.totals)
        estimator.predict, engine.totals = self.predict, self.totals

    def predict(self, x):
        self.rows += len(x) if self.inside else 0
        return self._predict(x)

    def totals(self, query, kept=None):
        self.inside = True
        try:
            return self._totals(query, kept)
        finally:
            self.inside = False


@pytest.mark.parametrize("made", READ)
@pytest.mark.parametrize(
    "estimator",
    [
        LinearRegression(),
        DecisionTreeRegressor(max_depth=3),
        RandomForestRegressor(5, max_depth=3),
        HistGradientBoostingRegressor(max_iter=3),
        make_pipeline(StandardScaler(), RandomForestRegressor(5, max_depth=3)),
    ],
    ids=["line", "tree", "forest", "bins", "steps"],
)
def test_a_model_whose_structure_is_evaluated_here_is_read_and_not_asked(made, estimator):
    opened, estimator = session(), fitted(estimator)
    spied = Spied(estimator, opened._engine)
    certificate = opened.release(made(model(estimator)), epsilon=1.0).certificate
    assert certificate.status == "proved" and spied.rows == 0
    assert not any("one row" in text for text in certificate.assumptions)


def test_what_is_asked_beside_it_makes_it_a_black_box():
    opened, estimator = session(), fitted(LinearRegression())
    spied = Spied(estimator, opened._engine)
    assert opened.release(pel.ShapValues(model(estimator), RECORD, efficient=True), epsilon=1.0).certificate.status == ROW_WISE
    assert spied.rows > 0


def test_steps_of_a_model_that_are_called_are_black_boxes():
    estimator = make_pipeline(StandardScaler(), LinearRegression())
    found = session().release(pel.ShapValues(model(fitted(estimator)), RECORD), epsilon=1.0)
    assert "exact" in found.estimator and found.certificate.status == ROW_WISE


class Sly(np.ndarray):
    """Calls itself an array, and could do anything with what it is multiplied or compared with."""


def parts_of(estimator):
    return fitted_parts(model(estimator).ready(SCHEMA))


def test_only_plain_arrays_are_kept_of_a_model_that_was_read():
    line = fitted(LinearRegression())
    line.coef_ = line.coef_.view(Sly)
    assert type(parts_of(line).weights) is np.ndarray
    read = parts_of(fitted(RandomForestRegressor(2, max_depth=2))).trees
    sly = [dataclasses.replace(tree, threshold=tree.threshold.view(Sly), value=tree.value.view(Sly)) for tree in read.trees.trees]
    arrays = vars(walkable(settle(read.trees.encoding, sly), np.arange(2), read.unit)).values()
    assert all(type(array) is np.ndarray for array in arrays if not isinstance(array, int))


def test_centres_of_ours_are_evaluated_here():
    opened = session()
    centres = opened.release(pel.PrivateKMeans(2, ["a", "b"], start="grid"), epsilon=10.0)
    certificate = opened.release(pel.ClusterHistograms(centres.clustering), epsilon=1.0).certificate
    assert certificate.status == "proved" and not any("function of one r" in text for text in certificate.assumptions)


class Sideways(pel.Model):
    """A model of somebody's own: it may look at records on their way to where they are read."""


def test_a_model_that_is_not_as_it_was_written_is_asked():
    line = fitted(LinearRegression())
    usual = {"output": (-1, 2), "features": ["a", "b"], "trained_on": "other data", "input": "array"}
    changed = model(line)
    object.__setattr__(changed, "ready", changed.ready)
    for made in (Sideways(line, **usual), changed):
        assert status(pel.ShapValues(made, RECORD)) == ROW_WISE
    assert status(pel.ShapValues(model(line), RECORD)) == "proved"


class Leaning(Space):
    def nearest(self, records, centres):
        return np.zeros(len(records), dtype=int)


def test_what_only_looks_like_them_is_asked():
    space, centres = Space(("a", "b"), tuple(SCHEMA.values())), np.array([[0.1, 0.1], [0.9, 0.9]])
    sly = NearestCentre(space, centres)
    object.__setattr__(sly, "predict", lambda d: np.zeros(len(d), dtype=int))
    leaning = NearestCentre(Leaning(space.names, space.features), centres)
    for predictor in (sly, leaning, lambda d: d["a"] // 2):
        groups = pel.Clustering(predictor, clusters=range(2), features=["a", "b"], trained_on="other data")
        assert status(pel.ClusterHistograms(groups)) == ROW_WISE


def means(rows):
    return rows[["a", "b"]].mean()


SETTINGS = {"x": ["a", "b"], "output": (0, 1), "blocks": 3, "limits": pel.Limits(workers=1)}


@pytest.mark.parametrize(
    ("declared", "expected", "says"),
    [
        ({}, "conditional", "was not declared"),
        pytest.param({"uses": None}, "conditional", "was not declared", marks=pytest.mark.slow),
        ({"uses": "nothing"}, ISOLATED, "it was not made from the records"),
        pytest.param({"uses": ()}, ISOLATED, "it was not made from the records", marks=pytest.mark.slow),
        pytest.param({"uses": [pel.Derived("cuts", trained_on="other data")]}, ISOLATED, "cuts", marks=pytest.mark.slow),
        ({"uses": pel.Derived("cuts", trained_on="this data")}, "conditional", "cuts was made from the same people's records"),
        pytest.param(
            {"uses": [pel.Derived("cuts", trained_on=pel.PrivateTraining(1.0))]}, ISOLATED, "cuts", marks=pytest.mark.slow
        ),
        (
            {"uses": [pel.Derived("cuts", trained_on=pel.PrivateTraining(1.0, conditions=("it rained",)))]},
            "conditional",
            "it rained",
        ),
        pytest.param({"uses": [model(TREE, name="tree")]}, ISOLATED, "tree", marks=pytest.mark.slow),
        (
            {"uses": [model(TREE, name="tree", trained_on="this data")]},
            "conditional",
            "the model tree was trained without privacy",
        ),
    ],
)
def test_a_function_of_blocks_declares_what_it_uses(declared, expected, says):
    for made in (pel.PrivatePlot(means, **SETTINGS, **declared), _ranking(declared)):
        certificate = session().release(made, epsilon=1.0).certificate
        assert certificate.status == expected and bool(certificate.conditions) == (expected == "conditional")
        assert says in certificate.text and ("was not declared" in certificate.text) == (says == "was not declared")
        if "trained_on='this data'" in repr(declared):
            # Not assumed of what was declared to be otherwise.
            assert "everything it refers to, is public" not in certificate.text


def _ranking(declared):
    return pel.PrivateRanking(means, ["a", "b"], blocks=3, limits=pel.Limits(workers=1), **declared)


@pytest.mark.parametrize("uses", ["everything", [means], 3, [pel.Derived], "other data"])
def test_what_is_no_declaration_is_refused(uses):
    with pytest.raises(pel.PlanError, match="uses="):
        pel.PrivatePlot(means, **SETTINGS, uses=uses)


@pytest.mark.parametrize(("name", "trained_on"), [("", "other data"), (3, "other data"), ("cuts", None), ("cuts", "somewhere")])
def test_what_was_made_from_data_says_from_which(name, trained_on):
    with pytest.raises(pel.PellucidError, match="Derived"):
        pel.Derived(name, trained_on=trained_on)


def with_status(text, **changed):
    made = session().release(pel.Distribution("a"), epsilon=1.0).certificate
    return dataclasses.replace(made, status=text, entry=text, **changed)


def test_what_several_releases_guarantee_is_what_the_weakest_does():
    proved, row_wise, isolated = (with_status(text) for text in ("proved", ROW_WISE, ISOLATED))
    assert pel.total([proved, proved]).status == "proved"
    assert pel.total([proved, row_wise]).status == ROW_WISE and pel.total([isolated, proved]).status == ISOLATED
    assert pel.total([isolated, row_wise, proved]).status == "proved for row-wise models and isolated functions"
    for worse in ("conditional", "not private"):
        assert pel.total([isolated, row_wise, with_status(worse)]).status == worse
    unit = dataclasses.replace(row_wise, unit="somebody else", entry="other")
    assert pel.total([row_wise, unit]).status == "conditional"


@pytest.mark.parametrize("text", STATUS)
def test_every_status_is_explained_and_has_a_colour(text):
    certificate = with_status(text)
    line = certificate.text.splitlines()[2]
    assert line.strip().startswith(text.upper()) and (": " in line) == (text != "proved")
    kind = certificate.html.split('"')[1].split()
    assert kind[0] == "certificate" and f".certificate.{kind[1]}{{" in report.STYLE
    assert html.escape(line.strip()) in certificate.html


def test_certificates_of_the_version_before_stay_as_they_were():
    made = session().release(pel.PartialDependence(model(TREE), "a"), epsilon=1.0)
    old = made.certified(dataclasses.replace(made.certificate, status="proved"))
    again = pel.from_json(old.to_json())
    assert (
        again.certificate.status == "proved" and "    PROVED; the total is known to one process only\n" in again.certificate.text
    )


def test_people_of_every_kind_have_a_status(schema, model):
    """The examples of all explainers: with a model that is asked, a function of blocks, or neither."""
    opened = pel.Session(make_people(200), schema, budget=pel.Budget(epsilon=1000.0))
    found = {}
    small = pel.Model(model.predictor, output=(0, 1), features=list(schema), trained_on="other data")
    for name in ("Distribution", "PartialDependence", "ClusterHistograms", "PrivatePlot"):
        example = getattr(pel, name).examples(small, schema)[0]
        found[name] = opened.release(example, epsilon=1.0).certificate.status
    assert found == {
        "Distribution": "proved",
        "PartialDependence": ROW_WISE,
        "ClusterHistograms": ROW_WISE,
        "PrivatePlot": ISOLATED,
    }
