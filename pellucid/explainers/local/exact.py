"""The side that holds exact totals. What leaves it has noise and was paid for; this module is used next to the engine only."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from ...engine import Engine, shielded
from ...errors import PlanError
from ...mechanisms import Currency, Mechanism, Norms, Spend, add_noise, calibrate, calibrate_choice, choose
from ...public.schema import Relation
from ...query.bound import Bound, _ceil_sqrt, shrink_into_ball
from ...query.kinds import Sum, relative_scales, sensitivity
from ...release.door import NOISE_NAMES, Charge
from .bound import Moments
from .design import Design, LocalRows, SlopeRows, read_moments, slope_of
from .methods import NoisyMoments, NoisySlope, in_ball
from .weights import Weight

Pay = Callable[[Charge], None]
"""Makes a charge durable, or refuses it by raising, before anything is read."""

Totals = Callable[[Sum], list[int]]


MOST_HELD = 1 << 27
"""Coordinates held in memory at most: one gigabyte."""


class Neighbourhood:
    """The records in coordinates and the model's answers to them, next to the engine.

    Where they fit into memory they are read once and held, so that the model is asked about each record once, however many
    questions follow; a larger table is read again for every question. Nothing in here may be shown.
    """

    __slots__ = ("_design", "_engine", "_held")

    def __init__(self, engine: Engine, design: Design):
        self._engine, self._design = engine, design
        self._held: list[tuple[np.ndarray, np.ndarray, np.ndarray | None]] | None = None

    @property
    def people(self) -> int:
        """Number of records; secret under add-remove."""
        return self._engine.rows

    def batches(self) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray | None]]:
        """(coordinates, outputs, parts) of all records, in order."""
        self._engine.check_unchanged()
        if self._held is not None:
            yield from self._held
            return
        rows = self._engine.batches(self._design.features)
        read = ((*self._design.read(batch), batch.parts) for batch in rows if len(batch))
        if self.people * self._design.length > MOST_HELD:
            yield from read
        else:
            self._held = list(read)
            yield from self._held

    def totals(self, asked: Sum) -> list[int]:
        """The exact totals of a local sum: the same integers as the engine's."""
        if not isinstance(asked.map, LocalRows | SlopeRows):
            raise AssertionError("a neighbourhood answers local sums only")
        total = [0] * asked.size
        for x, f, parts in self.batches():
            total = [a + b for a, b in zip(total, asked.bound.totals(asked.map.of(x, f), parts))]
        return total

    def __repr__(self) -> str:
        return "Neighbourhood()"

    def __reduce__(self) -> Any:
        raise TypeError("a Neighbourhood holds records and is not saved")


