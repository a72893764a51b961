"""Thousands of random requests: an error before anything is charged, or an answer for exactly its price.

    python benchmarks/fuzz.py --cases 5000

What is drawn is in tests/fuzz/strategies.py, what must hold in tests/fuzz/trying.py. Prints how many cases were paid for and
refused, why, and the first case of every failure.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from pathlib import Path

from hypothesis import given, seed, settings

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "tests" / "fuzz")]

from strategies import EXPLAINERS, cases  # noqa: E402
from trying import BATCH, PROFILE, Tally, attempt  # noqa: E402


def place(error: BaseException) -> str:
    """Where an error was raised: cases that fail at the same place are one failure."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "pellucid" in f.filename or "trying" in f.filename]
    return f"{type(error).__name__} at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else type(error).__name__


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--reasons", type=int, default=0, help="how many of the commonest refusals to print")
    parser.add_argument("--only", nargs="*", default=[*EXPLAINERS, "stream"], help="explainers to ask")
    options = parser.parse_args()
    tally, failures, seen, start = Tally(), {}, set(), time.perf_counter()

    def run(case: object) -> None:
        if repr(case) in seen:
            return
        seen.add(repr(case))
        try:
            attempt(case, tally)
        except Exception as error:
            failures.setdefault(place(error), []).append((case, error))

    count = -(-options.cases // BATCH)
    for first in range(options.seed * count, (options.seed + 1) * count):
        seed(first)(settings(PROFILE)(given(cases(tuple(options.only)))(run)))()
    print(tally)
    print(f"{len(seen):,} different cases in {time.perf_counter() - start:,.0f} s; the slowest took {tally.slowest[0][0]:.1f} s")
    for reason, count in tally.reasons.most_common(options.reasons):
        print(f"{count:6,}  {reason}")
    for where, found in failures.items():
        case, error = min(found, key=lambda pair: len(repr(pair[0])))
        print(f"\n{len(found)} × {where}\n{case!r}")
        print("".join(traceback.format_exception(error)[-14:]))
    print("no exception after payment" if not failures else f"{len(failures)} different failures")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
