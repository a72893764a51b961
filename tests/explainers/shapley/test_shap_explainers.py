"""The Shapley explainers: equal to the definition and to shap without noise, sure where they say so, silent about the record."""

import dataclasses
import importlib.util
import json
import math
import pickle
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from checks import noise, public_for
from games import by_orders
from people import make_people
from sklearn import ensemble, linear_model
from sources import Seeded, Silent

import pellucid as pel
from pellucid.audit.transcript import Kept
from pellucid.engine import LocalEngine
from pellucid.explainers.shapley.background import Background, estimator_against
from pellucid.explainers.shapley.bound import ShapleyVectors
from pellucid.explainers.shapley.certainty import picks_gap, picks_right, values_gap, values_right
from pellucid.explainers.shapley.estimator import estimator_for
from pellucid.explainers.shapley.radii import shapley_radii, whole_radii
from pellucid.explainers.shapley.results import ShapDependenceResult, ShapValuesResult
from pellucid.explainers.shapley.scores import ShapleyScore
from pellucid.explainers.shapley.shap_dependence import ShapDependence
from pellucid.explainers.shapley.shap_importance import ShapImportance
from pellucid.explainers.shapley.shap_ranking import ShapRanking
from pellucid.explainers.shapley.shap_values import ShapValues
from pellucid.mechanisms import NoiseLaw, Spend, calibrate_choice, choose
from pellucid.public.rows import Rows
from pellucid.query import sensitivity
from pellucid.release.door import Ask

NAMES = ["a", "b", "c", "e"]
SCHEMA = pel.Schema({name: pel.Number(0, 1) for name in NAMES})
RECORD = {"a": 0.9, "b": 0.25, "c": 0.75, "e": 0.5}
RELATIONS, DELTAS = ("replace", "add-remove"), (0.0, 1e-6)


def answer(d):
    return 0.5 * d["a"] * d["b"] + 0.3 * np.maximum(d["c"], d["a"]) + 0.1 * d["e"]


MODEL = pel.Model(answer, output=(0, 1), features=NAMES, trained_on="other data")


def ranging(lo, hi):
    return pel.Model(answer, output=(lo, hi), features=NAMES, trained_on="other data")


def table(rows=400, seed=0):
    return pd.DataFrame(np.random.default_rng(seed).random((rows, 4)) ** 2, columns=NAMES)


def session(data=None, epsilon=10.0, delta=0.0, relation="replace", schema=SCHEMA, **options):
    data = table() if data is None else data
    return pel.Session(data, schema, budget=pel.Budget(epsilon=epsilon, delta=delta), neighbors=relation, **options)


def brute_force(record, other, function=answer, names=NAMES):
    """The Shapley vector of a record against another one, as a mean over all orders."""
    d = len(names)
    masks = (np.arange(2**d)[:, None] >> np.arange(d)) & 1 == 1
    frame = pd.DataFrame({name: np.where(masks[:, j], record[name], other[name]) for j, name in enumerate(names)})
    return by_orders(np.asarray(function(frame), dtype=float), d)


def exact_values(data, record=RECORD):
    return np.mean([brute_force(record, row) for row in data.to_dict("records")], axis=0)


def quietly(explainer, data, relation="replace", delta=0.0, **options):
    """A release without noise."""
    with noise(Silent()):
        return session(data, relation=relation, delta=delta, **options).release(explainer, share=1, fresh=True)


class Remembering:
    """An engine that reads the records once per question, so that many draws of noise are cheap."""

    def __init__(self, engine):
        self.engine, self.known = engine, {}

    def totals(self, query):
        key = repr(query)
        if key not in self.known:
            self.known[key] = self.engine.totals(query)
        return self.known[key]


def draws(explainer, data, count, relation="replace", currency="epsilon", amount=Fraction(1), schema=SCHEMA, seed=0):
    """Many independent releases of one request, with reproducible noise."""
    engine = LocalEngine(data, schema, relation, pel.Unit())
    public = public_for(schema, relation, currency, engine.units, amount)
    remembering, plan = Remembering(engine), explainer.plan(public)
    with noise(Seeded(seed)):
        return [explainer.run(Ask(remembering.totals, plan)) for _ in range(count)]


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("delta", DELTAS)
def test_values_without_noise_are_the_definition(relation, delta):
    data = table(60)
    found = quietly(ShapValues(MODEL, RECORD), data, relation, delta)
    np.testing.assert_allclose(found.values, exact_values(data), atol=1e-7)
    assert found.features == tuple(NAMES) and found.base is None and found.prediction is None
    assert found.ranking == tuple(np.array(NAMES)[np.argsort(-np.abs(exact_values(data)))])


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("how", ["picks", "values"])
@pytest.mark.parametrize("by", ["size", "signed"])
def test_rankings_without_noise_are_sorted(relation, how, by):
    data = table(60)
    exact = exact_values(data)
    order = np.argsort(-np.abs(exact) if by == "size" else -exact)
    found = quietly(ShapRanking(MODEL, RECORD, k=4, how=how, by=by, magnitudes=True), data, relation, expected_rows=60)
    assert found.ranking == tuple(NAMES[i] for i in order) and found.how == how
    np.testing.assert_allclose(found.values, exact[order], atol=1e-7)
    few = quietly(ShapRanking(MODEL, RECORD, k=2, how="picks", by=by, magnitudes=True), data, relation, expected_rows=60)
    assert few.ranking == found.ranking[:2] and len(few.magnitudes.values) == 2
    # Under add-remove nothing is guessed about the number of records.
    assert quietly(ShapRanking(MODEL, RECORD, k=2, how="picks", by=by), data, relation).ranking == few.ranking
    np.testing.assert_allclose(few.values, exact[order[:2]], atol=1e-7)


def test_forests_agree_with_shap():
    shap = pytest.importorskip("shap")
    data = table(120)
    forest = ensemble.RandomForestRegressor(15, max_depth=4, random_state=0).fit(data, answer(data))
    model = pel.Model(forest, output=(0, 1), trained_on="other data")
    theirs = shap.TreeExplainer(forest, shap.maskers.Independent(data, max_samples=len(data)))
    found = quietly(ShapValues(model, RECORD), data)
    assert "trees" in found.estimator
    np.testing.assert_allclose(found.values, theirs.shap_values(pd.DataFrame([RECORD]))[0], atol=1e-6)
    public, people = data.iloc[:7], data.iloc[7:60]
    against = shap.TreeExplainer(forest, shap.maskers.Independent(public, max_samples=len(public))).shap_values(people)
    importance = quietly(ShapImportance(model, public_background=public, cap="range"), people)
    np.testing.assert_allclose(importance.values, np.abs(against).mean(axis=0), atol=1e-6)
    secret = quietly(ShapValues(model, public_background=public), people.iloc[:1])
    np.testing.assert_allclose(secret.values, against[0], atol=1e-6)
    curve = quietly(ShapDependence(model, "a", public_background=public, cap="range", points=2), people)
    for low, y, count in ((True, curve.y[0], curve.counts[0]), (False, curve.y[1], curve.counts[1])):
        inside = (people["a"] < 0.5) == low
        assert count == pytest.approx(inside.sum()) and y == pytest.approx(against[inside, 0].mean(), abs=1e-6)


@pytest.mark.parametrize("relation", RELATIONS)
def test_importance_and_dependence_without_noise_are_the_definition(relation):
    data, public = table(40), table(3, seed=9)
    vectors = np.array([np.mean([brute_force(x, b) for b in public.to_dict("records")], axis=0) for x in data.to_dict("records")])
    found = quietly(ShapImportance(MODEL, public_background=public, cap="range"), data, relation)
    np.testing.assert_allclose(found.values, np.abs(vectors).mean(axis=0), atol=1e-7)
    capped = quietly(ShapImportance(MODEL, public_background=public, cap=0.05), data, relation)
    np.testing.assert_allclose(capped.values, np.minimum(np.abs(vectors), 0.05).mean(axis=0), atol=1e-7)
    curve = quietly(ShapDependence(MODEL, "c", public_background=public, points=2, cap=0.1), data, relation)
    cell = (data["c"] >= 0.5).astype(int)
    for i in (0, 1):
        assert curve.y[i] == pytest.approx(np.clip(vectors[cell == i, 2], -0.1, 0.1).mean(), abs=1e-7)
        assert curve.counts[i] == pytest.approx((cell == i).sum())


