"""Compiled loops for the `fast` extra; without Numba everything works the same, only slower."""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

LOADING = 1 << 25
"""Numbers that are bounded without Numba in about the time that Numba takes to load."""
_bounded = 0


def loops(work: int) -> Any:
    """The loops of `loops.py` for a batch of so many numbers, or None where the NumPy version is to be used.

    That is where Numba is not installed, and as long as loading it would take longer than all batches so far have taken without.
    """
    return _loaded() if pays(work) else None


def pays(work: int) -> bool:
    """Whether to use Numba for so much work: once it is loaded, or once all that was done without would have paid for that."""
    global _bounded
    if "numba" not in sys.modules:
        _bounded += work
    return "numba" in sys.modules or _bounded >= LOADING


@functools.cache
def _loaded() -> Any:
    try:
        return importlib.import_module(".loops", __package__)
    except Exception:  # also Numba that does not load: a release must not fail for want of speed
        return None


def plain(numbers: Any) -> np.ndarray:
    """Floats, row after row and open to writing: a loop is compiled anew for every other kind of array."""
    array = np.ascontiguousarray(numbers, dtype=float)
    return array if array.flags.writeable else array.copy()


def whole(numbers: np.ndarray | int, rows: int) -> np.ndarray:
    """Integers, one for every row."""
    return np.array(np.broadcast_to(numbers, rows), dtype=np.int64)


@functools.cache
def counter() -> Callable[[np.ndarray, np.ndarray, int, int], np.ndarray | None] | None:
    """A function that counts group × value cells in one loop, or None where Numba is not installed."""
    try:
        import numba
    except Exception:  # also Numba that does not load: a release must not fail for want of speed
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


@functools.cache
def taker() -> Callable[[np.ndarray, np.ndarray, int], np.ndarray | None] | None:
    """A function that looks values up in a table in one loop, or None where Numba is not installed."""
    try:
        import numba
    except Exception:  # also Numba that does not load: a release must not fail for want of speed
        return None

    @numba.njit(cache=True, nogil=True)
    def loop(table: Any, values: Any, low: int, out: Any) -> bool:
        for i in range(len(values)):
            place = values[i] - low
            if place < 0 or place >= len(table):
                return False
            out[i] = table[place]
        return True

    def take(table: np.ndarray, values: np.ndarray, low: int) -> np.ndarray | None:
        """table[values - low], or None when a value lies outside."""
        out = np.empty(len(values))
        return out if loop(table, values, low, out) else None

    return take


def look_up(table: np.ndarray, values: np.ndarray, low: int = 0) -> np.ndarray | None:
    """table[values - low] by the quickest way there is; None when a value lies outside."""
    # A look-up takes about an eighth of what bounding a number takes.
    take = taker() if len(values) >= 4096 and pays(len(values) // 8) else None
    if take is not None:
        return take(table, values, low)
    place = values.astype(np.int64, copy=False)
    place = place - low if low else place
    # Seen as unsigned, a negative number is a huge one: one comparison for both ends.
    return table[place] if place.view(np.uint64).max(initial=0) < len(table) else None
