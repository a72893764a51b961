"""Curves by level and differences: how many points pay, what one record brings, and the curve and its errors afterwards.

A record's curve along a grid has a level, its mean over the grid, and differences from point to point whose absolute values
add up to its total variation. Where that is at most V, differences are cheaper to release than values: their noise does not grow
with the number of points as that of values does. What is planned here is planned from the model and public records, drawn from
the schema; what is computed afterwards is computed from released numbers.
"""

from __future__ import annotations

import functools
import hashlib
import json
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from ...errors import PlanError
from ...mechanisms import NoiseLaw
from ...public.grids import curve_points, nested_grids
from ...public.model import Model
from ...public.rows import Point, Rows
from ...public.schema import Category, Feature, Schema
from ...public.spread import Spread, digest, made_up_people
from ...release.plan import Public
from .accumulate import DRAWS, factorisation
from .leaning import FLAT, Shape

Method = Literal["values", "variation"]

PUBLIC_RECORDS = 128
"""Public records whose curves tell how far a record's curve may vary, and how finely a grid must follow it."""
PEOPLE = 512
"""The same of people who are made up from released distributions: their mean curve is what is leaned on, so there are more."""
MARGIN = 1.4
"""V is so many times the largest variation of a public record."""
UNSEEN = 1.25
"""V is so many times larger still where no look can be paid for that would tell that people vary more."""
FAVOUR = 1.2
"""Differences are released where values are predicted to be so many times worse: values have no bias."""
ENOUGH = 1.05
"""The coarsest grid is taken whose predicted error is so near to the least: every point is one more question to the model."""
COUNTED = 0.5
"""What a record of which all is cut off brings to the count of that in an L1 ball, as a part of what its differences may be."""
STEPS = 2.0 ** (np.arange(5) / 2)
"""Bounds of the variation that a look at the records may choose among, as multiples of V."""
MOST_COORDINATES = 1024
"""Of all features together, in one ball: many features get coarser grids, or are released by values."""
MANY = 8.0
"""So many noise scales of records beyond a bound are too many of them."""

_kept: dict[tuple[str, ...], tuple[Sketch, ...]] = {}


@dataclass(frozen=True, eq=False)
class Sketch:
    """What public records say about a grid."""

    grid: np.ndarray
    variation: float
    """V on it, as a part of the model's range."""
    roughness: float
    """The mean squared distance of a public record's curve from the straight lines between its points, in squared ranges."""
    shape: Shape
    """The curves of public records on it."""


@dataclass(frozen=True, eq=False)
class Along:
    """How the curve along one feature is asked for."""

    name: str
    feature: Feature
    grid: np.ndarray
    """In inner form."""
    method: Method
    variation: float = 0.0
    """V, in the model's units."""
    shape: Shape | None = None
    """What the curve leans on, once it is released; None where it stays as it was released."""

    @property
    def categorical(self) -> bool:
        return isinstance(self.feature, Category)


def sketches(
    model: Model, schema: Schema, name: str, grids: tuple[tuple[float, ...], ...], people: tuple[Spread, ...] = ()
) -> tuple[Sketch, ...]:
    """What public records say about grids, each a part of the last one. It is kept: plans of a price search share it."""
    ready = model.ready(schema)
    declared = hashlib.sha256(json.dumps(schema.declared, sort_keys=True).encode()).hexdigest()
    key = (ready.fingerprint, declared, name, repr(model.declared), repr(grids), *((digest(people),) if people else ()))
    found = _kept.get(key)
    if found is None:
        found = tuple(_sketched(model, schema, name, grids, people))
        if len(_kept) > 64:
            _kept.clear()
        _kept[key] = found
    return found


def public_curves(model: Model, schema: Schema, name: str, grid: np.ndarray, people: tuple[Spread, ...] = ()) -> np.ndarray:
    """The curves of public records, or of made-up people, along a grid, in parts of the model's range."""
    drawn = made_up_people(schema, people, PEOPLE, seed=6) if people else schema.sample(PUBLIC_RECORDS, seed=6)
    rows = Rows(schema, {column: drawn[column] for column in schema})
    answers = rows.predict_along(model, [(name, grid)])
    lo, hi = model.output
    return np.clip((answers - lo) / (hi - lo), 0.0, 1.0)


