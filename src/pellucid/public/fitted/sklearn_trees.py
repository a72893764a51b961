"""Trees of fitted scikit-learn models: trees, forests, bags of trees, both kinds of boosting, isolation forests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..model import ReadyModel
from .encoding import Column, Encoding, Parts, as_single, class_index, dense, refuse
from .estimators import BAGS, BINNED, BOOSTED, CONSTANT, ISOLATION, TREES
from .trees import Link, SumOfTrees, Tree

LINKS: dict[str, Link] = {"IdentityLink": "identity", "LogitLink": "logistic", "LogLink": "exp", "MultinomialLogit": "softmax"}


def sum_of_trees(ready: ReadyModel, parts: Parts) -> SumOfTrees:
    """The trees of a tree, a forest, a bag of trees, of boosting or of an isolation forest."""
    kind = type(parts.core)
    if kind in ISOLATION:
        return _isolating(ready, parts)
    if kind in BOOSTED:
        return _linked(ready, parts, _boosted(ready, parts))
    return _linked(ready, parts, _binned(ready, parts)) if kind in BINNED else _averaged(ready, parts)


def _linked(ready: ReadyModel, parts: Parts, read: SumOfTrees) -> SumOfTrees:
    """What boosting makes of its sums."""
    kind = type(parts.core._loss.link).__name__
    if kind == "HalfLogitLink":
        trees = [replace(tree, value=2 * tree.value) for tree in read.trees]
        read = replace(read, trees=trees, base=2 * read.base)
    elif kind not in LINKS:
        raise refuse(f"boosting with a {kind}")
    read = replace(read, link=LINKS.get(kind, "logistic"))
    return read if ready.model.positive is None else read.of_class(*class_index(ready))


def _averaged(ready: ReadyModel, parts: Parts) -> SumOfTrees:
    core = parts.core
    members = [core] if type(core) in TREES else list(core.estimators_)
    if any(type(member) not in TREES for member in members):
        raise refuse(f"a {type(core).__name__} of {type(members[0]).__name__}; only trees can be bagged")
    if any(member.n_outputs_ != 1 for member in members):
        raise refuse(f"a {type(core).__name__} with several outputs")
    drawn = core.estimators_features_ if type(core) in BAGS else [None] * len(members)
    probability = ready.model.positive is not None
    k = class_index(ready)[0] if probability else 0
    trees = []
    for member, columns in zip(members, drawn):
        value = member.tree_.value[:, 0, :]
        if type(core) in BAGS and probability:
            # A bagged tree may not have seen every class; its own classes are positions among all of them.
            seen = [int(c) for c in member.classes_]
            value = value[:, seen.index(k)] if k in seen else np.zeros(len(value))
        else:
            value = value[:, k]
        trees.append(sklearn_tree(member, value / len(members), columns))
    return SumOfTrees(Encoding(ready, parts.steps, as_single), trees, np.zeros(1))


def _isolating(ready: ReadyModel, parts: Parts) -> SumOfTrees:
    """Leaves are depths, in units of the one that is usual in a tree of as many records, times the number of trees."""
    core = parts.core
    usual = float(_usual_depth(np.array([core.max_samples_]))[0]) * len(core.estimators_)
    if not usual > 0:
        raise refuse("an isolation forest of single records")
    trees = []
    for member, columns in zip(core.estimators_, core.estimators_features_):
        nodes = member.tree_
        # The root is at depth 1; records that share a leaf would be told apart further down.
        depth = nodes.compute_node_depths() - 1.0 + _usual_depth(nodes.n_node_samples)
        trees.append(sklearn_tree(member, depth / usual, columns))
    offset = float(core.offset_) if ready.model.method == "decision_function" else 0.0
    return SumOfTrees(Encoding(ready, parts.steps, as_single), trees, np.zeros(1), "depth", offset=offset)


def _usual_depth(records: np.ndarray) -> np.ndarray:
    """How deep a record is on average in a tree that isolates each of so many."""
    many = np.maximum(records, 3).astype(float)
    return np.select([records <= 1, records == 2], [0.0, 1.0], 2 * (np.log(many - 1) + np.euler_gamma) - 2 * (many - 1) / many)


def _boosted(ready: ReadyModel, parts: Parts) -> SumOfTrees:
    core = parts.core
    if not (core.init_ == "zero" or type(core.init_) in CONSTANT):
        raise refuse(f"gradient boosting that starts from a {type(core.init_).__name__}")
    base = core._raw_predict_init(np.zeros((1, core.n_features_in_), dtype=np.float32))[0]
    trees = [
        sklearn_tree(member, core.learning_rate * member.tree_.value[:, 0, 0], group=g)
        for stage in core.estimators_
        for g, member in enumerate(stage)
    ]
    return SumOfTrees(Encoding(ready, parts.steps, as_single), trees, base)


def _binned(ready: ReadyModel, parts: Parts) -> SumOfTrees:
    core = parts.core
    flags = core.is_categorical_

    def order(columns: list[Column]) -> list[Column]:
        """Categorical columns come first, as codes; the others follow."""
        if flags is None:
            return columns
        coded = [Column(columns[i].feature, False) for i in np.flatnonzero(flags)]
        return coded + [columns[i] for i in np.flatnonzero(~flags)]

    encoding = Encoding(ready, parts.steps, lambda table: core._preprocess_X(dense(table), reset=False), order)
    known, place = core._bin_mapper.make_known_categories_bitsets()
    trees = [binned_tree(predictor, known, place, g) for stage in core._predictors for g, predictor in enumerate(stage)]
    return SumOfTrees(encoding, trees, np.ravel(core._baseline_prediction).astype(float))


def sklearn_tree(fitted: Any, value: np.ndarray, columns: np.ndarray | None = None, group: int = 0) -> Tree:
    """A tree of scikit-learn, with a value for every node; `columns` are those it was fitted to, where not all."""
    nodes = fitted.tree_
    leaf = nodes.children_left == -1
    column = np.where(leaf, 0, nodes.feature)
    return Tree(
        column=column if columns is None else np.asarray(columns)[column],
        threshold=nodes.threshold,
        left=np.where(leaf, 0, nodes.children_left),
        right=np.where(leaf, 0, nodes.children_right),
        nan_left=np.asarray(nodes.missing_go_to_left).astype(bool),
        leaf=leaf,
        value=value,
        group=group,
    )


def binned_tree(predictor: Any, known: np.ndarray, place: np.ndarray, group: int) -> Tree:
    """A tree of histogram boosting; `known` are the codes of each categorical column, `place` says which row is whose."""
    nodes = predictor.nodes
    leaf = nodes["is_leaf"].astype(bool)
    sets = {
        int(n): (
            _codes(predictor.raw_left_cat_bitsets[nodes["bitset_idx"][n]]),
            _codes(known[place[nodes["feature_idx"][n]]]),
        )
        for n in np.flatnonzero(nodes["is_categorical"].astype(bool) & ~leaf)
    }
    return Tree(
        column=np.where(leaf, 0, nodes["feature_idx"]).astype(int),
        threshold=nodes["num_threshold"].astype(float),
        left=np.where(leaf, 0, nodes["left"]).astype(int),
        right=np.where(leaf, 0, nodes["right"]).astype(int),
        nan_left=nodes["missing_go_to_left"].astype(bool),
        leaf=leaf,
        value=nodes["value"].astype(float),
        group=group,
        sets=sets,
    )


def _codes(words: np.ndarray) -> np.ndarray:
    """256 flags from eight 32-bit words."""
    return np.unpackbits(np.ascontiguousarray(words).view(np.uint8), bitorder="little").astype(bool)
