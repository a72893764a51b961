"""1,500 questions one after another on the ACS table of New York: what they cost and how good the answers are, by method.

    python benchmarks/local_questions.py [--shared ../shared] [--questions 1500] [--plot docs/local-questions.png]

The methods are the package's own, asked through an oracle whose noise comes from NumPy at the scale that the package's mechanisms
have for the same price: drawing millions of exact integers would take hours. `--check` compares the two on a few questions.
Losses are compared with the noiseless optimum, so what is printed is for evaluation and not private. The ε of a method that reads
no data for a question is that of the questions that did.
"""

from __future__ import annotations

import argparse
import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import numpy as np
from local import DELTA, Exact, _acs_tables, individual_ask, paid_ask, question

from pellucid.baselines import local as published
from pellucid.explainers.local.encoder import best_label_weight
from pellucid.explainers.local.history import Answered, History, paper_distance
from pellucid.explainers.local.methods import NoisyGradient, NoisyMoments, explain, non_interactive
from pellucid.explainers.local.oracles import IndividualOracle, MomentsOracle
from pellucid.explainers.local.stream import FITTED, STARTS
from pellucid.explainers.local.weights import Gaussian, Stable
from pellucid.mechanisms import Spend, epsilon_of_rho, rho_of_epsilon_delta
from pellucid.query import calibrated

MARKS = (100, 500, 1500)
STEPS = 300
WEIGHT = Stable()


@dataclass
class Asked:
    """One question: the noiseless problem, and how large the noise of its answers is."""

    z: np.ndarray
    output: float
    truth: Exact
    records: int

    @functools.cached_property
    def sum(self):
        return question(self.z, WEIGHT)

    @functools.cached_property
    def gradient_norm(self) -> float:
        """How far one record moves the gradient (add-remove)."""
        return MomentsOracle(paid_ask(lambda _: []), self.sum, self.records).std_for(Fraction(1, 2))

    @functools.cached_property
    def moments_std(self) -> tuple[float, float]:
        """(of A, of b) for ρ = 1/2, with the weight of labels that a stream uses."""
        w = best_label_weight(WEIGHT, math.sqrt(len(self.z)), "add-remove")
        asked = question(self.z, WEIGHT, w)
        std = calibrated(asked, "add-remove", 1, Spend("rho", Fraction(1, 2))).law.std * asked.bound.unit / self.records
        return std, std / w


class NumpyOracle:
    """An oracle with NumPy's noise at the scale of the package's mechanisms."""

    radius = 1.0

    def __init__(self, asked: Asked, rng: np.random.Generator):
        self.asked, self.rng, self.length = asked, rng, len(asked.z)
        self.longest = 2 * asked.sum.bound.joint

    def moments(self, stage: str, rho: Fraction) -> NoisyMoments:
        of_matrix, of_vector = (std / math.sqrt(2 * rho) for std in self.asked.moments_std)
        noise = np.triu(self.rng.normal(size=(self.length, self.length)) * math.sqrt(0.5), 1)
        noise = noise + noise.T + np.diag(self.rng.normal(size=self.length))
        vector = self.asked.truth.b + of_vector * self.rng.normal(size=self.length)
        return NoisyMoments(self.asked.truth.a + of_matrix * noise, vector, of_matrix, of_vector)

    def gradient(self, stage: str, phi: np.ndarray, rho: Fraction) -> NoisyGradient:
        std = self.asked.gradient_norm / math.sqrt(2 * rho)
        exact = 2 * (self.asked.truth.a @ phi - self.asked.truth.b)
        return NoisyGradient(exact + std * self.rng.normal(size=self.length), std, self.length)

    def start(self, stage: str, candidates: Sequence[np.ndarray], rho: Fraction) -> int:
        lengths = [float(np.linalg.norm(2 * (self.asked.truth.a @ phi - self.asked.truth.b))) for phi in candidates]
        # The exponential mechanism with span 2Δ at ε with ε²/8 = ρ.
        rate = math.sqrt(8 * rho) / (2 * self.asked.gradient_norm)
        return int(np.argmax(-rate * np.array(lengths) + self.rng.gumbel(size=len(lengths))))


@dataclass
class Run:
    """What became of all questions by one method at one price."""

    name: str
    cost: list[float] = field(default_factory=list)
    excess: list[float] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)

    def epsilon(self, questions: int) -> float:
        spent = sum(self.cost[:questions])
        return epsilon_of_rho(Fraction(spent), DELTA) if spent else 0.0

    @property
    def median(self) -> float:
        return float(np.median(self.excess))

    def line(self) -> str:
        spent = " | ".join(f"{self.epsilon(n):.3f}" for n in MARKS)
        steps = f"{np.mean(self.steps):.0f}" if self.steps and max(self.steps) else "-"
        wide = np.quantile(self.excess, 0.9)
        return f"| {self.name} | {spent} | {self.median:.4f} | {wide:.4f} | {sum(c > 0 for c in self.cost)} | {steps} |"


