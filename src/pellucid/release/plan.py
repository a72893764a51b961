"""What planning sees, and what it settles: all that is decided about a release before any data is read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from ..errors import PlanError
from ..mechanisms import Choosing, Mechanism, NoiseLaw, Spend
from ..public.schema import Relation, Schema, Unit
from ..query import Choice, Query, calibrated, calibrated_choice, released_parts
from ..query.bounds import CountedBox
from ..query.functions import FunctionTrial
from .part import Part

WHOLE = Fraction(1)


@dataclass(frozen=True)
class Public:
    """All that planning may look at."""

    schema: Schema
    relation: Relation
    unit: Unit
    spend: Spend
    """What the release may cost."""
    rows: int | None
    """The number of units; None under add-remove, where it is secret."""
    expected_rows: int | None = None
    """A public guess of it."""
    strict: bool = False
    """Whether models are asked in processes of their own."""
    part: Part | None = None
    """The part of the table that is asked about; None for the whole table."""

    @property
    def rows_per_unit(self) -> int:
        """How many contributions one person can have in a total, or can change in that of a part."""
        return self.unit.rows_per_unit * (1 if self.part is None else self.part.changes)

    @property
    def protects(self) -> Relation:
        """Under which neighbours the guarantee holds: those of the account."""
        return self.relation if self.part is None else self.part.relation

    @property
    def count_needed(self) -> bool:
        """Whether a mean has to learn the number of records from noise."""
        return self.rows is None

    @property
    def planning_rows(self) -> int:
        """Rows to plan grids and error bars with: the public number, or the public guess."""
        if self.rows is not None:
            return max(self.rows, 1)
        if self.expected_rows is None:
            raise PlanError(
                "under add-remove the number of records is secret, so a preview needs a public guess: "
                "open the session with expected_rows=, for example expected_rows=10_000."
            )
        return self.expected_rows

    @property
    def rows_or_default(self) -> int:
        """As planning_rows, with a modest guess where none was given: only the grid depends on it, never the noise."""
        return self.planning_rows if self.rows is not None or self.expected_rows is not None else 10_000

    @property
    def epsilon_like(self) -> float:
        """The spend as a pure ε of about the same noise: what rules for grids and intervals are written in."""
        amount = float(self.spend.amount)
        return amount if self.spend.currency == "epsilon" else (2 * amount) ** 0.5

    def counted_box(self, length: int, lo: float, hi: float, *, sums: bool = False, weight: int = 1) -> CountedBox:
        """The bound of values of which some are left out, with the counts that a mean (or with `sums` a sum) of the others needs.

        Under add-remove a sum needs no count, and counting those left out is free.
        """
        secret = self.count_needed
        return CountedBox(length, lo, hi, count=not (sums and secret), weight=weight, left_out=secret)

    def mechanism(self, query: Query, share: Fraction = WHOLE) -> Mechanism:
        """The noise this query would get for a share of the spend."""
        return calibrated(query, self.relation, self.rows_per_unit, self.spend.part(share))

    def choosing(self, choice: Choice, share: Fraction = WHOLE) -> Choosing:
        """How sharp this choice would be for a share of the spend."""
        return calibrated_choice(choice, self.relation, self.rows_per_unit, self.spend.part(share))

    def stage(self, name: str, query: Query | Choice, share: Fraction = WHOLE) -> Stage:
        """A stage whose question is known now: it is calibrated here, once."""
        how = self.choosing(query, share) if isinstance(query, Choice) else self.mechanism(query, share)
        return Stage(name, share, query, how, (query, share, self))


@dataclass(frozen=True)
class Stage:
    """One use of the budget. A stage is used once, with the share it was planned with."""

    name: str
    share: Fraction = WHOLE
    """Of the spend; the shares of a plan add up to one."""
    query: Query | Choice | None = None
    """What is asked; None where earlier answers decide it."""
    how: Mechanism | Choosing | None = None
    """The calibrated noise or choice of the query."""
    settled_for: tuple[Any, Fraction, Public] | None = field(default=None, repr=False, compare=False)
    """The query, share and public facts that it was calibrated for: noise is not passed on to another question."""

    @property
    def mechanism(self) -> Mechanism:
        if not isinstance(self.how, Mechanism):
            raise PlanError(f"stage {self.name!r} adds no noise that is known in advance.")
        return self.how

    @property
    def law(self) -> NoiseLaw:
        """The law of its noise, in grid units."""
        return self.mechanism.law

    @property
    def noise(self) -> NoiseLaw:
        """The law of the noise of `Answer.numbers`, known before anything is asked."""
        assert self.query is not None and not isinstance(self.query, Choice)
        return self.law.times(1 / released_parts(self.query)[0].released.one)


@dataclass(frozen=True)
class Expected:
    """What a release will be worth, known before paying."""

    labels: tuple[str, ...]
    """The outputs by name."""
    error: np.ndarray
    """Half-widths of their 95 % error bars."""
    gap: float
    """The smallest difference between two outputs that is told apart with 95 %."""
    notes: tuple[str, ...] = ()
    typical: np.ndarray | None = None
    """Root mean square errors of the outputs, where they are expected to be less than error bars must allow for."""
    at_most: np.ndarray | None = None
    """What the half-widths are in bad cases, where public things cannot tell; no limit. None where they can tell."""
    instead: str = ""
    """What `error` says of outputs that have no error bars, with {} for its size; empty where it is that of error bars."""


@dataclass(frozen=True)
class Plan:
    """What an explainer settled about one release, from public things only. `run`, `expected` and the certificate take it."""

    public: Public
    """What planning saw."""
    stages: tuple[Stage, ...]
    """The uses of the budget, in order."""
    details: Any = None
    """What the explainer wants to know again when it runs: a grid, an estimator, the way it will ask."""
    assumptions: tuple[str, ...] = ()
    """What the guarantee, or what is said of the result, rests on beyond the explainer's own list."""
    trial: FunctionTrial | None = None
    """A user's function of blocks, to be tried on public records before anything is charged."""
    useless: str = ""
    """Why nothing would be learnt from the release, with what would do: it is then refused before it is paid for. An identical
    one of before is replayed all the same."""

    def __post_init__(self) -> None:
        names = [stage.name for stage in self.stages]
        if any(stage.share <= 0 for stage in self.stages) or sum(stage.share for stage in self.stages) != 1:
            raise PlanError("the stages of a plan must have positive shares that add up to one.")
        if len(set(names)) < len(names):
            raise PlanError("the stages of a plan must have different names.")
        for stage in self.stages:
            query, share, public = stage.settled_for or (None, stage.share, self.public)
            if query is not stage.query or share != stage.share or public is not self.public:
                raise PlanError(
                    f"stage {stage.name!r} was calibrated for another question, share or session; make it with "
                    "public.stage(name, query, share), from what plan() was given."
                )

    def __getitem__(self, name: str) -> Stage:
        for stage in self.stages:
            if stage.name == name:
                return stage
        raise PlanError(f"stage {name!r} was not planned; planned are {', '.join(stage.name for stage in self.stages)}.")

    def _repr_html_(self) -> str:
        """In a notebook: what print() shows, in a list."""
        from .display import of_lines

        return of_lines(str(self))

    def __str__(self) -> str:
        """The stages in words, for whoever asks what a release would do."""
        lines = [f"for {self.public.spend.text}, under {self.public.protects} neighbours, {self.public.unit.text}:"]
        if self.public.part is not None:
            lines.append(f"  of {self.public.part.where.text}, whose number is secret")
        for stage in self.stages:
            how = stage.how
            if how is None:
                told = "asked when earlier answers are known" if len(self.stages) > 1 else "asked question by question"
            elif isinstance(how, Mechanism):
                told = f"{how.size} numbers with {how.kind} noise"
            else:
                told = f"a private choice by the {how.name.removesuffix(' mechanism')} mechanism"
            lines.append(f"  {stage.name}: {float(stage.share):.0%}, {told}")
        return "\n".join([*lines, *(f"  assumes that {text}" for text in self.assumptions)])

    @property
    def shares(self) -> dict[str, Fraction]:
        return {stage.name: stage.share for stage in self.stages}

    def spend(self, stage: Stage) -> Spend:
        """What a stage may cost."""
        return self.public.spend.part(stage.share)


def later(shares: Iterable[tuple[str, Fraction]]) -> tuple[Stage, ...]:
    """Stages whose questions depend on earlier answers."""
    return tuple(Stage(name, share) for name, share in shares)
