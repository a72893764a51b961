"""The contract: every explainer found in the package passes it, without a line of test code of its own."""

import ast
import dataclasses
import inspect
import json
import pickle
from fractions import Fraction
from pathlib import Path

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
    unclipped_loops,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from people import make_people, risk_without_smoker
from sklearn.ensemble import RandomForestRegressor
from sklearn.neighbors import KNeighborsRegressor
from sources import Scaled, Silent

import pellucid as pel
from pellucid import query
from pellucid.engine import LocalEngine
from pellucid.explainers.blocks.base import OnBlocks
from pellucid.explainers.clusters.scores import CombinationScore
from pellucid.mechanisms import Norms
from pellucid.query import Choice, bounds, compiled, parts_of
from pellucid.query.scores import QuantileScore

EXPLAINERS = [getattr(pel.explainers, name) for name in pel.explainers.__all__ if name != "Explainer"]

pytestmark = pytest.mark.parametrize("explainer", EXPLAINERS, ids=lambda e: e.__name__)

HOSTILE = {
    "age": [float("nan"), float("inf"), -1e308, "eleven", 10**40],
    "children": [None, 2.5, "many", -1, float("-inf")],
    "bmi": ["", float("inf"), "1e999", None, -0.0],
    "lab": [float("nan"), "?", 1e9, -1e9, None],
    "sex": ["Q", None, 3, "", "f"],
    "school": [None, "PhD", 7, float("nan"), "none "],
    "smoker": ["maybe", None, 2, "True", float("nan")],
}


@pytest.fixture(scope="module")
def model(schema):
    """A model that leaves one column free to be a target."""
    return pel.Model(risk_without_smoker, output=(0, 1), features=list(schema)[:-1], trained_on="other data")


def examples(explainer, model, schema):
    return list(explainer.examples(model, schema))


def usual_status(example):
    """Of a release with production noise: what code of somebody's was asked about records, or about blocks of them."""
    if isinstance(example, OnBlocks):
        return "proved for isolated functions"
    # The order of interactions asks the model about made-up records only.
    asked = example.models and not (isinstance(example, pel.FeatureInteraction) and example.ranking)
    return "proved for row-wise models" if asked else "proved"


def as_codes(people, schema, names):
    columns = [
        people[name] if isinstance(schema[name], pel.Number) else people[name].map(schema[name].values.index) for name in names
    ]
    return np.column_stack(columns).astype(float)


def test_trees_that_are_read_explain_what_trees_that_are_asked_do(explainer, schema):
    """Computed here from its trees, or asked: the same explanation but for rounding, whatever a map does with a model."""
    people, names = make_people(200), list(schema)[:-1]
    forest = RandomForestRegressor(9, max_depth=5, random_state=0)
    forest.fit(as_codes(people, schema, names), risk_without_smoker(people))
    said = {"output": (0, 1), "features": names, "trained_on": "other data", "input": "codes"}
    read, asked = pel.Model(forest, **said), pel.Model(lambda table: forest.predict(table), **said)
    for pair in zip(examples(explainer, read, schema), examples(explainer, asked, schema)):
        if not pair[0].models or isinstance(pair[0], OnBlocks):
            continue
        frames = []
        for example in pair:
            with noise(Silent(0)):
                made = pel.Session(people, schema, pel.Budget(epsilon=9.0)).release(example, share=1)
            frames.append(made.to_frame().select_dtypes("number").drop(columns=["lower", "upper"], errors="ignore"))
        # Shapley values of trees that are read are exact; of those that are asked, a mean over some public orders.
        near = 0.01 if explainer.__name__.startswith("Shap") else 1e-6
        pd.testing.assert_frame_equal(*frames, rtol=near, atol=near, check_like=True)


def test_a_list_gives_what_its_parts_give_alone(explainer, model, schema):
    """Whoever reads the table together with whom: without noise every number is the same, to the last bit."""
    people = make_people(300)
    company = [pel.Distribution("age", bins=7), pel.PartialDependence(model, "bmi"), pel.Completeness()]
    listed = [*company, *(one for one in examples(explainer, model, schema) if not one.asks_one_by_one)]
    made = []
    for together in (False, True):
        with noise(Silent(0)):
            session = pel.Session(people, schema, pel.Budget(epsilon=9.0 * len(listed)))
            found = session.release(listed, share=1) if together else [session.release(one, epsilon=9.0) for one in listed]
        made.append([(one.content(), one.certificate.charges) for one in found])
    assert made[0] == made[1]


