"""Explaining clusters end to end: against hand counts without noise, odd shapes, safety of what is released."""

import json
import pickle
import re

import matplotlib
import numpy as np
import pandas as pd
import pytest
from sklearn.cluster import KMeans
from sources import Seeded

import pellucid as pel
from pellucid.explainers.clusters.results import reconcile
from pellucid.mechanisms import source

matplotlib.use("Agg")

SCHEMA = pel.Schema(
    {
        "age": pel.Number(0, 99, integer=True),
        "income": pel.Number(0, 100),
        "town": pel.Category(["north", "south", "west"]),
        "grade": pel.Category(["low", "mid", "high"], ordered=True),
        "noise": pel.Category(list("abcd")),
        "lab": pel.Number(0, 5, missing=float("nan")),
    }
)


def rule(frame):
    return np.where(frame["age"] >= 60, 2, np.where(frame["town"] == "south", 1, 0))


def people(size=6000, seed=0):
    rng = np.random.default_rng(seed)
    age, town = rng.integers(0, 100, size), rng.choice(["north", "south", "west"], size)
    return pd.DataFrame(
        {
            "age": age,
            "income": np.clip(age + rng.normal(0, 10, size), 0, 100),
            "town": town,
            "grade": rng.choice(["low", "mid", "high"], size),
            "noise": rng.choice(list("abcd"), size),
            "lab": np.where(rng.random(size) < 0.2, np.nan, rng.uniform(0, 5, size)),
        }
    )


def groups(clusters=range(3), predictor=rule, features=("age", "town")):
    return pel.Clustering(predictor, clusters=clusters, features=list(features), trained_on="other data")


def release(explainer, data=None, epsilon=4.0, **options):
    session = pel.Session(people() if data is None else data, SCHEMA, budget=pel.Budget(epsilon=100.0), **options)
    return session.release(explainer, epsilon=epsilon)


@pytest.mark.parametrize("neighbors", ["replace", "add-remove"])
@pytest.mark.parametrize("per_cluster", [1, 2])
def test_histograms_without_noise_are_the_counts(silent, neighbors, per_cluster):
    data = people()
    made = release(pel.ClusterHistograms(groups(), per_cluster=per_cluster), data, neighbors=neighbors)
    label = rule(data)
    assert set(made.attributes) == {0, 1, 2} and all(len(set(names)) == per_cluster for names in made.attributes.values())
    for c, histograms in made.histograms.items():
        for name, histogram in histograms.items():
            if name in ("town", "grade", "noise"):
                wanted = [((label == c) & (data[name] == v)).sum() for v in SCHEMA[name].values]
                others = [((label != c) & (data[name] == v)).sum() for v in SCHEMA[name].values]
                np.testing.assert_allclose(histogram.inside, wanted, atol=1e-6)
                np.testing.assert_allclose(histogram.rest, others, atol=1e-6)
            np.testing.assert_allclose(histogram.inside.sum(), (label == c).sum(), atol=1e-6)
            np.testing.assert_allclose((histogram.inside + histogram.rest).sum(), len(data), atol=1e-6)


@pytest.mark.parametrize("method", ["joint", "two-stage"])
def test_the_telling_attributes_are_found(method):
    made = release(pel.ClusterHistograms(groups(), method=method), epsilon=4.0)
    assert made.attributes[1] == ["town"] and made.attributes[2][0] in ("age", "income")
    assert "town = south" in made.text and "against" in made.text


@pytest.mark.parametrize("budget", [pel.Budget(epsilon=2.0), pel.Budget(epsilon=2.0, delta=1e-6, accounting="zcdp")])
@pytest.mark.parametrize("neighbors", ["replace", "add-remove"])
@pytest.mark.parametrize("method", ["joint", "two-stage"])
def test_charges_and_certificate(budget, neighbors, method):
    session = pel.Session(people(500), SCHEMA, budget=budget, neighbors=neighbors, expected_rows=500)
    made = session.release(pel.ClusterHistograms(groups(), method=method), share=0.5)
    charges = made.certificate.charges
    assert [c["stage"] for c in charges] == [*(["candidates"] if method == "two-stage" else []), "choice", "inside", "whole"]
    assert sum(c["amount"] for c in charges) == pytest.approx(float(session.spent))
    assert float(session.spent) == pytest.approx(float(session.whole) / 2)
    assert made.certificate.status == "proved for row-wise models"
    assert "declared clusters" in json.dumps(made.certificate.to_dict())
    assert session.preview(pel.ClusterHistograms(groups(), method=method), share=0.1).notes


