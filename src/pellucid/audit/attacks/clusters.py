"""Membership from cluster histograms: small clusters, many values, and a person is one of a handful in each cell."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

import pellucid as pel

from ...baselines import clusters
from .base import session
from .membership import Membership, Told

GROUPS, ATTRIBUTES, VALUES = 3, 8, 12
NAMES = [f"a{j}" for j in range(ATTRIBUTES)]


@dataclass(frozen=True)
class Clusters(Membership):
    """The attribute that tells each cluster apart, with its histograms inside the cluster and of everybody.

    Numbers are shares of all people: cluster by cluster, attribute by attribute, value by value, and at last of everybody. Those
    of attributes that were not chosen are not released.
    """

    name: ClassVar[str] = "clusters"
    title: ClassVar[str] = "Was this person in the table? From the histograms of clusters"
    released: ClassVar[str] = f"chosen histograms of {GROUPS} clusters, {VALUES} values each, 30 people"

    @cached_property
    def _usual(self) -> np.ndarray:
        """How likely each value of each attribute is in each cluster of the population."""
        return np.random.default_rng(3).dirichlet(np.full(VALUES, 2.0), (GROUPS, ATTRIBUTES))

    def draw(self, rng: np.random.Generator, size: int) -> np.ndarray:
        group = rng.integers(GROUPS, size=size)
        below = self._usual.cumsum(axis=2)[group]
        found = (rng.random((size, ATTRIBUTES, 1)) > below).sum(axis=2)
        return np.column_stack([group, np.minimum(found, VALUES - 1)])

    def parts(self, rows: np.ndarray) -> np.ndarray:
        group, cells = np.eye(GROUPS)[rows[:, 0]], np.eye(VALUES)[rows[:, 1:]]
        inside = group[:, :, None, None] * cells[:, None, :, :]
        return np.hstack([inside.reshape(len(rows), -1), cells.reshape(len(rows), -1)])

    def _counts(self, rows: np.ndarray) -> list[np.ndarray]:
        """Exact counts, clusters × values for each attribute."""
        whole = self.parts(rows).sum(axis=0)[: GROUPS * ATTRIBUTES * VALUES].reshape(GROUPS, ATTRIBUTES, VALUES)
        return [whole[:, a] for a in range(ATTRIBUTES)]

    def _told(
        self, chosen: Sequence[int], inside: np.ndarray, whole: Mapping[int, np.ndarray], spread: tuple[float, float]
    ) -> Told:
        """Counts of a cluster a row and those of everybody by attribute, with their variances, as shares of all people."""
        numbers = np.full((GROUPS + 1, ATTRIBUTES, VALUES), np.nan)
        for c, a in enumerate(chosen):
            numbers[c, a] = inside[c]
        for a, counts in whole.items():
            numbers[GROUPS, a] = counts
        variance = np.repeat(spread, [GROUPS * ATTRIBUTES * VALUES, ATTRIBUTES * VALUES])
        return Told(numbers.ravel() / self.people, variance / self.people**2)

    def exact(self, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        counts = self._counts(rows)
        chosen = clusters.tabee(counts)
        inside = np.array([counts[a][c] for c, a in enumerate(chosen)])
        return self._told(chosen, inside, {a: counts[a].sum(axis=0) for a in chosen}, (0.0, 0.0)).numbers

    def published(self, rows: np.ndarray, epsilon: float, rng: np.random.Generator) -> Mapping[str, Told]:
        """DPClustX with a third of ε for each of its parts and the geometric mechanism for histograms."""
        counts, third = self._counts(rows), epsilon / 3
        chosen = clusters.paper_choice(counts, third, third, rng=rng)
        used = sorted(set(chosen))
        of_cluster, of_all = third / 2, third / 2 / len(used)

        def noisy(h: np.ndarray, share: float) -> np.ndarray:
            return h + rng.geometric(-math.expm1(-share), h.shape) - rng.geometric(-math.expm1(-share), h.shape)

        def variance(share: float) -> float:
            return 2 * math.exp(-share) / math.expm1(-share) ** 2

        inside = np.array([noisy(counts[a][c], of_cluster) for c, a in enumerate(chosen)])
        whole = {a: noisy(counts[a].sum(axis=0), of_all) for a in used}
        return {"published": self._told(chosen, inside, whole, (variance(of_cluster), variance(of_all)))}

    def ours(self, rows: np.ndarray, epsilon: float) -> Told:
        values = list(range(VALUES))
        schema = pel.Schema(
            {"group": pel.Category(list(range(GROUPS)), missing=0), **{name: pel.Category(values, missing=0) for name in NAMES}}
        )
        groups = pel.Clustering(lambda d: d["group"], clusters=range(GROUPS), features=["group"], trained_on="other data")
        table = {"group": rows[:, 0], **{name: rows[:, 1 + j] for j, name in enumerate(NAMES)}}
        made = session(table, schema, epsilon).release(pel.ClusterHistograms(groups, attributes=NAMES), epsilon=epsilon)
        assert isinstance(made, pel.ClusterExplanation)
        found = [next(iter(histograms.values())) for histograms in made.histograms.values()]
        chosen = [NAMES.index(h.feature) for h in found]
        spread = found[0].inside_law.std ** 2, found[0].whole_law.std ** 2
        return self._told(
            chosen, np.array([h.noisy_inside for h in found]), dict(zip(chosen, (h.noisy_whole for h in found))), spread
        )
