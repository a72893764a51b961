"""Tables: every kind of source gives the same rows; hostile cells become declared values and never raise."""

import decimal
import os

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pellucid as pel
from pellucid.engine import LocalEngine, kernel
from pellucid.engine.decode import decode
from pellucid.engine.tables import open_table
from pellucid.query import Joint, Sum
from pellucid.query import compiled as fast
from pellucid.query.bounds import Box

AGE = pel.Number(0, 10, integer=True, missing=7)
SEX = pel.Category(["F", "M", "X"], missing="X", unknown="M")

CELLS = st.one_of(
    st.none(),
    st.integers(-(10**30), 10**30),
    st.floats(allow_nan=True),
    st.text(max_size=5),
    st.booleans(),
    st.binary(max_size=3),
    st.just(pd.NA),
    st.just(pd.NaT),
    st.dates(),
    st.decimals(allow_nan=True),
    st.lists(st.integers(), max_size=2),
    st.complex_numbers(),
)


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ([1, 2.6, -5, 99, None, float("nan")], [1, 3, 0, 10, 7, 7]),
        ([float("inf"), float("-inf"), 1e300, -1e300], [10, 0, 10, 0]),
        (["3", " 4 ", "x", "", "1e2", None, "inf"], [3, 4, 7, 7, 10, 7, 10]),
        ([True, False, None], [1, 0, 7]),
        ([decimal.Decimal("2.4"), None], [2, 7]),
        ([1, "two", None, object], [1, 7, 7, 7]),
    ],
)
def test_numbers(cells, expected):
    table = open_table({"age": cells})
    np.testing.assert_array_equal(decode(AGE, next(table.batches(["age"], 100))["age"]), expected)


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["F", "M", "X", "?", None, ""], [0, 1, 2, 1, 2, 1]),
        ([1.5, 2, None], [1, 1, 2]),
        ([b"F", None], [1, 2]),
        ([["F"], None], [1, 2]),
    ],
)
def test_categories(cells, expected):
    column = next(open_table({"sex": cells}).batches(["sex"], 100))["sex"]
    np.testing.assert_array_equal(decode(SEX, column), expected)


@pytest.mark.parametrize("kind", [pa.int8(), pa.float32(), pa.string(), pa.dictionary(pa.int8(), pa.string())])
def test_numeric_categories_match_across_types(kind):
    flag = pel.Category([0, 1, 2])
    column = pa.array(
        ["0", "2", "1", None] if pa.types.is_string(kind) or pa.types.is_dictionary(kind) else [0, 2, 1, None], kind
    )
    np.testing.assert_array_equal(decode(flag, column), [0, 2, 1, 0])


@given(st.lists(CELLS, min_size=1, max_size=12))
def test_no_cell_ever_raises_or_leaves_its_domain(cells):
    schema = pel.Schema({"age": AGE, "sex": SEX})
    for data in (
        {"age": cells, "sex": cells},
        pd.DataFrame({"age": pd.Series(cells, dtype=object), "sex": pd.Series(cells, dtype=object)}),
    ):
        engine = LocalEngine(data, schema, "replace", pel.Unit())
        query = Sum(lambda rows: np.stack([rows["age"] / 10, rows["sex"] / 2], axis=1), Box(2, 0, 1), columns=("age", "sex"))
        assert len(engine.totals(query)) == 2


@given(st.lists(CELLS, min_size=1, max_size=6), CELLS)
def test_a_cell_never_changes_how_another_is_read(cells, new):
    """With a type guessed from the whole column, one odd cell would change everybody's value."""
    for feature in (AGE, SEX, pel.Boolean(), pel.Category([0, 1, 2])):
        read = [decode(feature, next(open_table({"c": c}).batches(["c"], 100))["c"]) for c in (cells, [*cells, new])]
        np.testing.assert_array_equal(read[0], read[1][:-1])


