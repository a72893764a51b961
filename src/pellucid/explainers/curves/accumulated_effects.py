"""Accumulated local effects: what a feature does to predictions, measured only where people are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from ...errors import PlanError
from ...mechanisms import NoiseLaw
from ...public.grids import edge_candidates
from ...public.model import Model
from ...public.rows import Rows
from ...public.schema import Category, Feature, Schema
from ...query import Choice, Joint, Sum
from ...query.bounds import Ball, Cells
from ...query.scores import QuantileScore
from ...release.answer import Answer
from ...release.door import Ask
from ...release.explainer import Explainer
from ...release.explanation import Explanation
from ...release.plan import Expected, Plan, Public, later
from ...sensitivity import Flow
from ..common.base import AlongFeatures, keep_whole_number, once_positional
from ..common.projection import project_counts
from . import accumulate, expected_effects
from .accumulate import Intervals
from .expected_effects import FURTHER, combinations, largest_step, public_steps
from .results import EffectCurve
from .steps import CLIPS, ClippedSteps, CombinedSteps, OnGrid, Steps, StepSize
from .variation import MARGIN

BEYOND = 4.0
"""How many records a clip may leave beyond it, for each that the noise of the curve is worth: noise against bias."""
BLIND = 2.5
"""How many times the noise of the curve that of what was cut off may move it: clips are not smaller than that allows."""


@dataclass(frozen=True, eq=False)
class Along:
    """What is public about one feature."""

    name: str
    feature: Feature
    grid: np.ndarray
    """The values that borders may take, in inner form."""
    intervals: int
    """How many intervals to aim for."""

    @property
    def categorical(self) -> bool:
        return isinstance(self.feature, Category)

    @property
    def places(self) -> Sum:
        """How many records are nearest to each grid value, and how many have none."""
        return Sum(OnGrid(self.name, self.grid), Cells(len(self.grid) + self.feature.fills_nan), columns=(self.name,))

    @property
    def likely_intervals(self) -> int:
        """How many there will be: whole numbers have no more steps than values."""
        return min(self.intervals, self.feature.levels - 1) if self.feature.levels else self.intervals

    @property
    def step_by_step(self) -> bool:
        """Whether there is a step from each value to the next, however many people have it."""
        return self.categorical or bool(self.feature.levels and self.feature.levels - 1 <= self.intervals)

    def between(self, counts: np.ndarray, count_law: NoiseLaw) -> Intervals:
        """The intervals, from released counts."""
        if self.categorical:
            return accumulate.neighbour_intervals(counts, floor=count_law.scale)
        return accumulate.rank_intervals(counts, self.intervals, noise=count_law.half_width(1 - 1 / len(counts)))


@dataclass(frozen=True)
class Details:
    """What planning settled."""

    along: tuple[Along, ...]
    columns: tuple[str, ...]
    """What the model reads."""
    unit: NoiseLaw
    """The noise of a sum of steps that are clipped to one."""


@dataclass(frozen=True, eq=False)
class Settled:
    """What the first stages settled about the steps along one feature. Released numbers only."""

    along: Along
    cells: np.ndarray
    """The cleaned histogram on the grid."""
    steps: ClippedSteps
    weights: np.ndarray
    """Of the borders, in the mean that centres the curve."""
    asked: np.ndarray
    """The combinations of sums to ask for."""


@once_positional("intervals")
@dataclass(frozen=True)
class AccumulatedEffects(AlongFeatures):
    """How predictions change along a feature, accumulated from small steps on the people who are near each step.

    Released: in three stages, a noisy histogram of the feature on a public grid, from which the borders of the intervals
    follow; for each feature a clip for a single record's step, chosen privately; and the noisy sum of steps per interval,
    beside what the clip cut off. Dividing by the noisy counts, accumulating and centring cost nothing more; in zCDP accounts a
    factorisation of the accumulation spreads the noise. Categories are stepped through in their declared order. `.clip` says
    how large a step may be: larger ones were scaled down, a bias that error bars include, if people's steps are not more than
    1.4 times as large as the largest of public records, or than twice the clip. Where few people are behind a step between
    categories, the mean step of public records stands in for it, as far as released counts and the laws of the noise say
    (`.keep`). A list of features is one joint release with `.curves[name]`.

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

    _: KW_ONLY
    intervals: int | None = None
    """How many intervals to aim for; left out, as many as pay at this number of rows and ε. Categories have one per step."""

    stored_as = "pellucid.explainers.accumulated_effects.AccumulatedEffects"
    private_grid = True
    references = (
        "D. W. Apley, J. Zhu, Visualizing the effects of predictor variables in black box supervised learning models, 2020.",
        "Tailoring Differential Privacy to Any Explainer: DP accumulated local effects.",
        "R. McKenna, D. Sheldon, Permute-and-flip: a new mechanism for differentially private selection, NeurIPS 2020.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        keep_whole_number(self, "intervals", 1, 1000)
        # Steps are clipped to parts of it, and a part has to be a usable range too.
        if not 1e-270 < self.model.range < 1e300:
            raise PlanError(f"the output range {self.model.output} is too wide or too narrow for floats; change its unit.")

    def columns(self, schema: Schema) -> tuple[str, ...]:
        needed = super().columns(schema)
        for name in self.features:
            if (schema[name].levels or 2) < 2:
                raise PlanError(f"{name!r} has a single declared value: there is no step to take.")
        return needed

    def plan(self, public: Public) -> Plan:
        columns, epsilon = self.columns(public.schema), public.epsilon_like / len(self.features)
        pays = self.intervals or accumulate.interval_count(public.rows_or_default, epsilon)
        every = all(isinstance(public.schema[name], Category) for name in self.features)
        # Categories need their counts less precisely (no borders hang on them) and their steps more.
        places, clips = Fraction(10 if every else 20, 100), Fraction(10, 100)
        counts = Joint([Along(name, public.schema[name], np.arange(2.0), 1).places for name in self.features])
        along = []
        for name in self.features:
            feature = public.schema[name]
            grid = edge_candidates(feature)
            if isinstance(feature, Category):
                along.append(Along(name, feature, grid, len(grid) - 1))
            else:
                std = public.stage("places", counts, places).noise.std
                along.append(Along(name, feature, accumulate.coarser(grid, pays, public.rows_or_default, std), pays))
            # Steps between too many categories are refused here, before anything is paid for.
            steps_bound(public, along[-1].intervals, self.model.range)
        unit = public.stage("steps", Joint([Sum(_nothing, steps_bound(public, 1, 1.0)) for _ in along]), 1 - places - clips)
        looks = [(f"clip {name}", clips / len(self.features)) for name in self.features]
        first = public.stage("places", Joint([a.places for a in along]), places)
        stages = (first, *later([*looks, ("steps", 1 - places - clips)]))
        return Plan(public, stages, Details(tuple(along), columns, unit.noise))

    def run(self, ask: Ask) -> Explanation:
        public, details = ask.public, ask.plan.details
        places = ask.total("places")
        noisy = [places.part(i) for i in range(len(details.along))]
        cells = [_clean_counts(part, public.rows) for part in noisy]
        # All intervals are known before any step is looked at, so that the steps of all features are one question.
        beside = tuple(
            Steps(self.model, along.name, along.grid, self.intervals_of(public, along, found, part, places.noise))
            for along, found, part in zip(details.along, cells, noisy)
        )
        settled = [
            self.settled(ask, along, found, steps.intervals, beside) for along, found, steps in zip(details.along, cells, beside)
        ]
        released = ask.total("steps", Joint([steps_query(public, one, details.columns) for one in settled]))
        return self.joined(
            {one.along.name: self.curve(public, one, released.part(i), places.noise) for i, one in enumerate(settled)}
        )

    @staticmethod
    def intervals_of(public: Public, along: Along, cells: np.ndarray, noisy: Answer, count_law: NoiseLaw) -> Intervals:
        """Intervals from released counts."""
        made = along.between(cells[: len(along.grid)], count_law)
        return made if along.categorical else accumulate.recounted(made, noisy.numbers, public.rows, count_law.std)

    def settled(self, ask: Ask, along: Along, cells: np.ndarray, intervals: Intervals, beside: tuple[Steps, ...]) -> Settled:
        """A clip chosen privately, and what is then asked about the steps."""
        public, details, most = ask.public, ask.plan.details, self.model.range
        counts = cells[: len(along.grid)]
        weights = accumulate.centring_weights(intervals, counts, along.grid)
        asked = combinations(public, intervals.mass, weights)
        worth = accumulate.noise_of_curve(intervals.mass, weights, asked)
        # Thin categories, of which little is kept, would decide alone what noise is worth.
        beyond = BEYOND * details.unit.std * (len(intervals) ** 0.5 if along.categorical else worth)
        usual = largest_step(public, self.model, along, intervals)
        clips = most * CLIPS[CLIPS * most * BLIND * worth >= usual * (1 - 1e-9)]
        clips = clips if len(clips) else np.array([most])
        if not along.categorical:  # between categories people's steps are often far larger than those of public records
            clips = clips[: np.searchsorted(clips, MARGIN * usual) + 1]
        sizes = StepSize(self.model, along.name, along.grid, intervals, clips, beside=beside)
        choice = Choice(
            Sum(sizes, Cells(len(clips)), columns=details.columns), QuantileScore(_clip_quantile(beyond, counts.sum()))
        )
        clip = float(clips[ask.choose(f"clip {along.name}", choice)[0]])
        hidden = 0.0 if clip >= most else max(usual, FURTHER * clip)
        steps = ClippedSteps(self.model, along.name, along.grid, intervals, clip, hidden, beside=beside)
        return Settled(along, cells, steps, weights, asked)

    def curve(self, public: Public, one: Settled, answer: Answer, count_law: NoiseLaw) -> EffectCurve:
        """Solve, divide, accumulate and centre: released numbers only."""
        along, intervals, clip = one.along, one.steps.intervals, one.steps.clip
        hidden, gaussian = one.steps.hidden, public.spend.currency == "rho"
        most = min(hidden or self.model.range, self.model.range)
        law, mass = answer.noise.times(clip), intervals.mass
        sums = np.linalg.solve(one.asked, answer.numbers[: len(intervals)] * clip)
        like, spread = public_steps(public, self.model, along, intervals)
        keep = np.ones(len(mass))
        if like is not None and spread is not None:
            keep = accumulate.kept_part(like, spread, mass, one.asked, law.std, count_law.std)
        own = accumulate.mean_effects(sums, mass, most)
        effects = own if like is None else keep * own + (1 - keep) * like
        place, share = intervals.places()
        return EffectCurve(
            feature=along.name,
            x=tuple(along.feature.value_at(v) for v in along.grid[intervals.edges]),
            y=accumulate.curve(effects, one.weights),
            counts=intervals.mass,
            sums=sums,
            weights=one.weights,
            factorised=gaussian,
            clip=clip,
            most=most,
            floor=count_law.scale if along.categorical else 1.0,
            sum_law=law,
            count_law=count_law,
            grid=along.grid,
            cells=one.cells,
            fixed_total=public.rows is not None,
            place=place.astype(float),
            share=share,
            categorical=along.categorical,
            cut_off=float(answer.numbers[-1] * hidden) if hidden else 0.0,
            hidden=hidden,
            counted=1.0,
            like_public=like,
            keep=None if like is None else keep,
            spread=spread,
        )

    def flow(self, plan: Plan | None = None) -> Flow:
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

    def expected(self, plan: Plan) -> Expected:
        details, count_law = plan.details, plan["places"].noise
        found = [expected_effects.foreseen(plan.public, self.model, along, details.unit, count_law) for along in details.along]
        labels = tuple(f"{a.name}, border {i}" for a, one in zip(details.along, found) for i in range(len(one.bars)))
        error, typical, at_most = (np.concatenate(each) for each in zip(*((one.bars, one.typical, one.at_most) for one in found)))
        notes = expected_effects.notes({along.categorical for along in details.along}, float(error.max()), float(at_most.max()))
        return Expected(labels, error, float(2**0.5 * error.max()), notes, typical, at_most)

    def describe(self) -> dict[str, Any]:
        return {"explainer": "AccumulatedEffects", "features": list(self.features), "intervals": self.intervals}

    @classmethod
    def examples(cls, model: Model, schema: Schema) -> Sequence[Explainer]:
        names = [name for name in schema if name in model.features]
        return [*(cls(model, name) for name in names), cls(model, names[:3]), cls(model, names[0], intervals=5)]


def steps_query(public: Public, one: Settled, columns: tuple[str, ...]) -> Sum:
    """The sums of steps per interval, or the combinations of them that are asked under Gaussian noise."""
    steps = one.steps
    bound = steps_bound(public, len(steps.intervals) + bool(steps.hidden), steps.clip)
    if isinstance(bound, Cells):
        return Sum(steps, bound, columns=columns)
    plain = (steps.model, steps.name, steps.grid, steps.intervals, steps.clip, steps.hidden)
    return Sum(CombinedSteps(*plain, one.asked, beside=steps.beside), bound, columns=columns)


def steps_bound(public: Public, intervals: int, clip: float) -> Ball | Cells:
    """A record's steps have an absolute sum of at most the clip; combined by columns of length one, so has their length."""
    return Ball(intervals, clip) if public.spend.currency == "rho" else Cells(intervals, value=clip, count_weight=0)


def _nothing(rows: Rows) -> None:
    raise AssertionError("a preview asks nothing")


def _clean_counts(answer: Answer, rows: int | None) -> np.ndarray:
    """Non-negative counts that add up: to the public number of rows, or to their own noisy total."""
    total = float(rows) if rows is not None else max(float(answer.numbers.sum()), 1.0)
    return project_counts(answer.numbers, total)


def _clip_quantile(beyond: float, rows: float) -> Fraction:
    """The quantile that leaves `beyond` records above the clip, at most one in twenty."""
    part = min(beyond / max(rows, 1.0), 0.05)
    return Fraction(1 - max(part, 1e-6)).limit_denominator(10**6)
