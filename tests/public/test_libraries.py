"""Models as people have them: recognised, asked in the right way, or asked about in words."""

import zipfile

import numpy as np
import pandas as pd
import pytest

import pellucid as pel

SCHEMA = pel.Schema({"age": pel.Number(0, 90), "pay": pel.Number(-3, 3), "ward": pel.Category(["A", "B", "C"])})
NUMBERS = ["age", "pay"]
RNG = np.random.default_rng(0)
PEOPLE = pd.DataFrame({"age": RNG.uniform(0, 90, 600), "pay": RNG.normal(size=600), "ward": RNG.choice(list("ABC"), 600)})
GROUP = np.digitize(PEOPLE["age"], [30, 60])


def explained(model, feature="age"):
    session = pel.Session(PEOPLE, SCHEMA, budget=pel.Budget(epsilon=1000))
    return session.release(pel.PartialDependence(model, feature), epsilon=1000)


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch")


def network(torch, seed, outputs=1, end=None):
    torch.manual_seed(seed)
    width, deep = 3 + 7 * (seed % 5), 1 + seed % 3
    layers = [torch.nn.Linear(2, width), torch.nn.Tanh() if seed % 2 else torch.nn.ReLU()]
    for _ in range(deep - 1):
        layers += [torch.nn.Linear(width, width), torch.nn.ReLU()]
    layers += [torch.nn.Linear(width, outputs), end or torch.nn.Sigmoid()]
    return torch.nn.Sequential(*layers)


@pytest.mark.parametrize("seed", range(25))
def test_small_networks_in_single_precision(torch, seed):
    model = pel.Model(network(torch, seed), features=NUMBERS, trained_on="other data")
    assert model.output == (0, 1) and model.predictor.module.training
    model.ready(SCHEMA)
    assert model.predictor.module.training  # as it was


def test_a_network_is_explained(torch):
    net = network(torch, 3)
    curve = explained(pel.Model(net, features=NUMBERS, trained_on="other data"))
    given = PEOPLE[NUMBERS].assign(age=curve.x[0]).to_numpy(np.float32)
    with torch.no_grad():
        truth = float(net(torch.as_tensor(given)).mean())
    assert curve.y[0] == pytest.approx(truth, abs=0.05)


def test_dropout_and_statistics_of_the_batch_are_switched_off(torch):
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.BatchNorm1d(8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 1))
    pel.Model(net, output=(-9, 9), features=NUMBERS, trained_on="other data").ready(SCHEMA)


def test_one_of_several_outputs(torch):
    net = network(torch, 1, outputs=3, end=torch.nn.Softmax(dim=1))
    one = pel.Model(net, features=NUMBERS, trained_on="other data", positive=2)
    answers = one.ready(SCHEMA).predict(np.array([[30.0, 0.0]]))
    assert answers[0] == pytest.approx(float(net(torch.tensor([[30.0, 0.0]]))[0, 2]), abs=1e-6)
    for positive, words in ((None, "3 outputs"), (3, "3 outputs")):
        with pytest.raises(pel.ModelError, match=words):
            pel.Model(net, features=NUMBERS, trained_on="other data", positive=positive).ready(SCHEMA)
    with pytest.raises(pel.ModelError, match="number of an output"):
        pel.Model(net, features=NUMBERS, trained_on="other data", positive="B")


def test_what_a_network_does_not_say_is_asked_for(torch):
    net = torch.nn.Sequential(torch.nn.Linear(2, 1))
    with pytest.raises(pel.ModelError, match="features="):
        pel.Model(net, output=(0, 1), trained_on="other data")
    with pytest.raises(pel.ModelError, match="sigmoid"):
        pel.Model(net, features=NUMBERS, trained_on="other data")
    with pytest.raises(pel.ModelError, match="input='codes'"):
        pel.Model(net, output=(0, 1), features=["age", "ward"], trained_on="other data").ready(SCHEMA)
    pel.Model(net, output=(-99, 99), features=["age", "ward"], input="codes", trained_on="other data").ready(SCHEMA)


