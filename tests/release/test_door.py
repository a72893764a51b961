"""The door: exact totals stay behind it, whatever is read of them; nothing passes that was not charged first."""

import dataclasses
import pickle
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from sources import Silent

import pellucid as pel
from pellucid.explainers.local.bound import Moments
from pellucid.explainers.local.readings import GradientAt, ShortestGradient
from pellucid.mechanisms import Norms, Spend, source
from pellucid.query import Choice, Reading, Sum, sensitivity
from pellucid.query.bounds import Box
from pellucid.query.image import Image
from pellucid.query.reviewed import reviewed
from pellucid.release.door import Ask, PaidAsk
from pellucid.release.plan import Plan, Public, Stage

SCHEMA = pel.Schema({"x": pel.Number(0, 1)})
MOMENTS = Moments(2, joint=1.0, slope=1.5, label=1.0)
TOTALS = [30, 7, 50, 11, -13]


def public(currency="rho", amount=Fraction(1), relation="replace"):
    return Public(SCHEMA, relation, pel.Unit(), Spend(currency, amount), 100)


def moments():
    return Sum(lambda rows: rows["x"], MOMENTS, columns=("x",))


class Counted:
    """Exact totals that know how often they were read."""

    def __init__(self, totals=TOTALS):
        self.exact, self.read = totals, 0

    def __call__(self, query):
        self.read += 1
        return list(self.exact)


def test_a_held_sum_is_read_once_however_often_it_is_asked(monkeypatch):
    monkeypatch.setattr(source, "current", Silent())
    totals, paid = Counted(), []
    ask = PaidAsk(totals, public(), paid.append)
    held = ask.hold(moments())
    assert totals.read == 0
    whole = ask.total("moments", held, Fraction(1, 10))
    at = GradientAt(MOMENTS, (3, -2), 2, 1.0)
    gradient = ask.total("slope 1", Reading(held, at), Fraction(1, 10))
    score = ShortestGradient(MOMENTS, ((0, 0), (4, 0)), 2, 1.0)
    ask.choose("start", Choice(held, score), Fraction(1, 10))
    assert totals.read == 1 and len(paid) == 3
    assert whole.integers == tuple(TOTALS)
    # A = [[30, 7], [7, 50]], b = (11, −13): A·φ − 4·b at φ = (3, −2).
    assert gradient.integers == (30 * 3 + 7 * -2 - 44, 7 * 3 + 50 * -2 + 52) == (32, -27)
    again = ask.total("moments 2", moments(), Fraction(1, 10))
    assert totals.read == 2 and again.integers == whole.integers, "another sum is not the one that is held"


@pytest.mark.parametrize("relation", ["replace", "add-remove"])
def test_noise_of_a_reading_comes_from_the_one_place(relation):
    """Its scale is the sensitivity of its image at its price, and not that of the sum behind it."""
    reading = Reading(moments(), GradientAt(MOMENTS, (3, -2), 2, 1.0))
    norms = sensitivity(reading, relation)
    assert norms.l2_squared == MOMENTS.slope_norm(relation, 4) ** 2 != sensitivity(moments(), relation).l2_squared
    mechanism = PaidAsk(Counted(), public(relation=relation), print).mechanism(reading, Fraction(1, 8))
    assert float(mechanism.scale) == pytest.approx((norms.l2_squared / (2 / 8)) ** 0.5, rel=1e-12)
    assert mechanism.cost <= Fraction(1, 8)


def test_a_charge_that_is_refused_reads_nothing():
    totals = Counted()

    def refuse(charge):
        raise pel.BudgetExceeded("a", "rho", 1.0, 0.5)

    ask = PaidAsk(totals, public(), refuse)
    held = ask.hold(moments())
    for question in (
        lambda: ask.total("moments", held, Fraction(1)),
        lambda: ask.choose("start", Choice(held, ShortestGradient(MOMENTS, ((0, 0),), 2, 1.0)), Fraction(1)),
    ):
        with pytest.raises(pel.BudgetExceeded):
            question()
    assert totals.read == 0


