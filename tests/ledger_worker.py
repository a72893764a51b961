"""A separate process that uses a ledger, for the tests that race and kill such processes.

`race PATH`: reserve one unit at a time until the account is empty, then print how many were granted.
`spend PATH`: reserve and commit for ever, printing each entry's number and hash as soon as it is on disk.
Both print `ready` and wait for a line on standard input first, so that all start at once.
"""

import sys

from pellucid.errors import BudgetExceeded
from pellucid.ledger import Ledger


def race(ledger: Ledger) -> None:
    granted = 0
    try:
        while True:
            ledger.reserve("shared", 1, key="", request="{}")
            granted += 1
    except BudgetExceeded:
        print(granted, flush=True)


def spend(ledger: Ledger) -> None:
    while True:
        paid = ledger.reserve("shared", 1, key="again", request="{}")
        print("paid", paid.seq, paid.hash, flush=True)
        done = ledger.commit(paid, f'{{"for": {paid.seq}}}')
        print("released", paid.seq, done.hash, flush=True)


if __name__ == "__main__":
    print("ready", flush=True)
    sys.stdin.readline()
    {"race": race, "spend": spend}[sys.argv[1]](Ledger(sys.argv[2]))
