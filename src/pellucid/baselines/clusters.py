"""Attributes that explain clusters, chosen as published: for comparison only.

The literal mechanisms of "Differentially Private Explanations for Clusters" (DPClustX and its baselines) with the constants the
paper prints. Nothing here is certified or can be charged to an account: scores are floats, noise comes from numpy's generator,
and DP-TabEE uses lower bounds of sensitivities as if they were bounds.

Data are counts: one integer array (clusters × values) per attribute, each with the same records per cluster. A combination is a
tuple with the attribute of every cluster.

>>> counts = [np.array([[4, 0], [0, 4]]), np.array([[2, 2], [2, 2]])]
>>> tabee(counts, k=2)
(0, 0)
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

Counts = Sequence[np.ndarray]
Combination = tuple[int, ...]

GRID = 2_000_000
"""Combinations held in memory at once."""


class Weights(NamedTuple):
    """λ: what interestingness, sufficiency and diversity count for. They should sum to 1."""

    interest: float = 1 / 3
    sufficiency: float = 1 / 3
    diversity: float = 1 / 3


EQUAL = Weights()


def cluster_sizes(counts: Counts) -> np.ndarray:
    return np.asarray(counts[0]).sum(axis=1)


def _shares(h: np.ndarray) -> np.ndarray:
    return h / np.maximum(h.sum(axis=-1, keepdims=True), 1)


def total_variation(counts: Counts, totals: Counts | None = None) -> np.ndarray:
    """TVD between each cluster and all records, clusters × attributes (equation 1). `totals`: histograms of all records, when
    they are not the sums of the clusters' (noisy ones)."""
    whole = [h.sum(axis=0) for h in counts] if totals is None else totals
    return np.stack([np.abs(_shares(h) - _shares(t)).sum(axis=1) / 2 for h, t in zip(counts, whole, strict=True)], axis=1)


def interest(counts: Counts) -> np.ndarray:
    """Int_p, clusters × attributes (Definition 4.3)."""
    return total_variation(counts) * cluster_sizes(counts)[:, None]


def sufficiency(counts: Counts, totals: Counts | None = None) -> np.ndarray:
    """Suf_p, clusters × attributes (Definition 4.6); a noisy total below a cluster's count is raised to it."""
    columns = []
    for i, h in enumerate(counts):
        whole = np.maximum(h, h.sum(axis=0) if totals is None else totals[i])
        columns.append((h * (h / np.maximum(whole, 1))).sum(axis=1))
    return np.stack(columns, axis=1)


def pair_distance(counts: Counts) -> np.ndarray:
    """TVD between every two clusters, attributes × clusters × clusters."""
    shares = [_shares(h) for h in counts]
    return np.stack([np.abs(s[:, None, :] - s[None, :, :]).sum(axis=2) / 2 for s in shares])


def pair_diversity(counts: Counts) -> np.ndarray:
    """d of two clusters that share the attribute, attributes × clusters × clusters (Definition 4.8)."""
    sizes = cluster_sizes(counts)
    return pair_distance(counts) * np.minimum.outer(sizes, sizes)


def single_scores(counts: Counts, weights: Weights = EQUAL) -> np.ndarray:
    """Score_γ, clusters × attributes (Definition 4.11), γ the weights of interestingness and sufficiency scaled to sum 1."""
    whole = weights.interest + weights.sufficiency
    if not whole > 0:
        raise ValueError(f"candidates need a weight for interestingness or sufficiency, got {weights}")
    return (weights.interest * interest(counts) + weights.sufficiency * sufficiency(counts)) / whole


