"""The mean or sum of a formula over the people, with noise scaled by its certified sensitivity."""

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
from ...query.bounds import Box
from ...release.door import Ask
from ...release.explainer import Explainer
from ...release.explanation import Explanation
from ...release.plan import Expected, Plan, Public
from ...release.uncounted import absent_words
from ...sensitivity import Flow, numeric_features
from .formulas import OfFormula, certified_ranges, formula_columns, somewhere_absent
from .results import Estimates

if TYPE_CHECKING:
    from ...sensitivity.expressions import Formula


@dataclass(frozen=True)
class Scaled:
    """Per record: the outputs of a formula, moved and scaled so that their certified ranges become [-1, 1]."""

    formula: Formula
    centre: tuple[float, ...]
    radius: tuple[float, ...]

    def __call__(self, rows: Rows) -> np.ndarray:
        outputs = self.formula.compiled()(*formula_columns(self.formula, rows))
        columns = [
            (np.broadcast_to(value, len(rows)) - middle) / radius
            for value, middle, radius in zip(outputs, self.centre, self.radius)
        ]
        return np.stack(columns, axis=1)


@dataclass(frozen=True)
class ScaledWhereKnown:
    """Per record: whether it counts, and what `Scaled` says. One that has no value in a column counts for nothing."""

    scaled: Scaled
    names: tuple[str, ...]

    def __call__(self, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
        return ~somewhere_absent(self.names, rows), self.scaled(rows)


@dataclass(frozen=True)
class Statistic(OfFormula):
    """The mean (or sum) of a formula of the columns over all people: `.values`, one per output.

    Released: one number per output, all by one draw of noise. The range of each output is certified over the declared
    domain before anything is paid, and enforced by clipping. A sum under add-remove has the sensitivity sup |f|; a mean, and a
    sum under replace, that of sup f − inf f. A record without a value in one of the columns is not counted, unless the schema
    declares what stands for it; `.uncounted` says how many were not.

    Claim: counted-sum and box-sum; the range by certified-supremum.
    Paper: "Partial sensitivity analysis in differential privacy", queries over private databases.

    >>> import pellucid as pel
    >>> schema = pel.Schema({"kg": pel.Number(30, 200), "cm": pel.Number(100, 220)})
    >>> session = pel.Session({"kg": [81.0] * 2000, "cm": [180.0] * 2000}, schema, budget=pel.Budget(epsilon=1.0))
    >>> bmi = session.release(pel.Statistic("kg / (cm / 100)**2"), epsilon=1.0)
    >>> bool(abs(bmi.values[0] - 25) < 1)
    True
    """

    aggregate: str = "mean"
    """What is released of each output: its "mean" or its "sum"."""

    stored_as = "pellucid.explainers.statistic.Statistic"
    references = (
        "T. T. Mueller et al., Partial sensitivity analysis in differential privacy, 2021.",
        "C. Dwork, F. McSherry, K. Nissim, A. Smith, Calibrating noise to sensitivity in private data analysis, TCC 2006.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.aggregate not in ("mean", "sum"):
            raise PlanError(f"aggregate={self.aggregate!r}: use 'mean' or 'sum'.")

    def scaled(self, public: Public) -> Scaled:
        """The map, with the certified centre and radius of every output."""
        asked = self.over(public.schema)
        centre, radius = [], []
        for output, (lo, hi) in zip(asked.formula.outputs, certified_ranges(asked)):
            if not np.isfinite([lo, hi]).all():
                raise PlanError(
                    f"the formula {output} has no certified finite range over the declared domain; narrow the ranges."
                )
            if self.aggregate == "sum" and public.count_needed:
                # Without a public number of records a sum cannot be moved: its range is symmetric around zero.
                lo, hi = -max(abs(lo), abs(hi)), max(abs(lo), abs(hi))
            if not lo < hi:
                raise PlanError(f"the formula {output} is constant over the declared domain; there is nothing to release.")
            centre.append((lo + hi) / 2)
            radius.append((hi - lo) / 2)
        return Scaled(asked.formula, tuple(centre), tuple(radius))

    def plan(self, public: Public) -> Plan:
        columns, scaled, left_out = self.columns(public.schema), self.scaled(public), self.leaves_out(public.schema)
        if left_out:
            known = ScaledWhereKnown(scaled, left_out)
            counted = public.counted_box(len(scaled.centre), -1.0, 1.0, sums=self.aggregate == "sum")
            query = Sum(known, counted, columns=columns, conditions=left_out)
        else:
            box = Box(len(scaled.centre), -1.0, 1.0, count=public.count_needed and self.aggregate == "mean")
            query = Sum(scaled, box, columns=columns)
        return Plan(public, (public.stage("statistic", query),), details=scaled)

    def run(self, ask: Ask) -> Explanation:
        scaled: Scaled = ask.plan.details
        answer, left_out = ask.total("statistic"), self.leaves_out(ask.public.schema)
        centre, radius = np.array(scaled.centre), np.array(scaled.radius)
        if self.aggregate == "mean":
            mean = answer.mean()
            standard, count, noisy = mean.values, mean.count, mean.noisy_count
            values = centre + radius * standard
        else:
            # Under add-remove ranges are symmetric around zero, and no centre is to be added.
            noisy = bool(left_out) and ask.public.rows is not None
            standard, count = answer.numbers[: len(centre)], answer.mean().count if noisy else 1.0
            values = radius * standard + centre * (count if noisy else ask.public.rows or 0)
        return Estimates(
            features=tuple(str(e) for e in scaled.formula.outputs),
            values=values,
            aggregate=self.aggregate,
            standard=standard,
            radius=radius,
            law=answer.noise,
            count=count,
            noisy_count=noisy,
            uncounted=answer.uncounted(left_out, absent_words(left_out, ask.public.schema)) if left_out else None,
        )

    def flow(self, plan: Plan | None = None) -> Flow:
        return (
            Flow("statistic")
            .input("records")
            .public("formula", "its range is certified over the schema")
            .stage("statistic", "records", "formula", needs="outputs in the certified range, beside a count under add-remove")
            .output("explanation", "formula", "statistic", needs="divide, move, scale")
        )

    def expected(self, plan: Plan) -> Expected:
        scaled: Scaled = plan.details
        divisor = plan.public.planning_rows if self.aggregate == "mean" else 1
        law = plan["statistic"].noise.times(1 / divisor)
        radius = np.array(scaled.radius)
        labels = tuple(f"{self.aggregate} of {e}" for e in scaled.formula.outputs)
        return Expected(labels, radius * law.half_width(0.95), float(radius.max()) * law.gap(0.95))

    def describe(self) -> dict[str, Any]:
        return {
            "explainer": "Statistic",
            "formula": self.formula.text,
            "exactly": self.formula.exact_text,
            "aggregate": self.aggregate,
        }

    @classmethod
    def examples(cls, model: Model, schema: Schema) -> Sequence[Explainer]:
        a, b = list(numeric_features(schema))[:2]
        return [cls(f"{a}*{b}/10"), cls(f"[{a} - {b}, sqrt(1 + {b}**2)]"), cls(f"{a} - 3*{b}", aggregate="sum")]
