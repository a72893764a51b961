"""Text that can be stored and read again."""

from __future__ import annotations


def storable(text: str) -> bool:
    """Whether a text is whole Unicode: half of a surrogate pair is no character, and no file or database takes it.

    >>> storable("ward 7 ü"), storable("\\ud800")
    (True, False)
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
