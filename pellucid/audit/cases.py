"""The releases that are audited: every explainer, with neighbours that move it as far as its noise was scaled to.

Each case has a schema, a model and two tables that were made for it, as small as can be: then draws are fast, and little of a bound
is lost. Where nobody knows the worst neighbours they are searched for, and nothing is asked of how much is measured.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from ..explainers import (
    AccumulatedEffects,
    AttributeShares,
    ClusterHistograms,
    Completeness,
    Distribution,
    Explainer,
    FeatureInteraction,
    LocalLinear,
    PartialDependence,
    PermutationImportance,
    PrivateKMeans,
    PrivatePlot,
    PrivateRanking,
    ShapDependence,
    ShapImportance,
    ShapRanking,
    ShapValues,
    Statistic,
)
from ..explainers.clusters.cluster_histograms import HalfSplit
from ..public.clustering import Clustering
from ..public.model import Model
from ..public.schema import Category, Number, Relation, Schema, Unit
from .game import Row, play
from .neighbours import Neighbours, Record
from .search import World

SHARP, KNOWN, UNKNOWN = 0.8, 0.6, 0.0
"""Parts of a claim that are to be measured: of a single draw of pure ε, of several stages or Gaussian noise, and of the others."""

HALF, TWO = Fraction(1, 2), Fraction(2)


@dataclass(frozen=True)
class Case:
    """One release to be audited."""

    name: str
    explainer: Explainer
    world: World
    pair: Neighbours | None
    """Neighbours that move it furthest; None where they are to be searched for."""
    floor: float
    """The part of the claim that is measured at least, given enough releases."""
    why: str
    """Why these are the worst neighbours, or why nobody can tell."""
    runs: int = 10_000
    """Releases of each table that are enough for it, with a correction for as many rows as there are."""

    def play(
        self,
        *,
        runs: int | None = None,
        seconds: float = math.inf,
        confidence: float = 0.95,
        told: Callable[[], None] = lambda: None,
    ) -> Row:
        """Audit it; `runs` and `seconds` limit how often it is released."""
        return play(
            self.explainer, self.world, runs=runs or self.runs, seconds=seconds,
            confidence=confidence, name=self.name, pair=self.pair, told=told,
        )  # fmt: skip


def cases() -> list[Case]:
    """All of them. Nothing is built before this is called."""
    families = (_curves, _statistics, _importance, _interaction, _clusters, _shapley, _local, _blocks)
    return [case for family in families for case in family()]


ONE = Schema({"v": Number(0, 1)})
TWO_NUMBERS = Schema({"a": Number(0, 1), "b": Number(0, 1)})
GAUSSIAN = {"currency": "rho", "amount": Fraction(1)}
PERSON = Unit("person", max_rows=3)


def model_of(function: Callable[[Any], Any], *features: str, output: tuple[float, float] = (0.0, 1.0)) -> Model:
    return Model(function, output=output, features=list(features), trained_on="other data")


def neighbours(rest: list[Record], before: Record, after: Record, relation: Relation, name: str) -> Neighbours:
    """`after` beside the rest, and before it `before` or nobody."""
    first = (*rest, before) if relation == "replace" else tuple(rest)
    return Neighbours(first, (*rest, after), name)


def of_person(rest: list[Record], before: Record, after: Record, relation: Relation, name: str) -> Neighbours:
    """The same with a person who has as many rows as are allowed."""
    many = PERSON.rows_per_unit if PERSON.column is None else PERSON.max_rows or 1
    others = [{**record, "person": f"other {i}"} for i, record in enumerate(rest)]
    old, new = ([{**record, "person": "one"}] * many for record in (before, after))
    return Neighbours((*others, *(old if relation == "replace" else [])), (*others, *new), name)


def the_other(rows: Mapping[str, Any]) -> Any:
    """The second number, whatever the first one is."""
    return rows["b"]


def first_number(rows: Mapping[str, Any]) -> Any:
    return rows["a"]


def _curves() -> list[Case]:
    low, high = {"a": 0.0, "b": 0.0}, {"a": 1.0, "b": 1.0}
    corner, why = "from the low corner to the high one", "the model ignores the grid, so all points move by its whole range"
    dependence = PartialDependence(model_of(the_other, "a", "b"), "a", points=2)

    def along(name: str, relation: Relation, floor: float, **world: Any) -> Case:
        made = World(TWO_NUMBERS, relation, **world)
        pair = (of_person if made.unit.column else neighbours)([low], low, high, relation, corner)
        return Case(f"partial dependence, {name}", dependence, made, pair, floor, why)

    return [
        along("replace", "replace", SHARP),
        along("add-remove", "add-remove", SHARP),
        along("zCDP", "replace", KNOWN, **GAUSSIAN),
        along("people with several rows", "replace", SHARP, unit=PERSON),
        along("people with several rows, zCDP, add-remove", "add-remove", KNOWN, unit=PERSON, **GAUSSIAN),
        *_accumulated(),
    ]


PLACES = Schema({"c": Category(["left", "middle", "right"]), "v": Number(0, 1)})


def peak(rows: Mapping[str, Any]) -> Any:
    """Up by the whole range, and down again."""
    return (rows["c"] == "middle") * 1.0


def _accumulated() -> list[Case]:
    left, middle = {"c": "left", "v": 0.0}, {"c": "middle", "v": 0.0}
    effects = AccumulatedEffects(model_of(peak, "c", "v"), "c")
    why = "steps up by the whole range become steps down, elsewhere: only the size of a step stays"
    where = "from a step up to a step down"

    def along(name: str, relation: Relation, runs: int, rest: list[Record], **world: Any) -> Case:
        pair = neighbours(rest, left, middle, relation, where)
        made = World(PLACES, relation, **world)
        return Case(f"accumulated effects, {name}", effects, made, pair, KNOWN, why, runs)

    # Few records: their noisy counts are below the noise, so that the later questions are few and known.
    return [
        along("replace", "replace", 12_000, [left], amount=TWO),
        along("add-remove", "add-remove", 3_000, [left], amount=TWO),
        along("zCDP", "replace", 3_000, [left], **GAUSSIAN),
    ]


BINARY = Schema({"v": Number(0, 1), "w": Number(0, 1)})
GAPS = Schema({"v": Number(0, 1, missing="exclude")})


def _statistics() -> list[Case]:
    zero, one, gone = {"v": 0.0}, {"v": 1.0}, {"v": None}
    ends = "from one end to the other"
    reached = "the range of the formula is reached at both ends of the column"
    cell = "a record leaves one cell for another"

    def made(
        name: str, explainer: Explainer, schema: Schema, rel: Relation, before: Record, after: Record, why: str, **more: Any
    ) -> Case:
        floor, runs = more.pop("floor", SHARP), more.pop("runs", 10_000)
        world = World(schema, rel, **more)
        pair = (of_person if world.unit.column else neighbours)([before], before, after, rel, ends)
        return Case(name, explainer, world, pair, floor, why, runs)

    mean, shares = Statistic("v"), AttributeShares("v**2 + w**2")
    a, b = {"v": 1.0, "w": 0.0}, {"v": 0.0, "w": 1.0}
    return [
        made("statistic, replace", mean, ONE, "replace", zero, one, reached),
        made("statistic, sum, add-remove", Statistic("v", "sum"), ONE, "add-remove", zero, one, reached),
        made("statistic, missing cells", mean, GAPS, "replace", one, gone, "a value at its end is not counted any more"),
        made("statistic, missing cells, zCDP", mean, GAPS, "add-remove", one, one, reached, floor=KNOWN, **GAUSSIAN),
        made("distribution, replace", Distribution("v", bins=2), ONE, "replace", zero, one, cell),
        made("distribution, add-remove", Distribution("v", bins=4), ONE, "add-remove", zero, one, "a record in one cell"),
        made("distribution, missing cells", Distribution("v", bins=2), GAPS, "replace", one, gone, cell),
        made("distribution, people with several rows", Distribution("v", bins=2), ONE, "replace", zero, one, cell, unit=PERSON),
        made(
            "distribution, two columns, zCDP", Distribution(["v", "w"], bins=2), BINARY, "replace",
            {"v": 0.0, "w": 0.0}, {"v": 1.0, "w": 1.0}, cell, floor=KNOWN, **GAUSSIAN,
        ),  # fmt: skip
        made("attribute shares, replace", shares, BINARY, "replace", a, b, "a whole vote goes to another attribute"),
        made("attribute shares, add-remove", shares, BINARY, "add-remove", a, b, "a whole vote more"),
        made("completeness, replace", Completeness(), ONE, "replace", gone, {"v": 7.0}, "a cell has another condition"),
        made("completeness, add-remove", Completeness(), ONE, "add-remove", one, one, "each share moves by a half"),
    ]


LABELLED = Schema({"a": Number(0, 1), "y": Category(["no", "yes"])})
UNLABELLED = Schema({"a": Number(0, 1), "y": Category(["no", "yes"], missing="exclude")})


def above_half(rows: Mapping[str, Any]) -> Any:
    return (rows["a"] > 0.5) * 1.0


def _importance() -> list[Case]:
    # Two records exchange their features whatever the lots are.
    right, wrong = {"a": 0.0, "y": "no"}, {"a": 1.0, "y": "no"}
    yes = {"a": 1.0, "y": "yes"}
    model, why = model_of(above_half, "a"), "the losses of both records, as they are and exchanged, go from nothing to the cap"

    def made(name: str, relation: Relation, rest: list[Record], before: Record, after: Record, **more: Any) -> Case:
        floor, schema, runs = more.pop("floor", SHARP), more.pop("schema", LABELLED), more.pop("runs", 10_000)
        world = World(schema, relation, **{key: more.pop(key) for key in ("currency", "amount", "unit") if key in more})
        explainer = PermutationImportance(model, "y", **{"cap": "range", "repeats": 1, **more})
        pair = (of_person if world.unit.column else neighbours)(rest, before, after, relation, "predictions become wrong")
        return Case(f"permutation importance, {name}", explainer, world, pair, floor, why, runs)

    return [
        made("replace", "replace", [right], right, wrong),
        made("add-remove", "add-remove", [right], right, wrong),
        made("zCDP", "replace", [right], right, wrong, floor=KNOWN, **GAUSSIAN),
        made("ranking, replace", "replace", [right], right, yes, ranking=True),
        made("ranking, add-remove", "add-remove", [right], right, yes, ranking=True),
        made("missing targets", "replace", [right], right, {"a": 1.0, "y": None}, schema=UNLABELLED, floor=KNOWN),
        made("a private cap", "replace", [right], right, wrong, cap=None, loss="squared", floor=KNOWN),
    ]


def _interaction() -> list[Case]:
    return []


def _clusters() -> list[Case]:
    return []


def _shapley() -> list[Case]:
    return []


def _local() -> list[Case]:
    return []


def _blocks() -> list[Case]:
    return []
