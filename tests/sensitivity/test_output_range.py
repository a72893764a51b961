"""Certified output ranges: equal to brute force where that is possible, never left by any record, and refuted when halved."""

import itertools
import math
import sys
import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor, make_column_transformer
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import (
    BaggingClassifier,
    BaggingRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.impute import SimpleImputer
from sklearn.linear_model import (
    ElasticNet,
    GammaRegressor,
    Lasso,
    LinearRegression,
    LogisticRegression,
    PoissonRegressor,
    Ridge,
    SGDClassifier,
    SGDRegressor,
)
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsRegressor
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    RobustScaler,
    StandardScaler,
)
from sklearn.svm import SVR, LinearSVR
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import pellucid as pel
from pellucid.errors import ModelError
from pellucid.public.fitted import encoding as encodings
from pellucid.public.fitted import sklearn_trees
from pellucid.sensitivity import network_range, tree_range
from pellucid.sensitivity.output_range import OutputRange, output_range

ranges = sys.modules["pellucid.sensitivity.output_range"]

SMALL = pel.Schema(
    {
        "a": pel.Number(0, 5, integer=True),
        "b": pel.Number(-3, 3, integer=True),
        "c": pel.Category([0, 1, 2, 3]),
        "d": pel.Boolean(),
        "e": pel.Number(10, 16, integer=True, missing=12),
    }
)
MIXED = pel.Schema(
    {
        "age": pel.Number(17, 90, integer=True),
        "bmi": pel.Number(10, 60),
        "lab": pel.Number(0, 5, missing=float("nan")),
        "visits": pel.Number(-1, 12, integer=True, missing=-1),
        "sex": pel.Category(["F", "M"]),
        "school": pel.Category(["none", "primary", "secondary", "tertiary", "other"], ordered=True),
        "smoker": pel.Boolean(),
    }
)
NUMBERS = ["age", "bmi", "lab", "visits"]


def fitted(model, table, target):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(table, target)


def every_record(schema):
    kinds = [
        np.arange(f.lo, f.hi + 1) if isinstance(f, pel.Number) else np.asarray(f.values, dtype=float) for f in schema.values()
    ]
    return np.array(list(itertools.product(*kinds)), dtype=float)


def small_targets(seed=0, rows=400):
    rng = np.random.default_rng(seed)
    records = every_record(SMALL)
    table = records[rng.integers(len(records), size=rows)]
    score = (
        np.sin(table[:, 0]) * table[:, 1] + (table[:, 2] == 1) * 2 - table[:, 3] * (table[:, 4] > 13) + rng.normal(0, 0.3, rows)
    )
    return table, score


def answers_of(model, table, positive=None):
    if not hasattr(model, "predict_proba"):
        return np.asarray(model.predict(table), dtype=float).ravel()
    classes = list(model.classes_)
    return model.predict_proba(table)[:, classes.index(positive if positive is not None else classes[1])]


def check_equal(found, answers):
    """The interval is that of the enumerated answers, up to rounding and never inside it."""
    scale = max(1.0, float(np.abs(answers).max()))
    assert found.lo <= answers.min() and answers.max() <= found.hi
    assert found.hi - answers.max() <= 1e-9 * scale and answers.min() - found.lo <= 1e-9 * scale
    assert math.isclose(found.attained_hi, answers.max(), abs_tol=1e-11 * scale)
    assert math.isclose(found.attained_lo, answers.min(), abs_tol=1e-11 * scale)
    assert found.exact


def onehot(*names):
    return ColumnTransformer([("levels", OneHotEncoder(), list(names))], remainder=StandardScaler())


