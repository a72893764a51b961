"""What several commands share."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")]

OnSpark = Annotated[
    str | None,
    typer.Option("--spark", help="Read the table with Apache Spark, here ('local[4]') or on a cluster ('spark://…', 'sc://…')."),
]

InPart = Annotated[
    list[str] | None,
    typer.Option(
        "--where", help="Only a part of the table: region=north, region=north,east or age=18:40; may be given several times."
    ),
]


def console() -> Console:
    from rich.console import Console

    return Console(soft_wrap=True, width=None if sys.stdout.isatty() else 200)
