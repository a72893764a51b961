"""Cluster centres found privately, and with them a clustering that is a function on records."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from ...errors import PlanError
from ...mechanisms import NoiseLaw
from ...public.model import Model
from ...public.rows import Rows
from ...public.schema import Category, Number, Schema
from ...query import Joint, Sum
from ...query.bound import UNITS
from ...query.bounds import Cells
from ...release.answer import Answer
from ...release.door import Ask
from ...release.explainer import Explainer
from ...release.explanation import Explanation
from ...release.plan import Expected, Plan, Public
from ...sensitivity import Flow
from ..common.base import feature_list, keep_whole_number
from .centres import Centres, Space

CLOUD = 2048
"""Public records from which starting centres are found: twenty for each of a hundred clusters."""

GRID_SHARE = Fraction(1, 3)
GRID_CELLS, MOST_CELLS = 1 << 12, 1 << 14
"""Cells a grid aims at when there are people enough, and the most it may have."""

MOST_FEATURES = 50
MOST_COORDINATES = 256
HALF = 0.5
"""The middle of a coordinate: values are measured from it, so that a person adds at most half a range to a sum."""


@dataclass(frozen=True, eq=False)
class InCluster:
    """Per record: the nearest centre, and beside it the value of one feature, its category, or nothing."""

    space: Space
    centres: np.ndarray
    feature: int | None

    def __call__(self, rows: Rows) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        records = self.space.records(rows.columns)
        cell = self.space.nearest(records, self.centres)[:, None]
        whole = np.ones(cell.shape)
        if self.feature is None:
            return cell, whole, None
        own = records[:, self.feature, None]
        width = self.space.widths[self.feature]
        return (cell, whole, own - HALF) if width == 1 else (cell * width + own.astype(np.intp), whole, None)


@dataclass(frozen=True)
class Grid:
    """Public cells over the whole space: equal intervals of every number, every value of a category."""

    space: Space
    bins: tuple[int, ...]

    @classmethod
    def of(cls, space: Space, people: float, epsilon: float) -> Grid:
        """The rule of Su et al. for the number of cells: finer for more people and less noise, coarser for more features."""
        wanted = min(GRID_CELLS, (people * epsilon / 10) ** (2 * len(space.names) / (2 + len(space.names))))
        fixed = math.prod(f.levels for f in space.features if isinstance(f, Category))
        numbers = sum(isinstance(f, Number) for f in space.features)
        each = max(2, int((wanted / fixed) ** (1 / numbers) + 1e-9)) if numbers else 1
        return cls(space, tuple(f.levels if isinstance(f, Category) else each for f in space.features))

    @property
    def cells(self) -> int:
        return math.prod(self.bins)

    def __call__(self, rows: Rows) -> tuple[np.ndarray, np.ndarray, None]:
        """Per record: its cell."""
        places = self.space.records(rows.columns)
        for j, (feature, bins) in enumerate(zip(self.space.features, self.bins)):
            if isinstance(feature, Number):
                places[:, j] = np.minimum(places[:, j] * bins, bins - 1)
        cell = np.ravel_multi_index(tuple(places.T.astype(np.intp)), self.bins)[:, None]
        return cell, np.ones(cell.shape), None

    def middles(self) -> np.ndarray:
        """A record in the middle of each cell."""
        places = np.stack(np.unravel_index(np.arange(self.cells), self.bins), axis=1).astype(float)
        for j, (feature, bins) in enumerate(zip(self.space.features, self.bins)):
            if isinstance(feature, Number):
                places[:, j] = (places[:, j] + 0.5) / bins
        return places


@dataclass(frozen=True)
class Totals:
    """Noisy sums per cluster and coordinate, noisy counts, and what the noise of each is worth in units of the law."""

    sums: np.ndarray
    counts: np.ndarray
    spread: np.ndarray
    count_spread: float
    origin: np.ndarray
    law: NoiseLaw

    @property
    def floor(self) -> float:
        """A cluster that counted less than one standard deviation of the noise may well be empty."""
        return max(1.0, self.count_spread * self.law.std)

    def means(self, before: np.ndarray) -> np.ndarray:
        """The new centres; a cluster that may be empty stays where it was."""
        found = self.counts >= self.floor
        people = np.where(found, self.counts, 1.0)[:, None]
        return np.where(found[:, None], np.clip(self.origin + self.sums / people, 0.0, 1.0), before)


@dataclass(frozen=True)
class PrivateKMeans(Explainer):
    """k centres of the people in the data, and the clustering that puts a record to the nearest: `.centres`, `.clustering`.

    Released: in every iteration, the noisy sum of each feature over the people nearest to each centre, and how many they are.
    Features are scaled to their declared ranges; a category of two values counts as 0 and 1, one of more by the share of each
    value. A centre that nobody seems to be near moves to a public point around the largest cluster. The last iteration gets twice
    the share of the others.

    With `start="public"` the first centres are those of public records spread over the declared domain (`seed` draws them), and
    there are 5 iterations. With `start="grid"` a third of the spend first goes into a noisy histogram over a coarse grid, the
    k-means of its cells are the first centres, and there is 1 iteration: much the better for up to about a dozen features, since
    k-means from a public start often ends in a poor local optimum.

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
    features: str | Sequence[str]
    iterations: int | None = None
    start: str = "public"
    seed: int = 0

    references = (
        "A. Blum, C. Dwork, F. McSherry, K. Nissim, Practical privacy: the SuLQ framework, PODS 2005.",
        "D. Su, J. Cao, N. Li, E. Bertino, H. Jin, Differentially private k-means clustering, CODASPY 2016.",
    )

    def __post_init__(self) -> None:
        if self.start not in ("public", "grid"):
            raise PlanError(f"start={self.start!r}: use 'public' or 'grid'.")
        if self.iterations is None:
            object.__setattr__(self, "iterations", 5 if self.start == "public" else 1)
        for name, low, high in (("k", 2, 100), ("iterations", 1, 50), ("seed", 0, 2**31)):
            if getattr(self, name) is None:
                raise PlanError(f"{name}=None: give a whole number from {low} to {high}.")
            keep_whole_number(self, name, low, high)
        names = feature_list(self.features)
        if len(names) > MOST_FEATURES:
            raise PlanError(f"{len(names)} features: the noise grows with each of them; choose at most {MOST_FEATURES}.")
        object.__setattr__(self, "features", names)

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

    def grid(self, public: Public) -> Grid:
        """The cells of the first stage, from what is public alone."""
        share = float(GRID_SHARE) if public.spend.currency == "epsilon" else float(GRID_SHARE) ** 0.5
        grid = Grid.of(self.space(public.schema), public.rows_or_default, public.epsilon_like * share)
        if grid.cells > MOST_CELLS:
            raise PlanError(
                f"a grid over these features has at least {grid.cells:,} cells, more than {MOST_CELLS:,}; "
                "use fewer features or start='public'."
            )
        return grid

    def plan(self, public: Public) -> Plan:
        self.space(public.schema)
        weights = [1] * (int(self.iterations or 1) - 1) + [2]
        first = GRID_SHARE if self.start == "grid" else Fraction(0)
        stages = {f"iteration {i}": (1 - first) * Fraction(w, sum(weights)) for i, w in enumerate(weights, 1)}
        if not first:
            return stages
        self.grid(public)
        return {"grid": first, **stages}

    def query(self, public: Public, space: Space, centres: np.ndarray) -> Joint:
        """One draw for an iteration: sums of each feature per cluster, and the counts beside the first of them."""
        bounds: list[tuple[int | None, Cells]] = []
        weight = count_weight(public, len(space.names))
        for j, width in enumerate(space.widths):
            if width == 1:
                bounds.append((j, Cells(self.k, value=HALF, count_weight=weight)))
                weight = 0.0
            else:
                bounds.append((j, Cells(self.k * width)))
        if weight:
            bounds.append((None, Cells(self.k, count_weight=weight)))
        return Joint([Sum(InCluster(space, centres, j), bound, columns=space.names) for j, bound in bounds])

    def totals(self, space: Space, query: Joint, answer: Answer) -> Totals:
        sums, spread, origin = [], [], []
        counts, count_spread = np.empty(0), 0.0
        for i, part in enumerate(query.sums):
            values, counted = answer.part(i).cells()
            bound, feature = part.bound, part.map.feature  # type: ignore[attr-defined]
            assert isinstance(bound, Cells)
            if values is not None:
                sums.append(values[:, None])
                spread.append(np.array([HALF]))
                origin.append(np.array([HALF]))
            if counted is not None and (values is not None or feature is None):
                counts, count_spread = counted, UNITS / bound.counts
            elif counted is not None:
                width = space.widths[feature]
                sums.append(counted.reshape(self.k, width))
                spread.append(np.ones(width))
                origin.append(np.zeros(width))
        law = answer.law.times(1 / UNITS)
        return Totals(np.hstack(sums), counts, np.concatenate(spread), count_spread, np.concatenate(origin), law)

    def run(self, ask: Ask) -> Explanation:
        space = self.space(ask.public.schema)
        cloud = public_records(space, self.seed)
        centres = evenly_spread(space, cloud, self.k)
        stages = [stage for stage in ask.stages if stage != "grid"]
        if "grid" in ask.stages:
            grid = self.grid(ask.public)
            answer = ask.total("grid", Sum(grid, Cells(grid.cells), columns=space.names))
            centres = centres_of_cells(grid, answer, centres)
        for stage in stages:
            query = self.query(ask.public, space, centres)
            totals = self.totals(space, query, ask.total(stage, query))
            centres = totals.means(centres)
            if stage != stages[-1]:
                centres = reseeded(space, cloud, centres, totals.counts, totals.counts < totals.floor)
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

    def flow(self) -> Flow:
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
        for i in range(1, int(self.iterations or 1) + 1):
            turn = f"iteration {i}"
            flow = flow.stage(turn, "records", last[0], needs="features in their declared ranges, beside counts per cluster")
            if i < int(self.iterations or 1):
                flow = flow.stage(f"centres {i}", turn, *last, needs=divided)
                last = (f"centres {i}", "start")
        return flow.output("explanation", turn, *last, needs=divided)

    def expected(self, public: Public) -> Expected:
        """Errors in the last iteration, for clusters of equal size half-way between the middle and the border of a range."""
        space = self.space(public.schema)
        query = self.query(public, space, np.zeros((self.k, sum(space.widths))))
        law = public.mechanism(query, self.plan(public)[f"iteration {self.iterations}"]).law.times(1 / UNITS)
        people = public.planning_rows / self.k
        noise = law.pairs(20_000)
        counting = 1 / count_weight(public, len(space.names))
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


