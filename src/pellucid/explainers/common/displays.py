"""Results as the display objects of scikit-learn. They hold released numbers only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...errors import MissingExtra


def partial_dependence_display(x: Sequence[Any], y: np.ndarray, name: str, categorical: bool) -> Any:
    """A released curve as `sklearn.inspection.PartialDependenceDisplay`."""
    try:
        from sklearn.inspection import PartialDependenceDisplay
        from sklearn.utils import Bunch
    except ImportError:
        raise MissingExtra("to_sklearn() needs scikit-learn: install it with `pip install 'pellucid[sklearn]'`.") from None
    values = np.array([str(v) for v in x], dtype=object) if categorical else np.asarray(x, dtype=float)
    curve = Bunch(grid_values=[values], average=np.asarray(y, dtype=float)[None, :])
    return PartialDependenceDisplay(
        [curve], features=[(0,)], feature_names=[name], target_idx=0, deciles={0: []}, is_categorical=[(categorical,)]
    )


def importance_bunch(values: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> Any:
    """Released importances in the form of `sklearn.inspection.permutation_importance`: means and their standard errors."""
    try:
        from sklearn.utils import Bunch
    except ImportError:
        raise MissingExtra("to_sklearn() needs scikit-learn: install it with `pip install 'pellucid[sklearn]'`.") from None
    return Bunch(importances_mean=values, importances_std=(upper - lower) / (2 * 1.96))
