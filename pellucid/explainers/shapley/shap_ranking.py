"""The features that mattered most for one prediction, as a private ranking."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from ...errors import PlanError
from ...mechanisms import exact
from ...public.model import Model
from ...public.schema import Schema
from ...release.door import Ask
from ...release.explainer import Explainer
from ...release.explanation import Explanation
from ...release.plan import Expected, Plan, Public
from ...sensitivity import Flow
from ..common.base import example_record, keep_whole_number
from .base import REFERENCES, AboutRecord
from .certainty import picks_gap, values_gap
from .results import ShapleyRanking, ShapleyValues

How = Literal["picks", "values"]


@dataclass(frozen=True)
class ShapRanking(AboutRecord):
    """Which features drove the prediction for one record, compared with the people of the session: the first k, in order.

    Released: k names, by private picks on exact totals; or, where that resolves smaller gaps at this price, all noisy values,
    from which the order follows (`how` decides otherwise, and the result says which). `by="size"` ranks by |value|, "signed"
    by value: what raised the prediction most. `magnitudes=True` releases the values of the chosen features too, for the part
    of the spend that `split` leaves over. A `k` beyond the number of features ranks all of them. `.gap` is the lead from which
    all places are right with 95 %, `.certainty(gap)` the chance for another lead; where the number of records is secret, picks
    can only say so for a public guess (`expected_rows`). `.tiers()` cuts the ranking where released values leave no doubt. The
    record is public to whoever asks, and stored nowhere; `label` is a name for it.

    With `public_background=` instead of a record, the session's own record is the secret (or the mean over its records).

    Claim: shapley-span, on shapley-set and shapley-radii. Assumes that the model is a function of one row.
    Paper: "Differentially private ranking release for Kernel SHAP"; here with interventional averages, whose
    score range is certified for every bounded model.

    >>> import pellucid as pel
    >>> schema = pel.Schema({"dose": pel.Number(0, 1), "age": pel.Number(0, 1)})
    >>> model = pel.Model(lambda d: 0.9 * d["dose"] + 0.1 * d["age"], output=(0, 1), trained_on="other data")
    >>> session = pel.Session({"dose": [0.0, 0.2] * 500, "age": [0.5] * 1000}, schema, budget=pel.Budget(epsilon=1.0))
    >>> session.release(ShapRanking(model, {"dose": 1.0, "age": 0.5}, k=1), epsilon=0.5).ranking
    ('dose',)
    """

    k: int = 5
    by: Literal["size", "signed"] = field(default="size", kw_only=True)
    magnitudes: bool = field(default=False, kw_only=True)
    split: float = field(default=0.5, kw_only=True)
    how: How | None = field(default=None, kw_only=True)

    references = (
        *REFERENCES,
        "R. McKenna, D. Sheldon, Permute-and-flip: a new mechanism for differentially private selection, NeurIPS 2020.",
        "D. Durfee, R. Rogers, Practical differentially private top-k selection with pay-what-you-get composition, NeurIPS 2019.",
        "M. Hardt, K. Talwar, On the geometry of differential privacy, STOC 2010 (K-norm mechanism).",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.k is None:
            raise PlanError("k=None: give a whole number from 1 on; where the model has fewer features all of them are ranked.")
        keep_whole_number(self, "k", 1, 1000)
        if not isinstance(self.magnitudes, bool):
            raise PlanError(f"magnitudes={self.magnitudes!r}: use True or False.")
        if self.by not in ("size", "signed"):
            raise PlanError(f"by={self.by!r}: use 'size' or 'signed'.")
        if self.how not in (None, "picks", "values"):
            raise PlanError(f"how={self.how!r}: use 'picks' or 'values', or leave it out.")
        if not (isinstance(self.split, int | float) and 0 < self.split < 1):
            raise PlanError(f"split={self.split!r}: the part of the spend for the ranking, between 0 and 1.")

    @property
    def _absolute(self) -> bool:
        return self.by == "size"

    def _picks_share(self) -> Fraction:
        return exact("split", self.split) if self.magnitudes else Fraction(1)

    def _count(self, public: Public) -> int:
        """Places to be decided: by size the features without a part in the model follow behind, signed they take part."""
        chosen = self.chosen(public.schema)
        return min(self.k, len(chosen.features) + (0 if self._absolute else len(chosen.unused)))

    def _few(self, public: Public) -> tuple[int, ...]:
        return tuple(range(min(self.k, len(self.chosen(public.schema).features))))

    def gaps(self, public: Public) -> dict[str, tuple[float, float]]:
        """For both ways: the lead from which all places are right with 95 %, and the error of a value where there is one."""
        chosen, k = self.chosen(public.schema), self._count(public)
        d, idle = len(chosen.features), len(chosen.unused)
        share = self._picks_share()
        choosing, rate = self.picking(public, k, self._absolute, share)
        law = self.values_law(public)
        few = self.values_law(public, 1 - share, self._few(public)).half_width(0.95) if self.magnitudes else 1.0
        sure = values_gap(law, d + idle, k, not self._absolute, idle=idle, counted=self.counted(public))
        return {
            "picks": (picks_gap(d, min(k, d), choosing.flip) / rate if d > 1 else 0.0, few),
            "values": (sure, law.half_width(0.95) if self.magnitudes else 1.0),
        }

    def way(self, public: Public) -> How:
        """How to find the ranking: as told, or by which way resolves more, from public numbers alone."""
        chosen = self.chosen(public.schema)
        if not self._absolute and chosen.unused:
            if self.how == "picks":
                raise PlanError(
                    f"{chosen.unused[0]!r} has no part in the model, so its value is exactly 0, and private picks cannot say "
                    "which signed values lie above 0: use how='values', by='size', or a model without such features."
                )
            return "values"
        if self.how is not None:
            return self.how
        if len(chosen.features) == 1:
            return "values"
        both = self.gaps(public)
        # Both numbers shrink alike with records and price, so neither decides.
        return "picks" if np.prod(both["picks"]) <= np.prod(both["values"]) else "values"

    def plan(self, public: Public) -> Plan:
        self.choice(public, self._count(public), self._absolute)
        way = self.__dict__["_planned"] = self.way(public)
        self.__dict__["_guess"] = public.expected_rows if public.rows is None and way == "picks" else None
        if way == "values":
            return {"ranking": Fraction(1)}
        share = self._picks_share()
        return {"ranking": share, "magnitudes": 1 - share} if self.magnitudes else {"ranking": Fraction(1)}

    def run(self, ask: Ask) -> Explanation:
        public = ask.public
        chosen, count = self.chosen(public.schema), self._count(public)
        if self.way(public) == "values":
            values = self.values_of(ask.total("ranking", self.values_query(public)), public)
            scores = values.scores if self._absolute else values.values
            picked = [values.features[i] for i in np.argsort(-scores, kind="stable")]
            return self._result(public, picked, values)
        places = ask.choose("ranking", self.choice(public, count, self._absolute))
        # The last of all candidates is what is left: it needs no pick.
        places += [i for i in range(len(chosen.features)) if i not in places]
        places = places[:count]
        picked = self._with_unused([chosen.features[i] for i in places], public)
        if not self.magnitudes:
            return self._result(public, picked, None)
        answer = ask.total("magnitudes", self.values_query(public, places))
        return self._result(public, picked, self.values_of(answer, public, places, picked[: self.k]))

    def _with_unused(self, picked: list[str], public: Public) -> list[str]:
        return picked + list(self.chosen(public.schema).unused)

    def _result(self, public: Public, picked: list[str], values: ShapleyValues | None) -> ShapleyRanking:
        chosen, count, way = self.chosen(public.schema), self._count(public), self.way(public)
        choosing, rate = self.picking(public, count, self._absolute, self._picks_share())
        return ShapleyRanking(
            picked=tuple(picked[: self.k]),
            by=self.by,
            how=way,
            features=self.model.ready(public.schema).features,
            candidates=len(chosen.features),
            picks=count,
            flip=choosing.flip,
            record_rate=rate / public.rows_or_default if way == "picks" else 0.0,
            records=public.expected_rows if public.rows is None else public.planning_rows,
            guessed=public.rows is None and public.expected_rows is not None,
            label=self.label,
            estimator=chosen.why,
            magnitudes=values,
        )

    def assumptions(self) -> tuple[str, ...]:
        # As in the drawing: whether a guess is needed is known since the last plan.
        guess = self.__dict__.get("_guess")
        if guess is None:
            return super().assumptions()
        said = f"there are at least {guess:,} records: how sure the ranking is said to be rests on it, its privacy does not"
        return (*super().assumptions(), said)

    def flow(self) -> Flow:
        other = "record" if self.record is not None else "background"
        flow = Flow("Shapley ranking").input("records").public(other, "known").public("model", "treated as public")
        needs = "the span of a score of Shapley vectors, or such a vector beside a count under add-remove"
        flow = flow.stage("ranking", "records", other, "model", needs=needs)
        # Which way is taken depends on the account; the drawing is that of the last plan.
        if not self.magnitudes or (self.how or self.__dict__.get("_planned")) == "values":
            return flow.output("explanation", "ranking", needs="divide, sort")
        flow = flow.stage("magnitudes", "records", other, "model", "ranking", needs="some coordinates of a Shapley vector")
        return flow.output("explanation", "ranking", "magnitudes", needs="divide, list")

    def expected(self, public: Public) -> Expected:
        way = self.way(public)
        gap, error = self.gaps(public)[way]
        d = len(self.chosen(public.schema).features)
        other = "values" if way == "picks" else "picks"
        said = {"picks": "private picks, one after the other", "values": "all noisy values, sorted"}
        places = self._count(public)
        notes = [f"the ranking will be found by {said[way]}: {places} places are all right with 95 % from a lead of {gap:.3g}"]
        if d > 1 and (self._absolute or not self.chosen(public.schema).unused):
            notes[0] += f" ({self.gaps(public)[other][0]:.3g} by {said[other]})"
        if way == "picks" and not self.magnitudes:
            choosing, rate = self.picking(public, self._count(public), self._absolute)
            notes.append(
                f"first place is wrong with probability at most {d - 1}·exp(−{rate:.4g}·lead), by {choosing.name}; "
                "errors are leads, in units of the output"
            )
            error = picks_gap(d, self._count(public), choosing.flip) / rate if d > 1 else self.model.range / rate
        elif not self.magnitudes:
            error = self.values_law(public).half_width(0.95)
        labels = tuple(f"place {i + 1}" for i in range(self._count(public)))
        return Expected(labels, np.full(len(labels), error), gap, (*notes, *self.advice(public)))

    def describe(self) -> dict[str, Any]:
        return {
            **self._described(),
            "k": self.k,
            "by": self.by,
            "magnitudes": self.magnitudes,
            "split": float(self.split),
            "how": self.how,
        }

    @classmethod
    def examples(cls, model: Model, schema: Schema) -> Sequence[Explainer]:
        own = example_record(model, schema)
        return [
            cls(model, own, k=2, how="values", permutations=2),
            cls(model, own, k=2, how="picks", magnitudes=True, permutations=2),
            cls(model, {}, k=1, by="signed", permutations=2),
            cls(model, public_background=[own], k=2, how="picks", permutations=2),
        ]
