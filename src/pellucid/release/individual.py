"""One account per record instead of one for the worst conceivable record. Add-remove only.

A question's noise is fixed in advance, so what it costs a record is the squared length of what that record brings. A record that
brings little pays little; at the first question that it cannot pay it silently stops counting, for good. Who still counts, and
what anyone has paid, never leaves this module.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from ..engine import Prepared, shielded
from ..engine.progress import track
from ..errors import PlanError
from ..public.schema import Relation, Unit
from ..query import Sum
from ..query.bound import MeasuredBound
from ..sensitivity import IndividualFilter


class IndividualAccounts:
    """Exact totals over the records that can still pay, under one guarantee B = `rho` for everybody.

    After a restart the accounts are computed again from the questions asked before, by `catch_up`; they are never stored.
    Claim: individual-filter
    """

    __slots__ = ("_filter", "_prepared")

    def __init__(self, prepared: Prepared, rho: Fraction, relation: Relation, unit: Unit):
        check_individual(relation, unit)
        self._prepared = prepared
        self._filter = shielded(lambda: IndividualFilter(rho, prepared.rows, for_good=True))

    def totals(self, asked: Sum, scale: Fraction) -> list[int]:
        """The totals over everybody who can pay for noise of this scale; they are charged for it."""
        bound = _measured(asked)
        total = [0] * bound.size
        for rows in self._admitted(asked, scale):
            total = [a + b for a, b in zip(total, bound.total_of(rows))]
        return total

    def catch_up(self, earlier: Sequence[tuple[Sum, Fraction]]) -> None:
        """Charge everybody for (question, scale of its noise) asked elsewhere or before a restart, in order."""
        for asked, scale in track(earlier, len(earlier), "counting earlier questions"):
            shielded(lambda asked=asked, scale=scale: self._admitted(asked, scale))  # type: ignore[misc]

    def _admitted(self, asked: Sum, scale: Fraction) -> list[np.ndarray]:
        """Integer rows, batch by batch, with those that cannot pay set to nothing; everybody else is charged."""
        bound, local = _measured(asked), asked.map
        pieces = [bound.integers(local.of(*read)) for *read, _ in self._prepared.batches()]  # type: ignore[attr-defined]
        lengths = np.concatenate([bound.squared_lengths(z) for z in pieces]) if pieces else np.empty(0, dtype=np.int64)
        admitted = self._filter.admit(lengths, scale)
        start = 0
        for z in pieces:
            z[~admitted[start : start + len(z)]] = 0
            start += len(z)
        return pieces

    def __repr__(self) -> str:
        return f"IndividualAccounts(rho={float(self._filter.rho):g})"

    def __reduce__(self) -> Any:
        raise TypeError("IndividualAccounts holds secrets and is not saved; it is computed again from released answers")


def _measured(asked: Sum) -> MeasuredBound:
    if not isinstance(asked.bound, MeasuredBound):
        raise PlanError(
            f"{type(asked.bound).__name__} does not tell what a single record brings; individual accounting needs it."
        )
    return asked.bound


def check_individual(relation: Relation, unit: Unit) -> None:
    """Refuse where a record's own account is not proved to be enough."""
    if relation != "add-remove":
        raise PlanError("individual accounting is proved for add-remove only: open the session with neighbors='add-remove'.")
    if unit.column or unit.max_rows > 1:
        raise PlanError("individual accounting counts records: it is not offered where a person may have several rows.")
