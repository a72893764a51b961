"""The command line. Errors are one line on stderr with the fix, never a traceback."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from ..errors import PellucidError
from . import attack, audit, check, formulas, ledgers, proofs, releases, schemas, verify

STOPPED = 130
"""What a shell calls a program that was stopped with Ctrl-C. Typer makes it an Exit of this code."""

app = typer.Typer(
    name="pellucid", no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="markdown"
)
app.add_typer(releases.app)
app.add_typer(check.app)
app.add_typer(audit.app)
app.add_typer(attack.app)
app.add_typer(formulas.app)
app.add_typer(proofs.app)
app.add_typer(schemas.app, name="schema")
app.add_typer(verify.app)
app.add_typer(ledgers.app, name="ledger")


def _show_version(wanted: bool) -> None:
    if wanted:
        from .. import __version__

        typer.echo(f"pellucid {__version__}")
        raise typer.Exit()


@app.callback()
def pellucid(
    version: Annotated[bool, typer.Option("--version", help="Print the version.", callback=_show_version, is_eager=True)] = False,
) -> None:
    """Explanations of machine-learning models about people, released under differential privacy."""


def main() -> None:
    """Entry point: expected errors become one line, unexpected ones say only what kind they are."""
    try:
        # Outside its standalone mode Typer returns the code of an Exit instead of raising it.
        if code := app(standalone_mode=False):
            if code == STOPPED:
                typer.echo("\nstopped; what was paid for stays paid", err=True)
            sys.exit(code)
    except PellucidError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(1)
    except typer.Exit as stop:
        sys.exit(stop.exit_code)
    except typer.Abort:
        typer.echo("stopped; what was paid for stays paid", err=True)
        sys.exit(STOPPED)
    except KeyboardInterrupt:
        typer.echo("stopped; what was paid for stays paid", err=True)
        sys.exit(STOPPED)
    except Exception as error:
        if hasattr(error, "format_message"):  # wrong usage of the command line itself
            # Empty where help was all that was asked for, and shown.
            if said := error.format_message():
                typer.echo(f"error: {said}", err=True)
            sys.exit(2)
        typer.echo(
            f"error: something unexpected happened ({type(error).__name__}); details are withheld because they may quote data.",
            err=True,
        )
        sys.exit(3)
