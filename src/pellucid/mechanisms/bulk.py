"""The laws of `samplers` for many draws at once, as exact as there: no floating point decides anything.

A probability is known by its binary digits, computed with whole numbers as far as they are needed. A coin compares random bytes
with them, the next byte only where all so far agreed: it has exactly that probability, and costs little more than a byte. The
binary digits of a geometric number are independent coins, and the other laws are made of geometric numbers.

Where every draw has a probability of its own, floats find those that are decided far beyond their rounding errors. The others,
one in a billion, are decided by whole numbers.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

Bits = Callable[[int], bytes]
"""So many random bytes."""

BLOCK = 1 << 17
"""Draws that are made together."""
MARGIN = 2.0**-30
"""How far from its probability a random number must lie, relative to it, to be compared as floats: a million times their
rounding errors."""
LONGEST = 50
"""Binary digits below the last part of a geometric number that is held in 64 bits."""
ROUNDS = 1 << 12
"""After so many, numbers are held without a limit."""


def exp_bounds(x: Fraction, bits: int) -> tuple[int, int]:
    """Whole numbers below and above exp(-x)·2^bits, for x >= 0.

    >>> exp_bounds(Fraction(1), 20)
    (385749, 385750)
    """
    halvings = (2 * x.numerator // x.denominator).bit_length()
    work = bits + 2 * halvings + 16
    top, bottom = x.numerator, x.denominator << halvings
    # Terms of the series are rounded down, each at most two units below its true value; signs alternate.
    term, total, count = 1 << work, 0, 0
    while term:
        total += -term if count % 2 else term
        count += 1
        term = term * top // (bottom * count)
    low, high = max(total - 2 * (count + 1), 0), total + 2 * (count + 1)
    for _ in range(halvings):
        low, high = low * low >> work, (high * high >> work) + 1
    return low >> (work - bits), (high >> (work - bits)) + 1


class Chance:
    """An irrational probability, by its binary digits."""

    def __init__(self, bounds: Callable[[int], tuple[int, int]]):
        self._bounds = bounds
        self._bytes = b""

    @classmethod
    def exp(cls, x: Fraction) -> Chance:
        """exp(-x), irrational for every fraction but 0."""
        return cls(lambda bits: exp_bounds(x, bits))

    @classmethod
    def odds(cls, x: Fraction) -> Chance:
        """exp(-x) to 1."""

        def bounds(bits: int) -> tuple[int, int]:
            (low, high), one = exp_bounds(x, bits), 1 << bits
            return low * one // (one + low), high * one // (one + high) + 1

        return cls(bounds)

    def digits(self, bits: int) -> int:
        """The first so many digits, as a whole number."""
        more = 32
        while True:
            low, high = self._bounds(bits + more)
            if low >> more == high >> more:
                return low >> more
            more *= 2

    def byte(self, place: int) -> int:
        """Eight digits after so many bytes of them."""
        known = self._bytes
        while place >= len(known):
            # Put in place whole: two threads that look at once find the same digits.
            known = self._bytes = self.digits(8 * len(known) + 64).to_bytes(len(known) + 8, "big")
        return known[place]


def coins(chance: Chance, size: int, bits: Bits) -> np.ndarray:
    """So many independent coins of one probability."""
    drawn = np.frombuffer(bits(size), dtype=np.uint8)
    heads, left, place = drawn < chance.byte(0), np.flatnonzero(drawn == chance.byte(0)), 1
    while len(left):
        drawn = np.frombuffer(bits(len(left)), dtype=np.uint8)
        heads[left] = drawn < chance.byte(place)
        left, place = left[drawn == chance.byte(place)], place + 1
    return heads


def geometric(rate: Fraction, size: int, bits: Bits) -> np.ndarray:
    """k >= 0 with probability proportional to exp(-k·rate)."""
    digits, beyond = _digits_of(rate)
    found = np.zeros(size, dtype=np.int64 if len(digits) <= LONGEST else object)
    for start in range(0, len(digits), 8):
        byte = np.zeros(size, dtype=np.uint8)
        for place, chance in enumerate(digits[start : start + 8]):
            byte |= coins(chance, size, bits).view(np.uint8) << np.uint8(place)
        found += byte.astype(found.dtype) << start
    left, rounds = np.arange(size), 0
    while len(left := left[coins(beyond, len(left), bits)]):
        rounds += 1
        if rounds == ROUNDS:
            found = found.astype(object)
        found[left] += 1 << len(digits)
    return found


@functools.lru_cache(maxsize=256)
def _digits_of(rate: Fraction) -> tuple[list[Chance], Chance]:
    """The chances of the lower binary digits of a geometric number, and of one more of what lies above them."""
    places = max(0, math.ceil(1 / rate) - 1).bit_length()
    return [Chance.odds(rate * (1 << place)) for place in range(places)], Chance.exp(rate * (1 << places))


def laplace(scale: Fraction, size: int, bits: Bits) -> list[int]:
    """z with probability proportional to exp(-|z|/scale). Claim: discrete-laplace"""
    return _in_blocks(lambda count: _laplace(scale, count, bits), size)


def _laplace(scale: Fraction, size: int, bits: Bits) -> np.ndarray:
    found = geometric(1 / scale, size, bits)
    negative = np.frombuffer(bits(size), dtype=np.uint8) < 128
    again = np.flatnonzero(negative & (found == 0))  # zero has one sign only
    found[negative] *= -1
    if len(again):
        found[again] = _laplace(scale, len(again), bits)
    return found


def gaussian(scale: Fraction, size: int, bits: Bits) -> list[int]:
    """z with probability proportional to exp(-z²/(2·scale²)). Claim: discrete-gaussian"""
    return _in_blocks(lambda count: _gaussian(scale, count, bits), size)


def _gaussian(scale: Fraction, size: int, bits: Bits) -> np.ndarray:
    """As many as are kept of somewhat more than so many proposals."""
    variance, near = scale * scale, int(scale) + 1
    proposed = _laplace(Fraction(near), size + size // 2 + 16, bits)
    away = (np.abs(proposed).astype(float) - float(variance / near)) / float(scale)

    def exactly(i: int) -> Chance | None:
        x = (abs(int(proposed[i])) - variance / near) ** 2 / (2 * variance)
        return Chance.exp(x) if x else None

    return proposed[own_coins(np.exp(-away * away / 2), exactly, bits)][:size]


def own_coins(near: np.ndarray, exactly: Callable[[int], Chance | None], bits: Bits) -> np.ndarray:
    """Coins of which each has a probability of its own: nearly, as floats, and exactly where that decides; None is 1."""
    drawn = np.frombuffer(bits(8 * len(near)), dtype=np.uint64)
    at, unit = drawn * 2.0**-64, 2.0**-62
    heads = at + unit < near * (1 - MARGIN)
    for i in np.flatnonzero(~heads & (at - unit <= near * (1 + MARGIN))):
        heads[i] = _below(int(drawn[i]), exactly(int(i)), bits)
    return heads


def _below(drawn: int, chance: Chance | None, bits: Bits) -> bool:
    """Whether a uniform number that begins with these 64 binary digits lies below a probability."""
    if chance is None:
        return True
    places = 64
    while drawn == (digits := chance.digits(places)):
        drawn, places = drawn << 64 | int.from_bytes(bits(8), "big"), places + 64
    return drawn < digits


def cube(ratio: Fraction, size: int, bits: Bits) -> list[int]:
    """A lattice point z with probability proportional to exp(-ratio·max|z_i|). Claim: k-norm-lattice"""
    while True:
        radius = sum(geometric(ratio, size + 1, bits).tolist())
        if _kept(radius, size, bits):
            return [value - radius for value in uniform(2 * radius + 1, size, bits)]


def _kept(radius: int, size: int, bits: Bits) -> bool:
    """Whether a radius is taken: a chance that is the product of as many factors as there are coordinates, none above 1."""

    def digits(places: int) -> tuple[int, int]:
        top = (2 * radius + 1) ** size << places
        bottom = math.prod(range(radius + 1, radius + size + 1)) << size
        return top // bottom, top // bottom

    near = np.log1p(-(np.arange(size) + 0.5) / (radius + np.arange(1.0, size + 1))).sum()
    return bool(own_coins(np.exp([near]), lambda _: Chance(digits), bits)[0])


def uniform(below: int, size: int, bits: Bits) -> list[int]:
    """Whole numbers from 0 to below - 1, each as likely as any other."""
    width = (below - 1).bit_length()
    words = -(-width // 64)
    found: list[int] = []
    while len(found) < size:
        drawn = np.frombuffer(bits(8 * max(words, 1) * (size - len(found))), dtype=np.uint64)
        if words <= 1:
            drawn = drawn >> np.uint64(64 - width) if width else np.zeros_like(drawn)
            found += drawn[drawn < below].tolist()
            continue
        whole = [int.from_bytes(word.tobytes(), "big") >> 64 * words - width for word in drawn.reshape(-1, words)]
        found += [value for value in whole if value < below]
    return found


def _in_blocks(draw: Callable[[int], np.ndarray], size: int) -> list[int]:
    found: list[int] = []
    while len(found) < size:
        found += draw(min(BLOCK, size - len(found))).tolist()
    return found
