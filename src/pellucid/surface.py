"""Everything that `import pellucid` offers: loaded as a whole, at the first use of any of it."""

from . import sensitivity
from .engine.check import DataCheck
from .errors import (
    AccountMismatch,
    BudgetExceeded,
    DataError,
    LedgerCorrupt,
    LedgerError,
    LedgerUnavailable,
    LoadError,
    MissingExtra,
    ModelError,
    NotPrivate,
    PellucidError,
    PlanError,
    ReleaseFailed,
    SchemaError,
    StreamClosed,
)
from .explainers import (
    AccumulatedEffects,
    AttributeShares,
    ClusterHistograms,
    Completeness,
    Distribution,
    Explainer,
    FeatureInteraction,
    LocalLinear,
    PartialDependence,
    PermutationImportance,
    PrivateKMeans,
    PrivatePlot,
    PrivateRanking,
    ShapDependence,
    ShapImportance,
    ShapRanking,
    ShapValues,
    Statistic,
)
from .explainers.blocks import adapters
from .explainers.blocks.results import Votes
from .explainers.clusters.centres import Centres
from .explainers.clusters.results import ClusterExplanation, ClusterHistogram
from .explainers.common.results import Curve, Several
from .explainers.curves.results import DependenceCurve, EffectCurve
from .explainers.importance.results import Importance
from .explainers.interaction.results import OverallInteractions, PairInteractions
from .explainers.local.results import LocalExplanation
from .explainers.local.stream import LocalStream
from .explainers.shapley.results import ShapDependenceResult, ShapImportanceResult, ShapRankingResult, ShapValuesResult
from .explainers.statistics.results import CompletenessResult, Counts, Estimates
from .ledger import Ledger
from .ledger.accounting import Amount, Budget
from .public.black_box import PrivateTraining
from .public.clustering import Clustering
from .public.model import Model
from .public.schema import Boolean, Category, Date, Datetime, Number, Schema, Unit
from .query.functions import Derived, Limits
from .release.certificate import Certificate, Total, total
from .release.explainer import Interactive
from .release.explanation import Explanation, from_json, load
from .release.plan import Plan
from .release.preview import Preview
from .release.released import Previews, Released
from .release.session import Session
from .release.uncounted import Uncounted
from .reports.draft import ReportDraft
from .reports.made import MadeReport
from .reports.planner import ReportPlan
from .reports.report import Report

__all__ = [
    "AccountMismatch",
    "AccumulatedEffects",
    "Amount",
    "AttributeShares",
    "Boolean",
    "Budget",
    "BudgetExceeded",
    "Category",
    "Centres",
    "Certificate",
    "ClusterExplanation",
    "ClusterHistogram",
    "ClusterHistograms",
    "Clustering",
    "Completeness",
    "CompletenessResult",
    "Counts",
    "Curve",
    "DataCheck",
    "DataError",
    "Date",
    "Datetime",
    "DependenceCurve",
    "Derived",
    "Distribution",
    "EffectCurve",
    "Estimates",
    "Explainer",
    "Explanation",
    "FeatureInteraction",
    "Importance",
    "Interactive",
    "Ledger",
    "LedgerCorrupt",
    "LedgerError",
    "LedgerUnavailable",
    "Limits",
    "LoadError",
    "LocalExplanation",
    "LocalLinear",
    "LocalStream",
    "MadeReport",
    "MissingExtra",
    "Model",
    "ModelError",
    "NotPrivate",
    "Number",
    "OverallInteractions",
    "PairInteractions",
    "PartialDependence",
    "PellucidError",
    "PermutationImportance",
    "Plan",
    "PlanError",
    "Preview",
    "Previews",
    "PrivateKMeans",
    "PrivatePlot",
    "PrivateRanking",
    "PrivateTraining",
    "ReleaseFailed",
    "Released",
    "Report",
    "ReportDraft",
    "ReportPlan",
    "Schema",
    "SchemaError",
    "Session",
    "Several",
    "ShapDependence",
    "ShapDependenceResult",
    "ShapImportance",
    "ShapImportanceResult",
    "ShapRanking",
    "ShapRankingResult",
    "ShapValues",
    "ShapValuesResult",
    "Statistic",
    "StreamClosed",
    "Total",
    "Uncounted",
    "Unit",
    "Votes",
    "adapters",
    "from_json",
    "load",
    "sensitivity",
    "total",
]
