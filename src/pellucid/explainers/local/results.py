"""Released local linear explanations: numbers, where they came from and what they cost. No record asked about is in here."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from ...errors import PlanError
from ...public.frozen import settle
from ...public.groups import Groups
from ...public.schema import did_you_mean
from ...release.certificate import Certificate
from ...release.explanation import Explanation, checked_level, frame
from ..common import sentences
from . import plots as local_plots
from .moments import ONE_SIDED

SOURCES = ("data", "reused", "history")

TINY = 1e-12
"""A gain below this counts as this: noise can make it zero or negative."""

SMALL = 0.25
"""Bars that stay within this part of the ball say something: that there is little to say."""

MOST_TIMES = 1000
"""Beyond so many times as many people, nobody is told that they would do."""

Pair = tuple[str, float]


@dataclass(frozen=True)
class WordList:
    """Words with their values: those that push the output up and those that pull it down, the strongest first.

    >>> print(WordList((("great", 0.21), ("fun", 0.05)), (("awful", -0.34),)))
    pushing up     pulling down
    great  +0.21   awful  -0.34
    fun    +0.05
    """

    pushing_up: tuple[Pair, ...]
    pulling_down: tuple[Pair, ...]

    def __str__(self) -> str:
        left, right = (["pushing up", *_aligned(self.pushing_up)], ["pulling down", *_aligned(self.pulling_down)])
        wide, tall = max(map(len, left)), max(len(left), len(right))
        both = zip(left + [""] * (tall - len(left)), right + [""] * (tall - len(right)))
        return "\n".join(f"{one:<{wide}}   {other}".rstrip() for one, other in both)


@dataclass(frozen=True, eq=False, kw_only=True)
class LocalExplanation(Explanation):
    """A private linear explanation of a model around one record: `.features`, `.values`, `.ranking`, `.words()`, `.heat_map()`.

    `source` says where it came from:

    - "data": computed from the records and paid for;
    - "reused": an earlier answer handed on over a distance; its error bars are those of that answer;
    - "history": fitted to earlier answers without reading records.
    """

    kind: ClassVar[str] = "local linear"
    features: tuple[str, ...]
    """The coordinates: features, or single values of a category."""
    phi: np.ndarray
    """The slopes in scaled units: outputs moved to [-1, 1], features over their whole declared range."""
    std: np.ndarray | None
    """What noise does to each of them, as a standard deviation; None where the method cannot tell."""
    half_range: float
    """What one unit of a scaled output is worth."""
    output: str = "output"
    """The name of the model."""
    source: str = "data"
    """"data", "reused" or "history"."""
    method: str = "one-shot"
    """How it was found."""
    number: int | None = None
    """The number of the answer in its stream, if it was computed from data."""
    rho: float = 0.0
    epsilon: float = 0.0
    """What the question cost: ρ in a zCDP account, and the ε it stands for."""
    excess: float | None = None
    """How far noise is expected to lift the loss above the smallest one, in scaled units."""
    gain: float | None = None
    """What the explanation takes off the loss of saying nothing, in scaled units; where `gain_error` is known, without what noise
    adds to that."""
    drift: float | None = None
    """A bound on what the distance adds to the loss of a reused answer; None where no finite one is known."""
    distance: float | None = None
    """Over which an answer was handed on."""
    leans_on: tuple[int, ...] = ()
    """The numbers of the earlier answers it is made of."""
    neighbourhood: str = ""
    """The weight of the records, in words."""
    centred: bool = False
    """Whether outputs were counted from that of the record itself."""
    steps: int = 0
    """How many noisy gradients were followed."""
    label: str = ""
    """A name by which whoever asked knows the record again."""
    radius: float | None = None
    """How long φ may be."""
    shape: tuple[int, int] | None = None
    """(rows, columns) of the picture that the features make."""
    pull: np.ndarray | None = None
    """How far, at most, curvature below the noise and the ball may hold each φ from where it would be without noise; a part of
    the error bars. None where the method cannot tell, and in results of 0.1.0, whose bars are narrower for that."""
    gain_error: float | None = None
    """The standard deviation of `gain`."""

    def __post_init__(self) -> None:
        settle(self, features=tuple(self.features), leans_on=tuple(int(one) for one in self.leans_on))
        settle(self, phi=self._vector("phi", self.phi))
        if self.std is not None:
            settle(self, std=self._vector("std", self.std))
            if (self.std < 0).any():
                raise PlanError("std holds a negative number; give standard deviations, or None where they are not known.")
        if self.pull is not None:
            settle(self, pull=self._vector("pull", self.pull))
            if (self.pull < 0).any():
                raise PlanError("pull holds a negative number; give distances, or None where they are not known.")
        for name in ("half_range", "rho", "epsilon", "excess", "gain", "gain_error", "drift", "distance"):
            self._number(name)
        if not self.half_range > 0:
            raise PlanError(f"half_range={self.half_range!r}: give half the length of the declared output range, above 0.")
        if self.number is not None and (_no_whole(self.number) or self.number < 0):
            raise PlanError(f"number={self.number!r}: give a whole number; answers are counted from 0 on.")
        self._check_source()
        if self.shape is not None:
            settle(self, shape=self._fitting(self.shape))

    def _vector(self, name: str, given: Any) -> np.ndarray:
        values = np.array(given, dtype=float)
        if not self.features or values.shape != (len(self.features),):
            raise PlanError(
                f"{name} has shape {values.shape} and there are {len(self.features)} features; give one number per feature."
            )
        if not np.isfinite(values).all():
            raise PlanError(f"{name} holds a number that is not finite; give finite numbers only.")
        return values

    def _number(self, name: str) -> None:
        given = getattr(self, name)
        if given is None and name not in ("half_range", "rho", "epsilon"):
            return
        value = math.nan if given is None else float(given)
        if name == "drift" and value == math.inf:
            settle(self, **{name: None})
        elif not math.isfinite(value) or (value < 0 and name != "gain"):
            raise PlanError(f"{name}={given!r}: give a finite number{'' if name == 'gain' else ' from 0 on'}.")
        else:
            settle(self, **{name: value})

    def _check_source(self) -> None:
        if self.source not in SOURCES:
            raise PlanError(f"source={self.source!r}: use one of {', '.join(SOURCES)}.")
        if self.source != "data" and (self.rho or self.epsilon):
            raise PlanError(f"source={self.source!r} reads no records and costs nothing; leave rho and epsilon at 0.")
        if self.source == "reused" and (len(self.leans_on) != 1 or self.distance is None):
            raise PlanError("a reused explanation is one earlier answer; give its number as leans_on=(number,) and the distance.")
        if self.source == "history" and not self.leans_on:
            raise PlanError("an explanation from history leans on earlier answers; give their numbers as leans_on.")

    def _fitting(self, shape: Any) -> tuple[int, int]:
        wanted = f"a pair (rows, columns) of whole numbers whose product is {len(self.features)}, the number of coordinates"
        if not isinstance(shape, tuple | list) or len(shape) != 2:
            raise PlanError(f"shape={shape!r}: give {wanted}.")
        if any(_no_whole(side) or side < 1 for side in shape):
            raise PlanError(f"shape={shape!r}: give {wanted}.")
        if shape[0] * shape[1] != len(self.features):
            raise PlanError(f"shape={shape!r} has room for {shape[0] * shape[1]} values; give {wanted}.")
        return int(shape[0]), int(shape[1])

    def content(self) -> dict[str, Any]:
        unknown = [name for name in ("pull", "gain_error") if getattr(self, name) is None]
        # As it was before bars had these parts.
        return {name: value for name, value in super().content().items() if name not in unknown}

    def certified(self, certificate: Certificate) -> LocalExplanation:
        """With its certificate; a single release, outside a stream, cost what the certificate says."""
        if self.source != "data" or self.number is not None:
            return replace(self, certificate=certificate)
        return replace(self, certificate=certificate, epsilon=certificate.epsilon, rho=certificate.rho or 0.0)

    @property
    def values(self) -> np.ndarray:
        """How much the explanation says that the output changes, around the record, as each feature goes from its lowest to its
        highest declared value; for one value of a category, against the average of that category's values.

        The fitted plane has no constant. Unless it is `centred`, outputs count from the middle of their declared range, so where
        records lie to one side of the one asked about, the height of the output enters its slope.
        """
        return self.phi * self.half_range

    def half_widths(self, level: float = 0.95) -> np.ndarray:
        """The value without noise is at most this far away with probability `level` or more; NaN where that is not known.

        It is the φ of equation (1) from the records as they are, in the ball: what noise does, what the ball and a curvature
        below the noise may hide, and nothing about how well a plane fits the model. Where noise hides everything, bars reach
        over the whole ball.
        """
        z = statistics.NormalDist().inv_cdf((1 + checked_level(level)) / 2)
        if self.std is None:
            return np.full(len(self.phi), np.nan)
        half = z * self.std
        if self.pull is not None:
            half = half + self.pull
            if self.radius is not None:
                half = np.minimum(half, np.abs(self.phi) + self.radius)
        return half * self.half_range

    def interval(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """(lower, upper): each value without noise lies inside with probability `level` or more; NaN where that is not known.

        No value is larger than the radius allows, so no bar reaches beyond it. After reuse the intervals are about the record
        of the earlier answer: what the distance does is not in them.
        """
        half = self.half_widths(level)
        lower, upper = self.values - half, self.values + half
        if self.pull is None or self.radius is None:
            return lower, upper
        most = self.radius * self.half_range
        return np.maximum(lower, np.minimum(-most, self.values)), np.minimum(upper, np.maximum(most, self.values))

    @property
    def told(self) -> bool | None:
        """Whether it is better than saying nothing, with 95 % (the lower end of its gain is above zero); None if not known."""
        if self.gain is None or self.gain_error is None:
            return None
        return self.gain > ONE_SIDED * self.gain_error

    @property
    def order(self) -> list[int]:
        """Positions of the features, the largest value by size first."""
        return [int(i) for i in np.argsort(-np.abs(self.phi), kind="stable")]

    @property
    def ranking(self) -> tuple[str, ...]:
        """The features, the largest value by size first. Noise may have swapped neighbours."""
        return tuple(self.features[i] for i in self.order)

    def top(self, k: int = 5) -> tuple[Pair, ...]:
        """The k largest values by size, as pairs of feature and value."""
        return self._pairs(self.order[: _whole("k", k)])

    def _pairs(self, places: list[int]) -> tuple[Pair, ...]:
        return tuple((self.features[i], float(self.values[i])) for i in places)

    def _sides(self, k: int) -> tuple[list[int], list[int]]:
        most = _whole("k", k)
        values = self.values
        return [i for i in self.order if values[i] > 0][:most], [i for i in self.order if values[i] < 0][:most]

    def words(self, k: int = 10) -> WordList:
        """At most k features that push the output up, and at most k that pull it down: the word list of a bag-of-words model."""
        up, down = self._sides(k)
        return WordList(self._pairs(up), self._pairs(down))

    @property
    def relative_excess(self) -> float | None:
        """The part of what the explanation explains that noise is expected to cost; None where it is not known."""
        return None if self.excess is None or self.gain is None else self.excess / max(self.gain, TINY)

    @property
    def origin(self) -> str:
        """Where it came from and what it cost, in words."""
        if self.source == "reused":
            return f"handed on from answer {self.leans_on[0]} at distance {self.distance:.3g}, free"
        if self.source == "history":
            return f"fitted to {_answers(self.leans_on)}; no records were read, free"
        started = f", starting from {_answers(self.leans_on)}" if self.leans_on else ""
        if not self.epsilon:
            return f"computed from the records, paid for when the stream was opened{started}"
        if not self.rho:
            return f"computed from the records for ε = {self.epsilon:.3g}{started}"
        delta = "the account's δ" if self.certificate is None or not self.certificate.delta else f"δ = {self.certificate.delta:g}"
        return f"computed from the records for ρ = {self.rho:.3g} (ε = {self.epsilon:.3g} at {delta}){started}"

    @property
    def quality(self) -> str:
        """How good it is expected to be, in words."""
        return "; ".join(filter(None, [self._how_good(), self._at_the_limit()]))

    def _at_the_limit(self) -> str:
        if self.radius is None or float(np.linalg.norm(self.phi)) < 0.999 * self.radius:
            return ""
        return f"it is as long as radius={self.radius:g} allows, so values may be too small; a larger radius would tell"

    def _how_good(self) -> str:
        if self.source == "history":
            return "no bound is known on how far it is from the best explanation"
        if self.source == "data":
            return self._noise_words()
        if self.drift is None:
            return f"{self._noise_words()}; no bound is known on what the distance costs"
        added = f"the distance adds at most {self.drift:.3g} per record to the loss of scaled outputs (certified)"
        return f"{self._noise_words()}; {added}"

    def _noise_words(self) -> str:
        if self.told is False:
            return self._within_the_noise()
        if self.excess is None:
            return "what noise costs is not known"
        share = self.relative_excess
        if share is None:
            lost = f"{self.excess:.2g} of the loss of scaled outputs"
        elif share < 1:
            lost = f"{_percent(share)} of what the explanation explains"
        else:
            return "noise is expected to cost as much as the explanation explains, or more: read nothing into it"
        if self.std is not None:
            return f"noise is expected to cost {lost}"
        # After steps the excess is read off the slopes that are left and their noise.
        guide = f"its last slopes leave room for a miss of about {lost} (a guide, no bound)"
        return f"{guide}; answers by steps have no error bars, and whether this one is more than noise is not known"

    def _within_the_noise(self) -> str:
        assert self.gain is not None and self.gain_error is not None
        ends = np.abs(self.interval()) if self.std is not None and self.radius is not None else np.array([np.inf])
        if self.radius is not None and ends.max() < SMALL * self.radius * self.half_range:
            return (
                "within the noise: not told from a model that does not change around this record; "
                f"no value is larger than {ends.max():.2g} (95 %)"
            )
        said = "within the noise: nothing can be told about this record at this price"
        times = ONE_SIDED * self.gain_error / max(self.gain, TINY)
        if times > MOST_TIMES:
            return f"{said}, nor how much more would do; a preview says it for records that are spread evenly"
        more = f"{round_up(times)} times as many people would do, or as many times the ε"
        return f"{said}; if as much as seems to be there is there, {more}"

    def __str__(self) -> str:
        count, half, shown = len(self.features), self.half_widths(0.95), self.order[:5]
        around = f", {self.neighbourhood}" if self.neighbourhood else ""
        errors = ["" if self.std is None else f" ± {half[i]:.2g}" for i in shown]
        lines = [f"  {line}{error}".rstrip() for line, error in zip(_aligned(self._pairs(shown)), errors)]
        if count > 5:
            lines.append(f"  and {count - 5} smaller")
        numbered = "" if self.number is None else f"answer {self.number}, "
        about = f" for {self.label}" if self.label else ""
        if self.told is False:
            lines.insert(0, "within the noise; do not read these numbers as effects")
        return "\n".join(
            [f"local linear explanation of {self.output}{about}{around}", numbered + self.origin, *lines, self.quality]
        )

    def to_frame(self) -> pd.DataFrame:
        """The largest by size first; NaN in place of error bars that are not known."""
        order, (lower, upper) = self.order, self.interval()
        return frame([self.features[i] for i in order], self.values[order], lower[order], upper[order])

    def by_group(self, groups: Mapping[str, Sequence[str]] | None = None) -> pd.DataFrame:
        """How much the output changes at most, around the record, per step of length one in any direction that changes a group
        of features alone: the length of its slopes, with error bars; the largest first.

        Groups are those the explanation was asked with, unless others are given; other features stand by themselves, and all
        values of a category count as one. It is computed from what was released: it costs nothing.
        """
        said = {n: words["members"] for n, words in self.naming.columns.items() if words.get("members")}
        known = Groups.of(said if groups is None else groups)
        bare = [coordinate.partition(" = ")[0] for coordinate in self.features]
        named = {name for some in known.values() for name in some}
        own = [whole if whole in named else first for whole, first in zip(self.features, bare)]
        unknown = [name for some in known.values() for name in some if name not in own]
        if unknown and groups is not None:
            raise PlanError(f"groups: {unknown[0]!r} is not a feature of this explanation{did_you_mean(unknown[0], own)}.")
        players = known.players(own)
        of = np.array(players.of)
        lengths, halves = (np.empty(len(players.names)) for _ in range(2))
        for p in range(len(players.names)):
            mine = of == p
            lengths[p] = np.linalg.norm(self.values[mine])
            # All of its errors at once, so that their length is covered.
            halves[p] = np.linalg.norm(self.half_widths(1 - 0.05 / mine.sum())[mine])
        order = np.argsort(-lengths, kind="stable")
        lower = np.maximum(lengths - halves, 0.0)
        return frame([players.names[i] for i in order], lengths[order], lower[order], (lengths + halves)[order])

    @property
    def headline(self) -> str:
        if self.std is None or self.told is False:
            return "Within the noise: nothing can be told around this record" if self.told is False else ""
        lower, upper = sentences.together(self, len(self.features))
        rises = [self.naming.name(self.features[i]) for i in self.order if lower[i] > 0]
        falls = [self.naming.name(self.features[i]) for i in self.order if upper[i] < 0]
        said = [f"{way} with {sentences.some(names)}" for way, names in (("rises", rises), ("falls", falls)) if names]
        around = f"around {self.label}" if self.label else "around this record"
        return f"{sentences.capital(self.output)} {' and '.join(said)}, {around}" if said else f"No slope is sure {around}"

    def plot(self, ax: Any = None, most: int = 12) -> Any:
        """Signed bars with error bars, the largest on top, at most `most` of them; a heat map where features have a `shape`."""
        if self.shape is not None:
            return self.heat_map(ax)
        return local_plots.bars(self, ax, _whole("most", most))

    def heat_map(self, ax: Any = None, shape: tuple[int, int] | None = None) -> Any:
        """The values as a picture of (rows, columns), row by row; faint where a value lies within its own 95 % error."""
        chosen = self.shape if shape is None else shape
        if chosen is None:
            raise PlanError(
                f"a heat map needs the shape of the picture: say heat_map(shape=(rows, columns)) with a product of "
                f"{len(self.features)}, the number of coordinates."
            )
        return local_plots.heat_map(self, self._fitting(chosen), ax)

    def word_plot(self, ax: Any = None, k: int = 10) -> Any:
        """The word list as a picture: what pulls down on the left, what pushes up on the right."""
        return local_plots.words(self, *self._sides(k), ax)


def _no_whole(given: Any) -> bool:
    return isinstance(given, bool) or not isinstance(given, int | np.integer)


def _whole(name: str, given: Any) -> int:
    if _no_whole(given) or given < 1:
        raise PlanError(f"{name}={given!r}: give a whole number from 1 on.")
    return int(given)


def _aligned(pairs: tuple[Pair, ...]) -> list[str]:
    names, numbers = [name for name, _ in pairs], [f"{value:+.3g}" for _, value in pairs]
    wide, long = max(map(len, names), default=0), max(map(len, numbers), default=0)
    return [f"{name:<{wide}}  {number:<{long}}" for name, number in zip(names, numbers)]


def _answers(numbers: tuple[int, ...]) -> str:
    if len(numbers) == 1:
        return f"answer {numbers[0]}"
    named = ", ".join(map(str, numbers[:6]))
    return f"answers {named}" + (f" and {len(numbers) - 6} others" if len(numbers) > 6 else "")


def round_up(times: float) -> str:
    """Rounded up to two digits."""
    unit = 10.0 ** (math.floor(math.log10(times)) - 1)
    return f"{math.ceil(times / unit - 1e-9) * unit:.3g}"


def _percent(share: float) -> str:
    per = 100 * share
    return "less than 0.01 %" if per < 0.01 else f"{per:.2g} %" if per < 10 else f"{per:.0f} %"