def test_swapping_the_roles_changes_the_sign():
    """What the estimators against a public background rest on; and their vectors lie in the mirrored set."""
    rows = Rows(SCHEMA, SCHEMA.sample(30, 3))
    public = table(4, seed=2)
    chosen = estimator_against(MODEL, SCHEMA, Background.of(public))
    truth = [
        np.mean([brute_force({n: rows[n][i] for n in NAMES}, b) for b in public.to_dict("records")], axis=0) for i in range(30)
    ]
    np.testing.assert_allclose(chosen(rows), truth, atol=1e-12)
    bound = chosen.bound(ranked=True)
    np.testing.assert_allclose(bound.unit * (bound.integers(chosen(rows)) + bound.offset), truth, atol=2 * bound.unit)
    assert chosen.prediction == pytest.approx(1 - answer(public).mean())


def test_the_secret_record_is_in_the_set_whatever_the_model():
    """Any 0/1 model: vectors against public records, centred by the mean prediction for those, keep the sizes of the set."""
    rng = np.random.default_rng(0)
    schema = pel.Schema({name: pel.Number(0, 9, integer=True) for name in NAMES})
    for _ in range(6):
        lookup = (rng.random(10**4) < rng.random()).astype(float)

        def wild(d, lookup=lookup):
            return lookup[(d["a"] + 10 * d["b"] + 100 * d["c"] + 1000 * d["e"]).astype(int)]

        model = pel.Model(wild, output=(0, 1), features=NAMES, trained_on="other data")
        public = Background.of({name: rng.integers(0, 10, 2) for name in NAMES})
        chosen = estimator_against(model, schema, public)
        rows = Rows(schema, schema.sample(200, 1))
        bound = chosen.bound(ranked=True)
        kept = bound.unit * (bound.integers(chosen(rows)) + bound.offset)
        np.testing.assert_allclose(kept, chosen(rows), atol=2 * bound.unit)


@pytest.mark.parametrize("d", [2, 3, 5, 8])
def test_sizes_of_few_coordinates_and_of_whole_vectors(d):
    from games import adversarial_games, coefficients, named_directions

    table_of = coefficients(d)
    for k in range(1, d + 1):
        few = shapley_radii(d).of_few(k)
        for direction in [*named_directions(d).values(), *np.random.default_rng(k).standard_normal((40, d))]:
            centred = np.sign(table_of[:-1] @ direction) @ table_of[:-1] / 2
            largest = np.sort(np.abs(centred))[-k:]
            assert largest.max() <= few.linf + 1e-9 and largest.sum() <= few.l1 + 1e-9
            assert np.linalg.norm(largest) <= few.l2 + 1e-9
    assert shapley_radii(d).of_few(1).l2 == shapley_radii(d).linf
    whole = whole_radii(d)
    best = np.zeros(3)
    for direction in named_directions(d).values():
        vector = np.sign(table_of @ direction) @ table_of / 2 + table_of.sum(axis=0) / 2
        best = np.maximum(best, [np.abs(vector).max(), np.abs(vector).sum(), np.linalg.norm(vector)])
    assert best[:2] == pytest.approx([whole.linf, whole.l1]) and best[2] <= whole.l2 + 1e-12
    for game in adversarial_games(min(d, 5)):
        vector = game @ coefficients(min(d, 5))
        sizes, most = np.abs(vector), whole_radii(min(d, 5))
        assert sizes.max() <= 1 + 1e-12 and sizes.sum() <= most.l1 + 1e-9 and np.linalg.norm(vector) <= most.l2 + 1e-9


@pytest.mark.parametrize("count", [False, True])
def test_sizes_are_bounded_whatever_comes(count):
    """Positive sets: integers, enforced; the norms of a replacement hold, and opposite corners reach L1 and L∞."""
    bound = ShapleyVectors(5, 0.0, 1.0, 0.0, count, positive=True)
    rng = np.random.default_rng(0)
    wild = np.concatenate([rng.standard_normal((200, 5)) * 10.0 ** rng.integers(-3, 4, (200, 1)), np.full((1, 5), np.nan)])
    wild[3] = np.inf
    for parts in (None, rng.integers(0, 4, len(wild))):
        z = bound.integers(wild, parts).astype(object)
        assert (z >= 0).all()
        replaced = bound.replaced()
        for i in range(0, 60, 2):
            change = z[i] - z[i + 1]
            assert sum(abs(c) for c in change) <= replaced.l1 and sum(c * c for c in change) <= replaced.l2_squared
            assert max(abs(c) for c in change) <= replaced.linf
    one = bound.integers(np.array([[1.0, 0, 0, 0, 0], [0, 1.0, 0, 0, 0]]))[:, :5]
    assert max(abs(one[0] - one[1])) >= 0.999999 * bound.replaced().linf
    long = np.zeros((2, 5))
    long[0, :2], long[1, 2:] = 50.0, 50.0
    gone = bound.integers(long)[:, :5]
    assert sum((gone[0] - gone[1]) ** 2) > 0.9 * (bound.replaced().l2_squared - count * bound.LIMIT**2)
    with pytest.raises(pel.PlanError, match="ranks values"):
        ShapleyScore(ShapleyVectors(5, 0.0, 1.0, 0.0, ranked=True, positive=True), records=1)


def test_linear_models_need_far_less_noise():
    """The terms of a linear model have known ranges: vectors are not clipped, and the set is the box of these ranges."""
    data = table(300)
    weights = np.array([0.4, -0.3, 0.2, 0.1])
    fitted = linear_model.LinearRegression().fit(data, data @ weights + 0.3)
    linear = pel.Model(fitted, output=(0, 1), trained_on="other data")
    general = pel.Model(fitted.predict, output=(0, 1), features=NAMES, trained_on="other data", input="frame")
    found = quietly(ShapValues(linear, RECORD), data)
    np.testing.assert_allclose(found.values, weights * (pd.Series(RECORD) - data.mean()), atol=1e-7)
    for relation in RELATIONS:
        for delta in DELTAS:
            account = session(data, relation=relation, delta=delta, expected_rows=300)
            errors = [account.preview(ShapValues(m, RECORD), epsilon=1.0).largest_error for m in (linear, general)]
            assert errors[0] < errors[1] / 2
    chosen = estimator_for(linear, SCHEMA, RECORD)
    rows = Rows(SCHEMA, SCHEMA.sample(500, 2))
    bound = chosen.bound(ranked=True)
    np.testing.assert_allclose(bound.unit * (bound.integers(chosen(rows)) + bound.offset), chosen(rows), atol=2 * bound.unit)
    norms = bound.replaced()
    assert norms.linf * bound.unit == pytest.approx(0.4, rel=1e-5) and norms.l1 * bound.unit == pytest.approx(1.0, rel=1e-5)
    assert (estimator_for(linear, SCHEMA, dict.fromkeys(NAMES, 0.5)).bound(few=[1]).replaced().linf) > 0
    secret = quietly(ShapValues(linear, public_background=data.iloc[:9]), data.iloc[20:21])
    np.testing.assert_allclose(secret.values, weights * (data.iloc[20] - data.iloc[:9].mean()), atol=1e-7)
    ranked = [
        quietly(ShapRanking(linear, RECORD, k=2, how="picks", by="signed"), data, relation).ranking for relation in RELATIONS
    ]
    assert ranked[0] == ranked[1] == tuple(np.array(NAMES)[np.argsort(-weights * (pd.Series(RECORD) - data.mean()))[:2]])


