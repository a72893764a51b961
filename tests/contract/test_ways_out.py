"""Every way out of every result: nothing of a record in it, nothing that a page would have to fetch, and it fits its schema."""

import json
import pickle
import re
from pathlib import Path
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pyarrow as pa
import pytest
from checks import release
from people import make_people
from sklearn.neighbors import KNeighborsRegressor
from test_contract import EXPLAINERS, examples

import pellucid as pel
from pellucid.release import json_schema

jsonschema = pytest.importorskip("jsonschema")
matplotlib.use("Agg")

SCHEMAS = Path(__file__).parents[2] / "schemas"


class Logged(dict):
    """Logs as MLflow does, into a dictionary."""

    def log_text(self, text, name):
        self[name] = text

    def log_metric(self, name, value):
        self[name] = repr(value)


def ways_out(result):
    """Each way out by name, as bytes."""
    logged = Logged()
    result.log_to(logged, "it")
    assert {"it/result.json", "it/numbers.csv", "it/model-card.md", "it/certificate.json", "it/picture.svg"} <= set(logged)
    found = {
        "html": result._repr_html_(), "svg": result.to_svg(), "csv": result.to_csv(), "card": result.to_model_card(),
        "registry": json.dumps(result.to_registry()), "printed": str(result), "headline": result.headline,
        "certificate": result.certificate._repr_html_(), **logged,
    }  # fmt: skip
    raw = {"arrow": pickle.dumps(pa.table(result))}
    for name in ("to_shap", "to_sklearn"):
        if hasattr(result, name):
            made = getattr(result, name)()
            raw[name] = pickle.dumps(made if name == "to_shap" else vars(made))
    return {**{name: text.encode() for name, text in found.items()}, **raw}


QUICK = {"PartialDependence", "ShapValues", "LocalLinear", "ClusterHistograms", "PermutationImportance"}
"""One of each kind of result; the others are slow, and the canary in their JSON is looked for in any case."""


@pytest.mark.parametrize(
    "explainer",
    [pytest.param(e, id=e.__name__, marks=[] if e.__name__ in QUICK else pytest.mark.slow) for e in EXPLAINERS],
)
def test_a_canary_is_in_no_way_out(explainer, schema):
    people = make_people(400)
    people.loc[7, "bmi"] = canary = 31.415926535897931
    carrying = KNeighborsRegressor(3).fit(people[["age", "bmi"]].to_numpy(float), np.linspace(0, 1, 400))
    model = pel.Model(carrying, output=(0, 1), features=["age", "bmi"], trained_on="this data")
    validator = jsonschema.Draft202012Validator(json.loads((SCHEMAS / "result-1.json").read_text()))
    for example in examples(explainer, model, schema):
        result = release(example, people, schema)
        for name, text in ways_out(result).items():
            assert repr(canary)[:12].encode() not in text and np.float64(canary).tobytes() not in text, name
        validator.validate(json.loads(result.to_json()))
        drawn = result.to_svg()
        ElementTree.fromstring(drawn)
        told = re.sub(r'xmlns(:xlink)?="[^"]*"', "", drawn)
        assert "<script" not in drawn and not re.search(r"https?://|@import|url\((?!#)", told)
        assert drawn.count('class="mark"') >= 1
        matplotlib.pyplot.close("all")


def test_published_schemas_are_those_of_this_version(tmp_path):
    """`python -m pellucid.release.json_schema schemas` writes them."""
    for made in json_schema.write(tmp_path):
        assert json.loads(made.read_text()) == json.loads((SCHEMAS / made.name).read_text()), made.name


def test_schemas_refuse_what_is_wrong(schema, people):
    made = json.loads(release(pel.Distribution("age", bins=4), people.iloc[:300], schema).to_json())
    validator = jsonschema.Draft202012Validator(json.loads((SCHEMAS / "result-1.json").read_text()))
    wrong = [
        {**made, "format": 2},
        {**made, "kind": "unheard of"},
        {**made, "content": {**made["content"], "counts": "many"}},
        {**made, "content": {name: value for name, value in made["content"].items() if name != "law"}},
        {**made, "certificate": {**made["certificate"], "status": "very private"}},
        {**made, "certificate": {**made["certificate"], "epsilon": -1}},
    ]
    assert validator.is_valid(made) and not any(validator.is_valid(body) for body in wrong)
