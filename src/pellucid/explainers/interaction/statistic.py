"""What the H-statistics share: rounded features, how many values pay, and what to expect of an H."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from ...errors import PlanError
from ...mechanisms import NoiseLaw
from ...public.groups import Groups
from ...public.model import Model
from ...public.rows import Rows
from ...public.schema import Schema, did_you_mean
from ...query import Sum
from ...query.bound import Bound
from ...query.bounds import Box
from ...release.door import Ask
from ...release.explanation import Explanation
from ...release.plan import Expected, Plan, Public, Stage
from ...sensitivity import Flow
from ..common.base import grouped
from .group_cells import GroupCells
from .rounding import Part, Rounding, cell_counts, cleaned, rounded_size

MOST = 4096
"""Predictions a record may be asked for in one stage."""

SPREAD_SHARE = Fraction(10, 100)
"""Of the spend, for the counts that features are rounded by."""

TYPICAL, DEVIATION = 0.2, 1 / 8
"""What a preview assumes of H, and of the standard deviation of effects as a part of the model's range."""


@dataclass(frozen=True)
class Layout:
    """How features are rounded, and what a record's predictions at the rounded values are."""

    points: int
    """Values that a number is rounded to."""
    columns: tuple[str, ...]
    """What is read."""
    parts: dict[str, Part]
    """The features and groups that interact."""
    sizes: dict[str, int]
    """Values of each of them then."""
    box: Box
    """The set that a record's predictions at these values live in."""
    noise: NoiseLaw
    """The noise of their totals."""


@dataclass(frozen=True)
class HStatistic(ABC):
    """Base of all kinds of H: what is asked, and what to expect of it."""

    model: Model
    points: int | None
    """Values that a number is rounded to; None is as many as pay."""
    groups: Groups | None = field(default=None, kw_only=True)
    """Features that count as one; None are those of the schema."""

    @property
    @abstractmethod
    def features(self) -> tuple[str, ...]:
        """The features asked about, as far as they were named."""

    def columns(self, schema: Schema) -> tuple[str, ...]:
        used, groups = self.model.features or tuple(schema), grouped(self.groups, self.model, schema)
        for name in self.features:
            if name not in used and name not in groups:
                raise PlanError(
                    f"the model does not use {name!r}, so it has no interactions{did_you_mean(name, (*used, *groups))}."
                )
        if len(groups.players(used).names) < 2:
            what = "features of a single group" if groups else "a single feature"
            raise PlanError(f"the model uses {what}: there is nothing it could interact with.")
        return tuple(name for name in schema if name in used)

    def parts(self, schema: Schema) -> dict[str, Part]:
        """What interacts with what: groups, and features that are in none."""
        columns = self.columns(schema)
        players = grouped(self.groups, self.model, schema).players(columns)
        members = dict(zip(players.names, players.members(columns)))
        return {name: schema[name] if some == (name,) else GroupCells.of(name, some, schema) for name, some in members.items()}

    @abstractmethod
    def plan(self, public: Public) -> Plan: ...

    @abstractmethod
    def run(self, ask: Ask) -> Explanation: ...

    @abstractmethod
    def expected(self, plan: Plan) -> Expected: ...

    @abstractmethod
    def flow(self, plan: Plan | None = None) -> Flow: ...


@dataclass(frozen=True)
class MeasuredH(HStatistic):
    """Base of the two with error bars: features are rounded by their counts first, then mean predictions are released at the
    rounded values."""

    finest: ClassVar[int]
    """The most values that are worth it."""
    share: ClassVar[Fraction]
    """Of the spend, for mean predictions."""

    @abstractmethod
    def box(self, sizes: dict[str, int], public: Public) -> Box:
        """The set that a record's predictions live in when features have so many values."""

    def layout(self, public: Public) -> Layout:
        """With as many values as keep the noise of a mean within a hundredth of the range, or as many as were asked for."""
        columns, parts = self.columns(public.schema), self.parts(public.schema)
        for points in range(self.finest, 2, -1) if self.points is None else (self.points,):
            sizes = {name: rounded_size(part, points) for name, part in parts.items()}
            box = self.box(sizes, public)
            layout = Layout(points, columns, parts, sizes, box, noise_in(box, public, self.share))
            if layout.noise.std / 2 <= public.rows_or_default / 100:
                break
        if box.length > MOST:
            raise PlanError(
                f"this asks the model for {box.length:,} predictions a record, and at most {MOST:,} are allowed: "
                "give a smaller points=, or a model of fewer features."
            )
        return layout

    def spread(self, public: Public) -> Stage:
        """The first stage: what features are rounded by."""
        counts = cell_counts(self.parts(public.schema), self.columns(public.schema))
        return public.stage("spread", counts, SPREAD_SHARE)


def refuse_member(feature: str | None, parts: Mapping[str, Part]) -> None:
    """A feature of a group does not interact by itself."""
    if feature is not None and feature not in parts:
        group = next(part.name for part in parts.values() if isinstance(part, GroupCells) and feature in part.members)
        raise PlanError(f"{feature!r} is in the group {group!r}: ask about the group, or give groups={{}} for single features.")


def rounded(ask: Ask, layout: Layout) -> tuple[tuple[Rounding, ...], float]:
    """Every feature rounded by the answer to the first stage, and the number of records: public, or by the same answer."""
    counts, total = cleaned(ask.total("spread"))
    return tuple(Rounding.of(*part, c, layout.points) for part, c in zip(layout.parts.items(), counts)), total


def grids_of(features: Sequence[Rounding], schema: Schema) -> dict[str, tuple[Any, ...]]:
    """The values that features were rounded to, by name."""
    return {feature.name: feature.labels(schema) for feature in features}


def h_of(squares: Sequence[float]) -> np.ndarray:
    """H from estimates of its square, which may lie outside [0, 1]."""
    return np.sqrt(np.clip(squares, 0.0, 1.0))


def noise_in(bound: Bound, public: Public, share: Fraction) -> NoiseLaw:
    """The noise of a sum in this set, of which no more is known yet."""
    return public.stage("later", Sum(_nothing, bound), share).noise


def _nothing(rows: Rows) -> None:
    raise AssertionError("a preview asks nothing")


def expected_h(labels: tuple[str, ...], cells: np.ndarray, noise: float, own: np.ndarray) -> Expected:
    """The error of H over so many `cells`, with noise of a mean in parts of the range and `own` variance of its square."""
    variance = own + (2 * TYPICAL * DEVIATION * noise) ** 2 / cells
    error = np.sqrt(TYPICAL**2 + 1.96 * np.sqrt(variance) / DEVIATION**2) - TYPICAL
    notes = (
        "assumes an H of 0.2, effects with a standard deviation of an eighth of the model's range and equally common values; "
        "weaker effects have wider error bars",
    )
    return Expected(labels, error, float(2**0.5 * error.max()), notes)


KNOWN = ("records", "grid", "model", "spread")
"""What all stages after the first one read."""


def rounded_flow() -> Flow:
    """What reads what, up to the rounded features."""
    return (
        Flow("feature interaction")
        .input("records")
        .public("grid", "cells of every feature and candidate caps, from the schema")
        .public("model", "treated as public")
        .stage("spread", "records", "grid", needs="a histogram per feature: one record is in one cell of each")
    )
