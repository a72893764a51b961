"""Local linear explanations by noisy gradient descent, as published: for comparison only.

Algorithms 1 to 4 of "Model Explanations with Differential Privacy" with the constants the paper prints. Nothing here can be
charged to an account: values are floats and noise comes from numpy's generator. What is wrong with each is said where it stands.

`x` holds one record per row, `f` the model's answers in [−1, 1], and `z` the record asked about.

>>> x, f = np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([1.0, -1.0])
>>> moments(np.zeros(2), x, f)[1].round(3).tolist()
[-0.125, 0.125]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from ..explainers.local.methods import in_ball, smallest_in_ball

WeightFunction = Callable[[np.ndarray], np.ndarray]
Rate = Callable[[int], float]


def equation_5(r: np.ndarray, c: float = 1.0) -> np.ndarray:
    """The stable weight of equation (5)."""
    r = np.asarray(r, dtype=float)
    return np.where(r <= (math.sqrt(2 * c + 1) - 1) / 2, 1.0, c / np.maximum(2 * r * (1 + r), 1e-300))


def moments(z: np.ndarray, x: np.ndarray, f: np.ndarray, weight: WeightFunction = equation_5) -> tuple[np.ndarray, np.ndarray]:
    """A and b with ∇L(φ) = 2(Aφ − b): the paper's loop has the same law when it is run on these.

    They are divided by |X|, as printed: one record more or less then changes every other record's part too, and lemma 3.1
    does not hold for neighbours of different sizes.
    """
    u = x - z
    alpha = weight(np.linalg.norm(u, axis=1))
    return (u * alpha[:, None]).T @ u / len(x), u.T @ (alpha * f) / len(x)


def published_sigma(records: int, steps: int, epsilon: float, delta: float) -> float:
    """Line 1 of Algorithm 1. It is 15 to 20 times larger than the noise that (ε, δ) needs.

    >>> round(published_sigma(50_000, 300, 0.1, 1e-6), 3)
    0.232
    """
    inner = 16 * steps * math.log(math.e + math.sqrt(steps) * epsilon / delta) * math.log(steps / delta)
    return math.sqrt(inner) / (records * epsilon)


def dpgd_explain(
    start: np.ndarray, sigma: float, steps: int, a: np.ndarray, b: np.ndarray, rate: Rate, rng: np.random.Generator
) -> np.ndarray:
    """The procedure DPGD-Explain: T − 1 noisy steps in the unit ball; the last point is returned."""
    phi = in_ball(np.asarray(start, dtype=float), 1.0)
    for t in range(1, steps):
        noisy = 2 * (a @ phi - b) + rng.normal(0, sigma, len(phi))
        phi = in_ball(phi - rate(t) * noisy, 1.0)
    return phi


def algorithm_1(
    z: np.ndarray,
    x: np.ndarray,
    f: np.ndarray,
    epsilon: float,
    delta: float,
    rng: np.random.Generator,
    steps: int = 300,
    eta: float = 1.0,
    weight: WeightFunction = equation_5,
) -> np.ndarray:
    """Interactive DP Model Explanation, with the learning rate η/√t."""
    a, b = moments(z, x, f, weight)
    sigma = published_sigma(len(x), steps, epsilon, delta)
    return dpgd_explain(np.zeros(x.shape[1]), sigma, steps, a, b, lambda t: eta / math.sqrt(t), rng)


@dataclass(frozen=True)
class Parameters:
    """What Algorithm 2 hands to the descent. β, σ and T′ are exact functions of the data, so they leak."""

    start: np.ndarray
    sigma: float
    steps: int
    beta: float


def algorithm_2(
    a: np.ndarray,
    b: np.ndarray,
    history: Sequence[np.ndarray],
    records: int,
    epsilon: float,
    sigma_min: float,
    steps: int,
    rng: np.random.Generator,
    enhanced: bool = False,
) -> Parameters:
    """Parameters-DPGD: a start by the exponential mechanism, then β = ‖∇L‖ *without noise*, and σ and T′ from it.

    `enhanced` is the change of section 4.4: the number of steps from β alone, at least 2.
    """
    n = len(b)
    if not history:
        return Parameters(np.zeros(n), sigma_min, steps, math.inf)
    lengths = np.array([np.linalg.norm(2 * (a @ phi - b)) for phi in history])
    exponent = -records * epsilon * lengths / 2
    chances = np.exp(exponent - exponent.max())
    place = int(rng.choice(len(history), p=chances / chances.sum()))
    beta = float(lengths[place])
    sigma = max(beta / math.sqrt(n), sigma_min)
    size = max(beta, 1e-12) if enhanced else math.sqrt(n) * sigma
    power = math.log(1 / size) / math.log(math.log(steps)) if size < 1 else 0.0
    wanted = size ** (1 - 1 / (2 * power)) * steps if power > 0.5 else steps
    return Parameters(history[place], sigma, int(min(max(2 if enhanced else 1, math.ceil(wanted)), steps)), beta)


def strong_composition(epsilons: Sequence[float], slack: float) -> float:
    """ε of many mechanisms together at a further δ of `slack` (Kairouz, Oh and Viswanath, theorem 3.5)."""
    each = np.asarray(epsilons, dtype=float)
    squares = float((each**2).sum())
    drift = float((each * np.expm1(each) / (np.exp(each) + 1)).sum())
    return drift + math.sqrt(2 * squares * math.log(math.e + math.sqrt(squares) / slack))


@dataclass
class Algorithm3:
    """Adaptive DP for Model Explanation: questions arrive one by one until the budget is used up.

    It halts *after* a question has gone over the budget (line 14), on exact functions of the data.
    """

    x: np.ndarray
    f: np.ndarray
    epsilon: float
    delta: float
    epsilon_min: float
    delta_min: float
    rng: np.random.Generator
    steps: int = 300
    eta: float = 1.0
    enhanced: bool = False
    weight: WeightFunction = equation_5
    asked: list[np.ndarray] = field(default_factory=list)
    explained: list[np.ndarray] = field(default_factory=list)
    flags: list[bool] = field(default_factory=list)
    spent: list[float] = field(default_factory=list)

    @property
    def epsilon_each(self) -> float:
        return self.epsilon_min / math.sqrt(8 * self.steps * math.log(2 / self.delta_min))

    @property
    def sigma_min(self) -> float:
        return math.sqrt(2 * math.log(2.5 * self.steps / self.delta_min)) / (len(self.x) * self.epsilon_each)

    @property
    def epsilon_spent(self) -> float:
        return strong_composition(self.spent, self.delta / 2) if self.spent else 0.0

    def explain(self, z: np.ndarray) -> np.ndarray | None:
        """The explanation of a record, or None when the budget is exhausted."""
        within = math.log(self.steps) / math.sqrt(self.steps)
        for known, phi, computed in zip(self.asked, self.explained, self.flags):
            if computed and np.linalg.norm(known - z) <= within:
                return self._keep(z, phi, False)
        a, b = moments(z, self.x, self.f, self.weight)
        chosen = algorithm_2(
            a, b, self.explained, len(self.x), self.epsilon_each, self.sigma_min, self.steps, self.rng, self.enhanced
        )
        rate = self.eta
        phi = dpgd_explain(chosen.start, chosen.sigma, chosen.steps, a, b, lambda t: rate / math.sqrt(t), self.rng)
        cost = self.epsilon_each * self.sigma_min / chosen.sigma
        self.spent += [cost] * chosen.steps + ([self.epsilon_each] if self.explained else [])
        if self.epsilon_spent > self.epsilon:
            return None
        return self._keep(z, phi, True)

    def _keep(self, z: np.ndarray, phi: np.ndarray, computed: bool) -> np.ndarray:
        self.asked.append(z)
        self.explained.append(phi)
        self.flags.append(computed)
        return phi


def algorithm_4(z: np.ndarray, asked: np.ndarray, explained: np.ndarray, weight: WeightFunction = equation_5) -> np.ndarray:
    """Non-interactive explanations: equation (8) on the records asked about, labelled φ_j·z_j.

    The explanation φ_j was fitted to φ·(x − z_j), so that φ_j·z_j is not what it says about z_j; it is kept as printed.
    """
    u = asked - z
    alpha = weight(np.linalg.norm(u, axis=1))
    labels = np.einsum("ij,ij->i", explained, asked)
    return smallest_in_ball((u * alpha[:, None]).T @ u, u.T @ (alpha * labels), 1.0)[0]
