"""What is public: the columns, their bounds and categories, the unit that is protected and the neighbour relation.

Nothing here is ever read from the data. A cell that is missing, unreadable, unknown or out of range becomes a declared
value or is left out, as its column says, so the data cannot widen a domain, change a shape or raise an error.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from ..errors import LoadError, SchemaError
from .columns import EXCLUDE, FINE, FOR_PEOPLE, MISSING, OUTSIDE, UNREADABLE, Boolean, Category, Feature, Number
from .dates import Date, Datetime
from .drafts import Draft, drafted, refuse_open
from .fingerprint import fingerprinted_as
from .groups import NO_GROUPS, Groups
from .texts import storable

__all__ = [
    "EXCLUDE",
    "FINE",
    "MISSING",
    "OUTSIDE",
    "RELATIONS",
    "UNREADABLE",
    "Boolean",
    "Category",
    "Columns",
    "Date",
    "Datetime",
    "Feature",
    "Number",
    "Relation",
    "Schema",
    "Unit",
    "check_relation",
    "did_you_mean",
    "read_structured",
]

Relation = Literal["replace", "add-remove"]
RELATIONS: tuple[str, ...] = get_args(Relation)

Columns = dict[str, np.ndarray]
"""Columns in their inner form: numbers as float64, categories as positions in the declared order."""

SAID_BY_CELLS = ("category", "missing", "unknown", "clusters")
"""Keys of a file whose values are compared with what is in the data."""


def check_relation(neighbors: str) -> Relation:
    if neighbors not in RELATIONS:
        raise SchemaError(f"neighbors={neighbors!r} is not a neighbour relation; use 'replace' or 'add-remove'.")
    return neighbors  # type: ignore[return-value]


@fingerprinted_as("pellucid.schema", "Unit")
@dataclass(frozen=True)
class Unit:
    """Whom the guarantee protects, when one person may own several rows. Claims: person-average, group-rows

    >>> Unit("patient_id", max_rows=5).text
    'all rows of one patient_id (at most 5 kept, averaged)'
    """

    column: str | None = None
    """The column that says whose a row is: whole numbers or text, not floats, compared exactly ("1" and "01" are two people).
    Rows without an id, or with one that is empty or blank, are dropped. Without a column nothing can be enforced: noise is
    scaled up `max_rows` times and certificates are conditional on nobody having more rows than that."""
    max_rows: int = 1
    """How many rows of a person count. With a column so many are kept, chosen independently of their content, and averaged,
    so that bounds do not grow."""

    def __post_init__(self) -> None:
        if self.column is not None and not isinstance(self.column, str):
            raise SchemaError(f"Unit({self.column!r}): give the name of the id column, or max_rows= alone.")
        if isinstance(self.max_rows, bool) or not isinstance(self.max_rows, int) or not 1 <= self.max_rows <= 1_000_000:
            raise SchemaError(f"Unit(max_rows={self.max_rows!r}): give a whole number from 1 to 1,000,000.")

    @property
    def rows_per_unit(self) -> int:
        """How many contributions one person can have in a total."""
        return 1 if self.column else self.max_rows

    @property
    def text(self) -> str:
        if self.column:
            return f"all rows of one {self.column} (at most {self.max_rows} kept, averaged)"
        return "one row" if self.max_rows == 1 else f"up to {self.max_rows} rows of one person (not enforced)"


@fingerprinted_as("pellucid.schema", "Schema")
class Schema(Mapping[str, Feature]):
    """The declared columns, in order.

    `features` are the columns by name: a `Number`, `Category`, `Boolean()`, `Date` or `Datetime` each. `groups` are columns that
    count as one wherever features are compared, such as the one-hot columns of one attribute: `{"address": ["street", "zip"]}`.

    >>> schema = Schema({"age": Number(17, 90, integer=True), "sex": Category(["F", "M"])})
    >>> list(schema), schema["age"].hi
    (['age', 'sex'], 90.0)
    """

    _groups: Groups = NO_GROUPS

    def __init__(self, features: Mapping[str, Feature], groups: Mapping[str, Sequence[str]] | None = None):
        if not isinstance(features, Mapping) or not features:
            raise SchemaError("Schema({...}): declare at least one column, for example {'age': pel.Number(0, 120)}.")
        for name, feature in features.items():
            if not isinstance(name, str) or not name:
                raise SchemaError(f"Schema: {name!r} is not a column name.")
            if not isinstance(feature, Number | Category):
                raise SchemaError(f"Schema: {name!r} must be a pel.Number or a pel.Category, not {type(feature).__name__}.")
            if not storable(json.dumps({name: feature.to_dict()}, ensure_ascii=False)):
                raise SchemaError(f"Schema: column {name!r} is declared with text that cannot be stored (half a character).")
        self._features: dict[str, Feature] = dict(features)
        if groups:
            # Without groups nothing is kept of them: fingerprints of predictors that hold a schema stay what they were.
            self._groups = Groups.of(groups, SchemaError).checked(list(features), list(features), SchemaError)
            if not storable(json.dumps(self._groups.plain(), ensure_ascii=False)):
                raise SchemaError("Schema: a group is named with text that cannot be stored (half a character).")

    @property
    def groups(self) -> Groups:
        """Columns that count as one wherever features are compared, by the name of the group."""
        return self._groups

    def __getitem__(self, name: str) -> Feature:
        try:
            return self._features[name]
        except (KeyError, TypeError):
            raise SchemaError(f"{name!r} is not declared in the schema{did_you_mean(name, self._features)}.") from None

    def __contains__(self, name: object) -> bool:
        return name in self._features

    def __iter__(self) -> Iterator[str]:
        return iter(self._features)

    def __len__(self) -> int:
        return len(self._features)

    def __repr__(self) -> str:
        return f"Schema({self._features!r}{f', groups={self._groups.plain()!r}' if self._groups else ''})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schema) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]

    def sample(self, size: int, seed: int = 0) -> Columns:
        """Public records drawn from the declared domains; they say nothing about anyone."""
        rng = np.random.default_rng(seed)
        return {name: feature.sample(rng, size) for name, feature in self._features.items()}

    @property
    def declared(self) -> dict[str, Any]:
        """`to_dict` without words for people and without groups: what requests and accounts know columns by."""
        bare = {name: {k: v for k, v in f.to_dict().items() if k not in FOR_PEOPLE} for name, f in self._features.items()}
        return {"features": bare}

    def to_dict(self) -> dict[str, Any]:
        said: dict[str, Any] = {"features": {name: feature.to_dict() for name, feature in self._features.items()}}
        return {**said, "groups": self._groups.plain()} if self._groups else said

    @classmethod
    def from_dict(cls, content: Any) -> Schema:
        if not isinstance(content, Mapping) or not isinstance(content.get("features"), Mapping):
            raise SchemaError("a schema file needs a top-level 'features:' with one entry per column.")
        refuse_open(content["features"])
        groups = content.get("groups") or {}
        return cls({str(name): _feature_from(str(name), entry) for name, entry in content["features"].items()}, groups)

    @staticmethod
    def draft(source: Any) -> Draft:
        """A schema file to be filled in, from names and types of columns alone: no cell is read.

        `source` is a list of names, a mapping from names to types, a table (of which only the types are looked at), a schema of
        Arrow, the path of a Parquet or CSV file, or a description that `read` understands. What nobody can know from that is
        marked "to be declared"; a file with such marks is refused by `load`, which names them.

        >>> print(Schema.draft({"age": int, "sex": str, "smoker": bool}).left)
        ['age (both bounds)', 'sex (its values)']
        """
        from .formats import describes, entries_of

        return Draft(entries_of(source) if describes(source) else drafted(source))

    @classmethod
    def read(
        cls,
        source: Any,
        table: str | None = None,
        columns: Mapping[str, Feature | None] | None = None,
        groups: Mapping[str, Sequence[str]] | None = None,
    ) -> Schema:
        """A schema from another format: CSVW and csvw-safe, Frictionless, Croissant or JSON Schema as a file or a mapping, a
        pandera schema or a pydantic model; a schema file, too.

        `table` names the one that is meant where several are described. `columns` declares those that the description leaves
        open, or otherwise; None leaves a column out. `groups` are those of `Schema(…)`, where the description has none itself.
        Bounds that say that they were computed from data are refused.
        """
        from .formats import entries_of, groups_in

        features = declared_in(entries_of(source, table), columns or {})
        # Of a group that the description has itself, columns that were left out are left out.
        found = Groups.of(groups, SchemaError) if groups else Groups.of(groups_in(source), SchemaError)
        left_out = [name for name, feature in (columns or {}).items() if feature is None]
        kept = [name for members in found.values() for name in members if groups or name not in left_out]
        return cls(features, found.among(kept))

    def to_csvw(self) -> dict[str, Any]:
        """The schema as metadata of CSV on the Web, with values of categories as csvw-safe has them."""
        from .formats import csvw

        return csvw.exported(self)

    def to_frictionless(self) -> dict[str, Any]:
        """The schema as a Table Schema of Frictionless, with groups as a property of ours: it has no word for them."""
        from .formats import frictionless

        return frictionless.exported(self)

    def to_croissant(self) -> dict[str, Any]:
        """The schema as a record set of Croissant, with schema.org's minValue and maxValue for bounds."""
        from .formats import croissant

        return croissant.exported(self)

    @classmethod
    def load(cls, path: str | Path) -> Schema:
        """Read a schema from YAML or JSON."""
        try:
            content = read_structured(path, "schema")
        except LoadError as error:
            raise SchemaError(str(error)) from None
        return cls.from_dict(content)

    def save(self, path: str | Path) -> None:
        """Write the schema as YAML (.yaml, .yml) or JSON (.json)."""
        path = Path(path)
        content = self.to_dict()
        if path.suffix == ".json":
            text = json.dumps(content, indent=2, ensure_ascii=False)
        elif path.suffix in (".yaml", ".yml"):
            import yaml

            text = yaml.safe_dump(content, sort_keys=False, allow_unicode=True)
        else:
            raise SchemaError(f"{path.name!r}: a schema is saved as .yaml, .yml or .json.")
        path.write_text(text, encoding="utf-8")


