"""LightGBM's own leaves and answers, from the trees that were read."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler
from walking import MIXED, NUMBERS, answers, check_walked, hostile, leaves, numbers, people, raw_values, read

import pellucid as pel
from pellucid.errors import ModelError
from pellucid.public.fitted import lightgbm_trees
from pellucid.sensitivity.output_range import output_range

lgb = pytest.importorskip("lightgbm")

FEW = {"n_estimators": 6, "num_leaves": 9, "min_child_samples": 5, "n_jobs": 1, "verbose": -1}
CODES = {"min_data_per_group": 1, "cat_smooth": 1.0, "cat_l2": 0.1}


def check(model, schema, core=None, size=200, seed=0, **given):
    """Leaf by leaf and answer by answer."""
    ready, made = read(model, schema, **given)
    positions = hostile(schema, ready.features, made, size, seed)
    encoded, inputs = made.encoding(positions), made.encoding.inputs(positions)
    reached = leaves(made, encoded)
    if core is None:
        theirs = model.predict(inputs, pred_leaf=True).reshape(len(inputs), -1)
        inner = np.array([(~tree.leaf).sum() for tree in made.trees])
        if len(made.trees) == theirs.shape[1]:
            assert np.array_equal(reached - inner, theirs)
    own = ready.raw(inputs)
    assert np.allclose(answers(made, raw_values(made, reached)), own, rtol=1e-12, atol=1e-12 * np.ptp(own))
    assert not made.single
    check_walked(ready, made, positions, reached)
    return ready, made


OBJECTIVES = {
    **dict.fromkeys(("regression", "regression_l1", "huber", "fair", "quantile", "mape"), lambda y: y),
    **dict.fromkeys(("poisson", "gamma", "tweedie"), np.exp),
    "binary": lambda y: y > 0,
    "cross_entropy": lambda y: 1 / (1 + np.exp(-y)),
}


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_objectives(objective):
    table, score = numbers()
    model = lgb.LGBMRegressor(objective=objective, **FEW).fit(table, OBJECTIVES[objective](score))
    _, made = check(model, NUMBERS)
    assert made.link == lightgbm_trees.LINKS[objective]


def test_an_objective_of_ones_own_has_no_link():
    table, score = numbers()
    model = lgb.LGBMRegressor(objective=lambda y, p: (p - y, np.ones(len(y))), **FEW).fit(table, score)
    _, made = check(model, NUMBERS)
    assert made.link == "identity"


@pytest.mark.parametrize("seed", range(12))
def test_random_models(seed):
    rng = np.random.default_rng(seed)
    table, score = numbers(seed)
    given = {
        **FEW,
        "n_estimators": int(rng.integers(1, 8)),
        "num_leaves": int(rng.integers(2, 30)),
        "learning_rate": float(rng.uniform(0.05, 1)),
        "boosting_type": ["gbdt", "dart", "rf", "gbdt"][seed % 4],
        "subsample": 0.7,
        "subsample_freq": 1,
        "use_missing": bool(rng.random() < 0.7),
        "boost_from_average": bool(rng.random() < 0.7),
        "random_state": seed,
    }
    kind = seed % 3
    if kind == 0:
        check(lgb.LGBMRegressor(**given).fit(table, score), NUMBERS, seed=seed)
        return
    target = (score > 0).astype(int) if kind == 1 else np.digitize(score, [-0.3, 0.8])
    more = {"sigmoid": 2.5} if kind == 1 else {}
    model = lgb.LGBMClassifier(**given, **more).fit(table, target)
    for positive in range(kind + 1):
        check(model, NUMBERS, seed=seed, positive=positive, size=80)


def test_one_class_against_the_others():
    table, score = numbers()
    model = lgb.LGBMClassifier(objective="multiclassova", sigmoid=1.7, **FEW).fit(table, np.digitize(score, [-0.3, 0.8]))
    for positive in range(3):
        check(model, NUMBERS, positive=positive)


def test_early_stopping_keeps_the_best_trees():
    table, score = numbers()
    data, held = lgb.Dataset(table[:300], score[:300]), lgb.Dataset(table[300:], score[300:])
    settings = {"objective": "regression", "verbose": -1, "num_threads": 1, "learning_rate": 0.9}
    stop = [lgb.early_stopping(3, verbose=False)]
    booster = lgb.train(settings, data, 80, valid_sets=[held], callbacks=stop, keep_training_booster=True)
    _, made = check(booster, NUMBERS, input="array", features=list(NUMBERS))
    assert len(made.trees) == booster.best_iteration < booster.num_trees()


def test_trees_without_a_split():
    table, _ = numbers()
    check(lgb.LGBMRegressor(**FEW).fit(table, np.full(len(table), 2.5)), NUMBERS)


def test_a_booster_of_its_own():
    table, score = numbers()
    data = lgb.Dataset(table, score > 0)
    booster = lgb.train({"objective": "binary", "verbose": -1, "num_threads": 1, "num_leaves": 7}, data, 4)
    _, made = check(booster, NUMBERS, input="array", features=list(NUMBERS))
    assert made.link == "logistic"


@pytest.mark.parametrize("seed", range(6))
def test_native_categories_of_frames(seed):
    """Codes follow the categories of training; a declared value that training did not have goes where missing ones go."""
    frame, score = people(seed)
    schema = MIXED
    if seed % 2:
        schema = pel.Schema({**MIXED, "kind": pel.Category([*reversed(MIXED["kind"].values), "never seen"])})
    more = {**FEW, **CODES, "max_cat_to_onehot": [1, 4, 50][seed % 3]}
    if seed < 3:
        _, made = check(lgb.LGBMRegressor(**more).fit(frame, score), schema)
    else:
        _, made = check(lgb.LGBMClassifier(**more).fit(frame, np.digitize(score, [1, 3])), schema, positive=0)
    assert any(tree.sets for tree in made.trees)


def test_codes_that_were_never_seen():
    """Arrays of codes: more than in training, negative ones, ones that are no whole numbers, and far more than 256."""
    rng = np.random.default_rng(0)
    schema = pel.Schema(
        {
            "code": pel.Category([-2.0, -0.5, *range(40), 77.0, 3.5, 500.0, 5e8, 5e12]),
            "many": pel.Number(-1, 600, integer=True, missing=float("nan")),
            "x": pel.Number(0, 1),
        }
    )
    table = np.column_stack([rng.integers(0, 40, 2000), rng.integers(0, 500, 2000), rng.random(2000)]).astype(float)
    table[rng.random(2000) < 0.1, 1] = np.nan
    target = (table[:, 0] % 3) + (np.nan_to_num(table[:, 1]) % 5) + table[:, 2]
    model = lgb.LGBMRegressor(**{**FEW, **CODES, "min_child_samples": 1}).fit(table, target, categorical_feature=[0, 1])
    _, made = check(model, schema, size=800, features=list(schema), input="array")
    assert max(len(left) for tree in made.trees for left, _ in tree.sets.values()) > 257


def test_zero_as_missing():
    """A column whose zeros are missing jumps there: whole numbers are read level by level, others refused."""
    table, score = numbers()
    schema = pel.Schema({"c": NUMBERS["c"], "e": NUMBERS["e"]})
    model = lgb.LGBMRegressor(zero_as_missing=True, **FEW).fit(table[:, [2, 4]], score)
    check(model, schema)
    with pytest.raises(ModelError, match="level by level"):
        read(lgb.LGBMRegressor(zero_as_missing=True, **FEW).fit(table, score), NUMBERS)


def test_numbers_next_to_zero_are_zero():
    tiny = np.concatenate([np.linspace(-4e-35, 4e-35, 81), np.zeros(40)])
    table = np.tile(tiny, 5)[:, None]
    model = lgb.LGBMRegressor(**{**FEW, "min_child_samples": 1, "min_data_in_bin": 1}).fit(table, np.sign(table[:, 0]))
    check(model, pel.Schema({"x": pel.Number(-1e-30, 1e-30)}))


@pytest.mark.parametrize("sparse", [False, True])
def test_steps_before_it(sparse):
    frame, score = people()
    frame = frame.astype({"kind": object, "sex": object})
    steps = make_column_transformer(
        (OneHotEncoder(sparse_output=sparse), ["kind"]),
        (OrdinalEncoder(dtype=np.int64), ["sex"]),
        (StandardScaler(), ["a"]),
        remainder="passthrough",
        sparse_threshold=1.0 if sparse else 0.0,
    )
    model = make_pipeline(steps, lgb.LGBMRegressor(**FEW)).fit(frame, score)
    check(model, MIXED, core=model[-1])


def test_whole_numbers_behind_a_step_are_cast():
    """An array of integers is cast to single precision, where neighbours above 2^24 are one number."""
    rng = np.random.default_rng(0)
    level = rng.integers(2**24, 2**24 + 40, 400)
    frame = pd.DataFrame({"n": level})
    model = make_pipeline(OrdinalEncoder(dtype=np.int64), lgb.LGBMRegressor(**FEW)).fit(frame, level % 7)
    check(model, pel.Schema({"n": pel.Number(2**24, 2**24 + 39, integer=True)}), core=model[-1])


def test_what_is_not_read_is_refused_in_words():
    table, score = numbers()
    for given, words in [
        ({"linear_tree": True}, "linear_tree"),
        ({"reg_sqrt": True}, "sqrt"),
        ({"objective": "cross_entropy_lambda"}, "cross_entropy_lambda"),
        ({"pred_early_stop": True}, "pred_early_stop"),
    ]:
        model = lgb.LGBMRegressor(**FEW, **given).fit(table, np.clip(np.abs(score), 0, 1))
        with pytest.raises(ModelError, match=words):
            read(model, NUMBERS)


def test_ranges_hold_and_are_attained():
    table, score = numbers()
    few = {**FEW, "n_estimators": 12, "num_leaves": 6}
    for model in (
        lgb.LGBMRegressor(**few).fit(table, score * 100),
        lgb.LGBMRegressor(**few, objective="gamma").fit(table, np.exp(score)),
        lgb.LGBMClassifier(**few).fit(table, score > 0),
        lgb.LGBMClassifier(**{**few, "n_estimators": 3}).fit(table, np.digitize(score, [-0.3, 0.8])),
    ):
        given = {"positive": 0} if hasattr(model, "predict_proba") else {}
        found = output_range(model, NUMBERS, seconds=4, features=list(NUMBERS), **given)
        ready, made = read(model, NUMBERS, **given)
        own = ready.raw(made.encoding.inputs(hostile(NUMBERS, ready.features, made, 4000)))
        assert found.lo <= own.min() and own.max() <= found.hi and found.exact
        assert max(found.hi - found.attained_hi, found.attained_lo - found.lo) <= 1e-11 * max(1.0, abs(found.hi))


def test_a_range_with_native_categories():
    frame, score = people()
    model = lgb.LGBMRegressor(**FEW, **CODES).fit(frame, score)
    found = output_range(model, MIXED, seconds=4)
    ready, made = read(model, MIXED)
    own = ready.raw(made.encoding.inputs(hostile(MIXED, ready.features, made, 4000)))
    assert found.lo <= own.min() and own.max() <= found.hi and found.exact
