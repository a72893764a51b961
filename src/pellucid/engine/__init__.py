"""Exact totals over a table: the only room that sees rows.

protocol    what an engine is; how to add one: docs/contributing-engine.md
local       the engine for tables in memory and in Parquet files, read by this process
processes   the same tables, read by several processes; `worker` is their side, `payload` what travels to them
opening     which of them reads a table
kept        what one release keeps of the records between its stages
prepared    records kept next to an engine between questions

tables      where rows come from: Arrow in memory, Parquet files
decode      cells into declared domains, and in which condition they were
check       how many cells are not as declared, for the owner alone
ids         ids of people as secret labels
units       who owns which row
orders      rows that stay, pairs, couples and blocks, by secret labels
spill       rows by bucket of labels in files without a name; `shuffled` for pairs and blocks that do not fit into memory
part        the rows of a part of a table, as a table
kernel      from cells to exact totals
shield      errors that say nothing about data

sandbox     a user's function on blocks, each in a process of its own
trial       such functions on public records, before anything is charged
progress    a bar for the owner of the process
"""

from .kept import Kept
from .local import LocalEngine
from .opening import open_engine
from .part import PartEngine
from .prepared import Prepared
from .processes import ProcessEngine
from .protocol import Engine
from .shield import shielded

__all__ = ["Engine", "Kept", "LocalEngine", "PartEngine", "Prepared", "ProcessEngine", "open_engine", "shielded"]