def test_two_histograms_never_share_noise(monkeypatch):
    """Identical clusters with identical attributes: equal counts come out different, in every pair of histograms."""
    monkeypatch.setattr(source, "current", Seeded(3))
    same = pd.concat([people(300)] * 2, ignore_index=True).assign(age=[10] * 300 + [90] * 300)
    halves = groups(range(2), lambda d: (d["age"] > 50).astype(int), ["age"])
    made = release(pel.ClusterHistograms(halves, attributes=["noise"]), same, epsilon=1.0)
    first, second = (made.histograms[c]["noise"].noisy_inside for c in (0, 1))
    assert np.abs(first - second).min() > 1e-6
    assert np.unique(np.round(np.concatenate([first, second]), 6)).size == 8


def test_values_that_nobody_has_and_values_outside_the_domain_do_not_change_the_shape():
    odd = people(400).assign(town="nowhere", grade="low", noise="a").astype(object)
    odd.loc[0, "age"] = "old"
    explainer = pel.ClusterHistograms(groups(), attributes=["town"])
    for data in (people(400), odd, odd.iloc[:1]):
        made = release(explainer, data, epsilon=0.5)
        assert [h["town"].x for h in made.histograms.values()] == [("north", "south", "west")] * 3


def test_odd_shapes():
    """Empty clusters, more clusters than attributes, one attribute, many labels: they work."""
    never = groups(range(7))
    assert len(release(pel.ClusterHistograms(never)).attributes) == 7
    chosen = release(pel.ClusterHistograms(never, attributes="town")).attributes
    assert all(names == ["town"] for names in chosen.values())
    nobody = groups(range(2), lambda d: np.zeros(len(d), dtype=int), ["age"])
    empty = release(pel.ClusterHistograms(nobody, attributes=["noise"]), people(200), epsilon=0.3)
    assert empty.text.count("\n") == 2 and empty.text.endswith(empty.verdict)
    named = groups(["young", "old"], lambda d: np.where(d["age"] > 50, "old", "young"), ["age"])
    assert set(release(pel.ClusterHistograms(named)).attributes) == {"young", "old"}


@pytest.mark.parametrize(
    "weights", [{"interest": 1}, {"sufficiency": 1.0}, {"diversity": 1}, {"interest": 0.5, "diversity": 0.5}]
)
def test_any_weights_that_add_up(weights):
    assert len(release(pel.ClusterHistograms(groups(), weights=weights), people(500)).attributes) == 3


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"per_cluster": 7}, "attributes to choose from"),
        ({"per_cluster": 0}, "per_cluster"),
        ({"per_cluster": None}, "per_cluster"),
        ({"weights": {"interest": 0.4}}, "add up to 1"),
        ({"weights": {"beauty": 1}}, "beauty"),
        ({"weights": {"interest": -1, "diversity": 2}}, "at least 0"),
        ({"attributes": ["town", "town"]}, "different column names"),
        ({"attributes": ["shoes"]}, "shoes"),
        ({"attributes": 3}, "different column names"),
        ({"attributes": [["town"]]}, "different column names"),
        ({"weights": "interest"}, "by name"),
        ({"split": [0.5, 0.5]}, "by name"),
        ({"bins": 0.5}, "whole number"),
        ({"bins": {"age": "x"}}, "whole number"),
        ({"method": "magic"}, "magic"),
        ({"bins": {"town": 3}}, "town"),
        ({"bins": {"age": [5, 1]}}, "increase"),
        ({"bins": 0}, "bins"),
        ({"split": {"choice": 1}}, "above 0"),
        ({"split": {"choice": 0.5, "inside": 0.1, "whole": 0.1}}, "add up to 1"),
        ({"method": "two-stage", "weights": {"diversity": 1}}, "two-stage"),
    ],
)
def test_bad_requests_cost_nothing(options, said):
    session = pel.Session(people(50), SCHEMA, budget=pel.Budget(epsilon=1.0))
    with pytest.raises(pel.PellucidError, match=said):
        session.release(pel.ClusterHistograms(groups(), **options), epsilon=0.5)
    assert session.spent == 0


