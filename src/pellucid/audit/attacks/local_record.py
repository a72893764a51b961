"""Features of the record asked about, from a local linear explanation.

The explanation is fitted to the people around the record, and says where that is. The guarantee is about the people: that the
record is hidden too, where there are few of them, is a gift of the noise and no promise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

import pellucid as pel

from ...baselines import local
from ...explainers.local.methods import smallest_in_ball
from ...explainers.local.weights import Gaussian
from .base import EXACT, Against, Attack, columns, printed, session, units
from .guessing import Guesser, mean_of

FEATURES, PEOPLE, RECORDS, STEPS = 4, 500, 5, 100
MANY = 20_000
NAMES = [f"x{j}" for j in range(FEATURES)]
DELTA = 1e-5
NEAR = Gaussian(bandwidth=0.3)
"""Explanations are of people near the record; farther ones hardly count."""
REHEARSALS = 500
"""Shadow records whose published explanations the attacker works out."""


def answer(rows: np.ndarray) -> np.ndarray:
    """The model: a mean of squares, which is steeper where a feature is larger."""
    return (np.asarray(rows) ** 2).mean(axis=-1)


def draw(rng: np.random.Generator, size: int) -> np.ndarray:
    """People of the population; values in the middle are more frequent."""
    return rng.beta(2, 2, (size, FEATURES))


def explained(record: np.ndarray, people: np.ndarray) -> np.ndarray:
    """The slopes without noise, counted from the model's answer for the record."""
    return smallest_in_ball(*local.moments(record, people, answer(people) - answer(record), NEAR.at), 1.0)[0]


@dataclass(frozen=True)
class LocalRecord(Attack):
    """In which quarter of its range does each feature of the record lie?"""

    name: ClassVar[str] = "local-record"
    title: ClassVar[str] = "What are the features of the record asked about? From a local linear explanation"
    released: ClassVar[str] = f"{FEATURES} slopes around one record, {PEOPLE} people"
    figure: ClassVar[str] = "accuracy"
    tables: ClassVar[int] = 24
    few: ClassVar[int] = 3

    @cached_property
    def _shadow(self) -> np.ndarray:
        return draw(np.random.default_rng([self.seed, 1 << 20]), PEOPLE)

    @cached_property
    def guesser(self) -> Guesser:
        records = draw(np.random.default_rng([self.seed, 1 << 21]), 2000)
        return Guesser.made(records, lambda record: explained(record, self._shadow))

    @property
    def baseline(self) -> float:
        return self.guesser.baseline

    @cached_property
    def _between(self) -> np.ndarray:
        """How much explanations of one record differ between two tables of the population."""
        other = draw(np.random.default_rng([self.seed, 1 << 23]), PEOPLE)
        tried = self.guesser.records[:100]
        return np.mean((self.guesser.numbers[:100] - [explained(record, other) for record in tried]) ** 2, axis=0)

    @cached_property
    def _rehearsed(self) -> dict[float, Guesser]:
        """The published descent, noise and all, on shadow people: it has not arrived where the explanation without noise is."""
        rng = np.random.default_rng([self.seed, 1 << 22])
        records = self.guesser.records[:REHEARSALS]

        def rehearsed(epsilon: float) -> Guesser:
            return Guesser.made(records, lambda record: self._descent(record, self._shadow, epsilon, rng))

        return {epsilon: rehearsed(epsilon) for epsilon in self.epsilons}

    @staticmethod
    def _descent(record: np.ndarray, people: np.ndarray, epsilon: float, rng: np.random.Generator) -> np.ndarray:
        return local.algorithm_1(
            record, people, answer(people) - answer(record), epsilon, DELTA, rng, steps=STEPS, weight=NEAR.at
        )

    def trial(self, rng: np.random.Generator) -> Mapping[Against, float]:
        people, many = draw(rng, PEOPLE), draw(rng, MANY)
        return mean_of([self._right(record, people, many, rng) for record in draw(rng, RECORDS)])

    def _right(self, record: np.ndarray, people: np.ndarray, many: np.ndarray, rng: np.random.Generator) -> dict[Against, float]:
        """The share of features of one record that is guessed right."""
        right = {EXACT: self.guesser.right(printed(explained(record, people)), self._between, record)}
        for epsilon, guesser in self._rehearsed.items():
            right[Against("published", epsilon)] = guesser.right(self._descent(record, people, epsilon, rng), 0.0, record)
        model = pel.Model(lambda d: answer(d[NAMES].to_numpy(float)), output=(0, 1), features=NAMES, trained_on="other data")
        asked = pel.LocalLinear(model, {name: float(value) for name, value in zip(NAMES, record)}, centred=True, weight=NEAR)
        for who, table in (("ours", people), (f"ours, {MANY:,} people", many)):
            for epsilon in self.epsilons:
                made = session(columns(table), units(FEATURES), epsilon).release(asked, epsilon=epsilon)
                assert isinstance(made, pel.LocalExplanation) and made.std is not None
                right[Against(who, epsilon)] = self.guesser.right(made.phi, made.std**2 + self._between, record)
        return right
