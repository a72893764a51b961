"""Feature interaction against brute force, known H-statistics, planted interactions, and coverage of its error bars."""

import itertools
import json
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from checks import public_for, record, release
from people import make_people

import pellucid as pel
from pellucid.cli.study import Study
from pellucid.engine import LocalEngine
from pellucid.explainers.interaction.energies import Simulated, noise_energies, remainder
from pellucid.explainers.interaction.feature_interaction import FeatureInteraction
from pellucid.explainers.interaction.overall import OnCurves
from pellucid.explainers.interaction.rounding import Rounding, public_points, rounded_size
from pellucid.mechanisms import exact
from pellucid.public.rows import Rows
from pellucid.release.door import Ask

RNG = np.random.default_rng(3)
SIZE = 3000
TABLE = pd.DataFrame(
    {
        "a": RNG.uniform(0, 1, SIZE),
        "b": RNG.uniform(0, 1, SIZE),
        "c": RNG.choice(["x", "y", "z"], SIZE, p=[0.6, 0.3, 0.1]),
        "k": RNG.integers(0, 4, SIZE),
    }
)
SCHEMA = pel.Schema(
    {"a": pel.Number(0, 1), "b": pel.Number(0, 1), "c": pel.Category(["x", "y", "z"]), "k": pel.Number(0, 3, integer=True)}
)
CODE = {"x": 0.0, "y": 1.0, "z": 2.0}


def additive(d):
    return (d["a"] + d["b"] ** 2 + d["c"].map(CODE).astype(float) / 2 + np.sin(d["k"])) / 4


def planted(d):
    return d["a"] * d["b"] + 0.3 * d["c"].map(CODE).astype(float) + 0.1 * d["k"]


def model_of(function, output=(-1, 3), features=tuple(SCHEMA)):
    return pel.Model(function, output=output, features=list(features), trained_on="other data")


def draws_of(explainer, schema, table, amount, count=1, relation="replace", currency="epsilon"):
    """Releases of one request; amounts no account would allow take the noise's expected share out of the way."""
    explainer.model.ready(schema)
    engine = LocalEngine(table, schema, relation, pel.Unit())
    public = public_for(schema, relation, currency, engine.units, exact("amount", amount))
    plan = explainer.plan(public)
    return [explainer.run(Ask(engine.totals, plan)) for _ in range(count)]


def shares_by_hand(result, name):
    ends = np.cumsum([0] + [len(g) for g in result.grids.values()])
    at = list(result.grids).index(name)
    return result.weights[ends[at] : ends[at + 1]]


@pytest.mark.parametrize("relation", ["replace", "add-remove"])
def test_pairs_equal_brute_force(silent, relation):
    """Without noise: plain loops over records and values, with the released weights."""
    result = release(FeatureInteraction(model_of(planted), "a", points=4), TABLE, SCHEMA, relation, expected_rows=SIZE)
    first = shares_by_hand(result, "a")
    for name, square in zip(result.features, result.squares):
        second = shares_by_hand(result, name)
        table = np.array(
            [[planted(TABLE.assign(**{"a": u, name: v})).mean() for v in result.grids[name]] for u in result.grids["a"]]
        )
        if relation == "replace":
            np.testing.assert_allclose(result.surfaces[name], table, atol=1e-6)
        rest = whole = 0.0
        mean = sum(p * q * table[i, j] for (i, p), (j, q) in itertools.product(enumerate(first), enumerate(second)))
        for (i, p), (j, q) in itertools.product(enumerate(first), enumerate(second)):
            row = sum(q2 * table[i, j2] for j2, q2 in enumerate(second))
            column = sum(p2 * table[i2, j] for i2, p2 in enumerate(first))
            rest += p * q * (table[i, j] - row - column + mean) ** 2
            whole += p * q * (table[i, j] - mean) ** 2
        # The estimate takes off the share of noise that was not there.
        of_rest, of_whole = noise_energies(first, second)
        variance = result.law.std**2
        scale = (result.surfaces[name].std() / table.std()) ** 2
        expected = (rest * scale - variance * of_rest) / (whole * scale - variance * of_whole)
        assert square == pytest.approx(expected, rel=1e-5, abs=1e-9)


