"""The order of interactions from made-up records: against brute force without noise, against noise, and against independence."""

import dataclasses
import itertools

import numpy as np
import pandas as pd
import pytest
from checks import noise, public_for, release
from sources import Scaled, Seeded

import pellucid as pel
from pellucid.engine import LocalEngine
from pellucid.explainers.interaction import ranked
from pellucid.explainers.interaction.feature_interaction import FeatureInteraction
from pellucid.explainers.interaction.made_up import dependence, links, made_up, shown_counts, shown_table
from pellucid.explainers.interaction.rounding import Rounding, public_points
from pellucid.mechanisms import exact
from pellucid.release.door import Ask

RNG = np.random.default_rng(5)
SIZE = 4000
NAMES = ("a", "b", "c", "l", "m")
SCHEMA = pel.Schema({name: pel.Number(0, 1, integer=True) for name in NAMES})
TABLE = pd.DataFrame({name: RNG.integers(0, 2, SIZE) for name in NAMES}).assign(m=lambda d: d["l"])


def product(d):
    """a meets b where l and m are both one, which is twice as often as if l and m had nothing to do with each other."""
    return d["a"] * d["b"] * d["l"] * d["m"] + 0.35 * d["a"] * d["c"]


def model_of(function=product, output=(0, 2), features=NAMES):
    return pel.Model(function, output=output, features=list(features), trained_on="other data")


def runs(explainer, table, amount, count, schema=SCHEMA, relation="replace", currency="epsilon"):
    explainer.model.ready(schema)
    engine = LocalEngine(table, schema, relation, pel.Unit())
    plan = explainer.plan(public_for(schema, relation, currency, engine.units, exact("amount", amount)))
    return [explainer.run(Ask(engine.totals, plan)) for _ in range(count)]


def by_hand(function, table, feature):
    """Friedman's H over the records, by loops over their different values."""

    def dependence_on(names):
        values = table[list(names)].drop_duplicates()
        means = {tuple(v): function(table.assign(**dict(zip(names, v)))).mean() for v in values.to_numpy()}
        found = np.array([means[tuple(v)] for v in table[list(names)].to_numpy()])
        return found - found.mean()

    def strength(rest, whole):
        return np.sqrt(rest.var() / whole.var())

    names = list(table)
    if feature is not None:
        both = {name: dependence_on((feature, name)) for name in names if name != feature}
        own = dependence_on((feature,))
        return {name: strength(whole - own - dependence_on((name,)), whole) for name, whole in both.items()}
    plain = function(table).to_numpy(float)
    others = {name: [other for other in names if other != name] for name in names}
    return {n: strength(plain - plain.mean() - dependence_on((n,)) - dependence_on(others[n]), plain) for n in names}


@pytest.mark.parametrize("feature", ["a", "m", None])
@pytest.mark.parametrize("relation", ["replace", "add-remove"])
def test_without_noise_it_is_friedmans(silent, feature, relation):
    """Two of the features are one and the same: the made-up records know it."""
    (result,) = runs(FeatureInteraction(model_of(), feature, ranking=True), TABLE, 10**6, 1, relation=relation)
    wanted = by_hand(product, TABLE, feature)
    assert result.features == tuple(wanted)
    np.testing.assert_allclose(result.values, list(wanted.values()), atol=0.03)
    assert ("l", "m") in result.linked or ("m", "l") in result.linked


def b_before_c(result):
    return result.ranking.index("b") < result.ranking.index("c")


def test_independence_in_the_place_of_the_counts_is_noticed(silent, monkeypatch):
    """Sabotage: without the pairs the order is another one."""
    explainer, wanted = FeatureInteraction(model_of(), "a", ranking=True), by_hand(product, TABLE, "a")
    assert wanted["b"] > wanted["c"] and b_before_c(runs(explainer, TABLE, 10**6, 1)[0])
    monkeypatch.setattr(ranked, "shown_table", lambda noisy, first, second, std, total: np.outer(first, second))
    assert not b_before_c(runs(explainer, TABLE, 10**6, 1)[0])


