"""The tree of errors is as drawn, exported whole, and each kind is raised where a caller would act on it."""

import inspect
import json
import pickle
import subprocess
import sys

import pytest

import pellucid as pel
from pellucid import errors
from pellucid.cli.study import Study

CLASSES = [found for _, found in inspect.getmembers(errors, inspect.isclass)]


def real(parent, depth=0):
    """The names below a class as (depth, name), in the order they were defined."""
    yield depth, parent.__name__
    for child in parent.__subclasses__():
        if child.__module__.startswith("pellucid"):
            yield from real(child, depth + 1)


def drawn():
    for line in errors.__doc__.splitlines():
        if line.startswith("PellucidError") or "── " in line:
            name = line.lstrip("│├└─ ")
            yield (len(line) - len(name)) // 4, name.split()[0]


def test_the_tree_is_drawn_as_it_is():
    assert list(drawn()) == list(real(errors.PellucidError))


def test_every_error_is_exported():
    assert len(CLASSES) > 10
    for found in CLASSES:
        assert found.__name__ in pel.__all__ and getattr(pel, found.__name__) is found


def test_kinds_of_plan_errors_are_caught_as_before():
    """What was a PlanError is one still, and what Python itself would raise is caught by that name too."""
    for found in (pel.MissingExtra, pel.LoadError, pel.StreamClosed):
        assert issubclass(found, pel.PlanError) and issubclass(found, ValueError)
        assert isinstance(pickle.loads(pickle.dumps(found("words"))), found)
    assert issubclass(pel.MissingExtra, ImportError)


@pytest.mark.parametrize(
    ("gone", "ask", "words"),
    [
        ("matplotlib", "curve.plot()", "pellucid[plots]"),
        ("matplotlib", "report.picture(curve)", "pellucid[plots]"),
        ("sympy", "pel.sensitivity.partial('a**2', {'a': (0, 1)})", "pellucid[symbolic]"),
        ("sympy", "pel.LocalLinear(model, record={'a': 0.5}, weight='exp(-r)')", "pellucid[symbolic]"),
        ("shap", "pel.adapters.shap_dependence(len, 'a', [0], None)", "pellucid[shap]"),
        ("statsmodels", "demo.run(pathlib.Path('.'), None)", "pellucid[demo]"),
    ],
)
def test_a_missing_package_is_named_with_its_extra(gone, ask, words, tmp_path):
    code = f"""
import sys
sys.modules[{gone!r}] = None
import pathlib
import pellucid as pel
from pellucid.cli import demo, report
schema = pel.Schema({{"a": pel.Number(0, 1)}})
model = pel.Model(lambda rows: rows["a"], output=(0, 1), trained_on="other data")
session = pel.Session({{"a": [0.5] * 100}}, schema, budget=pel.Budget(epsilon=1.0))
curve = session.release(pel.Distribution("a", bins=2), share=1)
try:
    {ask}
except pel.MissingExtra as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert words in done.stdout, done.stderr


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", json.dumps({"format": 1}), json.dumps({"pellucid": 99})])
def test_what_is_no_saved_explanation(text, tmp_path):
    (tmp_path / "saved.json").write_text(text, encoding="utf-8")
    with pytest.raises(pel.LoadError, match="saved explanation"):
        pel.load(tmp_path / "saved.json")
    with pytest.raises(pel.LoadError, match="cannot be read"):
        pel.load(tmp_path / "nothing.json")


STUDY = {
    "data": "people.parquet",
    "features": {"age": {"number": [0, 99]}},
    "budget": {"epsilon": 1.0},
    "models": {"risk": {"load": "models.py:risk", "output": [0, 1], "trained_on": "other data"}},
    "releases": [{"explain": "PartialDependence", "model": "risk", "feature": "age", "share": 1}],
}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "does not exist"),
        ("{", "not valid JSON"),
        ("[]", "a study is a mapping"),
        (json.dumps(STUDY), r"model 'risk': 'models.py:risk' could not be loaded"),
    ],
)
def test_a_study_that_cannot_be_loaded(text, words, tmp_path):
    if text is not None:
        (tmp_path / "study.json").write_text(text, encoding="utf-8")
    with pytest.raises(pel.LoadError, match=words):
        Study.load(tmp_path / "study.json")


def test_a_flow_that_cannot_be_loaded(tmp_path):
    with pytest.raises(pel.LoadError, match="cannot be read as text"):
        pel.sensitivity.Flow.load(tmp_path / "nothing.txt")


def test_a_schema_file_stays_a_matter_of_the_schema(tmp_path):
    """Whoever loads a schema catches one class, be the file missing or its bounds wrong."""
    with pytest.raises(pel.SchemaError, match="does not exist"):
        pel.Schema.load(tmp_path / "nothing.yaml")
