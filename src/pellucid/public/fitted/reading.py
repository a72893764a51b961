"""The trees of a fitted model, whatever library fitted it. Only fitted parameters are read, no data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...errors import ModelError
from ..model import ReadyModel
from . import catboost_trees, lightgbm_trees, sklearn_trees, xgboost_trees
from .encoding import Parts, refuse
from .estimators import BAGS, BINNED, BOOSTED, CATBOOST, FORESTS, ISOLATION, LIGHTGBM, TREES, XGBOOST, Types
from .trees import SumOfTrees

READERS: tuple[tuple[Types, Callable[[ReadyModel, Parts], SumOfTrees]], ...] = (
    (TREES + FORESTS + BAGS + BOOSTED + BINNED + ISOLATION, sklearn_trees.sum_of_trees),
    (XGBOOST, xgboost_trees.sum_of_trees),
    (LIGHTGBM, lightgbm_trees.sum_of_trees),
    (CATBOOST, catboost_trees.sum_of_trees),
)


def adds_up_trees(kind: type) -> bool:
    """Whether fitted models of this type are sums of trees that can be read."""
    return any(kind in kinds for kinds, _ in READERS)


def refuse_labels(ready: ReadyModel, core: Any) -> None:
    """Raises for an estimator that is not asked for what its parameters say: for labels, or by another method."""
    kind, method = type(core).__name__, ready.model.method
    if type(core) in ISOLATION:
        if method is None:
            raise refuse(
                f'the labels that an {kind} answers with; its scores can be read, by pel.Model(…, method="score_samples")'
            )
    elif method is not None:
        raise refuse(f"what {method}() of a {kind} answers with")
    elif hasattr(core, "predict_proba") != (ready.model.positive is not None):
        raise refuse(f"the labels that a {kind} answers with")


def sum_of_trees(ready: ReadyModel, parts: Parts) -> SumOfTrees:
    """The trees of a model, and what it makes of their sum."""
    kind = type(parts.core)
    refuse_labels(ready, parts.core)
    for kinds, read in READERS:
        if kind in kinds:
            try:
                found = read(ready, parts).plain()
            except ModelError:
                raise
            except Exception as error:
                # Of its fitted parameters; people are not involved yet.
                raise refuse(
                    f"a {kind.__name__} whose fitted parameters are not as they should be ({type(error).__name__})"
                ) from None
            if not found.trees:
                raise refuse(f"a {kind.__name__} without a tree")
            return found
    raise refuse(f"an estimator of type {kind.__name__}")
