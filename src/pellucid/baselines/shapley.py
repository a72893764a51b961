"""Kernel SHAP with a private background, released as published: for comparison only.

The mechanisms of "Differentially Private Ranking Release for Kernel SHAP" with the constants the paper prints. Nothing here can
be charged to an account: values are floats and noise comes from numpy's generator. What is wrong with each is said where it
stands.

All rest on the *mean* background f(x_S, mean of the records). One record can carry that mean over a split of a tree, and then a
value moves by the whole output range however many records there are. Our own explanations average over the records instead.

A model `f` takes a matrix, one row per record, and gives one number per row.

>>> stump = lambda rows: (rows[:, 0] > 0).astype(float)
>>> mean_background_values(stump, np.array([1.0, 0.0]), np.array([[-1.0, 0.0], [0.5, 0.0]]))
array([1., 0.])
>>> mean_background_values(stump, np.array([1.0, 0.0]), np.array([[-1.0, 0.0], [1.5, 0.0]]))
array([0., 0.])
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr

from ..explainers.shapley.coalitions import enumeration

Function = Callable[[np.ndarray], np.ndarray]

ROWS = 1 << 17
"""Mixtures held in memory at once."""


@dataclass(frozen=True, eq=False)
class Regression:
    """Sampled coalitions Z (rows of `masks`) and the operator R = (ZᵀWZ)⁻¹ZᵀW (section 2.1)."""

    masks: np.ndarray
    operator: np.ndarray

    @property
    def norm(self) -> float:
        """‖R‖₂"""
        return float(np.linalg.norm(self.operator, 2))

    @property
    def stretch(self) -> float:
        """√K·‖R‖₂: the factor between a bound on every response and one on the vector."""
        return math.sqrt(len(self.masks)) * self.norm


def regression(features: int, coalitions: int, rng: np.random.Generator, weighted: bool = True) -> Regression:
    """K coalitions drawn by the Shapley kernel and then weighted by it as well, as printed (section 2.1, appendix D.2).

    Drawn by the kernel they should have equal weights (`weighted=False`), which also makes ‖R‖₂ four times smaller at d = 20.
    Either way the values are not Shapley values, however many coalitions are drawn, since nothing makes them add up to
    f(x) − f(mean); Theorem 33 says that they do.
    """
    d = features
    sizes = np.arange(1, d)
    chance = 1.0 / (sizes * (d - sizes))
    size = rng.choice(sizes, size=coalitions, p=chance / chance.sum())
    masks = rng.random((coalitions, d)).argsort(axis=1).argsort(axis=1) < size[:, None]
    kernel = (d - 1) / (np.array([math.comb(d, int(s)) for s in size], dtype=float) * size * (d - size))
    weight = kernel if weighted else np.ones(coalitions)
    z = masks.astype(float)
    scaled = z * weight[:, None]
    return Regression(masks, np.linalg.solve(scaled.T @ z, scaled.T))


def values_at_means(f: Function, x: np.ndarray, means: np.ndarray, design: Regression | None = None) -> np.ndarray:
    """One vector per row of `means`, each standing for a background with that mean."""
    x, means = np.asarray(x, dtype=float), np.asarray(means, dtype=float)
    every = enumeration(len(x)) if design is None else None
    masks = every.masks if every is not None else design.masks  # type: ignore[union-attr]
    out = np.empty(means.shape)
    step = max(1, ROWS // len(masks))
    for start in range(0, len(means), step):
        some = means[start : start + step]
        answers = f(np.where(masks, x, some[:, None, :]).reshape(-1, len(x))).reshape(len(some), -1)
        if every is not None:
            out[start : start + step] = answers @ every.weights + f(x[None])[0] * every.full
        else:
            out[start : start + step] = (answers - f(some)[:, None]) @ design.operator.T  # type: ignore[union-attr]
    return out


def mean_background_values(f: Function, x: np.ndarray, background: np.ndarray, design: Regression | None = None) -> np.ndarray:
    """Shapley values of x against the mean of the background: by regression, or exact (up to 12 features) without a design.

    The mean is all that a background contributes, so the values of a record need not exist anywhere: a mean of codes is no code.
    """
    return values_at_means(f, x, np.asarray(background, dtype=float).mean(axis=0)[None], design)[0]


def largest_output(model: Any) -> float:
    """F_max of a scikit-learn random forest, gradient boosting or one-layer tanh regressor (Lemmas 34 to 36).

    Right, and up to twice too large; `pellucid.sensitivity.output_range` finds the range itself.
    """
    if hasattr(model, "coefs_"):
        if len(model.coefs_) != 2 or model.activation != "tanh":
            raise ValueError("Lemma 34 is for one hidden layer with tanh")
        return float(np.abs(model.coefs_[1]).sum() + np.abs(model.intercepts_[1]).sum())
    most = [float(np.abs(_leaves(tree)).max()) for tree in np.ravel(model.estimators_)]
    if not hasattr(model, "learning_rate"):
        return sum(most) / len(most)
    start = float(np.ravel(model.init_.predict(np.zeros((1, model.n_features_in_))))[0])
    return abs(start) + model.learning_rate * sum(most)


def _leaves(tree: Any) -> np.ndarray:
    return tree.tree_.value[tree.tree_.children_left < 0]


def certified_sensitivity(design: Regression, largest: float) -> float:
    """Δ₂ ≤ 4·F_max·√K·‖R‖₂ (Lemma 20). Holds for every model, and does not shrink with the number of records."""
    return 4 * largest * design.stretch


def lipschitz_sensitivity(design: Regression, slope: float, clip: float, records: int) -> float:
    """Δ₂ ≤ 2·B·L·√K·‖R‖₂/n (equation 2), for networks.

    Half of what its own argument gives: a response and the empty coalition it is centred by can move in opposite directions.
    """
    return 2 * clip * slope * design.stretch / records


def heuristic_sensitivity(design: Regression, largest: float, clip: float, records: int) -> float:
    """Equation 2 with F_max for the slope: what appendix E uses for all its models.

    Not printed there, but M/F_max is 0.112 for all three models of Table 19. It is no bound: F_max is not a slope, and a tree
    has none.
    """
    return lipschitz_sensitivity(design, largest, clip, records)


def classical_sigma(sensitivity: float, epsilon: float, delta: float) -> float:
    """σ = Δ·√(2·ln(1.25/δ))/ε (Theorem 19). Proved for ε below 1; too small from ε = 9 on at δ = 1e-5."""
    return sensitivity * math.sqrt(2 * math.log(1.25 / delta)) / epsilon


def gaussian_delta(shift: float, epsilon: float) -> float:
    """The δ of Gaussian noise on a number that can move by `shift` standard deviations (Balle and Wang 2018, Theorem 5)."""
    if shift <= 0:
        return 0.0
    return float(ndtr(shift / 2 - epsilon / shift) - np.exp(epsilon + log_ndtr(-shift / 2 - epsilon / shift)))


def analytic_sigma(sensitivity: float, epsilon: float, delta: float) -> float:
    """The smallest σ of the Gaussian mechanism at (ε, δ), for every ε (Balle and Wang 2018)."""
    shift = brentq(lambda s: gaussian_delta(s, epsilon) - delta, 1e-9, 10 * (epsilon + math.sqrt(epsilon)) + 10, xtol=1e-13)
    return sensitivity / shift


def gaussian_values(values: np.ndarray, sigma: float, rng: np.random.Generator) -> np.ndarray:
    """The full vector with Gaussian noise ("Mechanism A"). As private as the sensitivity behind σ is right."""
    return np.asarray(values) + sigma * rng.standard_normal(np.shape(values))


@dataclass(frozen=True)
class Bootstrap:
    """What Algorithm 1 found about one background: β, the envelope S and the noise it takes."""

    beta: float
    envelope: float
    sigma: float
    observed: float
    """The largest change seen, without the correction."""


def bootstrap_scale(
    f: Function,
    x: np.ndarray,
    background: np.ndarray,
    design: Regression,
    epsilon: float,
    rng: np.random.Generator,
    *,
    largest_change: float,
    delta: float = 1e-5,
    draws: int = 400,
    alpha: float = 0.01,
) -> Bootstrap:
    """Algorithm 1 with K_max = 0, as run in the paper: the largest change seen in resampled swaps, plus a Bernstein term.

    `largest_change` is M_LS, a bound on the change of a vector; the trees of Table 7 were run with half of
    `certified_sensitivity`, or their σ could not be as small as printed. Not private, for four reasons. Swaps draw from the
    records themselves, so a person unlike the others is never tried. The scale depends on the data, and changes between
    neighbours by more than e^β. The Bernstein term bounds a mean, not the largest change. And even for a true smooth bound
    the constants are too small: in 20 dimensions δ is above 1e-3 where 1e-5 is claimed (`smooth_sigma` has larger ones).
    """
    records = np.asarray(background, dtype=float)
    n, mean = len(records), records.mean(axis=0)
    # Only n² swaps exist; each is worked out once, whatever the number of draws.
    fresh = rng.integers(n, size=(draws, n))
    pairs, where = np.unique(np.arange(n) * n + fresh, return_inverse=True)
    moved = values_at_means(f, x, mean + (records[pairs % n] - records[pairs // n]) / n, design)
    change = np.linalg.norm(moved - values_at_means(f, x, mean[None], design), axis=1)
    seen = change[where.reshape(draws, n)].max(axis=1)
    rest = math.log(2 / alpha)
    correction = math.sqrt(2 * float(seen.var(ddof=1)) * rest / draws) + 7 * largest_change * rest / (3 * (draws - 1))
    envelope = float(seen.max()) + correction
    return Bootstrap(
        beta=epsilon / (2 * math.log(1 / delta)),
        envelope=envelope,
        sigma=classical_sigma(envelope, epsilon, delta),
        observed=float(seen.max()),
    )


def smooth_sigma(envelope: float, epsilon: float, delta: float) -> float:
    """Noise for a *true* β-smooth bound on the local sensitivity, β = `smooth_beta` (Nissim, Raskhodnikova and Smith 2007).

    A resampled envelope is no such bound, so this does not make Algorithm 1 private.
    """
    return envelope * 5 * math.sqrt(2 * math.log(2 / delta)) / epsilon


def smooth_beta(dimensions: int, epsilon: float, delta: float) -> float:
    """The smoothness that d-dimensional Gaussian noise allows: it shrinks with d, the paper's ε/(2·ln(1/δ)) does not."""
    return epsilon / (4 * (dimensions + math.log(2 / delta)))


