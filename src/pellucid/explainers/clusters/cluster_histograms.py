"""Explaining clusters: the attributes that tell them apart, chosen privately, and their histograms inside and outside."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from ...errors import PlanError
from ...mechanisms import Choosing, NoiseLaw, exact
from ...public.black_box import BlackBox
from ...public.clustering import Clustering
from ...public.fingerprint import fingerprinted_as
from ...public.frozen import settle
from ...public.grids import histogram_bins
from ...public.model import Model
from ...public.schema import Category, Number, Schema, did_you_mean
from ...query import Choice
from ...query.bounds import CrossCells
from ...release.answer import Answer
from ...release.door import Ask
from ...release.explainer import Explainer, has_own_predictor
from ...release.explanation import Explanation
from ...release.plan import Expected, Plan, Public, Stage, later
from ...release.uncounted import Uncounted, absent_words
from ...sensitivity import Flow
from ..common.base import keep_whole_number, once_positional, whole_number
from .counting import Attribute, Layout
from .results import ClusterExplanation, ClusterHistogram, reconcile
from .scores import CandidateScore, CombinationScore
from .telling import told_from

WEIGHTS = ("interest", "sufficiency", "diversity")
METHODS = ("joint", "two-stage")
USEFUL = 0.1
"""A difference of shares that is worth telling."""
MOST_WORK = 20_000_000
"""Clusters squared times values: beyond this, scoring pairs of clusters takes minutes."""


@fingerprinted_as("pellucid.explainers.cluster_histograms", "HalfSplit")
@dataclass(frozen=True)
class HalfSplit:
    """Puts a record into the lower or the upper half of a column's declared range; for examples and tests."""

    feature: str
    middle: float

    def __call__(self, frame: Any) -> np.ndarray:
        return (np.asarray(frame[self.feature], dtype=float) > self.middle).astype(int)


@dataclass(frozen=True)
class Design:
    """What a plan settles beside its stages."""

    layout: Layout
    """The cells of every attribute."""
    score: CombinationScore
    """Of the choice among all attributes."""
    how: Choosing
    """How sharp the choice is: the same among candidates as among all attributes."""


