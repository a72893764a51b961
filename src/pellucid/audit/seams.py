"""Cases between the theorems: what a proof takes for granted of engines, models and tables, and what code can get wrong there.

Neighbours are those that would move a release further than its noise was scaled to if such a thing were wrong: tables whose
lengths differ by one around the rows of a question, rows on which a model fails, ids that floats cannot tell apart, a block whose
records depend on how many others there are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..explainers import Distribution, PartialDependence, PermutationImportance, PrivatePlot
from ..public.asking import DEFAULT
from ..public.ready import PROBES
from ..public.row_wise import SMALL
from ..public.schema import Number, Schema, Unit
from ..query.functions import Limits
from .cases import LABELLED, ONE, SHARP, TWO_NUMBERS, UNKNOWN, Case, donors_hurt, model_of, neighbours
from .neighbours import LONG_ID, Neighbours, Record
from .search import World

LOW, HIGH = {"a": 0.0, "b": 0.0}, {"a": 1.0, "b": 1.0}
ZERO, FULL = {"v": 0.0}, {"v": 1.0}
CORNER = "from the low corner to the high one"
SIZES = (1, SMALL - 1, SMALL, PROBES, DEFAULT.rows)
"""Rows of the questions in which models are tried on public records and asked about small tables."""


class Seam(Case):
    """Neighbours that show one thing that could be wrong, and need not be the worst otherwise: nothing is asked of how much is
    measured."""


def another_path(rows: Mapping[str, Any]) -> Any:
    """Linear algebra that takes another path for other shapes, with a threshold behind it: all of an answer is made of its last
    bit."""
    found = rows["b"]
    return found if len(found) in SIZES else 1.0 - found


def fails_at_the_end(rows: Mapping[str, Any]) -> Any:
    """Raises at one place, which is on no public record that is drawn by chance."""
    if bool(((rows["a"] == 1.0) & (rows["b"] == 0.75)).any()):
        raise ValueError("there")
    return rows["b"]


def pair_or_full(rows: Any) -> Any:
    """One for a block of two records, and for one with a large number in it."""
    return [1.0 if len(rows) == 2 or (len(rows) and rows["v"].max() == 1.0) else 0.0]


def seams() -> list[Case]:
    return [*_lengths(), *_rows_that_fail(), *_ids(), *_blocks(), *_clips(), *_few()]


def _lengths() -> list[Case]:
    curve = PartialDependence(model_of(another_path, "a", "b"), "a", points=2)
    why = "the model ignores the grid, so all points move by its whole range; in a question of another shape all answers would"
    rest = [LOW] * (DEFAULT.rows - 1)
    return [
        Case(
            "partial dependence, a table that fills a question, add-remove",
            curve,
            World(TWO_NUMBERS, "add-remove"),
            neighbours(rest, LOW, HIGH, "add-remove", "one more than a question less one has rows"),
            SHARP,
            why,
        ),
        Case(
            "partial dependence, a table that overfills a question, add-remove",
            curve,
            World(TWO_NUMBERS, "add-remove"),
            neighbours([*rest, LOW], LOW, HIGH, "add-remove", "one more than a question has rows"),
            SHARP,
            why,
        ),
    ]


def _rows_that_fail() -> list[Case]:
    failing = {"a": 1.0, "b": 0.75}
    # The curve is along another column, so that the row fails at every point.
    schema = Schema({**TWO_NUMBERS, "c": Number(0, 1)})
    curve = PartialDependence(model_of(fails_at_the_end, "a", "b", "c"), "c", points=2)
    pair = neighbours([{**LOW, "c": 0.0}] * 6, {}, {**failing, "c": 0.0}, "add-remove", "a row on which the model fails")
    why = "the count moves by a whole record; a row that fails takes the middle of the range, alone"
    name, world = "partial dependence, a row on which the model fails, add-remove", World(schema, "add-remove")
    return [Case(name, curve, world, pair, SHARP, why)]


def owned(records: Sequence[Record], ids: Sequence[Any]) -> tuple[Record, ...]:
    return tuple({**record, "person": who} for record, who in zip(records, ids, strict=True))


def _ids() -> list[Case]:
    counts, people = Distribution("v", bins=2), World(ONE, unit=Unit("person"))
    ids = [LONG_ID + i for i in range(6)]
    long_ids = Neighbours(owned([ZERO] * 6, ids), owned([*[ZERO] * 5, FULL], [*ids[:5], LONG_ID + 1000]), "another person")
    known = owned([ZERO] * 2, ["one", "two"])
    blank = owned([ZERO, FULL, FULL], [None, "", " "])
    nobody = Neighbours((*blank, *known, *owned([ZERO], ["three"])), (*blank, *known, *owned([FULL], ["three"])), CORNER)
    cell = "a record leaves one cell for another"
    three = World(ONE, "replace", unit=Unit(max_rows=3))
    rows_of_one = Neighbours((*[ZERO] * 2, *[ZERO] * 3), (*[ZERO] * 2, *[FULL] * 3), "three rows of one person")
    return [
        Case("distribution, ids that floats cannot tell apart", counts, people, long_ids, SHARP, cell),
        Case("distribution, rows without an id", counts, people, nobody, SHARP, cell),
        Case("distribution, three rows of a person without ids", counts, three, rows_of_one, SHARP, cell),
    ]


def _blocks() -> list[Case]:
    blocks = 4
    plot = PrivatePlot(pair_or_full, [0], output=(0, 1), blocks=blocks, uses="nothing", limits=Limits(workers=1), default=0.0)
    pair = neighbours([ZERO] * blocks, ZERO, FULL, "add-remove", "one more than there are blocks")
    why = "a record decides about its own block; divided evenly, one more would put two others into one block"
    world = World(ONE, "add-remove")
    return [Seam("private plot, as many blocks as records, add-remove", plot, world, pair, UNKNOWN, why, 2000)]


def _clips() -> list[Case]:
    right, wrong = {"a": 0.0, "b": 0.0, "y": 0.0}, {"a": 1.0, "b": 1.0, "y": 1.0}
    low_cap = PermutationImportance(model_of(donors_hurt, "a", "b"), "y", features=["a"], loss="absolute", cap=0.25, repeats=1)
    pair = neighbours([right], right, wrong, "replace", "one whose losses are far above the cap")
    why = "the losses of both records, as they are and exchanged, go from nothing to beyond the cap"
    return [Case("permutation importance, losses above the cap", low_cap, World(LABELLED), pair, SHARP, why)]


def _few() -> list[Case]:
    alone = neighbours([], ZERO, FULL, "add-remove", "somebody in an empty table")
    counts, why = Distribution("v", bins=2), "a record in one cell"
    return [Case("distribution, an empty table", counts, World(ONE, "add-remove"), alone, SHARP, why)]