def _sketched(
    model: Model, schema: Schema, name: str, grids: tuple[tuple[float, ...], ...], people: tuple[Spread, ...]
) -> list[Sketch]:
    fine = np.array(grids[-1])
    curves = public_curves(model, schema, name, fine, people) if people else public_curves(model, schema, name, fine)
    gaps = np.gradient(fine) if len(fine) > 1 else np.ones(1)
    found = []
    for values in grids:
        grid = np.array(values)
        places = np.searchsorted(fine, grid) if len(grid) < len(fine) else np.arange(len(fine))
        mine = curves[:, places]
        between = np.stack([np.interp(fine, grid, curve) for curve in mine]) if len(grid) < len(fine) else curves
        rough = float((((between - curves) ** 2) @ gaps / gaps.sum()).mean())
        most = float(np.abs(np.diff(mine, axis=1)).sum(axis=1).max())
        # A model that public records find flat may still move for people: V is never a hair's breadth.
        found.append(Sketch(grid, MARGIN * max(most, FLAT), rough, Shape(mine, isinstance(schema[name], Category), bool(people))))
    return found


def weights(public: Public, level: float, differences: float) -> tuple[float, float]:
    """How a contribution is divided between level and differences, for the least error: in an L1 ball, or in a Euclidean one."""
    power = 2 if public.spend.currency == "rho" else 3
    part = 1 / (1 + (differences / level) ** (1 / power))
    return (part**0.5, (1 - part) ** 0.5) if power == 2 else (part, 1 - part)


@functools.lru_cache(maxsize=512)
def accumulation(points: int, spread: bool) -> tuple[np.ndarray, np.ndarray, float]:
    """(what to ask of the differences, what turns the answers into a centred curve, the mean squared length of its rows)."""
    prefix = np.concatenate([np.zeros((1, points - 1)), np.tril(np.ones((points - 1, points - 1)))])
    centred = prefix - prefix.mean(axis=0)
    asked = factorisation(np.ones(points - 1), np.full(points, 1 / points)) if spread else np.eye(points - 1)
    solved = centred @ np.linalg.inv(asked)
    return asked, solved, float((solved**2).sum() / points)


def noise_of(public: Public, points: int, variation: float | None, features: int = 1) -> tuple[float, float]:
    """(variance of the level, size of the noise of the shape), in squared ranges over squared records; of values without V.

    The shape of a curve by values has noise of its size at every point, that of one by differences as they accumulate.
    """
    gaussian, epsilon = public.spend.currency == "rho", public.epsilon_like / features
    # One replaced record moves a value by the range, one that is added by half of it, centred.
    moved = 1.0 if public.relation == "replace" else 0.5
    if variation is None:
        size = points + public.count_needed
        spread = size if gaussian else (size + 1) * (size + 2) / 3
        at_a_point = moved**2 * spread * (1.5 if public.count_needed else 1.0) / epsilon**2
        return at_a_point / points, at_a_point
    differences = (2 * moved * variation) ** 2
    a, b = weights(public, 1.0, differences * accumulation(points, gaussian)[2])
    law = (1.0 if gaussian else 2.0) / epsilon**2
    return law / a**2, law * differences / b**2


def predicted(public: Public, points: int, variation: float | None, features: int = 1, shape: Shape | None = None) -> float:
    """The mean squared error of noise at a point, in squared ranges over the squared number of records; of values without V.

    With a shape, what leaning on it is expected to leave of that.
    """
    level, size = noise_of(public, points, variation, features)
    gaussian, rows = public.spend.currency == "rho", public.rows_or_default
    if shape is None:
        return level + size * ((points - 1) / points if variation is None else accumulation(points, gaussian)[2])
    if variation is None:
        left = shape.error_left("values", lambda: np.eye(points))
    else:
        solved = accumulation(points, gaussian)[1]
        left = shape.error_left(f"differences {gaussian}", lambda: solved @ solved.T)
    return level + left(size / rows**2) * rows**2


