"""Where randomness comes from. Production has one source: the operating system, through OpenDP and `secrets`.

There is no seed and no switch. Tests replace `current` by a source of their own; such a source says `private = False`,
the session reads that, and whatever was drawn from it is certified `not private`.
"""

from __future__ import annotations

import functools
import secrets
from collections.abc import Callable
from fractions import Fraction
from typing import Protocol

from ..errors import MissingExtra
from . import bulk, samplers
from .assignment import Assignment, AssignmentScores, Candidates, draw_assignment


class Source(Protocol):
    """What can be drawn. Noise is integers around zero."""

    private: bool
    """Whether what it draws is secret and has the law that was asked for."""

    def laplace(self, scale: float, size: int) -> list[int]: ...

    def gaussian(self, scale: float, size: int) -> list[int]: ...

    def cube(self, ratio: Fraction, size: int) -> list[int]: ...

    def pick(self, scores: list[int], rate: Fraction, flip: bool) -> int: ...

    def assign(self, scores: AssignmentScores, rate: Fraction, picks: int, candidates: Candidates) -> Assignment: ...

    def bits(self, count: int) -> bytes: ...


@functools.lru_cache(maxsize=64)
def _opendp(kind: str, scale: float) -> Callable[[list[int]], list[int]]:
    # Imported when a session is opened: it takes a tenth of a second, and to read a saved release or a ledger draws nothing.
    from opendp import domains, measurements, metrics
    from opendp.mod import enable_features

    enable_features("contrib")
    vector = domains.vector_domain(domains.atom_domain(T="i64"))
    if kind == "laplace":
        return measurements.make_laplace(vector, metrics.l1_distance(T="i64"), scale=scale)
    return measurements.make_gaussian(vector, metrics.l2_distance(T="i64"), scale=scale)


LIBRARY_LIMIT = 2.0**50
"""OpenDP draws 64-bit integers and clamps what is larger, and clamped noise gives the total away. Its samplers are used up
to this scale, where reaching 2^63 has probability exp(-8192); beyond it ours, whose integers have no end."""


MANY = 64
"""From so many draws on those of a whole array at once are faster; the law is the same."""


class SystemSource:
    """Secure randomness. Noise is drawn around zero and added to totals that may be larger than 64 bits."""

    private = True

    def laplace(self, scale: float, size: int) -> list[int]:
        if size >= MANY:
            return bulk.laplace(Fraction(scale), size, secrets.token_bytes)
        if scale <= LIBRARY_LIMIT:
            return _opendp("laplace", scale)([0] * size)
        return [samplers.laplace(Fraction(scale), secrets.randbelow) for _ in range(size)]

    def gaussian(self, scale: float, size: int) -> list[int]:
        if size >= MANY:
            return bulk.gaussian(Fraction(scale), size, secrets.token_bytes)
        if scale <= LIBRARY_LIMIT:
            return _opendp("gaussian", scale)([0] * size)
        return [samplers.gaussian(Fraction(scale), secrets.randbelow) for _ in range(size)]

    def cube(self, ratio: Fraction, size: int) -> list[int]:
        if size >= MANY:
            return bulk.cube(ratio, size, secrets.token_bytes)
        return samplers.cube(ratio, size, secrets.randbelow)

    def pick(self, scores: list[int], rate: Fraction, flip: bool) -> int:
        sample = samplers.permute_and_flip if flip else samplers.exponential
        return sample(scores, rate, secrets.randbelow)

    def assign(self, scores: AssignmentScores, rate: Fraction, picks: int, candidates: Candidates) -> Assignment:
        return draw_assignment(scores, rate, secrets.randbelow, picks, candidates)

    def bits(self, count: int) -> bytes:
        return secrets.token_bytes(count)


current: Source = SystemSource()


def is_private() -> bool:
    return current.private


def prepare() -> None:
    """Draw once for nothing, so that an installation that cannot draw is found out before anything is charged.

    Never from `current`: a source of tests goes on where it was.
    """
    try:
        _opendp("laplace", 1.0)([0])
    except Exception as error:
        raise MissingExtra(
            f"noise comes from OpenDP, which cannot be used here ({type(error).__name__}): install it again with "
            "`pip install --force-reinstall 'opendp>=0.14,<0.17'`. Nothing was charged."
        ) from error
