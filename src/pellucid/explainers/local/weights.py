"""How much a record counts for an explanation, by its distance from the record asked about.

A weight is a function α(r) of the distance r ≥ 0, and a bandwidth h stretches it: a record at distance r gets α(r/h). What the
noise depends on is how far one record can move the totals, and that is a supremum over r between 0 and the largest distance the
schema allows. These suprema are certified, never assumed: for the weights that only fall, by a search that needs no more than
that; for a formula, by interval arithmetic.
"""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import MissingExtra, PlanError
from ...public.frozen import settle

ROOM = 1 + 2.0**-40
"""Certified values are enlarged by this: more than all rounding of the few float operations behind them."""

TOLERANCE = 1e-7
"""How far a certified supremum may lie above a value that is reached, relative to it."""

MOST_SPLITS = 20_000
"""Pieces of the interval search for a formula, for the same reason."""

MOST_PIECES = 1 << 16
"""Pieces of the search; a function that needs more keeps a looser bound, which is as valid."""


@dataclass(frozen=True)
class Limits:
    """The largest things one record can bring, over all distances up to the largest one.

    `joint` is the length of (α·u·uᵀ, w·α·f·u) together, `slope` that of α·u·(u·φ − f) with ‖φ‖ ≤ 1/w, times w, and `label`
    is w·√α; w is the weight of the labels in the totals.
    """

    joint: float
    slope: float
    label: float


class Weight(ABC):
    """A weight function with a bandwidth. It is a public value: nothing in it comes from data."""

    bandwidth: float

    @abstractmethod
    def at(self, distance: np.ndarray) -> np.ndarray:
        """α(distance / bandwidth), between 0 and a finite largest value."""

    @abstractmethod
    def limits(self, farthest: float, label_weight: float = 1.0) -> Limits:
        """Certified upper bounds for distances from 0 to `farthest`."""

    @abstractmethod
    def constant(self, farthest: float) -> float:
        """The smallest certified c with α(r) ≤ c / (2r(r+1)) for distances up to `farthest`. Claim: local-constant"""

    def drift(self, farthest: float, radius: float = 1.0) -> float:
        """K such that moving the record asked about by δ moves the loss of any φ in the ball by at most K·δ per record.

        Along the way the loss α(r)·(φ·u − f)² of a record changes at most as fast as |α′(r)|·(Rr + 1)² + 2R·α(r)·(Rr + 1). So an
        explanation that is best for one record loses at most 2K·δ for another at distance δ. Infinite where it is not known.
        Claim: local-drift
        """
        return math.inf

    @property
    @abstractmethod
    def text(self) -> str:
        """The function in words, for the certificate."""

    def describe(self) -> dict[str, Any]:
        """The function as plain data, for requests and files: two that differ at all are told apart."""
        return {"weight": self.text, "bandwidth": self.bandwidth}


def _check_bandwidth(bandwidth: float) -> None:
    if isinstance(bandwidth, bool) or not isinstance(bandwidth, int | float) or not 0.01 <= bandwidth <= 1000:
        raise PlanError(f"bandwidth={bandwidth!r}: give a number from 0.01 to 1000; features are scaled to [0, 1].")


def falling_supremum(falls: Callable[[np.ndarray], np.ndarray], rises: Callable[[np.ndarray], np.ndarray], end: float) -> float:
    """An upper bound of falls(r)·rises(r) over [0, end], for a function that never rises times one that never falls.

    On a piece [a, b] the product is at most falls(a)·rises(b). Pieces whose bound is near the best value reached are halved
    until none is far above it. Claim: local-constant
    """
    lo = np.linspace(0, end, 257)[:-1]
    hi = np.append(lo[1:], end)
    reached = settled = 0.0
    while True:
        reached = max(reached, float((falls(lo) * rises(lo)).max()), float((falls(hi) * rises(hi)).max()))
        top = falls(lo) * rises(hi)
        far = (top > reached * (1 + TOLERANCE)) & (hi - lo > 1e-12 * end)
        settled = max(settled, float(top[~far].max(initial=0.0)))
        lo, hi = lo[far], hi[far]
        if not len(lo) or len(lo) > MOST_PIECES:
            return max(settled, float(top[far].max(initial=0.0))) * ROOM
        middle = (lo + hi) / 2
        lo, hi = np.concatenate([lo, middle]), np.concatenate([middle, hi])


@dataclass(frozen=True)
class FallingWeight(Weight):
    """A weight that never rises with the distance: all that its certificates need."""

    bandwidth: float = 1.0

    def __post_init__(self) -> None:
        _check_bandwidth(self.bandwidth)

    def constant(self, farthest: float) -> float:
        return _falling_constant(self, farthest)

    def limits(self, farthest: float, label_weight: float = 1.0) -> Limits:
        return _falling_limits(self, farthest, label_weight)


