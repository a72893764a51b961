"""A report of a session: its plan, which costs nothing, and its release, list after list."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..errors import BudgetExceeded, PlanError
from ..explainers import LocalLinear
from ..ledger import from_units
from ..ledger.accounting import Kind
from ..mechanisms import Spend
from ..release.explanation import Explanation
from .made import MadeReport
from .planner import Planner, ReportPlan, Step
from .report import Report

if TYPE_CHECKING:
    from ..release.session import Session


LAST = 2
"""The turn after which nothing is planned anew."""


class ReportDraft:
    """A report that was planned. `print(draft.plan)` says what it will hold; `draft.release()` pays for it.

    What others wait for is released first, as one list; the rest is planned from the answers, and released as one list, or as two
    where distributions come before curves. Each list is charged at once, and all of them together cost no more than the report.
    Every price is settled by public things and by what the report has released, so a report that was stopped goes on where it
    was: what was released is free.
    """

    def __init__(self, session: Session, report: Report, offers: list[Spend]):
        self.session, self.report = session, report
        self._planner, self.plan = self._best(offers)

    def _best(self, offers: list[Spend]) -> tuple[Planner, ReportPlan]:
        """Where the account counts either way, the kind by which the report errs less."""
        made, refused = [], None
        for offer in offers:
            planner = Planner(self.session, self.report, offer)
            try:
                made.append((planner, planner.plan({}, {})))
            except PlanError as error:
                refused = refused or error
        if refused is not None and not made:
            raise refused
        return min(made, key=lambda pair: (-len(pair[1]), pair[1].relative_error))

    def __repr__(self) -> str:
        return f"ReportDraft({self.plan.title!r}, {self.plan.price}, {len(self.plan)} explanations)"

    def release(self, *, by: str = "", purpose: str = "") -> MadeReport:
        """Pay for it, read the table, and return what was found."""
        made: dict[str, Explanation] = {}
        steps: dict[str, Step] = {}
        plan, left_out = self.plan, {one.name: one for one in self.plan.left_out} if self.plan[0].candidate.turn else {}
        self._check_whole([step for step in plan if step.candidate.turn == plan[0].candidate.turn])
        while len(plan):
            due = [step for step in plan if step.candidate.turn == plan[0].candidate.turn]
            lists = [step for step in due if step.part != "questions"]
            made |= self._released(lists, by, purpose) if lists else {}
            for step in due:
                steps[step.name] = step
                made |= self._answered(step, by, purpose) if step.part == "questions" else {}
            if plan[0].candidate.turn == LAST:
                break
            plan = self._planner.plan(made, {name: step.spend for name, step in steps.items()})
            left_out |= {one.name: one for one in plan.left_out}
        never = tuple(one for name, one in left_out.items() if name not in steps)
        return MadeReport.of(self, replace(plan, left_out=never), steps, made)

    def _check_whole(self, first: list[Step]) -> None:
        """Whether the account can pay for the whole report: half of one is rarely what was meant."""
        session, total = self.session, self._planner.total
        free = all(not session.charge_for(step.candidate.explainer, **self._cost(step)) for step in first)
        if not free and not session._account.can_pay(total):
            left = float(from_units(session._account.left(total.currency)))
            raise BudgetExceeded(session.name, total.currency, float(total.amount), left, session.ledger.durable)

    def _cost(self, step: Step) -> dict[str, Any]:
        kind: Kind | None = None
        if self.session._account.counts_either:
            kind = "pure" if step.spend.currency == "epsilon" else "zcdp"
        return {**step.cost, "kind": kind}

    def _released(self, steps: list[Step], by: str, purpose: str) -> dict[str, Explanation]:
        asked = {step.name: (step.candidate.explainer, self._cost(step)) for step in steps}
        return dict(self.session.release(asked, by=by, purpose=purpose).items())

    def _answered(self, step: Step, by: str, purpose: str) -> dict[str, Explanation]:
        """The answers of a stream, one for each record."""
        found: dict[str, Explanation] = {}
        explainer = step.candidate.explainer
        assert isinstance(explainer, LocalLinear)
        with self.session.open(explainer, **self._cost(step), by=by, purpose=purpose, name="report") as stream:
            for number, record in enumerate(self.report.questions, 1):
                found[f"question {number}"] = stream.explain(dict(record))
        return found
