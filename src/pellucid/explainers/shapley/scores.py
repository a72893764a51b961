"""Scores for ranking features by their Shapley values: exact totals of clipped vectors, signed or absolute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...errors import PlanError
from ...mechanisms import Choosing, Spend, calibrate_choice, choose
from ...public.schema import Relation
from ...query.bound import Bound
from ...query.reviewed import reviewed
from ...query.scores import Score
from .bound import ShapleyVectors


@reviewed
@dataclass(frozen=True)
class ShapleyScore(Score):
    """Feature j is scored by its total Shapley value, or with `absolute` by the size of it.

    `records` is the public number the mean is taken over: the number of records where it is public, a public guess under
    add-remove. Signed scores do not need it as long as all features have the same centre. The span is that of the enforced
    set. Both mechanisms depend on differences of scores alone, so permute-and-flip pays for half the span up or down,
    whatever the changes of all scores have in common.
    Claim: shapley-span
    """

    bound: ShapleyVectors
    records: int = 0
    absolute: bool = True
    claim = "shapley-span"

    def __post_init__(self) -> None:
        if self.bound.count or self.bound.positive or not self.bound.ranked:
            raise PlanError("ShapleyScore ranks values alone, by their spread: plan them with ranked=True and count=False.")
        if self.records < (1 if self.absolute or self.bound.shares else 0):
            raise PlanError(f"records={self.records!r}: these values are those of a mean; say over how many records.")

    def fits(self, bound: Bound) -> bool:
        return bound == self.bound

    def calibrate(self, relation: Relation, units: int, spend: Spend, k: int) -> Choosing:
        if not 1 <= k <= self.bound.length:
            raise PlanError(f"k={k}: choose 1 to {self.bound.length} features.")
        half = -(-self.span(relation, units) // 2)
        return calibrate_choice(2 * half, half, spend, k)

    def pick(self, totals: Sequence[int], how: Choosing) -> list[Any]:
        return choose(self.of(totals), how)

    def of(self, totals: Sequence[int]) -> list[int]:
        """One integer per feature; larger is better."""
        whole = [int(t) + self.records * int(c) for t, c in zip(totals, self.bound.offset, strict=True)]
        return [abs(v) for v in whole] if self.absolute else whole

    def span(self, relation: Relation, units: int) -> int:
        """Bound on (largest minus smallest change of the scores) between neighbours; `units` is the largest coordinate."""
        limits = self.bound.limits
        inside = limits.pair if self.absolute else limits.spread
        whole = (2 if relation == "replace" else 1) * inside * units
        return -(-whole // limits.linf)

    def largest(self, relation: Relation, units: int) -> int:
        """Bound on the largest change of a score between neighbours: more than half the span, where all move together."""
        return (2 if relation == "replace" else 1) * units
