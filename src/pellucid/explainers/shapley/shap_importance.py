"""Global Shapley importance: the mean size of every feature's Shapley values over the people."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
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
from ...release.plan import WHOLE, Expected, Plan, Public, Stage
from ...release.verdict import foreseen
from ...sensitivity import Flow
from ..common.base import empty_record, example_record, two_of
from ..common.caps import Look, PrivateCap
from .base import LOOK_SHARE, REFERENCES, AboutPeople, hidden_by
from .bound import ShapleyVectors
from .estimator import Chosen
from .radii import Radii, whole_radii
from .results import ShapImportanceResult

Norm = Literal["L∞", "L1", "L2"]

USUAL_SIZE = 0.15
"""The part of the output range that mean sizes rarely exceed."""
ORDER: dict[Norm, float] = {"L∞": math.inf, "L1": 1, "L2": 2}

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
class Beyond:
    """Per record: how much of the size of any of its values a cap hides, in units of what it is looked for."""

    chosen: Chosen
    norm: Norm
    cap: float
    reach: float

    def __call__(self, rows: Rows) -> np.ndarray:
        sizes = np.abs(self.chosen(rows))
        if self.norm == "L∞":
            kept = np.minimum(sizes, self.cap)
        else:
            length = np.linalg.norm(sizes, ord=ORDER[self.norm], axis=1, keepdims=True)
            kept = sizes * np.minimum(1.0, self.cap / np.maximum(length, 1e-300))
        return np.minimum((sizes - kept).max(axis=1, keepdims=True) / self.reach, 1.0)


@dataclass(frozen=True)
class Length:
    """Per record: the length of its vector of sizes, in some norm."""

    chosen: Chosen
    norm: Norm

    def __call__(self, rows: Rows) -> np.ndarray:
        return np.linalg.norm(self.chosen(rows), ord=ORDER[self.norm], axis=1)


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
    choice: PrivateCap | None
    """How a private cap is chosen, where one is."""


@dataclass(frozen=True)
class ShapImportance(AboutPeople):
    """Which features a model's predictions about the people lean on: mean |Shapley value| against a public background.

    Released: one mean size per feature that the model uses, all by one draw of noise. Sizes are capped, because a few large ones
    decide how much noise is needed, and it is looked at privately what that hides. A cap that is chosen privately is one on the
    largest of a person's values, or on their length in L1 or L2, whichever is best for the number of features and the account
    (`.cap`, `.norm`). Models of probabilities and few records have none. `.tiers()` cuts the ranking where neither noise nor
    the cap can have swapped anything.

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
        norm, choice = self._norm(public, chosen), None
        top = self._top(chosen, norm)
        if self._private_cap:
            # Shortened vectors bias a mean by about as many caps as there are of them: no more than noise does.
            outside = _std(self._widest(public, chosen, norm, top)) / top
            choice = self.cap_choice(public, Length(chosen, norm), top, outside)
        if choice is None:
            norm, top = "L∞", float(self.cap) if isinstance(self.cap, int | float) else self.model.range
        look = self._look(norm, top) if isinstance(self.cap, int | float) else None
        rest = WHOLE - (LOOK_SHARE if look else 0) if choice is None else (WHOLE - choice.stage.share) * (1 - LOOK_SHARE)
        widest = self._widest(public, chosen, norm, top, rest)
        settled = Capped(chosen, norm, top, widest, choice)
        if choice is not None:
            left = WHOLE - choice.stage.share - rest
            return Plan(public, (choice.stage, Stage("sizes", rest), Stage("beyond", left)), details=settled)
        beyond = () if look is None else (public.stage("beyond", self._beyond(chosen, norm, top, look), LOOK_SHARE),)
        return Plan(public, (widest, *beyond), details=settled)

    def _look(self, norm: Norm, cap: float) -> Look | None:
        """Where it is looked for what a cap hides. Single sizes lie below the range; a longer vector may cut them to nothing."""
        # Of a cap that was given nobody knows what lies beyond, so it is looked as far as values go.
        return Look.beyond(cap if norm == "L∞" else 0.0, self.model.range, cap if self.cap is None else self.model.range)

    def _beyond(self, chosen: Chosen, norm: Norm, cap: float, look: Look) -> Sum:
        return Sum(Beyond(chosen, norm, cap, look.reach), Box(1, 0.0, 1.0), columns=chosen.columns)

    def _widest(self, public: Public, chosen: Chosen, norm: Norm, top: float, share: Fraction = WHOLE) -> Stage:
        return self._least_noisy(public, self._queries(public, chosen, norm, top), share)

    def noise_at(self, public: Public, settled: Capped, cap: float, share: Fraction) -> float:
        """The standard deviation of the noise of a mean size, if this cap is chosen."""
        return _std(self._widest(public, settled.chosen, settled.norm, cap, share)) / public.planning_rows

    def _norm(self, public: Public, chosen: Chosen) -> Norm:
        """Which length of a person's vector is capped: the one with the least noise at its usual size."""
        if not self._private_cap:
            return "L∞"

        def usual(norm: Norm) -> float:
            return _std(self._widest(public, chosen, norm, 0.1 * self.model.range * USUAL[norm]))

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

    def _least_noisy(self, public: Public, queries: list[Sum], share: Fraction) -> Stage:
        return min((public.stage("sizes", query, share) for query in queries), key=_std)

    def run(self, ask: Ask) -> Explanation:
        public, settled, cap = ask.public, ask.plan.details, ask.plan.details.top
        beyond, look = None, None
        if settled.choice is not None:
            cap *= settled.choice.chosen(ask.choose("cap")[0])
            query = self._least_noisy(
                public, self._queries(public, settled.chosen, settled.norm, cap), ask.plan["sizes"].share
            ).query
            assert isinstance(query, Sum)
            # A cap that is the range hides nothing; the look was paid for and is taken all the same.
            answer, look = ask.total("sizes", query), self._look(settled.norm, cap) or Look(self.model.range, 0.0)
            beyond = ask.total("beyond", self._beyond(settled.chosen, settled.norm, cap, look))
        else:
            answer = ask.total("sizes")
            if "beyond" in ask.plan.shares:
                look, beyond = self._look(settled.norm, cap), ask.total("beyond")
        bound, d = answer.bound, len(settled.chosen.features)
        assert isinstance(bound, Box | ShapleyVectors)
        radius, offset = _radius(bound), bound.centre if isinstance(bound, Box) else 0.0
        count = float(answer.numbers[-1]) if bound.count else float(public.planning_rows)
        # A count at or below the noise says nothing about a mean; the middle of the set does not pretend to.
        means = offset + (radius * answer.numbers[:d] / count if count >= 1 else np.zeros(d))
        features = settled.chosen.everybody
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
            **hidden_by(beyond, look, count),
        )

    def flow(self, plan: Plan | None = None) -> Flow:
        flow = (
            Flow("Shapley importance")
            .input("records")
            .public("background", "public records")
            .public("model", "treated as public")
        )
        asked = {"sizes", *(("cap", "beyond") if self._private_cap else ())} if plan is None else set(plan.shares)
        caps = tuple(name for name in ("cap",) if name in asked)
        if caps:
            flow = flow.stage("cap", "records", "background", "model", needs="ranks of lengths among public candidates")
        read = ("records", "background", "model", *caps)
        flow = flow.stage("sizes", *read, needs="sizes up to the cap, beside a count under add-remove")
        if "beyond" in asked:
            flow = flow.stage("beyond", *read, needs="how much the cap hides, up to a public limit")
        stages = tuple(name for name in ("cap", "sizes", "beyond") if name in asked)
        return flow.output("explanation", *stages, needs="divide")

    def expected(self, plan: Plan) -> Expected:
        public, settled = plan.public, plan.details
        chosen, norm, cap = settled.chosen, settled.norm, settled.top
        law = settled.widest.noise.times(_radius(settled.widest.query.bound) / public.planning_rows)
        notes = [chosen.why]
        if settled.choice is not None:
            notes.append(
                f"the {norm} length of a person's values will be capped at a privately chosen number, which makes the errors as "
                f"much smaller as it lies below {cap:.3g}"
            )
        if public.count_needed:
            notes.append("the count of records is noisy too: errors grow a little with the size of an importance")
        if settled.choice is None:
            usual = USUAL_SIZE * self.model.range
            notes.append(foreseen(public, law.half_width(0.95), usual, "mean sizes of Shapley values"))
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
            cls(model, public_background=[own], permutations=2, groups=two_of(own)),
        ]


def _radius(bound: Any) -> float:
    """What one in `Answer.numbers` is worth, in the user's units."""
    assert isinstance(bound, Box | ShapleyVectors)
    return bound.unit * bound.one


def _std(sizes: Stage) -> float:
    """The noise of a sum of sizes, in the user's units."""
    assert isinstance(sizes.query, Sum)
    return sizes.noise.std * _radius(sizes.query.bound)
