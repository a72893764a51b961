"""Pictures of local linear explanations. They take released numbers only."""

from __future__ import annotations

import textwrap
from typing import Any

import numpy as np

from ...public.figure import literally, mark, number_axis, palette, plain, pyplot
from ..common.canvas import axes, finish, numbers
from ..common.plots import around
from ..common.plots import bars as draw_bars

FAINT = 0.25
"""How much is seen of a value that noise alone could have made."""

WIDE = 76
"""Letters in a line of small print on top: as many as fit the smallest of these pictures."""


def _closed(ax: Any, result: Any, xlabel: str, error: str, below: Any = (), grid: str = "") -> Any:
    """Labels, and on top where the numbers came from, what they cost and what the error bars are."""
    around = f"\n{result.neighbourhood}" if result.neighbourhood else ""
    certificate = result.certificate
    status = [] if certificate is None else [certificate.status if certificate.private else "NOT PRIVATE"]
    noise = ["within the noise"] if result.told is False else []
    said = " · ".join([*status, "error not known" if result.std is None else error, *noise])
    small = f"{textwrap.fill(result.origin, WIDE)}\n{said}"
    return finish(ax, result, result.headline, xlabel=xlabel + around, below=below, small=small, grid=grid)


def bars(result: Any, ax: Any = None, most: int = 12) -> Any:
    """Signed bars by size, with error bars where they are known; at most `most` of them."""
    order = result.order[:most]
    names = [result.naming.name(result.features[i]) for i in order]
    ax = axes(ax, names)
    values, (lower, upper) = result.values[order], np.array(result.interval())[:, order]
    below = draw_bars(ax, names, values, lower, upper)
    part = f"\nthe {len(order)} largest of {len(result.features)}" if len(order) < len(result.features) else ""
    xlabel = f"change of {result.output} from lowest to highest value{part}"
    return _closed(ax, result, xlabel, "95 % error bars", below, grid="x")


def heat_map(result: Any, shape: tuple[int, int], ax: Any = None) -> Any:
    """The values row by row as a picture; blue pushes the output up and red pulls it down."""
    plt = pyplot()
    from matplotlib.colors import LinearSegmentedColormap

    ax = plt.subplots(figsize=(5, 4.6), layout="constrained")[1] if ax is None else ax
    values, palette_ = result.values.reshape(shape), palette(ax)
    # Around zero alike to both sides, so that a colour says the sign.
    largest = float(np.abs(values).max()) or 1.0
    half = None if result.std is None else result.half_widths(0.95).reshape(shape)
    seen = None if half is None else np.where(np.abs(values) < half, FAINT, 1.0)
    colours = LinearSegmentedColormap.from_list("down to up", [palette_.down, "white", palette_.ink])
    image = ax.imshow(values, cmap=colours, vmin=-largest, vmax=largest, alpha=seen, interpolation="nearest")
    scale = ax.figure.colorbar(image, ax=ax, shrink=0.85, label=f"change of {result.output} from lowest to highest value")
    number_axis(scale.ax.yaxis)
    literally(scale.ax)
    if values.size <= 1024:
        lower, upper = (end.reshape(shape) for end in result.interval())
        for row, column in np.ndindex(shape):
            name = result.naming.name(result.features[row * shape[1] + column])
            told = f"{name}: {around(values[row, column], lower[row, column], upper[row, column])}"
            mark(ax, (column - 0.5, column + 0.5), (row - 0.5, row + 0.5), told)
    ax.set_xticks([])
    ax.set_yticks([])
    return _closed(ax, result, "", "faint: within the 95 % error")


def words(result: Any, up: list[int], down: list[int], ax: Any = None) -> Any:
    """What pulls down on the left and what pushes up on the right, the strongest on top, each word at the end of its bar."""
    tall = max(len(up), len(down), 1)
    ax = axes(ax, [""] * tall)
    values, half, colours = result.values, result.half_widths(0.95), palette(ax)
    reach = max((abs(float(values[i])) + np.nan_to_num(half[i]) for i in up + down), default=1.0)
    ends = [
        sum(([values[i] - np.nan_to_num(half[i]), values[i] + np.nan_to_num(half[i])] for i in pair), [0.0])
        for pair in (tuple(side[k] for side in (up, down) if k < len(side)) for k in range(tall))
    ]
    for side, sign in ((up, 1), (down, -1)):
        for row, i, reached in zip(range(tall - 1, -1, -1), side, ends):
            colour = colours.ink if values[i] >= 0 else colours.down
            pale = result.std is not None and half[i] >= abs(values[i])
            ax.barh(row, values[i], 0.7, color=colour, alpha=colours.pale if pale else 0.9, linewidth=0)
            if result.std is not None:
                ax.errorbar(values[i], row, xerr=half[i], fmt="none", ecolor=colours.bar, capsize=2)
            name = result.naming.name(result.features[i])
            end = (max(reached) if sign > 0 else min(reached)) + sign * 0.04 * reach
            ax.text(end, row, name if len(name) <= 18 else name[:17] + "…", ha="left" if sign > 0 else "right", va="center")
            across = (0.0, 1.9 * reach) if sign > 0 else (-1.9 * reach, 0.0)
            mark(
                ax,
                across,
                (row - 0.5, row + 0.5),
                f"{name}: {plain(values[i])}" + (f" ± {plain(half[i])}" if half[i] > 0 else ""),
            )
    ax.axvline(0, color=colours.bar, linewidth=0.8)
    # Room for the words beyond the longest bar.
    ax.set_xlim(-1.9 * reach, 1.9 * reach)
    ax.set_ylim(-0.6, tall - 0.4)
    ax.set_yticks([])
    ax.spines["left"].set_visible(False)
    numbers(ax, x=True)
    return _closed(ax, result, f"pulls {result.output} down   |   pushes {result.output} up", "95 % error bars")