def test_what_is_not_a_clustering_is_refused():
    with pytest.raises(pel.PlanError, match=r"pel\.Clustering"):
        pel.ClusterHistograms(KMeans(3))
    with pytest.raises(pel.PlanError, match="one cluster"):
        pel.ClusterHistograms(groups(range(1)))


def test_saved_and_loaded_without_a_canary(tmp_path):
    data = people(300)
    data.loc[0, "income"] = 77.123456789
    made = release(pel.ClusterHistograms(groups(), per_cluster=2), data)
    made.save(tmp_path / "c.json")
    loaded = pel.load(tmp_path / "c.json")
    assert loaded.attributes == made.attributes and loaded.text == made.text
    np.testing.assert_array_equal(loaded.interval()[1], made.interval()[1])
    pd.testing.assert_frame_equal(loaded.to_frame(), made.to_frame())
    assert "77.123456789" not in made.to_json() and b"77.123456789" not in pickle.dumps(made)


def test_the_table_has_a_line_for_every_value():
    made = release(pel.ClusterHistograms(groups(), attributes=["lab", "town"], bins=2))
    table, own = made.to_frame(), made.histograms[1]["town"]
    assert list(table.columns)[:6] == ["feature", "x", "value", "lower", "upper", "cluster"]
    assert list(table.columns)[6:9] == ["rest", "share inside", "share elsewhere"]
    assert list(table.columns)[9:] == ["uncounted", "uncounted lower", "uncounted upper"]
    lines = table[(table["cluster"] == 1) & (table["feature"] == "town")]
    assert list(lines["x"]) == list(own.x)
    np.testing.assert_array_equal(lines[["value", "lower", "upper", "rest"]].T, [own.inside, *own.interval(), own.rest])


def test_settings_by_position_still_work_with_a_warning():
    made, halves = groups(), {"interest": 0.5, "sufficiency": 0.5}
    with pytest.warns(DeprecationWarning, match="weights=, attributes=, method="):
        old = pel.ClusterHistograms(made, 2, halves, ["age", "town"], "two-stage", 4, 5, None)
    new = pel.ClusterHistograms(
        made, 2, weights=halves, attributes=["age", "town"], method="two-stage", candidates=4, bins=5, split=None
    )
    assert old == new and old.describe() == new.describe()


def test_pictures():
    made = release(pel.ClusterHistograms(groups(), bins=4))
    axes = made.plot()
    assert len(axes) == 3 and any("elsewhere" in t.get_text() for t in axes[0].figure.findobj(matplotlib.text.Text))
    matplotlib.pyplot.close("all")


def test_reconciled_counts_fit_and_are_nearest():
    """None negative, clusters within everybody, and no feasible table is nearer (against a general solver)."""
    from scipy.optimize import minimize

    rng = np.random.default_rng(4)
    for trial in range(30):
        inside, whole = rng.normal(3, 5, (3, 1)), rng.normal(6, 6, 1)
        weight = float(rng.choice([0.25, 1.0, 4.0]))
        counts, everybody = reconcile(inside, whole, weight)
        assert (counts >= 0).all() and counts.sum() <= everybody[0] + 1e-9

        def distance(x, inside=inside, whole=whole, weight=weight):
            return ((x[:3] - inside[:, 0]) ** 2).sum() + weight * (x[3] - whole[0]) ** 2

        best = minimize(
            distance,
            np.array([1.0, 1.0, 1.0, 4.0]),
            bounds=[(0, None)] * 4,
            constraints=[{"type": "ineq", "fun": lambda x: x[3] - x[:3].sum()}],
            method="SLSQP",
            options={"ftol": 1e-12, "maxiter": 500},
        )
        assert distance(np.append(counts[:, 0], everybody[0])) <= best.fun + 1e-5, trial


