"""Exact totals over a table: the only room that sees rows.

protocol    what an engine is; how to add one: docs/contributing-engine.md
local       the engine for tables in memory and in Parquet files
kept        what one release keeps of the records between its stages
prepared    records kept next to an engine between questions

tables      where rows come from: Arrow in memory, Parquet files
decode      cells into declared domains, and in which condition they were
check       how many cells are not as declared, for the owner alone
units       who owns which row; pairs, couples and blocks by secret labels
kernel      from decoded rows to exact totals
shield      errors that say nothing about data

sandbox     a user's function on blocks, each in a process of its own
trial       such functions on public records, before anything is charged
progress    a bar for the owner of the process
"""

from typing import Any

from ..public.schema import Relation, Schema, Unit
from .kept import Kept
from .local import LocalEngine
from .prepared import Prepared
from .protocol import Engine
from .shield import shielded

__all__ = ["Engine", "Kept", "LocalEngine", "Prepared", "open_engine", "shielded"]


def open_engine(data: Any, schema: Schema, relation: Relation, unit: Unit) -> Engine:
    """The engine for a table, by what the table is."""
    if type(data).__module__.startswith("pyspark.sql."):
        from .spark import SparkEngine

        return SparkEngine(data, schema, relation, unit)
    return LocalEngine(data, schema, relation, unit)
