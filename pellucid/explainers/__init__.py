"""One file per explainer: what to ask, and how to turn answers into an explanation."""

from .accumulated_effects import AccumulatedEffects
from .attribute_shares import AttributeShares
from .base import Explainer
from .cluster_histograms import ClusterHistograms
from .distribution import Distribution
from .feature_interaction import FeatureInteraction
from .local_linear import LocalLinear
from .partial_dependence import PartialDependence
from .permutation_importance import PermutationImportance
from .private_kmeans import PrivateKMeans
from .private_plot import PrivatePlot
from .private_ranking import PrivateRanking
from .shap_dependence import ShapDependence
from .shap_importance import ShapImportance
from .shap_ranking import ShapRanking
from .shap_values import ShapValues
from .statistic import Statistic

__all__ = [
    "AccumulatedEffects",
    "AttributeShares",
    "ClusterHistograms",
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
