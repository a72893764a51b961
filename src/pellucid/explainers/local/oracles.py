"""What a method asks, as queries: the moments of a question, gradients of its loss, a place to start. No rows are in scope.

Three ways to the same answers: `MomentsOracle` holds A and b behind the door and reads them as often as there are steps;
`PassOracle` reads all records for every step, where d² products would be too many; `IndividualOracle` asks for A and b once,
under one account per record.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from ...errors import PlanError
from ...mechanisms import NoiseLaw
from ...query import Choice, Joint, Reading, Sum
from ...query.bound import shrink_into_ball
from ...query.bounds import Ball
from ...release.door import IndividualAsk, PaidAsk
from .bound import Moments
from .encoder import Encoder, LocalRows, gradient_of, read_moments
from .methods import NoisyGradient, in_ball
from .moments import NoisyMoments
from .readings import GradientAt, ShortestGradient, ShortestSum
from .weights import Weight


class MomentsOracle:
    """A and b of one record asked about, seen through noise only.

    The records are read once, when the first answer is paid for. Then every step costs O(d²), however many records there are.
    Steps need a zCDP account, and labels that weigh 1/radius: then the gradient limit of the set is that of these steps.
    Claims: local-moments, local-gradient and local-start
    """

    def __init__(self, ask: PaidAsk, asked: Sum, records: Fraction | int, radius: float | None = None):
        bound = asked.bound
        if not isinstance(bound, Moments) or not isinstance(asked.map, LocalRows):
            raise PlanError("MomentsOracle is for the sum of a local explanation; make it with moments_of().")
        self._ask, self._asked, self._bound = ask, ask.hold(asked), bound
        self.records, self.length = Fraction(records), bound.length
        self.label_weight, self._encoder = asked.map.label_weight, asked.map.encoder
        self.radius = 1 / self.label_weight if radius is None else radius
        self.longest = 2 * bound.joint

    def moments(self, stage: str, rho: Fraction) -> NoisyMoments:
        answer = self._ask.total(stage, self._asked, rho)
        return read_moments(answer.integers, self._asked, answer.law, self.records)

    def gradient(self, stage: str, phi: np.ndarray, rho: Fraction) -> NoisyGradient:
        """∇L(φ) = 2(Aφ − b) with noise. φ is moved to a grid inside the ball first; the answer is about that point."""
        self._check_labels()
        asked = self._reading(phi, rho)
        answer = self._ask.total(stage, asked, rho)
        return _noisy_gradient(answer.integers, answer.law, self._worth(self._bits(rho)), self._encoder)

    def start(self, stage: str, candidates: Sequence[np.ndarray], rho: Fraction) -> int:
        """The candidate with a short gradient, by the exponential mechanism: its position."""
        self._check_labels()
        bits = self._bits(rho)
        points = tuple(self._on_grid(phi, bits) for phi in candidates)
        score = ShortestGradient(self._bound, points, bits, self._worth(bits))
        return int(self._ask.choose(stage, Choice(self._asked, score), rho)[0])

    def std_for(self, rho: Fraction) -> float:
        """The noise a gradient would have for this price. No data is read."""
        law = self._ask.mechanism(self._reading(np.zeros(self.length), rho), rho).law
        return law.std * self._worth(self._bits(rho))

    def _reading(self, phi: np.ndarray, rho: Fraction) -> Reading:
        bits = self._bits(rho)
        return Reading(self._asked, GradientAt(self._bound, self._on_grid(phi, bits), bits, self._worth(bits)))

    def _check_labels(self) -> None:
        if not math.isclose(self.radius * self.label_weight, 1.0, rel_tol=1e-9):
            raise PlanError(f"steps in a ball of radius {self.radius:g} need a label weight of {1 / self.radius:g}.")

    def _bits(self, rho: Fraction) -> int:
        """The grid of φ: fine where noise is small, coarse where it is large, so that its scale stays within the sampler's."""
        rows = self._ask.public.rows_per_unit
        return max(6, min(24, 19 + math.floor(math.log2(math.sqrt(2 * float(rho)) / rows))))

    def _on_grid(self, phi: np.ndarray, bits: int) -> tuple[int, ...]:
        # In parts of the radius, so that the ball has 2^bits units whatever the radius is.
        scaled = np.nan_to_num(np.asarray(phi, dtype=float) * self.label_weight, nan=0.0, posinf=1.0, neginf=-1.0)
        whole = np.rint(np.clip(scaled, -1.0, 1.0) * (1 << bits)).astype(np.int64)
        return tuple(int(v) for v in shrink_into_ball(whole[None, :], 1 << (2 * bits))[0])

    def _worth(self, bits: int) -> float:
        """What one unit of the integer gradient is worth: the loss is divided by the public number of records."""
        return 2 / self.label_weight * self._bound.unit / (1 << bits) / float(self.records)


