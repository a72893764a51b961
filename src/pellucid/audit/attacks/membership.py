"""Was this person in the table? A likelihood ratio against any release that is a mean over people, with shadow data.

The attacker knows the person, the population (a large sample of other people, the shadow data) and what the certificate says
about the noise. Were the person in the table, the released numbers would lean towards theirs by one part in n; how much the
numbers vary anyway follows from the shadow data. For normal numbers no test is better than this ratio.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from .base import DIGITS, EXACT, Against, Attack, auc, printed

STRANGERS = 10
"""People outside the table for each one inside: more of them make the figure surer, not better."""

SHADOW = 4000
"""People in the attacker's own sample of the population."""


@dataclass(frozen=True, eq=False)
class Shadow:
    """What the attacker's own sample says about released means."""

    mean: np.ndarray
    """Of what a person adds."""
    covariance: np.ndarray
    """Of the means over a table."""


@dataclass(frozen=True, eq=False)
class View:
    """What the attacker knows of released numbers that are not those of the explanation without noise."""

    parts: Callable[[np.ndarray], np.ndarray]
    """What each person adds to them."""
    shadow: Shadow


@dataclass(frozen=True, eq=False)
class Told:
    """Released means, and how large their noise is; NaN where nothing was released."""

    numbers: np.ndarray
    """The means over the people."""
    variance: np.ndarray | float
    """Of the noise on each of them, which is public."""
    view: View | None = None
    """Where these are other numbers than the attack is about without noise."""


@dataclass(frozen=True)
class Membership(Attack):
    """Who was in the table, and who of the same population was not?"""

    people: ClassVar[int] = 30

    @abstractmethod
    def draw(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """People of the population, one a row."""

    @abstractmethod
    def parts(self, rows: np.ndarray) -> np.ndarray:
        """What each person adds to the mean: a row of numbers each."""

    @abstractmethod
    def ours(self, rows: np.ndarray, epsilon: float) -> Told:
        """The release of a session."""

    def exact(self, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """The same means without noise."""
        return self.parts(rows).mean(axis=0)

    def published(self, rows: np.ndarray, epsilon: float, rng: np.random.Generator) -> Mapping[str, Told]:
        """The releases of published mechanisms, by name."""
        return {}

    def also_ours(self, rows: np.ndarray, epsilon: float) -> Mapping[str, Told]:
        """Releases of sessions in other ways, by name."""
        return {}

    @cached_property
    def shadow(self) -> Shadow:
        return self.shadow_of(self.parts)

    def shadow_of(self, parts: Callable[[np.ndarray], np.ndarray]) -> Shadow:
        added = parts(self.draw(np.random.default_rng([self.seed, 1 << 20]), SHADOW))
        return Shadow(added.mean(axis=0), np.cov(added.T) / self.people)

    def trial(self, rng: np.random.Generator) -> Mapping[Against, float]:
        inside, outside = self.draw(rng, self.people), self.draw(rng, STRANGERS * self.people)
        told = {EXACT: Told(printed(self.exact(inside, rng)), 10.0 ** (-2 * DIGITS) / 12)}
        for epsilon in self.epsilons:
            for who, release in self.published(inside, epsilon, rng).items():
                told[Against(who, epsilon)] = release
        for epsilon in self.epsilons:
            told[Against("ours", epsilon)] = self.ours(inside, epsilon)
        for epsilon in self.epsilons:
            for who, release in self.also_ours(inside, epsilon).items():
                told[Against(who, epsilon)] = release
        both = np.vstack([inside, outside])
        scores = {against: self.scores(release, both) for against, release in told.items()}
        return {against: auc(found[: self.people], found[self.people :]) for against, found in scores.items()}

    def scores(self, told: Told, rows: np.ndarray) -> np.ndarray:
        """For each person the log-likelihood ratio of the release: with the person in the table, against without."""
        seen, view = np.isfinite(told.numbers), told.view or View(self.parts, self.shadow)
        lean = (view.parts(rows) - view.shadow.mean)[:, seen] / self.people
        noise = np.broadcast_to(told.variance, told.numbers.shape)[seen]
        direction = np.linalg.solve(view.shadow.covariance[np.ix_(seen, seen)] + np.diag(noise), lean.T)
        moved = told.numbers[seen] - view.shadow.mean[seen]
        return moved @ direction - (lean.T * direction).sum(axis=0) / 2
