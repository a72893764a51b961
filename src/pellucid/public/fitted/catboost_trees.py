"""Trees of fitted CatBoost models, from the model's own JSON.

CatBoost compares in single precision: a value goes right where it is above the border, a missing one where its column says. A
category goes right where it is the one that the split names. Statistics of categories (CTRs) are not read: they are looked up by
hashes of several columns at once. Leaves are added in double precision.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..model import ReadyModel
from ..schema import Category
from .encoding import MAX_LEVELS, Column, Encoding, Parts, as_single, class_index, dense, refuse
from .trees import Link, SumOfTrees, Tree

REGRESSIONS: dict[str, Link] = {
    **dict.fromkeys(("RMSE", "MAE", "MAPE", "Quantile", "Expectile", "Huber", "Lq", "LogCosh"), "identity"),
    **dict.fromkeys(("Poisson", "Tweedie"), "exp"),
}
CLASSIFICATIONS: dict[str, Link] = {
    **dict.fromkeys(("Logloss", "CrossEntropy", "MultiClassOneVsAll"), "logistic"),
    "MultiClass": "softmax",
}


def sum_of_trees(ready: ReadyModel, parts: Parts) -> SumOfTrees:
    """The trees of a CatBoost classifier or regressor."""
    core, classifier = parts.core, ready.model.positive is not None
    table = _all_levels(ready, parts) if core.get_cat_feature_indices() else None
    model = _written(core, table)
    if core.get_text_feature_indices() or core.get_embedding_feature_indices():
        raise refuse("CatBoost with texts or embeddings")
    loss = model["model_info"]["params"]["loss_function"]["type"]
    link = (CLASSIFICATIONS if classifier else REGRESSIONS).get(loss)
    if link is None:
        raise refuse(f"CatBoost with the loss {loss!r}")
    features = _Features.of(model["features_info"])
    scale, bias = model["scale_and_bias"]
    groups = len(bias)
    made = [_oblivious(tree, features, groups) for tree in model.get("oblivious_trees", ())]
    made += [_nested(tree, features, groups) for tree in model.get("trees", ())]
    trees = [replace(tree, value=scale * values[:, g], group=g) for tree, values in made for g in range(groups)]
    read = SumOfTrees(_encoding(ready, parts, features), trees, np.asarray(bias, dtype=float), link=link)
    if link == "softmax":
        return replace(read, group=class_index(ready)[0])
    if loss == "MultiClassOneVsAll":
        # Every class has a logistic function of its own; their shares are not divided by their sum.
        k = class_index(ready)[0]
        own = [replace(tree, group=0) for tree in trees if tree.group == k]
        return replace(read, trees=own, base=read.base[k : k + 1])
    return read.of_class(*class_index(ready)) if classifier else read


def _written(core: Any, table: Any) -> dict[str, Any]:
    """The model as JSON; with the hashes of the categories of a table, where one is given."""
    from catboost import Pool

    pool = None if table is None else Pool(table, cat_features=core.get_cat_feature_indices())
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.json"
        core.save_model(str(file), format="json", pool=pool)
        found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


def _all_levels(ready: ReadyModel, parts: Parts) -> Any:
    """Public records among which every feature that has few levels takes all of them, as the model is given them."""
    features = [ready.schema[name] for name in ready.features]
    levels = [n if (n := f.levels) is not None and n <= MAX_LEVELS else 1 for f in features]
    places = np.arange(max(levels))
    first = [0.0 if isinstance(f, Category) else f.lo for f in features]
    # A number whose missing cells are NaN is no category to CatBoost, which refuses such a cell there.
    table = ready.inputs({name: places % n + lo for name, n, lo in zip(ready.features, levels, first)})
    try:
        for step in parts.steps:
            table = step.transform(table)
    except Exception as error:
        raise refuse(f"the preprocessing: it raised {type(error).__name__} on declared values") from None
    return table


@dataclass(frozen=True)
class _Features:
    """Columns by the numbers that splits have for them."""

    floats: dict[int, int]
    nan_left: dict[int, bool]
    """Of a column of numbers."""
    categories: dict[int, int]
    named: dict[int, list[int]]
    """Hashes that splits of a column of categories name: its codes are their places, and one more for all others."""
    hashes: dict[str, int]

    @classmethod
    def of(cls, info: dict[str, Any]) -> _Features:
        floats, categories = info.get("float_features", ()), info.get("categorical_features", ())
        return cls(
            floats={f["feature_index"]: f["flat_feature_index"] for f in floats},
            nan_left={f["flat_feature_index"]: f["nan_value_treatment"] != "AsTrue" for f in floats},
            categories={f["feature_index"]: f["flat_feature_index"] for f in categories},
            named={f["flat_feature_index"]: [v % 2**32 for v in f.get("values", ())] for f in categories},
            hashes={entry["value"]: entry["hash"] for entry in info.get("cat_features_hash", ())},
        )

    def codes(self, column: int, values: Any) -> np.ndarray:
        """What splits tell apart among categories. One that no public record has raises, and is refused."""
        place = {known: code for code, known in enumerate(self.named[column])}
        said = np.asarray(values)
        # Booleans are written as whole numbers.
        said = said.astype(int) if said.dtype == bool else said
        found = {value: place.get(self.hashes[str(value)], len(place)) for value in set(said.tolist())}
        return np.array([found[value] for value in said.tolist()], dtype=np.float32)


@dataclass(frozen=True)
class _Split:
    """One comparison: of a number with a border, or of a code with a set."""

    column: int
    threshold: float
    nan_left: bool
    left: np.ndarray | None

    @classmethod
    def of(cls, written: dict[str, Any], features: _Features) -> _Split:
        kind = written["split_type"]
        if kind == "FloatFeature":
            column = features.floats[written["float_feature_index"]]
            return cls(column, float(np.float32(written["border"])), features.nan_left[column], None)
        if kind == "OneHotFeature":
            column = features.categories[written["cat_feature_index"]]
            named = features.named[column]
            return cls(column, 0.0, True, np.arange(len(named) + 1) != named.index(written["value"] % 2**32))
        raise refuse(
            "CatBoost with statistics of categories (CTRs); a larger one_hot_max_size, or an encoder before it, does without them"
            if kind == "OnlineCtr"
            else f"CatBoost with a split of type {kind!r}"
        )


def _oblivious(written: dict[str, Any], features: _Features, groups: int) -> tuple[Tree, np.ndarray]:
    """A tree with one split per level: nodes level by level, and leaf i where the splits of its bits went right."""
    splits = [_Split.of(split, features) for split in written["splits"] or ()]
    depth = len(splits)
    if len(written["leaf_values"]) != groups << depth:
        raise refuse("a CatBoost tree that has not as many leaves as its splits part")
    level = np.repeat(np.arange(depth), 2 ** np.arange(depth))
    node = np.arange(len(level))
    path = node - (2**level - 1)
    below = 2 ** (level + 1) - 1
    leaves = np.asarray(written["leaf_values"], dtype=float).reshape(-1, groups)
    return _tree([splits[i] for i in level], below + path, below + path + 2**level, leaves)


def _nested(written: dict[str, Any], features: _Features, groups: int) -> tuple[Tree, np.ndarray]:
    """A tree of any shape: inner nodes first, then leaves."""
    splits: list[_Split] = []
    children: list[list[int]] = []
    leaves: list[Any] = []
    # Where the number of a node is written down once it has one; leaves have negative ones until all are known.
    waiting: list[tuple[dict[str, Any], list[int] | None]] = [(written, None)]
    while waiting:
        here, parent = waiting.pop()
        number = len(splits) if "split" in here else -1 - len(leaves)
        if parent is not None:
            parent.append(number)
        if number < 0:
            leaves.append(here["value"])
            continue
        splits.append(_Split.of(here["split"], features))
        children.append([])
        # The left one is taken from the end, so it is written down first.
        waiting += [(here["right"], children[-1]), (here["left"], children[-1])]
    both = np.array(children, dtype=int).reshape(-1, 2)
    both = np.where(both < 0, len(splits) - 1 - both, both)
    return _tree(splits, both[:, 0], both[:, 1], np.asarray(leaves, dtype=float).reshape(-1, groups))


def _tree(splits: list[_Split], left: np.ndarray, right: np.ndarray, leaves: np.ndarray) -> tuple[Tree, np.ndarray]:
    """Inner nodes and then leaves, with the values of every group."""
    inner, size = len(splits), len(splits) + len(leaves)

    def filled(values: Any, kind: Any) -> np.ndarray:
        return np.concatenate([np.asarray(values, dtype=kind), np.zeros(len(leaves), dtype=kind)])

    tree = Tree(
        column=filled([s.column for s in splits], int),
        threshold=filled([s.threshold for s in splits], float),
        left=filled(left, int),
        right=filled(right, int),
        nan_left=filled([s.nan_left for s in splits], bool),
        leaf=np.arange(size) >= inner,
        value=np.zeros(size),
        sets={n: (s.left, np.ones(len(s.left), dtype=bool)) for n, s in enumerate(splits) if s.left is not None},
    )
    return tree, np.concatenate([np.zeros((inner, leaves.shape[1])), leaves])


def _encoding(ready: ReadyModel, parts: Parts, features: _Features) -> Encoding:
    def order(columns: list[Column]) -> list[Column]:
        return [Column(c.feature, c.monotone and i not in features.named) for i, c in enumerate(columns)]

    def finish(table: Any) -> np.ndarray:
        given = dense(table)
        column: Callable[[int], Any] = (lambda i: given.iloc[:, i]) if hasattr(given, "columns") else (lambda i: given[:, i])
        return np.stack(
            [features.codes(i, column(i)) if i in features.named else as_single(column(i)) for i in range(given.shape[1])],
            axis=1,
        )

    return Encoding(ready, parts.steps, finish if features.named else as_single, order)
