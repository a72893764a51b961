"""Kill processes at random moments of whole releases, and copy the ledger meanwhile: is anything lost, or released uncharged?

    python benchmarks/kill_release.py --releases 10000
    python benchmarks/kill_release.py --releases 1 --kills 10000 --longest 0.15 --ledgers 25

Several processes at once open a session on one ledger and release as fast as they can, telling when they begin one and each
result as soon as they hold it; each is ended with SIGKILL at a random moment, and another takes its place. What counts is the
number of kills in the middle of a release. A ledger that was written to for long takes long to open, so that short lives
would end before their first release: hence several ledgers, one after another. Meanwhile the ledger's file is copied as any
program would, from its first byte to its last or page by page in any order, with pauses, or by the ledger itself. In the end
every result that was told has a charge and is stored, the chain verifies, and every copy has all entries there were when it was
begun, or says that it is incomplete.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import pellucid as pel

SCHEMA = pel.Schema({"age": pel.Number(0, 99, integer=True), "sex": pel.Category(["F", "M"])})
DATA = {"age": np.arange(500) % 100, "sex": np.array(["F", "M"] * 250)}
BUDGET = pel.Budget(epsilon=1000.0)
PRICE = 0.01
PAGE = 4096
BEGUN = b"begun\n"


@dataclass
class Found:
    """What was seen from outside."""

    kills: int = 0
    amid: int = 0
    """Kills in the middle of a release: it was begun, and nobody held its result."""
    told: dict[str, str] = field(default_factory=dict)
    """Digests of the results that somebody held, by the hash of their charge."""
    copies: Counter[str] = field(default_factory=Counter)
    """How many copies there were of each kind, and what became of them."""

    def add(self, other: Found) -> None:
        self.kills, self.amid = self.kills + other.kills, self.amid + other.amid
        self.told |= other.told
        self.copies += other.copies

    @property
    def copied(self) -> str:
        return f"{self.copies.total()} copies; {', '.join(f'{said} {times}' for said, times in sorted(self.copies.items()))}"

    @property
    def wrong(self) -> list[str]:
        return [said for said in self.copies if not said.endswith((": whole", ": incomplete"))]


def opened(ledger: Path) -> pel.Session:
    return pel.Session(DATA, SCHEMA, budget=BUDGET, name="people", ledger=pel.Ledger(ledger, 300.0, create=True), create=True)


def release_for_ever(ledger: Path, told: int) -> None:
    model = pel.Model(lambda d: d["age"] / 100, output=(0, 1), features=["age"], trained_on="other data")
    session = opened(ledger)
    explainers = [pel.Distribution("sex"), pel.PartialDependence(model, "age", points=3)]
    for i in range(10**6):
        os.write(told, BEGUN)
        result = session.release(explainers[i % 2], epsilon=PRICE, fresh=True)
        digest = hashlib.sha256(result.to_json().encode()).hexdigest()
        # One short write, so that whoever listens never hears half of it.
        os.write(told, f"{result.certificate.entry} {digest}\n".encode())


def in_child(act: Callable[[], None]) -> int:
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        act()
        code = 0
    finally:
        os._exit(code)


def one_life(ledger: Path, longest: float) -> Callable[[], list[list[str]]]:
    """A process that will be killed; the answer waits for that, and gives the lines that it told."""
    reading, writing = os.pipe()

    def act() -> None:
        os.close(reading)
        release_for_ever(ledger, writing)

    child, ends = in_child(act), time.monotonic() + longest * random.random()
    os.close(writing)

    def killed() -> list[list[str]]:
        time.sleep(max(0.0, ends - time.monotonic()))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        with os.fdopen(reading) as lines:
            return [line.split() for line in lines]

    return killed


WAYS = ("at once", "slowly, in any order", "by the ledger itself")


def copy(source: Path, target: Path, how: str) -> None:
    """As a program copies that knows nothing of the file, quickly or slowly with its pages in any order; or as it should be."""
    if how == WAYS[0]:
        target.write_bytes(source.read_bytes())
        return
    if how == WAYS[2]:
        with pel.Ledger(source, 300.0) as ledger:
            ledger.copy_to(target)
        return
    with source.open("rb", buffering=0) as file, target.open("wb", buffering=0) as out:
        places = list(range(0, source.stat().st_size, PAGE))
        random.shuffle(places)
        for i, place in enumerate(places):
            out.seek(place)
            out.write(os.pread(file.fileno(), PAGE, place))
            if i % 64 == 0:
                time.sleep(0.003 * random.random())


def check_copy(ledger: Path, target: Path) -> str:
    """How it was copied, and whether it is whole, incomplete, or what is wrong.

    In a process of its own: one that has a ledger open must not read its file.
    """
    with pel.Ledger(ledger, 300.0) as real:
        before = len(real.history("people"))
    how = random.choice(WAYS)
    copy(ledger, target, how)
    try:
        with pel.Ledger(target, 5.0) as copied:
            result = copied.verify()
    except pel.LedgerCorrupt as error:
        return f"{how}: {'incomplete' if 'incomplete' in str(error) else f'refused without saying why: {error}'}"
    finally:
        for leftover in target.parent.glob(f"{target.name}*"):
            leftover.unlink()
    if not result.ok:
        return f"{how}: incomplete"
    return f"{how}: whole" if result.entries >= before else f"{how}: verifies with {result.entries} of {before} entries"


def copies_for_ever(ledger: Path, told: int, pause: float) -> None:
    while True:
        os.write(told, f"{check_copy(ledger, ledger.with_name('copy.db'))}\n".encode())
        time.sleep(pause * random.random())


def kill(ledger: Path, releases: int, processes: int, longest: float, pause: float, kills: int = 0) -> Found:
    """Releases until so many were told and so many killed in their middle; every process is killed, sooner or later."""
    found = Found()
    opened(ledger).ledger.close()
    reading, writing = os.pipe()
    copier = in_child(lambda: copies_for_ever(ledger, writing, pause))
    os.close(writing)
    living = [one_life(ledger, longest) for _ in range(processes)]
    while living:
        lines = living.pop(0)()
        found.told.update(line for line in lines if len(line) == 2)
        found.kills += 1
        found.amid += bool(lines) and len(lines[-1]) == 1
        if len(found.told) < releases or found.amid < kills:
            living.append(one_life(ledger, longest))
            if found.kills % 200 == 0:
                print(f"  {found.kills} kills, {len(found.told)} releases", file=sys.stderr, flush=True)
    os.kill(copier, signal.SIGKILL)
    os.waitpid(copier, 0)
    with os.fdopen(reading) as lines:
        found.copies.update(line.rstrip("\n") for line in lines)
    return found


def judge(ledger: Path, found: Found) -> list[str]:
    """What the ledger says to it; an empty list of complaints if all is well."""
    with pel.Ledger(ledger) as real:
        entries, account, recount = real.history("people"), real.account("people"), real.verify()
        waiting = real.waiting()
    charges = {entry.hash: entry for entry in entries if entry.kind == "reserve"}
    stored = {entry.released for entry in entries if entry.kind == "commit"}
    uncharged = sum(entry not in charges for entry in found.told)
    lost = sum(digest not in stored for digest in found.told.values())
    print(
        f"{found.kills} kills, {found.amid} in the middle of a release: {len(found.told)} releases were told, "
        f"{len(charges)} are charged and {len(stored)} stored; "
        f"{uncharged} told without a charge, {lost} told and not stored, {waiting} left waiting; "
        f"{len(charges) - len(stored)} charges stay spent for releases that a kill ended"
    )
    print(found.copied)
    adds_up = sum(entry.amount for entry in charges.values()) == account.spent
    print(f"{recount.message}; what is spent {'adds up' if adds_up else 'DOES NOT ADD UP'}")
    complaints = [f"a copy {said}" for said in found.wrong]
    complaints += [f"{uncharged} releases without a charge"] if uncharged else []
    complaints += [f"{lost} releases lost"] if lost else []
    complaints += [] if recount.ok else [recount.message]
    return complaints + ([] if adds_up else ["what is spent does not add up"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--releases", type=int, default=10_000, help="how many results are to be held by somebody")
    parser.add_argument("--kills", type=int, default=0, help="how many are to be killed at least in the middle of a release")
    parser.add_argument(
        "--ledgers", type=int, default=1, help="how many ledgers share these releases and kills, one after another"
    )
    parser.add_argument("--processes", type=int, default=3, help="how many release at once")
    parser.add_argument("--longest", type=float, default=1.5, help="seconds that a process lives, at most")
    parser.add_argument("--pause", type=float, default=1.0, help="seconds between two copies, at most")
    parser.add_argument("--folder", help="where to put the ledger; a temporary folder if not given")
    asked = parser.parse_args()
    # Children live for a moment: what is imported by the first release is imported here, once for all of them.
    pel.Session(DATA, SCHEMA, budget=BUDGET).release(pel.Distribution("sex"), epsilon=PRICE)
    begun, in_all, complaints = time.monotonic(), Found(), []
    releases, kills = -(-asked.releases // asked.ledgers), -(-asked.kills // asked.ledgers)
    for _ in range(asked.ledgers):
        with tempfile.TemporaryDirectory(dir=asked.folder) as folder:
            path = Path(folder) / "ledger.db"
            found = kill(path, releases, asked.processes, asked.longest, asked.pause, kills)
            complaints += judge(path, found)
            in_all.add(found)
    print(f"in all {in_all.kills} kills, {in_all.amid} in the middle of a release, {len(in_all.told)} releases were told")
    print(in_all.copied)
    print(f"{time.monotonic() - begun:.0f} s, {asked.processes} processes at once, {asked.ledgers} ledgers one after another")
    print("\n".join(complaints) or "nothing lost, nothing uncharged")
    return 1 if complaints else 0


if __name__ == "__main__":
    raise SystemExit(main())
