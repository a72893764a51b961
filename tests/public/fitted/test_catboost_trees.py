"""CatBoost's own leaves and answers, from the trees that were read."""

import numpy as np
import pytest
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler
from walking import MIXED, NUMBERS, answers, check_walked, hostile, leaves, numbers, people, raw_values, read

import pellucid as pel
from pellucid.errors import ModelError
from pellucid.sensitivity.output_range import output_range

cb = pytest.importorskip("catboost")

FEW = {"iterations": 6, "depth": 4, "learning_rate": 0.5, "verbose": 0, "allow_writing_files": False, "thread_count": 1}


def check(model, schema, core=None, size=200, seed=0, **given):
    """Leaf by leaf, tree by tree and answer by answer."""
    ready, made = read(model, schema, **given)
    positions = hostile(schema, ready.features, made, size, seed)
    encoded, inputs = made.encoding(positions), made.encoding.inputs(positions)
    reached = leaves(made, encoded)
    if core is None:
        groups = len(made.trees) // model.tree_count_
        if (model.get_param("grow_policy") or "SymmetricTree") == "SymmetricTree":
            inner = np.array([(~tree.leaf).sum() for tree in made.trees])
            assert np.array_equal((reached - inner)[:, ::groups], model.calc_leaf_indexes(inputs))
        for t in range(model.tree_count_):
            alone = model.predict(inputs, prediction_type="RawFormulaVal", ntree_start=t, ntree_end=t + 1)
            if groups == 1 and alone.ndim == 1 and t:
                sign = -1 if made.link == "logistic" and ready.model.positive == model.classes_[0] else 1
                assert np.allclose(sign * made.trees[t].value[reached[:, t]], alone, rtol=1e-13, atol=1e-13)
    own = ready.raw(inputs)
    assert np.allclose(answers(made, raw_values(made, reached)), own, rtol=1e-11, atol=1e-11 * np.ptp(own))
    assert not made.single
    check_walked(ready, made, positions, reached)
    return ready, made


LOSSES = {
    **dict.fromkeys(("RMSE", "MAE", "MAPE", "Quantile:alpha=0.3", "Expectile:alpha=0.3", "Huber:delta=1"), lambda y: y),
    **dict.fromkeys(("Lq:q=3", "LogCosh"), lambda y: y),
    **dict.fromkeys(("Poisson", "Tweedie:variance_power=1.5"), np.exp),
}


@pytest.mark.parametrize("loss", LOSSES)
def test_losses(loss):
    table, score = numbers()
    _, made = check(cb.CatBoostRegressor(loss_function=loss, **FEW).fit(table, LOSSES[loss](score)), NUMBERS)
    assert (made.link == "exp") == (loss[:4] in ("Pois", "Twee"))


@pytest.mark.parametrize("seed", [*range(9), 153])
def test_random_models(seed):
    rng = np.random.default_rng(seed)
    table, score = numbers(seed)
    given = {
        **FEW,
        "iterations": int(rng.integers(1, 8)),
        "depth": int(rng.integers(1, 7)),
        "grow_policy": ["SymmetricTree", "Depthwise", "Lossguide", "SymmetricTree"][seed % 4],
        "nan_mode": str(rng.choice(["Min", "Max"])),
        "border_count": int(rng.integers(4, 250)),
        "random_seed": seed,
    }
    kind = seed % 3
    if kind == 0:
        check(cb.CatBoostRegressor(**given).fit(table, score), NUMBERS, seed=seed)
        return
    target = (score > 0).astype(int) if kind == 1 else np.digitize(score, [-0.3, 0.8])
    model = cb.CatBoostClassifier(**given).fit(table, target)
    for positive in range(kind + 1):
        check(model, NUMBERS, seed=seed, positive=positive, size=80)


def test_one_class_against_the_others():
    table, score = numbers()
    model = cb.CatBoostClassifier(loss_function="MultiClassOneVsAll", **FEW).fit(table, np.digitize(score, [-0.3, 0.8]))
    for positive in range(3):
        check(model, NUMBERS, positive=positive)


def test_missing_values_that_training_did_not_have():
    table, score = numbers()
    table[np.isnan(table)] = 0.25
    check(cb.CatBoostRegressor(**FEW).fit(table, score), NUMBERS)


def test_a_scale_and_a_bias():
    table, score = numbers()
    model = cb.CatBoostRegressor(**FEW).fit(table, score)
    model.set_scale_and_bias(1.75, -3.25)
    _, made = read(model, NUMBERS)
    assert made.base == [-3.25]
    ready, _ = read(model, NUMBERS)
    positions = hostile(NUMBERS, ready.features, made)
    own = ready.raw(made.encoding.inputs(positions))
    assert np.allclose(raw_values(made, leaves(made, made.encoding(positions)))[:, 0], own, rtol=1e-12, atol=1e-12)


