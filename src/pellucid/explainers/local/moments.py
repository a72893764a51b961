"""From noisy moments to φ, and how sure it is. Everything follows from released numbers and the public law of their noise.

Let B be the curvature that was solved with, B·φ̂ = b̃, and let φ be the minimum without noise, (A + λ)·φ = b with λ > 0 only on
the sphere. With Ã = A + N and b̃ = b + n, for whatever data,

    B·(φ̂ − φ) = (n − N·φ) − (B − Ã − λ)·φ.

The first part is noise of a known law. The second is what holds φ̂ back: curvature that was raised to that of the noise, and the
ball. It is known but for φ, which is no longer than the radius. So bars are made of `std`, from the first part, and of `pull`, a
bound on the second. Where the ball stops φ̂ and noise alone could have brought it there, λ counts as unknown, and the part along
φ̂ keeps its noise; no bar has width zero.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

Z = 1.959964
"""95 % of a normal variable lie within so many standard deviations."""

ONE_SIDED = 1.644854
"""95 % lie below so many."""


@dataclass(frozen=True)
class NoisyMoments:
    """A and b of the loss with noise: `matrix_std` on the diagonal of A, `vector_std` on b.

    Elsewhere in A the variance is `beside` times that of the diagonal: a half for Gaussian noise, one for other kinds.
    """

    matrix: np.ndarray
    vector: np.ndarray
    matrix_std: float
    vector_std: float
    beside: float = 0.5
    projector: np.ndarray | None = None
    """The directions in which records can differ; A and b are nothing in the others, whatever the noise says."""
    tail: float = 1.0
    """By how much 95 % of the noise reach further than those of normal noise with the same standard deviation."""

    @property
    def kept(self) -> np.ndarray:
        return np.eye(len(self.vector)) if self.projector is None else self.projector

    @property
    def directions(self) -> float:
        return float(np.trace(self.kept))

    @property
    def edge(self) -> float:
        """How far the eigenvalues of the noise in A reach."""
        return 2 * self.matrix_std * math.sqrt(self.beside * self.directions)

    def of_slope(self, phi: np.ndarray, length: float) -> np.ndarray:
        """The covariance of n − N·φ, for a φ in this direction that is so long."""
        kappa, kept = self.beside, self.kept
        of_matrix = kappa * (length**2 * np.eye(len(phi)) + np.outer(phi, phi)) + (1 - 2 * kappa) * np.diag(phi * phi)
        return kept @ (self.matrix_std**2 * of_matrix + self.vector_std**2 * np.eye(len(phi))) @ kept


@dataclass(frozen=True)
class Solved:
    """φ̂, and what it was solved with: eigenvectors of Ã, its eigenvalues as they came (`raw`) and as they were used."""

    phi: np.ndarray
    vectors: np.ndarray
    raw: np.ndarray
    values: np.ndarray
    multiplier: float
    radius: float

    @property
    def stopped(self) -> bool:
        """Whether the ball stops it."""
        return bool(np.linalg.norm(self.phi) > self.radius * (1 - 1e-9))


@dataclass(frozen=True)
class Certainty:
    """How sure a solution is. The value without noise lies within Z·`std` + `pull` with 95 %."""

    std: np.ndarray
    """What noise does to each coordinate."""
    pull: np.ndarray
    """How far, at most, curvature below the noise and the ball hold each coordinate from where it would be without noise."""
    excess: float
    """How far noise is expected to lift the loss above the smallest one."""
    gain: float
    """What it takes off the loss of saying nothing, without what noise adds to that."""
    gain_error: float
    """The standard deviation of that estimate."""


def smallest_in_ball(matrix: np.ndarray, vector: np.ndarray, radius: float, ridge: float = 0.0) -> tuple[np.ndarray, float]:
    """(φ, λ) with φ the minimum of φᵀAφ − 2bᵀφ + ridge·‖φ‖² over ‖φ‖ ≤ radius, and λ = ridge + the ball's multiplier.

    Negative eigenvalues, which noise makes, count as zero.

    >>> phi, _ = smallest_in_ball(np.eye(2), np.array([3.0, 4.0]), 1.0)
    >>> phi.round(6).tolist()
    [0.6, 0.8]
    """
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    values, turned = np.maximum(values, 0.0), vectors.T @ vector
    floor = max(ridge, 1e-12 * float(values.max(initial=0.0)), 1e-300)

    def size(multiplier: float) -> float:
        return float(np.linalg.norm(turned / (values + multiplier)))

    low, high = floor, floor + float(np.linalg.norm(turned)) / radius
    if size(low) > radius:
        for _ in range(200):
            middle = (low + high) / 2
            low, high = (middle, high) if size(middle) > radius else (low, middle)
        floor = high
    return vectors @ (turned / (values + floor)), floor


def raised(values: np.ndarray, noisy: NoisyMoments) -> np.ndarray:
    """Eigenvalues of A as they are used: none smaller than noise alone would show.

    The eigenvalues of symmetric noise with variance κ·s² off the diagonal reach 2s·√(κd), and those of A below that say nothing:
    they count as that, or as the mean curvature where this is smaller. It takes a quarter off the excess loss for 50 features and
    for 500 words, where a ridge does nothing, as the ball does the same.
    """
    mean = max(float(values.sum()) / noisy.directions, noisy.matrix_std)
    return np.maximum(values, min(noisy.edge, mean))


def solved(noisy: NoisyMoments, radius: float) -> Solved:
    """The minimum of the noisy problem in the ball."""
    kept = noisy.kept
    raw, vectors = np.linalg.eigh(kept @ (noisy.matrix + noisy.matrix.T) @ kept / 2)
    values = raised(raw, noisy)
    phi, multiplier = smallest_in_ball((vectors * values) @ vectors.T, kept @ noisy.vector, radius)
    return Solved(phi, vectors, raw, values, multiplier, radius)


def certainty(noisy: NoisyMoments, found: Solved) -> Certainty:
    """Error bars and gain of a solution; see above."""
    phi, vectors, radius = found.phi, found.vectors, found.radius
    s, v, tail = noisy.matrix_std, noisy.vector_std, noisy.tail
    length = float(np.linalg.norm(phi))
    held = found.values + found.multiplier
    # The ball is sure to stop φ where noise alone would not have brought it there, whichever way it points.
    alone = tail * _reach(noisy.directions) * math.hypot(v, s * radius)
    sure = found.stopped and found.multiplier * radius > alone

    back = (found.values - found.raw + (found.multiplier if found.stopped and not sure else 0.0)) / held
    # A ratio whose denominator has noise of its own: Fieller's interval lies around φ̂/(1 − g), and is endless from g = 1 on.
    g = np.minimum((Z * tail * s / held) ** 2, 1.0)
    odds = np.divide(g, 1 - g, out=np.full_like(g, np.inf), where=g < 1)
    aside = np.where(g < 1, np.minimum(odds, 1.0) * np.abs(vectors.T @ phi) / radius, 1.0)
    back = np.clip(np.maximum(back, aside), 0.0, 1.0)
    pull = radius * np.linalg.norm((noisy.kept @ vectors) * back, axis=1)

    moves = (vectors / held) @ vectors.T
    wider = (vectors / (held * np.sqrt(np.maximum(1 - g, 0.25)))) @ vectors.T
    likely = noisy.of_slope(phi, length)
    longest = noisy.of_slope(phi, min(radius, length + radius * float(back.max())))
    std, most = _spread(moves, likely), _spread(wider, longest)
    if found.stopped:
        on_sphere, wider_on_sphere = _along_sphere(moves, phi), _along_sphere(wider, phi)
        if sure:
            # A sphere is round: moves along it, and what is left across it, bring φ̂ nearer to the middle, to second order.
            across = float(np.sum(_spread(wider_on_sphere, longest) ** 2) + phi @ wider @ longest @ wider @ phi / length**2)
            pull = pull + np.abs(phi) / length * across / (2 * radius)
            moves, std, most = on_sphere, _spread(on_sphere, likely), _spread(wider_on_sphere, longest)
        else:
            std, most = (
                np.maximum(std, _spread(on_sphere, likely)),
                np.maximum(most, _spread(wider_on_sphere, longest)),
            )
    # What a denominator with noise adds to the spread is no part of the standard deviation, and of the bar.
    pull = pull + Z * tail * np.maximum(most - std, 0.0)

    # φ̂ was fitted to the noise too: what it seems to gain is too much by twice the excess, tr(B⁻¹·Cov), on average.
    lost = moves @ likely
    excess = max(0.0, float(np.trace(lost)))
    seen = float(2 * noisy.vector @ phi - phi @ ((vectors * found.raw) @ vectors.T) @ phi)
    of_matrix = 2 * noisy.beside * length**4 + (1 - 2 * noisy.beside) * float((phi**4).sum())
    variance_of_gain = 4 * v**2 * length**2 + s**2 * of_matrix + 8 * float(np.sum(lost * lost.T))
    return Certainty(tail * std, pull, excess, seen - 2 * excess, tail * math.sqrt(max(variance_of_gain, 0.0)))


def _spread(moves: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """Standard deviations of what moves so under noise of this covariance."""
    return np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", moves, covariance, moves, optimize=True), 0.0))


def _along_sphere(moves: np.ndarray, phi: np.ndarray) -> np.ndarray:
    """What φ does as b moves, where it has to stay as long as it is."""
    along = moves @ phi
    return moves - np.outer(along, along) / float(phi @ along)


def _reach(directions: float) -> float:
    """95 % of normal vectors are no longer than this (Wilson and Hilferty)."""
    part = 2 / (9 * directions)
    return math.sqrt(directions * (1 - part + ONE_SIDED * math.sqrt(part)) ** 3)


@dataclass(frozen=True)
class Foreseen:
    """What noise of this size would do to known moments."""

    error: np.ndarray
    """95 % of the answers would have each coordinate within this of the value without noise."""
    needed: float
    """How many times smaller noise has to be for an answer to be told from saying nothing; infinite where there is nothing to
    tell, and at most 1 where the noise is small enough."""


def foreseen(exact: NoisyMoments, radius: float) -> Foreseen:
    """The error to expect for moments that are known, under noise of the stated size.

    As in an answer, curvature is raised to that of the noise and the ball stops φ̂, but where it does follows from the mean length
    of b̃; and what holds φ̂ back is known here, since φ is.
    """
    kept = exact.kept
    raw, vectors = np.linalg.eigh(kept @ (exact.matrix + exact.matrix.T) @ kept / 2)
    raw, turned = np.maximum(raw, 0.0), vectors.T @ kept @ exact.vector
    best, multiplier = smallest_in_ball((vectors * raw) @ vectors.T, kept @ exact.vector, radius)
    stopped = bool(np.linalg.norm(best) > radius * (1 - 1e-9))
    slope = np.maximum(np.einsum("ij,jk,ki->i", vectors.T, exact.of_slope(best, float(np.linalg.norm(best))), vectors), 0.0)
    values = raised(raw, exact)

    _, held = smallest_in_ball(np.diag(values), np.sqrt(turned**2 + slope), radius)
    along = vectors.T @ best
    noise = np.sqrt(slope) / (values + held)
    back = (1 - (raw + (multiplier if stopped else 0.0)) / (values + held)) * along
    error = np.sqrt((vectors**2) @ noise**2 + (vectors @ back) ** 2)

    error = np.minimum(Z * exact.tail * error, radius + np.abs(best))

    # An answer is told when g > e/k + l/k² for noise k times smaller, e the error of the gain and l what noise costs of it.
    gain = float(2 * exact.vector @ best - best @ ((vectors * raw) @ vectors.T) @ best)
    if gain < 1e-12:
        return Foreseen(error, math.inf)
    of_vector, of_matrix = 2 * exact.vector_std * float(np.linalg.norm(best)), exact.matrix_std * float(best @ best)
    unsure = ONE_SIDED * exact.tail * math.hypot(of_vector, of_matrix) / gain
    lost = float((slope / np.maximum(raw + (multiplier if stopped else 0.0), values)).sum()) / gain
    return Foreseen(error, unsure / 2 + math.sqrt(unsure**2 / 4 + lost))
