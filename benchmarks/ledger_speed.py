"""Durable reserve + commit pairs a second, by one process and by several at once, and how long the slowest pair took.

    python benchmarks/ledger_speed.py [--before CHECKOUT]

Compared are ways in which SQLite can undo a turn that was cut short, and with `--before` the ledger of another checkout. Runs
alternate, so that a busy machine is as busy for one as for the other; told are medians.
"""

from __future__ import annotations

import argparse
import inspect
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pellucid.ledger import Ledger

TERMS = {"currency": "epsilon", "delta": "0", "relation": "replace", "unit": "person"}
PROCESSES = (1, 2, 4)
MODES = ("TRUNCATE", "PERSIST", "DELETE", "WAL and checkpoint")


def opened(path: Path, mode: str) -> Ledger:
    """A ledger in this mode; the one of an earlier version knows its own only."""
    if "create" not in inspect.signature(Ledger).parameters:
        return Ledger(path)
    if mode == "TRUNCATE":
        return Ledger(path, create=True)
    from pellucid.ledger.sqlite import SqliteStore

    store = type("Other", (SqliteStore,), {"journal": mode.split()[0]})(path, create=True)
    if mode == "DELETE":
        # Whether its end is on disk, FULL leaves to chance.
        quietly(store, "PRAGMA synchronous=EXTRA")
    return Ledger(store)


def quietly(store, statement: str) -> None:
    store._connection.exec_driver_sql(statement)
    store._connection.rollback()


def pay(path: Path, mode: str, seconds: float, gate, results) -> None:
    ledger, pairs, worst = opened(path, mode), 0, 0.0
    gate.wait()
    begun = time.perf_counter()
    while time.perf_counter() - begun < seconds:
        start = time.perf_counter()
        paid = ledger.reserve("shared", 1, key=str(pairs), request='{"explainer": "timing"}', by="benchmark", purpose="time")
        ledger.commit(paid, '{"y": [1, 2, 3]}')
        if "checkpoint" in mode:
            quietly(ledger._store, "PRAGMA wal_checkpoint(TRUNCATE)")
        worst, pairs = max(worst, time.perf_counter() - start), pairs + 1
    results.put((pairs / (time.perf_counter() - begun), worst))


def pairs_a_second(folder: Path, mode: str, processes: int, seconds: float) -> tuple[float, float]:
    path = Path(tempfile.mkdtemp(dir=folder)) / "speed.db"
    with opened(path, mode) as ledger:
        ledger.open_account("shared", budget=10**9, **TERMS)
    context = multiprocessing.get_context("fork")
    gate, results = context.Barrier(processes), context.Queue()
    workers = [context.Process(target=pay, args=(path, mode, seconds, gate, results)) for _ in range(processes)]
    for worker in workers:
        worker.start()
    found = [results.get() for _ in workers]
    for worker in workers:
        worker.join()
    return sum(pairs for pairs, _ in found), max(worst for _, worst in found)


def elsewhere(checkout: str, folder: Path, processes: int, seconds: float) -> tuple[float, float]:
    """The same with the package of another checkout."""
    asked = [sys.executable, __file__, "--one", str(processes), "--seconds", str(seconds), "--folder", str(folder)]
    environment = os.environ | {"PYTHONPATH": f"{checkout}/src:{checkout}"}
    done = subprocess.run(asked, env=environment, cwd=checkout, capture_output=True, text=True, check=True)
    return tuple(json.loads(done.stdout))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", help="another checkout to compare with")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--folder", help="where to put the ledgers; a temporary folder if not given")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=asked.folder) as made:
        folder = Path(made)
        if asked.one:
            print(json.dumps(pairs_a_second(folder, MODES[0], asked.one, asked.seconds)))
            return
        kinds = [*MODES, *(["before"] if asked.before else [])]
        found: dict[tuple[str, int], list[tuple[float, float]]] = {}
        for turn in range(asked.rounds):
            for kind in kinds if turn % 2 else kinds[::-1]:
                for processes in PROCESSES:
                    if kind == "before":
                        one = elsewhere(asked.before, folder, processes, asked.seconds)
                    else:
                        one = pairs_a_second(folder, kind, processes, asked.seconds)
                    found.setdefault((kind, processes), []).append(one)
        print("| | " + " | ".join(f"{n} process{'es' if n > 1 else ''}" for n in PROCESSES) + " |")
        print("|---|" + "---|" * len(PROCESSES))
        for kind in kinds:
            cells = []
            for processes in PROCESSES:
                speeds, worst = zip(*found[kind, processes])
                cells.append(f"{statistics.median(speeds):.0f} (slowest pair {statistics.median(worst):.2g} s)")
            print(f"| {kind} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
