"""How far explanations of a model usually go, and how large their errors will be: from the model and public records alone.

An error says nothing by itself. A curve that errs by 0.02 is exact where curves of such a model move by 0.3, and useless where
they move by 0.01. The model is public, so what it does to public records tells how far its explanations go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
from ..explainers.statistics.results import Counts
from ..mechanisms import Mechanism
from ..public.rows import Rows
from ..public.schema import Schema
from ..release.explainer import Explainer
from ..release.plan import Plan

READABLE = 0.5
"""An explanation is readable where its root mean square error is at most such a part of how far it usually goes."""
PUBLIC_RECORDS = 256
MOVED = 0.25
"""The part of all records that noise may move to other values of a feature before an order of interactions is worth little."""
NARROW = 1e-4
"""Nothing is taken to go less far than such a part of the largest possible."""


class Usual:
    """What public records, drawn from the declared domains, tell about explanations of models."""

    def __init__(self, schema: Schema, spread_of: Mapping[str, Counts] | None = None):
        self.schema = schema
        self.spread_of: Mapping[str, Counts] = spread_of or {}
        """How people are spread along features, as far as it was released."""
        self._kept: dict[tuple[str, int], tuple[Any, Any]] = {}

    @cached_property
    def rows(self) -> Rows:
        drawn = self.schema.sample(2 * PUBLIC_RECORDS, seed=8)
        made_up = {name: self._drawn(name, counts) for name, counts in self.spread_of.items()}
        return Rows(self.schema, {name: made_up.get(name, drawn[name]) for name in self.schema})

    def _drawn(self, name: str, counts: Counts) -> np.ndarray:
        """Values of made-up people, as common as they were released to be; features are taken as independent."""
        rng, feature = np.random.default_rng(len(name)), self.schema[name]
        cells = rng.choice(len(counts.x), 2 * PUBLIC_RECORDS, p=counts.shares)
        if not counts.edges:
            return np.array([feature.position(counts.x[cell]) for cell in cells], dtype=float)
        low, high = np.array(counts.edges)[cells], np.array(counts.edges)[cells + 1]
        found = low + (high - low) * rng.random(len(cells))
        return np.rint(found) if getattr(feature, "integer", False) else found

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
            longest = np.linalg.norm(self.vectors(plan.details.chosen), ord=ORDER[plan.details.norm], axis=1).max()
            return float(min(longest / plan.details.top, 1.0))
        if isinstance(explainer, PermutationImportance) and choice is not None:
            loss, answers = explainer._loss, self._answers(explainer)
            one, other = answers[:PUBLIC_RECORDS], answers[PUBLIC_RECORDS:]
            usual = np.quantile(loss(one, other) - loss(one, one), 0.9) * plan.details.shuffling.stretch
            return float(np.clip(usual / loss.top, choice.parts[0], 1.0))
        return 1.0

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
        public = along.shape is not None and not self.spread_of
        curves = along.shape.curves if public else self._curves(explainer, along)
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
