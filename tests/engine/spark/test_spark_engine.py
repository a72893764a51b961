"""Totals on Spark are those of plain loops over single rows, whatever the partitions and buckets; anything else is refused."""

import _thread
import threading
import time

import numpy as np
import pytest
from engine_conformance import OF_CONDITIONS, OF_RECORDS, SCHEMA, UNITS, Keys, Oracle, as_it_is, mean_or_nothing, over, people
from people import make_people
from spark_here import spark_session, stored

import pellucid as pel
from pellucid.engine import LocalEngine, open_engine
from pellucid.mechanisms import source
from pellucid.query import Blocks, Couples, Joint, Pairs, Records, Sum
from pellucid.query.bounds import Box
from pellucid.query.functions import BlockFunction, Limits, sent_whole

# Executors import the package, and no tests.
sent_whole(__name__)
sent_whole("engine_conformance")
sent_whole("people")

REPLACE, ADD_REMOVE = "replace", "add-remove"
FEW = Limits(workers=1)
FUNCTION = Sum(BlockFunction(mean_or_nothing, as_it_is, (0.25, 0.75), FEW), Box(2, 0, 1), over=Blocks(8), columns=tuple(SCHEMA))
EVERYTHING = [Joint([*OF_RECORDS, *OF_CONDITIONS]), over(Pairs(2)), over(Blocks(7))]
QUICK = [(REPLACE, UNITS[0], 30), (ADD_REMOVE, UNITS[2], 30)]
SLOW = [(r, u, b) for r in (REPLACE, ADD_REMOVE) for u in UNITS for b in (1000, 30, 4) if (r, u, b) not in QUICK]


def engine_on(frame, folder, relation=REPLACE, unit=UNITS[0], bucket_rows=1000):
    from pellucid.engine.spark import SparkEngine

    return SparkEngine(stored(frame, folder), SCHEMA, relation, unit, bucket_rows=bucket_rows)


@pytest.fixture
def keys(monkeypatch):
    monkeypatch.setattr(source, "current", Keys())
    return source.current.drawn


def compare(keys, folder, relation, unit, bucket_rows, queries):
    frame = people()
    keys.clear()
    engine = engine_on(frame, folder, relation, unit, bucket_rows)
    opening = list(keys)
    assert engine.rows == 90 and engine.units == Oracle(frame, SCHEMA, relation, unit, opening).units
    for query in queries:
        keys.clear()
        found = engine.totals(query)
        oracle = Oracle(frame, SCHEMA, relation, unit, [*opening, *keys])
        assert found == oracle.totals(query) and all(type(value) is int for value in found)
        assert not oracle.keys, "more keys were drawn than are needed"
    return engine


@pytest.mark.parametrize(("relation", "unit", "bucket_rows"), QUICK, ids=str)
def test_totals_are_those_of_plain_loops(keys, tmp_path, relation, unit, bucket_rows):
    compare(keys, tmp_path, relation, unit, bucket_rows, [*EVERYTHING, *([over(Couples(2))] if relation == REPLACE else [])])


@pytest.mark.slow
def test_a_function_of_blocks_runs_in_processes_of_its_own_on_executors(keys, tmp_path):
    engine = compare(keys, tmp_path, REPLACE, UNITS[2], 1000, [FUNCTION])
    assert engine.outcomes.blocks == 8 == engine.outcomes.answered + engine.outcomes.failed


@pytest.mark.slow
@pytest.mark.parametrize(("relation", "unit", "bucket_rows"), SLOW, ids=str)
def test_totals_are_those_of_plain_loops_everywhere(keys, tmp_path, relation, unit, bucket_rows):
    more = [over(Couples(2))] if relation == REPLACE and unit == UNITS[0] else []
    compare(keys, tmp_path, relation, unit, bucket_rows, [*EVERYTHING, over(Blocks(200)), FUNCTION, *more])


