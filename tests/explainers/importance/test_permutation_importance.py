"""Permutation importance against brute force and scikit-learn without noise; caps, tiers, repeats and error bars with it."""

import dataclasses
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from checks import noise
from sklearn.ensemble import RandomForestRegressor
from sklearn.inspection import permutation_importance
from sklearn.linear_model import LogisticRegression
from sources import Chosen, Seeded, Silent

import pellucid as pel
from pellucid.explainers.importance.losses import SURE, Loss
from pellucid.explainers.importance.results import Importance
from pellucid.mechanisms import NoiseLaw
from pellucid.mechanisms import labels as secret

SCHEMA = pel.Schema(
    {
        "a": pel.Number(0, 1),
        "b": pel.Number(0, 1),
        "c": pel.Number(0, 9, integer=True),
        "y": pel.Number(0, 1),
        "sick": pel.Category(["no", "yes"]),
    }
)


def table(rows=400, seed=7):  # another seed than the test sources have: labels would follow the data
    rng = np.random.default_rng(seed)
    data = pd.DataFrame({"a": rng.random(rows), "b": rng.random(rows), "c": rng.integers(0, 10, rows)})
    data["y"] = np.clip(0.7 * data["a"] + 0.2 * data["b"] + 0.05 * rng.normal(size=rows), 0, 1)
    data["sick"] = np.where(data["y"] > 0.5, "yes", "no")
    return data


def answer(d):
    return 0.7 * d["a"] + 0.2 * d["b"]


MODEL = pel.Model(answer, output=(0, 1), features=["a", "b", "c"], trained_on="other data")
WIDE = pel.Schema({**SCHEMA, "y": pel.Number(-100, 100)})
WIDE_MODEL = pel.Model(answer, output=(-100, 100), features=["a", "b", "c"], trained_on="other data")


def session(data, epsilon=10.0, delta=0.0, relation="replace", schema=SCHEMA, **options):
    return pel.Session(data, schema, budget=pel.Budget(epsilon=epsilon, delta=delta), neighbors=relation, **options)


def brute_force(data, loss, donors, truth):
    base = loss(truth, answer(data)).mean()
    permuted = [loss(truth, answer(data.assign(**{name: data[name].to_numpy()[donors]}))).mean() for name in "abc"]
    return base, np.array(permuted)


@pytest.mark.parametrize("relation", ["replace", "add-remove"])
@pytest.mark.parametrize(
    ("name", "loss"),
    [
        ("squared", lambda t, a: (t - a) ** 2),
        ("absolute", lambda t, a: abs(t - a)),
        ("0-1", lambda t, a: ((t > 0.5) != (a > 0.5)).astype(float)),
    ],
)
def test_without_noise_it_is_the_textbook_formula(relation, name, loss, silent, monkeypatch):
    data = table()
    order = np.random.default_rng(1).permutation(len(data))
    labels = np.argsort(order).astype(np.uint64)  # position of every record in the secret order
    monkeypatch.setattr(secret, "fresh", lambda: Chosen(labels))
    donors = np.empty(len(data), dtype=int)
    donors[order] = np.roll(order, -1)
    found = session(data, relation=relation).release(
        pel.PermutationImportance(MODEL, "y", loss=name, cap="range", repeats=1), share=1
    )
    base, permuted = brute_force(data, loss, donors, data["y"])
    assert found.base == pytest.approx(base, abs=1e-7)
    np.testing.assert_allclose(found.permuted, permuted, atol=1e-7)
    np.testing.assert_allclose(found.values, permuted - base, atol=1e-7)
    np.testing.assert_allclose(found.ratios, permuted / base, rtol=1e-5)
    assert found.ranking == ("a", "b", "c") and found.values[2] == pytest.approx(0, abs=1e-7)


def test_many_repeats_agree_with_scikit_learn(silent):
    data = table(600)
    forest = RandomForestRegressor(30, max_depth=5, random_state=0).fit(data[["a", "b", "c"]], data["y"])
    model = pel.Model(forest, output=(0, 1), trained_on="this data")
    found = session(data).release(pel.PermutationImportance(model, "y", cap="range", repeats=20), share=1)
    theirs = permutation_importance(
        forest, data[["a", "b", "c"]], data["y"], n_repeats=20, random_state=0, scoring="neg_mean_squared_error"
    )
    spread = theirs.importances_std.max()
    np.testing.assert_allclose(found.values, theirs.importances_mean, atol=2 * spread)
    assert found.certificate.status == "not private"


