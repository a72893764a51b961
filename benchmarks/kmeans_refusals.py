"""Where private k-means is worse than a single cluster: inertia over that of the exact mean, by what is public.

    python benchmarks/kmeans_refusals.py --repeats 2

Six real tables and four made-up kinds (clear blobs, one tight blob, flat, skewed), cut to n records and d features, with
`anyway=True` and production noise. *Known to*: the error of a centre that the preview expects, in parts of a range. What is
refused follows from the rows in which the median of all tables exceeds one.
"""

from __future__ import annotations

import argparse
import itertools
from fractions import Fraction
from pathlib import Path

import numpy as np
from kmeans import TABLES, blobs, inertia, skewed

import pellucid as pel
from pellucid.engine import LocalEngine
from pellucid.mechanisms import Spend
from pellucid.public.schema import Unit
from pellucid.release.door import Ask
from pellucid.release.plan import Public


def tables(shared: Path) -> dict[str, tuple[bool, np.ndarray]]:
    """(whether it is real, records in parts of ranges) by name."""
    both = TABLES["frozen"] | TABLES["judged"]
    found = {
        name: (True, make(shared)[0]) for name, make in both.items() if not name.startswith(("blobs", "une", "heav", "skew"))
    }
    rng = np.random.default_rng(3)
    found["blobs"] = False, blobs(4, 4, 5000, 21)(shared)[0]
    found["one tight blob"] = False, np.clip(rng.normal(0.4, 0.05, (5000, 4)), 0, 1)
    found["flat"] = False, rng.uniform(0, 1, (5000, 4))
    found["skewed"] = False, skewed(4, 5000, 22)(shared)[0]
    return found


def released(points: np.ndarray, k: int, epsilon: str, relation: str, repeats: int) -> tuple[float, list[float]]:
    """(what the preview expects of a centre, inertias over that of the exact mean)."""
    names = [f"x{j}" for j in range(points.shape[1])]
    schema = pel.Schema({name: pel.Number(0, 1) for name in names})
    explainer = pel.PrivateKMeans(k, names, anyway=True)
    engine = LocalEngine(dict(zip(names, points.T)), schema, relation, Unit())  # type: ignore[arg-type]
    rows = len(points) if relation == "replace" else None
    plan = explainer.plan(Public(schema, relation, Unit(), Spend("epsilon", Fraction(epsilon)), rows, len(points)))  # type: ignore[arg-type]
    one = ((points - points.mean(axis=0)) ** 2).sum()
    error = float(explainer.expected(plan).error.max())
    return error, [inertia(points, explainer.run(Ask(engine.totals, plan)).centres) / one for _ in range(repeats)]  # type: ignore[attr-defined]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shared", type=Path, default=Path(__file__).resolve().parents[2] / "shared")
    parser.add_argument("--rows", nargs="+", type=int, default=[300, 1000, 3000])
    parser.add_argument("--budgets", nargs="+", default=["0.1", "0.3", "1"])
    parser.add_argument("--repeats", type=int, default=4)
    options = parser.parse_args()
    rng, all_tables = np.random.default_rng(5), tables(options.shared)
    print("| n | features | clusters | relation | ε | known to | all | real tables (worst) | made-up (worst) |")
    print("|---" * 9 + "|")
    relations = ("replace", "add-remove")
    for size, d, k, relation, epsilon in itertools.product(options.rows, (2, 4), (2, 4, 8), relations, options.budgets):
        each: dict[bool, list[float]] = {True: [], False: []}
        for real, points in all_tables.values():
            some = points[rng.permutation(len(points))[:size], :d]
            error, ratios = released(some, k, epsilon, relation, options.repeats)
            each[real].append(float(np.median(ratios)))
        both = np.median(each[True] + each[False])
        cells = " | ".join(f"{np.median(values):.2f} ({max(values):.2f})" for values in each.values())
        print(f"| {size:,} | {d} | {k} | {relation} | {epsilon} | ±{error:.2f} | {both:.2f} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
