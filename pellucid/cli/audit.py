"""The command that measures the privacy that releases promise, on public records."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from .options import AsJson

app = typer.Typer()


@app.command()
def audit(
    names: Annotated[
        list[str] | None, typer.Argument(help="Releases to audit, by a part of their names; all if left out.", show_default=False)
    ] = None,
    fast: Annotated[bool, typer.Option("--fast", help="Fewer releases of each: some minutes in all.")] = False,
    workers: Annotated[int, typer.Option(help="Processes side by side; as many as there are processors if left out.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Play the distinguishing game against every release, and check what no game sees. Uses made-up records only.

    A measured ε above the claimed one refutes the claim; one below it proves nothing: see `pellucid proof`. Ends with 1 if
    anything is broken.
    """
    from ..audit.run import audit as run

    def told(name: str, done: int, of: int) -> None:
        if sys.stderr.isatty():
            typer.echo(f"\r{done}/{of} {name}\033[K", err=True, nl=False)

    report = run(names or (), fast=fast, workers=workers, told=told)
    if sys.stderr.isatty():
        typer.echo("\r\033[K", err=True, nl=False)
    typer.echo(json.dumps(report.to_list(), ensure_ascii=False) if as_json else str(report))
    if not report.holds:
        raise typer.Exit(1)
