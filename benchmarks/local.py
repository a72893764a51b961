"""Local linear explanations: loss, steps, questions per budget and the individual filter, on committed synthetic generators.

    python benchmarks/local.py loss
    python benchmarks/local.py individual
    python benchmarks/local.py questions
    python benchmarks/local.py speed

Everything runs on plain arrays with the package's own bounds and mechanisms. Losses are compared with the noiseless optimum, so
what is printed is for evaluation and not private.
"""

from __future__ import annotations

import argparse
import math



import numpy as np

from pellucid import query
from pellucid.baselines import local as published
from pellucid.local.bound import Moments
from pellucid.local.design import LocalRows, best_label_weight
from pellucid.local.exact import ExactMoments, moments_mechanism, read_moments
from pellucid.local.methods import explain, one_shot, smallest_in_ball
from pellucid.local.reuse import Answered, History
from pellucid.local.weights import Gaussian, Stable
from pellucid.mechanisms import Spend, add_noise, rho_of_epsilon_delta
from pellucid.schema import Relation
from pellucid.sensitivity import IndividualFilter

if Moments not in query.BOUNDS:
    query.BOUNDS = (*query.BOUNDS, Moments)

DELTA = 1e-6
RELATIONS: tuple[Relation, ...] = ("add-remove", "replace")


def people(records: int, d: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Correlated features in [0, 1] and a smooth model with interactions, in [−1, 1]."""
    rng = np.random.default_rng(seed)
    factors = max(2, d // 5)
    mix = rng.normal(size=(factors, d)) / math.sqrt(factors)
    x = 1 / (1 + np.exp(-1.5 * (rng.normal(size=(records, factors)) @ mix + 0.8 * rng.normal(size=(records, d)))))
    slopes, pairs = rng.normal(size=d), rng.integers(0, d, (d, 2))
    bends = rng.normal(size=d)
    c = x - 0.5
    score = 4 / math.sqrt(d) * (c @ slopes + (c[:, pairs[:, 0]] * c[:, pairs[:, 1]]) @ bends)
    return x, np.tanh(score)


def clustered(records: int, d: int, clusters: int = 60, spread: float = 0.06, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Records in clusters of the unit cube, and a model that bends between them."""
    rng = np.random.default_rng(seed)
    centres = rng.uniform(0.1, 0.9, (clusters, d))
    x = np.clip(centres[rng.integers(0, clusters, records)] + spread * rng.normal(size=(records, d)), 0, 1)
    slopes, bends = rng.normal(size=(2, d))
    return x, np.tanh(4 / math.sqrt(d) * ((x - 0.5) @ slopes + np.sin(6 * x) @ bends / 6))


def question(z: np.ndarray, weight: Stable | Gaussian, w: float = 1.0) -> query.Sum:
    far = math.ceil(64 * math.sqrt(float((np.maximum(z, 1 - z) ** 2).sum())) * (1 + 1e-12)) / 64
    limits = weight.limits(far, w)
    rows = LocalRows(None, tuple(z), weight, w)  # type: ignore[arg-type]
    return query.Sum(rows, Moments(len(z), limits.joint, limits.slope, limits.label))


class Exact:
    """The noiseless problem, for comparison."""

    def __init__(self, z: np.ndarray, x: np.ndarray, f: np.ndarray, weight: Stable | Gaussian):
        u = x - z
        alpha = weight.at(np.sqrt(np.einsum("ij,ij->i", u, u)))
        self.a, self.b = (u * alpha[:, None]).T @ u / len(x), u.T @ (alpha * f) / len(x)
        self.best = smallest_in_ball(self.a, self.b, 1.0)[0]
        self.gain = -self.of(self.best)

    def of(self, phi: np.ndarray) -> float:
        return float(phi @ self.a @ phi - 2 * self.b @ phi)

    def relative(self, phi: np.ndarray) -> float:
        """Excess loss over L(0) − L*."""
        return (self.of(phi) + self.gain) / self.gain


def loss(records: int = 50_000, questions: int = 12, epsilon: float = 0.1) -> None:
    rho = rho_of_epsilon_delta(epsilon, DELTA)
    rng = np.random.default_rng(5)
    etas = (0.1, 0.3, 1.0, 3.0)
    print(f"m = {records}, ε = {epsilon}, δ = {DELTA}: excess loss over L(0) − L*, median and largest of {questions} questions")
    for d in (5, 14, 50):
        x, f = people(records, d)
        weight = Stable()
        w = {relation: best_label_weight(weight, math.sqrt(d), relation) for relation in RELATIONS}
        found: dict[str, list[float]] = {}
        for z in x[rng.integers(0, records, questions)]:
            truth = Exact(z, x, f, weight)
            for relation in RELATIONS:
                asked = question(z, weight, w[relation])
                mechanism = moments_mechanism(asked, relation, Spend("rho", rho))
                noisy = add_noise(asked.bound.totals(asked.map.of(x, f)), mechanism)  # type: ignore[attr-defined]
                made = one_shot(read_moments(noisy, asked, mechanism, records), 1.0)
                found.setdefault(f"one-shot, {relation}", []).append(truth.relative(made.phi))
                found.setdefault(f"one-shot, {relation}, expected", []).append(made.excess / truth.gain)
            asked = question(z, weight)
            totals = asked.bound.totals(asked.map.of(x, f))  # type: ignore[attr-defined]
            door = ExactMoments(lambda _, totals=totals: totals, asked, records, "add-remove", lambda charge: None)
            found.setdefault("descent, 300 steps", []).append(truth.relative(explain("descent", door, rho).phi))
            sigma = published.published_sigma(records, 300, epsilon, DELTA)
            for eta in etas:
                phi = published.dpgd_explain(
                    np.zeros(d), sigma, 300, truth.a, truth.b, lambda t, eta=eta: eta / math.sqrt(t), rng
                )
                found.setdefault(f"published, η = {eta}", []).append(truth.relative(phi))
        print(f"d = {d}, label weights {w}")
        for name, values in found.items():
            print(f"  {name:38s} {np.median(values):.5f}  {max(values):.5f}  mean {np.mean(values):.5f}")
        best = min(np.mean(found[f"published, η = {eta}"]) for eta in etas)
        print(f"  published (best mean) / one-shot (mean): {best / np.mean(found['one-shot, add-remove']):.0f}")


def individual(records: int = 50_000, d: int = 14, epsilon: float = 1.0) -> None:
    """How many questions one guarantee answers with and without an account per record, and how good they are."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["loss"])
    globals()[parser.parse_args().what]()


if __name__ == "__main__":
    main()
