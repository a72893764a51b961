"""Whole reports at a total of ε = 1: the planner's report against an even division over the same explanations.

    python benchmarks/planner.py                   # Adult, Bike (settings were chosen on these) and credit default (judged)
    python benchmarks/planner.py --oracle          # besides, the division that the errors found would have wanted
    python benchmarks/planner.py --table           # what can be told, by the number of people and ε

Each table has a boosted model of all its columns. `--reports` reports are released, each planned and drawn anew. Beside each of
them, the same explanations are released at the same ε each ("even"); curves of a report lean on its distributions, and so
once more evenly with that ("leaning too"). "asked" is an even division over all that was asked for, `--most` curves with their
distributions and the importance, among which the planner leaves out what the importance does not tell from nothing.
Errors are root mean squares over the released numbers against those of a release for ε = 900, relative to the standard deviation
of the latter, of counts to their root mean square (an even histogram has no deviation); ratios are of means over all reports.
"expected" is the planner's error over the one that was found, as root mean squares over the reports. Interactions are left out:
orders have no errors. Codes of categories are declared as they occur here, which a study must not do.
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd

from protocol import arguments, has_data  # isort: skip
from fresh_tables import NUMERIC, OUTPUT, fitted, load

import pellucid as pel
from pellucid.audit.transcript import Kept
from pellucid.mechanisms import Spend
from pellucid.release.door import Ask
from pellucid.reports.split import Errors, divided

CHOSEN, JUDGED = ("adult", "bike"), ("credit",)
MOST = 10_000


def opened(table: str, shared, rows: int = MOST) -> tuple[dict[str, np.ndarray], pel.Schema, pel.Model]:
    inputs, target = load(table, shared)
    order = np.random.default_rng(0).permutation(len(inputs))[:rows]
    inputs, target = inputs.iloc[order].reset_index(drop=True), target[order]
    declared = {}
    for name in inputs:
        # Codes of categories are whole numbers from 0; how many there are is documented with each table.
        known = NUMERIC[table].get(name)
        declared[name] = known if known is not None else codes(inputs[name])
    estimator = fitted(table, inputs, target)
    schema = pel.Schema(declared)
    columns = {
        name: inputs[name].to_numpy().astype(int if isinstance(declared[name], pel.Category) else float) for name in inputs
    }
    model = pel.Model(
        estimator, output=OUTPUT.get(table, (0.0, 1.0)), input="array", features=list(inputs), trained_on="other data"
    )
    return columns, schema, model


def codes(values: pd.Series) -> pel.Number | pel.Category:
    lowest, highest = int(values.min()), int(values.max())
    if highest - lowest < 50 and (values == values.round()).all():
        return pel.Category(list(range(lowest, highest + 1)))
    return pel.Number(lowest, highest, integer=True)


def numbers(result) -> np.ndarray:
    for name in ("y", "counts", "values"):
        if hasattr(result, name):
            return np.asarray(getattr(result, name), dtype=float)
    raise AssertionError(type(result).__name__)


class Truth:
    """What explanations are without noise, each computed once."""

    def __init__(self, columns, schema):
        self.columns, self.schema, self._known = columns, schema, {}

    def errors(self, explainer, result) -> tuple[float, float]:
        """(root mean square error, relative error) of one release."""
        grid = tuple(getattr(result, "x", ()))
        key = (type(explainer).__name__, str(getattr(explainer, "feature", "")), grid)
        if key not in self._known:
            self._known[key] = self._exact(explainer, grid)
        exact = self._known[key]
        error = float(np.sqrt(((numbers(result) - exact) ** 2).mean()))
        size = np.sqrt((exact**2).mean()) if hasattr(result, "counts") else exact.std()
        return error, error / max(float(size), 1e-12)

    def _exact(self, explainer, grid: tuple) -> np.ndarray:
        generous = pel.Session(self.columns, self.schema, budget=pel.Budget(1000.0))
        if isinstance(explainer, pel.PartialDependence):
            explainer = pel.PartialDependence(explainer.model, explainer.feature, points=list(grid), method="values")
        return numbers(generous.release(explainer, epsilon=900))


def alone(explainer):
    """As it is released outside of a report."""
    return replace(explainer, people=()) if isinstance(explainer, pel.PartialDependence) else explainer


def one_report(columns, schema, model, truth: Truth, options) -> tuple[dict, pel.MadeReport, pel.Session]:
    """By name: ε, error expected and found, and relative errors: planner, even, leaning too, all that was asked."""
    session = pel.Session(columns, schema, budget=pel.Budget(1.0))
    made = session.report(pel.Report(model, most=options.most).without("interactions"), epsilon=1.0).release()
    steps, beside = {step.name: step for step in made.steps}, pel.Session(columns, schema, budget=pel.Budget(3.0))

    def evenly(parts: int, which) -> dict[str, float]:
        # A thousandth of a thousandth less each time: what was released before must not be replayed.
        asked = {
            n: (which(s.candidate.explainer), {"epsilon": Fraction(1, parts) - Fraction(len(seen), 10**9)})
            for n, s in steps.items()
        }
        seen.append(parts)
        return {n: truth.errors(steps[n].candidate.explainer, one)[1] for n, one in beside.release(asked).items()}

    seen: list[int] = []
    even, leaning, all_asked = evenly(len(steps), alone), evenly(len(steps), lambda e: e), evenly(1 + 2 * options.most, alone)
    rows = {}
    for name, step in steps.items():
        found, relative = truth.errors(step.candidate.explainer, made[name])
        rows[name] = (float(step.spend.amount), step.error, found, relative, even[name], leaning[name], all_asked[name])
    return rows, made, session


def study(table: str, options) -> None:
    columns, schema, model = opened(table, options.shared)
    truth, found, means = Truth(columns, schema), defaultdict(list), []
    for _ in range(options.reports):
        rows, made, session = one_report(columns, schema, model, truth, options)
        for name, row in rows.items():
            found[name].append(row)
        means.append(np.mean([row[3:] for row in rows.values()], axis=0))
    print(f"\n{table}, {len(next(iter(columns.values()))):,} people, {options.reports} reports\n")
    print("| explanation | reports | ε | expected/found | planner | even | leaning too |\n|---|---|---|---|---|---|---|")
    ratios = []
    for name, rows in found.items():
        each = np.array(rows)
        ratios.append(np.sqrt((each[:, 1] ** 2).mean() / (each[:, 2] ** 2).mean()))
        told = " | ".join(f"{number:.3f}" for number in each[:, 3:6].mean(axis=0))
        print(f"| {name} | {len(each)} | {each[:, 0].mean():.3f} | {ratios[-1]:.2f} | {told} |")
    planner, even, leaning, asked = np.mean(means, axis=0)
    often = np.array([r for r, rows in zip(ratios, found.values()) if len(rows) > options.reports / 2])
    inside, middle = int((np.abs(np.log(often)) <= np.log(1.2)).sum()), np.exp(np.log(often).mean())
    print(f"\n{table}: planner {planner:.3f}, even {even:.3f}: **{planner / even:.2f}**")
    print(f"to even, leaning too: {planner / leaning:.2f}; to even over all that was asked: {planner / asked:.2f}")
    print(
        f"expected/found {middle:.2f}, {often.min():.2f} to {often.max():.2f}, {inside} of {len(often)} within 20 %", flush=True
    )
    if options.oracle:
        oracle(made, session, truth, options.draws)


def oracle(made: pel.MadeReport, session, truth: Truth, draws: int) -> None:
    """What the best division of one report would have given: errors are measured at several prices, and divided by as by the
    planner. It knows the truth, so it is a ceiling for any planner."""
    prices, laws = np.geomspace(0.02, 0.5, 6), []
    for step in made.steps:
        explainer, relative = step.candidate.explainer, []
        for price in prices:
            plan = session._plan(explainer, Spend("epsilon", Fraction(float(price)).limit_denominator(10_000)))
            kept = Kept(session._engine.totals)
            drawn = [truth.errors(explainer, explainer.run(Ask(kept, plan)))[1] for _ in range(draws)]
            relative.append(np.mean(drawn))
        laws.append(Errors(prices, np.array(relative)))

    def mean(division) -> float:
        return float(np.mean([law.at(max(price, prices[0])) for law, price in zip(laws, division)]))

    planned = [float(step.spend.amount) for step in made.steps]
    best, even = mean(divided(laws, 1.0)), mean([1 / len(laws)] * len(laws))
    print(f"the same report divided by an oracle {best:.3f}, by the planner {mean(planned):.3f}, evenly {even:.3f}", flush=True)


def table_of(options) -> None:
    """What the planner keeps, by the number of people and ε, on Adult."""
    columns, schema, model = opened("adult", options.shared, 10**9)
    have = len(next(iter(columns.values())))
    print("| people | " + " | ".join(f"ε = {e:g}" for e in (0.1, 0.3, 1, 3)) + " |\n|---|---|---|---|---|")
    for people in (500, 2_000, 8_000, have):
        cells = []
        for epsilon in (0.1, 0.3, 1.0, 3.0):
            session = pel.Session({n: v[:people] for n, v in columns.items()}, schema, budget=pel.Budget(3.0))
            try:
                plan = session.report(model, epsilon=epsilon).plan
                parts = [step.part for step in plan]
                told = ", ".join(f"{parts.count(p)} {p}" if parts.count(p) > 1 else p for p in dict.fromkeys(parts))
                cells.append(f"{told} ({plan.relative_error:.0%})")
            except pel.PlanError:
                cells.append("nothing")
        print(f"| {people:,} | {' | '.join(cells)} |", flush=True)


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--reports", type=int, default=12)
    parser.add_argument("--oracle", action="store_true")
    parser.add_argument("--draws", type=int, default=6)
    parser.add_argument("--most", type=int, default=6)
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--tables", nargs="+", default=[*CHOSEN, *JUDGED])
    options = parser.parse_args()
    if not has_data(options.shared):
        print(f"skipped: no data in {options.shared}; give the folder with --shared.")
        return 0
    warnings.simplefilter("ignore")
    if options.table:
        table_of(options)
        return 0
    for table in options.tables:
        study(table, options)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
