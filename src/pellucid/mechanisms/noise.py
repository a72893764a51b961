"""Calibrated additive noise for a vector of exact integers, and the choice of the mechanism with the smallest error."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from . import source
from .amounts import Norms, Spend
from .laws import NoiseKind, NoiseLaw


@dataclass(frozen=True)
class Mechanism:
    """One calibrated draw: what kind of noise, at what scale, and what it really costs."""

    kind: NoiseKind
    """The law of the noise."""
    size: int
    """How many coordinates get noise."""
    scale: Fraction
    """Its scale, in units of the integers it is added to."""
    norm: str
    """The norm it was calibrated in, for the certificate."""
    sensitivity: float
    """How far one unit can move the vector in that norm."""
    cost: Fraction
    """What it costs, at most what it was calibrated for."""
    claim: str
    """The claim the cost rests on."""
    relative: tuple[float, ...] = ()
    """The noise scales of the coordinates relative to each other; none where all are the same."""

    @property
    def law(self) -> NoiseLaw:
        return NoiseLaw(self.kind, float(self.scale), self.size)


def calibrate(norms: Norms, size: int, spend: Spend, relative: Sequence[float] = ()) -> Mechanism:
    """The mechanism with the smallest error per coordinate that costs at most `spend`.

    Pure ε: discrete Laplace on the L1 norm or K-norm noise on the L∞ norm. ρ: discrete Gaussian on the L2 norm.
    `relative` are the noise scales of the coordinates relative to each other, for a norm that was computed with them.
    """
    if spend.currency == "rho":
        return _gaussian(norms, size, spend.amount, tuple(relative))
    laplace, k_norm = _laplace(norms, size, spend.amount), _k_norm(norms, size, spend.amount)
    return laplace if laplace.law.std <= k_norm.law.std else k_norm


def _laplace(norms: Norms, size: int, epsilon: Fraction) -> Mechanism:
    scale = _float_at_least(Fraction(norms.l1) / epsilon)
    return Mechanism("laplace", size, scale, "L1", float(norms.l1), Fraction(norms.l1) / scale, "discrete-laplace")


def _k_norm(norms: Norms, size: int, epsilon: Fraction) -> Mechanism:
    return Mechanism("k-norm", size, Fraction(norms.linf) / epsilon, "L∞", float(norms.linf), epsilon, "k-norm-lattice")


def _gaussian(norms: Norms, size: int, rho: Fraction, relative: tuple[float, ...]) -> Mechanism:
    variance = Fraction(norms.l2_squared) / (2 * rho)
    scale = Fraction(math.sqrt(variance))
    while scale * scale < variance:
        scale = Fraction(math.nextafter(float(scale), math.inf))
    cost = Fraction(norms.l2_squared) / (2 * scale * scale)
    return Mechanism("gaussian", size, scale, "L2", math.sqrt(norms.l2_squared), cost, "discrete-gaussian", relative)


def _float_at_least(value: Fraction) -> Fraction:
    """OpenDP takes a float scale: the smallest one that does not under-noise."""
    near = float(value)
    return Fraction(near if Fraction(near) >= value else math.nextafter(near, math.inf))


def add_noise(totals: Sequence[int], mechanism: Mechanism) -> list[int]:
    """Exact totals plus one fresh draw."""
    if len(totals) != mechanism.size:
        raise AssertionError("a mechanism calibrated for another number of coordinates")
    draw = source.current
    if mechanism.kind == "k-norm":
        noise = draw.cube(1 / mechanism.scale, mechanism.size)
    elif mechanism.kind == "laplace":
        noise = draw.laplace(float(mechanism.scale), mechanism.size)
    elif mechanism.relative:
        noise = [0] * mechanism.size
        for factor in sorted(set(mechanism.relative)):
            where = [i for i, f in enumerate(mechanism.relative) if f == factor]
            scale = float(_float_at_least(mechanism.scale * Fraction(factor)))
            for i, value in zip(where, draw.gaussian(scale, len(where))):
                noise[i] = value
    else:
        noise = draw.gaussian(float(mechanism.scale), mechanism.size)
    return [int(total) + int(z) for total, z in zip(totals, noise)]
