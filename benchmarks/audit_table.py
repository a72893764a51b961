"""Runs the whole audit and writes its table into docs/audit.md, with the date, the commit and what it took.

    python benchmarks/audit_table.py              # the full audit: 10 to 20 minutes on two processors
    python benchmarks/audit_table.py --fast
    python benchmarks/audit_table.py --notes rows.jsonl    # what is found is kept there at once; the same command goes on

A missed floor is written down as it is. If anything is broken the page says so, and the command ends with 1.
"""

from __future__ import annotations

import argparse
import datetime
import os
import subprocess
import sys
import time
from pathlib import Path

from pellucid.audit.run import Report, audit

PAGE = Path(__file__).parents[1] / "docs" / "audit.md"
BEGIN, END = "<!-- the table begins -->", "<!-- the table ends -->"


def block(report: Report, fast: bool, minutes: float, busy: float) -> str:
    """What stands between the two marks."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=PAGE.parent, check=False
    ).stdout.strip()
    today = datetime.date.today()
    command = f"pellucid audit{' --fast' if fast else ''}"
    said = (
        f"`{command}`, {today.day} {today:%B %Y}, commit {commit or 'unknown'}: {minutes:.0f} minutes on {os.cpu_count()} "
        f"processors, with {busy:.1f} processes waiting for them on average."
    )
    return "\n\n".join([BEGIN, said, report.markdown, END])


def written(page: str, made: str) -> str:
    """The page with a new table in the old one's place."""
    before, rest = page.split(BEGIN)
    return before + made + rest.split(END)[1]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--fast", action="store_true")
    options.add_argument("--workers", type=int, default=0)
    options.add_argument("--notes", type=Path)
    given = options.parse_args()
    start, load = time.perf_counter(), []

    def told(name: str, done: int, of: int) -> None:
        load.append(os.getloadavg()[0])
        print(f"{done}/{of} {name}", file=sys.stderr, flush=True)

    report = audit(fast=given.fast, workers=given.workers, told=told, notes=given.notes)
    made = block(report, given.fast, (time.perf_counter() - start) / 60, sum(load) / len(load))
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), made), encoding="utf-8")
    print(report)
    if not report.holds:
        sys.exit(1)


if __name__ == "__main__":
    main()
