"""Kill a process at random moments of real releases: no release without a charge, no charge lost, and the chain verifies.

    python benchmarks/kill_release.py --kills 200

Children open a session on one ledger and release distributions and partial dependences as fast as they can, writing down
each result as soon as they hold it; the parent ends them with SIGKILL at random moments.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import signal
import tempfile
import time
from pathlib import Path

import numpy as np

import pellucid as pel

SCHEMA = pel.Schema({"age": pel.Number(0, 99, integer=True), "sex": pel.Category(["F", "M"])})
DATA = {"age": np.arange(2000) % 100, "sex": np.array(["F", "M"] * 1000)}
BUDGET = pel.Budget(epsilon=900.0)


def work(ledger: Path, told: int, seed: int) -> None:
    """What a child does until it is killed."""
    model = pel.Model(lambda d: d["age"] / 100, output=(0, 1), features=["age"], trained_on="other data")
    session = pel.Session(DATA, SCHEMA, budget=BUDGET, name="people", ledger=ledger)
    explainers = [pel.Distribution("sex"), pel.PartialDependence(model, "age", points=5)]
    for i in range(10**6):
        result = session.release(explainers[i % 2], epsilon=0.01, by=f"child {seed}", fresh=True)
        assert result.certificate is not None
        digest = hashlib.sha256(result.to_json().encode()).hexdigest()
        os.write(told, f"{result.certificate.entry} {digest}\n".encode())


def one_kill(ledger: Path, seed: int) -> list[tuple[str, str]]:
    """The releases one child held before it was killed: (entry of the charge, digest of the release)."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            work(ledger, writing, seed)
        finally:
            os._exit(1)
    os.close(writing)
    time.sleep(0.02 + 0.25 * random.random())
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with os.fdopen(reading) as lines:
        whole = [line.split() for line in lines.read().split("\n")[:-1]]
    return [(entry, digest) for entry, digest in whole]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    options = parser.parse_args()
    # Children live for a fraction of a second: what is imported by the first release is imported here, once for all of them.
    pel.Session(DATA, SCHEMA, budget=BUDGET).release(pel.Distribution("sex"), epsilon=0.01)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ledger.db"
        seen = [release for seed in range(options.kills) for release in one_kill(path, seed)]
        ledger = pel.Ledger(path)
        entries = ledger.history("people")
        charges = {e.hash: e for e in entries if e.kind == "reserve"}
        released = {e.released for e in entries if e.kind == "commit"}
        uncharged = sum(entry not in charges for entry, _ in seen)
        lost = sum(digest not in released for _, digest in seen)
        account, result = ledger.account("people"), ledger.verify()
        counted = sum(e.amount for e in charges.values())
        print(f"{options.kills} kills: {len(seen)} releases held by children, {len(charges)} charges and {len(released)} stored")
        spent = "adds up" if counted == account.spent else "DIFFERS"
        print(f"{uncharged} releases without a charge, {lost} not stored; spent {spent}")
        print("the chain verifies" if result.ok else f"the chain DOES NOT VERIFY: {result.message}")
        return 0 if not (uncharged or lost) and counted == account.spent and result.ok else 1


if __name__ == "__main__":
    raise SystemExit(main())
