"""Pictures of the study: maps of the largest values, and a histogram per pixel."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pellucid.public.figure import BAND, INK, pyplot

from .network import BARS, CLASSES, SIDE

RED = "#c8553d"


def maps(study: Any, measure: str) -> Any:
    """Rows are the two kinds of images; columns an example, then networks early and late. A frame marks the other bar."""
    first, last = study.looks[0], study.looks[-1]
    shown = [(look, name) for look in dict.fromkeys((first.steps, last.steps)) for name in ("SGD", "DP-SGD")]
    columns = [(study._look(steps), name) for steps, name in shown] + [(first, "SGD at equal loss"), (first, "untrained")]
    figure, axes = pyplot().subplots(2, 1 + len(columns), figsize=(2.15 * (1 + len(columns)), 5.0), layout="constrained")
    each = len(study.images) // 2
    for kind, row in enumerate(axes):
        row[0].imshow(study.images[kind * each].reshape(SIDE, SIDE), cmap="gray_r" if study.reading.ink == 1 else "gray")
        row[0].set_ylabel(f"{CLASSES[kind]} bars", fontsize=11)
        for ax, (look, name) in zip(row[1:], columns):
            _map(ax, look.statistics[name][measure].maximum[kind].reshape(SIDE, SIDE), kind)
        for ax in row:
            ax.set(xticks=[], yticks=[])
            ax.spines[:].set_visible(False)
    axes[0][0].set_title("an image", fontsize=9)
    for ax, (look, name) in zip(axes[0][1:], columns):
        steps = {"SGD": look.sgd_steps, "SGD at equal loss": look.equal_loss_steps, "untrained": 0}.get(name, look.steps)
        ax.set_title(f"{name}\n{steps:,} steps, loss {look.loss[name]:.2g}", fontsize=9)
    figure.suptitle(
        f"Largest partial sensitivity ({measure}) of each pixel over {each:,} images; framed: the other bar", fontsize=11
    )
    return figure


def _map(ax: Any, values: np.ndarray, kind: int) -> None:
    limit = max(float(np.abs(values).max()), 1e-300)
    digits = max(0, 1 - math.floor(math.log10(limit)))
    ax.imshow(values, cmap="RdBu_r", vmin=-limit, vmax=limit)
    for (i, j), value in np.ndenumerate(values):
        ax.text(
            j,
            i,
            f"{round(value, digits) + 0.0:.{digits}f}",
            ha="center",
            va="center",
            fontsize=6,
            color="white" if abs(value) > 0.6 * limit else "0.2",
        )
    middle = SIDE // 2 - 0.5
    corner, width, height = ((-0.5, middle), SIDE, 1) if kind == 0 else ((middle, -0.5), 1, SIDE)
    ax.add_patch(pyplot().Rectangle(corner, width, height, fill=False, edgecolor="0.1", linewidth=1.3))


def histograms(look: Any, measure: str, kind: str) -> Any:
    """A 5 × 5 grid in the place of the pixels. One scale for all where values are shares; each pixel its own for the gradient."""
    row = CLASSES.index(kind)
    sgd, dp = (look.values[name][measure][row] for name in ("SGD", "DP-SGD"))
    both = np.concatenate([sgd, dp])
    figure, axes = pyplot().subplots(SIDE, SIDE, figsize=(10.5, 8.6), layout="constrained")
    for j, ax in enumerate(axes.ravel()):
        span = np.quantile(both[:, j] if measure == "gradient" else both, [0.001, 0.999])
        low, high = min(span[0], 0.0), max(span[1], 0.0)
        edges = np.linspace(low - 0.04 * (high - low), high + 0.04 * (high - low), 61)
        ax.axvline(0, color="0.35", linewidth=0.8, linestyle=":")
        ax.stairs(np.histogram(sgd[:, j], edges)[0], edges, fill=True, color=BAND, alpha=0.75, label="SGD")
        ax.stairs(np.histogram(dp[:, j], edges)[0], edges, color=RED, linewidth=1.1, label="DP-SGD")
        ax.set(yticks=[], xlim=(edges[0], edges[-1]))
        ax.locator_params(axis="x", nbins=4)
        ax.tick_params(axis="x", labelsize=7, color="0.6")
        ax.spines[["top", "right", "left"]].set_visible(False)
        if BARS[row, j]:
            ax.set_facecolor("#eef3f6")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False, fontsize=10)
    steps = (
        f"{look.steps:,} steps" if look.sgd_steps == look.steps else f"{look.sgd_steps:,} (SGD) and {look.steps:,} (DP-SGD) steps"
    )
    figure.suptitle(
        f"Partial sensitivity ({measure}) of each pixel after {steps}: {len(sgd):,} {kind} bars (their bar is shaded)",
        fontsize=11,
        color=INK,
    )
    return figure