REGRESSORS = {
    "tree": DecisionTreeRegressor(max_depth=6),
    "forest": RandomForestRegressor(12, max_depth=5, random_state=0),
    "extra": ExtraTreesRegressor(8, max_depth=5, random_state=0),
    "bag": BaggingRegressor(n_estimators=5, max_features=0.6, random_state=0),
    "boosting": GradientBoostingRegressor(n_estimators=25, random_state=0),
    "boosting huber": GradientBoostingRegressor(n_estimators=10, loss="huber", random_state=0),
    "boosting zero": GradientBoostingRegressor(n_estimators=10, init="zero", random_state=0),
    "hist": HistGradientBoostingRegressor(max_iter=15, max_leaf_nodes=8),
    "hist absolute": HistGradientBoostingRegressor(max_iter=8, loss="absolute_error"),
    "hist coded": HistGradientBoostingRegressor(max_iter=10, categorical_features=[2, 0], max_leaf_nodes=8),
    "linear": LinearRegression(),
    "ridge": Ridge(),
    "lasso": Lasso(0.01),
    "net": ElasticNet(0.01),
    "sgd": make_pipeline(StandardScaler(), SGDRegressor(random_state=0)),
    "svr": LinearSVR(random_state=0),
    "one-hot linear": make_pipeline(onehot(2, 0), Ridge()),
    "one-hot forest": make_pipeline(onehot(2, 4), RandomForestRegressor(8, max_depth=5, random_state=0)),
    "scaled target": TransformedTargetRegressor(Ridge(), transformer=StandardScaler()),
    "searched": GridSearchCV(Ridge(), {"alpha": [0.1, 1.0]}, cv=2),
}
POSITIVE = {
    "hist poisson": HistGradientBoostingRegressor(max_iter=8, loss="poisson"),
    "hist gamma": HistGradientBoostingRegressor(max_iter=8, loss="gamma"),
    "poisson": PoissonRegressor(),
    "gamma": make_pipeline(StandardScaler(), GammaRegressor()),
    "log target": TransformedTargetRegressor(LinearRegression(), func=np.log1p, inverse_func=np.expm1),
}
CLASSIFIERS = {
    "tree": DecisionTreeClassifier(max_depth=5),
    "forest": RandomForestClassifier(10, max_depth=5, random_state=0),
    "extra": ExtraTreesClassifier(8, max_depth=5, random_state=0),
    "bag": BaggingClassifier(n_estimators=5, max_samples=0.2, random_state=0),
    "boosting": GradientBoostingClassifier(n_estimators=12, random_state=0),
    "hist": HistGradientBoostingClassifier(max_iter=8, max_leaf_nodes=8),
}
BINARY = {
    **CLASSIFIERS,
    "exponential": GradientBoostingClassifier(n_estimators=15, loss="exponential", random_state=0),
    "logistic": LogisticRegression(),
    "sgd": make_pipeline(StandardScaler(), SGDClassifier(loss="log_loss", random_state=0)),
    "one-hot logistic": make_pipeline(onehot(2, 0), LogisticRegression()),
}


@pytest.mark.parametrize("name", REGRESSORS)
def test_regressors_equal_brute_force(name):
    table, score = small_targets()
    model = fitted(REGRESSORS[name], table, score)
    check_equal(output_range(model, SMALL), answers_of(model, every_record(SMALL)))


@pytest.mark.parametrize("name", POSITIVE)
def test_links_equal_brute_force(name):
    table, score = small_targets()
    model = fitted(POSITIVE[name], table, score - score.min() + 0.1)
    check_equal(output_range(model, SMALL), answers_of(model, every_record(SMALL)))


@pytest.mark.parametrize("positive", [0, 1])
@pytest.mark.parametrize("name", BINARY)
def test_classifiers_equal_brute_force(name, positive):
    table, score = small_targets()
    model = fitted(BINARY[name], table, (score > 0.5).astype(int))
    check_equal(output_range(model, SMALL, positive=positive), answers_of(model, every_record(SMALL), positive))


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_several_classes_equal_brute_force(name):
    table, score = small_targets()
    model = fitted(CLASSIFIERS[name], table, np.array(["low", "middle", "top"])[np.digitize(score, [-0.5, 1.0])])
    for positive in ("low", "middle"):
        found = output_range(model, SMALL, positive=positive, input="array")
        check_equal(found, answers_of(model, every_record(SMALL), positive))


@pytest.mark.parametrize("activation", ["relu", "tanh", "logistic", "identity"])
@pytest.mark.parametrize("several", [False, True])
def test_networks_meet_brute_force_within_the_tolerance(activation, several):
    table, score = small_targets()
    target = np.digitize(score, [-0.5, 1.0]) if several else (score > 0.5).astype(int)
    model = make_pipeline(StandardScaler(), MLPClassifier((6, 5), activation=activation, max_iter=150, random_state=1))
    model = fitted(model, table, target)
    answers = answers_of(model, every_record(SMALL), 1)
    found = output_range(model, SMALL, positive=1, tolerance=1e-3)
    assert found.lo <= answers.min() and answers.max() <= found.hi
    assert max(found.hi - answers.max(), answers.min() - found.lo) <= 1.01e-3 * np.ptp(answers)
    assert found.finished