def test_a_small_budget_is_enough_and_noise_is_not_ignored():
    """At ε = 0.5 it is right about b and c; with 60 times the noise it is not."""
    explainer = FeatureInteraction(model_of(), "a", ranking=True)
    with noise(Seeded(1)):
        assert sum(b_before_c(result) for result in runs(explainer, TABLE, 0.5, 25)) >= 24
    with noise(Scaled(1, 60.0)):
        assert sum(b_before_c(result) for result in runs(explainer, TABLE, 0.5, 25)) < 20


@pytest.mark.parametrize("currency, amount", [("epsilon", 1), ("rho", 0.1)])
def test_it_is_nearer_than_the_direct_release(currency, amount):
    wanted = np.array(list(by_hand(product, TABLE, None).values()))
    errors = {}
    for ranking in (False, True):
        explainer = FeatureInteraction(model_of(), ranking=ranking, anyway=True)
        with noise(Seeded(2)):
            found = runs(explainer, TABLE[:1000], amount, 10, currency=currency)
        errors[ranking] = np.mean([np.abs(result.values - wanted).mean() for result in found])
    assert errors[True] < 0.6 * errors[False]


def test_what_is_within_the_noise_is_not_shown():
    rng = np.random.default_rng(0)
    flat, peak = np.full(10, 100.0), np.array([910.0] + [10.0] * 9)
    np.testing.assert_allclose(shown_counts(peak, 0.0, 1000.0), peak)
    np.testing.assert_allclose(shown_counts(flat + rng.normal(0, 1e-9, 10), 50.0, 1000.0), flat)
    halves = np.array([0.5, 0.5])
    same = np.array([[500.0, 0.0], [0.0, 500.0]])
    np.testing.assert_allclose(shown_table(same, halves, halves, 0.0, 1000.0), same / 1000)
    np.testing.assert_allclose(shown_table(same, halves, halves, 501.0, 1000.0), 0.25)
    between = shown_table(same, halves, halves, 250.0, 1000.0)
    assert between[0, 0] == pytest.approx(0.25 + 0.25 * (1 - 0.25)) and between.sum() == pytest.approx(1)
    # Over draws of the noise itself, shrinking is nearer to the truth than the noisy table is.
    truth, std = np.array([[0.3, 0.2], [0.2, 0.3]]), 60.0
    noisy = [1000 * truth + rng.normal(0, std, (2, 2)) for _ in range(400)]
    shown = np.mean([((shown_table(n, halves, halves, std, 1000.0) - truth) ** 2).sum() for n in noisy])
    assert shown < 0.5 * np.mean([((n / 1000 - truth) ** 2).sum() for n in noisy])


def test_made_up_records_are_as_common_and_as_dependent_as_counted():
    schema = {"u": pel.Number(0, 5, integer=True), "v": pel.Category(["x", "y", "z"]), "w": pel.Number(0, 1)}
    rng = np.random.default_rng(1)
    counts = [rng.uniform(1, 5, len(public_points(feature))) for feature in schema.values()]
    counts = [1000 * c / c.sum() for c in counts]
    features = [Rounding.of(name, feature, c, 3) for (name, feature), c in zip(schema.items(), counts)]
    table = rng.uniform(0, 1, (3, 3)) + 2 * np.eye(3)
    for _ in range(200):  # with the shares that the features have
        table *= (features[0].weights / table.sum(axis=1))[:, None]
        table *= features[1].weights / table.sum(axis=0)
    columns = made_up(features, counts, {(0, 1): table}, 20_000)
    for feature, c in zip(features, counts):
        place = np.searchsorted(feature.points, columns[feature.name])
        np.testing.assert_allclose(np.bincount(place, minlength=len(c)) / 20_000, c / 1000, atol=3e-3)
    groups = [feature.group[np.searchsorted(feature.points, columns[feature.name])] for feature in features]
    pairs = {(i, j): np.zeros((3, 3)) for i, j in itertools.combinations(range(3), 2)}
    for (i, j), found in pairs.items():
        np.add.at(found, (groups[i], groups[j]), 1 / 20_000)
    np.testing.assert_allclose(pairs[0, 1], table, atol=3e-3)
    assert dependence(pairs[0, 2]) < 1e-3 < dependence(table)
    again = made_up(features, counts, {(0, 1): table}, 20_000)
    assert all(np.array_equal(columns[name], again[name], equal_nan=True) for name in columns)