class PassOracle:
    """One record asked about where d² products would be too many: every step reads all records once.

    Each record's part of a gradient is shrunk into a ball whose radius is that of local-gradient, so the noise is the same;
    nothing exact is kept between steps. There is no release of A and b here. Claims: local-gradient and local-start
    """

    def __init__(
        self,
        ask: PaidAsk,
        encoder: Encoder,
        asked: Sequence[float],
        weight: Weight,
        records: Fraction | int,
        radius: float = 1.0,
        level: float | None = None,
    ):
        self._ask, self._encoder, self._weight, self._level = ask, encoder, weight, level
        self._asked = tuple(float(v) for v in asked)
        self.records, self.length, self.radius = Fraction(records), encoder.length, radius
        self.longest = 2 * weight.limits(encoder.farthest_from(self._asked), 1 / radius).joint

    def moments(self, stage: str, rho: Fraction) -> NoisyMoments:
        raise PlanError("with a pass per step A and b are not released; use method='descent'.")

    def gradient(self, stage: str, phi: np.ndarray, rho: Fraction) -> NoisyGradient:
        asked = self._sum(phi)
        answer = self._ask.total(stage, asked, rho, "local-gradient")
        return _noisy_gradient(answer.integers, answer.law, self._worth(asked), self._encoder)

    def start(self, stage: str, candidates: Sequence[np.ndarray], rho: Fraction) -> int:
        """The candidate with a short gradient, by the exponential mechanism: its position. One pass for each."""
        sums = [self._sum(phi) for phi in candidates]
        bound = sums[0].bound
        assert isinstance(bound, Ball)
        return int(self._ask.choose(stage, Choice(Joint(sums), ShortestSum(bound, self._worth(sums[0]))), rho)[0])

    def std_for(self, rho: Fraction) -> float:
        """The noise a gradient would have for this price. No data is read."""
        asked = self._sum(np.zeros(self.length))
        return self._ask.mechanism(asked, rho).law.std * self._worth(asked)

    def _sum(self, phi: np.ndarray) -> Sum:
        kept = in_ball(np.asarray(phi, dtype=float), self.radius).tolist()
        return gradient_of(self._encoder, self._asked, self._weight, kept, self.radius, self._level)

    def _worth(self, asked: Sum) -> float:
        assert isinstance(asked.bound, Ball)
        return 2 * asked.bound.unit / float(self.records)


class IndividualOracle:
    """One record asked about under individual accounting: A and b, once. Claims: local-moments, individual-filter"""

    def __init__(self, ask: IndividualAsk, asked: Sum, records: Fraction | int, radius: float = 1.0):
        bound = asked.bound
        assert isinstance(bound, Moments)
        self._ask, self._asked, self._records = ask, asked, Fraction(records)
        self.length, self.radius, self.longest = bound.length, radius, 2 * bound.joint

    def moments(self, stage: str, rho: Fraction) -> NoisyMoments:
        answer = self._ask.total(stage, self._asked, rho)
        return read_moments(answer.integers, self._asked, answer.law, self._records)

    def gradient(self, stage: str, phi: np.ndarray, rho: Fraction) -> NoisyGradient:
        raise PlanError("individual accounting answers by method='one-shot'.")

    def start(self, stage: str, candidates: Sequence[np.ndarray], rho: Fraction) -> int:
        raise PlanError("individual accounting answers by method='one-shot'.")


def _noisy_gradient(noisy: Sequence[int], law: NoiseLaw, worth: float, encoder: Encoder) -> NoisyGradient:
    values, kept = np.array([v * worth for v in noisy], dtype=float), encoder.projector
    if kept is None:
        return NoisyGradient(values, law.std * worth, len(values))
    return NoisyGradient(kept @ values, law.std * worth, round(float(np.trace(kept))))
