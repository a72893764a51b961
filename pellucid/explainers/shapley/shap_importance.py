"""Global Shapley importance: the mean size of every feature's Shapley values over the people."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ...public.model import Model
from ...public.rows import Rows
from ...public.schema import Schema
from ...query import Sum
from ...query.bounds import Box
from ...release.door import Ask
from ...release.explainer import Explainer
from ...release.explanation import Explanation
from ...release.plan import Expected, Plan, Public, Stage
from ...sensitivity import Flow
from ..common.base import empty_record, example_record
from .base import CAPS, REFERENCES, AboutPeople
from .bound import ShapleyVectors
from .estimator import Chosen
from .radii import Radii, whole_radii
from .results import ShapImportanceResult

Norm = Literal["L∞", "L1", "L2"]

USUAL: dict[Norm, float] = {"L∞": 1.0, "L1": 2.5, "L2": 1.5}
"""The length of a person's vector of sizes in units of its largest entry, as a few features usually lead: decides which length
is capped, never how much noise is needed for it."""


@dataclass(frozen=True)
class Sizes:
    """Per record: the sizes of its Shapley values."""

    chosen: Chosen

    def __call__(self, rows: Rows) -> np.ndarray:
        return np.abs(self.chosen(rows))


@dataclass(frozen=True)
class Length:
    """Per record: the length of its vector of sizes, in some norm."""

    chosen: Chosen
    norm: Norm

    def __call__(self, rows: Rows) -> np.ndarray:
        order = {"L∞": np.inf, "L1": 1, "L2": 2}[self.norm]
        return np.linalg.norm(self.chosen(rows), ord=order, axis=1)


@dataclass(frozen=True)
class Capped:
    """What is settled about sizes with a capped length."""

    chosen: Chosen
    """The estimator."""
    norm: Norm
    """Which length of a person's vector is capped."""
    top: float
    """The cap that was given, or the largest possible length, of which a private cap is a part."""
    widest: Stage
    """The question about sizes with that cap: the one that is asked, where no other is chosen."""


