"""Rooms import only what is below them, as `[tool.importlinter]` says, and the check notices when one does not."""

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LINT = "from importlinter.cli import lint_imports_command; lint_imports_command()"
LAYERS = "A room imports only from rooms below it"
FAMILIES = "Families of explainers share what is in common, and nothing else"
THROUGH_THE_RELEASE = "Explainers reach engine and ledger only through the release"


def lint(folder):
    """Exit code and words of the linter, on one line each."""
    environment = {**os.environ, "PYTHONPATH": str(folder / "src"), "COLUMNS": "1000", "NO_COLOR": "1"}
    command = [sys.executable, "-c", LINT, "--no-cache", "--config", "pyproject.toml"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def copy(tmp_path):
    shutil.copytree(ROOT / "src" / "pellucid", tmp_path / "src" / "pellucid", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def test_every_contract_is_kept():
    code, words = lint(ROOT)
    assert code == 0, words


@pytest.mark.parametrize(
    ("module", "added", "contract"),
    [
        ("public/schema.py", "pellucid.release.session", LAYERS),
        ("mechanisms/noise.py", "pellucid.query.kinds", LAYERS),
        ("engine/local.py", "pellucid.ledger.values", LAYERS),
        ("ledger/values.py", "pellucid.engine.local", LAYERS),
        ("explainers/curves/partial_dependence.py", "pellucid.explainers.shapley.radii", FAMILIES),
        ("explainers/common/base.py", "pellucid.explainers.curves.smoothing", FAMILIES),
        ("explainers/statistics/distribution.py", "pellucid.engine.sandbox", THROUGH_THE_RELEASE),
        ("explainers/clusters/scores.py", "pellucid.ledger", THROUGH_THE_RELEASE),
        ("explainers/importance/losses.py", "sqlalchemy", "Only the ledger imports SQLAlchemy"),
        ("release/session.py", "opendp.prelude", "Only mechanisms import OpenDP"),
        ("query/bounds.py", "pyarrow.compute", "Only engines import Arrow"),
    ],
)
def test_an_import_in_the_wrong_direction_is_noticed(module, added, contract, copy):
    path = copy / "src" / "pellucid" / module
    path.write_text(path.read_text(encoding="utf-8") + f"\n\ndef late():\n    import {added}\n", encoding="utf-8")
    code, words = lint(copy)
    assert code == 1 and re.search(re.escape(contract) + r"\s+BROKEN", words), words
    importer = "pellucid." + module.removesuffix(".py").replace("/", ".")
    imported = added if added.startswith("pellucid") else added.partition(".")[0]
    assert f"{importer} -> {imported}" in words, words


def test_a_room_that_no_contract_knows_is_noticed(copy):
    (copy / "src" / "pellucid" / "attic").mkdir()
    (copy / "src" / "pellucid" / "attic" / "__init__.py").touch()
    code, words = lint(copy)
    assert code == 1 and "pellucid.attic" in words


def uses(source, name):
    """Whether a module imports a name, or reaches it through another module."""
    return any(
        (isinstance(node, ast.alias) and node.name.rpartition(".")[2] == name)
        or (isinstance(node, ast.Attribute) and node.attr == name)
        for node in ast.walk(ast.parse(source))
    )


def test_only_the_door_adds_noise():
    """Import contracts see modules, not names; this one is about a name."""
    package = ROOT / "src" / "pellucid"
    found = {path.relative_to(package) for path in package.rglob("*.py") if uses(path.read_text(encoding="utf-8"), "add_noise")}
    # An audit draws noise around nothing, to look at the noise itself.
    assert {path for path in found if path.parts[0] not in ("mechanisms", "audit")} == {Path("release/door.py")}


def test_every_way_to_the_noise_is_seen():
    assert uses("from ..mechanisms import add_noise as quiet", "add_noise")
    assert uses("from ..mechanisms import noise\nnoise.add_noise([1], m)", "add_noise")
    assert not uses("from ..mechanisms import calibrate", "add_noise")


def test_the_package_has_twelve_rooms():
    """Besides what every package has. A new one needs a reason in ARCHITECTURE.md."""
    entries = {path.name for path in (ROOT / "src" / "pellucid").iterdir() if path.name != "__pycache__"}
    assert len(entries - {"__init__.py", "__main__.py", "errors.py", "surface.py", "py.typed"}) <= 12
