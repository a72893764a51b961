"""Local linear explanations of text: 50,000 film reviews, 500 words as 0/1. Do noisy explanations name the right words?

    python benchmarks/local_text.py [--shared ../shared] [--quick]
    python benchmarks/local_text.py --settings

Read these before the tables:

* The words were chosen from the reviews (the first 500 terms of a list that orders terms by how often they occur there). They
  are treated as public here. A list from elsewhere would be needed for a guarantee that covers everything.
* The model is treated as public. It is trained on all reviews, and in one table on 25,000 with the other 25,000 explained.
* The truth is the noiseless optimum of the same loss (same weight, bandwidth and radius), so what is printed is for evaluation
  and not private.
* Calibration, bounds and solvers are the package's own. Noise has the package's standard deviations but comes from NumPy, and
  totals are floats; the section on integers says how far they lie from the package's.
* Settings were chosen on 20 questions (--settings), and everything is reported on others.

One-shot with few directions is the package's release and another way to read it: of the noisy A, only what stands out of
the noise is kept beside its diagonal. The methods below it rest on another release, that of word rates, Σα·(1, u) with
u = x − z. A record moves them by α·√(1 + r²) and not by α·r² as it moves A, and r is about 9 here. Reviews are made up from
the noisy rates, the public model is asked about them, and the explanation is fitted to its answers. A second release can
correct what made-up reviews get wrong: the slope of the true loss at that explanation.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from local import paid_ask
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

from pellucid.explainers.local.encoder import best_label_weight, gradient_of, moments_of, read_moments
from pellucid.explainers.local.methods import NoisyGradient, NoisyMoments, descent, one_shot, smallest_in_ball
from pellucid.explainers.local.oracles import MomentsOracle, PassOracle
from pellucid.explainers.local.weights import FallingWeight, Gaussian, Stable, falling_supremum
from pellucid.mechanisms import Spend, add_noise, rho_of_epsilon_delta
from pellucid.public.schema import Relation
from pellucid.query import Sum, calibrated
from pellucid.query.bounds import Ball

DELTA = 1e-6
EPSILONS = (0.1, 1.0, 10.0)
RELATIONS: tuple[Relation, ...] = ("add-remove", "replace")
WORDS, RADIUS, TOP = 500, 1.0, 5
MADE_UP = 10_000

SHARE = 0.5
"""The part of ρ that goes to the word rates where a slope follows."""

RESIDUAL = 0.5
"""A record's part of that slope is shrunk as if its model output were missed by at most this."""

STRIDE = 0.5
"""How much of the step that the slope calls for is taken: made-up reviews know no topics, and curvature is larger along them."""

SPREAD = 0.25
"""Squared variation of the lengths of texts: they differ by about half of the average length. A convention, not measured."""


class Words:
    """Coordinates that are words: what an `Encoder` is to the package."""

    projector = None

    def __init__(self, length: int):
        self.length, self.features = length, tuple(f"word {j}" for j in range(length))

    def farthest_from(self, asked: Any) -> float:
        # A word is there or not, whatever the review asked about says: another review can differ in all of them.
        return math.ceil(64 * math.sqrt(self.length) * (1 + 1e-12)) / 64


@dataclass(frozen=True)
class RateRows:
    """What a record brings to word rates: α·(1, u), and with `products` α·f·u beside it."""

    asked: tuple[float, ...]
    weight: FallingWeight
    products: bool = False

    def of(self, x: np.ndarray, f: np.ndarray) -> np.ndarray:
        u = x - np.asarray(self.asked)
        alpha = self.weight.at(np.sqrt(np.einsum("ij,ij->i", u, u)))[:, None]
        return np.hstack([alpha, alpha * u, alpha * f[:, None] * u] if self.products else [alpha, alpha * u])

    __call__ = of

    def asked_sum(self) -> Sum:
        times = 2 if self.products else 1
        far = Words(len(self.asked)).farthest_from(self.asked)
        largest = falling_supremum(self.weight.at, lambda r: np.sqrt(1 + times * r * r), far)
        return Sum(self, Ball(1 + times * len(self.asked), largest))


