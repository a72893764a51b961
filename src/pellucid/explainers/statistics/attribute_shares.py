"""Which attribute drives the sensitivity of a query for the people in the data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import PlanError
from ...public.model import Model
from ...public.rows import Rows
from ...public.schema import Schema
from ...query import Sum
from ...query.bounds import Cells
from ...release.door import Ask
from ...release.explainer import Explainer
from ...release.explanation import Explanation
from ...release.plan import Expected, Plan, Public
from ...release.uncounted import absent_words
from ...sensitivity import Flow, numeric_features
from .formulas import OfFormula, formula_columns, somewhere_absent
from .results import Counts

if TYPE_CHECKING:
    from ...sensitivity.partial_sensitivity import Partial


@dataclass(frozen=True)
class SquaredShares:
    """Per record: one vote, divided over the attributes by their squared shares of the gradient.

    A record without a value in one of `left_out` votes for nothing but the cell after the last.
    """

    partial: Partial
    left_out: tuple[str, ...] = ()

    def __call__(self, rows: Rows) -> tuple[np.ndarray, np.ndarray, None]:
        columns = formula_columns(self.partial.formula, rows)
        shares = np.nan_to_num(self.partial.share(np.column_stack(columns))) ** 2
        cells = np.broadcast_to(np.arange(shares.shape[1]), shares.shape)
        if self.left_out:
            absent = somewhere_absent(self.left_out, rows)
            cells = np.column_stack([cells, np.full(len(rows), shares.shape[1])])
            shares = np.column_stack([np.where(absent[:, None], 0.0, shares), absent])
        return cells, shares, None


@dataclass(frozen=True)
class AttributeShares(OfFormula):
    """How much of a query's sensitivity each attribute drives, averaged over the people: a histogram over attributes.

    Every person has one vote, divided over the attributes by the squared partial sensitivity (∂f/∂x_j)²/‖∇f‖² at their own
    record; a person at whom the formula is flat has none. Released: the total votes per attribute, by one draw of noise. A record
    without a value in one of the columns has no vote, unless the schema declares what stands for it; `.uncounted` says how many.

    Claim: cell-sum.
    Paper: "Partial sensitivity analysis in differential privacy"; there computed on records without privacy.

    >>> import pellucid as pel
    >>> schema = pel.Schema({"a": pel.Number(1, 2), "b": pel.Number(0.5, 3)})
    >>> session = pel.Session({"a": [1.5] * 3000, "b": [2.0] * 3000}, schema, budget=pel.Budget(epsilon=1.0))
    >>> drivers = session.release(pel.AttributeShares("a**2 + exp(2*b - a)"), epsilon=1.0)
    >>> drivers.x, bool(abs(drivers.shares[1] - 0.936**2) < 0.05)
    (('a', 'b'), True)
    """

    stored_as = "pellucid.explainers.attribute_shares.AttributeShares"
    references = ("T. T. Mueller et al., Partial sensitivity analysis in differential privacy, 2021.",)

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.formula.variables) < 2:
            raise PlanError("shares divide a vote over attributes; the formula needs at least two of them.")

    def plan(self, public: Public) -> Plan:
        columns, left_out = self.columns(public.schema), self.leaves_out(public.schema)
        shares = SquaredShares(self.over(public.schema), left_out)
        votes = Sum(shares, Cells(len(self.formula.variables) + bool(left_out)), columns=columns, conditions=left_out)
        return Plan(public, (public.stage("votes", votes),))

    def run(self, ask: Ask) -> Explanation:
        answer, names, left_out = ask.total("votes"), self.formula.variables, self.leaves_out(ask.public.schema)
        counts, uncounted = answer.numbers[: len(names)], None
        if left_out:
            # Flat records have no vote: the votes do not add up to the number of records.
            uncounted = answer.outside(left_out, absent_words(left_out, ask.public.schema), whole=False)
        return Counts(feature="attribute", x=names, counts=counts, law=answer.noise, categorical=True, uncounted=uncounted)

    def flow(self, plan: Plan | None = None) -> Flow:
        return (
            Flow("attribute shares")
            .input("records")
            .public("formula")
            .stage("votes", "records", "formula", needs="a histogram: one record votes for one attribute")
            .output("explanation", "formula", "votes")
        )

    def expected(self, plan: Plan) -> Expected:
        noise, names = plan["votes"].noise, self.formula.variables
        return Expected(names, np.full(len(names), noise.half_width(0.95)), noise.gap(0.95))

    def describe(self) -> dict[str, Any]:
        return {"explainer": "AttributeShares", "formula": self.formula.text, "exactly": self.formula.exact_text}

    @classmethod
    def examples(cls, model: Model, schema: Schema) -> Sequence[Explainer]:
        a, b, c = list(numeric_features(schema))[:3]
        return [cls(f"{a}*{b} + {b}**2"), cls(f"{a}*exp({c}/30) - {b}")]
