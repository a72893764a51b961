"""Shapley values of one record: what each feature added to its prediction, compared with a private population."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from ...errors import PlanError
from ...public.black_box import BlackBox
from ...public.model import Model
from ...public.rows import Rows
from ...public.schema import Schema
from ...query import Sum
from ...query.bounds import Box
from ...release.answer import Answer
from ...release.door import Ask
from ...release.explainer import Explainer
from ...release.explanation import Explanation
from ...release.plan import WHOLE, Expected, Plan, Public
from ...sensitivity import Flow
from ..common.base import empty_record, example_record, two_of
from .base import REFERENCES, AboutRecord
from .estimator import Chosen
from .queries import values_law, values_sum
from .results import ShapValuesResult

BASE_SHARE = Fraction(1, 10)
"""A single mean needs little: at a tenth of the spend its noise is far below that of the sum of all values."""


@dataclass(frozen=True)
class Prediction:
    """Per record: the model's answer."""

    model: Model

    def __call__(self, rows: Rows) -> np.ndarray:
        return rows.predict(self.model)[:, None]


@dataclass(frozen=True)
class ShapValues(AboutRecord):
    """What each feature added to the prediction for one record, compared with the people of the session.

    Released: one mean Shapley value per feature that the model uses, all by one draw of noise; features without a part in the
    model are exactly 0 and cost nothing. `.thresholded()` keeps values that stand out of their own noise, `.tiers()` says how
    sure the order by size is. With `public_background=` instead of a record, the session's own record is the secret (or the mean
    over its records).

    Claim: shapley-set, on shapley-radii. Assumes that the model is a function of one row.
    Paper: "Differentially private ranking release for Kernel SHAP"; here with interventional averages, whose
    sensitivity is certified for every bounded model.

    >>> import pellucid as pel
    >>> schema = pel.Schema({"dose": pel.Number(0, 1), "age": pel.Number(0, 1)})
    >>> model = pel.Model(lambda d: 0.9 * d["dose"] + 0.1 * d["age"], output=(0, 1), trained_on="other data")
    >>> session = pel.Session({"dose": [0.0, 0.2] * 2000, "age": [0.5] * 4000}, schema, budget=pel.Budget(epsilon=2.0))
    >>> found = session.release(ShapValues(model, {"dose": 1.0, "age": 0.5}), epsilon=2.0)
    >>> found.ranking[0], bool(abs(found.values[0] - 0.81) < 0.05)
    ('dose', True)
    """

    _: KW_ONLY
    efficient: bool = False
    """Whether the values are moved so that they add up exactly from the noisy mean prediction to the prediction (`.base`,
    `.prediction`, `.waterfall()`); a tenth of the spend buys the mean prediction."""

    stored_as = "pellucid.explainers.shap_values.ShapValues"
    references = (*REFERENCES, "M. Hardt, K. Talwar, On the geometry of differential privacy, STOC 2010 (K-norm mechanism).")

    def __post_init__(self) -> None:
        super().__post_init__()
        # Shares of the noise are by squares.
        if self.efficient and not 1e-100 < self.model.range < 1e100:
            raise PlanError(f"efficient=True: the output range {self.model.output} is too wide or too narrow; change its unit.")
        if self.efficient and self.record is None:
            raise PlanError("efficient=True needs a public record=: the prediction for a secret one is a secret too.")

    def about_record(self) -> str:
        return super().about_record() + (" and holds the model's answer for it" if self.efficient else "")

    def only_asked(self, plan: Plan) -> tuple[BlackBox, ...]:
        # The mean prediction is made of the model's answers, however the values are computed.
        return super().only_asked(plan) or (Explainer.only_asked(self, plan) if self.efficient else ())

    def plan(self, public: Public) -> Plan:
        chosen = self.chosen(public.schema)
        values = public.stage("values", values_sum(chosen, public), 1 - BASE_SHARE if self.efficient else WHOLE)
        if not self.efficient:
            return Plan(public, (values,), details=chosen)
        base = Sum(Prediction(self.model), Box(1, *self.model.output), columns=self.columns(public.schema))
        return Plan(public, (values, public.stage("base", base, BASE_SHARE)), details=chosen)

    def run(self, ask: Ask) -> Explanation:
        chosen = ask.plan.details
        found = self.values_of(ask.total("values"), chosen, ask.public)
        return self._projected(found, chosen, ask.total("base")) if self.efficient else found

    def _projected(self, found: ShapValuesResult, chosen: Chosen, answer: Answer) -> ShapValuesResult:
        """Values and base moved, each by its share of the noise, until they add up to the prediction."""
        (lo, hi), count = self.model.output, max(found.count, 1.0)
        base = (lo + hi) / 2 + (hi - lo) / 2 * float(answer.numbers[0]) / count
        law = answer.noise.times((hi - lo) / 2 / count)
        prediction = chosen.prediction
        used = np.array(found.used)
        values, own = found.law.std**2, law.std**2
        whole = used.sum() * values + own
        excess = float(found.values.sum() + base - prediction)
        # Without noise (own = values = 0) nothing is left to share; the base takes it.
        share, rest = (values / whole, own / whole) if whole > 0 else (0.0, 1.0)
        return replace(
            found,
            values=found.values - np.where(used, share * excess, 0.0),
            base=base - rest * excess,
            prediction=prediction,
            base_law=law,
        )

    def flow(self, plan: Plan | None = None) -> Flow:
        flow = Flow("Shapley values").input("records").public("record" if self.record is not None else "background", "known")
        other = "record" if self.record is not None else "background"
        flow = flow.public("model", "treated as public")
        flow = flow.stage(
            "values", "records", other, "model", needs="a Shapley vector in its set, beside a count under add-remove"
        )
        if self.efficient:
            flow = flow.stage("base", "records", "model", needs="answers in the declared range")
        stages = ("values", "base") if self.efficient else ("values",)
        return flow.output("explanation", *stages, needs="divide, project")

    def expected(self, plan: Plan) -> Expected:
        chosen, public = plan.details, plan.public
        law = values_law(plan["values"], public)
        whole = public.stage("values", values_sum(chosen, public)) if self.efficient else plan["values"]
        errors = np.full(len(chosen.features), law.half_width(0.95))
        return Expected(chosen.features, errors, law.gap(0.95), (*self.advice(chosen, public, whole), chosen.why))

    def describe(self) -> dict[str, Any]:
        return {**self._described(), "efficient": self.efficient}

    @classmethod
    def examples(cls, model: Model, schema: Schema) -> Sequence[Explainer]:
        own, empty = example_record(model, schema), empty_record(model, schema)
        return [
            cls(model, own, permutations=2),
            cls(model, empty, permutations=2, efficient=True, label="somebody"),
            cls(model, public_background=[own, empty], permutations=2, groups=two_of(own)),
        ]
