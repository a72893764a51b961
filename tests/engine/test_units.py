"""Whose row is whose: ids are compared exactly, in the type they have, and a row without one is nobody's."""

import decimal
import itertools

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pellucid as pel
from pellucid.engine import LocalEngine
from pellucid.engine.ids import labels_of_ids
from pellucid.engine.units import people_of
from pellucid.mechanisms.labels import Labels
from pellucid.query import Sum
from pellucid.query.bounds import Box

SCHEMA = pel.Schema({"age": pel.Number(0, 10)})
UNIT = pel.Unit("id", max_rows=1000)
MEAN = Sum(lambda rows: rows["age"][:, None], Box(1, 0, 10, count=True), columns=("age",))
BLANK = " \t\n\r\x0b\x0c"


def engine_of(data, unit=UNIT):
    return LocalEngine(data, SCHEMA, "add-remove", unit)


def table(ids, ages=None):
    return pa.table({"age": np.full(len(ids), 5.0) if ages is None else ages, "id": ids})


def numbered(labelled):
    """Whose every row is, by comparing labels: people by number, in the order in which they are met; -1 for nobody's."""
    known = {}
    return [
        known.setdefault(tuple(label), len(known)) if named else -1
        for labels, some in labelled
        for label, named in zip(labels.tolist(), some.tolist())
    ]


def person_of(engine):
    """Whose every row of an engine's table is."""
    batches = engine.table.batches([engine.unit.column], 3)
    found = numbered(labels_of_ids(Labels(bytes(32)), batch[engine.unit.column]) for batch in batches)
    assert engine.people.count == len(set(found) - {-1}) and engine.people.without == found.count(-1)
    return found


def by_equality(ids):
    """Whose every row is, by comparing Python values one by one; -1 for nobody's."""
    known = []
    person = []
    for one in ids:
        nobody = one is None or (
            isinstance(one, str | bytes) and not one.strip(BLANK if isinstance(one, str) else BLANK.encode())
        )
        if not nobody and not any(one == other for other in known):
            known.append(one)
        person.append(-1 if nobody else next(i for i, other in enumerate(known) if one == other))
    return person


@pytest.mark.parametrize("start", [10**18, 10**15 * 9, -(10**18)])
def test_a_row_without_an_id_merges_nobody(start):
    """With the ids as floats, one empty cell made 1,000 people 10."""
    ids = [start + i for i in range(1000)]
    plain, with_a_gap = table(pa.array(ids)), table(pa.array([*ids, None]))
    assert engine_of(plain).units == engine_of(with_a_gap).units == 1000
    assert engine_of(plain).totals(MEAN) == engine_of(with_a_gap).totals(MEAN)


INTEGERS = st.one_of(st.integers(-3, 3), st.integers(10**18, 10**18 + 3), st.integers(2**53 - 1, 2**53 + 2))
TEXTS = st.one_of(
    st.sampled_from(["", " ", "1", "01", " 1", "1 ", "1.0", "É", "E\u0301", "\t", "\u00a0", "a\0"]), st.text(max_size=2)
)
COLUMNS = st.one_of(
    st.tuples(st.just(pa.int64()), st.lists(st.none() | INTEGERS, max_size=12)),
    st.tuples(st.just(pa.uint64()), st.lists(st.none() | st.integers(2**64 - 4, 2**64 - 1), max_size=12)),
    st.tuples(st.just(pa.int8()), st.lists(st.none() | st.integers(-2, 2), max_size=12)),
    st.tuples(st.just(pa.bool_()), st.lists(st.none() | st.booleans(), max_size=6)),
    st.tuples(st.just(pa.decimal128(22, 1)), st.lists(st.none() | INTEGERS.map(lambda i: decimal.Decimal(i) / 2), max_size=12)),
    st.tuples(st.just(pa.decimal32(3, 0)), st.lists(st.none() | st.integers(-2, 2).map(decimal.Decimal), max_size=12)),
    st.tuples(st.just(pa.null()), st.lists(st.none(), max_size=4)),
    st.tuples(
        st.sampled_from([pa.string(), pa.large_string(), pa.string_view()]),
        st.lists(st.none() | TEXTS, max_size=12),
    ),
)


