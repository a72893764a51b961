"""Days and times: declared once, numbers inside, dates for people and models."""

import datetime as dt
import math

import numpy as np
import pandas as pd
import pytest

import pellucid as pel
from pellucid.public.dates import along, drawn, like
from pellucid.public.grids import histogram_bins, spread_points


@pytest.fixture
def born():
    return pel.Date("1920-01-01", "2019-12-31", source="civil register", label="date of birth")


@pytest.mark.parametrize(
    "value",
    ["1970-01-11", dt.date(1970, 1, 11), dt.datetime(1970, 1, 11, 23), pd.Timestamp("1970-01-11"), np.datetime64("1970-01-11")],
)
def test_a_day_in_any_words_has_one_position(born, value):
    assert born.position(value) == 10.0 and born.value_at(10.0) == "1970-01-11"


def test_a_time_with_a_zone_is_taken_to_utc():
    times = pel.Datetime("2024-01-01", "2024-12-31T23:59:59")
    assert times.position("2024-06-01T12:00:00+02:00") == times.position("2024-06-01T10:00:00")
    assert times.value_at(times.position("2024-06-01T10:00:00")) == "2024-06-01T10:00:00"


def test_round_trip(tmp_path, born):
    schema = pel.Schema(
        {
            "born": born,
            "seen": pel.Datetime("2024-01-01", "2024-12-31", missing="2024-02-03T04:05:06", format="%d.%m.%Y %H:%M"),
            "left": pel.Date("2024-01-01", "2024-12-31", missing=float("nan")),
        }
    )
    for name in ("schema.yaml", "schema.json"):
        schema.save(tmp_path / name)
        again = pel.Schema.load(tmp_path / name)
        assert again == schema and type(again["born"]) is pel.Date and again["seen"].format == "%d.%m.%Y %H:%M"
        assert again["left"].fills_nan and again["born"].excludes and again["seen"].fill == schema["seen"].fill
    # Without quotes YAML reads dates itself.
    (tmp_path / "plain.yaml").write_text("features: {born: {date: [1920-01-01, 2019-12-31]}}")
    assert pel.Schema.load(tmp_path / "plain.yaml")["born"].lo == born.lo


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: pel.Date("2020-01-02", "2020-01-01"), "swap"),
        (lambda: pel.Date("2020-13-01", "2021-01-01"), "is no date"),
        (lambda: pel.Date(17, 90), "is no date"),
        (lambda: pel.Date(pd.NaT, "2021-01-01"), "is no date"),
        (lambda: pel.Date("2020-01-01", "2021-01-01", missing="2022-01-01"), "outside"),
        (lambda: pel.Date("2020-01-01", "2021-01-01", format=3), "pattern"),
        (lambda: pel.Date("2020-01-01", "2021-01-01").position("2023-01-01"), "2020-01-01 to 2021-01-01"),
        (lambda: pel.Schema.from_dict({"features": {"a": {"date": "2020-01-01"}}}), "two bounds"),
    ],
)
def test_wrong_declarations(make, words):
    with pytest.raises(pel.SchemaError, match=words):
        make()


