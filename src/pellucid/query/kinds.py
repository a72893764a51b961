"""The kinds of query: sums of bounded contributions, several sums in one draw, images of sums, and private choices.

    Sum(map, bound, over=Records() | Pairs() | Couples() | Blocks(l))
    Joint([sums])
    Reading(of=Sum, image=<reviewed image>)
    Choice(of=Sum | Joint, score=<reviewed score>, k=1)

A `map` sees decoded rows and gives one contribution per record (per pair, per block). It must be row-local: the
contribution of a record depends on that record alone. The bound clips whatever the map returns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..errors import PlanError
from ..public.frozen import settle
from .bound import Bound
from .image import Image
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


@dataclass(frozen=True)
class Sum:
    """A total of bounded contributions."""

    map: Callable[..., Any]
    """From decoded rows to contributions."""
    bound: Bound
    """The set that every contribution is clipped into."""
    over: Over = field(default_factory=Records)
    """What contributes: records, pairs, couples or blocks."""
    columns: tuple[str, ...] = ()
    """The columns that the map reads."""
    conditions: tuple[str, ...] = ()
    """Those of them whose cells' conditions it reads too: whether they were missing, unreadable or out of range."""

    def __post_init__(self) -> None:
        check_reviewed(self.bound, "bound")
        if not set(self.conditions) <= set(self.columns):
            raise PlanError("conditions are those of columns that the map reads; name them in columns= too.")
        if type(self.over) not in (Records, Pairs, Couples, Blocks):
            raise PlanError(f"over={self.over!r}: contributions come from Records(), Pairs(), Couples() or Blocks(n).")
        if self.bound.of_blocks and not isinstance(self.over, Blocks):
            raise PlanError("votes are cast by blocks: a person with several rows has no part of a vote.")

    @property
    def size(self) -> int:
        return self.bound.size

    @property
    def released(self) -> Bound:
        """What says how far one contribution moves the released integers."""
        return self.bound


@dataclass(frozen=True)
class Joint:
    """Several totals released by one draw of noise. Claim: joint-sum"""

    sums: Sequence[Sum]

    def __post_init__(self) -> None:
        if not self.sums:
            raise PlanError("Joint([]): needs at least one sum.")
        if not all(type(part) is Sum for part in self.sums):
            raise PlanError("Joint: joins sums, and nothing else.")
        settle(self, sums=tuple(self.sums))

    @property
    def size(self) -> int:
        return sum(s.size for s in self.sums)

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(c for s in self.sums for c in s.columns))


@dataclass(frozen=True)
class Reading:
    """An image of a sum, released in its place. A sum that is held behind the door can be read in this way many times."""

    of: Sum
    image: Image

    def __post_init__(self) -> None:
        check_reviewed(self.image, "image")
        if type(self.of) is not Sum or not self.image.fits(self.of.bound) or not isinstance(self.of.over, Records):
            raise PlanError(f"{type(self.image).__name__} is no image of these totals: its theorem is about others.")

    @property
    def size(self) -> int:
        return self.image.size

    @property
    def columns(self) -> tuple[str, ...]:
        return self.of.columns

    @property
    def bound(self) -> Bound:
        return self.of.bound

    @property
    def over(self) -> Over:
        return self.of.over

    @property
    def released(self) -> Image:
        return self.image


@dataclass(frozen=True)
class Choice:
    """A private choice among candidates by a reviewed score over exact totals."""

    of: Sum | Joint
    """The totals that are scored; the sums of a joint one have equal bounds."""
    score: Score
    k: int = 1
    """How many candidates are chosen."""

    def __post_init__(self) -> None:
        check_reviewed(self.score, "score")
        allowed = (Records, Pairs, Couples) if self.score.over_pairs else (Records,)
        alike = all(isinstance(p.over, allowed) and p.over == self.over and p.bound == self.bound for p in parts_of(self.of))
        covered = type(self.of) is Sum or (type(self.of) is Joint and self.score.side_by_side)
        if not (covered and alike and self.score.fits(self.bound)):
            raise PlanError(
                "a choice is made on a histogram over records (for a quantile also over pairs or couples): the span of its score "
                "is known for these alone."
            )

    @property
    def bound(self) -> Bound:
        return parts_of(self.of)[0].bound

    @property
    def over(self) -> Over:
        return parts_of(self.of)[0].over

    @property
    def columns(self) -> tuple[str, ...]:
        return self.of.columns


Query = Sum | Joint | Reading
"""What noise is added to."""


def parts_of(query: Query) -> tuple[Sum, ...]:
    """The sums whose exact totals a query needs."""
    if isinstance(query, Joint):
        return tuple(query.sums)
    return (query.of,) if isinstance(query, Reading) else (query,)
