"""Fitted models as searches: what is maximised over the declared records, and how a raw value becomes an answer."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from scipy.special import expit

from ..public.fitted.encoding import Encoding, Parts, as_floats, class_index, refuse, take_apart
from ..public.fitted.estimators import (
    BAGS,
    BINNED,
    BOOSTED,
    CATBOOST,
    CONSTANT,
    FORESTS,
    FUNCTIONS,
    GENERALIZED,
    ISOLATION,
    LIGHTGBM,
    LINEAR,
    LOGISTIC,
    NETWORKS,
    ONE_BY_ONE,
    SCALERS,
    TREES,
    XGBOOST,
    Types,
)
from ..public.fitted.reading import sum_of_trees
from ..public.fitted.trees import SumOfTrees
from ..public.model import ReadyModel
from . import network_range, tree_range
from .network_range import TINY, Inputs, Layers, gamma
from .tree_range import Ensemble, Found

Link: TypeAlias = Callable[[float], float]
Stack: TypeAlias = tuple[list[np.ndarray], list[np.ndarray]]
"""Weights and offsets, layer by layer."""

LINK_ERROR = 2.0**-47
"""Covers the platform's exp, expm1 and logistic function, called by the model and here, at 16 units in the last place each."""

SOFTMAX_ERROR = 2.0**-43
"""The same for a softmax of up to 256 classes, whose sum rounds once per class."""

SINGLE_ERROR = 2.0**-17
"""Either of them when the model computes in single precision, up to 64 classes."""

SINGLE = 2.0**-24
"""The rounding of single precision."""

SINGLE_TINY = 1e-37
"""Covers underflow in single precision, as TINY does in double."""


@dataclass(frozen=True)
class Problem:
    """A model as a search: `largest` bounds sign · raw, and `link` turns raw into an answer.

    `largest(sign, shown, gap, deadline)` may stop when its bound and a value it met, both `shown` as answers, are `gap` apart; it
    returns what it found and how far the model's own rounding can take it beyond.
    `link` never decreases; `link_error` bounds its own rounding, as a share of 1 for a probability and of the answer otherwise,
    or of `size` where that is larger.
    `rebuilt` gives public records with their raw values, computed from the parameters that were read.
    """

    largest: Callable[[int, Link, float, float], tuple[Found, float]]
    rebuilt: Callable[[], tuple[np.ndarray, np.ndarray]]
    link: Link
    link_error: float
    probability: bool
    method: str
    size: float = 0.0

    def shown(self, sign: int) -> Link:
        return lambda value: sign * self.link(sign * value)


def problem_of(ready: ReadyModel) -> tuple[Problem, Encoding]:
    """The search for the largest and smallest answers of a model, and the columns it computes with."""
    parts = take_apart(ready.model.predictor)
    kind = type(parts.core)
    builders: list[tuple[Types, Callable[[ReadyModel, Parts], tuple[Problem, Encoding]]]] = [
        (TREES + FORESTS + BAGS, _averaged),
        (BOOSTED + BINNED + XGBOOST + LIGHTGBM + CATBOOST, _boosted),
        (ISOLATION, _isolating),
        (LINEAR + GENERALIZED, _linear),
        (LOGISTIC, _logistic),
        (NETWORKS, _network),
        (CONSTANT, _constant),
    ]
    for kinds, build in builders:
        if kind in kinds:
            if hasattr(parts.core, "predict_proba") != (ready.model.positive is not None):
                break
            if ready.model.method is not None and kind not in ISOLATION:
                break
            problem, encoding = build(ready, parts)
            return _retargeted(problem, parts), encoding
    raise refuse(f"an estimator of type {kind.__name__}")


def _retargeted(problem: Problem, parts: Parts) -> Problem:
    """The same search, seen through the inverse transforms of the target."""
    for step in parts.targets:
        known = type(step) in FUNCTIONS and step.inverse_func in (None, np.exp, np.expm1)
        if not (known or type(step) in SCALERS):
            raise refuse(f"a target transformer of type {type(step).__name__}, unless its inverse is exp, expm1 or a scaler")
    if not parts.targets:
        return problem
    if len(parts.targets) > 1 or problem.link_error:
        raise refuse("a transformed target around a model that transforms its answer already")

    def link(raw: float) -> float:
        value = np.array([[problem.link(raw)]])
        return float(np.ravel(parts.targets[0].inverse_transform(value))[0])

    # Scalers round monotonically; only the functions can be off, by a share of their answer.
    return dataclasses.replace(problem, link=link, link_error=LINK_ERROR)


