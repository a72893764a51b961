"""Ids as labels: equal exactly where ids are, whatever the type, the cuts and the dictionaries of a column."""

import decimal

import numpy as np
import pyarrow as pa
import pytest

from pellucid.engine.ids import labels_of_ids
from pellucid.mechanisms.labels import Labels

LABELS = Labels(bytes(range(32)))
TEXTS = ["1", "01", " 1", "", None, "É", "E\u0301", "  ", "1", "a\0", "a"]
BYTES = [b"\xff\xfe", b"\xff", None, b" \t", b"\xff\xfe"]
BIG = [decimal.Decimal(10) ** 37 + i for i in range(3)]


def ways(kind, cells):
    """The same column, cut and encoded in other ways."""
    whole = pa.array(cells, kind)
    yield whole
    yield pa.chunked_array([whole.slice(0, 2), whole.slice(2, 0), whole.slice(2)])
    yield pa.concat_arrays([pa.array(cells[-1:], kind), whole]).slice(1)
    if kind not in (pa.string_view(), pa.binary_view(), pa.decimal32(5, 0), pa.decimal64(5, 0)):
        yield whole.dictionary_encode()
        yield pa.chunked_array([whole.slice(0, 3).dictionary_encode(), whole.slice(3).dictionary_encode()])
        levels = pa.concat_arrays([whole, whole])
        places = [len(cells) + i if i % 2 else i for i in range(len(cells))]
        yield pa.DictionaryArray.from_arrays(pa.array(places, pa.int16()), levels)


@pytest.mark.parametrize(
    ("kind", "cells"),
    [
        *((kind, [1, 2, None, 1, 0, 100]) for kind in (pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32())),
        (pa.int64(), [10**18, 10**18 + 1, None, -1, 10**18]),
        (pa.uint64(), [2**64 - 1, 2**64 - 2, None, 0, 2**64 - 1]),
        (pa.bool_(), [True, False, None, True]),
        *((kind, TEXTS) for kind in (pa.string(), pa.large_string(), pa.string_view())),
        *(
            (kind, [b"\xff\xfe", b"\xff", None, b" \t", b"\xff\xfe"])
            for kind in (pa.binary(), pa.large_binary(), pa.binary_view())
        ),
        (pa.decimal32(5, 0), [decimal.Decimal(v) for v in (1, 2, 1)]),
        (pa.decimal64(5, 0), [decimal.Decimal(v) for v in (1, 2, 1)]),
        (pa.decimal128(38, 0), [*BIG, None, BIG[1], -BIG[0], decimal.Decimal(5)]),
        (pa.decimal128(22, 1), [decimal.Decimal(v) / 2 for v in (1, 2, 3, 2, -1)]),
        (pa.decimal256(60, 0), [*BIG, None, BIG[1]]),
        (pa.null(), [None, None]),
    ],
    ids=str,
)
def test_one_label_for_one_id(kind, cells):
    wanted = [None if c is None or (isinstance(c, str | bytes) and not c.strip()) else c for c in cells]
    first = None
    for column in ways(kind, cells):
        found, named = labels_of_ids(LABELS, column)
        assert named.tolist() == [cell is not None for cell in wanted] and found.shape == (len(cells), 2)
        assert (found[~named] == 0).all()
        known = {}
        for cell, label in zip(wanted, map(tuple, found.tolist())):
            assert cell is None or known.setdefault(cell, label) == label
        assert len(set(known.values())) == len(known)
        first = found if first is None else first
        assert np.array_equal(first, found)


def test_a_number_is_one_person_in_every_type():
    every = [pa.array([7], kind) for kind in (pa.int8(), pa.uint8(), pa.int32(), pa.int64(), pa.uint64())]
    every += [pa.array([decimal.Decimal(7)], kind) for kind in (pa.decimal32(5, 0), pa.decimal128(20, 0), pa.decimal128(22, 1))]
    assert len({tuple(labels_of_ids(LABELS, ids)[0][0].tolist()) for ids in every}) == 1
    large = [pa.array([2**64 - 1], pa.uint64()), pa.array([decimal.Decimal(2**64 - 1)], pa.decimal128(20, 0))]
    assert len({tuple(labels_of_ids(LABELS, ids)[0][0].tolist()) for ids in large}) == 1
    assert tuple(labels_of_ids(LABELS, pa.array([-1]))[0][0].tolist()) != tuple(labels_of_ids(LABELS, large[0])[0][0].tolist())


def test_ids_and_rows_have_labels_of_their_own():
    assert (labels_of_ids(LABELS, pa.array([3]))[0] != LABELS.of_rows(3, 4)).any()


def test_an_empty_column():
    for column in (pa.array([], pa.int64()), pa.chunked_array([], pa.string()), pa.array([], pa.string()).dictionary_encode()):
        found, named = labels_of_ids(LABELS, column)
        assert found.shape == (0, 2) and named.shape == (0,)


def test_floats_are_no_ids():
    with pytest.raises(TypeError):
        labels_of_ids(LABELS, pa.array([1.0]))
    with pytest.raises(TypeError):
        labels_of_ids(LABELS, pa.array([1.0]).dictionary_encode())
