"""Local linear explanations: loss, steps, questions per budget and the individual filter, on committed synthetic generators.

    python benchmarks/local.py loss
    python benchmarks/local.py acs
    python benchmarks/local.py individual
    python benchmarks/local.py reuse
    python benchmarks/local.py speed

Everything runs on plain arrays with the package's own bounds and mechanisms. Losses are compared with the noiseless optimum, so
what is printed is for evaluation and not private.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
from collections.abc import Iterable, Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier

import pellucid as pel
from pellucid.baselines import local as published
from pellucid.explainers.local.bound import Moments
from pellucid.explainers.local.encoder import LocalRows, best_label_weight, read_moments
from pellucid.explainers.local.methods import explain, non_interactive, one_shot, smallest_in_ball
from pellucid.explainers.local.oracles import IndividualOracle, MomentsOracle
from pellucid.explainers.local.weights import Gaussian, Stable
from pellucid.mechanisms import Spend, add_noise, rho_of_epsilon_delta
from pellucid.public.schema import Relation
from pellucid.query import Sum, calibrated
from pellucid.release.charge import Charge
from pellucid.release.door import IndividualAsk, PaidAsk, Totals
from pellucid.release.individual import IndividualAccounts
from pellucid.release.plan import Public

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


def clustered(records: int, d: int, clusters: int = 60, spread: float = 0.1, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Records in clusters of the unit cube, and a model that bends between them."""
    rng = np.random.default_rng(seed)
    centres = rng.uniform(0.1, 0.9, (clusters, d))
    x = np.clip(centres[rng.integers(0, clusters, records)] + spread * rng.normal(size=(records, d)), 0, 1)
    slopes, bends = rng.normal(size=(2, d))
    return x, np.tanh(4 / math.sqrt(d) * ((x - 0.5) @ slopes + np.sin(6 * x) @ bends / 6))


class Numbers:
    """Coordinates that are all numbers: nothing among them adds up to nothing."""

    projector = None


def public(relation: Relation) -> Public:
    """What a door knows; there is no table, so the schema is any."""
    return Public(pel.Schema({"x": pel.Number(0, 1)}), relation, pel.Unit(), Spend("rho", Fraction(10**9)), None)


def nothing(charge: Charge) -> None:
    """Pays without a ledger."""


def paid_ask(totals: Totals, relation: Relation = "add-remove") -> PaidAsk:
    """The package's door of one question, beside totals from anywhere."""
    return PaidAsk(totals, public(relation), nothing)


def question(z: np.ndarray, weight: Stable | Gaussian, w: float = 1.0) -> Sum:
    far = math.ceil(64 * math.sqrt(float((np.maximum(z, 1 - z) ** 2).sum())) * (1 + 1e-12)) / 64
    limits = weight.limits(far, w)
    rows = LocalRows(Numbers(), tuple(z), weight, w)  # type: ignore[arg-type]
    return Sum(rows, Moments(len(z), limits.joint, limits.slope, limits.label))


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


def loss(records: int = 50_000) -> None:
    """The loss of one question at ε = 0.1 on the synthetic generator."""
    _loss((f"d = {d}", *people(records, d)) for d in (5, 14, 50))


ACS_TWO = ["SEX", "NATIVITY", "LANX", "HICOV", "PRIVCOV", "PUBCOV", "DIS", "DEAR", "DEYE", "DREM", "DPHY"]
ACS_MANY = {"MAR": 5, "RAC1P": 9, "CIT": 5, "COW": 9, "ENG": 4, "MIL": 4}


def acs(shared: Path) -> None:
    """The same on people of New York with an income (never committed). The model is trained on other states."""
    _loss((name, x, f) for name, x, f in _acs_tables(shared))


def _acs_tables(shared: Path) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    columns = ["AGEP", "SCHL", "WKHP", "PINCP", "STATE", *ACS_TWO, *ACS_MANY]
    tables = []
    for file in ("acs2024_person_49st", "acs2024_person_ny"):
        table = pd.read_parquet(shared / "data" / f"{file}.parquet", columns=columns, dtype_backend="numpy_nullable")
        table = table[(table.AGEP > 16) & (table.WKHP >= 1) & (table.PINCP > 100)]
        tables.append(table if file.endswith("ny") else table[table.STATE.astype(str) != "36"].sample(60_000, random_state=0))
    for d in (5, 14, 50):
        scaled = [_acs_scaled(table, d) for table in tables]
        rich = (tables[0].PINCP > 50_000).astype(int)
        model = HistGradientBoostingClassifier(random_state=0, max_iter=60).fit(scaled[0], rich)
        yield f"ACS New York, d = {scaled[1].shape[1]}", scaled[1], 2 * model.predict_proba(scaled[1])[:, 1] - 1


