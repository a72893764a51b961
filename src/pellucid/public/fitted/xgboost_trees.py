"""Trees of fitted XGBoost models, from the model's own JSON.

XGBoost compares in single precision: a value goes left where it is *below* the threshold, a missing one where the node says. Of
a set of codes those named go right; all others, negative ones and ones that were never seen among them, go left. What is absent
from a sparse table is missing, not zero. The base score is an answer, so the link of the objective is undone first.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..model import ReadyModel
from .encoding import Column, Encoding, Parts, as_single, class_index, refuse
from .trees import Link, SumOfTrees, Tree

LINKS: dict[str, Link] = {
    **dict.fromkeys(("reg:squarederror", "reg:squaredlogerror", "reg:absoluteerror", "reg:pseudohubererror"), "identity"),
    **dict.fromkeys(("reg:quantileerror", "binary:logitraw"), "identity"),
    **dict.fromkeys(("reg:logistic", "binary:logistic"), "logistic"),
    **dict.fromkeys(("count:poisson", "reg:gamma", "reg:tweedie"), "exp"),
    **dict.fromkeys(("multi:softprob", "multi:softmax"), "softmax"),
}
PROBABILITIES = ("logistic", "softmax")
NEAR_ZERO = np.float32(1e-6)
"""Base scores that are probabilities are taken for at least this, and at most 1 minus this."""


def sum_of_trees(ready: ReadyModel, parts: Parts) -> SumOfTrees:
    """The trees of an XGBoost classifier, regressor or random forest."""
    learner = json.loads(parts.core.get_booster().save_raw("json"))["learner"]
    booster, objective = learner["gradient_booster"], learner["objective"]["name"]
    if booster["name"] not in ("gbtree", "dart"):
        raise refuse(f"XGBoost with booster={booster['name']!r}, which has no trees")
    link = LINKS.get(objective)
    classifier = ready.model.positive is not None
    if link is None or (classifier and link not in PROBABILITIES):
        raise refuse(f"XGBoost with the objective {objective!r}")
    model = booster["model"] if "model" in booster else booster["gbtree"]["model"]
    fitted = model["trees"][: _last_tree(learner, model)]
    if int(learner["learner_model_param"]["num_target"]) > 1 or any(_outputs(tree) > 1 for tree in fitted):
        raise refuse("XGBoost with several outputs")
    weights = np.asarray(booster.get("weight_drop", np.ones(len(fitted))), dtype=np.float32)
    codes = _native(learner, model, fitted)
    trees = [_tree(tree, float(w), group, codes) for tree, w, group in zip(fitted, weights, model["tree_info"])]
    read = SumOfTrees(_encoding(ready, parts, codes), trees, _base(learner, link), link=link, single=True)
    if link == "softmax":
        return replace(read, group=class_index(ready)[0])
    return read.of_class(*class_index(ready)) if classifier else read


def _last_tree(learner: dict[str, Any], model: dict[str, Any]) -> int:
    """How many trees predictions use: those up to the best iteration, where training stopped early."""
    if "iteration_indptr" not in model:
        raise refuse("a model of XGBoost before version 3")
    best = learner["attributes"].get("best_iteration")
    ends = model["iteration_indptr"]
    return int(ends[-1] if best is None else ends[int(best) + 1])


def _outputs(tree: dict[str, Any]) -> int:
    return int(tree["tree_param"]["size_leaf_vector"])


def _base(learner: dict[str, Any], link: Link) -> np.ndarray:
    """What trees are added to, one number a group."""
    said = json.loads(learner["learner_model_param"]["base_score"])
    score = np.atleast_1d(np.asarray(said, dtype=np.float32))
    # In single precision, as XGBoost does it: near 1 the logarithm makes much of the last bit.
    if link == "logistic":
        # Versions that write one score per group keep them away from 0 and 1.
        score = np.clip(score, NEAR_ZERO, np.float32(1) - NEAR_ZERO) if isinstance(said, list) else score
        score = -np.log(np.float32(1) / score - np.float32(1))
    elif link == "exp":
        score = np.log(score)
    groups = max(1, int(learner["learner_model_param"]["num_class"]))
    return np.broadcast_to(score.astype(float), (groups,)).copy()


@dataclass(frozen=True)
class Codes:
    """A column with native categories: how many codes trees tell apart, and the text of each where training had text."""

    size: int
    texts: tuple[str, ...] | None

    def __call__(self, values: np.ndarray) -> np.ndarray:
        """Codes as trees tell them apart. All that no tree names are one code more, the last; NaN stays NaN."""
        inside = (values >= 0) & (values < self.size)
        return np.where(np.isnan(values), values, np.where(inside, np.trunc(values), self.size)).astype(np.float32)


def _native(learner: dict[str, Any], model: dict[str, Any], fitted: list[dict[str, Any]]) -> dict[int, Codes]:
    """Columns with native categories."""
    size = {c: 0 for c, kind in enumerate(learner["feature_types"]) if kind == "c"}
    for tree in fitted:
        for node, named in _named(tree).items():
            column = tree["split_indices"][node]
            size[column] = max(size.get(column, 0), 1 + max(named, default=-1))
    stored = model.get("cats", {}).get("enc", [])
    return {c: Codes(n, _texts(stored[c]) if c < len(stored) else None) for c, n in size.items()}


def _texts(stored: dict[str, Any]) -> tuple[str, ...] | None:
    """The categories of one column in the order of training; None where they are numbers, or there are none."""
    if len(stored.get("offsets", ())) < 2:
        return None
    raw = bytes(byte % 256 for byte in stored["values"])
    return tuple(raw[a:b].decode() for a, b in zip(stored["offsets"], stored["offsets"][1:]))


def _named(tree: dict[str, Any]) -> dict[int, list[int]]:
    """Per node that compares with a set of codes: those that go right."""
    starts, sizes = tree["categories_segments"], tree["categories_sizes"]
    return {n: tree["categories"][a : a + k] for n, a, k in zip(tree["categories_nodes"], starts, sizes)}


def _tree(fitted: dict[str, Any], weight: float, group: int, codes: dict[int, Codes]) -> Tree:
    left, right = np.array(fitted["left_children"]), np.array(fitted["right_children"])
    keep = _reached(left, right)
    number = np.cumsum(keep) - 1
    leaf = left[keep] == -1
    column = np.where(leaf, 0, np.array(fitted["split_indices"])[keep])
    # The value of a leaf is kept where an inner node has its threshold.
    number_at = np.array(fitted["split_conditions"], dtype=np.float32)[keep]
    sets = {}
    for node, named in _named(fitted).items():
        if keep[node]:
            size = codes[fitted["split_indices"][node]].size
            goes = np.ones(size + 1, dtype=bool)
            goes[named] = False
            sets[int(number[node])] = (goes, np.ones(size + 1, dtype=bool))
    return Tree(
        column=column,
        threshold=np.nextafter(number_at, np.float32(-np.inf)).astype(float),
        left=np.where(leaf, 0, number[left[keep]]),
        right=np.where(leaf, 0, number[right[keep]]),
        nan_left=np.array(fitted["default_left"])[keep].astype(bool),
        leaf=leaf,
        value=np.where(leaf, weight * number_at.astype(float), 0.0),
        group=group,
        sets=sets,
    )


def _reached(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Nodes that are part of the tree: pruning leaves others behind."""
    found = np.zeros(len(left), dtype=bool)
    level = np.zeros(1, dtype=int)
    while len(level):
        found[level] = True
        level = level[left[level] != -1]
        level = np.concatenate([left[level], right[level]])
        # In a tree none is reached twice; what is no tree is refused later, and must not be followed for ever.
        level = np.unique(level[~found[level]])
    return found


