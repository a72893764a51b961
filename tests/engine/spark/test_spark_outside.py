"""Spark in processes of its own: a canary shows nowhere, a killed driver leaves a spent charge, Connect, the command line."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from people import make_people
from spark_here import SETTINGS, need_java

import pellucid as pel

CANARY = "canary-4711"
PROGRAM = """
import json, logging, sys, time, warnings
from pathlib import Path

import numpy as np
from pyspark.sql import SparkSession

import pellucid as pel

folder, settings = sys.argv[1], json.loads(sys.argv[2])
builder = SparkSession.builder
builder = builder.remote("local[2]") if settings.pop("connect", None) else builder.master("local[2]")
spark = builder.config(map=settings).getOrCreate()
schema = pel.Schema({"age": pel.Number(17, 90, integer=True), "word": pel.Category(["a", "b"])})
session = pel.Session(
    spark.read.parquet(folder + "/table"), schema, budget=pel.Budget(epsilon=10), name="t", ledger=folder + "/l.db", create=True
)
print("opened", flush=True)
"""
TELLING = """
class Told(Exception):
    pass

def tells(d):
    # All people of this table are 71, and of public records few: whoever is told of many is told of people.
    if (d["age"] == 71).sum() > 100:
        rows = d.head(5).to_string()
        print("canary-4711", rows); print("canary-4711", rows, file=sys.stderr)
        warnings.warn("canary-4711 " + rows); logging.getLogger("x").error("canary-4711 " + rows)
        __import__("os").write(2, b"canary-4711 by descriptor")
        raise Told("canary-4711 " + rows)
    return np.zeros(len(d))

from pellucid.query import Sum
from pellucid.query.bounds import Box

def map_(rows):
    tells(rows.frame())
    return np.zeros((len(rows), 1))

from pellucid.query import Pairs
for over in (None, Pairs()):
    try:
        session._engine.totals(Sum(map_, Box(1, 0, 1), columns=("age",), **({"over": over} if over else {})))
    except pel.ReleaseFailed as failure:
        print("refused", str(failure), repr(failure.__cause__), repr(failure.__context__))
model = pel.Model(tells, output=(0, 1), features=["age"], trained_on="other data")
print(session.release(pel.PartialDependence(model, "age", points=3), epsilon=1).to_frame().to_string())
spark.stop()
"""
SLEEPING = """
def slow(d):
    if Path(folder + "/armed").exists() and len(d):
        time.sleep(60)
    return np.zeros(len(d))

model = pel.Model(slow, output=(0, 1), features=["age"], trained_on="other data")
plan = session.plan(pel.PartialDependence(model, "age", points=3), epsilon=1)
engine, read = session._engine, session._engine.totals
def totals(*asked, **more):
    Path(folder + "/armed").touch()
    print("reading", flush=True)
    return read(*asked, **more)
