"""The joint draw of attributes for clusters: how long it takes, how often it refuses, and neighbours against the spans.

    python benchmarks/combination.py draw          # Diabetes (47 binned attributes, k-means), equal weights
    python benchmarks/combination.py hard          # made-up scores in which all clusters want the same attribute
    python benchmarks/combination.py neighbours    # a million neighbouring tables, all combinations enumerated

Nothing here is private: clusters and counts are exact.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import secrets
import time
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
from protocol import arguments
from sklearn.cluster import KMeans

from pellucid.explainers.clusters.scores import CombinationScore
from pellucid.mechanisms import AssignmentScores, Spend, calibrate_assignment
from pellucid.mechanisms.assignment.draw import sampler

UNITS = 2**30
DROP = ["readmitted", "encounter_id", "patient_nbr"]
EDGES = {
    "num_lab_procedures": [10, 20, 30, 40, 50, 60, 70],
    "num_medications": [5, 10, 15, 20, 25, 30, 40],
    "number_outpatient": [1, 2, 3, 5, 10],
    "number_emergency": [1, 2, 3, 5, 10],
    "number_inpatient": [1, 2, 3, 5, 10],
    "num_procedures": [1, 2, 3, 4, 5, 6],
    "number_diagnoses": list(range(2, 16)),
    "time_in_hospital": list(range(2, 15)),
}
# Chapters of ICD-9 as in Strack et al. (2014): first code, last code, group.
CHAPTERS = [
    (390, 460, 0),
    (785, 786, 0),
    (460, 520, 1),
    (786, 787, 1),
    (520, 580, 2),
    (787, 788, 2),
    (250, 251, 3),
    (800, 1000, 4),
]
CHAPTERS += [(710, 740, 5), (580, 630, 6), (788, 789, 6), (140, 240, 7)]
SPECIALTIES = (
    "? InternalMedicine Emergency Family Cardio Surg Ortho Radio Neph Pulm Psych Obst Uro Onco Gastro Neuro Pedia Physical"
)


def diagnosis(code: str) -> int:
    if code == "?":
        return 9
    if code[0] in "VE":
        return 8
    return next((group for first, end, group in CHAPTERS if first <= float(code) < end), 8)


def specialty(name: str) -> int:
    return next((i for i, key in enumerate(SPECIALTIES.split()) if key in name), 18)


def codes(shared: Path) -> tuple[np.ndarray, list[int]]:
    """Diabetes as integers, with the number of values of every attribute."""
    frame = pd.read_parquet(shared / "data" / "diabetes130.parquet").drop(columns=DROP)
    documented = json.loads((shared / "data" / "diabetes130.json").read_text(encoding="utf-8"))["columns"]
    columns, sizes = [], []
    for name in frame.columns:
        texts, known = frame[name].astype(str), documented[name].get("documented_categories")
        if name in EDGES:
            column, size = np.searchsorted(EDGES[name], frame[name].to_numpy(), side="right"), len(EDGES[name]) + 1
        elif name.startswith("diag_"):
            column, size = texts.map(diagnosis).to_numpy(), 10
        elif name == "medical_specialty":
            column, size = texts.map(specialty).to_numpy(), 19
        elif known:
            look = {str(k): i for i, k in enumerate(known)}
            column, size = texts.map(look).fillna(len(look)).to_numpy(), len(look) + 1
        else:
            column, size = pd.factorize(texts, sort=True)[0], 24
        columns.append(np.asarray(column, dtype=np.int64))
        sizes.append(size)
    return np.stack(columns, axis=1), sizes


def totals(x: np.ndarray, sizes: list[int], clusters: int) -> list[int]:
    labels = KMeans(clusters, n_init=1, max_iter=50, random_state=0).fit_predict(x.astype(np.float32)).astype(np.int64)
    tables = (np.bincount(labels * m + x[:, j], minlength=clusters * m) for j, m in enumerate(sizes))
    return [UNITS * int(v) for table in tables for v in table]


def timed(tables: AssignmentScores, rate: Fraction, draws: int = 10) -> str:
    """Seconds to the first draw; attempts per draw and milliseconds per further draw."""
    start = time.perf_counter()
    made = sampler(tables, rate)
    made.draw(secrets.randbelow)
    first, attempts = time.perf_counter() - start, made.attempts
    start = time.perf_counter()
    for _ in range(draws):
        made.draw(secrets.randbelow)
    each = (time.perf_counter() - start) / draws
    accepted = (draws + 1) / made.attempts
    return (
        f"{type(made).__name__:12} first {first:7.3f} s ({attempts} attempts) next {1e3 * each:8.1f} ms accepted {accepted:7.2%}"
    )


def draw(options: argparse.Namespace) -> None:
    x, sizes = codes(options.shared)
    for clusters in (5, 9, 15, 20, 30, 40):
        score, counts = CombinationScore(clusters, tuple(sizes), 1, 1, 1), totals(x, sizes, clusters)
        start = time.perf_counter()
        tables = score.tables(counts)
        print(f"C = {clusters}: scores {1e3 * (time.perf_counter() - start):.0f} ms", flush=True)
        for epsilon in ("0.01", "0.03", "0.1", "0.3", "1", "3", "10"):
            rate = calibrate_assignment(score.span("add-remove", UNITS), Spend("epsilon", Fraction(epsilon))).rate
            print(f"  ε = {epsilon:5} {timed(tables, rate)}", flush=True)


def wanted(clusters: int, attributes: int, want: float, penalty: float) -> AssignmentScores:
    """All clusters want attribute 0 by `want` nats; sharing costs up to `penalty` nats a pair."""
    rng, unit = np.random.default_rng(1), 2**24
    unary = want * (np.arange(attributes) == 0) + 0.3 * rng.random((clusters, attributes))
    upper = np.triu(penalty * (1 - 0.3 * rng.random((attributes, clusters, clusters))), 1)
    whole = upper + upper.transpose(0, 2, 1)
    return AssignmentScores([[int(unit * v) for v in r] for r in unary], [[[int(unit * v) for v in r] for r in m] for m in whole])


def _hard(case: tuple[int, int, float, float]) -> None:
    print(f"  {case} {timed(wanted(*case), Fraction(1, 2**24), 2)}", flush=True)


def hard(options: argparse.Namespace) -> None:
    """Each case gets half a minute: counting such combinations is hard in general, and the draw may then not end in time."""
    for case in itertools.product((9, 12, 13, 15, 20, 30), (47,), (10.0,), (1.0, 5.0)):
        process = multiprocessing.Process(target=_hard, args=(case,))
        process.start()
        process.join(30)
        if process.is_alive():
            process.terminate()
            print(f"  {case} not within 30 s", flush=True)
        process.join()


def batch_tables(rng: np.random.Generator, batch: int, clusters: int, attributes: int, values: int) -> np.ndarray:
    """(batch, attribute, cluster, value): empty clusters, single records, concentrated and spread values; the same n_c."""
    size = np.where(rng.random((batch, clusters)) < 0.15, 0, np.floor(np.exp(rng.random((batch, clusters)) * np.log(1e4))))
    left = np.repeat(size[:, None, :], attributes, axis=1)
    out = np.zeros((batch, attributes, clusters, values))
    for v in range(values - 1):
        kind = rng.integers(4, size=left.shape)
        share = np.select(
            [kind == 0, kind == 1, kind == 2], [0.0, 1.0, np.exp(-6 * rng.random(left.shape))], rng.random(left.shape)
        )
        out[..., v] = np.floor(left * share)
        left = left - out[..., v]
    out[..., -1] = left
    return out * (rng.random((batch, 1, 1, 1)) > 0.02)


def add_unit(rng: np.random.Generator, tables: np.ndarray, split: bool) -> np.ndarray:
    """A record, or (split) a person of weight at most 1 with three rows."""
    out, everyone = tables.copy(), np.arange(len(tables))
    weights = (
        rng.dirichlet(np.ones(3), len(tables)) * rng.choice([1.0, 0.5], (len(tables), 1)) if split else np.ones((len(tables), 1))
    )
    for w in weights.T:
        cluster = rng.integers(tables.shape[2], size=len(tables))
        for a in range(tables.shape[1]):
            np.add.at(out, (everyone, a, cluster, rng.integers(tables.shape[3], size=len(tables))), w)
    return out


def float_tables(h: np.ndarray, weights: tuple[float, float, float]) -> tuple[np.ndarray, np.ndarray]:
    """Unary scores (batch, attribute, cluster) and penalties (batch, attribute, cluster, cluster) of the paper's definitions."""
    clusters = h.shape[2]
    size, whole = h.sum(axis=3), h.sum(axis=2)
    n = np.maximum(size.sum(axis=2), 1e-300)
    interest = np.abs(h - (size / n[..., None])[..., None] * whole[:, :, None]).sum(axis=3) / 2
    sufficiency = (h * h / np.maximum(whole, 1e-300)[:, :, None]).sum(axis=3)
    shares = h / np.maximum(size, 1e-300)[..., None]
    least = np.minimum(size[..., :, None], size[..., None, :])
    apart = least * (1 - np.abs(shares[:, :, :, None] - shares[:, :, None]).sum(axis=4) / 2)
    i, s, d = weights
    return (i * interest + s * sufficiency) / clusters, apart * d * 2 / (clusters * max(clusters - 1, 1))


