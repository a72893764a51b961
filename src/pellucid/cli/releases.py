"""Commands that release: demo, preview, explain, report."""

from __future__ import annotations

import json
import os
import secrets
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import PellucidError, ReleaseFailed
from .options import AsJson, InPart, OnSpark, console

if TYPE_CHECKING:
    from ..release.explanation import Explanation
    from ..release.released import Released
    from ..release.session import Session
    from .study import Study

app = typer.Typer()

StudyFile = Annotated[
    Path, typer.Argument(help="The study: data, schema, models and releases, as YAML or JSON.", show_default=False)
]


@app.command()
def demo(
    output: Annotated[Path, typer.Option(help="Folder for the pictures, the page and the ledger.")] = Path("demo-output"),
) -> None:
    """Train a model on a real health table and release a whole report about it."""
    from .demo import run

    run(output, console())


@app.command()
def preview(study: StudyFile, where: InPart = None, spark: OnSpark = None, as_json: AsJson = False) -> None:
    """The error to expect from every release of a study, and which are free. Touches no data, charges nothing."""
    from .study import Study

    opened = Study.load(study, preview=True, spark=spark, where=where or ()).settled()
    previews = [(r.title, opened.session.preview(r.explainer, **r.cost)) for r in opened.releases]
    if as_json:
        typer.echo(json.dumps([{"title": title, **p.to_dict()} for title, p in previews], ensure_ascii=False))
        return
    for title, p in previews:
        typer.echo(f"{title}\n{p}\n")
    typer.echo(f"the whole study: {_bill(opened)[0]}")


@app.command()
def explain(
    study: StudyFile,
    output: Annotated[
        Path | None, typer.Option(help="Folder for the results; default: output: of the study, or results/.")
    ] = None,
    by: Annotated[str, typer.Option(help="Who asks; written to the ledger.")] = "",
    purpose: Annotated[str, typer.Option(help="What for; written to the ledger.")] = "",
    pictures: Annotated[bool, typer.Option(help="Write PNG pictures and one HTML page.")] = True,
    create: Annotated[
        bool, typer.Option("--create", help="Start the ledger, or the account in it, that the study names and that is not there.")
    ] = False,
    changed: Annotated[
        str, typer.Option(help="Why the table is another one than before; written to the ledger. Nothing earlier is replayed.")
    ] = "",
    workers: Annotated[
        int | None, typer.Option(help="Processes that read the table side by side; default: workers: of the study, or one.")
    ] = None,
    where: InPart = None,
    spark: OnSpark = None,
    as_json: AsJson = False,
) -> None:
    """Release everything a study lists: JSON, pictures and one HTML page. Identical requests are free.

    Those about one record (ShapValues, ShapRanking, LocalLinear with record) are paid for again in every run: it is not stored.
    """
    from ..audit.own import stamps_of
    from . import report
    from .study import Study

    if pictures:
        report.pyplot()
    opened = Study.load(study, create=create, changed=changed, workers=workers, spark=spark, where=where or ()).settled()
    _check_budget(opened)
    folder = output or opened.output
    _check_folder(folder, opened, pictures)
    audited = stamps_of(opened.audits)
    session = opened.started() if opened.new else opened.session
    session._audited.update(audited)
    if opened.new:
        typer.echo(
            f"{session.ledger.path} is a new ledger, with a budget of {session.whole}: keep it with the study", err=as_json
        )
    made, failure = _released(session, opened, by, purpose)
    released, drawn = [], []
    for release in (one for one in opened.releases if one.slug in made.names):
        explanation = made[release.slug]
        _write(folder / f"{release.slug}.json", explanation.to_json().encode())
        released.append((release.title, explanation))
        if not as_json:
            paid = "released" if made.charged[made.names.index(release.slug)] else "free, it was released before"
            typer.echo(f"{release.title}: {paid}, left {made.left}")
        if pictures and _drawn(explanation, release.title, folder / f"{release.slug}.png"):
            drawn.append((release.title, explanation))
    if session.ledger.waiting():
        typer.echo("the ledger is locked: what was released is kept beside it and stored at its next use", err=as_json)
    if pictures:
        _write(folder / "report.html", report.page(drawn, session.name, (session.spent, session.whole)).encode())
    if as_json:
        typer.echo(json.dumps([{"title": title, **json.loads(e.to_json())} for title, e in released], ensure_ascii=False))
    else:
        typer.echo(f"written to {folder}")
    if failure is not None:
        raise failure
    if pictures and len(drawn) < len(released):
        undrawn = ", ".join(repr(item[0]) for item in released if item not in drawn)
        raise PellucidError(f"no picture could be drawn of {undrawn}; the numbers are in {str(folder)!r}.")


