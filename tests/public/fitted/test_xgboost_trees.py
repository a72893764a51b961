"""XGBoost's own leaves and answers, from the trees that were read."""

import json

import numpy as np
import pytest
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler
from walking import MIXED, NUMBERS, answers, check_walked, hostile, leaves, numbers, people, raw_values, read

import pellucid as pel
from pellucid.errors import ModelError
from pellucid.public.fitted import xgboost_trees
from pellucid.sensitivity import problems
from pellucid.sensitivity.output_range import output_range

xgb = pytest.importorskip("xgboost")


def check(model, schema, core=None, size=200, seed=0, **given):
    """Leaf by leaf, raw value by raw value, answer by answer."""
    ready, made = read(model, schema, **given)
    core = core or model
    positions = hostile(schema, ready.features, made, size, seed)
    encoded = made.encoding(positions)
    reached = leaves(made, encoded)
    inputs = made.encoding.inputs(positions)
    if core is model:
        # Its apply() refuses what is infinite in single precision, its predict() does not.
        small = ~np.isinf(encoded).any(axis=1)
        theirs = core.apply(inputs[small]).reshape(small.sum(), -1)
        if not any(int(t["tree_param"]["num_deleted"]) for t in fitted_trees(core)):
            assert np.array_equal(reached[small], theirs)
    raw = raw_values(made, reached)
    own = ready.raw(inputs)
    if made.link == "identity":
        assert np.allclose(own, raw[:, 0], rtol=1e-6, atol=1e-6 * np.ptp(own))
    # Single precision: 1e-6 of the answers, by the link.
    assert np.allclose(answers(made, raw), own, rtol=3e-6, atol=1e-6 * max(np.ptp(own), 1e-30))
    assert made.single
    check_walked(ready, made, positions, reached)
    return ready, made


def fitted_trees(core):
    booster = json.loads(core.get_booster().save_raw("json"))["learner"]["gradient_booster"]
    return booster["model"]["trees"] if "model" in booster else booster["gbtree"]["model"]["trees"]


OBJECTIVES = {
    "reg:squarederror": lambda y: y,
    "reg:absoluteerror": lambda y: y,
    "reg:pseudohubererror": lambda y: y,
    "reg:quantileerror": lambda y: y,
    "reg:squaredlogerror": np.exp,
    "reg:logistic": lambda y: 1 / (1 + np.exp(-y)),
    "binary:logistic": lambda y: y > 0,
    "binary:logitraw": lambda y: y > 0,
    "count:poisson": lambda y: np.floor(np.exp(y)),
    "reg:gamma": np.exp,
    "reg:tweedie": np.exp,
}


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_objectives(objective):
    table, score = numbers()
    given = {"quantile_alpha": 0.3} if objective == "reg:quantileerror" else {}
    model = xgb.XGBRegressor(n_estimators=6, max_depth=4, objective=objective, n_jobs=1, **given)
    _, made = check(model.fit(table, OBJECTIVES[objective](score)), NUMBERS)
    assert made.link == xgboost_trees.LINKS[objective]


@pytest.mark.parametrize("score", [1e-7, 1e-6, 0.3, 1 - 1e-6, 1 - 6e-8])
def test_base_scores_are_probabilities(score):
    table, target = numbers()
    check(xgb.XGBClassifier(n_estimators=2, base_score=score, n_jobs=1).fit(table, target > 0), NUMBERS)


@pytest.mark.parametrize("seed", range(12))
def test_random_models(seed):
    rng = np.random.default_rng(seed)
    table, score = numbers(seed)
    given = {
        "n_estimators": int(rng.integers(1, 8)),
        "max_depth": int(rng.integers(1, 7)),
        "learning_rate": float(rng.uniform(0.05, 1)),
        **[{"booster": "gbtree"}, {"booster": "dart", "rate_drop": 0.3}][rng.integers(2)],
        "num_parallel_tree": int(rng.integers(1, 3)),
        "subsample": 0.8,
        "tree_method": str(rng.choice(["hist", "exact", "approx"])),
        "gamma": float(rng.choice([0, 1.0])),
        "grow_policy": str(rng.choice(["depthwise", "lossguide"])),
        "random_state": seed,
        "n_jobs": 1,
    }
    kind = seed % 3
    if kind == 0:
        check(xgb.XGBRegressor(**given).fit(table, score), NUMBERS, seed=seed)
        return
    target = (score > 0).astype(int) if kind == 1 else np.digitize(score, [-0.3, 0.8])
    model = xgb.XGBClassifier(**given).fit(table, target)
    for positive in range(kind + 1):
        check(model, NUMBERS, seed=seed, positive=positive, size=80)