def test_features_without_a_part_are_exactly_zero():
    data = table(200).assign(idle=0.5)
    schema = pel.Schema({**SCHEMA, "idle": pel.Number(0, 1, missing=0.5)})
    forest = ensemble.RandomForestRegressor(8, max_depth=3, random_state=0).fit(data[[*NAMES, "idle"]], answer(data))
    model = pel.Model(forest, output=(0, 1), trained_on="other data")
    account = session(data, schema=schema, epsilon=20.0)
    found = account.release(ShapValues(model, RECORD, efficient=True), epsilon=2.0)
    at = found.features.index("idle")
    assert found.values[at] == 0 and [end[at] for end in found.interval()] == [0, 0] and not found.used[at]
    assert "idle" not in found.thresholded(0.01)
    ranked = account.release(ShapRanking(model, RECORD, k=5, magnitudes=True, how="picks"), epsilon=2.0)
    assert ranked.ranking[-1] == "idle" and ranked.values[-1] == 0
    importance = account.release(ShapImportance(model, public_background=data.iloc[:2]), epsilon=2.0)
    assert importance.values[at] == 0 and importance.certain_gap() > 0
    with pytest.raises(pel.PlanError, match="no part"):
        account.release(ShapDependence(model, "idle", public_background=data.iloc[:2]), epsilon=2.0)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("delta", DELTAS)
def test_efficient_values_add_up(relation, delta):
    data = table(120)
    found = session(data, relation=relation, delta=delta).release(ShapValues(MODEL, RECORD, efficient=True), epsilon=1.0)
    assert found.values.sum() + found.base == pytest.approx(found.prediction, abs=1e-9)
    assert found.prediction == pytest.approx(float(answer(pd.DataFrame([RECORD])).iloc[0]))
    assert [c["stage"] for c in found.certificate.charges] == ["values", "base"]
    without = quietly(ShapValues(MODEL, RECORD, efficient=True), data, relation, delta)
    np.testing.assert_allclose(without.values, exact_values(data), atol=1e-6)
    assert without.base == pytest.approx(answer(data).mean(), abs=1e-6)


def test_efficiency_projection_is_least_squares():
    """Against the weighted problem solved by its own equations, and never worse than the values it started from."""
    data, exact = table(150), exact_values(table(150))
    explainer, plain = ShapValues(MODEL, RECORD, efficient=True), ShapValues(MODEL, RECORD)
    found = draws(explainer, data, 150, seed=3)
    loose = draws(plain, data, 150, amount=Fraction(9, 10), seed=3)
    spread = [np.mean([(f.values - exact) ** 2 for f in some]) for some in (found, loose)]
    assert spread[0] < 1.05 * spread[1]
    one, before = found[0], loose[0]
    v, b = one.law.std**2, one.base_law.std**2
    moved = before.values - one.values
    np.testing.assert_allclose(moved, moved[0], atol=1e-12)
    raw = np.append(before.values, one.base + b / v * moved[0])
    system = np.diag([1 / v] * 4 + [1 / b])
    kkt = np.block([[system, np.ones((5, 1))], [np.ones((1, 5)), np.zeros((1, 1))]])
    solved = np.linalg.solve(kkt, np.append(system @ raw, one.prediction))[:5]
    np.testing.assert_allclose(solved, np.append(one.values, one.base), atol=1e-12)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("currency", ["epsilon", "rho"])
@pytest.mark.parametrize("kind", ["values", "efficient", "magnitudes", "importance", "dependence", "secret"])
def test_error_bars_cover(relation, currency, kind):
    """95 % of the numbers without noise lie inside, within three points (a little more where a count is noisy); half the width
    holds far fewer."""
    data, public = table(500), table(2, seed=4)
    explainer = {
        "values": ShapValues(MODEL, RECORD),
        "efficient": ShapValues(MODEL, RECORD, efficient=True),
        "magnitudes": ShapRanking(MODEL, RECORD, k=4, how="picks", magnitudes=True),
        "importance": ShapImportance(MODEL, public_background=public, cap="range"),
        "dependence": ShapDependence(MODEL, "a", public_background=public, cap="range", points=3),
        "secret": ShapValues(MODEL, public_background=public),
    }[kind]

    def numbers(result):
        if kind == "magnitudes":
            return dict(zip(result.ranking, zip(result.values, *result.interval())))
        values = result.y if kind == "dependence" else result.values
        return dict(enumerate(zip(values, *result.interval())))

    exact = numbers(quietly(explainer, data, relation, expected_rows=500))
    inside, narrow = [], []
    for result in draws(explainer, data, 200, relation, currency, Fraction(2), seed=5):
        for name, (value, lower, upper) in numbers(result).items():
            inside.append(lower <= exact[name][0] <= upper)
            narrow.append(abs(exact[name][0] - value) <= (upper - lower) / 4)
    slack = 0.035 if relation == "add-remove" or kind == "dependence" else 0.03
    assert 0.92 <= np.mean(inside) <= 0.95 + slack and np.mean(narrow) < 0.85


def test_tiers_by_size_are_right_all_at_once():
    """Also where noise carries a small value across zero."""
    truth = np.array([0.5, -0.45, 0.2, -0.01, 0.0])
    names, wrong, cut = tuple("abcde"), 0, 0
    for law in (NoiseLaw("k-norm", 0.004, 5), NoiseLaw("laplace", 0.02, 5)):
        for draw in law.draws(150, seed=3):
            found = ShapValuesResult(
                features=names, values=truth + draw, used=(True,) * 5, law=law, radius=1.0, centre=0.1, count=1.0,
                noisy_count=False,
            )  # fmt: skip
            place = {name: number for number, tier in enumerate(found.tiers()) for name in tier}
            order = np.argsort(-np.abs(truth), kind="stable")
            wrong += any(place[names[i]] > place[names[j]] for i, j in zip(order, order[1:]) if abs(truth[i]) > abs(truth[j]))
            cut += len(found.tiers()) > 1
    assert wrong / 300 <= 0.05 and cut / 300 > 0.5


def test_thresholds_are_computed_from_noisy_values():
    """A feature that is exactly 0 passes as often as any other noise, so the support is not revealed."""
    data = table(300)
    model = pel.Model(lambda d: 0.6 * d["a"], output=(0, 1), features=NAMES, trained_on="other data")
    passed, together = [], []
    for found in draws(ShapValues(model, RECORD), data, 300, seed=1):
        kept = found.thresholded()
        assert all((lower > 0) | (upper < 0) for n in kept for lower, upper in [_at(found, n)])
        passed += [name in kept for name in "bce"]
        together.append(any(name in "bce" for name in found.thresholded(together=True)))
        assert (found.values != 0).all()
    assert 0.02 < np.mean(passed) < 0.08 and np.mean(together) < 0.08


def _at(found, name):
    i = found.features.index(name)
    lower, upper = found.interval()
    return lower[i], upper[i]


@pytest.mark.parametrize("flip", [True, False])
@pytest.mark.parametrize(("d", "k"), [(2, 1), (6, 1), (5, 3), (4, 4)])
def test_the_law_of_picks(flip, d, k):
    """Real picks are right as often as the formula says, and never less often than the bound of the paper with our constants."""
    gap, rate = 1.2, Fraction(1)
    scores = [int(1000 * gap * max(k - i, 0)) for i in range(d)]
    if k == d:
        scores = [int(1000 * gap * (k - i)) for i in range(d)]
    how = calibrate_choice(2000, 1000 if flip else 1001, Spend("epsilon", 2 * min(k, d - 1) * rate), min(k, d - 1))
    assert how.flip is flip
    with noise(Seeded(2)):
        right = np.mean([choose(scores, how)[:k] == list(range(min(k, d - 1))) for _ in range(4000)])
    wanted = picks_right(gap, float(how.rate) * 1000, d, k, flip)
    assert abs(right - wanted) < 4 * math.sqrt(0.25 / 4000)
    assert wanted >= 1 - k * (d - 1) * math.exp(-float(how.rate) * 1000 * gap)
    assert picks_right(picks_gap(d, k, flip), 1.0, d, k, flip) == pytest.approx(0.95)


