"""Guessing the features of a record from numbers about it, with shadow records whose numbers the attacker has worked out.

Each shadow record votes for its own features, the more the nearer its numbers are to the released ones, measured by the noise.
Noise that is large against the differences between records leaves all of them a vote, and the guess is that of somebody who knows
the population alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .base import Against

BINS = 4
REACHES = (0.05, 0.1, 0.2, 0.5, 10.0)
LEFT_OUT = 100


def bins(rows: np.ndarray) -> np.ndarray:
    """In which quarter of its range each feature between 0 and 1 lies.

    >>> bins(np.array([0.1, 0.3, 1.0])).tolist()
    [0, 1, 3]
    """
    return np.minimum((rows * BINS).astype(int), BINS - 1)


def mean_of(records: Sequence[Mapping[Against, float]]) -> dict[Against, float]:
    """The mean figure over several records."""
    return {against: float(np.mean([figures[against] for figures in records])) for against in records[0]}


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
        return float(np.mean([np.bincount(own).max() / len(own) for own in self._own.T]))

    @cached_property
    def _own(self) -> np.ndarray:
        return bins(self.records)

    @cached_property
    def _grain(self) -> np.ndarray:
        """How far a vote reaches beyond the noise: what guesses the most features of shadow records that are left out."""
        tried = range(0, len(self.records), max(len(self.records) // LEFT_OUT, 1))
        grains = [reach * self.numbers.std(axis=0) for reach in REACHES]
        right = [np.mean([self._votes(self.numbers[i], grain**2, i) == self._own[i] for i in tried]) for grain in grains]
        return grains[int(np.argmax(right))]

    def _votes(self, released: np.ndarray, variance: np.ndarray, left_out: int | None = None) -> np.ndarray:
        apart = ((self.numbers - released) ** 2 / variance).sum(axis=1)
        if left_out is not None:
            apart[left_out] = np.inf
        weight = np.exp(-(apart - apart.min()) / 2)
        return np.array([np.bincount(own, weights=weight, minlength=BINS).argmax() for own in self._own.T])

    def right(self, released: np.ndarray, variance: np.ndarray | float, record: np.ndarray) -> float:
        """The share of features whose quarter is guessed."""
        return float(np.mean(self._votes(released, variance + self._grain**2) == bins(record)))
