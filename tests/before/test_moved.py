"""Code and pickles of the version before still find their modules and names."""

import json
import pickle
import subprocess
import sys
import warnings
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import pellucid as pel
from pellucid.public import moved

HERE = Path(__file__).parent
NAMES = json.loads((HERE / "names.json").read_text(encoding="utf-8"))
"""Public classes of every module that has moved, or its functions where it had no class, read off the version before.

`local.stream.Desk` is left out: it has no counterpart."""
PICKLED = pickle.loads((HERE / "pickled.bin").read_bytes())

moved.install()


@pytest.fixture
def fresh():
    """Old modules are made anew, so that they warn again."""
    for name in [name for name in sys.modules if name.removeprefix(moved.ROOT) in moved.MOVED]:
        del sys.modules[name]


def test_the_table_has_every_module_that_has_moved():
    assert set(NAMES) == set(moved.MOVED)


@pytest.mark.parametrize("old", NAMES)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_old_names_are_found(old):
    module = import_module(f"pellucid.{old}")
    for name in NAMES[old]:
        found = getattr(module, name)
        assert found.__module__.startswith("pellucid.") and found.__module__.removeprefix("pellucid.") not in moved.MOVED


@pytest.mark.parametrize("name", PICKLED["pickles"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_pickles_of_the_version_before_load(name):
    loaded = pickle.loads(PICKLED["pickles"][name])
    if name in PICKLED["texts"]:
        assert json.loads(loaded.to_json()) == PICKLED["texts"][name]
        loaded.to_frame(), loaded.plot()
    assert pickle.loads(pickle.dumps(loaded)) is not None


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_what_was_pickled_can_be_used(people):
    schema, model = (pickle.loads(PICKLED["pickles"][name]) for name in ("schema", "model"))
    assert isinstance(schema, pel.Schema) and isinstance(model, pel.Model)
    session = pel.Session(people, schema, budget=pickle.loads(PICKLED["pickles"]["budget"]))
    made = session.release(pickle.loads(PICKLED["pickles"]["explainer"]), share=1)
    assert type(made) is type(pickle.loads(PICKLED["pickles"]["curve"])) and np.isfinite(made.y).all()


def test_old_modules_warn_where_they_are_imported(fresh):
    with pytest.warns(DeprecationWarning, match=r"pellucid\.schema is now pellucid\.public\.schema") as caught:
        from pellucid.schema import Schema
    assert Schema is pel.Schema and caught[0].filename == __file__


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_modules_below_old_packages(fresh):
    import pellucid.local.weights
    from pellucid.shapley import bound

    assert bound.ShapleyVectors and pellucid.local.weights.Weight
    assert pellucid.local.weights.Weight is import_module("pellucid.local.weights").Weight


def test_what_never_was_is_not_there(fresh):
    for name in ("pellucid.nothing", "pellucid.schema.nothing", "pellucid.local.nothing"):
        with warnings.catch_warnings(action="ignore"), pytest.raises(ModuleNotFoundError):
            import_module(name)
    with warnings.catch_warnings(action="ignore"), pytest.raises(ImportError, match="nothing"):
        from pellucid.schema import nothing  # noqa: F401


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_nothing_is_hidden_by_an_old_name(fresh):
    """Importing `pellucid.a.b` sets `b` of `pellucid.a`, also when something else is called so."""
    for old in moved.MOVED:
        package, _, name = f"pellucid.{old}".rpartition(".")
        before = vars(import_module(package)).get(name)
        after = import_module(f"pellucid.{old}")
        assert before is None or before is after or before.__name__ == after.__name__, old


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_names_can_be_renamed(fresh, monkeypatch):
    monkeypatch.setitem(moved.RENAMED, "results.OldCurve", "explainers.common.results.Curve")
    from pellucid.results import Curve, OldCurve

    assert OldCurve is Curve


def test_nothing_is_imported_until_it_is_asked_for():
    code = (
        "import sys; from pellucid.public import moved; moved.install(); before = set(sys.modules); import pellucid.demo as demo;"
        "assert set(sys.modules) - before == {'pellucid.demo'}; hasattr(demo, '__file__');"
        "assert 'pellucid.cli.demo' not in sys.modules; assert demo.run and 'pellucid.cli.demo' in sys.modules"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, timeout=120)
