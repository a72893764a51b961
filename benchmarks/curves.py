"""Accuracy of private curves against published ones: mean integrated squared errors as ratios ours / published.

    python benchmarks/curves.py                       the literal protocol ("anchors")
    python benchmarks/curves.py --variant published   rows shuffled, education in the order of adult.names

Pure epsilon, replace-one. Partial dependence spends 8/9 of epsilon (the published curves keep 1/9 for a histogram), accumulated
effects spend all of it. Plans, grids, maps, bounds, calibration and post-processing are the package's own; the model's answers
are looked up instead of computed, exact totals that were asked before are kept, and noise has the same laws but comes from
NumPy, since a thousand draws are needed. Bike's output is declared as [0, 1000]; its documentation gives no upper bound.
"""

from __future__ import annotations

import json
import sys
import zlib
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from statistics import median
from unittest import mock

import numpy as np
import pandas as pd

from protocol import OUTPUT, KeptTotals, Task, arguments, has_data, lookup_session, task  # isort: skip
from sources import Seeded

import pellucid as pel
from pellucid.explainers.curves import expected_effects, variation
from pellucid.mechanisms import exact, source
from pellucid.release.door import Ask

EPSILONS = (0.5, 1, 2, 5, 10)
DELTA = 1e-6
WITH_DELTA = f"(ε, {DELTA:g})"
PDP, ALE = "pdp_specific_mise", "ale_specific_mise"
FEATURES = {
    "adult": ["age", "education-num", "capital-gain", "capital-loss", "hours-per-week", "workclass", "education",
              "marital-status", "occupation", "relationship", "race", "sex", "native-country"],
    "bike": ["mnth", "hr", "weekday", "weathersit", "atemp", "hum", "windspeed", "yr", "holiday", "workingday"],
}  # fmt: skip


def budgets(account: str) -> list[pel.Budget]:
    """Accounts that one release uses up: pure, or new ones with a δ, which take whichever kind errs less."""
    return [pel.Budget(epsilon=e, delta=DELTA if account == WITH_DELTA else 0.0) for e in EPSILONS]


def accumulated_reference(
    values: np.ndarray, distinct: np.ndarray, answers: np.ndarray, one_order: bool, blocks: int = 99
) -> tuple[np.ndarray, np.ndarray]:
    """100 borders at sorted positions 0, n/99, ..., n-1; ties averaged over all orders, or taken in one sort order."""
    rows, order = len(values), np.argsort(values)
    borders = np.array([0] + [min(rows - 1, int((i + 1) * (rows / blocks))) for i in range(blocks)])
    x = values[order][borders]
    place = np.searchsorted(distinct, x)
    effects = np.zeros(blocks + 1)

    def step(k: int, who: np.ndarray) -> float:
        return float((answers[who, place[k + 1]].astype(float) - answers[who, place[k]]).mean())

    for k in range(blocks):
        if x[k] == x[k + 1]:
            continue
        inside = order[borders[k] : borders[k + 1]]
        if one_order:
            effects[k + 1] = step(k, inside)
        else:
            tied, count = np.unique(values[inside], return_counts=True)
            effects[k + 1] = sum(c * step(k, np.flatnonzero(values == v)) for v, c in zip(tied, count)) / count.sum()
    y = np.cumsum(effects)
    return x, y - y.mean()


def category_reference(values: np.ndarray, distinct: np.ndarray, answers: np.ndarray) -> np.ndarray:
    """Each step on the records of the first of its two categories; centred by the plain mean."""
    steps = [(answers[values == v, i + 1].astype(float) - answers[values == v, i]).mean() for i, v in enumerate(distinct[:-1])]
    y = np.concatenate([[0.0], np.cumsum(steps)])
    return y - y.mean()