def with_rows(people, rows):
    return pd.concat([people.astype(object), pd.DataFrame(rows).astype(object)], ignore_index=True)


def test_neighbours_stay_within_the_claimed_sensitivity(explainer, model, schema):
    """1. Random and adversarial neighbours, exact integers."""
    corners = {name: (f.lo, f.hi) if isinstance(f, pel.Number) else (f.values[0], f.values[-1]) for name, f in schema.items()}

    # A function of blocks starts processes, so a few of these have to do.
    @settings(max_examples=3 if issubclass(explainer, OnBlocks) else 12)
    @given(
        st.integers(0, 10**6),
        st.lists(st.booleans(), min_size=len(schema), max_size=len(schema)),
        st.integers(0, 4),
        st.booleans(),
    )
    def run(seed, sides, oddity, hostile):
        people = make_people(40, seed)
        row = {name: corners[name][side] for name, side in zip(schema, sides)}
        if hostile:
            row = {name: HOSTILE[name][oddity] for name in schema}
        more = with_rows(people, [row])
        # In place: the secret labels of the others stay the same.
        swapped = with_rows(pd.DataFrame([row]), people.iloc[1:].to_dict("records"))
        which = examples(explainer, model, schema)[seed % len(examples(explainer, model, schema))]
        check_neighbours(which, people, swapped, schema, "replace")
        check_neighbours(which, people, more, schema, "add-remove")

    run()


def test_maps_are_row_local(explainer, model, schema):
    """The total over two tables is the sum of their totals: a contribution depends on its own record only."""
    a, b = make_people(60, 1), make_people(45, 2)
    for example in examples(explainer, model, schema):
        door = record(example, a, schema)
        other, both = (LocalEngine(t, schema, "replace", pel.Unit()) for t in (b, pd.concat([a, b], ignore_index=True)))
        for _, asked in door.asked:
            sums = (asked.of,) if isinstance(asked, Choice) else parts_of(asked)
            for part in sums:
                if isinstance(part.over, query.Records):
                    totals = [engine.totals(part) for engine in (door.engine, other, both)]
                    assert totals[2] == [x + y for x, y in zip(*totals[:2])]


def product(table):
    """A matrix product: its last bits depend on how many rows it has."""
    return np.nan_to_num(table) @ np.linspace(0.0301, 0.0007, table.shape[1])


def test_contributions_are_the_same_in_any_company(explainer, schema):
    """To the last bit: a threshold would make a whole contribution of it."""
    blas = pel.Model(product, output=(0, 1), features=list(schema)[:-1], trained_on="other data", input="codes")
    people, rng = make_people(300, 1), np.random.default_rng(0)
    for example in examples(explainer, blas, schema):
        door = record(example, people, schema)
        for _, asked in door.asked:
            for part in parts_of(asked.of if isinstance(asked, Choice) else asked):
                if isinstance(part.over, query.Blocks):
                    continue
                rows = next(door.engine.batches(part.columns, part.conditions))
                pairs = (rows,) if isinstance(part.over, query.Records) else (rows, rows.take(np.roll(np.arange(len(rows)), 1)))
                whole = contributions(part.map(*pairs))
                for few in ([0], [5, 250], rng.permutation(len(rows))[:7], rng.permutation(len(rows))[:64]):
                    some = contributions(part.map(*(one.take(np.array(few)) for one in pairs)))
                    for alone, among in zip(some, whole, strict=True):
                        np.testing.assert_array_equal(alone, among[few])


def contributions(made):
    """Arrays with one entry per record, whatever a map gives them in."""
    if isinstance(made, tuple | list):
        return [values for one in made for values in contributions(one)]
    return [] if made is None else [made]


def test_every_engine_gives_the_same_integers(explainer, model, schema, people, tmp_path):
    """2. In memory or in Parquet, whatever the size of a batch."""
    people = people.iloc[:700]
    path = tmp_path / "people.parquet"
    people.to_parquet(path, row_group_size=128)
    for example in examples(explainer, model, schema):
        door = record(example, people, schema)
        others = [LocalEngine(path, schema, "replace", pel.Unit(), batch_rows=size) for size in (50, 700)]
        for _, asked in door.asked:
            asked = asked.of if isinstance(asked, Choice) else asked
            if all(isinstance(part.over, query.Records) for part in parts_of(asked)):
                assert all(engine.totals(asked) == door.engine.totals(asked) for engine in others)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("currency", CURRENCIES)