def test_every_source_gives_the_same_totals(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.integers(0, 11, 5000), "sex": rng.choice(["F", "M", "X"], 5000)})
    path, folder = tmp_path / "people.parquet", tmp_path / "parts"
    frame.to_parquet(path, row_group_size=700)
    folder.mkdir()
    for i in range(3):
        frame.iloc[i::3].to_parquet(folder / f"{i}.parquet")
    arrow = pa.Table.from_pandas(frame)
    categorical = frame.assign(sex=frame["sex"].astype("category"))
    sources = [frame, categorical, arrow, pl.from_pandas(frame), dict(frame), path, str(path), folder, arrow.to_reader()]
    schema = pel.Schema({"age": AGE, "sex": SEX})
    query = Sum(lambda rows: np.stack([rows["age"] / 10, np.sin(rows["sex"])], axis=1), Box(2, 0, 1), columns=("age", "sex"))
    totals = [
        LocalEngine(source, schema, "replace", pel.Unit(), batch_rows=size).totals(query)
        for source in sources[:-1]
        for size in (64, 5000)
    ]
    totals.append(LocalEngine(sources[-1], schema, "replace", pel.Unit()).totals(query))
    assert all(t == totals[0] for t in totals)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"age": [1]}, "no column 'sex'"),
        ({"age": [1, 2], "sex": ["F"]}, "differ in length"),
        ({}, "no columns"),
        ("nowhere.parquet", "does not exist"),
        (42, "not supported"),
        ({"age": pd.to_datetime(pd.Series(["2020-01-01"])), "sex": ["F"]}, "convert it"),
        ({"age": np.zeros((2, 2)), "sex": ["F", "M"]}, "one-dimensional"),
        (pd.DataFrame([[1, 2]], columns=["age", "age"]), "two columns"),
    ],
)
def test_unusable_tables_say_the_fix(data, words):
    with pytest.raises(pel.DataError, match=words):
        LocalEngine(data, pel.Schema({"age": AGE, "sex": SEX}), "replace", pel.Unit())


def test_a_broken_parquet_file_says_so_without_quoting(tmp_path):
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(b"PAR1 secret cell PAR1")
    with pytest.raises(pel.DataError, match="cannot be read as Parquet") as caught:
        open_table(broken)
    assert "secret" not in str(caught.value) and caught.value.__cause__ is None


def test_a_file_that_breaks_during_the_run_says_nothing(tmp_path):
    path = tmp_path / "people.parquet"
    pq.write_table(pa.table({"age": np.random.default_rng(0).random(50_000)}), path)
    engine = LocalEngine(path, pel.Schema({"age": AGE}), "replace", pel.Unit())
    content = bytearray(path.read_bytes())
    content[4:400] = b"\xff" * 396
    state = path.stat()
    path.write_bytes(content)
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    with pytest.raises(pel.ReleaseFailed, match="stays spent") as caught:
        engine.totals(Sum(lambda rows: rows["age"][:, None], Box(1, 0, 10), columns=("age",)))
    assert caught.value.__cause__ is None and caught.value.__context__ is None


def test_people_keep_at_most_k_rows_and_count_once():
    rng = np.random.default_rng(0)
    ids = pd.array(rng.integers(0, 50, 2000), "Int64")
    ids[::10] = pd.NA
    ages = rng.integers(0, 11, 2000)
    engine = LocalEngine({"age": ages, "id": ids}, pel.Schema({"age": AGE}), "replace", pel.Unit("id", max_rows=3))
    assert engine.units == 50
    kept = engine.people.parts > 0
    assert kept.sum() == 150 and not kept[ids.isna()].any()
    box = Box(1, 0, 10, count=True)
    total = engine.totals(Sum(lambda rows: rows["age"][:, None], box, columns=("age",)))
    expected = pd.Series(ages[kept]).groupby(ids[kept]).mean().mean()
    assert box.centre + total[0] * box.unit / 50 == pytest.approx(expected, abs=1e-6)
    assert total[1] / 2**30 == pytest.approx(50, abs=1e-6)


def test_pairs_and_blocks_go_by_person():
    ids = np.repeat(np.arange(40), 5)
    schema = pel.Schema({"v": pel.Number(0, 100)})
    from pellucid.query import Blocks, Pairs

    engine = LocalEngine({"v": ids.astype(float), "id": ids}, schema, "add-remove", pel.Unit("id", max_rows=4))
    seen = []

    def pair(rows, donors):
        seen.append((rows["v"], donors["v"]))
        return np.zeros((len(rows), 1))

    engine.totals(Sum(pair, Box(1, 0, 1), over=Pairs(), columns=("v",)))
    own, donor = (np.concatenate(side) for side in zip(*seen))
    assert len(own) == 160 and (own != donor).all()
    assert all(len(set(donor[own == person])) == 1 for person in range(40))
    blocks = []
    engine.totals(Sum(lambda rows: blocks.append(set(rows["v"])) or [0.0], Box(1, 0, 1), over=Blocks(7), columns=("v",)))
    assert len(blocks) == 7 and sum(len(b) for b in blocks) == 40 == len(set().union(*blocks))


def test_types_never_depend_on_cells():
    """Mixed categories, lone surrogates and dictionaries that differ between chunks are read, not refused."""
    schema = pel.Schema({"c": pel.Category(["a", "b", "1"])})
    odd = [
        pd.Series([1, 2, "x"], dtype=object).astype("category"),
        pd.Series(["a", "\ud800"], dtype=object),
        pa.chunked_array([pa.array([f"{i}{j}" for j in range(100)]).dictionary_encode() for i in range(3)]).cast(
            pa.dictionary(pa.int8(), pa.string())
        ),
    ]
    for column in odd:
        data = pa.table({"c": column}) if isinstance(column, pa.ChunkedArray) else {"c": column}
        engine = LocalEngine(data, schema, "replace", pel.Unit())
        assert len(engine.totals(Sum(lambda rows: rows["c"][:, None] / 2, Box(1, 0, 1), columns=("c",)))) == 1


