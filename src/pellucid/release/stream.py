"""Streams: questions one after another, each paid for step by step, all of them kept in the ledger.

Every charge of a stream carries the stream's key, and the first one of a question what was asked. What a stream knows is read
back from there, so that a restarted process, or another one with the same stream, goes on from the same place.
"""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Protocol, Self

from ..engine import Engine, Prepared
from ..errors import BudgetExceeded, PlanError, StreamClosed
from ..ledger import Entry, Reservation, charge_units, from_units
from ..ledger.accounting import Amount
from ..mechanisms import Currency, Spend, is_private
from ..public.row_wise import tried
from ..query import Sum
from .account import OpenAccount
from .certify import Asker, certificate_of, drafted
from .charge import Charge
from .door import Door, IndividualAsk, PaidAsk, Totals
from .explainer import Explainer
from .explanation import Explanation, saved
from .individual import IndividualAccounts, check_individual
from .orders import with_labels
from .plan import Plan


@dataclass(frozen=True)
class Said:
    """An answer that was computed from data and paid for, as the ledger has it."""

    number: int
    """Of its first entry in the ledger."""
    about: dict[str, Any]
    """What was asked, in the words of the stream."""
    explanation: Explanation | None
    """What was released; None where only its stored `content` was read."""
    stored: dict[str, Any] | None = None

    @property
    def content(self) -> dict[str, Any]:
        """Its numbers as they are saved. A stream that is opened again reads thousands of answers, and needs no more of them."""
        if self.stored is not None:
            return self.stored
        assert self.explanation is not None
        return self.explanation.content()


@dataclass(frozen=True)
class Paid:
    """What a question cost."""

    number: int
    """Of its first entry in the ledger."""
    epsilon: float
    rho: float | None


class Question:
    """One question on its way: the door it asks through, and what was charged so far."""

    def __init__(self, about: dict[str, Any], private: bool):
        self.about, self.private = about, private
        self.paid: list[tuple[Reservation, Charge]] = []
        self.ask: Door

    @property
    def charges(self) -> list[Charge]:
        return [charge for _, charge in self.paid]


