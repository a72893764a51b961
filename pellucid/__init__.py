"""Pellucid: explanations of machine-learning models about people, released under differential privacy.

The map, in reading order:

    schema        what is public: columns, bounds, categories; the unit that is protected
    model         black boxes with a declared range, tried on public records
    bounds        the sets contributions are clipped into, and their sensitivities
    query         what may be asked of data: sums, joint sums, private choices
    mechanisms    the only place that draws noise
    ledger        accounts, charges, hash chain
    table, engine rows in, exact integer totals out
    isolation     a user's function on blocks of records, each in a process of its own
    ask           the door an explainer gets instead of the data
    explanation   released numbers only; results and plots beside it
    certificate   what is guaranteed, to whom, resting on what
    sensitivity   certified bounds of formulas and models; which attribute drives them
    session       plan → reserve → run → commit → certificate
    explainers    one file each; start with explainers/partial_dependence.py
"""

from . import sensitivity
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
from .ledger import Ledger
from .ledger.accounting import Amount, Budget
from .public.black_box import PrivateTraining
from .public.clustering import Clustering
from .public.model import Model
from .public.schema import Boolean, Category, Number, Schema, Unit
from .query.functions import Limits
from .release.certificate import Certificate, Total, total
from .release.explanation import Explanation, from_json, load
from .release.preview import Preview
from .release.session import Session

__version__ = "0.1.0"

__all__ = [
    "AccountMismatch",
    "AccumulatedEffects",
    "Amount",
    "AttributeShares",
    "Boolean",
    "Budget",
    "BudgetExceeded",
    "Category",
    "Certificate",
    "ClusterHistograms",
    "Clustering",
    "DataError",
    "Distribution",
    "Explainer",
    "Explanation",
    "FeatureInteraction",
    "Ledger",
    "LedgerCorrupt",
    "LedgerError",
    "LedgerUnavailable",
    "Limits",
    "LoadError",
    "LocalLinear",
    "MissingExtra",
    "Model",
    "ModelError",
    "NotPrivate",
    "Number",
    "PartialDependence",
    "PellucidError",
    "PermutationImportance",
    "PlanError",
    "Preview",
    "PrivateKMeans",
    "PrivatePlot",
    "PrivateRanking",
    "PrivateTraining",
    "ReleaseFailed",
    "Schema",
    "SchemaError",
    "Session",
    "ShapDependence",
    "ShapImportance",
    "ShapRanking",
    "ShapValues",
    "Statistic",
    "StreamClosed",
    "Total",
    "Unit",
    "adapters",
    "from_json",
    "load",
    "sensitivity",
    "total",
]
