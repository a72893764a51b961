"""Does the ledger hold? Processes race for one budget, are killed at random moments, and durable charges are timed.

python benchmarks/ledger_race.py
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path

from pellucid.errors import BudgetExceeded
from pellucid.ledger import Ledger

TERMS = {"currency": "epsilon", "delta": "0", "relation": "replace", "unit": "person"}
# A fork is quicker than a new interpreter, so that most of a killed process's life is spent inside the ledger.
PROCESSES = multiprocessing.get_context("fork" if "fork" in multiprocessing.get_all_start_methods() else "spawn")


def new_ledger(path: Path, budget: int) -> None:
    with Ledger(path, create=True) as ledger:
        ledger.open_account("shared", budget=budget, **TERMS)


def take_all(path: Path, gate, results) -> None:
    ledger, granted = Ledger(path), 0
    gate.wait()
    try:
        while True:
            ledger.reserve("shared", 1, key="", request="{}")
            granted += 1
    except BudgetExceeded:
        results.put(granted)


def race(path: Path, processes: int, grants: int) -> bool:
    new_ledger(path, grants)
    gate, results = PROCESSES.Barrier(processes), PROCESSES.Queue()
    racers = [PROCESSES.Process(target=take_all, args=(path, gate, results)) for _ in range(processes)]
    for racer in racers:
        racer.start()
    obtained = [results.get() for _ in racers]
    for racer in racers:
        racer.join()
    with Ledger(path) as ledger:
        recount, account = ledger.verify(), ledger.account("shared")
    good = sum(obtained) == grants and account.remaining == 0 and recount.ok and recount.entries == grants + 1
    print(f"race: {processes} processes, {grants} grants offered, {sum(obtained)} obtained {sorted(obtained)}; {recount.message}")
    return good


def spend_for_ever(path: Path, out: Connection) -> None:
    ledger = Ledger(path)
    while True:
        paid = ledger.reserve("shared", 1, key="again", request="{}")
        os.write(out.fileno(), f"paid {paid.seq} {paid.hash}\n".encode())
        done = ledger.commit(paid, f'{{"for": {paid.seq}}}')
        os.write(out.fileno(), f"released {paid.seq} {done.hash}\n".encode())


def kill_one(path: Path, longest: float) -> list[list[str]]:
    """What a process told the world before it was killed. Whole lines only: a pipe write this short is never split."""
    reader, writer = PROCESSES.Pipe(duplex=False)
    victim = PROCESSES.Process(target=spend_for_ever, args=(path, writer))
    victim.start()
    writer.close()
    time.sleep(random.uniform(0, longest))
    os.kill(victim.pid, signal.SIGKILL)
    victim.join()
    with os.fdopen(os.dup(reader.fileno())) as lines:
        told = [line.split() for line in lines]
    reader.close()
    return told


def kills(path: Path, times: int, longest: float) -> bool:
    new_ledger(path, 10**9)
    told: list[list[str]] = []
    broken = 0
    for _ in range(times):
        told += kill_one(path, longest)
        with Ledger(path) as ledger:
            broken += not ledger.verify().ok
    with Ledger(path) as ledger:
        history, account = ledger.history(), ledger.account("shared")
    charges = {entry.seq: entry.hash for entry in history if entry.kind == "reserve"}
    commits = {entry.refers_to: entry.hash for entry in history if entry.kind == "commit"}
    paid = {int(seq): mark for what, seq, mark in told if what == "paid"}
    released = {int(seq): mark for what, seq, mark in told if what == "released"}
    unpaid = sum(charges.get(seq) != mark for seq, mark in paid.items()) + sum(seq not in charges for seq in released)
    lost = sum(commits.get(seq) != mark for seq, mark in released.items())
    print(
        f"kills: {times} SIGKILLs; {len(paid)} charges and {len(released)} releases seen outside, {len(charges)} charges and "
        f"{len(commits)} releases in the ledger; {unpaid} without a charge, {lost} releases lost, {broken} ledgers that did not "
        f"verify; {len(charges) - len(commits)} charges were left spent by a kill before their release"
    )
    return not (unpaid or lost or broken) and account.spent == len(charges)


def pairs_per_second(path: Path, seconds: float) -> float:
    new_ledger(path, 10**9)
    with Ledger(path) as ledger:
        pairs, start = 0, time.perf_counter()
        while time.perf_counter() - start < seconds:
            paid = ledger.reserve("shared", 1, key=str(pairs), request='{"explainer": "timing"}', by="benchmark", purpose="time")
            ledger.commit(paid, '{"y": [1, 2, 3]}')
            pairs += 1
        return pairs / (time.perf_counter() - start)


def syncs_per_second(path: Path, times: int = 500) -> float:
    file = os.open(path, os.O_CREAT | os.O_WRONLY)
    start = time.perf_counter()
    for _ in range(times):
        os.write(file, b"x" * 8192)
        os.fsync(file)
    os.close(file)
    return times / (time.perf_counter() - start)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--grants", type=int, default=1000)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--longest", type=float, default=0.1, help="seconds a process lives before it is killed, at most")
    parser.add_argument("--seconds", type=float, default=5.0, help="how long to time reserve and commit")
    parser.add_argument("--folder", help="where to put the ledgers; a temporary folder if not given")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=asked.folder) as folder:
        place = Path(folder)
        fair = race(place / "race.db", asked.processes, asked.grants)
        safe = kills(place / "kills.db", asked.kills, asked.longest)
        speed = pairs_per_second(place / "speed.db", asked.seconds)
        disk = syncs_per_second(place / "sync")
        print(f"speed: {speed:.0f} durable reserve + commit pairs a second, on a disk that does {disk:.0f} fsyncs a second")
    print(f"race {'exact' if fair else 'WRONG'}, kills {'safe' if safe else 'UNSAFE'}")
    return 0 if fair and safe else 1


if __name__ == "__main__":
    sys.exit(main())
