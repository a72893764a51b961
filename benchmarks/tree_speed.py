"""Trees in one walk: explanations of tree models beside scikit-learn's and PyALE's, in one run and on one core.

    OMP_NUM_THREADS=1 python benchmarks/tree_speed.py [--rows 45000] [--features 15]
    python benchmarks/tree_speed.py --report        # eight explanations of a boosted model, on all cores

Made-up numbers; a forest of 100 trees of depth 10, and 100 rounds of histogram boosting, XGBoost and LightGBM (where they are
installed). Ours is a whole release: trial of the model, charge, walk, noise, certificate; the model was read before, by a first
release that is not timed. Theirs are all features one after another. Times are processor seconds of one thread, ours the median
of three, theirs taken once in between.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import statistics
import sys
import time
import warnings
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.inspection import partial_dependence, permutation_importance

import pellucid as pel


def made_up(rows: int, features: int) -> tuple[pd.DataFrame, pel.Schema]:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({f"x{j}": rng.normal(size=rows).clip(-4, 4) for j in range(features)})
    table["x3"], table["x4"] = rng.integers(0, 60, rows), rng.integers(0, 12, rows)
    score = table["x0"] + table["x1"] * table["x2"] + np.sin(table["x3"] / 6) + (table["x4"] > 6) * table["x5"]
    table["y"] = (score + rng.normal(size=rows) > 0.5).astype(int)
    schema = {f"x{j}": pel.Number(-4, 4) for j in range(features)}
    schema |= {"x3": pel.Number(0, 59, integer=True), "x4": pel.Number(0, 11, integer=True), "y": pel.Category([0, 1])}
    return table.astype({"x3": float, "x4": float}), pel.Schema(schema)


def models(table: pd.DataFrame, names: list[str], cores: int) -> dict[str, Any]:
    made: dict[str, Any] = {
        "forest": RandomForestClassifier(100, max_depth=10, random_state=0, n_jobs=cores),
        "hist boosting": HistGradientBoostingClassifier(random_state=0),
    }
    if importlib.util.find_spec("xgboost"):
        from xgboost import XGBClassifier

        made["XGBoost"] = XGBClassifier(n_estimators=100, n_jobs=cores, random_state=0)
    if importlib.util.find_spec("lightgbm"):
        from lightgbm import LGBMClassifier

        made["LightGBM"] = LGBMClassifier(n_estimators=100, n_jobs=cores, random_state=0, verbose=-1)
    return {name: model.fit(table[names], table["y"]) for name, model in made.items()}


def seconds(job: Any, times: int = 1) -> float:
    taken = []
    for _ in range(times):
        start = time.process_time()
        job()
        taken.append(time.process_time() - start)
    return statistics.median(taken)


def grids(schema: pel.Schema, names: list[str], points: int) -> dict[str, np.ndarray]:
    return {
        name: np.unique(np.linspace(schema[name].lo, schema[name].hi, points).round(0 if schema[name].integer else 12))
        for name in names
    }


def theirs_partial(model: Any, table: pd.DataFrame, names: list[str], values: dict[str, np.ndarray], share: float) -> float:
    """Brute force over all features; for many points a share of them is timed, and the time scaled."""
    some = {name: grid[: max(1, round(len(grid) * share))] for name, grid in values.items()}
    work = sum(map(len, values.values())) / sum(map(len, some.values()))
    for name in names:
        partial_dependence(model, table[names][:64], [name], method="brute", kind="average", custom_values={name: some[name]})
    taken = seconds(
        lambda: [
            partial_dependence(model, table[names], [name], method="brute", kind="average", custom_values={name: some[name]})
            for name in names
        ]
    )
    return taken * work


def compare(rows: int, features: int) -> None:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    table, schema = made_up(rows, features)
    names = [name for name in schema if name != "y"]
    print(f"{rows:,} x {features}, one thread; processor seconds, ours and (theirs / ours)")
    print("| model | 20 points, all features | 100 points | importance | accumulated effects |")
    print("|---|---|---|---|---|")
    for title, fitted in models(table, names, 1).items():
        model = pel.Model(fitted, features=names, trained_on="other data", name=title)
        session = pel.Session(table, schema, budget=pel.Budget(epsilon=1000.0))

        def release(explainer: Any, session: pel.Session = session) -> Any:
            return session.release(explainer, epsilon=1.0, fresh=True)

        cells = []
        for points, share in ((20, 1.0), (100, 0.1)):
            explainer = pel.PartialDependence(model, names, points=points, method="values")
            release(explainer)
            ours = seconds(lambda e=explainer: release(e), 3)
            theirs = theirs_partial(fitted, table, names, grids(schema, names, points), share)
            cells.append(f"{ours:.2f} ({theirs / ours:.1f})")
        explainer = pel.PermutationImportance(model, "y", loss="squared", repeats=1)
        release(explainer)
        ours = seconds(lambda e=explainer: release(e), 3)
        theirs = seconds(
            lambda f=fitted: permutation_importance(
                f, table[names], table["y"], scoring="neg_brier_score", n_repeats=1, random_state=0
            )
        )
        cells.append(f"{ours:.2f} ({theirs / ours:.1f})")
        explainer = pel.AccumulatedEffects(model, names)
        release(explainer)
        ours = seconds(lambda e=explainer: release(e), 3)
        cells.append(f"{ours:.2f} ({effects(fitted, table, names) / ours:.1f})")
        print(f"| {title} | " + " | ".join(cells) + " |", flush=True)


class Probability:
    """PyALE asks for `predict`."""

    def __init__(self, model: Any):
        self.model = model

    def predict(self, table: pd.DataFrame) -> np.ndarray:
        return np.asarray(self.model.predict_proba(table)[:, 1])


def effects(fitted: Any, table: pd.DataFrame, names: list[str]) -> float:
    try:
        from PyALE import ale
    except ImportError:
        return float("nan")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return seconds(
            lambda: [
                ale(
                    table[names],
                    Probability(fitted),
                    [name],
                    feature_type="continuous",
                    grid_size=20,
                    include_CI=False,
                    plot=False,
                )
                for name in names
            ]
        )


def report(rows: int, features: int) -> None:
    """Eight explanations of a boosted model."""
    table, schema = made_up(rows, features)
    names = [name for name in schema if name != "y"]
    fitted = models(table, names, os.cpu_count() or 1)["hist boosting"]
    model = pel.Model(fitted, features=names, trained_on="other data", name="boosting")
    session = pel.Session(table, schema, budget=pel.Budget(epsilon=100.0, delta=1e-6))
    record = {name: float(table[name][0]) for name in names}
    explainers = {
        "curve": pel.PartialDependence(model, "x0"),
        "curves": pel.PartialDependence(model, names),
        "effects": pel.AccumulatedEffects(model, "x3"),
        "distribution": pel.Distribution("x3"),
        "importance": pel.PermutationImportance(model, "y"),
        "interaction": pel.FeatureInteraction(model, anyway=True),
        "Shapley values": pel.ShapValues(model, record),
        "local": pel.LocalLinear(model, record),
    }
    start, whole = time.perf_counter(), []
    for title, explainer in explainers.items():
        began = time.perf_counter()
        session.release(explainer, epsilon=1.0)
        whole.append(f"{title} {time.perf_counter() - began:.1f}")
    taken = time.perf_counter() - start
    print(f"eight explanations of {rows:,} x {features}: {taken:.1f} s ({', '.join(whole)}); target 20: {taken < 20}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=45_000)
    parser.add_argument("--features", type=int, default=15)
    parser.add_argument("--report", action="store_true")
    options = parser.parse_args()
    (report if options.report else compare)(options.rows, options.features)
    return 0


if __name__ == "__main__":
    sys.exit(main())
