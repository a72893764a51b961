"""The images, the small sigmoid network, its exact derivatives, its training, and what that training costs in privacy."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr, ndtr

from pellucid.engine.progress import track
from pellucid.mechanisms.amounts import epsilon_of_rho

SIDE, HIDDEN, CLASSES = 5, 8, ("vertical", "horizontal")
PIXELS = SIDE * SIDE
BARS = np.zeros((2, PIXELS))
BARS[0, SIDE // 2 :: SIDE] = BARS[1, PIXELS // 2 - SIDE // 2 : PIXELS // 2 + SIDE // 2 + 1] = 1


@dataclass(frozen=True)
class Reading:
    """One way to fill in what the paper does not say.

    `middle` is the 8 × 8 layer of the appendix; without it the bias comes after the first sigmoid, as in the authors' notebook.
    `stretch` rescales every image to [0, 1]. `ink` is the value of a bar, 1 or 0; the background has the other one.
    `noise_over` divides the noise, while gradients are divided by the number of images. `joint` clips by the norm of the
    gradient by weights, pixels and label together. `fresh` gives DP-SGD its own images and starting weights.
    """

    name: str = "appendix"
    middle: bool = True
    stretch: bool = False
    ink: float = 1.0
    rate: float = 0.1
    clip: float = 0.1
    multiplier: float = 5.0
    noise_over: int | None = None
    joint: bool = False
    fresh: bool = False

    @property
    def layers(self) -> str:
        return f"{PIXELS}-{HIDDEN}-{HIDDEN}-1" if self.middle else f"{PIXELS}-{HIDDEN}-1"


APPENDIX = Reading()
NOTEBOOK = Reading("notebook", middle=False, stretch=True, noise_over=1000, joint=True, fresh=True)


def _sigmoid(t: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-t))


def _squares(rows: np.ndarray) -> np.ndarray:
    return np.einsum("ij,ij->i", rows, rows)


@dataclass(frozen=True)
class Network:
    """The weights as one flat vector: first layer (25 × 8), middle layer (8 × 8, if any), bias (8), last layer (8)."""

    weights: np.ndarray
    middle: bool = True

    @staticmethod
    def size(middle: bool) -> int:
        return PIXELS * HIDDEN + HIDDEN * HIDDEN * middle + 2 * HIDDEN

    def parts(self) -> tuple[np.ndarray, np.ndarray | None, np.ndarray, np.ndarray]:
        first, rest = self.weights[: PIXELS * HIDDEN].reshape(PIXELS, HIDDEN), self.weights[PIXELS * HIDDEN :]
        middle = rest[: HIDDEN * HIDDEN].reshape(HIDDEN, HIDDEN) if self.middle else None
        return first, middle, rest[-2 * HIDDEN : -HIDDEN], rest[-HIDDEN:]

    def forward(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What the two hidden layers pass on, and the logit."""
        first, middle, bias, last = self.parts()
        low = _sigmoid(x @ first)
        high = low + bias if middle is None else _sigmoid(low @ middle + bias)
        return low, high, high @ last

    def backward(self, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, ...]:
        """Hidden layers, logit, and each image's derivatives of the loss by logit, bias and what enters the first sigmoid."""
        _, middle, _, last = self.parts()
        low, high, logit = self.forward(x)
        # -s·sigmoid(-s·logit) is p - y without the cancellation, and analytic, so that x may be complex.
        sign = 2 * y - 1
        by_logit = -sign * _sigmoid(-sign * logit)
        by_high = by_logit[:, None] * last
        if middle is not None:
            by_high = by_high * high * (1 - high)
        by_low = (by_high if middle is None else by_high @ middle.T) * low * (1 - low)
        return low, high, logit, by_logit, by_high, by_low

    def loss(self, x: np.ndarray, y: np.ndarray) -> float:
        return float(np.logaddexp(0, (1 - 2 * y) * self.forward(x)[2]).mean())

    def accuracy(self, x: np.ndarray, y: np.ndarray) -> float:
        return float(((self.forward(x)[2] > 0) == (y > 0)).mean())


def draw_images(rng: np.random.Generator, each: int, reading: Reading = APPENDIX) -> tuple[np.ndarray, np.ndarray]:
    """`each` vertical bars (label 0), then `each` horizontal ones (label 1), with noise of standard deviation 0.2."""
    labels = np.repeat([0, 1], each)
    base = BARS if reading.ink == 1 else 1 - BARS
    x = base[labels] + rng.normal(0, 0.2, (2 * each, PIXELS))
    if reading.stretch:
        x = (x - x.min(axis=1, keepdims=True)) / np.ptp(x, axis=1, keepdims=True)
    return x, labels.astype(float)


def initial_network(rng: np.random.Generator, reading: Reading = APPENDIX) -> Network:
    return Network(rng.uniform(-1, 1, Network.size(reading.middle)), reading.middle)


def gradient_norms(network: Network, x: np.ndarray, y: np.ndarray, joint: bool = False) -> np.ndarray:
    """The L2 norm of every image's gradient by the weights; `joint` counts its pixels and its label in as well."""
    return _norms(network, x, network.backward(x, y), joint)


