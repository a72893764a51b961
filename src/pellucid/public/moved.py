"""Old names of modules: what imports or unpickles something by its place in the version before still finds it, with a warning.

Nothing is imported until an old name is asked for. A module that exists is never replaced: this finder is the last one asked.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Sequence
from functools import partial
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

ROOT = "pellucid."
MOVED = {
    "accounting": "ledger.accounting",
    "accumulate": "explainers.curves.accumulate explainers.common.projection",
    "adapters": "explainers.blocks.adapters",
    "ask": "release.door release.plan release.answer release.charge",
    "ballots": "explainers.blocks.ballots",
    "blocks": "explainers.blocks.functions query.functions",
    "bounds": "query.bounds query.bound",
    "certificate": "release.certificate",
    "cluster_results": "explainers.clusters.results",
    "cluster_scores": "explainers.clusters.scores",
    "clustering": "public.clustering explainers.clusters.centres",
    "demo": "cli.demo",
    "explainers.accumulated_effects": (
        "explainers.curves.accumulated_effects explainers.curves.steps explainers.curves.expected_effects"
    ),
    "explainers.attribute_shares": "explainers.statistics.attribute_shares",
    "explainers.base": "release.explainer release.plan explainers.common.base",
    "explainers.cluster_histograms": "explainers.clusters.cluster_histograms explainers.clusters.counting",
    "explainers.distribution": "explainers.statistics.distribution",
    "explainers.feature_interaction": (
        "explainers.interaction.feature_interaction explainers.interaction.pairwise explainers.interaction.overall "
        "explainers.interaction.rounding"
    ),
    "explainers.local_linear": "explainers.local.local_linear",
    "explainers.on_blocks": "explainers.blocks.base",
    "explainers.partial_dependence": "explainers.curves.partial_dependence",
    "explainers.permutation_importance": (
        "explainers.importance.permutation_importance explainers.importance.mean_losses explainers.importance.mean_increases "
        "explainers.importance.shuffling"
    ),
    "explainers.private_kmeans": "explainers.clusters.private_kmeans explainers.clusters.iteration explainers.clusters.starts",
    "explainers.private_plot": "explainers.blocks.private_plot",
    "explainers.private_ranking": "explainers.blocks.private_ranking",
    "explainers.shap_dependence": "explainers.shapley.shap_dependence",
    "explainers.shap_importance": "explainers.shapley.shap_importance",
    "explainers.shap_ranking": "explainers.shapley.shap_ranking",
    "explainers.shap_values": "explainers.shapley.shap_values explainers.common.base",
    "explainers.shapley_base": "explainers.shapley.base explainers.shapley.queries",
    "explainers.statistic": "explainers.statistics.statistic explainers.statistics.formulas",
    "explanation": "release.explanation",
    "fast": "query.compiled",
    "grids": "public.grids",
    "interaction_results": "explainers.interaction.results explainers.interaction.energies",
    "isolation": "engine.sandbox.isolated query.functions",
    "isolation.crew": "engine.sandbox.pool",
    "isolation.nursery": "engine.sandbox.zygote",
    "isolation.processes": "engine.sandbox.processes",
    "isolation.ways": "engine.sandbox.backends",
    "isolation.worker": "engine.sandbox.worker",
    "ledger.book": "ledger.ledger",
    "ledger.recount": "ledger.chain",
    "local": "explainers.local",
    "local.bound": "explainers.local.bound",
    "local.design": "explainers.local.encoder",
    "local.desk": "explainers.local.questions release.stream",
    "local.exact": "explainers.local.oracles release.charge engine.prepared",
    "local.individual": "explainers.local.oracles release.individual",
    "local.methods": "explainers.local.methods explainers.local.moments",
    "local.reuse": "explainers.local.history",
    "local.stream": "explainers.local.stream explainers.local.settings explainers.local.questions",
    "local.weights": "explainers.local.weights",
    "local_plots": "explainers.local.plots",
    "local_results": "explainers.local.results",
    "losses": "explainers.importance.losses",
    "mean": "release.answer",
    "mechanisms.calibration": "mechanisms.amounts",
    "mechanisms.combination": (
        "mechanisms.assignment.draw mechanisms.assignment.sets mechanisms.assignment.regions mechanisms.assignment.coins "
        "mechanisms.assignment.scores mechanisms.amounts mechanisms.choices"
    ),
    "mechanisms.exact_samplers": "mechanisms.samplers",
    "mechanisms.noise_law": "mechanisms.laws",
    "mechanisms.prices": "mechanisms.assignment.prices",
    "model": "public.model public.black_box public.fingerprint",
    "plots": "explainers.common.plots explainers.statistics.plots explainers.clusters.plots public.figure",
    "progress": "engine.progress",
    "quiet": "public.silence",
    "ranking_results": "explainers.common.rankings explainers.importance.results explainers.blocks.results",
    "report": "cli.report reports.page",
    "results": "explainers.common.results explainers.curves.results explainers.statistics.results",
    "rows": "public.rows",
    "schema": "public.schema public.columns",
    "scores": "query.scores",
    "sensitivity.encoding": "public.fitted.encoding",
    "sensitivity.reading": "public.fitted.reading public.fitted.sklearn_trees public.fitted.trees public.fitted.encoding",
    "session": "release.session release.planning release.preview",
    "shapley": "explainers.shapley",
    "shapley.against": "explainers.shapley.background",
    "shapley.asked": "public.records",
    "shapley.bound": "explainers.shapley.bound",
    "shapley.certainty": "explainers.shapley.certainty",
    "shapley.choose": "explainers.shapley.estimator",
    "shapley.coalitions": "explainers.shapley.coalitions",
    "shapley.exact": "explainers.shapley.model_specific",
    "shapley.fitted": "explainers.shapley.fitted_models",
    "shapley.radii": "explainers.shapley.radii",
    "shapley.record": "public.records",
    "shapley.scores": "explainers.shapley.scores",
    "shapley.trees": "explainers.shapley.trees",
    "shapley_plots": "explainers.shapley.plots",
    "shapley_results": "explainers.shapley.results",
    "smoothing": "explainers.curves.smoothing",
    "study": "cli.study",
    "table": "engine.tables engine.decode",
}
"""Modules of the version before, and where their names are now, all below `pellucid`; the first place that has a name gives it.

