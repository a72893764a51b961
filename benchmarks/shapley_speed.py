"""Time, model calls and memory of private Shapley rankings, beside the shap package without privacy."""

from __future__ import annotations

import time
import tracemalloc
import warnings
from unittest import mock

import numpy as np
import pandas as pd
from shapley_accuracy import table, verdicts
from shapley_pairs import Pair, pair
from sklearn.ensemble import RandomForestRegressor

import pellucid as pel
from pellucid.explainers.shapley import trees
from pellucid.explainers.shapley.estimator import estimator_for
from pellucid.public.rows import Rows

FOREST = {"trees": 100, "depth": 10, "features": 100, "background": 1000, "queries": 15}
RUNS = 3
PERMUTATIONS = (2, 4, 8, 16, 32, 64)
LABELS = ("ours, clipped for values", "ours, clipped for a ranking", "shap KernelExplainer", "shap KernelExplainer, l1_reg off")
SAMPLES = (64, 128, 256, 512, 1024, 2048)


def speed(options) -> None:
    try:
        import shap
    except ImportError:
        print("skipped: the shap package is not installed.")
        return
    checks = [*_trees(shap), *_black_box(shap, options), *_memory()]
    verdicts(checks)


def _trees(shap) -> list[tuple[str, bool, str]]:
    rng = np.random.default_rng(0)
    d, n, queries = FOREST["features"], FOREST["background"], FOREST["queries"]
    x = rng.standard_normal((4000, d)).clip(-3, 3)
    target = x[:, :10] @ rng.normal(size=10) + x[:, 10] * x[:, 11] + rng.normal(size=len(x))
    forest = RandomForestRegressor(FOREST["trees"], max_depth=FOREST["depth"], max_features=1 / 3, random_state=0).fit(x, target)
    background, asked = rng.standard_normal((n, d)).clip(-3, 3), rng.standard_normal((queries, d)).clip(-3, 3)
    schema = pel.Schema({f"x{j}": pel.Number(-3, 3) for j in range(d)})
    lo = float(np.mean([t.tree_.value.min() for t in forest.estimators_]))
    hi = float(np.mean([t.tree_.value.max() for t in forest.estimators_]))
    model = pel.Model(forest, output=(lo, hi), features=list(schema), input="array", trained_on="other data")
    frame = pd.DataFrame(background, columns=list(schema))
    records = [{name: float(v) for name, v in zip(schema, row)} for row in asked]

    def session() -> pel.Session:
        return pel.Session(frame, schema, budget=pel.Budget(epsilon=1000.0))

    start = time.perf_counter()
    ready = session()
    ready.release(pel.ShapRanking(model, records[0], k=5, certified=(lo, hi)), epsilon=1.0)
    first = time.perf_counter() - start
    masker = shap.maskers.Independent(background, max_samples=n)
    shap.TreeExplainer(forest, masker).shap_values(asked[:1], check_additivity=False)

    def whole_releases() -> None:
        asking = session()
        for record in records:
            asking.release(pel.ShapRanking(model, record, k=5, certified=(lo, hi)), epsilon=1.0)

    def one_call() -> np.ndarray:
        return shap.TreeExplainer(forest, masker).shap_values(asked, check_additivity=False)

    def record_by_record() -> None:
        explainer = shap.TreeExplainer(forest, masker)
        for row in asked:
            explainer.shap_values(row[None], check_additivity=False)

    def vectors_and_totals() -> np.ndarray:
        found = []
        rows = Rows(schema, {name: background[:, j] for j, name in enumerate(schema)})
        for record in records:
            chosen = estimator_for(model, schema, record, certified=(lo, hi))
            per_record = chosen(rows)
            chosen.bound(ranked=True).totals(per_record)
            whole = np.zeros(d)
            whole[[int(name[1:]) for name in chosen.features]] = per_record.mean(axis=0)
            found.append(whole)
        return np.array(found)

    def without_numba() -> None:
        with mock.patch.object(trees, "compiled", lambda: None):
            whole_releases()

    ways = {
        "shap TreeExplainer, all records in one call": one_call,
        "shap TreeExplainer, record by record": record_by_record,
        "ours: vectors and exact totals": vectors_and_totals,
        "**ours: whole releases (session, top-5, ledger)**": whole_releases,
        "**ours: whole releases, Numba not installed**": without_numba,
    }
    apart = float(np.abs(vectors_and_totals() - one_call()).max() / (hi - lo))
    spent: dict[str, list[float]] = {what: [] for what in ways}
    waited: dict[str, list[float]] = {what: [] for what in ways}
    for _ in range(RUNS):
        # Taking turns, so that all meet the same load.
        for what, run in ways.items():
            start, clock = time.process_time(), time.perf_counter()
            run()
            spent[what].append(time.process_time() - start)
            waited[what].append(time.perf_counter() - clock)
    print(
        f"\nForest of {FOREST['trees']} trees, depth {FOREST['depth']}, d = {d}, {n:,} background rows, {queries} records: "
        f"least of {RUNS} runs\nthat take turns. Values agree to {apart:.0e} of the range."
    )
    base = next(iter(ways))
    rows = [
        [what, f"{min(spent[what]):.2f}", f"{min(spent[what]) / min(spent[base]):.2f}", f"{min(waited[what]):.2f}"]
        for what in ways
    ]
    rows.append(["ours: the very first release of a process (loads or compiles the loop)", "-", "-", f"{first:.2f}"])
    table(["what", "seconds of processor", "ratio to shap", "seconds of clock"], rows)
    with_it, without = (min(spent[what]) / min(spent[base]) for what in list(ways)[-2:])
    return [
        ("with Numba: whole releases at most 1.5 × shap's TreeExplainer", with_it <= 1.5, f"{with_it:.2f}"),
        ("without Numba, which is optional: the same", without <= 1.5, f"{without:.2f}"),
    ]


