"""A study file: data, schema, models and a list of releases, as YAML or JSON, for the command line.

    name: ward-7
    data: people.parquet
    schema: schema.yaml            # or the columns themselves under `features:`
    budget: {epsilon: 2.0}         # add delta: 1e-6 for a zCDP account
    ledger: study.db
    neighbors: replace             # or add-remove, with expected_rows: 10000
    unit: {column: patient_id, max_rows: 3}
    models:
      risk: {load: "models.py:risk", output: [0, 1], trained_on: other data}
    clusterings:
      segments: {load: "models.py:segments", clusters: [0, 1, 2], trained_on: other data}
    releases:
      - {explain: PartialDependence, model: risk, feature: age, share: 0.25}
      - {explain: Distribution, feature: age, epsilon: 0.1}
      - {explain: ClusterHistograms, groups: segments, epsilon: 0.2}
      - {explain: PermutationImportance, model: risk, target: outcome, ranking: true, epsilon: 0.2}
      - {explain: PrivatePlot, function: "models.py:curve", x: age, output: [0, 1], epsilon: 0.2}

Paths are relative to the study file. `load` is `file.py:name`, `package.module:name`, or a .joblib or .pkl file.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import explainers
from ..errors import LoadError, PlanError
from ..explainers import Explainer
from ..ledger.accounting import Budget
from ..public.black_box import PrivateTraining
from ..public.clustering import Clustering
from ..public.model import Model
from ..public.schema import Schema, Unit, did_you_mean, read_structured
from ..query.functions import sent_whole
from ..release.session import Session

KNOWN = {
    "name",
    "data",
    "schema",
    "features",
    "budget",
    "ledger",
    "neighbors",
    "unit",
    "expected_rows",
    "models",
    "clusterings",
    "releases",
    "output",
}
COSTS = ("epsilon", "rho", "share")


@dataclass(frozen=True)
class Release:
    """One line of a study: what to release, for how much, under which title."""

    title: str
    explainer: Explainer
    cost: dict[str, Any]

    @property
    def slug(self) -> str:
        return re.sub(r"[^a-z0-9]+", "-", self.title.lower()).strip("-")


@dataclass(frozen=True)
class Study:
    """A study that was read and checked, with its session open."""

    session: Session
    releases: tuple[Release, ...]
    folder: Path
    output: Path

    @classmethod
    def load(cls, path: str | Path) -> Study:
        """Read, check and open a study. Nothing is charged, and no row is read but for the ids that say who is one person."""
        path = Path(path)
        content = read_structured(path, "study")
        if not isinstance(content, Mapping):
            raise LoadError(f"{path.name}: a study is a mapping with data:, schema:, budget: and releases:.")
        _only(path.name, content, KNOWN)
        for key in ("data", "budget", "releases"):
            if key not in content:
                raise PlanError(f"{path.name}: '{key}:' is missing.")
        folder = path.resolve().parent
        schema = _schema(path.name, content, folder)
        models = {str(name): _model(str(name), entry, folder) for name, entry in _section(path.name, content, "models").items()}
        if not isinstance(content["releases"], list) or not content["releases"]:
            raise PlanError(f"{path.name}: 'releases:' needs a list with at least one entry.")
        groups = {
            str(name): _clustering(str(name), entry, folder)
            for name, entry in _section(path.name, content, "clusterings").items()
        }
        boxes: dict[str, tuple[str, Mapping[str, Any]]] = {"model": ("models", models), "groups": ("clusterings", groups)}
        releases = tuple(_release(i, entry, boxes, folder) for i, entry in enumerate(content["releases"], 1))
        ledger = content.get("ledger")
        session = Session(
            folder / str(content["data"]),
            schema,
            budget=Budget(**_mapping(f"{path.name}: budget", content["budget"], {"epsilon", "delta"})),
            neighbors=content.get("neighbors", "replace"),
            name=content.get("name"),
            ledger=folder / str(ledger) if ledger else None,
            unit=Unit(**_mapping(f"{path.name}: unit", content["unit"], {"column", "max_rows"})) if content.get("unit") else None,
            expected_rows=content.get("expected_rows"),
        )
        return cls(session, releases, folder, folder / str(content.get("output", "results")))


def _only(where: str, content: Mapping[str, Any], known: set[str]) -> None:
    for key in content:
        if key not in known:
            raise PlanError(f"{where}: {key!r} is not known{did_you_mean(key, known)}.")


def _mapping(where: str, content: Any, known: set[str]) -> dict[str, Any]:
    if not isinstance(content, Mapping):
        raise PlanError(f"{where}: give a mapping with {', '.join(sorted(known))}.")
    _only(where, content, known)
    return dict(content)


def _section(where: str, content: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = content.get(key) or {}
    if not isinstance(found, Mapping):
        raise PlanError(f"{where}: '{key}:' needs a name for each of them, with its settings below it.")
    return found


def _schema(where: str, content: Mapping[str, Any], folder: Path) -> Schema:
    if ("schema" in content) == ("features" in content):
        raise PlanError(f"{where}: give either 'schema:' (a file) or 'features:' (the columns themselves).")
    return Schema.load(folder / str(content["schema"])) if "schema" in content else Schema.from_dict(content)


def _model(name: str, entry: Any, folder: Path) -> Model:
    what = f"model {name!r}"
    options = _mapping(what, entry, {"load", "output", "features", "trained_on", "positive", "input"})
    loaded = _black_box(what, name, options, folder)
    return loaded if isinstance(loaded, Model) else Model(loaded, name=name, **options)


def _clustering(name: str, entry: Any, folder: Path) -> Clustering:
    what = f"clustering {name!r}"
    options = _mapping(what, entry, {"load", "clusters", "features", "trained_on", "input"})
    loaded = _black_box(what, name, options, folder)
    return loaded if isinstance(loaded, Clustering) else Clustering(loaded, name=name, **options)


def _black_box(what: str, name: str, options: dict[str, Any], folder: Path) -> Any:
    """Load what `load:` names, and leave the other options ready for it."""
    if "load" not in options:
        raise PlanError(f"{what}: 'load:' is missing; for example load: \"models.py:{name}\".")
    trained_on = options.get("trained_on")
    if isinstance(trained_on, Mapping):
        options["trained_on"] = PrivateTraining(**_mapping(f"{what}: trained_on", trained_on, {"epsilon", "delta"}))
    return _load(what, str(options.pop("load")), folder)


def _load(what: str, place: str, folder: Path) -> Any:
    """Import a model or clustering. Its code is the owner's and runs with the owner's rights."""
    try:
        if place.endswith((".joblib", ".pkl", ".pickle")):
            import joblib

            return joblib.load(folder / place)
        module_name, _, attribute = place.rpartition(":")
        if not module_name:
            raise PlanError(f"{what}: load: {place!r} needs the form file.py:name or package.module:name.")
        if module_name.endswith(".py"):
            spec = importlib.util.spec_from_file_location(f"pellucid_study_{Path(module_name).stem}", folder / module_name)
            if spec is None or spec.loader is None:
                raise ImportError
            module = importlib.util.module_from_spec(spec)
            sys.modules[spec.name] = module
            sent_whole(spec.name)
            spec.loader.exec_module(module)
        else:
            module = importlib.import_module(module_name)
        return getattr(module, attribute)
    except PlanError:
        raise
    except Exception as error:
        raise LoadError(f"{what}: {place!r} could not be loaded ({type(error).__name__}); check the path and the name.") from None


def _release(number: int, entry: Any, boxes: Mapping[str, tuple[str, Mapping[str, Any]]], folder: Path) -> Release:
    where = f"release {number}"
    if not isinstance(entry, Mapping) or "explain" not in entry:
        raise PlanError(f"{where}: give 'explain:' with the name of an explainer.")
    kinds = {name: getattr(explainers, name) for name in explainers.__all__ if name != "Explainer"}
    kind = str(entry["explain"])
    if kind not in kinds:
        raise PlanError(f"{where}: {kind!r} is not an explainer{did_you_mean(kind, kinds)}.")
    known = set(inspect.signature(kinds[kind]).parameters)
    options = {key: value for key, value in entry.items() if key not in ("explain", "title", *COSTS)}
    _only(where, options, known)
    for option, (section, made) in boxes.items():
        if option not in known:
            continue
        if option not in options:
            raise PlanError(f"{where}: {kind} needs '{option}:', one of those under {section}:{did_you_mean('', made)}.")
        chosen = str(options[option])
        if chosen not in made:
            raise PlanError(f"{where}: {section}: has no {chosen!r}{did_you_mean(chosen, made)}.")
        options[option] = made[chosen]
    if "function" in options:
        options["function"] = _load(f"{where}: function", str(options["function"]), folder)
    cost = {key: entry[key] for key in COSTS if key in entry}
    if len(cost) != 1:
        raise PlanError(f"{where}: say what it may cost with exactly one of epsilon:, rho: or share:.")
    try:
        explainer = kinds[kind](**options)
    except TypeError:
        raise PlanError(f"{where}: {kind} needs {', '.join(sorted(known - set(options)))}.") from None
    about = next((entry[key] for key in ("feature", "formula", "groups", "target", "function") if entry.get(key)), "")
    named = about if isinstance(about, str) else ", ".join(str(f) for f in about or ())
    return Release(str(entry.get("title", f"{number:02d} {kind} {named}")), explainer, cost)
