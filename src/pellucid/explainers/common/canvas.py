"""The paper that pictures are drawn on: axes, titles, small print and rows with names. See docs/pictures.md."""

from __future__ import annotations

import math
import re
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import PlanError
from ...public.dates import is_dated
from ...public.figure import dated_axis, literally, number_axis, palette, pyplot

WIDE, TALL = 6.4, 3.9
"""Inches of a picture."""
NAMED = 12
"""Names along an axis, at most."""
ROOM = 6.0
"""Rows' worth of height for all that have no name."""
NAME = 32
"""Letters in a line of a name."""
TITLE, LABEL, SMALL = 10.0, 10.0, 8.0
"""Points of the sentence on top, of labels and of small print."""

EDGE = 0.06
"""Inches that are left free at the edge."""

_ours: weakref.WeakSet[Any] = weakref.WeakSet()
"""Figures that were made here, with one picture each: their titles can use the whole width."""


def axes(ax: Any, names: Sequence[str] | None = None) -> Any:
    """The axes given, or new ones, with room for rows of these names."""
    if ax is not None:
        return ax
    tall = TALL
    if names is not None:
        rows = len(names) if len(names) <= NAMED else NAMED - 1 + ROOM
        tall = 1.6 + (0.4 if any("\n" in short(name) for name in names) else 0.28) * max(rows, 3)
    figure, made = pyplot().subplots(figsize=(WIDE, tall), layout="constrained")
    _ours.add(figure)
    return made


