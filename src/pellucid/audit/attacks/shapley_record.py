"""Features of the record asked about, from its Shapley values (Luo, Jiang and Xiao 2022).

A Shapley value is nearly a function of its own feature: it can be read backwards. Where the record is the secret, Pellucid
takes it as the table of a session and compares it with a public background. Where the record is known to whoever asks and the
people are the secret, the answer says what it says about the record: the guarantee is about the people, and the attack goes on
as before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

import pellucid as pel

from ...baselines.shapley import mean_background_values
from . import published
from .base import EXACT, Against, Attack, columns, printed, session, units
from .guessing import Guesser, mean_of

FEATURES, PEOPLE, RECORDS = 5, 1000, 5
NAMES = [f"x{j}" for j in range(FEATURES)]
WEIGHTS = np.array([2.5, -2.0, 1.5, -1.5, 2.0])
MIDDLE = np.full(FEATURES, 0.5)


def answer(rows: np.ndarray) -> np.ndarray:
    """The model: logistic, so that no feature can be read off alone."""
    return 1 / (1 + np.exp(-(np.asarray(rows) - 0.5) @ WEIGHTS))


def draw(rng: np.random.Generator, size: int) -> np.ndarray:
    """People of the population; values in the middle are more frequent."""
    return rng.beta(2, 2, (size, FEATURES))


def explained(record: np.ndarray) -> np.ndarray:
    """The Shapley values of a record against the middle of all ranges."""
    return mean_background_values(answer, record, MIDDLE[None])


@dataclass(frozen=True)
class ShapleyRecord(Attack):
    """In which quarter of its range does each feature of the record lie?"""

    name: ClassVar[str] = "shapley-record"
    title: ClassVar[str] = "What are the features of the record asked about? From its Shapley values"
    released: ClassVar[str] = f"{FEATURES} Shapley values of one record"
    figure: ClassVar[str] = "accuracy"
    tables: ClassVar[int] = 24
    few: ClassVar[int] = 3

    @cached_property
    def guesser(self) -> Guesser:
        return Guesser.made(draw(np.random.default_rng([self.seed, 1 << 20]), 3000), explained)

    @property
    def baseline(self) -> float:
        return self.guesser.baseline

    def trial(self, rng: np.random.Generator) -> Mapping[Against, float]:
        people = draw(rng, PEOPLE)
        return mean_of([self._right(record, people, rng) for record in draw(rng, RECORDS)])

    def _right(self, record: np.ndarray, people: np.ndarray, rng: np.random.Generator) -> dict[Against, float]:
        """The share of features of one record that is guessed right."""
        right = {EXACT: self.guesser.right(printed(explained(record)), 0.0, record)}
        for epsilon in self.epsilons:
            for who, told in published.values(answer, record, people, epsilon, rng).items():
                right[Against(who, epsilon)] = self.guesser.right(told.numbers, told.variance, record)
        model = pel.Model(lambda d: answer(d[NAMES].to_numpy(float)), output=(0, 1), features=NAMES, trained_on="other data")
        secret = pel.ShapValues(model, public_background=[dict(zip(NAMES, MIDDLE))])
        known = pel.ShapValues(model, {name: float(value) for name, value in zip(NAMES, record)})
        for who, table, asked in (("ours", record[None], secret), ("ours, record not the secret", people, known)):
            for epsilon in self.epsilons:
                made = session(columns(table), units(FEATURES), epsilon).release(asked, epsilon=epsilon)
                assert isinstance(made, pel.ShapValuesResult)
                right[Against(who, epsilon)] = self.guesser.right(made.values, made.law.std**2, record)
        return right
