"""Whether compiled loops are there, and when they are used. All of them give the same whole numbers as NumPy does."""

from __future__ import annotations

import functools
import sys
from types import ModuleType
from typing import Any

import numpy as np

SMALL = 1 << 20
"""Walks below which compiled loops are not worth loading."""


def is_compiled() -> bool:
    """Whether walks run as compiled loops."""
    return _loaded() is not None


def compiled(work: int) -> Any:
    """The compiled loops for so many walks; None where they are not worth loading, or Numba is not installed."""
    return _loaded() if work >= SMALL or f"{__package__}.loops" in sys.modules else None


@functools.cache
def _loaded() -> ModuleType | None:
    try:
        from . import loops
    except Exception:  # also Numba that does not load: a release must not fail for want of speed
        return None
    return loops


def plain(values: Any) -> np.ndarray:
    """Floats, one after another and open to writing: a loop is compiled anew for every other kind of array."""
    array = np.ascontiguousarray(values, dtype=float)
    return array if array.flags.writeable else array.copy()
