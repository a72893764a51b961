"""The commands about schemas: drafts to be filled in, and other formats."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal

import typer

from ..errors import SchemaError

app = typer.Typer(help="Draft a schema, or turn it into another format.", no_args_is_help=True)

Output = Annotated[Path | None, typer.Option("--output", "-o", help="The file to write; printed without.", show_default=False)]


@app.command()
def draft(
    source: Annotated[
        Path,
        typer.Argument(help="A Parquet or CSV file, or a description in CSVW, Frictionless or Croissant.", show_default=False),
    ],
    output: Output = None,
) -> None:
    """Write a schema to be filled in, from names and types of columns alone. No cell is read."""
    from ..public.schema import Schema

    made = Schema.draft(source)
    if output is None:
        typer.echo(made.text, nl=False)
        return
    _refuse_existing(output)
    made.save(output)
    typer.echo(f"{output}: {len(made.entries)} columns, {len(made.left)} of them to be declared")


@app.command()
def convert(
    source: Annotated[
        Path, typer.Argument(help="A schema file, or a description in CSVW, Frictionless or Croissant.", show_default=False)
    ],
    to: Annotated[Literal["pellucid", "csvw", "frictionless", "croissant"], typer.Option(help="The format.")] = "pellucid",
    table: Annotated[str | None, typer.Option(help="Which table, where several are described.", show_default=False)] = None,
    output: Output = None,
) -> None:
    """Turn a schema into another format. Bounds that say that they were computed from data are refused."""
    from ..public.schema import Schema

    schema = Schema.read(source, table)
    if output is not None:
        _refuse_existing(output)
    if to != "pellucid":
        text = json.dumps(getattr(schema, f"to_{to}")(), indent=2, ensure_ascii=False) + "\n"
    elif output is not None:
        schema.save(output)
        return
    else:
        import yaml

        text = yaml.safe_dump(schema.to_dict(), sort_keys=False, allow_unicode=True)
    if output is None:
        typer.echo(text, nl=False)
    else:
        output.write_text(text, encoding="utf-8")


def _refuse_existing(output: Path) -> None:
    if output.exists():
        raise SchemaError(f"{output} is there already; choose another name, or remove it first.")
