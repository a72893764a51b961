"""One self-contained HTML page for a set of explanations: pictures, numbers and certificates, no network, no scripts."""

from __future__ import annotations

import base64
import html
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..release.explanation import Explanation
from ..reports.page import picture, pyplot

__all__ = ["page", "picture", "pyplot", "write"]

STYLE = """
body{font:16px/1.5 system-ui,sans-serif;color:#1f2933;max-width:60rem;margin:2rem auto;padding:0 1rem}
h1{font-weight:600}h2{margin-top:3rem;border-top:1px solid #d9e2ec;padding-top:1.5rem}
img{max-width:100%}table{border-collapse:collapse;font-size:.85rem}
td,th{padding:.25rem .7rem;border-bottom:1px solid #e4e7eb;text-align:left;vertical-align:top}
.certificate th{white-space:nowrap;color:#486581;font-weight:600}
.certificate.proved{border-left:5px solid #3ebd93}
.certificate.proved-for-row-wise-models{border-left:5px solid #a3d65c}
.certificate.proved-for-isolated-functions{border-left:5px solid #a3d65c}
.certificate.conditional{border-left:5px solid #f7c948}
.certificate.not-private{border-left:5px solid #e12d39}
.budget{background:#e4e7eb;border-radius:6px;overflow:hidden;height:1.1rem}.budget div{background:#62b6cb;height:100%}
summary{cursor:pointer;color:#486581;margin:.6rem 0}
"""


def page(items: Sequence[tuple[str, Explanation]], title: str = "Explanations", budget: Any = None) -> str:
    """The report as HTML text. `items` are (title, explanation); `budget` is an optional (spent, whole) pair."""
    parts = [f"<h1>{html.escape(title)}</h1>"]
    if budget is not None:
        spent, whole = budget
        counted = [a.epsilon if getattr(a, "currency", "") == "either" else float(a) for a in budget]
        share = min(100.0, 100 * counted[0] / counted[1]) if counted[1] else 0.0
        parts.append(
            f"<p>Spent on this account: {html.escape(str(spent))} of {html.escape(str(whole))}.</p>"
            f'<div class="budget"><div style="width:{share:.1f}%"></div></div>'
        )
    for name, explanation in items:
        image = base64.b64encode(picture(explanation)).decode()
        numbers = explanation.to_frame().to_html(index=False, border=0, float_format=lambda v: f"{v:.5g}")
        parts.append(
            f'<h2>{html.escape(name)}</h2><img alt="{html.escape(name)}" src="data:image/png;base64,{image}">'
            + "".join(f"<p>{html.escape(note)}</p>" for note in explanation.notes)
            + f"<details><summary>Numbers</summary>{numbers}</details>"
            + (
                f"<details open><summary>Certificate</summary>{explanation.certificate.html}</details>"
                if explanation.certificate
                else ""
            )
        )
    body = "\n".join(parts)
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>'
        f"<style>{STYLE}</style></head><body>{body}</body></html>"
    )


def write(path: str | Path, items: Sequence[tuple[str, Explanation]], title: str = "Explanations", budget: Any = None) -> None:
    """Write the report to a file."""
    Path(path).write_text(page(items, title, budget), encoding="utf-8")
