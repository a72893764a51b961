"""The largest value of a sum of trees over the declared records, by branch and bound over regions of features.

Inside a region a tree can give at most its largest reachable leaf, so the sum of those is an upper bound. When the chosen
leaves have a record in common the bound is attained; otherwise some feature keeps two of them apart, and the region is
split there. Every comparison is settled on finitely many *atoms* per feature, with the arithmetic of the model itself.
"""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from ..public.fitted.encoding import Domain, Encoding, next_value
from ..public.fitted.settled import Settled, settle
from ..public.fitted.trees import Tree

TRIED_SPLITS = 6
KEPT_LEAVES = 50_000_000
"""Leaf numbers kept for open regions; beyond it regions find their leaves anew when they are opened."""

Columns: TypeAlias = list[np.ndarray]
"""An array for each feature."""
Spread: TypeAlias = tuple[np.ndarray, Columns, Columns, Columns]
"""Nodes, and their intervals of cells (lowest, highest) and sets of points."""
Cut: TypeAlias = tuple[float, int, list[tuple[int, int, np.ndarray]]]
"""A way to split: its score, the feature, and the interval and points of each half."""


@dataclass(frozen=True)
class Found:
    """A certified upper bound of an objective, and the best record met on the way."""

    bound: float
    value: float
    witness: np.ndarray
    splits: int
    finished: bool


@dataclass
class Region:
    """A product of sets of atoms: an interval of cells and a set of points for each feature."""

    lo: list[int]
    hi: list[int]
    bits: list[np.ndarray]

    def narrowed(self, j: int, lo: int, hi: int, bits: np.ndarray) -> Region:
        lows, highs, sets = self.lo.copy(), self.hi.copy(), self.bits.copy()
        lows[j], highs[j], sets[j] = lo, hi, bits
        return Region(lows, highs, sets)


