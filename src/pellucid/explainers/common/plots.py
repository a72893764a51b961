"""Pictures that families share: curves, rows of bars in order, rows of estimates. They take released numbers only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...public.dates import along
from ...public.figure import Palette, mark, palette, plain, value_text
from . import sentences
from .canvas import NAMED, axes, finish, name_rows, numbers, paid, panels, titled

STRIP = 0.14
"""The part of the height that a histogram below a curve has."""
ORDER = "the order across a dotted line is sure (95 %)"
"""Below bars in order: what the lines between them say."""
PALE = "pale: not told from zero"
"""Below bars of which some are pale."""


def around(value: float, lower: float, upper: float) -> str:
    """A number and its error bar, for a pointer."""
    return f"{plain(value)}  (95 %: {plain(lower)} to {plain(upper)})" if np.isfinite([lower, upper]).all() else plain(value)


def curve(result: Any, ax: Any = None, histogram: Any = None) -> Any:
    """A line with its error band; categories as rows of points with error bars, the highest on top."""
    what = result.height
    sentence = sentences.curve(result, what)
    if result.smoothed:
        what += " (smoothed: the band does not cover it)"
    if result.categorical:
        return _category_curve(result, ax, what, sentence)
    ax = axes(ax)
    colours, (lower, upper) = palette(ax), result.interval(0.95)
    x, y = along(result.x), result.y
    ax.fill_between(x, lower, upper, color=colours.band, alpha=0.35, linewidth=0)
    unsure = _unsure(y, lower, upper)
    _line(ax, x, y, unsure, colours)
    numbers(ax, x=True, y=True, whole=result.x)
    under = result._under() if histogram is None else _cells(histogram)
    if under is not None:
        strip(ax, under, colours)
    _tell_along(ax, result, x, lower, upper, under)
    below = [*result._below(), *(["grey: how many people there are"] if under is not None else [])]
    if unsure.any():
        below.append("pale: error bars longer than all that the curve does")
    xlabel = result.naming.axis(result.feature)
    return finish(ax, result, sentence, xlabel=xlabel, ylabel=what, errors="95 % error band", below=below)


def _line(ax: Any, x: np.ndarray, y: np.ndarray, unsure: np.ndarray, colours: Palette) -> None:
    """The curve; pale where its error bars are longer than all that it does."""
    dots = "." if len(x) <= 60 else None
    if not unsure.any() or unsure.all():
        ax.plot(x, y, color=colours.ink, marker=dots, alpha=colours.pale if unsure.all() else 1.0)
        return
    ax.plot(x, y, color=colours.ink, marker=dots, alpha=colours.pale)
    ax.plot(x, np.where(unsure, np.nan, y), color=colours.ink, marker=dots)


def _tell_along(ax: Any, result: Any, x: np.ndarray, lower: np.ndarray, upper: np.ndarray, under: Any) -> None:
    borders = np.concatenate([[x[0]], (x[:-1] + x[1:]) / 2, [x[-1]]])
    name, unit = result.naming.name(result.feature), result.naming.unit(result.feature)
    for i, value in enumerate(result.x):
        told = f"{name} = {value_text(value)}{f' {unit}' if unit else ''}: {around(result.y[i], lower[i], upper[i])}"
        if under is not None:
            inside = (under[1] >= x[i]) & (under[0] <= x[i])
            if inside.any():
                told += f"; about {plain(max(float(under[2][inside][0]), 0.0))} people near"
        mark(ax, (float(borders[i]), float(borders[i + 1])), None, told)


def _cells(histogram: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """(left ends, right ends, counts) of a released histogram of the same feature, for the strip below a curve."""
    values = [i for i, v in enumerate(histogram.x) if v != "missing"]
    counts = np.asarray(histogram.counts, dtype=float)[values]
    if histogram.edges:
        return np.array(histogram.edges[:-1]), np.array(histogram.edges[1:]), counts
    middles = along([histogram.x[i] for i in values])
    return middles - 0.5, middles + 0.5, counts


def strip(ax: Any, under: tuple[np.ndarray, np.ndarray, np.ndarray], colours: Palette) -> None:
    """Bars along the lower end of the axes: where people are."""
    left, right, counts = under
    low, high = ax.get_ylim()
    ax.set_ylim(low - STRIP * 1.25 * (high - low), high)
    heights = np.maximum(counts, 0.0)
    heights = heights / max(float(heights.max(initial=0.0)), 1e-300) * STRIP
    style = {"color": colours.small, "alpha": 0.35, "linewidth": 0}
    ax.bar(left, heights, right - left, align="edge", transform=ax.get_xaxis_transform(), **style)


def _category_curve(result: Any, ax: Any, what: str, sentence: str) -> Any:
    words = result.naming
    order = _from_the_top(result)
    names = [value_text(result.x[i]) for i in order]
    ax = axes(ax, names)
    colours, (lower, upper) = palette(ax), (np.asarray(end)[order] for end in result.interval(0.95))
    y = result.y[order]
    rows, steps = name_rows(ax, names, ends=True)
    unsure = _unsure(y, lower, upper)
    dots(ax, y, rows, steps, lower, upper, unsure, colours)
    for name, row, step, value, low, high in zip(names, rows, steps, y, lower, upper):
        mark(ax, None, (row - step / 2, row + step / 2), f"{words.name(result.feature)} = {name}: {around(value, low, high)}")
    numbers(ax, x=True)
    below = [*result._below(), *(["pale: error bars longer than all differences"] if unsure.any() else [])]
    return finish(ax, result, sentence, xlabel=what, ylabel=words.axis(result.feature), below=below, grid="x")


def _unsure(y: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Points whose error bars are as long as all that the curve does, or longer."""
    return ~(upper - lower < np.ptp(y)) if len(y) > 1 else np.zeros(len(y), dtype=bool)


