"""Explainers of other packages as functions of a block of records, for PrivatePlot and PrivateRanking.

    function = pel.adapters.partial_dependence(forest, "age", x=range(20, 90, 5))
    forest_is = pel.Derived("forest", trained_on="other data")
    session.release(pel.PrivatePlot(function, x=function.x, output=(0, 1), uses=[forest_is]), epsilon=1.0)

Each is called with a data frame of declared columns and declared values. It answers with heights at `x`, with a pair (places,
heights) that the plot interpolates to `x`, or with one score per feature as a series. Nothing in here is private by itself: the
plot or the ranking clips, averages over blocks and adds noise. Models and background records are treated as public: `uses=` says
where they come from.

A missing package is an error when the function is made. Later it could not be told: what goes wrong inside a block is not shown.
Every block starts from the function as it was loaded, so packages are imported with it, and not a thousand times over.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from ...errors import MissingExtra, PlanError
from ...query.functions import sent_whole

__all__ = [
    "ebm_shape",
    "h_statistic",
    "local_surrogate",
    "partial_dependence",
    "permutation_importance",
    "shap_dependence",
    "tree_surrogate",
]

sent_whole(__name__)


class Adapter:
    """What adapters share: tidy arguments, and a package that is there from the start."""

    needs: ClassVar[tuple[str, str]]
    """The module that is called, and how to install it."""

    def __post_init__(self) -> None:
        for name in {"x", "features"} & vars(self).keys():
            if getattr(self, name) is not None:
                # Tuples of plain values, so that the same request has the same fingerprint however it was written.
                object.__setattr__(self, name, tuple(np.asarray(getattr(self, name), dtype=object).tolist()))
        model = vars(self).get("model")
        if model is not None and not callable(model) and not hasattr(model, "predict"):
            raise PlanError(
                f"{type(self).__name__}: a {type(model).__name__} cannot be asked; give a function of a data frame, or a fitted "
                "estimator (of a pel.Model its .predictor)."
            )
        self._load()

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._load()

    def _load(self) -> None:
        module, fix = self.needs
        try:
            importlib.import_module(module)
        except ImportError:
            raise MissingExtra(f"{type(self).__name__} needs a package that is not installed: {fix}.") from None


# Lower case like functools.partial and operator.itemgetter: one makes a function with it, and the class is beside the point.
@dataclass(frozen=True, eq=False)
class partial_dependence(Adapter):
    """Partial dependence by scikit-learn: the mean answer with the feature set to each value of `x`.

    `response` is scikit-learn's response_method; a classifier must have two classes, and the second one is shown. The model gets
    the columns it was fitted with, or `features`. `pel.PartialDependence` releases the same curve with far less noise.
    """

    estimator: Any
    feature: str
    x: Sequence[Any]
    response: str = "auto"
    features: Sequence[str] | None = None
    needs = ("sklearn.inspection", "pip install 'pellucid[sklearn]'")

    def __post_init__(self) -> None:
        super().__post_init__()
        classes = len(getattr(self.estimator, "classes_", ()))
        if classes > 2:
            raise PlanError(f"partial_dependence: the model has {classes} classes; use pel.PartialDependence with positive=.")

    def __call__(self, rows: pd.DataFrame) -> np.ndarray:
        from sklearn.inspection import partial_dependence as by_sklearn

        inputs, grid = _inputs(self.estimator, rows, self.features), _column(self.x)
        if inputs[self.feature].dtype.kind in "iu":
            # scikit-learn refuses whole numbers, since it would round the values it sets in such a column.
            inputs, grid = inputs.astype({self.feature: float}), grid.astype(float)
        options = {"method": "brute", "kind": "average", "response_method": self.response}
        return by_sklearn(self.estimator, inputs, [self.feature], custom_values={self.feature: grid}, **options)["average"][0]


@dataclass(frozen=True, eq=False)
class permutation_importance(Adapter):
    """Permutation importance by scikit-learn: how much the score falls when a column of the block is shuffled.

    `target` is a declared column; `scoring` as in scikit-learn. Shuffles are the same in every block (`seed`).
    """

    estimator: Any
    target: str
    features: Sequence[str] | None = None
    scoring: Any = None
    n_repeats: int = 5
    seed: int = 0
    needs = ("sklearn.inspection", "pip install 'pellucid[sklearn]'")

    def __call__(self, rows: pd.DataFrame) -> pd.Series:
        from sklearn.inspection import permutation_importance as by_sklearn

        inputs = _inputs(self.estimator, rows.drop(columns=self.target), self.features)
        found = by_sklearn(
            self.estimator, inputs, rows[self.target], scoring=self.scoring, n_repeats=self.n_repeats, random_state=self.seed
        )
        return pd.Series(found["importances_mean"], index=inputs.columns)


@dataclass(frozen=True, eq=False)
class shap_dependence(Adapter):
    """SHAP dependence by the shap package: Shapley values of one feature for the records of the block, averaged along `x`.

    `model` is a function of a data frame, or an estimator. `background` is public: a data frame with the model's columns; ten
    rows are often enough. A record counts for the nearest value of `x`, or for its category. Shapley values are sampled by
    `permutations` orders of the features, each there and back; one is enough, since blocks are averaged. They lie within [-R, R]
    for a model with answers in a range R.
    """

    model: Any
    feature: str
    x: Sequence[Any]
    background: pd.DataFrame
    permutations: int = 1
    seed: int = 0
    needs = ("shap", "pip install 'pellucid[shap]'")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.feature not in self.background:
            raise PlanError(f"shap_dependence: background has no column {self.feature!r}.")

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        # shap compiles at its first call, for seconds: on a public record now, so that blocks need not.
        self.shap_values(self.background.head(1))

    def __call__(self, rows: pd.DataFrame) -> Any:
        effects = self.shap_values(rows)[:, list(self.background).index(self.feature)]
        values, grid = rows[self.feature].to_numpy(), _column(self.x)
        if not _is_numeric(grid):
            return pd.Series(effects).groupby(values).mean()
        grid = np.sort(grid)
        means = pd.DataFrame({"x": values, "y": effects}).groupby(np.searchsorted((grid[1:] + grid[:-1]) / 2, values)).mean()
        return means["x"].to_numpy(dtype=float), means["y"].to_numpy()

    def shap_values(self, rows: pd.DataFrame) -> np.ndarray:
        """Shapley values of the rows: one column per column of the background."""
        import shap

        public, names = self.background, list(self.background)
        both = pd.concat([public, rows[names]], ignore_index=True)
        # shap compares cells as numbers, so words travel as codes and are words again before the model sees them.
        words = {name: pd.factorize(both[name]) for name in names if not _is_numeric(both[name])}
        coded = np.column_stack([words[n][0] if n in words else both[n] for n in names]).astype(float)

        def answers(table: np.ndarray) -> np.ndarray:
            columns = {
                n: words[n][1].take(table[:, j].astype(int)) if n in words else pd.Series(table[:, j]).astype(public[n].dtype)
                for j, n in enumerate(names)
            }
            return _answers(self.model, pd.DataFrame(columns))

        masker = shap.maskers.Independent(coded[: len(public)], max_samples=len(public))
        explainer = shap.explainers.Permutation(answers, masker, seed=self.seed)
        return explainer(coded[len(public) :], max_evals=self.permutations * (2 * len(names) + 1), silent=True).values


@dataclass(frozen=True, eq=False)
class local_surrogate(Adapter):
    """A linear surrogate in the manner of LIME, around a public record, on the records of the block.

    Records near it count more: exp(-d²/(width²·number of features)), with d in steps. A step of a number is given by `scale`,
    public and the same in every block, or else is the standard deviation in the block; a category is one step away unless it
    equals the record's. Gives the coefficients of a ridge regression (penalty 1), the change of the answer per step toward larger
    values or toward the record's category; `signed=False` gives their sizes, for a ranking.
    """

    model: Any
    record: Mapping[str, Any]
    features: Sequence[str]
    width: float = 0.75
    scale: Mapping[str, float] | None = None
    signed: bool = True
    needs = ("sklearn.linear_model", "pip install 'pellucid[sklearn]'")

    def __post_init__(self) -> None:
        super().__post_init__()
        missing = [name for name in self.features if name not in self.record]
        if missing or not self.width > 0:
            raise PlanError(f"local_surrogate: needs width > 0 and a value in record= for every feature; missing: {missing}.")

    def __call__(self, rows: pd.DataFrame) -> pd.Series:
        from sklearn.linear_model import Ridge

        steps = np.column_stack([self.steps(rows[name], self.record[name]) for name in self.features])
        far = np.column_stack([1 - s if not _is_numeric(rows[n]) else s for n, s in zip(self.features, steps.T)])
        weight = np.exp(-(far**2).sum(axis=1) / (self.width**2 * len(self.features)))
        found = Ridge(alpha=1.0).fit(steps, _answers(self.model, rows), sample_weight=weight).coef_
        return pd.Series(found if self.signed else np.abs(found), index=list(self.features))

    def steps(self, column: pd.Series, own: Any) -> np.ndarray:
        """How far from the record, in steps; for a category whether it is the same."""
        if not _is_numeric(column):
            return (column == own).to_numpy(dtype=float)
        step = (self.scale or {}).get(str(column.name)) or column.std(ddof=0) or 1.0
        return (column.to_numpy(dtype=float) - own) / step


@dataclass(frozen=True, eq=False)
class tree_surrogate(Adapter):
    """A decision tree fitted to the model's answers on the block: the importances of its features.

    Categories enter as one column per value; the importances of a feature's columns are added.

    >>> block = pd.DataFrame({"age": [20, 30, 40, 50], "sex": ["F", "M", "F", "M"]})
    >>> tree_surrogate(lambda rows: rows["age"] > 35, features=["age", "sex"])(block).to_dict()
    {'age': 1.0, 'sex': 0.0}
    """

    model: Any
    features: Sequence[str]
    max_depth: int = 4
    needs = ("sklearn.tree", "pip install 'pellucid[sklearn]'")

    def __call__(self, rows: pd.DataFrame) -> pd.Series:
        from sklearn.tree import DecisionTreeRegressor

        columns = {name: rows[[name]] if _is_numeric(rows[name]) else pd.get_dummies(rows[name]) for name in self.features}
        owner = [name for name, own in columns.items() for _ in own]
        tree = DecisionTreeRegressor(max_depth=self.max_depth, random_state=0)
        tree.fit(np.hstack([own.to_numpy(dtype=float) for own in columns.values()]), _answers(self.model, rows))
        return pd.Series(tree.feature_importances_).groupby(owner).sum().reindex(list(self.features))


@dataclass(frozen=True, eq=False)
class h_statistic(Adapter):
    """Friedman's H on the block: how much of what the model does with two features is not a sum of one effect each.

    With `feature` the H of that one with each of the `features`; without it the H of each feature with all the others. The
    cost is quadratic in records, so at most `most` of the block are used. `pel.FeatureInteraction` releases H itself, with
    error bars, or with `ranking=True` the order alone. A vote is by real records: where ε is large enough for a few hundred
    blocks it knows how features depend on each other, but a block of 32 can get H quite wrong.
    """

    model: Any
    features: Sequence[str]
    feature: str | None = None
    most: int = 32
    needs = ("pandas", "pip install pandas")

    def __call__(self, rows: pd.DataFrame) -> pd.Series:
        rows = rows.head(self.most)
        if self.feature is not None:
            partners = [name for name in self.features if name != self.feature]
            own = self.dependence(rows, [self.feature])
            return pd.Series({name: self._pair(rows, own, name) for name in partners})
        answers = _answers(self.model, rows)
        others = {name: [other for other in self.features if other != name] for name in self.features}
        rest = {n: answers - self.dependence(rows, [n]) - self.dependence(rows, others[n]) for n in self.features}
        return pd.Series({name: _strength(left, answers) for name, left in rest.items()})

    def _pair(self, rows: pd.DataFrame, own: np.ndarray, name: str) -> float:
        both = self.dependence(rows, [str(self.feature), name])
        return _strength(both - own - self.dependence(rows, [name]), both)

    def dependence(self, rows: pd.DataFrame, names: list[str]) -> np.ndarray:
        """The mean answer over the block with some columns set to each record's values."""
        size = len(rows)
        changed = rows.iloc[np.tile(np.arange(size), size)].assign(**{n: rows[n].to_numpy().repeat(size) for n in names})
        return _answers(self.model, changed).reshape(size, size).mean(axis=1)


