"""The features that mattered most for one prediction, as a private ranking."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
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
from ...release.plan import WHOLE, Expected, Plan, Public, Stage
from ...sensitivity import Flow
from ..common.base import empty_record, example_record, keep_whole_number, once_positional, two_of
from .base import REFERENCES, AboutRecord
from .certainty import level_of_shown, picks_gap, values_gap
from .estimator import Chosen
from .queries import choosing, counted, picks, picks_rate, values_law, values_sum
from .results import ShapRankingResult, ShapValuesResult

How = Literal["picks", "values"]
WAYS: tuple[How, How] = ("picks", "values")


@dataclass(frozen=True)
class Settled:
    """What is settled about a ranking before it is asked for."""

    chosen: Chosen
    """The estimator."""
    places: int
    """To be decided: by size the features without a part in the model follow behind, signed they take part."""
    way: How
    """How the ranking will be found."""
    asked: dict[How, Stage]
    """What is asked in that way, and in the other one where the two were compared."""
    gaps: dict[How, tuple[float, float]]
    """What each way resolves; empty where nothing had to be compared."""


@once_positional("k")
@dataclass(frozen=True)
class ShapRanking(AboutRecord):
    """Which features drove the prediction for one record, compared with the people of the session: the first k, in order.

    Released: k names, by private picks on exact totals; or, where that resolves smaller gaps at this price, all noisy values,
    from which the order follows. `.gap` is the lead from which all places are right with 95 %, `.certainty(gap)` the chance for
    another lead; where the number of records is secret, picks can only say so for a public guess (`expected_rows`). `.tiers()`
    cuts the ranking where released values leave no doubt. With `public_background=` instead of a record, the session's own
    record is the secret (or the mean over its records).

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

    _: KW_ONLY
    k: int = 5
    """How many places; beyond the number of features all of them are ranked."""
    by: Literal["size", "signed"] = "size"
    """What leads: with "size" the largest |value|, with "signed" the largest value, which raised the prediction most."""
    magnitudes: bool = False
    """Whether the values of the chosen features are released too, for the part of the spend that `split` leaves over."""
    split: float = 0.5
    """The part of the spend for the ranking, where magnitudes come after it."""
    how: How | None = None
    """By private "picks", or by all noisy "values"; left out, the way that resolves more at this price. The result says which."""

    stored_as = "pellucid.explainers.shap_ranking.ShapRanking"
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

    @property
    def _picks_share(self) -> Fraction:
        return exact("split", self.split) if self.magnitudes else WHOLE

    def plan(self, public: Public) -> Plan:
        chosen = self.chosen(public.schema)
        places = min(self.k, len(chosen.features) + (0 if self._absolute else len(chosen.unused)))
        told = self._told(chosen)
        asked = {way: self._asked(way, chosen, places, public) for way in ((told,) if told else WAYS)}
        gaps = {} if told else self._gaps(asked, chosen, places, public)
        # Both numbers of a way shrink alike with records and price, so neither decides. In parts of the range, for floats.
        size = {way: np.prod(np.array(both) / self.model.range) for way, both in gaps.items()}
        way = told or ("picks" if size["picks"] <= size["values"] else "values")
        later = (Stage("magnitudes", 1 - self._picks_share),) if self.magnitudes and way == "picks" else ()
        settled = Settled(chosen, places, way, asked, gaps)
        return Plan(public, (asked[way], *later), settled, self._guessed(way, public))

    def _told(self, chosen: Chosen) -> How | None:
        """How to find the ranking, where there is nothing to compare."""
        if not self._absolute and chosen.unused:
            if self.how == "picks":
                raise PlanError(
                    f"{chosen.unused[0]!r} has no part in the model, so its value is exactly 0, and private picks cannot say "
                    "which signed values lie above 0: use how='values', by='size', or a model without such features."
                )
            return "values"
        return self.how or ("values" if len(chosen.features) == 1 else None)

    def _asked(self, way: How, chosen: Chosen, places: int, public: Public) -> Stage:
        if way == "picks":
            return public.stage("ranking", picks(chosen, public, places, self._absolute), self._picks_share)
        return public.stage("ranking", values_sum(chosen, public))

    def _gaps(self, asked: dict[How, Stage], chosen: Chosen, places: int, public: Public) -> dict[How, tuple[float, float]]:
        """For both ways: the lead from which all places are right with 95 %, and the error of a value where there is one."""
        d, idle = len(chosen.features), len(chosen.unused)
        law = values_law(asked["values"], public)
        sure = values_gap(law, d + idle, places, not self._absolute, idle=idle, counted=counted(asked["values"], chosen))
        errors = (1.0, 1.0)
        if self.magnitudes:
            # Which features will be picked is not known; the first ones stand for them.
            some = values_sum(chosen, public, range(min(self.k, d)))
            few = values_law(public.stage("magnitudes", some, 1 - self._picks_share), public)
            errors = few.half_width(0.95), law.half_width(0.95)
        lead = picks_gap(d, min(places, d), choosing(asked["picks"]).flip) / picks_rate(asked["picks"], public) if d > 1 else 0.0
        return {"picks": (lead, errors[0]), "values": (sure, errors[1])}

    @staticmethod
    def _guessed(way: How, public: Public) -> tuple[str, ...]:
        """What is said about the order rests on a guess, where the number of records is secret."""
        if way == "values" or public.rows is not None or public.expected_rows is None:
            return ()
        guess = f"there are at least {public.expected_rows:,} records"
        return (f"{guess}: how sure the ranking is said to be rests on it, its privacy does not",)

    def run(self, ask: Ask) -> Explanation:
        plan, public, settled = ask.plan, ask.public, ask.plan.details
        chosen = settled.chosen
        if settled.way == "values":
            values = self.values_of(ask.total("ranking"), chosen, public)
            scores = values.scores if self._absolute else values.values
            return self._result(plan, [values.features[i] for i in np.argsort(-scores, kind="stable")], values)
        places = ask.choose("ranking")
        # The last of all candidates is what is left: it needs no pick.
        places += [i for i in range(len(chosen.features)) if i not in places]
        places = places[: settled.places]
        picked = [chosen.features[i] for i in places] + list(chosen.unused)
        if not self.magnitudes:
            return self._result(plan, picked, None)
        answer = ask.total("magnitudes", values_sum(chosen, public, places))
        return self._result(plan, picked, self.values_of(answer, chosen, public, places, picked[: self.k]))

    def _result(self, plan: Plan, picked: list[str], values: ShapValuesResult | None) -> ShapRankingResult:
        public, settled, ranking = plan.public, plan.details, plan["ranking"]
        by_picks = settled.way == "picks"
        return ShapRankingResult(
            picked=tuple(picked[: self.k]),
            by=self.by,
            how=settled.way,
            features=settled.chosen.everybody,
            candidates=len(settled.chosen.features),
            picks=settled.places,
            # Under pure ε picks are made by permute-and-flip; so it is said beside sorted values too, which make none.
            flip=choosing(ranking).flip if by_picks else public.spend.currency == "epsilon",
            record_rate=picks_rate(ranking, public) / public.rows_or_default if by_picks else 0.0,
            records=public.expected_rows if public.rows is None else public.planning_rows,
            guessed=public.rows is None and public.expected_rows is not None,
            label=self.label,
            estimator=settled.chosen.why,
            magnitudes=values,
        )

    def flow(self, plan: Plan | None = None) -> Flow:
        other = "record" if self.record is not None else "background"
        flow = Flow("Shapley ranking").input("records").public(other, "known").public("model", "treated as public")
        needs = "the span of a score of Shapley vectors, or such a vector beside a count under add-remove"
        flow = flow.stage("ranking", "records", other, "model", needs=needs)
        # Which way is taken depends on the account: without a plan the longer one is drawn.
        if not self.magnitudes or (self.how if plan is None else plan.details.way) == "values":
            return flow.output("explanation", "ranking", needs="divide, sort")
        flow = flow.stage("magnitudes", "records", other, "model", "ranking", needs="some coordinates of a Shapley vector")
        return flow.output("explanation", "ranking", "magnitudes", needs="divide, list")

    def expected(self, plan: Plan) -> Expected:
        public, settled = plan.public, plan.details
        chosen, places, way = settled.chosen, settled.places, settled.way
        asked = {each: settled.asked.get(each) or self._asked(each, chosen, places, public) for each in WAYS}
        gaps = settled.gaps or self._gaps(asked, chosen, places, public)
        gap, error = gaps[way]
        d = len(chosen.features)
        other: How = "values" if way == "picks" else "picks"
        said = {"picks": "private picks, one after the other", "values": "all noisy values, sorted"}
        notes = [f"the ranking will be found by {said[way]}: {places} places are all right with 95 % from a lead of {gap:.3g}"]
        if d > 1 and (self._absolute or not chosen.unused):
            notes[0] += f" ({gaps[other][0]:.3g} by {said[other]})"
        instead = ""
        if way == "picks" and not self.magnitudes:
            rate, name = picks_rate(asked["picks"], public), choosing(asked["picks"]).name
            notes.append(
                f"first place is wrong with probability at most {d - 1}·exp(−{rate:.4g}·lead), by {name}; "
                "leads are in units of the output"
            )
            error = gap if d > 1 else self.model.range / rate
            instead = "an order without error bars: all places are right with 95 % from a lead of {}" if d > 1 else ""
        elif way == "values":
            error = values_law(asked["values"], public).half_width(level_of_shown(0.95, places, d))
        labels = tuple(f"place {i + 1}" for i in range(places))
        notes += self.advice(chosen, public, asked["values"])
        return Expected(labels, np.full(len(labels), error), gap, tuple(notes), instead=instead)

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
            cls(model, empty_record(model, schema), k=1, by="signed", permutations=2),
            cls(model, public_background=[own], k=2, how="picks", permutations=2),
            cls(model, public_background=[own], k=2, permutations=2, groups=two_of(own)),
        ]
