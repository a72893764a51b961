"""Pictures of clusters."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...public.figure import BAND, INK
from ..common.plots import _axes, _categories, _panels


def cluster(result: Any, ax: Any = None) -> Any:
    """Shares inside the cluster and elsewhere, side by side."""
    ax = _axes(ax)
    places = np.arange(len(result.x))
    total = max(float(result.inside.sum()), 1e-9)
    lower, upper = (np.minimum(end / total, 1.0) for end in result.interval(0.95))
    height = result.share_inside
    ax.bar(places - 0.2, height, 0.4, color=INK, label=f"cluster {result.cluster}")
    ax.bar(places + 0.2, result.share_rest, 0.4, color=BAND, label="elsewhere")
    bars = [np.maximum(height - lower, 0), np.maximum(upper - height, 0)]
    ax.errorbar(places - 0.2, height, yerr=bars, fmt="none", ecolor="0.35", capsize=2)
    labels = [f"{a:.4g}–{b:.4g}" for a, b in zip(result.edges[:-1], result.edges[1:])] if result.edges else list(result.x)
    _categories(ax, labels + list(result.x[len(labels) :]))
    ax.legend(frameon=False, fontsize=8)
    ax.set_title(result.sentence, fontsize=8, loc="left", wrap=True)
    ax.set_xlabel(result.feature)
    ax.set_ylabel("share")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def clusters(histograms: Any, ax: Any = None) -> Any:
    """One panel per histogram."""
    axes = _panels(len(histograms), ax)
    for result, panel in zip(histograms, axes):
        cluster(result, panel)
    return axes
