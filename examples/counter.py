"""A counter where people ask why the model decided as it did: questions come in, the process restarts, more questions come in.

    python examples/counter.py

Everything is invented, and the ledger is in a temporary folder.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

import pellucid as pel

RECORDS = 40_000
SCHEMA = pel.Schema(
    {
        "age": pel.Number(18, 90, integer=True, source="form 12"),
        "visits": pel.Number(0, 20, integer=True, source="form 12"),
        "pain": pel.Number(0, 10, source="scale of the ward"),
        "smoker": pel.Boolean(),
    }
)


def urgency(d: pd.DataFrame) -> pd.Series:
    """What the model says about a patient, between 0 and 1."""
    return 1 / (1 + np.exp(-0.02 * (d["age"] - 50) - 0.15 * (d["pain"] - 5) - 0.4 * d["smoker"]))


def patients(seed: int = 0) -> pd.DataFrame:
    """The private table: patients and the values the model sees."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": rng.integers(18, 91, RECORDS),
            "visits": rng.poisson(4, RECORDS),
            "pain": rng.uniform(0, 10, RECORDS),
            "smoker": rng.random(RECORDS) < 0.3,
        }
    )


def main() -> None:
    """Two days at the counter, with one slice of the budget."""
    model = pel.Model(urgency, output=(0, 1), features=["age", "visits", "pain", "smoker"], trained_on="other data")
    explainer = pel.LocalLinear(model, questions=3, centred=True)
    days = [
        [{"age": 40, "visits": 3, "pain": 7.0, "smoker": False}, {"age": 42, "visits": 3, "pain": 7.2, "smoker": False}],
        [
            {"age": 39, "visits": 4, "pain": 7.0, "smoker": False},
            {"age": 70, "visits": 9, "pain": 3.0, "smoker": True},
            {"age": 25, "visits": 0, "pain": 9.0, "smoker": True},
            {"age": 60, "visits": 6, "pain": 5.0, "smoker": False},
        ],
    ]
    with tempfile.TemporaryDirectory() as folder:
        for day, callers in enumerate(days, 1):
            # Opened anew every day: the table is read again, and the stream goes on from the ledger.
            session = pel.Session(
                patients(),
                SCHEMA,
                budget=pel.Budget(epsilon=1.0, delta=1e-6),
                neighbors="add-remove",
                name="ward",
                expected_rows=RECORDS,
                ledger=Path(folder) / "ward.db",
                create=True,
            )
            with session.open(explainer, epsilon=0.5, by="the counter", purpose="questions of patients") as local:
                for caller in callers:
                    print(f"\nday {day}: {caller}\n{local.explain(caller)}")
                print(f"\nday {day} ends: {local}")


if __name__ == "__main__":
    main()
