"""Results in other packages: shap draws them, scikit-learn shows them, Arrow reads them."""

import html
import json

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from people import make_people, risk

import pellucid as pel

matplotlib.use("Agg")


@pytest.fixture(scope="module")
def session(schema):
    return pel.Session(make_people(800), schema, budget=pel.Budget(500.0), name="ward-7")


@pytest.fixture(scope="module")
def model(schema):
    return pel.Model(risk, output=(0, 1), features=list(schema), trained_on="other data", name="visits")


@pytest.fixture(scope="module")
def records():
    return make_people(6, seed=9).fillna(1.0).to_dict("records")


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def test_shap_draws_them(session, model, records):
    shap = pytest.importorskip("shap")
    made = session.release(pel.ShapValues(model, records[0], efficient=True), epsilon=20.0)
    told = made.to_shap()
    assert isinstance(told, shap.Explanation) and told.data is None and told.display_data is None
    lower, upper = made.interval()
    np.testing.assert_allclose(told.values, made.values)
    np.testing.assert_allclose(told.lower_bounds, lower)
    np.testing.assert_allclose(told.upper_bounds, upper)
    np.testing.assert_allclose(told.error_std, (upper - lower) / 3.92)
    assert told.base_values == pytest.approx(made.base)
    shap.plots.waterfall(told, show=False)
    plt.close("all")
    shap.plots.bar(told, show=False)


def test_shap_draws_importances_and_many_records(session, model, schema, records):
    shap = pytest.importorskip("shap")
    background = make_people(10, seed=4).fillna(1.0)
    importance = session.release(pel.ShapImportance(model, public_background=background), epsilon=5.0).to_shap()
    assert importance.data is None and list(importance.feature_names) == list(schema)
    shap.plots.bar(importance, show=False)
    plt.close("all")
    asked = {f"case {i}": pel.ShapValues(model, record) for i, record in enumerate(records)}
    several = session.release(asked, epsilon=60.0).to_shap()
    assert several.values.shape == (6, len(schema)) and several.data is None
    shap.plots.beeswarm(several, show=False)
    plt.close("all")
    shap.plots.bar(several, show=False)
    with pytest.raises(pel.PlanError, match="Shapley values of the same features"):
        session.release([pel.Distribution("age"), pel.Distribution("sex")], epsilon=1.0).to_shap()


def test_scikit_learn_shows_curves(session, model):
    from sklearn.inspection import PartialDependenceDisplay

    for feature in ("age", "school"):
        made = session.release(pel.PartialDependence(model, feature), epsilon=5.0)
        display = made.to_sklearn()
        assert isinstance(display, PartialDependenceDisplay)
        assert display.plot() is display and display.figure_ is not None
        ax = display.axes_.ravel()[0]
        drawn = [bar.get_height() for bar in ax.patches] if made.categorical else ax.get_lines()[0].get_ydata()
        np.testing.assert_allclose(drawn, made.y)
        assert not display.deciles[0]


def test_scikit_learn_reads_importances(session, schema):
    inner = pel.Model(lambda d: d["age"] / 90, output=(0, 1), features=["age", "bmi"], trained_on="other data")
    made = session.release(pel.PermutationImportance(inner, "smoker"), epsilon=5.0)
    np.testing.assert_allclose(made.to_sklearn().importances_mean, made.values)
    assert (made.to_sklearn().importances_std > 0).all()


def test_arrow_and_csv_are_the_frame(session, tmp_path):
    for explainer in (pel.Distribution("age"), pel.Distribution("lab"), pel.Distribution("smoker")):
        made = session.release(explainer, epsilon=1.0)
        frame = made.to_frame()
        assert pa.table(made).column_names == list(frame) and pl.DataFrame(made).height == len(frame)
        np.testing.assert_allclose(pl.DataFrame(made)["value"].to_numpy(), frame["value"])
        assert made.to_csv(tmp_path / "it.csv") == (tmp_path / "it.csv").read_text() == frame.to_csv(index=False)


def test_an_entry_of_the_registry_says_what_the_certificate_says(session, model, schema):
    made = session.release(pel.PartialDependence(model, "age"), epsilon=0.5, by="Ada", purpose="annual report")
    entry = made.to_registry("Visits by age", "A clinic", sector="Healthcare")
    deployment = entry["deployment"]
    assert set(deployment) == {
        "basic", "dp_variant", "privacy_loss", "deployment_model", "implementation", "administrative"
    }  # fmt: skip
    assert deployment["privacy_loss"]["privacy_parameters"] == {"epsilon": 0.5}
    assert deployment["dp_variant"]["variant_name"] == "Pure DP" and deployment["basic"]["data_product_sector"] == "Healthcare"
    assert deployment["basic"]["intended_use"] == "annual report" and json.dumps(entry)
    zcdp = pel.Session(make_people(300), schema, budget=pel.Budget(2.0, 1e-6)).release(pel.Distribution("age"), rho=0.01)
    told = zcdp.to_registry()["deployment"]
    assert told["dp_variant"]["variant_name"] == "Zero-concentrated DP"
    assert told["privacy_loss"]["privacy_parameters"] == {"rho": pytest.approx(0.01), "delta": 1e-6}


def test_a_model_card_is_one_table_whatever_names_hold(schema):
    odd = pel.Schema({"a|b": pel.Category(["x|y", "line\nbreak"])})
    made = pel.Session({"a|b": ["x|y"] * 50}, odd, budget=pel.Budget(2.0)).release(pel.Distribution("a|b"), epsilon=1.0)
    card = made.to_model_card("Shares")
    lines = [line for line in card.splitlines() if line.startswith("| ")]
    assert card.startswith("## Shares") and len(lines) == 4 and all(line.count(" | ") >= 4 for line in lines)
    assert "**Privacy:** ε = 1" in card and made.certificate.entry in card


def test_displays_are_styled_and_escape_names(session, model, schema):
    odd = pel.Schema({"<b>x</b>": pel.Category(["<script>", "b"])})
    account = pel.Session({"<b>x</b>": ["b"] * 50}, odd, budget=pel.Budget(2.0), name="<i>")
    made = account.release(pel.Distribution("<b>x</b>"), epsilon=1.0)
    listed = account.release([pel.Distribution("<b>x</b>")], epsilon=0.5)
    plan, preview = (ask(pel.Distribution("<b>x</b>"), epsilon=0.25) for ask in (account.plan, account.preview))
    for thing in (
        account,
        made,
        made.certificate,
        listed,
        plan,
        preview,
        account.preview([pel.Distribution("<b>x</b>")], epsilon=0.1),
    ):
        shown = thing._repr_html_()
        assert 'class="pellucid"' in shown and "prefers-color-scheme:dark" in shown
        assert "<b>x" not in shown and "<script>" not in shown and "<i>" not in shown
    assert html.escape("'<i>'") in account._repr_html_() and "Session('<i>'" in repr(account)


def test_tab_completion_shows_public_names_only(session):
    assert [name for name in dir(pel) if not name.startswith("__")] == sorted(pel.__all__)
    shown = {name for name in dir(session) if not name.startswith("_")}
    assert {"release", "preview", "open", "remaining", "spent", "schema"} <= shown
    assert all(getattr(type(session), name).__doc__ for name in shown if name in dir(type(session)))
