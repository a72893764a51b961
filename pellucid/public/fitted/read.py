"""Models that are read: sums of trees whose structure is known, and whose answers are computed here.

Leaves are rounded once, to multiples of a tiny power of two. A record's raw value is then a sum of whole numbers: no order of the
trees, no batch, no thread and no library can change a bit of it, and no code of the model is called with a record. So it is a
function of one row because of how it is computed. Claim: integer-leaves
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ...errors import ModelError
from ..model import ReadyModel
from ..schema import Columns
from ..silence import silenced
from . import trees as links
from .encoding import FIX, Encoding, take_apart
from .reading import adds_up_trees, sum_of_trees
from .settled import Settled, settle
from .trees import SumOfTrees
from .walks import Grids, Walkable, along, exchanged, is_compiled, sums, unit_for, walkable

FINE = 2.0**-40
"""Rounding of leaves moves no answer by more than this part of the model's range, or the model is not read."""
COMPARED = 512
"""Public records at which what was read must answer as the model does."""

Change = Mapping[str, float | np.ndarray]


@dataclass(frozen=True, eq=False)
class Read:
    """A model that is computed here."""

    ready: ReadyModel
    trees: SumOfTrees
    settled: Settled
    unit: float
    """What leaves are multiples of."""

    @functools.cached_property
    def groups(self) -> tuple[Walkable, ...]:
        """The trees of every group."""
        group = np.array([tree.group for tree in self.trees.trees])
        return tuple(walkable(self.settled, np.flatnonzero(group == g), self.unit) for g in range(len(self.trees.base)))

    @property
    def rounding(self) -> float:
        """How far rounding of leaves can move a raw value."""
        return (len(self.trees.trees) + 1) * self.unit / 2

    @property
    def text(self) -> str:
        """For certificates."""
        count, part = len(self.trees.trees), math.ceil(math.log2(self.moved / self.ready.model.range))
        return (
            f"read and computed by Pellucid from its {count:,} tree{'s' if count > 1 else ''}; leaf values are rounded, "
            f"which moves no answer by more than 2^{part} of the range"
        )

    @property
    def moved(self) -> float:
        """How far rounding of leaves can move an answer."""
        if self.trees.link == "exp":
            # Answers above the declared range are clipped, and so is what moves there.
            return self.rounding * 2 * max(abs(v) for v in self.ready.model.output)
        return self.rounding

    def atoms(self, columns: Columns) -> np.ndarray:
        """Records as atoms, a column a feature."""
        names = self.ready.features
        found = np.empty((len(columns[names[0]]), len(names)), dtype=np.int32)
        for j, name in enumerate(names):
            found[:, j] = self.settled.atoms(j, columns[name])
        return found

    def answers(self, atoms: np.ndarray) -> np.ndarray:
        """Its answers, not clipped yet."""
        return self._linked([sums(group, atoms) for group in self.groups])

    def along(self, atoms: np.ndarray, values: Mapping[str, np.ndarray]) -> np.ndarray:
        """Its answers with one feature at a time set to each of some values, feature after feature; a column for each."""
        grids = Grids(tuple(map(self._place, values)), tuple(self.settled.atoms(self._place(n), v) for n, v in values.items()))
        return self._linked([along(group, atoms, grids) for group in self.groups])

    def exchanged(self, atoms: np.ndarray, donors: Columns, groups: Sequence[Sequence[str]]) -> np.ndarray:
        """Its answers with the features of one group at a time taken from a donor; a column for each group."""
        given = atoms.copy()
        for name in {name for group in groups for name in group}:
            given[:, self._place(name)] = self.settled.atoms(self._place(name), donors[name])
        places = [[self._place(name) for name in group] for group in groups]
        return self._linked([exchanged(group, atoms, given, places) for group in self.groups])

    def changed(self, atoms: np.ndarray, changes: Change) -> np.ndarray:
        """Atoms with some features set to other values, one for all records or one for each."""
        atoms = atoms.copy()
        for name, value in changes.items():
            if name in self.ready.features:
                atoms[:, self._place(name)] = self.settled.atoms(self._place(name), np.atleast_1d(np.asarray(value, dtype=float)))
        return atoms

    def _place(self, name: str) -> int:
        return self.ready.features.index(name)

    def _linked(self, raw: Sequence[np.ndarray]) -> np.ndarray:
        # A whole number of at most 61 bits times a power of two: rounded once, the same way wherever it stands.
        numbers = np.stack([part * self.unit + base for part, base in zip(raw, self.trees.base)])
        answers = links.answers(self.trees.link, self.trees.group, numbers)
        precision = self.ready.model.precision
        return answers if precision is None else np.round(answers / precision) * precision