def declared_in(entries: Mapping[str, Any], columns: Mapping[str, Feature | None]) -> dict[str, Feature]:
    """The columns of a description, and those that are declared beside it."""
    unknown = [name for name in columns if name not in entries]
    if unknown:
        raise SchemaError(f"columns: {unknown[0]!r} is not described{did_you_mean(unknown[0], entries)}.")
    rest = {name: said for name, said in entries.items() if name not in columns}
    refuse_open(rest, "the description leaves columns open; declare them with columns={name: …}, where None leaves one out")
    made = {name: columns[name] if name in columns else _feature_from(name, entries[name]) for name in entries}
    return {name: feature for name, feature in made.items() if feature is not None}


KINDS: dict[str, tuple[type[Feature], set[str]]] = {
    "number": (Number, {"integer", "missing", "source", "scale", *FOR_PEOPLE}),
    "category": (Category, {"ordered", "missing", "unknown", "source", *FOR_PEOPLE}),
    "date": (Date, {"missing", "format", "source", *FOR_PEOPLE}),
    "datetime": (Datetime, {"missing", "format", "source", *FOR_PEOPLE}),
}
"""What the entry of a column in a file may begin with: the class, and the options beside it."""


def _feature_from(name: str, entry: Any) -> Feature:
    if isinstance(entry, Mapping) and {"boolean", "bool"} & set(entry):
        raise SchemaError(f"column {name!r}: booleans are a category; write category: [false, true].")
    if isinstance(entry, Mapping) and {"text", "string"} & set(entry):
        raise SchemaError(
            f"column {name!r}: free text has no bounds. Declare the values it may take (category: […]) or a number made "
            "of it (its length, a score), or leave the column out."
        )
    found = [kind for kind in KINDS if isinstance(entry, Mapping) and kind in entry]
    if len(found) != 1:
        raise SchemaError(
            f"column {name!r}: give either 'number: [lo, hi]' or 'category: [values]', or 'date: [first, last]' or "
            "'datetime: [first, last]'."
        )
    (kind,) = found
    made, allowed = KINDS[kind]
    extra = sorted(str(key) for key in set(entry) - allowed - {kind})
    if extra:
        raise SchemaError(f"column {name!r}: {extra[0]!r} is not known for a {kind}{did_you_mean(extra[0], allowed)}.")
    options = {key: entry[key] for key in entry if key != kind}
    try:
        if kind == "category":
            return made(entry["category"], **options)
        bounds = entry[kind]
        if not isinstance(bounds, Sequence) or isinstance(bounds, str) or len(bounds) != 2:
            example = "[0, 120]" if kind == "number" else "[2020-01-01, 2024-12-31]"
            raise SchemaError(f"'{kind}' needs two bounds, for example {example}.")
        return made(*bounds, **options)
    except SchemaError as error:
        raise SchemaError(f"column {name!r}: {error}") from None


