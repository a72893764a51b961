"""Data flows of explainers: draw what reads what, and learn every minimal set of stages whose noise makes the whole private."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any

from ...errors import LoadError, PlanError
from ...mechanisms.amounts import exact
from ...public.frozen import settle
from ...public.schema import check_relation, did_you_mean
from . import drawing, notation
from .characters import characters
from .graph import Kind, Vertex, arranged, minimal_separators, reached, shortest, turned
from .omissions import omissions


@dataclass(frozen=True)
class Flow:
    """The data flow of an algorithm: which stage reads what, from the records to the output.

    Built in code (`.input`, `.public`, `.stage`, `.output`, each returns a new flow) or read from text (`Flow.parse`,
    `Flow.load`). Noise can go on every stage that depends on the data, the output among them, but not on the input: the input
    is the data. To perturb the records themselves draw a stage "noisy records" after them.

    What is certified holds for the drawing: a vertex left out of it (counts, the number of records, edges) gives a false
    answer; `.warnings()` asks about the usual ones.

    Claim: enabling-set. Assumes that everything each stage reads is drawn.
    Paper: "Tailoring differential privacy to any explainer", DP enabler theorem, in a corrected reading.

    >>> flow = (
    ...     Flow("accumulated effects")
    ...     .input("records")
    ...     .stage("edges", "records", needs="ranks: one record moves each by at most 1")
    ...     .stage("effects", "records", "edges", needs="one difference in [-R, R] in one interval")
    ...     .stage("counts", "records", "edges", needs="one record is in one interval")
    ...     .output("curve", "edges", "effects", "counts")
    ... )
    >>> [chosen.stages for chosen in flow.enabling_sets()]
    [('curve',), ('edges', 'effects', 'counts')]
    >>> flow.leaks(["edges", "effects"])
    ('records', 'counts', 'curve')
    """

    title: str = ""
    vertices: tuple[Vertex, ...] = ()

    def __post_init__(self) -> None:
        settle(self, vertices=arranged(self.vertices))

    @classmethod
    def parse(cls, text: str) -> Flow:
        """The flow a text draws, one line per stage: `records, edges -> effects: what must be bounded`.

        `public: schema, model` marks what does not depend on the data, `flow: …` names the drawing, `model: …` is a note on a
        vertex, # begins a comment. The one vertex that reads nothing and is not public is the input, the one that nothing
        reads the output.

        >>> Flow.parse("records -> predictions -> curve").stages
        ('predictions', 'curve')
        """
        return cls(*notation.read(text))

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Flow:
        """The flow drawn in a text file."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise LoadError(
                f"{str(path)!r} cannot be read as text ({type(error).__name__}); give the path of a UTF-8 file."
            ) from None
        return cls.parse(text)

    @property
    def text(self) -> str:
        """The drawing in the text format; `Flow.parse` reads it back."""
        return notation.write(self.title, self.vertices)

    def save(self, path: str | PathLike[str]) -> None:
        """Write `.text` to a file."""
        Path(path).write_text(self.text, encoding="utf-8")

    def input(self, name: str, note: str = "") -> Flow:
        """The data: where every path begins."""
        return self._with(name, (), note, "input")

    def public(self, name: str, note: str = "") -> Flow:
        """Something that does not depend on the data: a declared grid, the schema, a model trained elsewhere."""
        return self._with(name, (), note, "public")

    def stage(self, name: str, *sources: str, needs: str = "") -> Flow:
        """A step and everything it reads; `needs` says what about it is bounded."""
        return self._with(name, sources, needs, "stage")

    def output(self, name: str, *sources: str, needs: str = "") -> Flow:
        """What is released. It closes the drawing, which is checked as a whole."""
        return self._with(name, sources, needs, "output")

    def _with(self, name: str, sources: tuple[str, ...], note: str, kind: Kind) -> Flow:
        if any(v.kind == "output" for v in self.vertices):
            raise PlanError(f"{name!r} comes after the output; draw it before .output(…), which closes the flow.")
        return replace(self, vertices=(*self.vertices, Vertex(name, sources, note, kind)))

    def __getitem__(self, name: str) -> Vertex:
        for vertex in self.vertices:
            if vertex.name == name:
                return vertex
        raise PlanError(f"{name!r} is not drawn{did_you_mean(name, [v.name for v in self.vertices])}.")

    @cached_property
    def stages(self) -> tuple[str, ...]:
        """Where noise can go: everything that depends on the data, the output included, the input not."""
        private = reached(self._forward, [self._input])
        return tuple(v.name for v in self.vertices if v.name in private and v.kind != "input")

    def enabling_sets(self, most: int = 10_000) -> tuple[EnablingSet, ...]:
        """Every minimal set of stages whose noise makes the output private, small ones first.

        These are the minimal sets that every path from the input to the output meets. There can be exponentially many, each
        found in polynomial time; more than `most` are refused.
        """
        found = list(islice(minimal_separators(self._forward, self._input, self._output), most + 1))
        if len(found) > most:
            raise PlanError(f"there are more than {most} minimal sets; draw fewer stages side by side, or raise most=.")
        places = {name: i for i, name in enumerate(self.stages)}
        rows = sorted(sorted(places[name] for name in chosen) for chosen in found)
        return tuple(EnablingSet(tuple(self.stages[i] for i in row), self) for row in sorted(rows, key=len))

    def enables(self, stages: str | Iterable[str]) -> bool:
        """Whether noise on these stages makes every algorithm with this drawing private."""
        return not self.leaks(stages)

    def leaks(self, stages: str | Iterable[str] = ()) -> tuple[str, ...]:
        """A shortest path from the data to the output on which none of the stages lies; empty when there is none."""
        return shortest(self._forward, self._input, self._output, frozenset(self._chosen(stages)))

    def enabling_set(self, stages: str | Iterable[str]) -> EnablingSet:
        """The set with exactly these stages, minimal or not.

        A larger set than necessary can be the better choice: with more stages released, each is bounded for fixed values of
        the others, which is often far less than for all of them together.
        """
        chosen = self._chosen(stages)
        leak = self.leaks(chosen)
        if leak:
            raise PlanError(
                f"noise on {_listed(chosen) or 'no stage'} does not make the output private: {' -> '.join(leak)} "
                "carries data past it. Add a stage of that path."
            )
        return EnablingSet(chosen, self)

    def warnings(self, relation: str = "add-remove") -> list[str]:
        """What drawings like this one often leave out, judged by the words in names and notes: sentences with the fix.

        An empty list is no proof that nothing was left out.

        >>> print(*Flow.parse("records -> effects: mean difference per interval").warnings("replace"), sep="\\n")
        effects: a mean or weight over part of the records divides by how many there are, and no counts are drawn. \
Draw 'records -> counts' and an arrow from counts to effects.
        effects: intervals, grids or quantiles are used but not drawn. Draw 'records -> edges' if they come from the data, \
or 'public: edges' if they are declared, and an arrow to effects.
        """
        return omissions(self.vertices, self.stages, check_relation(relation))

    def report(self, relation: str = "add-remove") -> str:
        """All minimal sets with what each stage needs, and the warnings."""
        parts = [self.draw(), *(chosen.text for chosen in self.enabling_sets())]
        questions = self.warnings(relation)
        if questions:
            parts.append("Is something missing from the drawing?\n" + "\n".join(f"- {question}" for question in questions))
        return "\n\n".join(parts)

    def draw(self, stages: str | Iterable[str] = ()) -> str:
        """The drawing in characters, with the stages marked that get noise."""
        return characters(self.vertices, self.stages, drawing.states(self, self._chosen(stages)))

    def svg(self, stages: str | Iterable[str] = ()) -> str:
        """The drawing as the text of an SVG picture, with the stages marked that get noise."""
        return drawing.svg(self, self._chosen(stages))

    def plot(self, ax: Any = None, stages: str | Iterable[str] = ()) -> Any:
        """The drawing on matplotlib axes, with the stages marked that get noise."""
        return drawing.plot(self, self._chosen(stages), ax)

    def safe(self, stages: str | Iterable[str]) -> tuple[str, ...]:
        """What no data reaches except through the noise of these stages: free post-processing."""
        chosen = self._chosen(stages)
        raw = reached(self._forward, [self._input], frozenset(chosen))
        return tuple(name for name in self.stages if name not in raw and name not in chosen)

    def _chosen(self, stages: str | Iterable[str]) -> tuple[str, ...]:
        names = {stages} if isinstance(stages, str) else set(stages)
        for name in sorted(names):
            if self[name].kind == "input":
                raise PlanError(
                    f"{name!r} is the data itself, and noise goes on stages; to perturb the records draw "
                    f"'{name} -> noisy {name}' and let the rest read that."
                )
            if name not in self.stages:
                raise PlanError(f"{name!r} does not depend on {self._input!r}: noise there protects nobody; leave it out.")
        return tuple(name for name in self.stages if name in names)

    @cached_property
    def _forward(self) -> dict[str, list[str]]:
        return turned({v.name: v.sources for v in self.vertices})

    @cached_property
    def _ends(self) -> tuple[str, str]:
        if not any(v.kind == "output" for v in self.vertices):
            raise PlanError("the drawing has no output yet; finish it with .output('curve', 'effects').")
        return tuple(next(v.name for v in self.vertices if v.kind == kind) for kind in ("input", "output"))  # type: ignore[return-value]

    @property
    def _input(self) -> str:
        return self._ends[0]

    @property
    def _output(self) -> str:
        return self._ends[1]


