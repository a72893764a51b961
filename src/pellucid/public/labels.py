"""What people call the columns of a schema and the output of a model: words for pictures and tables, and no numbers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from .black_box import BlackBox
from .groups import NO_GROUPS, Groups
from .schema import Schema


@dataclass(frozen=True)
class Labels:
    """Labels and units of columns, and what the model's answers are called. All of it was declared, nothing is from data.

    >>> words = Labels({"inc": {"label": "income", "unit": "€ a year"}})
    >>> words.name("inc"), words.axis("inc"), words.name("inc = high"), words.axis("age")
    ('income', 'income (€ a year)', 'income = high', 'age')
    """

    columns: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By name: "label", "unit", "ordered" of categories whose order means something, and "members" of a group of features; only
    what was declared."""
    output: str = ""
    """What the model was named; empty where its name is only that of a class or a function."""

    @classmethod
    def of(
        cls, schema: Schema, columns: Iterable[str], models: Iterable[BlackBox] = (), groups: Groups = NO_GROUPS
    ) -> Labels | None:
        """What a schema says of these columns; None where it says nothing for people, so that results stay as they were."""
        said = {name: words for name in columns if name in schema and (words := _words(schema[name]))}
        said |= {name: {"members": list(members)} for name, members in groups.items()}
        output = next((model.name for model in models if _was_named(model)), "")
        return cls(said, output) if output or any({*words} - {"ordered"} for words in said.values()) else None

    def only(self, names: Iterable[str]) -> Labels | None:
        """What is said of these columns alone."""
        kept = {name: self.columns[name] for name in names if name in self.columns}
        return Labels(kept, self.output) if kept or self.output else None

    def name(self, column: str) -> str:
        """What people call a column, or one value of it ("income = high")."""
        if column in self.columns:
            return str(self.columns[column].get("label", column))
        own, equals, value = column.partition(" = ")
        return f"{self.name(own)}{equals}{value}" if equals and own in self.columns else column

    def unit(self, column: str) -> str:
        return str(self.columns.get(column, {}).get("unit", ""))

    def axis(self, column: str) -> str:
        """What stands beside an axis: the label, and the unit in brackets."""
        unit = self.unit(column)
        return self.name(column) + (f" ({unit})" if unit else "")

    def ordered(self, column: str) -> bool:
        """Whether the order of a category's values means something, as far as is known."""
        return bool(self.columns.get(column, {}).get("ordered"))

    def together(self, names: Iterable[str]) -> tuple[str, ...]:
        """Which features the groups among these names are made of, a sentence each."""
        found = ((name, self.columns.get(name, {}).get("members")) for name in names)
        return tuple(f"{name} is {_listed([self.name(m) for m in some])}" for name, some in found if some)

    def to_dict(self) -> dict[str, Any]:
        return {"columns": self.columns, **({"output": self.output} if self.output else {})}

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Labels:
        return cls(dict(content["columns"]), content.get("output", ""))


def _words(column: Any) -> dict[str, Any]:
    said = {name: getattr(column, name, "") for name in ("label", "unit")}
    found: dict[str, Any] = {name: word for name, word in said.items() if isinstance(word, str) and word}
    return {**found, **({"ordered": True} if getattr(column, "ordered", False) else {})}


def _listed(members: list[str], most: int = 6) -> str:
    """Features that count as one, in words."""
    if len(members) == 1:
        return f"{members[0]} alone"
    if len(members) > most:
        return f"{', '.join(members[: most - 1])} and {len(members) - most + 1} more, taken together"
    return f"{', '.join(members[:-1])} and {members[-1]}, taken together"


def _was_named(model: BlackBox) -> bool:
    predictor = model.predictor
    given = {
        getattr(predictor, "__name__", ""),
        type(predictor).__name__,
        f"{type(predictor).__name__}.{getattr(model, 'method', '')}",
    }
    return model.kind == "model" and model.name not in given