def read(ready: ReadyModel) -> Read | str:
    """A model as it is computed here, or in words why it is asked."""
    # Kept beside the model: it is read anew when the model passes a trial as another one.
    kept = vars(ready).get("_read")
    if kept is None:
        kept = vars(ready)["_read"] = _read(ready)
    return kept


def _read(ready: ReadyModel) -> Read | str:
    parts = take_apart(ready.model.predictor)
    kind = type(parts.core)
    if not adds_up_trees(kind):
        return f"a {kind.__name__} is no sum of trees that can be read"
    if parts.targets:
        return "it transforms its target"
    if not is_compiled():
        return "trees are walked by compiled loops, which need Numba: pip install 'pellucid[fast]'"
    try:
        with silenced():
            made = _settled(ready, sum_of_trees(ready, parts))
            _compare(made)
        return made
    except ModelError as refusal:
        return str(refusal).removesuffix(f". {FIX}").replace("output_range cannot", "no way was found to")
    except Unlike as reason:
        return str(reason)


class Unlike(Exception):
    """Why a model is not what was read of it, in words."""


def _settled(ready: ReadyModel, trees: SumOfTrees) -> Read:
    leaves = [np.abs(tree.value[tree.leaf]) for tree in trees.trees]
    if not all(np.isfinite(part).all() for part in leaves) or not np.isfinite(trees.base).all():
        raise Unlike("some of its leaves are no numbers")
    largest = sum(float(part.max()) for part in leaves)
    made = Read(ready, trees, settle(trees.encoding, trees.trees), unit_for(largest, len(leaves)))
    if made.moved > FINE * ready.model.range:
        raise Unlike("its leaves are so large beside its declared range that rounding them would show")
    return made


def _compare(made: Read) -> None:
    """What was read must answer as the model does, at records on both sides of comparisons as well."""
    encoding, ready = made.trees.encoding, made.ready
    records = np.concatenate([encoding.sample(COMPARED // 2, seed=3), _near_cuts(made, encoding)])
    columns = {name: np.ascontiguousarray(records[:, j]) for j, name in enumerate(ready.features)}
    ours, theirs = made.answers(made.atoms(columns)), ready.raw(encoding.inputs(records))
    size = max(ready.model.range, float(np.abs(theirs).max()))
    if not np.allclose(ours, theirs, rtol=0, atol=size * (2.0**-16 if made.trees.single else 2.0**-30)):
        raise Unlike("its answers do not follow from its fitted parameters")


def _near_cuts(made: Read, encoding: Encoding) -> np.ndarray:
    """Records whose numbers lie at cuts, or just above them."""
    rng, records = np.random.default_rng(4), encoding.sample(COMPARED // 2, seed=5)
    for j, (domain, cuts) in enumerate(zip(made.settled.domains, made.settled.cuts)):
        if domain.interval and len(cuts):
            chosen = rng.choice(cuts, len(records))
            above = np.minimum(chosen + 1.0 if domain.integer else np.nextafter(chosen, np.inf), domain.hi)
            here = rng.random(len(records)) < 0.5
            records[here, j] = np.where(rng.random(len(records)) < 0.5, chosen, above)[here]
    return records
