"""Pictures of partial sensitivity, on public grids only, with the certified supremum marked."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import PlanError
from ..public.figure import BAND, INK, pyplot

MARK = "#c1121f"
POINTS = 61


def draw(partial: Any, ax: Any = None, kind: str | None = None) -> Any:
    """Two attributes: "surface" (the norm over both), "shares" (the norm over their shares) or "map"; any number: "profiles"."""
    attributes = len(partial.attributes)
    kind = kind or {1: "profiles", 2: "surface"}.get(attributes, "profiles")
    if kind not in ("surface", "shares", "map", "profiles"):
        raise PlanError(f"kind={kind!r}: use 'surface', 'shares', 'map' or 'profiles'.")
    if kind != "profiles" and attributes != 2:
        raise PlanError(f"kind={kind!r} needs two attributes, the formula has {attributes}; use 'profiles'.")
    return {"surface": _surface, "shares": _shares, "map": _map, "profiles": _profiles}[kind](partial, ax)


def _grid(partial: Any, points: int = POINTS) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(first, second, table of points) over the box of two attributes."""
    (a, b), (c, d) = partial.formula.box.values()
    first, second = np.meshgrid(np.linspace(a, b, points), np.linspace(c, d, points), indexing="ij")
    return first, second, np.column_stack([first.ravel(), second.ravel()])


def _space(ax: Any) -> Any:
    if ax is not None:
        if getattr(ax, "name", "") != "3d":
            raise PlanError("this picture needs three-dimensional axes: plt.subplots(subplot_kw={'projection': '3d'}).")
        return ax
    return pyplot().subplots(figsize=(7, 5.4), subplot_kw={"projection": "3d"}, layout="constrained")[1]


def _label(partial: Any) -> str:
    return f"certified supremum {float(partial.metric):.6g}" + ("" if partial.metric.converged else " (not converged)")


def _colours(share: np.ndarray) -> np.ndarray:
    return pyplot().get_cmap("viridis")(np.clip(share**2, 0, 1))


def _finish_space(partial: Any, ax: Any, names: tuple[str, str], colour_of: str) -> Any:
    plt = pyplot()
    ax.set_xlabel(names[0])
    ax.set_ylabel(names[1])
    ax.set_zlabel("‖∇f‖")
    bar = plt.cm.ScalarMappable(norm=plt.Normalize(0, 1), cmap="viridis")
    ax.figure.colorbar(bar, ax=ax, shrink=0.6, pad=0.1, label=colour_of)
    ax.legend(loc="upper left", fontsize=9, frameon=False)
    ax.set_title("f = " + _short(partial.formula.text), fontsize=10)
    return ax


def _short(text: str, most: int = 70) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _surface(partial: Any, ax: Any) -> Any:
    """The norm of the gradient over the two attributes, coloured by the squared share of the second."""
    ax = _space(ax)
    first, second, table = _grid(partial)
    norm = partial.norm_at(table).reshape(first.shape)
    share = partial.share(table)[:, 1].reshape(first.shape)
    ax.plot_surface(first, second, norm, facecolors=_colours(share), rstride=1, cstride=1, linewidth=0, shade=False)
    at = [partial.metric.at[name] for name in partial.attributes]
    ax.scatter(*at, float(partial.metric), color=MARK, s=60, depthshade=False, label=_label(partial))
    return _finish_space(partial, ax, partial.attributes, f"squared share of {partial.attributes[1]}")


def _shares(partial: Any, ax: Any) -> Any:
    """The norm of the gradient over the two shares, as in the paper's first figure."""
    ax = _space(ax)
    _, _, table = _grid(partial)
    norm, share = partial.norm_at(table), partial.share(table)
    ax.scatter(share[:, 0], share[:, 1], norm, c=_colours(share[:, 1]), s=5, depthshade=False)
    top = partial.share(partial.metric.at)
    ax.scatter(*top, float(partial.metric), color=MARK, s=60, depthshade=False, label=_label(partial))
    names = (f"share of {partial.attributes[0]}", f"share of {partial.attributes[1]}")
    return _finish_space(partial, ax, names, f"squared share of {partial.attributes[1]}")


def _map(partial: Any, ax: Any) -> Any:
    """The norm of the gradient as colour, and the shares as arrows."""
    plt = pyplot()
    ax = plt.subplots(figsize=(6.4, 4.6), layout="constrained")[1] if ax is None else ax
    first, second, table = _grid(partial)
    norm = partial.norm_at(table).reshape(first.shape)
    shade = ax.pcolormesh(first, second, norm, cmap="Blues", shading="gouraud")
    ax.figure.colorbar(shade, ax=ax, label="‖∇f‖")
    x, y, few = _grid(partial, 13)
    share = partial.share(few)
    ax.quiver(x, y, share[:, 0].reshape(x.shape), share[:, 1].reshape(x.shape), color=INK, angles="uv", width=0.003)
    at = [partial.metric.at[name] for name in partial.attributes]
    ax.plot(*at, "o", color=MARK, markersize=9, clip_on=False, label=_label(partial))
    ax.set_xlabel(partial.attributes[0])
    ax.set_ylabel(partial.attributes[1])
    ax.legend(loc="lower right", fontsize=9)
    ax.set_title("arrows: shares · f = " + _short(partial.formula.text), fontsize=10)
    return ax


def _profiles(partial: Any, ax: Any) -> Any:
    """Per attribute: its squared share along its own range, over random public points of the other attributes."""
    names = partial.attributes
    plt = pyplot()
    if ax is None:
        columns = min(4, len(names))
        rows = -(-len(names) // columns)
        _, grid = plt.subplots(
            rows, columns, figsize=(3.2 * columns, 2.8 * rows), layout="constrained", squeeze=False, sharey=True
        )
        axes = grid.ravel()
    else:
        axes = np.atleast_1d(np.asarray(ax, dtype=object)).ravel()
        if len(axes) < len(names):
            raise PlanError(f"ax holds {len(axes)} axes, but there are {len(names)} attributes to draw.")
    for j, (name, panel) in enumerate(zip(names, axes)):
        _profile(partial, j, name, panel)
    for panel in axes[len(names) :]:
        panel.set_visible(False)
    axes[0].figure.suptitle(f"squared share of each attribute · {_label(partial)} of ‖∇f‖ (red)", fontsize=10)
    return axes[: len(names)]


def _profile(partial: Any, j: int, name: str, panel: Any) -> None:
    lows, highs = np.array(list(partial.formula.box.values())).T
    rng = np.random.default_rng(9)
    x = np.linspace(lows[j], highs[j], 41)
    others = lows + rng.random((400, len(lows))) * (highs - lows)
    table = np.repeat(others, len(x), axis=0)
    table[:, j] = np.tile(x, len(others))
    squared = partial.share(table)[:, j].reshape(len(others), len(x)) ** 2
    low, middle, high = np.quantile(squared, [0.1, 0.5, 0.9], axis=0)
    panel.fill_between(x, low, high, color=BAND, alpha=0.35, linewidth=0)
    panel.plot(x, middle, color=INK)
    at = partial.metric.at
    panel.plot(at[name], partial.share(at)[j] ** 2, "o", color=MARK, clip_on=False)
    panel.set_xlabel(name)
    panel.set_ylim(-0.03, 1.03)
    panel.spines[["top", "right"]].set_visible(False)
    panel.grid(axis="y", alpha=0.25)
