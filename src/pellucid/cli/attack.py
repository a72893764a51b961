"""The command that attacks explanations of made-up people: without noise, as published, and ours."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import PellucidError
from .options import AsJson, console

if TYPE_CHECKING:
    from ..audit.attacks import Attack, Outcome

app = typer.Typer()


@app.command()
def attack(
    names: Annotated[list[str] | None, typer.Argument(help="Which attacks; left out, all of them.", show_default=False)] = None,
    fast: Annotated[bool, typer.Option("--fast", help="Fewer tables: half a minute instead of three, wider intervals.")] = False,
    plot: Annotated[Path | None, typer.Option(help="Write one PNG picture of everything here.", show_default=False)] = None,
    as_json: AsJson = False,
) -> None:
    """What an attacker gets from an explanation without noise, from the published mechanism and from ours.

    Every table is made up, every release of ours goes through a session with the noise that everybody gets.
    """
    from ..audit.attacks import find

    chosen = find(names or [])
    if plot is not None:
        _check_picture(plot)
    outcomes = _run(chosen, fast)
    if plot is not None:
        _draw(outcomes, plot)
    if as_json:
        typer.echo(json.dumps([outcome.to_dict() for outcome in outcomes], ensure_ascii=False))
    else:
        _show(chosen, outcomes)


def _run(chosen: Sequence[Attack], fast: bool) -> list[Outcome]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
    from threadpoolctl import threadpool_limits

    shown = TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}/{task.total} tables"), TimeElapsedColumn()
    outcomes = []
    # The tables are small: threads of linear algebra would only wait for each other.
    with threadpool_limits(1), Progress(*shown, console=Console(stderr=True), transient=True) as progress:
        for one in chosen:
            tables = one.few if fast else one.tables
            task = progress.add_task(one.name, total=tables)
            outcomes += one.outcomes(tables, lambda task=task: progress.advance(task))  # type: ignore[misc]
    return outcomes


def _show(chosen: Sequence[Attack], outcomes: Sequence[Outcome]) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for heading in ("attack", "against", "ε", "figure", "95 % interval", "shown nothing"):
        table.add_column(heading, justify="right" if heading in ("ε", "shown nothing") else "left", no_wrap=True)
    for one in chosen:
        table.add_section()
        mine = [outcome for outcome in outcomes if outcome.attack == one.name]
        for i, o in enumerate(mine):
            epsilon = "" if o.epsilon is None else f"{o.epsilon:g}"
            figures = f"{o.figure} {o.value:.2f}", f"{o.low:.2f} to {o.high:.2f}", f"{o.baseline:.2f}"
            table.add_row(one.name if i == 0 else "", o.against, epsilon, *figures)
    screen = console()
    for one in chosen:
        screen.print(f"{one.name}: {one.title}; shown: {one.released}", highlight=False)
    screen.print()
    screen.print(table, highlight=False)
    screen.print("\nWhat differential privacy does not stop: docs/attacks.md", highlight=False)


def _check_picture(file: Path) -> None:
    """Whether the picture can be drawn and written, before minutes go by."""
    from .report import pyplot

    pyplot()
    if file.is_dir() or not os.access(file if file.exists() else file.resolve().parent, os.W_OK):
        raise PellucidError(f"--plot {str(file)!r} cannot be written; choose a file in a folder that exists.")


def _draw(outcomes: Sequence[Outcome], file: Path) -> None:
    from ..audit.attacks.picture import draw
    from .report import pyplot

    figure = draw(outcomes)
    figure.savefig(file, format="png", dpi=85, metadata={"Software": None})
    pyplot().close(figure)
