"""Where centres start, and start again when nobody is near: from the schema and released numbers alone."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ...public.rows import Rows
from ...public.schema import Category, Number, Schema
from ...release.answer import Answer
from .centres import Space

CLOUD = 2048
"""Public records from which starting centres are found: twenty for each of a hundred clusters."""

RESTARTS = 12
"""Starts of the k-means of public points, of which the best is taken."""

GRID_CELLS = 1 << 12
"""Cells a grid aims at when there are people enough."""


@dataclass(frozen=True)
class Grid:
    """Public cells over the whole space: equal intervals of every number, every value of a category."""

    space: Space
    bins: tuple[int, ...]

    @classmethod
    def of(cls, space: Space, people: float, epsilon: float) -> Grid:
        """The rule of Su et al. for the number of cells: finer for more people and less noise, coarser for more features."""
        wanted = min(GRID_CELLS, (people * epsilon / 10) ** (2 * len(space.names) / (2 + len(space.names))))
        fixed = math.prod(f.levels for f in space.features if isinstance(f, Category))
        numbers = sum(isinstance(f, Number) for f in space.features)
        each = max(2, int((wanted / fixed) ** (1 / numbers) + 1e-9)) if numbers else 1
        return cls(space, tuple(f.levels if isinstance(f, Category) else each for f in space.features))

    @property
    def cells(self) -> int:
        return math.prod(self.bins)

    def __call__(self, rows: Rows) -> tuple[np.ndarray, np.ndarray, None]:
        """Per record: its cell."""
        places = self.space.records(rows.columns)
        for j, (feature, bins) in enumerate(zip(self.space.features, self.bins)):
            if isinstance(feature, Number):
                places[:, j] = np.minimum(places[:, j] * bins, bins - 1)
        cell = np.ravel_multi_index(tuple(places.T.astype(np.intp)), self.bins)[:, None]
        return cell, np.ones(cell.shape), None

    def middles(self) -> np.ndarray:
        """A record in the middle of each cell."""
        places = np.stack(np.unravel_index(np.arange(self.cells), self.bins), axis=1).astype(float)
        for j, (feature, bins) in enumerate(zip(self.space.features, self.bins)):
            if isinstance(feature, Number):
                places[:, j] = (places[:, j] + 0.5) / bins
        return places


def public_records(space: Space, seed: int) -> np.ndarray:
    """Records spread over the declared domain; they say nothing about anyone."""
    return space.records(Schema(dict(zip(space.names, space.features))).sample(CLOUD, seed))


def evenly_spread(space: Space, cloud: np.ndarray, k: int) -> np.ndarray:
    """Starting centres without data: the k-means of the public records."""
    alike = np.ones(len(cloud))
    return lloyd(space, cloud, alike, far_apart(space, cloud, alike, k))


def centres_of_cells(grid: Grid, answer: Answer, otherwise: np.ndarray) -> np.ndarray:
    """The k-means of a noisy histogram, from two starts; the public centres when too few cells stand out of the noise."""
    _, counts = answer.cells()
    assert counts is not None
    # Small counts are mostly noise, and the cells without people are many: together they would outweigh the people.
    kept = counts > 1.5 * answer.noise.std
    if kept.sum() < len(otherwise):
        return otherwise
    space, records, weights = grid.space, grid.middles()[kept], counts[kept]
    starts = (far_apart(space, records, weights, len(otherwise)), otherwise)
    found = [lloyd(space, records, weights, start) for start in starts]
    return min(found, key=lambda centres: float(weights @ space.distances(records, centres).min(axis=1)))


def far_apart(space: Space, records: np.ndarray, weights: np.ndarray, k: int) -> np.ndarray:
    """k of the records: the most central one, then again and again the one whose weight is farthest from those chosen."""
    points = space.points(records)
    middle = weights @ points / weights.sum()
    chosen = [int(np.argmin(space.distances(records, middle[None])))]
    away = space.distances(records, points[chosen])[:, 0]
    while len(chosen) < k:
        chosen.append(int(np.argmax(weights * away)))
        away = np.minimum(away, space.distances(records, points[chosen[-1:]])[:, 0])
    return points[chosen]


def lloyd(space: Space, records: np.ndarray, weights: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """Lloyd's iterations on weighted records that are public."""
    points, k = space.points(records), len(centres)
    for _ in range(20):
        label = space.nearest(records, centres)
        mass = np.bincount(label, weights, k)[:, None]
        sums = np.stack([np.bincount(label, weights * column, k) for column in points.T], axis=1)
        centres = np.where(mass > 0, sums / np.where(mass > 0, mass, 1.0), centres)
    return centres


def reseeded(space: Space, cloud: np.ndarray, centres: np.ndarray, counts: np.ndarray, empty: np.ndarray) -> np.ndarray:
    """Centres nobody seems to be near, moved to public points around the largest cluster. Sees released numbers only."""
    centres, counts = centres.copy(), np.where(empty, 0.0, counts)
    if empty.all():
        return centres
    for c in np.flatnonzero(empty):
        settled = np.flatnonzero(counts > 0)
        largest = settled[np.argmax(counts[settled])]
        away = space.distances(cloud, centres[settled])
        inside = cloud[settled[np.argmin(away, axis=1)] == largest]
        if not len(inside):
            continue
        order = np.argsort(space.distances(inside, centres[largest][None])[:, 0], kind="stable")
        centres[c] = space.points(inside[order[len(order) // 2]][None])[0]
        counts[c] = counts[largest] = counts[largest] / 2
    return centres


def best_means(space: Space, points: np.ndarray, weights: np.ndarray, k: int, seed: int) -> np.ndarray:
    """k-means of weighted public points: the best of several starts, each drawn far from the ones before (k-means++)."""
    rng, shrink = np.random.default_rng(seed), space.lengths()
    scaled = points * shrink
    found = []
    for _ in range(RESTARTS):
        centres, away = np.empty((k, points.shape[1])), np.full(len(points), np.inf)
        for c in range(k):
            odds = weights * (away if c else 1.0)
            centres[c] = scaled[rng.choice(len(points), p=odds / odds.sum() if odds.sum() > 0 else None)]
            away = np.minimum(away, ((scaled - centres[c]) ** 2).sum(axis=1))
        found.append(_lloyd(scaled, weights, centres))
    return min(found, key=lambda each: each[1])[0] / shrink


def _lloyd(points: np.ndarray, weights: np.ndarray, centres: np.ndarray) -> tuple[np.ndarray, float]:
    """Lloyd's iterations, and the weighted squared distance they end with."""
    for _ in range(40):
        away = (centres**2).sum(axis=1) - 2 * points @ centres.T
        label = np.argmin(away, axis=1)
        mass = np.bincount(label, weights, len(centres))[:, None]
        sums = np.stack([np.bincount(label, weights * column, len(centres)) for column in points.T], axis=1)
        moved = np.where(mass > 0, sums / np.where(mass > 0, mass, 1.0), centres)
        if np.abs(moved - centres).max() < 1e-6:
            break
        centres = moved
    nearest = ((centres**2).sum(axis=1) - 2 * points @ centres.T).min(axis=1)
    return centres, float(weights @ (nearest + (points**2).sum(axis=1)))