def short_slope(encoder: Words, asked: Sequence[float], weight: FallingWeight, phi: np.ndarray) -> Sum:
    """Half the slope at φ in a ball that suits outputs missed by at most RESIDUAL, in place of the farthest conceivable miss."""
    wide = gradient_of(encoder, asked, weight, phi.tolist(), RADIUS)  # type: ignore[arg-type]
    largest = RESIDUAL * falling_supremum(weight.at, lambda r: r, encoder.farthest_from(asked))
    return Sum(wide.map, Ball(encoder.length, largest), columns=wide.columns)


def std_of(asked: Sum, relation: Relation, rho: float) -> float:
    """The noise on a coordinate of a sum in a ball, by the package's calibration."""
    mechanism = calibrated(asked, relation, 1, Spend("rho", Fraction(rho)))
    return mechanism.law.std * asked.bound.unit  # type: ignore[attr-defined,no-any-return]


def top(phi: np.ndarray, among: np.ndarray | None = None) -> set[int]:
    places = np.arange(len(phi)) if among is None else np.flatnonzero(among)
    return {int(places[i]) for i in np.argsort(-np.abs(phi[places]), kind="stable")[:TOP]}


@dataclass(frozen=True)
class Reviews:
    """Reviews as 0/1 and the outputs of a public model, in [−1, 1]."""

    x: np.ndarray
    f: np.ndarray
    model: Any

    def __len__(self) -> int:
        return len(self.x)

    def outputs(self, x: np.ndarray) -> np.ndarray:
        return np.asarray(2 * self.model.predict_proba(x)[:, 1].astype(float) - 1)

    def pieces(self, rows: int = 4096) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for start in range(0, len(self), rows):
            yield self.x[start : start + rows].astype(float), self.f[start : start + rows]

    def totals(self, asked: Sum) -> list[int]:
        """The package's exact totals in integers."""
        total = [0] * asked.size
        for x, f in self.pieces():
            total = [a + b for a, b in zip(total, asked.bound.totals(asked.map.of(x, f)))]  # type: ignore[attr-defined]
        return total


class Question:
    """The exact problem of one review asked about, and noisy looks at it."""

    def __init__(self, reviews: Reviews, z: np.ndarray, weight: FallingWeight, centred: bool = False):
        self.reviews, self.z, self.weight, self.encoder = reviews, z.astype(float), weight, Words(len(z))
        self.level = reviews.outputs(z[None, :])[0] if centred else None
        self.f = self.labels(reviews.f)
        self.asked = tuple(self.z)
        x, m = reviews.x, len(reviews)
        self.distance = np.sqrt((x.sum(axis=1) + z.sum() - 2 * (x @ z)).astype(float))
        self.alpha = weight.at(self.distance)
        matrix = np.zeros((len(z), len(z)))
        for (piece, _), start in zip(reviews.pieces(), range(0, m, 4096)):
            matrix += (piece * self.alpha[start : start + 4096, None]).T @ piece
        sums, self.mean_weight = self._weighted(self.alpha), float(self.alpha.sum()) / m
        self.rates = sums / m - self.z * self.mean_weight
        crossed = np.outer(sums, self.z) / m
        self.a = matrix / m - crossed - crossed.T + self.mean_weight * np.outer(self.z, self.z)
        of_labels = self.alpha * self.f
        self.b = (self._weighted(of_labels) - self.z * of_labels.sum()) / m
        self.best = smallest_in_ball(self.a, self.b, RADIUS)[0]
        self.gain = -self.above(self.best)

    def labels(self, outputs: np.ndarray) -> np.ndarray:
        """What is explained: outputs, or with `centred` half of their distance from that of the review asked about."""
        return outputs if self.level is None else (outputs - self.level) / 2

    def _weighted(self, weights: np.ndarray) -> np.ndarray:
        total = np.zeros(len(self.z))
        for start in range(0, len(weights), 4096):
            total += (weights[start : start + 4096].astype(np.float32) @ self.reviews.x[start : start + 4096]).astype(float)
        return total

    def above(self, phi: np.ndarray) -> float:
        """L(φ) − L(0)."""
        return float(phi @ self.a @ phi - 2 * self.b @ phi)

    def score(self, phi: np.ndarray) -> tuple[float, float, float]:
        """(right words of 5, right words of 5 among those of the review, excess loss over L(0) − L*)."""
        own = math.nan
        if self.z.sum() >= TOP:
            own = len(top(phi, self.z) & top(self.best, self.z))
        return len(top(phi) & top(self.best)), own, (self.above(phi) + self.gain) / self.gain

    def short_slope(self, phi: np.ndarray, largest: float) -> np.ndarray:
        """Half the slope at φ where each record's part is shrunk into a ball, divided by the number of records."""
        missed = (self.reviews.x @ phi.astype(np.float32)).astype(float) - self.z @ phi - self.f
        length = self.alpha * self.distance * np.abs(missed)
        parts = self.alpha * missed * np.minimum(1.0, largest / np.maximum(length, 1e-300))
        return np.asarray((self._weighted(parts) - self.z * parts.sum()) / len(self.reviews))


