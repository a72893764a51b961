"""Made-up people are spread as released distributions say, and curves lean on them."""

import numpy as np
import pytest

import pellucid as pel
from pellucid.public.spread import Spread, digest, made_up_people

SCHEMA = pel.Schema(
    {
        "age": pel.Number(0, 99, integer=True),
        "dose": pel.Number(0, 1, missing="nan"),
        "sex": pel.Category(["F", "M"]),
    }
)
SPREADS = (
    Spread("age", (), (-0.5, 19.5, 99.5), (0.75, 0.25)),
    Spread("dose", (0.25, 0.75, "missing"), (0.0, 0.5, 1.0), (0.5, 0.25, 0.25)),
    Spread("sex", ("F", "M"), (), (0.1, 0.9)),
)


def test_cells_are_as_common_as_they_should_be_up_to_one():
    drawn = made_up_people(SCHEMA, SPREADS, 400, seed=3)
    assert abs((drawn["age"] < 19.5).sum() - 300) <= 1 and (drawn["age"] == np.rint(drawn["age"])).all()
    assert abs(np.isnan(drawn["dose"]).sum() - 100) <= 1 and abs((drawn["dose"] < 0.5).sum() - 200) <= 1
    assert abs((drawn["sex"] == 1).sum() - 360) <= 1
    known = drawn["age"][~np.isnan(drawn["age"])]
    assert known.min() >= 0 and known.max() <= 99


def test_columns_are_independent_and_do_not_change_each_other():
    drawn = made_up_people(SCHEMA, SPREADS, 4000, seed=3)
    assert abs(np.corrcoef(drawn["age"], drawn["sex"])[0, 1]) < 0.1
    alone = made_up_people(SCHEMA, SPREADS[2:], 4000, seed=3)
    assert (alone["sex"] == drawn["sex"]).all()
    assert (alone["age"] == SCHEMA.sample(4000, 3)["age"]).all(), "without a spread, from the declared domain"


def test_counts_give_their_spread_without_negative_shares():
    session = pel.Session({"age": [5] * 900, "dose": [0.5] * 900, "sex": ["F"] * 900}, SCHEMA, budget=pel.Budget(1.0))
    spread = session.release(pel.Distribution("sex"), epsilon=0.05).spread
    assert min(spread.shares) >= 0 and sum(spread.shares) == pytest.approx(1)


@pytest.fixture
def model():
    # Interacts: along dose people differ from records of anywhere, who are mostly old.
    return pel.Model(
        lambda d: np.where(d["age"] < 10, d["dose"].fillna(0.0), 1 - d["dose"].fillna(0.0)),
        output=(0, 1),
        features=["age", "dose"],
        trained_on="other data",
    )


def test_a_curve_is_nearer_to_the_truth_with_people_than_without(model):
    children = {"age": np.arange(600) % 10, "dose": np.linspace(0, 1, 600), "sex": ["F", "M"] * 300}
    people = (Spread("age", tuple(range(100)), (), tuple([0.1] * 10 + [0.0] * 90)),)
    errors = []
    for number, given in enumerate((people, ())):
        session = pel.Session(children, SCHEMA, budget=pel.Budget(100.0))
        found = [
            session.release(pel.PartialDependence(model, "dose", points=9, people=given), epsilon=0.05 + 1e-6 * i + 1e-4 * number)
            for i in range(12)
        ]
        errors.append(np.mean([((one.y - np.array(one.x)) ** 2).mean() for one in found]))
        lower, upper = found[0].interval()
        assert (lower <= found[0].y).all() and (found[0].y <= upper).all()
    assert errors[0] < 0.8 * errors[1]


def test_a_request_knows_its_people_and_refuses_what_is_none(model):
    plain, one = pel.PartialDependence(model, "dose"), pel.PartialDependence(model, "dose", people=SPREADS[:1])
    other = pel.PartialDependence(model, "dose", people=SPREADS[:2])
    assert "people" not in plain.describe() and one.describe()["people"] == digest(SPREADS[:1]) != other.describe()["people"]
    with pytest.raises(pel.PlanError, match="give released distributions"):
        pel.PartialDependence(model, "dose", people=["age"])