@pytest.mark.slow
@pytest.mark.parametrize("unit", UNITS, ids=lambda u: u.text)
@pytest.mark.parametrize("size", [0, 1, 2])
def test_hardly_anybody(keys, tmp_path, size, unit):
    frame = people(3).iloc[:size]
    engine = engine_on(frame, tmp_path, ADD_REMOVE, unit)
    opening = list(keys)
    for query in EVERYTHING:
        keys.clear()
        found = engine.totals(query)
        assert found == Oracle(frame, SCHEMA, ADD_REMOVE, unit, [*opening, *keys]).totals(query)


def test_of_an_odd_number_of_records_nobody_is_in_two_couples(keys, tmp_path):
    """Claim: couples. With several buckets, the last record in the order is not followed by the first one."""
    frame = people(31)
    engine = engine_on(frame, tmp_path, bucket_rows=8)
    assert engine.totals(over(Couples())) == Oracle(frame, SCHEMA, REPLACE, UNITS[0], keys).totals(over(Couples()))


def in_any_order(check):
    """Causes that are as frequent as each other have no order."""
    columns = [{**c, "causes": sorted(c["causes"], key=str)} for c in check.to_dict()["columns"]]
    return {**check.to_dict(), "columns": columns}


def test_batches_and_checks_are_those_of_the_local_engine(tmp_path, monkeypatch):
    frame = people(50, seed=5)
    engine = engine_on(frame, tmp_path, unit=UNITS[1])
    monkeypatch.setattr("pellucid.engine.spark.engine.WINDOW", 20)
    found, local = engine.check(), LocalEngine(tmp_path, SCHEMA, REPLACE, UNITS[1]).check()
    assert in_any_order(found) == in_any_order(local)
    batches = list(engine.batches(("age", "sex")))
    wanted = Oracle(frame, SCHEMA, REPLACE, UNITS[0], [])
    for name in ("age", "sex"):
        assert np.concatenate([b[name] for b in batches]).tolist() == [row[name] for row in wanted.rows]
    parts = np.concatenate([b.parts for b in batches])
    assert parts.sum() == engine.units and set(parts.tolist()) == {0, 1}


def test_a_release_is_the_one_of_a_file(schema, model, tmp_path, silent):
    table = make_people(5000)
    sessions = [pel.Session(data, schema, budget=pel.Budget(epsilon=1)) for data in (stored(table, tmp_path), tmp_path)]
    for explainer in (pel.PartialDependence(model, "age", points=5), pel.Distribution("sex")):
        spark, local = (session.release(explainer, epsilon=0.25).to_frame() for session in sessions)
        assert spark.equals(local)
    assert type(sessions[0]._engine).__name__ == "SparkEngine"


@pytest.mark.parametrize("kind", [Records(), Pairs(), Blocks(3)], ids=repr)
def test_errors_say_nothing_about_data(tmp_path, capfd, kind):
    def tells(rows, *others):
        print(f"the secret is {rows['age'].tolist()}")
        raise ValueError(f"the secret is {rows['age'].tolist()}")

    engine = engine_on(people(), tmp_path)
    with pytest.raises(pel.ReleaseFailed, match="stays spent") as caught:
        engine.totals(Sum(tells, Box(1, 0, 1), over=kind, columns=("age",)))
    assert "secret" not in str(caught.value) and caught.value.__cause__ is None and caught.value.__context__ is None
    assert "secret" not in "".join(capfd.readouterr())


def test_an_interrupt_cancels_the_job(tmp_path):
    def interrupted(rows):
        raise KeyboardInterrupt("the secret")

    def sleeps(rows):
        time.sleep(60)
        return np.zeros((len(rows), 1))

    engine = engine_on(people(), tmp_path)
    with pytest.raises(KeyboardInterrupt) as caught:
        engine.totals(Sum(interrupted, Box(1, 0, 1), columns=("age",)))
    assert caught.value.args == ()
    started = time.monotonic()
    threading.Timer(3, _thread.interrupt_main).start()
    with pytest.raises(KeyboardInterrupt):
        engine.totals(Sum(sleeps, Box(1, 0, 1), columns=("age",)))
    assert time.monotonic() - started < 40
    tracker = spark_session().sparkContext.statusTracker()
    end = time.monotonic() + 20
    while tracker.getActiveJobsIds() and time.monotonic() < end:
        time.sleep(0.1)
    assert not tracker.getActiveJobsIds()


