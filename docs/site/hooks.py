"""What the site needs beyond Markdown: pages that live elsewhere in the repository, links to them, and pictures that code draws.

Pages are written to be read in the repository, too. So links are those of the repository, and are turned into the site's here.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import inspect
import io
import json
import os
import re
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
ELSEWHERE = {
    "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing-house.md",
    "SECURITY.md": "security.md",
    "README.md": "index.md",
    "benchmarks/RESULTS.md": "results.md",
    "proofs": "proofs/index.md",
    **{f"proofs/{path.name}": f"proofs/{path.name}" for path in sorted((ROOT / "proofs").glob("*.md"))},
    **{
        f"docs/{path.relative_to(ROOT / 'docs').as_posix()}": path.relative_to(ROOT / "docs").as_posix()
        for path in (ROOT / "docs").rglob("*.*")
    },
}
"""Where something of the repository is on the site."""

LINK = re.compile(r"(!?\[[^\]\n]*\]\()([^)\s#:]+)(#[^)\s]*)?\)")
REFERENCE = re.compile(r"^::: (\S+)\.(\w+)$", re.M)
CODE = re.compile(r"^```python\n(.*?)^```\n", re.S | re.M)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Pages from outside docs/ join it, each with the links of its new place."""
    for origin, place in ELSEWHERE.items():
        path = ROOT / origin
        if origin.startswith("docs/") or origin == "README.md" or not path.is_file():
            continue
        files.append(File.generated(config, place, content=path.read_text(encoding="utf-8")))
    files.append(File.generated(config, "proofs/index.md", content=_proofs()))
    return files


def _proofs() -> str:
    """One line for each proof: its statement's first sentence."""
    lines = [
        "# Proofs",
        "",
        "Every certificate cites the claims that it rests on. Each has a proof, and a test that fails when its bound is halved.",
        "",
    ]
    for path in sorted((ROOT / "proofs").glob("*.md")):
        statement = path.read_text(encoding="utf-8").partition("**Statement.**")[2].strip()
        first = re.split(r"(?<=[.:])\s", " ".join(statement.split()), maxsplit=1)[0]
        lines.append(f"- [{path.stem}]({path.name}): {first}")
    return "\n".join(lines) + "\n"


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links of the repository as links of the site; in the gallery, what code draws below the code."""
    place = page.file.src_uri
    origin = next(
        (origin for origin, where in ELSEWHERE.items() if where == place and (ROOT / origin).is_file()), f"docs/{place}"
    )
    if place == "gallery.md":
        markdown = _drawn(markdown, config)
    if place == "reference/explainers.md":
        markdown = REFERENCE.sub(_settings_only, markdown)
    return LINK.sub(lambda found: _moved(found, PurePosixPath(origin).parent, PurePosixPath(place).parent), markdown)


def _settings_only(found: re.Match[str]) -> str:
    """Of an explainer its settings, inherited ones too; its methods are for whoever writes one."""
    described = getattr(importlib.import_module(found[1]), found[2])
    if not dataclasses.is_dataclass(described) or inspect.isabstract(described):
        return found[0]
    settings = [field.name for field in dataclasses.fields(described) if not field.name.startswith("_")]
    return f"{found[0]}\n    options:\n      inherited_members: true\n      members: {json.dumps(settings)}\n"


def _moved(found: re.Match[str], origin: PurePosixPath, place: PurePosixPath) -> str:
    words, target, anchor = found[1], found[2], found[3] or ""
    if target.startswith("gallery/"):
        return found[0]
    inside = os.path.normpath(origin / target).replace(os.sep, "/")
    where = ELSEWHERE.get(inside.rstrip("/"))
    if where is None:
        # A file of the sources that is no page: its name stays, as text.
        return words.lstrip("!")[1:-2] if (ROOT / inside).exists() else found[0]
    # What README has in sections of its own is on other pages of the site.
    if inside == "README.md":
        where, anchor = {"#what-comes-back": ("reference/results.md", ""), "#what-is-in-it": ("reference/explainers.md", "")}.get(
            anchor, ("index.md", "")
        )
    return f"{words}{os.path.relpath(where, place).replace(os.sep, '/')}{anchor})"


def _drawn(markdown: str, config: MkDocsConfig) -> str:
    """Run the code of the page from top to bottom; a piece that sets `made` is followed by its picture."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    names: dict[str, Any] = {}
    count = 0

    def run(found: re.Match[str]) -> str:
        nonlocal count
        names.pop("made", None)
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(found[1], "gallery", "exec"), names)
        said = f"\n```text\n{printed.getvalue().rstrip()}\n```\n" if printed.getvalue().strip() else ""
        if "made" not in names:
            return found[0] + said
        count += 1
        names["made"].plot()
        target = Path(config["site_dir"]) / "gallery" / f"{count}.svg"
        target.parent.mkdir(parents=True, exist_ok=True)
        plt.gcf().savefig(target, bbox_inches="tight")
        plt.close("all")
        # As HTML: the picture is written to the site, not to the pages.
        return (
            f'{found[0]}{said}\n<img class="drawn" src="{count}.svg" alt="{type(names["made"]).__name__}, as plot() draws it">\n'
        )

    return CODE.sub(run, markdown)
