"""One picture of all outcomes: a panel for each attack, without noise at the left, then by ε, above what nothing would give."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...public.figure import BAND, DOWN, INK, pyplot
from .base import Outcome

STYLES = (("without", DOWN, "D"), ("noise, but", DOWN, "s"), ("published", "0.55", "s"), ("ours,", BAND, "o"), ("ours", INK, "o"))
"""Colours and markers, by how the name of what was attacked begins."""


def draw(outcomes: Sequence[Outcome]) -> Any:
    """The figure."""
    names = list(dict.fromkeys(outcome.attack for outcome in outcomes))
    columns = min(3, len(names))
    rows = -(-len(names) // columns)
    figure, grid = pyplot().subplots(rows, columns, figsize=(4.2 * columns, 3 * rows), layout="constrained", squeeze=False)
    for name, ax in zip(names, grid.ravel()):
        _panel(ax, [outcome for outcome in outcomes if outcome.attack == name])
    for ax in grid.ravel()[len(names) :]:
        ax.set_visible(False)
    handles = {label: handle for ax in grid.ravel() for handle, label in zip(*ax.get_legend_handles_labels())}
    figure.legend(handles.values(), handles, loc="outside lower center", ncols=4, fontsize=8, frameon=False)
    return figure


def _panel(ax: Any, outcomes: Sequence[Outcome]) -> None:
    epsilons = sorted({o.epsilon for o in outcomes if o.epsilon is not None})
    places: dict[float | None, int] = {None: 0, **{epsilon: i + 1 for i, epsilon in enumerate(epsilons)}}
    series = list(dict.fromkeys(o.against for o in outcomes))
    for i, who in enumerate(series):
        mine = [o for o in outcomes if o.against == who]
        x = [places[o.epsilon] + (0.0 if o.epsilon is None else 0.12 * (i - len(series) / 2)) for o in mine]
        bars = [[o.value - o.low for o in mine], [o.high - o.value for o in mine]]
        colour, marker = next((c, m) for start, c, m in STYLES if who.startswith(start))
        hollow = {"markerfacecolor": "white"} if who.endswith("heuristic") else {}
        ax.errorbar(x, [o.value for o in mine], yerr=bars, fmt=marker, color=colour, ms=5, capsize=2, label=who, **hollow)
    ax.axhline(outcomes[0].baseline, color="0.4", lw=1, ls="--", label="shown nothing")
    ax.set_xticks(list(places.values()), ["no noise", *(f"ε = {epsilon:g}" for epsilon in epsilons)], fontsize=8)
    ax.set_ylim(min(0.4, outcomes[0].baseline - 0.12), 1.03)
    ax.set_xlim(-0.4, len(places) - 0.5)
    ax.set_title(outcomes[0].attack, fontsize=10)
    ax.set_ylabel(outcomes[0].figure, fontsize=9)
    ax.grid(axis="y", alpha=0.25)
    ax.spines[["top", "right"]].set_visible(False)
