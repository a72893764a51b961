"""What fitted scikit-learn models are made of, where Shapley vectors can be read off exactly: linear terms or trees.

Only models whose answer *adds up* terms or trees qualify: linear regressors, trees, forests, bags of trees, and boosting
with the identity link. A probability from a link function does not; neither does an answer that is clipped to its declared
range somewhere, since clipping does not add up.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from ...errors import ModelError
from ...public.fitted.encoding import FIX, Encoding, Parts, as_floats, take_apart
from ...public.fitted.estimators import BAGS, BINNED, BOOSTED, FORESTS, IDENTITY_LINKS, LINEAR, TREES
from ...public.fitted.reading import sum_of_trees
from ...public.fitted.trees import Tree
from ...public.model import ReadyModel
from ...public.silence import silenced
from ...sensitivity.output_range import output_range
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
        with silenced():
            made = _fitted(ready, take_apart(ready.model.predictor))
            _compare(ready, made)
        return made
    except NotAdditive as reason:
        return str(reason)
    except ModelError as refusal:
        return str(refusal).removesuffix(f". {FIX}").replace("output_range cannot", "no way was found to")


def _fitted(ready: ReadyModel, parts: Parts) -> Fitted:
    kind = type(parts.core)
    if parts.targets:
        raise NotAdditive("it transforms its target")
    if hasattr(parts.core, "predict_proba") != (ready.model.positive is not None):
        raise NotAdditive("it answers with labels")
    if kind in LINEAR:
        return _linear(ready, parts)
    if kind not in TREES + FORESTS + BAGS + BOOSTED + BINNED:
        raise NotAdditive(f"a {kind.__name__} is neither linear nor a sum of trees")
    if kind in BOOSTED + BINNED and (ready.model.positive is not None or type(parts.core._loss.link) not in IDENTITY_LINKS):
        raise NotAdditive("its trees add up before a link function, not after it")
    return _trees(ready, parts)


def _linear(ready: ReadyModel, parts: Parts) -> Fitted:
    weights = np.atleast_2d(parts.core.coef_)
    if len(weights) != 1:
        raise NotAdditive("it has several outputs")
    base = float(np.ravel(parts.core.intercept_)[0])
    return Fitted(Encoding(ready, parts.steps, as_floats), weights=np.asarray(weights[0], dtype=float), base=base)


def _trees(ready: ReadyModel, parts: Parts) -> Fitted:
    read = sum_of_trees(ready, parts)
    return Fitted(read.encoding, trees=tuple(read.trees), base=float(read.base[0]))


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
