"""Which engine reads a table."""

from __future__ import annotations

from typing import Any

from ..public.schema import Relation, Schema, Unit
from .local import LocalEngine
from .processes import ProcessEngine, checked_workers


def open_engine(data: Any, schema: Schema, relation: Relation, unit: Unit, workers: int | None = None) -> LocalEngine:
    """The engine for this table: with `workers`, so many processes read it side by side."""
    if workers is None or checked_workers(workers) == 1:
        return LocalEngine(data, schema, relation, unit)
    return ProcessEngine(data, schema, relation, unit, workers=workers)