class Comparison:
    """One feature: reference curves, and the errors of private ones."""

    def __init__(self, of: Task, name: str):
        self.task, self.name, self.feature = of, name, of.schema[name]
        self.values = of.codes[:, of.names.index(name)].astype(float)
        self.categorical = isinstance(self.feature, pel.Category)
        self.distinct = np.unique(self.values)
        self.x = self.distinct if self.categorical else np.linspace(self.values.min(), self.values.max(), 1000)
        answers = of.at(name, self.distinct)
        mean = answers.mean(axis=0, dtype=float)
        if self.categorical:
            self.dependence = mean
            self.effects = {"average": category_reference(self.values, self.distinct, answers)}
        else:
            self.dependence = np.interp(self.x, self.distinct, mean)
            self.effects = {
                ties: np.interp(self.x, *accumulated_reference(self.values, self.distinct, answers, ties == "one"))
                for ties in ("average", "one")
            }

    def on_reference(self, curve) -> np.ndarray:
        where = np.array([self.feature.position(v) for v in curve.x], dtype=float)
        return np.interp(self.x, where, curve.y)

    def runs(self, explainer_of, budget: pel.Budget, amount, output, draws: int):
        """Released curves, through the package's plan, maps, bounds, calibration and post-processing."""
        lo, hi = output

        def public(model, schema, name, grid):
            return np.clip((self.task.of_public_records(self.name, grid) - lo) / (hi - lo), 0, 1)

        with (
            mock.patch.object(variation, "public_curves", public),
            mock.patch.object(expected_effects, "public_curves", public),
        ):
            probe, model = self.session(np.zeros(1), np.zeros((len(self.values), 1)), output, budget)
            grid = probe.plan(explainer_of(model), epsilon=amount).details.along[0].grid
            session, model = self.session(grid, self.task.at(self.name, grid), output, budget)
            explainer = explainer_of(model)
            plan, engine = session.plan(explainer, epsilon=amount), KeptTotals(session._engine)
            made = [self.on_reference(explainer.run(Ask(engine.totals, plan))) for _ in range(draws)]
        yield from made

    def session(self, grid, answers, output, budget):
        return lookup_session(self.feature, self.name, self.values, grid, answers, output, budget=budget)

    def dependence_error(self, budget: pel.Budget, output, draws: int) -> float:
        budget = replace(budget, epsilon=float(exact("epsilon", budget.epsilon) * 8 / 9))
        runs = self.runs(lambda m: pel.PartialDependence(m, self.name), budget, budget.epsilon, output, draws)
        return float(np.mean([((y - self.dependence) ** 2).mean() for y in runs]))

    def effects_errors(self, budget: pel.Budget, output, draws: int) -> dict[str, float]:
        found: dict[str, list[float]] = {ties: [] for ties in self.effects}
        for y in self.runs(lambda m: pel.AccumulatedEffects(m, self.name), budget, budget.epsilon, output, draws):
            if self.categorical:
                y = y - y.mean()
            for ties, reference in self.effects.items():
                found[ties].append(((y - reference) ** 2).mean())
        return {ties: float(np.mean(errors)) for ties, errors in found.items()}


def errors_of(options, data: str, name: str) -> dict[tuple[str, str], list[float]]:
    """(table, published column) -> our errors, one per epsilon."""
    source.current = Seeded(zlib.crc32(name.encode()))
    one = Comparison(task(data, options.variant, options.shared, options.cache), name)
    found: dict[tuple[str, str], list[float]] = {}
    for account, draws in (("pure ε", options.draws), (WITH_DELTA, options.delta_draws)):
        if not options.effects:
            found[f"PDP, {account}", PDP] = [one.dependence_error(b, OUTPUT[data], draws) for b in budgets(account)]
        effects = [one.effects_errors(b, OUTPUT[data], draws) for b in budgets(account)]
        kind = "categorical" if one.categorical else "numeric"
        found[f"ALE {kind}, {account}", ALE] = [e["average"] for e in effects]
        if not one.categorical:
            found[f"ALE numeric against one tie order, {account}", ALE] = [e["one"] for e in effects]
    if data == "bike" and not options.effects:
        loose = [one.dependence_error(b, (0.0, 2000.0), options.delta_draws) for b in budgets("pure ε")]
        found["PDP with output declared [0, 2000], pure ε", PDP] = loose
    return found


