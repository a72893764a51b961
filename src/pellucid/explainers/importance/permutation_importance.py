"""Permutation importance: how much worse the model predicts when a feature is taken from somebody else."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from ...errors import PlanError
from ...mechanisms import NoiseLaw
from ...public.frozen import settle
from ...public.model import Model
from ...public.schema import Category, Schema, did_you_mean
from ...query.kinds import Query
from ...release.door import Ask
from ...release.explainer import Explainer
from ...release.explanation import Explanation
from ...release.plan import WHOLE, Expected, Plan, Public, Stage
from ...release.verdict import foreseen
from ...sensitivity import Flow
from ..common.base import OfGroups, keep_whole_number, once_positional
from ..common.caps import PrivateCap
from .losses import Loss, LossName
from .mean_increases import MeanIncreases
from .mean_losses import MeanLosses
from .shuffling import Measured, Shuffling, Truth

USUAL = 0.05
"""The part of the largest loss that importances rarely exceed, where the range is no wider than answers are."""
MOVED_SHARE = Fraction(1, 20)
"""Of what is left after the cap, for a look at what shuffles do, where that could matter."""


@dataclass(frozen=True)
class Details:
    """What the plan of a permutation importance settles."""

    shuffling: Shuffling
    """What is asked."""
    cap: float
    """The cap as far as it is public: the one given, or the largest loss."""
    choice: PrivateCap | None
    """How a private cap is chosen, where one is."""
    noise: NoiseLaw
    """The noise of the losses, the same for every cap."""


@once_positional("loss", "features", "positive", "ranking", "repeats", "cap")
@dataclass(frozen=True)
class PermutationImportance(OfGroups):
    """How much a model's loss grows when a feature is shuffled among people: what it leans on to predict the target.

    Released: the mean loss as it is and with each feature shuffled, all by one draw of noise; importances are their
    differences (`.ratios` their quotients), computed afterwards. With `ranking=True` only what an order needs: the mean increase
    of the loss, feature by feature, which is far more certain. Who gives a feature to whom is secret and does not depend on
    the data. Answers and truths are clipped to the model's declared output. Losses are capped, because a few large ones decide
    how much noise is needed; a cap that is not given is chosen privately for a part of the spend, where there are enough records
    for that. What it hides is measured too, and what the draw of shuffles does: error bars are about importances over all
    shuffles, without the cap. `.tiers()` cuts the ranking where neither noise nor these can have swapped anything. A record
    whose target is missing, unreadable or not a declared value has no loss, unless the schema declares what stands for it;
    `.uncounted` says how many there are.

    Claim: pairs and couples, on box-sum, counted-sum, joint-sum and quantile-span. Assumes that the model is a function of one
    row.
    Paper: "Tailoring differential privacy to any explainer" (private permutation importance); here with base and
    permuted losses in one draw, couples that exchange their values, and a private cap.

    >>> import pellucid as pel
    >>> schema = pel.Schema({"a": pel.Number(0, 1), "b": pel.Number(0, 1), "y": pel.Number(0, 1)})
    >>> model = pel.Model(lambda d: d["a"], output=(0, 1), features=["a", "b"], trained_on="other data")
    >>> data = {"a": [0.0, 1.0] * 2000, "b": [0.5] * 4000, "y": [0.0, 1.0] * 2000}
    >>> session = pel.Session(data, schema, budget=pel.Budget(epsilon=2.0))
    >>> session.release(pel.PermutationImportance(model, "y"), epsilon=2.0).ranking
    ('a', 'b')
    """

    target: str
    """The column that the model predicts."""
    _: KW_ONLY
    loss: LossName = "squared"
    """Of a prediction against the truth: "squared", "absolute", "log" or "0-1"."""
    features: Sequence[str | Sequence[str]] | None = None
    """What is shuffled: names of features and of groups, and tuples such as `("lat", "lon")` that are shuffled together; left
    out, each group, and each feature that is in none."""
    positive: Any = None
    """Which category of the target the model answers for; left out, the model's own, or the second of two."""
    ranking: bool = False
    """Release only what the order of the features needs."""
    repeats: int | None = None
    """Shuffles to average over; left out, as many as pay at this number of records and ε."""
    cap: float | str | None = None
    """Losses above it count as it; "range" is the largest possible loss; left out, it is chosen privately."""

    stored_as = "pellucid.explainers.permutation_importance.PermutationImportance"
    references = (
        "L. Breiman, Random forests, Machine Learning 45 (2001).",
        "A. Fisher, C. Rudin, F. Dominici, All models are wrong, but many are useful, JMLR 20 (2019).",
        "Tailoring Differential Privacy to Any Explainer, supplementary material: DP permutation feature importance.",
        "M. Hardt, K. Talwar, On the geometry of differential privacy, STOC 2010 (K-norm mechanism).",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.features is not None:
            settle(self, features=_groups(self.features))
        keep_whole_number(self, "repeats", 1, 100)
        if not isinstance(self.target, str):
            raise PlanError(f"target={self.target!r}: give the name of a column.")
        for name in ("positive", "ranking", "cap"):
            value = getattr(self, name)
            settle(self, **{name: value.item() if isinstance(value, np.generic) else value})
        top, cap = self._loss.top, self.cap if isinstance(self.cap, str | int | float | None) else "unknown"
        if not (cap is None or cap == "range" or (isinstance(cap, int | float) and not isinstance(cap, bool) and 0 < cap <= top)):
            raise PlanError(f"cap={cap!r}: give a number up to {top:g} (the largest {self.loss} loss), 'range', or leave it out.")

    @property
    def _loss(self) -> Loss:
        return Loss(self.loss, *self.model.output)

    @property
    def _private_cap(self) -> bool:
        return self.cap is None and self.loss != "0-1"

    @property
    def _declared_cap(self) -> float:
        """The cap as far as it is public."""
        return float(self.cap) if isinstance(self.cap, int | float) else self._loss.top

    def shuffled(self, schema: Schema) -> dict[str, tuple[str, ...]]:
        """What is shuffled together, by its name."""
        groups = self.grouping(schema)
        if self.features is not None:
            asked = ((" + ".join(some), some) for some in self.features)
            return {name: groups.get(name, tuple(some)) for name, some in asked}
        used = [name for name in self.model.features or schema if name != self.target or name in self.model.features]
        players = groups.among(used).players(used)
        return dict(zip(players.names, players.members(used)))

    def columns(self, schema: Schema) -> tuple[str, ...]:
        if self.target not in schema:
            raise PlanError(f"target={self.target!r} is not a column of the schema{did_you_mean(self.target, schema)}.")
        used = self.model.features or tuple(schema)
        if self.target in used:
            raise PlanError(
                f"the model is given its own target {self.target!r}, so every loss is meaningless; "
                "list what it uses with pel.Model(..., features=[...])."
            )
        every = [name for group in self.shuffled(schema).values() for name in group]
        for name in every:
            if every.count(name) > 1:
                raise PlanError(f"features: {name!r} would be shuffled twice, by itself and in a group; name one of them.")
            if name not in used:
                raise PlanError(f"the model does not use {name!r}, so it has no importance{did_you_mean(name, used)}.")
        return tuple(name for name in schema if name in used or name == self.target)

    def leaves_out(self, schema: Schema) -> tuple[str, ...]:
        target = schema[self.target]
        return (self.target,) if target.excludes or target.fills_nan else ()

    def truth(self, schema: Schema) -> Truth:
        feature, left_out = schema[self.target], bool(self.leaves_out(schema))
        if not isinstance(feature, Category):
            if self.positive is not None:
                raise PlanError(f"positive= is for a target with categories; {self.target!r} holds numbers.")
            return Truth(self.target, None, *self.model.output, left_out)
        own = self.model.positive if self.model.positive in feature.values else None
        chosen = own if self.positive is None else self.positive
        if chosen is None and len(feature.values) == 2:
            chosen = feature.values[1]
        if chosen not in feature.values:
            raise PlanError(
                f"which value of {self.target!r} does the model answer for? Say positive=, one of {list(feature.values)!r}."
            )
        if own is not None and chosen != own:
            raise PlanError(f"positive={chosen!r}, but the model answers for {own!r}; leave positive= out.")
        return Truth(self.target, feature.position(chosen), *self.model.output, left_out)

    def turns(self, public: Public) -> int:
        """Repeats: more than one only where chance in the shuffle would outweigh the noise."""
        if self.repeats is not None:
            return self.repeats
        d, rows = len(self.shuffled(public.schema)), public.rows_or_default
        noise = 2 * math.sqrt((d + 1) * (d + 2) / 3) / public.epsilon_like / rows
        chance = 0.3 / math.sqrt(rows)  # losses spread over about a third of their cap
        return int(np.clip(math.ceil((chance / noise) ** 2), 1, 5))

    def plan(self, public: Public) -> Plan:
        kind: type[Shuffling] = MeanIncreases if self.ranking else MeanLosses
        columns, shuffled = self.columns(public.schema), self.shuffled(public.schema)
        measured = Measured(self.model, self.truth(public.schema), self._loss)
        given = self.cap is not None
        pairing, groups = kind.pairing(public, self.turns(public)), tuple(shuffled.values())
        shuffling = kind(measured, groups, pairing, columns, public, given, tuple(shuffled))
        choice = shuffling.private_cap if self._private_cap else None
        left = WHOLE if choice is None else WHOLE - choice.stage.share
        share = {"moved": left * MOVED_SHARE} if shuffling.chance_matters else {}
        share["losses"] = left - sum(share.values())
        asked: dict[str, Query] = {"losses": shuffling.query(self._declared_cap), "moved": shuffling.moves(self._declared_cap)}
        stages = [public.stage(name, asked[name], share[name]) for name in ("losses", "moved") if name in share]
        details = Details(shuffling, self._declared_cap, choice, stages[0].noise)
        if choice is None:
            return Plan(public, tuple(stages), details)
        return Plan(public, (choice.stage, *(Stage(stage.name, stage.share) for stage in stages)), details)

    def run(self, ask: Ask) -> Explanation:
        details: Details = ask.plan.details
        shuffling, cap, look = details.shuffling, details.cap, "moved" in ask.plan.shares
        if details.choice is None:
            return shuffling.importance(ask.total("losses"), cap, ask.total("moved") if look else None)
        cap *= min(1.0, details.choice.chosen(ask.choose("cap")[0]) * shuffling.stretch)
        losses = ask.total("losses", shuffling.query(cap))
        return shuffling.importance(losses, cap, ask.total("moved", shuffling.moves(cap)) if look else None)

    def flow(self, plan: Plan | None = None) -> Flow:
        flow = Flow("permutation importance").input("records").public("model", "treated as public")
        asked = {"losses", *(("cap",) if self._private_cap else ())} if plan is None else set(plan.shares)
        caps = tuple(name for name in ("cap",) if name in asked)
        if caps:
            flow = flow.stage("cap", "records", "model", needs="ranks of losses among public candidates, over pairs")
        flow = flow.stage("losses", "records", "model", *caps, needs="losses up to the cap, beside a count under add-remove")
        if "moved" in asked:
            flow = flow.stage("moved", "records", "model", *caps, needs="squares of capped increases, over pairs")
        stages = tuple(name for name in ("cap", "losses", "moved") if name in asked)
        return flow.output("explanation", *stages, needs="divide, subtract")

    def expected(self, plan: Plan) -> Expected:
        details: Details = plan.details
        shuffling, cap = details.shuffling, details.cap
        width, gap = shuffling.error(details.noise, cap, plan.public.planning_rows)
        notes = []
        if details.choice is not None:
            notes.append(
                f"losses will be capped at a privately chosen value; the further it is below {cap:g}, "
                "the smaller the errors; what it hides is looked at and makes upper ends of error bars longer"
            )
        elif self._private_cap:
            notes.append("with so few records at this price no cap can be chosen: losses keep their declared range")
        hidden = self._unseen(shuffling, cap, width)
        if hidden > width:
            notes.append(
                f"what lies beyond the cap is looked for as far as losses can go: error bars may reach ±{hidden:.2g}; "
                "leave cap= out to have one chosen privately"
            )
        if shuffling.count:
            notes.append("the count of records is noisy too: errors depend a little on the size of an importance")
        # Of a wide declared range nobody knows how much of it importances fill.
        if not shuffling.wide:
            notes.append(foreseen(plan.public, max(width, hidden), USUAL * self._loss.top, "importances of such models"))
        return Expected(shuffling.features, np.full(len(shuffling.features), width), gap, tuple(notes))

    @staticmethod
    def _unseen(shuffling: Shuffling, cap: float, width: float) -> float:
        """How far a cap that somebody gave may lengthen bars: noise in the look beyond it, in units of the loss."""
        looks = (look for look in (shuffling.looks(cap).up, shuffling.looks(cap).down) if look is not None)
        return width * max((look.factor * look.reach / cap for look in looks), default=0.0) if shuffling.given else 0.0

    def describe(self) -> dict[str, Any]:
        return {
            "explainer": "PermutationImportance",
            "target": self.target,
            "loss": self.loss,
            "features": None if self.features is None else [list(group) for group in self.features],
            "positive": self.positive,
            "ranking": self.ranking,
            "repeats": self.repeats,
            "cap": self.cap,
        }

    @classmethod
    def examples(cls, model: Model, schema: Schema) -> Sequence[Explainer]:
        names = [name for name in schema if name in model.features]
        target = next(name for name in schema if name not in names)
        return [
            cls(model, target),
            cls(model, target, ranking=True, repeats=2),
            cls(model, target, loss="0-1", features=[names[0], tuple(names[1:3])] if len(names) > 2 else None),
            cls(model, target, loss="log", cap=2.0),
        ]


def _groups(features: Sequence[str | Sequence[str]]) -> tuple[tuple[str, ...], ...]:
    if isinstance(features, str):
        raise PlanError(f"features={features!r}: give a list of column names.")
    try:
        groups = tuple((group,) if isinstance(group, str) else tuple(group) for group in features)
    except TypeError:
        raise PlanError(f"features={features!r}: give column names, or tuples of them that are shuffled together.") from None
    flat = [name for group in groups for name in group]
    if not groups or not all(groups) or not all(isinstance(name, str) for name in flat):
        raise PlanError(f"features={features!r}: give column names, or tuples of them that are shuffled together.")
    if len(set(flat)) < len(flat):
        raise PlanError(f"features={features!r}: a column is named twice.")
    return groups