def chosen(
    public: Public,
    model: Model,
    name: str,
    points: np.ndarray | None,
    method: str,
    features: int,
    people: tuple[Spread, ...] = (),
) -> Along:
    """The grid and the way to release it with the least predicted error, from public things alone."""
    feature = public.schema[name]
    if isinstance(feature, Category) or public.strict:
        grid = curve_points(feature, public.rows_or_default, public.epsilon_like / features) if points is None else points
        leans = method == "auto" and not public.strict
        return Along(
            name, feature, grid, "values", shape=_sketches(public, model, name, (grid,), people)[0].shape if leans else None
        )
    grids = nested_grids(feature) if points is None else (points,)
    if len(grids[-1]) < 3:
        return Along(name, feature, grids[-1], "values")
    found = []
    for sketch in _sketches(public, model, name, grids, people):
        shape = sketch.shape if method == "auto" else None
        for way in ("values", "variation"):
            if way == "variation" and len(sketch.grid) + 2 > MOST_COORDINATES // features:
                continue
            if method in ("auto", way) and len(sketch.grid) > 2:
                noise = predicted(public, len(sketch.grid), sketch.variation if way == "variation" else None, features, shape)
                error = noise * (FAVOUR if way == "variation" else 1.0) / public.rows_or_default**2 + sketch.roughness
                found.append((error, Along(name, feature, sketch.grid, way, sketch.variation * model.range, shape)))
    if not found:
        raise PlanError(
            f"method='variation' of {features} features with {len(grids[0])} points or more is too much for one release: ask for "
            "fewer features at a time, fewer points=, or method='values'."
        )
    least = min(error for error, _ in found)
    return min((pair for pair in found if pair[0] <= ENOUGH * least), key=lambda pair: (len(pair[1].grid), pair[0]))[1]


def _sketches(
    public: Public, model: Model, name: str, grids: tuple[np.ndarray, ...], people: tuple[Spread, ...]
) -> tuple[Sketch, ...]:
    return sketches(model, public.schema, name, tuple(tuple(grid.tolist()) for grid in grids), people)


def cut(curves: np.ndarray, variation: float, spread: bool) -> tuple[np.ndarray, np.ndarray]:
    """(curves whose variation is at most V, how much of each was cut off: between 0 and 1).

    A curve that varies t·V, t > 1, is drawn toward the middle of its range until a part s of it is left; counting what was cut
    off takes room too. In an L1 ball s·t + COUNTED·(1 - s) = 1, in a Euclidean one (s·t)² + (1 - s)² = 1.
    """
    curves = np.ascontiguousarray(curves)
    size = np.abs(np.diff(curves, axis=1)).sum(axis=1) / variation
    beyond = np.maximum(size, 1.0)
    kept = 2 / (beyond**2 + 1) if spread else (1 - COUNTED) / (beyond - COUNTED)
    middle = (curves.max(axis=1) + curves.min(axis=1)) / 2
    return middle[:, None] + kept[:, None] * (curves - middle[:, None]), 1 - kept


def counted(spread: bool) -> float:
    """The weight of what was cut off beside the differences."""
    return 1.0 if spread else COUNTED


@dataclass(frozen=True, eq=False)
class Variations:
    """Per record: which multiple of V its variation would just fit into, of one feature."""

    model: Model
    along: Along

    @property
    def asks_ahead(self) -> tuple[Model, list[Point]]:
        """What is asked, of which model: several such maps ask together."""
        return self.model, [(self.along.name, float(value)) for value in self.along.grid]

    def __call__(self, rows: Rows) -> tuple[np.ndarray, np.ndarray, None]:
        size = np.abs(np.diff(curves_of(rows, self.model, self.along), axis=1)).sum(axis=1)
        cell = np.searchsorted(STEPS * self.along.variation, size, side="left")
        return cell[:, None], np.ones((len(cell), 1)), None


