"""How long a release will take: measured by running it on public records, which are drawn from the schema."""

from __future__ import annotations

import time
from functools import partial

from ..engine import Kept, LocalEngine
from ..public.asking import Asking
from ..public.schema import Schema
from .door import Ask
from .explainer import Explainer
from .plan import Plan

FEW, MORE = 64, 512
"""Public records of the two runs: what the second takes longer is what records take."""


def seconds(explainer: Explainer, plan: Plan) -> float | None:
    """About how long the release takes; None where that cannot be told: of streams, of functions of blocks, and where nobody
    guessed the number of people. The answers are about nobody, and are thrown away."""
    public = plan.public
    people = public.rows if public.rows is not None else public.expected_rows
    if explainer.asks_one_by_one or plan.trial is not None or people is None:
        return None
    try:
        _run(explainer, plan, FEW)  # whatever is loaded or compiled at the first use
        few, more = (_run(explainer, plan, count) for count in (FEW, MORE))
    except Exception:
        # A guess must not stand in the way of a preview.
        return None
    return few + max(people - FEW, 0) * max(more - few, 0.0) / (MORE - FEW)


def _run(explainer: Explainer, plan: Plan, count: int) -> float:
    public = plan.public
    engine = LocalEngine(_table(public.schema, count, public.unit.column), public.schema, public.relation, public.unit)
    engine.asking = Asking.about(count, None)
    started = time.perf_counter()
    explainer.run(Ask(partial(engine.totals, kept=Kept()), plan))
    return time.perf_counter() - started


def _table(schema: Schema, count: int, ids: str | None) -> dict[str, list[object]]:
    drawn = schema.sample(count, seed=10)
    columns: dict[str, list[object]] = {name: [schema[name].value_at(value) for value in drawn[name]] for name in schema}
    return columns if ids is None else {**columns, ids: list(range(count))}


def in_words(duration: float) -> str:
    """A rough duration, as one says it.

    >>> in_words(17.3), in_words(140.0), in_words(9000.0)
    ('about 20 s', 'about 2 minutes', 'about 2 hours')
    """
    if duration < 90:
        return f"about {float(f'{duration:.1g}'):g} s"
    minutes = duration / 60
    return f"about {minutes:.0f} minutes" if minutes < 100 else f"about {minutes / 60:.0f} hours"
