"""The distribution of one column over public cells."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import PlanError
from ...public.frozen import settle
from ...public.grids import Bins, histogram_bins
from ...public.model import Model
from ...public.rows import Rows
from ...public.schema import Category, Schema
from ...query import Joint, Sum
from ...query.bounds import Cells
from ...release.door import Ask
from ...release.explainer import Explainer
from ...release.explanation import Explanation
from ...release.plan import Expected, Plan, Public
from ...release.uncounted import absent_words
from ...sensitivity import Flow
from ..common.base import feature_list, keep_whole_number
from ..common.results import Several
from .results import Counts


@dataclass(frozen=True)
class InCell:
    """Per record: the cell its value falls in; of one that is left out, the cell after the last."""

    name: str
    bins: Bins

    def __call__(self, rows: Rows) -> tuple[np.ndarray, None, None]:
        cell = self.bins.index(rows[self.name])
        if self.bins.feature.excludes:
            cell = np.where(rows.absent(self.name), self.bins.cells, cell)
        return cell[:, None], None, None

    @property
    def query(self) -> Sum:
        """The counts of all cells, and of the records left out."""
        excludes = self.bins.feature.excludes
        conditions = (self.name,) if excludes else ()
        return Sum(self, Cells(self.bins.cells + excludes), columns=(self.name,), conditions=conditions)


@dataclass(frozen=True)
class Distribution(Explainer):
    """How many people have each value: a histogram of a column over declared categories, integers or bins.

    Released: one noisy count per cell. Cells are public: declared categories, all integers when there are at most 64,
    otherwise equal intervals. A record whose cell is missing, unreadable or not a declared value is in none of them, unless the
    schema declares what stands for it; `.uncounted` says how many there are. A list of columns is one joint release with
    `.curves[name]`.

    Claim: cell-sum.

    >>> import pellucid as pel
    >>> schema = pel.Schema({"sex": pel.Category(["F", "M"])})
    >>> session = pel.Session({"sex": ["F", "M", "M"] * 1000}, schema, budget=pel.Budget(epsilon=1.0))
    >>> counts = session.release(pel.Distribution("sex"), epsilon=1.0)
    >>> counts.x, bool(abs(counts.counts[1] - 2000) < 60)
    (('F', 'M'), True)
    """

    feature: str | Sequence[str]
    """The column, or a list of columns for one joint release."""
    bins: int | Sequence[float] | None = None
    """How many equal intervals numbers are put into, or their edges; left out, every integer of at most 64, or 20 intervals."""

    stored_as = "pellucid.explainers.distribution.Distribution"
    references = (
        "C. Dwork, F. McSherry, K. Nissim, A. Smith, Calibrating noise to sensitivity in private data analysis, TCC 2006.",
    )

    def __post_init__(self) -> None:
        settle(self, feature=self.feature if isinstance(self.feature, str) else feature_list(self.feature))
        if isinstance(self.bins, int | np.integer) or self.bins is None:
            keep_whole_number(self, "bins", 1, 10_000)
        else:
            try:
                edges = tuple(float(e) for e in self.bins)
            except (TypeError, ValueError, OverflowError):
                raise PlanError(f"bins={self.bins!r}: give a whole number, or edges that increase.") from None
            if len(edges) < 2 or any(not a < b for a, b in itertools.pairwise(edges)):
                raise PlanError(f"bins={list(edges)!r}: edges must increase, and there must be at least two.")
            settle(self, bins=edges)

    @property
    def features(self) -> tuple[str, ...]:
        return feature_list(self.feature)

    def columns(self, schema: Schema) -> tuple[str, ...]:
        for name in self.features:
            schema[name]
        return tuple(name for name in schema if name in self.features)

    def has_shape_of(self, stored: Explanation) -> bool:
        return isinstance(stored, Several) != isinstance(self.feature, str)

    def leaves_out(self, schema: Schema) -> tuple[str, ...]:
        return tuple(name for name in self.columns(schema) if schema[name].excludes)

    def plan(self, public: Public) -> Plan:
        bins = {name: self.cells(name, public.schema) for name in self.features}
        query = Joint([InCell(name, cells).query for name, cells in bins.items()])
        return Plan(public, (public.stage("counts", query),), details=bins)

    def cells(self, name: str, schema: Schema) -> Bins:
        """The public cells of one column."""
        return histogram_bins(schema[name], self.bins, most=64, usual=20)  # type: ignore[arg-type]

    def run(self, ask: Ask) -> Explanation:
        answer = ask.total("counts")
        results: dict[str, Explanation] = {}
        for i, (name, bins) in enumerate(ask.plan.details.items()):
            part = answer.part(i)
            words = absent_words((name,), ask.public.schema)
            results[name] = Counts(
                feature=name,
                x=bins.labels,
                counts=part.numbers[: bins.cells],
                law=answer.noise,
                edges=bins.edges,
                categorical=isinstance(bins.feature, Category),
                uncounted=part.outside((name,), words) if bins.feature.excludes else None,
            )
        return results[self.features[0]] if isinstance(self.feature, str) else Several(curves=results)

    def flow(self, plan: Plan | None = None) -> Flow:
        return (
            Flow("distribution")
            .input("records")
            .public("bins", "from the schema")
            .stage("counts", "records", "bins", needs="one record is in one bin of each feature")
            .output("explanation", "bins", "counts")
        )

    def expected(self, plan: Plan) -> Expected:
        noise = plan["counts"].noise
        labels = tuple(f"{name} = {label}" for name, bins in plan.details.items() for label in bins.labels)
        return Expected(labels, np.full(len(labels), noise.half_width(0.95)), noise.gap(0.95))

    def describe(self) -> dict[str, Any]:
        bins = list(self.bins) if isinstance(self.bins, tuple) else self.bins
        return {"explainer": "Distribution", "features": list(self.features), "bins": bins}

    @classmethod
    def examples(cls, model: Model, schema: Schema) -> Sequence[Explainer]:
        return [*(cls(name) for name in schema), cls(list(schema)), cls(next(iter(schema)), bins=4)]
