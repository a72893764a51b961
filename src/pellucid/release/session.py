"""The session: plan → reserve → run → commit → certificate."""

from __future__ import annotations

import copy
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, overload

from ..engine import PartEngine, open_engine
from ..engine.apart import apart
from ..engine.check import DataCheck
from ..engine.sandbox import Outcomes
from ..engine.trial import Trials
from ..errors import DataError, PlanError, ReleaseFailed
from ..ledger import Entry, Ledger, checked_text
from ..ledger.accounting import Amount, Budget, Kind
from ..mechanisms import Spend, source
from ..public.asking import Asking
from ..public.row_wise import kept_as_tried, tried
from ..public.schema import Schema, Unit, check_relation
from ..public.where import Where
from .account import OpenAccount
from .certify import Asker
from .explainer import Explainer, Interactive, S
from .explanation import Explanation, from_json
from .orders import Order, carried_out
from .part import Part
from .plan import Plan, Public
from .planning import Planning
from .released import Released
from .request import Request, audit_key, is_answered_by, request_of
from .several import Items, checked, is_list, priced, requests_of
from .stream import Channel

if TYPE_CHECKING:
    from ..audit.game import Row
    from ..public.model import Model
    from ..reports.draft import ReportDraft
    from ..reports.report import Report


class Session(Planning):
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
        self._part, self._guessed, self._table = None, False, self
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
    def whole(self) -> Amount:
        """The whole budget of the account, as the ledger has it."""
        return self._account.whole

    def __repr__(self) -> str:
        """What was declared, and nothing of the table."""
        part = "" if self._part is None else f", where {self._part.where.text}"
        return f"Session({self.name!r}, {self.budget}, {self.neighbors!r}, unit: {self.unit.text}{part})"

    def where(self, conditions: Mapping[str, Any] | None = None, /, *, expected_rows: int | None = None, **named: Any) -> Session:
        """A session on a part of the same table, with the same account: the records for which a public condition holds.

        A condition names declared columns: of a category a value or a list of values, of a number or date a pair, from the first
        up to and not with the second (None leaves an end open). Columns whose names are no words are given as a mapping. A record
        whose cell says nothing is in no part.

        Releases of parts that no record can share cost the account the largest of their sums, those of parts that overlap, and of
        the whole table, add up. With an id column a person's rows may lie in several parts, and all of them add up.

        How many records are in a part is secret, also under replace. `expected_rows` is a public guess of it, for previews; by
        default it is the share that the condition has of the declared values.

        >>> import pellucid as pel
        >>> schema = pel.Schema({"age": pel.Number(0, 99, integer=True), "ward": pel.Category(["A", "B", "C"])})
        >>> people = {"age": [20, 40, 60] * 100, "ward": ["A", "B", "C"] * 100}
        >>> session = pel.Session(people, schema, budget=pel.Budget(epsilon=1.0), neighbors="add-remove", expected_rows=300)
        >>> for ward in "ABC":
        ...     _ = session.where(ward=ward).release(pel.Distribution("age", bins=10), epsilon=0.25)
        >>> session.spent, session.remaining
        (ε = 0.25, ε = 0.75)
        """
        if conditions is not None and not isinstance(conditions, Mapping):
            raise PlanError("where: give conditions by name, where(region='north'), or as one mapping from columns to them.")
        if expected_rows is not None and (
            not isinstance(expected_rows, int) or isinstance(expected_rows, bool) or expected_rows < 1
        ):
            raise PlanError(f"expected_rows={expected_rows!r}: give a public guess of the number of records, at least 1.")
        said = Where.of(self.schema, {**(conditions or {}), **named})
        where = said if self._part is None else self._part.where.both(said)
        part, whole = Part(where, self.neighbors, self.unit), self._table
        made = copy.copy(self)
        made._part, made._audited = part, {}
        made._account = self._account.charging(part.scope)
        people = whole._rows or whole.expected_rows
        made.expected_rows = expected_rows or (None if people is None else max(1, round(people * where.share)))
        made._rows, made._guessed = None, expected_rows is None
        made._engine = PartEngine(whole._engine, where)
        made._engine.asking = Asking.about(made.expected_rows, whole._engine.asking.apart)
        made._table = whole
        return made

    def _repr_html_(self) -> str:
        """In a notebook: the account, what was declared, and what is left."""
        from .display import of_session

        return of_session(self)

    def history(self) -> list[Entry]:
        """Every entry of the account, oldest first."""
        return self.ledger.history(self.name)

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
        self._warn(plan)
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
            for plan in course.plans:
                self._warn(plan)
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

    def _warn(self, plan: Plan) -> None:
        """Before it is paid for: that noise would hide a part of the expected size."""
        said = self._too_small(plan.public)
        if said:
            warnings.warn(f"{said}. Nothing was charged yet.", UserWarning, stacklevel=3)

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

    def report(
        self,
        model: Model | Report,
        *,
        epsilon: Any = None,
        rho: Any = None,
        share: Any = None,
        kind: Kind | None = None,
        **settings: Any,
    ) -> ReportDraft:
        """A whole report for one price: `print(report.plan)` says what it will hold, `report.release()` pays for it.

        Give a model, with the settings of `pel.Report` by keyword, or a `pel.Report`. Without a price it is all that is left of
        the account. The plan leaves out what could not be read at this price, and says so; the price is divided so that each
        explanation is useful. Planning touches no data and charges nothing.

        >>> import pellucid as pel
        >>> schema = pel.Schema({"age": pel.Number(0, 99, integer=True), "sex": pel.Category(["F", "M"])})
        >>> model = pel.Model(lambda d: d["age"] / 99, output=(0, 1), features=["age", "sex"], trained_on="other data")
        >>> people = {"age": [20, 40, 60, 80] * 2500, "sex": ["F", "M"] * 5000}
        >>> session = pel.Session(people, schema, budget=pel.Budget(epsilon=1.0))
        >>> made = session.report(model, epsilon=1.0).release()
        >>> "curve along age" in made, made.total
        (True, ε = 1)
        """
        # The room of reports lies above this one, and is opened when somebody asks.
        from ..reports.draft import ReportDraft
        from ..reports.report import Report

        wanted = model if isinstance(model, Report) else Report(model, **settings)
        if isinstance(model, Report) and settings:
            raise PlanError(f"{', '.join(settings)}: a pel.Report has its settings already; give them to it.")
        return ReportDraft(self, wanted, self._account.offers(epsilon, rho, share, kind))

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

        if self._part is not None:
            raise PlanError(
                "audit() is for the whole table: audit the same release there. A part's is that of a table under add-remove, "
                "with noise for two records where the account is for replace."
            )
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
