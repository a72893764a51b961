"""From noisy answers to an explanation: one draw, or noisy steps downhill. No rows are in scope here.

Everything is written against an oracle. What a method does next is a function of what the oracle answered, so that the number of
steps, the noise of each and the place where it stops are post-processing of released values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, Protocol, get_args

import numpy as np

from ...errors import PlanError
from ...mechanisms import RESOLUTION
from .moments import NoisyMoments as NoisyMoments
from .moments import certainty, solved
from .moments import smallest_in_ball as smallest_in_ball
from .weights import Weight

Method = Literal["one-shot", "descent", "adaptive", "enhanced"]
METHODS: tuple[str, ...] = get_args(Method)

FEWEST = 100
"""Steps an adaptive descent takes at least, however little they may cost together."""

WARM_RATE = 0.5
"""Steps that start near the optimum are this much shorter: they have less way to go, and follow noise less."""

LATE_RATE = 0.5
"""The first half of the steps goes downhill; the other half, which is averaged, takes shorter ones that follow noise less."""


@dataclass(frozen=True)
class NoisyGradient:
    """The gradient of the loss with noise of standard deviation `std` on every coordinate."""

    values: np.ndarray
    std: float
    directions: int
    """In how many directions there is noise: fewer than coordinates where some add up to nothing."""

    @property
    def length(self) -> float:
        """How long the gradient is without its noise, estimated: √max(0, ‖g‖² − d·σ²)."""
        return math.sqrt(max(0.0, float(self.values @ self.values) - self.directions * self.std**2))


class Oracle(Protocol):
    """What a method may ask about the record in question. Each call is a charge of `rho`, made before data is read.

    `longest` is a public bound on the curvature 2·A that one record brings.
    """

    length: int
    radius: float
    longest: float

    def moments(self, stage: str, rho: Fraction) -> NoisyMoments: ...

    def gradient(self, stage: str, phi: np.ndarray, rho: Fraction) -> NoisyGradient: ...

    def start(self, stage: str, candidates: Sequence[np.ndarray], rho: Fraction) -> int: ...


@dataclass(frozen=True)
class Solution:
    """An explanation as numbers: φ, how sure it is where that is known (`Certainty`), and what it took.

    `excess` estimates how far the loss lies above the smallest one because of noise, `gain` how far below that of saying nothing;
    `steps` counts slopes asked for.
    """

    phi: np.ndarray
    std: np.ndarray | None
    excess: float
    steps: int
    cost: Fraction
    started_from: int | None = None
    gain: float | None = None
    gain_error: float | None = None
    pull: np.ndarray | None = None


GRAIN = RESOLUTION
"""Steps are paid for in whole parts of the ledger's grid, rounded down: then what was planned is what is charged."""


def step_price(rho: Fraction, steps: int) -> Fraction:
    """An equal part of the price for each step, on the ledger's grid."""
    units = math.floor(rho / steps * GRAIN)
    if units < 1:
        raise PlanError(
            f"ρ = {float(rho):.3g} is too little for {steps} steps; take fewer steps=, fewer questions= or method='one-shot'."
        )
    return Fraction(units, GRAIN)


def in_ball(phi: np.ndarray, radius: float) -> np.ndarray:
    """The nearest point of the ball."""
    size = float(np.linalg.norm(phi))
    return phi if size <= radius else phi * (radius / size)


def one_shot(noisy: NoisyMoments, radius: float, cost: Fraction = Fraction(0)) -> Solution:
    """Solve the noisy problem in the ball; error bars and gain come from the same moments."""
    found = solved(noisy, radius)
    sure = certainty(noisy, found)
    return Solution(found.phi, sure.std, sure.excess, 0, cost, None, sure.gain, sure.gain_error, sure.pull)


def ask_once(oracle: Oracle, rho: Fraction, stage: str = "moments") -> Solution:
    """A and b by one draw for the whole price."""
    return one_shot(oracle.moments(stage, rho), oracle.radius, rho)


def descent(
    oracle: Oracle, rho: Fraction, steps: int = 300, start: np.ndarray | None = None, rate: Callable[[int], float] | None = None
) -> Solution:
    """Algorithm 1: a fixed number of noisy steps, each for an equal part of the price; the later half is averaged."""
    _check_steps(steps)
    each = step_price(rho, steps)
    return _walk(oracle, np.zeros(oracle.length) if start is None else start, [each] * steps, "slope", rate)


def adaptive(
    oracle: Oracle, rho: Fraction, steps: int = 300, candidates: Sequence[np.ndarray] = (), enhanced: bool = False
) -> Solution:
    """Algorithms 2 and 3, repaired: a paid choice among earlier explanations, then as many steps as the first slope calls for.

    The first noisy slope measures how far the start is from the optimum, without its noise: β² = max(0, ‖g‖² − d·σ²). What the
    question then may cost is what T·√(log T)·max(√d·σ, β) of the T steps would, or with `enhanced` T·√(log T)·β, at least 2.
    Where that is less than all T steps, it is divided among at least `FEWEST` of them: many noisy steps go further than a few
    exact ones.
    """
    _check_steps(steps)
    each = step_price(rho, steps)
    spent, chosen, phi = Fraction(0), None, np.zeros(oracle.length)
    if candidates:
        offered = [phi, *candidates]
        place = oracle.start("start", offered, each)
        spent, chosen, phi = each, place - 1 if place else None, offered[place]
    first = oracle.gradient("slope 1", phi, each)
    spent += each
    floor = 0.0 if enhanced else math.sqrt(first.directions) * first.std
    needed = max(floor, first.length) * math.sqrt(math.log(max(steps, 3))) * steps
    # The choice of the start takes the place of one step, so that no question costs more than rho.
    worth = min(max(2, math.ceil(needed)), steps - (1 if candidates else 0)) - 1
    # Never so many that a step would cost less than the ledger can count.
    more = min(max(worth, min(steps, FEWEST) - 1), math.floor(each * worth * GRAIN)) if worth else 0
    part = step_price(each * worth, more) if more else each
    walked = _Walk(oracle, phi, None, 1.0 if chosen is None else WARM_RATE)
    walked.take(first, more + 1)
    for t in range(more):
        walked.take(oracle.gradient(f"slope {t + 2}", walked.phi, part), more + 1)
    found = walked.solution(spent + part * more)
    return Solution(found.phi, None, found.excess, more + 1, found.cost, chosen)


