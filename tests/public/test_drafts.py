"""Drafts: names and types alone, and nothing that only cells could tell."""

import datetime as dt

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pellucid as pel


def refusing(*_, **__):
    raise AssertionError("a cell was touched")


class Untouchable(pd.api.extensions.ExtensionArray):
    """A column whose cells raise when they are touched."""

    dtype = pd.Int64Dtype()

    def __len__(self):
        return 3

    @property
    def nbytes(self):
        return 0

    def copy(self):
        return self

    __getitem__ = isna = take = __array__ = to_numpy = __iter__ = refusing


class Stream:
    """A table of another library, whose rows raise when they are asked for."""

    columns, dtypes = ["age", "sex"], ["Int64", "String"]
    __arrow_c_stream__ = __getitem__ = __iter__ = __len__ = refusing


def test_no_cell_of_a_table_is_touched():
    frame = pd.DataFrame({"age": pd.Series(Untouchable(), copy=False)}, copy=False)
    with pytest.raises(AssertionError, match="touched"):
        frame["age"].iloc[0]
    assert pel.Schema.draft(frame).left == ["age (both bounds)"]
    assert pel.Schema.draft(Stream()).left == ["age (both bounds)", "sex (its values)"]


def test_no_bytes_but_the_footer_of_a_file_count_and_no_statistics(tmp_path):
    path = tmp_path / "people.parquet"
    days, times = [dt.date(1931, 5, 6)] * 2, [dt.datetime(2021, 1, 2)] * 2
    table = pa.table({"age": [19, 87], "sex": ["canary", "F"], "born": days, "seen": times})
    pq.write_table(table, path, write_statistics=True)
    drafts = [pel.Schema.draft(path)]
    # All rows are overwritten: what is left is the footer.
    content = bytearray(path.read_bytes())
    start, end = 4, len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    content[start:end] = b"\xff" * (end - start)
    path.write_bytes(bytes(content))
    drafts.append(pel.Schema.draft(path))
    for draft in drafts:
        assert not any(cell in draft.text for cell in ("19", "87", "canary", "1931", "2021"))
        assert list(draft.entries) == ["age", "sex", "born", "seen"]
        assert draft.entries["born"]["date"] == draft.entries["seen"]["datetime"] == ["to be declared"] * 2


def test_categories_of_a_table_are_cells_too():
    frame = pd.DataFrame({"ward": pd.Categorical(["canary", "B"])})
    assert "canary" not in pel.Schema.draft(frame).text


@pytest.mark.parametrize(
    ("source", "left"),
    [
        (["age", "sex"], ["age (what it is)", "sex (what it is)"]),
        ({"age": int, "sex": str, "on": bool}, ["age (both bounds)", "sex (its values)"]),
        ({"age": "int64", "pay": np.dtype("float32")}, ["age (both bounds)", "pay (both bounds)"]),
        ({"age": np.array([19.0, 87.0]), "sex": ["canary"]}, ["age (both bounds)", "sex (what it is)"]),
        (pa.schema([("age", pa.int8()), ("sex", pa.large_string())]), ["age (both bounds)", "sex (its values)"]),
        (pa.schema([("sex", pa.dictionary(pa.int32(), pa.string()))]), ["sex (its values)"]),
        (pa.table({"age": [1.5]}), ["age (both bounds)"]),
    ],
)
def test_sources(source, left):
    draft = pel.Schema.draft(source)
    assert draft.left == left and "canary" not in draft.text and "19" not in draft.text


def test_polars():
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"age": [19], "sex": ["canary"], "born": [dt.date(1931, 5, 6)], "on": [True]})
    draft = pel.Schema.draft(frame)
    assert draft.left == ["age (both bounds)", "sex (its values)", "born (both bounds)"] and "canary" not in draft.text


def test_a_csv_file_is_read_as_far_as_its_first_line(tmp_path):
    (tmp_path / "people.csv").write_bytes(b'age,"first, last"\n' + b"\xff\xfe\x00 not text\n")
    assert list(pel.Schema.draft(tmp_path / "people.csv").entries) == ["age", "first, last"]


def test_an_unfinished_draft_is_refused_and_names_what_is_left(tmp_path):
    path = tmp_path / "schema.yaml"
    pel.Schema.draft({"age": int, "pay": float, "sex": str, "on": bool, "no": "object"}).save(path)
    with pytest.raises(pel.SchemaError, match=r"unfinished.*age \(both bounds\), pay \(both bounds\), sex \(its values\), no \("):
        pel.Schema.load(path)
    text = path.read_text()
    half = text.replace("number: [to be declared, to be declared]", "number: [17, to be declared]", 1)
    path.write_text(half)
    with pytest.raises(pel.SchemaError, match=r"age \(upper bound\)"):
        pel.Schema.load(path)
    done = half.replace("[17, to be declared]", "[17, 90]").replace("[to be declared, to be declared]", "[0, 1000000]")
    done = done.replace("category: to be declared", "category: [F, M]").replace("to be declared", "{category: [a]}")
    path.write_text("\n".join(line for line in done.splitlines() if not line.startswith("#")))
    schema = pel.Schema.load(path)
    assert list(schema) == ["age", "pay", "sex", "on", "no"] and schema["age"].integer and schema["age"].lo == 17


def test_many_open_columns_are_not_all_named(tmp_path):
    pel.Schema.draft([f"c{i}" for i in range(500)]).save(tmp_path / "schema.yaml")
    with pytest.raises(pel.SchemaError, match="and 488 more"):
        pel.Schema.load(tmp_path / "schema.yaml")


@pytest.mark.parametrize("source", ["nothing.parquet", 3, np.zeros((2, 2)), [], {}])
def test_what_cannot_be_drafted(source):
    with pytest.raises(pel.SchemaError):
        pel.Schema.draft(source)
