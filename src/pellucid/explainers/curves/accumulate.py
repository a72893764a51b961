"""Accumulated effects from released numbers: intervals from a noisy histogram, curves from noisy sums, and their errors.

Everything here is post-processing: no rows are in scope, and nothing here is secret.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ...mechanisms import NoiseLaw
from ..common.projection import project_counts

DRAWS = 3000
"""Simulated copies of the noise behind each error bar."""

CELLS = 3
"""Of a histogram for each interval, at least."""
CLEAR = 1 / 6
"""The noise of the people of an interval, as a part of them, up to which the cells of a histogram may be finer."""

FIXED_POINT_STEPS = 25
"""Of the factorisation: enough for its error to be within a per cent of the best."""


def interval_count(rows: int, epsilon: float) -> int:
    """How many intervals pay: each is a divisor of the next, so that the borders of few are borders of many."""
    return max(k for k in (3, 11, 33, 99) if k == 3 or k <= 1.1 * (rows * epsilon) ** 0.4)


def coarser(grid: np.ndarray, intervals: int, rows: int, std: float) -> np.ndarray:
    """Every so manyeth value of a grid, so that the noise of all cells of an interval is not more than a part of its people.

    With G cells an interval has the noise of G/K of them, and n/K people.
    """
    most = max(CELLS * intervals, (CLEAR * rows / std) ** 2 / intervals)
    if len(grid) - 1 <= most:
        return grid
    return grid[np.unique(np.rint(np.linspace(0, len(grid) - 1, int(most) + 1)).astype(int))]


@dataclass(frozen=True, eq=False)
class Intervals:
    """Intervals between grid values, and how the records at each grid value are divided over them."""

    lower: np.ndarray
    """Where each interval begins, as a position on the grid."""
    upper: np.ndarray
    """Where it ends: where the next one begins."""
    share: np.ndarray
    """`share[k, v]` is the part of a record at grid value v that counts for interval k. The shares of a value add up to at
    most one, over at most two intervals."""
    mass: np.ndarray
    """The noisy number of records behind each interval."""

    def __len__(self) -> int:
        return len(self.mass)

    @property
    def edges(self) -> np.ndarray:
        """The borders, as positions on the grid."""
        return np.concatenate([self.lower[:1], self.upper])

    def places(self) -> tuple[np.ndarray, np.ndarray]:
        """Per grid value, up to two intervals it belongs to (-1: none) and its shares in them."""
        values = self.share.shape[1]
        place, share = np.full((values, 2), -1), np.zeros((values, 2))
        for v in range(values):
            mine = np.flatnonzero(self.share[:, v] > 0)[:2]
            place[v, : len(mine)] = mine
            share[v, : len(mine)] = self.share[mine, v]
        return place, share


def rank_intervals(counts: np.ndarray, intervals: int, noise: float = 0.0) -> Intervals:
    """Intervals that hold about equally many records, from non-negative noisy counts on a public grid.

    Borders are the grid values at ranks k·n/K; blocks whose borders coincide (many records tied at one value) have no
    effect and are dropped. Tied records are divided in proportion to the ranks they cover, as the average over all tie
    orders would; records of dropped blocks strengthen the intervals that hold the same value. The outermost cells that
    do not rise above `noise` are left out: cleaning leaves positive noise in empty tails, and intervals that reach out to
    it would span far more than anybody's value.
    """
    above = np.flatnonzero(counts > noise)
    if len(above) > 1:
        counts = np.where((np.arange(len(counts)) >= above[0]) & (np.arange(len(counts)) <= above[-1]), counts, 0.0)
    total = counts.sum()
    below = np.concatenate([[0.0], np.cumsum(counts)])
    populated = np.flatnonzero(counts > 0)
    if len(populated) < 2:
        # Everybody at one value, or nobody anywhere: one interval over the whole grid, which carries what little there is.
        return Intervals(np.array([0]), np.array([len(counts) - 1]), np.ones((1, len(counts))), np.array([max(total, 1.0)]))
    first, last = populated[0], populated[-1]
    ranks = np.arange(intervals + 1) * total / intervals
    edges = np.clip(np.searchsorted(below, ranks, side="right") - 1, first, last)
    edges[0], edges[-1] = first, last
    real = edges[1:] > edges[:-1]
    start, stop = ranks[:-1][real], ranks[1:][real]
    overlap = np.clip(np.minimum(stop[:, None], below[1:]) - np.maximum(start[:, None], below[:-1]), 0, None)
    used = overlap.sum(axis=0)
    spare = np.where(used > 0, counts / np.maximum(used, 1e-12), np.inf)
    grow = np.where(overlap > 1e-9 * total / intervals, spare, np.inf).min(axis=1)
    grow = np.where(np.isfinite(grow), np.maximum(grow, 1.0), 1.0)
    share = np.where(counts > 0, grow[:, None] * overlap / np.maximum(counts, 1e-12), 0.0)
    share = _at_most_two(share / np.maximum(share.sum(axis=0), 1.0))
    # Cells that noise made empty count for the interval around them: people may be there.
    empty = np.flatnonzero((counts <= 0) & (np.arange(len(counts)) >= first) & (np.arange(len(counts)) <= last))
    ends = edges[1:][real]
    share[np.minimum(np.searchsorted(ends, empty), len(ends) - 1), empty] = 1.0
    return Intervals(edges[:-1][real], edges[1:][real], share, np.maximum((share * counts).sum(axis=1), 1.0))


def recounted(intervals: Intervals, noisy: np.ndarray, rows: int | None, std: float) -> Intervals:
    """The people of the intervals from noisy counts as they were released, to which cleaning does not add what it took elsewhere.

    Cells that were cut at zero and cells that were not would make people out of noise. What is left is moved to the nearest
    that could be, with those outside the intervals; no interval has less than its noise.
    """
    mass = intervals.share @ noisy[: intervals.share.shape[1]]
    if rows is not None:
        mass = project_counts(np.append(mass, noisy.sum() - mass.sum()), float(rows))[:-1]
    return replace(intervals, mass=np.maximum(mass, np.maximum(std * np.sqrt((intervals.share**2).sum(axis=1)), 1.0)))


def _at_most_two(share: np.ndarray) -> np.ndarray:
    """A value met by more than two intervals (only a huge tie can be) keeps its two largest shares."""
    crowded = np.flatnonzero((share > 0).sum(axis=0) > 2)
    for v in crowded:
        smallest = np.argsort(share[:, v])[:-2]
        share[smallest, v] = 0.0
    return share


def neighbour_intervals(counts: np.ndarray, floor: float) -> Intervals:
    """One step from each category to the next in declared order, on the records of the first of the two."""
    steps = len(counts) - 1
    share = np.concatenate([np.eye(steps), np.zeros((steps, 1))], axis=1)
    return Intervals(np.arange(steps), np.arange(1, steps + 1), share, np.maximum(counts[:-1], floor))


def factorisation(mass: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """What to ask under Gaussian noise instead of the sums: a matrix with columns of length at most one.

    An accumulated curve adds up the noise of its intervals. Asking for well-chosen combinations of the sums and solving
    for them afterwards spreads the noise more evenly. The best combinations for a curve A·S minimise tr(AᵀA·G⁻¹) over
    G = XᵀX with diagonal at most one, and satisfy AᵀA = G·D·G for a diagonal D; a fixed point on D finds them.
    Reference: S. Denisov et al., Improved differential privacy for SGD via optimal private linear operators, 2022.
    """
    workload = curve_of_sums(mass, weights)
    products = workload.T @ workload
    d = np.sqrt(np.diag(products))
    for _ in range(FIXED_POINT_STEPS):
        root = _square_root(np.sqrt(np.outer(d, d)) * products)
        d = np.diag(root).copy()
    gram = root / np.sqrt(np.outer(d, d))
    asked = _square_root(gram)
    asked /= np.sqrt((asked**2).sum(axis=0).max())
    return asked if _error(workload, asked) < _error(workload, np.eye(len(mass))) else np.eye(len(mass))


def curve_of_sums(mass: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The matrix that turns sums of steps into the centred curve."""
    prefix = np.concatenate([np.zeros((1, len(mass))), np.tril(np.ones((len(mass), len(mass))))])
    return (prefix - weights @ prefix) / mass


