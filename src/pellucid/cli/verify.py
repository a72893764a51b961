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

PARTS = ("format", "kind", "content", "certificate")
"""What a saved result holds."""


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
    certificate = _mapping(body.get("certificate"))
    entry = certificate.get("entry")
    if not isinstance(entry, str) or not entry:
        return ["it has no ledger entry of its own: nothing was charged for it, or its certificate was taken off"]
    paid = next((one for one in ledger.history() if one.hash == entry and one.kind == "reserve"), None)
    if paid is None:
        return [f"the ledger has no charge {entry[:16]}…: it is another ledger, or the certificate was edited"]
    stored = _stored(ledger, paid, body)
    if stored is None:
        return ["the ledger has the charge, and no release of it: it was stopped, or is still waiting to be stored"]
    found = [f"it holds {name!r}, which no saved result has" for name in sorted(set(body) - {*PARTS})]
    found += [
        f"it says {name} = {_said(body.get(name))}, and {_said(stored.get(name))} was released"
        for name in ("format", "kind")
        if not _same(body.get(name), stored.get(name))
    ]
    ours, theirs = _mapping(body.get("content")), _mapping(stored.get("content"))
    found += [f"{name} differs from what was released" for name in _unlike(ours, theirs)]
    said = _mapping(stored.get("certificate"))
    return found + [
        f"the certificate says {name} = {_said(certificate.get(name))}, and {_said(said.get(name))} was certified"
        for name in _unlike(certificate, said)
        if name != "total" or not _stood(certificate.get(name), ledger, paid)
    ]


def _stood(total: Any, ledger: Ledger, paid: Entry) -> bool:
    """Whether the account stood like this at some time since: a result that was asked for again says how it stood by then."""
    from ..release.account import totals_since

    return any(_same(total, one) for one in totals_since(ledger, paid))


def _unlike(ours: dict[str, Any], theirs: dict[str, Any]) -> list[str]:
    """The names under which two mappings do not say the same."""
    shared = {name for name in ours.keys() & theirs.keys() if _same(ours[name], theirs[name])}
    return sorted((ours.keys() | theirs.keys()) - shared)


def _same(one: Any, other: Any) -> bool:
    """As they are written: 1 is not true, and what is not a number is like itself."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _stored(ledger: Ledger, paid: Entry, body: dict[str, Any]) -> dict[str, Any] | None:
    """The released text of a charge. One charge may have paid for several answers of a stream: then the one that is most like."""
    released: list[dict[str, Any]] = [json.loads(text) for text in ledger.texts(paid.account)]
    own = [one for one in released if (one.get("certificate") or {}).get("entry") == paid.hash]
    return next((one for one in own if _same(one.get("content"), body.get("content"))), own[0] if own else None)


def _said(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:59]}…"
