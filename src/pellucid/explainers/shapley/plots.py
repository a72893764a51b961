"""Pictures of Shapley values. They take released numbers only; a record is shown if whoever asks gives it, and not kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...public.figure import mark, palette, plain, value_text
from ..common.canvas import axes, finish, name_rows, numbers, short
from ..common.plots import around
from ..common.plots import bars as draw_bars


def _closed(ax: Any, result: Any, xlabel: str, below: Any = (), errors: str = "95 % error bars") -> Any:
    label = f" · {result.label}" if result.label else ""
    return finish(ax, result, result.headline, xlabel=xlabel + label, errors=errors, below=below, grid="x")


def named(result: Any, name: str, record: Mapping[str, Any] | None) -> str:
    """A feature, with its value where the record is shown: "age = 63"."""
    called = result.naming.name(name)
    if record is None or name not in record:
        return called
    value, unit = record[name], result.naming.unit(name)
    if value is None or value != value:
        return f"{called} missing"
    return f"{called} = {value_text(value)}{f' {unit}' if unit else ''}"


def bars(result: Any, ax: Any = None, record: Mapping[str, Any] | None = None) -> Any:
    """Signed bars with error bars, by size; a dotted line where the order is sure."""
    order, tiers = result.order, result._tier_of()
    names = [named(result, result.features[i], record) for i in order]
    ax = axes(ax, names)
    lower, upper = (np.asarray(end)[order] for end in result.interval(0.95))
    below = draw_bars(ax, names, result.values[order], lower, upper, [tiers[result.features[i]] for i in order])
    return _closed(ax, result, result.ylabel, below)


def waterfall(result: Any, ax: Any = None, most: int = 12, record: Mapping[str, Any] | None = None) -> Any:
    """Steps from the start to the end, the largest first; what is small is taken together."""
    shown, rest = result.order[:most], result.order[most:]
    halves = result.half_widths(0.95)
    steps = [(named(result, result.features[i], record), float(result.values[i]), float(halves[i])) for i in shown]
    if rest:
        steps.append((f"{len(rest)} others", float(result.values[rest].sum()), 0.0))
    names = [name for name, _, _ in steps]
    ax = axes(ax, names)
    colours, start = palette(ax), result.base if result.base is not None else 0.0
    # Steps go on from each other, so every one of them has a row with a name.
    rows = np.arange(len(steps))[::-1].astype(float)
    ax.set_yticks(rows, [short(name) for name in names], fontsize=9)
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(-0.6, len(rows) - 0.4)
    at = start
    for row, (name, value, half) in zip(rows, steps):
        colour, unsure = colours.ink if value >= 0 else colours.down, half >= abs(value)
        ax.barh(row, value, 0.6, left=at, color=colour, alpha=colours.pale if unsure else 0.9, linewidth=0)
        at += value
        if half:
            ax.errorbar(at, row, xerr=half, fmt="none", ecolor=colours.bar, capsize=2)
        ax.plot([at, at], [row - 1, row + 0.3] if row > 0 else [row - 0.3, row + 0.3], color=colours.bar, linewidth=0.8)
        error = f"{name}: {around(value, value - half, value + half)}" if half else f"{name}: {plain(value)}"
        mark(ax, None, (row - 0.5, row + 0.5), error)
    ax.axvline(start, color=colours.bar, linewidth=0.8, linestyle=":")
    ax.axvline(at, color=colours.ink, linewidth=0.8, linestyle=":")
    numbers(ax, x=True)
    said = (
        f"from the mean prediction {plain(start)} to the prediction {plain(at)}"
        if result.base is not None
        else "values, one after the other"
    )
    return _closed(ax, result, said, ["pale: not told from zero"] if (halves >= np.abs(result.values)).any() else [])


def ranking(result: Any, ax: Any = None, record: Mapping[str, Any] | None = None) -> Any:
    """Places from top to bottom, with values where they are known."""
    names = [f"{place}. {named(result, name, record)}" for place, name in enumerate(result.picked, 1)]
    ax = axes(ax, names)
    if result.magnitudes is None:
        colours = palette(ax)
        rows, steps = name_rows(ax, names)
        ax.barh(rows, np.ones(len(rows)), 0.7 * steps, color=colours.band, alpha=colours.pale)
        for name, row in zip(names, rows):
            mark(ax, None, (row - 0.5, row + 0.5), name)
        ax.set_xticks([])
        return _closed(ax, result, result.text, errors="")
    number = {name: tier for tier, names in enumerate(result.tiers(), 1) for name in names}
    lower, upper = (np.asarray(end, dtype=float) for end in result.interval(0.95))
    below = draw_bars(ax, names, result.values, lower, upper, [number[name] for name in result.picked])
    return _closed(ax, result, "Shapley value", below)
