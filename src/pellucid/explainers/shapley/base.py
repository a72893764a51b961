"""What the Shapley explainers share: the record asked about, or the people as the records, and advice from public numbers."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from ...errors import PlanError
from ...public.black_box import BlackBox
from ...public.frozen import settle
from ...public.groups import Groups
from ...public.records import kept_record, record_digest
from ...public.rows import Rows
from ...public.schema import Schema
from ...query import Sum
from ...query.bounds import Cells
from ...release.answer import Answer
from ...release.plan import Plan, Public, Stage
from ..common.base import KEPT, OfGroups, keep_whole_number
from ..common.caps import Look, PrivateCap, candidates, is_probability, private_cap
from .background import Background, estimator_against
from .bound import ShapleyVectors
from .certainty import picks_gap, values_gap
from .estimator import NARROWEST, Chosen, Method, estimator_for
from .queries import choosing, counted, picks, picks_rate, values_law
from .results import ShapValuesResult

REFERENCES = (
    "S. M. Lundberg, S.-I. Lee, A unified approach to interpreting model predictions, NeurIPS 2017.",
    "E. Štrumbelj, I. Kononenko, Explaining prediction models and individual predictions with feature contributions, 2014.",
    "Differentially private ranking release for Kernel SHAP (the question; the certificates here are others).",
)
FINE = 0.02
"""The gap, as a part of the output range, that previews speak about: what usually separates the leading features."""

WIDEST = 1e300

_estimators: dict[int, tuple[Any, Groups, Chosen]] = {}
"""The estimator of every explainer that is alive, by its identity, with the model, tried, and the groups that it was chosen for.

