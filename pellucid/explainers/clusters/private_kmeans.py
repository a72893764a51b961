"""Cluster centres found privately, and with them a clustering that is a function on records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
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
from ...sensitivity import Flow
from ..common.base import feature_list, keep_whole_number, once_positional
from .centres import Centres, Space
from .iteration import HALF, Iteration, Totals, count_weight
from .starts import Grid, centres_of_cells, evenly_spread, public_records, reseeded

GRID_SHARE = Fraction(1, 3)
MOST_CELLS = 1 << 14
MOST_FEATURES = 50
MOST_COORDINATES = 256


@dataclass(frozen=True)
class Design:
    """What a plan settles beside its stages."""

    iteration: Iteration
    """What every iteration asks, whatever the centres."""
    grid: Grid | None
    """The cells of the first stage, if there is one."""


@once_positional("iterations", "start", "seed")
@dataclass(frozen=True)
class PrivateKMeans(Explainer):
    """k centres of the people in the data, and the clustering that puts a record to the nearest: `.centres`, `.clustering`.

    Released: in every iteration, the noisy sum of each feature over the people nearest to each centre, and how many they are.
    Features are scaled to their declared ranges; a category of two values counts as 0 and 1, one of more by the share of each
    value. A centre that nobody seems to be near moves to a public point around the largest cluster. The last iteration gets twice
    the share of the others. With `start="grid"`, before all that, a noisy histogram over a coarse grid.

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
    """How often the centres move; left out, 5 times from a public start and once from a grid."""
    start: str = "public"
    """Where the first centres come from: "public" records spread over the declared domain, or a "grid".

    A grid takes a third of the spend, for a noisy histogram whose k-means are the first centres: much the better for up to about
    a dozen features, since k-means from a public start often ends in a poor local optimum."""
    seed: int = 0
    """Draws the public records."""

    stored_as = "pellucid.explainers.private_kmeans.PrivateKMeans"
    references = (
        "A. Blum, C. Dwork, F. McSherry, K. Nissim, Practical privacy: the SuLQ framework, PODS 2005.",
        "D. Su, J. Cao, N. Li, E. Bertino, H. Jin, Differentially private k-means clustering, CODASPY 2016.",
    )

    def __post_init__(self) -> None:
        if self.start not in ("public", "grid"):
            raise PlanError(f"start={self.start!r}: use 'public' or 'grid'.")
        if self.iterations is None:
            settle(self, iterations=5 if self.start == "public" else 1)
        for name, low, high in (("k", 2, 100), ("iterations", 1, 50), ("seed", 0, 2**31)):
            if getattr(self, name) is None:
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

    @property
    def turns(self) -> tuple[str, ...]:
        """The stages in which centres move."""
        return tuple(f"iteration {i}" for i in range(1, int(self.iterations or 1) + 1))

    def plan(self, public: Public) -> Plan:
        space = self.space(public.schema)
        iteration = Iteration(space, self.k, count_weight(public, len(space.names)))
        grid = self.grid(space, public) if self.start == "grid" else None
        first: tuple[Stage, ...] = ()
        left = Fraction(1)
        if grid is not None:
            first = (public.stage("grid", Sum(grid, Cells(grid.cells), columns=space.names), GRID_SHARE),)
            left -= GRID_SHARE
        weights = [1] * (len(self.turns) - 1) + [2]
        # A public start is known already, but it takes a while to find and no preview needs it.
        moves = later((turn, left * Fraction(weight, sum(weights))) for turn, weight in zip(self.turns, weights))
        return Plan(public, (*first, *moves), details=Design(iteration, grid))

    def run(self, ask: Ask) -> Explanation:
        design: Design = ask.plan.details
        iteration, space = design.iteration, design.iteration.space
        cloud = public_records(space, self.seed)
        centres = evenly_spread(space, cloud, self.k)
        if design.grid is not None:
            centres = centres_of_cells(design.grid, ask.total("grid"), centres)
        for turn in self.turns:
            totals = iteration.totals(ask.total(turn, iteration.query(centres)))
            centres = totals.means(centres)
            if turn != self.turns[-1]:
                centres = reseeded(space, cloud, centres, totals.counts, totals.counts < totals.floor)
        return _released(space, centres, totals)

    def flow(self, plan: Plan | None = None) -> Flow:
        flow = Flow("private k-means").input("records").public("start", "records drawn from the schema and their centres")
        last: tuple[str, ...] = ("start",)
        if self.start == "grid":
            flow = (
                flow.public("cells", "of a grid over the declared ranges")
                .stage("grid", "records", "cells", needs="a histogram: one record is in one cell")
                .stage("centres 0", "start", "cells", "grid", needs="k-means of the noisy histogram")
            )
            last = ("centres 0", "start")
        divided = "noisy sums divided by noisy counts"
        for i, turn in enumerate(self.turns, 1):
            flow = flow.stage(turn, "records", last[0], needs="features in their declared ranges, beside counts per cluster")
            if i < len(self.turns):
                flow = flow.stage(f"centres {i}", turn, *last, needs=divided)
                last = (f"centres {i}", "start")
        return flow.output("explanation", turn, *last, needs=divided)

    def expected(self, plan: Plan) -> Expected:
        """Errors in the last iteration, for clusters of equal size half-way between the middle and the border of a range."""
        iteration: Iteration = plan.details.iteration
        space, last = iteration.space, self.turns[-1]
        # How far one person moves the totals does not depend on where the centres are.
        anywhere = iteration.query(np.zeros((self.k, sum(space.widths))))
        law = plan.public.stage(last, anywhere, plan[last].share).noise
        people = plan.public.planning_rows / self.k
        noise = law.pairs(20_000)
        counting = 1 / iteration.count_weight
        error, gap = [], 0.0
        for feature, width in zip(space.features, space.widths):
            spread, away = (HALF, HALF / 2) if width == 1 else (1.0, 1 / width)
            drawn = (spread * noise[:, 0] + away * counting * noise[:, 1]) / people
            size = feature.hi - feature.lo if isinstance(feature, Number) else 1.0
            error += [size * float(np.quantile(np.abs(drawn), 0.95))] * width
            gap = max(gap, size * float(np.quantile(drawn[::2] - drawn[1::2], 0.95)))
        notes = []
        if people < counting * law.half_width(0.95):
            notes.append(
                f"clusters of {people:.0f} people are smaller than the noise of their counts; ask for fewer clusters, features "
                "or iterations, or spend more"
            )
        return Expected(tuple(f"centre of {c}" for c in space.coordinates), np.array(error), gap, tuple(notes))

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