def test_a_too_narrow_range_is_noticed_on_public_records(torch):
    net = torch.nn.Sequential(torch.nn.Linear(2, 1))
    with torch.no_grad():
        net[0].weight.fill_(1.0)
    model = pel.Model(net, output=(0, 1), features=NUMBERS, trained_on="other data")
    session = pel.Session(PEOPLE, SCHEMA, budget=pel.Budget(epsilon=1))
    assert "outside its declared range" in str(session.preview(pel.PartialDependence(model, "age"), epsilon=0.5))


def forest(classes=3):
    from sklearn.ensemble import RandomForestClassifier

    names = np.array(["low", "mid", "high"])[GROUP] if classes == 3 else GROUP > 0
    return RandomForestClassifier(8, max_depth=4, random_state=0).fit(PEOPLE[NUMBERS], names)


def test_a_forest_of_three_classes():
    with pytest.raises(pel.ModelError, match="3 classes"):
        pel.Model(forest(), trained_on="other data")
    curve = explained(pel.Model(forest(), positive="high", trained_on="other data"))
    assert curve.y[0] < 0.2 and curve.y[-1] > 0.8 and curve.certificate.status == "proved"


def test_all_classes_for_one_charge():
    models = pel.Model.each_class(forest(), trained_on="other data")
    assert list(models) == ["high", "low", "mid"]
    session = pel.Session(PEOPLE, SCHEMA, budget=pel.Budget(epsilon=900))
    found = session.release({name: pel.PartialDependence(model, "age", points=5) for name, model in models.items()}, epsilon=900)
    assert float(session.remaining.epsilon) == 0
    assert np.allclose(sum(found[name].y for name in models), 1, atol=0.1)
    with pytest.raises(pel.ModelError, match="names of their classes"):
        pel.Model.each_class(lambda d: d["age"], output=(0, 1), trained_on="other data")


@pytest.mark.parametrize("zipmap", [True, False])
def test_onnx_files(tmp_path, zipmap):
    skl2onnx = pytest.importorskip("skl2onnx")
    onnxruntime = pytest.importorskip("onnxruntime")
    fitted = forest(2)
    kinds = [("x", skl2onnx.common.data_types.FloatTensorType([None, 2]))]
    content = skl2onnx.convert_sklearn(fitted, initial_types=kinds, options={"zipmap": zipmap}).SerializeToString()
    (tmp_path / "risk.onnx").write_bytes(content)
    curve = explained(pel.Model(tmp_path / "risk.onnx", features=NUMBERS, trained_on="other data"))
    truth = fitted.predict_proba(PEOPLE[NUMBERS].assign(age=curve.x[-1]))[:, 1].mean()
    assert curve.y[-1] == pytest.approx(truth, abs=0.05)
    session = onnxruntime.InferenceSession(content)
    pel.Model(session, features=NUMBERS, trained_on="other data").ready(SCHEMA)
    with pytest.raises(pel.ModelError, match="features="):
        pel.Model(tmp_path / "risk.onnx", trained_on="other data")
    (tmp_path / "broken.onnx").write_bytes(b"no model")
    with pytest.raises(pel.ModelError, match="cannot read"):
        pel.Model(tmp_path / "broken.onnx", features=NUMBERS, trained_on="other data")


def test_onnx_with_an_input_for_each_column(tmp_path):
    skl2onnx = pytest.importorskip("skl2onnx")
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    steps = make_column_transformer((OneHotEncoder(), ["ward"]), remainder="passthrough")
    fitted = make_pipeline(steps, LogisticRegression()).fit(PEOPLE, GROUP > 0)
    types = skl2onnx.common.data_types
    kinds = [("age", types.FloatTensorType([None, 1])), ("pay", types.FloatTensorType([None, 1]))]
    made = skl2onnx.convert_sklearn(fitted, initial_types=[*kinds, ("ward", types.StringTensorType([None, 1]))])
    (tmp_path / "risk.onnx").write_bytes(made.SerializeToString())
    model = pel.Model(tmp_path / "risk.onnx", trained_on="other data")
    assert model.features == ("age", "pay", "ward")
    assert explained(model).y[-1] > 0.5