class Objective(ABC):
    """A score of combinations: base + Σ_c unary[c, a_c] - what clusters with the same attribute lose, attribute by attribute."""

    def __init__(self, base: float, unary: np.ndarray) -> None:
        self.base, self.unary = base, unary
        self._tables: dict[tuple[int, tuple[int, ...]], np.ndarray] = {}

    @abstractmethod
    def _losses(self, attribute: int, members: list[int], present: np.ndarray) -> np.ndarray:
        """The loss when exactly the members marked in a row of `present` (subsets × members) use the attribute."""

    def losses(self, attribute: int, members: Sequence[int]) -> np.ndarray:
        """The loss of every subset of `members`; bit i of the index is members[i]."""
        key = (attribute, tuple(members))
        if key not in self._tables:
            present = (np.arange(1 << len(members))[:, None] >> np.arange(len(members))) & 1
            self._tables[key] = self._losses(attribute, list(members), present.astype(bool))
        return self._tables[key]

    def of(self, combination: Sequence[int]) -> float:
        total = self.base + sum(self.unary[c, a] for c, a in enumerate(combination))
        for a in set(combination):
            members = [c for c, other in enumerate(combination) if other == a]
            if len(members) > 1:
                total -= self._losses(a, members, np.ones((1, len(members)), dtype=bool))[0]
        return float(total)

    def grid(self, candidates: Sequence[Sequence[int]]) -> np.ndarray:
        """The score of every combination of candidates: one axis per cluster."""
        clusters = len(candidates)

        def along(axis: int, values: np.ndarray) -> np.ndarray:
            return values.reshape([-1 if c == axis else 1 for c in range(clusters)])

        total = np.full([len(row) for row in candidates], self.base)
        for c, row in enumerate(candidates):
            total += along(c, self.unary[c, list(row)])
        for a in {a for row in candidates for a in row}:
            members = [c for c, row in enumerate(candidates) if a in row]
            if len(members) > 1:
                users = sum(along(c, (np.asarray(candidates[c]) == a).astype(np.int64) << i) for i, c in enumerate(members))
                total -= self.losses(a, members)[users]
        return total


class GlobalScore(Objective):
    """GlScore (Definition 4.13)."""

    def __init__(self, counts: Counts, weights: Weights = EQUAL) -> None:
        sizes = cluster_sizes(counts)
        clusters = len(sizes)
        least = np.minimum.outer(sizes, sizes)
        pair = 2 * weights.diversity / (clusters * (clusters - 1)) if clusters > 1 else 0.0
        unary = (weights.interest * interest(counts) + weights.sufficiency * sufficiency(counts)) / clusters
        super().__init__(pair * float(np.triu(least, 1).sum()), unary)
        self.penalty = pair * (least - pair_diversity(counts))
        """attributes × clusters × clusters: what two clusters lose by sharing the attribute."""

    def _losses(self, attribute: int, members: list[int], present: np.ndarray) -> np.ndarray:
        table = np.triu(self.penalty[attribute][np.ix_(members, members)], 1)
        return ((present @ table) * present).sum(axis=1)


class Quality(Objective):
    """The sensitive original λ_I·Int + λ_S·Suf + λ_D·Div, between 0 and 1 (section 6.1, appendices A.2 and A.3).

    Div averages over the orders of the clusters that share an attribute the sum of each cluster's least distance to those before
    it; the first counts 1. The paper writes a sum over orders and leaves the first open; its stated range and Table 1
    (Div = 0.965 with three clusters, two of which share) need this reading.
    """

    def __init__(self, counts: Counts, weights: Weights = EQUAL, totals: Counts | None = None) -> None:
        clusters = len(counts[0])
        whole = np.array([h.sum() for h in (counts if totals is None else totals)])
        variation, enough = total_variation(counts, totals), sufficiency(counts, totals)
        super().__init__(
            weights.diversity, weights.interest / clusters * variation + weights.sufficiency * enough / np.maximum(whole, 1)
        )
        size = np.stack([h.sum(axis=1) for h in counts], axis=1)
        gamma = weights.interest / max(weights.interest + weights.sufficiency, 1e-300)
        self.single = gamma * variation + (1 - gamma) * enough / np.maximum(size, 1)
        """clusters × attributes: the sensitive score that ranks the candidates of a cluster."""
        self._share = weights.diversity / clusters
        self._distance = pair_distance(counts)

    def _losses(self, attribute: int, members: list[int], present: np.ndarray) -> np.ndarray:
        users = present.sum(axis=1)
        return self._share * (users - order_diversity(self._distance[attribute][np.ix_(members, members)], present))


def order_diversity(distance: np.ndarray, present: np.ndarray) -> np.ndarray:
    """For each row of `present`, the mean over all orders of the marked clusters of 1 + Σ_(i>1) min_(j<i) distance.

    The k-th nearest of the others decides cluster x when it comes before x and the nearer ones after: probability 1/(k(k+1)).
    """
    total = present.any(axis=1).astype(float)
    for x in range(len(distance)):
        order = [y for y in np.argsort(distance[x], kind="stable") if y != x]
        rank = np.cumsum(present[:, order], axis=1)
        decides = present[:, order] / np.maximum(rank * (rank + 1), 1)
        total += present[:, x] * (decides * distance[x, order]).sum(axis=1)
    return total


