"""Published releases of Shapley values that the attacks compare with: values against the mean background, with Gaussian noise."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping

import numpy as np

from ...baselines import shapley
from .membership import Told

COALITIONS = 400
DELTA = 1e-5


@functools.cache
def design(features: int) -> shapley.Regression:
    """The coalitions of the published regression."""
    return shapley.regression(features, COALITIONS, np.random.default_rng(0), weighted=False)


@functools.cache
def sigmas(features: int, background: int, epsilon: float) -> Mapping[str, float]:
    """The noise of records in [0, 1]^d, clipped by the ball around their middle, and of a model with answers in [0, 1]."""
    regression = design(features)
    moved = {
        "published, certified": shapley.certified_sensitivity(regression, 1.0),
        "published, heuristic": shapley.heuristic_sensitivity(regression, 1.0, math.sqrt(features) / 2, background),
    }
    return {who: shapley.analytic_sigma(change, epsilon, DELTA) for who, change in moved.items()}


def values(
    answer: Callable[[np.ndarray], np.ndarray],
    asked: np.ndarray,
    background: np.ndarray,
    epsilon: float,
    rng: np.random.Generator,
) -> Mapping[str, Told]:
    """The Shapley values of a record, by the certified noise and by the heuristic that shrinks with the background."""
    exact = shapley.mean_background_values(answer, asked, background, design(len(asked)))
    noise = sigmas(len(asked), len(background), epsilon)
    return {who: Told(shapley.gaussian_values(exact, sigma, rng), sigma**2) for who, sigma in noise.items()}
