"""Lists of explainers beside one release after another: `OMP_NUM_THREADS=1 python benchmarks/lists.py`.

Processor seconds of one core, the median of three in turns, after one of each that is not timed. Both are whole releases, at the
same prices: trial of the model, charge, passes, noise, certificates.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tree_speed import made_up

import pellucid as pel

ROWS = 1_000_000


def compare(title: str, session: pel.Session, explainers: Sequence[pel.Explainer], times: int = 3) -> None:
    def one_by_one() -> None:
        for explainer in explainers:
            session.release(explainer, epsilon=1.0, fresh=True)

    def listed() -> None:
        session.release([(explainer, {"epsilon": 1.0}) for explainer in explainers], fresh=True)

    taken: dict[Any, list[float]] = {one_by_one: [], listed: []}
    for turn in range(times + 1):
        for way, found in taken.items():
            start = time.process_time()
            way()
            if turn:
                found.append(time.process_time() - start)
    alone, together = (statistics.median(found) for found in taken.values())
    print(f"| {title} | {len(explainers)} | {alone:.2f} | {together:.2f} | {alone / together:.2f} |", flush=True)


def explained(rows: int, features: int, fitted: Any) -> tuple[pel.Session, pel.Model, list[str], dict[str, float]]:
    table, schema = made_up(rows, features)
    names = [name for name in schema if name != "y"]
    model = pel.Model(fitted.fit(table[names], table["y"]), features=names, trained_on="other data", name="model")
    session = pel.Session(table, schema, budget=pel.Budget(epsilon=900.0, delta=1e-6))
    return session, model, names, {name: float(table[name][0]) for name in names}


def trees() -> None:
    session, model, names, record = explained(45_000, 15, HistGradientBoostingClassifier(random_state=0))
    curves = [pel.PartialDependence(model, "x0"), pel.PartialDependence(model, names), pel.AccumulatedEffects(model, "x3")]
    global_ = [pel.Distribution("x3"), pel.PermutationImportance(model, "y"), pel.FeatureInteraction(model, anyway=True)]
    local = [pel.ShapValues(model, record), pel.LocalLinear(model, record)]
    compare("boosted trees, 45,000 × 15: the report", session, [*curves, *global_, *local])


def logistic() -> None:
    session, model, names, record = explained(ROWS, 14, make_pipeline(StandardScaler(), LogisticRegression()))
    curves = [pel.PartialDependence(model, "x3"), pel.PartialDependence(model, "x4"), pel.AccumulatedEffects(model, "x3")]
    others = [pel.Distribution("x3"), pel.Distribution(names), pel.LocalLinear(model, record), pel.Completeness()]
    compare(f"logistic pipeline, {ROWS:,} × 14", session, [*curves, *others])


def counts() -> None:
    rng, texts = np.random.default_rng(0), [f"value {k}" for k in range(20)]
    table = pd.DataFrame(
        {f"x{i}": rng.uniform(0, 1, ROWS) for i in range(6)} | {f"c{i}": rng.choice(texts, ROWS) for i in range(4)}
    )
    schema = pel.Schema({name: pel.Number(0, 1) if name[0] == "x" else pel.Category(texts) for name in table})
    asked = [*(pel.Distribution(name) for name in table), pel.Distribution(list(table)), pel.Completeness()]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "table.parquet"
        table.to_parquet(file)
        for title, data in (("in memory", table), ("Parquet", file)):
            compare(f"counts, {ROWS:,} × 10, {title}", pel.Session(data, schema, budget=pel.Budget(epsilon=900.0)), asked)


def main() -> None:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    print("| | releases | one by one | a list | times as fast |\n|---|---:|---:|---:|---:|")
    trees()
    logistic()
    counts()


if __name__ == "__main__":
    main()
