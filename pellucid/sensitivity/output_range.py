"""The certified range of a fitted model's answers over the declared records; no data is read, only fitted parameters."""

from __future__ import annotations

import dataclasses
import functools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
from scipy.special import expit
from sklearn import linear_model
from sklearn.preprocessing import FunctionTransformer

from ..errors import ModelError
from ..public.black_box import Input
from ..public.model import Model, ReadyModel
from ..public.schema import Schema
from ..public.silence import silenced
from . import network_range, tree_range
from .encoding import FIX, SCALERS, Encoding, Parts, as_floats, refuse, take_apart
from .network_range import TINY, Inputs, Layers, gamma
from .reading import (
    BAGS,
    BINNED,
    BOOSTED,
    CONSTANT,
    FORESTS,
    GENERALIZED,
    LINEAR,
    LOGISTIC,
    NETWORKS,
    TREES,
    SumOfTrees,
    class_index,
    sum_of_trees,
)
from .tree_range import Ensemble, Found

LINK_ERROR = 2.0**-47
"""Covers the platform's exp, expm1 and logistic function, called by the model and here, at 16 units in the last place each."""

SOFTMAX_ERROR = 2.0**-43
"""The same for a softmax of up to 256 classes, whose sum rounds once per class."""

SINGLE_ERROR = 2.0**-17
"""Either of them when the model computes in single precision, up to 64 classes."""


@dataclass(frozen=True)
class OutputRange(Sequence[float]):
    """Certified bounds of a model's answers, with the records that come closest to them.

    Reads as the pair (lo, hi), so it can be given to `pel.Model(..., output=...)`. No answer of the model on a declared
    record lies outside [lo, hi]; `attained_lo` and `attained_hi` are the model's answers at `lowest` and `highest`.
    """

    lo: float
    hi: float
    attained_lo: float
    attained_hi: float
    lowest: dict[str, Any]
    highest: dict[str, Any]
    exact: bool
    method: str
    splits: int
    seconds: float
    finished: bool = True

    @overload
    def __getitem__(self, index: int) -> float: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[float, ...]: ...
    def __getitem__(self, index: int | slice) -> float | tuple[float, ...]:
        return (self.lo, self.hi)[index]

    def __len__(self) -> int:
        return 2

    def __iter__(self) -> Iterator[float]:
        return iter((self.lo, self.hi))

    @property
    def width(self) -> float:
        """Width of the certified interval."""
        return self.hi - self.lo

    @property
    def gap(self) -> float:
        """The larger distance between a certified end and the attained one, as a share of the attained range."""
        attained = self.attained_hi - self.attained_lo
        return max(self.hi - self.attained_hi, self.attained_lo - self.lo) / (attained if attained > 0 else self.width)

    @property
    def text(self) -> str:
        """One sentence about what is known."""
        interval = f"[{self.lo:.6g}, {self.hi:.6g}]"
        if self.exact:
            return f"{interval}: certified, and attained up to rounding."
        why = "within the tolerance asked for" if self.finished else f"stopped after {self.seconds:.3g} s"
        return f"{interval}: certified, gap {100 * self.gap:.2g} %: {why}."


@dataclass(frozen=True)
class Problem:
    """A model as a search: `largest` bounds sign · raw, and `link` turns raw into an answer.

    `largest(sign, shown, gap, deadline)` may stop when its bound and a value it met, both `shown` as answers, are `gap` apart; it
    returns what it found and how far the model's own rounding can take it beyond.
    `link` never decreases; `link_error` bounds its own rounding, as a share of 1 for a probability and of the answer otherwise.
    `rebuilt` gives public records with their raw values, computed from the parameters that were read.
    """

    largest: Callable[[int, Callable[[float], float], float, float], tuple[Found, float]]
    rebuilt: Callable[[], tuple[np.ndarray, np.ndarray]]
    link: Callable[[float], float]
    link_error: float
    probability: bool
    method: str

    def shown(self, sign: int) -> Callable[[float], float]:
        return lambda value: sign * self.link(sign * value)


