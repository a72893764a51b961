"""Black boxes: what models and clusterings have in common.

That a black box is a *function of one row* is promised by nobody, so it is tried (`row_wise`), and asked about people in a way
that leaves little else to chance (`ready`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from ..errors import ModelError
from .asking import Asking
from .fingerprint import fingerprint, fingerprinted_as
from .frozen import settle
from .ready import PROBES, Ready
from .schema import Schema

Input = Literal["frame", "array", "codes"]


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
    def assumption(self) -> str:
        """What certificates assume of it, in words."""
        how = f"tried on {PROBES} public records, in other places and company, to the last bit"
        return f"{self.name} is a function of one row ({how})"

    @property
    def provenance(self) -> str:
        trained = self.trained_on.text if isinstance(self.trained_on, PrivateTraining) else f"on {self.trained_on}"
        return f"{self.name}, trained {trained}"

    @abstractmethod
    def ready(self, schema: Schema, asking: Asking | None = None) -> Ready:
        """Itself as it passed its trial on public records, asked in any way or in this one; see `row_wise`."""
