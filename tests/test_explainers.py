"""With the noise switched off every explainer equals an independent implementation."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
from people import make_people, risk
from sklearn.ensemble import RandomForestClassifier
from sklearn.inspection import partial_dependence
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import pellucid as pel
from pellucid.explainers.curves import accumulate
from pellucid.public import grids

BUDGET = pel.Budget(epsilon=100.0)


def release(data, schema, explainer, relation="replace", budget=BUDGET, **options):
    return pel.Session(data, schema, budget=budget, neighbors=relation, **options).release(explainer, share=1)


def fitted_pipeline(people, schema):
    from sklearn.compose import make_column_transformer

    frame, target = people.drop(columns="lab"), risk(people) > 0.5
    encode = make_column_transformer((OneHotEncoder(categories=[["F", "M"], list(schema["school"].values)]), ["sex", "school"]),
                                     remainder="passthrough")  # fmt: skip
    return frame, make_pipeline(encode, LogisticRegression(max_iter=2000)).fit(frame, target)


@pytest.mark.parametrize("relation", ["replace", "add-remove"])
def test_partial_dependence_equals_scikit_learn(silent, people, schema, relation):
    frame, pipeline = fitted_pipeline(people, schema)
    model = pel.Model(pipeline, trained_on="this data")
    floats = frame.astype({"age": float, "children": float})
    for name, values in (
        ("age", [20, 40, 60, 80]),
        ("bmi", [15.0, 33.3]),
        ("sex", ["F", "M"]),
        ("school", list(schema["school"].values)),
    ):
        ours = release(people, schema, pel.PartialDependence(model, name, points=values), relation)
        theirs = partial_dependence(pipeline, floats, [name], method="brute", kind="average", custom_values={name: values})
        np.testing.assert_allclose(ours.y, theirs["average"][0], atol=2e-9)
        assert ours.x == tuple(values)


def test_partial_dependence_of_a_forest(silent, people, schema):
    numeric = people[["age", "children", "bmi"]]
    forest = RandomForestClassifier(10, max_depth=6, random_state=0).fit(numeric.to_numpy(float), risk(people) > 0.5)
    model = pel.Model(forest, features=["age", "children", "bmi"], trained_on="this data")
    ours = release(people, schema, pel.PartialDependence(model, "children"))
    theirs = partial_dependence(
        forest, numeric.to_numpy(float), [1], method="brute", kind="average", custom_values={1: np.arange(7.0)}
    )
    np.testing.assert_allclose(ours.y, theirs["average"][0], atol=2e-9)


def test_several_curves_are_one_release(silent, people, schema, model):
    together = release(people, schema, pel.PartialDependence(model, ["children", "sex"]))
    for name in ("children", "sex"):
        alone = release(people, schema, pel.PartialDependence(model, name))
        np.testing.assert_allclose(together.curves[name].y, alone.y)
    assert len(together.certificate.charges) == 1


@pytest.mark.parametrize("relation", ["replace", "add-remove"])
def test_distribution_equals_numpy(silent, people, schema, relation):
    counts = release(people, schema, pel.Distribution("age", bins=[17, 30, 60, 90]), relation)
    np.testing.assert_allclose(counts.counts, np.histogram(people["age"], [17, 30, 60, 90])[0])
    counts = release(people, schema, pel.Distribution("children"), relation)
    np.testing.assert_allclose(counts.counts, np.bincount(people["children"], minlength=7))
    counts = release(people, schema, pel.Distribution("lab", bins=5), relation)
    assert counts.x[-1] == "missing"
    assert counts.counts[-1] == pytest.approx(people["lab"].isna().sum())
    assert counts.counts.sum() == pytest.approx(len(people)) and counts.shares.sum() == pytest.approx(1)


def brute_force_ale(values, predict, grid, intervals):
    """Accumulated effects averaged over random tie orders: sort, cut into blocks of equal size, average each block's steps."""
    n, curves = len(values), []
    for seed in range(400):
        order = np.lexsort((np.random.default_rng(seed).random(n), values))
        borders = np.array([min(n - 1, int(k * n / intervals)) for k in range(intervals + 1)])
        edges = values[order][borders]
        at, y = [edges[0]], [0.0]
        for k in range(intervals):
            if edges[k + 1] > edges[k]:
                block = order[borders[k] : borders[k + 1]] if k < intervals - 1 else order[borders[k] :]
                y.append(y[-1] + np.mean(predict(block, edges[k + 1]) - predict(block, edges[k])))
                at.append(edges[k + 1])
        curves.append(np.interp(grid, at, y))
    return np.mean(curves, axis=0)


