"""The public law of the noise that was added: what error bars are computed from, without data and without secrets."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ..errors import PlanError

NoiseKind = Literal["laplace", "gaussian", "k-norm", "none"]


def _special() -> Any:
    """SciPy's special functions: they take longer to load than all of our own files, and only error bars need them."""
    from scipy import special

    return special


@dataclass(frozen=True)
class NoiseLaw:
    """Noise of one joint draw. The lattice is so fine that the continuous law describes it to nine digits.

    >>> round(NoiseLaw("k-norm", 1.0, 20).std, 2)
    12.41
    """

    kind: NoiseKind
    """Its family; "none" for numbers without noise."""
    scale: float
    """Laplace's b, the Gaussian's σ, or for K-norm the Δ/ε of z = r·u with r ~ Gamma(size + 1, scale) and u uniform in the
    cube from -1 to 1."""
    size: int
    """How many coordinates are drawn together."""

    @property
    def std(self) -> float:
        if self.kind == "laplace":
            return math.sqrt(2) * self.scale
        if self.kind == "gaussian":
            return self.scale
        if self.kind == "k-norm":
            return self.scale * math.sqrt((self.size + 1) * (self.size + 2) / 3)
        return 0.0

    def times(self, factor: float) -> NoiseLaw:
        return NoiseLaw(self.kind, self.scale * factor, self.size)

    def half_width(self, level: float = 0.95) -> float:
        """A single coordinate's noise lies within ± this with probability `level`."""
        if not 0 < level < 1:
            raise PlanError(f"level={level!r}: give a probability between 0 and 1, for example 0.95.")
        if self.kind == "laplace":
            return -self.scale * math.log1p(-level)
        if self.kind == "gaussian":
            return self.scale * float(_special().ndtri((1 + level) / 2))
        return self.scale * _cube_quantile(self.size, level) if self.kind == "k-norm" else 0.0

    def gap(self, level: float = 0.95) -> float:
        """Two coordinates further apart than this are in the right order with probability `level`."""
        if self.kind == "gaussian":
            return self.scale * math.sqrt(2) * float(_special().ndtri(level))
        if self.kind == "none" or self.size < 2:
            return 0.0
        return self.scale * _unit_gap(self.kind, self.size, level)

    def draws(self, count: int, seed: int = 0) -> np.ndarray:
        """Independent copies of the noise for error bars. Reproducible, and never added to anything private."""
        rng = np.random.default_rng(seed)
        if self.kind == "laplace":
            return rng.laplace(0, self.scale, (count, self.size))
        if self.kind == "gaussian":
            return rng.normal(0, self.scale, (count, self.size))
        if self.kind == "k-norm":
            return rng.gamma(self.size + 1, self.scale, (count, 1)) * rng.uniform(-1, 1, (count, self.size))
        return np.zeros((count, self.size))

    def pairs(self, count: int, seed: int = 0) -> np.ndarray:
        """Copies of two of the coordinates: enough for the error of a ratio, whatever the number of coordinates."""
        return self.some(2, count, seed)

    def some(self, coordinates: int, count: int, seed: int = 0) -> np.ndarray:
        """Copies of a few of the coordinates."""
        if self.kind != "k-norm":
            return NoiseLaw(self.kind, self.scale, coordinates).draws(count, seed)
        rng = np.random.default_rng(seed)
        return rng.gamma(self.size + 1, self.scale, (count, 1)) * rng.uniform(-1, 1, (count, coordinates))

    def spread(self, coordinates: int, level: float = 0.95) -> float:
        """Among so many coordinates no two differ by more than this through noise, with probability `level`.

        So whatever is further apart is in the right order, all at once: where such a gap cuts a ranking, a tier ends.
        """
        if not 0 < level < 1:
            raise PlanError(f"level={level!r}: give a probability between 0 and 1, for example 0.95.")
        return self.scale * _unit_spread(self.kind, self.size, coordinates, level) if coordinates > 1 else 0.0

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "scale": self.scale, "size": self.size}

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> NoiseLaw:
        return cls(content["kind"], float(content["scale"]), int(content["size"]))


@functools.lru_cache(maxsize=256)
def _cube_quantile(size: int, level: float) -> float:
    # P(|z| > t) = E[max(0, 1 - t/r)] for r ~ Gamma(size + 1), which closes in incomplete gamma functions.
    def beyond(t: float) -> float:
        return float(_special().gammaincc(size + 1, t) - t / size * _special().gammaincc(size, t)) - (1 - level)

    low, high = 0.0, 10.0 * (size + 10) - math.log1p(-level) * 10
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if beyond(middle) > 0 else (low, middle)
    return high


@functools.lru_cache(maxsize=256)
def _unit_spread(kind: NoiseKind, size: int, coordinates: int, level: float) -> float:
    count = max(2_000, min(100_000, 10_000_000 // coordinates))
    return float(np.quantile(np.ptp(NoiseLaw(kind, 1.0, size).some(coordinates, count), axis=1), level))


@functools.lru_cache(maxsize=256)
def _unit_gap(kind: NoiseKind, size: int, level: float) -> float:
    draws = NoiseLaw(kind, 1.0, size).pairs(200_000)
    return float(np.quantile(draws[:, 0] - draws[:, 1], level))
