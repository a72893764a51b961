"""What was found, in sentences with their certainty: from released numbers and their error bars alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..explainers.clusters.centres import Centres
from ..explainers.clusters.results import ClusterExplanation, ClusterHistogram
from ..explainers.common.rankings import OrderedFeatures
from ..explainers.common.results import AnyCurve
from ..explainers.interaction.results import RankedInteractions
from ..explainers.local.results import LocalExplanation
from ..explainers.shapley.results import ShapValuesResult
from ..explainers.statistics.results import Counts
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


def found(name: str, result: Explanation, output: str) -> list[Sentence]:
    """What a result says; `output` is what the model predicts, in words."""
    if isinstance(result, Counts):
        return [_of_counts(result)]
    if isinstance(result, AnyCurve):
        return [_of_curve(result, output)]
    if isinstance(result, ShapValuesResult):
        return [_of_decision(result)]
    if isinstance(result, RankedInteractions):
        first = result.ranking[0]
        return [Sentence(f"{first} interacts most with the other features (H of about {number(max(result.values))})", UNKNOWN)]
    if isinstance(result, OrderedFeatures):
        return [_of_order(result, name)]
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


def _of_curve(curve: AnyCurve, output: str) -> Sentence:
    lower, upper = curve.interval()
    high, low = int(np.argmax(curve.y)), int(np.argmin(curve.y))
    sure = SURE if lower[high] > upper[low] else LIKELY
    place = [f"{number(curve.y[i])} at {curve.feature} = {number(curve.x[i])}" for i in (low, high)]
    if curve.categorical:
        return Sentence(f"{output} is lowest, {place[0]}, and highest, {place[1]}", sure)
    first, last = curve.y[0], curve.y[-1]
    most = float(np.ptp(curve.y))
    if most > 0 and abs(last - first) >= 0.7 * most:
        verb = "rises" if last > first else "falls"
        ends = f"from {number(first)} at {number(curve.x[0])} to {number(last)} at {number(curve.x[-1])}"
        told = SURE if max(lower[0], lower[-1]) > min(upper[0], upper[-1]) else LIKELY
        return Sentence(f"{output} {verb} with {curve.feature}, {ends}", told)
    return Sentence(f"{output} is lowest, {place[0]}, and highest, {place[1]}", sure)


def _of_counts(counts: Counts) -> Sentence:
    lower, upper = counts.interval()
    most, shares = int(np.argmax(counts.counts)), counts.shares
    rest = np.delete(upper, most)
    sure = SURE if not len(rest) or lower[most] > rest.max() else LIKELY
    where = f"around {number(counts.x[most])}" if counts.edges else number(counts.x[most])
    return Sentence(f"The commonest {counts.feature} is {where}, with {shares[most]:.0%} of the people", sure)


def _of_order(result: OrderedFeatures, name: str) -> Sentence:
    first = result.tiers()[0]
    lower, upper = result.interval()
    value = {n: (v, (u - lo) / 2) for n, v, lo, u in zip(result.names, result.scores, lower, upper)}
    what = "interact most with the others" if name == "interactions" else "matter most to the predictions"
    if len(result.tiers()) == 1:
        lead = result.ranking[0]
        return Sentence(f"{lead} leads, but noise may have put any feature first", LIKELY)
    told = ", ".join(f"{n} ({number(value[n][0])} ± {number(value[n][1])})" for n in first[:4])
    verb = what if len(first) > 1 else what.replace("interact", "interacts").replace("matter", "matters")
    return Sentence(f"{told} {verb}, before all other features", SURE)


def _of_decision(result: ShapValuesResult) -> Sentence:
    clear = list(result.thresholded().items())[:3]
    if not clear:
        return Sentence("No feature of the decision asked about stands out of the noise", LIKELY)
    parts = ", ".join(f"{name} ({'+' if value > 0 else '−'}{number(abs(value))})" for name, value in clear)
    end = ""
    if result.base is not None and result.prediction is not None:
        end = f", from a mean of {number(result.base)} to a prediction of {number(result.prediction)}"
    return Sentence(f"The decision asked about was moved most by {parts}{end}", SURE)


def _of_slopes(result: LocalExplanation, name: str) -> Sentence:
    (feature, value), *_ = result.top(1)
    verb = "raise" if value > 0 else "lower"
    told = SURE if result.told else LIKELY
    said = f"{name.capitalize()}: around this record a higher {feature} would {verb} the prediction most"
    return Sentence(f"{said}, by {number(abs(value))} over its whole range", told)