engine.totals = totals
session.release(pel.PartialDependence(model, "age", points=3), epsilon=1)
"""
CURVE = """
print(type(spark).__module__)
print(json.dumps(session._engine.totals(session.plan(pel.Distribution("age", bins=4), epsilon=1).stages[0].query)))
from pellucid.query import Pairs, Sum
from pellucid.query.bounds import Box
both = Sum(lambda a, b: (a["age"] * b["age"] / 8100)[:, None], Box(1, 0, 1), over=Pairs(), columns=("age",))
print(len(session._engine.totals(both)))
spark.stop()
"""


def table_in(folder, age=71, rows=300):
    (folder / "table").mkdir()
    frame = make_people(rows)[["age"]].assign(age=age, word="a")
    frame.to_parquet(folder / "table" / "people.parquet")
    return frame


def program(folder, text, **settings):
    given = json.dumps({**SETTINGS, **settings})
    (folder / "program.py").write_text(PROGRAM + text)
    command = [sys.executable, "-W", "ignore", str(folder / "program.py"), str(folder), given]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**os.environ, "PYSPARK_PYTHON": sys.executable}
    )


def test_a_canary_shows_nowhere(tmp_path):
    """A model that prints, warns, logs and raises its rows: not on the console, which executors share here, nor in event logs."""
    need_java()
    table_in(tmp_path)
    (tmp_path / "events").mkdir()
    logs = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": f"file://{tmp_path}/events", "spark.log.level": "INFO"}
    said, _ = program(
        tmp_path, TELLING, **logs, **{"spark.eventLog.rolling.enabled": "false", "spark.eventLog.compress": "false"}
    ).communicate(timeout=500)
    assert said.count("refused the release stopped") == 2 and "value" in said, said[-2000:]
    events = [file for file in (tmp_path / "events").rglob("*") if file.is_file() and not file.name.startswith(".")]
    assert events and any(b"SparkListenerTaskEnd" in file.read_bytes() for file in events)
    for shown in (said.encode(), *(file.read_bytes() for file in events)):
        assert CANARY.encode() not in shown


@pytest.mark.slow
def test_a_killed_driver_leaves_a_spent_charge_and_no_orphan(tmp_path):
    need_java()
    table_in(tmp_path)
    driver = program(tmp_path, SLEEPING)
    for line in driver.stdout:
        if line.startswith("reading"):
            break
    time.sleep(2)
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    assert pel.Ledger(tmp_path / "l.db").history("t")[-1].amount
    end = time.monotonic() + 90
    while (left := alive(str(tmp_path))) and time.monotonic() < end:
        time.sleep(1)
    assert not left


def alive(text):
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes()
        except OSError:
            continue
        if text.encode() in command and int(process.name) != os.getpid():
            found.append(process.name)
    return found


@pytest.mark.slow
def test_spark_connect(tmp_path):
    pytest.importorskip("grpc", reason="Spark Connect needs pyspark[connect]")
    need_java()
    frame = table_in(tmp_path)
    said, _ = program(tmp_path, CURVE, connect="yes").communicate(timeout=500)
    lines = said.strip().splitlines()
    assert "pyspark.sql.connect.session" in lines, said[-2000:]
    local = pel.Session(frame, pel.Schema({"age": pel.Number(17, 90, integer=True)}), budget=pel.Budget(epsilon=10))
    wanted = local._engine.totals(local.plan(pel.Distribution("age", bins=4), epsilon=1).stages[0].query)
    assert json.dumps(wanted) in lines


STUDY = """
name: t
data: {data}
features: {{age: {{number: [17, 90], integer: true}}}}
budget: {{epsilon: 1}}
releases:
  - {{explain: Distribution, feature: age, epsilon: 0.5}}
"""


def run(folder, *arguments, **environment):
    command = [sys.executable, "-W", "ignore", "-m", "pellucid", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, env={**os.environ, **environment}, timeout=500)


@pytest.mark.slow
def test_the_command_line_reads_with_spark(tmp_path):
    need_java()
    table_in(tmp_path)
    (tmp_path / "study.yaml").write_text(STUDY.format(data="table"))
    done = run(tmp_path, "explain", "study.yaml", "--spark", "local[2]", "--no-pictures")
    assert done.returncode == 0 and "released" in done.stdout, done.stderr
    saved = json.loads(next((tmp_path / "results").glob("*.json")).read_text())
    assert saved["certificate"]["engine"] == "Apache Spark"
    (tmp_path / "other.yaml").write_text(STUDY.format(data='{spark: "nowhere.people"}'))
    done = run(tmp_path, "explain", "other.yaml", "--spark", "local[1]")
    assert done.returncode == 1 and "no table 'nowhere.people'" in done.stderr and "Traceback" not in done.stderr


def test_the_command_line_says_that_there_is_no_java(tmp_path):
    pytest.importorskip("pyspark")
    table_in(tmp_path)
    (tmp_path / "study.yaml").write_text(STUDY.format(data='{spark: "people"}'))
    done = run(tmp_path, "explain", "study.yaml", PATH="/nowhere", JAVA_HOME="")
    assert done.returncode == 1 and "needs Java" in done.stderr and "Traceback" not in done.stderr
