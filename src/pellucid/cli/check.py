"""The command that counts cells which are not as declared. Its output is exact: for the owner of the data alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from ..errors import LoadError, PlanError
from .options import AsJson, OnSpark

app = typer.Typer()


@app.command()
def check(
    study: Annotated[Path, typer.Argument(help="The study whose table is checked against its schema.", show_default=False)],
    spark: OnSpark = None,
    as_json: AsJson = False,
) -> None:
    """Count cells that are not as the schema declares and rows that the unit leaves out, for the owner of the data.

    NOT PRIVATE: the numbers are exact. Do not publish what it prints or pass it on. Opens no account, loads no model
    and charges nothing.
    """
    from ..engine import open_engine
    from ..engine.check import WARNING
    from ..public.schema import read_structured
    from .study import _schema, _unit, data_of, opened_data

    content = read_structured(study, "study")
    if not isinstance(content, Mapping):
        raise LoadError(f"{study.name}: a study is a mapping with data:, schema:, budget: and releases:.")
    if "data" not in content:
        raise PlanError(f"{study.name}: 'data:' is missing.")
    folder = study.resolve().parent
    schema, unit = _schema(study.name, content, folder), _unit(study.name, content)
    data = opened_data(data_of(study.name, content["data"], folder), spark)
    found = open_engine(data, schema, "replace", unit).check()
    if as_json:
        typer.echo(WARNING, err=True)
    typer.echo(json.dumps(found.to_dict(), ensure_ascii=False) if as_json else str(found))
