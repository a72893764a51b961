"""Tables for settings that are frozen on some tables and then judged on others: numeric columns, a boosted model, kept answers.

Settings are chosen on Adult and Bike. German Credit, Diabetes 130, ACS New York, the developers' survey, credit default and
census income (KDD) are looked at once, when nothing is changed any more. Bounds are documented ones, or, where the documentation
names none, round numbers that were declared without a look at the records. At most 10,000 records of a table are taken.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

import pellucid as pel
from pellucid.public.grids import spread_points

CHOOSING = ("adult", "bike")
JUDGING = ("german", "diabetes", "acs", "survey", "credit", "census")
MOST = 10_000
PUBLIC = 256


def whole(lo: float, hi: float) -> pel.Number:
    return pel.Number(lo, hi, integer=True)


NUMERIC = {
    "adult": {
        "age": whole(17, 90), "education-num": whole(1, 16), "hours-per-week": whole(1, 99), "capital-gain": whole(0, 99999),
    },
    "bike": {
        "hr": whole(0, 23), "mnth": whole(1, 12), "atemp": pel.Number(0, 1), "hum": pel.Number(0, 1),
        "windspeed": pel.Number(0, 1),
    },
    "german": {
        "duration": whole(0, 120), "credit_amount": whole(0, 20000), "age": whole(18, 100), "installment_rate": whole(1, 4),
    },
    "diabetes": {
        "time_in_hospital": whole(1, 14), "num_lab_procedures": whole(0, 150), "num_medications": whole(0, 100),
        "number_inpatient": whole(0, 50), "number_diagnoses": whole(0, 20),
    },
    "acs": {"AGEP": whole(0, 99), "WKHP": whole(1, 99), "WKWN": whole(1, 52), "JWMNP": whole(1, 200)},
    "survey": {"Age": pel.Number(0, 100), "WorkWeekHrs": pel.Number(0, 168)},
    "credit": {
        "LIMIT_BAL": whole(0, 1_000_000), "AGE": whole(18, 100), "PAY_0": whole(-2, 9), "BILL_AMT1": whole(-100_000, 1_000_000),
        "PAY_AMT1": whole(0, 1_000_000),
    },
    "census": {
        "age": whole(0, 90), "wage_per_hour": whole(0, 9999), "capital_gains": whole(0, 99_999),
        "num_persons_worked_for_employer": whole(0, 6), "weeks_worked_in_year": whole(0, 52),
    },
}  # fmt: skip
OUTPUT = {"bike": (0.0, 1000.0)}


@dataclass(frozen=True)
class Column:
    """A numeric column of a table: its values, a fine public grid, and the model's answer for every record at each grid value."""

    table: str
    name: str
    feature: pel.Number
    output: tuple[float, float]
    values: np.ndarray
    grid: np.ndarray
    answers: np.ndarray
    public: np.ndarray
    """The same of public records, drawn from the declared domains of all columns."""

    @property
    def reference(self) -> np.ndarray:
        return self.answers.mean(axis=0, dtype=float)

    def at(self, wanted: np.ndarray) -> np.ndarray:
        """Answers at grid values that are wanted: those of the nearest of the fine grid."""
        middles = (self.grid[:-1] + self.grid[1:]) / 2
        return self.answers[:, np.searchsorted(middles, wanted)]

    def weights(self) -> np.ndarray:
        """The part of the records that is nearest to each value of the fine grid."""
        middles = (self.grid[:-1] + self.grid[1:]) / 2
        return np.bincount(np.searchsorted(middles, self.values), minlength=len(self.grid)) / len(self.values)


def fine_grid(feature: pel.Number) -> np.ndarray:
    if feature.integer and (feature.levels or 0) <= 200:
        return np.arange(feature.lo, feature.hi + 1)
    if feature.integer:
        return np.unique(np.concatenate([spread_points(feature, 257), np.rint(np.linspace(feature.lo, feature.hi, 65))]))
    return np.linspace(feature.lo, feature.hi, 257)


