"""The whole audit: every case of the catalogue, and every check, side by side on all processors."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..errors import LoadError, PlanError
from ..public.schema import did_you_mean
from .cases import cases
from .checks import Finding, checks
from .game import Row

RISK = 0.05
"""The chance that any true claim of the whole table is called broken."""
TIMES, SECONDS = 4, 180.0
"""How many times as many releases as are enough, and how many seconds of a processor for them at most, a case has in the full
audit."""
FAST_RUNS, FAST_SECONDS = 12_000, 5.0
"""Releases of a case in the fast one at most, and seconds for them."""

Limits = tuple[int | None, float]
"""Releases of a case at most, if not as many as are enough for it, and seconds of a processor for them."""

Job = tuple[str, int]
"""A case or a check, and its number."""


@dataclass(frozen=True)
class Report:
    """What an audit found."""

    rows: tuple[Row, ...]
    findings: tuple[Finding, ...] = ()
    skipped: tuple[tuple[str, str], ...] = ()
    """Releases that could not be audited, and why."""
    certainty: str = f"at {1 - RISK:.0%} for the whole table"

    @property
    def holds(self) -> bool:
        return all(row.verdict == "holds" for row in self.rows) and all(finding.passed for finding in self.findings)

    def to_list(self) -> list[dict[str, Any]]:
        """Rows of games, then checks, which claim nothing in numbers."""
        listed = [row.to_dict() for row in self.rows]
        for finding in self.findings:
            listed.append({"claimed": None, "measured": None, "confidence": None, **finding.to_dict()})
        for name, why in self.skipped:
            listed.append({"name": name, "claimed": None, "measured": None, "confidence": None, "verdict": f"not audited: {why}"})
        return listed

    @property
    def remarks(self) -> tuple[str, ...]:
        """Names of rows that hold, and that measure less than is known to be there."""
        return tuple(row.name for row in self.rows if row.remark)

    @property
    def summary(self) -> str:
        """How many hold, in one line."""
        broken = sum(row.verdict != "holds" for row in self.rows) + sum(not finding.passed for finding in self.findings)
        whole = len(self.rows) + len(self.findings)
        said = f"{broken} of {whole} are BROKEN" if broken else "all hold" if whole else "nothing was audited"
        short = f"; {len(self.remarks)} of the rows measure less than is known to be there" if self.remarks else ""
        skipped = f"; {len(self.skipped)} could not be audited" if self.skipped else ""
        return f"{said}; {self.certainty}{short}{skipped}"

    def __str__(self) -> str:
        wide = max((len(row.name) for row in self.rows), default=4)
        lines = [f"{'release':<{wide}}  claimed ε  measured ε ≥  part of it  verdict"] if self.rows else []
        for row in self.rows:
            at, remark = f" at δ = {row.delta:g}" if row.delta else "", f"; {row.remark}" if row.remark else ""
            figures = f"{row.claimed:>9.3g}  {row.measured:>12.3g}  {_part(row):>10}"
            lines.append(f"{row.name:<{wide}}  {figures}  {row.verdict}{at}{remark}")
        lines += ["", *(f"{finding.name}: {finding.verdict}" for finding in self.findings)] if self.findings else []
        lines += ["", *(f"{name}: not audited: {why}" for name, why in self.skipped)] if self.skipped else []
        nothing = sum(row.measured == 0 for row in self.rows)
        said = (
            "measured 0: the two tables could not be told apart by so many releases, which proves nothing; more might tell them"
        )
        lines += ["", f"{nothing} of the rows {said}"] if nothing else []
        return "\n".join([*lines, "", self.summary])

    @property
    def markdown(self) -> str:
        """The table for a page."""
        lines = [
            "| release | claimed ε | measured ε ≥ | part of it | floor | releases | verdict |",
            "|---|---|---|---|---|---|---|",
        ]
        for row in self.rows:
            claimed = f"{row.claimed:.3g}" + (f" at δ = {row.delta:g}" if row.delta else "")
            floor, verdict = f"{row.floor:g}" if row.floor else "–", f"{row.verdict}{'; below its floor' if row.remark else ''}"
            lines.append(f"| {row.name} | {claimed} | {row.measured:.2f} | {_part(row)} | {floor} | {row.runs:,} | {verdict} |")
        if self.findings:
            lines += ["", "| check | verdict |", "|---|---|", *(f"| {found.name} | {found.verdict} |" for found in self.findings)]
        return "\n".join([*lines, "", f"{self.summary[0].upper()}{self.summary[1:]}."])


def _part(row: Row) -> str:
    return f"{row.part:.2f}" if math.isfinite(row.measured) else "-"


def audit(
    names: Sequence[str] = (),
    *,
    fast: bool = False,
    workers: int = 0,
    told: Callable[[str, int, int], None] = lambda name, done, of: None,
    runs: int | None = None,
    risk: float = RISK,
    notes: Path | None = None,
) -> Report:
    """Play the game against all cases and run all checks, or those whose names contain one of `names`.

    `runs` is for fewer releases of each than a fast audit makes, `risk` the chance that any true claim is called broken. What is
    found is added to the file `notes` at once, and what stands there of an audit of the same releases, as thorough and of the
    same code, is not measured again.
    """
    wanted = [i for i, case in enumerate(cases()) if _asked_for(case.name, names)]
    checked = [i for i, check in enumerate(checks()) if _asked_for(check.__name__.replace("_", " "), names)]
    if not wanted and not checked:
        known = sorted({case.name.split(",")[0].split(" ")[0] for case in cases()})
        raise PlanError(f"no release in the catalogue is called {names[0]!r}{did_you_mean(names[0], known)}.")
    jobs: list[Job] = [*(("case", i) for i in wanted), *(("check", i) for i in checked)]
    limits = (runs, FAST_SECONDS) if runs else (FAST_RUNS, FAST_SECONDS) if fast else (None, SECONDS)
    confidence = 1 - risk / max(len(wanted), 1)
    book = Notes(notes, [*(cases()[i].name for i in wanted)], confidence, limits)
    found: dict[Job, Any] = {job: book.known[job] for job in jobs if job in book.known}
    left = [job for job in jobs if job not in found]
    found |= _side_by_side(left, confidence, limits, workers or os.cpu_count() or 1, told, book.add) if left else {}
    rows = tuple(found[job] for job in jobs if job[0] == "case")
    return Report(rows, tuple(found[job] for job in jobs if job[0] == "check"))


def _asked_for(known: str, names: Sequence[str]) -> bool:
    return not names or any(name.lower() in known.lower() for name in names)


class Notes:
    """What an audit has found so far, a line each, in a file: an audit that was stopped goes on from there."""

    def __init__(self, file: Path | None, names: Sequence[str], confidence: float, limits: Limits):
        self._file, self._said = file, {"code": _code() if file else "", "names": list(names), "as": [confidence, *limits]}
        self.known: dict[Job, Row | Finding] = {}
        if file is None or not file.exists():
            return
        lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
        if lines and not lines[-1].endswith("\n"):
            # Half a line is left by an audit that was killed.
            file.write_text("".join(lines := lines[:-1]), encoding="utf-8")
        for text in lines:
            try:
                line = json.loads(text)
                (kind, number), found = line["job"], line["found"]
                if line["of"] == self._said:
                    self.known[kind, number] = Row(**found) if kind == "case" else Finding(**found)
            except (ValueError, KeyError, TypeError):
                raise LoadError(f"{file.name} is not what an audit writes; give another file, or remove it.") from None

    def add(self, job: Job, found: Row | Finding) -> None:
        if self._file is not None:
            with self._file.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"job": job, "of": self._said, "found": asdict(found)}, ensure_ascii=False) + "\n")


def _code() -> str:
    """What is audited: a digest of all of the package's files."""
    whole, root = hashlib.sha256(), Path(__file__).parents[1]
    for file in sorted(root.rglob("*.py")):
        whole.update(f"{file.relative_to(root).as_posix()}\n".encode() + file.read_bytes())
    return whole.hexdigest()


def _side_by_side(
    jobs: Sequence[Job],
    confidence: float,
    limits: Limits,
    workers: int,
    told: Callable[[str, int, int], None],
    add: Callable[[Job, Any], None],
) -> list[tuple[Job, Any]]:
    from joblib import Parallel, delayed

    parallel = Parallel(
        n_jobs=min(workers, len(jobs)), backend="loky" if workers > 1 else "sequential", return_as="generator_unordered"
    )
    done = []
    for job, found in parallel(delayed(_done)(job, confidence, limits) for job in jobs):
        done.append((job, found))
        add(job, found)
        told(found.name, len(done), len(jobs))
    return done


def _done(job: Job, confidence: float, limits: Limits) -> tuple[Job, Row | Finding]:
    """One job, made anew from its number: models of the catalogue need not be sent."""
    kind, number = job
    if kind == "check":
        return job, checks()[number]()
    case, (most, seconds) = cases()[number], limits
    runs = TIMES * case.runs if most is None else min(TIMES * case.runs, most)
    return job, case.play(runs=runs, seconds=seconds, confidence=confidence)