def output_range(
    model: Any,
    schema: Schema,
    *,
    tolerance: float = 1e-3,
    seconds: float = 10.0,
    features: Sequence[str] | None = None,
    positive: Any = None,
    input: Input | None = None,
) -> OutputRange:
    """Certified smallest and largest answer of a fitted model over every record the schema declares.

    Reads the fitted parameters of scikit-learn trees, forests, boosting, linear models and multi-layer perceptrons, alone or
    behind scalers, encoders and imputers; `model` is such an estimator or a `pel.Model`. Linear models and single trees are
    exact. Ensembles are searched until exact, networks until the gap is at most `tolerance` of the attained range; after
    `seconds` the interval reached so far is returned, still certified, and says that it is not exact.
    Claim: output-range

    >>> from sklearn.linear_model import LinearRegression
    >>> from pellucid.schema import Number
    >>> fitted = LinearRegression().fit([[0.0], [1.0]], [1.0, 3.0])
    >>> found = output_range(fitted, Schema({"dose": Number(0, 10)}))
    >>> [round(v, 6) for v in found], found.highest
    ([1.0, 21.0], {'dose': 10.0})
    """
    began = time.monotonic()
    if not (math.isfinite(seconds) and seconds > 0 and math.isfinite(tolerance) and tolerance >= 0):
        raise ModelError(f"tolerance={tolerance!r}, seconds={seconds!r}: give a tolerance of at least 0 and a positive time.")
    ready = _ready(model, schema, features, positive, input)
    with silenced():
        problem, encoding = _problem(ready)
        _compare(problem, encoding)
        answers = ready.raw(encoding.inputs(encoding.sample(1024, seed=1)))
        gap = tolerance * float(np.ptp(answers))
        high, error_high = problem.largest(1, problem.shown(1), gap, began + seconds / 2)
        low, error_low = problem.largest(-1, problem.shown(-1), gap, began + seconds)
        at_low, at_high = (float(v) for v in ready.raw(encoding.inputs(np.array([low.witness, high.witness]))))
    lo, hi = _outward(problem, -low.bound - error_low, high.bound + error_high)
    if not (lo <= min(at_low, answers.min()) and max(at_high, answers.max()) <= hi):
        raise refuse(f"{type(ready.model.predictor).__name__}: its answers do not follow from its fitted parameters")
    slack = 64 * max(error_low, error_high)
    exact = high.bound - high.value <= slack and low.bound - low.value <= slack
    return OutputRange(
        lo=lo,
        hi=hi,
        attained_lo=at_low,
        attained_hi=at_high,
        lowest=_labels(schema, ready.features, low.witness),
        highest=_labels(schema, ready.features, high.witness),
        exact=bool(exact),
        method=problem.method,
        splits=low.splits + high.splits,
        seconds=time.monotonic() - began,
        finished=low.finished and high.finished,
    )


def _ready(model: Any, schema: Schema, features: Any, positive: Any, input: Any) -> ReadyModel:
    if isinstance(model, Model):
        if (features, positive, input) != (None, None, None):
            raise ModelError("features=, positive= and input= are already part of the pel.Model; give them there.")
        return model.ready(schema)
    if not hasattr(model, "predict"):
        raise refuse(f"a {type(model).__name__}: it is not a fitted estimator")
    probability = hasattr(model, "predict_proba")
    # Only for the trial on public records; the range of a regressor is what is being asked for.
    anything = None if probability else (-1e300, 1e300)
    return Model(model, output=anything, features=features, trained_on="other data", positive=positive, input=input).ready(schema)


def _compare(problem: Problem, encoding: Encoding) -> None:
    """The parameters that were read must give the model's own answers on public records."""
    records, raw = problem.rebuilt()
    ours = np.array([problem.link(float(value)) for value in raw])
    answers = encoding.ready.raw(encoding.inputs(records))
    if not np.allclose(ours, answers, rtol=1e-5, atol=1e-5 * (1e-9 + float(np.abs(answers).max()))):
        raise refuse(f"{encoding.ready.model.name}: its answers do not follow from its fitted parameters")


def _labels(schema: Schema, names: Sequence[str], record: np.ndarray) -> dict[str, Any]:
    return {name: schema[name].label(float(value)) for name, value in zip(names, record)}


def _outward(problem: Problem, raw_lo: float, raw_hi: float) -> tuple[float, float]:
    """The interval of answers for an interval of raw values, widened by the rounding of the link."""
    with np.errstate(over="ignore"):
        ends = [float(problem.link(raw_lo)), float(problem.link(raw_hi))]
    if not all(math.isfinite(v) for v in ends):
        raise ModelError(f"the model's answers overflow on the declared records. {FIX}")
    pads = [problem.link_error * (1.0 if problem.probability else abs(v)) for v in ends]
    lo, hi = (float(np.nextafter(v, side)) for v, side in zip((ends[0] - pads[0], ends[1] + pads[1]), (-math.inf, math.inf)))
    if problem.probability:
        lo, hi = max(lo, 0.0), min(hi, 1.0)
    return lo, hi


def _problem(ready: ReadyModel) -> tuple[Problem, Encoding]:
    parts = take_apart(ready.model.predictor)
    kind = type(parts.core)
    builders: list[tuple[tuple[type, ...], Callable[[ReadyModel, Parts], tuple[Problem, Encoding]]]] = [
        (TREES + FORESTS + BAGS, _averaged),
        (BOOSTED + BINNED, _boosted),
        (LINEAR + GENERALIZED, _linear),
        (LOGISTIC, _logistic),
        (NETWORKS, _network),
        (CONSTANT, _constant),
    ]
    for kinds, build in builders:
        if kind in kinds:
            if hasattr(parts.core, "predict_proba") != (ready.model.positive is not None):
                break
            problem, encoding = build(ready, parts)
            return _retargeted(problem, parts), encoding
    raise refuse(f"an estimator of type {kind.__name__}")