@functools.lru_cache(maxsize=4096)
def _falling_constant(weight: FallingWeight, farthest: float) -> float:
    return falling_supremum(weight.at, lambda r: 2 * r * (r + 1), farthest)


@functools.lru_cache(maxsize=4096)
def _falling_limits(weight: FallingWeight, farthest: float, w: float) -> Limits:
    return Limits(
        joint=falling_supremum(weight.at, lambda r: r * np.sqrt(r * r + w * w), farthest),
        slope=falling_supremum(weight.at, lambda r: r * (r + w), farthest),
        label=w * math.sqrt(float(weight.at(np.zeros(1))[0])) * ROOM,
    )


@dataclass(frozen=True)
class Stable(FallingWeight):
    """Equation (5) of the paper: 1 near the record, c/(2r(r+1)) further away, so that far records keep an influence.

    >>> Stable().at(np.array([0.2, 1.0])).tolist()
    [1.0, 0.25]
    """

    c: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.c, bool) or not isinstance(self.c, int | float) or not 0.01 <= self.c <= 100:
            raise PlanError(f"c={self.c!r}: give a number from 0.01 to 100; the paper uses 1.")
        settle(self, c=float(self.c))

    @property
    def near(self) -> float:
        """The distance up to which every record counts fully, in bandwidths."""
        return (math.sqrt(2 * self.c + 1) - 1) / 2

    def at(self, distance: np.ndarray) -> np.ndarray:
        r = np.asarray(distance, dtype=float) / self.bandwidth
        return np.minimum(1.0, self.c / np.maximum(2 * r * (r + 1), 1e-300))

    def constant(self, farthest: float) -> float:
        return 2 * self._largest(lambda r: r * (r + 1), farthest)

    def limits(self, farthest: float, label_weight: float = 1.0) -> Limits:
        w = label_weight
        return Limits(
            joint=self._largest(lambda r: r * math.sqrt(r * r + w * w), farthest),
            slope=self._largest(lambda r: r * (r + w), farthest),
            label=w * ROOM,
        )

    def _largest(self, rises: Callable[[float], float], farthest: float) -> float:
        """The supremum of α times one of the functions above: it rises up to `near`, and beyond has no maximum inside."""
        ends = (min(self.near * self.bandwidth, farthest), farthest)
        return max(float(self.at(np.array([r]))[0]) * rises(r) for r in ends) * ROOM

    def drift(self, farthest: float, radius: float = 1.0) -> float:
        h, begin = self.bandwidth, self.near * self.bandwidth
        flat = falling_supremum(self.at, lambda r: 2 * radius * (radius * r + 1), farthest)
        if farthest <= begin:
            return flat

        def falls(shift: np.ndarray) -> np.ndarray:
            r = (begin + shift) / h
            return self.c / 2 * (2 * r + 1) / (r * (r + 1)) ** 2 / h

        return flat + falling_supremum(falls, lambda shift: (radius * (begin + shift) + 1) ** 2, farthest - begin)

    @property
    def text(self) -> str:
        return f"min(1, {self.c:g}/(2r(r+1)))"

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "c": self.c}


@dataclass(frozen=True)
class Gaussian(FallingWeight):
    """exp(−r²)/1.5271: records beyond two bandwidths count for little.

    >>> round(Gaussian().constant(4.0), 4)
    1.0
    """

    SCALE = 1.5271
    """Not below the supremum of 2r(r+1)·exp(−r²), 1.52707 at r = 0.85464; so that the constant is at most 1 at bandwidth 1."""

    def at(self, distance: np.ndarray) -> np.ndarray:
        r = np.asarray(distance, dtype=float) / self.bandwidth
        return np.exp(-r * r) / self.SCALE

    def drift(self, farthest: float, radius: float = 1.0) -> float:
        flat = falling_supremum(self.at, lambda r: 2 * radius * (radius * r + 1), farthest)
        return flat + falling_supremum(self.at, lambda r: 2 * r / self.bandwidth**2 * (radius * r + 1) ** 2, farthest)

    @property
    def text(self) -> str:
        return "exp(-r²)/1.5271"


@dataclass(frozen=True)
class CutOff(FallingWeight):
    """1 within one bandwidth, 0 beyond it: the records in a ball around the one asked about, all alike."""

    def at(self, distance: np.ndarray) -> np.ndarray:
        return (np.asarray(distance, dtype=float) <= self.bandwidth).astype(float)

    @property
    def text(self) -> str:
        return "1 if r ≤ 1 else 0"


