"""Black boxes: what models and clusterings have in common, how they are called, and their trial on public records.

That a black box is a *function of one row* is promised by nobody, so it is tried: on public records drawn from the schema, in
other orders and batch sizes, before anything is charged. Certificates list it as an assumption. On people's records it is
called quietly, and a row on which it fails has no answer, alone and in silence.
"""

from __future__ import annotations

import copy
import itertools
import math
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

import numpy as np
import pandas as pd

from ..errors import ModelError, SchemaError
from .fingerprint import fingerprint, fingerprinted_as
from .frozen import settle
from .schema import Category, Columns, Schema, did_you_mean
from .silence import silenced

Input = Literal["frame", "array", "codes"]

PROBES = 1024
"""Public records a black box is tried on: enough to cross the batch sizes where libraries switch algorithms."""


@fingerprinted_as("pellucid.model", "PrivateTraining")
@dataclass(frozen=True)
class PrivateTraining:
    """The model was trained with differential privacy, on the people of this data or on others.

    >>> PrivateTraining(1.0, 1e-6).text
    'with (1, 1e-06)-differential privacy'
    """

    epsilon: float
    """The ε of the training."""
    delta: float = 0.0
    """Its δ; 0 for pure differential privacy."""
    relation: str | None = None
    """Its neighbour relation, "replace" or "add-remove"; None where it is not known."""
    conditions: tuple[str, ...] = ()
    """What the guarantee of the training depends on, in words for the certificate."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.epsilon) and self.epsilon > 0 and 0 <= self.delta < 1):
            raise ModelError(f"PrivateTraining({self.epsilon!r}, {self.delta!r}): epsilon must be positive and 0 <= delta < 1.")

    @property
    def text(self) -> str:
        return f"with ({self.epsilon:g}, {self.delta:g})-differential privacy"


@dataclass(frozen=True, eq=False)
class BlackBox(ABC):
    """What models and clusterings have in common: a predictor, what it is given, and where it was trained."""

    kind: ClassVar[str]
    """What errors call it."""

    predictor: Any
    """A fitted estimator with predict(), or a plain callable on a batch of records."""
    features: tuple[str, ...] = ()
    """The columns it is given, in this order: by default those it was fitted on, or all columns of the schema."""
    trained_on: Any = None
    """Required, since certificates depend on it: "other data", "this data" or `PrivateTraining(eps, delta)`."""
    input: Input | None = None
    """What the predictor receives: "frame" (a DataFrame in the declared order with declared values), "array" (numbers), or
    "codes" (numbers, with categories as positions in their declared order). By default what it was fitted on, else a frame."""
    name: str = ""
    """What certificates call it: by default the name of the function, or of the estimator's class."""

    def __init__(
        self,
        predictor: Any,
        features: Sequence[str] | None,
        trained_on: str | PrivateTraining | None,
        input: Input | None,
        name: str,
    ):
        if trained_on not in ("other data", "this data") and not isinstance(trained_on, PrivateTraining):
            raise ModelError(
                f"trained_on={trained_on!r}: say where the {self.kind} was trained: 'other data', 'this data' "
                "or pel.PrivateTraining(eps, delta). Certificates depend on it."
            )
        if input is not None and input not in get_args(Input):
            raise ModelError(f"input={input!r}: use 'frame', 'array' or 'codes'.")
        if isinstance(features, str):
            raise ModelError(f"features={features!r}: give a list of column names.")
        names = features if features is not None else getattr(predictor, "feature_names_in_", ())
        settle(
            self,
            predictor=predictor,
            features=tuple(str(n) for n in names),
            trained_on=trained_on,
            input=input,
            name=name or getattr(predictor, "__name__", type(predictor).__name__),
        )

    @property
    @abstractmethod
    def declared(self) -> list[Any]:
        """The answers it may give, as plain data for requests."""

    @property
    @abstractmethod
    def bound_text(self) -> str:
        """What is enforced about its answers, for the certificate."""

    @abstractmethod
    def in_form(self, schema: Schema, features: tuple[str, ...], input: str) -> Ready:
        """How it is called with records of a schema in this form; not tried yet."""

    def fingerprint_with(self, answers: np.ndarray) -> str:
        """Tells it from others when a request is replayed, given its answers on public records."""
        return fingerprint(self.predictor, answers)

    @property
    def provenance(self) -> str:
        trained = self.trained_on.text if isinstance(self.trained_on, PrivateTraining) else f"on {self.trained_on}"
        return f"{self.name}, trained {trained}"

    @abstractmethod
    def ready(self, schema: Schema) -> Ready:
        """Itself as it passed its trial on public records; see `tried`."""


