"""Shapley vectors of trees in whole numbers: the same by walks, by tables and level by level, alone and in company."""

import numpy as np
import pandas as pd
import pytest
from sklearn import ensemble
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import pellucid as pel
from pellucid.explainers.shapley import loops, masks, trees
from pellucid.explainers.shapley.background import Background, estimator_against
from pellucid.explainers.shapley.coalitions import Enumerated, Permuted
from pellucid.explainers.shapley.estimator import estimator_for
from pellucid.public.fitted import compiled
from pellucid.public.fitted.read import Read, read, trees_of
from pellucid.public.fitted.walks import Walkable, sums
from pellucid.public.records import asked_record
from pellucid.public.rows import Rows

NAMES = ["a", "b", "c", "d", "e", "kind"]
SCHEMA = pel.Schema(
    {
        **{name: pel.Number(-3, 3) for name in "abc"},
        "d": pel.Number(0, 9, integer=True),
        "e": pel.Number(0, 1, missing=float("nan")),
        "kind": pel.Category(range(5)),
    }
)
RECORD = {"a": 0.3, "b": -1.0, "c": 2.0, "d": 4, "e": 0.5, "kind": 3}


def table(size=400, seed=0):
    drawn = SCHEMA.sample(size, seed)
    return np.column_stack([drawn[name] for name in NAMES])


def target(x):
    return x[:, 0] * (x[:, 1] > 0) + x[:, 2] + (x[:, 3] > 5) * np.nan_to_num(x[:, 4], nan=2.0) + (x[:, 5] % 2)


def xgboost(kind):
    pytest.importorskip("xgboost")
    import xgboost

    return getattr(xgboost, f"XGB{kind}")(n_estimators=12, max_depth=5, n_jobs=1)


def lightgbm(kind):
    pytest.importorskip("lightgbm")
    import lightgbm

    return getattr(lightgbm, f"LGBM{kind}")(n_estimators=12, min_child_samples=5, n_jobs=1, verbose=-1)


def catboost(kind):
    pytest.importorskip("catboost")
    import catboost

    return getattr(catboost, f"CatBoost{kind}")(iterations=12, depth=5, verbose=False, thread_count=1, allow_writing_files=False)


def forest(kind):
    return getattr(ensemble, f"RandomForest{kind}")(8, max_depth=7, random_state=0)


def binned(kind):
    return getattr(ensemble, f"HistGradientBoosting{kind}")(max_iter=12, categorical_features=[5])


def steps(kind):
    return make_pipeline(StandardScaler(), forest(kind))


LIBRARIES = [forest, steps, binned, xgboost, lightgbm, catboost]


def regressor(library):
    x = table()
    return pel.Model(
        library("Regressor").fit(x, target(x)), output=(-30, 30), features=NAMES, input="array", trained_on="other data"
    )


def rows_of(size=40, seed=5):
    return Rows(SCHEMA, SCHEMA.sample(size, seed))


def placed(chosen, rows):
    found = np.zeros((len(rows), len(NAMES)))
    found[:, [NAMES.index(name) for name in chosen.features]] = chosen(rows)
    return found


@pytest.mark.parametrize("library", LIBRARIES, ids=lambda f: f.__name__)
def test_every_library_that_is_read_agrees_with_enumeration(library):
    model, rows = regressor(library), rows_of()
    chosen = estimator_for(model, SCHEMA, RECORD)
    exact = Enumerated(model, asked_record(RECORD, model, SCHEMA))(rows)
    assert chosen.method == "trees" and chosen.computed_here(SCHEMA)
    assert np.abs(placed(chosen, rows) - exact).max() < 1e-7


