"""The releases that are audited: every explainer, with neighbours that move it as far as its noise was scaled to.

Each case has a schema, a model and two tables that were made for it, as small as can be: then draws are fast, and little of a
bound is lost. Where nobody knows the worst neighbours they are searched for, and nothing is asked of how much is measured.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np

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
from ..explainers.curves.leaning import FLAT
from ..explainers.curves.variation import MARGIN
from ..ledger.accounting import Budget
from ..public.clustering import Clustering
from ..public.model import Model
from ..public.schema import Category, Number, Relation, Schema, Unit
from ..query.functions import Limits
from .accounts import Price, play_account
from .game import DELTA, Row, play
from .neighbours import Neighbours, Record
from .one_run import Canaries, play_one_run
from .replays import play_replay
from .search import World
from .streams import play_stream

SHARP, KNOWN, UNKNOWN = 0.8, 0.6, 0.0
"""Parts of a claim to be measured: of one draw of pure ε; of several stages or Gaussian noise; of what nobody knows."""

TWO = Fraction(2)


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
    attains: float = 0.95
    """How far these neighbours move all stages together at least, as a part of what noise is scaled to."""

    def play(
        self,
        *,
        runs: int | None = None,
        seconds: float = math.inf,
        confidence: float = 0.95,
        told: Callable[[], None] = lambda: None,
    ) -> Row:
        """Audit it; `runs` and `seconds` of processor time limit how often it is released."""
        return self._floored(play(
            self.explainer, self.world, runs=runs or self.runs, seconds=seconds,
            confidence=confidence, name=self.name, pair=self.pair, told=told,
        ))  # fmt: skip

    def _floored(self, row: Row) -> Row:
        return replace(row, floor=self.floor)


def cases() -> list[Case]:
    """All of them. Nothing is built before this is called."""
    from .parts import parts
    from .seams import seams

    families = (
        _curves, _statistics, _importance, _interaction, _clusters, _shapley, _local, _blocks, _accounts, _replays, _one_release,
        parts, seams,
    )  # fmt: skip
    return [case for family in families for case in family()]


ONE = Schema({"v": Number(0, 1)})
TWO_NUMBERS = Schema({"a": Number(0, 1), "b": Number(0, 1)})
GAUSSIAN = {"currency": "rho", "amount": Fraction(1)}
PERSON = Unit("person", max_rows=3)


def model_of(function: Callable[[Any], Any], *features: str, output: tuple[float, float] = (0.0, 1.0)) -> Model:
    return Model(function, output=output, features=list(features), trained_on="other data")


def neighbours(rest: Sequence[Record], before: Record, after: Record, relation: Relation, name: str) -> Neighbours:
    """`after` beside the rest, and before it `before` or nobody."""
    first = (*rest, before) if relation == "replace" else tuple(rest)
    return Neighbours(first, (*rest, after), name)


def of_person(rest: Sequence[Record], before: Record, after: Record, relation: Relation, name: str) -> Neighbours:
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
        *_differences(),
        *_accumulated(),
    ]


VARIED = MARGIN * FLAT
"""How far the curve of a record may vary, as a part of the range, where those of public records do not vary at all."""


def at_the_end(rows: Mapping[str, Any]) -> Any:
    """Flat for all records but three kinds, which public records are not: two at an end of the range and, at the end of the grid,
    as far away from it as a curve may vary, and one that varies by half of the range."""
    low, high, last = rows["b"] == 0.25, rows["b"] == 0.75, rows["a"] == 1.0
    return 0.5 + (high * 1.0 - low) * (0.5 - VARIED * last) + 0.5 * ((rows["b"] == 0.625) & last)


def _differences() -> list[Case]:
    by_differences = PartialDependence(model_of(at_the_end, "a", "b"), "a", points=5, method="variation")
    low, high = {"a": 0.0, "b": 0.25}, {"a": 0.0, "b": 0.75}
    turned = "from the low end to the high one, with the only step turned round"
    why = "level and differences go from one end of their ball to nearly the other: the step is at the end of the grid, where it "
    why += "moves the level least"

    def along(name: str, relation: Relation, floor: float, **world: Any) -> Case:
        others, runs = world.pop("others", 1), world.pop("runs", 10_000)
        pair = neighbours([{"a": 0.0, "b": 0.0}] * others, low, high, relation, turned)
        return Case(
            f"partial dependence by differences, {name}",
            by_differences,
            World(TWO_NUMBERS, relation, **world),
            pair,
            floor,
            why,
            runs,
        )

    return [
        along("replace", "replace", SHARP),
        along("add-remove", "add-remove", SHARP),
        along("zCDP", "replace", KNOWN, **GAUSSIAN),
        along("zCDP, add-remove", "add-remove", KNOWN, **GAUSSIAN),
        # So many records that a look at how much they vary is worth its price.
        along("after a look", "replace", KNOWN, others=2500, runs=4_000, amount=TWO),
    ]


PLACES = Schema({"c": Category(["left", "middle", "right"]), "v": Number(0, 1)})
SIGNS = Schema({"a": Number(0, 1, integer=True), "v": Number(0, 1)})


def peak(rows: Mapping[str, Any]) -> Any:
    """Up by the whole range, and down again."""
    return (rows["c"] == "middle") * 1.0


STEEP = 2.0**-5.5
"""The largest clip of a step, as a part of the range, where public records have no steps at all."""


def either_way(rows: Mapping[str, Any]) -> Any:
    """Up by as much as a clip may be for one value, down for another, and flat for all others: public records have neither."""
    return 0.5 + STEEP * (rows["a"] - 0.5) * ((rows["v"] == 0.25) * 1.0 - (rows["v"] == 0.75))


def _accumulated() -> list[Case]:
    sizes = "; only the size of a step stays what it was"
    sized = 0.9  # the choice of a clip, by sizes, takes a tenth

    def along(name: str, relation: Relation, runs: int, **world: Any) -> Case:
        # One interval, so that the later questions are few, and so many large steps that no smaller clip is chosen.
        effects = AccumulatedEffects(model_of(either_way, "a", "v"), "a", intervals=1)
        up, down = {"a": 0.0, "v": 0.25}, {"a": 1.0, "v": 0.75}
        pair = neighbours([up] * 300, up, down, relation, "from a step up to a step down")
        why = "a step as large as the clip changes its sign, and the record its place" + sizes
        return Case(f"accumulated effects, {name}", effects, World(SIGNS, relation, **world), pair, KNOWN, why, runs, sized)

    left, middle = {"c": "left", "v": 0.0}, {"c": "middle", "v": 0.0}
    by_category = Case(
        "accumulated effects, categories",
        AccumulatedEffects(model_of(peak, "c", "v"), "c"),
        World(PLACES, amount=TWO),
        # So many steps over the whole range that no smaller clip is chosen.
        neighbours([left] * 300, left, middle, "replace", "from a step up to a step down elsewhere"),
        KNOWN,
        "a step up in one interval becomes one down in another" + sizes,
        5_000,
        sized,
    )
    return [
        along("replace", "replace", 2_500, amount=TWO),
        along("add-remove", "add-remove", 2_500, amount=TWO),
        along("zCDP", "replace", 4_000, **GAUSSIAN),
        by_category,
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
        made(
            "statistic, missing cells", mean, GAPS, "replace", one, gone, "a value at its end is not counted any more", amount=TWO
        ),
        made("statistic, missing cells, zCDP", mean, GAPS, "add-remove", one, one, reached, floor=KNOWN, **GAUSSIAN),
        made("distribution, replace", Distribution("v", bins=2), ONE, "replace", zero, one, cell),
        made("distribution, add-remove", Distribution("v", bins=4), ONE, "add-remove", zero, one, "a record in one cell"),
        made("distribution, missing cells", Distribution("v", bins=2), GAPS, "replace", one, gone, cell),
        made("distribution, people with several rows", Distribution("v", bins=2), ONE, "replace", zero, one, cell, unit=PERSON),
        made(
            "distribution, two columns, zCDP",
            Distribution(["v", "w"], bins=2),
            BINARY,
            "replace",
            {"v": 0.0, "w": 0.0},
            {"v": 1.0, "w": 1.0},
            cell,
            floor=KNOWN,
            **GAUSSIAN,
        ),
        made("attribute shares, replace", shares, BINARY, "replace", a, b, "a whole vote goes to another attribute"),
        made("attribute shares, add-remove", shares, BINARY, "add-remove", a, b, "a whole vote more"),
        made("completeness, replace", Completeness(), ONE, "replace", gone, {"v": 7.0}, "a cell has another condition"),
        made("completeness, add-remove", Completeness(), ONE, "add-remove", one, one, "each share moves by a half"),
    ]


LABELLED = Schema({"a": Number(0, 1), "b": Number(0, 1), "y": Number(0, 1, missing=0.0)})
UNLABELLED = Schema({"a": Number(0, 1), "b": Number(0, 1), "y": Number(0, 1, missing="exclude")})


def donors_hurt(rows: Mapping[str, Any]) -> Any:
    """A large first number makes the answer one, but for records whose second number is large."""
    return ((rows["a"] > 0.5) & (rows["b"] < 0.5)) * 1.0


def first_donor_helps(rows: Mapping[str, Any]) -> Any:
    """From a middle first number on the answer is one, for records whose second number is large; for others from a large one."""
    return (rows["a"] > (0.25 + 0.5 * (rows["b"] < 0.5))) * 1.0


def one_donor_helps(rows: Mapping[str, Any]) -> Any:
    """One for a large first number; else a half if both numbers are small or neither is, and nothing if they differ."""
    alike = (rows["a"] < 0.25) == (rows["b"] < 0.5)
    return 0.5 * alike + (1 - 0.5 * alike) * (rows["a"] > 0.75)


def _importance() -> list[Case]:
    # Two records exchange their features whatever the lots are.
    right, wrong = {"a": 0.0, "b": 0.0, "y": 0.0}, {"a": 1.0, "b": 1.0, "y": 1.0}
    all_lose = "the losses of both records, as they are and exchanged, go from nothing to the cap"
    grown = "increases go from the lower clip to the cap"

    def made(
        name: str,
        function: Callable[[Any], Any],
        relation: Relation,
        rest: Sequence[Record],
        before: Record,
        after: Record,
        why: str,
        *,
        floor: float = SHARP,
        runs: int = 10_000,
        schema: Schema = LABELLED,
        world: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> Case:
        given = {"features": ["a"], "loss": "absolute", "cap": "range", "repeats": 1, **settings}
        explainer = PermutationImportance(model_of(function, "a", "b"), "y", **given)
        pair = neighbours(rest, before, after, relation, "one who spoils the answers of both")
        whole = World(schema, relation, **(world or {}))
        return Case(f"permutation importance, {name}", explainer, whole, pair, floor, why, runs)

    helped = {"a": 0.5, "b": 1.0, "y": 0.0}
    two = [{"a": 0.0, "b": 0.0, "y": 0.0}, {"a": 0.5, "b": 1.0, "y": 0.0}]
    last = {"a": 1.0, "b": 0.0, "y": 1.0}
    return [
        made("replace", donors_hurt, "replace", [right], right, wrong, all_lose),
        made("add-remove", donors_hurt, "add-remove", [right], right, wrong, all_lose),
        made("zCDP", donors_hurt, "replace", [right], right, wrong, all_lose, floor=KNOWN, world=GAUSSIAN),
        made("missing targets", donors_hurt, "replace", [right], right, wrong, all_lose, schema=UNLABELLED),
        made("ranking, replace", first_donor_helps, "replace", [right], helped, last, grown, ranking=True),
        made("ranking, add-remove", one_donor_helps, "add-remove", two, last, last, grown, ranking=True, cap=0.5),
        made("too few for a private cap", donors_hurt, "replace", [right], right, wrong, all_lose, cap=None, floor=KNOWN),
        _private_cap(),
    ]


FAR_LABELLED = Schema({"a": Number(0, 1), "b": Number(0, 1), "y": Number(0, 40, missing=0.0)})


def either_hurts(rows: Mapping[str, Any]) -> Any:
    """From the middle of a wide range up to its end by whichever number is larger."""
    return 20.0 + 20.0 * np.maximum(rows["a"], rows["b"])


def _private_cap() -> Case:
    far, right, wrong = ({"a": 0.0, "b": 0.0, "y": y} for y in (0.0, 20.0, 0.0))
    # As many as a choice is worth paying for, in a range far beyond them.
    rest = [{"a": 0.0, "b": 0.0, "y": 15.0}] * 85 + [far] * 15
    model = model_of(either_hurts, "a", "b", output=(0.0, 40.0))
    return Case(
        "permutation importance, a private cap",
        PermutationImportance(model, "y", features=["a"], loss="absolute", repeats=1),
        World(FAR_LABELLED, amount=Fraction(4)),
        neighbours(rest, right, {**wrong, "a": 1.0, "b": 1.0}, "replace", "one who spoils the answers of both"),
        KNOWN,
        "the losses of both records go from nothing to the cap and beyond it, past others that lie around the quantile; the "
        "squares of increases, a small part of the price, move by less where losses move most",
        4_000,
        # Scores of the choice move by three quarters of their span, and what shuffles do by a tenth of its.
        0.88,
    )


THREE = Schema({name: Number(0, 1, integer=True) for name in "abc"})


def differ(rows: Mapping[str, Any]) -> Any:
    """Whether the last two numbers differ."""
    return (rows["b"] != rows["c"]) * 1.0


def _interaction() -> list[Case]:
    low, high = {"a": 0.0, "b": 0.0, "c": 0.0}, {"a": 1.0, "b": 1.0, "c": 1.0}
    model, corner = model_of(differ, "a", "b", "c"), "from the low corner to the high one"
    flips = "whichever two features are set, the third turns every prediction"

    def pairs(name: str, runs: int, **world: Any) -> Case:
        # One record: the noisy counts are all in one cell, mostly, so that the later questions are few.
        pair = neighbours([], low, high, "replace", corner)
        explainer = FeatureInteraction(model, "a", points=2, anyway=True)
        return Case(f"feature interaction, {name}", explainer, World(THREE, **world), pair, KNOWN, flips, runs)

    unknown = "the squares of remainders depend on released curves: no neighbours are known that move all stages"
    overall = Case(
        "feature interaction, overall",
        FeatureInteraction(model, points=2, anyway=True),
        World(THREE),
        None,
        UNKNOWN,
        unknown,
        1000,
    )
    return [pairs("pairs", 3_000, amount=TWO), pairs("pairs, zCDP", 6_000, **GAUSSIAN), overall, *_in_order(model, low, high)]


def _in_order(model: Model, low: Record, high: Record) -> list[Case]:
    """Counts of features, and of pairs of them where there are people enough."""
    explainer, moves = FeatureInteraction(model, "a", ranking=True), "the record leaves one cell of every count for another"
    many = [{name: float(i >> j & 1) for j, name in enumerate("abc")} for i in range(200)]

    def case(name: str, rest: Sequence[Record], runs: int, relation: Relation = "replace", world: Any = None) -> Case:
        pair = neighbours(rest, low, high, relation, "a record in the high corner, and before it one in the low corner or none")
        made = World(THREE, relation, **(world or {"amount": TWO}))
        return Case(f"interactions in order, {name}", explainer, made, pair, KNOWN, moves, runs)

    return [
        case("features", [], 20_000),
        case("features and pairs", many, 12_000),
        case("features and pairs, add-remove", many, 12_000, "add-remove"),
        case("features and pairs, zCDP", many, 24_000, world=GAUSSIAN),
    ]


SPLIT = Schema({"a": Number(0, 1, integer=True), "b": Number(0, 1, integer=True), "c": Number(0, 1, integer=True)})


def _clusters() -> list[Case]:
    halves = Clustering(HalfSplit("c", 0.5), clusters=range(2), features=["c"], trained_on="other data")
    weights = {"interest": 0.0, "sufficiency": 1.0, "diversity": 0.0}
    here, there = {"a": 0.0, "b": 0.0, "c": 0.0}, {"a": 1.0, "b": 1.0, "c": 1.0}
    new = {"a": 0.0, "b": 1.0, "c": 0.0}
    rest = [here] * 3 + [there] * 60
    # A choice moves all combinations, and what they have in common shows nothing; of one candidate all is common.
    little, least = {"choice": 0.2, "inside": 0.4, "whole": 0.4}, {"choice": 0.08, "inside": 0.46, "whole": 0.46}
    why = "a record whose one value tells its cluster apart, and whose other value told the other one apart"

    def histograms(name: str, relation: Relation, before: Record, **more: Any) -> Case:
        world = {key: more.pop(key) for key in ("currency", "amount") if key in more}
        explainer = ClusterHistograms(halves, attributes=["a", "b"], weights=weights, **more)
        pair = neighbours(rest, before, new, relation, "a value from the other cluster")
        return Case(f"cluster histograms, {name}", explainer, World(SPLIT, relation, **world), pair, KNOWN, why, 5_000)

    def means(name: str, relation: Relation, runs: int, **more: Any) -> Case:
        world = {key: more.pop(key) for key in ("currency", "amount") if key in more}
        explainer = PrivateKMeans(2, ["a"], **more)
        low, high = {"a": 0.0}, {"a": 1.0}
        pair = neighbours([low], low, high, relation, "from one end to the other")
        told = "the ends of a feature are nearest to different centres, and furthest from its middle"
        schema = Schema({"a": Number(0, 1)})
        return Case(f"private k-means, {name}", explainer, World(schema, relation, **world), pair, KNOWN, told, runs)

    return [
        histograms("joint, add-remove", "add-remove", new, split=little, amount=TWO),
        histograms("joint, zCDP, add-remove", "add-remove", new, split=little, **GAUSSIAN),
        histograms("two stages, add-remove", "add-remove", new, split=least, method="two-stage", candidates=1, amount=TWO),
        histograms("joint, replace", "replace", {"a": 1.0, "b": 0.0, "c": 0.0}, split=little, amount=TWO),
        means("replace", "replace", 4_000, iterations=1, start="public", amount=TWO),
        means("several iterations, add-remove", "add-remove", 3_000, iterations=2, start="public", amount=TWO),
        means("grid, zCDP", "replace", 3_000, start="grid", **GAUSSIAN),
        means("fitted grid, add-remove", "add-remove", 2_000, iterations=1, amount=TWO),
    ]


def all_of_it(rows: Mapping[str, Any]) -> Any:
    return rows["v"]


FAR = Schema({"v": Number(0, 40)})


def one_without_other(rows: Mapping[str, Any]) -> Any:
    """Beside (0, 0) the first feature of (1, 1) counts, and only without the second; beside (½, ½) it is the second one."""
    middle = (rows["a"] > 0.25) & (rows["a"] < 0.75)
    return (((rows["a"] > 0.75) & (rows["b"] < 0.25)) | (middle & (rows["b"] > 0.75))) * 1.0


def _shapley() -> list[Case]:
    zero, one = {"v": 0.0}, {"v": 1.0}
    model = model_of(all_of_it, "v")
    asked, background = {"v": 0.5}, [{"v": 0.0}]
    turned, ends = "the only feature makes all of the difference, in either direction", "from one end to the other"

    def made(name: str, explainer: Explainer, relation: Relation, floor: float, why: str, **more: Any) -> Case:
        before, after, runs = more.pop("before", zero), more.pop("after", one), more.pop("runs", 10_000)
        pair = neighbours(more.pop("rest", [before]), before, after, relation, ends)
        return Case(name, explainer, World(more.pop("schema", ONE), relation, **more), pair, floor, why, runs)

    apart = "the values of two features move as far apart as they can, from a tie"
    low, middle = {"a": 0.0, "b": 0.0}, {"a": 0.5, "b": 0.5}
    ranked = {"rest": [low], "before": middle, "after": low, "schema": TWO_NUMBERS}
    # One that is behind already is chosen rarely, and loses most by falling further behind.
    behind, zcdp = "the same, from behind", {"rest": [low, low], "currency": "rho", "amount": Fraction(1, 2)}
    names = ShapRanking(model_of(one_without_other, "a", "b"), {"a": 1.0, "b": 1.0}, k=1, by="signed", how="picks")
    return [
        made("Shapley ranking, replace", names, "replace", SHARP, apart, **ranked),
        made("Shapley ranking, zCDP", names, "replace", KNOWN, behind, **{**ranked, **zcdp}),
        made("Shapley values, replace", ShapValues(model, asked), "replace", SHARP, turned),
        made("Shapley values, add-remove", ShapValues(model, asked), "add-remove", SHARP, turned),
        made("Shapley values, zCDP", ShapValues(model, asked), "replace", KNOWN, turned, **GAUSSIAN),
        made("Shapley values, adding up", ShapValues(model, asked, efficient=True), "replace", KNOWN, turned),
        made("Shapley values, public background", ShapValues(model, public_background=background), "replace", SHARP, turned),
        made(
            "Shapley importance, replace",
            ShapImportance(model, public_background=background, cap="range"),
            "replace",
            SHARP,
            "the size of a value goes from nothing to the cap",
        ),
        made(
            "Shapley importance, a private cap",
            ShapImportance(model_of(all_of_it, "v", output=(0.0, 40.0)), public_background=background),
            "replace",
            KNOWN,
            "the size of a value goes from nothing to the cap and far beyond it, past others that lie around the quantile",
            # As many as a choice is worth paying for, in a range far beyond them.
            rest=[{"v": 5.0}] * 85 + [{"v": 40.0}] * 15,
            after={"v": 40.0},
            schema=FAR,
            amount=TWO,
            runs=4_000,
        ),
        made(
            "Shapley dependence, add-remove",
            ShapDependence(model, "v", public_background=background, cap="range", points=2),
            "add-remove",
            SHARP,
            "a value at the cap in one cell, and its count",
        ),
        made(
            "Shapley dependence, zCDP",
            ShapDependence(model, "v", public_background=background, cap="range", points=2),
            "add-remove",
            KNOWN,
            "a value at the cap in one cell, and its count",
            **GAUSSIAN,
        ),
    ]


@dataclass(frozen=True)
class StreamCase(Case):
    """A stream of questions."""

    asked: tuple[Record, ...] = ()
    """The records asked about, one after the other."""

    def play(
        self,
        *,
        runs: int | None = None,
        seconds: float = math.inf,
        confidence: float = 0.95,
        told: Callable[[], None] = lambda: None,
    ) -> Row:
        assert isinstance(self.explainer, LocalLinear) and self.pair is not None
        return self._floored(play_stream(
            self.explainer, self.world, self.pair, self.asked, runs=runs or self.runs, seconds=seconds,
            confidence=confidence, name=self.name, told=told,
        ))  # fmt: skip


@dataclass(frozen=True)
class ReplayCase(Case):
    """An identical request, which is answered from the ledger: no second noisy answer may leave, and nothing is charged."""

    def play(
        self,
        *,
        runs: int | None = None,
        seconds: float = math.inf,
        confidence: float = 0.95,
        told: Callable[[], None] = lambda: None,
    ) -> Row:
        assert self.pair is not None
        return play_replay(
            self.explainer, self.world, self.pair, runs=min(runs or self.runs, self.runs),
            confidence=confidence, name=self.name, told=told,
        )  # fmt: skip


NEAR = (math.sqrt(3) - 1) / 2
"""The distance up to which every record counts fully under the stable weight: a record there moves totals furthest."""


def always_one(rows: Mapping[str, Any]) -> Any:
    return 0 * rows["v"] + 1.0


def beyond_near(rows: Mapping[str, Any]) -> Any:
    return (rows["v"] > NEAR) * 1.0


def _local() -> list[Case]:
    model, zero = model_of(always_one, "v"), {"v": 0.0}
    best = "a record at the distance from which it brings most, with the largest output"

    def single(name: str, relation: Relation, asked: float, away: float, floor: float, **more: Any) -> Case:
        world = {key: more.pop(key) for key in ("currency", "amount") if key in more}
        before, after = {"v": max(asked - away, 0.0)}, {"v": asked + away}
        pair = neighbours([{"v": asked}], before, after, relation, "a record at the worst distance")
        explainer = LocalLinear(model, {"v": asked}, **more)
        return Case(f"local linear, {name}", explainer, World(ONE, relation, **world), pair, floor, best)

    def stream(name: str, pair: Neighbours, relation: Relation, asked: int, function: Any = always_one, **more: Any) -> Case:
        world = {key: more.pop(key) for key in ("currency", "amount") if key in more}
        explainer = LocalLinear(model_of(function, "v"), within=0.0, **more)
        made = World(ONE, relation, **world)
        return StreamCase(f"stream, {name}", explainer, made, pair, KNOWN, best, 10_000, asked=(zero,) * asked)

    added = neighbours([zero], zero, {"v": NEAR}, "add-remove", "a record at the worst distance")
    close = neighbours([zero], zero, {"v": NEAR / 4}, "add-remove", "a record at the worst distance")
    turned = neighbours([zero], {"v": NEAR}, {"v": NEAR + 1e-6}, "replace", "an output at one end becomes one at the other")
    some = neighbours([zero], zero, {"v": 0.375}, "add-remove", "a record at the worst distance")
    steps = {"radius": 0.05, "steps": 2, **GAUSSIAN}
    return [
        single("replace", "replace", 0.5, NEAR / 4, SHARP, bandwidth=0.25, amount=TWO),
        single("add-remove", "add-remove", 0.0, NEAR / 4, SHARP, bandwidth=0.25, radius=0.1, amount=TWO),
        single("zCDP", "replace", 0.5, NEAR, KNOWN, **GAUSSIAN),
        stream("one-shot", close, "add-remove", 2, questions=2, bandwidth=0.25, radius=0.1, amount=TWO),
        stream("one-shot, zCDP", added, "add-remove", 2, questions=2, **GAUSSIAN),
        stream("descent", turned, "replace", 1, beyond_near, method="descent", questions=1, **steps),
        # A start is chosen once, in the place of a step. Scores of starts move by half of what the choice is scaled to at most:
        # there are enough steps beside it.
        stream("adaptive", turned, "replace", 2, beyond_near, method="adaptive", questions=2, **{**steps, "steps": 4}),
        stream(
            "one account per record",
            some,
            "add-remove",
            4,
            questions=2,
            accounting="individual",
            weight="gaussian",
            bandwidth=0.5,
            **GAUSSIAN,
        ),
    ]


def top(rows: Any) -> Any:
    """As high as the largest number, at two places."""
    return [rows["v"].max() if len(rows) else 0.0] * 2


def larger(rows: Any) -> Any:
    """Which of two numbers is the larger one."""
    return rows[["a", "b"]].mean() if len(rows) else {"a": 1.0, "b": 0.0}


def _blocks() -> list[Case]:
    alone = "alone in its block, a record decides what the block says"
    limits = Limits(workers=1)
    plot = PrivatePlot(top, [0, 1], output=(0, 1), blocks=1, uses="nothing", limits=limits, default=0.0)
    ranking = PrivateRanking(larger, ["a", "b"], blocks=1, uses="nothing", limits=limits)
    first, second = {"a": 1.0, "b": 0.0}, {"a": 0.0, "b": 1.0}

    def made(
        name: str, explainer: Explainer, schema: Schema, relation: Relation, before: Record, after: Record, **more: Any
    ) -> Case:
        floor = more.pop("floor", SHARP)
        pair = neighbours([], before, after, relation, "a block of one")
        return Case(name, explainer, World(schema, relation, **more), pair, floor, alone)

    return [
        made("private plot, replace", plot, ONE, "replace", {"v": 0.0}, {"v": 1.0}),
        made("private plot, zCDP, add-remove", plot, ONE, "add-remove", {"v": 0.0}, {"v": 1.0}, floor=KNOWN, **GAUSSIAN),
        made("private ranking, replace", ranking, TWO_NUMBERS, "replace", first, second),
        made("private ranking, add-remove", ranking, TWO_NUMBERS, "add-remove", first, second),
    ]


@dataclass(frozen=True)
class AccountCase(Case):
    """An account that is asked until it refuses."""

    budget: Budget = field(default_factory=lambda: Budget(epsilon=3.0, delta=DELTA, accounting="either"))
    asked: tuple[Price, ...] = ()
    """Kinds of releases and their prices, one after the other; the last one again and again."""

    def play(
        self,
        *,
        runs: int | None = None,
        seconds: float = math.inf,
        confidence: float = 0.95,
        told: Callable[[], None] = lambda: None,
    ) -> Row:
        assert self.pair is not None
        return self._floored(play_account(
            self.explainer, self.world, self.pair, self.budget, self.asked, runs=runs or self.runs,
            confidence=confidence, name=self.name, told=told,
        ))  # fmt: skip


def _accounts() -> list[Case]:
    pair = neighbours([{"v": 0.0}], {"v": 0.0}, {"v": 1.0}, "replace", "from one end to the other")
    why = "every release is moved as far as its noise was scaled to, in the same direction"

    def made(name: str, *asked: Price) -> Case:
        return AccountCase(f"account that counts either way, {name}", Statistic("v"), World(ONE), pair, KNOWN, why, asked=asked)

    pure, more = Fraction(3, 2), Fraction(1, 20)
    return [
        made("zCDP releases", ("zcdp", Fraction(1, 5))),
        made("more pure releases than their ε adds up to", ("pure", Fraction(1, 2))),
        made("pure, then zCDP", ("pure", pure), ("zcdp", more)),
    ]


def _replays() -> list[Case]:
    pair = neighbours([{"v": 0.0}], {"v": 0.0}, {"v": 1.0}, "replace", "from one end to the other")
    why = "an answer from the ledger says nothing new"
    return [ReplayCase("replay, statistic", Statistic("v"), World(ONE), pair, UNKNOWN, why, 20)]


@dataclass(frozen=True)
class OneRunCase(Case):
    """One release, with many canaries in it."""

    canaries: Canaries = field(default_factory=lambda: Canaries(()))

    def play(
        self,
        *,
        runs: int | None = None,
        seconds: float = math.inf,
        confidence: float = 0.95,
        told: Callable[[], None] = lambda: None,
    ) -> Row:
        return self._floored(play_one_run(self.explainer, self.world, self.canaries, confidence=confidence, name=self.name))


def _one_release() -> list[Case]:
    many = 4000
    alone = "every canary has cells of its own, which nobody else moves"
    cells = [{"v": (i + 0.5) / 2 / many} for i in range(2 * many)]
    wide = Schema({"v": Number(0, 1), "c": Number(0, 1, integer=True)})
    halves = Clustering(HalfSplit("c", 0.5), clusters=range(2), features=["c"], trained_on="other data")
    grouped = ClusterHistograms(halves, attributes=["v"], bins=many // 4, split={"choice": 0.02, "inside": 0.49, "whole": 0.49})
    columns = Schema({f"c{i}": Number(0, 1) for i in range(60)})
    full = dict.fromkeys(columns, 0.5)

    def made(name: str, explainer: Explainer, world: World, canaries: Canaries, floor: float, why: str = alone) -> Case:
        told = "one release" if canaries.releases == 1 else f"{canaries.releases} releases"
        return OneRunCase(f"{name}, many canaries in {told}", explainer, world, None, floor, why, 1, canaries=canaries)

    fine = Distribution("v", bins=2 * many)
    here = tuple({"v": (i + 0.5) * 4 / many, "c": 0.0} for i in range(many // 4))
    shared = "a canary moves the cells of one column, and noise is for all of them"
    return [
        made("distribution, add-remove", fine, World(ONE, "add-remove"), Canaries(tuple(cells)), KNOWN),
        made("distribution, replace", fine, World(ONE), Canaries(tuple(cells[::2]), tuple(cells[1::2])), KNOWN),
        made("cluster histograms, add-remove", grouped, World(wide, "add-remove", amount=TWO), Canaries(here, releases=8), KNOWN),
        made(
            "completeness, replace",
            Completeness(),
            World(columns),
            Canaries(tuple({**full, name: None} for name in columns), (full,) * len(columns)),
            UNKNOWN,
            shared,
        ),
    ]
