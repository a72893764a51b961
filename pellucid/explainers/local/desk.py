"""Where questions are paid for and answers kept: between a stream, the ledger and the records.

Every charge of a stream carries the stream's key, and the first one of a question the record asked about. What a stream knows is
read back from there, so that a restarted process, or another one with the same stream, goes on from the same place.
"""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import PlanError
from ...ledger import Reservation, charge_units, from_units
from ...ledger.accounting import Amount
from ...mechanisms import Spend, is_private
from ...query import Sum
from ...release.door import Charge, unit_claims
from ...release.explanation import from_json
from ...release.plan import Public
from .bound import Moments
from .design import Design, LocalRows, best_label_weight, moments_of, normaliser
from .exact import ExactMoments, Neighbourhood, PassPerStep
from .individual import IndividualDoor, IndividualMoments, Question, check_individual
from .methods import Door
from .results import LocalExplanation
from .reuse import Answered
from .stream import Settings
from .weights import Limits

if TYPE_CHECKING:
    from ...release.explainer import Explainer
    from ...release.session import Session

COORDINATES_PER_STEP = 100
"""With more coordinates than this for each step, a pass per step is less work than all products once (measured: 77 to 114)."""


@dataclass(frozen=True)
class Opened:
    """What a stream was opened with: the explainer, the slice, and who asks. `key` names the stream in the ledger."""

    session: Session
    explainer: Explainer
    public: Public
    key: str
    request: str
    by: str
    purpose: str


