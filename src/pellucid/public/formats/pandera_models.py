"""Schemas and models of pandera: the checks of their columns."""

from __future__ import annotations

from typing import Any

from ...errors import SchemaError
from ..drafts import Entries, entry, kind_of

NAME = "pandera"


def recognised(content: Any) -> Entries | None:
    """The columns of a pandera schema or model; None for anything else."""
    if isinstance(content, type) and hasattr(content, "to_schema"):
        content = content.to_schema()
    if not type(content).__module__.startswith("pandera") or not hasattr(content, "columns"):
        return None
    if _inferred(content):
        raise SchemaError(
            "pandera: the schema looks inferred from a table (it coerces, and has an index without a name): bounds from the data "
            "are no public ones. Draft a schema with pel.Schema.draft and declare them; if you wrote it, take out the index."
        )
    return {str(name): _column(column) for name, column in content.columns.items()}


def _inferred(content: Any) -> bool:
    """Whether pandera made it from a table. It leaves no note, but coerces and has an index without a name."""
    return bool(content.coerce and content.index is not None and getattr(content.index, "name", None) is None)


def _column(column: Any) -> Any:
    kind, lo, hi, values = kind_of(column.dtype), None, None, None
    step = 1 if kind == "integer" else 0
    for check in column.checks:
        told, what = check.statistics or {}, check.name
        if what in ("greater_than_or_equal_to", "greater_than", "in_range"):
            strict = what == "greater_than" or told.get("include_min") is False
            lo = told["min_value"] + (step if strict else 0) if step else told["min_value"]
        if what in ("less_than_or_equal_to", "less_than", "in_range"):
            strict = what == "less_than" or told.get("include_max") is False
            hi = told["max_value"] - (step if strict else 0) if step else told["max_value"]
        if what == "isin":
            values = list(told["allowed_values"])
    if kind in ("date", "datetime"):
        lo, hi = (end if end is None else str(end) for end in (lo, hi))
    return entry(kind, lo, hi, values, label=str(column.title or ""))