@dataclass(frozen=True)
class FormulaWeight(Weight):
    """A weight given as a formula in r, for example "1/(1 + r**4)"; its suprema are certified by interval arithmetic.

    A formula that may become negative, or whose suprema cannot be certified over the distances of the schema, is refused.

    >>> weight = FormulaWeight("exp(-2*r)", bandwidth=0.5)
    >>> round(weight.constant(2.0), 5)
    0.23504
    """

    formula: str
    bandwidth: float = 1.0

    def __post_init__(self) -> None:
        _check_bandwidth(self.bandwidth)
        if not isinstance(self.formula, str) or not self.formula.strip():
            raise PlanError(f"weight={self.formula!r}: give a formula in r as text, for example 'exp(-r)'.")
        # Whatever is wrong with a formula is said here, before anything is paid for.
        _compiled(self.formula)

    def at(self, distance: np.ndarray) -> np.ndarray:
        r = np.asarray(distance, dtype=float) / self.bandwidth
        with np.errstate(all="ignore"):
            values = np.broadcast_to(_compiled(self.formula)[1](r), r.shape)
        return np.maximum(np.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0), 0.0)

    def constant(self, farthest: float) -> float:
        return self._supremum("2*{h}*r*({h}*r + 1)*({f})", farthest)

    def limits(self, farthest: float, label_weight: float = 1.0) -> Limits:
        if self._supremum("-({f})", farthest) > 0:
            raise PlanError(f"weight {self.formula!r} is not certainly at least 0 at all distances up to {farthest:.4g}.")
        if not 1e-6 <= self._supremum("({f})", farthest) <= 1e6:
            raise PlanError(f"weight {self.formula!r}: give one whose largest value lies between 1e-6 and 1e6, best near 1.")
        w = repr(float(label_weight))
        return Limits(
            joint=math.sqrt(self._supremum("(({h}*r)**2)*(({h}*r)**2 + " + w + "**2)*({f})**2", farthest)) * ROOM,
            slope=self._supremum("{h}*r*({h}*r + " + w + ")*({f})", farthest),
            label=label_weight * math.sqrt(self._supremum("({f})", farthest)) * ROOM,
        )

    def _supremum(self, pattern: str, farthest: float) -> float:
        # The formula is one of r in bandwidths, so the distance is h·r and r ends at farthest/h.
        query = pattern.replace("{h}", repr(float(self.bandwidth))).replace("{f}", _compiled(self.formula)[0])
        return _certified(query, float(farthest) / self.bandwidth, self.formula)

    @property
    def text(self) -> str:
        return self.formula


@functools.lru_cache(maxsize=4096)
def _certified(query: str, end: float, formula: str) -> float:
    from ...sensitivity import supremum

    # Limited by work and not by time: the same formula has the same bound on every machine.
    found = supremum(query, {"r": (0.0, math.nextafter(end, math.inf))}, tolerance=1e-6, seconds=3600.0, splits=MOST_SPLITS)
    if not math.isfinite(found.upper):
        raise PlanError(
            f"weight {formula!r}: no finite bound could be certified for distances up to {end:.4g} bandwidths; "
            "use a formula that is bounded there, for example 'exp(-r)'."
        )
    return max(found.upper, 0.0) * ROOM if found.upper > 0 else found.upper


@functools.lru_cache(maxsize=256)
def _compiled(formula: str) -> tuple[str, Callable[[np.ndarray], np.ndarray]]:
    """The formula as it was understood, and as a function of r."""
    from ...sensitivity import named_formula

    try:
        read = named_formula(formula)
    except MissingExtra:
        raise
    except PlanError:
        raise PlanError(f"weight {formula!r} is no formula in r; write for example 'exp(-r)' or '1/(1 + r**4)'.") from None
    names = sorted(str(symbol) for symbol in read.scalar.free_symbols)
    if names != ["r"]:
        raise PlanError(f"weight {formula!r}: a weight is a formula in r alone, this one has {', '.join(names) or 'no r'}.")
    from ...sensitivity.expressions import compile_numpy

    inner = compile_numpy([read.scalar], sorted(read.scalar.free_symbols, key=str))
    return str(read.scalar), lambda r: inner(r)[0]


NAMED: dict[str, type[FallingWeight]] = {"stable": Stable, "gaussian": Gaussian, "cut-off": CutOff}


def weight_of(weight: str | Weight, bandwidth: float = 1.0) -> Weight:
    """A weight by name ("stable", "gaussian", "cut-off"), as a formula in r, or as it is.

    >>> weight_of("gaussian", 0.5) == Gaussian(0.5)
    True
    """
    # Only weights of this file: their suprema are certified, and a class from outside could say anything.
    if type(weight) in (*NAMED.values(), FormulaWeight):
        assert isinstance(weight, Weight)
        return weight
    if not isinstance(weight, str):
        raise PlanError(
            f"weight={weight!r}: give {', '.join(map(repr, NAMED))}, a formula in r as text, or one of these weights."
        )
    return NAMED[weight](bandwidth) if weight in NAMED else FormulaWeight(weight, bandwidth)
