"""Every estimator agrees with enumeration and with shap, keeps the axioms, and needs one row at a time."""

import itertools
import math
import pickle

import numpy as np
import pandas as pd
import pytest
from games import by_orders
from people import make_people
from sklearn import ensemble, linear_model, neural_network, tree
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler
from threadpoolctl import threadpool_limits

import pellucid as pel
from pellucid.engine import LocalEngine
from pellucid.errors import PlanError, SchemaError
from pellucid.explainers.shapley import coalitions, trees
from pellucid.explainers.shapley.bound import ShapleyVectors
from pellucid.explainers.shapley.coalitions import Enumerated, Mixtures, enumeration, kernel_design, positions
from pellucid.explainers.shapley.estimator import estimator_for
from pellucid.explainers.shapley.fitted_models import fitted
from pellucid.public.records import asked_record
from pellucid.public.rows import Rows
from pellucid.query import Sum
from pellucid.query.reviewed import reviewed_classes

NUMBERS, WORDS = ["age", "children", "bmi", "lab"], ["sex", "school"]
ASKED = {"age": 71, "children": 4, "bmi": 33.3, "lab": 2.0, "sex": "M", "school": "none", "smoker": True}


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Histogram boosting asks for all cores on every call, and waits for them."""
    with threadpool_limits(1):
        yield


@pytest.fixture(scope="module")
def plain(schema):
    """The same features, with a number for a missing laboratory value: not every model takes NaN."""
    return pel.Schema({**schema, "lab": pel.Number(0, 5)})


@pytest.fixture(scope="module")
def target(people):
    d = people.iloc[:600]
    return d["age"] / 50 + d["bmi"] * (d["sex"] == "M") / 30 + (d["school"] == "none") * d["smoker"] + d["lab"].fillna(1.0) / 3


def encoder(scaled=True):
    return ColumnTransformer(
        [("n", StandardScaler() if scaled else "passthrough", NUMBERS), ("w", OneHotEncoder(sparse_output=False), WORDS)],
        remainder="passthrough",
    )


def of(predictor, schema, output=(-10, 20), **options):
    return pel.Model(predictor, output=output, features=list(schema), trained_on="other data", **options)


def rows_of(schema, size=24, seed=5):
    return Rows(schema, schema.sample(size, seed))


def truth(model, record, rows):
    return Enumerated(model, asked_record(record, model, rows.schema))(rows)


def compare(model, rows, record=ASKED, **options):
    """The chosen estimator against enumeration, over all the features of the model."""
    chosen = estimator_for(model, rows.schema, record, **options)
    exact = truth(model, record, rows)
    names = list(model.ready(rows.schema).features)
    found = np.zeros_like(exact)
    found[:, [names.index(name) for name in chosen.features]] = chosen(rows)
    assert set(chosen.features) | set(chosen.unused) == set(names)
    return chosen, found, exact


def test_enumeration_is_the_definition(model, schema):
    rows = rows_of(schema, 3)
    found = truth(model, ASKED, rows)
    mixtures = Mixtures(model, asked_record(ASKED, model, schema), schema)
    background = positions(rows, mixtures.names)
    for i in range(3):
        masks = (np.arange(128)[:, None] >> np.arange(7)) & 1 == 1
        game = mixtures.answers([np.where(masks[:, j], mixtures.asked[j], background[i, j]) for j in range(7)])
        assert np.allclose(by_orders(game, 7), found[i])


@pytest.mark.parametrize("kind", ["enumeration", "permutations", "kernel"])
def test_the_axioms(kind):
    """Efficiency for every record, nothing for a feature without a part, equal parts for features that do the same."""
    names = ["a", "b", "c", "idle"]
    schema = pel.Schema({name: pel.Number(0, 1) for name in names})
    model = pel.Model(lambda d: np.maximum(d["a"] * d["b"], d["c"]), output=(0, 1), features=names, trained_on="other data")
    rows = rows_of(schema)
    rows.columns["b"] = rows.columns["a"]
    chosen = estimator_for(model, schema, {"a": 0.9, "b": 0.9, "c": 0.2, "idle": 1.0}, method=kind, permutations=8, samples=12)
    found = chosen(rows)
    assert np.allclose(found.sum(axis=1), chosen.prediction - rows.predict(model), atol=1e-12)
    if kind != "kernel":  # a regression on a part of the coalitions shares its error among all features
        assert np.abs(found[:, 3]).max() < 1e-12
    if kind == "enumeration":
        assert np.allclose(found[:, 0], found[:, 1])


def test_permutations_converge_and_all_of_them_are_exact(model, schema):
    rows = rows_of(schema, 400)
    errors = {}
    for count in (2, 8, 128):
        chosen, found, exact = compare(model, rows, method="permutations", permutations=count)
        errors[count] = np.sqrt(((found - exact) ** 2).mean())
        assert not chosen.exact and np.abs((found - exact).mean(axis=0)).max() < 5 * errors[count] / math.sqrt(400)
    assert errors[128] < errors[8] < errors[2] and errors[128] < errors[2] / 5
    _, found, exact = compare(model, rows, method="permutations", permutations=math.factorial(7))
    assert np.allclose(found, exact)


def test_errors_of_different_records_average_out(model, schema):
    """The orders follow from a public hash of the record: with one group for all, the error of the mean would stay."""
    rows = rows_of(schema, 1500)
    exact = truth(model, ASKED, rows)
    record = asked_record(ASKED, model, schema)
    error = {
        groups: np.abs((coalitions.Permuted(model, record, 2, 1, groups)(rows) - exact).mean(axis=0)).max() for groups in (1, 64)
    }
    assert error[64] < error[1] / 3
    same = rows.take(np.array([4, 4, 9]))
    found = coalitions.Permuted(model, record)(same)
    assert np.array_equal(found[0], found[1]) and np.allclose(found[2], coalitions.Permuted(model, record)(rows)[9])


@pytest.mark.parametrize("samples", [40, 126, 500])
def test_kernel_regression(model, schema, samples):
    rows = rows_of(schema)
    _, found, exact = compare(model, rows, method="kernel", samples=samples)
    assert np.allclose(found.sum(axis=1), exact.sum(axis=1))
    # 126 inner coalitions are all there are.
    assert np.abs(found - exact).max() < (1e-10 if samples >= 126 else 0.1)


def test_kernel_regression_is_least_squares():
    """The weights are those of the constrained problem, solved here by its equations."""
    d, design = 6, kernel_design(6, 30, 3)
    masks, y = design.masks[:-1].astype(float), np.random.default_rng(0).random(len(design.masks))
    full = 0.7
    found = y @ design.weights + full * design.full
    rng = np.random.Generator(np.random.PCG64(3))
    chance = 1 / (np.arange(1, d) * (d - np.arange(1.0, d)))
    size = np.searchsorted(np.cumsum(chance / chance.sum())[:-1], rng.random(15), side="right") + 1
    drawn = rng.random((15, d)).argsort(axis=1).argsort(axis=1) < size[:, None]
    drawn = np.concatenate([drawn, ~drawn])
    count = np.array([(drawn == mask.astype(bool)).all(axis=1).sum() for mask in masks])
    assert count.sum() == 30
    system = np.block([[(masks * count[:, None]).T @ masks, np.ones((d, 1))], [np.ones((1, d)), np.zeros((1, 1))]])
    right = np.append((masks * count[:, None]).T @ (y[:-1] - y[-1]), full - y[-1])
    assert np.allclose(np.linalg.solve(system, right)[:d], found)
    with pytest.raises(PlanError, match="too few"):
        kernel_design(30, 10, 0)


@pytest.mark.parametrize("d", [2, 4, 6])
def test_shapley_design_is_attained(d):
    """0/1 answers by the signs of the weights reach L∞, spread and pair; nothing exceeds any size; the L2 bound is close."""
    design = kernel_design(d, 4 * d, 1) if d > 2 else enumeration(2)
    radii, b = design.radii(), design.weights
    rng = np.random.default_rng(0)
    axes = [np.eye(d)[i] + s * np.eye(d)[j] for i, j in itertools.permutations(range(d), 2) for s in (1, -1)]
    directions = [*np.eye(d), *axes, *rng.standard_normal((200, d))]
    sizes = []
    for u in directions:
        centred = np.sign(b @ u) @ b / 2
        size = np.sort(np.abs(centred))[::-1]
        sizes.append([size[0], size.sum(), np.linalg.norm(centred), np.ptp(centred), size[:2].sum()])
    best = dict(zip(vars(radii), np.max(sizes, axis=0)))
    for name in ("linf", "spread", "pair"):
        assert best[name] == pytest.approx(getattr(radii, name))
    assert 0.6 * radii.l1 <= best["l1"] <= radii.l1 + 1e-12 and 0.7 * radii.l2 <= best["l2"] <= radii.l2 + 1e-12


def test_a_kernel_bound_of_its_own_clips_nothing(model, schema):
    """With the sizes of its design, a regression on few coalitions is rounded and not clipped, even for a wild model."""

    def parity(d):
        whole = d["age"] + (7 * d["bmi"]).astype(int) + d["children"] + (d["sex"] == "M") + d["smoker"] + (d["school"] == "none")
        return whole % 2

    wild = of(parity, schema, output=(0, 1))
    rows = rows_of(schema)
    chosen = estimator_for(wild, schema, ASKED, method="kernel", samples=30)
    for own, close in ((True, True), (False, False)):
        bound = chosen.bound(ranked=True, own_sizes=own)
        kept = bound.unit * (bound.integers(chosen(rows)) + bound.offset)
        assert np.allclose(kept, chosen(rows), atol=2 * bound.unit) is close
    with pytest.raises(PlanError, match="kernel method"):
        estimator_for(wild, schema, ASKED).bound(own_sizes=True)


LINEAR = [linear_model.LinearRegression(), linear_model.Lasso(0.05)]


@pytest.mark.parametrize("core", LINEAR, ids=lambda core: type(core).__name__)
def test_linear_models(core, plain, people, target):
    fitted_model = make_pipeline(encoder(), core).fit(people.iloc[:600].fillna(1.0), target)
    chosen, found, exact = compare(of(fitted_model, plain), rows_of(plain))
    assert chosen.method == "linear" and chosen.exact and np.allclose(found, exact, atol=1e-9)


def test_features_without_a_part_are_left_out(plain, people, target):
    fitted_model = make_pipeline(encoder(), linear_model.Lasso(0.1)).fit(people.iloc[:600].fillna(1.0), target)
    chosen = estimator_for(of(fitted_model, plain), plain, ASKED)
    assert chosen.unused and chosen.bound().length == len(chosen.features) < 7


def test_linear_models_that_may_be_clipped_are_asked_instead(plain, people, target):
    fitted_model = make_pipeline(encoder(), linear_model.Ridge()).fit(people.iloc[:600].fillna(1.0), target)
    found = pel.sensitivity.output_range(fitted_model, plain, features=list(plain))
    chosen, vectors, exact = compare(of(fitted_model, plain, output=tuple(found)), rows_of(plain))
    assert chosen.method == "linear" and np.allclose(vectors, exact, atol=1e-9)
    narrow = of(fitted_model, plain, output=(found.lo, found.hi - 0.1 * found.width))
    chosen, vectors, exact = compare(narrow, rows_of(plain))
    assert chosen.method == "enumeration" and np.allclose(vectors, exact)
    with pytest.raises(PlanError, match="outside its declared range"):
        estimator_for(narrow, plain, ASKED, method="linear")
    asked = estimator_for(narrow, plain, ASKED, permutations=4)
    assert asked.method == "permutations" and "do not add up" in asked.why and "4 public permutations" in asked.why


REGRESSORS = [
    tree.DecisionTreeRegressor(max_depth=6),
    tree.ExtraTreeRegressor(max_depth=6, random_state=0),
    ensemble.RandomForestRegressor(7, max_depth=6, random_state=0),
    ensemble.ExtraTreesRegressor(7, max_depth=6, random_state=0),
    ensemble.BaggingRegressor(n_estimators=5, max_features=0.5, random_state=0),
    ensemble.GradientBoostingRegressor(n_estimators=15, random_state=0),
    ensemble.HistGradientBoostingRegressor(max_iter=15, random_state=0),
]


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "by levels"])
@pytest.mark.parametrize("core", REGRESSORS, ids=lambda core: type(core).__name__)
def test_tree_regressors(core, compiled, plain, people, target, monkeypatch):
    """One-hot columns move together, thresholds are compared in the precision of the model, missing values go their way."""
    if not compiled:
        monkeypatch.setattr(trees, "compiled", lambda: None)
    fitted_model = make_pipeline(encoder(False), core).fit(people.iloc[:600].fillna(1.0), target)
    chosen, found, exact = compare(of(fitted_model, plain), rows_of(plain))
    assert chosen.method == "trees" and np.abs(found - exact).max() < 1e-9


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "by levels"])
def test_missing_values_and_categories_in_trees(compiled, schema, people, target, monkeypatch):
    if not compiled:
        monkeypatch.setattr(trees, "compiled", lambda: None)
    codes = ColumnTransformer([("w", OrdinalEncoder(), WORDS)], remainder="passthrough")
    binned = ensemble.HistGradientBoostingRegressor(max_iter=15, categorical_features=[0, 1], random_state=0)
    forest = ensemble.RandomForestRegressor(5, max_depth=6, random_state=0)
    for core in (binned, forest):
        fitted_model = make_pipeline(codes, core).fit(people.iloc[:600], target)
        for record in ({**ASKED, "lab": None}, {**ASKED, "age": 20, "lab": 0.1}):
            chosen, found, exact = compare(of(fitted_model, schema), rows_of(schema, 60), record)
            assert chosen.method == "trees" and np.abs(found - exact).max() < 1e-9


def test_forests_of_classifiers(plain, people):
    d = people.iloc[:600].fillna(1.0)
    for core in (
        ensemble.RandomForestClassifier(9, max_depth=6, random_state=0),
        ensemble.ExtraTreesClassifier(9, max_depth=6, random_state=0),
        tree.DecisionTreeClassifier(max_depth=5),
    ):
        fitted_model = make_pipeline(encoder(), core).fit(d, d["school"])
        model = pel.Model(fitted_model, positive="secondary", features=list(plain), trained_on="other data")
        chosen, found, exact = compare(model, rows_of(plain))
        assert chosen.method == "trees" and np.abs(found - exact).max() < 1e-9


def test_what_does_not_add_up_is_asked(plain, people, target):
    d = people.iloc[:300].fillna(1.0)
    label, amount = target[:300] > target.median(), target[:300]
    for core, y, words in (
        (ensemble.GradientBoostingClassifier(n_estimators=5), label, "link function"),
        (ensemble.HistGradientBoostingRegressor(loss="poisson", max_iter=5), amount, "link function"),
        (linear_model.LogisticRegression(), label, "neither linear nor"),
        (neural_network.MLPRegressor(hidden_layer_sizes=(4,), max_iter=5, random_state=0), amount, "neither linear nor"),
    ):
        fitted_model = make_pipeline(encoder(), core).fit(d, y)
        model = of(fitted_model, plain, output=None if y is label else (-10, 20))
        chosen = estimator_for(model, plain, ASKED, permutations=2)
        assert chosen.method == "permutations" and words in chosen.why
        assert estimator_for(model, plain, ASKED).method == "enumeration"
        with pytest.raises(PlanError, match="cannot be used"):
            estimator_for(model, plain, ASKED, method="trees")


def test_agreement_with_shap():
    """Interventional values of the shap package, for trees and a linear model: read off, and by asking as for a black box."""
    shap = pytest.importorskip("shap")
    rng = np.random.default_rng(0)
    x = rng.random((300, 6)).astype(np.float32).astype(float)
    y = 3 * x[:, 0] + x[:, 1] * x[:, 2] + (x[:, 3] > 0.4) * x[:, 4]
    schema = pel.Schema({f"f{j}": pel.Number(0, 1) for j in range(6)})
    asked, background = x[299], x[:50]
    rows = Rows(schema, {f"f{j}": background[:, j] for j in range(6)})
    masker = shap.maskers.Independent(background, max_samples=50)
    for core in (
        ensemble.RandomForestRegressor(20, max_depth=7, random_state=0),
        ensemble.GradientBoostingRegressor(n_estimators=30),
        linear_model.LinearRegression(),
    ):
        core.fit(x, y)
        model = of(core, schema, output=(-50, 50), input="array")
        chosen, found, by_asking = compare(model, rows, dict(zip(schema, asked)))
        if chosen.method == "trees":
            theirs = shap.TreeExplainer(core, masker, feature_perturbation="interventional").shap_values(asked[None])[0]
        else:
            theirs = shap.LinearExplainer(core, masker).shap_values(asked[None])[0]
        for ours in (found, by_asking):
            assert np.abs(ours.mean(axis=0) - theirs).max() < 1e-5


@pytest.mark.parametrize("method", ["enumeration", "permutations", "kernel", None])
def test_every_vector_belongs_to_its_record(method, plain, people, target):
    """Row by row, in another order or all at once: the same, whatever is held in memory at a time."""
    fitted_model = make_pipeline(encoder(), ensemble.RandomForestRegressor(5, max_depth=5)).fit(
        people.iloc[:600].fillna(1.0), target
    )
    chosen = estimator_for(of(fitted_model, plain), plain, ASKED, method=method, samples=40)
    rows = rows_of(plain, 30)
    whole, order = chosen(rows), np.random.default_rng(0).permutation(30)
    assert np.allclose(chosen(rows.take(order)), whole[order], atol=1e-12)
    assert np.allclose([chosen(rows.take(np.array([i])))[0] for i in range(4)], whole[:4], atol=1e-12)


def weighted(d):
    """A model whose own arithmetic is the same for every record, wherever it stands."""
    return d["age"] * 0.013 + d["bmi"] * 0.037 + d["children"] * 0.11 + d["lab"] * 0.071


@pytest.mark.parametrize("method", ["enumeration", "permutations", "kernel", "linear", "trees"])
def test_a_vector_is_the_same_to_the_last_bit_in_every_batch(method, plain):
    """Sums over records are exact integers of rounded values: a bit that depends on the batch would move them for everybody."""
    columns = pel.Schema({name: plain[name] for name in NUMBERS})
    sample = np.column_stack(list(columns.sample(300, seed=2).values()))
    made = {"linear": linear_model.LinearRegression(), "trees": ensemble.RandomForestRegressor(5, max_depth=5)}.get(method)
    predictor = weighted if made is None else made.fit(sample, sample @ [0.013, 0.11, 0.037, 0.071])
    box = pel.Model(predictor, output=(-5, 10), features=NUMBERS, trained_on="other data", input="array" if made else "frame")
    chosen = estimator_for(box, columns, {name: ASKED[name] for name in NUMBERS}, method=method, samples=200)
    rows = rows_of(columns, 700)
    whole = chosen(rows)
    for size in (1, 2, 3, 7, 100, 511):
        pieces = [chosen(rows.take(np.arange(i, min(i + size, 700)))) for i in range(0, 700, size)]
        assert np.array_equal(np.concatenate(pieces), whole), size


@pytest.mark.parametrize("method", ["enumeration", "permutations", "kernel"])
def test_memory_is_bounded(method, model, schema, monkeypatch):
    rows = rows_of(schema, 25)
    chosen = estimator_for(model, schema, ASKED, method=method, samples=40)
    whole = chosen(rows)
    largest = []
    original = coalitions.Mixtures.answers
    monkeypatch.setattr(coalitions, "CELLS", 700)
    monkeypatch.setattr(
        coalitions.Mixtures, "answers", lambda self, columns: largest.append(columns[0].size * 7) or original(self, columns)
    )
    assert np.allclose(chosen(rows), whole, atol=1e-12) and max(largest) <= 700


def test_few_and_many_features():
    one = pel.Schema({"x": pel.Number(0, 1)})
    for method in ("enumeration", "permutations", "kernel", None):
        model = pel.Model(lambda d: d["x"] ** 2, output=(0, 1), features=["x"], trained_on="other data")
        rows = rows_of(one)
        found = estimator_for(model, one, {"x": 0.5}, method=method)(rows)
        assert np.allclose(found[:, 0], 0.25 - rows["x"] ** 2)
    many = pel.Schema({f"f{j}": pel.Number(0, 1) for j in range(500)})
    weights = np.linspace(-1, 1, 500)
    model = pel.Model(
        lambda a: (a @ weights + 130) / 260, output=(0, 1), features=list(many), trained_on="other data", input="array"
    )
    rows = rows_of(many, 20)
    chosen = estimator_for(model, many, dict.fromkeys(many, 0.5))
    assert chosen.method == "permutations" and "2 public permutations" in chosen.why
    background = positions(rows, list(many))
    assert np.allclose(chosen(rows), weights * (0.5 - background) / 260, atol=1e-9)
    assert chosen.bound().totals(chosen(rows)) == [int(v) for v in chosen.bound().integers(chosen(rows)).sum(axis=0)]


def test_constant_models_and_equal_records(schema):
    constant = pel.Model(lambda d: np.full(len(d), 0.3), output=(0, 1), features=list(schema), trained_on="other data")
    rows = rows_of(schema, 5)
    for method in ("enumeration", "permutations", "kernel"):
        assert np.abs(estimator_for(constant, schema, ASKED, method=method, samples=60)(rows)).max() < 1e-12
    stump = tree.DecisionTreeRegressor().fit(np.zeros((4, 2)), np.ones(4))
    two = pel.Schema({"a": pel.Number(0, 1), "b": pel.Number(0, 1)})
    model = pel.Model(stump, output=(0, 2), features=["a", "b"], trained_on="other data", input="array")
    chosen = estimator_for(model, two, {"a": 1.0, "b": 0.5})
    assert chosen.method == "trees" and len(chosen.features) == 2 and not chosen(rows_of(two)).any()
    assert chosen(rows_of(two).take(np.array([], dtype=int))).shape == (0, 2)


def test_the_record_asked_about(model, schema):
    full = dict(asked_record(pd.Series(ASKED), model, schema))
    assert full == dict(asked_record(ASKED, model, schema)) and full["sex"] == 1 and full["age"] == 71
    declared = pel.Schema({**schema, "age": pel.Number(17, 90, missing=40), "sex": pel.Category(["F", "M"], missing="M")})
    for given in (None, float("nan"), pd.NA, np.float64("nan")):
        found = dict(asked_record({**ASKED, "age": given, "sex": given, "lab": given}, model, declared))
        assert found["age"] == 40 and found["sex"] == 1 and math.isnan(found["lab"])
        with pytest.raises(SchemaError, match="no value for 'age', 'sex', and the schema declares none"):
            asked_record({**ASKED, "age": given, "sex": given, "lab": given}, model, schema)
    with pytest.raises(SchemaError, match="'age', 'children', 'bmi', 'sex', 'school', …"):
        asked_record({}, model, schema)
    some = pel.Model(lambda d: d["age"] / 100, output=(0, 1), features=["age"], trained_on="other data")
    assert asked_record(ASKED, some, schema) == (("age", 71.0),)
    for wrong, words in (
        ({"agee": 3}, "did you mean 'age'"),
        ({"sex": "X"}, "not one of the declared"),
        ({"age": 200}, "outside the declared bounds"),
        ({"age": 20.5}, "whole number"),
        ({"bmi": "heavy"}, "not a number"),
        ([1, 2], "give a dict"),
    ):
        with pytest.raises(SchemaError, match=words):
            asked_record(wrong, model, schema)


def test_wrong_options_are_refused(model, schema):
    for options, words in (
        ({"method": "magic"}, "use one of"),
        ({"method": "permutations", "permutations": 3}, "even number"),
        ({"method": "permutations", "seed": -1}, "seed"),
    ):
        with pytest.raises(PlanError, match=words):
            estimator_for(model, schema, ASKED, **options)
    many = pel.Schema({f"f{j}": pel.Number(0, 1) for j in range(13)})
    model = pel.Model(lambda d: d["f0"], output=(0, 1), features=list(many), trained_on="other data")
    with pytest.raises(PlanError, match="at most 12"):
        estimator_for(model, many, dict.fromkeys(many, 0.5), method="enumeration")


def test_a_whole_sum(model, schema):
    """Through the engine: exact totals of clipped vectors give back the mean vector, and estimators can be pickled."""
    people = make_people(300, seed=3)
    assert ShapleyVectors in reviewed_classes()
    chosen = estimator_for(model, schema, ASKED)
    bound = chosen.bound()
    engine = LocalEngine(people, schema, "replace", pel.Unit(), batch_rows=77)
    totals = engine.totals(Sum(chosen, bound, columns=chosen.columns))
    whole = next(LocalEngine(people, schema, "replace", pel.Unit()).batches(tuple(schema)))
    exact = truth(model, ASKED, whole).mean(axis=0)
    assert np.allclose(bound.mean(totals, 300), exact, atol=1e-7)
    assert np.array_equal(pickle.loads(pickle.dumps(chosen))(whole), chosen(whole))


def test_reading_a_forest_twice_costs_once(plain, people, target):
    fitted_model = make_pipeline(encoder(), ensemble.RandomForestRegressor(5, max_depth=5)).fit(
        people.iloc[:600].fillna(1.0), target
    )
    ready = of(fitted_model, plain).ready(plain)
    assert fitted(ready) is fitted(ready)