class NumpyOracle:
    """The package's oracles with NumPy's noise: the same standard deviations, and fast enough for thousands of releases.

    `more` simulates a table with that many times as many reviews of the same distribution.
    """

    radius = RADIUS

    def __init__(self, question: Question, relation: Relation, rng: np.random.Generator, label_weight: float, more: float = 1.0):
        self.question, self.rng, self.length = question, rng, question.encoder.length
        self.records = len(question.reviews) * more
        self.sum = moments_of(question.encoder, question.asked, question.weight, label_weight)  # type: ignore[arg-type]
        self.exact = MomentsOracle(paid_ask(_unread, relation), self.sum, Fraction(self.records), RADIUS)
        self.longest, self.relation = self.exact.longest, relation
        self.blank: dict[Fraction, NoisyMoments] = {}

    def moments(self, stage: str, rho: Fraction) -> NoisyMoments:
        if rho not in self.blank:
            law = calibrated(self.sum, self.relation, 1, Spend("rho", rho)).law
            self.blank[rho] = read_moments([0] * self.sum.size, self.sum, law, Fraction(self.records))
        blank = self.blank[rho]
        draw = self.rng.normal(0, blank.matrix_std, self.question.a.shape)
        noise = np.triu(draw, 1) * math.sqrt(blank.beside)
        noise = noise + noise.T + np.diag(np.diag(draw))
        vector = self.question.b + self.rng.normal(0, blank.vector_std, self.length)
        return NoisyMoments(self.question.a + noise, vector, blank.matrix_std, blank.vector_std, blank.beside)

    def gradient(self, stage: str, phi: np.ndarray, rho: Fraction) -> NoisyGradient:
        std = self.exact.std_for(rho)
        exact = 2 * (self.question.a @ phi - self.question.b)
        return NoisyGradient(exact + self.rng.normal(0, std, self.length), std, self.length)


def _unread(_: Any) -> Any:
    raise AssertionError("plans read no data")


def ridged(noisy: NoisyMoments, times: float) -> np.ndarray:
    """The one-shot explanation with a ridge of that many standard deviations, in place of the package's floor of curvature."""
    return smallest_in_ball(noisy.matrix, noisy.vector, RADIUS, times * noisy.matrix_std)[0]


def few_directions(noisy: NoisyMoments) -> np.ndarray:
    """The one-shot explanation where A is a diagonal and the directions that stand out of the noise beside it.

    Symmetric noise with half the variance off its diagonal has eigenvalues up to about √(2d) standard deviations. Directions
    of A without its diagonal that are longer are kept, of either sign, so that A stays as it is where there is little noise.
    """
    own, few = np.diag(noisy.matrix), np.zeros_like(noisy.matrix)
    for _ in range(2):
        # The second time the diagonal that the directions themselves have is put back, which the first time was missing.
        values, vectors = np.linalg.eigh(noisy.matrix - np.diag(own - np.diag(few)))
        kept = np.abs(values) > math.sqrt(2 * len(own)) * noisy.matrix_std
        few = (vectors[:, kept] * values[kept]) @ vectors[:, kept].T
    matrix = few + np.diag(np.maximum(own - np.diag(few), noisy.matrix_std))
    return smallest_in_ball(matrix, noisy.vector, RADIUS, noisy.matrix_std)[0]


def noisy_rates(
    question: Question, relation: Relation, rho: float, rng: np.random.Generator, more: float, products: bool = False
) -> tuple[float, np.ndarray, np.ndarray]:
    """(mean weight, word rates, products with the labels) from one release."""
    asked = RateRows(question.asked, question.weight, products).asked_sum()
    std = std_of(asked, relation, rho) / (len(question.reviews) * more)
    weight = max(question.mean_weight + rng.normal(0, std), 1e-3)
    means = question.rates + rng.normal(0, std, len(question.z))
    vector = question.b + rng.normal(0, std, len(question.z))
    return weight, np.clip(means / weight + question.z, 0.01, 0.99), vector