def test_weights_are_the_shares_of_the_rounded_records(silent):
    result = release(FeatureInteraction(model_of(planted), "a", points=4), TABLE, SCHEMA)
    np.testing.assert_allclose(shares_by_hand(result, "c"), [(TABLE["c"] == v).mean() for v in "xyz"])
    np.testing.assert_allclose(shares_by_hand(result, "k"), [(TABLE["k"] == v).mean() for v in range(4)])
    assert len(result.grids["a"]) == len(result.grids["b"]) == 4 and np.all(np.diff(result.grids["a"]) > 0)
    assert shares_by_hand(result, "a").sum() == pytest.approx(1) and shares_by_hand(result, "a").max() < 0.35


def test_overall_equals_friedman_on_rounded_records(silent):
    """Columns of few values are not rounded: the release is the H-statistic over the empirical distribution."""
    table = TABLE[["c", "k"]].assign(s=np.where(TABLE["a"] < 0.3, "u", "v"))[:60]
    # Dependent columns: the statistic must not assume otherwise.
    table["k"] = np.where(table["s"] == "u", 0, table["k"])
    schema = pel.Schema({"c": SCHEMA["c"], "k": SCHEMA["k"], "s": pel.Category(["u", "v"])})

    def f(d):
        return (d["c"].map(CODE).astype(float) * d["k"] + 2.0 * (d["s"] == "u") * (d["k"] == 0)) / 8

    model = model_of(f, (0, 1), schema)
    (result,) = draws_of(FeatureInteraction(model), schema, table, 10**6)
    plain = f(table).to_numpy()
    for name, square in zip(result.features, result.squares):
        others = [name2 for name2 in table if name2 != name]
        curve = np.array([f(table.assign(**{name: v})).mean() for v in table[name]])
        rest = np.array([f(table[[name]].assign(**row[others].to_dict())).mean() for _, row in table.iterrows()])
        left = plain - curve - rest + curve.mean()
        assert square == pytest.approx((left**2).mean() / plain.var(), rel=1e-3, abs=1e-6)
    assert result.ranking[0] == "k"


@pytest.mark.parametrize("feature", ["a", "c", None])
@pytest.mark.parametrize("relation", ["replace", "add-remove"])
def test_additive_models_have_none(silent, feature, relation):
    (result,) = draws_of(FeatureInteraction(model_of(additive), feature, points=5), SCHEMA, TABLE, 10**7, relation=relation)
    assert np.all(np.abs(result.squares) < 1e-9)


def test_a_product_has_its_known_value(silent):
    """f = u·v with u, v uniform on symmetric values has no single effects; on 0..n it has H² = var·var/(the whole)."""
    u, v = (column.ravel() for column in np.meshgrid(np.arange(5), np.arange(5)))
    schema = pel.Schema({"u": pel.Number(0, 4, integer=True), "v": pel.Number(0, 4, integer=True)})
    table = pd.DataFrame({"u": np.tile(u, 20), "v": np.tile(v, 20)})
    for shift, known in ((2, 1.0), (0, 2 * 2 / (2 * 2 + 2 * 4 * 2))):
        model = model_of(lambda d, shift=shift: (d["u"] - shift) * (d["v"] - shift), (-16, 16), ["u", "v"])
        for feature in ("u", None):
            (result,) = draws_of(FeatureInteraction(model, feature, points=5), schema, table, 10**6)
            np.testing.assert_allclose(result.values**2, known, rtol=1e-4)


@pytest.mark.parametrize("feature", ["a", None])
@pytest.mark.parametrize("budget", [pel.Budget(epsilon=2.0), pel.Budget(epsilon=2.0, delta=1e-6)])
def test_the_planted_pair_is_found(feature, budget, seeded):
    session = pel.Session(TABLE, SCHEMA, budget=budget)
    result = session.release(FeatureInteraction(model_of(planted, (0, 2)), feature), epsilon=2.0)
    if feature:
        assert result.ranking[0] == "b" and result.features == ("b", "c", "k")
    else:
        assert set(result.ranking[:2]) == {"a", "b"} and result.features == tuple(SCHEMA)
    assert np.all((result.values >= 0) & (result.values <= 1)) and len(result.ranking) == len(result.features)
    told = {name for name, low in zip(result.features, result.interval()[0]) if low > 0}
    assert result.notes == (result.verdict,) and (told == set()) == ("no H can be told from zero" in result.verdict)
    assert not any(name in result.verdict.replace(",", "").split() for name in told)