def interestingness(counts: Counts, combination: Sequence[int]) -> float:
    """Int: the mean TVD of the clusters."""
    return float(np.mean([total_variation(counts)[c, a] for c, a in enumerate(combination)]))


def sufficiency_share(counts: Counts, combination: Sequence[int]) -> float:
    """Suf, by Proposition 4.7: Σ_c Suf_p / n."""
    enough = sufficiency(counts)
    return float(sum(enough[c, a] for c, a in enumerate(combination)) / max(counts[0].sum(), 1))


def diversity(counts: Counts, combination: Sequence[int]) -> float:
    """Div divided by the number of clusters, over permutations: see `Quality`."""
    return Quality(counts, Weights(0.0, 0.0, 1.0)).of(combination)


def quality(counts: Counts, combination: Sequence[int], weights: Weights = EQUAL) -> float:
    """The paper's measure of a combination."""
    return Quality(counts, weights).of(combination)


def global_score(counts: Counts, combination: Sequence[int], weights: Weights = EQUAL) -> float:
    return GlobalScore(counts, weights).of(combination)


def mae(combination: Sequence[int], reference: Sequence[int]) -> float:
    """The share of clusters whose attribute differs."""
    return float(np.mean([a != b for a, b in zip(combination, reference, strict=True)]))


def two_stage(
    objective: Objective, single: np.ndarray, k: int, scale: float, rate: float, rng: np.random.Generator | None
) -> Combination:
    """Noisy top-k of `single` in each cluster (Gumbel noise of that scale), then one of the k^C combinations with probability
    proportional to exp(rate·objective). A rate of infinity takes the best combination; scale 0 needs no generator."""
    noisy = single
    if scale:
        assert rng is not None
        noisy = single + rng.gumbel(scale=scale, size=single.shape)
    candidates = [row.tolist() for row in np.argsort(-noisy, axis=1, kind="stable")[:, :k]]
    best, found = -np.inf, None
    for chunk in _chunks(candidates):
        values = objective.grid(chunk)
        if np.isfinite(rate):
            assert rng is not None
            values = rate * values + rng.gumbel(size=values.shape)
        where = np.unravel_index(int(values.argmax()), values.shape)
        if values[where] > best:
            best, found = float(values[where]), tuple(chunk[c][int(i)] for c, i in enumerate(where))
    assert found is not None
    return found


def _chunks(candidates: list[list[int]]) -> Iterator[list[list[int]]]:
    """The same combinations in pieces of at most GRID: the first clusters fixed."""
    fixed, left = 0, int(np.prod([len(row) for row in candidates], dtype=float))
    while left > GRID:
        left //= len(candidates[fixed])
        fixed += 1
    for prefix in itertools.product(*candidates[:fixed]):
        yield [[a] for a in prefix] + candidates[fixed:]


def paper_choice(
    counts: Counts,
    epsilon_candidates: float,
    epsilon_combination: float,
    *,
    k: int = 3,
    weights: Weights = EQUAL,
    rng: np.random.Generator,
) -> Combination:
    """DPClustX (Algorithms 1 and 2, without histograms): Gumbel noise 2kC/ε, then exponent ε·GlScore/2."""
    clusters = len(counts[0])
    scale = 2 * k * clusters / epsilon_candidates
    return two_stage(GlobalScore(counts, weights), single_scores(counts, weights), k, scale, epsilon_combination / 2, rng)


def tabee(counts: Counts, *, k: int = 3, weights: Weights = EQUAL, totals: Counts | None = None) -> Combination:
    """The non-private selection: the best Quality among the k best attributes of each cluster."""
    objective = Quality(counts, weights, totals)
    return two_stage(objective, objective.single, k, 0.0, np.inf, None)


def dp_tabee(
    counts: Counts,
    epsilon_candidates: float,
    epsilon_combination: float,
    *,
    k: int = 3,
    weights: Weights = EQUAL,
    rng: np.random.Generator,
) -> Combination:
    """TabEE with noise for sensitivity 1/2, the lower bound of Propositions 4.1 and 4.5: generous to this baseline."""
    objective = Quality(counts, weights)
    scale = k * len(counts[0]) / epsilon_candidates
    return two_stage(objective, objective.single, k, scale, epsilon_combination, rng)


