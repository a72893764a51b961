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
from typing import Any

import numpy as np

from ...errors import ModelError
from ..model import ReadyModel
from ..schema import Columns
from ..silence import silenced
from . import trees as links
from .compiled import compiled, is_compiled
from .encoding import FIX, Encoding, take_apart
from .reading import adds_up_trees, sum_of_trees
from .settled import Settled, settle
from .trees import SumOfTrees
from .walks import Grids, Walkable, along, changed, sums, unit_for, walkable

FINE = 2.0**-40
"""Rounding of leaves moves no answer by more than this part of the model's range, or the model is not read."""
COMPARED = 512
"""Public records at which what was read must answer as the model does."""


@dataclass(frozen=True, eq=False)
class Picked:
    """One of a few values for every record."""

    values: np.ndarray
    index: np.ndarray
    ndim = 1

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self.values[self.index], dtype=dtype)


Changes = Mapping[str, float | np.ndarray | Picked]


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
        return self.linked([sums(group, atoms) for group in self.groups])

    def table(self, atoms: np.ndarray, each: Sequence[Changes]) -> np.ndarray:
        """Its declared answers with some features set to other values, a column for each set of changes.

        One feature set to one value for all records is a point of a grid; two of them are points of as many grids as the first
        one has values; all other changes are of single records. Each kind is walked all at once.
        """
        points: dict[str, list[int]] = {}
        pairs: dict[tuple[str, float], list[int]] = {}
        others: list[int] = []
        for k, changes in enumerate(each):
            single = all(np.ndim(value) == 0 for value in changes.values())
            if single and len(changes) == 1:
                points.setdefault(next(iter(changes)), []).append(k)
            elif single and len(changes) == 2:
                name, value = next(iter(changes.items()))
                pairs.setdefault((name, float(np.asarray(value))), []).append(k)
            else:
                others.append(k)
        if len(others) == len(each):
            return self._one_by_one(atoms, each)
        places = [k for some in points.values() for k in some]
        found = None
        if points:
            grids = [np.array([each[k][name] for k in some], dtype=float) for name, some in points.items()]
            found = self.along(atoms, tuple(points), grids)
            if len(places) == len(each) and places == list(range(len(each))):
                return found
        out = np.empty((len(atoms), len(each)))
        if found is not None:
            out[:, places] = found
        for (name, value), some in pairs.items():
            rest = [{other: v for other, v in each[k].items() if other != name} for k in some]
            out[:, some] = self.table(self._with(atoms, name, value), rest)
        if others:
            out[:, others] = self._one_by_one(atoms, [each[k] for k in others])
        return out

    def with_donors(self, atoms: np.ndarray, donors: np.ndarray, groups: Sequence[Sequence[str]]) -> np.ndarray:
        """Its declared answers when each group of features comes from other records; both as atoms."""
        columns = [{j: j for j in map(self._place, group)} for group in groups]
        return self.declared([changed(trees, atoms, donors, columns) for trees in self.groups])

    def _one_by_one(self, atoms: np.ndarray, each: Sequence[Changes]) -> np.ndarray:
        """Whatever is changed, of every record by itself."""
        if not any(each):
            return np.repeat(self.ready.declared(self.answers(atoms))[:, None], len(each), axis=1)
        columns: list[dict[int, int]] = []
        given: list[np.ndarray] = []
        for changes in each:
            columns.append({})
            for name, value in changes.items():
                columns[-1][self._place(name)] = len(given)
                given.append(self._given(name, value, len(atoms)))
        table = np.stack(given, axis=1) if given else np.empty((len(atoms), 0), dtype=np.int32)
        return self.declared([changed(trees, atoms, table, columns) for trees in self.groups])

    def _given(self, name: str, value: Any, records: int) -> np.ndarray:
        """The atoms of what a feature is set to, one for every record."""
        j = self._place(name)
        if isinstance(value, Picked):
            found: np.ndarray = self.settled.atoms(j, value.values)[value.index]
            return found
        return np.broadcast_to(self.settled.atoms(j, np.atleast_1d(np.asarray(value, dtype=float))), records)

    def along(self, atoms: np.ndarray, names: Sequence[str], values: Sequence[np.ndarray]) -> np.ndarray:
        """Its declared answers with each of these features set to each of its values, feature after feature."""
        features = tuple(map(self._place, names))
        grids = Grids(features, tuple(self.settled.atoms(j, points) for j, points in zip(features, values)))
        return self.declared([along(group, atoms, grids) for group in self.groups])

    def _with(self, atoms: np.ndarray, name: str, value: float) -> np.ndarray:
        """Atoms with one feature set to one value."""
        atoms = atoms.copy()
        atoms[:, self._place(name)] = self._given(name, value, len(atoms))
        return atoms

    def _place(self, name: str) -> int:
        return self.ready.features.index(name)

    def declared(self, raw: Sequence[np.ndarray]) -> np.ndarray:
        """Its declared answers from the whole-number sums of its groups, arrays of two dimensions: those of `linked`, clipped."""
        link, (low, high) = self.trees.link, self.ready.model.output
        loops = compiled(raw[0].size) if len(raw) == 1 and self.ready.model.precision is None else None
        if loops is None or not raw[0].size or link not in ("identity", "logistic"):
            return self.ready.declared(self.linked(raw))
        whole, base = np.ascontiguousarray(raw[0]), float(self.trees.base[0])
        out = np.empty(whole.shape)
        if link == "identity":
            loops.clipped(whole, self.unit, base, low, high, out)
            return out
        # Neighbours on a grid are often alike, and the link is what takes longest.
        numbers = np.empty(whole.size + 1)
        numbers = numbers[: loops.distinct(whole, self.unit, base, numbers)]
        loops.spread(whole, links.answers(link, 0, [numbers]), low, high, out)
        return out

    def linked(self, raw: Sequence[np.ndarray]) -> np.ndarray:
        """Its answers from the whole-number sums of its groups, arrays of any one shape; not clipped yet."""
        # A whole number of at most 61 bits times a power of two: rounded once, the same way wherever it stands.
        numbers = [np.multiply(part, self.unit) for part in raw]
        for part, base in zip(numbers, self.trees.base):
            part += base
        answers = links.answers(self.trees.link, self.trees.group, numbers)
        if self.trees.offset:
            answers -= self.trees.offset
        precision = self.ready.model.precision
        return answers if precision is None else np.round(answers / precision) * precision


