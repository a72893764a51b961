"""Every total of every explainer, on Spark or in several processes, and in one process, integer for integer.

    python benchmarks/spark_equality.py --master 'local[2]' --partitions 1 3 7
    python benchmarks/spark_equality.py --master 'local-cluster[2,1,1024]' --partitions 1 3 7
    python benchmarks/spark_equality.py --master processes --partitions 2 3 4

All explainers × both relations × {no unit, an id unit} × numbers of partitions. Both sides draw the same keys and noise, so
that a question that depends on earlier answers is the same one. Buckets are small, so that every shuffle has several.
"""

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

os.environ.update(OMP_NUM_THREADS="1", PYSPARK_PYTHON=sys.executable)
sys.path.append(str(Path(__file__).parent.parent / "tests"))

from people import make_people, risk_without_smoker
from sources import Repeatable

import pellucid as pel
from pellucid import explainers
from pellucid.engine.spark import engine as spark_engine
from pellucid.mechanisms import source
from pellucid.query.functions import sent_whole

sent_whole("people")
SCHEMA = pel.Schema(
    {
        "age": pel.Number(17, 90, integer=True),
        "children": pel.Number(0, 6, integer=True),
        "bmi": pel.Number(10, 60),
        "lab": pel.Number(0, 5, missing=float("nan")),
        "sex": pel.Category(["F", "M"]),
        "school": pel.Category(["none", "primary", "secondary", "tertiary"], ordered=True),
        "smoker": pel.Boolean(),
    }
)
MODEL = pel.Model(risk_without_smoker, output=(0, 1), features=list(SCHEMA)[:-1], trained_on="other data")


def totals(data, example, relation, unit, **more):
    """All exact totals of one release, in the order in which they were asked for; or why there is none."""
    source.current, found = Repeatable("opening"), []
    try:
        session = pel.Session(
            data, SCHEMA, budget=pel.Budget(epsilon=9), neighbors=relation, unit=unit, expected_rows=400, **more
        )
        read = session._engine.totals
        session._engine.totals = lambda query, kept=None: found.append(read(query, kept)) or found[-1]
        source.current = Repeatable("release")
        session.release(example, share=1)
    except pel.PlanError:
        return None
    return found


def started_spark(options):
    """From a folder to its DataFrame."""
    from pyspark.sql import SparkSession

    settings = {"spark.ui.enabled": "false", "spark.log.level": "OFF", "spark.sql.shuffle.partitions": "3",
                "spark.ui.showConsoleProgress": "false"}  # fmt: skip
    spark = SparkSession.builder.master(options.master).config(map=settings).getOrCreate()
    defaults = list(spark_engine.SparkEngine.__init__.__defaults__)
    spark_engine.SparkEngine.__init__.__defaults__ = (defaults[0], options.rows // 3)
    return spark.read.parquet


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--partitions", type=int, nargs="+", default=[3])
    parser.add_argument("--rows", type=int, default=400)
    parser.add_argument("--only", nargs="*", default=[])
    options = parser.parse_args()
    on_spark = options.master != "processes"
    frame = started_spark(options) if on_spark else None
    kinds = [getattr(explainers, name) for name in explainers.__all__ if name != "Explainer"]
    counted = Counter()
    with tempfile.TemporaryDirectory() as folder:
        table = make_people(options.rows)
        table.assign(id=table.index // 2).to_parquet(f"{folder}/people.parquet", row_group_size=50)
        read = frame(folder) if on_spark else None
        for kind in kinds:
            started = time.perf_counter()
            for example in kind.examples(MODEL, SCHEMA) if not options.only or kind.__name__ in options.only else ():
                if example.asks_one_by_one:
                    continue
                for relation in ("replace", "add-remove"):
                    for unit in (None, pel.Unit("id", max_rows=1)):
                        wanted = totals(folder, example, relation, unit)
                        for partitions in options.partitions:
                            if on_spark:
                                found = totals(read.repartition(partitions), example, relation, unit)
                            else:
                                found = totals(folder, example, relation, unit, workers=partitions)
                            result = "not to be asked" if wanted is None else "equal" if found == wanted else "DIFFERENT"
                            counted[result] += 1
                            if result == "DIFFERENT":
                                print("DIFFERENT", type(example).__name__, relation, unit, partitions, flush=True)
            print(f"{kind.__name__}: {dict(counted)}, {time.perf_counter() - started:.0f} s", flush=True)
    sys.exit(bool(counted["DIFFERENT"]))


if __name__ == "__main__":
    main()
