"""How black boxes are asked about people: always about the same number of rows, in one thread.

Numerical libraries take other paths for other shapes and other numbers of threads, and their answers differ in the last bit. A
threshold behind it (a 0-1 loss, a tree behind a matrix product, the edge of a cap) makes a whole contribution of that bit. So
that nobody's answer depends on how many others there are, every question has the same shape, which is public; public records
fill what is left over.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

FEWEST = 1 << 11
MOST = 1 << 15
"""Rows of a question: enough that the costs of one call do not count (of a hundred trees, as much as of a thousand rows), and few
enough that filling up and trying one costs little."""
UNKNOWN = 1 << 14
"""Rows of a question where it is secret how many there are: perhaps few, and most of it public records."""
STEP = 1 << 6
"""Rows of a question are a multiple of this, so that no row falls to the odd ends of vectorised loops."""
EVENLY = 4
"""Up to so many questions a table is shared out evenly among them; what is left over of more is little."""
STRICT = FEWEST
"""Rows of a question that has a process of its own: among so many a model could still pass something on."""

Apart = Callable[[Callable[[Any], np.ndarray], int, Iterable[Any]], Iterator[np.ndarray]]
"""Answers a number of questions of so many rows, each in a process of its own that has seen no other one."""


@dataclass(frozen=True)
class Asking:
    """How black boxes are asked about the records of a session; settled from public things alone."""

    rows: int = FEWEST
    """Rows of every question; 0 asks about the records as they are, which is for public records only."""
    apart: Apart | None = None
    """Where questions are answered when every one of them has a process of its own."""

    @classmethod
    def about(cls, rows: int | None, apart: Apart | None = None) -> Asking:
        """For a table of a public number of rows, exact or guessed; None where it is secret and nobody has guessed."""
        if apart is not None:
            return cls(STRICT, apart)
        if rows is None:
            return cls(UNKNOWN)
        if rows > MOST * EVENLY:
            return cls(MOST)
        each = -(-rows // max(1, -(-rows // MOST)))
        return cls(max(FEWEST, -(-each // STEP) * STEP))

    @property
    def strict(self) -> bool:
        """Whether every question has a process of its own."""
        return self.apart is not None


DEFAULT = Asking()
"""Where nothing is known about the table."""
AS_THEY_ARE = Asking(0)
"""For public records: nobody else's answer can depend on how many there are."""


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Sums in one order: what is inside uses one thread for linear algebra, and joblib stays in this process."""
    from joblib import parallel_config  # a tenth of a second to import, and needed only where a predictor is

    with parallel_config(backend="sequential"), _libraries().limit(limits=1, user_api="blas"):
        yield


@functools.cache
def _libraries() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def look_for_libraries() -> None:
    """Take notice of numerical libraries that were loaded since."""
    _libraries.cache_clear()
