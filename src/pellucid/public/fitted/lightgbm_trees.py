"""Trees of fitted LightGBM models, from the model's own text.

LightGBM compares in double precision, after numbers next to zero have become zero. What a missing value is depends on the column:
NaN, NaN and zero, or nothing, where NaN is taken for zero. Codes of a set go left; all others and missing ones go right. The
average that boosting starts from is in the leaves of the first tree.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..model import ReadyModel
from .encoding import Column, Encoding, Parts, class_index, dense, refuse
from .trees import Link, SumOfTrees, Tree

LINKS: dict[str, Link] = {
    **dict.fromkeys(("regression", "regression_l1", "huber", "fair", "quantile", "mape", "custom"), "identity"),
    **dict.fromkeys(("binary", "cross_entropy", "multiclassova"), "logistic"),
    **dict.fromkeys(("poisson", "gamma", "tweedie"), "exp"),
    "multiclass": "softmax",
}
PROBABILITIES = ("binary", "cross_entropy", "multiclassova", "multiclass")
NEAR_ZERO = float(np.float32(1e-35))
"""Numbers that are at most so far from zero are zero to LightGBM."""
CODED, DEFAULT_LEFT = 1, 2
NOTHING, ZERO, NAN = 0, 1, 2
"""What is missing in a column: nothing, as NaN is taken for zero; zero and NaN; NaN."""


def sum_of_trees(ready: ReadyModel, parts: Parts) -> SumOfTrees:
    """The trees of a LightGBM classifier, regressor or booster."""
    core = parts.core
    booster = getattr(core, "booster_", core)
    settings = {**booster.params, **(core.get_params() if booster is not core else {})}
    if settings.get("pred_early_stop"):
        raise refuse("LightGBM with pred_early_stop, which leaves out trees record by record")
    # Up to the best iteration, where training stopped early: as predictions are made.
    head, *written = (_fields(block) for block in _blocks(booster.model_to_string()))
    if any(tree.get("is_linear", "0") != "0" for tree in written):
        raise refuse("LightGBM with linear_tree=True")
    objective, *options = head.get("objective", "custom").split()
    link = LINKS.get(objective)
    classifier = ready.model.positive is not None
    if link is None or "sqrt" in options or (classifier and objective not in PROBABILITIES):
        raise refuse(f"LightGBM with the objective {' '.join([objective, *options])!r}")
    groups = int(head["num_tree_per_iteration"])
    shapes = [_Shape.of(tree) for tree in written]
    columns = _columns(shapes)
    share = groups / len(written) if "average_output" in head else 1.0
    scale = share * (_option(options, "sigmoid") if link == "logistic" else 1.0)
    trees = [_tree(shape, columns, scale, t % groups) for t, shape in enumerate(shapes)]
    read = SumOfTrees(_encoding(ready, parts, booster, columns), trees, np.zeros(groups), link=link)
    if link == "softmax":
        return replace(read, group=class_index(ready)[0])
    if objective == "multiclassova":
        # Every class has a logistic function of its own; their shares are not divided by their sum.
        k = class_index(ready)[0]
        return replace(read, trees=[replace(tree, group=0) for tree in trees if tree.group == k], base=np.zeros(1))
    return read.of_class(*class_index(ready)) if classifier else read


def _blocks(text: str) -> list[str]:
    """The head of a model's text, and each of its trees."""
    return text.split("\nend of trees", 1)[0].split("\nTree=")


def _fields(block: str) -> dict[str, str]:
    return dict(line.partition("=")[::2] for line in block.splitlines())


def _option(options: list[str], name: str) -> float:
    said = [option.partition(":")[2] for option in options if option.startswith(f"{name}:")]
    return float(said[0]) if said else 1.0


@dataclass(frozen=True)
class _Shape:
    """A tree as it is written: inner nodes, and leaves as negative numbers."""

    column: np.ndarray
    threshold: np.ndarray
    decision: np.ndarray
    left: np.ndarray
    right: np.ndarray
    value: np.ndarray
    sets: dict[int, np.ndarray]
    """Codes that go left, as flags, for nodes that compare with a set of them."""

    @classmethod
    def of(cls, written: Mapping[str, str]) -> _Shape:
        def numbers(name: str, kind: Any) -> np.ndarray:
            return np.array(written.get(name, "").split(), dtype=kind)

        decision, threshold = numbers("decision_type", int), numbers("threshold", float)
        ends, words = numbers("cat_boundaries", int), numbers("cat_threshold", np.uint32)
        sets = {}
        for node in np.flatnonzero(decision & CODED):
            which = int(threshold[node])
            bits = np.ascontiguousarray(words[ends[which] : ends[which + 1]].astype("<u4")).view(np.uint8)
            sets[int(node)] = np.unpackbits(bits, bitorder="little").astype(bool)
        return cls(
            column=numbers("split_feature", int),
            threshold=threshold,
            decision=decision,
            left=numbers("left_child", int),
            right=numbers("right_child", int),
            value=numbers("leaf_value", float),
            sets=sets,
        )


