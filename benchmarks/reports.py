"""Whole reports: eight partial dependences for one total of (1, 1e-6), or of ε = 1, one eighth of the account each.

    python benchmarks/reports.py

Adult and Bike: eight features each, numbers and categories, of the models of the published comparison. ACS New York, on which
nothing was chosen: its four numeric columns, at an eighth each, of a boosted model. Plans, the kind of release that the account
takes, maps, bounds, calibration, production noise and post-processing are the package's own; the model's answers are looked up.
Errors are root mean squares over the released points, relative to the standard deviation of the curve without noise.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from unittest import mock

import numpy as np

from protocol import OUTPUT, arguments, has_data, lookup_session, task  # isort: skip
from fresh_tables import columns

import pellucid as pel
from pellucid.audit.transcript import Kept
from pellucid.explainers.curves import variation
from pellucid.release.door import Ask

ASKED = {
    "adult": ["age", "education-num", "hours-per-week", "workclass", "marital-status", "occupation", "relationship", "sex"],
    "bike": ["hr", "mnth", "atemp", "hum", "windspeed", "weekday", "workingday", "weathersit"],
}
BUDGETS = {
    "ε = 1": pel.Budget(1.0),
    "(1, 1e-6), zCDP": pel.Budget(1.0, 1e-6, accounting="zcdp"),
    "(1, 1e-6)": pel.Budget(1.0, 1e-6),
}
SHARE = "0.125"


def published_models(table: str, options):
    """(name, feature, values, answers at grid values, those of public records, output) of each feature."""
    of = task(table, "anchors", options.shared, options.cache)
    for name in ASKED[table]:
        values = of.codes[:, of.names.index(name)].astype(float)
        yield (
            name, of.schema[name], values, lambda grid, name=name: of.at(name, grid),
            lambda grid, name=name: of.of_public_records(name, grid), OUTPUT[table],
        )  # fmt: skip


def boosted(table: str, options):
    for column in columns(table, options.shared, Path(options.cache), None):
        middles = (column.grid[:-1] + column.grid[1:]) / 2

        def public(grid, column=column, middles=middles):
            return column.public[:, np.searchsorted(middles, grid)][: variation.PUBLIC_RECORDS]

        yield column.name, column.feature, column.values, column.at, public, column.output


def errors(budget: pel.Budget, feature, name, values, at, of_public, output, draws: int) -> tuple[float, str, int]:
    """(relative error, kind, points) of one curve at its share."""
    lo, hi = output

    def public(model, schema, asked, grid):
        return np.clip((of_public(grid) - lo) / (hi - lo), 0, 1)

    variation._kept.clear()
    with mock.patch.object(variation, "public_curves", public):
        probe, model = lookup_session(feature, name, values, np.zeros(1), np.zeros((len(values), 1)), output, budget=budget)
        grid = probe.plan(pel.PartialDependence(model, name), share=SHARE).details.along[0].grid
        answers = at(grid)
        session, model = lookup_session(feature, name, values, grid, answers, output, budget=budget)
        explainer = pel.PartialDependence(model, name)
        plan, kept = session.plan(explainer, share=SHARE), Kept(session._engine.totals)
        truth = np.clip(answers, lo, hi).mean(axis=0, dtype=float)
        made = [((explainer.run(Ask(kept, plan)).y - truth) ** 2).mean() for _ in range(draws)]
    kind = "pure" if plan.public.spend.currency == "epsilon" else "zCDP"
    return float(np.sqrt(np.mean(made))) / max(float(truth.std()), 1e-12), kind, len(grid)


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--tables", nargs="+", default=[*ASKED, "acs"])
    options = parser.parse_args()
    if not has_data(options.shared):
        print(f"skipped: no data in {options.shared}; give the folder with --shared.")
        return 0
    warnings.simplefilter("ignore")
    print(
        f"{options.draws} releases a curve\n\n| table | account | mean | median | worst | curves: relative error, kind, points |"
    )
    print("|---|---|---|---|---|---|")
    for table in options.tables:
        curves = list(published_models(table, options) if table in ASKED else boosted(table, options))
        for account, budget in BUDGETS.items():
            found = [errors(budget, feature, name, *rest, options.draws) for name, feature, *rest in curves]
            each = "; ".join(f"{c[0]} {e:.3f} {kind} {points}" for c, (e, kind, points) in zip(curves, found))
            sizes = [e for e, _, _ in found]
            told = f"{np.mean(sizes):.3f} | {np.median(sizes):.3f} | {max(sizes):.3f} | {each}"
            print(f"| {table} ({len(curves[0][2]):,}) | {account} | {told} |", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
