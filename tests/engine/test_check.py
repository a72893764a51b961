"""Exact counts for the owner: right for every kind of column, loud about not being private, and nowhere else."""

import pickle

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import pellucid as pel

SCHEMA = pel.Schema(
    {
        "bmi": pel.Number(10, 60),
        "age": pel.Number(0, 120, integer=True),
        "sex": pel.Category(["F", "M"]),
        "code": pel.Category([0, 1, 2]),
    }
)


def table(times=20):
    return pd.DataFrame(
        {
            "bmi": ["27,3", "31,0", "20.5", None, "", "1,200", "abc"] * times,
            "age": [999.0, 999.0, 999.0, np.nan, 30.0, -1.0, 40.0] * times,
            "sex": ["m", "F", " M ", "Q", None, "M", "F"] * times,
            "code": [0, 1, 2, 3, 9, 9, 1] * times,
        }
    )


def opened(data, **options):
    return pel.Session(data, SCHEMA, budget=pel.Budget(epsilon=1.0), **options)


@pytest.mark.parametrize("form", ["memory", "file", "categories"])
def test_counts_are_exact(form, tmp_path):
    data = table()
    if form == "file":
        data.to_parquet(tmp_path / "people.parquet", row_group_size=32)
        data = tmp_path / "people.parquet"
    if form == "categories":
        data = data.astype({"bmi": "category", "sex": "category"})
    found = opened(data).check()
    assert found.rows == 140 and [c.name for c in found.columns] == list(SCHEMA)
    assert found["bmi"].conditions == {"missing": 40, "unreadable": 80, "out of range": 0}
    assert found["age"].conditions == {"missing": 20, "unreadable": 0, "out of range": 80}
    assert found["sex"].conditions == {"missing": 20, "not declared": 60}
    assert found["code"].conditions == {"missing": 0, "not declared": 60}
    assert [(cause.text, cause.cells) for cause in found["code"].causes] == [("9", 40), ("3", 20)]
    assert {(cause.text, cause.condition) for cause in found["sex"].causes} == {(t, "not declared") for t in ("m", " M ", "Q")}
    assert found["age"].causes[0].text == "999.0" and found["age"].causes[0].cells == 60


def test_at_most_ten_causes_the_most_frequent_first():
    data = {"sex": [f"t{i}" for i in range(30) for _ in range(30 - i)]}
    found = pel.Session(data, pel.Schema({"sex": pel.Category(["F", "M"])}), pel.Budget(epsilon=1.0)).check()["sex"]
    assert [(cause.text, cause.cells) for cause in found.causes] == [(f"t{i}", 30 - i) for i in range(10)]
    assert "no cell is as declared" in found.hints[-1]


def test_hints():
    told = {c.name: " ".join(c.hints) for c in opened(table()).check().columns}
    assert "40 cells such as '27,3' are numbers with decimal commas: write them with a point" in told["bmi"]
    assert "20 cells such as '1,200' are numbers with commas between thousands" in told["bmi"]
    assert "60 of the cells out of range say '999.0': is it a code for a missing value?" in told["age"]
    assert "40 cells differ from a declared value in capitals or spaces alone, such as 'm' from 'M'" in told["sex"]
    assert not told["code"]


def test_it_says_loudly_that_it_is_not_private():
    found = opened(table()).check()
    assert str(found) == repr(found) and all(said.startswith("NOT PRIVATE") for said in (str(found), found.to_dict()["warning"]))
    frame = found.to_frame()
    assert list(frame) == ["feature", "condition", "cells", "share"] and frame["cells"].sum() == 360
    with pytest.raises(TypeError, match="not saved"):
        pickle.dumps(found)
    with pytest.raises(pel.SchemaError, match="did you mean 'bmi'"):
        found["bim"]


def test_it_charges_nothing_and_is_nowhere(tmp_path, caplog, capsys):
    session = opened(table(), name="ward", ledger=tmp_path / "ledger.db", create=True)
    before = len(session.history())
    session.check()
    made = session.release(pel.Completeness(), epsilon=1.0)
    assert len(session.history()) == before + 2 and not caplog.records and capsys.readouterr() == ("", "")
    session.ledger.close()
    for text in (made.to_json(), made.certificate.text, (tmp_path / "ledger.db").read_bytes().decode("latin-1")):
        assert "27,3" not in text and " M " not in text and "NOT PRIVATE" not in text


def test_clean_columns_say_so():
    data = pd.DataFrame({"bmi": [20.0], "age": [30], "sex": ["F"], "code": [1]})
    assert "bmi: all cells are as declared" in str(opened(data).check())


def test_a_table_without_rows():
    found = opened(table().iloc[:0], neighbors="add-remove").check()
    assert found.rows == 0 and not any(c.hints or c.causes or any(c.conditions.values()) for c in found.columns)


def test_bytes_that_are_no_text_are_counted():
    text = pa.Array.from_buffers(pa.string(), 2, [None, pa.py_buffer(np.array([0, 2, 4], np.int32)), pa.py_buffer(b"\xff\xfe27")])
    found = pel.Session({"bmi": text}, pel.Schema({"bmi": pel.Number(10, 60)}), pel.Budget(epsilon=1.0)).check()["bmi"]
    assert found.conditions == {"missing": 0, "unreadable": 1, "out of range": 0} and found.causes[0].text == "\ufffd\ufffd"


def test_the_id_column():
    data = {"code": [0, 1, 2, 0, 1, 2, 0, 1], "id": ["a", "a", "a", "b", None, " ", "c", "c"]}
    unit = pel.Unit("id", max_rows=1)
    found = pel.Session(data, pel.Schema({"code": pel.Category([0, 1, 2])}), pel.Budget(epsilon=1.0), unit=unit).check()
    ids = {"column": "id", "max_rows": 1, "people": 3, "without": 2, "above": 2, "left_out": 3}
    assert found.to_dict()["ids"] == ids and found.rows == 8
    said = "  id: 3 people; 2 with more than 1 row, 3 rows left out for it; 2 rows without an id, left out"
    assert said in str(found).splitlines()
    assert opened(table()).check().ids is None and opened(table()).check().to_dict()["ids"] is None


def test_clean_ids_say_so():
    unit = pel.Unit("id", max_rows=2)
    data = {"code": [0, 1, 2], "id": ["a", "a", "b"]}
    found = pel.Session(data, pel.Schema({"code": pel.Category([0, 1, 2])}), pel.Budget(epsilon=1.0), unit=unit).check()
    assert "  id: 2 people" in str(found).splitlines()
