"""What is public about an account's table, as it was declared when the account was opened: whether it is still the same table."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Declared:
    """The public number of people and the declared columns. Two tables may agree in all of it and be different."""

    people: int | None
    """How many units the table has; None where that is secret."""
    columns: Mapping[str, str]
    """A fingerprint of each column's declaration."""

    @classmethod
    def of(cls, features: Mapping[str, Mapping[str, Any]], people: int | None) -> Declared:
        """From the columns as a schema file has them. Where a bound comes from is no part of it."""
        bare = {name: {key: value for key, value in entry.items() if key != "source"} for name, entry in features.items()}
        return cls(people, {name: _digest(entry) for name, entry in bare.items()})

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Declared:
        return cls(content["people"], dict(content["columns"]))

    def to_dict(self) -> dict[str, Any]:
        return {"people": self.people, "columns": dict(sorted(self.columns.items()))}

    def differences(self, now: Declared) -> list[str]:
        """In which respects this cannot be the table that is declared now. Columns may be added or left out."""
        found = []
        if self.people != now.people:
            found.append(f"the public number of people was {_number(self.people)} and is {_number(now.people)}")
        shared = [name for name in now.columns if name in self.columns]
        if not shared:
            found.append("none of the columns was declared before")
        found += [f"column {name!r} was declared otherwise" for name in shared if self.columns[name] != now.columns[name]]
        return found

    def joined(self, now: Declared) -> Declared:
        """With the columns that are declared now for the first time."""
        return Declared(self.people, {**self.columns, **now.columns})


def _digest(entry: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(entry, sort_keys=True).encode()).hexdigest()[:16]


def _number(people: int | None) -> str:
    return "secret" if people is None else f"{people:,}"
