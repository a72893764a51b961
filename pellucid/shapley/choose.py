"""Which estimator to use for a model: decided by public facts alone, and said in words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np

from ..errors import PlanError
from ..model import Model
from ..rows import Rows
from ..schema import Schema
from .bound import ShapleyVectors
from .coalitions import MOST_ENUMERATED, Enumerated, Mixtures, Permuted, RecordAsked, Regressed
from .exact import LinearTerms, TreeWalks, used_features
from .fitted import NotAdditive, fitted, never_clipped
from .record import asked_record

Method = Literal["linear", "trees", "enumeration", "permutations", "kernel"]

CHEAP = 10
"""Features up to which all coalitions are asked about without being told to: 1,024 model calls per record."""


@dataclass(frozen=True)
class Chosen:
    """An estimator, and why it was taken. Called with rows, it gives one Shapley vector per record over `features`."""

    method: Method
    estimator: Callable[[Rows], np.ndarray]
    features: tuple[str, ...]
    unused: tuple[str, ...]
    exact: bool
    why: str
    output: tuple[float, float]
    prediction: float

    def __call__(self, rows: Rows) -> np.ndarray:
        return self.estimator(rows)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns the estimator reads: all features of the model, also those without a part."""
        return self.features + self.unused

    def bound(self, count: bool = False, ranked: bool = False, own_sizes: bool = False) -> ShapleyVectors:
        """The set the vectors are clipped into: that of exact Shapley vectors, or the larger one of a kernel design."""
        whole = ShapleyVectors(len(self.features), *self.output, self.prediction, count, ranked)
        if not own_sizes:
            return whole
        if not isinstance(self.estimator, Regressed):
            raise PlanError("own_sizes=True is for the kernel method; the others have the sizes of exact Shapley vectors.")
        design = self.estimator.design
        return replace(whole, radii=design.radii(), shares=tuple(float(v) for v in design.full))


def estimator_for(
    model: Model,
    schema: Schema,
    record: Any,
    *,
    method: Method | None = None,
    permutations: int | None = None,
    samples: int | None = None,
    seed: int = 0,
    certified: Sequence[float] | None = None,
) -> Chosen:
    """The best estimator for a model and the record asked about, from public facts alone: the model, the schema, the record.

    Exact where the model can be taken apart (linear models and sums of trees that certainly stay inside their declared range)
    or has few features; otherwise public permutations. `certified` is an output range known to hold, for example
    from `pel.sensitivity.output_range`, which then need not be found again. `permutations`, `samples` and `seed` are public.

    >>> from pellucid.schema import Number
    >>> model = Model(lambda d: (d["dose"] + d["age"]) / 2, output=(0, 1), features=["dose", "age"], trained_on="other data")
    >>> chosen = estimator_for(model, Schema({"dose": Number(0, 1), "age": Number(0, 1)}), {"dose": 1, "age": 0.5})
    >>> chosen.method, chosen.why
    ('enumeration', 'exact: all 4 coalitions of 2 features are asked about')
    """
    if method is not None and method not in get_args(Method):
        raise PlanError(f"method={method!r}: use one of {', '.join(get_args(Method))}, or leave it out.")
    asked = asked_record(record, model, schema)
    names = tuple(name for name, _ in asked)
    prediction = Mixtures(model, asked, schema).prediction()

    def chosen(method: Method, estimator: Any, exact: bool, why: str) -> Chosen:
        unused = tuple(name for name in names if name not in estimator.features)
        return Chosen(method, estimator, estimator.features, unused, exact, why, model.output, prediction)

    reason = ""
    if method in (None, "linear", "trees"):
        try:
            kind, estimator, why = _additive(model, schema, asked, certified)
            if method in (None, kind):
                return chosen(kind, estimator, True, why)
            reason = f"the model is not of the kind {method!r}"
        except NotAdditive as refusal:
            reason = str(refusal)
        if method is not None:
            raise PlanError(f"method={method!r} cannot be used: {reason}. Leave method= out, or use 'permutations'.")
    return chosen(*_by_asking(model, asked, method, permutations, samples, seed, reason))


def _additive(
    model: Model, schema: Schema, asked: RecordAsked, certified: Sequence[float] | None
) -> tuple[Method, LinearTerms | TreeWalks, str]:
    ready = model.ready(schema)
    made = fitted(ready)
    if not never_clipped(ready, made, None if certified is None else (float(certified[0]), float(certified[1]))):
        raise NotAdditive("it may answer outside its declared range, and clipped answers do not add up")
    features = used_features(model, asked, schema)
    if made.weights is not None:
        return "linear", LinearTerms(model, asked, features), "exact: the terms of a linear model"
    return "trees", TreeWalks(model, asked, features), f"exact: {len(made.trees)} trees, walked with both records at once"


def _by_asking(
    model: Model,
    asked: RecordAsked,
    method: Method | None,
    permutations: int | None,
    samples: int | None,
    seed: int,
    reason: str,
) -> tuple[Method, Any, bool, str]:
    d = len(asked)
    if method == "enumeration" or (method is None and permutations is None and d <= CHEAP):
        if d > MOST_ENUMERATED:
            raise PlanError(f"method='enumeration' is for at most {MOST_ENUMERATED} features, the model has {d}; leave it out.")
        return "enumeration", Enumerated(model, asked), True, f"exact: all {2**d} coalitions of {d} features are asked about"
    if method == "kernel":
        made = Regressed(model, asked, samples or 2 * d + 2048, seed)
        calls = len(made.design.masks)
        return "kernel", made, False, f"estimated: regression on {calls} public coalitions per record (seed {seed})"
    count = permutations or (8 if d <= 64 else 4 if d <= 256 else 2)
    words = f"estimated: {count} public permutations per record (seed {seed}), {count * (d - 1) + 1} model calls"
    return "permutations", Permuted(model, asked, count, seed), False, words + (f"; {reason}" if reason else "")
