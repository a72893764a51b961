"""What engines cost: several processes beside one, passes beside a bare scan, memory of large tables, and growth with rows.

    python benchmarks/engines.py workers --rows 400000      # workers=2 beside one: a forest and a logistic pipeline
    python benchmarks/engines.py scan --rows 4000000        # histograms beside a bare Arrow scan of the same columns
    python benchmarks/engines.py memory --rows 50000000     # importance over pairs with an id column: peak of every process
    python benchmarks/engines.py growth --most 8000000      # time against rows, doubling

Tables are generated, in pieces, to a Parquet file in a temporary folder.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import pellucid as pel

COLUMNS = [f"x{i}" for i in range(9)]
SCHEMA = pel.Schema({**{name: pel.Number(0, 1) for name in COLUMNS}, "y": pel.Number(0, 1)})
PIECE = 1 << 20


def piece(start: int, rows: int) -> pa.Table:
    rng = np.random.default_rng(start)
    x = rng.random((len(COLUMNS), rows), dtype=np.float32).astype(np.float64)
    columns = dict(zip(COLUMNS, x))
    return pa.table({**columns, "y": np.clip(x[0] * x[1] + 0.1 * x[2], 0, 1), "id": rng.integers(0, 1 << 40, rows) // 2})


def generate(path: Path, rows: int) -> Path:
    with pq.ParquetWriter(path, piece(0, 1).schema, compression="snappy") as writer:
        for start in range(0, rows, PIECE):
            writer.write_table(piece(start, min(PIECE, rows - start)))
    return path


def risk(frame):  # type: ignore[no-untyped-def]
    return frame["x0"] * frame["x1"]


def session(path: Path, **options) -> pel.Session:  # type: ignore[no-untyped-def]
    return pel.Session(path, SCHEMA, pel.Budget(epsilon=1000), **options)


def clock(work) -> float:  # type: ignore[no-untyped-def]
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def workers(path: Path, rows: int) -> None:
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import PolynomialFeatures, StandardScaler

    some = pq.ParquetFile(path).read_row_group(0).slice(0, 20_000).to_pandas()
    known, truth = some[COLUMNS], some["y"] > 0.3
    models = {
        "a forest": RandomForestClassifier(100, max_depth=8, random_state=0),
        "a logistic pipeline": make_pipeline(StandardScaler(), PolynomialFeatures(2), LogisticRegression(max_iter=300)),
    }
    for name, fitted in models.items():
        model = pel.Model(fitted.fit(known, truth), trained_on="other data")
        opened = {count: session(path, workers=count) for count in (1, 2)}
        taken: dict[int, list[float]] = {1: [], 2: []}
        for _ in range(4):
            for count, one in opened.items():
                curve = pel.PartialDependence(model, "x0", points=20, method="values")
                taken[count].append(clock(lambda one=one, curve=curve: one.release(curve, epsilon=1.0, fresh=True)))
        best = {count: min(times[1:]) for count, times in taken.items()}
        print(
            f"{name}, {rows:,} rows, 20 points: one {best[1]:.2f} s, two {best[2]:.2f} s, ratio {best[2] / best[1]:.2f}",
            flush=True,
        )


def scan(path: Path, rows: int) -> None:
    one, names = session(path), COLUMNS[:5]
    bare, ours = [], []
    for _ in range(5):
        start = time.process_time()
        for batch in pq.ParquetFile(path).iter_batches(1 << 16, columns=names, use_threads=False):
            len(batch)
        bare.append(time.process_time() - start)
        start = time.process_time()
        one.release(pel.Distribution(names, bins=20), epsilon=1.0, fresh=True)
        ours.append(time.process_time() - start)
    print(f"histograms of 5 columns, {rows:,} rows: a bare scan {min(bare):.2f} s, ours {min(ours):.2f} s, "
          f"speed {min(bare) / min(ours):.2f} of the scan")  # fmt: skip


def memory(path: Path, rows: int, count: int) -> None:
    start = time.perf_counter()
    one = session(path, unit=pel.Unit("id", max_rows=2), neighbors="add-remove", expected_rows=rows, workers=count)
    print(f"opened after {time.perf_counter() - start:.0f} s, peak {peak():.2f} GB", flush=True)
    model = pel.Model(risk, output=(0, 1), features=["x0", "x1"], trained_on="other data")
    one.release(pel.PermutationImportance(model, "y", repeats=1, cap=1.0), epsilon=1.0)
    print(f"{rows:,} rows, importance over pairs of people, workers={count}: {time.perf_counter() - start:.0f} s, "
          f"peak {peak():.2f} GB here", flush=True)  # fmt: skip
    for running in getattr(getattr(one._engine, "_processes", None), "_running", ()):
        told = Path(f"/proc/{running.process.pid}/status").read_text()
        print("  a worker's peak:", next(line for line in told.splitlines() if line.startswith("VmHWM")), flush=True)


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def growth(folder: Path, most: int) -> None:
    model = pel.Model(risk, output=(0, 1), features=["x0", "x1"], trained_on="other data")
    rows = most
    while rows >= 1_000_000:
        path = generate(folder / "grown.parquet", rows)
        one = session(path)
        curve = clock(lambda one=one: one.release(pel.PartialDependence(model, "x0", points=20), epsilon=1.0))
        pairs = clock(lambda one=one: one.release(pel.PermutationImportance(model, "y", repeats=1, cap=1.0), epsilon=1.0))
        print(f"{rows:,} rows: a curve {curve / rows * 1e6:.2f} µs a row, pairs {pairs / rows * 1e6:.2f} µs a row", flush=True)
        rows //= 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["workers", "scan", "memory", "growth"])
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--most", type=int, default=8_000_000)
    parser.add_argument("--workers", type=int, default=1)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if chosen.what == "growth":
            growth(Path(folder), chosen.most)
            return
        path = generate(Path(folder) / "people.parquet", chosen.rows)
        if chosen.what == "memory":
            memory(path, chosen.rows, chosen.workers)
        else:
            {"workers": workers, "scan": scan}[chosen.what](path, chosen.rows)


if __name__ == "__main__":
    main()
