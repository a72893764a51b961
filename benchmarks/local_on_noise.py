"""What local explanations say where there is little or nothing to tell: their bars, their flags, and the preview.

    python benchmarks/local_on_noise.py
    python benchmarks/local_on_noise.py --releases 100 --models constant,weak

For each model, relation, kind of account, number of records and of features: whole releases with production noise, on plain
arrays with the package's own bounds, mechanisms and solver. Compared is with the φ of equation (1) without noise, in the ball,
from unrounded floats; with no records that is φ = 0. What is printed is for evaluation and not private.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from pellucid.explainers.local.bound import Moments
from pellucid.explainers.local.encoder import LocalRows, best_label_weight, read_moments
from pellucid.explainers.local.methods import Solution, one_shot
from pellucid.explainers.local.moments import foreseen, smallest_in_ball
from pellucid.explainers.local.results import LocalExplanation
from pellucid.explainers.local.weights import Stable
from pellucid.mechanisms import Mechanism, Spend, add_noise, rho_of_epsilon_delta
from pellucid.public.schema import Relation
from pellucid.query import Sum, calibrated

DELTA = 1e-6
RELATIONS: tuple[Relation, ...] = ("add-remove", "replace")
ACCOUNTS = ("pure", "zCDP")
MODELS = ("constant", "weak", "one weak", "strong", "one strong", "leaning", "steep")
"""Evenly spread records; outputs that are 0, fall and rise a little, a lot, with all features or the first alone; "leaning": the
same with features that lean on each other, so that some directions hardly occur; "steep": more than the ball allows."""
EVEN = {"leaning": "strong"}
"""What a preview takes a table for: it does not know that features lean on each other."""


class Numbers:
    """Coordinates that are all numbers."""

    projector = None


def table(model: str, records: int, d: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates in [0, 1] and outputs in [−1, 1]."""
    x = rng.uniform(size=(records, d))
    if model == "leaning":
        common = rng.normal(size=(records, 1))
        x = 1 / (1 + np.exp(-1.5 * (common + 0.5 * rng.normal(size=(records, d)))))
    u = x - 0.5
    turns = np.where(np.arange(d) % 2, -1.0, 1.0) / math.sqrt(d)
    slopes = {
        "constant": 0 * turns,
        "weak": 0.1 * turns,
        "one weak": 0.1 * np.eye(d)[0],
        "strong": 0.8 * turns,
        "one strong": 0.8 * np.eye(d)[0],
        "leaning": 0.8 * turns,
        "steep": 3 * np.eye(d)[0],
    }
    return x, np.clip(u @ slopes[model], -1, 1)


@dataclass(frozen=True)
class Case:
    """One question: the noiseless problem, and all that a noisy answer is made from."""

    asked: Sum
    mechanism: Mechanism
    totals: list[int]
    records: int
    matrix: np.ndarray
    vector: np.ndarray
    best: np.ndarray
    even: tuple[np.ndarray, np.ndarray]
    """The moments of records that are spread evenly, with the same model."""

    def loss(self, phi: np.ndarray) -> float:
        """Above that of saying nothing."""
        return float(phi @ self.matrix @ phi - 2 * self.vector @ phi)

    def answer(self) -> LocalExplanation:
        """A release with production noise, as a user gets it."""
        noisy = add_noise(self.totals, self.mechanism)
        made = one_shot(read_moments(noisy, self.asked, self.mechanism.law, self.records), 1.0)
        return explained(made)

    def foreseen(self) -> np.ndarray:
        """The error a preview would name: as if 2,000 records were spread evenly."""
        noise = read_moments([0] * self.asked.size, self.asked, self.mechanism.law, self.records)
        return foreseen(replace(noise, matrix=self.even[0], vector=self.even[1]), 1.0).error


def explained(made: Solution) -> LocalExplanation:
    names = tuple(f"x{j}" for j in range(len(made.phi)))
    return LocalExplanation(
        features=names,
        phi=made.phi,
        std=made.std,
        pull=made.pull,
        half_range=1.0,
        excess=made.excess,
        gain=made.gain,
        gain_error=made.gain_error,
        radius=1.0,
    )


def spend_of(account: str, epsilon: float) -> Spend:
    if account == "zCDP":
        return Spend("rho", rho_of_epsilon_delta(epsilon, DELTA))
    return Spend("epsilon", Fraction(epsilon).limit_denominator(10**6))


def case(model: str, records: int, d: int, relation: Relation, account: str, epsilon: float, rng: np.random.Generator) -> Case:
    x, f = table(model, records, d, rng)
    z, weight = np.full(d, 0.5), Stable()
    w = best_label_weight(weight, math.sqrt(d), relation)
    limits = weight.limits(math.ceil(64 * math.sqrt(d) / 2 * (1 + 1e-12)) / 64, w)
    rows = LocalRows(Numbers(), tuple(z), weight, w)  # type: ignore[arg-type]
    asked = Sum(rows, Moments(d, limits.joint, limits.slope, limits.label))
    n = max(records, 1)
    matrix, vector = equation_1(x, f, z, weight) if records else (np.zeros((d, d)), np.zeros(d))
    best = smallest_in_ball(matrix, vector, 1.0)[0] if records else np.zeros(d)
    totals = asked.bound.totals(rows.of(x, f)) if records else [0] * asked.size  # type: ignore[attr-defined]
    mechanism = calibrated(asked, relation, 1, spend_of(account, epsilon))
    even = equation_1(*table(EVEN.get(model, model), 2000, d, np.random.default_rng(0)), z, weight)
    return Case(asked, mechanism, totals, n, matrix, vector, best, even)