def independent_curvature(z: np.ndarray, weight: float, rates: np.ndarray) -> np.ndarray:
    """A of texts whose words are independent given their length."""
    spread = SPREAD * np.outer(rates, rates)
    np.fill_diagonal(spread, rates * (1 - rates))
    return weight * (np.outer(rates - z, rates - z) + spread)


def made_up(
    question: Question, weight: float, rates: np.ndarray, rng: np.random.Generator, count: int = MADE_UP, spread: float = SPREAD
) -> tuple[np.ndarray, np.ndarray]:
    """A and b of made-up reviews: words independent given the length, and the public model's answers. No data is read."""
    each = ((1 - rates) ** -spread - 1) / spread
    lengths = rng.gamma(1 / spread, spread, (count, 1))
    x = rng.random((count, len(rates)), dtype=np.float32) < -np.expm1((-lengths * each).astype(np.float32))
    u = x.astype(np.float32) - question.z.astype(np.float32)
    f = question.labels(question.reviews.outputs(x.astype(np.float32))).astype(np.float32)
    return weight * (u.T @ u).astype(float) / count, weight * (u.T @ f).astype(float) / count


def from_rates(question: Question, relation: Relation, rho: float, rng: np.random.Generator, more: float = 1.0) -> np.ndarray:
    """Reviews made up from noisy word rates, and the explanation fitted to the model's answers."""
    weight, rates, _ = noisy_rates(question, relation, rho, rng, more)
    return smallest_in_ball(*made_up(question, weight, rates, rng), RADIUS)[0]


def from_products(question: Question, relation: Relation, rho: float, rng: np.random.Generator, more: float = 1.0) -> np.ndarray:
    """Word rates and b in one release; A is that of independent words with these rates. The model is not asked again."""
    weight, rates, vector = noisy_rates(question, relation, rho, rng, more, products=True)
    return smallest_in_ball(independent_curvature(question.z, weight, rates), vector, RADIUS)[0]


def corrected(
    question: Question,
    relation: Relation,
    rho: float,
    rng: np.random.Generator,
    more: float = 1.0,
    share: float = SHARE,
    spread: float = SPREAD,
    stride: float = STRIDE,
) -> np.ndarray:
    """The explanation of made-up reviews, and then a part of the step that one noisy slope of the true loss calls for.

    The step is weighed against its noise as if each coordinate of the correction were about R/(2√d).
    """
    weight, rates, _ = noisy_rates(question, relation, share * rho, rng, more)
    curvature, vector = made_up(question, weight, rates, rng, spread=spread)
    phi = smallest_in_ball(curvature, vector, RADIUS)[0]
    asked = short_slope(question.encoder, question.asked, question.weight, phi)
    std = std_of(asked, relation, (1 - share) * rho) / (len(question.reviews) * more)
    slope = question.short_slope(phi, asked.bound.radius) + rng.normal(0, std, len(phi))  # type: ignore[attr-defined]
    typical = RADIUS / (2 * math.sqrt(len(phi)))
    step = np.linalg.solve(curvature @ curvature + (std / typical) ** 2 * np.eye(len(phi)), curvature @ slope)
    return smallest_in_ball(curvature, curvature @ (phi - stride * step), RADIUS)[0]


RATES = {"rates and products": from_products, "made-up reviews": from_rates, "made-up reviews, one slope": corrected}


class Found:
    """Scores by method and setting, and their means as a table."""

    def __init__(self) -> None:
        self.scores: dict[tuple[Any, ...], list[tuple[float, float, float]]] = {}

    def add(self, key: tuple[Any, ...], score: tuple[float, float, float]) -> None:
        self.scores.setdefault(key, []).append(score)

    def right(self, key: tuple[Any, ...]) -> float:
        return float(np.mean([score[0] for score in self.scores[key]]))

    def error(self, key: tuple[Any, ...], draws: int) -> float:
        """The standard error of `right`: draws of one question stand together."""
        each = np.array([score[0] for score in self.scores[key]]).reshape(-1, draws).mean(axis=1)
        return float(each.std(ddof=1) / math.sqrt(len(each)))

    def cell(self, key: tuple[Any, ...]) -> str:
        values = np.array(self.scores[key])
        return f"{values[:, 0].mean():.2f} ({np.nanmean(values[:, 1]):.2f}; {np.median(values[:, 2]):.3f})"

    def table(self, corner: str, rows: Sequence[Any], columns: Sequence[tuple[str, Any]]) -> None:
        """Rows and columns whose keys together are those of the scores."""
        print(f"| {corner} | " + " | ".join(name for name, _ in columns) + " |")
        print("|---|" + "---|" * len(columns))
        for row in rows:
            cells = [self.cell((row, *key)) if (row, *key) in self.scores else "" for _, key in columns]
            print(f"| {row} | " + " | ".join(cells) + " |")
        print(flush=True)


