"""Shared pieces: a schema with every kind of feature, data and models over it, and sources of test noise."""

import os
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

TESTS = Path(__file__).parent
sys.path[:0] = [str(TESTS), *sorted(str(path) for path in TESTS.rglob("*/") if path.name != "__pycache__")]
# Studies are imported by the names they have there; last, because some are called like tests.
sys.path.append(str(TESTS.parent / "benchmarks"))

from people import make_people, risk  # noqa: E402
from sources import Repeatable, Seeded, Silent  # noqa: E402

import pellucid as pel  # noqa: E402
from pellucid.mechanisms import source  # noqa: E402

settings.register_profile("pellucid", deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
settings.load_profile("pellucid")


ABOUT_RANDOMNESS = ("mechanisms", "audit", "contract", "benchmarks")
"""Folders whose tests ask for the randomness they want themselves."""


@pytest.fixture(autouse=True)
def repeatable(request, monkeypatch):
    """Every test draws the same noise in every run; `PELLUCID_SEED=7 make test` is another run."""
    if not any(part in ABOUT_RANDOMNESS for part in request.path.relative_to(TESTS.parent).parts[1:-1]):
        monkeypatch.setattr(source, "current", Repeatable(f"{os.environ.get('PELLUCID_SEED', '')} {request.node.nodeid}"))


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