def people(rows=600, seed=0):
    """A table in the words of MIXED, with missing lab values."""
    ready = pel.Model(lambda d: np.zeros(len(d)), output=(0, 1), features=list(MIXED), trained_on="other data").ready(MIXED)
    frame = ready.inputs(MIXED.sample(rows, seed))
    rng = np.random.default_rng(seed)
    frame.loc[rng.random(rows) < 0.1, "lab"] = np.nan
    score = (
        frame["age"] / 30 + np.sin(frame["bmi"]) + (frame["school"] == "secondary") * 2 * frame["smoker"] + frame["lab"].fillna(6)
    )
    return frame, score.to_numpy(float) + rng.exponential(0.2, rows) + 1


def prepared(ordinal=False, scaler=None):
    numbers = make_pipeline(SimpleImputer(strategy="median", add_indicator=True), scaler or StandardScaler())
    text = OrdinalEncoder() if ordinal else OneHotEncoder(drop="first")
    return make_column_transformer(
        (numbers, NUMBERS),
        (text, ["sex"]),
        (OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=130), ["school"]),
        (make_pipeline(OneHotEncoder(sparse_output=False), MinMaxScaler()), ["visits"]),
        remainder="passthrough",
    )


def network(kind=MLPRegressor, shape=(12,), activation="relu"):
    return kind(hidden_layer_sizes=shape, activation=activation, max_iter=120, random_state=0)


PIPELINES = {
    "forest": make_pipeline(prepared(ordinal=True), RandomForestRegressor(15, max_depth=6, random_state=0)),
    "tree, NaN seen": make_pipeline(
        make_column_transformer((OrdinalEncoder(), ["sex", "school"]), remainder="passthrough"),
        DecisionTreeRegressor(max_depth=7),
    ),
    "boosting": make_pipeline(prepared(scaler=RobustScaler()), GradientBoostingRegressor(n_estimators=30, random_state=0)),
    "hist": make_pipeline(prepared(), HistGradientBoostingRegressor(max_iter=20)),
    "hist, own categories": HistGradientBoostingRegressor(max_iter=20, categorical_features=["sex", "school", "smoker"]),
    "ridge": make_pipeline(prepared(scaler=MaxAbsScaler()), Ridge()),
    "single precision": make_pipeline(
        make_column_transformer((OneHotEncoder(dtype=np.float32), ["school", "visits"])),
        FunctionTransformer(),
        network(shape=(5,)),
    ),
    "poisson": make_pipeline(prepared(), PoissonRegressor()),
    "relu": make_pipeline(prepared(), network()),
    "deep relu": make_pipeline(prepared(scaler=MinMaxScaler()), network(shape=(10, 8))),
    "tanh": make_pipeline(prepared(), network(activation="tanh")),
    "deep tanh": make_pipeline(prepared(), network(shape=(6, 6), activation="tanh")),
    "logistic": make_pipeline(prepared(), network(activation="logistic")),
    "relu target": TransformedTargetRegressor(make_pipeline(prepared(), network()), transformer=StandardScaler()),
    "constant": DummyRegressor(),
}


def hostile_records(schema, found, rows=12_000):
    """Random records, corners of the schema, and the neighbourhood of the witnesses."""
    columns = schema.sample(rows, seed=5)
    rng = np.random.default_rng(6)
    corners = {}
    for name, feature in schema.items():
        if isinstance(feature, pel.Number):
            corners[name] = rng.choice([feature.lo, feature.hi, feature.fill], 3000)
        else:
            corners[name] = rng.integers(0, feature.levels, 3000).astype(float)
    near = {}
    for name, feature in schema.items():
        ends = [found.lowest[name], found.highest[name]]
        if isinstance(feature, pel.Number):
            values = np.repeat(np.array(ends, dtype=float), 1000)
            steps = rng.integers(-1, 2, 2000) if feature.integer else rng.normal(0, 1e-6, 2000) * (feature.hi - feature.lo)
            values = np.where(np.isnan(values), values, np.clip(values + steps, feature.lo, feature.hi))
            near[name] = np.where(rng.random(2000) < 0.7, np.repeat(np.array(ends, dtype=float), 1000), values)
        else:
            near[name] = np.repeat([float(feature.position(end)) for end in ends], 1000)
    return {name: np.concatenate([columns[name], corners[name], near[name]]) for name in schema}