def load(table: str, shared: Path) -> tuple[pd.DataFrame, np.ndarray]:
    """(inputs as numbers, target)."""
    data = shared / "data"
    if table == "adult":
        frame = pd.read_parquet(data / "adult.parquet")
        frame = frame[frame["split"].astype(str) == "train"].drop(columns=["split", "fnlwgt"])
        target = (frame.pop("income").astype(str) == ">50K").to_numpy(float)
    elif table == "bike":
        frame = pd.read_parquet(data / "bike_sharing_hour.parquet")
        target = frame["cnt"].to_numpy(float)
        frame = frame.drop(columns=["instant", "dteday", "casual", "registered", "cnt", "temp"])
    elif table == "german":
        frame = pd.read_parquet(data / "german_credit.parquet")
        target = (frame.pop("class").astype(int) == 2).to_numpy(float)
    elif table == "diabetes":
        frame = pd.read_parquet(data / "diabetes130.parquet")
        target = (frame.pop("readmitted").astype(str) != "NO").to_numpy(float)
        names = [*NUMERIC["diabetes"], "age", "gender", "race", "A1Cresult", "insulin", "change", "diabetesMed", "num_procedures"]
        frame = frame[names]
    elif table == "survey":
        frame = pd.read_parquet(data / "so2019_subset.parquet").dropna(subset=["ConvertedComp"])
        target = (frame["ConvertedComp"] > 60_000).to_numpy(float)
        frame = frame[[*NUMERIC["survey"], "MainBranch", "OpenSourcer", "CareerSat", "WorkLoc", "OpSys", "SocialMedia", "Gender"]]
    elif table == "credit":
        frame = pd.read_parquet(data / "credit_default.parquet").drop(columns="ID")
        target = frame.pop("default payment next month").to_numpy(float)
    elif table == "census":
        frame = pd.read_parquet(data / "census_income_kdd.parquet")
        target = frame["income"].astype(str).str.contains("50000+", regex=False).to_numpy(float)
        names = [
            *NUMERIC["census"],
            "sex",
            "education",
            "marital_stat",
            "class_of_worker",
            "major_occupation_code",
            "tax_filer_stat",
        ]
        frame = frame[names]
    else:
        frame = pd.read_parquet(data / "acs2024_person_ny.parquet", dtype_backend="numpy_nullable")
        frame = frame[(frame["AGEP"] > 16) & (frame["WKHP"] >= 1) & (frame["PINCP"] > 100)]
        target = (frame["PINCP"] > 50_000).to_numpy(float)
        frame = frame[[*NUMERIC["acs"], "SEX", "RAC1P", "SCHL", "MAR", "COW", "CIT"]]
    codes = {
        c: frame[c].astype("category").cat.codes if frame[c].dtype.name in ("category", "str", "object", "string") else frame[c]
        for c in frame
    }
    inputs = pd.DataFrame({c: pd.to_numeric(v).astype(float) for c, v in codes.items()}).fillna(0.0)
    for name, feature in NUMERIC[table].items():
        inputs[name] = inputs[name].clip(feature.lo, feature.hi)
    return inputs.reset_index(drop=True), target


def declared(table: str, inputs: pd.DataFrame) -> np.ndarray:
    """Public records: uniform over declared bounds, and over the codes of categories."""
    drawn = []
    rng = np.random.default_rng(5)
    for name in inputs:
        feature = NUMERIC[table].get(name)
        if feature is not None:
            drawn.append(feature.sample(rng, PUBLIC))
        else:
            drawn.append(rng.integers(0, int(inputs[name].max()) + 1, PUBLIC).astype(float))
    return np.column_stack(drawn)


def fitted(table: str, inputs: pd.DataFrame, target: np.ndarray):
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    kind = HistGradientBoostingRegressor if table == "bike" else HistGradientBoostingClassifier
    return kind(random_state=0).fit(inputs.to_numpy(), target)


def columns(table: str, shared: Path, cache: Path, rows: int | None = None) -> list[Column]:
    """The numeric columns of a table, or of its first `rows` records in a shuffled order; answers are kept on disk."""
    found: list[Column] = []
    inputs = target = model = None
    for name, feature in NUMERIC[table].items():
        key = hashlib.sha256(repr((table, name, feature, MOST)).encode()).hexdigest()[:12]
        path = cache / f"fresh_{table}_{name}_{key}.npz"
        if not path.exists():
            if inputs is None:
                inputs, target = load(table, shared)
                order = np.random.default_rng(0).permutation(len(inputs))[:MOST]
                inputs, target = inputs.iloc[order].reset_index(drop=True), target[order]
                model = fitted(table, inputs, target)
            grid, matrix, j = fine_grid(feature), inputs.to_numpy(), list(inputs).index(name)
            asked = np.vstack([matrix, declared(table, inputs)])
            answers = np.empty((len(asked), len(grid)), np.float32)
            for i, value in enumerate(grid):
                asked[:, j] = value
                answers[:, i] = model.predict(asked) if table == "bike" else model.predict_proba(asked)[:, 1]
            answers = np.clip(answers, *OUTPUT.get(table, (0.0, 1.0)))
            cache.mkdir(parents=True, exist_ok=True)
            np.savez(path, values=matrix[:, j], grid=grid, answers=answers[: len(matrix)], public=answers[len(matrix) :])
        with np.load(path) as kept:
            made = Column(
                table,
                name,
                feature,
                OUTPUT.get(table, (0.0, 1.0)),
                kept["values"][:rows],
                kept["grid"],
                kept["answers"][:rows],
                kept["public"],
            )
        found.append(made)
    return found
