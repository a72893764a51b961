"""Schemas in other formats: CSVW, Frictionless, Croissant, JSON Schema, and models of pandera and pydantic.

Each reader turns what a format says of columns into the entries of a schema file; what it does not say stays open. Bounds that
say of themselves that they were computed from data are refused, and statistics of the data are never taken for bounds.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...errors import LoadError, SchemaError
from ..drafts import Entries
from . import croissant, csvw, frictionless, json_schema, pandera_models

KNOWN = "CSVW, Frictionless, Croissant, JSON Schema, a pandera schema or a pydantic model"


def describes(source: Any) -> bool:
    """Whether it is a description of columns, and not a table or a list of names."""
    if any(form.recognised(source) is not None for form in (pandera_models, json_schema)):
        return True
    keys = {"features", "fields", "schema", "resources", "tableSchema", "tables", "recordSet", "cr:recordSet"}
    return isinstance(source, Mapping) and any(isinstance(source.get(key), Mapping | list) for key in keys)


def entries_of(source: Any, table: str | None = None) -> Entries:
    """The columns that a file, a mapping or a model describes, as the entries of a schema file."""
    content, origin = source, ""
    if isinstance(source, str | Path):
        from ..schema import read_structured

        try:
            content, origin = read_structured(source, "schema"), Path(source).name
        except LoadError as error:
            raise SchemaError(str(error)) from None
    for form in (pandera_models, json_schema):
        if (read := form.recognised(content)) is not None:
            return _with_source(read, origin or form.NAME)
    if not isinstance(content, Mapping):
        raise SchemaError(f"{origin or type(source).__name__!r} describes no columns; give {KNOWN}, or a schema file.")
    if isinstance(content.get("features"), Mapping):
        return {str(name): said for name, said in content["features"].items()}
    for reader in (csvw, croissant, frictionless):
        found = reader.columns(content, table)
        if found is not None:
            return _with_source(found, f"{reader.NAME} {origin}".strip())
    raise SchemaError(f"{origin or 'the mapping'} describes no columns that are known here; give {KNOWN}, or a schema file.")


def groups_in(source: Any) -> Mapping[str, Any]:
    """The groups of columns that a schema file has, or a Table Schema that was exported here; no other format knows any."""
    content = source
    if isinstance(source, str | Path):
        from ..schema import read_structured

        content = read_structured(source, "schema")
    found = content.get("groups") if isinstance(content, Mapping) and {"features", "fields"} & set(content) else None
    return found if isinstance(found, Mapping) else {}


def _with_source(entries: Entries, origin: str) -> Entries:
    """Certificates say where bounds come from."""
    return {name: {"source": origin, **said} if isinstance(said, Mapping) else said for name, said in entries.items()}
