"""Black boxes are functions of one row to the last bit, tried anew before every charge."""

import numpy as np
import pandas as pd
import pytest
from sklearn.cluster import KMeans
from sklearn.linear_model import LinearRegression
from sklearn.neural_network import MLPRegressor

import pellucid as pel
from pellucid.engine import LocalEngine
from pellucid.engine.apart import apart
from pellucid.public.asking import FEWEST, MOST, STEP, Asking
from pellucid.public.row_wise import tried

NAMES = [f"x{j}" for j in range(9)]
SCHEMA = pel.Schema({name: pel.Number(0, 1) for name in NAMES})


def linear(seed=0):
    rng = np.random.default_rng(seed)
    x = rng.random((200, len(NAMES)))
    return LinearRegression().fit(x, x @ rng.random(len(NAMES)) + rng.random(200))


def records(count, seed=1):
    return dict(zip(NAMES, np.random.default_rng(seed).random((len(NAMES), count))))


def model(predictor, **options):
    return pel.Model(predictor, **{"output": (-10, 10), "features": NAMES, "trained_on": "other data", **options})


# One shape.


@pytest.mark.parametrize("rows", [None, 1, 100, FEWEST, FEWEST + 1, 45_211, MOST, 10**7])
def test_questions_have_one_public_shape(rows):
    asked = Asking.about(rows).rows
    assert asked % STEP == 0 and FEWEST <= asked <= MOST


@pytest.mark.parametrize("count", [1, 3, 4, 100, FEWEST - 1, FEWEST, FEWEST + 1, 5000])
def test_a_model_is_always_asked_for_the_same_number_of_rows(count):
    seen = []

    def watching(table):
        seen.append(len(table))
        return table.sum(axis=1) / 10

    ready = model(watching, input="array").ready(SCHEMA)
    seen.clear()
    columns = records(count)
    answers = ready.predict(ready.inputs(columns))
    assert set(seen) == {FEWEST}
    np.testing.assert_array_equal(answers, ready.inputs(columns).sum(axis=1) / 10)


def test_several_inputs_share_questions():
    calls = []
    ready = model(lambda t: calls.append(1) or t[:, 0], input="array").ready(SCHEMA)
    calls.clear()
    asked = [ready.inputs(records(size, seed=size)) for size in (300, 0, 700, 3000, 1)]
    answers = ready.predict_each(asked)
    assert len(calls) == 2
    for given, found in zip(asked, answers, strict=True):
        np.testing.assert_array_equal(found, given[:, 0])


def test_a_bit_of_a_matrix_product_makes_no_contribution():
    """The number of identical records changes no one's 0-1 loss, though the answer lies exactly at the threshold."""
    regression = linear()
    for seed in range(40):
        one = np.random.default_rng(seed).random(len(NAMES))
        alone, among = (regression.predict(np.tile(one, (size, 1)))[0] for size in (3, 4))
        if alone != among:
            break
    else:
        pytest.skip("this machine's linear algebra does not depend on the number of rows")
    # Exactly the threshold of answers between 0 and twice as much.
    middle = min(alone, among)
    schema = pel.Schema({**{name: pel.Number(0, 1) for name in NAMES}, "y": pel.Number(0, 2 * middle)})
    example = pel.PermutationImportance(model(regression, output=(0, 2 * middle)), "y", loss="0-1")
    losses = set()
    for count in (3, 4, 5, 64, 101):
        data = {**{name: np.full(count, one[j]) for j, name in enumerate(NAMES)}, "y": np.full(count, 1.5 * middle)}
        session = pel.Session(data, schema, budget=pel.Budget(epsilon=10.0), neighbors="add-remove")
        asked = session.plan(example, epsilon=1.0).stages[-1].query
        engine = LocalEngine(data, schema, "add-remove", pel.Unit())
        losses.add(tuple(value / count for value in engine.totals(asked)))
    assert len(losses) == 1


def test_a_row_that_fails_changes_no_bit_of_another():
    regression = linear()

    def failing(table):
        if (table[:, 0] == 0.123).any():
            raise ValueError
        return regression.predict(table)

    ready = model(failing, input="array").ready(SCHEMA)
    columns = records(700)
    before = ready.predict(ready.inputs(columns))
    for bad in (0, 350, 699):
        broken = {name: column.copy() for name, column in columns.items()}
        broken["x0"][bad] = 0.123
        after = ready.predict(ready.inputs(broken))
        assert after[bad] == 0.0
        np.testing.assert_array_equal(np.delete(after, bad), np.delete(before, bad))