@pytest.mark.parametrize("kind", ["laplace", "k-norm", "gaussian"])
@pytest.mark.parametrize("signed", [True, False])
def test_the_law_of_sorted_values(kind, signed):
    law, d, k = NoiseLaw(kind, 0.02, 6), 6, 3
    gap = values_gap(law, d, k, signed)
    assert values_right(gap, law, d, k, signed) == pytest.approx(0.95, abs=0.01)
    truth = np.array([3, 2, 1, 0, 0, 0]) * gap
    if not signed:
        truth[1] *= -1
    noisy = truth + law.draws(20_000, seed=11)
    order = np.argsort(-(noisy if signed else np.abs(noisy)), axis=1)[:, :3]
    right = (order == [0, 1, 2]).all(axis=1).mean()
    assert 0.94 <= right <= (0.96 if signed else 1.0)


def test_ranking_accuracy_follows_records_times_price():
    """A gap of g at n records and price ε is found as often as 2g at n/2: on one curve of ε·g·n/span, and as promised."""
    right = {}
    model = pel.Model(lambda d: 0.5 * d["a"] + 0.47 * d["b"], output=(0, 1), features=["a", "b"], trained_on="other data")
    schema = pel.Schema({"a": pel.Number(0, 1), "b": pel.Number(0, 1)})
    explainer = ShapRanking(model, {"a": 1.0, "b": 1.0}, k=1, how="picks")
    for n, epsilon in ((400, Fraction(1, 20)), (800, Fraction(1, 40)), (100, Fraction(1, 5))):
        results = draws(explainer, {"a": [0.0] * n, "b": [0.0] * n}, 600, amount=epsilon, schema=schema)
        right[n] = np.mean([r.ranking == ("a",) for r in results])
        assert abs(right[n] - results[0].certainty(0.03)) < 4 * math.sqrt(0.25 / 600)
    assert max(right.values()) - min(right.values()) < 0.1 and 0.5 < right[400] < 0.95


def test_the_better_way_is_taken_and_said():
    """Few places of many features: picks. Many places: all values. Decided without data, the same at every price."""
    wide = pel.Schema({f"x{i}": pel.Number(0, 1) for i in range(40)})
    model = pel.Model(lambda d: d["x0"], output=(0, 1), features=list(wide), trained_on="other data")
    for currency in ("epsilon", "rho"):
        ways = {}
        for k in (1, 2, 20):
            explainer = ShapRanking(model, dict.fromkeys(wide, 0.5), k=k, permutations=2)
            sizes = ((100, 1), (9000, 3))
            plans = [explainer.plan(public_for(wide, "replace", currency, rows, Fraction(amount))) for rows, amount in sizes]
            assert len({plan.details.way for plan in plans}) == 1
            ways[k], gaps = plans[0].details.way, plans[0].details.gaps
            assert gaps[ways[k]][0] == min(g for g, _ in gaps.values())
            expected = explainer.expected(plans[0])
            assert "picks" in expected.notes[0] and expected.gap == gaps[ways[k]][0]
        assert ways[1] == "picks" and ways[20] == "values"


@pytest.mark.parametrize("how", [None, "picks", "values"])
def test_drawings_show_what_is_charged(how):
    explainer = ShapRanking(MODEL, RECORD, k=3, magnitudes=True, how=how)
    for relation in RELATIONS:
        for currency in ("epsilon", "rho"):
            plan = explainer.plan(public_for(SCHEMA, relation, currency, 100))
            drawn = explainer.flow(plan)
            assert drawn.enables(tuple(plan.shares)) and not drawn.warnings(relation)
            assert set(drawn.stages) == {*plan.shares, "explanation"}


def test_previews_say_what_is_needed():
    """The advice is right: with the records or the price it names, the gap it speaks of is reached."""
    explainer = ShapRanking(MODEL, RECORD, k=1)
    poor = session(table(50), epsilon=100.0).preview(explainer, epsilon=0.05)
    assert any("too noisy" in note for note in poor.notes)
    picks = session(epsilon=100.0).preview(ShapRanking(MODEL, RECORD, k=2, how="picks"), epsilon=1.0)
    assert f"all places are right with 95 % from a lead of {picks.gap:.4g}" in str(picks) and "within ±" not in str(picks)
    assert "within ±" in str(session(epsilon=100.0).preview(ShapRanking(MODEL, RECORD, k=2, how="values"), epsilon=1.0))
    told = next(note for note in poor.notes if "or ε =" in note)
    rows = int(told.split("about ")[1].split(" records")[0].replace(",", ""))
    price = float(told.split("ε = ")[1].split(" ")[0])
    assert session(table(50), epsilon=100.0).preview(explainer, epsilon=price).gap == pytest.approx(0.02, rel=0.02)
    assert session(table(rows), epsilon=100.0).preview(explainer, epsilon=0.05).gap == pytest.approx(0.02, rel=0.02)
    rich = session(table(4000), epsilon=100.0).preview(ShapValues(MODEL, RECORD), epsilon=5.0)
    assert any(note.startswith("take values") for note in rich.notes)
    middle = session(table(500), epsilon=100.0).preview(explainer, epsilon=1.0)
    assert any(note.startswith("take a ranking") for note in middle.notes)
    cost = session(table(500), epsilon=100.0).cost_for(ShapValues(MODEL, RECORD), error=0.02)
    assert session(table(500), epsilon=100.0).preview(ShapValues(MODEL, RECORD), epsilon=cost).largest_error <= 0.02
    with pytest.raises(pel.PlanError, match="expected_rows"):
        session(relation="add-remove").preview(explainer, epsilon=1.0)


def test_a_private_cap_makes_importances_sharper(seeded):
    """A declared range far beyond all answers: what a cap is for."""
    data = table(4000)
    model = pel.Model(lambda d: 0.1 * answer(d), output=(0, 100), features=NAMES, trained_on="other data")
    for delta in DELTAS:
        found, plain = (
            session(data, epsilon=2.0, delta=delta).release(
                ShapImportance(model, public_background=table(2, seed=3), cap=cap), share=1
            )
            for cap in (None, "range")
        )
        widths = [np.ptp(e.interval(), axis=0).max() for e in (found, plain)]
        assert widths[0] < widths[1] / 30 and [c["stage"] for c in found.certificate.charges] == ["cap", "sizes", "beyond"]
        exact = quietly(ShapImportance(model, public_background=table(2, seed=3), cap="range"), data).values
        np.testing.assert_allclose(found.values, exact, atol=0.1 * exact.max() + widths[0])
        assert found.ranking[0] == np.array(NAMES)[np.argmax(exact)]


def test_no_cap_is_chosen_where_it_cannot_be_or_need_not(seeded):
    """Of few people nothing is known about a quantile; a probability is as wide as its range."""
    wide = pel.Model(lambda d: 0.1 * answer(d), output=(0, 100), features=NAMES, trained_on="other data")
    for model, rows, wanted in ((wide, 60, False), (wide, 4000, True), (MODEL, 4000, False)):
        for kind in (ShapImportance(model, public_background=table(2)), ShapDependence(model, "a", public_background=table(2))):
            plan = session(table(rows)).plan(kind, epsilon=1.0)
            assert ("cap" in plan.shares) == wanted and ("cap" in kind.flow(plan).stages) == wanted
    found = session(table(60), epsilon=0.1).release(ShapImportance(wide, public_background=table(2)), share=1)
    assert found.cap == 100 and found.hidden is None


@pytest.mark.parametrize("kind", ["importance", "dependence"])
@pytest.mark.parametrize("currency", ["epsilon", "rho"])
def test_bars_include_what_a_cap_hides(kind, currency):
    """Against the answer without noise and without the cap, which cuts most people here; noise alone would explain little."""
    data, public = table(500), table(2, seed=4)
    make = {"importance": ShapImportance, "dependence": lambda *a, **k: ShapDependence(*a, feature="a", points=3, **k)}[kind]
    asked, whole = make(MODEL, public_background=public, cap=0.05), make(MODEL, public_background=public, cap="range")
    exact = quietly(whole, data)
    exact = exact.y if kind == "dependence" else exact.values
    inside, by_noise = [], []
    for result in draws(asked, data, 100, "replace", currency, Fraction(2), seed=5):
        lower, upper = result.interval()
        inside.append((lower <= exact) & (exact <= upper))
        blind = dataclasses.replace(result, hidden=None, hidden_law=None, **({"widest": None} if kind == "dependence" else {}))
        lower, upper = blind.interval()
        by_noise.append((lower <= exact) & (exact <= upper))
    assert np.mean(inside) >= 0.93 and np.mean(by_noise) < 0.8


