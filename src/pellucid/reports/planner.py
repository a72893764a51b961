"""What a report releases, at which share of its price, and what it leaves out and why.

All of it follows from public things: the model, the schema, the number of people, the price; and from what the same report has
released so far, which was paid for. So a report that is asked for again asks for the same, and what was released is free.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import PlanError
from ..explainers.statistics.results import Counts
from ..mechanisms import Spend
from ..release.account import part_of
from ..release.explanation import Explanation
from ..release.plan import Plan
from ..release.preview import LONG
from ..release.rehearsal import in_words, seconds
from ..release.verdict import enough
from . import candidates as of
from .candidates import Candidate
from .report import PARTS, Report
from .split import Errors, divided, in_parts, tried
from .usual import READABLE, Usual

if TYPE_CHECKING:
    from ..release.session import Session


TURNS = ("first, because the others depend on it", "then, as far as it can be told now", "last, planned anew from the answers")
"""What is said of steps, by their turn."""


@dataclass(frozen=True, eq=False)
class Step:
    """One explanation of a report, with its price."""

    candidate: Candidate
    spend: Spend
    """What it may cost."""
    share: float
    """Of the whole report."""
    error: float
    """The root mean square error to expect of its outputs."""
    relative: float
    """The same, relative to how far such explanations usually go."""

    @property
    def name(self) -> str:
        return self.candidate.name

    @property
    def part(self) -> str:
        return self.candidate.part

    @property
    def cost(self) -> dict[str, Any]:
        """Its price as `session.release` takes it."""
        return {"epsilon": self.spend.amount} if self.spend.currency == "epsilon" else {"rho": self.spend.amount}


@dataclass(frozen=True)
class LeftOut:
    """What a report does not hold, and why not."""

    name: str
    why: str

    def __str__(self) -> str:
        return f"{self.name}: left out; {self.why}"


@dataclass(frozen=True, eq=False)
class ReportPlan(Sequence[Step]):
    """What a report would release. Nothing is paid and no row is read."""

    title: str
    """What it is called, on paper too."""
    spend: Spend
    """What the whole report costs."""
    price: str
    """The same in the words of the account."""
    steps: tuple[Step, ...]
    """What it releases, those first that others wait for."""
    left_out: tuple[LeftOut, ...]
    """What it does not, and why."""
    rehearse: Callable[[], float | None] = field(default=lambda: None, repr=False)
    """Measures on public records how long it takes."""

    @cached_property
    def seconds(self) -> float | None:
        """About how long the release of all of it takes, but for streams of questions; None where that cannot be told. It is
        measured on public records, the first time it is asked for."""
        return self.rehearse()

    @property
    def takes(self) -> str:
        """The same in words, where it is long; else empty. It is not a part of `str(plan)`, which is the same in every run."""
        return "" if self.seconds is None or self.seconds < LONG else f"The release takes {in_words(self.seconds)}."

    def __getitem__(self, which: Any) -> Any:
        if isinstance(which, str):
            found = next((step for step in self.steps if step.name == which), None)
            if found is None:
                raise PlanError(f"there is no {which!r} in this plan; it has {', '.join(step.name for step in self.steps)}.")
            return found
        return self.steps[which]

    def __len__(self) -> int:
        return len(self.steps)

    def __iter__(self) -> Iterator[Step]:
        return iter(self.steps)

    @property
    def relative_error(self) -> float:
        """The mean relative error to expect: what the price is divided for."""
        return float(np.mean([step.relative for step in self.steps]))

    def __str__(self) -> str:
        wide = max(len(step.name) for step in self.steps)
        lines = [f"{self.title} for {self.price}: {len(self.steps)} explanations. Nothing is paid yet."]
        turn = -1
        for step in self.steps:
            if step.candidate.turn != turn:
                turn = step.candidate.turn
                lines.append(f"  {TURNS[turn]}:")
            error = f"{step.error:,.0f}" if step.error >= 100 else f"{step.error:.2g}"
            told = f"errors of about {error}, {step.relative:.0%} of how far it usually goes"
            lines.append(f"    {step.name:{wide}}  {step.share:5.1%}  {step.spend.text:<12}  {told}")
        lines += [f"  {left}" for left in self.left_out]
        return "\n".join(lines)


class Planner:
    """Plans one report of a session."""

    def __init__(self, session: Session, report: Report, total: Spend):
        self.session, self.report, self.total = session, report, total
        self.usual = Usual(session.schema)
        self.columns = report.columns(session.schema)
        self._known: dict[str, tuple[Candidate, Errors | str]] = {}

    def plan(self, made: Mapping[str, Explanation], paid: Mapping[str, Spend]) -> ReportPlan:
        """The steps that are left, once some were made and paid for; all of them before."""
        spent = sum((spend.amount for spend in paid.values()), Fraction(0))
        self._look_at(made)
        left_out: list[LeftOut] = []
        wanted = [one for one in self._candidates(made, left_out) if one.name not in made]
        rest = Spend(self.total.currency, self.total.amount - spent)
        steps = self._divided(wanted, rest, left_out)
        if not steps and not made:
            raise PlanError(f"nothing of this report could be read for {self.total.text}: {'; '.join(map(str, left_out))}.")
        steps.sort(key=lambda step: (step.candidate.turn, list(PARTS).index(step.part)))
        title = f"A report on {self.report.model.name}"
        price = str(self.session._account.together([self.total]))
        return ReportPlan(title, self.total, price, tuple(steps), tuple(left_out), partial(self._seconds, tuple(steps)))

    def _seconds(self, steps: Sequence[Step]) -> float | None:
        """As if each were released alone; lists read the table together, and are a little quicker."""
        found = [seconds(step.candidate.planned, self._planned(step.candidate, step.spend)) for step in steps]
        known = [one for one in found if one is not None]
        return sum(known) if known else None

    def _look_at(self, made: Mapping[str, Explanation]) -> None:
        """Once it is known how people are spread, made-up people tell how far curves go, better than records from anywhere."""
        people = tuple(one.spread for one in made.values() if isinstance(one, Counts))
        if people != self.usual.people:
            self.usual = Usual(self.session.schema, people)
            for key in [key for key, (known, _) in self._known.items() if known.part == "curves"]:
                del self._known[key]

    def _candidates(self, made: Mapping[str, Explanation], left_out: list[LeftOut]) -> list[Candidate]:
        report, schema, wanted = self.report, self.session.schema, self.report.wanted
        found: list[Candidate] = []
        if "importance" in wanted:
            found.append(self._once("importance", lambda: of.importance(report, schema)))
        names = self._curves(made, left_out) if {"curves", "distributions"} & set(wanted) else []
        if "curves" in wanted:
            found += [self._curve(name) for name in names]
        if "distributions" in wanted:
            found += [self._once(f"distribution {name}", lambda name=name: of.distribution(name)) for name in names]
        if "interactions" in wanted and len(self.columns) > 1:
            found.append(self._interactions())
        if "decision" in wanted and report.record is not None:
            found.append(self._once("decision", lambda: of.decision(report, schema)))
        if "questions" in wanted and report.questions:
            found.append(self._once("questions", lambda: of.questions(report)))
        if "clusters" in wanted and report.clusters is not None:
            found += self._clusters(made)
        return found

    def _once(self, key: str, make: Any) -> Candidate:
        """A candidate, and what is known of its errors, is made once."""
        if key not in self._known:
            candidate = make()
            self._known[key] = (candidate, self._errors(candidate))
        return self._known[key][0]

    def _errors_of(self, candidate: Candidate) -> Errors | str:
        return next(errors for known, errors in self._known.values() if known is candidate)

    def _errors(self, candidate: Candidate) -> Errors | str:
        """The relative error by price, or why it cannot be had at any."""
        prices, relative, why = tried(float(self.total.amount)), [], ""
        for price in prices:
            try:
                plan = self._planned(candidate, Spend(self.total.currency, Fraction(float(price)).limit_denominator(10**9)))
                why = plan.useless
                relative.append(np.inf if plan.useless else self.usual.relative(candidate.planned, plan))
            except PlanError as error:
                why = str(error)
                relative.append(np.inf)
        errors = Errors(prices, np.array(relative))
        return errors if np.isfinite(errors.relative).any() else why or "it cannot be had at this price"

    def _planned(self, candidate: Candidate, spend: Spend) -> Plan:
        return self.session._plan(candidate.planned, spend)

    def _curves(self, made: Mapping[str, Explanation], left_out: list[LeftOut]) -> list[str]:
        """The features that get a curve: those that were named, those that lead by the released importance, or by what the model
        does to public records."""
        if self.report.features is not None:
            return list(self.report.features)
        importance = made.get("importance")
        known = [one.feature for one in made.values() if isinstance(one, Counts)]
        if known:
            return known
        # A group of features has no curve.
        led = [] if importance is None else [name for name in of.leading(importance) if name in self.columns]
        order = led or self._public_order()
        names = order[: self.report.most]
        rest = [name for name in self.columns if name not in names]
        if rest:
            by = "the released importance" if importance is not None else "public records"
            many = ", ".join(rest[:4]) + (f" and {len(rest) - 4} more" if len(rest) > 4 else "")
            left_out.append(LeftOut(f"curves along {many}", f"the model leans less on them, by {by}"))
        return names

    def _curve(self, name: str) -> Candidate:
        return self._once(f"curve {name}", lambda: of.curve(self.report, name, self.usual.people))

    def _public_order(self) -> list[str]:
        """Features by how far their curves go for public records."""
        sizes = {}
        for name in self.columns:
            candidate = self._curve(name)
            try:
                sizes[name] = self.usual.size(candidate.explainer, self._planned(candidate, self.total))
            except PlanError:
                sizes[name] = 0.0
        return sorted(sizes, key=lambda name: -sizes[name])

    def _interactions(self) -> Candidate:
        """H with error bars where they can be read for a part of the price, else the order alone."""
        measured = self._once("interactions", lambda: of.interactions(self.report, ranking=False))
        errors, price = self._errors_of(measured), 0.2 * float(self.total.amount)
        if isinstance(errors, Errors) and errors.at(price) <= READABLE:
            return measured
        ranked = self._once("ranked interactions", lambda: of.interactions(self.report, ranking=True))
        errors = self._errors_of(ranked)
        return ranked if isinstance(errors, Errors) and errors.at(price) <= READABLE else measured

    def _clusters(self, made: Mapping[str, Explanation]) -> list[Candidate]:
        report, schema = self.report, self.session.schema
        found = []
        # By public records, so that clusters need not wait for the importance.
        search = self._once(
            "clusters", lambda: of.kmeans(report, schema, self._public_order()) or of.telling(report, schema, None)
        )
        if search.turn == 0:
            found.append(search)
        key = "telling" if "clusters" in made else "telling, planned"
        return [*found, self._once(key, lambda: of.telling(report, schema, made.get("clusters")))]

    def _divided(self, wanted: list[Candidate], rest: Spend, left_out: list[LeftOut]) -> list[Step]:
        """Prices for those that can be read; whatever cannot is left out, the worst first, and the others get its part."""
        wanted = list(wanted)
        for one in list(wanted):
            errors = self._errors_of(one)
            if isinstance(errors, str):
                self._drop(one, wanted, left_out, errors)
            elif float(errors.at(float(rest.amount))) > READABLE:
                self._drop(one, wanted, left_out, self._why(one, rest))
        while wanted:
            prices = divided([self._errors_of(one) for one in wanted], float(rest.amount))  # type: ignore[misc]
            shares = in_parts(prices)
            steps = [self._step(one, part_of(rest, share)) for one, share in zip(wanted, shares)]
            worst = max(range(len(steps)), key=lambda i: steps[i].relative)
            if steps[worst].relative <= READABLE:
                return steps
            self._drop(wanted[worst], wanted, left_out, self._why(wanted[worst], steps[worst].spend))
        return []

    def _drop(self, one: Candidate, wanted: list[Candidate], left_out: list[LeftOut], why: str) -> None:
        if one not in wanted:
            return
        wanted.remove(one)
        left_out.append(LeftOut(one.name, why))
        # A histogram goes with its curve, and clusters with what tells them apart.
        for other in list(wanted):
            if (
                one.part == "curves" and other.part == "distributions" and other.about == one.about
            ) or one.part == other.part == "clusters":
                wanted.remove(other)

    def _step(self, one: Candidate, spend: Spend) -> Step:
        try:
            plan = self._planned(one, spend)
            relative = np.inf if plan.useless else self.usual.relative(one.planned, plan)
            error = self.usual.error(one.planned, plan)
        except PlanError:
            error = relative = np.inf
        return Step(one, spend, float(spend.amount / self.total.amount), float(error), float(relative))

    def _why(self, one: Candidate, spend: Spend) -> str:
        """What it would be at this price, and what would do."""
        try:
            plan = self._planned(one, spend)
        except PlanError as refused:
            return str(refused)
        error, size = self.usual.error(one.planned, plan), self.usual.size(one.planned, plan)
        public = replace(plan.public, spend=self.total)
        factor = max(error / size / READABLE, 1.01)
        return f"±{1.96 * error:.2g} {one.beside.format(f'{size:.2g}')}; {enough(public, factor)} for the whole report"