# The trial.


@pytest.mark.parametrize(
    "function",
    [
        lambda t: t[:, 0] + np.arange(len(t)) % 97 * 1e-15,
        lambda t: t[:, 0] / t[:, 1].max(),
        lambda t: t[:, 0] + (t[:, 1].mean() > 0.8) * 1e-15,
        lambda t: (t - t.mean(axis=0))[:, 0],
        lambda t: t[:, 0].argsort().argsort() / len(t),
    ],
)
def test_no_bit_may_come_from_the_batch(function):
    with pytest.raises(pel.ModelError, match="function of one row"):
        model(function, input="array").ready(SCHEMA)


@pytest.mark.parametrize("rows", [FEWEST, FEWEST + STEP, MOST])
def test_linear_algebra_passes(rows):
    points = np.random.default_rng(0).random((300, len(NAMES)))
    for predictor in (linear(), MLPRegressor(hidden_layer_sizes=(50, 20), max_iter=20).fit(points, points.sum(axis=1))):
        tried(model(predictor), SCHEMA, Asking(rows))
    groups = pel.Clustering(KMeans(4, n_init=1).fit(points), clusters=range(4), features=NAMES, trained_on="other data")
    tried(groups, SCHEMA, Asking(rows))


@pytest.mark.parametrize("seed", range(5))
def test_networks_in_single_precision_pass(seed):
    rng = np.random.default_rng(seed)
    layers = [rng.normal(size=shape).astype(np.float32) for shape in ((len(NAMES), 64), (64, 32), (32, 1))]

    def network(table):
        out = table.astype(np.float32)
        for layer in layers[:-1]:
            out = np.maximum(out @ layer, 0)
        return (out @ layers[-1])[:, 0]

    model(network, input="array").ready(SCHEMA)


# Tried before every charge.


class Changing:
    """Fitted once, and changed later."""

    def __init__(self):
        self.by_batch, self.slope = False, 0.5

    def predict(self, frame):
        values = frame["x0"].to_numpy() * self.slope
        return values / values.max() if self.by_batch else values


@pytest.fixture
def session():
    return pel.Session(pd.DataFrame(records(500)), SCHEMA, budget=pel.Budget(epsilon=10.0), strict=False)


def test_a_model_that_starts_to_look_at_its_batch_is_refused(session):
    changing = Changing()
    explainer = pel.PartialDependence(model(changing, output=(0, 1)), "x0")
    session.release(explainer, epsilon=1.0)
    changing.by_batch = True
    spent = session.spent
    with pytest.raises(pel.ModelError, match=r"function of one row.*Nothing was charged"):
        session.release(explainer, epsilon=1.0, fresh=True)
    with pytest.raises(pel.ModelError):
        session.release(explainer, epsilon=1.0)
    assert session.spent == spent


def test_a_model_that_was_fitted_again_is_not_answered_from_before(session):
    changing = Changing()
    explainer = pel.PartialDependence(model(changing, output=(0, 1)), "x0")
    first = session.release(explainer, epsilon=1.0)
    assert session.charge_for(explainer, epsilon=1.0) == 0
    changing.slope = 0.1
    second = session.release(explainer, epsilon=1.0)
    assert session.spent == 2.0
    assert second.to_frame()["value"].max() < first.to_frame()["value"].max() - 0.1


def test_one_that_has_no_bytes_is_known_again_while_it_lives(session):
    import threading

    class Locked(Changing):
        def __init__(self):
            super().__init__()
            self.lock = threading.Lock()

    locked = Locked()
    explainer = pel.PartialDependence(model(locked, output=(0, 1)), "x0")
    session.release(explainer, epsilon=1.0)
    session.release(explainer, epsilon=1.0)
    assert session.spent == 1.0
    locked.slope = 0.1
    session.release(explainer, epsilon=1.0)
    assert session.spent == 2.0


# In processes of their own.


class Remembering:
    """A function of one row until it has met somebody; from then on it answers 1 for everybody."""

    def __init__(self):
        self.met = False

    def __call__(self, table):
        self.met = self.met or bool((table[:, 0] == 0.123).any())
        return np.full(len(table), 1.0) if self.met else np.zeros(len(table))


