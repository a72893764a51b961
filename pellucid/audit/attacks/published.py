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


def values(
    answer: Callable[[np.ndarray], np.ndarray], asked: np.ndarray, background: np.ndarray, epsilon: float, rng: np.random.Generator
) -> Mapping[str, Told]:
    """Shapley values of a record in [0, 1]^d, by its certified noise and by the heuristic that shrinks with the background.

    The output of the model is in [0, 1] too, and the background is clipped by the ball around the middle.
    """
    d, n = len(asked), len(background)
    exact = shapley.mean_background_values(answer, asked, background, design(d))
    moved = {
        "published, certified": shapley.certified_sensitivity(design(d), 1.0),
        "published, heuristic": shapley.heuristic_sensitivity(design(d), 1.0, math.sqrt(d) / 2, n),
    }
    sigmas = {who: shapley.analytic_sigma(change, epsilon, DELTA) for who, change in moved.items()}
    return {who: Told(shapley.gaussian_values(exact, sigma, rng), sigma**2) for who, sigma in sigmas.items()}
