"""What leaves the door in one release, and how much likelier it is beside one table than beside the other."""

from __future__ import annotations

import io
import pickle
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any

import numpy as np

from ..explainers.clusters.scores import CandidateScore, CombinationScore
from ..explainers.curves.accumulate import Intervals
from ..mechanisms import Choosing, Mechanism
from ..public.black_box import BlackBox
from ..query import Blocks, Choice, Query, Reading, Records, parts_of
from ..release.answer import Answer
from ..release.door import Ask
from ..release.plan import Stage
from .neighbours import coupled

REDRAWS = 48
"""Exact totals of a query whose pairs are drawn by lot: so many of them are computed, and one is taken at random."""
AGREE = 8
"""Where the first so many totals agree, lots make no difference, and no more are computed."""
OF_BLOCKS = 6
"""The same, for functions of blocks, each of which runs in processes of its own."""
MANY_UNITS = 1000
"""People in a table, where nobody said how many there are."""
STEPS = np.linspace(0.0, 40.0, 801)
"""Where the chance of a candidate is integrated."""
DIGITS = 9
"""Digits of a log-likelihood ratio."""

Question = Query | Choice


@dataclass(frozen=True)
class Said:
    """One answer of the door: noisy integers, or what was chosen."""

    stage: str
    query: Question
    how: Mechanism | Choosing
    answer: tuple[Any, ...]


class Enough(Exception):
    """All was heard that leaves the door."""


@dataclass
class Listening(Ask):
    """The door of a release, with an ear to it: what is heard are the answers that leave it anyway."""

    heard: list[Said] = field(default_factory=list)
    to_the_end: bool = True
    """Whether what follows the last answer is computed too."""

    def total(self, stage: str, query: Query | None = None) -> Answer:
        answer = super().total(stage, query)
        self._note(stage, answer.integers)
        return answer

    def choose(self, stage: str, choice: Choice | None = None) -> list[Any]:
        chosen = super().choose(stage, choice)
        self._note(stage, tuple(_frozen(one) for one in chosen))
        return chosen

    def _open(self, name: str, query: Question | None) -> Stage:
        self._planned = super()._open(name, query)
        return self._planned

    def _note(self, stage: str, answer: tuple[Any, ...]) -> None:
        assert self._planned.query is not None and self._planned.how is not None
        self.heard.append(Said(stage, self._planned.query, self._planned.how, answer))
        if not self.to_the_end and len(self.heard) == len(self.plan.stages):
            raise Enough


def _frozen(chosen: Any) -> Any:
    return tuple(_frozen(one) for one in chosen) if isinstance(chosen, list | tuple) else chosen


class Names:
    """Texts of queries, by which totals are kept: of the last few, as both sides ask for each several times."""

    FEW = 32

    def __init__(self) -> None:
        self._known: dict[int, tuple[Any, bytes]] = {}

    def __getitem__(self, query: Any) -> bytes:
        known = self._known.get(id(query))
        if known is not None and known[0] is query:
            return known[1]
        if len(self._known) >= self.FEW:
            self._known.clear()
        key = _key(query)
        self._known[id(query)] = query, key
        return key


class Kept:
    """Exact totals of queries, computed once each: many draws of noise are then cheap.

    Where it is drawn by lot who is paired with whom, totals are kept for several lots and each is as good as another. Two tables
    that are told apart have the same lots: the proofs promise something for every lot, and nothing for one lot beside another.
    """

    def __init__(self, totals: Callable[[Any], list[int]], names: Names | None = None, units: int = MANY_UNITS):
        self._totals = totals
        self.names = names or Names()
        self._units = units
        self._known: dict[bytes, list[list[int]]] = {}
        self._middle: dict[bytes, np.ndarray] = {}
        self._sides = [self]

    @classmethod
    def beside(cls, *engines: Any) -> list[Kept]:
        """One for each table."""
        names, units = Names(), max(engine.units for engine in engines)
        sides = [cls(engine.totals, names, units) for engine in engines]
        for side in sides:
            side._sides = sides
        return sides

    def __call__(self, query: Any) -> list[int]:
        known = self.all(query)
        return known[secrets.randbelow(len(known))] if len(known) > 1 else known[0]

    def all(self, query: Any) -> list[list[int]]:
        """The totals that a query may have beside this table, by lots."""
        key = self.names[query]
        if key not in self._known:
            found: list[list[list[int]]] = [[] for _ in self._sides]
            for drawn in range(_redraws(query, self._units)):
                if drawn == AGREE and all(one == side[0] for side in found for one in side):
                    break
                lot = secrets.randbits(64)
                for side, known in zip(self._sides, found):
                    with coupled(lot):
                        known.append(side._totals(query))
            for side, known in zip(self._sides, found):
                side._known[key] = known
        return self._known[key]

    def middle(self, query: Any) -> np.ndarray:
        """Their mean, as floats."""
        key = self.names[query]
        if key not in self._middle:
            self._middle[key] = np.array(self.all(query), dtype=float).mean(axis=0)
        return self._middle[key]


