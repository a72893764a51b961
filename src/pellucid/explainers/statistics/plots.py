"""Pictures of counts and of what is not as declared."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...public.dates import along, is_dated, like
from ...public.figure import mark, palette, plain, value_text
from ..common import sentences
from ..common.canvas import axes, brief, finish, name_rows, numbers
from ..common.plots import around, bars

MISSING = "missing"


def counts(result: Any, ax: Any = None) -> Any:
    """A histogram with error bars; categories as rows of bars, the most common on top. Pale: not told from nobody."""
    if result.categorical:
        return _rows(result, ax)
    ax = axes(ax)
    colours, (lower, upper) = palette(ax), result.interval(0.95)
    inner = [i for i, v in enumerate(result.x) if v != MISSING]
    left, right = ends(result, inner)
    middles, widths = (left + right) / 2, right - left
    if len(inner) < len(result.x):  # a bar apart at the right, for cells without a value
        step = 3 * float(np.median(widths))
        middles, widths = np.append(middles, right[-1] + step), np.append(widths, 0.8 * step)
    pale = np.where(lower <= 0, colours.pale, 1.0)
    for middle, width, height, seen in zip(middles, widths, result.counts, pale):
        ax.bar(middle, height, 0.94 * width, color=colours.band, alpha=seen, linewidth=0)
    if len(middles) <= 120:
        half = np.array([result.counts - lower, upper - result.counts])
        ax.errorbar(middles, result.counts, yerr=half, fmt="none", ecolor=colours.ink, capsize=2 if len(middles) <= 40 else 0)
    name = result.naming.name(result.feature)
    for i, (middle, width) in enumerate(zip(middles, widths)):
        told = f"{name} {cell(result, i)}: {around(result.counts[i], lower[i], upper[i])} people"
        mark(ax, (middle - width / 2, middle + width / 2), None, told)
    numbers(ax, x=True, y=True, whole=[] if result.edges and not is_dated(result.x) else [result.x[i] for i in inner])
    if len(inner) < len(result.x):
        _name_last(ax, float(middles[-1]), float(right[-1]))
    below = ["pale: not told from nobody"] if (pale < 1).any() else []
    return finish(ax, result, result.headline, xlabel=result.naming.axis(result.feature), ylabel="people", below=below)


def _name_last(ax: Any, place: float, end: float) -> None:
    """A name for the bar that stands apart, beside the numbers of the others."""
    from matplotlib.ticker import FixedLocator, FuncFormatter

    usual = ax.xaxis.get_major_formatter()
    inner = [v for v in ax.xaxis.get_major_locator().tick_values(ax.get_xlim()[0], end) if ax.get_xlim()[0] <= v <= end]
    ax.xaxis.set_major_locator(FixedLocator([*inner, place]))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda v, _: MISSING if v == place else usual(v)))


def ends(result: Any, inner: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Where the cells of numbers begin and end."""
    if result.edges:
        return np.array(result.edges[:-1], dtype=float), np.array(result.edges[1:], dtype=float)
    middles = along([result.x[i] for i in inner])
    half = float(np.diff(middles).min()) / 2 if len(middles) > 1 else 0.5
    return middles - half, middles + half


def cell(result: Any, i: int) -> str:
    """One cell in words."""
    if not result.edges or result.x[i] == MISSING:
        return value_text(result.x[i])
    low, high = result.edges[i], result.edges[i + 1]
    if is_dated(result.x):
        return f"{like(np.ceil(low), result.x)} to {like(np.ceil(high) - 1, result.x)}"
    if all(edge % 1 == 0.5 for edge in result.edges):  # cells of whole numbers end between them
        low, high = low + 0.5, high - 0.5
    return value_text(low) if low == high else f"{value_text(low)} to {value_text(high)}"


def _rows(result: Any, ax: Any) -> Any:
    ordered = result.naming.ordered(result.feature)
    order = np.arange(len(result.x))[::-1] if ordered else np.argsort(-result.counts, kind="stable")
    last = [i for i in order if result.x[i] == MISSING]
    order = np.array([i for i in order if result.x[i] != MISSING] + last)
    names = [result.naming.name(value_text(result.x[i])) for i in order]
    ax = axes(ax, names)
    lower, upper = (end[order] for end in result.interval(0.95))
    said = bars(ax, names, result.counts[order], lower, upper)
    below = ["pale: not told from nobody"] if said else []
    return finish(ax, result, result.headline, xlabel="people", ylabel=result.naming.axis(result.feature), below=below, grid="x")