def stream(name: str, asked: list[Asked], method: str, price: Fraction, within: float, seed: int = 0) -> Run:
    """Questions one after another as a stream answers them, without the part that costs nothing at the end."""
    rng, run, history = np.random.default_rng(seed), Run(name), History(len(asked[0].z))
    outputs: list[float] = []
    for one in asked:
        near = history.nearest(one.z, within) if within else None
        if near is not None:
            run.cost.append(0.0)
            run.excess.append(one.truth.relative(np.array(near[0].phi)))
            continue
        starts = starts_for(history, one.z, outputs) if method in ("adaptive", "enhanced") else []
        made = explain(method, NumpyOracle(one, rng), price, steps=STEPS, candidates=starts)
        outputs.append(one.output)
        history.add(Answered(tuple(one.z), tuple(made.phi), len(history)))
        run.cost.append(float(made.cost))
        run.excess.append(one.truth.relative(made.phi))
        run.steps.append(made.steps)
    return run


def starts_for(history: History, z: np.ndarray, outputs: list[float]) -> list[np.ndarray]:
    """What a stream offers to start from: what a free answer would say, and the nearest answers."""
    if not len(history):
        return []
    known = history.near(z, FITTED)
    said, records = np.array([one.phi for one in known]), np.array([one.asked for one in known])
    labels = np.array([outputs[one.number] for one in known])
    return [non_interactive(z, records, said, WEIGHT, 1.0, labels), *said[:STARTS]]


def as_published(asked: list[Asked], epsilon: float, seed: int = 0) -> tuple[Run, float]:
    """Algorithm 1 with the published noise, and the ε that its authors would count for all questions."""
    rng = np.random.default_rng(seed)
    sigma = published.published_sigma(asked[0].records, STEPS, epsilon, DELTA)
    best: Run | None = None
    for eta in (0.1, 0.3, 1.0, 3.0):
        run = Run(f"baseline: published noise for ε = {epsilon:g} a question (really less), η = {eta:g}/√t")
        for one in asked:
            step = published.dpgd_explain
            phi = step(np.zeros(len(one.z)), sigma, STEPS, one.truth.a, one.truth.b, lambda t, eta=eta: eta / math.sqrt(t), rng)
            run.excess.append(one.truth.relative(phi))
            run.cost.append(STEPS * one.gradient_norm**2 / (2 * sigma**2))
            run.steps.append(STEPS)
        best = run if best is None or run.median < best.median else best
    assert best is not None
    n = len(asked)
    return best, epsilon * math.sqrt(2 * n * math.log(1 / DELTA)) + n * epsilon * math.expm1(epsilon)


def individual(x: np.ndarray, f: np.ndarray, zs: np.ndarray, epsilon: float, planned: int, bandwidth: float) -> Run:
    """All questions from data under one guarantee, charged as a whole at the opening."""
    weight, rho = Gaussian(bandwidth), rho_of_epsilon_delta(epsilon, DELTA)
    w = best_label_weight(weight, math.sqrt(x.shape[1]))
    ask = individual_ask(x, f, rho)
    run = Run(f"individual: Gaussian weight, bandwidth {bandwidth:g}, noise of ρ/{planned} a question")
    for z in zs:
        made = explain("one-shot", IndividualOracle(ask, question(z, weight, w), len(x)), rho / planned)
        run.excess.append(Exact(z, x, f, weight).relative(made.phi))
        run.cost.append(0.0)
    run.cost[0] = float(rho)
    return run


def equal_loss(run: Run, reference: list[Run]) -> float:
    """The ε of a run over that which a reference needs for the same median loss, between its prices (log-linear)."""
    known = sorted(reference, key=lambda one: one.median)
    if not known[0].median <= run.median <= known[-1].median:
        return math.nan
    last = len(run.cost)
    needed = np.interp(math.log(run.median), [math.log(k.median) for k in known], [math.log(k.epsilon(last)) for k in known])
    return run.epsilon(last) / math.exp(needed)


def check(asked: list[Asked], x: np.ndarray, f: np.ndarray, price: Fraction) -> None:
    """The package's exact noise against NumPy's noise, on a few questions."""
    rng = np.random.default_rng(1)
    for method in ("descent", "one-shot"):
        ours, quick = [], []
        for one in asked[:30]:
            w = best_label_weight(WEIGHT, math.sqrt(len(one.z)), "add-remove") if method == "one-shot" else 1.0
            sum_ = question(one.z, WEIGHT, w)
            totals = sum_.bound.totals(sum_.map.of(x, f))  # type: ignore[attr-defined]
            oracle = MomentsOracle(paid_ask(lambda _, totals=totals: totals), sum_, len(x), 1.0)
            ours.append(one.truth.relative(explain(method, oracle, price, steps=STEPS).phi))
            quick.append(one.truth.relative(explain(method, NumpyOracle(one, rng), price, steps=STEPS).phi))
        print(
            f"{method}: median excess of 30 questions {np.median(ours):.5f} with exact noise, {np.median(quick):.5f} with NumPy's"
        )