def test_log_loss_of_a_category(silent):
    data = table(300)
    found = session(data).release(pel.PermutationImportance(MODEL, "sick", loss="log", cap="range"), share=1)
    p = np.clip(answer(data), SURE, 1 - SURE)
    sick = data["sick"] == "yes"
    assert found.base == pytest.approx(-np.where(sick, np.log(p), np.log(1 - p)).mean(), abs=1e-6)


def test_a_cap_is_chosen_near_the_quantile_and_losses_stop_there(silent):
    data = table(2000)
    found = session(data, schema=WIDE).release(pel.PermutationImportance(WIDE_MODEL, "y"), share=1)
    rng = np.random.default_rng(0)
    strangers = (data["y"].to_numpy() - answer(data).to_numpy()[rng.permutation(len(data))]) ** 2
    choice = pel.PermutationImportance(WIDE_MODEL, "y").plan(_public(2000, 10, WIDE)).details.choice
    q = float(choice.stage.query.score.q)
    assert q > 0.9 and (strangers <= found.cap / 2**0.5).mean() < q + 0.02 < (strangers <= found.cap * 2**0.5).mean() + 0.04
    assert (found.permuted <= found.cap).all()
    by_hand = session(data, schema=WIDE).release(pel.PermutationImportance(WIDE_MODEL, "y", cap=found.cap, repeats=5), share=1)
    np.testing.assert_allclose(by_hand.permuted, found.permuted, rtol=0.1)


def test_a_private_cap_makes_the_noise_smaller():
    """A wide declared range and small losses: what the cap is for.

    Bars become a thousand times shorter with a chance of .74, found in 120 releases with other seeds; the others choose a cap
    that is too large. With .74, fewer than 20 of 40 have a chance of .0003.
    """
    shorter = 0
    for seed in range(40):
        with noise(Seeded(seed)):
            found, plain = (
                session(table(3000), 5.0, schema=WIDE).release(pel.PermutationImportance(WIDE_MODEL, "y", cap=cap), share=1)
                for cap in (None, "range")
            )
        widths = [np.ptp(e.interval(), axis=0).max() for e in (found, plain)]
        shorter += widths[0] < widths[1] / 1000
    assert shorter >= 20
    assert [c["stage"] for c in found.certificate.charges] == ["cap", "losses", "moved"]


@pytest.mark.parametrize("ranking", [False, True])
@pytest.mark.parametrize("rows", [40, 300, 3000])
def test_caps_do_not_collapse(rows, ranking):
    """A cap far below all losses made importances of 0.19 come out as 1e-8 ± 1e-9: with few records there is no choice."""
    explainer, low = pel.PermutationImportance(WIDE_MODEL, "y", ranking=ranking), 0
    for epsilon in (0.1, 1.0):
        plan = session(table(rows), schema=WIDE).plan(explainer, epsilon=epsilon)
        if rows * epsilon < 100:
            assert "cap" not in plan.shares and plan.details.cap == 200.0**2
        elif rows == 3000 and epsilon == 1:
            assert "cap" in plan.shares
        for _ in range(15):
            low += session(table(rows), epsilon, schema=WIDE).release(explainer, share=1).cap < 1e-4
    assert low <= 3


@pytest.mark.parametrize("ranking", [False, True])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_bars_and_tiers_hold_without_noise_caps_and_chance(ranking, delta):
    """The named quantity: over all shuffles, uncapped. A given cap here cuts a third of the losses; noise alone would not do."""
    data, rng = table(1200), np.random.default_rng(1)
    y, base = data["y"].to_numpy(), (data["y"] - answer(data)).to_numpy() ** 2
    truth = []
    for name in "abc":
        moved = [(y - answer(data.assign(**{name: data[name].to_numpy()[rng.permutation(1200)]}))) ** 2 - base for _ in range(40)]
        truth.append(float(np.mean(moved)))
    explainer = pel.PermutationImportance(MODEL, "y", cap=0.05, ranking=ranking)
    inside, blind, wrong = [], [], 0
    for _ in range(30):
        found = session(data, 3.0, delta).release(explainer, share=1)
        lower, upper = found.interval()
        inside.append((lower <= truth) & (truth <= upper))
        lower, upper = dataclasses.replace(found, hidden=None, hidden_worth=None, chance=None).interval()
        blind.append((lower <= truth) & (truth <= upper))
        place = [number for name in "abc" for number, tier in enumerate(found.tiers()) if name in tier]
        wrong += place != sorted(place)
    assert np.mean(inside) >= 0.92 and np.mean(blind) < 0.8 and wrong <= 3


