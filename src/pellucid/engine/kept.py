"""What one release keeps of the records between its stages."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

T = TypeVar("T")

ROOM = 1 << 26
"""Numbers that are kept at most: half a gigabyte."""


class Kept:
    """Decoded rows, who is paired with whom, and thereby what models answered about them: made once, as far as there is room.

    Without room everything is made anew whenever it is asked for, which changes how long a release takes and nothing else.
    What is drawn by chance is therefore kept without room too (`always`): how many rows there are may be secret, and must not
    decide whether two stages see the same draw. Nothing in here may be shown.
    """

    __slots__ = ("_made", "_room")

    def __init__(self, room: int = ROOM):
        self._room = room
        self._made: dict[Hashable, Any] = {}

    def once(self, key: Hashable, numbers: int, make: Callable[[], T]) -> T:
        """What was made for this key before, or what is made now; it holds about so many numbers."""
        if key not in self._made:
            made = make()
            if numbers > self._room:
                return made
            self._room -= numbers
            self._made[key] = made
        found: T = self._made[key]
        return found

    def always(self, key: Hashable, draw: Callable[[], T]) -> T:
        """What was drawn for this key before, or what is drawn now, whether or not there is room."""
        return self.once(key, 0, draw)

    def holds(self, key: Hashable, numbers: int) -> bool:
        """Whether this is kept, or would be."""
        return key in self._made or numbers <= self._room

    def __repr__(self) -> str:
        return "Kept()"

    def __reduce__(self) -> Any:
        raise TypeError("what is kept of records is not saved")