@pytest.mark.parametrize("library", LIBRARIES, ids=lambda f: f.__name__)
def test_walks_tables_and_levels_give_the_same_whole_numbers(library, monkeypatch):
    made = trees_of(regressor(library).ready(SCHEMA))
    walkable, drawn = made.groups[0], SCHEMA.sample(300, 7)
    atoms, asked = made.atoms(drawn), made.atoms(SCHEMA.sample(5, 8))
    found = {}
    monkeypatch.setattr(trees, "SMALL", 0)
    for name, pays in (("tables", True), ("walks", False)):
        monkeypatch.setattr(trees, "_pay", lambda *_, pays=pays: pays)
        found[name] = trees.vectors(walkable, asked, atoms)
        alone = np.concatenate([trees.vectors(walkable, asked, atoms[i : i + 7]) for i in range(0, 300, 7)])
        assert np.array_equal(alone, found[name])
    monkeypatch.setattr(trees, "compiled", lambda: None)
    found["levels"] = trees.vectors(walkable, asked, atoms)
    assert np.array_equal(found["walks"], found["levels"]) and np.array_equal(found["tables"], found["levels"])
    assert found["levels"].any()
    # Efficiency, but for rounding.
    gap = sums(walkable, asked).sum() - len(asked) * sums(walkable, atoms)
    moved = np.abs((found["levels"].sum(axis=1) << trees.spare_bits(len(asked))) - gap)
    assert moved.max() <= len(NAMES) * trees.rounding(walkable, len(asked))


def test_many_features_and_long_paths(monkeypatch):
    """More features than a line of a table holds at once, and paths that are longer than their features are many."""
    rng = np.random.default_rng(0)
    names = [f"x{j}" for j in range(20)]
    schema = pel.Schema(dict.fromkeys(names, pel.Number(0, 1)))
    x = rng.random((600, 20))
    y = np.sin(9 * x[:, 0]) + x[:, 1] * x[:, 2] + x[:, 3:].sum(axis=1) / 9
    for settings, inputs in (
        ({"max_leaf_nodes": 60}, x),
        ({"max_depth": 14, "max_features": 0.2}, np.where(np.arange(20) < 2, x, 0)),
    ):
        model = pel.Model(
            ensemble.RandomForestRegressor(4, random_state=1, **settings).fit(inputs, y),
            output=(-5, 9),
            features=names,
            input="array",
            trained_on="other data",
        )
        made = trees_of(model.ready(schema))
        atoms, asked = made.atoms(schema.sample(150, 1)), made.atoms(schema.sample(3, 2))
        assert trees.most_decided(made.groups[0]) <= trees.DEEPEST
        monkeypatch.setattr(trees, "SMALL", 0)
        found = []
        for pays in (True, False):
            monkeypatch.setattr(trees, "_pay", lambda *_, pays=pays: pays)
            found.append(trees.vectors(made.groups[0], asked, atoms))
        assert np.array_equal(*found) and found[0].any()


def test_more_records_than_are_walked_together(monkeypatch):
    made = trees_of(regressor(forest).ready(SCHEMA))
    atoms, asked = made.atoms(SCHEMA.sample(20_000, 1)), made.atoms(SCHEMA.sample(1, 2))
    found = trees.vectors(made.groups[0], asked, atoms)
    assert len(atoms) > 2 * loops.MANY and not trees._pay(made.groups[0], 6, 1, len(atoms), 6)
    monkeypatch.setattr(trees, "compiled", lambda: None)
    assert np.array_equal(found, trees.vectors(made.groups[0], asked, atoms))


@pytest.mark.parametrize("library", [forest, xgboost, lightgbm], ids=lambda f: f.__name__)
def test_ten_features_agree_with_enumeration(library):
    rng = np.random.default_rng(3)
    names = [f"x{j}" for j in range(10)]
    schema = pel.Schema(dict.fromkeys(names, pel.Number(-1, 1)))
    x = rng.uniform(-1, 1, (800, 10))
    fitted = library("Regressor").fit(x, x[:, 0] * x[:, 1] + np.abs(x[:, 2:]).sum(axis=1))
    model = pel.Model(fitted, output=(-30, 30), features=names, input="array", trained_on="other data")
    rows, record = Rows(schema, schema.sample(60, 4)), dict(zip(names, rng.uniform(-1, 1, 10).tolist()))
    chosen = estimator_for(model, schema, record)
    exact = Enumerated(model, asked_record(record, model, schema))(rows)
    assert chosen.method == "trees" and len(chosen.features) == 10
    assert np.abs(chosen(rows) - exact).max() < 1e-7


