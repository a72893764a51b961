"""Invented people for the example study."""

from pathlib import Path

import numpy as np
import pandas as pd

rng = np.random.default_rng(7)
size = 20_000
people = pd.DataFrame(
    {
        "age": rng.integers(18, 91, size),
        "bmi": rng.normal(27, 5, size).clip(12, 60),
        "sex": rng.choice(["F", "M"], size),
        "smoker": rng.random(size) < 0.25,
    }
)
people.to_parquet(Path(__file__).parent / "people.parquet")
