"""Feature interaction: Friedman's H-statistic, how much of an effect cannot be written as a sum of one effect each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any

import numpy as np

from ...errors import PlanError
from ...public.black_box import BlackBox
from ...public.frozen import settle
from ...public.groups import Groups
from ...public.model import Model
from ...public.schema import Schema
from ...release.door import Ask
from ...release.explainer import Explainer
from ...release.explanation import Explanation
from ...release.plan import Expected, Plan, Public
from ...release.verdict import enough
from ...sensitivity import Flow
from ..common.base import OfGroups, keep_whole_number, once_positional, two_of
from .overall import OverallH
from .pairwise import PairwiseH
from .ranked import RankedH
from .rounding import FINE
from .statistic import HStatistic


@once_positional("points")
@dataclass(frozen=True)
class FeatureInteraction(OfGroups):
    """How strongly features interact in a model: Friedman's H-statistic, from 0 (effects add up) to 1 (nothing but interaction).

    `FeatureInteraction(model, "age")` is about pairs: H of age with every other feature k, the part of their joint partial
    dependence that no sum of an effect of age and an effect of k explains. `FeatureInteraction(model)` is about each feature with
    all others together: the part of the predictions' variance that is neither an effect of the feature nor one of the others.

    Released: first, noisy counts of every feature, from which features are rounded to a few values each (numbers to medians of
    ranges, categories to the commonest ones). Then for pairs: one table of mean predictions at all pairs of values for every k,
    by one draw of noise. H² is the weighted mean square of the table after its weighted row and column means are taken off, over
    that of the table less its mean; weights are products of the released shares. This is the statistic of Friedman and Popescu
    with the two features drawn independently of each other. For each feature with all others: mean predictions along every
    feature; a cap for a single record's remainder, chosen privately; and the mean squares of the remainders
    f(x) − f̄_j(x_j) − f̄_rest(x) + f̄ of the records with feature j rounded, beside the variance of the predictions; f̄_rest is
    the mean over the values of j, and remainders are not centred. The noise's own expected share is taken off all squares.
    `.caps` says how large a remainder may be: larger ones were cut.

    `ranking=True` releases what the order needs and no more: the counts of every feature and, where they would not be noise, of
    all pairs of features, by groups of values. Records are made up from these counts, and H is that of made-up records, with
    pairs of values as common as they are there. The model is asked about nobody. There are no error bars: what three features
    have to do with each other beyond pairs is not in such records.

    A group of features counts as one: its values are combinations of those of its features, or, where these are many and have two
    values each, which one of them is set.

    Pairs ask the model for (values of the feature) × (values of all others) predictions a record, each feature with all others
    for three times the sum of the values.

    Claim: box-sum, cross-cells, quantile-span. Assumes that the model is a function of one row.
    Paper: "Tailoring differential privacy to any explainer" has H through a generic wrapper; this is a direct release.

    >>> import pellucid as pel
    >>> schema = pel.Schema({"a": pel.Number(0, 1), "b": pel.Number(0, 1), "c": pel.Number(0, 1)})
    >>> model = pel.Model(lambda d: d["a"] * d["b"] + d["c"], output=(0, 2), features=["a", "b", "c"], trained_on="other data")
    >>> table = {"a": [i / 999 for i in range(1000)] * 9, "b": [0.1, 0.5, 0.9] * 3000, "c": [0.2, 0.8] * 4500}
    >>> session = pel.Session(table, schema, budget=pel.Budget(epsilon=5.0))
    >>> session.release(pel.FeatureInteraction(model, "a"), epsilon=5.0).ranking
    ('b', 'c')
    """

    feature: str | None = None
    """The feature or group whose pairs are asked about; left out, each with all others together."""
    _: KW_ONLY
    points: int | None = None
    """Values that a number is rounded to; left out, as many as pay at this number of rows and ε."""
    ranking: bool = False
    """Release only what the order of the interactions needs: far better at a small ε, but without error bars."""
    anyway: bool = field(default=False, repr=False)
    """Release it even where the error is expected to be as large as H can be. It changes nothing that is released."""

    stored_as = "pellucid.explainers.feature_interaction.FeatureInteraction"
    references = (
        "J. H. Friedman, B. E. Popescu, Predictive learning via rule ensembles, Annals of Applied Statistics 2 (2008).",
        "Tailoring Differential Privacy to Any Explainer: the generic wrapper for rankings by the H-statistic.",
        "M. Hardt, K. Talwar, On the geometry of differential privacy, STOC 2010 (K-norm mechanism).",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.feature, str | None):
            raise PlanError(f"feature={self.feature!r}: give one column name, or None for all features.")
        keep_whole_number(self, "points", 2, FINE)
        settle(self, ranking=bool(self.ranking) if isinstance(self.ranking, np.bool_) else self.ranking)
        if not isinstance(self.ranking, bool):
            raise PlanError(f"ranking={self.ranking!r}: give True for the order alone, or leave it out.")
        # Effects are squared.
        if not 1e-100 < self.model.range < 1e100:
            raise PlanError(f"the output range {self.model.output} is too wide or too narrow for floats; change its unit.")

    @property
    def statistic(self) -> HStatistic:
        """What is asked: statistics that share their name and the rounded features, but neither questions nor results."""
        given = None if self.groups is None else Groups.of(self.groups)
        if self.ranking:
            return RankedH(self.model, self.points, self.feature, groups=given)
        if self.feature is None:
            return OverallH(self.model, self.points, groups=given)
        return PairwiseH(self.model, self.points, self.feature, groups=given)

    @property
    def features(self) -> tuple[str, ...]:
        return self.statistic.features

    def columns(self, schema: Schema) -> tuple[str, ...]:
        return self.statistic.columns(schema)

    def plan(self, public: Public) -> Plan:
        plan = self.statistic.plan(public)
        if self.anyway or (public.rows is None and public.expected_rows is None):
            return plan
        error = float(self.expected(plan).error.min())
        if error < 1:
            return plan
        why = f"H lies between 0 and 1, and its error is expected to be ±{error:.2g} at best"
        if self.ranking:
            why = "noise would move everybody to other values of every feature, so that the order would be that of public records"
        return replace(plan, useless=f"{why}: {enough(public, error / 0.25)}; or say anyway=True.")

    def run(self, ask: Ask) -> Explanation:
        return self.statistic.run(ask)

    def expected(self, plan: Plan) -> Expected:
        return self.statistic.expected(plan)

    def only_asked(self, plan: Plan) -> tuple[BlackBox, ...]:
        # For the order alone it is asked about made-up records: what it does with people cannot matter.
        return () if self.ranking else super().only_asked(plan)

    def flow(self, plan: Plan | None = None) -> Flow:
        return self.statistic.flow(plan)

    def describe(self) -> dict[str, Any]:
        told = {"explainer": "FeatureInteraction", "features": list(self.features), "of": self.feature, "points": self.points}
        # The version before released H with error bars: that answers every request but one for the order alone.
        return {**told, "ranking": True} if self.ranking else told

    @classmethod
    def examples(cls, model: Model, schema: Schema) -> Sequence[Explainer]:
        names = [name for name in schema if name in model.features]
        measured = [cls(model, points=2, anyway=True), cls(model, names[0], points=2, anyway=True)]
        return [*measured, cls(model, names[-1], points=2, ranking=True, anyway=True, groups=two_of(names))]