def _retargeted(problem: Problem, parts: Parts) -> Problem:
    """The same search, seen through the inverse transforms of the target."""
    for step in parts.targets:
        known = type(step) is FunctionTransformer and step.inverse_func in (None, np.exp, np.expm1)
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


def _tree_problem(read: SumOfTrees, link: Callable, link_error: float, probability: bool, group: int = 0) -> Problem:
    """A sum of trees, or with several groups the log-odds of the softmax probability of one."""
    made, groups = Ensemble(read.encoding, read.trees, read.base), len(read.base)
    # Each group is a sum of at most count + 1 products, rounded by the model and again by the search.
    error = 2 * gamma(made.count + 8) * float(made.size.max()) * (1 if groups == 1 else 2)
    error += TINY if groups == 1 else 2.0**-44 * (1 + float(made.size.max()))

    def goal(sign: int) -> tree_range.Objective:
        return tree_range.single(sign) if groups == 1 else tree_range.log_odds(group, groups, sign)

    def largest(sign: int, shown: Callable, gap: float, deadline: float) -> tuple[Found, float]:
        return tree_range.largest(made, goal(sign), error, deadline), error

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
    return _linked_trees(ready, read, functools.partial(_inverse, parts.core._loss)), read.encoding


def _linked_trees(ready: ReadyModel, read: SumOfTrees, link: Callable[[float], float]) -> Problem:
    if ready.model.positive is None:
        return _tree_problem(read, link, LINK_ERROR, False)
    k, classes = class_index(ready)
    if classes > 2:
        return _tree_problem(read, _logit_to_share, SOFTMAX_ERROR, True, k)
    if k == 1:
        return _tree_problem(read, link, LINK_ERROR, True)
    trees = [dataclasses.replace(member, value=-member.value) for member in read.trees]
    turned = SumOfTrees(read.encoding, trees, -read.base)
    return _tree_problem(turned, functools.partial(_complement, link), LINK_ERROR, True)


def _exp(raw: float) -> float:
    return float(np.exp(raw))


def _logit_to_share(raw: float) -> float:
    return float(expit(raw))


def _complement(link: Callable[[float], float], turned: float) -> float:
    """The probability of the other class, for a raw value with its sign turned."""
    return 1 - link(-turned)


def _inverse(loss: Any, raw: float) -> float:
    return float(loss.link.inverse(np.array([raw]))[0])


def _layers_problem(
    ready: ReadyModel, parts: Parts, layers: tuple[list, list], activation: str, link: Callable, link_error: float, method: str
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
    made = Layers(weights, offsets, activation, 2.0**-24 if single else network_range.ULP)
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

    def largest(sign: int, shown: Callable, gap: float, deadline: float) -> tuple[Found, float]:
        found, error = network_range.largest(made, inputs, goal(sign), shown, gap, deadline)
        # A softmax subtracts and sums; its log-odds move by no more than its largest argument's error, and a few roundings.
        return found, error if outputs == 1 else 2 * error + 2.0**-44 * (1 + abs(found.bound))

    return Problem(largest, rebuilt, link, link_error, probability, method), encoding


def _rows(core: Any) -> tuple[list, list]:
    weight = np.atleast_2d(core.coef_)
    return [weight], [np.broadcast_to(np.ravel(core.intercept_), (len(weight),))]


def _linear(ready: ReadyModel, parts: Parts) -> tuple[Problem, Encoding]:
    core, error = parts.core, 0.0
    link: Callable[[float], float] = float
    if len(np.atleast_2d(core.coef_)) != 1:
        raise refuse(f"a {type(core).__name__} with several outputs")
    if type(core) in GENERALIZED:
        link, error = functools.partial(_inverse, core._base_loss), LINK_ERROR
    return _layers_problem(ready, parts, _rows(core), "identity", link, error, "linear: each feature at its best value")


def _logistic(ready: ReadyModel, parts: Parts) -> tuple[Problem, Encoding]:
    core = parts.core
    several = len(core.classes_) > 2
    one_by_one = type(core) is linear_model.SGDClassifier or getattr(core, "solver", "") == "liblinear"
    if (several and one_by_one) or getattr(core, "loss", "log_loss") != "log_loss":
        raise refuse(f"a {type(core).__name__} other than logistic or softmax regression")
    method = "softmax of linear scores, with splits" if several else "linear: each feature at its best value"
    return _layers_problem(ready, parts, _rows(core), "identity", _logit_to_share, LINK_ERROR, method)


def _network(ready: ReadyModel, parts: Parts) -> tuple[Problem, Encoding]:
    core = parts.core
    ends: dict[str, Callable] = {"identity": float, "logistic": _logit_to_share, "softmax": float, "exp": _exp}
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

    def largest(sign: int, shown: Callable, gap: float, deadline: float) -> tuple[Found, float]:
        return Found(sign * answer, sign * answer, record[0], 0, True), 0.0

    problem = Problem(largest, lambda: (record, np.array([answer])), float, 0.0, ready.model.positive is not None, "constant")
    return problem, encoding