class Refused(Exception):
    """What is wrong with the answers of a black box, in words."""


@dataclass(frozen=True)
class Refusals:
    """What is said of a black box that is no function of one row."""

    batch: str
    """When it raises `{error}` on a smaller batch only."""
    changed: str
    """When its answer for a record changed with `{what}`."""


class Ready(ABC):
    """A black box bound to a schema: what it is given, how it is called, and what becomes of rows on which it fails.

    How a kind of black box is tried is said by `accepted`, what its answers must look like, and `agree`, when two are the same.
    """

    refusals: ClassVar[Refusals]

    def __init__(self, call: Callable[[Any], Any], schema: Schema, features: tuple[str, ...], input: str):
        self.schema, self.features, self.input = schema, features, input
        self.fingerprint = ""
        self._call = call

    @abstractmethod
    def raw(self, inputs: Any) -> np.ndarray:
        """The predictor's answers as one number per row; `Refused` if there is not one per row. Not silenced."""

    @abstractmethod
    def predict(self, inputs: Any) -> np.ndarray:
        """One declared answer per row, also for a row that fails."""

    @abstractmethod
    def accepted(self, inputs: Any) -> np.ndarray:
        """What `raw` says of public records; `Refused` if that is no answer a row may have."""

    @abstractmethod
    def agree(self, answers: np.ndarray, again: np.ndarray) -> bool:
        """Whether two answers to the same records are the same, up to rounding."""

    def inputs(self, columns: Columns) -> Any:
        """What the predictor is given for these columns."""
        if self.input in ("frame", "category frame"):
            return pd.DataFrame({name: self.values(name, columns[name]) for name in self.features}, copy=False)
        table = np.empty((len(columns[self.features[0]]), len(self.features)))
        for j, name in enumerate(self.features):
            table[:, j] = self.values(name, columns[name])
        return table

    def values(self, name: str, positions: np.ndarray) -> Any:
        """One column in the words of the predictor."""
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

    def called(self, inputs: Any) -> Any:
        """Whatever the predictor returns."""
        from joblib import parallel_config  # a tenth of a second to import, and needed only where a predictor is

        # A shallow copy: a predictor that writes into its input writes into its own.
        given = inputs.copy(deep=False) if isinstance(inputs, pd.DataFrame) else inputs.copy()
        # One thread: sums over trees in another order differ in the last bits.
        with parallel_config(backend="sequential"):
            return self._call(given)

    def row_by_row(self, inputs: Any) -> np.ndarray:
        """What `raw` says, in silence, with NaN for a row that fails."""
        with silenced():
            return self._halving(inputs)

    def _halving(self, inputs: Any) -> np.ndarray:
        interrupted = False
        try:
            return self.raw(inputs)
        except KeyboardInterrupt:
            interrupted = True
        except BaseException:
            pass
        if interrupted:
            # Raised anew, outside the handler: a predictor's own interrupt could carry a row in its message.
            raise KeyboardInterrupt
        if len(inputs) <= 1:
            return np.full(len(inputs), np.nan)
        # Halving finds the failing rows without letting one of them decide what its neighbours get.
        middle = len(inputs) // 2
        return np.concatenate([self._halving(_rows(inputs, 0, middle)), self._halving(_rows(inputs, middle, len(inputs)))])


