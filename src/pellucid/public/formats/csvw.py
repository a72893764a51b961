"""CSV on the Web, and its extension csvw-safe, which declares public values and bounds for differential privacy."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ...errors import SchemaError
from ..columns import Category, Feature
from ..drafts import OPEN, Entries, entry, kind_of, kind_of_column
from .observed import bare, computed

NAME = "CSVW"

WHOLE = {
    *("integer", "long", "int", "short", "byte", "negativeInteger", "nonPositiveInteger"),
    *("nonNegativeInteger", "positiveInteger", "unsignedLong", "unsignedInt", "unsignedShort", "unsignedByte"),
}
FROM = {"nonNegativeInteger": 0, "positiveInteger": 1, "unsignedLong": 0, "unsignedInt": 0, "unsignedShort": 0, "unsignedByte": 0}
UP_TO = {"unsignedByte": 255, "negativeInteger": -1, "nonPositiveInteger": 0}
PATTERNS = (("yyyy", "%Y"), ("MM", "%m"), ("dd", "%d"), ("HH", "%H"), ("mm", "%M"), ("ss", "%S"), ("M", "%m"), ("d", "%d"))


def columns(content: Mapping[str, Any], table: str | None) -> Entries | None:
    """The columns of a description in CSVW; None for any other one."""
    if not ({"tableSchema", "tables"} & set(content) or "csvw" in str(content.get("@context", ""))):
        return None
    chosen = _chosen(content, table)
    schema = chosen.get("tableSchema", content.get("tableSchema"))
    if not isinstance(schema, Mapping) or not isinstance(schema.get("columns"), list):
        raise SchemaError("CSVW: 'tableSchema' lists no columns here; a schema in another file is not fetched.")
    found: Entries = {}
    for number, column in enumerate(schema["columns"], 1):
        if not isinstance(column, Mapping):
            raise SchemaError(f"CSVW: column {number} is no mapping.")
        if column.get("virtual") is not True and _own(column, "privacyId") is not True:
            name, label = _names(column, number)
            found[name] = _column(label, column)
    return found


def _chosen(content: Mapping[str, Any], table: str | None) -> Mapping[str, Any]:
    tables = content.get("tables")
    if not isinstance(tables, list):
        return content
    named: dict[str, Mapping[str, Any]] = {
        str(one.get("url", one.get("name", number))): one for number, one in enumerate(tables, 1) if isinstance(one, Mapping)
    }
    if len(named) == 1 and table is None:
        return next(iter(named.values()))
    if table not in named:
        raise SchemaError(f"CSVW: {len(named)} tables are described; say which with table=, one of {sorted(named)!r}.")
    return named[table]


def _names(column: Mapping[str, Any], number: int) -> tuple[str, str]:
    """The name of a column, and its title for people where there is one beside it."""
    titles = column.get("titles", column.get("title", column.get("dc:title", "")))
    if isinstance(titles, Mapping):
        titles = next(iter(titles.values()), "")
    title = str(titles[0] if isinstance(titles, list) and titles else titles or "")
    name = str(column.get("name") or title or f"_col.{number}")
    return name, title if title != name else ""


def _own(column: Mapping[str, Any], *names: str) -> Any:
    """What an extension says, with or without its prefix."""
    return next((value for key, value in column.items() if bare(key) in {name.lower() for name in names}), None)


def _column(label: str, column: Mapping[str, Any]) -> Any:
    datatype = column.get("datatype", "string")
    detail = datatype if isinstance(datatype, Mapping) else {"base": datatype}
    base, pattern = bare_type(detail.get("base", "string")), detail.get("format")
    kind = "integer" if base in WHOLE else kind_of(base) or "text"
    both = {**column, **detail}
    lo = _first(both, "minimum", "minInclusive", "minExclusive")
    hi = _first(both, "maximum", "maxInclusive", "maxExclusive")
    values = list(_public_values(column)) or _alternatives(kind, pattern)
    if kind in ("integer", "number") and lo is None and hi is None:
        lo, hi = _partitioned(column)
    lo, hi = (_number(end) if kind in ("integer", "number") else end for end in (lo, hi))
    why = computed(both, lo, hi, values)
    if kind == "integer":
        lo, hi = (FROM.get(base) if lo is None else lo), (UP_TO.get(base) if hi is None else hi)
        lo, hi = _inside(both, "minExclusive", lo, 1), _inside(both, "maxExclusive", hi, -1)
    format = _strptime(pattern) if kind in ("date", "datetime") and pattern else ""
    return entry(kind, lo, hi, values, label=label, unit=str(_own(column, "unitText", "unit") or ""), format=format, computed=why)


def bare_type(said: Any) -> str:
    """The name of a type of CSVW without its prefix."""
    return str(said).rsplit(":", 1)[-1].rsplit("#", 1)[-1]


def _first(said: Mapping[str, Any], *keys: str) -> Any:
    return next((said[key] for key in keys if said.get(key) is not None), None)


def _inside(said: Mapping[str, Any], key: str, end: Any, step: int) -> Any:
    return end + step if end is not None and said.get(key) is not None else end


def _number(said: Any) -> Any:
    """Numbers may be written as text."""
    if isinstance(said, str):
        try:
            return float(said) if re.search(r"[.eE]", said) else int(said)
        except ValueError:
            return None
    return said


def _public_values(column: Mapping[str, Any]) -> Iterator[Any]:
    """Values that csvw-safe declares: a list of keys, or partitions of one value each."""
    for one in _own(column, "keyValues", "publicKeys", "publicPartitions", "partitions") or ():
        if not isinstance(one, Mapping):
            yield one
            continue
        predicate = _own(one, "predicate")
        value = _own(predicate if isinstance(predicate, Mapping) else one, "partitionValue")
        if value is not None:
            yield value


def _partitioned(column: Mapping[str, Any]) -> tuple[Any, Any]:
    """The ends of intervals that csvw-safe declares."""
    parts = [one for one in _own(column, "publicPartitions", "partitions") or () if isinstance(one, Mapping)]
    nodes = [p if isinstance(p := _own(one, "predicate"), Mapping) else one for one in parts]
    ends = [[_own(node, end) for node in nodes if _own(node, end) is not None] for end in ("lowerBound", "upperBound")]
    return (min(ends[0]) if ends[0] else None), (max(ends[1]) if ends[1] else None)


def _alternatives(kind: str, pattern: Any) -> list[Any] | None:
    """Words that a format lists: of a boolean the word for true, then the one for false."""
    if not isinstance(pattern, str) or kind not in ("boolean", "text"):
        return None
    words = pattern.removeprefix("^").removesuffix("$").strip("()").split("|")
    if len(words) < 2 or not all(re.fullmatch(r"[\w \-]+", word) for word in words):
        return None
    return words[::-1] if kind == "boolean" else words


def _strptime(pattern: Any) -> str:
    made = str(pattern)
    for theirs, ours in PATTERNS:
        made = re.sub(rf"(?<![%A-Za-z]){theirs}(?![A-Za-z])", ours, made)
    return OPEN if re.search(r"(?<!%)[A-SU-Za-z]", made) else made


def exported(schema: Mapping[str, Feature]) -> dict[str, Any]:
    """A schema as CSVW; values of categories as csvw-safe has them."""
    described = []
    for name, feature in schema.items():
        column: dict[str, Any] = {"name": name}
        if feature.label:
            column["titles"] = feature.label
        if feature.unit:
            column["schema:unitText"] = feature.unit
        described.append({**column, **_exported_type(feature)})
    context = ["http://www.w3.org/ns/csvw", {"csvw-safe": "https://w3id.org/csvw-safe#", "schema": "https://schema.org/"}]
    return {"@context": context, "@type": "Table", "tableSchema": {"columns": described}}


def _exported_type(feature: Feature) -> dict[str, Any]:
    base = kind_of_column(feature).replace("text", "string")
    if not isinstance(feature, Category):
        return {"datatype": {"base": base, "minimum": feature.value_at(feature.lo), "maximum": feature.value_at(feature.hi)}}
    return {"datatype": base} | ({} if base == "boolean" else {"csvw-safe:keyValues": list(feature.values)})
