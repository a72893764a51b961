"""Curves by level and differences: contributions in their ball, the curve without noise, bars that cover what was cut off."""

from fractions import Fraction

import numpy as np
import pytest
from people import make_people, risk

import pellucid as pel
from pellucid.audit.transcript import Kept
from pellucid.explainers.curves import variation
from pellucid.mechanisms import Spend
from pellucid.public.grids import nested_grids
from pellucid.public.rows import Rows
from pellucid.release.door import Ask
from pellucid.release.plan import Public

PURE, ZCDP = pel.Budget(epsilon=1000.0), pel.Budget(epsilon=900.0, delta=1e-6)
WAVES = pel.Schema({"x": pel.Number(0, 1), "calm": pel.Number(0, 1)})


def waves(d):
    """Those who are not calm go up and down by three ranges; of public records hardly any does."""
    return np.clip(0.3 + 0.2 * d["x"] + (np.abs(d["calm"] - 0.123) < 1e-3) * 0.4 * np.sin(20 * d["x"]), 0, 1)


@pytest.fixture
def wavy():
    return pel.Model(waves, output=(0, 1), features=["x", "calm"], trained_on="other data")


def wavy_table(rows, wild):
    return {"x": np.linspace(0, 1, rows), "calm": np.where(np.arange(rows) < wild, 0.123, 0.5)}


@pytest.mark.parametrize("spread", [False, True])
def test_what_is_cut_off_bounds_the_bias(spread):
    rng = np.random.default_rng(0)
    curves = np.clip(np.cumsum(rng.normal(0, 0.1, (500, 30)), axis=1) + 0.5, 0, 1)
    size = np.abs(np.diff(curves, axis=1)).sum(axis=1)
    kept, off = variation.cut(curves, np.quantile(size, 0.5), spread)
    varied = np.abs(np.diff(kept, axis=1)).sum(axis=1) / np.quantile(size, 0.5)
    small = size <= np.quantile(size, 0.5)
    np.testing.assert_allclose(kept[small], curves[small], atol=1e-12)
    assert (off[small] == 0).all() and (off[~small] > 0).all()
    assert (np.abs(kept - curves) <= off[:, None] / 2 + 1e-12).all()
    used = np.hypot(varied, off) if spread else varied + variation.COUNTED * off
    assert used.max() <= 1 + 1e-9
    np.testing.assert_allclose(used[~small], 1.0)


@pytest.mark.parametrize("relation", ["replace", "add-remove"])
@pytest.mark.parametrize("currency", ["epsilon", "rho"])
def test_contributions_lie_in_the_ball_before_they_are_clipped(schema, model, relation, currency):
    public = Public(schema, relation, pel.Unit(), Spend(currency, Fraction(1)), 500 if relation == "replace" else None, 500)
    along = tuple(
        variation.Along(name, schema[name], np.linspace(schema[name].lo, schema[name].hi, points), "variation", size)
        for name, points, size in (("age", 9, 0.05), ("bmi", 17, 0.3))
    )
    parts = variation.parts_of_curves(public, along, 1.0)
    people = Rows(schema, schema.sample(500, seed=3))
    values = variation.LevelsAndDifferences(model, parts).contributions(people)
    norm = np.abs(values).sum(axis=1) if currency == "epsilon" else np.sqrt((values**2).sum(axis=1))
    assert values.shape[1] == sum(part.size for part in parts)
    assert 0.7 < norm.max() <= 1 + 1e-9


@pytest.mark.parametrize("relation", ["replace", "add-remove"])
@pytest.mark.parametrize("budget", [PURE, ZCDP], ids=["pure", "zCDP"])
def test_without_noise_it_is_the_mean_of_predictions(silent, people, schema, model, relation, budget):
    session = pel.Session(people, schema, budget=budget, neighbors=relation)
    for name in ("age", "bmi"):
        ours = session.release(pel.PartialDependence(model, name, points=9, method="variation"), epsilon=10.0)
        assert isinstance(ours, pel.DependenceCurve) and abs(ours.cut_off) < 1e-6
        exact = [risk(people.assign(**{name: value})).mean() for value in ours.x]
        np.testing.assert_allclose(ours.y, exact, atol=1e-6)


def covered(plan, explainer, totals, truth, draws):
    found = []
    for _ in range(draws):
        lower, upper = explainer.run(Ask(totals, plan)).interval()
        found.append((lower <= truth) & (truth <= upper))
    return np.mean(found)


@pytest.mark.parametrize("wild", [0, 12, 60])
@pytest.mark.parametrize("budget", [pel.Budget(epsilon=1.0), pel.Budget(epsilon=1.0, delta=1e-6)], ids=["pure", "zCDP"])
def test_bars_cover_the_uncut_curve(seeded, wavy, wild, budget):
    """Of 1,200 records some go far beyond V, too few for a look to tell."""
    table = wavy_table(1200, wild)
    session = pel.Session(table, WAVES, budget=budget)
    explainer = pel.PartialDependence(wavy, "x", points=9, method="variation")
    plan = session.plan(explainer, share=1)
    assert "look" not in plan.shares
    truth = np.array([waves({"x": value, "calm": table["calm"]}).mean() for value in np.linspace(0, 1, 9)])
    assert covered(plan, explainer, Kept(session._engine.totals), truth, 60) >= 0.93