def check_inside(model, schema, found, positive=None):
    handle = pel.Model(
        model, output=None if positive is not None else (-1e300, 1e300), trained_on="other data", positive=positive
    )
    ready = handle.ready(schema)
    answers = ready.raw(ready.inputs(hostile_records(schema, found)))
    assert found.lo <= answers.min() and answers.max() <= found.hi
    assert found.lo <= found.attained_lo <= found.attained_hi <= found.hi
    assert answers.max() <= found.attained_hi + 1.1 * found.gap * (found.width) + 1e-9
    return answers


@pytest.mark.parametrize("name", PIPELINES)
def test_no_record_leaves_the_range_of_a_pipeline(name):
    frame, score = people()
    model = fitted(PIPELINES[name], frame, score)
    found = output_range(model, MIXED, seconds=1.5, tolerance=1e-2)
    check_inside(model, MIXED, found)
    if name in ("tree, NaN seen", "ridge", "poisson", "constant"):
        assert found.exact and found.splits == 0


@pytest.mark.parametrize("kind", ["forest", "hist", "boosting", "softmax", "relu"])
def test_no_record_leaves_the_range_of_a_classifier(kind):
    frame, score = people()
    models = {
        "forest": RandomForestClassifier(20, max_depth=6, random_state=0),
        "hist": HistGradientBoostingClassifier(max_iter=8),
        "boosting": GradientBoostingClassifier(n_estimators=8, random_state=0),
        "softmax": LogisticRegression(),
        "relu": network(MLPClassifier, (8,)),
    }
    model = fitted(make_pipeline(prepared(), models[kind]), frame, np.digitize(score, np.quantile(score, [0.3, 0.7])))
    check_inside(model, MIXED, output_range(model, MIXED, positive=1, seconds=1.5, tolerance=1e-2), positive=1)


def test_levels_of_one_category_are_taken_together():
    rng = np.random.default_rng(0)
    schema = pel.Schema({"c": pel.Category(list("abcdef")), "x": pel.Number(0, 1)})
    frame = pd.DataFrame({"c": rng.choice(list("abcdef"), 300), "x": rng.random(300)}).astype({"c": object})
    target = frame["c"].map(dict(zip("abcdef", [3, 1, 4, 1, 5, -9]))).to_numpy() + frame["x"].to_numpy()
    for last in (LinearRegression(), network(shape=(8,)), RandomForestRegressor(5, random_state=0)):
        model = fitted(
            make_pipeline(make_column_transformer((OneHotEncoder(), ["c"]), remainder="passthrough"), last), frame, target
        )
        found = output_range(model, schema)
        grid = pd.DataFrame([(c, x) for c in "abcdef" for x in np.linspace(0, 1, 201)], columns=["c", "x"]).astype({"c": object})
        answers = model.predict(grid)
        assert found.hi - answers.max() <= 2e-3 * np.ptp(answers) and answers.min() - found.lo <= 2e-3 * np.ptp(answers)
    weights = model_weights(schema, frame, target)
    apart = np.maximum(weights, 0).sum() - np.minimum(weights, 0).sum()
    together = output_range(fitted(make_pipeline(_first(), LinearRegression()), frame, target), schema)
    assert together.width < 0.9 * apart


def _first():
    return make_column_transformer((OneHotEncoder(), ["c"]), remainder="passthrough")


def model_weights(schema, frame, target):
    """Coefficients whose positive and negative parts bound the range when one-hot columns are taken as independent."""
    return fitted(make_pipeline(_first(), LinearRegression()), frame, target)[-1].coef_


def test_missing_values_are_part_of_the_domain():
    """The largest answer is given for a missing value alone; without one declared it cannot be reached."""
    values = np.r_[np.linspace(0, 1, 100), np.full(50, np.nan)][:, None]
    target = np.r_[np.linspace(0, 1, 100), np.full(50, 30.0)]
    for model in (HistGradientBoostingRegressor(max_iter=30), DecisionTreeRegressor(), RandomForestRegressor(5, random_state=0)):
        model = fitted(model, values, target)
        with_missing = output_range(model, pel.Schema({"x": pel.Number(0, 1, missing=math.nan)}))
        without = output_range(model, pel.Schema({"x": pel.Number(0, 1)}))
        assert math.isnan(with_missing.highest["x"]) and with_missing.hi >= model.predict([[math.nan]])[0] > 20
        assert without.hi < 2


