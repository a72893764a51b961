"""What groups of features are worth in private Shapley rankings: Adult with one-hot columns, by column and by attribute.

    python benchmarks/shapley_groups.py [--records 30] [--releases 0]

The same fitted models and records as in shapley.py. By column there are 105 players; by attribute 14, each the group of its
one-hot columns. For every record asked about: is the leader that the release names the one that leads without noise, among the
same players and people? The chance of that is exact, by the law of the picks that the package plans (`right_first`); with
--releases, whole releases of sessions are counted beside it.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np

from protocol import arguments, has_data  # isort: skip
from shapley_accuracy import right_first, table
from shapley_pairs import KINDS, Pair, pair

import pellucid as pel
from pellucid.explainers.shapley.queries import picks_rate, values_law
from pellucid.explainers.shapley.radii import shapley_radii

N, EPSILON = 100, 1.0


def attributes(shared: Path) -> dict[str, list[str]]:
    """The columns of every attribute with more than one."""
    documented = json.loads((shared / "data" / "adult.json").read_text())["columns"]
    found, place = {}, 0
    for name in (column for column in documented if column not in ("income", "split")):
        values = [v for v in documented[name].get("documented_categories") or [] if v != "?"]
        size = len(values) or 1
        if values:
            found[name] = [f"x{j}" for j in range(place, place + size)]
        place += size
    assert place == 105, place
    return found


def leaders(of: Pair, schema: pel.Schema, records: int, releases: int) -> tuple[list[float], ...]:
    """Per record: the chance that the first place is right, the lead, the part of releases that were right; then the noise of
    values and what picks are by."""
    chances, leads, counted, told = [], [], [], []
    for i in range(records):
        explainer = pel.ShapRanking(of.model, of.record(i), k=1, certified=of.model.output)
        session = pel.Session(of.frame(N), schema, budget=pel.Budget(epsilon=EPSILON))
        plan = session.plan(explainer, epsilon=EPSILON)
        chosen = explainer.chosen(schema)
        assert plan.details.way == "picks", "the law below is that of picks"
        own = np.abs(chosen(of.rows(N)).mean(axis=0))
        lead = np.delete(own.max() - own, own.argmax())
        chances.append(right_first(picks_rate(plan["ranking"], plan.public) * lead, plan["ranking"].how))
        leads.append(float(lead.min()) / of.model.range)
        if releases:
            best = chosen.features[own.argmax()]
            named = (
                pel.Session(of.frame(N), schema, budget=pel.Budget(epsilon=EPSILON))
                .release(explainer, epsilon=EPSILON)
                .ranking[0]
                for _ in range(releases)
            )
            counted.append(np.mean([name == best for name in named]))
        if not told:
            values = session.plan(pel.ShapValues(of.model, of.record(i), certified=of.model.output), epsilon=EPSILON)
            told = [values_law(values["values"], values.public).std / of.model.range, len(chosen.everybody)]
    return chances, leads, counted, told


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--records", type=int, default=30)
    parser.add_argument("--releases", type=int, default=0)
    options = parser.parse_args()
    if not has_data(options.shared):
        raise SystemExit(f"no tables in {options.shared / 'data'}")
    groups = attributes(options.shared)
    for d in (105, 14):
        r = shapley_radii(d)
        print(f"d = {d}, in R/n, one replaced: L∞ {2 * r.linf:.4g}, L1 {2 * r.l1:.4g}, L2 {2 * r.l2:.4g}, span {2 * r.pair:.4g}")
    rows = []
    for kind in KINDS:
        of = pair("adult", kind, options.shared, options.cache)
        # Pickled pairs of before have no groups; a schema with them is another value.
        grouped = pel.Schema(dict(of.schema), groups=groups)
        by = {}
        for name, schema in (("columns", of.schema), ("attributes", grouped)):
            chances, leads, counted, (noise, players) = leaders(
                replace(of, schema=schema), schema, options.records, options.releases
            )
            by[name] = float(np.mean(chances))
            seen = f"{np.mean(counted):.3f}" if counted else "–"
            cells = [f"{np.median(leads):.4f}", f"{by[name]:.3f}", seen, f"{noise:.3f}"]
            rows.append([kind, name, str(players), *cells, ""])
            print(rows[-1], flush=True)
        rows[-1][-1] = f"{by['attributes'] / by['columns']:.2f}"
    heads = [
        "model",
        "players are",
        "players",
        "median lead (of the range)",
        "top-1 agreement",
        "of releases",
        "std of a value",
        "ratio",
    ]
    table(heads, rows)


if __name__ == "__main__":
    main()
