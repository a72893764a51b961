"""Guessing the features of a record from numbers about it, with shadow records whose numbers the attacker has worked out.

Each shadow record votes for its own features, the more the nearer its numbers are to the released ones, measured by the noise.
Noise that is large against the differences between records leaves all of them a vote, and the guess is that of somebody who knows
the population alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

BINS = 4


def bins(rows: np.ndarray) -> np.ndarray:
    """In which quarter of its range each feature between 0 and 1 lies.

    >>> bins(np.array([0.1, 0.3, 1.0])).tolist()
    [0, 1, 3]
    """
    return np.minimum((rows * BINS).astype(int), BINS - 1)


@dataclass(frozen=True, eq=False)
class Guesser:
    """Shadow records and their numbers."""

    records: np.ndarray
    """One a row, features between 0 and 1."""
    numbers: np.ndarray
    """What would be released about each, without noise."""

    @classmethod
    def made(cls, records: np.ndarray, explain: Callable[[np.ndarray], np.ndarray]) -> Guesser:
        return cls(records, np.array([explain(record) for record in records]))

    @property
    def baseline(self) -> float:
        """How often the most frequent quarter of each feature is right in the population."""
        own = bins(self.records)
        return float(np.mean([np.bincount(own[:, j], minlength=BINS).max() / len(own) for j in range(own.shape[1])]))

    def right(self, released: np.ndarray, variance: np.ndarray | float, record: np.ndarray) -> float:
        """The share of features whose quarter is guessed."""
        grain = 0.5 * self.numbers.std(axis=0) * len(self.numbers) ** (-1 / (4 + self.numbers.shape[1]))
        apart = ((self.numbers - released) ** 2 / (variance + grain**2)).sum(axis=1)
        weight = np.exp(-(apart - apart.min()) / 2)
        own = bins(self.records)
        votes = [np.bincount(own[:, j], weights=weight, minlength=BINS).argmax() for j in range(own.shape[1])]
        return float(np.mean(np.array(votes) == bins(record)))
