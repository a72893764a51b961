"""A report that was released: its explanations, what they say together, one certificate, one total, one page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import PlanError
from ..mechanisms import Spend
from ..release.certificate import Certificate
from ..release.combined import combined
from ..release.explanation import Explanation
from ..release.released import Released
from .planner import LeftOut, ReportPlan, Step
from .report import PARTS
from .sentences import Sentence, found

if TYPE_CHECKING:
    from .draft import ReportDraft


@dataclass(frozen=True, eq=False)
class MadeReport(Released):
    """The explanations of a report, by name, each with its own certificate, and what they say and guarantee together."""

    title: str = ""
    """What it is about."""
    output: str = "the mean prediction"
    """What curves show, in words."""
    steps: tuple[Step | None, ...] = ()
    """What each of them was planned as; none for single answers of a stream."""
    left_out: tuple[LeftOut, ...] = ()
    """What is not in it, and why."""

    @classmethod
    def of(cls, draft: ReportDraft, plan: ReportPlan, steps: Mapping[str, Step], made: Mapping[str, Explanation]) -> MadeReport:
        account = draft.session._account
        # As a reader wants them, and not as they were released.
        parts = {name: list(PARTS).index(steps[name].part) if name in steps else len(PARTS) for name in made}
        made = {name: made[name] for name in sorted(made, key=lambda name: parts[name])}
        spends = [_spent(one, plan.spend.currency) for one in made.values()]
        known = tuple(steps.get(name) for name in made)
        return cls(
            tuple(made),
            tuple(made.values()),
            tuple(account.together([spend]) for spend in spends),
            account.together(spends),
            account.remaining,
            title=plan.title,
            output=f"the mean of {draft.report.model.name}",
            steps=known,
            left_out=plan.left_out,
        )

    @cached_property
    def certificate(self) -> Certificate:
        """One certificate for all of it: the sum of its parts, and all that it rests on."""
        return combined({name: one.certificate for name, one in self.items() if one.certificate is not None})

    @property
    def sentences(self) -> list[Sentence]:
        """What was found, in words, with how sure it is."""
        return [sentence for name, one in self.items() for sentence in found(name, one)]

    @property
    def html(self) -> str:
        """The report as one page that needs nothing else."""
        from .page import page

        return page(self)

    def save(self, path: str | Path) -> list[Path]:
        """Write the page, if the path ends in .html; else a folder with the page and every explanation as JSON."""
        path = Path(path)
        if path.suffix.lower() in (".html", ".htm"):
            path.write_text(self.html, encoding="utf-8")
            return [path]
        if path.suffix:
            raise PlanError(f"save({str(path)!r}): give the name of an .html file, or of a folder.")
        files = super().save(path)
        page = path / "report.html"
        page.write_text(self.html, encoding="utf-8")
        return [*files, page]

    def __str__(self) -> str:
        lines = [self._headline, *(f"  {sentence}" for sentence in self.sentences), *(f"  {left}" for left in self.left_out)]
        return "\n".join(lines)

    @property
    def _headline(self) -> str:
        return f"{self.title}: {len(self)} explanations for {self.total}; left {self.left}"


def _spent(one: Explanation, currency: Any) -> Spend:
    """What an explanation cost, whenever it was paid for."""
    certificate = one.certificate
    amount = 0.0
    if certificate is not None:
        amount = certificate.epsilon if currency == "epsilon" else certificate.rho or 0.0
    return Spend(currency, Fraction(amount).limit_denominator(10**12))