def _encoding(ready: ReadyModel, parts: Parts, codes: dict[int, Codes]) -> Encoding:
    missing = np.float32(parts.core.missing)
    # Where a number other than NaN is missing, a column jumps inside its range.
    jumps = not np.isnan(missing) or _sparse(ready, parts)

    def order(columns: list[Column]) -> list[Column]:
        return [Column(c.feature, c.monotone and not jumps and i not in codes) for i, c in enumerate(columns)]

    def finish(table: Any) -> np.ndarray:
        with np.errstate(over="ignore"):
            values = _single(table, codes)
        values[values == missing] = np.nan
        for column, known in codes.items():
            values[:, column] = known(values[:, column])
        return values

    return Encoding(ready, parts.steps, finish if jumps or codes else as_single, order)


def _sparse(ready: ReadyModel, parts: Parts) -> bool:
    """Whether the steps before the model give it sparse tables."""
    if not parts.steps:
        return False
    table = ready.public
    try:
        for step in parts.steps:
            table = step.transform(table)
    except Exception as error:
        raise refuse(f"the preprocessing: it raised {type(error).__name__} on declared values") from None
    return hasattr(table, "tocoo")


def _single(table: Any, codes: dict[int, Codes]) -> np.ndarray:
    """The numbers that XGBoost sees, in single precision, missing ones as NaN."""
    if hasattr(table, "tocoo"):
        given = table.tocoo()
        values = np.full(given.shape, np.nan, dtype=np.float32)
        values[given.row, given.col] = given.data
        return values
    if not hasattr(table, "columns"):
        return np.array(table, dtype=np.float32)
    named = [table.iloc[:, i] for i in range(table.shape[1])]
    return np.stack([_column(column, codes.get(i)) for i, column in enumerate(named)], axis=1)


def _column(column: Any, codes: Codes | None) -> np.ndarray:
    """One column of a frame; categories become codes in the order of training, or of the frame where none was kept."""
    if not hasattr(column, "cat"):
        return np.asarray(column, dtype=np.float32)
    place = column.cat.codes.to_numpy()
    if codes is None or codes.texts is None:
        return np.where(place < 0, np.nan, place).astype(np.float32)
    known = {text: code for code, text in enumerate(codes.texts)}
    order = np.array([known.get(str(text), np.nan) for text in column.cat.categories] + [np.nan], dtype=np.float32)
    return np.asarray(order[place])
