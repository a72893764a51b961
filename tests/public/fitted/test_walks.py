"""Walks down settled trees: whatever walks them, and whoever is walked beside, the same whole numbers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from walking import numbers

import pellucid as pel
from pellucid.public.fitted import compiled, walks
from pellucid.public.fitted.read import Read, read
from pellucid.public.fitted.walks import Grids, along, changed, sums

pytestmark = pytest.mark.skipif(not compiled.is_compiled(), reason="compiled loops need Numba")
NUMBERS = pel.Schema(
    {
        "a": pel.Number(-3, 3),
        "b": pel.Number(0, 1e38, missing=float("nan")),
        "c": pel.Number(-5, 40, integer=True),
        "d": pel.Number(-1, 1, missing=float("nan")),
        "e": pel.Category([0, 1, 2, 5]),
    }
)
NAMES = list(NUMBERS)


@pytest.fixture(scope="module", params=["forest", "deep forest", "categories", "stumps"])
def made(request):
    table, score = numbers()
    estimator = {
        "forest": RandomForestRegressor(7, max_depth=6, random_state=0),
        "deep forest": RandomForestRegressor(3, random_state=0),
        # `e` goes left by sets of its codes, and the others have a value for missing cells.
        "categories": HistGradientBoostingRegressor(max_iter=8, max_leaf_nodes=9, categorical_features=[4], random_state=0),
        "stumps": HistGradientBoostingRegressor(max_iter=5, max_depth=1, random_state=0),
    }[request.param]
    model = pel.Model(estimator.fit(table, score), output=(-50, 50), features=NAMES, trained_on="other data", input="array")
    found = read(model.ready(NUMBERS))
    assert isinstance(found, Read), found
    return found


def records(made, size, seed):
    drawn = NUMBERS.sample(size, seed)
    rng = np.random.default_rng(seed)
    for name in ("b", "d"):
        drawn[name] = np.where(rng.random(size) < 0.3, np.nan, drawn[name])
    return made.atoms({name: drawn[name] for name in NAMES})


def by_levels(monkeypatch, wanted):
    monkeypatch.setattr(walks, "compiled", lambda work: None if wanted else compiled._loaded())


@pytest.fixture(params=["compiled", "compiled, without masks", "by levels"])
def way(request, monkeypatch, made):
    """Every walk by compiled loops, with masks where trees are small, or none."""
    by_levels(monkeypatch, request.param == "by levels")
    if request.param == "compiled, without masks":
        for trees in made.groups:
            monkeypatch.setitem(vars(trees), "masks", None)


def walked(trees, atoms):
    """One record, one tree, one node at a time."""
    out = []
    for record in atoms:
        total = 0
        for root in trees.root:
            node = int(root)
            while trees.feature[node] >= 0:
                atom = record[trees.feature[node] : trees.feature[node] + 1]
                node = int(trees.child[node]) + int(trees.goes_right(atom, np.array([node]))[0])
            total += int(trees.value[node])
        out.append(total)
    return np.array(out)


def test_all_walks_are_walks_of_changed_records(made, way):
    (trees,) = made.groups
    sizes = [cells + len(domain.points) for cells, domain in zip(made.settled.cells, made.settled.domains)]

    @settings(max_examples=25)
    @given(st.integers(0, 10**6), st.integers(1, 40))
    def run(seed, size):
        rng = np.random.default_rng(seed)
        atoms, donors = records(made, size, seed), records(made, size, seed + 1)
        assert np.array_equal(sums(trees, atoms), walked(trees, atoms))
        # Points in any order, some of them twice, cells and points of one feature together; some features without any.
        features = tuple(int(j) for j in rng.permutation(5)[: rng.integers(1, 6)])
        grids = Grids(features, tuple(rng.integers(0, sizes[j], rng.integers(1, 9)).astype(np.int32) for j in features))
        found, column = along(trees, atoms, grids), 0
        for j, points in zip(grids.features, grids.atoms):
            for point in points:
                copied = atoms.copy()
                copied[:, j] = point
                assert np.array_equal(found[:, column], walked(trees, copied))
                column += 1
        groups = [part.tolist() for part in np.array_split(rng.permutation(5)[: rng.integers(2, 6)], 2)]
        # Columns of several features, of one, of none; more than one of the same feature, with atoms from elsewhere.
        columns = [{j: j for j in group} for group in groups] + [{}] + [{j: q} for j in range(5) for q in (j, 5 + j)]
        columns = [columns[c] for c in rng.permutation(len(columns))]
        given_away = np.hstack([donors, records(made, size, seed + 2)])
        found = changed(trees, atoms, given_away, columns)
        for c, column in enumerate(columns):
            copied = atoms.copy()
            for j, q in column.items():
                copied[:, j] = given_away[:, q]
            assert np.array_equal(found[:, c], walked(trees, copied))

    run()


def test_a_record_is_answered_alike_in_any_company(made, monkeypatch):
    atoms = records(made, 5000, 0)
    each = [
        {"a": 0.5},
        {"c": 7.0},
        {"d": float("nan")},
        {"a": 0.25, "c": 3.0},
        {},
        {"a": np.zeros(5000)},
        {"a": -1.0, "e": 1.0, "c": 2.0},
    ]
    whole = made.table(atoms, each)
    some = np.random.default_rng(1).permutation(5000)[:300]
    each[5] = {"a": np.zeros(300)}
    for wanted in (False, True):
        by_levels(monkeypatch, wanted)
        assert np.array_equal(made.table(atoms[some], each), whole[some])
    each[5] = {"a": np.zeros(1)}
    assert np.array_equal(made.table(atoms[some[:1]], each), whole[some[:1]])


def test_both_ends_of_a_step(made, way):
    atoms, rng = records(made, 200, 3), np.random.default_rng(3)
    two = [{"c": rng.integers(-5, 41, 200).astype(float), "a": rng.uniform(-3, 3, 200)} for _ in range(2)]
    few, many = ([{"a": ends} for ends in rng.choice(rng.uniform(-3, 3, size), (2, 200))] for size in (9, 10**5))
    for ends in (two, few, many):
        found = made.table(atoms, ends)
        for k, end in enumerate(ends):
            assert np.array_equal(found[:, k], made.table(atoms, [end])[:, 0])


def test_no_records_and_no_points():
    table, score = numbers()
    model = pel.Model(
        RandomForestRegressor(2, max_depth=2).fit(table, score),
        output=(-50, 50), features=NAMES, trained_on="other data", input="array",
    )  # fmt: skip
    made = read(model.ready(NUMBERS))
    assert made.table(records(made, 0, 0), [{"a": 1.0}, {}]).shape == (0, 2)
    assert made.table(records(made, 3, 0), []).shape == (3, 0)


def test_a_tree_without_a_comparison():
    constant = RandomForestRegressor(2).fit([[0.0], [1.0]], [3.0, 3.0])
    schema = pel.Schema({"x": pel.Number(0, 1)})
    made = read(pel.Model(constant, output=(0, 5), features=["x"], trained_on="other data").ready(schema))
    assert np.array_equal(made.table(made.atoms({"x": np.array([0.0, 0.5])}), [{}, {"x": 0.25}]), np.full((2, 2), 3.0))
