"""Pictures of clusters."""

from __future__ import annotations

import textwrap
from typing import Any

import numpy as np

from ...public.dates import is_dated, like
from ...public.figure import BAND, INK, literally
from ..common.plots import axes, category_axis, finish, note_below, panels

WIDE = 62
"""Letters in a line on top of a panel."""


def cluster(result: Any, ax: Any = None) -> Any:
    """Shares inside the cluster and elsewhere, side by side, each with its own 95 % bar."""
    ax = axes(ax)
    places = np.arange(len(result.x))
    sides = (
        (-0.2, result.share_inside, result.share_interval(0.95), INK, f"cluster {result.cluster}"),
        (0.2, result.share_rest, result.rest_interval(0.95), BAND, "elsewhere"),
    )
    for shift, height, (lower, upper), colour, label in sides:
        ax.bar(places + shift, height, 0.4, color=colour, label=label)
        ax.errorbar(places + shift, height, yerr=[height - lower, upper - height], fmt="none", ecolor="0.35", capsize=2)
    dated = is_dated(result.x)
    borders = [like(edge, result.x) if dated else f"{edge:.4g}" for edge in result.edges]
    labels = [f"{a}–{b}" for a, b in zip(borders[:-1], borders[1:])] if result.edges else list(result.x)
    category_axis(ax, labels + list(result.x[len(labels) :]))
    ax.legend(frameon=False, fontsize=8)
    # Wrapped here: where Matplotlib wraps, it reads formulas into dollar signs whatever it was told.
    ax.set_title(textwrap.fill(result.sentence, WIDE), fontsize=8, loc="left")
    ax.set_xlabel(result.feature)
    note_below(ax, result)
    ax.set_ylabel("share")
    ax.spines[["top", "right"]].set_visible(False)
    return literally(ax)


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
    bars = result.centres - lower, upper - result.centres
    return _map(result, ax, people, size, *bars) if len(result.coordinates) <= 2 else _lines(result, ax, size, *bars)


def _map(result: Any, ax: Any, people: np.ndarray, size: np.ndarray, below: np.ndarray, above: np.ndarray) -> Any:
    """Centres by their coordinates, sized by how many people are near; a single coordinate stands against that number."""
    single = len(result.coordinates) == 1
    x, y = result.centres[:, 0], people if single else result.centres[:, 1]
    vertical = None if single else [below[:, 1], above[:, 1]]
    ax.errorbar(x, y, xerr=[below[:, 0], above[:, 0]], yerr=vertical, fmt="none", ecolor=BAND, capsize=2)
    ax.scatter(x, y, s=20 + 400 * size, color=INK, alpha=0.7)
    for c, place in enumerate(zip(x, y)):
        ax.annotate(str(c), place, color="white", ha="center", va="center", fontsize=8)
    return finish(ax, result, "count" if single else result.coordinates[1], xlabel=result.coordinates[0])


def _lines(result: Any, ax: Any, size: np.ndarray, below: np.ndarray, above: np.ndarray) -> Any:
    """Centres as lines over the coordinates, each in its declared range; the more people are near, the thicker."""
    lowest, width = result.space.scales()
    places = category_axis(ax, result.coordinates)
    for c, share in enumerate(size):
        shift, middle = 0.3 * ((c + 0.5) / len(size) - 0.5), (result.centres[c] - lowest) / width
        bars = [below[c] / width, above[c] / width]
        ax.errorbar(places + shift, middle, yerr=bars, marker="o", capsize=2, linewidth=1 + 3 * share, label=str(c))
    if len(size) <= 12:
        ax.legend(title="cluster", fontsize=8)
    return finish(ax, result, "share of the declared range", xlabel="")
