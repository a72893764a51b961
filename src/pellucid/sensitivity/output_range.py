"""The certified range of a fitted model's answers over the declared records; no data is read, only fitted parameters."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from ..errors import ModelError
from ..public.black_box import Input
from ..public.fitted.encoding import FIX, Encoding, refuse
from ..public.model import Method, Model, ReadyModel
from ..public.schema import Schema
from ..public.silence import silenced

if TYPE_CHECKING:
    from .problems import Problem


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


def output_range(
    model: Any,
    schema: Schema,
    *,
    tolerance: float = 1e-3,
    seconds: float = 10.0,
    features: Sequence[str] | None = None,
    positive: Any = None,
    input: Input | None = None,
    method: Method | None = None,
) -> OutputRange:
    """Certified smallest and largest answer of a fitted model over every record the schema declares.

    Reads the fitted parameters of scikit-learn trees, forests, boosting, linear models and multi-layer perceptrons, the trees of
    XGBoost, LightGBM and CatBoost, and isolation forests with method="score_samples" or "decision_function", alone or behind
    scalers, encoders and imputers; `model` is such an estimator or a `pel.Model`. Linear models and single trees are
    exact. Ensembles are searched until exact, networks until the gap is at most `tolerance` of the attained range; after
    `seconds` the interval reached so far is returned, still certified, and says that it is not exact.
    Claim: output-range

    >>> from sklearn.linear_model import LinearRegression
    >>> from pellucid import Number
    >>> fitted = LinearRegression().fit([[0.0], [1.0]], [1.0, 3.0])
    >>> found = output_range(fitted, Schema({"dose": Number(0, 10)}))
    >>> [round(v, 6) for v in found], found.highest
    ([1.0, 21.0], {'dose': 10.0})
    """
    began = time.monotonic()
    if not (math.isfinite(seconds) and seconds > 0 and math.isfinite(tolerance) and tolerance >= 0):
        raise ModelError(f"tolerance={tolerance!r}, seconds={seconds!r}: give a tolerance of at least 0 and a positive time.")
    ready = _ready(model, schema, features, positive, input, method)
    from .problems import problem_of

    with silenced():
        problem, encoding = problem_of(ready)
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


def _ready(model: Any, schema: Schema, features: Any, positive: Any, input: Any, method: Method | None) -> ReadyModel:
    given = {"features": features, "positive": positive, "input": input, "method": method}
    if isinstance(model, Model):
        if any(value is not None for value in given.values()):
            raise ModelError("features=, positive=, input= and method= are already part of the pel.Model; give them there.")
        return model.ready(schema)
    if not hasattr(model, "predict"):
        raise refuse(f"a {type(model).__name__}: it is not a fitted estimator")
    probability = hasattr(model, "predict_proba") and method is None
    # Only for the trial on public records; the range of a regressor is what is being asked for.
    anything = None if probability else (-1e300, 1e300)
    return Model(model, output=anything, trained_on="other data", **given).ready(schema)


def _compare(problem: Problem, encoding: Encoding) -> None:
    """The parameters that were read must give the model's own answers on public records."""
    records, raw = problem.rebuilt()
    ours = np.array([problem.link(float(value)) for value in raw])
    answers = encoding.ready.raw(encoding.inputs(records))
    if not np.allclose(ours, answers, rtol=1e-5, atol=1e-5 * (1e-9 + float(np.abs(answers).max()))):
        raise refuse(f"{encoding.ready.model.name}: its answers do not follow from its fitted parameters")


def _labels(schema: Schema, names: Sequence[str], record: np.ndarray) -> dict[str, Any]:
    return {name: schema[name].value_at(float(value)) for name, value in zip(names, record)}


def _outward(problem: Problem, raw_lo: float, raw_hi: float) -> tuple[float, float]:
    """The interval of answers for an interval of raw values, widened by the rounding of the link."""
    with np.errstate(over="ignore"):
        ends = [float(problem.link(raw_lo)), float(problem.link(raw_hi))]
    if not all(math.isfinite(v) for v in ends):
        raise ModelError(f"the model's answers overflow on the declared records. {FIX}")
    pads = [problem.link_error * (1.0 if problem.probability else max(abs(v), problem.size)) for v in ends]
    lo, hi = (float(np.nextafter(v, side)) for v, side in zip((ends[0] - pads[0], ends[1] + pads[1]), (-math.inf, math.inf)))
    if problem.probability:
        lo, hi = max(lo, 0.0), min(hi, 1.0)
    return lo, hi
