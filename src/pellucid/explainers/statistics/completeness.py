"""How complete columns are: shares of cells that are missing, unreadable, not declared or out of range."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...public.frozen import settle
from ...public.model import Model
from ...public.rows import Rows
from ...public.schema import FINE, Schema
from ...query import Joint, Sum
from ...query.bounds import Box, Cells
from ...release.door import Ask
from ...release.explainer import Explainer
from ...release.explanation import Explanation
from ...release.plan import Expected, Plan, Public
from ...sensitivity import Flow
from ..common.base import feature_list
from .results import CompletenessResult


@dataclass(frozen=True)
class InCondition:
    """Per record: what is wrong with its cell, the first condition in cell 0; a cell that is fine is in none."""

    name: str

    def __call__(self, rows: Rows) -> tuple[np.ndarray, None, None]:
        return rows.conditions[self.name].astype(np.intp)[:, None] - (FINE + 1), None, None


@dataclass(frozen=True)
class InConditions:
    """Per record: 1 for what is wrong with its cell of each column, 0 for what is not."""

    sizes: tuple[tuple[str, int], ...]

    def __call__(self, rows: Rows) -> np.ndarray:
        found = [rows.conditions[name] == FINE + 1 + i for name, size in self.sizes for i in range(size)]
        return np.stack(found, axis=1).astype(float)


@dataclass(frozen=True)
class Completeness(Explainer):
    """How much of each column is missing, unreadable, not a declared value or out of range: a share for each.

    Released: the shares of all columns at once, by one draw of noise; nothing of what the cells say. The policy of a column for
    such cells plays no part. Exact counts, and what the cells hold, are for the owner alone: `session.check()`.

    Claim: cell-sum and box-sum, on joint-sum.

    >>> import pellucid as pel
    >>> schema = pel.Schema({"salary": pel.Number(0, 200_000)})
    >>> session = pel.Session({"salary": [50_000.0, None, None, None] * 1000}, schema, budget=pel.Budget(epsilon=1.0))
    >>> found = session.release(pel.Completeness(), epsilon=1.0)
    >>> bool(abs(found.share("salary", "missing") - 0.75) < 0.02)
    True
    """

    feature: str | Sequence[str] | None = None
    """The column, or a list of columns; left out, all of them."""

    stored_as = "pellucid.explainers.completeness.Completeness"
    references = (
        "C. Dwork, F. McSherry, K. Nissim, A. Smith, Calibrating noise to sensitivity in private data analysis, TCC 2006.",
        "M. Hardt, K. Talwar, On the geometry of differential privacy, STOC 2010 (K-norm mechanism).",
    )

    def __post_init__(self) -> None:
        if self.feature is not None:
            settle(self, feature=feature_list(self.feature))

    def columns(self, schema: Schema) -> tuple[str, ...]:
        for name in self.feature or ():
            schema[name]
        return tuple(name for name in schema if self.feature is None or name in self.feature)

    def cell_policies(self, schema: Schema) -> dict[str, str]:
        return dict.fromkeys(self.columns(schema), "cells are counted by what is wrong with them; what they say plays no part")

    def plan(self, public: Public) -> Plan:
        names = self.columns(public.schema)
        sizes = tuple((name, len(public.schema[name].conditions)) for name in names)
        query: Sum | Joint
        if public.count_needed:
            # Centred, a record added moves each share by half: less than in a histogram, but for the count beside it.
            box = Box(sum(size for _, size in sizes), 0.0, 1.0, count=True)
            query = Sum(InConditions(sizes), box, columns=names, conditions=names)
        else:
            # A cell has one condition: replaced, two of its shares move, and in a box it could be all of them.
            query = Joint([Sum(InCondition(name), Cells(size), columns=(name,), conditions=(name,)) for name, size in sizes])
        return Plan(public, (public.stage("shares", query),), details=sizes)

    def run(self, ask: Ask) -> Explanation:
        answer, sizes = ask.total("shares"), ask.plan.details
        if ask.public.count_needed:
            mean = answer.mean()
            shares, law, count = mean.values, mean.law, mean.count
        else:
            # The law of a mean is in units of half the range of what is averaged, which is 1.
            shares, law, count = answer.numbers / ask.public.planning_rows, answer.noise.times(2), float(ask.public.planning_rows)
        return CompletenessResult(
            features=tuple(name for name, size in sizes for _ in range(size)),
            conditions=tuple(what for name, _ in sizes for what in ask.public.schema[name].conditions),
            shares=shares,
            law=law,
            count=count,
            noisy_count=ask.public.count_needed,
        )

    def flow(self, plan: Plan | None = None) -> Flow:
        return (
            Flow("completeness")
            .input("records")
            .public("schema", "what cells may say")
            .stage("shares", "records", "schema", needs="a cell of each column in one condition, beside a count under add-remove")
            .output("explanation", "schema", "shares", needs="divide, label")
        )

    def expected(self, plan: Plan) -> Expected:
        public = plan.public
        law = plan["shares"].noise.times((0.5 if public.count_needed else 1.0) / public.planning_rows)
        labels = tuple(f"{name} {what}" for name, _ in plan.details for what in public.schema[name].conditions)
        notes = ("the count of records is noisy too: errors of small shares are up to √2 larger",) if public.count_needed else ()
        return Expected(labels, np.full(len(labels), law.half_width(0.95)), law.gap(0.95), notes)

    def describe(self) -> dict[str, Any]:
        return {"explainer": "Completeness", "features": None if self.feature is None else list(self.feature)}

    @classmethod
    def examples(cls, model: Model, schema: Schema) -> Sequence[Explainer]:
        names = list(schema)
        return [cls(), cls(names[0]), cls(names[-2:])]