@app.command("report")
def whole_report(
    study: StudyFile,
    epsilon: Annotated[float | None, typer.Option(help="The ε of the whole report; default: all that is left.")] = None,
    model: Annotated[str | None, typer.Option(help="Which model of the study; not needed if there is one.")] = None,
    target: Annotated[str | None, typer.Option(help="The column that the model predicts.")] = None,
    only: Annotated[list[str] | None, typer.Option(help="Only this part, such as curves; may be given several times.")] = None,
    clusters: Annotated[int | None, typer.Option(help="Look for so many clusters, and tell them apart.")] = None,
    output: Annotated[
        Path | None, typer.Option(help="Folder for the results; default: output: of the study, or results/.")
    ] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Only say what would be released. Nothing is charged.")] = False,
    by: Annotated[str, typer.Option(help="Who asks; written to the ledger.")] = "",
    purpose: Annotated[str, typer.Option(help="What for; written to the ledger.")] = "",
    create: Annotated[
        bool, typer.Option("--create", help="Start the ledger that the study names and that is not there.")
    ] = False,
) -> None:
    """Explain a model for one price: what is worth having, each part at the share it needs, on one page. Run again, it is free.

    The study needs no releases: for it.
    """
    from ..reports.page import pyplot
    from ..reports.report import Report
    from .study import Study

    pyplot()
    opened = Study.load(study, create=create, preview=plan, report=True)
    asked = Report(opened.model(model), target=target, clusters=clusters)
    asked = asked.only(*only) if only else asked
    draft = opened.session.report(asked, epsilon=epsilon)
    typer.echo(str(draft.plan))
    if draft.plan.takes:
        typer.echo(draft.plan.takes)
    if plan:
        return
    folder = output or opened.output
    _check_folder(folder, opened, pictures=False)
    session = opened.started() if opened.new else opened.session
    if opened.new:
        typer.echo(f"{session.ledger.path} is a new ledger, with a budget of {session.whole}: keep it with the study")
        draft = session.report(asked, epsilon=epsilon)
    made = draft.release(by=by, purpose=purpose)
    made.save(folder)
    typer.echo(f"\n{made}\nwritten to {folder}")


def _released(session: Session, study: Study, by: str, purpose: str) -> tuple[Released, ReleaseFailed | None]:
    """All of a study, or what was released of it and what went wrong: whatever was paid for is written down first."""
    asked = {release.slug: (release.explainer, release.cost) for release in study.releases}
    try:
        return session.release(asked, by=by, purpose=purpose), None
    except ReleaseFailed as failure:
        if failure.released is None:
            raise
        return failure.released, failure


def _check_budget(study: Study) -> None:
    """All of a study or nothing: half of it is rarely what was meant."""
    said, payable = _bill(study)
    if not payable:
        more = "declare a larger budget" if study.new else "raise the budget (`pellucid ledger raise`)"
        again = [release.title for release in study.releases if getattr(release.explainer, "record", None) is not None]
        if again and not study.new:
            more += f", or take out what is about one record and paid for again in every run ({', '.join(map(repr, again))})"
        raise PellucidError(
            f"the account cannot pay for the whole study: {said}. Lower the shares or {more}. Nothing was charged."
        )


def _bill(study: Study) -> tuple[str, bool]:
    """What a study asks for and what is left, in words, and whether the account can pay for all of it."""
    from ..ledger.accounting import Amount

    session, outlook = study.session, study.session.outlook(study.requests)
    left, stop = session.remaining, "" if outlook.affordable else repr(study.releases[outlook.payable].title)
    short = f"the budget runs out at {stop}, so nothing would be released"
    there = " (there is no ledger yet)" if study.new else ""
    asked = {kind: sum((c.amount for c in outlook.charges if c.currency == kind), Fraction(0)) for kind in ("epsilon", "rho")}
    totals = [Amount.of(session.budget, amount, kind) for kind, amount in asked.items() if amount]  # type: ignore[arg-type]
    if session.budget.counts == "either":
        kinds = " and ".join(str(total) for total in totals) or "nothing"
        said = f"it asks for {kinds} in all; left on the account: {left}{there}"
        return (f"{said}, and {outlook.left} afterwards", True) if not stop else (f"{said}; {short}", False)
    total = totals[0] if totals else Amount.of(session.budget, Fraction(0))
    said = f"it asks for {total} in all; left on the account: {left}{there}"
    if not stop:
        return said, True
    return f"{said}; missing: {Amount.of(session.budget, Fraction(total - left))}; {short}", False


def _check_folder(folder: Path, study: Study, pictures: bool) -> None:
    """Whether everything can be written, before anything is paid for."""
    endings = (".json", ".png") if pictures else (".json",)
    files = [folder / f"{release.slug}{ending}" for release in study.releases for ending in endings]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file in [*files, folder / "report.html"]:
            if file.is_dir() or (file.exists() and not os.access(file, os.W_OK)):
                raise OSError
        trial = folder / f".{secrets.token_hex(8)}"
        trial.write_bytes(b"")
        trial.unlink()
    except OSError:
        raise PellucidError(
            f"the folder {str(folder)!r}, or a file of an earlier run in it, cannot be written; choose another with --output. "
            "Nothing was charged."
        ) from None


def _write(file: Path, content: bytes) -> None:
    """Whole or not at all."""
    part = file.with_name(f".{file.name}.part")
    try:
        part.write_bytes(content)
        part.replace(file)
    except OSError:
        raise PellucidError(
            f"{str(file)!r} cannot be written. What was released is in the ledger: run the command again, it is free."
        ) from None


def _drawn(explanation: Explanation, title: str, file: Path) -> bool:
    """Draw a picture. What was released is saved by now, so a picture that fails stops nothing."""
    from . import report

    try:
        content = report.picture(explanation, title)
    except Exception:
        return False
    _write(file, content)
    return True
