"""Writes report.ipynb beside this file: a whole report in a notebook, with what its cells show.

    python examples/make_notebook.py

Cells are run here, one after another, in this process; noise is drawn anew, so numbers differ a little from run to run.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import sys
from pathlib import Path
from typing import Any

CELLS = [
    "# A whole report for one ε\n\n20,000 invented people, a model about them, and a report: first planned, then paid for.",
    """import numpy as np
import pandas as pd

import pellucid as pel

rng = np.random.default_rng(7)
size = 20_000
people = pd.DataFrame({
    "age": rng.integers(18, 91, size),
    "bmi": rng.normal(27, 5, size).clip(12, 60),
    "sex": rng.choice(["F", "M"], size),
    "smoker": rng.choice(["no", "yes"], size, p=[0.75, 0.25]),
})


def risk(d):
    score = 0.05 * (d["age"] - 55) + 0.04 * (d["bmi"] - 27) + 0.7 * (d["smoker"] == "yes")
    return 1 / (1 + np.exp(-score))""",
    "What is public is declared, and never read from the table.",
    """schema = pel.Schema({
    "age": pel.Number(18, 90, integer=True, unit="years", source="admission form"),
    "bmi": pel.Number(12, 60, label="body mass index", source="clinic manual"),
    "sex": pel.Category(["F", "M"]),
    "smoker": pel.Category(["no", "yes"]),
})
model = pel.Model(risk, output=(0, 1), trained_on="other data", name="risk")
session = pel.Session(people, schema, budget=pel.Budget(epsilon=1.0), name="ward-7")
session""",
    "The plan costs nothing, and no row is read for it.",
    """report = session.report(model, epsilon=1.0, most=2)
print(report.plan)""",
    "Now it is paid for, as a whole, and the table is read.",
    """made = report.release(by="Ada", purpose="annual report")
print(made)""",
    "Every explanation is a result with error bars, a picture and a certificate of its own.",
    """made["curve along age"]""",
    """made["importance"].to_frame().round(3)""",
    'One certificate for all of it. `made.save("report.html")` writes the page.',
    """print(made.certificate.summary)
print("left:", session.remaining)""",
]
"""What begins as code is code."""


def is_code(text: str) -> bool:
    try:
        return bool(ast.parse(text).body) and not text.startswith("# ")
    except SyntaxError:
        return False


def run(code: str, names: dict[str, Any]) -> list[dict[str, Any]]:
    """What a notebook shows below a cell: what it printed, and its last line where that is an expression."""
    body, printed, last = ast.parse(code), io.StringIO(), None
    shown = ast.Expression(body.body.pop().value) if isinstance(body.body[-1], ast.Expr) else None  # type: ignore[attr-defined]
    with contextlib.redirect_stdout(printed):
        exec(compile(body, "cell", "exec"), names)
        last = eval(compile(shown, "cell", "eval"), names) if shown is not None else None
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        outputs.append({"output_type": "stream", "name": "stdout", "text": lines(printed.getvalue())})
    if last is not None:
        data = {"text/plain": lines(repr(last) if len(repr(last)) < 2000 else str(last))}
        if hasattr(last, "_repr_html_"):
            data["text/html"] = lines(last._repr_html_())
        outputs.append({"output_type": "display_data", "data": data, "metadata": {}})
    return outputs


def lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def notebook() -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "__main__"}
    cells, number = [], 0
    for i, text in enumerate(CELLS):
        cell: dict[str, Any] = {"id": f"cell-{i}", "metadata": {}, "source": lines(text)}
        if is_code(text):
            number += 1
            cell |= {"cell_type": "code", "execution_count": number, "outputs": run(text, names)}
        else:
            cell["cell_type"] = "markdown"
        cells.append(cell)
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def main(target: Path) -> int:
    target.write_text(json.dumps(notebook(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"{target}: {target.stat().st_size // 1024} KB")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("report.ipynb")))
