"""Which estimator to use for a model: decided by public facts alone, and said in words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np

from ...errors import ModelError, PlanError
from ...public.fitted.encoding import MAX_LEVELS
from ...public.grids import every_value
from ...public.groups import NO_GROUPS, Groups, Players
from ...public.model import Model
from ...public.records import asked_record
from ...public.rows import Rows
from ...public.schema import Category, Feature, Schema
from .bound import ShapleyVectors
from .coalitions import MOST_ENUMERATED, Enumerated, Mixtures, Permuted, RecordAsked, Regressed
from .fitted_models import NotAdditive, fitted, never_clipped
from .model_specific import LinearTerms, ReadOff, TreeWalks, used_features
from .radii import Radii, whole_radii

Method = Literal["linear", "trees", "enumeration", "permutations", "kernel"]

NARROWEST = 1e-270
"""Ranges below this get lost in floats once they are put on a grid."""

CHEAP = 10
"""Features up to which all coalitions are asked about without being told to: 1,024 model calls per record."""


@dataclass(frozen=True)
class Term:
    """The values that one coordinate of a vector can take."""

    middle: float
    """Depends on the record asked about."""
    half: float
    """Half their width, the same for every record."""


@dataclass(frozen=True)
class Chosen:
    """An estimator, and why it was taken. Called with rows, it gives one Shapley vector per record over `features`."""

    method: Method
    """Which kind it is."""
    estimator: Callable[[Rows], np.ndarray]
    """What computes the vectors."""
    features: tuple[str, ...]
    """The features (or groups of them) with a part in the model's answers, or all where nobody can tell."""
    unused: tuple[str, ...]
    """The others: their values are exactly 0."""
    exact: bool
    """Whether the vectors are exact, or estimates."""
    why: str
    """How vectors are computed, in words."""
    output: tuple[float, float]
    """The declared range of the model."""
    prediction: float
    """That for the record asked about: it decides the centre of the vectors."""
    terms: tuple[Term, ...] = ()
    """The values each coordinate can take, where they are known (linear models)."""
    everybody: tuple[str, ...] = ()
    """All features and groups, in the order of the model."""
    columns: tuple[str, ...] = ()
    """The columns the estimator reads: all features of the model, also those without a part."""

    def __call__(self, rows: Rows) -> np.ndarray:
        return self.estimator(rows)

    def computed_here(self, schema: Schema) -> bool:
        """Whether the model's structure was read and is evaluated here, so that no person's record is shown to the model."""
        parts = getattr(self.estimator, "estimators", (self.estimator,))
        return all(isinstance(part, ReadOff) and part.computed_here(schema) for part in parts)

    @property
    def farthest_centre(self) -> float:
        """How far from 0 the centre of a value can lie, whatever the record asked about."""
        if self.terms:
            return max(term.half for term in self.terms)
        return (self.output[1] - self.output[0]) / 2 / len(self.features)

    def bound(
        self,
        count: bool = False,
        ranked: bool = False,
        own_sizes: bool = False,
        few: Sequence[int] | None = None,
        centred: bool = True,
    ) -> ShapleyVectors:
        """The set the vectors are clipped into: that of exact Shapley vectors, or the larger one of a kernel design.

        For a linear model it is the much smaller one of its terms. With `few`, only these coordinates of the vectors. Without
        `centred`, a somewhat larger set around 0, for sums over an unknown number of records.
        """
        d, kept = len(self.features), range(len(self.features)) if few is None else few
        if self.terms:
            # A term is 0 where both records agree, so 0 is in its range; its width limits it whatever the record asked about.
            terms = [term if centred else Term(0.0, 2 * term.half) for term in (self.terms[i] for i in kept)]
            return _of_terms(terms, self.output, count, ranked)
        if not centred:
            return ShapleyVectors(d, *self.output, sum(self.output) / 2, count, ranked, whole_radii(d))
        whole = ShapleyVectors(d, *self.output, self.prediction, count, ranked)
        if few is not None and len(few) < d:
            return replace(whole, length=len(few), radii=whole.sizes.of_few(len(few)), shares=(1 / d,) * len(few))
        if not own_sizes:
            return whole
        if not isinstance(self.estimator, Regressed):
            raise PlanError("own_sizes=True is for the kernel method; the others have the sizes of exact Shapley vectors.")
        design = self.estimator.design
        return replace(whole, radii=design.radii(), shares=tuple(float(v) for v in design.full))


