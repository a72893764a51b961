"""What a fitted pipeline makes of declared records: every encoded column as a function of exactly one feature.

Two facts carry the certificates that use this view. A declared category or a one-hot group is a *table*: all its columns
move together, level by level. A scaled number is *monotone in floating point*, because subtracting, multiplying and
dividing by a constant, clipping and casting all round monotonically; its encoded values over an interval therefore lie
between the encoded ends, exactly. Encoded values are computed by the fitted steps themselves, on public records.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import ModelError
from ..asking import Asking, one_thread
from ..model import ReadyModel
from ..schema import Category, Feature
from .estimators import FUNCTIONS, IMPUTERS, ONE_HOT, ORDINAL, PIPELINES, RETARGETED, SCALERS, SEARCHES, SIDE_BY_SIDE

MAX_LEVELS = 1024
"""Whole numbers that are encoded level by level (one-hot) must have at most this many levels."""

ROWS_PER_CALL = 20_000

FIX = "Declare output= yourself; predictions are clipped to it."


def refuse(what: str) -> ModelError:
    return ModelError(f"output_range cannot read {what}. {FIX}")


@dataclass(frozen=True)
class Column:
    """One encoded column: the feature it is a function of, and whether it never decreases in a number."""

    feature: int
    monotone: bool


@dataclass(frozen=True)
class Domain:
    """The values one feature can take: an interval (of all or of whole numbers) and separate points."""

    name: str
    lo: float
    hi: float
    interval: bool
    integer: bool
    points: np.ndarray

    @property
    def start(self) -> float:
        """Some value of the domain."""
        return self.lo if self.interval else float(self.points[0])


@dataclass(frozen=True)
class Parts:
    """A fitted model taken apart: steps before the last estimator, that estimator, and what is done to its answer."""

    steps: tuple[Any, ...]
    core: Any
    targets: tuple[Any, ...]


def take_apart(estimator: Any) -> Parts:
    steps: list[Any] = []
    targets: list[Any] = []
    while True:
        if type(estimator) in SEARCHES:
            estimator = estimator.best_estimator_
        elif type(estimator) in RETARGETED:
            targets.insert(0, estimator.transformer_)
            estimator = estimator.regressor_
        elif type(estimator) in PIPELINES:
            steps += [step for _, step in estimator.steps[:-1] if step not in (None, "passthrough")]
            estimator = estimator.steps[-1][1]
        else:
            return Parts(tuple(steps), estimator, tuple(targets))


def class_index(ready: ReadyModel) -> tuple[int, int]:
    """(position of the explained class, number of classes)."""
    classes = [c.item() if isinstance(c, np.generic) else c for c in ready.model.predictor.classes_]
    return classes.index(ready.model.positive), len(classes)


class Encoding:
    """The columns the last estimator computes with, as functions of the declared features."""

    def __init__(
        self,
        ready: ReadyModel,
        steps: Sequence[Any],
        finish: Callable[[Any], np.ndarray],
        order: Callable[[list[Column]], list[Column]] = list,
    ):
        self.ready, self._steps, self._finish = ready, tuple(steps), finish
        columns = [Column(j, True) for j in range(len(ready.features))]
        for step in self._steps:
            columns = _through(step, columns, type(step).__name__)
        self.columns = tuple(order(columns))
        self.of = [[c for c, column in enumerate(self.columns) if column.feature == j] for j in range(len(ready.features))]
        self.domains = tuple(self._domain(j, name) for j, name in enumerate(ready.features))
        self._check()

    def __call__(self, positions: np.ndarray) -> np.ndarray:
        """The encoded table of records given as positions, one column per feature."""
        try:
            return self._through_steps(self.inputs(positions))
        except Exception as error:
            raise refuse(f"the preprocessing: it raised {type(error).__name__} on declared values") from None

    def of_people(self, positions: np.ndarray, asking: Asking) -> np.ndarray:
        """The same, of people: the steps are user code, and are called as the model itself is. NaN for a row that fails."""
        if self.computed_here:
            return np.asarray(self(positions), dtype=float)
        return self.ready.through(self._quietly, [self.inputs(positions)], asking, len(self.columns))

    def _quietly(self, inputs: Any) -> np.ndarray:
        # A shallow copy: a step that writes into its input writes into its own.
        given = inputs.copy(deep=False) if hasattr(inputs, "columns") else inputs.copy()
        with one_thread():
            return np.asarray(self._through_steps(given), dtype=float)

    def _through_steps(self, table: Any) -> np.ndarray:
        for step in self._steps:
            table = step.transform(table)
        return self._finish(table)

    @property
    def finished_by(self) -> Callable[[Any], np.ndarray]:
        """What makes numbers of the columns after the last step."""
        return self._finish

    @property
    def computed_here(self) -> bool:
        """Whether no fitted step of the model is called: encoded columns are then the declared ones, as numbers."""
        return not self._steps and self._finish in (as_floats, as_single)

    def inputs(self, positions: np.ndarray) -> Any:
        return self.ready.inputs({name: np.ascontiguousarray(positions[:, j]) for j, name in enumerate(self.ready.features)})

    def base(self, size: int) -> np.ndarray:
        """The same public record many times, to vary single features in."""
        return np.tile([domain.start for domain in self.domains], (size, 1))

    def table(self, j: int) -> np.ndarray:
        """Encoded columns of feature j at each of its points."""
        points = self.domains[j].points
        if not len(points):
            return np.empty((0, len(self.of[j])))
        positions = self.base(len(points))
        positions[:, j] = points
        return self(positions)[:, self.of[j]]

    def sample(self, size: int, seed: int = 0) -> np.ndarray:
        columns = self.ready.schema.sample(size, seed)
        return np.column_stack([columns[name] for name in self.ready.features])

    def _domain(self, j: int, name: str) -> Domain:
        feature: Feature = self.ready.schema[name]
        if isinstance(feature, Category):
            return Domain(name, 0.0, 0.0, False, True, np.arange(feature.levels, dtype=float))
        missing = feature.fill
        inside = feature.lo <= missing <= feature.hi and (not feature.integer or missing == int(missing))
        extra = np.empty(0) if inside else np.array([missing])
        if all(self.columns[c].monotone for c in self.of[j]):
            return Domain(name, feature.lo, feature.hi, True, feature.integer, extra)
        if feature.levels is None or feature.levels > MAX_LEVELS:
            raise refuse(f"{name!r}: a number encoded level by level must be declared integer with at most {MAX_LEVELS} levels")
        levels = np.arange(feature.levels, dtype=float) + feature.lo
        return Domain(name, 0.0, 0.0, False, True, np.concatenate([levels, extra]))

    def _check(self) -> None:
        """The columns read off the steps must be the columns the steps produce, each moved by its feature alone."""
        positions = self.sample(64)
        encoded = self(positions)
        if encoded.shape[1] != len(self.columns):
            raise refuse(f"the preprocessing: {len(self.columns)} columns were expected, it gives {encoded.shape[1]}")
        for j in range(len(self.domains)):
            alone = self.base(64)
            alone[:, j] = positions[:, j]
            if not np.array_equal(self(alone)[:, self.of[j]], encoded[:, self.of[j]], equal_nan=True):
                raise refuse(f"the preprocessing: columns of {self.domains[j].name!r} depend on other features")


def dense(table: Any) -> Any:
    """A sparse table with its zeros written out; any other as it is."""
    return table.toarray() if hasattr(table, "toarray") else table


def as_floats(table: Any) -> np.ndarray:
    values = np.asarray(dense(table))
    return values if values.dtype in (np.float32, np.float64) else values.astype(float)


def as_single(table: Any) -> np.ndarray:
    """What trees compare: scikit-learn casts their input to single precision first. Huge numbers become infinite."""
    with np.errstate(over="ignore"):
        return np.asarray(dense(table)).astype(np.float32)


def _through(step: Any, columns: list[Column], where: str) -> list[Column]:
    """The columns after a fitted step, given those before it."""
    kind = type(step)
    if kind in SCALERS or (kind in FUNCTIONS and step.func is None):
        return columns
    if kind in ONE_HOT:
        return [Column(c.feature, False) for c, width in zip(columns, step._n_features_outs) for _ in range(width)]
    if kind in ORDINAL:
        return [Column(c.feature, False) for c in columns]
    if kind in IMPUTERS:
        return _imputed(step, columns)
    if kind in PIPELINES:
        for name, inner in step.steps:
            columns = columns if inner in (None, "passthrough") else _through(inner, columns, f"{where}/{name}")
        return columns
    if kind in SIDE_BY_SIDE:
        return _side_by_side(step, columns, where)
    raise refuse(f"the step {where!r} of type {kind.__name__}")


def _imputed(step: Any, columns: list[Column]) -> list[Column]:
    # Replacing a number other than NaN jumps inside the range, so the column is no longer monotone.
    replaces_nan = isinstance(step.missing_values, float) and math.isnan(step.missing_values)
    columns = [c if replaces_nan else Column(c.feature, False) for c in columns]
    dropped = [isinstance(s, float) and math.isnan(s) for s in step.statistics_]
    if step.keep_empty_features:
        dropped = [False] * len(columns)
    flags = [columns[i] for i in step.indicator_.features_] if step.add_indicator else []
    return [c for c, gone in zip(columns, dropped) if not gone] + flags


def _side_by_side(step: Any, columns: list[Column], where: str) -> list[Column]:
    placed: dict[int, Column] = {}
    for name, inner, _ in step.transformers_:
        taken = [columns[i] for i in step._transformer_to_input_indices.get(name, [])]
        if inner == "drop" or not taken:
            continue
        made = taken if inner == "passthrough" else _through(inner, taken, f"{where}/{name}")
        room = step.output_indices_[name]
        if room.stop - room.start != len(made):
            raise refuse(f"the step {where}/{name!r}: {len(made)} columns were expected")
        placed |= dict(zip(range(room.start, room.stop), made))
    return [placed[i] for i in sorted(placed)]


def highest_below(encoding: Encoding, asked: Sequence[tuple[int, float]]) -> list[float]:
    """For each (encoded column, threshold): the largest value of its feature that is encoded at or below the threshold.

    Bisection over the doubles (or whole numbers) of the interval, run through the fitted steps: with a column that is
    monotone in floating point the answer is the exact place where a comparison changes. -inf when there is none.
    """
    columns, limits = np.array([c for c, _ in asked]), np.array([t for _, t in asked], dtype=float)
    features = np.array([encoding.columns[c].feature for c in columns])
    rank = np.zeros(len(asked), dtype=int)
    for j in np.unique(features):
        rank[features == j] = np.arange((features == j).sum())
    integer = np.array([encoding.domains[j].integer for j in features])
    low, high = (_keys(np.array([getattr(encoding.domains[j], end) for j in features]), integer) for end in ("lo", "hi"))

    def below(keys: np.ndarray) -> np.ndarray:
        """Comparisons for several keys per question, in one call of the fitted steps: calls cost more than rows."""
        positions = encoding.base((int(rank.max()) + 1) * len(keys)).reshape(len(keys), -1, len(encoding.domains))
        positions[:, rank, features] = _values(keys, integer)
        encoded = encoding(positions.reshape(-1, positions.shape[2])).reshape(len(keys), positions.shape[1], -1)
        return encoded[:, rank, columns].astype(float) <= limits

    none, everything = ~below(low[None])[0], below(high[None])[0]
    low = np.where(everything, high, low)
    ways = int(np.clip(ROWS_PER_CALL // (int(rank.max()) + 1), 2, 256))
    while np.any(distance := (high - low).view(np.uint64)):
        if np.all(distance <= 1):
            break
        step = np.maximum(distance // np.uint64(ways), np.uint64(1))
        ahead = np.minimum(step * np.arange(1, ways, dtype=np.uint64)[:, None], np.maximum(distance, np.uint64(1)) - np.uint64(1))
        tried = np.concatenate([low[None], low + ahead.view(np.int64), high[None]])
        passed = below(tried[1:-1]).sum(axis=0)
        low, high = (np.take_along_axis(tried, (passed + k)[None], axis=0)[0] for k in (0, 1))
    return list(np.where(none, -math.inf, _values(low, integer)))


def _keys(values: np.ndarray, integer: np.ndarray) -> np.ndarray:
    """Consecutive integers for consecutive values: the bits of a double in order, or the whole number itself."""
    bits = (values + 0.0).view(np.int64)
    ordered = np.where(bits >= 0, bits, np.int64(-(2**63)) - bits)
    return np.where(integer, np.where(integer, values, 0.0).astype(np.int64), ordered)


def _values(keys: np.ndarray, integer: np.ndarray) -> np.ndarray:
    bits = np.where(keys >= 0, keys, np.int64(-(2**63)) - keys)
    return np.where(integer, keys.astype(float), bits.view(np.float64))


def next_value(value: float, integer: bool) -> float:
    return value + 1.0 if integer else float(np.nextafter(value, math.inf))