@dataclass(frozen=True)
class ShapImportance(AboutPeople):
    """Which features a model's predictions about the people lean on: mean |Shapley value| against a public background.

    Released: one mean size per feature that the model uses, all by one draw of noise. Sizes are capped, because a few large ones
    decide how much noise is needed. A cap that is chosen privately is one on the largest of a person's values, or on their
    length in L1 or L2, whichever is best for the number of features and the account (`.cap`, `.norm`). `.tiers()` cuts the
    ranking where noise cannot have swapped anything.

    Claim: shapley-set, on shapley-radii, box-sum and quantile-span. Assumes that the model is a function of one row.
    Paper: after Lundberg and Lee's global importance; a person's sizes lie between 0 and the output range.

    >>> import pellucid as pel
    >>> schema = pel.Schema({"dose": pel.Number(0, 1), "age": pel.Number(0, 1)})
    >>> model = pel.Model(lambda d: 0.8 * d["dose"] + 0.2 * d["age"], output=(0, 1), trained_on="other data")
    >>> session = pel.Session({"dose": [0.0, 1.0] * 2000, "age": [0.5, 0.2] * 2000}, schema, budget=pel.Budget(epsilon=2.0))
    >>> public = [{"dose": 0.5, "age": 0.5}]
    >>> session.release(ShapImportance(model, public_background=public), epsilon=2.0).ranking
    ('dose', 'age')
    """

    stored_as = "pellucid.explainers.shap_importance.ShapImportance"
    references = (*REFERENCES, "M. Hardt, K. Talwar, On the geometry of differential privacy, STOC 2010 (K-norm mechanism).")

    def plan(self, public: Public) -> Plan:
        chosen = self.chosen(public.schema)
        norm = self._norm(public, chosen)
        top = float(self.cap) if isinstance(self.cap, int | float) else self._top(chosen, norm)
        widest = self._least_noisy(public, self._queries(public, chosen, norm, top))
        settled = Capped(chosen, norm, top, widest)
        if self.cap is not None:
            return Plan(public, (widest,), details=settled)
        # Shortened vectors bias a mean by about as many caps as there are of them: no more than noise does.
        cap = self.cap_stage(public, Length(chosen, norm), top, _std(widest) / top)
        return Plan(public, (cap, Stage("sizes", self._rest)), details=settled)

    def _norm(self, public: Public, chosen: Chosen) -> Norm:
        """Which length of a person's vector is capped: the one with the least noise at its usual size."""
        if self.cap is not None:
            return "L∞"

        def usual(norm: Norm) -> float:
            queries = self._queries(public, chosen, norm, 0.1 * self.model.range * USUAL[norm])
            return _std(self._least_noisy(public, queries))

        norms: list[Norm] = ["L∞", "L1", "L2"]
        return min(norms, key=usual)

    def _top(self, chosen: Chosen, norm: Norm) -> float:
        """The largest possible length."""
        sizes = whole_radii(len(chosen.features))
        return self.model.range * {"L∞": 1.0, "L1": sizes.l1, "L2": sizes.l2}[norm]

    def _queries(self, public: Public, chosen: Chosen, norm: Norm, cap: float) -> list[Sum]:
        """Sums of sizes with a capped length, over the sets that hold them."""
        d, width = len(chosen.features), self.model.range
        whole, part = whole_radii(d), cap / width
        if norm == "L1":
            sizes = Radii(min(part, 1.0), part, part, part, part)
        elif norm == "L2":
            sizes = Radii(min(part, 1.0), min(math.sqrt(d) * part, whole.l1), part, part, 2 * part)
        else:
            sizes = Radii(part, min(d * part, whole.l1), min(math.sqrt(d) * part, whole.l2), part, 2 * part)
        made = ShapleyVectors(d, *self.model.output, self.model.output[0], public.count_needed, radii=sizes, positive=True)
        bounds = [made] if norm != "L∞" else [made, Box(d, 0.0, cap, public.count_needed)]
        return [Sum(Sizes(chosen), bound, columns=chosen.columns) for bound in bounds]

    def _least_noisy(self, public: Public, queries: list[Sum]) -> Stage:
        return min((public.stage("sizes", query, self._rest) for query in queries), key=_std)

    def run(self, ask: Ask) -> Explanation:
        public, settled, cap = ask.public, ask.plan.details, ask.plan.details.top
        if self.cap is None:
            cap *= float(CAPS[ask.choose("cap")[0]])
            queries = self._queries(public, settled.chosen, settled.norm, cap)
            query = queries[0] if len(queries) == 1 else self._least_noisy(public, queries).query
            assert isinstance(query, Sum)
            answer = ask.total("sizes", query)
        else:
            answer = ask.total("sizes")
        bound, d = answer.bound, len(settled.chosen.features)
        assert isinstance(bound, Box | ShapleyVectors)
        radius, offset = _radius(bound), bound.centre if isinstance(bound, Box) else 0.0
        count = float(answer.numbers[-1]) if bound.count else float(public.planning_rows)
        # A count at or below the noise says nothing about a mean; the middle of the set does not pretend to.
        means = offset + (radius * answer.numbers[:d] / count if count >= 1 else np.zeros(d))
        features = self.model.ready(public.schema).features
        values = dict(zip(settled.chosen.features, means))
        return ShapImportanceResult(
            features=features,
            values=np.array([float(values.get(name, 0.0)) for name in features]),
            used=tuple(name in values for name in features),
            law=answer.noise.times(radius / max(count, 1.0)),
            cap=cap,
            norm=settled.norm,
            radius=radius,
            offset=offset,
            count=count,
            noisy_count=bound.count,
            estimator=settled.chosen.why,
        )

    def flow(self, plan: Plan | None = None) -> Flow:
        flow = (
            Flow("Shapley importance")
            .input("records")
            .public("background", "public records")
            .public("model", "treated as public")
        )
        caps: tuple[str, ...] = ()
        if self.cap is None:
            flow = flow.stage("cap", "records", "background", "model", needs="ranks of lengths among public candidates")
            caps = ("cap",)
        flow = flow.stage(
            "sizes", "records", "background", "model", *caps, needs="sizes up to the cap, beside a count under add-remove"
        )
        return flow.output("explanation", *caps, "sizes", needs="divide")

    def expected(self, plan: Plan) -> Expected:
        public, settled = plan.public, plan.details
        chosen, norm, cap = settled.chosen, settled.norm, settled.top
        law = settled.widest.noise.times(_radius(settled.widest.query.bound) / public.planning_rows)
        notes = [chosen.why]
        if self.cap is None:
            notes.append(
                f"the {norm} length of a person's values will be capped at a privately chosen number, which makes the errors as "
                f"much smaller as it lies below {cap:.3g}"
            )
        if public.count_needed:
            notes.append("the count of records is noisy too: errors grow a little with the size of an importance")
        return Expected(chosen.features, np.full(len(chosen.features), law.half_width(0.95)), law.gap(0.95), tuple(notes))

    def describe(self) -> dict[str, Any]:
        return self._described()

    @classmethod
    def examples(cls, model: Model, schema: Schema) -> Sequence[Explainer]:
        own = example_record(model, schema)
        public = [own, empty_record(model, schema)]
        return [
            cls(model, public_background=public, permutations=2),
            cls(model, public_background=public, permutations=2, cap="range"),
            cls(model, public_background=[own], permutations=2, cap=0.3 * model.range),
        ]


def _radius(bound: Any) -> float:
    """What one in `Answer.numbers` is worth, in the user's units."""
    assert isinstance(bound, Box | ShapleyVectors)
    return bound.unit * bound.one


def _std(sizes: Stage) -> float:
    """The noise of a sum of sizes, in the user's units."""
    assert isinstance(sizes.query, Sum)
    return sizes.noise.std * _radius(sizes.query.bound)
