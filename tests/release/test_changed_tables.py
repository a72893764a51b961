"""A table that changes under an open session: refused before anything is charged, or, where that is too late, before noise."""

import os
import shutil

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sources import Silent

import pellucid as pel
from pellucid.mechanisms import source

SCHEMA = pel.Schema({"x": pel.Number(0, 1), "y": pel.Number(0, 1)})
MARK = 0.123456789
"""A cell of the private table that public records do not have."""


def table(y=0.0, rows=500, person=None):
    ids = [f"{i:06}" for i in range(rows)] if person is None else [person] * rows
    return pd.DataFrame({"x": np.full(rows, MARK), "y": np.full(rows, y), "id": ids})


@pytest.fixture
def folder(tmp_path):
    """Two files, so that one can be exchanged while the other is read."""
    made = tmp_path / "people"
    made.mkdir()
    table(0.0).to_parquet(made / "a.parquet")
    table(0.0, rows=600).to_parquet(made / "b.parquet")
    return made


def opened(data, tmp_path, **options):
    options = {"neighbors": "add-remove", "expected_rows": 1000, "unit": pel.Unit("id")} | options
    return pel.Session(
        data, SCHEMA, budget=pel.Budget(1.0, delta=1e-6), name="ward", ledger=tmp_path / "study.db", create=True, **options
    )


def replaced(path):
    """Another file under the same name."""
    other = path.with_suffix(".new")
    table(1.0, rows=600, person="000000").to_parquet(other)
    os.replace(other, path)


def replaced_in_disguise(path):
    """Another file of the same size and age."""
    state = path.stat()
    other = path.with_suffix(".new")
    shutil.copy(path, other)
    content = bytearray(other.read_bytes())
    content[4:40] = b"\xff" * 36
    other.write_bytes(content)
    os.utime(other, ns=(state.st_atime_ns, state.st_mtime_ns))
    os.replace(other, path)


def overwritten(path):
    """The same file with other bytes, of the same size and age."""
    state = path.stat()
    with path.open("r+b") as file:
        file.seek(4)
        file.write(b"\xff" * 36)
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))


CHANGES = [replaced, replaced_in_disguise, overwritten, os.utime, os.remove]


def changing(change, *arguments):
    """A model that is row-wise, and changes the table when it meets it."""
    done = []

    def predict(d):
        if (d["x"] == MARK).any() and not done:
            done.append(change(*arguments))
        return d["y"]

    return pel.Model(predict, output=(0, 1), features=["x", "y"], trained_on="other data"), done


PLAIN = pel.Model(lambda d: d["y"], output=(0, 1), features=["x", "y"], trained_on="other data")


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("file", ["a.parquet", "b.parquet"])
def test_a_file_that_changed_before_costs_nothing_however_often_it_is_tried(folder, tmp_path, change, file):
    session = opened(folder, tmp_path)
    kept = session.release(pel.Distribution("x"), epsilon=0.1)
    spent = session.spent
    change(folder / file)
    for _ in range(9):
        with pytest.raises(pel.ReleaseFailed, match=r"changed or removed .* nothing more was charged"):
            session.release(pel.Distribution("y"), epsilon=0.1)
    assert session.spent == spent
    assert [entry.kind for entry in session.history()] == ["open", "reserve", "commit"]
    # What was released before the change was paid for, and reads nothing.
    assert session.release(pel.Distribution("x"), epsilon=0.1).to_json() == kept.to_json()


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("file", ["a.parquet", "b.parquet"])
def test_a_file_that_is_exchanged_while_it_is_read_is_not_released(folder, tmp_path, change, file):
    """New rows had the old rows' parts: one person with 500 rows was half of a mean."""
    session = opened(folder, tmp_path)
    model, done = changing(change, folder / file)
    with pytest.raises(pel.ReleaseFailed, match=r"changed or removed after .* stays spent and nothing was released") as caught:
        session.release(pel.PartialDependence(model, "y"), epsilon=0.1)
    assert done and caught.value.__context__ is None
    assert [entry.kind for entry in session.history()] == ["open", "reserve"] and session.spent > 0


def test_a_file_that_changes_between_the_charge_and_the_first_row_is_not_read(folder, tmp_path, monkeypatch):
    session = opened(folder, tmp_path)
    reserve = session.ledger.reserve

    def late(*arguments, **more):
        charged = reserve(*arguments, **more)
        replaced(folder / "a.parquet")
        return charged

    monkeypatch.setattr(session.ledger, "reserve", late)
    monkeypatch.setattr(session._engine.table, "batches", lambda *_: pytest.fail("rows were read"))
    with pytest.raises(pel.ReleaseFailed, match="stays spent"):
        session.release(pel.Distribution("y"), epsilon=0.1)
    assert session.spent > 0


@pytest.mark.parametrize("method", ["one-shot", "descent"])
def test_questions_of_a_stream_are_refused_before_they_are_charged(folder, tmp_path, method):
    session = opened(folder, tmp_path, unit=pel.Unit())
    with session.open(pel.LocalLinear(PLAIN, questions=3, method=method, within=0.0), share=0.5) as local:
        local.explain({"x": 0.1, "y": 0.1})
        spent, entries = session.spent, len(session.history())
        replaced(folder / "b.parquet")
        for _ in range(3):
            with pytest.raises(pel.ReleaseFailed, match="nothing more was charged"):
                local.explain({"x": 0.9, "y": 0.9})
    assert session.spent == spent and len(session.history()) == entries


