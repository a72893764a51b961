"""The proofs that certificates cite."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..errors import PellucidError

app = typer.Typer()

PACKAGE = Path(__file__).resolve().parents[1]


def proof_text(claim: str) -> str:
    """The proof of a claim, as Markdown: statement, assumptions, proof, and the tests that would refute half of the bound.

    >>> proof_text("box-sum").splitlines()[0]
    '# box-sum'
    """
    known = claims()
    if claim not in known:
        from ..public.schema import did_you_mean

        raise PellucidError(f"there is no proof of {claim!r}{did_you_mean(claim, known)}. `pellucid proof` lists all of them.")
    return known[claim].read_text(encoding="utf-8")


def claims() -> dict[str, Path]:
    """Every proved claim and the file of its proof: inside the package when it was installed, beside it in a checkout."""
    inside = PACKAGE / "release" / "proofs"
    folder = inside if inside.is_dir() else PACKAGE.parents[1] / "proofs"
    return {path.stem: path for path in sorted(folder.glob("*.md"))}


@app.command()
def proof(
    claim: Annotated[str | None, typer.Argument(help="The claim, as certificates cite it: box-sum.", show_default=False)] = None,
) -> None:
    """Print the proof of a claim that a certificate cites; without a claim, the list of all."""
    typer.echo("\n".join(claims()) if claim is None else proof_text(claim).rstrip())