def test_columns_that_are_not_declared_are_not_looked_at():
    data = {"age": [1, 2], "photo": [object(), 3], "when": pd.to_datetime(pd.Series(["2020-01-01", None]))}
    assert LocalEngine(data, pel.Schema({"age": AGE}), "replace", pel.Unit()).units == 2


def test_a_table_that_changes_under_an_open_session_is_refused(tmp_path):
    path = tmp_path / "people.parquet"
    pd.DataFrame({"age": [1.0] * 100, "id": range(100)}).to_parquet(path)
    engine = LocalEngine(path, pel.Schema({"age": AGE}), "replace", pel.Unit("id"))
    query = Sum(lambda rows: rows["age"][:, None], Box(1, 0, 10), columns=("age",))
    engine.totals(query)
    pd.DataFrame({"age": [9.0] * 100, "id": [7] * 100}).to_parquet(path)
    with pytest.raises(pel.ReleaseFailed, match="changed"):
        engine.totals(query)
    ages = np.ones(100)
    engine = LocalEngine({"age": ages, "id": np.arange(100)}, pel.Schema({"age": AGE}), "replace", pel.Unit("id"))
    before = engine.totals(query)
    ages[:] = 9
    assert engine.totals(query) == before, "a table in memory is the session's own copy"


def test_what_is_hidden_in_a_folder_is_not_data(tmp_path):
    """Programs that write folders of files leave half-written and helping files beside them, under such names."""
    folder = tmp_path / "_study" / "people.parquet"
    for name in ("a", ".b", "_c", "d/e", "d/.f", "d/_g", ".h/i", "_temporary/0/j", "k/_l/m/n"):
        path = folder / f"{name}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pd.DataFrame({"age": [1.0]}).to_parquet(path)
    (folder / "d" / "o.parquet").mkdir()
    (folder / "_SUCCESS").touch()
    table = open_table(folder)
    assert [str(path.relative_to(folder)) for path in table.paths] == ["a.parquet", "d/e.parquet"] and table.rows == 2
    assert open_table(folder / "_c.parquet").rows == 1, "a file that is named is meant"
    with pytest.raises(pel.DataError, match=r"holds no \.parquet file"):
        open_table(folder / ".h" / ".." / "_temporary" / ".." / "k")


def test_a_file_is_known_by_the_time_that_nobody_can_set(tmp_path):
    """Opened just after it was written, changed just after it was opened, and made to look as old and as long as before."""
    path = tmp_path / "people.parquet"
    for _ in range(20):
        pd.DataFrame({"age": np.arange(100.0)}).to_parquet(path)
        table = open_table(path)
        state = path.stat()
        with path.open("r+b") as file:
            file.write(b"PAR1")
        os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
        with pytest.raises(pel.ReleaseFailed, match="changed"):
            table.check_unchanged()


def test_rows_and_row_groups_are_those_of_the_opening(tmp_path):
    path = tmp_path / "people.parquet"
    pd.DataFrame({"age": np.arange(100.0)}).to_parquet(path, row_group_size=10)
    table = open_table(path)
    batches = table.batches(["age"], 10)
    read = [*next(batches)["age"].to_pylist()]
    pd.DataFrame({"age": np.full(500, 7.0)}).to_parquet(tmp_path / "other")
    os.replace(tmp_path / "other", path)
    with pytest.raises(pel.ReleaseFailed, match="changed"):
        for batch in batches:
            read += batch["age"].to_pylist()
    assert read == list(range(100)), "the open file is still the old one"
    with pytest.raises(pel.ReleaseFailed, match="changed"):
        next(table.batches(["age"], 10))