class Ensemble:
    """Trees on atoms. The raw value of group g at a record is base[g] plus the sum of its trees' leaves there."""

    def __init__(self, encoding: Encoding, trees: Sequence[Tree], base: np.ndarray):
        self.base = np.asarray(base, dtype=float)
        self.groups = np.array([tree.group for tree in trees])
        self.domains = encoding.domains
        self.count = len(trees)
        self._settle_comparisons(settle(encoding, trees))
        self._find_leaves(trees)
        size = [float(np.abs(tree.value[tree.leaf]).max()) for tree in trees]
        self.size = np.abs(self.base) + np.bincount(self.groups, size, len(self.base))

    def _settle_comparisons(self, made: Settled) -> None:
        self._roots, self._left, self._right, self._leaf = made.root, made.left, made.right, made.leaf
        self._value, self._tree = made.value, made.tree
        self._feature, self._cut, self._row = made.feature, made.cut, made.row
        self._masks = [_packed(points) for points in made.points]
        self.cells = [_cells(domain, cuts) for domain, cuts in zip(made.domains, made.cuts)]

    def _find_leaves(self, trees: Sequence[Tree]) -> None:
        """The set of atoms of every reachable leaf, one level of all trees at a time."""
        root = self.everything()
        at = self._roots
        lo = [np.full(len(at), v, dtype=np.int32) for v in root.lo]
        hi = [np.full(len(at), v, dtype=np.int32) for v in root.hi]
        bits = [np.tile(v, (len(at), 1)) for v in root.bits]
        done: list[Spread] = []
        while len(at):
            ends = self._leaf[at]
            done.append((at[ends], [v[ends] for v in lo], [v[ends] for v in hi], [v[ends] for v in bits]))
            keep = np.flatnonzero(~ends)
            parents = at[keep]
            sides = [self._child(parents, keep, lo, hi, bits, left) for left in (True, False)]
            at = np.concatenate([side[0] for side in sides])
            lo, hi, bits = ([np.concatenate(pair) for pair in zip(sides[0][k], sides[1][k])] for k in (1, 2, 3))
        node = np.concatenate([part[0] for part in done])
        self.value, self.tree = self._value[node], self._tree[node]
        self.lo, self.hi, self.bits = (
            [np.concatenate([part[k][j] for part in done]) for j in range(len(self.domains))] for k in (1, 2, 3)
        )
        for lows, highs in zip(self.lo, self.hi):
            # Leaves that hold points alone: an interval that meets no other.
            empty = lows > highs
            lows[empty], highs[empty] = np.iinfo(np.int32).max, -1

    def _child(self, parents: np.ndarray, keep: np.ndarray, lo: Columns, hi: Columns, bits: Columns, left: bool) -> Spread:
        lows, highs, sets = [v[keep] for v in lo], [v[keep] for v in hi], [v[keep] for v in bits]
        alive = np.ones(len(parents), dtype=bool)
        for j in range(len(self.domains)):
            here = np.flatnonzero(self._feature[parents] == j)
            nodes = parents[here]
            masks = self._masks[j][self._row[nodes]]
            if left:
                highs[j][here] = np.minimum(highs[j][here], self._cut[nodes])
                sets[j][here] &= masks
            else:
                lows[j][here] = np.maximum(lows[j][here], self._cut[nodes] + 1)
                sets[j][here] &= ~masks
            alive[here] = (lows[j][here] <= highs[j][here]) | sets[j][here].any(axis=1)
        below = (self._left if left else self._right)[parents]
        return below[alive], [v[alive] for v in lows], [v[alive] for v in highs], [v[alive] for v in sets]

    def everything(self) -> Region:
        lo = [0 if len(cells) else 1 for cells in self.cells]
        hi = [len(cells) - 1 if len(cells) else 0 for cells in self.cells]
        return Region(lo, hi, [_packed(np.ones((1, len(d.points)), dtype=bool))[0] for d in self.domains])

    def atoms(self, j: int) -> int:
        return len(self.cells[j]) + len(self.domains[j].points)

    def random_atoms(self, size: int) -> np.ndarray:
        rng = np.random.default_rng(0)
        return np.column_stack([rng.integers(self.atoms(j), size=size) for j in range(len(self.domains))])

    def position(self, atoms: np.ndarray) -> np.ndarray:
        """A record, as positions, for atom numbers: cells first, points after them."""
        kinds = [np.concatenate([self.cells[j], self.domains[j].points]) for j in range(len(self.domains))]
        return np.array([values[a] for values, a in zip(kinds, atoms)])

    def holds(self, j: int, leaves: Any, region: Region) -> np.ndarray:
        """Which leaves have an atom of feature j in the region."""
        ok = (self.lo[j][leaves] <= region.hi[j]) & (self.hi[j][leaves] >= region.lo[j]) & (region.lo[j] <= region.hi[j])
        bits = region.bits[j]
        return ok | (self.bits[j][leaves] & bits).any(axis=1) if len(bits) else ok

    def has_atom(self, j: int, atom: int) -> np.ndarray:
        cells = len(self.cells[j])
        if atom < cells:
            return (self.lo[j] <= atom) & (self.hi[j] >= atom)
        word, bit = divmod(atom - cells, 64)
        return (self.bits[j][:, word] >> np.uint64(bit)) & np.uint64(1) != 0

    def raw(self, atoms: np.ndarray) -> np.ndarray:
        """The value of every group at one record."""
        here = np.logical_and.reduce([self.has_atom(j, int(a)) for j, a in enumerate(atoms)])
        return self.base + np.bincount(self.groups[self.tree[here]], self.value[here], len(self.base))


def _cells(domain: Domain, cuts: np.ndarray) -> np.ndarray:
    """One value from each stretch of the interval between neighbouring cuts."""
    if not domain.interval:
        return np.empty(0)
    firsts = [domain.lo] + [next_value(c, domain.integer) for c in cuts if c < domain.hi]
    lasts = [c for c in cuts if c < domain.hi] + [domain.hi]
    middles = [min(max((a + b) / 2, a), b) for a, b in zip(firsts, lasts)]
    return np.array([float(np.floor(m)) if domain.integer else m for m in middles])


