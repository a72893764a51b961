"""What needs no Spark to be tested: packed integers, packets, numbers of rows, settled trials."""

import numpy as np
import pyarrow as pa
import pytest
from people import make_people, risk
from spark_here import NO_JAVA

import pellucid as pel
from pellucid.engine.spark import ordered, payload
from pellucid.engine.spark.engine import _before
from pellucid.engine.spark.shuffle import Held, Layout, grouped
from pellucid.engine.spark.source import _in_order, _marks_of_all
from pellucid.engine.spark.tasks import FILE, ROW, Changed, Numbering, marks, of_size, packed, unpacked
from pellucid.public import row_wise

pytest.importorskip("pyspark", reason=NO_JAVA)


def test_integers_are_packed_exactly():
    numbers = [0, -1, 1 << 90, -(1 << 150), 7]
    assert unpacked(packed(numbers)) == numbers
    with pytest.raises(OverflowError):
        packed([1 << 200])


def test_marks_tell_sets_of_rows_apart():
    rows = np.arange(1000)
    whole = _marks_of_all(1000, 5)
    assert marks(rows, 5) == whole == (marks(rows[:300], 5) + marks(rows[300:], 5)) % (1 << 64)
    for other in (rows[1:], np.r_[rows, 7], np.r_[rows[1:], 1], np.r_[rows[2:], 0, 2]):
        assert marks(other, 5) != whole


def test_rows_have_numbers_by_file_and_place():
    numbering = Numbering(np.array([-7, 3]), np.array([10, 0]), np.array([2, 10]), 1)

    def batch(files, places):
        return pa.record_batch({FILE: pa.array(files, pa.int64()), ROW: pa.array(places, pa.int64())})

    assert numbering.of(batch([3, -7, 3], [9, 1, 0])).tolist() == [9, 11, 0]
    for files, places in (([4], [0]), ([3], [10]), ([-7], [-1]), ([3, 3], [0, 10])):
        with pytest.raises(Changed):
            numbering.of(batch(files, places))


def test_files_are_sorted_as_the_local_engine_sorts_them():
    assert sorted(["file:/t/a-b", "file:/t/a/b", "file:/t/a%20c"], key=_in_order) == [
        "file:/t/a/b",
        "file:/t/a%20c",
        "file:/t/a-b",
    ]


def test_packets_hold_rows_exactly():
    rng, layout = np.random.default_rng(0), Layout(("a", "b"), ("b",))
    numbers = rng.permutation(50)
    columns = {"a": rng.normal(size=50), "b": np.where(rng.random(50) < 0.2, np.nan, -0.0)}
    held = Held(
        numbers, rng.integers(0, 1 << 63, (50, 2)).astype(np.uint64), columns, {"b": rng.integers(0, 4, 50).astype(np.uint8)}
    )
    pieces = [layout.pack(held, index) for _, index in grouped(np.arange(50) % 7)]
    found, order = layout.unpack(pieces), np.argsort(numbers)
    assert found.numbers.tolist() == list(range(50)) and (found.labels == held.labels[order]).all()
    assert all(found.columns[name].tobytes() == columns[name][order].tobytes() for name in columns)
    assert (found.conditions["b"] == held.conditions["b"][order]).all()


def test_every_block_is_in_one_bucket():
    for blocks in (1, 5, 16, 200):
        for tasks in {1, min(3, blocks), min(16, blocks)}:
            listed = [b for bucket in range(tasks) for b in range(*ordered._blocks_of(bucket, blocks, tasks))]
            assert listed == list(range(blocks))
            assert all(b * tasks // blocks == k for k in range(tasks) for b in range(*ordered._blocks_of(k, blocks, tasks)))


def test_guests_come_from_the_next_bucket_that_has_somebody():
    assert _before(np.array([3, 0, 2, 1, 0])).tolist() == [3, -1, 0, 2, -1]
    assert _before(np.array([0, 5, 0])).tolist() == [-1, -1, -1]
    assert _before(np.array([3, 0, 2, 1, 0]), cyclic=False).tolist() == [-1, -1, 0, 2, -1]


def test_small_batches_are_joined():
    sizes = [3, 0, 10, 1, 1]
    batches = [pa.record_batch({"x": np.arange(size) + sum(sizes[:i])}) for i, size in enumerate(sizes)]
    tables = list(of_size(batches, 4))
    assert [len(table) for table in tables] == [4, 4, 4, 3] and pa.concat_tables(tables)["x"].to_pylist() == list(range(15))


def test_a_model_travels_with_its_trial(schema, monkeypatch):
    model = pel.Model(risk, output=(0, 1), features=list(schema), trained_on="other data")
    session = pel.Session(make_people(100), schema, budget=pel.Budget(epsilon=1))
    session.plan(pel.PartialDependence(model, "age"), epsilon=0.1)
    content = payload.pickled((schema, model, session._engine.asking), schema, session._engine.asking)
    monkeypatch.setattr(row_wise, "_trial", lambda *_: pytest.fail("tried again"))
    there, box, asking = payload.unpickled(content)
    assert box is not model and box.ready(there, asking).fingerprint == model.ready(schema).fingerprint
