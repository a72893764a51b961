"""Accumulated local effects: what a feature does to predictions, measured only where people are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from ...errors import PlanError
from ...mechanisms import NoiseLaw
from ...public.grids import edge_candidates, nearest
from ...public.model import Model
from ...public.rows import Rows
from ...public.schema import Category, Number, Schema
from ...query import Choice, Joint, Sum
from ...query.bound import UNITS
from ...query.bounds import Ball, Cells
from ...query.scores import QuantileScore
from ...release.answer import Answer
from ...release.door import Ask
from ...release.explainer import Explainer
from ...release.explanation import Explanation
from ...release.plan import Expected, Plan, Public
from ...sensitivity import Flow
from ..common.base import AlongFeatures, keep_whole_number
from . import accumulate
from .accumulate import Plan
from .results import EffectCurve

CLIPS = 2.0 ** (-np.arange(32, -1, -1) / 4)
"""Candidate clips, as parts of the model's range."""


@dataclass(frozen=True, eq=False)
class OnGrid:
    """Per record: the nearest public grid value; a missing value has the cell after the last."""

    name: str
    grid: np.ndarray

    def __call__(self, rows: Rows) -> tuple[np.ndarray, np.ndarray, None]:
        cell = nearest(self.grid, rows[self.name])
        cell = np.where(cell < 0, len(self.grid), cell)
        return cell[:, None], np.ones((len(cell), 1)), None