def count_weight(public: Public, features: int) -> float:
    """How much the counts weigh beside the sums, for the smallest error of a centre.

    With F features and weight w the squared error of a coordinate, its centre uniform in the range, is proportional to
    (sensitivity)²·(1/4 + 1/(12w²)). The sensitivity is F + w in L1; in L2, squared, F + w² when a person is added and
    4F − 2 + 2w² when one is replaced, where w = 1 is free. Each has its minimum in closed form.
    """
    if public.spend.currency == "epsilon":
        best = (features / 3) ** (1 / 3)
    elif public.relation == "add-remove":
        best = (features / 3) ** (1 / 4)
    else:
        best = max(1.0, (2 * features - 1) / 3) ** (1 / 4)
    return min(best, 4.0)


def public_records(space: Space, seed: int) -> np.ndarray:
    """Records spread over the declared domain; they say nothing about anyone."""
    return space.records(Schema(dict(zip(space.names, space.features))).sample(CLOUD, seed))


def evenly_spread(space: Space, cloud: np.ndarray, k: int) -> np.ndarray:
    """Starting centres without data: the k-means of the public records."""
    alike = np.ones(len(cloud))
    return settled(space, cloud, alike, far_apart(space, cloud, alike, k))


def centres_of_cells(grid: Grid, answer: Answer, otherwise: np.ndarray) -> np.ndarray:
    """The k-means of a noisy histogram, from two starts; the public centres when too few cells stand out of the noise."""
    _, counts = answer.cells()
    assert counts is not None
    # Small counts are mostly noise, and the cells without people are many: together they would outweigh the people.
    kept = counts > 1.5 * answer.law.std / UNITS
    if kept.sum() < len(otherwise):
        return otherwise
    space, records, weights = grid.space, grid.middles()[kept], counts[kept]
    starts = (far_apart(space, records, weights, len(otherwise)), otherwise)
    found = [settled(space, records, weights, start) for start in starts]
    return min(found, key=lambda centres: float(weights @ space.distances(records, centres).min(axis=1)))


