"""Many draws of the noise of a release whose questions are known in advance: all that is random about it, without the rest."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..mechanisms import Mechanism, add_noise
from ..query import Choice
from ..release.plan import Plan
from .transcript import Kept, law_of, released

AT_ONCE = 1000
"""Releases whose noise is drawn in one call."""


def known_in_advance(plan: Plan) -> bool:
    """Whether every stage adds noise to totals that do not depend on earlier answers."""
    return all(isinstance(stage.how, Mechanism) and not isinstance(stage.query, Choice) for stage in plan.stages)


def drawn(plan: Plan, own: Kept, both: Sequence[Kept], runs: int) -> np.ndarray:
    """Scores of so many releases beside the table of `own`, as those of whole releases are computed."""
    found = np.zeros(runs)
    for stage in plan.stages:
        query = stage.query
        assert query is not None and not isinstance(query, Choice)
        first, second = (released(kept, query) for kept in both)
        found += scores_of(own.all(query), first, second, stage.mechanism, runs)
    return found


def scores_of(exact: Sequence[Sequence[int]], first: np.ndarray, second: np.ndarray, how: Mechanism, runs: int) -> np.ndarray:
    """Scores of so many noisy answers, each to one of these exact totals."""
    found = []
    for start in range(0, runs, AT_ONCE):
        lots = [exact[secrets.randbelow(len(exact))] for _ in range(min(AT_ONCE, runs - start))]
        found.append(law_of(_noisy(lots, how), first, second, how))
    return np.concatenate(found)


def _noisy(totals: Sequence[Sequence[int]], how: Mechanism) -> np.ndarray:
    if how.kind == "k-norm":
        return np.array([add_noise(one, how) for one in totals], dtype=float)
    # Coordinates are independent, so that many vectors are one long one.
    flat = [value for one in totals for value in one]
    long = replace(how, size=len(flat), relative=how.relative * len(totals))
    return np.array(add_noise(flat, long), dtype=float).reshape(len(totals), how.size)