def test_forests():
    table, score = numbers()
    check(xgb.XGBRFRegressor(n_estimators=7, max_depth=4, n_jobs=1).fit(table, score), NUMBERS)
    check(xgb.XGBRFClassifier(n_estimators=7, max_depth=4, n_jobs=1).fit(table, np.digitize(score, [0, 1])), NUMBERS, positive=2)


@pytest.mark.parametrize("objective", ["multi:softprob", "multi:softmax"])
@pytest.mark.parametrize("classes", [2, 3])
def test_a_softmax_of_two_or_three(objective, classes):
    table, score = numbers()
    model = xgb.XGBClassifier(n_estimators=4, max_depth=3, objective=objective, num_class=classes, n_jobs=1)
    model.fit(table, np.digitize(score, [0, 1][: classes - 1]))
    for positive in range(classes):
        check(model, NUMBERS, positive=positive)


@pytest.mark.parametrize("booster", ["gbtree", "dart"])
def test_early_stopping_keeps_the_best_trees(booster):
    table, score = numbers()
    model = xgb.XGBRegressor(n_estimators=60, learning_rate=0.9, early_stopping_rounds=3, booster=booster, n_jobs=1)
    model.fit(table[:300], score[:300], eval_set=[(table[300:], score[300:])], verbose=False)
    _, made = read(model, NUMBERS)
    assert len(made.trees) == model.best_iteration + 1 < len(fitted_trees(model))
    check(model, NUMBERS)


@pytest.mark.parametrize("seed", range(6))
def test_native_categories_of_frames(seed):
    frame, score = people(seed)
    given = {"n_estimators": 5, "max_depth": 4, "enable_categorical": True, "max_cat_to_onehot": [1, 4, 50][seed % 3]}
    if seed < 3:
        _, made = check(xgb.XGBRegressor(**given, n_jobs=1).fit(frame, score), MIXED)
    else:
        _, made = check(xgb.XGBClassifier(**given, n_jobs=1).fit(frame, np.digitize(score, [1, 3])), MIXED, positive=0)
    assert any(tree.sets for tree in made.trees)


def test_codes_that_were_never_seen():
    """Arrays of codes: more than in training, negative ones, ones that are no whole numbers, and far more than 256."""
    rng = np.random.default_rng(0)
    schema = pel.Schema(
        {
            "code": pel.Category([-2.0, -0.5, *range(40), 77.0, 3.5, 500.0, 5e8]),
            "many": pel.Number(-1, 600, integer=True, missing=float("nan")),
            "x": pel.Number(0, 1),
        }
    )
    table = np.column_stack([rng.integers(0, 40, 900), rng.integers(0, 500, 900), rng.random(900)]).astype(float)
    table[rng.random(900) < 0.1, 1] = np.nan
    target = (table[:, 0] % 3) + (np.nan_to_num(table[:, 1]) % 5) + table[:, 2]
    given = {"feature_types": ["c", "c", "q"], "enable_categorical": True, "max_cat_to_onehot": 2}
    model = xgb.XGBRegressor(n_estimators=8, max_depth=5, n_jobs=1, **given).fit(table, target)
    _, made = check(model, schema, size=600, features=list(schema), input="array")
    sizes = {len(left) for tree in made.trees for left, _ in tree.sets.values()}
    assert max(sizes) > 257 and not made.encoding.domains[1].interval


def test_a_missing_value_of_ones_own():
    table, score = numbers()
    schema = pel.Schema({"c": pel.Number(-5, 40, integer=True), "e": pel.Category([0, 1, 2, 5])})
    model = xgb.XGBRegressor(n_estimators=5, missing=1.0, n_jobs=1).fit(table[:, [2, 4]], score)
    check(model, schema)
    with pytest.raises(ModelError, match="level by level"):
        read(xgb.XGBRegressor(n_estimators=2, missing=0.0, n_jobs=1).fit(table, score), NUMBERS)


