"""Several processes read one table: the same integers, nothing that shows, and nothing that stays behind."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
from engine_conformance import OF_CONDITIONS, OF_RECORDS, SCHEMA, UNITS, over, people, written_keys
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import pellucid as pel
from pellucid.engine import LocalEngine, ProcessEngine
from pellucid.query import Blocks, Couples, Joint, Pairs, Sum
from pellucid.query.bounds import Box
from pellucid.query.functions import sent_whole

sent_whole(__name__)
ROWS = 9000
PEOPLE = pel.Schema({"a": pel.Number(0, 1), "b": pel.Number(0, 1), "y": pel.Number(0, 1), "s": pel.Category(["F", "M"])})
CANARY = "kanarienvogel"


def table(rows=ROWS):
    rng = np.random.default_rng(1)
    a, b = rng.random(rows), rng.random(rows)
    word = rng.choice(["F", "M"], rows)
    return pd.DataFrame(
        {"a": a, "b": b, "y": np.clip(a * b + rng.normal(0, 0.1, rows), 0, 1), "s": word, "id": np.arange(rows) // 2}
    )


def gone(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().split()[2] == "Z"
    except OSError:
        return True


@pytest.fixture(scope="module", params=[2, pytest.param(3, marks=pytest.mark.slow)])
def workers(request):
    return request.param


@pytest.mark.parametrize("unit", UNITS[::2], ids=lambda u: u.text)
@pytest.mark.parametrize("relation", ["replace", "add-remove"])
def test_integers_of_one_process(relation, unit, workers, tmp_path):
    """In memory and on files whose row groups are not where ranges of rows end; through buckets of many sizes."""
    frame = people(5000, seed=4)
    for i, start in enumerate(range(0, 5000, 900)):
        frame.iloc[start : start + 900].to_parquet(tmp_path / f"{i}.parquet", row_group_size=70)
    with written_keys():
        alone = LocalEngine(frame, SCHEMA, relation, unit)
    couples = [over(Couples(2))] if relation == "replace" and unit.column is None else []
    every = [Joint([*OF_RECORDS, *OF_CONDITIONS]), OF_RECORDS[4], over(Pairs()), over(Pairs(2)), over(Blocks(7)), *couples]
    for data, options in ((frame, {}), (tmp_path, {"held": 20_000, "batch_rows": 300})):
        with written_keys():
            engine = ProcessEngine(data, SCHEMA, relation, unit, workers=workers, **options)
        for query in every:
            with written_keys(5):
                wanted = alone.totals(query)
            with written_keys(5):
                assert engine.totals(query) == wanted
        assert engine.units == alone.units and engine.check().to_dict() == alone.check().to_dict()


@pytest.mark.parametrize(
    ("relation", "unit"),
    [
        pytest.param("replace", None, id="replace-rows", marks=pytest.mark.slow),
        pytest.param("add-remove", pel.Unit("id", max_rows=2), id="add-remove-people"),
        pytest.param("replace", pel.Unit("id", max_rows=2), id="replace-people", marks=pytest.mark.slow),
        pytest.param("add-remove", None, id="add-remove-rows", marks=pytest.mark.slow),
    ],
)
def test_releases_of_one_process(relation, unit, silent, monkeypatch):
    """Models are asked there as they were tried here, and read there as they were read here."""
    data = table()
    forest = RandomForestRegressor(5, max_depth=4, random_state=0).fit(data[["a", "b"]], data["y"])
    line = make_pipeline(StandardScaler(), LogisticRegression()).fit(data[["a", "b"]], data["y"] > 0.3)
    trees = pel.Model(forest, output=(0, 1), trained_on="other data")
    asked = pel.Model(line, trained_on="other data")
    study = [
        pel.PartialDependence(trees, "a", points=5),
        pel.PartialDependence(asked, ["a", "b"], points=5),
        pel.AccumulatedEffects(asked, "b"),
        pel.PermutationImportance(trees, "y", repeats=2),
        pel.PermutationImportance(asked, "y", ranking=True),
        pel.FeatureInteraction(trees, "a"),
        pel.ShapValues(asked, {"a": 0.2, "b": 0.9}),
        pel.Distribution("s"),
        pel.PrivateKMeans(2, ["a", "b"]),
        pel.Completeness(),
    ]
    found = []
    for several in (None, 2):
        turn = iter(range(1000))
        monkeypatch.setattr("pellucid.mechanisms.labels.fresh", lambda turn=turn: pel_labels(next(turn)))
        session = pel.Session(data, PEOPLE, pel.Budget(99.0), neighbors=relation, unit=unit, expected_rows=ROWS, workers=several)
        found.append([session.release(one, epsilon=2.0) for one in study])
    for one, other in zip(*found):
        assert one.content() == other.content()
        assert one.certificate.engine == "one process" and other.certificate.engine == "2 processes of one machine"


def pel_labels(turn):
    from pellucid.mechanisms.labels import Labels

    return Labels(bytes([turn % 256]) * 32)


class Talks:
    """A model that says what it sees, in every way it knows, and may fail for it."""

    def __init__(self, how):
        self.how = how

    def __call__(self, frame):
        import logging
        import warnings

        if frame["a"].max() > 1:
            return frame["a"] / 2
        said = f"{CANARY} {frame['a'].tolist()[:3]}"
        if self.how == "prints":
            print(said)
            print(said, file=sys.stderr)
            os.write(2, said.encode())
            warnings.warn(said, stacklevel=1)
            logging.getLogger().error(said)
        if self.how == "raises":
            raise ValueError(said)
        return frame["a"] / 2


def test_nothing_of_a_worker_shows(capfd, recwarn):
    def tells(rows):
        raise ValueError(f"{CANARY} {rows['a'].tolist()}")

    def prints(rows):
        Talks("prints")(rows.frame())
        return rows["a"][:, None]

    engine = ProcessEngine(table(), PEOPLE, "replace", pel.Unit(), workers=2)
    with pytest.raises(pel.ReleaseFailed, match="stays spent") as caught:
        engine.totals(Sum(tells, Box(1, 0, 1), columns=("a",)))
    assert CANARY not in str(caught.value) and caught.value.__cause__ is None and caught.value.__context__ is None
    assert engine.totals(Sum(prints, Box(1, 0, 1), columns=("a",))) == LocalEngine(table(), PEOPLE, "replace", pel.Unit()).totals(
        Sum(lambda rows: rows["a"][:, None], Box(1, 0, 1), columns=("a",))
    )
    shown = capfd.readouterr()
    assert CANARY not in shown.out + shown.err and not [w for w in recwarn if CANARY in str(w.message)]


def test_an_interrupt_stays_one_and_the_engine_goes_on():
    def interrupted(rows):
        raise KeyboardInterrupt("the secret")

    engine = ProcessEngine(people(), SCHEMA, "replace", pel.Unit(), workers=2)
    with pytest.raises(KeyboardInterrupt) as caught:
        engine.totals(Sum(interrupted, Box(1, 0, 1), columns=("age",)))
    assert caught.value.args == ()
    assert engine.totals(OF_RECORDS[4]) == LocalEngine(people(), SCHEMA, "replace", pel.Unit()).totals(OF_RECORDS[4])


def test_a_worker_that_is_killed_fails_the_release_and_the_charge_stays():
    def suicide(rows):
        os.kill(os.getpid(), signal.SIGKILL)

    session = pel.Session(people(), SCHEMA, pel.Budget(epsilon=3.0), workers=2)
    before = [one.process.pid for one in session._engine._processes._running]
    with pytest.raises(pel.ReleaseFailed, match="stays spent"):
        session._engine.totals(Sum(suicide, Box(1, 0, 1), columns=("age",)))
    assert all(gone(pid) for pid in before)
    here = os.getpid()

    def dies(frame):
        if os.getpid() != here:
            os.kill(os.getpid(), signal.SIGKILL)
        return frame["age"] / 16

    model = pel.Model(dies, output=(0, 1), features=["age"], trained_on="other data")
    with pytest.raises(pel.ReleaseFailed, match="stays spent"):
        session.release(pel.PartialDependence(model, "age", points=3), epsilon=1.0)
    assert float(session.spent) == 1.0
    session.release(pel.Distribution("age"), epsilon=1.0)
    assert float(session.spent) == 2.0


def test_a_worker_that_was_killed_meanwhile_is_started_again():
    engine = ProcessEngine(people(), SCHEMA, "replace", pel.Unit(), workers=2)
    for one in engine._processes._running:
        os.kill(one.process.pid, signal.SIGKILL)
        one.process.wait()
    assert engine.totals(OF_RECORDS[4]) == LocalEngine(people(), SCHEMA, "replace", pel.Unit()).totals(OF_RECORDS[4])


def test_processes_end_with_their_engine():
    engine = ProcessEngine(people(), SCHEMA, "replace", pel.Unit(), workers=2)
    pids = [one.process.pid for one in engine._processes._running]
    assert not any(gone(pid) for pid in pids)
    del engine
    assert all(gone(pid) for pid in pids)


def test_a_killed_parent_leaves_no_orphan():
    program = (
        "import sys, time, pellucid as pel\n"
        "session = pel.Session({'a': [1.0, 2.0] * 50}, pel.Schema({'a': pel.Number(0, 3)}), pel.Budget(epsilon=1.0), workers=2)\n"
        "print(*[one.process.pid for one in session._engine._processes._running], flush=True)\n"
        "time.sleep(60)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    pids = [int(pid) for pid in parent.stdout.readline().split()]
    assert len(pids) == 2
    parent.kill()
    parent.wait()
    parent.stdout.close()
    end = time.monotonic() + 30
    while not all(map(gone, pids)) and time.monotonic() < end:
        time.sleep(0.1)
    assert all(map(gone, pids))


def test_a_file_that_changes_is_refused(tmp_path):
    frame = people()
    frame.to_parquet(tmp_path / "people.parquet")
    engine = ProcessEngine(tmp_path / "people.parquet", SCHEMA, "replace", pel.Unit(), workers=2)
    assert engine.totals(OF_RECORDS[4])
    frame.assign(age=16.0).to_parquet(tmp_path / "people.parquet")
    with pytest.raises(pel.ReleaseFailed, match="changed"):
        engine.totals(OF_RECORDS[4])


def test_a_table_in_memory_is_a_copy():
    frame = people()
    ages = frame["age"].to_numpy().copy()
    engine = ProcessEngine({**frame, "age": ages}, SCHEMA, "replace", pel.Unit(), workers=2)
    before = engine.totals(OF_RECORDS[0])
    ages[:] = 16
    assert engine.totals(OF_RECORDS[0]) == before


def test_models_are_sent_once():
    data = table()
    line = make_pipeline(StandardScaler(), LogisticRegression()).fit(data[["a", "b"]], data["y"] > 0.3)
    model = pel.Model(line, trained_on="other data")
    session = pel.Session(data, PEOPLE, pel.Budget(epsilon=9.0), workers=2)
    sent, whole = [], session._engine._sender.box
    session._engine._sender.box = lambda number: sent.append(number) or whole(number)
    for points in (3, 4, 5):
        session.release(pel.PartialDependence(model, "a", points=points), epsilon=1.0)
    assert len(sent) == 2 and len(set(sent)) == 1


def test_ranges_cover_all_rows_once(tmp_path):
    people(5000).to_parquet(tmp_path / "people.parquet", row_group_size=700)
    for data in (people(5000), tmp_path / "people.parquet", people(3), people(3).iloc[:0]):
        engine = ProcessEngine(data, SCHEMA, "add-remove", pel.Unit(), workers=3)
        splits = engine._splits()
        assert [row for start, stop in splits for row in range(start, stop)] == list(range(engine.rows))


@pytest.mark.parametrize("workers", [0, -1, 1.5, True, "two"])
def test_workers_are_a_number(workers):
    with pytest.raises(pel.PlanError, match="workers="):
        pel.Session(people(), SCHEMA, pel.Budget(epsilon=1.0), workers=workers)


def test_one_worker_is_this_process():
    assert type(pel.Session(people(), SCHEMA, pel.Budget(epsilon=1.0), workers=1)._engine) is LocalEngine


def test_strict_sessions_and_functions_of_blocks():
    data = table(600)
    session = pel.Session(data, PEOPLE, pel.Budget(epsilon=9.0), workers=2, strict=True)
    model = pel.Model(lambda frame: frame["a"], output=(0, 1), features=["a"], trained_on="other data")
    assert session.release(pel.PartialDependence(model, "a", points=3), epsilon=1.0).certificate.engine
    plot = pel.PrivatePlot(lambda rows: [rows["a"].mean()], x=[1], output=(0, 1), blocks=5)
    assert session.release(plot, epsilon=1.0).count == 5
