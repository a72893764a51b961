"""Orders: releases that were planned, and what becomes of them. All of them are paid for before a row is read for any."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from ..engine import Kept
from ..engine.progress import together
from ..engine.protocol import Engine
from ..errors import PlanError
from ..ledger import Ledger, Reservation
from ..public.labels import Labels
from .account import OpenAccount
from .certificate import Certificate
from .certify import Asker, completed, drafted
from .door import Ask
from .explainer import Explainer
from .explanation import Explanation
from .passes import SharedPass
from .plan import Plan
from .request import Request, audit_key


@dataclass(frozen=True)
class Order:
    """One release that was planned."""

    name: str
    """What a list calls it; nothing for one alone."""
    explainer: Explainer
    plan: Plan
    request: Request
    stored: Explanation | None = None
    """What an identical request released before, with the account's total as it is now; it costs nothing."""
    like: int | None = None
    """The number, from 0, of an identical one earlier in the list; it costs nothing more."""

    @property
    def free(self) -> bool:
        return self.stored is not None or self.like is not None


def carried_out(
    orders: Sequence[Order], engine: Engine, account: OpenAccount, asker: Asker, audited: Mapping[str, str]
) -> tuple[list[Explanation | Exception], list[Reservation]]:
    """What each order came to, and the charges. Whatever can be refused is refused before all that is due is charged at once.

    What goes wrong with one of them after that is its own: the others are paid for, released and stored.
    """
    due = [order for order in orders if not order.free]
    drafts = [replace(_draft(order, account, asker, audited), engine=engine.name) for order in due]
    made: dict[int, Explanation | Exception] = {}
    paid: list[Reservation] = []
    if due:
        # A file that has changed would be refused after the charge, and charged again at every attempt.
        engine.check_unchanged()
        asked = [(order.plan.public.spend, order.request.key, order.request.text) for order in due]
        paid = account.reserve_all(asked, by=asker.by, purpose=asker.purpose)
        private = account.noise_is_private()
        shared = SharedPass(engine, [order.plan for order in due])
        with together(sum(len(order.plan.stages) for order in due), "releasing") as bar:
            for order, draft, one in zip(due, drafts, paid):
                bar.label = order.name or "reading records"
                try:
                    made[id(order)] = _run(order, draft, one, shared, account, private)
                except Exception as error:
                    made[id(order)] = error
                bar.done += len(order.plan.stages)
    return [order.stored or made[id(order if order.like is None else orders[order.like])] for order in orders], paid


def _draft(order: Order, account: OpenAccount, asker: Asker, audited: Mapping[str, str]) -> Certificate:
    if order.plan.useless:
        raise PlanError(f"{order.name}: {order.plan.useless}" if order.name else order.plan.useless)
    draft = drafted(order.explainer, order.plan, account, asker)
    return replace(draft, audited=audited.get(audit_key(order.request, order.plan.public)))


def _run(
    order: Order, draft: Certificate, paid: Reservation, shared: SharedPass, account: OpenAccount, private: bool
) -> Explanation:
    # What several stages read is kept between them; a single one streams.
    ask = Ask(partial(shared.totals, kept=Kept()) if len(order.plan.stages) > 1 else shared.totals, order.plan)
    explanation = with_labels(order.explainer.run(ask), order.explainer, order.plan)
    private = account.noise_is_private() and private
    currency, total = order.plan.public.spend.currency, account.total(paid)
    return kept(account.ledger, explanation, paid, completed(draft, ask.charges, currency, private, paid.hash, total))


def with_labels(explanation: Explanation, explainer: Explainer, plan: Plan) -> Explanation:
    """A result with what the schema calls its columns for people. It is paid for: what cannot be labelled stays as it is."""
    try:
        schema = plan.public.schema
        said = Labels.of(schema, explainer.columns(schema), explainer.models, explainer.grouping(schema))
        return explanation.labelled(said)
    except Exception:
        return explanation


def kept(ledger: Ledger, explanation: Explanation, paid: Reservation, certificate: Certificate) -> Explanation:
    """Certify a release and store it. It is paid for: whatever goes wrong from here on, whoever paid gets it."""
    if not isinstance(explanation, Explanation):
        raise PlanError(f"run() returned a {type(explanation).__name__}; it must return an Explanation. The charge stays spent.")
    explanation = explanation.certified(certificate)
    try:
        text = explanation.to_json()
    except Exception:
        # A result of somebody's own that has no text can be used, but not stored: an identical request pays again.
        return explanation
    ledger.settle(paid, text)
    return explanation
