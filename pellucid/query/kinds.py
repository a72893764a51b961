"""What may be asked of data: sums of bounded contributions, several sums in one draw, and private choices.

    Sum(map, bound, over=Records() | Pairs() | Couples() | Blocks(l))
    Joint([sums])
    Choice(of=Sum, score=<reviewed scorer>, k=1)

A `map` sees decoded rows and gives one contribution per record (per pair, per block). It must be row-local: the
contribution of a record depends on that record alone. The bound clips whatever the map returns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..errors import PlanError
from ..mechanisms import Norms
from ..public.schema import Relation
from .bound import Bound
from .reviewed import check_reviewed
from .scores import Score


@dataclass(frozen=True)
class Records:
    """One contribution per record (per person, where a unit is declared)."""


@dataclass(frozen=True)
class Pairs:
    """One contribution per record and its donor, the next record in a secret random order. Claim: pairs

    With `repeats`, the average over that many orders: one unit moves it no further than it moves one of them.
    """

    repeats: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.repeats <= 1000:
            raise PlanError(f"Pairs({self.repeats}): give 1 to 1000 repeats.")


@dataclass(frozen=True)
class Couples:
    """One contribution per couple of a secret random matching of the records; of an odd number one stays alone. Claim: couples

    One replaced record changes one couple, where it would change two pairs. Under add-remove one more record could rematch
    everybody, so couples are refused there. With `repeats`, the average over that many matchings.
    """

    repeats: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.repeats <= 1000:
            raise PlanError(f"Couples({self.repeats}): give 1 to 1000 repeats.")


@dataclass(frozen=True)
class Blocks:
    """One contribution per block of a secret random division of the records into `count` blocks. Claim: blocks"""

    count: int

    def __post_init__(self) -> None:
        if self.count < 1:
            raise PlanError(f"Blocks({self.count}): needs at least one block.")


Over = Records | Pairs | Couples | Blocks


def changes(over: Over, relation: Relation) -> tuple[int, int]:
    """How many contributions are (added, replaced) when one unit is added or replaced. Claims: pairs, couples, blocks"""
    if isinstance(over, Blocks):
        return (0, 1)
    if isinstance(over, Couples):
        if relation == "add-remove":
            raise PlanError("couples need a public number of records: under add-remove use pairs.")
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
        check_reviewed(self.bound, "bound")
        if self.bound.of_blocks and not isinstance(self.over, Blocks):
            raise PlanError("votes are cast by blocks: a person with several rows has no part of a vote.")

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


@dataclass(frozen=True)
class Choice:
    """A private choice among candidates by a reviewed score over exact totals."""

    of: Sum
    score: Score
    k: int = 1

    def __post_init__(self) -> None:
        check_reviewed(self.score, "score")
        allowed = (Records, Pairs, Couples) if self.score.over_pairs else (Records,)
        if not self.score.fits(self.of.bound) or not isinstance(self.of.over, allowed):
            raise PlanError(
                "a choice is made on a histogram over records (for a quantile also over pairs or couples): the span of its score "
                "is known for these alone."
            )

    @property
    def columns(self) -> tuple[str, ...]:
        return self.of.columns

    def touched(self, relation: Relation) -> tuple[Relation, int]:
        """(how a contribution changes, the weight of all that change) when one unit does: what a score is calibrated to.

        Over pairs one contribution is replaced and one added or replaced, over couples one is replaced; an added one moves a
        quantile's score no further than a replaced one. Claim: quantile-span
        """
        one = self.of.bound.added().linf
        return (relation, one) if isinstance(self.of.over, Records) else ("replace", sum(changes(self.of.over, relation)) * one)


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
