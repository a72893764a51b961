"""What is released about clusters: chosen attributes, histograms inside and outside, sentences. Released numbers only."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from ...mechanisms import NoiseLaw
from ...public.dates import is_dated, like
from ...public.figure import value_text
from ...release.explanation import Explanation, frame
from . import plots
from .telling import Finding, Noisy, best_finding


@dataclass(frozen=True, eq=False, kw_only=True)
class ClusterHistogram(Explanation):
    """One attribute inside one cluster and outside it: `.x`, `.inside` and `.rest` (counts that fit together, none negative)."""

    kind: ClassVar[str] = "cluster histogram"
    cluster: Any
    """The label of the cluster."""
    feature: str
    """The attribute."""
    x: tuple[Any, ...]
    """Its values; of bins, their middles."""
    inside: np.ndarray
    """How many people of the cluster have each value."""
    rest: np.ndarray
    """How many people elsewhere have it."""
    noisy_inside: np.ndarray
    """The released counts of the cluster, before they were reconciled."""
    noisy_whole: np.ndarray
    """The released counts of everybody, before they were reconciled."""
    inside_law: NoiseLaw
    """The noise of `noisy_inside`."""
    whole_law: NoiseLaw
    """The noise of `noisy_whole`."""
    edges: tuple[float, ...] = ()
    """The edges of the bins; none where every value has its own count."""
    ordered: bool = False
    """Whether the values have an order."""
    integer: bool = False
    """Whether they are whole numbers."""

    @property
    def share_inside(self) -> np.ndarray:
        """The part of the cluster that has each value."""
        return _shares(self.inside)

    @property
    def share_rest(self) -> np.ndarray:
        """The part of everybody else that has it."""
        return _shares(self.rest)

    def interval(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """(lower, upper) of the counts inside the cluster: each holds the count without noise with probability `level`."""
        half = self.inside_law.half_width(level)
        lower, upper = np.maximum(self.noisy_inside - half, 0.0), np.maximum(self.noisy_inside + half, 0.0)
        return np.minimum(lower, self.inside), np.maximum(upper, self.inside)

    def share_interval(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """(lower, upper) of `share_inside`: each holds the share without noise with probability `level`. The noise of the size of
        the cluster is taken in."""
        lower, upper = self._inside.each(level)
        return np.minimum(lower, self.share_inside), np.maximum(upper, self.share_inside)

    def rest_interval(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """(lower, upper) of `share_rest`, in the same way."""
        lower, upper = self._elsewhere.each(level)
        return np.minimum(lower, self.share_rest), np.maximum(upper, self.share_rest)

    @property
    def _inside(self) -> Noisy:
        return Noisy(self.noisy_inside, (self.inside_law,))

    @property
    def _elsewhere(self) -> Noisy:
        return Noisy(self.noisy_whole - self.noisy_inside, (self.inside_law, self.whole_law))

    @property
    def people(self) -> tuple[float, float]:
        """How many people with a value the cluster has, and how far the noise may have moved that number (95 %)."""
        return max(self._inside.total, 0.0), self._inside.total_half_width()

    @property
    def finding(self) -> Finding:
        """What tells the cluster from elsewhere, with ranges that hold (together 95 %) although noise helped to choose it."""
        return best_finding(self._inside, self._elsewhere, self.share_inside - self.share_rest, self.ordered)

    def to_frame(self) -> pd.DataFrame:
        """One line per value: `value` counts the people of the cluster who have it, `rest` those elsewhere."""
        more = {"rest": self.rest, "share inside": self.share_inside, "share elsewhere": self.share_rest, **self._beside()}
        return frame(self.feature, self.inside, *self.interval(), x=self.x, cluster=[self.cluster] * len(self.x), **more)

    @property
    def sentence(self) -> str:
        """The largest difference that is certain, in plain words, or that there is none above the noise.

        The ranges behind the percentages hold together in 95 % of releases. Noise has a part in which values are named, and
        the ranges allow for that: they are as wide as the noise of the worst choice.
        """
        return sentence(self)

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(f"Cluster {self.cluster}: {note}" for note in super().notes)

    @property
    def headline(self) -> str:
        return f"Cluster {self.cluster}: {self.sentence}"

    def plot(self, ax: Any = None) -> Any:
        return plots.cluster(self, ax)


@dataclass(frozen=True, eq=False, kw_only=True)
class ClusterExplanation(Explanation):
    """Why clusters are what they are: `.attributes` {cluster: [names]}, `.histograms` {cluster: {name: histogram}}, `.text`."""

    kind: ClassVar[str] = "clusters"
    clusters: tuple[Any, ...]
    """The labels of the clusters."""
    per_cluster: int
    """How many attributes each of them has."""
    parts: dict[str, Explanation]
    """The histograms: "2.0" is that of the third cluster's first attribute."""

    def _of(self, i: int) -> list[ClusterHistogram]:
        return [self.parts[f"{i}.{j}"] for j in range(self.per_cluster)]  # type: ignore[misc]

    @property
    def attributes(self) -> dict[Any, list[str]]:
        return {label: [h.feature for h in self._of(i)] for i, label in enumerate(self.clusters)}

    @property
    def histograms(self) -> dict[Any, dict[str, ClusterHistogram]]:
        return {label: {h.feature: h for h in self._of(i)} for i, label in enumerate(self.clusters)}

    @property
    def sentences(self) -> dict[Any, list[str]]:
        return {label: [h.sentence for h in self._of(i)] for i, label in enumerate(self.clusters)}

    @property
    def text(self) -> str:
        """One line per cluster and attribute, which also says how many of the cluster were not counted; last, the verdict."""
        uncounted = [f" {h.uncounted.sentence}" if h.uncounted else "" for h in self._all]
        lines = [f"Cluster {h.cluster}: {h.sentence}{more}" for h, more in zip(self._all, uncounted)]
        return "\n".join([*lines, self.verdict])

    @property
    def verdict(self) -> str:
        """What can be told of the clusters and what cannot, from the released numbers."""
        told = [label for i, label in enumerate(self.clusters) if any(h.finding.told for h in self._of(i))]
        lost = [label for label in self.clusters if label not in told]
        said = f"{len(told)} of {len(self.clusters)} clusters are told from elsewhere (each sentence holds in 95 % of releases)"
        if lost:
            said += f"; of {_some_of(lost)} nothing certain can be said"
        lowest = np.concatenate([h.interval()[0] for h in self._all])
        half, hidden = self._all[0].inside_law.half_width(), int((lowest <= 0).sum())
        thin = (
            f"{hidden} of the {len(lowest)} counts inside clusters cannot be told from nobody"
            if hidden
            else "all of them stand out"
        )
        return f"{said}. Counts are known to ±{half:,.0f} people: {thin}."

    @property
    def notes(self) -> tuple[str, ...]:
        return (*super().notes, self.verdict)

    @property
    def _all(self) -> list[ClusterHistogram]:
        return [h for i in range(len(self.clusters)) for h in self._of(i)]

    def interval(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """(lower, upper) of the counts inside, cluster after cluster."""
        both = [h.interval(level) for h in self._all]
        return np.concatenate([b[0] for b in both]), np.concatenate([b[1] for b in both])

    def to_frame(self) -> pd.DataFrame:
        return pd.concat([h.to_frame() for h in self._all], ignore_index=True)

    @property
    def headline(self) -> str:
        return self.verdict.split(". ")[0].split(" (each")[0]

    def plot(self, ax: Any = None) -> Any:
        """One panel per cluster and attribute; `ax` may be a sequence of axes. Returns the axes as an array."""
        return plots.clusters(self._all, ax)


def _some_of(labels: list[Any], most: int = 6) -> str:
    """ "clusters 1, 2 and 3", or the first few of many."""
    if len(labels) == 1:
        return f"cluster {labels[0]}"
    if len(labels) > most:
        return f"clusters {', '.join(map(str, labels[:most]))} and {len(labels) - most} more"
    return f"clusters {', '.join(map(str, labels[:-1]))} and {labels[-1]}"


def _shares(counts: np.ndarray) -> np.ndarray:
    total = counts.sum()
    return counts / total if total > 0 else np.zeros(len(counts))


def reconcile(inside: np.ndarray, whole: np.ndarray, weight: float) -> tuple[np.ndarray, np.ndarray]:
    """The nearest counts that fit together: none negative, and the clusters of a value together at most everybody with it.

    `inside` has a row per cluster, `whole` one number per value; `weight` is how much more a unit of error counts in `whole`
    than in `inside` (the ratio of the variances). Least squares, value by value: clusters give up t each until they fit, where
    t·(1/weight) is what `whole` gives way.
    """
    kept = np.maximum(inside, 0.0)
    low = np.zeros(inside.shape[1])
    high = np.maximum(inside.max(axis=0, initial=0.0), 0.0) + np.maximum(-whole, 0.0) * weight + 1.0
    for _ in range(80):
        t = (low + high) / 2
        too_much = np.maximum(inside - t, 0.0).sum(axis=0) > whole + t / weight
        low, high = np.where(too_much, t, low), np.where(too_much, high, t)
    fits = kept.sum(axis=0) <= whole
    t = np.where(fits, 0.0, high)
    counts = np.maximum(inside - t, 0.0)
    return counts, np.maximum(np.where(fits, whole, whole + t / weight), counts.sum(axis=0))


def sentence(histogram: ClusterHistogram) -> str:
    """ "95 % (93–97) have age of at least 50, against 15 % (13–16) elsewhere": the values that tell the cluster from the rest."""
    found, (people, unsure) = histogram.finding, histogram.people
    if people <= unsure:
        return (
            f"{histogram.naming.name(histogram.feature)}: too few people to say anything above the noise; "
            f"about {people:,.0f} were counted, of which the noise may be {unsure:,.0f}."
        )
    if not found.told:
        half = 100 * (found.inside[2] - found.inside[1]) / 2
        return (
            f"{histogram.naming.name(histogram.feature)}: within the noise; shares of this cluster, of about {people:,.0f} "
            f"people (±{unsure:,.0f}), are known to about ±{half:.2g} points, and none is certain to differ from elsewhere."
        )
    words = (_range_words if histogram.ordered else _list_words)(histogram, found.values)
    said = f"{_percent(found.inside)} have {words}, against {_percent(found.elsewhere)} elsewhere."
    return said if unsure < people / 2 else f"{said} The cluster is small: about {people:,.0f} people (±{unsure:,.0f})."


def _percent(share: tuple[float, float, float]) -> str:
    """ "38 % (31–46)": rounded outwards, so that the range printed holds what the range holds."""
    estimate, low, high = (100 * value for value in share)
    return f"{estimate:.0f} % ({math.floor(low)}–{math.ceil(high)})"


def _list_words(histogram: ClusterHistogram, chosen: np.ndarray) -> str:
    names = [str(histogram.x[i]) for i in chosen]
    joined = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
    return f"{histogram.naming.name(histogram.feature)} = {joined}"


def _range_words(histogram: ClusterHistogram, chosen: np.ndarray) -> str:
    name, x, edges = histogram.naming.name(histogram.feature), histogram.x, histogram.edges
    if "missing" in x and chosen[-1] == len(x) - 1:
        if len(chosen) == 1:
            return f"{name} missing"
        chosen = chosen[:-1]
    first, last, end = int(chosen[0]), int(chosen[-1]), len(x) - 1 - ("missing" in x)
    if edges:
        low, high = edges[first], edges[last + 1]
        if is_dated(x):
            low_word, high_word = like(math.ceil(low), x), like(math.ceil(high) - 1, x)
        elif histogram.integer:
            low, high = float(np.ceil(low)), float(np.ceil(high) - 1)
            low_word, high_word = value_text(low), value_text(high)
        else:
            low_word, high_word = value_text(low, 4), value_text(high, 4)
    else:
        low_word, high_word = str(x[first]), str(x[last])
    if first == last and (not edges or low_word == high_word):
        return f"{name} = {low_word}"
    if last == end and first > 0:
        return f"{name} of at least {low_word}"
    if first == 0 and last < end:
        return f"{name} of at most {high_word}"
    return f"{name} from {low_word} to {high_word}"