@dataclass(frozen=True, eq=False)
class ebm_shape(Adapter):
    """The shape of one feature in an explainable boosting machine (interpret package) that is fitted on the block.

    `target` is a declared column: a number, or with `classify` one of two classes, and then the shape is in log-odds. No
    interactions, one bag and few rounds: a fit per block has to be quick, and averaging over blocks is bagging already.
    """

    feature: str
    x: Sequence[Any]
    target: str
    features: Sequence[str] | None = None
    classify: bool = False
    max_rounds: int = 300
    needs = ("interpret.glassbox", "pip install 'pellucid[interpret]'")

    def __call__(self, rows: pd.DataFrame) -> np.ndarray:
        from interpret.glassbox import ExplainableBoostingClassifier, ExplainableBoostingRegressor

        inputs = _inputs(None, rows.drop(columns=self.target), self.features)
        machine = (ExplainableBoostingClassifier if self.classify else ExplainableBoostingRegressor)(
            interactions=0, outer_bags=1, max_rounds=self.max_rounds, n_jobs=1, random_state=0
        ).fit(inputs, rows[self.target])
        asked = inputs.iloc[[0] * len(self.x)].assign(**{self.feature: _column(self.x)})
        return machine.eval_terms(asked)[:, machine.term_features_.index((list(inputs).index(self.feature),))]