def test_a_look_makes_room_for_records_that_vary_more(seeded, wavy):
    table = wavy_table(20_000, 10_000)
    session = pel.Session(table, WAVES, budget=pel.Budget(epsilon=10.0))
    explainer = pel.PartialDependence(wavy, "x", points=9, method="variation")
    plan = session.plan(explainer, epsilon=5.0)
    assert list(plan.shares) == ["look", "differences"]
    assert session.release(explainer, epsilon=5.0).variation > 1.3 * plan.details.along[0].variation
    calm = pel.Session(wavy_table(20_000, 0), WAVES, budget=pel.Budget(epsilon=10.0))
    assert calm.release(explainer, epsilon=5.0).variation == plan.details.along[0].variation


def test_records_that_vary_beyond_every_bound_are_released_by_values(seeded):
    """Half of them go up and down by three ranges where public records stand still: no bound of the look is enough."""
    schema = pel.Schema({"x": pel.Number(0, 1), "calm": pel.Number(0, 1)})

    def jagged(d):
        return np.clip(0.5 + (np.abs(d["calm"] - 0.123) < 1e-3) * 0.4 * np.sin(40 * d["x"]) + 0.01 * d["x"], 0, 1)

    model = pel.Model(jagged, output=(0, 1), features=["x", "calm"], trained_on="other data")
    table = wavy_table(30_000, 15_000)
    session = pel.Session(table, schema, budget=pel.Budget(epsilon=20.0))
    explainer = pel.PartialDependence(model, "x", points=33)
    plan = session.plan(explainer, epsilon=10.0)
    assert list(plan.shares) == ["look", "differences"]
    made = session.release(explainer, epsilon=10.0)
    truth = [jagged({"x": x, "calm": table["calm"]}).mean() for x in made.x]
    assert not isinstance(made, pel.DependenceCurve)
    np.testing.assert_allclose(made.y, truth, atol=0.002)


def test_the_better_way_is_chosen_from_public_things(schema, model):
    session = pel.Session(make_people(3000), schema, budget=pel.Budget(epsilon=10.0))

    def way(made, name):
        return session.plan(pel.PartialDependence(made, name), epsilon=0.5).details.along[0]

    small = pel.Model(lambda d: 0.5 + d["bmi"] / 1000, output=(0, 1), features=["bmi"], trained_on="other data")
    wild = pel.Model(lambda d: 0.5 + np.sin(3 * d["bmi"]) / 2, output=(0, 1), features=["bmi"], trained_on="other data")
    assert way(small, "bmi").method == "variation" and way(wild, "bmi").method == "values"
    assert len(way(wild, "bmi").grid) > len(way(small, "bmi").grid)
    assert way(model, "sex").method == way(model, "school").method == "values"


def test_grids_are_nested_and_end_with_all_whole_numbers():
    for feature in (pel.Number(0, 1), pel.Number(17, 90, integer=True), pel.Number(0, 99_999, integer=True)):
        grids = nested_grids(feature)
        assert [len(grid) for grid in grids] == sorted({len(grid) for grid in grids})
        assert all(set(grid) <= set(grids[-1]) and grid[0] == feature.lo and grid[-1] == feature.hi for grid in grids)
    assert len(nested_grids(pel.Number(17, 90, integer=True))[-1]) == 74
    assert [len(grid) for grid in nested_grids(pel.Number(1, 3, integer=True))] == [3]


def test_previews_are_the_bars_of_a_release_that_cuts_nothing(seeded, people, schema, model):
    session = pel.Session(people, schema, budget=pel.Budget(epsilon=10.0))
    explainer = pel.PartialDependence(model, "bmi", method="variation")
    expected = session.preview(explainer, epsilon=1.0).error
    lower, upper = session.release(explainer, epsilon=1.0).interval()
    assert 0.5 < ((upper - lower) / 2 / expected).mean() < 2


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda m: pel.PartialDependence(m, "age", method="both"), "'auto', 'values' or 'variation'"),
        (lambda m: pel.PartialDependence(m, "sex", method="variation"), "numeric feature"),
        (lambda m: pel.PartialDependence(m, "age", points=2, method="variation"), "three points"),
    ],
)
def test_ways_that_cannot_be_are_refused_before_anything_is_charged(made, words, people, schema, model):
    session = pel.Session(people, schema, budget=PURE)
    with pytest.raises(pel.PlanError, match=words):
        session.release(made(model), epsilon=1.0)
    assert session.spent == 0


def test_requests_of_before_are_known_by_the_same_words(model):
    auto, values, other = (pel.PartialDependence(model, "age", method=m) for m in ("auto", "values", "variation"))
    assert auto.describe() == values.describe() != other.describe()


@pytest.mark.parametrize("budget", [pel.Budget(epsilon=1.0), pel.Budget(epsilon=1.0, delta=1e-6)])
def test_many_features_at_once_get_grids_that_fit(budget):
    """Fifteen fine grids would be more coordinates than one ball takes."""
    names = [f"x{j}" for j in range(15)]
    model = pel.Model(
        lambda d: sum(np.sin(9 * d[name]) for name in names) / 30 + 0.5, output=(0, 1), features=names, trained_on="other data"
    )
    data = {name: np.linspace(0, 1, 500) for name in names}
    session = pel.Session(data, pel.Schema({name: pel.Number(0, 1) for name in names}), budget, expected_rows=10**6)
    for settings in ({}, {"method": "variation"}, {"points": 100}):
        assert session.preview(pel.PartialDependence(model, names, **settings), epsilon=1.0).largest_error > 0
    with pytest.raises(pel.PlanError, match="fewer features at a time"):
        session.preview(pel.PartialDependence(model, names, method="variation", points=100), epsilon=1.0)
    assert session.spent == 0
