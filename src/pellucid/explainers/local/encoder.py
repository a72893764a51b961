"""From records to rows: features scaled to [0, 1], the record asked about in the middle, and the weight of the distance.

Every number is scaled to [0, 1] by its declared bounds; a category of two values is one column of 0 and 1, a category of more
values one column per declared value. So two records that differ in a two-valued category are as far apart as two ends of a
number (distance 1), and two that differ in a larger category are √2 apart. A missing number that the model receives as NaN
stands in the middle. The model's output is moved and scaled to [−1, 1] by its declared range.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from ...errors import PlanError
from ...mechanisms import NoiseLaw
from ...public.asking import AS_THEY_ARE
from ...public.model import Model
from ...public.records import asked_record
from ...public.rows import Rows, weighted
from ...public.schema import Category, Relation, Schema
from ...query import Sum
from ...query.bounds import Ball
from ...release.plan import Public
from .bound import Moments
from .moments import NoisyMoments, Z
from .weights import FallingWeight, Limits, Weight

LABEL_WEIGHTS = tuple(2.0 ** (k / 4) for k in range(-12, 21))
"""Weights of the labels that are tried when noise is divided between the matrix and the vector."""


@dataclass(frozen=True)
class Column:
    """One coordinate of an explanation: a feature, or one value of a category (its position)."""

    feature: str
    value: Any = None
    position: int | None = None

    @property
    def label(self) -> str:
        return self.feature if self.position is None else f"{self.feature} = {self.value}"


@dataclass(frozen=True)
class Encoder:
    """How the features of a model become coordinates in [0, 1]; public."""

    model: Model
    schema: Schema

    @functools.cached_property
    def features(self) -> tuple[str, ...]:
        return tuple(self.model.ready(self.schema).features)

    @functools.cached_property
    def columns(self) -> tuple[Column, ...]:
        found: list[Column] = []
        for name in self.features:
            feature = self.schema[name]
            if isinstance(feature, Category) and feature.levels > 2:
                found += [Column(name, value, i) for i, value in enumerate(feature.values)]
            else:
                found.append(Column(name))
        if len(found) > 1024:
            raise PlanError(f"the model's features have {len(found)} coordinates; local explanations are for at most 1024.")
        return tuple(found)

    @property
    def length(self) -> int:
        return len(self.columns)

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(column.label for column in self.columns)

    @property
    def farthest(self) -> float:
        """The largest distance between two records of the schema."""
        return math.sqrt(sum(2 if self._many(name) else 1 for name in self.features))

    @property
    def diameter(self) -> float:
        """As `farthest`, rounded up: no record of the schema is farther from any other."""
        return _coarse(self.farthest)

    def farthest_from(self, asked: Sequence[float]) -> float:
        """The largest distance of a record of the schema from this one, rounded up."""
        squares = 0.0
        for column, z in zip(self.columns, asked):
            if column.position is None:
                squares += max(z, 1 - z) ** 2
        return _coarse(math.sqrt(squares + 2 * sum(map(self._many, self.features))))

    @functools.cached_property
    def projector(self) -> np.ndarray | None:
        """The part of the coordinates that differences of records can lie in: the columns of one category add up to nothing.

        None where that is all of them.
        """
        if not any(map(self._many, self.features)):
            return None
        kept = np.eye(self.length)
        for name in filter(self._many, self.features):
            own = np.array([column.feature == name for column in self.columns], dtype=float)
            kept -= np.outer(own, own) / own.sum()
        return kept

    def _many(self, name: str) -> bool:
        feature = self.schema[name]
        return isinstance(feature, Category) and feature.levels > 2

    def scaled(self, columns: Any) -> np.ndarray:
        """Decoded columns as one row of coordinates per record."""
        out = np.empty((len(columns[self.features[0]]), self.length))
        for j, column in enumerate(self.columns):
            feature, positions = self.schema[column.feature], columns[column.feature]
            if column.position is not None:
                out[:, j] = positions == column.position
            elif isinstance(feature, Category):
                out[:, j] = positions
            else:
                out[:, j] = np.nan_to_num((positions - feature.lo) / (feature.hi - feature.lo), nan=0.5)
        return np.clip(out, 0.0, 1.0)

    def asked(self, record: Any) -> tuple[float, ...]:
        """The coordinates of the record asked about, given in the user's words."""
        positions = dict(asked_record(record, self.model, self.schema))
        return tuple(float(v) for v in self.scaled({name: np.array([positions[name]]) for name in self.features})[0])

    def outputs(self, predictions: np.ndarray) -> np.ndarray:
        """Model outputs moved and scaled to [−1, 1] by the declared range."""
        lo, hi = self.model.output
        return np.clip((predictions - (lo + hi) / 2) / ((hi - lo) / 2), -1.0, 1.0)

    def outputs_at(self, records: np.ndarray) -> np.ndarray:
        """The model's scaled outputs at records in coordinates. These are public, and no data is read."""
        columns: dict[str, np.ndarray] = {}
        for name in self.features:
            feature = self.schema[name]
            own = np.asarray(records)[:, [column.feature == name for column in self.columns]]
            if isinstance(feature, Category):
                columns[name] = (own.argmax(axis=1) if own.shape[1] > 1 else np.rint(own[:, 0])).astype(float)
            else:
                value = feature.lo + own[:, 0] * (feature.hi - feature.lo)
                columns[name] = np.rint(value) if feature.integer else value
        return self.outputs(Rows(self.schema, columns, asking=AS_THEY_ARE).predict(self.model))

    def level(self, record: Any) -> float:
        """The model's scaled output for the record asked about, as the model sees it: with what is missing missing."""
        positions = dict(asked_record(record, self.model, self.schema))
        rows = Rows(self.schema, {name: np.array([positions[name]]) for name in self.features}, asking=AS_THEY_ARE)
        return float(self.outputs(rows.predict(self.model))[0])

    @property
    def half_range(self) -> float:
        """What one unit of a scaled output is worth to the user."""
        lo, hi = self.model.output
        return (hi - lo) / 2

    def read(self, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
        """(coordinates, scaled outputs) of a batch."""
        return self.scaled(rows.columns), self.outputs(rows.predict(self.model))


def _coarse(distance: float) -> float:
    """Rounded up to a coarse grid: the same certified limits then serve many records."""
    return math.ceil(64 * distance * (1 + 1e-12)) / 64


@dataclass(frozen=True)
class LocalRows:
    """The map of a local explanation: rows (√α·u, w·√α·f) with u = x − z. It looks at one record at a time.

    With a `level`, the model's own output at z, labels are (f − level)/2 instead of f: as bounded, and then u·φ is a slope.
    """

    encoder: Encoder
    asked: tuple[float, ...]
    weight: Weight
    label_weight: float
    level: float | None = None

    def __call__(self, rows: Rows) -> np.ndarray:
        return self.of(*self.encoder.read(rows))

    def of(self, x: np.ndarray, f: np.ndarray) -> np.ndarray:
        u = x - np.asarray(self.asked)
        f = f if self.level is None else (f - self.level) / 2
        root = np.sqrt(self.weight.at(np.sqrt((u * u).sum(axis=1))))
        return np.column_stack([u * root[:, None], self.label_weight * root * f])


@dataclass(frozen=True)
class GradientRows:
    """The map of one step where d² products would be too many: what each record brings to half the slope, α·u·(u·φ − f)."""

    rows: LocalRows
    phi: tuple[float, ...]

    def __call__(self, rows: Rows) -> np.ndarray:
        return self.of(*self.rows.encoder.read(rows))

    def of(self, x: np.ndarray, f: np.ndarray) -> np.ndarray:
        row = self.rows.of(x, f)
        s, t = row[:, :-1], row[:, -1] / self.rows.label_weight
        return s * (weighted(s, np.asarray(self.phi)) - t)[:, None]


def gradient_of(
    encoder: Encoder,
    asked: Sequence[float],
    weight: Weight,
    phi: Sequence[float],
    radius: float = 1.0,
    level: float | None = None,
) -> Sum:
    """The sum of one step: half the slope at φ, each record's part shrunk into a ball. ‖φ‖ ≤ radius."""
    z = tuple(float(v) for v in asked)
    largest = radius * weight.limits(encoder.farthest_from(z), 1 / radius).slope
    rows = GradientRows(LocalRows(encoder, z, weight, 1.0, level), tuple(float(v) for v in phi))
    return Sum(rows, Ball(encoder.length, largest), columns=encoder.features)


def moments_of(
    encoder: Encoder,
    asked: Sequence[float],
    weight: Weight,
    label_weight: float = 1.0,
    level: float | None = None,
    limits: Limits | None = None,
) -> Sum:
    """The sum that a local explanation asks for: A and b of equation (1), before they are divided by the normaliser.

    `limits` are those of a question asked before, where it is counted again, or such that they hold for every record asked about;
    else they are certified now, for this one.
    """
    z = tuple(float(v) for v in asked)
    limits = weight.limits(encoder.farthest_from(z), label_weight) if limits is None else limits
    bound = Moments(encoder.length, limits.joint, limits.slope, limits.label)
    return Sum(LocalRows(encoder, z, weight, label_weight, level), bound, columns=encoder.features)


def read_moments(noisy: Sequence[int], asked: Sum, law: NoiseLaw, records: Fraction | int) -> NoisyMoments:
    """Noisy integers as A and b of the loss."""
    bound, local = asked.bound, asked.map
    assert isinstance(bound, Moments) and isinstance(local, LocalRows)
    w, unit = local.label_weight, bound.unit / float(records)
    matrix, vector = bound.matrix(np.array([float(v) for v in noisy]))
    std = law.std * unit
    beside = 0.5 if law.kind == "gaussian" else 1.0
    # Normal noise needs no factor, and no SciPy.
    tail = max(1.0, law.half_width() / (Z * law.std)) if law.kind in ("laplace", "k-norm") else 1.0
    return NoisyMoments(matrix * unit, vector * unit / w, std, std / w, beside, local.encoder.projector, tail)


def best_label_weight(weight: Weight, farthest: float, relation: Relation = "add-remove", radius: float = 1.0) -> float:
    """The weight of the labels for which the noise in A·φ − b is smallest, for explanations of half the largest length.

    One draw serves A and b: a larger w makes b more exact and everything else less. Public: it depends on the weight
    function, the schema, the relation and the radius.
    """

    def variance(w: float) -> float:
        limits = weight.limits(farthest, w)
        bound = Moments(1, limits.joint, limits.slope, limits.label)
        norms = bound.added() if relation == "add-remove" else bound.replaced()
        return norms.l2_squared * bound.unit**2 * (radius**2 / 8 + 1 / w**2)

    # A formula takes about a second to certify, too long to try twenty of them for a gain of a few per cent.
    return min(LABEL_WEIGHTS, key=variance) if isinstance(weight, FallingWeight) else 1.0


def normaliser(public: Public) -> Fraction:
    """The public number the loss is divided by: the number of records where it is public, else the public guess.

    Losses are told in its units. One-shot explanations do not depend on it; steps are as long as it says, so with a hundred times
    more records than were guessed a descent goes wrong.
    """
    return Fraction(public.rows_or_default)