class Channel:
    """One stream's way to the ledger and to the records. Nothing in here may be shown but through noise."""

    def __init__(
        self, explainer: Explainer, plan: Plan, engine: Engine, account: OpenAccount, key: str, request: str, asker: Asker
    ):
        drafted(explainer, plan, account, asker)
        self.plan = plan
        self._explainer, self._engine, self._account, self._asker = explainer, engine, account, asker
        self._key, self._request = key, request
        self._seen, self._spent, self._counted = 0, 0, 0
        # Charged by this process since the ledger was last read.
        self._unseen = 0
        self._asked: dict[int, dict[str, Any]] = {}
        self._noise_was_private = is_private()
        self._accounts: IndividualAccounts | None = None
        self._again: Callable[[dict[str, Any]], tuple[Sum, Fraction]] | None = None
        self._whole: Reservation | None = None
        self._prepared: Prepared | None = None
        self._models = self._fingerprints(again=False)

    def totals(self, query: Any) -> list[int]:
        """Exact totals from the records: what a question is asked with, and shown through its door only."""
        return self._engine.totals(query)

    def prepared(self, reader: Callable[..., Any], columns: tuple[str, ...], width: int) -> Prepared:
        """Records as the stream's questions read them: read once and held, where they fit into memory."""
        self._prepared = Prepared(self._engine, reader, columns, width)
        return self._prepared

    def _fingerprints(self, again: bool) -> list[str]:
        schema, asking = self.plan.public.schema, self._engine.asking
        return [tried(model, schema, asking, again).fingerprint for model in self._explainer.models]

    def _check_models(self) -> None:
        """Before a charge: models are tried again, and must be those of the opening."""
        if self._fingerprints(again=True) != self._models:
            raise PlanError("the model was changed since the stream was opened; open another one. Nothing was charged.")

    def open_accounts(self, prepared: Prepared, again: Callable[[dict[str, Any]], tuple[Sum, Fraction]]) -> None:
        """One account per record: the whole slice is charged here, once in the life of the stream, and nothing returned.

        `again` makes the sum, and its price, of a question from what the ledger has about it.
        """
        public = self.plan.public
        if public.part is not None:
            raise PlanError(
                "accounting='individual' is for the whole table: what a record pays in a part is not settled. Leave it out here."
            )
        check_individual(public.relation, public.unit)
        for entry, _ in self._thread():
            if entry.kind == "reserve" and entry.amount:
                self._whole = Reservation(entry.seq, entry.account, entry.amount, entry.hash)
                break
        else:
            self._engine.check_unchanged()
            self._whole = self._account.reserve(public.spend, request=self._request, **self._signed())
        # Not before the charge is on disk: how many accounts there are is a secret.
        self._accounts = IndividualAccounts(prepared, public.spend.amount, public.relation, public.unit)
        self._again = again

    def _signed(self) -> dict[str, str]:
        return {"key": self._key, "by": self._asker.by, "purpose": self._asker.purpose}

    def _thread(self, after: int = 0) -> list[tuple[Entry, str | None]]:
        return self._account.ledger.thread(self._account.name, self._key, after=after)

    def news(self) -> list[Said]:
        """Answers of this stream that were given since the last call, by this process or another."""
        if is_private() != self._noise_was_private:
            raise PlanError("the source of noise was exchanged; open the stream again, so that nothing leans on test noise.")
        found, self._unseen = [], 0
        for entry, text in self._thread(self._seen):
            self._seen = entry.seq
            self._spent += entry.charged(self._currency)
            if entry.kind == "reserve":
                body = json.loads(entry.request)
                if "asked" in body:
                    self._asked[entry.seq] = body
            elif entry.kind == "commit" and text is not None and entry.refers_to in self._asked:
                told = saved(text)
                # An answer from test noise carries no guarantee, so nothing that carries one may lean on it.
                if told["certificate"]["status"] != "not private" or not is_private():
                    found.append(Said(entry.refers_to, self._asked[entry.refers_to], None, told["content"]))
        return found

    def affordable(self, price: Fraction) -> bool:
        """Whether one more question can be paid for; from the ledger alone."""
        return self._accounts is not None or charge_units(price) <= self._left()

    def _left(self) -> int:
        """What the slice and the account can still pay, in the ledger's units."""
        return max(0, min(self._slice_left, self._account.left(self._currency)))

    @property
    def _currency(self) -> Currency:
        return self.plan.public.spend.currency

    @property
    def _slice_left(self) -> int:
        return charge_units(self.plan.public.spend.amount) - self._spent - self._unseen

    @property
    def spent(self) -> Amount:
        return self._account.amount(self._spent + self._unseen, self._currency)

    @property
    def remaining(self) -> Amount:
        return self._account.amount(0 if self._accounts is not None else self._left(), self._currency)

    def question(self, about: dict[str, Any], totals: Totals) -> Question:
        """A new question: `about` has an entry "asked" with what is asked, `totals` reads the records."""
        if "asked" not in about:
            raise PlanError("a question says what is asked: give about={'asked': …}.")
        self._engine.check_unchanged()
        self._check_models()
        made = Question(about, self._account.noise_is_private())

        def pay(charge: Charge) -> None:
            if self._accounts is not None and made.paid:
                raise PlanError("with one account per record a question is asked once: it is counted by what was put on record.")
            made.paid.append((self._pay(charge, about if not made.paid else {}), charge))

        if self._accounts is None:
            made.ask = PaidAsk(totals, self.plan.public, pay)
        else:
            made.ask = IndividualAsk(self._accounts, self.plan.public, pay)
        return made

    def _pay(self, charge: Charge, about: dict[str, Any]) -> Reservation:
        """Put the charge on disk; with the first of a question what was asked."""
        name = self._explainer.describe()["explainer"]
        request = json.dumps({"explainer": name, "stream": self._key[:16], "stage": charge.stage, **about})
        # A file that has changed would be refused after the charge, and charged again at every attempt.
        self._engine.check_unchanged()
        if self._accounts is None:
            # The account's budget is the ledger's to enforce; the slice is a limit of ours.
            units, left = charge_units(charge.amount), self._slice_left
            if units > left:
                asked, rest = float(charge.amount), float(from_units(left))
                raise BudgetExceeded(self._account.name, self._currency, asked, rest, self._account.ledger.durable)
            paid = self._account.reserve(Spend(self._currency, charge.amount), request=request, **self._signed())
            self._unseen += units
            return paid
        paid = self._account.prepaid(request=request, **self._signed())
        self._count_others(self._accounts, paid)
        return paid

    def _count_others(self, accounts: IndividualAccounts, own: Reservation) -> None:
        """Charge every record for all questions on record before this one, whoever asked them and whether or not they were
        answered: a question counts from the moment it is on disk, so two processes cannot use the same account twice."""
        assert self._again is not None
        earlier = []
        for entry, _ in self._thread(self._counted):
            body = json.loads(entry.request) if entry.kind == "reserve" and entry.seq < own.seq else {}
            if "asked" in body:
                asked, price = self._again(body)
                earlier.append((entry.seq, (asked, IndividualAsk.mechanism(self.plan.public, asked, price).scale)))
        if earlier:
            accounts.catch_up([question for _, question in earlier])
            self._counted = earlier[-1][0]

    def keep(self, question: Question, explained: Callable[[Paid], Explanation]) -> Explanation:
        """Certify an answer that was paid for, and store it beside what was asked."""
        first, charges, spend = question.paid[0][0], question.charges, self.plan.public.spend
        cost = Spend(spend.currency, sum((charge.amount for charge in charges), Fraction(0)))
        epsilon, _, rho = self._account.guarantee(cost)
        told = explained(Paid(first.seq, epsilon, rho))
        private = self._account.noise_is_private() and question.private
        total = self._account.total(question.paid[-1][0])
        certified = self._certified(told, spend if self._whole else cost, charges, private, (self._whole or first).hash, total)
        self._account.ledger.settle(first, certified.to_json())
        self._counted = first.seq
        return certified

    def free(self, found: Explanation) -> Explanation:
        """Certify an answer for which no data was read."""
        cost = Spend(self.plan.public.spend.currency, Fraction(0))
        return self._certified(found, cost, [], is_private(), "", self._account.total())

    def _certified(
        self, found: Explanation, cost: Spend, charges: list[Charge], private: bool, entry: str, total: dict[str, Any]
    ) -> Explanation:
        certificate = certificate_of(
            self._explainer, self.plan, self._account, self._asker,
            spend=cost, charges=_merged(charges), private=private, entry=entry, total=total,
        )  # fmt: skip
        named = replace(certificate, engine=self._engine.name)
        return with_labels(found, self._explainer, self.plan).certified(named)

    def without_noise(self, totals: Totals, query: Sum, why: str) -> list[int]:
        """Exact totals, for evaluation on data that may be shown. The account is marked as not private first."""
        self._engine.check_unchanged()
        self._account.ledger.not_private(self._account.name, why)
        return totals(query)

    def __reduce__(self) -> Any:
        raise TypeError("a channel stands next to records and is not saved; open the stream again")


