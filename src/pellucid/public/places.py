"""Places in questions, for black boxes whose last bits depend on where in a batch a record stands.

Matrix products in single precision, as those of networks, take the rows of a batch in blocks, and on some processors the last bit
of an answer depends on the place in its block. Where blocks repeat, such a black box is asked *by place*: which places a record
may have is settled by a hash of its own inputs, and all of them are alike. So its answer is a function of the record alone,
without rounding. What is left free is filled with public records, and so is always the tail of a question, where blocks end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

LONGEST = 96
"""Periods that are looked for."""
LONGEST_TAIL = 1 / 8
"""Part of a question that may be left to public records."""


@dataclass(frozen=True)
class Places:
    """Where in a question of so many rows a record may stand: at places that have its own remainder."""

    rows: int
    """Rows of a question."""
    period: int
    """Places are alike if they differ by multiples of it."""
    usable: int
    """Places before the tail: whole periods."""

    @classmethod
    def anywhere(cls, rows: int) -> Places:
        """All places are alike."""
        return cls(rows, 1, rows)

    @property
    def all_alike(self) -> bool:
        """Whether a record may stand anywhere."""
        return (self.period, self.usable) == (1, self.rows)

    def homes(self, inputs: Any) -> np.ndarray:
        """The remainder of each row, from its own inputs alone."""
        if self.period == 1:
            return np.zeros(len(inputs), dtype=np.intp)
        frame = inputs if isinstance(inputs, pd.DataFrame) else pd.DataFrame(inputs, copy=False)
        hashes: np.ndarray = pd.util.hash_pandas_object(frame, index=False).to_numpy()
        homes: np.ndarray = hashes % np.uint64(self.period)
        return homes.astype(np.intp)

    def at_home(self, homes: np.ndarray) -> np.ndarray:
        """Which rows of one whole question are at a place of their own."""
        place = np.arange(self.rows)
        found: np.ndarray = (place % self.period == homes) & (place < self.usable)
        return found

    def questions(self, homes: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """As many questions as rows of these homes need: places in each, and which rows stand there."""
        order = np.argsort(homes, kind="stable")
        counts = np.bincount(homes, minlength=self.period)
        turn = np.empty(len(homes), dtype=np.intp)
        turn[order] = np.arange(len(homes)) - np.repeat(np.cumsum(counts) - counts, counts)
        number, turn = np.divmod(turn, self.usable // self.period)
        who = [np.flatnonzero(number == q) for q in range(int(number.max(initial=-1)) + 1)]
        return [(turn[rows] * self.period + homes[rows], rows) for rows in who]


def repeating(answers: np.ndarray) -> Iterator[Places]:
    """Periods in which answers may repeat, the shortest first; `answers` are one line for each record that stood everywhere."""
    rows = answers.shape[1]
    for period in range(1, LONGEST + 1):
        unlike = np.flatnonzero((answers[:, period:] != answers[:, :-period]).any(axis=0))
        alike = period + int(unlike[0]) if len(unlike) else rows
        usable = alike // period * period
        if usable >= rows * (1 - LONGEST_TAIL):
            yield Places(rows, period, usable)