def test_the_tree_has_the_strongest_dependences():
    strong, weak, none = np.array([[0.5, 0], [0, 0.5]]), np.array([[0.3, 0.2], [0.2, 0.3]]), np.full((2, 2), 0.25)
    tables = {(0, 1): weak, (0, 2): strong, (1, 2): weak, (0, 3): none, (1, 3): none, (2, 3): none}
    assert links(tables, 4) == [(0, 2), (0, 1)] and links({}, 4) == []


class Spy:
    """Writes down every record that it is asked about."""

    def __init__(self):
        self.seen = set()

    def __call__(self, d):
        self.seen |= set(np.round(d["a"].to_numpy(float), 9))
        return d["a"] * d["b"]


def test_the_model_is_asked_about_nobody():
    """Everybody has a value between the points of the public grid, and no question has it."""
    schema = pel.Schema({"a": pel.Number(0, 1), "b": pel.Number(0, 1)})
    table = pd.DataFrame({"a": np.full(800, 0.123456), "b": np.linspace(0, 1, 800)})
    for ranking in (False, True):
        spy = Spy()
        model = pel.Model(spy, output=(0, 1), features=["a", "b"], trained_on="other data")
        model.ready(schema)
        result = release(FeatureInteraction(model, "b" if ranking else None, ranking=ranking, anyway=True), table, schema)
        assert (0.123456 in spy.seen) is not ranking
    assert result.certificate.status == "proved" and not any("row" in text for text in result.certificate.assumptions)


def test_pairs_are_counted_where_they_are_not_noise():
    explainer = FeatureInteraction(model_of(), ranking=True)
    few, some, many = (explainer.plan(public_for(SCHEMA, "replace", "epsilon", rows, 1)) for rows in (60, 1000, 100_000))
    assert list(few.shares) == ["spread"] and list(some.shares) == list(many.shares) == ["spread", "pairs"]
    errors = [explainer.expected(plan).error.max() for plan in (few, some, many)]
    assert errors[0] > errors[1] == pytest.approx(100 * errors[2])
    assert "independent" in " ".join(explainer.expected(few).notes)
    assert explainer.plan(public_for(SCHEMA, "replace", "epsilon", 3, 1)).useless
    wide = pel.Schema({f"f{i}": pel.Number(0, 1) for i in range(60)})
    plan = FeatureInteraction(model_of(lambda d: d["f0"], features=wide), ranking=True).plan(
        public_for(wide, "replace", "epsilon", 10**7, 10)
    )
    assert list(plan.shares) == ["spread"]


def test_a_preview_takes_nothing_for_the_error_of_an_h():
    """What noise in counts does to records is no error bar of an H, and no H is told from another."""
    asked = [FeatureInteraction(model_of(), "a", ranking=True)]
    told = pel.Session(TABLE, SCHEMA, budget=pel.Budget(1.0)).preview(asked, epsilon=0.1)
    assert "an order without error bars: noise in counts moves 0." in str(told)
    assert "within ±" not in str(told) and "told apart" not in str(told)
    assert "<td>no error bars</td>" in told._repr_html_()


def test_what_is_said_and_stored():
    explainer = FeatureInteraction(model_of(), "a", ranking=True)
    assert "ranking" not in dataclasses.replace(explainer, ranking=False).describe() and explainer.describe()["ranking"] is True
    result = release(explainer, TABLE, SCHEMA)
    assert result.to_frame()["feature"].tolist() == list(result.ranking) and result.to_frame()["lower"].max() == 0
    assert "no error bars" in result.plot().get_title(loc="right") and "made up" in result.notes[-1]
    again = pel.from_json(result.to_json())
    assert again.linked == result.linked and again.ranking == result.ranking
    with pytest.raises(pel.PlanError, match="ranking='yes'"):
        FeatureInteraction(model_of(), ranking="yes")
    with pytest.raises(pel.PlanError, match="level"):
        result.interval(2)
