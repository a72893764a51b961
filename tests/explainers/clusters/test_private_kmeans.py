"""Private k-means: Lloyd's own centres without noise, within the claimed sensitivity with it, and a clustering afterwards."""

import itertools
import json
import pickle
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from checks import (
    CURRENCIES,
    RELATIONS,
    check_charges,
    check_inflated,
    check_neighbours,
    check_noise,
    noise,
    public_for,
    record,
    release,
)
from people import make_people
from sources import Scaled, Seeded
from test_contract import HOSTILE, far_apart, shape_of, with_rows

import pellucid as pel
from pellucid.engine import LocalEngine
from pellucid.explainers.clusters import iteration
from pellucid.explainers.clusters.centres import Space
from pellucid.explainers.clusters.fitted import FittedGrid, Marginals, cleared, cuts_of
from pellucid.explainers.clusters.iteration import Iteration, count_weight
from pellucid.explainers.clusters.private_kmeans import PrivateKMeans
from pellucid.explainers.clusters.starts import evenly_spread, public_records, reseeded
from pellucid.public.rows import Rows

BLOBS = np.array([[20.0, 40.0], [70.0, 50.0], [50.0, 20.0]])
PLACE = pel.Schema({"age": pel.Number(0, 100), "bmi": pel.Number(10, 60), "school": pel.Category(["none", "low", "high"])})


def blobs(size=5000, seed=0):
    rng = np.random.default_rng(seed)
    which = rng.integers(0, 3, size)
    points = BLOBS[which] + rng.normal(0, 1, (size, 2)) * [4.0, 2.0]
    return pd.DataFrame({"age": points[:, 0], "bmi": points[:, 1], "school": np.array(["none", "low", "high"])[which]})


def matched(found, wanted):
    """The largest distance, in declared ranges, of a wanted centre from the nearest found one."""
    return (np.abs(found[None] - wanted[:, None]) / [100, 50]).max(axis=2).min(axis=1).max()


def lloyd(points, centres, iterations):
    for _ in range(iterations):
        label = ((points[:, None] - centres[None]) ** 2).sum(axis=2).argmin(axis=1)
        centres = np.array([points[label == c].mean(axis=0) for c in range(len(centres))])
    return centres, np.bincount(label)


def test_without_noise_it_is_lloyds_algorithm(silent):
    data = blobs()
    space = PrivateKMeans(3, ["age", "bmi"]).space(PLACE)
    start = evenly_spread(space, public_records(space, 4), 3)
    centres, counts = lloyd((data[["age", "bmi"]].to_numpy() - [0, 10]) / [100, 50], start, 4)
    found = release(PrivateKMeans(3, ["age", "bmi"], iterations=4, start="public", seed=4), data, PLACE)
    np.testing.assert_allclose(found.centres, centres * [100, 50] + [0, 10], atol=1e-6)
    np.testing.assert_allclose(found.counts, counts)


def test_without_noise_categories_are_one_hot_coordinates(silent, people, schema):
    """Each value its own coordinate over the square root of two; missing numbers in the middle."""
    names = ["bmi", "lab", "smoker", "school"]
    space = PrivateKMeans(3, names).space(schema)
    values = schema["school"].values
    lab = people["lab"].fillna(2.5)
    numbers = np.c_[(people["bmi"] - 10) / 50, lab / 5, people["smoker"]]
    points = np.c_[numbers, np.equal.outer(people["school"].to_numpy(), np.array(values)) / np.sqrt(2)].astype(float)
    start = evenly_spread(space, public_records(space, 0), 3) / [1, 1, 1, *[np.sqrt(2)] * 4]
    centres, counts = lloyd(points, start, 3)
    found = release(PrivateKMeans(3, names, iterations=3, start="public"), people, schema)
    assert found.coordinates == ("bmi", "lab", "smoker = True", *(f"school = {v}" for v in values))
    inner = centres * [1, 1, 1, *[np.sqrt(2)] * 4]
    np.testing.assert_allclose(found.centres, inner * [50, 5, 1, 1, 1, 1, 1] + [10, 0, 0, 0, 0, 0, 0], atol=1e-6)
    np.testing.assert_allclose(found.counts, counts)


