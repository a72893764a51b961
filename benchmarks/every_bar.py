"""Do the bars of every explainer hold what they name? Many whole releases on a small, a middling and a heavy-tailed table.

    python benchmarks/every_bar.py                        # 300 releases a row
    python benchmarks/every_bar.py --tables small --releases 1000

A row is an explainer on a table for one price. Plans, private looks, calibration and production noise are the package's own;
exact totals are kept between releases. The reference is the same explainer without noise and without a cap, as in the tenth check
of the contract. Permutation importance, whose shuffles are drawn anew, is in `importance_bars.py`; accumulated effects, whose
intervals are chosen anew, in `numeric_curves.py --effects`; local explanations in `local_on_noise.py`; clusters in
`cluster_bars.py`.
"""

from __future__ import annotations

from dataclasses import replace
from unittest import mock

import numpy as np

from protocol import arguments, has_data  # isort: skip
from importance_bars import Case
from sources import Silent

import pellucid as pel
from pellucid.mechanisms import NoiseLaw, source
from pellucid.query import parts_of
from pellucid.release.door import Ask

PRICES = {"ε = .1": (0.1, 0.0), "ε = 1": (1.0, 0.0), "(1, 1e-6)": (1.0, 1e-6)}
TABLES = {"small": "300 rows of Adult", "bike": "6,000 rows of Bike", "heavy": "6,000 log-normal costs"}


def explainers(case: Case) -> dict[str, pel.Explainer]:
    trees = pel.Model(case.model, output=(0, case.table.top), features=case.table.names, input="codes", trained_on="other data")
    people, names = case.background, case.table.names
    first, second = names[0], names[2]
    return {
        "PartialDependence": pel.PartialDependence(trees, first),
        "PartialDependence, all features": pel.PartialDependence(trees, list(names)),
        "PartialDependence, values": pel.PartialDependence(trees, second, method="values"),
        "Distribution": pel.Distribution(first),
        "Distribution, all features": pel.Distribution(list(names)),
        "Statistic": pel.Statistic(f"{first} * target"),
        "AttributeShares": pel.AttributeShares(f"{first} * {second} + target"),
        "ShapValues": pel.ShapValues(trees, people[0]),
        "ShapRanking, values": pel.ShapRanking(trees, people[0], k=3, how="values"),
        "ShapImportance": pel.ShapImportance(trees, public_background=people),
        "ShapDependence": pel.ShapDependence(trees, first, public_background=people),
    }


class Kept:
    """Exact totals of an engine, computed once for each question."""

    def __init__(self, engine):
        self.engine, self.known = engine, {}

    def totals(self, query) -> list[int]:
        key = repr([(part.map, part.bound) for part in parts_of(query)])
        if key not in self.known:
            self.known[key] = self.engine.totals(query)
        return self.known[key]


def bars(result) -> dict[tuple[str, str], tuple[float, float, float]]:
    """Name → (value, lower, upper)."""
    frame = result.to_frame()
    places = frame["x"].astype(str) if "x" in frame else frame.groupby("feature").cumcount().astype(str)
    return dict(zip(zip(frame["feature"], places), zip(frame["value"], frame["lower"], frame["upper"])))


def exact(explainer: pel.Explainer, session: pel.Session) -> dict[tuple[str, str], float]:
    """What the bars name."""
    named = replace(explainer, cap="range") if hasattr(explainer, "cap") else explainer
    if isinstance(explainer, pel.ShapRanking):
        named = pel.ShapValues(explainer.model, explainer.record)
    before, source.current = source.current, Silent()
    plan = session.plan(named, share=1)
    try:
        # Without noise every mean is told, however few people are behind it.
        with mock.patch.object(NoiseLaw, "half_width", lambda law, level: 0.0):
            made = named.run(Ask(session._engine.totals, plan))
    finally:
        source.current = before
    if isinstance(named, pel.PartialDependence):
        made = (
            replace(made, curves={k: v.as_released() for k, v in made.curves.items()})
            if len(named.features) > 1
            else made.as_released()
        )
    return {name: value for name, (value, _, _) in bars(made).items()}


def measured(explainer: pel.Explainer, case: Case, epsilon: float, delta: float, releases: int) -> tuple[float, ...]:
    session = pel.Session(case.frame, case.table.schema, budget=pel.Budget(epsilon=epsilon, delta=delta))
    plan = session.plan(explainer, share=1)
    truth, totals = exact(explainer, session), Kept(session._engine).totals
    preview = explainer.expected(plan)
    told = float(np.sqrt(np.mean((preview.error / 1.96 if preview.typical is None else preview.typical) ** 2)))
    held, squares, width, wrong = [], [], [], 0
    for _ in range(releases):
        made = explainer.run(Ask(totals, plan))
        found = {name: bar for name, bar in bars(made).items() if np.isfinite(bar[1])}
        held.append(np.mean([lo - 1e-9 <= truth[name] <= hi + 1e-9 for name, (_, lo, hi) in found.items()]))
        squares.append(np.mean([(value - truth[name]) ** 2 for name, (value, _, _) in found.items()]))
        width.append(np.mean([(hi - lo) / 2 for _, lo, hi in found.values()]))
        wrong += hasattr(made, "tiers") and in_wrong_tiers(made, truth)
    error = float(np.mean(squares)) ** 0.5
    return float(np.mean(held)), wrong / releases, float(np.mean(width)) / error, error / told


def in_wrong_tiers(made, truth: dict[tuple[str, str], float]) -> bool:
    """Whether somebody in a lower tier is larger than somebody in a higher one."""
    sizes = {name: abs(value) for (name, _), value in truth.items()}
    tiers = [[sizes[name] for name in tier] for tier in made.tiers()]
    slack = 1e-6 * max(sizes.values())
    return any(max(low) > min(high) + slack for high, low in zip(tiers, tiers[1:]))


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--tables", nargs="*", choices=list(TABLES), default=list(TABLES))
    parser.add_argument("--explainers", nargs="*", default=[])
    parser.add_argument("--releases", type=int, default=300)
    options = parser.parse_args()
    if not has_data(options.shared):
        print(f"skipped: no data in {options.shared}; give the folder with --shared.")
        return 0
    print("| table | explainer | price | bars hold | wrong tiers | half-width / error | error / preview |\n" + "|---" * 7 + "|")
    for table in options.tables:
        case = Case(table, options)
        for name, explainer in explainers(case).items():
            if options.explainers and name not in options.explainers:
                continue
            for price, (epsilon, delta) in PRICES.items():
                held, wrong, width, error = measured(explainer, case, epsilon, delta, options.releases)
                tiers = f"{wrong:.3f}" if "Rank" in name or "Importance" in name else ""
                print(f"| {table} | {name} | {price} | {held:.3f} | {tiers} | {width:.1f} | {error:.2f} |", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
