"""What the documents show runs, and what they link to exists."""

import re
import runpy
import shutil
import sys
from pathlib import Path

import pytest

import pellucid as pel

ROOT = Path(__file__).resolve().parent.parent
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]


def _text(page):
    return page.read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_python_in_documents_runs(page, capsys):
    """Read from top to bottom: later pieces of a page may use what earlier ones made."""
    names = {}
    for code in re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.S):
        exec(compile(code, page.name, "exec"), names)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


def test_every_page_has_its_place_on_the_site():
    site = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[2]
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    elsewhere = {"architecture.md", "changelog.md", "contributing-house.md", "proofs/index.md", "results.md", "security.md"}
    assert set(re.findall(r"[\w/-]+\.md", site)) == pages | elsewhere


def test_every_public_name_is_in_the_reference():
    described = set(
        re.findall(r"^::: pellucid\.([\w.]+)$", "".join(map(_text, (ROOT / "docs" / "reference").glob("*.md"))), re.M)
    )
    missing = {name for name in pel.__all__ if not _places(name) & described}
    assert not missing


def _places(name):
    """Where a public name can be described: by itself, or with the whole module it is in."""
    found = getattr(pel, name)
    module = getattr(found, "__module__", found.__name__).removeprefix("pellucid.")
    return {module, f"{module}.{name}"} if hasattr(found, "__module__") else {module}


def test_the_example_study_runs(tmp_path, monkeypatch, capsys):
    folder = shutil.copytree(
        ROOT / "examples" / "study", tmp_path / "study", ignore=shutil.ignore_patterns("*.parquet", "*.db", "results")
    )
    runpy.run_path(str(folder / "make_people.py"))
    from pellucid.cli import commands as cli

    monkeypatch.setattr(sys, "argv", ["pellucid", "explain", str(folder / "study.yaml")])
    cli.main()
    assert (folder / "results" / "report.html").exists()


def test_the_counter_example_runs(capsys):
    runpy.run_path(str(ROOT / "examples" / "counter.py"), run_name="__main__")
    assert "handed on" in capsys.readouterr().out


def test_no_data_and_no_machine_in_the_repository():
    for path in ROOT.rglob("*"):
        inside = path.relative_to(ROOT).parts
        hidden = any(part.startswith(".") or part in ("demo-output", "__pycache__", "results", "site") for part in inside)
        if path.is_file() and not hidden and path.suffix in (".py", ".md", ".toml", ".yaml", ".yml"):
            assert not re.search(r"(?<![\w.])/(?:work|tmp|root|home)/\w", path.read_text(encoding="utf-8")), path
