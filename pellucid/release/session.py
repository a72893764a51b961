"""The session: plan → reserve → run → commit → certificate."""

from __future__ import annotations

import math
import os
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from ..engine import LocalEngine
from ..engine.check import DataCheck
from ..engine.sandbox import Outcomes
from ..engine.trial import Trials
from ..errors import DataError, PlanError
from ..ledger import Entry, Ledger, charge_units, checked_text
from ..ledger.accounting import Amount, Budget
from ..mechanisms import Spend, source
from ..public.schema import Schema, Unit, check_relation
from .account import OpenAccount
from .certify import Asker, certificate_of
from .door import Ask
from .explainer import Explainer, Interactive, S
from .explanation import Explanation, from_json
from .plan import Plan, Public
from .preview import Preview
from .request import request_key, request_text
from .stream import Channel


class Session:
    """One named private table with a budget: every release goes through here and is paid for first.

    >>> import pellucid as pel
    >>> schema = pel.Schema({"age": pel.Number(0, 99, integer=True)})
    >>> session = pel.Session({"age": [30, 40, 50] * 100}, schema, budget=pel.Budget(epsilon=1.0))
    >>> _ = session.release(pel.Distribution("age", bins=10), epsilon=0.25)
    >>> session.remaining
    ε = 0.75
    """

    def __init__(
        self,
        data: Any,
        schema: Schema,
        budget: Budget,
        neighbors: str = "replace",
        name: str | None = None,
        ledger: str | os.PathLike[str] | Ledger | None = None,
        unit: Unit | None = None,
        expected_rows: int | None = None,
    ):
        if not isinstance(schema, Schema):
            raise PlanError("schema: give a pel.Schema, for example pel.Schema.load('schema.yaml').")
        if not isinstance(budget, Budget):
            raise PlanError(f"budget={budget!r}: give pel.Budget(epsilon=..., delta=...).")
        if unit is not None and not isinstance(unit, Unit):
            raise PlanError(f"unit={unit!r}: give pel.Unit('person_id', max_rows=k) or leave it out for one row.")
        if expected_rows is not None and (
            not isinstance(expected_rows, int) or isinstance(expected_rows, bool) or expected_rows < 1
        ):
            raise PlanError(f"expected_rows={expected_rows!r}: give a public guess of the number of records, at least 1.")
        if ledger is not None and not name:
            raise PlanError(
                "name= is needed with a ledger: it names the private table whose budget is spent, for example 'ward-7'."
            )
        self.schema, self.budget, self.unit, self.expected_rows = schema, budget, unit or Unit(), expected_rows
        self.neighbors = check_relation(neighbors)
        self.name = name or "unnamed"
        source.prepare()
        self._engine = LocalEngine(data, schema, self.neighbors, self.unit)
        self._trials = Trials(schema)
        self._rows = self._engine.units if self.neighbors == "replace" else None
        if self._rows == 0:
            raise DataError(
                "the table is empty. Under 'replace' the number of records is public and must be positive; "
                "use neighbors='add-remove' if even that is private."
            )
        opened = ledger if isinstance(ledger, Ledger) else Ledger(ledger)
        self._account = OpenAccount.open(opened, self.name, budget, self.neighbors, self.unit)

    @property
    def spent(self) -> Amount:
        """What has been charged to the account, by this and every other session."""
        return self._account.spent

    @property
    def remaining(self) -> Amount:
        """What is left of the budget."""
        return self._account.remaining

    @property
    def whole(self) -> Amount:
        """The whole budget of the account, as the ledger has it."""
        return self._account.whole

    @property
    def ledger(self) -> Ledger:
        """The ledger that the account is in."""
        return self._account.ledger

    def history(self) -> list[Entry]:
        """Every entry of the account, oldest first."""
        return self.ledger.history(self.name)

    def plan(self, explainer: Explainer, *, epsilon: Any = None, rho: Any = None, share: Any = None) -> Plan:
        """What a release would ask, stage by stage, with the noise of each. Touches no data, charges nothing."""
        return self._plan(explainer, self._account.price(epsilon, rho, share))

    def preview(self, explainer: Explainer, *, epsilon: Any = None, rho: Any = None, share: Any = None) -> Preview:
        """The error to expect from a release. Touches no data, charges nothing."""
        plan = self.plan(explainer, epsilon=epsilon, rho=rho, share=share)
        expected, spend = explainer.expected(plan), plan.public.spend
        eps, delta, _ = self._account.guarantee(spend)
        return Preview(
            explainer.describe()["explainer"],
            spend,
            eps,
            delta,
            expected.labels,
            expected.error,
            expected.gap,
            {name: float(part) for name, part in plan.shares.items()},
            self._account.can_pay(spend.amount),
            expected.notes,
        )

    def cost_for(self, explainer: Explainer, error: float) -> Amount:
        """The smallest amount for which every output's 95 % error is at most `error`. Touches no data, charges nothing.

        The result is a number in the account's currency and carries `.epsilon`; pass it on as `epsilon=` (or `rho=`).
        """
        if not (isinstance(error, int | float) and math.isfinite(error) and error > 0):
            raise PlanError(f"error={error!r}: give a positive number in the units of the output.")

        def reached(amount: Fraction) -> bool:
            try:
                return self._error(explainer, amount) <= error
            except PlanError:
                return False

        # Whatever is wrong with the request itself is said here; a price that is too small for it only means: not reached.
        self._error(explainer, Fraction(1000))
        high = Fraction(1, 10**6)
        while not reached(high):
            high *= 2
            if high > 10**6:
                raise PlanError(f"error={error:g} cannot be reached at any price; fewer points or more records would help.")
        low = high / 2
        for _ in range(30):
            middle = (low + high) / 2
            low, high = (low, middle) if reached(middle) else (middle, high)
        return Amount.of(self.budget, Fraction(math.ceil(high * 10**9), 10**9))

    def _error(self, explainer: Explainer, amount: Fraction) -> float:
        expected = explainer.expected(self._plan(explainer, Spend(self.budget.currency, amount)))
        return float(np.max(expected.error))

    def charge_for(self, explainer: Explainer, *, epsilon: Any = None, rho: Any = None, share: Any = None) -> Amount:
        """What `release` would charge for this request now: nothing if it can be replayed. Touches no data."""
        public = self.plan(explainer, epsilon=epsilon, rho=rho, share=share).public
        free = self._stored(request_key(request_text(explainer, public))) is not None
        return self._account.amount(0 if free else charge_units(public.spend.amount))

    def release(
        self,
        explainer: Explainer,
        *,
        epsilon: Any = None,
        rho: Any = None,
        share: Any = None,
        by: str = "",
        purpose: str = "",
        fresh: bool = False,
    ) -> Explanation:
        """Pay, ask, and return an explanation with its certificate.

        An identical request to the same account is answered from the ledger, free of charge; `fresh=True` pays for new
        noise. Say what it may cost with exactly one of `epsilon`, `rho` or `share` (of the whole budget).
        """
        plan = self.plan(explainer, epsilon=epsilon, rho=rho, share=share)
        if explainer.asks_one_by_one:
            raise PlanError(
                f"{type(explainer).__name__} answers questions one after another: "
                "with session.open(explainer, epsilon=…) as local: local.explain(record). For a single question give it record=."
            )
        asker, spend = Asker(by, purpose), plan.public.spend
        request = request_text(explainer, plan.public)
        key = request_key(request)
        if not fresh:
            stored = self._stored(key)
            if stored is not None:
                return self._replayed(stored)
        reservation = self.ledger.reserve(self.name, charge_units(spend.amount), key=key, request=request, by=by, purpose=purpose)
        private = self._account.noise_is_private()
        ask = Ask(self._engine.totals, plan)
        explanation = explainer.run(ask)
        private = self._account.noise_is_private() and private
        certificate = certificate_of(
            explainer, plan, self._account, asker,
            spend=spend, charges=ask.charges, private=private, entry=reservation.hash,
        )  # fmt: skip
        explanation = explanation.certified(certificate)
        self.ledger.commit(reservation, explanation.to_json())
        return explanation

    def open(
        self,
        explainer: Interactive[S],
        *,
        epsilon: Any = None,
        rho: Any = None,
        share: Any = None,
        by: str = "",
        purpose: str = "",
        name: str = "",
    ) -> S:
        """Open a stream of questions with a slice of the budget; use it in a with-statement.

        A stream that was opened before with the same explainer, slice and `name` goes on where it was. Every step is charged just
        before it is taken, so closing has nothing to give back; only with one account per record the whole slice is charged here.
        """
        if not isinstance(explainer, Interactive) or not explainer.asks_one_by_one:
            raise PlanError(
                "open() is for explainers that answer one question after another: pel.LocalLinear(model) without record=."
            )
        checked_text("name", name)
        plan = self.plan(explainer, epsilon=epsilon, rho=rho, share=share)
        request = request_text(explainer, plan.public, stream=name)
        channel = Channel(explainer, plan, self._engine, self._account, request_key(request), request, Asker(by, purpose))
        return explainer.opened(plan, channel)

    def owner_report(self) -> Outcomes | None:
        """What became of the blocks of the last release that asked a function of blocks: answered, failed, too slow, too large.

        Exact numbers, computed from records and not private: for whoever runs this process and may see the data. They are in
        no result, certificate, ledger or error.
        """
        return self._engine.outcomes

    def check(self) -> DataCheck:
        """How many cells of each column are missing, unreadable, not declared or out of range, and what they hold most often.

        Exact numbers and cells of the table, and not private: for whoever runs this process and may see the data. They are in no
        result, certificate, ledger or error. `pel.Completeness` releases the shares privately.
        """
        return self._engine.check()

    def _stored(self, key: str) -> Explanation | None:
        """An identical request's release, unless it carried no guarantee."""
        text = self.ledger.replay(self.name, key)
        found = from_json(text) if text is not None else None
        return found if found is not None and found.certificate is not None and found.certificate.private else None

    def _replayed(self, explanation: Explanation) -> Explanation:
        """A stored release as it was, with the account's total as it is now."""
        assert explanation.certificate is not None
        return explanation.certified(replace(explanation.certificate, total=self._account.total()))

    def _plan(self, explainer: Explainer, spend: Spend) -> Plan:
        if not isinstance(explainer, Explainer):
            raise PlanError(f"{type(explainer).__name__} is not an explainer; see pellucid.explainers.")
        explainer.columns(self.schema)
        for model in explainer.models:
            model.ready(self.schema)
        public = Public(self.schema, self.neighbors, self.unit, spend, self._rows, self.expected_rows)
        plan = explainer.plan(public)
        if not isinstance(plan, Plan):
            raise PlanError(
                f"{type(explainer).__name__}.plan returned a {type(plan).__name__}; it must return a pel.Plan, such as "
                "pel.Plan(public, (public.stage(name, query),)): see docs/any-explainer.md."
            )
        if plan.public is not public:
            raise PlanError(
                f"{type(explainer).__name__}.plan must make a Plan of what it is given: a plan is for one session and price."
            )
        self._trials.run(plan.trial)
        return plan
