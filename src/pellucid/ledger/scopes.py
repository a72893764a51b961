"""Charges for parts of a table: what the person pays who pays most.

A *scope* is the stored text of a public condition on columns (`public.where`). A charge without one is for the whole table. What
was spent is the largest sum of charges that one and the same record can be subject to: those for the whole table, and those of
all parts that it is in. Claim: parts
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..errors import LedgerError
from .values import Entry, pure_after

MOST = 200_000
"""Steps that looking for the largest sum may take in a charge: enough for some thousand parts that do not overlap much."""

Condition = frozenset[str] | tuple[float, float]
"""Some values, as text; or numbers from the first up to and not with the second."""
Region = Mapping[str, Condition]


@functools.lru_cache(maxsize=4096)
def region_of(scope: str) -> Region:
    """What a stored scope says, column by column."""
    try:
        found = {name: _condition(said) for name, said in json.loads(scope)["where"].items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        found = {}
    if not found or not all(map(_is_somewhere, found.values())):
        raise LedgerError("a charge names a part of the table that cannot be read.")
    return found


def _condition(said: Mapping[str, Any]) -> Condition:
    if "in" in said:
        # As JSON: 1, "1" and true are three values.
        return frozenset(json.dumps(value) for value in said["in"])
    lo, hi = said["from"], said["to"]
    return (float("-inf") if lo is None else float(lo), float("inf") if hi is None else float(hi))


def _is_somewhere(condition: Condition) -> bool:
    return bool(condition) if isinstance(condition, frozenset) else condition[0] < condition[1]


def said(scope: str) -> str:
    """A scope in words."""
    try:
        return str(json.loads(scope)["said"])
    except (ValueError, KeyError, TypeError):
        return "a part of the table"


class Search:
    """Looks for the record that pays most. Exact: columns are settled one after another, piece by piece."""

    def __init__(self, limit: int | None = None):
        self._left = limit

    def heaviest(self, charges: Iterable[tuple[Region, int]], least: int = 0) -> int:
        """The largest sum of charges whose regions have a record in common, if it is above `least`; else `least`."""
        listed = [(region, units) for region, units in charges if units]
        rest = sum(units for _, units in listed)
        if rest <= least:
            return least
        column = next((name for region, _ in listed for name in region), None)
        if column is None:
            return rest
        pieces = self._pieces(column, listed)
        for inside in sorted(pieces, key=lambda some: -sum(units for _, units in some)):
            least = self.heaviest(inside, least)
        return least

    def _pieces(self, column: str, charges: list[tuple[Region, int]]) -> list[list[tuple[Region, int]]]:
        """For every piece of a column that its conditions tell apart, the charges that a record there is subject to."""
        anywhere = [(region, units) for region, units in charges if column not in region]
        here = [(region, units) for region, units in charges if column in region]
        bare = [({name: one for name, one in region.items() if name != column}, units) for region, units in here]
        found: dict[tuple[int, ...], list[tuple[Region, int]]] = {}
        for inside in _together([region[column] for region, _ in here]):
            self._step(len(inside))
            if inside not in found:
                found[inside] = _merged([*anywhere, *(bare[i] for i in inside)])
        return list(found.values())

    def _step(self, steps: int) -> None:
        if self._left is None:
            return
        self._left -= steps
        if self._left < 0:
            raise LedgerError(
                "the parts of this account overlap in too many ways to say what a person has paid; ask about the whole table, "
                "or about parts that were asked about before. Nothing was charged."
            )


def _together(conditions: list[Condition]) -> Iterable[tuple[int, ...]]:
    """The numbers of conditions that hold together somewhere: all largest such sets are among these."""
    values: dict[str, list[int]] = {}
    ranges: list[tuple[float, int]] = []
    for i, condition in enumerate(conditions):
        if isinstance(condition, tuple):
            ranges.append((condition[0], i))
        else:
            for value in condition:
                values.setdefault(value, []).append(i)
    # One column has one kind of condition. Were it not so, whoever has one kind would be counted as having the other too.
    numbers = [i for _, i in ranges] if values else []
    words = list(dict.fromkeys(i for some in values.values() for i in some))
    for some in values.values():
        yield tuple(sorted({*some, *numbers}))
    active: list[int] = []
    for start, i in sorted(ranges):
        # A largest set of ranges that hold together does so where the last of them begins.
        active = [*(j for j in active if conditions[j][1] > start), i]  # type: ignore[index]
        yield tuple(sorted({*active, *words}))


def _merged(charges: list[tuple[Region, int]]) -> list[tuple[Region, int]]:
    """Charges for the same region as one."""
    found: dict[frozenset[tuple[str, Condition]], int] = {}
    for region, units in charges:
        key = frozenset(region.items())
        found[key] = found.get(key, 0) + units
    return [(dict(key), units) for key, units in found.items()]


@dataclass(frozen=True)
class Tally:
    """What was charged to an account, for the whole table and for parts of it, on one side or both."""

    base: int = 0
    """For everybody; since the table last changed, all that was spent before."""
    pure_base: int | None = None
    """The same on the pure side; None where there is none, or it has ended."""
    parts: tuple[tuple[str, int, int], ...] = ()
    """For each scope what was charged there, on both sides."""

    def charged(self, scope: str | None, amount: int, pure: int | None) -> Tally:
        """After one more charge."""
        if scope is None:
            return replace(self, base=self.base + amount, pure_base=pure_after(self.pure_base, amount, pure))
        sums = {name: (one, other) for name, one, other in self.parts}
        one, other = sums.get(scope, (0, 0))
        sums[scope] = one + amount, other + (pure or 0)
        ended = self.pure_base if not amount or pure is not None else None
        return Tally(self.base, ended, tuple((name, *both) for name, both in sums.items()))

    def spent(self, limit: int | None = None) -> tuple[int, int | None]:
        """What the record has paid that paid most, on both sides."""
        return self._most(limit)

    def spent_in(self, scope: str) -> tuple[int, int | None]:
        """The same, among the records of this part."""
        return self._most(None, region_of(scope))

    def _most(self, limit: int | None, among: Region | None = None) -> tuple[int, int | None]:
        listed = [(region_of(name), one, other) for name, one, other in self.parts]
        if among is not None:
            met = ((both(region, among), one, other) for region, one, other in listed)
            listed = [(region, one, other) for region, one, other in met if region is not None]
        whole = self.base + Search(limit).heaviest((region, one) for region, one, _ in listed)
        if self.pure_base is None:
            return whole, None
        return whole, self.pure_base + Search(limit).heaviest((region, other) for region, _, other in listed)

    def settled(self) -> Tally:
        """Once the table has changed a record may be in another part: what was spent, everybody has."""
        return Tally(*self.spent())

    @classmethod
    def of(cls, spent: int, pure_spent: int | None, entries: Iterable[Entry]) -> Tally:
        """From the newest standing, and the charges for parts since the table last changed."""
        sums: dict[str, tuple[int, int]] = {}
        for entry in entries:
            if entry.scope is not None:
                one, other = sums.get(entry.scope, (0, 0))
                sums[entry.scope] = one + entry.amount, other + (entry.pure or 0)
        found = cls(0, 0, tuple((name, *units) for name, units in sums.items()))
        most, pure_most = found.spent()
        return cls(spent - most, None if pure_spent is None else pure_spent - (pure_most or 0), found.parts)


def both(one: Region, other: Region) -> Region | None:
    """Where both hold; None if nowhere."""
    found = dict(one)
    for name, condition in other.items():
        known = found.get(name)
        if known is None:
            found[name] = condition
        elif isinstance(known, frozenset) and isinstance(condition, frozenset):
            found[name] = known & condition
            if not found[name]:
                return None
        elif isinstance(known, tuple) and isinstance(condition, tuple):
            lo, hi = max(known[0], condition[0]), min(known[1], condition[1])
            if lo >= hi:
                return None
            found[name] = (lo, hi)
    return found
