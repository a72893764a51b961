"""A secret column, bit by bit, from many questions about subsets (Dinur and Nissim 2003).

Each answer is a mean over people whom the attacker has chosen. From enough of them the column follows by least squares, through
any noise that stays the same however often one asks. What stops it is the budget: it is charged for every question, and then it
is gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import pandas as pd

import pellucid as pel

from .base import EXACT, Against, Attack, printed

PEOPLE, QUESTIONS, SUBSETS = 64, 32, 16
PRICE = 2.0
"""ε of a question, where the budget is as large as that."""
UNLIMITED = QUESTIONS * PRICE


@dataclass(frozen=True)
class Questions(Attack):
    """Partial dependence curves of a model that the attacker wrote: along `set` it answers the secret of one subset each.

    Everybody's `place` in the list is known, and so is who is in which subset.
    """

    name: ClassVar[str] = "questions"
    title: ClassVar[str] = "What is everybody's secret? From many questions about subsets"
    released: ClassVar[str] = f"up to {QUESTIONS} curves of {SUBSETS} subset means, {PEOPLE} people"
    figure: ClassVar[str] = "accuracy"
    tables: ClassVar[int] = 20
    few: ClassVar[int] = 3

    @cached_property
    def subsets(self) -> np.ndarray:
        """Who is in which subset: questions × subsets × people."""
        return np.random.default_rng([self.seed, 9]).random((QUESTIONS, SUBSETS, PEOPLE)) < 0.5

    def trial(self, rng: np.random.Generator) -> Mapping[Against, float]:
        secret = rng.random(PEOPLE) < 0.5
        whole = printed(self.subsets @ secret.astype(float) / PEOPLE)
        told = {EXACT: list(whole), Against("noise, but no budget", UNLIMITED): self.asked(secret, UNLIMITED)}
        for epsilon in self.epsilons:
            told[Against("ours", epsilon)] = self.asked(secret, epsilon)
        return {against: float(np.mean(self.guess(answers) == secret)) for against, answers in told.items()}

    def asked(self, secret: np.ndarray, budget: float) -> list[np.ndarray]:
        """The answers of a session to one question after another, until all are asked or the budget is gone."""
        schema = pel.Schema(
            {
                "place": pel.Number(0, PEOPLE - 1, integer=True, missing=0),
                "secret": pel.Boolean(missing=False),
                "set": pel.Number(0, SUBSETS - 1, integer=True, missing=0),
            }
        )
        table = {"place": np.arange(PEOPLE), "secret": secret, "set": np.zeros(PEOPLE, dtype=int)}
        session = pel.Session(table, schema, budget=pel.Budget(epsilon=budget))
        answers = []
        for members in self.subsets:
            try:
                answers.append(session.release(self._question(members), epsilon=min(PRICE, budget)))
            except pel.BudgetExceeded:
                break
        return [curve.y for curve in answers]  # type: ignore[attr-defined]

    @staticmethod
    def _question(members: np.ndarray) -> pel.PartialDependence:
        def inside(d: pd.DataFrame) -> np.ndarray:
            return members[d["set"].to_numpy(int), d["place"].to_numpy(int)] * d["secret"].to_numpy(float)

        model = pel.Model(inside, output=(0, 1), features=["place", "secret", "set"], trained_on="other data")
        return pel.PartialDependence(model, "set", points=SUBSETS, method="values")

    def guess(self, answers: list[np.ndarray]) -> np.ndarray:
        """Least squares around one half, shortened where there are few answers."""
        members = self.subsets[: len(answers)].reshape(-1, PEOPLE) / PEOPLE
        moved = np.concatenate(answers) - members.sum(axis=1) / 2
        found = members.T @ np.linalg.solve(members @ members.T + 1e-4 * np.eye(len(members)), moved)
        return found > 0