def test_an_imputed_number_counts_at_its_replacement():
    table = np.r_[np.linspace(0, 1, 50), [np.nan] * 5][:, None]
    model = make_pipeline(SimpleImputer(strategy="constant", fill_value=100.0), LinearRegression())
    model = fitted(model, table, np.r_[np.linspace(0, 1, 50), [100.0] * 5])
    found = output_range(model, pel.Schema({"x": pel.Number(0, 1, missing=math.nan)}))
    assert found.hi == pytest.approx(100.0) and math.isnan(found.highest["x"])
    assert output_range(model, pel.Schema({"x": pel.Number(0, 1)})).hi == pytest.approx(1.0)


def test_a_missing_value_off_the_grid_is_met():
    """Number(…, integer=True, missing=2.5) hands an array model the value 2.5, which no integer is."""
    model = fitted(DecisionTreeRegressor(), [[0], [1], [2], [2.5], [3], [4]], [0, 0, 0, 9, 0, 0])
    assert output_range(model, pel.Schema({"x": pel.Number(0, 4, integer=True, missing=2.5)})).hi >= 9
    assert output_range(model, pel.Schema({"x": pel.Number(0, 4, integer=True)})).hi < 1


def hat():
    """A network with one peak: 1 at x = 1/2, 0 at 0 and at 1."""
    model = fitted(MLPRegressor(hidden_layer_sizes=(3,), max_iter=1), [[0.0], [1.0]], [0.0, 1.0])
    model.coefs_ = [np.array([[1.0, 1.0, 1.0]]), np.array([[2.0], [-4.0], [2.0]])]
    model.intercepts_ = [np.array([0.0, -0.5, -1.0]), np.array([0.0])]
    return model


def test_whole_numbers_are_not_taken_between_the_grid():
    tree = fitted(DecisionTreeRegressor(), [[0], [1], [2], [2.5], [3], [4]], [0, 0, 0, 9, 0, 0])
    for model, hi in ((tree, 4), (hat(), 1)):
        whole = output_range(model, pel.Schema({"x": pel.Number(0, hi, integer=True)}))
        real = output_range(model, pel.Schema({"x": pel.Number(0, hi)}))
        assert abs(whole.hi) < 1e-9 and real.hi >= 1 - 1e-12
        assert isinstance(whole.highest["x"], int)


def check_single_precision():
    """Trees compare single-precision copies: a double above the threshold can go left, and one just above can never go right."""
    model = fitted(DecisionTreeRegressor(), [[0.0], [1.0]], [7.0, -7.0])
    assert model.tree_.threshold[0] == 0.5
    lo = 0.5 + 1e-12
    assert model.predict([[lo]])[0] == 7.0
    trap = output_range(model, pel.Schema({"x": pel.Number(lo, 1.0)}))
    assert trap.hi >= 7.0 and trap.highest["x"] < 0.5 + 1e-7
    out_of_reach = output_range(model, pel.Schema({"x": pel.Number(0.0, 0.5 + 1e-9)}))
    assert out_of_reach.lo > 6.9


def test_single_precision_is_respected():
    check_single_precision()


def test_comparisons_change_exactly_where_the_pipeline_changes():
    rng = np.random.default_rng(0)
    schema = pel.Schema({"x": pel.Number(-3, 1e6), "n": pel.Number(-50, 2_000_000, integer=True)})
    table = np.column_stack([rng.normal(1e5, 3e4, 200), rng.integers(-50, 2_000_000, 200)])
    model = fitted(
        make_pipeline(StandardScaler(), MinMaxScaler(), DecisionTreeRegressor(max_depth=5)), table, rng.normal(size=200)
    )
    parts = encodings.take_apart(model)
    ready = pel.Model(model, output=(-9, 9), trained_on="other data").ready(schema)
    view = encodings.Encoding(ready, parts.steps, encodings.as_single)
    nodes = parts.core.tree_
    asked = [(int(c), float(t)) for c, t in zip(nodes.feature, nodes.threshold) if c >= 0]
    for (c, limit), found in zip(asked, encodings.highest_below(view, asked)):
        here = view.base(2)
        here[:, c] = found, encodings.next_value(found, bool(c))
        low, high = view(here)[:, c].astype(float)
        assert low <= limit < high


