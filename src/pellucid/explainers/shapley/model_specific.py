"""Exact Shapley vectors read off fitted models: linear terms, and sums of trees."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...public.groups import Players
from ...public.model import Model
from ...public.rows import Rows
from ...public.schema import Schema
from ...release.explainer import as_written
from .coalitions import RecordAsked, playing, positions
from .fitted_models import Fitted, fitted
from .trees import spare_bits, vectors


def used_features(model: Model, record: RecordAsked, schema: Schema, players: Players | None = None) -> tuple[str, ...]:
    """The players with a part in the answers; the others have Shapley values of exactly 0, whatever the records."""
    used = fitted(model.ready(schema)).used()
    players = players or Players.single([name for name, _ in record])
    some = {player for player, part in zip(players.of, used) if part}
    return tuple(name for p, name in enumerate(players.names) if p in some) or players.names


@dataclass(frozen=True)
class ReadOff:
    """Base of Shapley vectors read off a fitted model: of the record asked about, for the players with a part in the answers."""

    model: Model
    record: RecordAsked
    features: tuple[str, ...]
    players: Players | None = None

    def computed_here(self, schema: Schema) -> bool:
        """Whether the model is not called at all, neither itself nor a step of it."""
        return as_written(self.model)

    @property
    def names(self) -> list[str]:
        """All features of the model, in the order of the record asked about."""
        return [name for name, _ in self.record]

    @property
    def whose(self) -> list[str]:
        """The player that each of them belongs to."""
        return self.names if self.players is None else [self.players.names[p] for p in self.players.of]


class LinearTerms(ReadOff):
    """Of a linear model: weight · (value asked about − background value), added over the encoded columns of a
    feature, and over the features of a group."""

    def computed_here(self, schema: Schema) -> bool:
        # Steps before a linear model are called with people.
        return super().computed_here(schema) and fitted(self.model.ready(schema)).encoding.computed_here

    def __call__(self, rows: Rows) -> np.ndarray:
        made, asked, background = self._encoded(rows)
        assert made.weights is not None
        place, whose = {name: j for j, name in enumerate(self.features)}, self.whose
        out = np.zeros((len(background), len(place)))
        # One column after the other: how a matrix product rounds depends on the number of rows.
        for c, column in enumerate(made.encoding.columns):
            j = place.get(whose[column.feature])
            if j is not None:
                out[:, j] += (asked[0, c] - background[:, c]) * made.weights[c]
        return out

    def _encoded(self, rows: Rows) -> tuple[Fitted, np.ndarray, np.ndarray]:
        """The parts of the model, the encoded record asked about, and the encoded background."""
        made = fitted(self.model.ready(rows.schema, rows.asking))
        asked = np.array([[value for _, value in self.record]])
        background = positions(rows, self.names)
        record, people = np.asarray(made.encoding(asked), dtype=float), made.encoding.of_people(background, rows.asking)
        # A row on which the steps fail, alone, counts as the record asked about: its Shapley values are 0.
        failed = np.isnan(people).all(axis=1) & ~np.isnan(background).all(axis=1)
        return made, record, np.where(failed[:, None], record, people)


class TreeWalks(ReadOff):
    """Of a sum of trees: both records walked down every tree at once. Neither the model nor a step of it is called."""

    def __call__(self, rows: Rows) -> np.ndarray:
        return self.added_up([self.record], rows)

    def added_up(self, records: Sequence[RecordAsked], rows: Rows) -> np.ndarray:
        """The sum of the vectors of several records asked about."""
        made = fitted(self.model.ready(rows.schema, rows.asking))
        assert made.trees is not None
        asked = made.trees.atoms({name: np.array([record[j][1] for record in records]) for j, name in enumerate(self.names)})
        found = vectors(made.walkable, asked, rows.atoms(made.trees), None if self.players is None else self.players.of)
        every = playing(self.record, self.players)
        kept = found[:, [every.index(name) for name in self.features]]
        return kept * math.ldexp(made.trees.unit, spare_bits(len(records)))
