"""Replays: an identical request gets the stored answer, to the last byte, and pays nothing."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

from ..ledger.accounting import Budget
from ..release.explainer import Explainer
from ..release.session import Session
from .game import Row, claim_of
from .neighbours import Neighbours
from .search import World


def play_replay(
    explainer: Explainer,
    world: World,
    pair: Neighbours,
    *,
    runs: int = 20,
    confidence: float = 0.95,
    name: str = "",
    told: Callable[[], None] = lambda: None,
) -> Row:
    """Release once and ask again: what the second answer adds is 0, or anything at all if it is another one or is paid for."""
    start = time.perf_counter()
    budget = Budget(epsilon=1000.0, delta=0.0 if world.currency == "epsilon" else 0.01)
    price: dict[str, Any] = {world.currency: world.amount}
    wrong = ""
    for table in pair.tables(world.schema, world.unit):
        session = Session(table, world.schema, budget, neighbors=world.relation, unit=world.unit)
        first, spent = session.release(explainer, **price).to_json(), session.spent
        for _ in range(runs):
            if session.release(explainer, **price).to_json() != first:
                wrong = "an identical request got another answer"
            elif session.spent != spent:
                wrong = "an identical request was charged again"
            told()
    claimed, delta = claim_of(world)
    return Row(
        name=name or type(explainer).__name__,
        claimed=claimed,
        measured=math.inf if wrong else 0.0,
        confidence=confidence,
        verdict=f"broken: {wrong}" if wrong else "holds",
        moved=0.0,
        pair=pair.name,
        relation=world.relation,
        currency=world.currency,
        delta=delta,
        runs=runs,
        seconds=round(time.perf_counter() - start, 2),
    )
