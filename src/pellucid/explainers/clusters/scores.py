"""Integer scores for explaining clusters by attributes, with bounds on how neighbours can change them.

The counts are cluster x value tables, one per attribute. In the paper's words (Int, Suf and d of Definitions 4.3, 4.6, 4.8),
the global score of a combination that gives cluster c the l attributes S_c is

    Gl = 1/(C·l) Σ_c Σ_{a in S_c} [w_I·Int(c, a) + w_S·Suf(c, a)]
         + 2·w_D/(C(C-1)·l²) Σ_{c<c'} Σ_{a in S_c, b in S_c'} d(c, c', a, b).

Two clusters with different attributes have d = min(n_c, n_c'), so up to a number that is the same for every combination Gl is
a sum over clusters minus a penalty w_D·2/(C(C-1)·l²)·(min - d) >= 0 for every attribute that two clusters share. Both tables
are multiplied by the public number `scale` and rounded down in integer arithmetic; the spans contain the rounding.

Reference: "Differentially private explanations for clusters" (DPClustX); the spans are ours and smaller than the paper's.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from ...errors import PlanError
from ...mechanisms import (
    AssignmentScores,
    Choosing,
    Spend,
    calibrate_assignment,
    choose,
    choose_assignment,
    root_below,
)
from ...public.schema import Relation
from ...query.bound import Bound
from ...query.bounds import CrossCells
from ...query.reviewed import reviewed
from ...query.scores import Score

GUARD = 64
"""Bits kept beyond the units while the terms of one entry are added: their floors together lose less than 2^-64 per value."""


@dataclass(frozen=True)
class _Counts:
    """One attribute's cluster x value counts, divided by a common factor so that products of two fit the number type."""

    h: np.ndarray
    factor: int

    @property
    def sizes(self) -> np.ndarray:
        return self.h.sum(axis=1)

    def interest(self) -> tuple[list[int], int]:
        """Numerators and the common denominator of Int, one per cluster."""
        sizes, whole = self.sizes, self.h.sum(axis=0)
        n = sizes.sum()
        away = np.abs(n * self.h - sizes[:, None] * whole).sum(axis=1)
        return [self.factor * int(v) for v in away.tolist()], 2 * max(int(n), 1)

    def sufficiency(self, weight: int) -> list[int]:
        """weight·2^GUARD·Suf, one per cluster, every term rounded down; 0/0 is 0."""
        whole = self.h.sum(axis=0)
        live = whole > 0
        below, scaled = whole[live].tolist(), (self.factor * weight) << GUARD
        return [sum(scaled * h * h // H for h, H in zip(row, below) if h) for row in self.h[:, live].tolist()]

    def shared(self, weight: int) -> list[list[int]]:
        """weight·2·(min - d) of every two clusters, rounded down: 2(min - d) = (2·n_c·n_e - Σ|n_e·h_c - n_c·h_e|)/max."""
        size = self.sizes
        cross = size[None, :, None] * self.h[:, None, :]
        short = 2 * size[:, None] * size - np.abs(cross - cross.transpose(1, 0, 2)).sum(axis=2)
        larger = np.maximum(np.maximum(size[:, None], size), 1)
        times = self.factor * weight
        out = [
            [times * top // bottom for top, bottom in zip(tops, bottoms)]
            for tops, bottoms in zip(short.tolist(), larger.tolist())
        ]
        for c, row in enumerate(out):
            row[c] = 0
        return out


def _split(totals: Sequence[int] | np.ndarray, clusters: int, sizes: Sequence[int]) -> Iterator[_Counts]:
    """The tables of the attributes. Dividing by the greatest common divisor changes no score: it only lets 64 bits suffice."""
    values = [int(v) for v in (totals.tolist() if isinstance(totals, np.ndarray) else totals)]
    if len(values) != clusters * sum(sizes):
        raise PlanError(f"{len(values)} totals for {clusters} clusters x {sum(sizes)} values; give one per cell.")
    factor = math.gcd(*values) or 1
    reduced = [v // factor for v in values]
    n = sum(reduced[: clusters * sizes[0]])
    kind: Any = np.int64 if 2 * n * n < 2**62 else object
    cells, at = np.array(reduced, dtype=kind), 0
    for m in sizes:
        yield _Counts(cells[at : at + clusters * m].reshape(clusters, m), factor)
        at += clusters * m


def _unary(counts: _Counts, interest: int, sufficiency: int) -> list[int]:
    """interest·Int + sufficiency·Suf, one per cluster; less than 1 + (values + 1)·2^-GUARD below the real number."""
    tops, bottom = counts.interest()
    parts = counts.sufficiency(sufficiency) if sufficiency else [0] * len(tops)
    return [(((interest * top) << GUARD) // bottom + part) >> GUARD for top, part in zip(tops, parts)]


def _check_shape(clusters: int, sizes: Sequence[int], weights: Sequence[int]) -> None:
    if clusters < 1 or not sizes or min(sizes) < 1:
        raise PlanError(f"{clusters} clusters and sizes={tuple(sizes)!r}: give at least one cluster and attributes with values.")
    if min(weights) < 0 or not any(weights):
        raise PlanError(f"weights {tuple(weights)!r}: give integers of at least 0 that are not all 0.")


@reviewed
@dataclass(frozen=True)
class CombinationScore(Score):
    """The score of "which attributes explain which cluster", over all combinations at once. Claim: cluster-combination-span

    >>> score = CombinationScore(2, (2,), 1, 1, 1)
    >>> score.tables([3, 1, 0, 4]).unary  # cluster 0 has 3 + 1 records, cluster 1 has 0 + 4
    [[4], [4]]
    """

    clusters: int
    """How many clusters are explained."""
    sizes: tuple[int, ...]
    """The numbers of values of the attributes."""
    interest: int
    """The weight of attributes whose values inside a cluster are unlike the whole; only ratios of weights count."""
    sufficiency: int
    """The weight of attributes whose values tell a cluster apart."""
    diversity: int
    """The weight of different attributes for different clusters."""
    per_cluster: int = 1
    """How many attributes are chosen for every cluster."""
    candidates: tuple[tuple[int, ...], ...] | None = None
    """The attributes each cluster may use; None for all of them."""
    claim = "cluster-combination-span"

    def __post_init__(self) -> None:
        _check_shape(self.clusters, self.sizes, (self.interest, self.sufficiency, self.diversity))
        allowed = self.allowed
        if len(allowed) != self.clusters or any(not set(row) <= set(range(len(self.sizes))) for row in allowed):
            raise PlanError(f"candidates: give {self.clusters} tuples of attribute numbers below {len(self.sizes)}.")
        fewest = min(len(set(row)) for row in allowed)
        if not 1 <= self.per_cluster <= fewest:
            raise PlanError(f"per_cluster={self.per_cluster}: a cluster has {fewest} attributes to choose from.")

    @property
    def allowed(self) -> tuple[tuple[int, ...], ...]:
        """The attributes each cluster may use."""
        return self.candidates if self.candidates is not None else (tuple(range(len(self.sizes))),) * self.clusters

    @property
    def scale(self) -> int:
        """Units of the integer score in one unit of total of the paper's score."""
        weights = self.interest + self.sufficiency + self.diversity
        return self.clusters * max(self.clusters - 1, 1) * self.per_cluster**2 * weights

    def fits(self, bound: Bound) -> bool:
        return isinstance(bound, CrossCells) and (bound.groups, bound.sizes) == (self.clusters, self.sizes)

    def calibrate(self, relation: Relation, units: int, spend: Spend, k: int) -> Choosing:
        return calibrate_assignment(self.span(relation, units), spend)

    def pick(self, totals: Sequence[int], how: Choosing) -> list[Any]:
        return choose_assignment(self.tables(totals), how, self.per_cluster, self.candidates)

    def tables(self, totals: Sequence[int] | np.ndarray) -> AssignmentScores:
        """Scores from exact totals (attribute by attribute, cluster by cluster, value by value): clusters are the places,
        attributes the items."""
        times = max(self.clusters - 1, 1) * self.per_cluster
        columns, penalty = [], []
        for counts in _split(totals, self.clusters, self.sizes):
            columns.append(_unary(counts, times * self.interest, times * self.sufficiency))
            penalty.append(counts.shared(self.diversity))
        return AssignmentScores([list(row) for row in zip(*columns)], penalty)

    def span(self, relation: Relation, units: int) -> int:
        """Bound on (largest minus smallest change, over all combinations) between neighbours; `units` is one record's weight."""
        c, picks = self.clusters, self.per_cluster
        rounding = picks * c * (c + 1) + 1
        if c == 1:  # Int is 0 and Suf is n, whatever the attribute
            return rounding
        i, s, d = self.interest * picks**2, self.sufficiency * picks**2, self.diversity * picks
        lower = max(s * (c - 1) ** 2 + 2 * d, (c - 1) * (s + 2 * d))
        once = (c - 1) * (s + 2 * d) + lower
        whole = (c - 1) * _interest_range(c, relation) * i + (2 if relation == "replace" else 1) * once
        return whole * units + rounding


def _interest_range(clusters: int, relation: Relation) -> int:
    """Bound on the sum over clusters of the range of ΔInt, in records: a replacement is not two additions."""
    return 6 if relation == "replace" and clusters > 2 else 4


@reviewed
@dataclass(frozen=True)
class CandidateScore(Score):
    """Scores of each attribute for each cluster alone, to draw k candidates per cluster. Claim: cluster-candidates-span

    >>> CandidateScore(2, (2,), 1, 1).of([3, 1, 0, 4])
    [[4], [4]]
    """

    clusters: int
    """How many clusters are explained."""
    sizes: tuple[int, ...]
    """The numbers of values of the attributes."""
    interest: int
    """The weight of attributes whose values inside a cluster are unlike the whole; only ratios of weights count."""
    sufficiency: int
    """The weight of attributes whose values tell a cluster apart."""
    claim = "cluster-candidates-span"

    def __post_init__(self) -> None:
        _check_shape(self.clusters, self.sizes, (self.interest, self.sufficiency))

    def fits(self, bound: Bound) -> bool:
        return isinstance(bound, CrossCells) and (bound.groups, bound.sizes) == (self.clusters, self.sizes)

    def calibrate(self, relation: Relation, units: int, spend: Spend, k: int) -> Choosing:
        rate = self.rate(relation, units, spend, k)
        cost, span = self.cost(relation, units, rate, k, spend.currency), sum(self.spans(relation, units))
        return Choosing("exponential mechanism", rate, k, span, cost, "exponential-bounded-range")

    def pick(self, totals: Sequence[int], how: Choosing) -> list[Any]:
        return [tuple(choose(row, how)) for row in self.of(totals)]

    def of(self, totals: Sequence[int] | np.ndarray) -> list[list[int]]:
        """Integer scores, a row per cluster."""
        columns = [_unary(counts, self.interest, self.sufficiency) for counts in _split(totals, self.clusters, self.sizes)]
        return [list(row) for row in zip(*columns)]

    def spans(self, relation: Relation, units: int) -> list[int]:
        """The worst (largest minus smallest change over attributes), one per cluster: worst for the sum and for the squares."""
        rounding = 3
        if self.clusters == 1:
            return [rounding]
        moved = min(_interest_range(self.clusters, relation) // 2, self.clusters)
        base = units * self.sufficiency * (2 if relation == "replace" else 1) + rounding
        return [base + 2 * units * self.interest * (c < moved) for c in range(self.clusters)]

    def rate(self, relation: Relation, units: int, spend: Spend, k: int) -> Fraction:
        """The factor of the score in the exponent, when k attributes per cluster are peeled by the exponential mechanism."""
        if not 1 <= k <= len(self.sizes):
            raise PlanError(f"k={k} candidates out of {len(self.sizes)} attributes.")
        spans = self.spans(relation, units)
        if spend.currency == "epsilon":
            return spend.amount / (k * sum(spans))
        return root_below(8 * spend.amount / (k * sum(span * span for span in spans)))

    def sigma(self, relation: Relation, units: int, spend: Spend, k: int) -> Fraction:
        """The scale of Gumbel noise on the scores, in units of the totals, that the rate is equivalent to."""
        return 1 / self.rate(relation, units, spend, k)

    def cost(self, relation: Relation, units: int, rate: Fraction, k: int, currency: str) -> Fraction:
        """What k draws per cluster cost at a rate."""
        spans = self.spans(relation, units)
        if currency == "epsilon":
            return k * rate * sum(spans)
        return k * rate**2 * sum(span * span for span in spans) / 8


def combinations_of(score: CombinationScore) -> Iterator[tuple[tuple[int, ...], ...]]:
    """Every combination the score ranks, for enumeration on small cases."""
    return itertools.product(*(itertools.combinations(sorted(set(row)), score.per_cluster) for row in score.allowed))