def test_a_memory_ends_with_the_question():
    columns = records(3 * FEWEST)
    columns["x0"][5] = 0.123
    explained = model(Remembering(), output=(0, 1), input="array")
    strict = Asking.about(None, apart)
    ready = tried(explained, SCHEMA, strict)
    answers = ready.predict(ready.inputs(columns), strict)
    assert answers[: strict.rows].all() and not answers[strict.rows :].any()
    # Here, without a process of its own, everybody who is asked about later is told apart.
    assert ready.predict(ready.inputs(columns)).all()


def test_answers_of_other_processes_are_the_same():
    columns, strict = records(FEWEST + 100), Asking.about(None, apart)
    for options in ({"input": "array"}, {"input": "frame"}):
        ready = tried(model(linear(), **options), SCHEMA, strict)
        here = ready.predict(ready.inputs(columns), Asking(strict.rows))
        np.testing.assert_array_equal(ready.predict(ready.inputs(columns), strict), here)


def test_a_strict_session_says_so_and_finds_failing_rows():
    regression = linear()

    def failing(table):
        if (table[:, 0] == 0.123).any():
            raise ValueError("a row")
        return np.clip(regression.predict(table), 0, 1)

    data = records(300)
    data["x0"][7] = 0.123
    explained = model(failing, output=(0, 1), input="array")
    session = pel.Session(data, SCHEMA, budget=pel.Budget(epsilon=10.0), strict=True)
    released = session.release(pel.PartialDependence(explained, "x1"), epsilon=1.0)
    assert "process of its own" in " ".join(released.certificate.assumptions)


def test_what_cannot_be_sent_is_refused_before_a_charge():
    import threading

    lock = threading.Lock()
    explained = model(lambda t: t[:, int(lock.locked())], output=(0, 1), input="array")
    session = pel.Session(records(300), SCHEMA, budget=pel.Budget(epsilon=10.0), strict=True)
    with pytest.raises(pel.PellucidError, match="cannot be sent"):
        session.release(pel.PartialDependence(explained, "x1"), epsilon=1.0)
    assert session.spent == 0


# Rounded where needed.


def test_a_precision_rounds_last_digits_away():
    def by_place(table):
        return table[:, 0] + 1e-9 * (np.arange(len(table)) % 97)

    with pytest.raises(pel.ModelError, match=r"with its place in the batch.*precision=1e-4"):
        model(by_place, input="array").ready(SCHEMA)
    with pytest.raises(pel.ModelError) as refused:
        model(lambda t: t[:, 0] * (np.arange(len(t)) % 2), input="array").ready(SCHEMA)
    assert "precision" not in str(refused.value)
    explained = model(by_place, input="array", precision=1e-4, output=(0, 1))
    session = pel.Session(records(500), SCHEMA, budget=pel.Budget(epsilon=10.0))
    certificate = session.release(pel.PartialDependence(explained, "x1"), epsilon=1.0).certificate
    assert "rounded to multiples of 0.0001" in certificate.bounds["output of by_place"]
    assert "after rounding to multiples of 0.0001" in " ".join(certificate.assumptions)
    session.release(pel.PartialDependence(model(by_place, input="array", precision=1e-3, output=(0, 1)), "x1"), epsilon=1.0)
    assert session.spent == 2.0


@pytest.mark.parametrize("precision", [0, -1, True, "fine", float("nan"), 30.0])
def test_a_precision_is_small_and_positive(precision):
    with pytest.raises(pel.ModelError, match="precision="):
        model(linear(), precision=precision)


def test_a_stream_asks_no_model_that_was_changed(monkeypatch):
    changing = Changing()
    explainer = pel.LocalLinear(model(changing, output=(0, 1)))
    session = pel.Session(pd.DataFrame(records(500)), SCHEMA, budget=pel.Budget(epsilon=10.0, delta=1e-6))
    asked = dict.fromkeys(NAMES, 0.5)
    with session.open(explainer, rho=1.0) as local:
        changing.slope = 0.1
        with pytest.raises(pel.PlanError, match=r"changed since the stream was opened.*Nothing was charged"):
            local.explain(asked)
        assert session.spent == 0
        changing.slope = 0.5
        local.explain(asked)
        # The records are held as the model answered for them, but the answer would be said to be about the model as it is.
        spent, changing.by_batch = session.spent, True
        with pytest.raises(pel.ModelError, match="Nothing was charged"):
            local.explain({**asked, "x0": 0.9})
        assert session.spent == spent