def curves_of(rows: Rows, model: Model, along: Along) -> np.ndarray:
    """Every record's curve, in the model's declared range."""
    return rows.predict_along(model, [(along.name, along.grid)])


@dataclass(frozen=True, eq=False)
class Parts:
    """How the coordinates of one feature are weighed in a contribution, and where they are."""

    along: Along
    level: float
    differences: float
    two_levels: bool
    """Whether the level is released beside what it lacks to the upper end: together they count the records."""
    spread: bool
    """Whether combinations of the differences are asked for, which spread Gaussian noise."""

    @property
    def size(self) -> int:
        return 1 + self.two_levels + len(self.along.grid)


def parts_of_curves(public: Public, along: tuple[Along, ...], output_range: float) -> tuple[Parts, ...]:
    """Weights for all features together: their parts make up one ball."""
    gaussian = public.spend.currency == "rho"
    moved = 1.0 if public.relation == "replace" else 0.5
    made, sizes = [], []
    for one in along:
        differences = (2 * moved * one.variation / output_range) ** 2 * accumulation(len(one.grid), gaussian)[2]
        a, b = weights(public, 1.0, differences)
        made.append(Parts(one, a, b, public.count_needed, gaussian))
        sizes.append(1 / a**2 + differences / b**2)
    share = np.array(sizes) ** (1 / 4 if gaussian else 1 / 3)
    share /= np.sqrt((share**2).sum()) if gaussian else share.sum()
    return tuple(replace(one, level=float(one.level * s), differences=float(one.differences * s)) for one, s in zip(made, share))


@dataclass(frozen=True, eq=False)
class LevelsAndDifferences:
    """Per record: level and differences of its curve, and how much of it was cut off; feature after feature, in one L1 ball.

    For Gaussian noise differences are combined, by columns of length at most one: the contribution is then in the Euclidean ball.
    """

    model: Model
    parts: tuple[Parts, ...]

    def contributions(self, rows: Rows) -> np.ndarray:
        lo, hi = self.model.output
        pieces: list[np.ndarray] = []
        # All features at once: a model that is read walks its trees once for all of them.
        asked = [(part.along.name, part.along.grid) for part in self.parts]
        ends = np.cumsum([len(grid) for _, grid in asked])[:-1]
        for part, found in zip(self.parts, np.split(rows.predict_along(self.model, asked), ends, axis=1)):
            curves, off = cut(found, part.along.variation, part.spread)
            level = np.clip((curves.mean(axis=1) - lo) / (hi - lo), 0.0, 1.0)
            beside = [level, 1 - level] if part.two_levels else [2 * level - 1]
            differences = np.diff(curves, axis=1) / part.along.variation
            if part.spread:
                combining = accumulation(len(part.along.grid), True)[0]
                combined = np.zeros_like(differences)
                for j in range(differences.shape[1]):
                    combined += differences[:, j : j + 1] * combining[:, j]
                differences = combined
            pieces.append(part.level * np.stack(beside, axis=1))
            pieces.append(part.differences * np.hstack([differences, counted(part.spread) * off[:, None]]))
        return np.hstack(pieces)

    def __call__(self, rows: Rows) -> np.ndarray | tuple[np.ndarray, None, np.ndarray]:
        values = self.contributions(rows)
        if self.parts[0].spread:
            return values
        return np.broadcast_to(np.arange(values.shape[1]), values.shape), None, values