def test_accumulated_effects_equal_the_average_over_tie_orders(silent, schema, model):
    people = make_people(1200, 5)
    ours = release(people, schema, pel.AccumulatedEffects(model, "age", intervals=11), budget=pel.Budget(epsilon=1000.0))
    predict = lambda rows, value: risk(people.iloc[rows].assign(age=value)).to_numpy()  # noqa: E731
    grid = np.arange(17, 91)
    expected = brute_force_ale(people["age"].to_numpy(), predict, grid, 11)
    assert ours.clip == 1.0 or ours.clip >= 0.05
    got = np.interp(grid, ours.x, ours.y)
    assert np.abs((got - got[0]) - (expected - expected[0])).max() < 0.006
    assert abs(np.interp(people["age"], ours.x, ours.y).mean()) < 1e-6


def test_accumulated_effects_of_categories(silent, people, schema, model):
    ours = release(people, schema, pel.AccumulatedEffects(model, "school"), budget=pel.Budget(epsilon=1000.0))
    levels = list(schema["school"].values)
    steps = []
    for here, there in zip(levels[:-1], levels[1:]):
        who = people[people["school"] == here]
        steps.append((risk(who.assign(school=there)) - risk(who)).mean())
    np.testing.assert_allclose(np.diff(ours.y), steps, atol=2e-4)
    assert ours.x == tuple(levels) and len(ours.counts) == 3 and ours.categorical
    np.testing.assert_allclose(ours.counts, people["school"].value_counts()[levels[:-1]], atol=1e-6)


def test_a_linear_model_has_a_linear_effect(silent, schema):
    """On a linear model the accumulated effect is the line itself, whatever the distribution."""
    rng = np.random.default_rng(0)
    people = make_people(4000).assign(bmi=rng.exponential(6, 4000) + 10)
    model = pel.Model(lambda d: (d["bmi"] - 10) / 100, output=(0, 1), features=["bmi"], trained_on="other data")
    ours = release(people, schema, pel.AccumulatedEffects(model, "bmi"), budget=pel.Budget(epsilon=1000.0))
    slopes = np.diff(ours.y) / np.diff(ours.x)
    inner = slopes[: int(0.8 * len(slopes))]
    np.testing.assert_allclose(inner, 0.01, rtol=0.02)


def test_people_count_once_in_every_explainer(silent, schema, model):
    """Repeating everybody's row under an id column changes nothing."""
    people = make_people(200).assign(id=np.arange(200))
    repeated = pd.concat([people] * 3, ignore_index=True)
    for explainer in (pel.PartialDependence(model, "age"), pel.Distribution("school"), pel.AccumulatedEffects(model, "school")):
        once = release(people, schema, explainer)
        thrice = release(repeated, schema, explainer, unit=pel.Unit("id", max_rows=3))
        np.testing.assert_allclose(once.interval()[0], thrice.interval()[0], atol=1e-6)


def test_smoothing_is_off_by_default_and_says_so_when_on(seeded, people, schema, model):
    plain = release(people, schema, pel.PartialDependence(model, "age"), budget=pel.Budget(epsilon=0.05))
    smooth = release(people, schema, pel.PartialDependence(model, "age", smooth=2), budget=pel.Budget(epsilon=0.05))
    assert not plain.smoothed and smooth.smoothed
    assert np.abs(np.diff(smooth.y)).mean() < np.abs(np.diff(plain.y)).mean()