class ExactMoments:
    """The door of one question: exact A and b of one record asked about, seen through noise only.

    The totals are read once, when the first answer is paid for. Then every step costs O(d²), however many records there are.
    Steps need a zCDP account, and labels that weigh 1/radius: then the slope limit of the set is that of these steps.
    Claims: local-moments, local-gradient and local-start
    """

    def __init__(
        self,
        totals: Totals,
        asked: Sum,
        records: Fraction | int,
        relation: Relation,
        pay: Pay,
        radius: float | None = None,
        rows_per_unit: int = 1,
        currency: Currency = "rho",
    ):
        bound = asked.bound
        if not isinstance(bound, Moments) or not isinstance(asked.map, LocalRows):
            raise PlanError("ExactMoments is for the sum of a local explanation; make it with moments_of().")
        self._read, self._asked, self._bound, self._pay = totals, asked, bound, pay
        self._totals: list[int] | None = None
        self._matrix: tuple[np.ndarray, np.ndarray] | None = None
        self.relation, self.rows_per_unit, self.records = relation, rows_per_unit, Fraction(records)
        self.length = bound.length
        self.label_weight, self._design = asked.map.label_weight, asked.map.design
        self.radius = 1 / self.label_weight if radius is None else radius
        self.longest = 2 * bound.joint
        self._currency = currency

    def _exact(self) -> list[int]:
        if self._totals is None:
            self._totals = self._read(self._asked)
        return self._totals

    def moments(self, stage: str, rho: Fraction) -> NoisyMoments:
        mechanism = moments_mechanism(self._asked, self.relation, Spend(self._currency, rho), self.rows_per_unit)
        self._pay(noise_charge(stage, self._bound, self.relation, mechanism, rho, self._bound.scale_text))
        noisy = shielded(lambda: add_noise(self._exact(), mechanism))
        return read_moments(noisy, self._asked, mechanism.law, self.records)

    def slope(self, stage: str, phi: np.ndarray, rho: Fraction) -> NoisySlope:
        """∇L(φ) = 2(Aφ − b) with noise. φ is moved to a grid inside the ball first; the answer is about that point."""
        self._check_labels()
        bits = self._bits(rho)
        whole, mechanism = self._on_grid(phi, bits), self._slope_mechanism(rho, bits)
        worth = f"{self._slope_unit(bits) * (1 << 30):g} in a slope"
        self._pay(noise_charge(stage, self._bound, self.relation, mechanism, rho, worth, "local-gradient"))
        noisy = shielded(lambda: add_noise(self._exact_slope(whole, bits), mechanism))
        return _noisy_slope(noisy, mechanism, self._slope_unit(bits), self._design)

    def start(self, stage: str, candidates: Sequence[np.ndarray], rho: Fraction) -> int:
        """The candidate with a short slope, by the exponential mechanism: its position. Claim: local-start"""
        self._check_labels()
        bits = self._bits(rho)
        points = [self._on_grid(phi, bits) for phi in candidates]
        largest = start_norm(self._bound, self.relation, bits) * self.rows_per_unit
        how = calibrate_choice(2 * largest, largest, Spend("rho", rho))
        self._pay(start_charge(stage, self._bound, how, rho, self._slope_unit(bits)))
        return shielded(lambda: choose([start_score(self._exact_slope(whole, bits)) for whole in points], how)[0])

    def std_for(self, rho: Fraction) -> float:
        """The noise a slope would have for this price. No data is read."""
        bits = self._bits(rho)
        return self._slope_mechanism(rho, bits).law.std * self._slope_unit(bits)

    def _check_labels(self) -> None:
        if not math.isclose(self.radius * self.label_weight, 1.0, rel_tol=1e-9):
            raise PlanError(f"steps in a ball of radius {self.radius:g} need a label weight of {1 / self.radius:g}.")

    def _bits(self, rho: Fraction) -> int:
        """The grid of φ: fine where noise is small, coarse where it is large, so that its scale stays within the sampler's."""
        return max(6, min(24, 19 + math.floor(math.log2(math.sqrt(2 * float(rho)) / self.rows_per_unit))))

    def _on_grid(self, phi: np.ndarray, bits: int) -> list[int]:
        # In parts of the radius, so that the ball has 2^bits units whatever the radius is.
        scaled = np.nan_to_num(np.asarray(phi, dtype=float) * self.label_weight, nan=0.0, posinf=1.0, neginf=-1.0)
        whole = np.rint(np.clip(scaled, -1.0, 1.0) * (1 << bits)).astype(np.int64)
        return [int(v) for v in shrink_into_ball(whole[None, :], 1 << (2 * bits))[0]]

    def _exact_slope(self, whole: list[int], bits: int) -> list[int]:
        if self._matrix is None:
            self._matrix = self._bound.matrix(np.array(self._exact(), dtype=object))
        matrix, vector = self._matrix
        return [int(v) for v in matrix @ np.array(whole, dtype=object) - (1 << bits) * vector]

    def _slope_unit(self, bits: int) -> float:
        """What one unit of the integer slope is worth: the loss is divided by the public number of records."""
        return 2 / self.label_weight * self._bound.unit / (1 << bits) / float(self.records)

    def _slope_mechanism(self, rho: Fraction, bits: int) -> Mechanism:
        norm = self._bound.slope_norm(self.relation, 1 << bits) * self.rows_per_unit
        return calibrate(Norms(norm * (math.isqrt(self.length) + 1), norm * norm, norm), self.length, Spend("rho", rho))

    def __repr__(self) -> str:
        return "ExactMoments()"

    def __reduce__(self) -> Any:
        raise TypeError("ExactMoments holds exact totals and is not saved")


