"""Commands that need no data: the sensitivity of a formula, and the study of bars."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import MissingExtra, PellucidError
from .options import AsJson

app = typer.Typer()


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
    folder = Path(__file__).resolve().parents[3] / "benchmarks"
    if not (folder / name).is_dir():
        raise MissingExtra(
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