def wide(reviews: Reviews) -> float:
    """√(2d) standard deviations: about the largest eigenvalue of symmetric noise with half the variance off the diagonal."""
    return math.sqrt(2 * reviews.x.shape[1])


def compare(
    reviews: Reviews,
    asked: np.ndarray,
    weight: FallingWeight,
    draws: int,
    steps: Sequence[int],
    title: str,
    centred: bool = False,
    others: bool = True,
) -> None:
    """The main table: methods, both relations, three ε."""
    rng, found = np.random.default_rng(3), Found()
    tops: list[set[int]] = []
    begin = time.perf_counter()
    names = [
        "one-shot",
        "one-shot, wide ridge",
        "one-shot, few directions",
        *(f"descent, {t} steps" for t in steps),
        *(RATES if others else ()),
    ]
    for z in reviews.x[asked]:
        question = Question(reviews, z, weight, centred)
        tops.append(top(question.best))
        flat = made_up(question, 1.0, np.full(len(z), 0.1), rng)
        found.add(("no data: made-up reviews, every rate 0.1", 0), question.score(smallest_in_ball(*flat, RADIUS)[0]))
        for relation in RELATIONS:
            once = NumpyOracle(question, relation, rng, best_label_weight(weight, question.encoder.farthest_from(z), relation))
            walk = NumpyOracle(question, relation, rng, 1 / RADIUS)
            for epsilon in EPSILONS:
                rho = rho_of_epsilon_delta(epsilon, DELTA)
                for _ in range(draws):
                    noisy = once.moments("moments", rho)
                    found.add(("one-shot", relation, epsilon), question.score(one_shot(noisy, RADIUS).phi))
                    found.add(("one-shot, wide ridge", relation, epsilon), question.score(ridged(noisy, wide(reviews))))
                    found.add(("one-shot, few directions", relation, epsilon), question.score(few_directions(noisy)))
                    for t in steps:
                        made = descent(walk, rho, t)  # type: ignore[arg-type]
                        found.add((f"descent, {t} steps", relation, epsilon), question.score(made.phi))
                    for name, method in RATES.items() if others else ():
                        found.add((name, relation, epsilon), question.score(method(question, relation, float(rho), rng)))
    print(f"### {title}\n")
    print(
        f"{len(reviews):,} reviews, {reviews.x.shape[1]} words, {weight}, radius {RADIUS:g}, δ = {DELTA:g}. {len(asked)} "
        f"questions × {draws} draws. Right words of the top {TOP} (of the top {TOP} among words in the review asked about; "
        "median excess loss over L(0) − L*).\n"
    )
    columns = [(f"{relation}, ε = {epsilon:g}", (relation, epsilon)) for relation in RELATIONS for epsilon in EPSILONS]
    found.table("method", names, columns)
    for relation in RELATIONS:
        told = [
            f"{name} {found.right((name, relation, 1.0)):.2f} ± {found.error((name, relation, 1.0), draws):.2f}" for name in names
        ]
        print(f"At least 3 of {TOP} at ε = 1, {relation} (± one standard error over questions): " + ", ".join(told) + ".")
    shared = np.mean([len(a & b) for i, a in enumerate(tops) for b in tops[:i]])
    flat_key = ("no data: made-up reviews, every rate 0.1", 0)
    print(f"No data at all, made-up reviews with every rate 0.1: {found.cell(flat_key)}.")
    print(f"Two noiseless optima of different questions share {shared:.2f} of their top {TOP} words.")
    print(f"{time.perf_counter() - begin:.0f} s\n", flush=True)


