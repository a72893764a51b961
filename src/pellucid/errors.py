"""Everything Pellucid raises on purpose.

PellucidError
├── SchemaError           the declaration of what is public is wrong or incomplete
├── DataError             the table cannot be used with the schema (never quotes a cell)
├── ModelError            the model is refused on public records, before anything is charged
├── PlanError             the request cannot be planned: a wrong argument, share or feature
│   ├── MissingExtra          it needs a package that is not installed
│   ├── LoadError             a file cannot be read, or is not what it should be
│   └── StreamClosed          a stream was closed before this question
├── BudgetExceeded        the account cannot pay: says what was asked, left and missing
├── ReleaseFailed         the table had changed, or the run stopped: says whether it stays charged
├── NotPrivate            a result that would carry no guarantee was refused
└── LedgerError           the ledger cannot be used as asked
    ├── LedgerUnavailable     locked, read-only or missing place
    ├── LedgerCorrupt         not a ledger, damaged, or its chain does not verify
    └── AccountMismatch       an account reopened with another relation, unit or budget

A message says what was wrong, the declared value it was about, and the fix. It never holds a value from the data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


class PellucidError(Exception):
    """Base of every error Pellucid raises on purpose."""


class SchemaError(PellucidError, ValueError):
    """The declaration of what is public is wrong or incomplete."""


class DataError(PellucidError, ValueError):
    """The table cannot be used with the schema."""


class ModelError(PellucidError, ValueError):
    """The model was refused on public records; nothing was charged."""


class PlanError(PellucidError, ValueError):
    """The request cannot be planned; nothing was charged."""


class MissingExtra(PlanError, ImportError):
    """It needs a package that is not installed; the message has the command that installs it."""


class LoadError(PlanError):
    """A file cannot be read, or is not what it should be: a saved explanation, a study, a function, a drawing of a flow."""


class StreamClosed(PlanError):
    """The stream was closed; opened again with the same settings, it goes on where it was."""


class BudgetExceeded(PellucidError):
    """The account cannot pay for the request; no data was touched."""

    def __init__(
        self, account: str, currency: str, asked: float, left: float, durable: bool = True, other: str = "", releases: int = 1
    ):
        self.account, self.currency, self.asked, self.left = account, currency, asked, left
        self.missing = asked - left
        # Without a file nobody else can raise it: the budget is the one that the session was opened with.
        more = ", or raise the budget in the ledger (`pellucid ledger raise`)" if durable else ""
        what, fix = (f" for {releases} releases", " in all, or leave some out") if releases > 1 else ("", "")
        super().__init__(
            f"account {account!r} cannot pay: asked {currency} = {asked:.6g}{what}, left {left:.6g}, missing {self.missing:.6g}. "
            f"Ask for at most {left:.6g}{fix}{other}{more}; no data was touched{' and nothing charged' if releases > 1 else ''}."
        )


class ReleaseFailed(PellucidError):
    """The run stopped after it was paid for: the charge stays spent. Or the table had changed before: nothing was charged."""

    released: Any = None
    """Of a list: what was released all the same, as `session.release` would have returned it."""

    @classmethod
    def of_list(cls, failed: Mapping[str, Exception], released: Any) -> ReleaseFailed:
        """Some of a list stopped after all of it was paid for."""
        said = "; ".join(f"{name!r}: {str(error).rstrip('.') or type(error).__name__}" for name, error in failed.items())
        kept = f" What was released of the others ({len(released)}) is in this error's .released and in the ledger, free."
        made = cls(
            f"{len(failed)} of {len(failed) + len(released)} releases stopped after the list was charged: {said}."
            + (kept if len(released) else "")
        )
        made.released, made.__cause__ = released, next(iter(failed.values()))
        return made


class NotPrivate(PellucidError):
    """A result that would carry no guarantee was refused."""


class LedgerError(PellucidError):
    """The ledger cannot be used as asked."""


class LedgerUnavailable(LedgerError):
    """The ledger file is locked, read-only, or its place does not exist."""


class LedgerCorrupt(LedgerError):
    """The file is not a ledger, is damaged, or its chain does not verify."""


class AccountMismatch(LedgerError):
    """An account was reopened with another relation, unit or budget than it was created with."""
