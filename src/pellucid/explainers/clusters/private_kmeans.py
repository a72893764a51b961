"""Cluster centres found privately, and with them a clustering that is a function on records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np

from ...errors import PlanError
from ...public.frozen import settle
from ...public.model import Model
from ...public.schema import Category, Number, Schema
from ...query import Sum
from ...query.bounds import Cells
from ...release.door import Ask
from ...release.explainer import Explainer
from ...release.explanation import Explanation
from ...release.plan import Expected, Plan, Public, Stage, later
from ...release.verdict import enough
from ...sensitivity import Flow
from ..common.base import feature_list, keep_whole_number, once_positional
from .centres import Centres, Space
from .fitted import EQUAL, FittedGrid, Marginals, threshold
from .iteration import HALF, Iteration, Totals, count_weight
from .starts import Grid, best_means, centres_of_cells, evenly_spread, public_records, reseeded

GRID_SHARE = Fraction(1, 3)
"""Of the spend, for a grid without histograms of the features."""
HISTOGRAMS, FITTED = Fraction(1, 10), Fraction(2, 5)
"""Of the spend, for the histograms of the features and for the grid fitted to them."""
CLEAR_HISTOGRAMS = 40
"""Standard deviations of their noise that everybody must be for the histograms to be worth their price."""
PEOPLE_A_CELL = 4
"""The same for a cell of the grid."""
MOST_FITTED, MOST_TURNS = 1 << 12, 4
STEADY = 0.015
"""Noise of a centre, in parts of a range, up to which a further iteration is worth its price."""
USEFUL = 0.1
"""An error of a centre, in parts of a range, with which most clusters are told apart."""
MOSTLY_NOISE = 2.5 * USEFUL
"""Beyond it centres are mostly noise."""
WORSE, MEASURED_FEATURES = Fraction(1, 3), 4
"""One cluster was better in the median of ten tables where the error of a centre, in parts of a range, times the features over
the square of the clusters was .41 or more, and worse where it was .27 or less (benchmarks/kmeans_refusals.py)."""
STRAY = (0.1, 0.05)
"""The part of everybody that empty cells may hold, without histograms of the features and with them."""
MOST_CELLS = 1 << 14
MOST_FEATURES = 50
MOST_COORDINATES = 256


@dataclass(frozen=True)
class Fitting:
    """What is settled about a grid before its cells are known."""

    marginals: Marginals
    """The intervals and values of every feature."""
    counted: bool
    """Whether there are people enough for histograms of the features."""
    cells: int
    """How many cells there are at most."""
    people: int
    """The number of people to plan with."""

    @property
    def shares(self) -> tuple[tuple[str, Fraction], ...]:
        """The stages and their parts of the spend."""
        return (("histograms", HISTOGRAMS), ("grid", FITTED)) if self.counted else (("grid", GRID_SHARE),)


@dataclass(frozen=True)
class Design:
    """What a plan settles beside its stages."""

    iteration: Iteration
    """What every iteration asks, whatever the centres."""
    turns: tuple[str, ...]
    """The stages in which centres move."""
    grid: Grid | None = None
    """The cells of the first stage, if they are equal ones."""
    fitting: Fitting | None = None
    """How the cells will be fitted, if they are."""


@once_positional("iterations", "start", "seed")
@dataclass(frozen=True)
class PrivateKMeans(Explainer):
    """k centres of the people in the data, and the clustering that puts a record to the nearest: `.centres`, `.clustering`.

    Released: in every iteration, the noisy sum of each feature over the people nearest to each centre, and how many they are.
    Features are scaled to their declared ranges; a category of two values counts as 0 and 1, one of more by the share of each
    value. The last iteration gets twice the share of the others. Before that, a noisy histogram over a grid whose k-means are the
    first centres, and where there are people enough for it, one of each feature by itself, to which cells are fitted. A mean is
    believed only as far as it stands out of its noise, so that hardly ever one cluster would have been better.

    Claim: cell-sum and joint-sum; each iteration is a stage of its own.
    Papers: "Practical privacy: the SuLQ framework"; "Differentially private k-means clustering" (DPLloyd, and its hybrid).

    >>> import pellucid as pel
    >>> schema = pel.Schema({"age": pel.Number(0, 100), "bmi": pel.Number(10, 60)})
    >>> data = {"age": [20.0, 80.0] * 2000, "bmi": [22.0, 35.0] * 2000}
    >>> session = pel.Session(data, schema, budget=pel.Budget(epsilon=2.0))
    >>> found = session.release(pel.PrivateKMeans(2, ["age", "bmi"]), epsilon=2.0)
    >>> sorted(int(round(age, -1)) for age in found.centres[:, 0])
    [20, 80]
    >>> found.clustering.clusters
    (0, 1)
    """

    k: int
    """How many clusters."""
    features: str | Sequence[str]
    """The features that tell how far apart records are."""
    _: KW_ONLY
    iterations: int | None = None
    """How often the centres move; left out, as often as is worth it, 5 times from a public start, once from a grid."""
    start: str = "fitted"
    """Where the first centres come from: a grid "fitted" to the features, a "grid" of equal cells, or "public" records.

    A grid takes a third to a half of the spend, for noisy histograms whose k-means are the first centres: much the better, since
    k-means from public records spread over the declared domain often ends in a poor local optimum. "grid" and "public" are as
    they were before there were fitted ones."""
    seed: int = 0
    """Draws the public records."""
    anyway: bool = field(default=False, repr=False)
    """Release also where one cluster is likely to be better, from what is public; otherwise that is refused."""

    stored_as = "pellucid.explainers.private_kmeans.PrivateKMeans"
    references = (
        "A. Blum, C. Dwork, F. McSherry, K. Nissim, Practical privacy: the SuLQ framework, PODS 2005.",
        "D. Su, J. Cao, N. Li, E. Bertino, H. Jin, Differentially private k-means clustering, CODASPY 2016.",
    )

    def __post_init__(self) -> None:
        if self.start not in ("fitted", "grid", "public"):
            raise PlanError(f"start={self.start!r}: use 'fitted', 'grid' or 'public'.")
        if self.iterations is None and self.start != "fitted":
            settle(self, iterations=5 if self.start == "public" else 1)
        for name, low, high in (("k", 2, 100), ("iterations", 1, 50), ("seed", 0, 2**31)):
            if getattr(self, name) is None and name != "iterations":
                raise PlanError(f"{name}=None: give a whole number from {low} to {high}.")
            keep_whole_number(self, name, low, high)
        names = feature_list(self.features)
        if len(names) > MOST_FEATURES:
            raise PlanError(f"{len(names)} features: the noise grows with each of them; choose at most {MOST_FEATURES}.")
        settle(self, features=names)

    @property
    def names(self) -> tuple[str, ...]:
        return feature_list(self.features)

    def columns(self, schema: Schema) -> tuple[str, ...]:
        self.space(schema)
        return tuple(name for name in schema if name in self.names)

    def space(self, schema: Schema) -> Space:
        """The declared features as coordinates."""
        space = Space(self.names, tuple(schema[name] for name in self.names))
        for name, feature in zip(space.names, space.features):
            if isinstance(feature, Category) and feature.levels < 2:
                raise PlanError(f"{name!r} has one declared value, the same for everybody; leave it out.")
        if sum(space.widths) > MOST_COORDINATES:
            raise PlanError(
                f"the features have {sum(space.widths)} coordinates, one for each value of a category; "
                f"use at most {MOST_COORDINATES} or group the values."
            )
        return space

    def grid(self, space: Space, public: Public) -> Grid:
        """The cells of the first stage, from what is public alone."""
        share = float(GRID_SHARE) if public.spend.currency == "epsilon" else float(GRID_SHARE) ** 0.5
        grid = Grid.of(space, public.rows_or_default, public.epsilon_like * share)
        if grid.cells > MOST_CELLS:
            raise PlanError(
                f"a grid over these features has at least {grid.cells:,} cells, more than {MOST_CELLS:,}; "
                "use fewer features or start='public'."
            )
        return grid

    def fitting(self, space: Space, public: Public) -> Fitting:
        """How fine histograms and grid will be, from what is public alone."""
        people = public.rows_or_default
        rough = Marginals(space, EQUAL)
        clear = people / public.stage("histograms", rough.query(), HISTOGRAMS).noise.std
        counted = clear >= CLEAR_HISTOGRAMS
        intervals = min(256, max(16, 1 << int(np.log2(max(clear / 2, 1.0))))) if counted else EQUAL
        grid = FittedGrid.of(rough, rough.equal(), MOST_FITTED, known=False)
        noise = public.stage("grid", _histogram(grid, space), FITTED if counted else GRID_SHARE).noise
        cells = max(2 ** len(space.names), people / (PEOPLE_A_CELL * noise.std))
        return Fitting(Marginals(space, intervals), counted, int(min(MOST_FITTED, cells)), people)

    def worthwhile(self, public: Public, iteration: Iteration, left: Fraction) -> int:
        """How many iterations leave centres steady, for clusters of equal size."""
        anywhere = iteration.query(np.zeros((self.k, sum(iteration.space.widths))))
        people = public.rows_or_default / self.k
        turns = range(MOST_TURNS, 1, -1)
        noise = {turn: HALF * public.stage("iteration", anywhere, left / (turn + 1)).noise.std / people for turn in turns}
        return next((turn for turn in turns if noise[turn] <= STEADY), 1)

    def plan(self, public: Public) -> Plan:
        space = self.space(public.schema)
        iteration = Iteration(space, self.k, count_weight(public, len(space.names)))
        grid = self.grid(space, public) if self.start == "grid" else None
        fitting = self.fitting(space, public) if self.start == "fitted" else None
        first: tuple[Stage, ...] = ()
        if grid is not None:
            first = (public.stage("grid", _histogram(grid, space), GRID_SHARE),)
        if fitting is not None:
            first = later(fitting.shares[-1:])
            if fitting.counted:
                first = (public.stage("histograms", fitting.marginals.query(), HISTOGRAMS), *first)
        left = 1 - sum((stage.share for stage in first), Fraction(0))
        count = self.iterations if self.iterations is not None else self.worthwhile(public, iteration, left)
        turns, weights = tuple(f"iteration {i}" for i in range(1, count + 1)), [1] * (count - 1) + [2]
        # A public start is known already, but it takes a while to find and no preview needs it.
        moves = later((turn, left * Fraction(weight, sum(weights))) for turn, weight in zip(turns, weights))
        plan = Plan(public, (*first, *moves), details=Design(iteration, turns, grid, fitting))
        known = public.rows is not None or public.expected_rows is not None
        # Other starts are as they were before; without a guess of the number of people nothing can be said.
        return replace(plan, useless=self._useless(plan)) if known and self.start == "fitted" and not self.anyway else plan

    def _useless(self, plan: Plan) -> str:
        """Why it is not worth paying for, from what is public, or nothing."""
        error, people = self._errors(plan)[1], plan.public.planning_rows / self.k
        # A centre that may be a whole range away says nothing, however many there are.
        limit = min(1.0, float(WORSE * self.k**2 / min(len(plan.details.iteration.space.names), MEASURED_FEATURES)))
        if error <= limit:
            return ""
        why = f"a centre of {people:,.0f} people would be known to ±{error:.2g} of a range, so one cluster is likely to be better"
        fix = enough(plan.public, error / min(limit, MOSTLY_NOISE))
        return f"{why}: {fix}; or fewer clusters or features; or say anyway=True."

    def run(self, ask: Ask) -> Explanation:
        design: Design = ask.plan.details
        iteration, space = design.iteration, design.iteration.space
        cloud = public_records(space, self.seed)
        centres = evenly_spread(space, cloud, self.k)
        if design.fitting is not None:
            return self._from_fitted(ask, design, design.fitting, centres)
        if design.grid is not None:
            centres = centres_of_cells(design.grid, ask.total("grid"), centres)
        for turn in design.turns:
            totals = iteration.totals(ask.total(turn, iteration.query(centres)))
            centres = totals.means(centres)
            if turn != design.turns[-1]:
                centres = reseeded(space, cloud, centres, totals.counts, totals.counts < totals.floor)
        return _released(space, centres, totals)

    def _from_fitted(self, ask: Ask, design: Design, fitting: Fitting, public_start: np.ndarray) -> Explanation:
        marginals, space, iteration = fitting.marginals, design.iteration.space, design.iteration
        shares = marginals.shares(ask.total("histograms")) if fitting.counted else marginals.equal()
        grid = FittedGrid.of(marginals, shares, fitting.cells, fitting.counted)
        answer = ask.total("grid", _histogram(grid, space))
        _, counts = answer.cells()
        assert counts is not None
        least = threshold(answer.noise.std / 2**0.5, grid.cells, fitting.people, STRAY[fitting.counted])
        points, kept = grid.points(), counts > least
        if kept.sum() >= self.k:
            centres = best_means(space, points[kept], counts[kept], self.k, self.seed)
        else:
            # Too little stands out to cluster: the middle of it, what there is, and public points.
            alike = np.where(kept, counts, 0.0) if kept.any() else np.ones(len(counts))
            middle = alike @ points / alike.sum()
            centres = np.vstack([middle, points[kept] if kept.sum() > 1 else points[:0], public_start])[: self.k]
        for turn in design.turns:
            totals = iteration.totals(ask.total(turn, iteration.query(centres)))
            centres = totals.shrunk(centres, space.lengths())
        return _released(space, centres, totals)

    def flow(self, plan: Plan | None = None) -> Flow:
        flow = Flow("private k-means").input("records").public("start", "records drawn from the schema and their centres")
        last: tuple[str, ...] = ("start",)
        design: Design | None = plan.details if plan is not None else None
        if self.start != "public":
            cells: tuple[str, ...] = ("cells",)
            flow = flow.public("cells", "of a grid over the declared ranges")
            if self.start == "fitted" and (design is None or (design.fitting is not None and design.fitting.counted)):
                flow = flow.stage("histograms", "records", "cells", needs="one record has one value of every feature")
                cells = ("cells", "histograms")
            flow = flow.stage("grid", "records", *cells, needs="a histogram: one record is in one cell").stage(
                "centres 0", "start", *cells, "grid", needs="k-means of the noisy histogram"
            )
            last = ("centres 0", "start")
        divided = "noisy sums divided by noisy counts"
        turns = design.turns if design is not None else tuple(f"iteration {i}" for i in range(1, (self.iterations or 1) + 1))
        for i, turn in enumerate(turns, 1):
            flow = flow.stage(turn, "records", last[0], needs="features in their declared ranges, beside counts per cluster")
            if i < len(turns):
                flow = flow.stage(f"centres {i}", turn, *last, needs=divided)
                last = (f"centres {i}", "start")
        return flow.output("explanation", turn, *last, needs=divided)

    def expected(self, plan: Plan) -> Expected:
        """Errors in the last iteration, for clusters of equal size half-way between the middle and the border of a range."""
        found, worst = self._errors(plan)
        return replace(
            found, notes=(*found.notes, _verdict(worst, plan.public.planning_rows / self.k, plan.public.planning_rows))
        )

    def _errors(self, plan: Plan) -> tuple[Expected, float]:
        """(errors, the largest in parts of a range)."""
        iteration: Iteration = plan.details.iteration
        space, last = iteration.space, plan.details.turns[-1]
        # How far one person moves the totals does not depend on where the centres are.
        anywhere = iteration.query(np.zeros((self.k, sum(space.widths))))
        law = plan.public.stage(last, anywhere, plan[last].share).noise
        people = plan.public.planning_rows / self.k
        noise = law.pairs(20_000)
        counting = 1 / iteration.count_weight
        error, gap, worst = [], 0.0, 0.0
        for feature, width in zip(space.features, space.widths):
            spread, away = (HALF, HALF / 2) if width == 1 else (1.0, 1 / width)
            drawn = (spread * noise[:, 0] + away * counting * noise[:, 1]) / people
            size = feature.hi - feature.lo if isinstance(feature, Number) else 1.0
            worst = max(worst, float(np.quantile(np.abs(drawn), 0.95)))
            error += [size * float(np.quantile(np.abs(drawn), 0.95))] * width
            gap = max(gap, size * float(np.quantile(drawn[::2] - drawn[1::2], 0.95)))
        notes = []
        if people < counting * law.half_width(0.95):
            notes.append(
                f"clusters of {people:.0f} people are smaller than the noise of their counts; ask for fewer clusters, features "
                "or iterations, or spend more"
            )
        return Expected(tuple(f"centre of {c}" for c in space.coordinates), np.array(error), gap, tuple(notes)), worst

    def describe(self) -> dict[str, Any]:
        return {
            "explainer": "PrivateKMeans",
            "k": self.k,
            "features": list(self.names),
            "iterations": self.iterations,
            "start": self.start,
            "seed": self.seed,
        }

    @classmethod
    def examples(cls, model: Model, schema: Schema) -> Sequence[Explainer]:
        numbers = [name for name, feature in schema.items() if isinstance(feature, Number)]
        categories = [name for name in schema if name not in numbers]
        return [
            cls(3, numbers[:2], iterations=2, start="public"),
            cls(2, list(schema), iterations=2, start="public"),
            cls(2, categories[1:2], iterations=1, start="public"),
            cls(3, [*numbers[2:], *categories], start="grid"),
        ]


def _released(space: Space, centres: np.ndarray, totals: Totals) -> Centres:
    lowest, width = space.scales()
    return Centres(
        features=space.names,
        declared=tuple(feature.to_dict() for feature in space.features),
        coordinates=space.coordinates,
        centres=lowest + width * centres,
        counts=totals.counts,
        sums=totals.sums,
        spread=totals.spread,
        count_spread=totals.count_spread,
        origin=totals.origin,
        floor=totals.floor,
        law=totals.law,
    )


def _verdict(error: float, people: float, everybody: int) -> str:
    """What centres will be worth, in parts of a range: the error goes with one over the people and one over ε."""
    who = f"centres of clusters of about {people:,.0f} people are known to ±{error:.2g} of a range"
    if error <= USEFUL:
        return f"verdict: {who}"
    more = error / USEFUL
    enough = f"{everybody * more:,.0f} people or {more:.2g} times the ε would do"
    if error <= MOSTLY_NOISE:
        return f"verdict: {who}, enough for clusters that lie well apart; {enough} for others"
    return f"verdict: {who}, and clusters are rarely much further apart: mostly noise; {enough}"


def _histogram(grid: Grid | FittedGrid, space: Space) -> Sum:
    return Sum(grid, Cells(grid.cells), columns=space.names)