def test_shuffles_are_part_of_the_bars():
    """Hardly any noise, few shuffles: releases differ by whom people got their values from."""
    data, rng = table(300), np.random.default_rng(1)
    y, base, column = data["y"].to_numpy(), (data["y"] - answer(data)).to_numpy() ** 2, data["a"].to_numpy()
    moved = [(y - answer(data.assign(a=column[rng.permutation(300)]))) ** 2 - base for _ in range(300)]
    explainer, inside = pel.PermutationImportance(MODEL, "y", cap="range", repeats=1), []
    for _ in range(60):
        lower, upper = session(data, 1000.0).release(explainer, share=1).interval()
        inside.append(lower[0] <= np.mean(moved) <= upper[0])
    assert np.mean(inside) >= 0.88


def test_ranking_alone_asks_for_less():
    only = pel.PermutationImportance(MODEL, "y", ranking=True)
    released = session(table()).release(only, epsilon=1.0)
    assert released.base is None and released.permuted is None and np.isnan(released.ratios).all()


@pytest.mark.parametrize("relation", ["replace", "add-remove"])
def test_a_ranking_without_noise_is_the_mean_increase(relation, silent, monkeypatch):
    data = table(401)
    order = np.random.default_rng(1).permutation(len(data))
    labels = np.argsort(order).astype(np.uint64)
    monkeypatch.setattr(secret, "fresh", lambda: Chosen(labels))
    donors = np.arange(len(data))
    if relation == "replace":
        first, second = order[0:400:2], order[1:400:2]
        donors[first], donors[second] = second, first
    else:
        donors[order] = np.roll(order, -1)
    explainer = pel.PermutationImportance(MODEL, "y", ranking=True, cap="range", repeats=1)
    found = session(data, relation=relation).release(explainer, share=1)
    truth = data["y"]
    grown = [
        (truth - answer(data.assign(**{name: data[name].to_numpy()[donors]}))) ** 2 - (truth - answer(data)) ** 2
        for name in "abc"
    ]
    if relation == "replace":
        couples = [np.array([(g.iloc[i] + g.iloc[j]) / 2 for i, j in zip(first, second)]) for g in grown]
        expected = [np.clip(c, -0.25, 1).mean() for c in couples]
    else:
        expected = [np.clip(g, -0.25, 1).mean() for g in grown]
    np.testing.assert_allclose(found.values, expected, atol=1e-7)
    assert found.ranking == ("a", "b", "c")


def test_a_ranking_is_more_certain_than_the_differences():
    """By noise: what a cap hides is another matter, and rankings have the lower one."""
    account, gaps = session(table(3000), epsilon=20.0), []
    for ranking in (False, True):
        found = [
            account.release(pel.PermutationImportance(MODEL, "y", ranking=ranking), epsilon=1.0, fresh=True) for _ in range(5)
        ]
        gaps.append(np.median([dataclasses.replace(one, hidden=None).certain_gap() for one in found]))
    assert gaps[1] < gaps[0]


def test_groups_are_shuffled_together(silent):
    found = session(table()).release(pel.PermutationImportance(MODEL, "y", features=[("a", "b"), "c"], cap="range"), share=1)
    alone = session(table()).release(pel.PermutationImportance(MODEL, "y", cap="range"), share=1)
    assert found.features == ("a + b", "c") and found.values[0] > alone.values.max()


def test_tiers_end_where_the_order_is_sure():
    """With probability 95 %, all names of a tier belong before all names of the next; inside a tier they need not."""
    truth, wrong, cut = np.array([0.5, 0.49, 0.3, 0.28, 0.1]), 0, 0
    names = tuple("abcde")
    law = NoiseLaw("k-norm", 0.01, 5)
    for draw in law.draws(2000, seed=5):
        found = Importance(
            features=names, values=truth + draw, permuted=truth, base=0.0, loss="squared", low=0.0, cap=2.0, law=law, weight=2,
            count=1.0,            noisy_count=False,
        )  # fmt: skip
        tiers = found.tiers()
        place = {name: number for number, tier in enumerate(tiers) for name in tier}
        wrong += any(place[a] > place[b] for a, b in zip(names, names[1:]))
        cut += len(tiers) > 1
    assert wrong / 2000 <= 0.05 and cut / 2000 > 0.5
    sure = found.tiers(0.5)
    assert len(sure) >= len(found.tiers(0.999)) and [n for tier in sure for n in tier] == list(found.ranking)