@dataclass(frozen=True, eq=False)
class Steps:
    """Per record: its parts of the differences in prediction across the intervals its value belongs to."""

    model: Model
    name: str
    grid: np.ndarray
    plan: Plan

    def differences(self, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
        place, share = self.plan.places()
        at = nearest(self.grid, rows[self.name])
        cell = np.where(at[:, None] < 0, -1, place[at])
        steps = np.zeros(cell.shape)
        for j in range(cell.shape[1]):
            who = np.flatnonzero(cell[:, j] >= 0)
            if len(who):
                some, interval = rows.take(who), cell[who, j]
                upper = some.predict(self.model, {self.name: self.grid[self.plan.upper[interval]]})
                lower = some.predict(self.model, {self.name: self.grid[self.plan.lower[interval]]})
                steps[who, j] = share[at[who], j] * (upper - lower)
        return cell, steps


@dataclass(frozen=True, eq=False)
class StepSize(Steps):
    """Per record: which candidate clip would just not touch it."""

    def __call__(self, rows: Rows) -> tuple[np.ndarray, np.ndarray, None]:
        _, steps = self.differences(rows)
        cell = np.searchsorted(CLIPS * self.model.range, np.abs(steps).sum(axis=1), side="left")
        return np.minimum(cell, len(CLIPS) - 1)[:, None], np.ones((len(rows), 1)), None


@dataclass(frozen=True, eq=False)
class ClippedSteps(Steps):
    """Per record: its differences, scaled down together when they exceed the clip."""

    clip: float

    def __call__(self, rows: Rows) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        cell, steps = self.differences(rows)
        size = np.abs(steps).sum(axis=1)
        factor = np.minimum(1.0, self.clip / np.maximum(size, 1e-300))
        return cell, np.zeros(cell.shape), steps * factor[:, None]


@dataclass(frozen=True, eq=False)
class CombinedSteps(ClippedSteps):
    """Per record: combinations of its clipped differences, as a factorisation of the accumulation asks for them."""

    asked: np.ndarray

    def __call__(self, rows: Rows) -> np.ndarray:  # type: ignore[override]
        cell, _, steps = super().__call__(rows)
        combined = np.zeros((len(rows), len(self.asked)))
        for j in range(cell.shape[1]):
            combined += self.asked.T[cell[:, j]] * np.where(cell[:, j] >= 0, steps[:, j], 0.0)[:, None]
        return combined


@dataclass(frozen=True)
class AccumulatedEffects(AlongFeatures):
    """How predictions change along a feature, accumulated from small steps on the people who are near each step.

    Released: in three stages, a noisy histogram of the feature on a public grid, from which the borders of the intervals
    follow; for each feature a clip for a single record's step, chosen privately; and the noisy sum of steps per interval.
    Dividing by the noisy counts, accumulating and centring cost nothing more; in zCDP accounts a factorisation of the
    accumulation spreads the noise. Categories are stepped through in their declared order. `.clip` says how large a step
    may be: larger ones were scaled down, a bias the intervals do not include. A list of features is one joint release
    with `.curves[name]`.

    Claim: ale-ties, on cell-sum and quantile-span. Assumes that the model is a function of one row.
    Papers: "Tailoring differential privacy to any explainer" (private ALE); Apley and Zhu (2020).

    >>> import pellucid as pel
    >>> schema = pel.Schema({"age": pel.Number(0, 9, integer=True)})
    >>> model = pel.Model(lambda d: d["age"] / 10, output=(0, 1), features=["age"], trained_on="other data")
    >>> session = pel.Session({"age": list(range(10)) * 500}, schema, budget=pel.Budget(epsilon=5.0))
    >>> curve = session.release(pel.AccumulatedEffects(model, "age"), epsilon=5.0)
    >>> bool(abs(curve.y[-1] - curve.y[0] - 0.9) < 0.2)
    True
    """

    intervals: int | None = None

    private_grid = True
    references = (
        "D. W. Apley, J. Zhu, Visualizing the effects of predictor variables in black box supervised learning models, 2020.",
        "Tailoring Differential Privacy to Any Explainer: DP accumulated local effects.",
        "R. McKenna, D. Sheldon, Permute-and-flip: a new mechanism for differentially private selection, NeurIPS 2020.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        keep_whole_number(self, "intervals", 1, 1000)

    def columns(self, schema: Schema) -> tuple[str, ...]:
        needed = super().columns(schema)
        for name in self.features:
            if (schema[name].levels or 2) < 2:
                raise PlanError(f"{name!r} has a single declared value: there is no step to take.")
        return needed

    def plan(self, public: Public) -> Plan:
        # What cannot be asked is refused here, before it is paid for.
        self.places_query(public)
        for name in self.features:
            if isinstance(public.schema[name], Category):
                steps_bound(public, int(public.schema[name].levels or 2) - 1, self.model.range)
        # Categories need their counts less precisely (no borders hang on them) and their steps more.
        only_categories = all(isinstance(public.schema[name], Category) for name in self.features)
        places = Fraction(10 if only_categories else 20, 100)
        clips = {f"clip {name}": Fraction(5, 100) / len(self.features) for name in self.features}
        return {"places": places, **clips, "steps": 1 - places - Fraction(5, 100)}

    def places_query(self, public: Public) -> Joint:
        sums = []
        for name in self.features:
            grid = edge_candidates(public.schema[name])
            sums.append(Sum(OnGrid(name, grid), Cells(len(grid) + _has_missing(public, name)), columns=(name,)))
        return Joint(sums)

    def run(self, ask: Ask) -> Explanation:
        public = ask.public
        columns = self.columns(public.schema)
        epsilon = public.epsilon_like / len(self.features)
        answer = ask.total("places", self.places_query(public))
        count_law = answer.law.times(1 / UNITS)
        steps: list[ClippedSteps] = []
        cells: list[np.ndarray] = []
        for i, name in enumerate(self.features):
            grid = edge_candidates(public.schema[name])
            cells.append(_clean_counts(answer.part(i), public))
            feature_counts = cells[-1][: len(grid)]
            plan = self.interval_plan(public, name, feature_counts, count_law, epsilon)
            per_step = 32 if isinstance(public.schema[name], Category) else 8
            q = _clip_quantile(per_step * len(plan.mass) / epsilon, feature_counts.sum())
            choice = Choice(Sum(StepSize(self.model, name, grid, plan), Cells(len(CLIPS)), columns=columns), QuantileScore(q))
            clip = self.model.range * float(CLIPS[ask.choose(f"clip {name}", choice)[0]])
            steps.append(ClippedSteps(self.model, name, grid, plan, clip))
        weights = [accumulate.centring_weights(step.plan, c[: len(step.grid)], step.grid) for step, c in zip(steps, cells)]
        asked = [combinations(public, step.plan.mass, w) for step, w in zip(steps, weights)]
        released = ask.total("steps", Joint([steps_query(public, step, a, columns) for step, a in zip(steps, asked)]))
        curves: dict[str, Explanation] = {}
        for i, step in enumerate(steps):
            curves[step.name] = self.curve(public, step, cells[i], weights[i], asked[i], released.part(i), count_law)
        return self.joined(curves)

    def interval_plan(self, public: Public, name: str, counts: np.ndarray, count_law: NoiseLaw, epsilon: float) -> Plan:
        """The intervals of one feature, from released counts."""
        if isinstance(public.schema[name], Category):
            return accumulate.plan_neighbours(counts, floor=count_law.scale)
        intervals = self.intervals or accumulate.interval_count(public.rows_or_default, epsilon)
        return accumulate.plan_ranks(counts, intervals, noise=count_law.half_width(1 - 1 / len(counts)))

    def curve(
        self,
        public: Public,
        step: ClippedSteps,
        cells: np.ndarray,
        weights: np.ndarray,
        asked: np.ndarray,
        answer: Answer,
        count_law: NoiseLaw,
    ) -> EffectCurve:
        """Solve, divide, accumulate and centre: released numbers only."""
        feature, plan = public.schema[step.name], step.plan
        unit = step.clip / units_per_clip(public)
        sums = np.linalg.solve(asked, np.array(answer.integers, dtype=float) * unit)
        effects = accumulate.mean_effects(sums, plan.mass, self.model.range)
        place, share = plan.places()
        return EffectCurve(
            feature=step.name,
            x=tuple(feature.label(v) for v in step.grid[plan.edges]),
            y=accumulate.curve(effects, weights),
            counts=plan.mass,
            sums=sums,
            weights=weights,
            factorised=public.spend.currency == "rho",
            clip=step.clip,
            most=self.model.range,
            floor=count_law.scale if isinstance(feature, Category) else 1.0,
            sum_law=answer.law.times(unit),
            count_law=count_law,
            grid=step.grid,
            cells=cells,
            fixed_total=public.rows is not None,
            place=place.astype(float),
            share=share,
            categorical=isinstance(feature, Category),
        )

    def flow(self) -> Flow:
        clips = tuple(f"clip {name}" for name in self.features)
        flow = (
            Flow("accumulated effects")
            .input("records")
            .public("grid", "candidate borders, from the schema")
            .public("model", "treated as public")
            .stage("places", "records", "grid", needs="a histogram per feature: one record is in one cell of each")
        )
        for clip in clips:
            flow = flow.stage(clip, "records", "grid", "model", "places", needs="the span of a quantile score of step sizes")
        steps = ("records", "grid", "model", "places", *clips)
        return flow.stage("steps", *steps, needs="differences of a record, together at most the clip of their feature").output(
            "explanation", "grid", "places", *clips, "steps", needs="intervals, division by noisy counts, accumulation, centring"
        )

    def expected(self, public: Public) -> Expected:
        rows, epsilon = public.planning_rows, public.epsilon_like / len(self.features)
        stages = self.plan(public)
        labels: list[str] = []
        errors: list[np.ndarray] = []
        clips, sums = [], []
        for name in self.features:
            feature = public.schema[name]
            k = (
                feature.levels - 1
                if isinstance(feature, Category)
                else self.intervals or accumulate.interval_count(rows, epsilon)
            )
            if isinstance(feature, Number) and feature.levels:
                k = min(k, feature.levels - 1)
            # A smooth effect crosses the range in k steps; four times its share is a generous clip for one of them.
            clips.append(self.model.range * (1.0 if isinstance(feature, Category) else min(1.0, 4 / k)))
            sums.append(Sum(_nothing, steps_bound(public, k, clips[-1])))
        law = public.mechanism(Joint(sums), stages["steps"]).law.times(1 / units_per_clip(public))
        for name, clip, part in zip(self.features, clips, sums):
            k = part.size
            mass, weights = np.full(k, max(rows / k, 1.0)), np.full(k + 1, 1 / (k + 1))
            half = accumulate.noise_alone(mass, weights, combinations(public, mass, weights), law.times(clip), 0.95)
            errors.append(half)
            labels += [f"{name}, border {i}" for i in range(k + 1)]
        error = np.concatenate(errors)
        notes = (
            "assumes equally filled intervals and steps of at most four times an even share of the range; the clip chosen "
            "privately may be smaller, and for a model with large jumps it is larger; the noise of the counts comes on top",
        )
        return Expected(tuple(labels), error, float(2**0.5 * error.max()), notes)

    def describe(self) -> dict[str, Any]:
        return {"explainer": "AccumulatedEffects", "features": list(self.features), "intervals": self.intervals}

    @classmethod
    def examples(cls, model: Model, schema: Schema) -> Sequence[Explainer]:
        names = [name for name in schema if name in model.features]
        return [*(cls(model, name) for name in names), cls(model, names[:3]), cls(model, names[0], intervals=5)]


def steps_query(public: Public, step: ClippedSteps, asked: np.ndarray, columns: tuple[str, ...]) -> Sum:
    """The sums of steps per interval, or the combinations of them that are asked under Gaussian noise."""
    bound = steps_bound(public, len(step.plan.mass), step.clip)
    if isinstance(bound, Cells):
        return Sum(step, bound, columns=columns)
    return Sum(CombinedSteps(step.model, step.name, step.grid, step.plan, step.clip, asked), bound, columns=columns)


def steps_bound(public: Public, intervals: int, clip: float) -> Ball | Cells:
    """A record's steps have an absolute sum of at most the clip; combined by columns of length one, so has their length."""
    return Ball(intervals, clip) if public.spend.currency == "rho" else Cells(intervals, value=clip, count_weight=0)


def units_per_clip(public: Public) -> int:
    return Ball.LIMIT if public.spend.currency == "rho" else UNITS


def combinations(public: Public, mass: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Under Gaussian noise a factorisation of the accumulation is the better question; under Laplace it is not."""
    return accumulate.factorisation(mass, weights) if public.spend.currency == "rho" else np.eye(len(mass))


def _nothing(rows: Rows) -> None:
    raise AssertionError("a preview asks nothing")


def _has_missing(public: Public, name: str) -> bool:
    feature = public.schema[name]
    return isinstance(feature, Number) and bool(np.isnan(feature.missing))  # type: ignore[arg-type]


def _clean_counts(answer: Answer, public: Public) -> np.ndarray:
    """Non-negative counts that add up: to the public number of rows, or to their own noisy total."""
    _, noisy = answer.cells()
    assert noisy is not None
    total = float(public.rows) if public.rows is not None else max(float(noisy.sum()), 1.0)
    return accumulate.project_counts(noisy, total)


def _clip_quantile(beyond: float, rows: float) -> Fraction:
    """The quantile that leaves `beyond` records above the clip, at most one in twenty."""
    part = min(beyond / max(rows, 1.0), 0.05)
    return Fraction(1 - max(part, 1e-6)).limit_denominator(10**6)
