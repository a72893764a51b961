"""People nobody is, and a model about them."""

import numpy as np
import pandas as pd


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


def risk_without_smoker(d):
    """The same without one column, which is then free to be a target."""
    return risk(d.assign(smoker=False))
