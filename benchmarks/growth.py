"""Ledgers and streams that grow: what a release, a replay, a restart and a recount take with 1,000, 10,000 and 100,000 entries.

    python benchmarks/growth.py [--folder FOLDER]

Processor time, medians, so that a busy machine matters little; a charge and its release are also told by the clock, since what
they wait for is the disk. Entries are made in one turn with the ledger's own chain, half of them those of one stream.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np

import pellucid as pel
from pellucid.ledger import Ledger
from pellucid.ledger.chain import sha256

SIZES = (1_000, 10_000, 100_000)
ANSWERS = (100, 1_000, 10_000)
TERMS = {"currency": "epsilon", "delta": "0", "relation": "replace", "unit": "person"}


def grown(path: Path, entries: int) -> Ledger:
    """A ledger with so many entries: charges and what was released for them, every other pair of one stream."""
    ledger = Ledger(path, create=True)
    ledger.open_account("people", budget=10**15, **TERMS)
    request, text = json.dumps({"explainer": "curve", "asked": [0.5] * 20}), json.dumps({"y": [0.25] * 20})
    with ledger._store.writing() as turn:
        head, latest = ledger._open_ends(turn, "people")
        for i in range(entries // 2):
            stands = {**latest.standing, "spent": i + 1}
            said = {"account": "people", "key": sha256("stream" if i % 2 else str(i)), "by": "me", "purpose": "growth"}
            paid = ledger._append(turn, head, **said, **stands, kind="reserve", amount=1, request=request)
            head = ledger._append(turn, paid, text, **said, **stands, kind="commit", refers_to=paid.seq, released=sha256(text))
    return ledger


def median(action, repeats: int = 15, clock=time.process_time) -> float:
    """Milliseconds."""
    found = []
    for _ in range(repeats):
        start = clock()
        action()
        found.append(1000 * (clock() - start))
    return statistics.median(found)


def measured(ledger: Ledger, path: Path, entries: int) -> dict[str, float]:
    numbers = iter(range(10**6))

    def pair() -> None:
        paid = ledger.reserve("people", 1, key=sha256(f"new {next(numbers)}"), request="{}")
        ledger.commit(paid, "{}")

    stream, last = sha256("stream"), entries - 10
    return {
        "open the file": median(lambda: Ledger(path).close()),
        "what is left": median(lambda: ledger.account("people")),
        "replay": median(lambda: ledger.replay("people", sha256(str(entries // 8 * 2)))),
        "nothing to replay": median(lambda: ledger.replay("people", sha256("never asked"))),
        "charge and release": median(pair),
        "charge and release, by the clock": median(pair, clock=time.perf_counter),
        "a question of a stream that is paid for": median(lambda: ledger.prepaid("people", key=stream, request="{}")),
        "news of a stream": median(lambda: ledger.thread("people", stream, after=last)),
        "a whole stream of few entries": median(lambda: ledger.thread("people", sha256("0"))),
        "verify, entries a second": 1000 * entries / median(ledger.verify, 3),
    }


def ledgers(folder: Path) -> None:
    found = {}
    for entries in SIZES:
        path = folder / f"{entries}.db"
        with grown(path, entries) as ledger:
            found[entries] = measured(ledger, path, entries)
            assert ledger.verify().ok
    print("| milliseconds | " + " | ".join(f"{entries:,} entries" for entries in SIZES) + " |")
    print("|---|" + "---:|" * len(SIZES))
    for what in found[SIZES[0]]:
        form = "{:,.0f}" if "second" in what else "{:.2f}"
        print(f"| {what} | " + " | ".join(form.format(found[entries][what]) for entries in SIZES) + " |")


def streams(folder: Path) -> None:
    """A stream of local explanations that was answered so often: opened again, and asked once more."""
    rng = np.random.default_rng(0)
    table = {f"x{i}": rng.uniform(0, 1, 2000) for i in range(8)}
    schema = pel.Schema({name: pel.Number(0, 1) for name in table})
    model = pel.Model(lambda d: d["x0"] * d["x1"], output=(0, 1), features=list(table), trained_on="other data")
    asked = pel.LocalLinear(model)
    print("\n| milliseconds | " + " | ".join(f"{answers:,} answers" for answers in ANSWERS) + " |")
    print("|---|" + "---:|" * len(ANSWERS))
    rows: dict[str, list[float]] = {}
    for answers in ANSWERS:
        path = folder / f"stream {answers}.db"
        session = pel.Session(table, schema, budget=pel.Budget(epsilon=100.0), ledger=path, name="people", create=True)
        with session.open(asked, epsilon=50.0) as stream:
            stream.explain(dict.fromkeys(table, 0.5))
        again(session, answers, rng)
        for what, took in times(session, asked, rng.uniform(0, 1, (100, len(table))), answers).items():
            rows.setdefault(what, []).append(took)
    for what, numbers in rows.items():
        print(f"| {what} | " + " | ".join(f"{number:.1f}" for number in numbers) + " |")


def times(session: pel.Session, asked: pel.LocalLinear, records: np.ndarray, answers: int) -> dict[str, float]:
    with session.open(asked, epsilon=50.0) as stream:
        assert stream.answered == answers
        questions = ({f"x{i}": float(v) for i, v in enumerate(record)} for record in records)
        near = next(questions)
        stream.explain(near)
        return {
            "restart": median(lambda: session.open(asked, epsilon=50.0).close(), 3),
            "a question handed on": median(lambda: stream.explain(near)),
            "a question from data": median(lambda: stream.explain(next(questions))),
        }


def again(session: pel.Session, answers: int, rng) -> None:
    """The first answer once more, about other records, until there are so many."""
    ledger = session.ledger
    first = next(entry for entry in ledger.history() if entry.kind == "reserve" and '"asked"' in entry.request)
    (_, text) = ledger.thread(first.account, first.key)[-1]
    body = json.loads(first.request)
    with ledger._store.writing() as turn:
        head, latest = ledger._open_ends(turn, first.account)
        for i in range(answers - 1):
            # What is paid is next to nothing, so that the slice can pay so many.
            stands = {**latest.standing, "spent": latest.spent + i + 1}
            request = json.dumps({**body, "asked": rng.uniform(-0.2, 0.2, len(body["asked"])).tolist()})
            said = {"account": first.account, "key": first.key, "by": first.by, "purpose": first.purpose}
            paid = ledger._append(turn, head, **said, **stands, kind="reserve", amount=1, request=request)
            head = ledger._append(turn, paid, text, **said, **stands, kind="commit", refers_to=paid.seq, released=sha256(text))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", help="where to put the ledgers; a temporary folder if not given")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=asked.folder) as made:
        ledgers(Path(made))
        streams(Path(made))


if __name__ == "__main__":
    main()
