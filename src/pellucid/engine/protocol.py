"""What an engine is: whatever can add up contributions of records exactly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from ..public.asking import Asking
from ..public.rows import Rows
from ..query import Joint, Sum
from .check import DataCheck
from .kept import Kept
from .sandbox import Outcomes


class Engine(Protocol):
    """A table opened under a schema, a neighbour relation and a unit.

    Totals are Python integers: they do not depend on the order of rows, the size of batches or where the table lives, so every
    engine gives the same ones.

    Cells are in their declared domains, whatever they said; a sum may ask for the conditions of cells beside them.

    Rows have a fixed order, and thereby numbers. Which rows of a person stay, who is paired with whom and which block is whose
    follow from `mechanisms.labels`, under a fresh key for each of these, of the numbers of rows or the ids of people, and never
    from what a row holds. `orders` and `kernel` do this for rows of any process; an engine that has them elsewhere calls the
    same functions there.

    The table is the one that was opened, or there is no answer. An engine has a copy that nobody else can write to, or compares
    what it reads with what it opened: before the first row, and again after the last, as a table can be exchanged in between.

    An engine is one when it passes `tests/engine/engine_conformance.py`.
    """

    name: str
    """Where rows are read, for certificates: "one process", or something else that is public."""
    asking: Asking
    """How black boxes are asked about the records; set when the session is opened, from public things alone."""

    @property
    def outcomes(self) -> Outcomes | None:
        """What became of the blocks of the last function that was asked of blocks; for the owner of the process alone."""

    @property
    def units(self) -> int:
        """Number of records, or of people where a unit column is declared. Public under replace, secret under add-remove."""

    @property
    def rows(self) -> int:
        """Rows of the table, kept or not; secret under add-remove."""

    def totals(self, query: Sum | Joint, kept: Kept | None = None) -> list[int]:
        """The exact integer totals of a query, the sums of a joint one after another. Errors say nothing about data.

        What is `kept` is that of one release: its stages may share rows that were read and pairs that were drawn.

        Whoever asks has paid, so a table that is not the one that was opened is refused with the words of `shield`.
        """

    def batches(self, columns: Sequence[str], conditions: Sequence[str] = ()) -> Iterator[Rows]:
        """All records, decoded, in the fixed order, with the conditions of some columns' cells.

        For the kernel alone: nothing of them may be shown, errors included.

        Ends with ReleaseFailed where the table has changed before the first batch was read or until the last one was.
        """

    def check(self) -> DataCheck:
        """How many cells of the declared columns are not as declared, and whose the rows are, exactly.

        For the owner of the process alone.
        """

    def check_unchanged(self) -> None:
        """Refuse, with ReleaseFailed, a table that is not the one that was opened: who owns which row was settled then.

        Asked before every charge, so that a table that has changed costs nothing, however often it is tried.
        """
