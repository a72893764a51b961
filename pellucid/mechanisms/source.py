"""Where randomness comes from. Production has one source: the operating system, through OpenDP and `secrets`.

There is no seed and no switch. Tests replace `current` by a source of their own; such a source says `private = False`,
the session reads that, and whatever was drawn from it is certified `not private`.
"""

from __future__ import annotations

import functools
import secrets
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Protocol

import numpy as np
import opendp.domains as domains
import opendp.measurements as measurements
import opendp.metrics as metrics
from opendp.mod import Measurement, enable_features

from . import samplers as exact_samplers

if TYPE_CHECKING:
    from .assignment import Tables

enable_features("contrib")


class Source(Protocol):
    private: bool

    def laplace(self, scale: float, size: int) -> list[int]: ...

    def gaussian(self, scale: float, size: int) -> list[int]: ...

    def cube(self, ratio: Fraction, size: int) -> list[int]: ...

    def pick(self, scores: list[int], rate: Fraction, flip: bool) -> int: ...

    def combine(
        self, tables: Tables, rate: Fraction, per_cluster: int, candidates: Sequence[Sequence[int]] | None
    ) -> list[tuple[int, ...]]: ...

    def bits(self, count: int) -> bytes: ...


@functools.lru_cache(maxsize=64)
def _opendp(kind: str, scale: float) -> Measurement:
    vector = domains.vector_domain(domains.atom_domain(T="i64"))
    if kind == "laplace":
        return measurements.make_laplace(vector, metrics.l1_distance(T="i64"), scale=scale)
    return measurements.make_gaussian(vector, metrics.l2_distance(T="i64"), scale=scale)


LIBRARY_LIMIT = 2.0**50
"""OpenDP draws 64-bit integers and clamps what is larger, and clamped noise gives the total away. Its samplers are used up
to this scale, where reaching 2^63 has probability exp(-8192); beyond it ours, whose integers have no end."""


class SystemSource:
    """Secure randomness. Noise is drawn around zero and added to totals that may be larger than 64 bits."""

    private = True

    def laplace(self, scale: float, size: int) -> list[int]:
        if scale <= LIBRARY_LIMIT:
            return _opendp("laplace", scale)([0] * size)
        return [exact_samplers.laplace(Fraction(scale), secrets.randbelow) for _ in range(size)]

    def gaussian(self, scale: float, size: int) -> list[int]:
        if scale <= LIBRARY_LIMIT:
            return _opendp("gaussian", scale)([0] * size)
        return [exact_samplers.gaussian(Fraction(scale), secrets.randbelow) for _ in range(size)]

    def cube(self, ratio: Fraction, size: int) -> list[int]:
        return exact_samplers.cube(ratio, size, secrets.randbelow)

    def pick(self, scores: list[int], rate: Fraction, flip: bool) -> int:
        sample = exact_samplers.permute_and_flip if flip else exact_samplers.exponential
        return sample(scores, rate, secrets.randbelow)

    def combine(
        self, tables: Tables, rate: Fraction, per_cluster: int, candidates: Sequence[Sequence[int]] | None
    ) -> list[tuple[int, ...]]:
        from .assignment import draw_combination

        return draw_combination(tables, rate, secrets.randbelow, per_cluster, candidates)

    def bits(self, count: int) -> bytes:
        return secrets.token_bytes(count)


current: Source = SystemSource()


def is_private() -> bool:
    return current.private


def secret_labels(count: int) -> np.ndarray:
    """Fresh 64-bit labels, one per row: who is paired with whom, which rows of a person are kept, which block is whose."""
    return np.frombuffer(current.bits(8 * count), dtype=np.uint64)