@pytest.mark.parametrize(("relation", "delta"), [("replace", 0.0), ("add-remove", 0.0), ("replace", 1e-6), ("add-remove", 1e-6)])
@pytest.mark.parametrize("start", ["public", "grid", "fitted"])
def test_it_finds_well_separated_clusters(relation, delta, start):
    off = []
    for seed in range(5):
        with noise(Seeded(seed)):
            data, budget = blobs(seed=seed), pel.Budget(epsilon=1.0, delta=delta)
            found = release(PrivateKMeans(3, ["age", "bmi"], start=start), data, PLACE, relation, budget, expected_rows=5000)
        off.append(matched(found.centres, BLOBS))
    assert sorted(off)[-2] < 0.05 and np.median(off) < 0.03


def test_a_grid_finds_what_a_public_start_misses():
    """Five clusters of five features: from public centres k-means ends in a poor optimum, from the cells of a grid not."""
    names = [f"x{j}" for j in range(5)]
    schema, wanted = pel.Schema({name: pel.Number(0, 1) for name in names}), 0.2 + 0.6 * np.eye(5)
    points = wanted[np.arange(5000) % 5] + np.random.default_rng(1).normal(0, 0.05, (5000, 5))
    off = {}
    for start in ("public", "grid", "fitted"):
        with noise(Seeded(0)):
            found = release(
                PrivateKMeans(5, names, start=start), dict(zip(names, points.T)), schema, budget=pel.Budget(epsilon=1.0)
            )
        off[start] = np.abs(found.centres[None] - wanted[:, None]).max(axis=2).min(axis=1).max()
    assert max(off["grid"], off["fitted"]) < 0.1 < off["public"]


def test_the_cells_of_a_grid_are_where_their_middles_are(schema):
    explainer = PrivateKMeans(3, ["bmi", "lab", "sex", "school"], start="grid")
    grid = explainer.plan(public_for(schema, "replace", "epsilon", 3000)).details.grid
    numbers, middles = grid.bins[0], grid.middles()
    assert grid.bins == (numbers, numbers, 2, 4) and numbers >= 2 and grid.cells == len(middles) <= 4096
    columns = {"bmi": 10 + 50 * middles[:, 0], "lab": 5 * middles[:, 1], "sex": middles[:, 2], "school": middles[:, 3]}
    np.testing.assert_array_equal(grid(Rows(schema, columns))[0][:, 0], np.arange(grid.cells))
    corner = Rows(schema, {"bmi": np.array([60.0]), "lab": np.array([np.nan]), "sex": np.ones(1), "school": np.full(1, 3.0)})
    assert 0 <= grid(corner)[0][0, 0] < grid.cells
    finer = explainer.plan(public_for(schema, "replace", "epsilon", 10**7)).details.grid
    assert numbers < finer.bins[0] and finer.cells <= 4096


def test_a_grid_in_which_nothing_stands_out_leaves_the_public_start(silent):
    explainer = PrivateKMeans(3, ["age", "bmi"], iterations=1, start="grid")
    few = blobs(4)
    found = release(explainer, few, PLACE, budget=pel.Budget(epsilon=0.1))
    space = explainer.space(PLACE)
    np.testing.assert_allclose(found.centres, evenly_spread(space, public_records(space, 0), 3) * [100, 50] + [0, 10])


def test_a_grid_of_too_many_cells_is_refused_before_paying():
    schema = pel.Schema({f"x{j}": pel.Number(0, 1) for j in range(15)})
    session = pel.Session({name: [0.5] for name in schema}, schema, budget=pel.Budget(epsilon=1.0))
    with pytest.raises(pel.PlanError, match="start='public'"):
        session.release(PrivateKMeans(3, list(schema), start="grid"), epsilon=1.0)
    assert session.spent == 0


