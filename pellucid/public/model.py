"""Models as black boxes: what they are given, what range they answer in, and where they were trained.

Two things are promised by nobody and therefore tried or enforced here. The *range* is enforced: every prediction is
clipped to it, on and off the data manifold. That the model is a *function of one row* is tried on public records
drawn from the schema, in other orders and batch sizes, before anything is charged; certificates list it as an
assumption. A row on which the model fails takes the middle of the range, alone and in silence.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import pickle
import secrets
import types
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from joblib import parallel_config

from ..errors import ModelError, SchemaError
from .schema import Category, Columns, Schema, did_you_mean
from .silence import quiet

Input = Literal["frame", "array", "codes"]

PROBES = 1024
"""Public records a model is tried on: enough to cross the batch sizes where libraries switch algorithms."""

TOLERANCE = 2.0**-32
"""Differences between batch sizes up to this share of the range are rounding, not dependence on the batch."""


@dataclass(frozen=True)
class PrivateTraining:
    """The model was trained with differential privacy, on the people of this data or on others.

    >>> PrivateTraining(1.0, 1e-6).text
    'with (1, 1e-06)-differential privacy'
    """

    epsilon: float
    delta: float = 0.0
    relation: str | None = None
    conditions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not (math.isfinite(self.epsilon) and self.epsilon > 0 and 0 <= self.delta < 1):
            raise ModelError(f"PrivateTraining({self.epsilon!r}, {self.delta!r}): epsilon must be positive and 0 <= delta < 1.")

    @property
    def text(self) -> str:
        return f"with ({self.epsilon:g}, {self.delta:g})-differential privacy"


@dataclass(frozen=True, eq=False)
class BlackBox(ABC):
    """What models and clusterings share: a predictor, what it is given, and where it was trained."""

    predictor: Any
    features: tuple[str, ...] = ()
    trained_on: Any = None
    input: Input | None = None
    name: str = ""

    def _settle(
        self,
        predictor: Any,
        features: Sequence[str] | None,
        trained_on: str | PrivateTraining | None,
        input: Input | None,
        name: str,
        **own: Any,
    ) -> None:
        """Check what all black boxes must say, and set the fields."""
        if trained_on not in ("other data", "this data") and not isinstance(trained_on, PrivateTraining):
            raise ModelError(
                f"trained_on={trained_on!r}: say where the {type(self).__name__.lower()} was trained: 'other data', 'this data' "
                "or pel.PrivateTraining(eps, delta). Certificates depend on it."
            )
        if input is not None and input not in get_args(Input):
            raise ModelError(f"input={input!r}: use 'frame', 'array' or 'codes'.")
        if isinstance(features, str):
            raise ModelError(f"features={features!r}: give a list of column names.")
        names = tuple(features if features is not None else getattr(predictor, "feature_names_in_", ()))
        settings = {
            "predictor": predictor,
            "features": tuple(str(n) for n in names),
            "trained_on": trained_on,
            "input": input,
            "name": name or getattr(predictor, "__name__", type(predictor).__name__),
            **own,
        }
        for key, value in settings.items():
            object.__setattr__(self, key, value)

    @property
    @abstractmethod
    def declared(self) -> list[Any]:
        """The answers it may give, as plain data for requests."""

    @property
    @abstractmethod
    def bound_text(self) -> str:
        """What is enforced about its answers, for the certificate."""

    @abstractmethod
    def _tried(self, schema: Schema) -> ReadyModel:
        """Try it on public records."""

    @property
    def provenance(self) -> str:
        trained = self.trained_on.text if isinstance(self.trained_on, PrivateTraining) else f"on {self.trained_on}"
        return f"{self.name}, trained {trained}"

    def ready(self, schema: Schema) -> Any:
        """Try it on public records and settle how it is called; the answer is kept for the schema."""
        kept = self.__dict__.get("_ready")
        if kept is None or kept.schema is not schema:
            kept = self._tried(schema)
            object.__setattr__(self, "_ready", kept)
        return kept

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k != "_ready"}


@dataclass(frozen=True, eq=False)
class Model(BlackBox):
    """A fitted estimator or a plain callable, with the range it answers in and the data it was trained on.

    `trained_on` is required: "other data", "this data" or `PrivateTraining(eps, delta)`. A classifier answers with the
    probability of `positive` (the second class of two when not given). `input` is what the predictor receives:
    "frame" (a DataFrame in the declared order with declared values), "array" (numbers), or "codes" (numbers, with
    categories as positions in their declared order).

    >>> model = Model(lambda d: d["age"] / 100, output=(0, 1), features=["age"], trained_on="other data")
    >>> model.range
    1.0
    """

    output: tuple[float, float] = (math.nan, math.nan)
    positive: Any = None

    def __init__(
        self,
        predictor: Any,
        output: Sequence[float] | None = None,
        features: Sequence[str] | None = None,
        trained_on: str | PrivateTraining | None = None,
        positive: Any = None,
        input: Input | None = None,
        name: str = "",
    ):
        if not (hasattr(predictor, "predict") or callable(predictor)):
            raise ModelError(f"{type(predictor).__name__} is neither an estimator with predict() nor a callable.")
        classes = getattr(predictor, "classes_", None) if hasattr(predictor, "predict_proba") else None
        own = {"output": _output_range(output, classes), "positive": _positive_class(positive, classes)}
        self._settle(predictor, features, trained_on, input, name, **own)

    @property
    def declared(self) -> list[Any]:
        return list(self.output)

    @property
    def range(self) -> float:
        """Width of the declared output range."""
        return self.output[1] - self.output[0]

    @property
    def bound_text(self) -> str:
        """What is enforced about its answers, for the certificate."""
        return f"declared range [{self.output[0]:g}, {self.output[1]:g}], enforced by clipping"

    def _tried(self, schema: Schema) -> ReadyModel:
        return _try_on_public_records(self, schema)


def _output_range(output: Sequence[float] | None, classes: Any) -> tuple[float, float]:
    if output is None and classes is not None:
        output = (0.0, 1.0)
    try:
        lo, hi = (float(v) for v in output)  # type: ignore[union-attr]
    except (TypeError, ValueError):
        raise ModelError(f"output={output!r}: declare the range the model answers in, for example output=(0, 1).") from None
    if not (math.isfinite(lo) and math.isfinite(hi) and lo < hi):
        raise ModelError(f"output=({lo:g}, {hi:g}): the range must be finite and its lower end below its upper end.")
    return lo, hi


def _positive_class(positive: Any, classes: Any) -> Any:
    if classes is None:
        if positive is not None:
            raise ModelError("positive= is for classifiers with predict_proba(); this model has none.")
        return None
    listed = [c.item() if isinstance(c, np.generic) else c for c in classes]
    if positive is None:
        if len(listed) != 2:
            raise ModelError(
                f"the classifier has {len(listed)} classes: say which one to explain with positive=, one of {listed!r}."
            )
        return listed[1]
    if positive not in listed:
        raise ModelError(f"positive={positive!r} is not a class of the model; its classes are {listed!r}.")
    return positive


class _NotOnePerRow(Exception):
    """The predictor's answer has another shape than one number per row."""