def read_structured(path: str | Path, what: str) -> Any:
    """Parse a YAML or JSON file written by the user; errors name the file and the line."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise LoadError(f"the {what} file {str(path)!r} does not exist.") from None
    except (OSError, UnicodeDecodeError):
        raise LoadError(f"the {what} file {str(path)!r} cannot be read as text.") from None
    import yaml

    try:
        if path.suffix == ".json":
            return json.loads(text)
        content = yaml.safe_load(text)
        _refuse_words_for_booleans(path.name, yaml.compose(text, Loader=yaml.SafeLoader))
        return content
    except json.JSONDecodeError as error:
        raise LoadError(f"{path.name}: line {error.lineno} is not valid JSON.") from None
    except yaml.YAMLError as error:
        line = getattr(getattr(error, "problem_mark", None), "line", None)
        raise LoadError(f"{path.name}: line {'?' if line is None else line + 1} is not valid YAML.") from None
    except RecursionError:
        raise LoadError(f"{path.name}: something in it contains itself, or is nested too deeply.") from None


def _refuse_words_for_booleans(where: str, node: Any, key: str = "") -> None:
    """YAML takes no, yes, on and off for booleans; among categories they are words, and the column would match nothing."""
    import yaml

    if isinstance(node, yaml.MappingNode):
        for name, value in node.value:
            _refuse_words_for_booleans(where, value, str(name.value))
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            _refuse_words_for_booleans(where, value, key)
    elif key in SAID_BY_CELLS and node.tag == "tag:yaml.org,2002:bool" and node.value.lower() not in ("true", "false"):
        raise LoadError(
            f"{where}: line {node.start_mark.line + 1}: YAML takes {node.value} under '{key}:' for a boolean. If cells say "
            f'"{node.value}", put it in quotes; if the column is of booleans, write [false, true].'
        )


def did_you_mean(name: Any, known: Any) -> str:
    close = difflib.get_close_matches(str(name), [str(k) for k in known], n=1)
    if close:
        return f" (did you mean {close[0]!r}?)"
    listed = [str(k) for k in known]
    return f" (known: {', '.join(listed[:12])}{', …' if len(listed) > 12 else ''})"
