"""From cells to exact totals: what every engine does with rows, wherever they come from.

A map makes contributions of a batch of rows, pairs or blocks; the bound rounds and clips them, as integers, and adds them up.
`Work` is that as one value, which holds no row and nothing of an engine: it travels to other processes (see `payload`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ..public.asking import DEFAULT, Asking
from ..public.model import Model
from ..public.rows import Point, Rows
from ..public.schema import Schema
from ..query import Couples, Pairs, Sum
from ..query.functions import BlockFunction
from .decode import conditions as conditions_of
from .decode import decode
from .progress import track
from .sandbox import Isolated, Outcomes

BATCH_ROWS = 1 << 16
BATCH_VALUES = 1 << 22
"""Rows and contributed values held at once; together they bound memory whatever the size of the table."""
FEWEST_ROWS = 1 << 10
"""Rows of a batch however wide contributions are: a map that is called for every few rows would be slow."""

Contributions = Iterator[tuple[Any, np.ndarray | None]]
"""What a map gave, with the parts of its rows."""


def batch_size(rows: int, width: int) -> int:
    """How many of at most so many rows to hold at once, where each contributes `width` values."""
    return min(rows, max(FEWEST_ROWS, BATCH_VALUES // width))


@dataclass(frozen=True)
class Work:
    """Sums over the same rows, and how these are read: what is done with batches of rows, here or elsewhere.

    >>> from pellucid.public.schema import Number
    >>> from pellucid.query.bounds import Box
    >>> total = Sum(lambda rows: rows["age"][:, None], Box(1, 0, 100), columns=("age",))
    >>> work = Work(Schema({"age": Number(0, 100)}), (total,))
    >>> first, second = (work.decoded({"age": pa.array(cells)}) for cells in ([100.0, 100.0], [1e9, 50.0]))
    >>> added([work.of_records([first]), work.of_records([second])]) == work.of_records([first, second])
    True
    """

    schema: Schema
    sums: tuple[Sum, ...]
    """All over records, or a single one over pairs, couples or blocks."""
    asking: Asking = DEFAULT
    """How black boxes are asked."""
    batch_rows: int = BATCH_ROWS
    """Rows of a batch at most."""

    @property
    def columns(self) -> tuple[str, ...]:
        """What is read. Without a column nothing would say how many rows there are."""
        return tuple(dict.fromkeys(name for part in self.sums for name in part.columns)) or (next(iter(self.schema)),)

    @property
    def conditions(self) -> tuple[str, ...]:
        """Columns whose cells' conditions are read too."""
        return tuple(dict.fromkeys(name for part in self.sums for name in part.conditions))

    @property
    def sizes(self) -> list[int]:
        """Rows of a batch for every sum."""
        return [batch_size(self.batch_rows, part.bound.width) for part in self.sums]

    def decoded(self, cells: Mapping[str, pa.Array], parts: np.ndarray | None = None) -> Rows:
        """A batch as maps see it, with the parts of its rows."""
        return decoded(self.schema, {name: cells[name] for name in self.columns}, parts, self.asking, self.conditions)

    def of_records(self, batches: Iterable[Rows]) -> list[list[int]]:
        """The exact totals of these batches, sum after sum."""
        return over_records(self.sums, batches, self.sizes)

    def of_pairs(self, pairs: Iterable[tuple[Rows, Rows]]) -> list[list[int]]:
        """The exact totals of these pairs or couples."""
        return [total(part, over_pairs(part, pairs)) for part in self.sums]


def added(totals: Iterable[list[list[int]]]) -> list[list[int]]:
    """The totals of several pieces of work together: whole numbers, in any order."""
    return [[sum(values) for values in zip(*of_one)] for of_one in zip(*totals)]


def decoded(
    schema: Schema,
    cells: Mapping[str, pa.Array],
    parts: np.ndarray | None = None,
    asking: Asking = DEFAULT,
    conditions: Sequence[str] = (),
) -> Rows:
    """A batch as a map sees it: every cell in its declared domain, with the conditions of some columns' cells beside them."""
    columns = {name: decode(schema[name], column) for name, column in cells.items()}
    return Rows(schema, columns, parts, asking, {name: conditions_of(schema[name], cells[name]) for name in conditions})


def total(part: Sum, contributions: Contributions) -> list[int]:
    """The exact total of all contributions, each clipped into its set."""
    whole = [0] * part.size
    for values, parts in contributions:
        whole = [a + b for a, b in zip(whole, part.bound.totals(values, parts))]
    return whole


