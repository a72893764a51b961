"""Shapley vectors from the answers of a model on mixtures of two records: enumeration, permutations, kernel regression.

A coalition is the set of features that a mixture takes from the record asked about; the others come from a background record.
Every estimator here is linear in the answers: φ = answers · weights + f(x) · full, by a *design* that is public and the same
whatever the data. Features that are given nothing to do get exactly nothing, and the parts add up to f(x) − f(z) exactly.
A group of features is one player: a mixture takes all of it from one record. Claim: shapley-groups
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from ...errors import PlanError
from ...public.asking import AS_THEY_ARE, Asking
from ...public.fitted.read import Read, read
from ...public.frozen import settle
from ...public.groups import Players
from ...public.model import Model
from ...public.rows import Rows
from ...public.schema import Schema
from .radii import Radii
from .trees import prefixes

CELLS = 1 << 22
"""Cells of model input held at once."""

MOST_ENUMERATED = 12
MOST_RANKS = 1 << 24
"""Places of features in public orders that are held in memory, over all groups."""

RecordAsked = tuple[tuple[str, float], ...]
Path = Callable[[slice, np.ndarray, np.ndarray], np.ndarray]
"""Answers along orders: of some records, with the group of each, in the orders of every group."""


@dataclass(frozen=True, eq=False)
class Design:
    """Coalitions to ask about (rows of `masks`), what each answer gives to each feature, and what f(x) gives."""

    masks: np.ndarray
    weights: np.ndarray
    full: np.ndarray

    def radii(self) -> Radii:
        """Sizes of the vectors this design can give for any bounded model, around (f(x) − middle of the range)·full.

        L∞, spread and pair are exact; L1 and L2 are upper bounds. Claim: shapley-design

        >>> enumeration(2).radii().linf
        0.75
        """
        b = self.weights
        d = b.shape[1]
        rows = np.abs(b).sum(axis=0) / 2
        lengths = np.linalg.norm(b, axis=1)
        some = lengths > 0
        scaled = b[some] / np.sqrt(lengths[some])[:, None]
        l2 = math.sqrt(max(float(np.linalg.eigvalsh(scaled.T @ scaled)[-1]), 0.0) * float(lengths.sum())) / 2
        l2 = min(l2, float(lengths.sum()) / 2, float(np.linalg.norm(rows)))
        spread = pair = 0.0
        for i in range(1, d):
            spread = max(spread, float(np.abs(b[:, :i] - b[:, [i]]).sum(axis=0).max()) / 2)
            pair = max(pair, float(np.abs(b[:, :i] + b[:, [i]]).sum(axis=0).max()) / 2)
        linf = float(rows.max())
        return Radii(linf, min(math.sqrt(d) * l2, float(rows.sum())), l2, spread, max(pair, spread, linf))


@functools.lru_cache(maxsize=8)
def enumeration(features: int) -> Design:
    """All coalitions: exact."""
    d = features
    if not 1 <= d <= MOST_ENUMERATED:
        raise PlanError(f"{d} features: all coalitions are asked about for 1 to {MOST_ENUMERATED} features; use permutations.")
    masks = (np.arange(2**d - 1)[:, None] >> np.arange(d)) & 1 == 1
    weight = np.array([1 / (d * math.comb(d - 1, s)) for s in range(d)])
    size = masks.sum(axis=1)
    inside = weight[np.maximum(size - 1, 0)][:, None]
    return Design(masks, np.where(masks, inside, -weight[size][:, None]), np.full(d, 1 / d))


@functools.lru_cache(maxsize=32)
def kernel_design(features: int, samples: int, seed: int) -> Design:
    """Least squares over public coalitions drawn by the Shapley kernel (each with its complement), efficiency kept exactly.

    Coalitions are drawn by the kernel and therefore not weighted by it. With as many samples as coalitions, all of them are
    asked about, weighted by the kernel, and the result is exact.
    """
    d = features
    if d == 1:
        return enumeration(1)
    if d <= 20 and samples >= 2**d - 2:
        masks = (np.arange(1, 2**d - 1)[:, None] >> np.arange(d)) & 1 == 1
        size = masks.sum(axis=1)
        weight = (d - 1) / (np.array([math.comb(d, int(s)) for s in range(d + 1)], dtype=float)[size] * size * (d - size))
    else:
        rng = np.random.Generator(np.random.PCG64(seed))
        chance = 1 / (np.arange(1, d) * (d - np.arange(1.0, d)))
        size = np.searchsorted(np.cumsum(chance / chance.sum())[:-1], rng.random(samples // 2), side="right") + 1
        drawn = rng.random((len(size), d)).argsort(axis=1).argsort(axis=1) < size[:, None]
        masks, count = np.unique(np.concatenate([drawn, ~drawn]), axis=0, return_counts=True)
        weight = count.astype(float)
    z = masks.astype(float)
    moment = (z * weight[:, None]).T @ z
    if np.linalg.matrix_rank(moment) < d:
        raise PlanError(f"samples={samples}: too few coalitions for {d} features; use at least {8 * d}.")
    inverse = np.linalg.inv(moment)
    shares = inverse.sum(axis=1) / inverse.sum()
    # φ = G(y − y0) + shares·(f(x) − y0 − 1·G(y − y0)), with G the unconstrained solution.
    free = inverse @ (z * weight[:, None]).T
    tied = free - np.outer(shares, free.sum(axis=0))
    nobody = -shares - tied.sum(axis=1)
    return Design(np.concatenate([masks, np.zeros((1, d), dtype=bool)]), np.concatenate([tied.T, nobody[None]]), shares)


class Mixtures:
    """A model asked about mixtures of one public record and background records.

    Of a model that is read, atoms are mixed and not values: a record is turned into them once, not once per mixture.
    """

    def __init__(
        self,
        model: Model,
        record: RecordAsked,
        schema: Schema,
        asking: Asking = AS_THEY_ARE,
        players: Players | None = None,
    ):
        self.ready, self.asking = model.ready(schema, asking), asking
        made = read(self.ready)
        self.read = made if isinstance(made, Read) else None
        self.names = [name for name, _ in record]
        self.asked = np.array([value for _, value in record])
        self.players = players or Players.single(self.names)

    def prediction(self) -> float:
        """f(x), inside the declared range."""
        if self.read is not None:
            return float(self._of_atoms(list(self._atoms(self.asked[None]).T))[0])
        one = {name: np.array([value]) for name, value in zip(self.names, self.asked)}
        return float(self.ready.predict(self.ready.inputs(one), AS_THEY_ARE)[0])

    def atoms_of(self, rows: Rows) -> np.ndarray | None:
        """The records of a batch as atoms, shared by all that ask for them; None of a model that is asked."""
        return None if self.read is None else rows.atoms(self.read)

    def answers(self, columns: list[np.ndarray]) -> np.ndarray:
        """Predictions for records given column by column, in arrays of any one shape."""
        if self.read is not None:
            return self._of_atoms([self.read.settled.atoms(j, column) for j, column in enumerate(columns)])
        given = self.ready.inputs({name: column.ravel() for name, column in zip(self.names, columns)})
        return self.ready.predict(given, self.asking).reshape(columns[0].shape)

    def vectors(self, background: np.ndarray, design: Design, atoms: np.ndarray | None = None) -> np.ndarray:
        """One Shapley vector per background record, a bounded number of mixtures at a time; `atoms` are those of the records."""
        n, d = background.shape
        out = np.tile(self.prediction() * design.full, (n, 1))
        asked, given, answers = self._mixed(background, atoms)
        at_once = max(1, CELLS // d)
        # Whatever the number of records: how sums are cut decides how they are rounded.
        rows = max(1, at_once // len(design.masks))
        step = max(1, at_once // rows)
        for start in range(0, n, rows):
            piece = slice(start, start + rows)
            for first in range(0, len(design.masks), step):
                some = slice(first, first + step)
                masks, z = design.masks[some], given[piece]
                columns = [np.where(masks[:, p], asked[j], z[:, [j]]) for j, p in enumerate(self.players.of)]
                # A product for each record: how one for all of them rounds depends on their number.
                out[piece] += np.matmul(answers(columns)[:, None, :], design.weights[some])[:, 0]
        return out

    def along_orders(
        self, background: np.ndarray, group: np.ndarray, ranks: np.ndarray, atoms: np.ndarray | None = None
    ) -> np.ndarray:
        """Mean gains along orders; `ranks` are (group, order, player): the place of each player in each order."""
        n, d = background.shape
        count = ranks.shape[1]
        along = self._paths_asked(background) if self.read is None else self._paths_walked(self.read, background, atoms)
        out = np.zeros((n, ranks.shape[2]))
        orders = max(1, min(count, CELLS // d**2))
        # Walks answer along a whole order without a mixture being made.
        rows = max(1, min(n, CELLS // (orders * d * (d if self.read is None else 4))))
        for start in range(0, n, rows):
            piece = slice(start, start + rows)
            for first in range(0, count, orders):
                some = ranks[:, first : first + orders]
                path, rank = along(piece, group[piece], some), some[group[piece]]
                out[piece] += np.take_along_axis(np.diff(path, axis=2), rank, axis=2).sum(axis=1)
        return out / count

    def _paths_asked(self, background: np.ndarray) -> Path:
        """Answers along orders by asking about every mixture."""
        many = len(self.players.names)
        inner = np.arange(1, many)
        ends = self.answers(list(background.T)), np.full(len(background), self.prediction())

        def along(piece: slice, group: np.ndarray, ranks: np.ndarray) -> np.ndarray:
            rank, z = ranks[group], background[piece]
            path, each = np.empty((*rank.shape[:2], many + 1)), enumerate(self.players.of)
            path[:, :, 1:many] = self.answers(
                [np.where(rank[:, :, [p]] < inner, self.asked[j], z[:, [j], None]) for j, p in each]
            )
            path[:, :, 0], path[:, :, many] = (end[piece, None] for end in ends)
            return path

        return along

    def _paths_walked(self, made: Read, background: np.ndarray, atoms: np.ndarray | None) -> Path:
        """Answers along orders by one walk with both records for all mixtures of a tree."""
        given, asked = self._atoms(background) if atoms is None else atoms, self._atoms(self.asked[None])[0]

        def along(piece: slice, group: np.ndarray, ranks: np.ndarray) -> np.ndarray:
            features, ends = (ranks, None) if self.players.alone else _one_after_another(ranks, self.players)
            raw = [prefixes(trees, asked, given[piece], group, features) for trees in made.groups]
            path = self.ready.declared(made.linked(raw))
            return path if ends is None else np.take_along_axis(path, ends[group], axis=2)

        return along

    def _mixed(
        self, background: np.ndarray, atoms: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray, Callable[[list[np.ndarray]], np.ndarray]]:
        """What mixtures are made of: the record asked about, the others, and what answers such columns."""
        if self.read is None:
            return self.asked, background, self.answers
        return self._atoms(self.asked[None])[0], self._atoms(background) if atoms is None else atoms, self._of_atoms

    def _atoms(self, records: np.ndarray) -> np.ndarray:
        assert self.read is not None
        return self.read.atoms({name: records[:, j] for j, name in enumerate(self.names)})

    def _of_atoms(self, columns: list[np.ndarray]) -> np.ndarray:
        assert self.read is not None
        answers = self.read.answers(np.stack([column.ravel() for column in columns], axis=1))
        return self.ready.declared(answers).reshape(columns[0].shape)


def _one_after_another(ranks: np.ndarray, players: Players) -> tuple[np.ndarray, np.ndarray]:
    """Orders of the features in which those of one player follow each other, and where in them so many players are through."""
    of = np.array(players.of)
    sizes, order = np.bincount(of), np.argsort(ranks, axis=2)
    ends = np.concatenate([np.zeros((*ranks.shape[:2], 1), dtype=np.int64), np.cumsum(sizes[order], axis=2)], axis=2)
    within = np.array([int((of[:j] == p).sum()) for j, p in enumerate(of)])
    starts = np.take_along_axis(ends, ranks.astype(np.int64), axis=2)
    return (starts[:, :, of] + within).astype(ranks.dtype), ends


def positions(rows: Rows, names: list[str]) -> np.ndarray:
    """The records of a batch, a column a feature."""
    return np.column_stack([rows[name] for name in names])


def playing(record: RecordAsked, players: Players | None) -> tuple[str, ...]:
    """Whom values are computed for: the players, or every feature of the record asked about."""
    return tuple(name for name, _ in record) if players is None else players.names


@dataclass(frozen=True)
class Enumerated:
    """Exact Shapley vectors by asking about all coalitions: 2^d model calls per background record, for at most 12 players."""

    model: Model
    record: RecordAsked
    players: Players | None = None

    @property
    def features(self) -> tuple[str, ...]:
        return playing(self.record, self.players)

    def __call__(self, rows: Rows) -> np.ndarray:
        mixtures = Mixtures(self.model, self.record, rows.schema, rows.asking, self.players)
        return mixtures.vectors(positions(rows, mixtures.names), enumeration(len(self.features)), mixtures.atoms_of(rows))


@dataclass(frozen=True)
class Permuted:
    """Shapley vectors averaged over public orders of the features; each order is exactly efficient.

    Per background record `permutations` orders are used (an even number: each with its reverse), permutations·(d − 1) + 1
    model calls. Which of `groups` public sets of orders a record gets is decided by a public hash of the record itself, so
    that the errors of different records differ and average out over the background; a record's vector still depends on
    nothing but that record. Many permutations of many features need fewer groups: memory is limited.
    """

    model: Model
    record: RecordAsked
    permutations: int = 8
    seed: int = 0
    groups: int = 1024
    players: Players | None = None

    def __post_init__(self) -> None:
        if self.permutations < 2 or self.permutations % 2 or self.groups < 1 or self.seed < 0:
            raise PlanError(
                f"permutations={self.permutations!r}, groups={self.groups!r}, seed={self.seed!r}: give an even number of "
                "permutations from 2 on, at least one group and a seed of at least 0."
            )
        many = len(self.features)
        one = self.permutations * many
        if one > MOST_RANKS:
            raise PlanError(
                f"permutations={self.permutations!r} of {many} features do not fit into memory: use at most "
                f"{MOST_RANKS // many // 2 * 2}."
            )
        settle(self, groups=min(self.groups, MOST_RANKS // one))

    @property
    def features(self) -> tuple[str, ...]:
        return playing(self.record, self.players)

    def __call__(self, rows: Rows) -> np.ndarray:
        mixtures = Mixtures(self.model, self.record, rows.schema, rows.asking, self.players)
        background = positions(rows, mixtures.names)
        d = len(self.features)
        if math.factorial(min(d, MOST_ENUMERATED)) <= self.permutations:
            # Fewer orders exist than were asked for; the mean over all of them is what enumeration gives.
            return mixtures.vectors(background, enumeration(d), mixtures.atoms_of(rows))
        group = (_hash(background) % np.uint64(self.groups)).astype(np.intp)
        ranks = _ranks(d, self.permutations, self.groups, self.seed)
        return mixtures.along_orders(background, group, ranks, mixtures.atoms_of(rows))


@functools.lru_cache(maxsize=8)
def _ranks(features: int, permutations: int, groups: int, seed: int) -> np.ndarray:
    """(group, order, feature or player): the place of each in public orders, drawn in pairs of an order and its reverse."""
    drawn = np.random.Generator(np.random.PCG64(seed)).random((groups, permutations // 2, features))
    ranks = drawn.argsort(axis=2).argsort(axis=2).astype(np.int16)
    return np.concatenate([ranks, features - 1 - ranks], axis=1)


def _hash(background: np.ndarray) -> np.ndarray:
    """A number for every record, from its values alone (−0 and 0 are one value, and so are all NaN)."""
    bits = np.where(np.isnan(background), np.nan, background + 0.0).view(np.uint64)
    state = np.zeros(len(background), dtype=np.uint64)
    for column in bits.T:
        # The finaliser of splitmix64 after each column: every bit of a value reaches every bit of the state.
        state = (state ^ column) + np.uint64(0x9E3779B97F4A7C15)
        state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        state = state ^ (state >> np.uint64(31))
    return state


@dataclass(frozen=True)
class Regressed:
    """Shapley vectors by kernel regression with one public design for all records; `design.radii()` are its own sizes."""

    model: Model
    record: RecordAsked
    samples: int = 2048
    seed: int = 0
    players: Players | None = None
    design: Design = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        settle(self, design=kernel_design(len(self.features), self.samples, self.seed))

    @property
    def features(self) -> tuple[str, ...]:
        return playing(self.record, self.players)

    def __call__(self, rows: Rows) -> np.ndarray:
        mixtures = Mixtures(self.model, self.record, rows.schema, rows.asking, self.players)
        return mixtures.vectors(positions(rows, mixtures.names), self.design, mixtures.atoms_of(rows))
