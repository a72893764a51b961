"""H of each feature with all others together, from the remainders that its curve leaves to single records."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from ...mechanisms import NoiseLaw
from ...public.model import Model
from ...public.rows import Rows, weighted
from ...query import Choice, Sum
from ...query.bounds import Box, Cells
from ...query.scores import QuantileScore
from ...release.door import Ask
from ...release.explanation import Explanation
from ...release.plan import Expected, Plan, Public, Stage
from ...sensitivity import Flow
from .energies import least_variance, shift_energy
from .results import OverallInteractions
from .rounding import Rounding
from .statistic import DEVIATION, KNOWN, TYPICAL, Layout, MeasuredH, expected_h, grids_of, h_of, noise_in, rounded, rounded_flow

BEYOND = 20
"""Records beyond the cap, for each one the noise of a sum is worth. A cut square loses a part of itself, noise counts whole."""

CAPS = 2.0 ** (np.arange(-8, 41) / 4)
"""Candidates for the largest remainder of a record, as multiples of the mean size of what the feature does."""

CAP_SHARE, REMAINDER_SHARE = Fraction(5, 100), Fraction(35, 100)
"""Of the spend, for the choice of a cap and for squared remainders."""


@dataclass(frozen=True, eq=False)
class OnCurves:
    """Per record: the predictions with each feature set to its values, and the plain one.

    Also the size of what each feature does to the record: how far its prediction is from the mean over the feature's values,
    counted from the lower end of the range.
    """

    model: Model
    features: tuple[Rounding, ...]

    def along(self, rows: Rows) -> list[tuple[np.ndarray, np.ndarray]]:
        """For each feature: predictions at all of its values, and which of them stands for the record."""
        if any(f.cells is not None for f in self.features):
            answers = rows.predict_table(self.model, [f.changes(value) for f in self.features for value in f.values])
        else:
            answers = rows.predict_along(self.model, [(f.name, f.values) for f in self.features])
        tables = np.split(answers, np.cumsum([len(f.values) for f in self.features])[:-1], axis=1)
        return [(table, f.index(rows)) for table, f in zip(tables, self.features)]

    def __call__(self, rows: Rows) -> np.ndarray:
        found = self.along(rows)
        lo = self.model.output[0]
        sizes = [lo + np.abs(_pick(at, index) - weighted(at, r.weights)) for (at, index), r in zip(found, self.features)]
        return np.column_stack([*(at for at, _ in found), rows.predict(self.model), *sizes])


@dataclass(frozen=True, eq=False)
class Remainders(OnCurves):
    """Per record and feature: what a released curve and the mean over the feature's values do not explain.

    `curves` are the mean predictions at the values of each feature, less their weighted mean: what a sum of two effects
    leaves is then zero whatever the weights are.
    """

    curves: tuple[np.ndarray, ...]

    def of(self, rows: Rows) -> np.ndarray:
        found = zip(self.along(rows), self.features, self.curves)
        return np.stack([_pick(at, index) - weighted(at, r.weights) - curve[index] for (at, index), r, curve in found], axis=1)


@dataclass(frozen=True, eq=False)
class LargestRemainder(Remainders):
    """Per record: which candidate cap would just not touch it."""

    sizes: np.ndarray

    def __call__(self, rows: Rows) -> tuple[np.ndarray, None, None]:  # type: ignore[override]
        cell = np.searchsorted(CAPS, (np.abs(self.of(rows)) / self.sizes).max(axis=1), side="left")
        return np.minimum(cell, len(CAPS) - 1)[:, None], None, None


@dataclass(frozen=True, eq=False)
class SquaredRemainders(Remainders):
    """Per record: its squared remainders in units of the cap's square, and its squared deviation from the mean prediction."""

    caps: np.ndarray
    mean: float
    most: float

    def __call__(self, rows: Rows) -> np.ndarray:
        deviation = (rows.predict(self.model) - self.mean) / self.most
        return np.column_stack([(self.of(rows) / self.caps) ** 2, deviation**2])


def _pick(at: np.ndarray, index: np.ndarray) -> np.ndarray:
    return np.take_along_axis(at, index[:, None], axis=1)[:, 0]


@dataclass(frozen=True)
class Details:
    """What the plan settles."""

    layout: Layout
    """Of the curves."""
    squares: Box
    """The set that the squares of one record live in."""
    noise: NoiseLaw
    """The noise of their totals."""
    quantile: Fraction
    """The quantile of largest remainders that the cap is near."""