def by_hand(values):
    """Two features, asked about twice each: the record asked about goes right, the others left."""
    return Walkable(
        root=np.array([0], dtype=np.int32),
        feature=np.array([0, 1, 1, -1, -1, -1, -1], dtype=np.int32),
        cut=np.zeros(7, dtype=np.int32),
        child=np.array([1, 3, 5, 0, 0, 0, 0], dtype=np.int32),
        value=np.array([0, 0, 0, *values]),
        cells=np.array([2, 2], dtype=np.int32),
        first=np.zeros(7, dtype=np.int64),
        points=np.zeros(1, dtype=bool),
        depth=3,
        tree=np.zeros(7, dtype=np.int64),
        atoms=np.array([2, 2]),
    )


def halve_rounding(patch):
    original = trees.rounding
    patch.setattr(trees, "rounding", lambda *args: original(*args) / 2)


def test_integer_shapley_is_attained():
    """Every leaf pays half of an odd number, and all are rounded the same way."""
    asked, others = np.ones((1, 2), dtype=np.int32), np.zeros((1, 2), dtype=np.int32)
    # Leaves in the order left left, left right, right left, right right.
    values = np.array([3, 3, 1, 1])
    found = trees.vectors(by_hand(values), asked, others)[0, 0]
    exact = (values[3] + values[2] - values[1] - values[0]) / 2
    assert len(values) / 2 == abs(found - exact) <= trees.rounding(by_hand(values), 1) < 1.001 * abs(found - exact)
    assert np.array_equal(trees.vectors(by_hand(2 * values), asked, others)[0], [-4, 0])


@pytest.mark.parametrize("count", [1, 2, 3, 64, 65, 1000])
def test_sums_over_many_records_stay_within_64_bits(count):
    """Claim: integer-shapley. All of 60 bits, to one feature, from all records asked about."""
    most = 2**60
    one = by_hand([-most, -most, most, most])
    found = trees.vectors(one, np.ones((count, 2), dtype=np.int32), np.zeros((1, 2), dtype=np.int32))[0]
    assert [int(v) << trees.spare_bits(count) for v in found] == [2 * most * count, 0]


@pytest.mark.parametrize("library", [forest, binned, xgboost], ids=lambda f: f.__name__)
def test_a_public_background_is_one_walk_for_all_its_records(library):
    model, rows = regressor(library), rows_of(30)
    drawn = SCHEMA.sample(6, 11)
    records = [{name: SCHEMA[name].values_at(drawn[name])[i] for name in NAMES} for i in range(6)]
    chosen = estimator_against(model, SCHEMA, Background.of(records))
    exact = np.mean([Enumerated(model, asked_record(record, model, SCHEMA))(rows) for record in records], axis=0)
    assert np.abs(placed(chosen, rows) + exact).max() < 1e-7


def classifier(library):
    x = table()
    fitted = library("Classifier").fit(x, (target(x) > 1).astype(int))
    return pel.Model(fitted, positive=1, features=NAMES, input="array", trained_on="other data")


