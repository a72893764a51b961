"""Released Shapley values, rankings by them, importances and dependence curves: numbers only, with error bars."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from ...errors import PlanError
from ...mechanisms import NoiseLaw
from ...release.explanation import Explanation, checked_level, frame
from ...release.handing_on import shap_explanation
from ..common import sentences
from ..common.canvas import brief
from ..common.rankings import OrderedFeatures
from ..common.results import AnyCurve
from . import plots as shapley_plots
from .certainty import NoisyCount, level_of_shown, picks_gap, picks_right, values_gap, values_right

DRAWS = 4_000


def _in_order(result: OrderedFeatures) -> pd.DataFrame:
    """A row per feature in the order of the ranking, with its tier."""
    order, tier = result.order, result._tier_of()
    lower, upper = result.interval()
    names = [result.features[i] for i in order]
    return frame(names, result.values[order], lower[order], upper[order], tier=[tier[name] for name in names])


@dataclass(frozen=True, eq=False, kw_only=True)
class ShapValuesResult(OrderedFeatures):
    """What each feature added to one prediction: `.features`, `.values`, `.ranking` and `.tiers()` by size, `.waterfall()`.

    No record is in here.
    """

    kind: ClassVar[str] = "shapley values"
    used: tuple[bool, ...]
    """Per feature, whether it has a part in the model: the values of the others are 0 and not noisy."""
    law: NoiseLaw
    """The noise of a value, over all that were drawn together; with `noisy_count` its last coordinate is that of the count."""
    radius: float
    """What one record counts for at most, around the centre."""
    centre: float
    """How far from 0 the centre of a value can lie, whatever the record asked about."""
    count: float
    """Over how many records: their public number, or a noisy count."""
    noisy_count: bool
    """Whether the count is noisy."""
    label: str = ""
    """The name that was given to the record."""
    estimator: str = ""
    """How the values were computed, in words."""
    base: float | None = None
    """The noisy mean prediction, where the values add up exactly from it to `prediction`."""
    prediction: float | None = None
    """The prediction for the record, where the values add up to it."""
    base_law: NoiseLaw | None = None
    """The noise of the mean prediction."""
    ylabel: str = "Shapley value"
    """What the values are, for pictures."""

    @property
    def scores(self) -> np.ndarray:
        """Sizes: what the ranking and the tiers are about."""
        return np.abs(self.values)

    def errors(self, draws: int = DRAWS) -> np.ndarray:
        """Copies of the errors of all values together, from the public law of the noise."""
        used = np.array(self.used)
        noise = self.law.draws(draws)
        own = noise[:, : used.sum()]
        if self.noisy_count:
            # A mean over a noisy count is wrong in proportion to its distance from the centre, of which only a limit is told.
            far = np.abs(self.values[used]) + self.centre
            own = own - noise[:, [-1]] * far / self.radius
        if self.base_law is not None:
            values, base = self.law.std**2, self.base_law.std**2
            whole = used.sum() * values + base
            excess = own.sum(axis=1) + self.base_law.draws(draws, seed=1)[:, 0]
            own = own - (values / whole * excess[:, None] if whole > 0 else 0.0)
        whole_errors = np.zeros((draws, len(used)))
        whole_errors[:, used] = own
        return whole_errors

    @property
    def counted(self) -> NoisyCount | None:
        """What a noisy count does to the order; None where the number of records is public."""
        return NoisyCount(self.radius, self.centre) if self.noisy_count else None

    @property
    def lost(self) -> bool:
        """Whether the noisy count says nothing: then all values are those of the centre, and no order is known."""
        return self.noisy_count and self.count < 1

    def spread(self, level: float = 0.95) -> float:
        """Signed values further apart than this are in the right order, all pairs at once, with probability `level`."""
        checked_level(level)
        if self.lost:
            return math.inf
        noise = self.law.draws(DRAWS)
        own = noise[:, : sum(self.used)]
        own = own if all(self.used) else np.hstack([own, np.zeros((len(own), 1))])
        return float(np.quantile(np.ptp(own, axis=1) + self._apart(noise), level))

    def _apart(self, noise: np.ndarray) -> np.ndarray | float:
        return 0.0 if self.counted is None else self.counted.apart(noise[:, -1])

    def half_widths(self, level: float = 0.95) -> np.ndarray:
        used, level = np.array(self.used), checked_level(level)
        if self.lost:
            return np.where(used, 2 * (self.radius + self.centre), 0.0)
        if not self.noisy_count and self.base_law is None:
            return np.where(used, self.law.half_width(level), 0.0)
        return np.quantile(np.abs(self.errors()), level, axis=0)

    def interval(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """(lower, upper): each value without noise, by the same estimator, lies inside with probability `level`."""
        half = self.half_widths(level)
        return self.values - half, self.values + half

    def certain_gap(self, level: float = 0.95) -> float:
        """Sizes further apart than this are in the right order, all pairs at once, with probability `level`.

        Noise changes two sizes by at most the sum of the sizes of their noise, so the two largest of these decide. The noise
        of a count scales all values alike; what it moves beyond that comes on top.
        """
        checked_level(level)
        if sum(self.used) < 1 or len(self.used) < 2:
            return 0.0
        if self.lost:
            return math.inf
        noise = self.law.draws(DRAWS)
        sizes = np.abs(self.errors() if self.base_law is not None else np.pad(noise[:, : sum(self.used)], ((0, 0), (0, 1))))
        return float(np.quantile(np.partition(sizes, -2, axis=1)[:, -2:].sum(axis=1) + self._apart(noise), level))

    def thresholded(self, level: float = 0.95, together: bool = False) -> dict[str, float]:
        """The values whose interval does not hold 0, the largest first.

        Computed from noisy values, so it says nothing that was not released: a value that is exactly 0 passes with
        probability 1 − `level` (with `together`, any such value at all does), and a small one may be missing.
        """
        half = np.quantile(np.abs(self.errors()).max(axis=1), checked_level(level)) if together else self.half_widths(level)
        kept = np.abs(self.values) > half
        return {self.features[i]: float(self.values[i]) for i in self.order if kept[i] and self.used[i]}

    def to_frame(self) -> pd.DataFrame:
        """The features by size, with their tiers and error bars."""
        return _in_order(self)

    @property
    def headline(self) -> str:
        lower, upper = sentences.together(self, len(self.features))
        way = {n: "up" if low > 0 else "down" for n, low, high in zip(self.features, lower, upper) if low > 0 or high < 0}
        first, whose = self.tiers()[0], f"the prediction{f' for {self.label}' if self.label else ''}"
        if not way:
            return f"No feature's part in {whose} stands out of the noise"
        if len(first) == 1 and first[0] in way and len(self.features) > 1:
            return sentences.begun(f"{brief(self.naming.name(first[0]))} moves {whose} most: {way[first[0]]}", self, first[0])
        sides = [[self.naming.name(n) for n in self.ranking if way.get(n) == side] for side in ("up", "down")]
        said = [
            f"{sentences.some(names)} {'push' if len(names) > 1 else 'pushes'} it {s}"
            for names, s in zip(sides, ("up", "down"))
            if names
        ]
        lead = next(name for name in self.ranking if name in way and way[name] == ("up" if sides[0] else "down"))
        return sentences.begun(" and ".join(said).replace(" it ", f" {whose} ", 1), self, lead)

    def plot(self, ax: Any = None, record: Mapping[str, Any] | None = None) -> Any:
        """Bars with error bars, the largest on top; a dotted line where the order is sure.

        `record` is the record that was asked about, if you wish to see its values beside the names. It is public to whoever has
        it, drawn, and kept nowhere: results hold no record.
        """
        return shapley_plots.bars(self, ax, record)

    def to_shap(self) -> Any:
        """A `shap.Explanation`, for `shap.plots.waterfall` and `bar`: values with error bars, and no data inside."""
        lower, upper = self.interval()
        base = 0.0 if self.base is None else self.base
        names = [self.naming.name(name) for name in self.features]
        return shap_explanation(self.values, lower, upper, names, base)

    def waterfall(self, ax: Any = None, most: int = 12, record: Mapping[str, Any] | None = None) -> Any:
        """One value after the other, from the mean prediction (or from 0) to the prediction (or to the sum of the values).

        `most` is how many of them are shown one by one; `record` shows the values of the record beside the names, as in `plot`.
        """
        return shapley_plots.waterfall(self, ax, most, record)


@dataclass(frozen=True, eq=False, kw_only=True)
class ShapRankingResult(Explanation):
    """The features that mattered most for one prediction: `.ranking`, the first one first; `.gap`, `.certainty(gap)`."""

    kind: ClassVar[str] = "shapley ranking"
    picked: tuple[str, ...]
    """The features that lead, the first one first."""
    by: str
    """What they are ranked by: "size" or "signed" values."""
    how: str
    """How they were found: "picks", one private choice after the other, or "values", all noisy and sorted."""
    features: tuple[str, ...]
    """All features of the model."""
    candidates: int
    """How many of them have a part in it."""
    picks: int
    """Places that were decided."""
    flip: bool
    """Whether picks are made by permute-and-flip, else by the exponential mechanism."""
    record_rate: float = 0.0
    """The exponent of a pick per record and unit of a mean value."""
    records: int | None = None
    """The public number of records, or the public guess at it; None where nobody told: then nobody knows how sure picks are."""
    guessed: bool = False
    """Whether the number of records is a guess."""
    label: str = ""
    """The name that was given to the record."""
    estimator: str = ""
    """How Shapley values were computed, in words."""
    magnitudes: ShapValuesResult | None = None
    """Released values: of the chosen features after picks, of all features otherwise; None where there are none."""

    @property
    def ranking(self) -> tuple[str, ...]:
        return self.picked

    @property
    def values(self) -> np.ndarray | None:
        """The noisy values in the order of the ranking, where they were released."""
        return None if self.magnitudes is None else self.magnitudes.values[self._places()]

    def _places(self) -> list[int]:
        assert self.magnitudes is not None
        return [self.magnitudes.features.index(name) for name in self.picked]

    @property
    def rate(self) -> float | None:
        """The exponent of a pick per unit of a mean value; None after noisy values, or without a number of records."""
        return None if self.how == "values" or self.records is None else self.record_rate * self.records

    @property
    def gap(self) -> float | None:
        """The lead from which all places are right with 95 %; None where that depends on a number of records nobody told."""
        if self.how == "values":
            assert self.magnitudes is not None
            return math.inf if self.magnitudes.lost else values_gap(*self._sorted(), **self._beside())
        if self.candidates < 2:
            return 0.0
        return None if self.rate is None else picks_gap(self.candidates, self.picks, self.flip) / self.rate

    def _sorted(self) -> tuple[NoiseLaw, int, int, bool]:
        assert self.magnitudes is not None
        return self.magnitudes.law, len(self.features), self.picks, self.by == "signed"

    def _beside(self) -> dict[str, Any]:
        assert self.magnitudes is not None
        return {"idle": len(self.features) - self.candidates, "counted": self.magnitudes.counted}

    def certainty(self, gap: float, records: int | None = None) -> float:
        """The chance (at least) that the whole ranking is right, if each feature leads the next, and the last of them all the
        others, by at least `gap`.

        After private picks it is larger the more records there are. Where their number is secret it is that for the public
        guess, and `records` sets another one: the statement holds if there are at least as many.
        """
        if isinstance(gap, bool) or not isinstance(gap, int | float | np.integer | np.floating) or not gap >= 0:
            raise PlanError(f"gap={gap!r}: give a lead in units of the output, a number from 0 on.")
        if records is not None and (isinstance(records, bool) or not isinstance(records, int | np.integer) or records < 1):
            raise PlanError(f"records={records!r}: give a whole number of records from 1 on.")
        if self.how == "values":
            assert self.magnitudes is not None
            if self.magnitudes.lost:
                return float(len(self.features) < 2)
            return values_right(float(gap), *self._sorted(), **self._beside())
        if self.candidates < 2:
            return 1.0
        known = self.records if records is None or not (self.guessed or self.records is None) else int(records)
        if known is None:
            raise PlanError(
                "the number of records is secret and nobody guessed it, so nothing is known about how sure picks are: open the "
                "session with expected_rows=, or say certainty(gap, records=…) for a number that is certainly reached."
            )
        return picks_right(float(gap), self.record_rate * known, self.candidates, self.picks, self.flip)

    @property
    def text(self) -> str:
        """How sure the ranking is, in words."""
        if self.gap is None:
            return "how sure the places are depends on the number of records, which is secret"
        words = f"right with 95 % where the lead is at least {self.gap:.3g}"
        return words + (f", if there are at least {self.records:,} records" if self.guessed and self.how == "picks" else "")

    @property
    def verdict(self) -> str:
        """How sure the ranking is, in one sentence."""
        return f"{'' if self.gap is None else 'the ranking is '}{self.text}."

    @property
    def notes(self) -> tuple[str, ...]:
        return (*super().notes, self.verdict)

    def __str__(self) -> str:
        return f"{', '.join(f'{place}. {name}' for place, name in enumerate(self.picked, 1))} ({self.text})"

    def tiers(self, level: float = 0.95) -> list[tuple[str, ...]]:
        """The ranking cut where released values leave no doubt: with probability `level` every name of a tier belongs before
        every name of the next. Without values nothing is cut: `.gap` and `.certainty` say what is known."""
        checked_level(level)
        if self.magnitudes is None:
            return [self.picked]
        values = self.magnitudes.values[self._places()]
        scores = values if self.by == "signed" else np.abs(values)
        gap = self.magnitudes.spread(level) if self.by == "signed" else self.magnitudes.certain_gap(level)
        found: list[list[str]] = [[]]
        for i, name in enumerate(self.picked):
            if i and scores[:i].min() - scores[i:].max() > gap:
                found.append([])
            found[-1].append(name)
        return [tuple(tier) for tier in found]

    def interval(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """(lower, upper) of the released values, in the order of the ranking; empty where no values were released.

        Where noisy values were sorted and only the first are shown, bars are longer: noise helped to choose them.
        """
        checked_level(level)
        if self.magnitudes is None:
            return np.empty(0), np.empty(0)
        if self.how == "values":
            level = level_of_shown(level, len(self.picked), self.candidates)
        lower, upper = self.magnitudes.interval(level)
        return lower[self._places()], upper[self._places()]

    def to_frame(self) -> pd.DataFrame:
        """The ranking with its places and tiers; values and error bars where they were released, else NaN."""
        nothing = np.full(len(self.picked), math.nan)
        value, lower, upper = (nothing,) * 3 if self.values is None else (self.values, *self.interval())
        tier = {name: number for number, names in enumerate(self.tiers(), 1) for name in names}
        places = range(1, len(self.picked) + 1)
        return frame(self.picked, value, lower, upper, place=places, tier=[tier[name] for name in self.picked])

    @property
    def headline(self) -> str:
        names = [brief(self.naming.name(name)) for name in self.picked]
        return f"Ranked by their part in the prediction: {', then '.join(names[:3])}{' …' if len(names) > 3 else ''}"

    def plot(self, ax: Any = None, record: Mapping[str, Any] | None = None) -> Any:
        """The ranking from top to bottom: bars with error bars where values are known, names alone otherwise.

        `record` shows the values of the record that was asked about beside the names; it is kept nowhere.
        """
        return shapley_plots.ranking(self, ax, record)


@dataclass(frozen=True, eq=False, kw_only=True)
class ShapImportanceResult(OrderedFeatures):
    """How much features move predictions over all people, the mean size of Shapley values: `.features`, `.values`, `.ranking`."""

    kind: ClassVar[str] = "shapley importance"
    newer: ClassVar[tuple[str, ...]] = ("hidden", "hidden_law")
    used: tuple[bool, ...]
    """Per feature, whether it has a part in the model: the values of the others are 0 and not noisy."""
    law: NoiseLaw
    """The noise of a value, over all that were drawn together, with that of a noisy count."""
    cap: float
    """Where the sizes of a person's values were cut off."""
    norm: str
    """What was cut off there: single sizes ("L∞"), or a person's whole vector, shortened to this length ("L1", "L2")."""
    radius: float
    """What one record can move a value by, before it is divided by the count."""
    offset: float
    """What values are counted from."""
    count: float
    """Over how many records: their public number, or a noisy count."""
    noisy_count: bool
    """Whether the count is noisy."""
    estimator: str = ""
    """How Shapley values were computed, in words."""
    ylabel: str = "mean size of the Shapley value"
    """What the values are, for pictures."""

    hidden: float | None = None
    """How much of any mean size the cap hid at most, with noise; None where there was no look, or nothing to hide."""
    hidden_law: NoiseLaw | None = None
    """The noise of that."""

    def certain_gap(self, level: float = 0.95) -> float:
        # The noise of the count scales all values alike and swaps none; a feature without a part has no noise of its own.
        level, own = checked_level(level), self._own()
        if self.hidden is None or self.hidden_law is None:
            spread = self.law.spread(sum(self.used), level)
            return spread if all(self.used) else max(spread, float(np.quantile(np.abs(own).max(axis=1), level)))
        apart = np.ptp(own if all(self.used) else np.pad(own, ((0, 0), (0, 1))), axis=1)
        unseen = self.hidden - self.hidden_law.draws(DRAWS, seed=1)[:, 0]
        return float(max(np.quantile(apart, level), np.quantile(apart + unseen, level)))

    def _own(self) -> np.ndarray:
        return self.law.draws(DRAWS)[:, : sum(self.used)]

    def interval(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """(lower, upper): each value without noise and without the cap, by the same estimator, lies inside with probability
        `level`. What the cap hides was looked for as far as values go, or up to `.cap` beyond it and as much again is granted."""
        used, level = np.array(self.used), checked_level(level)
        if self.noisy_count and self.count < 1:
            half = np.where(used, 2 * self.cap, 0.0)
            return self.values - half, self.values + half
        if self.hidden is None and not self.noisy_count:
            half = np.where(used, self.law.half_width(level), 0.0)
            return self.values - half, self.values + half
        noise = self.law.some(2, DRAWS)
        errors = noise[:, :1] - noise[:, 1:] * (self.values - self.offset) / self.radius * self.noisy_count
        below = above = np.quantile(np.abs(errors), level, axis=0)
        if self.hidden is not None and self.hidden_law is not None:
            unseen = self.hidden - self.hidden_law.draws(DRAWS, seed=1)[:, :1]
            above = np.maximum(above, np.quantile(unseen - errors, (1 + level) / 2, axis=0))
        return self.values - np.where(used, below, 0.0), self.values + np.where(used, above, 0.0)

    def to_shap(self) -> Any:
        """A `shap.Explanation` of one row, for `shap.plots.bar`: mean sizes with error bars, and no data inside."""
        lower, upper = self.interval()
        return shap_explanation(self.values, lower, upper, [self.naming.name(n) for n in self.features], 0.0)

    @property
    def headline(self) -> str:
        none = "No feature's importance stands out of the noise"
        return sentences.leading(self, "{} moves predictions most", "{} move predictions most", none)

    def to_frame(self) -> pd.DataFrame:
        """The features by importance, with their tiers and error bars."""
        return _in_order(self)


@dataclass(frozen=True, eq=False, kw_only=True)
class ShapDependenceResult(AnyCurve):
    """The mean Shapley value of a feature along its values: `.x`, `.y`, and the noisy `.counts` of people at each.

    Where hardly anybody is, the error band says so.
    """

    kind: ClassVar[str] = "shapley dependence"
    newer: ClassVar[tuple[str, ...]] = ("hidden", "hidden_law", "widest")
    counts: np.ndarray
    """Noisy numbers of people at each value."""
    sum_law: NoiseLaw
    """The noise of a sum of Shapley values over the people of a cell."""
    count_law: NoiseLaw
    """The noise of a count."""
    cap: float
    """Values beyond ± this counted as ± this."""
    edges: tuple[float, ...] = ()
    """The ends of the cells, where they are intervals."""
    estimator: str = ""
    """How Shapley values were computed, in words."""
    ylabel: str = "mean Shapley value"
    """What the values are, for pictures."""

    hidden: np.ndarray | None = None
    """How much the cap hid at most of the sums of all cells together, upward and downward, with noise; None without a look."""
    hidden_law: NoiseLaw | None = None
    """The noise of these."""
    widest: float | None = None
    """The largest possible size of a value; None in results of before."""

    def interval(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """(lower, upper): the mean of each cell without noise and without the cap, by the same estimator, lies inside with
        probability `level`. All that the cap hid may be in any one cell."""
        pairs = self.sum_law.times(1 / self.sum_law.scale).pairs(DRAWS) if self.sum_law.scale else np.zeros((DRAWS, 2))
        noisy = self.count_law.half_width(checked_level(level))
        # The error of the count weighs as much as the true mean, which a noisy mean over few people says little about.
        weight = np.where(self.counts < 3 * noisy, self.cap, np.abs(self.y))
        errors = pairs[:, :1] * self.sum_law.scale - pairs[:, 1:] * self.count_law.scale * weight
        with np.errstate(over="ignore"):
            half = np.quantile(np.abs(errors), level, axis=0) / np.maximum(self.counts, 1e-300)
        # A count within its own noise says nothing about a mean: anything up to the cap is possible.
        unknown = self.counts <= max(noisy, 0.5)
        lower = np.where(unknown, -self.cap, np.maximum(self.y - half, -self.cap))
        upper = np.where(unknown, self.cap, np.minimum(self.y + half, self.cap))
        if self.widest is None or self.widest <= self.cap:
            return lower, upper
        # A cell may hold all that was hidden, of as few people as its count allows for.
        more = np.full((2, len(self.y)), np.inf)
        if self.hidden is not None and self.hidden_law is not None:
            most = self.hidden + self.hidden_law.half_width(level)
            more = np.maximum(most, 0.0)[:, None] / np.maximum(self.counts - noisy, 0.5)
        most_of_one = self.widest - self.cap
        more = np.where(unknown, most_of_one, np.minimum(more, most_of_one))
        return lower - more[1], upper + more[0]

    @property
    def height(self) -> str:
        return f"{self.ylabel} of {self.naming.name(self.feature)}"

    def _under(self) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        places = [i for i, value in enumerate(self.x) if isinstance(value, int | float) and not isinstance(value, bool)]
        if self.categorical or len(places) < 2:
            return None
        x = np.array([self.x[i] for i in places], dtype=float)
        ends = np.array(self.edges) if self.edges else np.concatenate([[x[0]], (x[:-1] + x[1:]) / 2, [x[-1]]])
        return ends[:-1], ends[1:], self.counts[places]

    def to_frame(self) -> pd.DataFrame:
        return super().to_frame().assign(count=self.counts)
