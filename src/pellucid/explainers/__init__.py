"""One file per explainer: what to ask, and how to turn answers into an explanation."""

from ..release.explainer import Explainer
from .blocks.private_plot import PrivatePlot
from .blocks.private_ranking import PrivateRanking
from .clusters.cluster_histograms import ClusterHistograms
from .clusters.private_kmeans import PrivateKMeans
from .curves.accumulated_effects import AccumulatedEffects
from .curves.partial_dependence import PartialDependence
from .importance.permutation_importance import PermutationImportance
from .interaction.feature_interaction import FeatureInteraction
from .local.local_linear import LocalLinear
from .shapley.shap_dependence import ShapDependence
from .shapley.shap_importance import ShapImportance
from .shapley.shap_ranking import ShapRanking
from .shapley.shap_values import ShapValues
from .statistics.attribute_shares import AttributeShares
from .statistics.completeness import Completeness
from .statistics.distribution import Distribution
from .statistics.statistic import Statistic

__all__ = [
    "AccumulatedEffects",
    "AttributeShares",
    "ClusterHistograms",
    "Completeness",
    "Distribution",
    "Explainer",
    "FeatureInteraction",
    "LocalLinear",
    "PartialDependence",
    "PermutationImportance",
    "PrivateKMeans",
    "PrivatePlot",
    "PrivateRanking",
    "ShapDependence",
    "ShapImportance",
    "ShapRanking",
    "ShapValues",
    "Statistic",
]