class LedgerDesk:
    """One stream's place at the ledger and at the records. Nothing in here may be shown but through noise."""

    def __init__(self, opened: Opened, settings: Settings, design: Design):
        self._opened, self._settings, self._design = opened, settings, design
        self._session, self._ledger, self._account = opened.session, opened.session._ledger, opened.session.name
        self._near = Neighbourhood(opened.session._engine, design)
        self._records = normaliser(opened.public)
        self._label_weight = self._best_label_weight()
        self._seen, self._spent, self._counted = 0, 0, 0
        self._asked: dict[int, dict[str, Any]] = {}
        self._noise_was_private = is_private()
        self._paid: list[tuple[Reservation, Charge]] = []
        self._private = True
        self._answers: IndividualMoments | None = None
        self._whole: Reservation | None = None
        if settings.individual:
            self._open_accounts()

    def _best_label_weight(self) -> float:
        settings = self._settings
        if settings.method != "one-shot":
            return 1 / settings.radius
        return best_label_weight(settings.weight, self._design.farthest, self._session.neighbors, settings.radius)

    def _open_accounts(self) -> None:
        """One account per record: the whole slice is charged here, once in the life of the stream, and nothing returned."""
        check_individual(self._session.neighbors, self._session.unit)
        opened = self._opened
        for entry, _ in self._ledger.thread(self._account, opened.key):
            if entry.kind == "reserve" and entry.amount:
                self._whole = Reservation(entry.seq, entry.account, entry.amount, entry.hash)
                break
        else:
            units = charge_units(opened.public.spend.amount)
            self._whole = self._ledger.reserve(
                self._account, units, key=opened.key, request=opened.request, by=opened.by, purpose=opened.purpose
            )
        self._answers = IndividualMoments(self._near, opened.public.spend.amount, self._records)

    def news(self) -> list[Answered]:
        if is_private() != self._noise_was_private:
            raise PlanError("the source of noise was exchanged; open the stream again, so that nothing leans on test noise.")
        found = []
        for entry, text in self._ledger.thread(self._account, self._opened.key, after=self._seen):
            self._seen = entry.seq
            self._spent += entry.amount
            if entry.kind == "reserve":
                body = json.loads(entry.request)
                if "asked" in body:
                    self._asked[entry.seq] = body
            elif entry.kind == "commit" and text is not None and entry.refers_to in self._asked:
                told = from_json(text)
                assert isinstance(told, LocalExplanation) and told.certificate is not None
                # An answer from test noise carries no guarantee, so nothing that carries one may lean on it.
                if told.certificate.private or not is_private():
                    found.append(_answered(self._asked[entry.refers_to], entry.refers_to, told))
        return found

    def affordable(self) -> bool:
        return self._settings.individual or charge_units(self._settings.price) <= self._left()

    def _left(self) -> int:
        """What the slice and the account can still pay, in the ledger's units."""
        slice_left = charge_units(self._opened.public.spend.amount) - self._spent
        return max(0, min(slice_left, self._session._account().remaining))

    def spent(self) -> Amount:
        return Amount.of(self._session.budget, from_units(self._spent))

    def remaining(self) -> Amount:
        return Amount.of(self._session.budget, from_units(0 if self._settings.individual else self._left()))

    def door(self, asked: tuple[float, ...], level: float | None) -> Door:
        settings, session = self._settings, self._session
        self._paid, self._private = [], session._noise_is_private()
        question = self._question(asked, level)
        about: dict[str, Any] = {"asked": list(asked), "level": level}
        if self._answers is not None:
            about |= _counted_with(question.asked)

        def pay(charge: Charge) -> None:
            self._pay(replace(charge, claims=(*charge.claims, *unit_claims(session.unit))), about)

        if self._answers is not None:
            return IndividualDoor(self._answers, question.asked, pay, settings.radius)
        rows_per_unit = session.unit.rows_per_unit
        if settings.method != "one-shot" and COORDINATES_PER_STEP * settings.steps < self._design.length:
            return PassPerStep(
                self._near.totals, self._design, asked, settings.weight, self._records, session.neighbors, pay, settings.radius,
                rows_per_unit, level,
            )  # fmt: skip
        return ExactMoments(
            self._near.totals, question.asked, self._records, session.neighbors, pay, settings.radius, rows_per_unit,
            session.budget.currency,
        )  # fmt: skip

    def _question(self, asked: tuple[float, ...], level: float | None) -> Question:
        made = moments_of(self._design, asked, self._settings.weight, self._label_weight, level)
        return Question(made, self._settings.price)

    def _pay(self, charge: Charge, about: dict[str, Any]) -> None:
        """Put the charge on disk; with the first of a question the record asked about."""
        opened = self._opened
        body: dict[str, Any] = {"explainer": "LocalLinear", "stream": opened.key[:16], "stage": charge.stage}
        if not self._paid:
            body |= about
        who = {"key": opened.key, "request": json.dumps(body), "by": opened.by, "purpose": opened.purpose}
        if self._answers is None:
            paid = self._ledger.reserve(self._account, charge_units(charge.amount), **who)
        else:
            paid = self._ledger.prepaid(self._account, **who)
            self._count_others(self._answers, paid)
        self._paid.append((paid, charge))

    def _count_others(self, answers: IndividualMoments, own: Reservation) -> None:
        """Charge every record for all questions on record before this one, whoever asked them and whether or not they were
        answered: a question counts from the moment it is on disk, so two processes cannot use the same account twice."""
        earlier = []
        for entry, _ in self._ledger.thread(self._account, self._opened.key, after=self._counted):
            body = json.loads(entry.request) if entry.kind == "reserve" and entry.seq < own.seq else {}
            if "asked" in body:
                earlier.append((entry.seq, self._asked_before(body)))
        if earlier:
            answers.catch_up([question for _, question in earlier])
            self._counted = earlier[-1][0]

    def _asked_before(self, body: dict[str, Any]) -> Question:
        """A question as it was asked, with the limits it had then, whatever they would be now."""
        made = moments_of(
            self._design, body["asked"], self._settings.weight, body["label_weight"], body["level"], Limits(*body["limits"])
        )
        return Question(made, self._settings.price)

    def keep(self, found: LocalExplanation) -> LocalExplanation:
        first, charges = self._paid[0][0], [charge for _, charge in self._paid]
        spend = self._opened.public.spend
        cost = Spend(spend.currency, sum((charge.amount for charge in charges), Fraction(0)))
        epsilon, _, rho = self._session.budget.guarantee(cost)
        told = replace(found, number=first.seq, rho=rho or 0.0, epsilon=epsilon)
        private = self._session._noise_is_private() and self._private
        certified = self._certified(told, spend if self._whole else cost, charges, private, (self._whole or first).hash)
        self._ledger.commit(first, certified.to_json())
        self._counted = first.seq
        return certified

    def free(self, found: LocalExplanation) -> LocalExplanation:
        return self._certified(found, Spend(self._opened.public.spend.currency, Fraction(0)), [], is_private(), "")

    def _certified(
        self, found: LocalExplanation, cost: Spend, charges: list[Charge], private: bool, entry: str
    ) -> LocalExplanation:
        opened = self._opened
        certificate = self._session._certificate(
            opened.explainer, replace(opened.public, spend=cost), _merged(charges), private, entry, opened.by, opened.purpose
        )
        return found.certified(certificate)

    def compare(self, asked: tuple[float, ...], level: float | None) -> tuple[np.ndarray, np.ndarray]:
        self._ledger.not_private(self._account, "an explanation was compared with the best one without noise")
        question = moments_of(self._design, asked, self._settings.weight, 1.0, level)
        bound = question.bound
        assert isinstance(bound, Moments)
        matrix, vector = bound.matrix(np.array([float(v) for v in self._near.totals(question)]))
        unit = bound.unit / float(self._records)
        return matrix * unit, vector * unit

    def __reduce__(self) -> Any:
        raise TypeError("a stream's desk stands next to records and is not saved; open the stream again")


def _answered(body: dict[str, Any], number: int, told: LocalExplanation) -> Answered:
    std = None if told.std is None else tuple(told.std.tolist())
    return Answered(tuple(body["asked"]), tuple(told.phi.tolist()), number, std, told.excess, told.gain, body["level"])


def _counted_with(asked: Sum) -> dict[str, Any]:
    """What a question's part of everybody's account depends on, beside the record asked about and the price."""
    bound, local = asked.bound, asked.map
    assert isinstance(bound, Moments) and isinstance(local, LocalRows)
    return {"limits": [bound.joint, bound.slope, bound.label], "label_weight": local.label_weight}


def _merged(charges: list[Charge]) -> list[Charge]:
    """Equal steps one after another as one line: a certificate with hundreds of them says no more."""

    def kind(charge: Charge) -> Any:
        return charge.amount, charge.mechanism, charge.sensitivity, charge.noise, charge.bound, charge.claims

    merged = []
    for _, group in itertools.groupby(charges, key=kind):
        own = list(group)
        stage = own[0].stage if len(own) == 1 else f"{own[0].stage} to {own[-1].stage.removeprefix('slope ')}"
        merged.append(replace(own[0], stage=stage, amount=sum((c.amount for c in own), Fraction(0))))
    return merged
