"""The door an explainer gets instead of the data: stages with their shares, noisy totals and private choices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from ..engine import Engine, shielded
from ..errors import PlanError
from ..mechanisms import NoiseLaw, Spend, add_noise
from ..public.schema import Unit
from ..query.bound import UNITS, Bound
from ..query.bounds import Box, Cells
from ..query.kinds import Choice, Joint, Sum, changes, parts_of
from .mean import Mean
from .plan import Public

NOISE_NAMES = {"laplace": "discrete Laplace", "gaussian": "discrete Gaussian", "k-norm": "K-norm (L∞) on integers"}


@dataclass(frozen=True)
class Charge:
    """One use of the budget, as it goes on the certificate."""

    stage: str
    mechanism: str
    amount: Fraction
    norm: str
    sensitivity: str
    noise: str
    bound: str
    enforced: bool
    claims: tuple[str, ...]


@dataclass(frozen=True)
class Answer:
    """Noisy totals of one stage, with the law of their noise. Nothing in here is secret."""

    integers: tuple[int, ...]
    bounds: tuple[Bound, ...]
    law: NoiseLaw
    rows: int | None

    def part(self, i: int) -> Answer:
        """The answer to one sum of a joint query; its noise is one part of the joint draw."""
        start = sum(b.size for b in self.bounds[:i])
        return Answer(self.integers[start : start + self.bounds[i].size], (self.bounds[i],), self.law, self.rows)

    @property
    def bound(self) -> Bound:
        if len(self.bounds) != 1:
            raise PlanError("a joint answer has several parts; take one with part(i).")
        return self.bounds[0]

    def mean(self) -> Mean:
        """Means of the values of a Box: over the public number of rows, or over the noisy count."""
        box = self.bound
        assert isinstance(box, Box)
        totals = np.array(self.integers[: box.length], dtype=float) / box.weight
        count = float(self.rows) if not box.count else self.integers[-1] / UNITS / box.weight  # type: ignore[arg-type]
        # A count at or below the noise says nothing about the mean; the middle of the range does not pretend to.
        values = box.centre + box.unit * totals / count if count >= 1 else np.full(box.length, box.centre)
        return Mean(values, self.law.times(1 / UNITS / box.weight), count, box.count, box.lo, box.hi)

    def cells(self) -> tuple[np.ndarray | None, np.ndarray | None]:
        """(sums of values, counts) per cell, in the user's units."""
        bound = self.bound
        assert isinstance(bound, Cells)
        numbers = np.array(self.integers, dtype=float)
        sums = numbers[: bound.cells] * bound.unit if bound.value is not None else None
        counts = numbers[-bound.cells :] / bound.counts if bound.counts else None
        return sums, counts


@dataclass
class Ask:
    """Answers the questions of one release. Each stage is used once, with the share it was planned with."""

    _engine: Engine
    public: Public
    stages: Mapping[str, Fraction]
    charges: list[Charge] = field(default_factory=list)

    def _open(self, stage: str) -> Spend:
        if stage not in self.stages:
            raise PlanError(f"stage {stage!r} was not planned; planned are {', '.join(self.stages)}.")
        if any(charge.stage == stage for charge in self.charges):
            raise PlanError(f"stage {stage!r} was used already; plan one stage per question.")
        return self.public.spend.part(self.stages[stage])

    def total(self, stage: str, query: Sum | Joint) -> Answer:
        """Noisy totals: exact integers plus one calibrated draw."""
        spend = self._open(stage)
        mechanism = self.public.mechanism(query, self.stages[stage])
        if mechanism.cost > spend.amount:
            raise AssertionError("calibration would cost more than the stage was charged")
        parts = parts_of(query)
        self.charges.append(
            Charge(
                stage,
                NOISE_NAMES[mechanism.kind],
                spend.amount,
                mechanism.norm,
                f"{mechanism.sensitivity / UNITS:.6g} × 2^30 grid units ({self._changes_text(parts)})",
                f"scale {float(mechanism.scale) / UNITS:.6g} × 2^30 grid units over {mechanism.size} coordinates; 2^30 units are "
                + "; ".join(dict.fromkeys(p.bound.scale_text for p in parts)),
                "; ".join(p.bound.text for p in parts),
                all(p.bound.enforced for p in parts),
                tuple(
                    dict.fromkeys(
                        [c for p in parts for c in (p.bound.claim, *_claims_of(p))]
                        + (["joint-sum"] if len(parts) > 1 else [])
                        + unit_claims(self.public.unit)
                        + [mechanism.claim]
                    )
                ),
            )
        )
        noisy = shielded(lambda: add_noise(self._engine.totals(query), mechanism))
        return Answer(tuple(noisy), tuple(p.bound for p in parts), mechanism.law, self.public.rows)

    def _changes_text(self, parts: tuple[Sum, ...]) -> str:
        """How many contributions one unit touches, in words."""
        said = []
        for over in dict.fromkeys(p.over for p in parts):
            added, replaced = changes(over, self.public.relation)
            told = [f"{added} added" if added else "", f"{replaced} replaced" if replaced else ""]
            said.append(f"{type(over).__name__.lower()}: {' and '.join(filter(None, told))}")
        k = self.public.unit.rows_per_unit
        return f"{k} rows × ({'; '.join(said)})" if k > 1 else "; ".join(said)

    def choose(self, stage: str, choice: Choice) -> list[Any]:
        """A private choice: positions of the chosen candidates, best first; for clusters a tuple of attributes for each."""
        spend = self._open(stage)
        score, bound = choice.score, choice.of.bound
        one = bound.added().linf
        relation, weight = choice.touched(self.public.relation)
        how = score.calibrate(relation, weight * self.public.unit.rows_per_unit, spend, choice.k)
        if how.cost > spend.amount:
            raise AssertionError("calibration would cost more than the stage was charged")
        self.charges.append(
            Charge(
                stage,
                how.name,
                spend.amount,
                "span of the score",
                f"{how.span / one:.6g} records in the score ({self._changes_text((choice.of,))})",
                f"exponent {float(how.rate * one):.6g} per record",
                bound.text,
                False,
                (bound.claim, *_claims_of(choice.of), score.claim, *unit_claims(self.public.unit), how.claim),
            )
        )
        return shielded(lambda: score.pick(self._engine.totals(choice.of), how))


def unit_claims(unit: Unit) -> list[str]:
    """The claim that several rows of one unit rest on."""
    return ["person-average"] if unit.column else ["group-rows"] if unit.max_rows > 1 else []


def _claims_of(part: Sum) -> tuple[str, ...]:
    name = type(part.over).__name__.lower()
    return () if name == "records" else (name,)
