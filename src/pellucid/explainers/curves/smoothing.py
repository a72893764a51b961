"""Smoothing by name. It is post-processing and costs nothing, but it breaks the error bars, so it is off by default."""

from __future__ import annotations

import numpy as np


def running_mean(y: np.ndarray, width: int) -> np.ndarray:
    """Each point becomes the mean of its neighbours up to `width` places away; windows shrink at the ends.

    >>> running_mean(np.array([0.0, 3.0, 0.0]), 1).tolist()
    [1.5, 1.0, 1.5]
    """
    total = np.concatenate([[0.0], np.cumsum(y)])
    start = np.maximum(np.arange(len(y)) - width, 0)
    stop = np.minimum(np.arange(len(y)) + width + 1, len(y))
    return (total[stop] - total[start]) / (stop - start)
