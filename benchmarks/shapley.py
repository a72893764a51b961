"""Private Shapley rankings and values: certified noise, accuracy, the law behind it, and speed, beside published figures.

    python benchmarks/shapley.py --part sigma       noise of the full vector in the published setting
    python benchmarks/shapley.py --part useful      16 pairs of data and model: top-1, top-5, Kendall's tau
    python benchmarks/shapley.py --part law         accuracy against epsilon * gap * n / span, and the bound on errors
    python benchmarks/shapley.py --part sessions    whole releases beside draws
    python benchmarks/shapley.py --part speed       time, model calls and memory beside the shap package

Pure epsilon, replace-one, everything certified. Plans, estimators, bounds, calibration and the decision between picks and noisy
values are the package's own (`ShapRanking`). To make many draws cheap, the vectors of all background records are computed once,
exact totals come from the package's bound, and noise has the package's laws but comes from NumPy; --part sessions leaves these
short cuts out, and --part law compares the draws with the package's own sampler.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from protocol import arguments, has_data  # isort: skip
from shapley_accuracy import law, right_first, table, useful, verdicts
from shapley_pairs import pair, vectors
from shapley_speed import speed

import pellucid as pel
from pellucid.baselines.shapley import analytic_sigma, largest_output
from pellucid.explainers.shapley.bound import ShapleyVectors
from pellucid.explainers.shapley.queries import picks_rate, values_law
from pellucid.explainers.shapley.radii import shapley_radii

DELTA = 1e-5
TABLE_7 = {"RF": (8.54, 293.92, 6.07, 2.0), "GB": (28.03, 1024.04, 17.68, 6.0), "MLP": (17.03, 10.02, 0.42, 4.0)}
"""Published: F_max, certified sigma, heuristic sigma; and the target."""


def sigma(options) -> None:
    d, n, epsilon = 20, 100, 1.0
    checks, rows = [], []
    for kind, (largest, published, heuristic, target) in TABLE_7.items():
        of = pair("synth_additive, numbers", kind, options.shared, options.cache)
        lemma = largest_output(of.model.predictor)
        # The published noise is proportional to F_max for trees, and for networks to a slope that is not published.
        scaled = "-" if kind == "MLP" else f"{published * lemma / largest:.0f} (by F_max)"
        ways = [
            (f"published F_max = {largest:g}", (-largest, largest), f"{published:g}", f"{heuristic:g}"),
            ("certified, our model", of.model.output, scaled, "-"),
            (f"F_max = {lemma:.4g} of our model", (-lemma, lemma), scaled, "-"),
        ]
        for origin, (lo, hi), theirs, guess in ways:
            bound = ShapleyVectors(d, lo, hi, (lo + hi) / 2)
            delta2 = math.sqrt(bound.replaced().l2_squared) * bound.unit / n
            found = analytic_sigma(delta2, epsilon, DELTA)
            rho, pure = (
                _std(of, (lo, hi), n, budget)
                for budget in (pel.Budget(epsilon, delta=DELTA, accounting="zcdp"), pel.Budget(epsilon))
            )
            numbers = [f"{hi - lo:.4g}", f"{delta2:.3g}", f"**{found:.3g}**", f"{rho:.3g}", f"{pure:.3g}"]
            rows.append([kind, origin, *numbers, theirs, guess])
            if not origin.startswith("F_max"):
                checks.append((f"{kind}, {origin}: σ at most {target:g}", found <= target, f"{found:.3g}"))
        sizes = [np.abs(v[:n].mean(axis=0)).max() for v in vectors(of, options.cache).vectors]
        rows.append([kind, f"largest value of a record: {np.mean(sizes):.3g} on average", *[""] * 7])
    heads = [
        "model",
        "R from",
        "R",
        "Δ2",
        "**σ, analytic**",
        "σ, zCDP account",
        "std, pure ε",
        "published σ",
        "published heuristic",
    ]
    table(heads, rows)
    radii = shapley_radii(d)
    print(f"\nd = {d}, in R/n: Δ2 {2 * radii.l2:.4g}, Δ1 {2 * radii.l1:.4g}, Δ∞ {2 * radii.linf:.4g}, span {2 * radii.pair:.4g}.")
    verdicts(checks)


def _std(of, output: tuple[float, float], n: int, budget: pel.Budget) -> float:
    """The noise of a value as a session of the package would plan it."""
    middle = sum(output) / 2
    model = pel.Model(
        lambda t: np.full(len(t), middle), output=output, features=list(of.schema), input="array", trained_on="other data"
    )
    explainer = pel.ShapValues(model, of.record(0))
    plan = pel.Session(of.frame(n), of.schema, budget=budget).plan(explainer, epsilon=budget.epsilon)
    return values_law(plan["values"], plan.public).std


def sessions(options) -> None:
    """Releases with a session, a budget and secure noise of their own, beside the exact chance from the law."""
    rows, checks = [], []
    for data, kind, n, i in SAMPLED:
        of = pair(data, kind, options.shared, options.cache)
        own = np.abs(of.chosen(i)(of.rows(n)).mean(axis=0))
        explainer = pel.ShapRanking(of.model, of.record(i), k=1, how="picks", certified=of.model.output)
        best = explainer.chosen(of.schema).features[own.argmax()]
        session = pel.Session(of.frame(n), of.schema, budget=pel.Budget(epsilon=1.0))
        plan = session.plan(explainer, epsilon=1.0)
        how = plan["ranking"].how
        leads = picks_rate(plan["ranking"], plan.public) * np.delete(own.max() - own, own.argmax())
        # A price at which the release is neither sure nor hopeless, so that a wrong law would be seen.
        epsilon, chance = min(((e, right_first(e * leads, how)) for e in PRICES), key=lambda pair: abs(pair[1] - 0.6))
        right = 0
        for _ in range(options.releases):
            session = pel.Session(of.frame(n), of.schema, budget=pel.Budget(epsilon=epsilon))
            right += session.release(explainer, epsilon=epsilon).ranking[0] == best
        share = right / options.releases
        off = (share - chance) / math.sqrt(chance * (1 - chance) / options.releases)
        rows.append([data, kind, f"{n:,}", f"{epsilon:g}", f"{chance:.3f}", f"{share:.3f}", f"{off:+.1f}"])
        checks.append((f"{data} {kind}: whole releases follow the law", abs(off) <= 3.5, f"{off:+.1f} standard errors"))
    table(["data", "model", "n", "ε", "chance by the law", f"{options.releases} whole releases", "standard errors apart"], rows)
    verdicts(checks)


PRICES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
SAMPLED = (
    ("synth_additive", "RF", 1000, 0),
    ("synth_interaction", "RF", 100, 1),
    ("credit_default", "RF", 100, 2),
    ("synth_additive", "LR", 100, 3),
    ("adult", "RF", 100, 4),
)


def main() -> int:
    parser = arguments(__doc__)
    parts = {"sigma": sigma, "useful": useful, "law": law, "sessions": sessions, "speed": speed}
    parser.add_argument("--part", nargs="*", choices=list(parts), default=list(parts))
    parser.add_argument("--draws", type=int, default=100, help="draws of noise per record and epsilon")
    parser.add_argument("--law-draws", type=int, default=1000, help="draws of the first place for the law")
    parser.add_argument("--releases", type=int, default=200, help="whole releases per line of --part sessions")
    parser.add_argument("--plot", type=Path, default=None, help="where to save the plot of the law")
    options = parser.parse_args()
    if not has_data(options.shared):
        print(f"skipped: no data in {options.shared}; give the folder with --shared.")
        return 0
    options.cache.mkdir(parents=True, exist_ok=True)
    for name in options.part:
        print(f"\n## {name}")
        parts[name](options)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
