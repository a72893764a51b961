"""What an explainer is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from ..public.model import BlackBox, Model
from ..public.schema import Schema
from ..query.functions import FunctionTrial
from ..sensitivity import Flow
from .door import Ask
from .explanation import Explanation
from .plan import Public

Stages = Mapping[str, Fraction]


@dataclass(frozen=True)
class Expected:
    """What a release will be worth, known before paying: half-widths of 95 % error bars, and the smallest visible gap."""

    labels: tuple[str, ...]
    error: np.ndarray
    gap: float
    notes: tuple[str, ...] = ()


class Explainer(ABC):
    """Base of all explainers. Instances are frozen values: what to explain, never the data."""

    references: ClassVar[tuple[str, ...]] = ()

    @property
    def models(self) -> tuple[BlackBox, ...]:
        """The black boxes involved; each is tried on public records before anything is charged."""
        return ()

    @abstractmethod
    def columns(self, schema: Schema) -> tuple[str, ...]:
        """The features asked about, whose bounds go on the certificate; raises when one is not declared."""

    @abstractmethod
    def plan(self, public: Public) -> Stages:
        """The stages and the share of the spend each gets; the shares add up to one."""

    @abstractmethod
    def run(self, ask: Ask) -> Explanation:
        """Ask, then post-process. No rows are in scope."""

    @abstractmethod
    def expected(self, public: Public) -> Expected:
        """The error to expect. Touches no data."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """The request as plain data: for the ledger, the certificate and replays."""

    @classmethod
    @abstractmethod
    def examples(cls, model: Model, schema: Schema) -> Sequence[Explainer]:
        """Instances the contract suite tries on a schema with every kind of feature."""

    def flow(self) -> Flow | None:
        """What reads what, from the records to the explanation; the stages that are charged must be an enabling set of it."""
        return None

    @property
    def asks_one_by_one(self) -> bool:
        """Whether it answers questions one after another, through `Session.open`, instead of one release."""
        return False

    def trial(self, public: Public) -> FunctionTrial | None:
        """A function of blocks that is tried on public records before anything is charged."""
        return None

    def about_record(self) -> str:
        """What the certificate says about the record asked about."""
        return "none is involved"

    def assumptions(self) -> tuple[str, ...]:
        """What this explainer's guarantee rests on beyond the session's own list."""
        return ()
