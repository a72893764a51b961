"""What fitted scikit-learn models are made of, where Shapley vectors can be read off exactly: linear terms or trees.

Only models whose answer *adds up* terms or trees qualify: linear regressors, trees, forests, bags of trees, and boosting
with the identity link. A probability from a link function does not; neither does an answer that is clipped to its declared
range somewhere, since clipping does not add up.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
from sklearn._loss.link import IdentityLink

from ..errors import ModelError
from ..model import ReadyModel
from ..quiet import quiet
from ..sensitivity.encoding import FIX, Encoding, Parts, as_floats, as_single, take_apart
from ..sensitivity.output_range import (
    BAGS,
    BINNED,
    BOOSTED,
    CONSTANT,
    FORESTS,
    LINEAR,
    TREES,
    _binned_tree,
    _class_index,
    _sklearn_tree,
    output_range,
)
from ..sensitivity.tree_range import Tree
from .trees import MOST_DECIDED, Forest

SECONDS = 10.0
"""Time allowed for certifying that a model never leaves its declared range."""


class NotAdditive(Exception):
    """Why a model cannot be taken apart, in words."""


@dataclass(frozen=True, eq=False)
class Fitted:
    """A sum of linear terms (`weights` of the encoded columns) or of trees, plus a constant."""

    encoding: Encoding
    weights: np.ndarray | None = None
    trees: tuple[Tree, ...] = ()
    base: float = 0.0

    @functools.cached_property
    def forest(self) -> Forest:
        return Forest.of(self)

    def used(self) -> np.ndarray:
        """Whether each feature of the model has a part in its answers."""
        columns = np.array([c.feature for c in self.encoding.columns])
        found = np.zeros(len(self.encoding.domains), dtype=bool)
        if self.weights is not None:
            found[columns[self.weights != 0]] = True
        else:
            found[self.forest.feature[~self.forest.leaf]] = True
        return found

    def bounds(self) -> tuple[float, float]:
        """An interval that certainly holds every answer of the trees: each at its smallest and largest leaf."""
        leaves = [tree.value[tree.leaf] for tree in self.trees]
        return self.base + sum(float(v.min()) for v in leaves), self.base + sum(float(v.max()) for v in leaves)


def fitted(ready: ReadyModel) -> Fitted:
    """The parts of a model whose answers are exactly their sum; `NotAdditive` says why where they are not."""
    # Kept beside the model: planning, asking and previewing one release each need it.
    kept = vars(ready).get("_fitted")
    if kept is None:
        kept = vars(ready)["_fitted"] = _read(ready)
    if isinstance(kept, str):
        raise NotAdditive(kept)
    return kept


def _read(ready: ReadyModel) -> Fitted | str:
    """The parts, or in words why there are none."""
    try:
        with quiet():
            made = _fitted(ready, take_apart(ready.model.predictor))
            _compare(ready, made)
        return made
    except NotAdditive as reason:
        return str(reason)
    except ModelError as refusal:
        return str(refusal).removesuffix(f" {FIX}").replace("output_range cannot", "no way was found to")


def _fitted(ready: ReadyModel, parts: Parts) -> Fitted:
    kind = type(parts.core)
    if parts.targets:
        raise NotAdditive("it transforms its target")
    if hasattr(parts.core, "predict_proba") != (ready.model.positive is not None):
        raise NotAdditive("it answers with labels")
    if kind in LINEAR:
        return _linear(ready, parts)
    if kind in TREES + FORESTS + BAGS:
        return _averaged(ready, parts)
    if kind in BOOSTED + BINNED:
        if ready.model.positive is not None or type(parts.core._loss.link) is not IdentityLink:
            raise NotAdditive("its trees add up before a link function, not after it")
        return _boosted(ready, parts) if kind in BOOSTED else _binned(ready, parts)
    raise NotAdditive(f"a {kind.__name__} is neither linear nor a sum of trees")


def _linear(ready: ReadyModel, parts: Parts) -> Fitted:
    weights = np.atleast_2d(parts.core.coef_)
    if len(weights) != 1:
        raise NotAdditive("it has several outputs")
    base = float(np.ravel(parts.core.intercept_)[0])
    return Fitted(Encoding(ready, parts.steps, as_floats), weights=np.asarray(weights[0], dtype=float), base=base)


def _averaged(ready: ReadyModel, parts: Parts) -> Fitted:
    core = parts.core
    members = [core] if type(core) in TREES else list(core.estimators_)
    if any(type(member) not in TREES or member.n_outputs_ != 1 for member in members):
        raise NotAdditive("its members are not trees with one output")
    drawn = core.estimators_features_ if type(core) in BAGS else [None] * len(members)
    k = _class_index(ready)[0] if ready.model.positive is not None else 0
    trees = []
    for member, columns in zip(members, drawn):
        value = member.tree_.value[:, 0, :]
        if type(core) in BAGS and ready.model.positive is not None:
            # A bagged tree may not have seen every class; its own classes are positions among all of them.
            seen = [int(c) for c in member.classes_]
            value = value[:, seen.index(k)] if k in seen else np.zeros(len(value))
        else:
            value = value[:, k]
        trees.append(_sklearn_tree(member, value / len(members), columns))
    return Fitted(Encoding(ready, parts.steps, as_single), trees=tuple(trees))


def _boosted(ready: ReadyModel, parts: Parts) -> Fitted:
    core = parts.core
    if not (core.init_ == "zero" or type(core.init_) in CONSTANT):
        raise NotAdditive(f"it starts from a {type(core.init_).__name__}")
    base = core._raw_predict_init(np.zeros((1, core.n_features_in_), dtype=np.float32))[0]
    trees = (_sklearn_tree(stage[0], core.learning_rate * stage[0].tree_.value[:, 0, 0]) for stage in core.estimators_)
    return Fitted(Encoding(ready, parts.steps, as_single), trees=tuple(trees), base=float(base[0]))


def _binned(ready: ReadyModel, parts: Parts) -> Fitted:
    core = parts.core
    flags = core.is_categorical_

    def order(columns: list) -> list:
        """Categorical columns come first, as codes; the others follow."""
        if flags is None:
            return columns
        coded = [type(columns[i])(columns[i].feature, False) for i in np.flatnonzero(flags)]
        return coded + [columns[i] for i in np.flatnonzero(~flags)]

    encoding = Encoding(ready, parts.steps, lambda table: core._preprocess_X(table, reset=False), order)
    known, place = core._bin_mapper.make_known_categories_bitsets()
    trees = (_binned_tree(stage[0], known, place, 0) for stage in core._predictors)
    return Fitted(encoding, trees=tuple(trees), base=float(np.ravel(core._baseline_prediction)[0]))


def _compare(ready: ReadyModel, made: Fitted) -> None:
    """The parts that were read must add up to the model's own answers on public records."""
    records = made.encoding.sample(256, seed=3)
    encoded = np.asarray(made.encoding(records), dtype=float)
    ours = made.base + (encoded @ made.weights if made.weights is not None else made.forest.answers(encoded))
    if made.trees and made.forest.decided > MOST_DECIDED:
        raise NotAdditive(f"a path of one of its trees tests more than {MOST_DECIDED} features")
    answers = ready.raw(made.encoding.inputs(records))
    if not np.allclose(ours, answers, rtol=1e-6, atol=1e-6 * ready.model.range):
        raise NotAdditive("its answers do not follow from its fitted parameters")


def never_clipped(ready: ReadyModel, made: Fitted, known: tuple[float, float] | None = None) -> bool:
    """Whether the model certainly answers inside its declared range, everywhere; `known` is a range the user certifies."""
    lo, hi = ready.model.output
    room = 1e-9 * (hi - lo)
    if known is None and made.trees:
        known = made.bounds()
        known = known if lo - room <= known[0] and known[1] <= hi + room else None
    if known is not None:
        return lo - room <= known[0] and known[1] <= hi + room
    kept = vars(ready).get("_never_clipped")
    if kept is None:
        try:
            found = output_range(ready.model, ready.schema, seconds=SECONDS)
            kept = lo - room <= found.lo and found.hi <= hi + room
        except ModelError:
            kept = False
        vars(ready)["_never_clipped"] = kept
    return kept
