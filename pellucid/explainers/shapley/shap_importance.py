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
from ...query import Choice, Sum
from ...query.bound import UNITS
from ...query.bounds import Box
from ...release.door import Ask
from ...release.explainer import Explainer
from ...release.explanation import Explanation
from ...release.plan import Expected, Plan, Public
from ...sensitivity import Flow
from ..common.base import example_record
from .base import CAPS, REFERENCES, AboutPeople
from .bound import ShapleyVectors
from .estimator import Chosen
from .radii import Radii, whole_radii
from .results import ShapleyImportance

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
class ShapImportance(AboutPeople):
    """Which features a model's predictions about the people lean on: mean |Shapley value| against a public background.

    Released: one mean size per feature that the model uses, all by one draw of noise. `public_background` are a few public
    records: a DataFrame, a dict of columns, or a list of records. Sizes are capped, because a few large ones decide how much
    noise is needed: by default at a cap chosen privately for a tenth of the spend. `.cap` then is one on the largest of a
    person's values, or on their length in L1 or L2, whichever is best for the number of features and the account (`.norm`).
    `cap` sets one for single values, and `cap="range"` leaves them at their largest possible size. `.tiers()` cuts the
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

    references = (*REFERENCES, "M. Hardt, K. Talwar, On the geometry of differential privacy, STOC 2010 (K-norm mechanism).")

    def _bounds(self, public: Public, norm: Norm, cap: float) -> list[Box | ShapleyVectors]:
        """Sets for sizes with a capped norm."""
        d, width = len(self.chosen(public.schema).features), self.model.range
        whole, part = whole_radii(d), cap / width
        if norm == "L1":
            sizes = Radii(min(part, 1.0), part, part, part, part)
        elif norm == "L2":
            sizes = Radii(min(part, 1.0), min(math.sqrt(d) * part, whole.l1), part, part, 2 * part)
        else:
            sizes = Radii(part, min(d * part, whole.l1), min(math.sqrt(d) * part, whole.l2), part, 2 * part)
        made = ShapleyVectors(d, *self.model.output, self.model.output[0], public.count_needed, radii=sizes, positive=True)
        return [made] if norm != "L∞" else [made, Box(d, 0.0, cap, public.count_needed)]

    def query(self, public: Public, norm: Norm, cap: float) -> Sum:
        """The sum with the least noise for a capped norm."""
        chosen = self.chosen(public.schema)
        made = [Sum(Sizes(chosen), bound, columns=chosen.columns) for bound in self._bounds(public, norm, cap)]
        return min(made, key=lambda query: self._std(public, query))

    def _std(self, public: Public, query: Sum) -> float:
        return public.mechanism(query, self._shares["rest"]).law.std * query.bound.unit  # type: ignore[attr-defined]

    def norm(self, public: Public) -> Norm:
        """Which length of a person's vector is capped: the one with the least noise at its usual size."""
        if self.cap is not None:
            return "L∞"
        norms: list[Norm] = ["L∞", "L1", "L2"]
        return min(norms, key=lambda n: self._std(public, self.query(public, n, 0.1 * self.model.range * USUAL[n])))

    def _top(self, public: Public, norm: Norm) -> float:
        """The largest possible length."""
        sizes = whole_radii(len(self.chosen(public.schema).features))
        return self.model.range * {"L∞": 1.0, "L1": sizes.l1, "L2": sizes.l2}[norm]

    def cap_query(self, public: Public) -> Choice:
        norm = self.norm(public)
        top = self._top(public, norm)
        # Shortened vectors bias a mean by about as many caps as there are of them: no more than noise does.
        noise = self._std(public, self.query(public, norm, top)) / top
        return self.cap_choice(public, Length(self.chosen(public.schema), norm), top, noise)

    def plan(self, public: Public) -> Plan:
        self.query(public, "L∞", self.model.range)
        shares = self._shares
        return {"cap": shares["cap"], "sizes": shares["rest"]} if self.cap is None else {"sizes": Fraction(1)}

    def run(self, ask: Ask) -> Explanation:
        public = ask.public
        chosen, norm = self.chosen(public.schema), self.norm(public)
        cap = float(self.cap) if isinstance(self.cap, int | float) else self._top(public, norm)
        if self.cap is None:
            cap *= float(CAPS[ask.choose("cap", self.cap_query(public))[0]])
        query = self.query(public, norm, cap)
        answer = ask.total("sizes", query)
        bound, d = query.bound, len(chosen.features)
        assert isinstance(bound, Box | ShapleyVectors)
        full, offset = (UNITS, bound.centre) if isinstance(bound, Box) else (bound.LIMIT, 0.0)
        count = answer.integers[-1] / full if bound.count else float(public.planning_rows)
        numbers = np.array(answer.integers[:d], dtype=float)
        # A count at or below the noise says nothing about a mean; the middle of the set does not pretend to.
        means = offset + (bound.unit * numbers / count if count >= 1 else np.zeros(d))
        features = self.model.ready(public.schema).features
        values = dict(zip(chosen.features, means))
        return ShapleyImportance(
            features=features,
            values=np.array([float(values.get(name, 0.0)) for name in features]),
            used=tuple(name in values for name in features),
            law=answer.law.times(bound.unit / max(count, 1.0)),
            cap=cap,
            norm=norm,
            radius=bound.unit * full,
            offset=offset,
            count=count,
            noisy_count=bound.count,
            estimator=chosen.why,
        )

    def flow(self) -> Flow:
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

    def expected(self, public: Public) -> Expected:
        chosen, norm = self.chosen(public.schema), self.norm(public)
        cap = float(self.cap) if isinstance(self.cap, int | float) else self._top(public, norm)
        query = self.query(public, norm, cap)
        law = public.mechanism(query, self._shares["rest"]).law.times(query.bound.unit / public.planning_rows)  # type: ignore[attr-defined]
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
        public = [own, dict.fromkeys(own)]
        return [
            cls(model, public_background=public, permutations=2),
            cls(model, public_background=public, permutations=2, cap="range"),
            cls(model, public_background=[own], permutations=2, cap=0.3 * model.range),
        ]
