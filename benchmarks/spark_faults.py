"""Executors killed at random moments while totals are read on Spark: equal totals, or a refused release.

    python benchmarks/spark_faults.py --kills 20

On local-cluster[2,1,1024], with speculation and one slow task in each pass. The executors are processes below this one, found by
their parents and killed by their number. Every round asks for a sum over records, one over pairs and one over blocks, with an id
unit, under a key that is the same in every round.
"""

import argparse
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

os.environ.update(OMP_NUM_THREADS="1", PYSPARK_PYTHON=sys.executable)

import numpy as np
import pandas as pd

import pellucid as pel
from pellucid.engine import LocalEngine
from pellucid.engine.spark import SparkEngine
from pellucid.mechanisms import labels
from pellucid.query import Blocks, Pairs, Sum
from pellucid.query.bounds import Box

SCHEMA = pel.Schema({"age": pel.Number(0, 99)})
UNIT = pel.Unit("id", max_rows=2)


def slowly(rows):
    time.sleep(random.choice([0, 0, 0, 1.5]))
    return (rows["age"] / 100)[:, None]


def products(rows, others):
    time.sleep(0.2)
    return (rows["age"] * others["age"] / 10000)[:, None]


def means(rows):
    return [rows["age"].mean() / 100 if len(rows) else 0.5]


def asked():
    return [
        Sum(slowly, Box(1, 0, 1), columns=("age",)),
        Sum(products, Box(1, 0, 1), over=Pairs(), columns=("age",)),
        Sum(means, Box(1, 0, 1), over=Blocks(9), columns=("age",)),
    ]


def executors():
    """Processes below this one that are executors of Spark."""
    parents, commands = {}, {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(") ")[2].split()[1])
            commands[int(stat.parent.name)] = (stat.parent / "cmdline").read_bytes()
        except OSError:
            continue
    ours = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in ours} - ours:
        ours |= more
    return [pid for pid in ours if b"CoarseGrainedExecutorBackend" in commands.get(pid, b"")]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--rows", type=int, default=40_000)
    parser.add_argument("--longest", type=float, default=15.0, help="seconds before a kill")
    options = parser.parse_args()
    from pyspark.sql import SparkSession

    settings = {
        "spark.ui.enabled": "false", "spark.log.level": "OFF", "spark.ui.showConsoleProgress": "false",
        "spark.speculation": "true",
        "spark.speculation.multiplier": "1.1", "spark.speculation.quantile": "0.3", "spark.task.maxFailures": "20",
        "spark.deploy.maxExecutorRetries": "-1", "spark.stage.maxConsecutiveAttempts": "20",
    }  # fmt: skip
    spark = SparkSession.builder.master("local-cluster[2,1,1024]").config(map=settings).getOrCreate()
    # One key for all: the orders of every round are the same, so their totals have to be.
    labels.source.current = type("Fixed", (), {"private": False, "bits": staticmethod(lambda count: b"k" * count)})()
    counted, killed = Counter(), 0
    with tempfile.TemporaryDirectory() as folder:
        rng = np.random.default_rng(0)
        table = pd.DataFrame({"age": rng.random(options.rows) * 99, "id": rng.integers(0, options.rows // 2, options.rows)})
        for i in range(6):
            table.iloc[i::6].to_parquet(f"{folder}/{i}.parquet")
        wanted = [LocalEngine(folder, SCHEMA, "replace", UNIT).totals(query) for query in asked()]
        engine = SparkEngine(spark.read.parquet(folder), SCHEMA, "replace", UNIT, bucket_rows=options.rows // 5)
        while killed < options.kills:
            done = threading.Event()

            def kill(done=done):
                nonlocal killed
                if not done.wait(random.random() * options.longest) and (found := executors()):
                    os.kill(random.choice(found), signal.SIGKILL)
                    killed += 1

            thread = threading.Thread(target=kill)
            thread.start()
            for query, right in zip(asked(), wanted):
                try:
                    counted["equal" if engine.totals(query) == right else "DIFFERENT"] += 1
                except pel.ReleaseFailed:
                    counted["refused"] += 1
            done.set()
            thread.join()
            print(f"executors killed: {killed}; {dict(counted)}", flush=True)
    spark.stop()
    sys.exit(bool(counted["DIFFERENT"]))


if __name__ == "__main__":
    main()
