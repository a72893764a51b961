"""The game for parts of a table: releases on parts until the ledger refuses, and all that left the door together.

What one release claims says nothing about releases on several parts, of which an account counts the largest sum of one record.
Here a session decides what is paid for; the releases that it let pass are drawn many times, beside two neighbouring tables.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..engine import PartEngine
from ..errors import BudgetExceeded
from ..explainers import Distribution
from ..ledger.accounting import Budget
from ..public.schema import Category, Number, Schema
from ..public.where import Where
from ..release.plan import Plan
from ..release.session import Session
from .cases import KNOWN, SHARP, Case, neighbours
from .draws import drawn
from .estimate import Scores, largest
from .game import Row
from .search import World
from .transcript import Kept

WARDS = Schema({"v": Number(0, 1), "ward": Category(["north", "south"])})
NORTH, SOUTH = {"v": 0.0, "ward": "north"}, {"v": 1.0, "ward": "south"}


@dataclass(frozen=True)
class PartsCase(Case):
    """Releases of one explainer on several parts, each asked until the account refuses."""

    asked: tuple[Mapping[str, Any], ...] = ()
    epsilon: float = 2.0
    """Of the account."""
    times: int = 1
    """How many releases on one part it pays for."""

    def play(
        self,
        *,
        runs: int | None = None,
        seconds: float = math.inf,
        confidence: float = 0.95,
        told: Callable[[], None] = lambda: None,
    ) -> Row:
        assert self.pair is not None
        start, runs, world = time.perf_counter(), runs or self.runs, self.world
        tables = self.pair.engines(world.schema, world.relation, world.unit)
        scores = np.zeros((2, runs))
        for where, plan in self._paid_for():
            kept = Kept.beside(*(PartEngine(table, Where.of(world.schema, where)) for table in tables))
            scores += [drawn(plan, own, kept, runs) for own in kept]
            told()
        measured = largest([Scores(*scores)], confidence, 0.0, self.epsilon)
        return self._floored(
            Row(
                name=self.name,
                claimed=self.epsilon,
                measured=measured,
                confidence=confidence,
                verdict="holds" if measured <= self.epsilon else f"broken: ε is at least {measured:.3g}",
                moved=1.0,
                pair=self.pair.name,
                relation=world.relation,
                currency="epsilon",
                delta=0.0,
                runs=runs,
                seconds=round(time.perf_counter() - start, 2),
            )
        )

    def _paid_for(self) -> Iterator[tuple[Mapping[str, Any], Plan]]:
        """What the account lets pass: the parts in turn, with new noise, until all are refused."""
        assert self.pair is not None
        table, _ = self.pair.tables(self.world.schema, self.world.unit)
        session = Session(table, self.world.schema, Budget(self.epsilon), neighbors=self.world.relation, expected_rows=10)
        left = [*self.asked]
        price: dict[str, Any] = {"epsilon": self.epsilon / self.times}
        while left:
            for where in [*left]:
                part = session.where(where)
                try:
                    with warnings.catch_warnings():
                        # Tables of the game are as small as can be.
                        warnings.simplefilter("ignore", UserWarning)
                        part.release(self.explainer, fresh=True, **price)
                except BudgetExceeded:
                    left.remove(where)
                    continue
                yield where, part.plan(self.explainer, **price)


def parts() -> list[Case]:
    counts, rest = Distribution("v", bins=2), [NORTH, SOUTH]
    apart = ({"ward": "north"}, {"ward": "south"})
    crossing = ({"ward": "north"}, {"v": (0.0, 0.5)})
    added = neighbours(rest, NORTH, NORTH, "add-remove", "one record more in one of the parts")
    moves = neighbours(rest, NORTH, SOUTH, "replace", "from one part to the other")
    inside = neighbours(rest, NORTH, {"v": 1.0, "ward": "north"}, "replace", "from one end to the other inside a part")

    def made(name: str, pair: Any, relation: Any, asked: Any, floor: float, why: str, times: int = 1) -> Case:
        world = World(WARDS, relation)
        return PartsCase(f"parts of a table, {name}", counts, world, pair, floor, why, asked=asked, times=times)

    return [
        made(
            "disjoint, add-remove",
            added,
            "add-remove",
            apart,
            SHARP,
            "it loses all that was paid for its part, and nothing elsewhere",
        ),
        made("that overlap, add-remove", added, "add-remove", crossing, KNOWN, "it is in both parts, and loses in both", 2),
        made("disjoint, replace, to another part", moves, "replace", apart, KNOWN, "it leaves one part and enters the other"),
        made(
            "disjoint, replace, inside a part", inside, "replace", apart, KNOWN, "it leaves a cell of its part and enters another"
        ),
    ]
