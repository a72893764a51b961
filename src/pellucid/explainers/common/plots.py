"""Pictures of explanations. They take released numbers only; matplotlib is imported when a picture is asked for."""

from __future__ import annotations

import textwrap
from typing import Any

import numpy as np

from ...errors import PlanError
from ...public.dates import drawn
from ...public.figure import BAND, INK, literally, pyplot


def axes(ax: Any) -> Any:
    return pyplot().subplots(figsize=(6, 3.8), layout="constrained")[1] if ax is None else ax


SHADES = "the shade changes where the order is sure"
"""Below bars in order: what their colours say."""


def finish(
    ax: Any, result: Any, ylabel: str, xlabel: str | None = None, errors: str = "95 % error bars", below: tuple[str, ...] = ()
) -> Any:
    """Labels, on top what it cost, its status and how errors are drawn, and below what has to be said beside the numbers."""
    ax.set_xlabel(result.feature if xlabel is None else xlabel)
    note_below(ax, result, *below)
    ax.set_ylabel(ylabel)
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="y", alpha=0.25)
    head(ax, result, errors)
    return literally(ax)


def head(ax: Any, result: Any, errors: str = "") -> None:
    """On top, what it cost, its status and how errors are drawn: a picture goes further than its certificate."""
    certificate = result.certificate
    if certificate is not None:
        cost = f"ε = {certificate.epsilon:.3g}" + (f", δ = {certificate.delta:g}" if certificate.delta else "")
        note = cost if certificate.private else "NOT PRIVATE"
        said = " · ".join(part for part in (note, certificate.status, errors) if part)
        ax.set_title(said, fontsize=9, loc="right", color="0.4")


def note_below(ax: Any, result: Any, *notes: str) -> None:
    """Small print below the picture, and how many records are not in it, in lines so short that no edge cuts them off."""
    uncounted = () if result.uncounted is None else (result.uncounted.note,)
    said = "\n".join(textwrap.fill(note, 72) for note in (*notes, *uncounted))
    if said:
        style = {"ha": "center", "va": "top", "fontsize": 8, "color": "0.4", "annotation_clip": False}
        ax.annotate(said, (0.5, 0), (0, -4), xycoords=ax.xaxis.label, textcoords="offset points", **style)


def category_axis(ax: Any, labels: Any) -> np.ndarray:
    places = np.arange(len(labels))
    long = max((len(str(v)) for v in labels), default=0) * len(labels) > 60
    ax.set_xticks(places, [str(v) for v in labels], rotation=45 if long else 0, ha="right" if long else "center")
    return places


def curve(result: Any, ax: Any = None) -> Any:
    """A line with its error band; categories as points with error bars."""
    ax = axes(ax)
    lower, upper = result.interval(0.95)
    if result.categorical:
        places = category_axis(ax, result.x)
        ax.errorbar(places, result.y, yerr=[result.y - lower, upper - result.y], fmt="o", color=INK, ecolor=BAND, capsize=3)
    else:
        places = drawn(result.x)
        ax.fill_between(places, lower, upper, color=BAND, alpha=0.35, linewidth=0)
        ax.plot(places, result.y, color=INK, marker="." if len(result.x) <= 60 else None)
    ylabel = result.ylabel + (" (smoothed: the band does not cover it)" if result.smoothed else "")
    errors = "95 % error bars" if result.categorical else "95 % error band"
    return finish(ax, result, ylabel, errors=errors, below=result._below())


def ranked(result: Any, ax: Any = None) -> Any:
    """Bars in order, the largest on top, with error bars; shades change where a tier ends."""
    ax = axes(ax)
    lower, upper = result.interval(0.95)
    order, tiers = np.array(result.order), result._tier_of()
    rows = np.arange(len(order))[::-1]
    values = result.scores[order]
    colours = [(INK, BAND)[tiers[result.names[i]] % 2] for i in order]
    ax.barh(rows, values, 0.7, color=colours, alpha=0.85)
    bars = [values - lower[order], upper[order] - values]
    ax.errorbar(values, rows, xerr=bars, fmt="none", ecolor="0.35", capsize=2)
    ax.set_yticks(rows, [name if len(name) <= 40 else name[:39] + "…" for name in (result.names[i] for i in order)])
    ax.set_ylim(-0.6, len(rows) - 0.4)
    finish(ax, result, "", xlabel=result.ylabel, below=(SHADES,))
    ax.grid(axis="y", visible=False)
    return ax


def panels(count: int, ax: Any = None) -> Any:
    """Axes for so many panels: new ones, three in a row, or those given."""
    if ax is None:
        columns = min(3, count)
        rows = -(-count // columns)
        _, grid = pyplot().subplots(rows, columns, figsize=(4.6 * columns, 3.2 * rows), layout="constrained", squeeze=False)
        axes = grid.ravel()
    else:
        axes = np.atleast_1d(np.asarray(ax, dtype=object)).ravel()
        if len(axes) < count:
            raise PlanError(f"ax holds {len(axes)} axes, but there are {count} panels to draw.")
    for panel in axes[count:]:
        panel.set_visible(False)
    return axes[:count]


def several(result: Any, ax: Any = None) -> Any:
    """One panel per feature."""
    axes = panels(len(result.curves), ax)
    for curve, panel in zip(result.curves.values(), axes):
        curve.plot(panel)
    if len(axes):
        head(axes[min(3, len(axes)) - 1], result)  # the upper right one
    return axes


def estimates(result: Any, ax: Any = None) -> Any:
    """One row per quantity, with its error bar."""
    ax = axes(ax)
    lower, upper = result.interval(0.95)
    rows = np.arange(len(result.features))[::-1]
    ax.errorbar(
        result.values, rows, xerr=[result.values - lower, upper - result.values], fmt="o", color=INK, ecolor=BAND, capsize=3
    )
    ax.set_yticks(rows, [label if len(label) <= 40 else label[:39] + "…" for label in result.features])
    ax.set_ylim(-0.6, len(rows) - 0.4)
    finish(ax, result, "", xlabel=result.aggregate)
    return ax


def name_axis(ax: Any, names: Any) -> np.ndarray:
    rows = np.arange(len(names))[::-1]
    ax.set_yticks(rows, [name if len(name) <= 40 else name[:39] + "…" for name in names])
    ax.set_ylim(-0.6, len(rows) - 0.4)
    return rows
