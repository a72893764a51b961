"""The notebook in examples/ runs, cell by cell, and is what its script makes."""

import importlib.util
import json
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


@pytest.mark.slow
def test_the_notebook_runs_and_shows_what_it_says(tmp_path):
    spec = importlib.util.spec_from_file_location("make_notebook", EXAMPLES / "make_notebook.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    script.main(tmp_path / "report.ipynb")
    made = json.loads((tmp_path / "report.ipynb").read_text(encoding="utf-8"))
    code = [cell for cell in made["cells"] if cell["cell_type"] == "code"]
    shown = json.dumps([cell["outputs"] for cell in code], ensure_ascii=False)
    assert len(code) == 7 and all(words in shown for words in ("Nothing is paid yet", "<svg", "left: ε = 0"))
    kept = EXAMPLES / "report.ipynb"
    if kept.exists():
        kept_cells = json.loads(kept.read_text(encoding="utf-8"))["cells"]
        assert [cell["source"] for cell in kept_cells] == [cell["source"] for cell in made["cells"]], "make it again"
