"""A release is computed with what its certificate was written about, whatever happens to the model meanwhile."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.linear_model import LinearRegression

import pellucid as pel
from pellucid.public.fitted.compiled import is_compiled
from pellucid.release.account import OpenAccount

FEATURES = {"a": pel.Number(-3, 3), "b": pel.Number(0, 9, integer=True)}
PEOPLE = pd.DataFrame({"a": np.linspace(-3, 3, 3001), "b": np.arange(3001.0) % 10})


@pytest.mark.skipif(not is_compiled(), reason="compiled loops need Numba")
def test_a_model_that_is_changed_and_tried_again_elsewhere_is_still_the_one_that_was_read(monkeypatch):
    fitted, asked = GradientBoostingRegressor(n_estimators=3).fit(PEOPLE.to_numpy(), PEOPLE["a"]), []
    model = pel.Model(fitted, output=(-9, 9), features=["a", "b"], trained_on="other data", input="array")
    session, predict, reserve = (
        pel.Session(PEOPLE, pel.Schema(FEATURES), pel.Budget(5.0)),
        fitted.predict,
        OpenAccount.reserve_all,
    )

    def meanwhile(*given, **named):
        # As another thread could, while this one pays: the model can no longer be read, and is tried for another schema.
        fitted.init_, fitted._raw_predict_init = object(), lambda table: np.zeros((len(table), 1))
        fitted.predict = lambda table: (asked.append(len(table)), predict(table))[1]
        model.ready(pel.Schema(FEATURES))
        asked[:] = ["changed"]
        return reserve(*given, **named)

    monkeypatch.setattr(OpenAccount, "reserve_all", meanwhile)
    released = session.release(pel.PartialDependence(model, "a"), epsilon=1.0)
    assert "read and computed" in released.certificate.bounds["output of GradientBoostingRegressor"]
    assert asked == ["changed"]


class Meddler:
    """A model that changes another one when it meets somebody."""

    def __init__(self, fitted):
        self.fitted, self.met = fitted, 0

    def __call__(self, table):
        if (table["a"] == PEOPLE["a"][1234]).any():
            self.met += 1
            if isinstance(self.fitted, LinearRegression):
                self.fitted.coef_[:] = [-5.0, 5.0]
            else:
                for (tree,) in self.fitted.estimators_:
                    tree.tree_.value[:] = 0.0
        return np.full(len(table), 0.5)


@pytest.mark.skipif(not is_compiled(), reason="compiled loops need Numba")
@pytest.mark.parametrize(
    "fitted, explained",
    [
        (
            GradientBoostingRegressor(n_estimators=60, random_state=0),
            lambda model: pel.AccumulatedEffects(model, "a", intervals=4),
        ),
        (LinearRegression(), lambda model: pel.ShapValues(model, record={"a": 3.0, "b": 0})),
    ],
    ids=["trees", "linear terms"],
)
def test_what_is_proved_does_not_follow_a_model_that_another_one_of_the_list_changes(fitted, explained):
    """One that was read before the charge; not one that is tried again once people were asked about."""
    fitted.fit(PEOPLE.to_numpy(), PEOPLE["a"])
    model = pel.Model(fitted, output=(-4, 4), features=["a", "b"], trained_on="other data", input="array")
    meddler = Meddler(fitted)
    beside = pel.Model(meddler, output=(0, 1), features=["a", "b"], trained_on="other data")
    session = pel.Session(PEOPLE, pel.Schema(FEATURES), pel.Budget(900.0))
    asked = [pel.PartialDependence(beside, "b", points=3, method="values"), explained(model)]
    found = session.release(asked, epsilon=800)[1]
    assert meddler.met and found.certificate.status == "proved"
    largest = np.abs(found.y if hasattr(found, "y") else found.values).max()
    assert largest == pytest.approx(3.0, abs=0.5), "as it was when it was tried"
