"""Coins whose probability is exp(-x) times a fraction, tossed exactly: integers that enclose exp(-x), as narrow as it takes."""

from __future__ import annotations

import functools

from ..samplers import Below

GUARD_BITS = 24


@functools.lru_cache(maxsize=64)
def _log2_below(bits: int) -> int:
    """An integer at most 2^bits·ln 2 and within 3 of it, by ln 2 = Σ 1/(k·2^k)."""
    guard = bits + 32
    return (sum((1 << (guard - k)) // k for k in range(1, guard + 1)) >> 32) - 1


def exp_enclosure(top: int, bottom: int, bits: int) -> tuple[int, int, int]:
    """(low, high, shift) with low <= exp(-top/bottom)·2^(bits + shift) <= high, high - low < 4·bits + 80.

    low >= 2^bits; any sign; |top/bottom| < 2^100. exp(-x) = 2^-shift·exp(r) with r = shift·ln 2 - x between 0 and 2·ln 2.
    """
    shift = 1 - ((-top << 128) // (bottom * _log2_below(128)))
    wide = bits + abs(shift).bit_length() + 8
    x, one = (top << wide) // bottom, _log2_below(wide)  # x <= 2^wide·top/bottom < x + 1, one <= 2^wide·ln 2 <= one + 3
    least, most = (shift * one, shift * (one + 3)) if shift >= 0 else (shift * (one + 3), shift * one)
    spare = wide - bits
    low_r, high_r = max((least - x - 1) >> spare, 0), -((x - most) >> spare)
    low = _exp_floor(low_r, bits)
    # Every term loses less than 4 to its floors, and there are fewer than bits + 16; moving r by g moves exp(r) by less than 5g.
    return low, low + 5 * (high_r - low_r) + 4 * bits + 64, shift


def _exp_floor(r: int, bits: int) -> int:
    """The series of exp(r/2^bits)·2^bits, every term rounded down."""
    term = total = 1 << bits
    k = 1
    while term:
        term = (term * r >> bits) // k
        total += term
        k += 1
    return total


def coin(top: int, bottom: int, numerator: int, denominator: int, below: Below, power: int = 0) -> bool:
    """True with probability exp(-top/bottom)·2^power·numerator/denominator, which must be at most 1: bits of a uniform number
    are drawn until they decide against an enclosure of the probability."""
    bits, uniform = 0, 0
    while True:
        bits += 64
        uniform = (uniform << 64) | below(1 << 64)
        low, high, shift = exp_enclosure(top, bottom, bits + GUARD_BITS)
        shift += GUARD_BITS - power  # probability·2^bits lies between low and high, times numerator / (denominator·2^shift)
        if high.bit_length() + numerator.bit_length() - denominator.bit_length() < shift:
            # Below 1, so that only a uniform number of 0 is not decided; shifting by that much could take all memory.
            if uniform:
                return False
            continue
        up, down = numerator << max(-shift, 0), denominator << max(shift, 0)
        if uniform >= -(-high * up // down):
            return False
        floor = low * up // down
        if floor > 1 << bits:
            raise ArithmeticError("a probability above 1 in the draw of an assignment; please report this.")
        if uniform < floor:
            return True
