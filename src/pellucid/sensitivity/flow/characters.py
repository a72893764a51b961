"""A data flow drawn in characters, for terminals and logs.

Every arrow has a row of its own where it enters a box, and every vertex one vertical line in the channel after its layer.
A line that crosses another passes under it (─│─); only ├ ┤ ┬ ┴ and corners join. So no two arrows can be mistaken for each
other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from unicodedata import east_asian_width

from ...errors import PlanError
from .graph import Vertex, ordered
from .layout import Layers, Segment, Spot, heights_to_centres, layered

FRAMES = {
    "input": "┏━┓┃┗┛┠",
    "raw": "╭─╮│╰╯├",
    "safe": "╭─╮│╰╯├",
    "noisy": "╔═╗║╚╝╟",
    "public": "┌╌┐┆└┘├",
}
"""Top left, level, top right, side, bottom left, bottom right, where an arrow leaves."""

JOINTS = {
    frozenset("LR"): "─", frozenset("UD"): "│", frozenset("LD"): "╮", frozenset("LU"): "╯", frozenset("DR"): "╭",
    frozenset("UR"): "╰", frozenset("LUD"): "┤", frozenset("UDR"): "├", frozenset("LDR"): "┬", frozenset("LUR"): "┴",
    frozenset("LUDR"): "┼",
}  # fmt: skip


class _Sheet:
    """Characters by place; lines of different owners that cross do not join."""

    def __init__(self) -> None:
        self.marks: dict[tuple[int, int], str] = {}
        self.arms: dict[tuple[int, int], dict[str, set[str]]] = {}

    def write(self, row: int, column: int, text: str) -> None:
        for letter in text:
            self.marks[row, column] = letter
            # A wide letter covers the next place too, which then holds nothing.
            if _wide(letter) == 2:
                self.marks[row, column + 1] = ""
            column += _wide(letter)

    def _arms(self, row: int, column: int, owner: str) -> set[str]:
        return self.arms.setdefault((row, column), {}).setdefault(owner, set())

    def level(self, row: int, start: int, end: int, owner: str, joints: str = "") -> None:
        """A line from the left side of one place to the right side of another; at a joint, from its middle."""
        for column in range(start, end + 1):
            arms = self._arms(row, column, owner)
            arms |= {"L"} if column > start or "L" not in joints else set()
            arms |= {"R"} if column < end or "R" not in joints else set()

    def upright(self, column: int, top: int, bottom: int, owner: str) -> None:
        for row in range(top, bottom + 1):
            arms = self._arms(row, column, owner)
            arms |= ({"U"} if row > top else set()) | ({"D"} if row < bottom else set())

    def text(self) -> str:
        drawn = {
            place: JOINTS[frozenset(next(iter(owners.values())))] if len(owners) == 1 else "│"
            for place, owners in self.arms.items()
        }
        drawn.update(self.marks)
        rows, columns = ([place[k] for place in drawn] for k in (0, 1))
        lines = ("".join(drawn.get((r, c), " ") for c in range(max(columns) + 1)) for r in range(min(rows), max(rows) + 1))
        return "\n".join(line.rstrip() for line in lines)


def _wide(text: str) -> int:
    return sum(2 if east_asian_width(letter) in "WF" else 1 for letter in text)


def characters(vertices: Sequence[Vertex], private: Sequence[str], state: Mapping[str, str]) -> str:
    """The drawing, with a legend of what is marked."""
    layers = layered(vertices, private)
    tall = {
        spot: 1 if spot.passing is not None else 2 + max(1, len(layers.into(spot, i)))
        for i, layer in enumerate(layers.spots)
        for spot in layer
    }
    centre = heights_to_centres(layers, lambda spot: float(tall[spot]), 0.0)
    sheet = _Sheet()
    before: dict[Spot, int] = {}
    column = shift = 0
    for i, layer in enumerate(layers.spots):
        top = {spot: row + shift for spot, row in _tops(layer, centre, tall).items()}
        if i:
            pieces = layers.segments[i - 1]
            moved, ports, order = _channel(layers, i, before, top)
            top = {spot: row + moved for spot, row in top.items()}
            shift += moved
            column = _route(sheet, pieces, before, ports, order, column)
        wide = max((_wide(spot.name) + 4 for spot in layer if spot.passing is None), default=1)
        before = {spot: top[spot] + tall[spot] // 2 for spot in layer}
        for spot in layer:
            if spot.passing is not None:
                sheet.level(before[spot], column, column + wide - 1, spot.name)
            else:
                _box(sheet, spot.name, top[spot], tall[spot], column, wide, FRAMES[state[spot.name]], i + 1 < len(layers.spots))
        column += wide
    told = {"noisy": "╔═╗ noise is added here", "public": "┌╌┐ does not depend on the data"}
    legend = [words for kind, words in told.items() if kind in state.values()]
    return "\n".join([sheet.text(), *(["   ".join(legend)] if legend else [])])


def _tops(layer: Sequence[Spot], centre: Mapping[Spot, float], tall: Mapping[Spot, int]) -> dict[Spot, int]:
    tops: dict[Spot, int] = {}
    bottom: int | None = None
    for spot in layer:
        wanted = round(centre[spot] - tall[spot] / 2)
        tops[spot] = wanted if bottom is None else max(wanted, bottom)
        bottom = tops[spot] + tall[spot]
    return tops


def _channel(
    layers: Layers, i: int, before: Mapping[Spot, int], top: Mapping[Spot, int]
) -> tuple[int, dict[Segment, int], list[Spot]]:
    """How far layer i must move up or down, the row where each piece arrives, and the order of the vertical lines."""
    ports = {}
    for spot in layers.spots[i]:
        for k, other in enumerate(layers.into(spot, i)):
            ports[other, spot] = top[spot] + (k + 1 if spot.passing is None else 0)
    step = 0
    while True:
        moved = (step + 1) // 2 * (-1 if step % 2 == 0 else 1)
        shifted = {piece: row + moved for piece, row in ports.items()}
        arriving = {(a.name, row) for (a, _), row in shifted.items()}
        # A line that arrives on the row where another one leaves must turn after it. Where that goes in circles the layer moves
        # on by a row: far enough away it shares no row with the layer before.
        after = {s.name: [o.name for o in before if o != s and (s.name, before[o]) in arriving] for s in before}
        try:
            turns = ordered(after)
        except PlanError:
            step += 1
            continue
        return moved, shifted, sorted(before, key=lambda spot: turns.index(spot.name))


def _route(
    sheet: _Sheet,
    pieces: Sequence[Segment],
    before: Mapping[Spot, int],
    ports: Mapping[Segment, int],
    order: Sequence[Spot],
    column: int,
) -> int:
    """Draw the pieces of a channel; returns the column after it."""
    rows = {spot: [row for piece, row in ports.items() if piece[0] == spot] for spot in before}
    turning = [spot for spot in order if rows[spot] != [before[spot]]]
    end = column + 2 * len(turning) + 2
    for spot in before:
        if spot not in turning:
            sheet.level(before[spot], column, end, spot.name)
    for k, spot in enumerate(turning):
        at = column + 1 + 2 * k
        sheet.level(before[spot], column, at, spot.name, "R")
        sheet.upright(at, min(*rows[spot], before[spot]), max(*rows[spot], before[spot]), spot.name)
        for row in rows[spot]:
            sheet.level(row, at, end, spot.name, "L")
    for piece in pieces:
        if piece[1].passing is None:
            sheet.write(ports[piece], end, "▶")
    return end + 1


def _box(sheet: _Sheet, name: str, top: int, tall: int, column: int, wide: int, frame: str, leaves: bool) -> None:
    corner, level, corner_right, side, below, below_right, leave = tuple(frame)
    sheet.write(top, column, corner + level * (wide - 2) + corner_right)
    for row in range(top + 1, top + tall - 1):
        named = row == top + tall // 2
        room = wide - 2 - _wide(name)
        words = " " * (room // 2) + name + " " * (room - room // 2) if named else " " * (wide - 2)
        sheet.write(row, column, side + words + (leave if named and leaves else side))
    sheet.write(top + tall - 1, column, below + level * (wide - 2) + below_right)