@pytest.mark.parametrize("library", LIBRARIES[2:], ids=lambda f: f.__name__)
def test_mixtures_of_models_that_are_read_are_walked(library):
    """The same orders as a black box is asked along, the same answers."""
    model, rows = classifier(library), rows_of(60)
    assert isinstance(read(model.ready(SCHEMA)), Read)
    predictor = model.predictor
    box = pel.Model(
        lambda d: predictor.predict_proba(d)[:, 1], output=(0, 1), features=NAMES, input="array", trained_on="other data"
    )
    for made in (lambda m, r: Permuted(m, r, 4), Enumerated):
        walked, asked = (made(m, asked_record(RECORD, m, SCHEMA)) for m in (model, box))
        found = walked(rows)
        assert np.abs(found - asked(rows)).max() < 1e-6 and found.any()
        some = rows.take(np.arange(3, 9))
        assert np.array_equal(walked(some), found[3:9])


@pytest.mark.parametrize("library", LIBRARIES[2:], ids=lambda f: f.__name__)
def test_prefixes_by_masks_by_walks_and_without_compiled_loops(library, monkeypatch):
    made = trees_of(classifier(library).ready(SCHEMA))
    atoms, asked = made.atoms(SCHEMA.sample(50, 1)), made.atoms(SCHEMA.sample(1, 2))[0]
    ranks = np.random.default_rng(0).random((7, 6, 6)).argsort(axis=2).astype(np.int16)
    group = np.arange(50) % 7
    found = trees.prefixes(made.groups[0], asked, atoms, group, ranks)
    assert masks.prefixes_by_masks(made.groups[0], asked, atoms, group, ranks) is None
    monkeypatch.setattr(masks, "ENOUGH", 1)
    for together in (masks.TOGETHER, 5):
        monkeypatch.setattr(masks, "TOGETHER", together)
        assert np.array_equal(found, masks.prefixes_by_masks(made.groups[0], asked, atoms, group, ranks))
    monkeypatch.setattr(masks, "LEAVES", 2)
    assert masks.prefixes_by_masks(made.groups[0], asked, atoms, group, ranks) is None
    monkeypatch.setattr(trees, "compiled", lambda: None)
    assert np.array_equal(found, trees.prefixes(made.groups[0], asked, atoms, group, ranks))
    assert (
        np.array_equal(found[:, 0, 0], sums(made.groups[0], atoms))
        and (found[:, :, 6] == sums(made.groups[0], asked[None])).all()
    )


@pytest.mark.parametrize("library", [forest, xgboost, lightgbm], ids=lambda f: f.__name__)
def test_values_of_shap(library):
    shap = pytest.importorskip("shap")
    model, rows = regressor(library), rows_of(50)
    chosen = estimator_for(model, SCHEMA, RECORD)
    x = np.column_stack([rows[name] for name in NAMES])
    masker = shap.maskers.Independent(x, max_samples=len(x))
    asked = np.array([[value for _, value in asked_record(RECORD, model, SCHEMA)]])
    theirs = shap.TreeExplainer(model.predictor, masker, feature_perturbation="interventional")
    expected = theirs.shap_values(asked, check_additivity=False)[0]
    assert np.abs(placed(chosen, rows).mean(axis=0) - expected).max() < 1e-5


def test_without_numba_trees_are_read_for_shapley_vectors_and_the_certificate_says_so(monkeypatch):
    model = regressor(forest)
    data = pd.DataFrame(table(200, 3), columns=NAMES).astype({"kind": int, "d": int})

    def released(explainer):
        return pel.Session(data, SCHEMA, budget=pel.Budget(epsilon=9.0)).release(explainer, epsilon=1.0)

    with_it = released(pel.ShapValues(model, RECORD)).certificate
    monkeypatch.setattr(compiled, "_loaded", lambda: None)
    monkeypatch.setattr(trees, "compiled", lambda: None)
    without = released(pel.ShapValues(model, RECORD)).certificate
    said = f"output of {model.name}"
    assert with_it.status == without.status == "proved" and with_it.bounds[said] == without.bounds[said]
    assert "read and computed by Pellucid" in without.bounds[said]
    asked = released(pel.PartialDependence(model, "a")).certificate
    assert asked.status == "proved for row-wise models" and "need Numba" in asked.bounds[said]
