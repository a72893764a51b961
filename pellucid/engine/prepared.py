"""Records as a stream of questions reads them, next to the engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ..query import Sum
from .local import Engine
from .progress import track

MOST_HELD = 1 << 27
"""Numbers held in memory at most: one gigabyte."""


class Prepared:
    """What a reader makes of every record: read once and held where it fits into memory, else read again. Nothing may be shown."""

    __slots__ = ("_columns", "_engine", "_held", "_reader", "_width")

    def __init__(self, engine: Engine, reader: Callable[..., Any], columns: tuple[str, ...], width: int):
        self._engine, self._reader, self._columns, self._width = engine, reader, columns, width
        self._held: list[tuple[Any, ...]] | None = None

    @property
    def rows(self) -> int:
        """Number of records; secret under add-remove."""
        return self._engine.table.rows

    def batches(self) -> Iterator[tuple[Any, ...]]:
        """(what the reader made of them, parts) of all records, in order."""
        self._engine.table.check_unchanged()
        if self._held is not None:
            yield from self._held
            return
        rows = self._engine._rows(self._columns, self._engine.batch_rows)
        shown = track(rows, -(-self.rows // self._engine.batch_rows), "reading records")
        read = ((*self._reader(batch), batch.parts) for batch in shown if len(batch))
        if self.rows * self._width > MOST_HELD:
            yield from read
        else:
            self._held = list(read)
            yield from self._held

    def totals(self, asked: Any) -> list[int]:
        """The exact totals of a sum whose map works on what was read: the same integers as the engine's."""
        total: list[int] = []
        for part in (asked,) if isinstance(asked, Sum) else asked.sums:
            own = [0] * part.size
            for *read, parts in self.batches():
                own = [a + b for a, b in zip(own, part.bound.totals(part.map.of(*read), parts))]
            total += own
        return total

    def __repr__(self) -> str:
        return "Prepared()"

    def __reduce__(self) -> Any:
        raise TypeError("Prepared holds records and is not saved")