def test_the_cap_suits_the_number_of_features():
    wide = pel.Schema({f"x{i}": pel.Number(0, 1) for i in range(60)})
    model = pel.Model(lambda d: d["x0"], output=(0, 20), features=list(wide), trained_on="other data")
    public = Background.of([dict.fromkeys(wide, 0.5)])
    tall = pel.Model(answer, output=(0, 20), features=NAMES, trained_on="other data")
    few, many = ShapImportance(tall, public_background=table(1)), ShapImportance(model, public_background=public)
    assert few.plan(public_for(SCHEMA, "replace", "epsilon", 5000)).details.norm == "L∞"
    assert many.plan(public_for(wide, "replace", "epsilon", 5000)).details.norm == "L1"
    assert many.plan(public_for(wide, "replace", "rho", 5000)).details.norm == "L2"
    people = {name: np.random.default_rng(i).random(500) for i, name in enumerate(wide)}
    found = session(people, schema=wide, epsilon=50.0).release(many, share=1)
    assert found.norm == "L1" and found.ranking[0] == "x0" and len(found.values) == 60


@pytest.mark.parametrize("unit", [pel.Unit("id", max_rows=2), pel.Unit(max_rows=2)])
@pytest.mark.parametrize("relation", RELATIONS)
def test_people_with_several_rows(unit, relation):
    data = pd.concat([table(60), table(60)], ignore_index=True)
    data["id"] = [*range(60), *range(60)]
    exact = exact_values(table(60))
    options = {"unit": unit, "expected_rows": 60 if unit.column else 120}
    found = quietly(ShapValues(MODEL, RECORD), data, relation, **options)
    np.testing.assert_allclose(found.values, exact, atol=1e-6)
    ranked = quietly(ShapRanking(MODEL, RECORD, k=4, how="picks", magnitudes=True), data, relation, **options)
    np.testing.assert_allclose(np.sort(ranked.values), np.sort(exact), atol=1e-6)
    importance = quietly(ShapImportance(MODEL, public_background=table(1)), data, relation, **options)
    assert len(importance.ranking) == 4
    quietly(ShapDependence(MODEL, "a", public_background=table(1)), data, relation, **options)


def test_one_feature_and_five_hundred():
    one = pel.Schema({"a": pel.Number(0, 1)})
    model = pel.Model(lambda d: d["a"] ** 2, output=(0, 1), trained_on="other data")
    data = {"a": np.linspace(0, 1, 30)}
    exact = 0.81 - np.mean(data["a"] ** 2)
    for explainer in (ShapValues(model, {"a": 0.9}), ShapRanking(model, {"a": 0.9}, k=1, magnitudes=True)):
        assert quietly(explainer, data, schema=one).values[0] == pytest.approx(exact, abs=1e-7)
        session(data, schema=one).preview(explainer, epsilon=1.0)
    for how in ("picks", "values"):
        found = session(data, schema=one).release(ShapRanking(model, {"a": 0.9}, k=1, how=how), epsilon=1.0)
        assert found.ranking == ("a",) and found.certainty(0.1) == 1
    wide = pel.Schema({f"x{i}": pel.Number(0, 1, missing=0.5) for i in range(500)})
    model = pel.Model(lambda d: 0.6 * d["x7"] + 0.4 * d["x400"], output=(0, 1), features=list(wide), trained_on="other data")
    people = {name: np.zeros(20) for name in wide}
    found = quietly(ShapRanking(model, {"x7": 1.0, "x400": 1.0}, k=2, how="picks", permutations=2), people, schema=wide)
    assert found.ranking == ("x7", "x400")
    noisy = session(people, schema=wide).release(ShapValues(model, {"x7": 1.0}, permutations=2), epsilon=1.0)
    assert len(noisy.values) == 500 and noisy.certificate.status == "proved for row-wise models"


def test_awkward_backgrounds_and_models():
    single = quietly(ShapValues(MODEL, RECORD), table(1))
    np.testing.assert_allclose(single.values, brute_force(RECORD, table(1).iloc[0]), atol=1e-7)
    twins = pd.concat([table(3)] * 5, ignore_index=True)
    np.testing.assert_allclose(quietly(ShapValues(MODEL, RECORD), twins).values, exact_values(table(3)), atol=1e-7)
    constant = pel.Model(lambda d: 0.3 + 0 * d["a"], output=(0, 1), features=NAMES, trained_on="other data")
    assert np.abs(quietly(ShapValues(constant, RECORD, efficient=True), table(20)).values).max() < 1e-7
    assert len(quietly(ShapRanking(constant, RECORD, k=4), table(20)).ranking) == 4
    line = linear_model.LinearRegression().fit(table(50), np.full(50, 0.5))
    flat = pel.Model(line, output=(0, 1), trained_on="other data")
    assert np.abs(quietly(ShapValues(flat, RECORD), table(20)).values).max() < 1e-6


def test_a_model_outside_its_range_is_clipped_and_stays_certified():
    loud = pel.Model(lambda d: 40 * answer(d) - 5, output=(0, 1), features=NAMES, trained_on="other data")

    def clipped(d):
        return np.clip(40 * answer(d) - 5, 0, 1)

    data = table(60)
    exact = np.mean([brute_force(RECORD, row, clipped) for row in data.to_dict("records")], axis=0)
    np.testing.assert_allclose(quietly(ShapValues(loud, RECORD), data).values, exact, atol=1e-7)
    found = session(data).release(ShapValues(loud, RECORD), epsilon=1.0)
    assert found.certificate.status == "proved for row-wise models" and found.certificate.charges[0]["enforced"]
    explainer = ShapValues(loud, RECORD)
    query = explainer.plan(public_for(SCHEMA, "replace", "epsilon", 60))["values"].query
    bound, most = query.bound, sensitivity(query, "replace")
    inside = bound.integers(1000 * np.random.default_rng(0).standard_normal((500, 4)))
    change = np.abs(inside[1:] - inside[:-1])
    assert change.max() <= most.linf and change.sum(axis=1).max() <= most.l1


def test_missing_values_in_the_record_become_the_declared_ones():
    schema = pel.Schema({**SCHEMA, "b": pel.Number(0, 1, missing=0.125)})
    data = table(30)
    given = [{"a": 0.9, "c": 0.75, "e": 0.5}, {**RECORD, "b": None}, {**RECORD, "b": float("nan")}, {**RECORD, "b": 0.125}]
    found = [quietly(ShapValues(MODEL, record), data, schema=schema).values for record in given]
    for other in found[1:]:
        np.testing.assert_array_equal(found[0], other)
    plain = quietly(ShapValues(MODEL, RECORD), data).values
    for form in (pd.Series(RECORD), pd.DataFrame([RECORD])):
        np.testing.assert_array_equal(quietly(ShapValues(MODEL, form), data).values, plain)


@pytest.mark.parametrize(
    "make",
    [
        lambda record: ShapValues(MODEL, record, label="case 7"),
        lambda record: ShapValues(MODEL, record, efficient=True),
        lambda record: ShapRanking(MODEL, record, k=2, magnitudes=True, how="picks"),
    ],
)
def test_the_record_asked_about_is_stored_nowhere(make, tmp_path):
    """Not in the result, its JSON or pickle, the certificate, the request or the ledger file."""
    canary = {"a": 0.31415926535, "b": 0.27182818284, "c": 0.57721566490, "e": 0.69314718055}
    path = tmp_path / "study.db"
    account = session(table(50), ledger=str(path), name="ward", create=True)
    explainer = make(canary)
    found = account.release(explainer, epsilon=1.0)
    again = account.release(make(canary), epsilon=1.0)
    assert again.to_json() == found.to_json() and float(account.spent) == 1
    texts = [found.to_json().encode(), pickle.dumps(found), repr(explainer).encode(), json.dumps(explainer.describe()).encode()]
    texts += [file.read_bytes() for file in tmp_path.iterdir()]
    for text in texts:
        for value in canary.values():
            assert repr(value)[:9].encode() not in text and np.float64(value).tobytes() not in text
    assert make({**canary, "a": 0.3}).describe() != explainer.describe()
    assert "not protected" in explainer.about_record() and pickle.loads(pickle.dumps(explainer)).record == explainer.record