class ReadyModel:
    """A model that passed its trial on public records, bound to a schema."""

    def __init__(self, model: Model, schema: Schema, features: tuple[str, ...], input: str):
        self.model, self.schema, self.features, self.input = model, schema, features, input
        self._call = _callable_of(model)
        self.fingerprint = ""

    def inputs(self, columns: Columns) -> Any:
        """What the predictor is given for these columns."""
        if self.input in ("frame", "category frame"):
            return pd.DataFrame({name: self.values(name, columns[name]) for name in self.features}, copy=False)
        table = np.empty((len(columns[self.features[0]]), len(self.features)))
        for j, name in enumerate(self.features):
            table[:, j] = self.values(name, columns[name])
        return table

    def values(self, name: str, positions: np.ndarray) -> Any:
        """One column in the words of the model."""
        feature = self.schema[name]
        if isinstance(feature, Category):
            if self.input == "codes":
                return positions
            if feature.numeric:
                return feature.values_at(positions)
            if self.input == "category frame":
                return pd.Categorical.from_codes(positions.astype(np.intp), list(feature.values), ordered=feature.ordered)  # type: ignore[call-overload]
            # Plain objects: encoders turn other kinds of text into these at every call.
            return pd.Series(feature.values_at(positions), dtype=object)
        return positions if self.input in ("array", "codes") else feature.values_at(positions)

    def with_column(self, inputs: Any, name: str, positions: np.ndarray) -> Any:
        """The same inputs with one column set; the original is left as it was."""
        if isinstance(inputs, pd.DataFrame):
            changed = inputs.copy(deep=False)
            changed[name] = self.values(name, positions)
            return changed
        changed = inputs.copy()
        changed[:, self.features.index(name)] = self.values(name, positions)
        return changed

    def predict(self, inputs: Any) -> np.ndarray:
        """One number per row inside the declared range; a row that fails takes the middle of the range."""
        with quiet():
            answers = self._answers(inputs)
        lo, hi = self.model.output
        return np.clip(np.where(np.isnan(answers), (lo + hi) / 2, answers), lo, hi)

    def _answers(self, inputs: Any) -> np.ndarray:
        interrupted = False
        try:
            return self.raw(inputs)
        except KeyboardInterrupt:
            interrupted = True
        except BaseException:
            pass
        if interrupted:
            # Raised anew, outside the handler: a model's own interrupt could carry a row in its message.
            raise KeyboardInterrupt
        if len(inputs) <= 1:
            return np.full(len(inputs), np.nan)
        # Halving finds the failing rows without letting one of them decide what its neighbours get.
        middle = len(inputs) // 2
        return np.concatenate([self._answers(_rows(inputs, 0, middle)), self._answers(_rows(inputs, middle, len(inputs)))])

    def raw(self, inputs: Any) -> np.ndarray:
        # A shallow copy: a predictor that writes into its input writes into its own.
        given = inputs.copy(deep=False) if isinstance(inputs, pd.DataFrame) else inputs.copy()
        # One thread: sums over trees in another order differ in the last bits.
        with parallel_config(backend="sequential"):
            answers = np.asarray(self._call(given), dtype=float)
        if answers.shape == (len(inputs), 1):
            answers = answers[:, 0]
        if answers.shape != (len(inputs),):
            raise _NotOnePerRow
        return answers


