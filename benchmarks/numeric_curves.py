"""Numeric partial dependence on tables that nobody tuned to: errors against the published mechanism and the version before, bars.

    python benchmarks/numeric_curves.py                      Adult and Bike, on which settings were chosen
    python benchmarks/numeric_curves.py --judge              German Credit, Diabetes 130, ACS New York: run once
    python benchmarks/numeric_curves.py --rows 300           the first so many records of each
    python benchmarks/numeric_curves.py --effects            accumulated effects

Published: 20 evenly spaced points and Laplace noise for their L1 norm, for all of ε. Before: K-norm noise on the grid that the
version before chose. Ours: plans, maps, bounds, calibration, production noise and post-processing of the package; the model's
answers, for people and for public records, are looked up. Mean integrated squared errors, evenly over the declared range and
weighted by people; replace-one. Ranks: of all points, and of the flat pieces of the truth.
With --effects: accumulated effects, against those over the released intervals with exact sums, exact counts and no clip.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from statistics import median
from unittest import mock

import numpy as np

from protocol import KeptTotals, arguments, has_data, lookup_session  # isort: skip
from error_bars import same_intervals
from fresh_tables import CHOOSING, JUDGING, Column, columns
from sources import Seeded

import pellucid as pel
from pellucid.audit.transcript import Kept
from pellucid.explainers.curves import expected_effects, variation
from pellucid.explainers.curves.steps import ClippedSteps
from pellucid.mechanisms import NoiseLaw, source
from pellucid.public.grids import curve_points, edge_candidates
from pellucid.release.door import Ask

EPSILONS = (0.1, 0.5, 1.0, 2.0)
MOVES = 3.0
"""A curve has an order to agree on where its standard deviation is so many times the error."""


def even_weights(x: np.ndarray) -> np.ndarray:
    weights = np.zeros(len(x))
    weights[:-1] += np.diff(x) / 2
    weights[1:] += np.diff(x) / 2
    return weights / weights.sum()


def errors(column: Column, x: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    """Mean integrated squared errors of drawn curves: evenly, and weighted by people."""
    gaps = np.array([np.interp(column.grid, x, y) for y in drawn]) - column.reference
    return np.array([(gaps**2 @ w).mean() for w in (even_weights(column.grid), column.weights())])


def by_values(column: Column, x: np.ndarray, kind: str, epsilon: float, draws: int) -> np.ndarray:
    size, rows = len(x), len(column.values)
    law = NoiseLaw(kind, (column.output[1] - column.output[0]) / rows / epsilon * (size if kind == "laplace" else 1), size)
    return errors(column, x, column.at(x).mean(axis=0, dtype=float) + law.draws(draws, seed=3))


def published(column: Column, epsilon: float, draws: int) -> np.ndarray:
    x = np.linspace(column.feature.lo, column.feature.hi, 20)
    return by_values(column, np.unique(np.rint(x)) if column.feature.integer else x, "laplace", epsilon, draws)


def before(column: Column, epsilon: float, draws: int) -> np.ndarray:
    return by_values(column, curve_points(column.feature, len(column.values), epsilon), "k-norm", epsilon, draws)


class Ours:
    """Releases of one column through the package."""

    def __init__(self, column: Column, delta: float):
        self.column = column
        budget = pel.Budget(epsilon=1000.0, delta=delta, accounting="zcdp" if delta else None)
        self.session, model = lookup_session(
            column.feature, column.name, column.values, column.grid, column.answers, column.output, budget=budget
        )
        self.explainer = pel.PartialDependence(model, column.name)
        self.kept = Kept(self.session._engine.totals)

    def planned(self, epsilon: float):
        lo, hi = self.column.output
        middles = (self.column.grid[:-1] + self.column.grid[1:]) / 2

        def public(model, schema, name, grid):
            return (self.column.public[:, np.searchsorted(middles, grid)][: variation.PUBLIC_RECORDS] - lo) / (hi - lo)

        variation._kept.clear()
        with mock.patch.object(variation, "public_curves", public):
            return self.session.plan(self.explainer, epsilon=epsilon)

    def measured(self, epsilon: float, draws: int) -> tuple[np.ndarray, dict[str, float], str]:
        plan = self.planned(epsilon)
        along, column = plan.details.along[0], self.column
        truth = column.at(along.grid).mean(axis=0, dtype=float)
        drawn, covered, ranks = [], [], []
        for _ in range(draws):
            made = self.explainer.run(Ask(self.kept, plan))
            lower, upper = made.interval()
            drawn.append(made.y)
            covered.append((lower <= truth) & (truth <= upper))
            ranks.append((spearman(made.y, truth), spearman(*pieces(made.y, truth))))
        realised = np.sqrt(((np.array(drawn) - truth) ** 2).mean())
        preview = float(np.sqrt((self.explainer.expected(plan).typical ** 2).mean()))
        every, flat = np.mean(ranks, axis=0)
        facts = {"covered": float(np.mean(covered)), "spearman": every, "pieces": flat, "preview": realised / preview}
        facts["moves"] = float(truth.std() / realised)
        return errors(column, along.grid, np.array(drawn)), facts, f"{along.method} {len(along.grid)}"


def spearman(a: np.ndarray, b: np.ndarray) -> float:
    if np.ptp(b) == 0:
        return 1.0
    ranks = [np.argsort(np.argsort(np.round(v, 12), kind="stable"), kind="stable") for v in (a, b)]
    return float(np.corrcoef(*ranks)[0, 1])


def pieces(y: np.ndarray, truth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A curve and the truth with one number for each flat piece of the truth, inside which there is no order to agree on."""
    start = np.concatenate([[0], np.flatnonzero(np.abs(np.diff(truth)) > 1e-6 * max(np.ptp(truth), 1e-300)) + 1])
    size = np.diff(np.concatenate([start, [len(truth)]]))
    return np.add.reduceat(y, start) / size, np.add.reduceat(truth, start) / size


