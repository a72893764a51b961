"""Pictures of counts and estimates."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...public.dates import DAY, drawn, is_dated
from ...public.figure import BAND, DOWN, INK, pyplot
from ..common.plots import axes, category_axis, finish, name_axis


def counts(result: Any, ax: Any = None) -> Any:
    """Bars with error bars."""
    ax = axes(ax)
    lower, upper = result.interval(0.95)
    if result.edges:
        middles, widths = _bars([v for v in result.x if v != "missing"], np.diff(result.edges))
        ax.bar(middles, result.counts[: len(middles)], widths, color=BAND)
        ax.errorbar(
            middles, result.counts[: len(middles)], yerr=(upper - lower)[: len(middles)] / 2, fmt="none", ecolor=INK, capsize=2
        )
    else:
        named = result.categorical or "missing" in result.x
        places = category_axis(ax, result.x) if named else drawn(result.x)
        ax.bar(places, result.counts, 0.85, color=BAND)
        ax.errorbar(places, result.counts, yerr=(upper - lower) / 2, fmt="none", ecolor=INK, capsize=2)
    return finish(ax, result, "count")


def _bars(middles: list[Any], widths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where bars of intervals stand and how wide they are; days, if they are about days or times."""
    days = 1.0 if not any("T" in str(v) for v in middles) else 1 / DAY
    return drawn(middles), widths * 0.95 * (days if is_dated(middles) else 1.0)


SHADES = {"missing": INK, "unreadable": DOWN, "not declared": DOWN, "out of range": BAND}
"""The colour of each condition."""


def completeness(result: Any, ax: Any = None) -> Any:
    """A group of bars per column, one for each condition, with error bars; the least complete column on top."""
    names = list(dict.fromkeys(result.features))
    worst = {name: max(s for s, own in zip(result.shares, result.features) if own == name) for name in names}
    names.sort(key=lambda name: -worst[name])
    if ax is None:
        ax = pyplot().subplots(figsize=(6, max(2.4, 0.8 + 0.55 * len(names))), layout="constrained")[1]
    lower, upper = (100 * end for end in result.interval(0.95))
    shares = np.clip(100 * result.shares, 0, 100)
    rows = dict(zip(names, name_axis(ax, names)))
    kinds = list(dict.fromkeys(SHADES[what] for what in result.conditions))
    for shade in kinds:
        own = [i for i, what in enumerate(result.conditions) if SHADES[what] == shade]
        shift = 0.26 * ((len(kinds) - 1) / 2 - kinds.index(shade))
        places = [rows[result.features[i]] + shift for i in own]
        label = " or ".join(dict.fromkeys(result.conditions[i] for i in own))
        ax.barh(places, shares[own], 0.24, color=shade, label=label)
        bars = [np.maximum(shares[own] - lower[own], 0), np.maximum(upper[own] - shares[own], 0)]
        ax.errorbar(shares[own], places, xerr=bars, fmt="none", ecolor="0.35", capsize=2)
    ax.set_xlim(left=0)
    ax.legend(frameon=False, fontsize=8)
    finish(ax, result, "", xlabel="% of cells")
    ax.grid(axis="y", visible=False)
    return ax
