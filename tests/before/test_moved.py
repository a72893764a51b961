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
"""Classes and functions of every module that has moved, but for those with an underscore, read off the version before."""

GONE = {
    # Units of noise in one step: answers come in the units of their bound now.
    "explainers.accumulated_effects": {"units_per_clip"},
    # What was foreseen of noise alone: previews know what a clip cuts off, too.
    "accumulate": {"noise_alone"},
    # The arguments of a desk in one object; a stream's channel takes them as they are.
    "local.desk": {"Opened"},
    # Scores and charges of a start, and noise of moments: every query is calibrated and charged at the door.
    "local.exact": {"moments_mechanism", "start_charge", "start_norm", "start_score"},
    # A sum and its price as a pair.
    "local.individual": {"Question"},
    # Trees on encoded columns: they are walked on declared values.
    "shapley.trees": {"Forest", "walker"},
}
"""Internals that have no successor."""

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
    """Each where the table says it is defined now: a name that another module happens to import may be something else."""
    module = import_module(f"pellucid.{old}")
    for name in set(NAMES[old]) - GONE.get(old, set()):
        found = getattr(module, name)
        place = f"{found.__module__}.{found.__name__}".removeprefix("pellucid.")
        renamed = moved.RENAMED.get(f"{old}.{name}")
        assert place == renamed if renamed else place in [f"{where}.{name}" for where in moved.MOVED[old].split()]


@pytest.mark.parametrize("old", GONE)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_what_is_gone_is_not_answered_with_something_else(old):
    for name in GONE[old]:
        assert name in NAMES[old] and not hasattr(import_module(f"pellucid.{old}"), name)


def test_every_place_in_the_table_exists():
    for place in {place for places in moved.MOVED.values() for place in places.split()}:
        assert import_module(f"pellucid.{place}").__name__ == f"pellucid.{place}" and place not in moved.MOVED
    for old in moved.RENAMED:
        assert old.rpartition(".")[0] in moved.MOVED


@pytest.mark.parametrize(
    ("package", "names"),
    [
        ("engine", "Engine shielded"),
        ("query", "Records Pairs Couples Blocks Sum Joint Choice changes parts_of sensitivity relative_scales"),
        ("ledger", "Ledger Account Entry Reservation VerifyResult SCALE budget_units charge_units from_units"),
        ("cli", "main"),
    ],
)
def test_modules_that_are_packages_now_have_the_names_they_had(package, names):
    assert set(names.split()) <= set(dir(import_module(f"pellucid.{package}")))


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
    assert isinstance(pickle.loads(PICKLED["pickles"]["curve"]), pel.Curve)
    assert isinstance(made, pel.Curve | pel.DependenceCurve) and np.isfinite(made.y).all()


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