def _rows(inputs: Any, start: int, stop: int) -> Any:
    return inputs.iloc[start:stop] if isinstance(inputs, pd.DataFrame) else inputs[start:stop]


_tried: weakref.WeakKeyDictionary[BlackBox, Ready] = weakref.WeakKeyDictionary()


def tried(box: BlackBox, schema: Schema) -> Any:
    """The black box as it passed its trial on public records; kept as long as the box lives, for the last schema."""
    ready = _tried.get(box)
    if ready is None or ready.schema is not schema:
        # Of a copy: an entry whose value refers to its own key would keep it alive for ever.
        ready = _tried[box] = _trial(copy.copy(box), schema)
    return ready


def _trial(box: BlackBox, schema: Schema) -> Ready:
    features = box.features or tuple(schema)
    for name in features:
        if name not in schema:
            raise SchemaError(f"the {box.kind} uses {name!r}, which the schema does not declare{did_you_mean(name, schema)}.")
    columns = {name: column for name, column in schema.sample(PROBES).items() if name in features}
    failures: list[str] = []
    for form in _forms(box, schema, features):
        ready = box.in_form(schema, features, form)
        try:
            ready.fingerprint = box.fingerprint_with(_answers(ready, columns))
            return ready
        except Refused as refusal:
            failures.append(str(refusal))
    raise ModelError(
        f"the {box.kind} {box.name!r} was refused on public records drawn from the schema: {failures[0]} Nothing was charged."
    )


def _forms(box: BlackBox, schema: Schema, features: Sequence[str]) -> list[str]:
    """The forms of input to try, the likeliest first."""
    text = [name for name in features if isinstance(schema[name], Category) and not schema[name].numeric]  # type: ignore[union-attr]
    if box.input == "array" and text:
        raise ModelError(f"input='array' needs numbers, but {text[0]!r} has text values; use input='codes' or 'frame'.")
    if box.input in ("array", "codes"):
        return [box.input]
    trained_on_array = hasattr(box.predictor, "n_features_in_") and not hasattr(box.predictor, "feature_names_in_")
    if box.input is None and trained_on_array and not text:
        return ["array"]
    # Some libraries insist on pandas' category type for text; public records tell which of the two the predictor takes.
    return ["frame", "category frame"] if text else ["frame"]


def _answers(ready: Ready, columns: Columns) -> np.ndarray:
    """The answers, once they have been shown to belong to single rows. Only public records are involved."""
    inputs = ready.inputs(columns)
    with silenced():
        try:
            answers = ready.accepted(inputs)
        except Refused:
            raise
        except (Exception, SystemExit) as error:
            raise Refused(f"it raised {type(error).__name__} ({str(error)[:200]}); check features= and input=.") from None
        try:
            repeated = _repeated(ready, inputs)
        except Refused:
            raise
        except (Exception, SystemExit) as error:
            raise Refused(ready.refusals.batch.format(error=type(error).__name__)) from None
    for what, again in repeated:
        if not ready.agree(answers, again):
            raise Refused(ready.refusals.changed.format(what=what))
    return answers


def _repeated(ready: Ready, inputs: Any) -> list[tuple[str, np.ndarray]]:
    """(what was different, the answers) of asking again for the same records."""
    size = len(inputs)
    order = np.random.default_rng(1).permutation(size)
    shuffled = np.empty(size)
    shuffled[order] = ready.raw(inputs.iloc[order] if isinstance(inputs, pd.DataFrame) else inputs[order])
    pieces = np.concatenate([ready.raw(_rows(inputs, a, b)) for a, b in itertools.pairwise([0, 1, 3, 64, size])])
    return [
        ("when it was asked twice", ready.raw(inputs)),
        ("with the order of the batch", shuffled),
        ("with the size of the batch", pieces),
    ]
