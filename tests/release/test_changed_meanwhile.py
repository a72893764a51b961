"""A release is computed with what its certificate was written about, whatever happens to the model meanwhile."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingRegressor

import pellucid as pel
from pellucid.public.fitted.compiled import is_compiled
from pellucid.release.account import OpenAccount

FEATURES = {"a": pel.Number(-3, 3), "b": pel.Number(0, 9, integer=True)}
PEOPLE = pd.DataFrame({"a": np.linspace(-3, 3, 3001), "b": np.arange(3001.0) % 10})


@pytest.mark.skipif(not is_compiled(), reason="compiled loops need Numba")
def test_a_model_that_is_changed_and_tried_again_elsewhere_is_still_the_one_that_was_read(monkeypatch):
    fitted, asked = GradientBoostingRegressor(n_estimators=3).fit(PEOPLE.to_numpy(), PEOPLE["a"]), []
    model = pel.Model(fitted, output=(-9, 9), features=["a", "b"], trained_on="other data", input="array")
    session, predict, reserve = pel.Session(PEOPLE, pel.Schema(FEATURES), pel.Budget(5.0)), fitted.predict, OpenAccount.reserve

    def meanwhile(*given, **named):
        # As another thread could, while this one pays: the model can no longer be read, and is tried for another schema.
        fitted.init_, fitted._raw_predict_init = object(), lambda table: np.zeros((len(table), 1))
        fitted.predict = lambda table: (asked.append(len(table)), predict(table))[1]
        model.ready(pel.Schema(FEATURES))
        asked.clear()
        return reserve(*given, **named)

    monkeypatch.setattr(OpenAccount, "reserve", meanwhile)
    released = session.release(pel.PartialDependence(model, "a"), epsilon=1.0)
    assert "read and computed" in released.certificate.bounds["output of GradientBoostingRegressor"]
    assert asked == []