def test_a_secret_record_is_protected():
    """One row is the secret: the noise covers any other row, and without noise it is the row's own vector."""
    public = table(5, seed=8)
    data = table(1, seed=3)
    exact = np.mean([brute_force(data.iloc[0], b) for b in public.to_dict("records")], axis=0)
    explainer = ShapValues(MODEL, public_background=public)
    np.testing.assert_allclose(quietly(explainer, data).values, exact, atol=1e-7)
    found = session(data).release(explainer, epsilon=5.0)
    assert found.certificate.status == "proved for row-wise models" and "protected" in explainer.about_record()
    ranked = ShapRanking(MODEL, public_background=public, k=4, by="signed", how="picks")
    assert quietly(ranked, data).ranking == tuple(np.array(NAMES)[np.argsort(-exact)])
    assert quietly(ranked, data, "add-remove", expected_rows=1).ranking == quietly(ranked, data).ranking
    changed = ShapValues(MODEL, public_background=table(5, seed=9))
    assert changed.describe()["background"] != explainer.describe()["background"]


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: ShapValues(MODEL), "either record="),
        (lambda: ShapValues(MODEL, RECORD, public_background=table(2)), "either record="),
        (lambda: ShapValues(answer, RECORD), "wrap it"),
        (lambda: ShapValues(MODEL, [1, 2]), "dict of values"),
        (lambda: ShapValues(MODEL, table(2)), "2 rows"),
        (lambda: ShapValues(MODEL, {"z": 1}), "does not declare"),
        (lambda: ShapValues(MODEL, {"a": 7}), "outside the declared"),
        (lambda: ShapValues(MODEL, RECORD, permutations=3), "even number"),
        (lambda: ShapValues(MODEL, RECORD, method="magic"), "use one of"),
        (lambda: ShapValues(MODEL, public_background=table(2), efficient=True), "secret"),
        (lambda: ShapValues(MODEL, RECORD, label="x" * 300), "label"),
        (lambda: ShapRanking(MODEL, RECORD, k=0), "whole number"),
        (lambda: ShapRanking(MODEL, RECORD, k=1, by="value"), "by="),
        (lambda: ShapRanking(MODEL, RECORD, k=1, how="luck"), "how="),
        (lambda: ShapRanking(MODEL, RECORD, k=1, split=1.5), "split="),
        (lambda: ShapImportance(MODEL), "public_background="),
        (lambda: ShapImportance(MODEL, public_background=5), "DataFrame"),
        (lambda: ShapImportance(MODEL, public_background=table(2).iloc[:0]), "public records"),
        (lambda: ShapImportance(MODEL, public_background=table(2)[["a", "b"]]), "no column"),
        (lambda: ShapImportance(MODEL, public_background=table(2), cap=3.0), "cap="),
        (lambda: ShapDependence(MODEL, "z", public_background=table(2)), "does not use"),
        (lambda: ShapDependence(MODEL, "", public_background=table(2)), "column name"),
        (lambda: ShapDependence(MODEL, "a", public_background=table(2), points=1), "points"),
        (lambda: ShapValues(MODEL, (1, 2)), "not a tuple"),
        (lambda: ShapValues(MODEL, {1: 0.5, "1": [3]}), "name as text"),
        (lambda: ShapValues(MODEL, pd.DataFrame([[0.1, 0.2]], columns=["a", "a"])), "every column once"),
        (lambda: ShapValues(MODEL, {"a": 10**400}), "not a value|not a number|outside"),
        (lambda: ShapValues(MODEL, public_background={"a": 10**400, "b": 0, "c": 0, "e": 0}), "not a value|not a number|outside"),
        (lambda: ShapValues(MODEL, RECORD, seed=None), "seed"),
        (lambda: ShapValues(MODEL, RECORD, certified=0.5), "two finite"),
        (lambda: ShapValues(MODEL, RECORD, certified="01"), "two finite"),
        (lambda: ShapValues(MODEL, RECORD, certified=(0, 1, 2)), "two finite"),
        (lambda: ShapValues(MODEL, RECORD, certified=(1, 0)), "two finite"),
        (lambda: ShapValues(MODEL, RECORD, certified=(math.nan, 1)), "two finite"),
        (lambda: ShapValues(MODEL, RECORD, certified=(0, math.inf)), "two finite"),
        (lambda: ShapRanking(MODEL, RECORD, k=None), "k=None"),
        (lambda: ShapRanking(MODEL, RECORD, magnitudes="no"), "True or False"),
        (lambda: ShapImportance(MODEL, public_background=table(2), cap=np.array([0.1, 0.2])), "cap="),
        (lambda: ShapImportance(MODEL, public_background=table(2), cap=1e-306), "cap="),
        (lambda: ShapDependence(MODEL, "a", public_background=table(2), cap=5e-324), "cap="),
        (lambda: ShapImportance(MODEL, public_background={"a": "0.5", "b": [1.0], "c": [1.0], "e": [1.0]}), "for every column"),
        (
            lambda: ShapImportance(pel.Model(answer, output=(0, 1e-277), trained_on="other data"), public_background=RECORD),
            "unit",
        ),
        (lambda: ShapValues(pel.Model(answer, output=(-1e308, 1e308), trained_on="other data"), RECORD), "unit"),
        (lambda: ShapValues(pel.Model(answer, output=(0, 1e160), trained_on="other data"), RECORD, efficient=True), "unit"),
        (lambda: ShapValues(MODEL, {"a": Decimal("sNaN")}), "not a value|not a number"),
    ],
)
def test_bad_requests_are_refused_before_payment(make, match):
    account = session(table(20))
    with pytest.raises(pel.PellucidError, match=match):
        account.release(make(), epsilon=1.0)
    assert float(account.spent) == 0


@pytest.mark.filterwarnings("error")
def test_the_way_of_a_ranking_does_not_depend_on_the_unit_of_outputs():
    def way(top):
        model = pel.Model(lambda d: top * answer(d), output=(0, top), trained_on="other data")
        return session(table(20)).plan(ShapRanking(model, RECORD, k=1, magnitudes=True), epsilon=1.0).details.way

    assert way(1.0) == way(1e160) == way(1e-160)


def test_one_public_record_is_a_background():
    """A dict of single values and a Series are one record; a text is a value and not a list of letters."""
    forms = [[RECORD], RECORD, pd.Series(RECORD), [pd.Series(RECORD)], pd.DataFrame([RECORD])]
    assert len({Background.of(form).digest for form in forms}) == 1 and len(Background.of(RECORD)) == 1
    assert Background.of({"sex": "female", "age": np.array(3)}).columns == (("sex", ("female",)), ("age", (3,)))
    found = quietly(ShapImportance(MODEL, public_background=RECORD, cap="range"), table(5))
    exact = np.mean([np.abs(brute_force(row, RECORD)) for row in table(5).to_dict("records")], axis=0)
    np.testing.assert_allclose(found.values, exact, atol=1e-7)


def test_digests_tell_values_apart():
    """Also values whose text is rounded: arrays of no dimension, and floats with a text of their own."""

    class Rounded(float):
        def __repr__(self):
            return "0.1"

    close = (0.1234567890123, 0.1234567890124)
    for wrap in (float, np.float64, np.array, Rounded):
        assert len({ShapValues(MODEL, {**RECORD, "a": wrap(v)}).describe()["record"] for v in close}) == 2
        assert len({Background.of([{**RECORD, "a": wrap(v)}]).digest for v in close}) == 2
        assert ShapValues(MODEL, {**RECORD, "a": wrap(0.5)}).describe() == ShapValues(MODEL, {**RECORD, "a": 0.5}).describe()


