"""Groups of features: declared once, used where features are compared, refused where they make no sense, and nothing charged."""

import pickle

import numpy as np
import pandas as pd
import pytest

import pellucid as pel
from pellucid.errors import PlanError, SchemaError
from pellucid.public.groups import Groups

COLUMNS = {name: pel.Number(0, 1) for name in "abcy"}
SCHEMA = pel.Schema(COLUMNS, groups={"ab": ["a", "b"]})
PEOPLE = pd.DataFrame(np.random.default_rng(0).random((600, 4)), columns=list("abcy"))
MODEL = pel.Model(lambda t: (t["a"] * t["b"] + t["c"]) / 2, output=(0, 1), features=list("abc"), trained_on="other data")
RECORD = {"a": 1.0, "b": 1.0, "c": 0.0}


def session(schema=SCHEMA, epsilon=100.0):
    return pel.Session(PEOPLE, schema, budget=pel.Budget(epsilon=epsilon))


def test_a_schema_keeps_its_groups(tmp_path):
    for name in ("schema.yaml", "schema.json"):
        SCHEMA.save(tmp_path / name)
        assert pel.Schema.load(tmp_path / name) == SCHEMA == pel.Schema.read(tmp_path / name)
    assert pel.Schema.read(SCHEMA.to_frictionless()).groups == SCHEMA.groups == pickle.loads(pickle.dumps(SCHEMA)).groups
    assert pel.Schema.read(SCHEMA.to_csvw(), groups={"ab": ["a", "b"]}).groups == SCHEMA.groups
    assert pel.Schema.read(SCHEMA.to_dict(), columns={"b": None}).groups["ab"] == ("a",)
    bare = pel.Schema(COLUMNS)
    assert "ab" in repr(SCHEMA) and bare != SCHEMA and SCHEMA.declared == bare.declared and "groups" not in bare.to_dict()
    assert "_groups" not in vars(bare), "what holds a schema without groups is fingerprinted as before"
    assert Groups.of({"x": ["c", "a"]}).players("abc").members("abc") == (("a", "c"), ("b",))


@pytest.mark.parametrize(
    ("groups", "said"),
    [
        ({"ab": ["a", "zip"]}, "'zip' in 'ab' is not declared"),
        ({"ab": []}, "'ab' is empty"),
        ({"ab": ["a", "b"], "bc": ["b", "c"]}, "'b' is in 'ab' and in 'bc'"),
        ({"ab": ["a", "a"]}, "'a' is twice in 'ab'"),
        ({"a": ["b", "c"]}, "'a' is the name of a column too"),
        ({"ab": "ab"}, "give a list of names"),
        ({3: ["a"]}, "3 is not a name"),
        (["a", "b"], "give names with lists"),
    ],
)
def test_groups_that_make_no_sense_are_refused_and_nothing_is_charged(groups, said):
    with pytest.raises(SchemaError, match=said):
        pel.Schema(COLUMNS, groups=groups)
    here = session()
    for make in (
        lambda: pel.ShapRanking(MODEL, RECORD, groups=groups),
        lambda: pel.PermutationImportance(MODEL, "y", groups=groups),
        lambda: pel.FeatureInteraction(MODEL, groups=groups),
        lambda: pel.LocalLinear(MODEL, RECORD, groups=groups),
    ):
        with pytest.raises(PlanError, match=said):
            here.release(make(), epsilon=1.0)
    assert here.remaining == 100


def test_curves_of_groups_are_refused_with_the_way_to_go():
    here = session()
    for make in (pel.PartialDependence, pel.AccumulatedEffects):
        with pytest.raises(PlanError, match=r"'ab' is a group of features, and a curve goes along one.*ShapValues"):
            here.release(make(MODEL, "ab"), epsilon=1.0)
    with pytest.raises(PlanError, match="'y' in 'ay' is not used by the model"):
        here.release(pel.ShapImportance(MODEL, public_background=[RECORD], groups={"ay": ["a", "y"]}), epsilon=1.0)
    with pytest.raises(PlanError, match="shuffled twice"):
        here.release(pel.PermutationImportance(MODEL, "y", features=["ab", "a"]), epsilon=1.0)
    with pytest.raises(PlanError, match="'a' is in the group 'ab'"):
        here.release(pel.FeatureInteraction(MODEL, "a"), epsilon=1.0)
    assert here.remaining == 100
    assert here.release(pel.PartialDependence(MODEL, "a", points=3), epsilon=1.0).feature == "a"


