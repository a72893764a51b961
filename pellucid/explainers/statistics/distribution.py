"""The distribution of one column over public cells."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from ...errors import PlanError
from ...public.grids import Bins, histogram_bins
from ...public.model import Model
from ...public.rows import Rows
from ...public.schema import Category, Schema
from ...query import Joint, Sum
from ...query.bound import UNITS
from ...query.bounds import Cells
from ...release.door import Ask
from ...release.explainer import Explainer
from ...release.explanation import Explanation
from ...release.plan import Expected, Plan, Public
from ...sensitivity import Flow
from ..common.base import feature_list, keep_whole_number
from ..common.results import Several
from .results import Counts


@dataclass(frozen=True)
class InCell:
    """Per record: the cell its value falls in."""

    name: str
    bins: Bins

    def __call__(self, rows: Rows) -> tuple[np.ndarray, None, None]:
        return self.bins.index(rows[self.name])[:, None], None, None


@dataclass(frozen=True)
class Distribution(Explainer):
    """How many people have each value: a histogram of a column over declared categories, integers or bins.

    Released: one noisy count per cell. Cells are public: declared categories, all integers when there are at most 64,
    otherwise `bins` equal intervals (20 when not given), or edges given as a list. A value missing as NaN has its own cell.

    Claim: cell-sum.

    >>> import pellucid as pel
    >>> schema = pel.Schema({"sex": pel.Category(["F", "M"])})
    >>> session = pel.Session({"sex": ["F", "M", "M"] * 1000}, schema, budget=pel.Budget(epsilon=1.0))
    >>> counts = session.release(pel.Distribution("sex"), epsilon=1.0)
    >>> counts.x, bool(abs(counts.counts[1] - 2000) < 60)
    (('F', 'M'), True)
    """

    feature: str | Sequence[str]
    bins: int | Sequence[float] | None = None

    references = (
        "C. Dwork, F. McSherry, K. Nissim, A. Smith, Calibrating noise to sensitivity in private data analysis, TCC 2006.",
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "feature", self.feature if isinstance(self.feature, str) else feature_list(self.feature))
        if isinstance(self.bins, int | np.integer) or self.bins is None:
            keep_whole_number(self, "bins", 1, 10_000)
        else:
            edges = tuple(float(e) for e in self.bins)
            if len(edges) < 2 or any(not a < b for a, b in itertools.pairwise(edges)):
                raise PlanError(f"bins={list(edges)!r}: edges must increase, and there must be at least two.")
            object.__setattr__(self, "bins", edges)

    @property
    def features(self) -> tuple[str, ...]:
        return feature_list(self.feature)

    def columns(self, schema: Schema) -> tuple[str, ...]:
        for name in self.features:
            schema[name]
        return tuple(name for name in schema if name in self.features)

    def cells(self, name: str, public: Public) -> Bins:
        return histogram_bins(public.schema[name], self.bins, most=64, usual=20)  # type: ignore[arg-type]

    def query(self, public: Public) -> Joint:
        sums = []
        for name in self.features:
            bins = self.cells(name, public)
            sums.append(Sum(InCell(name, bins), Cells(bins.cells), columns=(name,)))
        return Joint(sums)

    def plan(self, public: Public) -> Plan:
        self.query(public)  # a request that cannot be asked is refused here, before it is paid for
        return {"counts": Fraction(1)}

    def run(self, ask: Ask) -> Explanation:
        answer = ask.total("counts", self.query(ask.public))
        results: dict[str, Explanation] = {}
        for i, name in enumerate(self.features):
            bins = self.cells(name, ask.public)
            _, counts = answer.part(i).cells()
            assert counts is not None
            results[name] = Counts(
                feature=name,
                x=bins.labels,
                counts=counts,
                law=answer.law.times(1 / UNITS),
                edges=bins.edges,
                categorical=isinstance(ask.public.schema[name], Category),
            )
        return results[self.features[0]] if isinstance(self.feature, str) else Several(curves=results)

    def flow(self) -> Flow:
        return (
            Flow("distribution")
            .input("records")
            .public("bins", "from the schema")
            .stage("counts", "records", "bins", needs="one record is in one bin of each feature")
            .output("explanation", "bins", "counts")
        )

    def expected(self, public: Public) -> Expected:
        law = public.mechanism(self.query(public)).law.times(1 / UNITS)
        labels = tuple(f"{name} = {label}" for name in self.features for label in self.cells(name, public).labels)
        return Expected(labels, np.full(len(labels), law.half_width(0.95)), law.gap(0.95))

    def describe(self) -> dict[str, Any]:
        bins = list(self.bins) if isinstance(self.bins, tuple) else self.bins
        return {"explainer": "Distribution", "features": list(self.features), "bins": bins}

    @classmethod
    def examples(cls, model: Model, schema: Schema) -> Sequence[Explainer]:
        return [*(cls(name) for name in schema), cls(list(schema)), cls(next(iter(schema)), bins=4)]
