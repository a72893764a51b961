"""What notebooks show: results with their picture, certificates, previews, plans and sessions. Nothing that is not public."""

from __future__ import annotations

import html
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from .drawing import STYLE as COLOURS

if TYPE_CHECKING:
    from .certificate import Certificate
    from .explanation import Explanation

STYLE = (
    COLOURS + ".pellucid{font:14px/1.45 system-ui,sans-serif;max-width:52rem}"
    ".pellucid table{border-collapse:collapse;font-size:.9em;margin:.4em 0}"
    ".pellucid td,.pellucid th{padding:.15em .7em;border-bottom:1px solid var(--pel-grid);text-align:left;vertical-align:top}"
    ".pellucid .small{color:var(--pel-small);font-size:.85em}.pellucid summary{cursor:pointer;color:var(--pel-small)}"
    ".pellucid .certificate{border-left:4px solid var(--pel-band)}"
    ".pellucid .certificate.conditional{border-left-color:#d9a400}.pellucid .certificate.not-private{border-left-color:#c62828}"
    ".pellucid .meter{background:var(--pel-grid);height:.6em;border-radius:.3em;overflow:hidden;max-width:24rem}"
    ".pellucid .meter div{background:var(--pel-band);height:100%}"
)


def boxed(*parts: str) -> str:
    """A display of its own: styled, and dark where the page is."""
    return f'<style>{STYLE}</style><div class="pellucid">{"".join(parts)}</div>'


def table(rows: Iterable[tuple[str, str]]) -> str:
    cells = "".join(f"<tr><th>{html.escape(name)}</th><td>{html.escape(str(value))}</td></tr>" for name, value in rows)
    return f"<table>{cells}</table>"


def of_explanation(explanation: Explanation) -> str:
    """The picture, the numbers, what has to be said beside them, and the certificate. What cannot be drawn is told in words."""
    said = "".join(f"<p>{html.escape(note)}</p>" for note in explanation.notes)
    numbers = explanation.to_frame().to_html(index=False, border=0, max_rows=12)
    picture = drawn(explanation)
    folded = f'<details class="numbers"><summary>numbers</summary>{numbers}</details>' if picture else numbers
    certificate = explanation.certificate
    if certificate is None:
        return boxed(picture, said, folded)
    paid = f'<details class="paid"><summary>{html.escape(certificate.summary)}</summary>{certificate.html}</details>'
    return boxed(picture, said, folded, paid)


def drawn(explanation: Explanation) -> str:
    """The picture as SVG; nothing where it cannot be drawn, because what was paid for is shown all the same."""
    try:
        return explanation.to_svg(style=False)
    except Exception:
        return ""


def of_certificate(certificate: Certificate) -> str:
    return boxed(certificate.html)


def of_lines(text: str) -> str:
    """What print() shows of a preview or a plan: its first line, and the others as a list."""
    first, *rest = text.splitlines()
    lines = "".join(f"<li>{html.escape(line.strip())}</li>" for line in rest)
    return boxed(f"<b>{html.escape(first)}</b><ul>{lines}</ul>")


def of_session(session: Any) -> str:
    """The account, what was declared, and what is left; nothing of the table."""
    spent, whole = session.spent, session.whole
    counted = [amount.epsilon if amount.currency == "either" else float(amount) for amount in (spent, whole)]
    share = min(100.0, 100 * counted[0] / counted[1]) if counted[1] else 0.0
    rows = [
        ("spent", f"{spent} of {whole}"),
        ("left", str(session.remaining)),
        ("neighbours", session.neighbors),
        ("unit", session.unit.text),
        ("columns", _names(list(session.schema))),
        ("ledger", str(session.ledger.path) if session.ledger.durable else "in memory: the total is known to this process only"),
    ]
    meter = f'<div class="meter"><div style="width:{share:.1f}%"></div></div>'
    return boxed(f"<b>Session {html.escape(repr(session.name))}</b>", meter, table(rows))


def _names(names: list[str], most: int = 12) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
