"""Pictures of local linear explanations. They take released numbers only."""

from __future__ import annotations

import textwrap
from typing import Any

import numpy as np

from ...public.figure import DOWN, INK, literally, pyplot
from ..common.plots import finish, name_axis

FAINT = 0.25
"""How much is seen of a value that noise alone could have made."""

WIDE = 64
"""Letters in a line on top: as many as fit the smallest of these pictures."""


def _tall(ax: Any, rows: int) -> Any:
    """The axes given, or new ones with room for so many rows."""
    return pyplot().subplots(figsize=(6.4, 1.7 + 0.24 * max(rows, 6)), layout="constrained")[1] if ax is None else ax


def _colour(value: float) -> str:
    return INK if value >= 0 else DOWN


def _closed(ax: Any, result: Any, xlabel: str, error: str) -> Any:
    """Labels, and on top where the numbers came from, what they cost and what the error bars are."""
    around = f"\n{result.neighbourhood}" if result.neighbourhood else ""
    finish(ax, result, "", xlabel=xlabel + around)
    ax.grid(visible=False)
    certificate = result.certificate
    status = [] if certificate is None else [certificate.status if certificate.private else "NOT PRIVATE"]
    noise = ["within the noise"] if result.told is False else []
    said = " · ".join([*status, "error not known" if result.std is None else error, *noise])
    ax.set_title(f"{textwrap.fill(result.origin, WIDE)}\n{said}", fontsize=9, loc="right", color="0.4")
    return literally(ax)


def bars(result: Any, ax: Any = None, most: int = 20) -> Any:
    """Signed bars by size, with error bars where they are known; at most `most` of them."""
    order = result.order[:most]
    ax = _tall(ax, len(order))
    values, (lower, upper) = result.values[order], np.array(result.interval())[:, order]
    rows = name_axis(ax, [result.features[i] for i in order])
    ax.barh(rows, values, 0.7, color=[_colour(value) for value in values], alpha=0.9)
    if result.std is not None:
        ax.errorbar(values, rows, xerr=[values - lower, upper - values], fmt="none", ecolor="0.35", capsize=2)
    ax.axvline(0, color="0.6", linewidth=0.8)
    part = f"\nthe {len(order)} largest of {len(result.features)}" if len(order) < len(result.features) else ""
    return _closed(ax, result, f"change of {result.output} from lowest to highest value{part}", "95 % error bars")


def heat_map(result: Any, shape: tuple[int, int], ax: Any = None) -> Any:
    """The values row by row as a picture; blue pushes the output up and red pulls it down."""
    plt = pyplot()
    from matplotlib.colors import LinearSegmentedColormap

    ax = plt.subplots(figsize=(5, 4.6), layout="constrained")[1] if ax is None else ax
    values = result.values.reshape(shape)
    # Around zero alike to both sides, so that a colour says the sign.
    largest = float(np.abs(values).max()) or 1.0
    half = None if result.std is None else result.half_widths(0.95).reshape(shape)
    seen = None if half is None else np.where(np.abs(values) < half, FAINT, 1.0)
    colours = LinearSegmentedColormap.from_list("down to up", [DOWN, "white", INK])
    image = ax.imshow(values, cmap=colours, vmin=-largest, vmax=largest, alpha=seen, interpolation="nearest")
    scale = ax.figure.colorbar(image, ax=ax, shrink=0.85, label=f"change of {result.output} from lowest to highest value")
    literally(scale.ax)
    ax.set_xticks([])
    ax.set_yticks([])
    return _closed(ax, result, "", "faint: within the 95 % error")


def words(result: Any, up: list[int], down: list[int], ax: Any = None) -> Any:
    """What pulls down on the left and what pushes up on the right, the strongest on top, each word at the end of its bar."""
    tall = max(len(up), len(down), 1)
    ax = _tall(ax, tall)
    values, half = result.values, result.half_widths(0.95)
    reach = max((abs(float(values[i])) + np.nan_to_num(half[i]) for i in up + down), default=1.0)
    for side, sign in ((up, 1), (down, -1)):
        for row, i in zip(range(tall - 1, -1, -1), side):
            ax.barh(row, values[i], 0.7, color=_colour(values[i]), alpha=0.9)
            if result.std is not None:
                ax.errorbar(values[i], row, xerr=half[i], fmt="none", ecolor="0.35", capsize=2)
            name = result.features[i]
            end = values[i] + sign * (np.nan_to_num(half[i]) + 0.04 * reach)
            ax.text(end, row, name if len(name) <= 18 else name[:17] + "…", ha="left" if sign > 0 else "right", va="center")
    ax.axvline(0, color="0.6", linewidth=0.8)
    # Room for the words beyond the longest bar.
    ax.set_xlim(-1.9 * reach, 1.9 * reach)
    ax.set_ylim(-0.6, tall - 0.4)
    ax.set_yticks([])
    ax.spines["left"].set_visible(False)
    return _closed(ax, result, f"pulls {result.output} down   |   pushes {result.output} up", "95 % error bars")
