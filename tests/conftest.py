"""Shared pieces: a schema with every kind of feature, data and models over it, and sources of test noise."""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, settings

sys.path.insert(0, str(Path(__file__).parent))

from sources import Seeded, Silent  # noqa: E402

import pellucid as pel  # noqa: E402
from pellucid.mechanisms import source  # noqa: E402

settings.register_profile("pellucid", deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
settings.load_profile("pellucid")


@pytest.fixture(scope="session")
def schema():
    return pel.Schema(
        {
            "age": pel.Number(17, 90, integer=True, source="form 12"),
            "children": pel.Number(0, 6, integer=True),
            "bmi": pel.Number(10, 60, source="clinic manual"),
            "lab": pel.Number(0, 5, missing=float("nan")),
            "sex": pel.Category(["F", "M"]),
            "school": pel.Category(["none", "primary", "secondary", "tertiary"], ordered=True),
            "smoker": pel.Boolean(),
        }
    )


def make_people(size, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": rng.integers(17, 91, size),
            "children": rng.poisson(1.2, size).clip(0, 6),
            "bmi": rng.normal(27, 5, size).clip(10, 60),
            "lab": np.where(rng.random(size) < 0.1, np.nan, rng.exponential(1.0, size).clip(0, 5)),
            "sex": rng.choice(["F", "M"], size),
            "school": rng.choice(["none", "primary", "secondary", "tertiary"], size, p=[0.1, 0.3, 0.4, 0.2]),
            "smoker": rng.random(size) < 0.3,
        }
    )


def risk(d):
    """A smooth, row-wise model of every feature."""
    school = d["school"].map({"none": 0.2, "primary": 0.1, "secondary": 0.05, "tertiary": 0.0}).astype(float)
    lab = np.nan_to_num(d["lab"].to_numpy(float), nan=1.0)
    score = 0.04 * (d["age"] - 50) + 0.05 * (d["bmi"] - 25) + 0.2 * lab + 0.3 * (d["sex"] == "M") + d["smoker"] * 0.8 + school
    return 1 / (1 + np.exp(-(score - 0.1 * d["children"])))


@pytest.fixture(scope="session")
def people():
    return make_people(3000)


@pytest.fixture(scope="session")
def model(schema):
    return pel.Model(risk, output=(0, 1), features=list(schema), trained_on="other data")


@pytest.fixture
def silent(monkeypatch):
    """Noise switched off, for comparison with other implementations."""
    monkeypatch.setattr(source, "current", Silent())


@pytest.fixture
def seeded(monkeypatch):
    monkeypatch.setattr(source, "current", Seeded(0))