def far_apart(space: Space, records: np.ndarray, weights: np.ndarray, k: int) -> np.ndarray:
    """k of the records: the most central one, then again and again the one whose weight is farthest from those chosen."""
    points = space.points(records)
    middle = weights @ points / weights.sum()
    chosen = [int(np.argmin(space.distances(records, middle[None])))]
    away = space.distances(records, points[chosen])[:, 0]
    while len(chosen) < k:
        chosen.append(int(np.argmax(weights * away)))
        away = np.minimum(away, space.distances(records, points[chosen[-1:]])[:, 0])
    return points[chosen]


def settled(space: Space, records: np.ndarray, weights: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """Lloyd's iterations on weighted records that are public."""
    points, k = space.points(records), len(centres)
    for _ in range(20):
        label = space.nearest(records, centres)
        mass = np.bincount(label, weights, k)[:, None]
        sums = np.stack([np.bincount(label, weights * column, k) for column in points.T], axis=1)
        centres = np.where(mass > 0, sums / np.where(mass > 0, mass, 1.0), centres)
    return centres


def reseeded(space: Space, cloud: np.ndarray, centres: np.ndarray, counts: np.ndarray, empty: np.ndarray) -> np.ndarray:
    """Centres nobody seems to be near, moved to public points around the largest cluster. Sees released numbers only."""
    centres, counts = centres.copy(), np.where(empty, 0.0, counts)
    if empty.all():
        return centres
    for c in np.flatnonzero(empty):
        settled = np.flatnonzero(counts > 0)
        largest = settled[np.argmax(counts[settled])]
        away = space.distances(cloud, centres[settled])
        inside = cloud[settled[np.argmin(away, axis=1)] == largest]
        if not len(inside):
            continue
        order = np.argsort(space.distances(inside, centres[largest][None])[:, 0], kind="stable")
        centres[c] = space.points(inside[order[len(order) // 2]][None])[0]
        counts[c] = counts[largest] = counts[largest] / 2
    return centres
