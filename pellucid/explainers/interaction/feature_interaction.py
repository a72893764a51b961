"""Feature interaction: Friedman's H-statistic, how much of an effect cannot be written as a sum of one effect each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from ...errors import PlanError
from ...public.grids import every_value, nearest, spread_points
from ...public.model import Model
from ...public.rows import Rows
from ...public.schema import Category, Feature, Number, Schema, did_you_mean
from ...query import Choice, Sum
from ...query.bound import UNITS
from ...query.bounds import Box, Cells, CrossCells
from ...query.scores import QuantileScore
from ...release.answer import Answer
from ...release.door import Ask
from ...release.explainer import Explainer
from ...release.explanation import Explanation
from ...release.plan import Expected, Plan, Public
from ...sensitivity import Flow
from ..common.base import OfModel, keep_whole_number
from ..common.projection import project_counts
from .results import OverallInteractions, PairInteractions, debiased, least_variance, shift_energy

FINE = 24
"""Public cells of a number, from which the values it is rounded to are taken."""

MOST = 4096
"""Predictions a record may be asked for in one stage."""

BEYOND = 20
"""Records beyond the cap, for each one the noise of a sum is worth. A cut square loses a part of itself, noise counts whole."""

CAPS = 2.0 ** (np.arange(-8, 41) / 4)
"""Candidates for the largest remainder of a record, as multiples of the mean size of what the feature does."""


def public_points(feature: Feature) -> np.ndarray:
    """The middles of a feature's public cells, in inner form: categories, few integers, or evenly spaced numbers."""
    if isinstance(feature, Category):
        return np.arange(feature.levels, dtype=float)
    whole = every_value(feature, FINE)
    return spread_points(feature, FINE) if whole is None else whole


def has_missing(feature: Feature) -> bool:
    return isinstance(feature, Number) and math.isnan(float(feature.missing or 0.0))


def rounded_size(feature: Feature, points: int) -> int:
    """How many values a feature is rounded to; a missing value is one more."""
    return min(points, len(public_points(feature))) + has_missing(feature)


@dataclass(frozen=True, eq=False)
class Rounding:
    """A feature rounded to a few of its values: the value that stands for each public cell, and how common it is."""

    name: str
    points: np.ndarray
    group: np.ndarray
    values: np.ndarray
    weights: np.ndarray

    @classmethod
    def of(cls, name: str, feature: Feature, counts: np.ndarray, points: int) -> Rounding:
        """From released counts of the public cells; how many values there are does not depend on them."""
        places = public_points(feature)
        inside = counts[: len(places)]
        unordered = isinstance(feature, Category) and not feature.ordered
        group = (_common if unordered else _ranges)(inside, min(points, len(places)))
        values = [places[_middle(np.where(group == i, inside, 0.0), group == i, unordered)] for i in range(group.max() + 1)]
        if has_missing(feature):
            group, values = np.append(group, len(values)), [*values, math.nan]
        weights = np.bincount(group, counts)
        whole = weights.sum()
        weights = weights / whole if whole > 0 else np.full(len(weights), 1 / len(weights))
        return cls(name, places, group, np.array(values), weights)

    def index(self, rows: Rows) -> np.ndarray:
        """Which of the values stands for each record."""
        return self.group[fine_cell(self.points, rows[self.name])]

    def labels(self, feature: Feature) -> tuple[Any, ...]:
        return tuple("missing" if math.isnan(v) else feature.label(v) for v in self.values)


def fine_cell(points: np.ndarray, column: np.ndarray) -> np.ndarray:
    """The public cell of each value; a missing one has the cell after the last."""
    cell = nearest(points, column)
    return np.where(cell < 0, len(points), cell)


def _ranges(counts: np.ndarray, groups: int) -> np.ndarray:
    """Cells in consecutive groups: the largest group is halved until there are enough, so a value that many share is alone."""
    parts = [(0, len(counts))]
    while len(parts) < groups:
        a, b = max((p for p in parts if p[1] - p[0] > 1), key=lambda p: (counts[p[0] : p[1]].sum(), p[1] - p[0]))
        upto = np.cumsum(counts[a:b])
        cut = a + 1 + int(np.argmin(np.abs(upto[:-1] - upto[-1] / 2)))
        at = parts.index((a, b))
        parts[at : at + 1] = [(a, cut), (cut, b)]
    return np.repeat(np.arange(groups), [b - a for a, b in parts])


