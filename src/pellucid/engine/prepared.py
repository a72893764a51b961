"""Records as something made of them, kept next to the engine between questions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..public.rows import Rows
from ..query import Joint, Records, Sum, parts_of
from .protocol import Engine

MOST_HELD = 1 << 27
"""Numbers held in memory at most: one gigabyte."""

Reader = Callable[[Rows], tuple[np.ndarray, ...]]


class Prepared:
    """What a reader makes of the records: arrays with one entry per record, such as a model's answers.

    Where `width` numbers per record fit into memory they are read once and held, so that the reader sees each record once,
    however many questions follow; a larger table is read again for every question. Nothing in here may be shown.
    """

    __slots__ = ("_columns", "_engine", "_held", "_reader", "_width")

    def __init__(self, engine: Engine, reader: Reader, columns: Sequence[str], width: int):
        self._engine, self._reader, self._columns, self._width = engine, reader, tuple(columns), width
        self._held: list[tuple[Any, ...]] | None = None

    @property
    def rows(self) -> int:
        """Rows of the table; secret under add-remove."""
        return self._engine.rows

    @property
    def held(self) -> bool:
        """Whether the records were read for good, so that no model is asked about them again."""
        return self._held is not None

    def batches(self) -> Iterator[tuple[Any, ...]]:
        """The reader's arrays, and the parts of the rows, for all records in order."""
        self._engine.check_unchanged()
        if self._held is None and self.rows * self._width <= MOST_HELD:
            # The engine lets its last batch go only if the table is still the same: half a table is never held, nor two halves.
            self._held = list(self._read())
        yield from self._read() if self._held is None else self._held
        self._engine.check_unchanged()

    def _read(self) -> Iterator[tuple[Any, ...]]:
        return ((*self._reader(rows), rows.parts) for rows in self._engine.batches(self._columns) if len(rows))

    def totals(self, asked: Sum | Joint) -> list[int]:
        """The exact totals of sums over records whose map works on the arrays, by `of`: the same integers as the engine's."""
        sums = parts_of(asked)
        if not all(isinstance(part.over, Records) and hasattr(part.map, "of") for part in sums):
            raise AssertionError("prepared records answer sums over records whose map has `of` alone")
        wholes = [[0] * part.size for part in sums]
        for *arrays, parts in self.batches():
            for whole, part in zip(wholes, sums):
                made = part.map.of(*arrays)  # type: ignore[attr-defined]
                whole[:] = [a + b for a, b in zip(whole, part.bound.totals(made, parts))]
        return [value for whole in wholes for value in whole]

    def __repr__(self) -> str:
        return "Prepared()"

    def __reduce__(self) -> Any:
        raise TypeError("Prepared holds records and is not saved")