def test_models_of_frames_get_dates_and_models_of_arrays_get_days(born):
    schema, people = pel.Schema({"born": born}), {"born": ["1950-06-01", "1980-06-01"] * 200}
    seen = []

    def age(frame):
        seen.append(frame["born"].dtype)
        return 2024.0 - frame["born"].dt.year

    by_frame = pel.Model(age, output=(0, 110), features=["born"], trained_on="other data")

    def years(array):
        return 2024.0 - (1970 + array[:, 0] // 365.2425)

    by_array = pel.Model(years, output=(0, 110), features=["born"], trained_on="other data", input="array")
    for model in (by_frame, by_array):
        session = pel.Session(people, schema, budget=pel.Budget(epsilon=100))
        curve = session.release(pel.PartialDependence(model, "born", points=5), epsilon=100)
        assert curve.x[0] == "1920-01-01" and curve.x[-1] == "2019-12-31"
        assert curve.y[0] == pytest.approx(104, abs=3) and curve.y[-1] == pytest.approx(5, abs=3)
        assert pel.from_json(curve.to_json()).x == curve.x
    assert {str(kind) for kind in seen} == {"datetime64[s]"}


def test_a_missing_date_that_is_nan_is_a_nat_for_models():
    column = pel.Date("2024-01-01", "2024-12-31", missing=float("nan"))
    assert np.isnat(column.values_at(np.array([np.nan, column.lo]))).tolist() == [True, False]


def test_explanations_speak_of_dates(born):
    schema = pel.Schema({"born": born, "seen": pel.Datetime("2024-01-01", "2024-12-31T23:59:59")})
    rng = np.random.default_rng(0)
    people = pd.DataFrame(
        {
            "born": pd.Timestamp("1940-01-01") + pd.to_timedelta(rng.integers(0, 20000, 3000), unit="D"),
            "seen": pd.Timestamp("2024-03-01") + pd.to_timedelta(rng.integers(0, 10**7, 3000), unit="s"),
        }
    )

    def days(frame):
        return (frame["born"] - pd.Timestamp("1900-01-01")).dt.days / 50000.0

    model = pel.Model(days, output=(0, 1), features=["born"], trained_on="other data")
    session = pel.Session(people, schema, budget=pel.Budget(epsilon=1000))
    found = session.release([pel.Distribution(["born", "seen"]), pel.AccumulatedEffects(model, "born")], epsilon=200)
    counts, effects = found[0], found[1]
    assert counts["born"].x[0].startswith("192") and "T" in counts["seen"].x[0]
    assert counts["born"].counts.sum() == pytest.approx(3000, abs=30)
    lower, upper = effects.interval()
    assert all(isinstance(v, str) for v in effects.x) and (lower <= upper).all()
    assert "19" in effects.covers or effects.covers == ""
    for one in (counts["born"], counts["seen"], effects):
        one.plot()
        assert one.to_frame()["x"].map(type).eq(str).all()


def test_words_between_values():
    assert like(10, ["1970-01-01"]) == "1970-01-11" and like(0.25, [0, 1]) == "0.25"
    assert along(["1970-01-11"]).tolist() == [10.0] and along([np.datetime64("1970-01-11")], ["2020-01-01"]).tolist() == [10.0]
    assert drawn(["1970-01-11"]).dtype == "datetime64[s]"


def test_grids_of_dates_are_even(born):
    gaps = np.diff(spread_points(born, 11))
    assert gaps.max() - gaps.min() <= 1


def test_log_scales():
    doses = pel.Number(0.01, 1000, scale="log")
    points = spread_points(doses, 6)
    assert np.allclose(points[1:] / points[:-1], 10) and (points[0], points[-1]) == (0.01, 1000)
    edges = np.array(histogram_bins(doses, None, 64, 20).edges)
    assert np.allclose(edges[1:] / edges[:-1], edges[1] / edges[0])
    money = pel.Number(0, 1e6, integer=True, scale="log")
    bins = histogram_bins(money, 10, 64, 20)
    assert bins.edges[0] == -0.5 and bins.edges[-1] == 1e6 + 0.5 and all(e % 1 == 0.5 for e in bins.edges)
    below = spread_points(pel.Number(-1, 1, scale="log"), 9)
    assert (np.diff(np.diff(below)) > 0).all() and (below[0], below[-1]) == (-1, 1)
    # Declared otherwise, whole numbers of a wide range are spaced evenly.
    even = spread_points(pel.Number(0, 100_000, integer=True, scale="linear"), 11)
    assert np.diff(even).tolist() == [10_000.0] * 10
    with pytest.raises(pel.SchemaError, match="'linear' or 'log'"):
        pel.Number(0, 1, scale="square")
    assert pel.Schema.from_dict(pel.Schema({"d": doses}).to_dict())["d"] == doses and math.isclose(doses.hi, 1000)