def _strength(rest: np.ndarray, whole: np.ndarray) -> float:
    """√(variance of the rest over variance of the whole); 0 where the whole does not move."""
    return float(np.sqrt(rest.var() / whole.var())) if whole.var() > 0 else 0.0


def _is_numeric(column: pd.Series | np.ndarray) -> bool:
    return pd.api.types.is_numeric_dtype(column.dtype)


def _column(x: Sequence[Any]) -> np.ndarray:
    """Public values as a column: numbers as numbers, anything else as it is."""
    plain = np.asarray(x)
    return plain if _is_numeric(plain) else np.asarray(x, dtype=object)


def _inputs(estimator: Any, rows: pd.DataFrame, features: Sequence[str] | None) -> pd.DataFrame:
    """The columns a model was fitted with; all columns where neither it nor the user names them."""
    names = features if features is not None else getattr(estimator, "feature_names_in_", rows.columns)
    return rows[list(names)]


def _answers(model: Any, rows: pd.DataFrame) -> np.ndarray:
    """A function's or an estimator's answers: of a classifier, the probability of the last class."""
    if not hasattr(model, "predict"):
        return np.asarray(model(rows), dtype=float)
    inputs = _inputs(model, rows, None)
    proba: Callable[..., np.ndarray] | None = getattr(model, "predict_proba", None)
    return np.asarray(model.predict(inputs) if proba is None else proba(inputs)[:, -1], dtype=float)
