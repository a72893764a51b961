"""What attacks share: what they are asked, what they find, and how sure the figure is.

An attack is repeated on tables that are drawn anew. On each of them the same people are attacked through the explanation without
noise, through the published mechanism where there is one, and through ours. The tables follow a seed. The noise of ours never
does: it comes from a session, as for everybody else.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.special import stdtrit

import pellucid as pel

EPSILONS = (0.1, 1.0, 10.0)
"""What a release costs."""

DIGITS = 4
"""Digits after the point that are printed of an explanation without noise: an attacker has no more of it."""


class Against(NamedTuple):
    """What is attacked."""

    who: str
    epsilon: float | None = None

    def __str__(self) -> str:
        return self.who if self.epsilon is None else f"{self.who}, ε = {self.epsilon:g}"


EXACT = Against("without noise")


@dataclass(frozen=True)
class Outcome:
    """How well one attack did against one release."""

    attack: str
    """The name of the attack."""
    released: str
    """What the attacker was shown."""
    against: str
    """Whose release it was: without noise, published or ours."""
    epsilon: float | None
    """What it cost; nothing without noise."""
    figure: str
    """What `value` is: an AUC, or the share of guesses that are right."""
    value: float
    """The figure, a mean over tables."""
    low: float
    """The lower end of its 95 % interval."""
    high: float
    """The upper end."""
    baseline: float
    """The figure of somebody who was shown nothing."""
    tables: int
    """On how many tables it was measured."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Attack(ABC):
    """An attack, and the small study that it is tried on."""

    epsilons: tuple[float, ...] = EPSILONS
    """What the attacked releases cost."""
    seed: int = 0
    """Of the tables."""

    name: ClassVar[str]
    title: ClassVar[str]
    released: ClassVar[str]
    figure: ClassVar[str] = "AUC"
    tables: ClassVar[int] = 60
    """How many tables it is tried on."""
    few: ClassVar[int] = 10
    """How many tables are enough for a quick look."""

    @abstractmethod
    def trial(self, rng: np.random.Generator) -> Mapping[Against, float]:
        """The figure on one table that is drawn here, for everything that is attacked."""

    @property
    def baseline(self) -> float:
        """The figure of somebody who was shown nothing."""
        return 0.5

    def outcomes(self, tables: int | None = None, tick: Callable[[], object] = lambda: None) -> list[Outcome]:
        """The attack on so many tables; `tick` is called after each."""
        found = []
        for i in range(tables or self.tables):
            found.append(self.trial(np.random.default_rng([self.seed, i])))
            tick()
        return [self._outcome(against, [trial[against] for trial in found]) for against in found[0]]

    def _outcome(self, against: Against, figures: Sequence[float]) -> Outcome:
        value, low, high = mean_interval(figures)
        who, epsilon = against
        return Outcome(
            self.name, self.released, who, epsilon, self.figure, value, low, high, self.baseline, len(figures)
        )  # fmt: skip


def mean_interval(figures: Sequence[float]) -> tuple[float, float, float]:
    """The mean of figures between 0 and 1, with its 95 % interval by Student's t.

    >>> [round(v, 3) for v in mean_interval([0.4, 0.5, 0.6])]
    [0.5, 0.252, 0.748]
    """
    count, value = len(figures), float(np.mean(figures))
    if count < 2:
        return value, 0.0, 1.0
    half = float(stdtrit(count - 1, 0.975)) * float(np.std(figures, ddof=1)) / math.sqrt(count)
    return value, max(value - half, 0.0), min(value + half, 1.0)


def auc(inside: np.ndarray, outside: np.ndarray) -> float:
    """How often somebody inside has a higher score than somebody outside; ties count half.

    >>> auc(np.array([2.0, 3.0]), np.array([1.0, 2.0]))
    0.875
    """
    difference = inside[:, None] - outside[None, :]
    return float(np.mean((difference > 0) + (difference == 0) / 2))


def printed(numbers: np.ndarray) -> np.ndarray:
    """Numbers as an explanation without noise shows them."""
    return np.round(numbers, DIGITS)


def session(table: Mapping[str, Any], schema: pel.Schema, epsilon: float) -> pel.Session:
    """A session on a table of one trial, whose whole budget is `epsilon`."""
    return pel.Session(dict(table), schema, budget=pel.Budget(epsilon=epsilon))


def columns(rows: np.ndarray, prefix: str = "x") -> dict[str, np.ndarray]:
    """A table with the columns x0, x1, … of a matrix.

    >>> list(columns(np.zeros((1, 2))))
    ['x0', 'x1']
    """
    return {f"{prefix}{j}": rows[:, j] for j in range(rows.shape[1])}


def units(size: int, prefix: str = "x") -> pel.Schema:
    """A schema of `size` numbers between 0 and 1."""
    return pel.Schema({f"{prefix}{j}": pel.Number(0, 1, missing=0.5) for j in range(size)})
