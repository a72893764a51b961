"""How pictures are begun: Matplotlib where it is installed, and the colours all of them share."""

from __future__ import annotations

from typing import Any

from ..errors import MissingExtra

INK, BAND, DOWN = "#1b4965", "#62b6cb", "#bc4b51"
"""Lines and what goes up; error bands; what goes down."""


def pyplot() -> Any:
    """Matplotlib, when the first picture is asked for."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise MissingExtra("pictures need matplotlib: install it with `pip install 'pellucid[plots]'`.") from None
    return plt


def literally(ax: Any) -> Any:
    """Show words as they are: names and values of a schema may have dollar signs, which Matplotlib takes for formulas."""
    from matplotlib.text import Text

    for text in ax.findobj(Text):
        text.set_parse_math(False)
    return ax