@pytest.mark.parametrize(
    ("explainer", "words"),
    [
        (lambda m: pel.PartialDependence(m, "agee"), "does not use 'agee'"),
        (lambda m: pel.PartialDependence(m, []), "column name"),
        (lambda m: pel.PartialDependence(m, ["age", "age"]), "named twice"),
        (lambda m: pel.PartialDependence(m, "age", points=1), "whole number"),
        (lambda m: pel.PartialDependence(m, ["age", "bmi"], points=[1, 2]), "single feature"),
        (lambda m: pel.PartialDependence(m, "sex", points=["F", "Q"]), "not one of the declared"),
        (lambda m: pel.PartialDependence(m, "age", points=[5]), "outside the declared bounds"),
        (lambda m: pel.AccumulatedEffects(m, "age", intervals=0), "whole number"),
        (lambda m: pel.AccumulatedEffects(m, "agee"), "does not use"),
        (lambda m: pel.Distribution("agee"), "did you mean 'age'"),
        (lambda m: pel.Distribution("age", bins=[3, 2]), "increase"),
        (lambda m: pel.Distribution("age", bins=True), "whole number"),
    ],
)
def test_wrong_requests_are_refused_before_anything_is_charged(explainer, words, people, schema, model):
    session = pel.Session(people, schema, budget=BUDGET)
    with pytest.raises(pel.PellucidError, match=words):
        session.release(explainer(model), epsilon=1.0)
    assert session.spent == 0


def test_grids_come_from_declarations_alone():
    wide, real = pel.Number(0, 99_999, integer=True), pel.Number(0, 1)
    points = grids.curve_points(wide, 30_000, 1.0)
    assert points[0] == 0 and points[-1] == 99_999 and np.all(np.diff(points) > 0) and np.all(points == np.rint(points))
    assert len(grids.curve_points(real, 30_000, 0.1)) < len(grids.curve_points(real, 30_000, 10.0)) <= 65
    assert len(grids.curve_points(pel.Category(list("abc")), 10, 0.1)) == 3
    assert len(grids.edge_candidates(wide)) <= 257 and len(grids.edge_candidates(pel.Number(0, 9, integer=True))) == 10
    np.testing.assert_array_equal(
        grids.nearest(np.array([0.0, 1.0, 4.0]), np.array([-5, 0.4, 0.6, 2.4, 99, np.nan])), [0, 0, 1, 1, 2, -1]
    )


def test_plans_divide_records_fairly():
    """Claim: ale-ties. Shares of a value add up to at most one, over at most two intervals."""
    rng = np.random.default_rng(0)
    for _ in range(300):
        counts = np.maximum(rng.exponential(10, rng.integers(2, 60)) * (rng.random() < 0.8) - rng.exponential(5), 0)
        counts[rng.integers(len(counts))] += rng.choice([1, 1000])
        plan = accumulate.plan_ranks(counts, int(rng.choice([3, 11, 33])))
        assert (plan.share.sum(axis=0) <= 1 + 1e-9).all() and ((plan.share > 0).sum(axis=0) <= 2).all()
        assert (plan.upper > plan.lower).all() and (plan.mass >= 1).all()
        np.testing.assert_array_equal(plan.upper[:-1], plan.lower[1:])


def test_nobody_has_a_value(schema):
    """All mass in the missing cell: still a release, not an error after payment."""
    nobody = make_people(500).assign(lab=np.nan)
    model = pel.Model(lambda d: np.nan_to_num(d["lab"]) / 5, output=(0, 1), features=["lab"], trained_on="other data")
    for seed in range(5):
        result = release(nobody, schema, pel.AccumulatedEffects(model, "lab"), "add-remove", budget=pel.Budget(40.0 + seed))
        assert np.isfinite(result.y).all()


def test_a_missing_cell_does_not_change_the_type_of_a_column():
    seen = set()

    def typed(d):
        seen.add(str(d["a"].dtype))
        return np.zeros(len(d))

    declared = pel.Schema({"a": pel.Number(0, 9, integer=True, missing=float("nan"))})
    model = pel.Model(typed, output=(0, 1), features=["a"], trained_on="other data")
    for cells in ([1, 2, 3], [1, None, 3]):
        release({"a": cells}, declared, pel.PartialDependence(model, "a"))
    assert seen == {"float64"}