def _norms(network: Network, x: np.ndarray, passed: tuple[np.ndarray, ...], joint: bool) -> np.ndarray:
    # A product of two vectors has the product of their norms, so no image's gradient has to be written out.
    low, high, logit, by_logit, by_high, by_low = passed
    by_middle = _squares(low) if network.middle else 0.0
    squared = by_logit**2 * _squares(high) + _squares(by_high) * (1 + by_middle) + _squares(by_low) * _squares(x)
    if joint:
        # The derivative of the cross-entropy by the label is minus the logit.
        squared += _squares(by_low @ network.parts()[0].T) + logit**2
    return np.sqrt(squared)


def gradient_sum(
    network: Network, x: np.ndarray, y: np.ndarray, clip: float | None = None, joint: bool = False
) -> tuple[np.ndarray, float]:
    """The sum over images of the gradients by the weights, each shrunk to norm `clip` at most, and the mean loss."""
    passed = network.backward(x, y)
    low, high, logit, by_logit, by_high, by_low = passed
    if clip is not None:
        factor = np.minimum(1, clip / np.maximum(_norms(network, x, passed, joint), 1e-300))
        by_logit, by_high, by_low = by_logit * factor, by_high * factor[:, None], by_low * factor[:, None]
    middle = [(low.T @ by_high).ravel()] if network.middle else []
    total = np.concatenate([(x.T @ by_low).ravel(), *middle, by_high.sum(axis=0), high.T @ by_logit])
    return total, float(np.logaddexp(0, (1 - 2 * y) * logit).mean())


def input_gradient(network: Network, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The derivative of every image's loss by its pixels."""
    return network.backward(x, y)[-1] @ network.parts()[0].T


def partial_sensitivities(network: Network, x: np.ndarray, y: np.ndarray) -> dict[str, np.ndarray]:
    """Per image and pixel: `share`, g_j / ‖g‖; `gradient`, H·g / ‖g‖, the gradient of ‖g‖; and `joint`. Exact to rounding.

    >>> network = initial_network(np.random.default_rng(0))
    >>> share = partial_sensitivities(network, *draw_images(np.random.default_rng(1), 3))["share"]
    >>> (share**2).sum(axis=1).round(12).tolist()
    [1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    """
    g = input_gradient(network, x, y)
    share = g / np.maximum(np.linalg.norm(g, axis=1, keepdims=True), 1e-300)
    # H·v is the derivative of the gradient in direction v: an imaginary step has no subtraction and so no rounding to balance.
    step = 1e-30
    gradient = input_gradient(network, x + 1j * step * share, y).imag / step
    return {"share": share, "gradient": gradient, "joint": g / gradient_norms(network, x, y, joint=True)[:, None]}


@dataclass(frozen=True)
class Run:
    """A training: the weights and the loss before every step and after the last."""

    weights: np.ndarray
    losses: np.ndarray
    middle: bool

    def after(self, steps: int) -> Network:
        return Network(self.weights[steps], self.middle)

    def first_at(self, loss: float) -> int:
        """The first step at which the loss is down to this value; the last step if it never is."""
        reached = np.flatnonzero(self.losses <= loss)
        return int(reached[0]) if len(reached) else len(self.losses) - 1


def train(
    network: Network,
    x: np.ndarray,
    y: np.ndarray,
    rng: np.random.Generator,
    *,
    steps: int,
    clip: float | None = None,
    noise: float = 0.0,
    reading: Reading = APPENDIX,
    label: str | None = None,
) -> Run:
    """Full-batch descent on averaged gradients. `noise` is the standard deviation on the sum, multiplier × clip for DP-SGD."""
    n, weights, losses = len(x), np.empty((steps + 1, network.weights.size)), np.empty(steps + 1)
    weights[0] = network.weights
    rounds: Iterable[int] = range(steps)
    for t in track(rounds, steps, label) if label else rounds:
        total, losses[t] = gradient_sum(Network(weights[t], network.middle), x, y, clip, reading.joint)
        mean = total / n
        if noise:
            mean += rng.normal(0, noise, total.size) / (reading.noise_over or n)
        weights[t + 1] = weights[t] - reading.rate * mean
    run = Run(weights, losses, network.middle)
    losses[steps] = run.after(steps).loss(x, y)
    return run


def gaussian_delta(epsilon: float, mu: float) -> float:
    """The exact δ of a Gaussian mechanism whose sensitivity is `mu` standard deviations (Balle and Wang 2018, Theorem 8)."""
    return float(ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon + float(log_ndtr(-mu / 2 - epsilon / mu))))


def gaussian_epsilon(mu: float, delta: float) -> float:
    """The smallest ε with that δ, by halving, rounded up."""
    low, high = 0.0, 1.0
    while gaussian_delta(high, mu) > delta:
        low, high = high, 2 * high
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (low, middle) if gaussian_delta(middle, mu) <= delta else (middle, high)
    return high


@dataclass(frozen=True)
class Privacy:
    """What noisy full-batch steps cost when one image is added or removed; the divisor of the mean is a public constant."""

    steps: int
    multiplier: float
    delta: float = 1e-5

    @property
    def rho(self) -> float:
        """zCDP: every step is a Gaussian mechanism with 1 / (2·multiplier²), and they add up."""
        return self.steps / (2 * self.multiplier**2)

    @property
    def epsilon(self) -> float:
        """What that ρ implies at this δ. Claim: zcdp-conversion"""
        return epsilon_of_rho(self.rho, self.delta)

    @property
    def exact_epsilon(self) -> float:
        """Steps of Gaussian noise compose into one Gaussian mechanism with sensitivity √steps / multiplier."""
        return gaussian_epsilon(math.sqrt(self.steps) / self.multiplier, self.delta)
