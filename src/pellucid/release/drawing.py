"""Pictures as SVG: words stay words, dark where the page is, and a pointer is told what is under it. No scripts, no network."""

from __future__ import annotations

import hashlib
import html
import io
import math
import re
from typing import Any

from ..public.figure import DARK, LIGHT, marks, pyplot

COLOURS = {
    LIGHT.ink: ("ink", DARK.ink),
    LIGHT.band: ("band", DARK.band),
    LIGHT.down: ("down", DARK.down),
    LIGHT.bar: ("bar", DARK.bar),
    LIGHT.small: ("small", DARK.small),
    "#000000": ("text", "#e6e6e6"),
    "#ffffff": ("paper", "#1e1e1e"),
    "#b0b0b0": ("grid", "#5a5a5a"),
}
"""Colours that are drawn, by what they are called in a style and what they become in the dark."""

IN_THE_DARK = (
    '[data-jp-theme-light="false"] .pellucid',
    ".vscode-dark .pellucid",
    '[data-theme="dark"] .pellucid',
    '[data-md-color-scheme="slate"] .pellucid',
)
"""Pages that are dark without the system being so: JupyterLab, VS Code, documentation."""

_dark = ";".join(f"--pel-{name}:{dark}" for name, dark in COLOURS.values())
STYLE = (
    ".pellucid{" + ";".join(f"--pel-{name}:{light}" for light, (name, _) in COLOURS.items()) + ";color:var(--pel-text)}"
    "@media (prefers-color-scheme:dark){.pellucid{" + _dark + "}}" + ",".join(IN_THE_DARK) + "{" + _dark + "}"
    '[data-jp-theme-light="true"] .pellucid,.vscode-light .pellucid{'
    + ";".join(f"--pel-{name}:{light}" for light, (name, _) in COLOURS.items())
    + "}"
    ".pellucid svg{max-width:100%;height:auto}"
    ".pellucid .mark rect.under{fill:transparent}.pellucid .mark .told{display:none;pointer-events:none}"
    ".pellucid .mark:hover .told{display:inline}.pellucid .mark:hover rect.under{fill:var(--pel-band);fill-opacity:.16}"
)
"""What every picture and display needs once on a page."""

FONT = "font-family:'DejaVu Sans',Verdana,sans-serif"


def figure_of(axes: Any) -> Any:
    """The figure of what `plot()` returned: axes, or an array of them."""
    return axes.figure if hasattr(axes, "figure") else axes[0].figure


def svg(explanation: Any, style: bool = True, **options: Any) -> str:
    """The plot of an explanation as SVG text that stands alone; without `style` for a page that has `STYLE` once."""
    plt = pyplot()
    # A picture of its own, whatever style the caller has set: dark or light is decided where it is seen.
    with plt.style.context("default"), plt.rc_context({"svg.fonttype": "none", "svg.hashsalt": "pellucid"}):
        figure = figure_of(explanation.plot(**options))
        try:
            out = io.StringIO()
            figure.savefig(out, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
            told = _told(figure)
            width, height = figure.get_size_inches() * 72
        finally:
            plt.close(figure)
    return _finished(out.getvalue(), told, explanation.headline or type(explanation).__name__, style, width, height)


def _finished(text: str, told: str, title: str, style: bool, width: float, height: float) -> str:
    body = text[text.index("<svg") :]
    inner = body[body.index(">") + 1 : body.rindex("</svg>")]
    # Its own style is for every element of a page, and its names are those of every other picture's.
    inner = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", inner, flags=re.DOTALL)
    inner = re.sub(r'<g id="[^"]*"', "<g", inner)
    own = f"p{hashlib.sha256(inner.encode()).hexdigest()[:8]}"
    inner = re.sub(r'\bid="', f'id="{own}', inner).replace("url(#", f"url(#{own}").replace('xlink:href="#', f'href="#{own}')
    for light, (name, _) in COLOURS.items():
        inner = inner.replace(light, f"var(--pel-{name})")
    # Words have no colour of their own where they are black, and no font that a page may not have.
    inner = re.sub(r"font: ([^;\"']*?)(\d+px) [^;\"]*", r"font: \1\2 'DejaVu Sans', Verdana, sans-serif", inner)
    inner = re.sub(r"<text style=\"(?![^\"]*fill)", '<text style="fill: var(--pel-text); ', inner)
    head = (
        '<svg xmlns="http://www.w3.org/2000/svg" role="img" class="pellucid" style="stroke-linejoin:round;stroke-linecap:butt" '
        f'width="{width:.0f}pt" height="{height:.0f}pt" viewBox="0 0 {width:.2f} {height:.2f}">'
    )
    return f"{head}<title>{html.escape(title)}</title>{f'<style>{STYLE}</style>' if style else ''}{inner}{told}</svg>"


def _told(figure: Any) -> str:
    """What a pointer is told, as areas that nothing is seen of until it is over them."""
    width, height = figure.get_size_inches() * 72
    points = 72 / figure.dpi
    parts = []
    for ax in figure.axes:
        box = ax.get_window_extent()
        for mark in marks(ax):
            (x0, y0), (x1, y1) = (
                ax.transData.transform((_inside(a, ax.get_xlim()), _inside(b, ax.get_ylim())))
                for a, b in ((mark.left, mark.bottom), (mark.right, mark.top))
            )
            left, right = sorted(min(max(v, box.x0), box.x1) * points for v in (x0, x1))
            low, high = sorted(min(max(v, box.y0), box.y1) * points for v in (y0, y1))
            parts.append(_area(left, height - high, max(right - left, 2.0), max(high - low, 1.0), mark.told, width))
    return f'<g class="marks">{"".join(parts)}</g>' if parts else ""


def _inside(value: float, limits: tuple[float, float]) -> float:
    return value if math.isfinite(value) else min(limits) if value < 0 else max(limits)


def _area(x: float, y: float, width: float, height: float, told: str, whole: float) -> str:
    wide = 5.1 * len(told) + 10
    left = min(max(x + width / 2 - wide / 2, 2.0), max(whole - wide - 2, 2.0))
    top = y - 18 if y > 22 else y + height + 3
    text = html.escape(told)
    return (
        f'<g class="mark"><title>{text}</title>'
        f'<rect class="under" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill-opacity="0"/>'
        f'<g class="told"><rect x="{left:.1f}" y="{top:.1f}" width="{wide:.1f}" height="15" rx="3" fill="var(--pel-paper)" '
        f'stroke="var(--pel-bar)"/><text x="{left + 5:.1f}" y="{top + 11:.1f}" style="font-size:8.5px;{FONT};'
        f'fill:var(--pel-text)">{text}</text></g></g>'
    )