def test_error_bars_cover(monkeypatch):
    data = people(2000)
    label = rule(data)
    session = pel.Session(data, SCHEMA, budget=pel.Budget(epsilon=1000.0))
    inside = total = 0
    for seed in range(60):
        monkeypatch.setattr(source, "current", Seeded(seed))
        made = session.release(pel.ClusterHistograms(groups(), attributes=["noise"]), epsilon=1.0, fresh=True)
        for c in range(3):
            truth = np.array([((label == c) & (data["noise"] == v)).sum() for v in "abcd"])
            lower, upper = made.histograms[c]["noise"].interval(0.9)
            inside += int(((lower <= truth) & (truth <= upper)).sum())
            total += 4
    assert 0.86 <= inside / total <= 0.94


def test_private_clustering_and_its_explanation_are_one_account():
    session = pel.Session(people(5000), SCHEMA, budget=pel.Budget(epsilon=2.0))
    centres = session.release(pel.PrivateKMeans(3, ["age", "income"]), epsilon=1.0)
    made = session.release(pel.ClusterHistograms(centres.clustering), epsilon=1.0)
    assert float(session.remaining) == pytest.approx(0)
    assert made.certificate.status == "proved" and set(made.attributes) == {0, 1, 2}
    assert pel.total([centres.certificate, made.certificate]).epsilon == pytest.approx(2.0)


def test_sentences():
    made = release(pel.ClusterHistograms(groups(), attributes=["age"], bins={"age": [0, 20, 40, 60, 80, 100]}), epsilon=50.0)
    assert "age of at least 60" in made.sentences[2][0] and "against" in made.sentences[2][0]
    ordered = pel.ClusterHistograms(
        groups(range(2), lambda d: (d["grade"] == "high").astype(int), ["grade"]), attributes=["grade"]
    )
    assert "grade = high" in release(ordered, epsilon=50.0).sentences[1][0]


@pytest.mark.parametrize("lo", [2000, -2020])
def test_missing_values_far_from_zero_do_not_raise(lo):
    """One missing cell must not decide whether a release fails."""
    schema = pel.Schema({"year": pel.Number(lo, lo + 20, integer=True, missing=float("nan")), "sex": pel.Category(["F", "M"])})
    data = {"year": [lo + 5.0] * 99 + [float("nan")], "sex": ["F", "M"] * 50}
    session = pel.Session(data, schema, budget=pel.Budget(epsilon=9))
    assert session.release(pel.Distribution("year", bins=5), epsilon=1).x[-1] == "missing"
    halves = pel.Clustering(lambda d: (d["sex"] == "F").astype(int), clusters=range(2), features=["sex"], trained_on="other data")
    session.release(pel.ClusterHistograms(halves, bins=5), epsilon=1)