@dataclass(frozen=True)
class Need:
    """What must be bounded so that noise on one stage is calibrated rightly."""

    stage: str
    data: str
    through: tuple[str, ...]
    """Stages between the data and this one that are not released: the bound is on all of them together."""
    fixed: tuple[str, ...]
    """Released stages it reads: the bound must hold for every value of them."""
    reads_data: bool
    bound: str

    @property
    def text(self) -> str:
        if not self.reads_data:
            return f"reads released stages only ({_listed(self.fixed)}): it is post-processing and could go without noise"
        together = f", computed through {_listed(self.through)}," if self.through else ""
        fixed = f", for every fixed value of {_listed(self.fixed)}" if self.fixed else ""
        return f"how far one unit of {self.data} can move it{together}{fixed}. {self._drawn}"

    @property
    def _drawn(self) -> str:
        return f"Drawn as bounded by: {self.bound}" if self.bound else "The drawing does not say what bounds it: add needs=…"

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class EnablingSet:
    """Stages whose noise makes the output of a flow private: their parts of the budget, and what must be bounded for each.

    Noise on every stage is fresh and independent, and stage v must be ε_v-private as a function of the *original* data, for every
    fixed value of the other released stages. The total is then the sum of the ε_v (or of ρ_v, in a zCDP account). Stages that
    are not released are deterministic: randomness that two stages share is not covered.
    """

    stages: tuple[str, ...]
    flow: Flow = field(repr=False)

    def charges(self, epsilon: Any, shares: Mapping[str, Any] | None = None) -> dict[str, Fraction]:
        """How much each stage may spend of ε: equal parts, or by `shares` that add up to 1. The parts add up exactly.

        >>> Flow.parse("records -> x; y").enabling_sets()[0].charges(0.3)
        {'x; y': Fraction(3, 10)}
        """
        total = exact("epsilon", epsilon)
        if total <= 0:
            raise PlanError(f"epsilon={epsilon!r}: give a positive number.")
        parts = dict.fromkeys(self.stages, Fraction(1)) if shares is None else self._parts(shares)
        whole = sum(parts.values(), Fraction(0))
        return {name: total * part / whole for name, part in parts.items()}

    def _parts(self, shares: Mapping[str, Any]) -> dict[str, Fraction]:
        for name in shares:
            if name not in self.stages:
                raise PlanError(f"shares: {name!r} gets no noise in this set{did_you_mean(name, self.stages)}.")
        missing = [name for name in self.stages if name not in shares]
        if missing:
            raise PlanError(f"shares: {_listed(missing)} must get a part too; without noise there the set protects nobody.")
        parts = {name: exact(f"shares[{name!r}]", shares[name]) for name in self.stages}
        if any(part <= 0 for part in parts.values()):
            raise PlanError("shares: every stage needs a part above 0.")
        # As for split= elsewhere: thirds written as 0.333 are meant to be thirds of the whole.
        if abs(sum(parts.values(), Fraction(0)) - 1) > Fraction(1, 1000):
            raise PlanError(f"shares add up to {float(sum(parts.values())):g}; they must add up to 1.")
        return parts

    @property
    def minimal(self) -> bool:
        """Whether no stage could be left out."""
        return not any(self.flow.enables([s for s in self.stages if s != stage]) for stage in self.stages)

    @property
    def safe(self) -> tuple[str, ...]:
        """What follows from the noisy stages without touching data again."""
        return self.flow.safe(self.stages)

    @property
    def needs(self) -> dict[str, Need]:
        """For each stage, what must be bounded: its value as a function of the original data, the other released stages fixed."""
        flow = self.flow
        raw = reached(flow._forward, [flow._input], frozenset(self.stages))
        backward = {v.name: v.sources for v in flow.vertices}
        found = {}
        for stage in self.stages:
            others = frozenset(self.stages) - {stage}
            behind = reached(backward, [stage], others) - {stage}
            read = {source for name in (stage, *behind) for source in backward[name]}
            found[stage] = Need(
                stage=stage,
                data=flow._input,
                through=tuple(name for name in flow.stages if name in behind and name in raw),
                fixed=tuple(name for name in self.stages if name in others & read),
                reads_data=flow._input in behind,
                bound=flow[stage].note,
            )
        return found

    @property
    def text(self) -> str:
        """The set in words."""
        parts = "all of ε" if len(self.stages) == 1 else f"ε/{len(self.stages)} each, or any parts that add up to ε"
        lines = [f"Noise on {_listed(self.stages)} ({parts}). To be bounded:"]
        lines += [f"- {stage}: {need.text}" for stage, need in self.needs.items()]
        if self.safe:
            lines.append(f"Free afterwards: {_listed(self.safe)}.")
        return "\n".join(lines)

    def draw(self) -> str:
        """The drawing in characters, this set marked."""
        return self.flow.draw(self.stages)

    def svg(self) -> str:
        """The drawing as the text of an SVG picture, this set marked."""
        return self.flow.svg(self.stages)

    def plot(self, ax: Any = None) -> Any:
        """The drawing on matplotlib axes, this set marked."""
        return self.flow.plot(ax, self.stages)


def _listed(names: Iterable[str]) -> str:
    *first, last = [*names] or [""]
    return f"{', '.join(first)} and {last}" if first else last