SMALL = pel.Schema({"a": pel.Number(0, 1), "k": SCHEMA["k"], "c": SCHEMA["c"]})


def small(x):
    """On codes: a interacts with k, c with nobody."""
    return x[:, 0] * x[:, 1] / 3 + 0.1 * x[:, 2]


def small_model():
    return pel.Model(small, output=(0, 2), features=list(SMALL), trained_on="other data", input="codes")


def exact_h(result, codes):
    """H of the released rounding without noise."""
    found, names = [], list(SMALL)
    first, j = result.shares[result.feature], names.index(result.feature)
    for name in result.features:
        second, k, table = result.shares[name], names.index(name), codes.copy()
        means = np.empty((len(first), len(second)))
        for (u, p), (v, q) in itertools.product(enumerate(result.grids[result.feature]), enumerate(result.grids[name])):
            table[:, j], table[:, k] = p, SMALL[name].position(q)
            means[u, v] = small(table).mean()
        left = remainder(means, first, second)
        found.append((first @ left**2 @ second) / (first @ (means - first @ means @ second) ** 2 @ second))
    return np.sqrt(found)


@pytest.mark.parametrize("relation, currency, amount", [("replace", "epsilon", 1), ("add-remove", "rho", 0.02)])
def test_error_bars_of_pairs_cover(seeded, relation, currency, amount):
    """The interval of the H of the released rounding, over the noise of the tables: 95 % on average, within sampling error."""
    table = TABLE[list(SMALL)].iloc[:500]
    codes = table.assign(c=table["c"].map(CODE)).to_numpy(float)
    inside, widths = [], []
    for result in draws_of(FeatureInteraction(small_model(), "k", points=3), SMALL, table, amount, 150, relation, currency):
        h = exact_h(result, codes)
        lower, upper = result.interval(0.95)
        inside.append((lower - 1e-6 <= h) & (h <= upper + 1e-6))
        widths.append(upper - lower)
    covered = np.mean(inside, axis=0)
    # Where there is no interaction the lower end is always right, so only half of the misses are left.
    assert 0.91 <= covered[0] <= 0.985 and 0.945 <= covered[1] <= 1, covered
    assert 0.02 < np.mean(widths) < 0.9


@pytest.mark.parametrize("relation", ["replace", "add-remove"])
def test_error_bars_of_all_features_cover(seeded, relation):
    """They are at least as wide as they say, because how remainders lean along a feature is not released."""
    table = TABLE[list(SMALL)].assign(a=TABLE["a"].round(0))
    schema = pel.Schema({**SMALL, "a": pel.Number(0, 1, integer=True)})
    results = draws_of(FeatureInteraction(small_model()), schema, table, 3, 80, relation)
    (truth,) = draws_of(FeatureInteraction(small_model()), schema, table, 10**7, 1, relation)
    inside, widths = [], []
    for result in results:
        lower, upper = result.interval(0.95)
        # Cut remainders are not in the bars, and only make H smaller: the upper end is checked where nothing was cut.
        high = (truth.values <= upper + 1e-3) | (result.caps < 0.34)
        inside.append((lower - 1e-3 <= truth.values) & high)
        widths.append(upper - lower)
    assert np.mean(inside) >= 0.93, np.mean(inside, axis=0)
    assert np.mean(widths) < 0.6


def test_estimates_are_unbiased_and_kept_unclipped(seeded):
    """With nothing to find, squares are as often below zero as above, and their mean is near it."""
    results = draws_of(FeatureInteraction(small_model(), "c", points=3), SMALL, TABLE[list(SMALL)].iloc[:800], 1, 150)
    squares = np.array([r.squares[0] for r in results])
    assert 0.3 < np.mean(squares < 0) < 0.8 and abs(squares.mean()) < 4 * squares.std() / math.sqrt(len(squares))
    assert all(r.values[0] == pytest.approx(math.sqrt(max(r.squares[0], 0))) for r in results)


def test_missing_numbers_and_rare_categories(schema, model):
    people = make_people(600)
    people["school"] = np.where(np.arange(600) < 20, "tertiary", "none")
    for explainer in (FeatureInteraction(model, "lab", points=3), FeatureInteraction(model, points=2)):
        result = release(explainer, people, schema, budget=pel.Budget(epsilon=50.0))
        assert result.grids["lab"][-1] == "missing" and np.isfinite(result.squares).all()
        assert pel.from_json(result.to_json()).grids == result.grids
    # Nobody has "primary" or "secondary", and nothing goes wrong.
    assert result.squares.shape == (7,)