@dataclass(frozen=True)
class _Kind:
    """What trees make of one column: how many codes they tell apart, 0 for a number; and what is missing."""

    codes: int
    missing: int

    def __call__(self, values: np.ndarray) -> np.ndarray:
        if self.codes:
            whole = np.trunc(values)
            return np.where((whole >= 0) & (whole < self.codes), whole, np.nan)
        values = np.where(np.abs(values) <= NEAR_ZERO, 0.0, values)
        if self.missing == ZERO:
            return np.where(values == 0, np.nan, values)
        return values if self.missing == NAN else np.where(np.isnan(values), 0.0, values)


def _columns(shapes: list[_Shape]) -> dict[int, _Kind]:
    """The columns that trees compare."""
    found: dict[int, _Kind] = {}
    for shape in shapes:
        for node, column in enumerate(shape.column.tolist()):
            coded = node in shape.sets
            here = _Kind(len(shape.sets[node]) if coded else 0, NOTHING if coded else int(shape.decision[node]) >> 2 & 3)
            known = found.setdefault(column, here)
            if bool(known.codes) != coded or known.missing != here.missing:
                raise refuse("LightGBM trees that do not agree on what is missing in a column")
            found[column] = _Kind(max(known.codes, here.codes), here.missing)
    return found


def _tree(shape: _Shape, columns: dict[int, _Kind], scale: float, group: int) -> Tree:
    inner, leaves = len(shape.column), len(shape.value)

    def with_leaves(values: np.ndarray, kind: Any) -> np.ndarray:
        return np.concatenate([values, np.zeros(leaves)]).astype(kind)

    def node(child: np.ndarray) -> np.ndarray:
        return np.where(child < 0, inner - 1 - child, child)

    sets = {}
    for at, flags in shape.sets.items():
        left = np.zeros(columns[int(shape.column[at])].codes, dtype=bool)
        left[: len(flags)] = flags
        sets[at] = (left, left)
    return Tree(
        column=with_leaves(shape.column, int),
        threshold=with_leaves(shape.threshold, float),
        left=with_leaves(node(shape.left), int),
        right=with_leaves(node(shape.right), int),
        nan_left=with_leaves((shape.decision & DEFAULT_LEFT > 0) & (shape.decision & CODED == 0), bool),
        leaf=np.arange(inner + leaves) >= inner,
        value=np.concatenate([np.zeros(inner), scale * shape.value]),
        group=group,
        sets=sets,
    )


def _encoding(ready: ReadyModel, parts: Parts, booster: Any, columns: dict[int, _Kind]) -> Encoding:
    def order(given: list[Column]) -> list[Column]:
        # Codes have no order, and where zero is missing a column jumps inside its range.
        steady = [i not in columns or not (columns[i].codes or columns[i].missing == ZERO) for i in range(len(given))]
        return [Column(c.feature, c.monotone and flat) for c, flat in zip(given, steady)]

    def finish(table: Any) -> np.ndarray:
        values = _doubles(table, booster.pandas_categorical or [])
        for i, kind in columns.items():
            values[:, i] = kind(values[:, i])
        return values

    return Encoding(ready, parts.steps, finish, order)


def _doubles(table: Any, known: list[list[Any]]) -> np.ndarray:
    """The numbers that LightGBM sees; categories of a frame become codes in the order of training."""
    table = dense(table)
    if not hasattr(table, "columns"):
        values = np.asarray(table)
        # An array of whole numbers or booleans is cast to single precision, one of objects to double.
        return np.array(values.astype(np.float32) if values.dtype.kind in "iub" else values, dtype=float)
    columns, order = [], iter(known)
    for i in range(table.shape[1]):
        column = table.iloc[:, i]
        if hasattr(column, "cat"):
            codes = column.cat.set_categories(next(order)).cat.codes.to_numpy()
            columns.append(np.where(codes < 0, np.nan, codes))
        else:
            columns.append(np.asarray(column, dtype=float))
    return np.stack(columns, axis=1)