def examples(schema):
    """Those of the explainer, with a fitted grid without and with histograms of the features."""
    return [
        *PrivateKMeans.examples(None, schema),
        PrivateKMeans(3, list(schema), anyway=True),
        PrivateKMeans(2, ["age"], iterations=2),
    ]


@pytest.mark.parametrize("relation", RELATIONS)
def test_neighbours_stay_within_the_claimed_sensitivity(schema, relation):
    for seed, example in enumerate(
        [*examples(schema), PrivateKMeans(4, ["age"], iterations=1), PrivateKMeans(2, ["sex", "school"], iterations=1)]
    ):
        people = make_people(40, seed)
        corner = {name: f.hi if isinstance(f, pel.Number) else f.values[-1] for name, f in schema.items()}
        for row in (corner, {name: HOSTILE[name][seed % 5] for name in schema}):
            neighbour = with_rows(people.iloc[1:] if relation == "replace" else people, [row])
            check_neighbours(example, people, neighbour, schema, relation)
        (low, high), _ = far_apart(people)
        check_neighbours(example, *((low, high) if relation == "replace" else (high.iloc[1:], high)), schema, relation)
        check_inflated(example, *((low, high) if relation == "replace" else (high.iloc[1:], high)), schema, relation)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("currency", CURRENCIES)
def test_charges_noise_and_preview(schema, relation, currency):
    for example in examples(schema):
        check_charges(example, make_people(100), schema, relation, currency)
        plans = [example.plan(public_for(schema, relation, currency, 3000, Fraction(amount))) for amount in (1, 4)]
        cheap, dear = map(example.expected, plans)
        assert len(cheap.labels) == len(cheap.error) and (dear.error < cheap.error).all() and cheap.gap > 0
    check_noise(examples(schema)[0], make_people(100), schema, relation, currency, draws=200)
    with pytest.raises(AssertionError):
        check_noise(examples(schema)[0], make_people(100), schema, relation, currency, Scaled(1, 0.7), draws=200)


def test_the_last_iteration_gets_twice_the_share():
    public = public_for(PLACE, "replace", "epsilon", 100)
    shares = PrivateKMeans(3, ["age"], iterations=4, start="public").plan(public).shares
    assert [str(share) for share in shares.values()] == ["1/5", "1/5", "1/5", "2/5"]
    shares = PrivateKMeans(3, ["age"], iterations=2, start="grid").plan(public).shares
    assert {name: str(share) for name, share in shares.items()} == {"grid": "1/3", "iteration 1": "2/9", "iteration 2": "4/9"}
    assert PrivateKMeans(3, ["age"], start="public").iterations == 5 and PrivateKMeans(3, ["age"], start="grid").iterations == 1


def test_the_default_plans_from_what_is_public():
    """More people and more ε: histograms of the features come first, cells get finer, centres move more often."""
    explainer, found = PrivateKMeans(3, ["age", "bmi"]), []
    for rows in (100, 1500, 10**6):
        plan = explainer.plan(public_for(PLACE, "replace", "epsilon", rows))
        found.append((list(plan.shares), plan.details.fitting.cells, plan.details.fitting.marginals.intervals))
    assert [stages for stages, _, _ in found] == [
        ["grid", "iteration 1"],
        ["histograms", "grid", "iteration 1"],
        ["histograms", "grid", "iteration 1", "iteration 2", "iteration 3", "iteration 4"],
    ]
    assert found[0][1] < found[1][1] < found[2][1] <= 4096 and found[1][2] < found[2][2] <= 256
    assert (
        list(PrivateKMeans(3, ["age"], iterations=2).plan(public_for(PLACE, "replace", "epsilon", 100)).shares)[-1]
        == "iteration 2"
    )


