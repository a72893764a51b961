"""Partial dependence: the mean prediction when a feature is set to each value of a public grid."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np

from ...errors import PlanError
from ...mechanisms import NoiseLaw
from ...public.frozen import settle
from ...public.grids import spread_points
from ...public.model import Model
from ...public.rows import Point, Rows
from ...public.schema import Category, Schema
from ...public.spread import digest, spreads_of
from ...query import Joint, Sum
from ...query.bounds import Ball, Box, Cells
from ...release.answer import Mean
from ...release.door import Ask
from ...release.explainer import Explainer
from ...release.explanation import Explanation
from ...release.plan import Expected, Plan, Public, Stage
from ...sensitivity import Flow
from ..common.base import AlongFeatures, keep_whole_number, once_positional
from ..common.results import Curve
from . import variation
from .leaning import leaned
from .results import DependenceCurve
from .smoothing import running_mean
from .variation import STEPS, Along, LevelsAndDifferences, Parts, Released, Variations

LOOK = Fraction(4, 100)
"""What a look at how much records vary may cost."""


@dataclass(frozen=True)
class Ceteris:
    """Per record: the predictions with one feature set to each grid value, feature after feature."""

    model: Model
    grids: tuple[tuple[str, tuple[float, ...]], ...]

    @property
    def asks_ahead(self) -> tuple[Model, list[Point]]:
        """What is asked, of which model: several such maps ask together."""
        return self.model, [(name, value) for name, values in self.grids for value in values]

    def __call__(self, rows: Rows) -> np.ndarray:
        return rows.predict_along(self.model, self.grids)


@dataclass(frozen=True, eq=False)
class Details:
    """What planning settled."""

    along: tuple[Along, ...]
    columns: tuple[str, ...]
    """What the model reads."""

    def by(self, method: str) -> tuple[Along, ...]:
        return tuple(one for one in self.along if one.method == method)


@once_positional("points", "smooth")
@dataclass(frozen=True)
class PartialDependence(AlongFeatures):
    """How the mean prediction moves along a feature, everything else left as it is.

    Released: one mean per grid point, all points by one draw of noise; or, where that is predicted to be better, the level of the
    curve, its differences from point to point, and how much of the curves of records was cut off, by one draw of noise. Then V,
    how far the curve of a single record may go up and down in all, comes from the curves of public records, and a few per cent of
    the price may tell that it has to be larger. The grid is public: all declared categories, whole numbers or evenly spaced
    values, as many as pay at this number of rows and ε. Afterwards the curve leans on those of public records, which tell its
    shape where noise hides it: `.as_released()` is the curve before. A list of features is one joint release with
    `.curves[name]`.

    Claim: box-sum, curve-variation, on cell-sum and ball-sum. Assumes that the model is a function of one row.
    Paper: "Tailoring differential privacy to any explainer", specific design for partial dependence; here with exact
    integer totals and the noise of smallest error.

    >>> import pellucid as pel
    >>> schema = pel.Schema({"age": pel.Number(0, 9, integer=True)})
    >>> model = pel.Model(lambda d: d["age"] / 10, output=(0, 1), features=["age"], trained_on="other data")
    >>> session = pel.Session({"age": [1, 2, 3] * 500}, schema, budget=pel.Budget(epsilon=5.0))
    >>> curve = session.release(pel.PartialDependence(model, "age"), epsilon=5.0)
    >>> curve.x[0], curve.x[-1], bool(abs(curve.y[-1] - 0.9) < 0.05)
    (0, 9, True)
    """

    _: KW_ONLY
    points: int | Sequence[Any] | None = None
    """How many grid points, or which; left out, as many as pay at this number of rows and ε."""
    smooth: int = 0
    """Average over so many neighbours on each side, which the error bars then no longer describe."""
    method: str = "auto"
    """How means are released. "values": one per grid point, without bias. "variation": the level and the differences from point
    to point, numbers only; that has far less noise where a single record's curve does not go up and down much, and cuts off the
    few that do. "auto": whichever is predicted to be better, feature by feature, from public things; then the curve leans on
    public records."""

    people: Sequence[Any] = field(default=(), repr=False)
    """Released distributions of columns, `pel.Distribution`: the curve then leans on made-up people who are spread so, and not on
    records from anywhere in the declared domains."""

    stored_as = "pellucid.explainers.partial_dependence.PartialDependence"
    references = (
        "J. H. Friedman, Greedy function approximation: a gradient boosting machine, Annals of Statistics 29 (2001).",
        "Tailoring Differential Privacy to Any Explainer, supplementary material: DP partial dependence plots.",
        "M. Hardt, K. Talwar, On the geometry of differential privacy, STOC 2010 (K-norm mechanism).",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.points, int | np.integer) or self.points is None:
            keep_whole_number(self, "points", 2, 1000)
        elif not isinstance(self.points, Iterable) or isinstance(self.points, str):
            raise PlanError(f"points={self.points!r}: give a whole number, or a list of values.")
        elif len(self.features) > 1:
            raise PlanError("points= as a list needs a single feature; for several features give a number.")
        else:
            settle(self, points=tuple(v.item() if isinstance(v, np.generic) else v for v in self.points))
            if not self.points:
                raise PlanError("points=[]: give at least one value, a whole number of points, or leave it out.")
        keep_whole_number(self, "smooth", 0, 99)
        settle(self, people=spreads_of(self.people))
        if self.method not in ("auto", "values", "variation"):
            raise PlanError(f"method={self.method!r}: give 'auto', 'values' or 'variation'.")

    def points_of(self, name: str, public: Public) -> np.ndarray | None:
        """The grid that was asked for, in inner form; None where as many points as pay are."""
        feature = public.schema[name]
        if isinstance(self.points, tuple):
            return np.array([feature.position(value) for value in self.points], dtype=float)
        if isinstance(self.points, int) and not isinstance(feature, Category):
            return spread_points(feature, self.points)
        return None

    def plan(self, public: Public) -> Plan:
        columns, count = self.columns(public.schema), len(self.features)
        along = tuple(
            variation.chosen(public, self.model, name, self.points_of(name, public), self.method, count, tuple(self.people))
            for name in self.features
        )
        details = Details(along, columns)
        if self.method == "variation" and not details.by("variation"):
            raise PlanError("method='variation' needs a numeric feature with at least three points; method='values' takes all.")
        stages: list[Stage] = []
        rest, look = Fraction(1), self.look(public, details)
        if look is None:
            details = replace(details, along=tuple(replace(one, variation=variation.UNSEEN * one.variation) for one in along))
        else:
            stages.append(public.stage("look", look, LOOK))
            rest -= LOOK
        shares = _shares(public, details, self.model.range)
        if details.by("values"):
            stages.append(public.stage("curve", self.values_query(public, details), rest * shares[0]))
        if details.by("variation"):
            share = rest * shares[1]
            if look is not None:
                stages.append(Stage("differences", share))
            else:
                stages.append(
                    public.stage("differences", self.differences_query(public, details.by("variation"), columns), share)
                )
        return Plan(public, tuple(stages), details)

    def look(self, public: Public, details: Details) -> Joint | None:
        """How many records vary more than public ones do, where a few per cent of the price can tell."""
        asked = details.by("variation")
        if not asked:
            return None
        query = Joint([Sum(Variations(self.model, one), Cells(len(STEPS) + 1), columns=details.columns) for one in asked])
        noise = public.stage("look", query, LOOK).noise.scale
        return query if variation.MANY * noise <= public.rows_or_default / 10 else None

    def values_query(self, public: Public, details: Details) -> Sum:
        asked = details.by("values")
        box = Box(sum(len(one.grid) for one in asked), *self.model.output, count=public.count_needed)
        return Sum(Ceteris(self.model, tuple((one.name, tuple(one.grid)) for one in asked)), box, columns=details.columns)

    def differences_query(self, public: Public, along: tuple[Along, ...], columns: tuple[str, ...]) -> Sum:
        parts = variation.parts_of_curves(public, along, self.model.range)
        size = sum(part.size for part in parts)
        bound = Ball(size, 1.0) if public.spend.currency == "rho" else Cells(size, value=1.0, count_weight=0)
        return Sum(LevelsAndDifferences(self.model, parts), bound, columns=columns)

    def run(self, ask: Ask) -> Explanation:
        details, curves = ask.plan.details, {}
        if details.by("values"):
            mean, start = ask.total("curve").mean(), 0
            for one in details.by("values"):
                curves[one.name] = self.curve_of_values(one, mean, mean.values[start : start + len(one.grid)])
                start += len(one.grid)
        if details.by("variation"):
            along = self.looked_at(ask, details)
            if along[0].method == "values":
                # Alone, and records vary so much that values have less noise after all.
                mean = ask.total("differences", self.values_query(ask.public, Details(along, details.columns))).mean()
                return self.joined({along[0].name: self.curve_of_values(along[0], mean, mean.values)})
            query = self.differences_query(ask.public, along, details.columns)
            answer = ask.total("differences", query if "look" in ask.plan.shares else None)
            numbers = answer.numbers
            for part in query.map.parts:  # type: ignore[attr-defined]
                curves[part.along.name] = self.curve_of_differences(ask.public, part, numbers[: part.size], answer.noise)
                numbers = numbers[part.size :]
        return self.joined({name: curves[name] for name in self.features})

    def looked_at(self, ask: Ask, details: Details) -> tuple[Along, ...]:
        """The features with the bounds of their variation, larger ones where too many records are beyond them."""
        asked = details.by("variation")
        if "look" not in ask.plan.shares:
            return asked
        answer, found, wild = ask.total("look"), [], False
        for i, one in enumerate(asked):
            beyond = np.cumsum(answer.part(i).numbers[::-1])[::-1][1:]
            few = np.flatnonzero(beyond <= variation.MANY * answer.noise.scale)
            wild = not len(few)
            found.append(replace(one, variation=one.variation * float(STEPS[few[0] if len(few) else -1])))
        (one, *others), public = found, ask.public
        if self.method == "auto" and not others and not details.by("values"):
            values, by_differences = (
                variation.predicted(public, len(one.grid), v, shape=one.shape) for v in (None, one.variation / self.model.range)
            )
            if wild or values < by_differences:
                return (replace(one, method="values"),)
        return tuple(found)

    def leaning(self, one: Along, released: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """A released curve with what public records say about its shape."""
        (lo, _), width = self.model.output, self.model.range
        return released if one.shape is None else lo + width * leaned((released - lo) / width, noise / width**2, one.shape)

    def curve_of_values(self, one: Along, mean: Mean, means: np.ndarray) -> Explanation:
        y = self.leaning(one, means, replace(mean, values=means).covariance()) if mean.count >= 1 else means
        return Curve(
            feature=one.name,
            x=tuple(one.feature.value_at(v) for v in one.grid),
            y=running_mean(y, self.smooth) if self.smooth and not one.categorical else y,
            means=None if y is means else means,
            law=mean.law,
            count=mean.count,
            noisy_count=mean.noisy_count,
            output=self.model.output,
            categorical=one.categorical,
            smoothed=bool(self.smooth) and not one.categorical,
        )

    def curve_of_differences(self, public: Public, part: Parts, numbers: np.ndarray, law: NoiseLaw) -> Explanation:
        made = released(public, part, numbers, law, self.model)
        y = self.leaning(part.along, made.curve(), made.covariance()) if made.count >= 1 else made.curve()
        return DependenceCurve(
            feature=part.along.name,
            x=tuple(part.along.feature.value_at(v) for v in part.along.grid),
            y=running_mean(y, self.smooth) if self.smooth else y,
            numbers=numbers,
            law=law,
            level_weight=part.level,
            difference_weight=part.differences,
            variation=part.along.variation,
            output=self.model.output,
            rows=made.rows,
            factorised=part.spread,
            smoothed=bool(self.smooth),
        )

    def flow(self, plan: Plan | None = None) -> Flow:
        stages = plan.shares if plan is not None else {"curve": 1}
        flow = (
            Flow("partial dependence")
            .input("records")
            .public("grid", "values of the feature, from the schema and public records")
            .public("model", "treated as public")
        )
        reads, asked = ("records", "grid", "model"), [name for name in ("look", "curve", "differences") if name in stages]
        if "look" in stages:
            flow = flow.stage("look", *reads, needs="a histogram per feature: one record is in one cell of each")
        if "curve" in stages:
            flow = flow.stage("curve", *reads, needs="answers in the declared range, beside a count under add-remove")
        if "differences" in stages:
            needs = "level and differences of a record's curve, together in one ball"
            flow = flow.stage("differences", *reads, *(("look",) if "look" in stages else ()), needs=needs)
        return flow.output("explanation", "grid", *asked, needs="divide, accumulate, lean on public records, label")

    def expected(self, plan: Plan) -> Expected:
        public, details, rows = plan.public, plan.details, plan.public.planning_rows
        half: dict[str, np.ndarray] = {}
        noise: dict[str, np.ndarray] = {}
        gaps, notes = [], []
        if details.by("values"):
            law = plan["curve"].noise.times(self.model.range / 2 / rows)
            half |= {one.name: np.full(len(one.grid), law.half_width(0.95)) for one in details.by("values")}
            noise |= {one.name: np.full(len(one.grid), law.std) for one in details.by("values")}
            gaps.append(law.gap(0.95))
            if public.count_needed:
                notes.append("the count of records is noisy too: near the ends of the range errors are up to √2 larger")
        if details.by("variation"):
            query = self.differences_query(public, details.by("variation"), details.columns)
            law = public.stage("differences", query, plan["differences"].share).noise
            for part in query.map.parts:  # type: ignore[attr-defined]
                numbers = np.zeros(part.size)
                numbers[: 1 + part.two_levels] = part.level * rows / 2 if part.two_levels else 0.0
                made = released(public, part, numbers, law, self.model, rows)
                half[part.along.name], noise[part.along.name] = made.half_widths(0.95), np.sqrt(np.diag(made.covariance()))
                gaps.append(float(2**0.5 * half[part.along.name].max()))
            margin = variation.MARGIN * (1.0 if "look" in plan.shares else variation.UNSEEN)
            notes.append(
                "level and differences are released; assumes that people's curves vary no more than those of public records, "
                f"times {margin:.3g}; where they vary more, the bars are wider"
            )
        labels = tuple(f"{one.name} = {one.feature.value_at(v)}" for one in details.along for v in one.grid)
        error = np.concatenate([half[one.name] for one in details.along])
        return Expected(labels, error, max(gaps), tuple(notes), self.typical(public, details.along, noise))

    def typical(self, public: Public, along: Sequence[Along], noise: dict[str, np.ndarray]) -> np.ndarray | None:
        """Root mean square errors once curves lean on public records."""
        if any(one.shape is None for one in along):
            return None
        usual = []
        for one in along:
            way = one.variation / self.model.range if one.method == "variation" else None
            plain, left = (variation.predicted(public, len(one.grid), way, len(along), shape) for shape in (None, one.shape))
            usual.append(noise[one.name] * (left / plain) ** 0.5)
        return np.concatenate(usual)

    def describe(self) -> dict[str, Any]:
        points = list(self.points) if isinstance(self.points, tuple) else self.points
        told = {"explainer": "PartialDependence", "features": list(self.features), "points": points, "smooth": self.smooth}
        # The version before knew values alone: what it released answers every request but one for differences.
        told |= {"method": self.method} if self.method == "variation" else {}
        return {**told, "people": digest(self.people)} if self.people else told

    @classmethod
    def examples(cls, model: Model, schema: Schema) -> Sequence[Explainer]:
        names = [name for name in schema if name in model.features]
        return [*(cls(model, name) for name in names), cls(model, names), cls(model, names[0], points=5)]


def released(
    public: Public, part: Parts, numbers: np.ndarray, law: NoiseLaw, model: Model, rows: float | None = None
) -> Released:
    """The released numbers of one curve with what is public about them."""
    known = None if public.count_needed else float(rows if rows is not None else public.rows or 0)
    return Released(numbers, law, part.level, part.differences, part.along.variation, model.output, known, part.spread)


def _shares(public: Public, details: Details, output_range: float) -> tuple[Fraction, Fraction]:
    """How the price is divided between features by values and by differences, for the least sum of predicted errors."""
    values, differences = details.by("values"), details.by("variation")
    if not values or not differences:
        return Fraction(bool(values)), Fraction(bool(differences))
    first = len(values) * variation.predicted(public, sum(len(one.grid) for one in values), None)
    errors = [variation.predicted(public, len(one.grid), one.variation / output_range) for one in differences]
    power = 2 if public.spend.currency == "rho" else 3
    second = sum(e ** (1 / power) for e in errors) ** power
    part = Fraction(round(100 / (1 + (second / first) ** (1 / power))), 100)
    part = min(max(part, Fraction(5, 100)), Fraction(95, 100))
    return part, 1 - part