@pytest.mark.parametrize("relation", ["replace", "add-remove"])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("ranking", [False, True])
def test_error_bars_cover(relation, delta, ranking):
    """Of the values without noise (the same pairs), 95 % lie inside what is due to noise; with half the width far fewer."""
    data = table(1500)
    explainer = pel.PermutationImportance(MODEL, "y", cap=0.2, ranking=ranking, repeats=1)
    with pytest.MonkeyPatch.context() as patch:
        labels = np.random.default_rng(3).permutation(len(data)).astype(np.uint64)
        patch.setattr(secret, "fresh", lambda: Chosen(labels))
        account = session(data, epsilon=1.0, delta=delta, relation=relation, expected_rows=1500)
        with noise(Silent()):
            exact = account.release(explainer, share="0.0001", fresh=True).values
        inside, narrow = [], []
        with noise(Seeded(4)):
            for _ in range(60):
                found = session(data, epsilon=1.0, delta=delta, relation=relation).release(explainer, share=1)
                found = dataclasses.replace(found, hidden=None, hidden_worth=None, chance=None)
                for width, kept in ((1.0, inside), (0.5, narrow)):
                    lower, upper = found.interval()
                    middle, half = (lower + upper) / 2, (upper - lower) / 2 * width
                    kept.append(np.abs(exact - middle) <= half)
    assert 0.90 <= np.mean(inside) <= 0.985 and np.mean(narrow) < 0.85


@pytest.mark.parametrize("unit", [pel.Unit("id", max_rows=2), pel.Unit(max_rows=2)])
@pytest.mark.parametrize("relation", ["replace", "add-remove"])
def test_people_with_several_rows(unit, relation, silent):
    data = pd.concat([table(300), table(300)], ignore_index=True)
    data["id"] = [*range(300), *range(300)]
    found = session(data, unit=unit, relation=relation).release(
        pel.PermutationImportance(MODEL, "y", cap="range", repeats=3), share=1
    )
    once = session(table(300)).release(pel.PermutationImportance(MODEL, "y", cap="range", repeats=10), share=1)
    np.testing.assert_allclose(found.values, once.values, atol=0.02)


def test_an_empty_table_says_nothing():
    empty = session(table().iloc[:0], relation="add-remove", epsilon=1.0)
    found = empty.release(pel.PermutationImportance(MODEL, "y"), share=1)
    assert np.isfinite(found.values).all() and len(found.tiers()) >= 1


def test_repeats_follow_from_public_numbers():
    explainer = pel.PermutationImportance(MODEL, "y")
    few = session(table(100)).preview(explainer, epsilon=0.1)
    assert few.largest_error > 0
    turns = [explainer.turns(_public(rows, epsilon)) for rows, epsilon in ((100, 1), (10_000, 1), (10**6, 1), (10**6, 10))]
    assert turns == sorted(turns) and turns[0] == 1 and turns[-1] == 5


def _public(rows, epsilon, schema=SCHEMA):
    from pellucid.mechanisms import Spend
    from pellucid.release.plan import Public

    return Public(schema, "replace", pel.Unit(), Spend("epsilon", Fraction(epsilon)), rows)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"target": "z"}, "not a column"),
        ({"target": "a"}, "own target"),
        ({"loss": "hinge"}, "use 'squared'"),
        ({"features": ["y"]}, "does not use"),
        ({"features": "a"}, "list of column names"),
        ({"features": ["a", ("a", "b")]}, "named twice"),
        ({"features": []}, "column names"),
        ({"cap": 2.0}, "largest squared loss"),
        ({"cap": "median"}, "cap="),
        ({"repeats": 0}, "repeats"),
        ({"positive": "yes"}, "holds numbers"),
        ({"target": "sick", "positive": "maybe"}, "Say positive="),
        ({"model": answer}, "wrap it"),
        ({"features": 5}, "column names"),
        ({"features": [1]}, "column names"),
        ({"target": ["y"]}, "name of a column"),
        ({"cap": np.array([1.0, 2.0])}, "cap="),
        ({"cap": float("nan")}, "cap="),
        ({"cap": 1e-300}, "unit"),
    ],
)
def test_bad_requests_are_refused_before_payment(change, match):
    account = session(table())
    with pytest.raises(pel.PlanError, match=match):
        account.release(pel.PermutationImportance(**{"model": MODEL, "target": "y", **change}), epsilon=1.0)
    assert float(account.spent) == 0