def _of_terms(terms: Sequence[Term], output: tuple[float, float], count: bool, ranked: bool) -> ShapleyVectors:
    """Vectors whose coordinates have ranges of their own: centred at the middles of these. Claim: shapley-radii"""
    width = output[1] - output[0]
    half = np.array([term.half for term in terms]) / width
    top = float(np.sort(half)[-2:].sum())
    radii = Radii(
        linf=float(half.max()),
        l1=float(half.sum()),
        l2=float(np.linalg.norm(half)),
        spread=top if len(half) > 1 else 0.0,
        pair=top,
    )
    # The upper end of the range stands for a prediction half a range above the middle: shares then are centres.
    shares = tuple(2 * term.middle / width for term in terms)
    return ShapleyVectors(len(terms), *output, output[1], count, ranked, radii, shares)


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
    groups: Groups = NO_GROUPS,
) -> Chosen:
    """The best estimator for a model and the record asked about, from public facts alone: the model, the schema, the record.

    Exact where the model can be taken apart (linear models and sums of trees that certainly stay inside their declared range)
    or has few features; otherwise public permutations. `certified` is an output range known to hold, for example
    from `pel.sensitivity.output_range`, which then need not be found again. `permutations`, `samples` and `seed` are public.
    Each of `groups` is one player.

    >>> from pellucid.public.schema import Number
    >>> model = Model(lambda d: (d["dose"] + d["age"]) / 2, output=(0, 1), features=["dose", "age"], trained_on="other data")
    >>> chosen = estimator_for(model, Schema({"dose": Number(0, 1), "age": Number(0, 1)}), {"dose": 1, "age": 0.5})
    >>> chosen.method, chosen.why
    ('enumeration', 'exact: all 4 coalitions of 2 features are asked about')
    """
    if method is not None and method not in get_args(Method):
        raise PlanError(f"method={method!r}: use one of {', '.join(get_args(Method))}, or leave it out.")
    asked = asked_record(record, model, schema)
    names = tuple(name for name, _ in asked)
    everybody = groups.players(names)
    players = None if everybody.alone and everybody.names == names else everybody
    prediction = Mixtures(model, asked, schema).prediction()

    def chosen(method: Method, estimator: Any, exact: bool, why: str) -> Chosen:
        some = estimator.features
        unused = tuple(name for name in everybody.names if name not in some)
        terms = _terms_of(estimator, schema) if isinstance(estimator, LinearTerms) else ()
        told = prediction, terms, everybody.names, some + unused if players is None else names
        return Chosen(method, estimator, some, unused, exact, why, model.output, *told)

    reason = ""
    if method in (None, "linear", "trees"):
        try:
            kind, estimator, why = _additive(model, schema, asked, certified, players)
            if method in (None, kind):
                return chosen(kind, estimator, True, why)
            reason = f"the model is not of the kind {method!r}"
        except NotAdditive as refusal:
            reason = str(refusal)
        if method is not None:
            raise PlanError(f"method={method!r} cannot be used: {reason}. Leave method= out, or use 'permutations'.")
    return chosen(*_by_asking(model, asked, players, method, permutations, samples, seed, reason))


