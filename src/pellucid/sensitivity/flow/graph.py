"""Data-flow graphs: their vertices, what makes a drawing sound, and all minimal separators of a directed graph."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ...errors import PlanError
from ...public.schema import did_you_mean

Kind = Literal["input", "public", "stage", "output"]


@dataclass(frozen=True)
class Vertex:
    """One box of the drawing: its name, what it reads, and a note; the note of a stage says what must be bounded."""

    name: str
    sources: tuple[str, ...] = ()
    note: str = ""
    kind: Kind = "stage"


def arranged(vertices: Sequence[Vertex]) -> tuple[Vertex, ...]:
    """The vertices, checked, in one fixed order: input, public ones, stages after what they read, output."""
    by_name: dict[str, Vertex] = {}
    for vertex in vertices:
        _check_alone(vertex)
        if vertex.name in by_name:
            raise PlanError(f"{vertex.name!r} is drawn twice; give the second one another name.")
        by_name[vertex.name] = vertex
    for vertex in vertices:
        for source in vertex.sources:
            if source not in by_name:
                raise PlanError(f"{vertex.name!r} reads {source!r}, which is not drawn{did_you_mean(source, by_name)}.")
    ends: dict[Kind, list[str]] = {kind: [v.name for v in vertices if v.kind == kind] for kind in ("input", "output")}
    for kind, named in ends.items():
        if len(named) > 1:
            raise PlanError(f"{' and '.join(map(repr, named))} are both marked as the {kind}; a flow has one {kind}.")
    names = ordered({v.name: v.sources for v in vertices})
    rank: dict[Kind, int] = {"input": 0, "public": 1, "stage": 2, "output": 3}
    made = tuple(sorted((by_name[name] for name in names), key=lambda v: rank[v.kind]))
    if ends["output"]:
        _check_complete(made, ends)
    return made


def _check_alone(vertex: Vertex) -> None:
    if not vertex.name or vertex.name != " ".join(vertex.name.split()) or not vertex.name.isprintable():
        raise PlanError(f"{vertex.name!r} is not a name: use printable words with single spaces between them.")
    if vertex.name in vertex.sources:
        raise PlanError(f"{vertex.name!r} reads itself; give the earlier value a stage of its own.")
    if len(set(vertex.sources)) < len(vertex.sources):
        raise PlanError(f"{vertex.name!r} names a source twice: {', '.join(vertex.sources)}.")
    if vertex.kind in ("stage", "output") and not vertex.sources:
        raise PlanError(f"{vertex.name!r} reads nothing: say where it comes from, or mark it as public.")
    if vertex.kind in ("input", "public") and vertex.sources:
        raise PlanError(
            f"{vertex.name!r} is marked {vertex.kind} but reads {', '.join(vertex.sources)}; "
            "draw it as a stage: what is computed from public things alone is public by itself."
        )


def _check_complete(vertices: Sequence[Vertex], ends: Mapping[Kind, Sequence[str]]) -> None:
    if not ends["input"]:
        raise PlanError("the flow has no input: say which vertex holds the records, .input('records').")
    (output,) = ends["output"]
    backward = {v.name: v.sources for v in vertices}
    forward = turned(backward)
    if forward[output]:
        raise PlanError(f"{forward[output][0]!r} reads the output {output!r}; nothing may follow the output.")
    if output not in reached(forward, ends["input"]):
        raise PlanError(f"the output {output!r} does not depend on {ends['input'][0]!r}: there is nothing to protect.")
    used = reached(backward, [output])
    idle = [v.name for v in vertices if v.name not in used]
    if idle:
        raise PlanError(
            f"{', '.join(map(repr, idle))}: no path leads from there to the output {output!r}; "
            "draw the arrow to what uses it, or leave it out."
        )


def turned(arrows: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """The same arrows seen from the other end."""
    other: dict[str, list[str]] = {name: [] for name in arrows}
    for name, ends in arrows.items():
        for end in ends:
            other[end].append(name)
    return other


def reached(arrows: Mapping[str, Sequence[str]], start: Sequence[str], closed: frozenset[str] = frozenset()) -> set[str]:
    """Everything an arrow path leads to without entering a closed vertex; the start included."""
    seen = set(start)
    waiting = list(start)
    while waiting:
        new = [name for name in arrows[waiting.pop()] if name not in seen and name not in closed]
        seen.update(new)
        waiting.extend(new)
    return seen


def shortest(arrows: Mapping[str, Sequence[str]], start: str, end: str, closed: frozenset[str]) -> tuple[str, ...]:
    """A shortest path that enters no closed vertex; empty when there is none."""
    if start in closed or end in closed:
        return ()
    came: dict[str, str] = {start: start}
    waiting = deque([start])
    while waiting and end not in came:
        at = waiting.popleft()
        for name in arrows[at]:
            if name not in came and name not in closed:
                came[name] = at
                waiting.append(name)
    if end not in came:
        return ()
    path = [end]
    while path[-1] != start:
        path.append(came[path[-1]])
    return tuple(reversed(path))


def ordered(sources: Mapping[str, Sequence[str]], where: Callable[[str], str] = lambda name: "") -> list[str]:
    """Names after everything they read, otherwise in the order given; an error names a cycle."""
    left = dict(sources)
    done: dict[str, None] = {}
    while left:
        ready = next((name for name, read in left.items() if all(r in done for r in read)), None)
        if ready is None:
            raise PlanError(f"the drawing has a cycle: {_cycle(left, where)}. Cut it: a later round is a stage of its own.")
        done[ready] = None
        del left[ready]
    return list(done)


def _cycle(left: Mapping[str, Sequence[str]], where: Callable[[str], str]) -> str:
    # Every vertex left reads another one left: going backward must come round.
    path = [next(iter(left))]
    while path[-1] not in path[:-1]:
        path.append(next(source for source in left[path[-1]] if source in left))
    loop = path[path.index(path[-1]) :][::-1]
    return " -> ".join(f"{name}{where(name)}" for name in loop)


def minimal_separators(forward: Mapping[str, Sequence[str]], start: str, end: str) -> Iterator[frozenset[str]]:
    """Every minimal set of vertices other than `start` that meets every path from `start` to `end`, each once.

    Grows the part of the graph next to `start`. `border` turns a part into a minimal separator: the vertices one arrow
    outside it from which `end` is still reached past the others. From a separator, letting one of its vertices into the part
    gives the next ones, and every minimal separator comes up this way (proved in proofs/enabling-set.md). The work per
    separator is polynomial: its size times one walk over the arrows. `end` itself may be in a set.
    """
    names = list(forward)
    place = {name: i for i, name in enumerate(names)}
    beyond = 1 << len(names)  # one more vertex after `end`, so that `end` can be chosen
    after = [sum(1 << place[n] for n in forward[name]) for name in names] + [0]
    after[place[end]] |= beyond
    before = [sum(1 << i for i, ends in enumerate(after) if ends >> j & 1) for j in range(len(after))]

    def border(part: int) -> int:
        edge = _union(after, part) & ~part
        if edge & beyond:
            return 0
        inside = _walk(before, beyond, edge)
        return sum(1 << i for i in _places(edge) if after[i] & inside)

    first = border(1 << place[start])
    seen, waiting = {first}, deque([first])
    while waiting:
        chosen = waiting.popleft()
        yield frozenset(names[i] for i in _places(chosen))
        part = _walk(after, 1 << place[start], chosen)
        for i in _places(chosen):
            found = border(part | 1 << i)
            if found and found not in seen:
                seen.add(found)
                waiting.append(found)


def _places(mask: int) -> Iterator[int]:
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


def _union(arrows: Sequence[int], mask: int) -> int:
    found = 0
    for i in _places(mask):
        found |= arrows[i]
    return found


def _walk(arrows: Sequence[int], start: int, closed: int) -> int:
    seen = new = start
    while new:
        new = _union(arrows, new) & ~seen & ~closed
        seen |= new
    return seen