Left out: `mechanisms.choose`, since the package has a function of that name, which importing an old module would hide; and
`sensitivity.bars`, a study that is not part of the package any more. `engine`, `query` and `cli` are packages where they were
modules, and answer for themselves: `engine.Engine` is what any engine is, and the one that reads tables `engine.LocalEngine`.
"""

RENAMED = {
    "accumulate.Plan": "explainers.curves.accumulate.Intervals",
    "accumulate.plan_neighbours": "explainers.curves.accumulate.neighbour_intervals",
    "accumulate.plan_ranks": "explainers.curves.accumulate.rank_intervals",
    "explainers.private_kmeans.settled": "explainers.clusters.starts.lloyd",
    "isolation.crew.Crew": "engine.sandbox.pool.Pool",
    "isolation.nursery.Nursery": "engine.sandbox.zygote.ForkServerProxy",
    "isolation.ways.Forked": "engine.sandbox.backends.ForkWorker",
    "isolation.ways.Spawned": "engine.sandbox.backends.SpawnWorker",
    "isolation.worker.Nursery": "engine.sandbox.worker.ForkServer",
    "local.design.Design": "explainers.local.encoder.Encoder",
    "local.design.SlopeRows": "explainers.local.encoder.GradientRows",
    "local.design.slope_of": "explainers.local.encoder.gradient_of",
    "local.desk.LedgerDesk": "explainers.local.questions.Questions",
    "local.exact.ExactMoments": "explainers.local.oracles.MomentsOracle",
    "local.exact.Neighbourhood": "engine.prepared.Prepared",
    "local.exact.PassPerStep": "explainers.local.oracles.PassOracle",
    "local.individual.IndividualDoor": "explainers.local.oracles.IndividualOracle",
    "local.individual.IndividualMoments": "release.individual.IndividualAccounts",
    "local.methods.Door": "explainers.local.methods.Oracle",
    "local.methods.NoisySlope": "explainers.local.methods.NoisyGradient",
    "local.stream.Desk": "explainers.local.questions.Questions",
    "mechanisms.combination.Combination": "mechanisms.assignment.scores.Assignment",
    "mechanisms.combination.Tables": "mechanisms.assignment.scores.AssignmentScores",
    "mechanisms.combination.calibrate_combination": "mechanisms.choices.calibrate_assignment",
    "mechanisms.combination.draw_combination": "mechanisms.assignment.draw.draw_assignment",
    "quiet.quiet": "public.silence.silenced",
    "shapley_results.ShapleyCurve": "explainers.shapley.results.ShapDependenceResult",
    "shapley_results.ShapleyImportance": "explainers.shapley.results.ShapImportanceResult",
    "shapley_results.ShapleyRanking": "explainers.shapley.results.ShapRankingResult",
    "shapley_results.ShapleyValues": "explainers.shapley.results.ShapValuesResult",
}
"""Names that are others now."""


class Moved(MetaPathFinder, Loader):
    """Serves an old module as an empty one that looks its names up."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        known = fullname.startswith(ROOT) and fullname.removeprefix(ROOT) in MOVED
        return ModuleSpec(fullname, self, is_package=True) if known else None

    def exec_module(self, module: ModuleType) -> None:
        old = module.__name__.removeprefix(ROOT)
        now = " or ".join(ROOT + place for place in MOVED[old].split())
        warnings.warn(f"{module.__name__} is now {now}; import from pellucid itself, or from there.", DeprecationWarning, 2)
        vars(module)["__getattr__"] = partial(_look_up, old)
        package, _, name = module.__name__.rpartition(".")
        already = vars(sys.modules[package]).get(name)
        if isinstance(already, ModuleType):
            # Importing sets the attribute of the package to what is here, so here goes what it was: pellucid.adapters.
            sys.modules[module.__name__] = already


def _look_up(old: str, name: str) -> Any:
    place, _, renamed = RENAMED.get(f"{old}.{name}", "").rpartition(".")
    # Python asks every module for names of its own, and must not be answered with those of another one.
    for where in [] if name.startswith("__") else [place] if place else MOVED[old].split():
        module = importlib.import_module(ROOT + where)
        if hasattr(module, renamed or name):
            return getattr(module, renamed or name)
    raise AttributeError(f"module {ROOT + old!r} has no attribute {name!r}")


def install() -> None:
    """Old names of modules can be imported from now on."""
    if not any(isinstance(finder, Moved) for finder in sys.meta_path):
        sys.meta_path.append(Moved())
