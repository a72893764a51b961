"""The whole audit: every case of the catalogue, and every check, side by side on all processors."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import PlanError
from ..public.schema import did_you_mean
from .cases import Case, cases
from .checks import Finding, checks
from .game import Row

RISK = 0.05
"""The chance that any true claim of the whole table is called broken."""
TIMES, SECONDS = 4, 300.0
"""How many times as many releases as are enough, and how many seconds at most, a case has in the full audit."""
FAST_RUNS, FAST_SECONDS = 4_000, 7.0


@dataclass(frozen=True)
class Report:
    """What an audit found."""

    rows: tuple[Row, ...]
    findings: tuple[Finding, ...]

    @property
    def holds(self) -> bool:
        return all(row.verdict == "holds" for row in self.rows) and all(finding.passed for finding in self.findings)

    @property
    def confidence(self) -> float:
        """Of all rows together."""
        return 1 - RISK

    def to_list(self) -> list[dict[str, Any]]:
        """Rows of games, then checks, which claim nothing in numbers."""
        listed = [row.to_dict() for row in self.rows]
        for finding in self.findings:
            listed.append({"claimed": None, "measured": None, "confidence": None, **finding.to_dict()})
        return listed

    def __str__(self) -> str:
        wide = max((len(row.name) for row in self.rows), default=4)
        lines = [f"{'release':<{wide}}  claimed ε  measured ε ≥  part of it  verdict"] if self.rows else []
        for row in self.rows:
            at = f" at δ = {row.delta:g}" if row.delta else ""
            part = f"{row.part:.2f}" if math.isfinite(row.measured) else "-"
            lines.append(f"{row.name:<{wide}}  {row.claimed:>9.3g}  {row.measured:>12.3g}  {part:>10}  {row.verdict}{at}")
        lines += ["", *(f"{finding.name}: {finding.verdict}" for finding in self.findings)] if self.findings else []
        broken = sum(row.verdict != "holds" for row in self.rows) + sum(not finding.passed for finding in self.findings)
        said = f"{broken} of {len(self.rows) + len(self.findings)} are BROKEN" if broken else "all hold"
        return "\n".join([*lines, "", f"{said}; at {self.confidence:.0%} for the whole table"])


def audit(
    names: Sequence[str] = (),
    *,
    fast: bool = False,
    workers: int = 0,
    told: Callable[[str, int, int], None] = lambda name, done, of: None,
) -> Report:
    """Play the game against all cases, or those whose names contain one of `names`, and run the checks where no name is given."""
    wanted = [i for i, case in enumerate(cases()) if _asked_for(case, names)]
    if not wanted:
        known = sorted({case.name.split(",")[0].split(" ")[0] for case in cases()})
        raise PlanError(f"no release in the catalogue is called {names[0]!r}{did_you_mean(names[0], known)}.")
    jobs: list[tuple[str, int]] = [("case", i) for i in wanted]
    if not names:
        jobs += [("check", i) for i in range(len(checks()))]
    confidence = 1 - RISK / len(wanted)
    found = dict(_side_by_side(jobs, confidence, fast, workers or os.cpu_count() or 1, told))
    rows = tuple(found[job] for job in jobs if job[0] == "case")
    return Report(rows, tuple(found[job] for job in jobs if job[0] == "check"))


def _asked_for(case: Case, names: Sequence[str]) -> bool:
    return not names or any(name.lower() in case.name.lower() for name in names)


def _side_by_side(
    jobs: Sequence[tuple[str, int]], confidence: float, fast: bool, workers: int, told: Callable[[str, int, int], None]
) -> list[tuple[tuple[str, int], Any]]:
    from joblib import Parallel, delayed

    parallel = Parallel(
        n_jobs=min(workers, len(jobs)), backend="loky" if workers > 1 else "sequential", return_as="generator_unordered"
    )
    done = []
    for job, found in parallel(delayed(_done)(job, confidence, fast) for job in jobs):
        done.append((job, found))
        told(found.name, len(done), len(jobs))
    return done


def _done(job: tuple[str, int], confidence: float, fast: bool) -> tuple[tuple[str, int], Row | Finding]:
    """One job, made anew from its number: models of the catalogue need not be sent."""
    kind, number = job
    if kind == "check":
        return job, checks()[number]()
    case = cases()[number]
    runs, seconds = (min(case.runs, FAST_RUNS), FAST_SECONDS) if fast else (TIMES * case.runs, SECONDS)
    return job, case.play(runs=runs, seconds=seconds, confidence=confidence)