Choosing asks the model, and takes some 20 ms for a forest; `Session.cost_for` makes about fifty plans of one explainer. An entry
goes with its explainer, so that no record asked about outlives it, and it holds what was chosen from public things alone: whoever
plans with the same explainer meanwhile finds the same.
"""


def _two_ends(certified: Any) -> tuple[float, float]:
    """A certified output range as two plain numbers."""
    try:
        lo, hi = (float(v) for v in certified if not isinstance(v, str | bytes))
    except (TypeError, ValueError, OverflowError):
        lo, hi = math.nan, math.nan
    if not -math.inf < lo <= hi < math.inf:
        raise PlanError("certified=: give two finite numbers, the lower end first, for example (0.0, 1.0).")
    return lo, hi


@dataclass(frozen=True)
class WithShapley(OfGroups):
    """Base of explainers that compute Shapley vectors of a model."""

    _: KW_ONLY
    method: Method | None = None
    """How vectors are computed: "linear", "trees", "enumeration", "permutations" or "kernel". Left out, exactly for linear
    models, sums of trees and up to ten features, else by public permutations."""
    permutations: int | None = None
    """For "permutations": how many public orders of the features each record is asked along, an even number."""
    samples: int | None = None
    """For "kernel": how many public coalitions the regression is made on."""
    seed: int = 0
    """The public seed of orders and coalitions."""
    certified: Sequence[float] | None = None
    """An output range that certainly holds, for example from `pel.sensitivity.output_range`: then it need not be found again."""

    def __post_init__(self) -> None:
        super().__post_init__()
        keep_whole_number(self, "permutations", 2, 10_000)
        keep_whole_number(self, "samples", 2, 1_000_000)
        if self.seed is None:
            raise PlanError("seed=None: give a whole number from 0 on; it is public.")
        keep_whole_number(self, "seed", 0, 2**32)
        if not NARROWEST < self.model.range < WIDEST:
            raise PlanError(f"the output range {self.model.output} is too wide or too narrow for floats; change its unit.")
        if self.certified is not None:
            settle(self, certified=_two_ends(self.certified))

    def only_asked(self, plan: Plan) -> tuple[BlackBox, ...]:
        chosen, schema = self.chosen(plan.public.schema), plan.public.schema
        if chosen.computed_here(schema):
            return ()
        # What reads terms off a model behind steps calls these steps with people.
        return self.models if chosen.method in ("linear", "trees") else super().only_asked(plan)

    def chosen(self, schema: Schema) -> Chosen:
        """The estimator, by public facts."""
        # By the model as it was tried last: one that was fitted again since is another one.
        ready, groups, known = self.model.ready(schema), self.grouping(schema), _estimators.get(id(self))
        if known is not None and known[0] is ready and known[1] == groups:
            return known[2]
        chosen = self._choose(schema)
        if known is None:
            weakref.finalize(self, _estimators.pop, id(self), None)
        _estimators[id(self)] = (ready, groups, chosen)
        return chosen

    def _choose(self, schema: Schema) -> Chosen:
        raise NotImplementedError

    @property
    def _settings(self) -> dict[str, Any]:
        return {
            "method": self.method,
            "permutations": self.permutations,
            "samples": self.samples,
            "seed": self.seed,
            "certified": self.certified,
        }

    def _described(self) -> dict[str, Any]:
        certified = None if self.certified is None else list(self.certified)
        return {"explainer": type(self).__name__, **self._settings, "certified": certified}


@dataclass(frozen=True)
class AboutRecord(WithShapley):
    """Base of explainers about one record, public or secret.

    With `record`, the session's people are the private background. With `public_background` instead, the session's own
    records are the secret: usually a single one, else the mean over all.
    """

    record: Any = field(default=None, repr=False)
    """The record asked about, by column name: public to whoever asks, compared with the people of the session, stored nowhere."""
    _: KW_ONLY
    public_background: Any = field(default=None, repr=False)
    """Instead of a record: public records, against which the session's own is explained."""
    label: str = ""
    """A name for the record, by which you will know the result again."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.record is None) == (self.public_background is None):
            raise PlanError(
                "give either record= (a public record, explained against the session's people) or public_background= (public "
                "records, against which the session's own record is explained)."
            )
        if self.record is not None:
            settle(self, record=kept_record(self.record))
        else:
            settle(self, public_background=Background.of(self.public_background))
        if not isinstance(self.label, str) or len(self.label) > 200:
            raise PlanError("label=: give a short text by which you will know the record again.")

    def _choose(self, schema: Schema) -> Chosen:
        if self.record is None:
            return estimator_against(self.model, schema, self.public_background, groups=self.grouping(schema), **self._settings)
        return estimator_for(self.model, schema, dict(self.record), groups=self.grouping(schema), **self._settings)

    def about_record(self) -> str:
        """What the certificate says about the record asked about."""
        if self.record is None:
            return "the session's own records are the ones explained: protected as the explanation data; the background is public"
        return f"not protected: it is known to whoever asks, and the release depends on it; {KEPT}"

    def assumptions(self) -> tuple[str, ...]:
        if self.record is None:
            return ("the background records that were given are public",)
        return ("the record asked about is public to whoever asks, or its owner agrees: this guarantee is not about it",)

    def _described(self) -> dict[str, Any]:
        about = (
            {"record": record_digest(self.record)} if self.record is not None else {"background": self.public_background.digest}
        )
        return {**super()._described(), **about, "label": self.label}

    def values_of(
        self,
        answer: Answer,
        chosen: Chosen,
        public: Public,
        few: Sequence[int] | None = None,
        order: Sequence[str] | None = None,
    ) -> ShapValuesResult:
        """Released totals as values: of all features of the model, or of a few; `order` lists what to show."""
        bound = answer.bound
        assert isinstance(bound, ShapleyVectors)
        count = float(answer.numbers[-1]) if bound.count else float(public.planning_rows)
        mean = bound.mean(answer.integers, public.rows)
        names = chosen.features if few is None else tuple(chosen.features[i] for i in few)
        order = chosen.everybody if order is None else order
        return ShapValuesResult(
            features=tuple(order),
            values=np.array([float(mean[names.index(name)]) if name in names else 0.0 for name in order]),
            used=tuple(name in names for name in order),
            law=answer.noise.times(bound.radius / max(count, 1.0)),
            radius=bound.radius,
            centre=chosen.farthest_centre,
            count=count,
            noisy_count=bound.count,
            label=self.label,
            estimator=chosen.why,
        )

    def advice(self, chosen: Chosen, public: Public, values: Stage) -> list[str]:
        """What can be told apart at this price, in which form to ask, and what would be needed for more. No data.

        `values` asks for all values, with the whole spend.
        """
        d, width = len(chosen.features), self.model.range
        one = public.stage("first place", picks(chosen, public, 1, True))
        first = picks_gap(d, 1, choosing(one).flip) / picks_rate(one, public) if d > 1 else 0.0
        law = values_law(values, public)
        whole = values_gap(law, d, d, False, counted=counted(values, chosen)) if d > 1 else law.half_width(0.95)
        said = [
            f"with {public.planning_rows:,} records the feature in first place is right with 95 % if it leads by {first:.3g} "
            f"({first / width:.2g} of the output range); all values are in order with 95 % if neighbours differ by {whole:.3g}"
        ]
        wanted = FINE * width
        if whole <= wanted:
            said.append("take values: at this price even small differences between all features are visible")
        elif first <= wanted:
            said.append(
                "take a ranking, with magnitudes if sizes matter: leaders are sure, small differences further down are not"
            )
        elif first <= 5 * wanted:
            said.append("take a ranking of few features: only clear leaders are sure, and values will mostly be noise")
        else:
            said.append("too noisy: not even a clear leader is sure at this price and number of records")
        if first > wanted:
            said.append(f"for a lead of {FINE:g} of the range: {_needed(public, first / wanted)}")
        if public.rows is None:
            said.append(
                "the number of records is secret: these numbers are for the expected one, and values pay for a noisy count"
            )
        return said


CAPS = candidates(20)
"""Candidate caps, as parts of the largest possible size: down to a millionth."""

LOOK_SHARE = Fraction(1, 5)
"""Of what is left after a private cap, for a look at what it hides."""


@dataclass(frozen=True)
class AboutPeople(WithShapley):
    """Base of explainers of the session's people against a public background, with a cap on sizes."""

    _: KW_ONLY
    public_background: Any = field(default=None, repr=False)
    """A few public records that predictions are compared with: a DataFrame, a dict of columns, a list of records, or one."""
    cap: float | str | None = None
    """A cap on the size of single values; "range" leaves them at their largest possible size. Left out, one is chosen privately
    for a part of the spend, and another part buys a look at what it hides; models of probabilities and few records have none."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.public_background is None:
            raise PlanError("public_background=: give a few public records that predictions are compared with.")
        settle(self, public_background=Background.of(self.public_background))
        cap = self.cap
        number = isinstance(cap, int | float) and not isinstance(cap, bool) and NARROWEST < cap <= self.model.range
        if not (cap is None or (isinstance(cap, str) and cap == "range") or number):
            raise PlanError(
                f"cap={cap!r}: give a number up to {self.model.range:g} (the output range) and not below {NARROWEST:g}, 'range', "
                "or leave it out."
            )

    def _choose(self, schema: Schema) -> Chosen:
        return estimator_against(self.model, schema, self.public_background, groups=self.grouping(schema), **self._settings)

    def assumptions(self) -> tuple[str, ...]:
        return ("the background records that were given are public",)

    @property
    def _private_cap(self) -> bool:
        # The range of a probability is as wide as its answers: a lower cap would hide more than the noise it saves.
        return self.cap is None and not is_probability(self.model.output)

    def cap_choice(self, public: Public, sizes: Callable[[Rows], np.ndarray], top: float, outside: float) -> PrivateCap | None:
        """A private quantile of sizes per record, among candidates up to `top`, with about `outside` records above it."""

        def cells(parts: np.ndarray) -> Sum:
            return Sum(CapCell(sizes, top, tuple(parts)), Cells(len(parts)), columns=self.columns(public.schema))

        return private_cap(public, cells, CAPS, outside, public.rows_or_default) if self._private_cap else None

    def _described(self) -> dict[str, Any]:
        return {**super()._described(), "background": self.public_background.digest, "cap": self.cap}


def hidden_by(beyond: Answer | None, look: Look | None, count: float, side: int = 0) -> dict[str, Any]:
    """What a result says of what its cap hid: at most so much of a mean, and the law of the noise of that."""
    if beyond is None or look is None:
        return {}
    worth, many = look.factor * look.reach, max(count, 1.0)
    # Of a sum of numbers from 0 to 1, centred: half of it for each record, and half a unit of noise.
    found = worth * (1 + float(beyond.numbers[side]) / many) / 2
    return {"hidden": found, "hidden_law": beyond.noise.times(worth / 2 / many)}


@dataclass(frozen=True)
class CapCell:
    """Per record: which candidate cap its size just reaches."""

    sizes: Callable[[Rows], np.ndarray]
    top: float
    parts: tuple[float, ...] = tuple(CAPS)
    """The candidates, as parts of the top."""

    def __call__(self, rows: Rows) -> tuple[np.ndarray, None, None]:
        cell = np.searchsorted(np.array(self.parts) * self.top, self.sizes(rows), side="left")
        return np.minimum(cell, len(self.parts) - 1)[:, None], None, None


def _needed(public: Public, factor: float) -> str:
    """What would make every gap smaller by a factor: that many times the records, or the price."""
    rows = math.ceil(public.planning_rows * factor)
    amount = float(public.spend.amount)
    price = f"ε = {amount * factor:.3g}" if public.spend.currency == "epsilon" else f"ρ = {amount * factor**2:.3g}"
    return f"about {rows:,} records at this price, or {price} with these records"