def bandwidths(reviews: Reviews, asked: np.ndarray, draws: int) -> None:
    """Both weights at several bandwidths: what a bandwidth changes, at ε = 1."""
    rng, found, rho = np.random.default_rng(4), Found(), rho_of_epsilon_delta(1.0, DELTA)
    half = math.sqrt(reviews.x.shape[1]) / 2
    weights = [kind(h) for kind in (Stable, Gaussian) for h in (1.0, 3.0, 5.0, 10.0, round(half, 1), 20.0, round(2 * half, 1))]
    around = {}
    for weight in weights:
        counted = []
        for z in reviews.x[asked]:
            question = Question(reviews, z, weight)
            counted.append(question.alpha.sum() ** 2 / (question.alpha**2).sum())
            for relation in RELATIONS:
                w = best_label_weight(weight, question.encoder.farthest_from(z), relation)
                oracle = NumpyOracle(question, relation, rng, w)
                for _ in range(draws):
                    found.add(
                        (str(weight), relation, "one-shot"), question.score(one_shot(oracle.moments("moments", rho), RADIUS).phi)
                    )
                    for name in ("rates and products", "made-up reviews, one slope"):
                        made = RATES[name](question, relation, float(rho), rng)
                        found.add((str(weight), relation, name), question.score(made))
        around[str(weight)] = np.median(counted)
    print(f"### Weights and bandwidths, ε = 1, {len(asked)} questions × {draws} draws\n")
    print("Records that count: the median of (Σα)²/Σα². " + ", ".join(f"{k}: {v:,.0f}" for k, v in around.items()) + ".\n")
    names = ("one-shot", "rates and products", "made-up reviews, one slope")
    columns = [(f"{name}, {relation}", (relation, name)) for relation in RELATIONS for name in names]
    found.table("weight", [str(weight) for weight in weights], columns)


def needed(
    reviews: Reviews, asked: np.ndarray, weight: FallingWeight, draws: int, epsilon: float = 0.1, wanted: float = 3.5
) -> None:
    """How many reviews of the same distribution 3.5 of 5 take at ε = 0.1."""
    rng, found, rho = np.random.default_rng(5), Found(), rho_of_epsilon_delta(epsilon, DELTA)
    times = (0.125, 0.25, 0.5, 1, 2, 4, 8, 16, 32, 64)
    names = ("one-shot", "one-shot, few directions", *RATES)
    for z in reviews.x[asked]:
        question = Question(reviews, z, weight)
        for relation in RELATIONS:
            w = best_label_weight(weight, question.encoder.farthest_from(z), relation)
            for more in times:
                for _ in range(draws):
                    if more >= 1:
                        noisy = NumpyOracle(question, relation, rng, w, more).moments("moments", rho)
                        found.add(("one-shot", relation, more), question.score(one_shot(noisy, RADIUS).phi))
                        found.add(("one-shot, few directions", relation, more), question.score(few_directions(noisy)))
                    for name, method in RATES.items():
                        if more <= 8:
                            found.add((name, relation, more), question.score(method(question, relation, float(rho), rng, more)))
    print(f"### How many reviews {wanted:g} of {TOP} words take at ε = {epsilon:g}\n")
    print(
        f"Noise is divided by the number of reviews, so a larger table is simulated by less noise on the same moments. "
        f"{len(asked)} questions × {draws} draws.\n"
    )
    columns = [(f"{int(more * len(reviews)):,}", more) for more in times]
    for relation in RELATIONS:
        found.table(relation, names, [(name, (relation, more)) for name, more in columns])
        for name in names:
            print(f"- {name}, {relation}: {_reached(found, name, relation, times, wanted, len(reviews))}")
        print(flush=True)


def _reached(found: Found, name: str, relation: Relation, times: Sequence[float], wanted: float, records: int) -> str:
    seen = [(more, found.right((name, relation, more))) for more in times if (name, relation, more) in found.scores]
    if seen[0][1] >= wanted:
        return f"fewer than {seen[0][0] * records:,.0f} reviews"
    for (low, under), (high, over) in zip(seen, seen[1:]):
        if over >= wanted:
            place = low * (high / low) ** ((wanted - under) / (over - under))
            return f"about {float(f'{place * records:.2g}'):,.0f} reviews"
    return f"not with {seen[-1][0] * records:,.0f} reviews"