def _from_the_top(result: Any) -> np.ndarray:
    """Values of a category as rows: in their own order if they have one, else the highest first.

    Where not all have names, those of which hardly anything is known go to the middle, which has none.
    """
    if result.naming.ordered(result.feature):
        return np.arange(len(result.x))[::-1]
    order = np.argsort(-result.y, kind="stable")
    if len(order) <= NAMED:
        return order
    unsure = _unsure(result.y, *(np.asarray(end) for end in result.interval(0.95)))[order]
    known, half = order[~unsure], int((~unsure).sum()) // 2
    return np.concatenate([known[:half], order[unsure], known[half:]])


def dots(
    ax: Any,
    values: np.ndarray,
    rows: np.ndarray,
    steps: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    unsure: np.ndarray,
    colours: Palette,
) -> None:
    """Points in rows with their error bars; small and thin where rows are close together."""
    for close in (False, True):
        for pale in (False, True):
            own = (unsure == pale) & ((steps < 0.6) == close)
            if own.any():
                style = {"markersize": 1.5, "elinewidth": 0.4} if close else {"markersize": 5.5, "elinewidth": 1.4, "capsize": 3}
                bars = [np.maximum(values[own] - lower[own], 0), np.maximum(upper[own] - values[own], 0)]
                ink = {"color": colours.ink, "ecolor": colours.band, "alpha": colours.pale if pale else 1.0}
                ax.errorbar(values[own], rows[own], xerr=bars, fmt="o", **ink, **style)