def effects(tables: tuple[str, ...], options) -> int:
    """Coverage and error of accumulated effects, against the same intervals with exact numbers and no clip."""
    source.current = Seeded(11)
    seen: list[ClippedSteps] = []

    class Watched(Ask):
        def total(self, stage, query=None):
            if stage == "steps":
                seen.append(query.sums[0].map)
            return super().total(stage, query)

    head = "| column | ε | covered | error / range | half-width / error | clip / range | error / preview |"
    print(head + "\n" + "|---" * 7 + "|")
    for table in tables:
        for column in columns(table, options.shared, Path(options.cache), options.rows):
            grid, (lo, hi) = edge_candidates(column.feature), column.output
            middles = (column.grid[:-1] + column.grid[1:]) / 2

            def public(model, schema, name, wanted, column=column, middles=middles, lo=lo, hi=hi):
                return (column.public[:, np.searchsorted(middles, wanted)][: variation.PUBLIC_RECORDS] - lo) / (hi - lo)

            for epsilon in (0.5, 1.0):
                budget = pel.Budget(epsilon=100.0, delta=options.delta, accounting="zcdp" if options.delta else None)
                session, model = lookup_session(
                    column.feature, column.name, column.values, grid, column.at(grid), column.output, budget=budget
                )
                explainer = pel.AccumulatedEffects(model, column.name)
                with mock.patch.object(expected_effects, "public_curves", public):
                    plan, engine = session.plan(explainer, epsilon=epsilon), KeptTotals(session._engine)
                    preview = float(np.sqrt((explainer.expected(plan).error ** 2).mean())) / 1.96
                    counts = np.array(engine.totals(plan["places"].query), dtype=float) / 2**30
                    rows = []
                    for _ in range(options.draws):
                        made = explainer.run(Watched(engine.totals, plan))
                        step, (lower, upper) = seen.pop(), made.interval()
                        exact = same_intervals(step, counts, engine, 2 * step.model.range)
                        inside, error = ((lower <= exact) & (exact <= upper)).mean(), ((made.y - exact) ** 2).mean()
                        rows.append((inside, error, ((upper - lower) / 2).mean(), made.clip / (hi - lo)))
                covered, squared, half, clip = np.mean(rows, axis=0)
                error = squared**0.5
                told = f"{covered:.3f} | {error / (hi - lo):.5f} | {half / error:.1f} | {clip:.3f} | {error / preview:.2f}"
                print(f"| {table} {column.name} ({len(column.values)}) | {epsilon:g} | {told} |", flush=True)
    return 0


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--judge", action="store_true", help="the tables that were not used to choose settings")
    parser.add_argument("--tables", nargs="*", help="these tables alone")
    parser.add_argument("--rows", type=int, help="take so many records of each table")
    parser.add_argument("--draws", type=int, default=300)
    parser.add_argument("--effects", action="store_true", help="accumulated effects instead")
    parser.add_argument("--delta", type=float, default=0.0, help="of a zCDP account")
    options = parser.parse_args()
    if not has_data(options.shared):
        print(f"skipped: no data in {options.shared}; give the folder with --shared.")
        return 0
    warnings.simplefilter("ignore")
    tables = tuple(options.tables or (JUDGING if options.judge else CHOOSING))
    found: dict[float, list[tuple[float, ...]]] = {e: [] for e in EPSILONS}
    if options.effects:
        return effects(tables, options)
    head = (
        "| column | ε | way, points | / published, even | people | / before, even | people | covered | ranks | ranks of "
        "pieces | error / preview | moves / error |"
    )
    print(head + "\n" + "|---" * 12 + "|")
    for table in tables:
        for column in columns(table, options.shared, Path(options.cache), options.rows):
            ours = Ours(column, options.delta)
            for epsilon in EPSILONS:
                mine, facts, way = ours.measured(epsilon, options.draws)
                ratios = (*(mine / published(column, epsilon, 300)), *(mine / before(column, epsilon, 300)))
                row = (*ratios, *(facts[f] for f in ("covered", "spearman", "pieces", "preview", "moves")))
                found[epsilon].append(row)
                told = " | ".join(f"{v:.2f}" if i != 4 else f"{v:.3f}" for i, v in enumerate(row))
                print(f"| {table} {column.name} ({len(column.values)}) | {epsilon:g} | {way} | {told} |", flush=True)
    for epsilon, rows in found.items():
        each = list(zip(*rows))
        middle = (*(median(c) for c in each[:4]), np.mean(each[4]), *(median(c) for c in each[5:]))
        worst = (*(max(c) for c in each[:4]), *(min(c) for c in each[4:7]), max(each[7]), min(each[8]))
        for what, told in (("median", middle), ("worst", worst)):
            print(f"| **{what}** | {epsilon:g} | | " + " | ".join(f"{v:.2f}" for v in told) + " |")
        told = [row[6] for row in rows if row[8] > MOVES]
        if told:
            some = f"{len(told)} of {len(rows)} curves move more than {MOVES:g} errors"
            print(f"ε = {epsilon:g}: {some}; ranks of their pieces: median {median(told):.2f}, least {min(told):.2f}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