def test_one_attribute_for_many_clusters_is_drawn_at_once():
    """There is one combination only: the draw ends whatever the penalties are."""
    many = groups(range(15), lambda d: d["age"] // 7, ["age"])
    big = pd.concat([people(6000)] * 5, ignore_index=True)
    made = release(pel.ClusterHistograms(many, attributes=["noise"]), big, epsilon=20.0)
    assert all(names == ["noise"] for names in made.attributes.values())


def test_an_interrupted_choice_shows_nothing(monkeypatch):
    """The frames of the error must not hold exact totals."""
    from pellucid.explainers.clusters import scores as cluster_scores

    def stop(*args):
        raise KeyboardInterrupt("secret")

    monkeypatch.setattr(cluster_scores, "choose_assignment", stop)
    with pytest.raises(KeyboardInterrupt) as caught:
        release(pel.ClusterHistograms(groups(), attributes=["noise", "town"]), people(300))
    assert "secret" not in str(caught.value) and caught.value.__context__ is None
    frame = caught.tb
    while frame is not None:
        assert "totals" not in frame.tb_frame.f_locals, frame.tb_frame.f_code.co_name
        frame = frame.tb_next


def test_clusterings_that_carry_different_values_are_different_requests():
    def above(t):
        return lambda d: (d["age"] > t).astype(int)

    data = people(500).assign(age=[20] * 250 + [50] * 250)
    session = pel.Session(data, SCHEMA, budget=pel.Budget(epsilon=100.0))
    first, second = (
        session.release(pel.ClusterHistograms(groups(range(2), above(t), ["age"]), attributes=["noise"]), epsilon=20.0)
        for t in (49.999, 50.001)
    )
    assert abs(first.histograms[1]["noise"].inside.sum() - 250) < 30 and second.histograms[1]["noise"].inside.sum() < 30


def test_a_private_clustering_keeps_its_conditions():
    counted = pel.Session(people(3000), SCHEMA, budget=pel.Budget(epsilon=9), neighbors="add-remove", unit=pel.Unit(max_rows=2))
    centres = counted.release(pel.PrivateKMeans(2, ["age", "income"]), epsilon=2.0)
    session = pel.Session(people(3000), SCHEMA, budget=pel.Budget(epsilon=9))
    made = session.release(pel.ClusterHistograms(centres.clustering), epsilon=1.0)
    assert made.certificate.status == "conditional"
    assert any("2 rows" in c for c in made.certificate.conditions) and any("add-remove" in c for c in made.certificate.conditions)


def test_sizes_beyond_reason_and_partial_edges_cost_nothing():
    session = pel.Session(people(50), SCHEMA, budget=pel.Budget(epsilon=1.0))
    with pytest.raises(pel.PlanError, match="too many to score"):
        session.release(pel.ClusterHistograms(groups(range(3000))), epsilon=0.5)
    with pytest.raises(pel.PlanError, match="cover its declared range"):
        session.release(pel.ClusterHistograms(groups(), bins={"age": [10, 20, 99]}), epsilon=0.5)
    assert session.spent == 0


def test_sentences_state_an_honest_error(monkeypatch):
    """Everybody in the cluster has the same value: the stated error covers the truth about as often as it says."""
    schema = pel.Schema({"v": pel.Category([f"c{i}" for i in range(16)]), "g": pel.Category([0, 1])})
    data = pd.DataFrame({"v": ["c0"] * 1000 + ["c1", "c2"] * 500, "g": [0] * 1000 + [1] * 1000})
    halves = pel.Clustering(lambda d: d["g"], clusters=range(2), features=["g"], trained_on="other data")
    session = pel.Session(data, schema, budget=pel.Budget(epsilon=1000.0))
    covered = 0
    for seed in range(60):
        monkeypatch.setattr(source, "current", Seeded(seed))
        made = session.release(pel.ClusterHistograms(halves, attributes=["v"]), epsilon=1.0, fresh=True)
        low, high = re.match(r"\d+ % \((\d+)–(\d+)\) have v = c0", made.sentences[0][0]).groups()
        assert int(low) > 50
        covered += int(high) >= 100
    assert covered >= 57


@pytest.mark.parametrize("neighbors", ["replace", "add-remove"])
def test_records_without_a_value_are_counted_apart(silent, neighbors):
    """Without noise: histograms are of the values there are, and each says how many of its cluster have none."""
    rng, data = np.random.default_rng(5), people().astype(object)
    lost = {name: rng.random(len(data)) < part for name, part in (("income", 0.3), ("grade", 0.2), ("noise", 0.1))}
    for name, where in lost.items():
        data.loc[where, name] = "?"
    made = release(pel.ClusterHistograms(groups(), per_cluster=3, attributes=list(lost)), data, neighbors=neighbors)
    label = rule(data.astype({"age": int}))
    for c, histograms in made.histograms.items():
        assert set(histograms) == set(lost)
        for name, histogram in histograms.items():
            own, gone = label == c, lost[name]
            assert histogram.inside.sum() == pytest.approx((own & ~gone).sum()) and len(histogram.inside) == len(histogram.x)
            assert histogram.rest.sum() == pytest.approx((~own & ~gone).sum())
            assert histogram.uncounted.count == pytest.approx((own & gone).sum())
            assert histogram.uncounted.of == pytest.approx(own.sum())
    assert len(made.notes) == 10 and made.notes[0].startswith("Cluster 0: About ")
    assert all(line.endswith("and is not counted.") for line in made.text.splitlines()[:-1])


def test_one_attribute_with_gaps_takes_nobody_out_of_the_others(silent):
    data = people().assign(noise="?")
    made = release(pel.ClusterHistograms(groups(), attributes=["town", "noise"], per_cluster=2), data)
    assert sum(h["town"].inside.sum() for h in made.histograms.values()) == pytest.approx(len(data))
    assert all(h["noise"].inside.sum() == pytest.approx(0) for h in made.histograms.values())