def test_digests_of_records_need_the_key_of_the_process(monkeypatch):
    """Nobody without the key can try out records; a plain hash would be the same in every process."""
    from pellucid.public import records as asked

    record = asked.kept_record(RECORD)
    here = asked.record_digest(record)
    assert here == asked.record_digest(record) and len(asked._KEY) == 32
    monkeypatch.setattr(asked, "_KEY", bytes(32))
    assert asked.record_digest(record) != here
    spec = importlib.util.find_spec("pellucid.public.records")
    another = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(another)
    assert another.record_digest(record) not in (here, asked.record_digest(record))


def test_many_permutations_fit_into_memory():
    from pellucid.explainers.shapley.coalitions import MOST_RANKS, Permuted

    wide = tuple((f"x{i}", 0.5) for i in range(60))
    for permutations in (2, 8, 10_000):
        made = Permuted(MODEL, wide, permutations)
        assert 1 <= made.groups <= 1024 and made.groups * permutations * 60 <= MOST_RANKS <= 2**26
    assert Permuted(MODEL, wide, 8).groups == 1024
    with pytest.raises(pel.PlanError, match="memory"):
        Permuted(MODEL, wide, 2**26)


def test_more_places_than_features_rank_all_of_them():
    for how in ("picks", "values"):
        found = session().release(ShapRanking(MODEL, RECORD, k=50, how=how), epsilon=1.0)
        assert sorted(found.ranking) == NAMES and found.picks == 4 and 0 < found.certainty(found.gap) < 1
    assert len(session().preview(ShapRanking(MODEL, RECORD), epsilon=1.0).labels) == 4


def test_without_a_number_of_records_picks_promise_nothing():
    """Under add-remove the number is secret: no gap without a public guess, and with one the result says what it rests on."""
    plt = pytest.importorskip("matplotlib.pyplot")
    blind = session(relation="add-remove").release(ShapRanking(MODEL, RECORD, k=2, how="picks"), epsilon=1.0)
    told = session(relation="add-remove", expected_rows=400).release(ShapRanking(MODEL, RECORD, k=2, how="picks"), epsilon=1.0)
    known = session().release(ShapRanking(MODEL, RECORD, k=2, how="picks"), epsilon=1.0)
    assert blind.gap is None and blind.rate is None and blind.records is None and "secret" in str(blind)
    with pytest.raises(pel.PlanError, match="expected_rows"):
        blind.certainty(0.1)
    assert blind.certainty(0.1, records=400) == told.certainty(0.1) < told.certainty(0.1, records=4000)
    assert "if there are at least 400 records" in str(told) and told.gap > 0
    assert told.certainty(told.gap) == pytest.approx(0.95)
    assert any("at least 400 records" in a for a in told.certificate.assumptions)
    assert "at least 400" not in str(known) and not any("at least" in a for a in known.certificate.assumptions)
    assert known.certainty(0.1, records=9) == known.certainty(0.1)
    for found in (blind, told, known):
        again = pel.from_json(found.to_json())
        assert again.gap == found.gap and str(again) == str(found) and len(found.to_frame()) == 2
        assert found.text in found.verdict and found.verdict in found.notes
        assert found.text in found.plot().get_xlabel().replace("\n", " ") and repr(found) and found._repr_html_()
    plt.close("all")
    sorted_ = session(relation="add-remove").release(ShapRanking(MODEL, RECORD, k=2, how="values"), epsilon=1.0)
    assert sorted_.certainty(sorted_.gap) == pytest.approx(0.95, abs=1e-3)
    law = sorted_.magnitudes.law
    assert sorted_.gap > values_gap(law, 4, 2, False) and "if there are" not in str(sorted_)


@pytest.mark.parametrize("wrong", [-0.1, math.nan, "x", None, True, np.array([0.1, 0.2])])
def test_questions_about_results_are_checked(wrong):
    account = session(table(50), epsilon=50.0)
    found = [account.release(ShapRanking(MODEL, RECORD, k=2, how=how), epsilon=2.0) for how in ("picks", "values")]
    for ranked in found:
        for ask in (ranked.certainty, ranked.tiers, ranked.interval):
            with pytest.raises(pel.PlanError, match="give a"):
                ask(wrong)
        with pytest.raises(pel.PlanError, match="records="):
            ranked.certainty(0.1, records=0)
    values = account.release(ShapValues(MODEL, RECORD), epsilon=2.0)
    importance = account.release(ShapImportance(MODEL, public_background=RECORD), epsilon=2.0)
    curve = account.release(ShapDependence(MODEL, "a", public_background=RECORD), epsilon=2.0)
    for ask in (values.interval, values.tiers, values.thresholded, importance.interval, importance.tiers, curve.interval):
        with pytest.raises(pel.PlanError, match="level="):
            ask(wrong)


def _line(coefficients, intercept):
    fitted = linear_model.LinearRegression().fit(table(20)[NAMES[: len(coefficients)]], np.arange(20.0))
    fitted.coef_, fitted.intercept_ = np.array(coefficients), intercept
    return pel.Model(fitted, output=(0, 1), features=NAMES[: len(coefficients)], trained_on="other data")


@pytest.mark.parametrize("relation", RELATIONS)
def test_signed_rankings_put_zero_where_it_belongs(relation):
    """A feature without a part has the value 0: above what lowered the prediction, below what raised it."""
    data = table(300).assign(b=0.2)
    model = _line([0.3, 0.0, -0.4], 0.5)
    record = {"a": 0.9, "b": 0.9, "c": 0.9}
    exact = np.array([0.3, 0.0, -0.4]) * (0.9 - data[["a", "b", "c"]].mean())
    for k in (1, 2, 3, 5):
        found = quietly(ShapRanking(model, record, k=k, by="signed"), data, relation, expected_rows=300)
        assert found.ranking == tuple(np.array(["a", "b", "c"])[np.argsort(-exact)][:k]) and found.how == "values"
        sized = quietly(ShapRanking(model, record, k=k, how="picks"), data, relation, expected_rows=300)
        assert sized.ranking == ("c", "a", "b")[:k]
    account = session(data, relation=relation, expected_rows=300)
    with pytest.raises(pel.PlanError, match="no part"):
        account.release(ShapRanking(model, record, k=2, by="signed", how="picks"), epsilon=1.0)
    assert float(account.spent) == 0
    account.preview(ShapRanking(model, record, k=2, by="signed"), epsilon=1.0)


@pytest.mark.parametrize("place", [0, 1, 2, 3])
def test_known_zeros_are_rivals_in_signed_rankings(place):
    """Wherever the known zero stands among the others, the order is right at least as often as said."""
    law, d, k = NoiseLaw("laplace", 0.02, 4), 5, 3
    gap = values_gap(law, d, k, True, idle=1)
    assert gap > values_gap(law, 4, k, True) * 0.999
    truth = gap * (place - np.minimum(np.arange(5), 3))
    noise_ = law.draws(20_000, seed=4)
    noisy = truth + np.insert(noise_, min(place, 4), 0.0, axis=1)
    order = np.argsort(-noisy, axis=1)[:, :3]
    assert (order == [0, 1, 2]).all(axis=1).mean() >= 0.945
    alone = NoiseLaw("laplace", 0.02, 1)
    assert values_gap(alone, 2, 2, True, idle=1) == pytest.approx(alone.half_width(0.95), rel=0.05)