def test_unsupported_parts_are_named():
    table, score = small_targets()
    for model, words in (
        (SVR(), "SVR"),
        (KNeighborsRegressor(), "KNeighborsRegressor"),
        (make_pipeline(PolynomialFeatures(2), Ridge()), "'PolynomialFeatures'"),
        (make_pipeline(ColumnTransformer([("power", PolynomialFeatures(), [1])]), Ridge()), "ColumnTransformer/power"),
        (make_pipeline(FunctionTransformer(np.abs), Ridge()), "FunctionTransformer"),
        (BaggingRegressor(KNeighborsRegressor()), "KNeighborsRegressor"),
        (GradientBoostingRegressor(init=Ridge(), n_estimators=3), "Ridge"),
        (TransformedTargetRegressor(Ridge(), func=np.cbrt, inverse_func=np.exp2), "target transformer"),
        (LogisticRegression(), None),
    ):
        model = fitted(model, table, score if words else (score > 0).astype(int))
        if words is None:
            output_range(model, SMALL)
            continue
        with pytest.raises(ModelError, match=words) as caught:
            output_range(model, SMALL)
        assert "Declare output= yourself" in str(caught.value)
    with pytest.raises(ModelError, match="not a fitted estimator"):
        output_range(lambda frame: frame["a"], SMALL)
    with pytest.raises(ModelError, match="asked twice"):
        output_range(fitted(DummyClassifier(strategy="stratified"), table, (score > 0).astype(int)), SMALL)
    with pytest.raises(ModelError, match=r"'x'.*integer"):
        real = pel.Schema({"x": pel.Number(0, 1)})
        output_range(fitted(make_pipeline(OneHotEncoder(handle_unknown="ignore"), Ridge()), [[0.0], [1.0]], [0, 1]), real)
    steep = fitted(PoissonRegressor(), np.eye(10), np.ones(10))
    steep.coef_ = np.full(10, 75.0)
    with pytest.raises(ModelError, match="overflow"):
        output_range(steep, pel.Schema({f"x{j}": pel.Number(0, 1) for j in range(10)}))
    with pytest.raises(ModelError, match="positive time"):
        output_range(fitted(Ridge(), table, score), SMALL, seconds=0)


def test_stopped_early_is_certified_and_says_so():
    rng = np.random.default_rng(0)
    schema = pel.Schema({f"x{j}": pel.Number(-1, 1) for j in range(10)})
    table = rng.uniform(-1, 1, (1500, 10))
    target = np.sin(3 * table[:, 0]) * table[:, 1] + table[:, 2] * table[:, 3] + rng.normal(0, 1.0, 1500)
    wide = MLPRegressor(hidden_layer_sizes=(60, 60), max_iter=30, random_state=0)
    for model in (RandomForestRegressor(40, max_depth=8, random_state=0), wide):
        model = fitted(model, table, target)
        found = output_range(model, schema, seconds=0.5, tolerance=1e-6)
        assert not found.exact and not found.finished and found.seconds < 6
        assert "certified, gap" in found.text and "stopped after" in found.text
        longer = output_range(model, schema, seconds=1.5, tolerance=1e-6)
        assert longer.hi <= found.hi + 1e-9 and longer.lo >= found.lo - 1e-9
        check_inside(model, schema, found)


def test_rounding_is_covered():
    """Large offsets that cancel: the model's own sums are off by more than any fixed small padding."""
    rng = np.random.default_rng(0)
    schema = pel.Schema({f"x{j}": pel.Number(1e9, 1e9 + 1) for j in range(12)})
    model = fitted(LinearRegression(), rng.normal(size=(50, 12)), rng.normal(size=50))
    model.coef_ = rng.normal(0, 1e6, 12)
    model.intercept_ = float(-model.coef_.sum() * 1e9)
    found = output_range(model, schema)
    table = rng.choice([1e9, 1e9 + 1, 1e9 + 0.5], (20_000, 12))
    answers = model.predict(table)
    exact = [sum(Fraction(w) * Fraction(x) for w, x in zip(model.coef_, row)) + Fraction(model.intercept_) for row in table[:200]]
    assert max(abs(float(Fraction(a) - e)) for a, e in zip(answers[:200], exact)) > 1e-3
    assert found.lo <= answers.min() and answers.max() <= found.hi
    assert all(found.lo <= e <= found.hi for e in exact)