def panels(count: int, ax: Any = None) -> Any:
    """Axes for so many panels: new ones, at most three in a row, or those given."""
    if ax is None:
        columns = 2 if count in (2, 4) else min(3, count)
        rows = -(-count // columns)
        _, grid = pyplot().subplots(rows, columns, figsize=(4.8 * columns, 3.5 * rows), layout="constrained", squeeze=False)
        axes = grid.ravel()
    else:
        axes = np.atleast_1d(np.asarray(ax, dtype=object)).ravel()
        if len(axes) < count:
            raise PlanError(f"ax holds {len(axes)} axes, but there are {count} panels to draw.")
    for panel in axes[count:]:
        panel.set_visible(False)
    return axes[:count]


def finish(
    ax: Any,
    result: Any,
    sentence: str = "",
    *,
    xlabel: str = "",
    ylabel: str = "",
    errors: str = "95 % error bars",
    below: Sequence[str] = (),
    small: str | None = None,
    grid: str = "y",
) -> Any:
    """Labels; on top the sentence and, small, what it cost, its status and how errors are drawn; below, what must be said."""
    ax.set_xlabel(xlabel)
    ax.set_ylabel(wrapped(ylabel, ax.get_position().height * ax.figure.get_figheight(), LABEL))
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(visible=False)
    if grid:
        ax.grid(axis=grid, alpha=0.25)
        ax.set_axisbelow(True)
    room = Room.of(ax)
    ax.set_xlabel("\n".join(wrapped(line, room.axes, LABEL) for line in xlabel.split("\n")))
    note_below(ax, result, *below, inches=room.axes)
    titled(ax, sentence, paid(result, errors) if small is None else small, room)
    return literally(ax)


def paid(result: Any, errors: str = "") -> str:
    """What it cost, its status and how errors are drawn: a picture goes further than its certificate."""
    certificate = result.certificate
    if certificate is None:
        return ""
    cost = f"ε = {certificate.epsilon:.3g}" + (f", δ = {certificate.delta:g}" if certificate.delta else "")
    note = cost if certificate.private else "NOT PRIVATE"
    return " · ".join(part for part in (note, certificate.status, errors) if part)


@dataclass(frozen=True)
class Room:
    """How much room there is for words, in inches."""

    title: float
    """For the sentence on top."""
    whole: bool
    """Whether that is the whole width of the figure."""
    axes: float
    """Below the axes."""

    @classmethod
    def of(cls, ax: Any) -> Room:
        figure = ax.figure
        if figure not in _ours:
            spec = ax.get_subplotspec()
            parts = 1 if spec is None else spec.get_gridspec().ncols / len(spec.colspan)
            wide = 0.82 * figure.get_figwidth() / parts
            return cls(wide, False, wide)
        figure.draw_without_rendering()
        return cls(figure.get_figwidth() - 3 * EDGE, True, float(ax.get_window_extent().width) / figure.dpi)


def wrapped(text: str, inches: float, points: float, bold: bool = False) -> str:
    """Words in lines of at most so many inches; letters are some 0.6 of their height wide on average, bold ones 0.68."""
    most, lines = max(16, int(72 * inches / ((0.68 if bold else 0.58) * points))), [""]
    for word in re.findall(r"[^\s_]*[\s_]*", text):  # names of columns may break behind an underscore
        if lines[-1] and len((lines[-1] + word).rstrip()) > most:
            lines.append("")
        lines[-1] += word
    return "\n".join(line.rstrip(" ") for line in lines)


def titled(ax: Any, sentence: str, small: str, room: Room | None = None) -> None:
    """A sentence on the left, above a line of small print on the right."""
    from matplotlib.transforms import blended_transform_factory

    room = room or Room.of(ax)
    ax.set_title(small, fontsize=SMALL, loc="right", color=palette(ax).small)
    if not sentence:
        return
    blank = math.ceil((small.count("\n") + 1) * SMALL / TITLE - 0.05) if small else 0
    said = wrapped(sentence, room.title, TITLE, bold=True) + "\n" * blank
    title = ax.set_title(said, fontsize=TITLE, fontweight="bold", loc="left")
    if room.whole:  # it begins where the names do, at the edge
        title.set_transform(blended_transform_factory(ax.figure.dpi_scale_trans, title.get_transform()))
        title.set_x(EDGE)


def note_below(ax: Any, result: Any, *notes: str, inches: float = 5.0) -> None:
    """Small print below the picture, and how many records are not in it, in lines so short that no edge cuts them off."""
    uncounted = () if result.uncounted is None else (result.uncounted.note,)
    said = "\n".join(wrapped(note, inches, SMALL) for note in (*notes, *uncounted) if note)
    if said:
        style = {"ha": "center", "va": "top", "fontsize": SMALL, "color": palette(ax).small, "annotation_clip": False}
        ax.annotate(said, (0.5, 0), (0, -4), xycoords=ax.xaxis.label, textcoords="offset points", **style)


def brief(name: str, letters: int = NAME) -> str:
    """A name in so many letters; the middle of a longer one is left out."""
    half = letters // 2
    return name if len(name) <= letters else f"{name[: letters - half - 1].rstrip()}…{name[-half:].lstrip()}"


def short(name: str, letters: int = NAME) -> str:
    """A name in at most two lines, broken where words end; the middle of a longer one is left out.

    >>> print(short("average_number_of_contacts_with_provider_07_last_12_months"))
    average_number_of_contacts_
    with_provider_07_last_12_months
    >>> print(short("diagnosis_group = disorders of the musculoskeletal system"))
    diagnosis_group
    = disorders of th…oskeletal system
    """
    name = " ".join(str(name).split())
    if len(name) <= letters:
        return name
    own, _, value = name.partition(" = ")
    if len(value) > letters / 2:
        return f"{brief(own, letters)}\n= {brief(value, letters)}"
    name = brief(name, 2 * letters)
    middle = len(name) / 2
    breaks = [m.end() for m in re.finditer(r"[\s_…,;/.-]+", name) if abs(m.end() - middle) < 0.4 * middle]
    cut = min(breaks, key=lambda b: abs(b - middle), default=math.ceil(middle))
    return f"{name[:cut].rstrip(' ')}\n{name[cut:]}"


def row_places(count: int, ends: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """(heights of rows from the top down, which have a name). Where there are too many, the last ones (or with `ends` those in
    the middle) are drawn close together and have one name for all."""
    if count <= NAMED:
        return np.arange(count)[::-1].astype(float), np.ones(count, dtype=bool)
    named = np.zeros(count, dtype=bool)
    top = (NAMED - 1 + 1) // 2 if ends else NAMED - 1
    named[:top] = True
    named[count - (NAMED - 1 - top) :] = ends or NAMED - 1 - top > 0
    close = min(1.0, ROOM / (count - named.sum()))
    steps = np.where(named, 1.0, close)
    middles = np.cumsum(steps) - steps / 2
    return middles[-1] - middles, named


def name_rows(ax: Any, names: Sequence[str], ends: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Rows with names at the left, the first on top; returns their heights, and how thick bars may be there."""
    places, named = row_places(len(names), ends)
    ticks, texts = list(places[named]), [short(str(name)) for name, own in zip(names, named) if own]
    if not named.all():
        others = places[~named]
        ticks.append(float(others.mean()))
        texts.append(f"{len(others)} others")
    ax.set_yticks(ticks, texts, fontsize=9)
    steps = np.where(named, 1.0, min(1.0, ROOM / max(int((~named).sum()), 1)))
    ax.set_ylim(places.min() - 0.6, places.max() + 0.6)
    ax.tick_params(axis="y", length=0)
    return places, steps


def numbers(ax: Any, x: bool = False, y: bool = False, whole: Sequence[Any] = ()) -> None:
    """Plain numbers along axes; along x whole ones where all values are, and dates where they are dates."""
    if x and is_dated(whole):
        dated_axis(ax.xaxis, whole)
    elif x:
        number_axis(ax.xaxis, bool(len(whole)) and all(isinstance(v, int) for v in whole))
    if y:
        number_axis(ax.yaxis)