@dataclass(frozen=True)
class OverallH(MeasuredH):
    """The part of the predictions' variance that is neither an effect of a feature nor one of the others."""

    finest = 8
    share = Fraction(50, 100)

    @property
    def features(self) -> tuple[str, ...]:
        return self.model.features

    def box(self, sizes: dict[str, int], public: Public) -> Box:
        return Box(sum(sizes.values()) + 1 + len(sizes), *self.model.output, count=public.count_needed)

    def plan(self, public: Public) -> Plan:
        layout = self.layout(public)
        squares = Box(len(layout.sizes) + 1, 0.0, 1.0, count=public.count_needed)
        later = Stage("curves", self.share), Stage("cap", CAP_SHARE), Stage("remainders", REMAINDER_SHARE)
        noise = noise_in(squares, public, REMAINDER_SHARE)
        return Plan(public, (self.spread(public), *later), Details(layout, squares, noise, cap_quantile(noise, public)))

    def run(self, ask: Ask) -> Explanation:
        details: Details = ask.plan.details
        columns, (lo, hi) = details.layout.columns, self.model.output
        features, _ = rounded(ask, details.layout)
        curve = ask.total("curves", Sum(OnCurves(self.model, features), details.layout.box, columns=columns)).mean()
        *curves, ends = np.split(curve.values, np.cumsum([len(feature.values) for feature in features]))
        law = curve.law.times(1 / max(curve.count, 1.0))
        # Smaller than the noise no size can be told; half of the range is as good as all of it.
        sizes = np.clip(ends[1:] - lo, min(law.std, 0.5) * (hi - lo) / 2, (hi - lo) / 2)
        known = (self.model, features, tuple(c - c @ feature.weights for c, feature in zip(curves, features)))
        largest = Sum(LargestRemainder(*known, sizes), Cells(len(CAPS)), columns=columns)
        chosen = ask.choose("cap", Choice(largest, QuantileScore(details.quantile)))
        caps = np.minimum(float(CAPS[chosen[0]]) * sizes, hi - lo)
        mean = float(np.clip(ends[0], lo, hi))
        most = max(mean - lo, hi - mean)
        squared = SquaredRemainders(*known, caps, mean, most)
        final = ask.total("remainders", Sum(squared, details.squares, columns=columns)).mean()
        variance = max(float(final.values[-1]) * most**2, least_variance(final.law, final.count, most))
        squares = [
            (cap**2 * v - shift_energy(c, feature.weights, law, (hi - lo) / 2, curve.noisy_count)) / variance
            for cap, v, c, feature in zip(caps, final.values, curves, features)
        ]
        return OverallInteractions(
            features=tuple(details.layout.sizes),
            values=h_of(squares),
            squares=np.array(squares),
            grids=grids_of(features, ask.public.schema),
            weights=np.concatenate([feature.weights for feature in features]),
            curves=curve.values,
            curve_law=curve.law,
            curve_count=curve.count,
            means=final.values,
            mean_law=final.law,
            mean_count=final.count,
            noisy_count=final.noisy_count,
            output=self.model.output,
            caps=caps,
            most=most,
        )

    def expected(self, plan: Plan) -> Expected:
        details: Details = plan.details
        rows = plan.public.planning_rows
        noise, last = details.layout.noise.std / 2 / rows, details.noise.std / 2 / rows
        cells = np.array(list(details.layout.sizes.values()), dtype=float)
        own = 2**0.5 * noise**2 / np.sqrt(cells)
        # A cap of four typical remainders.
        cut = (4 * TYPICAL * DEVIATION) ** 2 * last
        return expected_h(tuple(details.layout.sizes), cells, noise, own**2 + cut**2)

    def flow(self, plan: Plan | None = None) -> Flow:
        return (
            rounded_flow()
            .stage("curves", *KNOWN, needs="answers in the declared range, beside a count under add-remove")
            .stage("cap", *KNOWN, "curves", needs="the span of a quantile score of remainders")
            .stage("remainders", *KNOWN, "curves", "cap", needs="squares cut at the cap of their feature, in [0, 1] of it")
            .output("explanation", "spread", "curves", "cap", "remainders", needs="division, the noise's share taken off")
        )


def cap_quantile(noise: NoiseLaw, public: Public) -> Fraction:
    """The quantile of largest remainders to cap at: what is cut off then weighs about as much as the noise."""
    part = min(max(BEYOND * noise.std / 2 / public.rows_or_default, 1e-6), 0.05)
    return Fraction(1 - part).limit_denominator(10**6)
