"""Croissant: fields of a record set. Bounds are schema.org's minValue and maxValue, values those of an enumeration beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...errors import SchemaError
from ..columns import Category, Feature
from ..drafts import Entries, entry, kind_of, kind_of_column
from .observed import bare, computed

NAME = "Croissant"


def columns(content: Mapping[str, Any], table: str | None) -> Entries | None:
    """The fields of a description in Croissant; None for any other one."""
    sets = _get(content, "recordSet")
    if sets is None:
        return None
    listed = [one for one in (sets if isinstance(sets, list) else [sets]) if isinstance(one, Mapping)]
    named = {str(_get(one, "name") or one.get("@id", number)): one for number, one in enumerate(listed, 1) if not _inline(one)}
    if table is None and len(named) == 1:
        (table,) = named
    if table not in named:
        raise SchemaError(f"Croissant: {len(named)} record sets are described; say which with table=, one of {sorted(named)!r}.")
    fields = _list(_get(named[table], "field"))
    return {_name(field): _field(field, listed) for field in fields if isinstance(field, Mapping)}


def _get(node: Mapping[str, Any], key: str) -> Any:
    """A property with or without its prefix."""
    return next((value for known, value in node.items() if bare(known) == key.lower()), None)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _inline(one: Mapping[str, Any]) -> bool:
    """Whether a record set is an enumeration, or holds its records itself."""
    return _get(one, "data") is not None or "enumeration" in {bare(t) for t in _list(_get(one, "dataType"))}


def _name(field: Mapping[str, Any]) -> str:
    """The name of the column in the table, which may be another one than that of the field."""
    source = _get(field, "source")
    extract = _get(source, "extract") if isinstance(source, Mapping) else None
    column = _get(extract, "column") if isinstance(extract, Mapping) else None
    return str(column or _get(field, "name") or field.get("@id"))


def _field(field: Mapping[str, Any], sets: Sequence[Mapping[str, Any]]) -> Any:
    kinds = [kind_of(bare(said)) for said in _list(_get(field, "dataType"))]
    nested = _get(field, "repeated") is True or _get(field, "subField") is not None
    kind = None if nested else next((kind for kind in kinds if kind), None)
    lo, hi = _get(field, "minValue"), _get(field, "maxValue")
    own, values = str(_get(field, "name") or ""), _values(field, sets)
    return entry(
        kind,
        lo,
        hi,
        values,
        label=own if own != _name(field) else "",
        unit=str(_get(field, "unitText") or ""),
        computed=computed(field, lo, hi, values),
    )


def _values(field: Mapping[str, Any], sets: Sequence[Mapping[str, Any]]) -> list[Any]:
    """The values of the enumeration that a field refers to, where the description holds them."""
    refers = _get(field, "references")
    target = _get(refers, "field") if isinstance(refers, Mapping) else None
    place = str(target.get("@id", "") if isinstance(target, Mapping) else target or "")
    for one in sets:
        name = str(one.get("@id") or _get(one, "name"))
        if place.startswith(f"{name}/"):
            key = place.removeprefix(f"{name}/")
            found = [row.get(key, row.get(place)) for row in _list(_get(one, "data")) if isinstance(row, Mapping)]
            return [value for value in found if value is not None]
    return []


TYPES = {
    "integer": "sc:Integer",
    "number": "sc:Float",
    "boolean": "sc:Boolean",
    "text": "sc:Text",
    "date": "sc:Date",
    "datetime": "sc:DateTime",
}
CONTEXT = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "sc": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "dct": "http://purl.org/dc/terms/",
    "conformsTo": "dct:conformsTo",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "field": "cr:field",
    "key": "cr:key",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
}


def exported(schema: Mapping[str, Feature]) -> dict[str, Any]:
    """A schema as Croissant: one record set, and one for the values of each category."""
    fields, sets = [], []
    for name, feature in schema.items():
        kind = {"@type": "cr:Field", "dataType": TYPES[kind_of_column(feature)]}
        field: dict[str, Any] = {**kind, "@id": f"records/{name}", "name": name}
        if feature.unit:
            field["unitText"] = feature.unit
        if not isinstance(feature, Category):
            field |= {"minValue": feature.value_at(feature.lo), "maxValue": feature.value_at(feature.hi)}
        elif feature.values != (False, True):
            values = f"values of {name}"
            field["references"] = {"field": {"@id": f"{values}/value"}}
            own = {**kind, "@id": f"{values}/value", "name": "value"}
            rows = [{f"{values}/value": value} for value in feature.values]
            enumeration = {"@type": "cr:RecordSet", "@id": values, "name": values, "dataType": "sc:Enumeration"}
            sets.append({**enumeration, "key": {"@id": f"{values}/value"}, "field": [own], "data": rows})
        fields.append(field)
    records = {"@type": "cr:RecordSet", "@id": "records", "name": "records", "field": fields}
    described = {"@context": CONTEXT, "@type": "sc:Dataset", "conformsTo": "http://mlcommons.org/croissant/1.0"}
    return {**described, "recordSet": [records, *sets]}