def _tree_problem(read: SumOfTrees, link: Link, link_error: float, probability: bool, group: int = 0) -> Problem:
    """A sum of trees, or with several groups the log-odds of the softmax probability of one."""
    made, groups = Ensemble(read.encoding, read.trees, read.base), len(read.base)
    size, twice = float(made.size.max()), 1 if groups == 1 else 2
    # Each group is a sum of at most count + 1 products, rounded by the model and again by the search.
    slack = 2 * gamma(made.count + 8) * size * twice
    slack += TINY if groups == 1 else 2.0**-44 * (1 + size)
    error = slack
    if read.single:
        # The model's own sums, and what a softmax takes off before it; the search stays as exact as it is.
        error += (gamma(made.count + 8, SINGLE) * size + SINGLE_TINY) * twice + 2.0**-22 * size * (twice - 1)
        link_error = SINGLE_ERROR if link_error else 0.0

    def goal(sign: int) -> tree_range.Objective:
        return tree_range.single(sign) if groups == 1 else tree_range.log_odds(group, groups, sign)

    def largest(sign: int, shown: Link, gap: float, deadline: float) -> tuple[Found, float]:
        return tree_range.largest(made, goal(sign), slack, deadline), error

    def rebuilt() -> tuple[np.ndarray, np.ndarray]:
        atoms = made.random_atoms(32)
        raw = np.array([made.raw(row) for row in atoms]) * goal(1).sign
        return np.array([made.position(row) for row in atoms]), goal(1).total(raw)

    method = f"branch and bound over {made.count} trees, {len(made.value)} leaves"
    return Problem(largest, rebuilt, link, link_error, probability, method)


def _averaged(ready: ReadyModel, parts: Parts) -> tuple[Problem, Encoding]:
    read = sum_of_trees(ready, parts)
    # Shares of a leaf lie in [0, 1], so their sum in floating point is at most the sum of as many ones, which is exact.
    return _tree_problem(read, float, 0.0, ready.model.positive is not None), read.encoding


def _boosted(ready: ReadyModel, parts: Parts) -> tuple[Problem, Encoding]:
    read = sum_of_trees(ready, parts)
    link, error = LINKS[read.link]
    return _tree_problem(read, link, error, ready.model.positive is not None, read.group), read.encoding


def _isolating(ready: ReadyModel, parts: Parts) -> tuple[Problem, Encoding]:
    read = sum_of_trees(ready, parts)

    def link(raw: float) -> float:
        return -float(np.exp2(-raw)) - read.offset

    problem = _tree_problem(read, link, LINK_ERROR, False)
    # A score of at most 1 in size, and an offset that is taken off: each may be larger than what is left of both.
    return dataclasses.replace(problem, size=1.0 + abs(read.offset)), read.encoding


def _exp(raw: float) -> float:
    return float(np.exp(raw))


def _logit_to_share(raw: float) -> float:
    return float(expit(raw))


LINKS: dict[str, tuple[Link, float]] = {
    "identity": (float, 0.0),
    "logistic": (_logit_to_share, LINK_ERROR),
    "exp": (_exp, LINK_ERROR),
    "softmax": (_logit_to_share, SOFTMAX_ERROR),
}


def _complement(link: Link, turned: float) -> float:
    """The probability of the other class, for a raw value with its sign turned."""
    return 1 - link(-turned)


def _inverse(loss: Any, raw: float) -> float:
    return float(loss.link.inverse(np.array([raw]))[0])


