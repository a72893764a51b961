"""How far explanations of a model usually go, and how large their errors will be: from the model and public records alone.

An error says nothing by itself. A curve that errs by 0.02 is exact where curves of such a model move by 0.3, and useless where
they move by 0.01. The model is public, so what it does to public records tells how far its explanations go.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from ..explainers.clusters.cluster_histograms import ClusterHistograms
from ..explainers.clusters.private_kmeans import USEFUL, PrivateKMeans
from ..explainers.curves.leaning import FLAT
from ..explainers.curves.partial_dependence import PartialDependence
from ..explainers.importance.permutation_importance import PermutationImportance
from ..explainers.interaction.feature_interaction import FeatureInteraction
from ..explainers.interaction.statistic import TYPICAL
from ..explainers.local.local_linear import LocalLinear
from ..explainers.shapley.shap_importance import ORDER, ShapImportance
from ..explainers.shapley.shap_values import ShapValues
from ..explainers.statistics.distribution import Distribution
from ..mechanisms import Mechanism
from ..public.rows import Rows
from ..public.schema import Schema
from ..public.spread import Spread, made_up_people
from ..release.explainer import Explainer
from ..release.plan import Plan

READABLE = 0.5
"""An explanation is readable where its root mean square error is at most such a part of how far it usually goes."""
PUBLIC_RECORDS = 256
MOVED = 0.25
"""The part of all records that noise may move to other values of a feature before an order of interactions is worth little."""
RARE = 1e-3
"""Caps that are chosen so much more rarely than the usual one are left aside."""
NARROW = 1e-4
"""Nothing is taken to go less far than such a part of the largest possible."""


class Usual:
    """What public records, drawn from the declared domains, tell about explanations of models."""

    def __init__(self, schema: Schema, people: tuple[Spread, ...] = ()):
        self.schema = schema
        self.people = people
        """How people are spread along features, as far as it was released."""
        self._kept: dict[tuple[str, int], tuple[Any, Any]] = {}

    @cached_property
    def rows(self) -> Rows:
        return Rows(self.schema, made_up_people(self.schema, self.people, 2 * PUBLIC_RECORDS, seed=8))

    def _once(self, what: str, of: Any, make: Callable[[], Any]) -> Any:
        """What was found about this very object; it is kept beside it, so that no other takes its place."""
        key = (what, id(of))
        if key not in self._kept:
            self._kept[key] = (of, make())
        return self._kept[key][1]

    def error(self, explainer: Explainer, plan: Plan) -> float:
        """The error to expect of one output, as a root mean square over all of them."""
        expected = explainer.expected(plan)
        if expected.typical is not None:
            return float(np.sqrt(np.mean(np.square(expected.typical))))
        return float(np.sqrt(np.mean(np.square(expected.error)))) * _per_half_width(plan) * self._capped(explainer, plan)

    def _capped(self, explainer: Explainer, plan: Plan) -> float:
        """What a privately chosen cap is expected to leave of errors that are foreseen without one."""
        choice = getattr(plan.details, "choice", None)
        if isinstance(explainer, ShapImportance) and choice is not None:
            return self._of_chosen_caps(explainer, plan)
        if isinstance(explainer, PermutationImportance) and choice is not None:
            loss, answers = explainer._loss, self._answers(explainer)
            one, other = answers[:PUBLIC_RECORDS], answers[PUBLIC_RECORDS:]
            usual = np.quantile(loss(one, other) - loss(one, one), 0.9) * plan.details.shuffling.stretch
            return float(np.clip(usual / loss.top, choice.parts[0], 1.0))
        return 1.0

    def _of_chosen_caps(self, explainer: ShapImportance, plan: Plan) -> float:
        """As a root mean square over the caps that would be chosen if people were like public records: a small price chooses
        caps that are far too large now and then."""
        settled, public = plan.details, plan.public
        score, how = settled.choice.stage.query.score, settled.choice.stage.how
        lengths = np.linalg.norm(self.vectors(settled.chosen), ord=ORDER[settled.norm], axis=1) / settled.top
        cells = np.minimum(np.searchsorted(settled.choice.parts, lengths), len(settled.choice.parts) - 1)
        counts = np.bincount(cells, minlength=len(settled.choice.parts)) * public.planning_rows / len(lengths)
        scores = np.array(score.of([round(count) for count in counts]), dtype=float)
        chances = np.exp(float(how.rate) * (scores - scores.max()))
        chances = np.where(chances > RARE * chances.max(), chances, 0.0) / chances.sum()
        share = plan["sizes"].share
        widest = explainer.noise_at(public, settled, settled.top, share)
        squares = [
            chance * explainer.noise_at(public, settled, settled.top * part, share) ** 2
            for chance, part in zip(chances, settled.choice.parts)
            if chance > 0
        ]
        return float(np.sqrt(sum(squares)) / widest)

    def _answers(self, explainer: PermutationImportance) -> Any:
        return self._once("answers", explainer.model, lambda: self.rows.predict(explainer.model))

    def vectors(self, chosen: Any) -> Any:
        """Shapley vectors of public records."""
        return self._once("vectors", chosen, lambda: chosen(self.rows.take(slice(0, PUBLIC_RECORDS))))

    def size(self, explainer: Explainer, plan: Plan) -> float:
        """How far the outputs usually go, in the units of their errors."""
        if isinstance(explainer, PartialDependence):
            return self._of_curve(explainer, plan)
        if isinstance(explainer, ShapImportance):
            return spread(np.abs(self.vectors(plan.details.chosen)).mean(axis=0), explainer.model.range)
        if isinstance(explainer, PermutationImportance):
            return self._once("increases", explainer, lambda: self._of_increases(explainer))
        if isinstance(explainer, ShapValues):
            # Of a record in the middle: how much a report pays must not tell anything about the one asked about.
            return float(max(np.abs(self.vectors(plan.details)).mean(axis=0).max() / 2, NARROW * explainer.model.range))
        if isinstance(explainer, Distribution):
            return plan.public.planning_rows / max(bins.cells for bins in plan.details.values())
        if isinstance(explainer, ClusterHistograms):
            cells = max(bins.cells for _, bins in plan.details.layout.attributes)
            return plan.public.planning_rows / (len(explainer.groups.clusters) * cells)
        if isinstance(explainer, FeatureInteraction):
            return MOVED if explainer.ranking else TYPICAL
        if isinstance(explainer, PrivateKMeans):
            # A centre that is known to a quarter of a range is just readable.
            return self.error(explainer, plan) / max(explainer._errors(plan)[1] / (2.5 * USEFUL) * READABLE, 1e-12)
        if isinstance(explainer, LocalLinear):
            # An answer that is just told from saying nothing is just readable.
            return self.error(explainer, plan) / max(explainer._foreseen(plan).needed * READABLE, 1e-12)
        raise AssertionError(f"{type(explainer).__name__} is in no report")

    def relative(self, explainer: Explainer, plan: Plan) -> float:
        """The error to expect, relative to how far the outputs usually go."""
        return self.error(explainer, plan) / self.size(explainer, plan)

    def _of_curve(self, explainer: PartialDependence, plan: Plan) -> float:
        (along,) = plan.details.along
        curves = self._curves(explainer, along) if along.shape is None else along.shape.curves
        return float(max(curves.mean(axis=0).std(), FLAT / 4) * explainer.model.range)

    def _curves(self, explainer: PartialDependence, along: Any) -> Any:
        """In parts of the model's range, by the people that are made up, or by public records."""

        def make() -> np.ndarray:
            lo, hi = explainer.model.output
            answers = self.rows.predict_along(explainer.model, [(along.name, along.grid)])
            return np.clip((answers - lo) / (hi - lo), 0.0, 1.0)

        return self._once(f"curves {len(along.grid)}", explainer, make)

    def _of_increases(self, explainer: PermutationImportance) -> float:
        """How far apart increases of the loss are, for records whose truth is what the model answers."""
        loss, rows = explainer._loss, self.rows.take(slice(0, PUBLIC_RECORDS))
        truth = rows.predict(explainer.model)
        donors = rows.take(np.roll(np.arange(len(rows)), 1))
        answers = rows.predict_with(explainer.model, donors, tuple(explainer.shuffled(self.schema).values()))
        return spread(np.array([(loss(truth, answer) - loss(truth, truth)).mean() for answer in answers.T]), loss.top)


def spread(values: np.ndarray, largest: float) -> float:
    """How far apart values are; of a single one, how far from nothing."""
    return float(max(values.std() if len(values) > 1 else np.abs(values).max(), NARROW * largest))


def _per_half_width(plan: Plan) -> float:
    """The standard deviation of the noise over half of its 95 % bar."""
    laws = [(stage.share, stage.law) for stage in plan.stages if isinstance(stage.how, Mechanism)]
    law = max(laws, key=lambda pair: pair[0])[1] if laws else None
    return 0.5 if law is None or law.kind == "none" else law.std / law.half_width(0.95)
