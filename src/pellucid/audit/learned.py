"""A score for outputs of which no likelihood is known: learned on a part of the samples, and judged on the others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from .estimate import Look, promising

BINS = 24
"""Parts of equal frequency of a feature; values that many samples share have a part of their own."""
LEARN, CHOOSE = 0.2, 0.15
"""Parts of the samples that a score is learned from, and that an event is chosen on."""
COORDINATES = 12
"""Differences are taken of so many coordinates."""


@dataclass(frozen=True)
class Feature:
    """How much likelier each value of one number is on the second side, as seen in samples."""

    edges: np.ndarray
    atoms: np.ndarray
    ratios: np.ndarray
    """Of the parts between edges, then of the atoms."""

    @classmethod
    def of(cls, first: np.ndarray, second: np.ndarray) -> Feature:
        pooled = np.concatenate([first, second])
        values, counts = np.unique(pooled, return_counts=True)
        atoms = values[counts > len(pooled) / BINS / 2]
        rest = pooled[~np.isin(pooled, atoms)]
        edges = np.unique(np.quantile(rest, np.linspace(0, 1, BINS + 1)[1:-1])) if len(rest) else np.empty(0)
        feature = cls(edges, atoms, np.zeros(len(edges) + 1 + len(atoms)))
        one, other = (np.bincount(feature.place(side), minlength=len(feature.ratios)) + 0.5 for side in (first, second))
        return cls(edges, atoms, np.log(other / other.sum()) - np.log(one / one.sum()))

    def place(self, values: np.ndarray) -> np.ndarray:
        places = np.searchsorted(self.edges, values)
        at = np.searchsorted(self.atoms, values)
        known = np.zeros(len(values), dtype=bool)
        if len(self.atoms):
            known = self.atoms[np.minimum(at, len(self.atoms) - 1)] == values
        return np.where(known, len(self.edges) + 1 + at, places)

    def __call__(self, values: np.ndarray) -> np.ndarray:
        found: np.ndarray = self.ratios[self.place(values)]
        return found


def told_apart(first: np.ndarray, second: np.ndarray, confidence: float, delta: float = 0.0) -> float:
    """A lower bound of ε from outputs as they are: rows are releases, columns the numbers of one."""
    return learned(first, second, confidence, delta).bound(confidence, delta)


def learned(first: np.ndarray, second: np.ndarray, confidence: float, delta: float = 0.0) -> Look:
    """A part of the samples teaches how likely values of numbers and of their differences are, another chooses the one number,
    or the sum over all, that tells the sides apart best, and the event; on the others it can be counted."""
    learn, count = int(len(first) * LEARN), int(len(first) * (LEARN + CHOOSE))
    first, second = _features(first), _features(second)
    features = [Feature.of(first[:learn, j], second[:learn, j]) for j in range(first.shape[1])]
    scored = []
    for side in (first[learn:], second[learn:]):
        each = np.column_stack([feature(side[:, j]) for j, feature in enumerate(features)])
        scored.append(np.column_stack([each, each.sum(axis=1)]))
    left = count - learn
    seen = [promising(a[:left], b[:left], confidence, delta, len(first) - count) for a, b in zip(*(side.T for side in scored))]
    best = max(range(len(seen)), key=lambda j: seen[j][1])
    return Look(*seen[best], *(side[left:, best] for side in scored))


def _features(outputs: np.ndarray) -> np.ndarray:
    """The numbers themselves, and differences of two of them: noise that is shared cancels there."""
    outputs = np.asarray(outputs, dtype=float).reshape(len(outputs), -1)
    pairs = combinations(range(min(outputs.shape[1], COORDINATES)), 2)
    return np.column_stack([outputs, *(outputs[:, i] - outputs[:, j] for i, j in pairs)])


def samples(release: Callable[[Any], Any], table: Any, runs: int) -> np.ndarray:
    """So many outputs of a release of a table, a row each."""
    return np.array([np.ravel(release(table)) for _ in range(runs)], dtype=float)