def test_a_skops_file_names_no_programs_by_way_of_scikit_learn(tmp_path):
    """Modules of scikit-learn also have functions of others, one of which runs whatever it is given."""
    io = pytest.importorskip("skops.io")
    from subprocess import check_output

    from sklearn.preprocessing import FunctionTransformer

    io.dump(FunctionTransformer(check_output), tmp_path / "honest.skops")
    with zipfile.ZipFile(tmp_path / "honest.skops") as honest, zipfile.ZipFile(tmp_path / "evil.skops", "w") as evil:
        for name in honest.namelist():
            evil.writestr(name, honest.read(name).replace(b'"subprocess"', b'"sklearn.utils._testing"'))
    assert io.get_untrusted_types(file=tmp_path / "evil.skops") == ["sklearn.utils._testing.check_output"]
    with pytest.raises(pel.ModelError, match="check_output"):
        pel.Model(tmp_path / "evil.skops", output=(0, 1), trained_on="other data")


def test_skops_files(tmp_path):
    io = pytest.importorskip("skops.io")
    io.dump(forest(2), tmp_path / "risk.skops")
    assert explained(pel.Model(tmp_path / "risk.skops", trained_on="other data")).certificate.status == "proved"


@pytest.mark.parametrize(
    ("name", "words"), [("m.joblib", "load it first"), ("m.zip", "only .onnx"), ("none.onnx", "does not exist")]
)
def test_other_files_are_refused_in_words(name, words):
    with pytest.raises(pel.ModelError, match=words):
        pel.Model(name, output=(0, 1), trained_on="other data")


def categories():
    return PEOPLE.astype({"ward": "category"})


def test_xgboost_with_native_categories():
    xgboost = pytest.importorskip("xgboost")
    fitted = xgboost.XGBClassifier(n_estimators=5, enable_categorical=True, n_jobs=1).fit(categories(), GROUP > 0)
    whole = explained(pel.Model(fitted, trained_on="other data"))
    booster = pel.Model(fitted.get_booster(), output=(0, 1), trained_on="other data")
    assert booster.features == ("age", "pay", "ward")
    assert explained(booster).y[-1] == pytest.approx(whole.y[-1], abs=0.05) and whole.certificate.status == "proved"


def test_lightgbm_with_native_categories():
    lightgbm = pytest.importorskip("lightgbm")
    fitted = lightgbm.LGBMClassifier(n_estimators=5, verbose=-1, n_jobs=1).fit(categories(), GROUP > 0)
    assert explained(pel.Model(fitted, trained_on="other data")).certificate.status == "proved"
    booster = pel.Model(fitted.booster_, output=(0, 1), trained_on="other data")
    assert booster.features == ("age", "pay", "ward") and explained(booster).y[-1] > 0.5


def test_catboost_knows_its_columns():
    catboost = pytest.importorskip("catboost")
    fitted = catboost.CatBoostClassifier(
        iterations=5, verbose=0, cat_features=["ward"], thread_count=1, allow_writing_files=False
    )
    model = pel.Model(fitted.fit(PEOPLE, GROUP > 0), trained_on="other data")
    assert model.features == ("age", "pay", "ward") and explained(model).y[-1] > 0.5


def test_keras(torch, monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    try:
        import keras
    except ImportError:
        pytest.skip("Keras is not installed")
    keras.utils.set_random_seed(0)
    layers = [keras.layers.Input((2,)), keras.layers.Dense(8, activation="relu"), keras.layers.Dense(1, activation="sigmoid")]
    model = pel.Model(keras.Sequential(layers), features=NUMBERS, trained_on="other data")
    assert model.output == (0, 1)
    model.ready(SCHEMA)
