"""The public surface, name by name: whatever is added or removed is a decision."""

import ast
import dataclasses
import inspect
import types
from pathlib import Path

import pellucid as pel

SURFACE = {
    "a table and a budget": "Amount Boolean Budget Category Date Datetime Ledger Limits Number Schema Session Unit",
    "models": "Clustering Derived Model PrivateTraining",
    "explainers": (
        "AccumulatedEffects AttributeShares ClusterHistograms Completeness Distribution Explainer FeatureInteraction "
        "Interactive LocalLinear PartialDependence PermutationImportance PrivateKMeans PrivatePlot PrivateRanking "
        "ShapDependence ShapImportance ShapRanking ShapValues Statistic"
    ),
    "before a release": "DataCheck Plan Preview Previews Report ReportDraft ReportPlan",
    "results": (
        "Centres ClusterExplanation ClusterHistogram CompletenessResult Counts Curve DependenceCurve EffectCurve "
        "Estimates Explanation "
        "Importance LocalExplanation LocalStream MadeReport OverallInteractions PairInteractions Several ShapDependenceResult "
        "Released ShapImportanceResult ShapRankingResult ShapValuesResult Uncounted Votes from_json load"
    ),
    "certificates": "Certificate Total total",
    "errors": (
        "AccountMismatch BudgetExceeded DataError LedgerCorrupt LedgerError LedgerUnavailable LoadError MissingExtra ModelError "
        "NotPrivate PellucidError PlanError ReleaseFailed SchemaError StreamClosed"
    ),
    "modules": "adapters sensitivity",
}


def test_the_surface_is_exactly_this():
    assert sorted(pel.__all__) == sorted(name for names in SURFACE.values() for name in names.split())
    assert all(hasattr(pel, name) for name in pel.__all__)


def test_everything_public_is_documented():
    for name in pel.__all__:
        thing = getattr(pel, name)
        assert isinstance(thing, types.ModuleType) or inspect.getdoc(thing), name


def test_results_of_explainers_are_exported(model, schema, people):
    """Whatever an explainer returns, its class can be named."""
    session = pel.Session(people.iloc[:300], schema, budget=pel.Budget(epsilon=100.0))
    inner = pel.Model(lambda d: d["age"] / 100, output=(0, 1), features=["age", "sex"], trained_on="other data")
    for name in pel.explainers.__all__:
        explainer = getattr(pel.explainers, name)
        if name != "Explainer":
            for example in explainer.examples(inner, schema)[:2]:
                result = type(session.release(example, epsilon=0.5))
                assert result.__name__ in pel.__all__, result


def test_settings_of_explainers_are_keywords():
    """After the first two arguments nothing is taken by position."""
    for name in pel.explainers.__all__:
        explainer = getattr(pel.explainers, name)
        if name != "Explainer":
            by_position = [f.name for f in dataclasses.fields(explainer) if f.init and not f.kw_only]
            assert len(by_position) <= 2, (name, by_position)


def fields_without_a_line(cls):
    """Fields of a dataclass that no docstring line follows; a run of ε, δ and ρ may share one."""
    (node,) = [
        node
        for node in ast.parse(Path(inspect.getfile(cls)).read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef) and node.name == cls.__name__
    ]
    found = []
    for here, after in zip(node.body, [*node.body[1:], None]):
        if isinstance(here, ast.AnnAssign) and "ClassVar" not in ast.unparse(here.annotation):
            said = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
            name = here.target.id
            found += [] if said or name in ("_", "epsilon", "delta", "rho") else [name]
    return found


def test_every_field_of_a_public_value_has_its_own_line():
    for name in pel.__all__:
        thing = getattr(pel, name)
        if inspect.isclass(thing) and dataclasses.is_dataclass(thing):
            assert not fields_without_a_line(thing), name
