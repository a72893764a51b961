"""The order of interactions alone: H on records that are made up from released counts."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from ...public.rows import Rows, weighted
from ...query import Sum
from ...query.bounds import CrossCells
from ...release.door import Ask
from ...release.explanation import Explanation
from ...release.plan import WHOLE, Expected, Plan, Public, Stage
from ...sensitivity import Flow
from .made_up import links, made_up, shown_counts, shown_table
from .results import RankedInteractions
from .rounding import Part, Rounding, cell_counts, noisy_counts, rounded_size
from .statistic import MOST, HStatistic, h_of, noise_in, refuse_member

PAIR_SHARE = Fraction(60, 100)
"""Of the spend, for counts of pairs, where they are asked."""

GROUPS = range(8, 2, -1)
"""Groups of the values of a feature that pairs are counted by: the most with which the noise leaves them something to say."""

ENOUGH = 0.3
"""Noise in a count of pairs, as a part of what it would be if all pairs were equally common, with which they are still asked."""

VALUES = 12
"""Values that a number is rounded to for H, where no other number is given."""

RECORDS = (1024, 4096)
"""Records that are made up: the most, unless they would ask the model more often than `QUESTIONS`, and at least the fewest."""
QUESTIONS = 2**22


@dataclass(frozen=True, eq=False)
class InPairs:
    """Per record: the cell of every pair of features, by their groups."""

    features: tuple[Rounding, ...]

    def __call__(self, rows: Rows) -> tuple[np.ndarray, list[np.ndarray]]:
        index = [feature.index(rows) for feature in self.features]
        pairs = itertools.combinations(zip(index, self.features), 2)
        return np.zeros(len(rows), dtype=np.int64), [a * len(second.values) + b for (a, _), (b, second) in pairs]


@dataclass(frozen=True)
class Details:
    """What the plan settles."""

    columns: tuple[str, ...]
    parts: dict[str, Part]
    """The features and groups that interact."""
    groups: int
    """Of the values of a feature, that pairs are counted by; 1 where they are not."""
    pairs: CrossCells | None
    """The cells of all pairs."""


@dataclass(frozen=True)
class RankedH(HStatistic):
    """H as Friedman and Popescu have it, of records that are made up from the counts: the model is not asked about anybody."""

    feature: str | None

    @property
    def features(self) -> tuple[str, ...]:
        return self.model.features if self.feature is None else (self.feature,)

    def plan(self, public: Public) -> Plan:
        columns, parts = self.columns(public.schema), self.parts(public.schema)
        refuse_member(self.feature, parts)
        counts = cell_counts(parts, columns)
        for groups in GROUPS:
            sizes = [rounded_size(part, groups) for part in parts.values()]
            pairs = CrossCells(1, tuple(a * b for a, b in itertools.combinations(sizes, 2)))
            if pairs.size > MOST:
                continue
            if noise_in(pairs, public, PAIR_SHARE).std <= ENOUGH * public.rows_or_default / max(pairs.sizes):
                spread = public.stage("spread", counts, 1 - PAIR_SHARE)
                return Plan(public, (spread, Stage("pairs", PAIR_SHARE)), Details(columns, parts, groups, pairs))
        spread = public.stage("spread", counts, WHOLE)
        return Plan(public, (spread,), Details(columns, parts, 1, None))

    def run(self, ask: Ask) -> Explanation:
        details: Details = ask.plan.details
        schema, answer = ask.public.schema, ask.total("spread")
        noisy, records = noisy_counts(answer)
        total = max(records, 1.0)
        counts = [shown_counts(part, answer.noise.std, total) for part in noisy]
        grouped, names = self._rounded(details.parts, counts, details.groups), tuple(details.parts)
        tables: dict[tuple[int, int], np.ndarray] = {}
        if details.pairs is not None:
            found = ask.total("pairs", Sum(InPairs(grouped), details.pairs, columns=details.columns))
            parts = np.split(found.numbers, np.cumsum(details.pairs.sizes)[:-1])
            for (i, j), part in zip(itertools.combinations(range(len(grouped)), 2), parts):
                first, second = grouped[i].weights, grouped[j].weights
                tables[i, j] = shown_table(part.reshape(len(first), -1), first, second, found.noise.std, total)
        features = self._rounded(details.parts, counts, self._values(details.parts))
        asked = self._asked(features)
        size = int(np.clip(QUESTIONS // max(asked, 1), *RECORDS))
        rows = Rows(schema, made_up(grouped, counts, tables, size))
        squares = self._overall(rows, features) if self.feature is None else self._pairs(rows, features)
        return RankedInteractions(
            features=tuple(squares),
            feature=self.feature,
            values=h_of(list(squares.values())),
            squares=np.array(list(squares.values())),
            linked=tuple((names[i], names[j]) for i, j in links(tables, len(grouped))),
        )

    @staticmethod
    def _rounded(parts: Mapping[str, Part], counts: Sequence[np.ndarray], points: int) -> tuple[Rounding, ...]:
        return tuple(Rounding.of(*part, c, points) for part, c in zip(parts.items(), counts))

    def _values(self, parts: Mapping[str, Part]) -> int:
        """As many as keep the questions about one record within what is allowed."""
        for points in range(VALUES, 2, -1) if self.points is None else (self.points,):
            sizes = {name: rounded_size(part, points) for name, part in parts.items()}
            if (sum(sizes.values()) if self.feature is None else sizes[self.feature] * sum(sizes.values())) <= MOST:
                break
        return points

    def _asked(self, features: Sequence[Rounding]) -> int:
        """Predictions for one record."""
        sizes = {feature.name: len(feature.values) for feature in features}
        every = sum(sizes.values())
        return every + 1 if self.feature is None else sizes[self.feature] * (every - sizes[self.feature])

    def _pairs(self, rows: Rows, features: Sequence[Rounding]) -> dict[str, float]:
        first = next(feature for feature in features if feature.name == self.feature)
        index, own, squares = first.index(rows), self._means(rows, first), {}
        for other in (feature for feature in features if feature is not first):
            both = self._means(rows, first, other).reshape(len(own), -1)
            together = np.zeros(both.shape)
            np.add.at(together, (index, other.index(rows)), 1 / len(rows))
            squares[other.name] = square_of(both, own, self._means(rows, other), together)
        return squares

    def _means(self, rows: Rows, *features: Rounding) -> np.ndarray:
        """Mean predictions with features set to all combinations of their values."""
        every = itertools.product(*([feature.changes(value) for value in feature.values] for feature in features))
        changes = [{name: value for one in some for name, value in one.items()} for some in every]
        return rows.predict_table(self.model, changes).mean(axis=0)

    def _overall(self, rows: Rows, features: Sequence[Rounding]) -> dict[str, float]:
        plain = rows.predict(self.model)
        whole, squares = float(plain.var()), {}
        for feature in features:
            at = rows.predict_table(self.model, [feature.changes(value) for value in feature.values])
            index = feature.index(rows)
            shares = np.bincount(index, minlength=len(feature.values)) / len(rows)
            rest = at[np.arange(len(at)), index] - weighted(at, shares) - at.mean(axis=0)[index]
            squares[feature.name] = float(rest.var()) / whole if whole > 0 else 0.0
        return squares

    def expected(self, plan: Plan) -> Expected:
        """The part of all records that noise moves to other values of a feature."""
        details: Details = plan.details
        stage, rows = plan["spread"], plan.public.planning_rows
        assert isinstance(stage.query, Sum) and isinstance(stage.query.bound, CrossCells)
        sizes = dict(zip(details.parts, stage.query.bound.sizes))
        # Half of the mean absolute errors of all cells.
        moved = {name: 1.96 * 0.4 * stage.noise.std * size / rows for name, size in sizes.items()}
        names = [name for name in details.parts if name != self.feature]
        labels = tuple(names if self.feature is None else (f"{self.feature} × {name}" for name in names))
        notes = (
            f"counts of pairs, by {details.groups} groups a feature, tell how features depend on each other"
            if details.pairs is not None
            else "at this price and number of people counts of pairs would be noise: features are taken as independent",
        )
        said = "an order without error bars: noise in counts moves {} of all records to other values of a feature"
        return Expected(labels, np.array([moved[name] for name in names]), 1.0, notes, instead=said)

    def flow(self, plan: Plan | None = None) -> Flow:
        flow = (
            Flow("feature interaction, ranking")
            .input("records")
            .public("grid", "cells of every feature, from the schema")
            .public("model", "treated as public, and asked about made-up records only")
            .stage("spread", "records", "grid", needs="a histogram per feature: one record is in one cell of each")
        )
        counts = ("spread",) if plan is not None and "pairs" not in plan.shares else ("spread", "pairs")
        if "pairs" in counts:
            flow = flow.stage("pairs", "records", "grid", "spread", needs="a table per pair: one record is in one cell of each")
        return flow.output("explanation", *counts, "model", needs="records drawn from the counts, H of these")


def square_of(both: np.ndarray, first: np.ndarray, second: np.ndarray, together: np.ndarray) -> float:
    """H² of mean predictions at pairs of values that are so common together, and at the values of each feature alone."""
    rest, whole = (variance(table, together) for table in (both - first[:, None] - second, both))
    return rest / whole if whole > 0 else 0.0


def variance(table: np.ndarray, together: np.ndarray) -> float:
    return float((together * (table - (together * table).sum()) ** 2).sum())
