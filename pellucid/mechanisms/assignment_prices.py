"""Prices for sharing an attribute: floats that steer the exact draw of `combination.py` and touch no probability.

A price charges a cluster in advance for an attribute that others want too. Any prices give an exact draw; good ones make it
quick. They minimise a smooth upper bound of the largest score (a convex dual), with a small quasi-Newton search of our own.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from .assignment import Region, Tables

MEMBERS, CROWD, CROWDED = 9, 12, 4
"""Clusters per attribute whose sharing is priced (all their subsets are visited); CROWD for the CROWDED busiest attributes."""
LEAST, MUCH = 0.02, 0.2
"""Nats of expected penalty from which a cluster is priced."""
GOOD_ENOUGH = 4.0
"""Nats between the bound and what is surely there, at which the search for prices ends."""
ROUNDS = 4


def _choices(theta: np.ndarray, need: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Per cluster: ln of the sum over sets of `need` attributes of exp(Σ theta), and the share of sets with each attribute."""
    if need.max(initial=0) > 1:
        return _set_choices(theta, need)
    top = np.where(need > 0, theta.max(axis=1), 0.0)
    e = np.exp(theta - top[:, None]) * need[:, None]
    total = np.where(need > 0, e.sum(axis=1), 1.0)
    return top + np.log(total), e / total[:, None]


