"""Prices for sharing an item: floats that steer the exact draw and touch no probability.

A price charges a place in advance for an item that others want too. Any prices give an exact draw; good ones make it quick.
They minimise a smooth upper bound of the largest score (a convex dual), with a small quasi-Newton search of our own.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from .scores import AssignmentScores

MEMBERS, CROWD, CROWDED = 9, 12, 4
"""Places per item whose sharing is priced (all their subsets are visited); CROWD for the CROWDED busiest items."""
LEAST, MUCH = 0.02, 0.2
"""Nats of expected penalty from which a place is priced."""
GOOD_ENOUGH = 4.0
"""Nats between the bound and what is surely there, at which the search for prices ends."""
ROUNDS = 4
LARGEST = 2.0**60
"""Nats beyond which a price is none."""


def _choices(theta: np.ndarray, need: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Per place: ln of the sum over sets of `need` items of exp(Σ theta), and the share of sets with each item."""
    if need.max(initial=0) > 1:
        return _set_choices(theta, need)
    top = np.where(need > 0, theta.max(axis=1), 0.0)
    e = np.exp(theta - top[:, None]) * need[:, None]
    total = np.where(need > 0, e.sum(axis=1), 1.0)
    return top + np.log(total), e / total[:, None]


def _set_choices(theta: np.ndarray, need: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    most, (places, items) = int(need.max()), theta.shape

    def sums(columns: Sequence[int]) -> list[np.ndarray]:
        out = [np.full((places, most + 1), -np.inf)]
        out[0][:, 0] = 0.0
        for i in columns:
            step = out[-1].copy()
            step[:, 1:] = np.logaddexp(step[:, 1:], out[-1][:, :-1] + theta[:, [i]])
            out.append(step)
        return out

    ahead, behind = sums(range(items)), sums(range(items)[::-1])[::-1]
    rows = np.arange(places)
    total = ahead[-1][rows, need]
    shares = np.zeros_like(theta)
    for i in range(items):
        for r in range(most):
            rest = need - 1 - r
            part = ahead[i][:, r] + behind[i + 1][rows, np.maximum(rest, 0)] + theta[:, i] - total
            shares[:, i] += np.where(rest >= 0, np.exp(np.minimum(part, 0.0)), 0.0)
    return total, shares


@dataclass
class Fit:
    """Prices for one region, in nats: for each item in `members` its places and their prices."""

    members: dict[int, list[int]]
    values: dict[int, np.ndarray]
    shares: np.ndarray
    bound: float

    def plain(self) -> Fit:
        """Numbers alone, of a size that can be added up: a price that is none counts as 0, a share that is none as a half.

        Floats can come to infinity or to NaN, which comparisons let pass. Any price and any share gives an exact draw, so that
        this costs time alone.
        """
        values = {i: np.where(np.abs(y) < LARGEST, y, 0.0) for i, y in self.values.items()}
        shares = np.where((self.shares >= 0) & (self.shares <= 1), self.shares, 0.5)
        return Fit(self.members, values, shares, self.bound)

    def known(self) -> dict[tuple[int, int], float]:
        return {(p, i): float(y) for i, row in self.members.items() for p, y in zip(row, self.values[i])}

    def prices(self, rate: Fraction) -> list[tuple[int, list[int], list[int]]]:
        return [(i, row, [int(Fraction(float(y)) / rate) for y in self.values[i]]) for i, row in self.members.items()]


class Guide:
    """Finds prices by minimising the bound ln Z <= Σ_p ln Σ exp(unary - y) + Σ_i refund_i(y), which is convex in the prices y."""

    def __init__(self, scores: AssignmentScores, rate: Fraction) -> None:
        top = [max(row) for row in scores.unary]
        self.unary = np.array([[float(rate * (v - t)) for v in row] for row, t in zip(scores.unary, top)])
        self.penalty = np.array(scores.penalty, dtype=float) * float(rate)

    def fit(self, must: list[tuple[int, ...]], may: list[list[int]], picks: int, parent: Fit | None) -> Fit:
        with np.errstate(all="ignore"):
            return _Search(self, must, may, picks).solve(parent).plain()

    def where_to_cut(self, may: list[list[int]], fit: Fit) -> tuple[int, int] | None:
        """A place and an item: where the bound is loosest, the least settled place."""
        free = np.array([bool(row) for row in may])
        if not free.any():
            return None
        x = fit.shares
        open_ = np.zeros(x.shape, dtype=bool)
        for p, row in enumerate(may):
            open_[p, row] = True
        loose = np.nan_to_num(self._looseness(fit), posinf=LARGEST)
        gain = np.where(open_, x * (1 - x) * (loose + 1e-3), -np.inf)
        if gain.max() <= 1e-9:  # all settled: the favourite of the place that meets most
            gain = np.where(open_, x * (loose + 1e-3), -np.inf)
        p, i = divmod(int(np.argmax(gain)), gain.shape[1])
        return p, i

    def _looseness(self, fit: Fit, samples: int = 48) -> np.ndarray:
        """Mean slack of the bound on every item, as if the places chose each item independently."""
        rng = np.random.default_rng(0)  # steers the search only
        loose = np.zeros(fit.shares.shape[1])
        for i in range(len(loose)):
            used = (rng.random((samples, len(fit.shares))) < fit.shares[:, i]).astype(float)
            slack = 0.5 * ((used @ self.penalty[i]) * used).sum(axis=1)
            if i in fit.members:
                row, values = fit.members[i], fit.values[i]
                slack += float((_subset_sums(values[None])[0] - _inside(self.penalty[i], row)).max()) - used[:, row] @ values
            loose[i] = slack.mean()
        return loose


def _subset_sums(y: np.ndarray) -> np.ndarray:
    """Rows of numbers to rows of the sums over all subsets; bit k of the position says whether number k is in."""
    out = np.zeros((len(y), 1))
    for k in range(y.shape[1]):
        out = np.concatenate([out, out + y[:, k : k + 1]], axis=1)
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
    for k, p in enumerate(members):
        out = np.append(out, out + _subset_sums(table[[p]][:, list(members[:k])])[0])
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
        if not gained > 0 or not np.isfinite(lower):
            break
        if curvature > 0:
            past = [*past[-15:], (new - y, steep - slope, curvature)]
        y, value, slope = new, lower, steep
        if gained < 1e-3:
            break
    return y


class _Search:
    def __init__(self, guide: Guide, must: list[tuple[int, ...]], may: list[list[int]], picks: int) -> None:
        self.penalty = guide.penalty
        self.unary = np.full_like(guide.unary, -np.inf)
        self.fixed = np.zeros_like(guide.unary)
        for p, (kept, row) in enumerate(zip(must, may)):
            self.unary[p, row] = guide.unary[p, row]
            self.fixed[p, list(kept)] = 1.0
        self.base = float((guide.unary * self.fixed).sum())
        self.usable = np.isfinite(self.unary) | (self.fixed > 0)
        self.need = np.array([picks - len(kept) for kept in must])

    def solve(self, parent: Fit | None) -> Fit:
        logs, shares = _choices(self.unary, self.need)
        best = Fit({}, {}, shares + self.fixed, float(logs.sum()) + self.base)
        if len(self.unary) == 1 or not self.penalty.any() or 0.5 * float(self._burden(best.shares).sum()) <= GOOD_ENOUGH:
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
            y = np.array([known.get((p, i), 0.0) for i, row in members.items() for p in row])
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
        return float(np.sort(self.penalty.max(axis=(1, 2)))[-3:].mean()) / 2

    def _burden(self, x: np.ndarray) -> np.ndarray:
        """Expected penalty that place p meets by having item i, times how often it has it."""
        return x * np.matmul(self.penalty, x.T[:, :, None])[:, :, 0].T

    def _relevance(self, temperature: float) -> np.ndarray:
        """The burden at a temperature, before and after a damped mean field has moved places away from crowded items."""
        x = _choices(self.unary / temperature, self.need)[1] + self.fixed
        before = self._burden(x)
        for _ in range(30):
            field_ = np.matmul(self.penalty, x.T[:, :, None])[:, :, 0].T
            x = 0.6 * x + 0.4 * (_choices((self.unary - field_) / temperature, self.need)[1] + self.fixed)
        return np.maximum(before, self._burden(x)) / temperature

    def _extend(self, members: dict[int, list[int]], relevance: np.ndarray) -> tuple[dict[int, list[int]], bool]:
        """Add the places whose sharing matters, the weightiest first, up to MEMBERS (or CROWD) an item."""
        out, changed = {}, False
        crowded = set(np.argsort(-relevance.sum(axis=0))[:CROWDED].tolist())
        for i in range(self.unary.shape[1]):
            old = [p for p in members.get(i, []) if self.usable[p, i]]
            new = [int(p) for p in np.argsort(-relevance[:, i]) if relevance[p, i] > LEAST and self.usable[p, i] and p not in old]
            new = [
                p for k, p in enumerate(new, len(old)) if k < MEMBERS or (k < CROWD and i in crowded and relevance[p, i] > MUCH)
            ]
            if len(old) + len(new) > 1:
                out[i] = sorted(old + new)
                changed |= bool(new)
        return out, changed

    def _prepare(self, members: dict[int, list[int]]) -> None:
        self.members = members
        self.rows = np.concatenate([np.array(row) for row in members.values()])
        self.columns = np.repeat(list(members), [len(row) for row in members.values()])
        starts = dict(zip(members, itertools.accumulate((len(row) for row in members.values()), initial=0)))
        groups: dict[int, list[int]] = {}
        for i, row in members.items():
            groups.setdefault(len(row), []).append(i)
        self.groups = []
        for size, items in groups.items():
            cost = np.array([_inside(self.penalty[i], members[i]) for i in items])
            for row_cost, i in zip(cost, items):
                forced = sum(1 << k for k, p in enumerate(members[i]) if self.fixed[p, i])
                row_cost[np.arange(1 << size) & forced != forced] = np.inf
            self.groups.append((cost, np.array([range(starts[i], starts[i] + size) for i in items])))

    def _theta(self, y: np.ndarray) -> np.ndarray:
        theta = self.unary.copy()
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
        """The bound minus a lower bound of ln Z: entropy plus mean score of independent places (Gibbs)."""
        theta = self._theta(y)
        logs, shares = _choices(theta, self.need)
        x = shares + self.fixed
        used = shares > 0
        inner = float((shares[used] * (self.unary[used] - theta[used])).sum())
        return best.bound - (float(logs.sum()) + inner + self.base - 0.5 * float(self._burden(x).sum()))
