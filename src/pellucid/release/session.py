"""The session: plan → reserve → run → commit → certificate."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, is_dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from ..engine import open_engine
from ..engine.apart import apart
from ..engine.check import DataCheck
from ..engine.sandbox import Outcomes
from ..engine.trial import Trials
from ..errors import DataError, PlanError, ReleaseFailed
from ..ledger import Account, Entry, Ledger, charge_units, checked_text
from ..ledger.accounting import CURRENCY, Amount, Budget, Kind
from ..mechanisms import Currency, Spend, source
from ..public.asking import Asking
from ..public.row_wise import kept_as_tried, tried
from ..public.schema import Schema, Unit, check_relation
from .account import OpenAccount
from .certify import Asker
from .explainer import Explainer, Interactive, S
from .explanation import Explanation, from_json
from .orders import Order, carried_out
from .plan import Plan, Public
from .preview import Outlook, Preview
from .released import Previews, Released
from .request import Request, audit_key, is_answered_by, request_of
from .several import Items, Priced, checked, is_list, priced, requests_of
from .stream import Channel

if TYPE_CHECKING:
    from ..audit.game import Row


RECORD_NOTE = "paid for again in every run: the record is not stored"


@dataclass(frozen=True)
class Course:
    """One way to release a list."""

    outlook: Outlook
    plans: tuple[Plan, ...]


class Session:
    """One named private table with a budget: every release goes through here and is paid for first.

    A ledger that is named must be there, and so must the account in it: a file that was lost, or a name that was misspelt, would
    otherwise be a full budget again. `create=True` starts what is missing. The account knows the public number of people and the
    declared columns; where they are others than before, `changed` says why, for the record, and earlier releases are not
    replayed. With `workers=8` the table is read by eight processes side by side; what is released is the same.

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
        workers: int | None = None,
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
        self._engine = open_engine(data, schema, self.neighbors, self.unit, workers)
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
        self.name, self.budget = self._account.name, self._account.budget

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

    def __repr__(self) -> str:
        """What was declared, and nothing of the table."""
        return f"Session({self.name!r}, {self.budget}, {self.neighbors!r}, unit: {self.unit.text})"

    def history(self) -> list[Entry]:
        """Every entry of the account, oldest first."""
        return self.ledger.history(self.name)

    def plan(
        self, explainer: Explainer, *, epsilon: Any = None, rho: Any = None, share: Any = None, kind: Kind | None = None
    ) -> Plan:
        """What a release would ask, stage by stage, with the noise of each. Touches no data, charges nothing."""
        return self._best(explainer, self._account.prices(epsilon, rho, share, kind), share=share is not None)

    @overload
    def preview(
        self, explainer: Explainer, *, epsilon: Any = ..., rho: Any = ..., share: Any = ..., kind: Kind | None = ...
    ) -> Preview: ...

    @overload
    def preview(
        self, explainer: Items, *, epsilon: Any = ..., rho: Any = ..., share: Any = ..., kind: Kind | None = ...
    ) -> Previews: ...

    def preview(
        self, explainer: Explainer | Items, *, epsilon: Any = None, rho: Any = None, share: Any = None, kind: Kind | None = None
    ) -> Preview | Previews:
        """The error to expect from a release, or from each of a list, with what they cost together. Touches no data, charges
        nothing."""
        cost = {"epsilon": epsilon, "rho": rho, "share": share}
        if is_list(explainer):
            return self._previewed_list(explainer, cost, kind)
        alone = checked(explainer)
        plan = self.plan(alone, **cost, kind=kind)
        spend, free = plan.public.spend, self._is_free(alone, plan)
        payable = free or self._account.can_pay(spend)
        other = [] if free else self._other_kind(alone, plan, kind, cost)
        return self._previewed(alone, plan, free, payable, other, "" if free or not payable else self._account.afterwards(spend))

    def _previewed(
        self, explainer: Explainer, plan: Plan, free: bool, payable: bool, other: Sequence[str] = (), afterwards: str = ""
    ) -> Preview:
        expected, spend = explainer.expected(plan), plan.public.spend
        eps, delta, _ = self._account.guarantee(spend)
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
            payable,
            (
                *other,
                *expected.notes,
                *remarks,
                *([RECORD_NOTE] if once else []),
                *([plan.useless] if plan.useless else []),
            ),
            free,
            afterwards,
            expected.typical,
            expected.at_most,
            expected.instead,
        )

    def _previewed_list(self, items: Items, cost: dict[str, Any], kind: Kind | None) -> Previews:
        requests = requests_of(items)
        course = self._best_course(priced(list(requests.values()), self._account, cost, kind))
        outlook = course.outlook
        return Previews(
            tuple(requests),
            tuple(
                self._previewed(explainer, plan, not charge.amount, not charge.amount or i < outlook.payable)
                for i, ((explainer, _), plan, charge) in enumerate(zip(requests.values(), course.plans, outlook.charges))
            ),
            self._account.together(outlook.charges),
            outlook.affordable,
            self.remaining,
            outlook.left,
        )

    def _other_kind(self, explainer: Explainer, plan: Plan, kind: Kind | None, cost: dict[str, Any]) -> list[str]:
        """That kind="pure" would err less, where a careful account does not take it unasked."""
        if not self._account.careful or kind or cost["rho"] is not None or plan.public.spend.currency == "epsilon":
            return []
        try:
            pure = self._plan(explainer, self._account.prices(**cost, kind="pure")[0])
        except PlanError:
            return []
        ratio = math.sqrt(self._mean_square(explainer, plan) / max(self._mean_square(explainer, pure), 1e-300))
        if not (ratio > 1.1 and self._account.can_pay(pure.public.spend)):
            return []
        left = self._account.afterwards(pure.public.spend)
        return [f"with kind='pure' the error would be {ratio:.2g} times smaller; {left}"]

    def cost_for(self, explainer: Explainer, error: float, *, kind: Kind | None = None) -> Amount:
        """The smallest amount for which every output's 95 % error is at most `error`. Touches no data, charges nothing.

        The result is a number in the account's currency and carries `.epsilon`; pass it on as `epsilon=` (or `rho=`). With a δ it
        is a ρ, unless kind="pure" asks for the ε of a pure release (pass both on); with accounting="either" it is an ε, for the
        kind of release that reaches the error for less.
        """
        if is_list(explainer):
            raise PlanError("cost_for() takes one explainer; ask for each of the list, and add up.")
        checked(explainer)
        if kind is not None:
            self._account.prices(epsilon=1, kind=kind)  # refuses what the account does not take
        if not (isinstance(error, int | float) and math.isfinite(error) and error > 0):
            raise PlanError(f"error={error!r}: give a positive number in the units of the output.")

        def reached(amount: Fraction) -> bool:
            try:
                return self._error(explainer, amount, kind) <= error
            except PlanError:
                return False

        # Whatever is wrong with the request itself is said here; a price that is too small for it only means: not reached.
        self._error(explainer, Fraction(1000), kind)
        high = Fraction(1, 10**6)
        while not reached(high):
            high *= 2
            if high > 10**6:
                raise PlanError(f"error={error:g} cannot be reached at any price; fewer points or more records would help.")
        low = high / 2
        for _ in range(30):
            middle = (low + high) / 2
            low, high = (low, middle) if reached(middle) else (middle, high)
        found = Fraction(math.ceil(high * 10**9), 10**9)
        if self._priced_either and kind is None:
            return Amount.meaning(float(found), "either", float(found), self.budget.delta, None)
        return Amount.of(self.budget, found, self._priced(kind))

    def _priced(self, kind: Kind | None) -> Currency:
        """What prices are looked for in."""
        return "epsilon" if kind == "pure" or (kind is None and self.budget.currency == "epsilon") else "rho"

    @property
    def _priced_either(self) -> bool:
        """Whether a price is looked for among both kinds; a careful account has those of a zCDP account."""
        return self._account.counts_either and not self._account.careful

    def _error(self, explainer: Explainer, amount: Fraction, kind: Kind | None) -> float:
        """The largest error for a price, the smaller of the two where it may be paid either way."""
        both = self._priced_either and kind is None
        offers = self._account.prices(epsilon=amount) if both else [Spend(self._priced(kind), amount)]
        found, refused = [], None
        for spend in offers:
            try:
                found.append(float(np.max(explainer.expected(self._plan(explainer, spend)).error)))
            except PlanError as error:
                refused = error
        if refused is not None and not found:
            raise refused
        return min(found)

    def charge_for(
        self, explainer: Explainer, *, epsilon: Any = None, rho: Any = None, share: Any = None, kind: Kind | None = None
    ) -> Amount:
        """What `release` would charge for this request now: nothing if it can be replayed. Touches no data."""
        plan = self.plan(explainer, epsilon=epsilon, rho=rho, share=share, kind=kind)
        spend = plan.public.spend
        return self._account.amount(0 if self._is_free(explainer, plan) else charge_units(spend.amount), spend.currency)

    def _is_free(self, explainer: Explainer, plan: Plan) -> bool:
        """Whether an identical request was released before; a stream has no request until it is opened."""
        return (
            not explainer.asks_one_by_one and self._stored(request_of(explainer, plan.public), explainer, plan.public) is not None
        )

    @overload
    def release(
        self, explainer: Explainer, *, epsilon: Any = ..., rho: Any = ..., share: Any = ..., kind: Kind | None = ...,
        by: str = ..., purpose: str = ..., fresh: bool = ...,
    ) -> Explanation: ...  # fmt: skip

    @overload
    def release(
        self, explainer: Items, *, epsilon: Any = ..., rho: Any = ..., share: Any = ..., kind: Kind | None = ...,
        by: str = ..., purpose: str = ..., fresh: bool = ...,
    ) -> Released: ...  # fmt: skip

    def release(
        self,
        explainer: Explainer | Items,
        *,
        epsilon: Any = None,
        rho: Any = None,
        share: Any = None,
        kind: Kind | None = None,
        by: str = "",
        purpose: str = "",
        fresh: bool = False,
    ) -> Explanation | Released:
        """Pay, ask, and return an explanation with its certificate; of a list of explainers, all of theirs.

        An identical request to the same account is answered from the ledger, free of charge; `fresh=True` pays for new
        noise. A record asked about is not stored, so a request with `record=` is known again in the same process only. Say what
        it may cost with exactly one of `epsilon`, `rho` or `share` (of the whole budget). Where the account counts either way,
        the release is pure or zCDP, whichever errs less and can be paid for; `kind` settles it. If the budget did not say how it
        counts, an `epsilon` short of all that is left buys zCDP, of which small prices add up to less.

        A list, or a mapping with names, holds explainers, or pairs such as `(explainer, {"epsilon": 0.2})`. Either each has its
        price, or the price given here is that of the whole list: shares of it go to those that name one, `{"share": 0.5}`, and
        the rest evenly to the others. The account is charged for all of them at once or for none, and they read the table
        together.

        >>> import pellucid as pel
        >>> schema = pel.Schema({"age": pel.Number(0, 99, integer=True), "sex": pel.Category(["F", "M"])})
        >>> session = pel.Session({"age": [30, 40] * 100, "sex": ["F", "M"] * 100}, schema, budget=pel.Budget(epsilon=1.0))
        >>> found = session.release([pel.Distribution("age", bins=10), pel.Distribution("sex")], epsilon=0.5)
        >>> found.total, found["Distribution sex"].certificate.epsilon
        (ε = 0.5, 0.25)
        """
        asker = Asker(checked_text("by", by), checked_text("purpose", purpose))
        cost = {"epsilon": epsilon, "rho": rho, "share": share}
        if is_list(explainer):
            return self._released_list(explainer, cost, kind, asker, fresh)
        alone = checked(explainer)
        plan = self._best(alone, self._account.prices(**cost, kind=kind), again=True, fresh=fresh, share=share is not None)
        self._check_whole(alone)
        with kept_as_tried(alone.models, self.schema, self._engine.asking):
            order = self._ordered("", alone, plan, fresh)
            (made,), _ = carried_out([order], self._engine, self._account, asker, self._audited)
        if isinstance(made, Exception):
            raise made
        return made

    def _released_list(self, items: Items, cost: dict[str, Any], kind: Kind | None, asker: Asker, fresh: bool) -> Released:
        requests = requests_of(items)
        models = {id(model): model for explainer, _ in requests.values() for model in explainer.models}
        for explainer, _ in requests.values():
            self._check_whole(explainer)
            explainer.columns(self.schema)
        for model in models.values():
            tried(model, self.schema, self._engine.asking, again=True)
        with kept_as_tried(models.values(), self.schema, self._engine.asking):
            course = self._best_course(priced(list(requests.values()), self._account, cost, kind), fresh)
            orders: list[Order] = []
            for name, (explainer, _), plan in zip(requests, requests.values(), course.plans):
                orders.append(self._ordered(name, explainer, plan, fresh, orders))
                if not orders[-1].free:
                    self._trials.run(plan.trial, again=True)
            stood = self._account.standing
            found, paid = carried_out(orders, self._engine, self._account, asker, self._audited)
        made = [i for i, one in enumerate(found) if isinstance(one, Explanation)]
        charges = [Spend(one.plan.public.spend.currency, Fraction(not one.free) * one.plan.public.spend.amount) for one in orders]
        released = Released(
            tuple(orders[i].name for i in made),
            tuple(one for one in found if isinstance(one, Explanation)),
            tuple(self._account.together([charges[i]]) for i in made),
            self._account.together(charges),
            self._account.left_after(stood, paid),
        )
        failed = {order.name: one for order, one in zip(orders, found) if isinstance(one, Exception)}
        if failed:
            raise ReleaseFailed.of_list(failed, released)
        return released

    def _ordered(self, name: str, explainer: Explainer, plan: Plan, fresh: bool, earlier: Sequence[Order] = ()) -> Order:
        """A planned release, as it is to be carried out: paid for, or answered by what is known."""
        request = request_of(explainer, plan.public)
        if fresh:
            return Order(name, explainer, plan, request)
        stored = self._stored(request, explainer, plan.public)
        like = next((i for i, one in enumerate(earlier) if one.request.key == request.key and not one.free), None)
        return Order(name, explainer, plan, request, None if stored is None else self._replayed(stored), like)

    def _check_whole(self, explainer: Explainer) -> None:
        if explainer.asks_one_by_one:
            raise PlanError(
                f"{type(explainer).__name__} answers questions one after another: "
                "with session.open(explainer, epsilon=…) as local: local.explain(record). For a single question give it record=."
            )

    def open(
        self,
        explainer: Interactive[S],
        *,
        epsilon: Any = None,
        rho: Any = None,
        share: Any = None,
        kind: Kind | None = None,
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
        plan = self._opening(explainer, self._account.prices(epsilon, rho, share, kind), name)
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
        kind: Kind | None = None,
        runs: int = 2000,
        confidence: float = 0.99,
    ) -> Row:
        """Measure on public records what this release would give away: a lower bound of its ε, to be compared with the claim.

        Neighbouring tables are made up from the schema and searched for the pair that the release tells apart best. The session's
        own table is not touched and nothing is charged. The certificate of the same request, released later, says the result,
        unless the noise came from a source of tests.
        """
        # The room of audits lies above this one, and is opened when somebody asks.
        from ..audit import World, play

        plan = self.plan(explainer, epsilon=epsilon, rho=rho, share=share, kind=kind)
        if explainer.asks_one_by_one:
            raise PlanError(
                f"{type(explainer).__name__} answers questions one after another, and only one of them can be audited here: "
                "give it record=."
            )
        if not (isinstance(runs, int) and not isinstance(runs, bool) and runs >= 10):
            raise PlanError(f"runs={runs!r}: give a whole number of releases, at least 10.")
        if not (isinstance(confidence, int | float) and 0.5 <= confidence < 1):
            raise PlanError(f"confidence={confidence!r}: give a number from 0.5 up to, but not, 1; for example 0.99.")
        spend = plan.public.spend
        world = World(self.schema, self.neighbors, self.unit, spend.currency, spend.amount)
        private = source.is_private()
        row = play(explainer, world, runs=runs, confidence=confidence)
        if private and source.is_private():
            self._audited[audit_key(request_of(explainer, plan.public), plan.public)] = row.stamp
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

    def _best(
        self,
        explainer: Explainer,
        offers: list[Spend],
        again: bool = False,
        fresh: bool = False,
        standing: Account | None = None,
        share: bool = False,
    ) -> Plan:
        """The plan for one of these prices: what was released before, or else what can be paid for, with the smallest error.

        `share` tells that the prices are parts of the account.
        """
        if len(offers) == 1:
            return self._plan(explainer, offers[0], again)
        made, stands = self._plans(explainer, offers, again), standing or self._account.standing

        def order(plan: Plan) -> tuple[bool, bool, bool, float]:
            free, spend = not fresh and self._is_free(explainer, plan), plan.public.spend
            # What is pure is paid for on the pure side: of the zCDP side it would take far more than a zCDP release does.
            left = stands.pure_remaining if spend.currency == "epsilon" else stands.remaining
            other = next((offer for offer in offers if offer.currency != spend.currency), None)
            suits = other is None or self._account.suits(stands, spend, other, share)
            return not free, charge_units(spend.amount) > left, not suits, self._mean_square(explainer, plan)

        return made[0] if len(made) == 1 else min(made, key=order)

    def outlook(self, requests: Sequence[tuple[Explainer, dict[str, Any]]]) -> Outlook:
        """What a list of releases would be charged, one after another, and of which kind all of them together err least.

        Each request is an explainer with what `release` takes: `(explainer, {"share": 0.1})`. Where the account counts either
        way, three courses are compared: all pure, all zCDP, and each as it errs less when its turn comes; `.kind` is None for
        the last one. Touches no data, charges nothing.
        """
        if not requests:
            raise PlanError("outlook() takes at least one request, for example [(pel.Distribution('age'), {'share': 0.5})].")
        return self._best_course(priced(requests, self._account, {}), careful=False).outlook

    def _best_course(self, requests: Sequence[Priced], fresh: bool = False, careful: bool = True) -> Course:
        """The course of a list by which all of its releases together err least, where the account counts either way.

        A `careful` account takes a kind that nobody asked for no more readily for a list than for one release.
        """
        either = self._account.counts_either and not (careful and self._account.careful)
        compared = either and not all(one.settled for one in requests)
        kinds: tuple[Kind | None, ...] = (None, "pure", "zcdp") if compared else (None,)
        courses, refused = [], None
        for kind in kinds:
            try:
                courses.append(self._course(requests, kind, fresh))
            except PlanError as error:
                refused = refused or error
        if refused is not None and not courses:
            raise refused
        return max(courses, key=lambda course: (course.outlook.payable, -course.outlook.error))

    def _course(self, requests: Sequence[Priced], kind: Kind | None, fresh: bool) -> Course:
        stands = self._account.standing
        plans, charges, squares, payable = [], [], [], 0
        known: set[str] = set()
        for one in requests:
            explainer = one.explainer
            plan = self._best(explainer, one.offers, fresh=fresh, standing=stands, share=one.share)
            free = not fresh and self._is_free(explainer, plan)
            if kind is not None and not one.settled and not free:
                offers = [offer for offer in one.offers if offer.currency == CURRENCY[kind]]
                if not offers:
                    raise PlanError(f"one of the prices is too small for a {kind} release.")
                plan = self._best(explainer, offers, standing=stands)
                free = not fresh and self._is_free(explainer, plan)
            squares.append(self._mean_square(explainer, plan) if self._account.counts_either else 1.0)
            spend = plan.public.spend
            if not fresh and not explainer.asks_one_by_one:
                # What was asked for earlier in the list is known by the time it is asked for again.
                key = request_of(explainer, plan.public).key
                free = free or key in known
                known.add(key)
            plans.append(plan)
            charges.append(Spend(spend.currency, Fraction(0) if free else spend.amount))
            then = stands if free else stands.after(charge_units(spend.amount), spend.currency)
            payable += then.is_within and payable == len(charges) - 1
            stands = then
        error = float(np.mean(np.log(np.maximum(squares, 1e-300))))
        return Course(Outlook(kind, tuple(charges), payable, error, self._account.left_of(stands)), tuple(plans))

    def _opening(self, explainer: Explainer, offers: list[Spend], name: str) -> Plan:
        """The plan of a stream: one that was opened before goes on in its own kind."""
        if len(offers) == 1:
            return self._plan(explainer, offers[0], again=True)
        made = self._plans(explainer, offers, again=True)
        for plan in made:
            if self.ledger.thread(self.name, request_of(explainer, plan.public, stream=name).key):
                return plan
        if self._account.careful:
            # A stream is asked an unknown number of questions, and many cost less in ρ.
            return next((plan for plan in made if plan.public.spend.currency == "rho"), made[0])
        return self._best(explainer, [plan.public.spend for plan in made])

    def _plans(self, explainer: Explainer, offers: list[Spend], again: bool) -> list[Plan]:
        """A plan for each price that the explainer can be paid with; what is wrong with all of them is an error."""
        made: list[Plan] = []
        refused = None
        for spend in offers:
            try:
                made.append(self._plan(explainer, spend, again and not made))
            except PlanError as error:
                refused = refused or error
        if refused is not None and not made:
            raise refused
        return made

    def _mean_square(self, explainer: Explainer, plan: Plan) -> float:
        """How large the error will be, from public things: the mean square of the half-widths that a preview shows.

        Kinds are compared by it, and the ledger shows which was taken: so that this tells nothing about a record asked about, one
        in the middle of all ranges stands in for it.
        """
        if getattr(explainer, "record", None) is not None and is_dataclass(explainer):
            middle = {name: None if c.stands_in else c.label(c.fill) for name, c in self.schema.items()}
            explainer = replace(explainer, record=middle)
            plan = self._plan(explainer, plan.public.spend)
        try:
            expected = explainer.expected(plan)
        except PlanError:
            # Without a guess of the number of records there is no preview; which kind errs less hardly depends on it.
            guessed = replace(plan.public, expected_rows=plan.public.rows_or_default)
            expected = explainer.expected(explainer.plan(guessed))
        # The errors that are expected decide between kinds, where they are known to be less than bars must allow for.
        errors = expected.error if expected.typical is None else 1.96 * expected.typical
        found = float(np.mean(np.square(errors)))
        return found if math.isfinite(found) else math.inf

    def _plan(self, explainer: Explainer, spend: Spend, again: bool = False) -> Plan:
        """`again` tries models that were tried before: what they were then says nothing about what they are now."""
        checked(explainer)
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