def remark(ready: ReadyModel, asked: bool = True) -> str:
    """For certificates, of a sum of trees: how it is computed, or why it is asked, if it is."""
    made = read(ready) if asked else trees_of(ready)
    if isinstance(made, Read):
        return made.text
    return f"asked as a black box: {made}" if adds_up_trees(type(take_apart(ready.model.predictor).core)) else ""


def read(ready: ReadyModel) -> Read | str:
    """A model whose answers are computed here, or in words why it is asked."""
    made = trees_of(ready)
    if isinstance(made, Read) and not is_compiled():
        return "trees are walked by compiled loops, which need Numba: pip install numba"
    return made


def trees_of(ready: ReadyModel) -> Read | str:
    """The trees of a model, whether or not there are compiled loops to walk them with; or in words why they are not known."""
    # Kept beside the model: it is read anew when the model passes a trial as another one.
    kept = vars(ready).get("_read")
    if kept is None:
        kept = vars(ready)["_read"] = _read(ready)
        ready.computed_here = isinstance(kept, Read) and is_compiled()
    return kept


def _read(ready: ReadyModel) -> Read | str:
    parts = take_apart(ready.model.predictor)
    kind = type(parts.core)
    if not adds_up_trees(kind):
        return f"a {kind.__name__} is no sum of trees that can be read"
    if parts.targets:
        return "it transforms its target"
    try:
        with silenced():
            made = _settled(ready, sum_of_trees(ready, parts))
            _compare(made)
        return made
    except ModelError as refusal:
        return str(refusal).removesuffix(f". {FIX}").replace("output_range cannot", "no way was found to")
    except Unlike as reason:
        return str(reason)
    except Exception as error:
        return f"reading it raised {type(error).__name__}"


class Unlike(Exception):
    """Why a model is not what was read of it, in words."""


def _settled(ready: ReadyModel, trees: SumOfTrees) -> Read:
    leaves = [np.abs(tree.value[tree.leaf]) for tree in trees.trees]
    if not all(np.isfinite(part).all() for part in leaves) or not np.isfinite(trees.base).all():
        raise Unlike("some of its leaves are no numbers")
    largest = sum(float(part.max()) for part in leaves)
    if not math.isfinite(largest):
        raise Unlike("its leaves are too large to be added up")
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