def worst(rng: np.random.Generator, score: CombinationScore, relation: str, split: bool, pairs: int) -> float:
    """The largest range of the change over all combinations, as a share of the span; floats, so to about 1e-8."""
    clusters, attributes, values = score.clusters, len(score.sizes), score.sizes[0]
    sum_ = score.interest + score.sufficiency + score.diversity
    weights = (score.interest / sum_, score.sufficiency / sum_, score.diversity / sum_)
    span = score.span(relation, UNITS) / (score.scale * UNITS)  # type: ignore[arg-type]
    most = 0.0
    for _ in range(0, pairs, 2000):
        common = batch_tables(rng, 2000, clusters, attributes, values)
        first = add_unit(rng, common, split) if relation == "replace" else common
        before, after = float_tables(first, weights), float_tables(add_unit(rng, common, split), weights)
        unary, penalty = after[0] - before[0], after[1] - before[1]
        high, low = np.full(2000, -np.inf), np.full(2000, np.inf)
        for combination in itertools.product(range(attributes), repeat=clusters):
            total = sum(unary[:, a, c] for c, a in enumerate(combination))
            for c, e in itertools.combinations(range(clusters), 2):
                if combination[c] == combination[e]:
                    total = total - penalty[:, combination[c], c, e]
            high, low = np.maximum(high, total), np.minimum(low, total)
        most = max(most, float((high - low).max()) / span)
    return most


