"""What a theorem presumes is checked where it is used: in queries, plans, sessions and streams, whoever writes the next one."""

import dataclasses
import pickle
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest

import pellucid as pel
from pellucid.explainers.local.bound import Moments
from pellucid.explainers.local.encoder import Encoder, moments_of
from pellucid.explainers.local.readings import GradientAt, ShortestGradient
from pellucid.explainers.local.weights import Gaussian
from pellucid.mechanisms import Spend
from pellucid.query import Choice, Joint, Pairs, Reading, Records, Sum, calibrated
from pellucid.query.bounds import Box, Cells
from pellucid.query.scores import QuantileScore
from pellucid.release.plan import Plan, Public, Stage

SCHEMA = pel.Schema({"x": pel.Number(0, 1), "y": pel.Number(0, 1)})
MEDIAN = QuantileScore(Fraction(1, 2))


def public(relation="replace", unit=None, amount=1):
    return Public(SCHEMA, relation, unit or pel.Unit(), Spend("epsilon", Fraction(amount)), 100)


def cells(over=None):
    return Sum(lambda rows: (rows["x"][:, None] > 0.5, None, None), Cells(2), over=over or Records(), columns=("x",))


def box(weight=1):
    return Sum(lambda rows: rows["x"][:, None], Box(1, 0.0, 1.0, weight=weight), columns=("x",))


def test_a_quantile_is_of_one_histogram():
    """Sums side by side all move with one unit; a quantile's span is that of one."""
    with pytest.raises(pel.PlanError, match="a choice is made on a histogram"):
        Choice(Joint([cells()] * 8), MEDIAN)
    with pytest.raises(pel.PlanError, match="a choice is made on a histogram"):
        Choice(Joint([cells(), cells(Pairs())]), MEDIAN)
    assert Choice(cells(), MEDIAN) and Choice(cells(Pairs()), MEDIAN)


@pytest.mark.parametrize("phi", [(4000, 0), (3, 3), (1,), (1, 0, 0), (0.5, 0), (1, True)])
def test_a_gradient_is_read_inside_the_ball_its_noise_is_for(phi):
    bound = Moments(2, joint=1.0, slope=1.0, label=1.0)
    with pytest.raises(pel.PlanError, match="no longer than"):
        GradientAt(bound, phi, 2, 1.0)
    with pytest.raises(pel.PlanError, match="no longer than"):
        ShortestGradient(bound, ((0, 0), phi), 2, 1.0)
    assert GradientAt(bound, (4, 0), 2, 1.0).size == 2
    with pytest.raises(pel.PlanError, match="0 to 24 bits"):
        GradientAt(bound, (0, 0), 25, 1.0)


def test_noise_of_a_stage_is_not_passed_on_to_another_question():
    seen = public()
    stage = seen.stage("only", box())
    for other in (
        dataclasses.replace(stage, query=box(weight=16)),
        dataclasses.replace(seen.stage("only", box(), Fraction(1, 2)), share=Fraction(1)),
        public(amount=8).stage("only", box()),
        public(relation="add-remove").stage("only", box()),
        dataclasses.replace(stage, settled_for=None),
    ):
        with pytest.raises(pel.PlanError, match="calibrated for another"):
            Plan(seen, (other,))
    plan = Plan(seen, (stage,))
    with pytest.raises(pel.PlanError, match="calibrated for another"):
        dataclasses.replace(plan, public=public(unit=pel.Unit(max_rows=10)))
    assert Plan(seen, (Stage("later"),))


@dataclass(frozen=True)
class Caching(pel.Distribution):
    """An explainer that keeps the first plan it made, which seems thrifty."""

    kept = {}

    def plan(self, public):
        return self.kept.setdefault("plan", super().plan(public))


def test_a_plan_is_for_one_session_and_one_price():
    table = {"x": np.linspace(0, 1, 50), "y": np.zeros(50)}
    one = pel.Session(table, SCHEMA, budget=pel.Budget(epsilon=1.0), neighbors="add-remove", expected_rows=50)
    other = pel.Session(table, SCHEMA, budget=pel.Budget(epsilon=4.0), unit=pel.Unit(max_rows=10))
    one.release(Caching("x"), epsilon=0.1)
    for session in (one, other):
        with pytest.raises(pel.PlanError, match="one session and price"):
            session.release(Caching("x"), epsilon=0.2)
    assert float(one.spent) == pytest.approx(0.1) and float(other.spent) == 0


class FromBefore(pel.Distribution):
    """As explainers were written for 0.1.0."""

    def plan(self, public):
        return {"counts": Fraction(1)}


def test_an_explainer_of_the_version_before_is_told_what_to_change():
    session = pel.Session({"x": [0.5] * 50, "y": [0.0] * 50}, SCHEMA, budget=pel.Budget(epsilon=1.0))
    with pytest.raises(pel.PlanError, match=r"must return a pel\.Plan"):
        session.release(FromBefore("x"), epsilon=0.1)
    assert float(session.spent) == 0


def test_a_plan_can_be_read():
    session = pel.Session({"x": [0.5] * 500, "y": [0.0] * 500}, SCHEMA, budget=pel.Budget(epsilon=1.0))
    told = str(session.plan(pel.AccumulatedEffects(MODEL, "x"), epsilon=0.5))
    assert "ε = 0.5" in told and "places: 20%" in told and "laplace noise" in told and len(told) < 500
    assert "private choice" in str(session.plan(pel.ShapRanking(MODEL, {"x": 0.5, "y": 0.5}, how="picks"), epsilon=0.5))