@dataclass(frozen=True, eq=False)
class Released:
    """The numbers that were released about one curve, and all that is public about their noise."""

    numbers: np.ndarray
    """Levels, differences (or combinations of them) and what was cut off, as sums over records of parts of one."""
    law: NoiseLaw
    """The noise of each of them."""
    level: float
    differences: float
    variation: float
    output: tuple[float, float]
    rows: float | None
    """The public number of records; None where it is counted with noise."""
    spread: bool

    @property
    def points(self) -> int:
        return len(self.numbers) - 1 - (self.rows is None)

    @property
    def count(self) -> float:
        return float(self.numbers[:2].sum() / self.level) if self.rows is None else self.rows

    @property
    def cut_off(self) -> float:
        """How many whole curves were cut off, in all, as released: with noise, and so perhaps below zero."""
        return float(self.numbers[-1] / self.differences / counted(self.spread))

    def curve(self) -> np.ndarray:
        lo, hi = self.output
        if self.count < 1:
            return np.full(self.points, (lo + hi) / 2)
        return np.clip(lo + self._sums(self.numbers[None, :])[0] / self.count, lo, hi)

    def covariance(self) -> np.ndarray:
        """Of the noise of the curve."""
        each = np.eye(len(self.numbers))
        moved = self._sums(each) - self._sums(np.zeros((1, len(each))))
        if self.rows is None:
            moved = moved - (self.curve() - self.output[0]) * (each[:, :2].sum(axis=1) / self.level)[:, None]
        return np.asarray((self.law.std / self.count) ** 2 * moved.T @ moved)

    def _sums(self, numbers: np.ndarray) -> np.ndarray:
        """Sums over the records of their curves above the lower end, from sums of contributions."""
        lo, hi = self.output
        if self.rows is None:
            level, first = (hi - lo) * numbers[:, 0] / self.level, 2
        else:
            level, first = (hi - lo) / 2 * (numbers[:, 0] / self.level + self.rows), 1
        solved = accumulation(self.points, self.spread)[1]
        return level[:, None] + self.variation / self.differences * numbers[:, first:-1] @ solved.T

    def half_widths(self, level: float) -> np.ndarray:
        """Error bars of the curve without noise and without cutting.

        What was cut off moves no point further than half the range for each curve of which it is a whole. Noise hides how much
        it was, so both are drawn together: |noise at a point| + half the range · (what was cut off) exceeds the bar with
        probability at most 1 - level, however much it was; and a bar is no smaller than that of the noise alone.
        """
        self.law.half_width(level)  # refuses a level that is not a probability
        lo, hi = self.output
        if self.count < 1:
            return np.full(self.points, hi - lo)
        if self.rows is None:
            alone, together = self._quantiles(level)
        else:
            alone, together = _kept_quantiles(self.law, self.points, self._weights, self.output, self.rows, self.spread, level)
        return np.minimum(np.maximum(alone, together + (hi - lo) / 2 / self.count * self.cut_off), hi - lo)

    @property
    def _weights(self) -> tuple[float, float, float]:
        return self.level, self.differences, self.variation

    def _quantiles(self, level: float) -> tuple[np.ndarray, np.ndarray]:
        """Of the size of the noise at each point, and of what is left of it when the noise of what was cut off is taken away."""
        lo, hi = self.output
        some = NoiseLaw(self.law.kind, self.law.scale, len(self.numbers)).draws(DRAWS, seed=1)
        errors = self._sums(some) - self._sums(np.zeros((1, len(self.numbers))))
        if self.rows is None:
            errors = errors - (self.curve() - lo) * (some[:, :2].sum(axis=1) / self.level)[:, None]
        size, hidden = np.abs(errors) / self.count, some[:, -1:] / self.differences / counted(self.spread)
        left = size - (hi - lo) / 2 / self.count * hidden
        return np.quantile(size, level, axis=0), np.quantile(left, level, axis=0)


@functools.lru_cache(maxsize=128)
def _kept_quantiles(
    law: NoiseLaw,
    points: int,
    weights: tuple[float, float, float],
    output: tuple[float, float],
    rows: float,
    spread: bool,
    level: float,
) -> tuple[np.ndarray, np.ndarray]:
    """With a public number of records the law of the errors does not depend on what was released."""
    return Released(np.zeros(points + 1), law, *weights, output, rows, spread)._quantiles(level)