def test_charges_add_up(explainer, model, schema, people, relation, currency):
    """4."""
    for example in examples(explainer, model, schema):
        check_charges(example, people.iloc[:300], schema, relation, currency)


def test_a_canary_never_appears_in_a_result(explainer, schema):
    """5. Not in the pickle nor in the JSON, also with a model that carries its training rows."""
    people = make_people(400)
    people.loc[7, "bmi"] = canary = 31.415926535897931
    numeric = people[["age", "bmi"]].to_numpy(float)
    carrying = KNeighborsRegressor(3).fit(numeric, np.linspace(0, 1, 400))
    model = pel.Model(carrying, output=(0, 1), features=["age", "bmi"], trained_on="this data")
    for example in examples(explainer, model, schema):
        result = release(example, people, schema)
        for text in (result.to_json().encode(), pickle.dumps(result)):
            assert repr(canary)[:12].encode() not in text and np.float64(canary).tobytes() not in text


@pytest.mark.parametrize("relation", RELATIONS)
def test_hostile_rows_neither_raise_nor_widen(explainer, model, schema, relation, recwarn):
    """6. NaN, infinities, huge, unparsable and unknown cells; values in the domain that nobody has."""
    calm = make_people(50)
    hostile = with_rows(calm.iloc[5:], [{name: HOSTILE[name][i] for name in schema} for i in range(5)])
    constant = pd.concat([calm.iloc[:1]] * 50, ignore_index=True)
    for example in examples(explainer, model, schema):
        shapes = {
            json.dumps(shape_of(json.loads(release(example, data, schema, relation, expected_rows=50).to_json())["content"]))
            for data in (calm, hostile, constant)
        }
        if not example_has_data_dependent_grid(example):
            assert len(shapes) == 1
    assert not [w for w in recwarn if issubclass(w.category, RuntimeWarning | UserWarning)]


def example_has_data_dependent_grid(example):
    """Grids released privately in an earlier stage may differ in length; everything else may not."""
    return getattr(example, "private_grid", False)


def shape_of(value):
    if isinstance(value, dict):
        return {k: shape_of(v) for k, v in value.items()}
    if isinstance(value, list):
        return [shape_of(v) for v in value]
    return "text" if isinstance(value, str) else "number"


def test_an_empty_table_is_a_valid_release_under_add_remove(explainer, model, schema):
    empty = make_people(3).iloc[:0]
    for example in examples(explainer, model, schema):
        result = release(example, empty, schema, "add-remove", expected_rows=100)
        assert np.isfinite(result.interval()[0]).all()
        with pytest.raises(pel.DataError, match="empty"):
            release(example, empty, schema, "replace")


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("currency", CURRENCIES)
def test_noise_has_the_right_scale(explainer, model, schema, relation, currency):
    """7."""
    check_noise(examples(explainer, model, schema)[0], make_people(100), schema, relation, currency)


@pytest.mark.parametrize("factor", [0.7, 1.3])
def test_noise_at_another_scale_is_noticed(explainer, model, schema, factor):
    with pytest.raises(AssertionError):
        check_noise(examples(explainer, model, schema)[0], make_people(100), schema, "replace", "epsilon", Scaled(1, factor))


