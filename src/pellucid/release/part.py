"""A part of a session's table: which records are in it, and how its releases are calibrated and charged. Claim: parts"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..public.schema import Relation, Unit
from ..public.where import Where


@dataclass(frozen=True)
class Part:
    """The records of a table for which a public condition holds.

    How many there are is secret, whatever the account's relation: releases are those of a table to which a record is added, or
    from which one is removed. Under replace a record may leave the part and another enter it, so noise is made for two changes.
    """

    where: Where
    relation: Relation
    """That of the account."""
    unit: Unit

    @property
    def changes(self) -> int:
        """Rows that are added or removed when one row of the table changes."""
        return 2 if self.relation == "replace" else 1

    @property
    def apart(self) -> bool:
        """Whether disjoint parts have different people in them: with an id column one person's rows may lie in several."""
        return self.unit.column is None

    @property
    def scope(self) -> str | None:
        """What a charge says it is for; without one it is for everybody."""
        return self.where.scope if self.apart else None

    @property
    def stored(self) -> dict[str, Any]:
        """For requests and certificates."""
        return {**self.where.stored, "apart": self.apart}