def test_factorisations_keep_the_sensitivity_and_pay():
    """Columns stay within length one; the error of a centred curve shrinks as theory predicts (1.46, 1.88, 2.33)."""
    for size, gain in ((20, 1.44), (50, 1.86), (99, 2.30)):
        mass, weights = np.full(size, 100.0), np.full(size + 1, 1 / (size + 1))
        asked = accumulate.factorisation(mass, weights)
        assert np.sqrt((asked**2).sum(axis=0)).max() <= 1 + 1e-12
        curve = accumulate.curve_of_sums(mass, weights)
        error = [np.sqrt(((curve @ np.linalg.inv(a)) ** 2).sum()) for a in (np.eye(size), asked)]
        assert error[0] / error[1] > gain
    rng = np.random.default_rng(0)
    for _ in range(20):
        mass = rng.exponential(100, rng.integers(1, 30)) + 1
        weights = rng.dirichlet(np.ones(len(mass) + 1))
        asked, curve = accumulate.factorisation(mass, weights), accumulate.curve_of_sums(mass, weights)
        assert ((curve @ np.linalg.inv(asked)) ** 2).sum() <= (curve**2).sum() * (1 + 1e-9)


def test_a_factorisation_changes_the_noise_not_the_curve(silent, people, schema, model):
    for name in ("age", "school"):
        pure, zcdp = (
            release(people, schema, pel.AccumulatedEffects(model, name, intervals=11), budget=budget)
            for budget in (pel.Budget(epsilon=1000.0), pel.Budget(epsilon=900.0, delta=1e-6))
        )
        np.testing.assert_allclose(pure.y, zcdp.y, atol=1e-4)


def test_too_many_categories_are_refused_before_paying():
    wide = pel.Schema({"c": pel.Category(list(range(1100)))})
    model = pel.Model(lambda d: d["c"] / 1100, output=(0, 1), features=["c"], trained_on="other data")
    session = pel.Session({"c": list(range(1100))}, wide, budget=pel.Budget(epsilon=1.0, delta=1e-6))
    with pytest.raises(pel.PlanError, match="1024"):
        session.release(pel.AccumulatedEffects(model, "c"), epsilon=0.5)
    assert session.spent == 0
    assert len(release({"c": list(range(1100))}, wide, pel.AccumulatedEffects(model, "c")).x) == 1100


WHOLE_NUMBERS = [
    (name, field.name)
    for name in pel.explainers.__all__
    if name != "Explainer"
    for field in dataclasses.fields(getattr(pel.explainers, name))
    if str(field.type).startswith("int")
]


@pytest.mark.parametrize(("name", "setting"), WHOLE_NUMBERS)
def test_a_whole_number_of_numpy_is_the_same_request(name, setting, schema):
    account = pel.Session(make_people(60), schema, budget=BUDGET, neighbors="replace")
    model = pel.Model(lambda d: d["age"] / 90, output=(0, 1), features=["age", "bmi"], trained_on="other data")
    examples = getattr(pel.explainers, name).examples(model, schema)
    with_it = [example for example in examples if getattr(example, setting) is not None]
    plain = with_it[0] if with_it else dataclasses.replace(examples[0], **{setting: 5})
    given = dataclasses.replace(plain, **{setting: np.int64(getattr(plain, setting))})
    assert type(getattr(given, setting)) is int
    account.preview(given, epsilon=1.0)
    first, spent = account.release(plain, epsilon=1.0), float(account.spent)
    assert account.release(given, epsilon=1.0).to_json() == first.to_json() and float(account.spent) == spent


def test_points_of_numpy_are_the_same_request(schema, model):
    account = pel.Session(make_people(60), schema, budget=BUDGET, neighbors="replace")
    first = account.release(pel.PartialDependence(model, "age", points=[20, 40]), epsilon=1.0)
    assert account.release(pel.PartialDependence(model, "age", points=np.array([20, 40])), epsilon=1.0).x == first.x == (20, 40)
    assert float(account.spent) == 1.0