def test_rounding_follows_the_records():
    city = pel.Category(["a", "b", "c", "d", "e"])
    common = Rounding.of("city", city, np.array([1.0, 50.0, 2.0, 30.0, 17.0]), 3)
    assert common.values.tolist() == [1, 3, 4] and common.weights.tolist() == [0.5, 0.3, 0.2]
    assert common.group.tolist() == [2, 0, 2, 1, 2]
    money = pel.Number(0, 99_999, integer=True)
    counts = np.zeros(len(public_points(money)))
    counts[0], counts[-8:] = 900, 12
    split = Rounding.of("money", money, counts, 4)
    # Most have nothing; they are one group, and the few others are told apart.
    assert split.values[0] == 0 and split.weights[0] == pytest.approx(900 / 996) and len(np.unique(split.values)) == 4
    nobody = Rounding.of("money", money, counts * 0, 4)
    assert len(nobody.values) == 4 == rounded_size(money, 4) and nobody.weights.sum() == pytest.approx(1)


def test_fewer_values_at_a_smaller_budget():
    explainer = FeatureInteraction(model_of(planted), "a")
    plans = [explainer.plan(public_for(SCHEMA, "replace", "epsilon", 3000, exact("e", e))) for e in (0.05, 1, 20)]
    sizes = [plan.details.points for plan in plans]
    assert sizes[0] == 3 and sizes[0] < sizes[1] <= sizes[2] == 6


def test_caps_follow_each_feature(seeded):
    """Features that do little have small caps, and so less noise, than features that do much."""

    def f(d):
        return d["a"] * d["b"] + 0.01 * d["c"].map(CODE).astype(float) * d["k"]

    (result,) = draws_of(FeatureInteraction(model_of(f, (0, 1.1))), SCHEMA, TABLE, 20)
    caps = dict(zip(result.features, result.caps))
    assert caps["k"] < caps["a"] / 3


def test_what_cannot_be_asked_is_refused():
    single = model_of(lambda d: d["a"], (0, 1), ["a"])
    wide = pel.Schema({f"f{i}": pel.Category(list(range(40))) for i in range(20)})
    cases = [
        (lambda: release(FeatureInteraction(single), TABLE, SCHEMA), "single feature"),
        (lambda: release(FeatureInteraction(single, "b"), TABLE, SCHEMA), "does not use 'b'"),
        (lambda: FeatureInteraction(single, ["a"]), "one column name"),
        (lambda: FeatureInteraction(single, "a", points=1), "points=1"),
        (lambda: FeatureInteraction(lambda d: d), "not a model"),
        (
            lambda: FeatureInteraction(model_of(lambda d: d["f0"] * 0.0, (0, 1), wide), "f0", points=24).plan(
                public_for(wide, "replace", "epsilon", 100)
            ),
            "smaller points=",
        ),
    ]
    for call, message in cases:
        with pytest.raises(pel.PlanError, match=message):
            call()


@pytest.mark.parametrize("output", [(0, 1e160), (0, 1e-160)])
def test_outputs_whose_squares_are_lost_are_refused(output):
    with pytest.raises(pel.PlanError, match="unit"):
        FeatureInteraction(pel.Model(additive, output=output, features=list(SCHEMA), trained_on="other data"))


