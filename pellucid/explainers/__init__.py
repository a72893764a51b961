"""One file per explainer: what to ask, and how to turn answers into an explanation."""

from .accumulated_effects import AccumulatedEffects
from .base import Explainer
from .distribution import Distribution
from .partial_dependence import PartialDependence

__all__ = ["AccumulatedEffects", "Distribution", "Explainer", "PartialDependence"]
