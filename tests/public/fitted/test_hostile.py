"""Models that hold what no library would put there: they are asked, and neither followed for ever nor let near the records."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingRegressor, HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.tree import DecisionTreeRegressor

import pellucid as pel
from pellucid.public.fitted import compiled, xgboost_trees
from pellucid.public.fitted.read import Read, read
from pellucid.public.fitted.settled import _places

pytestmark = pytest.mark.skipif(not compiled.is_compiled(), reason="compiled loops need Numba")
SCHEMA = pel.Schema({"a": pel.Number(-3, 3), "b": pel.Number(0, 9, integer=True)})
TABLE = np.column_stack([np.linspace(-3, 3, 60), np.arange(60.0) % 10])


def model(estimator, **given):
    return pel.Model(estimator, output=(-100, 100), features=["a", "b"], trained_on="other data", input="array", **given)


def reason(estimator):
    """Why a model is not read; None if it is."""
    found = read(model(estimator).ready(SCHEMA))
    return None if isinstance(found, Read) else found


class Nodes:
    """What stands in the place of a tree of scikit-learn."""

    def __init__(self, left, right, column=0, value=0.0):
        self.children_left, self.children_right = np.array(left), np.array(right)
        inner = self.children_left != -1
        self.feature, self.threshold = np.where(inner, column, -2), np.where(inner, 0.5, -2.0)
        self.value = np.full((len(inner), 1, 1), value)
        self.missing_go_to_left = np.zeros(len(inner), dtype=bool)


def forest(*trees):
    """A forest of such trees that passes its trial."""
    made = RandomForestRegressor(1, max_depth=1).fit(TABLE, TABLE[:, 0])
    made.estimators_ = []
    for tree in trees:
        made.estimators_.append(DecisionTreeRegressor(max_depth=1).fit(TABLE, TABLE[:, 0]))
        made.estimators_[-1].tree_ = tree
    made.predict = lambda table: np.zeros(len(table))
    return made


DEPTH = 60
NO_TREES = {
    "a node that is its own child": ([0, -1], [1, -1]),
    "a cycle": ([1, 2, 0, -1], [3, 3, 3, -1]),
    "two nodes with the same children": ([*range(1, DEPTH + 1), -1], [*range(1, DEPTH + 1), -1]),
    "a child outside": ([7, -1], [1, -1]),
    "a child before the first node": ([-2, -1, -1], [1, -1, -1]),
    "no nodes": ([], []),
}


@pytest.mark.parametrize("nodes", NO_TREES.values(), ids=NO_TREES)
def test_what_is_no_tree_is_asked_and_not_walked(nodes):
    assert "not as they should be" in reason(forest(Nodes(*nodes)))


@pytest.mark.parametrize("column", [2, 10**9, -1])
def test_a_column_that_the_model_does_not_have_is_not_looked_at(column):
    assert "not as they should be" in reason(forest(Nodes([1, -1, -1], [2, -1, -1], column)))


def test_a_tree_made_by_hand_is_read():
    assert reason(forest(Nodes([1, -1, -1], [2, -1, -1], 1))) is None


def test_leaves_whose_sum_is_no_number_are_not_rounded():
    boosted = GradientBoostingRegressor(n_estimators=4, learning_rate=1.0).fit(TABLE, TABLE[:, 0])
    trees = forest(*(Nodes([-1], [-1], value=value) for value in (1.7e308, -1.7e308, 1.7e308, -1.7e308))).estimators_
    boosted.estimators_, boosted.predict = np.array(trees)[:, None], lambda table: np.zeros(len(table))
    assert "too large" in reason(boosted)


def test_a_model_without_trees_is_asked():
    boosted = HistGradientBoostingRegressor(max_iter=1).fit(TABLE, TABLE[:, 0])
    boosted._predictors = []
    assert "without a tree" in reason(boosted)


def test_a_model_of_xgboost_without_trees_is_asked():
    xgboost = pytest.importorskip("xgboost")
    assert "without a tree" in reason(xgboost.XGBRegressor(n_estimators=0).fit(TABLE, TABLE[:, 0]))


def test_children_of_xgboost_that_lead_back_are_not_followed_for_ever():
    assert xgboost_trees._reached(np.array([1, 0, -1]), np.array([2, 1, -1])).all()


def test_a_tree_of_catboost_with_too_few_leaves_is_asked(monkeypatch):
    catboost = pytest.importorskip("catboost")
    made = catboost.CatBoostRegressor(iterations=2, depth=2, verbose=0, allow_writing_files=False).fit(TABLE, TABLE[:, 0])
    save = made.save_model

    def shortened(file, **given):
        save(file, **given)
        with open(file, encoding="utf-8") as stream:
            written = json.load(stream)
        written["oblivious_trees"][0]["splits"] *= 20
        with open(file, "w", encoding="utf-8") as stream:
            json.dump(written, stream)

    monkeypatch.setattr(made, "save_model", shortened)
    assert "leaves" in reason(made)


def test_points_are_within_those_of_a_feature_whatever_is_looked_up():
    points = np.array([3.0, 4.0, 5.0, np.nan])
    assert _places(points, np.array([3.0, 5.0, np.nan, 1e300, -1e300, 99.0, np.inf])).tolist() == [0, 2, 3, 3, 0, 3, 3]


class Curious(np.ndarray):
    """An array that looks at what it is added to."""

    seen: list[int] = []

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **given):
        self.seen += [len(part) for part in inputs if np.ndim(part) and not isinstance(part, Curious)]
        plain = [np.asarray(part) if isinstance(part, Curious) else part for part in inputs]
        return getattr(ufunc, method)(*plain, **({} if out is None else {"out": out}), **given)

    def __iter__(self):
        return (np.asarray(self)[i : i + 1].reshape(()).view(Curious) for i in range(len(self)))


def test_no_array_of_a_model_meets_the_records():
    boosted = GradientBoostingRegressor(n_estimators=3).fit(TABLE, TABLE[:, 0])
    start = boosted._raw_predict_init
    # Asked about one record, as reading it does, it answers with an array of another class.
    boosted._raw_predict_init = lambda table: start(table).view(Curious) if len(table) == 1 else start(table)
    people = pd.DataFrame(np.tile(TABLE, (4, 1)), columns=["a", "b"])
    session = pel.Session(people, SCHEMA, pel.Budget(5.0))
    released = session.release(pel.PartialDependence(model(boosted), "a"), epsilon=1.0)
    assert released.certificate.to_dict()["bounds"]["output of GradientBoostingRegressor"].count("read and computed")
    assert len(people) not in Curious.seen
