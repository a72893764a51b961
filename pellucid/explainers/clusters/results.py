"""What is released about clusters: chosen attributes, histograms inside and outside, sentences. Released numbers only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from ...mechanisms import NoiseLaw
from ...release.explanation import Explanation, frame
from . import plots


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
        """(lower, upper) of the counts inside the cluster."""
        half = self.inside_law.half_width(level)
        return np.maximum(self.noisy_inside - half, 0.0), np.maximum(self.noisy_inside + half, 0.0)

    def to_frame(self) -> pd.DataFrame:
        """One line per value: `value` counts the people of the cluster who have it, `rest` those elsewhere."""
        more = {"rest": self.rest, "share inside": self.share_inside, "share elsewhere": self.share_rest, **self._beside()}
        return frame(self.feature, self.inside, *self.interval(), x=self.x, cluster=[self.cluster] * len(self.x), **more)

    @property
    def sentence(self) -> str:
        """The largest difference in plain words, and how far noise may have moved the first percentage (about 95 %).

        Which values are named was decided by the same noise, so small clusters can look a little more distinct than they are.
        """
        return sentence(self)

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(f"Cluster {self.cluster}: {note}" for note in super().notes)

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
        """One line per cluster and attribute, which also says how many of the cluster were not counted."""
        histograms = [h for i in range(len(self.clusters)) for h in self._of(i)]
        uncounted = [f" {h.uncounted.sentence}" if h.uncounted else "" for h in histograms]
        return "\n".join(f"Cluster {h.cluster}: {h.sentence}{more}" for h, more in zip(histograms, uncounted))

    def interval(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """(lower, upper) of the counts inside, cluster after cluster."""
        both = [h.interval(level) for i in range(len(self.clusters)) for h in self._of(i)]
        return np.concatenate([b[0] for b in both]), np.concatenate([b[1] for b in both])

    def to_frame(self) -> pd.DataFrame:
        return pd.concat([h.to_frame() for i in range(len(self.clusters)) for h in self._of(i)], ignore_index=True)

    def plot(self, ax: Any = None) -> Any:
        """One panel per cluster and attribute; `ax` may be a sequence of axes. Returns the axes as an array."""
        return plots.clusters([h for i in range(len(self.clusters)) for h in self._of(i)], ax)


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
    """ "95 % have age of at least 50, against 15 % elsewhere": the values that tell the cluster from the rest best."""
    inside, rest = histogram.share_inside, histogram.share_rest
    if not inside.any():
        return f"{histogram.feature}: too few people to say anything above the noise."
    chosen = _run(inside - rest) if histogram.ordered else _few(inside - rest)
    words = _range_words(histogram, chosen) if histogram.ordered else _list_words(histogram, chosen)
    # The share k of m cells have, from the counts before negative ones were cut off; the size in the divisor is noisy too.
    size, k, m = float(histogram.noisy_inside.sum()), len(chosen), len(inside)
    share = float(np.clip(histogram.noisy_inside[chosen].sum() / size, 0, 1)) if size > 0 else float(inside[chosen].sum())
    spread = 1.96 * histogram.inside_law.std * np.sqrt((1 - share) ** 2 * k + share**2 * (m - k)) / max(size, 1.0)
    sure = f" (±{100 * spread:.2g})" if spread < 1 else " (within the noise)"
    return f"{100 * share:.0f} %{sure} have {words}, against {100 * rest[chosen].sum():.0f} % elsewhere."


def _run(gain: np.ndarray) -> np.ndarray:
    """The stretch of neighbouring values with the largest total."""
    best, start, total, begin = (-np.inf, 0, 0), 0, 0.0, 0
    for i, g in enumerate(gain):
        if total <= 0:
            total, begin = 0.0, i
        total += g
        if total > best[0]:
            best, start = (total, begin, i), begin
    return np.arange(start, best[2] + 1)


def _few(gain: np.ndarray, most: int = 3) -> np.ndarray:
    """Up to three values, as long as each adds at least a fifth of what the best one does."""
    order = np.argsort(-gain, kind="stable")[:most]
    return np.array([i for i in order if gain[i] > 0 and gain[i] >= gain[order[0]] / 5] or [int(order[0])])


def _list_words(histogram: ClusterHistogram, chosen: np.ndarray) -> str:
    names = [str(histogram.x[i]) for i in chosen]
    joined = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
    return f"{histogram.feature} = {joined}"


def _range_words(histogram: ClusterHistogram, chosen: np.ndarray) -> str:
    name, x, edges = histogram.feature, histogram.x, histogram.edges
    if "missing" in x and chosen[-1] == len(x) - 1:
        if len(chosen) == 1:
            return f"{name} missing"
        chosen = chosen[:-1]
    first, last, end = int(chosen[0]), int(chosen[-1]), len(x) - 1 - ("missing" in x)
    if edges:
        low, high = edges[first], edges[last + 1]
        if histogram.integer:
            low, high = float(np.ceil(low)), float(np.ceil(high) - 1)
            low_word, high_word = f"{low:.0f}", f"{high:.0f}"
        else:
            low_word, high_word = f"{low:.4g}", f"{high:.4g}"
    else:
        low_word, high_word = str(x[first]), str(x[last])
    if first == last and (not edges or low_word == high_word):
        return f"{name} = {low_word}"
    if last == end and first > 0:
        return f"{name} of at least {low_word}"
    if first == 0 and last < end:
        return f"{name} of at most {high_word}"
    return f"{name} from {low_word} to {high_word}"
