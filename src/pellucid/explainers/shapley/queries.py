"""What is asked about Shapley vectors: all values, a few of them, or private picks; and what the noise of the answers means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...mechanisms import Choosing, NoiseLaw
from ...public.rows import Rows
from ...query import Choice, Sum
from ...release.plan import Public, Stage
from .bound import ShapleyVectors
from .certainty import NoisyCount
from .estimator import Chosen
from .scores import ShapleyScore


@dataclass(frozen=True)
class Few:
    """Some coordinates of Shapley vectors."""

    chosen: Chosen
    kept: tuple[int, ...]

    def __call__(self, rows: Rows) -> np.ndarray:
        return self.chosen(rows)[:, list(self.kept)]


def values_sum(chosen: Chosen, public: Public, few: Sequence[int] | None = None) -> Sum:
    """The sum of all Shapley vectors, or of a few of their coordinates."""
    kept = chosen if few is None else Few(chosen, tuple(few))
    return Sum(kept, chosen.bound(count=public.count_needed, few=few), columns=chosen.columns)


def values_law(values: Stage, public: Public) -> NoiseLaw:
    """The noise of a mean Shapley value, known before anything is asked."""
    return values.noise.times(_vectors(values).radius / public.rows_or_default)


def counted(values: Stage, chosen: Chosen) -> NoisyCount | None:
    """What a noisy count does to the order of values; None where the number of records is public."""
    bound = _vectors(values)
    return NoisyCount(bound.radius, chosen.farthest_centre) if bound.count else None


def picks(chosen: Chosen, public: Public, k: int, absolute: bool) -> Choice:
    """Private picks of the k leading features, by size or signed; of all features the last one needs no pick."""
    # Where the number of records is secret, nobody can say how often a centre has to be added back.
    bound = chosen.bound(ranked=True, centred=public.rows is not None or not (absolute or chosen.terms))
    score = ShapleyScore(bound, records=public.rows_or_default, absolute=absolute)
    return Choice(Sum(chosen, bound, columns=chosen.columns), score, min(k, max(1, len(chosen.features) - 1)))


def choosing(picking: Stage) -> Choosing:
    """How picks are made."""
    assert isinstance(picking.how, Choosing)
    return picking.how


def picks_rate(picking: Stage, public: Public) -> float:
    """The exponent of a pick per unit of a mean Shapley value."""
    return float(choosing(picking).rate) * public.rows_or_default / _vectors(picking).unit


def _vectors(stage: Stage) -> ShapleyVectors:
    assert isinstance(stage.query, Sum | Choice) and isinstance(stage.query.bound, ShapleyVectors)
    return stage.query.bound