def _merged(charges: list[Charge]) -> list[Charge]:
    """Equal steps one after another as one line: a certificate with hundreds of them says no more."""

    def kind(charge: Charge) -> Any:
        return charge.amount, charge.mechanism, charge.sensitivity, charge.noise, charge.bound, charge.claims

    merged = []
    for _, group in itertools.groupby(charges, key=kind):
        own = list(group)
        stage = own[0].stage if len(own) == 1 else f"{own[0].stage} to {own[-1].stage.split()[-1]}"
        merged.append(replace(own[0], stage=stage, amount=sum((c.amount for c in own), Fraction(0))))
    return merged


class Asking(Protocol):
    """What a stream needs of its channel to keep house."""

    @property
    def spent(self) -> Amount: ...

    @property
    def remaining(self) -> Amount: ...


class Stream:
    """Base of all streams: a slice of a budget for questions one after another. `Session.open` makes it, for a with-statement.

    Nothing is reserved when it is opened (with one account per record: all of it is) and every step is charged just before it is
    taken, so what was not used is still there when it is closed. Opened again with the same settings, it goes on where it was.
    """

    def __init__(self, channel: Asking):
        self._account = channel
        self._lock, self._open = threading.RLock(), True

    @property
    def answered(self) -> int:
        """How many questions were answered from data so far."""
        raise NotImplementedError

    def explain(self, question: Any) -> Explanation:
        """Answer one question."""
        raise NotImplementedError

    @property
    def spent(self) -> Amount:
        """What the questions of this stream have cost so far."""
        return self._account.spent

    @property
    def remaining(self) -> Amount:
        """What is left of the slice, as far as the account can pay it."""
        return self._account.remaining

    def close(self) -> None:
        """Answer no more questions. Nothing is lost: opened again with the same settings, the stream goes on."""
        self._open = False

    def __enter__(self) -> Self:
        self._check_open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "open" if self._open else "closed"
        return f"{type(self).__name__}(answered from data: {self.answered}, spent: {self.spent}, {state})"

    def _check_open(self) -> None:
        if not self._open:
            raise StreamClosed(
                "this stream was closed; open it again with session.open() and the same settings: it goes on from there."
            )