class _Keys(pickle.Pickler):
    """Text of a query, in which models and functions count as the objects that they are: they may have no text. The noisy number
    of records behind an interval is beside the question: no map reads it."""

    def reducer_override(self, thing: Any) -> Any:
        if isinstance(thing, BlackBox | FunctionType):
            return int, (id(thing),)
        if isinstance(thing, Intervals):
            return tuple, ((thing.lower.tobytes(), thing.upper.tobytes(), thing.share.tobytes()),)
        return NotImplemented


def _key(asked: Any) -> bytes:
    text = io.BytesIO()
    _Keys(text).dump(asked)
    return text.getvalue()


def _redraws(query: Any, units: int) -> int:
    kinds = {type(part.over) for part in parts_of(query)}
    if Blocks in kinds:
        return OF_BLOCKS
    # Of two there is one pair, whatever the lots are.
    return 1 if kinds == {Records} or units <= 2 else REDRAWS


@dataclass
class Likelihood:
    """The log-likelihood ratio of what was heard, for two tables, if the noise has the law that was claimed for it.

    Whatever is heard, the score is a function of it alone, so a bound that rests on it is true also where the noise has another
    law; it is sharp where the law is the claimed one.
    """

    first: Kept
    second: Kept
    _choices: dict[Any, float] = field(default_factory=dict, repr=False, init=False)

    def __call__(self, heard: Sequence[Said]) -> float:
        return float(sum(self.of(said) for said in heard))

    def of(self, said: Said) -> float:
        if isinstance(said.query, Choice):
            return self._chosen(said)
        assert isinstance(said.how, Mechanism)
        one, other = (released(kept, said.query) for kept in (self.first, self.second))
        return float(law_of(np.array(said.answer, dtype=float), one, other, said.how))

    def _chosen(self, said: Said) -> float:
        choice, how = said.query, said.how
        assert isinstance(choice, Choice) and isinstance(how, Choosing)
        if any(len(kept.all(choice.of)) > 1 for kept in (self.first, self.second)):
            return self._ratio(choice, how, said.answer)
        names = self.first.names
        key = names[choice.of], names[choice.score], how, said.answer
        if key not in self._choices:
            self._choices[key] = self._ratio(choice, how, said.answer)
        return self._choices[key]

    def _ratio(self, choice: Choice, how: Choosing, chosen: tuple[Any, ...]) -> float:
        one, other = (log_chance(choice, how, kept(choice.of), chosen) for kept in (self.first, self.second))
        return other - one


def released(kept: Kept, query: Query) -> np.ndarray:
    """What noise is added to, in the mean over lots."""
    if not isinstance(query, Reading):
        return kept.middle(query)
    return np.array(query.image.of(kept(query.of)), dtype=float)


def law_of(answers: np.ndarray, first: np.ndarray, second: np.ndarray, how: Mechanism) -> np.ndarray:
    """How much likelier noisy totals are beside the second exact ones than beside the first; of one answer, or one in a row."""
    scale = float(how.scale) * (np.array(how.relative) if how.relative else 1.0)
    one, other = np.abs(answers - first) / scale, np.abs(answers - second) / scale
    if how.kind == "k-norm":
        ratio = one.max(axis=-1) - other.max(axis=-1)
    elif how.kind == "laplace":
        ratio = (one - other).sum(axis=-1)
    else:
        ratio = ((one - other) * (one + other)).sum(axis=-1) / 2
    # What is equally likely has one score, and no threshold falls between two roundings of it.
    return np.asarray(np.round(ratio, DIGITS))


def log_chance(choice: Choice, how: Choosing, totals: Sequence[int], chosen: Sequence[Any]) -> float:
    """How likely a private choice is beside these totals; of whole combinations, up to a number that is the same for all."""
    score: Any = choice.score
    if isinstance(score, CombinationScore):
        return float(how.rate * score.tables(totals).of(chosen))
    if isinstance(score, CandidateScore):
        return sum(_peeled(row, how, picked) for row, picked in zip(score.of(totals), chosen, strict=True))
    return _peeled(score.of(totals), how, chosen)


def _peeled(scores: Sequence[int], how: Choosing, chosen: Sequence[int]) -> float:
    """One candidate after another, each leaving the list."""
    left, found = list(range(len(scores))), 0.0
    for pick in chosen:
        best = max(scores[i] for i in left)
        # Differences of exact scores first: they may be too large for floats, and what is far behind has no chance.
        levels = np.array([float(how.rate * (scores[i] - best)) for i in left])
        place = left.index(pick)
        chance = _flipped(levels, place) if how.flip else float(np.exp(levels[place]) / np.exp(levels).sum())
        found += float(np.log(max(chance, 1e-300)))
        left.remove(pick)
    return found


def _flipped(levels: np.ndarray, place: int) -> float:
    """Permute-and-flip is the largest score after exponential noise (Ding and others, 2021): integrated over that noise."""
    below = -np.expm1(np.minimum(np.delete(levels, place)[:, None] - STEPS, 0.0))
    return float(np.trapezoid(below.prod(axis=0) * np.exp(levels[place] - STEPS), STEPS))