def spread(result: Any) -> str:
    """What a histogram says for sure: its most common cell, or fewer than half of its cells with more than half of all people."""
    lower, upper = sentences.together(result, len(result.counts))
    name, top = brief(result.naming.name(result.feature)), int(np.argmax(lower))
    if len(lower) > 1 and lower[top] > np.delete(upper, top).max():
        return sentences.begun(f"{name}: {brief(cell(result, top))} is most common", result, result.feature)
    if not result.categorical:
        best = _majority(np.maximum(lower, 0.0), np.maximum(upper, 0.0))
        if best is not None and best[1] - best[0] + 1 <= len(lower) / 2 and MISSING not in result.x:
            low, high = cell(result, best[0]).split(" to ")[0], cell(result, best[1]).split(" to ")[-1]
            return f"Most people have {name} from {low} to {high}"
    return f"How {name} is spread"


def _majority(lower: np.ndarray, upper: np.ndarray) -> tuple[int, int] | None:
    """The shortest run of cells that for sure has more people than all the others."""
    below, above = np.concatenate([[0.0], np.cumsum(lower)]), np.concatenate([[0.0], np.cumsum(upper)])
    for width in range(1, len(lower) + 1):
        starts = np.arange(len(lower) - width + 1)
        least, rest = below[starts + width] - below[starts], above[-1] - (above[starts + width] - above[starts])
        sure = np.flatnonzero(least > rest)
        if len(sure):
            start = int(sure[np.argmax((least - rest)[sure])])
            return start, start + width - 1
    return None


def completeness(result: Any, ax: Any = None) -> Any:
    """Bars per column, one for each condition that can be, with error bars; the least complete column on top."""
    names = list(dict.fromkeys(result.features))
    worst = {name: max(s for s, own in zip(result.shares, result.features) if own == name) for name in names}
    names.sort(key=lambda name: -worst[name])
    ax = axes(ax, [n for name in names for n in (name, name)][: 2 * len(names)] if len(names) <= 6 else names)
    colours = palette(ax)
    shades = {"missing": colours.ink, "unreadable": colours.down, "not declared": colours.down, "out of range": colours.band}
    lower, upper = (100 * end for end in result.interval(0.95))
    shares = np.clip(100 * result.shares, 0, 100)
    rows, steps = name_rows(ax, [result.naming.name(name) for name in names])
    places = dict(zip(names, zip(rows, steps)))
    order = list(dict.fromkeys(result.conditions))
    labelled: dict[str, tuple[float, float, float]] = {}
    for i, (name, what) in enumerate(zip(result.features, result.conditions)):
        own = [c for n, c in zip(result.features, result.conditions) if n == name]
        row, step = places[name]
        row += step * 0.26 * ((len(own) - 1) / 2 - own.index(what))
        pale = colours.pale if lower[i] <= 0 else 1.0
        ax.barh(row, shares[i], 0.24 * step, color=shades[what], alpha=pale, linewidth=0)
        bar = [[max(shares[i] - lower[i], 0)], [max(upper[i] - shares[i], 0)]]
        ax.errorbar([shares[i]], [row], xerr=bar, fmt="none", ecolor=colours.bar, capsize=2 if step > 0.6 else 0, elinewidth=0.9)
        told = f"{result.naming.name(name)}, {what}: {plain(shares[i])} % (95 %: {plain(lower[i])} to {plain(upper[i])} %)"
        mark(ax, None, (row - 0.13 * step, row + 0.13 * step), told)
        if step > 0.6 and (what not in labelled or upper[i] > labelled[what][0]):
            labelled[what] = (float(upper[i]), row, pale)
    for what in order:  # each condition is named once, at its longest bar
        if what in labelled:
            end, row, _ = labelled[what]
            ax.annotate(what, (end, row), (4, 0), textcoords="offset points", va="center", fontsize=8, color=shades[what])
    ax.set_xlim(left=0)
    ax.margins(x=0.16)
    numbers(ax, x=True)
    below = ["pale: not told from none"] if (lower <= 0).any() else []
    return finish(ax, result, result.headline, xlabel="% of cells", below=below, grid="x")
