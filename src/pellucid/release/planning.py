"""What a session plans: plans, previews, prices and courses. All of it from public things: no row is read, nothing is charged."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, is_dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any, overload

import numpy as np

from ..engine import Engine
from ..engine.trial import Trials
from ..errors import PlanError
from ..ledger import Account, Ledger, charge_units
from ..ledger.accounting import CURRENCY, Amount, Budget, Kind
from ..mechanisms import Currency, Spend
from ..public.row_wise import tried
from ..public.schema import Relation, Schema, Unit
from ..query import Sum
from ..query.bounds import Cells
from .account import OpenAccount
from .explainer import Explainer
from .explanation import Explanation, from_json
from .part import Part
from .plan import Plan, Public
from .preview import Outlook, Preview
from .rehearsal import seconds
from .released import Previews
from .request import Request, is_answered_by, request_of
from .several import Items, Priced, checked, is_list, priced, requests_of

RECORD_NOTE = "paid for again in every run: the record is not stored"


@dataclass(frozen=True)
class Course:
    """One way to release a list."""

    outlook: Outlook
    plans: tuple[Plan, ...]


def _no_map(rows: Any) -> Any:
    raise AssertionError("nothing is read for a preview")


class Planning:
    """Base of sessions: what can be said before anything is paid for."""

    schema: Schema
    """The declared columns."""
    budget: Budget
    """As the account has it."""
    neighbors: Relation
    """What a neighbour is."""
    unit: Unit
    """Whom it protects."""
    expected_rows: int | None
    """A public guess of the number of people."""
    name: str
    """Of the account."""
    _account: OpenAccount
    _engine: Engine
    _trials: Trials
    _rows: int | None
    _part: Part | None
    """The part of the table that this session is about; None for the whole table."""
    _guessed: bool
    """Whether nobody said how many records are in the part."""
    _table: Any
    """The session on the whole table."""

    @property
    def remaining(self) -> Amount:
        """What is left of the budget."""
        return self._account.remaining

    @property
    def ledger(self) -> Ledger:
        """The ledger that the account is in."""
        return self._account.ledger

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
                *self._of_part(plan.public),
                *([plan.useless] if plan.useless else []),
            ),
            free,
            afterwards,
            expected.typical,
            expected.at_most,
            expected.instead,
            partial(seconds, explainer, plan),
        )

    def _of_part(self, public: Public) -> list[str]:
        """What has to be said of a part of the table, from public things."""
        if public.part is None or public.expected_rows is None:
            return []
        supposed = f"about {public.expected_rows:,} records are supposed to be in this part"
        if self._guessed:
            supposed += ", its share of the declared values; say where(..., expected_rows=) if you know better"
        small = self._too_small(public)
        return [supposed, *([small] if small else [])]

    def _too_small(self, public: Public) -> str:
        """That a part of the expected size would not be seen; empty if it would, or nobody has guessed."""
        if public.part is None or public.expected_rows is None:
            return ""
        # Even all of the price, spent on nothing but their number, would leave it this uncertain.
        counting = public.mechanism(Sum(_no_map, Cells(1)))
        error = counting.law.times(1 / Cells(1).one).half_width(0.95)
        if error < public.expected_rows:
            return ""
        return (
            f"{public.part.where.text}: about {public.expected_rows:,} records are expected there, and for {public.spend.text} "
            f"even their number would be uncertain by ±{error:,.0f}: such a part cannot be seen; pay more, or join it with others"
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
            middle = {name: None if c.stands_in else c.value_at(c.fill) for name, c in self.schema.items()}
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
        relation: Relation = self.neighbors if self._part is None else "add-remove"
        strict = self._engine.asking.strict
        public = Public(self.schema, relation, self.unit, spend, self._rows, self.expected_rows, strict, self._part)
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