def noise_of_curve(mass: np.ndarray, weights: np.ndarray, asked: np.ndarray) -> float:
    """The noise of a border, in such as that of one sum would make where it counts most."""
    workload = curve_of_sums(mass, weights)
    return float(np.sqrt(((workload @ np.linalg.inv(asked)) ** 2).sum(axis=1).mean() / (workload**2).max(axis=1).mean()))


def _error(workload: np.ndarray, asked: np.ndarray) -> float:
    return float(((workload @ np.linalg.inv(asked)) ** 2).sum())


def _square_root(symmetric: np.ndarray) -> np.ndarray:
    values, vectors = np.linalg.eigh(symmetric)
    return (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T


def centring_weights(intervals: Intervals, counts: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """Weights of the borders in the mean of the interpolated curve over the (noisy) distribution of the feature."""
    x = grid[intervals.edges]
    counts = np.where((grid >= x[0]) & (grid <= x[-1]), counts, 0.0)  # what lies outside the intervals is noise
    weights = np.array([np.interp(grid, x, unit) @ counts for unit in np.eye(len(x))])
    whole = weights.sum()
    return weights / whole if whole > 0 else np.full(len(x), 1 / len(x))


def mean_effects(sums: np.ndarray, mass: np.ndarray, most: float) -> np.ndarray:
    """Mean effect per interval; no mean can exceed the range of the model."""
    return np.clip(sums / mass, -most, most)


def kept_part(
    like: np.ndarray, spread: np.ndarray, mass: np.ndarray, asked: np.ndarray, std: float, count_std: float
) -> np.ndarray:
    """How much of a mean effect is kept, and not replaced by that of public records, from which it may be `spread` away.

    What is kept has the noise of its sum, `std` in each combination asked, and of the count that the sum is divided by.
    """
    sums, counts = std**2 * (np.linalg.inv(asked) ** 2).sum(axis=1), count_std**2 * (like**2 + spread**2)
    return spread**2 / (spread**2 + (sums + counts) / mass**2)


def curve(effects: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Accumulate the effects and centre the curve."""
    y = np.concatenate([[0.0], np.cumsum(effects)])
    return y - weights @ y


@dataclass(frozen=True, eq=False)
class ErrorModel:
    """What is public about the noise behind one accumulated curve, enough to draw copies of its error."""

    sums: np.ndarray
    """Noisy sums of steps, per interval."""
    mass: np.ndarray
    """Noisy numbers of records, per interval."""
    most: float
    """The range of the model, which no mean effect exceeds."""
    floor: float
    """The least mass an interval is given."""
    weights: np.ndarray
    """Of the borders, in the mean that centres the curve."""
    asked: np.ndarray
    """The combinations of sums that were released."""
    sum_law: NoiseLaw
    count_law: NoiseLaw
    cells: np.ndarray
    """The released histogram on the grid, with a cell for missing values, if any, at the end."""
    fixed_total: bool
    """Whether the number of records is public."""
    place: np.ndarray
    """Per grid value, the intervals it belongs to; -1 stands for none."""
    share: np.ndarray
    """Per grid value, its shares in them."""
    on_grid: np.ndarray
    """Values of the curve at the grid values; zero outside its borders, which the centring leaves out."""
    cut_off: float = 0.0
    """What the clip took off all steps together, as released."""
    per_count: float = 0.0
    """What it took off for one unit of the released number that counts it; 0 where it was not counted."""
    hidden: float = 0.0
    """The most that it took off the steps of one record."""
    keep: np.ndarray | float = 1.0
    """How much of each mean effect is its own; the rest is that of public records."""
    spread: np.ndarray | float = 0.0
    """How far it may be from that of public records."""

    def half_widths(self, level: float) -> np.ndarray:
        """Error bars of the curve: both noises are drawn again around what was released, and the curve is computed again.

        The counts enter twice, in the mean effects and in the centring, with the same noise.
        """
        self.sum_law.half_width(level)  # refuses a level that is not a probability
        shift, plain = self._count_errors()
        size, values = len(self.sums), len(self.place)
        moved = np.zeros((DRAWS, size))
        for j in range(self.place.shape[1]):
            inside = np.flatnonzero(self.place[:, j] >= 0)
            np.add.at(moved.T, self.place[inside, j].astype(int), (plain[:, inside] * self.share[inside, j]).T)
        law = NoiseLaw(self.sum_law.kind, self.sum_law.scale, max(self.sum_law.size, size + 1))
        drawn = law.draws(DRAWS, seed=1)
        noise = drawn[:, :size] @ np.linalg.inv(self.asked).T
        # What may be the truth: what was released, without errors like those that are drawn. A sum that was divided by far too
        # many people belongs to a far larger step, while far too few people make one only somewhat smaller.
        truth = mean_effects(self.sums - noise, np.maximum(self.mass - moved, self.floor), self.most)
        errors = mean_effects(self.sums, self.mass, self.most) - truth
        if np.any(np.less(self.keep, 1)):
            apart = NoiseLaw("gaussian", 1.0, size).draws(DRAWS, seed=3) * np.minimum(self.spread, self.most)
            errors = self.keep * errors + (1 - np.asarray(self.keep)) * apart
        paths = np.concatenate([np.zeros((DRAWS, 1)), np.cumsum(errors, axis=1)], axis=1)
        total = max(self.cells[:values].sum(), 1.0)
        centre = paths @ self.weights + shift[:, :values] @ self.on_grid / total
        away = paths - centre[:, None]
        alone = np.quantile(np.abs(away), level, axis=0)
        if not self.per_count:
            return alone
        # What was cut off lies on one side of a border or on the other, at worst: its noise and that of the curve are drawn
        # together around what was released, even where that is below zero: noise that took so much from the count is as rare.
        moves = self._moved_by(self.cut_off - drawn[:, size] * self.per_count)
        aside = np.maximum(np.quantile(away + moves, level, axis=0), np.quantile(moves - away, level, axis=0))
        return np.maximum(alone, aside)

    def _moved_by(self, cut: np.ndarray) -> np.ndarray:
        """The furthest that cutting off so much in all can move each border: it lies where it counts most.

        Moving one step moves the border by the part of people on its other side, for the curve is centred; a step has few people
        behind it, or many, and keeps more or less of its own mean; no mean is moved by more than the most of one record.
        """
        reach = np.abs(curve_of_sums(self.mass, self.weights)) * self.keep
        found = np.empty((len(cut), len(reach)))
        for j, worth in enumerate(reach):
            order = np.argsort(-worth)
            room = np.concatenate([[0.0], np.cumsum(self.hidden * self.mass[order])])
            found[:, j] = np.interp(cut, room, np.concatenate([[0.0], np.cumsum(worth[order] * self.hidden * self.mass[order])]))
        return found

    def _count_errors(self) -> tuple[np.ndarray, np.ndarray]:
        """Copies of the error of the cleaned counts, and of the noise alone: noise is added to them, and they are cleaned again.

        Cells below their noise are taken as empty: what cleaning left there is noise, kept because it was positive.
        """
        size = len(self.cells)
        ghost = self.cells <= self.count_law.half_width(1 - 1 / max(size, 4))
        likely = np.where(ghost, 0.0, self.cells)
        if likely.sum() > 0:
            likely *= self.cells.sum() / likely.sum()
        law = self.count_law if self.count_law.size >= size else NoiseLaw(self.count_law.kind, self.count_law.scale, size)
        noise = law.draws(DRAWS, seed=2)[:, :size]
        noisy = likely + noise
        total = np.full(DRAWS, self.cells.sum()) if self.fixed_total else np.maximum(noisy.sum(axis=1), 1.0)
        cleaned = project_counts(noisy, total) - likely
        return cleaned, noise
