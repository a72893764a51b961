"""The set in which one record's part of the totals lies: what noise for local explanations is scaled to.

A record brings the products of its row (s, t), s = √α·u and t = w·√α·f. With p = ‖s‖² and q = t² the length of (s·sᵀ, t·s) is
√(p(p+q)), the longest slope ‖s·(s·φ) − t·s‖ over ‖φ‖ ≤ 1 is p + √(pq), and that is all that noise depends on. The last
diagonal entry of a Gram matrix of (s, t) is not needed and not released, which makes the noise two to three times smaller.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import PlanError
from ...mechanisms import Norms
from ...public.schema import Relation
from ...query import compiled as fast
from ...query.bound import MeasuredBound, Parts, ceil_sqrt, to_grid
from ...query.reviewed import reviewed

WIDEST = 1 << 17
"""Wider than any row of the set, and small enough that the float factors of shrinking are exact enough to start from."""


@functools.lru_cache(maxsize=16)
def upper_triangle(length: int) -> tuple[np.ndarray, np.ndarray]:
    """Where the upper triangle of a matrix is: every step of every question asks for it."""
    rows, columns = np.triu_indices(length)
    rows.flags.writeable = columns.flags.writeable = False
    return rows, columns


@reviewed
@dataclass(frozen=True)
class Moments(MeasuredBound):
    """Products of rows (s, t): the upper triangle of Σ s·sᵀ and then Σ t·s. Claim: local-moments

    `joint`, `slope` and `label` are the largest values of √(p(p+q)), p + √(pq) and |t|. Rows outside are shrunk, as integers. The
    L2 norm is that of the full symmetric matrix beside the vector: entries off the diagonal stand for two, so their
    Gaussian noise is √2 smaller.
    """

    length: int
    joint: float
    slope: float
    label: float
    claim = "local-moments"

    LIMIT = 1 << 15
    """Units per row: p and q stay below 2^31, so that their products are exact in 64 bits."""
    one, grid = LIMIT**2, LIMIT

    def __post_init__(self) -> None:
        if not 1 <= self.length <= 1024 or not all(0 < v < math.inf for v in (self.joint, self.slope, self.label)):
            raise PlanError(
                f"Moments(length={self.length}, joint={self.joint!r}, slope={self.slope!r}, label={self.label!r}): needs 1 to "
                "1024 coordinates and positive limits."
            )

    @property
    def size(self) -> int:
        return self.length * (self.length + 1) // 2 + self.length

    @property
    def width(self) -> int:
        return self.length + 1

    @property
    def unit(self) -> float:
        """Units of the released products."""
        return max(self.joint, self.label**2 / 2) / self.LIMIT**2

    @property
    def joint_limit(self) -> int:
        return math.ceil(self.joint / self.unit)

    @property
    def slope_limit(self) -> int:
        # Beyond √2 times the joint limit it would never bind: p + √(pq) ≤ √2·√(p² + pq).
        return min(math.ceil(self.slope / self.unit), ceil_sqrt(2 * self.joint_limit**2))

    @property
    def label_limit(self) -> int:
        """The largest q = t²."""
        return math.ceil(self.label**2 / self.unit)

    @property
    def relative(self) -> tuple[float, ...]:  # type: ignore[override]
        rows, columns = upper_triangle(self.length)
        triangle = [1.0 if i == j else math.sqrt(0.5) for i, j in zip(rows, columns)]
        return (*triangle, *(1.0,) * self.length)

    def _given(self, values: Any) -> np.ndarray:
        values = np.asarray(values, dtype=float)
        if values.ndim != 2 or values.shape[1] != self.length + 1:
            raise AssertionError("a map must give one row of values and a label per record")
        return values

    def integers(self, values: np.ndarray, parts: Parts = None) -> np.ndarray:
        """Rows on the grid, shrunk into the set: a row of a person who has k rows into a k-th of it."""
        values = self._given(values)
        k = np.ones(len(values), dtype=np.int64) if parts is None else np.asarray(parts, dtype=np.int64)
        kept = np.maximum(k, 1)
        z = to_grid(values / np.sqrt(kept)[:, None], math.sqrt(self.unit))
        z = np.where(k[:, None] > 0, np.clip(z, -WIDEST, WIDEST), 0)
        return _shrink(z, self.joint_limit // kept, self.slope_limit // kept, self.label_limit // kept)

    def totals(self, contributions: Any, parts: Parts = None) -> list[int]:
        values = self._given(contributions)
        loops = fast.loops(values.size)
        if loops is None:
            return self.total_of(self.integers(values, parts))
        limits, k = (self.joint_limit, self.slope_limit, self.label_limit), 1 if parts is None else parts
        rows = loops.into_moments(fast.plain(values), math.sqrt(self.unit), float(WIDEST), fast.whole(k, len(values)), *limits)
        return self.total_of(rows)

    def total_of(self, rows: np.ndarray) -> list[int]:
        """The exact totals of integer rows that are inside the set: 2^16 of them stay below 2^53 in a float product."""
        upper = upper_triangle(self.length)
        total = [0] * self.size
        for start in range(0, len(rows), 1 << 16):
            piece = rows[start : start + (1 << 16)].astype(float, copy=False)
            products = piece[:, : self.length].T @ piece
            flat = (*products[:, : self.length][upper], *products[:, self.length])
            total = [a + int(b) for a, b in zip(total, flat)]
        return total

    def squared_lengths(self, rows: np.ndarray) -> np.ndarray:
        """p(p+q) of integer rows: the squared length of what each brings, exact in 64 bits."""
        p, q = _sizes(rows)
        return p * (p + q)

    def added(self) -> Norms:
        limit, d = self.joint_limit, self.length
        # (p + ‖s‖₁²)/2 + |t|·‖s‖₁ ≤ p(d+1)/2 + √(d·pq), and p² + pq ≤ limit².
        l1 = ceil_sqrt(((d + 1) ** 2 + 4 * d) * limit**2)
        return Norms((l1 + 1) // 2, limit**2, limit)

    def replaced(self) -> Norms:
        one, limit, tau = self.added(), self.joint_limit, self.label_limit
        # The smallest g with g(g + τ) = limit², rounded down; two rows differ most when their labels are opposite.
        least = max(0, (math.isqrt(tau * tau + 4 * limit * limit) - tau - 1) // 2)
        l2_squared = 4 * limit**2 - 4 * least**2 if tau >= 2 * least else 2 * limit**2 + (tau * tau + 1) // 2
        return Norms(2 * one.l1, min(l2_squared, 4 * limit**2), 2 * limit)

    def slope_norm(self, relation: Relation, scale: int) -> int:
        """How far one record moves Σ (s·sᵀ·φ − scale·t·s) for an integer φ with ‖φ‖ ≤ scale. Claim: local-gradient"""
        return scale * self.slope_limit * (2 if relation == "replace" else 1)

    def matrix(self, totals: Any) -> tuple[np.ndarray, np.ndarray]:
        """(Σ s·sᵀ, Σ t·s) from the released coordinates, in their own units and type."""
        numbers = np.asarray(totals)
        upper = upper_triangle(self.length)
        full = np.zeros((self.length, self.length), dtype=numbers.dtype)
        full[upper] = numbers[: len(upper[0])]
        full.T[upper] = numbers[: len(upper[0])]
        return full, numbers[len(upper[0]) :].copy()

    @property
    def text(self) -> str:
        return (
            f"products of a weighted row of {self.length} values and its label, shrunk until they are no longer than "
            f"{self.joint:.6g}, slopes no longer than {self.slope:.6g} and labels no larger than {self.label:.6g}"
        )

    @property
    def scale_text(self) -> str:
        return f"{self.unit * (1 << 30):g} in a sum of products"


def _sizes(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return (rows[:, :-1] * rows[:, :-1]).sum(axis=1), rows[:, -1] * rows[:, -1]


def _outside(p: np.ndarray, q: np.ndarray, joint: np.ndarray, slope: np.ndarray, label: np.ndarray) -> np.ndarray:
    """Whether rows leave the set, in exact integers: nothing is multiplied before it is known to be small."""
    wide = (p > joint) | (p > slope) | (q > label)
    p, q = np.where(wide, 0, p), np.where(wide, 0, q)
    return wide | (p * (p + q) > joint * joint) | (p * q > (slope - p) ** 2)


def _shrink(z: np.ndarray, joint: np.ndarray, slope: np.ndarray, label: np.ndarray) -> np.ndarray:
    """Integer rows scaled toward zero until they are inside, exactly. A row's result depends on that row alone."""
    left, shrink = np.arange(len(z)), 1.0
    while len(left):
        p, q = _sizes(z[left])
        outside = _outside(p, q, joint[left], slope[left], label[left])
        left, p, q = left[outside], p[outside].astype(float), q[outside].astype(float)
        squared = np.minimum.reduce(
            [
                joint[left] / np.maximum(np.sqrt(p * (p + q)), 1),
                slope[left] / np.maximum(p + np.sqrt(p * q), 1),
                label[left] / np.maximum(q, 1),
                np.ones(len(left)),
            ]
        )
        z[left] = np.trunc(z[left] * (np.sqrt(squared) * shrink)[:, None]).astype(np.int64)
        shrink *= 1 - 2.0**-20
    return z