def _rows(inputs: Any, start: int, stop: int) -> Any:
    return inputs.iloc[start:stop] if isinstance(inputs, pd.DataFrame) else inputs[start:stop]


def _callable_of(model: Model) -> Callable[[Any], Any]:
    predictor = model.predictor
    if model.positive is not None:
        column = [c.item() if isinstance(c, np.generic) else c for c in predictor.classes_].index(model.positive)
        return lambda inputs: predictor.predict_proba(inputs)[:, column]
    return predictor.predict if hasattr(predictor, "predict") else predictor


def _try_on_public_records(model: Model, schema: Schema) -> ReadyModel:
    features = model.features or tuple(schema)
    for name in features:
        if name not in schema:
            raise SchemaError(f"the model uses {name!r}, which the schema does not declare{did_you_mean(name, schema)}.")
    columns = {name: column for name, column in schema.sample(PROBES).items() if name in features}
    failures: list[str] = []
    for form in _forms(model, schema, features):
        ready = ReadyModel(model, schema, features, form)
        try:
            ready.fingerprint = _fingerprint(model, _tried(ready, columns))
            return ready
        except _Refused as refusal:
            failures.append(str(refusal))
    raise ModelError(
        f"the model {model.name!r} was refused on public records drawn from the schema: {failures[0]} Nothing was charged."
    )


