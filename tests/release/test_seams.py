"""What attackers found between theorems and machines, each as they showed it."""

import contextlib
import decimal
import os
import threading

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

import pellucid as pel
from pellucid.engine import LocalEngine
from pellucid.query import Sum
from pellucid.query.bounds import Box, Cells, CountedBox

ABC = pel.Schema({name: pel.Number(0, 1) for name in "abc"})
X = np.random.default_rng(0).uniform(0, 1, (3000, 3))
PEOPLE = {name: X[:, j] for j, name in enumerate("abc")}
RECORD = {"a": 0.1, "b": 0.2, "c": 0.3}
HERE = os.getpid()
MET = []


def never_drawn(codes, schema):
    """A declared code that no public record has."""
    drawn = {int(v) for size, seed in ((1024, 0), (64, 0), (256, 3)) for v in schema.sample(size, seed)["code"]}
    ends = {0, len(codes) // 4, len(codes) // 2, 3 * len(codes) // 4, len(codes) - 1}
    return next(i for i in range(len(codes)) if i not in drawn and all(abs(i - end) > 2 for end in ends))


@pytest.mark.parametrize("encoder", [OrdinalEncoder(), OneHotEncoder(sparse_output=False)], ids=["ordinal", "one-hot"])
def test_a_record_on_which_a_step_fails_stops_no_release(encoder):
    """An encoder that never met one of two thousand diagnoses: with that record nothing was released, without it all was."""
    codes = [f"D{i:04d}" for i in range(2000)]
    schema = pel.Schema({"code": pel.Category(codes), "b": pel.Number(0, 1)})
    rare = codes[never_drawn(codes, schema)]
    seen = pd.DataFrame({"code": [code for code in codes if code != rare] * 2})
    train = seen.assign(b=np.random.default_rng(0).random(len(seen)))
    steps = make_column_transformer((encoder, ["code"]), ("passthrough", ["b"]))
    fitted = make_pipeline(steps, RandomForestRegressor(5, max_depth=3, random_state=0)).fit(train, 0.4 + 0.2 * train["b"])
    model = pel.Model(fitted, output=(0, 1), features=["code", "b"], trained_on="other data")
    record, other = {"code": "D0007", "b": 0.2}, {"code": "D0017", "b": 0.7}
    for explainer in (
        pel.ShapValues(model, record),
        pel.ShapImportance(model, public_background=[record, other]),
        pel.ShapRanking(model, record),
    ):
        for last in ("D0007", rare):
            people = {"code": ["D0017"] * 300 + [last], "b": [0.5] * 301}
            session = pel.Session(people, schema, budget=pel.Budget(epsilon=1.0))
            assert session.release(explainer, epsilon=0.5).certificate.private


def test_steps_that_fail_on_declared_values_are_no_steps_to_read():
    """The linear model behind them is asked instead; nothing but words is raised."""
    schema = pel.Schema({"code": pel.Number(0, 999, integer=True), "b": pel.Number(0, 1)})
    rare = never_drawn(range(1000), schema)
    train = pd.DataFrame({"code": [v for v in range(1000) if v != rare], "b": np.linspace(0, 1, 999)})
    steps = make_column_transformer((OneHotEncoder(), ["code"]), (StandardScaler(), ["b"]))
    fitted = make_pipeline(steps, Ridge()).fit(train, 0.4 + 0.2 * train["b"])
    model = pel.Model(fitted, output=(0, 1), features=["code", "b"], trained_on="other data")
    session = pel.Session({"code": [5] * 200, "b": [0.5] * 200}, schema, budget=pel.Budget(epsilon=1.0))
    made = session.release(pel.ShapValues(model, {"code": 7, "b": 0.2}), epsilon=1.0)
    assert not any("terms of a linear model" in text for text in (made.estimator, *made.certificate.assumptions))


class Watched:
    """A monitor around a step, as tools put there: it prints a row, and notes where and with how many it was called."""

    def __init__(self, plain):
        self.plain = plain

    def __call__(self, table, *more):
        table = np.asarray(table, dtype=float)
        if (table[:, 0] == 0.123456).any():
            print("a row of a person")
            MET.append((os.getpid() == HERE, len(table)))
        return self.plain(table)


@pytest.mark.parametrize("strict", [False, True])
def test_steps_are_asked_as_models_are(strict, capfd):
    """In silence, in the public shape, and in processes of their own where that is promised."""
    MET.clear()
    scaler = StandardScaler()
    fitted = make_pipeline(scaler, LinearRegression()).fit(X, 0.4 + 0.3 * X[:, 0])
    scaler.transform = Watched(scaler.transform)
    model = pel.Model(fitted, output=(0, 1), features=list("abc"), trained_on="other data", input="array")
    data = {**PEOPLE, "a": np.append(X[:-1, 0], 0.123456)}
    session = pel.Session(data, ABC, budget=pel.Budget(epsilon=1.0), strict=strict)
    session.release(pel.ShapValues(model, RECORD), epsilon=1.0)
    assert "a row of a person" not in "".join(capfd.readouterr())
    assert not MET if strict else {rows for _, rows in MET} == {session._engine.asking.rows}


def test_a_model_that_is_fitted_again_is_read_again():
    estimator = LinearRegression().fit(X, 0.5 + 0.01 * (X[:, 0] - 0.5))
    model = pel.Model(estimator, output=(0, 1), features=list("abc"), trained_on="other data", input="array")
    session = pel.Session(PEOPLE, ABC, budget=pel.Budget(epsilon=1000.0))
    explainer = pel.ShapValues(model, {"a": 1.0, "b": 1.0, "c": 1.0})
    first = session.release(explainer, epsilon=100.0)
    estimator.fit(X, 0.5 + 0.8 * (X[:, 1] - 0.5))
    second = session.release(explainer, epsilon=100.0)
    assert first.radius < 0.01 and second.radius > 0.3 and second.values[1] == pytest.approx(0.4, abs=0.05)


def test_a_model_that_begins_to_look_at_large_batches_is_refused():
    """It winsorises at a quantile of its batch, if that is large; the ends of all columns it leaves alone."""
    flag = threading.Event()

    def score(d):
        found = np.asarray(d["a"], dtype=float)
        return np.minimum(found, np.quantile(found, 0.6)) if flag.is_set() and len(d) >= 2000 else found

    model = pel.Model(score, output=(0, 1), features=["a"], trained_on="other data")
    session = pel.Session(PEOPLE, ABC, budget=pel.Budget(epsilon=10.0))
    explainer = pel.PermutationImportance(model, "b", features=["a"], cap="range")
    session.release(explainer, epsilon=1.0)
    flag.set()
    with pytest.raises(pel.ModelError, match="changed with"):
        session.release(explainer, epsilon=2.0)
    assert session.spent == 1.0


BONUS, SCALE = 0.0, 1.0


def rule(d):
    return 0.1 + BONUS * ((d["a"] > 0.99) & (d["b"] > 0.99) & (d["c"] > 0.99))


def rare(d):
    return SCALE * 1e-11 * (1 + d["a"])


class Net:
    """Cannot be pickled, and has its method from fit()."""

    def __init__(self):
        self.lock, self.predict = threading.Lock(), lambda d: 0.1 + 0 * d["a"]


class Plain:
    def predict(self, d):
        return 0.1 + 0 * d["a"]


def set_global(name, value):
    return lambda patch, predictor: patch.setitem(globals(), name, value)


@pytest.mark.parametrize(
    ("predictor", "high", "change"),
    [
        (rule, 1.0, set_global("BONUS", 0.8)),
        (rare, 1e-10, set_global("SCALE", 4.0)),
        (Net(), 1.0, lambda patch, net: patch.setattr(net, "predict", lambda d: 0.9 + 0 * d["a"])),
        (Plain(), 1.0, lambda patch, plain: patch.setattr(Plain, "predict", lambda self, d: 0.9 + 0 * d["a"])),
    ],
    ids=["a global that shows at the ends", "a small range", "a method that is set", "a method of the class"],
)
def test_a_changed_model_is_another_request(predictor, high, change, monkeypatch):
    model = pel.Model(predictor, output=(0, high), features=list("abc"), trained_on="other data")
    session = pel.Session({name: np.full(2000, 0.999) for name in "abc"}, ABC, budget=pel.Budget(epsilon=100.0))
    explainer = pel.PartialDependence(model, "a", points=[0.5, 0.999])
    before = session.release(explainer, epsilon=5.0)
    change(monkeypatch, predictor)
    after = session.release(explainer, epsilon=5.0)
    assert session.spent == 10.0 and after.y[-1] - before.y[-1] > 0.3 * high


def test_an_open_stream_notices_a_refit():
    estimator = LinearRegression().fit(X, 0.5 + 0.4 * (X[:, 0] - 0.5))
    model = pel.Model(estimator, output=(0, 1), features=list("abc"), trained_on="other data", input="array")
    session = pel.Session(PEOPLE, ABC, budget=pel.Budget(epsilon=200.0, delta=1e-6))
    with session.open(pel.LocalLinear(model), epsilon=100.0) as local:
        local.explain(RECORD)
        spent = session.spent
        estimator.fit(X, 0.5 - 0.4 * (X[:, 1] - 0.5))
        with pytest.raises(pel.PlanError, match="was changed since the stream was opened"):
            local.explain({"a": 0.8, "b": 0.9, "c": 0.9})
    assert session.spent == spent


def test_a_release_that_was_stored_late_is_one_of_the_old_table(tmp_path):
    """Charged before somebody declared that the table changed, and stored after it."""
    schema, statistic = pel.Schema({"a": pel.Number(0, 1)}), pel.Statistic("a")

    def opened(value, **options):
        data, budget = {"a": np.full(2000, value)}, pel.Budget(epsilon=50.0)
        return pel.Session(data, schema, budget, name="t", ledger=tmp_path / "study.db", **options)

    old, later = opened(0.1, create=True), []
    settle = old.ledger.settle

    def slowly(paid, text):
        later.append(opened(0.9, changed="second wave"))
        return settle(paid, text)

    old.ledger.settle = slowly
    old.release(statistic, epsilon=5.0)
    (new,) = later
    assert new.charge_for(statistic, epsilon=5.0) == 5.0
    assert new.release(statistic, epsilon=5.0).values[0] == pytest.approx(0.9, abs=0.02)


@pytest.mark.parametrize("kind", [pa.decimal32(5, 2), pa.decimal64(9, 2)], ids=str)
def test_short_decimals_are_read(kind):
    cells = pa.array([decimal.Decimal(0), decimal.Decimal(1)] * 50).cast(kind)
    session = pel.Session(pa.table({"x": cells}), pel.Schema({"x": pel.Category([0, 1])}), budget=pel.Budget(epsilon=30.0))
    assert session.release(pel.Distribution("x"), epsilon=15.0).counts[:2].tolist() == pytest.approx([50, 50], abs=5)


def test_views_of_text_are_checked():
    table = pa.table({"x": pa.array(["0", "z"] * 50).cast(pa.string_view())})
    found = pel.Session(table, pel.Schema({"x": pel.Category([0, 1])}), budget=pel.Budget(epsilon=3.0)).check()
    assert "50" in str(found)


def test_answers_outside_the_declared_range_are_remarked_on():
    """Before anything is paid: the curve of a model that answers in per cent is flat at 1."""
    percent = pel.Model(lambda d: 100 * d["a"], output=(0, 1), features=["a"], trained_on="other data", name="percent")
    fine = pel.Model(lambda d: d["a"], output=(0, 1), features=["a"], trained_on="other data", name="fine")
    session = pel.Session(PEOPLE, ABC, budget=pel.Budget(epsilon=10.0))
    for model, wanted in ((percent, True), (fine, False)):
        explainer = pel.PartialDependence(model, "a")
        said = "public records percent answered outside its declared range [0, 1], and was clipped"
        assert (said in str(session.preview(explainer, epsilon=1.0))) is wanted
        assert (said in session.release(explainer, epsilon=1.0).certificate.text) is wanted


def doubled(rows):
    return np.ones((2 * len(rows), 1))


@pytest.mark.parametrize(
    ("bound", "made"),
    [
        (Box(1, 0, 1), doubled),
        (Cells(1), lambda rows: (np.zeros((2 * len(rows), 1), dtype=int), None, None)),
        (CountedBox(1, 0, 1), lambda rows: (np.ones(2 * len(rows)), doubled(rows))),
    ],
    ids=["Box", "Cells", "CountedBox"],
)
def test_a_map_gives_one_contribution_per_record(bound, made):
    engine = LocalEngine({"a": [0.5] * 3}, pel.Schema({"a": pel.Number(0, 1)}), "add-remove", pel.Unit())
    with contextlib.suppress(pel.ReleaseFailed):
        engine.totals(Sum(made, bound, columns=("a",)))
        raise AssertionError("a record counted twice")
