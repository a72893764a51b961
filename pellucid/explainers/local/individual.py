"""One account per record instead of one for the worst conceivable record. Add-remove only.

A question's noise is fixed in advance, so what it costs a record is the squared length of what that record brings. A record far
away from what is asked about brings little and pays little; at the first question that it cannot pay it silently stops
counting, for good. Who still counts, and what anyone has paid, never leaves this module.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from ...engine import shielded
from ...engine.progress import track
from ...errors import PlanError
from ...mechanisms import Mechanism, Spend, add_noise
from ...public.schema import Relation, Unit
from ...query.kinds import Sum
from ...release.door import Charge
from ...sensitivity import IndividualFilter
from .bound import Moments
from .design import LocalRows, read_moments
from .exact import Neighbourhood, Pay, moments_mechanism, noise_charge
from .methods import NoisyMoments, NoisySlope


@dataclass(frozen=True)
class Question:
    """What decides everybody's charge: the sum asked for, and the price the worst conceivable record would pay."""

    asked: Sum
    price: Fraction

    def mechanism(self) -> Mechanism:
        return moments_mechanism(self.asked, "add-remove", Spend("rho", self.price))

    def charge(self, stage: str) -> Charge:
        """What goes on the certificate: the noise, and that no amount is added to what was charged at the opening."""
        bound = self.asked.bound
        worth = f"{bound.scale_text}; each record pays its own part of the guarantee charged at the opening"
        whole = noise_charge(stage, bound, "add-remove", self.mechanism(), self.price, worth, "individual-filter")
        return replace(whole, amount=Fraction(0))


class IndividualMoments:
    """Answers one-shot questions under one guarantee B = `rho` for everybody, charged as a whole when it is opened.

    After a restart the accounts are computed again from the questions asked before, by `catch_up`; they are never stored.
    Claims: local-moments, individual-filter
    """

    __slots__ = ("_filter", "_neighbourhood", "_records")

    def __init__(
        self,
        neighbourhood: Neighbourhood,
        rho: Fraction,
        records: Fraction | int,
        relation: Relation = "add-remove",
        unit: Unit | None = None,
    ):
        check_individual(relation, unit or Unit())
        self._neighbourhood, self._records = neighbourhood, Fraction(records)
        self._filter = shielded(lambda: IndividualFilter(rho, neighbourhood.people, for_good=True))

    def catch_up(self, earlier: Sequence[Question]) -> None:
        """Charge everybody for questions that were asked elsewhere or before a restart, in order. Nothing is released."""
        for question in track(earlier, len(earlier), "counting earlier questions"):
            shielded(lambda question=question: self._admitted(self._filter, question))  # type: ignore[misc]

    @property
    def rho(self) -> Fraction:
        """The guarantee of everybody."""
        return self._filter.rho

    def answer(self, question: Question) -> NoisyMoments:
        """A and b over the records that can still afford the question."""
        mechanism = question.mechanism()
        noisy = shielded(lambda: add_noise(self._totals(question), mechanism))
        return read_moments(noisy, question.asked, mechanism.law, self._records)

    def _admitted(self, accounts: IndividualFilter, question: Question) -> list[np.ndarray]:
        """Integer rows, batch by batch, with those that cannot pay set to nothing; everybody else is charged."""
        bound, local = question.asked.bound, question.asked.map
        assert isinstance(bound, Moments) and isinstance(local, LocalRows)
        pieces = [bound.integers(local.of(x, f)) for x, f, _ in self._neighbourhood.batches()]
        lengths = np.concatenate([bound.squared_lengths(z) for z in pieces]) if pieces else np.empty(0, dtype=np.int64)
        admitted = accounts.admit(lengths, question.mechanism().scale)
        start = 0
        for z in pieces:
            z[~admitted[start : start + len(z)]] = 0
            start += len(z)
        return pieces

    def _totals(self, question: Question) -> list[int]:
        bound = question.asked.bound
        assert isinstance(bound, Moments)
        total = [0] * bound.size
        for z in self._admitted(self._filter, question):
            total = [a + b for a, b in zip(total, bound.products(z))]
        return total

    def __repr__(self) -> str:
        return f"IndividualMoments(rho={float(self.rho):g})"

    def __reduce__(self) -> Any:
        raise TypeError("IndividualMoments holds secrets and is not saved; it is computed again from released answers")


class IndividualDoor:
    """The door of one question under individual accounting: A and b, once. Nothing is charged: all of B was, at the opening."""

    def __init__(self, answers: IndividualMoments, asked: Sum, pay: Pay, radius: float = 1.0):
        bound, local = asked.bound, asked.map
        assert isinstance(bound, Moments) and isinstance(local, LocalRows)
        self._answers, self._asked, self._pay = answers, asked, pay
        self.length, self.radius, self.longest = bound.length, radius, 2 * bound.joint

    def moments(self, stage: str, rho: Fraction) -> NoisyMoments:
        question = Question(self._asked, rho)
        self._pay(question.charge(stage))
        return self._answers.answer(question)

    def slope(self, stage: str, phi: np.ndarray, rho: Fraction) -> NoisySlope:
        raise PlanError("individual accounting answers by method='one-shot'.")

    def start(self, stage: str, candidates: Sequence[np.ndarray], rho: Fraction) -> int:
        raise PlanError("individual accounting answers by method='one-shot'.")


def check_individual(relation: Relation, unit: Unit) -> None:
    """Refuse where a record's own account is not proved to be enough."""
    if relation != "add-remove":
        raise PlanError("individual accounting is proved for add-remove only: open the session with neighbors='add-remove'.")
    if unit.column or unit.max_rows > 1:
        raise PlanError("individual accounting counts records: it is not offered where a person may have several rows.")
