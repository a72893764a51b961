"""Many draws of the noise of a release whose questions are known in advance: all that is random about it, without the rest."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..mechanisms import Mechanism, Spend
from ..query import Choice, Query
from ..release.door import Door
from ..release.plan import Plan
from .transcript import Kept, law_of, released

AT_ONCE = 1000
"""Releases whose noise is drawn in one call."""


def known_in_advance(plan: Plan) -> bool:
    """Whether every stage adds noise to totals that do not depend on earlier answers."""
    return all(isinstance(stage.how, Mechanism) and not isinstance(stage.query, Choice) for stage in plan.stages)


class Many(Door):
    """A door that answers one question many times over, about exact totals that are known already."""

    def __init__(self, plan: Plan, totals: list[int]):
        super().__init__(lambda query: totals, plan.public, lambda charge: None)

    def _totals(self, query: Query, how: Mechanism) -> list[int]:
        return self._read(query)

    def answers(self, query: Query, how: Mechanism, spend: Spend) -> tuple[int, ...]:
        return self._noisy("draws", query, how, spend).integers


def drawn(plan: Plan, own: Kept, both: Sequence[Kept], runs: int) -> np.ndarray:
    """Scores of so many releases beside the table of `own`, as those of whole releases are computed."""
    found = np.zeros(runs)
    for stage in plan.stages:
        query = stage.query
        assert query is not None and not isinstance(query, Choice)
        first, second = (released(kept, query) for kept in both)
        found += scores_of(plan, query, stage.mechanism, own.all(query), first, second, runs)
    return found


def scores_of(
    plan: Plan, query: Query, how: Mechanism, exact: Sequence[list[int]], first: np.ndarray, second: np.ndarray, runs: int
) -> np.ndarray:
    """Scores of so many noisy answers to a question, each about one of these exact totals."""
    found = []
    for start in range(0, runs, AT_ONCE):
        lots = [exact[secrets.randbelow(len(exact))] for _ in range(min(AT_ONCE, runs - start))]
        found.append(law_of(_noisy(plan, query, how, lots), first, second, how))
    return np.concatenate(found)


def _noisy(plan: Plan, query: Query, how: Mechanism, totals: Sequence[list[int]]) -> np.ndarray:
    spend = Spend(plan.public.spend.currency, how.cost)
    if how.kind == "k-norm":
        return np.array([Many(plan, one).answers(query, how, spend) for one in totals], dtype=float)
    # Coordinates are independent, so that many vectors are one long one.
    flat = [value for one in totals for value in one]
    long = replace(how, size=len(flat), relative=how.relative * len(totals))
    return np.array(Many(plan, flat).answers(query, long, spend), dtype=float).reshape(len(totals), how.size)
