"""Bars and previews of accumulated effects: coverage, half-widths against errors, errors against previews.

    python benchmarks/effect_bars.py                      Adult and Bike, on which settings were chosen
    python benchmarks/effect_bars.py --judge              German Credit, Diabetes 130, ACS New York: run once
    python benchmarks/effect_bars.py --rows 300           the first so many records of each
    python benchmarks/effect_bars.py --forest             categories of the published comparison: an overfitted forest, a network

Numbers and categories of boosted trees, whole releases with production noise for all of an account: pure ε of 0.5 and 1, and
(1, 1e-6). Against the effects over the released intervals with exact sums, exact counts and no clip. The model's answers are
looked up, exact totals that were asked before are kept. Categories are those that occur, in the order of their codes.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from unittest import mock

import numpy as np

from protocol import OUTPUT, KeptTotals, arguments, has_data, lookup_session, task  # isort: skip
from curves import FEATURES
from error_bars import same_intervals
from fresh_tables import CHOOSING, JUDGING, MOST, columns, declared, fitted, load
from fresh_tables import OUTPUT as FRESH_OUTPUT

import pellucid as pel
from pellucid.explainers.curves import expected_effects, variation
from pellucid.explainers.curves.steps import Steps
from pellucid.public.grids import edge_candidates
from pellucid.release.door import Ask

BUDGETS = (pel.Budget(epsilon=0.5), pel.Budget(epsilon=1.0), pel.Budget(epsilon=1.0, delta=1e-6))
CATEGORIES = {
    "adult": ("workclass", "education", "marital-status", "occupation", "relationship", "race", "sex"),
    "bike": ("season", "weekday", "weathersit", "workingday"),
    "german": ("checking_status", "credit_history", "purpose", "savings_status", "employment", "housing", "job"),
    "diabetes": ("age", "gender", "race", "A1Cresult", "insulin", "change", "diabetesMed"),
    "acs": ("SEX", "RAC1P", "SCHL", "MAR", "COW", "CIT"),
}


@dataclass(frozen=True)
class Case:
    """A column, and the model's answers with the column set to each wanted value: of every record, and of public records."""

    label: str
    feature: pel.Number | pel.Category
    output: tuple[float, float]
    values: np.ndarray
    answers: Callable[[np.ndarray], np.ndarray]
    public: Callable[[np.ndarray], np.ndarray]


def numbers(table: str, options) -> Iterator[Case]:
    for column in columns(table, options.shared, options.cache, options.rows):
        middles = (column.grid[:-1] + column.grid[1:]) / 2

        def public(wanted, column=column, middles=middles):
            return column.public[:, np.searchsorted(middles, wanted)]

        yield Case(f"{table} {column.name}", column.feature, column.output, column.values, column.at, public)


def categories(table: str, options) -> Iterator[Case]:
    """The same boosted trees and records as for numbers; answers at all categories are kept on disk."""
    inputs = model = None
    for name in CATEGORIES.get(table, ()):
        key = hashlib.sha256(repr((table, name, MOST)).encode()).hexdigest()[:12]
        path = options.cache / f"fresh_{table}_{name}_{key}.npz"
        if not path.exists():
            if inputs is None:
                inputs, target = load(table, options.shared)
                order = np.random.default_rng(0).permutation(len(inputs))[:MOST]
                inputs, target = inputs.iloc[order].reset_index(drop=True), target[order]
                model = fitted(table, inputs, target)
            if name not in inputs:
                raise SystemExit(f"{table} has {list(inputs)}, not {name}")
            codes, matrix, j = np.unique(inputs[name]), inputs.to_numpy(), list(inputs).index(name)
            asked = np.vstack([matrix, declared(table, inputs)])
            found = np.empty((len(asked), len(codes)), np.float32)
            for i, value in enumerate(codes):
                asked[:, j] = value
                found[:, i] = model.predict(asked) if table == "bike" else model.predict_proba(asked)[:, 1]
            found = np.clip(found, *FRESH_OUTPUT.get(table, (0.0, 1.0)))
            np.savez(path, values=np.searchsorted(codes, matrix[:, j]), answers=found[: len(matrix)], public=found[len(matrix) :])
        with np.load(path) as kept:
            values, of_people, of_public = kept["values"][: options.rows], kept["answers"][: options.rows], kept["public"]
        feature = pel.Category([f"c{i}" for i in range(of_people.shape[1])])
        output = FRESH_OUTPUT.get(table, (0.0, 1.0))
        yield Case(
            f"{table} {name}", feature, output, values.astype(float),
            lambda w, a=of_people: a[:, w.astype(int)], lambda w, a=of_public: a[:, w.astype(int)],
        )  # fmt: skip


def of_forest(options) -> Iterator[Case]:
    """Columns of the published comparison: Adult with an overfitted forest, Bike with a network."""
    for data, names in FEATURES.items():
        of = task(data, "anchors", options.shared, options.cache)
        for name in names:
            if isinstance(of.schema[name], pel.Category) != options.numbers:
                values = of.codes[:, of.names.index(name)].astype(float)[: options.rows]
                yield Case(
                    f"{data} {name}", of.schema[name], OUTPUT[data], values,
                    lambda w, of=of, name=name: of.at(name, w)[: options.rows],
                    lambda w, of=of, name=name: of.of_public_records(name, w),
                )  # fmt: skip


