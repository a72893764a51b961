"""Cells of dates: whatever a cell holds, it becomes a declared day or is marked, and changes no other one."""

import datetime as dt

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pellucid as pel
from pellucid.engine.decode import conditions, decode
from pellucid.public.schema import FINE, MISSING, OUTSIDE, UNREADABLE

DAYS = pel.Date("2000-01-01", "2009-12-31")
TIMES = pel.Datetime("2000-01-01", "2009-12-31T23:59:59")
LO = DAYS.lo


@pytest.mark.parametrize("kind", [pa.date32(), pa.date64(), *(pa.timestamp(unit) for unit in ("s", "ms", "us", "ns"))], ids=str)
def test_every_calendar_type(kind):
    column = pa.array([dt.datetime(2000, 1, 2), None, dt.datetime(1980, 1, 1), dt.datetime(2030, 1, 1)], pa.timestamp("us"))
    column = column.cast(kind)
    assert decode(DAYS, column).tolist() == [LO + 1, DAYS.fill, LO, DAYS.hi]
    assert conditions(DAYS, column).tolist() == [FINE, MISSING, OUTSIDE, OUTSIDE]
    assert decode(TIMES, column)[0] == TIMES.lo + 86400


def test_the_last_nanosecond_of_a_day_is_that_day():
    column = pa.array([np.datetime64("2000-01-01T23:59:59.999999999"), np.datetime64("1969-12-31T23:59:59.999999999")])
    assert decode(pel.Date("1960-01-01", "2009-12-31"), column).tolist() == [LO, -1.0]


def test_zones_are_taken_to_utc():
    column = pa.array([dt.datetime(2000, 1, 2, tzinfo=dt.UTC)], pa.timestamp("us", tz="Asia/Tokyo"))
    assert decode(TIMES, column).tolist() == [TIMES.lo + 86400]
    assert decode(TIMES, pa.array(["2000-01-02T09:00:00+09:00"])).tolist() == [TIMES.lo + 86400]


HOSTILE = [
    "",
    "  ",
    "NaT",
    "nan",
    "yesterday",
    "2000-02-31",
    "0000-00-00",
    "99999-01-01",
    "2000-01-01" * 1000,
    "0001-01-01T00:00:00+23:59",
    "9999-12-31T23:59:59-23:59",
    "\x00",
    "２０００-01-01",
    "31.12.2005",
    "%Y",
    "1e9",
]


@pytest.mark.parametrize("as_dictionary", [False, True])
@pytest.mark.parametrize("feature", [DAYS, TIMES, pel.Date("2000-01-01", "2009-12-31", format="%d.%m.%Y", missing=float("nan"))])
def test_hostile_texts_never_raise_and_touch_no_other_cell(feature, as_dictionary):
    fine = "02.01.2000" if feature.format else "2000-01-02"
    cells = [x for hostile in HOSTILE for x in (fine, hostile, None)]
    column = pa.array(cells).dictionary_encode() if as_dictionary else pa.array(cells)
    found, said = decode(feature, column), conditions(feature, column)
    assert (found[::3] == decode(feature, pa.array([fine]))[0]).all() and (said[::3] == FINE).all()
    assert (said[2::3] == MISSING).all() and set(said[1:12:3]) == {MISSING}
    inside = np.isnan(found) if feature.fills_nan else False
    assert (((found >= feature.lo) & (found <= feature.hi)) | inside).all()
    for i, cell in enumerate(cells):
        alone = pa.array([cell], pa.string())
        assert np.array_equal(decode(feature, alone), found[i : i + 1], equal_nan=True)
        assert conditions(feature, alone)[0] == said[i]
    # Bytes that are no text at all.
    broken = pa.array([b"\xff\xfe", fine.encode()], pa.binary()).view(pa.string())
    assert conditions(feature, broken).tolist() == [UNREADABLE, FINE]


CELLS = st.one_of(st.none(), st.text(max_size=30), st.datetimes().map(str), st.dates().map(str))


@given(st.lists(CELLS, min_size=1, max_size=20))
def test_any_text_decodes_by_itself(cells):
    column = pa.array(cells, pa.string())
    found, said = decode(DAYS, column), conditions(DAYS, column)
    assert ((found >= DAYS.lo) & (found <= DAYS.hi)).all() and set(said) <= {FINE, MISSING, UNREADABLE, OUTSIDE}
    for i in range(len(cells)):
        assert decode(DAYS, column.slice(i, 1))[0] == found[i]


def test_numbers_are_steps_since_1970():
    assert decode(DAYS, pa.array([LO + 3, float("nan"), 1e300, -1e300])).tolist() == [LO + 3, DAYS.fill, DAYS.hi, LO]


@pytest.mark.parametrize(
    "cells",
    [
        [dt.date(2001, 2, 3), None, "abc"],
        [np.datetime64("2001-02-03"), np.datetime64("NaT"), "abc"],
        [pd.Timestamp("2001-02-03"), pd.NaT, object()],
        ["2001-02-03", "", "abc"],
    ],
)
def test_python_objects_are_read_cell_by_cell(cells):
    session = pel.Session({"d": cells}, pel.Schema({"d": DAYS}), budget=pel.Budget(epsilon=1))
    found = session.check()["d"].conditions
    assert (found["missing"], found["unreadable"], found["out of range"]) == (1, 1, 0)


def test_a_calendar_column_must_be_declared_as_one():
    people = pd.DataFrame({"d": pd.to_datetime(["2001-02-03"])})
    with pytest.raises(pel.DataError, match=r"pel\.Date"):
        pel.Session(people, pel.Schema({"d": pel.Number(0, 1)}), budget=pel.Budget(epsilon=1))
