"""Commands on a ledger: create, show, verify, copy, raise."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .options import AsJson, console

if TYPE_CHECKING:
    from ..ledger import Account, Entry, Ledger

app = typer.Typer(help="Start a ledger, look into it, check its chain, raise a budget.", no_args_is_help=True)

LedgerFile = Annotated[Path, typer.Argument(help="The ledger file, for example study.db.", show_default=False)]


@app.command("create")
def ledger_create(
    file: LedgerFile,
    account: Annotated[str, typer.Argument(help="The account to open in it: the name of a private table.", show_default=False)],
    epsilon: Annotated[float, typer.Option(help="The ε of its whole budget.", show_default=False)],
    delta: Annotated[float, typer.Option(help="The δ of its budget; above 0 it counts zCDP.")] = 0.0,
    accounting: Annotated[
        str | None, typer.Option(help="either: with a δ, pure and zCDP releases from one account.", show_default=False)
    ] = None,
    neighbors: Annotated[str, typer.Option(help="replace, or add-remove if the number of people is secret.")] = "replace",
    column: Annotated[str | None, typer.Option(help="The column that says whose a row is, if people have several.")] = None,
    max_rows: Annotated[int, typer.Option(help="How many rows of a person count.")] = 1,
) -> None:
    """Open an account for a private table, in a new ledger or in one that is there. Sessions reopen it on these terms."""
    from ..errors import LedgerError
    from ..ledger import Ledger
    from ..ledger.accounting import Budget
    from ..ledger.names import alike
    from ..public.schema import Unit, check_relation

    budget, unit = Budget(epsilon, delta, accounting), Unit(column, max_rows)  # type: ignore[arg-type]
    with Ledger(file, create=True) as ledger:
        if any(alike(known.name) == alike(account) for known in ledger.accounts()):
            raise LedgerError(
                f"account {account!r} is in ledger {file.name!r} already; `pellucid ledger show` tells how it stands."
            )
        made = ledger.open_account(account, **budget.terms, relation=check_relation(neighbors), unit=unit.text)
    typer.echo(f"{file}: account {made.name!r} with a budget of ε = {budget.epsilon:g}; keep the file, it is what was spent")


@app.command("show")
def ledger_show(
    file: LedgerFile,
    account: Annotated[str | None, typer.Option(help="Only this account.")] = None,
    as_json: AsJson = False,
) -> None:
    """Accounts, what is left on them, and every entry: who, why, when and for how much."""
    from rich.markup import escape
    from rich.table import Table

    from ..ledger import SCALE
    from ..ledger.scopes import said

    ledger = _open_ledger(file)
    waiting = ledger.waiting()
    accounts = [ledger.account(account)] if account else ledger.accounts()
    entries = ledger.history(account)
    if as_json:
        content = {
            "accounts": [{**_account_dict(a), **_parts_dict(ledger, a)} for a in accounts],
            "entries": [_entry_dict(e) for e in entries],
        }
        typer.echo(json.dumps({**content, "waiting": waiting, "unanswered": sorted(_unanswered(ledger, entries))}))
        return
    out = console()
    for a in accounts:
        mark = "" if a.bounded else "  [red]NOT BOUNDED: something not private was released[/]"
        out.print(
            f"[bold]{escape(a.name)}[/]: {_standing(a)}; {a.relation}; unit: {escape(a.unit)}{mark}",
            highlight=False,
        )
        for scope, here in ledger.parts(a.name):
            out.print(f"  where {escape(said(scope))}: {_standing(here)}", highlight=False)
    table = Table("no.", "day", "account", "what", "amount", "by", "purpose", "hash", box=None, header_style="bold")
    unanswered = _unanswered(ledger, entries)
    for e in entries:
        amount = f"{e.amount / SCALE:.6g}" if e.amount else ""
        if e.pure is not None:
            amount = f"ε {e.pure / SCALE:.6g}, or ρ {amount}"
        what = _what(e) if e.scope is None else f"{_what(e)}, where {said(e.scope)}"
        what = f"{what} ({STOPPED})" if e.seq in unanswered else what
        cells = (str(e.seq), e.day, e.account, what, amount, e.by, e.purpose, e.hash[:12])
        table.add_row(*(escape(cell) for cell in cells))
    out.print(table)
    if waiting:
        out.print(f"{waiting} released texts are kept beside the ledger and stored at its next use", highlight=False)


@app.command("verify")
def ledger_verify(file: LedgerFile, as_json: AsJson = False) -> None:
    """Recount the whole file: hashes, order, totals and released texts. An incomplete copy and an empty ledger are not fine."""
    from ..errors import LedgerCorrupt
    from ..ledger.values import VerifyResult

    try:
        result = _open_ledger(file).verify()
    except LedgerCorrupt as error:
        result = VerifyResult(False, 0, None, str(error), "")
    if as_json:
        names = ("ok", "entries", "first_bad", "head", "message")
        typer.echo(json.dumps({name: getattr(result, name) for name in names}, ensure_ascii=False))
    else:
        typer.echo(f"{result.entries} entries verify; head {result.head}" if result.ok else f"does NOT verify: {result.message}")
    if not result.ok:
        raise typer.Exit(1)


@app.command("copy")
def ledger_copy(
    file: LedgerFile,
    target: Annotated[Path, typer.Argument(help="The new file, for an archive or an auditor.", show_default=False)],
) -> None:
    """Copy a ledger as of one moment, whoever writes to it. Another program's copy may be incomplete, and says so then."""
    with _open_ledger(file) as ledger:
        ledger.copy_to(target)
    with _open_ledger(target) as copied:
        typer.echo(f"{target}: {copied.verify().message}")


