"""Questions one after another: free near answered ones, paid for elsewhere, free again when nothing is left."""

import time
from fractions import Fraction

import numpy as np
import pytest

import pellucid as pel
from pellucid import PellucidError
from pellucid.engine import Engine
from pellucid.errors import BudgetExceeded
from pellucid.local.design import Design, best_label_weight, moments_of
from pellucid.local.exact import ExactMoments, Neighbourhood
from pellucid.local.individual import IndividualDoor, IndividualMoments, questions_of
from pellucid.local.methods import METHODS
from pellucid.local.reuse import History
from pellucid.local.stream import Settings, Stream
from pellucid.local.weights import Gaussian, Stable

PRICE = Fraction(1, 100)


class Purse:
    """A slice of a budget: pays or refuses."""

    def __init__(self, left):
        self.left, self.paid = Fraction(left), []

    def affordable(self, amount):
        return amount <= self.left

    def pay(self, charge):
        if charge.amount > self.left:
            raise BudgetExceeded("a", "rho", float(charge.amount), float(self.left))
        self.left -= charge.amount
        self.paid.append(charge)


@pytest.fixture(scope="module")
def design(model, schema):
    return Design(model, schema)


@pytest.fixture(scope="module")
def hood(design, schema, people):
    return Neighbourhood(Engine(people, schema, "add-remove", pel.Unit()), design)


def opened(design, hood, purse, history=None, **settings):
    made = Settings(Stable(), price=PRICE, **settings)
    w = best_label_weight(Stable(), design.farthest) if made.method == "one-shot" else 1.0

    def door(asked):
        return ExactMoments(hood.totals, moments_of(design, asked, made.weight, w), 3000, "add-remove", purse.pay, made.radius)

    return Stream(made, design, door, purse.affordable, history)


def person(age, **more):
    return {"age": age, "bmi": 25.0, "lab": 1.0, "sex": "F", "school": "primary", "smoker": False, **more}


@pytest.mark.parametrize("method", METHODS)
def test_near_questions_are_free_and_the_last_ones_too(method, design, hood):
    purse = Purse(PRICE * 3)
    stream = opened(design, hood, purse, method=method, steps=20)
    first = stream.explain(person(30))
    near = stream.explain(person(33))
    assert (first.kind, near.kind, near.leans_on, near.cost) == ("data", "reused", (0,), "0") and near.phi == first.phi
    # 3 years are 0.04 of the range; from 33 to 40 is near, but from 30 to 40 is not.
    assert stream.explain(person(40)).kind == "data"
    kinds = [stream.explain(person(50 + 12 * k, smoker=True)).kind for k in range(3)] + [
        stream.explain(person(20 + 12 * k, sex="M")).kind for k in range(5)
    ]
    assert kinds[-1] == "history" if method in ("one-shot", "descent") else kinds[0] == "data"
    assert sum(Fraction(one.cost) for one in stream.known.answered) == sum(c.amount for c in purse.paid) <= PRICE * 3
    last = stream.known.answered[-1]
    assert np.linalg.norm(last.phi) <= 1 + 1e-9 and (
        last.kind != "history" or set(last.leans_on) <= set(range(len(stream.known)))
    )


def test_without_a_first_answer_there_is_nothing_to_say(design, hood):
    with pytest.raises(PellucidError, match="open it with more"):
        opened(design, hood, Purse(PRICE / 2)).explain(person(30))


def test_a_stream_goes_on_after_a_restart(design, hood):
    purse = Purse(PRICE * 2)
    stream = opened(design, hood, purse)
    stream.explain(person(30))
    kept = History.from_list(design.length, stream.known.to_list())
    again = opened(design, hood, purse, kept)
    assert again.explain(person(31)).leans_on == (0,) and again.explain(person(80)).kind == "data"
    assert len(again.known) == 3


def test_individual_accounts_go_on_after_a_restart(design, hood, silent):
    """The accounts of a restarted stream are those of one that never stopped."""
    settings = Settings(Gaussian(0.5), price=PRICE, within=0.0, individual=True)

    def through(history=None):
        rho = PRICE * 2
        earlier = [] if history is None else questions_of(history, design, settings.weight)
        answers = IndividualMoments(hood, rho, 3000, earlier=earlier)

        def door(asked):
            return IndividualDoor(answers, moments_of(design, asked, settings.weight), lambda charge: charges.append(charge))

        return Stream(settings, design, door, lambda amount: True, history)

    charges = []
    whole = through()
    told = [whole.explain(person(30 + k % 3)) for k in range(12)]
    assert all(charge.amount == 0 and "individual-filter" in charge.claims for charge in charges)
    first = through()
    for k in range(7):
        first.explain(person(30 + k % 3))
    second = through(History.from_list(design.length, first.known.to_list()))
    rest = [second.explain(person(30 + k % 3)) for k in range(7, 12)]
    assert [one.phi for one in rest] == [one.phi for one in told[7:]]
    # With full accounts the last answer would have been another one: records had been left out.
    assert through().explain(person(30 + 11 % 3)).phi != told[-1].phi


def test_outputs_at_records_are_those_of_the_model(design, model, schema):
    columns = schema.sample(50)
    columns["lab"] = np.nan_to_num(columns["lab"], nan=2.5)
    wanted = design.outputs(model.ready(schema).predict(model.ready(schema).inputs(columns)))
    assert design.outputs_at(design.scaled(columns)) == pytest.approx(wanted, abs=1e-9)


def test_a_reused_answer_takes_under_two_milliseconds(design, hood):
    stream = opened(design, hood, Purse(PRICE))
    stream.explain(person(30))
    took = []
    for _ in range(30):
        begin = time.perf_counter()
        assert stream.explain(person(30)).kind == "reused"
        took.append(time.perf_counter() - begin)
    assert min(took) < 2e-3


@pytest.mark.parametrize(
    "wrong",
    [
        {"method": "newton"},
        {"method": "descent", "individual": True},
        {"price": Fraction(0)},
        {"within": -1.0},
        {"radius": 0.0},
    ],
)
def test_settings_are_checked(wrong):
    with pytest.raises(PellucidError):
        Settings(Stable(), **wrong)


def test_steps_need_labels_that_weigh_one_over_the_radius(design, hood):
    asked = moments_of(design, design.asked(person(30)), Stable(), 0.5)
    door = ExactMoments(hood.totals, asked, 3000, "add-remove", lambda charge: None, radius=1.0)
    assert door.moments("moments", PRICE).matrix.shape == (design.length, design.length)
    for refused in (
        lambda: door.slope("slope 1", np.zeros(design.length), PRICE),
        lambda: door.start("start", [np.zeros(design.length)], PRICE),
    ):
        with pytest.raises(PellucidError):
            refused()