class Watched(Ask):
    """Remembers over which intervals the steps were asked for."""

    def total(self, stage, query=None):
        if stage == "steps":
            self.steps: Steps = query.sums[0].map
        return super().total(stage, query)


def measured(case: Case, budget: pel.Budget, draws: int) -> dict[str, float]:
    lo, hi = case.output
    grid = edge_candidates(case.feature)

    def public(model, schema, name, wanted):
        return np.clip((case.public(wanted)[: variation.PUBLIC_RECORDS] - lo) / (hi - lo), 0, 1)

    session, model = lookup_session(case.feature, "x", case.values, grid, case.answers(grid), case.output, budget=budget)
    explainer = pel.AccumulatedEffects(model, "x")
    inside, squared, half, clips = [], [], [], []
    with mock.patch.object(expected_effects, "public_curves", public):
        plan, engine = session.plan(explainer, epsilon=budget.epsilon), KeptTotals(session._engine)
        expected = explainer.expected(plan)
        counts = np.array(engine.totals(plan["places"].query), dtype=float) / 2**30
        for _ in range(draws):
            ask = Watched(engine.totals, plan)
            made = explainer.run(ask)
            lower, upper = made.interval()
            exact = same_intervals(ask.steps, counts, engine, 2 * model.range)
            inside.append(((lower <= exact) & (exact <= upper)).mean())
            squared.append(((made.y - exact) ** 2).mean())
            half.append(((upper - lower) / 2).mean())
            clips.append(made.clip)
    error = float(np.mean(squared)) ** 0.5
    typical, bars, most = (float(np.sqrt((each**2).mean())) for each in (expected.typical, expected.error, expected.at_most))
    return {
        "covered": float(np.mean(inside)), "error": error / (hi - lo), "ratio": float(np.mean(half)) / error,
        "clip": float(np.mean(clips)) / (hi - lo), "preview": error / typical,
        "bars": float(np.sqrt(np.mean(np.square(half)))) / bars, "usual": float(np.quantile(half, 0.95)) / most,
        "most": float(np.max(half)) / most,
    }  # fmt: skip


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--judge", action="store_true", help="the tables that were not used to choose settings")
    parser.add_argument("--forest", action="store_true", help="columns of the published comparison")
    parser.add_argument("--numbers", action="store_true", help="numbers only")
    parser.add_argument("--rows", type=int, help="take so many records of each table")
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--categories", action="store_true", help="categories only")
    parser.add_argument("--only", help="only columns whose name contains this text")
    options = parser.parse_args()
    if not has_data(options.shared):
        print(f"skipped: no data in {options.shared}; give the folder with --shared.")
        return 0
    warnings.simplefilter("ignore")
    options.cache = Path(options.cache)
    options.cache.mkdir(parents=True, exist_ok=True)
    if options.forest:
        cases = [of_forest(options)]
    else:
        tables = JUDGING if options.judge else CHOOSING
        parts = (numbers,) if options.numbers else (numbers, categories)[options.categories :]
        cases = [part(table, options) for table in tables for part in parts]
    head = "| column | account | covered | error / range | half-width / error | clip / range | error / preview | bar / preview"
    print(head + " | 95 % / most | longest / most |\n" + "|---" * 10 + "|")
    rows: dict[str, list[dict[str, float]]] = {}
    for case in (case for part in cases for case in part):
        if options.only and options.only not in case.label:
            continue
        for budget in BUDGETS:
            account = f"({budget.epsilon:g}, 1e-6)" if budget.delta else f"{budget.epsilon:g}"
            row = measured(case, budget, options.draws)
            kind = "categories" if isinstance(case.feature, pel.Category) else "numbers"
            rows.setdefault(f"{kind}, {account}", []).append(row)
            told = f"{row['covered']:.3f} | {row['error']:.5f} | {row['ratio']:.1f} | {row['clip']:.3f}"
            against = " | ".join(f"{row[name]:.2f}" for name in ("preview", "bars", "usual", "most"))
            print(f"| {case.label} | {account} | {told} | {against} |", flush=True)
    for what, found in rows.items():
        covered, ratios = [r["covered"] for r in found], [r["ratio"] for r in found]
        good, third = (sum(1 / f <= r["preview"] <= f for r in found) for f in (2, 3))
        long, kept = sum(0.5 <= r["bars"] <= 2 for r in found), sum(r["usual"] <= 1 for r in found)
        print(
            f"{what}: {len(found)} columns, covered {np.mean(covered):.3f} ({min(covered):.3f} to {max(covered):.3f}), "
            f"{sum(0.93 <= c <= 0.99 for c in covered)} between .93 and .99; half-width / error median {median(ratios):.1f}, "
            f"{min(ratios):.1f} to {max(ratios):.1f}; errors within twice the preview for {good}, three times for {third}, "
            f"bars within twice for {long}, 95 % of releases within the limit for {kept}; "
            f"error {np.exp(np.mean(np.log([r['error'] for r in found]))):.5f}"
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
