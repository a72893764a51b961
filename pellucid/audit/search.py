"""The search for neighbours that move a release further than it was calibrated for, and for those that move it furthest.

No noise is needed: exact integer totals of two tables are compared with the sensitivity that the noise was scaled to.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np

from ..engine import LocalEngine
from ..explainers.clusters.scores import CandidateScore, CombinationScore, combinations_of
from ..mechanisms import Mechanism, Spend
from ..public.row_wise import tried
from ..public.schema import Relation, Schema, Unit
from ..query import Choice, Reading, touched
from ..release.explainer import Explainer
from ..release.plan import Plan, Public
from .neighbours import Neighbours, candidates, coupled, varied
from .transcript import Listening, Said

COMBINATIONS = 400
"""Combinations of attributes whose scores are compared."""
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
    for pair in candidates(world.schema, world.relation, world.unit, rng, tries // 2, fewest):
        found = moved(explainer, world, pair)
        best = found if best is None or _rank(found) > _rank(best) else best
        if found.broken:
            return found
    assert best is not None
    for _ in range(tries // 2):
        found = moved(explainer, world, varied(best.pair, world.schema, world.relation, rng))
        best = found if _rank(found) > _rank(best) else best
        if found.broken:
            return found
    return best


def _rank(found: Moved) -> tuple[bool, float]:
    return bool(found.broken), found.whole


def moved(explainer: Explainer, world: World, pair: Neighbours) -> Moved:
    """What one pair does to every stage of a release; what later stages ask is what one release beside each table asked."""
    engines = pair.engines(world.schema, world.relation, world.unit)
    plan = world.plan(explainer, engines[0].units)
    stages: dict[str, float] = {}
    whole = 0.0
    for engine in engines:
        ask = Listening(engine.totals, plan)
        explainer.run(ask)
        for said, part in _parts(ask.heard, engines, world):
            stages[said.stage] = max(part, stages.get(said.stage, 0.0))
            whole += part * float(said.how.cost) / float(world.amount) / 2
    return Moved(pair, tuple(stages.items()), whole)


def _parts(heard: Sequence[Said], engines: Sequence[LocalEngine], world: World) -> Iterator[tuple[Said, float]]:
    for said in heard:
        query: Any = said.query
        exact = query.of if isinstance(query, Choice | Reading) else query
        with coupled():
            first = engines[0].totals(exact)
        with coupled():
            second = engines[1].totals(exact)
        if isinstance(query, Choice):
            yield said, _scores_moved(query, first, second, world)
        elif isinstance(said.how, Mechanism):
            released = [query.image.of(totals) for totals in (first, second)] if isinstance(query, Reading) else [first, second]
            yield said, moved_part(said.how, *released)


def moved_part(how: Mechanism, first: Sequence[int], second: Sequence[int]) -> float:
    """How far totals moved in the norm of the noise, as a part of what it was scaled to."""
    change = [b - a for a, b in zip(first, second, strict=True)]
    if how.kind == "laplace":
        size = float(sum(map(abs, change)))
    elif how.kind == "k-norm":
        size = float(max(map(abs, change), default=0))
    else:
        size = sum((c / r) ** 2 for c, r in zip(change, how.relative or (1.0,) * len(change))) ** 0.5
    return size / how.sensitivity if how.sensitivity else float(size > 0)


def _scores_moved(choice: Choice, first: Sequence[int], second: Sequence[int], world: World) -> float:
    """The span of the change of the scores, as a part of the one that the choice was calibrated for."""
    relation, units = touched(choice, world.relation)
    units *= world.unit.rows_per_unit
    score: Any = choice.score
    if isinstance(score, CombinationScore):
        old, new = score.tables(first), score.tables(second)
        listed = [combination for combination, _ in zip(combinations_of(score), range(COMBINATIONS))]
        change = [new.of(combination) - old.of(combination) for combination in listed]
        return (max(change) - min(change)) / score.span(relation, units)
    if isinstance(score, CandidateScore):
        rows = [[b - a for a, b in zip(*pair)] for pair in zip(score.of(first), score.of(second))]
        return sum(max(row) - min(row) for row in rows) / sum(score.spans(relation, units))
    change = [b - a for a, b in zip(score.of(first), score.of(second))]
    return (max(change) - min(change)) / score.span(relation, units)


def under(world: World, **changed: Any) -> World:
    """The same world with another relation, unit, currency or amount."""
    return replace(world, **changed)