def test_log_loss_needs_probabilities():
    with pytest.raises(pel.PlanError, match="probability"):
        pel.PermutationImportance(pel.Model(answer, output=(0, 2), features=["a"], trained_on="other data"), "y", loss="log")


def test_a_target_without_a_value_speaks_for_no_feature():
    for name in ("squared", "absolute", "log", "0-1"):
        loss = Loss(name, 0.0, 1.0)
        assert np.isnan(loss(np.array([np.nan, 1.0]), np.array([0.3, 0.3]))).tolist() == [True, False]
        assert 0 <= loss(np.array([1.0]), np.array([0.0]))[0] <= loss.top


def test_the_positive_value_is_the_one_the_model_answers_for():
    data = table(200)
    classifier = LogisticRegression().fit(data[["a", "b"]], data["sick"])
    model = pel.Model(classifier, trained_on="other data", positive="no")
    found = session(data)
    for wrong in ("typo", "yes"):
        with pytest.raises(pel.PlanError, match="positive="):
            found.release(pel.PermutationImportance(model, "sick", positive=wrong), epsilon=1.0)
    assert pel.PermutationImportance(model, "sick").truth(SCHEMA).category == 0
    assert pel.PermutationImportance(MODEL, "sick").truth(SCHEMA).category == 1


def test_settings_of_numpy_and_wide_models():
    explainer = pel.PermutationImportance(MODEL, "y", repeats=np.int64(2), ranking=np.bool_(True), cap=np.float64(0.5))
    assert session(table(100)).release(explainer, epsilon=1.0).features == ("a", "b", "c")
    huge = pel.Model(answer, output=(-1e300, 1e300), features=["a"], trained_on="other data")
    with pytest.raises(pel.PlanError, match="floats"):
        pel.PermutationImportance(huge, "y")
    assert pel.PermutationImportance(huge, "y", loss="0-1")._loss.top == 1.0


def test_previews_of_rankings_foresee_the_noise_of_the_count():
    account = session(table(100), relation="add-remove", expected_rows=100, epsilon=400.0)
    explainer = pel.PermutationImportance(MODEL, "y", ranking=True, cap="range")
    found = [account.release(explainer, epsilon=2.0, fresh=True) for _ in range(30)]
    # Shuffles, and what is clipped of decreases, come on top.
    found = [dataclasses.replace(one, hidden=None, hidden_worth=None, chance=None) for one in found]
    seen = np.median([np.ptp(one.interval(), axis=0).max() / 2 for one in found])
    assert account.preview(explainer, epsilon=2.0).largest_error == pytest.approx(seen, rel=0.1)


def test_certificates_name_what_a_joint_release_rests_on():
    found = session(table()).release(pel.PermutationImportance(MODEL, "y"), epsilon=5.0).certificate
    cap, losses, moved = found.charges
    assert {"pairs", "box-sum"} <= set(moved["claims"])
    assert {"joint-sum", "pairs", "box-sum"} <= set(losses["claims"]) and {"pairs", "quantile-span"} <= set(cap["claims"])
    assert "pairs: 2 replaced" in cap["sensitivity"]


def test_tables_have_the_order_and_the_tiers():
    found = session(table(3000)).release(pel.PermutationImportance(MODEL, "y"), epsilon=10.0)
    rows = found.to_frame()
    assert list(rows) == ["feature", "value", "lower", "upper", "tier", "uncounted", "uncounted lower", "uncounted upper"]
    assert tuple(rows["feature"]) == found.ranking and rows["value"].is_monotonic_decreasing
    assert (rows["lower"] <= rows["value"]).all() and (rows["value"] <= rows["upper"]).all()
    assert [list(rows["feature"][rows["tier"] == i]) for i in rows["tier"].unique()] == [list(tier) for tier in found.tiers()]


def test_settings_are_given_by_keyword():
    with pytest.warns(DeprecationWarning, match="loss=, features= by keyword"):
        given = pel.PermutationImportance(MODEL, "y", "absolute", ["a"])
    assert given == pel.PermutationImportance(MODEL, "y", loss="absolute", features=["a"])


