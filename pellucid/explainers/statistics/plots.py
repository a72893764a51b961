"""Pictures of counts and estimates."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...public.figure import BAND, INK
from ..common.plots import axes, category_axis, finish


def counts(result: Any, ax: Any = None) -> Any:
    """Bars with error bars."""
    ax = axes(ax)
    lower, upper = result.interval(0.95)
    if result.edges:
        middles = [v for v in result.x if v != "missing"]
        widths = np.diff(result.edges)
        ax.bar(middles, result.counts[: len(middles)], widths * 0.95, color=BAND)
        ax.errorbar(
            middles, result.counts[: len(middles)], yerr=(upper - lower)[: len(middles)] / 2, fmt="none", ecolor=INK, capsize=2
        )
    else:
        named = result.categorical or "missing" in result.x
        places = category_axis(ax, result.x) if named else np.asarray(result.x, dtype=float)
        ax.bar(places, result.counts, 0.85, color=BAND)
        ax.errorbar(places, result.counts, yerr=(upper - lower) / 2, fmt="none", ecolor=INK, capsize=2)
    return finish(ax, result, "count")