def bars(
    ax: Any,
    names: Sequence[str],
    values: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    tiers: Sequence[int] = (),
    told: Callable[[int], str] | None = None,
) -> list[str]:
    """Rows of bars from zero, the first on top, with error bars. Pale ones are not told from zero; a dotted line divides tiers.

    Returns what has to be said of that below.
    """
    colours, said = palette(ax), []
    rows, steps = name_rows(ax, names)
    with np.errstate(invalid="ignore"):
        pale = ~((lower > 0) | (upper < 0)) & np.isfinite(lower) & np.isfinite(upper)
    shades = [(colours.ink if v >= 0 else colours.down, colours.pale if p else 0.95) for v, p in zip(values, pale)]
    ax.barh(rows, values, 0.7 * steps, color=shades, linewidth=0)
    for i, (row, step, value) in enumerate(zip(rows, steps, values)):
        about = "" if told is None else told(i)
        tier = f"; tier {tiers[i]}" if len(tiers) else ""
        mark(ax, None, (row - step / 2, row + step / 2), f"{names[i]}: {around(value, lower[i], upper[i])}{tier}{about}")
    errors(ax, values, rows, steps, lower, upper, colours)
    for i in range(1, len(tiers)):
        if tiers[i] != tiers[i - 1]:
            ax.axhline((rows[i - 1] - steps[i - 1] / 2), color=colours.bar, linewidth=0.9, linestyle=":")
    ax.axvline(0, color=colours.bar, linewidth=0.8)
    numbers(ax, x=True)
    if len(set(tiers)) > 1:
        said.append(ORDER)
    if pale.any():
        said.append(PALE)
    return ["; ".join(said)] if said else []


def errors(
    ax: Any, values: np.ndarray, rows: np.ndarray, steps: np.ndarray, lower: np.ndarray, upper: np.ndarray, colours: Palette
) -> None:
    """Error bars of rows."""
    if not (np.isfinite(lower).any() and np.isfinite(upper).any()):
        return
    ends = [np.maximum(values - lower, 0), np.maximum(upper - values, 0)]
    caps = 2.0 if (steps > 0.6).all() else 0.0
    ax.errorbar(values, rows, xerr=ends, fmt="none", ecolor=colours.bar, capsize=caps, elinewidth=1.1 if caps else 0.6)


def ranked(result: Any, ax: Any = None) -> Any:
    """Bars in order, the largest on top, with error bars; a dotted line where a tier ends."""
    order, tiers = np.array(result.order), result._tier_of()
    names = [result.naming.name(result.names[i]) for i in order]
    ax = axes(ax, names)
    lower, upper = (np.asarray(end)[order] for end in result.interval(0.95))
    below = bars(ax, names, result.scores[order], lower, upper, [tiers[result.names[i]] for i in order])
    return finish(ax, result, result.headline, xlabel=result.ylabel, below=below, grid="x")


def several(result: Any, ax: Any = None) -> Any:
    """One panel per feature."""
    drawn = panels(len(result.curves), ax)
    for one, panel in zip(result.curves.values(), drawn):
        one.plot(panel)
    if len(drawn):
        corner = drawn[min(_columns(drawn), len(drawn)) - 1]  # the upper right one
        titled(corner, corner.get_title(loc="left").strip(), paid(result))
    return drawn


def _columns(drawn: Any) -> int:
    spec = drawn[0].get_subplotspec()
    return len(drawn) if spec is None else int(spec.get_gridspec().ncols)


def estimates(result: Any, ax: Any = None, *, xlabel: str, sentence: str = "", ordered: bool = False) -> Any:
    """One row per quantity, with its error bar."""
    lower, upper = (np.asarray(end, dtype=float) for end in result.interval(0.95))
    order = np.argsort(-result.values, kind="stable") if ordered else np.arange(len(result.values))
    names = [result.naming.name(result.features[i]) for i in order]
    ax = axes(ax, names)
    rows, steps = name_rows(ax, names)
    colours, values, lower, upper = palette(ax), result.values[order], lower[order], upper[order]
    pale = (lower <= 0) & (upper >= 0)
    dots(ax, values, rows, steps, lower, upper, pale, colours)
    for name, row, step, value, low, high in zip(names, rows, steps, values, lower, upper):
        mark(ax, None, (row - step / 2, row + step / 2), f"{name}: {around(value, low, high)}")
    numbers(ax, x=True)
    return finish(ax, result, sentence, xlabel=xlabel, below=[PALE] if pale.any() else [], grid="x")