def test_results_certificates_and_requests_know_groups(silent):
    here = session()
    asked = (
        pel.ShapValues(MODEL, RECORD),
        pel.ShapRanking(MODEL, RECORD, k=2),
        pel.ShapImportance(MODEL, public_background=[RECORD]),
        pel.PermutationImportance(MODEL, "y"),
        pel.FeatureInteraction(MODEL, anyway=True),
    )
    for explainer in asked:
        found = here.release(explainer, epsilon=1.0)
        assert set(found.to_frame()["feature"]) == {"ab", "c"}
        assert "ab is a and b, taken together" in found.notes and "group ab" in str(found.certificate)
        assert found.certificate.explainer["feature groups"] == {"ab": ["a", "b"]}
    spent = here.remaining
    alone = here.release(pel.ShapValues(MODEL, RECORD, groups={}), epsilon=1.0)
    assert alone.features == ("a", "b", "c") and here.remaining < spent, "other groups are another request"
    local = here.release(pel.LocalLinear(MODEL, RECORD), epsilon=1.0).by_group()
    assert set(local["feature"]) == {"ab", "c"} and (local["lower"] <= local["value"]).all()


def test_a_group_is_shuffled_together(silent):
    """As `features=` with a tuple: the same secret order gives the same losses."""
    whole = session().release(pel.PermutationImportance(MODEL, "y", cap="range"), epsilon=1.0)
    assert whole.features == ("ab", "c")
    # A model of a product leans on its two features together at least as much as on each of them.
    single = session().release(pel.PermutationImportance(MODEL, "y", cap="range", groups={}), epsilon=1.0)
    assert whole.values[0] >= max(single.values[:2]) - 0.02


def test_interactions_between_groups(silent):
    """Without noise H between a group of flags and a number is that of the category which the flags encode."""
    rng, n = np.random.default_rng(1), 4000
    kind = rng.integers(0, 6, n)
    flags = {f"k{i}": (kind == i).astype(int) for i in range(6)}
    columns = {name: pel.Number(0, 1, integer=True) for name in flags} | {"x": pel.Number(0, 1), "z": pel.Number(0, 1)}
    table = {**flags, "x": rng.integers(0, 2, n).astype(float), "z": rng.random(n)}
    by_flags = pel.Model(lambda t: t["x"] * (t["k1"] + t["k4"]) / 2 + t["z"] / 2, output=(0, 1), trained_on="other data")
    by_kind = pel.Model(lambda t: t["x"] * t["kind"].isin([1, 4]) / 2 + t["z"] / 2, output=(0, 1), trained_on="other data")
    own = {"kind": pel.Category(list(range(6))), "x": columns["x"], "z": columns["z"]}
    with_flags = pel.Session(table, pel.Schema(columns, groups={"kind": list(flags)}), budget=pel.Budget(epsilon=99))
    with_kind = pel.Session({"kind": kind, "x": table["x"], "z": table["z"]}, pel.Schema(own), budget=pel.Budget(epsilon=99))
    found, wanted = (
        s.release(pel.FeatureInteraction(m, "kind", points=6), epsilon=9)
        for s, m in ((with_flags, by_flags), (with_kind, by_kind))
    )
    assert found.features == wanted.features == ("x", "z")
    assert np.allclose(found.values, wanted.values, atol=1e-6) and found.values[0] > 0.3 and found.values[1] < 0.01
    ranked = with_flags.release(pel.FeatureInteraction(by_flags, ranking=True), epsilon=9)
    assert set(ranked.ranking[:2]) == {"kind", "x"}