def over_records(parts: Sequence[Sum], batches: Iterable[Rows], sizes: Sequence[int]) -> list[list[int]]:
    """The exact totals of several sums over the same records, in one pass over their columns together.

    Each map sees the columns and conditions it named, and no others, at most as many rows at a time as its size says: that a wide
    sum is read with others makes their batches no smaller. Those that named the same see the same batch, and what they ask of a
    model whatever the record (`asks_ahead`) is asked at once.
    """
    wholes = [[0] * part.size for part in parts]
    groups = _groups(parts, sizes)
    for rows in batches:
        for (columns, conditions, _), (members, size, points) in groups.items():
            for piece in _pieces_of(_narrowed(rows, columns, conditions), size):
                with piece.asking_ahead(points):
                    for k in members:
                        made = _one_each(parts[k].map(piece), len(piece))
                        wholes[k] = [a + b for a, b in zip(wholes[k], parts[k].bound.totals(made, piece.parts))]
    return wholes


Group = tuple[list[int], int, dict[Model, list[Point]]]
"""Sums that see the same batches: their numbers, how many rows at a time, and what is asked of models at once."""


def _groups(parts: Sequence[Sum], sizes: Sequence[int]) -> dict[Any, Group]:
    """Sums that name the same columns and conditions, and are of one size or ask the same model at points."""
    found: dict[Any, Group] = {}
    for k, (part, size) in enumerate(zip(parts, sizes)):
        model, points = getattr(part.map, "asks_ahead", (None, ()))
        members, least, asked = found.get(key := (part.columns, part.conditions, model or size), ([], size, {}))
        if model is not None:
            asked.setdefault(model, []).extend(points)
        found[key] = [*members, k], min(least, size), asked
    for key, (members, size, asked) in found.items():
        if len(members) == 1:
            # One that asks alone asks for itself.
            found[key] = members, size, {}
        elif asked:
            width = max(len(dict.fromkeys(points)) for points in asked.values())
            found[key] = members, batch_size(size, width), asked
    return found


def _pieces_of(rows: Rows, size: int) -> Iterator[Rows]:
    """The rows of a batch in order, at most so many at a time."""
    if len(rows) <= size:
        yield from [rows] if len(rows) else []
        return
    for start in range(0, len(rows), size):
        yield rows.piece(start, start + size)


def _narrowed(rows: Rows, columns: Sequence[str], conditions: Sequence[str]) -> Rows:
    if set(columns) == set(rows.columns) and set(conditions) == set(rows.conditions):
        return rows
    # Without a column nothing would say how many rows there are.
    names = columns or [next(iter(rows.columns))]
    kept = {name: rows.conditions[name] for name in conditions}
    return Rows(rows.schema, {name: rows.columns[name] for name in names}, rows.parts, rows.asking, kept)


def _one_each(made: Any, records: int) -> Any:
    """What a map gave, if it is one contribution per record: a record with two would move a total twice as far as is allowed."""
    if isinstance(made, tuple | list):
        for part in made:
            _one_each(part, records)
    elif made is not None and np.shape(made)[:1] != (records,):
        raise AssertionError("a map must give one contribution per record")
    return made


def over_pairs(part: Sum, pairs: Iterable[tuple[Rows, Rows]]) -> Contributions:
    """One contribution per pair or couple of rows, of all repeats."""
    assert isinstance(part.over, Pairs | Couples)
    repeats = part.over.repeats
    for rows, others in pairs:
        # Every repeat may use its part of the set, as every row of a person may.
        share = rows.parts if repeats == 1 else repeats * (1 if rows.parts is None else rows.parts)
        made = _one_each(part.map(rows, others), len(rows))
        yield made, None if share is None else np.broadcast_to(np.asarray(share), len(rows))


def over_blocks(part: Sum, blocks: Iterable[Rows], count: int, note: Callable[[Outcomes], None]) -> Contributions:
    """One contribution per block. A user's function runs in processes of its own, and what became of it there is noted."""
    if isinstance(part.map, BlockFunction):
        answers = run_on_blocks(part.map, blocks, count, note)
    else:
        answers = (part.map(rows) for rows in track(blocks, count, "reading blocks"))
    for _, answer in zip(range(count), answers, strict=True):
        yield np.asarray(answer, dtype=float)[None, :], None


def run_on_blocks(
    function: BlockFunction, blocks: Iterable[Rows], count: int, note: Callable[[Outcomes], None]
) -> Iterator[np.ndarray]:
    """One answer per block, in order; where a block has none, the default."""
    work, default = Isolated.of(function), np.array(function.default)
    for answer in work.over((rows.frame() for rows in blocks), count):
        yield np.where(np.isnan(answer), default, answer)
    note(work.outcomes)
