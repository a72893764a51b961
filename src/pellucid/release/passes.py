"""Passes that releases share: what plans settle is read together, and what depends on answers is read when it is asked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from ..engine import Engine, Kept
from ..errors import ReleaseFailed
from ..query import Choice, Joint, Records, Sum, parts_of
from .plan import Plan


class SharedPass:
    """Exact totals for the doors of several releases that were all paid for.

    At the first question, all sums over records that their plans settle are read in one pass, and kept until they are asked for;
    every other question is read by itself. The integers are the same either way, and so is the noise, which is drawn at the door.
    Nothing in here may be shown.
    """

    def __init__(self, engine: Engine, plans: Iterable[Plan]):
        self._read = engine.totals
        self._waiting = [part for plan in plans for part in _settled(plan)]
        self._known: list[tuple[Sum, list[int]]] = []

    def totals(self, query: Sum | Joint, kept: Kept | None = None) -> list[int]:
        """`kept` is what the stages of one release share."""
        parts, read = parts_of(query), self._read if kept is None else partial(self._read, kept=kept)
        if len(self._waiting) > 1 and any(part is one for part in parts for one in self._waiting):
            self._read_ahead()
        if not any(self._found(part) is not None for part in parts):
            return read(query)
        found = ((part, self._found(part)) for part in parts)
        return [value for part, known in found for value in (read(part) if known is None else known)]

    def _read_ahead(self) -> None:
        together, self._waiting = self._waiting, []
        try:
            found = iter(self._read(Joint(together)))
        except ReleaseFailed:
            # One of them cannot be read. Each is then read by itself, so that no other release is lost with it.
            return
        self._known = [(part, [next(found) for _ in range(part.size)]) for part in together]

    def _found(self, part: Sum) -> list[int] | None:
        return next((known for one, known in self._known if one is part), None)

    def __repr__(self) -> str:
        return "SharedPass()"

    def __reduce__(self) -> Any:
        raise TypeError("a shared pass stands next to records and is not saved")


def _settled(plan: Plan) -> Sequence[Sum]:
    """The sums over records that a plan asks for, whatever is answered."""
    asked = [stage.query.of if isinstance(stage.query, Choice) else stage.query for stage in plan.stages]
    sums = [part for query in asked if query is not None for part in parts_of(query)]
    return [part for part in sums if isinstance(part.over, Records)]
