"""The explanations that a report may hold: what each asks for, and the words that say what it is worth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..explainers import (
    ClusterHistograms,
    Distribution,
    FeatureInteraction,
    LocalLinear,
    PartialDependence,
    PermutationImportance,
    PrivateKMeans,
    ShapImportance,
    ShapValues,
)
from ..explainers.common.base import empty_record
from ..public.clustering import Clustering
from ..public.schema import Category, Number, Schema
from ..public.spread import Spread
from ..release.explainer import Explainer
from ..release.explanation import Explanation
from .report import Report

BACKGROUND = 8
"""Public records that Shapley values are compared with."""
ORDERS = 8
"""Public orders of the features that a record is asked along, where Shapley values have no closed form."""
LITTLE = 0.02
"""Features with less than such a part of the largest importance get no curve."""
DIMENSIONS = 4
"""Features that clusters are looked for in, where nobody names them."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """One explanation that may be in a report."""

    name: str
    """What it is called there."""
    part: str
    """The part it belongs to."""
    explainer: Explainer
    """What is released."""
    beside: str
    """How far it usually goes, in words, with {} for the size."""
    about: str = ""
    """The feature it is about."""
    turn: int = 2
    """When it is released: 0 before all others, since they depend on its answer; 1 for what tells how people are spread, by which
    the rest is planned; 2 for the rest."""
    stands_in: Explainer | None = None
    """What it is planned as: a record asked about, or clusters that are not known yet, must not, or cannot, decide its price."""

    @property
    def planned(self) -> Explainer:
        return self.stands_in or self.explainer


def curve(report: Report, name: str, people: Sequence[Spread]) -> Candidate:
    beside = "where such a curve usually moves by about ±{}"
    return Candidate(f"curve along {name}", "curves", PartialDependence(report.model, name, people=people), beside, name)


def distribution(name: str) -> Candidate:
    beside = "where a cell would hold {} people if all held as many"
    return Candidate(f"distribution of {name}", "distributions", Distribution(name), beside, name, turn=1)


def importance(report: Report, schema: Schema) -> Candidate:
    if report.target is not None:
        explainer: Explainer = PermutationImportance(report.model, report.target, ranking=True)
        return Candidate("importance", "importance", explainer, "where importances usually differ by about {}", turn=0)
    background = report.public_background
    if background is None:
        background = public_records(report, schema, BACKGROUND)
    beside = "where mean sizes of Shapley values usually differ by about {}"
    return Candidate("importance", "importance", _shapley(report, schema, background), beside, turn=0)


def _shapley(report: Report, schema: Schema, background: Any) -> ShapImportance:
    """In closed form where there is one, else along public orders: asking about all coalitions would take a hundred times as
    long."""
    exact = ShapImportance(report.model, public_background=background)
    if exact.chosen(schema).method in ("linear", "trees"):
        return exact
    return ShapImportance(report.model, public_background=background, method="permutations", permutations=ORDERS)


def interactions(report: Report, ranking: bool) -> Candidate:
    beside = "of all records, where {} would do" if ranking else "where H is at most 1 and often about {}"
    explainer = FeatureInteraction(report.model, ranking=ranking)
    return Candidate("interactions", "interactions", explainer, beside)


def decision(report: Report, schema: Schema) -> Candidate:
    explainer = ShapValues(report.model, report.record, efficient=True)
    if explainer.chosen(schema).method not in ("linear", "trees"):
        explainer = replace(explainer, method="permutations", permutations=ORDERS)
    middle = replace(explainer, record=empty_record(report.model, schema))
    beside = "where the largest Shapley values are usually twice {}"
    return Candidate("one decision", "decision", explainer, beside, stands_in=middle)


def questions(report: Report) -> Candidate:
    explainer = LocalLinear(report.model, questions=len(report.questions), centred=True)
    return Candidate("questions", "questions", explainer, "where slopes are usually about {}")


def kmeans(report: Report, schema: Schema, leading: Sequence[str]) -> Candidate | None:
    """The clusters, where they are looked for; None where they are there."""
    if isinstance(report.clusters, Clustering):
        return None
    found = report.clusters if isinstance(report.clusters, PrivateKMeans) else _clusters(report, schema, leading)
    return Candidate("clusters", "clusters", found, "where centres are told apart at about {}", turn=0)


def _clusters(report: Report, schema: Schema, leading: Sequence[str]) -> PrivateKMeans:
    assert isinstance(report.clusters, int)
    names = [name for name in leading if isinstance(schema[name], Number)][:DIMENSIONS]
    names = names or [name for name in leading if isinstance(schema[name], Category)][:DIMENSIONS]
    return PrivateKMeans(report.clusters, names)


def telling(report: Report, schema: Schema, found: Explanation | None) -> Candidate:
    """What tells clusters apart: those that are there, those that were found, or, to plan it, as many made-up ones."""
    beside = "where a cell of a cluster would hold {} people if all held as many"
    known = report.clusters if isinstance(report.clusters, Clustering) else getattr(found, "clustering", None)
    if known is not None:
        return Candidate("what tells clusters apart", "clusters", ClusterHistograms(known), beside)
    count = report.clusters.k if isinstance(report.clusters, PrivateKMeans) else report.clusters
    assert isinstance(count, int)
    explainer = ClusterHistograms(_made_up(count, schema))
    return Candidate("what tells clusters apart", "clusters", explainer, beside)


@dataclass(frozen=True)
class ByPlace:
    """A clustering by the place of one column in its declared range."""

    name: str
    lowest: float
    width: float
    clusters: int
    values: tuple[Any, ...] = ()

    def __call__(self, frame: Any) -> np.ndarray:
        cells = frame[self.name]
        at = np.array([self.values.index(v) for v in cells]) if self.values else np.asarray(cells, dtype=float)
        return np.clip((at - self.lowest) / self.width * self.clusters, 0, self.clusters - 1).astype(int)


def _made_up(count: int, schema: Schema) -> Clustering:
    name = next((name for name in schema if isinstance(schema[name], Number)), next(iter(schema)))
    feature = schema[name]
    if isinstance(feature, Number):
        by = ByPlace(name, feature.lo, feature.hi - feature.lo, count)
    else:
        assert isinstance(feature, Category)
        by = ByPlace(name, 0, len(feature.values), count, tuple(feature.values))
    return Clustering(by, clusters=range(count), features=[name], trained_on="other data", name="clusters")


def public_records(report: Report, schema: Schema, count: int) -> list[Mapping[str, Any]]:
    """A few records drawn from the declared domains."""
    drawn, names = schema.sample(count, seed=9), report.columns(schema)
    return [{name: schema[name].value_at(drawn[name][i]) for name in names} for i in range(count)]


def leading(found: Explanation) -> list[str]:
    """The features that lead by a released importance and are told from nothing, the first one first."""
    names, values = found.features, np.asarray(found.values)  # type: ignore[attr-defined]
    lower, _ = found.interval()
    order = np.argsort(-values, kind="stable")
    return [names[i] for i in order if lower[i] > 0 and values[i] > LITTLE * values.max()]