def pipeline(model, sparse, **more):
    steps = make_column_transformer(
        (OneHotEncoder(sparse_output=sparse), ["kind"]),
        (OrdinalEncoder(dtype=np.int64), ["sex"]),
        *([(StandardScaler(), ["a"])] if not sparse else []),
        remainder="passthrough" if not sparse else "drop",
        sparse_threshold=1.0 if sparse else 0.0,
    )
    return make_pipeline(steps, model)


@pytest.mark.parametrize("sparse", [False, True])
def test_steps_before_it(sparse):
    """Zeros of a sparse table are missing to XGBoost."""
    frame, score = people()
    frame = frame.astype({"kind": object, "sex": object})
    model = pipeline(xgb.XGBRegressor(n_estimators=5, n_jobs=1), sparse).fit(frame, score)
    _, made = check(model, MIXED, core=model[-1])
    assert np.isnan(made.encoding(made.encoding.sample(64))).any() == sparse


def test_what_is_not_read_is_refused_in_words():
    table, score = numbers()
    for given, words in [
        ({"booster": "gblinear"}, "no trees"),
        ({"objective": "survival:cox"}, "survival:cox"),
        ({"objective": "binary:hinge"}, "binary:hinge"),
    ]:
        model = xgb.XGBRegressor(n_estimators=2, n_jobs=1, **given).fit(table[:, [0, 2]], score > 0)
        with pytest.raises(ModelError, match=words):
            read(model, pel.Schema({"a": NUMBERS["a"], "c": NUMBERS["c"]}))
    model = xgb.XGBClassifier(n_estimators=2, objective="binary:logitraw", n_jobs=1).fit(table, score > 0)
    with pytest.raises(ModelError, match="logitraw"):
        read(model, NUMBERS)


def test_ranges_hold_and_are_attained():
    table, score = numbers()
    for model in (
        xgb.XGBRegressor(n_estimators=15, max_depth=3, n_jobs=1).fit(table, score * 100),
        xgb.XGBRegressor(n_estimators=10, max_depth=3, objective="reg:gamma", n_jobs=1).fit(table, np.exp(score)),
        xgb.XGBClassifier(n_estimators=6, max_depth=3, n_jobs=1).fit(table, score > 0),
        xgb.XGBClassifier(n_estimators=3, max_depth=2, n_jobs=1).fit(table, np.digitize(score, [-0.3, 0.8])),
    ):
        given = {"positive": 0} if hasattr(model, "predict_proba") else {}
        found = output_range(model, NUMBERS, seconds=4, **given)
        ready, made = read(model, NUMBERS, **given)
        own = ready.raw(made.encoding.inputs(hostile(NUMBERS, ready.features, made, 4000)))
        assert found.lo <= own.min() and own.max() <= found.hi and found.exact
        assert found.hi - found.attained_hi <= 2e-5 * max(1.0, abs(found.hi))
        assert found.attained_lo - found.lo <= 2e-5 * max(1.0, abs(found.lo))


def test_a_range_with_native_categories():
    frame, score = people()
    model = xgb.XGBRegressor(n_estimators=8, max_depth=3, enable_categorical=True, n_jobs=1).fit(frame, score)
    found = output_range(model, MIXED, seconds=4)
    ready, made = read(model, MIXED)
    own = ready.raw(made.encoding.inputs(hostile(MIXED, ready.features, made, 4000)))
    assert found.lo <= own.min() and own.max() <= found.hi
    assert found.exact and found.hi - found.attained_hi <= 1e-4


def test_single_precision_is_part_of_the_range(monkeypatch):
    """Many trees that cancel: their sum in single precision is off by more than any rounding of doubles."""
    table, score = numbers()
    schema = pel.Schema({"a": NUMBERS["a"], "c": NUMBERS["c"]})
    model = xgb.XGBRegressor(n_estimators=120, max_depth=2, base_score=2.0**10, learning_rate=0.7, n_jobs=1)
    model.fit(table[:, [0, 2]], score)

    def beyond():
        found = output_range(model, schema, seconds=4)
        own = model.predict(np.column_stack([np.repeat(np.linspace(-3, 3, 400), 46), np.tile(np.arange(-5, 41), 400)]))
        return found.hi < own.max() or own.min() < found.lo

    assert not beyond()
    monkeypatch.setattr(problems, "SINGLE", 2.0**-53)
    try:
        assert beyond()
    except ModelError as refusal:
        assert "do not follow" in str(refusal)