class Counted:
    """A model as an array function that counts the rows it is asked about."""

    def __init__(self, predictor):
        self.predictor, self.calls = predictor, 0

    def __call__(self, table) -> np.ndarray:
        self.calls += len(table)
        return self.predictor.predict_proba(np.asarray(table))[:, 1]


def _black_box(shap, options) -> list[tuple[str, bool, str]]:
    checks = []
    n, queries = 100, 3
    for data, kind in (("synth_interaction", "RF"), ("synth_interaction", "MLP")):
        of = pair(data, kind, options.shared, options.cache)
        rows = of.rows(n)
        truth = [_truth(of, i, n).mean(axis=0) for i in range(queries)]
        width = of.model.range
        counted = Counted(of.model.predictor)
        asking = pel.Model(counted, output=of.model.output, features=list(of.schema), input="array", trained_on="other data")
        asking.ready(of.schema)

        def error(found: list[np.ndarray], truth=truth, width=width) -> float:
            return float(np.sqrt(np.mean((np.array(found) - np.array(truth)) ** 2)) / width)

        points: dict[str, list[tuple[float, float]]] = {label: [] for label in LABELS}
        for permutations in PERMUTATIONS:
            made = [
                estimator_for(asking, of.schema, of.record(i), method="permutations", permutations=permutations)
                for i in range(queries)
            ]
            counted.calls = 0
            found = [one(rows) for one in made]
            for label, ranked in zip(LABELS, (False, True)):
                bounds = [one.bound(ranked=ranked) for one in made]
                means = [bound.mean(bound.totals(each), n) for bound, each in zip(bounds, found)]
                points[label].append((counted.calls / queries, error(means)))
        for label, extra in zip(LABELS[2:], ({}, {"l1_reg": False})):
            for samples in SAMPLES:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    explainer = shap.KernelExplainer(counted, of.background[:n])
                    counted.calls = 0
                    np.random.seed(0)
                    found = [explainer.shap_values(of.asked[i], nsamples=samples, silent=True, **extra) for i in range(queries)]
                points[label].append((counted.calls / queries, error(found)))
        print(f"\nBlack box {kind} ({data}, d = {of.features}), {n} background rows, {queries} records: calls per record: RMSE/R")
        most = len(SAMPLES)
        rows = [
            [label, *(f"{calls:,.0f}: {e:.1e}" for calls, e in some), *[""] * (most - len(some))]
            for label, some in points.items()
        ]
        table(["estimator", *["calls: error"] * most], rows)
        # For every error that shap reaches, the fewest calls with which we are at least as good.
        worse = []
        for calls, reached in points[LABELS[2]] + points[LABELS[3]]:
            enough = [c for c, e in points[LABELS[0]] if e <= reached]
            if not enough or min(enough) >= calls:
                worse.append(f"{calls:,.0f} calls")
        said = "fewer at every point" if not worse else f"not at {', '.join(worse)}"
        checks.append((f"black box {kind}: fewer model calls than KernelExplainer at the same error", not worse, said))
    return checks


def _truth(of: Pair, i: int, n: int) -> np.ndarray:
    """Exact vectors where the model can be taken apart; else 2,000 permutations for each background record."""
    exact = of.chosen(i)
    if not exact.exact:
        exact = estimator_for(of.model, of.schema, of.record(i), method="permutations", permutations=2000, seed=99)
    return exact(of.rows(n))


def _memory() -> list[tuple[str, bool, str]]:
    rng, d = np.random.default_rng(0), 20
    w = rng.normal(size=d)
    schema = pel.Schema({f"x{j}": pel.Number(-3, 3) for j in range(d)})
    model = pel.Model(
        lambda t: 1 / (1 + np.exp(-t @ w)), output=(0, 1), features=list(schema), input="array", trained_on="other data"
    )
    peaks, rows = [], []
    for n in (10_000, 100_000):
        frame = pd.DataFrame(rng.uniform(-3, 3, (n, d)), columns=list(schema))
        session = pel.Session(frame, schema, budget=pel.Budget(epsilon=1000.0))
        session.release(pel.ShapRanking(model, {}, k=1, permutations=2), epsilon=0.5)
        tracemalloc.start()
        session.release(pel.ShapRanking(model, {"x0": 1.0}, k=1, permutations=2), epsilon=1.0)
        peaks.append(tracemalloc.get_traced_memory()[1] / 1e6)
        tracemalloc.stop()
        rows.append([f"{n:,}", f"{peaks[-1]:.0f}", f"{n * d * 8 / 1e6:.0f}"])
    table(["background rows", "largest memory of a release, MB", "the table itself, MB"], rows)
    met = peaks[1] <= 1.5 * peaks[0] + 1.0
    return [("10 times the rows need at most 1.5 times the memory", met, f"{peaks[1] / peaks[0]:.2f} times")]