def _layers_problem(
    ready: ReadyModel, parts: Parts, layers: Stack, activation: str, link: Link, link_error: float, method: str
) -> tuple[Problem, Encoding]:
    """A network with one raw output, or with several the log-odds of the softmax probability of one class."""
    encoding = Encoding(ready, parts.steps, as_floats)
    inputs = Inputs(encoding)
    single = encoding(encoding.base(1)).dtype == np.float32 or any(np.asarray(w).dtype == np.float32 for w in layers[0])
    weights = tuple(np.asarray(w, dtype=float) for w in layers[0])
    offsets = tuple(np.asarray(b, dtype=float) for b in layers[1])
    probability = ready.model.positive is not None
    outputs = len(offsets[-1])
    k = class_index(ready)[0] if probability else 0
    if outputs == 1 and probability and k == 0:
        weights, offsets = (*weights[:-1], -weights[-1]), (*offsets[:-1], -offsets[-1])
        link = functools.partial(_complement, link)
    made = Layers(weights, offsets, activation, SINGLE if single else network_range.ULP)
    if outputs > 1:
        link, link_error = _logit_to_share, SOFTMAX_ERROR
    if single and parts.targets:
        raise refuse("a transformed target of a model that computes in single precision")
    if single and link_error:
        link_error = SINGLE_ERROR

    def goal(sign: int) -> network_range.Goal:
        return network_range.single_output(sign) if outputs == 1 else network_range.log_odds_output(k, outputs, sign)

    def rebuilt() -> tuple[np.ndarray, np.ndarray]:
        records = encoding.sample(256, seed=2)
        return records, goal(1).total(made.forward(encoding(records).astype(float)) @ goal(1).select.T)

    def largest(sign: int, shown: Link, gap: float, deadline: float) -> tuple[Found, float]:
        found, error = network_range.largest(made, inputs, goal(sign), shown, gap, deadline)
        # A softmax subtracts and sums; its log-odds move by no more than its largest argument's error, and a few roundings.
        return found, error if outputs == 1 else 2 * error + 2.0**-44 * (1 + abs(found.bound))

    return Problem(largest, rebuilt, link, link_error, probability, method), encoding


def _rows(core: Any) -> Stack:
    weight = np.atleast_2d(core.coef_)
    return [weight], [np.broadcast_to(np.ravel(core.intercept_), (len(weight),))]


def _linear(ready: ReadyModel, parts: Parts) -> tuple[Problem, Encoding]:
    core, error = parts.core, 0.0
    link: Link = float
    if len(np.atleast_2d(core.coef_)) != 1:
        raise refuse(f"a {type(core).__name__} with several outputs")
    if type(core) in GENERALIZED:
        link, error = functools.partial(_inverse, core._base_loss), LINK_ERROR
    return _layers_problem(ready, parts, _rows(core), "identity", link, error, "linear: each feature at its best value")


def _logistic(ready: ReadyModel, parts: Parts) -> tuple[Problem, Encoding]:
    core = parts.core
    several = len(core.classes_) > 2
    one_by_one = type(core) in ONE_BY_ONE or getattr(core, "solver", "") == "liblinear"
    if (several and one_by_one) or getattr(core, "loss", "log_loss") != "log_loss":
        raise refuse(f"a {type(core).__name__} other than logistic or softmax regression")
    method = "softmax of linear scores, with splits" if several else "linear: each feature at its best value"
    return _layers_problem(ready, parts, _rows(core), "identity", _logit_to_share, LINK_ERROR, method)


def _network(ready: ReadyModel, parts: Parts) -> tuple[Problem, Encoding]:
    core = parts.core
    ends: dict[str, Link] = {"identity": float, "logistic": _logit_to_share, "softmax": float, "exp": _exp}
    if core.out_activation_ not in ends or (core.out_activation_ != "softmax" and core.n_outputs_ != 1):
        raise refuse(f"a {type(core).__name__} with {core.n_outputs_} outputs")
    layers = [w.T for w in core.coefs_], list(core.intercepts_)
    shape = "-".join(str(len(b)) for b in layers[1][:-1])
    error = 0.0 if core.out_activation_ == "identity" else LINK_ERROR
    method = f"linear relaxation of a {shape} {core.activation} network, with splits"
    return _layers_problem(ready, parts, layers, core.activation, ends[core.out_activation_], error, method)


def _constant(ready: ReadyModel, parts: Parts) -> tuple[Problem, Encoding]:
    # One that guesses at random has failed the trial on public records already.
    encoding = Encoding(ready, (), lambda table: np.zeros((len(table), len(ready.features))))
    record = encoding.base(1)
    answer = float(ready.raw(encoding.inputs(record))[0])

    def largest(sign: int, shown: Link, gap: float, deadline: float) -> tuple[Found, float]:
        return Found(sign * answer, sign * answer, record[0], 0, True), 0.0

    problem = Problem(largest, lambda: (record, np.array([answer])), float, 0.0, ready.model.positive is not None, "constant")
    return problem, encoding
