"""Texts are read once for each of them, however they are stored, and as they would be cell by cell."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pellucid as pel
from pellucid.engine import LocalEngine, decode
from pellucid.engine.decode import conditions
from pellucid.engine.tables import open_table

SEX = pel.Category(["F", "M", "X", "3"], missing="X", unknown="M")
AGE = pel.Number(0, 10, integer=True, missing=7)
CELLS = ["F", "M", "X", "f", "", " ", "3", "3.0", "nan", "NaN", "7.4", "-1", "1e9", "eleven", "True", "ünï", None]


def one_by_one(feature, cells):
    """What every cell is read as when it is alone: position or number, and condition."""
    alone = [pa.array([cell], pa.string()) for cell in cells]
    values = [decode.decode(feature, cell)[0] for cell in alone]
    return values, [conditions(feature, cell)[0] for cell in alone]


def stored(cells):
    """The same cells in every way in which a table can hold texts."""
    text = pa.array(cells, pa.string())
    long = text.dictionary_encode()
    levels = pa.array([None, *sorted({cell for cell in cells if cell is not None}), *(f"not here {i}" for i in range(40))])
    codes = [0 if cell is None else levels.to_pylist().index(cell) for cell in cells]
    yield "string", text
    yield "large_string", text.cast(pa.large_string())
    yield "dictionary", long
    for kind in (pa.int8(), pa.uint8(), pa.uint64(), pa.int64()):
        made = pa.DictionaryArray.from_arrays(pa.array(codes, kind), levels)
        yield f"a longer dictionary with an empty level, {kind}", made
    gone = pa.DictionaryArray.from_arrays(pa.array([c or None for c in codes], pa.int16()), levels)
    yield "a longer dictionary and empty cells", gone
    yield "a slice", pa.concat_arrays([text[:1], text, text[:2]]).dictionary_encode()[1 : 1 + len(cells)]
    half = len(cells) // 2
    yield "chunks", pa.chunked_array([text[:half], text[half:], text[:0]], pa.string())
    yield "chunks of dictionaries", pa.chunked_array([text[:half].dictionary_encode(), text[half:].dictionary_encode()])


@pytest.mark.parametrize("feature", [SEX, AGE], ids=["category", "number"])
@given(st.lists(st.sampled_from(CELLS), min_size=2, max_size=30))
def test_however_it_is_stored(feature, cells):
    values, states = one_by_one(feature, cells)
    for how, column in stored(cells):
        assert decode.decode(feature, column).tolist() == values, how
        assert conditions(feature, column).tolist() == states, how


def every_batch(data, size, schema):
    engine = LocalEngine(data, schema, "replace", pel.Unit(), batch_rows=size)
    return [
        (len(rows), {n: (rows[n].tolist(), rows.conditions[n].tolist()) for n in schema})
        for rows in engine.batches(*[list(schema)] * 2)
    ]


def test_every_table_of_texts_gives_the_same_batches(tmp_path):
    """In memory, as objects, as categories, in Parquet with dictionaries of every length: the same rows, as many at a time."""
    rng = np.random.default_rng(5)
    schema = pel.Schema({"sex": SEX, "age": AGE})
    columns = {name: [CELLS[i] for i in rng.integers(0, len(CELLS), 1000)] for name in schema}
    arrow = pa.table({name: pa.array(cells, pa.string()) for name, cells in columns.items()})
    objects = pd.DataFrame({name: pd.Series(cells, dtype=object) for name, cells in columns.items()})
    wanted = every_batch(objects, 300, schema)
    assert [rows for rows, _ in wanted] == [300, 300, 300, 100]
    for table in (arrow, pa.concat_tables([arrow[:7], arrow[7:500], arrow[500:]]), objects.astype("category"), columns):
        assert every_batch(table, 300, schema) == wanted
    for number, options in enumerate(({}, {"row_group_size": 70}, {"row_group_size": 450}, {"use_dictionary": False})):
        pq.write_table(arrow, tmp_path / f"{number}.parquet", **options)
        assert every_batch(tmp_path / f"{number}.parquet", 300, schema) == wanted, options
    # Dictionaries that grow too long within a group of rows go on as plain texts.
    distinct = pa.table({"sex": [f"{cell} {i}" for i, cell in enumerate(columns["sex"])], "age": columns["age"]})
    pq.write_table(distinct, tmp_path / "long.parquet", row_group_size=400, dictionary_pagesize_limit=64, data_page_size=64)
    assert every_batch(tmp_path / "long.parquet", 300, schema) == every_batch(distinct, 300, schema)


def test_a_level_is_read_once_a_batch(monkeypatch):
    read = []
    whole = decode._lookup
    monkeypatch.setattr(decode, "_lookup", lambda *given: read.append(1) or whole(*given))
    schema = pel.Schema({"sex": SEX})
    every_batch({"sex": ["F", "M", None, "?"] * 500}, 1000, schema)
    assert len(read) == 2 * 2 * 3, "two batches, values and conditions, three texts"


def test_ids_stay_as_they_are():
    """People are told apart by what their ids say, and no id is read as anything else."""
    table = open_table({"id": ["a", "b"], "sex": ["F", "M"]}, ["id", "sex"], "id").kept()
    assert pa.types.is_large_string(table.types["id"]) and pa.types.is_dictionary(table.types["sex"])


def test_what_has_no_dictionary_is_read_as_it_is(monkeypatch):
    table = open_table(pa.table({"sex": pa.chunked_array([["F", "M"]], pa.string_view())}))
    assert table.kept().types["sex"] == pa.string_view()
