"""Arrays and CSV files as tables: types come from the schema, and one line says nothing about another."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pellucid as pel
from pellucid.engine import csv_files
from pellucid.engine.local import LocalEngine
from pellucid.public.schema import Unit

SCHEMA = pel.Schema(
    {"age": pel.Number(0, 120, integer=True), "sex": pel.Category(["F", "M"]), "born": pel.Date("1900-01-01", "2025-12-31")}
)


def cells(data, schema=SCHEMA, unit=None, batch=3):
    """What queries see of a table: decoded columns and their conditions."""
    engine = LocalEngine(data, schema, "replace", unit or Unit(), batch_rows=batch)
    batches = list(engine.batches(list(schema), list(schema)))
    found = {name: np.concatenate([rows[name] for rows in batches]) for name in schema}
    return found, {name: np.concatenate([rows.conditions[name] for rows in batches]) for name in schema}


def written(tmp_path, content, name="people.csv"):
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def test_a_csv_file_is_the_table_of_its_texts(tmp_path):
    frame = pd.DataFrame(
        {
            "age": ["30", "x", "", "500", "7"],
            "sex": ["F", "m", "M", "", "F"],
            "born": ["1990-01-01", "", "abc", "2090-01-01", "2000-02-29"],
        }
    )
    frame.assign(note='a "quoted", cell').to_csv(tmp_path / "people.csv", index=False)
    frame.to_csv(tmp_path / "people.tsv", index=False, sep="\t")
    expected, conditions = cells(frame.replace("", None))
    for name in ("people.csv", "people.tsv"):
        found, said = cells(tmp_path / name)
        for column in SCHEMA:
            assert np.array_equal(found[column], expected[column]) and np.array_equal(said[column], conditions[column])


def test_a_release_from_a_csv_file_is_that_of_the_frame(tmp_path, silent):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.integers(0, 100, 500), "sex": rng.choice(["F", "M"], 500), "born": ["1990-01-01"] * 500})
    frame.to_csv(tmp_path / "people.csv", index=False)
    both = [
        pel.Session(data, SCHEMA, budget=pel.Budget(epsilon=1)).release(pel.Distribution(["age", "sex", "born"]), epsilon=1)
        for data in (frame, tmp_path / "people.csv")
    ]
    assert both[0].to_frame().equals(both[1].to_frame())


HOSTILE = [
    '"30,F,1990-01-01',  # a quote that is not closed
    '30,F,1990-01-01"',
    '"30"x,F,1990-01-01',
    "30,F,1990-01-01,7",
    "30",
    ",,",
    "30,F,1990-01-01\r",
    "\x00,\x00,\x00",
    '"' * 1001,
    "x" * 200_000 + ",F,1990-01-01",
    '"' + "x" * 200_000 + '",F,1990-01-01',
]


@pytest.mark.parametrize("line", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_line_changes_no_other_one(tmp_path, line):
    before, after = "40,M,1980-05-06\n" * 4, "50,F,1970-05-06\n" * 4
    path = written(tmp_path, f"age,sex,born\n{before}{line}\n{after}")
    found, said = cells(path)
    rest = np.delete(np.arange(9), 4)
    assert len(found["age"]) == 9 and found["age"][rest].tolist() == [40.0] * 4 + [50.0] * 4
    assert all((said[name][rest] == 0).all() for name in SCHEMA)
    assert 0 <= found["age"][4] <= 120


@settings(max_examples=40, deadline=None)
@given(st.lists(st.binary(max_size=40).map(lambda b: b.replace(b"\n", b" ").replace(b"\r", b" ")), min_size=1, max_size=6))
def test_any_bytes_are_read_line_by_line(tmp_path_factory, lines):
    folder = tmp_path_factory.mktemp("lines")
    lines = [line for line in lines if line] or [b"x"]
    whole, _ = cells(written(folder, b"age,sex,born\n" + b"\n".join(lines) + b"\n"))
    for i, line in enumerate(lines):
        alone, _ = cells(written(folder, b"age,sex,born\n" + line + b"\n", f"{i}.csv"))
        assert all(alone[name][0] == whole[name][i] for name in SCHEMA)


def test_bytes_that_are_no_text_and_semicolons(tmp_path):
    path = written(tmp_path, "\ufeffage;sex;born\n".encode() + b"\xff\xfe;F;1990-01-01\n31;M;1990-01-01")
    found, said = cells(path)
    assert found["age"][1] == 31 and said["age"].tolist() == [2, 0] and said["sex"].tolist() == [0, 0]


def test_ids_of_a_csv_file(tmp_path):
    path = written(tmp_path, "id,age\n007,30\n007,40\n8,50\n,60\n")
    session = pel.Session(
        path, pel.Schema({"age": pel.Number(0, 99)}), budget=pel.Budget(epsilon=1), unit=pel.Unit("id", max_rows=2)
    )
    assert "2" in str(session.check().ids)


def test_a_file_that_changes_is_refused(tmp_path):
    path = written(tmp_path, "age\n30\n40\n")
    session = pel.Session(path, pel.Schema({"age": pel.Number(0, 99)}), budget=pel.Budget(epsilon=1))
    path.write_text("age\n30\n41\n")
    with pytest.raises(pel.ReleaseFailed):
        session.release(pel.Distribution("age"), epsilon=0.5)
    assert session.remaining.epsilon == 1


@pytest.mark.parametrize(
    ("content", "words"),
    [("", "first line"), ("age,age\n1,2\n", "same name"), ("sex\nF\n", "no column"), (b"\xff\xff\n1\n", "first line")],
)
def test_files_that_are_no_table(tmp_path, content, words):
    with pytest.raises(pel.DataError, match=words):
        pel.Session(written(tmp_path, content), pel.Schema({"age": pel.Number(0, 9)}), budget=pel.Budget(epsilon=1))


def test_arrays_take_their_names_from_the_schema():
    schema = pel.Schema({"age": pel.Number(0, 99), "pay": pel.Number(0, 9)})
    array = np.array([[30.0, 1.0], [40.0, np.nan], [50.0, 3.0]])
    found, said = cells(array, schema)
    assert found["age"].tolist() == [30, 40, 50] and said["pay"].tolist() == [0, 1, 0]
    fields = np.array([(1.0, 30.0)], dtype=[("pay", float), ("age", float)])
    assert cells(fields, schema)[0]["age"].tolist() == [30]
    mixed = np.array([[30, "F", "1990-01-01"], ["x", None, 3.5]], dtype=object)
    assert cells(mixed)[1]["age"].tolist() == [0, 2]
    for wrong in (np.zeros((3, 3)), np.zeros(3), np.zeros((2, 2, 2))):
        with pytest.raises(pel.DataError, match="in that order, which are 2: age, pay"):
            pel.Session(wrong, schema, budget=pel.Budget(epsilon=1))


def test_sparse_matrices_and_free_text_are_refused_with_the_way_to_go():
    from scipy.sparse import csr_array

    with pytest.raises(pel.DataError, match="toarray"):
        pel.Session(csr_array(np.eye(3)), pel.Schema({"a": pel.Number(0, 1)}), budget=pel.Budget(epsilon=1))
    with pytest.raises(pel.SchemaError, match="free text"):
        pel.Schema.from_dict({"features": {"note": {"text": True}}})


def test_five_hundred_categories():
    codes = [f"code {i:03}" for i in range(500)]
    schema = pel.Schema({"diagnosis": pel.Category(codes)})
    people = {"diagnosis": [codes[i % 500] for i in range(20_000)]}
    session = pel.Session(people, schema, budget=pel.Budget(epsilon=10))
    session.preview(pel.Distribution("diagnosis"), epsilon=1)
    counts = session.release(pel.Distribution("diagnosis"), epsilon=1)
    assert len(counts.x) == 500 and np.abs(counts.counts - 40).mean() < 10
    with pytest.raises(pel.SchemaError, match=r"… \(500 in all\)") as caught:
        schema["diagnosis"].position("other")
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("rows", [0, 1, 4, 5, 12])
def test_a_part_of_a_csv_file_is_read_from_where_it_begins(rows, tmp_path, monkeypatch):
    monkeypatch.setattr(csv_files, "EVERY", 4)
    lines = [f"{i},{'F' if i % 3 else ''}" for i in range(rows)]
    table = csv_files.CsvTable(written(tmp_path, "\r\n\n".join(["age,sex", *lines]) + "\n"))
    assert table.rows == rows and list(table.borders) == list(range(0, rows, 4))
    for start in range(rows + 1):
        for stop in range(start, rows + 1):
            found = [cell for batch in table.batches(["age"], 2, start, stop) for cell in batch["age"].to_pylist()]
            assert found == [str(i) for i in range(start, stop)]


def test_several_processes_read_a_csv_file(tmp_path, monkeypatch, silent):
    monkeypatch.setattr(csv_files, "EVERY", 8)
    path = written(tmp_path, "age,sex,born\n" + "".join(f"{i},F,1990-01-01\n" for i in range(100)))
    alone, several = (
        pel.Session(path, SCHEMA, budget=pel.Budget(epsilon=10.0), workers=workers).release(pel.Distribution("age"), epsilon=1)
        for workers in (None, 2)
    )
    assert alone.counts.sum() == 100 and (alone.counts == several.counts).all()