def test_settings_of_before_are_the_requests_of_before():
    """Requests are known by these words: those of the new start were never used, those of the old ones still are."""
    said = {start: PrivateKMeans(3, ["age"], start=start).describe() for start in ("public", "grid")}
    assert [said[start]["iterations"] for start in said] == [5, 1] and [said[start]["start"] for start in said] == list(said)
    assert (
        PrivateKMeans(3, ["age"]).describe()["start"] == "fitted" and PrivateKMeans(3, ["age"]).describe()["iterations"] is None
    )


def test_cells_are_fitted_to_where_people_are():
    """A feature of which everybody has a hundredth is cut there; one that says nothing is left whole."""
    space = Space(("income", "shoe", "town"), (pel.Number(0, 1), pel.Number(0, 1), pel.Category(list("abcd"))))
    marginals = Marginals(space, 128)
    income, shoe = np.zeros(128), np.zeros(128)
    income[:4], shoe[64] = 0.25, 1.0
    grid = FittedGrid.of(marginals, [income, shoe, np.array([0.5, 0.45, 0.05, 0.0])], 30, True)
    parts = dict(zip(space.names, grid.parts))
    assert len(parts["shoe"]) == 1 and len(parts["town"]) >= 2 and len(parts["income"]) >= 2 and grid.cells <= 30
    assert parts["income"].middles.max() < 4 / 128 and grid.points().shape == (grid.cells, 6)
    schema = pel.Schema(dict(zip(space.names, space.features)))
    rows = Rows(schema, {"income": np.array([0.001, 0.03, 1.0]), "shoe": np.full(3, 0.5), "town": np.array([0.0, 1.0, 3.0])})
    cell = grid(rows)[0][:, 0]
    assert ((cell >= 0) & (cell < grid.cells)).all() and cell[0] != cell[1]


def test_cuts_are_the_best_there_are():
    """Against all cuts of a small histogram."""
    share = np.random.default_rng(0).dirichlet(np.full(9, 0.5))
    middle = (np.arange(9) + 0.5) / 9
    for parts in cuts_of(share, 9)[:4]:
        losses = []
        for inner in itertools.combinations(range(1, 9), len(parts) - 1):
            pieces = list(itertools.pairwise((0, *inner, 9)))
            losses.append(sum(share[a:b] @ (middle[a:b] - np.average(middle[a:b], weights=share[a:b])) ** 2 for a, b in pieces))
        assert parts.loss == pytest.approx(min(losses), abs=1e-12) and (np.diff(parts.of) >= 0).all()


def test_noise_far_from_everybody_is_not_taken_for_people():
    rng = np.random.default_rng(3)
    exact = np.zeros(64)
    exact[:4] = 500
    shares = np.array([cleared(exact + rng.normal(0, 40, 64), 40.0) for _ in range(50)])
    assert shares[:, 8:].sum(axis=1).mean() < 0.05 and np.median(shares[:, :4].sum(axis=1)) > 0.95
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    np.testing.assert_allclose(cleared(np.zeros(16), 5.0), 1 / 16)


def test_hardly_ever_would_one_cluster_have_been_better():
    """Small tables, skewed ones and little ε: within a fifth of what a single cluster at the exact mean would leave."""
    rng = np.random.default_rng(0)
    wide = np.clip(rng.normal(0.5, 0.1, (2000, 4)), 0, 1)
    skewed = np.clip(rng.exponential(0.03, (4000, 3)), 0, 1)
    for points, epsilon in ((wide, 0.3), (wide, 2.0), (skewed, 0.3), (skewed, 2.0)):
        names = [f"x{j}" for j in range(points.shape[1])]
        schema = pel.Schema({name: pel.Number(0, 1) for name in names})
        one, left = ((points - points.mean(axis=0)) ** 2).sum(), []
        for _ in range(4):
            found = release(PrivateKMeans(4, names), dict(zip(names, points.T)), schema, budget=pel.Budget(epsilon=epsilon))
            left.append(((points[:, None] - found.centres[None]) ** 2).sum(axis=2).min(axis=1).sum() / one)
        assert np.median(left) < 1.2, (epsilon, left)


