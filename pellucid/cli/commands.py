"""The command line: demo, explain, preview, ledger. Errors are one line on stderr with the fix, never a traceback."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ..errors import PellucidError

app = typer.Typer(
    name="pellucid",
    help="Explanations of machine-learning models about people, released under differential privacy.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
ledger_app = typer.Typer(help="Look into a ledger, check its chain, raise a budget.", no_args_is_help=True)
app.add_typer(ledger_app, name="ledger")

StudyFile = Annotated[
    Path, typer.Argument(help="The study: data, schema, models and releases, as YAML or JSON.", show_default=False)
]
LedgerFile = Annotated[Path, typer.Argument(help="The ledger file, for example study.db.", show_default=False)]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")]


def _console() -> Console:
    return Console(soft_wrap=True, width=None if sys.stdout.isatty() else 200)


@app.command()
def demo(
    output: Annotated[Path, typer.Option(help="Folder for the pictures, the page and the ledger.")] = Path("demo-output"),
) -> None:
    """Train a model on a real health table and release three explanations of it."""
    from .demo import run

    run(output, _console())


@app.command()
def preview(study: StudyFile, as_json: AsJson = False) -> None:
    """The error to expect from every release of a study. Touches no data, charges nothing."""
    from .study import Study

    opened = Study.load(study)
    previews = [(r.title, opened.session.preview(r.explainer, **r.cost)) for r in opened.releases]
    if as_json:
        typer.echo(json.dumps([{"title": title, **p.to_dict()} for title, p in previews], ensure_ascii=False))
        return
    for title, p in previews:
        typer.echo(f"{title}\n{p}\n")
    typer.echo(f"left on the account: {opened.session.remaining}")


@app.command()
def explain(
    study: StudyFile,
    output: Annotated[
        Path | None, typer.Option(help="Folder for the results; default: output: of the study, or results/.")
    ] = None,
    by: Annotated[str, typer.Option(help="Who asks; written to the ledger.")] = "",
    purpose: Annotated[str, typer.Option(help="What for; written to the ledger.")] = "",
    pictures: Annotated[bool, typer.Option(help="Write PNG pictures and one HTML page.")] = True,
    as_json: AsJson = False,
) -> None:
    """Release everything a study lists: JSON, pictures and one HTML page. Identical requests are free."""
    from .study import Study

    opened = Study.load(study)
    session = opened.session
    left = float(session.remaining)
    for release in opened.releases:
        left -= float(session.charge_for(release.explainer, **release.cost))
        if left < -1e-9:
            raise PellucidError(
                f"the account cannot pay for the whole study: it would stop at {release.title!r}; left is {session.remaining}. "
                "Lower the shares or raise the budget (`pellucid ledger raise`). Nothing was charged."
            )
    folder = output or opened.output
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        raise PellucidError(
            f"the folder {str(folder)!r} cannot be written; choose another with --output. Nothing was charged."
        ) from None
    released = []
    for release in opened.releases:
        explanation = session.release(release.explainer, by=by, purpose=purpose, **release.cost)
        explanation.save(folder / f"{release.slug}.json")
        released.append((release.title, explanation))
        if pictures:
            from . import report

            (folder / f"{release.slug}.png").write_bytes(report.picture(explanation, release.title))
        if not as_json:
            typer.echo(f"{release.title}: released, left {session.remaining}")
    if pictures:
        report.write(folder / "report.html", released, session.name, (session.spent, session.whole))
    if as_json:
        typer.echo(json.dumps([{"title": title, **json.loads(e.to_json())} for title, e in released], ensure_ascii=False))
    else:
        typer.echo(f"written to {folder}")


@app.command()
def sensitivity(
    formula: Annotated[
        str, typer.Argument(help="A formula of attributes, for example 'a**2 + exp(2*b - a)'.", show_default=False)
    ],
    ranges: Annotated[
        list[str],
        typer.Option("--range", help="The public range of an attribute: name=lo:hi; once per attribute.", show_default=False),
    ],
    mean_of: Annotated[int | None, typer.Option(help="The mean over this public number of records instead of the sum.")] = None,
    at: Annotated[
        list[str] | None, typer.Option(help="Shares and gradient at this point: name=value; once per attribute.")
    ] = None,
    seconds: Annotated[float, typer.Option(help="Time limit of each search for a supremum.")] = 10.0,
    picture: Annotated[Path | None, typer.Option(help="Write a PNG picture of the partial sensitivity here.")] = None,
    as_json: AsJson = False,
) -> None:
    """How far one person can move a query, certified under each relation, and which attribute drives it. Needs no data."""
    from ..sensitivity import partial

    box = {name: _two_numbers(name, text) for name, text in (_named(r, "range", "a=1:2") for r in ranges)}
    found = partial(formula, box, mean_of=mean_of, seconds=seconds)
    point = {name: _number(name, text) for name, text in (_named(a, "at", "a=1.5") for a in at or [])}
    numbers = {c.relation: c for c in (found.metric, found.add_remove, found.replace)}
    if picture is not None:
        from .report import picture as png

        picture.write_bytes(png(found))
    if as_json:
        body: dict[str, Any] = {
            name: {"upper": float(c), "lower": c.lower, "converged": c.converged, "valid_for": c.text}
            for name, c in numbers.items()
        }
        if point:
            body["at"] = {
                "share": dict(zip(found.attributes, found.share(point).tolist())),
                "gradient": dict(zip(found.attributes, found.gradient(point).tolist())),
            }
        typer.echo(json.dumps(body, ensure_ascii=False))
        return
    typer.echo(found.text)
    if point:
        for name, share, gradient in zip(found.attributes, found.share(point), found.gradient(point)):
            typer.echo(f"  {name}: share {share:.4g}, gradient {gradient:.4g}")


@app.command()
def bars(
    output: Annotated[Path, typer.Option(help="Folder for the pictures, the numbers and the summary.")] = Path("bars-output"),
    seed: Annotated[int, typer.Option(help="Seed of the made-up images and of the training.")] = 7,
) -> None:
    """Partial sensitivity of a small network's pixels under SGD and DP-SGD, on made-up images, with controls."""
    typer.echo(_benchmark("network_bars").bars_study(output, seed=seed).text)
    typer.echo(f"written to {output}")


