"""What fitted models are made of, where Shapley vectors can be read off exactly: linear terms or trees.

Only models whose answer *adds up* terms or trees qualify: linear regressors, trees, forests, bags of trees, and boosting
with the identity link. A probability from a link function does not; neither does an answer that is clipped to its declared
range somewhere, since clipping does not add up.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...errors import ModelError
from ...public.fitted.encoding import FIX, Encoding, Parts, as_floats, take_apart
from ...public.fitted.estimators import LINEAR
from ...public.fitted.read import Read, trees_of
from ...public.fitted.reading import adds_up_trees
from ...public.fitted.walks import Walkable
from ...public.model import ReadyModel
from ...public.silence import silenced
from ...sensitivity.output_range import output_range
from .trees import MOST_DECIDED, most_decided

SECONDS = 10.0
"""Time allowed for certifying that a model never leaves its declared range."""
CLOSE = 1e-6
"""How near the answers of a model must be to what was read of it, as a part of its range."""


class NotAdditive(Exception):
    """Why a model cannot be taken apart, in words."""


@dataclass(frozen=True, eq=False)
class Fitted:
    """A sum of linear terms (`weights` of the encoded columns) or of trees, plus a constant."""

    encoding: Encoding
    weights: np.ndarray | None = None
    trees: Read | None = None
    base: float = 0.0

    @property
    def walkable(self) -> Walkable:
        """The trees, to be walked with two records."""
        assert self.trees is not None
        return self.trees.groups[0]

    def used(self) -> np.ndarray:
        """Whether each feature of the model has a part in its answers."""
        found = np.zeros(len(self.encoding.domains), dtype=bool)
        if self.weights is not None:
            columns = np.array([c.feature for c in self.encoding.columns])
            found[columns[self.weights != 0]] = True
        else:
            feature = self.walkable.feature
            found[feature[feature >= 0]] = True
        return found

    def bounds(self) -> tuple[float, float]:
        """An interval that certainly holds every answer of the trees: each at its smallest and largest leaf."""
        assert self.trees is not None
        leaves = [tree.value[tree.leaf] for tree in self.trees.trees.trees]
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
            return _fitted(ready, take_apart(ready.model.predictor))
    except NotAdditive as reason:
        return str(reason)
    except ModelError as refusal:
        return str(refusal).removesuffix(f". {FIX}").replace("output_range cannot", "no way was found to")


def _fitted(ready: ReadyModel, parts: Parts) -> Fitted:
    kind = type(parts.core)
    if parts.targets:
        raise NotAdditive("it transforms its target")
    if ready.model.method is None and hasattr(parts.core, "predict_proba") != (ready.model.positive is not None):
        raise NotAdditive("it answers with labels")
    if kind in LINEAR and ready.model.method is None:
        return _linear(ready, parts)
    if not adds_up_trees(kind):
        raise NotAdditive(f"a {kind.__name__} is neither linear nor a sum of trees")
    return _trees(ready)


def _linear(ready: ReadyModel, parts: Parts) -> Fitted:
    weights = np.atleast_2d(parts.core.coef_)
    if len(weights) != 1:
        raise NotAdditive("it has several outputs")
    base = float(np.ravel(parts.core.intercept_)[0])
    # Weights of their own: the model's may be changed before they are used.
    made = Fitted(Encoding(ready, parts.steps, as_floats), weights=np.array(weights[0], dtype=float), base=base)
    _compare(ready, made)
    return made


def _trees(ready: ReadyModel) -> Fitted:
    read = trees_of(ready)
    if isinstance(read, str):
        raise NotAdditive(read)
    if read.trees.link != "identity" or len(read.groups) > 1:
        raise NotAdditive("its trees add up before a link function, not after it")
    if (ready.model.precision or 0.0) > CLOSE * ready.model.range:
        raise NotAdditive("its answers are rounded, and rounded answers do not add up")
    if most_decided(read.groups[0]) > MOST_DECIDED:
        raise NotAdditive(f"a path of one of its trees tests more than {MOST_DECIDED} features")
    return Fitted(read.trees.encoding, trees=read, base=float(read.trees.base[0]))


def _compare(ready: ReadyModel, made: Fitted) -> None:
    """The terms that were read must add up to the model's own answers on public records."""
    records = made.encoding.sample(256, seed=3)
    encoded = np.asarray(made.encoding(records), dtype=float)
    answers = ready.raw(made.encoding.inputs(records))
    if not np.allclose(made.base + encoded @ made.weights, answers, rtol=CLOSE, atol=CLOSE * ready.model.range):
        raise NotAdditive("its answers do not follow from its fitted parameters")


def never_clipped(ready: ReadyModel, made: Fitted, known: tuple[float, float] | None = None) -> bool:
    """Whether the model certainly answers inside its declared range, everywhere; `known` is a range the user certifies."""
    lo, hi = ready.model.output
    room = 1e-9 * (hi - lo)
    if known is None and made.trees is not None:
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
