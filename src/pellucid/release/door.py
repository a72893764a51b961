"""The door: the only place where exact totals meet noise. What leaves it was charged, calibrated and drawn for.

An explainer gets an `Ask`, whose stages were planned and paid for as a whole. A stream gets a `PaidAsk` for each of its
questions, which charges every step just before it is taken. Both answer with noisy totals and private choices alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from ..engine import shielded
from ..errors import PlanError
from ..mechanisms import Choosing, Mechanism, Spend, add_noise
from ..query import Choice, Query, Reading, Sum, released_parts
from .answer import Answer
from .charge import Charge, choice_charge, noise_charge
from .individual import IndividualAccounts
from .plan import Plan, Public, Stage

Totals = Callable[[Any], list[int]]
"""Exact integer totals of a query: an engine's, or those of records that were read before."""

Pay = Callable[[Charge], None]
"""Makes a charge durable, or refuses it by raising, before anything is read."""


class Door:
    """Charges, reads, adds noise. Exact totals of sums that are held stay behind it, for as long as the door is there."""

    def __init__(self, totals: Totals, public: Public, pay: Pay):
        self.public = public
        self._read, self._pay = totals, pay
        self._held: list[tuple[Sum, list[int] | None]] = []

    def hold(self, query: Sum) -> Sum:
        """Read this sum once, when it is first paid for, and keep its exact totals for further readings."""
        self._held.append((query, None))
        return query

    def _charge(self, stage: str, query: Query, how: Mechanism, spend: Spend, claims: tuple[str, ...]) -> Charge:
        return noise_charge(stage, spend.amount, query, how, self.public, *claims)

    def _totals(self, query: Query, how: Mechanism) -> list[int]:
        """Exact integers that this noise will be added to."""
        if not isinstance(query, Reading):
            return self._exact(query)
        return query.image.of(self._exact(query.of))

    def _exact(self, query: Any) -> list[int]:
        for i, (held, known) in enumerate(self._held):
            if held is query:
                if known is None:
                    known = self._read(query)
                    self._held[i] = (held, known)
                return known
        return self._read(query)

    def _noisy(self, stage: str, query: Query, how: Mechanism, spend: Spend, *claims: str) -> Answer:
        """Noisy totals: exact integers plus one calibrated draw."""
        _check_cost(how.cost, spend)
        self._pay(self._charge(stage, query, how, spend, claims))
        integers = shielded(lambda: add_noise(self._totals(query, how), how))
        return Answer(tuple(integers), tuple(part.released for part in released_parts(query)), how.law, self.public.rows)

    def _chosen(self, stage: str, choice: Choice, how: Choosing, spend: Spend) -> list[Any]:
        """A private choice by exact totals."""
        _check_cost(how.cost, spend)
        self._pay(choice_charge(stage, spend.amount, choice, how, self.public))
        return shielded(lambda: choice.score.pick(self._exact(choice.of), how))

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def __reduce__(self) -> Any:
        raise TypeError("a door stands next to records and is not saved")


def _check_cost(cost: Fraction, spend: Spend) -> None:
    if cost > spend.amount:
        raise AssertionError("calibration would cost more than the stage was charged")


@dataclass
class Ask:
    """Answers the questions of one planned release. Each stage is used once, with the share it was planned with."""

    totals: Totals = field(repr=False)
    plan: Plan
    charges: list[Charge] = field(default_factory=list)

    def __post_init__(self) -> None:
        # The whole release is on disk in the ledger before this door is made.
        self._door = Door(self.totals, self.plan.public, self.charges.append)

    @property
    def public(self) -> Public:
        return self.plan.public

    def total(self, stage: str, query: Query | None = None) -> Answer:
        """Noisy totals of a stage; `query` where earlier answers decided what is asked."""
        planned = self._open(stage, query)
        assert not isinstance(planned.query, Choice) and planned.query is not None
        return self._door._noisy(stage, planned.query, planned.mechanism, self.plan.spend(planned))

    def choose(self, stage: str, choice: Choice | None = None) -> list[Any]:
        """A private choice: positions of the chosen candidates, best first."""
        planned = self._open(stage, choice)
        assert isinstance(planned.query, Choice) and isinstance(planned.how, Choosing)
        return self._door._chosen(stage, planned.query, planned.how, self.plan.spend(planned))

    def _open(self, name: str, query: Query | Choice | None) -> Stage:
        planned = self.plan[name]
        if any(charge.stage == name for charge in self.charges):
            raise PlanError(f"stage {name!r} was used already; plan one stage per question.")
        if (query is None) == (planned.query is None):
            raise PlanError(f"stage {name!r}: a query is given where the plan has none, and only there.")
        return planned if query is None else self.public.stage(name, query, planned.share)


class PaidAsk(Door):
    """Answers one question of a stream: every step has its own price, and is charged before it is taken."""

    def total(self, stage: str, query: Query, amount: Fraction, *claims: str) -> Answer:
        """Noisy totals for this amount; `claims` are theorems it rests on besides those of its bound."""
        return self._noisy(stage, query, self.mechanism(query, amount), self._spend(amount), *claims)

    def choose(self, stage: str, choice: Choice, amount: Fraction) -> list[Any]:
        """A private choice for this amount."""
        how = replace(self.public, spend=self._spend(amount)).choosing(choice)
        return self._chosen(stage, choice, how, self._spend(amount))

    def mechanism(self, query: Query, amount: Fraction) -> Mechanism:
        """The noise a query would get for this amount. Nothing is read."""
        return replace(self.public, spend=self._spend(amount)).mechanism(query)

    def _spend(self, amount: Fraction) -> Spend:
        return Spend(self.public.spend.currency, amount)


class IndividualAsk(Door):
    """Answers one question of a stream with one account per record. Nothing is charged: all of the slice was, at the opening."""

    def __init__(self, accounts: IndividualAccounts, public: Public, pay: Pay):
        super().__init__(_no_totals, public, pay)
        self._accounts = accounts

    @staticmethod
    def mechanism(public: Public, query: Sum, amount: Fraction) -> Mechanism:
        """The noise of a question, at the price that the worst conceivable record would pay."""
        return replace(public, spend=Spend("rho", amount)).mechanism(query)

    def total(self, stage: str, query: Sum, amount: Fraction) -> Answer:
        """Noisy totals over the records that can still pay for them. Claim: individual-filter"""
        return self._noisy(stage, query, self.mechanism(self.public, query, amount), Spend("rho", amount), "individual-filter")

    def _charge(self, stage: str, query: Query, how: Mechanism, spend: Spend, claims: tuple[str, ...]) -> Charge:
        (part,) = released_parts(query)
        worth = f"{part.released.scale_text}; each record pays its own part of the guarantee charged at the opening"
        return noise_charge(stage, Fraction(0), query, how, self.public, *claims, worth=worth)

    def _totals(self, query: Query, how: Mechanism) -> list[int]:
        assert isinstance(query, Sum)
        return self._accounts.totals(query, how.scale)


def _no_totals(query: Any) -> list[int]:
    raise AssertionError("under individual accounting totals are those of the records that can pay")