def _acs_scaled(table: pd.DataFrame, d: int) -> np.ndarray:
    """Documented domains scaled to [0, 1]: three numbers, categories of two values, and for d = 50 one-hot ones and more."""
    numbers = [(table[name].fillna(lo) - lo) / (hi - lo) for name, lo, hi in (("AGEP", 0, 99), ("SCHL", 1, 24), ("WKHP", 1, 99))]
    two = [(table[name].fillna(2) == 1) for name in ACS_TWO]
    many = [table[name] == value for name, levels in ACS_MANY.items() for value in range(1, levels + 1)]
    kept = (numbers + two)[:d] if d <= 14 else numbers + two + many
    return np.clip(np.column_stack([column.astype(float).to_numpy(dtype=float, na_value=0.0) for column in kept]), 0, 1)


def _loss(tables: Iterable[tuple[str, np.ndarray, np.ndarray]], questions: int = 12, epsilon: float = 0.1) -> None:
    rho = rho_of_epsilon_delta(epsilon, DELTA)
    rng = np.random.default_rng(5)
    etas = (0.1, 0.3, 1.0, 3.0)
    print(f"ε = {epsilon}, δ = {DELTA}: excess loss over L(0) − L*, median and largest of {questions} questions")
    for name, x, f in tables:
        records, d = x.shape
        weight = Stable()
        w = {relation: best_label_weight(weight, math.sqrt(d), relation) for relation in RELATIONS}
        found: dict[str, list[float]] = {}
        for z in x[rng.integers(0, records, questions)]:
            truth = Exact(z, x, f, weight)
            for relation in RELATIONS:
                asked = question(z, weight, w[relation])
                mechanism = calibrated(asked, relation, 1, Spend("rho", rho))
                noisy = add_noise(asked.bound.totals(asked.map.of(x, f)), mechanism)  # type: ignore[attr-defined]
                made = one_shot(read_moments(noisy, asked, mechanism.law, records), 1.0)
                found.setdefault(f"one-shot, {relation}", []).append(truth.relative(made.phi))
                found.setdefault(f"one-shot, {relation}, expected", []).append(made.excess / truth.gain)
            asked = question(z, weight)
            totals = asked.bound.totals(asked.map.of(x, f))  # type: ignore[attr-defined]
            oracle = MomentsOracle(paid_ask(lambda _, totals=totals: totals), asked, records)
            found.setdefault("descent, 300 steps", []).append(truth.relative(explain("descent", oracle, rho).phi))
            sigma = published.published_sigma(records, 300, epsilon, DELTA)
            for eta in etas:
                phi = published.dpgd_explain(
                    np.zeros(d), sigma, 300, truth.a, truth.b, lambda t, eta=eta: eta / math.sqrt(t), rng
                )
                found.setdefault(f"published, η = {eta}", []).append(truth.relative(phi))
        print(f"{name}, {records} records, label weights {w}")
        for how, values in found.items():
            print(f"  {how:38s} {np.median(values):.5f}  {max(values):.5f}  mean {np.mean(values):.5f}")
        best = min(np.mean(found[f"published, η = {eta}"]) for eta in etas)
        print(f"  published (best mean) / one-shot (mean): {best / np.mean(found['one-shot, add-remove']):.0f}")


class Arrays:
    """Records that are held already: what `Prepared` is to the package."""

    def __init__(self, x: np.ndarray, f: np.ndarray):
        self.x, self.f, self.rows = x, f, len(x)

    def batches(self) -> Iterator[tuple[np.ndarray, np.ndarray, None]]:
        yield self.x, self.f, None


def individual_ask(x: np.ndarray, f: np.ndarray, rho: Fraction) -> IndividualAsk:
    """The package's door of questions with one account per record, beside arrays."""
    accounts = IndividualAccounts(Arrays(x, f), rho, "add-remove", pel.Unit())  # type: ignore[arg-type]
    return IndividualAsk(accounts, public("add-remove"), nothing)


def individual(records: int = 50_000, d: int = 14, epsilon: float = 1.0, without: int = 5) -> None:
    """How many questions one guarantee answers with an account per record, and how good they are.

    Without it, `without` questions use up the guarantee; with it, the same noise serves many times as many.
    """
    rho = rho_of_epsilon_delta(epsilon, DELTA)
    x, f = clustered(records, d)
    print(f"clustered, m = {records}, d = {d}, ε = {epsilon}, δ = {DELTA}; {without} questions without individual accounts")
    for weight in (Gaussian(1.0), Gaussian(0.5), Gaussian(0.35), Stable(1.0)):
        w = best_label_weight(weight, math.sqrt(d))
        rng = np.random.default_rng(3)
        ask = individual_ask(x, f, rho)
        excess = []
        for z in x[rng.integers(0, records, 60 * without)]:
            made = explain("one-shot", IndividualOracle(ask, question(z, weight, w), records), rho / without)
            excess.append(Exact(z, x, f, weight).relative(made.phi))
        told = ", ".join(f"{k} × {np.median(excess[: k * without]):.4f}" for k in (1, 5, 10, 20, 30, 40, 60))
        good = max((n for n in range(1, len(excess) + 1) if np.median(excess[:n]) <= 0.1), default=0)
        print(f"  {weight}: median excess after {told}; at most 0.1 up to {good / without:.0f} ×")


