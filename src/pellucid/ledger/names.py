"""Names of accounts: two that a reader would take for the same one name the same account."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

from ..errors import LedgerError
from .values import checked_text

CONTROL = ("Cc", "Zl", "Zp")
"""Categories of characters that break a line or a terminal."""
UNSEEN = (
    ("\u034f", "\u034f"),
    ("\u115f", "\u1160"),
    ("\u17b4", "\u17b5"),
    ("\u180b", "\u180f"),
    ("\u2800", "\u2800"),
    ("\u3164", "\u3164"),
    ("\ufe00", "\ufe0f"),
    ("\uffa0", "\uffa0"),
    ("\U000e0000", "\U000e0fff"),
)
"""Characters of other categories than formats that leave no mark, first and last of each range."""


def checked_name(name: str) -> str:
    """A name as it is stored: in composed characters, without spaces around it.

    >>> checked_name(" ward-7 ")
    'ward-7'
    """
    checked_text("the account's name", name, required=True)
    stored = unicodedata.normalize("NFC", name.strip())
    if not alike(stored) or any(unicodedata.category(c) in CONTROL for c in stored):
        raise LedgerError(f"the account's name {name!r} holds control characters, or nothing that shows; give plain text.")
    return stored


def alike(name: str) -> str:
    """What equal names have in common: not case, width, spaces, kinds of dashes or characters that do not show.

    >>> alike(" Ward  7") == alike("ward 7") == alike("\\uff57ard 7\\u200b")
    True
    """
    shown = "".join("-" if unicodedata.category(c) == "Pd" else c for c in unicodedata.normalize("NFKC", name) if _shows(c))
    return " ".join(unicodedata.normalize("NFKC", shown.casefold()).split())


def _shows(character: str) -> bool:
    """Whether a character leaves a mark: formats, variation selectors, fillers and empty patterns do not."""
    return unicodedata.category(character) != "Cf" and not any(first <= character <= last for first, last in UNSEEN)


def find(name: str, known: Iterable[str]) -> str | None:
    """The account that a name means, by its characters or else by what shows; None if there is none."""
    accounts = list(known)
    if name in accounts:
        return name
    found = [account for account in accounts if alike(account) == alike(name)]
    if len(found) > 1:
        listed = ", ".join(repr(account) for account in found)
        raise LedgerError(
            f"account {name!r} is not in this ledger and may mean any of {listed}. Give one of these names exactly."
        )
    return found[0] if found else None
