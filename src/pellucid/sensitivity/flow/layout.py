"""Where the boxes of a data flow go: layers from left to right, few crossings, arrows as straight as they can be."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from .graph import Vertex, turned

SWEEPS = 12


@dataclass(frozen=True)
class Spot:
    """A place in a layer: a box, or where arrows of a vertex pass on their way to a later layer."""

    name: str
    passing: int | None = None
    """The layer that is passed, None for the box itself. One lane serves all arrows of a vertex."""


Segment = tuple[Spot, Spot]


@dataclass(frozen=True)
class Layers:
    """Spots of each layer from top to bottom, and the pieces of arrow between each layer and the next."""

    spots: tuple[tuple[Spot, ...], ...]
    segments: tuple[tuple[Segment, ...], ...]

    def into(self, spot: Spot, layer: int) -> list[Spot]:
        """What leads into a spot, from top to bottom."""
        found = {a for a, b in self.segments[layer - 1] if b == spot} if layer else set()
        return [a for a in self.spots[layer - 1] if a in found]


def layered(vertices: Sequence[Vertex], private: Sequence[str]) -> Layers:
    """Vertices by the longest path that leads to them; public ones just before what reads them."""
    forward = turned({v.name: v.sources for v in vertices})
    layer: dict[str, int] = {}
    for v in vertices:
        layer[v.name] = 1 + max((layer[s] for s in v.sources), default=-1)
    for v in reversed(vertices):
        if v.name not in private and v.kind != "input":
            layer[v.name] = min(layer[reader] for reader in forward[v.name]) - 1
    spots: list[list[Spot]] = [[] for _ in range(max(layer.values()) + 1)]
    segments: list[list[Segment]] = [[] for _ in spots[1:]]
    for v in vertices:
        at = Spot(v.name)
        spots[layer[v.name]].append(at)
        readers = sorted((layer[r], r) for r in forward[v.name])
        for step in range(layer[v.name], readers[-1][0] if readers else 0):
            segments[step] += [(at, Spot(r)) for level, r in readers if level == step + 1]
            if readers[-1][0] > step + 1:
                lane = Spot(v.name, step + 1)
                spots[step + 1].append(lane)
                segments[step].append((at, lane))
                at = lane
    return Layers(_untangled(spots, segments), tuple(map(tuple, segments)))


def _untangled(spots: Sequence[Sequence[Spot]], segments: Sequence[Sequence[Segment]]) -> tuple[tuple[Spot, ...], ...]:
    """The order in each layer with the fewest crossings that sweeping to and fro finds."""
    order = [list(layer) for layer in spots]
    best, fewest = tuple(map(tuple, order)), _crossings(order, segments)
    for sweep in range(SWEEPS):
        rightward = sweep % 2 == 0
        for i in range(1, len(order)) if rightward else range(len(order) - 2, -1, -1):
            beside = order[i - 1] if rightward else order[i + 1]
            place = {spot: k for k, spot in enumerate(beside)}
            pairs = [(b, a) for a, b in segments[i - 1]] if rightward else list(segments[i])
            order[i].sort(key=_middle(pairs, place, order[i]))
        found = _crossings(order, segments)
        if found < fewest:
            best, fewest = tuple(map(tuple, order)), found
    return best


def _middle(pairs: Sequence[Segment], place: Mapping[Spot, int], layer: Sequence[Spot]) -> Callable[[Spot], float]:
    now = {spot: float(k) for k, spot in enumerate(layer)}

    def of(spot: Spot) -> float:
        beside = [place[other] for own, other in pairs if own == spot]
        return sum(beside) / len(beside) if beside else now[spot]

    return of


def _crossings(order: Sequence[Sequence[Spot]], segments: Sequence[Sequence[Segment]]) -> int:
    total = 0
    for left, right, pieces in zip(order, order[1:], segments):
        a, b = ({spot: k for k, spot in enumerate(layer)} for layer in (left, right))
        total += sum((a[p] - a[q]) * (b[r] - b[s]) < 0 for (p, r), (q, s) in combinations(pieces, 2))
    return total


def heights_to_centres(layers: Layers, height: Callable[[Spot], float], gap: float) -> dict[Spot, float]:
    """The middle of every spot: near the middles of its neighbours, in the order of its layer, nothing overlapping."""
    centre: dict[Spot, float] = {}
    for layer in layers.spots:
        top = -sum(height(s) + gap for s in layer) / 2
        for spot in layer:
            centre[spot] = top + (height(spot) + gap) / 2
            top += height(spot) + gap
    beside: dict[Spot, list[Spot]] = {spot: [] for spot in centre}
    for pieces in layers.segments:
        for a, b in pieces:
            beside[a].append(b)
            beside[b].append(a)
    for sweep in range(2 * SWEEPS):
        for layer in layers.spots if sweep % 2 == 0 else layers.spots[::-1]:
            wanted = [sum(centre[o] for o in beside[s]) / len(beside[s]) for s in layer]
            apart = [(height(a) + height(b)) / 2 + gap for a, b in zip(layer, layer[1:])]
            centre.update(zip(layer, _spaced(wanted, apart)))
    return centre


def _spaced(wanted: Sequence[float], apart: Sequence[float]) -> list[float]:
    """The nearest positions, in squares, that keep their order and distances: neighbours that collide move as one."""
    offset = [0.0]
    for distance in apart:
        offset.append(offset[-1] + distance)
    blocks: list[tuple[float, int]] = []
    for want, shift in zip(wanted, offset):
        blocks.append((want - shift, 1))
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            (b, m), (a, n) = blocks.pop(), blocks.pop()
            blocks.append(((a * n + b * m) / (n + m), n + m))
    flat = [value for value, size in blocks for _ in range(size)]
    return [value + shift for value, shift in zip(flat, offset)]
