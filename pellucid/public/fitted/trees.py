"""Sums of trees, whatever library fitted them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from .encoding import Encoding


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
    # For nodes that compare with a set of codes: (codes that go left, codes known to the model).
    sets: dict[int, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class SumOfTrees:
    """Trees that a model adds up, and the number each group of trees starts from; several groups are several classes."""

    encoding: Encoding
    trees: list[Tree]
    base: np.ndarray