def test_persons_and_pictures(schema):
    """One person's rows weigh as much as one record, through every stage."""
    people = make_people(200).assign(person=np.arange(200) // 2)
    model = model_of(lambda d: d["age"] / 90 * d["smoker"], (0, 1), ["age", "bmi", "smoker"])
    session = pel.Session(people, schema, budget=pel.Budget(epsilon=4.0), unit=pel.Unit("person", max_rows=2))
    for feature in ("age", None):
        result = session.release(FeatureInteraction(model, feature, points=2), share=0.5)
        axes = result.plot()
        assert axes.get_xlim() == (0, 1)
        assert list(result.to_frame()) == ["feature", "value", "lower", "upper", "squared"]


def test_stages_are_those_of_the_plan(schema, model):
    for feature, stages in (("age", ["spread", "tables"]), (None, ["spread", "curves", "cap", "remainders"])):
        door = record(FeatureInteraction(model, feature, points=2), make_people(300, 1), schema)
        assert [stage for stage, _ in door.asked] == stages


def test_both_statistics_are_one_request_by_name(schema, model):
    """What ledgers and study files call them does not depend on which of the two is asked."""
    overall, pairs = FeatureInteraction(model, points=2), FeatureInteraction(model, "age", points=2)
    assert overall.describe() == {"explainer": "FeatureInteraction", "features": list(schema), "of": None, "points": 2}
    assert pairs.describe() == {"explainer": "FeatureInteraction", "features": ["age"], "of": "age", "points": 2}
    for explainer in (overall, pairs):
        assert explainer.stored_name() == "pellucid.explainers.feature_interaction.FeatureInteraction"
        assert type(explainer) is pel.FeatureInteraction
    assert replace(overall, feature="age") == pairs


def test_both_statistics_in_a_study(tmp_path):
    TABLE.to_parquet(tmp_path / "table.parquet")
    (tmp_path / "models.py").write_text("def planted(d):\n    return d['a'] * d['b'] + 0.1 * d['k']\n")
    releases = [{"explain": "FeatureInteraction", "model": "planted", "epsilon": 0.5, **more} for more in ({}, {"feature": "a"})]
    study = {
        "data": "table.parquet",
        "schema": "schema.json",
        "budget": {"epsilon": 1.0},
        "models": {
            "planted": {"load": "models.py:planted", "output": [0, 2], "features": ["a", "b", "k"], "trained_on": "other data"}
        },
        "releases": releases,
    }
    (tmp_path / "schema.json").write_text(json.dumps(SCHEMA.to_dict()))
    (tmp_path / "study.json").write_text(json.dumps(study))
    read = Study.load(tmp_path / "study.json")
    made = [read.session.release(release.explainer, **release.cost) for release in read.releases]
    assert [type(result).__name__ for result in made] == ["OverallInteractions", "PairInteractions"]


def test_points_are_given_by_keyword(model):
    with pytest.warns(DeprecationWarning, match="points= by keyword"):
        assert FeatureInteraction(model, "age", 4) == FeatureInteraction(model, "age", points=4)


def test_what_a_record_brings_is_the_same_to_the_last_bit_in_every_batch():
    """A bit that depended on the batch would be rounded to another integer for everybody once somebody joined."""
    rows = Rows(SCHEMA, SCHEMA.sample(600, seed=4))
    counts = np.random.default_rng(0).random(len(public_points(SCHEMA["a"])))
    features = tuple(Rounding.of(name, SCHEMA[name], counts, 8) for name in ("a", "b"))
    along = OnCurves(model_of(lambda d: d["a"] * d["b"] / 3), features)
    whole = along(rows)
    for size in (1, 2, 3, 7, 100):
        pieces = [along(rows.take(np.arange(i, min(i + size, 600)))) for i in range(0, 600, size)]
        assert np.array_equal(np.concatenate(pieces), whole), size


def test_an_h_that_would_be_all_noise_is_refused_before_payment(model, schema):
    """It lies between 0 and 1: ±3 says nothing. Said in the preview, refused by the release, unless somebody wants it anyway."""
    session = pel.Session(make_people(60, 1), schema, budget=pel.Budget(epsilon=1.0))
    asked = FeatureInteraction(model, "age", points=4)
    assert "anyway=True" in session.preview(asked, epsilon=0.1).notes[-1]
    with pytest.raises(pel.PlanError, match=r"people or ε = .* would do; or say anyway=True"):
        session.release(asked, epsilon=0.1)
    assert float(session.spent) == 0
    assert "mostly noise" in session.release(FeatureInteraction(model, "age", points=4, anyway=True), epsilon=0.1).verdict
    assert len(session.release(asked, epsilon=0.1).values) == 6  # identical: replayed


def test_an_h_that_may_be_zero_has_a_lower_end_of_zero(seeded):
    """Not of 2^-24, which reads as if it were sure to be more than nothing."""
    calm = Simulated(
        *np.broadcast_arrays(np.zeros((2, 5)), [[-0.1, -0.05, 0.0, 0.05, 0.1]]), np.ones(2), np.zeros((2, 5)), np.ones(2), False
    )
    lower, upper = calm.interval(np.array([0.0, 0.5]), 0.5)
    assert lower[0] == 0.0 and 0.6 < lower[1] < np.sqrt(0.5) < upper[1]
