"""How people are spread along columns, as far as it was released, and made-up people who are spread so."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ..errors import PlanError
from .schema import Columns, Schema


@dataclass(frozen=True)
class Spread:
    """The shares of the people in the cells of one column, in inner form."""

    feature: str
    """The column."""
    values: tuple[Any, ...]
    """What stands for each cell: its value, or the middle of an interval; "missing" where it has none."""
    edges: tuple[float, ...]
    """Where intervals begin and end; empty where every value has a cell."""
    shares: tuple[float, ...]
    """The part of the people in each cell; they add up to one."""

    def drawn(self, schema: Schema, size: int, rng: np.random.Generator) -> np.ndarray:
        """Values of so many made-up people, each cell as often as it should be, up to one, in random order."""
        feature, ends = schema[self.feature], np.cumsum(self.shares)
        at = ends[-1] * (np.arange(size) + rng.random()) / size
        cells = rng.permutation(np.minimum(np.searchsorted(ends, at, side="right"), np.flatnonzero(self.shares)[-1]))
        if not self.edges:
            places = [np.nan if feature.fills_nan and v == "missing" else feature.position(v) for v in self.values]
            return np.array(places, dtype=float)[cells]
        inside = np.minimum(cells, len(self.edges) - 2)
        low, high = np.array(self.edges)[inside], np.array(self.edges)[inside + 1]
        found = np.clip(low + (high - low) * rng.random(size), feature.lo, feature.hi)  # type: ignore[union-attr]
        found = np.rint(found) if getattr(feature, "integer", False) else found
        # The cell after the last interval is that of missing values.
        return np.where(cells > len(self.edges) - 2, np.nan, found)


def spreads_of(given: Iterable[Any]) -> tuple[Spread, ...]:
    """Spreads, or released distributions, as spreads; one for a column."""
    if isinstance(given, str | Spread) or not isinstance(given, Iterable):
        given = (given,)
    found = {}
    for one in given:
        spread = one if isinstance(one, Spread) else getattr(one, "spread", None)
        if not isinstance(spread, Spread):
            raise PlanError(
                f"people={type(one).__name__}: give released distributions, as session.release(pel.Distribution(…)) gives."
            )
        found[spread.feature] = spread
    return tuple(found[name] for name in sorted(found))


def made_up_people(schema: Schema, spreads: Sequence[Spread], size: int, seed: int) -> Columns:
    """Public records; columns whose spread was released have it. Columns are taken as independent of each other."""
    columns = dict(schema.sample(size, seed))
    for spread in spreads:
        if spread.feature in schema:
            # By the name of the column: what another one is spread like changes nothing here.
            rng = np.random.default_rng([seed, zlib.crc32(spread.feature.encode("utf-8", "surrogatepass"))])
            columns[spread.feature] = spread.drawn(schema, size, rng)
    return columns


def digest(spreads: Sequence[Spread]) -> str:
    """What requests know spreads by."""
    text = json.dumps([asdict(one) for one in spreads], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()
