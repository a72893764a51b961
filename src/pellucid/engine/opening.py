"""Which engine reads a table."""

from __future__ import annotations

from typing import Any

from ..errors import PlanError
from ..public.schema import Relation, Schema, Unit
from .local import LocalEngine
from .processes import ProcessEngine, checked_workers
from .protocol import Engine


def open_engine(data: Any, schema: Schema, relation: Relation, unit: Unit, workers: int | None = None) -> Engine:
    """The engine for this table: Spark for a DataFrame of Spark; with `workers`, so many processes read it side by side."""
    if type(data).__module__.startswith("pyspark.sql."):
        from .spark import SparkEngine

        if workers is not None:
            raise PlanError(f"workers={workers!r}: Spark decides how many tasks read its tables; leave it out.")
        return SparkEngine(data, schema, relation, unit)
    if workers is None or checked_workers(workers) == 1:
        return LocalEngine(data, schema, relation, unit)
    return ProcessEngine(data, schema, relation, unit, workers=workers)
