"""What may be asked of data: sums of bounded contributions, several sums in one draw, and private choices.

    Sum(map, bound, over=Records() | Pairs() | Blocks(l))
    Joint([sums])
    Choice(of=Sum, score=<reviewed scorer>, k=1)

A `map` sees decoded rows and gives one contribution per record (per pair, per block). It must be row-local: the
contribution of a record depends on that record alone. The bound clips whatever the map returns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from .bounds import Ball, Bound, Box, Cells, CrossCells, Gram
from .cluster_scores import CandidateScore, CombinationScore
from .errors import PlanError
from .mechanisms import Norms
from .schema import Relation
from .scores import QuantileScore, Score


@dataclass(frozen=True)
class Records:
    """One contribution per record (per person, where a unit is declared)."""


@dataclass(frozen=True)
class Pairs:
    """One contribution per record and its donor, the next record in a secret random order. Claim: pairs"""


@dataclass(frozen=True)
class Blocks:
    """One contribution per block of a secret random division of the records into `count` blocks. Claim: blocks"""

    count: int

    def __post_init__(self) -> None:
        if self.count < 1:
            raise PlanError(f"Blocks({self.count}): needs at least one block.")


Over = Records | Pairs | Blocks


def changes(over: Over, relation: Relation) -> tuple[int, int]:
    """How many contributions are (added, replaced) when one unit is added or replaced. Claims: pairs, blocks"""
    if isinstance(over, Blocks):
        return (0, 1)
    if isinstance(over, Pairs):
        return (1, 1) if relation == "add-remove" else (0, 2)
    return (1, 0) if relation == "add-remove" else (0, 1)


@dataclass(frozen=True)
class Sum:
    """A total of bounded contributions."""

    map: Callable[..., Any]
    bound: Bound
    over: Over = field(default_factory=Records)
    columns: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        # Noise is scaled by what a bound says of itself, so only reviewed ones may speak.
        if type(self.bound) not in (Box, Cells, CrossCells, Ball, Gram):
            raise PlanError(
                f"{type(self.bound).__name__} is not one of the reviewed bounds Box, Cells, CrossCells, Ball and Gram."
            )

    @property
    def size(self) -> int:
        return self.bound.size


@dataclass(frozen=True)
class Joint:
    """Several totals released by one draw of noise. Claim: joint-sum"""

    sums: tuple[Sum, ...]

    def __init__(self, sums: Sequence[Sum]):
        if not sums:
            raise PlanError("Joint([]): needs at least one sum.")
        object.__setattr__(self, "sums", tuple(sums))

    @property
    def size(self) -> int:
        return sum(s.size for s in self.sums)

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(c for s in self.sums for c in s.columns))


REVIEWED: tuple[type[Score], ...] = (QuantileScore, CombinationScore, CandidateScore)
"""The scores a choice may use: each has its theorem in proofs/ and a test that attains it."""


@dataclass(frozen=True)
class Choice:
    """A private choice among candidates by a reviewed score over exact totals."""

    of: Sum
    score: Score
    k: int = 1

    def __post_init__(self) -> None:
        if type(self.score) not in REVIEWED:
            raise PlanError(
                f"{type(self.score).__name__} is not a reviewed score; scores live in pellucid/scores.py and cluster_scores.py."
            )
        if not self.score.fits(self.of.bound) or not isinstance(self.of.over, Records):
            raise PlanError(
                "a choice is made on a histogram over records: the span of its score assumes one contribution a unit."
            )

    @property
    def columns(self) -> tuple[str, ...]:
        return self.of.columns


def parts_of(query: Sum | Joint) -> tuple[Sum, ...]:
    return query.sums if isinstance(query, Joint) else (query,)


def sensitivity(query: Sum | Joint, relation: Relation, rows_per_unit: int = 1) -> Norms:
    """How far one unit can move the integer totals of a query: the one place every noise scale comes from."""
    whole: Norms | None = None
    for part in parts_of(query):
        added, replaced = changes(part.over, relation)
        norms = Norms(0, 0, 0)
        if added:
            norms = norms + part.bound.added().times(added)
        if replaced:
            norms = norms + part.bound.replaced().times(replaced)
        whole = norms if whole is None else whole.beside(norms)
    assert whole is not None
    return whole.times(rows_per_unit)


def relative_scales(query: Sum | Joint) -> tuple[float, ...]:
    """Noise scales of the coordinates relative to each other; empty when they are all equal."""
    if not any(part.bound.relative for part in parts_of(query)):
        return ()
    return tuple(f for part in parts_of(query) for f in (part.bound.relative or (1.0,) * part.size))
