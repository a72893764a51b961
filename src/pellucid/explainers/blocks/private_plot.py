"""Any plot of any explainer, made private: blocks of people, one plot each, their noisy mean."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import numpy as np

from ...errors import PlanError
from ...public.frozen import settle
from ...public.grids import curve_points
from ...public.model import Model
from ...public.schema import Category, Schema, did_you_mean
from ...query.bounds import Box
from ...query.functions import BlockFunction, Limits, digest_of, name_of
from ...release.door import Ask
from ...release.explainer import Explainer
from ...release.explanation import Explanation
from ...release.plan import Expected, Plan, Public
from ...sensitivity import Flow
from ..common.base import once_positional
from ..common.results import Curve
from .base import OnBlocks, Uses, block_note
from .functions import MeanBy, OnGrid, blocks_for_plot


@once_positional("output", "blocks", "default", "uses", "limits", "label", "ylabel")
@dataclass(frozen=True)
class PrivatePlot(OnBlocks):
    """Any line or bar plot that a function makes of records, released without knowing how the function works.

    Released: the mean over blocks of people of what `function(rows)` gives at the public places `x`. `rows` is a DataFrame with
    the declared columns; the function answers with one height per place, with (places, heights), which are interpolated to
    `x`, or with a mapping. The error bars cover the noise, not that a block is smaller than the table. The function runs in
    processes of its own, one per block, and is tried on public records first.

    Claim: blocks, on box-sum.
    Paper: "Tailoring differential privacy to any explainer" (generic DP plots); here for both neighbour relations and with
    the noise of smallest error.

    >>> import pellucid as pel
    >>> schema = pel.Schema({"age": pel.Number(0, 100)})
    >>> session = pel.Session({"age": list(range(100)) * 50}, schema, budget=pel.Budget(epsilon=5.0))
    >>> quartiles = pel.PrivatePlot(
    ...     lambda rows: rows["age"].quantile([0.25, 0.5, 0.75]), x=[0.25, 0.5, 0.75], output=(0, 100), uses="nothing"
    ... )
    >>> made = session.release(quartiles, epsilon=5.0)
    >>> bool(abs(made.y[1] - 50) < 15), made.certificate.status
    (True, 'proved for isolated functions')
    """

    function: Callable[..., Any]
    """The function of a DataFrame of records."""
    x: Sequence[Any] | str
    """The places (numbers, or categories), or the name of a column, whose public grid is used."""
    _: KW_ONLY
    output: tuple[float, float]
    """The range of heights; others are clipped to it."""
    blocks: int | None = None
    """More mean less noise but smaller blocks; left out, it follows from the number of records and the spend."""
    default: float | Sequence[float] | None = None
    """What a block counts as that fails or takes too long, one height or one for every place; else the middle of `output`."""
    uses: Uses = None
    """What the function refers to that was made from data: models, clusterings, or `pel.Derived(name, trained_on=…)`; "nothing"
    where there is none. Left out, the certificate is conditional on there being nothing from these people."""
    limits: Limits = field(default_factory=Limits)
    """What one block may use."""
    label: str = ""
    """What the places are called in the picture."""
    ylabel: str = ""
    """What the heights are called in the picture."""

    stored_as = "pellucid.explainers.private_plot.PrivatePlot"
    references = (
        "K. Nissim, S. Raskhodnikova, A. Smith, Smooth sensitivity and sampling in private data analysis, STOC 2007.",
        "Tailoring Differential Privacy to Any Explainer, supplementary material: generic DP plots.",
        "M. Hardt, K. Talwar, On the geometry of differential privacy, STOC 2010 (K-norm mechanism).",
    )

    def __post_init__(self) -> None:
        self._check_function()
        try:
            lo, hi = (float(v) for v in self.output)
        except (TypeError, ValueError):
            raise PlanError(f"output={self.output!r}: declare the range of the heights, for example output=(0, 1).") from None
        if not (np.isfinite([lo, hi]).all() and lo < hi):
            raise PlanError(f"output=({lo:g}, {hi:g}): the range must be finite and its lower end below its upper end.")
        settle(self, output=(lo, hi))
        if not isinstance(self.x, str):
            settle(self, x=_places(self.x))
        for name in ("label", "ylabel"):
            if not isinstance(getattr(self, name), str):
                raise PlanError(f"{name}={getattr(self, name)!r}: give text.")
        if self.default is not None:
            try:
                given = np.asarray(self.default, dtype=float)
            except (TypeError, ValueError):
                given = np.empty((0, 0))
            if given.ndim > 1 or not ((given >= lo) & (given <= hi)).all():
                raise PlanError(f"default={self.default!r}: give one height inside [{lo:g}, {hi:g}], or one for every place.")
            settle(self, default=tuple(given) if given.ndim else float(given))

    def places(self, public: Public) -> tuple[tuple[Any, ...], bool]:
        """(public places, whether they are categories)."""
        if isinstance(self.x, str):
            if self.x not in public.schema:
                raise PlanError(
                    f"x={self.x!r} is not a column of the schema{did_you_mean(self.x, public.schema)}; list the places."
                )
            feature = public.schema[self.x]
            grid = curve_points(feature, public.rows_or_default, public.epsilon_like)
            return tuple(feature.value_at(v) for v in grid), isinstance(feature, Category)
        return tuple(self.x), not all(isinstance(v, int | float) and not isinstance(v, bool) for v in self.x)

    def asked(self, public: Public) -> BlockFunction:
        x, categorical = self.places(public)
        if isinstance(self.default, tuple) and len(self.default) != len(x):
            raise PlanError(f"default= has {len(self.default)} heights for {len(x)} places; give one for each, or a single one.")
        default = np.broadcast_to(sum(self.output) / 2 if self.default is None else self.default, len(x))
        return BlockFunction(self.function, OnGrid(x, categorical), tuple(default.tolist()), self.limits)

    def count(self, public: Public) -> int:
        return self.blocks or blocks_for_plot(public.rows_or_default, public.epsilon_like)

    def bound(self, asked: BlockFunction) -> Box:
        return Box(len(asked.default), *self.output)

    def plan(self, public: Public) -> Plan:
        return self.planned(public, "mean")

    def run(self, ask: Ask) -> Explanation:
        grid, blocks = _grid(ask.plan), ask.plan.details
        answer = ask.total("mean")
        lo, hi = self.output
        y = (lo + hi) / 2 + (hi - lo) / 2 * answer.numbers / blocks
        return Curve(
            feature=self.label or (self.x if isinstance(self.x, str) else "x"),
            x=grid.x,
            y=y,
            law=answer.noise,
            count=float(blocks),
            noisy_count=False,
            output=self.output,
            categorical=grid.categorical,
            ylabel=self.ylabel or f"mean of {name_of(self.function)} over {blocks} blocks",
        )

    def flow(self, plan: Plan | None = None) -> Flow:
        return (
            Flow("private plot")
            .input("records")
            .public("x", "the places, declared")
            .public("function", "treated as public")
            .stage(
                "mean",
                "records",
                "x",
                "function",
                needs="one of a fixed number of blocks changes, in the declared output",
            )
            .output("explanation", "x", "mean", needs="divide by the number of blocks")
        )

    def expected(self, plan: Plan) -> Expected:
        (lo, hi), blocks = self.output, plan.details
        law = plan["mean"].noise.times((hi - lo) / 2 / blocks)
        labels = tuple(str(v) for v in _grid(plan).x)
        return Expected(labels, np.full(len(labels), law.half_width(0.95)), law.gap(0.95), (block_note(plan.public, blocks),))

    def describe(self) -> dict[str, Any]:
        return {
            "explainer": "PrivatePlot",
            "function": name_of(self.function),
            "sha256": digest_of(self.function),
            "x": self.x if isinstance(self.x, str) else list(self.x),
            "output": list(self.output),
            "blocks": self.blocks,
            "default": list(self.default) if isinstance(self.default, tuple) else self.default,
            "limits": [self.limits.seconds, self.limits.memory],
            "labels": [self.label, self.ylabel],
        }

    @classmethod
    def examples(cls, model: Model, schema: Schema) -> Sequence[Explainer]:
        name = next(name for name in schema if not isinstance(schema[name], Category))
        category = next(name for name in schema if isinstance(schema[name], Category))
        feature: Any = schema[name]
        return [
            cls(
                MeanBy(category, name),
                category,
                output=(feature.lo, feature.hi),
                blocks=2,
                limits=Limits(workers=1),
                uses="nothing",
            )
        ]


def _grid(plan: Plan) -> OnGrid:
    """The public places of a plan."""
    assert plan.trial is not None
    grid = plan.trial.function.adapt
    assert isinstance(grid, OnGrid)
    return grid


def _places(x: Sequence[Any]) -> tuple[Any, ...]:
    try:
        places = tuple(v.item() if isinstance(v, np.generic) else v for v in x)
        hashed = len(set(places))
    except TypeError:
        raise PlanError(f"x={x!r}: list the places, or name a column.") from None
    if not all(isinstance(v, str | int | float | bool) and not (isinstance(v, int) and abs(v) > 2**53) for v in places):
        raise PlanError("x= lists places that are neither numbers nor text; turn them into one of these.")
    if not 1 <= len(places) <= 1000 or hashed < len(places):
        raise PlanError(f"x= lists {len(places)} places; give 1 to 1000 different ones, or the name of a column.")
    numbers = [v for v in places if isinstance(v, int | float) and not isinstance(v, bool)]
    if len(numbers) == len(places) and not (np.isfinite(numbers).all() and (np.diff(numbers) > 0).all()):
        raise PlanError("x= lists numbers that are not finite or do not increase; sort them.")
    return places
