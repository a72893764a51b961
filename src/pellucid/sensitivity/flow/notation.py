"""The text format of data flows: one line per stage, `sources -> stage: what must be bounded`.

    flow: accumulated effects            the name of the drawing (optional)
    public: schema, model                what does not depend on the data
    model: trained on other data         a note on a vertex
    records, schema -> edges             a stage and what it reads; several lines for one stage add up
    records, edges, model -> effects: one difference in [-R, R] per record
    edges, effects -> curve              the one vertex that nothing reads is the output

A # at the start of a line or after a space begins a comment. Names with , : # or an arrow in them stand in double quotes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ...errors import PlanError
from ...public.schema import did_you_mean
from .graph import Vertex, ordered

WORDS = ("flow", "public")
"""Words of the format; a vertex with such a name stands in quotes."""

_ARROW = re.compile(r"->|→")
_WRONG_ARROW = re.compile(r"-->|=>|<-|\|>")
_END_OF_NAME = re.compile(r"->|→|,|:|(?:(?<=\s)|^)#")
_DECODER = json.JSONDecoder()


@dataclass
class _Draft:
    """What the lines said so far."""

    title: str | None
    sources: dict[str, list[str]]
    notes: dict[str, str]
    public: list[str]
    lines: dict[str, int]

    def where(self, name: str) -> str:
        return f" (line {self.lines[name]})"


def read(text: str) -> tuple[str, tuple[Vertex, ...]]:
    """The name and the vertices of a drawing; errors name the line and the fix."""
    draft = _Draft(None, {}, {}, [], {})
    for number, line in enumerate(text.splitlines(), 1):
        try:
            _read_line(line, number, draft)
        except PlanError as error:
            raise PlanError(f"line {number}: {error}") from None
    return draft.title or "", _vertices(draft)


def write(title: str, vertices: Sequence[Vertex]) -> str:
    """The text that reads back as the same drawing."""
    lines = [f"flow: {_note(title)}"] if title else []
    lines += [f"public: {_name(v.name)}" for v in vertices if v.kind == "public"]
    for v in vertices:
        if v.sources:
            line = f"{', '.join(map(_name, v.sources))} -> {_name(v.name)}"
            lines.append(f"{line}: {_note(v.note)}" if v.note else line)
        elif v.note:
            lines.append(f"{_name(v.name)}: {_note(v.note)}")
    return "\n".join(lines) + "\n"


def _name(name: str) -> str:
    plain = name not in WORDS and not re.search(r'[,:#"→]|->|=>|<-|\|>', name)
    return name if plain else json.dumps(name, ensure_ascii=False)


def _note(note: str) -> str:
    plain = note == note.strip() and not re.search(r'#|^"|[\n\r]', note) and note.splitlines() == [note]
    return note if plain else json.dumps(note)


def _read_line(line: str, number: int, draft: _Draft) -> None:
    if told := re.match(rf"\s*({'|'.join(WORDS)})\s*:", line):
        _read_word(told[1], line[told.end() :], number, draft)
        return
    parts = list(_parts(line))
    if not parts:
        return
    note = parts.pop()[1] if parts[-1][0] == "note" else None
    groups = _groups(parts)
    target = groups[-1]
    if len(groups) == 1 and note is None:
        raise PlanError(
            f"{', '.join(target)} stands alone; write 'records -> {target[0]}' for a stage, 'public: {target[0]}' for "
            f"something that does not depend on data, or '{target[0]}: …' for a note."
        )
    for names in groups[1:] if len(groups) > 1 else groups:
        if len(names) > 1:
            raise PlanError(f"{', '.join(names)}: one name goes there; write a line for each.")
    for name in (name for names in groups for name in names):
        _mention(name, number, draft)
    for names, (after,) in zip(groups, groups[1:]):
        draft.sources[after] += [name for name in names if name not in draft.sources[after]]
    if note and draft.notes.setdefault(target[0], note) != note:
        raise PlanError(f"{target[0]!r} has a note already, {draft.notes[target[0]]!r}; keep one.")


def _read_word(word: str, rest: str, number: int, draft: _Draft) -> None:
    if word == "flow":
        if draft.title is not None:
            raise PlanError("the flow has a name already; keep one line that starts with 'flow:'.")
        draft.title = _read_note(rest)
        return
    parts = list(_parts(rest))
    if any(kind == "note" for kind, _ in parts):
        raise PlanError("after 'public:' come names only; write the note on a line of its own, 'grid: ten equal steps'.")
    for name in _list(parts, "'public:'"):
        _mention(name, number, draft)
        draft.public += [name] if name not in draft.public else []


def _mention(name: str, number: int, draft: _Draft) -> None:
    draft.lines.setdefault(name, number)
    draft.sources.setdefault(name, [])


def _parts(line: str) -> Iterator[tuple[str, str]]:
    """Names, arrows and commas of a line; everything after the first colon is its note."""
    at = 0
    while True:
        at += len(line[at:]) - len(line[at:].lstrip())
        if at == len(line) or line[at] == "#":
            return
        if line[at] == '"':
            name, at = _quoted(line, at)
            yield "name", " ".join(name.split())
        elif arrow := _ARROW.match(line, at):
            yield "arrow", "->"
            at = arrow.end()
        elif line[at] == ",":
            yield "comma", ","
            at += 1
        elif line[at] == ":":
            yield "note", _read_note(line[at + 1 :])
            return
        else:
            stop = _END_OF_NAME.search(line, at)
            end = stop.start() if stop else len(line)
            name = " ".join(line[at:end].split())
            if _WRONG_ARROW.search(line[at : end + 2]):
                raise PlanError("arrows are written -> and point from what is read to the stage that reads it.")
            yield "name", name
            at = end


def _read_note(rest: str) -> str:
    rest = rest.strip()
    if rest.startswith('"'):
        try:
            note, end = _DECODER.raw_decode(rest)
        except ValueError:
            end = 0
        if end and (not rest[end:].strip() or re.match(r"\s+#", rest[end:])):
            return note
    return re.sub(r"(?:^|\s+)#.*$", "", rest)


def _quoted(line: str, at: int) -> tuple[str, int]:
    try:
        name, end = _DECODER.raw_decode(line, at)
    except ValueError:
        raise PlanError("a name in double quotes does not end, or has a \\ that is not part of an escape.") from None
    return name, end


def _groups(parts: Sequence[tuple[str, str]]) -> list[list[str]]:
    """The lists of names between the arrows."""
    pieces: list[list[tuple[str, str]]] = [[]]
    for part in parts:
        if part[0] == "arrow":
            pieces.append([])
        else:
            pieces[-1].append(part)
    return [_list(piece, "the arrow" if len(pieces) > 1 else "the colon") for piece in pieces]


def _list(parts: Sequence[tuple[str, str]], beside: str) -> list[str]:
    """Names with commas between them."""
    kinds = [kind for kind, _ in parts]
    if not parts or kinds[0] != "name" or kinds[-1] != "name" or "arrow" in kinds:
        raise PlanError(f"a name is missing beside {beside}; a stage is written 'records, grid -> curve: what must be bounded'.")
    if any(a == b for a, b in zip(kinds, kinds[1:])):
        raise PlanError("names are separated by single commas: 'records, grid -> curve'.")
    return list(dict.fromkeys(value for kind, value in parts if kind == "name"))


def _vertices(draft: _Draft) -> tuple[Vertex, ...]:
    for name in draft.public:
        if draft.sources[name]:
            raise PlanError(
                f"{name!r} is public{draft.where(name)} but reads {', '.join(draft.sources[name])}; drop the mark: "
                "what is computed from public things alone is public by itself."
            )
    if not any(draft.sources.values()):
        raise PlanError("the text draws no arrow; write at least 'records -> answer'.")
    ordered(draft.sources, draft.where)
    starts = [name for name, read in draft.sources.items() if not read and name not in draft.public]
    fed = {source for read in draft.sources.values() for source in read}
    ends = [name for name in draft.sources if name not in fed]
    if not starts:
        raise PlanError("everything is public: draw the records as the one vertex without an arrow into it.")
    if len(starts) > 1:
        # The one most others hang on is the data; the rest are slips or forgotten marks.
        data = max(starts, key=lambda name: sum(name in read for read in draft.sources.values()))
        strays = [name for name in starts if name != data]
        known = [name for name in draft.sources if name not in strays]
        listed = "; ".join(f"{name!r}{draft.where(name)} reads nothing{did_you_mean(name, known)}" for name in strays)
        raise PlanError(
            f"the data enters once, here at {data!r}, but {listed}. Draw the arrow into it, or write 'public: {strays[0]}' if it "
            "does not depend on the data."
        )
    if len(ends) > 1:
        listed = " and ".join(f"{name!r}{draft.where(name)}" for name in ends)
        raise PlanError(
            f"nothing reads {listed}, but a flow has one output. Draw the arrows to what uses them; if all are "
            f"released, draw one vertex that reads them: '{', '.join(ends)} -> result'."
        )
    kinds = {**dict.fromkeys(draft.public, "public"), starts[0]: "input", ends[0]: "output"}
    return tuple(
        Vertex(name, tuple(read), draft.notes.get(name, ""), kinds.get(name, "stage"))  # type: ignore[arg-type]
        for name, read in draft.sources.items()
    )