def settings(reviews: Reviews, asked: np.ndarray, weight: FallingWeight) -> None:
    """What the settings were chosen by, on questions that are not reported."""
    rng, found = np.random.default_rng(6), Found()
    ridges, labels = (1.0, wide(reviews), 2 * wide(reviews)), (0.25, 1.0, 4.0)
    cases = [(relation, epsilon) for epsilon in (0.1, 1.0) for relation in RELATIONS]
    shares, spreads, strides = (0.3, 0.5, 0.7), (0.1, 0.25, 0.5), (0.25, 0.5, 1.0)
    for z in reviews.x[asked]:
        question = Question(reviews, z, weight)
        for relation, epsilon in cases:
            rho = rho_of_epsilon_delta(epsilon, DELTA)
            key = (relation, epsilon)
            best = best_label_weight(weight, question.encoder.farthest_from(z), relation)
            for times in labels:
                noisy = NumpyOracle(question, relation, rng, times * best).moments("moments", rho)
                for ridge in ridges:
                    name = f"one-shot, label weight × {times:g}, ridge {ridge:.0f} σ"
                    found.add((name, *key), question.score(ridged(noisy, ridge)))
                found.add((f"one-shot, label weight × {times:g}, few directions", *key), question.score(few_directions(noisy)))
            tried = [{"share": v} for v in shares] + [{"spread": v} for v in spreads] + [{"stride": v} for v in strides]
            for one in tried:
                made = corrected(question, relation, float(rho), rng, **one)
                told = ", ".join(f"{name} {value:g}" for name, value in one.items())
                found.add((f"made-up reviews, one slope, {told}", *key), question.score(made))
    rows = list(dict.fromkeys(key[0] for key in found.scores))
    print(f"### Settings, on {len(asked)} questions that are not reported\n")
    found.table("method", rows, [(f"{relation}, ε = {epsilon:g}", (relation, epsilon)) for relation, epsilon in cases])


def integers(reviews: Reviews, z: np.ndarray, weight: FallingWeight) -> None:
    """The same releases by the package's integers and noise: how far totals lie from the floats above, and one whole answer."""
    question, rho = Question(reviews, z, weight), rho_of_epsilon_delta(1.0, DELTA)
    m = len(reviews)
    print("### The package's own integers\n")
    w = best_label_weight(weight, question.encoder.farthest_from(z))
    asked = moments_of(question.encoder, question.asked, weight, w)  # type: ignore[arg-type]
    mechanism = calibrated(asked, "add-remove", 1, Spend("rho", rho))
    totals = reviews.totals(asked)
    exact = read_moments(totals, asked, mechanism.law, m)
    off = max(
        float(np.abs(exact.matrix - question.a).max()) / exact.matrix_std,
        float(np.abs(exact.vector - question.b).max()) / exact.vector_std,
    )
    print(f"- A and b differ from the floats by at most {off:.1e} standard deviations of the noise (ε = 1).")
    made = one_shot(read_moments(add_noise(totals, mechanism), asked, mechanism.law, m), RADIUS)
    print(f"- One one-shot answer with the package's noise (add-remove, ε = 1): {question.score(made.phi)[0]} of {TOP} words.")
    rates = RateRows(question.asked, weight).asked_sum()
    floats = np.append(question.mean_weight, question.rates) * m
    off = float(np.abs(np.array(reviews.totals(rates)) * rates.bound.unit - floats).max())  # type: ignore[attr-defined]
    print(f"- Word rates differ by at most {off / std_of(rates, 'add-remove', float(rho)):.1e} standard deviations.")
    slope = short_slope(question.encoder, question.asked, weight, made.phi)
    unit, radius = slope.bound.unit, slope.bound.radius  # type: ignore[attr-defined]
    off = float(np.abs(np.array(reviews.totals(slope)) * unit - question.short_slope(made.phi, radius) * m).max())
    print(f"- Slopes differ by at most {off / std_of(slope, 'add-remove', float(rho)):.1e} standard deviations.\n", flush=True)