def _check_steps(steps: int) -> None:
    if isinstance(steps, bool) or not isinstance(steps, int) or not 2 <= steps <= 100_000:
        raise PlanError(f"steps={steps!r}: give a whole number from 2 to 100000; the paper uses 300.")


def _walk(
    oracle: Oracle, start: np.ndarray, prices: Sequence[Fraction], stage: str, rate: Callable[[int], float] | None
) -> Solution:
    walked = _Walk(oracle, start, rate)
    for t, price in enumerate(prices, 1):
        walked.take(oracle.gradient(f"{stage} {t}", walked.phi, price), len(prices))
    return walked.solution(sum(prices, Fraction(0)))


class _Walk:
    """Projected steps downhill, and the averages over the later half of them."""

    def __init__(self, oracle: Oracle, start: np.ndarray, rate: Callable[[int], float] | None, pace: float = 1.0):
        self.oracle, self.rate, self.pace = oracle, rate, pace
        self.phi = in_ball(np.asarray(start, dtype=float), oracle.radius)
        self.taken = 0
        self.mean, self.slope, self.averaged = np.zeros(oracle.length), np.zeros(oracle.length), 0
        self.variance, self.directions = 0.0, oracle.length

    def take(self, slope: NoisyGradient, planned: int) -> None:
        self.taken += 1
        late = 2 * self.taken > planned
        rate = self.rate(self.taken) if self.rate else self.pace * (LATE_RATE if late else 1.0) / self.oracle.longest
        if late:
            self.averaged += 1
            self.slope += (slope.values - self.slope) / self.averaged
            self.variance, self.directions = self.variance + slope.std**2, slope.directions
        self.phi = in_ball(self.phi - rate * slope.values, self.oracle.radius)
        if late:
            self.mean += (self.phi - self.mean) / self.averaged

    def solution(self, cost: Fraction) -> Solution:
        # A convex loss lies above its minimum by at most the slope times the way to it. The slope is known up to its noise only,
        # which stays in: below it nothing was seen, and projection hides a part. So this is a guide and no bound.
        inside = np.linalg.norm(self.mean) < 0.999 * self.oracle.radius
        seen = self.slope if inside else self.slope - self.mean * float(self.slope @ self.mean) / float(self.mean @ self.mean)
        std = math.sqrt(self.variance) / self.averaged
        left = math.hypot(NoisyGradient(seen, std, self.directions).length, std * math.sqrt(self.directions))
        return Solution(self.mean, None, left * self.oracle.radius, self.taken, cost)


def explain(method: str, oracle: Oracle, rho: Fraction, *, steps: int = 300, candidates: Sequence[np.ndarray] = ()) -> Solution:
    """One question by the method of that name, for at most `rho`; `candidates` are earlier explanations to start from."""
    if method == "one-shot":
        return ask_once(oracle, rho)
    if method == "descent":
        return descent(oracle, rho, steps)
    if method in ("adaptive", "enhanced"):
        return adaptive(oracle, rho, steps, candidates, enhanced=method == "enhanced")
    raise PlanError(f"method={method!r}: use one of {', '.join(METHODS)}.")


PULL = 1.0
"""How many records of weight one the earlier explanations themselves count for, where the outputs at their records are fitted."""


def non_interactive(
    asked: Sequence[float],
    records: np.ndarray,
    explanations: np.ndarray,
    weight: Weight,
    radius: float = 1.0,
    labels: np.ndarray | None = None,
) -> np.ndarray:
    """Algorithm 4: fit what was said before around a new record, without data and for nothing.

    `records` are the records asked about before, in coordinates. The paper fits φ_j·z_j at them, which is worse than saying
    nothing. With `labels`, the outputs of a public model there, these are fitted instead, and the fit is pulled to the mean of
    the nearest explanations: the outputs know the place, and the explanations the directions in which nobody has asked.
    """
    z, known, said = np.asarray(asked, dtype=float), np.asarray(records, dtype=float), np.asarray(explanations, dtype=float)
    u = known - z
    away = np.linalg.norm(u, axis=1)
    alpha = weight.at(away)
    if labels is None:
        matrix, vector = (u * alpha[:, None]).T @ u, u.T @ (alpha * np.einsum("ij,ij->i", said, known))
        return smallest_in_ball(matrix, vector, radius, 1e-9 * max(1.0, float(alpha.sum())))[0]
    near = np.exp(-((away / max(float(np.sort(away)[:5].max()), 1e-9)) ** 2))
    matrix = (u * alpha[:, None]).T @ u + PULL * np.eye(len(z))
    return smallest_in_ball(matrix, u.T @ (alpha * labels) + PULL * (near @ said) / near.sum(), radius)[0]