def with_gaps(data, seed=3):
    """Some of the targets are missing, unreadable or not declared."""
    rng, data = np.random.default_rng(seed), data.astype({"y": object, "sick": object})
    data.loc[rng.random(len(data)) < 0.2, "y"] = None
    data.loc[rng.random(len(data)) < 0.2, "y"] = "0,5"
    data.loc[rng.random(len(data)) < 0.3, "sick"] = "YES"
    return data


@pytest.mark.parametrize("relation", ["replace", "add-remove"])
@pytest.mark.parametrize("target", ["y", "sick"])
@pytest.mark.parametrize("ranking", [False, True])
def test_records_without_a_target_have_no_loss(relation, target, ranking, silent, monkeypatch):
    """Without noise: the means are over records with a target, who receive from everybody."""
    data = with_gaps(table(400))
    monkeypatch.setattr(secret, "fresh", lambda: Chosen(np.arange(1500)))
    explainer = pel.PermutationImportance(MODEL, target, cap="range", repeats=1, ranking=ranking)
    found = session(data, relation=relation, expected_rows=400).release(explainer, epsilon=1.0)
    truth = pd.to_numeric(data["y"], errors="coerce") if target == "y" else data["sick"].map({"yes": 1.0, "no": 0.0})
    couples = ranking and relation == "replace"
    partner = np.arange(400) ^ 1 if couples else np.r_[1:400, 0]
    known = truth.notna().to_numpy()
    base = ((truth - answer(data)) ** 2)[known]
    permuted = [((truth - answer(data.assign(**{n: data[n].to_numpy()[partner]}))) ** 2)[known] for n in "abc"]
    # In a ranking a loss that falls by more than a quarter of the cap counts as falling by that.
    grown = np.array([np.maximum(p - base, -0.25).mean() if ranking and not couples else (p - base).mean() for p in permuted])
    np.testing.assert_allclose(found.values, grown, atol=1e-6)
    assert found.base is None or found.base == pytest.approx(base.mean())
    assert found.uncounted.count == pytest.approx((~known).sum()) and found.uncounted.of == pytest.approx(400)
    assert found.count == pytest.approx(known.sum() / (2 if couples else 1)) and found.noisy_count


def test_a_cap_is_that_of_records_with_a_target(silent):
    """Nine in ten have no target: were they counted, at whatever loss, the cap would be theirs."""
    data = table(2000).astype({"y": object})
    data.loc[200:, "y"] = None
    caps = [session(d).release(pel.PermutationImportance(MODEL, "y"), epsilon=1.0).cap for d in (data, data.iloc[:200])]
    assert 0.25 <= caps[0] / caps[1] <= 4


@pytest.mark.parametrize("ranking", [False, True])
def test_error_bars_hold_without_some_targets(ranking, monkeypatch):
    """With the same partners in every release, so that bars are about noise alone."""
    monkeypatch.setattr(secret, "fresh", lambda: Chosen(np.arange(1500)))
    data = with_gaps(table(1500))
    explainer = pel.PermutationImportance(MODEL, "y", cap=0.5, repeats=1, ranking=ranking)
    with noise(Silent()):
        exact = session(data).release(explainer, epsilon=1.0).values
    inside = []
    for _ in range(100):
        found = session(data).release(explainer, epsilon=0.2)
        lower, upper = dataclasses.replace(found, hidden=None, hidden_worth=None, chance=None).interval(0.9)
        inside.append((lower <= exact) & (exact <= upper))
    assert 0.84 <= np.mean(inside) <= 0.96


def test_a_preview_says_what_a_given_cap_does_to_bars(seeded):
    """Far below the largest loss it makes noise small and bars long: nobody knows what lies beyond."""
    opened = session(table(4000), schema=WIDE)
    asked = pel.PermutationImportance(WIDE_MODEL, "y", cap=50.0)
    seen = opened.preview(asked, epsilon=1.0)
    said = next(note for note in seen.notes if "beyond the cap" in note)
    frame = opened.release(asked, epsilon=1.0).to_frame()
    half, reach = float((frame["upper"] - frame["lower"]).mean() / 2), float(said.split("±")[1].split(";")[0])
    assert half > 10 * seen.error.max() and half / 3 < reach < 3 * half
    assert not any("verdict" in note for note in seen.notes)
    for cap in (None, "range"):
        notes = opened.preview(pel.PermutationImportance(WIDE_MODEL, "y", cap=cap), epsilon=1.0).notes
        assert not any("beyond the cap" in note or "verdict" in note for note in notes)
