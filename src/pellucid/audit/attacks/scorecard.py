"""The model that several attacks explain: a scorecard, linear in forty features between 0 and 1, with public weights."""

from __future__ import annotations

import numpy as np

import pellucid as pel

FEATURES = 40
NAMES = [f"x{j}" for j in range(FEATURES)]
WEIGHTS = np.where(np.arange(FEATURES) % 2, -1, 1) * np.linspace(0.5, 1.5, FEATURES) / FEATURES


def answer(rows: np.ndarray) -> np.ndarray:
    """The score, between 0 and 1."""
    return 0.5 + (rows - 0.5) @ WEIGHTS


def model() -> pel.Model:
    return pel.Model(lambda d: answer(d[NAMES].to_numpy(float)), output=(0, 1), features=NAMES, trained_on="other data")


def record(row: np.ndarray) -> dict[str, float]:
    """A row as a record that is asked about."""
    return {name: float(value) for name, value in zip(NAMES, row)}