def test_a_result_says_which_clusters_stand_out():
    found = release(PrivateKMeans(3, ["age", "bmi"]), blobs(), PLACE, budget=pel.Budget(epsilon=2.0))
    assert found.notes[-1] == found.verdict and found.verdict.startswith("3 of 3 clusters stand out")
    lost = release(PrivateKMeans(20, ["age", "bmi"], anyway=True), blobs(100), PLACE, budget=pel.Budget(epsilon=0.1))
    assert "not told from empty ones" in lost.verdict and lost.verdict.endswith(
        ("one cluster of everybody.", "for one cluster.", "means.")
    )


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("currency", CURRENCIES)
@pytest.mark.parametrize("features", [1, 3, 20])
def test_no_other_weight_of_the_counts_is_better(relation, currency, features):
    """The closed form against a search over the same error, with the sensitivities of the real query."""
    schema = pel.Schema({f"x{j}": pel.Number(0, 1) for j in range(features)})
    public = public_for(schema, relation, currency, 1000)
    space, best = PrivateKMeans(5, list(schema)).space(schema), count_weight(public, features)
    assert PrivateKMeans(5, list(schema)).plan(public).details.iteration.count_weight == best

    def error(weight):
        law = public.mechanism(Iteration(space, 5, weight).query(np.zeros((5, features)))).law
        return law.std * (1 / 4 + 1 / (12 * weight**2)) ** 0.5

    assert all(error(best) <= error(weight) * (1 + 1e-9) for weight in np.linspace(0.3, 4, 60))


@pytest.mark.parametrize("relation", RELATIONS)
def test_error_bars_cover_the_means_of_the_last_iteration(relation):
    data, explainer = blobs(3000), PrivateKMeans(3, ["age", "bmi", "school"], iterations=2, start="public")
    inside = []
    for seed in range(24):
        with noise(Seeded(seed)):
            door = record(explainer, data, PLACE, relation, seed=seed)
        _, query = door.asked[-1]
        exact = np.array(door.engine.totals(query), dtype=float)
        with noise(Seeded(seed)):
            found = release(explainer, data, PLACE, relation, pel.Budget(epsilon=2.0))
        # The door and the session draw the same noise, so the exact totals of the one are those of the other.
        sums = np.c_[exact[0:3] / 2, exact[6:9] / 2, exact[9:].reshape(3, 3)] / 2**30
        counts = exact[3:6] / query.sums[0].bound.counts
        means = (sums / counts[:, None] + [0.5, 0.5, 0, 0, 0]) * [100, 50, 1, 1, 1] + [0, 10, 0, 0, 0]
        lower, upper = found.interval(0.9)
        inside.append((means >= lower - 1e-9) & (means <= upper + 1e-9))
    assert 0.85 < np.mean(inside) < 0.97


def test_a_cluster_lost_in_the_noise_has_the_whole_range():
    found = release(
        PrivateKMeans(40, ["age", "bmi"], iterations=2, start="public"), blobs(200), PLACE, budget=pel.Budget(epsilon=0.1)
    )
    lost = found.counts < found.floor
    lower, upper = found.interval()
    assert lost.any() and (lower[lost] == [0, 10]).all() and (upper[lost] == [100, 60]).all()
    assert (lower <= found.centres).all() and (found.centres <= upper).all()
    assert (found.centres >= [0, 10]).all() and (found.centres <= [100, 60]).all()


