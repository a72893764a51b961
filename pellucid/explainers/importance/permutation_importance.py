"""Permutation importance: how much worse the model predicts when a feature is taken from somebody else."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from ...errors import PlanError
from ...public.model import Model
from ...public.rows import Rows
from ...public.schema import Category, Schema, did_you_mean
from ...query import Choice, Couples, Joint, Pairs, Sum
from ...query.bound import UNITS
from ...query.bounds import Box, Cells
from ...query.scores import QuantileScore
from ...release.door import Ask
from ...release.explainer import Explainer
from ...release.explanation import Explanation
from ...release.plan import Expected, Plan, Public
from ...sensitivity import Flow
from ..common.base import OfModel, keep_whole_number
from .losses import Loss, LossName
from .results import Importance

CAPS = 2.0 ** (-np.arange(160, -1, -1) / 4)
"""Candidate caps, as parts of the largest loss: down to a millionth of a declared range, squared."""

BASE_WEIGHT = 2
"""One person is in one base loss but in two permuted ones, so the base may be twice as exact at the same noise."""

CAP_SHARE = Fraction(1, 20)
FALL = 0.25
"""An increase of the loss is clipped at the cap, a decrease at this part of it: shuffling rarely helps anybody much."""


@dataclass(frozen=True)
class Truth:
    """What a record's target says, in the range of the model's output."""

    target: str
    category: int | None
    lo: float
    hi: float

    def __call__(self, rows: Rows) -> np.ndarray:
        cells = rows[self.target]
        if self.category is not None:
            return np.where(cells == self.category, self.hi, self.lo)
        return np.clip(cells, self.lo, self.hi)


@dataclass(frozen=True)
class BaseLoss:
    """Per record: the loss of the model as it is."""

    model: Model
    truth: Truth
    loss: Loss

    def __call__(self, rows: Rows) -> np.ndarray:
        return self.loss(self.truth(rows), rows.predict(self.model))[:, None]


@dataclass(frozen=True)
class ShuffledLosses:
    """Per record and donor: the losses when each group of features comes from the donor."""

    model: Model
    truth: Truth
    loss: Loss
    groups: tuple[tuple[str, ...], ...]

    def __call__(self, rows: Rows, donors: Rows) -> np.ndarray:
        truth = self.truth(rows)
        answers = (rows.predict(self.model, {name: donors[name] for name in group}) for group in self.groups)
        return np.stack([self.loss(truth, answer) for answer in answers], axis=1)


@dataclass(frozen=True)
class Increases:
    """Per record and donor, or with `both` per couple: how much the loss grows when each group of features is exchanged."""

    model: Model
    truth: Truth
    loss: Loss
    groups: tuple[tuple[str, ...], ...]
    both: bool

    def __call__(self, rows: Rows, others: Rows) -> np.ndarray:
        found = self._of(rows, others)
        return (found + self._of(others, rows)) / 2 if self.both else found

    def _of(self, rows: Rows, donors: Rows) -> np.ndarray:
        base = self.loss(self.truth(rows), rows.predict(self.model))
        return ShuffledLosses(self.model, self.truth, self.loss, self.groups)(rows, donors) - base[:, None]


@dataclass(frozen=True)
class Strangers:
    """Per record and donor: which candidate cap is just reached when *all* features come from the donor.

    That is what losses are like when the model knows nothing, and it costs one prediction a record. With `increase` it is
    about how much the loss grows, with `both` about the mean over the two of a couple.
    """

    model: Model
    truth: Truth
    loss: Loss
    increase: bool = False
    both: bool = False

    def __call__(self, rows: Rows, others: Rows) -> tuple[np.ndarray, None, None]:
        one, other = rows.predict(self.model), others.predict(self.model)
        found = self._of(rows, one, other)
        if self.both:
            found = (found + self._of(others, other, one)) / 2
        cell = np.searchsorted(CAPS * self.loss.top, found, side="left")
        return np.minimum(cell, len(CAPS) - 1)[:, None], None, None

    def _of(self, rows: Rows, own: np.ndarray, given: np.ndarray) -> np.ndarray:
        truth = self.truth(rows)
        found = self.loss(truth, given)
        return found - self.loss(truth, own) if self.increase else found


@dataclass(frozen=True)
class PermutationImportance(OfModel):
    """How much a model's loss grows when a feature is shuffled among people: what it leans on to predict the target.

    Released: the mean loss as it is and with each feature shuffled, all by one draw of noise; importances are their
    differences (`.ratios` their quotients), computed afterwards. With `ranking=True` only what an order needs: the mean increase
    of the loss, feature by feature, which is far more certain. Who gives a feature to whom is secret and does not depend on
    the data. `loss` is "squared", "absolute", "log" or "0-1"; answers and truths are clipped to the model's declared output.
    Losses are capped, because a few large ones decide how much noise is needed: by default the cap is chosen privately
    for a twentieth of the spend; `cap` sets it, or `cap="range"` leaves it at the largest possible loss. `features` may hold
    groups such as `("lat", "lon")`, shuffled together. `repeats` averages over several shuffles; the default follows from the
    number of records and the spend. `.tiers()` cuts the ranking where noise cannot have swapped anything.

    Claim: pairs and couples, on box-sum, joint-sum and quantile-span. Assumes that the model is a function of one row.
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
    loss: LossName = "squared"
    features: Sequence[str | Sequence[str]] | None = None
    positive: Any = None
    ranking: bool = False
    repeats: int | None = None
    cap: float | str | None = None

    references = (
        "L. Breiman, Random forests, Machine Learning 45 (2001).",
        "A. Fisher, C. Rudin, F. Dominici, All models are wrong, but many are useful, JMLR 20 (2019).",
        "Tailoring Differential Privacy to Any Explainer, supplementary material: DP permutation feature importance.",
        "M. Hardt, K. Talwar, On the geometry of differential privacy, STOC 2010 (K-norm mechanism).",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.features is not None:
            object.__setattr__(self, "features", _groups(self.features))
        keep_whole_number(self, "repeats", 1, 100)
        if not isinstance(self.target, str):
            raise PlanError(f"target={self.target!r}: give the name of a column.")
        for name in ("positive", "ranking", "cap"):
            value = getattr(self, name)
            object.__setattr__(self, name, value.item() if isinstance(value, np.generic) else value)
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

    def groups(self, schema: Schema) -> tuple[tuple[str, ...], ...]:
        """What is shuffled together, group after group."""
        if self.features is not None:
            return self.features  # type: ignore[return-value]
        return tuple((name,) for name in self.model.features or schema if name != self.target or name in self.model.features)

    def columns(self, schema: Schema) -> tuple[str, ...]:
        if self.target not in schema:
            raise PlanError(f"target={self.target!r} is not a column of the schema{did_you_mean(self.target, schema)}.")
        used = self.model.features or tuple(schema)
        if self.target in used:
            raise PlanError(
                f"the model is given its own target {self.target!r}, so every loss is meaningless; "
                "list what it uses with pel.Model(..., features=[...])."
            )
        for name in (name for group in self.groups(schema) for name in group):
            if name not in used:
                raise PlanError(f"the model does not use {name!r}, so it has no importance{did_you_mean(name, used)}.")
        return tuple(name for name in schema if name in used or name == self.target)

    def truth(self, schema: Schema) -> Truth:
        feature = schema[self.target]
        if not isinstance(feature, Category):
            if self.positive is not None:
                raise PlanError(f"positive= is for a target with categories; {self.target!r} holds numbers.")
            return Truth(self.target, None, *self.model.output)
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
        return Truth(self.target, feature.position(chosen), *self.model.output)

    def turns(self, public: Public) -> int:
        """Repeats: more than one only where chance in the shuffle would outweigh the noise."""
        if self.repeats is not None:
            return self.repeats
        d, rows = len(self.groups(public.schema)), public.rows_or_default
        noise = 2 * math.sqrt((d + 1) * (d + 2) / 3) / public.epsilon_like / rows
        chance = 0.3 / math.sqrt(rows)  # losses spread over about a third of their cap
        return int(np.clip(math.ceil((chance / noise) ** 2), 1, 5))

    def pairing(self, public: Public) -> Pairs | Couples:
        """Couples where one person is in one of them; else a cyclic order, which is right for both relations and for people."""
        if self.ranking and not public.count_needed and public.unit.column is None:
            return Couples(self.turns(public))
        return Pairs(self.turns(public))

    def cap_query(self, public: Public) -> Choice:
        pairing = type(self.pairing(public))
        strangers = Strangers(self.model, self.truth(public.schema), self._loss, increase=self.ranking, both=pairing is Couples)
        over = Sum(strangers, Cells(len(CAPS)), over=pairing(), columns=self.columns(public.schema))
        return Choice(over, QuantileScore(Fraction(9, 10)))

    def stretch(self, public: Public) -> float:
        """What the quantile is multiplied by: with many records and a large spend noise is small, and a low cap would be bias.

        The numbers were found by trying several tables; any would be private.
        """
        plenty = public.rows_or_default * public.epsilon_like / (len(self.groups(public.schema)) + 1.5)
        return plenty ** (1 / 3) / 13 if self.ranking else max(1.0, math.sqrt(plenty / 850))

    def query(self, public: Public, cap: float) -> Joint:
        truth, columns = self.truth(public.schema), self.columns(public.schema)
        groups, pairing = self.groups(public.schema), self.pairing(public)
        if self.ranking:
            grown = Increases(self.model, truth, self._loss, groups, both=isinstance(pairing, Couples))
            box = Box(len(groups), -FALL * cap, cap, count=public.count_needed)
            return Joint([Sum(grown, box, over=pairing, columns=columns)])
        shuffled = ShuffledLosses(self.model, truth, self._loss, groups)
        base = Box(1, 0.0, cap, count=public.count_needed, weight=BASE_WEIGHT)
        return Joint(
            [
                Sum(shuffled, Box(len(groups), 0.0, cap), over=pairing, columns=columns),
                Sum(BaseLoss(self.model, truth, self._loss), base, columns=columns),
            ]
        )

    def plan(self, public: Public) -> Plan:
        self.query(public, self._declared_cap)
        return {"cap": CAP_SHARE, "losses": 1 - CAP_SHARE} if self._private_cap else {"losses": Fraction(1)}

    def run(self, ask: Ask) -> Explanation:
        public, cap = ask.public, self._declared_cap
        if self._private_cap:
            chosen = float(CAPS[ask.choose("cap", self.cap_query(public))[0]])
            cap *= min(1.0, chosen * self.stretch(public))
        query = self.query(public, cap)
        answer = ask.total("losses", query)
        features = tuple(" + ".join(group) for group in self.groups(public.schema))
        law = answer.law.times(1 / UNITS)
        if self.ranking:
            summed = answer.part(0)
            couples = isinstance(query.sums[0].over, Couples)
            mean = replace(summed, rows=summed.rows // 2 if couples and summed.rows else summed.rows).mean()
            return Importance(
                features=features, values=mean.values, permuted=None, base=None, loss=self.loss, low=-FALL * cap, cap=cap,
                law=law, weight=1, count=mean.count, noisy_count=mean.noisy_count,
            )  # fmt: skip
        mean = answer.part(1).mean()
        permuted = cap / 2 * (1 + np.array(answer.part(0).integers, dtype=float) / UNITS / max(mean.count, 1.0))
        return Importance(
            features=features, values=permuted - mean.values[0], permuted=permuted, base=float(mean.values[0]), loss=self.loss,
            low=0.0, cap=cap, law=law, weight=BASE_WEIGHT, count=mean.count, noisy_count=mean.noisy_count,
        )  # fmt: skip

    def flow(self) -> Flow:
        flow = Flow("permutation importance").input("records").public("model", "treated as public")
        caps: tuple[str, ...] = ()
        if self._private_cap:
            flow = flow.stage("cap", "records", "model", needs="ranks of losses among public candidates, over pairs")
            caps = ("cap",)
        return flow.stage(
            "losses", "records", "model", *caps, needs="losses up to the cap, beside a count under add-remove"
        ).output("explanation", *caps, "losses", needs="divide, subtract")

    def expected(self, public: Public) -> Expected:
        cap = self._declared_cap
        query = self.query(public, cap)
        share = self.plan(public)["losses"]
        couples = isinstance(query.sums[0].over, Couples)
        half = (1 + FALL) * cap / 2 if self.ranking else cap / 2
        law = public.mechanism(query, share).law.times(half / UNITS / (public.planning_rows // (2 if couples else 1) or 1))
        width = law.half_width(0.95)
        if self.ranking and public.count_needed:
            own, counted = law.pairs(10_000).T
            # The noise of the count acts on how far an importance is from the middle of the clip; most are near zero.
            width = float(np.quantile(np.abs(own + counted * (1 - FALL) / (1 + FALL)), 0.95))
        if not self.ranking:
            own, base = law.pairs(10_000).T
            width = float(np.quantile(np.abs(own - base / BASE_WEIGHT), 0.95))
        labels = tuple(" + ".join(group) for group in self.groups(public.schema))
        notes = []
        if self._private_cap:
            notes.append(
                f"losses will be capped at a privately chosen value; the further it is below {cap:g}, the smaller the errors"
            )
        if public.count_needed:
            notes.append("the count of records is noisy too: errors depend a little on the size of an importance")
        return Expected(labels, np.full(len(labels), width), law.gap(0.95), tuple(notes))

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