def test_sabotaged_sensitivity_is_noticed(explainer, model, schema, monkeypatch):
    """8. With every sensitivity halved, neighbours or noise must give it away."""
    original = query.sensitivity

    def halved(*arguments):
        norms = original(*arguments)
        return Norms(norms.l1 // 2, norms.l2_squared // 4, norms.linf // 2)

    monkeypatch.setattr("pellucid.query.sensitivities.sensitivity", halved)
    with pytest.raises(AssertionError):
        check_noise(examples(explainer, model, schema)[0], make_people(100), schema, "replace", "epsilon")


def far_apart(people):
    """The same people, but for one who moves from one corner of the domain to the other, or has no value any more."""
    low, high = people.copy(), people.copy()
    low.loc[0, ["age", "children", "bmi", "lab", "sex", "school", "smoker"]] = [17, 0, 10.0, 0.0, "F", "none", False]
    high.loc[0, ["age", "children", "bmi", "lab", "sex", "school", "smoker"]] = [90, 6, 60.0, 5.0, "M", "tertiary", True]
    return (low, high), (high, with_rows(pd.DataFrame([dict.fromkeys(people)]), people.iloc[1:].to_dict("records")))


@pytest.fixture(params=["NumPy", "compiled"])
def bounded_by(request, monkeypatch):
    """What bounds compute with: for a few records it is NumPy, unless something else has loaded Numba before."""
    if request.param == "compiled":
        pytest.importorskip("numba")
    monkeypatch.setattr(compiled, "loops", lambda work: None if request.param == "NumPy" else compiled._loaded())
    return request.param


@pytest.mark.parametrize("relation", RELATIONS)
def test_bounds_are_enforced_whatever_a_map_returns(explainer, model, schema, relation, bounded_by):
    people = make_people(30)
    neighbours = far_apart(people) if relation == "replace" else [(people.iloc[:-1], people)]
    for example in examples(explainer, model, schema):
        for pair in neighbours[: 1 if issubclass(explainer, OnBlocks) else 2]:
            check_inflated(example, *pair, schema, relation)


def test_sabotaged_clipping_is_noticed(explainer, model, schema, monkeypatch, bounded_by):
    """8. Without clipping, a record outside its set must give it away."""
    if bounded_by == "compiled":
        sabotaged = unclipped_loops(monkeypatch)
        monkeypatch.setattr(compiled, "loops", lambda work: sabotaged)
    monkeypatch.setattr(bounds.np, "clip", lambda values, *limits, **options: values)
    monkeypatch.setattr(bounds, "_within", lambda shares, limit: shares)
    monkeypatch.setattr("pellucid.explainers.shapley.bound._shrink", lambda z, limits, k: z)
    monkeypatch.setattr("pellucid.explainers.local.bound._shrink", lambda z, joint, slope, label: z)
    # Votes are not clipped but compared; without that, scores would be added as they are.
    raw = lambda self, scores, parts=None: [int(v) for v in (np.asarray(scores) * bounds.UNITS).sum(axis=0)]  # noqa: E731
    monkeypatch.setattr("pellucid.explainers.blocks.ballots.Ballots.totals", raw)
    neighbours = far_apart(make_people(30))
    with pytest.raises(AssertionError):
        for example in examples(explainer, model, schema):
            for pair in neighbours:
                check_inflated(example, *pair, schema, "replace")


def test_sabotaged_scores_are_noticed(explainer, model, schema, monkeypatch):
    """8. A choice calibrated to half its span must fail the neighbour check."""
    example = examples(explainer, model, schema)[0]
    if not any(isinstance(asked, Choice) for _, asked in record(example, make_people(50), schema).asked):
        pytest.skip("makes no private choice")
    monkeypatch.setattr(QuantileScore, "span", lambda self, relation, units: units // 2)
    monkeypatch.setattr(QuantileScore, "largest", lambda self, relation, units: units // 4)
    monkeypatch.setattr(CombinationScore, "span", lambda self, relation, units: self.scale * units // 10)
    people = make_people(40)
    with pytest.raises(AssertionError):
        for seed in range(40):
            rng = np.random.default_rng(seed)
            moved = people.copy()
            moved.loc[0, ["age", "bmi"]] = [int(rng.integers(17, 91)), rng.uniform(10, 60)]
            moved.loc[0, "sex"] = str(rng.choice(["F", "M"]))
            check_neighbours(example, people, moved, schema, "replace")


def test_explainers_see_no_rows(explainer):
    """9. No engine, no random generator, no dataframe library to compute with, in the whole family; noise by the door."""
    for path in Path(inspect.getfile(explainer)).parent.glob("*.py"):
        # Adapters run beside a user's function, in a block's own process; a result makes a table of what was released.
        if path.name in ("adapters.py", "functions.py"):
            continue
        allowed = {"pandas"} if path.name in ("results.py", "centres.py", "plots.py") else set()
        tree = ast.parse(path.read_text(encoding="utf-8"))
        imported = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                imported |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module}
            elif isinstance(node, ast.Attribute):
                # Public random numbers, of an estimator or a picture, have a seed that stands in the request.
                seeded = path.name in ("coalitions.py", "results.py", "starts.py", "energies.py", "accumulate.py", "made_up.py")
                assert node.attr not in ("engine", "_engine") and (seeded or node.attr not in ("random", "default_rng")), path
        forbidden = {"engine", "tables", "ledger", "pandas", "pyarrow", "polars", "random", "secrets", "opendp"} - allowed
        assert not [name for name in imported for word in forbidden if word in str(name).split(".")], path


def test_its_name_in_ledgers_is_its_own(explainer):
    """A request is known by a registered name, wherever the file has moved; a subclass does not inherit it."""
    assert explainer.__dict__["stored_as"] == explainer.stored_name()
    derived = type("Derived", (explainer,), {})
    assert derived.stored_name() != explainer.stored_name()
    with pytest.raises(pel.PlanError, match="name"):
        type("Pretender", (explainer,), {"stored_as": explainer.stored_name()})


def test_a_release_leaves_nothing_in_the_explainer(explainer, model, schema):
    """Frozen values: what planning, previewing and running found out is in the plan, not in the explainer."""
    people = make_people(300)
    for example in examples(explainer, model, schema):
        before = dict(vars(example))
        session = pel.Session(people, schema, budget=pel.Budget(epsilon=4.0))
        session.preview(example, epsilon=1.0)
        session.release(example, epsilon=1.0)
        assert vars(example) == before and set(before) <= {field.name for field in dataclasses.fields(example)}


@pytest.mark.parametrize("relation", RELATIONS)
def test_plans_are_frozen_and_the_same_every_time(explainer, model, schema, relation):
    """Two plans of one request ask for the same, with the same noise."""
    for example in examples(explainer, model, schema):
        one, other = (example.plan(public_for(schema, relation, "epsilon", 500)) for _ in range(2))
        with pytest.raises(dataclasses.FrozenInstanceError):
            one.stages = ()
        assert [(s.name, s.share, s.how) for s in one.stages] == [(s.name, s.share, s.how) for s in other.stages]


@pytest.mark.parametrize("relation", RELATIONS)
def test_charged_stages_make_the_data_flow_private(explainer, model, schema, relation):
    """What is charged interrupts every path from the records, and every stage of the drawing is charged or reads only those."""
    for example in examples(explainer, model, schema):
        plan = example.plan(public_for(schema, relation, "epsilon", 3000))
        flow, charged = example.flow(plan), tuple(plan.shares)
        found = flow.enabling_set(charged)
        assert set(found.stages) | set(found.safe) == set(flow.stages) and not flow.warnings(relation)
        for stage in charged:
            fewer = [other for other in charged if other != stage]
            assert flow.leaks(fewer) or flow.enables(fewer)
        assert flow.leaks(charged[:-1]) and not flow.enables(charged[:-1])


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("currency", CURRENCIES)
def test_preview_needs_no_data(explainer, model, schema, relation, currency):
    """The expected error is finite, positive, named, and shrinks when more is paid."""
    for example in examples(explainer, model, schema):
        plans = [example.plan(public_for(schema, relation, currency, 3000, Fraction(a))) for a in (1, 4)]
        cheap, dear = map(example.expected, plans)
        assert len(cheap.labels) == len(cheap.error) and np.isfinite(cheap.error).all() and (cheap.error > 0).all()
        assert dear.error.max() < cheap.error.max() and cheap.gap >= 0


def test_results_round_trip_and_say_what_they_are(explainer, model, schema, people, tmp_path):
    for example in examples(explainer, model, schema):
        result = release(example, people.iloc[:400], schema)
        result.save(tmp_path / "e.json")
        again = pel.load(tmp_path / "e.json")
        assert again.to_json() == result.to_json() and type(again) is type(result)
        for ours, theirs in zip(result.interval(0.9), again.interval(0.9)):
            np.testing.assert_allclose(ours, theirs)
        pd.testing.assert_frame_equal(result.to_frame(), again.to_frame())
        certificate = result.certificate
        assert certificate.status == usual_status(example) and result.cite() and certificate.epsilon == pytest.approx(4.0)
        assert {"explanation data", "record asked about"} <= set(certificate.protects)
        assert "<table" in certificate.html and "PROVED" in certificate.text


def test_results_can_be_drawn(explainer, model, schema, people):
    plt = pytest.importorskip("matplotlib.pyplot")
    for example in examples(explainer, model, schema):
        result = release(example, people.iloc[:300], schema)
        axes = result.plot()
        assert all(hasattr(ax, "plot") for ax in np.atleast_1d(axes))
        plt.close("all")


def test_test_noise_is_certified_not_private(explainer, model, schema):
    example = examples(explainer, model, schema)[0]
    session = pel.Session(make_people(100), schema, budget=pel.Budget(epsilon=1.0))
    with noise(Silent()):
        assert session.release(example, epsilon=0.25).certificate.status == "not private"
    later = session.release(example, epsilon=0.25, fresh=True).certificate
    assert later.status == usual_status(example) and not later.total["bounded"] and "NOT BOUNDED" in later.text


def test_documented_with_a_running_example(explainer):
    documentation = inspect.getdoc(explainer)
    assert documentation and "Released:" in documentation and "Claim:" in documentation and ">>> " in documentation
