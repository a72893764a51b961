"""Shapley dependence: what a feature adds to predictions, along its values, over the people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from ...errors import PlanError
from ...mechanisms import NoiseLaw
from ...public.grids import Bins, histogram_bins
from ...public.model import Model
from ...public.rows import Rows
from ...public.schema import Category, Schema, did_you_mean
from ...query import Sum
from ...query.bounds import Box, Cells
from ...release.door import Ask
from ...release.explainer import Explainer
from ...release.explanation import Explanation
from ...release.plan import WHOLE, Expected, Plan, Public, Stage
from ...release.verdict import foreseen
from ...sensitivity import Flow
from ..common.base import example_record, keep_whole_number, once_positional, refuse_curve
from ..common.caps import Look, PrivateCap
from .base import LOOK_SHARE, REFERENCES, AboutPeople, hidden_by
from .estimator import Chosen
from .results import ShapDependenceResult

USUAL_VALUE = 0.25
"""The part of the output range that the mean values of a cell rarely exceed."""


@dataclass(frozen=True)
class OneValue:
    """Per record: the size of its Shapley value of one feature."""

    chosen: Chosen
    place: int

    def __call__(self, rows: Rows) -> np.ndarray:
        return np.abs(self.chosen(rows)[:, self.place])


@dataclass(frozen=True)
class BeyondCap:
    """Per record: how much of its value a cap hides, upward and downward, in units of what it is looked for."""

    chosen: Chosen
    place: int
    cap: float
    reach: float

    def __call__(self, rows: Rows) -> np.ndarray:
        value = self.chosen(rows)[:, [self.place]]
        return np.clip((np.hstack([value, -value]) - self.cap) / self.reach, 0.0, 1.0)


@dataclass(frozen=True)
class ValueInCell:
    """Per record: the cell of its value of the feature, and the Shapley value there."""

    chosen: Chosen
    place: int
    name: str
    bins: Bins

    def __call__(self, rows: Rows) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        cell = self.bins.index(rows[self.name])
        return cell[:, None], np.ones((len(cell), 1)), self.chosen(rows)[:, [self.place]]


@dataclass(frozen=True)
class Along:
    """What is settled about a curve."""

    values: ValueInCell
    """What is asked of each record."""
    choice: PrivateCap | None
    """How a private cap is chosen, where one is."""
    noise: NoiseLaw
    """The noise of the curve, the same for every cap."""


@once_positional("points")
@dataclass(frozen=True)
class ShapDependence(AboutPeople):
    """How much a feature adds to predictions, along its values: the mean Shapley value of the people at each of them.

    Released: noisy sums of Shapley values and noisy counts over a public grid, jointly; divided afterwards. The grid is public:
    declared categories, single integers where they are few, else equal intervals, as many as pay at this number of records
    and price. Values beyond ±`.cap` count as ±`.cap`: a few large ones would decide how much noise is needed. What a cap may hide
    makes error bars longer.

    Claim: cell-sum, on quantile-span. Assumes that the model is a function of one row.
    Paper: after the dependence plots of Lundberg and others (2020), as means per cell instead of a dot per person.

    >>> import pellucid as pel
    >>> schema = pel.Schema({"age": pel.Number(0, 4, integer=True), "sex": pel.Category(["F", "M"])})
    >>> model = pel.Model(lambda d: d["age"] / 5 + 0.1 * (d["sex"] == "M"), output=(0, 1), trained_on="other data")
    >>> session = pel.Session({"age": [0, 1, 2, 3, 4] * 800, "sex": ["F", "M"] * 2000}, schema, budget=pel.Budget(epsilon=4.0))
    >>> curve = session.release(ShapDependence(model, "age", public_background=[{"age": 0, "sex": "F"}]), epsilon=4.0)
    >>> curve.x, bool(abs(curve.y[4] - 0.8) < 0.2)
    ((0, 1, 2, 3, 4), True)
    """

    feature: str = ""
    """The feature along which values are shown."""
    _: KW_ONLY
    points: int | None = None
    """How many cells; left out, as many as pay at this number of records and price."""

    stored_as = "pellucid.explainers.shap_dependence.ShapDependence"
    references = (
        *REFERENCES,
        "S. M. Lundberg et al., From local explanations to global understanding with explainable AI for trees, 2020.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.feature, str) or not self.feature:
            raise PlanError(f"feature={self.feature!r}: give a column name.")
        keep_whole_number(self, "points", 2, 1000)

    def columns(self, schema: Schema) -> tuple[str, ...]:
        found = super().columns(schema)
        refuse_curve(self.feature, self.groups, schema)
        if self.feature not in found:
            raise PlanError(f"the model does not use {self.feature!r}, so it has no effect{did_you_mean(self.feature, found)}.")
        return found

    def plan(self, public: Public) -> Plan:
        chosen, group = self.chosen(public.schema), self.grouping(public.schema).holding(self.feature)
        if group is not None:
            raise PlanError(
                f"{self.feature!r} is in the group {group!r}, which has one Shapley value as a whole: give groups={{}} for "
                "values of single features."
            )
        if self.feature not in chosen.features:
            raise PlanError(f"{self.feature!r} has no part in the model's answers: its Shapley values are exactly 0.")
        place = chosen.features.index(self.feature)
        values = ValueInCell(chosen, place, self.feature, self._bins(public))
        choice = self.cap_choice(public, OneValue(chosen, place), self._widest, 0.0)
        given = isinstance(self.cap, int | float) and self.cap < self.model.range
        left = WHOLE if choice is None else WHOLE - choice.stage.share
        share = left * (1 - LOOK_SHARE) if given or choice is not None else left
        curve = self._curve(public, values, self._widest, share)
        details = Along(values, choice, curve.noise)
        stages: tuple[Stage, ...] = (curve,)
        if choice is not None:
            stages = (choice.stage, Stage("curve", share), Stage("beyond", left - share))
        elif given:
            stages = (curve, public.stage("beyond", self._beyond(values, self._widest), left - share))
        return Plan(public, stages, details=details)

    def _look(self, cap: float) -> Look:
        # A cap that is the range hides nothing; a look that was paid for is taken all the same.
        reach = cap if self.cap is None else self.model.range
        return Look.beyond(cap, self.model.range, reach) or Look(self.model.range, 0.0)

    def _beyond(self, values: ValueInCell, cap: float) -> Sum:
        found = BeyondCap(values.chosen, values.place, cap, self._look(cap).reach)
        return Sum(found, Box(2, 0.0, 1.0), columns=values.chosen.columns)

    def _bins(self, public: Public) -> Bins:
        worth = public.rows_or_default * public.epsilon_like
        most, usual = int(np.clip(np.sqrt(worth) / 2, 8, 64)), int(np.clip(round(worth ** (1 / 3)), 4, 20))
        return histogram_bins(public.schema[self.feature], self.points, most, usual)

    @property
    def _widest(self) -> float:
        """The largest cap there may be: the one that was given, or the output range."""
        return float(self.cap) if isinstance(self.cap, int | float) else self.model.range

    def _query(self, public: Public, values: ValueInCell, cap: float) -> Sum:
        # In L1 counts cost what they weigh; in L2, under replace, they come free.
        weight = 0.5 if public.spend.currency == "epsilon" else 1.0
        return Sum(values, Cells(values.bins.cells, value=cap, count_weight=weight), columns=values.chosen.columns)

    def _curve(self, public: Public, values: ValueInCell, cap: float, share: Fraction) -> Stage:
        return public.stage("curve", self._query(public, values, cap), share)

    def run(self, ask: Ask) -> Explanation:
        public, details, cap = ask.public, ask.plan.details, self._widest
        values, beyond = details.values, None
        if details.choice is not None:
            # Twice the quantile: those above it are often in one cell, whose curve would be all bias.
            cap *= min(1.0, 2 * details.choice.chosen(ask.choose("cap")[0]))
            answer = ask.total("curve", self._query(public, values, cap))
            beyond = ask.total("beyond", self._beyond(values, cap))
        else:
            answer = ask.total("curve")
            beyond = ask.total("beyond") if "beyond" in ask.plan.shares else None
        bound, (sums, counts) = answer.bound, answer.cells()
        assert sums is not None and counts is not None and isinstance(bound, Cells)
        bins, feature = values.bins, public.schema[self.feature]
        people = max(float(counts.sum()) if public.rows is None else float(public.rows), 1.0)
        found = [hidden_by(beyond, self._look(cap), people, side) for side in (0, 1)] if beyond is not None else []
        return ShapDependenceResult(
            feature=self.feature,
            x=bins.labels,
            y=np.clip(np.where(counts >= 1, sums / np.maximum(counts, 1.0), 0.0), -cap, cap),
            counts=counts,
            sum_law=answer.noise.times(cap),
            count_law=answer.noise.times(1 / bound.count_weight),
            cap=cap,
            edges=bins.edges,
            categorical=isinstance(feature, Category) or bins.has_missing,
            estimator=values.chosen.why,
            hidden=np.array([people * side["hidden"] for side in found]) if found else None,
            hidden_law=found[0]["hidden_law"].times(people) if found else None,
            widest=self.model.range,
        )

    def flow(self, plan: Plan | None = None) -> Flow:
        flow = Flow("Shapley dependence").input("records").public("grid", "cells of the feature, from the schema")
        flow = flow.public("background", "public records").public("model", "treated as public")
        asked = {"curve", *(("cap", "beyond") if self._private_cap else ())} if plan is None else set(plan.shares)
        caps = tuple(name for name in ("cap",) if name in asked)
        if caps:
            flow = flow.stage("cap", "records", "background", "model", needs="ranks of sizes among public candidates")
        read = ("records", "grid", "background", "model", *caps)
        flow = flow.stage("curve", *read, needs="one value up to the cap in one cell, beside a count of the cell")
        if "beyond" in asked:
            flow = flow.stage("beyond", "records", "background", "model", *caps, needs="how much the cap hides, up to a limit")
        stages = tuple(name for name in ("cap", "curve", "beyond") if name in asked)
        return flow.output("explanation", "grid", *stages, needs="divide, label")

    def expected(self, plan: Plan) -> Expected:
        public, details, cap = plan.public, plan.details, self._widest
        bins = details.values.bins
        law = details.noise.times(cap * bins.cells / public.planning_rows)
        notes = [
            "assumes that people are spread evenly over the cells: one with a fifth of its even share errs five times as much; "
            "in all, errors on three tables were between 0.7 and 10 times these; the noise of the counts comes on top"
        ]
        if details.choice is not None:
            notes.append(f"values will be capped at a privately chosen number: errors shrink as much as it lies below {cap:g}")
        else:
            usual = USUAL_VALUE * self.model.range
            notes.append(foreseen(public, law.half_width(0.95), usual, "mean Shapley values of a feature"))
        labels = tuple(f"{self.feature} = {label}" for label in bins.labels)
        return Expected(labels, np.full(len(labels), law.half_width(0.95)), law.gap(0.95), tuple(notes))

    def describe(self) -> dict[str, Any]:
        return {**self._described(), "feature": self.feature, "points": self.points}

    @classmethod
    def examples(cls, model: Model, schema: Schema) -> Sequence[Explainer]:
        own = example_record(model, schema)
        names = [name for name in schema if name in own]
        return [
            *(
                cls(model, name, public_background=[own], permutations=2)
                for name in dict.fromkeys((names[len(names) // 2], names[-1]))
            ),
            cls(model, names[0], points=4, public_background=[own], permutations=2, cap="range"),
        ]
