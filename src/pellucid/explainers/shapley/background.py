"""Many private records against a few public background records: the same estimators with the roles of the two swapped.

The Shapley vector of x against b is minus the vector of b against x: reversing every order of the features turns one into the
other. So the public records are the ones asked about, each in turn, and the private records are the background.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...errors import PlanError
from ...public.asking import AS_THEY_ARE
from ...public.groups import NO_GROUPS, Groups
from ...public.model import Model
from ...public.records import asked_record, plain
from ...public.rows import Rows
from ...public.schema import Schema
from .coalitions import MOST_ENUMERATED, Permuted
from .estimator import CHEAP, Chosen, Method, Term, estimator_for
from .model_specific import TreeWalks

MOST_BACKGROUND = 1000
AFFORDABLE = 1 << 13
"""Model calls per private record up to which all coalitions are asked about without being told to."""


@dataclass(frozen=True)
class Background:
    """Public records that predictions are compared with."""

    columns: tuple[tuple[str, tuple[Any, ...]], ...]

    @classmethod
    def of(cls, given: Any) -> Background:
        """From a DataFrame, a dict of columns, a list of records, or a single record."""
        if isinstance(given, Background):
            return given
        if _is_record(given):
            given = [given]
        if isinstance(given, list | tuple) and given and all(_is_record(record) for record in given):
            records = [dict(record.items()) for record in given]
            names = dict.fromkeys(name for record in records for name in record)
            given = {name: [record.get(name) for record in records] for name in names}
        if not hasattr(given, "items"):
            raise PlanError(
                f"public_background: give a DataFrame, a dict of columns or a list of records, not a {type(given).__name__}."
            )
        if any(_is_cell(column) or isinstance(column, Mapping) or not hasattr(column, "__len__") for _, column in given.items()):
            raise PlanError("public_background: give a list of values for every column, or a list of records with single values.")
        columns = tuple((str(name), tuple(plain(v) for v in column)) for name, column in given.items())
        if len({name for name, _ in columns}) < len(columns):
            raise PlanError("public_background: two columns have the same name; give every column once.")
        sizes = {len(column) for _, column in columns}
        if len(sizes) != 1 or not 1 <= min(sizes) <= MOST_BACKGROUND:
            raise PlanError(f"public_background: give 1 to {MOST_BACKGROUND} public records with all their columns equally long.")
        return cls(columns)

    def __len__(self) -> int:
        return len(self.columns[0][1])

    def records(self, schema: Schema) -> list[dict[str, Any]]:
        known = [(name, column) for name, column in self.columns if name in schema]
        return [{name: column[i] for name, column in known} for i in range(len(self))]

    @property
    def digest(self) -> str:
        """What tells two public backgrounds apart in a request."""
        return hashlib.sha256(repr(self.columns).encode()).hexdigest()


def _is_cell(value: Any) -> bool:
    """Whether something is a single value: text is one too."""
    return isinstance(value, str | bytes) or not hasattr(value, "__iter__") or getattr(value, "ndim", 1) == 0


def _is_record(given: Any) -> bool:
    """Whether something is one record: single values by name."""
    return hasattr(given, "items") and (
        all(_is_cell(value) for _, value in given.items()) if isinstance(given, Mapping) and given else _is_series(given)
    )


def _is_series(given: Any) -> bool:
    return getattr(given, "ndim", 0) == 1 and hasattr(given, "to_dict")


@dataclass(frozen=True)
class Swapped:
    """Per private record: its Shapley vector against public records, averaged over them."""

    estimators: tuple[Any, ...]

    def __call__(self, rows: Rows) -> np.ndarray:
        first, *others = self.estimators
        if isinstance(first, TreeWalks):
            total = first.added_up([estimator.record for estimator in self.estimators], rows)
        else:
            total = first(rows)
            for estimator in others:
                total = total + estimator(rows)
        return -total / len(self.estimators)


def estimator_against(
    model: Model,
    schema: Schema,
    background: Background,
    *,
    method: Method | None = None,
    permutations: int | None = None,
    samples: int | None = None,
    seed: int = 0,
    certified: Any = None,
    groups: Groups = NO_GROUPS,
) -> Chosen:
    """The best estimator for Shapley vectors of private records against a public background.

    The mean prediction for the background is public; it takes the place of the prediction for a public record, on the other
    side: vectors are centred at minus what they would be. Claim: shapley-radii
    """
    records = background.records(schema)
    d = len(groups.players(model.ready(schema).features).names)
    absent = [name for name in model.ready(schema).features if name not in records[0]]
    if absent:
        raise PlanError(f"public_background has no column {absent[0]!r}, which the model uses; give every column of the model.")
    if method is None and permutations is None and d <= min(CHEAP, MOST_ENUMERATED) and 2**d * len(records) > AFFORDABLE:
        # The records of the background average the chance of the orders out; two orders for each are enough.
        permutations = 2
    settings = {"method": method, "permutations": permutations, "samples": samples, "certified": certified, "groups": groups}
    first = estimator_for(model, schema, records[0], seed=seed, **settings)
    estimators: list[Any] = []
    for i, record in enumerate(records):
        own = replace(first.estimator, record=asked_record(record, model, schema))  # type: ignore[type-var]
        estimators.append(replace(own, seed=seed + i) if isinstance(own, Permuted) else own)
    ready = model.ready(schema)
    asked = np.array([[value for _, value in e.record] for e in estimators])
    answers = ready.predict(ready.inputs({name: asked[:, j] for j, name in enumerate(ready.features)}), AS_THEY_ARE)
    lo, hi = model.output
    mirrored = float(np.clip(lo + hi - answers.mean(), lo, hi))
    swapped = Swapped(tuple(estimators))
    terms = first.terms
    if terms:
        # Terms differ between background records by a constant alone.
        shift = np.mean([_at_lows(e, schema) for e in estimators], axis=0) - _at_lows(estimators[0], schema)
        terms = tuple(Term(-term.middle - float(s), term.half) for term, s in zip(terms, shift))
    against = f"{first.why}; against {len(records)} public records"
    return replace(first, estimator=swapped, why=against, prediction=mirrored, terms=terms)


def _at_lows(estimator: Any, schema: Schema) -> np.ndarray:
    """The terms at one public record, the same for every estimator."""
    one = {name: column[:1] for name, column in schema.sample(1).items()}
    return estimator(Rows(schema, one))[0]