def equation_1(x: np.ndarray, f: np.ndarray, z: np.ndarray, weight: Stable) -> tuple[np.ndarray, np.ndarray]:
    """A and b in plain floats."""
    u = x - z
    alpha = weight.at(np.sqrt((u * u).sum(axis=1)))
    return (u * alpha[:, None]).T @ u / len(x), u.T @ (alpha * f) / len(x)


@dataclass(frozen=True)
class Found:
    """What many releases of one cell of the grid came to."""

    missed: float
    """The part of the 95 % bars that missed, over all coordinates."""
    worst: float
    """The same for the coordinate with the most misses."""
    unflagged: float
    """The part of the answers that do not say they are within the noise."""
    harmful: float
    """The part that is unflagged and worse than saying nothing."""
    narrowest: float
    """The narrowest bar of all."""
    error: float
    """The error that 95 % of the coordinates stay within."""
    half: float
    """The median half-width of a bar."""
    excess: float
    """The median excess loss over L(0) − L*."""
    foreseen: float
    """What a preview would have said about the largest error, over the largest that 95 % of the answers stay within."""


def unflagged(answer: LocalExplanation) -> bool:
    return "within the noise" not in answer.quality and "read nothing into it" not in answer.quality


def found(cases: Iterator[Case], each: int) -> Found:
    missed, clear, harm, errors, halves, excess, said = [], [], [], [], [], [], []
    for one in cases:
        said.append(one.foreseen().max())
        for _ in range(each):
            answer = one.answer()
            lower, upper = answer.interval()
            missed.append((one.best < lower - 1e-12) | (one.best > upper + 1e-12))
            clear.append(unflagged(answer))
            harm.append(clear[-1] and one.loss(answer.phi) >= 0)
            errors.append(np.abs(answer.phi - one.best))
            halves.append(upper - lower)
            gain = -one.loss(one.best)
            excess.append((one.loss(answer.phi) + gain) / gain if gain > 1e-12 else math.inf)
    return Found(
        float(np.mean(missed)),
        float(np.mean(missed, axis=0).max()),
        float(np.mean(clear)),
        float(np.mean(harm)),
        float(np.min(halves)),
        float(np.quantile(errors, 0.95)),
        float(np.median(halves)) / 2,
        float(np.median(excess)),
        float(np.mean(said) / max(np.quantile(errors, 0.95, axis=0).max(), 1e-9)),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--releases", type=int, default=300)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--records", default="0,50,200,1000,20000")
    parser.add_argument("--features", default="1,2,5,20")
    parser.add_argument("--epsilon", type=float, default=0.1)
    given = parser.parse_args()
    print(f"ε = {given.epsilon:g}, δ = {DELTA:g} in zCDP accounts, {given.releases} releases a row, 10 for each table")
    columns = [
        "model",
        "records",
        "features",
        "relation",
        "account",
        "missed",
        "worst coordinate",
        "bar",
        "error, 95 %",
        "excess",
    ]
    columns += ["unflagged", "and harmful", "foreseen / error"]
    print("| " + " | ".join(columns) + " |\n" + "|---" * len(columns) + "|")
    for model in given.models.split(","):
        seen: list[Found] = []
        for records in map(int, given.records.split(",")):
            if not records and model != "constant":
                continue
            for d in map(int, given.features.split(",")):
                for relation in RELATIONS:
                    for account in ACCOUNTS:
                        rng = np.random.default_rng([records, d])
                        drawn = (
                            case(model, records, d, relation, account, given.epsilon, rng) for _ in range(given.releases // 10)
                        )
                        f = found(drawn, 10)
                        seen.append(f)
                        told = "–" if math.isinf(f.excess) else f"{f.excess:.3f}"
                        print(
                            f"| {model} | {records} | {d} | {relation} | {account} | {f.missed:.3f} | {f.worst:.3f} | "
                            f"±{f.half:.2g} | {f.error:.2g} | {told} | {f.unflagged:.2f} | {f.harmful:.3f} | {f.foreseen:.2f} |",
                            flush=True,
                        )
        print(told_of(model, seen), flush=True)


def told_of(model: str, seen: list[Found]) -> str:
    """What to look at first, in one line."""
    open_ball = [f for f in seen if f.half < 0.5]
    right = np.mean([0.5 <= f.foreseen <= 2 for f in seen])
    bars = f"; of bars within half the ball {min((f.missed for f in open_ball), default=0):.3f} to " if open_ball else ""
    bars += f"{max(f.missed for f in open_ball):.3f}" if open_ball else ""
    return (
        f"{model}: missed at most {max(f.missed for f in seen):.3f}, of one coordinate {max(f.worst for f in seen):.3f}{bars}; "
        f"unflagged and harmful at most {max(f.harmful for f in seen):.3f}; narrowest bar {min(f.narrowest for f in seen):.2g}; "
        f"preview within 2 × in {right:.0%} of {len(seen)} rows"
    )


if __name__ == "__main__":
    main()