@app.command("raise")
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
    from ..mechanisms import exact, rho_at_order

    ledger = _open_ledger(file)
    terms = ledger.account(account)
    budget, pure = Budget(epsilon, float(terms.delta)).amount, None
    if terms.order is not None:
        # What was counted so far was counted at the order that the account was opened with.
        budget, pure = (
            rho_at_order(exact("epsilon", epsilon), float(terms.delta), terms.order),
            budget_units(exact("epsilon", epsilon)),
        )
    raised = ledger.raise_budget(account, budget_units(budget), by=by, purpose=purpose, pure=pure)
    if raised.order is not None:
        typer.echo(f"{account}: the budget is now ε = {epsilon:g} at δ = {float(raised.delta):g}; {_standing(raised)}")
        return
    typer.echo(
        f"{account}: the budget is now {raised.currency} = {raised.budget / SCALE:.6g}, left {raised.remaining / SCALE:.6g}"
    )


def _open_ledger(file: Path) -> Ledger:
    from ..errors import LedgerUnavailable
    from ..ledger import Ledger

    if not file.is_file():
        raise LedgerUnavailable(
            f"there is no ledger {str(file)!r}; give the path of the file a session was opened with, or start one with "
            "`pellucid ledger create`."
        )
    return Ledger(file)


def _standing(account: Account) -> str:
    """What an account has spent and has left."""
    from ..ledger import SCALE, either

    rho = f"spent {account.spent / SCALE:.6g} of {account.budget / SCALE:.6g}"
    if account.order is None:
        return f"{account.currency} {rho}, left {account.remaining / SCALE:.6g}"
    spent, whole = account.pure_spent, account.pure_budget
    pure = "" if spent is None or whole is None else f"pure epsilon spent {spent / SCALE:.6g} of {whole / SCALE:.6g}, or "
    return f"{pure}rho {rho}, left {either.left(account)}"


STOPPED = "charged, nothing released: it was stopped, or is still running"
"""Said of a charge without an answer."""


def _unanswered(ledger: Ledger, entries: list[Entry]) -> set[int]:
    """The numbers of charges for which nothing was released. Steps of a stream are answered together, and are left out."""
    answered = {entry.refers_to for entry in entries if entry.kind == "commit"} | ledger.kept_beside()
    charges = (entry for entry in entries if entry.kind == "reserve" and entry.seq not in answered)
    return {entry.seq for entry in charges if '"stream"' not in entry.request}


def _what(entry: Entry) -> str:
    if entry.kind in ("table", "changed"):
        return "the table is described" if entry.kind == "table" else "the table changed"
    if entry.kind != "reserve":
        return entry.kind
    try:
        request = json.loads(entry.request)
        return f"{request['explainer']} {', '.join(request.get('features') or [])}".strip()
    except (ValueError, KeyError, TypeError):
        return entry.kind


def _account_dict(account: Account) -> dict[str, Any]:
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
        **_pure_side(account.pure_budget, account.pure_spent),
    }


def _entry_dict(entry: Entry) -> dict[str, Any]:
    from ..ledger import SCALE

    names = ("seq", "account", "kind", "refers_to", "by", "purpose", "day", "request", "key", "previous", "hash")
    pure = {} if entry.pure is None else {"pure": entry.pure / SCALE}
    part = {} if entry.scope is None else {"part": json.loads(entry.scope)}
    return {**{name: getattr(entry, name) for name in names}, "amount": entry.amount / SCALE, **pure, **part}


def _parts_dict(ledger: Ledger, account: Account) -> dict[str, Any]:
    """What was spent of each part of the table, and is left of it; nothing where all charges are for the whole table."""
    parts = [{**json.loads(scope), **_account_dict(here)} for scope, here in ledger.parts(account.name)]
    kept = ("said", "where", "spent", "remaining", "pure_spent")
    return {"parts": [{name: one[name] for name in kept if name in one} for one in parts]} if parts else {}


def _pure_side(budget: int | None, spent: int | None) -> dict[str, Any]:
    """The second sum of an account that counts either way."""
    from ..ledger import SCALE

    if budget is None:
        return {}
    return {"pure_budget": budget / SCALE, "pure_spent": None if spent is None else spent / SCALE}
