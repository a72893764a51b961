"""Commands that release: demo, preview, explain."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from ..errors import PellucidError
from .options import AsJson, console

app = typer.Typer()

StudyFile = Annotated[
    Path, typer.Argument(help="The study: data, schema, models and releases, as YAML or JSON.", show_default=False)
]


@app.command()
def demo(
    output: Annotated[Path, typer.Option(help="Folder for the pictures, the page and the ledger.")] = Path("demo-output"),
) -> None:
    """Train a model on a real health table and release three explanations of it."""
    from .demo import run

    run(output, console())


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
