"""Groups of features: columns that count as one, such as the parts of an address or the one-hot columns of one attribute."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import PellucidError, PlanError


@dataclass(frozen=True)
class Players:
    """Who plays: each group, and each feature that is in none."""

    names: tuple[str, ...]
    of: tuple[int, ...]
    """For every feature, in order: which player it belongs to."""

    @classmethod
    def single(cls, features: Sequence[str]) -> Players:
        """Every feature by itself."""
        return cls(tuple(features), tuple(range(len(features))))

    @property
    def alone(self) -> bool:
        """Whether every player is a single feature, in the same order."""
        return self.of == tuple(range(len(self.names)))

    def members(self, features: Sequence[str]) -> tuple[tuple[str, ...], ...]:
        """The features of every player."""
        found: list[list[str]] = [[] for _ in self.names]
        for name, player in zip(features, self.of, strict=True):
            found[player].append(name)
        return tuple(map(tuple, found))


@dataclass(frozen=True)
class Groups(Mapping[str, tuple[str, ...]]):
    """Groups by name, each with its features; no feature is in two of them.

    >>> groups = Groups.of({"address": ["street", "zip"]})
    >>> groups["address"], groups.players(["age", "street", "zip"])
    (('street', 'zip'), Players(names=('age', 'address'), of=(0, 1, 1)))
    """

    content: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @classmethod
    def of(cls, given: Any, error: type[PellucidError] = PlanError) -> Groups:
        """From a mapping; refused where a group is empty or two of them overlap."""
        if isinstance(given, Groups):
            return given
        if not isinstance(given, Mapping):
            raise error(f"groups={given!r}: give names with lists of features, such as {{'address': ['street', 'zip']}}.")
        taken: dict[str, str] = {}
        for group, members in given.items():
            if not isinstance(group, str) or not group:
                raise error(f"groups: {group!r} is not a name; a group is known by a text.")
            if isinstance(members, str) or not isinstance(members, Sequence) or not all(isinstance(m, str) for m in members):
                raise error(f"groups: {group!r} is {members!r}; give a list of names of features.")
            if not members:
                raise error(f"groups: {group!r} is empty; list its features, or leave it out.")
            for name in members:
                if name in taken:
                    where = f"twice in {group!r}" if taken[name] == group else f"in {taken[name]!r} and in {group!r}"
                    raise error(f"groups: {name!r} is {where}; a feature belongs to one group at most.")
                taken[name] = group
        return cls(tuple((group, tuple(members)) for group, members in given.items()))

    def __getitem__(self, name: str) -> tuple[str, ...]:
        return dict(self.content)[name]

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in self.content)

    def __len__(self) -> int:
        return len(self.content)

    def plain(self) -> dict[str, list[str]]:
        """As a file has them."""
        return {name: list(members) for name, members in self.content}

    def holding(self, feature: str) -> str | None:
        """The group that a feature is in."""
        return next((name for name, members in self.content if feature in members), None)

    def among(self, features: Sequence[str]) -> Groups:
        """What is left of them where only these features are used."""
        kept = ((name, tuple(m for m in members if m in features)) for name, members in self.content)
        return Groups(tuple((name, members) for name, members in kept if members))

    def checked(self, features: Sequence[str], columns: Sequence[str], error: type[PellucidError] = PlanError) -> Groups:
        """Refused where a group has a feature that is not there, or is called like a column."""
        from .schema import did_you_mean

        for group, members in self.content:
            if group in columns:
                raise error(f"groups: {group!r} is the name of a column too; give the group another name.")
            for name in members:
                if name not in features:
                    known = "used by the model" if name in columns else "declared in the schema"
                    raise error(f"groups: {name!r} in {group!r} is not {known}{did_you_mean(name, features)}.")
        return self

    def players(self, features: Sequence[str]) -> Players:
        """The groups and the features that are in none, in the order of their first features."""
        names = [self.holding(feature) or feature for feature in features]
        listed = tuple(dict.fromkeys(names))
        return Players(listed, tuple(listed.index(name) for name in names))


NO_GROUPS = Groups()