class Loose(Sum):
    """A sum that says it moves less far than its bound."""

    released = property(lambda self: Box(1, 0.0, 1.0))


def test_only_queries_themselves_say_how_far_they_move():
    wide = Loose(lambda rows: rows["x"][:, None], Box(1, 0.0, 1.0, weight=16), columns=("x",))
    for ask in (
        lambda: calibrated(wide, "replace", 1, Spend("epsilon", Fraction(1))),
        lambda: Joint([wide]),
        lambda: Choice(wide, MEDIAN),
        lambda: Joint([Reading(*gradient())]),
        lambda: public().stage("only", wide),
    ):
        with pytest.raises(pel.PlanError):
            ask()

    class Every(Records):
        """Another kind of contributor."""

    with pytest.raises(pel.PlanError, match="contributions come from"):
        cells(Every())


def gradient():
    bound = Moments(2, joint=1.0, slope=1.0, label=1.0)
    return Sum(lambda rows: rows["x"], bound, columns=("x",)), GradientAt(bound, (0, 0), 2, 1.0)


MODEL = pel.Model(lambda d: d["x"], output=(0, 1), features=["x", "y"], trained_on="other data")
BUDGET = pel.Budget(epsilon=2.0, delta=1e-6)


def opened(explainer, relation="replace", share=0.01):
    table = {"x": np.linspace(0, 1, 60), "y": np.zeros(60)}
    session = pel.Session(table, SCHEMA, budget=BUDGET, neighbors=relation, expected_rows=60)
    return session, session.open(explainer, share=share)


def test_a_slice_is_enforced_where_it_is_charged():
    """Whatever a stream does with its channel, steps beyond its slice are refused, and what was charged shows at once."""
    session, stream = opened(pel.LocalLinear(MODEL, questions=1))
    channel, price = stream._questions.channel, stream.settings.price
    asked = moments_of(Encoder(MODEL, SCHEMA), (0.5, 0.5), stream.settings.weight)
    question = channel.question({"asked": [0.5, 0.5]}, channel.totals)
    question.ask.total("first", asked, price)
    assert float(stream.spent) == pytest.approx(float(price)) == float(session.spent) and float(stream.remaining) < 1e-9
    with pytest.raises(pel.BudgetExceeded):
        question.ask.total("second", asked, price)
    assert float(session.spent) == pytest.approx(float(price))
    with pytest.raises(pel.PlanError, match="what is asked"):
        channel.question({}, channel.totals)


def test_with_one_account_per_record_a_question_is_asked_once():
    """Other processes count a question by what the ledger has about it, so it cannot have further steps."""
    explainer = pel.LocalLinear(MODEL, questions=4, accounting="individual", weight="gaussian", bandwidth=0.5)
    _, stream = opened(explainer, "add-remove")
    channel = stream._questions.channel
    asked = moments_of(Encoder(MODEL, SCHEMA), (0.5, 0.5), Gaussian(0.5))
    question = channel.question({"asked": [0.5, 0.5]}, channel.totals)
    question.ask.total("first", asked, stream.settings.price)
    with pytest.raises(pel.PlanError, match="asked once"):
        question.ask.total("second", asked, stream.settings.price)


def test_two_explainers_of_ones_own_do_not_share_a_name():
    def made(module):
        return type("Mine", (pel.Distribution,), {"stored_as": f"mine {made}", "__module__": module})

    first = made("study_v1")
    with pytest.raises(pel.PlanError, match="name"):
        made("study_v2")
    assert made("study_v1").stored_name() == first.stored_name() and "study_v1" in first.stored_name()


@dataclass(frozen=True)
class Scaled(pel.Distribution):
    """A setting of one's own, which the description of the parent knows nothing about."""

    factor: int = dataclasses.field(default=1, kw_only=True)


def test_settings_that_are_not_described_are_part_of_the_request():
    session = pel.Session({"x": [0.5] * 50, "y": [0.0] * 50}, SCHEMA, budget=pel.Budget(epsilon=1.0))
    for explainer, spent in ((Scaled("x"), 0.1), (Scaled("x", factor=2), 0.2), (Scaled("x"), 0.2), (pel.Distribution("x"), 0.3)):
        session.release(explainer, epsilon=0.1)
        assert float(session.spent) == pytest.approx(spent)


def test_a_copy_with_our_name_is_not_ours():
    """A decorator may rebuild a class under the same name and module; what it does is not what was reviewed."""
    copied = type(
        "Distribution", (pel.Distribution,), {"__module__": pel.Distribution.__module__, "__qualname__": "Distribution"}
    )
    session = pel.Session({"x": [0.5] * 50, "y": [0.0] * 50}, SCHEMA, budget=pel.Budget(epsilon=1.0))
    assert session.release(pel.Distribution("x"), epsilon=0.1).certificate.status == "proved"
    certificate = session.release(copied("x"), epsilon=0.1).certificate
    assert certificate.status == "conditional" and float(session.spent) == pytest.approx(0.2)


def test_engines_are_not_saved():
    session = pel.Session({"x": [0.5] * 50, "y": [0.0] * 50}, SCHEMA, budget=pel.Budget(epsilon=1.0))
    with pytest.raises(TypeError):
        pickle.dumps(session._engine)
    assert repr(session._engine) == "LocalEngine()"
