"""Base of the explainers that ask a user's function of blocks of records."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from ...errors import PlanError
from ...public.black_box import BlackBox
from ...public.frozen import settle
from ...public.schema import Schema
from ...query import Blocks, Sum
from ...query.bound import Bound
from ...query.functions import ASSUMPTIONS, BlockFunction, Derived, FunctionTrial, Limits, name_of
from ...release.explainer import Explainer
from ...release.plan import Plan, Public
from ..common.base import keep_whole_number

Uses = Sequence[BlackBox | Derived] | BlackBox | Derived | Literal["nothing"] | None
"""What a function of blocks declares that it refers to."""


class OnBlocks(Explainer):
    """What these explainers share. The four settings are fields of each, because each has others between them."""

    function: Callable[..., Any]
    blocks: int | None
    uses: Uses
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
    def relies_on(self) -> tuple[BlackBox | Derived, ...]:
        return self.uses if isinstance(self.uses, tuple) else ()

    @property
    def models(self) -> tuple[BlackBox, ...]:
        return tuple(used for used in self.relies_on if isinstance(used, BlackBox))

    def only_asked(self, plan: Plan) -> tuple[BlackBox, ...]:
        """None: whatever a model does to the rows of a block, it is the block's answer that counts, and one person is in one."""
        return ()

    def _check_function(self) -> None:
        if not callable(self.function):
            raise PlanError(f"{type(self.function).__name__} cannot be called; give a function of a DataFrame of records.")
        keep_whole_number(self, "blocks", 1, 1_000_000)
        if not isinstance(self.limits, Limits):
            raise PlanError("limits=: give pel.Limits(seconds=..., memory=..., workers=...), or leave it out.")
        if self.uses is not None:
            settle(self, uses=_declared(self.uses))

    def columns(self, schema: Schema) -> tuple[str, ...]:
        return tuple(schema)

    def planned(self, public: Public, stage: str) -> Plan:
        """One stage in which blocks are asked; the function is tried on public records first."""
        asked, blocks, columns = self.asked(public), self.count(public), self.columns(public.schema)
        query = Sum(asked, self.bound(asked), over=Blocks(blocks), columns=columns)
        size = int(np.clip(public.rows_or_default // blocks, 10, 1000))
        return Plan(public, (public.stage(stage, query),), blocks, trial=FunctionTrial(asked, columns, size))

    def conditions(self) -> tuple[str, ...]:
        if self.uses is not None:
            return ()
        return (
            f"neither the function {name_of(self.function)} nor anything it refers to was made from these people's records: what "
            "it uses was not declared (uses=)",
        )

    def assumptions(self) -> tuple[str, ...]:
        if self.uses is None:
            return ASSUMPTIONS
        but = f" but {', '.join(used.name for used in self.relies_on)}" if self.relies_on else ""
        return (f"The function, and everything it refers to{but}, is public: it was not made from the records.", *ASSUMPTIONS)


def _declared(uses: Any) -> tuple[BlackBox | Derived, ...]:
    """What a function uses, as a tuple; empty where it was declared to use nothing."""
    listed = () if isinstance(uses, str) and uses == "nothing" else uses if isinstance(uses, list | tuple) else (uses,)
    if not all(isinstance(used, BlackBox | Derived) for used in listed):
        raise PlanError(
            "uses=: list what the function refers to that was made from data, each as a pel.Model or pel.Clustering, or as "
            "pel.Derived('age groups', trained_on=…); say uses='nothing' where there is none."
        )
    return tuple(listed)


def block_note(public: Public, blocks: int) -> str:
    """What the error bars of an answer on blocks leave out."""
    return (
        f"{blocks} blocks of about {public.rows_or_default / blocks:.0f} records: the error is that of the noise; how an answer "
        "on so few records differs from one on all of them is not known"
    )
