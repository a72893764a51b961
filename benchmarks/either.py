"""New accounts with a δ, which count either way, against pure and zCDP accounts of the same ε: errors from public things alone.

    python benchmarks/either.py

Every example of every explainer is previewed as a single release for a whole account of (ε, δ), and a few of them as k equal
releases that share it. Errors are mean squares of the half-widths of 95 % bars; no table matters but for its number of rows.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections import defaultdict

import numpy as np
import pandas as pd

import pellucid as pel

SCHEMA = pel.Schema(
    {
        "age": pel.Number(17, 90, integer=True),
        "children": pel.Number(0, 6, integer=True),
        "bmi": pel.Number(10, 60),
        "lab": pel.Number(0, 5),
        "sex": pel.Category(["F", "M"]),
        "school": pel.Category(["none", "primary", "secondary", "tertiary"], ordered=True),
        "smoker": pel.Boolean(),
    }
)


def people(rows: int) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "age": rng.integers(17, 91, rows),
            "children": rng.poisson(1.2, rows).clip(0, 6),
            "bmi": rng.normal(27, 5, rows).clip(10, 60),
            "lab": rng.exponential(1.0, rows).clip(0, 5),
            "sex": rng.choice(["F", "M"], rows),
            "school": rng.choice(["none", "primary", "secondary", "tertiary"], rows),
            "smoker": rng.random(rows) < 0.3,
        }
    )


def risk(d: pd.DataFrame) -> np.ndarray:
    score = 0.04 * (d["age"] - 50) + 0.05 * (d["bmi"] - 25) + 0.2 * d["lab"] + 0.3 * (d["sex"] == "M") - 0.1 * d["children"]
    return np.asarray(1 / (1 + np.exp(-score)))


def mean_square(session: pel.Session, explainer: object, **cost: object) -> tuple[float, int]:
    """(mean squared half-width, number of outputs); infinite where this account cannot have it."""
    try:
        found = session.preview(explainer, **cost)  # type: ignore[arg-type]
    except pel.PlanError:
        return math.inf, 0
    return float(np.mean(np.square(found.error))), len(found.labels)


def single(sessions: dict[str, pel.Session], model: pel.Model) -> None:
    rows, worse = defaultdict(list), []
    for name in pel.explainers.__all__:
        if name == "Explainer":
            continue
        for example in getattr(pel.explainers, name).examples(model, SCHEMA):
            found = {kind: mean_square(session, example, share=1) for kind, session in sessions.items()}
            either, outputs = found["either"]
            small = "up to 20" if outputs <= 20 else "more"
            rows[name, small].append((either / found["pure"][0], found["zcdp"][0] / either))
            if either > found["pure"][0] * (1 + 1e-9) or either > found["zcdp"][0] * (1 + 1e-9):
                worse.append(f"{name} with {outputs} outputs")
    print("| explainer | outputs | examples | either / pure, median (largest) | zCDP / either, smallest, median, largest |")
    print("|---|---|---|---|---|")
    for (name, small), ratios in rows.items():
        pure, zcdp = [r[0] for r in ratios], [r[1] for r in ratios if math.isfinite(r[1])]
        told = f"{min(zcdp):.2f}, {statistics.median(zcdp):.2f}, {max(zcdp):.2f}" if zcdp else "not offered"
        print(f"| {name} | {small} | {len(ratios)} | {statistics.median(pure):.2f} ({max(pure):.2f}) | {told} |")
    few = [ratio for (_, small), ratios in rows.items() if small == "up to 20" for _, ratio in ratios]
    print(f"\nup to 20 outputs, zCDP / either: median {statistics.median(few):.2f}, {min(few):.2f} to {max(few):.2f}")
    print(f"worse than a pure or a zCDP account: {', '.join(worse) or 'none'}\n")


def shared(sessions: dict[str, pel.Session], model: pel.Model, counts: list[int]) -> None:
    asked = {
        "a mean of four values": pel.PartialDependence(model, "school"),
        "a curve": pel.PartialDependence(model, "bmi"),
        "counts of ten bins": pel.Distribution("bmi", bins=10),
        "accumulated effects": pel.AccumulatedEffects(model, "age"),
    }
    print("| k releases of | " + " | ".join(f"k = {k}" for k in counts) + " |")
    print("|---|" + "---|" * len(counts))
    for name, explainer in asked.items():
        cells = []
        for k in counts:
            found = {kind: mean_square(session, explainer, share=1 / k)[0] for kind, session in sessions.items()}
            best = sessions["either"].preview(explainer, share=1 / k).spend.currency
            kind = "pure" if best == "epsilon" else "zCDP"
            cells.append(f"{found['either'] / found['pure']:.2f}, {found['either'] / found['zcdp']:.2f} ({kind})")
        print(f"| {name} | " + " | ".join(cells) + " |")
    print()


def mixed(sessions: dict[str, pel.Session]) -> None:
    """What zCDP releases have left after one pure release, as counted at the account's order and as ε²/2."""
    account = sessions["either"].ledger.account("unnamed")
    print("| a pure release of | zCDP left at the account's order | counted as ε²/2 |\n|---|---|---|")
    for share in (0.01, 0.05, 0.1, 0.25, 0.5, 0.75):
        units = int(share * (account.pure_budget or 0))
        left = account.after(units, "epsilon").remaining / account.budget
        plain = max(0.0, 1 - (units / 1e12) ** 2 / 2 / (account.budget / 1e12))
        print(f"| {share:.0%} of ε | {left:.0%} | {plain:.0%} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--delta", type=float, default=1e-6)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--counts", type=int, nargs="+", default=[1, 2, 4, 8, 20, 50])
    args = parser.parse_args()
    table = people(args.rows)
    features = [name for name in SCHEMA if name not in ("smoker", "school")] + ["school"]
    model = pel.Model(risk, output=(0, 1), features=features, trained_on="other data")
    budgets = {
        "pure": pel.Budget(args.epsilon),
        "zcdp": pel.Budget(args.epsilon, args.delta, accounting="zcdp"),
        "either": pel.Budget(args.epsilon, args.delta),
    }
    sessions = {kind: pel.Session(table, SCHEMA, budget=budget) for kind, budget in budgets.items()}
    single(sessions, model)
    shared(sessions, model, args.counts)
    mixed(sessions)


if __name__ == "__main__":
    main()