class PassPerStep:
    """The door of one question where d² products would be too many: every step reads all records once.

    Each record's part of a slope is shrunk into a ball whose radius is that of local-gradient, so the noise is the same; nothing
    exact is kept between steps. There is no release of A and b here. Claims: local-gradient and local-start
    """

    def __init__(
        self,
        totals: Totals,
        design: Design,
        asked: Sequence[float],
        weight: Weight,
        records: Fraction | int,
        relation: Relation,
        pay: Pay,
        radius: float = 1.0,
        rows_per_unit: int = 1,
        level: float | None = None,
    ):
        self._read, self._design, self._pay = totals, design, pay
        self._asked, self._weight, self._level = tuple(float(v) for v in asked), weight, level
        self.relation, self.rows_per_unit, self.records = relation, rows_per_unit, Fraction(records)
        self.length, self.radius = design.length, radius
        self.longest = 2 * weight.limits(design.farthest_from(self._asked), 1 / radius).joint

    def moments(self, stage: str, rho: Fraction) -> NoisyMoments:
        raise PlanError("with a pass per step A and b are not released; use method='descent'.")

    def start(self, stage: str, candidates: Sequence[np.ndarray], rho: Fraction) -> int:
        """The candidate with a short slope, by the exponential mechanism: its position. One pass for each. Claim: local-start"""
        sums = [self._slope(phi) for phi in candidates]
        # One unit more for the length rounded down, as in `start_norm`.
        largest = _ceil_sqrt(sensitivity(sums[0], self.relation, self.rows_per_unit).l2_squared) + 1
        how = calibrate_choice(2 * largest, largest, Spend("rho", rho))
        self._pay(start_charge(stage, sums[0].bound, how, rho, 2 * sums[0].bound.unit / float(self.records)))  # type: ignore[attr-defined]
        return shielded(lambda: choose([start_score(self._read(asked)) for asked in sums], how)[0])

    def slope(self, stage: str, phi: np.ndarray, rho: Fraction) -> NoisySlope:
        asked = self._slope(phi)
        mechanism = moments_mechanism(asked, self.relation, Spend("rho", rho), self.rows_per_unit)
        self._pay(noise_charge(stage, asked.bound, self.relation, mechanism, rho, asked.bound.scale_text, "local-gradient"))
        noisy = shielded(lambda: add_noise(self._read(asked), mechanism))
        unit = 2 * asked.bound.unit / float(self.records)  # type: ignore[attr-defined]
        return _noisy_slope(noisy, mechanism, unit, self._design)

    def _slope(self, phi: np.ndarray) -> Sum:
        kept = in_ball(np.asarray(phi, dtype=float), self.radius).tolist()
        return slope_of(self._design, self._asked, self._weight, kept, self.radius, self._level)

    def std_for(self, rho: Fraction) -> float:
        """The noise a slope would have for this price. No data is read."""
        asked = self._slope(np.zeros(self.length))
        mechanism = moments_mechanism(asked, self.relation, Spend("rho", rho), self.rows_per_unit)
        return mechanism.law.std * 2 * asked.bound.unit / float(self.records)  # type: ignore[attr-defined]


def _noisy_slope(noisy: Sequence[int], mechanism: Mechanism, unit: float, design: Design) -> NoisySlope:
    values, kept = np.array([v * unit for v in noisy], dtype=float), design.projector
    if kept is None:
        return NoisySlope(values, mechanism.law.std * unit, len(values))
    return NoisySlope(kept @ values, mechanism.law.std * unit, round(float(np.trace(kept))))


def noise_charge(
    stage: str, bound: Bound, relation: Relation, mechanism: Mechanism, rho: Fraction, worth: str, *claims: str
) -> Charge:
    """A draw of noise as it goes on the certificate."""
    if mechanism.cost > rho:
        raise AssertionError("calibration would cost more than the stage was charged")
    grid = 1 << 30
    return Charge(
        stage,
        NOISE_NAMES[mechanism.kind],
        rho,
        mechanism.norm,
        f"{mechanism.sensitivity / grid:.6g} × 2^30 grid units ({relation})",
        f"scale {float(mechanism.scale) / grid:.6g} × 2^30 grid units over {mechanism.size} coordinates; 2^30 units are {worth}",
        bound.text,
        bound.enforced,
        (bound.claim, *claims, mechanism.claim),
    )


def start_charge(stage: str, bound: Bound, how: Any, rho: Fraction, unit: float) -> Charge:
    """A choice of the start as it goes on the certificate; `unit` is what one unit of a slope is worth."""
    return Charge(
        stage,
        how.name,
        rho,
        "span of the score",
        f"{how.span * unit:.6g} in the length of a slope",
        f"exponent {float(how.rate) / unit:.6g} per length of a slope",
        bound.text,
        False,
        (bound.claim, "local-start", how.claim),
    )


def start_score(slope: Sequence[int]) -> int:
    """Minus the length of an exact slope, rounded down to a whole number of units."""
    return -math.isqrt(sum(v * v for v in slope))


def start_norm(bound: Moments, relation: Relation, bits: int) -> int:
    """How far one unit moves `start_score`: as far as a slope, and one unit more for rounding. Claim: local-start"""
    return bound.slope_norm(relation, 1 << bits) + 1


def moments_mechanism(asked: Sum, relation: Relation, spend: Spend, rows_per_unit: int = 1) -> Mechanism:
    """The noise of one release of A and b."""
    return calibrate(sensitivity(asked, relation, rows_per_unit), asked.size, spend, relative_scales(asked))