def chunks_of(kind, cells, cuts, dictionary):
    """The cells in pieces, each with a dictionary of its own where one is asked for."""
    edges = [0, *sorted(min(cut, len(cells)) for cut in cuts), len(cells)]
    pieces = [pa.array(cells[a:b], kind) for a, b in itertools.pairwise(edges)]
    encodes = kind not in (pa.null(), pa.decimal32(3, 0), pa.string_view())
    return [piece.dictionary_encode() for piece in pieces] if dictionary and encodes else pieces


@given(COLUMNS, st.lists(st.integers(0, 12), max_size=3), st.booleans())
def test_people_are_those_of_comparing_values(column, cuts, dictionary):
    kind, cells = column
    pieces = chunks_of(kind, cells, cuts, dictionary)
    wanted = by_equality(cells)
    for ids in (pieces, [pa.chunked_array(pieces)], iter(pieces)):
        ids = list(ids)
        people = people_of(ids, len(cells), 1000)
        assert numbered(labels_of_ids(Labels(bytes(32)), piece) for piece in ids) == wanted
        assert people.count == len(set(wanted) - {-1})
        assert [parts == 0 for parts in people.parts] == [person < 0 for person in wanted]


@given(COLUMNS.filter(lambda column: len(column[1])), st.integers(0, 12), st.booleans(), st.data())
def test_a_row_without_an_id_changes_no_total_of_anybody(column, place, dictionary, data):
    kind, cells = column
    nobody = data.draw(st.sampled_from([None, "", " ", "\t "] if kind in (pa.string(), pa.large_string()) else [None]))
    ages = [float(i % 11) for i in range(len(cells))]
    place = min(place, len(cells))
    longer = [*cells[:place], nobody, *cells[place:]]
    before = engine_of(table(pa.chunked_array(chunks_of(kind, cells, [], dictionary)), ages))
    after = engine_of(table(pa.chunked_array(chunks_of(kind, longer, [place], dictionary)), [*ages[:place], 10.0, *ages[place:]]))
    assert before.units == after.units and before.totals(MEAN) == after.totals(MEAN)


@pytest.mark.parametrize(
    "ids",
    [
        np.array([1.0, 2.0]),
        np.array([1.0, np.nan]),
        np.array([1, 2], dtype=np.float32),
        pd.Series([1, None]),
        pd.Series([1.5, None], dtype="Float64"),
        pd.Series([1.0, 2.0]).astype("category"),
        pa.array([1, 2], pa.float16()),
        pa.array([1.0, None]).dictionary_encode(),
    ],
)
def test_floats_are_no_ids(ids):
    """They cannot tell long ids apart. The type alone is refused: no cell is looked at."""
    with pytest.raises(pel.DataError, match=r"the id column 'id' holds .*; read it as whole numbers or text .*'Int64'") as caught:
        engine_of({"age": np.zeros(2), "id": ids})
    assert caught.value.__cause__ is None and caught.value.__context__ is None
    with pytest.raises(pel.DataError):
        engine_of({"age": np.zeros(0), "id": ids[:0]})


def test_floats_on_a_file_are_no_ids(tmp_path):
    pd.DataFrame({"age": [1.0, 2.0], "id": [1, None]}).to_parquet(tmp_path / "people.parquet")
    with pytest.raises(pel.DataError, match="holds double"):
        engine_of(tmp_path / "people.parquet")
    pd.DataFrame({"age": [1.0, 2.0], "id": pd.array([10**18, None], "Int64")}).to_parquet(tmp_path / "people.parquet")
    assert engine_of(tmp_path / "people.parquet").units == 1