def _common(counts: np.ndarray, groups: int) -> np.ndarray:
    """The commonest categories each head a group; rarer ones join the smallest group, the commonest of them first."""
    order = np.argsort(-counts, kind="stable")
    heads = np.sort(order[:groups])
    group, size = np.zeros(len(counts), dtype=np.intp), counts[heads].astype(float)
    group[heads] = np.arange(groups)
    for cell in order[groups:]:
        group[cell] = smallest = int(np.argmin(size))
        size[smallest] += counts[cell]
    return group


def _middle(counts: np.ndarray, member: np.ndarray, unordered: bool) -> int:
    """The cell that stands for its group: the commonest category, or the median."""
    cells = np.flatnonzero(member)
    if unordered:
        return int(cells[np.argmax(counts[cells])])
    upto = np.cumsum(counts[cells])
    return int(cells[np.searchsorted(upto, upto[-1] / 2)] if upto[-1] > 0 else cells[(len(cells) - 1) // 2])


@dataclass(frozen=True, eq=False)
class InCells:
    """Per record: the public cell of every feature."""

    places: tuple[tuple[str, np.ndarray], ...]

    def __call__(self, rows: Rows) -> tuple[np.ndarray, list[np.ndarray]]:
        return np.zeros(len(rows), dtype=np.int64), [fine_cell(points, rows[name]) for name, points in self.places]


@dataclass(frozen=True, eq=False)
class OnTables:
    """Per record: the predictions with one feature and each other one set to all pairs of their values."""

    model: Model
    first: Rounding
    others: tuple[Rounding, ...]

    def __call__(self, rows: Rows) -> np.ndarray:
        columns = [
            rows.predict(self.model, {self.first.name: a, other.name: b})
            for other in self.others
            for a in self.first.values
            for b in other.values
        ]
        return np.stack(columns, axis=1)


@dataclass(frozen=True, eq=False)
class OnCurves:
    """Per record: the predictions with each feature set to its values, and the plain one.

    Also the size of what each feature does to the record: how far its prediction is from the mean over the feature's values,
    counted from the lower end of the range.
    """

    model: Model
    features: tuple[Rounding, ...]

    def along(self, rows: Rows) -> list[tuple[np.ndarray, np.ndarray]]:
        """For each feature: predictions at all of its values, and which of them stands for the record."""
        found = []
        for feature in self.features:
            at = np.stack([rows.predict(self.model, {feature.name: value}) for value in feature.values], axis=1)
            found.append((at, feature.index(rows)))
        return found

    def __call__(self, rows: Rows) -> np.ndarray:
        found = self.along(rows)
        lo = self.model.output[0]
        sizes = [lo + np.abs(_pick(at, index) - at @ r.weights) for (at, index), r in zip(found, self.features)]
        return np.column_stack([*(at for at, _ in found), rows.predict(self.model), *sizes])


@dataclass(frozen=True, eq=False)
class Remainders(OnCurves):
    """Per record and feature: what a released curve and the mean over the feature's values do not explain.

    `curves` are the mean predictions at the values of each feature, less their weighted mean: what a sum of two effects
    leaves is then zero whatever the weights are.
    """

    curves: tuple[np.ndarray, ...]

    def of(self, rows: Rows) -> np.ndarray:
        found = zip(self.along(rows), self.features, self.curves)
        return np.stack([_pick(at, index) - at @ r.weights - curve[index] for (at, index), r, curve in found], axis=1)


@dataclass(frozen=True, eq=False)
class LargestRemainder(Remainders):
    """Per record: which candidate cap would just not touch it."""

    sizes: np.ndarray

    def __call__(self, rows: Rows) -> tuple[np.ndarray, None, None]:  # type: ignore[override]
        cell = np.searchsorted(CAPS, (np.abs(self.of(rows)) / self.sizes).max(axis=1), side="left")
        return np.minimum(cell, len(CAPS) - 1)[:, None], None, None


@dataclass(frozen=True, eq=False)
class SquaredRemainders(Remainders):
    """Per record: its squared remainders in units of the cap's square, and its squared deviation from the mean prediction."""

    caps: np.ndarray
    mean: float
    most: float

    def __call__(self, rows: Rows) -> np.ndarray:
        deviation = (rows.predict(self.model) - self.mean) / self.most
        return np.column_stack([(self.of(rows) / self.caps) ** 2, deviation**2])


def _pick(at: np.ndarray, index: np.ndarray) -> np.ndarray:
    return np.take_along_axis(at, index[:, None], axis=1)[:, 0]


@dataclass(frozen=True)
class FeatureInteraction(OfModel):
    """How strongly features interact in a model: Friedman's H-statistic, from 0 (effects add up) to 1 (nothing but interaction).

    With `feature="age"`: H of age with every other feature k, the part of their joint partial dependence that no sum of an
    effect of age and an effect of k explains. With `feature=None`: H of each feature with all others together, the part of the
    predictions' variance that is neither an effect of the feature nor one of the others.

    Released: first, noisy counts of every feature, from which features are rounded to a few values each (numbers to medians of
    ranges, categories to the commonest ones; as many as pay at this number of rows and ε, or `points`). Then for a pair: one
    table of mean predictions at all pairs of values for every k, by one draw of noise. H² is the weighted mean square of the
    table after its weighted row and column means are taken off, over that of the table less its mean; weights are products
    of the released shares. This is the statistic of Friedman and Popescu with the two features drawn independently of each
    other. For `feature=None`: mean predictions along every feature; a cap for a single record's remainder, chosen privately;
    and the mean squares of the remainders f(x) − f̄_j(x_j) − f̄_rest(x) + f̄ of the records with feature j rounded, beside the
    variance of the predictions; f̄_rest is the mean over the values of j, and remainders are not centred. The noise's own
    expected share is taken off all squares. `.caps` says how large a remainder may be: larger ones were cut.

    A pair asks the model for (values of the feature) × (values of all others) predictions a record, `feature=None` three times
    for the sum of the values.

    Claim: box-sum, cross-cells, quantile-span. Assumes that the model is a function of one row.
    Paper: "Tailoring differential privacy to any explainer" has H through a generic wrapper; this is a direct release.

    >>> import pellucid as pel
    >>> schema = pel.Schema({"a": pel.Number(0, 1), "b": pel.Number(0, 1), "c": pel.Number(0, 1)})
    >>> model = pel.Model(lambda d: d["a"] * d["b"] + d["c"], output=(0, 2), features=["a", "b", "c"], trained_on="other data")
    >>> table = {"a": [i / 999 for i in range(1000)] * 9, "b": [0.1, 0.5, 0.9] * 3000, "c": [0.2, 0.8] * 4500}
    >>> session = pel.Session(table, schema, budget=pel.Budget(epsilon=5.0))
    >>> session.release(pel.FeatureInteraction(model, "a"), epsilon=5.0).ranking
    ('b', 'c')
    """

    feature: str | None = None
    points: int | None = None

    references = (
        "J. H. Friedman, B. E. Popescu, Predictive learning via rule ensembles, Annals of Applied Statistics 2 (2008).",
        "Tailoring Differential Privacy to Any Explainer: the generic wrapper for rankings by the H-statistic.",
        "M. Hardt, K. Talwar, On the geometry of differential privacy, STOC 2010 (K-norm mechanism).",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.feature is not None and not isinstance(self.feature, str):
            raise PlanError(f"feature={self.feature!r}: give one column name, or None for all features.")
        keep_whole_number(self, "points", 2, FINE)

    @property
    def features(self) -> tuple[str, ...]:
        return self.model.features if self.feature is None else (self.feature,)

    def columns(self, schema: Schema) -> tuple[str, ...]:
        used = self.model.features or tuple(schema)
        if self.feature is not None and self.feature not in used:
            raise PlanError(
                f"the model does not use {self.feature!r}, so it has no interactions{did_you_mean(self.feature, used)}."
            )
        if len(used) < 2:
            raise PlanError("the model uses a single feature: there is nothing it could interact with.")
        return tuple(name for name in schema if name in used)

    def asked(self, schema: Schema) -> tuple[str, ...]:
        """The features the values belong to: all of them, or the partners of the one asked about."""
        return tuple(name for name in self.columns(schema) if name != self.feature)

    def table_box(self, public: Public, points: int) -> Box:
        """The set one record's predictions on all tables, or on all curves, live in."""
        size = {name: rounded_size(public.schema[name], points) for name in self.columns(public.schema)}
        others = sum(size[name] for name in self.asked(public.schema))
        if self.feature is None:
            return Box(others + 1 + len(size), *self.model.output, count=public.count_needed)
        # H does not change when all predictions are scaled, so the number of records is not needed.
        return Box(size[self.feature] * others, *self.model.output)

    def size(self, public: Public) -> int:
        """Values a number is rounded to: as many as keep the noise of a mean within a hundredth of the range."""
        if self.points is not None:
            return self.points
        stage = "curves" if self.feature is None else "tables"
        for points in (8, 7, 6, 5, 4) if self.feature is None else (6, 5, 4):
            law = public.mechanism(Sum(_nothing, self.table_box(public, points)), SHARES[self.feature is None][stage]).law
            if law.std / UNITS / 2 <= public.rows_or_default / 100:
                return points
        return 3

    def spread_query(self, public: Public) -> Sum:
        names = self.columns(public.schema)
        places = tuple((name, public_points(public.schema[name])) for name in names)
        sizes = tuple(len(points) + has_missing(public.schema[name]) for name, points in places)
        return Sum(InCells(places), CrossCells(1, sizes), columns=names)

    def plan(self, public: Public) -> Plan:
        self.spread_query(public)
        asked = self.table_box(public, self.size(public)).length
        if asked > MOST:
            raise PlanError(
                f"this asks the model for {asked:,} predictions a record, and at most {MOST:,} are allowed: "
                "give a smaller points=, or a model of fewer features."
            )
        return SHARES[self.feature is None]

    def run(self, ask: Ask) -> Explanation:
        schema, points = ask.public.schema, self.size(ask.public)
        counts, total = _clean(ask.total("spread", self.spread_query(ask.public)), ask.public)
        rounded = {name: Rounding.of(name, schema[name], c, points) for name, c in zip(self.columns(schema), counts)}
        return self._overall(ask, tuple(rounded.values())) if self.feature is None else self._pairs(ask, rounded, total)

    def _pairs(self, ask: Ask, rounded: dict[str, Rounding], total: float) -> Explanation:
        assert self.feature is not None
        public, names = ask.public, self.asked(ask.public.schema)
        first, others = rounded[self.feature], tuple(rounded[name] for name in names)
        box = self.table_box(public, self.size(public))
        answer = ask.total("tables", Sum(OnTables(self.model, first, others), box, columns=self.columns(public.schema)))
        surface = box.centre + box.unit * np.array(answer.integers, dtype=float) / total
        law = answer.law.times(box.unit / total)
        squares, start = [], 0
        for other in others:
            shape = (len(first.values), len(other.values))
            table = surface[start : start + shape[0] * shape[1]].reshape(shape)
            start += table.size
            rest, whole, least = debiased(table, first.weights, other.weights, law.std**2)
            squares.append(rest / max(whole, least))
        used = (first, *others)
        return PairInteractions(
            features=names,
            feature=self.feature,
            values=_h(squares),
            squares=np.array(squares),
            grids={r.name: r.labels(public.schema[r.name]) for r in used},
            weights=np.concatenate([r.weights for r in used]),
            surface=surface,
            law=law,
        )

    def _overall(self, ask: Ask, rounded: tuple[Rounding, ...]) -> Explanation:
        public, columns = ask.public, self.columns(ask.public.schema)
        lo, hi = self.model.output
        box = self.table_box(public, self.size(public))
        curve = ask.total("curves", Sum(OnCurves(self.model, rounded), box, columns=columns)).mean()
        cuts = np.cumsum([len(r.values) for r in rounded])
        *curves, ends = np.split(curve.values, cuts)
        mean = float(np.clip(ends[0], lo, hi))
        law = curve.law.times(1 / max(curve.count, 1.0))
        # Smaller than the noise no size can be told; half of the range is as good as all of it.
        sizes = np.clip(ends[1:] - lo, min(law.std, 0.5) * (hi - lo) / 2, (hi - lo) / 2)
        known = (self.model, rounded, tuple(c - c @ r.weights for c, r in zip(curves, rounded)))
        choice = Choice(
            Sum(LargestRemainder(*known, sizes), Cells(len(CAPS)), columns=columns), QuantileScore(self.cap_quantile(public))
        )
        caps = np.minimum(float(CAPS[ask.choose("cap", choice)[0]]) * sizes, hi - lo)
        most = max(mean - lo, hi - mean)
        squared = SquaredRemainders(*known, caps, mean, most)
        final = ask.total("remainders", Sum(squared, self.square_box(public), columns=columns)).mean()
        variance = max(float(final.values[-1]) * most**2, least_variance(final.law, final.count, most))
        squares = [
            (cap**2 * v - shift_energy(c, r.weights, law, (hi - lo) / 2, curve.noisy_count)) / variance
            for cap, v, c, r in zip(caps, final.values, curves, rounded)
        ]
        return OverallInteractions(
            features=tuple(r.name for r in rounded),
            values=_h(squares),
            squares=np.array(squares),
            grids={r.name: r.labels(public.schema[r.name]) for r in rounded},
            weights=np.concatenate([r.weights for r in rounded]),
            curves=curve.values,
            curve_law=curve.law,
            curve_count=curve.count,
            means=final.values,
            mean_law=final.law,
            mean_count=final.count,
            noisy_count=final.noisy_count,
            output=self.model.output,
            caps=caps,
            most=most,
        )

    def square_box(self, public: Public) -> Box:
        return Box(len(self.columns(public.schema)) + 1, 0.0, 1.0, count=public.count_needed)

    def cap_quantile(self, public: Public) -> Fraction:
        """The quantile of largest remainders to cap at: what is cut off then weighs about as much as the noise."""
        law = public.mechanism(Sum(_nothing, self.square_box(public)), SHARES[True]["remainders"]).law
        part = min(max(BEYOND * law.std / UNITS / 2 / public.rows_or_default, 1e-6), 0.05)
        return Fraction(1 - part).limit_denominator(10**6)

    def expected(self, public: Public) -> Expected:
        names, rows, points = self.asked(public.schema), public.planning_rows, self.size(public)
        box = self.table_box(public, points)
        stages = self.plan(public)
        typical, spread = 0.2, 1 / 8  # of H, and of the standard deviation of what is explained as a part of the range
        stage = "curves" if self.feature is None else "tables"
        noise = public.mechanism(Sum(_nothing, box), stages[stage]).law.std / UNITS / 2 / rows
        cells = np.array([rounded_size(public.schema[name], points) for name in names], dtype=float)
        if self.feature is None:
            last = public.mechanism(Sum(_nothing, self.square_box(public)), stages["remainders"]).law.std / UNITS / 2 / rows
            # A cap of four typical remainders.
            own = 2**0.5 * noise**2 / np.sqrt(cells)
            variance = own**2 + ((4 * typical * spread) ** 2 * last) ** 2
        else:
            cells = cells * rounded_size(public.schema[str(self.feature)], points)
            variance = 2 * noise**4 / cells
        variance = variance + (2 * typical * spread * noise) ** 2 / cells
        error = np.sqrt(typical**2 + 1.96 * np.sqrt(variance) / spread**2) - typical
        labels = names if self.feature is None else tuple(f"{self.feature} × {name}" for name in names)
        notes = (
            "assumes an H of 0.2, effects with a standard deviation of an eighth of the model's range and equally common values; "
            "weaker effects have wider error bars",
        )
        return Expected(labels, error, float(2**0.5 * error.max()), notes)

    def flow(self) -> Flow:
        flow = (
            Flow("feature interaction")
            .input("records")
            .public("grid", "cells of every feature and candidate caps, from the schema")
            .public("model", "treated as public")
            .stage("spread", "records", "grid", needs="a histogram per feature: one record is in one cell of each")
        )
        known: tuple[str, ...] = ("records", "grid", "model", "spread")
        in_range = "answers in the declared range"
        if self.feature is not None:
            return flow.stage("tables", *known, needs=in_range).output(
                "explanation", "spread", "tables", needs="means taken off, squares, the noise's share taken off"
            )
        return (
            flow.stage("curves", *known, needs=in_range + ", beside a count under add-remove")
            .stage("cap", *known, "curves", needs="the span of a quantile score of remainders")
            .stage("remainders", *known, "curves", "cap", needs="squares cut at the cap of their feature, in [0, 1] of it")
            .output("explanation", "spread", "curves", "cap", "remainders", needs="division, the noise's share taken off")
        )

    def describe(self) -> dict[str, Any]:
        return {"explainer": "FeatureInteraction", "features": list(self.features), "of": self.feature, "points": self.points}

    @classmethod
    def examples(cls, model: Model, schema: Schema) -> Sequence[Explainer]:
        names = [name for name in schema if name in model.features]
        return [cls(model, points=2), cls(model, names[0], points=2)]


SHARES: dict[bool, dict[str, Fraction]] = {
    False: {"spread": Fraction(10, 100), "tables": Fraction(90, 100)},
    True: {"spread": Fraction(10, 100), "curves": Fraction(50, 100), "cap": Fraction(5, 100), "remainders": Fraction(35, 100)},
}
"""Stages and their shares, for pairs (False) and for each feature with all others (True)."""


def _h(squares: Sequence[float]) -> np.ndarray:
    return np.sqrt(np.clip(squares, 0.0, 1.0))


def _clean(answer: Answer, public: Public) -> tuple[list[np.ndarray], float]:
    """Non-negative counts of every feature, all with the same total, and that total."""
    bound = answer.bound
    assert isinstance(bound, CrossCells)
    noisy = np.split(np.array(answer.integers, dtype=float) / UNITS, np.cumsum(bound.sizes)[:-1])
    total = float(public.rows) if public.rows is not None else max(float(np.mean([part.sum() for part in noisy])), 1.0)
    return [project_counts(part, total) for part in noisy], max(total, 1.0)


def _nothing(rows: Rows) -> None:
    raise AssertionError("a preview asks nothing")
