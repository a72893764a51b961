"""H of one feature with every other one, from tables of mean predictions at all pairs of their values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...public.model import Model
from ...public.rows import Rows
from ...query import Sum
from ...query.bounds import Box
from ...release.door import Ask
from ...release.explanation import Explanation
from ...release.plan import Expected, Plan, Public, Stage
from ...sensitivity import Flow
from .energies import debiased
from .results import PairInteractions
from .rounding import Rounding
from .statistic import (
    KNOWN,
    SPREAD_SHARE,
    Layout,
    MeasuredH,
    expected_h,
    grids_of,
    h_of,
    refuse_member,
    rounded,
    rounded_flow,
)


@dataclass(frozen=True, eq=False)
class OnTables:
    """Per record: the predictions with one feature and each other one set to all pairs of their values."""

    model: Model
    first: Rounding
    others: tuple[Rounding, ...]

    def __call__(self, rows: Rows) -> np.ndarray:
        pairs = [self.first.changes(a) | o.changes(b) for o in self.others for a in self.first.values for b in o.values]
        return rows.predict_table(self.model, pairs)


@dataclass(frozen=True)
class PairwiseH(MeasuredH):
    """The part of the joint partial dependence of two features that no sum of an effect of each explains."""

    feature: str
    """The feature whose pairs are asked about."""

    finest = 6
    share = 1 - SPREAD_SHARE

    @property
    def features(self) -> tuple[str, ...]:
        return (self.feature,)

    def box(self, sizes: dict[str, int], public: Public) -> Box:
        # H does not change when all predictions are scaled, so the number of records is not needed.
        return Box(sizes[self.feature] * sum(self._others(sizes).values()), *self.model.output)

    def _others(self, sizes: dict[str, int]) -> dict[str, int]:
        return {name: size for name, size in sizes.items() if name != self.feature}

    def plan(self, public: Public) -> Plan:
        refuse_member(self.feature, self.parts(public.schema))
        return Plan(public, (self.spread(public), Stage("tables", self.share)), self.layout(public))

    def run(self, ask: Ask) -> Explanation:
        layout: Layout = ask.plan.details
        features, total = rounded(ask, layout)
        first = next(feature for feature in features if feature.name == self.feature)
        others = tuple(feature for feature in features if feature.name != self.feature)
        answer = ask.total("tables", Sum(OnTables(self.model, first, others), layout.box, columns=layout.columns))
        radius = self.model.range / 2
        surface, law = layout.box.centre + radius * answer.numbers / total, answer.noise.times(radius / total)
        ends = np.cumsum([len(first.values) * len(other.values) for other in others])[:-1]
        squares = []
        for other, table in zip(others, np.split(surface, ends)):
            rest, whole, least = debiased(table.reshape(len(first.values), -1), first.weights, other.weights, law.std**2)
            squares.append(rest / max(whole, least))
        return PairInteractions(
            features=tuple(other.name for other in others),
            feature=self.feature,
            values=h_of(squares),
            squares=np.array(squares),
            grids=grids_of((first, *others), ask.public.schema),
            weights=np.concatenate([feature.weights for feature in (first, *others)]),
            surface=surface,
            law=law,
        )

    def expected(self, plan: Plan) -> Expected:
        layout: Layout = plan.details
        others = self._others(layout.sizes)
        noise = layout.noise.std / 2 / plan.public.planning_rows
        cells = np.array(list(others.values()), dtype=float) * layout.sizes[self.feature]
        return expected_h(tuple(f"{self.feature} × {name}" for name in others), cells, noise, 2 * noise**4 / cells)

    def flow(self, plan: Plan | None = None) -> Flow:
        return (
            rounded_flow()
            .stage("tables", *KNOWN, needs="answers in the declared range")
            .output("explanation", "spread", "tables", needs="means taken off, squares, the noise's share taken off")
        )
