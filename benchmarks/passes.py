"""What one pass over the records costs: reading, decoding, bounding; shared passes: `python benchmarks/passes.py`.

Processor time, the best of several runs, in one process and one thread. *NumPy* is the same package without compiled loops; what
texts cost before they were kept as dictionaries is measured on the same table, opened in the way it was then.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa
from threadpoolctl import threadpool_limits

import pellucid as pel
from pellucid.engine import LocalEngine
from pellucid.engine.tables import open_table
from pellucid.explainers.clusters.centres import Space
from pellucid.explainers.clusters.iteration import Iteration
from pellucid.explainers.local.bound import Moments
from pellucid.query import Joint, Sum, compiled, parts_of
from pellucid.query.bounds import Ball, Box, Cells, CountedBox, Gram

ROWS, BATCH, POINTS = 1_000_000, 65_536, 20


def best(action, repeats: int = 5) -> float:
    """Seconds of processor time."""
    action()
    found = []
    for _ in range(repeats):
        start = time.process_time()
        action()
        found.append(time.process_time() - start)
    return min(found)


def head(title: str, *columns: str) -> None:
    print(f"\n## {title}\n\n| | {' | '.join(columns)} | times as fast |\n|---|{'---:|' * (len(columns) + 1)}")


def without_loops(action):
    whole = compiled.loops
    compiled.loops = lambda work: None
    try:
        return action()
    finally:
        compiled.loops = whole


def bounds() -> None:
    rng = np.random.default_rng(0)
    values, parts = rng.normal(0.5, 0.3, (BATCH, POINTS)), rng.integers(1, 4, BATCH)
    share, cell = np.ones(BATCH), rng.integers(0, POINTS, (BATCH, POINTS))
    one = cell[:, :1]
    kinds = {
        "Box": (Box(POINTS, 0, 1, True), values, None),
        "Box, people with several rows": (Box(POINTS, 0, 1, True), values, parts),
        "CountedBox": (CountedBox(POINTS, 0, 1, True, left_out=True), (share, values), None),
        "Cells, a value each": (Cells(POINTS, value=0.5), (one, None, values[:, :1]), None),
        "Cells, 20 places each": (Cells(POINTS, value=0.5), (cell, values, values), None),
        "Ball": (Ball(POINTS, 3.0), values, None),
        "Gram, 10 values": (Gram(10, 3.0), values[:, :10], None),
        "Moments, 14 values": (Moments(14, 1.0, 1.0, 1.0), values[:, :15] / 8, None),
    }
    head(f"Bounds: milliseconds for {BATCH:,} rows of {POINTS} values", "NumPy", "compiled")
    for name, (bound, made, own) in kinds.items():
        plain, quick = without_loops(lambda: bound.totals(made, own)), bound.totals(made, own)  # noqa: B023
        assert plain == quick, name
        slow, fast = (1000 * way(lambda: best(lambda: bound.totals(made, own))) for way in (without_loops, lambda f: f()))  # noqa: B023
        print(f"| {name} | {slow:.2f} | {fast:.2f} | {slow / fast:.1f} |")


@dataclass(frozen=True)
class Linear:
    """The answers of a linear model at every point of a grid, by its coefficients: the cheapest map there is."""

    slope: float

    def __call__(self, rows):
        base = sum(self.slope * rows[f"x{i}"] for i in range(14))
        return (base - self.slope * rows["x3"])[:, None] + self.slope * np.linspace(0, 1, POINTS)


def linear() -> None:
    rng = np.random.default_rng(0)
    table = {f"x{i}": rng.uniform(0, 1, ROWS) for i in range(14)}
    schema = pel.Schema({name: pel.Number(0, 1) for name in table})
    engine = LocalEngine(table, schema, "replace", pel.Unit())
    query = Sum(Linear(1 / 14), Box(POINTS, 0, 1), columns=tuple(table))

    def read() -> None:
        for _ in engine.batches(list(table)):
            pass

    def mapped() -> None:
        for rows in engine.batches(list(table)):
            query.map(rows)

    alone, made = best(read), best(mapped)
    slow, fast = without_loops(lambda: best(lambda: engine.totals(query))), best(lambda: engine.totals(query))
    print(f"\n## A linear model at {POINTS} points, million rows per processor second\n")
    for name, took in (
        ("columns read", alone),
        ("and mapped", made),
        ("and bounded, NumPy", slow),
        ("and bounded, compiled", fast),
    ):
        print(f"{name:24}{ROWS / took / 1e6:8.1f}")
    print(f"the bound's part of the pass {1 - made / slow:.0%} with NumPy, {max(0, 1 - made / fast):.0%} compiled")


def texts() -> None:
    rng = np.random.default_rng(0)
    head("Texts, million cells per processor second", "read as texts", "as dictionaries")
    for many in (5, 500):
        values = [f"category {i}" for i in range(many)]
        chosen = pa.array(values).take(pa.array(rng.integers(0, many, ROWS)))
        compare(f"{many} categories", pa.table({"c": chosen}), pel.Category(values))
    numbers = pa.array([str(v) for v in rng.integers(0, 90, ROWS)])
    compare("numbers", pa.table({"c": numbers}), pel.Number(0, 90))


def compare(name: str, table: pa.Table, feature) -> None:
    engine = LocalEngine(table, pel.Schema({"c": feature}), "replace", pel.Unit())

    def read() -> None:
        for _ in engine.batches(["c"]):
            pass

    fast = best(read)
    engine.table = open_table(table)
    slow = best(read)
    print(f"| {name} | {ROWS / slow / 1e6:.0f} | {ROWS / fast / 1e6:.0f} | {slow / fast:.1f} |")


def shared() -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({f"x{i}": rng.uniform(0, 1, ROWS) for i in range(10)})
    schema = pel.Schema({name: pel.Number(0, 1) for name in table})
    engine = LocalEngine(table, schema, "replace", pel.Unit())
    iteration = Iteration(Space(tuple(schema), tuple(schema.values())), 8, 1.0)
    queries = {
        "an iteration of k-means, 10 features, 8 centres": iteration.query(rng.uniform(0, 1, (8, 10))),
        "10 sums that read the same 10 columns": Joint([Sum(Mean(i), Box(1, 0, 1), columns=tuple(schema)) for i in range(10)]),
    }
    head(f"Sums that share a pass, seconds for {ROWS:,} rows", "a pass each", "one pass")
    for name, query in queries.items():
        each = [value for part in parts_of(query) for value in engine.totals(part)]
        assert each == engine.totals(query)
        slow = best(lambda: [engine.totals(part) for part in parts_of(query)], 3)  # noqa: B023
        fast = best(lambda: engine.totals(query), 3)  # noqa: B023
        print(f"| {name} | {slow:.2f} | {fast:.2f} | {slow / fast:.1f} |")


@dataclass(frozen=True)
class Mean:
    place: int

    def __call__(self, rows):
        return rows[f"x{self.place}"][:, None]


def main() -> None:
    compiled.pays(compiled.LOADING)
    with threadpool_limits(1):
        bounds()
        linear()
        texts()
        shared()


if __name__ == "__main__":
    main()
