"""The command that measures the privacy that releases promise, on public records."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import PellucidError, PlanError, SchemaError
from .options import AsJson

if TYPE_CHECKING:
    from ..audit.own import Own
    from ..audit.run import Report
    from ..ledger.accounting import Budget

app = typer.Typer()

RUNS, SECONDS = 20_000, 60.0
"""Releases of each of a study's, and seconds of a processor for them, at most."""
FAST_RUNS, FAST_SECONDS = 4_000, 5.0


@app.command()
def audit(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="A study file, or releases of the catalogue by a part of their names; all if left out.", show_default=False
        ),
    ] = None,
    fast: Annotated[
        bool,
        typer.Option("--fast", help="Fewer releases of each: minutes for all of the catalogue, seconds for each of a study."),
    ] = False,
    workers: Annotated[
        int,
        typer.Option(
            help="Processes side by side, for the catalogue; as many as there are processors if left out.", show_default=False
        ),
    ] = 0,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the table for a page.")] = False,
    as_json: AsJson = False,
) -> None:
    """Play the distinguishing game against every release, and check what no game sees. Uses made-up records only.

    Of a study every release that it lists, with its models and its schema. Its data is not opened, and nothing is charged.
    Results are kept beside the study, and `pellucid explain` puts them on the certificates of the same requests.

    A measured ε above the claimed one refutes the claim; one below it, even 0, proves nothing: see docs/audit.md. Ends with 1
    if anything is broken.
    """
    if workers < 0:
        raise PlanError(f"--workers {workers}: give a number of processes, or leave it out.")
    if markdown and as_json:
        raise PlanError("--markdown and --json: give one of them.")
    report = _of_study(Path(names[0]), fast) if names and _is_study(names) else _of_catalogue(names or (), fast, workers)
    typer.echo(json.dumps(report.to_list(), ensure_ascii=False) if as_json else report.markdown if markdown else str(report))
    if not report.holds:
        raise typer.Exit(1)


def _is_study(names: Sequence[str]) -> bool:
    """Whether a file is meant, and no part of a name."""
    if not all(name.strip() for name in names):
        raise PlanError("an empty name stands for nothing: give a part of a release's name, a study file, or nothing at all.")
    files = [name for name in names if Path(name).suffix.lower() in (".yaml", ".yml", ".json") or Path(name).is_file()]
    if files and len(names) > 1:
        raise PlanError(f"{files[0]!r} is a study: audit one study at a time, without names of the catalogue.")
    return bool(files)


def _of_catalogue(names: Sequence[str], fast: bool, workers: int) -> Report:
    from ..audit.run import audit as run

    with _bar("releases") as show:
        return run(names, fast=fast, workers=workers, told=show)


def _of_study(file: Path, fast: bool) -> Report:
    from ..audit.own import CONFIDENCE, Own, check_kept, keep, tried
    from ..audit.run import Report
    from ..audit.search import World
    from ..public.schema import check_relation
    from .study import Declared

    study = Declared.load(file)
    check_kept(study.audits)
    relation, releases = check_relation(study.neighbors), []
    for release in study.releases:
        kinds = _kinds(study.budget, release.cost)
        for kind in kinds:
            spend = study.budget.price(**{**release.cost, "kind": kind})
            world = World(study.schema, relation, study.unit, spend.currency, spend.amount)
            title = release.title if len(kinds) == 1 else f"{release.title}, {kind}"
            releases.append(Own(title, release.explainer, world, study.expected_rows))
    keys = [_key(own) for own in releases]
    rows, skipped = [], []
    runs, seconds = (FAST_RUNS, FAST_SECONDS) if fast else (RUNS, SECONDS)
    with _bar("releases") as show:
        for i, (own, key) in enumerate(zip(releases, keys)):
            show(own.title, i, len(releases))
            row, why = tried(own, runs=runs, seconds=seconds)
            if row is None:
                skipped.append((own.title, why))
            else:
                rows.append(row)
                # At once: an audit that is stopped has not measured in vain.
                keep(study.audits, {key or own.key: row.stamp})
    if rows:
        typer.echo(f"kept in {study.audits.name}: `pellucid explain {file.name}` puts it on the certificates", err=True)
    return Report(tuple(rows), (), tuple(skipped), f"each at {CONFIDENCE:.0%}")


def _kinds(budget: Budget, cost: Mapping[str, Any]) -> tuple[Any, ...]:
    """As which kinds of release something may be paid for: what is left when it is asked for will decide."""
    if budget.counts != "either" or "kind" in cost:
        return (cost.get("kind"),)
    return ("zcdp",) if "rho" in cost else ("pure", "zcdp")


def _key(own: Own) -> str:
    """What the request is known by; a study that names a column which is not declared is refused before minutes go by."""
    try:
        return own.key
    except SchemaError as error:
        raise SchemaError(f"{own.title}: {error}") from None
    except PellucidError:
        return ""  # It cannot be audited, and its turn says why.


@contextlib.contextmanager
def _bar(what: str) -> Iterator[Callable[[str, int, int], None]]:
    """A progress bar on a terminal, and a line for each elsewhere: shows what is done, of how many."""
    from rich.console import Console
    from rich.progress import Progress, TextColumn, TimeElapsedColumn
    from rich.table import Column

    screen = Console(stderr=True)
    if not screen.is_terminal:
        yield lambda name, done, of: typer.echo(f"{done}/{of} {what}: {name}", err=True)
        return
    counted = TextColumn(f"{{task.fields[counted]}} {what}", table_column=Column(no_wrap=True))
    named = TextColumn("{task.description}", table_column=Column(no_wrap=True, overflow="ellipsis", ratio=1))
    with Progress(
        counted, TimeElapsedColumn(Column(no_wrap=True, min_width=7)), named, console=screen, transient=True
    ) as progress:
        task = progress.add_task("", total=None, counted="0")
        yield lambda name, done, of: progress.update(task, description=name, completed=done, total=of, counted=f"{done}/{of}")