def naive_choice(
    counts: Counts, epsilon: float, *, k: int = 3, weights: Weights = EQUAL, rng: np.random.Generator
) -> Combination:
    """DP-Naive: geometric noise on every histogram, ε/(2·attributes) each for all records and for the clusters; then TabEE."""
    share = epsilon / (2 * len(counts))

    def noisy(h: np.ndarray) -> np.ndarray:
        stop = -np.expm1(-share)
        return np.maximum(h + rng.geometric(stop, size=h.shape) - rng.geometric(stop, size=h.shape), 0)

    return tabee([noisy(h) for h in counts], k=k, weights=weights, totals=[noisy(h.sum(axis=0)) for h in counts])


def best_combination(counts: Counts, weights: Weights = EQUAL, k: int | None = None) -> Combination:
    """The combination with the largest GlScore: of all of them, or of the k best attributes of each cluster."""
    objective = GlobalScore(counts, weights)
    if k is not None:
        return two_stage(objective, single_scores(counts, weights), k, 0.0, np.inf, None)
    search = _Search(objective)
    search.visit([None] * len(objective.unary), objective.unary.copy(), 0.0)
    return search.best


class _Search:
    """Branch and bound.

    The bound of a node: each free cluster takes its best attribute given the clusters already fixed. Free clusters with the same
    best attribute either stay, and pay for the pairs that stay, or leave, and lose at least the step to their second best: the
    cheapest split of each such group is subtracted. Groups have no cluster in common, so the bound holds.
    """

    def __init__(self, objective: GlobalScore) -> None:
        self.objective = objective
        clusters, attributes = objective.unary.shape
        self.best: Combination = tuple(int(a) for a in objective.unary.argmax(axis=1))
        self.value = objective.of(self.best) - objective.base
        for _ in range(clusters):
            for c in range(clusters):
                tries = [(*self.best[:c], a, *self.best[c + 1 :]) for a in range(attributes)]
                self._offer(max(tries, key=objective.of))

    def _offer(self, combination: Combination) -> None:
        value = self.objective.of(combination) - self.objective.base
        if value > self.value:
            self.best, self.value = combination, value

    def visit(self, fixed: list[int | None], marginal: np.ndarray, value: float) -> None:
        free = [c for c, a in enumerate(fixed) if a is None]
        if not free:
            self._offer(tuple(a for a in fixed if a is not None))
            return
        bound, picks, contested = self._bound(free, marginal, value)
        self._offer(tuple(picks[c] if a is None else a for c, a in enumerate(fixed)))
        if bound <= self.value + 1e-12 * abs(self.value):
            return
        c = contested
        rest = value + sum(marginal[d].max() for d in free if d != c)
        for a in np.argsort(-marginal[c], kind="stable").tolist():
            if rest + marginal[c, a] <= self.value:
                break
            child = marginal.copy()
            child[:, a] -= self.objective.penalty[a][:, c]
            self.visit([a if d == c else b for d, b in enumerate(fixed)], child, value + float(marginal[c, a]))

    def _bound(self, free: list[int], marginal: np.ndarray, value: float) -> tuple[float, dict[int, int], int]:
        """(upper bound, the attributes it rests on, the cluster to branch on)."""
        order = np.argsort(-marginal[free], axis=1, kind="stable")[:, :2]
        first = {c: int(a) for c, a in zip(free, order[:, 0], strict=True)}
        second = {c: int(row[-1]) for c, row in zip(free, order, strict=True)}
        picks = dict(first)
        bound = value + sum(float(marginal[c, a]) for c, a in first.items())
        contested, worst = free[0], -1.0
        for a in set(first.values()):
            group = [c for c in free if first[c] == a]
            if len(group) == 1:
                continue
            step = np.array([marginal[c, a] - (marginal[c, second[c]] if second[c] != a else -np.inf) for c in group])
            present = (np.arange(1 << len(group))[:, None] >> np.arange(len(group))) & 1
            away = np.where(present == 1, 0.0, step).sum(axis=1)
            loss = self.objective.losses(a, group) + away
            split = int(loss.argmin())
            bound -= float(loss[split])
            for i, c in enumerate(group):
                if not split >> i & 1:
                    picks[c] = second[c]
            if loss[split] > worst:
                worst = float(loss[split])
                contested = group[int(np.argmax(np.where(np.isfinite(step), step, 0.0)))]
        return bound, picks, contested
