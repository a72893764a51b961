"""Models: black boxes that answer with a number in a declared range.

The *range* is promised by nobody and therefore enforced: every prediction is clipped to it, on and off the data manifold. A row
on which the model fails takes the middle of the range.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from ..errors import ModelError
from .asking import Asking
from .black_box import BlackBox, Input, PrivateTraining
from .columns import some
from .fingerprint import fingerprinted_as
from .frozen import settle
from .libraries import KerasNetwork, OnnxModel, TorchNetwork, XGBoostBooster, recognised
from .ready import Ready, Refusals, Refused, asked
from .row_wise import tried
from .schema import Schema

Method = Literal["score_samples", "decision_function"]

NETWORKS = (KerasNetwork, OnnxModel, TorchNetwork, XGBoostBooster)
"""Predictors that may have several outputs and know no names of them."""

REMARKABLE = 0.01
"""Answers outside the declared range are worth a remark from this share of public records on."""
NEARLY = 2.0**-10
"""Answers to questions of other sizes that differ by less than this part of the range differ in their last bits only."""


@fingerprinted_as("pellucid.model", "Model")
@dataclass(frozen=True, eq=False)
class Model(BlackBox):
    """A fitted estimator or a plain callable, with the range it answers in and the data it was trained on.

    >>> model = Model(lambda d: d["age"] / 100, output=(0, 1), features=["age"], trained_on="other data")
    >>> model.range
    1.0
    """

    kind: ClassVar[str] = "model"

    output: tuple[float, float] = (math.nan, math.nan)
    """The range it answers in, which is enforced; (0, 1) by default for a classifier, required for any other model."""
    positive: Any = None
    """The class of a classifier whose probability is the answer; the second one of two when not given. Of a network with several
    outputs the number of one, from 0 on."""
    precision: float | None = None
    """Answers are rounded to multiples of it: for predictors whose last digits depend on where in a batch a record stands without
    repeating every few rows, and which would be refused otherwise."""
    method: Method | None = None
    """The method that is called instead of predict() or predict_proba(): "score_samples" or "decision_function", for estimators
    that score records, such as isolation forests."""

    def __init__(
        self,
        predictor: Any,
        output: Sequence[float] | None = None,
        features: Sequence[str] | None = None,
        trained_on: str | PrivateTraining | None = None,
        positive: Any = None,
        input: Input | None = None,
        name: str = "",
        precision: float | None = None,
        method: Method | None = None,
    ):
        found = recognised(predictor)
        predictor, several = found.predictor, found.predictor is not predictor
        if found.network and features is None:
            raise ModelError(
                f"a {found.network} takes numbers by place: say which columns it is given, in which order, with features=[…]. "
                "Categories of text are given as positions in their declared order with input='codes'."
            )
        features, input = found.features if features is None else features, found.input if input is None else input
        output = found.output if output is None else output
        if not (hasattr(predictor, "predict") or callable(predictor)):
            raise ModelError(f"{type(predictor).__name__} is neither an estimator with predict() nor a callable.")
        if method is not None:
            own = type(predictor).__name__
            if method not in get_args(Method) or not callable(getattr(predictor, method, None)):
                raise ModelError(
                    f"method={method!r}: use 'score_samples' or 'decision_function', if {own} has it, or leave it out."
                )
            name = name or f"{own}.{method}"
        classes = getattr(predictor, "classes_", None) if hasattr(predictor, "predict_proba") and method is None else None
        if output is None and method is None and hasattr(predictor, "score_samples") and hasattr(predictor, "decision_function"):
            raise ModelError(
                f"output=None: {type(predictor).__name__} answers with labels; to explain its scores give method='score_samples' "
                "and their range, which is output=(-1, 0) for an isolation forest, or declare the range of its labels."
            )
        output, positive = _output_range(output, classes, found.network), _positive_class(positive, classes, several)
        super().__init__(predictor, features, trained_on, input, name)
        settle(self, output=output, positive=positive, precision=_checked_precision(precision, output), method=method)

    @classmethod
    def each_class(cls, predictor: Any, **options: Any) -> dict[Any, Model]:
        """A model for every class of a classifier, by name: a list of explanations of them is released for one charge.

        `options` are those of a model, but for `positive`.

        >>> from sklearn.dummy import DummyClassifier
        >>> fitted = DummyClassifier().fit([[0], [0], [0]], ["low", "mid", "high"])
        >>> list(Model.each_class(fitted, features=["age"], trained_on="other data"))
        ['high', 'low', 'mid']
        """
        classes = getattr(recognised(predictor).predictor, "classes_", None)
        if classes is None or "positive" in options:
            raise ModelError("each_class() is for classifiers that know the names of their classes, and without positive=.")
        listed = [c.item() if isinstance(c, np.generic) else c for c in classes]
        return {one: cls(predictor, positive=one, **options) for one in listed}

    @property
    def declared(self) -> list[Any]:
        return [*self.output, *(given for given in (self.precision, self.method) if given is not None)]

    @property
    def range(self) -> float:
        """Width of the declared output range."""
        return self.output[1] - self.output[0]

    @property
    def bound_text(self) -> str:
        rounded = "" if self.precision is None else f", answers rounded to multiples of {self.precision:g}"
        return f"declared range [{self.output[0]:g}, {self.output[1]:g}], enforced by clipping{rounded}"

    @property
    def assumption(self) -> str:
        if self.precision is None:
            return super().assumption
        return f"{super().assumption}, after rounding to multiples of {self.precision:g}"

    def ready(self, schema: Schema, asking: Asking | None = None) -> ReadyModel:
        return tried(self, schema, asking)

    def in_form(self, schema: Schema, features: tuple[str, ...], input: str) -> ReadyModel:
        return ReadyModel(self, schema, features, input)


def _output_range(output: Sequence[float] | None, classes: Any, network: str = "") -> tuple[float, float]:
    if output is None and classes is not None:
        output = (0.0, 1.0)
    if output is None and network:
        raise ModelError(
            f"output=None: declare the range in which the {network} answers, such as output=(0, 1) for probabilities. One that "
            "ends without a sigmoid or softmax answers with any number: add that step, or declare what its answers mean at most."
        )
    try:
        lo, hi = (float(v) for v in output)  # type: ignore[union-attr]
    except (TypeError, ValueError):
        raise ModelError(f"output={output!r}: declare the range the model answers in, for example output=(0, 1).") from None
    if not (math.isfinite(lo) and math.isfinite(hi) and lo < hi):
        raise ModelError(f"output=({lo:g}, {hi:g}): the range must be finite and its lower end below its upper end.")
    return lo, hi


def _checked_precision(precision: float | None, output: tuple[float, float]) -> float | None:
    if precision is None:
        return None
    if isinstance(precision, bool) or not isinstance(precision, int | float) or not 0 < precision <= (output[1] - output[0]) / 2:
        raise ModelError(f"precision={precision!r}: give a positive number, small against the range of the output, such as 1e-4.")
    return float(precision)


def _positive_class(positive: Any, classes: Any, several: bool = False) -> Any:
    if classes is None:
        if several and isinstance(positive, int) and not isinstance(positive, bool) and positive >= 0:
            return positive
        if several and positive is not None:
            raise ModelError(f"positive={positive!r}: it knows no names of classes; give the number of an output, from 0 on.")
        if positive is not None:
            raise ModelError("positive= is for classifiers with predict_proba(), and without method=; this model has none.")
        return None
    listed = [c.item() if isinstance(c, np.generic) else c for c in classes]
    if positive is None:
        if len(listed) != 2:
            raise ModelError(
                f"the classifier has {len(listed)} classes: say which one to explain with positive=, one of {some(listed)}."
            )
        return listed[1]
    if positive not in listed:
        raise ModelError(f"positive={positive!r} is not a class of the model; its classes are {some(listed)}.")
    return positive


class ReadyModel(Ready):
    """A model that passed its trial on public records, bound to a schema."""

    refusals = Refusals(
        batch="it raised {error} on another batch of the same records.",
        changed="its answer for a record changed {what}; a model must be a function of one row (no ranks, batch statistics "
        "or state).",
        nearly=" The change is in the last digits: with precision=, for example precision=1e-4, they are rounded away.",
    )

    def __init__(self, model: Model, schema: Schema, features: tuple[str, ...], input: str):
        super().__init__(_callable_of(model), schema, features, input)
        self.model = model

    def declared(self, answers: np.ndarray) -> np.ndarray:
        """One number per row inside the declared range; a row that fails takes the middle of the range."""
        lo, hi = self.model.output
        return np.clip(np.where(np.isnan(answers), (lo + hi) / 2, answers), lo, hi)

    def raw(self, inputs: Any) -> np.ndarray:
        answers = np.asarray(self.called(inputs), dtype=float)
        if answers.shape == (len(inputs), 1):
            answers = answers[:, 0]
        if isinstance(self.model.predictor, NETWORKS) and answers.ndim == 2:
            answers = self._output_of(answers)
        if answers.shape != (len(inputs),):
            raise Refused(
                "it must return one number per row; a classifier needs predict_proba(), several outputs need one Model each."
            )
        precision = self.model.precision
        return answers if precision is None else np.round(answers / precision) * precision

    def _output_of(self, answers: np.ndarray) -> np.ndarray:
        """One of several outputs: the one that was named, or the second one of two."""
        count, chosen = answers.shape[1], self.model.positive
        chosen = 1 if chosen is None and count == 2 else chosen
        if chosen is None or chosen >= count:
            raise Refused(f"it has {count} outputs; say which one to explain with positive=, a number from 0 to {count - 1}.")
        found: np.ndarray = answers[:, chosen]
        return found

    def accepted(self, inputs: Any) -> np.ndarray:
        answers = self.raw(inputs)
        if np.isnan(answers).any():
            raise Refused("it returned NaN for some of them; make it answer for every record of the declared domain.")
        return answers

    def remark_on(self, answers: np.ndarray) -> str:
        lo, hi = self.model.output
        room = 1e-9 * self.model.range
        outside = float(np.mean((answers < lo - room) | (answers > hi + room)))
        said = f"on {outside:.0%} of {len(answers):,} public records {self.model.name} answered outside its declared range"
        return f"{said} [{lo:g}, {hi:g}], and was clipped" if outside >= REMARKABLE else ""

    def shares(self, answers: np.ndarray) -> np.ndarray:
        return (self.declared(answers) - self.model.output[0]) / self.model.range

    def apart(self, answers: np.ndarray, again: np.ndarray) -> np.ndarray:
        return ~(np.abs(self.declared(again) - self.declared(answers)) <= NEARLY * self.model.range)


def _callable_of(model: Model) -> Callable[[Any], Any]:
    predictor = model.predictor
    if model.positive is not None and not isinstance(predictor, NETWORKS):
        column = [c.item() if isinstance(c, np.generic) else c for c in predictor.classes_].index(model.positive)
        return lambda inputs: predictor.predict_proba(inputs)[:, column]
    if model.method is not None:
        name = model.method
        return lambda inputs: getattr(predictor, name)(inputs)
    return asked(predictor)
