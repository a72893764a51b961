"""What a charge buys: the two currencies, their conversions, and sensitivities as exact integers.

Amounts are fractions, never floats, so that ten charges of 0.1 fill a budget of 1 and nothing is lost to rounding.
Where a real number is needed (the (ε, δ) conversions) the result is rounded to the side that costs the user.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any, Literal

from ..errors import PlanError

Currency = Literal["epsilon", "rho"]

RESOLUTION = 10**12
"""Parts that one unit of ε or ρ is counted in. Prices are rounded to them, and a ledger stores whole numbers of them."""


def exact(name: str, value: Any) -> Fraction:
    """The decimal number the user wrote, exactly: 0.1 is one tenth, not the nearest binary fraction.

    >>> exact("epsilon", 0.1)
    Fraction(1, 10)
    """
    if isinstance(value, Fraction):
        return value
    try:
        number = Decimal(repr(float(value)) if not isinstance(value, int | Decimal | str) else str(value))
    except (TypeError, ValueError, InvalidOperation):
        raise PlanError(f"{name}={value!r} is not a number.") from None
    if not number.is_finite():
        raise PlanError(f"{name}={value!r} is not finite; give a positive number.")
    return Fraction(number)


def root_below(square: Fraction) -> Fraction:
    """A fraction just below the square root, to some twenty digits."""
    digits = 10 ** (20 + len(str(square.denominator // max(square.numerator, 1))))
    return Fraction(math.isqrt(int(square * digits * digits)), digits)


@dataclass(frozen=True)
class Spend:
    """An amount of privacy budget in the currency of its account."""

    currency: Currency
    """ε or ρ."""
    amount: Fraction
    """How much of it."""

    def part(self, share: Fraction) -> Spend:
        return Spend(self.currency, self.amount * share)

    @property
    def text(self) -> str:
        return f"{'ε' if self.currency == 'epsilon' else 'ρ'} = {float(self.amount):.6g}"


@dataclass(frozen=True)
class Norms:
    """How far one unit can move a vector of integers, in three norms."""

    l1: int
    """The L1 norm of the change."""
    l2_squared: int
    """The square of its L2 norm, so that it stays whole."""
    linf: int
    """Its L∞ norm."""

    def __add__(self, other: Norms) -> Norms:
        """Two changes to the *same* coordinates, one after the other (triangle inequality)."""
        cross = math.isqrt(4 * self.l2_squared * other.l2_squared)
        cross += cross * cross < 4 * self.l2_squared * other.l2_squared
        return Norms(self.l1 + other.l1, self.l2_squared + other.l2_squared + cross, self.linf + other.linf)

    def beside(self, other: Norms) -> Norms:
        """Changes to *different* coordinates of one vector."""
        return Norms(self.l1 + other.l1, self.l2_squared + other.l2_squared, max(self.linf, other.linf))

    def times(self, k: int) -> Norms:
        return Norms(k * self.l1, k * k * self.l2_squared, k * self.linf)


def _log_delta(rho: float, epsilon: float, alpha: float) -> float:
    # Canonne, Kamath and Steinke (2020), Proposition 12: any α > 1 gives a valid δ.
    return (alpha - 1) * (alpha * rho - epsilon) + alpha * math.log1p(-1 / alpha) - math.log(alpha - 1)


def _best_order(rho: float, epsilon: float) -> float:
    """The α that gives about the smallest δ. Whatever α a search stops at, the δ it gives is valid."""
    # Golden-section search over log(α - 1).
    low, high = -12.0, math.log(max(2.0, 2 * (epsilon + rho) / rho)) + 6
    ratio = (math.sqrt(5) - 1) / 2
    for _ in range(70):
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        if _log_delta(rho, epsilon, 1 + math.exp(left)) < _log_delta(rho, epsilon, 1 + math.exp(right)):
            high = right
        else:
            low = left
    return 1 + math.exp((low + high) / 2)


def _delta_at(rho: float, epsilon: float, order: float) -> float:
    return min(1.0, math.exp(min(0.0, _log_delta(rho, epsilon, order))) * (1 + 1e-9))


def delta_of_rho(rho: float, epsilon: float) -> float:
    """A δ for which ρ-zCDP implies (ε, δ)-DP; never too small. Claim: zcdp-conversion"""
    return _delta_at(rho, epsilon, _best_order(rho, epsilon)) if rho > 0 else 0.0


def _edge(good: Callable[[float], bool], inside: float, outside: float) -> float:
    """The last good number between a good and a bad one, by halving; always a good one itself."""
    for _ in range(70):
        middle = (inside + outside) / 2
        inside, outside = (middle, outside) if good(middle) else (inside, middle)
    return inside


@functools.lru_cache(maxsize=1024)
def rho_of_epsilon_delta(epsilon: Fraction | float, delta: Fraction | float) -> Fraction:
    """The largest ρ (rounded down to 1e-12) whose zCDP guarantee implies (ε, δ)-DP. Claim: zcdp-conversion

    >>> float(rho_of_epsilon_delta(1.0, 1e-6))
    0.024355970357
    """
    eps, target = float(epsilon), float(delta)
    largest = _edge(lambda rho: delta_of_rho(rho, eps) <= target, inside=0.0, outside=eps + 1.0)
    return Fraction(math.floor(largest * RESOLUTION), RESOLUTION)


@functools.lru_cache(maxsize=1024)
def epsilon_of_rho(rho: Fraction | float, delta: Fraction | float) -> float:
    """The smallest ε (rounded up) for which ρ-zCDP implies (ε, δ)-DP. Claim: zcdp-conversion"""
    r, target = float(rho), float(delta)
    if r == 0:
        return 0.0
    enough = r + 2 * math.sqrt(r * math.log(1 / target)) + 1e-9
    return _edge(lambda epsilon: delta_of_rho(r, epsilon) <= target, inside=enough, outside=0.0) * (1 + 1e-12)


def order_of(epsilon: Fraction | float, delta: Fraction | float) -> Fraction:
    """The Rényi order at which an (ε, δ) account counts what is not pure: the best one for zCDP alone, to six digits.

    >>> float(order_of(1.0, 1e-6))
    21.9845
    """
    best = _best_order(float(rho_of_epsilon_delta(epsilon, delta)), float(epsilon)) - 1
    return 1 + Fraction(f"{best:.5e}")


def rho_at_order(epsilon: Fraction | float, delta: Fraction | float, order: Fraction) -> Fraction:
    """The largest ρ (rounded down to 1e-12) for which a Rényi divergence of at most order·ρ at this one order implies (ε, δ)-DP.

    Claim: either-account
    """
    eps, target, alpha = float(epsilon), float(delta), float(order)
    largest = _edge(lambda rho: _delta_at(rho, eps, alpha) <= target, inside=0.0, outside=eps + 1.0)
    return Fraction(math.floor(largest * RESOLUTION), RESOLUTION)


def epsilon_at_order(rho: Fraction | float, delta: Fraction | float, order: Fraction) -> float:
    """The smallest ε (rounded up) that a Rényi divergence of at most order·ρ at this one order implies at δ."""
    r, target, alpha = float(rho), float(delta), float(order)
    if r == 0:
        return 0.0
    enough = alpha * r + math.log(1 / target) / (alpha - 1) + 1e-9
    return _edge(lambda epsilon: _delta_at(r, epsilon, alpha) <= target, inside=enough, outside=0.0) * (1 + 1e-12)


def rho_of_pure(epsilon: Fraction | float, order: Fraction | float) -> float:
    """What a pure ε release costs at a Rényi order, divided by the order; never too small, at most ε²/2. Claim: either-account

    >>> round(rho_of_pure(0.25, 22), 6), round(rho_of_pure(0.01, 22), 9)
    (0.010117, 4.9619e-05)
    """
    eps, alpha = float(epsilon), float(order)
    if alpha * eps > 600:
        return eps / alpha * (1 + 1e-12)
    # log(cosh((α - ½)ε) / cosh(ε/2)), written so that nothing cancels.
    grown = 2 * math.sinh(alpha * eps / 2) * math.sinh((alpha - 1) * eps / 2) / math.cosh(eps / 2)
    return math.log1p(grown) / (alpha - 1) / alpha * (1 + 1e-12)


def epsilon_of_mix(pure: Sequence[float], rho: float, delta: float) -> float:
    """An ε at δ for pure releases beside zCDP ones of ρ in all, at the Rényi order that suits them. Claim: composition"""

    def at(step: float) -> float:
        order = 1 + math.exp(step)
        together = order * (rho + math.fsum(rho_of_pure(epsilon, order) for epsilon in pure))
        return together + (order * math.log1p(-1 / order) - math.log(order - 1) - math.log(delta)) / (order - 1)

    # Every order gives a valid ε; the best one is merely smaller.
    return max(0.0, min(at(step / 50) for step in range(-600, 601)) * (1 + 1e-9))


def to_replace(epsilon: float = 0.0, delta: float = 0.0, rho: float = 0.0) -> dict[str, float]:
    """What an add-remove guarantee implies when one record is *replaced* instead. Claim: relation-conversion

    There is no way back: a guarantee for replacement says nothing about adding a record, since the number of records
    may be published exactly under it.

    >>> to_replace(epsilon=0.5)
    {'epsilon': 1.0, 'delta': 0.0, 'rho': 0.0}
    """
    return {"epsilon": 2 * epsilon, "delta": (1 + math.exp(epsilon)) * delta, "rho": 4 * rho}
