"""The game for whole accounts: release after release until the ledger refuses, and all that left the door together.

What a single release claims says nothing about an account that counts pure and zCDP releases side by side. Here a session decides
what is paid for, with its ledger; the releases that it let pass are then drawn many times, and what they tell together is
compared with the ε and δ of the budget.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import count
from typing import Any

import numpy as np

from ..errors import BudgetExceeded
from ..ledger.accounting import Budget, Kind
from ..mechanisms import Spend
from ..release.explainer import Explainer
from ..release.session import Session
from .draws import drawn
from .estimate import Scores, largest
from .game import Row
from .neighbours import Neighbours
from .search import SLACK, World, moved, under
from .transcript import Kept

MOST = 1000
"""Releases that an account is asked for at most."""

Price = tuple[Kind, Fraction]
"""A kind of release, and its ε or ρ."""


def paid_for(explainer: Explainer, world: World, pair: Neighbours, budget: Budget, asked: Sequence[Price]) -> list[Spend]:
    """What an account pays for of requests one after another, the last one again and again, until it refuses."""
    table, _ = pair.tables(world.schema, world.unit)
    session = Session(table, world.schema, budget, neighbors=world.relation, unit=world.unit)
    passed: list[Spend] = []
    for i in count():
        kind, amount = asked[min(i, len(asked) - 1)]
        currency = "epsilon" if kind == "pure" else "rho"
        price: dict[str, Any] = {currency: amount}
        try:
            session.release(explainer, kind=kind, fresh=True, **price)
        except BudgetExceeded:
            return passed
        passed.append(Spend(currency, amount))  # type: ignore[arg-type]
        if len(passed) == MOST:
            return passed
    raise AssertionError


def play_account(
    explainer: Explainer,
    world: World,
    pair: Neighbours,
    budget: Budget,
    asked: Sequence[Price],
    *,
    runs: int,
    confidence: float = 0.95,
    name: str = "",
    told: Callable[[], None] = lambda: None,
) -> Row:
    """Audit an account that is asked until it refuses."""
    start = time.perf_counter()
    engines = pair.engines(world.schema, world.relation, world.unit)
    kept = Kept.beside(*engines)
    scores, furthest = np.zeros((2, runs)), 0.0
    for spend in paid_for(explainer, world, pair, budget, asked):
        paid = under(world, currency=spend.currency, amount=spend.amount)
        plan = paid.plan(explainer, engines[0].units)
        furthest = max(furthest, moved(explainer, paid, pair).worst)
        scores += [drawn(plan, own, kept, runs) for own in kept]
        told()
    measured = largest([Scores(*scores)], confidence, budget.delta, budget.epsilon)
    verdict = "holds" if measured <= budget.epsilon else f"broken: ε is at least {measured:.3g}"
    if furthest > 1 + SLACK:
        measured, verdict = math.inf, f"broken: a release moves {furthest:.3g} times as far as its noise was scaled to"
    return Row(
        name=name or type(explainer).__name__,
        claimed=budget.epsilon,
        measured=measured,
        confidence=confidence,
        verdict=verdict,
        moved=furthest,
        pair=pair.name,
        relation=world.relation,
        currency="either",
        delta=budget.delta,
        runs=runs,
        seconds=round(time.perf_counter() - start, 2),
    )
