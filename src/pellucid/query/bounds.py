"""The sets that contributions live in: how they are enforced in integers, and how far one of them can move a total.

A contribution is rounded to a grid and then clipped, *as integers*, into its set; the norms below are those of the
integer set and of the coordinates that are really released. A person's rows share one contribution: with `parts` = k
for a row of a person who has k rows, the row may use a k-th of the set, so that the sum over the rows stays inside.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import PlanError
from ..mechanisms import Norms
from . import compiled as fast
from .bound import UNITS, Bound, Parts, ceil_sqrt, clipped_sums, column_sums, part_of, shrink_into_ball, to_grid
from .reviewed import reviewed


@reviewed
@dataclass(frozen=True)
class Box(Bound):
    """`length` values, each in [lo, hi]; centred, so that adding a record costs half the range.

    With `count`, one more coordinate counts the records, at the weight of half the range: under add-remove the number
    of records is private, and in the L∞ and L2 norms this is the cheapest way to learn it. `weight` enlarges the totals: in a
    joint draw with sums that one unit moves further, a larger weight makes these more exact. Claim: box-sum
    """

    length: int
    lo: float
    hi: float
    count: bool = False
    weight: int = 1
    claim = "box-sum"

    def __post_init__(self) -> None:
        if self.length < 1 or not self.lo < self.hi or not 1 <= self.weight <= 16:
            raise PlanError(
                f"Box(length={self.length}, lo={self.lo!r}, hi={self.hi!r}, weight={self.weight!r}): needs a coordinate, lo < hi "
                "and a weight from 1 to 16."
            )
        if not 1e-280 < self.hi - self.lo < 1e300:
            raise PlanError(f"a range from {self.lo:g} to {self.hi:g} is too wide or too narrow for floats; change its unit.")

    @property
    def size(self) -> int:
        return self.length + self.count

    @property
    def centre(self) -> float:
        return (self.lo + self.hi) / 2

    @property
    def unit(self) -> float:
        return (self.hi - self.lo) / 2 / UNITS

    def _given(self, values: Any) -> np.ndarray:
        values = np.asarray(values, dtype=float)
        if values.ndim != 2 or values.shape[1] != self.length:
            raise AssertionError("a map must give one row of values per record")
        return values

    def integers(self, values: Any, parts: Parts = None) -> np.ndarray:
        """Contributions as integer rows inside the set."""
        values = self._given(values)
        centred = to_grid(values - self.centre, self.unit)
        limit = part_of(UNITS, parts)
        if parts is not None:
            # Truncation toward zero keeps the sum of k shares inside the set.
            centred = np.clip(centred, -UNITS, UNITS)
            k = np.maximum(parts, 1)[:, None]
            centred = np.sign(centred) * (np.abs(centred) // k)
            limit = np.asarray(limit)[:, None]
        clipped = np.clip(centred, -limit, limit)
        if self.count:
            ones = np.broadcast_to(np.asarray(limit).reshape(-1, 1), (len(values), 1))
            clipped = np.hstack([clipped, ones])
        return clipped

    def totals(self, contributions: Any, parts: Parts = None) -> list[int]:
        values = self._given(contributions)
        loops = fast.loops(values.size)
        if parts is not None:
            sums = column_sums(self.integers(values, parts)) if loops is None else self._divided(loops, values, parts)
        elif loops is not None:
            sums = [*loops.box(fast.plain(values), self.centre, self.unit, float(UNITS)).tolist(), *self._counted(values)]
        else:
            sums = clipped_sums(values, self.centre, self.unit, UNITS) + self._counted(values)
        return [self.weight * v for v in sums]

    def _counted(self, values: np.ndarray) -> list[int]:
        return [UNITS * len(values)] * self.count

    def _divided(self, loops: Any, values: np.ndarray, parts: np.ndarray) -> list[int]:
        """The totals of rows of which each may use its part of the set, by a compiled loop."""
        k, limit = fast.whole(np.maximum(parts, 1), len(values)), fast.whole(part_of(UNITS, parts), len(values))
        sums = loops.shared_box(fast.plain(values), self.centre, self.unit, float(UNITS), np.ones(len(values)), k, limit)
        return [*sums.tolist(), *[int(limit.sum())] * self.count]

    def added(self) -> Norms:
        return Norms(self.size * UNITS, self.size * UNITS**2, UNITS).times(self.weight)

    def replaced(self) -> Norms:
        # The count coordinate is bounded like the others; a dropped record may hold 0 there and another one unit.
        return Norms(2 * self.size * UNITS, 4 * self.size * UNITS**2, 2 * UNITS).times(self.weight)

    @property
    def text(self) -> str:
        return f"{self.length} values clipped to [{self.lo:g}, {self.hi:g}]" + (", and a count of records" if self.count else "")

    @property
    def scale_text(self) -> str:
        worth = f"{self.unit * UNITS / self.weight:g} in a sum of values"
        return worth + (f" and {1 / self.weight:g} in the count" if self.count else "")


@reviewed
@dataclass(frozen=True)
class CountedBox(Box):
    """Values in [lo, hi] of the records that count, of which some may be left out.

    A record that is left out brings no value. `count` counts those that count and `left_out` those that do not; under replace
    the count is free, under add-remove both together cost what the count costs. Claim: counted-sum
    """

    left_out: bool = False
    claim = "counted-sum"

    @property
    def size(self) -> int:
        return self.length + self.count + self.left_out

    def integers(self, values: Any, parts: Parts = None) -> np.ndarray:
        """`values`: (share, values). The share of a record that counts is 1, of one that is left out 0; of a couple of which one
        is left out it is a half, and the values are those of the other."""
        share, given = self._shares(values)
        k, limit, counted = self._counts(share, parts)
        with np.errstate(over="ignore", invalid="ignore"):
            weighed = (given - self.centre) * share[:, None]
        centred = np.clip(to_grid(weighed, self.unit), -UNITS, UNITS)
        centred = np.clip(np.sign(centred) * (np.abs(centred) // k[:, None]), -counted[:, None], counted[:, None])
        beside = [counted] * self.count + [limit - counted] * self.left_out
        return np.column_stack([centred, *beside])

    def _shares(self, values: Any) -> tuple[np.ndarray, np.ndarray]:
        share, given = values
        share, given = np.asarray(share, dtype=float), np.asarray(given, dtype=float)
        if given.ndim != 2 or given.shape[1] != self.length or share.shape != (len(given),):
            raise AssertionError("a map must give one share and one row of values per record")
        return share, given

    def _counts(self, share: np.ndarray, parts: Parts) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """For every row: how many parts there are, what it may count at most, and what it counts."""
        k = fast.whole(1 if parts is None else np.maximum(parts, 1), len(share))
        limit = fast.whole(part_of(UNITS, parts), len(share))
        return k, limit, np.minimum(np.clip(to_grid(share, 1 / UNITS), 0, UNITS) // k, limit)

    def totals(self, contributions: Any, parts: Parts = None) -> list[int]:
        share, given = self._shares(contributions)
        loops = fast.loops(given.size)
        if loops is None:
            return [self.weight * v for v in column_sums(self.integers(contributions, parts))]
        k, limit, counted = self._counts(share, parts)
        sums = loops.shared_box(fast.plain(given), self.centre, self.unit, float(UNITS), fast.plain(share), k, counted).tolist()
        beside = [int(counted.sum())] * self.count + [int((limit - counted).sum())] * self.left_out
        return [self.weight * v for v in (*sums, *beside)]

    def added(self) -> Norms:
        most = max(self.length + self.count, int(self.left_out))
        return Norms(most * UNITS, most * UNITS**2, UNITS).times(self.weight)

    def replaced(self) -> Norms:
        # Two records that count differ in their values alone; one that counts and one left out, by half as much and in counts.
        one_leaves = self.length + self.count + self.left_out
        l1, squared = max(2 * self.length, one_leaves), max(4 * self.length, one_leaves)
        return Norms(l1 * UNITS, squared * UNITS**2, 2 * UNITS).times(self.weight)

    @property
    def text(self) -> str:
        beside = ["a count of the records that count"] * self.count + ["one of those left out"] * self.left_out
        return f"{self.length} values clipped to [{self.lo:g}, {self.hi:g}], none of a record left out" + "".join(
            f", and {what}" for what in beside
        )

    @property
    def scale_text(self) -> str:
        worth = f"{self.unit * UNITS / self.weight:g} in a sum of values"
        return worth + (f" and {1 / self.weight:g} in a count" if self.count or self.left_out else "")


@reviewed
@dataclass(frozen=True)
class Cells(Bound):
    """A record sits in one cell (or is divided between a few) and brings a value, a count, or both.

    `value` = τ: the values a record brings add up to at most τ in absolute terms. `count_weight` = w: the count is
    released beside them, weighing w times as much as a value of τ in the noise; 0 leaves it out. A plain histogram has no
    value. The enforced set is the convex hull of "one cell, |value| ≤ τ, count 1" and nothing. Claim: cell-sum
    """

    cells: int
    value: float | None = None
    count_weight: float = 1.0
    claim = "cell-sum"

    def __post_init__(self) -> None:
        if self.cells < 1 or (self.value is not None and not self.value > 0) or not 0 <= self.count_weight <= 4:
            raise PlanError(f"Cells(cells={self.cells}, value={self.value!r}): needs a cell, and a positive value if any.")
        if self.value is None and not self.counts:
            raise PlanError("Cells without a value and without a count releases nothing.")

    @property
    def counts(self) -> int:
        """Integer units per record in the count coordinates."""
        return round(UNITS * self.count_weight)

    @property
    def unit(self) -> float:
        return (self.value or 0.0) / UNITS

    @property
    def size(self) -> int:
        return self.cells * ((self.value is not None) + (self.counts > 0))

    def totals(self, contributions: Any, parts: Parts = None) -> list[int]:
        """`contributions`: (cell, weight, value) as arrays of shape (rows, places); the weights of a row add up to at most 1.

        A row outside every cell (a place that is negative or too large) brings nothing there. Weights may be left out (None)
        where every row has one place, with its whole weight.
        """
        cell, weight, value = contributions
        cell = np.asarray(cell)
        if weight is None:
            if self.value is None and parts is None and cell.shape[1:] == (1,):
                # Seen as unsigned, a negative number is a huge one: all that is outside falls into one cell more.
                place = np.minimum(cell[:, 0].astype(np.int64, copy=False).view(np.uint64), self.cells).view(np.int64)
                return [int(v) * self.counts for v in np.bincount(place, minlength=self.cells + 1)[: self.cells]]
            weight = np.ones(cell.shape)
        loops = fast.loops(cell.size) if cell.dtype.kind in "iu" and cell.ndim == 2 else None
        if loops is not None:
            return self._looped(loops, cell, weight, value, parts)
        inside = (cell >= 0) & (cell < self.cells)
        place = np.where(inside, cell, 0).astype(np.intp)
        limit = np.broadcast_to(part_of(UNITS, parts), len(cell))
        divide = 1 if parts is None else np.maximum(parts, 1)[:, None]
        out: list[int] = []
        count = None
        if self.counts:
            share = np.clip(to_grid(np.where(inside, weight, 0.0), 1.0 / UNITS), 0, UNITS) // divide
            count = _within(share, limit) * self.counts // UNITS
        if self.value is not None:
            values = np.clip(to_grid(np.where(inside, value, 0.0), self.unit), -UNITS, UNITS)
            size = _within(np.abs(values) // divide, limit)
            if count is not None:
                # In the hull a part of the count allows the same part of τ.
                size = np.minimum(size, count * UNITS // self.counts)
            out += self._per_cell(place, np.sign(values) * size)
        if count is not None:
            out += self._per_cell(place, count)
        return out

    def _looped(self, loops: Any, cell: np.ndarray, weight: Any, value: Any, parts: Parts) -> list[int]:
        """The same totals by a compiled loop."""
        k, limit = (
            fast.whole(per_row, len(cell)) for per_row in (1 if parts is None else np.maximum(parts, 1), part_of(UNITS, parts))
        )
        place, weight = np.array(cell, dtype=np.int64, order="C"), fast.plain(np.broadcast_to(weight, cell.shape))
        given = np.empty((0, 1)) if self.value is None else fast.plain(np.broadcast_to(value, cell.shape))
        values, counts = loops.cells(place, weight, given, k, limit, self.cells, UNITS, self.counts, self.unit or 1.0)
        return [*(values.tolist() if self.value is not None else ()), *(counts.tolist() if self.counts else ())]

    def _per_cell(self, place: np.ndarray, amounts: np.ndarray) -> list[int]:
        # float64 weights add up exactly below 2^53: 2^16 rows of 2^32·places units stay far below, larger batches are cut.
        total = np.zeros(self.cells, dtype=np.int64)
        for start in range(0, len(place), 1 << 16):
            piece = slice(start, start + (1 << 16))
            total += np.bincount(place[piece].ravel(), amounts[piece].ravel().astype(float), self.cells).astype(np.int64)
        return [int(v) for v in total]

    def added(self) -> Norms:
        values, counts = (UNITS if self.value is not None else 0), self.counts
        return Norms(values + counts, values**2 + counts**2, max(values, counts))

    def replaced(self) -> Norms:
        values, counts = (UNITS if self.value is not None else 0), self.counts
        # Two cells: each keeps its own value and count. One cell: the values differ by 2τ and the counts cancel.
        return Norms(2 * values + 2 * counts, max(4 * values**2, 2 * values**2 + 2 * counts**2), max(2 * values, counts))

    @property
    def text(self) -> str:
        if self.value is None:
            return f"one of {self.cells} cells"
        beside = " and a count" if self.counts else ""
        return f"values of at most {self.value:g} in absolute sum{beside}, divided over {self.cells} cells"

    @property
    def scale_text(self) -> str:
        count = f"{UNITS / self.counts:g} in a count" if self.counts else ""
        return " and ".join(filter(None, [f"{self.value:g} in a sum of values" if self.value is not None else "", count]))


@reviewed
@dataclass(frozen=True)
class CrossCells(Bound):
    """A record sits in one group and has one value of every attribute: group × value counts, attribute after attribute.

    The totals of attribute a are `groups` rows of `sizes[a]` cells. A record without a group, or with a value outside its
    attribute, is in no cell of any attribute: so all attributes agree on how many records a group has. Claim: cross-cells
    """

    groups: int
    sizes: tuple[int, ...]
    claim = "cross-cells"
    grid = None

    def __post_init__(self) -> None:
        if self.groups < 1 or not self.sizes or min(self.sizes) < 1:
            raise PlanError(f"CrossCells(groups={self.groups}, sizes={self.sizes}): needs a group and attributes with values.")

    @property
    def size(self) -> int:
        return self.groups * sum(self.sizes)

    @property
    def width(self) -> int:
        return len(self.sizes)

    def totals(self, contributions: Any, parts: Parts = None) -> list[int]:
        """`contributions`: the group of every record, and one array of values per attribute."""
        group, values = contributions
        group = np.asarray(group).astype(np.int64, copy=False)
        if parts is None:
            quick = self._compiled(group, values)
            if quick is not None:
                return quick
        limits = [(group, self.groups), *zip(values, self.sizes, strict=True)]
        # Seen as unsigned, a negative number is a huge one: one comparison for both ends.
        whole = all(array.astype(np.int64, copy=False).view(np.uint64).max(initial=0) < size for array, size in limits)
        inside: Any = slice(None)
        if not whole:
            inside = np.logical_and.reduce([(array >= 0) & (array < size) for array, size in limits])
        place = group[inside].astype(np.intp)
        weight = None if parts is None else np.asarray(part_of(UNITS, parts))[inside].astype(float)
        out: list[int] = []
        for value, size in zip(values, self.sizes, strict=True):
            cell = place * size + value[inside]
            # Plain counts are integers; weights are whole numbers below 2^31, exact in float64 over 2^16 rows.
            counted = self._counts(cell, weight, self.groups * size)
            out += [int(v) for v in counted] if weight is not None else [int(v) * UNITS for v in counted]
        return out

    def _compiled(self, group: np.ndarray, values: Any) -> list[int] | None:
        """The same totals by a compiled loop, where there is one and no record lies outside."""
        count = fast.counter() if len(group) >= 4096 and fast.pays(len(group) * len(self.sizes) // 8) else None
        if count is None:
            return None
        out: list[int] = []
        for value, size in zip(values, self.sizes, strict=True):
            counted = count(group, value.astype(np.int64, copy=False), self.groups, size)
            if counted is None:
                return None
            out += [v * UNITS for v in counted.tolist()]
        return out

    def _counts(self, cell: np.ndarray, weight: np.ndarray | None, cells: int) -> np.ndarray:
        if weight is None:
            return np.bincount(cell, minlength=cells)
        total = np.zeros(cells, dtype=np.int64)
        for start in range(0, len(cell), 1 << 16):
            piece = slice(start, start + (1 << 16))
            total += np.bincount(cell[piece], weight[piece], cells).astype(np.int64)
        return total

    def added(self) -> Norms:
        count = len(self.sizes)
        return Norms(count * UNITS, count * UNITS**2, UNITS)

    def replaced(self) -> Norms:
        count = len(self.sizes)
        return Norms(2 * count * UNITS, 2 * count * UNITS**2, UNITS)

    @property
    def text(self) -> str:
        return f"one of {self.groups} groups, and one value of each of {len(self.sizes)} attributes"

    @property
    def scale_text(self) -> str:
        return "1 in a count"


def _within(shares: np.ndarray, limit: np.ndarray) -> np.ndarray:
    """Keep the non-negative shares of each row, in order, as long as they fit under the row's limit."""
    used = np.zeros(len(shares), dtype=np.int64)
    kept = np.empty_like(shares)
    for j in range(shares.shape[1]):
        kept[:, j] = np.minimum(shares[:, j], limit - used)
        used += kept[:, j]
    return kept