@pytest.mark.parametrize("currency", ["epsilon", "rho"])
def test_a_noisy_count_is_part_of_what_is_sure(currency):
    """Centres on both sides of 0: the noise of the count pulls the two values apart. Claims hold on average, and so do tiers."""
    schema = pel.Schema({"a": pel.Number(0, 1), "b": pel.Number(0, 1)})
    amount = Fraction(1) if currency == "epsilon" else Fraction(1, 10)
    model, record = _line([0.5, -0.5], 0.5), {"a": 1.0, "b": 1.0}
    explainer = ShapRanking(model, record, k=1, by="signed", how="values")
    for gap in (0.02, 0.03, 0.04):
        data = {"a": [1 - 2 * gap] * 100, "b": [1.0] * 100}
        found = draws(explainer, data, 300, "add-remove", currency, amount, schema, seed=7)
        right = np.mean([one.ranking == ("a",) for one in found])
        assert np.mean([one.certainty(gap) for one in found]) <= right + 0.03
    close = {"a": [1 - 2 * 0.0005] * 100, "b": [1.0] * 100}
    both = ShapRanking(model, record, k=2, by="signed", how="values")
    found = draws(both, close, 300, "add-remove", currency, amount, schema, seed=8)
    assert np.mean([one.tiers() == [("b",), ("a",)] for one in found]) <= 0.05
    lost = draws(both, {"a": [1.0], "b": [1.0]}, 30, "add-remove", currency, amount / 20, schema, seed=9)
    unknown = [one for one in lost if one.magnitudes.count < 1]
    assert unknown and all(one.certainty(9.0) == 0 and one.gap == math.inf and len(one.tiers()) == 1 for one in unknown)


def counted(truth, centre, law, n, count):
    """Values over a noisy count, with a radius of 1, as a release makes them."""
    d, names = len(truth), tuple(f"x{i}" for i in range(len(truth)))
    for drawn in law.draws(count, seed=12):
        about = max(n + drawn[-1], 0.5)
        mean = centre + ((truth - centre) * n + drawn[:d]) / about if about >= 1 else centre + 0 * truth
        yield ShapValuesResult(
            features=names, values=mean, used=(True,) * d, law=law.times(1 / max(about, 1)), radius=1.0,
            centre=float(np.abs(centre).max()), count=about, noisy_count=True,
        )  # fmt: skip


def test_errors_have_the_noise_of_the_count():
    """Far from the centre it is as large as a value's own noise: without it the bars would be too short."""
    truth, centre = np.array([0.95, -0.95, 0.9]), np.zeros(3)
    for law in (NoiseLaw("laplace", 2.0, 4), NoiseLaw("gaussian", 3.0, 4)):
        inside = [(low <= truth) & (truth <= high) for low, high in (v.interval() for v in counted(truth, centre, law, 80, 300))]
        assert 0.92 <= np.mean(inside) <= 0.99


@pytest.mark.parametrize("noisy", [False, True])
def test_tiers_by_size_hold_for_many_close_pairs(noisy):
    """Ten pairs that nearly tie, of both signs: a tier ends inside a pair, the wrong way round, in 5 % of releases at most."""
    far = np.repeat(np.arange(10, 0, -1), 2) / 12.0
    truth = (far - 1e-6 * (np.arange(20) % 2)) * np.where(np.arange(20) % 3 == 0, -1, 1)
    law, wrong, cut = NoiseLaw("gaussian", 0.004 * (1000 if noisy else 1), 20 + noisy), 0, 0
    if noisy:
        made = list(counted(truth, np.full(20, 0.025), law, 1000, 300))
    else:
        made = [
            ShapValuesResult(
                features=tuple(f"x{i}" for i in range(20)), values=truth + drawn, used=(True,) * 20, law=law, radius=1.0,
                centre=0.025, count=1.0, noisy_count=False,
            )
            for drawn in law.draws(300, seed=12)
        ]  # fmt: skip
    for found in made:
        tier = {int(name[1:]): number for number, names in enumerate(found.tiers()) for name in names}
        wrong += any(tier[i] > tier[i + 1] for i in range(0, 20, 2))
        cut += len(found.tiers()) >= 10
    assert wrong / 300 <= 0.05 and cut / 300 > 0.5


@pytest.mark.parametrize(("kind", "total", "count"), [("laplace", 1.5, 3.0), ("gaussian", 3.0, 3.0)])
def test_curves_cover_where_few_people_are(kind, total, count):
    rng = np.random.default_rng(3)
    for mean in (0.1, 0.95):
        for people in (5, 10, 15, 30):
            drawn = (rng.laplace if kind == "laplace" else rng.normal)(size=(1500, 2))
            counts = people + drawn[:, 1] * count
            y = np.clip(np.where(counts >= 1, (people * mean + drawn[:, 0] * total) / np.maximum(counts, 1), 0), -1, 1)
            curve = ShapDependenceResult(
                feature="a", x=tuple(range(1500)), y=y, counts=counts, sum_law=NoiseLaw(kind, total, 8),
                count_law=NoiseLaw(kind, count, 8), cap=1.0, categorical=False,
            )  # fmt: skip
            lower, upper = curve.interval()
            assert np.mean((lower <= mean) & (mean <= upper)) >= 0.935


def test_pictures_need_released_numbers_only():
    plt = pytest.importorskip("matplotlib.pyplot")
    account = session(table(100), epsilon=50.0)
    found = account.release(ShapValues(MODEL, RECORD, efficient=True, label="case 7"), epsilon=5.0)
    ax = found.waterfall(most=2)
    assert "2 others" in [t.get_text() for t in ax.get_yticklabels()] and "case 7" in ax.get_xlabel()
    assert len(found.plot().patches) == 4
    found = account.release(ShapValues(MODEL, RECORD), epsilon=5.0)
    assert "one after the other" in found.waterfall().get_xlabel()
    for options in ({"how": "picks"}, {"how": "picks", "magnitudes": True}, {"how": "values"}):
        ranked = account.release(ShapRanking(MODEL, RECORD, k=3, **options), epsilon=2.0)
        ax = ranked.plot()
        assert [t.get_text()[:2] for t in ax.get_yticklabels()] == ["1.", "2.", "3."]
        assert ("error bars" in ax.get_title(loc="right")) == (ranked.magnitudes is not None)
    plt.close("all")


def test_categories_and_missing_values_have_cells(schema, people):
    """A feature with categories, one with a missing value of its own, and one with few whole numbers."""
    model = pel.Model(
        lambda d: (d["age"] - 17) / 200 + 0.3 * (d["sex"] == "M") + 0.1 * d["lab"].isna() + 0.02 * d["children"],
        output=(0, 1),
        features=["age", "sex", "lab", "children"],
        trained_on="other data",
    )  # fmt: skip
    public = make_people(2, seed=5)[["age", "sex", "lab", "children"]].assign(sex="F", lab=1.0)
    for name, labels in (("sex", ("F", "M")), ("children", tuple(range(7)))):
        curve = quietly(ShapDependence(model, name, public_background=public, cap="range"), people.iloc[:500], schema=schema)
        assert curve.x == labels
    np.testing.assert_allclose(curve.counts, np.bincount(people["children"][:500], minlength=7), atol=1e-6)
    curve = quietly(ShapDependence(model, "lab", public_background=public, cap="range"), people.iloc[:500], schema=schema)
    assert curve.x[-1] == "missing" and curve.y[-1] == pytest.approx(0.1, abs=1e-6) and curve.categorical
    assert curve.counts[-1] == pytest.approx(people["lab"][:500].isna().sum())


def test_bars_of_the_values_that_noise_put_first_hold(seeded):
    """Twelve features alike: those that come first have the most noise, and the bars of all features miss too often."""
    names = [f"x{i}" for i in range(12)]
    wide = pel.Schema({name: pel.Number(0, 1) for name in names})
    alike = pel.Model(lambda d: sum(d[name] for name in names) / 12, output=(0, 1), features=names, trained_on="other data")
    people = pd.DataFrame(np.full((60, 12), 0.5), columns=names)
    session = pel.Session(people, wide, budget=pel.Budget(epsilon=1.0))
    explainer = ShapRanking(alike, dict.fromkeys(names, 0.5), k=2, how="values", permutations=2)
    plan, totals = session.plan(explainer, epsilon=0.5), Kept(session._engine.totals)
    held, plain = [], []
    for _ in range(300):
        found = explainer.run(Ask(totals, plan))
        held.append(np.all([found.interval()[0] <= 0, found.interval()[1] >= 0], axis=0))
        lower, upper = found.magnitudes.interval()
        plain.append([lower[found.features.index(name)] <= 0 <= upper[found.features.index(name)] for name in found.picked])
    assert 0.92 < np.mean(held) < 0.99 and np.mean(plain) < 0.85
