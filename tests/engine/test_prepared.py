"""Prepared records: read once where they fit, the engine's integers, and nothing to be seen of them."""

import copy
import pickle

import cloudpickle
import numpy as np
import pandas as pd
import pytest

import pellucid as pel
from pellucid.engine import LocalEngine, Prepared, prepared
from pellucid.query import Joint, Pairs, Sum
from pellucid.query.bounds import Ball, Box

SCHEMA = pel.Schema({"a": pel.Number(-1, 1), "b": pel.Number(0, 8, integer=True)})


def table(rows=500):
    rng = np.random.default_rng(3)
    return pd.DataFrame({"a": rng.normal(size=rows), "b": rng.integers(0, 9, rows), "id": rng.integers(0, 90, rows)})


class Reader:
    """Coordinates and an answer for every record; counts what it has seen."""

    def __init__(self):
        self.seen = 0

    def __call__(self, rows):
        self.seen += len(rows)
        return np.stack([rows["a"], rows["b"] / 8], axis=1), rows["a"] * rows["b"]


class Weighted:
    """A map in both forms: of rows, and of what a reader has made of them."""

    def __init__(self, weight):
        self.weight = weight

    def __call__(self, rows):
        return self.of(*Reader()(rows))

    def of(self, x, f):
        return self.weight * x * f[:, None]


def asked(weight=1.0, bound=None):
    return Sum(Weighted(weight), bound or Box(2, -1, 1), columns=("a", "b"))


def made(data=None, unit=None, **options):
    engine = LocalEngine(table() if data is None else data, SCHEMA, "add-remove", unit or pel.Unit(), **options)
    reader = Reader()
    return Prepared(engine, reader, ("a", "b"), 3), engine, reader


@pytest.mark.parametrize("unit", [None, pel.Unit("id", max_rows=4)])
@pytest.mark.parametrize("held", [True, False])
def test_totals_are_the_engines(unit, held, tmp_path, monkeypatch):
    if not held:
        monkeypatch.setattr(prepared, "MOST_HELD", 100)
    table().to_parquet(tmp_path / "people.parquet")
    for data in (table(), table().iloc[:0], tmp_path / "people.parquet"):
        ready, engine, _ = made(data, unit, batch_rows=60)
        for query in (asked(), asked(0.5), asked(2.0, Ball(2, 1.0)), Joint([asked(), asked(3.0)])):
            assert ready.totals(query) == engine.totals(query)
        assert ready.rows == engine.rows


def test_records_are_read_once_where_they_fit():
    ready, _, reader = made(batch_rows=60)
    for weight in range(4):
        ready.totals(asked(weight))
    assert reader.seen == 500


def test_a_larger_table_is_read_again_for_every_question(monkeypatch):
    ready, _, reader = made(batch_rows=60)
    monkeypatch.setattr(prepared, "MOST_HELD", 500 * 3 - 1)
    for weight in range(4):
        ready.totals(asked(weight))
    assert reader.seen == 4 * 500
    monkeypatch.setattr(prepared, "MOST_HELD", 500 * 3)
    for weight in range(4):
        ready.totals(asked(weight))
    assert reader.seen == 5 * 500


def test_batches_are_the_readers_arrays_and_parts():
    ready, engine, _ = made(unit=pel.Unit("id", max_rows=2), batch_rows=60)
    for _ in range(2):
        x, f, parts = (np.concatenate(arrays) for arrays in zip(*ready.batches()))
        rows = np.concatenate([batch["a"] for batch in engine.batches(("a",))])
        np.testing.assert_array_equal(x[:, 0], rows)
        np.testing.assert_array_equal(parts, engine.people.parts)
        assert len(f) == 500
    assert all(parts is None for *_, parts in made()[0].batches())


def test_a_table_that_changed_is_refused_although_it_is_held(tmp_path):
    table().to_parquet(tmp_path / "people.parquet")
    ready, _, reader = made(tmp_path / "people.parquet")
    ready.totals(asked())
    table().iloc[:100].to_parquet(tmp_path / "people.parquet")
    with pytest.raises(pel.ReleaseFailed, match="changed"):
        ready.totals(asked())
    assert reader.seen == 500


def test_half_a_table_is_not_held():
    ready, _, reader = made(batch_rows=60)

    def stops(rows, read=Reader.__call__):
        if reader.seen > 200:
            raise KeyboardInterrupt
        return read(reader, rows)

    ready._reader = stops
    with pytest.raises(KeyboardInterrupt):
        ready.totals(asked())
    ready._reader = reader
    assert ready.totals(asked()) == made()[1].totals(asked())


def test_other_sums_are_refused():
    ready, _, reader = made()
    for query in (
        Sum(lambda rows: rows["a"][:, None], Box(1, -1, 1), columns=("a",)),
        Sum(Weighted(1.0), Box(2, -1, 1), over=Pairs(), columns=("a", "b")),
    ):
        with pytest.raises(AssertionError, match="sums over records"):
            ready.totals(query)
    assert reader.seen == 0


def test_nothing_of_them_is_shown_or_saved():
    ready, _, _ = made()
    ready.totals(asked())
    assert repr(ready) == str(ready) == "Prepared()" and not hasattr(ready, "__dict__")
    for save in (pickle.dumps, cloudpickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="not saved"):
            save(ready)