def exponential_top(values: np.ndarray, k: int, sensitivity: float, epsilon: float, rng: np.random.Generator) -> list[int]:
    """The k features largest by size, one after the other, ε/k each (Theorems 14 and 16).

    Right where Δ∞ is a bound. The paper measures it: twenty or thirty perturbations, of the record asked about at that.
    """
    noisy = epsilon / (2 * k * sensitivity) * np.abs(values) + rng.gumbel(size=len(values))
    return [int(i) for i in np.argsort(-noisy)[:k]]


def above_threshold_as_published(
    values: np.ndarray, sensitivity: float, epsilon: float, rng: np.random.Generator, order: Sequence[int] | None = None
) -> int | None:
    """The first feature found above a noisy second largest size, half of ε each (section 8.8). None: no feature was.

    The textbook noise is for a public threshold. Here the threshold moves too, and the loss reaches 1.5·ε in any fixed order.
    The order of the scan is not printed. Without one the features are scanned from the largest down, which tells the order
    itself at any ε: the largest is found half of the time even with endless noise. That would explain the 0.508 of Table 14,
    where other private choices are right in a tenth of the draws.
    """
    sizes = np.abs(values)
    scan = np.argsort(-sizes, kind="stable") if order is None else order
    return _above(sizes, scan, 2 * sensitivity / epsilon, 4 * sensitivity / epsilon, rng)


def above_threshold(values: np.ndarray, sensitivity: float, epsilon: float, rng: np.random.Generator) -> int | None:
    """The same scan with twice the noise on the threshold, Lap(2Δ/ε₁) with ε₁ = ε/2, and the features in their own order.

    ε-private where Δ∞ is a bound.
    """
    return _above(np.abs(values), range(len(values)), 4 * sensitivity / epsilon, 4 * sensitivity / epsilon, rng)


def _above(
    sizes: np.ndarray, scan: Sequence[int] | np.ndarray, at_threshold: float, at_values: float, rng: np.random.Generator
) -> int | None:
    threshold = np.sort(sizes)[-2] + rng.laplace(scale=at_threshold)
    return next((int(i) for i in scan if sizes[i] + rng.laplace(scale=at_values) >= threshold), None)


def sparse_support(values: np.ndarray, threshold: float, sigma: float, rng: np.random.Generator) -> dict[int, float]:
    """The features whose *exact* size is above a public threshold, with noisy values (section 4.5).

    Not private whatever σ is: which features are named has no noise. Threshold noisy values instead.
    """
    return {int(i): float(values[i] + sigma * rng.standard_normal()) for i in np.flatnonzero(np.abs(values) > threshold)}
