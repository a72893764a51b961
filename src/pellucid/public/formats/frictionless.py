"""Frictionless: a Table Schema, a Data Resource with one, or a Data Package."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ...errors import SchemaError
from ..columns import Category, Feature
from ..dates import Date, Datetime
from ..drafts import Entries, entry, kind_of_column, limits
from .observed import computed

if TYPE_CHECKING:
    from ..schema import Schema

NAME = "Frictionless"
KINDS = {"integer": "integer", "year": "integer", "number": "number", "boolean": "boolean", "string": "text", "any": None}


def columns(content: Mapping[str, Any], table: str | None) -> Entries | None:
    """The columns of a description by Frictionless; None for any other one."""
    resources = content.get("resources")
    if isinstance(resources, list):
        named = {str(one.get("name", number)): one for number, one in enumerate(resources, 1) if "schema" in one}
        if table is None and len(named) == 1:
            (table,) = named
        if table not in named:
            raise SchemaError(f"Frictionless: {len(named)} tables are described; say which with table=, of {sorted(named)!r}.")
        content = named[table]
    schema = content.get("schema", content)
    if not isinstance(schema, Mapping) or not isinstance(schema.get("fields"), list):
        return None
    statistics = {key: content[key] for key in ("stats", "statistics") if key in content}
    return {str(field["name"]): _field(field, statistics) for field in schema["fields"] if "name" in field}


def _field(field: Mapping[str, Any], beside: Mapping[str, Any]) -> Any:
    said, rules, name = str(field.get("type", "any")), field.get("constraints") or {}, str(field["name"])
    kind = said if said in ("date", "datetime") else KINDS.get(said, "text")
    lo, hi = limits(rules, kind)
    of_field = {key: value for key, value in beside.items() if name in str(value)}
    listed = field.get("categories") or rules.get("enum") or ()
    values = [one["value"] if isinstance(one, Mapping) else one for one in listed]
    if kind == "boolean" and {"trueValues", "falseValues"} & set(field):
        values = [*field.get("falseValues", ["false"])[:1], *field.get("trueValues", ["true"])[:1]]
    pattern = str(field.get("format", ""))
    return entry(
        kind,
        lo,
        hi,
        values,
        ordered=bool(values and field.get("categoriesOrdered")),
        label=str(field.get("title", "")),
        unit=str(field.get("unit", "")),
        format=pattern if kind in ("date", "datetime") and "%" in pattern else "",
        computed=computed({**of_field, **field, **rules}, lo, hi, listed),
    )


def exported(schema: Schema) -> dict[str, Any]:
    """A schema as a Table Schema."""
    profile = "https://datapackage.org/profiles/2.0/tableschema.json"
    made: dict[str, Any] = {"$schema": profile, "fields": [_exported(*f) for f in schema.items()]}
    return {**made, "groups": schema.groups.plain()} if schema.groups else made


def _exported(name: str, feature: Feature) -> dict[str, Any]:
    kind = kind_of_column(feature)
    field: dict[str, Any] = {"name": name, "type": "string" if kind == "text" else kind}
    if not isinstance(feature, Category):
        field["constraints"] = {"minimum": feature.value_at(feature.lo), "maximum": feature.value_at(feature.hi)}
        if isinstance(feature, Date | Datetime) and feature.format:
            field["format"] = feature.format
    elif kind != "boolean":
        field |= {"categories": list(feature.values), "constraints": {"enum": list(feature.values)}}
        if feature.ordered:
            field["categoriesOrdered"] = True
    words = (("title", feature.label), ("unit", feature.unit), ("description", feature.source))
    return field | {key: value for key, value in words if value}