def test_a_table_that_changes_is_refused(tmp_path):
    frame = people()
    engine = engine_on(frame, tmp_path)
    before = engine.totals(OF_RECORDS[0])
    assert engine.totals(OF_RECORDS[0]) == before

    other, path = frame.iloc[:30].assign(age=16.0), str(tmp_path / "0.parquet")

    def changing(rows):
        other.to_parquet(path)
        return np.zeros((len(rows), 1))

    with pytest.raises(pel.ReleaseFailed, match=r"changed .* stays spent"):
        engine.totals(Sum(changing, Box(1, 0, 1), columns=("age",)))
    with pytest.raises(pel.ReleaseFailed, match="nothing more was charged"):
        engine.check_unchanged()


def test_rows_that_come_or_go_are_noticed_by_number(tmp_path):
    """Also where files stay as they are: a DataFrame can be evaluated twice with other rows."""
    engine = engine_on(people(), tmp_path)
    whole = engine.source.frame
    for other in (whole.where("age > 3"), whole.repartition(2).crossJoin(spark_session().range(2)).drop("id")):
        engine.source.frame = other
        with pytest.raises(pel.ReleaseFailed):
            engine.totals(OF_RECORDS[0])
    engine.source.frame = whole.repartition(5)
    assert engine.totals(OF_RECORDS[0])


def test_files_are_looked_at_by_spark_where_the_driver_has_none(tmp_path, monkeypatch):
    engine = engine_on(people(), tmp_path)
    listed = engine.source._listed()
    assert len(listed) == 3 and engine.source._listed() == listed
    time.sleep(0.01)
    people(40).to_parquet(tmp_path / "1.parquet")
    assert engine.source._listed() != listed


def test_what_has_no_places_is_refused_with_advice(tmp_path):
    whole = stored(people(), tmp_path)
    for frame, words in [
        (whole.where("age > 3"), "exactly once"),
        (whole.sample(0.5), "exactly once"),
        (whole.join(whole.select("id").distinct(), "id"), "which file"),
        (spark_session().createDataFrame([(1.0,)], ["age"]).select("age"), "which file"),
    ]:
        with pytest.raises(pel.DataError, match=words) as caught:
            open_engine(frame, pel.Schema({"age": pel.Number(0, 16)}), REPLACE, pel.Unit())
        assert "df.write.parquet" in str(caught.value) and caught.value.__context__ is None
    with pytest.raises(pel.DataError, match="no column 'height'"):
        open_engine(whole, pel.Schema({"height": pel.Number(0, 3)}), REPLACE, pel.Unit())


def test_settings_that_show_rows_are_refused_before_a_charge(tmp_path, schema):
    spark = spark_session()
    session = pel.Session(stored(make_people(200), tmp_path), schema, budget=pel.Budget(epsilon=1))
    for name, value in [
        ("spark.sql.pyspark.worker.logging.enabled", "true"),
        ("spark.sql.execution.pyspark.udf.tracebackWithLocals.enabled", "true"),
        ("spark.sql.pyspark.udf.profiler", "perf"),
        ("spark.sql.execution.pyspark.udf.faulthandler.enabled", "true"),
    ]:
        spark.conf.set(name, value)
        try:
            with pytest.raises(pel.PlanError, match=name):
                session.release(pel.Distribution("sex"), epsilon=0.5)
        finally:
            spark.conf.unset(name)
    assert session.spent == 0


def test_other_versions_are_refused_in_words(tmp_path, monkeypatch):
    from pellucid.engine.spark import passes, settings

    spark_session()
    there = settings.versions()
    with pytest.raises(pel.PlanError, match=r"numpy 1.0 there and numpy \d"):
        settings.refuse_other_versions(there.replace(f"numpy {np.__version__}", "numpy 1.0"))
    monkeypatch.setattr(passes, "versions", lambda: there.replace("numpy", "other"))
    with pytest.raises(pel.ReleaseFailed):
        engine_on(people(), tmp_path).totals(OF_RECORDS[0])
