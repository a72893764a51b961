"""Pictures of clusters. They take released numbers only."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...public.dates import is_dated, like
from ...public.figure import mark, palette, value_text
from ..common.canvas import axes, finish, name_rows, numbers, panels
from ..common.plots import around

COLOURS = ("#1b4965", "#e09f3e", "#4c956c", "#9e2a2b", "#62b6cb", "#7b2d8b", "#8d6a3b", "#595959")
"""Of clusters in one picture, which are also told apart by the numbers beside them."""


def cluster(result: Any, ax: Any = None, cost: str | None = None) -> Any:
    """Shares inside the cluster and elsewhere, one above the other, each with its own 95 % bar."""
    order = np.arange(len(result.x)) if result.ordered else np.argsort(-result.share_inside, kind="stable")
    names = [_value(result, int(i)) for i in order]
    ax = axes(ax, [n for name in names for n in (name, name)] if len(names) <= 6 else names)
    colours = palette(ax)
    rows, steps = name_rows(ax, names)
    sides = (
        (0.2, 100 * result.share_inside, result.share_interval(0.95), colours.ink, f"cluster {result.cluster}"),
        (-0.2, 100 * result.share_rest, result.rest_interval(0.95), colours.band, "elsewhere"),
    )
    for shift, height, (lower, upper), colour, label in sides:
        low, high, at = 100 * lower[order], 100 * upper[order], rows + shift * steps
        ax.barh(at, height[order], 0.38 * steps, color=colour, linewidth=0)
        ends = [np.maximum(height[order] - low, 0), np.maximum(high - height[order], 0)]
        ax.errorbar(height[order], at, xerr=ends, fmt="none", ecolor=colours.bar, capsize=2, elinewidth=0.9)
        top = int(np.argmax(np.where(steps > 0.6, high, -1)))
        ax.annotate(label, (high[top], at[top]), (4, 0), textcoords="offset points", va="center", fontsize=8, color=colour)
        for i, place in enumerate(at):
            told = f"{label}, {result.naming.name(result.feature)} {names[i]}: {around(height[order][i], low[i], high[i])} %"
            mark(ax, None, (place - 0.2 * steps[i], place + 0.2 * steps[i]), told)
    ax.set_xlim(0, 1.25 * ax.get_xlim()[1])
    numbers(ax, x=True)
    small = None if cost is None else cost
    return finish(
        ax, result, result.sentence, xlabel="% of people", ylabel=result.naming.axis(result.feature), small=small, grid="x"
    )


def _value(result: Any, i: int) -> str:
    if not result.edges or i >= len(result.edges) - 1:
        return value_text(result.x[i])
    low, high = result.edges[i], result.edges[i + 1]
    if is_dated(result.x):
        return f"{like(np.ceil(low), result.x)}–{like(np.ceil(high) - 1, result.x)}"
    if result.integer:
        low, high = float(np.ceil(low)), float(np.ceil(high) - 1)
    return value_text(low) if low == high else f"{value_text(low)}–{value_text(high)}"


def clusters(histograms: Any, ax: Any = None) -> Any:
    """One panel per histogram."""
    axes = panels(len(histograms), ax)
    for result, panel in zip(histograms, axes):
        cluster(result, panel)
    return axes


def centres(result: Any, ax: Any = None) -> Any:
    """Up to two coordinates as a map of the centres, more as one line per cluster over the coordinates."""
    ax, people = axes(ax), np.maximum(result.counts, 0)
    size = people / max(people.max(), 1.0)
    lower, upper = result.interval(0.95)
    for c in range(len(size)):
        _tell(ax, result, c, lower[c], upper[c])
    bars = result.centres - lower, upper - result.centres
    return _map(result, ax, people, size, *bars) if len(result.coordinates) <= 2 else _lines(result, ax, size, *bars)


def _tell(ax: Any, result: Any, c: int, lower: np.ndarray, upper: np.ndarray) -> None:
    at = "; ".join(
        f"{result.naming.name(name)} {around(value, low, high)}"
        for name, value, low, high in zip(result.coordinates[:4], result.centres[c], lower, upper)
    )
    if len(result.coordinates) == 2:
        (x, y), (wide, tall) = result.centres[c], 0.03 * np.ptp(np.vstack([lower, upper, result.centres[c]]), axis=0) + 1e-12
        reach = np.maximum([wide, tall], 0.02 * np.abs(result.space.scales()[1]))
        mark(
            ax,
            (x - reach[0], x + reach[0]),
            (y - reach[1], y + reach[1]),
            f"cluster {c}, about {result.counts[c]:,.0f} people: {at}",
        )


def _map(result: Any, ax: Any, people: np.ndarray, size: np.ndarray, below: np.ndarray, above: np.ndarray) -> Any:
    """Centres by their coordinates, sized by how many people are near; a single coordinate stands against that number."""
    single, colours, words = len(result.coordinates) == 1, palette(ax), result.naming
    x, y = result.centres[:, 0], people if single else result.centres[:, 1]
    vertical = None if single else [below[:, 1], above[:, 1]]
    ax.errorbar(x, y, xerr=[below[:, 0], above[:, 0]], yerr=vertical, fmt="none", ecolor=colours.band, capsize=2)
    ax.scatter(x, y, s=60 + 400 * size, color=colours.ink, alpha=0.85, zorder=3)
    for c, place in enumerate(zip(x, y)):
        ax.annotate(str(c), place, color=ax.get_facecolor(), ha="center", va="center", fontsize=8, fontweight="bold", zorder=4)
    numbers(ax, x=True, y=True)
    ylabel = "people" if single else words.axis(result.coordinates[1])
    below_ = ["numbers: clusters; the larger, the more people are near"]
    return finish(ax, result, result.headline, xlabel=words.axis(result.coordinates[0]), ylabel=ylabel, below=below_)


def _lines(result: Any, ax: Any, size: np.ndarray, below: np.ndarray, above: np.ndarray) -> Any:
    """Centres in rows of coordinates, each in its declared range, with the number of the cluster at every point."""
    lowest, width = result.space.scales()
    names = [result.naming.name(name) for name in result.coordinates]
    rows, steps = name_rows(ax, names)
    if ax.figure.axes == [ax]:
        ax.figure.set_figheight(max(3.0, 1.6 + 0.16 * (len(size) + 1) * min(len(names), 18)))
    for c, share in enumerate(size):
        at = rows + 0.7 * steps * (0.5 - (c + 0.5) / len(size))
        middle, colour = 100 * (result.centres[c] - lowest) / width, COLOURS[c % len(COLOURS)]
        ends = [100 * below[c] / width, 100 * above[c] / width]
        ax.errorbar(middle, at, xerr=ends, fmt="o", markersize=3 + 4 * share, color=colour, elinewidth=1, capsize=2)
        for i, (x, y) in enumerate(zip(middle + ends[1], at)):
            if steps[i] > 0.6:
                ax.annotate(str(c), (x, y), (4, 0), textcoords="offset points", va="center", fontsize=7, color=colour)
            value = around(result.centres[c][i], result.centres[c][i] - below[c][i], result.centres[c][i] + above[c][i])
            told = f"cluster {c}, about {result.counts[c]:,.0f} people: {names[i]} {value}"
            mark(ax, None, (y - 0.3 * steps[i] / len(size), y + 0.3 * steps[i] / len(size)), told)
    ax.set_xlim(-3, 106)
    numbers(ax, x=True)
    below_ = ["numbers: clusters; the larger a point, the more people are near"]
    return finish(ax, result, result.headline, xlabel="% of the declared range", below=below_, grid="x")
