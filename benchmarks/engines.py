"""What engines cost: several processes beside one, passes beside a bare scan, memory of large tables, and growth with rows.

    python benchmarks/engines.py workers --rows 400000      # workers=2 beside one: a forest and a logistic pipeline
    python benchmarks/engines.py scan --rows 4000000        # histograms beside a bare Arrow scan of the same columns
    python benchmarks/engines.py memory --rows 50000000     # importance over pairs with an id column: peak of every process
    python benchmarks/engines.py growth --most 50000000 --picture docs/growth.svg     # time against rows, on each engine

Tables are generated, in pieces, to a Parquet file in a temporary folder.
"""

from __future__ import annotations

import argparse
import contextlib
import os
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
        # Of trees that are read, one process has as many threads as there are cores; on one core it has one.
        opened = {"one core": session(path), "one process": session(path), "workers=2": session(path, workers=2)}
        taken: dict[str, list[float]] = {kind: [] for kind in opened}
        cores = os.sched_getaffinity(0)
        for _ in range(4):
            for kind, one in opened.items():
                curve = pel.PartialDependence(model, "x0", points=20, method="values")
                os.sched_setaffinity(0, {min(cores)} if kind == "one core" else cores)
                taken[kind].append(clock(lambda one=one, curve=curve: one.release(curve, epsilon=1.0, fresh=True)))
        best = {kind: min(times[1:]) for kind, times in taken.items()}
        told = ", ".join(f"{kind} {seconds:.2f} s" for kind, seconds in best.items())
        two = best["workers=2"]
        ratios = f"{two / best['one core']:.2f} of one core, {two / best['one process']:.2f} of one process"
        print(f"{name}, {rows:,} rows, 20 points: {told}; workers=2 is {ratios}", flush=True)


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


def growth(folder: Path, most: int, picture: Path | None) -> None:
    """Seconds against rows, on each engine: of the same files, of which a larger table has more."""
    sizes = [m * 1_000_000 for m in (1, 2, 5, 10, 20, 50) if m * 1_000_000 <= most]
    for i in range(sizes[-1] // 1_000_000):
        pq.write_table(piece(i, 1_000_000), folder / f"{i:03}.parquet")
    model = pel.Model(risk, output=(0, 1), features=["x0", "x1"], trained_on="other data")
    asked = {
        "a curve of 20 points": pel.PartialDependence(model, "x0", points=20, method="values"),
        "importance over pairs": pel.PermutationImportance(model, "y", repeats=1, cap=1.0),
    }
    taken: dict[tuple[str, str], list[float]] = {}
    with started() as engines:
        for rows in sizes:
            table = folder / f"of{rows}"
            table.mkdir()
            for i in range(rows // 1_000_000):
                (table / f"{i:03}.parquet").hardlink_to(folder / f"{i:03}.parquet")
            for engine, opened in engines.items():
                one = opened(table)
                for name, explainer in asked.items():
                    seconds = clock(lambda one=one, explainer=explainer: one.release(explainer, epsilon=1.0))
                    taken.setdefault((engine, name), []).append(seconds)
                    print(f"{engine}, {name}, {rows:,} rows: {seconds:.1f} s, {seconds / rows * 1e6:.2f} µs a row", flush=True)
    for (engine, name), seconds in taken.items():
        slope, start = np.polyfit(sizes, seconds, 1, w=1 / np.array(seconds))
        off = np.abs(slope * np.array(sizes) + start - seconds) / seconds
        print(f"{engine}, {name}: {start:.1f} s and {slope * 1e6:.2f} s a million rows; at most {off.max():.0%} off that line")
    if picture:
        draw(sizes, taken, picture)


@contextlib.contextmanager
def started():  # type: ignore[no-untyped-def]
    """Each engine, warm: from a folder to a session on it."""
    from pyspark.sql import SparkSession

    settings = {"spark.ui.enabled": "false", "spark.log.level": "ERROR", "spark.ui.showConsoleProgress": "false"}
    spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
    spark.range(10).count()
    yield {
        "one process": session,
        "workers=2": lambda table: session(table, workers=2),
        "Spark local[2]": lambda table: session(spark.read.parquet(str(table))),
    }
    spark.stop()


def draw(sizes: list[int], taken: dict[tuple[str, str], list[float]], picture: Path) -> None:
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(name for _, name in taken))
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    millions = np.array(sizes) / 1e6
    for axes, name in zip(figure.subplots(1, len(names)), names):
        lines = [(engine, seconds) for (engine, what), seconds in taken.items() if what == name]
        for colour, (engine, seconds) in zip(("#0072b2", "#d55e00", "#009e73"), lines):
            axes.plot(millions, seconds, "o-", color=colour, ms=4)
            axes.annotate(engine, (millions[-1], seconds[-1]), (5, 0), textcoords="offset points", va="center", color=colour)
        axes.set(xlim=(0, millions[-1] * 1.45), ylim=(0, None), xlabel="million rows", ylabel="seconds")
        axes.set_title(name, loc="left")
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(picture)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["workers", "scan", "memory", "growth"])
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--most", type=int, default=8_000_000)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--picture", type=Path)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if chosen.what == "growth":
            growth(Path(folder), chosen.most, chosen.picture)
            return
        path = generate(Path(folder) / "people.parquet", chosen.rows)
        if chosen.what == "memory":
            memory(path, chosen.rows, chosen.workers)
        else:
            {"workers": workers, "scan": scan}[chosen.what](path, chosen.rows)


if __name__ == "__main__":
    main()
