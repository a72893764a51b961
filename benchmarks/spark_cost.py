"""What Spark costs beside one process, and beside two, on the same files: partial dependence with 20 points.

    python benchmarks/spark_cost.py --rows 20000000 --folder /some/folder

Ratios within one run, after a first pass that is not counted: on the clock, and of processor time, that of Java and all workers
included, which is what counts on a machine that others use too. docs/spark.md computes from it what a billion rows would take.
"""

import argparse
import inspect
import os
import sys
import time
from pathlib import Path

os.environ.update(OMP_NUM_THREADS="1", PYSPARK_PYTHON=sys.executable)

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import pellucid as pel
from pellucid.query import Choice

NUMBERS = [f"x{i}" for i in range(8)]
SCHEMA = pel.Schema({**{name: pel.Number(-4, 4) for name in NUMBERS}, "sex": pel.Category(["F", "M"]), "y": pel.Boolean()})


def generate(folder, rows, files=8):
    folder.mkdir(parents=True, exist_ok=True)
    for i in range(files):
        path, rng = folder / f"{i}.parquet", np.random.default_rng(i)
        if path.exists():
            continue
        with pq.ParquetWriter(path, schema()) as writer:
            left = rows // files
            while left:
                size = min(left, 1 << 20)
                left -= size
                drawn = {name: np.round(rng.normal(size=size), 3) for name in NUMBERS}
                more = {"sex": rng.choice(["F", "M"], size), "y": rng.random(size) < 0.5, "id": rng.integers(0, rows // 2, size)}
                writer.write_table(pa.table({**drawn, **more}, schema()))


def schema():
    return pa.schema([*[(n, pa.float64()) for n in NUMBERS], ("sex", pa.string()), ("y", pa.bool_()), ("id", pa.int64())])


def models():
    rng = np.random.default_rng(0)
    import pandas as pd

    x = pd.DataFrame(rng.normal(size=(5000, 8)), columns=NUMBERS)
    y = (x.x0 + x.x1 * x.x2 > 0).astype(int)
    yield "forest", RandomForestClassifier(30, max_depth=6, random_state=0).fit(x, y)
    yield "logistic pipeline", make_pipeline(StandardScaler(), LogisticRegression()).fit(x, y)


def processor():
    """Seconds of processor time of this process and of all below it, by process: workers of Spark end when they are idle."""
    parents, spent = {}, {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(") ")[2].split()
        except OSError:
            continue
        parents[int(stat.parent.name)] = int(fields[1])
        spent[int(stat.parent.name)] = sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")
    ours = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in ours} - ours:
        ours |= more
    return {pid: spent[pid] for pid in ours}


def timed(session, explainer):
    """Seconds on the clock and of processor time, and totals."""
    plan = session.plan(explainer, epsilon=0.1)
    settled = [stage.query for stage in plan.stages if stage.query is not None]
    asked = [query.of if isinstance(query, Choice) else query for query in settled]
    started, spent = time.perf_counter(), processor()
    found = [session._engine.totals(query) for query in asked]
    clock, work = time.perf_counter() - started, sum(now - spent.get(pid, 0) for pid, now in processor().items())
    return (clock, work), found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--people", action="store_true", help="also importance over pairs, of rows and of people")
    options = parser.parse_args()
    generate(options.folder, options.rows)
    from pyspark.sql import SparkSession

    settings = {"spark.ui.enabled": "false", "spark.log.level": "ERROR", "spark.ui.showConsoleProgress": "false"}
    spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
    budget, opened = pel.Budget(epsilon=10), {}
    opened["one process"] = lambda **more: pel.Session(options.folder, SCHEMA, budget=budget, **more)
    if "workers" in inspect.signature(pel.Session).parameters:
        opened["workers=2"] = lambda **more: pel.Session(options.folder, SCHEMA, budget=budget, workers=2, **more)
    opened["Spark local[2]"] = lambda **more: pel.Session(spark.read.parquet(str(options.folder)), SCHEMA, budget=budget, **more)
    sessions = {}
    for name, make in opened.items():
        started = time.perf_counter()
        sessions[name] = make()
        print(f"opened, {name}: {time.perf_counter() - started:.1f} s", flush=True)
    for kind, estimator in models():
        model = pel.Model(estimator, output=(0, 1), trained_on="other data")
        curve, seconds, totals = pel.PartialDependence(model, "x0", points=20, method="values"), {}, {}
        for name, session in sessions.items():
            timed(session, pel.PartialDependence(model, "x1", points=2, method="values"))
            seconds[name], totals[name] = timed(session, curve)
            print(f"{kind}, {name}: {seconds[name][0]:.1f} s, processor {seconds[name][1]:.1f} s", flush=True)
        base = "workers=2" if "workers=2" in seconds else "one process"
        clock, work = (seconds["Spark local[2]"][i] / seconds[base][i] for i in (0, 1))
        same, million = all(found == totals[base] for found in totals.values()), 1e6 / options.rows
        print(f"{kind}: Spark local[2] / {base} = {clock:.2f} on the clock, {work:.2f} of processor time; totals equal: {same}")
        print(f"{kind}: core-seconds of Spark for a million rows: {million * seconds['Spark local[2]'][1]:.2f}", flush=True)
    if options.people:
        shuffles(opened, estimator, options.rows)
    spark.stop()


def shuffles(opened, estimator, rows):
    model = pel.Model(estimator, output=(0, 1), trained_on="other data")
    for unit in (None, pel.Unit("id", max_rows=3)):
        for name in ("one process", "Spark local[2]"):
            session = opened[name](unit=unit)
            (clock, work), _ = timed(session, pel.PermutationImportance(model, "y"))
            each = 1e6 * work / rows
            print(
                f"pairs, {unit or 'rows'}, {name}: {clock:.1f} s, processor {work:.1f} s, {each:.2f} s a million rows", flush=True
            )


if __name__ == "__main__":
    main()