def test_one_account_per_record_is_refused_before_it_is_charged(folder, tmp_path):
    session = opened(folder, tmp_path, unit=pel.Unit())
    explainer = pel.LocalLinear(PLAIN, questions=4, accounting="individual", weight="gaussian", bandwidth=0.5, within=0.0)
    with session.open(explainer, share=0.3, name="first") as local:
        local.explain({"x": 0.1, "y": 0.1})
        entries = len(session.history())
        replaced(folder / "b.parquet")
        with pytest.raises(pel.ReleaseFailed, match="nothing more was charged"):
            local.explain({"x": 0.9, "y": 0.9})
    for _ in range(2):
        with pytest.raises(pel.ReleaseFailed, match="nothing more was charged"):
            session.open(explainer, share=0.3, name="second")
    assert len(session.history()) == entries


@pytest.mark.parametrize("held", [True, False])
@pytest.mark.parametrize("accounting", ["joint", "individual"])
def test_a_file_that_is_exchanged_while_a_stream_reads_it_is_not_released(folder, tmp_path, held, accounting, monkeypatch):
    if not held:
        monkeypatch.setattr("pellucid.engine.prepared.MOST_HELD", 10)
    session = opened(folder, tmp_path, unit=pel.Unit())
    model, done = changing(replaced, folder / "b.parquet")
    settings = {"accounting": "individual", "weight": "gaussian", "bandwidth": 0.5} if accounting == "individual" else {}
    with session.open(pel.LocalLinear(model, questions=4, **settings), share=0.5) as local:
        with pytest.raises(pel.ReleaseFailed, match="stays spent"):
            local.explain({"x": 0.1, "y": 0.1})
        charged = session.spent
        with pytest.raises(pel.ReleaseFailed, match="nothing more was charged"):
            local.explain({"x": 0.9, "y": 0.9})
    assert done and session.spent == charged and "commit" not in [entry.kind for entry in session.history()]


def test_marking_an_account_for_a_comparison_comes_after_the_check(folder, tmp_path):
    session = opened(folder, tmp_path, unit=pel.Unit())
    with session.open(pel.LocalLinear(PLAIN, questions=3), share=0.5) as local:
        told = local.explain({"x": 0.1, "y": 0.1})
        replaced(folder / "b.parquet")
        with pytest.raises(pel.ReleaseFailed, match="nothing more was charged"):
            local.distance_to_optimum({"x": 0.1, "y": 0.1}, told, not_private=True)
    assert "not private" not in [entry.kind for entry in session.history()]


def test_a_file_that_changes_while_it_is_opened_is_refused(tmp_path, monkeypatch):
    """Footers and ids are of one file, or there is no session."""
    path = tmp_path / "people.parquet"
    table().to_parquet(path)
    look = os.stat

    def stat(asked, **more):
        found = look(asked, **more)
        if asked == path:
            monkeypatch.setattr(os, "stat", look)
            replaced(path)
        return found

    monkeypatch.setattr(os, "stat", stat)
    monkeypatch.setattr("pathlib.Path.is_dir", lambda self: False)
    monkeypatch.setattr("pathlib.Path.exists", lambda self: True)
    with pytest.raises(pel.DataError):
        opened(path, tmp_path)


def writable():
    return {"x": np.full(500, 0.25), "y": np.linspace(0, 1, 500), "n": np.arange(500)}


def spoil_arrays(data):
    for column in data.values():
        column[:] = 1


def spoil_frame(data):
    data.loc[:, "y"] = 1.0
    data.loc[0:400, "x"] = 0.75
    data.iloc[:, 2] = 7
    for name in data:
        with np.errstate(all="ignore"):
            values = data[name].to_numpy()
            values.flags.writeable = True
            values[:] = 1


def arrow_over_arrays():
    data = writable()
    return pa.table(data), lambda: spoil_arrays(data)


def polars_over_arrays():
    data = writable()
    return pl.DataFrame(data), lambda: spoil_arrays(data)


def dict_of_arrays():
    data = writable()
    return data, lambda: spoil_arrays(data)


def frame_over_arrays():
    data = pd.DataFrame(writable(), copy=False)
    return data, lambda: spoil_frame(data)


def chunks_over_arrays():
    data = writable()
    pieces = {name: pa.chunked_array([pa.array(column[:123]), pa.array(column[123:])]) for name, column in data.items()}
    return pa.table(pieces).slice(1), lambda: spoil_arrays(data)


@pytest.mark.parametrize("make", [dict_of_arrays, frame_over_arrays, arrow_over_arrays, polars_over_arrays, chunks_over_arrays])
@pytest.mark.parametrize("unit", [None, pel.Unit("n")])
def test_a_table_in_memory_is_the_sessions_own(make, unit, monkeypatch):
    monkeypatch.setattr(source, "current", Silent())
    data, spoil = make()
    session = pel.Session(data, SCHEMA, budget=pel.Budget(1.0), unit=unit)
    explainers = [pel.Distribution("x"), pel.Statistic("y"), pel.PartialDependence(PLAIN, "x")]
    before = [session.release(explainer, epsilon=0.1).content() for explainer in explainers]
    spoil()
    assert [session.release(explainer, epsilon=0.1, fresh=True).content() for explainer in explainers] == before
