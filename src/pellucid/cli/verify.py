"""The command that compares a saved result with the ledger that it was paid from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .options import AsJson

if TYPE_CHECKING:
    from ..ledger import Entry, Ledger

app = typer.Typer()

MOVES = ("total",)
"""What a replayed certificate may say anew: how the account stands by then."""


@app.command()
def verify(
    result: Annotated[Path, typer.Argument(help="A saved result, as save() wrote it.", show_default=False)],
    ledger: Annotated[Path, typer.Option(help="The ledger it was paid from, for example study.db.", show_default=False)],
    as_json: AsJson = False,
) -> None:
    """Whether a saved result is what was released: its charge, its certificate and every number, against the ledger."""
    from ..errors import LoadError
    from ..release.explanation import saved
    from .ledgers import _open_ledger

    try:
        body = saved(result.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        raise LoadError(f"{str(result)!r} cannot be read; give the path of a file written by save().") from None
    with _open_ledger(ledger) as opened:
        chain = opened.verify()
        faults = [f"the ledger does not verify: {chain.message}"] if not chain.ok else differences(body, opened)
    if as_json:
        typer.echo(json.dumps({"ok": not faults, "faults": faults}, ensure_ascii=False))
    elif faults:
        typer.echo("\n".join(f"does NOT verify: {fault}" for fault in faults))
    else:
        typer.echo(f"verifies: {result.name} is what entry {body['certificate']['entry'][:16]}… of {ledger.name} released")
    if faults:
        raise typer.Exit(1)


def differences(body: dict[str, Any], ledger: Ledger) -> list[str]:
    """What a saved result says otherwise than the ledger, in words; nothing where it says the same."""
    certificate = body.get("certificate") or {}
    entry = certificate.get("entry")
    if not entry:
        return ["it has no ledger entry of its own: nothing was charged for it, or its certificate was taken off"]
    paid = next((one for one in ledger.history() if one.hash == entry and one.kind == "reserve"), None)
    if paid is None:
        return [f"the ledger has no charge {entry[:16]}…: it is another ledger, or the certificate was edited"]
    stored = _stored(ledger, paid, body)
    if stored is None:
        return ["the ledger has the charge, and no release of it: it was stopped, or is still waiting to be stored"]
    found = [
        f"it says {name} = {_said(body.get(name))}, and {_said(stored.get(name))} was released"
        for name in ("format", "kind")
        if body.get(name) != stored.get(name)
    ]
    ours, theirs = body.get("content") or {}, stored.get("content") or {}
    found += [f"{name} differs from what was released" for name in sorted({*ours, *theirs}) if ours.get(name) != theirs.get(name)]
    said = stored.get("certificate") or {}
    return found + [
        f"the certificate says {name} = {_said(certificate.get(name))}, and {_said(said.get(name))} was certified"
        for name in sorted({*certificate, *said} - {*MOVES})
        if certificate.get(name) != said.get(name)
    ]


def _stored(ledger: Ledger, paid: Entry, body: dict[str, Any]) -> dict[str, Any] | None:
    """The released text of a charge. One charge may have paid for several answers of a stream: then the one that is most like."""
    released: list[dict[str, Any]] = [json.loads(text) for text in ledger.texts(paid.account)]
    own = [one for one in released if (one.get("certificate") or {}).get("entry") == paid.hash]
    return next((one for one in own if one.get("content") == body.get("content")), own[0] if own else None)


def _said(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:59]}…"