def test_broken_or_mixed_ids_say_the_fix(tmp_path):
    folder = tmp_path / "parts"
    folder.mkdir()
    pd.DataFrame({"age": [1.0], "id": [1]}).to_parquet(folder / "a.parquet")
    pd.DataFrame({"age": [1.0], "id": ["x"]}).to_parquet(folder / "b.parquet")
    with pytest.raises(pel.DataError, match="differ in their columns"):
        LocalEngine(folder, pel.Schema({"age": AGE}), "replace", pel.Unit("id"))


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()])
def test_bytes_that_are_not_text_are_just_unknown(kind):
    """Arrow raises for a whole column when one cell is not UTF-8; here that cell alone is unparsable or unknown."""
    raw = pa.array(
        [b"3", b"\xff\xfe", b"F", None],
        {pa.string(): pa.binary(), pa.large_string(): pa.large_binary()}.get(kind, pa.binary_view()),
    )
    column = pa.Array.from_buffers(kind, len(raw), raw.buffers())
    np.testing.assert_array_equal(decode(AGE, column), [3, 7, 7, 7])
    np.testing.assert_array_equal(decode(SEX, column), [1, 1, 0, 2])
    np.testing.assert_array_equal(decode(SEX, column.dictionary_encode() if kind != pa.string_view() else column), [1, 1, 0, 2])
    engine = LocalEngine(pa.table({"age": [1, 2, 3, 4], "id": column}), pel.Schema({"age": AGE}), "replace", pel.Unit("id"))
    assert engine.units == 3


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.int64()])
@pytest.mark.parametrize(
    "feature",
    [
        pel.Number(-3, 90, integer=True),
        pel.Number(0, 50, missing=float("nan")),
        pel.Category([0, 1, 2, 5], missing=5, unknown=0),
        pel.Category(["1", "2", "x"], missing="x", unknown="2"),
        pel.Category([True, False]),
        pel.Category([10**12, 3]),
    ],
)
def test_integers_decode_alike_however_they_are_stored(kind, feature):
    """Tables of looked-up values are a short cut: cell by cell they say what the plain way says, in long and short columns."""
    rng = np.random.default_rng(1)
    cells = [None if rng.random() < 0.1 else int(v) for v in rng.integers(0, 127, 5000)]
    if kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64()):
        cells = [c if c is None or rng.random() < 0.5 else -c for c in cells]
    wanted = decode(feature, pa.array([None if c is None else str(c) for c in cells]))
    np.testing.assert_array_equal(decode(feature, pa.array(cells, kind)), wanted)
    np.testing.assert_array_equal(decode(feature, pa.array(cells[:100], kind)), wanted[:100])
    full = [0 if c is None else c for c in cells]
    np.testing.assert_array_equal(decode(feature, pa.array(full, kind)), decode(feature, pa.array([str(c) for c in full])))


@pytest.mark.parametrize("kind", [pa.uint8(), pa.uint16(), pa.uint32()])
def test_empty_unsigned_cells_do_not_raise(kind):
    """A null in an unsigned column must not fail on a declared negative code."""
    feature = pel.Category([-1, 0, 1, 2], missing=-1)
    assert decode(feature, pa.array([0, None, 2], kind)).tolist() == [1.0, 0.0, 3.0]


def test_looking_up_compiled_or_not(monkeypatch):
    rng = np.random.default_rng(5)
    table = rng.random(300)
    for kind in (np.uint8, np.int16, np.int64):
        for low in (0, -7):
            values = (rng.integers(0, 120, 9000) + (low if kind is not np.uint8 else 0)).astype(kind)
            quick = fast.look_up(table, values, low)
            with monkeypatch.context() as patch:
                patch.setattr(fast, "taker", lambda: None)
                np.testing.assert_array_equal(fast.look_up(table, values, low), quick)
                assert fast.look_up(table, values + kind(100), 90 + low + 120) is None
            assert fast.look_up(table, values + kind(100), 90 + low + 120) is None


def test_a_file_of_another_kind_is_to_be_converted(tmp_path):
    (tmp_path / "people.xlsx").write_text("age,sex\n30,F\n")
    with pytest.raises(pel.DataError, match=r"only Parquet .* and CSV files .* are read.*read_excel.*to_parquet"):
        open_table(tmp_path / "people.xlsx")


def test_sums_over_records_share_one_pass(monkeypatch):
    """A joint query reads and decodes each column once; maps that name the same columns are given the same rows."""
    decoded, given = [], []
    whole = kernel.decode
    monkeypatch.setattr(kernel, "decode", lambda feature, column: decoded.append(1) or whole(feature, column))
    schema = pel.Schema({name: pel.Number(0, 1) for name in "abc"})
    engine = LocalEngine({name: np.linspace(0, 1, 50) for name in "abc"}, schema, "replace", pel.Unit())

    def of(rows):
        given.append(rows)
        return rows["b"][:, None]

    sums = [Sum(of, Box(1, 0, 1), columns=columns) for columns in (("a", "b"), ("b",), ("b", "c"), ("b",))]
    assert engine.totals(Joint(sums)) == 4 * engine.totals(sums[1])
    assert len(decoded) == 3 + 1
    # Those that name the same are called one after another.
    assert [set(rows.columns) for rows in given[:4]] == [{"a", "b"}, {"b"}, {"b"}, {"b", "c"}] and given[1] is given[2]
