"""What all pictures share: how they are begun, their colours, plain numbers, and what a pointer is told over a mark."""

from __future__ import annotations

import math
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import MissingExtra
from .dates import like

INK, BAND, DOWN = "#1b4965", "#62b6cb", "#bc4b51"
"""Lines and what goes up; error bands; what goes down."""

TICKS, DATES = 8, 5
"""Numbers, or dates, along an axis, at most."""


@dataclass(frozen=True)
class Palette:
    """The colours of a picture. Blue and red are told apart by people who cannot tell red from green, and by their lightness."""

    ink: str = INK
    band: str = BAND
    down: str = DOWN
    bar: str = "#595959"
    """Error bars, and lines that divide."""
    small: str = "#666666"
    """Small print."""
    pale: float = 0.38
    """How much is seen of what cannot be told from noise."""


LIGHT = Palette()
DARK = Palette(ink="#8fc7e8", band="#3f8fae", down="#f0888c", bar="#bdbdbd", small="#b0b0b0", pale=0.45)


def palette(ax: Any) -> Palette:
    """The colours that are seen on these axes: `plt.style.use("dark_background")` before a plot makes it a dark one."""
    from matplotlib.colors import to_rgba

    red, green, blue, seen = to_rgba(ax.get_facecolor())
    return DARK if seen > 0.5 and 0.299 * red + 0.587 * green + 0.114 * blue < 0.4 else LIGHT


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


def plain(value: float, digits: int = 3) -> str:
    """A number as people write it: so many digits, commas between thousands, no exponent.

    >>> plain(89_123.4), plain(0.012345), plain(-3.0), plain(1234.5), plain(float("nan"))
    ('89,100', '0.0123', '−3', '1,230', '–')
    """
    if not math.isfinite(value):
        return "–" if math.isnan(value) else "∞" if value > 0 else "−∞"
    if not value:
        return "0"
    places = digits - 1 - math.floor(math.log10(abs(value)))
    rounded = round(value, places)
    text = f"{rounded:,.{max(places, 0)}f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return text.replace("-", "−") if float(text.replace(",", "")) else "0"


def value_text(value: Any, digits: int = 3) -> str:
    """A declared value in a picture: whole numbers whole, other numbers plain, words as they are."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if math.isfinite(value) and float(value).is_integer():
        return f"{int(value):,}".replace("-", "−") if abs(value) >= 10_000 else f"{int(value)}".replace("-", "−")
    return plain(float(value), digits)


def number_axis(axis: Any, whole: bool = False) -> None:
    """Few numbers along an axis, plainly written; whole ones where all values are."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axis.set_major_locator(MaxNLocator(TICKS, integer=whole, steps=[1, 2, 2.5, 5, 10]))
    axis.set_major_formatter(FuncFormatter(lambda value, _: value_text(float(f"{value:.10g}"), 6)))


def dated_axis(axis: Any, values: Sequence[Any]) -> None:
    """Few days or times along an axis of numbers, written as the values are."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axis.set_major_locator(MaxNLocator(DATES, integer=True))
    axis.set_major_formatter(FuncFormatter(lambda value, _: like(value, values)))


@dataclass(frozen=True)
class Mark:
    """A place in a picture, and what a pointer over it is told."""

    left: float
    right: float
    bottom: float
    top: float
    """Its corners, in the numbers of the axes."""
    told: str


_marks: weakref.WeakKeyDictionary[Any, list[Mark]] = weakref.WeakKeyDictionary()


def mark(ax: Any, across: tuple[float, float] | None, along: tuple[float, float] | None, told: str) -> None:
    """Tell a pointer something over a part of the axes; None is all of the width, or of the height."""
    (left, right), (bottom, top) = across or (-math.inf, math.inf), along or (-math.inf, math.inf)
    _marks.setdefault(ax, []).append(Mark(left, right, bottom, top, told))


def marks(ax: Any) -> Sequence[Mark]:
    return _marks.get(ax, ())
