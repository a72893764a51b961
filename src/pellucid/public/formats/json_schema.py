"""JSON Schema of one record, and pydantic models, which are read by it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..drafts import Entries, entry, limits
from .observed import computed

NAME = "pydantic"
KINDS = {"integer": "integer", "number": "number", "boolean": "boolean", "string": "text"}
FORMATS = {"date": "date", "date-time": "datetime"}


def recognised(content: Any) -> Entries | None:
    """The fields of a pydantic model or of a JSON Schema of one record; None for anything else."""
    own: dict[str, tuple[Any, Any]] = {}
    if hasattr(content, "model_json_schema") and hasattr(content, "model_fields"):
        own = {field.alias or name: _annotated(field.metadata) for name, field in content.model_fields.items()}
        content = content.model_json_schema()
    if not isinstance(content, Mapping) or not isinstance(content.get("properties"), Mapping) or "features" in content:
        return None
    shared = content.get("$defs") or content.get("definitions") or {}
    listed = content["properties"].items()
    return {str(name): _property(str(name), said, shared, own.get(name, (None, None))) for name, said in listed}


def _annotated(metadata: Any) -> tuple[Any, Any]:
    """Bounds of a field of pydantic, which JSON Schema does not have for dates."""
    ends: list[Any] = [None, None]
    for one in metadata:
        for place, names in enumerate((("ge", "gt"), ("le", "lt"))):
            for name in names:
                ends[place] = ends[place] if getattr(one, name, None) is None else getattr(one, name)
    return ends[0], ends[1]


def _property(name: str, said: Mapping[str, Any], shared: Mapping[str, Any], annotated: tuple[Any, Any]) -> Any:
    said = _resolved(said, shared)
    kind = FORMATS.get(str(said.get("format", "")), KINDS.get(str(said.get("type", ""))))
    lo, hi = limits(said, kind)
    if kind in ("date", "datetime"):
        lo, hi = (end if end is None else end.isoformat() for end in annotated)
    values = said.get("enum") or ([said["const"]] if "const" in said else None)
    title = str(said.get("title", ""))
    plain = title.casefold() == name.replace("_", " ").casefold()
    listed = [value for value in values or () if value is not None]
    words = {"label": "" if plain else title, "unit": str(said.get("unit", ""))}
    return entry(kind, lo, hi, listed, computed=computed(said, lo, hi, listed), **words)


def _resolved(said: Mapping[str, Any], shared: Mapping[str, Any]) -> dict[str, Any]:
    """A property with what it refers to, and without its being optional."""
    made = dict(said)
    for key in ("anyOf", "oneOf", "allOf"):
        choices = [one for one in made.pop(key, ()) if one.get("type") != "null"]
        if len(choices) == 1:
            made = {**choices[0], **made}
    if "$ref" in made:
        target = shared.get(str(made.pop("$ref")).rsplit("/", 1)[-1], {})
        made = {**{key: value for key, value in target.items() if key != "title"}, **made}
    if isinstance(made.get("type"), list):
        made["type"] = next((kind for kind in made["type"] if kind != "null"), "")
    return made