def _forms(model: BlackBox, schema: Schema, features: Sequence[str]) -> list[str]:
    text = [name for name in features if isinstance(schema[name], Category) and not schema[name].numeric]  # type: ignore[union-attr]
    if model.input == "array" and text:
        raise ModelError(f"input='array' needs numbers, but {text[0]!r} has text values; use input='codes' or 'frame'.")
    if model.input in ("array", "codes"):
        return [model.input]
    trained_on_array = hasattr(model.predictor, "n_features_in_") and not hasattr(model.predictor, "feature_names_in_")
    if model.input is None and trained_on_array and not text:
        return ["array"]
    # Some libraries insist on pandas' category type for text; public records tell which of the two the model takes.
    return ["frame", "category frame"] if text else ["frame"]


class _Refused(Exception):
    """What is wrong with a model, in words."""


def _tried(ready: ReadyModel, columns: Columns) -> np.ndarray:
    """The model's answers, once it has shown that they belong to single rows. Only public records are involved."""
    inputs = ready.inputs(columns)
    with quiet():
        try:
            answers = ready.raw(inputs)
        except _NotOnePerRow:
            raise _Refused(
                "it must return one number per row; a classifier needs predict_proba(), several outputs need one Model each."
            ) from None
        except (Exception, SystemExit) as error:
            raise _Refused(f"it raised {type(error).__name__} ({str(error)[:200]}); check features= and input=.") from None
        if np.isnan(answers).any():
            raise _Refused("it returned NaN for some of them; make it answer for every record of the declared domain.")
        try:
            trials = _trials(ready, inputs, len(inputs))
        except (Exception, SystemExit) as error:
            raise _Refused(f"it raised {type(error).__name__} on a smaller batch of the same records.") from None
    for what, again in trials:
        if not np.all(np.abs(again - answers) <= TOLERANCE * ready.model.range):
            raise _Refused(
                f"its answer for a record changed {what}; a model must be a function of one row (no ranks, batch statistics "
                "or state)."
            )
    return answers


def _trials(ready: ReadyModel, inputs: Any, size: int) -> list[tuple[str, np.ndarray]]:
    order = np.random.default_rng(1).permutation(size)
    shuffled = np.empty(size)
    shuffled[order] = ready.raw(inputs.iloc[order] if isinstance(inputs, pd.DataFrame) else inputs[order])
    edges = [0, 1, 3, 64, size]
    pieces = np.concatenate([ready.raw(_rows(inputs, a, b)) for a, b in itertools.pairwise(edges)])
    return [
        ("when it was asked twice", ready.raw(inputs)),
        ("with the order of the batch", shuffled),
        ("with the size of the batch", pieces),
    ]


def _function_bytes(function: Any) -> bytes:
    """What a function is made of: its code and the values it carries; one that carries what has no bytes equals only itself."""
    code = getattr(function, "__code__", None)
    if code is None:
        return secrets.token_bytes(32)
    carried = [cell.cell_contents for cell in function.__closure__ or ()] + [function.__defaults__, function.__kwdefaults__]
    try:
        values = pickle.dumps([carried, [function.__globals__.get(name) for name in code.co_names if _plain(function, name)]])
    except Exception:
        values = secrets.token_bytes(32)
    return code_bytes(code) + values


def code_bytes(code: types.CodeType) -> bytes:
    """Code without the addresses that its inner functions have in this process."""
    inner = [code_bytes(c) if isinstance(c, types.CodeType) else repr(c).encode() for c in code.co_consts]
    return code.co_code + repr(code.co_names).encode() + b"".join(inner)


def _plain(function: Any, name: str) -> bool:
    """Whether a global that a function uses is data rather than a module, a class or another function."""
    value = function.__globals__.get(name)
    return not (callable(value) or isinstance(value, types.ModuleType))


def _fingerprint(model: BlackBox, answers: np.ndarray) -> str:
    """Tells two models apart when a request is replayed: their answers on public records and, where possible, their bytes."""
    with quiet():
        try:
            content = pickle.dumps(model.predictor)
            if isinstance(model.predictor, types.FunctionType):
                content += code_bytes(model.predictor.__code__)  # pickled by name alone, which may mean another one later
        except Exception:
            content = _function_bytes(model.predictor)
    digest = hashlib.sha256(np.round(answers, 9).tobytes())
    digest.update(hashlib.sha256(content).digest())
    return digest.hexdigest()