def test_starting_centres_need_no_data_and_lie_apart():
    space = PrivateKMeans(6, list(PLACE)).space(PLACE)
    first, again, other = (evenly_spread(space, public_records(space, seed), 6) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any() and (first >= 0).all() and (first <= 1).all()
    assert min(np.linalg.norm(a - b) for i, a in enumerate(first) for b in first[:i]) > 0.2


def test_empty_clusters_move_into_the_largest():
    space = Space(("age",), (pel.Number(0, 1),))
    centres = np.array([[0.2], [0.8], [0.9]])
    moved = reseeded(
        space, np.linspace(0, 1, 101)[:, None], centres, np.array([100.0, 40.0, -5.0]), np.array([False, False, True])
    )
    assert moved[:2].tolist() == centres[:2].tolist() and 0 <= moved[2, 0] <= 0.5
    alone = reseeded(space, np.linspace(0, 1, 101)[:, None], centres, np.full(3, -1.0), np.full(3, True))
    np.testing.assert_array_equal(alone, centres)


@pytest.mark.parametrize("relation", RELATIONS)
def test_hostile_rows_neither_raise_nor_widen(schema, relation, recwarn):
    calm = make_people(50)
    hostile = with_rows(calm.iloc[5:], [{name: HOSTILE[name][i] for name in schema} for i in range(5)])
    constant = pd.concat([calm.iloc[:1]] * 50, ignore_index=True)
    for example in examples(schema):
        shapes = set()
        for data in (calm, hostile, constant):
            result = release(example, data, schema, relation, expected_rows=50)
            shapes.add(json.dumps(shape_of(json.loads(result.to_json())["content"])))
            assert np.isfinite(result.centres).all() and np.isfinite(result.interval()).all()
        assert len(shapes) == 1
    assert not [w for w in recwarn if issubclass(w.category, RuntimeWarning | UserWarning)]
    if relation == "add-remove":
        assert np.isfinite(release(examples(schema)[0], calm.iloc[:0], schema, relation).centres).all()


def test_a_canary_never_appears_in_a_result(schema):
    people = make_people(400)
    people.loc[7, "bmi"] = canary = 31.415926535897931
    for example in examples(schema):
        result = release(example, people, schema)
        for text in (result.to_json().encode(), pickle.dumps(result), pickle.dumps(result.clustering)):
            assert repr(canary)[:12].encode() not in text and np.float64(canary).tobytes() not in text


def test_a_result_round_trips_and_still_clusters(schema, people, tmp_path):
    for example in examples(schema):
        result = release(example, people, schema)
        result.save(tmp_path / "centres.json")
        again = pel.load(tmp_path / "centres.json")
        assert again.to_json() == result.to_json() and result.certificate.status == "proved"
        pd.testing.assert_frame_equal(again.to_frame(), result.to_frame())
        columns = schema.sample(500, seed=9)
        labels = [c.ready(schema).labels(columns) for c in (result.clustering, pickle.loads(pickle.dumps(again.clustering)))]
        np.testing.assert_array_equal(*labels)
        assert set(labels[0]) <= set(range(example.k))


def test_the_clustering_is_the_one_the_centres_say():
    found = release(PrivateKMeans(3, list(PLACE)), blobs(), PLACE, budget=pel.Budget(epsilon=2.0, delta=1e-6))
    groups = found.clustering
    assert groups.trained_on == pel.PrivateTraining(found.certificate.epsilon, 1e-6, "replace") and groups.clusters == (0, 1, 2)
    reordered = pel.Schema({"school": pel.Category(["high", "none", "low"]), "bmi": PLACE["bmi"], "age": PLACE["age"]})
    data = PLACE.sample(300, seed=2)
    points = np.c_[data["age"] / 100, (data["bmi"] - 10) / 50, np.equal.outer(data["school"], np.arange(3)) / np.sqrt(2)]
    centres = (found.centres - [0, 10, 0, 0, 0]) / [100, 50, *[np.sqrt(2)] * 3]
    expected = ((points[:, None] - centres[None]) ** 2).sum(axis=2).argmin(axis=1)
    np.testing.assert_array_equal(groups.ready(PLACE).labels(data), expected)
    data["school"] = np.array([1.0, 2.0, 0.0])[data["school"].astype(int)]
    np.testing.assert_array_equal(groups.ready(reordered).labels(data), expected)
    wider = pel.Schema({**PLACE, "school": pel.Category(["none", "low", "high", "higher"])})
    with pytest.raises(pel.ModelError, match="KeyError"):
        groups.ready(wider)


def test_centres_without_a_guarantee_make_no_private_clustering(silent):
    found = release(PrivateKMeans(2, ["age"], iterations=1, start="public"), blobs(300), PLACE)
    assert found.certificate.status == "not private" and found.clustering.trained_on == "this data"
    with pytest.raises(pel.PlanError, match="no certificate"):
        found.certified(None).clustering  # noqa: B018


def test_features_named_like_saved_fields():
    schema = pel.Schema({"kind": pel.Number(0, 1), "content": pel.Number(0, 1), "size": pel.Boolean()})
    data = {"kind": [0.1, 0.9] * 50, "content": [0.2, 0.7] * 50, "size": [True, False] * 50}
    for features in (["kind", "content"], ["kind", "size"]):
        found = release(PrivateKMeans(2, features, iterations=1), data, schema)
        assert pel.from_json(found.to_json()).to_json() == found.to_json()
        assert pel.from_json(found.to_json()).clustering.ready(schema)


def test_people_with_several_rows_count_once(silent):
    data = blobs(2000)
    repeated = pd.concat([data.assign(who=np.arange(2000))] * 3)
    unit = pel.Unit("who", max_rows=3)
    once, thrice = (
        release(PrivateKMeans(3, ["age", "bmi"], iterations=5, start="public"), d, PLACE, unit=u)
        for d, u in ((data, None), (repeated, unit))
    )
    np.testing.assert_allclose(once.centres, thrice.centres, atol=1e-4)
    np.testing.assert_allclose(once.counts, thrice.counts, atol=1e-4)


def test_pictures():
    plt = pytest.importorskip("matplotlib.pyplot")
    for features in (["age"], ["age", "bmi"], list(PLACE)):
        ax = release(PrivateKMeans(3, features, iterations=2), blobs(1000), PLACE).plot()
        assert ax.get_title(loc="right").startswith("ε")
    plt.close("all")


@pytest.mark.parametrize(
    ("k", "features", "settings", "words"),
    [
        (1, ["age"], {}, "from 2 to 100"),
        (101, ["age"], {}, "from 2 to 100"),
        (None, ["age"], {}, "from 2 to 100"),
        (2.5, ["age"], {}, "from 2 to 100"),
        (3, ["age"], {"iterations": 0}, "iterations"),
        (3, ["age"], {"seed": -1}, "seed"),
        (3, ["age"], {"start": "data"}, "start"),
        (3, [], {}, "column name"),
        (3, ["age", "age"], {}, "twice"),
        (3, [f"x{i}" for i in range(51)], {}, "at most 50"),
    ],
)
def test_wrong_settings_say_the_fix(k, features, settings, words):
    with pytest.raises(pel.PlanError, match=words):
        PrivateKMeans(k, features, **settings)


def test_settings_by_position_still_work_with_a_warning():
    with pytest.warns(DeprecationWarning, match="iterations=, start=, seed="):
        old = PrivateKMeans(3, ["age"], 2, "grid", 7)
    assert old == PrivateKMeans(3, ["age"], iterations=2, start="grid", seed=7)


def test_the_table_has_a_line_for_every_cluster_and_coordinate():
    found = release(PrivateKMeans(2, ["age", "school"], iterations=1), blobs(1000), PLACE)
    table, (lower, upper) = found.to_frame(), found.interval()
    assert list(table.columns) == ["feature", "value", "lower", "upper", "cluster", "count"] and len(table) == 8
    second = table[(table["feature"] == "school = low") & (table["cluster"] == 1)].iloc[0]
    assert (second["value"], second["lower"], second["upper"]) == (found.centres[1, 2], lower[1, 2], upper[1, 2])
    assert second["count"] == found.counts[1]


def test_what_the_schema_does_not_allow_is_refused_before_paying():
    schema = pel.Schema({"age": pel.Number(0, 9), "one": pel.Category(["a"]), "many": pel.Category(range(300))})
    session = pel.Session({"age": [1.0], "one": ["a"], "many": [4]}, schema, budget=pel.Budget(epsilon=1.0))
    for features, error, words in (
        (["age", "one"], pel.PlanError, "one declared value"),
        (["age", "many"], pel.PlanError, "group the values"),
        (["agee"], pel.SchemaError, "did you mean"),
    ):
        with pytest.raises(error, match=words):
            session.release(PrivateKMeans(3, features), epsilon=1.0)
    assert session.spent == 0


def test_a_preview_says_when_clusters_drown():
    session = pel.Session(blobs(300), PLACE, budget=pel.Budget(epsilon=1.0))
    assert "smaller than the noise" in str(session.preview(PrivateKMeans(20, ["age", "bmi"]), epsilon=0.1))
    assert "mostly noise" in session.preview(PrivateKMeans(20, ["age", "bmi"], anyway=True), epsilon=0.1).notes[-1]
    (verdict,) = session.preview(PrivateKMeans(2, ["age"], iterations=1), epsilon=8.0).notes
    assert verdict.startswith("verdict: centres of clusters of about 150 people are known to ±0.")
    assert 0 < session.cost_for(PrivateKMeans(3, ["age", "bmi"], iterations=2), error=10.0) < 100


def test_an_iteration_places_a_batch_once_and_keeps_nothing_of_it(monkeypatch):
    """The features of an iteration share a batch and who is nearest to what in it, as long as there is that batch."""
    placed = []
    whole = Space.nearest
    monkeypatch.setattr(Space, "nearest", lambda *given: placed.append(1) or whole(*given))
    rng = np.random.default_rng(0)
    schema = pel.Schema({name: pel.Number(0, 1) for name in "abc"})
    engine = LocalEngine({name: rng.uniform(0, 1, 200) for name in "abc"}, schema, "replace", pel.Unit(), batch_rows=100)
    space = Space(tuple(schema), tuple(schema.values()))
    centres = np.array([[0.2] * 3, [0.8] * 3])
    engine.totals(Iteration(space, 2, 1.0).query(centres))
    assert len(placed) == 2, "three features and two batches"
    assert not len(iteration._PLACED)


def test_centres_that_would_be_noise_are_refused_before_paying():
    """300 people at ε = 0.1: a centre would be known to more than a whole range, and one cluster is likely to be better."""
    session = pel.Session(blobs(300), PLACE, budget=pel.Budget(epsilon=2.0))
    few = PrivateKMeans(3, list(PLACE))
    with pytest.raises(pel.PlanError, match=r"one cluster is likely to be better.* people or ε = .*anyway=True"):
        session.release(few, epsilon=0.1)
    assert session.spent == 0 and "one cluster is likely" in session.preview(few, epsilon=0.1).notes[-1]
    made = session.release(PrivateKMeans(3, list(PLACE), anyway=True), epsilon=0.1)
    assert made.certificate.epsilon == 0.1 and session.preview(few, epsilon=0.1).free, "it changes nothing that is released"
    session.release(few, epsilon=1.0)


@pytest.mark.parametrize(("k", "features", "refused"), [(2, 4, True), (2, 2, False), (4, 4, False)])
def test_what_is_refused_is_what_was_measured(k, features, refused):
    """1,000 records, ε = 0.1, replace: one cluster was better in the median of ten tables (1.09) in the first case alone."""
    names = [f"x{j}" for j in range(features)]
    schema = pel.Schema({name: pel.Number(0, 1) for name in names})
    public = public_for(schema, "replace", "epsilon", 1000, Fraction(1, 10))
    assert ("one cluster is likely to be better" in PrivateKMeans(k, names).plan(public).useless) is refused
