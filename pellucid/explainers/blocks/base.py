"""Base of the explainers that ask a user's function of blocks of records."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...errors import PlanError
from ...public.black_box import BlackBox
from ...public.frozen import settle
from ...public.schema import Schema
from ...query import Blocks, Sum
from ...query.bound import Bound
from ...query.functions import ASSUMPTIONS, BlockFunction, FunctionTrial, Limits
from ...release.explainer import Explainer
from ...release.plan import Plan, Public
from ..common.base import keep_whole_number


class OnBlocks(Explainer):
    """What these explainers share. The four settings are fields of each, because each has others between them."""

    function: Callable[..., Any]
    blocks: int | None
    uses: Sequence[BlackBox]
    limits: Limits

    @abstractmethod
    def asked(self, public: Public) -> BlockFunction:
        """The function, with what turns its answer into numbers."""

    @abstractmethod
    def count(self, public: Public) -> int:
        """How many blocks are asked."""

    @abstractmethod
    def bound(self, asked: BlockFunction) -> Bound:
        """The set that the answer of a block lies in."""

    @property
    def models(self) -> tuple[BlackBox, ...]:
        return tuple(self.uses)

    def _check_function(self) -> None:
        if not callable(self.function):
            raise PlanError(f"{type(self.function).__name__} cannot be called; give a function of a DataFrame of records.")
        keep_whole_number(self, "blocks", 1, 1_000_000)
        if not isinstance(self.limits, Limits):
            raise PlanError("limits=: give pel.Limits(seconds=..., memory=..., workers=...), or leave it out.")
        uses = self.uses if isinstance(self.uses, Sequence) else (self.uses,)
        if not all(isinstance(model, BlackBox) for model in uses):
            raise PlanError("uses= lists models: wrap an estimator, pel.Model(estimator, trained_on=…).")
        settle(self, uses=tuple(uses))

    def columns(self, schema: Schema) -> tuple[str, ...]:
        return tuple(schema)

    def planned(self, public: Public, stage: str) -> Plan:
        """One stage in which blocks are asked; the function is tried on public records first."""
        asked, blocks, columns = self.asked(public), self.count(public), self.columns(public.schema)
        query = Sum(asked, self.bound(asked), over=Blocks(blocks), columns=columns)
        size = int(np.clip(public.rows_or_default // blocks, 10, 1000))
        return Plan(public, (public.stage(stage, query),), blocks, trial=FunctionTrial(asked, columns, size))

    def assumptions(self) -> tuple[str, ...]:
        return ASSUMPTIONS


def block_note(public: Public, blocks: int) -> str:
    """What the error bars of an answer on blocks leave out."""
    return (
        f"{blocks} blocks of about {public.rows_or_default / blocks:.0f} records: the error is that of the noise; how an answer "
        "on so few records differs from one on all of them is not known"
    )
