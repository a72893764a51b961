"""Drafts of schemas: what names and types of columns, or descriptions in other formats, say by themselves.

No cell is read, and no statistics of cells: whatever they could tell is marked "to be declared" instead.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import SchemaError
from .columns import Category, Feature
from .dates import Date, Datetime

OPEN = "to be declared"
"""What stands in a draft where somebody has to know."""

COMPUTED = "computed"
"""In an entry: why the bounds or values that were given do not count."""

Entries = dict[str, Any]
"""Columns as a schema file has them; parts of them may be open."""

ADVICE = "from a form, a manual or a law, never from the table"
HEAD = f"""\
# Drafted from names and types of columns; no cell was read.
# Fill in whatever is "{OPEN}", {ADVICE}.
# For example: age: {{number: [0, 120], integer: true, source: "form 12"}}, sex: {{category: [F, M]}}.
# Codes are a category, even where they are numbers: category: [1, 2, 3].
# Take out the columns that no explanation needs, such as names, notes and ids.
# Columns that count as one where features are compared stand below the others: groups: {{address: [street, zip]}}.
"""

KINDS: tuple[tuple[str, str], ...] = (
    ("boolean", r"bool(ean)?"),
    ("text", r"(large_|str_)?(str|string|utf8|unicode|text|categor(y|ical)|enum|dictionary|<u\d+|<class 'str'>)(\b|_|\[|<).*"),
    ("datetime", r"(timestamp|date_?time).*"),
    ("date", r"date(32|64)?\b.*"),
    ("integer", r"(u?int(eger)?\d*|long|short|byte|u?bigint|smallint|tinyint)"),
    ("number", r"(float|double|halffloat|half|real|decimal|number|numeric).*"),
)
"""Names of types in Python, NumPy, pandas, polars, Arrow and SQL."""


def kind_of(said: Any) -> str | None:
    """What a type says a column is: "boolean", "integer", "number", "date", "datetime" or "text"; None where it does not tell.

    >>> [kind_of(t) for t in (int, "Float64", "timestamp[us]", "date32[day]", "dictionary<values=string>", bool, "object")]
    ['integer', 'number', 'datetime', 'date', 'text', 'boolean', None]
    """
    name = said.__name__ if isinstance(said, type) else str(said)
    return next((kind for kind, pattern in KINDS if re.fullmatch(pattern, name.strip().lower())), None)


def kind_of_column(feature: Feature) -> str:
    """What a declared column is, in the same words."""
    if isinstance(feature, Date | Datetime):
        return feature.kind
    if not isinstance(feature, Category):
        return "integer" if feature.integer else "number"
    if feature.values == (False, True):
        return "boolean"
    return "integer" if all(isinstance(v, int) for v in feature.values) else "number" if feature.numeric else "text"


def entry(
    kind: str | None, lo: Any = None, hi: Any = None, values: Sequence[Any] | None = None, **more: Any
) -> dict[str, Any] | str:
    """What a file says of a column, with all that it does not say marked as open."""
    more = {name: value for name, value in more.items() if value}
    if more.get(COMPUTED):
        lo = hi = None
    if values:
        return {"category": OPEN if more.get(COMPUTED) else list(values), **more}
    bounds = [OPEN if end is None else end for end in (lo, hi)]
    if kind is None:
        return OPEN if bounds == [OPEN, OPEN] and not more.get("label") else {"number": bounds, **more}
    if kind == "boolean":
        return {"category": [False, True], **more}
    if kind == "text":
        return {"category": OPEN, **more}
    return {"number": bounds, "integer": True, **more} if kind == "integer" else {kind: bounds, **more}


def limits(said: Mapping[str, Any], kind: str | None) -> tuple[Any, Any]:
    """Smallest and largest values as JSON Schema words them; what is exclusive is one further inside for whole numbers."""
    step = 1 if kind == "integer" else 0
    lo, hi = said.get("minimum"), said.get("maximum")
    if lo is None and (above := said.get("exclusiveMinimum")) is not None:
        lo = above + step if step else above
    if hi is None and (below := said.get("exclusiveMaximum")) is not None:
        hi = below - step if step else below
    return lo, hi


def left_in(entries: Mapping[str, Any]) -> list[str]:
    """What is still open, column by column, in words."""
    found = []
    for name, said in entries.items():
        if said == OPEN:
            found.append(f"{name} (what it is)")
        elif isinstance(said, Mapping):
            what = [words for key, value in said.items() if (words := _open_part(key, value))]
            why = f"; those in the file are no public ones: {said[COMPUTED]}" if COMPUTED in said else ""
            found += [f"{name} ({', '.join(what)}{why})"] if what else []
    return found


def _open_part(key: str, value: Any) -> str:
    if value == OPEN:
        return "its values" if key == "category" else key
    if isinstance(value, Sequence) and not isinstance(value, str) and key != "category":
        ends = [word for word, end in zip(("lower bound", "upper bound"), value) if end == OPEN]
        return "both bounds" if len(ends) == 2 else "".join(ends)
    return ""


def refuse_open(entries: Mapping[str, Any], what: str = "the schema is an unfinished draft") -> None:
    """Refuse a schema of which something is still open, and name it."""
    left = left_in(entries)
    if left:
        more = f" and {len(left) - 12} more" if len(left) > 12 else ""
        raise SchemaError(f"{what}; {OPEN}: {', '.join(left[:12])}{more}. Fill it in {ADVICE}.")


@dataclass(frozen=True)
class Draft:
    """A schema as far as names and types of columns tell: `print` it, or `save` it and fill in what is open."""

    entries: Entries
    """The columns as a schema file has them."""

    @property
    def left(self) -> list[str]:
        """What is still to be declared, column by column."""
        return left_in(self.entries)

    @property
    def text(self) -> str:
        """The schema file."""
        import yaml

        lines = [HEAD + "features:"]
        for name, said in self.entries.items():
            if isinstance(said, Mapping) and COMPUTED in said:
                lines.append(f"  # Bounds of {name!r} were given and do not count: {said[COMPUTED]}.")
                said = {key: value for key, value in said.items() if key != COMPUTED}
            style = None if isinstance(said, Mapping) else False
            dumped = yaml.safe_dump({name: said}, default_flow_style=style, sort_keys=False, allow_unicode=True, width=1000)
            lines += [f"  {line}" for line in dumped.splitlines()]
        return "\n".join(lines) + "\n"

    def __str__(self) -> str:
        return self.text

    def save(self, path: str | Path) -> None:
        """Write the schema file (.yaml or .yml)."""
        path = Path(path)
        if path.suffix not in (".yaml", ".yml"):
            raise SchemaError(f"{path.name!r}: a draft is saved as .yaml or .yml.")
        path.write_text(self.text, encoding="utf-8")


def drafted(source: Any) -> Entries:
    """The columns that a source names, with what their types say; see `Schema.draft`."""
    if isinstance(source, str | Path):
        return _of_file(Path(source))
    types = _types(source)
    if not types:
        raise SchemaError("there are no columns to draft a schema of; give their names, or a table that has some.")
    return {name: entry(kind) for name, kind in types.items()}


def _types(source: Any) -> dict[str, str | None]:
    schema = getattr(source, "schema", None)
    if isinstance(source, Mapping):
        return {str(name): _declared_kind(said) for name, said in source.items()}
    if hasattr(source, "dtypes") and hasattr(source, "columns"):
        return {str(name): kind_of(said) for name, said in zip(source.columns, source.dtypes)}
    fields = source if _has_fields(source) else schema if _has_fields(schema) else None
    if fields is not None:
        return {field.name: kind_of(field.type) for field in fields}
    if isinstance(source, Iterable) and not hasattr(source, "dtype"):
        names = list(source)
        if all(isinstance(name, str) for name in names):
            return dict.fromkeys(names)
    raise SchemaError(
        f"a draft is made of names of columns, of {{name: type}}, of a table with named columns or of a file, not of a "
        f"{type(source).__name__}."
    )


def _has_fields(schema: Any) -> bool:
    """Whether it is a schema of Arrow: fields with a name and a type."""
    return hasattr(schema, "field") and hasattr(schema, "names") and hasattr(schema, "types")


def _declared_kind(said: Any) -> str | None:
    """A type, or the type of an array that is given in its place; cells of a list are not looked at."""
    if isinstance(said, list | tuple | set):
        return None
    return kind_of(getattr(said, "dtype", None) or getattr(said, "type", None) or said)


def _of_file(path: Path) -> Entries:
    if not path.exists():
        raise SchemaError(f"the file {str(path)!r} does not exist.")
    if path.suffix in (".csv", ".tsv"):
        return {name: entry(None) for name in _header(path)}
    if path.suffix in (".json", ".jsonld", ".yaml", ".yml"):
        from .formats import entries_of

        return entries_of(path)
    from pyarrow import parquet  # its footer says what columns there are; the statistics in it are not looked at

    files = sorted(path.glob("**/*.parquet")) if path.is_dir() else [path]
    try:
        found = parquet.read_schema(files[0])
    except Exception:
        found = None
    if found is None:
        raise SchemaError(f"{path.name!r} is no Parquet or CSV file, and no description of one.")
    return {name: entry(kind) for name, kind in _types(found).items()}


def _header(path: Path) -> list[str]:
    """The first line of a file, which names its columns."""
    try:
        with path.open("rb") as file:
            line = file.readline().decode("utf-8-sig")
        names = next(csv.reader([line], delimiter="\t" if path.suffix == ".tsv" else ","), [])
    except (OSError, UnicodeDecodeError):
        names = []
    if not names:
        raise SchemaError(f"{path.name!r} has no first line with names of columns.")
    return names