def _packed(flags: np.ndarray) -> np.ndarray:
    """Rows of flags as 64-bit words."""
    rows, width = flags.shape
    words = -(-width // 64)
    if not words:
        return np.zeros((rows, 0), dtype=np.uint64)
    full = np.zeros((rows, words * 64), dtype=bool)
    full[:, :width] = flags
    return np.packbits(full, axis=1, bitorder="little").view(np.uint64)


def _unpacked(words: np.ndarray, width: int) -> np.ndarray:
    return np.unpackbits(words.view(np.uint8), axis=-1, bitorder="little")[..., :width].astype(bool)


@dataclass(frozen=True)
class Objective:
    """What is maximised: `total` never decreases in any signed group value, and `sign` turns group values into signed ones."""

    sign: np.ndarray
    total: Callable[[np.ndarray], np.ndarray]


def single(sign: int) -> Objective:
    return Objective(np.array([float(sign)]), lambda signed: signed[..., 0])


def log_odds(group: int, groups: int, sign: int) -> Objective:
    """±log(p / (1 − p)) for the softmax probability of one group."""
    signs = np.full(groups, -float(sign))
    signs[group] = float(sign)
    others = [g for g in range(groups) if g != group]
    from scipy.special import logsumexp

    def total(signed: np.ndarray) -> np.ndarray:
        values = signed * signs
        return sign * (values[..., group] - logsumexp(values[..., others], axis=-1))

    return Objective(signs, total)


class Search:
    """Branch and bound for one objective."""

    def __init__(self, ensemble: Ensemble, objective: Objective, slack: float, deadline: float):
        self.objective, self.slack, self.deadline = objective, slack, deadline
        signed = ensemble.value * objective.sign[ensemble.groups[ensemble.tree]]
        order = np.lexsort((-signed, ensemble.tree))
        self.e = _reordered(ensemble, order)
        # Best leaf first within each tree, so that the first leaf left over is the largest reachable one.
        self.signed = signed[order]
        self.base = ensemble.base * objective.sign
        self.value, self.witness = -np.inf, np.zeros(len(ensemble.domains), dtype=int)
        self.rng = np.random.default_rng(0)

    def run(self) -> Found:
        start = time.monotonic()
        self._climb_from_random(until=min(self.deadline, start + 0.2 * (self.deadline - start)))
        splits, closed = 0, -np.inf
        root = self.e.everything()
        everything = np.arange(len(self.signed), dtype=np.int32)
        ticket = itertools.count()
        # Children are bounded twice: by their own leaves and by their parent.
        open_regions: list[tuple[float, int, Region, np.ndarray | None]] = [
            (-self.bound(everything), next(ticket), root, everything)
        ]
        kept = len(everything)
        while open_regions and time.monotonic() < self.deadline:
            negative, _, region, leaves = heapq.heappop(open_regions)
            bound = -negative
            if bound <= self.value + self.slack:
                closed = max(closed, bound)
                open_regions = []
                break
            kept -= len(leaves) if leaves is not None else 0
            leaves = self._leaves_in(region) if leaves is None else leaves
            chosen = self._chosen(leaves)
            shared = self._shared(chosen, region)
            if shared is not None:
                self._offer(shared)
                closed = max(closed, bound)
                continue
            splits += 1
            if splits & (splits - 1) == 0 or splits % 64 == 0:
                self._climb(self._point_in(region, chosen))
            children = self._best_split(region, leaves, chosen)
            closed = closed if children else max(closed, bound)
            for child, inside, limit in children:
                limit = min(limit, bound)
                if limit <= self.value + self.slack:
                    closed = max(closed, limit)
                    continue
                keep = inside if kept + len(inside) < KEPT_LEAVES else None
                kept += len(inside) if keep is not None else 0
                heapq.heappush(open_regions, (-limit, next(ticket), child, keep))
        still = -open_regions[0][0] if open_regions else -np.inf
        best = max(closed, still, self.value)
        return Found(best, self.value, self.e.position(self.witness), splits, still <= self.value + self.slack)

    def bound(self, leaves: np.ndarray) -> float:
        first = self._chosen(leaves)
        totals = self.base + np.bincount(self.e.groups, self.signed[first], len(self.base))
        return float(self.objective.total(totals))

    def _chosen(self, leaves: np.ndarray) -> np.ndarray:
        trees = self.e.tree[leaves]
        return leaves[np.flatnonzero(np.concatenate([[True], trees[1:] != trees[:-1]]))]

    def _leaves_in(self, region: Region) -> np.ndarray:
        alive = np.arange(len(self.signed), dtype=np.int32)
        for j in range(len(self.e.domains)):
            alive = alive[self.e.holds(j, alive, region)]
        return alive

    def _common(self, j: int, chosen: np.ndarray, region: Region) -> tuple[int, int, np.ndarray]:
        lo = max(region.lo[j], int(self.e.lo[j][chosen].max()))
        hi = min(region.hi[j], int(self.e.hi[j][chosen].min()))
        return lo, hi, np.bitwise_and.reduce(self.e.bits[j][chosen], axis=0) & region.bits[j]

    def _shared(self, chosen: np.ndarray, region: Region) -> np.ndarray | None:
        """A record in all chosen leaves, or None."""
        atoms = np.zeros(len(self.e.domains), dtype=int)
        for j in range(len(atoms)):
            lo, hi, bits = self._common(j, chosen, region)
            if lo <= hi:
                atoms[j] = (lo + hi) // 2
            elif bits.any():
                atoms[j] = len(self.e.cells[j]) + int(np.argmax(_unpacked(bits, len(self.e.domains[j].points))))
            else:
                return None
        return atoms

    def _point_in(self, region: Region, chosen: np.ndarray) -> np.ndarray:
        """A record of the region that many chosen leaves hold, feature by feature."""
        atoms = np.zeros(len(self.e.domains), dtype=int)
        for j in range(len(atoms)):
            cells = len(self.e.cells[j])
            votes = np.full(self.e.atoms(j), -1.0)
            if region.lo[j] <= region.hi[j]:
                edges = np.zeros(cells + 1)
                lo, hi = self.e.lo[j][chosen], self.e.hi[j][chosen]
                inside = lo <= hi
                np.add.at(edges, lo[inside], 1)
                np.add.at(edges, hi[inside] + 1, -1)
                span = slice(region.lo[j], region.hi[j] + 1)
                votes[span] = np.cumsum(edges)[span]
            if len(region.bits[j]):
                points = _unpacked(self.e.bits[j][chosen], len(self.e.domains[j].points)).sum(axis=0)
                votes[cells:] = np.where(_unpacked(region.bits[j], len(points)), points, -1)
            atoms[j] = int(np.argmax(votes))
        return atoms

    def _best_split(self, region: Region, leaves: np.ndarray, chosen: np.ndarray) -> list[tuple[Region, np.ndarray, float]]:
        """The most promising cuts are tried; the one whose worse half has the lower bound is taken."""
        after = np.minimum(np.searchsorted(leaves, chosen) + 1, len(leaves) - 1)
        second = leaves[after]
        drop = np.where(self.e.tree[second] == self.e.tree[chosen], self.signed[chosen] - self.signed[second], 0.0)
        weight = drop + 1e-6 * (np.abs(self.signed[chosen]).max() + 1e-300)
        cuts = [cut for j in range(len(self.e.domains)) for cut in self._cuts(j, region, chosen, weight)]
        cuts.sort(key=lambda cut: -cut[0])
        best: list[tuple[Region, np.ndarray, float]] = []
        best_key = (np.inf, np.inf)
        for _, j, halves in cuts[:TRIED_SPLITS]:
            made = []
            for half in halves:
                child = region.narrowed(j, *half)
                inside = leaves[self.e.holds(j, leaves, child)]
                made.append((child, inside, self.bound(inside)))
            key = (max(limit for *_, limit in made), sum(limit for *_, limit in made))
            if key < best_key:
                best, best_key = made, key
        return best

    def _cuts(self, j: int, region: Region, chosen: np.ndarray, weight: np.ndarray) -> list[Cut]:
        """Ways to split feature j that keep chosen leaves apart: (weight of the lighter side, feature, halves)."""
        lo, hi, shared = self._common(j, chosen, region)
        if lo <= hi or shared.any():
            return []
        bits = region.bits[j]
        none = np.zeros_like(bits)
        found: list[Cut] = []
        has_cells = region.lo[j] <= region.hi[j]
        if has_cells and bits.any():
            halves = [(region.lo[j], region.hi[j], none), (1, 0, bits)]
            return [(float(weight.sum()), j, halves)]
        if has_cells:
            return self._cell_cuts(j, region, chosen, weight)
        sets = self.e.bits[j][chosen] & bits
        for part in np.unique(sets, axis=0):
            if not part.any() or np.array_equal(part, bits):
                continue
            within, apart = ~(sets & ~part).any(axis=1), ~(sets & part).any(axis=1)
            score = min(weight[within].sum(), weight[apart].sum()) + 1e-3 * weight[~within].sum()
            found.append((float(score), j, [(1, 0, part), (1, 0, bits & ~part)]))
        return sorted(found, key=lambda cut: -cut[0])[:3]

    def _cell_cuts(self, j: int, region: Region, chosen: np.ndarray, weight: np.ndarray) -> list[Cut]:
        lows, highs = np.maximum(self.e.lo[j][chosen], region.lo[j]), np.minimum(self.e.hi[j][chosen], region.hi[j])
        places = np.unique(highs[highs < region.hi[j]])
        by_high, by_low = np.argsort(highs), np.argsort(lows)
        under = np.concatenate([[0], np.cumsum(weight[by_high])])[np.searchsorted(highs[by_high], places, side="right")]
        upto = np.concatenate([[0], np.cumsum(weight[by_low])])[np.searchsorted(lows[by_low], places, side="right")]
        scores = np.minimum(under, weight.sum() - upto)
        none = np.zeros_like(region.bits[j])
        best = np.argsort(-scores)[:3]
        return [
            (float(scores[k]), j, [(region.lo[j], int(places[k]), none), (int(places[k]) + 1, region.hi[j], none)])
            for k in best
            if scores[k] > 0
        ]

    def _offer(self, atoms: np.ndarray) -> None:
        value = float(self.objective.total(self.e.raw(atoms) * self.objective.sign))
        if value > self.value:
            self.value, self.witness = value, atoms.copy()

    def _climb_from_random(self, until: float) -> None:
        self._climb(self._point_in(self.e.everything(), self._chosen(np.arange(len(self.signed), dtype=np.int32))))
        for _ in range(30):
            if time.monotonic() >= until:
                return
            self._climb(np.array([self.rng.integers(self.e.atoms(j)) for j in range(len(self.e.domains))]))

    def _climb(self, atoms: np.ndarray) -> None:
        """Coordinate ascent: each feature in turn takes its best atom, until none improves."""
        atoms = atoms.copy()
        here = [self.e.has_atom(j, int(a)) for j, a in enumerate(atoms)]
        misses = np.sum([~ok for ok in here], axis=0, dtype=np.int16)
        best, improved = -np.inf, True
        while improved and time.monotonic() < self.deadline:
            improved = False
            for j in self.rng.permutation(len(atoms)):
                if self.e.atoms(j) < 2:
                    continue
                totals = self._along(int(j), np.flatnonzero(misses - ~here[j] == 0))
                top = int(np.argmax(totals))
                if totals[top] > best + self.slack:
                    best, improved = float(totals[top]), True
                    if top != atoms[j]:
                        now = self.e.has_atom(int(j), top)
                        misses += here[j].astype(np.int16) - now
                        here[j], atoms[j] = now, top
        self._offer(atoms)

    def _along(self, j: int, leaves: np.ndarray) -> np.ndarray:
        """The objective at every atom of feature j, given the leaves that hold the other features."""
        cells, groups = len(self.e.cells[j]), len(self.base)
        values, group = self.signed[leaves], self.e.groups[self.e.tree[leaves]]
        totals = np.tile(self.base, (self.e.atoms(j), 1))
        if cells:
            edges = np.zeros((cells + 1, groups))
            lo, hi = self.e.lo[j][leaves], self.e.hi[j][leaves]
            inside = lo <= hi
            np.add.at(edges, (lo[inside], group[inside]), values[inside])
            np.add.at(edges, (hi[inside] + 1, group[inside]), -values[inside])
            totals[:cells] += np.cumsum(edges, axis=0)[:cells]
        if len(self.e.domains[j].points):
            held = _unpacked(self.e.bits[j][leaves], len(self.e.domains[j].points)).T
            for g in range(groups):
                totals[cells:, g] += held @ np.where(group == g, values, 0.0)
        return self.objective.total(totals)


def _reordered(ensemble: Ensemble, order: np.ndarray) -> Ensemble:
    made = object.__new__(Ensemble)
    made.__dict__.update(ensemble.__dict__)
    made.value, made.tree = ensemble.value[order], ensemble.tree[order]
    made.lo, made.hi, made.bits = ([v[order] for v in part] for part in (ensemble.lo, ensemble.hi, ensemble.bits))
    return made


def largest(ensemble: Ensemble, objective: Objective, slack: float, deadline: float) -> Found:
    return Search(ensemble, objective, slack, deadline).run()
