"""Explaining clusters: the attributes that tell them apart, chosen privately, and their histograms inside and outside."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from ...errors import PlanError
from ...mechanisms import exact
from ...public.black_box import BlackBox
from ...public.clustering import Clustering
from ...public.fingerprint import fingerprinted_as
from ...public.grids import Bins, histogram_bins
from ...public.model import Model
from ...public.rows import Rows
from ...public.schema import Category, Number, Schema, did_you_mean
from ...query import Choice, Joint, Sum
from ...query.bound import UNITS
from ...query.bounds import Cells, CrossCells
from ...release.door import Ask
from ...release.explainer import Explainer
from ...release.explanation import Explanation
from ...release.plan import Expected, Plan, Public
from ...sensitivity import Flow
from ..common.base import keep_whole_number, whole_number
from .results import ClusterExplanation, ClusterHistogram, reconcile
from .scores import CandidateScore, CombinationScore

WEIGHTS = ("interest", "sufficiency", "diversity")
METHODS = ("joint", "two-stage")
MOST_WORK = 20_000_000
"""Clusters squared times values: beyond this, scoring pairs of clusters takes minutes."""


@dataclass(frozen=True)
class ByCluster:
    """Per record: its cluster, and its cell of every attribute."""

    groups: Clustering
    bins: tuple[tuple[str, Bins], ...]

    def __call__(self, rows: Rows) -> tuple[np.ndarray, list[np.ndarray]]:
        return self.groups.ready(rows.schema).labels(rows), [bins.index(rows[name]) for name, bins in self.bins]


@dataclass(frozen=True)
class InOwnCluster:
    """Per record: its cell in the histogram of the attribute that was chosen for its cluster."""

    groups: Clustering
    bins: tuple[tuple[str, Bins], ...]
    starts: tuple[int, ...]

    def __call__(self, rows: Rows) -> tuple[np.ndarray, None, None]:
        label = self.groups.ready(rows.schema).labels(rows)
        # One more entry for records of no cluster, whose label is -1.
        start = np.array([*self.starts, -1])[label]
        cell = np.full(len(label), -1)
        for name, bins in dict(self.bins).items():
            mine = np.array([*(own == name for own, _ in self.bins), False])[label]
            found = bins.index(rows[name])
            np.copyto(cell, found + start, where=mine & (found >= 0))
        return cell[:, None], None, None


@dataclass(frozen=True)
class Everybody:
    """Per record: its cell of every chosen attribute, whatever its cluster."""

    bins: tuple[tuple[str, Bins], ...]

    def __call__(self, rows: Rows) -> tuple[np.ndarray, list[np.ndarray]]:
        return np.zeros(len(rows), dtype=np.intp), [bins.index(rows[name]) for name, bins in self.bins]


@fingerprinted_as("pellucid.explainers.cluster_histograms", "HalfSplit")
@dataclass(frozen=True)
class HalfSplit:
    """Puts a record into the lower or the upper half of a column's declared range; for examples and tests."""

    feature: str
    middle: float

    def __call__(self, frame: Any) -> np.ndarray:
        return (np.asarray(frame[self.feature], dtype=float) > self.middle).astype(int)


