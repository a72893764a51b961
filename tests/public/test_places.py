"""Where last bits depend on the place in a batch, a record settles its own place: no bit of its answer is anybody else's."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pellucid as pel
from pellucid.engine import LocalEngine
from pellucid.engine.apart import apart
from pellucid.public.asking import FEWEST, MOST, STEP, Asking
from pellucid.public.places import LONGEST, Places, repeating
from pellucid.public.row_wise import tried

NAMES = [f"x{j}" for j in range(6)]
SCHEMA = pel.Schema({name: pel.Number(0, 1) for name in NAMES})
WITH_WORDS = pel.Schema(
    {"a": pel.Number(0, 1), "b": pel.Number(0, 9, integer=True), "c": pel.Category(["no", "yes", "maybe"]), "d": pel.Boolean()}
)
BAD = 0.123
"""A first cell on which some predictors fail."""


def model(predictor, **options):
    usual = {"output": (-10, 10), "features": NAMES, "trained_on": "other data", "input": "array"}
    return pel.Model(predictor, **usual | options)


def people(count, seed=1):
    return dict(zip(NAMES, np.random.default_rng(seed).random((len(NAMES), count))))


def chosen(columns, index):
    return {name: column[index] for name, column in columns.items()}


def every_twelve(table):
    """The last bit is another one in the second half of every twelve rows, and in what is left over at the end."""
    table = np.asarray(table, dtype=float)
    answers, place = (table * [1, 2, 3, 4, 5, 6][: table.shape[1]]).sum(axis=1) / 10, np.arange(len(table))
    answers = np.where(place % 12 >= 6, np.nextafter(answers, 9), answers)
    return np.where(place >= len(table) - len(table) % 12, np.nextafter(answers, -9), answers)


def failing(table):
    if (table[:, 0] == BAD).any():
        raise ValueError("somebody")
    return every_twelve(table)


def network(shape, order, seed=0):
    """As a network in single precision is computed: `x @ W.T`, with weights in the order of C or of Fortran."""
    rng = np.random.default_rng(seed)
    layers = [
        np.asarray(rng.normal(size=(wide, deep)) / deep**0.5, np.float32, order) for deep, wide in itertools.pairwise(shape)
    ]

    def answers(table):
        out = np.asarray(table, dtype=np.float32)
        for layer in layers[:-1]:
            out = np.maximum(out @ layer.T, 0)
        return (out @ layers[-1].T)[:, 0]

    return answers


PREDICTORS = {
    "every twelve": every_twelve,
    "one that fails": failing,
    "a network": network((len(NAMES), 64, 32, 1), "C"),
    "a network's transpose": network((len(NAMES), 50, 1), "F"),
}


# A record's answer is its own.


@pytest.mark.parametrize("name", PREDICTORS)
@pytest.mark.parametrize("rows", [FEWEST, FEWEST + STEP])
def test_others_change_no_bit(name, rows):
    asking = Asking(rows)
    ready = tried(model(PREDICTORS[name]), SCHEMA, asking)
    columns, rng = people(3 * FEWEST), np.random.default_rng(0)
    columns["x0"][[5, 4000]] = BAD
    answers = ready.predict(ready.inputs(columns), asking)
    for size in (1, 2, 700, FEWEST, 3 * FEWEST):
        for index in (np.arange(size), rng.permutation(3 * FEWEST)[:size], np.repeat(rng.integers(3 * FEWEST), size)):
            again = ready.predict(ready.inputs(chosen(columns, index)), asking)
            np.testing.assert_array_equal(again, answers[index])


def test_without_that_others_do():
    """What is tested above is not so for rows that are asked about as they come."""
    columns = people(100)
    table = np.column_stack(list(columns.values()))
    assert (every_twelve(table)[:50] != every_twelve(table[::-1])[::-1][:50]).any()


@pytest.mark.parametrize(
    "homes",
    [
        lambda self, inputs: np.arange(len(inputs)) % self.period,
        lambda self, inputs: np.argsort(np.asarray(inputs)[:, 0]) % self.period,
    ],
)
def test_a_place_that_is_not_a_row_s_own_is_noticed(homes, monkeypatch):
    """The control of the tests above: by the order of the table, or by ranks."""
    ready = model(every_twelve).ready(SCHEMA)
    columns = people(900)
    monkeypatch.setattr(Places, "homes", homes)
    answers, index = ready.predict(ready.inputs(columns)), np.random.default_rng(0).permutation(900)
    assert (ready.predict(ready.inputs(chosen(columns, index))) != answers[index]).any()


MIXED = model(failing)


@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.sampled_from([0.0, 0.25, 1.0]), st.integers(0, 400)), max_size=8), st.integers(0, 2), st.integers(0, 9)
)
def test_any_company_leaves_every_answer_as_it_is_alone(groups, fail, seed):
    """Also many identical rows, and rows that fail."""
    ready = MIXED.ready(SCHEMA)
    rows = [[value, 0.5, 0.5, 0.5, 0.5, value] for value, times in [*groups, (BAD, fail), (0.3, 1)] for _ in range(times)]
    table = np.random.default_rng(seed).permutation(np.array(rows))
    alone = {row[0]: ready.predict(np.array([row]))[0] for row in {row[0]: row for row in rows}.values()}
    np.testing.assert_array_equal(ready.predict(table), [alone[value] for value in table[:, 0]])
    assert alone.get(BAD, 0.0) == 0.0


def test_a_table_of_identical_rows_takes_more_questions_and_one_answer():
    seen = []
    ready = model(lambda table: seen.append(len(table)) or every_twelve(table)).ready(SCHEMA)
    seen.clear()
    answers = ready.predict(np.full((2 * FEWEST, len(NAMES)), 0.3))
    assert set(seen) == {FEWEST} and len(set(answers)) == 1


def test_frames_are_asked_by_place_too():
    def last_bits(frame):
        assert list(frame.columns) == list(WITH_WORDS) and list(frame.index) == list(range(len(frame)))
        return every_twelve(np.column_stack([frame["a"], frame["b"], frame["c"] == "yes", frame["d"]]))

    asking = Asking(FEWEST)
    ready = tried(pel.Model(last_bits, output=(0, 9), trained_on="other data"), WITH_WORDS, asking)
    drawn, rng = WITH_WORDS.sample(5000), np.random.default_rng(0)
    answers = ready.predict(ready.inputs(drawn), asking)
    for size in (1, 4000, 5000):
        index = rng.permutation(5000)[:size]
        np.testing.assert_array_equal(ready.predict(ready.inputs(chosen(drawn, index)), asking), answers[index])


def test_several_inputs_share_questions():
    calls = []
    ready = model(lambda t: calls.append(1) or every_twelve(t)).ready(SCHEMA)
    calls.clear()
    asked = [ready.inputs(people(size, seed=size)) for size in (300, 0, 200, 700, 1)]
    together = ready.predict_each(asked)
    assert len(calls) == 1
    for given_rows, found in zip(asked, together, strict=True):
        np.testing.assert_array_equal(found, ready.predict(given_rows))


def test_in_processes_of_their_own():
    strict = Asking.about(None, apart)
    ready = tried(model(failing), SCHEMA, strict)
    columns = people(FEWEST + 300)
    columns["x0"][7] = BAD
    answers = ready.predict(ready.inputs(columns), strict)
    assert answers[7] == 0.0
    np.testing.assert_array_equal(answers, ready.predict(ready.inputs(columns), Asking(strict.rows)))
    index = np.random.default_rng(0).permutation(len(answers))[:900]
    np.testing.assert_array_equal(ready.predict(ready.inputs(chosen(columns, index)), strict), answers[index])


def totals(explainer, data, neighbors="replace"):
    session = pel.Session(data, SCHEMA, budget=pel.Budget(epsilon=10.0), neighbors=neighbors)
    query = session.plan(explainer, epsilon=1.0).stages[-1].query
    engine = LocalEngine(data, SCHEMA, neighbors, pel.Unit())
    engine.asking = session._engine.asking
    return np.array(engine.totals(query))


WIDTHS = [1, 2, 3, 5, 7, 8, 12, 16, 17, 31, 32, 33, 48, 64, 65, 100, 127, 128]
DEEPER = [(64, 32), (128, 128), (9, 7, 5), (100, 2), (16,) * 4, (33, 65), (48, 1)]
SHAPES = [(len(NAMES), *inner, 1) for inner in [*((width,) for width in WIDTHS), *DEEPER]]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("order", "CF")
def test_networks_of_any_shape_pass_and_give_the_same_totals_in_any_order(shape, order):
    explained = model(network(shape, order, seed=len(shape) + shape[1]), output=(-2, 2))
    explainer = pel.PartialDependence(explained, "x0", points=3, method="values")
    data = people(900)
    first = totals(explainer, data)
    index = np.random.default_rng(0).permutation(900)
    np.testing.assert_array_equal(totals(explainer, chosen(data, index)), first)


# The trial.


class Counting:
    """Its notes are its class's, as whatever belongs to a predictor is part of its fingerprint."""

    calls = []

    def __init__(self, answers):
        self.answers = answers

    def __call__(self, table):
        self.calls.append(len(table))
        return self.answers(table)


