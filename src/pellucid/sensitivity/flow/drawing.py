"""Pictures of data flows, as SVG and on matplotlib axes. Layers run from left to right; noisy stages are marked."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape, quoteattr

from ...public.figure import BAND, INK, pyplot
from .layout import Layers, Spot, heights_to_centres, layered

if TYPE_CHECKING:
    from . import Flow

MEANING = {
    "input": "the data",
    "raw": "sees the data",
    "noisy": "noise is added here",
    "safe": "computed from noisy answers only",
    "public": "does not depend on the data",
}
GREY = "#8a949b"
FILL = {"input": "#d6e1e8", "raw": "#ffffff", "noisy": INK, "safe": "#e2f2f6", "public": "#ffffff"}
LINE = {"input": INK, "raw": INK, "noisy": INK, "safe": BAND, "public": GREY}
ARROW = {"input": INK, "raw": INK, "noisy": BAND, "safe": BAND, "public": GREY}
FONT = "system-ui, 'Segoe UI', Helvetica, Arial, sans-serif"

NAME, SMALL, LEADING = 14.0, 11.0, 14.0
CHANNEL, GAP, MARGIN, PADDING = 64.0, 22.0, 24.0, 13.0


def states(flow: Flow, stages: Sequence[str]) -> dict[str, str]:
    """What each vertex is, given where noise goes."""
    safe = flow.safe(stages)
    found = {}
    for v in flow.vertices:
        private = "noisy" if v.name in stages else "safe" if v.name in safe else "raw"
        found[v.name] = "input" if v.kind == "input" else private if v.name in flow.stages else "public"
    return found


@dataclass(frozen=True)
class Box:
    name: str
    note: tuple[str, ...]
    whole_note: str
    state: str
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True)
class Piece:
    """A piece of an arrow, level at both ends."""

    x0: float
    y0: float
    x1: float
    y1: float
    state: str
    head: bool

    @cached_property
    def bends(self) -> tuple[tuple[float, float], tuple[float, float]]:
        middle = (self.x0 + self.x1) / 2
        return (middle, self.y0), (middle, self.y1)


@dataclass(frozen=True)
class Picture:
    """Boxes and arrows in pixels, for every kind of picture."""

    title: str
    boxes: tuple[Box, ...]
    pieces: tuple[Piece, ...]
    legend: tuple[str, ...]
    width: float
    height: float


def picture(flow: Flow, stages: Sequence[str]) -> Picture:
    layers = layered(flow.vertices, flow.stages)
    state = states(flow, stages)
    notes = {v.name: tuple(textwrap.wrap(v.note, 30, max_lines=3, placeholder=" …")) for v in flow.vertices}

    def tall(s: Spot) -> float:
        return 4.0 if s.passing is not None else 2 * PADDING + NAME + LEADING * len(notes[s.name])

    centre = heights_to_centres(layers, tall, GAP)
    head = 30.0 if flow.title or stages else 0.0
    down = MARGIN + head - min(y - tall(s) / 2 for s, y in centre.items())
    boxes: dict[str, Box] = {}
    sides: dict[Spot, tuple[float, float]] = {}
    x = MARGIN
    for layer in layers.spots:
        wide = max((_width(s.name, notes[s.name]) for s in layer if s.passing is None), default=0.0)
        for s in layer:
            sides[s] = (x, x + wide)
            if s.passing is None:
                top = centre[s] + down - tall(s) / 2
                boxes[s.name] = Box(s.name, notes[s.name], flow[s.name].note, state[s.name], x, top, wide, tall(s))
        x += wide + CHANNEL
    pieces = tuple(_pieces(layers, centre, sides, state, boxes, down))
    legend = tuple(kind for kind in MEANING if kind in state.values()) if stages else ()
    wide = max(x - CHANNEL, MARGIN + sum(_legend_width(kind) for kind in legend) if legend else 0.0) + MARGIN
    high = max(b.y + b.height for b in boxes.values()) + MARGIN + (26.0 if legend else 0.0)
    named = f"noise on {', '.join(stages)}" if stages else ""
    return Picture(": ".join(filter(None, (flow.title, named))), tuple(boxes.values()), pieces, legend, wide, high)


def _width(name: str, note: Sequence[str]) -> float:
    return max(len(name) * NAME * 0.6, *(len(line) * SMALL * 0.54 for line in note), 44.0) + 2 * PADDING


def _legend_width(kind: str) -> float:
    return 38 + len(MEANING[kind]) * SMALL * 0.58


def _pieces(
    layers: Layers,
    centre: dict[Spot, float],
    sides: dict[Spot, tuple[float, float]],
    state: dict[str, str],
    boxes: dict[str, Box],
    down: float,
) -> Iterator[Piece]:
    for i, layer in enumerate(layers.spots):
        for spot in layer:
            y = centre[spot] + down
            if spot.passing is not None:
                yield Piece(sides[spot][0], y, sides[spot][1], y, state[spot.name], False)
            into = layers.into(spot, i)
            for k, other in enumerate(into, 1):
                # Arrows into one box arrive one under the other.
                room = boxes[spot.name].height - 16 if spot.passing is None else 0.0
                end = y + (k / (len(into) + 1) - 0.5) * room
                yield Piece(sides[other][1], centre[other] + down, sides[spot][0], end, state[other.name], spot.passing is None)


def svg(flow: Flow, stages: Sequence[str]) -> str:
    """The picture as SVG text, without fonts, scripts or references to anything outside."""
    drawn = picture(flow, stages)
    arrows = "; ".join(f"{v.name} reads {', '.join(v.sources)}" for v in flow.vertices if v.sources)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_n(drawn.width)} {_n(drawn.height)}" width="{_n(drawn.width)}" '
        f'height="{_n(drawn.height)}" role="img" font-family={quoteattr(FONT)}>',
        f"<title>{_safe(drawn.title or 'data flow')}</title>",
        f"<desc>{_safe(arrows)}</desc>",
        '<rect width="100%" height="100%" fill="#ffffff"/>',
    ]
    if drawn.title:
        lines.append(f'<text x="{_n(MARGIN)}" y="{_n(MARGIN + 6)}" font-size="15" fill="{INK}">{_safe(drawn.title)}</text>')
    for piece in drawn.pieces:
        lines += _svg_piece(piece)
    for box in drawn.boxes:
        lines += _svg_box(box)
    x = MARGIN
    for kind in drawn.legend:
        y = drawn.height - MARGIN
        lines.append(_svg_rect(x, y - 10, 14, 12, 3, kind))
        lines.append(f'<text x="{_n(x + 20)}" y="{_n(y)}" font-size="{_n(SMALL)}" fill="#4a545a">{MEANING[kind]}</text>')
        x += _legend_width(kind)
    return "\n".join([*lines, "</svg>"]) + "\n"


def _safe(words: str) -> str:
    """Words for XML, which has no place for control characters."""
    return escape(re.sub("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\ufffd", words))


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _svg_piece(piece: Piece) -> list[str]:
    colour, dash = ARROW[piece.state], ' stroke-dasharray="4 3"' if piece.state == "public" else ""
    end = piece.x1 - 7 if piece.head else piece.x1
    (ax, ay), (bx, by) = piece.bends
    path = f"M{_n(piece.x0)} {_n(piece.y0)}C{_n(ax)} {_n(ay)} {_n(bx)} {_n(by)} {_n(end)} {_n(piece.y1)}"
    lines = [f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="1.6"{dash}/>']
    if piece.head:
        tip = f"M{_n(piece.x1)} {_n(piece.y1)}l-9 -4.5v9z"
        lines.append(f'<path d="{tip}" fill="{colour}"/>')
    return lines


def _svg_rect(x: float, y: float, width: float, height: float, radius: float, state: str) -> str:
    dash = ' stroke-dasharray="4 3"' if state == "public" else ""
    return (
        f'<rect x="{_n(x)}" y="{_n(y)}" width="{_n(width)}" height="{_n(height)}" rx="{_n(radius)}" fill="{FILL[state]}" '
        f'stroke="{LINE[state]}" stroke-width="1.6"{dash}/>'
    )


def _svg_box(box: Box) -> list[str]:
    middle, y = box.x + box.width / 2, box.y + PADDING + NAME - 3
    colour = "#ffffff" if box.state == "noisy" else INK if box.state != "public" else "#4a545a"
    lines = [
        "<g>",
        f"<title>{_safe(box.whole_note or box.name)}</title>",
        _svg_rect(box.x, box.y, box.width, box.height, 9, box.state),
        f'<text x="{_n(middle)}" y="{_n(y)}" font-size="{_n(NAME)}" font-weight="600" text-anchor="middle" fill="{colour}">'
        f"{_safe(box.name)}</text>",
    ]
    small = "#d8eef4" if box.state == "noisy" else "#4a545a"
    for k, line in enumerate(box.note, 1):
        lines.append(
            f'<text x="{_n(middle)}" y="{_n(y + 1 + k * LEADING)}" font-size="{_n(SMALL)}" text-anchor="middle" fill="{small}">'
            f"{_safe(line)}</text>"
        )
    return [*lines, "</g>"]


def plot(flow: Flow, stages: Sequence[str], ax: Any = None) -> Any:
    """The same picture on matplotlib axes."""
    plt = pyplot()
    from matplotlib.patches import FancyArrowPatch, FancyBboxPatch
    from matplotlib.path import Path

    drawn = picture(flow, stages)
    if ax is None:
        ax = plt.figure(figsize=(drawn.width / 96, drawn.height / 96)).add_axes((0, 0, 1, 1))
    ax.set(xlim=(0, drawn.width), ylim=(drawn.height, 0), aspect="equal")
    ax.axis("off")
    room = ax.get_position()
    # Inches per unit of the picture, so that words keep fitting into their boxes.
    scale = min(room.width * ax.figure.get_figwidth() / drawn.width, room.height * ax.figure.get_figheight() / drawn.height)
    points = 72 * scale
    if drawn.title:
        ax.text(MARGIN, MARGIN + 6, drawn.title, fontsize=15 * points, color=INK)

    def rounded(x: float, y: float, width: float, height: float, radius: float, state: str) -> None:
        shape = f"round,pad=0,rounding_size={radius}"
        dash = "--" if state == "public" else "-"
        ax.add_patch(
            FancyBboxPatch((x, y), width, height, shape, fc=FILL[state], ec=LINE[state], lw=1.6 * points, ls=dash, zorder=2)
        )

    for piece in drawn.pieces:
        path = Path([(piece.x0, piece.y0), *piece.bends, (piece.x1, piece.y1)], [Path.MOVETO, *[Path.CURVE4] * 3])
        style = "-|>" if piece.head else "-"
        ax.add_patch(
            FancyArrowPatch(
                path=path, arrowstyle=style, mutation_scale=12 * points, color=ARROW[piece.state], lw=1.6 * points,
                ls="--" if piece.state == "public" else "-", capstyle="butt", zorder=1,
            )
        )  # fmt: skip
    for box in drawn.boxes:
        rounded(box.x, box.y, box.width, box.height, 9, box.state)
        middle, y = box.x + box.width / 2, box.y + PADDING + NAME - 3
        colour = "white" if box.state == "noisy" else INK if box.state != "public" else "#4a545a"
        ax.text(middle, y, box.name, ha="center", fontsize=NAME * points, weight="bold", color=colour, zorder=3)
        small = "#d8eef4" if box.state == "noisy" else "#4a545a"
        for k, line in enumerate(box.note, 1):
            ax.text(middle, y + 1 + k * LEADING, line, ha="center", fontsize=SMALL * points, color=small, zorder=3)
    x = MARGIN
    for kind in drawn.legend:
        rounded(x, drawn.height - MARGIN - 10, 14, 12, 3, kind)
        ax.text(x + 20, drawn.height - MARGIN, MEANING[kind], fontsize=SMALL * points, color="#4a545a")
        x += _legend_width(kind)
    return ax