@reviewed
@dataclass(frozen=True)
class Ball(Bound):
    """A vector of `length` values in a Euclidean ball. Claim: ball-sum"""

    length: int
    radius: float
    claim = "ball-sum"

    LIMIT = 1 << 26
    """Units per radius: squares of 2^26 add up over 2^10 coordinates inside 64 bits."""
    one = grid = LIMIT

    def __post_init__(self) -> None:
        if not 1 <= self.length <= 1024 or not self.radius > 0:
            raise PlanError(
                f"Ball(length={self.length}, radius={self.radius!r}): needs 1 to 1024 coordinates and a positive radius."
            )

    @property
    def size(self) -> int:
        return self.length

    @property
    def unit(self) -> float:
        return self.radius / self.LIMIT

    def integers(self, values: np.ndarray, parts: Parts = None) -> np.ndarray:
        z = np.clip(to_grid(values, self.unit), -self.LIMIT, self.LIMIT)
        z = shrink_into_ball(z, self.LIMIT**2)
        return z if parts is None else np.where(parts[:, None] > 0, np.sign(z) * (np.abs(z) // np.maximum(parts, 1)[:, None]), 0)

    def totals(self, contributions: Any, parts: Parts = None) -> list[int]:
        values = np.asarray(contributions, dtype=float)
        loops = fast.loops(values.size) if parts is None else None
        if loops is None:
            return column_sums(self.integers(values, parts))
        squares = fast.whole(self.LIMIT**2, len(values))
        return column_sums(loops.into_ball(fast.plain(values), self.unit, float(self.LIMIT), squares).astype(np.int64))

    def added(self) -> Norms:
        return Norms(ceil_sqrt(self.length * self.LIMIT**2), self.LIMIT**2, self.LIMIT)

    def replaced(self) -> Norms:
        return Norms(2 * ceil_sqrt(self.length * self.LIMIT**2), 4 * self.LIMIT**2, 2 * self.LIMIT)

    @property
    def text(self) -> str:
        return f"a vector of {self.length} values shrunk into a ball of radius {self.radius:g}"

    @property
    def scale_text(self) -> str:
        return f"{self.unit * UNITS:g} in a sum of values"


@reviewed
@dataclass(frozen=True)
class Gram(Bound):
    """Rows r in a Euclidean ball; what is released is the upper triangle of Σ r·rᵀ. Claim: gram-sum

    Off-diagonal entries stand for two equal entries of the matrix, so their Gaussian noise is √2 smaller and the L2
    norm below is the Frobenius norm. Rows have 18 bits, so that a float64 matrix product over 2^16 rows is exact.
    """

    length: int
    radius: float
    claim = "gram-sum"

    LIMIT = 1 << 17
    """Units per radius of a row: 18 bits, so that products over 2^16 rows are exact in floats."""
    one, grid = LIMIT**2, LIMIT

    def __post_init__(self) -> None:
        if self.length < 1 or not self.radius > 0:
            raise PlanError(f"Gram(length={self.length}, radius={self.radius!r}): needs a coordinate and a positive radius.")

    @property
    def size(self) -> int:
        return self.length * (self.length + 1) // 2

    @property
    def unit(self) -> float:
        """Units of the released products."""
        return (self.radius / self.LIMIT) ** 2

    @property
    def relative(self) -> tuple[float, ...]:  # type: ignore[override]
        rows, columns = np.triu_indices(self.length)
        return tuple(1.0 if i == j else math.sqrt(0.5) for i, j in zip(rows, columns))

    def integers(self, values: np.ndarray, parts: Parts = None) -> np.ndarray:
        values = np.asarray(values, dtype=float)
        limit = np.broadcast_to(part_of(self.LIMIT**2, parts), len(values))
        if parts is not None:
            values = values / np.sqrt(np.maximum(parts, 1))[:, None]
        z = np.clip(to_grid(values, self.radius / self.LIMIT), -self.LIMIT, self.LIMIT)
        return shrink_into_ball(z, limit)

    def _rows(self, values: Any, parts: Parts) -> np.ndarray:
        """Integer rows inside the set, as floats."""
        values = np.asarray(values, dtype=float)
        loops = fast.loops(values.size)
        if loops is None:
            return self.integers(values, parts).astype(float)
        limit = fast.whole(part_of(self.LIMIT**2, parts), len(values))
        if parts is not None:
            values = values / np.sqrt(np.maximum(parts, 1))[:, None]
        found: np.ndarray = loops.into_ball(fast.plain(values), self.radius / self.LIMIT, float(self.LIMIT), limit)
        return found

    def totals(self, contributions: Any, parts: Parts = None) -> list[int]:
        z = self._rows(contributions, parts)
        upper = np.triu_indices(self.length)
        total = [0] * self.size
        for start in range(0, len(z), 1 << 16):
            piece = z[start : start + (1 << 16)]
            total = [a + int(b) for a, b in zip(total, (piece.T @ piece)[upper])]
        return total

    def added(self) -> Norms:
        q = self.LIMIT**2
        return Norms((self.length + 1) * q // 2 + 1, q * q, q)

    def replaced(self) -> Norms:
        q = self.LIMIT**2
        return Norms((self.length + 1) * q + 2, 2 * q * q, q)

    @property
    def text(self) -> str:
        return f"products of a row of {self.length} values shrunk into a ball of radius {self.radius:g}"

    @property
    def scale_text(self) -> str:
        return f"{self.unit * UNITS:g} in a sum of products"