@once_positional("weights", "attributes", "method", "candidates", "bins", "split")
@dataclass(frozen=True)
class ClusterHistograms(Explainer):
    """Why is this cluster a cluster? One attribute for each, or a few, with its histogram inside and elsewhere.

    Released: which attributes, by one private draw over *all* combinations (`method="joint"`), or per-cluster candidates
    first (`method="two-stage"`, the published structure with smaller constants); then noisy histograms of the chosen attributes
    only. A good combination is interesting (unlike the whole), sufficient (tells the cluster apart) and diverse (different
    clusters, different attributes). Records whose cell is missing, unreadable or not a declared value count in the choice, as a
    value of their own, and not in the histograms, unless the schema declares what stands for them; `.uncounted` of a histogram
    says how many of the cluster there are.

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
    """The clustering to explain."""
    per_cluster: int = 1
    """How many attributes each cluster gets."""
    _: KW_ONLY
    weights: Mapping[str, float] | None = None
    """What counts in a combination: interest, sufficiency and diversity, adding up to 1; left out, a third each."""
    attributes: Sequence[str] | None = None
    """The columns to choose from; left out, all."""
    method: str = "joint"
    """One draw over all combinations, or "two-stage": candidates for each cluster first."""
    candidates: int = 3
    """How many candidates a cluster has in two stages."""
    bins: int | Mapping[str, Any] | None = None
    """How many bins numbers get, or bins or edges by name."""
    split: Mapping[str, float] | None = None
    """Parts of the spend for the choice, the histograms inside and those of the whole; left out, a half and two quarters."""

    private_grid = True
    """Which histograms are released is itself a private answer, so their lengths may differ from release to release."""
    stored_as = "pellucid.explainers.cluster_histograms.ClusterHistograms"
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
        if self.per_cluster is None or self.candidates is None:
            raise PlanError("per_cluster= and candidates= are whole numbers from 1 on; leave them out for 1 and 3.")
        keep_whole_number(self, "per_cluster", 1, 8)
        keep_whole_number(self, "candidates", 1, 64)
        if self.method not in METHODS:
            raise PlanError(f"method={self.method!r}: use 'joint' or 'two-stage'.")
        if isinstance(self.bins, int | np.integer) or self.bins is None:
            keep_whole_number(self, "bins", 1, 1000)
        elif not isinstance(self.bins, Mapping):
            raise PlanError(f"bins={self.bins!r}: give a whole number, or numbers of bins or edges by column name.")
        else:
            settle(self, bins={str(k): _edges(str(k), v) for k, v in self.bins.items()})
        if self.attributes is not None:
            given = (self.attributes,) if isinstance(self.attributes, str) else self.attributes
            names = tuple(given) if isinstance(given, Iterable) else ()
            if not names or not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
                raise PlanError(f"attributes={self.attributes!r}: give different column names, at least one.")
            settle(self, attributes=names)
        self.weight_numbers()
        self.shares()

    def weight_numbers(self) -> tuple[int, int, int]:
        """Interest, sufficiency and diversity as whole numbers with the same ratios."""
        parts = _named_parts("weights", dict.fromkeys(WEIGHTS, 1 / 3) if self.weights is None else self.weights, WEIGHTS)
        bottom = math.lcm(*(p.denominator for p in parts))
        return tuple(int(p * bottom) for p in parts)  # type: ignore[return-value]

    def shares(self) -> dict[str, Fraction]:
        """The stages and their parts of the spend."""
        names = ("choice", "inside", "whole")
        given = {"choice": 0.5, "inside": 0.25, "whole": 0.25} if self.split is None else self.split
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

    def leaves_out(self, schema: Schema) -> tuple[str, ...]:
        return tuple(name for name in self.names(schema) if schema[name].excludes)

    def cells(self, schema: Schema) -> tuple[Attribute, ...]:
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

    def plan(self, public: Public) -> Plan:
        layout, shares = Layout(self.groups, public.schema, self.cells(public.schema)), self.shares()
        bound = layout.bound
        if bound.groups * bound.size > MOST_WORK:
            raise PlanError(
                f"{bound.groups} clusters with {sum(bound.sizes)} values are too many to score; use fewer or wider bins."
            )
        counts = layout.counts()
        score = CombinationScore(bound.groups, bound.sizes, *self.weight_numbers(), self.per_cluster)
        whole = public.stage("choice", Choice(counts, score), shares["choice"])
        assert isinstance(whole.how, Choosing)
        choices = [whole]
        if self.method == "two-stage":
            k = min(max(self.candidates, self.per_cluster), len(bound.sizes))
            candidates = Choice(counts, self.candidate_score(bound), k)
            choices = [public.stage("candidates", candidates, shares["candidates"]), Stage("choice", shares["choice"])]
        histograms = later((name, shares[name]) for name in ("inside", "whole"))
        return Plan(public, (*choices, *histograms), details=Design(layout, score, whole.how))

    def candidate_score(self, bound: CrossCells) -> CandidateScore:
        interest, sufficiency, _ = self.weight_numbers()
        if not interest + sufficiency:
            raise PlanError(
                "method='two-stage' ranks candidates by interest and sufficiency; give one of them a weight, or use 'joint'."
            )
        return CandidateScore(bound.groups, bound.sizes, interest, sufficiency)

    def run(self, ask: Ask) -> Explanation:
        design: Design = ask.plan.details
        among = None
        if self.method == "two-stage":
            candidates = tuple(tuple(sorted(row)) for row in ask.choose("candidates"))
            among = Choice(design.layout.counts(), replace(design.score, candidates=candidates))
        chosen = [sorted(row) for row in ask.choose("choice", among)]
        used = sorted({a for row in chosen for a in row})
        inside = ask.total("inside", design.layout.inside(chosen))
        whole = ask.total("whole", design.layout.whole(used))
        return self._explanation(design.layout, chosen, used, inside, whole)

    @staticmethod
    def _uncounted(attribute: Attribute, layout: Layout, raw: np.ndarray, inside: Answer) -> Uncounted | None:
        """How many of a cluster have no value, from the last cell of its histogram."""
        name, bins = attribute
        if not bins.feature.excludes:
            return None
        words = absent_words((name,), layout.schema)
        return Uncounted((name,), words, float(raw[-1]), float(raw.sum()), inside.noise, len(raw) - 1)

    def _explanation(
        self, layout: Layout, chosen: list[list[int]], used: list[int], inside: Answer, whole: Answer
    ) -> ClusterExplanation:
        histograms = layout.histograms_inside(chosen, inside)
        weight = (inside.noise.std / whole.noise.std) ** 2 if whole.noise.std > 0 else 1.0
        parts: dict[str, Explanation] = {}
        for a, noisy_whole in layout.histograms_whole(used, whole).items():
            users = [(c, row.index(a)) for c, row in enumerate(chosen) if a in row]
            noisy = np.array([histograms[c][j] for c, j in users])
            fitted, everybody = reconcile(noisy, noisy_whole, max(weight, 1e-9))
            name, bins = layout.attributes[a]
            own = slice(bins.cells)  # without the cell of records that have no value
            for (c, j), raw, counts in zip(users, noisy, fitted):
                parts[f"{c}.{j}"] = ClusterHistogram(
                    cluster=self.groups.clusters[c],
                    feature=name,
                    x=bins.labels,
                    inside=counts[own],
                    rest=(everybody - counts)[own],
                    noisy_inside=raw[own],
                    noisy_whole=noisy_whole[own],
                    inside_law=inside.noise,
                    whole_law=whole.noise,
                    edges=bins.edges,
                    ordered=not isinstance(bins.feature, Category) or bins.feature.ordered,
                    integer=isinstance(bins.feature, Number) and bins.feature.integer,
                    uncounted=self._uncounted((name, bins), layout, raw, inside),
                )
        order = [f"{c}.{j}" for c in range(len(chosen)) for j in range(self.per_cluster)]
        return ClusterExplanation(
            clusters=self.groups.clusters, per_cluster=self.per_cluster, parts={key: parts[key] for key in order}
        )

    def flow(self, plan: Plan | None = None) -> Flow:
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

    def expected(self, plan: Plan) -> Expected:
        design: Design = plan.details
        layout, clusters = design.layout, len(self.groups.clusters)
        sizes = layout.bound.sizes
        largest = sorted(range(len(sizes)), key=lambda a: -sizes[a])[: self.per_cluster]
        law = plan.public.stage("inside", layout.inside([largest] * clusters), plan["inside"].share).noise
        count = clusters * math.log(math.comb(len(sizes), self.per_cluster))
        short = (count + math.log(20)) / float(design.how.rate) / design.score.scale / layout.bound.one
        notes: tuple[str, ...] = (
            f"the choice: with 95 % probability its score is within {short:.3g} records of the best combination's "
            f"(scores of good combinations are about the size of a cluster)",
        )
        if clusters > 13 and self.method == "joint":
            notes += ("with more than 13 clusters the exact draw can take long on unlucky data; 'two-stage' draws from fewer",)
        notes += (self._verdict(plan, law, largest),)
        labels = tuple(f"count inside cluster {label}" for label in self.groups.clusters)
        return Expected(labels, np.full(len(labels), law.half_width(0.95)), law.gap(0.95), notes)

    def _verdict(self, plan: Plan, inside: NoiseLaw, largest: Sequence[int]) -> str:
        """What differences sentences will tell, for clusters of equal size, of 1,000 people where no number is public."""
        public, clusters, layout = plan.public, len(self.groups.clusters), plan.details.layout
        whole = public.stage("whole", layout.whole(largest), plan["whole"].share).noise
        known = public.rows if public.rows is not None else public.expected_rows
        people = known / clusters if known else 1000.0
        cells = layout.attributes[largest[0]][1].cells
        needed = told_from(people, people * (clusters - 1), cells, (inside, whole))
        who = f"clusters of about {people:,.0f} people and {cells} values"
        if needed >= 1:
            more = needed / USEFUL
            return f"verdict: mostly noise; in {who} no share can be told; {_enough(more, known)} would do"
        said = f"verdict: in {who}, sentences tell shares that differ by {100 * needed:.2g} points or more"
        return said if needed <= USEFUL else f"{said}; {_enough(needed / USEFUL, known)} would tell {100 * USEFUL:.0f}"

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
        return () if has_own_predictor(self.groups) else ("the clustering is a function of one record",)

    @classmethod
    def examples(cls, model: Model, schema: Schema) -> Sequence[Explainer]:
        number = next(name for name in schema if isinstance(schema[name], Number))
        feature = schema[number]
        assert isinstance(feature, Number)
        rule = HalfSplit(number, (feature.lo + feature.hi) / 2)
        groups = Clustering(rule, clusters=range(2), features=[number], trained_on="other data", name="halves")
        few = list(schema)[:4]
        return [cls(groups, attributes=few), cls(groups, per_cluster=2, bins=4), cls(groups, method="two-stage", attributes=few)]


def _enough(more: float, known: int | None) -> str:
    """So many times the people or the ε: the error of a share goes with one over both."""
    epsilon = f"{more:.2g} times the ε"
    return f"{known * more:,.0f} people or {epsilon}" if known else epsilon


def _edges(name: str, given: Any) -> int | tuple[float, ...]:
    if isinstance(given, int | np.integer):
        whole_number(f"bins[{name!r}]", given, 1, 1000)
        return int(given)
    try:
        edges = tuple(float(e) for e in given)
    except (TypeError, ValueError, OverflowError):
        raise PlanError(f"bins[{name!r}]={given!r}: give a whole number, or edges that increase.") from None
    if len(edges) < 2 or any(not a < b for a, b in zip(edges, edges[1:])):
        raise PlanError(f"bins[{name!r}]={list(edges)!r}: edges must increase, and there must be at least two.")
    return edges


def _named_parts(what: str, given: Mapping[str, Any], names: Sequence[str]) -> list[Fraction]:
    """Parts that add up to one, as simple fractions; names that are left out have none."""
    if not isinstance(given, Mapping):
        raise PlanError(f"{what}={given!r}: give parts by name, {', '.join(names)}.")
    for name in given:
        if name not in names:
            raise PlanError(f"{what}: {name!r} is not known{did_you_mean(name, names)}.")
    parts = [exact(f"{what}[{name!r}]", given.get(name, 0)).limit_denominator(10_000) for name in names]
    if any(p < 0 for p in parts) or abs(sum(parts, Fraction(0)) - 1) > Fraction(1, 1000):
        raise PlanError(f"{what}={dict(given)!r}: give numbers of at least 0 that add up to 1.")
    whole = sum(parts, Fraction(0))
    return [p / whole for p in parts]
