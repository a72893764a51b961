"""Benchmarks are run by hand, so nothing else would notice that what they import has moved."""

import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
STUDIES = sorted((ROOT / "benchmarks").glob("*.py"))


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.stem)
def test_a_benchmark_imports(path, monkeypatch):
    # They look beside themselves and into tests, before all else.
    monkeypatch.setattr(sys, "path", [str(path.parent), str(ROOT / "tests"), *sys.path])
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, path.stem, module)
    try:
        spec.loader.exec_module(module)
    except ModuleNotFoundError as error:
        # A package that is not installed is no fault of the benchmark; a module of ours that is not there is.
        if _ours(error.name):
            raise
        pytest.skip(f"{error.name} is not installed")
    assert callable(getattr(module, "main", None)) or "__main__" not in path.read_text(encoding="utf-8")


def _ours(name):
    return name is None or name.partition(".")[0] in {"pellucid", "network_bars", "sources", *(path.stem for path in STUDIES)}
