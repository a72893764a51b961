"""Any ranking of any explainer, made private: blocks of people vote, and the noisy votes are counted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import numpy as np

from ...errors import PlanError
from ...public.frozen import settle
from ...public.model import Model
from ...public.schema import Category, Schema
from ...query.functions import BlockFunction, Limits, digest_of, name_of
from ...release.door import Ask
from ...release.explainer import Explainer
from ...release.explanation import Explanation
from ...release.plan import Expected, Plan, Public
from ...sensitivity import Flow
from ..common.base import once_positional
from .ballots import Ballots
from .base import OnBlocks, Uses, block_note
from .functions import Means, OnItems, blocks_for_votes
from .results import Votes


@once_positional("blocks", "uses", "limits")
@dataclass(frozen=True)
class PrivateRanking(OnBlocks):
    """Any ranking that a function makes of records, released without knowing how the function works.

    Released: the Borda votes of blocks of people on the public `items`. `function(rows)` gets a DataFrame with the declared
    columns and answers with one score per item (larger is better), with a mapping from items to scores, or with a list of
    items, the first one best; items left out of a list share the last place, and ties share their points. `.votes` are mean
    points (0 for last, the number of items less one for first), `.tiers()` cuts the ranking where noise cannot have
    swapped anything. The function runs in processes of its own, one per block: it may fail, print, or take too long, and then
    its block votes for nobody. It is tried on public records first.

    Claim: borda-ballots, on blocks.
    Paper: "Tailoring differential privacy to any explainer" (generic DP rank aggregation); here with the exact
    sensitivities of a vote and for both neighbour relations.

    >>> import pellucid as pel
    >>> schema = pel.Schema({"a": pel.Number(0, 1), "b": pel.Number(0, 1)})
    >>> session = pel.Session({"a": [0.9] * 4000, "b": [0.1] * 4000}, schema, budget=pel.Budget(epsilon=4.0))
    >>> larger = pel.PrivateRanking(lambda rows: rows.mean(), items=["a", "b"], uses="nothing")
    >>> session.release(larger, epsilon=4.0).ranking
    ('a', 'b')
    """

    function: Callable[..., Any]
    """The function of a DataFrame of records."""
    items: Sequence[str]
    """What is ranked."""
    _: KW_ONLY
    blocks: int | None = None
    """More mean less noise but smaller blocks; left out, it follows from the number of records and items and the spend."""
    uses: Uses = None
    """What the function refers to that was made from data: models, clusterings, or `pel.Derived(name, trained_on=…)`; "nothing"
    where there is none. Left out, the certificate is conditional on there being nothing from these people."""
    limits: Limits = field(default_factory=Limits)
    """What one block may use."""

    stored_as = "pellucid.explainers.private_ranking.PrivateRanking"
    references = (
        "K. Nissim, S. Raskhodnikova, A. Smith, Smooth sensitivity and sampling in private data analysis, STOC 2007.",
        "Tailoring Differential Privacy to Any Explainer, supplementary material: generic DP rank aggregation.",
        "M. Hardt, K. Talwar, On the geometry of differential privacy, STOC 2010 (K-norm mechanism).",
    )

    def __post_init__(self) -> None:
        self._check_function()
        items = tuple(self.items) if isinstance(self.items, Iterable) else (None,)
        if isinstance(self.items, str) or not all(isinstance(item, str) for item in items):
            raise PlanError(f"items={self.items!r}: give the names of what is ranked as a list of text.")
        if not 2 <= len(items) <= 1000 or len(set(items)) < len(items):
            raise PlanError(f"items= lists {len(items)} names; give 2 to 1000 different ones.")
        settle(self, items=items)

    def asked(self, public: Public) -> BlockFunction:
        return BlockFunction(self.function, OnItems(tuple(self.items)), (0.0,) * len(self.items), self.limits)

    def count(self, public: Public) -> int:
        return self.blocks or blocks_for_votes(public.rows_or_default, len(self.items), public.epsilon_like)

    def bound(self, asked: BlockFunction) -> Ballots:
        return Ballots(len(self.items))

    def plan(self, public: Public) -> Plan:
        return self.planned(public, "votes")

    def run(self, ask: Ask) -> Explanation:
        answer, blocks = ask.total("votes"), ask.plan.details
        points = answer.numbers / blocks + (len(self.items) - 1) / 2
        return Votes(items=tuple(self.items), votes=points, blocks=blocks, law=answer.noise.times(1 / blocks))

    def flow(self, plan: Plan | None = None) -> Flow:
        return (
            Flow("private ranking")
            .input("records")
            .public("items", "declared")
            .public("function", "treated as public")
            .stage("votes", "records", "items", "function", needs="one of a fixed number of votes changes")
            .output("explanation", "items", "votes", needs="sort")
        )

    def expected(self, plan: Plan) -> Expected:
        public, blocks = plan.public, plan.details
        law = plan["votes"].noise.times(1 / blocks)
        errors = np.full(len(self.items), law.half_width(0.95))
        return Expected(tuple(self.items), errors, law.gap(0.95), ("errors are in mean Borda points", block_note(public, blocks)))

    def describe(self) -> dict[str, Any]:
        return {
            "explainer": "PrivateRanking",
            "function": name_of(self.function),
            "sha256": digest_of(self.function),
            "items": list(self.items),
            "blocks": self.blocks,
            "limits": [self.limits.seconds, self.limits.memory],
        }

    @classmethod
    def examples(cls, model: Model, schema: Schema) -> Sequence[Explainer]:
        names = [name for name in schema if not isinstance(schema[name], Category)]
        return [cls(Means(tuple(names)), names, blocks=2, limits=Limits(workers=1), uses="nothing")]
