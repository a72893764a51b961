"""The session: plan → reserve → run → commit → certificate."""

from __future__ import annotations

import math
import os
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from ..engine import LocalEngine
from ..engine.apart import apart
from ..engine.check import DataCheck
from ..engine.sandbox import Outcomes
from ..engine.trial import Trials
from ..errors import DataError, PlanError
from ..ledger import Entry, Ledger, Reservation, charge_units, checked_text
from ..ledger.accounting import Amount, Budget
from ..mechanisms import Spend, source
from ..public.asking import Asking
from ..public.row_wise import tried
from ..public.schema import Schema, Unit, check_relation
from .account import OpenAccount
from .certificate import Certificate
from .certify import Asker, completed, drafted
from .door import Ask
from .explainer import Explainer, Interactive, S
from .explanation import Explanation, from_json
from .plan import Plan, Public
from .preview import Preview
from .request import Request, is_answered_by, request_of
from .stream import Channel

if TYPE_CHECKING:
    from ..audit.game import Row


RECORD_NOTE = "paid for again in every run: the record is not stored"


class Session:
    """One named private table with a budget: every release goes through here and is paid for first.

    A ledger that is named must be there, and so must the account in it: a file that was lost, or a name that was misspelt, would
    otherwise be a full budget again. `create=True` starts what is missing. The account knows the public number of people and the
    declared columns; where they are others than before, `changed` says why, for the record, and earlier releases are not
    replayed.

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
        strict: bool = False,
        create: bool = False,
        changed: str = "",
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
        source.prepare()
        self._engine = LocalEngine(data, schema, self.neighbors, self.unit)
        self._trials = Trials(schema)
        self._audited: dict[str, str] = {}
        self._rows = self._engine.units if self.neighbors == "replace" else None
        if self._rows == 0:
            nobody = "the table is empty" if self.unit.column is None else f"no row has an id in {self.unit.column!r}"
            raise DataError(
                f"{nobody}. Under 'replace' the number of records is public and must be positive; "
                "use neighbors='add-remove' if even that is private."
            )
        self._engine.asking = Asking.about(self._rows or expected_rows, apart if strict else None)
        opened = ledger if isinstance(ledger, Ledger) else Ledger(ledger, create=create)
        self._account = OpenAccount.open(
            opened, name or "unnamed", budget, self.neighbors, self.unit,
            schema=schema, people=self._rows, create=create, changed=changed,
        )  # fmt: skip
        self.name = self._account.name

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
        free = self._is_free(explainer, plan)
        once = getattr(explainer, "record", None) is not None and not free
        remarks = [remark for model in explainer.models if (remark := model.ready(self.schema).remark)]
        return Preview(
            explainer.describe()["explainer"],
            spend,
            eps,
            delta,
            expected.labels,
            expected.error,
            expected.gap,
            {name: float(part) for name, part in plan.shares.items()},
            free or self._account.can_pay(spend.amount),
            (*expected.notes, *remarks, *([RECORD_NOTE] if once else [])),
            free,
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
        plan = self.plan(explainer, epsilon=epsilon, rho=rho, share=share)
        return self._account.amount(0 if self._is_free(explainer, plan) else charge_units(plan.public.spend.amount))

    def _is_free(self, explainer: Explainer, plan: Plan) -> bool:
        """Whether an identical request was released before; a stream has no request until it is opened."""
        return (
            not explainer.asks_one_by_one and self._stored(request_of(explainer, plan.public), explainer, plan.public) is not None
        )

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
        noise. A record asked about is not stored, so a request with `record=` is known again in the same process only. Say what
        it may cost with exactly one of `epsilon`, `rho` or `share` (of the whole budget).
        """
        plan = self._plan(explainer, self._account.price(epsilon, rho, share), again=True)
        if explainer.asks_one_by_one:
            raise PlanError(
                f"{type(explainer).__name__} answers questions one after another: "
                "with session.open(explainer, epsilon=…) as local: local.explain(record). For a single question give it record=."
            )
        asker, spend = Asker(checked_text("by", by), checked_text("purpose", purpose)), plan.public.spend
        request = request_of(explainer, plan.public)
        if not fresh:
            stored = self._stored(request, explainer, plan.public)
            if stored is not None:
                return self._replayed(stored)
        draft = replace(drafted(explainer, plan, self._account, asker), audited=self._audited.get(request.key))
        # A file that has changed would be refused after the charge, and charged again at every attempt.
        self._engine.check_unchanged()
        paid = self._account.reserve(charge_units(spend.amount), key=request.key, request=request.text, by=by, purpose=purpose)
        private = self._account.noise_is_private()
        ask = Ask(self._engine.totals, plan)
        explanation = explainer.run(ask)
        private = self._account.noise_is_private() and private
        total = self._account.total(paid)
        return self._kept(explanation, paid, completed(draft, ask.charges, spend.currency, private, paid.hash, total))

    def _kept(self, explanation: Explanation, paid: Reservation, certificate: Certificate) -> Explanation:
        """Certify a release and store it. It is paid for: whatever goes wrong from here on, whoever paid gets it."""
        if not isinstance(explanation, Explanation):
            raise PlanError(
                f"run() returned a {type(explanation).__name__}; it must return an Explanation. The charge stays spent."
            )
        explanation = explanation.certified(certificate)
        try:
            text = explanation.to_json()
        except Exception:
            # A result of somebody's own that has no text can be used, but not stored: an identical request pays again.
            return explanation
        self.ledger.settle(paid, text)
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
        for what, text in (("name", name), ("by", by), ("purpose", purpose)):
            checked_text(what, text)
        plan = self._plan(explainer, self._account.price(epsilon, rho, share), again=True)
        request = request_of(explainer, plan.public, stream=name)
        key = self._stream_key(request, explainer, plan.public)
        channel = Channel(explainer, plan, self._engine, self._account, key, request.text, Asker(by, purpose))
        return explainer.opened(plan, channel)

    def owner_report(self) -> Outcomes | None:
        """What became of the blocks of the last release that asked a function of blocks: answered, failed, too slow, too large.

        Exact numbers, computed from records and not private: for whoever runs this process and may see the data. They are in
        no result, certificate, ledger or error.
        """
        return self._engine.outcomes

    def audit(
        self,
        explainer: Explainer,
        *,
        epsilon: Any = None,
        rho: Any = None,
        share: Any = None,
        runs: int = 2000,
        confidence: float = 0.99,
    ) -> Row:
        """Measure on public records what this release would give away: a lower bound of its ε, to be compared with the claim.

        Neighbouring tables are made up from the schema and searched for the pair that the release tells apart best. The session's
        own table is not touched and nothing is charged. The certificate of the same request, released later, says the result.
        """
        # The room of audits lies above this one, and is opened when somebody asks.
        from ..audit import World, play

        plan = self.plan(explainer, epsilon=epsilon, rho=rho, share=share)
        spend = plan.public.spend
        world = World(self.schema, self.neighbors, self.unit, spend.currency, spend.amount)
        row = play(explainer, world, runs=runs, confidence=confidence)
        self._audited[request_of(explainer, plan.public).key] = row.stamp
        return row

    def check(self) -> DataCheck:
        """How many cells of each column are missing, unreadable, not declared or out of range, and what they hold most often.

        With an id column also how many people there are, rows without an id, and rows above `max_rows`, which are left out.

        Exact numbers and cells of the table, and not private: for whoever runs this process and may see the data. They are in no
        result, certificate, ledger or error. `pel.Completeness` releases the shares privately.
        """
        return self._engine.check()

    def _stored(self, request: Request, explainer: Explainer, public: Public) -> Explanation | None:
        """An identical request's release, unless it carried no guarantee; one of the version before, if it can be told to be."""
        for key in (request.key, request.first_key):
            text = self.ledger.replay(self.name, key)
            found = from_json(text) if text is not None else None
            if found is None or found.certificate is None or not found.certificate.private:
                continue
            if key == request.key or is_answered_by(explainer, public, found):
                return found
        return None

    def _stream_key(self, request: Request, explainer: Explainer, public: Public) -> str:
        """A stream of the version before goes on under the key it has, unless something else was asked there."""
        before = self.ledger.thread(self.name, request.first_key)
        told = [from_json(text) for _, text in before if text is not None]
        goes_on = before and all(is_answered_by(explainer, public, said) for said in told)
        return request.first_key if goes_on and not self.ledger.thread(self.name, request.key) else request.key

    def _replayed(self, explanation: Explanation) -> Explanation:
        """A stored release as it was, with the account's total as it is now."""
        assert explanation.certificate is not None
        return explanation.certified(replace(explanation.certificate, total=self._account.total()))

    def _plan(self, explainer: Explainer, spend: Spend, again: bool = False) -> Plan:
        """`again` tries models that were tried before: what they were then says nothing about what they are now."""
        if isinstance(explainer, type) and issubclass(explainer, Explainer):
            name = explainer.__name__
            raise PlanError(f"{name} is a class: write pel.{name}(), with its settings between the brackets.")
        if not isinstance(explainer, Explainer):
            raise PlanError(f"{type(explainer).__name__} is not an explainer; see pellucid.explainers.")
        explainer.columns(self.schema)
        for model in explainer.models:
            tried(model, self.schema, self._engine.asking, again)
        public = Public(self.schema, self.neighbors, self.unit, spend, self._rows, self.expected_rows, self._engine.asking.strict)
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
        self._trials.run(plan.trial, again)
        return plan