def _benchmark(name: str) -> Any:
    """A study that is part of the sources and not of the installed package."""
    folder = Path(__file__).resolve().parents[2] / "benchmarks"
    if not (folder / name).is_dir():
        raise PellucidError(
            "this study is not installed with the package: get Pellucid's sources, run `pip install -e '.[plots]'` in them, "
            "and call the command again."
        )
    sys.path.append(str(folder))
    return importlib.import_module(name)


def _named(given: str, option: str, example: str) -> tuple[str, str]:
    name, sign, text = given.partition("=")
    if not (sign and name.strip() and text.strip()):
        raise PellucidError(f"--{option} {given!r}: write it as {example}.")
    return name.strip(), text.strip()


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise PellucidError(f"{text!r} is not a number for {name!r}.") from None


def _two_numbers(name: str, text: str) -> tuple[float, float]:
    low, sign, high = text.partition(":")
    if not sign:
        raise PellucidError(f"--range {name}={text}: give two numbers, for example {name}=1:2.")
    return _number(name, low), _number(name, high)


@ledger_app.command("show")
def ledger_show(
    file: LedgerFile,
    account: Annotated[str | None, typer.Option(help="Only this account.")] = None,
    as_json: AsJson = False,
) -> None:
    """Accounts, what is left on them, and every entry: who, why, when and for how much."""
    from ..ledger import SCALE

    ledger = _open_ledger(file)
    accounts = [ledger.account(account)] if account else ledger.accounts()
    entries = ledger.history(account)
    if as_json:
        typer.echo(json.dumps({"accounts": [_account_dict(a) for a in accounts], "entries": [_entry_dict(e) for e in entries]}))
        return
    console = _console()
    for a in accounts:
        mark = "" if a.bounded else "  [red]NOT BOUNDED: something not private was released[/]"
        console.print(
            f"[bold]{escape(a.name)}[/]: {a.currency} spent {a.spent / SCALE:.6g} of {a.budget / SCALE:.6g}, "
            f"left {a.remaining / SCALE:.6g}; {a.relation}; unit: {escape(a.unit)}{mark}",
            highlight=False,
        )
    table = Table("no.", "day", "account", "what", "amount", "by", "purpose", "hash", box=None, header_style="bold")
    for e in entries:
        amount = f"{e.amount / SCALE:.6g}" if e.amount else ""
        cells = (str(e.seq), e.day, e.account, _what(e), amount, e.by, e.purpose, e.hash[:12])
        table.add_row(*(escape(cell) for cell in cells))
    console.print(table)


