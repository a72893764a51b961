"""What planning sees, and what it settles."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from ..errors import PlanError
from ..mechanisms import Mechanism, Spend, calibrate
from ..public.schema import Relation, Schema, Unit
from ..query.kinds import Joint, Sum, relative_scales, sensitivity


@dataclass(frozen=True)
class Public:
    """All that planning may look at. Under add-remove `rows` is None: the number of records is secret."""

    schema: Schema
    relation: Relation
    unit: Unit
    spend: Spend
    rows: int | None
    expected_rows: int | None = None

    @property
    def count_needed(self) -> bool:
        """Whether a mean has to learn the number of records from noise."""
        return self.rows is None

    @property
    def planning_rows(self) -> int:
        """Rows to plan grids and error bars with: the public number, or the public guess."""
        if self.rows is not None:
            return max(self.rows, 1)
        if self.expected_rows is None:
            raise PlanError(
                "under add-remove the number of records is secret, so a preview needs a public guess: "
                "open the session with expected_rows=, for example expected_rows=10_000."
            )
        return self.expected_rows

    @property
    def rows_or_default(self) -> int:
        """As planning_rows, with a modest guess where none was given: only the grid depends on it, never the noise."""
        return self.planning_rows if self.rows is not None or self.expected_rows is not None else 10_000

    @property
    def epsilon_like(self) -> float:
        """The spend as a pure ε of about the same noise: what rules for grids and intervals are written in."""
        amount = float(self.spend.amount)
        return amount if self.spend.currency == "epsilon" else (2 * amount) ** 0.5

    def mechanism(self, query: Sum | Joint, share: Fraction = Fraction(1)) -> Mechanism:
        """The noise this query would get for a share of the spend."""
        norms = sensitivity(query, self.relation, self.unit.rows_per_unit)
        return calibrate(norms, query.size, self.spend.part(share), relative_scales(query))
