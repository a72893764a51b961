"""Noisy counts moved to the nearest counts that could be."""

from __future__ import annotations

import numpy as np


def project_counts(noisy: np.ndarray, total: float | np.ndarray) -> np.ndarray:
    """The nearest non-negative counts with the given total: one constant is taken off, the rest is cut at zero.

    Works on one histogram, or on one per row.

    >>> project_counts(np.array([5.0, -1.0, 2.0]), 6.0).tolist()
    [4.5, 0.0, 1.5]
    """
    rows = np.atleast_2d(noisy)
    falling = -np.sort(-rows, axis=1)
    excess = (np.cumsum(falling, axis=1) - np.reshape(total, (-1, 1))) / np.arange(1, rows.shape[1] + 1)
    last = rows.shape[1] - 1 - np.argmax((falling > excess)[:, ::-1], axis=1)
    cleaned = np.maximum(rows - excess[np.arange(len(rows)), last][:, None], 0.0)
    return cleaned.reshape(np.shape(noisy))