def _terms_of(terms: LinearTerms, schema: Schema) -> tuple[Term, ...]:
    """The values each term can take: it depends on one feature alone, so that all features are tried together. That of a group is
    a sum of such terms, whose features may take any declared values at once.

    Asking about another record moves all values of a term by the same amount. So their width is found for one public record,
    whatever the one asked about is: it scales the noise and stands in the result, where the last bits of a width found for each
    record would tell which one it was.
    """
    columns = {name: _trial(schema[name]) for name in schema}
    longest = max(len(column) for column in columns.values())
    rows = Rows(schema, {name: np.resize(column, longest) for name, column in columns.items()})
    single = terms if terms.players is None else replace(terms, features=tuple(terms.names), players=None)
    public = replace(single, record=tuple((name, float(columns[name][0])) for name in terms.names))
    tried = public(rows)
    lo, hi, moved = tried.min(axis=0), tried.max(axis=0), (single(rows) - tried)[0]
    if terms.players is not None:
        whose = np.array(terms.whose)
        lo, hi, moved = (np.array([part[whose == name].sum() for name in terms.features]) for part in (lo, hi, moved))
    # Terms too small for floats are left to the declared range.
    if not (np.isfinite(tried).all() and np.isfinite(moved).all() and (hi - lo).max() > NARROWEST):
        return ()
    # The room is for rounding.
    room = 1e-9 * float((hi - lo).max())
    return tuple(Term(float(a + b) / 2 + float(m), float(b - a) / 2 + room) for a, b, m in zip(lo, hi, moved))


def _trial(feature: Feature) -> np.ndarray:
    if isinstance(feature, Category):
        return np.arange(feature.levels, dtype=float)
    # Whole numbers may be encoded level by level; other numbers are only moved and scaled, so that their ends suffice.
    whole = every_value(feature, MAX_LEVELS)
    return np.append(np.array([feature.lo, feature.hi]) if whole is None else whole, feature.fill)


def _additive(
    model: Model, schema: Schema, asked: RecordAsked, certified: Sequence[float] | None, players: Players | None
) -> tuple[Method, LinearTerms | TreeWalks, str]:
    ready = model.ready(schema)
    made = fitted(ready)
    if not never_clipped(ready, made, None if certified is None else (float(certified[0]), float(certified[1]))):
        raise NotAdditive("it may answer outside its declared range, and clipped answers do not add up")
    features = used_features(model, asked, schema, players)
    if made.trees is not None:
        count = len(made.trees.trees.trees)
        return "trees", TreeWalks(model, asked, features, players), f"exact: {count} trees, walked with both records at once"
    try:
        made.encoding(np.array([[value for _, value in asked]]))
    except ModelError:
        raise NotAdditive("its steps fail on the record asked about") from None
    return "linear", LinearTerms(model, asked, features, players), "exact: the terms of a linear model"


def _by_asking(
    model: Model,
    asked: RecordAsked,
    players: Players | None,
    method: Method | None,
    permutations: int | None,
    samples: int | None,
    seed: int,
    reason: str,
) -> tuple[Method, Any, bool, str]:
    d = len(asked) if players is None else len(players.names)
    what = "features" if players is None else "features and groups"
    if method == "enumeration" or (method is None and permutations is None and d <= CHEAP):
        if d > MOST_ENUMERATED:
            raise PlanError(f"method='enumeration' is for at most {MOST_ENUMERATED} {what}, the model has {d}; leave it out.")
        said = f"exact: all {2**d} coalitions of {d} {what} are asked about"
        return "enumeration", Enumerated(model, asked, players), True, said
    if method == "kernel":
        made = Regressed(model, asked, samples or 2 * d + 2048, seed, players)
        calls = len(made.design.masks)
        return "kernel", made, False, f"estimated: regression on {calls} public coalitions per record (seed {seed})"
    count = permutations or (8 if d <= 64 else 4 if d <= 256 else 2)
    words = f"estimated: {count} public permutations per record (seed {seed}), {count * (d - 1) + 1} model calls"
    return "permutations", Permuted(model, asked, count, seed, players=players), False, words + (f"; {reason}" if reason else "")
