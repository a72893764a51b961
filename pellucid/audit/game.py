"""The distinguishing game: two tables that differ by one person, many releases of each, and who can tell them apart.

The releases go through plan, door and noise as those of a session do; only the exact totals are kept from one to the next, and of
releases whose questions are known in advance most are draws of their noise alone. A score of what left the door is compared with
a threshold. Its rates of hits, with their uncertainty, bound the ε of any guarantee that the release could truthfully claim: a
bound above the claim refutes it.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ..mechanisms import epsilon_of_rho
from ..release.explainer import Explainer
from .draws import drawn, known_in_advance
from .estimate import lower_bound
from .neighbours import Neighbours
from .search import Moved, World, moved, search
from .transcript import Enough, Kept, Likelihood, Listening

FEWEST = 200
"""Releases of each table, whatever the time."""
WHOLE = 20
"""One release in so many is whole, where the others are draws of its noise."""
DELTA = 0.05
"""Under zCDP the claim is looked at where it can be measured: the ε that ρ gives at this δ. It is no δ to live with."""


@dataclass(frozen=True)
class Row:
    """One line of an audit."""

    name: str
    claimed: float
    """The ε that the release claims, at δ."""
    measured: float
    """The ε that it must have at least, with the confidence stated."""
    confidence: float
    verdict: str
    """`holds`, or `broken` and what shows it."""
    moved: float
    """How far the pair of tables moves the release, as a part of what it was calibrated for."""
    pair: str
    relation: str
    currency: str
    delta: float
    runs: int
    seconds: float

    @property
    def part(self) -> float:
        """The measured bound as a part of the claim."""
        return self.measured / self.claimed

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def claim_of(world: World) -> tuple[float, float]:
    """(ε, δ) of the guarantee to be measured."""
    if world.currency == "epsilon":
        return float(world.amount), 0.0
    return float(epsilon_of_rho(world.amount, DELTA)), DELTA


def scores(
    explainer: Explainer,
    world: World,
    pair: Neighbours,
    runs: int,
    seconds: float = math.inf,
    told: Callable[[], None] = lambda: None,
) -> tuple[np.ndarray, np.ndarray]:
    """Scores of so many releases beside each of two tables, or of as many as there is time for."""
    engines = pair.engines(world.schema, world.relation, world.unit)
    plan = world.plan(explainer, engines[0].units)
    kept = [Kept(engine.totals) for engine in engines]
    likelihood = Likelihood(*kept)
    found, end = np.empty((2, runs)), time.perf_counter() + seconds
    for run in range(runs):
        if run >= FEWEST and time.perf_counter() > end:
            return found[0, :run], found[1, :run]
        for side, totals in enumerate(kept):
            ask = Listening(totals, plan, to_the_end=run < FEWEST)
            with contextlib.suppress(Enough):
                explainer.run(ask)
            found[side, run] = likelihood(ask.heard)
        told()
    return found[0], found[1]


def looks(
    explainer: Explainer,
    world: World,
    pair: Neighbours,
    runs: int,
    seconds: float = math.inf,
    told: Callable[[], None] = lambda: None,
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Scores of whole releases; where all questions are known in advance, of fewer of them and of many draws of their noise."""
    engines = pair.engines(world.schema, world.relation, world.unit)
    plan = world.plan(explainer, engines[0].units)
    if not known_in_advance(plan) or runs <= FEWEST:
        return [scores(explainer, world, pair, runs, seconds, told)]
    kept = [Kept(engine.totals) for engine in engines]
    whole = scores(explainer, world, pair, max(FEWEST, runs // WHOLE), seconds, told)
    return [whole, (drawn(plan, kept[0], kept, runs), drawn(plan, kept[1], kept, runs))]


def play(
    explainer: Explainer,
    world: World,
    *,
    runs: int = 4000,
    seconds: float = math.inf,
    confidence: float = 0.95,
    name: str = "",
    pair: Neighbours | Moved | None = None,
    tries: int = 120,
    told: Callable[[], None] = lambda: None,
) -> Row:
    """Audit one release beside the neighbours that move it furthest: those given, or those that a search finds."""
    start = time.perf_counter()
    found = search(explainer, world, tries) if pair is None else pair
    if isinstance(found, Neighbours):
        found = moved(explainer, world, found)
    claimed, delta = claim_of(world)
    measured, made = math.inf, 0
    if found.broken:
        verdict = f"broken: {', '.join(found.broken)} moves {found.worst:.3g} times as far as its noise was scaled to"
    else:
        seen = looks(explainer, world, found.pair, runs, seconds, told)
        each = 1 - (1 - confidence) / len(seen)
        measured, made = max(lower_bound(*look, each, delta) for look in seen), max(len(first) for first, _ in seen)
        verdict = "holds" if measured <= claimed else f"broken: ε is at least {measured:.3g}"
    return Row(
        name=name or type(explainer).__name__,
        claimed=claimed,
        measured=measured,
        confidence=confidence,
        verdict=verdict,
        moved=found.worst,
        pair=found.pair.name,
        relation=world.relation,
        currency=world.currency,
        delta=delta,
        runs=made,
        seconds=round(time.perf_counter() - start, 2),
    )