def test_early_stopping_keeps_the_best_trees():
    table, score = numbers()
    model = cb.CatBoostRegressor(**{**FEW, "iterations": 80, "learning_rate": 0.9}, early_stopping_rounds=3)
    model.fit(table[:300], score[:300], eval_set=(table[300:], score[300:]))
    _, made = check(model, NUMBERS)
    assert len(made.trees) == model.best_iteration_ + 1 < 80


CODED = ["kind", "sex", "e", "flag"]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("text", [True, False])
def test_categories_one_by_one(seed, text):
    """Text, whole numbers and booleans as categories; also values that training never had."""
    frame, score = people(seed)
    schema = MIXED
    if text:
        frame = frame.astype({"kind": object, "sex": object})
    if seed % 2:
        schema = pel.Schema({**MIXED, "kind": pel.Category([*reversed(MIXED["kind"].values), "never seen"])})
    policy = ["SymmetricTree", "Depthwise", "Lossguide"][seed % 3]
    given = {**FEW, "one_hot_max_size": 255, "cat_features": CODED, "grow_policy": policy}
    if seed < 3:
        _, made = check(cb.CatBoostRegressor(**given).fit(frame, score), schema)
    else:
        _, made = check(cb.CatBoostClassifier(**given).fit(frame, np.digitize(score, [1, 3])), schema, positive=0)
    assert any(tree.sets for tree in made.trees)


def test_whole_numbers_as_categories():
    frame, score = people()
    frame["n"] = np.arange(len(frame)) % 300
    schema = pel.Schema({"a": MIXED["a"], "n": pel.Number(-2, 299, integer=True)})
    given = {**FEW, "one_hot_max_size": 255, "cat_features": ["n"]}
    model = cb.CatBoostRegressor(**given).fit(frame[["a", "n"]].assign(n=frame["n"] % 200), frame["n"] % 3 + score)
    check(model, schema, input="frame", features=list(schema))


@pytest.mark.parametrize("sparse", [False, True])
def test_steps_before_it(sparse):
    frame, score = people()
    frame = frame.astype({"kind": object, "sex": object})
    steps = make_column_transformer(
        (OneHotEncoder(sparse_output=sparse), ["kind"]),
        (OrdinalEncoder(), ["sex"]),
        (StandardScaler(), ["a"]),
        remainder="passthrough",
        sparse_threshold=1.0 if sparse else 0.0,
    )
    model = make_pipeline(steps, cb.CatBoostRegressor(**FEW)).fit(frame, score)
    check(model, MIXED, core=model[-1])


def test_what_is_not_read_is_refused_in_words():
    frame, score = people()
    model = cb.CatBoostRegressor(**FEW, cat_features=["kind", "sex"], one_hot_max_size=2).fit(frame, score)
    with pytest.raises(ModelError, match="one_hot_max_size"):
        read(model, MIXED)
    table, score = numbers()
    model = cb.CatBoostRegressor(loss_function="LogLinQuantile", **FEW).fit(table, np.exp(score))
    with pytest.raises(ModelError, match="LogLinQuantile"):
        read(model, NUMBERS)


def test_ranges_hold_and_are_attained():
    table, score = numbers()
    few = {**FEW, "iterations": 8, "depth": 3}
    frame, amount = people()
    coded = cb.CatBoostRegressor(**few, one_hot_max_size=255, cat_features=CODED).fit(frame, amount)
    for model, schema in (
        (cb.CatBoostRegressor(**few).fit(table, score * 100), NUMBERS),
        (cb.CatBoostRegressor(**few, loss_function="Poisson").fit(table, np.exp(score)), NUMBERS),
        (cb.CatBoostClassifier(**few).fit(table, (score > 0).astype(int)), NUMBERS),
        (cb.CatBoostClassifier(**{**few, "iterations": 3}).fit(table, np.digitize(score, [-0.3, 0.8])), NUMBERS),
        (coded, MIXED),
    ):
        given = {"positive": 0} if hasattr(model, "predict_proba") else {}
        found = output_range(model, schema, seconds=4, **given)
        ready, made = read(model, schema, **given)
        own = ready.raw(made.encoding.inputs(hostile(schema, ready.features, made, 4000)))
        assert found.lo <= own.min() and own.max() <= found.hi and found.exact
        assert max(found.hi - found.attained_hi, found.attained_lo - found.lo) <= 1e-11 * max(1.0, abs(found.hi))