def neighbours(options: argparse.Namespace) -> None:
    rng, done = np.random.default_rng(0), 0
    shapes = [(2, 3, 3), (3, 3, 2), (4, 2, 2), (5, 2, 2)]
    choices = [(1, 1, 1), (1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 8)]
    kinds = [("add-remove", False), ("replace", False), ("add-remove", True), ("replace", True)]
    each = options.pairs // (len(shapes) * len(choices) * len(kinds)) + 1
    for (clusters, attributes, values), (relation, split) in itertools.product(shapes, kinds):
        shares = []
        for weights in choices:
            score = CombinationScore(clusters, (values,) * attributes, *weights)
            shares.append(worst(rng, score, relation, split, each))
            done += -(-each // 2000) * 2000
        broken = "VIOLATED" if max(shares) > 1 + 1e-7 else ""
        line = " ".join(f"{w}: {share:.3f}" for w, share in zip(choices, shares))
        print(f"C = {clusters} {relation:10} {'people' if split else 'records'} {line} {broken}", flush=True)
    print(f"{done} pairs of neighbours")


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("study", choices=["draw", "hard", "neighbours"])
    parser.add_argument("--pairs", type=int, default=1_000_000)
    options = parser.parse_args()
    {"draw": draw, "hard": hard, "neighbours": neighbours}[options.study](options)


if __name__ == "__main__":
    main()
