"""Results that order things: importances of features, and votes on items. With tiers that say how sure the order is."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ...release.explanation import Explanation, frame
from . import plots, sentences


def some(names: Sequence[str]) -> str:
    """The first names of a list, and how many more there are."""
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


@dataclass(frozen=True, eq=False, kw_only=True)
class Ordered(Explanation):
    """Named numbers whose order matters."""

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """What is ordered."""

    @property
    @abstractmethod
    def scores(self) -> np.ndarray:
        """The released numbers, larger first in the order."""

    @abstractmethod
    def certain_gap(self, level: float = 0.95) -> float:
        """Whatever is further apart than this is in the right order, all pairs at once, with probability `level`."""

    @property
    def order(self) -> list[int]:
        """Positions of the names, the largest first."""
        return [int(i) for i in np.argsort(-self.scores, kind="stable")]

    @property
    def ranking(self) -> tuple[str, ...]:
        """The names, the largest first."""
        return tuple(self.names[i] for i in self.order)

    def tiers(self, level: float = 0.95) -> list[tuple[str, ...]]:
        """The ranking cut where the noise cannot have swapped anything: with probability `level` every name of a tier
        belongs before every name of the next. Inside a tier the order may be due to noise."""
        gap, found = self.certain_gap(level), []
        for before, i in zip([None, *self.order], self.order):
            if before is None or self.scores[before] - self.scores[i] > gap:
                found.append([self.names[i]])
            else:
                found[-1].append(self.names[i])
        return [tuple(tier) for tier in found]

    @property
    def verdict(self) -> str:
        """What can be told from the numbers and what cannot, in one sentence."""
        tiers = self.tiers()
        lower, upper = self.interval()
        clear = [name for name, low, high in zip(self.names, lower, upper) if low > 0 or high < 0]
        if len(tiers) > 1:
            ahead = "; then ".join(some(tier) for tier in tiers[:3]) + ("; …" if len(tiers) > 3 else "")
            told = f"the order {ahead} is sure (95 %)"
        else:
            told = "no order among them is sure"
        unclear = [name for name in self.names if name not in clear]
        rest = f"; {some(unclear)} cannot be told from zero" if unclear and clear else ""
        return told + (rest if clear else "; none can be told from zero: mostly noise") + "."

    @property
    def headline(self) -> str:
        return sentences.leading(self, "{} matters most", "{} matter most", "Nothing stands out of the noise")

    @property
    def notes(self) -> tuple[str, ...]:
        return (*super().notes, self.verdict)

    def _tier_of(self, level: float = 0.95) -> dict[str, int]:
        return {name: number for number, tier in enumerate(self.tiers(level), 1) for name in tier}

    def to_frame(self) -> pd.DataFrame:
        """The names in order, with their error bars and tiers."""
        lower, upper = self.interval()
        order, tier = self.order, self._tier_of()
        more = {"tier": [tier[name] for name in self.ranking], **self._beside()}
        return frame(self.ranking, self.scores[order], lower[order], upper[order], **more)

    def plot(self, ax: Any = None) -> Any:
        return plots.ranked(self, ax)


@dataclass(frozen=True, eq=False, kw_only=True)
class OrderedFeatures(Ordered):
    """Features in the order of one number each."""

    features: tuple[str, ...]
    """What the values belong to."""
    values: np.ndarray
    """The released number of each feature."""

    @property
    def names(self) -> tuple[str, ...]:
        return self.features

    @property
    def scores(self) -> np.ndarray:
        return self.values
