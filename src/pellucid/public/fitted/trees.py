"""Sums of trees, whatever library fitted them."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from .encoding import Encoding

Link = Literal["identity", "logistic", "exp", "softmax", "depth"]
"""What a model makes of its raw values."""


@dataclass(frozen=True)
class Tree:
    """One fitted tree: comparisons of encoded columns, and the value of every leaf, scaled as the model adds it."""

    column: np.ndarray
    threshold: np.ndarray
    left: np.ndarray
    right: np.ndarray
    nan_left: np.ndarray
    leaf: np.ndarray
    value: np.ndarray
    group: int = 0
    # For nodes that compare with a set of codes: (codes that go left, codes known to the model), flags of any number that covers
    # the codes of the column. NaN, negative and unknown codes go where missing values go.
    sets: dict[int, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)

    def plain(self, columns: int) -> Tree:
        """The same in plain arrays of its own, if its nodes are those of a tree that compares so many columns; else ValueError.

        A model may hold anything. Loops follow children without looking where they lead, and an array of another class could do
        what it likes with the numbers that it is added to.
        """
        leaf, left, right, column = (
            _own(v, k) for v, k in ((self.leaf, bool), (self.left, int), (self.right, int), (self.column, int))
        )
        size, below = len(leaf), np.concatenate([left[~leaf], right[~leaf]])
        inside = size and (not len(below) or (below.min() > 0 and below.max() < size and np.bincount(below).max() == 1))
        if not inside or not ((column[~leaf] >= 0) & (column[~leaf] < columns)).all():
            raise ValueError("the nodes are not those of a tree")
        limits, values, nan_left = _own(self.threshold, float), _own(self.value, float), _own(self.nan_left, bool)
        sets = {int(node): (_own(go, bool), _own(known, bool)) for node, (go, known) in self.sets.items()}
        if any(len(part) != size for part in (left, right, column, limits, values, nan_left)):
            raise ValueError("the nodes differ in what they have")
        return Tree(column, limits, left, right, nan_left, leaf, values, int(self.group), sets)


def _own(values: Any, kind: type) -> np.ndarray:
    """A new plain array of one dimension."""
    return np.array(np.asarray(values), dtype=kind).reshape(-1)


@dataclass(frozen=True, eq=False)
class SumOfTrees:
    """Trees that a model adds up, group by group, and what it makes of the sums.

    The raw value of a group is its base plus the leaves of its trees that a record reaches. With one group the model answers with
    the link of it; several are the classes of a softmax, of which it answers with the share of one.
    """

    encoding: Encoding
    trees: list[Tree]
    base: np.ndarray
    link: Link = "identity"
    group: int = 0
    """The group whose share is the answer."""
    single: bool = False
    """Whether the model itself adds in single precision: its answers then differ from the sum of its leaves in the last digits
    of that."""
    offset: float = 0.0
    """What is taken off the answers in the end."""

    def plain(self) -> SumOfTrees:
        """The same in plain arrays, if it is what it should be; ValueError if not."""
        trees, base = [tree.plain(len(self.encoding.columns)) for tree in self.trees], _own(self.base, float)
        if not all(0 <= tree.group < len(base) for tree in trees) or not 0 <= self.group < len(base):
            raise ValueError("a tree belongs to no group")
        return replace(self, trees=trees, base=base)

    def turned(self) -> SumOfTrees:
        """The same with the other sign: the probability of the other one of two classes."""
        trees = [replace(tree, value=-tree.value) for tree in self.trees]
        return replace(self, trees=trees, base=-self.base)

    def of_class(self, position: int, classes: int) -> SumOfTrees:
        """Of raw values for all classes, or for the second one of two: what is answered about the class at a position."""
        if classes > 2:
            return replace(self, link="softmax", group=position)
        return self if position == 1 else self.turned()


def answers(link: Link, group: int, raw: Sequence[np.ndarray]) -> np.ndarray:
    """What a model answers where its groups have these raw values, one array a group.

    Functions of SciPy: those of NumPy take other paths at the end of an array than in its middle.
    """
    from scipy.special import exp2, expit, expm1

    if link == "identity":
        return raw[group]
    if link == "logistic":
        return np.asarray(expit(raw[group]))
    if link == "exp":
        return np.asarray(expm1(raw[group]) + 1.0)
    if link == "depth":
        # The score of an isolation forest, of depths in units of the usual one: from −1 for the most unusual records to 0.
        return -np.asarray(exp2(-raw[group]))
    # The share of one class, with the largest raw value taken off first.
    most = functools.reduce(np.maximum, raw)
    over = [np.asarray(expm1(part - most) + 1.0) for part in raw]
    return np.asarray(over[group] / sum(over))