def speed(reviews: Reviews, z: np.ndarray, weight: FallingWeight, lengths: Sequence[int] = (50, 100, 200, 500)) -> None:
    """Exact A once and steps on it, against a pass over the records per step: from how many steps on the first is faster."""
    print("### A once, or a pass per step\n")
    print(f"{len(reviews):,} reviews, one core, the package's two oracles with their integers and noise, seconds.\n")
    print("| words | pass for A and b | a step on them | a pass per step | A pays from this many steps on |")
    print("|---|---|---|---|---|")
    rho = rho_of_epsilon_delta(1.0, DELTA) / 300
    for d in lengths:
        part = Reviews(np.ascontiguousarray(reviews.x[:, :d]), reviews.f, None)
        encoder, asked = Words(d), tuple(z[:d].astype(float))
        phi = np.full(d, 0.5 / math.sqrt(d))
        sum_ = moments_of(encoder, asked, weight)  # type: ignore[arg-type]
        held = MomentsOracle(paid_ask(part.totals), sum_, len(part))
        first = _seconds(lambda held=held, phi=phi: held.gradient("slope 1", phi, rho))
        step = min(_seconds(lambda held=held, phi=phi: held.gradient("slope 2", phi, rho)) for _ in range(3))
        passes = PassOracle(paid_ask(part.totals), encoder, asked, weight, len(part))  # type: ignore[arg-type]
        each = min(_seconds(lambda passes=passes, phi=phi: passes.gradient("slope", phi, rho)) for _ in range(2))
        even = (first - step) / (each - step) if each > step else math.inf
        print(f"| {d} | {first - step:.2f} | {step:.3f} | {each:.2f} | {even:.1f} |", flush=True)
    print()


def _seconds(run: Any) -> float:
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin


def read(shared: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """(reviews as 0/1, whether positive, whether in the training half), or None where the table is not there."""
    file = shared / "data" / "imdb_bow1000.parquet"
    if not file.exists():
        print(f"{file} is not there: this benchmark needs the table of word counts of 50,000 film reviews and was skipped.")
        return None
    table = pd.read_parquet(file)
    words = [name for name in table.columns if name.startswith("w_")][:WORDS]
    positive, training = (table.label.astype(str) == "pos").to_numpy(), (table.split.astype(str) == "train").to_numpy()
    return (table[words].to_numpy() > 0).astype(np.float32), positive, training


def labelled(model: Any, x: np.ndarray, positive: np.ndarray, explained: np.ndarray) -> Reviews:
    """The model trained on x, and its outputs on the reviews that are explained."""
    model.fit(x, positive)
    return Reviews(explained, Reviews(explained, np.empty(0), model).outputs(explained), model)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shared", type=Path, default=Path(__file__).resolve().parents[2] / "shared", help="folder with data/")
    parser.add_argument("--quick", action="store_true", help="a few questions and one draw each")
    parser.add_argument("--settings", action="store_true", help="the table that settings were chosen by")
    parser.add_argument("--package", action="store_true", help="only what the package offers, in the main table and with centred")
    given = parser.parse_args()
    found = read(given.shared)
    if found is None:
        return
    x, positive, training = found
    order = np.random.default_rng(20).permutation(len(x))
    chosen, reported = order[:20], order[20:70]
    questions, draws, few = (4, 1, 2) if given.quick else (50, 2, 10)
    # The last distance of full weight is then 0.37·√d, 8 for 500 words: near where two texts of some fifty of them lie.
    weight = Stable(round(math.sqrt(WORDS), 1))
    logistic = labelled(LogisticRegression(C=0.05, max_iter=200), x, positive, x)
    if given.settings:
        settings(logistic, chosen[: 4 if given.quick else 20], weight)
        return
    if given.package:
        compare(logistic, reported[:questions], weight, draws, (300,), "Logistic regression trained on all reviews", others=False)
        compare(logistic, reported[:few], weight, 2, (), "The same, centred", centred=True, others=False)
        return
    compare(logistic, reported[:questions], weight, draws, (20, 50, 100, 300), "Logistic regression trained on all reviews")
    compare(logistic, reported[:few], weight, 2, (), "The same, outputs counted from that of the review (centred)", centred=True)
    boosted = labelled(HistGradientBoostingClassifier(random_state=0, max_iter=100), x, positive, x)
    compare(boosted, reported[:few], weight, 2, (), "Gradient boosting trained on all reviews")
    other = labelled(
        LogisticRegression(C=0.05, max_iter=200), x[training], positive[training], np.ascontiguousarray(x[~training])
    )
    held = np.random.default_rng(21).permutation(len(other))[:few]
    compare(other, held, weight, 2, (), "Logistic regression trained on 25,000 reviews, the other 25,000 explained")
    bandwidths(logistic, reported[: few // 2], 1)
    needed(logistic, reported[: few // 2], weight, 2 * draws)
    integers(logistic, x[reported[0]], weight)
    speed(logistic, x[reported[0]], weight)


if __name__ == "__main__":
    main()