@ledger_app.command("verify")
def ledger_verify(file: LedgerFile, as_json: AsJson = False) -> None:
    """Recount the whole file: hashes, order, totals and released texts."""
    result = _open_ledger(file).verify()
    if as_json:
        typer.echo(json.dumps({"ok": result.ok, "entries": result.entries, "first_bad": result.first_bad, "head": result.head}))
    else:
        typer.echo(f"{result.entries} entries verify; head {result.head}" if result.ok else f"does NOT verify: {result.message}")
    if not result.ok:
        raise typer.Exit(1)


@ledger_app.command("raise")
def ledger_raise(
    file: LedgerFile,
    account: Annotated[str, typer.Argument(help="The account whose budget is raised.", show_default=False)],
    epsilon: Annotated[float, typer.Option(help="The new, larger ε of the whole budget (δ stays as it is).", show_default=False)],
    by: Annotated[str, typer.Option(help="Who decides it.", show_default=False)],
    purpose: Annotated[str, typer.Option(help="Why.", show_default=False)],
) -> None:
    """Raise a budget, as an explicit entry of the chain. A budget is never lowered and never reset."""
    from ..ledger import SCALE, budget_units
    from ..ledger.accounting import Budget

    ledger = _open_ledger(file)
    terms = ledger.account(account)
    raised = ledger.raise_budget(account, budget_units(Budget(epsilon, float(terms.delta)).amount), by=by, purpose=purpose)
    typer.echo(
        f"{account}: the budget is now {raised.currency} = {raised.budget / SCALE:.6g}, left {raised.remaining / SCALE:.6g}"
    )


def _open_ledger(file: Path) -> Any:
    from ..errors import LedgerUnavailable
    from ..ledger import Ledger

    if not file.is_file():
        raise LedgerUnavailable(f"there is no ledger {str(file)!r}; give the path of the file a session was opened with.")
    return Ledger(file)


def _what(entry: Any) -> str:
    if entry.kind != "reserve":
        return entry.kind
    try:
        request = json.loads(entry.request)
        return f"{request['explainer']} {', '.join(request.get('features', []))}".strip()
    except (ValueError, KeyError, TypeError):
        return entry.kind


def _account_dict(account: Any) -> dict[str, Any]:
    from ..ledger import SCALE

    return {
        "name": account.name,
        "currency": account.currency,
        "delta": account.delta,
        "relation": account.relation,
        "unit": account.unit,
        "budget": account.budget / SCALE,
        "spent": account.spent / SCALE,
        "remaining": account.remaining / SCALE,
        "bounded": account.bounded,
    }


def _entry_dict(entry: Any) -> dict[str, Any]:
    from ..ledger import SCALE

    names = ("seq", "account", "kind", "refers_to", "by", "purpose", "day", "request", "key", "previous", "hash")
    return {**{name: getattr(entry, name) for name in names}, "amount": entry.amount / SCALE}


def main() -> None:
    """Entry point: expected errors become one line, unexpected ones say only what kind they are."""
    try:
        app(standalone_mode=False)
    except PellucidError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(1)
    except typer.Exit as stop:
        sys.exit(stop.exit_code)
    except typer.Abort:
        typer.echo("stopped; what was paid for stays paid", err=True)
        sys.exit(130)
    except KeyboardInterrupt:
        typer.echo("stopped; what was paid for stays paid", err=True)
        sys.exit(130)
    except Exception as error:
        if hasattr(error, "format_message"):  # wrong usage of the command line itself
            typer.echo(f"error: {error.format_message()}", err=True)
            sys.exit(2)
        typer.echo(
            f"error: something unexpected happened ({type(error).__name__}); details are withheld because they may quote data.",
            err=True,
        )
        sys.exit(3)