@dataclass(frozen=True)
class ClusterHistograms(Explainer):
    """Why is this cluster a cluster? One attribute (or `per_cluster`) for each, with its histogram inside and elsewhere.

    Released: which attributes, by one private draw over *all* combinations (`method="joint"`), or per-cluster candidates
    first (`method="two-stage"`, the published structure with smaller constants); then noisy histograms of the chosen attributes
    only. A good combination is interesting (unlike the whole), sufficient (tells the cluster apart) and diverse (different
    clusters, different attributes), by `weights` that add up to 1. `attributes` are the columns to choose from (all by default),
    numbers are binned by `bins` (a number, or edges by name). `split` divides the spend: by default half for the choice, a
    quarter for the histograms inside the clusters, a quarter for those of everybody.

    Claim: cluster-combination-span, on cross-cells and cell-sum; candidates by cluster-candidates-span.
    Assumes that the clustering is a function of one row.
    Paper: "Differentially private explanations for clusters" (DPClustX); the spans and the joint draw are ours.

    >>> import numpy as np, pellucid as pel
    >>> schema = pel.Schema({"age": pel.Number(0, 99, integer=True), "sex": pel.Category(["F", "M"])})
    >>> ages = pel.Clustering(lambda d: d["age"] // 50, clusters=range(2), features=["age"], trained_on="other data")
    >>> people = {"age": np.arange(4000) % 100, "sex": ["F", "M"] * 2000}
    >>> session = pel.Session(people, schema, budget=pel.Budget(epsilon=2.0))
    >>> session.release(pel.ClusterHistograms(ages), epsilon=2.0).attributes
    {0: ['age'], 1: ['age']}
    """

    groups: Clustering
    per_cluster: int = 1
    weights: Mapping[str, float] | None = None
    attributes: Sequence[str] | None = None
    method: str = "joint"
    candidates: int = 3
    bins: int | Mapping[str, Any] | None = None
    split: Mapping[str, float] | None = None

    private_grid = True
    """Which histograms are released is itself a private answer, so their lengths may differ from release to release."""

    references = (
        "Differentially private explanations for clusters (DPClustX), 2025.",
        "F. McSherry, K. Talwar, Mechanism design via differential privacy, FOCS 2007.",
        "J. Dong, D. Durfee, R. Rogers, Optimal differential privacy composition for exponential mechanisms, ICML 2020.",
    )

    def __post_init__(self) -> None:
        if not isinstance(self.groups, Clustering):
            raise PlanError(f"{type(self.groups).__name__} is not a clustering; wrap it: pel.Clustering(estimator, clusters=…).")
        if len(self.groups.clusters) < 2:
            raise PlanError("one cluster has nothing to be told apart from; use pel.Distribution for its histograms.")
        keep_whole_number(self, "per_cluster", 1, 8)
        keep_whole_number(self, "candidates", 1, 64)
        if self.method not in METHODS:
            raise PlanError(f"method={self.method!r}: use 'joint' or 'two-stage'.")
        if isinstance(self.bins, int | np.integer) or self.bins is None:
            keep_whole_number(self, "bins", 1, 1000)
        else:
            object.__setattr__(self, "bins", {str(k): _edges(str(k), v) for k, v in self.bins.items()})
        if self.attributes is not None:
            names = (self.attributes,) if isinstance(self.attributes, str) else tuple(self.attributes)
            if not names or len(set(names)) < len(names):
                raise PlanError(f"attributes={list(names)!r}: give different column names, at least one.")
            object.__setattr__(self, "attributes", names)
        self.weight_numbers()
        self.shares()

    def weight_numbers(self) -> tuple[int, int, int]:
        """Interest, sufficiency and diversity as whole numbers with the same ratios."""
        given = dict(self.weights) if self.weights is not None else dict.fromkeys(WEIGHTS, 1 / 3)
        parts = _named_parts("weights", given, WEIGHTS)
        bottom = math.lcm(*(p.denominator for p in parts))
        return tuple(int(p * bottom) for p in parts)  # type: ignore[return-value]

    def shares(self) -> dict[str, Fraction]:
        """The stages and their parts of the spend."""
        names = ("choice", "inside", "whole")
        given = dict(self.split) if self.split is not None else {"choice": 0.5, "inside": 0.25, "whole": 0.25}
        parts = dict(zip(names, _named_parts("split", given, names)))
        if any(p == 0 for p in parts.values()):
            raise PlanError("split: every stage needs a part above 0.")
        if self.method == "joint":
            return parts
        return {
            "candidates": parts["choice"] / 2,
            "choice": parts["choice"] / 2,
            "inside": parts["inside"],
            "whole": parts["whole"],
        }

    @property
    def models(self) -> tuple[BlackBox, ...]:
        return (self.groups,)

    def names(self, schema: Schema) -> tuple[str, ...]:
        """The columns to choose from, in the order of the schema."""
        wanted = self.attributes if self.attributes is not None else tuple(schema)
        for name in wanted:
            if name not in schema:
                raise PlanError(f"{name!r} is not a declared column{did_you_mean(name, schema)}.")
        return tuple(name for name in schema if name in wanted)

    def columns(self, schema: Schema) -> tuple[str, ...]:
        used = {*self.names(schema), *(self.groups.features or tuple(schema))}
        return tuple(name for name in schema if name in used)

    def cells(self, schema: Schema) -> tuple[tuple[str, Bins], ...]:
        """The public cells of every attribute."""
        own = self.bins if isinstance(self.bins, dict) else {}
        for name in own:
            if name not in schema or not isinstance(schema[name], Number):
                raise PlanError(f"bins: {name!r} is not a declared number{did_you_mean(name, schema)}.")
            edges = own[name]
            if isinstance(edges, tuple) and not (edges[0] <= schema[name].lo and schema[name].hi <= edges[-1]):  # type: ignore[union-attr]
                raise PlanError(
                    f"bins: the edges of {name!r} must cover its declared range [{schema[name].lo:g}, {schema[name].hi:g}]; "  # type: ignore[union-attr]
                    "values outside would be counted in the outer bins."
                )
        usual = self.bins if isinstance(self.bins, int) else None
        return tuple((name, histogram_bins(schema[name], own.get(name, usual), most=16, usual=10)) for name in self.names(schema))

    def counts(self, public: Public) -> Sum:
        """Cluster × value counts of every attribute: what is chosen from."""
        bins = self.cells(public.schema)
        bound = CrossCells(len(self.groups.clusters), tuple(b.cells for _, b in bins))
        if bound.groups * bound.size > MOST_WORK:
            raise PlanError(
                f"{bound.groups} clusters with {sum(bound.sizes)} values are too many to score; use fewer or wider bins."
            )
        return Sum(ByCluster(self.groups, bins), bound, columns=self.columns(public.schema))

    def combination(self, public: Public, candidates: Sequence[tuple[int, ...]] | None = None) -> Choice:
        of = self.counts(public)
        assert isinstance(of.bound, CrossCells)
        rows = tuple(tuple(sorted(row)) for row in candidates) if candidates is not None else None
        score = CombinationScore(of.bound.groups, of.bound.sizes, *self.weight_numbers(), self.per_cluster, rows)
        return Choice(of, score)

    def candidate_choice(self, public: Public) -> Choice:
        of = self.counts(public)
        assert isinstance(of.bound, CrossCells)
        interest, sufficiency, _ = self.weight_numbers()
        if not interest + sufficiency:
            raise PlanError(
                "method='two-stage' ranks candidates by interest and sufficiency; give one of them a weight, or use 'joint'."
            )
        k = min(max(self.candidates, self.per_cluster), len(of.bound.sizes))
        return Choice(of, CandidateScore(of.bound.groups, of.bound.sizes, interest, sufficiency), k)

    def plan(self, public: Public) -> Plan:
        self.combination(public)
        if self.method == "two-stage":
            self.candidate_choice(public)
        return self.shares()

    def run(self, ask: Ask) -> Explanation:
        public = ask.public
        candidates = ask.choose("candidates", self.candidate_choice(public)) if self.method == "two-stage" else None
        chosen = ask.choose("choice", self.combination(public, candidates))
        bins = self.cells(public.schema)
        inside, laws = self._inside(ask, [[bins[a] for a in sorted(row)] for row in chosen])
        used = sorted({a for row in chosen for a in row})
        whole = ask.total("whole", self._whole_query(tuple(bins[a] for a in used), public.schema))
        ends = np.cumsum([bins[a][1].cells for a in used])
        wholes = dict(zip((bins[a][0] for a in used), np.split(np.array(whole.integers, dtype=float) / UNITS, ends[:-1])))
        whole_law = whole.law.times(1 / UNITS)
        return self._explanation(public.schema, inside, wholes, laws, whole_law)

    def _inside(self, ask: Ask, chosen: list[list[tuple[str, Bins]]]) -> Any:
        """Histograms of each cluster's own attributes: one slot after the other, the clusters of a slot side by side."""
        query, starts = self._inside_query(ask.public, chosen)
        answer = ask.total("inside", query)
        found: list[list[tuple[str, Bins, np.ndarray]]] = [[] for _ in chosen]
        for j in range(self.per_cluster):
            counts = np.asarray(answer.part(j).cells()[1])
            for c, row in enumerate(chosen):
                name, bins = row[j]
                found[c].append((name, bins, counts[starts[j][c] : starts[j][c] + bins.cells]))
        return found, answer.law.times(1 / UNITS)

    def _inside_query(self, public: Public, chosen: list[list[tuple[str, Bins]]]) -> tuple[Joint, list[list[int]]]:
        sums, starts = [], []
        for j in range(self.per_cluster):
            slot = tuple(row[j] for row in chosen)
            begin = [0, *np.cumsum([bins.cells for _, bins in slot]).tolist()]
            used = {*(name for name, _ in slot), *(self.groups.features or tuple(public.schema))}
            columns = tuple(name for name in public.schema if name in used)
            sums.append(Sum(InOwnCluster(self.groups, slot, tuple(begin[:-1])), Cells(begin[-1]), columns=columns))
            starts.append(begin)
        return Joint(sums), starts

    def _whole_query(self, used: tuple[tuple[str, Bins], ...], schema: Schema) -> Sum:
        names = {name for name, _ in used}
        bound = CrossCells(1, tuple(bins.cells for _, bins in used))
        return Sum(Everybody(used), bound, columns=tuple(name for name in schema if name in names))

    def _explanation(self, schema: Schema, inside: Any, wholes: dict[str, np.ndarray], law: Any, whole_law: Any) -> Explanation:
        weight = (law.std / whole_law.std) ** 2 if whole_law.std > 0 else 1.0
        parts: dict[str, Explanation] = {}
        for name, whole in wholes.items():
            users = [(c, j) for c, row in enumerate(inside) for j, (own, _, _) in enumerate(row) if own == name]
            noisy = np.array([inside[c][j][2] for c, j in users])
            fitted, everybody = reconcile(noisy, whole, max(weight, 1e-9))
            for (c, j), raw, counts in zip(users, noisy, fitted):
                bins, feature = inside[c][j][1], schema[name]
                parts[f"{c}.{j}"] = ClusterHistogram(
                    cluster=self.groups.clusters[c],
                    feature=name,
                    x=bins.labels,
                    inside=counts,
                    rest=everybody - counts,
                    noisy_inside=raw,
                    noisy_whole=whole,
                    inside_law=law,
                    whole_law=whole_law,
                    edges=bins.edges,
                    ordered=not isinstance(feature, Category) or feature.ordered,
                    integer=isinstance(feature, Number) and feature.integer,
                )
        order = {f"{c}.{j}": None for c in range(len(inside)) for j in range(self.per_cluster)}
        return ClusterExplanation(
            clusters=self.groups.clusters, per_cluster=self.per_cluster, parts={key: parts[key] for key in order}
        )

    def flow(self) -> Flow:
        flow = (
            Flow("cluster histograms")
            .input("records")
            .public("bins", "from the schema")
            .public("clustering", "treated as public, with declared labels")
        )
        earlier: tuple[str, ...] = ()
        if self.method == "two-stage":
            flow = flow.stage("candidates", "records", "bins", "clustering", needs="the span of the scores of one attribute")
            earlier = ("candidates",)
        return (
            flow.stage("choice", "records", "bins", "clustering", *earlier, needs="the span of the score of a combination")
            .stage("inside", "records", "bins", "clustering", "choice", needs="one record is in one cell of its own cluster")
            .stage("whole", "records", "bins", "choice", needs="one record is in one cell of each chosen attribute")
            .output("explanation", "bins", "choice", "inside", "whole", needs="consistent histograms inside and elsewhere")
        )

    def expected(self, public: Public) -> Expected:
        bins, shares = self.cells(public.schema), self.shares()
        largest = sorted(bins, key=lambda b: -b[1].cells)[: self.per_cluster]
        law = public.mechanism(self._inside_query(public, [largest] * len(self.groups.clusters))[0], shares["inside"]).law
        law = law.times(1 / UNITS)
        choice, spend = self.combination(public), public.spend.part(shares["choice"])
        score = choice.score
        assert isinstance(score, CombinationScore)
        span = score.span(public.relation, UNITS * public.unit.rows_per_unit)
        rate = spend.amount / span if spend.currency == "epsilon" else Fraction(math.sqrt(8 * spend.amount) / span)
        count = len(self.groups.clusters) * math.log(math.comb(len(bins), self.per_cluster))
        short = (count + math.log(20)) / float(rate) / score.scale / UNITS
        notes: tuple[str, ...] = (
            f"the choice: with 95 % probability its score is within {short:.3g} records of the best combination's "
            f"(scores of good combinations are about the size of a cluster)",
        )
        if len(self.groups.clusters) > 13 and self.method == "joint":
            notes += ("with more than 13 clusters the exact draw can take long on unlucky data; 'two-stage' draws from fewer",)
        labels = tuple(f"count inside cluster {label}" for label in self.groups.clusters)
        return Expected(labels, np.full(len(labels), law.half_width(0.95)), law.gap(0.95), notes)

    def describe(self) -> dict[str, Any]:
        return {
            "explainer": "ClusterHistograms",
            "clusters": [str(label) for label in self.groups.clusters],
            "per_cluster": self.per_cluster,
            "weights": list(self.weight_numbers()),
            "features": list(self.attributes) if self.attributes is not None else [],
            "method": self.method,
            "candidates": self.candidates,
            "bins": {k: list(v) if isinstance(v, tuple) else v for k, v in self.bins.items()}
            if isinstance(self.bins, dict)
            else self.bins,
            "split": {name: str(share) for name, share in self.shares().items()},
        }

    def assumptions(self) -> tuple[str, ...]:
        return ("the clustering is a function of one record",)

    @classmethod
    def examples(cls, model: Model, schema: Schema) -> Sequence[Explainer]:
        number = next(name for name in schema if isinstance(schema[name], Number))
        feature = schema[number]
        assert isinstance(feature, Number)
        rule = HalfSplit(number, (feature.lo + feature.hi) / 2)
        groups = Clustering(rule, clusters=range(2), features=[number], trained_on="other data", name="halves")
        few = list(schema)[:4]
        return [cls(groups, attributes=few), cls(groups, per_cluster=2, bins=4), cls(groups, method="two-stage", attributes=few)]


def _edges(name: str, given: Any) -> int | tuple[float, ...]:
    if isinstance(given, int | np.integer):
        whole_number(f"bins[{name!r}]", given, 1, 1000)
        return int(given)
    edges = tuple(float(e) for e in given)
    if len(edges) < 2 or any(not a < b for a, b in zip(edges, edges[1:])):
        raise PlanError(f"bins[{name!r}]={list(edges)!r}: edges must increase, and there must be at least two.")
    return edges


def _named_parts(what: str, given: Mapping[str, Any], names: Sequence[str]) -> list[Fraction]:
    """Parts that add up to one, as simple fractions; names that are left out have none."""
    for name in given:
        if name not in names:
            raise PlanError(f"{what}: {name!r} is not known{did_you_mean(name, names)}.")
    parts = [exact(f"{what}[{name!r}]", given.get(name, 0)).limit_denominator(10_000) for name in names]
    if any(p < 0 for p in parts) or abs(sum(parts, Fraction(0)) - 1) > Fraction(1, 1000):
        raise PlanError(f"{what}={dict(given)!r}: give numbers of at least 0 that add up to 1.")
    whole = sum(parts, Fraction(0))
    return [p / whole for p in parts]
