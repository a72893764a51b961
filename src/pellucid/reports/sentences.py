"""What was found, in sentences with their certainty: from released numbers and their error bars alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..explainers.clusters.centres import Centres
from ..explainers.clusters.results import ClusterExplanation, ClusterHistogram
from ..explainers.common.rankings import OrderedFeatures
from ..explainers.common.results import AnyCurve
from ..explainers.interaction.results import MeasuredInteractions, RankedInteractions
from ..explainers.local.results import LocalExplanation
from ..explainers.shapley.results import ShapValuesResult
from ..explainers.statistics.results import Counts
from ..public.figure import value_text
from ..release.explanation import Explanation

SURE, LIKELY, UNKNOWN = "sure", "not sure", "cannot be told"
CERTAINTY = {
    SURE: "holds with 95 %",
    LIKELY: "noise may have made it",
    UNKNOWN: "how sure it is was not released",
}
"""What the marks mean."""


@dataclass(frozen=True)
class Sentence:
    """One thing that was found."""

    text: str
    certainty: str
    """One of `CERTAINTY`."""

    def __str__(self) -> str:
        return f"{self.text} ({self.certainty})"


def number(value: Any) -> str:
    """A number as people write it: whole numbers whole, three digits otherwise.

    >>> number(89000.0), number(0.01234), number(17)
    ('89,000', '0.0123', '17')
    """
    if isinstance(value, str) or value is None or isinstance(value, bool):
        return str(value)
    value = float(value)
    if value == round(value) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return np.format_float_positional(float(f"{value:.3g}"), trim="-")


def found(name: str, result: Explanation) -> list[Sentence]:
    """What a result says."""
    if isinstance(result, Counts):
        return [_of_counts(result)]
    if isinstance(result, AnyCurve):
        return [_of_curve(result)]
    if isinstance(result, ShapValuesResult):
        return [_of_decision(result)]
    if isinstance(result, RankedInteractions):
        first = result.ranking[0]
        return [Sentence(f"{first} interacts most with the other features (H of about {number(max(result.values))})", UNKNOWN)]
    if isinstance(result, OrderedFeatures):
        return [_of_order(result)]
    if isinstance(result, MeasuredInteractions):
        unsure = any(words in result.verdict for words in ("no order", "mostly noise", "cannot be told"))
        return [Sentence(f"Interactions: {result.verdict.rstrip('.')}", LIKELY if unsure else SURE)]
    if isinstance(result, LocalExplanation):
        return [_of_slopes(result, name)]
    if isinstance(result, ClusterExplanation):
        return [
            Sentence(f"Cluster {part.cluster}: {part.sentence.rstrip('.')}", LIKELY if "noise" in part.sentence else SURE)
            for part in result.parts.values()
            if isinstance(part, ClusterHistogram)
        ]
    if isinstance(result, Centres):
        return [Sentence(f"The people fall into {len(result.centres)} groups, found from noisy sums", UNKNOWN)]
    return []


def all_at_once(count: int) -> float:
    """The level of single error bars with which so many hold together with 95 %: places are named after the noise was seen."""
    return 1 - 0.05 / max(count, 1)


def _of_curve(curve: AnyCurve) -> Sentence:
    """What the picture says above the curve, which holds for all its points at once, and how high it is where that shows most."""
    told = curve.headline
    x = [value_text(value) for value in curve.x]
    ends = not curve.categorical and (" rises " in told or " falls " in told) and "then" not in told
    first, last = (0, len(x) - 1) if ends else sorted((int(np.argmin(curve.y)), int(np.argmax(curve.y))))
    name = curve.naming.name(curve.feature)
    heights = " and ".join(f"about {number(curve.y[i])} at {name} = {x[i]}" for i in dict.fromkeys((first, last)))
    return Sentence(f"{told}: {heights}" if told else f"The only height is {heights}", LIKELY if told.startswith("No ") else SURE)


def _of_counts(counts: Counts) -> Sentence:
    lower, upper = counts.interval(all_at_once(len(counts.x)))
    most, shares = int(np.argmax(counts.counts)), counts.shares
    rest = np.delete(upper, most)
    sure = SURE if not len(rest) or lower[most] > rest.max() else LIKELY
    where = f"around {number(counts.x[most])}" if counts.edges else number(counts.x[most])
    return Sentence(f"The commonest {counts.feature} is {where}, with about {shares[most]:.0%} of the people", sure)


def _of_order(result: OrderedFeatures) -> Sentence:
    tiers = result.tiers()
    if len(tiers) == 1:
        return Sentence(f"{result.ranking[0]} leads, but noise may have put any feature first", LIKELY)
    lower, upper = result.interval()
    told = []
    for name in tiers[0][:4]:
        i = result.names.index(name)
        told.append(f"{name} ({number(result.scores[i])}, between {number(lower[i])} and {number(upper[i])})")
    verb = "matter" if len(tiers[0]) > 1 else "matters"
    return Sentence(f"{' and '.join(told)} {verb} most to the predictions, before all other features", SURE)


def _of_decision(result: ShapValuesResult) -> Sentence:
    clear = list(result.thresholded(together=True).items())[:3]
    if not clear:
        return Sentence("No feature of the decision asked about stands out of the noise", LIKELY)
    parts = ", ".join(f"{name} ({'+' if value > 0 else '−'}{number(abs(value))})" for name, value in clear)
    end = ""
    if result.base is not None and result.prediction is not None:
        end = f", from a mean of {number(result.base)} to a prediction of {number(result.prediction)}"
    return Sentence(f"The decision asked about was moved by {parts}{end}", SURE)


def _of_slopes(result: LocalExplanation, name: str) -> Sentence:
    """The sign of the largest slope; that it is the largest is not claimed."""
    first = result.order[0]
    lower, upper = result.interval(all_at_once(len(result.features)))
    feature, value = result.features[first], float(result.values[first])
    verb = "raise" if value > 0 else "lower"
    sure = SURE if lower[first] > 0 or upper[first] < 0 else LIKELY
    said = f"{name.capitalize()}: around this record a higher {feature} would {verb} the prediction"
    return Sentence(f"{said}, by about {number(abs(value))} over its whole range", sure)