def measure(options) -> dict[str, dict[str, list[float]]]:
    """Tables of ratios: title -> feature -> one per epsilon."""
    published = pd.read_csv(options.shared / "anchors" / "curves_mise.csv")
    published = published[published["dataset"].isin(["Adult Income", "Bike Sharing"])].set_index(["feature", "epsilon"])
    work = [(data, name) for data, names in FEATURES.items() for name in names if not options.only or name in options.only]
    tables: dict[str, dict[str, list[float]]] = {}
    with ProcessPoolExecutor(options.jobs) as pool:
        waiting = [pool.submit(errors_of, options, data, name) for data, name in work]
        for (data, name), result in zip(work, waiting):
            for (title, column), errors in result.result().items():
                ratios = [e / float(published.loc[(name, eps), column]) for e, eps in zip(errors, EPSILONS)]
                tables.setdefault(title, {})[f"{data} {name}"] = ratios
            print(f"done: {data} {name}", file=sys.stderr, flush=True)
    return tables


def row(label: str, ratios) -> str:
    return f"| {label} | " + " | ".join(f"{r:.3f}" for r in ratios) + " |"


def show(tables: dict[str, dict[str, list[float]]]) -> None:
    for title in sorted(tables, key=lambda t: (WITH_DELTA in t, "2000" in t, t)):
        features = tables[title]
        print(
            f"\n{title}\n\n| feature | " + " | ".join(f"ε = {e:g}" for e in EPSILONS) + " |\n|---" + "|---" * len(EPSILONS) + "|"
        )
        for label, ratios in features.items():
            print(row(label, ratios))
        for group, member in (("Adult", "adult "), ("Bike", "bike "), ("all", "")):
            chosen = [r for label, r in features.items() if label.startswith(member)]
            if len(chosen) > 1:
                print(row(f"**median, {group}**", [median(column) for column in zip(*chosen)]))


def judge(tables: dict[str, dict[str, list[float]]], account: str) -> None:
    def medians(title: str) -> list[float]:
        return [median(column) for column in zip(*tables[title].values())]

    binary = {"adult sex", "bike yr", "bike holiday", "bike workingday"}
    dependence = tables.get(f"PDP, {account}", {})
    above = [
        f"{f} at ε = {e:g}: {r:.2f}"
        for f, rs in dependence.items()
        for e, r in zip(EPSILONS, rs)
        if r > (1.6 if f in binary else 1.0)
    ]
    checks = [
        ("PDP at most published for every feature (two values: 1.6 times)", not above, "; ".join(above) or "all"),
        ("PDP median at most 0.25 at each ε", max(medians(f"PDP, {account}")) <= 0.25, row("", medians(f"PDP, {account}"))),
    ] if dependence else []  # fmt: skip
    for kind, limit in (("numeric", 0.9), ("categorical", 1.2)):
        found = medians(f"ALE {kind}, {account}")
        checks.append((f"ALE {kind} median at most {limit} at each ε", max(found) <= limit, row("", found)))
        checks.append((f"ALE {kind} median at most 0.5 (goal)", max(found) <= 0.5, row("", found)))
    print(f"\nTargets, {account}:")
    for what, good, shown in checks:
        print(f"- {'met' if good else 'MISSED'}: {what} {shown}")


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--variant", choices=("anchors", "published"), default="anchors")
    parser.add_argument("--draws", type=int, default=1000, help="draws per feature and epsilon, pure epsilon")
    parser.add_argument("--delta-draws", type=int, default=200, help="draws for accounts with a δ and the [0, 2000] ablation")
    parser.add_argument("--effects", action="store_true", help="accumulated effects only")
    parser.add_argument("--jobs", type=int, default=1, help="features measured at the same time")
    parser.add_argument("--only", nargs="*", help="only these features")
    parser.add_argument("--save", help="also write the ratios to this JSON file")
    options = parser.parse_args()
    if not has_data(options.shared):
        print(f"skipped: no data in {options.shared}; give the folder with --shared.")
        return 0
    print(f"variant {options.variant}; {options.draws} draws, {options.delta_draws} with δ = {DELTA:g}; noise from NumPy")
    tables = measure(options)
    show(tables)
    if options.save:
        with open(options.save, "w", encoding="utf-8") as file:
            json.dump(tables, file, indent=1)
    if not options.only:
        judge(tables, "pure ε")
        judge(tables, WITH_DELTA)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