def reuse(records: int = 50_000, d: int = 14, known: int = 300, asked: int = 60) -> None:
    """How good an answer is that costs nothing: handed on from a distance, or fitted to earlier answers."""
    rng = np.random.default_rng(9)
    for name, (x, f) in (("people", people(records, d)), ("clustered", clustered(records, d))):
        places = rng.choice(records, known + asked, replace=False)
        weight = Stable()
        history, new = places[:known], places[known:]
        phis = np.array([Exact(z, x, f, weight).best for z in x[history]])
        found: dict[str, list[float]] = {}
        steps: dict[float, list[float]] = {}
        for z in x[new]:
            truth = Exact(z, x, f, weight)
            away = np.linalg.norm(x[history] - z, axis=1)
            # Beside the record, at a given distance in a random direction: what handing on from there would lose.
            for distance in (0.05, 0.1, 0.2, 0.33):
                turn = rng.normal(size=d)
                there = np.clip(z + distance * turn / np.linalg.norm(turn), 0, 1)
                steps.setdefault(distance, []).append(truth.relative(Exact(there, x, f, weight).best))
            found.setdefault("nearest of all", []).append(truth.relative(phis[away.argmin()]))
            near = np.exp(-((away / max(np.sort(away)[8], 1e-9)) ** 2))
            found.setdefault("mean of near ones", []).append(truth.relative(near @ phis / near.sum()))
            printed = non_interactive(z, x[history], phis, weight)
            found.setdefault("algorithm 4 as printed", []).append(truth.relative(printed))
            labelled = non_interactive(z, x[history], phis, weight, labels=f[history])
            found.setdefault("algorithm 4, outputs of the model", []).append(truth.relative(labelled))
        print(f"{name}, d = {d}, {known} answers without noise; nearest at {np.median(away.min()):.2f}; median excess")
        print("  handed on from", ", ".join(f"{k}: {np.median(v):.4f}" for k, v in steps.items()))
        for how, values in found.items():
            print(f"  {how:35s} {np.median(values):.4f}")


def speed(records: int = 1_500_000, d: int = 14) -> None:
    """The pass that builds A and b against 300 steps on them."""
    x, f = people(records, d)
    sum_ = question(x[0], Stable())
    begin = time.perf_counter()
    totals = [0] * sum_.size
    for start in range(0, records, 1 << 16):
        piece = slice(start, start + (1 << 16))
        totals = [a + b for a, b in zip(totals, sum_.bound.totals(sum_.map.of(x[piece], f[piece])))]  # type: ignore[attr-defined]
    passed = time.perf_counter() - begin
    oracle = MomentsOracle(paid_ask(lambda _: totals), sum_, records)
    begin = time.perf_counter()
    explain("descent", oracle, rho_of_epsilon_delta(0.1, DELTA))
    stepped = time.perf_counter() - begin
    print(f"{records} rows, d = {d}: pass {passed:.2f} s, 300 steps {stepped:.2f} s, {stepped / passed:.2f} × the pass")
    took, answered = _reused(x[:2000])
    print(
        f"a question answered from reuse, in a stream with {answered} answers and a ledger on disk: {1000 * took:.2f} ms (median)"
    )


def _reused(x: np.ndarray, paid: int = 300) -> tuple[float, int]:
    """Seconds for a whole `explain` that hands an answer on, certificate included; and how many answers it looked through."""
    names = [f"x{j}" for j in range(x.shape[1])]
    schema = pel.Schema({name: pel.Number(0, 1) for name in names})
    model = pel.Model(lambda d: np.asarray(d[names[0]], dtype=float), output=(0, 1), features=names, trained_on="other data")
    with tempfile.TemporaryDirectory() as folder:
        ledger = Path(folder) / "ledger.db"
        session = pel.Session(
            pd.DataFrame(x, columns=names), schema, pel.Budget(9.0, 1e-6), name="people", ledger=ledger, create=True
        )
        with session.open(pel.LocalLinear(model, questions=paid), share=1) as local:
            for row in x[:paid]:
                local.explain(dict(zip(names, row)))
            times = []
            for row in x[:100]:
                begin = time.perf_counter()
                assert local.explain(dict(zip(names, row))).source == "reused"
                times.append(time.perf_counter() - begin)
            return float(np.median(times)), local.answered


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["loss", "acs", "individual", "reuse", "speed"])
    parser.add_argument("--shared", type=Path, default=Path(__file__).resolve().parents[2] / "shared", help="folder with data/")
    given = parser.parse_args()
    run = globals()[given.what]
    run(given.shared) if given.what == "acs" else run()


if __name__ == "__main__":
    main()
