"""The ledger: what each private object may spend, what was spent, by whom and why, and what was released for it.

An *account* is one named private object with a budget in one currency, "epsilon" (pure ε) or "rho" (zCDP), or in "either",
whose charges say their kind. A release is paid for in three steps: `reserve` writes the charge to disk, the caller runs,
`commit` stores the released text. A charge is on disk before `reserve` returns, so a crash can lose a release but never a charge,
and nothing is ever refunded. All processes that open one file take turns, so no two of them can spend the same budget. An
identical request is answered from `replay`, free, because what was released once is public.

Nothing is edited or removed. Entries form one chain per file: each holds the hash of the one before it, and its own hash
covers everything stored with it. `verify` recounts the whole file. A chain cannot show from the inside that its *last*
entries were cut off, that it was replaced by an older copy, or that somebody rewrote it from some point on; certificates
carry the hash of their charge, so an auditor who holds one asks `contains(certificate)`.

Amounts are integers, `SCALE` to one unit of ε or ρ: charges are rounded up, budgets down, and sums are exact. The day of an
entry is kept, not the moment, because the moment would tell how long a run over private data took.

A ledger may be copied while it is in use, by any program: the copy has all entries there were when it was begun, or is refused
as incomplete. The one program that must not read the file is one that writes to the ledger at that moment, in another thread:
closing a file makes SQLite lose its locks on it.

A file that is not there is not made unless `create=True` says so, because it may have been lost. Accounts are found by names that
read the same (case, spaces and width do not count). An account knows the public number of people and the declared columns of its
table; when they differ somebody has to say that the table changed, and what was released before is not replayed.

A released text that cannot be committed, because the ledger is locked or the disk full, waits in `<ledger>.pending` beside it. It
is committed at the next use, and replayed meanwhile.

>>> ledger = Ledger(None)
>>> account = ledger.open_account("ward-7", currency="epsilon", budget=2 * SCALE, delta="0", relation="replace", unit="patient")
>>> paid = ledger.reserve("ward-7", charge_units(Fraction(1, 2)), key="k1", request="{}", by="Ada", purpose="ward report")
>>> entry = ledger.commit(paid, '{"y": [1, 2]}')
>>> ledger.replay("ward-7", "k1")
'{"y": [1, 2]}'
>>> from_units(ledger.account("ward-7").remaining)
Fraction(3, 2)
>>> ledger.verify().ok, ledger.contains(paid.hash), ledger.durable
(True, True, False)
"""

from fractions import Fraction

from .ledger import Ledger
from .store import LedgerStore
from .values import SCALE, Account, Entry, Reservation, VerifyResult, budget_units, charge_units, checked_text, from_units

__all__ = [
    "SCALE",
    "Account",
    "Entry",
    "Fraction",
    "Ledger",
    "LedgerStore",
    "Reservation",
    "VerifyResult",
    "budget_units",
    "charge_units",
    "checked_text",
    "from_units",
]