def first(table):
    return table[:, 0]


def test_an_ordinary_predictor_is_asked_no_more_than_before():
    calls, explained = Counting.calls, model(Counting(first))
    calls.clear()
    tried(explained, SCHEMA, Asking(FEWEST))
    assert calls == [1, FEWEST, FEWEST, FEWEST, 1, 63]
    calls.clear()
    tried(explained, SCHEMA, Asking(FEWEST), again=True)
    assert calls == [1024, 64, 64, FEWEST]


def test_one_that_is_asked_by_place_is_not_tried_all_over_again():
    calls, explained = Counting.calls, model(Counting(every_twelve))
    before = tried(explained, SCHEMA, Asking(FEWEST))
    calls.clear()
    assert tried(explained, SCHEMA, Asking(FEWEST), again=True) is before and len(calls) == 4


@pytest.mark.parametrize("rows", [FEWEST, FEWEST + STEP, 11_328, MOST])
def test_the_period_is_found_in_every_shape(rows):
    ready = tried(model(every_twelve), SCHEMA, Asking(rows))
    assert ready.places == {rows: Places(rows, 12, rows - rows % 12)}
    assert tried(model(lambda t: t[:, 0]), SCHEMA, Asking(rows)).places == {}


def test_only_the_tail_may_be_unlike():
    def tail(table):
        return np.where(np.arange(len(table)) < len(table) // 100 * 100, table[:, 0], np.nextafter(table[:, 0], 9))

    ready = model(tail).ready(SCHEMA)
    assert ready.places == {FEWEST: Places(FEWEST, 1, 2000)}
    columns = people(2 * FEWEST)
    np.testing.assert_array_equal(ready.predict(ready.inputs(columns)), columns["x0"])


def shifted(places):
    return lambda table: table[:, 0] + 1e-9 * places(np.arange(len(table)), len(table))


@pytest.mark.parametrize(
    "places",
    [
        lambda place, rows: place % (LONGEST + 1) == 0,
        lambda place, rows: place < rows // 2,
        lambda place, rows: place / rows,
        lambda place, rows: (place * 2654435761 >> 7) % 2,
        lambda place, rows: place >= 0.8 * rows,
        lambda place, rows: (place % 12 > 5) & (place // 12 % 17 == 3),
    ],
)
def test_places_without_a_small_period_are_refused(places):
    with pytest.raises(pel.ModelError, match=r"changed with its place in the batch.*precision=1e-4.*Nothing was charged"):
        model(shifted(places)).ready(SCHEMA)


def company(table):
    return every_twelve(table) + 1e-15 * (table[:, 1].mean() > 0.8)


def largest(table):
    return every_twelve(table) + 1e-13 * table[:, 1].max()


def memory():
    count = itertools.count()
    return lambda table: every_twelve(table) + 1e-15 * next(count)


@pytest.mark.parametrize(
    ("predictor", "what"),
    [
        (company, "changed with"),
        (largest, "changed with"),
        (memory(), "asked twice"),
        (lambda table: table[:, 0] + (np.arange(len(table)) % 12 > 5) * 0.5, "with its place in the batch"),
    ],
)
def test_nothing_but_the_place_may_decide_a_last_bit(predictor, what):
    with pytest.raises(pel.ModelError, match=rf"{what}.*function of one row"):
        model(predictor).ready(SCHEMA)


class Changing:
    def __init__(self):
        self.answers = every_twelve

    def predict(self, table):
        return self.answers(table)


@pytest.mark.parametrize("then", [company, largest, lambda table: table[:, 0] + np.arange(len(table)) * 1e-15])
def test_it_is_tried_again_before_every_charge(then):
    changing = Changing()
    session = pel.Session(people(500), SCHEMA, budget=pel.Budget(epsilon=10.0))
    explainer = pel.PartialDependence(model(changing), "x0", points=3)
    released = session.release(explainer, epsilon=1.0)
    assert "each row settles its own place, one in 12" in " ".join(released.certificate.assumptions)
    session.release(explainer, epsilon=1.0)
    assert session.spent == 1.0
    changing.answers = then
    with pytest.raises(pel.ModelError, match="Nothing was charged"):
        session.release(explainer, epsilon=1.0, fresh=True)
    assert session.spent == 1.0


def test_two_sessions_take_turns():
    """Of other shapes, and with schemas of their own: each asks as it was tried."""
    explained = model(every_twelve)
    data = people(2 * FEWEST)
    explainer = pel.PartialDependence(explained, "x0", points=3, method="values")
    expected = totals(explainer, data, "add-remove")
    totals(explainer, people(3 * FEWEST))
    session = pel.Session(data, SCHEMA, budget=pel.Budget(epsilon=10.0), neighbors="add-remove")
    plan = session.plan(explainer, epsilon=1.0)
    other = pel.Schema({name: pel.Number(0, 1) for name in NAMES})
    pel.Session(people(300), other, budget=pel.Budget(epsilon=10.0)).release(explainer, epsilon=1.0)
    np.testing.assert_array_equal(session._engine.totals(plan.stages[-1].query), expected)


# Places.


@settings(max_examples=50)
@given(st.integers(1, LONGEST), st.integers(0, 600), st.integers(0, 9))
def test_every_row_has_one_place_and_it_is_its_own(period, count, seed):
    places = Places(256, period, 256 - 256 % period)
    homes = np.random.default_rng(seed).integers(0, period, count)
    questions = places.questions(homes)
    assert sorted(np.concatenate([np.empty(0), *(who for _, who in questions)])) == list(range(count))
    for at, who in questions:
        assert len(set(at)) == len(at) and (at < places.usable).all() and (at % period == homes[who]).all()


def test_homes_are_a_row_s_own_and_shared_out_evenly():
    places = Places(FEWEST, 12, 2040)
    table = np.random.default_rng(0).random((12_000, 3))
    homes = places.homes(table)
    assert np.bincount(homes, minlength=12).max() < 1200
    np.testing.assert_array_equal(places.homes(table[::-1])[::-1], homes)
    assert all(places.homes(table[i : i + 1])[0] == homes[i] for i in range(50))


def test_periods_are_the_shortest_first():
    answers = np.tile([[0.0, 0, 1]], 100)
    assert [places.period for places in repeating(answers)][:3] == [3, 6, 9]
    assert next(repeating(np.zeros((2, 64)))) == Places.anywhere(64)
    assert not list(repeating(np.random.default_rng(0).random((1, 500))))
