"""Private k-means against scikit-learn's, as a ratio of inertias on declared ranges; 1 is as good as without privacy.

    python benchmarks/kmeans.py                      # both halves, both relations, pure ε
    python benchmarks/kmeans.py --part judged --relation replace --repeats 20

The settings of the default start (shares, thresholds, numbers of cells and iterations) were chosen on the "frozen" half: made-up
blobs, a skewed table, Adult and Bike; and looked at on the "judged" half once, afterwards. Ranges are round numbers that somebody
without the data could have declared. "one" is a single cluster at the exact mean.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.cluster import KMeans

import pellucid as pel
from pellucid.engine import LocalEngine
from pellucid.mechanisms import Spend
from pellucid.public.schema import Unit
from pellucid.release.door import Ask
from pellucid.release.plan import Public

Table = Callable[[Path], tuple[np.ndarray, int]]
MOST = 20_000
"""Records of a real table, drawn at random, so that a study takes minutes."""
STARTS = ("fitted", "grid", "public")


def blobs(features: int, k: int, size: int, seed: int, spread: float = 0.06, tails: bool = False, uneven: bool = False) -> Table:
    def make(_: Path) -> tuple[np.ndarray, int]:
        rng = np.random.default_rng(seed)
        centres = rng.uniform(0.15, 0.85, (k, features))
        which = rng.choice(k, size, p=rng.dirichlet(np.full(k, 2.0)) if uneven else None)
        noise = rng.standard_t(3, (size, features)) if tails else rng.normal(size=(size, features))
        return np.clip(centres[which] + spread * noise * rng.uniform(0.5, 1.5, (k, 1))[which], 0, 1), k

    return make


def skewed(features: int, size: int, seed: int) -> Table:
    def make(_: Path) -> tuple[np.ndarray, int]:
        rng = np.random.default_rng(seed)
        scale = rng.uniform(0.01, 0.08, (4, features))
        return np.clip(rng.exponential(1, (size, features)) * scale[rng.integers(0, 4, size)], 0, 1), 4

    return make


def real(file: str, k: int, **ranges: tuple[float, float]) -> Table:
    def make(shared: Path) -> tuple[np.ndarray, int]:
        names = {name: name.replace("_", "-") if file == "adult" else name for name in ranges}
        frame = pd.read_parquet(shared / "data" / f"{file}.parquet", columns=list(names.values()))
        columns = []
        for name, (low, high) in ranges.items():
            values = pd.to_numeric(frame[names[name]], errors="coerce").to_numpy(float, na_value=np.nan)
            columns.append((np.clip(np.where(np.isnan(values), (low + high) / 2, values), low, high) - low) / (high - low))
        points = np.stack(columns, axis=1)
        return points[np.random.default_rng(0).permutation(len(points))[:MOST]], k

    return make


TABLES: dict[str, dict[str, Table]] = {
    "frozen": {
        "Adult, 6 features": real(
            "adult", 5, age=(17, 90), fnlwgt=(0, 1.5e6), education_num=(1, 16), capital_gain=(0, 1e5), capital_loss=(0, 5e3),
            hours_per_week=(1, 99),
        ),
        "Bike, 6 features": real(
            "bike_sharing_hour", 6, hr=(0, 23), temp=(0, 1), hum=(0, 1), windspeed=(0, 1), mnth=(1, 12), weekday=(0, 6)
        ),
        "blobs, 2 features, 5,000": blobs(2, 5, 5000, 1),
        "blobs, 6 features, 10,000": blobs(6, 6, 10_000, 2),
        "blobs, 10 features, 10,000": blobs(10, 5, 10_000, 4),
        "skewed, 4 features, 8,000": skewed(4, 8000, 5),
        "blobs, 3 features, 300": blobs(3, 3, 300, 6),
        "blobs, 6 features, 1,000": blobs(6, 4, 1000, 7),
    },
    "judged": {
        "German Credit, 4 features": real(
            "german_credit", 4, duration=(0, 72), credit_amount=(0, 2e4), age=(18, 80), installment_rate=(1, 4)
        ),
        "Credit default, 6 features": real(
            "credit_default", 6, LIMIT_BAL=(0, 1e6), AGE=(18, 80), BILL_AMT1=(-1e5, 1e6), BILL_AMT6=(-1e5, 1e6),
            PAY_AMT1=(0, 5e5), PAY_0=(-2, 8),
        ),
        "Diabetes, 8 features": real(
            "diabetes130", 5, time_in_hospital=(1, 14), num_lab_procedures=(0, 150), num_procedures=(0, 6),
            num_medications=(0, 100), number_outpatient=(0, 40),
            number_emergency=(0, 40), number_inpatient=(0, 20), number_diagnoses=(1, 16),
        ),
        "ACS New York, 6 features": real(
            "acs2024_person_ny", 6, AGEP=(0, 99), SCHL=(1, 24), WKHP=(0, 99), PINCP=(0, 5e5), JWMNP=(0, 200), POVPIP=(0, 501)
        ),
        "blobs, 2 features, 3,000": blobs(2, 8, 3000, 11),
        "blobs, 6 features, 20,000": blobs(6, 5, 20_000, 12, 0.05),
        "uneven blobs, 6 features, 5,000": blobs(6, 10, 5000, 13, 0.07, uneven=True),
        "heavy tails, 6 features, 20,000": blobs(6, 6, 20_000, 14, 0.05, tails=True),
        "blobs, 12 features, 20,000": blobs(12, 6, 20_000, 16),
        "blobs, 4 features, 300": blobs(4, 3, 300, 15),
        "skewed, 6 features, 20,000": skewed(6, 20_000, 17),
    },
}  # fmt: skip


def inertia(points: np.ndarray, centres: np.ndarray) -> float:
    away = ((centres**2).sum(axis=1) - 2 * points @ centres.T).min(axis=1)
    return float((away + (points**2).sum(axis=1)).sum())


def ratios(points: np.ndarray, k: int, best: float, start: str, relation: str, epsilon: str, repeats: int) -> list[float]:
    """Inertias of whole runs through the production noise, over scikit-learn's."""
    names = [f"x{j}" for j in range(points.shape[1])]
    schema = pel.Schema({name: pel.Number(0, 1) for name in names})
    explainer, size = pel.PrivateKMeans(k, names, start=start), len(points)
    engine = LocalEngine(dict(zip(names, points.T)), schema, relation, Unit())  # type: ignore[arg-type]
    spend = Spend("epsilon", Fraction(epsilon))
    plan = explainer.plan(Public(schema, relation, Unit(), spend, size if relation == "replace" else None, size))  # type: ignore[arg-type]
    return [inertia(points, explainer.run(Ask(engine.totals, plan)).centres) / best for _ in range(repeats)]  # type: ignore[attr-defined]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shared", type=Path, default=Path(__file__).resolve().parents[2] / "shared")
    parser.add_argument("--part", nargs="+", default=list(TABLES), choices=list(TABLES))
    parser.add_argument("--relation", nargs="+", default=["replace", "add-remove"])
    parser.add_argument("--budgets", nargs="+", default=["0.1", "0.5", "1"])
    parser.add_argument("--repeats", type=int, default=8)
    options = parser.parse_args()
    print(f"| part | table | relation | ε | one | {' | '.join(STARTS)} | fitted, worst |\n|---|---|---|---|---|---|---|---|---|")
    for part in options.part:
        for name, make in TABLES[part].items():
            points, k = make(options.shared)
            best = KMeans(k, n_init=10, random_state=0).fit(points).inertia_
            one = ((points - points.mean(axis=0)) ** 2).sum() / best
            for relation in options.relation:
                for epsilon in options.budgets:
                    found = {}
                    for start in STARTS:
                        try:
                            found[start] = ratios(points, k, best, start, relation, epsilon, options.repeats)
                        except pel.PlanError:
                            found[start] = [float("nan")]
                    means = " | ".join(f"{np.mean(values):.2f}" for values in found.values())
                    worst = max(found["fitted"])
                    print(f"| {part} | {name} | {relation} | {epsilon} | {one:.2f} | {means} | {worst:.2f} |", flush=True)


if __name__ == "__main__":
    main()
