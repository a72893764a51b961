"""Tries functions of blocks on public records, before anything is charged."""

from __future__ import annotations

from ..errors import ModelError
from ..public.rows import Rows
from ..public.schema import Schema
from ..query.functions import BlockFunction, FunctionTrial, name_of
from .sandbox import Isolated

BLOCKS = 3
"""Public blocks that a function is tried on; it is refused when it fails on all of them."""


def try_function(function: BlockFunction, schema: Schema, columns: tuple[str, ...], size: int) -> None:
    """Refuse a function that fails on records drawn from the schema, before anything is charged."""
    frames = []
    for seed in range(BLOCKS):
        drawn = schema.sample(size, seed)
        frames.append(Rows(schema, {name: drawn[name] for name in columns}).frame())
    reasons = Isolated.of(function).trial(frames)
    if all(reasons):
        raise ModelError(
            f"the function {name_of(function.function)} was refused on public records drawn from the schema: {reasons[0]} "
            "Nothing was charged."
        )


class Trials:
    """Tries each function once, however often its price is asked.

    It is known again as the same object of which the same form of answer is wanted, and not by its content: that may be a large
    model, and a search for a price asks dozens of times. The size of a block follows from the price, so it does not count.
    """

    def __init__(self, schema: Schema):
        self._schema = schema
        # The functions themselves are held too: the identity of one that is gone could be given to another.
        self._passed: dict[tuple[object, ...], FunctionTrial] = {}

    def run(self, trial: FunctionTrial | None, again: bool = False) -> None:
        """Try this function, unless it passed before or there is none; `again` tries it anew: it may have been changed."""
        if trial is None:
            return
        asked = trial.function
        key = (id(asked.function), asked.adapt, len(asked.default), asked.limits, trial.columns)
        if again or key not in self._passed:
            try_function(asked, self._schema, trial.columns, trial.size)
            self._passed[key] = trial