@pytest.mark.parametrize("activation", ["relu", "tanh", "logistic"])
def test_lines_lie_on_their_side(activation):
    rng = np.random.default_rng(0)
    low = np.concatenate([rng.normal(0, s, 300) for s in (1e-8, 0.1, 1, 5, 40)])
    width = np.concatenate([rng.exponential(s, 500) for s in (1e-9, 1.0, 20)])
    low, high = low, low + width
    slope_low, rise_low, slope_high, rise_high = network_range.relaxed(activation, low, high)
    for share in np.linspace(0, 1, 201):
        z = np.clip(low + share * (high - low), low, high)
        value = network_range.ACTIVATIONS[activation](z)
        assert np.all(slope_low * z + rise_low <= value + 1e-15 * np.abs(z) * slope_low)
        assert np.all(slope_high * z + rise_high >= value - 1e-15 * np.abs(z) * slope_high)


def lemma_forest(model):
    return np.mean([np.abs(tree.tree_.value).max() for tree in model.estimators_])


def lemma_boosting(model):
    init = model._raw_predict_init(np.zeros((1, model.n_features_in_), dtype=np.float32))[0, 0]
    return abs(init) + model.learning_rate * sum(np.abs(t.tree_.value).max() for t in model.estimators_.ravel())


def lemma_tanh(model):
    return np.abs(model.coefs_[1]).sum() + abs(model.intercepts_[1][0])


LEMMAS = {
    "forest": (lemma_forest, lambda seed: RandomForestRegressor(10, max_depth=2 + seed % 4, random_state=seed)),
    "boosting": (
        lemma_boosting,
        lambda seed: GradientBoostingRegressor(n_estimators=15, max_depth=1 + seed % 3, random_state=seed),
    ),
    "tanh": (
        lemma_tanh,
        lambda seed: MLPRegressor(hidden_layer_sizes=(5 + seed,), activation="tanh", max_iter=60, random_state=seed),
    ),
}


@pytest.mark.parametrize("name", LEMMAS)
def test_never_looser_than_the_published_lemmas(name):
    """Lemmas 34 to 36 bound |f| by F_max; the certified interval lies inside [−F_max, F_max], usually far inside."""
    lemma, make = LEMMAS[name]
    shares = []
    for seed in range(8):
        table, score = small_targets(seed)
        model = fitted(make(seed), table, score - 2 * (seed % 2))
        found = output_range(model, SMALL, seconds=2, tolerance=1e-2)
        bound = lemma(model) * (1 + 1e-9)
        assert found.hi <= bound and -found.lo <= bound
        shares.append(found.width / (2 * bound))
    assert np.median(shares) < 0.95


def test_a_range_reads_as_a_pair():
    table, score = small_targets()
    model = fitted(Ridge(), table, score)
    found = output_range(model, SMALL)
    lo, hi = found
    assert (found[0], found[1], len(found), found[0:2]) == (lo, hi, 2, (lo, hi)) and found.width == hi - lo
    handle = pel.Model(model, output=found, features=list(SMALL), trained_on="other data")
    assert handle.output == (lo, hi)
    again = output_range(handle, SMALL)
    assert tuple(again) == tuple(found) and again.highest == found.highest
    assert set(found.highest) == set(SMALL) and "rounding" in found.text and isinstance(found, OutputRange)
    with pytest.raises(ModelError, match="already part"):
        output_range(handle, SMALL, positive=1)
    with pytest.raises(AttributeError):
        found.lo = 0.0


def test_witnesses_speak_in_labels_and_give_what_is_attained():
    frame, score = people()
    model = fitted(make_pipeline(prepared(), RandomForestRegressor(5, max_depth=4, random_state=0)), frame, score)
    found = output_range(model, MIXED)
    assert found.highest["school"] in MIXED["school"].values and found.highest["sex"] in ("F", "M")
    rows = pd.DataFrame([found.lowest, found.highest]).astype({"sex": object, "school": object})
    assert model.predict(rows) == pytest.approx([found.attained_lo, found.attained_hi])


def test_a_constant_model_has_a_usable_range():
    table, score = small_targets()
    for model in (DummyRegressor(), DummyClassifier(), DecisionTreeRegressor()):
        constant = np.zeros(len(table)) if isinstance(model, DecisionTreeRegressor) else (score > 0).astype(int)
        found = output_range(fitted(model, table, constant), SMALL)
        assert found.lo < found.hi and found.width < 1e-9 and found.exact
        pel.Model(model, output=found, trained_on="other data")


