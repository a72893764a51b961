"""Pictures of Shapley values. They take released numbers only."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...public.figure import BAND, DOWN, INK
from ..common.plots import SHADES, axes, finish, name_axis


def _closed(ax: Any, result: Any, xlabel: str, *below: str, errors: str = "95 % error bars") -> Any:
    finish(ax, result, "", xlabel=xlabel + (f" · {result.label}" if result.label else ""), errors=errors, below=below)
    ax.grid(axis="y", visible=False)
    return ax


def bars(result: Any, ax: Any = None, most: int = 30) -> Any:
    """Signed bars with error bars, by size; at most `most` of them."""
    ax = axes(ax)
    order = result.order[:most]
    lower, upper = (end[order] for end in result.interval(0.95))
    values, tiers = result.values[order], result._tier_of()
    rows = name_axis(ax, [result.features[i] for i in order])
    shade = [0.95 if tiers[result.features[i]] % 2 else 0.55 for i in order]
    for row, value, alpha in zip(rows, values, shade):
        ax.barh(row, value, 0.7, color=INK if value >= 0 else DOWN, alpha=alpha)
    ax.errorbar(values, rows, xerr=[values - lower, upper - values], fmt="none", ecolor="0.35", capsize=2)
    ax.axvline(0, color="0.6", linewidth=0.8)
    return _closed(ax, result, result.ylabel, SHADES)


def waterfall(result: Any, ax: Any = None, most: int = 12) -> Any:
    """Steps from the start to the end, the largest first; what is small is taken together."""
    ax = axes(ax)
    shown, rest = result.order[:most], result.order[most:]
    steps = [(result.features[i], float(result.values[i]), float(h)) for i in shown for h in [result.half_widths(0.95)[i]]]
    if rest:
        steps.append((f"{len(rest)} others", float(result.values[rest].sum()), 0.0))
    start = result.base if result.base is not None else 0.0
    rows = name_axis(ax, [name for name, _, _ in steps])
    at = start
    for row, (_, value, half) in zip(rows, steps):
        ax.barh(row, value, 0.6, left=at, color=INK if value >= 0 else DOWN, alpha=0.85)
        at += value
        if half:
            ax.errorbar(at, row, xerr=half, fmt="none", ecolor="0.35", capsize=2)
        ax.plot([at, at], [row - 1, row + 0.3] if row > 0 else [row - 0.3, row + 0.3], color="0.6", linewidth=0.8)
    ax.axvline(start, color="0.6", linewidth=0.8, linestyle=":")
    ax.axvline(at, color=INK, linewidth=0.8, linestyle=":")
    said = (
        f"from the mean prediction {start:.3g} to the prediction {at:.3g}"
        if result.base is not None
        else "values, one after the other"
    )
    return _closed(ax, result, said)


def ranking(result: Any, ax: Any = None) -> Any:
    """Places from top to bottom, with values where they are known."""
    ax = axes(ax)
    rows = name_axis(ax, [f"{place}. {name}" for place, name in enumerate(result.picked, 1)])
    if result.magnitudes is None:
        ax.barh(rows, np.ones(len(rows)), 0.7, color=BAND, alpha=0.35)
        ax.set_xticks([])
        return _closed(ax, result, f"right with 95 % where the lead is at least {result.gap:.3g}", errors="")
    tiers = {name: number for number, names in enumerate(result.tiers(), 1) for name in names}
    lower, upper = result.interval(0.95)
    for row, name, value in zip(rows, result.picked, result.values):
        ax.barh(row, value, 0.7, color=INK if value >= 0 else DOWN, alpha=0.95 if tiers[name] % 2 else 0.55)
    ax.errorbar(result.values, rows, xerr=[result.values - lower, upper - result.values], fmt="none", ecolor="0.35", capsize=2)
    ax.axvline(0, color="0.6", linewidth=0.8)
    return _closed(ax, result, "Shapley value", SHADES)
