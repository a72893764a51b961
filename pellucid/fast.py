"""Compiled loops for the `fast` extra; without Numba everything works the same, only slower."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np


@functools.cache
def counter() -> Callable[[np.ndarray, np.ndarray, int, int], np.ndarray | None] | None:
    """A function that counts group × value cells in one loop, or None where Numba is not installed."""
    try:
        import numba
    except ImportError:
        return None

    @numba.njit(cache=True, nogil=True)
    def loop(group: Any, value: Any, groups: int, size: int, out: Any) -> bool:
        for i in range(len(group)):
            g, v = group[i], value[i]
            if g < 0 or g >= groups or v < 0 or v >= size:
                return False
            out[g * size + v] += 1
        return True

    def count(group: np.ndarray, value: np.ndarray, groups: int, size: int) -> np.ndarray | None:
        """Counts, or None when a record lies outside."""
        out = np.zeros(groups * size, dtype=np.int64)
        return out if loop(group, value, groups, size, out) else None

    return count