def test_what_goes_wrong_behind_the_door_says_nothing():
    def broken(query):
        raise ValueError("row 17 is Mr Smith")

    with pytest.raises(pel.ReleaseFailed) as failure:
        PaidAsk(broken, public(), lambda charge: None).total("moments", moments(), Fraction(1))
    assert "Smith" not in str(failure.value) and failure.value.__context__ is None


def test_a_door_is_not_saved_and_shows_nothing():
    ask = PaidAsk(Counted(), public(), lambda charge: None)
    ask.total("moments", ask.hold(moments()), Fraction(1))
    with pytest.raises(TypeError):
        pickle.dumps(ask)
    assert repr(ask) == "PaidAsk()"


def test_an_image_is_one_of_the_totals_its_theorem_is_about():
    other = dataclasses.replace(MOMENTS, joint=2.0)
    with pytest.raises(pel.PlanError, match="no image of these totals"):
        Reading(Sum(lambda rows: rows["x"], other, columns=("x",)), GradientAt(MOMENTS, (0, 0), 2, 1.0))
    with pytest.raises(pel.PlanError):
        Choice(Sum(lambda rows: rows["x"], other, columns=("x",)), ShortestGradient(MOMENTS, ((0, 0),), 2, 1.0))


@dataclass(frozen=True)
class Free(Image):
    """An image of somebody's own, which says that nobody moves it."""

    size = 5
    claim = "free"
    scale_text = ""

    def fits(self, bound):
        return True

    def of(self, totals):
        return list(totals)

    def added(self):
        return Norms(1, 1, 1)

    replaced = added


def test_an_image_of_somebodys_own_scales_no_noise():
    with pytest.raises(pel.PlanError, match="reviewed"):
        Reading(moments(), Free())
    with pytest.raises(pel.PlanError, match="not part of Pellucid"):
        reviewed(Free)

    class Smaller(GradientAt):
        """A subclass may say anything, so it is not the class that was reviewed."""

    with pytest.raises(pel.PlanError, match="reviewed"):
        Reading(moments(), Smaller(MOMENTS, (0, 0), 2, 1.0))


def box():
    return Sum(lambda rows: rows["x"][:, None], Box(1, 0.0, 1.0), columns=("x",))


def test_stages_of_a_release_are_those_of_its_plan():
    seen = public("epsilon")
    plan = Plan(seen, (seen.stage("first", box(), Fraction(1, 4)), Stage("second", Fraction(3, 4))))
    ask = Ask(lambda query: [0], plan)
    with pytest.raises(pel.PlanError, match="not planned"):
        ask.total("third")
    with pytest.raises(pel.PlanError, match="only there"):
        ask.total("first", box())
    with pytest.raises(pel.PlanError, match="only there"):
        ask.total("second")
    ask.total("first")
    with pytest.raises(pel.PlanError, match="used already"):
        ask.total("first")
    ask.total("second", box())
    assert [charge.amount for charge in ask.charges] == [Fraction(1, 4), Fraction(3, 4)]


def test_plans_are_whole_and_frozen():
    seen = public("epsilon")
    for shares in ([Fraction(1, 2)], [Fraction(1), Fraction(0)], [Fraction(2), Fraction(-1)]):
        with pytest.raises(pel.PlanError, match="add up to one"):
            Plan(seen, tuple(Stage(f"stage {i}", share) for i, share in enumerate(shares)))
    with pytest.raises(pel.PlanError, match="different names"):
        Plan(seen, (Stage("one", Fraction(1, 2)), Stage("one", Fraction(1, 2))))
    plan = Plan(seen, (seen.stage("only", box()),))
    with pytest.raises(dataclasses.FrozenInstanceError):
        plan.stages[0].share = Fraction(1, 2)
    assert plan["only"].noise.std == pytest.approx(plan["only"].law.std / 2**30) and plan.shares == {"only": 1}
    with pytest.raises(pel.PlanError, match="known in advance"):
        _ = Stage("later").mechanism


def test_numbers_of_an_answer_have_no_grid(monkeypatch):
    monkeypatch.setattr(source, "current", Silent())
    seen = public("epsilon")
    answer = Ask(lambda query: [3 << 29], Plan(seen, (seen.stage("only", box()),))).total("only")
    assert answer.numbers.tolist() == [1.5] and answer.mean().values == pytest.approx(np.array([0.5 + 1.5 / 2 / 100]))
