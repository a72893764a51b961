"""Partial dependence: the mean prediction when a feature is set to each value of a public grid."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from ...errors import PlanError
from ...public.frozen import settle
from ...public.grids import curve_points, spread_points
from ...public.model import Model
from ...public.rows import Rows
from ...public.schema import Category, Schema
from ...query import Sum
from ...query.bounds import Box
from ...release.door import Ask
from ...release.explainer import Explainer
from ...release.explanation import Explanation
from ...release.plan import Expected, Plan, Public
from ...sensitivity import Flow
from ..common.base import AlongFeatures, keep_whole_number, once_positional
from ..common.results import Curve
from .smoothing import running_mean


@dataclass(frozen=True)
class Ceteris:
    """Per record: the predictions with one feature set to each grid value, feature after feature."""

    model: Model
    grids: tuple[tuple[str, tuple[float, ...]], ...]

    def __call__(self, rows: Rows) -> np.ndarray:
        columns = rows.predict_each(self.model, [{name: value} for name, values in self.grids for value in values])
        return np.stack(columns, axis=1)


@once_positional("points", "smooth")
@dataclass(frozen=True)
class PartialDependence(AlongFeatures):
    """How the mean prediction moves along a feature, everything else left as it is.

    Released: one mean per grid point, all points by one draw of noise. The grid is public: all declared categories, all
    integers or evenly spaced values, as many as pay at this number of rows and ε. A list of features is one joint release
    with `.curves[name]`.

    Claim: box-sum. Assumes that the model is a function of one row.
    Paper: "Tailoring differential privacy to any explainer", specific design for partial dependence; here with exact
    integer totals and the noise of smallest error.

    >>> import pellucid as pel
    >>> schema = pel.Schema({"age": pel.Number(0, 9, integer=True)})
    >>> model = pel.Model(lambda d: d["age"] / 10, output=(0, 1), features=["age"], trained_on="other data")
    >>> session = pel.Session({"age": [1, 2, 3] * 500}, schema, budget=pel.Budget(epsilon=5.0))
    >>> curve = session.release(pel.PartialDependence(model, "age"), epsilon=5.0)
    >>> len(curve.x), bool(abs(curve.y[9] - 0.9) < 0.05)
    (10, True)
    """

    _: KW_ONLY
    points: int | Sequence[Any] | None = None
    """How many grid points, or which; left out, as many as pay at this number of rows and ε."""
    smooth: int = 0
    """Average over so many neighbours on each side, which the error bars then no longer describe."""

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
        elif not isinstance(self.points, Iterable):
            raise PlanError(f"points={self.points!r}: give a whole number, or a list of values.")
        elif len(self.features) > 1:
            raise PlanError("points= as a list needs a single feature; for several features give a number.")
        else:
            settle(self, points=tuple(v.item() if isinstance(v, np.generic) else v for v in self.points))
        keep_whole_number(self, "smooth", 0, 99)

    def grid(self, name: str, public: Public) -> np.ndarray:
        """The public grid of one feature, in inner form."""
        feature = public.schema[name]
        if isinstance(self.points, tuple):
            return np.array([feature.position(value) for value in self.points], dtype=float)
        if isinstance(self.points, int) and not isinstance(feature, Category):
            return spread_points(feature, self.points)
        return curve_points(feature, public.rows_or_default, public.epsilon_like / len(self.features))

    def plan(self, public: Public) -> Plan:
        grids = {name: self.grid(name, public) for name in self.features}
        box = Box(sum(map(len, grids.values())), *self.model.output, count=public.count_needed)
        map_ = Ceteris(self.model, tuple((name, tuple(grid)) for name, grid in grids.items()))
        query = Sum(map_, box, columns=self.columns(public.schema))
        return Plan(public, (public.stage("curve", query),), details=grids)

    def run(self, ask: Ask) -> Explanation:
        mean = ask.total("curve").mean()
        curves: dict[str, Explanation] = {}
        start = 0
        for name, grid in ask.plan.details.items():
            y = mean.values[start : start + len(grid)]
            start += len(grid)
            feature = ask.public.schema[name]
            categorical = isinstance(feature, Category)
            curves[name] = Curve(
                feature=name,
                x=tuple(feature.label(v) for v in grid),
                y=running_mean(y, self.smooth) if self.smooth and not categorical else y,
                law=mean.law,
                count=mean.count,
                noisy_count=mean.noisy_count,
                output=self.model.output,
                categorical=categorical,
                smoothed=bool(self.smooth) and not categorical,
            )
        return self.joined(curves)

    def flow(self, plan: Plan | None = None) -> Flow:
        return (
            Flow("partial dependence")
            .input("records")
            .public("grid", "values of the feature, from the schema")
            .public("model", "treated as public")
            .stage("curve", "records", "grid", "model", needs="answers in the declared range, beside a count under add-remove")
            .output("explanation", "grid", "curve", needs="divide, label")
        )

    def expected(self, plan: Plan) -> Expected:
        public = plan.public
        law = plan["curve"].noise.times(self.model.range / 2 / public.planning_rows)
        labels = tuple(f"{name} = {public.schema[name].label(v)}" for name, grid in plan.details.items() for v in grid)
        notes = (
            ("the count of records is noisy too: near the ends of the range errors are up to √2 larger",)
            if public.count_needed
            else ()
        )
        return Expected(labels, np.full(len(labels), law.half_width(0.95)), law.gap(0.95), notes)

    def describe(self) -> dict[str, Any]:
        points = list(self.points) if isinstance(self.points, tuple) else self.points
        return {"explainer": "PartialDependence", "features": list(self.features), "points": points, "smooth": self.smooth}

    @classmethod
    def examples(cls, model: Model, schema: Schema) -> Sequence[Explainer]:
        names = [name for name in schema if name in model.features]
        return [*(cls(model, name) for name in names), cls(model, names), cls(model, names[0], points=5)]