def draw(path: Path, runs: list[Run]) -> None:
    """ε against the number of questions, and the distributions of the losses beside it."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 5.2), layout="constrained")
    for run in runs:
        places = np.unique(np.geomspace(1, len(run.cost), 60).astype(int))
        (line,) = left.plot(places, [run.epsilon(n) for n in places], label=run.name)
        losses = np.log10(np.maximum(run.excess, 1e-6))
        right.hist(losses, bins=np.linspace(-5, 1, 49), histtype="step", density=True, color=line.get_color())
    left.set(xscale="log", yscale="log", xlabel="questions answered", ylabel=f"ε at δ = {DELTA:g}")
    right.set(xlabel="relative excess loss (log10)", ylabel="density")
    figure.legend(loc="outside lower center", ncols=2, fontsize=8, frameon=False)
    for ax in (left, right):
        ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shared", type=Path, default=Path(__file__).resolve().parents[2] / "shared")
    parser.add_argument("--questions", type=int, default=1500)
    parser.add_argument("--individual", type=int, default=1500, help="questions under individual accounting (a pass each)")
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    if not (given.shared / "data").is_dir():
        raise SystemExit(f"there is no folder data in {given.shared}; give --shared.")
    _, x, f = next(found for found in _acs_tables(given.shared) if found[1].shape[1] == 14)
    places = np.random.default_rng(7).integers(0, len(x), given.questions)
    zs = x[places]
    asked = [Asked(x[i], float(f[i]), Exact(x[i], x, f, WEIGHT), len(x)) for i in places]
    whole = rho_of_epsilon_delta(0.1, DELTA)
    if given.check:
        check(asked, x, f, whole / 4)
    far = paper_distance(STEPS)
    print(f"ACS New York, {len(x)} records, 14 features, {given.questions} questions, add-remove, δ = {DELTA:g}")
    print("| method | " + " | ".join(f"ε after {n}" for n in MARKS) + " | median | 90 % | from data | steps |")
    print("|---" * 8 + "|")
    baseline, counted = as_published(asked, 0.1)
    print(baseline.line(), flush=True)
    runs: dict[str, list[Run]] = {}
    plans = [
        ("descent, nothing handed on (Algorithm 1)", "descent", 0.0, (32, 16, 8, 4, 2, 1)),
        ("descent, handed on within 0.1", "descent", 0.1, (16, 8, 4)),
        ("adaptive, handed on within 0.1", "adaptive", 0.1, (4, 2, 1, 0.5)),
        (f"adaptive, handed on within {far:.2f} (the paper's)", "adaptive", far, (4, 2, 1)),
        ("enhanced, handed on within 0.1", "enhanced", 0.1, (4, 1)),
        ("one-shot, nothing handed on", "one-shot", 0.0, (64, 16)),
        ("one-shot, handed on within 0.1", "one-shot", 0.1, (64, 16)),
    ]
    for name, method, within, parts in plans:
        for part in parts:
            run = stream(f"{name}, ρ·{1 / part:.3g}", asked, method, Fraction(whole) / Fraction(part), within)
            runs.setdefault(name, []).append(run)
            print(run.line(), flush=True)
    print(f"\nbaseline, as its authors would add up {given.questions} questions: ε = {counted:.1f}\n")
    print("ε at the same median loss, relative to descent that hands nothing on and to descent that hands on")
    first, second = (runs[name] for name, *_ in plans[:2])
    for name, *_ in plans[2:]:
        for run in runs[name]:
            print(f"  {run.name}: median {run.median:.4f}, {equal_loss(run, first):.2f} and {equal_loss(run, second):.2f}")
    shown = [baseline, first[3], second[2], runs[plans[2][0]][1], runs[plans[4][0]][1], runs[plans[6][0]][1]]
    print("\nmedian loss over the first 100, 500 and all questions, under one guarantee of ε = 1")
    for planned in (20, 300):
        run = individual(x, f, zs[: given.individual], 1.0, planned, 1.0)
        told = ", ".join(f"{np.median(run.excess[:n]):.4f}" for n in MARKS)
        print(f"  {run.name}: {told}", flush=True)
    shown.append(run)
    if given.plot:
        draw(given.plot, shown)


if __name__ == "__main__":
    main()