def test_output_range_is_attained():
    """Every kind of search: both ends are reached by a record, and no record of the box goes beyond them."""
    table, score = small_targets()
    records = every_record(SMALL)
    for model in (GradientBoostingRegressor(n_estimators=10, random_state=0), make_pipeline(onehot(2), Ridge())):
        model = fitted(model, table, score)
        check_equal(output_range(model, SMALL), answers_of(model, records))
    peak = output_range(hat(), pel.Schema({"x": pel.Number(0, 1)}))
    assert peak.hi >= 1.0 and peak.attained_hi == pytest.approx(1.0, abs=1e-3)
    check_single_precision()
    check_boxes()


def check_boxes():
    """The bounds behind a search hold over any box, whether or not the search would have noticed."""
    rng = np.random.default_rng(0)
    table, score = small_targets()
    for activation in ("relu", "tanh"):
        model = fitted(make_pipeline(onehot(2), network(shape=(7, 6), activation=activation)), table, score)
        ready = pel.Model(model, output=(-99, 99), trained_on="other data").ready(SMALL)
        inputs = network_range.Inputs(encodings.Encoding(ready, model[:-1], encodings.as_floats))
        layers = network_range.Layers(
            tuple(w.T for w in model[-1].coefs_), tuple(model[-1].intercepts_), activation, network_range.ULP
        )
        for sign in (1, -1):
            relaxation = network_range.Relaxation(layers, inputs, network_range.single_output(sign))
            ends = np.sort(np.floor(rng.uniform([0, -3, 0, 0, 10], [6, 4, 4, 2, 17], (40, 2, 5))), axis=1)
            boxes = network_range.Boxes(
                np.where([d.interval for d in inputs.domains], ends[:, 0], 1.0),
                np.where([d.interval for d in inputs.domains], ends[:, 1], 0.0),
                [
                    np.array([(d.points >= a) & (d.points <= b) for a, b in ends[:, :, j]]).reshape(40, -1)
                    for j, d in enumerate(inputs.domains)
                ],
            )
            bounds = relaxation(boxes).bound + relaxation.evaluation_error
            for bound, (lo, hi) in zip(bounds, ends):
                assert np.all(sign * model.predict(rng.integers(lo, hi + 1, (200, 5)).astype(float)) <= bound)


def halve_range(patch):
    """Behind the function's own check of its answer, so that only the assertions here can notice."""
    kept = ranges.OutputRange
    patch.setattr(ranges, "OutputRange", lambda **given: kept(**{**given, "lo": given["lo"] / 2, "hi": given["hi"] / 2}))


def halve_before_the_check(patch):
    kept = ranges._outward
    patch.setattr(ranges, "_outward", lambda *given: tuple(end / 2 for end in kept(*given)))


def forget_the_best_leaf(patch):
    kept = tree_range.Ensemble._find_leaves

    def find(self, trees):
        kept(self, trees)
        keep = np.arange(len(self.value)) != np.argmax(self.value)
        self.value, self.tree = self.value[keep], self.tree[keep]
        self.lo, self.hi, self.bits = ([v[keep] for v in part] for part in (self.lo, self.hi, self.bits))

    patch.setattr(tree_range.Ensemble, "_find_leaves", find)


def compare_doubles(patch):
    patch.setattr(sklearn_trees, "as_single", encodings.as_floats)


def forget_a_level(patch):
    kept = encodings.Encoding.table
    patch.setattr(encodings.Encoding, "table", lambda self, j: np.minimum(kept(self, j), 0.5))


def lower_the_line(patch):
    kept = network_range._relu_lines

    def lines(low, high):
        *under, slope, rise = kept(low, high)
        return *under, slope, rise * 0.3

    patch.setattr(network_range, "_relu_lines", lines)


@pytest.mark.parametrize(
    "sabotage", [halve_range, halve_before_the_check, forget_the_best_leaf, compare_doubles, forget_a_level, lower_the_line]
)
def test_sabotage_is_noticed(sabotage, monkeypatch):
    sabotage(monkeypatch)
    with pytest.raises((AssertionError, ModelError)):
        test_output_range_is_attained()
