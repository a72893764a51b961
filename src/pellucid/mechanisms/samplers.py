"""Samplers that OpenDP does not have, in exact integer arithmetic: no floating point touches a probability.

`below(k)` is a uniform integer in 0..k-1; everything is built from it.

References: Canonne, Kamath, Steinke, "The discrete Gaussian for differential privacy" (2020), for the coin with
probability exp(-x) and the geometric; Hardt and Talwar, "On the geometry of differential privacy" (2010), for K-norm
noise; McKenna and Sheldon, "Permute-and-flip" (2020).
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

Below = Callable[[int], int]


def coin_exp(top: int, bottom: int, below: Below) -> bool:
    """True with probability exp(-top/bottom), for top >= 0."""
    while top > bottom:
        if not _coin_exp_unit(1, 1, below):
            return False
        top -= bottom
    return _coin_exp_unit(top, bottom, below)


def _coin_exp_unit(top: int, bottom: int, below: Below) -> bool:
    # The alternating series of exp(-x), x <= 1: stop at the first failure of a coin x/k; an odd k means True.
    k = 1
    while below(bottom * k) < top:
        k += 1
    return k % 2 == 1


def geometric(top: int, bottom: int, below: Below) -> int:
    """k >= 0 with probability proportional to exp(-k·top/bottom)."""
    while True:
        remainder = below(bottom)
        if coin_exp(remainder, bottom, below):
            break
    whole = 0
    while _coin_exp_unit(1, 1, below):
        whole += 1
    return (remainder + bottom * whole) // top


def laplace(scale: Fraction, below: Below) -> int:
    """z with probability proportional to exp(-|z|/scale), for scales of any size. Claim: discrete-laplace"""
    while True:
        size = geometric(scale.denominator, scale.numerator, below)
        if below(2):
            return size
        if size:  # zero has one sign only
            return -size


def gaussian(scale: Fraction, below: Below) -> int:
    """z with probability proportional to exp(-z²/(2·scale²)), for scales of any size. Claim: discrete-gaussian"""
    variance, near = scale * scale, int(scale) + 1
    while True:
        z = laplace(Fraction(near), below)
        away = (abs(z) - variance / near) ** 2 / (2 * variance)
        if coin_exp(away.numerator, away.denominator, below):
            return z


def cube(ratio: Fraction, size: int, below: Below) -> list[int]:
    """A lattice point z with probability proportional to exp(-ratio·max|z_i|). Claim: k-norm-lattice"""
    top, bottom = ratio.numerator, ratio.denominator
    while True:
        radius = sum(geometric(top, bottom, below) for _ in range(size + 1))
        chance_top, chance_bottom = (2 * radius + 1) ** size, 1 << size
        for i in range(1, size + 1):
            chance_bottom *= radius + i
        if below(chance_bottom) < chance_top:
            return [below(2 * radius + 1) - radius for _ in range(size)]


def exponential(scores: list[int], rate: Fraction, below: Below) -> int:
    """Index i with probability proportional to exp(rate·scores[i]), by rejection. Claim: exponential-bounded-range"""
    best = max(scores)
    while True:
        i = below(len(scores))
        if coin_exp((best - scores[i]) * rate.numerator, rate.denominator, below):
            return i


def permute_and_flip(scores: list[int], rate: Fraction, below: Below) -> int:
    """Visit the candidates in random order, take each with probability exp(rate·(score - best)). Claim: permute-and-flip"""
    best, left = max(scores), list(range(len(scores)))
    while True:
        position = below(len(left))
        i = left[position]
        if coin_exp((best - scores[i]) * rate.numerator, rate.denominator, below):
            return i
        left[position] = left[-1]
        left.pop()