def _set_choices(theta: np.ndarray, need: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    most, (clusters, attributes) = int(need.max()), theta.shape

    def sums(columns: Sequence[int]) -> list[np.ndarray]:
        out = [np.full((clusters, most + 1), -np.inf)]
        out[0][:, 0] = 0.0
        for a in columns:
            step = out[-1].copy()
            step[:, 1:] = np.logaddexp(step[:, 1:], out[-1][:, :-1] + theta[:, [a]])
            out.append(step)
        return out

    ahead, behind = sums(range(attributes)), sums(range(attributes)[::-1])[::-1]
    rows = np.arange(clusters)
    total = ahead[-1][rows, need]
    shares = np.zeros_like(theta)
    for a in range(attributes):
        for r in range(most):
            rest = need - 1 - r
            part = ahead[a][:, r] + behind[a + 1][rows, np.maximum(rest, 0)] + theta[:, a] - total
            shares[:, a] += np.where(rest >= 0, np.exp(np.minimum(part, 0.0)), 0.0)
    return total, shares


@dataclass
class Fit:
    """Prices for one region, in nats: for each attribute in `members` its clusters and their prices."""

    members: dict[int, list[int]]
    values: dict[int, np.ndarray]
    shares: np.ndarray
    bound: float

    def known(self) -> dict[tuple[int, int], float]:
        return {(c, a): float(y) for a, row in self.members.items() for c, y in zip(row, self.values[a])}

    def prices(self, rate: Fraction) -> list[tuple[int, list[int], list[int]]]:
        return [(a, row, [int(Fraction(float(y)) / rate) for y in self.values[a]]) for a, row in self.members.items()]


class Guide:
    """Finds prices by minimising the bound ln Z <= Σ_c ln Σ exp(q - y) + Σ_a refund_a(y), which is convex in the prices y."""

    def __init__(self, tables: Tables, rate: Fraction) -> None:
        top = [max(row) for row in tables.unary]
        self.q = np.array([[float(rate * (v - t)) for v in row] for row, t in zip(tables.unary, top)])
        self.p = np.array(tables.penalty, dtype=float) * float(rate)

    def fit(self, must: list[tuple[int, ...]], may: list[list[int]], picks: int, parent: Fit | None) -> Fit:
        return _Search(self, must, may, picks).solve(parent)

    def where_to_cut(self, region: Region) -> tuple[int, int] | None:
        """A cluster and an attribute: where the bound is loosest, the least settled cluster."""
        free = np.array([bool(row) for row in region.may])
        if not free.any():
            return None
        x = region.fit.shares
        open_ = np.zeros(x.shape, dtype=bool)
        for c, row in enumerate(region.may):
            open_[c, row] = True
        loose = self._looseness(region.fit)
        gain = np.where(open_, x * (1 - x) * (loose + 1e-3), -1.0)
        if gain.max() <= 1e-9:  # all settled: the favourite of the cluster that meets most
            gain = np.where(open_, x * (loose + 1e-3), -1.0)
        c, a = divmod(int(np.argmax(gain)), gain.shape[1])
        return c, a

    def _looseness(self, fit: Fit, samples: int = 48) -> np.ndarray:
        """Mean slack of the bound on every attribute, as if the clusters chose each attribute independently."""
        rng = np.random.default_rng(0)  # steers the search only
        loose = np.zeros(fit.shares.shape[1])
        for a in range(len(loose)):
            used = (rng.random((samples, len(fit.shares))) < fit.shares[:, a]).astype(float)
            slack = 0.5 * ((used @ self.p[a]) * used).sum(axis=1)
            if a in fit.members:
                row, values = fit.members[a], fit.values[a]
                slack += float((_subset_sums(values[None])[0] - _inside(self.p[a], row)).max()) - used[:, row] @ values
            loose[a] = slack.mean()
        return loose


def _subset_sums(y: np.ndarray) -> np.ndarray:
    """Rows of numbers to rows of the sums over all subsets; bit i of the position says whether number i is in."""
    out = np.zeros((len(y), 1))
    for i in range(y.shape[1]):
        out = np.concatenate([out, out + y[:, i : i + 1]], axis=1)
    return out


def _with_each(e: np.ndarray) -> np.ndarray:
    """Rows of weights of subsets to rows of the total weight of the subsets with each number."""
    columns = []
    while e.shape[1] > 1:
        half = e.shape[1] // 2
        columns.append(e[:, half:].sum(axis=1))
        e = e[:, :half] + e[:, half:]
    return np.stack(columns[::-1], axis=1)


def _inside(table: np.ndarray, members: Sequence[int]) -> np.ndarray:
    """The penalty inside every subset of the members."""
    out = np.zeros(1)
    for i, c in enumerate(members):
        out = np.append(out, out + _subset_sums(table[[c]][:, list(members[:i])])[0])
    return out


def _minimum(slope_of: Callable[[np.ndarray], tuple[float, np.ndarray]], y: np.ndarray, steps: int = 60) -> np.ndarray:
    """Near the minimum of a smooth convex function, by L-BFGS with halved steps (SciPy's starts threads for it)."""
    value, slope = slope_of(y)
    past: list[tuple[np.ndarray, np.ndarray, float]] = []
    for _ in range(steps):
        direction, weights = -slope, []
        for s, t, curvature in reversed(past):
            weights.append((s * direction).sum() / curvature)
            direction = direction - weights[-1] * t
        if past:
            direction = direction * (past[-1][2] / (past[-1][1] ** 2).sum())
        for (s, t, curvature), w in zip(past, reversed(weights)):
            direction = direction + (w - (t * direction).sum() / curvature) * s
        down, length = float((slope * direction).sum()), 1.0
        new, (lower, steep) = y + direction, slope_of(y + direction)
        while lower > value + 1e-4 * length * down and length > 1e-6:
            length /= 2
            new = y + length * direction
            lower, steep = slope_of(new)
        gained, curvature = value - lower, float(((new - y) * (steep - slope)).sum())
        if gained <= 0:
            break
        if curvature > 0:
            past = [*past[-15:], (new - y, steep - slope, curvature)]
        y, value, slope = new, lower, steep
        if gained < 1e-3:
            break
    return y


class _Search:
    def __init__(self, guide: Guide, must: list[tuple[int, ...]], may: list[list[int]], picks: int) -> None:
        self.p = guide.p
        self.q = np.full_like(guide.q, -np.inf)
        self.fixed = np.zeros_like(guide.q)
        for c, (kept, row) in enumerate(zip(must, may)):
            self.q[c, row] = guide.q[c, row]
            self.fixed[c, list(kept)] = 1.0
        self.base = float((guide.q * self.fixed).sum())
        self.usable = np.isfinite(self.q) | (self.fixed > 0)
        self.need = np.array([picks - len(kept) for kept in must])

    def solve(self, parent: Fit | None) -> Fit:
        logs, shares = _choices(self.q, self.need)
        best = Fit({}, {}, shares + self.fixed, float(logs.sum()) + self.base)
        if len(self.q) == 1 or not self.p.any() or 0.5 * float(self._burden(best.shares).sum()) <= GOOD_ENOUGH:
            return best
        ladder = [t for t in (256.0, 64.0, 16.0, 4.0) if t < self._scale()] if parent is None else []
        members: dict[int, list[int]] = dict(parent.members) if parent else {}
        known = parent.known() if parent else {}
        if parent is None:
            relevance = np.max([self._relevance(t) for t in [*ladder[-1:], 1.0]], axis=0)
        else:
            relevance = self._burden(np.where(self.usable, parent.shares, 0.0))
        for turn in range(ROUNDS):
            members, changed = self._extend(members, relevance)
            if not members or not (changed or (parent and not turn)):
                break
            self._prepare(members)
            y = np.array([known.get((c, a), 0.0) for a, row in members.items() for c in row])
            stages = [(t, t / 2) for t in ladder] if turn == 0 else []
            for temperature, smoothing in [*stages, (1.0, 0.5), (1.0, 0.1)]:
                y = self._descend(y, temperature, smoothing)
                found = self._fit(y)
                if found.bound < best.bound:
                    best = found
                if self._gap(y, best) <= GOOD_ENOUGH:
                    return best
            known, relevance = found.known(), self._burden(found.shares)
        return best

    def _descend(self, y: np.ndarray, temperature: float, smoothing: float) -> np.ndarray:
        return _minimum(lambda z: self._smooth(z, temperature, smoothing), y)

    def _scale(self) -> float:
        return float(np.sort(self.p.max(axis=(1, 2)))[-3:].mean()) / 2

    def _burden(self, x: np.ndarray) -> np.ndarray:
        """Expected penalty that cluster c meets by using a, times how often it does."""
        return x * np.matmul(self.p, x.T[:, :, None])[:, :, 0].T

    def _relevance(self, temperature: float) -> np.ndarray:
        """The burden at a temperature, before and after a damped mean field has moved clusters away from crowded attributes."""
        x = _choices(self.q / temperature, self.need)[1] + self.fixed
        before = self._burden(x)
        for _ in range(30):
            field_ = np.matmul(self.p, x.T[:, :, None])[:, :, 0].T
            x = 0.6 * x + 0.4 * (_choices((self.q - field_) / temperature, self.need)[1] + self.fixed)
        return np.maximum(before, self._burden(x)) / temperature

    def _extend(self, members: dict[int, list[int]], relevance: np.ndarray) -> tuple[dict[int, list[int]], bool]:
        """Add the clusters whose sharing matters, the weightiest first, up to MEMBERS (or CROWD) an attribute."""
        out, changed = {}, False
        crowded = set(np.argsort(-relevance.sum(axis=0))[:CROWDED].tolist())
        for a in range(self.q.shape[1]):
            old = [c for c in members.get(a, []) if self.usable[c, a]]
            new = [int(c) for c in np.argsort(-relevance[:, a]) if relevance[c, a] > LEAST and self.usable[c, a] and c not in old]
            new = [
                c for i, c in enumerate(new, len(old)) if i < MEMBERS or (i < CROWD and a in crowded and relevance[c, a] > MUCH)
            ]
            if len(old) + len(new) > 1:
                out[a] = sorted(old + new)
                changed |= bool(new)
        return out, changed

    def _prepare(self, members: dict[int, list[int]]) -> None:
        self.members = members
        self.rows = np.concatenate([np.array(row) for row in members.values()])
        self.columns = np.repeat(list(members), [len(row) for row in members.values()])
        starts = dict(zip(members, itertools.accumulate((len(row) for row in members.values()), initial=0)))
        groups: dict[int, list[int]] = {}
        for a, row in members.items():
            groups.setdefault(len(row), []).append(a)
        self.groups = []
        for k, attributes in groups.items():
            cost = np.array([_inside(self.p[a], members[a]) for a in attributes])
            for i, a in enumerate(attributes):
                forced = sum(1 << j for j, c in enumerate(members[a]) if self.fixed[c, a])
                cost[i][np.arange(1 << k) & forced != forced] = np.inf
            self.groups.append((cost, np.array([range(starts[a], starts[a] + k) for a in attributes])))

    def _theta(self, y: np.ndarray) -> np.ndarray:
        theta = self.q.copy()
        theta[self.rows, self.columns] -= y
        return theta

    def _smooth(self, y: np.ndarray, temperature: float, smoothing: float) -> tuple[float, np.ndarray]:
        """The bound at a temperature with a smoothed maximum, and its slope."""
        logs, shares = _choices(self._theta(y) / temperature, self.need)
        fixed = self.fixed[self.rows, self.columns]
        value = temperature * float(logs.sum()) - float(y @ fixed)
        slope = -shares[self.rows, self.columns] - fixed
        for cost, where in self.groups:
            s = (_subset_sums(y[where]) - cost) / smoothing
            top = s.max(axis=1)
            e = np.exp(s - top[:, None])
            z = e.sum(axis=1)
            value += smoothing * float((top + np.log(z)).sum())
            slope[where] += _with_each(e) / z[:, None]
        return value, slope

    def _fit(self, y: np.ndarray) -> Fit:
        logs, shares = _choices(self._theta(y), self.need)
        bound = float(logs.sum()) + self.base - float(y @ self.fixed[self.rows, self.columns])
        bound += sum(float((_subset_sums(y[where]) - cost).max(axis=1).sum()) for cost, where in self.groups)
        ends = np.cumsum([len(row) for row in self.members.values()])
        values = dict(zip(self.members, np.split(y, ends[:-1])))
        return Fit(self.members, values, shares + self.fixed, bound)

    def _gap(self, y: np.ndarray, best: Fit) -> float:
        """The bound minus a lower bound of ln Z: entropy plus mean score of independent clusters (Gibbs)."""
        theta = self._theta(y)
        logs, shares = _choices(theta, self.need)
        x = shares + self.fixed
        used = shares > 0
        inner = float((shares[used] * (self.q[used] - theta[used])).sum())
        return best.bound - (float(logs.sum()) + inner + self.base - 0.5 * float(self._burden(x).sum()))
