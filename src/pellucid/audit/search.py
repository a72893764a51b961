"""The search for neighbours that move a release further than it was calibrated for, and for those that move it furthest.

No noise is needed: exact integer totals of two tables are compared with the sensitivity that the noise was scaled to.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np

from ..engine import LocalEngine
from ..errors import DataError, PlanError
from ..explainers.clusters.scores import CandidateScore, CombinationScore, combinations_of
from ..mechanisms import Choosing, Mechanism, Spend
from ..public.asking import DEFAULT
from ..public.ready import Ready, taken
from ..public.row_wise import tried
from ..public.schema import Relation, Schema, Unit
from ..public.silence import silenced
from ..query import Choice, Reading, touched
from ..release.explainer import Explainer
from ..release.plan import Plan, Public
from .draws import known_in_advance
from .neighbours import Neighbours, Record, candidates, corner, coupled, varied
from .transcript import Listening, Said

COMBINATIONS = 400
"""Combinations of attributes whose scores are compared."""
CORNERS = 256
"""Records that models are asked about, to see on which they fail."""
SLACK = 1e-9
"""Sums of squares are compared as floats."""


@dataclass(frozen=True)
class World:
    """Under which promises a release is audited: all that a session settles, and no data."""

    schema: Schema
    relation: Relation = "replace"
    unit: Unit = field(default_factory=Unit)
    currency: str = "epsilon"
    amount: Fraction = Fraction(1)

    def public(self, rows: int) -> Public:
        known = rows if self.relation == "replace" else None
        return Public(self.schema, self.relation, self.unit, Spend(self.currency, self.amount), known, max(rows, 1))  # type: ignore[arg-type]

    def plan(self, explainer: Explainer, rows: int) -> Plan:
        for model in explainer.models:
            tried(model, self.schema)
        return explainer.plan(self.public(rows))


@dataclass(frozen=True)
class Moved:
    """How far a pair of neighbours moves a release, as a part of what it was calibrated for."""

    pair: Neighbours
    stages: tuple[tuple[str, float], ...]
    """By stage, in the norm of its noise; for a choice, the span of the change of its scores."""
    whole: float
    """The parts of all stages, weighed by what each costs."""

    @property
    def worst(self) -> float:
        return max((part for _, part in self.stages), default=0.0)

    @property
    def broken(self) -> tuple[str, ...]:
        """The stages that moved further than their noise was scaled to."""
        return tuple(name for name, part in self.stages if part > 1 + SLACK)


def search(explainer: Explainer, world: World, tries: int = 150, seed: int = 0, fewest: int = 1) -> Moved:
    """The pair that moves a release furthest, of named, random and guided ones; one that breaks its bound ends the search."""
    rng = np.random.default_rng(seed)
    best: Moved | None = None
    for pair in _candidates(explainer, world, rng, tries // 2, fewest):
        try:
            found = moved(explainer, world, pair)
        except (PlanError, DataError) as error:
            # Some releases want more records than a small table has, and say so.
            refused = error
            continue
        best = found if best is None or _rank(found) > _rank(best) else best
        if found.broken:
            return found
    if best is None:
        raise refused
    here = best
    for _ in range(tries // 2):
        with contextlib.suppress(PlanError, DataError):
            found = moved(explainer, world, varied(here.pair, world.schema, world.relation, rng))
            # As far is good enough to go on from, across a plain; it is no reason to give up the best pair.
            here = found if _rank(found) >= _rank(here) else here
            best = found if _rank(found) > _rank(best) else best
            if found.broken:
                return found
    return best


def _rank(found: Moved) -> tuple[bool, float]:
    return bool(found.broken), found.whole


def _candidates(explainer: Explainer, world: World, rng: np.random.Generator, count: int, fewest: int) -> Iterator[Neighbours]:
    question = DEFAULT.rows if explainer.models else None
    return candidates(
        world.schema, world.relation, world.unit, rng, count, fewest, failing=_failing(explainer, world), question=question
    )


def _failing(explainer: Explainer, world: World) -> list[Record]:
    """Records at the ends of columns on which a model fails: one for each model that has some."""
    rng, found = np.random.default_rng(1), []
    records = tuple(corner(world.schema, rng, inner=0.1) for _ in range(CORNERS))
    engine, _ = Neighbours(records, records).engines(world.schema, "replace", Unit())
    (rows,) = engine.batches(list(world.schema))
    for model in explainer.models:
        ready = tried(model, world.schema)
        given = ready.inputs(rows.columns)
        if _fails(ready, given):
            found += [records[i] for i in range(CORNERS) if _fails(ready, taken(given, np.array([i])))][:1]
    return found


def _fails(ready: Ready, inputs: Any) -> bool:
    with silenced():
        try:
            return bool(np.isnan(ready.raw(inputs)).any())
        except (Exception, SystemExit):
            return True


def moved(explainer: Explainer, world: World, pair: Neighbours) -> Moved:
    """What one pair does to every stage of a release; what later stages ask is what one release beside each table asked."""
    engines = pair.engines(world.schema, world.relation, world.unit)
    plan = world.plan(explainer, engines[0].units)
    stages: dict[str, float] = {}
    if world.relation == "replace" and engines[0].units != engines[1].units:
        # It is told as it is: neighbours must not differ in it.
        stages["the number of units"] = math.inf
    whole = 0.0
    # What is asked in any case need not be heard beside both tables.
    listened = engines[:1] if known_in_advance(plan) else engines
    for engine in listened:
        ask = Listening(engine.totals, plan)
        explainer.run(ask)
        amounts = [charge.amount for charge in ask.charges]
        if sum(amounts) > world.amount:
            stages["what is charged in all"] = float(sum(amounts) / world.amount)
        for said, amount in zip(ask.heard, amounts, strict=True):
            if isinstance(said.how, Choosing) and (cost := _sharpness(said.how, amount, world)) > 1 + SLACK:
                stages[f"{said.stage}, as charged"] = cost
        for said, part in _parts(ask.heard, amounts, engines, world):
            stages[said.stage] = max(part, stages.get(said.stage, 0.0))
            whole += part * float(said.how.cost) / float(world.amount) / len(listened)
    return Moved(pair, tuple(stages.items()), whole)


def _parts(
    heard: Sequence[Said], amounts: Sequence[Fraction], engines: Sequence[LocalEngine], world: World
) -> Iterator[tuple[Said, float]]:
    for said, amount in zip(heard, amounts, strict=True):
        query: Any = said.query
        exact = query.of if isinstance(query, Choice | Reading) else query
        with coupled():
            first = engines[0].totals(exact)
        with coupled():
            second = engines[1].totals(exact)
        if isinstance(query, Choice):
            assert isinstance(said.how, Choosing)
            yield said, _scores_moved(query, said.how, amount, first, second, world)
        elif isinstance(said.how, Mechanism):
            if isinstance(query, Reading):
                first, second = query.image.of(first), query.image.of(second)
            yield said, moved_part(said.how, first, second, amount)


def moved_part(how: Mechanism, first: Sequence[int], second: Sequence[int], charged: Fraction | None = None) -> float:
    """How far totals moved in the norm of the noise, as a part of what it was scaled to; or what that costs with the scale that
    the noise has, as a part of what was charged, where that is more."""
    change = [b - a for a, b in zip(first, second, strict=True)]
    if how.kind == "laplace":
        size = float(sum(map(abs, change)))
    elif how.kind == "k-norm":
        size = float(max(map(abs, change), default=0))
    else:
        size = sum((c / r) ** 2 for c, r in zip(change, how.relative or (1.0,) * len(change))) ** 0.5
    part = size / how.sensitivity if how.sensitivity else float(size > 0)
    if charged is None or not size:
        return part
    lost = size / float(how.scale)
    return max(part, lost / math.sqrt(2 * charged) if how.kind == "gaussian" else lost / float(charged))


def _sharpness(how: Choosing, charged: Fraction, world: World) -> float:
    """What a choice costs where scores change by all that it was calibrated for, as a part of what was charged."""
    lost = float(how.rate * how.span)
    return math.sqrt(how.k * lost**2 / 8 / charged) if world.currency == "rho" else how.k * lost / float(charged)


def _scores_moved(
    choice: Choice, how: Choosing, charged: Fraction, first: Sequence[int], second: Sequence[int], world: World
) -> float:
    """The span of the change of the scores, as a part of the one that the choice was calibrated for; or what it costs with the
    sharpness that the choice has, as a part of what was charged, where that is more."""
    relation, units = touched(choice, world.relation)
    units *= world.unit.rows_per_unit
    score: Any = choice.score
    if isinstance(score, CombinationScore):
        old, new = score.tables(first), score.tables(second)
        listed = [combination for combination, _ in zip(combinations_of(score), range(COMBINATIONS))]
        change = [new.of(combination) - old.of(combination) for combination in listed]
        spans, most = [max(change) - min(change)], score.span(relation, units)
    elif isinstance(score, CandidateScore):
        rows = [[b - a for a, b in zip(*pair)] for pair in zip(score.of(first), score.of(second))]
        spans, most = [max(row) - min(row) for row in rows], sum(score.spans(relation, units))
    else:
        change = [b - a for a, b in zip(score.of(first), score.of(second))]
        spans, most = [max(change) - min(change)], score.span(relation, units)
    # Every pick is of bounded range: it loses at most rate·span, or (rate·span)²/8 of ρ.
    lost = [float(how.rate * span) for span in spans]
    if world.currency == "rho":
        cost = math.sqrt(how.k * sum(one**2 for one in lost) / 8 / charged)
    else:
        cost = how.k * sum(lost) / float(charged)
    return max(sum(spans) / most, cost)


def under(world: World, **changed: Any) -> World:
    """The same world with another relation, unit, currency or amount."""
    return replace(world, **changed)