@pytest.mark.parametrize(
    ("ids", "person"),
    [
        (pd.Series([10**18, None, 10**18 + 1, 10**18], dtype="Int64"), [0, -1, 1, 0]),
        (pd.Series([2**64 - 1, 2**64 - 2, 2**64 - 1], dtype="uint64"), [0, 1, 0]),
        (pd.Series([10**18, None, 10**18 + 1, 10**18], dtype=object), [0, -1, 1, 0]),
        ([10**30, None, 10**30 + 1, 10**30, float("nan")], [0, -1, 1, 0, -1]),
        (pd.Series(["1", "01", " 1", "1", "", None, "  "]), [0, 1, 2, 0, -1, -1, -1]),
        (pd.Series(["b", "a", None, "b"]).astype("category"), [0, 1, -1, 0]),
        (pd.Series([7, 8, 7]).astype("category"), [0, 1, 0]),
        (pl.Series(["x", None, "", "x"]), [0, -1, -1, 0]),
        (pl.Series(["x", None, "y", "x"], dtype=pl.Categorical), [0, -1, 1, 0]),
        (np.ma.masked_array([10**18, 0, 10**18 + 1], mask=[False, True, False]), [0, -1, 1]),
        (np.array(["a", "", "a"]), [0, -1, 0]),
        # Cells without a type: the same number read twice, in parts of a file of which only one had gaps, is one person.
        ([1, 1.0, "1", np.int32(1), np.float64(1)], [0, 0, 0, 0, 0]),
        # What a float above 2^53 was before nobody knows.
        ([float(2**53), 1.5, float("inf"), -0.0, 0], [-1, -1, -1, 0, 0]),
        (["\ud800", "\ud801", "?", "\ud800"], [0, 1, 2, 0]),
        ([True, 1, b"x", ("x",), object], [0, 1, 2, 3, 4]),
    ],
    ids=lambda v: type(v).__name__,
)
def test_ids_of_every_library(ids, person):
    data = {"age": np.zeros(len(ids)), "id": ids}
    if isinstance(ids, pl.Series):
        data = pl.DataFrame({"age": np.zeros(len(ids)), "id": ids})
    assert person_of(engine_of(data)) == person


@given(st.lists(st.none() | st.integers(-(10**30), 10**30) | TEXTS, max_size=8))
def test_cells_without_a_type_are_compared_as_text(cells):
    data = {"age": np.zeros(len(cells)), "id": pd.Series(cells, dtype=object)}
    wanted = by_equality([None if cell is None else str(cell) for cell in cells])
    assert person_of(engine_of(data)) == wanted


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view(), "dictionary"])
def test_bytes_that_are_not_text_are_ids_of_their_own(kind):
    raw = [b"\xff\xfe", b"3", b"\xff", None, b"\xff\xfe", b"\xff\xfe\xff and more than twelve bytes", b" "]
    if kind == "dictionary":
        known = pa.array([cell for cell in dict.fromkeys(raw) if cell is not None])
        levels = pa.Array.from_buffers(pa.string(), len(known), known.buffers())
        place = {cell: i for i, cell in enumerate(known.to_pylist())}
        ids = pa.DictionaryArray.from_arrays(pa.array([place.get(cell) for cell in raw]), levels)
    else:
        binary = pa.array(raw, {pa.string(): pa.binary(), pa.large_string(): pa.large_binary()}.get(kind, pa.binary_view()))
        ids = pa.Array.from_buffers(kind, len(binary), binary.buffers())
    assert person_of(engine_of(table(ids))) == [0, 1, 2, -1, 0, 3, -1]


def test_a_dictionary_may_hold_a_value_twice_or_none():
    levels = pa.array(["a", "a", None, "", "b"])
    ids = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 3, 4, None], pa.int8()), levels)
    assert person_of(engine_of(table(ids))) == [0, 0, -1, -1, 1, -1]


def test_whoever_has_no_id_at_all_is_nobody():
    for ids in (pa.nulls(3), pa.array(["", None, " "]), pa.nulls(3, pa.int64())):
        engine = engine_of(table(ids))
        assert engine.units == 0 and engine.totals(MEAN) == [0, 0]
    with pytest.raises(pel.DataError, match="no row has an id"):
        pel.Session(table(pa.nulls(3)), SCHEMA, budget=pel.Budget(epsilon=1.0), unit=UNIT)
