"""The distinguishing game: two tables that differ by one person, many releases of each, and who can tell them apart.

The releases go through plan, door and noise as those of a session do; only the exact totals are kept from one to the next, and of
releases whose questions are known in advance most are draws of their noise alone. A score of what left the door is compared with
a threshold. Its rates of hits, with their uncertainty, bound the ε of any guarantee that the release could truthfully claim: a
bound above the claim refutes it.
"""

from __future__ import annotations

import contextlib
import datetime
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ..mechanisms import epsilon_of_rho
from ..release.explainer import Explainer
from .draws import drawn, known_in_advance
from .estimate import Scores, largest
from .learned import learned
from .neighbours import Neighbours
from .search import Moved, World, moved, search
from .transcript import Enough, Kept, Likelihood, Listening

NUMBERS = 12
"""Numbers of a release that a score is learned from."""
FEWEST = 200
"""Releases of each table, whatever the time."""
MANY = 1000
"""Whole releases of each table that a score can be learned from."""
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
    floor: float = 0.0
    """The part of the claim that is known to be there, and is measured at least with enough releases; 0 where nobody knows."""

    @property
    def part(self) -> float:
        """The measured bound as a part of the claim."""
        return self.measured / self.claimed

    @property
    def remark(self) -> str:
        """What is to be said of a row that holds: that less was measured than is known to be there. More releases would tell."""
        short = math.isfinite(self.measured) and self.part < self.floor
        return f"below the {self.floor:g} of the claim that are there: too few releases" if short else ""

    @property
    def stamp(self) -> str:
        """The result in one line, for a certificate."""
        from .. import __version__

        said = f"≥ {self.measured:.2f} of a claimed {self.claimed:.2f}" + (f" at δ = {self.delta:g}" if self.delta else "")
        by = f"by {self.runs:,} releases beside each of two tables, pellucid {__version__}, {datetime.date.today().isoformat()}"
        broken = "" if self.verdict == "holds" else f"{self.verdict}; "
        return f"{broken}{said}, with {100 * self.confidence:.4g} %, {by}"

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "remark": self.remark}


def claim_of(world: World) -> tuple[float, float]:
    """(ε, δ) of the guarantee to be measured."""
    if world.currency == "epsilon":
        return float(world.amount), 0.0
    return float(epsilon_of_rho(world.amount, DELTA)), DELTA


def heard(
    explainer: Explainer,
    world: World,
    pair: Neighbours,
    runs: int,
    seconds: float = math.inf,
    told: Callable[[], None] = lambda: None,
) -> tuple[np.ndarray, np.ndarray]:
    """What left the door in so many releases beside each of two tables, or in as many as there is time for.

    A row for each: the log-likelihood ratio under the claimed laws first, then the numbers themselves.
    """
    engines = pair.engines(world.schema, world.relation, world.unit)
    plan = world.plan(explainer, engines[0].units)
    kept = Kept.beside(*engines)
    likelihood = Likelihood(*kept)
    found, end, made = np.zeros((2, runs, 1 + NUMBERS)), time.process_time() + seconds, 0
    while made < runs and (made < FEWEST or time.process_time() < end):
        for side, totals in enumerate(kept):
            ask = Listening(totals, plan, to_the_end=made < FEWEST)
            with contextlib.suppress(Enough):
                explainer.run(ask)
            numbers = [float(n) for said in ask.heard for n in _flat(said.answer)][:NUMBERS]
            found[side, made, : 1 + len(numbers)] = [likelihood(ask.heard), *numbers]
        made += 1
        told()
    return found[0, :made], found[1, :made]


def _flat(answer: Any) -> Iterator[Any]:
    for one in answer:
        yield from _flat(one) if isinstance(one, tuple) else (one,)


@dataclass(frozen=True)
class Looks:
    """What left the door on either side, looked at in up to three ways."""

    whole: tuple[np.ndarray, np.ndarray]
    """Whole releases: a row for each, the log-likelihood ratio first."""
    drawn: tuple[np.ndarray, np.ndarray] | None = None
    """Log-likelihood ratios of many draws of the noise alone, where all questions are known in advance."""


def looks(
    explainer: Explainer,
    world: World,
    pair: Neighbours,
    runs: int,
    seconds: float = math.inf,
    told: Callable[[], None] = lambda: None,
) -> Looks:
    """Whole releases; where all questions are known in advance fewer of them, and many draws of their noise."""
    engines = pair.engines(world.schema, world.relation, world.unit)
    plan = world.plan(explainer, engines[0].units)
    if not known_in_advance(plan) or runs <= FEWEST:
        return Looks(heard(explainer, world, pair, runs, seconds, told))
    kept = Kept.beside(*engines)
    whole = heard(explainer, world, pair, min(runs, max(MANY, runs // WHOLE)), seconds, told)
    return Looks(whole, (drawn(plan, kept[0], kept, runs), drawn(plan, kept[1], kept, runs)))


def measure(seen: Looks, confidence: float, delta: float, claimed: float = math.inf) -> tuple[float, int]:
    """A lower bound of ε, and from how many releases: by the likelihood under the claimed laws, or by a score that is learned,
    as the laws can be others."""
    first, second = seen.whole
    told = [Scores(first[:, 0], second[:, 0]), Scores(first[:, 1:], second[:, 1:], learned)]
    if seen.drawn is not None:
        told.append(Scores(*seen.drawn))
    return largest(told, confidence, delta, claimed), max(len(one) for one in told)


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
        measured, made = measure(looks(explainer, world, found.pair, runs, seconds, told), confidence, delta, claimed)
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
