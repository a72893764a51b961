"""Pairs, couples, blocks and rows that stay: as plain loops say, and the same however many buckets there are."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pellucid.engine import orders
from pellucid.mechanisms.labels import Labels


def as_int(label):
    return (int(label[0]) << 64) | int(label[1])


@st.composite
def tables(draw, most=3):
    """The unit of every row, and labels of the units: random ones, or ones that hardly differ."""
    units = draw(st.lists(st.integers(0, 9), min_size=0, max_size=14)) if most > 1 else list(range(draw(st.integers(0, 14))))
    near = draw(st.booleans())
    if near:
        half = st.integers(0, 2) | st.integers(2**64 - 2, 2**64 - 1)
        known = draw(st.lists(st.tuples(half, half), min_size=16, max_size=16, unique=True))
        labels = np.array(known, dtype=np.uint64)
    else:
        labels = Labels(draw(st.binary(min_size=32, max_size=32))).of_rows(0, 16)
    return units, labels[units].reshape(-1, 2)


def by_unit(units, labels):
    """The rows of every unit, by label."""
    order = sorted(set(units), key=lambda unit: as_int(labels[units.index(unit)]))
    return [[i for i, u in enumerate(units) if u == unit] for unit in order]


def in_buckets(labels, count):
    """(rows of a bucket and behind them the guests, number of guests, first rank of a unit), for buckets that are not empty."""
    bucket = orders.bucket_of(labels, count)
    places = [np.flatnonzero(bucket == b) for b in range(count)]
    places = [some for some in places if len(some)]
    rank = 0
    for k, some in enumerate(places):
        after = places[(k + 1) % len(places)]
        guests = after[orders.first_unit(labels[after])] if len(places) > 1 else after[:0]
        yield np.r_[some, guests], len(guests), rank, k == len(places) - 1
        rank += orders.count_units(labels[some])


@given(tables(), st.sampled_from([1, 2, 3, 50]))
def test_pairs(table, count):
    units, labels = table
    order = by_unit(units, labels)
    wanted = {(i, d[r % len(d)]) for own, d in zip(order, order[1:] + order[:1]) for r, i in enumerate(own)}
    found = []
    for places, guests, _, _ in in_buckets(labels, count):
        own, other = orders.pairing(labels[places], guests)
        found += zip(places[own].tolist(), places[other].tolist())
    assert sorted(found) == sorted(wanted) and len(found) == len(units)


@given(tables(most=1), st.sampled_from([1, 2, 3, 50]))
def test_couples(table, count):
    units, labels = table
    order = [own[0] for own in by_unit(units, labels)]
    wanted = list(zip(order[0::2], order[1::2]))
    found = []
    for places, guests, rank, last in in_buckets(labels, count):
        if last:
            places, guests = places[: len(places) - guests], 0
        first, second = orders.matching(labels[places], rank, guests)
        found += zip(places[first].tolist(), places[second].tolist())
    assert sorted(found) == sorted(wanted)


@given(tables(), st.sampled_from([1, 2, 3, 50]), st.integers(1, 12))
def test_blocks(table, count, blocks):
    units, labels = table
    order = by_unit(units, labels)
    balanced, drawn = {}, {}
    for rank, own in enumerate(order):
        for i in own:
            balanced[i] = rank * blocks // len(order)
            drawn[i] = int(labels[i][1]) % blocks
    found = {}
    for places, guests, rank, _ in in_buckets(labels, count):
        own = places[: len(places) - guests]
        found.update(zip(own.tolist(), orders.division(labels[own], blocks, "replace", rank, len(order)).tolist()))
    assert found == balanced
    assert dict(enumerate(orders.division(labels, blocks, "add-remove", 0, 0).tolist())) == drawn
    bucket = orders.bucket_of_block(labels, blocks, count)
    for block in range(blocks):
        assert len({bucket[i] for i in drawn if drawn[i] == block}) <= 1
    assert all(0 <= b < count for b in bucket)


@given(tables(), st.integers(1, 4), st.binary(min_size=32, max_size=32))
def test_rows_that_stay(table, most, key):
    units, labels = table
    rows = Labels(key).of_rows(0, len(units))
    wanted = [0] * len(units)
    for own in by_unit(units, labels):
        stay = sorted(own, key=lambda i: as_int(rows[i]))[:most]
        for i in stay:
            wanted[i] = len(stay)
    parts, sizes = orders.kept_rows(labels, rows, most)
    assert parts.tolist() == wanted and sizes.tolist() == [len(own) for own in by_unit(units, labels)]


@given(tables(), st.sampled_from([1, 2, 7, 1000]))
def test_buckets_are_ranges_of_labels(table, count):
    _, labels = table
    bucket = orders.bucket_of(labels, count)
    order = orders.in_order(labels)
    assert (np.diff(bucket[order]) >= 0).all() and (bucket >= 0).all() and (bucket < count).all()
    found = [as_int(label) for label in labels[order]]
    assert found == sorted(found)


def test_labels_that_share_their_upper_half():
    """Once in 2^64 draws, and still in order."""
    labels = np.array([[5, 2], [5, 1], [5, 2], [4, 9]], dtype=np.uint64)
    assert orders.in_order(labels).tolist() == [3, 1, 0, 2]
    assert orders.first_unit(labels[:3]).tolist() == [1]


@pytest.mark.parametrize("count", [1, 3, 64])
def test_buckets_fill_evenly(count):
    sizes = np.bincount(orders.bucket_of(Labels(bytes(32)).of_rows(0, 64_000), count), minlength=count)
    assert sizes.min() > 0.8 * 64_000 / count and len(sizes) == count
